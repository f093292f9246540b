//! `crealeph work status`, `show` and `diff`: runs, to be looked at.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::scalar::ItemId;
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

/// List runs: finished, awaiting approval, running
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Status {
    /// Only the newest N
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

/// Show the result of a run
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// Run id or its start, `@-` for the one before the newest, or the id of its item [default: the newest]
    run: Option<String>,

    /// Print what it changed, or what of it was discarded
    #[arg(long)]
    diff: bool,

    #[command(flatten)]
    workspace: WorkspaceArgs,
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

impl Status {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let reader = open(&self.workspace)?;
        let is_json = self.workspace.at.json || !output.is_for_person();
        let shown: Vec<RunSummary> = reader.all().take(self.limit).collect();
        for summary in &shown {
            match is_json {
                true => output.json_line(&as_json(summary))?,
                false => output.line(&format!(
                    "{}  {:<12} {}  {}",
                    reader.short(&summary.run),
                    summary.state.as_str(),
                    summary.at.as_str(),
                    summary.item.as_ref().map_or("(merge of a level)", ItemId::as_str)
                ))?,
            }
        }
        if shown.is_empty() && !is_json {
            output.line("no run yet")?;
        }
        if shown.len() < reader.count() {
            note!("{} older ones left out; see --limit", reader.count() - shown.len());
        }
        Ok(Verdict::Good)
    }
}

impl Show {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let reader = open(&self.workspace)?;
        let summary = reader.find(self.run.as_deref()).map_err(WorkError::from)?;
        if self.diff {
            print_diff(&reader, &summary, false, output)?;
            output.flush()?;
            return warned(&self.workspace, &reader, &summary);
        }
        let result = reader.result(&summary.run).map_err(WorkError::from)?;
        let is_json = self.workspace.at.json || !output.is_for_person();
        match result {
            Some(result) if is_json => output.json_line(&result.text)?,
            Some(result) => {
                match &result.value {
                    Some(result) => {
                        output.page(&super::report::finished(result, &reader.short(&summary.run), ""))?;
                    }
                    None => note!("the result of run {} cannot be read", summary.run),
                }
                if let Some(receipt) = reader.receipt(&summary.run).map_err(WorkError::from)? {
                    output.page(&super::report::walls(&receipt))?;
                }
            }
            None => output.json_line(&as_json(&summary))?,
        }
        if let (Some(verdict), false) = (&summary.verdict, is_json) {
            let word = if verdict.is_approved { "approved" } else { "rejected" };
            let (who, at, why) = (&verdict.who, verdict.at.as_str(), &verdict.why);
            output.line(&format!("  verdict  {word} by {who} at {at}: {why}"))?;
        }
        output.flush()?;
        warned(&self.workspace, &reader, &summary)
    }
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

fn print_diff(
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
fn warned(workspace: &WorkspaceArgs, reader: &RunReader, summary: &RunSummary) -> Result<Verdict, Failure> {
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

fn as_json(summary: &RunSummary) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    object.text("run", &summary.run.to_string());
    if let Some(item) = &summary.item {
        object.text("id", item.as_str());
    }
    object.text("status", summary.state.as_str()).text("at", summary.at.as_str());
    if let Some(verdict) = &summary.verdict {
        let mut inner = ObjectWriter::new(object.key("verdict"));
        inner.text("verdict", if verdict.is_approved { "approved" } else { "rejected" });
        inner.text("who", &verdict.who).text("why", &verdict.why).text("at", verdict.at.as_str());
        inner.end();
    }
    object.end();
    text
}
