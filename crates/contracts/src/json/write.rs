//! Printing JSON: strings with minimal escapes, numbers as RFC 8785 has them, objects member by member.

use std::fmt::Write as _;

use super::JsonObject;
use super::canonical::number_text;
use super::document::{Node, NodeKind};
use super::parse::plain_end;

/// Adds a string with its quotes, escaping only what JSON requires to be escaped.
pub fn push_text(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some((plain, special)) = rest.split_at_checked(plain_end(rest.as_bytes(), 0))
        && !special.is_empty()
    {
        out.push_str(plain);
        let mut chars = special.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some(control) => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Adds a finite double as RFC 8785 writes it.
pub fn push_number(out: &mut String, value: f64) {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        let _ = write!(out, "{}", value as i64);
    } else {
        out.push_str(ryu_js::Buffer::new().format(value));
    }
}

/// Writes one object into a string, member by member, in the order given.
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> ObjectWriter<'a> {
    /// Opens an object at the end of `out`.
    pub fn new(out: &'a mut String) -> Self {
        out.push('{');
        ObjectWriter { out, is_empty: true }
    }

    /// Adds a key and gives the place where its value is to be written.
    pub fn key(&mut self, key: &str) -> &mut String {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        push_text(self.out, key);
        self.out.push(':');
        self.out
    }

    /// Adds a string member.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        push_text(self.key(key), value);
        self
    }

    /// Adds a number member.
    pub fn number(&mut self, key: &str, value: f64) -> &mut Self {
        push_number(self.key(key), value);
        self
    }

    /// Adds a member whose value is an array of strings.
    pub fn texts<T: AsRef<str>>(&mut self, key: &str, values: impl IntoIterator<Item = T>) -> &mut Self {
        let out = self.key(key);
        out.push('[');
        for (position, value) in values.into_iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            push_text(out, value.as_ref());
        }
        out.push(']');
        self
    }

    /// Adds a boolean member.
    pub fn boolean(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key).push_str(if value { "true" } else { "false" });
        self
    }

    /// Adds a member whose value is an object that was read.
    pub fn object(&mut self, key: &str, value: &JsonObject) -> &mut Self {
        self.key(key).push_str(value.as_str());
        self
    }

    /// Adds a member whose value is already JSON text.
    pub fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        self.key(key).push_str(json);
        self
    }

    /// Closes the object.
    pub fn end(self) {
        self.out.push('}');
    }
}

/// Writes an object that is JSON by construction: of strings, finite numbers, booleans and objects like it, as deep as
/// the closures that write it. It never contains text that was not read. Its keys must differ.
#[derive(Debug)]
pub struct PlainWriter<'a>(ObjectWriter<'a>);

impl<'a> PlainWriter<'a> {
    pub(super) fn new(out: &'a mut String) -> Self {
        PlainWriter(ObjectWriter::new(out))
    }

    /// Adds a string member.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.0.text(key, value);
        self
    }

    /// Adds a member whose value is an array of strings.
    pub fn texts<T: AsRef<str>>(&mut self, key: &str, values: impl IntoIterator<Item = T>) -> &mut Self {
        self.0.texts(key, values);
        self
    }

    /// Adds a number member; a number that is not finite is not a JSON number and becomes null.
    pub fn number(&mut self, key: &str, value: f64) -> &mut Self {
        debug_assert!(value.is_finite(), "{key} is {value}");
        let text = number_text(value);
        self.0.raw(key, &text);
        self
    }

    /// Adds an integer member; beyond 2^53 its nearest double.
    pub fn integer(&mut self, key: &str, value: u64) -> &mut Self {
        self.0.number(key, value as f64);
        self
    }

    /// Adds a boolean member.
    pub fn boolean(&mut self, key: &str, value: bool) -> &mut Self {
        self.0.boolean(key, value);
        self
    }

    /// Adds an object of the same kind.
    pub fn object(&mut self, key: &str, members: impl FnOnce(&mut PlainWriter<'_>)) -> &mut Self {
        let mut inner = PlainWriter::new(self.0.key(key));
        members(&mut inner);
        inner.end();
        self
    }

    pub(super) fn end(self) {
        self.0.end();
    }
}

/// The value over several lines with two spaces of indent, values as they were sent.
pub fn pretty(node: Node<'_>) -> String {
    let mut out = String::with_capacity(node.source().len() * 2);
    push_pretty(&mut out, node, 0);
    out
}

/// Recursion is bounded by the parser's depth limit.
fn push_pretty(out: &mut String, node: Node<'_>, depth: usize) {
    let (open, close) = match node.kind() {
        NodeKind::Array => ('[', ']'),
        NodeKind::Object => ('{', '}'),
        _ => return out.push_str(node.source()),
    };
    out.push(open);
    let mut is_empty = true;
    let mut start_line = |out: &mut String, depth: usize| {
        if !std::mem::take(&mut is_empty) {
            out.push(',');
        }
        push_indent(out, depth + 1);
    };
    if node.kind() == NodeKind::Object {
        for (key, value) in node.members() {
            start_line(out, depth);
            out.push_str(key.source());
            out.push_str(": ");
            push_pretty(out, value, depth + 1);
        }
    } else {
        for value in node.elements() {
            start_line(out, depth);
            push_pretty(out, value, depth + 1);
        }
    }
    if !is_empty {
        push_indent(out, depth);
    }
    out.push(close);
}

fn push_indent(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    #[test]
    fn every_kind_of_member_is_written_as_json_reads_it() {
        let inner = JsonObject::build(|it| _ = it.integer("n", 7));
        let mut text = String::new();
        let mut writer = ObjectWriter::new(&mut text);
        writer.text("a\"", "\u{8}\u{c}\n\r\t\\\u{1}").number("b", 0.5).texts("c", ["x", "y"]);
        writer.boolean("d", true).boolean("e", false).object("f", &inner).raw("g", "null");
        writer.end();
        assert_eq!(
            text,
            r#"{"a\"":"\b\f\n\r\t\\\u0001","b":0.5,"c":["x","y"],"d":true,"e":false,"f":{"n":7},"g":null}"#
        );
    }

    #[test]
    fn a_plain_object_is_of_its_members_in_their_order() {
        let object = JsonObject::build(|it| {
            it.text("t", "x")
                .texts("u", ["y", "z"])
                .number("v", 1.5)
                .integer("w", 1 << 53)
                .boolean("x", true);
            it.boolean("y", false).object("z", |inner| _ = inner.integer("n", 0));
        });
        assert_eq!(
            object.as_str(),
            r#"{"t":"x","u":["y","z"],"v":1.5,"w":9007199254740992,"x":true,"y":false,"z":{"n":0}}"#
        );
    }

    #[test]
    fn whole_numbers_are_written_without_an_exponent_up_to_1e21() {
        for (value, text) in [
            (-0.0, "0"),
            (999_999_999_999_999.0, "999999999999999"),
            (-1e15, "-1000000000000000"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (0.1, "0.1"),
        ] {
            assert_eq!(number_text(value), text);
        }
    }

    #[test]
    fn a_value_is_spread_over_lines_as_it_was_sent() {
        let text = r#"{"a":[1.0,{}, []],"b":{"c":"\u0041"},"d":null}"#;
        let expected = "{\n  \"a\": [\n    1.0,\n    {},\n    []\n  ],\n  \"b\": {\n    \"c\": \"\\u0041\"\n  },\n  \"d\": null\n}";
        assert_eq!(pretty(parse(text.as_bytes(), &Limits::default()).0.unwrap().root()), expected);
    }
}
