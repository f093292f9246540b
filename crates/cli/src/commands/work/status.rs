//! `crealeph work status`, `show` and `diff`: runs, to be looked at.

use clap::Args;
use crealeph_contracts::json::ObjectWriter;
use crealeph_runtime::work::{Inspect, Summary, WorkError};

use super::evidence::mismatch;
use super::place::Place;
use crate::commands::Verdict;
use crate::failure::Failure;
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph work status
  crealeph work show
  crealeph work show 0190a6f0 --diff
  crealeph work diff fix-parser

A run is named by its id, by the start of it, or by its item, whose newest run is meant. Without a name it is the newest.

Exit codes: 0 shown, 1 there is no such run, 2 cannot be shown.";

/// List runs: finished, awaiting approval, running
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Status {
    /// Only the newest N
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    place: Place,
}

/// Show the result of a run
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// Run id [default: the newest]
    run: Option<String>,

    /// Print what it changed, or what of it was discarded
    #[arg(long)]
    diff: bool,

    #[command(flatten)]
    place: Place,
}

/// Print the diff of a run, including discarded changes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Diff {
    /// Run id [default: the newest]
    run: Option<String>,

    /// Print the exact bytes, even to a terminal
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    place: Place,
}

impl Status {
    pub(super) fn wants_json(&self) -> bool {
        self.place.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let inspect = open(&self.place)?;
        let all = inspect.all();
        let is_json = self.place.at.json || !output.is_for_person();
        let shown = all.get(all.len().saturating_sub(self.limit)..).unwrap_or_default();
        for summary in shown {
            match is_json {
                true => output.json_line(&as_json(summary))?,
                false => output.line(&format!(
                    "{}  {:<12} {}  {}",
                    summary.run,
                    summary.state.as_str(),
                    summary.at,
                    summary.item.as_deref().unwrap_or("(merge of a level)")
                ))?,
            }
        }
        if shown.is_empty() && !is_json {
            output.line("no run yet")?;
        }
        if shown.len() < all.len() {
            note!("{} older ones left out; see --limit", all.len() - shown.len());
        }
        Ok(Verdict::Good)
    }
}

impl Show {
    pub(super) fn wants_json(&self) -> bool {
        self.place.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let inspect = open(&self.place)?;
        let summary = inspect.find(self.run.as_deref()).map_err(WorkError::from)?;
        if self.diff {
            print_diff(&inspect, &summary, false, output)?;
            output.flush()?;
            return warned(&self.place, &inspect, &summary);
        }
        let result = inspect.result(&summary.run).map_err(WorkError::from)?;
        let is_json = self.place.at.json || !output.is_for_person();
        match result {
            Some(line) if is_json => output.json_line(&line)?,
            Some(line) => {
                let value = serde_json::from_str(&line).unwrap_or_default();
                output.page(&super::told::finished(&value, ""))?;
                if let Some(receipt) = inspect.receipt(&summary.run).map_err(WorkError::from)? {
                    output.page(&super::told::walls(&serde_json::from_str(&receipt).unwrap_or_default()))?;
                }
            }
            None => output.json_line(&as_json(&summary))?,
        }
        if let (Some(verdict), false) = (&summary.verdict, is_json) {
            let word = if verdict.is_approved { "approved" } else { "rejected" };
            output
                .line(&format!("  verdict  {word} by {} at {}: {}", verdict.who, verdict.at, verdict.why))?;
        }
        output.flush()?;
        warned(&self.place, &inspect, &summary)
    }
}

impl Diff {
    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let inspect = open(&self.place)?;
        let summary = inspect.find(self.run.as_deref()).map_err(WorkError::from)?;
        print_diff(&inspect, &summary, self.raw, output)?;
        output.flush()?;
        warned(&self.place, &inspect, &summary)
    }
}

fn print_diff(
    inspect: &Inspect,
    summary: &Summary,
    is_raw: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let diff = inspect.diff(&summary.run).map_err(WorkError::from)?;
    match diff.as_deref() {
        Some("") => note!("run {} changed nothing", summary.run),
        Some(diff) if is_raw => output.exactly(diff)?,
        Some(diff) => output.document(diff)?,
        None => note!("no diff of run {} is kept", summary.run),
    }
    Ok(())
}

/// Warns where what was shown is not what the run left.
fn warned(place: &Place, inspect: &Inspect, summary: &Summary) -> Result<Verdict, Failure> {
    let Some(what) = mismatch(place, inspect, summary)? else { return Ok(Verdict::Good) };
    note!("warning: this is not what run {} left: {what}; see `crealeph work verify`", summary.run);
    Ok(Verdict::Bad)
}

pub(super) fn open(place: &Place) -> Result<Inspect, Failure> {
    Ok(Inspect::open(&place.folder()?).map_err(WorkError::from)?)
}

fn as_json(summary: &Summary) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    object.text("run", &summary.run);
    if let Some(item) = &summary.item {
        object.text("id", item);
    }
    object.text("status", summary.state.as_str()).text("at", &summary.at);
    if let Some(verdict) = &summary.verdict {
        let mut inner = ObjectWriter::new(object.key("verdict"));
        inner.text("verdict", if verdict.is_approved { "approved" } else { "rejected" });
        inner.text("who", &verdict.who).text("why", &verdict.why).text("at", &verdict.at);
        inner.end();
    }
    object.end();
    text
}
