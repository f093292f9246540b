//! The `crealeph` command: parses arguments, runs one command, turns its end into an exit code.

/// In place of the standard library's, which panics where standard error cannot be written: what a command does must not
/// hang on whether anybody reads what it says.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}
macro_rules! eprint {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!($($words)*));
    }};
}

mod commands;
mod failure;
mod input;
mod interrupt;
mod output;
mod progress;
mod render;

use std::process::ExitCode;

/// The ledger's writer hands much to its callers that they free, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    crealeph_sandbox::helper_main_if_requested();
    commands::run()
}
