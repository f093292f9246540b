//! The contracts' scalars: identifiers, texts, counts and measures. Each can only hold what is legal (R2, R6).

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::json::{JsonObject, Node, NodeKind, push_number, push_text};
use crate::schema;
use crate::shape::{Shape, shown, wrong_type};
use crate::violation::{Code, Report};

/// The longest identifier, in bytes of UTF-8 (R2).
const MAX_IDENTIFIER_BYTES: usize = 256;

/// The largest integer every JSON implementation agrees on: 2^53 − 1 (R6).
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Whether the text holds a character that is not Unicode White_Space (R2).
pub(crate) fn is_non_empty(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace())
}

/// What prevents a text from being an identifier, if anything does (R2).
fn identifier_fault(text: &str) -> Option<(Code, &'static str)> {
    // Looks at every byte, without an early exit, so that the compiler can vectorise the loop.
    let is_plain = text.bytes().fold(true, |is_plain, byte| is_plain & byte.is_ascii_graphic());
    if text.len() > MAX_IDENTIFIER_BYTES {
        Some((Code::TooLong, "the identifier is longer than 256 bytes; shorten it"))
    } else if is_plain && !text.is_empty() {
        None
    } else if !is_non_empty(text) {
        Some((Code::Empty, "the string is empty or only white space; write a name"))
    } else if text.chars().any(char::is_control) {
        Some((Code::ControlCharacter, "the identifier contains a control character; remove it"))
    } else {
        None
    }
}

/// Why a text is not an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct IdentifierError(&'static str);

/// A text that is part of the program and valid as an identifier and as a message: printable ASCII, not
/// blank, at most 256 bytes. Create it in a `const`, so that the compiler checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal(&'static str);

impl Literal {
    /// Accepts a text, or does not compile.
    pub const fn new(text: &'static str) -> Self {
        let mut rest = text.as_bytes();
        let mut is_blank = true;
        while let [byte, tail @ ..] = rest {
            assert!(byte.is_ascii_graphic() || *byte == b' ', "a literal is printable ASCII");
            is_blank = is_blank && *byte == b' ';
            rest = tail;
        }
        assert!(
            !is_blank && text.len() <= MAX_IDENTIFIER_BYTES,
            "a literal says something, in at most 256 bytes"
        );
        Literal(text)
    }

    /// The text.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

macro_rules! identifiers {
    ($( $(#[doc = $about:literal])* $name:ident, )*) => { $(
        // Shared, because an identifier is passed on far more often than it is created.
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Accepts a text that is a valid identifier (R2).
            pub fn parse(text: &str) -> Result<Self, IdentifierError> {
                match identifier_fault(text) {
                    None => Ok($name(text.into())),
                    Some((_, message)) => Err(IdentifierError(message)),
                }
            }

            /// The identifier, byte for byte.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<Literal> for $name {
            fn from(literal: Literal) -> Self {
                $name(literal.0.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Shape for $name {
            crate::shape::scalar_parts!();
            const EXPECTED: &'static str = "a non-empty string";

            fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
                if node.kind() != NodeKind::Text {
                    return wrong_type::<Self>(node, clause, report);
                }
                let text = node.text_value();
                match identifier_fault(&text) {
                    None => Some($name(text.into())),
                    Some((code, message)) => {
                        report.at(node, clause, code, || message.to_owned());
                        None
                    }
                }
            }

            fn write(&self, out: &mut String) {
                push_text(out, &self.0);
            }

            fn schema() -> Value {
                schema::identifier()
            }
        }
    )* };
}

identifiers! {
    /// A tenant.
    TenantId,
    /// A robot of a tenant.
    RobotId,
    /// An execution of a robot's Builder.
    ExecutionId,
    /// An entry of the ledger.
    LedgerId,
    /// A work item.
    ItemId,
    /// A version of a workflow, an agent or a schema.
    Version,
    /// A word that producers choose: a module, source, type, state, target or objective.
    Name,
    /// An action the policy decides about.
    ActionName,
    /// A rule of the policy engine.
    RuleId,
    /// A key by which a client knows its own entry.
    ClientKey,
    /// An API key of the server; the id is no secret.
    KeyId,
}

/// A string with at least one character that is not white space (R2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Box<str>);

impl Text {
    /// Takes a text that is not empty.
    pub fn new(text: &str) -> Option<Self> {
        is_non_empty(text).then(|| Text(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Literal> for Text {
    fn from(literal: Literal) -> Self {
        Text(literal.0.into())
    }
}

impl Shape for Text {
    crate::shape::scalar_parts!();
    const EXPECTED: &'static str = "a non-empty string";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Text {
            return wrong_type::<Self>(node, clause, report);
        }
        let text = Text::new(&node.text_value());
        if text.is_none() {
            report.at(node, clause, Code::Empty, || {
                "the string is empty or only white space; write some text".to_owned()
            });
        }
        text
    }

    fn write(&self, out: &mut String) {
        push_text(out, &self.0);
    }

    fn schema() -> Value {
        schema::non_empty_text()
    }
}

/// A string that may be empty.
impl Shape for Box<str> {
    crate::shape::scalar_parts!();
    const EXPECTED: &'static str = "a string";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        match node.string() {
            Some(text) => Some(text.into()),
            None => wrong_type::<Self>(node, clause, report),
        }
    }

    fn write(&self, out: &mut String) {
        push_text(out, self);
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Shape for JsonObject {
    crate::shape::scalar_parts!();
    const EXPECTED: &'static str = "a JSON object";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        JsonObject::from_node(node, clause, report)
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.as_str());
    }

    fn schema() -> Value {
        schema::open_object()
    }
}

macro_rules! integers {
    ($( $(#[doc = $about:literal])* $name:ident from $least:literal, )*) => { $(
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            /// Takes a number in range.
            pub fn new(value: u64) -> Option<Self> {
                ($least..=MAX_SAFE_INTEGER).contains(&value).then_some($name(value))
            }

            /// The number.
            pub fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Shape for $name {
            crate::shape::scalar_parts!();
            const EXPECTED: &'static str = concat!("an integer from ", stringify!($least), " to 2^53 − 1");

            fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
                let Some(value) = node.number() else { return wrong_type::<Self>(node, clause, report) };
                let is_whole = value.fract() == 0.0;
                let number = (is_whole && value >= 0.0 && value <= MAX_SAFE_INTEGER as f64)
                    .then(|| $name::new(value as u64))
                    .flatten();
                if number.is_none() {
                    let code = if is_whole { Code::OutOfRange } else { Code::WrongType };
                    report.at(node, clause, code, || {
                        format!("expected {}, found {}", Self::EXPECTED, shown(node.source()))
                    });
                }
                number
            }

            fn write(&self, out: &mut String) {
                out.push_str(&self.0.to_string());
            }

            fn schema() -> Value {
                json!({ "type": "integer", "minimum": $least, "maximum": MAX_SAFE_INTEGER })
            }
        }
    )* };
}

integers! {
    /// Which try of an execution this is, from 1 (R6).
    Attempt from 1,
    /// How many of something there are or may be.
    Count from 0,
    /// A time limit in milliseconds.
    TimeoutMs from 1,
    /// How many approvals a rule wants.
    ApprovalCount from 1,
    /// A length of time in minutes.
    Minutes from 1,
}

macro_rules! measures {
    ($( $(#[doc = $about:literal])* $name:ident is $expected:literal within $range:expr, $schema:tt; )*) => { $(
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            /// Takes a finite number in range.
            pub fn new(value: f64) -> Option<Self> {
                (value.is_finite() && $range.contains(&value)).then_some($name(value))
            }

            /// The number.
            pub fn get(self) -> f64 {
                self.0
            }
        }

        impl Shape for $name {
            crate::shape::scalar_parts!();
            const EXPECTED: &'static str = $expected;

            fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
                let Some(value) = node.number() else { return wrong_type::<Self>(node, clause, report) };
                let number = $name::new(value);
                if number.is_none() {
                    report.at(node, clause, Code::OutOfRange, || {
                        format!("expected {}, found {}", Self::EXPECTED, shown(node.source()))
                    });
                }
                number
            }

            fn write(&self, out: &mut String) {
                push_number(out, self.0);
            }

            fn schema() -> Value {
                json!($schema)
            }
        }
    )* };
}

measures! {
    /// What is measured or counted: a number from 0 (R6).
    Amount is "a number from 0" within (0.0..), { "type": "number", "minimum": 0 };
    /// A share: a number from 0 to 1.
    Ratio is "a number from 0 to 1" within (0.0..=1.0), { "type": "number", "minimum": 0, "maximum": 1 };
    /// Any number a threshold may hold.
    Number is "a number" within (f64::MIN..=f64::MAX), { "type": "number" };
}

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0.0);
}

impl Count {
    /// None.
    pub const ZERO: Count = Count(0);
}

impl ApprovalCount {
    /// One.
    pub const ONE: ApprovalCount = ApprovalCount(1);
}

impl TimeoutMs {
    /// The shortest there is.
    pub const LEAST: TimeoutMs = TimeoutMs(1);
}

impl Ratio {
    /// The whole.
    pub const ONE: Ratio = Ratio(1.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_bounded_visible_and_not_empty() {
        for (text, fault) in [
            ("r-1", None),
            (" r ", None),
            ("é", None),
            ("", Some(Code::Empty)),
            (" \u{a0}\u{3000}", Some(Code::Empty)),
            ("r\n", Some(Code::ControlCharacter)),
            ("\u{85}r", Some(Code::ControlCharacter)),
            (&"r".repeat(256), None),
            (&"r".repeat(257), Some(Code::TooLong)),
        ] {
            assert_eq!(identifier_fault(text).map(|(code, _)| code), fault, "{text:.20}");
            assert_eq!(Name::parse(text).is_ok(), fault.is_none(), "{text:.20}");
        }
        assert_eq!(Text::from(Literal::new("a b")).as_str(), "a b");
        assert_eq!((Text::new(" \n"), Text::new("\n.").map(|text| text.as_str().len())), (None, Some(2)));
    }

    #[test]
    fn counts_and_measures_keep_within_their_ranges() {
        let most = (1u64 << 53) - 1;
        assert_eq!((Count::new(0).map(Count::get), Count::new(most).map(Count::get)), (Some(0), Some(most)));
        assert_eq!(
            (Count::new(most + 1), Attempt::new(0), Attempt::new(1).map(Attempt::get)),
            (None, None, Some(1))
        );
        assert_eq!((Ratio::new(1.0), Ratio::new(1.1), Ratio::new(-0.1)), (Some(Ratio::ONE), None, None));
        assert_eq!(
            (Amount::new(f64::INFINITY), Amount::new(f64::NAN), Amount::new(-1.0)),
            (None, None, None)
        );
        assert_eq!(Amount::new(2.5).map(Amount::get), Some(2.5));
    }
}
