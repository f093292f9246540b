//! Tests on an admitted change (R30, R31): in a fresh view of the workspace with the change applied, and nothing else that
//! the agent left. Owns that view; everything the tests write is dropped with it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crealeph_contracts::scalar::Count;
use crealeph_contracts::text::with_causes;
use crealeph_decision::work::{Ending, ProcessEnd, test_ending};
use crealeph_sandbox::{Cancel, GrantedPath, Mount, Sandbox, SandboxError, Spec, Stdin, View};
use crealeph_workspace::{Change, KeepError, TreeNode, Workspace};

use super::config::WorkAgent;
use super::confine::{self, grants, limits, workspace_spec};
use super::counts::{self, TestCounts};
use super::hidden::HiddenPaths;
use super::interrupt::Interrupt;
use super::log::{LogSource, RunLog};
use super::missing;
use super::run::process_end;
use super::secrets::GrantedSecrets;
use super::stage::ChangeContents;

/// Where the contents of the change are found while it is applied.
const CONTENTS: &str = "/run/crealeph-change";
/// How much of the output is kept: its start, and its end.
const MAX_START_BYTES: usize = 16 << 10;
const MAX_END_BYTES: usize = 48 << 10;
/// What is behind the number of bytes that are not kept.
const LEFT_OUT: &str = " bytes left out …]\n";

/// What tests said.
#[derive(Clone, Debug)]
pub(super) struct TestReport {
    /// What they printed, both streams as they came, bounded.
    pub(super) output: String,
    pub(super) counts: Option<TestCounts>,
}

/// Tests that did not pass.
#[derive(Debug)]
pub(super) struct FailedTests {
    /// What they said; absent if they could not be run.
    pub(super) report: Option<TestReport>,
    pub(super) ending: Ending,
}

/// Why tests could not be run at all.
#[derive(Debug, thiserror::Error)]
pub(super) enum TestError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// What they are granted.
    #[error(transparent)]
    Grants(#[from] Arc<SandboxError>),
    #[error(transparent)]
    Keep(#[from] KeepError),
    #[error("cannot make a handle to end them")]
    Cancel(#[source] std::io::Error),
    #[error("the change could not be applied to a view of the workspace: {0}")]
    Apply(String),
    #[error("the kept change cannot be unpacked")]
    Unpacked(#[source] std::io::Error),
    #[error("the workspace cannot be searched for what `hide` names")]
    Hidden(#[source] std::io::Error),
}

/// What runs tests.
pub(super) struct TestRunner<'t> {
    pub(super) workspace: &'t Workspace,
    pub(super) sandbox: &'t Sandbox,
    pub(super) agent: &'t WorkAgent,
    /// What the tests are granted.
    pub(super) secrets: &'t GrantedSecrets,
    /// Paths of the workspace that no view shows.
    pub(super) private: &'t [PathBuf],
    /// An empty place for the contents of the change.
    pub(super) scratch: &'t Path,
    /// Where the output is kept as it comes; nowhere if it is of no run.
    pub(super) log: Option<&'t RunLog>,
}

impl TestRunner<'_> {
    /// Runs a test command on the workspace as it is now, with the change applied; its output is kept as `redacted` gives it.
    pub(super) fn run(
        &self,
        command: &str,
        changes: &[Change],
        interrupt: &Interrupt,
        redacted: &dyn Fn(&str) -> String,
    ) -> Result<TestReport, FailedTests> {
        let ended = interrupt.cancel().map_err(TestError::Cancel).and_then(|cancel| {
            let (view, _) = self.changed_view(changes, &[], &cancel)?;
            self.run_in(&view, command, &cancel)
        });
        let (end, printed) = ended.map_err(|error| {
            let why = with_causes(&error);
            let ending = Ending::TestsFailed(format!("Tests failed: they could not be run: {why}"));
            FailedTests { report: None, ending: interrupt.or(ending) }
        })?;
        let report = TestReport { counts: counts::read(&printed), output: redacted(&shortened(&printed)) };
        let table = format!("work.agents.{}.test", self.agent.name);
        let cause = missing::cause(&end, &printed, &table, self.workspace.path());
        match test_ending(command, &end, self.agent.test_timeout_ms, cause.as_deref()) {
            None => Ok(report),
            Some(ending) => Err(FailedTests { report: Some(report), ending }),
        }
    }

    /// How the tests ended in a view, and what they printed.
    fn run_in(&self, view: &View, command: &str, cancel: &Cancel) -> Result<(ProcessEnd, String), TestError> {
        let root = self.workspace.path();
        let granted = &self.agent.test;
        let mut spec =
            workspace_spec(["/bin/sh", "-c", command], granted, grants(granted, self.secrets, root)?, root);
        spec.grants.env.extend(confine::variables(&[("CREALEPH_WORKSPACE", &root.to_string_lossy())]));
        spec.limits = limits(self.agent, self.agent.test_timeout_ms);
        spec.views = vec![Mount { view, at: root.to_owned() }];
        let printed = Mutex::new(Vec::new());
        let both = |stream, bytes: &[u8]| {
            if let Some(log) = self.log {
                log.take(LogSource::Tests, stream, bytes);
            }
            printed.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        };
        let outcome = self.sandbox.run_with_output(&spec, cancel, Some(&both));
        if let Some(log) = self.log {
            log.finish(LogSource::Tests);
        }
        let outcome = outcome?;
        let printed = printed.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((process_end(&outcome), String::from_utf8_lossy(&printed).into_owned()))
    }

    /// A view of the workspace as it is now, with an admitted change applied, and what it hides. A further change that is to be
    /// applied to it can be shown what it touches.
    pub(super) fn changed_view(
        &self,
        changes: &[Change],
        further: &[Change],
        cancel: &Cancel,
    ) -> Result<(View, HiddenPaths), TestError> {
        let (root, hide) = (self.workspace.path(), &self.agent.hide);
        let touched = [changes, further].concat();
        let hidden = HiddenPaths::find(self.workspace, hide, self.private, &touched);
        let hidden = hidden.map_err(TestError::Hidden)?;
        let view = self.sandbox.open_view_hiding(root, &hidden.paths)?;
        self.apply((&view, &hidden), changes, &ChangeContents::Stored, cancel)?;
        Ok((view, hidden))
    }

    /// Applies a change to a view, by a shell inside it. What is hidden there is left out.
    pub(super) fn apply(
        &self,
        (view, hidden): (&View, &HiddenPaths),
        changes: &[Change],
        contents: &ChangeContents,
        cancel: &Cancel,
    ) -> Result<(), TestError> {
        let (root, hide) = (self.workspace.path(), &self.agent.hide);
        let is_seen = |change: &&Change| hidden.covering(hide, change.path.as_str()).is_none();
        let changes: Vec<Change> = changes.iter().filter(is_seen).cloned().collect();
        if changes.is_empty() {
            return Ok(());
        }
        let after = changes.iter().filter_map(|change| Some((&change.path, change.after.as_ref()?)));
        match contents {
            ChangeContents::Stored => self.workspace.lay_out(after, self.scratch)?,
            ChangeContents::Packed(packed) => packed.lay_out(self.scratch).map_err(TestError::Unpacked)?,
        }
        let mut spec = Spec::new(["/bin/sh", "-s"]);
        spec.stdin = Stdin::Bytes(script(&changes).into_bytes());
        spec.grants.read.push(GrantedPath { from: self.scratch.to_owned(), at: CONTENTS.into() });
        spec.limits = limits(self.agent, self.agent.test_timeout_ms);
        spec.cwd = Some(root.to_owned());
        spec.views = vec![Mount { view, at: root.to_owned() }];
        let outcome = self.sandbox.run(&spec, cancel)?;
        let _ = std::fs::remove_dir_all(self.scratch);
        match outcome.succeeded() {
            true => Ok(()),
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
            TreeNode::Symlink { target } => writeln!(script, "ln -s -- {} {}", quoted(target), quoted(path)),
            TreeNode::File { executable, .. } => {
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
    format!("{start}\n[… {left}{LEFT_OUT}{end}")
}

/// The counts in the output that a receipt has; nothing if a part was left out, which may have had some.
pub(crate) fn counts_in_log(log: &str) -> Option<TestCounts> {
    let fits = |count: u64| Count::new(count).is_some();
    counts::read(log).filter(|tests| !log.contains(LEFT_OUT) && fits(tests.passed) && fits(tests.failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_a_whole_log_alone() {
        let line = "test result: ok. 3 passed; 1 failed; 0 ignored\n";
        assert_eq!(counts_in_log(line), Some(TestCounts { passed: 3, failed: 1 }));
        assert_eq!(counts_in_log("test result: ok. 9007199254740992 passed; 1 failed; 0 ignored\n"), None);
        let long = format!("{line}{}{line}", "x\n".repeat(MAX_START_BYTES + MAX_END_BYTES));
        assert_eq!(counts::read(&long), Some(TestCounts { passed: 6, failed: 2 }));
        assert_eq!(counts_in_log(&shortened(&long)), None);
    }
}
