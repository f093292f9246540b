//! Violations for a person: each with an excerpt of the document at its position, readable without colour.

use std::borrow::Cow;

use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::text::Shown;
use crealeph_contracts::violation::Violation;
use unicode_width::UnicodeWidthChar as _;

use crate::page::Page;

/// How wide a text is that is read on any screen.
pub(crate) const COLUMNS: usize = 80;
/// How much of a line is shown around the place.
const MAX_WIDTH: usize = 70;

/// Every violation with an excerpt of the document at its position, from top to bottom.
pub(crate) fn violations(name: &str, bytes: &[u8], violations: &[Violation], page: &mut Page) {
    let text = String::from_utf8_lossy(bytes);
    let (document, _) = parse(bytes, &Limits::own(usize::MAX));
    let span = |violation: &Violation| match (violation.span, &document) {
        (Some(span), _) => span,
        (None, Some(document)) => document.nearest(&violation.pointer).span(),
        (None, None) => (0, 0),
    };
    let mut placed: Vec<_> = violations.iter().map(|violation| (span(violation), violation)).collect();
    placed.sort_by_key(|((start, _), _)| *start);
    for ((start, end), violation) in placed {
        let place = SourceExcerpt::find(&text, start, end);
        page.blank();
        page.line(&format!("{}: {}", violation.code, violation.message));
        let pointer = if violation.pointer.is_empty() { "the document" } else { &violation.pointer };
        let SourceExcerpt { line, column, .. } = place;
        page.line(&format!("  at {name}:{line}:{column}, {pointer} ({})", violation.clause));
        if !place.excerpt.trim().is_empty() {
            let gutter = " ".repeat(line.to_string().len());
            page.line(&format!("  {gutter} |"));
            page.line(&format!("  {line} | {}", place.excerpt));
            page.line(&format!("  {gutter} | {}{}", " ".repeat(place.indent), "^".repeat(place.width)));
        }
    }
}

struct SourceExcerpt {
    line: usize,
    column: usize,
    excerpt: String,
    indent: usize,
    width: usize,
}

impl SourceExcerpt {
    /// The line that holds `start..end`, cut to what fits, and where in it the carets go.
    fn find(text: &str, start: usize, end: usize) -> SourceExcerpt {
        let start = floor_boundary(text, start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let line_text = rest.lines().next().unwrap_or_default();
        let column = before.get(line_start..).unwrap_or_default().chars().count();
        let marked = text.get(start..floor_boundary(text, end)).unwrap_or_default();
        let width = marked.lines().next().unwrap_or_default().chars().count();
        let skipped = column.saturating_sub(MAX_WIDTH / 2);
        let shown = |start: usize, count: usize| {
            let part: String = line_text.chars().skip(start).take(count).collect();
            Shown::line(&part.replace('\t', " ")).to_string()
        };
        let mut excerpt = shown(skipped, MAX_WIDTH);
        // An escape is longer than what it stands for.
        let mut indent = shown(skipped, column - skipped).chars().count();
        let width = shown(column, width).chars().count();
        if skipped > 0 {
            excerpt.insert(0, '…');
            indent += 1;
        }
        let width = width.clamp(1, MAX_WIDTH.saturating_sub(indent).max(1));
        SourceExcerpt { line: before.matches('\n').count() + 1, column: column + 1, excerpt, indent, width }
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// `1 violation`, `2 violations`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// How many columns a text takes on a screen.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|letter| letter.width().unwrap_or(0)).sum()
}

/// A text in at most this many columns; what was cut ends with `…`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut room = columns.saturating_sub(1);
    let fits = |letter: &char| {
        let fits = letter.width().unwrap_or(0) <= room;
        room = if fits { room - letter.width().unwrap_or(0) } else { 0 };
        fits
    };
    text.chars().take_while(fits).chain((columns > 0).then_some('…')).collect()
}

/// A text with spaces after it, so that it takes this many columns.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Lines broken between words so that they fit; further parts of a line are indented by two more, or stay behind its gutter.
pub(crate) fn fitted(text: &str, columns: Option<usize>) -> Cow<'_, str> {
    let Some(columns) = columns.filter(|columns| text.lines().any(|line| width(line) > *columns)) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let words = line.trim_start_matches(' ');
        let margin = " ".repeat(line.len() - words.len());
        let hanging = if words.starts_with("| ") { "| " } else { "  " };
        out.push_str(&filled(&margin, &format!("{margin}{hanging}"), words, columns));
        out.push_str(end);
    }
    Cow::Owned(out)
}

/// A text behind `first`, broken between words so that it fits; further lines start with `hanging`.
pub(crate) fn filled(first: &str, hanging: &str, text: &str, columns: usize) -> String {
    let mut out = first.to_owned();
    let mut taken = width(&out);
    let mut is_first = true;
    for word in text.split(' ') {
        let length = width(word);
        if !is_first && taken + 1 + length > columns {
            out = format!("{}\n{hanging}{word}", out.trim_end());
            taken = width(hanging) + length;
        } else {
            let space = if is_first { "" } else { " " };
            out.push_str(space);
            out.push_str(word);
            taken += space.len() + length;
        }
        is_first = false;
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{cut, fitted, padded, width};

    #[test]
    fn wide_letters_count_twice_and_marks_not_at_all() {
        assert_eq!((width("日本"), width("e\u{301}"), width("")), (4, 1, 0));
        assert_eq!(
            (cut("日本語", 6), cut("日本語", 5), cut("日本語", 4)),
            ("日本語".into(), "日本…".into(), "日…".into())
        );
        assert_eq!((cut("abc", 0), cut("e\u{301}bcd", 3)), (String::new(), "e\u{301}b…".into()));
        assert_eq!((padded("日", 4), padded("abc", 2)), ("日  ".into(), "abc".into()));
        assert_eq!(fitted("日本 語\n", Some(6)), "日本\n  語\n");
    }

    #[test]
    fn lines_are_broken_between_words_and_stay_under_their_start() {
        assert_eq!(
            fitted("one two three\n  four five six\n", Some(9)),
            "one two\n  three\n  four\n    five\n    six\n"
        );
        assert_eq!(fitted("  | of a foreign text\n", Some(14)), "  | of a\n  | foreign\n  | text\n");
        assert_eq!(fitted("unbreakably-long\n", Some(4)), "unbreakably-long\n");
        assert_eq!(fitted("as  it   is\n", None), "as  it   is\n");
    }
}
