//! Tests on an admitted change (R30, R31): in a fresh view of the workspace with the change applied, and nothing else that
//! the agent left. Owns that view; everything the tests write is dropped with it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crealeph_sandbox::{Cancel, Cut, Exit, Mount, Place, Sandbox, SandboxError, Spec, Stdin, View};
use crealeph_workspace::{Change, KeepError, Node, Workspace};

use super::config::WorkAgent;
use super::confine::{self, grants, limits, network};
use super::counts::{self, Counts};

/// Where the contents of the change are found while it is applied.
const CONTENTS: &str = "/run/crealeph-change";
/// How much of the output is kept: its start, and its end.
const MAX_START_BYTES: usize = 16 << 10;
const MAX_END_BYTES: usize = 48 << 10;

/// What came of the tests.
#[derive(Clone, Debug)]
pub(super) struct Tested {
    /// Why they did not pass.
    pub(super) fault: Option<TestFault>,
    /// What they printed, both streams as they came, bounded.
    pub(super) output: String,
    pub(super) counts: Option<Counts>,
}

/// Why tests did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TestFault {
    /// They failed.
    Failed(String),
    /// Somebody ended them.
    Interrupted,
}

/// Why tests could not be run at all.
#[derive(Debug, thiserror::Error)]
pub(super) enum TestError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Keep(#[from] KeepError),
    #[error("the change could not be applied to a view of the workspace: {0}")]
    Apply(String),
    #[error("the workspace cannot be searched for what `hide` names")]
    Hidden(#[source] std::io::Error),
}

/// Where tests are run.
pub(super) struct TestPlace<'t> {
    pub(super) workspace: &'t Workspace,
    pub(super) sandbox: &'t Sandbox,
    pub(super) agent: &'t WorkAgent,
    /// Paths of the workspace that no view shows.
    pub(super) private: &'t [PathBuf],
    /// An empty place for the contents of the change.
    pub(super) scratch: &'t Path,
}

impl TestPlace<'_> {
    /// Runs a test command on the workspace as it is now, with the change applied.
    pub(super) fn run(
        &self,
        command: &str,
        changes: &[Change],
        cancel: &Cancel,
    ) -> Result<Tested, TestError> {
        let view = self.changed_view(changes, cancel)?;
        let root = self.workspace.path();
        let mut spec = Spec::new(["/bin/sh", "-c", command]);
        spec.grants = grants(&self.agent.test, root)?;
        spec.grants.env.extend(confine::variables(&[("CREALEPH_WORKSPACE", &root.to_string_lossy())]));
        spec.network = network(&self.agent.test);
        spec.limits = limits(self.agent, self.agent.test_timeout_ms);
        spec.cwd = Some(root.to_owned());
        spec.views = vec![Mount { view: &view, at: root.to_owned() }];
        let printed = std::sync::Mutex::new(Vec::new());
        let both = |_, bytes: &[u8]| {
            printed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend_from_slice(bytes);
        };
        let outcome = self.sandbox.run_with_output(&spec, cancel, Some(&both))?;
        let printed = printed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let printed = String::from_utf8_lossy(&printed);
        let is_cut = |wanted: fn(&Cut) -> bool| outcome.cuts.iter().any(wanted);
        let fault = if is_cut(|cut| matches!(cut, Cut::Cancelled)) {
            Some(TestFault::Interrupted)
        } else if is_cut(|cut| matches!(cut, Cut::WallTime { .. })) {
            let limit_ms = self.agent.test_timeout_ms;
            Some(TestFault::Failed(format!(
                "`{command}` did not end within {limit_ms} ms (`test_timeout_ms`)"
            )))
        } else if let Some(cut) = outcome.cuts.iter().find(|cut| cut.ended_the_run()) {
            Some(TestFault::Failed(format!("`{command}` was stopped: {cut}")))
        } else {
            match outcome.exit {
                Exit::Code(0) => None,
                Exit::Code(code) => {
                    Some(TestFault::Failed(format!("`{command}` ended with exit code {code}")))
                }
                Exit::Signal(signal) => {
                    Some(TestFault::Failed(format!("`{command}` was ended by signal {signal}")))
                }
                Exit::Killed => Some(TestFault::Failed(format!("`{command}` was killed"))),
            }
        };
        Ok(Tested { fault, counts: counts::read(&printed), output: shortened(&printed) })
    }

    /// A view of the workspace as it is now, with the change applied by a shell inside it.
    pub(super) fn changed_view(&self, changes: &[Change], cancel: &Cancel) -> Result<View, TestError> {
        let root = self.workspace.path();
        let hidden =
            confine::hidden(self.workspace, &self.agent.hide, self.private).map_err(TestError::Hidden)?;
        let view = self.sandbox.open_view_hiding(root, &hidden)?;
        let is_seen = |change: &&Change| self.agent.hide.covering(change.path.as_str()).is_none();
        let changes: Vec<Change> = changes.iter().filter(is_seen).cloned().collect();
        if changes.is_empty() {
            return Ok(view);
        }
        let after = changes.iter().filter_map(|change| Some((&change.path, change.after.as_ref()?)));
        self.workspace.lay_out(after, self.scratch)?;
        let mut spec = Spec::new(["/bin/sh", "-s"]);
        spec.stdin = Stdin::Bytes(script(&changes).into_bytes());
        spec.grants.read.push(Place { from: self.scratch.to_owned(), at: CONTENTS.into() });
        spec.limits = limits(self.agent, self.agent.test_timeout_ms);
        spec.cwd = Some(root.to_owned());
        spec.views = vec![Mount { view: &view, at: root.to_owned() }];
        let outcome = self.sandbox.run(&spec, cancel)?;
        let _ = std::fs::remove_dir_all(self.scratch);
        match outcome.succeeded() {
            true => Ok(view),
            false => Err(TestError::Apply(outcome.stderr.text().trim().to_owned())),
        }
    }
}

/// The change as a shell script, run in the view: what goes away first, then what comes.
fn script(changes: &[Change]) -> String {
    let mut script = "set -eu\n".to_owned();
    for change in changes {
        let _ = writeln!(script, "rm -rf -- {}", quoted(change.path.as_str()));
    }
    for change in changes {
        let Some(node) = &change.after else { continue };
        let path = change.path.as_str();
        if let Some((folder, _)) = path.rsplit_once('/') {
            let _ = writeln!(script, "mkdir -p -- {}", quoted(folder));
        }
        let _ = match node {
            Node::Symlink { target } => writeln!(script, "ln -s -- {} {}", quoted(target), quoted(path)),
            Node::File { executable, .. } => {
                let mode = if *executable { "755" } else { "644" };
                let from = format!("{CONTENTS}/{path}");
                writeln!(script, "cp -- {} {}\nchmod {mode} -- {}", quoted(&from), quoted(path), quoted(path))
            }
        };
    }
    script
}

/// A text as one word of the shell. A path that starts with a dash is kept from being an option.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The start and the end of an output, with a word on what is between.
fn shortened(text: &str) -> String {
    if text.len() <= MAX_START_BYTES + MAX_END_BYTES {
        return text.to_owned();
    }
    let start = text.get(..text.floor_char_boundary(MAX_START_BYTES)).unwrap_or_default();
    let end = text.get(text.ceil_char_boundary(text.len() - MAX_END_BYTES)..).unwrap_or_default();
    let left = text.len() - start.len() - end.len();
    format!("{start}\n[… {left} bytes left out …]\n{end}")
}
