//! The decisions as pure functions.
