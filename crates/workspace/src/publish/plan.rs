//! The steps of a publish, written before any is carried out. Owns the order of the steps and the
//! plan's form on disk; refuses a plan that is damaged.
//!
//! The steps are in an order that can be carried out and, backwards, undone: files and links to delete, folders that make way
//! for a file, folders that are needed, then everything that is new or changed. On disk a plan is one line of JSON and, on a
//! second line, the BLAKE3 of the first in hex.

use crealeph_contracts::digest::Blake3;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::node::TreeNode;
use crate::path::TreePath;
use crate::state::StateHash;

const VERSION: u32 = 1;

/// The place of a staged content, or of a displaced file: a number in one of the plan's areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Which of the plan's areas.
    pub(super) area: usize,
    /// Its number, unique in the plan.
    pub(super) number: usize,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PublishStep {
    /// A file or link is deleted, into its slot.
    Delete { path: TreePath, before: TreeNode, slot: Slot },
    /// An empty folder makes way for a file or link.
    RemoveFolder { path: TreePath, mode: u32 },
    /// A folder is needed.
    MakeFolder { path: TreePath },
    /// A file or link comes from its slot to an empty place.
    Create { path: TreePath, after: TreeNode, slot: Slot },
    /// A file or link and its slot's content change places.
    Replace { path: TreePath, before: TreeNode, after: TreeNode, slot: Slot },
}

impl PublishStep {
    pub(super) fn path(&self) -> &TreePath {
        match self {
            PublishStep::Delete { path, .. }
            | PublishStep::RemoveFolder { path, .. }
            | PublishStep::MakeFolder { path }
            | PublishStep::Create { path, .. }
            | PublishStep::Replace { path, .. } => path,
        }
    }

    pub(super) fn slot(&self) -> Option<Slot> {
        match self {
            PublishStep::Delete { slot, .. }
            | PublishStep::Create { slot, .. }
            | PublishStep::Replace { slot, .. } => Some(*slot),
            PublishStep::RemoveFolder { .. } | PublishStep::MakeFolder { .. } => None,
        }
    }
}

/// A whole publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) before: StateHash,
    pub(super) after: StateHash,
    /// Folders, relative to the workspace, under whose `.crealeph` the slots are: one for each mount.
    pub(super) areas: Vec<String>,
    pub(super) steps: Vec<PublishStep>,
    /// Folders that something was deleted from, deepest first: those left empty are removed, too.
    pub(super) emptied: Vec<String>,
}

impl Plan {
    /// Its changes, sorted by path.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = self
            .steps
            .iter()
            .filter_map(|step| {
                let (before, after) = match step {
                    PublishStep::Delete { before, .. } => (Some(before), None),
                    PublishStep::Create { after, .. } => (None, Some(after)),
                    PublishStep::Replace { before, after, .. } => (Some(before), Some(after)),
                    PublishStep::RemoveFolder { .. } | PublishStep::MakeFolder { .. } => return None,
                };
                Some(Change { path: step.path().clone(), before: before.cloned(), after: after.cloned() })
            })
            .collect();
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes
    }

    pub(super) fn to_text(&self) -> String {
        let text = PlanText {
            version: VERSION,
            before: self.before.to_string(),
            after: self.after.to_string(),
            areas: self.areas.clone(),
            steps: self.steps.iter().map(StepText::of).collect(),
            emptied: self.emptied.clone(),
        };
        #[expect(
            clippy::expect_used,
            reason = "the plan has strings, numbers and lists alone, which JSON always holds"
        )]
        let line = serde_json::to_string(&text).expect("a plan can be written as JSON");
        let checksum = Blake3::of(line.as_bytes());
        format!("{line}\n{checksum}\n")
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (line, rest) = text.split_once('\n')?;
        if Blake3::parse(rest.strip_suffix('\n')?)? != Blake3::of(line.as_bytes()) {
            return None;
        }
        let text: PlanText =
            serde_json::from_str(line).ok().filter(|plan: &PlanText| plan.version == VERSION)?;
        let steps: Vec<PublishStep> = text.steps.iter().map(StepText::parse).collect::<Option<_>>()?;
        let has_area = |step: &PublishStep| step.slot().is_none_or(|slot| slot.area < text.areas.len());
        steps.iter().all(has_area).then_some(())?;
        // Folders of the workspace, whatever is written there: slots' contents are moved and removed.
        let is_beneath = |folder: &String| folder.is_empty() || TreePath::parse(folder).is_ok();
        text.areas.iter().chain(&text.emptied).all(is_beneath).then_some(())?;
        Some(Plan {
            before: StateHash::from_digest(Blake3::parse(&text.before)?),
            after: StateHash::from_digest(Blake3::parse(&text.after)?),
            areas: text.areas,
            steps,
            emptied: text.emptied,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    version: u32,
    before: String,
    after: String,
    areas: Vec<String>,
    steps: Vec<StepText>,
    emptied: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    step: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<NodeText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<NodeText>,
    /// Area and number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slot: Option<(usize, usize)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum NodeText {
    File { digest: String, size_bytes: u64, executable: bool },
    Link { target: String },
}

impl StepText {
    fn of(step: &PublishStep) -> Self {
        let (name, before, after, mode) = match step {
            PublishStep::Delete { before, .. } => ("delete", Some(before), None, None),
            PublishStep::RemoveFolder { mode, .. } => ("remove_folder", None, None, Some(*mode)),
            PublishStep::MakeFolder { .. } => ("make_folder", None, None, None),
            PublishStep::Create { after, .. } => ("create", None, Some(after), None),
            PublishStep::Replace { before, after, .. } => ("replace", Some(before), Some(after), None),
        };
        StepText {
            step: name.to_owned(),
            path: step.path().to_string(),
            before: before.map(NodeText::of),
            after: after.map(NodeText::of),
            slot: step.slot().map(|slot| (slot.area, slot.number)),
            mode,
        }
    }

    fn parse(&self) -> Option<PublishStep> {
        let path = TreePath::parse(&self.path).ok()?;
        let node = |text: &Option<NodeText>| text.as_ref().and_then(NodeText::parse);
        let (before, after) = (node(&self.before), node(&self.after));
        let slot = self.slot.map(|(area, number)| Slot { area, number });
        Some(match self.step.as_str() {
            "delete" => PublishStep::Delete { path, before: before?, slot: slot? },
            "remove_folder" => PublishStep::RemoveFolder { path, mode: self.mode? },
            "make_folder" => PublishStep::MakeFolder { path },
            "create" => PublishStep::Create { path, after: after?, slot: slot? },
            "replace" => PublishStep::Replace { path, before: before?, after: after?, slot: slot? },
            _ => return None,
        })
    }
}

impl NodeText {
    fn of(node: &TreeNode) -> Self {
        match node {
            TreeNode::File { digest, size_bytes, executable } => NodeText::File {
                digest: digest.to_string(),
                size_bytes: *size_bytes,
                executable: *executable,
            },
            TreeNode::Symlink { target } => NodeText::Link { target: target.to_string() },
        }
    }

    fn parse(&self) -> Option<TreeNode> {
        Some(match self {
            NodeText::File { digest, size_bytes, executable } => TreeNode::File {
                digest: Blake3::parse(digest)?,
                size_bytes: *size_bytes,
                executable: *executable,
            },
            NodeText::Link { target } => TreeNode::Symlink { target: target.as_str().into() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let path = |text: &str| TreePath::parse(text).unwrap();
        let file = TreeNode::File { digest: Blake3::of(b"x"), size_bytes: 1, executable: true };
        let link = TreeNode::Symlink { target: "a\nb\"".into() };
        let slot = |number| Slot { area: 0, number };
        Plan {
            before: StateHash::from_digest(Blake3::of(b"b")),
            after: StateHash::from_digest(Blake3::of(b"a")),
            areas: vec![String::new()],
            steps: vec![
                PublishStep::Delete { path: path("d"), before: link.clone(), slot: slot(0) },
                PublishStep::RemoveFolder { path: path("f"), mode: 0o755 },
                PublishStep::MakeFolder { path: path("m") },
                PublishStep::Create { path: path("m/\n"), after: file.clone(), slot: slot(1) },
                PublishStep::Replace { path: path("r"), before: file, after: link, slot: slot(2) },
            ],
            emptied: vec!["x/y".to_owned()],
        }
    }

    #[test]
    fn a_plan_reads_back_and_a_damaged_or_foreign_one_does_not() {
        let text = plan().to_text();
        assert_eq!(Plan::parse(&text), Some(plan()));
        for end in 0..text.len() {
            assert_eq!(Plan::parse(text.get(..end).unwrap()), None);
        }
        assert_eq!(Plan::parse(&text.replace("\"d\"", "\"e\"")), None);
        for elsewhere in ["..", "/", "a/../../b", ".git", "/tmp"] {
            let areas = Plan { areas: vec![elsewhere.to_owned()], ..plan() };
            let emptied = Plan { emptied: vec![elsewhere.to_owned()], ..plan() };
            for plan in [areas, emptied] {
                assert_eq!(Plan::parse(&plan.to_text()), None, "{elsewhere}");
            }
        }
    }
}
