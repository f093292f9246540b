//! The event stream: complete and in order, resumed, filtered, ended with a reason.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::running::Running;
use crate::scratch::signal;

/// An open stream.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    pub(crate) fn open(server: &Client, target: &str, token: &str, last: Option<u64>) -> Events {
        let mut stream = server.connect();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{last}\r\n",
            server.0
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut events = Events(BufReader::new(stream));
        // The comment that says that the stream is open.
        while events.line() != ": connected" {}
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    /// The next event: its kind, its id, its data.
    pub(crate) fn next(&mut self) -> (String, Option<u64>, Value) {
        let (mut kind, mut id) = (String::new(), None);
        loop {
            let line = self.line();
            match line.split_once(": ") {
                Some(("id", number)) => id = Some(number.parse().unwrap()),
                Some(("event", word)) => kind = word.to_owned(),
                Some(("data", data)) => return (kind, id, serde_json::from_str(data).unwrap()),
                _ => {}
            }
        }
    }

    /// The client keys of the next entries.
    fn keys(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().2["data"]["key"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) fn append(server: &Running, token: &str, robot: &str, key: &str) {
    let entry = json!({
        "robotId": robot, "module": "m", "source": "s", "type": "signal", "state": "final",
        "payload": { "text": "a\nb" }, "key": key,
    });
    let answer = server.post("/v1/entries", token, &entry.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_stream_is_complete_and_resumes_without_gap_or_repeat() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer"]);
    ["a", "b"].iter().for_each(|key| append(&server, &token, "r", key));
    let mut events = Events::open(&server, "/v1/events?after=0", &token, None);
    let (kind, id, first) = events.next();
    assert_eq!(
        (kind.as_str(), id),
        ("entry", Some(2)),
        "the first entry is the key's grant, which a writer does not see"
    );
    assert_eq!(first["specversion"], json!("1.0"));
    assert_eq!(first["type"], json!("crealeph.entry.signal"));
    assert_eq!((&first["subject"], &first["sequence"]), (&json!("r"), &json!("2")));
    assert_eq!(first["data"], server.get("/v1/entries/key:a", &token).json());
    // What another process appends is streamed too.
    let line =
        r#"{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{},"key":"c"}"#;
    let (code, _, stderr) = server.scratch.run(&["ledger", "append", "--tenant", "t"], line);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(events.keys(2), ["b", "c"]);
    drop(events);
    append(&server, &token, "r", "d");
    let mut resumed = Events::open(&server, "/v1/events", &token, Some(3));
    assert_eq!(resumed.keys(2), ["c", "d"]);
    // Without a place to start from, only what comes from now on.
    let mut fresh = Events::open(&server, "/v1/events", &token, None);
    append(&server, &token, "r", "e");
    assert_eq!((resumed.keys(1), fresh.keys(1)), (vec!["e".to_owned()], vec!["e".to_owned()]));
}

#[test]
fn a_stream_shows_its_own_tenant_robot_and_type_alone() {
    let server = Running::start("");
    let [own, other] = ["own", "other"].map(|tenant| server.key(tenant, &["--role", "writer"]));
    let restricted = server.key("own", &["--role", "reader", "--robot", "r"]);
    let mut streams = [
        Events::open(&server, "/v1/events?type=signal", &own, None),
        Events::open(&server, "/v1/events", &restricted, None),
    ];
    append(&server, &other, "r", "theirs");
    append(&server, &own, "q", "q-1");
    append(&server, &own, "r", "r-1");
    assert_eq!(streams[0].keys(2), ["q-1", "r-1"]);
    assert_eq!(streams[1].keys(1), ["r-1"]);
    assert_eq!(server.get("/v1/events?robot=q", &restricted).problem(403), "forbidden");
    let mut stream = server.connect();
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {own}\r\nLast-Event-ID: x\r\n\r\n",
        server.0
    );
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut BufReader::new(stream)).problem(400), "bad_request");
}

#[test]
fn a_stream_ends_with_its_key_and_with_the_server() {
    let server = Running::start("[server]\nmax_streams = 2\n");
    let token = server.key("t", &["--role", "reader"]);
    let other = server.key("t", &["--role", "reader"]);
    let mut events = Events::open(&server, "/v1/events", &token, None);
    let mut stays = Events::open(&server, "/v1/events", &other, None);
    let refused = server.get("/v1/events", &token);
    assert_eq!(
        (refused.problem(503), refused.json()["limit"]["name"].clone()),
        ("overloaded".to_owned(), json!("max_streams"))
    );
    let id = token.split('.').nth(1).unwrap();
    let (code, _, stderr) = server.scratch.run(&["key", "revoke", id, "--tenant", "t"], "");
    assert_eq!(code, 0, "{stderr}");
    let (kind, _, data) = events.next();
    assert_eq!(
        (kind.as_str(), data),
        ("end", json!({ "code": "key_ended", "reason": "the key or session has ended" }))
    );
    signal(server.process(), "-TERM");
    let (kind, _, data) = stays.next();
    assert_eq!(
        (kind.as_str(), data),
        ("end", json!({ "code": "stopping", "reason": "the server is stopping" }))
    );
    let (code, stderr) = server.ended();
    assert_eq!(code, 0, "{stderr}");
}
