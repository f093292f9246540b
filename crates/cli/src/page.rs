//! A text for a person, in whole lines. Each line is escaped when it is added, so nothing in it can start another line,
//! move the cursor or hide: a line that looks like ours is ours.

use std::fmt;

use crealeph_contracts::text::Shown;

use crate::render::filled;

/// The gutter before the further lines of a foreign text that is shown with its line breaks.
pub(crate) const GUTTER: &str = "           | ";
/// How much of one line is shown; what is cut is stated in its place.
pub(crate) const MAX_LINE_CHARS: usize = 20_000;
/// How many lines of one foreign text are shown.
const MAX_LINES: usize = 200;

/// Lines that can be printed as they are.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
}

impl Page {
    /// Adds a line.
    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(&Shown::line(line).at_most(MAX_LINE_CHARS).to_string());
        self.text.push('\n');
    }

    /// Adds a line, for `writeln!`: only the line break at its end is one, every other is escaped.
    pub(crate) fn write_fmt(&mut self, words: fmt::Arguments<'_>) -> fmt::Result {
        let line = words.to_string();
        self.line(line.strip_suffix('\n').unwrap_or(&line));
        Ok(())
    }

    /// Adds an empty line.
    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Adds a text behind `first`, with the line breaks it has; its further lines are after a gutter, so that they
    /// cannot be taken for lines of ours.
    pub(crate) fn quoted(&mut self, first: &str, text: &str) {
        let mut lines = text.lines();
        self.line(&format!("{first}{}", lines.next().unwrap_or_default()));
        for line in lines.by_ref().take(MAX_LINES) {
            self.line(&format!("{GUTTER}{line}"));
        }
        match lines.count() {
            0 => {}
            more => self.line(&format!("{GUTTER}… ({more} more lines)")),
        }
    }

    /// Adds a text behind `first`, broken between words so that it fits into `columns`.
    pub(crate) fn filled(&mut self, first: &str, hanging: &str, text: &str, columns: usize) {
        let text = Shown::line(text).to_string();
        filled(first, hanging, &text, columns).lines().for_each(|line| self.line(line));
    }

    /// The lines, each with its end.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one() {
        let mut page = Page::default();
        let name = "a\nreceipt x: success\u{1b}[1A";
        let _ = writeln!(page, "name {name}");
        page.quoted("  why ", "one\ntwo\r\nthree");
        page.filled("a ", "  ", "b\nc d", 7);
        let expected = "name a\\nreceipt x: success\\x1b[1A\n  why one\n           | two\n           | three\n\
                        a b\\nc\n  d\n";
        assert_eq!(page.as_str(), expected);
    }

    #[test]
    fn a_long_quote_says_what_is_left_out() {
        let mut page = Page::default();
        page.quoted("", &"x\n".repeat(300));
        assert_eq!(page.as_str().lines().count(), MAX_LINES + 2);
        assert!(page.as_str().ends_with("… (99 more lines)\n"));
    }
}
