//! WorkItem (agent-run, R25): what an agent is to do in a workspace, and within which limits.

use serde_json::{Value, json};

use crate::contract::{Contract, ContractName};
use crate::json::{Node, NodeKind, push_text};
use crate::scalar::{Amount, Count, ItemId, TimeoutMs, is_non_empty};
use crate::shape::{List, Set, Shape, object, scalar_parts, shown, words, wrong_type};
use crate::violation::{Code, Report};

/// The longest path, in bytes.
const MAX_PATH_BYTES: usize = 4096;

words! {
    /// The agents a work item can go to.
    AgentId {
        /// The reconciler.
        Agent0 = "agent-0",
        /// An agent.
        Agent1 = "agent-1",
        /// An agent.
        Agent2 = "agent-2",
        /// An agent.
        Agent3 = "agent-3",
        /// An agent.
        Agent4 = "agent-4",
        /// An agent.
        Agent5 = "agent-5",
        /// An agent.
        Agent6 = "agent-6",
        /// An agent.
        Agent7 = "agent-7",
        /// An agent.
        Agent8 = "agent-8",
        /// An agent.
        Agent9 = "agent-9",
    }
}

words! {
    /// How hard a work item is.
    Complexity {
        /// Easy.
        Low = "low",
        /// Neither.
        Medium = "medium",
        /// Hard.
        High = "high",
    }
}

/// A path in a workspace: relative to it, or absolute. A path that leaves it by `..` is refused; whether an absolute
/// path is inside is only known where the workspace is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkspacePath(Box<str>);

impl WorkspacePath {
    /// Accepts a path that does not leave the workspace.
    pub fn parse(path: &str) -> Option<Self> {
        path_fault(path).is_none().then(|| WorkspacePath(path.into()))
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn path_fault(path: &str) -> Option<(Code, &'static str)> {
    let mut depth = 0usize;
    for segment in path.split('/') {
        depth = match segment {
            "" | "." => depth,
            ".." => match depth.checked_sub(1) {
                Some(above) => above,
                None => {
                    return Some((
                        Code::OutsideWorkspace,
                        "the path leaves the workspace; name one inside it",
                    ));
                }
            },
            _ => depth + 1,
        };
    }
    if !is_non_empty(path) {
        Some((Code::Empty, "the path is empty; name a file"))
    } else if path.len() > MAX_PATH_BYTES {
        Some((Code::TooLong, "the path is longer than 4096 bytes; shorten it"))
    } else if path.contains('\0') {
        Some((Code::ControlCharacter, "the path contains a NUL character; remove it"))
    } else {
        None
    }
}

impl Shape for WorkspacePath {
    scalar_parts!();
    const EXPECTED: &'static str = "a path in the workspace";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Text {
            return wrong_type::<Self>(node, clause, report);
        }
        let path = node.text_value();
        match path_fault(&path) {
            None => Some(WorkspacePath(path.into())),
            Some((code, message)) => {
                report.at(node, "R25", code, || format!("`{}`: {message}", shown(&path)));
                None
            }
        }
    }

    fn write(&self, out: &mut String) {
        push_text(out, &self.0);
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^[^\u{0}]*$", "allOf": [crate::schema::non_empty_text()] })
    }
}

object! {
    /// The bounds of a run; each has a default.
    Constraints / ConstraintsParts ["run/work-item", "R4"] {
        /// How many files may change (default 10).
        max_files: Option<Count> = "max_files",
        /// How many tool operations may be used (default 50).
        max_tool_ops: Option<Count> = "max_tool_ops",
        /// How many deltas the change may have (default 100).
        max_delta_size: Option<Count> = "max_delta_size",
        /// How long it may take, in milliseconds (default 300000).
        timeout_ms: Option<TimeoutMs> = "timeout_ms",
    }
}

object! {
    /// What the work is expected to take.
    Budget / BudgetParts ["run/work-item", "R4"] {
        /// The expected time, in milliseconds.
        time_estimate_ms: Amount = "time_estimate_ms",
        /// How hard it is.
        complexity: Complexity = "complexity",
    }
}

object! {
    /// What an agent is to do in a workspace.
    WorkItem / WorkItemParts ["run/work-item", "R4"] {
        /// Its own id.
        id: ItemId = "id",
        /// The agent it goes to.
        agent_id: AgentId = "agent_id",
        /// What to do.
        description: Box<str> = "description",
        /// The items that must succeed first.
        dependencies: Set<ItemId> = "dependencies",
        /// Its bounds.
        constraints: Option<Constraints> = "constraints",
        /// What it is expected to take.
        budget: Budget = "budget",
        /// Files that must be there.
        input_files: Option<List<WorkspacePath>> = "input_files",
        /// Files that must come of it.
        output_files: Option<List<WorkspacePath>> = "output_files",
        /// The command that verifies it.
        test_command: Option<Box<str>> = "test_command",
    }
}

/// The bounds in force: what the item says, and the contract's defaults (R25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many files may change.
    pub max_files: u64,
    /// How many tool operations may be used.
    pub max_tool_ops: u64,
    /// How many deltas the change may have.
    pub max_delta_size: u64,
    /// How long it may take.
    pub timeout_ms: u64,
}

impl WorkItem {
    /// The bounds in force for this item.
    pub fn bounds(&self) -> Bounds {
        let said = self.constraints.as_ref();
        Bounds::filled(
            said.and_then(|constraints| constraints.max_files),
            said.and_then(|constraints| constraints.max_tool_ops),
            said.and_then(|constraints| constraints.max_delta_size),
            said.and_then(|constraints| constraints.timeout_ms),
        )
    }
}

impl Default for Bounds {
    /// The contract's defaults.
    fn default() -> Self {
        Bounds { max_files: 10, max_tool_ops: 50, max_delta_size: 100, timeout_ms: 300_000 }
    }
}

impl Bounds {
    /// The given limits, and the contract's default for the others.
    pub fn filled(
        max_files: Option<Count>,
        max_tool_ops: Option<Count>,
        max_delta_size: Option<Count>,
        timeout_ms: Option<TimeoutMs>,
    ) -> Self {
        let usual = Bounds::default();
        Bounds {
            max_files: max_files.map_or(usual.max_files, Count::get),
            max_tool_ops: max_tool_ops.map_or(usual.max_tool_ops, Count::get),
            max_delta_size: max_delta_size.map_or(usual.max_delta_size, Count::get),
            timeout_ms: timeout_ms.map_or(usual.timeout_ms, TimeoutMs::get),
        }
    }
}

impl Contract for WorkItem {
    const NAME: ContractName = ContractName::WorkItem;

    fn rules(parts: &WorkItemParts, report: &mut Report) {
        let (Some(id), Some(dependencies)) = (&parts.id, &parts.dependencies) else { return };
        if let Some(position) = dependencies.iter().position(|dependency| dependency.as_ref() == Some(id)) {
            report.add(
                format!("/dependencies/{position}"),
                "run/dependencies",
                Code::SelfReference,
                "the item depends on itself; remove this dependency",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_the_workspace_and_within_its_bound() {
        for (path, fault) in [
            ("a/../b", None),
            ("./a//b", None),
            ("a/..", None),
            ("..", Some(Code::OutsideWorkspace)),
            ("a/../../b", Some(Code::OutsideWorkspace)),
            ("a\0b", Some(Code::ControlCharacter)),
            (" ", Some(Code::Empty)),
            (&"p".repeat(4_096), None),
            (&"p".repeat(4_097), Some(Code::TooLong)),
        ] {
            assert_eq!(path_fault(path).map(|(code, _)| code), fault, "{path:.20}");
            assert_eq!(
                WorkspacePath::parse(path).map(|path| path.as_str().to_owned()).is_some(),
                fault.is_none()
            );
        }
        assert_eq!(WorkspacePath::parse("a/../b").unwrap().as_str(), "a/../b", "as it was written");
    }

    #[test]
    fn missing_bounds_of_an_item_come_from_the_contract() {
        let usual = Bounds { max_files: 10, max_tool_ops: 50, max_delta_size: 100, timeout_ms: 300_000 };
        assert_eq!(Bounds::filled(None, None, None, None), usual);
        let said = Bounds::filled(Count::new(1), Count::new(2), Count::new(3), TimeoutMs::new(4));
        assert_eq!(said, Bounds { max_files: 1, max_tool_ops: 2, max_delta_size: 3, timeout_ms: 4 });
        let text = include_str!("../tests/documents/work-item.json");
        let item = crate::Valid::<WorkItem>::parse(text.as_bytes(), &crate::json::Limits::default()).unwrap();
        assert_eq!(
            item.bounds(),
            Bounds { max_files: 3, max_tool_ops: 10, max_delta_size: 20, timeout_ms: 1_000 }
        );
    }
}
