//! Runs to be looked at: how `show` and `diff` name one, its diff, and what it says to a program.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::json::ObjectWriter;
use crealeph_runtime::work::{RunReader, RunSummary, RunsError, WorkError};

use super::evidence::mismatch;
use super::workspace_args::WorkspaceArgs;
use crate::commands::Verdict;
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
    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
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
        Some("") => note!("run {} changed nothing", summary.run),
        Some(diff) if is_raw => output.exactly(diff)?,
        Some(diff) => output.document(diff)?,
        None => note!("no diff of run {} is kept", summary.run),
    }
    Ok(())
}

/// Warns if what was shown is not what the run left.
pub(super) fn warned(
    workspace: &WorkspaceArgs,
    reader: &RunReader,
    summary: &RunSummary,
) -> Result<Verdict, Failure> {
    let Some(what) = mismatch(workspace, reader, summary)? else { return Ok(Verdict::Good) };
    note!("warning: this is not what run {} left: {what}; see `crealeph work verify`", summary.run);
    Ok(Verdict::Bad)
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

pub(super) fn open(workspace: &WorkspaceArgs) -> Result<RunReader, Failure> {
    Ok(RunReader::open(&workspace.folder()?).map_err(WorkError::from)?)
}

pub(super) fn as_json(summary: &RunSummary) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    object.text("run", &summary.run.to_string());
    if let Some(item) = &summary.item {
        object.text("id", item.as_str());
    }
    if let Some(agent) = &summary.agent {
        object.text("agent", agent);
    }
    object.text("status", summary.state.as_str()).text("at", summary.at.as_str());
    object.text("started_at", summary.started_at.as_str());
    if let Some(verdict) = &summary.verdict {
        let mut inner = ObjectWriter::new(object.key("verdict"));
        inner.text("verdict", if verdict.is_approved { "approved" } else { "rejected" });
        inner.text("who", &verdict.who).text("why", &verdict.why).text("at", verdict.at.as_str());
        inner.end();
    }
    object.end();
    text
}
