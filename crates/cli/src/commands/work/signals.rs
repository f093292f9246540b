//! Ctrl-C and a request to end: what runs is ended, nothing of it is published, and what is known is written.

use crealeph_runtime::work::Interrupt;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// Interrupts the work at the first signal; a second one ends the program at once, which is settled at the next start.
pub(super) fn interrupt_on_signals(interrupt: &Interrupt) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::Output)?;
    let interrupt = interrupt.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if interrupt.is_used() {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            eprintln!("\ninterrupting; once more ends it at once");
            interrupt.interrupt();
        }
    });
    Ok(())
}
