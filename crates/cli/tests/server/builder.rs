//! The Builder over HTTP: a request is run once and answered alike from then on, and its reasons can be read.

use serde_json::json;

use crate::running::Running;
use crate::scratch::{Scratch, known, request};

const AGENT: &str = "[agents.\"example@1\"]\nkind = \"example\"\n";

fn started(artifacts: &[&str]) -> (Running, String) {
    let scratch = Scratch::with_ledger(AGENT);
    scratch.append(&known(1, artifacts, ""));
    let server = Running::start_in(scratch);
    let token = server.key("local", &["--role", "operator"]);
    (server, token)
}

#[test]
fn a_request_is_run_once_explained_and_derived_again() {
    let (server, token) = started(&["idea", "copy", "playbook"]);
    let body = request("e/1", "block", false);
    let answer = server.post("/v1/builder/runs", &token, &body);
    let first = answer.json();
    assert_eq!((answer.status, first["state"].as_str()), (200, Some("planned")), "{first}");
    let link = answer.header("link").unwrap();
    let reasons = link.strip_prefix('<').unwrap().split('>').next().unwrap();
    let why = server.get(reasons, &token).json();
    assert_eq!(
        (why["executionId"].as_str(), why["decision"].as_str()),
        (Some("e/1"), Some("ALLOW")),
        "{why}"
    );
    let again = server.post("/v1/builder/runs", &token, &body).json();
    assert_eq!((&again["idempotent"], &again["artifacts"]), (&json!(true), &first["artifacts"]));
    let conflict = server.post("/v1/builder/runs", &token, &body.replace("w1", "w2"));
    assert_eq!((conflict.status, conflict.json()["error"].as_str()), (409, Some("IDEMPOTENCY_CONFLICT")));
    let execution = reasons.strip_suffix("/reasons").unwrap();
    let shown = server.get(execution, &token).json();
    assert_eq!(
        (shown["events"].as_array().unwrap().len(), shown["records"].as_array().unwrap().len()),
        (1, 1)
    );
    let replays = server.get(&format!("{execution}/replay"), &token).json();
    assert_eq!(replays["replays"][0]["follows"], json!(true), "{replays}");
    let listed = server.get("/v1/executions?state=planned", &token).json();
    assert_eq!(listed["entries"][0]["payload"]["executionId"], json!("e/1"));
    let (_, printed) = server.scratch.json(&["execution", "show", "e/1", "--json"], "");
    assert_eq!(shown, printed);
    let other = server.key("other", &["--role", "operator"]);
    assert_eq!(server.get(execution, &other).problem(404), "unknown_id");
    assert_eq!(server.get(reasons, &other).problem(404), "unknown_id");
}

#[test]
fn what_leaves_nothing_is_no_success() {
    let (server, token) = started(&[]);
    let before = server.scratch.entries();
    let invalid = server.post("/v1/builder/runs", &token, "{}");
    assert_eq!((invalid.status, invalid.json()["error"].as_str()), (400, Some("INVALID_REQUEST")));
    let nothing =
        server.post("/v1/builder/runs", &token, &request("e-2", "block", false).replace("\"r\"", "\"q\""));
    assert_eq!((nothing.status, nothing.json()["error"].as_str()), (422, Some("SNAPSHOT_EMPTY")));
    assert_eq!(server.scratch.entries(), before);
    let blocked = server.post("/v1/builder/runs", &token, &request("e-3", "block", false));
    assert_eq!(
        (blocked.status, blocked.json()["blocking_reason"].as_str()),
        (200, Some("COHERENCE_BLOCKED"))
    );
    let own = server.key("local", &["--role", "operator", "--robot", "q"]);
    assert_eq!(
        server.post("/v1/builder/runs", &own, &request("e-4", "block", false)).problem(403),
        "forbidden"
    );
}

#[test]
fn robots_and_the_policy_are_shown_as_the_commands_show_them() {
    let (server, token) = started(&["idea", "copy", "playbook"]);
    let (_, listed) = server.scratch.json(&["robot", "list", "--json"], "");
    assert_eq!(server.get("/v1/robots", &token).json()["robots"], json!([listed]));
    let (_, snapshot) = server.scratch.json(&["snapshot", "r", "--json"], "");
    assert_eq!(server.get("/v1/robots/r/snapshot", &token).json(), snapshot);
    let empty = server.get("/v1/robots/r/snapshot?at=2020-01-01T00:00:00Z", &token);
    assert_eq!(empty.problem(404), "SNAPSHOT_EMPTY");
    let status = server.get("/v1/robots/r/status", &token).json();
    assert_eq!(status["coherence"]["status"], json!("coherent"));
    assert_eq!(server.get("/v1/robots/none/status", &token).problem(404), "unknown_id");
    let own = server.key("local", &["--role", "reader", "--robot", "q"]);
    assert_eq!(server.get("/v1/robots", &own).json()["robots"], json!([]));
    assert_eq!(server.get("/v1/robots/r/status", &own).problem(404), "unknown_id");
}

#[test]
fn rules_are_tried_on_recorded_decisions_as_the_command_does() {
    let (server, token) = started(&["idea", "copy", "playbook"]);
    for execution in ["e-1", "e-2"] {
        let answer = server.post("/v1/builder/runs", &token, &request(execution, "block", true));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    server.scratch.write("stricter.toml", "[thresholds]\nmin_lineage_count = 100\n");
    let (code, printed, stderr) =
        server.scratch.run(&["policy", "backtest", "--thresholds", "stricter.toml", "--json"], "");
    assert_eq!(code, 1, "{stderr}");
    let printed: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rules = r#"{"thresholds":{"min_lineage_count":100}}"#;
    let found = server.post("/v1/policy/backtest", &token, rules).json();
    assert_eq!((&found["flipped"], &found["totals"]), (&json!(printed[..2]), &printed[2]), "{found}");
    // What was cut is said, and where to continue.
    let first = server.post("/v1/policy/backtest?limit=1", &token, rules).json();
    assert_eq!((&first["cut"], &first["totals"]["decisions"]), (&json!("limit"), &json!(1)));
    let rest = format!("/v1/policy/backtest?cursor={}", first["next"].as_str().unwrap());
    let rest = server.post(&rest, &token, rules).json();
    assert_eq!((&rest["flipped"], rest.get("cut")), (&json!([printed[1]]), None));
    let own = server.key("local", &["--role", "reader", "--robot", "q"]);
    for target in ["/v1/policy/backtest", "/v1/policy/backtest?robot=r"] {
        assert_eq!(server.post(target, &own, rules).json()["totals"]["decisions"], json!(0));
    }
    let post = |body: &str| server.post("/v1/policy/backtest", &token, body).problem(400);
    assert_eq!(post(r#"{"thresholds":{"min_lineage":1}}"#), "bad_rules");
    assert_eq!(post(r#"{"thresholds":{},"thresholds":{}}"#), "invalid");
}

#[test]
fn a_document_is_judged_with_its_context_as_the_command_does() {
    let (server, token) = started(&[]);
    let output = json!({ "ok": true, "executionId": "other", "status": "succeeded", "artifacts": [] });
    let line = json!({ "contract": "agent-output", "doc": output, "context": { "input": {} } }).to_string();
    let (_, printed, _) = server.scratch.run(&["validate", "--batch"], &line);
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let judged = server.post("/v1/validate/agent-output?form=line", &token, &line);
    match printed.get("error") {
        None => assert_eq!(judged.json(), printed),
        Some(error) => {
            assert_eq!(judged.problem(400), "bad_line");
            let detail = judged.json()["detail"].as_str().unwrap().to_owned();
            assert!(error["message"].as_str().unwrap().contains(&detail), "{error} {detail}");
        }
    }
    let alone = server.post("/v1/validate/agent-output", &token, &output.to_string()).json();
    let wrapped = json!({ "doc": output }).to_string();
    assert_eq!(server.post("/v1/validate/agent-output?form=line", &token, &wrapped).json(), alone);
    assert_eq!(server.post("/v1/validate/work-item?form=line", &token, &line).problem(400), "bad_line");
}
