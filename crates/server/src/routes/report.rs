//! What happened, for a person who was not there: the report of the command line, from the ledger alone.

use axum::http::{HeaderValue, header};
use crealeph_contracts::scalar::{ExecutionId, RobotId};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::access::Permission;
use crealeph_runtime::receipts::known_keys;
use crealeph_runtime::report::{
    ActivityReport, KeySource, MAX_DETAILS, ReportOrigin, ReportQuestion, ReportSource, ReportSubject,
    activity,
};

use super::{answer, operations::HTML_TYPE, query};
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::route::{Access, AnswerShape, Handler, Parameter, ParameterKind, RobotScope, Route, Verb};
use crate::schemas::Schema;
use crate::settings::ServerBounds;

const MARKDOWN_TYPE: &str = "text/markdown; charset=utf-8";
const USUAL_DETAILS: u64 = 10;
const READ: Access = Access::Key(Permission::Read, RobotScope::Restricted);
const PARAMETERS: &[Parameter] = &[
    query("run", ParameterKind::Identifier, "only this run, by its whole id"),
    query("execution", ParameterKind::Identifier, "only this execution"),
    query("robot", ParameterKind::Identifier, "only what was done for this robot"),
    query("since", ParameterKind::Instant, "only what was started at or after this"),
    query(
        "limit",
        ParameterKind::Number(0, MAX_DETAILS as u64),
        "how many of the newest are shown in full; the others are listed [default: 10]",
    ),
];

/// How reports are written for people.
#[derive(Clone, Copy, Debug)]
pub struct ReportRenderer {
    /// As Markdown.
    pub markdown: fn(&ActivityReport) -> String,
    /// As one HTML file that loads nothing.
    pub html: fn(&ActivityReport) -> String,
    /// The policy that the HTML is sent with: what it may load and run.
    pub content_security: &'static str,
}

const fn written(about: &'static str, media_type: &'static str) -> AnswerShape {
    AnswerShape { status: axum::http::StatusCode::OK, about, media_type, schema: Schema::Text, also: &[] }
}

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Verb::Get,
        path: "/v1/report",
        name: "getReport",
        summary: "Report what was requested, decided and changed, on which evidence, who approved it, and what is proved",
        access: READ,
        parameters: PARAMETERS,
        body: None,
        answer: answer("the report, as `crealeph report --json` writes it", "Report"),
        problems: &[404],
        handler: Handler::Blocking(document),
    },
    Route {
        method: Verb::Get,
        path: "/v1/report.html",
        name: "getReportPage",
        summary: "The same as one HTML file, which loads and runs nothing",
        access: READ,
        parameters: PARAMETERS,
        body: None,
        answer: written("the page", HTML_TYPE),
        problems: &[404],
        handler: Handler::Blocking(page),
    },
    Route {
        method: Verb::Get,
        path: "/v1/report.md",
        name: "getReportText",
        summary: "The same as Markdown",
        access: READ,
        parameters: PARAMETERS,
        body: None,
        answer: written("the text", MARKDOWN_TYPE),
        problems: &[404],
        handler: Handler::Blocking(text),
    },
];

fn document(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&made(call)?))
}

fn text(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::text(MARKDOWN_TYPE, (call.app.renderer.markdown)(&made(call)?)))
}

fn page(call: &Call) -> Result<Reply, Problem> {
    let renderer = call.app.renderer;
    let mut reply = Reply::text(HTML_TYPE, (renderer.html)(&made(call)?));
    let policy = HeaderValue::from_static(renderer.content_security);
    reply.headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(reply)
}

fn made(call: &Call) -> Result<ActivityReport, Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    if asked.as_ref().is_some_and(|robot| !who.covers(robot)) {
        return Err(Problem::unknown_id("robot"));
    }
    let robot = asked.or_else(|| who.robot_id.clone());
    let execution = call.identifier("execution", ExecutionId::parse)?;
    let subject = match (call.text("run"), execution) {
        (Some(_), Some(_)) => {
            return Err(Problem::new(ProblemKind::BadParameter, "`run` and `execution` exclude each other"));
        }
        // The start of an id would show which others there are.
        (Some(run), None) => match Uuid::parse(run) {
            Some(run) => ReportSubject::Run(run.to_string()),
            None => return Err(Problem::unknown_id("run")),
        },
        (None, Some(execution)) => ReportSubject::Execution(execution, robot.clone()),
        (None, None) => ReportSubject::Everything,
    };
    let details = ServerBounds::size(call.number("limit")?.unwrap_or(USUAL_DETAILS));
    about(call, ReportQuestion { subject, since: call.instant("since")?, robot, details })
}

/// The report that answers a question.
pub(crate) fn about(call: &Call, question: ReportQuestion) -> Result<ActivityReport, Problem> {
    let who = call.who()?;
    let keys = known_keys(call.ledger(), &who.tenant_id)?;
    let source = ReportSource {
        origin: ReportOrigin::Ledger,
        log: Some((call.ledger(), &who.tenant_id)),
        runs: None,
        signer: None,
        scopes: &call.app.scopes,
        keys: &keys,
        key_source: KeySource::Ledger,
    };
    let report = activity(&question, &source)?;
    match (&question.subject, report.runs.rows.is_empty(), report.executions.rows.is_empty()) {
        (ReportSubject::Run(_), true, _) => Err(Problem::unknown_id("run")),
        (ReportSubject::Execution(..), _, true) => Err(Problem::unknown_id("execution")),
        _ => Ok(report),
    }
}
