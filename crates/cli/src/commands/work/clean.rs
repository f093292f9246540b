//! `crealeph work clean`: removes what old runs left next to their receipts.

use std::time::Duration;

use clap::Args;
use crealeph_runtime::work::{CleanedRuns, KeepRuns};
use serde_json::json;

use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::failure::Failure;
use crate::human_time;
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph work clean --dry-run
  crealeph work clean --older-than 2w
  crealeph work clean --keep 20

Deletes the diffs and agent outputs of older runs, and the states before and after them with the contents that no
newer run needs: such runs can no longer be replayed, exported, retried or undone. Changes kept for `work retry` are deleted when they
expire, whatever else is kept of their runs. Receipts and their chain, work items, results, held runs,
unfinished runs and the newest run stay complete, and so does what someone wrote at the moment of a publish
(`.crealeph/kept`). During a run, states and contents are left for the next time.

Exit codes: 0 done, 2 cannot be done.";

/// Delete the diffs, outputs and stored states of old runs; receipts are kept
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Clean {
    /// Keep the newest N runs
    #[arg(long, value_name = "N", conflicts_with = "older_than")]
    keep: Option<usize>,

    /// Clean runs that ended longer ago than this: a number with `s`, `m`, `h`, `d` or `w`
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = human_time::parse)]
    older_than: Duration,

    /// Only print what would be deleted
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Clean {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let keep = self.keep.map_or(KeepRuns::Within(self.older_than), KeepRuns::Newest);
        // Opening makes what a run needs; if there was no run, there is nothing to open and nothing to remove.
        let cleaned = match super::named_run::open(&self.workspace)?.count() == 0 {
            true => CleanedRuns::default(),
            false => self.workspace.open()?.clean(keep, self.dry_run)?,
        };
        let CleanedRuns { runs, states, contents, capsules, bytes, is_busy } = cleaned;
        if self.workspace.at.json || !output.is_for_person() {
            let summary = json!({
                "runs": runs,
                "states": states,
                "contents": contents,
                "capsules": capsules,
                "bytes": bytes,
                "isDryRun": self.dry_run,
                "isBusy": is_busy,
            });
            output.report_line(&summary)?;
        } else {
            let word = if self.dry_run { "would be removed" } else { "removed" };
            output.line(&format!(
                "{word}: diffs and outputs of {runs} runs, {states} states, {contents} contents, {capsules} kept changes; {bytes} bytes"
            ))?;
        }
        if is_busy {
            note!("a run is in progress; its states and contents are left for the next time");
        }
        Ok(CommandOutcome::Good)
    }
}
