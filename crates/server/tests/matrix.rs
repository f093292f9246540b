//! Every route × every role × own tenant, another tenant, no key: from the OpenAPI document, so that a new route without its
//! row here fails. Each answer is checked against the document too: its status, media type and schema.

#![cfg(test)]

#[path = "../../cli/tests/server/client.rs"]
mod client;
mod running;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use client::Answer;
use running::Running;

const ROLES: [&str; 5] = ["reader", "writer", "operator", "auditor", "admin"];
const DRAFT: &str =
    r#"{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#;

/// One operation of the document.
struct Operation<'d> {
    path: &'d str,
    method: &'d str,
    value: &'d Value,
}

const OTHER_DRAFT: &str =
    r#"{"robotId":"q","module":"m","source":"s","type":"note","state":"final","payload":{}}"#;
const QUESTION: &str = r#"{"policyContractVersion":"v1","tenantId":"own","robotId":"r","snapshotAt":"2026-01-02T03:04:05Z","intelligenceSnapshot":{},"coherenceStatus":"coherent","ledgerRecency":{},"thresholds":{"minConfidence":0.5,"maxStalenessMinutes":10,"minLineageCount":1},"evaluatedAt":"2026-01-02T03:04:05Z"}"#;
const REQUEST: &str = r#"{"robotId":"r","objective_type":"landing_plan","objective_payload":{},"constraints":{},"coherence_policy":{"on_stale":"block","on_partial":"block"},"dryRun":true,"workflowVersion":"w1","agentVersion":"none@1","attempt":1}"#;

const VERDICT: &str = r#"{"statement":{"type":"verdict","tenantId":"t","logOrigin":"l","subjectKind":"draft","subjectId":"d-1","subjectDigest":"0000000000000000000000000000000000000000000000000000000000000000","target":"ledger","decision":"approve","person":"ana","keyId":"SHA256:x","ruleDigest":"0000000000000000000000000000000000000000000000000000000000000000","evidenceSeq":7,"evidenceRoot":"0000000000000000000000000000000000000000000000000000000000000000","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z","unattended":false},"proof":"ssh","signature":"x"}"#;
const ENROLMENT: &str = r#"{"statement":{"type":"person_enrolment","tenantId":"t","logOrigin":"l","person":"ana","publicKey":"k","keyId":"SHA256:x","groups":["admins"],"signedBy":"ana","signerKeyId":"SHA256:x","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z"},"proof":"ssh","signature":"x"}"#;
const REVOCATION: &str = r#"{"statement":{"type":"person_revocation","tenantId":"t","logOrigin":"l","person":"ana","signedBy":"ana","signerKeyId":"SHA256:x","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z"},"proof":"ssh","signature":"x"}"#;
const INVITATION: &str = r#"{"statement":{"type":"person_invitation","tenantId":"t","logOrigin":"l","person":"ana","groups":[],"role":"reader","origin":"https://team.example","secretDigest":"0000000000000000000000000000000000000000000000000000000000000000","expires":"2026-01-03T03:04:05.000Z","signedBy":"ana","signerKeyId":"SHA256:x","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z"},"proof":"ssh","signature":"x"}"#;
const PASSKEY: &str = r#"{"token":"x","statement":{"type":"passkey_enrolment","tenantId":"t","logOrigin":"l","invitation":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","person":"ana","origin":"https://team.example","time":"2026-01-02T03:04:05.000Z"},"attestationObject":"oA","clientDataJson":"e30"}"#;
const NO_RUN: &str = "0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f";
const SIGNER: &str = r#"{"key":"crealeph-workspace/x+00000000+AAAA"}"#;
const RULES: &str = r#"{"statement":{"type":"approval_rule","tenantId":"t","logOrigin":"l","rules":[],"signedBy":"ana","signerKeyId":"SHA256:x","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z"},"proof":"ssh","signature":"x"}"#;

/// What a request to an operation needs: its target and its body.
fn example(
    operation: &Operation<'_>,
    entry: &str,
    key: &str,
    webhooks: &[String; 2],
) -> (String, Option<&'static str>) {
    let path = operation.path.replace("{contract}", "work-item");
    let path = path.replace("{robot}", "r").replace("{execution}", "x-1");
    match operation.value["operationId"].as_str().unwrap() {
        "health" | "readiness" | "openapi" | "docs" | "listEntries" | "getCheckpoint" | "exportLog"
        | "getSchema" | "listKeys" | "listRobots" | "getSnapshot" | "getStatus" | "listExecutions"
        | "getExecution" | "explainExecution" | "replayExecution" | "listBuilderRuns" | "getBuilderRun"
        | "cancelBuilderRun" | "listInbox" | "listPeople" | "listRules" | "listRuns" | "listSigners"
        | "listOpenRuns" | "listSessions" | "getLogSize" | "getUsage" | "getReport" | "getReportPage"
        | "getReportText" => (path, None),
        "findIds" => (path, Some(r#"{"kind":"entry","words":["none"]}"#)),
        "prepareVerdict" => (path, Some(r#"{"subject":"d-1","decision":"approve","keyId":"SHA256:x"}"#)),
        "recordVerdict" => (path, Some(VERDICT)),
        "compareRuns" => (format!("{path}?a={NO_RUN}&b={NO_RUN}"), None),
        "getRun" | "getRunStory" | "verifyRun" | "getRunDiff" | "getRunLogs" | "getRunOutput" => {
            (path.replace("{id}", NO_RUN), None)
        }
        "reportReceipt" => (path, Some(r#"{"receipt":{},"envelope":{},"files":[]}"#)),
        "enrolSigner" => (path, Some(SIGNER)),
        "revokeSigner" => (path.replace("{id}", &"0".repeat(64)), None),
        "enrolPerson" => (path, Some(ENROLMENT)),
        "revokePerson" => (path, Some(REVOCATION)),
        "invitePerson" => (path, Some(INVITATION)),
        "preparePasskey" => (path, Some(r#"{"token":"x"}"#)),
        "enrolPasskey" => (path, Some(PASSKEY)),
        "setRules" => (path, Some(RULES)),
        "evaluatePolicy" => (path, Some(QUESTION)),
        "runBuilder" => (path, Some(REQUEST)),
        "backtestPolicy" => (path, Some("{}")),
        // For another robot, so that the other tenant has none of the name `r`.
        "appendEntries" => (path, Some(OTHER_DRAFT)),
        "getEntry" | "getLineage" | "proveEntry" | "getInboxItem" | "getInboxDiff" | "explainApproval" => {
            (path.replace("{id}", entry), None)
        }
        "proveConsistency" => (format!("{path}?older=1&newer=1"), None),
        "validate" => (path, Some("{}")),
        "createKey" => (path, Some(r#"{"role":"reader"}"#)),
        "revokeKey" => (path.replace("{id}", key), None),
        "endSession" => (path.replace("{id}", "none"), None),
        "listWebhooks" => (path, None),
        "createWebhook" => (path, Some(r#"{"url":"https://hook.invalid/"}"#)),
        "getWebhook" | "testWebhook" | "enableWebhook" | "getDeliveries" => {
            (path.replace("{id}", &webhooks[0]), None)
        }
        "deleteWebhook" => (path.replace("{id}", &webhooks[1]), None),
        new => panic!("say here how `{new}` is called"),
    }
}

/// What a key of the tenant gets whose role permits it.
fn own_status(operation: &Operation<'_>) -> u16 {
    match operation.value["operationId"].as_str().unwrap() {
        // There is no such agent.
        "runBuilder" => 400,
        // The Builder has not run, so there is no record of the execution.
        "explainExecution" | "replayExecution" | "getBuilderRun" | "cancelBuilderRun" => 404,
        // There is no draft of the id, and the statements are for another tenant.
        "getInboxItem" | "getInboxDiff" | "explainApproval" | "prepareVerdict" | "recordVerdict" => 404,
        "enrolPerson" | "invitePerson" | "revokePerson" | "setRules" => 422,
        // No invitation is open.
        "preparePasskey" | "enrolPasskey" => 422,
        // No run, signer or session is known, and the receipt is no one's.
        "getRun" | "getRunStory" | "verifyRun" | "getRunDiff" | "getRunLogs" | "getRunOutput"
        | "compareRuns" | "revokeSigner" | "endSession" => 404,
        "reportReceipt" => 422,
        "enrolSigner" => 400,
        _ => 200,
    }
}

/// The start of an execution that is based on an entry.
fn event(on: &Value) -> String {
    let event = json!({
        "robotId": "r", "module": "agent-builder", "source": "agent-builder", "type": "execution_event",
        "state": "running", "lineage": { "dependsOnLedgerIds": [on["id"]] },
        "payload": {
            "executionId": "x-1", "workflowVersion": "w", "agentVersion": "a", "executionContractVersion": "v1",
            "attempt": 1, "target": "seo", "action": "plan_seo_cluster", "snapshotAt": on["createdAt"],
            "coherenceStatus": "coherent", "dryRun": true,
        },
    });
    event.to_string()
}

/// Checks an answer against what the document says of its status.
struct Checker<'d> {
    document: &'d Value,
    schemas: Schemas,
    compiler: Compiler,
}

impl Checker<'_> {
    fn schema(&mut self, pointer: &str) -> SchemaIndex {
        self.compiler.compile(&format!("urn:openapi#{pointer}"), &mut self.schemas).unwrap()
    }

    fn check(&mut self, operation: &Operation<'_>, answer: &Answer) {
        let what = format!("{} {}: {answer:?}", operation.method, operation.path);
        let escaped = operation.path.replace('~', "~0").replace('/', "~1");
        let response = format!("/paths/{escaped}/{}/responses/{}", operation.method, answer.status);
        let documented =
            self.document.pointer(&response).unwrap_or_else(|| panic!("undocumented status: {what}"));
        let media_type = answer.header("content-type").unwrap();
        assert!(documented["content"].get(media_type).is_some(), "undocumented media type: {what}");
        if media_type.ends_with("/json") || media_type.ends_with("+json") {
            let media_type = media_type.replace('/', "~1");
            let index = self.schema(&format!("{response}/content/{media_type}/schema"));
            let document = answer.json();
            let judged = self.schemas.validate(&document, index);
            assert!(judged.is_ok(), "{what}: {}", judged.unwrap_err());
        }
    }
}

// holds: invariant 10
#[test]
fn every_route_serves_only_its_roles() {
    let server = Running::start();
    let document = server.request("GET", "/openapi.json", None, None).json();
    let mut compiler = Compiler::new();
    compiler.add_resource("urn:openapi", document.clone()).unwrap();
    let mut checker = Checker { document: &document, schemas: Schemas::new(), compiler };
    let own: Vec<String> = ROLES.iter().map(|role| server.key("own", role)).collect();
    let other: Vec<String> = ROLES.iter().map(|role| server.key("other", role)).collect();
    let appended = server.post("/v1/entries", &own[1], DRAFT).json();
    let entry = appended["appended"][0]["id"].as_str().unwrap().to_owned();
    let event = event(&appended["appended"][0]);
    assert_eq!(server.post("/v1/entries", &own[1], &event).status, 200);
    let key =
        server.post("/v1/keys", &own[4], r#"{"role":"reader"}"#).json()["keyId"].as_str().unwrap().to_owned();
    let webhooks = [(); 2].map(|()| {
        let created = server.post("/v1/webhooks", &own[4], r#"{"url":"https://hook.invalid/"}"#).json();
        created["webhookId"].as_str().unwrap().to_owned()
    });
    // A stream has no end to wait for; its own tests are the command line's.
    let streams = |value: &Value| value["operationId"] == json!("streamEvents");
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, value) in methods.as_object().unwrap() {
            let operation = Operation { path, method, value };
            if streams(value) {
                check_stream(&server, &own, &other);
                continue;
            }
            let (target, body) = example(&operation, &entry, &key, &webhooks);
            let roles: Vec<&str> = value["x-crealeph-roles"]
                .as_array()
                .unwrap()
                .iter()
                .map(|role| role.as_str().unwrap())
                .collect();
            let send = |token: Option<&str>| server.request(&method.to_uppercase(), &target, token, body);
            let nobody = send(None);
            checker.check(&operation, &nobody);
            assert_eq!(
                nobody.status,
                if roles.is_empty() { own_status(&operation) } else { 401 },
                "{method} {path}"
            );
            for ((role, own), other) in ROLES.iter().zip(&own).zip(&other) {
                let is_allowed = roles.is_empty() || roles.contains(role);
                let answer = send(Some(own));
                checker.check(&operation, &answer);
                let expected = if is_allowed { own_status(&operation) } else { 403 };
                assert_eq!(answer.status, expected, "{role}: {method} {path}: {answer:?}");
                let answer = send(Some(other));
                checker.check(&operation, &answer);
                let is_named = path.contains("{id}") || path.contains("{robot}");
                let expected = match value["operationId"].as_str() {
                    _ if !is_allowed => 403,
                    _ if is_named => 404,
                    // The question names the tenant that it is about.
                    Some("evaluatePolicy") => 403,
                    _ => own_status(&operation),
                };
                assert_eq!(answer.status, expected, "other {role}: {method} {path}: {answer:?}");
                let text = String::from_utf8_lossy(&answer.body);
                assert!(!text.contains(&entry) && !text.contains(&key), "{role}: {method} {path}: {text}");
                count += 2;
            }
        }
    }
    assert!(count >= 160, "{count} answers");
}

/// A stream begins for the roles that read, and for no one else.
fn check_stream(server: &Running, own: &[String], other: &[String]) {
    assert_eq!(server.request("GET", "/v1/events", None, None).status, 401);
    for (role, tokens) in ROLES.iter().zip(own.iter().zip(other)) {
        for token in [tokens.0, tokens.1] {
            let expected = if *role == "admin" { 403 } else { 200 };
            assert_eq!(server.head("/v1/events", token).status, expected, "{role}");
        }
    }
}

// holds: invariant 10
#[test]
fn another_tenants_entries_look_absent() {
    let server = Running::start();
    let own = server.key("own", "writer");
    let other = server.key("other", "writer");
    let appended = server.post("/v1/entries", &own, DRAFT).json();
    let entry = appended["appended"][0]["id"].as_str().unwrap();
    for suffix in ["", "/lineage", "/proof"] {
        let without_id = |id: &str| {
            let answer = server.get(&format!("/v1/entries/{id}{suffix}"), &other);
            let mut document = answer.json();
            document["requestId"] = json!("");
            (answer.status, document)
        };
        assert_eq!(without_id(entry), without_id("0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f"));
    }
    // Neither counts nor sequence numbers continue from another tenant's.
    let first = server.post("/v1/entries", &other, DRAFT).json();
    assert_eq!(first["appended"][0]["seq"], json!(2), "the first is the key's own grant");
}
