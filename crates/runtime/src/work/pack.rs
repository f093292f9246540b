//! The change of a run that did not land, packed into one file (R34): a record of the run and its change on the first line, then the
//! contents of the files that the run left, concatenated. Owns the format and its limits; a packed change is checked to the
//! last byte when it is read, and a file with anything else is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crealeph_contracts::capsule_record::{
    CapsuleBranch, CapsuleChange, CapsuleFormat, CapsuleNode, CapsuleNodeKind, CapsuleRecord,
};
use crealeph_contracts::digest::{Blake3, GitHash};
use crealeph_contracts::provenance::AgentFacts;
use crealeph_contracts::scalar::{Amount, Count, Text};
use crealeph_workspace::{Change, Store, TreeNode, TreePath};

use super::engine::Work;
use super::journal::{CapsuleState, HeldBranch};
use super::receipt::RunFile;
use super::record::models;
use super::run::count;
use super::stage::{RunEvidence, UnlandedChange};

/// The packed change in a run's folder.
pub const CAPSULE_FILE: &str = "capsule.pack";
const DAY_S: u64 = 24 * 60 * 60;

/// How much is kept of runs that did not land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapsuleBounds {
    /// The most files of a change.
    pub max_files: u64,
    /// The most bytes of all its contents.
    pub max_bytes: u64,
    /// The most bytes of all that are kept; the oldest make room.
    pub max_total_bytes: u64,
    /// For how long.
    pub max_age: Duration,
}

impl Default for CapsuleBounds {
    fn default() -> Self {
        CapsuleBounds {
            max_files: 10_000,
            max_bytes: 64 << 20,
            max_total_bytes: 1 << 30,
            max_age: Duration::from_secs(7 * DAY_S),
        }
    }
}

/// A change that was read back.
#[derive(Debug)]
pub(super) struct PackedChange {
    pub(super) record: CapsuleRecord,
    pub(super) changes: Vec<Change>,
    contents: BTreeMap<Blake3, Vec<u8>>,
}

/// What is kept of a run that ended in a way after which it can be judged again: its change, if that was read and is within the bounds;
/// else why not.
pub(super) fn keep(
    work: &Work,
    evidence: &RunEvidence,
    unlanded: Option<&UnlandedChange>,
) -> (CapsuleState, Option<RunFile>) {
    let bounds = work.config.capsules;
    let left_out = |why: String| (CapsuleState::LeftOut(why), None);
    let Some(UnlandedChange { own, .. }) = unlanded else {
        return left_out(format!("its change was too large to be read; {}", said(bounds)));
    };
    let (files, bytes) = (own.len() as u64, own.iter().map(content_bytes).fold(0, u64::saturating_add));
    if files > bounds.max_files || bytes > bounds.max_bytes {
        return left_out(format!("its change has {files} files and {bytes} bytes; {}", said(bounds)));
    }
    let packed = record(evidence, own).and_then(|record| pack(&record, own, work.workspace.store()));
    match packed {
        Ok(packed) => (CapsuleState::Kept, Some(RunFile::new(CAPSULE_FILE, packed))),
        Err(why) => left_out(format!("its change could not be kept: {why}")),
    }
}

fn said(bounds: CapsuleBounds) -> String {
    let CapsuleBounds { max_files, max_bytes, .. } = bounds;
    format!("at most {max_files} files and {max_bytes} bytes are kept (`[work.capsules]`)")
}

fn content_bytes(change: &Change) -> u64 {
    match &change.after {
        Some(TreeNode::File { size_bytes, .. }) => *size_bytes,
        _ => 0,
    }
}

fn record(evidence: &RunEvidence, own: &[Change]) -> Result<CapsuleRecord, String> {
    let RunEvidence { identity, agent, .. } = evidence;
    let amount = |value: Option<f64>| value.and_then(Amount::new);
    Ok(CapsuleRecord {
        format: CapsuleFormat::V1,
        run: identity.id,
        agent: identity.request.agent.as_str().into(),
        agent_facts: identity
            .origin
            .as_ref()
            .map(|origin| AgentFacts { models: models(&agent.trace), ..origin.agent.clone() }),
        work_item: identity.item.clone(),
        robot: identity.request.robot.clone(),
        hold: identity.request.is_held,
        branch: identity.request.branch.as_ref().map(branch).transpose()?,
        tool_trace: agent.trace.calls.iter().cloned().collect(),
        tool_ops: count(agent.trace.count),
        tokens_used: amount(agent.trace.tokens),
        cost_usd: amount(agent.trace.cost_usd),
        sandbox_strength: agent.strength,
        sandbox: agent.sandbox.clone(),
        connections: agent.connections.iter().cloned().collect(),
        connections_left_off: Count::new(agent.connections_left_off).filter(|more| more.get() > 0),
        changes: own.iter().map(packed_change).collect(),
    })
}

/// The branch to keep: without it, the change would go to the tree when it is tried again.
fn branch(held: &HeldBranch) -> Result<CapsuleBranch, String> {
    let HeldBranch { name, tip, repository } = held;
    let no = |what: &str| format!("{what} of the branch `{name}` cannot be recorded");
    let text = |path: &PathBuf| {
        path.to_str().and_then(Text::new).ok_or_else(|| no(&format!("the repository `{}`", path.display())))
    };
    Ok(CapsuleBranch {
        name: Text::new(name).ok_or_else(|| no("the name"))?,
        tip: GitHash::parse(tip).ok_or_else(|| no(&format!("the commit `{tip}`")))?,
        repository: repository.as_ref().map(text).transpose()?,
    })
}

fn packed_change(change: &Change) -> CapsuleChange {
    let node = |node: &TreeNode| match node {
        TreeNode::File { digest, size_bytes, executable } => CapsuleNode {
            kind: if *executable { CapsuleNodeKind::Executable } else { CapsuleNodeKind::File },
            digest: Some(*digest),
            size_bytes: Count::new(*size_bytes),
            target: None,
        },
        TreeNode::Symlink { target } => CapsuleNode {
            kind: CapsuleNodeKind::Link,
            digest: None,
            size_bytes: None,
            target: Some(target.clone()),
        },
    };
    CapsuleChange {
        path: change.path.as_workspace_path().clone(),
        before: change.before.as_ref().map(node),
        after: change.after.as_ref().map(node),
    }
}

/// The files that a change leaves, each content once, in the order in which they are packed.
fn contents(changes: &[Change]) -> Vec<(Blake3, u64)> {
    let mut seen = std::collections::BTreeSet::new();
    let files = changes.iter().filter_map(|change| match &change.after {
        Some(TreeNode::File { digest, size_bytes, .. }) => Some((*digest, *size_bytes)),
        _ => None,
    });
    files.filter(|(digest, _)| seen.insert(*digest)).collect()
}

/// Packs a change, and reads it back with its own reader.
fn pack(record: &CapsuleRecord, changes: &[Change], store: Store<'_>) -> Result<Vec<u8>, String> {
    let mut packed = record.to_json().into_bytes();
    packed.push(b'\n');
    for (digest, size_bytes) in contents(changes) {
        let bytes = store.read(&digest, size_bytes).map_err(|error| error.to_string())?;
        packed.extend_from_slice(&bytes);
    }
    match PackedChange::read(&packed) {
        Some(read) if read.changes == changes => Ok(packed),
        _ => Err("it cannot be read back".to_owned()),
    }
}

impl PackedChange {
    /// Reads a packed change; nothing if it is not one, to the last byte.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, mut rest) = (bytes.get(..end)?, bytes.get(end + 1..)?);
        let record = CapsuleRecord::parse(head).ok()?;
        let changes: Vec<Change> = record.changes.as_slice().iter().map(change).collect::<Option<_>>()?;
        if !changes.is_sorted_by(|one, other| one.path < other.path) {
            return None;
        }
        let mut all = BTreeMap::new();
        for (digest, size_bytes) in contents(&changes) {
            let (content, after) = rest.split_at_checked(usize::try_from(size_bytes).ok()?)?;
            if Blake3::of(content) != digest {
                return None;
            }
            all.insert(digest, content.to_vec());
            rest = after;
        }
        rest.is_empty().then_some(PackedChange { record, changes, contents: all })
    }

    /// Writes the files that the change leaves into a folder that is empty or not there, each at its path.
    pub(super) fn lay_out(&self, into: &Path) -> io::Result<()> {
        fs::create_dir_all(into)?;
        for change in &self.changes {
            let Some(TreeNode::File { digest, .. }) = &change.after else { continue };
            let content = self.contents.get(digest).ok_or(io::ErrorKind::NotFound)?;
            let path = into.join(change.path.as_str());
            fs::create_dir_all(path.parent().unwrap_or(into))?;
            fs::write(&path, content)?;
        }
        Ok(())
    }

    /// The branch that the change was to go to.
    pub(super) fn branch(&self) -> Option<HeldBranch> {
        let CapsuleBranch { name, tip, repository } = self.record.branch.as_ref()?;
        Some(HeldBranch {
            name: name.as_str().to_owned(),
            tip: tip.as_str().to_owned(),
            repository: repository.as_ref().map(|path| path.as_str().into()),
        })
    }
}

fn change(packed: &CapsuleChange) -> Option<Change> {
    let node = |node: &CapsuleNode| match (node.kind, node.digest, node.size_bytes, &node.target) {
        (CapsuleNodeKind::Link, None, None, Some(target)) => {
            Some(TreeNode::Symlink { target: target.clone() })
        }
        (CapsuleNodeKind::File, Some(digest), Some(size), None) => {
            Some(TreeNode::File { digest, size_bytes: size.get(), executable: false })
        }
        (CapsuleNodeKind::Executable, Some(digest), Some(size), None) => {
            Some(TreeNode::File { digest, size_bytes: size.get(), executable: true })
        }
        _ => None,
    };
    let side = |side: &Option<CapsuleNode>| match side {
        Some(found) => node(found).map(Some),
        None => Some(None),
    };
    let path = TreePath::parse(packed.path.as_str()).ok()?;
    let (before, after) = (side(&packed.before)?, side(&packed.after)?);
    (before != after).then_some(Change { path, before, after })
}

#[cfg(test)]
mod tests {
    use crealeph_contracts::contract::Valid;
    use crealeph_contracts::json::Limits;
    use crealeph_contracts::receipt::SandboxStrength;
    use crealeph_contracts::uuid::Uuid;
    use crealeph_workspace::Workspace;

    use super::*;

    fn changes() -> Vec<Change> {
        let file = |text: &str, executable| TreeNode::File {
            digest: Blake3::of(text.as_bytes()),
            size_bytes: text.len() as u64,
            executable,
        };
        let link = TreeNode::Symlink { target: "a".into() };
        let change = |path: &str, before: Option<TreeNode>, after: Option<TreeNode>| Change {
            path: TreePath::parse(path).unwrap(),
            before,
            after,
        };
        vec![
            change("a", None, Some(file("same", false))),
            change("b/c", Some(file("gone", true)), None),
            change("b/d", Some(link.clone()), Some(file("same", true))),
            change("b/e", Some(file("old", false)), Some(file("", false))),
            change("l", None, Some(link)),
        ]
    }

    fn packed() -> Vec<u8> {
        let item = r#"{"id":"i","agent_id":"agent-1","description":"d","dependencies":[],"budget":{"time_estimate_ms":1,"complexity":"low"}}"#;
        let changes = changes();
        let record = CapsuleRecord {
            format: CapsuleFormat::V1,
            run: Uuid::from_bytes([7; 16]),
            agent: "one".into(),
            agent_facts: None,
            work_item: Valid::<crealeph_contracts::WorkItem>::parse(item.as_bytes(), &Limits::default())
                .unwrap()
                .into_inner(),
            robot: None,
            hold: true,
            branch: None,
            tool_trace: [].into_iter().collect(),
            tool_ops: count(3),
            tokens_used: None,
            cost_usd: None,
            sandbox_strength: SandboxStrength::Full,
            sandbox: None,
            connections: [].into_iter().collect(),
            connections_left_off: None,
            changes: changes.iter().map(packed_change).collect(),
        };
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        for text in ["same", ""] {
            workspace.store().put(text.as_bytes()).unwrap();
        }
        pack(&record, &changes, workspace.store()).unwrap()
    }

    #[test]
    fn what_is_packed_is_read_back_and_laid_out() {
        let packed = packed();
        assert!(packed.ends_with(b"}\nsame"), "each content once");
        let read = PackedChange::read(&packed).unwrap();
        assert_eq!((&read.changes, read.record.hold), (&changes(), true));
        let folder = tempfile::tempdir().unwrap();
        read.lay_out(folder.path()).unwrap();
        let text = |path: &str| fs::read_to_string(folder.path().join(path)).ok();
        assert_eq!(
            (text("a"), text("b/d"), text("b/e")),
            (Some("same".into()), Some("same".into()), Some(String::new()))
        );
        assert!(!folder.path().join("b/c").exists());
    }

    #[test]
    fn a_branch_that_cannot_be_recorded_is_an_error_and_not_the_tree() {
        use std::os::unix::ffi::OsStringExt as _;
        let held = |tip: &str, repository: &[u8]| HeldBranch {
            name: "fixes".to_owned(),
            tip: tip.to_owned(),
            repository: Some(std::ffi::OsString::from_vec(repository.to_vec()).into()),
        };
        let tip = "a".repeat(40);
        assert_eq!(branch(&held(&tip, b"/w/.git")).unwrap().name.as_str(), "fixes");
        let said = |held: &HeldBranch| branch(held).unwrap_err();
        assert_eq!(
            said(&held("short", b"/w/.git")),
            "the commit `short` of the branch `fixes` cannot be recorded"
        );
        assert!(said(&held(&tip, b"/\xff/.git")).contains("of the branch `fixes` cannot be recorded"));
    }

    #[test]
    fn nothing_else_is_read() {
        let packed = packed();
        for end in 0..packed.len() {
            assert!(PackedChange::read(&packed[..end]).is_none(), "{end}");
        }
        let text = String::from_utf8(packed).unwrap();
        let other = [
            format!("{text}x"),
            text.replace("\nsame", "\nsane"),
            text.replace("\"path\":\"a\"", "\"path\":\"../a\""),
            text.replace("\"path\":\"a\"", "\"path\":\"z\""),
            text.replace("\"path\":\"a\"", "\"path\":\".git/a\""),
            text.replace("crealeph-capsule-v1", "crealeph-capsule-v2"),
            text.replace("\"kind\":\"link\"", "\"kind\":\"file\""),
            text.replace("\"sizeBytes\":4", "\"sizeBytes\":9007199254740991"),
            text.replace("\"hold\":true", "\"hold\":true,\"more\":1"),
        ];
        for altered in other {
            assert_ne!(altered, text);
            assert!(PackedChange::read(altered.as_bytes()).is_none(), "{altered}");
        }
    }
}
