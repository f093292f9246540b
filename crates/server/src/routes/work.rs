//! Work runs as the log has them: listed, shown, verified, with diff and logs as far as they are here; and receipts that were made
//! elsewhere, taken from signers that an admin enrolled.

use crealeph_contracts::reported::ReceiptReport;
use crealeph_contracts::scalar::{Name, RobotId};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::access::Permission;
use crealeph_runtime::entries::AppendedReport;
use crealeph_runtime::receipts::{
    LoggedRun, LoggedRunReport, RunLogQuery, record_report, run_of_log, runs_of_log,
};
use serde_json::json;

use super::{CURSOR, LIMIT, answer, in_path, query};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{
    Access, AnswerShape, Handler, Parameter, ParameterKind, RequestBody, RobotScope, Route, Verb,
};
use crate::schemas::Schema;
use crate::settings::ServerBounds;

const USUAL_PAGE: usize = 100;
/// The media type of a diff.
const DIFF_TYPE: &str = "text/x-diff; charset=utf-8";
const RUN: Parameter = in_path("id", ParameterKind::Identifier, "the run's id, which is its receipt's");
const READ: Access = Access::Key(Permission::Read, RobotScope::Restricted);

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Verb::Get,
        path: "/v1/work/runs",
        name: "listRuns",
        summary: "List work runs that are over, newest first; reported ones are marked",
        access: READ,
        parameters: &[
            query("status", ParameterKind::Words(&["succeeded", "failed"]), "only those that ended so"),
            query("agent", ParameterKind::Identifier, "only of this agent, by its name or id"),
            query("since", ParameterKind::Instant, "recorded at or after this"),
            query("robot", ParameterKind::Identifier, "only of this robot"),
            LIMIT,
            CURSOR,
        ],
        body: None,
        answer: answer("a page; it may have fewer than asked for, and still `next`", "RunPage"),
        problems: &[],
        handler: Handler::Blocking(list),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}",
        name: "getRun",
        summary: "Get a run with its receipt and the signed statement, as they are recorded",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: answer("the run; `crealeph work verify` checks its documents", "Run"),
        problems: &[],
        handler: Handler::Blocking(show),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}/verify",
        name: "verifyRun",
        summary: "Verify the receipt of a run with the signers that the tenant has enrolled",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: answer(
            "what the check came to; `unproven` if no signer of its workspace is enrolled",
            "ReceiptProof",
        ),
        problems: &[],
        handler: Handler::Blocking(verify),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}/diff",
        name: "getRunDiff",
        summary: "Get what a run changed, if the ledger has it",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: AnswerShape {
            status: axum::http::StatusCode::OK,
            about: "the diff, in unified form; 404 says where it is if it is not here",
            media_type: DIFF_TYPE,
            schema: Schema::Text,
            also: &[],
        },
        problems: &[],
        handler: Handler::Blocking(diff),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}/logs",
        name: "getRunLogs",
        summary: "Get what agent and tests of a run printed, if the ledger has it",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: answer(
            "the files, and those that were left out; 404 says where they are if none is here",
            "RunLogs",
        ),
        problems: &[],
        handler: Handler::Blocking(logs),
    },
    Route {
        method: Verb::Post,
        path: "/v1/work/receipts",
        name: "reportReceipt",
        summary: "Report a receipt that was made elsewhere, signed by an enrolled key",
        access: Access::Key(Permission::Report, RobotScope::Restricted),
        parameters: &[],
        body: Some(RequestBody {
            about: "The receipt, its signed statement, and files that the statement names, in base64. Sending it again is safe.",
            schema: Schema::Named("ReceiptReport"),
        }),
        answer: answer("the entry; it counts for no duplicate, dependency or approval here", "Appended"),
        problems: &[409, 422],
        handler: Handler::Blocking(report),
    },
];

fn list(call: &Call) -> Result<Reply, Problem> {
    let (runs, next) = page(call, call.limit(USUAL_PAGE)?)?;
    Ok(Reply::json_of(&match next {
        Some(next) => json!({ "runs": runs, "next": next }),
        None => json!({ "runs": runs }),
    }))
}

/// A page of the runs that the key may see, and where the next begins.
pub(crate) fn page(call: &Call, limit: usize) -> Result<(Vec<LoggedRunReport>, Option<String>), Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    let query = RunLogQuery {
        state: call.identifier("status", Name::parse)?,
        agent: call.identifier("agent", Name::parse)?.map(|agent| agent.as_str().to_owned()),
        since: call.instant("since")?,
        robot: asked.clone().or_else(|| who.robot_id.clone()),
        cursor: call.cursor()?,
        limit,
        max_bytes: ServerBounds::size(call.bounds().max_page_bytes),
    };
    let (runs, next) = match asked.is_some_and(|robot| !who.covers(&robot)) {
        true => (Vec::new(), None),
        false => runs_of_log(call.ledger(), &who.tenant_id, &query, |entry| who.sees(entry))?,
    };
    Ok((runs.iter().map(LoggedRun::report).collect(), next.map(|next| next.to_string())))
}

fn show(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json(named(call)?.json()))
}

fn verify(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&named(call)?.proof(call.ledger(), &call.who()?.tenant_id)?))
}

fn diff(call: &Call) -> Result<Reply, Problem> {
    let run = named(call)?;
    Ok(Reply::text(DIFF_TYPE, run.diff(call.ledger(), &call.who()?.tenant_id)?))
}

fn logs(call: &Call) -> Result<Reply, Problem> {
    let run = named(call)?;
    let files = run.logs()?.into_iter().map(|(name, text)| json!({ "name": name, "text": text }));
    Ok(Reply::json_of(&json!({ "files": files.collect::<Vec<_>>(), "leftOut": run.left_out() })))
}

fn report(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let report =
        ReceiptReport::parse(&call.body).map_err(|violations| Problem::invalid("invalid", violations))?;
    let appended = record_report(call.ledger(), &who.tenant_id, who.robot_id.as_ref(), &report)?;
    Ok(Reply::json_of(&AppendedReport::of(&appended)))
}

/// The run that the path names, if the key may see it.
pub(crate) fn named(call: &Call) -> Result<LoggedRun, Problem> {
    let who = call.who()?;
    let unknown = || Problem::unknown_id("run");
    let run = Uuid::parse(call.in_path("id")?).ok_or_else(unknown)?;
    run_of_log(call.ledger(), &who.tenant_id, &run, |entry| who.sees(entry))?.ok_or_else(unknown)
}
