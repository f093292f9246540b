//! The strict parser (R3): UTF-8 without BOM, RFC 8259 grammar, no duplicate key, no lone surrogate, no
//! integer that a double would change, within the depth and the size of its [`Limits`].
//!
//! It continues after faults that leave the structure readable (a duplicate key, a lone surrogate, a number) and
//! stops at others (grammar, depth, size). It never recurses, so no input can exhaust the stack.

use std::borrow::Cow;

use super::Document;
use super::canonical::number_text;
use super::document::{Node, Token, TokenKind, Trail};
use super::fault::Fault;
use crate::violation::{Code, MAX_VIOLATIONS};

/// How deep arrays and objects may nest in a document from outside (R3): 128 passes, 129 does not.
pub const MAX_DEPTH: usize = 128;
/// How deep they may nest in what CreAleph composed, which embeds documents from outside (R3).
pub const MAX_OWN_DEPTH: usize = 192;

/// The limits of one parse.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest text that is read, in bytes.
    pub max_bytes: usize,
    /// How deep arrays and objects may nest, at most [`MAX_OWN_DEPTH`].
    pub max_depth: usize,
}

impl Limits {
    /// For a document that comes from outside.
    pub const fn outside(max_bytes: usize) -> Limits {
        Limits { max_bytes, max_depth: MAX_DEPTH }
    }

    /// For a document that CreAleph composed: an entry, a record, an export, a receipt, a proof.
    pub const fn own(max_bytes: usize) -> Limits {
        Limits { max_bytes, max_depth: MAX_OWN_DEPTH }
    }
}

impl Default for Limits {
    /// A document from outside of at most 16 MiB.
    fn default() -> Self {
        Limits::outside(16 << 20)
    }
}

/// Parses a text. The document is absent if a fault made it unreadable; otherwise there may still be faults
/// besides it, and the text is I-JSON exactly if there are none.
pub fn parse<'a>(bytes: &'a [u8], limits: &Limits) -> (Option<Document<'a>>, Vec<Fault>) {
    let max_bytes = limits.max_bytes.min(u32::MAX as usize / 2);
    if bytes.len() > max_bytes {
        let message = format!("the document is longer than {max_bytes} bytes; split it, or raise the limit");
        return (None, vec![Fault { pointer: String::new(), span: (0, 0), code: Code::TooLarge, message }]);
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let offset = error.valid_up_to();
            let message = format!("byte {offset} is not valid UTF-8; encode the document as UTF-8");
            return (
                None,
                vec![Fault {
                    pointer: String::new(),
                    span: (offset, offset + 1),
                    code: Code::NotUtf8,
                    message,
                }],
            );
        }
    };
    let mut parser = Parser {
        text,
        bytes,
        pos: 0,
        tokens: Vec::with_capacity((bytes.len() / 12).clamp(16, 1 << 16)),
        open: Vec::with_capacity(16),
        max_depth: limits.max_depth.min(MAX_OWN_DEPTH),
        depth: 0,
        found: Vec::new(),
        omitted: 0,
    };
    let outcome = parser.run();
    let mut faults = parser.faults();
    match outcome {
        Ok(()) => (Some(Document { text, tokens: parser.tokens, depth: parser.depth }), faults),
        Err(stop) => {
            let (line, column) = line_and_column(text, stop.offset);
            let last = Node { text, tokens: &parser.tokens, index: parser.tokens.len().saturating_sub(1) };
            // Text after the whole document belongs to no value in it.
            let pointer = if parser.open.is_empty() { String::new() } else { last.pointer() };
            faults.push(Fault {
                pointer,
                span: (stop.offset, stop.offset + 1),
                code: stop.code,
                message: format!("{} (line {line}, column {column})", stop.message),
            });
            (None, faults)
        }
    }
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// Ends the parse: the rest cannot be read with any certainty.
struct Stop {
    offset: usize,
    code: Code,
    message: Cow<'static, str>,
}

/// A fault that leaves the structure readable; its pointer is computed when the parse is over.
struct LocatedFault {
    token: usize,
    code: Code,
}

impl LocatedFault {
    fn resolve(&self, node: Node<'_>, trail: &mut Trail) -> Fault {
        let source = shortened(node.source());
        let message = match self.code {
            Code::DuplicateKey => format!("the key {source} appears twice in this object; keep one of them"),
            Code::LoneSurrogate => {
                "an escape names half of a surrogate pair; write the whole character or leave it out"
                    .to_owned()
            }
            Code::InexactInteger => {
                format!("{source} does not fit an IEEE double, its digits would change; send it as a string")
            }
            _ => format!("{source} is beyond the largest IEEE double; send it as a string"),
        };
        let pointer = trail.pointer(node).to_owned();
        Fault { pointer, span: node.span(), code: self.code.clone(), message }
    }
}

fn shortened(source: &str) -> String {
    match source.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", source.get(..at).unwrap_or_default()),
        None => source.to_owned(),
    }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    tokens: Vec<Token>,
    /// The token indexes of the containers that are open, outermost first.
    open: Vec<u32>,
    max_depth: usize,
    /// How deep the containers nest so far.
    depth: usize,
    found: Vec<LocatedFault>,
    /// How many more were found than are listed.
    omitted: usize,
}

impl Parser<'_> {
    /// The faults found so far, in the document's order.
    fn faults(&mut self) -> Vec<Fault> {
        self.found.sort_by_key(|found| found.token);
        let mut trail = Trail::default();
        let node = |index| Node { text: self.text, tokens: &self.tokens, index };
        let mut faults: Vec<Fault> =
            self.found.iter().map(|found| found.resolve(node(found.token), &mut trail)).collect();
        if self.omitted > 0 {
            let message = format!("{} more faults like these are not listed; fix these first", self.omitted);
            faults.push(Fault { pointer: String::new(), span: (0, 0), code: Code::TooMany, message });
        }
        faults
    }

    fn run(&mut self) -> Result<(), Stop> {
        if self.bytes.starts_with(&[0xEF, 0xBB, 0xBF]) {
            return Err(self.stop(Code::Bom, "the document starts with a byte order mark; remove it"));
        }
        loop {
            if self.value()? {
                continue;
            }
            if self.after_value()? {
                return Ok(());
            }
        }
    }

    /// Reads one scalar or opens one container; true when another value must follow at once.
    fn value(&mut self) -> Result<bool, Stop> {
        match self.peek_past_space() {
            Some(b'"') => self.string()?,
            Some(b'{') => {
                self.open(TokenKind::Object)?;
                if self.peek_past_space() == Some(b'}') {
                    self.close();
                } else {
                    self.key()?;
                    return Ok(true);
                }
            }
            Some(b'[') => {
                self.open(TokenKind::Array)?;
                if self.peek_past_space() == Some(b']') {
                    self.close();
                } else {
                    return Ok(true);
                }
            }
            Some(b'-') if !self.bytes.get(self.pos + 1).is_some_and(u8::is_ascii_digit) => {
                return Err(self.no_value());
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", TokenKind::True)?,
            Some(b'f') => self.word("false", TokenKind::False)?,
            Some(b'n') => self.word("null", TokenKind::Null)?,
            _ => return Err(self.no_value()),
        }
        Ok(false)
    }

    /// Closes the containers that end here; true when the document is complete.
    fn after_value(&mut self) -> Result<bool, Stop> {
        loop {
            let next = self.peek_past_space();
            let Some(&container) = self.open.last() else {
                return match next {
                    None => Ok(true),
                    Some(_) => Err(self
                        .stop(Code::Syntax, "a second value follows the document; send only one document")),
                };
            };
            let in_object = self.tokens.get(container as usize).is_some_and(|t| t.kind == TokenKind::Object);
            match (in_object, next) {
                (true, Some(b',')) => {
                    self.pos += 1;
                    self.key()?;
                    return Ok(false);
                }
                (false, Some(b',')) => {
                    self.pos += 1;
                    return Ok(false);
                }
                (true, Some(b'}')) | (false, Some(b']')) => self.close(),
                (_, None) => {
                    return Err(self.stop(
                        Code::Syntax,
                        "the document ends inside an array or object; it was cut off or a bracket is missing",
                    ));
                }
                (true, _) => return Err(self.expected("`,` or `}` after a member")),
                (false, _) => return Err(self.expected("`,` or `]` after an element")),
            }
        }
    }

    fn open(&mut self, kind: TokenKind) -> Result<(), Stop> {
        if self.open.len() >= self.max_depth {
            let message =
                format!("arrays and objects nest more than {} deep; flatten the document", self.max_depth);
            return Err(self.stop(Code::TooDeep, message));
        }
        self.open.push(self.tokens.len() as u32);
        self.depth = self.depth.max(self.open.len());
        let start = self.pos as u32;
        self.tokens.push(Token { kind, start, end: start + 1, next: 0 });
        self.pos += 1;
        Ok(())
    }

    fn close(&mut self) {
        self.pos += 1;
        let next = self.tokens.len() as u32;
        let Some(container) = self.open.pop() else { return };
        let Some(token) = self.tokens.get_mut(container as usize) else { return };
        token.end = self.pos as u32;
        token.next = next;
        if token.kind == TokenKind::Object {
            self.find_duplicates(container as usize, next as usize);
        }
    }

    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        let next = self.tokens.len() as u32 + 1;
        self.tokens.push(Token { kind, start: start as u32, end: end as u32, next });
    }

    /// A member's key and colon.
    fn key(&mut self) -> Result<(), Stop> {
        match self.peek_past_space() {
            Some(b'"') => self.string()?,
            Some(b'}') => {
                return Err(self.stop(Code::Syntax, "there is a comma before `}`; remove it"));
            }
            Some(b'\'') => {
                return Err(self.stop(Code::Syntax, "a key is in single quotes; JSON requires double quotes"));
            }
            Some(b'/' | b'#') => return Err(self.stop(Code::Syntax, "JSON has no comments; remove it")),
            Some(_) => return Err(self.expected("a key in double quotes")),
            None => {
                return Err(
                    self.stop(Code::Syntax, "the document ends where a key was expected; it was cut off")
                );
            }
        }
        if self.peek_past_space() != Some(b':') {
            return Err(self.expected("`:` after a key"));
        }
        self.pos += 1;
        Ok(())
    }

    fn word(&mut self, word: &'static str, kind: TokenKind) -> Result<(), Stop> {
        let end = self.pos + word.len();
        if self.bytes.get(self.pos..end) != Some(word.as_bytes()) {
            return Err(self.no_value());
        }
        self.push(kind, self.pos, end);
        self.pos = end;
        Ok(())
    }

    #[inline]
    fn string(&mut self) -> Result<(), Stop> {
        let start = self.pos + 1;
        self.pos = plain_end(self.bytes, start);
        if self.peek() != Some(b'"') {
            return self.escaped_string(start);
        }
        self.push(TokenKind::Plain, start, self.pos);
        self.pos += 1;
        Ok(())
    }

    /// The rest of a string that contains an escape, or something that a string must not contain.
    #[inline(never)]
    fn escaped_string(&mut self, start: usize) -> Result<(), Stop> {
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(control) => {
                    return Err(self.stop(
                        Code::Syntax,
                        format!(
                            "a string contains the control character U+{control:04X}; write it as an escape"
                        ),
                    ));
                }
                None => {
                    return Err(self.stop(
                        Code::Syntax,
                        "the document ends inside a string; it was cut off or a quote is missing",
                    ));
                }
            }
            self.pos = plain_end(self.bytes, self.pos);
        }
        self.push(TokenKind::Escaped, start, self.pos);
        self.pos += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Stop> {
        match self.bytes.get(self.pos + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.pos += 2,
            Some(b'u') => {
                let unit = self.unit()?;
                let after = self.pos;
                let is_whole = match unit {
                    0xD800..=0xDBFF if self.bytes.get(after..after + 2) == Some(b"\\u") => {
                        (0xDC00..0xE000).contains(&self.unit()?)
                    }
                    0xD800..=0xDFFF => false,
                    _ => true,
                };
                if !is_whole {
                    self.pos = after;
                    self.note(self.tokens.len(), Code::LoneSurrogate);
                }
            }
            _ => {
                return Err(self.stop(
                    Code::Syntax,
                    "a backslash in a string must be followed by one of \" \\ / b f n r t u; write \\\\ for a backslash",
                ));
            }
        }
        Ok(())
    }

    /// The code unit of the `\uXXXX` at the current position.
    fn unit(&mut self) -> Result<u16, Stop> {
        let digits =
            self.text.get(self.pos + 2..self.pos + 6).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(unit) = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) else {
            return Err(self.stop(Code::Syntax, "\\u must be followed by four hexadecimal digits"));
        };
        self.pos += 6;
        Ok(unit)
    }

    fn number(&mut self) -> Result<(), Stop> {
        let start = self.pos;
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        let digits_start = self.pos;
        self.digits("a digit")?;
        let digits = self.pos - digits_start;
        if digits > 1 && self.bytes.get(digits_start) == Some(&b'0') {
            self.pos = digits_start;
            return Err(self.stop(Code::Syntax, "a number has a leading zero; remove it"));
        }
        let mut kind = TokenKind::Integer;
        let mut may_overflow = digits > 300;
        if self.peek() == Some(b'.') {
            kind = TokenKind::Decimal;
            self.pos += 1;
            self.digits("a digit after the decimal point")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            kind = TokenKind::Decimal;
            may_overflow = true;
            self.pos += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.pos += 1;
            }
            self.digits("a digit in the exponent")?;
        }
        if kind == TokenKind::Integer && digits > 15 {
            let source = self.text.get(start..self.pos).unwrap_or_default();
            if !integer_keeps_its_digits(source) {
                self.note(self.tokens.len(), Code::InexactInteger);
            }
        } else if may_overflow {
            let source = self.text.get(start..self.pos).unwrap_or_default();
            if !source.parse::<f64>().is_ok_and(f64::is_finite) {
                self.note(self.tokens.len(), Code::NotFinite);
            }
        }
        self.push(kind, start, self.pos);
        Ok(())
    }

    fn digits(&mut self, wanted: &'static str) -> Result<(), Stop> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.peek() {
            self.pos += 1;
        }
        if self.pos == start { Err(self.expected(wanted)) } else { Ok(()) }
    }

    /// Notes every key of the object that also appears earlier in it.
    fn find_duplicates(&mut self, container: usize, end: usize) {
        if self.keys_differ(container, end) {
            return;
        }
        let root = Node { text: self.text, tokens: &self.tokens, index: container };
        let mut keys: Vec<(Cow<'_, str>, usize)> =
            root.members().map(|(key, _)| (key.text_value(), key.index)).collect();
        keys.sort();
        let mut repeated: Vec<usize> = keys
            .windows(2)
            .filter_map(|pair| match pair {
                [(first, _), (second, index)] if first == second => Some(*index),
                _ => None,
            })
            .collect();
        repeated.sort_unstable();
        for key in repeated {
            self.note(key, Code::DuplicateKey);
        }
    }

    /// Whether a quick look shows that the object's keys all differ: there are few, and no two look alike.
    fn keys_differ(&self, container: usize, end: usize) -> bool {
        const FEW: usize = 16;
        let mut prints = [0; FEW];
        let mut count = 0;
        let mut at = container + 1;
        while at < end {
            let (Some(key), Some(value)) = (self.tokens.get(at), self.tokens.get(at + 1)) else {
                return false;
            };
            let source = self.bytes.get(key.start as usize..key.end as usize).unwrap_or_default();
            let print = fingerprint(source);
            let Some((earlier, [slot, ..])) = prints.split_at_mut_checked(count) else { return false };
            if key.kind == TokenKind::Escaped || earlier.contains(&print) {
                return false;
            }
            *slot = print;
            count += 1;
            at = value.next as usize;
        }
        true
    }

    fn note(&mut self, token: usize, code: Code) {
        if self.found.len() < MAX_VIOLATIONS {
            self.found.push(LocatedFault { token, code });
        } else {
            self.omitted += 1;
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    #[inline]
    fn peek_past_space(&mut self) -> Option<u8> {
        loop {
            let byte = self.peek()?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.pos += 1;
        }
    }

    fn stop(&self, code: Code, message: impl Into<Cow<'static, str>>) -> Stop {
        Stop { offset: self.pos, code, message: message.into() }
    }

    fn expected(&self, what: &str) -> Stop {
        let found = match self.text.get(self.pos..).and_then(|rest| rest.chars().next()) {
            Some(found) => format!("`{}`", found.escape_debug()),
            None => "the end of the document".to_owned(),
        };
        self.stop(Code::Syntax, format!("expected {what}, found {found}"))
    }

    /// Says why no value can start here, in words that help with common mistakes.
    fn no_value(&self) -> Stop {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let starts = |word: &str| rest.starts_with(word);
        if rest.is_empty() && self.tokens.is_empty() {
            return self.stop(Code::Syntax, "the document is empty; send a JSON object");
        }
        if rest.is_empty() {
            return self.stop(Code::Syntax, "the document ends where a value was expected; it was cut off");
        }
        if starts("]") || starts("}") {
            return self.stop(
                Code::Syntax,
                "a value is missing here, or there is a comma before the bracket; remove it",
            );
        }
        if starts("NaN") || starts("Infinity") || starts("-Infinity") || starts("undefined") {
            let word = rest.split(|c: char| !c.is_ascii_alphabetic() && c != '-').next().unwrap_or_default();
            return self.stop(
                Code::Syntax,
                format!(
                    "`{}` is not JSON; send a number, null if it is allowed, or leave the key out",
                    shortened(word)
                ),
            );
        }
        if starts("'") {
            return self.stop(Code::Syntax, "a string is in single quotes; JSON requires double quotes");
        }
        if starts("//") || starts("/*") || starts("#") {
            return self.stop(Code::Syntax, "JSON has no comments; remove it");
        }
        if starts("---") || self.tokens.is_empty() && looks_like_yaml(rest) {
            return self.stop(Code::Syntax, "this looks like YAML; convert it to JSON first");
        }
        self.expected("a value")
    }
}

fn looks_like_yaml(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.split_once(':').is_some_and(|(key, _)| {
        !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
    })
}

/// A number that equal keys share and different keys rarely do: made of length, start and end.
#[inline]
fn fingerprint(key: &[u8]) -> u64 {
    let ends = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) => u64::from_le_bytes(*first).rotate_left(5) ^ u64::from_le_bytes(*last),
        _ => match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*first)) << 24 ^ u64::from(u32::from_le_bytes(*last))
            }
            _ => key.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        },
    };
    ends ^ (key.len() as u64) << 56
}

/// The end of the run of ordinary string bytes that starts at `from`: a quote, a backslash, a control
/// character or the end of the text. Looks at eight bytes at a time.
#[inline]
pub(super) fn plain_end(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        let hits = (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let hits = hits & HIGHS;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, b'"' | b'\\' | 0..=0x1F) {
            break;
        }
        at += 1;
    }
    at
}

/// Whether an integer survives as a double: exactly representable (R3), or written as RFC 8785 writes
/// the double it names, so that canonical text can always be read back.
fn integer_keeps_its_digits(source: &str) -> bool {
    // A number beyond every double is written without digits, so it keeps none.
    source.parse().is_ok_and(|value: f64| format!("{value:.0}") == source || number_text(value) == source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<(String, Code)> {
        parse(text.as_bytes(), &Limits::default()).1.into_iter().map(|f| (f.pointer, f.code)).collect()
    }

    fn fault(pointer: &str, code: Code) -> Vec<(String, Code)> {
        vec![(pointer.to_owned(), code)]
    }

    #[test]
    fn reads_every_kind_of_value_back() {
        let text =
            r#" {"a": [1, -2.5e3, true, false, null], "b\n\u00e9\ud83d\ude00": {"c": "x\"y"}, "": {} } "#;
        let (document, faults) = parse(text.as_bytes(), &Limits::default());
        assert!(faults.is_empty(), "{faults:?}");
        let document = document.unwrap();
        let root = document.root();
        let numbers: Vec<_> = root.member("a").unwrap().elements().map(|n| n.number()).collect();
        assert_eq!(numbers, [Some(1.0), Some(-2500.0), None, None, None]);
        let inner = root.member("b\né😀").unwrap().member("c").unwrap();
        assert_eq!(inner.string().unwrap(), "x\"y");
        assert_eq!(inner.pointer(), "/b\né😀/c");
        assert_eq!(root.member("").unwrap().pointer(), "/");
    }

    #[test]
    fn duplicate_keys_are_found_at_any_depth_and_in_any_spelling() {
        assert_eq!(codes(r#"{"a":1,"b":[{"c":1,"c":2}]}"#), fault("/b/0/c", Code::DuplicateKey));
        assert_eq!(codes(r#"{"a":1,"\u0061":2}"#), fault("/a", Code::DuplicateKey));
        assert_eq!(codes(r#"{"beginningAend-of-it":1,"beginningBend-of-it":2}"#), [], "alike is not equal");
        let alike = r#"{"beginningAend-of-it":1,"beginningBend-of-it":2,"beginningAend-of-it":3}"#;
        assert_eq!(codes(alike), fault("/beginningAend-of-it", Code::DuplicateKey));
        let many: Vec<String> = (0..40).map(|n| format!("\"k{n}\":{n}")).collect();
        assert_eq!(codes(&format!("{{{},\"k7\":0}}", many.join(","))), fault("/k7", Code::DuplicateKey));
        assert_eq!(codes(&format!("{{{}}}", many.join(","))), []);
    }

    #[test]
    fn a_lone_surrogate_is_reported_and_reading_continues() {
        assert_eq!(codes(r#"["\ud800", "\udc00x", "\ud800\ud800", "\ud83d\ude00"]"#).len(), 4);
        assert_eq!(codes(r#"{"a":"\ud800"}"#), fault("/a", Code::LoneSurrogate));
    }

    #[test]
    fn integers_must_keep_their_digits() {
        for kept in ["9007199254740992", "-9007199254740993000000", "100000000000000000000", "-0"] {
            let expected = kept == "-9007199254740993000000";
            assert_eq!(!codes(kept).is_empty(), expected, "{kept}");
        }
        assert_eq!(codes("9007199254740993"), fault("", Code::InexactInteger));
        assert_eq!(codes("295147905179352825856"), []);
        assert_eq!(codes("295147905179352830000"), [], "the RFC 8785 text of 2^68 can be read back");
        assert_eq!(codes("1e400"), fault("", Code::NotFinite));
        assert_eq!(codes(&format!("[{}]", "9".repeat(400))), fault("/0", Code::InexactInteger));
        assert_eq!(codes(&format!("[{}.5]", "9".repeat(400))), fault("/0", Code::NotFinite));
        assert_eq!(codes("1e-400"), []);
    }

    #[test]
    // holds: invariant 3
    fn depth_128_passes_and_129_does_not() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        let is_read = |n: usize, limits: &Limits| parse(nested(n).as_bytes(), limits).0.map(|it| it.depth());
        let own = Limits::own(usize::MAX);
        assert_eq!(
            (is_read(129, &own), is_read(192, &own), is_read(193, &own)),
            (Some(129), Some(192), None)
        );
        assert_eq!(is_read(193, &Limits { max_depth: usize::MAX, ..own }), None, "no reader takes more");
        assert_eq!(codes(&nested(128)), []);
        assert!(codes(&nested(129)).iter().any(|(_, code)| *code == Code::TooDeep));
        assert!(codes(&"[".repeat(20_000)).iter().any(|(_, code)| *code == Code::TooDeep));
    }

    #[test]
    fn invalid_json_is_refused_with_a_helpful_message() {
        let cases = [
            ("", "empty"),
            ("  \n", "empty"),
            ("{robotId:1}", "a key in double quotes"),
            ("{'a':1}", "single quotes"),
            ("[1,]", "comma"),
            ("{\"a\":1,}", "comma"),
            ("{\"a\":NaN}", "`NaN`"),
            ("{\"a\":undefined}", "`undefined`"),
            ("[-Infinity]", "`-Infinity`"),
            ("[-]", "expected a value"),
            ("[01]", "leading zero"),
            ("[+1]", "expected a value"),
            ("[1.]", "after the decimal point"),
            ("[1e]", "in the exponent"),
            ("[.5]", "expected a value"),
            ("\"a\nb\"", "U+000A"),
            ("\"\\x\"", "backslash"),
            ("\"\\u12g4\"", "four hexadecimal"),
            ("\"\\u+123\"", "four hexadecimal"),
            ("{} {}", "second value"),
            ("{\"a\":1 // no\n}", "`,` or `}`"),
            ("[1 2]", "`,` or `]`"),
            ("{\"a\" 1}", "`:`"),
            ("[\"abc", "inside a string"),
            ("[1,2", "inside an array"),
            ("tenantId: t-1\n", "YAML"),
            ("---\na: 1\n", "YAML"),
            ("# note\n{}", "comments"),
            ("\u{feff}{}", "byte order mark"),
            ("nul", "expected a value"),
        ];
        for (text, expected) in cases {
            let (document, faults) = parse(text.as_bytes(), &Limits::default());
            assert!(document.is_none(), "{text:?} was read");
            let message = &faults.last().unwrap().message;
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn text_after_the_document_belongs_to_no_value() {
        assert_eq!(codes("{\"a\":{\"b\":1}} {}"), fault("", Code::Syntax));
        assert_eq!(codes("{\"a\":{\"b\":1 2}}"), fault("/a/b", Code::Syntax));
    }

    #[test]
    fn invalid_utf_8_and_oversized_texts_are_refused() {
        let (document, faults) = parse(b"{\"a\":\"\xff\"}", &Limits::default());
        assert!(document.is_none());
        assert_eq!((faults[0].code.clone(), faults[0].span), (Code::NotUtf8, (6, 7)));
        let (document, faults) = parse(b"[1,2,3]", &Limits::outside(6));
        assert!(document.is_none());
        assert_eq!(faults[0].code, Code::TooLarge);
        assert!(parse(b"[1,2,3]", &Limits::outside(7)).1.is_empty());
    }

    #[test]
    fn the_fast_scan_of_strings_stops_where_a_slow_one_does() {
        for filler in 0..24 {
            for stopper in [b'"', b'\\', 0x00, 0x1F] {
                let mut bytes = vec![b'\xC3'; filler];
                bytes.push(stopper);
                bytes.extend_from_slice(b"\x7f \x80tail and more tail");
                assert_eq!(plain_end(&bytes, 0), filler, "{stopper}");
            }
        }
        assert_eq!(plain_end(b"no end in sight", 3), 15);
    }

    #[test]
    fn a_fault_gives_its_position() {
        for (text, place, span) in [
            ("[1,\n  é x]", "line 2, column 3", (6, 7)),
            ("x", "line 1, column 1", (0, 1)),
            ("{\"a\":1,\n\n \"b\" 2}", "line 3, column 6", (14, 15)),
            ("[1] 2", "line 1, column 5", (4, 5)),
        ] {
            let (_, faults) = parse(text.as_bytes(), &Limits::default());
            let fault = faults.last().unwrap();
            assert!(fault.message.contains(place), "{text:?}: {}", fault.message);
            assert_eq!(fault.span, span, "{text:?}");
        }
    }

    #[test]
    fn a_fault_quotes_what_is_wrong_and_shortens_it() {
        let message = |text: &str| parse(text.as_bytes(), &Limits::default()).1[0].message.clone();
        assert!(
            message("{\"a\":1,\"a\":2}").contains("\"a\" appears twice"),
            "{}",
            message("{\"a\":1,\"a\":2}")
        );
        assert!(message("[9007199254740993]").starts_with("9007199254740993 does not fit"));
        assert!(message("[1e400]").starts_with("1e400 is beyond the largest"));
        assert!(message("[\"\\ud800\"]").contains("half of a surrogate pair"));
        assert!(message(&"9".repeat(41)).starts_with(&format!("{}… does not fit", "9".repeat(40))));
        assert!(
            message(&format!("1{}9", "0".repeat(38)))
                .starts_with(&format!("1{}9 does not fit", "0".repeat(38)))
        );
    }
}
