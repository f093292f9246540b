//! The parsed form of a document: one flat list of tokens over the source text, and [`Node`], a cheap
//! view of one value in it. Strings stay in the source until asked for, so a parse allocates one list.

use std::borrow::Cow;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number, written as an integer or not.
    Number,
    /// A string.
    Text,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// The kind as a person reads it, with its article.
    pub fn described(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "a boolean",
            Kind::Number => "a number",
            Kind::Text => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Null,
    True,
    False,
    Integer,
    Decimal,
    /// A string whose source is its value.
    Plain,
    /// A string that holds at least one escape.
    Escaped,
    Array,
    Object,
}

/// One value. `start..end` is its source (a string's without the quotes); `next` is the index of the
/// token after its whole subtree, 0 while the container is still open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) next: u32,
}

/// A document that was parsed without a fatal fault, over its source text.
#[derive(Debug)]
pub struct Document<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
}

impl<'a> Document<'a> {
    /// The outermost value.
    pub fn root(&self) -> Node<'_> {
        Node { text: self.text, tokens: &self.tokens, index: 0 }
    }

    /// The source text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The value a JSON Pointer names, or the nearest value above it that exists.
    pub fn nearest(&self, pointer: &str) -> Node<'_> {
        let mut node = self.root();
        for segment in pointer.split('/').skip(1) {
            let name = segment.replace("~1", "/").replace("~0", "~");
            let found = match node.kind() {
                Kind::Object => {
                    node.members().find(|(key, _)| key.text_value() == name).map(|(_, value)| value)
                }
                Kind::Array => name.parse().ok().and_then(|at: usize| node.elements().nth(at)),
                _ => None,
            };
            match found {
                Some(inner) => node = inner,
                None => break,
            }
        }
        node
    }
}

const NOTHING: Token = Token { kind: TokenKind::Null, start: 0, end: 0, next: 0 };

/// A view of one value of a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) index: usize,
}

impl<'a> Node<'a> {
    #[inline]
    fn token(self) -> Token {
        self.tokens.get(self.index).copied().unwrap_or(NOTHING)
    }

    /// What this value is.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.token().kind {
            TokenKind::Null => Kind::Null,
            TokenKind::True | TokenKind::False => Kind::Boolean,
            TokenKind::Integer | TokenKind::Decimal => Kind::Number,
            TokenKind::Plain | TokenKind::Escaped => Kind::Text,
            TokenKind::Array => Kind::Array,
            TokenKind::Object => Kind::Object,
        }
    }

    /// The value's own source text, exactly as sent (a string with its quotes).
    pub fn source(self) -> &'a str {
        let (start, end) = self.span();
        self.text.get(start..end).unwrap_or_default()
    }

    /// Where the value stands in the source, in bytes.
    pub fn span(self) -> (usize, usize) {
        let token = self.token();
        let quote = usize::from(matches!(token.kind, TokenKind::Plain | TokenKind::Escaped));
        (token.start as usize - quote.min(token.start as usize), token.end as usize + quote)
    }

    /// The boolean, if this is one.
    #[inline]
    pub fn boolean(self) -> Option<bool> {
        match self.token().kind {
            TokenKind::True => Some(true),
            TokenKind::False => Some(false),
            _ => None,
        }
    }

    /// The number as the IEEE double it stands for, if this is one.
    #[inline]
    pub fn number(self) -> Option<f64> {
        let token = self.token();
        match token.kind {
            TokenKind::Integer | TokenKind::Decimal => self.slice(token).parse().ok(),
            _ => None,
        }
    }

    /// The string's value, if this is one. A lone surrogate (a fault of its own) reads as U+FFFD.
    #[inline]
    pub fn string(self) -> Option<Cow<'a, str>> {
        let token = self.token();
        match token.kind {
            TokenKind::Plain => Some(Cow::Borrowed(self.slice(token))),
            TokenKind::Escaped => Some(Cow::Owned(unescape(self.slice(token)))),
            _ => None,
        }
    }

    /// The string's value, or nothing at all for another kind.
    #[inline]
    pub fn text_value(self) -> Cow<'a, str> {
        self.string().unwrap_or_default()
    }

    /// The elements, if this is an array.
    pub fn elements(self) -> impl Iterator<Item = Node<'a>> {
        self.children(TokenKind::Array)
    }

    /// The keys and values, if this is an object.
    pub fn members(self) -> impl Iterator<Item = (Node<'a>, Node<'a>)> {
        let mut children = self.children(TokenKind::Object);
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    /// The member of that name, if this is an object that has one.
    pub fn member(self, name: &str) -> Option<Node<'a>> {
        self.members().find(|(key, _)| key.text_value() == name).map(|(_, value)| value)
    }

    #[inline]
    fn children(self, of: TokenKind) -> Children<'a> {
        let end = if self.token().kind == of { self.end() } else { 0 };
        Children { node: Node { index: self.index + 1, ..self }, end }
    }

    /// The index after this value's subtree: past the last token while it is open, and past everything where
    /// the value is still to come, so that a walk always ends.
    #[inline]
    fn end(self) -> usize {
        match self.tokens.get(self.index) {
            Some(token) if token.next != 0 => token.next as usize,
            Some(_) => self.tokens.len(),
            None => usize::MAX,
        }
    }

    #[inline]
    fn slice(self, token: Token) -> &'a str {
        self.text.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    /// The value's JSON Pointer (RFC 6901). Walks from the root: for reporting, not for reading.
    pub fn pointer(self) -> String {
        let mut pointer = String::new();
        let mut at = Node { index: 0, ..self };
        while at.index < self.index {
            let is_object = at.kind() == Kind::Object;
            let end = at.end();
            let mut child = Node { index: at.index + 1, ..self };
            let mut position = 0usize;
            let inner = loop {
                if child.index >= end {
                    return pointer;
                }
                let value = if is_object { Node { index: child.index + 1, ..self } } else { child };
                let value_end = value.end();
                if self.index < value_end {
                    pointer.push('/');
                    if is_object {
                        push_segment(&mut pointer, &child.text_value());
                    } else {
                        pointer.push_str(&position.to_string());
                    }
                    break value;
                }
                child = Node { index: value_end, ..self };
                position += 1;
            };
            if inner.index >= self.index {
                break;
            }
            at = inner;
        }
        pointer
    }
}

/// Adds one escaped JSON Pointer segment, without its slash.
pub(crate) fn push_segment(pointer: &mut String, name: &str) {
    if name.contains(['~', '/']) {
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(name);
    }
}

struct Children<'a> {
    node: Node<'a>,
    end: usize,
}

impl<'a> Iterator for Children<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Node<'a>> {
        if self.node.index >= self.end {
            return None;
        }
        let child = self.node;
        self.node.index = child.end();
        Some(child)
    }
}

/// The value of a string's source, whose escapes the parser has already judged.
fn unescape(source: &str) -> String {
    let mut value = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        value.push_str(plain);
        let mut chars = escaped.chars();
        let letter = chars.next();
        rest = chars.as_str();
        match letter {
            Some('b') => value.push('\u{8}'),
            Some('f') => value.push('\u{c}'),
            Some('n') => value.push('\n'),
            Some('r') => value.push('\r'),
            Some('t') => value.push('\t'),
            Some('u') => {
                let (unit, after) = take_unit(rest);
                rest = after;
                let low = rest.strip_prefix("\\u").map(take_unit);
                value.push(match (unit, low) {
                    (0xD800..=0xDBFF, Some((low @ 0xDC00..=0xDFFF, after))) => {
                        rest = after;
                        let code = 0x10000 + ((u32::from(unit) - 0xD800) << 10) + (u32::from(low) - 0xDC00);
                        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    _ => char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER),
                });
            }
            Some(other) => value.push(other),
            None => {}
        }
    }
    value.push_str(rest);
    value
}

fn take_unit(digits: &str) -> (u16, &str) {
    let (unit, rest) = digits.split_at_checked(4).unwrap_or((digits, ""));
    (u16::from_str_radix(unit, 16).unwrap_or(0xFFFD), rest)
}
