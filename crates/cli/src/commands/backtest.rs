//! `crealeph policy backtest`: every recorded decision again under candidate rules, and those that would flip. Streams:
//! one page of records at a time.

use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::RobotId;
use crealeph_runtime::backtest::{BacktestScope, BacktestSummary, BacktestTotals, FlippedDecision, backtest};

use super::Verdict;
use super::ledger::{At, named};
use super::on_ledger::Opened;
use super::policy::read_rules;
use crate::failure::{ArgumentFailure, Failure};
use crate::output::Output;
use crate::progress::Progress;

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

impl Backtest {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let (_, rules) = read_rules(Some(self.thresholds))?;
        let since = self
            .since
            .map(|text| Instant::parse(&text).map_err(|why| ArgumentFailure::BadInstant(text, why)));
        let scope = BacktestScope {
            robot_id: self.robot.map(|name| named("robot", &name, RobotId::parse)).transpose()?,
            since: since.transpose()?,
            cursor: None,
        };
        let at = self.at.place()?;
        let Opened { log, .. } = &Opened::new(&at, self.from.as_deref(), output)?;
        let (ledger, tenant) = log.ledger()?;
        let is_json = at.is_json(output);
        let mut progress = Progress::beside("decisions", output);
        let mut shown = Ok(());
        let goes_on = |_: &BacktestTotals| {
            progress.step(1);
            true
        };
        let show = |found: FlippedDecision| {
            let line = match is_json {
                true => output.report_line(&found),
                false => output.line(&as_line(&found)),
            };
            if shown.is_ok() {
                shown = line;
            }
        };
        let BacktestSummary { totals, .. } = backtest(ledger, tenant, &rules, &scope, goes_on, show)?;
        shown?;
        drop(progress);
        let BacktestTotals { decisions, flips, unreadable } = totals;
        match is_json {
            true => output.report_line(&totals)?,
            false => output.line(&format!(
                "{flips} of {decisions} decisions would flip; {unreadable} records could not be read"
            ))?,
        }
        Ok(if flips == 0 { Verdict::Good } else { Verdict::Bad })
    }
}

fn as_line(found: &FlippedDecision) -> String {
    let FlippedDecision { execution_id, attempt, robot_id, flips } = found;
    let changes: Vec<String> =
        flips.iter().map(|flip| format!("{} from {} to {}", flip.what, flip.from, flip.to)).collect();
    format!("{execution_id} attempt {attempt}, robot {robot_id}: {}", changes.join("; "))
}
