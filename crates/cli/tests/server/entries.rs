//! The ledger over HTTP: appended, listed, proved, and the same as the command line shows.

use serde_json::{Value, json};

use crate::running::Running;

fn entry(robot: &str, key: &str, on: &[&str]) -> Value {
    json!({
        "robotId": robot, "module": "m", "source": "s", "type": "signal", "state": "final",
        "payload": { "text": "ü" }, "key": key, "lineage": { "dependsOnLedgerIds": on },
    })
}

#[test]
fn a_log_that_has_not_grown_is_not_signed_again() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer"]);
    let checkpoint = || server.get("/v1/log/checkpoint", &token);
    let first = checkpoint();
    assert_eq!(first.status, 200);
    // Without its keys the server cannot sign, and does not need to.
    let (keys, away) =
        (server.scratch.path().join(".crealeph/ledger.db.keys"), server.scratch.path().join("away"));
    std::fs::rename(&keys, &away).unwrap();
    assert_eq!(checkpoint().body, first.body);
    crate::events::append(&server, &token, "r", "one-more");
    assert_ne!(checkpoint().status, 200, "a new state needs a new signature");
    std::fs::rename(&away, &keys).unwrap();
    assert_ne!(checkpoint().body, first.body);
}

#[test]
fn what_is_appended_is_listed_traced_and_proved() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer"]);
    let batch = json!([entry("r", "a", &[]), entry("r", "b", &["key:a"]), entry("q", "c", &["key:b"])]);
    let appended = server.post("/v1/entries", &token, &batch.to_string());
    assert_eq!(appended.status, 200, "{appended:?}");
    let appended = appended.json()["appended"].clone();
    let repeat = server.post("/v1/entries", &token, &entry("r", "a", &[]).to_string()).json();
    assert_eq!(
        (&repeat["appended"][0]["id"], &repeat["appended"][0]["repeat"]),
        (&appended[0]["id"], &json!(true))
    );
    // The same bytes as the command line prints.
    let id = appended[1]["id"].as_str().unwrap();
    let shown = server.get(&format!("/v1/entries/{id}"), &token);
    let (_, printed, _) = server.scratch.run(&["ledger", "get", id, "--tenant", "t"], "");
    assert_eq!(String::from_utf8(shown.body).unwrap(), printed.trim_end());
    assert_eq!(server.get("/v1/entries/key%3Ab", &token).json()["id"], appended[1]["id"]);
    // Pages follow each other without gap or repeat.
    let mut found = Vec::new();
    let mut target = "/v1/entries?type=signal&limit=1".to_owned();
    loop {
        let page = server.get(&target, &token).json();
        found.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        target = format!("/v1/entries?type=signal&limit=1&cursor={next}");
    }
    let ids: Vec<Value> = appended.as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(found, ids);
    let down =
        server.get(&format!("/v1/entries/{}/lineage?direction=down", ids[0].as_str().unwrap()), &token);
    assert_eq!(down.json()["entries"].as_array().unwrap().len(), 2);
    // Proofs hold for someone who has the public key alone.
    let (_, keys, _) = server.scratch.run(&["ledger", "key", "--tenant", "t"], "");
    server.scratch.write("saved.key", &keys);
    let proof = server.get(&format!("/v1/entries/{id}/proof"), &token);
    server.scratch.write("proof.json", &String::from_utf8(proof.body).unwrap());
    let (code, _, stderr) =
        server.scratch.run(&["ledger", "verify-proof", "proof.json", "--key", "saved.key"], "");
    assert_eq!(code, 0, "{stderr}");
    let note = server.get("/v1/log/checkpoint", &token);
    server.scratch.write("saved.checkpoint", &String::from_utf8(note.body).unwrap());
    let verify =
        ["ledger", "verify", "--tenant", "t", "--key", "saved.key", "--checkpoint", "saved.checkpoint"];
    let (code, _, stderr) = server.scratch.run(&verify, "");
    assert_eq!(code, 0, "{stderr}");
    let proof = server.get("/v1/log/consistency?older=2&newer=4", &token).json();
    assert!(!proof["path"].as_array().unwrap().is_empty(), "{proof}");
    assert_eq!(server.get("/v1/log/consistency?older=2&newer=5", &token).problem(400), "ledger_limit");
    // An entry says by which key it came; who sends it again changes nothing, and no one can say it for themselves.
    let own = &token.split('.').nth(1).unwrap();
    let other = server.key("t", &["--role", "writer"]);
    assert_eq!(
        server.post("/v1/entries", &other, &entry("r", "a", &[]).to_string()).json()["appended"][0]["repeat"],
        true
    );
    let actor = server.get("/v1/entries/key%3Aa", &token).json()["actor"].clone();
    assert_eq!(actor, format!("key:{own}"));
    let mut claimed = entry("r", "z", &[]);
    claimed["actor"] = json!("key:0000");
    assert_eq!(server.post("/v1/entries", &token, &claimed.to_string()).problem(400), "invalid_entry");
}

#[test]
fn a_refused_batch_says_why_and_writes_nothing() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer"]);
    let before = server.get("/v1/entries", &token).json();
    let post = |body: &str| server.post("/v1/entries", &token, body);
    let wrong = post(&json!([entry("r", "a", &[]), { "robotId": 1 }]).to_string());
    assert_eq!(wrong.problem(400), "invalid_entry");
    let violations = wrong.json()["violations"].clone();
    let pointers: Vec<&str> =
        violations.as_array().unwrap().iter().map(|one| one["pointer"].as_str().unwrap()).collect();
    assert!(pointers.contains(&"/1/robotId") && pointers.contains(&"/1/payload"), "{pointers:?}");
    assert_eq!(post(r#"{"robotId":"r","robotId":"q"}"#).problem(400), "invalid_entry");
    assert_eq!(post("{").problem(400), "invalid");
    assert_eq!(post("[]").problem(400), "bad_request");
    assert_eq!(post(&entry("r", "x", &["key:none"]).to_string()).problem(422), "unknown_id");
    let mut reserved = entry("r", "x", &[]);
    reserved["type"] = json!("key_grant");
    assert_eq!(post(&reserved.to_string()).problem(400), "reserved");
    assert_eq!(server.get("/v1/entries", &token).json(), before);
    assert_eq!(post(&entry("r", "x", &[]).to_string()).status, 200);
    let mut other = entry("r", "x", &[]);
    other["payload"] = json!({});
    assert_eq!(post(&other.to_string()).problem(409), "IDEMPOTENCY_CONFLICT");
}

#[test]
fn a_key_of_a_robot_sees_and_writes_nothing_else() {
    let server = Running::start("");
    let whole = server.key("t", &["--role", "writer"]);
    let own = server.key("t", &["--role", "writer", "--robot", "r"]);
    let batch = json!([entry("r", "mine", &[]), entry("q", "theirs", &["key:mine"])]);
    assert_eq!(server.post("/v1/entries", &whole, &batch.to_string()).status, 200);
    let page = server.get("/v1/entries", &own).json();
    let robots: Vec<&Value> =
        page["entries"].as_array().unwrap().iter().map(|entry| &entry["robotId"]).collect();
    assert_eq!(robots, ["r"]);
    assert_eq!(server.get("/v1/entries?robot=q", &own).json()["entries"], json!([]));
    // A key that another robot's entry has is taken, and nothing more is said of that entry.
    let theirs = server.get("/v1/entries/key:theirs", &whole).json()["id"].as_str().unwrap().to_owned();
    let taken = server.post("/v1/entries", &own, &entry("r", "theirs", &[]).to_string());
    assert_eq!(taken.problem(409), "IDEMPOTENCY_CONFLICT");
    let said = taken.json().to_string();
    assert!(!said.contains(&theirs) && !said.contains("robotId"), "{said}");
    let mut changed = entry("r", "mine", &[]);
    changed["payload"] = json!({});
    let own_conflict = server.post("/v1/entries", &own, &changed.to_string()).json();
    assert!(own_conflict["detail"].as_str().unwrap().contains("/payload"), "{own_conflict}");
    let unseen = server.get("/v1/entries/key:theirs", &own);
    let absent = server.get("/v1/entries/key:absent", &own);
    assert_eq!(
        (unseen.problem(404), unseen.json()["detail"].clone()),
        (absent.problem(404), absent.json()["detail"].clone())
    );
    let down = server.get("/v1/entries/key:mine/lineage?direction=down", &own).json();
    assert_eq!(down["entries"], json!([]));
    assert_eq!(server.post("/v1/entries", &own, &entry("q", "n", &[]).to_string()).problem(403), "forbidden");
    let on_theirs = server.post("/v1/entries", &own, &entry("r", "n", &["key:theirs"]).to_string());
    assert_eq!(on_theirs.problem(422), "unknown_id");
    assert_eq!(server.post("/v1/entries", &own, &entry("r", "n", &["key:mine"]).to_string()).status, 200);
}

#[test]
fn parameters_and_bounds_are_named_when_they_are_wrong() {
    let server = Running::start("[server]\nmax_batch_entries = 2\nmax_page_entries = 5\n");
    let token = server.key("t", &["--role", "writer"]);
    for (target, name) in [
        ("/v1/entries?limit=0", "limit"),
        ("/v1/entries?limit=6", "limit"),
        ("/v1/entries?limit=%2B1", "limit"),
        ("/v1/entries?robots=r", "robots"),
        ("/v1/entries?robot=r&robot=r", "robot"),
        ("/v1/entries?robot=", "robot"),
        ("/v1/entries?from=yesterday", "from"),
        ("/v1/entries?order=up", "order"),
        ("/v1/log/consistency?older=1", "newer"),
    ] {
        let answer = server.get(target, &token);
        assert_eq!(answer.problem(400), "bad_parameter", "{target}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(&format!("`{name}`")), "{answer:?}");
    }
    assert_eq!(server.get("/v1/entries?cursor=1", &token).problem(400), "ledger_bad_cursor");
    assert_eq!(server.get("/v1/entries?robot=%FF", &token).problem(400), "bad_request");
    let batch = json!([entry("r", "a", &[]), entry("r", "b", &[]), entry("r", "c", &[])]);
    let refused = server.post("/v1/entries", &token, &batch.to_string());
    assert_eq!(refused.problem(413), "too_large");
    assert_eq!(refused.json()["limit"], json!({ "name": "max_batch_entries", "value": 2 }));
    let judged = server.post("/v1/validate/builder-request", &token, "{}").json();
    assert_eq!(judged["valid"], json!(false));
    assert_eq!(judged["violations"][0]["code"], json!("INVALID_REQUEST"));
    assert_eq!(server.get("/v1/schemas/receipt", &token).json()["title"], json!("receipt"));
    assert_eq!(server.get("/v1/schemas/none", &token).problem(404), "unknown_id");
}
