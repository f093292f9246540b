//! The OpenAPI 3.1 document, from the table of routes.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::problem::PROBLEM_TYPE;
use crate::reply::JSON_TYPE;
use crate::route::{Access, Route};
use crate::routes::routes;
use crate::schemas::{Schema, components};

/// The document.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(methods) = path {
            methods.insert(route.method.word().to_owned(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "CreAleph",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The ledger of what AI agents do, and the decisions about it, over HTTP.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `crealeph key create`. It names its tenant.",
                },
            },
            "schemas": components(),
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut responses = Map::new();
    let answer = &route.answer;
    responses.insert(
        answer.status.as_str().to_owned(),
        json!({ "description": answer.about, "content": content(answer.media_type, answer.schema) }),
    );
    for status in route.problem_statuses() {
        responses.insert(status.to_string(), problem(status));
    }
    for status in answer.also {
        if *status == StatusCode::ACCEPTED {
            responses.insert(status.to_string(), undecided());
            continue;
        }
        let mut also = problem(*status);
        if let Some(Value::Object(content)) = also.get_mut("content") {
            content.insert(answer.media_type.to_owned(), json!({ "schema": answer.schema.value() }));
        }
        responses.insert(status.to_string(), also);
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "parameters": route.parameters.iter().map(|parameter| json!({
            "name": parameter.name,
            "in": parameter.place.word(),
            "required": parameter.place.is_required(),
            "description": parameter.about,
            "schema": parameter.kind.schema(),
        })).collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Value::Object(members) = &mut operation {
        if let Some(body) = &route.body {
            let body = json!({
                "description": body.about, "required": true, "content": content(JSON_TYPE, body.schema),
            });
            members.insert("requestBody".to_owned(), body);
        }
        let security = match route.access {
            Access::Public => json!([]),
            Access::Key(..) => json!([{ "key": [] }]),
        };
        members.insert("security".to_owned(), security);
        members.insert("x-crealeph-roles".to_owned(), json!(route.access.roles()));
    }
    operation
}

/// The answer of a run that is not decided.
fn undecided() -> Value {
    let header = |about: &str, schema: Value| json!({ "description": about, "schema": schema });
    json!({
        "description": "It was accepted durably, and is not decided yet.",
        "headers": {
            "Location": header("where to look for the answer", json!({ "type": "string" })),
            "Retry-After": header("seconds to wait before looking again", json!({ "type": "integer" })),
        },
        "content": content(JSON_TYPE, Schema::Named("OpenRun")),
    })
}

fn content(media_type: &str, schema: Schema) -> Value {
    json!({ media_type: { "schema": schema.value() } })
}

fn problem(status: u16) -> Value {
    let about = match status {
        400 => "The request is not valid.",
        401 => "There is no key, or it is not valid.",
        403 => "The key's role does not permit this, or the host or origin is refused.",
        404 => "There is nothing with this id that the key may see.",
        405 => "The path does not support this method.",
        409 => "It contradicts what is recorded.",
        413 => "The body or batch is too large.",
        414 => "The URL is too long.",
        415 => "The Content-Type of the body is not JSON.",
        422 => "It depends on something that does not exist, or was judged and refused.",
        429 => "The key has sent too many requests; see Retry-After.",
        431 => "The headers are too many or too large.",
        500 => "The server failed; its log has the cause.",
        _ => "The server cannot answer now; see Retry-After.",
    };
    json!({ "description": about, "content": content(PROBLEM_TYPE, Schema::Named("Problem")) })
}
