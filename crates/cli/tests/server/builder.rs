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
