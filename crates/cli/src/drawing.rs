//! Lines on standard error that are redrawn: progress, `--watch`. Owns the state of these lines on the screen. All other output
//! clears them first, so nothing is repeated and no output is overwritten. A line is cut to the screen; if the
//! screen became narrower since, the lines that the terminal wrapped are counted as it shows them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crealeph_contracts::text::Shown;

use crate::output::{colour, draw, screen_size, shows_colour};
use crate::render::{COLUMNS, cut, width};

/// How many lines a screen has whose height is not known.
const ROWS: usize = 24;

/// The widths of the lines that are drawn now.
static DRAWN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Lines in the making that replace those that are drawn.
pub(crate) struct Drawing {
    columns: usize,
    rows: usize,
    text: String,
    widths: Vec<usize>,
}

impl Drawing {
    /// For the screen that standard error is on, as large as it is now.
    pub(crate) fn new() -> Self {
        let (columns, rows) = screen();
        Drawing { columns, rows, text: String::new(), widths: Vec::new() }
    }

    /// The room for a line. The last column stays free: a terminal would begin another line.
    pub(crate) fn columns(&self) -> usize {
        self.columns.saturating_sub(1)
    }

    /// How many more lines can be drawn: what scrolls off the screen could not be drawn again.
    pub(crate) fn rows_left(&self) -> usize {
        self.rows.saturating_sub(1 + self.widths.len())
    }

    /// Adds a line, cut to the screen.
    pub(crate) fn line(&mut self, line: &str) {
        self.state_line(line, "", "");
    }

    /// Adds a line with a word for a state in its colour, cut to the screen.
    pub(crate) fn state_line(&mut self, before: &str, state: &str, after: &str) {
        if self.rows_left() == 0 {
            return;
        }
        let mut room = self.columns();
        let mut fitting = |part: &str| {
            let part = cut(&Shown::line(part).to_string(), room);
            room -= width(&part);
            part
        };
        let [before, shown, after] = [before, state, after].map(&mut fitting);
        self.widths.push(self.columns() - room);
        let line = match colour(state.trim()).filter(|_| shows_colour()) {
            Some(colour) => format!("{before}\x1b[{colour}m{shown}\x1b[0m{after}\n"),
            None => format!("{before}{shown}{after}\n"),
        };
        self.text.push_str(&line);
    }

    /// Draws the lines in place of those before.
    pub(crate) fn show(self) {
        let mut drawn = drawn();
        draw(&format!("{}{}", erasure(&drawn, self.columns), self.text));
        *drawn = self.widths;
    }
}

/// Wipes what is drawn; nothing is drawn until the guard is dropped.
pub(crate) fn wiped() -> MutexGuard<'static, Vec<usize>> {
    let mut drawn = drawn();
    if !drawn.is_empty() {
        draw(&erasure(&drawn, screen().0));
        drawn.clear();
    }
    drawn
}

fn drawn() -> MutexGuard<'static, Vec<usize>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What leads to the first of the drawn lines on a screen of this width, and wipes all from there on.
fn erasure(widths: &[usize], columns: usize) -> String {
    let rows: usize = widths.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
    if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A\x1b[J") }
}

/// The columns and rows of the screen, as far as they are known.
fn screen() -> (usize, usize) {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    let (columns, rows) = screen_size();
    (columns.or_else(named).unwrap_or(COLUMNS), rows.unwrap_or(ROWS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_narrower_screen_broke_are_wiped_whole() {
        assert_eq!(erasure(&[], 80), "");
        assert_eq!(erasure(&[59, 0, 20], 60), "\r\x1b[3A\x1b[J");
        assert_eq!(erasure(&[59, 0, 20], 30), "\r\x1b[4A\x1b[J");
    }

    #[test]
    fn a_line_is_cut_to_the_screen_and_the_last_column_stays_free() {
        let mut drawing = Drawing { columns: 10, rows: 3, text: String::new(), widths: Vec::new() };
        drawing.line("日本語日本語");
        drawing.state_line("abcd ", "success", " 12");
        drawing.line("what would scroll");
        assert_eq!(drawing.text, "日本語日…\nabcd suc…\n");
        assert_eq!(drawing.widths, [9, 9]);
    }
}
