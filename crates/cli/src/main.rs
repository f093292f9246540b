//! The `crealeph` command: parses arguments, runs one command, turns its end into an exit code.

mod commands;
mod failure;
mod input;
mod interrupt;
mod output;
mod progress;
mod render;

use std::process::ExitCode;

fn main() -> ExitCode {
    crealeph_sandbox::helper_main_if_requested();
    commands::run()
}
