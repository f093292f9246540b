//! `crealeph work approve` and `reject`: a person's verdict on a held change; and `recover`.

use clap::Args;
use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::work::{RunVerdict, WorkError};
use serde_json::json;

use super::workspace_args::WorkspaceArgs;
use crate::commands::Verdict;
use crate::failure::{ArgumentFailure, Failure};
use crate::input::who;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph work diff 0190a6f0
  crealeph work approve 0190a6f0 --reason 'reviewed with Ben'
  crealeph work reject 0190a6f0 --by ana --reason 'wrong place'

An approved change is tested again if the workspace, or the branch it goes to, has moved since, and lands whole or not at
all. Who decided what, and when, is in the ledger.

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

    pub(super) fn run(self, is_approved: bool, output: &mut Output) -> Result<Verdict, Failure> {
        let who = who(self.by)?;
        if self.reason.trim().is_empty() {
            return Err(
                ArgumentFailure::option_with_hint(self.reason, "a reason", "give it with --reason").into()
            );
        }
        let run =
            super::named_run::open(&self.workspace)?.find(Some(&self.run)).map_err(WorkError::from)?.run;
        let work = self.workspace.open()?;
        let decided = work.decide(&run, RunVerdict::new(is_approved, who, self.reason))?;
        match self.workspace.at.json || !output.is_for_person() {
            true => output.json_line(&decided.result.to_json())?,
            false => output.page(&super::report::finished(&decided.result, &work.short_run(&run)?, ""))?,
        }
        Ok(if decided.has_landed == is_approved { Verdict::Good } else { Verdict::Bad })
    }
}

impl Recover {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let (_, recovery) = self.workspace.open_with_recovery()?;
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
            });
            output.report_line(&summary)?;
        } else if recovery.completed.is_empty() && recovery.interrupted.is_empty() && recovery.undone == 0 {
            output.line("nothing was left to settle")?;
        }
        Ok(Verdict::Good)
    }
}
