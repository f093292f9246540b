//! `crealeph policy backtest`: re-evaluates every recorded decision under candidate rules and lists those that would flip. Streams:
//! one page of records at a time.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::RobotId;
use crealeph_ledger::Order;
use crealeph_runtime::backtest::{
    BacktestReport, BacktestScope, BacktestSummary, BacktestTotals, FlippedDecision, backtest,
};
use serde_json::Value;

use super::CommandOutcome;
use super::ledger::{At, named};
use super::on_ledger::Opened;
use super::place::{Place, RemoteLog};
use super::policy::read_rules;
use crate::failure::{ArgumentFailure, Failure};
use crate::input::{DEFAULT_MAX_BYTES, Source};
use crate::output::Output;
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  crealeph policy backtest --thresholds stricter.toml
  crealeph policy backtest --thresholds stricter.toml --since 2026-03-01T00:00:00Z --json

The file is a rules file (see `crealeph policy --help`); its [coherence] is ignored, since the snapshots are those that were
recorded. Each decision that would flip is one line; the last line has the totals.

Exit codes: 0 nothing flips, 1 something does, 2 cannot be evaluated.";

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

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let (_, rules) = read_rules(Some(self.thresholds.clone()))?;
        let since = self
            .since
            .map(|text| Instant::parse(&text).map_err(|why| ArgumentFailure::BadInstant(text, why)));
        let scope = BacktestScope {
            robot_id: self.robot.map(|name| named("robot", &name, RobotId::parse)).transpose()?,
            since: since.transpose()?,
            order: Order::OldestFirst,
            cursor: None,
        };
        let at = self.at.place()?;
        let is_json = at.is_json(output);
        if let (Place::Server(remote), None) = (&at, &self.from) {
            let totals = ask(remote, self.thresholds, &scope, |found| show(&found, is_json, output))?;
            return conclude(totals, is_json, output);
        }
        let Opened { log, .. } = &Opened::new(&at, self.from.as_deref(), output)?;
        let (ledger, tenant) = log.ledger()?;
        let mut progress = Progress::beside("decisions", output);
        let mut shown = Ok(());
        let goes_on = |_: &BacktestTotals| {
            progress.step(1);
            true
        };
        let show = |found: FlippedDecision| {
            let line = show(&found, is_json, output);
            if shown.is_ok() {
                shown = line;
            }
        };
        let same = |_: &RobotId| Ok::<_, Failure>(Cow::Borrowed(&rules));
        let BacktestSummary { totals, .. } = backtest(ledger, tenant, same, &scope, goes_on, show)?;
        shown?;
        drop(progress);
        conclude(totals, is_json, output)
    }
}

fn show(found: &FlippedDecision, is_json: bool, output: &mut Output) -> Result<(), Failure> {
    match is_json {
        true => output.report_line(found)?,
        false => output.line(&as_line(found))?,
    }
    Ok(())
}

fn conclude(totals: BacktestTotals, is_json: bool, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let BacktestTotals { decisions, flips, unreadable } = totals;
    match is_json {
        true => output.report_line(&totals)?,
        false => output.line(&format!(
            "{flips} of {decisions} decisions would flip; {unreadable} records could not be read"
        ))?,
    }
    Ok(if flips == 0 { CommandOutcome::Good } else { CommandOutcome::Bad })
}

/// Asks a server, part by part, until it has looked at every decision.
fn ask(
    remote: &RemoteLog,
    rules: PathBuf,
    scope: &BacktestScope,
    mut show: impl FnMut(FlippedDecision) -> Result<(), Failure>,
) -> Result<BacktestTotals, Failure> {
    let source = Source::new(Some(rules));
    let text = source.text(source.read_bounded(DEFAULT_MAX_BYTES)?)?;
    // It was read as rules before.
    let rules: Value = toml::from_str(&text).map_err(|_| source.failure(ErrorKind::InvalidData.into()))?;
    let mut totals = BacktestTotals::default();
    let mut next: Option<String> = None;
    loop {
        let query = [
            ("robot", scope.robot_id.as_ref().map(ToString::to_string)),
            ("since", scope.since.map(|since| since.to_string())),
            ("cursor", next.clone()),
        ];
        let answer = remote.client.ask(&["policy", "backtest"], &query, rules.to_string().as_bytes())?;
        let report: BacktestReport = answer.read()?;
        totals.decisions += report.totals.decisions;
        totals.flips += report.totals.flips;
        totals.unreadable += report.totals.unreadable;
        report.flipped.into_iter().try_for_each(&mut show)?;
        if report.next.is_some() && report.next == next {
            return Err(answer.refuse("its list does not advance").into());
        }
        next = report.next;
        if next.is_none() {
            return Ok(totals);
        }
    }
}

fn as_line(found: &FlippedDecision) -> String {
    let FlippedDecision { execution_id, attempt, robot_id, flips } = found;
    let changes: Vec<String> =
        flips.iter().map(|flip| format!("{} from {} to {}", flip.what, flip.from, flip.to)).collect();
    format!("{execution_id} attempt {attempt}, robot {robot_id}: {}", changes.join("; "))
}
