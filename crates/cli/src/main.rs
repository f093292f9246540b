//! The `crealeph` command: parses arguments, runs one command, turns its end into an exit code.

mod commands;
mod drawing;
mod failure;
mod human_time;
mod input;
mod interrupt;
mod logging;
mod new_file;
mod output;
mod own;
mod page;
mod progress;
mod render;
mod report;
mod signing;
mod trusting;
mod user_state;

use std::process::ExitCode;

/// The ledger's writer hands much to its callers that they free, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    crealeph_sandbox::helper_main_if_requested();
    commands::run()
}
