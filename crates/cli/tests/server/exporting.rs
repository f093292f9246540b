//! The export for auditors: the same bytes as the command line's, verified elsewhere, resumed after a cut.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::running::Running;

fn entries(from: usize, count: usize, text: &str) -> Value {
    let entry = |number| {
        json!({
            "robotId": "r", "module": "m", "source": "s", "type": "signal", "state": "final",
            "payload": { "text": text }, "key": format!("e{number}"),
        })
    };
    (from..from + count).map(entry).collect()
}

fn append(server: &Running, token: &str, batch: &Value) {
    let answer = server.post("/v1/entries", token, &batch.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn an_auditor_takes_the_log_along_and_resumes_after_a_cut() {
    let server = Running::start("[server]\nmax_exports_per_tenant = 1\n");
    let (auditor, writer) = (server.key("t", &["--role", "auditor"]), server.key("t", &["--role", "writer"]));
    append(&server, &writer, &entries(0, 700, "x"));
    assert_eq!(server.get("/v1/log/checkpoint", &auditor).status, 200);
    append(&server, &writer, &entries(700, 500, "x"));
    let whole = server.get("/v1/export", &auditor);
    assert_eq!((whole.status, whole.header("content-type")), (200, Some("application/x-ndjson")));
    let whole = String::from_utf8(whole.body).unwrap();
    let (code, printed, _) = server.scratch.run(&["ledger", "export", "--tenant", "t"], "");
    assert_eq!(code, 0);
    assert!(whole == printed, "the same bytes as the command line's");

    // Cut off in the middle of a line, after what was appended since: the rest makes it whole again.
    append(&server, &writer, &entries(1200, 10, "x"));
    let stated = serde_json::from_str::<Value>(whole.lines().next().unwrap()).unwrap()["entries"].clone();
    for cut in [whole.len() / 3, whole.len() - 10] {
        let end = whole.split_at(cut).0.rfind('\n').unwrap() + 1;
        let received = whole.split_at(end).0;
        let last = received.lines().rfind(|line| line.starts_with("{\"entry\"")).unwrap();
        let last = serde_json::from_str::<Value>(last).unwrap()["entry"]["seq"].clone();
        let rest = server.get(&format!("/v1/export?after={last}&upTo={stated}"), &auditor);
        assert_eq!(rest.status, 200);
        let joined = format!("{received}{}", String::from_utf8(rest.body).unwrap());
        server.scratch.write("export.jsonl", &joined);
        let (code, _, stderr) = server.scratch.run(&["ledger", "verify", "export.jsonl"], "");
        assert_eq!(code, 0, "{stderr}");
        // One that lacks its end is not taken for a whole one.
        server.scratch.write("export.jsonl", received);
        assert_ne!(server.scratch.run(&["ledger", "verify", "export.jsonl"], "").0, 0);
    }
    for wrong in ["after=3", "upTo=3", "after=4&upTo=3", "after=0&upTo=9999"] {
        assert_eq!(
            server.get(&format!("/v1/export?{wrong}"), &auditor).problem(400),
            "bad_parameter",
            "{wrong}"
        );
    }
    assert_eq!(server.get("/v1/export", &writer).problem(403), "forbidden");
    let restricted = server.key("t", &["--role", "auditor", "--robot", "r"]);
    assert_eq!(server.get("/v1/export", &restricted).problem(403), "forbidden");
}

#[test]
fn a_tenant_has_one_export_at_a_time_and_another_is_not_affected() {
    let server = Running::start("");
    let (auditor, writer) = (server.key("t", &["--role", "auditor"]), server.key("t", &["--role", "writer"]));
    let other = server.key("u", &["--role", "auditor"]);
    // More than all buffers on the way hold, so that it lasts until someone reads.
    for number in 0..8 {
        append(&server, &writer, &entries(number * 50, 50, &"x".repeat(60_000)));
    }
    let mut slow = server.connect();
    let head = format!(
        "GET /v1/export HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {auditor}\r\n\r\n",
        slow.peer_addr().unwrap()
    );
    slow.write_all(head.as_bytes()).unwrap();
    crate::receiver::until("the export to begin", || slow.peek(&mut [0]).is_ok_and(|read| read > 0));
    let refused = server.get("/v1/export", &auditor);
    assert_eq!(refused.json()["limit"]["name"], "max_exports_per_tenant", "{refused:?}");
    assert_eq!(refused.problem(429), "rate_limited");
    assert_eq!(server.get("/v1/export", &other).status, 200);
    drop(slow);
    crate::receiver::until("the place to be free again", || server.get("/v1/export", &auditor).status == 200);
}
