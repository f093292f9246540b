//! Receipts as an outsider sees them: sealed by the runtime, checked by `crealeph work verify`, by the verifying
//! crate byte by byte, and by implementations that are not ours.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says what it expects"
)]

mod checking;
mod outsiders;
mod replaying;
mod world;
