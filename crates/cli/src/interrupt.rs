//! Ctrl-C and termination signals. A command that must clean up asks for a [`Cancel`]; the second signal ends
//! the program immediately, as the first would have without this.

use std::path::PathBuf;
use std::thread;

use crealeph_sandbox::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;

const ENDINGS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// The exit code of a command that was interrupted and has left things in order.
pub(crate) const INTERRUPTED: u8 = 130;

/// A handle that the first signal uses.
pub(crate) fn cancel() -> Result<Cancel, Failure> {
    let cancel = Cancel::new().map_err(Failure::Signals)?;
    let used = cancel.clone();
    at_first(move || used.cancel())?;
    Ok(cancel)
}

/// Does something at the first signal.
pub(crate) fn at_first(act: impl Fn() + Send + 'static) -> Result<(), Failure> {
    on_signals(move |count, signal| match count {
        0 => act(),
        _ => end_by(signal),
    })
}

/// Removes a folder before a signal ends the program.
pub(crate) fn remove_before_end(folder: PathBuf) -> Result<(), Failure> {
    on_signals(move |_, signal| {
        let _ = std::fs::remove_dir_all(&folder);
        end_by(signal);
    })
}

fn on_signals(act: impl Fn(usize, i32) + Send + 'static) -> Result<(), Failure> {
    let mut signals = Signals::new(ENDINGS).map_err(Failure::Signals)?;
    let wait = move || signals.forever().enumerate().for_each(|(count, signal)| act(count, signal));
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(Failure::Signals)?;
    Ok(())
}

fn end_by(signal: i32) {
    let _ = emulate_default_handler(signal);
}
