//! Changes that await approval: stored durably and completely until someone approves or rejects them; tested again if the
//! workspace has changed meanwhile. Owns what is stored of a held run, and what a verdict does to it.

use std::collections::BTreeMap;

use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::held_record::HeldRecord;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::provenance::{AgentFacts, RunOrigin, StatedVerdict};
use crealeph_contracts::receipt::Receipt;
use crealeph_contracts::scalar::{Amount, ClientKey, Count, ItemId, Literal, Name};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::work::{DeltaCounts, Ending, combined};
use crealeph_workspace::{Capsule, Change, WorkspaceSnapshot};
use tracing::info_span;

use crate::approvals::{UnsignedError, append_unsigned, is_unsigned_refused};

use super::branch::Branch;
use super::config::WorkAgent;
use super::counts::TestCounts;
use super::engine::Work;
use super::error::{BlockedStep, Stop, WorkError};
use super::existing::ChangeTarget;
use super::held_proof;
use super::journal::{Event, HeldBranch, HeldChange, RunVerdict};
use super::land::{BranchChange, LandingRun, TreeLanding, check_conflict};
use super::later::changed_by;
use super::receipt::{DeltaLists, ITEM_FILE, RunFile, SealError};
use super::record::{
    DIFF_FILE, Landing, RunWriter, STDERR_FILE, STDOUT_FILE, models, parse_item, stated_bounds,
};
use super::recover::settle_landings;
use super::result::ItemResult;
use super::run::count;
use super::stage::{
    AgentReport, ChangeReport, RunEvidence, RunIdentity, RunRequest, RunTimes, UnlandedChange, changes, edits,
};
use super::store::{RunStore, RunsError};
use super::subject::{self, SUBJECT_FILE};
use super::tasks;
use super::tests_run::TestReport;
use super::trace::Trace;

pub(super) const HELD_FILE: &str = "held.json";
const VERDICT: Literal = Literal::new("run_verdict");
const MODULE: Literal = Literal::new("work");
const PERSON: Literal = Literal::new("person");
const APPROVED: Literal = Literal::new("approved");
const REJECTED: Literal = Literal::new("rejected");

/// A run whose change is held.
#[derive(Clone, Debug)]
pub struct HeldRun {
    /// The run.
    pub run: Uuid,
    /// Its item.
    pub item: ItemId,
    /// Since when.
    pub since: Timestamp,
}

/// The result of a verdict.
#[derive(Clone, Debug)]
pub struct DecidedRun {
    /// How the run ended.
    pub result: ItemResult,
    /// Whether its change landed.
    pub has_landed: bool,
}

impl RunWriter<'_> {
    /// Records a run whose change is held.
    pub(super) fn hold(
        &self,
        evidence: &RunEvidence,
        landing: TreeLanding,
        branch: Option<HeldBranch>,
        agent: &WorkAgent,
    ) -> Result<HeldRun, WorkError> {
        let identity = &evidence.identity;
        let publish = landing.publish.clone();
        let landing = Landing::from(landing);
        let record = record(evidence, self.unsealed(evidence, &landing)?, agent);
        let mut files = vec![
            RunFile::new(ITEM_FILE, to_json(&identity.item)),
            RunFile::new(HELD_FILE, record.to_json()),
            RunFile::new(DIFF_FILE, evidence.change.diff.clone()),
            RunFile::new(STDOUT_FILE, evidence.agent.stdout.clone()),
            RunFile::new(STDERR_FILE, evidence.agent.stderr.clone()),
        ];
        files.extend(self.work.runs.outputs(&identity.id)?);
        let held = HeldChange {
            item: identity.item.id.clone(),
            batch: identity.batch,
            publish,
            branch,
            at: super::now(),
        };
        let subject = subject::record(self.work, evidence, &landing, &held, agent)?;
        files.push(RunFile::new(SUBJECT_FILE, subject));
        files.push(held_proof::envelope(self.work, &identity.id, &held, &files)?);
        self.runs.write(&identity.id, &files)?;
        let waits = HeldRun { run: identity.id, item: held.item.clone(), since: held.at.clone() };
        self.runs.add(Event::Held { run: identity.id, held })?;
        self.submit(&identity.id)?;
        Ok(waits)
    }

    /// Reverts what was written of a held change that was about to land and did not: it is held as before.
    pub(super) fn hold_again(&self, run: &Uuid) -> Result<(), WorkError> {
        self.runs.retain(run, held_proof::is_of_held)?;
        Ok(self.runs.add(Event::StillHeld { run: *run, at: super::now() })?)
    }
}

/// Carries out a verdict on a held run that no one signed, while no one is enrolled: it lands, or it is discarded. One that meets a
/// conflict stays held.
pub(super) fn decide(work: &Work, run: &Uuid, verdict: RunVerdict) -> Result<DecidedRun, WorkError> {
    let _span = info_span!("decide", %run).entered();
    let writer = RunWriter::new(work)?;
    let state = writer.runs.state()?;
    let held = state.held.get(run).ok_or_else(|| WorkError::NotHeld(state.short(run)))?.clone();
    let is_signed_only = is_unsigned_refused(&work.ledger, &work.tenant)?;
    // Of a change that an earlier version held there is nothing to sign; discarding it is in its receipt.
    if is_signed_only && (verdict.is_approved || state.submitted.contains_key(run)) {
        return Err(WorkError::Unsigned(state.short(run)));
    }
    if verdict.is_approved {
        held_proof::check(work, run, &held)?;
    }
    let stated = vec![verdict.stated(&work.user)];
    let mut landing = landing_of(writer, run, &held, stated, verdict.is_approved)?;
    landing.writer.runs.add(Event::Judged { run: *run, verdict: verdict.clone() })?;
    if !is_signed_only {
        let entry = verdict_entry(&landing.evidence.identity, &verdict)?;
        append_unsigned(&work.ledger, &work.tenant, &[entry]).map_err(|error| match error {
            UnsignedError::Refused => WorkError::Unsigned(state.short(run)),
            UnsignedError::Append(error) => WorkError::Unrecorded(error),
        })?;
    }
    let landed = match verdict.is_approved {
        true => approve(&mut landing, &held),
        false => Err(rejected(&verdict).into()),
    };
    conclude(landing, run, &held, landed, verdict.is_approved)
}

/// How a run ends whose change was rejected.
pub(super) fn rejected(verdict: &RunVerdict) -> Ending {
    Ending::Failed(format!("Rejected by {}: {}", verdict.who, verdict.why))
}

/// A held run on its way to its end, with what people decided. One that is to land must not have been overtaken.
pub(super) fn landing_of<'l>(
    writer: RunWriter<'l>,
    run: &Uuid,
    held: &HeldChange,
    verdicts: Vec<StatedVerdict>,
    is_approved: bool,
) -> Result<LandingRun<'l>, WorkError> {
    let work = writer.work;
    let item = work.runs.document(run, ITEM_FILE, parse_item)?;
    let record = held_record(&work.runs, run)?;
    let is_known = work.config.agents.contains_key(&*record.agent);
    let agent = work.agent_for(&item, is_known.then_some(&*record.agent))?;
    let evidence = RunEvidence { verdicts, ..evidence(work, item, &record, held, agent)? };
    let own = held_changes(work, held, is_approved)?;
    if is_approved {
        check_nothing_moved(work, run, held, &own)?;
    }
    let unlanded = UnlandedChange::stored(own);
    Ok(LandingRun::new(writer, work.runner(agent, run, &|_| ())?, evidence, unlanded))
}

/// The result of a verdict. A change that met a conflict is held as before (R34), and so is one whose approval no longer counts.
pub(super) fn conclude(
    mut landing: LandingRun<'_>,
    run: &Uuid,
    held: &HeldChange,
    landed: Result<ItemResult, Stop>,
    is_approved: bool,
) -> Result<DecidedRun, WorkError> {
    let work = landing.writer.work;
    let mut hold_again = || {
        landing.take_back();
        landing.writer.hold_again(run)?;
        settle_landings(&landing.writer)
    };
    match landed {
        Ok(result) => {
            settle_landings(&landing.writer)?;
            Ok(DecidedRun { result, has_landed: true })
        }
        Err(Stop::Error(error)) => {
            if matches!(*error, WorkError::Approval(_)) {
                hold_again()?;
            }
            Err(*error)
        }
        Err(Stop::Ended(ending @ (Ending::Conflict(_) | Ending::Interrupted))) if is_approved => {
            hold_again()?;
            Err(WorkError::StillHeld { run: work.runs.short(run), why: ending.reason().to_owned() })
        }
        Err(Stop::Ended(ending)) => {
            let result = landing.give_up(&ending)?;
            if work.workspace.held()?.contains(&held.publish) {
                work.workspace.resume(&held.publish)?.discard()?;
            }
            settle_landings(&landing.writer)?;
            Ok(DecidedRun { result, has_landed: false })
        }
    }
}

/// What a held change changes; one that is to be rejected may be damaged.
pub(super) fn held_changes(
    work: &Work,
    held: &HeldChange,
    is_approved: bool,
) -> Result<Vec<Change>, WorkError> {
    match work.workspace.resume(&held.publish) {
        Ok(prepared) => Ok(prepared.changes()),
        Err(_) if !is_approved => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses to land a change whose files were changed since, and says by what. It stays held (R34).
pub(super) fn check_nothing_moved(
    work: &Work,
    run: &Uuid,
    held: &HeldChange,
    own: &[Change],
) -> Result<(), WorkError> {
    let target = match &held.branch {
        None => ChangeTarget::tree(work)?,
        Some(branch) => {
            let opened = Branch::reopen(work.workspace.path(), branch)?;
            ChangeTarget::branch(work, opened, Some(&branch.tip))?
        }
    };
    let moved = target.moved(own);
    if moved.is_empty() {
        return Ok(());
    }
    let state = work.runs.state()?;
    let paths = changed_by(work, moved, state.since(run))?;
    Err(WorkError::InTheWay { run: state.short(run), step: BlockedStep::Approval, paths })
}

/// Lands a held change as it is, or on what the workspace or its branch is now.
pub(super) fn approve(landing: &mut LandingRun<'_>, held: &HeldChange) -> Result<ItemResult, Stop> {
    let work = landing.writer.work;
    let prepared = work.workspace.resume(&held.publish)?;
    let changes = prepared.changes();
    // More files may define grants than when the change was held.
    let paths = &landing.runner.agent.paths;
    if let Some(change) = changes.iter().find(|change| paths.protects(change.path.as_str())) {
        return Err(Ending::denied_path(&change.path).into());
    }
    let (before, after) = (prepared.before(), prepared.after());
    let snapshot = work.workspace.snapshot()?;
    // It may have been held by a version with other rules.
    work.check_publishable(&changes, &work.workspace.kept(after)?)?;
    landing.evidence.identity.before = before.digest();
    if let Some(branch) = &held.branch {
        drop(prepared);
        let result = approve_on_branch(landing, branch, &snapshot, &changes)?;
        work.workspace.resume(&held.publish)?.discard()?;
        return Ok(result);
    }
    // What is held stays until the change has landed, whatever happens: a separate publish lands it.
    drop(prepared);
    let base = work.workspace.kept(before)?;
    let capsule = Capsule::of_changes(&base, changes).map_err(|error| Ending::Failed(error.to_string()))?;
    let ready = landing.ready(capsule, &BTreeMap::new())?;
    let prepared = landing.prepare(&ready.capsule)?;
    let result = landing.publish(&ready.landing(&prepared).into(), prepared)?;
    work.workspace.resume(&held.publish)?.discard()?;
    Ok(result)
}

/// Commits a held change to its branch as that is now: tested again if the branch or the workspace has moved.
fn approve_on_branch(
    landing: &mut LandingRun<'_>,
    held: &HeldBranch,
    snapshot: &WorkspaceSnapshot,
    own: &[Change],
) -> Result<ItemResult, Stop> {
    let workspace = &landing.writer.work.workspace;
    let mut branch = Branch::reopen(workspace.path(), held)?;
    check_conflict(own, snapshot, &BTreeMap::new())?;
    let moved = branch.moved_since(&held.tip, workspace, snapshot.state())?;
    if !moved.is_empty() || snapshot.state().hash().digest() != landing.evidence.identity.before {
        landing.test_again(&changes(combined(&edits(&moved), &edits(own))))?;
    }
    landing.commit(BranchChange {
        branch: &mut branch,
        state: snapshot.state(),
        accumulated: &moved,
        own,
        capsule: None,
    })
}

/// The ledger entry of a verdict: who, why, on which run.
fn verdict_entry(identity: &RunIdentity, verdict: &RunVerdict) -> Result<Draft, WorkError> {
    let RunVerdict { is_approved, who, why, .. } = verdict;
    let request = &identity.request;
    // The same verdict again is one entry; another one, after a crash, is another.
    let text = format!("{is_approved} {who} {why}");
    let key = format!("run_verdict:{}:{}", identity.id, Blake3::of(text.as_bytes()));
    Ok(Draft {
        robot_id: tasks::bound_to(request.task.as_ref(), request.robot.as_ref()).0,
        module: MODULE.into(),
        source: PERSON.into(),
        kind: VERDICT.into(),
        state: Name::from(if *is_approved { APPROVED } else { REJECTED }),
        payload: JsonObject::build(|object| {
            object.text("run", &identity.id.to_string()).text("item", identity.item.id.as_str());
            object.text("who", who).text("why", why);
        }),
        lineage: None,
        observed_at: None,
        key: Some(ClientKey::parse(&key).map_err(SealError::Name)?),
    })
}

/// What is recorded of a held run.
pub(super) fn held_record(runs: &RunStore, run: &Uuid) -> Result<HeldRecord, RunsError> {
    runs.document(run, HELD_FILE, |bytes| HeldRecord::parse(bytes).ok())
}

fn record(evidence: &RunEvidence, receipt: Receipt, agent: &WorkAgent) -> HeldRecord {
    let RunEvidence { identity, times, agent: report, change, admission, tests, .. } = evidence;
    let counts = tests.as_ref().and_then(|tests| tests.counts);
    HeldRecord {
        agent: agent.name.as_str().into(),
        command: None,
        robot: identity.request.robot.clone(),
        receipt,
        origin: identity.origin.clone().map(|origin| origin_with_models(origin, &report.trace)),
        hidden: report.hidden.clone(),
        sandbox: report.sandbox.clone(),
        bounds: Some(identity.bounds.clone()),
        admission: admission.clone(),
        execution_ms: Amount::new(times.execution_ms).unwrap_or(Amount::ZERO),
        tool_ops: count(report.trace.count),
        deltas_o: count(change.counts.others),
        deltas_pi: count(change.counts.projections),
        deltas_lambda: count(change.counts.laws),
        deltas_q: count(change.counts.invariants),
        tests_passed: counts.map(|counts| count(counts.passed)),
        tests_failed: counts.map(|counts| count(counts.failed)),
    }
}

/// Where the run comes from, with the models that its agent has reported since.
fn origin_with_models(origin: RunOrigin, trace: &Trace) -> RunOrigin {
    RunOrigin { agent: AgentFacts { models: models(trace), ..origin.agent }, ..origin }
}

/// A held run as it was.
fn evidence(
    work: &Work,
    item: WorkItem,
    record: &HeldRecord,
    held: &HeldChange,
    agent: &WorkAgent,
) -> Result<RunEvidence, WorkError> {
    let receipt = &record.receipt;
    let counts = record.tests_passed.zip(record.tests_failed);
    let counts = counts.map(|(passed, failed)| TestCounts { passed: passed.get(), failed: failed.get() });
    let tests = receipt.test_log.as_deref().map(|output| TestReport { output: output.to_owned(), counts });
    Ok(RunEvidence {
        identity: RunIdentity {
            id: receipt.id,
            bounds: record.bounds.clone().unwrap_or_else(|| stated_bounds(&item, agent)),
            batch: held.batch,
            before: receipt.before_hash,
            origin: record.origin.clone(),
            request: RunRequest {
                agent: record.agent.as_ref().into(),
                branch: held.branch.clone(),
                is_held: true,
                robot: record.robot.clone(),
                task: tasks::origin(work, &item.id)?,
                earlier: receipt.earlier_run.clone(),
            },
            item,
        },
        times: RunTimes {
            started_at: receipt.started_at.clone(),
            finished_at: receipt.finished_at.clone(),
            execution_ms: record.execution_ms.get(),
        },
        agent: agent_report(&work.runs, record)?,
        change: change_report(&work.runs, record)?,
        admission: record.admission.clone(),
        tests,
        verdicts: Vec::new(),
    })
}

/// What the agent of a held run left behind.
fn agent_report(runs: &RunStore, record: &HeldRecord) -> Result<AgentReport, RunsError> {
    let receipt = &record.receipt;
    let models = record.origin.as_ref().and_then(|origin| origin.agent.models.as_ref());
    Ok(AgentReport {
        trace: Trace {
            calls: receipt.tool_trace.as_slice().to_vec(),
            count: record.tool_ops.get(),
            tokens: receipt.tokens_used.map(Amount::get),
            cost_usd: receipt.cost_usd.map(Amount::get),
            models: models.map_or_else(Vec::new, |models| models.as_slice().to_vec()),
            kept_bytes: 0,
        },
        strength: receipt.sandbox_strength,
        sandbox: record.sandbox.clone(),
        hidden: record.hidden.clone(),
        connections: receipt.connections.as_slice().to_vec(),
        connections_left_off: receipt.connections_left_off.map_or(0, Count::get),
        stdout: held_file(runs, &receipt.id, STDOUT_FILE)?,
        stderr: held_file(runs, &receipt.id, STDERR_FILE)?,
    })
}

/// What is recorded of the change of a held run.
fn change_report(runs: &RunStore, record: &HeldRecord) -> Result<ChangeReport, RunsError> {
    let receipt = &record.receipt;
    Ok(ChangeReport {
        files: None,
        deltas: DeltaLists {
            others: receipt.delta_o.as_slice().to_vec(),
            projections: receipt.delta_pi.as_slice().to_vec(),
            laws: receipt.delta_lambda.as_slice().to_vec(),
            invariants: receipt.delta_q.as_slice().to_vec(),
        },
        counts: DeltaCounts {
            others: record.deltas_o.get(),
            projections: record.deltas_pi.get(),
            laws: record.deltas_lambda.get(),
            invariants: record.deltas_q.get(),
        },
        diff: String::from_utf8_lossy(&held_file(runs, &receipt.id, DIFF_FILE)?).into_owned(),
    })
}

/// A file of a held run. One that is gone must not keep the change from being rejected; before an approval all of them were compared.
fn held_file(runs: &RunStore, run: &Uuid, name: &str) -> Result<Vec<u8>, RunsError> {
    Ok(runs.read(run, name)?.unwrap_or_default())
}
