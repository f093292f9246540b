//! `crealeph work run` as a user meets it: real agents (scripts), the real sandbox, the real workspace.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects"
)]

mod agent_bounds;
mod bounds;
mod branches;
mod cleaning;
mod completions;
mod contract;
mod crash;
mod day;
mod delivery;
mod fire;
mod gate;
mod hiding;
mod ids;
mod logs;
mod many;
mod ordinary;
mod programs;
mod provenance;
#[path = "../readback/mod.rs"]
mod readback;
mod report;
mod retry;
#[path = "../../../ledger/tests/server/mod.rs"]
mod server;
mod signing;
mod tasks;
mod terminal;
mod toolchains;
mod undo;
mod world;
