//! Robots: listed, their snapshots, their status. Policy evaluation.

use std::borrow::Cow;
use std::time::Instant;

use axum::http::StatusCode;
use bytes::Bytes;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::scalar::RobotId;
use crealeph_contracts::{PolicyInput, Report};
use crealeph_decision::policy::{Rules, RulesSource, evaluate};
use crealeph_decision::snapshot::Snapshot;
use crealeph_ledger::Order;
use crealeph_runtime::backtest::{BacktestReport, BacktestScope, BacktestSummary, BacktestTotals, backtest};
use crealeph_runtime::robot::{self, RobotSummary};
use crealeph_runtime::robot_report::{RobotPage, RobotStatusReport};

use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::{JSON_TYPE, Reply};
use crate::settings::ServerBounds;

/// How many decisions a backtest looks at by default.
const USUAL_DECISIONS: usize = 1_000;
/// What ends it before.
const BY_LIMIT: &str = "limit";
pub(crate) const BY_TIME: &str = "time";

const USUAL_PAGE: usize = 100;

pub(super) fn list(call: &Call) -> Result<Reply, Problem> {
    let (robots, has_more) = page(call, call.limit(USUAL_PAGE)?)?;
    Ok(Reply::json_of(&RobotPage::of(&robots, has_more)))
}

/// A page of the robots that the key may see, and whether there are more.
pub(crate) fn page(call: &Call, limit: usize) -> Result<(Vec<RobotSummary>, bool), Problem> {
    let who = call.who()?;
    let after = call.identifier("after", RobotId::parse)?;
    let scopes = &call.app.scopes;
    let (robots, has_more): (Vec<RobotSummary>, bool) = match &who.robot_id {
        None => robot::robots(call.ledger(), &who.tenant_id, scopes, after.as_ref(), limit)?,
        Some(own) => {
            let is_listed = after.is_none_or(|after| after < *own);
            let own = robot::summary(call.ledger(), &who.tenant_id, scopes, own)?;
            (own.into_iter().filter(|_| is_listed).collect(), false)
        }
    };
    Ok((robots, has_more))
}

/// The robot that the path names, if the key may see it.
pub(crate) fn named(call: &Call) -> Result<RobotId, Problem> {
    // What cannot be a name is no one's.
    let robot = RobotId::parse(call.in_path("robot")?).ok();
    let who = call.who()?;
    robot.filter(|robot| who.covers(robot)).ok_or_else(|| Problem::unknown_id("robot"))
}

/// The snapshot that was answered before, if nothing was written since.
pub(super) fn known_snapshot(call: &Call) -> Option<Result<Reply, Problem>> {
    if call.text("at").is_some() {
        return None;
    }
    let of = (call.who().ok()?.tenant_id.clone(), named(call).ok()?);
    let document = call.app.snapshots.get(&of, call.ledger().change_mark()?)?;
    Some(Ok(Reply::text(JSON_TYPE, document)))
}

pub(super) fn snapshot(call: &Call) -> Result<Reply, Problem> {
    let (who, robot) = (call.who()?, named(call)?);
    // Asked for first: what is written while the snapshot is derived is noticed the next time.
    let mark = call.ledger().change_mark().filter(|_| call.text("at").is_none());
    let rules = &call.app.scopes.of(&who.tenant_id, &robot).coherence;
    let facts = call.ledger().facts(&who.tenant_id, &robot, call.instant("at")?, rules)?;
    let Some(snapshot) = facts.and_then(|facts| Snapshot::derive(facts, rules)) else {
        let kind = ProblemKind::Other(StatusCode::NOT_FOUND, "SNAPSHOT_EMPTY");
        return Err(Problem::new(kind, "no entry of this robot counts"));
    };
    let document = Bytes::from(snapshot.document()?.as_str().to_owned());
    if let Some(mark) = mark {
        call.app.snapshots.put((who.tenant_id.clone(), robot), mark, document.clone());
    }
    Ok(Reply::text(JSON_TYPE, document))
}

pub(super) fn status(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&RobotStatusReport::of(&standing(call)?)))
}

/// How the robot that the path names stands.
pub(crate) fn standing(call: &Call) -> Result<robot::Status, Problem> {
    let (who, robot) = (call.who()?, named(call)?);
    let settings = call.app.scopes.of(&who.tenant_id, &robot);
    let status = robot::status(call.ledger(), &who.tenant_id, &robot, settings)?;
    if status.snapshot.is_none() && status.latest.is_empty() && !status.has_more_types {
        return Err(Problem::unknown_id("robot"));
    }
    Ok(status)
}

/// A decision takes microseconds, unless the question is large.
pub(super) fn evaluate_policy_now(call: &Call) -> Option<Result<Reply, Problem>> {
    call.is_small().then(|| evaluate_policy(call))
}

pub(super) fn evaluate_policy(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let input = Valid::<PolicyInput>::parse(&call.body, &Limits::outside(call.body.len()))
        .map_err(|violations| Problem::invalid("invalid", violations.as_slice().to_vec()))?;
    if input.tenant_id != who.tenant_id || !who.covers(&input.robot_id) {
        let detail = "the request is about a tenant or robot that this key is not for";
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    let rules = &call.app.scopes.of(&who.tenant_id, &input.robot_id).rules;
    Ok(Reply::json(to_json(&evaluate(&input, rules))))
}

pub(super) fn backtest_policy(call: &Call) -> Result<Reply, Problem> {
    let rules = rules_of_body(call)?;
    let found = backtested(call, Order::OldestFirst, |_| Ok(Cow::Borrowed(&rules)))?;
    Ok(Reply::json_of(&found.report))
}

/// A part of a backtest.
pub(crate) struct BacktestPart {
    pub report: BacktestReport,
    /// When the last decision that was looked at was recorded.
    pub reached: Option<crealeph_contracts::instant::Instant>,
}

/// Past decisions under other rules, which `rules_of` gives for each robot.
pub(crate) fn backtested<'r>(
    call: &Call,
    order: Order,
    rules_of: impl Fn(&RobotId) -> Result<Cow<'r, Rules>, Problem>,
) -> Result<BacktestPart, Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    let (since, cursor) = (call.instant("since")?, call.cursor()?);
    let limit = call.limit(USUAL_DECISIONS)? as u64;
    // What is left is for the answer.
    let end = Instant::now() + ServerBounds::time(call.bounds().request_timeout_ms) / 2;
    let is_seen = asked.as_ref().is_none_or(|robot| who.covers(robot));
    let scope = BacktestScope { robot_id: asked.or_else(|| who.robot_id.clone()), since, order, cursor };
    let (mut cut, mut flipped) = (None, Vec::new());
    let goes_on = |totals: &BacktestTotals| {
        cut = match totals.decisions + totals.unreadable {
            // At least one, so that the next one gets further.
            looked if looked >= limit => Some(BY_LIMIT),
            looked if looked > 0 && Instant::now() >= end => Some(BY_TIME),
            _ => None,
        };
        cut.is_none()
    };
    let found = match is_seen {
        false => BacktestSummary::default(),
        true => backtest(call.ledger(), &who.tenant_id, rules_of, &scope, goes_on, |one| flipped.push(one))?,
    };
    let BacktestSummary { totals, next, reached } = found;
    let next = next.map(|cursor| cursor.to_string());
    Ok(BacktestPart { report: BacktestReport { flipped, totals, cut: cut.map(Into::into), next }, reached })
}

/// The rules in a body: read strictly first, since a repeated key is an error here as everywhere.
fn rules_of_body(call: &Call) -> Result<Rules, Problem> {
    let (document, faults) = parse(&call.body, &Limits::outside(call.body.len()));
    if document.is_none() || !faults.is_empty() {
        let mut report = Report::default();
        faults.into_iter().for_each(|fault| report.add_fault(fault));
        return Err(Problem::invalid("invalid", report.into_violations()));
    }
    let kind = ProblemKind::Other(StatusCode::BAD_REQUEST, "bad_rules");
    let source: RulesSource = serde_json::from_slice(&call.body)
        .map_err(|why| Problem::new(kind, format!("the body does not contain rules: {why}")))?;
    Rules::load(&source).map_err(|why| Problem::new(kind, format!("the rules cannot be used: {why}")))
}
