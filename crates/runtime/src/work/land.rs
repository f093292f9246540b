//! From a tested run to a landed change (R30): applied to the current state, tested again if something was merged since, then
//! published, held, or committed to a branch. A run that gets this far and cannot land is rolled back completely.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::ItemId;
use crealeph_contracts::text::with_causes;
use crealeph_decision::work::{Ending, base_conflict, combined, level_conflict};
use crealeph_workspace::{
    Added, Capsule, CaptureError, Change, HeldId, Hidden, KeepError, Prepared, PublishError, State,
    StoreError, TreeNode, TreePath, ViewChanges, WorkspaceSnapshot,
};
use tracing::info_span;

use super::branch::Branch;
use super::error::{Stop, WorkError, unpublished};
use super::hidden::HiddenPaths;
use super::hold::HeldRun;
use super::journal::{Event, HeldBranch, PublishTarget};
use super::record::{Landing, RunWriter};
use super::result::ItemResult;
use super::run::ItemRunner;
use super::stage::{EndedRun, RunBase, RunEvidence, TestedRun, UnlandedChange, changes, edits};
use super::subject;
use crate::approvals::ChangeLanding;

/// How often a state that moves while a change lands is read again.
const MAX_MOVES: usize = 5;

/// Where successful changes go.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Into the workspace.
    Tree,
    /// Onto a branch; the working tree stays as it is.
    Branch(Box<Branch>),
}

impl Delivery {
    /// The branch, as a change is kept with it that did not land.
    pub(super) fn kept_branch(&self) -> Option<HeldBranch> {
        match self {
            Delivery::Tree => None,
            Delivery::Branch(branch) => Some(branch.at_start()),
        }
    }
}

/// What has landed so far, for the items that come after.
#[derive(Debug)]
pub(super) struct Landed {
    /// Whether changes are held for approval instead.
    pub(super) is_held: bool,
    /// Changes that came before and are not in the workspace.
    pub(super) accumulated: Vec<Change>,
    /// Which item of the level changed a path.
    pub(super) touched: BTreeMap<TreePath, ItemId>,
}

impl Landed {
    fn touch(&mut self, item: &ItemId, changes: Vec<Change>) {
        self.touched.extend(changes.into_iter().map(|change| (change.path, item.clone())));
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub(super) enum Concluded {
    Finished(Box<ItemResult>),
    Held(HeldRun),
}

/// A run on its way to land. Its evidence grows by tests that are run again; what was put into the store for it is rolled back if
/// it does not land.
pub(super) struct LandingRun<'l> {
    pub(super) writer: RunWriter<'l>,
    pub(super) runner: ItemRunner<'l>,
    pub(super) evidence: RunEvidence,
    /// The change itself, if it does not land.
    unlanded: UnlandedChange,
    added: Added,
    /// The landing that people approved, which is written right before the change is published.
    approved: Option<ChangeLanding>,
}

/// A change that is ready on the state as it is now.
pub(super) struct ReadyChange {
    snapshot: WorkspaceSnapshot,
    pub(super) capsule: Capsule,
}

impl ReadyChange {
    /// What lands when it is published.
    pub(super) fn landing(&self, prepared: &Prepared<'_>) -> TreeLanding {
        TreeLanding::of(self.snapshot.state(), &self.capsule, prepared)
    }
}

/// A change that is prepared to land in the workspace: only such a change can be held.
#[derive(Debug)]
pub(super) struct TreeLanding {
    pub(super) before: Blake3,
    pub(super) after: Blake3,
    pub(super) changes: Vec<Change>,
    pub(super) publish: HeldId,
}

impl TreeLanding {
    fn of(before: &State, capsule: &Capsule, prepared: &Prepared<'_>) -> Self {
        TreeLanding {
            before: before.hash().digest(),
            after: capsule.after().hash().digest(),
            changes: capsule.changes().to_vec(),
            publish: prepared.id(),
        }
    }
}

impl From<TreeLanding> for Landing {
    fn from(landing: TreeLanding) -> Self {
        let TreeLanding { before, after, changes, publish } = landing;
        Landing { before, after, changes, commit: None, publish: PublishTarget::Tree(publish) }
    }
}

/// A change that goes to a branch.
pub(super) struct BranchChange<'b> {
    pub(super) branch: &'b mut Branch,
    /// The workspace's state.
    pub(super) state: &'b State,
    /// What the branch has beyond it.
    pub(super) accumulated: &'b [Change],
    /// What is to be committed.
    pub(super) own: &'b [Change],
    /// Where its contents are, unless the store has them.
    pub(super) capsule: Option<&'b Capsule>,
}

impl<'l> LandingRun<'l> {
    pub(super) fn new(
        writer: RunWriter<'l>,
        runner: ItemRunner<'l>,
        evidence: RunEvidence,
        unlanded: UnlandedChange,
    ) -> Self {
        LandingRun { writer, runner, evidence, unlanded, added: Added::default(), approved: None }
    }

    /// The same of a change that people approved.
    pub(super) fn approved(self, landing: ChangeLanding) -> Self {
        LandingRun { approved: Some(landing), ..self }
    }

    /// Whether a rule in force asks for approval, although no one held the change.
    fn needs_approval(&self, changes: &[Change]) -> Result<bool, WorkError> {
        subject::needs_approval(self.writer.work, &self.evidence, changes, self.runner.agent)
    }

    /// Writes the landing of a change that people approved, if their verdicts still count. Its outcome is settled with the
    /// journal, also after a crash.
    fn record_landing(&self) -> Result<(), WorkError> {
        let Some(landing) = &self.approved else { return Ok(()) };
        let (run, number) = (self.evidence.identity.id, landing.number);
        self.writer.runs.add(Event::Landing { run, number })?;
        landing.append(&self.writer.work.ledger, &self.writer.work.tenant)?;
        Ok(())
    }

    /// Writes the outcome of a run: it lands, is held, or leaves nothing.
    pub(super) fn conclude(
        writer: RunWriter<'l>,
        runner: ItemRunner<'l>,
        run: Result<TestedRun, Box<EndedRun>>,
        base: RunBase<'_>,
        delivery: &mut Delivery,
        landed: &mut Landed,
    ) -> Result<Concluded, WorkError> {
        let run = match run {
            Ok(run) if runner.interrupt.is_used() => Err(Box::new(EndedRun {
                evidence: run.evidence,
                ending: Ending::Interrupted,
                unlanded: None,
            })),
            run => run,
        };
        match run {
            Err(ended) => {
                let result = writer.close(&ended.evidence, &ended.ending, ended.unlanded.as_ref())?;
                Ok(Concluded::Finished(Box::new(result)))
            }
            Ok(TestedRun { evidence, capsule, own, view }) => {
                let unlanded = UnlandedChange::new(own.clone(), capsule.clone(), view);
                let mut landing = LandingRun::new(writer, runner, evidence, unlanded);
                let concluded = match delivery {
                    _ if own.is_empty() => landing.land_unchanged(base),
                    Delivery::Tree => landing.land_in_tree(capsule, landed),
                    Delivery::Branch(branch) => landing.land_on_branch(branch, &capsule, own, base, landed),
                };
                landing.or_give_up(concluded)
            }
        }
    }

    /// Its outcome, if it landed or is held; else it is rolled back and its receipt says why.
    fn or_give_up(mut self, concluded: Result<Concluded, Stop>) -> Result<Concluded, WorkError> {
        match concluded.map_err(Stop::for_receipt) {
            Ok(concluded) => Ok(concluded),
            Err(Stop::Error(error)) => Err(*error),
            Err(Stop::Ended(ending)) => Ok(Concluded::Finished(Box::new(self.give_up(&ending)?))),
        }
    }

    /// Leaves nothing in the store of a run that does not land, and writes its receipt.
    pub(super) fn give_up(&mut self, ending: &Ending) -> Result<ItemResult, WorkError> {
        let result = self.writer.close(&self.evidence, ending, Some(&self.unlanded))?;
        self.take_back();
        Ok(result)
    }

    /// Removes what was put into the store for a change that does not land now.
    pub(super) fn take_back(&mut self) {
        // What cannot be removed now is removed by `work clean`.
        let _ = self.writer.work.workspace.take_back(std::mem::take(&mut self.added));
    }

    /// A run that changed nothing has succeeded, and there is nothing to publish, hold or commit.
    fn land_unchanged(&mut self, base: RunBase<'_>) -> Result<Concluded, Stop> {
        let nothing = Capsule::of_changes(base.snapshot.state(), Vec::new());
        let nothing = nothing.map_err(|error| Ending::Failed(error.to_string()))?;
        let ready = self.ready(nothing, &BTreeMap::new())?;
        self.evidence.identity.before = ready.snapshot.state().hash().digest();
        Ok(Concluded::Finished(Box::new(self.writer.finish_unchanged(&self.evidence)?)))
    }

    fn land_in_tree(&mut self, capsule: Capsule, landed: &mut Landed) -> Result<Concluded, Stop> {
        let ready = self.ready(capsule, &landed.touched)?;
        let prepared = self.prepare(&ready.capsule)?;
        let landing = ready.landing(&prepared);
        if landed.is_held || self.needs_approval(&landing.changes)? {
            prepared.hold()?;
            let held = self.writer.hold(&self.evidence, landing, None, self.runner.agent)?;
            return Ok(Concluded::Held(held));
        }
        let landing = Landing::from(landing);
        let result = self.publish(&landing, prepared)?;
        landed.touch(&self.evidence.identity.item.id, landing.changes);
        Ok(Concluded::Finished(Box::new(result)))
    }

    /// The change on the state as it is now: without conflict, tested on it, and that state kept.
    pub(super) fn ready(
        &mut self,
        mut capsule: Capsule,
        touched: &BTreeMap<TreePath, ItemId>,
    ) -> Result<ReadyChange, Stop> {
        let mut tested_on = self.evidence.identity.before;
        for _ in 0..MAX_MOVES {
            let snapshot = self.writer.work.workspace.snapshot()?;
            let now = snapshot.state().hash().digest();
            if now != tested_on {
                check_conflict(capsule.changes(), &snapshot, touched)?;
                capsule = self.captured_again(&capsule, &snapshot)?;
                self.test_again(capsule.changes())?;
                tested_on = now;
                continue;
            }
            match self.keep_states(Some(&capsule), snapshot.state(), capsule.after()) {
                Ok(()) => return Ok(ReadyChange { snapshot, capsule }),
                // Someone saved a file at this very moment.
                Err(KeepError::Store(StoreError::Changed(_) | StoreError::Source { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let why = format!(
            "the workspace changed {MAX_MOVES} times while the change was being committed; run again"
        );
        Err(Ending::conflict(&why).into())
    }

    /// Runs the tests on the merged state; what they printed takes the place of what they printed before.
    pub(super) fn test_again(&mut self, changes: &[Change]) -> Result<(), Stop> {
        let (report, ended) = match self.runner.run_tests(&self.evidence.identity.item, changes) {
            Ok(report) => (report, Ok(())),
            Err(failed) => (failed.report, Err(failed.ending.on_merged_state())),
        };
        if report.is_some() {
            self.evidence.tests = report;
        }
        Ok(ended?)
    }

    /// The same change, seen from another state.
    fn captured_again(&self, capsule: &Capsule, snapshot: &WorkspaceSnapshot) -> Result<Capsule, Ending> {
        let failed = |error: &dyn std::error::Error| {
            let why = with_causes(error);
            Ending::Failed(format!("the change could not be applied to the workspace as it is now: {why}"))
        };
        let (workspace, scratch) = (&self.writer.work.workspace, &self.runner.scratch);
        let changes = capsule.changes();
        let there = changes.iter().filter_map(|change| Some((&change.path, change.after.as_ref()?)));
        workspace.lay_out(there, scratch).map_err(|error| failed(&error))?;
        let path = |change: &Change| PathBuf::from(change.path.as_str());
        let seen = ViewChanges {
            folder: scratch.clone(),
            gone: changes.iter().filter(|change| change.after.is_none()).map(path).collect(),
            present: changes.iter().filter(|change| change.after.is_some()).map(path).collect(),
        };
        let captured = workspace.capture_again(capsule, snapshot, &seen).map_err(|error| match error {
            CaptureError::Denied(denied) => Ending::Denied(denied.to_string()),
            error => failed(&error),
        });
        // What stays is removed when the runs are swept.
        let _ = std::fs::remove_dir_all(scratch);
        captured
    }

    /// Puts a change's contents and the states before and after it into the store.
    fn keep_states(
        &mut self,
        capsule: Option<&Capsule>,
        before: &State,
        after: &State,
    ) -> Result<(), KeepError> {
        let (workspace, hide) = (&self.writer.work.workspace, &self.runner.agent.hide);
        let touched = capsule.map_or(&[][..], Capsule::changes);
        let found = HiddenPaths::find(workspace, hide, self.runner.private, touched).ok();
        // What the run itself changes is in its diff, and a replay needs it.
        let is_touched =
            |path: &str| TreePath::parse(path).is_ok_and(|path| before.get(&path) != after.get(&path));
        let covers = |path: &str| hide.covering(path).is_some() && !is_touched(path);
        let known = found.as_ref().filter(|found| !found.is_shown_and(is_touched));
        let hidden = Hidden { covers: &covers, known: known.map(|known| known.withheld.as_slice()) };
        if let Some(capsule) = capsule {
            self.added.extend(workspace.keep_contents(capsule)?);
        }
        self.added.extend(workspace.keep_hiding(before, hidden)?);
        self.added.extend(workspace.keep_after(before, after, hidden)?);
        Ok(())
    }

    /// Puts contents into the store that a change leaves and that only git or the workspace has: what it restored.
    fn keep_copies(&self, own: &[Change]) -> Result<(), StoreError> {
        let store = self.writer.work.workspace.store();
        for change in own {
            if let Some(TreeNode::File { digest, size_bytes, .. }) = &change.after {
                store.copy(digest, *size_bytes)?;
            }
        }
        Ok(())
    }

    /// Stages a change for its publish.
    pub(super) fn prepare(&self, capsule: &Capsule) -> Result<Prepared<'l>, Stop> {
        let workspace: &'l crealeph_workspace::Workspace = &self.writer.work.workspace;
        workspace.prepare(capsule).map_err(|error| Stop::Ended(unpublished(&error)))
    }

    /// Lands a change in the workspace.
    pub(super) fn publish(&self, landing: &Landing, prepared: Prepared<'_>) -> Result<ItemResult, Stop> {
        let _span = info_span!("publish", run = %self.evidence.identity.id).entered();
        let publish = || {
            self.record_landing()?;
            Ok(prepared.publish().map(drop)?)
        };
        self.writer.land(&self.evidence, landing, publish).map_err(|error| match error {
            WorkError::Publish(error) if !matches!(error, PublishError::Unsettled { .. }) => {
                Stop::Ended(unpublished(&error))
            }
            error => error.into(),
        })
    }

    fn land_on_branch(
        &mut self,
        branch: &mut Branch,
        capsule: &Capsule,
        own: Vec<Change>,
        base: RunBase<'_>,
        landed: &mut Landed,
    ) -> Result<Concluded, Stop> {
        let item = self.evidence.identity.item.id.clone();
        if let Some(conflict) = level_conflict(&edits(&own), &landed.touched) {
            return Err(conflict.into());
        }
        let all = changes(combined(&edits(&landed.accumulated), &edits(&own)));
        if !landed.touched.is_empty() {
            self.test_again(&all)?;
        }
        let is_held = landed.is_held || self.needs_approval(&own)?;
        if is_held {
            if !landed.accumulated.is_empty() {
                let why = "the branch has commits that the workspace has not, and a change on top of them cannot be held; check them out, or publish it at once";
                return Err(Ending::Failed(why.to_owned()).into());
            }
            return self.hold_for_branch(branch, base, capsule).map_err(Stop::for_branch);
        }
        let change = BranchChange {
            branch,
            state: base.snapshot.state(),
            accumulated: &landed.accumulated,
            own: &own,
            capsule: Some(capsule),
        };
        let result = self.commit(change).map_err(Stop::for_branch)?;
        landed.accumulated = all;
        landed.touch(&item, own);
        Ok(Concluded::Finished(Box::new(result)))
    }

    /// Keeps a change durably that is to go to a branch. Nothing of the same batch has landed there before it.
    fn hold_for_branch(
        &mut self,
        branch: &Branch,
        base: RunBase<'_>,
        capsule: &Capsule,
    ) -> Result<Concluded, Stop> {
        let before = base.snapshot.state();
        self.keep_states(Some(capsule), before, capsule.after()).map_err(not_kept)?;
        branch.check_committed(self.writer.work, capsule.changes())?;
        let prepared = self.prepare(capsule)?;
        let landing = TreeLanding::of(before, capsule, &prepared);
        prepared.hold()?;
        let held = self.writer.hold(&self.evidence, landing, Some(branch.held()), self.runner.agent)?;
        Ok(Concluded::Held(held))
    }

    /// Keeps the states before and after, makes the commit, writes the outcome and moves the branch.
    pub(super) fn commit(&mut self, change: BranchChange<'_>) -> Result<ItemResult, Stop> {
        let BranchChange { branch, state, accumulated, own, capsule } = change;
        let capsule_of = |changes: Vec<Change>| {
            Capsule::of_changes(state, changes).map_err(|error| Ending::Failed(error.to_string()))
        };
        let before = capsule_of(accumulated.to_vec())?;
        let after = capsule_of(changes(combined(&edits(accumulated), &edits(own))))?;
        self.writer.work.check_publishable(after.changes(), after.after())?;
        self.keep_states(capsule, before.after(), after.after()).map_err(not_kept)?;
        self.keep_copies(own).map_err(|error| not_kept(error.into()))?;
        let commit = branch.commit(self.writer.work, &self.evidence.identity, own)?;
        let landing = Landing {
            before: before.after().hash().digest(),
            after: after.after().hash().digest(),
            changes: own.to_vec(),
            commit: Some((branch.name.clone(), commit.clone())),
            publish: PublishTarget::Branch { name: branch.name.clone(), commit: commit.as_str().to_owned() },
        };
        let advance = || {
            self.record_landing()?;
            branch.advance(&commit)
        };
        let landed = self.writer.land(&self.evidence, &landing, advance);
        landed.map_err(|error| match error {
            error @ WorkError::Git { .. } => Stop::Ended(Ending::conflict(&error)),
            error => error.into(),
        })
    }
}

/// Refuses a change whose paths were changed since.
pub(super) fn check_conflict(
    changes: &[Change],
    snapshot: &WorkspaceSnapshot,
    touched: &BTreeMap<TreePath, ItemId>,
) -> Result<(), Stop> {
    let edits = edits(changes);
    let now = |path: &TreePath| snapshot.state().get(path);
    let conflict =
        level_conflict(&edits, touched).or_else(|| base_conflict(&edits, now, |path| snapshot.ignores(path)));
    match conflict {
        Some(conflict) => Err(conflict.into()),
        None => Ok(()),
    }
}

/// A content that someone changed meanwhile is a conflict; anything else is an error.
fn not_kept(error: KeepError) -> Stop {
    match error {
        KeepError::Store(error) => Ending::conflict(&error).into(),
        error => error.into(),
    }
}
