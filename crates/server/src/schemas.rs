//! The schemas of requests and answers of the API, as JSON Schema. Schemas of contracts and documents of the ledger come from
//! `contracts`; the few that only the API has are here. The tests check every answer against them.

mod robots;

use crealeph_contracts::api_key::KeyRequest;
use crealeph_contracts::approval::{ApprovalRule, SignedPayload, VerdictRequest, VerdictStatement};
use crealeph_contracts::contract::ContractName;
use crealeph_contracts::entry::{Draft, Entry};
use crealeph_contracts::passkey::{PasskeyRequest, PasskeyStart, PasskeyStatement};
use crealeph_contracts::reported::{ReceiptReport, SignerRequest};
use crealeph_contracts::shape::Shape as _;
use crealeph_contracts::short_id::IdRequest;
use crealeph_contracts::webhook::WebhookRequest;
use serde_json::{Map, Value, json};

/// A schema, by its name under `components`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// Any text.
    Text,
    /// Any JSON value.
    Any,
    /// The name of a component.
    Named(&'static str),
    /// One of a component, or a list of them.
    OneOrMore(&'static str),
}

impl Schema {
    /// As it stands in an operation.
    pub(crate) fn value(self) -> Value {
        match self {
            Schema::Text => json!({ "type": "string" }),
            Schema::Any => json!({}),
            Schema::Named(name) => reference(name),
            Schema::OneOrMore(name) => json!({
                "oneOf": [reference(name), { "type": "array", "minItems": 1, "items": reference(name) }],
            }),
        }
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// An object of these properties, all of which are there but those in the second list.
fn object(required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let all = required.iter().chain(optional).map(|(name, schema)| ((*name).to_owned(), schema.clone()));
    let properties: Map<String, Value> = all.collect();
    let names: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn instant() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn nullable(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// An object that a contract or a command's document describes.
fn open() -> Value {
    json!({ "type": "object" })
}

fn reasons() -> Value {
    let rule = object(&[("ruleId", text()), ("message", text()), ("toChange", list(text()))], &[]);
    object(
        &[
            ("executionId", text()),
            ("attempt", count()),
            ("state", text()),
            ("decision", json!({ "enum": ["ALLOW", "BLOCK", "DEFER"] })),
            ("agentRan", json!({ "type": "boolean" })),
            ("reason", text()),
            ("rules", list(rule)),
        ],
        &[],
    )
}

fn replay() -> Value {
    let same = || json!({ "type": "boolean" });
    let check = object(&[("what", text()), ("recorded", text()), ("derived", text()), ("same", same())], &[]);
    object(
        &[("executionId", text()), ("attempt", count()), ("follows", same()), ("checks", list(check))],
        &[],
    )
}

fn logged_run() -> Value {
    let number = || json!({ "anyOf": [{ "type": "number" }, { "type": "null" }] });
    let more = [
        ("robotId", text()),
        ("entry", text()),
        ("workspace", nullable(text())),
        ("reported", json!({ "type": "boolean" })),
        ("tokens", number()),
        ("costUsd", number()),
        ("testsPassed", nullable(count())),
        ("testsFailed", nullable(count())),
        ("seq", count()),
        ("recordedAt", instant()),
    ];
    object(&[&work_run_row()[..], &more[..]].concat(), &[])
}

fn work_run_row() -> Vec<(&'static str, Value)> {
    let texts = ["run", "shortId", "task", "status", "outcome", "startedAt", "since"];
    let texts = texts.map(|name| (name, text()));
    let named = ["item", "agent"].map(|name| (name, nullable(text())));
    [&texts[..], &named[..], &[("files", nullable(count())), ("verdict", nullable(open()))]].concat()
}

fn run_comparison() -> Value {
    let number = || nullable(json!({ "type": "number" }));
    let part = || object(&[("text", text()), ("leftOutBytes", count())], &[]);
    let bound = object(&[("what", text()), ("used", count()), ("limit", nullable(count()))], &[]);
    let named = ["finishedAt", "testCommand"].map(|name| (name, nullable(text())));
    let counts = ["testsPassed", "testsFailed", "added", "removed"].map(|name| (name, nullable(count())));
    let more = [
        ("models", list(text())),
        ("reason", nullable(part())),
        ("bounds", list(bound)),
        ("tokens", number()),
        ("costUsd", number()),
    ];
    let side = object(&[&work_run_row()[..], &named[..], &counts[..], &more[..]].concat(), &[]);
    let standing = json!({ "enum": ["onlyA", "onlyB", "alike", "different", "unknown"] });
    let file = object(
        &[("path", text()), ("standing", standing), ("diff", nullable(part())), ("reason", nullable(text()))],
        &[],
    );
    object(
        &[
            ("a", side.clone()),
            ("b", side),
            ("files", list(file)),
            ("filesLeftOut", count()),
            ("unknown", list(text())),
        ],
        &[],
    )
}

fn run_output() -> Value {
    let flag = || json!({ "type": "boolean" });
    let words = |words: &[&str]| json!({ "enum": words });
    let line = object(
        &[
            ("source", words(&["agent", "tests"])),
            ("stream", words(&["stdout", "stderr"])),
            ("text", text()),
            ("goes_on", flag()),
        ],
        &[],
    );
    let gap = object(&[("left_out_bytes", count())], &[]);
    let record = json!({ "anyOf": [line, gap] });
    let known = ["run", "status", "startedAt", "since"].map(|name| (name, text()));
    let more = [
        ("isRunning", flag()),
        ("after", count()),
        ("next", count()),
        ("hasMore", flag()),
        ("records", list(record)),
    ];
    object(&[&known[..], &more[..]].concat(), &[])
}

fn usage() -> Value {
    let sum = || {
        let counts = ["runs", "executions", "withoutTokens", "withoutCost"].map(|name| (name, count()));
        let amounts = ["tokens", "costUsd"].map(|name| (name, json!({ "type": "number", "minimum": 0 })));
        [&counts[..], &amounts[..]].concat()
    };
    let row = object(&[&[("name", text())][..], &sum()[..]].concat(), &[]);
    let cut = object(&[("type", text()), ("oldestRead", instant())], &[]);
    object(
        &[
            ("by", text()),
            ("reportedBy", text()),
            ("rows", list(row)),
            ("rowsLeftOut", count()),
            ("total", object(&sum(), &[])),
            ("entriesRead", count()),
            ("isCut", json!({ "type": "boolean" })),
            ("oldestRead", json!({ "anyOf": [instant(), { "type": "null" }] })),
            ("cuts", list(cut)),
        ],
        &[],
    )
}

fn backtest() -> Value {
    let flip = object(&[("what", text()), ("from", text()), ("to", text())], &[]);
    let decision = object(
        &[("executionId", text()), ("attempt", count()), ("robotId", text()), ("flips", list(flip))],
        &[],
    );
    let totals = object(&[("decisions", count()), ("flips", count()), ("unreadable", count())], &[]);
    let cut = json!({ "enum": ["limit", "time"], "description": "which limit ended it" });
    object(&[("flipped", list(decision)), ("totals", totals)], &[("cut", cut), ("next", text())])
}

fn open_run() -> Value {
    object(
        &[
            ("robotId", text()),
            ("executionId", text()),
            ("attempt", count()),
            ("state", json!({ "enum": ["accepted", "running"] })),
            ("acceptedAt", instant()),
            ("tries", count()),
        ],
        &[],
    )
}

fn signer() -> Value {
    let texts = ["signerId", "workspace", "key", "entry"].map(|name| (name, text()));
    let more = [("createdAt", instant()), ("state", json!({ "enum": ["active", "revoked"] }))];
    let optional = [("label", text()), ("revokedAt", instant()), ("reason", text())];
    object(&[&texts[..], &more[..]].concat(), &optional)
}

fn webhook(more: &[(&str, Value)]) -> Value {
    let required = [
        ("webhookId", text()),
        ("tenantId", text()),
        ("url", text()),
        ("payloads", json!({ "type": "boolean" })),
        ("createdAt", instant()),
        ("state", json!({ "enum": ["active", "failing", "disabled", "deleted"] })),
        ("entry", text()),
    ];
    let optional = [("events", list(text())), ("robotId", text()), ("label", text()), ("reason", text())];
    object(&required, &[&optional[..], more].concat())
}

fn deliveries() -> Value {
    object(
        &[
            ("webhookId", text()),
            ("state", json!({ "enum": ["active", "failing", "disabled"] })),
            ("position", count()),
            ("last", count()),
            ("failures", count()),
        ],
        &[
            ("lastAttemptAt", instant()),
            ("lastDeliveryAt", instant()),
            ("lastError", text()),
            ("nextAttemptAt", instant()),
            ("disabledAt", instant()),
        ],
    )
}

/// Every component by its name.
pub(crate) fn components() -> Map<String, Value> {
    let cursor =
        || json!({ "type": "string", "description": "where the list continues; absent on the last page" });
    let next = [("next", cursor())];
    let violation =
        object(&[("pointer", text()), ("clause", text()), ("code", text()), ("message", text())], &[]);
    let limit = object(&[("name", text()), ("value", count())], &[]);
    let key = [
        ("keyId", text()),
        ("tenantId", text()),
        ("role", text()),
        ("createdAt", instant()),
        ("state", json!({ "enum": ["active", "expired", "revoked"] })),
        ("entry", text()),
    ];
    let key_optional = [
        ("robotId", text()),
        ("label", text()),
        ("expires", instant()),
        ("revokedAt", instant()),
        ("reason", text()),
    ];
    let session = [
        ("sessionId", text()),
        ("tenantId", text()),
        ("role", text()),
        ("openedBy", text()),
        ("createdAt", instant()),
        ("expires", instant()),
        ("state", json!({ "enum": ["active", "ended"] })),
        ("entry", text()),
    ];
    let shown_once = || json!({ "type": "string", "description": "shown only this once" });
    let created_optional = [&key_optional[..], &[("token", shown_once())]].concat();
    let relative = object(&[("distance", count()), ("entry", reference("Entry"))], &[]);
    let mut components: Map<String, Value> = [
        ("Entry", Entry::schema()),
        ("Draft", Draft::schema()),
        ("KeyRequest", KeyRequest::schema()),
        ("EntryPage", object(&[("entries", list(reference("Entry")))], &next)),
        (
            "Appended",
            object(
                &[
                    ("id", text()),
                    ("seq", count()),
                    ("createdAt", instant()),
                    ("repeat", json!({ "type": "boolean" })),
                ],
                &[],
            ),
        ),
        ("AppendedList", object(&[("appended", list(reference("Appended")))], &[])),
        ("Lineage", object(&[("entries", list(relative)), ("cut", json!({ "type": "boolean" }))], &[])),
        ("Proof", object(&[("entry", reference("Entry")), ("format", text()), ("proof", text())], &[])),
        ("Consistency", object(&[("older", count()), ("newer", count()), ("path", list(text()))], &[])),
        ("Violation", violation),
        (
            "Validation",
            object(
                &[
                    ("valid", json!({ "type": "boolean" })),
                    ("outcome", nullable(text())),
                    ("violations", list(reference("Violation"))),
                    ("levels", nullable(list(list(text())))),
                ],
                &[],
            ),
        ),
        ("Key", object(&key, &key_optional)),
        ("CreatedKey", object(&key, &created_optional)),
        ("KeyPage", object(&[("keys", list(reference("Key")))], &next)),
        ("Session", object(&session, &[("robotId", text())])),
        ("SessionPage", object(&[("sessions", list(reference("Session")))], &next)),
        ("WebhookRequest", WebhookRequest::schema()),
        ("Webhook", webhook(&[])),
        ("CreatedWebhook", webhook(&[("secret", shown_once())])),
        ("WebhookPage", object(&[("webhooks", list(reference("Webhook")))], &next)),
        (
            "WebhookTest",
            object(
                &[("webhookId", text()), ("delivered", json!({ "type": "boolean" }))],
                &[("status", count()), ("error", text())],
            ),
        ),
        ("Deliveries", deliveries()),
        ("RobotPage", object(&[("robots", list(robots::summary()))], &next)),
        ("Snapshot", robots::snapshot()),
        ("RobotStatus", robots::status()),
        ("Execution", {
            let entries = || list(reference("Entry"));
            let is_cut = json!({ "type": "boolean", "description": "it made more than are shown" });
            object(
                &[("events", entries()), ("records", entries()), ("others", entries()), ("isCut", is_cut)],
                &[],
            )
        }),
        ("OpenRun", open_run()),
        ("Rules", open()),
        ("Backtest", backtest()),
        ("OpenRunPage", object(&[("runs", list(reference("OpenRun")))], &next)),
        ("CancelledRun", object(&[("robotId", text()), ("executionId", text())], &[])),
        ("Reasons", reasons()),
        ("Replays", object(&[("replays", list(replay()))], &[])),
        ("InboxPage", object(&[("items", list(open()))], &next)),
        ("InboxSubject", {
            let parts = ["item", "rule", "signs"].map(|name| (name, open()));
            let more = [
                ("state", text()),
                ("evidence", list(open())),
                ("policy", nullable(open())),
                ("entry", reference("Entry")),
            ];
            object(&[&parts[..], &more[..]].concat(), &[])
        }),
        ("Approval", open()),
        ("VerdictRequest", VerdictRequest::schema()),
        ("SignedStatement", SignedPayload::schema()),
        (
            "UnsignedVerdict",
            object(
                &[
                    ("statement", VerdictStatement::schema()),
                    ("text", text()),
                    ("namespace", text()),
                    ("passkey", nullable(open())),
                ],
                &[],
            ),
        ),
        ("PasskeyStart", PasskeyStart::schema()),
        ("PasskeyRequest", PasskeyRequest::schema()),
        ("PasskeyQuestion", {
            let texts = ["challenge", "relyingParty", "person", "userHandle", "expires"];
            let texts = texts.map(|name| (name, text()));
            let more = [
                ("statement", PasskeyStatement::schema()),
                ("algorithms", list(json!({ "type": "integer" }))),
                ("known", list(text())),
            ];
            object(&[&texts[..], &more[..]].concat(), &[])
        }),
        ("EnrolledPasskey", {
            let texts = ["person", "keyId", "entry"].map(|name| (name, text()));
            object(&[&texts[..], &[("repeat", json!({ "type": "boolean" }))]].concat(), &[])
        }),
        ("RecordedVerdict", {
            let flag = || json!({ "type": "boolean" });
            let named = ["landed", "planned", "next"].map(|name| (name, nullable(text())));
            let known = [
                ("subject", text()),
                ("decision", json!({ "enum": ["approve", "reject"] })),
                ("verdict", text()),
                ("proven", flag()),
                ("repeat", flag()),
                ("missing", count()),
            ];
            object(&[&known[..], &named[..]].concat(), &[])
        }),
        ("PersonPage", {
            let bound = ["logOrigin", "root"].map(|name| (name, nullable(text())));
            let known = [("tenantId", text()), ("people", list(open()))];
            object(&[&known[..], &bound[..]].concat(), &next)
        }),
        ("RuleList", object(&[("rules", list(ApprovalRule::schema()))], &[])),
        ("RunPage", object(&[("runs", list(reference("LoggedRun")))], &next)),
        ("LoggedRun", logged_run()),
        ("Run", {
            let documents = ["receipt", "envelope"].map(|name| (name, nullable(open())));
            object(&[&[("run", reference("LoggedRun"))][..], &documents[..]].concat(), &[])
        }),
        ("ReceiptProof", {
            let named = ["detail", "receiptHash"].map(|name| (name, nullable(text())));
            let lists = ["signers", "checkedFiles", "absentFiles"].map(|name| (name, list(text())));
            let known = [
                ("status", json!({ "enum": ["verified", "unproven", "refused", "absent"] })),
                ("entrySeq", nullable(count())),
                ("isInCheckpoint", json!({ "type": "boolean" })),
            ];
            object(&[&named[..], &lists[..], &known[..]].concat(), &[])
        }),
        ("RunLogs", {
            let file = object(&[("name", text()), ("text", text())], &[]);
            object(&[("files", list(file)), ("leftOut", list(text()))], &[])
        }),
        ("OpenWorkRuns", {
            let runs = list(object(&work_run_row(), &[]));
            object(&[("runs", runs), ("hasMore", json!({ "type": "boolean" }))], &[])
        }),
        ("RunComparison", run_comparison()),
        ("RunOutput", run_output()),
        ("RunStory", open()),
        ("LogSize", {
            let texts = ["tenantId", "origin", "root"].map(|name| (name, text()));
            let counts = ["entries", "edges", "checkpoints"].map(|name| (name, count()));
            let more = [("lastAt", instant()), ("lastCheckpoint", count())];
            object(&[&texts[..], &counts[..]].concat(), &more)
        }),
        ("Usage", usage()),
        ("Report", open()),
        ("ReceiptReport", ReceiptReport::schema()),
        ("IdRequest", IdRequest::schema()),
        (
            "FoundIds",
            object(
                &[(
                    "ids",
                    list(object(&[("word", text()), ("id", nullable(text())), ("short", text())], &[])),
                )],
                &[],
            ),
        ),
        ("SignerRequest", SignerRequest::schema()),
        ("Signer", signer()),
        ("SignerPage", object(&[("signers", list(reference("Signer")))], &next)),
        ("Health", object(&[("status", text())], &[])),
        (
            "Problem",
            object(
                &[
                    ("type", text()),
                    ("title", text()),
                    ("status", count()),
                    ("code", text()),
                    ("detail", text()),
                    ("requestId", text()),
                ],
                &[
                    ("hint", text()),
                    ("check", text()),
                    ("limit", limit),
                    ("violations", list(reference("Violation"))),
                ],
            ),
        ),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect();
    for contract in ContractName::ALL {
        if let Ok(schema) = serde_json::from_str(&contract.schema()) {
            components.insert(contract.as_str().to_owned(), schema);
        }
    }
    components
}
