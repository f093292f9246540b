//! A JSON object whose fields no contract lists: kept as the text that was sent or composed, known to be I-JSON.
//!
//! Composing can fail (R3): CreAleph's own reader reads a composed object back before anything
//! uses it, so nothing is hashed, signed or stored that could not be read again.

use super::{Document, Fault, Limits, Node, NodeKind, ObjectWriter, PlainWriter, canonical, parse};
use crate::shape::Shape;
use crate::violation::{Code, Report};

/// The text of one I-JSON object, exactly as it was sent; it nests at most [`super::MAX_OWN_DEPTH`] deep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonObject(Box<str>);

/// A document that was composed, and that no reader would accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be composed: {reason}")]
pub struct ComposeError {
    /// The document.
    pub what: &'static str,
    /// The reader's error.
    pub reason: String,
}

impl JsonObject {
    /// The object with no members.
    pub fn empty() -> Self {
        JsonObject("{}".into())
    }

    /// Composes an object member by member and reads it back; `what` names it in an error.
    ///
    /// # Errors
    /// If it is not I-JSON, or nests deeper than CreAleph's own readers accept.
    pub fn compose(
        what: &'static str,
        members: impl FnOnce(&mut ObjectWriter<'_>),
    ) -> Result<Self, ComposeError> {
        let mut text = String::with_capacity(256);
        let mut writer = ObjectWriter::new(&mut text);
        members(&mut writer);
        writer.end();
        read_back(what, &text)?;
        Ok(JsonObject(text.into()))
    }

    /// Composes a value of a contract, which must be an object, and reads it back.
    ///
    /// # Errors
    /// The same.
    pub fn of<T: Shape>(what: &'static str, value: &T) -> Result<Self, ComposeError> {
        let mut text = String::with_capacity(512);
        value.write(&mut text);
        read_back(what, &text)?;
        Ok(JsonObject(text.into()))
    }

    /// Builds an object of plain values member by member; this cannot fail.
    pub fn build(members: impl FnOnce(&mut PlainWriter<'_>)) -> Self {
        let mut text = String::with_capacity(256);
        let mut writer = PlainWriter::new(&mut text);
        members(&mut writer);
        writer.end();
        debug_assert!(read_back("a plain object", &text).is_ok(), "{text}");
        JsonObject(text.into())
    }

    /// Reads an object from outside; `None` unless it is an object and I-JSON.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_within(text, &Limits::outside(usize::MAX))
    }

    /// Reads an object that CreAleph composed or stored; `None` unless it is an object and I-JSON.
    pub fn parse_own(text: &str) -> Option<Self> {
        Self::parse_within(text, &Limits::own(usize::MAX))
    }

    fn parse_within(text: &str, limits: &Limits) -> Option<Self> {
        match parse(text.as_bytes(), limits) {
            (Some(document), faults) if faults.is_empty() && document.root().kind() == NodeKind::Object => {
                Some(JsonObject(text.trim_matches([' ', '\n', '\r', '\t']).into()))
            }
            _ => None,
        }
    }

    /// Takes the source of a node of a document that was parsed without faults.
    pub(crate) fn from_node(node: Node<'_>, clause: &'static str, report: &mut Report) -> Option<Self> {
        if node.kind() != NodeKind::Object {
            report.at(node, clause, Code::WrongType, || {
                format!("expected a JSON object, found {}", node.kind().described())
            });
            return None;
        }
        Some(JsonObject(node.source().into()))
    }

    /// The text, as it was sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The RFC 8785 text.
    pub fn canonical(&self) -> String {
        self.with(canonical)
    }

    /// The RFC 8785 text, and how deep it nests.
    pub fn canonical_and_depth(&self) -> (String, usize) {
        self.with_document(|document| (canonical(document.root()), document.depth()))
    }

    /// Looks into the object.
    pub fn with<R>(&self, look: impl FnOnce(Node<'_>) -> R) -> R {
        self.with_document(|document| look(document.root()))
    }

    fn with_document<R>(&self, look: impl FnOnce(&Document<'_>) -> R) -> R {
        let (document, _) = parse(self.0.as_bytes(), &Limits::own(usize::MAX));
        #[expect(clippy::expect_used, reason = "the text was read by this reader when the object was made")]
        look(&document.expect("an object that was read can be read again"))
    }
}

/// Reads a composed object back.
fn read_back(what: &'static str, text: &str) -> Result<(), ComposeError> {
    composed(what, text, |document| match document.root().kind() {
        NodeKind::Object => Ok(()),
        kind => {
            let reason = format!("it is {}, not an object", kind.described());
            Err(ComposeError { what, reason })
        }
    })?
}

/// The RFC 8785 text of a value of a contract.
///
/// # Errors
/// If its text is not I-JSON, or nests deeper than CreAleph's own readers accept.
pub fn canonical_of<T: Shape>(what: &'static str, value: &T) -> Result<String, ComposeError> {
    let mut text = String::with_capacity(512);
    value.write(&mut text);
    composed(what, &text, |document| canonical(document.root()))
}

fn composed<R>(
    what: &'static str,
    text: &str,
    look: impl FnOnce(&Document<'_>) -> R,
) -> Result<R, ComposeError> {
    match parse(text.as_bytes(), &Limits::own(usize::MAX)) {
        (Some(document), faults) if faults.is_empty() => Ok(look(&document)),
        (_, faults) => Err(ComposeError { what, reason: first(faults) }),
    }
}

fn first(faults: Vec<Fault>) -> String {
    faults.into_iter().next().map_or_else(|| "it is not JSON".to_owned(), |fault| fault.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
    }

    #[test]
    // holds: invariant 17
    fn documents_nest_128_deep_and_their_envelopes_192() {
        assert!(JsonObject::parse(&nested(128)).is_some());
        assert!(JsonObject::parse(&nested(129)).is_none());
        assert!(JsonObject::parse_own(&nested(192)).is_some());
        assert!(JsonObject::parse_own(&nested(193)).is_none());
        let object = JsonObject::parse_own(&nested(191)).unwrap();
        assert_eq!(object.canonical_and_depth().1, 191);
        let around = |inner: &JsonObject| JsonObject::compose("a sample", |it| _ = it.object("b", inner));
        let whole = around(&object).unwrap();
        assert_eq!(whole.canonical(), whole.as_str());
        let error = around(&whole).unwrap_err();
        assert!(error.to_string().contains("a sample cannot be composed"), "{error}");
        assert!(error.reason.contains("more than 192 deep"), "{error}");
    }

    #[test]
    // holds: invariant 17
    fn invalid_json_is_not_composed() {
        for bad in ["", "NaN", "1,\"a\":2", "\"\\ud800\""] {
            assert!(JsonObject::compose("a sample", |it| _ = it.raw("a", bad)).is_err(), "{bad}");
        }
        let infinite = JsonObject::compose("a sample", |it| _ = it.number("a", f64::INFINITY));
        assert!(infinite.is_err(), "{infinite:?}");
    }
}
