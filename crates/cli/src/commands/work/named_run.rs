//! Runs to be looked at: how `show` and `diff` name one, its diff, and what it says to a program.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_runtime::work::{RunReader, RunSummary, RunsError, WorkError};
use serde::Serialize;

use super::evidence::mismatch;
use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::failure::Failure;
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph work status
  crealeph work show
  crealeph work show 0190a6f0 --diff
  crealeph work diff fix-parser

A run is named by its id, by the start of it, or by its item, whose newest run is meant; `@` is the newest run, `@-` the one
before. Without a name it is the newest.

Exit codes: 0 shown, 1 there is no such run, 2 cannot be shown.";

/// Show a run on one page: task, agent, change, tests, network, receipt
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// Run id or its start, `@-` for the one before the newest, or the id of its item [default: the newest]
    pub(super) run: Option<String>,

    /// Print what it changed, or what of it was discarded
    #[arg(long)]
    pub(super) diff: bool,

    #[command(flatten)]
    pub(super) workspace: WorkspaceArgs,
}

/// Print the diff of a run, including discarded changes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Diff {
    /// Run id or its start, `@-` for the one before the newest, or the id of its item [default: the newest]
    run: Option<String>,

    /// Print the exact bytes, even to a terminal
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Diff {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let reader = open(&self.workspace)?;
        let summary = reader.find(self.run.as_deref()).map_err(WorkError::from)?;
        print_diff(&reader, &summary, self.raw, output)?;
        output.flush()?;
        warned(&self.workspace, &reader, &summary)
    }
}

pub(super) fn print_diff(
    reader: &RunReader,
    summary: &RunSummary,
    is_raw: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let diff = reader.diff(&summary.run).map_err(WorkError::from)?;
    match diff.as_deref() {
        Some("") => note!("run {} changed nothing", reader.short(&summary.run)),
        Some(diff) if is_raw => output.exactly(diff)?,
        Some(diff) => output.document(diff)?,
        None => note!("no diff of run {} is kept", reader.short(&summary.run)),
    }
    Ok(())
}

/// Warns if what was shown is not what the run left.
pub(super) fn warned(
    workspace: &WorkspaceArgs,
    reader: &RunReader,
    summary: &RunSummary,
) -> Result<CommandOutcome, Failure> {
    let Some(what) = mismatch(workspace, reader, summary)? else { return Ok(CommandOutcome::Good) };
    let run = reader.short(&summary.run);
    note!("warning: this is not what run {run} left: {what}; see `crealeph work verify`");
    Ok(CommandOutcome::Bad)
}

/// The folder that an argument names: one that is there, else that of a run of this workspace. What names neither is left as it is.
pub(super) fn named_folder(workspace: &WorkspaceArgs, named: &Path) -> Result<PathBuf, Failure> {
    let Some(word) = named.to_str().filter(|_| !named.exists()) else { return Ok(named.to_owned()) };
    let reader = open(workspace)?;
    match reader.find(Some(word)) {
        Ok(summary) => Ok(reader.folder(&summary.run)),
        Err(RunsError::Unknown(_) | RunsError::NoneYet) => Ok(named.to_owned()),
        Err(error) => Err(WorkError::from(error).into()),
    }
}

pub(in crate::commands) fn open(workspace: &WorkspaceArgs) -> Result<RunReader, Failure> {
    Ok(RunReader::open(&workspace.folder()?).map_err(WorkError::from)?)
}

/// A run as a program gets it.
#[derive(Serialize)]
pub(super) struct RunLine<'s> {
    run: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'s str>,
    status: &'s str,
    at: &'s str,
    started_at: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<VerdictLine<'s>>,
}

#[derive(Serialize)]
struct VerdictLine<'s> {
    verdict: &'static str,
    who: &'s str,
    why: &'s str,
    at: &'s str,
}

impl<'s> RunLine<'s> {
    pub(super) fn new(summary: &'s RunSummary) -> RunLine<'s> {
        RunLine {
            run: summary.run.to_string(),
            id: summary.item.as_ref().map(|item| item.as_str()),
            agent: summary.agent.as_deref(),
            status: summary.state.as_str(),
            at: summary.at.as_str(),
            started_at: summary.started_at.as_str(),
            verdict: summary.verdict.as_ref().map(|verdict| VerdictLine {
                verdict: if verdict.is_approved { "approved" } else { "rejected" },
                who: &verdict.who,
                why: &verdict.why,
                at: verdict.at.as_str(),
            }),
        }
    }
}
