//! `crealeph work approve` and `reject`: a person's verdict on a held change; and `recover`.

use clap::Args;
use crealeph_contracts::approval::ApprovalDecision;
use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::approvals::is_unsigned_refused;
use crealeph_runtime::work::{DecidedChange, RunVerdict, SettledRun, Work, WorkError, reason_in_words};
use serde_json::json;

use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::commands::approve::AskedVerdict;
use crate::commands::ledger::Settled;
use crate::failure::{ArgumentFailure, Failure};
use crate::input::who;
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph work diff 0190a6f0
  crealeph approve 0190a6f0 --reason 'reviewed with Ben'
  crealeph reject 0190a6f0 --reason 'wrong place'

An approved change is tested again if the workspace, or its target branch, has moved since, and lands completely or not at
all. Who decided what, and when, is in the ledger. `crealeph work approve` and `work reject` are the older forms of `crealeph approve` and
`crealeph reject`.

Exit codes: 0 done, 1 the run is not held, or its change could not land, 2 cannot be done.";

/// A verdict on a held change.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Decide {
    /// Run id or its start, `@` for the newest, or the id of its item
    run: String,

    /// Reason for the decision
    #[arg(long)]
    reason: String,

    /// Who decides [default: the user's name]
    #[arg(long)]
    by: Option<String>,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

/// Recover after an interrupted command: finish or roll back what it left
#[derive(Debug, Args)]
pub(super) struct Recover {
    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Decide {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    /// The older form of `crealeph approve` and `reject`, kept for one release.
    pub(super) fn run(
        self,
        decision: ApprovalDecision,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        note!("`crealeph work {decision}` is deprecated; use `crealeph {decision}`");
        if self.reason.trim().is_empty() {
            return Err(
                ArgumentFailure::option_with_hint(self.reason, "a reason", "give it with --reason").into()
            );
        }
        let at = self.workspace.settle()?;
        if is_signed(&at)? {
            let run = self.found()?;
            let asked = AskedVerdict {
                decision,
                reason: Some(self.reason),
                is_sure: false,
                sign_with: None,
                write_statement: None,
                signed: None,
                by: self.by,
                workspace: Some(self.workspace),
            };
            return asked.run(&at, &run.to_string(), output);
        }
        let is_approved = decision == ApprovalDecision::Approve;
        let who = who(self.by.clone())?;
        let run = self.found()?;
        let work = self.workspace.open()?;
        let decided = work.decide(&run, RunVerdict::new(is_approved, who, self.reason))?;
        match self.workspace.at.json || !output.is_for_person() {
            true => output.json_line(&decided.result.to_json())?,
            false => output.page(&super::report::finished(&decided.result, &work.short_run(&run)?, ""))?,
        }
        Ok(if decided.has_landed == is_approved { CommandOutcome::Good } else { CommandOutcome::Bad })
    }

    fn found(&self) -> Result<Uuid, Failure> {
        let runs = super::named_run::open(&self.workspace)?;
        Ok(runs.find(Some(&self.run)).map_err(WorkError::from)?.run)
    }
}

/// Whether verdicts must be signed; a ledger that is not there yet has no one.
fn is_signed(at: &Settled) -> Result<bool, Failure> {
    Ok(is_unsigned_refused(&at.open_or_init()?, &at.tenant)?)
}

/// Carries out what people decided about held changes of this workspace while no one worked in it, and says so. What cannot land now stays
/// held.
pub(super) fn carry_out_verdicts(work: &Work) -> Result<Vec<Uuid>, Failure> {
    let mut carried_out = Vec::new();
    for DecidedChange { run, settled } in work.settle_decided()? {
        match settled {
            Ok(SettledRun::Decided(decided)) if decided.has_landed => {
                note!("run {run} was approved, and its change has landed");
                carried_out.push(run);
            }
            Ok(SettledRun::Decided(decided)) => {
                let result = &decided.result.result;
                let why = result.error.as_ref().or(result.denial_reason.as_ref());
                note!("run {run} did not land: {}", reason_in_words(why.map_or("", |why| why.as_str())));
                carried_out.push(run);
            }
            // Another process was faster, or a verdict lapsed.
            Ok(SettledRun::Waiting { .. }) | Err(WorkError::NotHeld(_)) => {}
            Err(error) => {
                note!("warning: {error}");
                error.hint().iter().for_each(|hint| note!("hint: {hint}"));
            }
        }
    }
    Ok(carried_out)
}

impl Recover {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let (work, recovery) = self.workspace.open_with_recovery()?;
        let decided = carry_out_verdicts(&work)?;
        let is_json = self.workspace.at.json || !output.is_for_person();
        if is_json {
            let texts = |runs: &[Uuid]| runs.iter().map(ToString::to_string).collect::<Vec<_>>();
            let kept = recovery.kept.iter().map(|file| json!({ "path": file.path, "keptIn": file.beside }));
            let summary = json!({
                "completed": texts(&recovery.completed),
                "interrupted": texts(&recovery.interrupted),
                "undone": recovery.undone,
                "kept": kept.collect::<Vec<_>>(),
                "recorded": recovery.recorded,
                "decided": texts(&decided),
            });
            output.report_line(&summary)?;
        } else if recovery.completed.is_empty()
            && recovery.interrupted.is_empty()
            && recovery.undone == 0
            && decided.is_empty()
        {
            output.line("nothing to recover")?;
        }
        Ok(CommandOutcome::Good)
    }
}
