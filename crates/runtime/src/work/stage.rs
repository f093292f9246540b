//! The stages of a run, each made from the one before it: planned, worked, admitted, tested; then it lands, is held, or has ended.
//! Owns what is known at each stage, and the evidence for the receipt. No stage can be skipped, and none has a field that
//! is filled in later.

use std::time::Instant;

use crealeph_contracts::WorkItem;
use crealeph_contracts::attestation::{Admission, SandboxFacts, StatedBounds};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::provenance::{HiddenFacts, RunOrigin, StatedVerdict};
use crealeph_contracts::receipt::{Connection, EarlierRun, SandboxStrength};
use crealeph_contracts::scalar::RobotId;
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::work::{DeltaCounts, Ending, PathEdit};
use crealeph_sandbox::View;
use crealeph_workspace::{Capsule, Change, TreeNode, TreePath, WorkspaceSnapshot};

use super::config::WorkAgent;
use super::journal::HeldBranch;
use super::pack::PackedChange;
use super::receipt::DeltaLists;
use super::tasks::TaskOrigin;
use super::tests_run::TestReport;
use super::trace::Trace;

/// What a run starts from.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunBase<'b> {
    pub(super) snapshot: &'b WorkspaceSnapshot,
    /// Changes that are not in the workspace itself but come before this run: those on a branch.
    pub(super) changes: &'b [Change],
}

/// Which run it is.
#[derive(Clone, Debug)]
pub(super) struct RunIdentity {
    pub(super) id: Uuid,
    pub(super) item: WorkItem,
    pub(super) batch: Blake3,
    pub(super) bounds: StatedBounds,
    /// The state that it starts from.
    pub(super) before: Blake3,
    /// The agent's program, and who started it; absent if an older version held it.
    pub(super) origin: Option<RunOrigin>,
    pub(super) request: RunRequest,
}

/// How a run was requested, in addition to its item.
#[derive(Clone, Debug)]
pub(super) struct RunRequest {
    /// The agent's name in the configuration.
    pub(super) agent: String,
    /// The branch that the change goes to, as it was when the batch started.
    pub(super) branch: Option<HeldBranch>,
    /// Whether the change is held for approval.
    pub(super) is_held: bool,
    /// The robot that it is bound to.
    pub(super) robot: Option<RobotId>,
    /// The task that its item came from, if it is one.
    pub(super) task: Option<TaskOrigin>,
    /// The run that this one is based on.
    pub(super) earlier: Option<EarlierRun>,
}

/// Where the change of a run comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeSource<'c> {
    /// The agent is called.
    Agent,
    /// It already exists.
    Existing(&'c ExistingChange),
}

/// A change that was made before its run.
#[derive(Debug)]
pub(super) struct ExistingChange {
    /// Sorted by path.
    pub(super) changes: Vec<Change>,
    pub(super) contents: ChangeContents,
    /// What is known of the agent that made it.
    pub(super) agent: AgentReport,
    pub(super) origin: RunOrigin,
}

/// Where the contents of a change are.
#[derive(Debug)]
pub(super) enum ChangeContents {
    /// In the store, or staged in a view.
    Stored,
    Packed(Box<PackedChange>),
}

/// When a run took place.
#[derive(Clone, Debug)]
pub(super) struct RunTimes {
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Timestamp,
    pub(super) execution_ms: f64,
}

/// What an agent's process left behind.
#[derive(Clone, Debug)]
pub(super) struct AgentReport {
    pub(super) trace: Trace,
    pub(super) strength: SandboxStrength,
    /// What held the agent; absent if it was never started.
    pub(super) sandbox: Option<SandboxFacts>,
    /// What it could not see; absent if it was never started.
    pub(super) hidden: Option<HiddenFacts>,
    pub(super) connections: Vec<Connection>,
    /// How many more there were.
    pub(super) connections_left_off: u64,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl AgentReport {
    /// Of an agent that was never started.
    pub(super) fn not_started(agent: &WorkAgent) -> Self {
        let strength = match agent.accepts_reduced {
            true => SandboxStrength::Reduced,
            false => SandboxStrength::Full,
        };
        AgentReport { strength, ..AgentReport::of_no_one() }
    }

    /// Of a run without an agent.
    pub(super) fn of_no_one() -> Self {
        AgentReport {
            trace: Trace::default(),
            strength: SandboxStrength::Full,
            sandbox: None,
            hidden: None,
            connections: Vec::new(),
            connections_left_off: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
        }
    }
}

/// What is recorded of a change, whether it lands or not.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeReport {
    /// How many files changed, if that is known.
    pub(super) files: Option<usize>,
    pub(super) deltas: DeltaLists,
    /// How many deltas there are of each class, also of those that are not listed.
    pub(super) counts: DeltaCounts,
    pub(super) diff: String,
}

/// A run that is about to start.
#[derive(Debug)]
pub(super) struct PlannedRun<'b> {
    pub(super) identity: RunIdentity,
    pub(super) base: RunBase<'b>,
    started_at: Timestamp,
    clock: Instant,
}

impl<'b> PlannedRun<'b> {
    pub(super) fn new(identity: RunIdentity, base: RunBase<'b>) -> Self {
        PlannedRun { identity, base, started_at: super::now(), clock: Instant::now() }
    }

    /// When its time began.
    pub(super) fn clock(&self) -> Instant {
        self.clock
    }

    /// What is known of the run if it has ended now.
    pub(super) fn into_evidence(self, agent: AgentReport, change: ChangeReport) -> RunEvidence {
        let times = RunTimes {
            started_at: self.started_at,
            finished_at: super::now(),
            execution_ms: self.clock.elapsed().as_secs_f64() * 1000.0,
        };
        RunEvidence {
            identity: self.identity,
            times,
            agent,
            change,
            admission: None,
            tests: None,
            verdicts: Vec::new(),
        }
    }
}

/// A run whose agent has ended well, with what it really changed.
#[derive(Debug)]
pub(super) struct WorkedRun<'b> {
    pub(super) planned: PlannedRun<'b>,
    pub(super) agent: AgentReport,
    pub(super) frozen: FrozenChange,
    /// Where the contents of the change are until it lands.
    pub(super) view: View,
}

/// A change as it was read from a view.
#[derive(Debug)]
pub(super) struct FrozenChange {
    pub(super) capsule: Capsule,
    /// What the item changed itself, beyond what came before it.
    pub(super) own: Vec<Change>,
    pub(super) report: ChangeReport,
}

/// A run within all its bounds.
#[derive(Debug)]
pub(super) struct AdmittedRun<'b> {
    pub(super) worked: WorkedRun<'b>,
    pub(super) admission: Admission,
}

/// A run whose tests passed, on the state that it started from.
#[derive(Debug)]
pub(super) struct TestedRun {
    pub(super) evidence: RunEvidence,
    pub(super) capsule: Capsule,
    pub(super) own: Vec<Change>,
    pub(super) view: View,
}

/// A run that has ended and changed nothing.
#[derive(Debug)]
pub(super) struct EndedRun {
    pub(super) evidence: RunEvidence,
    pub(super) ending: Ending,
    /// Its change, if that was read whole.
    pub(super) unlanded: Option<UnlandedChange>,
}

/// A change that was read whole and has not landed. Its contents can be read as long as this lives.
#[derive(Debug)]
pub(super) struct UnlandedChange {
    /// What the item changed itself.
    pub(super) own: Vec<Change>,
    /// What keeps contents that are not in the store.
    _staged: Option<(Capsule, View)>,
}

impl UnlandedChange {
    pub(super) fn new(own: Vec<Change>, capsule: Capsule, view: View) -> Self {
        UnlandedChange { own, _staged: Some((capsule, view)) }
    }

    /// The same of a change whose contents are in the store.
    pub(super) fn stored(own: Vec<Change>) -> Self {
        UnlandedChange { own, _staged: None }
    }
}

/// What a receipt is made from.
#[derive(Clone, Debug)]
pub(super) struct RunEvidence {
    pub(super) identity: RunIdentity,
    pub(super) times: RunTimes,
    pub(super) agent: AgentReport,
    pub(super) change: ChangeReport,
    /// What admission said; absent if it was not asked.
    pub(super) admission: Option<Admission>,
    pub(super) tests: Option<TestReport>,
    /// What people decided about it while it was held.
    pub(super) verdicts: Vec<StatedVerdict>,
}

impl WorkedRun<'_> {
    /// What is known of the run if it has ended now, and its change.
    pub(super) fn into_ended(self) -> (RunEvidence, UnlandedChange) {
        let WorkedRun { planned, agent, frozen, view } = self;
        let FrozenChange { capsule, own, report } = frozen;
        (planned.into_evidence(agent, report), UnlandedChange::new(own, capsule, view))
    }
}

impl TestedRun {
    /// The same of a run whose tests have ended.
    pub(super) fn into_ended(self) -> (RunEvidence, UnlandedChange) {
        let TestedRun { evidence, capsule, own, view } = self;
        (evidence, UnlandedChange::new(own, capsule, view))
    }
}

impl AdmittedRun<'_> {
    /// The run once its tests have passed; `tests` is what they printed, if it has any.
    pub(super) fn tested(self, tests: Option<TestReport>) -> TestedRun {
        let AdmittedRun { worked, admission } = self;
        let WorkedRun { planned, agent, frozen, view } = worked;
        let FrozenChange { capsule, own, report } = frozen;
        let evidence = planned.into_evidence(agent, report);
        let evidence = RunEvidence { admission: Some(admission), tests, ..evidence };
        TestedRun { evidence, capsule, own, view }
    }
}

/// Changes as decisions see them.
pub(super) fn edits(changes: &[Change]) -> Vec<PathEdit<'_, TreePath, TreeNode>> {
    let edits = changes.iter().map(|change| PathEdit {
        path: &change.path,
        before: change.before.as_ref(),
        after: change.after.as_ref(),
    });
    edits.collect()
}

/// The same back.
pub(super) fn changes(edits: Vec<PathEdit<'_, TreePath, TreeNode>>) -> Vec<Change> {
    let change = |edit: PathEdit<'_, TreePath, TreeNode>| Change {
        path: edit.path.clone(),
        before: edit.before.cloned(),
        after: edit.after.cloned(),
    };
    edits.into_iter().map(change).collect()
}
