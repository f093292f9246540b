//! Sessions of the console: listed, ended.

use crealeph_contracts::scalar::KeyId;
use crealeph_decision::access::Permission;
use crealeph_runtime::access::{SessionReport, end_session, list_sessions};
use serde_json::json;

use super::{CURSOR, LIMIT, SESSION, answer};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Handler, RobotScope, Route, Verb};

const USUAL_PAGE: usize = 100;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Verb::Get,
        path: "/v1/sessions",
        name: "listSessions",
        summary: "List the console's sessions that count, the newest first",
        access: Access::Key(Permission::SeeGrants, RobotScope::Refused),
        parameters: &[LIMIT, CURSOR],
        body: None,
        answer: answer(
            "a page of sessions; it may have fewer than `limit` although there are more",
            "SessionPage",
        ),
        problems: &[],
        handler: Handler::Blocking(list),
    },
    Route {
        method: Verb::Delete,
        path: "/v1/sessions/{id}",
        name: "endSession",
        summary: "End a session of the console, at once and on every server",
        access: Access::Key(Permission::ManageKeys, RobotScope::Refused),
        parameters: &[SESSION],
        body: None,
        answer: answer("the session", "Session"),
        problems: &[],
        handler: Handler::Blocking(end),
    },
];

fn list(call: &Call) -> Result<Reply, Problem> {
    let (cursor, limit) = (call.cursor()?, call.limit(USUAL_PAGE)?);
    let (sessions, next) = list_sessions(call.ledger(), &call.who()?.tenant_id, cursor, limit)?;
    Ok(Reply::json_of(&match next {
        Some(next) => json!({ "sessions": sessions, "next": next.to_string() }),
        None => json!({ "sessions": sessions }),
    }))
}

fn end(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&ended(call)?))
}

/// Ends the session that is named.
pub(crate) fn ended(call: &Call) -> Result<SessionReport, Problem> {
    let id = KeyId::parse(call.in_path("id")?).map_err(|_| Problem::unknown_id("session"))?;
    Ok(end_session(&call.acting_ledger()?, &call.who()?.tenant_id, &id)?)
}
