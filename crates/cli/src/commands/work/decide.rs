//! `crealeph work approve` and `reject`: what a person says of a change that is held; and `recover`.

use clap::Args;
use crealeph_runtime::work::{Opinion, WorkError};
use serde_json::json;

use super::place::Place;
use crate::commands::Verdict;
use crate::failure::{ArgumentFailure, Failure};
use crate::input::who;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph work diff 0190a6f0
  crealeph work approve 0190a6f0 --reason 'reviewed with Ben'
  crealeph work reject 0190a6f0 --by ana --reason 'wrong place'

An approved change is tested again where the workspace, or the branch it goes to, has moved since, and lands whole or not at
all. Who said what, and when, is in the ledger.

Exit codes: 0 done, 1 the run does not wait, or its change could not land, 2 cannot be done.";

/// Who says what of a held change.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Decide {
    /// Run id, a prefix of it, or the id of its item
    run: String,

    /// Reason for the decision
    #[arg(long)]
    reason: String,

    /// Who decides [default: the user's name]
    #[arg(long)]
    by: Option<String>,

    #[command(flatten)]
    place: Place,
}

/// Recover after an interrupted command: finish or roll back what it left
#[derive(Debug, Args)]
pub(super) struct Recover {
    #[command(flatten)]
    place: Place,
}

impl Decide {
    pub(super) fn wants_json(&self) -> bool {
        self.place.at.json
    }

    pub(super) fn run(self, is_approved: bool, output: &mut Output) -> Result<Verdict, Failure> {
        let who = who(self.by)?;
        if self.reason.trim().is_empty() {
            return Err(
                ArgumentFailure::option_with_hint(self.reason, "a reason", "give it with --reason").into()
            );
        }
        let run = super::status::open(&self.place)?.find(Some(&self.run)).map_err(WorkError::from)?.run;
        let work = self.place.open()?;
        let opinion = Opinion { is_approved, who, why: self.reason };
        let (line, has_landed) = work.decide(&run, &opinion)?;
        match self.place.at.json || !output.is_for_person() {
            true => output.json_line(&line)?,
            false => {
                let value = serde_json::from_str(&line).unwrap_or_default();
                output.page(&super::told::finished(&value, ""))?;
            }
        }
        Ok(if has_landed == is_approved { Verdict::Good } else { Verdict::Bad })
    }
}

impl Recover {
    pub(super) fn wants_json(&self) -> bool {
        self.place.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let (_, recovered) = self.place.open_telling()?;
        let is_json = self.place.at.json || !output.is_for_person();
        if is_json {
            let kept: Vec<_> = recovered
                .kept
                .iter()
                .map(|(path, beside)| json!({ "path": path, "keptIn": beside }))
                .collect();
            let told = json!({
                "completed": recovered.completed,
                "interrupted": recovered.interrupted,
                "undone": recovered.undone,
                "kept": kept,
                "recorded": recovered.recorded,
            });
            output.report_line(&told)?;
        } else if recovered.completed.is_empty() && recovered.interrupted.is_empty() && recovered.undone == 0
        {
            output.line("nothing was left to settle")?;
        }
        Ok(Verdict::Good)
    }
}
