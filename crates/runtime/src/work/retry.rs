//! Judging a change again (R34): the change of a run that was denied by a count, a path or a class, or whose tests failed, without calling its
//! agent. Owns which runs can be retried, and checks that a packed change is the one that the run left. Everything that `work run` would refuse is
//! refused here.

use crealeph_contracts::WorkItem;
use crealeph_contracts::attestation::{PAYLOAD_TYPE, Statement};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::provenance::RunOrigin;
use crealeph_contracts::receipt::{EarlierRun, RunRelation, SandboxStrength};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{Amount, Count, RobotId};
use crealeph_contracts::uuid::Uuid;

use super::batch::{Destination, ItemOutcome, WorkProgress};
use super::branch::Branch;
use super::engine::Work;
use super::error::{BlockedStep, RUN_AGAIN, STATUS, WorkError};
use super::existing::{self, ChangeTarget, ExistingChangeRun};
use super::journal::{CapsuleState, FinishedRun, JournalState};
use super::later::changed_by;
use super::pack::{CAPSULE_FILE, PackedChange};
use super::receipt::ENVELOPE_FILE;
use super::stage::{AgentReport, ChangeContents, ExistingChange, RunRequest};
use super::tasks;
use super::trace::Trace;

/// A run whose change can be judged again.
#[derive(Debug)]
pub struct RetryableRun {
    finished: FinishedRun,
    packed: PackedChange,
}

/// How a change is to be judged again.
#[derive(Clone, Debug)]
pub struct RetryOptions {
    /// The item, with its bounds and tests as they are to be now.
    pub item: WorkItem,
    /// Where the change goes, if not where the first run's was to go.
    pub destination: Option<Destination>,
    /// Whether it is held for approval; it is in any case if the first run's was to be.
    pub is_held: bool,
}

impl RetryableRun {
    /// The request.
    pub fn item(&self) -> &WorkItem {
        &self.packed.record.work_item
    }

    /// The robot that the run was bound to.
    pub fn robot(&self) -> Option<&RobotId> {
        self.packed.record.robot.as_ref()
    }
}

/// Finds the kept change of a run, and checks that it is the one that the run left.
pub(super) fn find(work: &Work, run: &Uuid) -> Result<RetryableRun, WorkError> {
    let state = work.runs.state()?;
    let no = |(why, hint)| WorkError::NotRetryable { run: state.short(run), why, hint };
    let finished = state.ended(run).ok_or_else(|| no(("it has not ended".to_owned(), Some(STATUS))))?;
    check_kept(work, finished).map_err(no)?;
    check_not_done(&state, finished).map_err(|why| no((why, None)))?;
    let altered = |what: &str| WorkError::Altered { run: state.short(run), what: format!("`{what}`") };
    let Some(bytes) = work.runs.read(run, CAPSULE_FILE)? else {
        return Err(no(("its change was removed by `crealeph work clean`".to_owned(), Some(RUN_AGAIN))));
    };
    if signed_digest(work, run)? != Some(Blake3::of(&bytes)) {
        return Err(altered(CAPSULE_FILE));
    }
    let packed = PackedChange::read(&bytes).filter(|packed| packed.record.run == *run);
    Ok(RetryableRun { finished: finished.clone(), packed: packed.ok_or_else(|| altered(CAPSULE_FILE))? })
}

/// Whether the change of a run was kept, and is not too old; else why, and what to do.
fn check_kept(work: &Work, finished: &FinishedRun) -> Result<(), (String, Option<&'static str>)> {
    match &finished.capsule {
        Some(CapsuleState::Kept) if is_expired(work, finished) => {
            let days = work.config.capsules.max_age.as_secs() / (24 * 60 * 60);
            Err((format!("its change was kept for {days} days and has expired"), Some(RUN_AGAIN)))
        }
        Some(CapsuleState::Kept) => Ok(()),
        Some(CapsuleState::LeftOut(why)) => Err((why.clone(), Some(RUN_AGAIN))),
        None if finished.status == RunStatus::Success => Err(("it succeeded".to_owned(), None)),
        None if finished.item.is_none() => Err(("it is the merge of a level".to_owned(), None)),
        None => {
            let why = "a change is kept only if it was denied by a count, a path or a class, or if its tests failed";
            Err((why.to_owned(), Some(RUN_AGAIN)))
        }
    }
}

/// Whether the change of a run was kept for longer than it may be.
pub(super) fn is_expired(work: &Work, finished: &FinishedRun) -> bool {
    let age_ns = super::now().instant().unix_nanos() - finished.at.instant().unix_nanos();
    age_ns > i128::try_from(work.config.capsules.max_age.as_nanos()).unwrap_or(i128::MAX)
}

/// What would be done twice: the item has succeeded since, or awaits approval.
fn check_not_done(state: &JournalState, finished: &FinishedRun) -> Result<(), String> {
    let Some(item) = &finished.item else { return Ok(()) };
    let mut since = state.since(&finished.run);
    let done = since.find(|later| later.item.as_ref() == Some(item) && later.status == RunStatus::Success);
    if let Some(done) = done {
        return Err(format!("its item `{item}` has succeeded since, in run `{}`", state.short(&done.run)));
    }
    match state.held.iter().find(|(_, held)| held.item == *item) {
        Some((held, _)) => Err(format!("run `{}` of its item `{item}` awaits approval", state.short(held))),
        None => Ok(()),
    }
}

/// The digest of the packed change that the run's signed statement names.
fn signed_digest(work: &Work, run: &Uuid) -> Result<Option<Blake3>, WorkError> {
    let envelope = work.runs.read(run, ENVELOPE_FILE)?;
    let text = envelope.and_then(|envelope| work.signer.signed_text(PAYLOAD_TYPE, &envelope));
    let statement = text.and_then(|text| Statement::parse(text.as_bytes()).ok());
    let statement = statement.filter(|statement| statement.predicate.receipt.id == *run);
    Ok(statement.and_then(|statement| {
        let files = statement.predicate.files?;
        let file = files.as_slice().iter().find(|file| file.name.as_str() == CAPSULE_FILE)?;
        file.digest.blake3
    }))
}

/// Judges a kept change again, in a separate run.
pub(super) fn run(
    work: &Work,
    retryable: RetryableRun,
    options: RetryOptions,
    progress: &(dyn Fn(WorkProgress) + Sync),
) -> Result<ItemOutcome, WorkError> {
    let RetryableRun { finished, packed } = retryable;
    let RetryOptions { item, destination, is_held } = options;
    let record = &packed.record;
    let is_known = work.config.agents.contains_key(&*record.agent);
    let agent = work.agent_for(&item, is_known.then_some(&*record.agent))?;
    if record.sandbox_strength == SandboxStrength::Reduced && !agent.accepts_reduced {
        let name = &agent.name;
        return Err(WorkError::NotRetryable {
            run: work.runs.short(&finished.run),
            why: format!(
                "its agent ran in a reduced sandbox, which `[work.agents.{name}]` no longer accepts"
            ),
            hint: Some(RUN_AGAIN),
        });
    }
    existing::check_item(work, &item, agent)?;
    let target = target(work, &packed, destination.as_ref())?;
    let moved = target.moved(&packed.changes);
    if !moved.is_empty() {
        let state = work.runs.state()?;
        let paths = changed_by(work, moved, state.since(&finished.run))?;
        return Err(WorkError::InTheWay { run: state.short(&finished.run), step: BlockedStep::Retry, paths });
    }
    let request = RunRequest {
        agent: agent.name.clone(),
        branch: target.kept_branch(),
        is_held: is_held || record.hold,
        robot: work.robot().cloned(),
        task: tasks::origin(work, &item.id)?,
        earlier: Some(EarlierRun {
            relation: RunRelation::RetryOf,
            run: finished.run,
            receipt_hash: finished.receipt,
        }),
    };
    let report = agent_report(&packed);
    let origin = match &record.agent_facts {
        Some(facts) => RunOrigin { agent: facts.clone(), started_by: work.user.clone() },
        None => work.origin(agent)?,
    };
    let change = ExistingChange {
        origin,
        changes: packed.changes.clone(),
        contents: ChangeContents::Packed(Box::new(packed)),
        agent: report,
    };
    existing::run(work, ExistingChangeRun { item, agent, request, change, target }, progress)
}

/// Where the change goes: where it was to go, unless another place is named.
fn target(
    work: &Work,
    packed: &PackedChange,
    destination: Option<&Destination>,
) -> Result<ChangeTarget, WorkError> {
    match (destination, packed.branch()) {
        (None, Some(branch)) => {
            let opened = Branch::reopen(work.workspace.path(), &branch)?;
            ChangeTarget::branch(work, opened, Some(&branch.tip))
        }
        (None, None) => ChangeTarget::tree(work),
        (Some(destination), _) => ChangeTarget::of(work, destination),
    }
}

/// What the agent of the first run reported: it made the change, and its bounds apply.
fn agent_report(packed: &PackedChange) -> AgentReport {
    let record = &packed.record;
    let models = record.agent_facts.as_ref().and_then(|facts| facts.models.as_ref());
    AgentReport {
        trace: Trace {
            calls: record.tool_trace.as_slice().to_vec(),
            count: record.tool_ops.get(),
            tokens: record.tokens_used.map(Amount::get),
            cost_usd: record.cost_usd.map(Amount::get),
            models: models.map_or_else(Vec::new, |models| models.as_slice().to_vec()),
            kept_bytes: 0,
        },
        strength: record.sandbox_strength,
        sandbox: record.sandbox.clone(),
        connections: record.connections.as_slice().to_vec(),
        connections_left_off: record.connections_left_off.map_or(0, Count::get),
        ..AgentReport::of_no_one()
    }
}
