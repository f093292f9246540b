//! Malicious servers, and programs that are not CreAleph servers: a command accepts no answer from them, and signs nothing that it did not show.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::asked::{Asked, MapRobot as _};
use crate::client::{Answer, Client};
use crate::scratch::{known, request};
use crate::tls::make_pair;

/// What happens to an export on its way.
type Lie = Box<dyn Fn(String) -> String + Send>;
/// What is sent instead of an answer.
type Garbage = fn(&mut TcpStream);

/// Someone between a command and a server, who changes answers.
pub(crate) struct Between {
    pub(crate) url: String,
    /// The first lines of the requests.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Between {
    /// `lie` changes the body of an answer, by the first line of its request.
    pub(crate) fn changing(
        server: &Client,
        lie: impl Fn(&str, String) -> String + Send + 'static,
    ) -> Between {
        let server = Client(server.0);
        Between::start(move |head, body, stream, _| {
            let line = head.lines().next().unwrap().to_owned();
            let request = head.replace("Connection: keep-alive", "Connection: close");
            let answer = server.send(&[request.as_bytes(), body].concat());
            let body = lie(&line, String::from_utf8(answer.body.clone()).unwrap());
            let media_type = answer.header("content-type").unwrap();
            respond(stream, &answer.status.to_string(), &format!("Content-Type: {media_type}\r\n"), &body);
        })
    }

    /// Answers by itself; the number of requests so far is known.
    pub(crate) fn start(answer: impl Fn(&str, &[u8], &mut TcpStream, usize) + Send + 'static) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let Some((head, body)) = read_request(&mut reader) else { continue };
                let count = {
                    let mut lines = lines.lock().unwrap();
                    lines.push(head.lines().next().unwrap().to_owned());
                    lines.len()
                };
                answer(&head, &body, &mut stream, count);
            }
        });
        Between { url, seen }
    }

    fn has_seen(&self, part: &str) -> bool {
        self.seen.lock().unwrap().iter().any(|line| line.contains(part))
    }
}

/// Head and body of a request, one for each connection.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    // The server behind takes one request for each connection.
    Some((head.replacen("\r\n", "\r\nConnection: close\r\n", 1), body))
}

pub(crate) fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
}

/// A server in whose tenant `ana` may approve, also unattended, and the keys of a writer; ana's own key is elsewhere.
pub(crate) fn with_people() -> (Asked, String, String) {
    let asked = Asked::new("");
    let scratch = &asked.server.scratch;
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "ana"])
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    scratch.write(
        "rules.toml",
        "[[rule]]\nname = \"alone\"\nos_requester = true\napprovals = 1\nunattended = true\n",
    );
    for args in [
        &["person", "add", "ana", "--key", "ana.pub", "--first-admin"][..],
        &["rule", "set", "rules.toml", "--sign-with", "ana"],
    ] {
        let (code, _, stderr) = scratch.run(args, "");
        assert_eq!(code, 0, "{stderr}");
    }
    asked.elsewhere.write("ana", &scratch.read("ana"));
    let draft = new_draft(&asked, "e-3");
    let writer = asked.server.key("local", &["--role", "writer"]);
    (asked, writer, draft)
}

fn new_draft(asked: &Asked, execution: &str) -> String {
    let (_, answer) = asked.server.scratch.build(&request(execution, "block", true));
    answer["artifacts"][0]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Which answer is changed, what in it, and what the command says was changed.
const LIES: &[(&str, &str, &str, &str)] = &[
    ("GET /v1/inbox", "landing_plan", "harmless_plan", "the digest of the subject"),
    ("GET /v1/inbox", "\"approvals\":1", "\"approvals\":2", "the rule"),
    ("/v1/verdicts/statement", "\"tenantId\":\"local\"", "\"tenantId\":\"other\"", "the tenant"),
    ("/v1/verdicts/statement", "\"subjectKind\":\"draft\"", "\"subjectKind\":\"change\"", "the kind"),
    ("/v1/verdicts/statement", "\"subjectId\":\"0", "\"subjectId\":\"1", "the subject"),
    ("/v1/verdicts/statement", "\"subjectDigest\":\"", "\"subjectDigest\":\"^", "the digest of the subject"),
    ("/v1/verdicts/statement", "\"target\":\"ledger\"", "\"target\":\"workspace\"", "where it lands"),
    ("/v1/verdicts/statement", "\"decision\":\"reject\"", "\"decision\":\"approve\"", "the decision"),
    ("/v1/verdicts/statement", "\"reason\":\"no\"", "\"reason\":\"yes\"", "the reason"),
    ("/v1/verdicts/statement", "\"keyId\":\"SHA256:", "\"keyId\":\"SHA256:0", "the key"),
    ("/v1/verdicts/statement", "\"unattended\":true", "\"unattended\":false", "given unattended"),
    ("/v1/verdicts/statement", "\"ruleDigest\":\"", "\"ruleDigest\":\"^", "the rule"),
    ("/v1/verdicts/statement", "\"evidenceSeq\":", "\"evidenceSeq\":1,\"x\":", "bad_answer"),
];

/// Changes every place; after `^` the first digit of a digest becomes another one.
fn changed(body: &str, from: &str, to: &str) -> String {
    let Some(to) = to.strip_suffix('^') else { return body.replace(from, to) };
    let mut parts = body.split(from);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let other = if part.starts_with('0') { "1" } else { "0" };
        out += &format!("{to}{other}{}", part.split_at(1).1);
    }
    out
}

#[test]
fn a_server_that_lies_gets_no_signature() {
    let (asked, writer, draft) = with_people();
    let reject = ["reject", &draft, "--reason", "no", "--yes", "--sign-with", "ana", "--json"];
    for (route, from, to, what) in LIES {
        let is_told = Arc::new(Mutex::new(false));
        let told = Arc::clone(&is_told);
        let between = Between::changing(&asked.server, move |line, body| match line.contains(route) {
            true => {
                let lie = changed(&body, from, to);
                *told.lock().unwrap() |= lie != body;
                lie
            }
            false => body,
        });
        let (code, _, stderr) = asked.ask_at(&between.url, &writer, &reject, "");
        assert!(*is_told.lock().unwrap(), "{what}: nothing was changed");
        let is_named = stderr.contains("not_what_was_shown") && stderr.contains(what);
        assert!(code != 0 && (is_named || stderr.contains("bad_answer")), "{what}: {code} {stderr}");
        assert!(is_named || *what == "bad_answer", "{what}: {stderr}");
        assert!(!between.has_seen("/v1/verdicts HTTP"), "{what}: something was handed in");
    }
    // Another draft than the requested one.
    let other = new_draft(&asked, "e-4");
    let (from, to) = (draft.clone(), other.clone());
    let between = Between::start({
        let server = Client(asked.server.0);
        move |head, body, stream, _| {
            let head = head.replace(&encoded(&from), &encoded(&to));
            let answer: Answer = server.send(&[head.as_bytes(), body].concat());
            let media_type = answer.header("content-type").unwrap();
            let text = String::from_utf8(answer.body.clone()).unwrap();
            respond(stream, &answer.status.to_string(), &format!("Content-Type: {media_type}\r\n"), &text);
        }
    });
    let (code, _, stderr) = asked.ask_at(&between.url, &writer, &reject, "");
    assert!(code == 1 && stderr.contains("another subject"), "{code} {stderr}");
    // An honest one takes the verdict, and it is the one that was given.
    let (code, report, stderr) = asked.ask(&writer, &reject, "");
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((report["decision"].as_str(), report["proven"].as_bool()), (Some("reject"), Some(true)));
    let approve = ["approve", &other, "--yes", "--sign-with", "ana", "--text"];
    let (code, printed, stderr) = asked.ask(&writer, &approve, "");
    assert!(code == 0 && printed.contains("planned as"), "{printed}{stderr}");
    assert!(stderr.contains("is not verified") && stderr.contains("alone: 1 approval"), "{stderr}");
    let (_, why) = asked.server.scratch.json(&["approval", "why", &other, "--json"], "");
    assert_eq!(why["state"], Value::from("landed"), "{why}");
    let (code, _, stderr) = asked.ask(&writer, &approve, "");
    assert!(code == 1 && stderr.contains("landed"), "{code} {stderr}");
}

/// A server that names another log than before gets no signature, for a verdict or for a person.
#[test]
fn a_server_that_names_another_log_gets_no_signature() {
    let (asked, writer, draft) = with_people();
    let admin = asked.server.key("local", &["--role", "admin"]);
    let is_lying = Arc::new(Mutex::new(false));
    let lying = Arc::clone(&is_lying);
    let between = Between::changing(&asked.server, move |_, body| match *lying.lock().unwrap() {
        true => body.replace("\"logOrigin\":\"", "\"logOrigin\":\"other-"),
        false => body,
    });
    let reject = ["reject", &draft, "--reason", "no", "--yes", "--sign-with", "ana", "--json"];
    asked.elsewhere.write("ana.pub", &asked.server.scratch.read("ana.pub"));
    asked.elsewhere.write("rules.toml", &asked.server.scratch.read("rules.toml"));
    let set = ["rule", "set", "rules.toml", "--sign-with", "ana", "--json"];
    let add = ["person", "add", "ana", "--key", "ana.pub", "--sign-with", "ana", "--json"];
    let revoke = ["person", "revoke", "ana", "--sign-with", "ana", "--json"];
    let invite = ["person", "invite", "ben", "--sign-with", "ana", "--json"];
    // The first time its word is taken.
    let (code, _, stderr) = asked.ask_at(&between.url, &admin, &set, "");
    assert_eq!(code, 0, "{stderr}");
    *is_lying.lock().unwrap() = true;
    for (key, args) in
        [(&writer, &reject[..]), (&admin, &set), (&admin, &add), (&admin, &revoke), (&admin, &invite)]
    {
        between.seen.lock().unwrap().clear();
        let (code, _, stderr) = asked.ask_at(&between.url, key, args, "");
        assert!(
            code == 1 && stderr.contains("not_what_was_shown") && stderr.contains("the log other-"),
            "{args:?}: {stderr}"
        );
        let posted = between.seen.lock().unwrap().clone();
        let is_handed_in = |line: &String| {
            line.starts_with("POST") && !line.contains("/statement") && !line.contains("/ids")
        };
        assert!(!posted.iter().any(is_handed_in), "{posted:?}");
    }
    // Neither does one whose people are another tenant's.
    let between = Between::changing(&asked.server, |_, body| {
        body.replace("\"tenantId\":\"local\"", "\"tenantId\":\"other\"")
    });
    let (code, _, stderr) = asked.ask_at(&between.url, &admin, &set, "");
    assert!(code == 1 && stderr.contains("the tenant"), "{stderr}");
}

/// As a part of a path.
fn encoded(id: &str) -> String {
    id.replace('-', "%2D")
}

#[test]
fn invalid_answers_of_a_server_are_refused() {
    let asked = Asked::new("");
    let key = asked.server.key("local", &["--role", "reader"]);
    let page = "Content-Type: application/json\r\n";
    let cases: [(&str, Garbage); 8] = [
        ("text/html", |stream| respond(stream, "200", "Content-Type: text/html\r\n", "<h1>It works</h1>")),
        ("bad_answer", |stream| {
            respond(stream, "200", "Content-Type: application/json\r\n", "{\"entries\":")
        }),
        ("entries", |stream| respond(stream, "200", "Content-Type: application/json\r\n", "{}")),
        ("canonical", |stream| {
            let entry = r#"{"id":"a","createdAt":"2026-01-02T03:04:05.000Z","module":"m","payload":{},"robotId":"r","seq":1,"source":"s","state":"final","tenantId":"local","type":"t"}"#;
            respond(
                stream,
                "200",
                "Content-Type: application/json\r\n",
                &format!("{{\"entries\":[{entry}]}}"),
            );
        }),
        ("advance", |stream| {
            let page = r#"{"entries":[],"next":"seq-7"}"#;
            respond(stream, "200", "Content-Type: application/json\r\n", page);
        }),
        ("redirects", |stream| respond(stream, "302", "Location: http://192.0.2.1/\r\n", "")),
        ("status 500", |stream| respond(stream, "500", "", "oops")),
        ("too_large", |stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
            while stream.write_all(&[b' '; 65_536]).is_ok() {}
        }),
    ];
    for (words, answer) in cases {
        let between = Between::start(move |_, _, stream, _| answer(stream));
        let (code, printed, stderr) = asked.ask_at(&between.url, &key, &["ledger", "list", "--json"], "");
        assert!(code == 2 && printed.is_empty() && stderr.contains(words), "{words}: {code} {stderr}");
        assert!(!stderr.contains(&key), "the key is nowhere");
    }
    // A server that is overloaded is asked again, a limited number of times.
    let busy = |most: usize| {
        Between::start(move |_, _, stream, count| match count > most {
            true => respond(stream, "200", page, "{\"entries\":[]}"),
            false => respond(stream, "503", "Retry-After: 0\r\n", ""),
        })
    };
    let between = busy(3);
    assert_eq!(asked.ask_at(&between.url, &key, &["ledger", "list"], "").0, 0);
    let between = busy(99);
    assert_eq!(asked.ask_at(&between.url, &key, &["ledger", "list"], "").0, 2);
    assert_eq!(between.seen.lock().unwrap().len(), 4);
    // What would be written is not sent twice.
    let between = busy(99);
    let line = r#"{"robotId":"r","module":"m","source":"s","type":"t","state":"final","payload":{}}"#;
    assert_eq!(asked.ask_at(&between.url, &key, &["ledger", "append"], line).0, 2);
    assert_eq!(between.seen.lock().unwrap().len(), 1);
}

#[test]
fn a_server_is_used_over_tls_if_its_authority_is_trusted() {
    let scratch = crate::scratch::Scratch::with_ledger("");
    ["server", "other"].iter().for_each(|name| make_pair(&scratch, name));
    let files = ["--tls-cert", "server.pem", "--tls-key", "server.key"];
    let server = crate::running::Running::start_with(scratch, &files);
    let key = server.key("local", &["--role", "auditor"]);
    let ask = |more: &[&str]| {
        let args = [&["--server", &server.url, "ledger", "list"][..], more].concat();
        let child = server.scratch.command(&args).env("CREALEPH_SERVER_KEY", &key).spawn().unwrap();
        crate::scratch::ended(child)
    };
    let (code, printed, stderr) = ask(&["--server-ca", "server.pem"]);
    assert!(code == 0 && printed.contains("key_grant"), "{stderr}");
    for more in [&["--server-ca", "other.pem"][..], &[]] {
        let (code, _, stderr) = ask(more);
        assert!(code == 2 && stderr.contains("cannot reach"), "{stderr}");
    }
    assert!(ask(&["--server-ca", "server.key"]).2.contains("has no certificate"));
}

#[test]
fn an_export_that_was_changed_cut_or_swapped_is_noticed() {
    let asked = Asked::new("");
    let auditor = asked.server.key("local", &["--role", "auditor"]);
    asked.server.scratch.append(&known(7, &["idea"], "").map_robot("z"));
    let (_, key, _) = asked.server.scratch.run(&["ledger", "key"], "");
    let (_, checkpoint, _) = asked.server.scratch.run(&["ledger", "checkpoint"], "");
    asked.elsewhere.write("saved.key", &key);
    asked.elsewhere.write("saved.checkpoint", &checkpoint);
    let verify = ["ledger", "verify", "--key", "saved.key", "--checkpoint", "saved.checkpoint", "--json"];
    assert_eq!(asked.ask(&auditor, &verify, "").0, 0);
    let last_entry = |body: &str| body.lines().filter(|line| line.starts_with("{\"entry\"")).count();
    let without = move |body: &str, place: usize| {
        let lines = body.lines().enumerate().filter(|(number, _)| *number != place);
        lines.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let lies: [(&str, Lie); 4] = [
        ("an entry is changed", Box::new(|body| body.replacen("\"robotId\":\"z\"", "\"robotId\":\"y\"", 1))),
        ("an entry is left out", Box::new(move |body| without(&body, 3))),
        ("the end is missing", Box::new(move |body| without(&body, last_entry(&body)))),
        (
            "another tenant",
            Box::new(|body| body.replacen("\"tenantId\":\"local\"", "\"tenantId\":\"other\"", 1)),
        ),
    ];
    for (what, lie) in lies {
        let between = Between::changing(&asked.server, move |_, body| lie(body));
        let (code, printed, stderr) = asked.ask_at(&between.url, &auditor, &verify, "");
        assert_eq!(code, 1, "{what}: {printed}{stderr}");
        assert!(between.has_seen("GET /v1/export "), "{what}");
        let (code, printed, _) = asked.ask_at(&between.url, &auditor, &["review", "list", "--json"], "");
        assert!(code != 0 && printed.is_empty(), "{what}: {printed}");
    }
    // A part of a log is no export, and a file of that name is not left.
    let between = Between::changing(&asked.server, move |_, body| without(&body, last_entry(&body)));
    let (code, _, stderr) =
        asked.ask_at(&between.url, &auditor, &["ledger", "export", "log.export", "--json"], "");
    assert!(code == 2 && stderr.contains("bad_answer"), "{stderr}");
    assert!(!asked.elsewhere.path().join("log.export").exists());
}
