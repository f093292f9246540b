//! Builder runs that are accepted now and run later: durable, one per execution, answered alike from then on.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::gate::GateAgent;
use crate::running::Running;
use crate::scratch::{Scratch, known, request, signal, wait_until};

const EXAMPLE: &str = "[agents.\"example@1\"]\nkind = \"example\"\n";

fn started(gate: &GateAgent, configuration: &str) -> (Running, String) {
    let scratch = Scratch::with_ledger(&format!("{configuration}{EXAMPLE}{}", gate.section()));
    scratch.append(&known(1, &["idea", "copy", "playbook"], ""));
    let server = Running::start_in(scratch);
    let token = server.key("local", &["--role", "operator"]);
    (server, token)
}

/// A request to the agent that waits.
pub(crate) fn gated(execution: &str) -> String {
    request(execution, "block", false).replace("example@1", "gate@1")
}

pub(crate) fn prefer(server: &Client, token: &str, preferences: &str, body: &str) -> Answer {
    let head = format!(
        "POST /v1/builder/runs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nPrefer: {preferences}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.0,
        body.len()
    );
    server.send(format!("{head}{body}").as_bytes())
}

/// Looks at a run until it is decided.
pub(crate) fn decided(server: &Client, token: &str, target: &str) -> Answer {
    wait_until("the run is decided", || server.get(target, token).status != 202);
    server.get(target, token)
}

fn error(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.json()["error"].as_str().map(str::to_owned))
}

#[test]
fn an_accepted_run_is_answered_later_and_alike_from_then_on() {
    let gate = GateAgent::start();
    let (server, token) = started(&gate, "");
    let body = gated("e/1");
    let accepted = prefer(&server, &token, "respond-async", &body);
    let shown = accepted.json();
    assert_eq!((accepted.status, &shown["executionId"]), (202, &json!("e/1")), "{shown}");
    assert_eq!(accepted.header("preference-applied"), Some("respond-async"));
    assert!(accepted.header("retry-after").is_some());
    let target = accepted.header("location").unwrap().to_owned();
    wait_until("the agent is called", || gate.calls() == 1);
    let running = server.get(&target, &token);
    assert_eq!((running.status, &running.json()["state"]), (202, &json!("running")));
    let listed = server.get("/v1/builder/runs", &token).json();
    assert_eq!((&listed["runs"][0]["executionId"], &listed["runs"][0]["tries"]), (&json!("e/1"), &json!(1)));
    // The same again is the same run; another body under its name contradicts it, waited for or not.
    assert_eq!(prefer(&server, &token, "respond-async, wait=0", &body).status, 202);
    let other = body.replace("\"w1\"", "\"w2\"");
    let conflict = (409, Some("IDEMPOTENCY_CONFLICT".to_owned()));
    assert_eq!(error(&prefer(&server, &token, "respond-async", &other)), conflict);
    // A key that was revoked does not take back what was accepted with it; others see nothing of it.
    let own = server.key("local", &["--role", "operator", "--robot", "q"]);
    let stranger = server.key("other", &["--role", "operator"]);
    for key in [&own, &stranger] {
        assert_eq!(server.get(&target, key).problem(404), "unknown_id");
        assert_eq!(server.request("DELETE", &target, Some(key), None).status, 400, "it takes no attempt");
        let path = target.split('?').next().unwrap();
        assert_eq!(server.request("DELETE", path, Some(key), None).problem(404), "unknown_id");
        assert_eq!(server.get("/v1/builder/runs", key).json(), json!({ "runs": [] }));
    }
    gate.open();
    let answer = decided(&server, &token, &target);
    assert_eq!((answer.status, gate.calls()), (200, 1));
    assert!(answer.header("link").is_some());
    let again = prefer(&server, &token, "respond-async", &body);
    assert_eq!((again.status, &again.json()["idempotent"]), (200, &json!(true)));
    assert_eq!(again.json()["state"], answer.json()["state"]);
    assert_eq!(error(&prefer(&server, &token, "respond-async", &other)), conflict);
    assert_eq!(server.get("/v1/builder/runs", &token).json(), json!({ "runs": [] }));
    let (code, _, stderr) = server.scratch.run(&["ledger", "verify"], "");
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn a_client_may_wait_and_what_leaves_nothing_is_kept_for_it() {
    let gate = GateAgent::start();
    let (server, token) = started(&gate, "");
    let planned = prefer(&server, &token, "wait=60", &request("e-1", "block", false));
    assert_eq!((planned.status, planned.header("preference-applied")), (200, Some("wait=60")));
    assert_eq!(planned.json()["state"], json!("planned"), "{planned:?}");
    let late = prefer(&server, &token, "wait=1", &gated("e-2"));
    assert_eq!(late.status, 202);
    gate.open();
    assert_eq!(decided(&server, &token, late.header("location").unwrap()).status, 200);
    // A request that names no execution is given one.
    let mut unnamed: Value = serde_json::from_str(&request("x", "block", false)).unwrap();
    unnamed.as_object_mut().unwrap().remove("executionId");
    let accepted = prefer(&server, &token, "respond-async", &unnamed.to_string());
    assert_eq!(accepted.status, 202);
    let answer = decided(&server, &token, accepted.header("location").unwrap());
    assert_eq!(answer.json()["executionId"], accepted.json()["executionId"]);
    let before = server.scratch.entries();
    let nothing = request("e-3", "block", false).replace("\"r\"", "\"q\"");
    let accepted = prefer(&server, &token, "respond-async", &nothing);
    let answer = decided(&server, &token, accepted.header("location").unwrap());
    assert_eq!(error(&answer), (422, Some("SNAPSHOT_EMPTY".to_owned())));
    assert_eq!(
        error(&prefer(&server, &token, "respond-async", "{}")),
        (400, Some("INVALID_REQUEST".to_owned()))
    );
    let unknown = request("e-4", "block", false).replace("example@1", "none@1");
    assert_eq!(
        error(&prefer(&server, &token, "wait=5", &unknown)),
        (400, Some("INVALID_REQUEST".to_owned()))
    );
    assert_eq!(server.scratch.entries(), before);
    assert_eq!(server.get("/v1/builder/runs/r/none", &token).problem(404), "unknown_id");
}

#[test]
fn accepted_runs_are_bounded_and_may_be_cancelled_before_they_start() {
    let gate = GateAgent::start();
    let bounds = "[server]\nmax_runs = 1\nmax_accepted_per_tenant = 2\nmax_accepted = 3\n";
    let (server, token) = started(&gate, bounds);
    let accept = |execution: &str| prefer(&server, &token, "respond-async", &gated(execution));
    assert_eq!(accept("e-1").status, 202);
    wait_until("the first is taken up", || gate.calls() == 1);
    assert_eq!(accept("e-2").status, 202);
    let full = accept("e-3");
    assert_eq!(
        (full.problem(429), full.json()["limit"]["name"].as_str()),
        ("rate_limited".to_owned(), Some("max_accepted_per_tenant"))
    );
    let waiting = server.get("/v1/builder/runs/r/e-2", &token);
    assert_eq!((waiting.status, &waiting.json()["state"]), (202, &json!("accepted")));
    let first = server.get("/v1/builder/runs?limit=1", &token).json();
    let second =
        server.get(&format!("/v1/builder/runs?cursor={}", first["next"].as_str().unwrap()), &token).json();
    assert_eq!(
        (&first["runs"][0]["executionId"], &second["runs"][0]["executionId"]),
        (&json!("e-1"), &json!("e-2"))
    );
    let cancel = |execution: &str| {
        server.request("DELETE", &format!("/v1/builder/runs/r/{execution}"), Some(&token), None)
    };
    assert_eq!(cancel("e-1").problem(409), "run_started");
    assert_eq!(cancel("e-2").status, 200);
    assert_eq!(cancel("e-2").problem(404), "unknown_id");
    assert_eq!(accept("e-3").status, 202);
    gate.open();
    for execution in ["e-1", "e-3"] {
        let target = format!("/v1/builder/runs/r/{execution}?attempt=1");
        assert_eq!(decided(&server, &token, &target).status, 200);
    }
    assert_eq!((gate.calls(), server.get("/v1/builder/runs/r/e-2", &token).status), (2, 404));
}

#[test]
fn a_server_that_stops_gives_its_runs_back() {
    let gate = GateAgent::start();
    let (server, token) = started(&gate, "[server]\nshutdown_timeout_ms = 0\n");
    assert_eq!(prefer(&server, &token, "respond-async", &gated("e-1")).status, 202);
    wait_until("the agent is called", || gate.calls() == 1);
    signal(server.process(), "-TERM");
    let (scratch, code, stderr) = server.ended_in();
    assert_eq!(code, 0, "{stderr}");
    gate.open();
    let server = Running::start_in(scratch);
    assert_eq!(decided(&server, &token, "/v1/builder/runs/r/e-1").status, 200);
    assert_eq!(gate.calls(), 2);
}

#[test]
fn a_run_over_which_every_process_died_ends_as_failed() {
    let gate = GateAgent::start();
    let (server, token) = started(&gate, "[server]\nmax_accepted_tries = 1\n");
    assert_eq!(prefer(&server, &token, "respond-async", &gated("e-1")).status, 202);
    wait_until("the agent is called", || gate.calls() == 1);
    signal(server.process(), "-KILL");
    let (scratch, ..) = server.ended_in();
    let server = Running::start_in(scratch);
    let answer = decided(&server, &token, "/v1/builder/runs/r/e-1");
    assert_eq!(error(&answer), (200, Some("MODEL_OUTPUT_INVALID".to_owned())));
    assert_eq!((gate.calls(), &answer.json()["state"]), (1, &json!("failed")));
    let why = server.get("/v1/executions/r/e-1/reasons", &token).json();
    assert!(why["reason"].as_str().unwrap().contains("died"), "{why}");
    let replays = server.get("/v1/executions/r/e-1/replay", &token).json();
    assert_eq!(replays["replays"][0]["follows"], json!(true), "{replays}");
}
