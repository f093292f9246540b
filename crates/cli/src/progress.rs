//! The progress of a long command: one line on standard error, redrawn in place, only if a person is looking at it and
//! not at the data itself, and only after the command has taken a second.

use std::io::{self, BufRead, Read, Write};
use std::time::{Duration, Instant};

use crate::drawing::{Drawing, wiped};
use crate::output::{Output, is_watched};
use crate::render::{cut, width};

const FIRST: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(200);
/// The clock is read once in this many steps.
const STEPS_PER_LOOK: u64 = 256;
/// The widest bar, and the narrowest that says anything.
const BAR: std::ops::RangeInclusive<usize> = 5..=30;

/// A count that is shown while it grows; the line is wiped when the command ends.
pub(crate) struct Progress {
    what: &'static str,
    start: Instant,
    next: Option<Instant>,
    count: u64,
    done: u64,
    /// Of what is done, in its unit.
    total: Option<u64>,
    is_drawn: bool,
}

impl Progress {
    /// Counts `what` while a command prints: shown if the lines do not go to the same screen.
    pub(crate) fn beside(what: &'static str, output: &Output) -> Self {
        Progress::new(what, is_watched() && !output.is_for_person())
    }

    /// Counts `what` for a command that prints at its end.
    pub(crate) fn alone(what: &'static str) -> Self {
        Progress::new(what, is_watched())
    }

    fn new(what: &'static str, is_shown: bool) -> Self {
        let start = Instant::now();
        let next = is_shown.then(|| start + FIRST);
        Progress { what, start, next, count: 0, done: 0, total: None, is_drawn: false }
    }

    /// How much there is in all, if that is known: entries, or bytes.
    pub(crate) fn of(mut self, total: Option<u64>) -> Self {
        self.total = total;
        self
    }

    /// One more, which is so much of the total.
    pub(crate) fn step(&mut self, amount: u64) {
        self.count += 1;
        self.done += amount;
        if self.count.is_multiple_of(STEPS_PER_LOOK) {
            self.look();
        }
    }

    /// So many are done by now, of a total.
    pub(crate) fn reach(&mut self, count: u64, total: Option<u64>) {
        (self.count, self.done, self.total) = (count, count, total);
        self.look();
    }

    /// Shows the line at once: what comes first takes long and reports nothing.
    pub(crate) fn begin(&mut self) {
        self.next = self.next.map(|_| self.start);
        self.look();
    }

    fn look(&mut self) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now >= next) {
            let mut drawing = Drawing::new();
            drawing.line(&self.line(now - self.start, drawing.columns()));
            drawing.show();
            self.is_drawn = true;
            self.next = Some(now + EVERY);
        }
    }

    /// The count, and if the total is known a bar, the rate and the time left, as wide as the screen.
    fn line(&self, elapsed: Duration, columns: usize) -> String {
        let counted = format!("{} {}", self.count, self.what);
        let seconds = elapsed.as_secs_f64();
        let rate =
            if seconds > 0.0 { format!("  {:.0}/s", self.count as f64 / seconds) } else { String::new() };
        let Some(total) = self.total.filter(|total| *total > 0) else { return format!("{counted}{rate}") };
        let share = (self.done as f64 / total as f64).clamp(0.0, 1.0);
        let left = match share > 0.0 {
            true => format!("  {} left", clock(seconds / share - seconds)),
            false => String::new(),
        };
        let text = format!("{counted}  {:>3.0} %{rate}{left}", share * 100.0);
        match columns.saturating_sub(width(&text) + 4).min(*BAR.end()) {
            width if width >= *BAR.start() => {
                let filled = (share * width as f64) as usize;
                format!("[{}{}]  {text}", "#".repeat(filled), "-".repeat(width - filled))
            }
            _ => cut(&text, columns),
        }
    }
}

/// Seconds as `m:ss` or `h:mm:ss`.
fn clock(seconds: f64) -> String {
    let all = seconds.ceil() as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_drawn {
            drop(wiped());
        }
    }
}

/// Counts lines while they are read, and their bytes.
pub(crate) struct Counted<R> {
    pub(crate) inner: R,
    pub(crate) progress: Progress,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        #[expect(
            clippy::disallowed_methods,
            reason = "the reader sees the error at its next read; here lines are only counted"
        )]
        let read = self.inner.fill_buf().unwrap_or_default();
        let lines = read.iter().take(amount).filter(|byte| **byte == b'\n').count();
        self.progress.done += amount as u64;
        (0..lines).for_each(|_| self.progress.step(0));
        self.inner.consume(amount);
    }
}

/// Counts lines while they are written.
pub(crate) struct CountedLines<W> {
    pub(crate) inner: W,
    pub(crate) progress: Progress,
}

impl<W: Write> Write for CountedLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        let lines = bytes.iter().take(written).filter(|byte| **byte == b'\n').count();
        (0..lines).for_each(|_| self.progress.step(1));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: u64, total: Option<u64>, seconds: u64) -> Vec<String> {
        let mut progress = Progress::new("entries verified", false);
        progress.reach(count, total);
        let elapsed = Duration::from_secs(seconds);
        [20, 60, 80, 120].map(|columns| progress.line(elapsed, columns - 1)).into()
    }

    #[test]
    fn a_bar_with_rate_and_time_left_fits_every_screen() {
        assert_eq!(
            lines(250_000, Some(1_000_000), 10),
            [
                "250000 entries ver…",
                "[#----]  250000 entries verified   25 %  25000/s  0:30 left",
                "[######-------------------]  250000 entries verified   25 %  25000/s  0:30 left",
                "[#######-----------------------]  250000 entries verified   25 %  25000/s  0:30 left",
            ]
        );
        for line in lines(1_000_000, Some(1_000_000), 3_601) {
            assert!(line.chars().count() < 120 && !line.contains('-'), "{line}");
        }
    }

    #[test]
    fn without_a_total_the_count_and_rate_are_shown() {
        assert_eq!(lines(7, None, 2).first().map(String::as_str), Some("7 entries verified  4/s"));
        assert_eq!(lines(0, Some(0), 0).first().map(String::as_str), Some("0 entries verified"));
    }

    #[test]
    fn time_left_is_shown_as_a_clock() {
        assert_eq!([0.2, 59.5, 3_600.0, 7_325.0].map(clock), ["0:01", "1:00", "1:00:00", "2:02:05"]);
    }
}
