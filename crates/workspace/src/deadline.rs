//! When reading has to stop although it is not done. Owns only the question; the caller has the clock.

use std::fmt;
use std::io;

/// Checked between files, and between the chunks of a large one.
#[derive(Clone, Copy, Default)]
pub struct Deadline<'d> {
    is_over: Option<&'d (dyn Fn() -> bool + Sync)>,
}

impl<'d> Deadline<'d> {
    /// Reads to the end.
    pub const NEVER: Deadline<'static> = Deadline { is_over: None };

    /// Stops once this returns true.
    pub fn when(is_over: &'d (dyn Fn() -> bool + Sync)) -> Self {
        Deadline { is_over: Some(is_over) }
    }

    /// Whether to stop.
    pub fn is_over(&self) -> bool {
        self.is_over.is_some_and(|is_over| is_over())
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_over() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl fmt::Debug for Deadline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").finish_non_exhaustive()
    }
}
