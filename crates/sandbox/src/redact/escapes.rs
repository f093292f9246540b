//! Decoding escapes in a stream, one character at a time with bounded state: percent-encoding, the backslash escapes of JSON, C and
//! shells, HTML entities; and, on their own, those of quoted-printable. Anything that is not an escape passes through unchanged.

/// One byte of a stream, and its range in the source: from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) byte: u8,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A family of escapes that are decoded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// The next three together.
    Text,
    /// `%2F`, `%u002F`.
    Percent,
    /// `\u002f`, `\/`, `\x2f`, `\057`, a backslash at the end of a line.
    Backslash,
    /// `&#47;`, `&#x2f;`, `&amp;`.
    Entity,
    /// `=2F` and `=` at the end of a line.
    QuotedPrintable,
}

impl Family {
    pub(super) fn starts_with(self, byte: u8) -> bool {
        match self {
            Family::Text => matches!(byte, b'%' | b'\\' | b'&'),
            Family::Percent => byte == b'%',
            Family::Backslash => byte == b'\\',
            Family::Entity => byte == b'&',
            Family::QuotedPrintable => byte == b'=',
        }
    }

    fn parse(self, text: &[u8]) -> Parsed {
        match (self, text.split_first()) {
            (Family::QuotedPrintable, Some((b'=', rest))) => quoted_printable(rest),
            (Family::Text | Family::Percent, Some((b'%', rest))) => percent(rest),
            (Family::Text | Family::Backslash, Some((b'\\', rest))) => backslash(rest),
            (Family::Text | Family::Entity, Some((b'&', rest))) => entity(rest),
            _ => Parsed::Literal,
        }
    }
}

/// The kind of a text's start.
enum Parsed {
    /// Perhaps an escape; more is needed to tell.
    More,
    /// Its first byte is no escape.
    Literal,
    /// An escape of this many bytes after its first one.
    Escape { rest_bytes: usize, is: Unescaped },
}

/// The meaning of an escape.
enum Unescaped {
    Nothing,
    Byte(u8),
    Character(char),
}

/// A possible escape that is not complete yet.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    family: Family,
    pending: Vec<Item>,
}

impl Decoder {
    pub(super) fn new(family: Family) -> Self {
        Self { family, pending: Vec::new() }
    }

    pub(super) fn family(&self) -> Family {
        self.family
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The start of the incomplete part in the source.
    pub(super) fn begun_at(&self) -> Option<u64> {
        self.pending.first().map(|item| item.start)
    }

    /// Takes one more byte, and returns the bytes that it settles.
    pub(super) fn push(&mut self, item: Item, emit: &mut dyn FnMut(Item)) {
        if self.pending.is_empty() && !self.family.starts_with(item.byte) {
            emit(item);
            return;
        }
        self.pending.push(item);
        self.settle(false, emit);
    }

    /// Returns the rest.
    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(Item)) {
        self.settle(true, emit);
    }

    fn settle(&mut self, is_last: bool, emit: &mut dyn FnMut(Item)) {
        while let Some(first) = self.pending.first().copied() {
            let text: Vec<u8> = self.pending.iter().map(|item| item.byte).collect();
            let parsed = match self.family.parse(&text) {
                Parsed::More if is_last => {
                    // An end ends a number, too.
                    let ended: Vec<u8> = text.iter().copied().chain([b' ']).collect();
                    self.family.parse(&ended)
                }
                parsed => parsed,
            };
            let used = match parsed {
                Parsed::More if !is_last => return,
                Parsed::More | Parsed::Literal => {
                    emit(first);
                    1
                }
                Parsed::Escape { rest_bytes, is } => {
                    let used = rest_bytes.saturating_add(1).min(self.pending.len());
                    let end = self.pending.get(used.saturating_sub(1)).map_or(first.end, |last| last.end);
                    let mut emit_one = |byte: u8| emit(Item { byte, start: first.start, end });
                    match is {
                        Unescaped::Nothing => {}
                        Unescaped::Byte(byte) => emit_one(byte),
                        Unescaped::Character(is) => is.encode_utf8(&mut [0; 4]).bytes().for_each(emit_one),
                    }
                    used
                }
            };
            self.pending.drain(..used);
        }
    }
}

fn percent(rest: &[u8]) -> Parsed {
    match rest {
        [b'u' | b'U', digits @ ..] => hexadecimal(digits, 4, 1),
        digits => hexadecimal(digits, 2, 0),
    }
}

fn quoted_printable(rest: &[u8]) -> Parsed {
    match rest {
        [] | [b'\r'] => Parsed::More,
        [b'\n', ..] => Parsed::Escape { rest_bytes: 1, is: Unescaped::Nothing },
        [b'\r', b'\n', ..] => Parsed::Escape { rest_bytes: 2, is: Unescaped::Nothing },
        digits => hexadecimal(digits, 2, 0),
    }
}

/// Exactly `count` digits, which come after `before` other bytes of the escape.
fn hexadecimal(digits: &[u8], count: usize, before: usize) -> Parsed {
    let value = digits.iter().take(count).try_fold(0u32, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value.wrapping_mul(16).wrapping_add(digit))
    });
    match value {
        None => Parsed::Literal,
        Some(_) if digits.len() < count => Parsed::More,
        Some(value) if count == 2 => byte(before.saturating_add(count), value),
        Some(value) => character(before.saturating_add(count), value),
    }
}

fn byte(rest_bytes: usize, value: u32) -> Parsed {
    u8::try_from(value).map_or(Parsed::Literal, |is| Parsed::Escape { rest_bytes, is: Unescaped::Byte(is) })
}

fn character(rest_bytes: usize, value: u32) -> Parsed {
    let is = char::from_u32(value).map(Unescaped::Character);
    is.map_or(Parsed::Literal, |is| Parsed::Escape { rest_bytes, is })
}

fn backslash(rest: &[u8]) -> Parsed {
    let control = |value: u8| Parsed::Escape { rest_bytes: 1, is: Unescaped::Byte(value) };
    match rest {
        [] | [b'\r'] | [b'u'] => Parsed::More,
        [b'\n', ..] => Parsed::Escape { rest_bytes: 1, is: Unescaped::Nothing },
        [b'\r', b'\n', ..] => Parsed::Escape { rest_bytes: 2, is: Unescaped::Nothing },
        [b'u', b'{', digits @ ..] => until(digits, b'}', 16, 6, 2),
        [b'u', digits @ ..] => unit(digits),
        [b'U', digits @ ..] => hexadecimal(digits, 8, 1),
        [b'x', digits @ ..] => hexadecimal(digits, 2, 1),
        [b'0'..=b'7', ..] => octal(rest),
        [b'n', ..] => control(b'\n'),
        [b'r', ..] => control(b'\r'),
        [b't', ..] => control(b'\t'),
        [b'a', ..] => control(7),
        [b'b', ..] => control(8),
        [b'f', ..] => control(12),
        [b'v', ..] => control(11),
        [b'e', ..] => control(27),
        [other, ..] if other.is_ascii_punctuation() || *other == b' ' => control(*other),
        _ => Parsed::Literal,
    }
}

/// A unit of UTF-16 after `\u`, or two that are one character.
fn unit(digits: &[u8]) -> Parsed {
    let read = |digits: &[u8]| {
        let text = std::str::from_utf8(digits.get(..4)?).ok()?;
        u16::from_str_radix(text, 16).ok()
    };
    let Some(first) = read(digits).filter(|first| (0xD800..0xDC00).contains(first)) else {
        return hexadecimal(digits, 4, 1);
    };
    let rest = digits.get(4..).unwrap_or_default();
    if !b"\\u".starts_with(rest.get(..rest.len().min(2)).unwrap_or_default()) {
        return Parsed::Literal;
    }
    let second = rest.get(2..).unwrap_or_default();
    if second.len() < 4 {
        return if second.iter().all(u8::is_ascii_hexdigit) { Parsed::More } else { Parsed::Literal };
    }
    let both = read(second).and_then(|second| char::decode_utf16([first, second]).next()?.ok());
    both.map_or(Parsed::Literal, |is| Parsed::Escape { rest_bytes: 11, is: Unescaped::Character(is) })
}

/// `\7`, `\57`, `\057`, and `\0057` as `printf` of a shell takes it.
fn octal(rest: &[u8]) -> Parsed {
    let most = if rest.first() == Some(&b'0') { 4 } else { 3 };
    let count = rest.iter().take(most).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    if count == rest.len() && count < most {
        return Parsed::More;
    }
    let digits = rest.get(..count).unwrap_or_default();
    let value = digits.iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
    byte(count, value & 0xff)
}

fn entity(rest: &[u8]) -> Parsed {
    const NAMES: [(&[u8], char); 5] =
        [(b"amp;", '&'), (b"lt;", '<'), (b"gt;", '>'), (b"quot;", '"'), (b"apos;", '\'')];
    match rest {
        [] | [b'#'] => Parsed::More,
        [b'#', b'x' | b'X', digits @ ..] => until(digits, b';', 16, 8, 2),
        [b'#', digits @ ..] => until(digits, b';', 10, 8, 1),
        _ => match NAMES.iter().find(|(name, _)| name.starts_with(rest) || rest.starts_with(name)) {
            Some((name, is)) if rest.len() >= name.len() => {
                Parsed::Escape { rest_bytes: name.len(), is: Unescaped::Character(*is) }
            }
            Some(_) => Parsed::More,
            None => Parsed::Literal,
        },
    }
}

/// Digits up to `end`, at most `most`, which come after `before` other bytes of the escape.
fn until(digits: &[u8], end: u8, radix: u32, most: usize, before: usize) -> Parsed {
    let count = digits.iter().take_while(|byte| char::from(**byte).is_digit(radix)).count();
    if count > most {
        return Parsed::Literal;
    }
    match digits.get(count) {
        None => Parsed::More,
        Some(last) if *last == end && count > 0 => {
            let text = digits.get(..count).and_then(|digits| std::str::from_utf8(digits).ok());
            let value = text.and_then(|text| u32::from_str_radix(text, radix).ok());
            let rest_bytes = before.saturating_add(count).saturating_add(1);
            value.map_or(Parsed::Literal, |value| character(rest_bytes, value))
        }
        Some(_) => Parsed::Literal,
    }
}

/// A text with the escapes of a family decoded once.
pub(super) fn undone(family: Family, text: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::new(family);
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        decoder.push(Item { byte: *byte, start: 0, end: 0 }, &mut |item| out.push(item.byte));
    }
    decoder.finish(&mut |item| out.push(item.byte));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_the_rest_is_unchanged() {
        for (escaped, plain) in [
            ("a%2Fb%2fc", "a/b/c"),
            ("100% of %zz %2", "100% of %zz %2"),
            (r#"\u0061\/\"\\n"#, r#"a/"\n"#),
            (r"\ud83d\ude00 \ud83d", "😀 \\ud83d"),
            (r"\x61\141\0141\7", "aaa\x07"),
            ("&#97;&#x61;&amp;&lt;&amp &x", "aa&<&amp &x"),
            ("one\\\ntwo", "onetwo"),
            (r"\u{61}%u0061", "aa"),
            (r"C:\Program", r"C:\Program"),
        ] {
            assert_eq!(
                String::from_utf8(undone(Family::Text, escaped.as_bytes())).unwrap(),
                plain,
                "{escaped}"
            );
        }
        assert_eq!(undone(Family::QuotedPrintable, b"a=3Db=\nc=\r\nd=zz="), b"a=bcd=zz=");
    }
}
