//! Showing a run: how `show` and `diff` name one, its diff, and its JSON.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_runtime::report::RunRow;
use crealeph_runtime::work::{RunReader, RunSummary, RunsError, WorkError};
use serde::Serialize;

use super::evidence::mismatch;
use super::remote_runs::RemoteRuns;
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
  crealeph --server https://crealeph.example.com work show @-

A run is named by its id, by the start of it, or by its item, whose newest run is meant; `@` is the newest run, `@-` the one
before. Without a name it is the newest. With --server it is a run of the server: of its own workspace, recorded in its ledger or
reported to it.

Exit codes: 0 shown, 1 there is no such run, 2 cannot be shown.";

/// Show a run on one page: task, agent, change, tests, network, receipt
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// Run id or its start, `@-` for the one before the newest, or the id of its item [default: the newest]
    pub(super) run: Option<String>,

    /// Print its diff too, including discarded changes
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
        if let Some(server) = RemoteRuns::named(&self.workspace)? {
            let run = server.find(self.run.as_deref())?;
            print_diff(Some(&server.diff(&run)?), &server.short(&run)?, self.raw, output)?;
            return Ok(CommandOutcome::Good);
        }
        let reader = open(&self.workspace)?;
        let summary = reader.find(self.run.as_deref()).map_err(WorkError::from)?;
        print_kept_diff(&reader, &summary, self.raw, output)?;
        output.flush()?;
        warned(&self.workspace, &reader, &summary)
    }
}

/// Prints the diff that a workspace keeps of a run.
pub(super) fn print_kept_diff(
    reader: &RunReader,
    summary: &RunSummary,
    is_raw: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let diff = reader.diff(&summary.run).map_err(WorkError::from)?;
    print_diff(diff.as_deref(), &reader.short(&summary.run), is_raw, output)
}

/// Prints a diff; `run` is the short id of its run.
pub(super) fn print_diff(
    diff: Option<&str>,
    run: &str,
    is_raw: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    match diff {
        Some("") => note!("run {run} changed nothing"),
        Some(diff) if is_raw => output.exactly(diff)?,
        Some(diff) => output.document(diff)?,
        None => note!("no diff of run {run} is kept"),
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
    verdict: &'s str,
    who: &'s str,
    why: &'s str,
    at: &'s str,
}

impl<'s> RunLine<'s> {
    pub(super) fn new(row: &'s RunRow) -> RunLine<'s> {
        RunLine {
            run: row.run.to_string(),
            id: row.item.as_deref(),
            agent: row.agent.as_deref(),
            status: &row.outcome,
            at: &row.since,
            started_at: &row.started_at,
            verdict: row.verdict.as_ref().map(|verdict| VerdictLine {
                verdict: &verdict.decision,
                who: &verdict.by,
                why: &verdict.reason,
                at: &verdict.at,
            }),
        }
    }
}
