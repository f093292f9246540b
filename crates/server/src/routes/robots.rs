//! Robots: listed, their snapshots, how they stand. What the policy says of a question.

use crealeph_contracts::PolicyInput;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::RobotId;
use crealeph_decision::policy::evaluate;
use crealeph_decision::snapshot::Snapshot;
use crealeph_runtime::robot::{self, RobotSummary};
use crealeph_runtime::robot_report::{status_json, summary_json};
use serde_json::{Value, json};

use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;

const USUAL_PAGE: usize = 100;

pub(super) fn list(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let after = call.identifier("after", RobotId::parse)?;
    let (scopes, limit) = (&call.app.scopes, call.limit(USUAL_PAGE)?);
    let (robots, has_more): (Vec<RobotSummary>, bool) = match &who.robot_id {
        None => robot::robots(call.ledger(), &who.tenant_id, scopes, after.as_ref(), limit)?,
        Some(own) => {
            let is_listed = after.is_none_or(|after| after < *own);
            let own = robot::summary(call.ledger(), &who.tenant_id, scopes, own)?;
            (own.into_iter().filter(|_| is_listed).collect(), false)
        }
    };
    let next = robots.last().filter(|_| has_more).map(|last| last.robot_id.as_str().to_owned());
    let robots: Vec<Value> = robots.iter().map(summary_json).collect();
    Ok(Reply::json_of(&match next {
        Some(next) => json!({ "robots": robots, "next": next }),
        None => json!({ "robots": robots }),
    }))
}

/// The robot that the path names, if the key may see it.
pub(super) fn named(call: &Call) -> Result<RobotId, Problem> {
    // What cannot be a name is nobody's.
    let robot = RobotId::parse(call.in_path("robot")?).ok();
    let who = call.who()?;
    robot.filter(|robot| who.covers(robot)).ok_or_else(|| Problem::unknown_id("robot"))
}

pub(super) fn snapshot(call: &Call) -> Result<Reply, Problem> {
    let (who, robot) = (call.who()?, named(call)?);
    let rules = &call.app.scopes.of(&who.tenant_id, &robot).coherence;
    let facts = call.ledger().facts(&who.tenant_id, &robot, call.instant("at")?, rules)?;
    let Some(snapshot) = facts.and_then(|facts| Snapshot::derive(facts, rules)) else {
        let kind = ProblemKind::Other(axum::http::StatusCode::NOT_FOUND, "SNAPSHOT_EMPTY");
        return Err(Problem::new(kind, "no entry of this robot counts"));
    };
    Ok(Reply::json(snapshot.document()?.as_str().to_owned()))
}

pub(super) fn status(call: &Call) -> Result<Reply, Problem> {
    let (who, robot) = (call.who()?, named(call)?);
    let settings = call.app.scopes.of(&who.tenant_id, &robot);
    let status = robot::status(call.ledger(), &who.tenant_id, &robot, settings)?;
    if status.snapshot.is_none() && status.latest.is_empty() {
        return Err(Problem::unknown_id("robot"));
    }
    Ok(Reply::json_of(&status_json(&status)))
}

pub(super) fn evaluate_policy(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let input = Valid::<PolicyInput>::parse(&call.body, &Limits::outside(call.body.len()))
        .map_err(|violations| Problem::invalid("invalid", violations.as_slice().to_vec()))?;
    if input.tenant_id != who.tenant_id || !who.covers(&input.robot_id) {
        let detail = "the question is about a tenant or robot that this key is not for";
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    let rules = &call.app.scopes.of(&who.tenant_id, &input.robot_id).rules;
    Ok(Reply::json(to_json(&evaluate(&input, rules))))
}
