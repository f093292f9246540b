//! The table of routes: everything that the server answers.

pub(crate) mod approvals;
mod contracts;
pub(crate) mod entries;
mod events;
pub(crate) mod executions;
mod export;
mod ids;
mod keys;
mod log;
mod operations;
pub(crate) mod people;
pub(crate) mod report;
pub(crate) mod robots;
mod runs;
pub(crate) mod sessions;
mod signers;
pub(crate) mod usage;
pub(crate) mod webhooks;
pub(crate) mod work;

pub use report::ReportRenderer;

use axum::http::StatusCode;
use crealeph_decision::access::Permission;

use crate::reply::JSON_TYPE;
use crate::route::{
    Access, AnswerShape, Handler, Parameter, ParameterKind, ParameterPlace, RequestBody, RobotScope, Route,
    Verb,
};
use crate::schemas::Schema;

/// The most of a page that any setting allows.
const MAX_PAGE: u64 = 1_000;
/// The names of the contracts.
const CONTRACTS: &[&str] = &[
    "agent-input",
    "agent-output",
    "execution-event",
    "policy-input",
    "policy-output",
    "builder-request",
    "builder-response",
    "work-item",
    "run-result",
    "receipt",
];

pub(crate) const fn query(name: &'static str, kind: ParameterKind, about: &'static str) -> Parameter {
    Parameter { name, place: ParameterPlace::Query, kind, about }
}

const fn required(name: &'static str, kind: ParameterKind, about: &'static str) -> Parameter {
    Parameter { name, place: ParameterPlace::RequiredQuery, kind, about }
}

pub(crate) const fn in_path(name: &'static str, kind: ParameterKind, about: &'static str) -> Parameter {
    Parameter { name, place: ParameterPlace::Path, kind, about }
}

const fn answer(about: &'static str, schema: &'static str) -> AnswerShape {
    AnswerShape {
        status: StatusCode::OK,
        about,
        media_type: JSON_TYPE,
        schema: Schema::Named(schema),
        also: &[],
    }
}

const LIMIT: Parameter =
    query("limit", ParameterKind::Number(1, MAX_PAGE), "the maximum number [default: 100]");
pub(crate) const CURSOR: Parameter = query("cursor", ParameterKind::Cursor, "`next` of the previous page");
pub(crate) const ROBOT: Parameter = in_path("robot", ParameterKind::Identifier, "the robot");
pub(crate) const EXECUTION: Parameter = in_path("execution", ParameterKind::Identifier, "the execution's id");
const ATTEMPT: Parameter = query(
    "attempt",
    ParameterKind::Number(1, (1 << 53) - 1),
    "only this attempt [default: all, or the last]",
);
pub(crate) const ENTRY_ID: Parameter =
    in_path("id", ParameterKind::Identifier, "the entry's id, or `key:` and its client key");

pub(crate) const SESSION: Parameter = in_path("id", ParameterKind::Identifier, "the session's id");
pub(crate) const WEBHOOK: Parameter = in_path("id", ParameterKind::Identifier, "the webhook's id");

/// Every route.
pub(crate) fn routes() -> impl Iterator<Item = &'static Route> + Clone {
    [
        ROUTES,
        ids::ROUTES,
        approvals::ROUTES,
        people::ROUTES,
        sessions::ROUTES,
        work::ROUTES,
        signers::ROUTES,
        usage::ROUTES,
        report::ROUTES,
    ]
    .into_iter()
    .flatten()
}

/// The routes that have no table of their own in addition to their handlers.
const ROUTES: &[Route] = &[
    Route {
        method: Verb::Get,
        path: "/healthz",
        name: "health",
        summary: "Whether the server runs",
        access: Access::Public,
        parameters: &[],
        body: None,
        answer: answer("it runs", "Health"),
        problems: &[],
        handler: Handler::Immediate(operations::health),
    },
    Route {
        method: Verb::Get,
        path: "/readyz",
        name: "readiness",
        summary: "Whether the server can use its ledger and accepts requests",
        access: Access::Public,
        parameters: &[],
        body: None,
        answer: answer("it does", "Health"),
        problems: &[],
        handler: Handler::Blocking(operations::readiness),
    },
    Route {
        method: Verb::Get,
        path: "/openapi.json",
        name: "openapi",
        summary: "This API as an OpenAPI 3.1 document",
        access: Access::Public,
        parameters: &[],
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the document",
            media_type: JSON_TYPE,
            schema: Schema::Any,
            also: &[],
        },
        problems: &[],
        handler: Handler::Immediate(operations::openapi),
    },
    Route {
        method: Verb::Get,
        path: "/docs",
        name: "docs",
        summary: "This API as a page",
        access: Access::Public,
        parameters: &[],
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the page",
            media_type: operations::HTML_TYPE,
            schema: Schema::Text,
            also: &[],
        },
        problems: &[],
        handler: Handler::Immediate(operations::docs),
    },
    Route {
        method: Verb::Post,
        path: "/v1/entries",
        name: "appendEntries",
        summary: "Append an entry, or a batch of entries, all or none",
        access: Access::Key(Permission::Append, RobotScope::Restricted),
        parameters: &[],
        body: Some(RequestBody {
            about: "An entry, or a list of entries. With a `key`, sending it again is safe.",
            schema: Schema::OneOrMore("Draft"),
        }),
        answer: answer("the entries are durable", "AppendedList"),
        problems: &[409, 422],
        handler: Handler::Blocking(entries::append),
    },
    Route {
        method: Verb::Get,
        path: "/v1/entries",
        name: "listEntries",
        summary: "List entries",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[
            query("robot", ParameterKind::Identifier, "only of this robot"),
            query("type", ParameterKind::Identifier, "only of this type"),
            query("state", ParameterKind::Identifier, "only in this state"),
            query("module", ParameterKind::Identifier, "only by this module"),
            query("execution", ParameterKind::Identifier, "only of this execution"),
            query("from", ParameterKind::Instant, "recorded at or after this"),
            query("to", ParameterKind::Instant, "recorded at or before this"),
            query("order", ParameterKind::Words(&["oldest", "newest"]), "the order [default: oldest first]"),
            LIMIT,
            CURSOR,
        ],
        body: None,
        answer: answer("a page; it may have fewer than `limit` and still have `next`", "EntryPage"),
        problems: &[],
        handler: Handler::Blocking(entries::list),
    },
    Route {
        method: Verb::Get,
        path: "/v1/entries/{id}",
        name: "getEntry",
        summary: "Get an entry",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[ENTRY_ID],
        body: None,
        answer: answer("the entry", "Entry"),
        problems: &[],
        handler: Handler::Blocking(entries::get),
    },
    Route {
        method: Verb::Get,
        path: "/v1/entries/{id}/lineage",
        name: "getLineage",
        summary: "List what an entry depends on, or what depends on it",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[
            ENTRY_ID,
            query(
                "direction",
                ParameterKind::Words(&["up", "down"]),
                "`up` for what it depends on, `down` for what depends on it [default: up]",
            ),
            query("depth", ParameterKind::Number(1, 64), "the maximum number of steps [default: 16]"),
        ],
        body: None,
        answer: answer("the entries, nearest first; `cut` if a limit ended the search", "Lineage"),
        problems: &[],
        handler: Handler::Blocking(entries::lineage),
    },
    Route {
        method: Verb::Get,
        path: "/v1/entries/{id}/proof",
        name: "proveEntry",
        summary: "Prove that an entry is in the log",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[ENTRY_ID],
        body: None,
        answer: answer("the entry and its proof, for `crealeph ledger verify-proof`", "Proof"),
        problems: &[],
        handler: Handler::Blocking(entries::prove),
    },
    Route {
        method: Verb::Get,
        path: "/v1/log/checkpoint",
        name: "getCheckpoint",
        summary: "Get the signed current state of the log",
        access: Access::Key(Permission::Read, RobotScope::Unrelated),
        parameters: &[],
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the checkpoint, a signed note",
            media_type: log::NOTE_TYPE,
            schema: Schema::Text,
            also: &[],
        },
        problems: &[],
        handler: Handler::Blocking(log::checkpoint),
    },
    Route {
        method: Verb::Get,
        path: "/v1/log/stats",
        name: "getLogSize",
        summary: "Get the size, root hash and checkpoints of the log",
        access: Access::Key(Permission::Read, RobotScope::Refused),
        parameters: &[],
        body: None,
        answer: answer("how large the log of the key's tenant is", "LogSize"),
        problems: &[],
        handler: Handler::Blocking(log::size),
    },
    Route {
        method: Verb::Get,
        path: "/v1/export",
        name: "exportLog",
        summary: "Export the whole log, for `crealeph ledger verify` on another machine",
        access: Access::Key(Permission::Export, RobotScope::Refused),
        parameters: &[
            query(
                "after",
                ParameterKind::Number(0, crealeph_ledger::MAX_SEQ),
                "only entries after this one, to resume an export that was cut off; needs `upTo`",
            ),
            query(
                "upTo",
                ParameterKind::Number(0, crealeph_ledger::MAX_SEQ),
                "the number of entries that the first line of the export states",
            ),
        ],
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the lines of the export; resumed, without the first",
            media_type: export::LINES_TYPE,
            schema: Schema::Text,
            also: &[],
        },
        problems: &[],
        handler: Handler::Streaming(export::export),
    },
    Route {
        method: Verb::Get,
        path: "/v1/log/consistency",
        name: "proveConsistency",
        summary: "Prove that an earlier state of the log is a prefix of a later one",
        access: Access::Key(Permission::Read, RobotScope::Unrelated),
        parameters: &[
            Parameter {
                name: "older",
                place: ParameterPlace::RequiredQuery,
                kind: ParameterKind::Number(1, crealeph_ledger::MAX_SEQ),
                about: "how many entries the earlier state has",
            },
            Parameter {
                name: "newer",
                place: ParameterPlace::RequiredQuery,
                kind: ParameterKind::Number(1, crealeph_ledger::MAX_SEQ),
                about: "how many entries the later state has",
            },
        ],
        body: None,
        answer: answer("the hashes of the proof (RFC 6962), in base64", "Consistency"),
        problems: &[],
        handler: Handler::Blocking(log::consistency),
    },
    Route {
        method: Verb::Get,
        path: "/v1/robots",
        name: "listRobots",
        summary: "List robots with coherence, oldest evidence, last execution and pending drafts",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[LIMIT, query("after", ParameterKind::Identifier, "`next` of the previous page")],
        body: None,
        answer: answer("a page of robots, by name", "RobotPage"),
        problems: &[],
        handler: Handler::Blocking(robots::list),
    },
    Route {
        method: Verb::Get,
        path: "/v1/robots/{robot}/snapshot",
        name: "getSnapshot",
        summary: "Get a robot's snapshot, now or at an instant",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[ROBOT, query("at", ParameterKind::Instant, "as it was then [default: now]")],
        body: None,
        answer: answer("the snapshot", "Snapshot"),
        problems: &[],
        handler: Handler::Quick(robots::known_snapshot, robots::snapshot),
    },
    Route {
        method: Verb::Get,
        path: "/v1/robots/{robot}/status",
        name: "getStatus",
        summary: "Get a robot's status and next steps",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[ROBOT],
        body: None,
        answer: answer("the status", "RobotStatus"),
        problems: &[],
        handler: Handler::Blocking(robots::status),
    },
    Route {
        method: Verb::Get,
        path: "/v1/events",
        name: "streamEvents",
        summary: "Follow new entries as server-sent events, each a CloudEvent",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[
            query("robot", ParameterKind::Identifier, "only of this robot"),
            query("type", ParameterKind::Identifier, "only of this type"),
            query("state", ParameterKind::Identifier, "only in this state"),
            query(
                "after",
                ParameterKind::Number(0, crealeph_ledger::MAX_SEQ),
                "start after this sequence number; `Last-Event-ID` takes precedence [default: the newest]",
            ),
            query("payload", ParameterKind::Words(&[events::NO_PAYLOAD]), "leave out the entries' payloads"),
        ],
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the stream; the id of an event is the entry's sequence number",
            media_type: events::STREAM_TYPE,
            schema: Schema::Text,
            also: &[],
        },
        problems: &[],
        handler: Handler::Streaming(events::events),
    },
    Route {
        method: Verb::Post,
        path: "/v1/policy/evaluate",
        name: "evaluatePolicy",
        summary: "Evaluate the policy by the rules of the tenant and robot",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[],
        body: Some(RequestBody {
            about: "The question, a policy-input.",
            schema: Schema::Named("policy-input"),
        }),
        answer: answer("the decision and its reasons", "policy-output"),
        problems: &[],
        handler: Handler::Quick(robots::evaluate_policy_now, robots::evaluate_policy),
    },
    Route {
        method: Verb::Post,
        path: "/v1/policy/backtest",
        name: "backtestPolicy",
        summary: "Evaluate recorded decisions again under other rules, and list those that would flip",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[
            query("robot", ParameterKind::Identifier, "only of this robot"),
            query("since", ParameterKind::Instant, "only those recorded at or after this"),
            LIMIT,
            CURSOR,
        ],
        body: Some(RequestBody {
            about: "The rules of a rules file, as JSON. Their `coherence` is ignored: the snapshots are those that were recorded.",
            schema: Schema::Named("Rules"),
        }),
        answer: answer(
            "what would flip; `cut` and `next` if there are more decisions than were evaluated",
            "Backtest",
        ),
        problems: &[],
        handler: Handler::Blocking(robots::backtest_policy),
    },
    Route {
        method: Verb::Post,
        path: "/v1/builder/runs",
        name: "runBuilder",
        summary: "Run the Builder and wait for its answer, or have the request accepted",
        access: Access::Key(Permission::Run, RobotScope::Restricted),
        parameters: &[
            query("rerunOf", ParameterKind::Identifier, "the execution that this one repeats"),
            Parameter {
                name: "Prefer",
                place: ParameterPlace::Header,
                kind: ParameterKind::Text,
                about: "`respond-async`: answer when the request is accepted; `wait=SECONDS`: wait at most this long (RFC 7240)",
            },
        ],
        body: Some(RequestBody {
            about: "The request. With an `executionId`, sending it again is safe: it is answered from its record.",
            schema: Schema::Named("builder-request"),
        }),
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the answer; its reasons are at the `Link` of the relation `describedby`",
            media_type: JSON_TYPE,
            schema: Schema::Named("builder-response"),
            also: &[202, 400, 409, 422],
        },
        problems: &[],
        handler: Handler::Accepting(runs::submit),
    },
    Route {
        method: Verb::Get,
        path: "/v1/builder/runs",
        name: "listBuilderRuns",
        summary: "List the runs that are accepted and undecided, oldest first",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[LIMIT, CURSOR],
        body: None,
        answer: answer("a page of runs", "OpenRunPage"),
        problems: &[],
        handler: Handler::Blocking(runs::list),
    },
    Route {
        method: Verb::Get,
        path: "/v1/builder/runs/{robot}/{execution}",
        name: "getBuilderRun",
        summary: "Get the answer of a run, or its state",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[ROBOT, EXECUTION, ATTEMPT],
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the answer, with the same status as if it had been waited for",
            media_type: JSON_TYPE,
            schema: Schema::Named("builder-response"),
            also: &[202, 400, 409, 422],
        },
        problems: &[],
        handler: Handler::Blocking(runs::show),
    },
    Route {
        method: Verb::Delete,
        path: "/v1/builder/runs/{robot}/{execution}",
        name: "cancelBuilderRun",
        summary: "Cancel an accepted run that was not started",
        access: Access::Key(Permission::Run, RobotScope::Restricted),
        parameters: &[ROBOT, EXECUTION],
        body: None,
        answer: answer("it will not run", "CancelledRun"),
        problems: &[409],
        handler: Handler::Blocking(runs::cancel),
    },
    Route {
        method: Verb::Get,
        path: "/v1/executions",
        name: "listExecutions",
        summary: "List events of executions, newest first",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[
            query("robot", ParameterKind::Identifier, "only of this robot"),
            query(
                "state",
                ParameterKind::Words(&["planned", "running", "succeeded", "failed", "cancelled"]),
                "only of this state",
            ),
            LIMIT,
            CURSOR,
        ],
        body: None,
        answer: answer("a page of events", "EntryPage"),
        problems: &[],
        handler: Handler::Blocking(executions::list),
    },
    Route {
        method: Verb::Get,
        path: "/v1/executions/{robot}/{execution}",
        name: "getExecution",
        summary: "Get the events, records and artifacts of an execution",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[ROBOT, EXECUTION],
        body: None,
        answer: answer("the entries; a record has the policy's output", "Execution"),
        problems: &[],
        handler: Handler::Blocking(executions::show),
    },
    Route {
        method: Verb::Get,
        path: "/v1/executions/{robot}/{execution}/reasons",
        name: "explainExecution",
        summary: "Explain which rule decided and what would change it",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[ROBOT, EXECUTION, ATTEMPT],
        body: None,
        answer: answer("the reasons of the attempt", "Reasons"),
        problems: &[],
        handler: Handler::Blocking(executions::reasons),
    },
    Route {
        method: Verb::Get,
        path: "/v1/executions/{robot}/{execution}/replay",
        name: "replayExecution",
        summary: "Derive the recorded decisions again from the evidence, and compare",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[ROBOT, EXECUTION, ATTEMPT],
        body: None,
        answer: answer("for each attempt, whether the recorded decision follows", "Replays"),
        problems: &[],
        handler: Handler::Blocking(executions::replay),
    },
    Route {
        method: Verb::Post,
        path: "/v1/validate/{contract}",
        name: "validate",
        summary: "Validate a document against its contract",
        access: Access::Key(Permission::Validate, RobotScope::Unrelated),
        parameters: &[
            in_path("contract", ParameterKind::Words(CONTRACTS), "the contract's name"),
            query(
                "form",
                ParameterKind::Words(&["document", "line"]),
                "`line`: the body has the document as `doc` or `raw` and its `context`, as `validate --batch` [default: document]",
            ),
        ],
        body: Some(RequestBody {
            about: "The document, exactly as it is to be validated; or the document and its context.",
            schema: Schema::Any,
        }),
        answer: answer("whether it is valid, and everything that is wrong with it", "Validation"),
        problems: &[],
        handler: Handler::Quick(contracts::validate_now, contracts::validate),
    },
    Route {
        method: Verb::Get,
        path: "/v1/schemas/{contract}",
        name: "getSchema",
        summary: "Get the JSON Schema of a contract",
        access: Access::Key(Permission::Validate, RobotScope::Unrelated),
        parameters: &[in_path("contract", ParameterKind::Words(CONTRACTS), "the contract's name")],
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the schema",
            media_type: contracts::SCHEMA_TYPE,
            schema: Schema::Any,
            also: &[],
        },
        problems: &[],
        handler: Handler::Blocking(contracts::schema),
    },
    Route {
        method: Verb::Get,
        path: "/v1/keys",
        name: "listKeys",
        summary: "List the tenant's keys, revoked ones too",
        access: Access::Key(Permission::SeeGrants, RobotScope::Refused),
        parameters: &[LIMIT, CURSOR],
        body: None,
        answer: answer("a page of keys", "KeyPage"),
        problems: &[],
        handler: Handler::Blocking(keys::list),
    },
    Route {
        method: Verb::Post,
        path: "/v1/keys",
        name: "createKey",
        summary: "Grant a key of this tenant",
        access: Access::Key(Permission::ManageKeys, RobotScope::Refused),
        parameters: &[],
        body: Some(RequestBody {
            about: "What the key is for. With a `clientKey`, sending it again is safe: no second key is granted, and the token is not shown again.",
            schema: Schema::Named("KeyRequest"),
        }),
        answer: answer("the key with its token, which is shown only this once", "CreatedKey"),
        problems: &[409],
        handler: Handler::Blocking(keys::create),
    },
    Route {
        method: Verb::Delete,
        path: "/v1/keys/{id}",
        name: "revokeKey",
        summary: "Revoke a key, at once and on every server",
        access: Access::Key(Permission::ManageKeys, RobotScope::Refused),
        parameters: &[
            in_path("id", ParameterKind::Identifier, "the key's id"),
            query("reason", ParameterKind::Text, "why"),
        ],
        body: None,
        answer: answer("the key", "Key"),
        problems: &[],
        handler: Handler::Blocking(keys::revoke),
    },
    Route {
        method: Verb::Get,
        path: "/v1/webhooks",
        name: "listWebhooks",
        summary: "List the tenant's webhooks, deleted ones too",
        access: Access::Key(Permission::SeeGrants, RobotScope::Refused),
        parameters: &[LIMIT, CURSOR],
        body: None,
        answer: answer("a page of webhooks", "WebhookPage"),
        problems: &[],
        handler: Handler::Blocking(webhooks::list),
    },
    Route {
        method: Verb::Post,
        path: "/v1/webhooks",
        name: "createWebhook",
        summary: "Create a webhook of this tenant",
        access: Access::Key(Permission::ManageWebhooks, RobotScope::Refused),
        parameters: &[query(
            "after",
            ParameterKind::Number(0, crealeph_ledger::MAX_SEQ),
            "start after this sequence number [default: the newest]",
        )],
        body: Some(RequestBody {
            about: "Where to deliver, and what. With a `clientKey`, sending it again is safe: no second webhook is created, and the secret is not shown again.",
            schema: Schema::Named("WebhookRequest"),
        }),
        answer: answer("the webhook with its secret, which is shown only this once", "CreatedWebhook"),
        problems: &[409],
        handler: Handler::Blocking(webhooks::create),
    },
    Route {
        method: Verb::Get,
        path: "/v1/webhooks/{id}",
        name: "getWebhook",
        summary: "Get a webhook",
        access: Access::Key(Permission::SeeGrants, RobotScope::Refused),
        parameters: &[WEBHOOK],
        body: None,
        answer: answer("the webhook", "Webhook"),
        problems: &[],
        handler: Handler::Blocking(webhooks::show),
    },
    Route {
        method: Verb::Delete,
        path: "/v1/webhooks/{id}",
        name: "deleteWebhook",
        summary: "Delete a webhook and its secret",
        access: Access::Key(Permission::ManageWebhooks, RobotScope::Refused),
        parameters: &[WEBHOOK, query("reason", ParameterKind::Text, "why")],
        body: None,
        answer: answer("the webhook", "Webhook"),
        problems: &[],
        handler: Handler::Blocking(webhooks::delete),
    },
    Route {
        method: Verb::Post,
        path: "/v1/webhooks/{id}/enable",
        name: "enableWebhook",
        summary: "Enable a disabled webhook; delivery resumes where it stopped",
        access: Access::Key(Permission::ManageWebhooks, RobotScope::Refused),
        parameters: &[WEBHOOK, query("reason", ParameterKind::Text, "why")],
        body: None,
        answer: answer("the webhook", "Webhook"),
        problems: &[],
        handler: Handler::Blocking(webhooks::enable),
    },
    Route {
        method: Verb::Post,
        path: "/v1/webhooks/{id}/test",
        name: "testWebhook",
        summary: "Send a test event now, and report the result",
        access: Access::Key(Permission::ManageWebhooks, RobotScope::Refused),
        parameters: &[WEBHOOK],
        body: None,
        answer: answer("whether the receiver accepted it", "WebhookTest"),
        problems: &[],
        handler: Handler::Running(webhooks::test),
    },
    Route {
        method: Verb::Get,
        path: "/v1/webhooks/{id}/deliveries",
        name: "getDeliveries",
        summary: "Get how far a webhook was delivered, and why its last attempt failed",
        access: Access::Key(Permission::SeeGrants, RobotScope::Refused),
        parameters: &[WEBHOOK],
        body: None,
        answer: answer("its position and its last attempts", "Deliveries"),
        problems: &[],
        handler: Handler::Blocking(webhooks::state),
    },
];

#[cfg(test)]
mod tests {
    use crealeph_contracts::contract::ContractName;

    use super::*;

    #[test]
    fn every_contract_is_listed_and_every_row_is_its_own() {
        let names: Vec<&str> = ContractName::ALL.iter().map(|contract| contract.as_str()).collect();
        assert_eq!(names, CONTRACTS);
        for (position, route) in routes().enumerate() {
            let mut others = routes().skip(position + 1);
            assert!(others.clone().all(|other| other.name != route.name), "{}", route.name);
            assert!(others.all(|other| (other.method, other.path) != (route.method, route.path)));
            let placed = route.parameters.iter().filter(|parameter| parameter.place == ParameterPlace::Path);
            assert_eq!(placed.count(), route.path.matches('{').count(), "{}", route.path);
        }
    }
}
