//! Verdicts on held changes: recorded wherever they are given, and carried out where the workspace is.

use crealeph_contracts::approval::ApprovalDecision;
use crealeph_contracts::scalar::LedgerId;
use crealeph_contracts::short_id::NamedKind;
use crealeph_contracts::uuid::Uuid;
use crealeph_ledger::AppendedEntry;
use crealeph_runtime::approvals::{RecordedVerdict, SubjectReader, VerdictReport};
use crealeph_runtime::work::{DecidedRun, RunState, RunVerdict, SettledRun, Work, WorkError};
use serde::Serialize;
use serde_json::value::RawValue;

use super::CommandOutcome;
use super::approve::AskedVerdict;
use super::ids::ShortIds;
use super::ledger::Settled;
use super::place::LogSource;
use super::work::{finished, open_runs};
use crate::failure::{ApprovalFailure, Failure};
use crate::input::who;
use crate::output::{Output, embedded, note};

/// The outcome of a verdict on a change.
struct ChangeVerdict<'v> {
    run: &'v Uuid,
    decision: ApprovalDecision,
    /// The entry of the verdict, if one was added.
    entry: Option<&'v AppendedEntry>,
    /// The result of the verdicts, if they sufficed and the workspace is here.
    decided: Option<&'v DecidedRun>,
    missing: u64,
}

impl AskedVerdict {
    /// A verdict on a change where people are enrolled.
    pub(super) fn run_change(
        self,
        at: &Settled,
        reader: SubjectReader<'_>,
        run: &Uuid,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        let id = subject_of(run)?;
        let work = self.workspace_of(run)?;
        let decision = self.decision;
        let of = |entry, decided, missing| ChangeVerdict { run, decision, entry, decided, missing };
        if let Some(work) = work.as_ref().filter(|_| decision == ApprovalDecision::Approve) {
            // The one who gave the last approval may have been interrupted before the landing, or was elsewhere.
            if let Some(decided) = settled(work, run)? {
                note!("enough people had already decided; no verdict was added");
                return of(None, Some(&decided), 0).report(at, reader, output);
            }
            work.check_landable(run)?;
        }
        let diff = self.diff_of(run)?;
        let Some(signed) = self.obtain(reader, &id, diff.as_deref())? else {
            return Ok(self.unsigned_verdict());
        };
        let RecordedVerdict { verdict, missing, .. } = reader.record_verdict(&signed)?;
        let decided = match &work {
            Some(work) if missing == 0 => settled(work, run)?,
            _ => None,
        };
        of(Some(&verdict), decided.as_ref(), missing).report(at, reader, output)
    }

    /// A verdict on a change while no one is enrolled: by a name that proves nothing, where the workspace is.
    pub(super) fn decide_unsigned(
        self,
        at: &Settled,
        run: &Uuid,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        self.check_unsigned()?;
        let work = self.workspace_of(run)?.ok_or(ApprovalFailure::NotHere(*run))?;
        let is_approved = self.decision == ApprovalDecision::Approve;
        let why = self.reason.unwrap_or_else(|| "no reason given".to_owned());
        let decided = work.decide(run, RunVerdict::new(is_approved, who(self.by)?, why))?;
        if at.is_json(output) {
            let report = ChangeVerdict {
                run,
                decision: self.decision,
                entry: None,
                decided: Some(&decided),
                missing: 0,
            };
            output.report(&report.json(None, false)?)?;
        } else {
            output.page(&finished(&decided.result, &work.short_run(run)?, ""))?;
        }
        Ok(if decided.has_landed == is_approved { CommandOutcome::Good } else { CommandOutcome::Bad })
    }

    /// The workspace, if the change of the run is held in it.
    fn workspace_of(&self, run: &Uuid) -> Result<Option<Work>, Failure> {
        let Some(workspace) = &self.workspace else { return Ok(None) };
        let summary = open_runs(workspace)?.find(Some(&run.to_string())).ok();
        match summary.is_some_and(|summary| summary.state == RunState::Held) {
            true => Ok(Some(workspace.open()?)),
            false => Ok(None),
        }
    }

    /// The diff as it is in the workspace, if it is here; only that which the record names by digest is shown.
    fn diff_of(&self, run: &Uuid) -> Result<Option<String>, Failure> {
        let Some(workspace) = &self.workspace else { return Ok(None) };
        Ok(open_runs(workspace)?.diff(run).map_err(WorkError::from)?)
    }
}

/// The run as a subject.
fn subject_of(run: &Uuid) -> Result<LedgerId, Failure> {
    Ok(super::ledger::named("run", &run.to_string(), LedgerId::parse)?)
}

/// The result of verdicts; `None` if more are needed, or another process carried it out meanwhile.
fn settled(work: &Work, run: &Uuid) -> Result<Option<DecidedRun>, Failure> {
    match work.settle(run) {
        Ok(SettledRun::Decided(decided)) => Ok(Some(*decided)),
        Ok(SettledRun::Waiting { .. }) | Err(WorkError::NotHeld(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A verdict on a change as JSON.
#[derive(Serialize)]
struct ChangeVerdictReport {
    #[serde(flatten)]
    verdict: VerdictReport,
    /// The result of its run, if the change landed or was rejected now.
    result: Option<Box<RawValue>>,
}

impl ChangeVerdict<'_> {
    fn json(&self, landed: Option<&LedgerId>, is_proven: bool) -> Result<ChangeVerdictReport, Failure> {
        let verdict = VerdictReport {
            subject: self.run.to_string(),
            decision: self.decision.to_string(),
            proven: is_proven,
            verdict: self.entry.map(|entry| entry.id.to_string()),
            landed: landed.map(ToString::to_string),
            planned: None,
            missing: self.missing,
        };
        let result = self.decided.map(|decided| embedded(decided.result.to_json())).transpose()?;
        Ok(ChangeVerdictReport { verdict, result })
    }

    fn report(
        &self,
        at: &Settled,
        reader: SubjectReader<'_>,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        let ChangeVerdict { run, decision, decided, missing, .. } = self;
        let case = reader.read(&subject_of(run)?)?;
        let landing = case.state.outcome.landing().map(|(landing, _)| landing);
        if at.is_json(output) {
            output.report(&self.json(landing, true)?)?;
        } else {
            let id = run.to_string();
            let short =
                ShortIds::find(&LogSource::of(reader.ledger, reader.tenant), NamedKind::Run, [id.as_str()])?;
            let short = short.of(&id);
            match (decided, decision) {
                (Some(decided), _) => output.page(&finished(&decided.result, short, ""))?,
                (None, ApprovalDecision::Reject) => output.line(&format!("rejected {short}"))?,
                (None, ApprovalDecision::Approve) if *missing > 0 => {
                    output.line(&format!("approved {short}; {missing} more needed"))?;
                }
                (None, ApprovalDecision::Approve) => output.line(&format!("approved {short}"))?,
            }
        }
        output.flush()?;
        if decided.is_none() && *missing == 0 && landing.is_none() {
            let workspace = case.basis.change().map_or("", |record| record.workspace.as_str());
            note!(
                "the next `crealeph work run` or `crealeph work recover` in its workspace, {workspace}, carries it out"
            );
        }
        let wants_landing = *decision == ApprovalDecision::Approve;
        let is_good = decided.is_none_or(|decided| decided.has_landed == wants_landing);
        Ok(if is_good { CommandOutcome::Good } else { CommandOutcome::Bad })
    }
}
