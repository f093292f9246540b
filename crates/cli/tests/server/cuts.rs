//! What a command did not look at or did not get of a server, it says: a page that is not the last, the bound on what is looked at, logs
//! that were not reported.

use serde_json::{Value, json};

use crate::asked::Asked;
use crate::client::Client;
use crate::lying::{Between, respond, with_people};

#[test]
fn the_newest_that_waits_is_found_behind_what_was_decided() {
    let (asked, writer, _) = with_people();
    let (_, listed, _) = asked.ask(&writer, &["inbox", "--json"], "");
    let waiting: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(waiting.len() > 3, "{listed}");
    let reject = ["reject", "@", "--reason", "no", "--yes", "--sign-with", "ana", "--json"];
    for newest in waiting {
        let (code, said, stderr) = asked.ask(&writer, &reject, "");
        assert_eq!(code, 0, "{stderr}");
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["subject"], newest["subject"], "{said}");
    }
    let (code, _, stderr) = asked.ask(&writer, &reject, "");
    assert!(code == 1 && stderr.contains("no entry `@`"), "{code} {stderr}");
}

/// A server with more runs than are looked at; those without an item are merges, which no word means.
fn with_many_runs(asked: &Asked, item: Option<&'static str>) -> Between {
    let server = Client(asked.server.0);
    Between::start(move |head, body, stream, _| {
        let line = head.lines().next().unwrap();
        let number = |name: &str| {
            let (_, after) = line.split_once(name)?;
            after.split(['&', ' ']).next()?.parse::<u64>().ok()
        };
        let answer = if line.contains("/v1/work/runs/open") {
            json!({ "runs": [], "hasMore": item.is_some() })
        } else if line.contains("/v1/work/runs?") {
            let (limit, start) = (number("limit=").unwrap(), number("cursor=seq%2D").unwrap_or(1_000_000));
            let row = |seq: u64| {
                json!({
                    "run": format!("00000000-0000-7000-8000-{seq:012}"), "shortId": "0", "item": item, "task": "t",
                    "agent": null, "status": "success", "outcome": "success", "startedAt": "2026-01-01T00:00:00Z",
                    "since": "2026-01-01T00:00:00Z", "files": 1, "verdict": null,
                })
            };
            let rows: Vec<Value> = (0..limit).map(|place| row(start - place)).collect();
            json!({ "runs": rows, "next": format!("seq-{}", start - limit) })
        } else {
            let answer = server.send(&[head.as_bytes(), body].concat());
            let text = String::from_utf8(answer.body.clone()).unwrap();
            let media_type = answer.header("content-type").unwrap();
            respond(stream, &answer.status.to_string(), &format!("Content-Type: {media_type}\r\n"), &text);
            return;
        };
        respond(stream, "200", "Content-Type: application/json\r\n", &answer.to_string());
    })
}

#[test]
fn only_the_newest_runs_are_looked_at_and_that_is_said() {
    let asked = Asked::new("");
    let reader = asked.server.key("local", &["--role", "reader"]);
    let merges = with_many_runs(&asked, None);
    for (word, named) in [("@", "`@`"), ("@-", "`@-`"), ("greet", "`greet`")] {
        let (code, _, stderr) = asked.ask_at(&merges.url, &reader, &["work", "show", word], "");
        assert!(code == 2 && stderr.contains(named), "{code} {stderr}");
        assert!(stderr.contains("only the newest 10000 recorded runs were looked at"), "{stderr}");
    }
    let (code, listed, stderr) =
        asked.ask_at(&merges.url, &reader, &["work", "status", "--status", "denied"], "");
    assert!(code == 0 && listed.is_empty(), "{code} {listed}{stderr}");
    assert!(stderr.contains("only the newest 10000 recorded runs were looked at"), "{stderr}");
    let (code, listed, stderr) = asked.ask_at(&merges.url, &reader, &["work", "status", "--limit", "3"], "");
    assert!(code == 0 && listed.lines().count() == 3, "{code} {listed}{stderr}");
    assert!(stderr.contains("greater --limit") && !stderr.contains("looked at"), "{stderr}");
    let open = with_many_runs(&asked, Some("greet"));
    let (code, _, stderr) = asked.ask_at(&open.url, &reader, &["work", "status", "--limit", "3"], "");
    assert!(code == 0 && stderr.contains("only the newest 0 open runs were looked at"), "{code} {stderr}");
}

#[test]
fn logs_that_were_not_reported_whole_say_so() {
    let asked = Asked::new("");
    let reader = asked.server.key("local", &["--role", "reader"]);
    let run = "00000000-0000-7000-8000-000000000001";
    let with = |left_out: Value| {
        let server = Client(asked.server.0);
        Between::start(move |head, body, stream, _| {
            let line = head.lines().next().unwrap();
            let (status, answer) = if line.contains("/output") {
                (
                    "409",
                    json!({ "type": "about:blank", "title": "t", "status": 409, "code": "not_here", "detail": "d" }),
                )
            } else if line.contains("/logs") {
                let file = json!({ "name": "output.0.log", "text": "agent> said\n" });
                ("200", json!({ "files": [file], "leftOut": left_out }))
            } else {
                let answer = server.send(&[head.as_bytes(), body].concat());
                let text = String::from_utf8(answer.body.clone()).unwrap();
                let media_type = answer.header("content-type").unwrap();
                respond(
                    stream,
                    &answer.status.to_string(),
                    &format!("Content-Type: {media_type}\r\n"),
                    &text,
                );
                return;
            };
            let media_type = if status == "200" { "application/json" } else { "application/problem+json" };
            respond(stream, status, &format!("Content-Type: {media_type}\r\n"), &answer.to_string());
        })
    };
    let logs = |between: &Between| asked.ask_at(&between.url, &reader, &["work", "logs", run, "--text"], "");
    let (code, printed, stderr) = logs(&with(json!(["output.70.log", "changes.diff"])));
    assert_eq!((code, printed.as_str()), (0, "agent | said\n"), "{stderr}");
    assert!(stderr.contains("not all of it"), "{stderr}");
    assert!(stderr.contains("left out output.70.log") && !stderr.contains("changes.diff"), "{stderr}");
    let (code, printed, stderr) = logs(&with(json!(["changes.diff"])));
    assert_eq!((code, printed.as_str(), stderr.as_str()), (0, "agent | said\n", ""));
}
