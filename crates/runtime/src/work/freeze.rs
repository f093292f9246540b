//! Reading what an agent wrote, within the limits of its run. Owns the order: list the paths, judge what needs no content,
//! and only then read, hash and compare, until the run's time has expired. Copies nothing: contents stay in the view until the
//! change lands.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crealeph_contracts::WorkItem;
use crealeph_contracts::attestation::Admission;
use crealeph_contracts::scalar::Text;
use crealeph_contracts::text::with_causes;
use crealeph_decision::work::{DeltaClass, DeltaCounts, Ending, JudgedChange, admit, own_edits};
use crealeph_sandbox::{Cut, SandboxError, View, ViewChangeKind, ViewEntry};
use crealeph_workspace::{
    Arrival, Capsule, CaptureError, Change, Deadline, DeltaError, Deltas, Listing, Surveyed, TreePath,
    UnwantedChange, ViewChanges,
};

use super::hidden::HiddenPaths;
use super::paths;
use super::receipt::DeltaLists;
use super::run::{ItemRunner, RunStage, count};
use super::stage::{ChangeReport, ExistingChange, FrozenChange, PlannedRun, changes, edits};
use super::trace::Trace;

/// How much of a diff is kept.
const MAX_DIFF_BYTES: usize = 1 << 20;
/// How long reading may take, although the agent used up the run's time.
const MIN_READING: Duration = Duration::from_secs(10);

/// Why there is no capsule, and what is known of the change all the same.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) ending: Ending,
    pub(super) change: ChangeReport,
    pub(super) admission: Option<Admission>,
}

impl From<Ending> for Unread {
    fn from(ending: Ending) -> Self {
        Unread { ending, change: ChangeReport::default(), admission: None }
    }
}

impl ItemRunner<'_> {
    /// Reads what the view changed: the capsule, its deltas and its diff.
    pub(super) fn freeze(
        &self,
        planned: &PlannedRun<'_>,
        view: &View,
        trace: &Trace,
        hidden: &HiddenPaths,
    ) -> Result<FrozenChange, Box<Unread>> {
        let timeout_ms = planned.identity.item.bounds().timeout_ms;
        let end = planned.clock().checked_add(Duration::from_millis(timeout_ms));
        let end = end.max(Instant::now().checked_add(MIN_READING));
        let is_over = || self.interrupt.is_used() || end.is_some_and(|end| Instant::now() > end);
        let deadline = Deadline::when(&is_over);
        self.freeze_until(planned, view, (trace, hidden), deadline).map_err(|stop| match stop {
            ReadingStop::Stopped if self.interrupt.is_used() => Box::new(Ending::Interrupted.into()),
            ReadingStop::Stopped => {
                let details = " while what the agent changed was read; leave less, or raise it";
                Box::new(Ending::timed_out(timeout_ms, details).into())
            }
            ReadingStop::Ended(unread) => unread,
        })
    }

    fn freeze_until(
        &self,
        planned: &PlannedRun<'_>,
        view: &View,
        (trace, hidden): (&Trace, &HiddenPaths),
        deadline: Deadline<'_>,
    ) -> Result<FrozenChange, ReadingStop> {
        let touched = view.touched(&|| deadline.is_over()).map_err(|error| match error {
            _ if deadline.is_over() => ReadingStop::Stopped,
            SandboxError::ViewBound { what, .. } => Ending::over_sandbox_limit(&what).into(),
            error => unreadable(&error),
        })?;
        make_readable(view, &touched);
        let mut listing = self.workspace.list(planned.base.snapshot, &seen(view, touched), deadline)?;
        let (files, bytes) = listing.extent();
        // What may be kept is read before it is judged, so that a denied change has its diff, its exact figures and its capsule.
        let kept = self.capsules;
        if files as u64 > kept.max_files || bytes > kept.max_bytes.min(self.agent.disk_bytes) {
            self.judge_unread(planned, trace, &mut listing)?;
        }
        let inspect = |arrival: Arrival<'_>| self.secrets.inspect(&self.agent.hide, hidden, arrival);
        let capsule = listing.freeze_inspected(&inspect)?;
        let own = self.own_changes(&capsule, planned.base.changes, hidden);
        (self.progress)(RunStage::Judging { files: own.len() });
        let deltas = self.workspace.deltas(&own, deadline)?;
        let (deltas, counts) = self.by_class(&planned.identity.item, deltas);
        let diff = self.workspace.unified(&own, MAX_DIFF_BYTES, deadline)?;
        let files = Some(capsule.changes().len());
        Ok(FrozenChange { capsule, own, report: ChangeReport { files, deltas, counts, diff } })
    }

    /// What an item changed itself, beyond what came before it.
    fn own_changes(&self, capsule: &Capsule, earlier: &[Change], hidden: &HiddenPaths) -> Vec<Change> {
        let is_hidden = |path: &TreePath| hidden.covering(&self.agent.hide, path.as_str()).is_some();
        changes(own_edits(&edits(capsule.changes()), &edits(earlier), is_hidden))
    }

    /// The deltas of a change by class (R28), and how many there are, also of those that are not listed.
    fn by_class(&self, item: &WorkItem, deltas: Deltas) -> (DeltaLists, DeltaCounts) {
        let (mut lists, mut counts) = (DeltaLists::default(), DeltaCounts::default());
        for delta in deltas.listed {
            let class = self.class_of(item, delta.path.as_str());
            counts.add(class, 1);
            lists.of_class(class).push(delta);
        }
        for (path, count) in deltas.unlisted {
            counts.add(self.class_of(item, path.as_str()), count);
        }
        (lists, counts)
    }

    /// The class of a change. What the tests look at because the item is to write it is no test.
    fn class_of(&self, item: &WorkItem, path: &str) -> DeltaClass {
        let mut outputs = paths::relative(item.output_files.as_ref(), self.workspace.path());
        let is_output = outputs.any(|output| output.is_ok_and(|output| output == path));
        self.agent.paths.class_of(path, item.test_command.as_deref().filter(|_| !is_output))
    }

    /// Denies a large change by what is known of it without its contents: how many files, where, how long. The order of
    /// reasons is admission's.
    fn judge_unread(
        &self,
        planned: &PlannedRun<'_>,
        trace: &Trace,
        listing: &mut Listing<'_>,
    ) -> Result<(), ReadingStop> {
        let changed = listing.survey(planned.base.changes)?;
        (self.progress)(RunStage::Judging { files: changed.len() });
        let item = &planned.identity.item;
        let (least, is_exact) = deltas_of(&changed, &|path| self.class_of(item, path));
        let judged = JudgedChange {
            paths: changed.iter().map(|change| change.path.to_string()).collect(),
            links: Vec::new(),
            tool_ops: trace.count,
            deltas: if is_exact { least } else { DeltaCounts::default() },
        };
        // Rules that come after the deltas wait until those are known.
        let rules = is_exact.then_some(&self.agent.paths);
        let limit_bytes = self.agent.disk_bytes;
        let seen_bytes = changed.iter().fold(0_u64, |sum, change| sum.saturating_add(change.size_bytes));
        let (ending, diff) = match admit(&judged, &item.bounds(), rules, None) {
            Err(denial) => {
                let files = changed.len();
                let diff =
                    format!("# {files} changed files, {seen_bytes} bytes: left out, they were not read\n");
                (denial.into_ending(), diff)
            }
            Ok(()) if seen_bytes > limit_bytes => {
                let cut = Cut::Disk { limit_bytes, seen_bytes };
                (Ending::over_sandbox_limit(&cut), String::new())
            }
            Ok(()) => return Ok(()),
        };
        let admission = Admission {
            admitted: false,
            reason: Text::new(ending.reason()),
            files_touched: count(changed.len() as u64),
            tool_ops: count(trace.count),
            delta_size: count(least.size()),
            run_hash: None,
        };
        let change = ChangeReport { counts: least, diff, ..ChangeReport::default() };
        Err(ReadingStop::Ended(Box::new(Unread { ending, change, admission: Some(admission) })))
    }
}

impl FrozenChange {
    /// The change, if it is exactly the one that was made: nothing of it was hidden, ignored or left out.
    pub(super) fn checked_against(self, made: &ExistingChange) -> Result<Self, Box<Unread>> {
        let wanted = made.changes.iter().map(|change| (&change.path, &change.after));
        let found = self.own.iter().map(|change| (&change.path, &change.after));
        if wanted.clone().eq(found.clone()) {
            return Ok(self);
        }
        let missing = wanted.clone().find(|one| !found.clone().any(|other| other == *one));
        let other = missing.or_else(|| found.clone().find(|one| !wanted.clone().any(|other| other == *one)));
        let path = other.map_or_else(String::new, |(path, _)| format!(": `{path}`"));
        let why =
            format!("the change cannot be applied as it was, since files are ignored or hidden now{path}");
        Err(Box::new(Ending::Failed(why).into()))
    }
}

/// Why reading goes no further.
enum ReadingStop {
    /// The time has expired, or someone ended the run.
    Stopped,
    Ended(Box<Unread>),
}

fn unreadable(error: &dyn std::error::Error) -> ReadingStop {
    let why = with_causes(error);
    Ending::Failed(format!("what the agent changed could not be read: {why}")).into()
}

impl From<Ending> for ReadingStop {
    fn from(ending: Ending) -> Self {
        ReadingStop::Ended(Box::new(ending.into()))
    }
}

impl From<CaptureError> for ReadingStop {
    fn from(error: CaptureError) -> Self {
        match error {
            CaptureError::Stopped => ReadingStop::Stopped,
            CaptureError::Unwanted(UnwantedChange::Secret(reason)) => Ending::SecretFound(reason).into(),
            CaptureError::Refused(_)
            | CaptureError::Denied(_)
            | CaptureError::Unwanted(UnwantedChange::Hidden(_))
            | CaptureError::TooMany { .. } => Ending::Denied(error.to_string()).into(),
            error => unreadable(&error),
        }
    }
}

impl From<DeltaError> for ReadingStop {
    fn from(error: DeltaError) -> Self {
        match error {
            DeltaError::Stopped => ReadingStop::Stopped,
            error => unreadable(&error),
        }
    }
}

/// The deltas that there are at least, and whether there are no more.
fn deltas_of(changed: &[Surveyed], class_of: &dyn Fn(&str) -> DeltaClass) -> (DeltaCounts, bool) {
    let mut least = DeltaCounts::default();
    for change in changed {
        least.add(class_of(change.path.as_str()), change.deltas.unwrap_or(1));
    }
    (least, changed.iter().all(|change| change.deltas.is_some()))
}

fn seen(view: &View, touched: Vec<crealeph_sandbox::ViewChange>) -> ViewChanges {
    let (gone, present): (Vec<_>, Vec<_>) =
        touched.into_iter().partition(|change| change.kind == ViewChangeKind::Deleted);
    let list = |changes: Vec<crealeph_sandbox::ViewChange>| {
        changes.into_iter().map(|change| change.path).collect::<Vec<_>>()
    };
    ViewChanges { folder: view.content(Path::new("")), gone: list(gone), present: list(present) }
}

/// Gives an ordinary user back the right to read what an agent took it from. Which bits a state knows does not change.
fn make_readable(view: &View, changes: &[crealeph_sandbox::ViewChange]) {
    for change in changes.iter().filter(|change| change.kind != ViewChangeKind::Deleted) {
        let (mode, needed) = match change.entry {
            ViewEntry::File { mode, .. } => (mode, 0o400),
            ViewEntry::Directory { mode } => (mode, 0o700),
            ViewEntry::Symlink { .. } | ViewEntry::Special { .. } => continue,
        };
        if mode & needed != needed {
            // What cannot be read is an error when it is read.
            let readable = std::fs::Permissions::from_mode(mode | needed);
            let _ = std::fs::set_permissions(view.content(&change.path), readable);
        }
    }
}
