//! The console's routes: the path of each page, who may see it, and what it reads. Each page is an answer of the API, as HTML: it
//! reads through the same functions, and the crate `console` renders it. Forms are accepted only from the console's own pages.

mod find;
mod pages;
mod passkeys;
mod several;
mod sign_in;
mod work;

use axum::http::{HeaderValue, StatusCode, header};
use crealeph_console as view;
use crealeph_decision::access::Permission;
use crealeph_runtime::access::KeyIdentity;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::app::App;
use crate::call::{Call, MAX_TEXT_BYTES};
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::route::{
    Access, AnswerShape, Handler, Parameter, ParameterKind, RequestBody, RobotScope, Route, Verb,
};
use crate::routes::work::MAX_PLACE;
use crate::routes::{CURSOR, ENTRY_ID, EXECUTION, ROBOT, SESSION, WEBHOOK, in_path, query};
use crate::schemas::Schema;
use crate::session::form_token;

const HTML_TYPE: &str = "text/html; charset=utf-8";
const READ: Access = Access::Key(Permission::Read, RobotScope::Restricted);
const DECIDE: Access = Access::Key(Permission::Decide, RobotScope::Restricted);
const RUN_WORK: Access = Access::Key(Permission::Run, RobotScope::Refused);
const MANAGE_KEYS: Access = Access::Key(Permission::ManageKeys, RobotScope::Refused);
const MANAGE_WEBHOOKS: Access = Access::Key(Permission::ManageWebhooks, RobotScope::Refused);
const RUN: Parameter = in_path("id", ParameterKind::Identifier, "the run");
const SIGNED_IN: Access = Access::Key(Permission::Validate, RobotScope::Unrelated);

/// A page that is read.
const fn page(
    path: &'static str,
    access: Access,
    parameters: &'static [Parameter],
    handler: fn(&Call) -> Result<Reply, Problem>,
) -> Route {
    Route {
        method: Verb::Get,
        path,
        name: path,
        summary: "A page of the console",
        access,
        parameters,
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the page",
            media_type: HTML_TYPE,
            schema: Schema::Text,
            also: &[],
        },
        problems: &[],
        handler: Handler::Blocking(handler),
    }
}

/// A form that is sent.
const fn form(path: &'static str, access: Access, handler: fn(&Call) -> Result<Reply, Problem>) -> Route {
    form_about(path, access, &[], handler)
}

/// A form about something that its path names.
const fn form_about(
    path: &'static str,
    access: Access,
    parameters: &'static [Parameter],
    handler: fn(&Call) -> Result<Reply, Problem>,
) -> Route {
    Route {
        method: Verb::Post,
        body: Some(RequestBody { about: "A form.", schema: Schema::Text }),
        ..page(path, access, parameters, handler)
    }
}

const TEXT: ParameterKind = ParameterKind::Text;
const NEXT: Parameter = query("next", TEXT, "where to go next");

/// Every page.
pub(crate) fn pages() -> impl Iterator<Item = &'static Route> + Clone {
    PAGES.iter()
}

/// Method and path of every page and form, for tests that look at all of them.
pub fn console_routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGES.iter().map(|route| (route.method.word(), route.path))
}

const PAGES: &[Route] = &[
    page("/", SIGNED_IN, &[], pages::start),
    page("/assets/{name}", Access::Public, &[in_path("name", TEXT, "the file")], asset),
    page("/favicon.ico", Access::Public, &[], icon),
    page("/verify.html", Access::Public, &[], verifier),
    page("/sign-in", Access::Public, &[query("code", TEXT, "the token of a link"), NEXT], sign_in::show),
    form("/sign-in", Access::Public, sign_in::enter),
    form("/sign-in/question", Access::Public, passkeys::sign_in_asked),
    form("/sign-in/passkey", Access::Public, passkeys::sign_in),
    page("/enrol", Access::Public, &[], passkeys::enrol),
    form("/sign-out", SIGNED_IN, sign_in::leave),
    page(
        "/inbox",
        READ,
        &[
            query("robot", ParameterKind::Identifier, "only drafts of this robot"),
            query(
                "for",
                ParameterKind::Words(&view::INBOX_SCOPES),
                "what the viewer's approval counts for, or all that waits",
            ),
            CURSOR,
        ],
        pages::inbox,
    ),
    page(
        "/inbox/several",
        READ,
        &[query("ids", TEXT, "the ids of those that are decided about, with commas between them")],
        several::several,
    ),
    page("/inbox/{id}", READ, &[ENTRY_ID], pages::subject),
    form_about("/inbox/{id}/question", DECIDE, &[ENTRY_ID], passkeys::verdict_asked),
    form_about("/inbox/{id}", DECIDE, &[ENTRY_ID], passkeys::verdict),
    page("/robots", READ, &[query("after", ParameterKind::Identifier, "after this one")], pages::robots),
    page("/robots/{robot}", READ, &[ROBOT], pages::robot),
    page(
        "/executions",
        READ,
        &[
            query("robot", ParameterKind::Identifier, "only of this robot"),
            query("state", ParameterKind::Identifier, "only in this state"),
            CURSOR,
        ],
        pages::executions,
    ),
    page(
        "/executions/{robot}/{execution}",
        READ,
        &[
            ROBOT,
            EXECUTION,
            query("replay", ParameterKind::Words(&["1"]), "whether its decisions are replayed"),
        ],
        pages::execution,
    ),
    page(
        "/runs",
        READ,
        &[
            query("agent", ParameterKind::Identifier, "only of this agent"),
            query("status", ParameterKind::Words(&view::RUN_STATUSES), "only runs with this status"),
            CURSOR,
        ],
        work::runs,
    ),
    page(
        "/runs/compare",
        READ,
        &[
            query("a", ParameterKind::Identifier, "the first run"),
            query("b", ParameterKind::Identifier, "the second run"),
        ],
        work::compare,
    ),
    page("/runs/{id}", READ, &[RUN], work::run),
    page(
        "/runs/{id}/output",
        READ,
        &[RUN, query("after", ParameterKind::Number(0, MAX_PLACE), "where it continues")],
        work::output,
    ),
    form_about("/runs/{id}/undo", RUN_WORK, &[RUN], work::undo),
    page(
        "/ledger",
        READ,
        &[
            query("robot", ParameterKind::Identifier, "only of this robot"),
            query("type", ParameterKind::Identifier, "only of this type"),
            query("state", ParameterKind::Identifier, "only in this state"),
            query("module", ParameterKind::Identifier, "only of this module"),
            query("execution", ParameterKind::Identifier, "only of this execution"),
            CURSOR,
        ],
        pages::entries,
    ),
    page("/ledger/{id}", READ, &[ENTRY_ID], pages::entry),
    page(
        "/policy",
        READ,
        &[
            query("robot", ParameterKind::Identifier, "only of this robot"),
            query("minConfidence", TEXT, "the least confidence"),
            query("maxStalenessMinutes", TEXT, "the greatest age"),
            query("minLineageCount", TEXT, "the least lineage"),
            CURSOR,
        ],
        pages::policy,
    ),
    page(
        "/usage",
        READ,
        &[
            query("by", ParameterKind::Words(&["agent", "model", "day", "robot"]), "what to group by"),
            query("from", TEXT, "the first day, in UTC"),
            query("to", TEXT, "the last day, in UTC"),
        ],
        pages::usage,
    ),
    page(
        "/access",
        Access::Key(Permission::SeePeople, RobotScope::Refused),
        &[
            query("people", ParameterKind::Identifier, "people after this one"),
            query("keys", ParameterKind::Cursor, "where the list of keys continues"),
            query("sessions", ParameterKind::Cursor, "where the list of sessions continues"),
            query("webhooks", ParameterKind::Cursor, "where the list of webhooks continues"),
        ],
        pages::access,
    ),
    form_about("/sessions/{id}/end", MANAGE_KEYS, &[SESSION], sign_in::end),
    form_about("/webhooks/{id}/enable", MANAGE_WEBHOOKS, &[WEBHOOK], pages::enable_webhook),
    form_about("/webhooks/{id}/delete", MANAGE_WEBHOOKS, &[WEBHOOK], pages::delete_webhook),
    page("/search", READ, &[query("q", TEXT, "the search text")], find::search),
];

/// A framed page as an answer.
fn html(text: String) -> Reply {
    let mut reply = Reply::text(HTML_TYPE, text);
    let headers = &mut reply.headers;
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(view::CONTENT_SECURITY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    reply
}

/// Goes to another page.
fn redirect(target: &str) -> Result<Reply, Problem> {
    let mut reply = html(String::new());
    reply.status = StatusCode::SEE_OTHER;
    let target = HeaderValue::from_str(target)
        .map_err(|_| Problem::new(ProblemKind::BadRequest, "the page to go to has no valid address"))?;
    reply.headers.insert(header::LOCATION, target);
    Ok(reply)
}

/// Browsers ask for it by this name with every document that is no page, such as `/openapi.json`.
fn icon(_: &Call) -> Result<Reply, Problem> {
    redirect(&view::asset_url("icon.svg"))
}

/// A file that pages load; its name has its digest, so it never changes.
fn asset(call: &Call) -> Result<Reply, Problem> {
    let found = view::asset(call.in_path("name")?);
    let asset = found.ok_or_else(|| Problem::new(ProblemKind::NoRoute, "there is no such file"))?;
    let mut reply = Reply::text(asset.media_type, asset.text.as_ref());
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    reply.headers.insert(header::CACHE_CONTROL, forever);
    Ok(reply)
}

/// The verifier as one file, to be saved and opened from there: what the server shows can only be as honest as the server.
fn verifier(_: &Call) -> Result<Reply, Problem> {
    let mut reply = Reply::text(HTML_TYPE, view::verifier_page());
    let headers = &mut reply.headers;
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"verify.html\""),
    );
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    Ok(reply)
}

/// Someone who is not signed in goes to sign in first, and comes back to the page that their browser shows, unless its address is too long.
pub(crate) fn to_sign_in(shown: &str) -> Result<Reply, Problem> {
    match shown {
        "/" => redirect("/sign-in"),
        shown if shown.len() > MAX_TEXT_BYTES => redirect("/sign-in"),
        shown => redirect(&format!("/sign-in?next={}", encoded(shown))),
    }
}

/// A problem as a page, with navigation for someone who is signed in.
pub(crate) fn problem_page(problem: &Problem, viewer: Option<&view::Viewer>, request_id: &str) -> Reply {
    let (detail, hint) = problem.words();
    let (status, violations) = (problem.status(), problem.violations());
    let hint = Some(hint.unwrap_or_else(|| usual_hint(problem.kind())));
    let title = status.canonical_reason().unwrap_or("Problem");
    let page = view::ProblemPage { title, detail, hint, violations, code: problem.kind().code(), request_id };
    let mut reply = html(view::problem(viewer, &page));
    reply.status = status;
    reply
}

/// What someone does about a problem on a page that says nothing else about it.
fn usual_hint(kind: ProblemKind) -> &'static str {
    match (kind, kind.status().as_u16()) {
        (ProblemKind::BadParameter, _) => "correct it in the address, or open the page from the navigation",
        (ProblemKind::OriginRefused, _) => "open the page on this server again, and send its form from there",
        (_, 400) => "reload the page that sent it, and try again",
        (_, 403) => "reload the page and try again, or sign in as someone who may do this",
        (_, 404) => {
            "check the address, or find it in its list; what is of another tenant, or not for this session, is shown as absent too"
        }
        (_, 409 | 422) => "reload the page to see its current state, and try again",
        (_, 429 | 503) => "wait a moment, and reload the page",
        (_, 500..) => "the server's log has the cause under this request's id",
        _ => "open the page from the navigation",
    }
}

/// What is encoded in a path or query, as the pages do it.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Who looks at a page. Called before anything else is read, so that the page has everything up to [`view::Viewer::seq`].
fn viewer(call: &Call) -> Result<view::Viewer, Problem> {
    let who = call.who()?;
    let seq = Some(call.ledger().last_seq(&who.tenant_id)?);
    Ok(view::Viewer { seq, ..viewer_of(&call.app, Some(who), call.session_token.as_deref())? })
}

/// The same, of a request that may be refused; its page is not kept current.
pub(crate) fn viewer_of(
    app: &App,
    who: Option<&KeyIdentity>,
    session_token: Option<&str>,
) -> Result<view::Viewer, Problem> {
    let no_session =
        || Problem::new(ProblemKind::Internal, "the page needs a session and did not ask for one");
    let (who, token) = who.zip(session_token).ok_or_else(no_session)?;
    Ok(view::Viewer {
        tenant: who.tenant_id.as_str().to_owned(),
        role: who.role.as_str(),
        robot: who.robot_id.as_ref().map(|robot| robot.as_str().to_owned()),
        name: who.actor().to_string(),
        person: who.session.as_ref().and_then(|session| session.person.clone()),
        form_token: form_token(token),
        reads: who.may(Permission::Read),
        decides: who.may(Permission::Decide),
        sees_grants: who.may(Permission::SeeGrants),
        manages_webhooks: who.may(Permission::ManageWebhooks),
        now: app.ledger.now().instant(),
        seq: None,
    })
}
