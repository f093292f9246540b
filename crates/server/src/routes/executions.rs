//! The Builder: requests run, executions listed, shown, explained and replayed.

use axum::http::{HeaderValue, StatusCode, header};
use crealeph_contracts::builder::ErrorCode;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::{ExecutionId, Name, RobotId};
use crealeph_contracts::text::Shown;
use crealeph_contracts::{BuilderRequest, BuilderResponse, Valid};
use crealeph_decision::builder::Record;
use crealeph_ledger::{EXECUTION_EVENT, EntryPage, Filter, Order, StoredEntry};
use crealeph_runtime::builder::{
    self, Answer, Execution, ReplayList, ReplayReport, execution_json, reasons_json,
};
use crealeph_runtime::client::REASON_HEADER;
use crealeph_runtime::entries::{PageQuery, bounded_page, page_json};
use crealeph_runtime::report::{ExecutionListQuery, ExecutionPage, execution_page};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::robots;
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::settings::ServerBounds;

pub(super) const USUAL_PAGE: usize = 100;
/// How much of a reason a header holds, and what is encoded in it, in addition to all characters that are not ASCII.
const MAX_REASON_CHARS: usize = 1_000;
const IN_HEADER: &AsciiSet = &CONTROLS.add(b'%');

/// Runs a request and waits for the answer (R12). A decided answer is 200; an error that left nothing is 400, 409 or 422.
pub(super) fn run(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let rerun_of = call.identifier("rerunOf", ExecutionId::parse)?;
    let robot = robot_of_request(call)?;
    let builder = call.app.builder.acting_for(call.actor()?);
    let answer = builder.run(&who.tenant_id, &call.body, rerun_of.as_ref(), &call.app.cancel)?;
    Ok(answered_now(robot.as_ref(), &answer))
}

/// The robot that a request is for; `None` if the request is not valid, and then the Builder says what is wrong with it.
pub(super) fn robot_of_request(call: &Call) -> Result<Option<RobotId>, Problem> {
    let request = Valid::<BuilderRequest>::parse(&call.body, &Limits::outside(call.body.len()));
    let robot = request.ok().map(|request| request.robot_id.clone());
    match (&robot, call.who()?) {
        (Some(robot), who) if !who.covers(robot) => {
            let detail = "the request is for a robot that this key is not for";
            Err(Problem::new(ProblemKind::Forbidden, detail))
        }
        _ => Ok(robot),
    }
}

/// A part of a path.
pub(super) fn path_part(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A decided answer, with its reason in words: a request that left no record has none elsewhere.
pub(super) fn answered_now(robot: Option<&RobotId>, answer: &Answer) -> Reply {
    let mut reply = answered(robot, &answer.response);
    let reason = Shown::block(&answer.detail).at_most(MAX_REASON_CHARS).to_string();
    if let Ok(reason) = HeaderValue::try_from(utf8_percent_encode(&reason, IN_HEADER).to_string()) {
        reply.headers.insert(REASON_HEADER, reason);
    }
    reply
}

/// A decided answer, with a link to its reasons.
pub(super) fn answered(robot: Option<&RobotId>, response: &BuilderResponse) -> Reply {
    let mut reply = Reply::json(to_json(response));
    reply.status = status_of(response);
    if let (Some(robot), Some(execution)) = (robot, &response.execution_id) {
        let (robot, execution) = (path_part(robot.as_str()), path_part(execution.as_str()));
        let link = format!("</v1/executions/{robot}/{execution}/reasons>; rel=\"describedby\"");
        if let Ok(link) = HeaderValue::from_str(&link) {
            reply.headers.insert(header::LINK, link);
        }
    }
    reply
}

fn status_of(response: &BuilderResponse) -> StatusCode {
    match response.error {
        Some(ErrorCode::InvalidRequest) => StatusCode::BAD_REQUEST,
        Some(ErrorCode::IdempotencyConflict) => StatusCode::CONFLICT,
        Some(ErrorCode::SnapshotEmpty | ErrorCode::MissingLineage) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(ErrorCode::CoherenceBlocked | ErrorCode::ModelOutputInvalid) | None => StatusCode::OK,
    }
}

pub(super) fn list(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json(page_json(&page(call, call.limit(USUAL_PAGE)?)?)))
}

/// A page of the matching events, newest first.
fn page(call: &Call, limit: usize) -> Result<EntryPage, Problem> {
    let Some(asked) = executions_asked(call, limit)? else {
        return Ok(EntryPage { entries: Vec::new(), next: None });
    };
    let ExecutionListQuery { robot_id, state, cursor, limit, max_bytes } = asked;
    let kind = Some(Name::parse(EXECUTION_EVENT).map_err(|_| unnamed_state())?);
    let filter = Filter { robot_id, kind, state, ..Filter::default() };
    let query = PageQuery { filter, order: Order::NewestFirst, cursor, limit, max_bytes };
    let who = call.who()?;
    Ok(bounded_page(call.ledger(), &who.tenant_id, &query, |entry| who.sees(entry))?)
}

/// A page of executions by their newest events; of a state, those that are in it now.
pub(crate) fn current(call: &Call, limit: usize) -> Result<ExecutionPage, Problem> {
    let who = call.who()?;
    match executions_asked(call, limit)? {
        Some(query) => Ok(execution_page(call.ledger(), &who.tenant_id, &query, |entry| who.sees(entry))?),
        None => Ok(ExecutionPage::default()),
    }
}

/// Which executions are asked for; `None` if their robot is not one that the key may see.
fn executions_asked(call: &Call, limit: usize) -> Result<Option<ExecutionListQuery>, Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    let state = match call.text("state").map(ExecutionState::parse) {
        Some(None) => return Err(Problem::parameter("state", "is not a state of an execution")),
        Some(Some(state)) => Some(Name::parse(state.as_str()).map_err(|_| unnamed_state())?),
        None => None,
    };
    let query = ExecutionListQuery {
        robot_id: asked.clone().or_else(|| who.robot_id.clone()),
        state,
        cursor: call.cursor()?,
        limit,
        max_bytes: ServerBounds::size(call.bounds().max_page_bytes),
    };
    Ok(asked.is_none_or(|robot| who.covers(&robot)).then_some(query))
}

fn unnamed_state() -> Problem {
    Problem::parameter("state", "is not a valid name")
}

pub(super) fn show(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json(execution_json(&found(call)?)))
}

pub(super) fn reasons(call: &Call) -> Result<Reply, Problem> {
    let records = records(call)?;
    let (_, record) = records.last().ok_or_else(|| Problem::unknown_id("attempt"))?;
    Ok(Reply::json_of(&reasons_json(record)))
}

pub(super) fn replay(call: &Call) -> Result<Reply, Problem> {
    let tenant = &call.who()?.tenant_id;
    let mut replays = Vec::new();
    for (entry, record) in records(call)? {
        let checks = builder::replay(call.ledger(), tenant, &entry, &record)?;
        replays.push(ReplayReport::of(&record, &checks));
    }
    Ok(Reply::json_of(&ReplayList { replays }))
}

/// The execution that the path names.
fn found(call: &Call) -> Result<Execution, Problem> {
    let robot = robots::named(call)?;
    let unknown = || Problem::unknown_id("execution");
    let id = ExecutionId::parse(call.in_path("execution")?).map_err(|_| unknown())?;
    builder::execution(call.ledger(), &call.who()?.tenant_id, Some(&robot), &id)?.ok_or_else(unknown)
}

/// Its records: of one attempt, if requested.
fn records(call: &Call) -> Result<Vec<(StoredEntry, Record)>, Problem> {
    let attempt = call.number("attempt")?;
    let mut records = found(call)?.records;
    records.retain(|(_, record)| attempt.is_none_or(|attempt| record.attempt == attempt));
    match records.is_empty() {
        true => Err(Problem::unknown_id("attempt")),
        false => Ok(records),
    }
}
