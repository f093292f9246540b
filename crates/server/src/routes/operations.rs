//! Routes for operators and readers of the API: health, readiness, the API's documentation.

use axum::http::{HeaderValue, header};
use serde_json::json;

use crate::call::Call;
use crate::docs_page;
use crate::openapi;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;

pub(super) const HTML_TYPE: &str = "text/html; charset=utf-8";
/// The page has a style of its own, and loads and runs nothing.
const PAGE_POLICY: &str = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn health() -> Reply {
    Reply::json_of(&json!({ "status": "ok" }))
}

pub(super) fn readiness(call: &Call) -> Result<Reply, Problem> {
    if call.app.is_stopping() {
        return Err(Problem::new(ProblemKind::Overloaded, "the server is stopping"));
    }
    call.ledger().check_readable()?;
    Ok(Reply::json_of(&json!({ "status": "ready" })))
}

pub(super) fn openapi() -> Reply {
    Reply::json(openapi::document().to_string())
}

pub(super) fn docs() -> Reply {
    let mut reply = Reply::text(HTML_TYPE, docs_page::page());
    reply.headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    reply.headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    reply
}
