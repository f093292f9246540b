//! The workspace from outside: through its public interface and real files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect is to fail it"
)]

mod capturing;
mod comparing;
mod ignoring;
mod keeping;
mod knowing;
mod place;
mod publishing;
mod refusing;
mod scanning;
mod view;
