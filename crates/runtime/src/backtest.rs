//! Re-evaluating recorded decisions under other rules, for `crealeph policy backtest` and the server.

use std::borrow::Cow;

use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{Name, RobotId, TenantId};
use crealeph_decision::builder::replay::{Check, replay_under};
use crealeph_decision::builder::{EXECUTION_RECORD, Record};
use crealeph_decision::policy::Rules;
use crealeph_ledger::{Cursor, Filter, Ledger, Order};
use serde::{Deserialize, Serialize};

use crate::builder::{BuildError, execution_of_record, snapshot_of};

/// How many records are read at a time.
const PAGE: usize = 200;

/// Which decisions are looked at.
#[derive(Clone, Debug, Default)]
pub struct BacktestScope {
    /// Only of this robot.
    pub robot_id: Option<RobotId>,
    /// Only those recorded at or after this.
    pub since: Option<Instant>,
    /// In which order, which matters if it is cut.
    pub order: Order,
    /// Where an earlier one was cut.
    pub cursor: Option<Cursor>,
}

/// A decision that would be another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlippedDecision {
    /// The execution.
    pub execution_id: String,
    /// Its attempt.
    pub attempt: u64,
    /// Its robot.
    pub robot_id: String,
    /// What would change.
    pub flips: Vec<DecisionFlip>,
}

/// What would change about a decision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct DecisionFlip {
    /// `decision` or `gate`.
    pub what: Cow<'static, str>,
    /// As it was recorded.
    pub from: String,
    /// As it would be.
    pub to: String,
}

/// How many decisions were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct BacktestTotals {
    /// Decisions that were derived again.
    pub decisions: u64,
    /// Those that would flip.
    pub flips: u64,
    /// Records that could not be read.
    pub unreadable: u64,
}

/// What a part of a backtest found, as a server answers it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct BacktestReport {
    /// The decisions that would flip.
    pub flipped: Vec<FlippedDecision>,
    /// How many were looked at.
    pub totals: BacktestTotals,
    /// Which bound ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cow<'static, str>>,
    /// Where to continue, if it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What a backtest found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacktestSummary {
    /// How many.
    pub totals: BacktestTotals,
    /// Where to continue, if it was cut.
    pub next: Option<Cursor>,
    /// When the last decision that was looked at was recorded.
    pub reached: Option<Instant>,
}

/// Derives recorded decisions again under other rules, which `rules_of` gives for each robot, and gives each that would flip to `found`.
/// Before each one `goes_on` decides, from the totals so far, whether to continue.
///
/// # Errors
/// When the ledger cannot be read, or there are no rules for a robot.
pub fn backtest<'r, E: From<BuildError>>(
    ledger: &Ledger,
    tenant: &TenantId,
    rules_of: impl Fn(&RobotId) -> Result<Cow<'r, Rules>, E>,
    scope: &BacktestScope,
    mut goes_on: impl FnMut(&BacktestTotals) -> bool,
    mut found: impl FnMut(FlippedDecision),
) -> Result<BacktestSummary, E> {
    let filter = Filter {
        robot_id: scope.robot_id.clone(),
        kind: Some(Name::from(EXECUTION_RECORD)),
        from: scope.since,
        ..Filter::default()
    };
    let (mut totals, mut cursor, mut reached) = (BacktestTotals::default(), scope.cursor, None);
    loop {
        let page = ledger.list(tenant, &filter, scope.order, cursor, PAGE).map_err(BuildError::from)?;
        for entry in &page.entries {
            if !goes_on(&totals) {
                let before = match scope.order {
                    Order::OldestFirst => entry.seq.previous(),
                    Order::NewestFirst => entry.seq.next(),
                };
                return Ok(BacktestSummary { totals, next: Some(Cursor::after(before)), reached });
            }
            reached = Some(entry.created_at.instant());
            let Some(record) = Record::read(&entry.content.payload) else {
                totals.unreadable += 1;
                continue;
            };
            totals.decisions += 1;
            let rules = rules_of(&record.request.robot_id)?;
            let snapshot = snapshot_of(ledger, tenant, &record).map_err(BuildError::from)?;
            let flips = flips(&replay_under(tenant, &record, snapshot, &rules).map_err(BuildError::from)?);
            if !flips.is_empty() {
                totals.flips += 1;
                found(FlippedDecision {
                    execution_id: execution_of_record(&record).to_owned(),
                    attempt: record.request.attempt.get(),
                    robot_id: record.request.robot_id.to_string(),
                    flips,
                });
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(BacktestSummary { totals, next: None, reached });
        }
    }
}

fn flips(checks: &[Check]) -> Vec<DecisionFlip> {
    let flipped = checks.iter().filter(|check| matches!(check.what, "decision" | "gate") && !check.is_same());
    let flip = |check: &Check| DecisionFlip {
        what: check.what.into(),
        from: check.recorded.clone(),
        to: check.derived.clone(),
    };
    flipped.map(flip).collect()
}
