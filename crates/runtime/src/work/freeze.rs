//! Reading what an agent left, within the bounds of its run. Owns the order: list the paths, judge by what needs no content,
//! and only then read, hash and compare, until the run's time is over. Copies nothing: contents stay in the view until the
//! change lands.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crealeph_contracts::WorkItem;
use crealeph_contracts::attestation::Admission;
use crealeph_contracts::scalar::{Count, Text};
use crealeph_decision::work::{self, DeltaClass, admit};
use crealeph_sandbox::{ChangeKind, Cut, Entry, SandboxError, View};
use crealeph_workspace::{
    Arrival, Capsule, CaptureError, Change, Deadline, DeltaError, Listing, Surveyed, TreePath, ViewChanges,
};

use super::config::Hide;
use super::paths;
use super::run::{Base, Ending, Ran, Room, Step};
use crate::agents::process::with_causes;

/// How much of a diff is kept.
const MAX_DIFF_BYTES: usize = 1 << 20;
/// A change within both is read before it is judged, so that a denied one has its diff and its exact figures too.
const ALWAYS_READ_FILES: usize = 2_000;
const ALWAYS_READ_BYTES: u64 = 64 << 20;
/// How long reading may take, although the agent used up the run's time.
const MIN_READING: Duration = Duration::from_secs(10);

impl Room<'_> {
    /// Reads what the view changed into the capsule, its deltas and its diff. `started` is when the run's time began.
    pub(super) fn freeze(
        &self,
        ran: &mut Ran,
        base: &Base<'_>,
        view: &View,
        started: Instant,
    ) -> Result<(), Ending> {
        let end = started.checked_add(Duration::from_millis(ran.item.bounds().timeout_ms));
        let least = Instant::now().checked_add(MIN_READING);
        let end = end.max(least);
        let is_over = || self.interrupt.is_used() || end.is_some_and(|end| Instant::now() > end);
        let deadline = Deadline::when(&is_over);
        let frozen = self.freeze_until(ran, base, view, deadline);
        match frozen {
            Err(Unread::Stopped) if self.interrupt.is_used() => Err(Ending::Interrupted),
            Err(Unread::Stopped) => Err(Ending::TimedOut(format!(
                "Timed out after {} ms (`timeout_ms`) while what the agent changed was read; leave less, or raise it",
                ran.item.bounds().timeout_ms
            ))),
            Err(Unread::Ended(ending)) => Err(ending),
            Ok(()) => Ok(()),
        }
    }

    fn freeze_until(
        &self,
        ran: &mut Ran,
        base: &Base<'_>,
        view: &View,
        deadline: Deadline<'_>,
    ) -> Result<(), Unread> {
        let touched = view.touched(&|| deadline.is_over()).map_err(|error| match error {
            _ if deadline.is_over() => Unread::Stopped,
            SandboxError::ViewBound { what, .. } => {
                Unread::Ended(Ending::Denied(format!("Exceeded a limit of the sandbox: {what}")))
            }
            error => unreadable(&error),
        })?;
        make_readable(view, &touched);
        let mut listing = self.workspace.list(base.snapshot, &seen(view, touched), deadline)?;
        ran.discarded.clone_from(&listing.discarded().outside);
        let (files, bytes) = listing.extent();
        if files > ALWAYS_READ_FILES || bytes > ALWAYS_READ_BYTES.min(self.agent.disk_bytes) {
            self.judge_unread(ran, base, &mut listing)?;
        }
        let inspect = |arrival: Arrival<'_>| self.guarded.inspect(self.agent, arrival);
        let capsule = listing.freeze_inspected(&inspect)?;
        let own = own_changes(&capsule, base, &self.agent.hide);
        (self.told)(Step::Judging { files: own.len() });
        let deltas = self.workspace.deltas(&own, deadline)?;
        let item = ran.item.clone();
        for delta in deltas.listed {
            let class = self.class_of(&item, delta.path.as_str());
            ran.delta_counts.add(class, 1);
            let list = match class {
                DeltaClass::Laws => &mut ran.deltas.laws,
                DeltaClass::Invariants => &mut ran.deltas.invariants,
                DeltaClass::Projections => &mut ran.deltas.projections,
                DeltaClass::Others => &mut ran.deltas.others,
            };
            list.push(delta);
        }
        for (path, count) in deltas.unlisted {
            ran.delta_counts.add(self.class_of(&item, path.as_str()), count);
        }
        ran.diff = self.workspace.unified(&own, MAX_DIFF_BYTES, deadline)?;
        ran.capsule = Some(capsule);
        Ok(())
    }

    /// The class of a change. What the tests look at because the item is to write it is no test.
    fn class_of(&self, item: &WorkItem, path: &str) -> DeltaClass {
        let mut outputs = paths::relative(item.output_files.as_ref(), self.workspace.path());
        let is_output = outputs.any(|output| output.is_ok_and(|output| output == path));
        self.agent.paths.class_of(path, item.test_command.as_deref().filter(|_| !is_output))
    }

    /// Denies a large change by what is known of it without its contents: how many files, where, how long. The order of
    /// reasons is admission's.
    fn judge_unread(&self, ran: &mut Ran, base: &Base<'_>, listing: &mut Listing<'_>) -> Result<(), Unread> {
        let changed = listing.survey(base.changes)?;
        (self.told)(Step::Judging { files: changed.len() });
        let (least, is_exact) = deltas_of(&changed, &|path| self.class_of(&ran.item, path));
        let judged = work::Capsule {
            paths: changed.iter().map(|change| change.path.to_string()).collect(),
            links: Vec::new(),
            tool_ops: ran.trace.count,
            deltas: if is_exact { least } else { work::Deltas::default() },
        };
        // Rules that come after the deltas wait until those are known.
        let rules = is_exact.then_some(&self.agent.paths);
        let denied = admit(&judged, &ran.item.bounds(), rules, None).err();
        let limit_bytes = self.agent.disk_bytes;
        let seen_bytes = changed.iter().fold(0_u64, |sum, change| sum.saturating_add(change.size_bytes));
        let reason = match denied {
            Some(denial) => {
                let files = changed.len();
                ran.diff =
                    format!("# {files} changed files, {seen_bytes} bytes: left out, they were not read\n");
                denial.reason().to_owned()
            }
            None if seen_bytes > limit_bytes => {
                format!("Exceeded a limit of the sandbox: {}", Cut::Disk { limit_bytes, seen_bytes })
            }
            None => return Ok(()),
        };
        let count = |number: u64| Count::new(number).unwrap_or(Count::ZERO);
        ran.delta_counts = least;
        ran.admission = Some(Admission {
            admitted: false,
            reason: Text::new(&reason),
            files_touched: count(changed.len() as u64),
            tool_ops: count(ran.trace.count),
            delta_size: count(least.size()),
            run_hash: None,
        });
        Err(Unread::Ended(Ending::Denied(reason)))
    }
}

/// Why there is no capsule.
enum Unread {
    /// The time is over, or somebody ended the run.
    Stopped,
    Ended(Ending),
}

fn unreadable(error: &dyn std::error::Error) -> Unread {
    let why = with_causes(error);
    Unread::Ended(Ending::Failed(format!("what the agent changed could not be read: {why}")))
}

impl From<CaptureError> for Unread {
    fn from(error: CaptureError) -> Self {
        match error {
            CaptureError::Stopped => Unread::Stopped,
            CaptureError::Refused(_)
            | CaptureError::Denied(_)
            | CaptureError::Unwanted(_)
            | CaptureError::TooMany { .. } => Unread::Ended(Ending::Denied(error.to_string())),
            error => unreadable(&error),
        }
    }
}

impl From<DeltaError> for Unread {
    fn from(error: DeltaError) -> Self {
        match error {
            DeltaError::Stopped => Unread::Stopped,
            error => unreadable(&error),
        }
    }
}

/// The deltas that there are at least, and whether there are no more.
fn deltas_of(changed: &[Surveyed], class_of: &dyn Fn(&str) -> DeltaClass) -> (work::Deltas, bool) {
    let mut least = work::Deltas::default();
    for change in changed {
        least.add(class_of(change.path.as_str()), change.deltas.unwrap_or(1));
    }
    (least, changed.iter().all(|change| change.deltas.is_some()))
}

fn seen(view: &View, touched: Vec<crealeph_sandbox::Change>) -> ViewChanges {
    let (gone, present): (Vec<_>, Vec<_>) =
        touched.into_iter().partition(|change| change.kind == ChangeKind::Deleted);
    let list = |changes: Vec<crealeph_sandbox::Change>| {
        changes.into_iter().map(|change| change.path).collect::<Vec<_>>()
    };
    ViewChanges { folder: view.content(Path::new("")), gone: list(gone), present: list(present) }
}

/// What an item changed itself, beyond what came before it.
pub(super) fn own_changes(capsule: &Capsule, base: &Base<'_>, hide: &Hide) -> Vec<Change> {
    let earlier: BTreeMap<&TreePath, &Change> =
        base.changes.iter().map(|change| (&change.path, change)).collect();
    let changes = capsule.changes().iter().filter_map(|change| match earlier.get(&change.path) {
        None => Some(change.clone()),
        Some(known) => {
            (known.after != change.after).then(|| Change { before: known.after.clone(), ..change.clone() })
        }
    });
    // What came before and is as it was in the workspace again was undone by this run, unless it was hidden from it.
    let now: BTreeSet<&TreePath> = capsule.changes().iter().map(|change| &change.path).collect();
    let undone = base.changes.iter().filter(|known| {
        !now.contains(&known.path)
            && known.before != known.after
            && hide.covering(known.path.as_str()).is_none()
    });
    let undone = undone.map(|known| Change {
        path: known.path.clone(),
        before: known.after.clone(),
        after: known.before.clone(),
    });
    let mut own: Vec<Change> = changes.chain(undone).collect();
    own.sort_by(|one, other| one.path.cmp(&other.path));
    own
}

/// Gives an ordinary user back the right to read what an agent took it from. Which bits a state knows does not change.
fn make_readable(view: &View, changes: &[crealeph_sandbox::Change]) {
    for change in changes.iter().filter(|change| change.kind != ChangeKind::Deleted) {
        let (mode, needed) = match change.entry {
            Entry::File { mode, .. } => (mode, 0o400),
            Entry::Directory { mode } => (mode, 0o700),
            Entry::Symlink { .. } | Entry::Special { .. } => continue,
        };
        if mode & needed != needed {
            // What cannot be read is told when it is read.
            let readable = std::fs::Permissions::from_mode(mode | needed);
            let _ = std::fs::set_permissions(view.content(&change.path), readable);
        }
    }
}
