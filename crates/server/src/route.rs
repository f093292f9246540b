//! What a route is. The router, the OpenAPI document, the `/docs` page and the tests' matrix all come from one table of
//! them ([`crate::routes`]), so a route without a row cannot exist.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use crealeph_contracts::api_key::KeyRole;
use crealeph_contracts::scalar::Name;
use crealeph_contracts::shape::Shape as _;
use crealeph_decision::access::{Permission, permits};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::app::App;
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::schemas::Schema;

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Route {
    pub method: Verb,
    pub path: &'static str,
    /// The OpenAPI operation's id.
    pub name: &'static str,
    pub summary: &'static str,
    pub access: Access,
    pub parameters: &'static [Parameter],
    pub body: Option<RequestBody>,
    pub answer: AnswerShape,
    /// Statuses of problems that only this route has.
    pub problems: &'static [u16],
    pub handler: Handler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

impl Verb {
    /// As OpenAPI writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Post => "post",
            Verb::Delete => "delete",
        }
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Delete => Method::DELETE,
        }
    }
}

/// Who a route is for, which determines the form of requests and of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    /// Programs: an API key, or the session of a browser that reads; problem documents.
    Api,
    /// People: a session; pages.
    Page,
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone who reaches the server.
    Public,
    /// A key whose role permits this.
    Key(Permission, RobotScope),
}

/// What a route means for a key that is restricted to a robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RobotScope {
    /// The handler shows and writes only what is of that robot.
    Restricted,
    /// Nothing in it is about a robot.
    Unrelated,
    /// It is about the tenant as a whole, and refused.
    Refused,
}

impl Access {
    /// The roles that may call it; empty if it is public.
    pub(crate) fn roles(self) -> Vec<&'static str> {
        match self {
            Access::Public => Vec::new(),
            Access::Key(permission, _) => {
                let roles = KeyRole::ALL.iter().filter(|role| permits(**role, permission));
                roles.map(|role| role.as_str()).collect()
            }
        }
    }
}

/// A parameter in the path or the query.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub name: &'static str,
    pub place: ParameterPlace,
    pub kind: ParameterKind,
    pub about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterPlace {
    Path,
    Query,
    RequiredQuery,
    /// In a header, where its handler reads it.
    Header,
}

impl ParameterPlace {
    pub(crate) fn is_query(self) -> bool {
        matches!(self, ParameterPlace::Query | ParameterPlace::RequiredQuery)
    }

    /// As OpenAPI writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ParameterPlace::Path => "path",
            ParameterPlace::Query | ParameterPlace::RequiredQuery => "query",
            ParameterPlace::Header => "header",
        }
    }

    pub(crate) fn is_required(self) -> bool {
        matches!(self, ParameterPlace::Path | ParameterPlace::RequiredQuery)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// An identifier (R2).
    Identifier,
    /// An RFC 3339 instant (R1).
    Instant,
    /// Where a list continues.
    Cursor,
    /// Some text, not empty.
    Text,
    /// A whole number in a range.
    Number(u64, u64),
    /// One of these words.
    Words(&'static [&'static str]),
}

impl ParameterKind {
    pub(crate) fn schema(self) -> Value {
        match self {
            ParameterKind::Identifier => Name::schema(),
            ParameterKind::Instant => json!({ "type": "string", "format": "date-time" }),
            ParameterKind::Cursor => json!({ "type": "string", "pattern": "^seq-(0|[1-9][0-9]{0,12})$" }),
            ParameterKind::Text => json!({ "type": "string", "minLength": 1, "maxLength": 1024 }),
            ParameterKind::Number(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
            ParameterKind::Words(words) => json!({ "type": "string", "enum": words }),
        }
    }
}

/// The body that a route takes.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pub about: &'static str,
    pub schema: Schema,
}

/// What a route answers when it has an answer.
#[derive(Debug)]
pub(crate) struct AnswerShape {
    pub status: StatusCode,
    pub about: &'static str,
    pub media_type: &'static str,
    pub schema: Schema,
    /// Other statuses under which the same is answered; under 202 what says that it is not decided yet.
    pub also: &'static [u16],
}

/// An answer that takes its time.
pub(crate) type FutureReply = BoxFuture<'static, Result<Reply, Problem>>;

/// How a route is answered.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// At once, from what is in memory.
    Immediate(fn() -> Reply),
    /// At once if the first can answer, which must neither block nor take long; else by the second, on a thread that may block.
    Quick(fn(&Call) -> Option<Result<Reply, Problem>>, fn(&Call) -> Result<Reply, Problem>),
    /// On a thread that may block.
    Blocking(fn(&Call) -> Result<Reply, Problem>),
    /// The same, for as long as an agent takes; few of these run at a time.
    Running(fn(&Call) -> Result<Reply, Problem>),
    /// As the request prefers: when the agent is done, of which few run at a time, or accepted to be run later.
    Accepting(fn(Arc<App>, Arc<Call>) -> FutureReply),
    /// With a stream, which has a bound of its own and is no request in flight once it has begun.
    Streaming(fn(&Call) -> Result<Reply, Problem>),
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handler")
    }
}

impl Route {
    /// The statuses of the problems that it can have, in order.
    pub(crate) fn problem_statuses(&self) -> Vec<u16> {
        let mut statuses = vec![400, 403, 405, 414, 431, 500, 503];
        if self.access != Access::Public {
            statuses.extend([401, 429]);
        }
        if self.parameters.iter().any(|parameter| parameter.place == ParameterPlace::Path) {
            statuses.push(404);
        }
        if self.body.is_some() {
            statuses.extend([413, 415]);
        }
        statuses.extend(self.problems);
        statuses.extend(self.answer.also);
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }
}
