//! Held changes in a tenant with enrolled people (R33): the result of their signed verdicts in the ledger is carried out here, by the
//! process that holds the workspace's lock. Conflict, quorum and lapse are checked under it, the landing is written right before the change is
//! published, and the journal decides its outcome.

use std::time::Duration;

use crealeph_contracts::approval::{ApprovalDecision, LandingEnd};
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::provenance::{StatedVerdict, VerdictWord};
use crealeph_contracts::scalar::LedgerId;
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::approval::{JudgedVerdict, SubjectOutcome};
use tracing::info_span;

use super::batch::{ItemOutcome, WorkProgress, finished_earlier};
use super::engine::Work;
use super::error::WorkError;
use super::held_proof;
use super::hold::{DecidedRun, approve, check_nothing_moved, conclude, held_changes, landing_of, rejected};
use super::journal::{Event, HeldChange, RunVerdict};
use super::receipt::SealError;
use super::record::RunWriter;
use super::run::RunStage;
use super::subject;
use crate::approvals::{ChangeLanding, SubjectCase, append_outcome, decided_changes, read_change};

/// How often it is looked for an interrupt while nothing is decided.
const LOOK: Duration = Duration::from_millis(200);

/// The state of a held run.
#[derive(Clone, Debug)]
pub enum SettledRun {
    /// It waits for this many more approvals.
    Waiting {
        /// How many.
        missing: u64,
    },
    /// It landed, or was discarded.
    Decided(Box<DecidedRun>),
}

/// A held change that people decided about, and its result here.
#[derive(Debug)]
pub struct DecidedChange {
    /// The run.
    pub run: Uuid,
    /// Its outcome; a conflict leaves it held.
    pub settled: Result<SettledRun, WorkError>,
}

/// Carries out what people decided about a held run.
pub(super) fn settle(work: &Work, run: &Uuid) -> Result<SettledRun, WorkError> {
    let _span = info_span!("settle", %run).entered();
    let writer = RunWriter::new(work)?;
    let held = held_run(&writer, run)?;
    let case = standing(work, run)?;
    match &case.state.outcome {
        SubjectOutcome::Waiting { missing } => Ok(SettledRun::Waiting { missing: *missing }),
        SubjectOutcome::Rejected { verdict, .. } => {
            reject(writer, run, &held, &case, verdict).map(|decided| SettledRun::Decided(Box::new(decided)))
        }
        SubjectOutcome::Approved { verdicts } => {
            land(writer, run, &held, &case, verdicts).map(|decided| SettledRun::Decided(Box::new(decided)))
        }
        SubjectOutcome::Landing { .. } | SubjectOutcome::Landed { .. } => {
            Err(WorkError::LandedElsewhere(writer.work.runs.short(run)))
        }
    }
}

/// Carries out what people decided about the held runs of this workspace. What cannot land now stays held.
pub(super) fn settle_all(work: &Work) -> Result<Vec<DecidedChange>, WorkError> {
    let held: Vec<Uuid> = work.runs.state()?.held.keys().copied().collect();
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let decided = decided_changes(&work.ledger, &work.tenant, &held)?;
    Ok(decided.into_iter().map(|run| DecidedChange { run, settled: settle(work, &run) }).collect())
}

/// Waits until people have decided about those of these items that are held, and carries that out. An interrupt ends it; what is held stays
/// held.
pub(super) fn wait_for_verdicts(
    work: &Work,
    mut outcomes: Vec<ItemOutcome>,
    progress: &(dyn Fn(WorkProgress) + Sync),
    report: &mut dyn FnMut(&ItemOutcome),
) -> Result<Vec<ItemOutcome>, WorkError> {
    let mut watch = work.ledger.watch(&work.tenant);
    loop {
        let mut is_waiting = false;
        for outcome in &mut outcomes {
            let ItemOutcome::Held(held) = outcome else { continue };
            let finished = match settle(work, &held.run) {
                Ok(SettledRun::Waiting { .. }) => {
                    let item = held.item.clone();
                    progress(WorkProgress::Item { item, stage: RunStage::AwaitingApproval });
                    is_waiting = true;
                    continue;
                }
                Ok(SettledRun::Decided(decided)) => {
                    ItemOutcome::Finished { result: Box::new(decided.result), is_earlier: false }
                }
                // Another process carried it out.
                Err(WorkError::NotHeld(_)) => finished_earlier(work, &held.run)?,
                Err(error) => return Err(error),
            };
            report(&finished);
            *outcome = finished;
        }
        while is_waiting && !work.interrupt.is_used() && !watch.wait(LOOK) {}
        if !is_waiting || work.interrupt.is_used() {
            return Ok(outcomes);
        }
    }
}

/// Refuses a held run that could not land: files that it touches have changed since, or it is not what people are shown.
pub(super) fn check_landable(work: &Work, run: &Uuid) -> Result<(), WorkError> {
    let writer = RunWriter::new(work)?;
    let held = held_run(&writer, run)?;
    held_proof::check(work, run, &held)?;
    subject::check(work, run, &held)?;
    check_nothing_moved(work, run, &held, &held_changes(work, &held, true)?)
}

fn held_run(writer: &RunWriter<'_>, run: &Uuid) -> Result<HeldChange, WorkError> {
    let state = writer.runs.state()?;
    state.held.get(run).cloned().ok_or_else(|| WorkError::NotHeld(state.short(run)))
}

/// The state of the change by the ledger. A landing that was written for it and is not in the journal came to nothing: its process died while
/// the ledger took it, and the change is still held here.
fn standing(work: &Work, run: &Uuid) -> Result<SubjectCase, WorkError> {
    let id = LedgerId::parse(&run.to_string()).map_err(SealError::Name)?;
    let read = || read_change(&work.ledger, &work.tenant, &id);
    let case = read()?;
    let SubjectOutcome::Landing { record, .. } = &case.state.outcome else { return Ok(case) };
    append_outcome(&work.ledger, &work.tenant, &id, record.number.get(), LandingEnd::Void)?;
    Ok(read()?)
}

fn land(
    writer: RunWriter<'_>,
    run: &Uuid,
    held: &HeldChange,
    case: &SubjectCase,
    verdicts: &[LedgerId],
) -> Result<DecidedRun, WorkError> {
    let work = writer.work;
    held_proof::check(work, run, held)?;
    subject::check(work, run, held)?;
    let used: Vec<&JudgedVerdict> =
        case.state.verdicts.iter().filter(|verdict| verdicts.contains(&verdict.id)).collect();
    let landing = ChangeLanding {
        run: case.subject.id.clone(),
        digest: case.subject.digest,
        number: case.history.judge.landings_of(&case.subject.id) + 1,
        verdicts: verdicts.to_vec(),
    };
    let stated = used.iter().map(|verdict| stated(verdict)).collect();
    let mut landing = landing_of(writer, run, held, stated, true)?.approved(landing);
    landing.writer.runs.add(Event::Judged { run: *run, verdict: summary(true, &used) })?;
    let landed = approve(&mut landing, held);
    conclude(landing, run, held, landed, true)
}

fn reject(
    writer: RunWriter<'_>,
    run: &Uuid,
    held: &HeldChange,
    case: &SubjectCase,
    verdict: &LedgerId,
) -> Result<DecidedRun, WorkError> {
    let used: Vec<&JudgedVerdict> =
        case.state.verdicts.iter().filter(|judged| judged.id == *verdict).collect();
    let summary = summary(false, &used);
    let landing = landing_of(writer, run, held, used.iter().map(|verdict| stated(verdict)).collect(), false)?;
    landing.writer.runs.add(Event::Judged { run: *run, verdict: summary.clone() })?;
    conclude(landing, run, held, Err(rejected(&summary).into()), false)
}

/// A signed verdict as the run's statement has it.
fn stated(verdict: &JudgedVerdict) -> StatedVerdict {
    let statement = &verdict.statement;
    StatedVerdict {
        decision: match statement.decision {
            ApprovalDecision::Approve => VerdictWord::Approved,
            ApprovalDecision::Reject => VerdictWord::Rejected,
        },
        by: statement.person.as_str().into(),
        reason: reason(verdict).into(),
        at: Timestamp::from(verdict.at),
        account: None,
        key: Some(statement.key_id.clone()),
        entry: Some(verdict.id.clone()),
    }
}

fn reason(verdict: &JudgedVerdict) -> &str {
    verdict.statement.reason.as_ref().map_or("no reason given", |reason| reason.as_str())
}

/// Signed verdicts in one line of the journal.
fn summary(is_approved: bool, used: &[&JudgedVerdict]) -> RunVerdict {
    let people: Vec<&str> = used.iter().map(|verdict| verdict.statement.person.as_str()).collect();
    let reasons: Vec<&str> = used.iter().map(|verdict| reason(verdict)).collect();
    RunVerdict::new(is_approved, people.join(", "), reasons.join("; "))
}
