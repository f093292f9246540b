//! Usage, as agents reported it.

use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::RobotId;
use crealeph_decision::access::Permission;
use crealeph_runtime::usage::{UsageKey, UsageQuestion, UsageReport, usage};

use super::{answer, query};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Handler, ParameterKind, RobotScope, Route, Verb};

pub(super) const ROUTES: &[Route] = &[Route {
    method: Verb::Get,
    path: "/v1/usage",
    name: "getUsage",
    summary: "Sum up tokens and cost of work runs and executions, as their agents reported them",
    access: Access::Key(Permission::Read, RobotScope::Restricted),
    parameters: &[
        query("by", ParameterKind::Words(&UsageKey::NAMES), "what to group by [default: agent]"),
        query("from", ParameterKind::Instant, "recorded at or after this"),
        query("to", ParameterKind::Instant, "recorded at or before this"),
        query("robot", ParameterKind::Identifier, "only of this robot"),
    ],
    body: None,
    answer: answer("the sums; `isCut` if older entries were not read, and of which types in `cuts`", "Usage"),
    problems: &[],
    handler: Handler::Blocking(sum_up),
}];

fn sum_up(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&summed_up(call, (call.instant("from")?, call.instant("to")?))?))
}

/// What was used from one instant to another, as far as the key may see it.
pub(crate) fn summed_up(
    call: &Call,
    (from, to): (Option<Instant>, Option<Instant>),
) -> Result<UsageReport, Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    let by = match call.text("by") {
        Some(name) => UsageKey::parse(name).ok_or_else(|| Problem::parameter("by", "is not known"))?,
        None => UsageKey::default(),
    };
    let question = UsageQuestion { by, from, to, robot: asked.or_else(|| who.robot_id.clone()) };
    Ok(usage(call.ledger(), &who.tenant_id, &question, |entry| who.sees(entry))?)
}
