//! RFC 8785 (JCS): the one text of a document that every machine writes alike, used for comparison and hashes.

use super::document::{Node, NodeKind};
use super::write::{push_number, push_text};

/// The canonical text of a value: keys sorted by UTF-16 code units, ECMAScript numbers, minimal escapes.
pub fn canonical(node: Node<'_>) -> String {
    let mut out = String::with_capacity(node.source().len());
    write(&mut out, node);
    out
}

/// The canonical text as bytes, the form that is hashed.
pub fn canonical_bytes(node: Node<'_>) -> Vec<u8> {
    canonical(node).into_bytes()
}

/// A double as ECMAScript prints it; `null` for a number that JSON does not have.
pub fn number_text(value: f64) -> String {
    let mut text = String::new();
    match value.is_finite() {
        true => push_number(&mut text, value),
        false => text.push_str("null"),
    }
    text
}

/// Recursion is bounded by the parser's depth limit.
fn write(out: &mut String, node: Node<'_>) {
    match node.kind() {
        NodeKind::Null | NodeKind::Boolean => out.push_str(node.source()),
        NodeKind::Number => {
            #[expect(clippy::expect_used, reason = "Rust reads every number that JSON's grammar has")]
            push_number(out, node.number().expect("a number of JSON is a double"));
        }
        NodeKind::Text => push_text(out, &node.text_value()),
        NodeKind::Array => {
            out.push('[');
            for (position, element) in node.elements().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write(out, element);
            }
            out.push(']');
        }
        NodeKind::Object => {
            let mut members: Vec<_> = node.members().map(|(key, value)| (key.text_value(), value)).collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (position, (key, value)) in members.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                push_text(out, key);
                out.push(':');
                write(out, *value);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    fn canonical_text(text: &str) -> String {
        let (document, faults) = parse(text.as_bytes(), &Limits::default());
        assert!(faults.is_empty(), "{faults:?}");
        canonical(document.unwrap().root())
    }

    /// RFC 8785 appendix B: IEEE bits and the text they must give.
    #[test]
    fn numbers_of_appendix_b() {
        let samples: [(u64, &str); 25] = [
            (0x0000000000000000, "0"),
            (0x8000000000000000, "0"),
            (0x0000000000000001, "5e-324"),
            (0x8000000000000001, "-5e-324"),
            (0x7fefffffffffffff, "1.7976931348623157e+308"),
            (0xffefffffffffffff, "-1.7976931348623157e+308"),
            (0x4340000000000000, "9007199254740992"),
            (0xc340000000000000, "-9007199254740992"),
            (0x4430000000000000, "295147905179352830000"),
            (0x44b52d02c7e14af5, "9.999999999999997e+22"),
            (0x44b52d02c7e14af6, "1e+23"),
            (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
            (0x444b1ae4d6e2ef4e, "999999999999999700000"),
            (0x444b1ae4d6e2ef4f, "999999999999999900000"),
            (0x444b1ae4d6e2ef50, "1e+21"),
            (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
            (0x3eb0c6f7a0b5ed8d, "0.000001"),
            (0x41b3de4355555553, "333333333.3333332"),
            (0x41b3de4355555554, "333333333.33333325"),
            (0x41b3de4355555555, "333333333.3333333"),
            (0x41b3de4355555556, "333333333.3333334"),
            (0x41b3de4355555557, "333333333.33333343"),
            (0xbecbf647612f3696, "-0.0000033333333333333333"),
            (0x43143ff3c1cb0959, "1424953923781206.2"),
            (0x7ff0000000000000, "null"),
        ];
        for (bits, text) in samples {
            assert_eq!(number_text(f64::from_bits(bits)), text, "{bits:016x}");
        }
    }

    /// RFC 8785 section 3.2.2 and 3.2.3: the published sample, and the order of keys.
    #[test]
    fn the_published_documents() {
        let sample = r#"{
          "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
          "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
          "literals": [null, true, false]
        }"#;
        assert_eq!(
            canonical_text(sample),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
        let keys = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",
          "1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
        assert_eq!(
            canonical_text(keys),
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With \
             Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet \
             With Dagesh\"}"
        );
        assert_eq!(
            canonical_text("[56,{\"d\":true,\"10\":null,\"1\":[]}]"),
            "[56,{\"1\":[],\"10\":null,\"d\":true}]"
        );
        assert_eq!(canonical_text("[-0, 1.0, 1e0, 100e-2]"), "[0,1,1,1]");
    }
}
