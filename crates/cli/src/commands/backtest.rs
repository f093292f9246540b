//! `crealeph policy backtest`: every recorded decision again under candidate rules, and those that would flip. Streams:
//! one page of records at a time.

use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{Name, RobotId};
use crealeph_decision::builder::replay::{Check, replay_under};
use crealeph_decision::builder::{EXECUTION_RECORD, Record};
use crealeph_ledger::{Filter, Order};
use crealeph_runtime::builder::snapshot_of;
use serde_json::json;

use super::Verdict;
use super::ledger::{At, named};
use super::on_ledger::Opened;
use super::policy::read_rules;
use crate::failure::{ArgumentFailure, Failure};
use crate::output::Output;
use crate::progress::Progress;

const PAGE: usize = 200;

const EXAMPLES: &str = "\
Examples:
  crealeph policy backtest --thresholds stricter.toml
  crealeph policy backtest --thresholds stricter.toml --since 2026-03-01T00:00:00Z --json

The file is a rules file (see `crealeph policy --help`); its [coherence] is not asked, since the snapshots are those that were
recorded. Each decision that would flip is one line, the totals are the last.

Exit codes: 0 nothing flips, 1 something does, 2 cannot be judged.";

/// Re-evaluate recorded decisions under other rules, and list those that change
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Backtest {
    /// Candidate rules file, TOML
    #[arg(long, value_name = "FILE")]
    thresholds: PathBuf,

    /// Read an export (`crealeph ledger export`) instead of a ledger
    #[arg(long, value_name = "EXPORT")]
    from: Option<PathBuf>,

    /// Only runs recorded at or after this time
    #[arg(long, value_name = "INSTANT")]
    since: Option<String>,

    /// Only runs of this robot
    #[arg(long)]
    robot: Option<String>,

    #[command(flatten)]
    at: At,
}

#[derive(Debug, Default)]
struct Totals {
    decisions: u64,
    flips: u64,
    unreadable: u64,
}

impl Backtest {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let (_, rules) = read_rules(Some(self.thresholds))?;
        let since = self
            .since
            .map(|text| Instant::parse(&text).map_err(|why| ArgumentFailure::BadInstant(text, why)));
        let filter = Filter {
            robot_id: self.robot.map(|name| named("robot", &name, RobotId::parse)).transpose()?,
            kind: Some(Name::from(EXECUTION_RECORD)),
            from: since.transpose()?,
            ..Filter::default()
        };
        let at = self.at.settle()?;
        let Opened { ledger, tenant, .. } = &Opened::new(&at, self.from.as_deref(), output)?;
        let is_json = at.is_json(output);
        let mut progress = Progress::beside("decisions", output);
        let (mut totals, mut cursor) = (Totals::default(), None);
        loop {
            let page = ledger.list(tenant, &filter, Order::OldestFirst, cursor, PAGE)?;
            for entry in &page.entries {
                progress.step(1);
                let Some(record) = Record::read(&entry.content.payload) else {
                    totals.unreadable += 1;
                    continue;
                };
                totals.decisions += 1;
                let snapshot = snapshot_of(ledger, tenant, &record)?;
                let checks = replay_under(tenant, &record, snapshot, &rules)
                    .map_err(crealeph_runtime::builder::BuildError::from)?;
                let flipped: Vec<&Check> = checks
                    .iter()
                    .filter(|check| matches!(check.what, "decision" | "gate") && !check.is_same())
                    .collect();
                if !flipped.is_empty() {
                    totals.flips += 1;
                    match is_json {
                        true => output.report_line(&as_json(&record, &flipped))?,
                        false => output.line(&as_line(&record, &flipped))?,
                    }
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        drop(progress);
        let Totals { decisions, flips, unreadable } = totals;
        match is_json {
            true => {
                let totals = json!({ "decisions": decisions, "flips": flips, "unreadable": unreadable });
                output.report_line(&totals)?;
            }
            false => output.line(&format!(
                "{flips} of {decisions} decisions would flip; {unreadable} records could not be read"
            ))?,
        }
        Ok(if flips == 0 { Verdict::Good } else { Verdict::Bad })
    }
}

fn as_json(record: &Record, flipped: &[&Check]) -> serde_json::Value {
    let execution = record.request.execution_id.as_ref().map_or("-", |id| id.as_str());
    let (robot, attempt) = (record.request.robot_id.as_str(), record.request.attempt.get());
    let changes: Vec<serde_json::Value> = flipped
        .iter()
        .map(|check| json!({ "what": check.what, "from": check.recorded, "to": check.derived }))
        .collect();
    json!({ "executionId": execution, "attempt": attempt, "robotId": robot, "flips": changes })
}

fn as_line(record: &Record, flipped: &[&Check]) -> String {
    let execution = record.request.execution_id.as_ref().map_or("-", |id| id.as_str());
    let (robot, attempt) = (record.request.robot_id.as_str(), record.request.attempt.get());
    let changes: Vec<String> = flipped
        .iter()
        .map(|check| format!("{} from {} to {}", check.what, check.recorded, check.derived))
        .collect();
    format!("{execution} attempt {attempt}, robot {robot}: {}", changes.join("; "))
}
