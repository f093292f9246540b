//! The differences between a recorded entry and one sent under the same identity: the JSON Pointers of the smallest values
//! that differ, for people.

use crealeph_contracts::json::{Limits, Node, NodeKind, canonical, parse};

use crate::entry::Content;

/// How many differences are listed.
pub(crate) const MAX_NAMED: usize = 20;

/// The pointers of the differences, in the order of the document; empty if the contents are the same (R10).
pub(crate) fn differences(recorded: &Content, sent: &Content) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |pointer: &str, is_same: bool| {
        if !is_same {
            found.push(pointer.to_owned());
        }
    };
    compare("/robotId", recorded.robot_id == sent.robot_id);
    compare("/module", recorded.module == sent.module);
    compare("/source", recorded.source == sent.source);
    compare("/type", recorded.kind == sent.kind);
    compare("/state", recorded.state == sent.state);
    let observed = |content: &Content| content.observed_at.as_ref().map(|at| at.as_str().to_owned());
    compare("/observedAt", observed(recorded) == observed(sent));
    compare("/lineage/dependsOnLedgerIds", recorded.depends_on == sent.depends_on);
    compare("/lineage/executionId", recorded.execution_id == sent.execution_id);
    compare("/lineage/rerunOfExecutionId", recorded.rerun_of == sent.rerun_of);
    compare("/key", recorded.key == sent.key);
    if recorded.payload != sent.payload {
        payload_differences(&recorded.payload, &sent.payload, &mut found);
    }
    found
}

fn payload_differences(recorded: &str, sent: &str, found: &mut Vec<String>) {
    let limits = Limits::own(usize::MAX);
    let (recorded, _) = parse(recorded.as_bytes(), &limits);
    let (sent, _) = parse(sent.as_bytes(), &limits);
    let before = found.len();
    if let (Some(recorded), Some(sent)) = (&recorded, &sent) {
        compare_nodes("/payload", recorded.root(), sent.root(), found);
    }
    if found.len() == before {
        found.push("/payload".to_owned());
    }
}

/// Recursion is bounded by the parser's depth limit, the list by [`MAX_NAMED`].
fn compare_nodes(pointer: &str, recorded: Node<'_>, sent: Node<'_>, found: &mut Vec<String>) {
    if found.len() >= MAX_NAMED || recorded.source() == sent.source() {
        return;
    }
    match (recorded.kind(), sent.kind()) {
        (NodeKind::Object, NodeKind::Object) => {
            for (key, value) in recorded.members() {
                let inner = format!("{pointer}/{}", segment(&key.text_value()));
                match sent.member(&key.text_value()) {
                    Some(other) => compare_nodes(&inner, value, other, found),
                    None => push(found, inner),
                }
            }
            for (key, _) in sent.members() {
                if recorded.member(&key.text_value()).is_none() {
                    push(found, format!("{pointer}/{}", segment(&key.text_value())));
                }
            }
        }
        (NodeKind::Array, NodeKind::Array) if recorded.elements().count() == sent.elements().count() => {
            for (position, (value, other)) in recorded.elements().zip(sent.elements()).enumerate() {
                compare_nodes(&format!("{pointer}/{position}"), value, other, found);
            }
        }
        _ if canonical(recorded) != canonical(sent) => push(found, pointer.to_owned()),
        _ => {}
    }
}

fn push(found: &mut Vec<String>, pointer: String) {
    if found.len() < MAX_NAMED {
        found.push(pointer);
    }
}

fn segment(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
