//! How the server starts, refuses to start, and stops.

use std::io::{BufReader, Write as _};

use crate::client::Answer;
use crate::running::{Running, start_process};
use crate::scratch::{Scratch, ended, signal};

#[test]
fn in_an_empty_folder_it_creates_a_ledger_and_shuts_down_cleanly() {
    let server = Running::start("");
    assert!(server.scratch.path().join(".crealeph/ledger.db").exists());
    let health = server.request("GET", "/healthz", None, None);
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("ok")));
    server.assert_serves();
    let docs = server.request("GET", "/docs", None, None);
    let page = String::from_utf8(docs.body.clone()).unwrap();
    assert!(docs.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(page.contains("POST /v1/entries") && !page.contains("<script"), "{page}");
    signal(server.process(), "-TERM");
    let (code, stderr) = server.ended();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("crealeph key create") && stderr.contains("stopped"), "{stderr}");
}

#[test]
fn a_request_in_flight_is_answered_before_it_stops() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer"]);
    let entry = r#"{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#;
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/entries HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.0,
        entry.len()
    );
    let (start, end) = entry.split_at(10);
    stream.write_all(format!("{head}{start}").as_bytes()).unwrap();
    // Another connection shows that the server has read so far, at the latest when it answers that.
    server.assert_serves();
    signal(server.process(), "-TERM");
    stream.write_all(end.as_bytes()).unwrap();
    let answer = Answer::read(&mut BufReader::new(stream));
    assert_eq!(answer.status, 200, "{answer:?}");
    let (code, stderr) = server.ended();
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn an_address_that_others_reach_needs_protection() {
    let scratch = Scratch::new();
    let (code, _, stderr) = scratch.run(&["serve", "--listen", "0.0.0.0:0", "--json"], "");
    assert_eq!(code, 2);
    assert!(stderr.contains("unprotected_address") && stderr.contains("--behind-proxy"), "{stderr}");
    let taken = Running::start("");
    let (code, _, stderr) = taken.scratch.run(&["serve", "--listen", &taken.0.to_string(), "--json"], "");
    assert_eq!(code, 2);
    assert!(stderr.contains("listen_failed"), "{stderr}");
}

#[test]
fn the_committed_document_is_what_the_server_says() {
    let server = Running::start("");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let committed: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(
        server.request("GET", "/openapi.json", None, None).json(),
        committed,
        "run `cargo xtask generate`"
    );
    let wrong = server.request("PUT", "/v1/entries", None, None);
    assert_eq!(wrong.problem(405), "method_not_allowed");
    assert_eq!(wrong.header("allow"), Some("POST,GET,HEAD"));
    assert_eq!(server.request("GET", "/v2/entries", None, None).problem(404), "no_route");
}

#[test]
fn servers_that_decide_differently_do_not_share_a_ledger() {
    let server = Running::start("");
    let start = |file: &str, more: &[&str]| {
        let arguments =
            [&["serve", "--listen", "127.0.0.1:0", "--json", "--config", file][..], more].concat();
        server.scratch.spawn(&arguments, "")
    };
    server.scratch.write("other.toml", "[builder.thresholds]\nmin_lineage_count = 7\n");
    let (code, _, stderr) = ended(start("other.toml", &[]));
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("sections differ: builder") && stderr.contains("--replace-configuration"),
        "{stderr}"
    );
    // Bounds do not decide anything.
    server.scratch.write("bounds.toml", "[server]\nmax_runs = 3\n");
    let (mut alike, client) = start_process(&server.scratch, &["--config", "bounds.toml"]);
    client.assert_serves();
    signal(&alike, "-TERM");
    alike.wait().unwrap();
    // The new one may replace the others, which end when they notice.
    let (mut next, client) =
        start_process(&server.scratch, &["--config", "other.toml", "--replace-configuration"]);
    let (scratch, code, stderr) = server.ended_in();
    assert!(code == 2 && stderr.contains("replaced"), "{code} {stderr}");
    client.assert_serves();
    // The configuration of before is the other one now, until the server that goes by the new one has ended.
    let (code, _, stderr) = scratch.run(&["serve", "--listen", "127.0.0.1:0"], "");
    assert!(code == 2 && stderr.contains("sections differ: builder"), "{code} {stderr}");
    signal(&next, "-TERM");
    assert!(next.wait().unwrap().success());
    Running::start_in(scratch).assert_serves();
}
