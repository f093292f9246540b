//! The parsed form of a document: one flat list of tokens over the source text, and [`Node`], a cheap
//! view of one value in it. Strings stay in the source until asked for, so a parse allocates one list.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
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

impl NodeKind {
    /// The kind as a person reads it, with its article.
    pub fn described(self) -> &'static str {
        match self {
            NodeKind::Null => "null",
            NodeKind::Boolean => "a boolean",
            NodeKind::Number => "a number",
            NodeKind::Text => "a string",
            NodeKind::Array => "an array",
            NodeKind::Object => "an object",
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
    pub(super) depth: usize,
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

    /// How deep its arrays and objects nest; 0 for a scalar.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The value a JSON Pointer names, or the nearest value above it that exists.
    pub fn nearest(&self, pointer: &str) -> Node<'_> {
        let mut node = self.root();
        for segment in pointer.split('/').skip(1) {
            let name = segment.replace("~1", "/").replace("~0", "~");
            let found = match node.kind() {
                NodeKind::Object => {
                    node.members().find(|(key, _)| key.text_value() == name).map(|(_, value)| value)
                }
                NodeKind::Array => name.parse().ok().and_then(|at: usize| node.elements().nth(at)),
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
    pub fn kind(self) -> NodeKind {
        match self.token().kind {
            TokenKind::Null => NodeKind::Null,
            TokenKind::True | TokenKind::False => NodeKind::Boolean,
            TokenKind::Integer | TokenKind::Decimal => NodeKind::Number,
            TokenKind::Plain | TokenKind::Escaped => NodeKind::Text,
            TokenKind::Array => NodeKind::Array,
            TokenKind::Object => NodeKind::Object,
        }
    }

    /// The value's own source text, exactly as sent (a string with its quotes).
    pub fn source(self) -> &'a str {
        let (start, end) = self.span();
        self.text.get(start..end).unwrap_or_default()
    }

    /// The range of the value in the source, in bytes.
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

    /// The string's value, if this is one. A lone surrogate (a fault by itself) reads as U+FFFD.
    #[inline]
    pub fn string(self) -> Option<Cow<'a, str>> {
        let token = self.token();
        match token.kind {
            TokenKind::Plain => Some(Cow::Borrowed(self.slice(token))),
            TokenKind::Escaped => Some(Cow::Owned(unescape(self.slice(token)))),
            _ => None,
        }
    }

    /// The string's value, or `None` for another kind.
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

    /// The index after this value's subtree: past the last token while it is open, and past everything if
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
        Trail::default().pointer(self).to_owned()
    }
}

/// The path to the value reported last, from which the search for the next one starts. Reporting any number of values of
/// a document in its order walks over it once.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// The document's address, to recognise another document.
    address: usize,
    steps: Vec<TrailStep>,
    pointer: String,
}

/// From a container to one of its children: an element, or a member by its key.
#[derive(Clone, Copy, Debug)]
struct TrailStep {
    container: usize,
    child: usize,
    position: usize,
    /// The length of the pointer up to here, without the child's segment.
    length: usize,
}

impl Trail {
    /// The JSON Pointer of a value, or of the member whose key it is.
    pub(crate) fn pointer(&mut self, target: Node<'_>) -> &str {
        let address = target.tokens.as_ptr() as usize;
        if self.address != address {
            *self = Trail { address, ..Trail::default() };
        }
        let mut first = self.turn_back(target);
        while let Some(step) = first.take().and_then(|first| find_child(first, target)) {
            let at = |index| Node { index, ..target };
            let is_member = at(step.container).kind() == NodeKind::Object;
            self.pointer.push('/');
            if is_member {
                push_segment(&mut self.pointer, &at(step.child).text_value());
            } else {
                let _ = write!(self.pointer, "{}", step.position);
            }
            self.steps.push(step);
            let container = step.child + usize::from(is_member);
            if container < target.index {
                first = Some(TrailStep {
                    container,
                    child: container + 1,
                    position: 0,
                    length: self.pointer.len(),
                });
            }
        }
        &self.pointer
    }

    /// Goes back until the path leads to the target; returns the step to try next, unless the target is reached.
    fn turn_back(&mut self, target: Node<'_>) -> Option<TrailStep> {
        let at = |index| Node { index, ..target };
        while let Some(step) = self.steps.last().copied() {
            let value = step.child + usize::from(at(step.container).kind() == NodeKind::Object);
            if (step.child..=value).contains(&target.index) {
                return None;
            }
            if (value..at(value).end()).contains(&target.index) {
                return Some(TrailStep {
                    container: value,
                    child: value + 1,
                    position: 0,
                    length: self.pointer.len(),
                });
            }
            self.steps.pop();
            self.pointer.truncate(step.length);
            if (value..at(step.container).end()).contains(&target.index) {
                return Some(step);
            }
        }
        (target.index > 0).then_some(TrailStep { container: 0, child: 1, position: 0, length: 0 })
    }
}

/// The step to the child that is or contains the target, searched from `step` on.
fn find_child(mut step: TrailStep, target: Node<'_>) -> Option<TrailStep> {
    let at = |index| Node { index, ..target };
    let end = at(step.container).end();
    let is_object = at(step.container).kind() == NodeKind::Object;
    while step.child < end {
        let after = at(step.child + usize::from(is_object)).end();
        if target.index < after {
            return Some(step);
        }
        step.child = after;
        step.position += 1;
    }
    None
}

/// The longest name a pointer spells out, in bytes, so that a report does not grow with the keys it names.
const MAX_SEGMENT_BYTES: usize = 256;

/// Adds one escaped JSON Pointer segment, without its slash. A longer name than [`MAX_SEGMENT_BYTES`] is cut and
/// ends in `…`.
pub(crate) fn push_segment(pointer: &mut String, name: &str) {
    let cut = name.len() > MAX_SEGMENT_BYTES;
    let name =
        if cut { name.get(..name.floor_char_boundary(MAX_SEGMENT_BYTES)).unwrap_or(name) } else { name };
    if name.contains(['~', '/']) {
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(name);
    }
    if cut {
        pointer.push('…');
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    #[test]
    fn a_trail_leads_to_every_value_in_any_order() {
        let text = r#"{"a":[1,[2,{"b":3,"c/d~e":[[],{}]}],"x",{"":{"f":[0]}}],"g":{},"h":[{"i":1},{"i":2}],"j":null}"#;
        let document = parse(text.as_bytes(), &Limits::default()).0.unwrap();
        let node = |index| Node { index, ..document.root() };
        let count = document.tokens.len();
        let expected: Vec<String> = (0..count).map(|index| node(index).pointer()).collect();
        for (index, pointer) in expected.iter().enumerate() {
            let found = document.nearest(pointer).index;
            assert!(
                found == index || found == index + 1,
                "{pointer} leads to {found}, not {index} or its value"
            );
        }
        assert!(expected.contains(&"/a/1/1/c~1d~0e/1".to_owned()), "{expected:?}");
        for stride in 1..count {
            let mut trail = Trail::default();
            for index in (0..count * stride).map(|step| step * stride % count) {
                assert_eq!(trail.pointer(node(index)), expected[index]);
            }
        }
        let mut trail = Trail::default();
        for index in (0..count).rev() {
            assert_eq!(trail.pointer(node(index)), expected[index]);
        }
    }

    #[test]
    fn a_long_name_is_cut_in_a_pointer() {
        let text = format!("{{\"{}\":[0]}}", "é".repeat(200));
        let document = parse(text.as_bytes(), &Limits::default()).0.unwrap();
        let pointer = Node { index: 3, ..document.root() }.pointer();
        assert_eq!(pointer, format!("/{}…/0", "é".repeat(128)));
    }

    #[test]
    fn a_value_is_found_at_its_position() {
        let text = r#"{"a":["x",-1.5,true,{"b":"\u0041"}],"":null}"#;
        let document = parse(text.as_bytes(), &Limits::default()).0.unwrap();
        assert_eq!(document.text(), text);
        for (pointer, source) in [
            ("", text),
            ("/a/0", "\"x\""),
            ("/a/1", "-1.5"),
            ("/a/2", "true"),
            ("/a/3", r#"{"b":"\u0041"}"#),
            ("/a/3/b", r#""\u0041""#),
            ("/", "null"),
            ("/a/9", r#"["x",-1.5,true,{"b":"\u0041"}]"#),
            ("/a/2/c", "true"),
        ] {
            let node = document.nearest(pointer);
            let (start, end) = node.span();
            assert_eq!((node.source(), text.get(start..end)), (source, Some(source)), "{pointer}");
        }
        let root = document.root();
        assert_eq!(root.member("a").unwrap().elements().nth(2).unwrap().boolean(), Some(true));
        assert_eq!(
            (root.boolean(), root.number(), root.string(), root.elements().count()),
            (None, None, None, 0)
        );
        assert_eq!(root.member("a").unwrap().members().count(), 0);
    }

    #[test]
    fn escapes_are_read_as_the_characters_they_name() {
        let text = r#"["\b\f\n\r\t\/\\\"", "\u00e9\u0041", "\ud83d\ude00!", "\uD800\uDC00", "\uDBFF\uDFFF", "\ud800x", "\ud800\u0041", "\udc00"]"#;
        let document = parse(text.as_bytes(), &Limits::default()).0.unwrap();
        let values: Vec<String> =
            document.root().elements().map(|node| node.text_value().into_owned()).collect();
        assert_eq!(
            values,
            [
                "\u{8}\u{c}\n\r\t/\\\"",
                "éA",
                "😀!",
                "\u{10000}",
                "\u{10ffff}",
                "\u{fffd}x",
                "\u{fffd}A",
                "\u{fffd}"
            ]
        );
    }
}
