//! The metrics, read by a parser that is not ours: what they count, and what they must not reveal.

use std::cell::Cell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::client::Client;
use crate::events::{Events, append};
use crate::running::Running;
use crate::scratch::{Scratch, wait_until};

/// Prints every sample of a text as a JSON list of name, labels and value; strict about the format.
const PARSER: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
print(json.dumps([[s.name, s.labels, s.value] for family in families for s in family.samples]))
";

/// Where `cargo xtask tools` puts the packages.
pub(crate) fn packages() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let packages = target.join("tools/http");
    assert!(packages.is_dir(), "`{}` is missing; run `cargo xtask tools`", packages.display());
    packages
}

/// The samples of the server's metrics, and their text.
fn samples(server: &Running) -> (Vec<Value>, String) {
    let place = server.metrics.as_ref().unwrap().strip_prefix("http://").unwrap();
    let client = Client(place.strip_suffix("/metrics").unwrap().parse().unwrap());
    let answer = client.request("GET", "/metrics", None, None);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer.header("content-type").unwrap().starts_with("application/openmetrics-text; version=1.0.0")
    );
    let text = String::from_utf8(answer.body).unwrap();
    let mut parser = Command::new("python3");
    parser.args(["-c", PARSER]).env("PYTHONPATH", packages()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parser = parser.spawn().unwrap();
    parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "the parser refuses it:\n{text}");
    (serde_json::from_slice(&output.stdout).unwrap(), text)
}

/// The value of a sample by its name and one of its labels.
fn value(samples: &[Value], name: &str, label: (&str, &str), status: Option<&str>) -> f64 {
    let is_it = |sample: &&Value| {
        sample[0] == name
            && sample[1][label.0] == label.1
            && status.is_none_or(|status| sample[1]["status"] == status)
    };
    samples.iter().filter(is_it).map(|sample| sample[2].as_f64().unwrap()).sum()
}

#[test]
fn metrics_count_events_and_identify_no_one() {
    let scratch = Scratch::new();
    scratch.write("crealeph.toml", "[server]\nmax_batch_entries = 1\nmetrics = \"127.0.0.1:0\"\n");
    let server = Running::start_in(scratch);
    let token = server.key("tenant-name", &["--role", "writer"]);
    append(&server, &token, "robot-name", "client-key");
    append(&server, &token, "robot-name", "client-key");
    assert_eq!(server.get("/v1/entries?limit=0", &token).status, 400);
    assert_eq!(server.get("/nothing/secret-path", &token).status, 404);
    assert_eq!(server.post("/v1/entries", &token, "[{},{}]").problem(413), "too_large");
    let mut events = Events::open(&server, "/v1/events", &token, None);
    append(&server, &token, "robot-name", "another-key");
    events.next();
    let (found, text) = samples(&server);
    let entries = ("route", "/v1/entries");
    assert_eq!(value(&found, "crealeph_requests_total", entries, Some("2xx")), 3.0);
    assert_eq!(value(&found, "crealeph_requests_total", entries, Some("4xx")), 2.0);
    assert_eq!(value(&found, "crealeph_requests_total", ("route", "none"), Some("4xx")), 1.0);
    assert_eq!(value(&found, "crealeph_request_duration_seconds_count", entries, None), 5.0);
    assert_eq!(value(&found, "crealeph_bounds_hit_total", ("bound", "max_batch_entries"), None), 1.0);
    assert_eq!(value(&found, "crealeph_in_use", ("bound", "max_streams"), None), 1.0);
    assert!(value(&found, "crealeph_in_use", ("bound", "max_connections"), None) >= 1.0);
    assert!(value(&found, "crealeph_process", ("what", "resident_memory_bytes"), None) > 1e6);
    let alone = |name: &str| found.iter().find(|sample| sample[0] == name).unwrap()[2].as_f64().unwrap();
    assert_eq!(alone("crealeph_entries_appended_total"), 2.0, "one was there already");
    assert!(alone("crealeph_event_lag_seconds_count") >= 1.0);
    assert_eq!(alone("crealeph_ledger_calls_waiting"), 0.0);
    let id = token.split('.').nth(1).unwrap();
    for word in ["tenant-name", "robot-name", "client-key", "another-key", "secret-path", id, &token] {
        assert!(!text.contains(word), "{word} is in\n{text}");
    }
    drop(events);
    // A client that is gone is noticed when something is sent to it.
    let sent = Cell::new(0);
    wait_until("the stream to be let go", || {
        sent.set(sent.get() + 1);
        append(&server, &token, "robot-name", &format!("one-more-{}", sent.get()));
        value(&samples(&server).0, "crealeph_in_use", ("bound", "max_streams"), None) == 0.0
    });
}

#[test]
fn metrics_have_a_port_of_their_own_that_no_page_reaches() {
    let server = Running::start_with(Scratch::new(), &["--metrics", "127.0.0.1:0"]);
    let token = server.key("t", &["--role", "admin"]);
    assert_eq!(
        server.get("/metrics", &token).problem(404),
        "no_route",
        "no key opens them on the API's port"
    );
    let place = server.metrics.as_ref().unwrap().strip_prefix("http://").unwrap();
    let client = Client(place.strip_suffix("/metrics").unwrap().parse().unwrap());
    let rebound = b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(client.send(rebound).problem(403), "host_refused");
    assert_eq!(client.request("GET", "/v1/entries", None, None).problem(404), "no_route");
    assert_eq!(client.request("POST", "/metrics", None, None).problem(405), "method_not_allowed");
    let (code, _, stderr) = server.scratch.run(&["serve", "--metrics", "0.0.0.0:0", "--json"], "");
    assert!(code == 2 && stderr.contains("unprotected_address"), "{stderr}");
}
