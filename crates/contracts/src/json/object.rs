//! A JSON object whose fields no contract lists: kept as the text that was sent, known to be I-JSON.

use super::{Document, Kind, Limits, Node, ObjectWriter, canonical, parse};
use crate::violation::{Code, Report};

/// The text of one I-JSON object, exactly as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonObject(Box<str>);

impl JsonObject {
    /// The object with no members.
    pub fn empty() -> Self {
        JsonObject("{}".into())
    }

    /// Builds an object member by member.
    pub fn build(members: impl FnOnce(&mut ObjectWriter<'_>)) -> Self {
        let mut text = String::with_capacity(256);
        let mut writer = ObjectWriter::new(&mut text);
        members(&mut writer);
        writer.end();
        JsonObject(text.into())
    }

    /// Reads an object from its text; `None` unless it is one, and I-JSON.
    pub fn parse(text: &str) -> Option<Self> {
        match parse(text.as_bytes(), &Limits { max_bytes: usize::MAX }) {
            (Some(document), faults) if faults.is_empty() && document.root().kind() == Kind::Object => {
                Some(JsonObject(text.trim_matches([' ', '\n', '\r', '\t']).into()))
            }
            _ => None,
        }
    }

    /// Takes the source of a node of a document that was parsed without faults.
    pub(crate) fn from_node(node: Node<'_>, clause: &'static str, report: &mut Report) -> Option<Self> {
        if node.kind() != Kind::Object {
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

    /// Looks into the object.
    pub fn with<R>(&self, look: impl FnOnce(Node<'_>) -> R) -> R {
        let (document, _) = parse(self.0.as_bytes(), &Limits { max_bytes: usize::MAX });
        let nothing = Document { text: "{}", tokens: Vec::new() };
        look(document.as_ref().unwrap_or(&nothing).root())
    }
}
