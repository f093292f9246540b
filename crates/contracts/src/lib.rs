//! The five contracts as types.
