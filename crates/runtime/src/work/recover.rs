//! Recovering from an earlier process: publishes, runs without an outcome, receipts that the ledger lacks. Owns their order; it
//! can be interrupted anywhere and repeated.

use std::path::PathBuf;

use crealeph_contracts::approval::LandingEnd;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{Limits, Node, canonical};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::LedgerId;
use crealeph_contracts::{Receipt, uuid::Uuid};
use crealeph_workspace::{Kept, KeptPlace, PublishOutcome};
use tracing::info_span;

use super::engine::Work;
use super::error::WorkError;
use super::journal::{Event, FinishedRun, PublishTarget};
use super::receipt::SealError;
use super::record::{ENTRY_FILE, RunWriter, TRANSIENT_FILES};
use super::store::RunsError;
use crate::approvals::append_outcome;

/// What was settled of an earlier process's work.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Runs whose change was complete, and whose receipt was written now.
    pub completed: Vec<Uuid>,
    /// Runs that left nothing, and have a receipt that says so.
    pub interrupted: Vec<Uuid>,
    /// Publishes that were undone.
    pub undone: usize,
    /// What someone else wrote meanwhile.
    pub kept: Vec<KeptFile>,
    /// Receipts that the ledger has now.
    pub recorded: usize,
}

/// A file that someone else wrote at the moment of a publish.
#[derive(Clone, Debug)]
pub struct KeptFile {
    /// Where they wrote it.
    pub path: String,
    /// Where it is now, if not there.
    pub beside: Option<PathBuf>,
}

impl From<Kept> for KeptFile {
    fn from(kept: Kept) -> Self {
        let beside = match kept.place {
            KeptPlace::InPlace => None,
            KeptPlace::Beside(beside) => Some(beside),
        };
        KeptFile { path: kept.path, beside }
    }
}

/// Settles everything that an earlier process left. If something cannot be settled, nothing is lost, and it can be tried again.
pub(super) fn recover(work: &Work) -> Result<Recovery, WorkError> {
    let _span = info_span!("recover", tenant = %work.tenant).entered();
    let writer = RunWriter::new(work)?;
    let mut recovery = Recovery::default();
    // Whether a publish was complete must be known before recovering clears it away.
    for (run, prepared) in &writer.runs.state()?.prepared {
        if has_landed(work, &prepared.publish)? {
            writer.runs.remove(run, &TRANSIENT_FILES)?;
            writer.runs.add(Event::Finished(Box::new(prepared.finished.clone())))?;
            recovery.completed.push(*run);
        }
    }
    for settled in work.workspace.recover()? {
        recovery.undone += usize::from(settled.outcome == PublishOutcome::RolledBack);
        recovery.kept.extend(settled.kept.into_iter().map(KeptFile::from));
    }
    let state = writer.runs.state()?;
    for run in state.prepared.keys().filter(|run| state.held.contains_key(run)) {
        writer.hold_again(run)?;
    }
    for id in work.workspace.held()? {
        // One that is not in the journal was on its way to be held.
        if !state.held.values().any(|held| held.publish == id) {
            work.workspace.resume(&id)?.discard()?;
        }
    }
    for (run, started) in &state.started {
        if !work.runs.is_alive(&started.owner) {
            writer.close_interrupted(run, started)?;
            recovery.interrupted.push(*run);
        }
    }
    writer.runs.sweep()?;
    recovery.recorded = record_missing(&writer)?;
    for run in state.held.keys().filter(|run| !state.submitted.contains_key(run)) {
        writer.submit(run)?;
    }
    settle_landings(&writer)?;
    Ok(recovery)
}

/// Writes to the ledger the outcomes of landings: completed if the run has finished and succeeded, else void.
pub(super) fn settle_landings(writer: &RunWriter<'_>) -> Result<(), WorkError> {
    let state = writer.runs.state()?;
    let work = writer.work;
    // One that is about to be published is settled when that is.
    for (run, number) in state.landings.iter().filter(|(run, _)| !state.prepared.contains_key(run)) {
        let is_landed = state.ended(run).is_some_and(|finished| finished.status == RunStatus::Success);
        let outcome = if is_landed { LandingEnd::Completed } else { LandingEnd::Void };
        let subject = LedgerId::parse(&run.to_string()).map_err(SealError::Name)?;
        append_outcome(&work.ledger, &work.tenant, &subject, *number, outcome)?;
        writer.runs.add(Event::LandingSettled { run: *run, number: *number })?;
    }
    Ok(())
}

/// Whether the change of a run that was about to land is where it was to be.
fn has_landed(work: &Work, publish: &PublishTarget) -> Result<bool, WorkError> {
    match publish {
        PublishTarget::Branch { name, commit } => super::branch::holds(work.workspace.path(), name, commit),
        PublishTarget::Tree(publish) => Ok(work.workspace.was_published(publish)),
    }
}

/// Appends receipts that are in no ledger yet.
fn record_missing(writer: &RunWriter<'_>) -> Result<usize, WorkError> {
    let state = writer.runs.state()?;
    let mut recorded = 0;
    for finished in state.finished.iter().filter(|finished| !state.is_recorded(&finished.run)) {
        let Some(bytes) = writer.work.runs.read(&finished.run, ENTRY_FILE)? else { continue };
        let draft = Draft::parse(&bytes, &Limits::own(usize::MAX)).ok();
        let receipt = writer.work.receipt_of(&finished.run)?.map(|(receipt, _)| receipt);
        let own = draft.zip(receipt).filter(|(draft, receipt)| is_entry_of(draft, receipt, finished));
        let Some((draft, _)) = own else {
            return Err(RunsError::Unreadable(writer.work.runs.folder(&finished.run).join(ENTRY_FILE)).into());
        };
        writer.record(&finished.run, draft)?;
        recorded += 1;
    }
    Ok(recorded)
}

/// Whether an entry that was read back is that of the receipt which the journal names.
fn is_entry_of(draft: &Draft, receipt: &Valid<Receipt>, finished: &FinishedRun) -> bool {
    receipt.receipt_hash == finished.receipt
        && receipt.content_hash().ok() == Some(receipt.receipt_hash)
        && draft.payload.with(|payload| match payload.member("receipt") {
            Some(copy) => Some(canonical(copy)) == receipt.to_canonical().ok(),
            None => {
                payload.member("receiptHash").and_then(Node::string).as_deref()
                    == Some(&*finished.receipt.to_string())
            }
        })
}
