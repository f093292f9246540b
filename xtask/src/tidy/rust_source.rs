//! Just enough of Rust's grammar to separate code from comments and literals.
//!
//! Checks match tokens, not text, so that a rule's name in a string or a comment does not break the rule
//! and spacing does not hide a violation. Any text is read to its end; text that is not Rust gives odd tokens,
//! never an error, because the compiler reports that.

use std::iter::Peekable;
use std::slice::Iter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier, a keyword or a number.
    Word,
    /// One character of punctuation.
    Mark,
    /// A string or a character.
    Literal,
    Comment,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) line: usize,
}

/// A path brought in by `use`, groups expanded: `use a::{b, c::*}` gives `a::b` and `a::c::*`.
pub(super) struct Import {
    pub(super) path: String,
    pub(super) line: usize,
    /// `pub` in any form.
    pub(super) public: bool,
}

pub(super) struct RustFile<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    /// Everything except comments.
    pub(super) code: Vec<Token<'a>>,
    pub(super) comments: Vec<Token<'a>>,
}

impl<'a> RustFile<'a> {
    pub(super) fn parse(path: &'a str, text: &'a str) -> RustFile<'a> {
        let (comments, code) = tokens(text).into_iter().partition(|token| token.kind == Kind::Comment);
        RustFile { path, text, code, comments }
    }

    /// A file that contains only tests or benchmarks.
    pub(super) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        let name = parts.next_back().unwrap_or_default();
        name == "tests.rs"
            || name.ends_with("_tests.rs")
            || parts.any(|folder| matches!(folder, "tests" | "benches"))
    }

    /// The number of lines before a trailing `#[cfg(test)] mod … { … }`, or of all lines.
    pub(super) fn product_lines(&self) -> usize {
        let starts = self.positions("#[cfg(test)]");
        let trailing = starts.into_iter().find(|start| self.is_trailing_module(*start));
        let line = trailing.and_then(|start| self.code.get(start)).map(|token| token.line);
        line.map_or_else(|| self.text.lines().count(), |line| line - 1)
    }

    /// The product code: none of a test file, and nothing of a trailing test module.
    pub(super) fn product_code(&self) -> &[Token<'a>] {
        if self.is_test() {
            return &[];
        }
        let last = self.product_lines();
        let end = self.code.partition_point(|token| token.line <= last);
        self.code.get(..end).unwrap_or_default()
    }

    /// The positions in `code` where the pattern, itself a piece of Rust, begins.
    pub(super) fn positions(&self, pattern: &str) -> Vec<usize> {
        positions(&self.code, pattern)
    }

    /// The lines on which the pattern begins.
    pub(super) fn lines(&self, pattern: &str) -> Vec<usize> {
        lines(&self.code, pattern)
    }

    /// Whether the attribute at `start` belongs to a module whose closing brace ends the file.
    fn is_trailing_module(&self, start: usize) -> bool {
        let mut tokens = self.code.iter().skip(start).map(|token| token.text).peekable();
        while tokens.peek() == Some(&"#") {
            skip_group(&mut tokens, "[", "]");
        }
        let is_module =
            tokens.next() == Some("mod") && tokens.next().is_some() && tokens.peek() == Some(&"{");
        if is_module {
            skip_group(&mut tokens, "{", "}");
        }
        is_module && tokens.next().is_none()
    }
}

/// Skips to the end of the next group, nested groups included.
fn skip_group<'a>(tokens: &mut impl Iterator<Item = &'a str>, open: &str, close: &str) {
    let mut depth = 0_usize;
    for token in tokens {
        if token == open {
            depth += 1;
        } else if token == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return;
            }
        }
    }
}

pub(super) fn lines(code: &[Token<'_>], pattern: &str) -> Vec<usize> {
    positions(code, pattern).into_iter().filter_map(|start| code.get(start)).map(|token| token.line).collect()
}

fn positions(code: &[Token<'_>], pattern: &str) -> Vec<usize> {
    let pattern = tokens(pattern);
    let same =
        |(token, wanted): (&Token<'_>, &Token<'_>)| token.kind == wanted.kind && token.text == wanted.text;
    code.windows(pattern.len().max(1))
        .enumerate()
        .filter(|(_, window)| window.iter().zip(&pattern).all(same))
        .map(|(start, _)| start)
        .collect()
}

pub(super) fn imports(code: &[Token<'_>]) -> Vec<Import> {
    let mut found = Vec::new();
    for start in positions(code, "use") {
        // `impl Trait + use<'a>` is not an import.
        let mut rest = code.get(start + 1..).unwrap_or_default().iter().peekable();
        if rest.peek().is_some_and(|next| next.text == "<") {
            continue;
        }
        // `pub use` or `pub(…) use`.
        let before = code.get(..start).unwrap_or_default().last().map_or("", |token| token.text);
        let public = matches!(before, "pub" | ")");
        let mut paths = Vec::new();
        expand(&mut rest, "", &mut paths);
        found.extend(paths.into_iter().map(|(path, line)| Import { path, line, public }));
    }
    found
}

/// Reads one tree of a `use`, up to but without the `,`, `}` or `;` that ends it.
fn expand(tokens: &mut Peekable<Iter<'_, Token<'_>>>, prefix: &str, paths: &mut Vec<(String, usize)>) {
    let mut path = prefix.to_owned();
    let mut line = 0;
    while let Some(token) = tokens.next_if(|token| !matches!(token.text, "," | "}" | ";" | "{")) {
        line = token.line;
        if token.text == "as" {
            tokens.next();
        } else {
            path.push_str(token.text);
        }
    }
    if tokens.next_if(|token| token.text == "{").is_none() {
        if line > 0 {
            paths.push((path, line));
        }
        return;
    }
    loop {
        expand(tokens, &path, paths);
        if tokens.next_if(|token| token.text == ",").is_none() {
            tokens.next_if(|token| token.text == "}");
            return;
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = text;
    loop {
        let start = rest.trim_start();
        line += newlines(rest.get(..rest.len() - start.len()).unwrap_or_default());
        let (kind, length) = measure(start);
        let Some((token, after)) = start.split_at_checked(length).filter(|(token, _)| !token.is_empty())
        else {
            return found;
        };
        found.push(Token { kind, text: token, line });
        line += newlines(token);
        rest = after;
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The kind and the length in bytes of the token that `rest` begins with; 0 at the end.
fn measure(rest: &str) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if let Some(length) = raw_string(rest).or_else(|| string(rest)).or_else(|| character(rest)) {
        return (Kind::Literal, length);
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    if word > 0 {
        return (Kind::Word, word);
    }
    (Kind::Mark, rest.chars().next().map_or(0, char::len_utf8))
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut after = 0;
    for (at, pair) in rest.as_bytes().windows(2).enumerate() {
        if at < after {
            continue;
        }
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth = depth.saturating_sub(1),
            _ => continue,
        }
        after = at + 2;
        if depth == 0 {
            return after;
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let opened = ["r", "br", "cr"].iter().find_map(|prefix| {
        let quote = rest.strip_prefix(prefix)?.trim_start_matches('#');
        quote.starts_with('"').then_some((rest.len() - quote.len(), prefix.len()))
    });
    let (quote, prefix) = opened?;
    let closing = format!("\"{}", "#".repeat(quote - prefix));
    let inside = rest.get(quote + 1..)?;
    Some(inside.find(&closing).map_or(rest.len(), |end| quote + 1 + end + closing.len()))
}

fn string(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('"')?;
    Some(rest.len() - inside.len() + quoted(inside, '"'))
}

/// `'x'` or `'\n'`, but not the lifetime `'x`.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let mut chars = inside.chars();
    let first = chars.next()?;
    let is_character = first == '\\' || chars.next() == Some('\'');
    is_character.then(|| 1 + quoted(inside, '\''))
}

/// The length of quoted text including its closing quote, which a backslash can escape.
fn quoted(inside: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    inside.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, kind: Kind) -> Vec<&str> {
        tokens(text).into_iter().filter(|token| token.kind == kind).map(|token| token.text).collect()
    }

    #[test]
    fn literals_end_where_they_end() {
        for literal in [
            r#""plain""#,
            r#""with \" quote""#,
            r#""ends in \\""#,
            r##"r#"raw " quote"#"##,
            r#"r"raw \""#,
            r#"b"bytes""#,
            r##"br#"raw " bytes"#"##,
            r#"c"text""#,
            "'x'",
            r"'\''",
            r"'\u{1F600}'",
            "'\"'",
            "'é'",
            "\"two\nlines\"",
        ] {
            let text = format!("a({literal}, unsafe)");
            assert_eq!(of(&text, Kind::Literal), [literal]);
            assert_eq!(of(&text, Kind::Word), ["a", "unsafe"], "{literal}");
        }
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_not_literals() {
        assert_eq!(of("fn f<'a>(r#type: &'a str, x: &'static u8) {}", Kind::Literal), [""; 0]);
    }

    #[test]
    fn comments_nest_and_hide_code() {
        assert_eq!(of("a /* b /* c */ d */ e // f\ng", Kind::Word), ["a", "e", "g"]);
        assert_eq!(of("/*/ a */ b", Kind::Word), ["b"]);
        assert_eq!(of("a /* not closed", Kind::Word), ["a"]);
    }

    #[test]
    fn lines_count_through_every_kind_of_token() {
        let text = "//! Doc.\n\n\"a\nb\" /* c\nd */ last";
        assert_eq!(tokens(text).last().map(|token| (token.text, token.line)), Some(("last", 5)));
    }

    #[test]
    fn patterns_match_across_spacing_and_not_inside_words() {
        let file = RustFile::parse("a.rs", "std :: fs\n::x; astd::fs; std::fsx; \"std::fs\"\nstd::fs");
        assert_eq!(file.lines("std::fs"), [1, 3]);
    }

    #[test]
    fn imports_are_expanded() {
        let file = RustFile::parse(
            "a.rs",
            "use a;\nuse a::{b, c::{d, e as f}, g::*,};\npub(crate) use h::*;\nfn f() -> impl X + use<'a> {}",
        );
        let found: Vec<(String, usize, bool)> =
            imports(&file.code).into_iter().map(|import| (import.path, import.line, import.public)).collect();
        let expected = [
            ("a", 1, false),
            ("a::b", 2, false),
            ("a::c::d", 2, false),
            ("a::c::e", 2, false),
            ("a::g::*", 2, false),
            ("h::*", 3, true),
        ];
        assert_eq!(found, expected.map(|(path, line, public)| (path.to_owned(), line, public)));
    }

    #[test]
    fn unfinished_imports_are_read_to_the_end() {
        for text in ["use", "use a::{", "use a::{b,", "use {;", "use a as", "use a::{b}}}"] {
            let file = RustFile::parse("a.rs", text);
            assert!(imports(&file.code).len() < 3, "{text}");
        }
    }

    #[test]
    fn only_a_trailing_test_module_is_left_out() {
        for (text, expected) in [
            ("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() { {} }\n}\n", 2),
            ("fn a() {}\n#[cfg(test)]\n#[allow(x, reason = \"y\")]\nmod tests {\n}\n", 1),
            ("#[cfg(test)]\nmod tests {\n}\nfn after() {}\n", 4),
            ("#[cfg(test)]\nfn sample() {}\n\n#[cfg(test)]\nmod tests {}\n", 3),
            ("fn a() {}\n#[cfg(test)]\nmod tests;\n", 3),
            ("fn a() {}\n", 1),
        ] {
            assert_eq!(RustFile::parse("a.rs", text).product_lines(), expected, "{text}");
        }
    }

    #[test]
    fn product_code_excludes_tests() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\n";
        assert_eq!(RustFile::parse("src/a.rs", text).product_code().len(), 6);
        for path in ["crates/a/tests/b.rs", "src/a/tests.rs", "src/a_tests.rs", "benches/a.rs"] {
            assert!(RustFile::parse(path, text).product_code().is_empty(), "{path}");
        }
    }
}
