//! Foreign text in a form that a person may safely read. Foreign is every text that an agent, a clone, a server or another machine
//! wrote: names, contents, messages, ids. [`Shown`] is the only way for it to reach a terminal, a report, a commit message or a
//! log line: characters that would move the cursor, reorder text or stay invisible are written as escapes (`\x1b`, `\u{202e}`,
//! `\n`). Ordinary text in any script stays as it is.
//!
//! Escapes are only for reading: a backslash in the text is not doubled, so they cannot be decoded.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use unicode_normalization::char::is_combining_mark;

/// How many combining marks may follow one character; the rest are escaped. No script needs more.
const MAX_MARKS: usize = 8;
/// How many spaces in a row a line may have; more could push text to where the next line seems to begin.
const MAX_SPACES: usize = 64;

/// A text in which everything is escaped that would not show as itself.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'t> {
    text: &'t str,
    is_block: bool,
    max_chars: usize,
}

impl<'t> Shown<'t> {
    /// A name or a value: stays on one line, so line breaks and tabs are escaped too.
    pub fn line(text: &'t str) -> Self {
        Shown { text, is_block: false, max_chars: usize::MAX }
    }

    /// A text of several lines, such as a diff or the output of tests: line breaks and tabs stay.
    pub fn block(text: &'t str) -> Self {
        Shown { text, is_block: true, max_chars: usize::MAX }
    }

    /// At most so many characters of it; the place of the cut says how much was left out.
    #[must_use]
    pub fn at_most(self, max_chars: usize) -> Self {
        Shown { max_chars, ..self }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, left_out) = cut(self.text, self.max_chars);
        let shown = match is_plain(text, self.is_block) {
            true => Cow::Borrowed(text),
            false => Cow::Owned(escaped(text, self.is_block)),
        };
        match left_out {
            0 => f.pad(&shown),
            _ => write!(f, "{shown}… ({left_out} more characters)"),
        }
    }
}

/// Whether a character does not show as itself: it controls the terminal, reorders what is around it, is invisible, or
/// separates lines.
pub fn is_hidden(character: char) -> bool {
    match character {
        ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        _ => HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&character)),
    }
}

/// Unicode's Default_Ignorable_Code_Point and Bidi_Control, the separators of lines and paragraphs, the marks of interlinear
/// annotations, and the Braille pattern without dots, which is a letter that looks like nothing.
const HIDDEN: [(char, char); 19] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{fffe}', '\u{ffff}'),
];

/// JSON text with the same meaning in which every hidden character is an escape. In JSON such characters can only be in
/// strings, except for spaces: line breaks between values stay, and other kinds become spaces.
pub fn json_shown(json: &str) -> Cow<'_, str> {
    let is_escaped = |character: char| character != '\n' && is_hidden(character);
    if is_plain(json, true) && !json.contains('\t') {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + json.len() / 8);
    let mut units = [0; 2];
    for character in json.chars() {
        match character {
            // Between values an escape would not be JSON.
            '\t' | '\r' => out.push(' '),
            _ if !is_escaped(character) => out.push(character),
            _ => character.encode_utf16(&mut units).iter().for_each(|unit| {
                let _ = write!(out, "\\u{unit:04x}");
            }),
        }
    }
    Cow::Owned(out)
}

/// Whether nothing has to be escaped, with a fast path for ASCII, which is most frequent.
fn is_plain(text: &str, is_block: bool) -> bool {
    let is_break = |byte: u8| is_block && matches!(byte, b'\n' | b'\t');
    let is_ascii = text.bytes().all(|byte| matches!(byte, b' '..=b'~') || is_break(byte));
    is_ascii && (is_block || text.len() <= MAX_SPACES)
}

fn escaped(text: &str, is_block: bool) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let (mut marks, mut spaces) = (0, 0);
    for character in text.chars() {
        marks = if is_combining_mark(character) { marks + 1 } else { 0 };
        spaces = if character.is_whitespace() { spaces + 1 } else { 0 };
        match character {
            '\n' | '\t' if is_block => out.push(character),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' ' if !is_block && spaces > MAX_SPACES => out.push_str("\\x20"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                let _ = write!(out, "\\x{:02x}", character as u32);
            }
            _ if is_hidden(character)
                || marks > MAX_MARKS
                || (marks > 0 && out.is_empty())
                || (!is_block && spaces > MAX_SPACES) =>
            {
                let _ = write!(out, "\\u{{{:x}}}", character as u32);
            }
            _ => out.push(character),
        }
    }
    out
}

/// The start of a text, and how many characters were left out.
fn cut(text: &str, max_chars: usize) -> (&str, usize) {
    match text.char_indices().nth(max_chars) {
        None => (text, 0),
        Some((end, _)) => {
            let (start, rest) = text.split_at_checked(end).unwrap_or((text, ""));
            (start, rest.chars().count())
        }
    }
}

/// An error and every cause behind it.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_characters_remain_of_any_text() {
        for character in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = format!("a{character}b");
            let (line, block) = (Shown::line(&text).to_string(), Shown::block(&text).to_string());
            assert!(!line.chars().any(|c| is_hidden(c) || c.is_control()), "{character:?}");
            let is_break = matches!(character, '\n' | '\t');
            assert!(!block.chars().any(|c| is_hidden(c) && !is_break), "{character:?}");
            assert_eq!(is_break, line != block, "{character:?}");
            assert_eq!(is_hidden(character), line != text, "{character:?}");
        }
    }

    #[test]
    fn escapes_name_the_replaced_character() {
        for (text, line) in [
            ("plain", "plain"),
            ("grüße 日本語 שלום ✓", "grüße 日本語 שלום ✓"),
            ("\u{1b}[2Kok", "\\x1b[2Kok"),
            ("a\nb\r\tc\u{7f}\u{9b}", "a\\nb\\r\\tc\\x7f\\x9b"),
            ("x\u{202e}txt.sh", "x\\u{202e}txt.sh"),
            ("\u{e0041}\u{3164}\u{200b}\u{ad}", "\\u{e0041}\\u{3164}\\u{200b}\\u{ad}"),
            ("\u{301}e\u{301}", "\\u{301}e\u{301}"),
        ] {
            assert_eq!(Shown::line(text).to_string(), line);
        }
        assert_eq!(Shown::block("a\n\tb\r\n\u{1b}").to_string(), "a\n\tb\\r\n\\x1b");
    }

    #[test]
    fn floods_of_marks_and_spaces_are_broken() {
        let flood = format!("e{}", "\u{301}".repeat(100));
        assert_eq!(Shown::line(&flood).to_string().matches("\\u{301}").count(), 92);
        let padded = format!("a{}ok", " ".repeat(100));
        assert_eq!(Shown::line(&padded).to_string().matches("\\x20").count(), 36);
        assert_eq!(Shown::block(&padded).to_string(), padded);
        let odd = format!("a{}ok", "\u{a0} ".repeat(50));
        assert_eq!(Shown::line(&odd).to_string().matches('\\').count(), 36);
    }

    #[test]
    fn a_truncated_text_says_so() {
        assert_eq!(Shown::line("abcdef").at_most(6).to_string(), "abcdef");
        assert_eq!(Shown::line("äbcdef").at_most(2).to_string(), "äb… (4 more characters)");
        assert_eq!(format!("{:<6}|", Shown::line("a\n")), "a\\n   |");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = "a\u{1b}\u{7f}\u{9b}\u{202e}\u{e0041}\u{200b}\n\tä\u{2028}";
        let json = serde_json::to_string(&[value]).unwrap();
        let shown = json_shown(&json);
        assert!(!shown.chars().any(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [value]);
        assert_eq!(json_shown("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
        assert_eq!(json_shown("{\t\"a\":\r1}"), "{ \"a\": 1}");
    }
}
