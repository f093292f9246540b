//! How far a long command has come: one line on standard error, only where a person is looking at that and not at the
//! data itself, and only once the command has taken a second.

use std::time::{Duration, Instant};

use crate::output::{Output, draw, is_watched};

const FIRST: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(200);
/// The clock is read once in so many steps.
const STEPS_PER_LOOK: u64 = 256;

/// A count that is shown while it grows; the line is wiped when the command ends.
pub(crate) struct Progress {
    what: &'static str,
    next: Option<Instant>,
    count: u64,
    is_drawn: bool,
}

impl Progress {
    /// Counts `what`, shown where it can be.
    pub(crate) fn new(what: &'static str, output: &Output) -> Self {
        let is_shown = is_watched() && !output.is_for_person();
        Progress { what, next: is_shown.then(|| Instant::now() + FIRST), count: 0, is_drawn: false }
    }

    /// One more.
    pub(crate) fn step(&mut self) {
        self.count += 1;
        if let Some(next) = self.next
            && self.count.is_multiple_of(STEPS_PER_LOOK)
            && Instant::now() >= next
        {
            draw(&format!("{} {}", self.count, self.what));
            self.is_drawn = true;
            self.next = Some(Instant::now() + EVERY);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_drawn {
            draw("");
        }
    }
}
