//! UUIDs as the contracts use them. They are created elsewhere, where there is a clock; here they are only read.

use serde_json::{Value, json};

use crate::json::{Node, NodeKind, push_text};
use crate::shape::{Shape, scalar_parts, wrong_type};
use crate::violation::{Code, Report};

/// A UUID in its hyphenated lower-case form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(uuid::Uuid);

impl Uuid {
    /// Reads the form `0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f`.
    pub fn parse(text: &str) -> Option<Self> {
        let parsed = uuid::Uuid::try_parse(text).ok()?;
        (parsed.hyphenated().to_string() == text).then_some(Uuid(parsed))
    }

    /// The smallest UUID whose hyphenated form starts with a text; absent if there is none.
    pub fn least_with_start(start: &str) -> Option<Self> {
        const NIL: &str = "00000000-0000-0000-0000-000000000000";
        Uuid::parse(&format!("{start}{}", NIL.get(start.len()..)?))
    }

    /// A UUID created elsewhere.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Uuid(uuid::Uuid::from_bytes(bytes))
    }

    /// A UUID of version 7: the milliseconds since 1970, then random bytes, of which six bits go to version and variant.
    pub fn v7(unix_ms: i64, random: [u8; 10]) -> Self {
        let [_, _, t0, t1, t2, t3, t4, t5] = unix_ms.max(0).to_be_bytes();
        let [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9] = random;
        let (version, variant) = (0x70 | (r0 & 0x0f), 0x80 | (r2 & 0x3f));
        Uuid::from_bytes([t0, t1, t2, t3, t4, t5, version, r1, variant, r3, r4, r5, r6, r7, r8, r9])
    }

    /// The version, 7 for the ids that the system creates.
    pub fn version(self) -> usize {
        self.0.get_version_num()
    }
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Shape for Uuid {
    scalar_parts!();
    const EXPECTED: &'static str = "a UUID like `0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f`";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Text {
            return wrong_type::<Self>(node, clause, report);
        }
        let uuid = Uuid::parse(&node.text_value());
        if uuid.is_none() {
            report.at(node, clause, Code::BadForm, || format!("expected {}", Self::EXPECTED));
        }
        uuid
    }

    fn write(&self, out: &mut String) {
        push_text(out, &self.to_string());
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_gives_the_smallest_id_of_its_range() {
        let least = |start: &str| Uuid::least_with_start(start).map(|uuid| uuid.to_string());
        assert_eq!(least("").unwrap(), "00000000-0000-0000-0000-000000000000");
        assert_eq!(least("0190a6f0-7").unwrap(), "0190a6f0-7000-0000-0000-000000000000");
        let text = "0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f";
        assert_eq!(least(text).unwrap(), text);
        for bad in ["x", "0190A", "0190a6f07", "-", "é", &format!("{text}0")] {
            assert_eq!(least(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_id_of_version_7_begins_with_its_millisecond() {
        let id = |unix_ms, random| Uuid::v7(unix_ms, [random; 10]).to_string();
        assert_eq!(id(0x0190_a6f0_7c2e, 0xff), "0190a6f0-7c2e-7fff-bfff-ffffffffffff");
        assert_eq!(id(-1, 0), "00000000-0000-7000-8000-000000000000");
    }

    #[test]
    fn only_the_hyphenated_lower_case_form_is_read() {
        let text = "0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f";
        let uuid = Uuid::parse(text).unwrap();
        assert_eq!((uuid.version(), uuid.to_string().as_str()), (7, text));
        for bad in [&text.to_uppercase(), &text.replace('-', ""), &format!("{{{text}}}"), ""] {
            assert!(Uuid::parse(bad).is_none(), "{bad}");
        }
    }
}
