//! Ids as people type and read them: the id that a prefix means, and the shortest unique prefix of an id.

use axum::http::StatusCode;
use crealeph_contracts::short_id::IdRequest;
use crealeph_decision::access::Permission;
use crealeph_runtime::entries::{FoundId, FoundIds, find_ids};

use super::answer;
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::route::{Access, Handler, RequestBody, RobotScope, Route, Verb};
use crate::schemas::Schema;

pub(super) const ROUTES: &[Route] = &[Route {
    method: Verb::Post,
    path: "/v1/ids",
    name: "findIds",
    summary: "Look up ids by their prefixes, and get their short forms; nothing is written",
    access: Access::Key(Permission::Read, RobotScope::Restricted),
    parameters: &[],
    body: Some(RequestBody {
        about: "Ids, or prefixes of ids. A key for one robot gets its words back, because a short form reveals other ids.",
        schema: Schema::Named("IdRequest"),
    }),
    answer: answer("one for each word; a word that is the prefix of several ids is an error", "FoundIds"),
    problems: &[],
    handler: Handler::Blocking(find),
}];

fn find(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let request =
        IdRequest::parse(&call.body).map_err(|violations| Problem::invalid("invalid", violations))?;
    let words: Vec<&str> = request.words.as_slice().iter().map(|word| word.as_str()).collect();
    let most = call.bounds().max_page_entries;
    if words.len() as u64 > most {
        let kind = ProblemKind::TooLarge(StatusCode::PAYLOAD_TOO_LARGE);
        let detail = format!("the request has {} words, and the maximum is {most}", words.len());
        return Err(Problem::bound(kind, "max_page_entries", most, detail));
    }
    let found = match who.robot_id {
        None => find_ids(call.ledger(), &who.tenant_id, request.kind, &words)?,
        Some(_) => FoundIds { ids: words.into_iter().map(unchanged).collect() },
    };
    Ok(Reply::json_of(&found))
}

fn unchanged(word: &str) -> FoundId {
    FoundId { word: word.to_owned(), id: Some(word.to_owned()), short: word.to_owned() }
}
