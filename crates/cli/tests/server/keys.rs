//! Keys: shown once, proved by the log, effective at once, and never in a log line.

use crate::running::Running;

const ENTRY: &str =
    r#"{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#;

#[test]
fn a_key_works_until_it_is_revoked_and_the_log_can_be_verified() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer", "--label", "import"]);
    assert_eq!(server.post("/v1/entries", &token, ENTRY).status, 200);
    let (_, listed) = server.scratch.json(&["key", "list", "--json", "--tenant", "t"], "");
    assert_eq!((listed["role"].as_str(), listed["state"].as_str()), (Some("writer"), Some("active")));
    assert!(!listed.to_string().contains(&token));
    let id = listed["keyId"].as_str().unwrap();
    let (code, _, stderr) = server.scratch.run(&["key", "revoke", id, "--tenant", "t"], "");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(server.post("/v1/entries", &token, ENTRY).problem(401), "unauthenticated");
    let (code, _, stderr) = server.scratch.run(&["ledger", "verify", "--tenant", "t"], "");
    assert_eq!(code, 0, "{stderr}");
    let (code, _, stderr) = server.scratch.run(&["key", "revoke", "0000", "--tenant", "t", "--json"], "");
    assert!(code == 1 && stderr.contains("unknown_api_key"), "{stderr}");
}

#[test]
fn an_admin_grants_and_revokes_and_an_auditor_sees_it() {
    let server = Running::start("");
    let [admin, auditor] = ["admin", "auditor"].map(|role| server.key("t", &["--role", role]));
    let created = server.post("/v1/keys", &admin, r#"{"role":"reader","expires":"2999-01-01T00:00:00Z"}"#);
    assert_eq!(created.status, 200, "{created:?}");
    let created = created.json();
    let reader = created["token"].as_str().unwrap();
    assert_eq!(server.get("/v1/entries", reader).status, 200);
    let keys = server.get("/v1/keys", &auditor).json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 3);
    let target = format!("/v1/keys/{}?reason=done", created["keyId"].as_str().unwrap());
    let revoked = server.request("DELETE", &target, Some(&admin), None);
    assert_eq!((revoked.status, revoked.json()["state"].as_str()), (200, Some("revoked")));
    assert_eq!(server.get("/v1/entries", reader).problem(401), "unauthenticated");
    let past = server.post("/v1/keys", &admin, r#"{"role":"reader","expires":"2020-01-01T00:00:00Z"}"#);
    assert_eq!(past.problem(400), "bad_expiry");
    assert_eq!(server.post("/v1/keys", &admin, r#"{"role":"root","x":1}"#).problem(400), "invalid");
}

#[test]
fn a_token_is_in_no_log_and_in_no_problem() {
    let scratch = crate::scratch::Scratch::new();
    scratch.write("crealeph.toml", "");
    let mut command = scratch.command(&["serve", "--listen", "127.0.0.1:0", "--json", "-vv"]);
    command.env("CREALEPH_LOG", "trace");
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let (_, created) = scratch.json(&["key", "create", "--role", "writer", "--json"], "");
    let token = created["token"].as_str().unwrap();
    let send = |target: &str, body: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        answer
    };
    let payload = ENTRY.replace("{}", r#"{"text":"evidence-in-confidence"}"#);
    let answers = [
        send("/v1/entries", &payload),
        send(&format!("/v1/entries?key={token}"), ENTRY),
        send(&format!("/v1/{token}"), ENTRY),
    ];
    assert!(answers[0].starts_with("HTTP/1.1 200") && answers[1].starts_with("HTTP/1.1 400"), "{answers:?}");
    crate::scratch::signal(&child, "-TERM");
    let (code, _, log) = crate::scratch::ended(child);
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("request{"), "{log}");
    let secret = token.rsplit('.').next().unwrap();
    for text in answers.iter().chain([&log]) {
        assert!(!text.contains(secret) && !text.contains("evidence-in-confidence"), "{text}");
    }
}

#[test]
fn a_session_is_listed_and_ended_at_the_command_line() {
    let server = Running::start("");
    let [reader, admin] = ["reader", "admin"].map(|role| server.key("t", &["--role", role]));
    let entered = server.form("/sign-in", None, &format!("token={reader}"), true);
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap();
    assert_eq!(server.page("/robots", Some(cookie)).status, 200);
    let at_server = |args: &[&str]| {
        let mut command = server.scratch.command(&[&["--server", &server.url][..], args].concat());
        command.env("CREALEPH_SERVER_KEY", &admin).env("CREALEPH_OUTPUT", "text");
        crate::scratch::ended(command.stderr(std::process::Stdio::piped()).spawn().unwrap())
    };
    let (_, listed) = server.scratch.json(&["key", "sessions", "--json", "--tenant", "t"], "");
    let id = listed["sessionId"].as_str().unwrap();
    assert_eq!(listed["openedBy"], format!("key:{}", reader.split('.').nth(1).unwrap()));
    let (code, stdout, stderr) = at_server(&["key", "sessions"]);
    assert!(code == 0 && stdout.starts_with(&format!("{id}  reader ")), "{stdout}{stderr}");
    let (code, stdout, stderr) = at_server(&["key", "end-session", id]);
    assert_eq!((code, stdout), (0, format!("ended {id}\n")), "{stderr}");
    assert_eq!(server.page("/robots", Some(cookie)).status, 303);
    assert_eq!(at_server(&["key", "sessions"]).1, "no one is signed in to the console\n");
    let (code, _, stderr) = server.scratch.run(&["key", "end-session", "0000", "--tenant", "t"], "");
    assert!(code == 1 && stderr.contains("no session `0000`"), "{stderr}");
}
