//! Clients that are broken or mean harm: each is bounded and gets a clear answer or is cut off, and the service continues.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use serde_json::json;

use crate::client::Answer;
use crate::running::Running;
use crate::scratch::wait_until;

const ENTRY: &str =
    r#"{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#;

fn head(server: &Running, token: &str, more: &str) -> String {
    format!(
        "POST /v1/entries HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n{more}\r\n",
        server.0
    )
}

/// Reads until the other side closes.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A connection that is reset is closed too.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn clients_that_send_slowly_are_cut_off() {
    let server = Running::start("[server]\nheader_timeout_ms = 500\nrequest_timeout_ms = 500\n");
    let token = server.key("t", &["--role", "writer"]);
    let mut idle: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    for (number, stream) in idle.iter_mut().enumerate() {
        // Some send nothing, some a part of a head.
        let part = if number % 2 == 0 { "" } else { "GET /healthz HTTP/1.1\r\nHost: a\r\nX: " };
        stream.write_all(part.as_bytes()).unwrap();
    }
    server.assert_serves();
    for stream in idle {
        read_to_end(stream);
    }
    // A body that never ends is answered, and its connection is closed.
    let mut stream = server.connect();
    stream.write_all(format!("{}{{", head(&server, &token, "Content-Length: 10\r\n")).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let answer = Answer::read(&mut reader);
    assert_eq!(answer.problem(503), "request_timeout");
    assert_eq!(answer.json()["limit"]["name"], json!("request_timeout_ms"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    server.assert_serves();
}

// holds: invariant 3
#[test]
fn a_body_past_the_bound_is_refused_without_being_read() {
    let server = Running::start("[server]\nmax_body_bytes = 1048576\n");
    let token = server.key("t", &["--role", "writer"]);
    let before = server.memory();
    let stated = server.send(head(&server, &token, "Content-Length: 2147483648\r\n").as_bytes());
    assert_eq!(stated.problem(413), "too_large");
    assert_eq!(stated.json()["limit"], json!({ "name": "max_body_bytes", "value": 1_048_576 }));
    // The same without a length: an endless stream of chunks.
    let mut stream = server.connect();
    stream.write_all(head(&server, &token, "Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..1_024 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    if let Some(answer) = Answer::try_read(&mut reader) {
        assert_eq!(answer.problem(413), "too_large");
    }
    assert!(server.memory() < before + (48 << 20), "{} after {before}", server.memory());
    server.assert_serves();
}

// holds: invariant 3
#[test]
fn heads_past_their_bounds_are_refused() {
    let server = Running::start("");
    let start = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", server.0);
    let headers = |count: usize| (0..count).map(|number| format!("x-{number}: 1\r\n")).collect::<String>();
    assert_eq!(server.send(format!("{start}{}\r\n", headers(50)).as_bytes()).status, 200);
    let many = server.send(format!("{start}{}\r\n", headers(100)).as_bytes());
    assert_eq!(
        (many.problem(431), many.json()["limit"]["name"].clone()),
        ("too_large".to_owned(), json!("max_headers"))
    );
    assert_eq!(server.send(format!("{start}{}\r\n", headers(1_000)).as_bytes()).status, 431);
    let large = server.send(format!("{start}x: {}\r\n\r\n", "a".repeat(20_000)).as_bytes());
    assert_eq!(large.json()["limit"]["name"], json!("max_header_bytes"));
    // A million tiny headers are not read to their end.
    let before = server.memory();
    let mut stream = server.connect();
    stream.write_all(start.as_bytes()).unwrap();
    let block = headers(1_000);
    for _ in 0..1_000 {
        if stream.write_all(block.as_bytes()).is_err() {
            break;
        }
    }
    drop(stream);
    assert!(server.memory() < before + (16 << 20));
    let url = server.request("GET", &format!("/healthz?{}", "a".repeat(9_000)), None, None);
    assert_eq!(
        (url.problem(414), url.json()["limit"]["name"].clone()),
        ("too_large".to_owned(), json!("max_url_bytes"))
    );
    server.assert_serves();
}

#[test]
fn another_host_or_origin_is_refused() {
    let server = Running::start("");
    let send = |lines: &str| {
        server.send(format!("GET /healthz HTTP/1.1\r\nConnection: close\r\n{lines}\r\n").as_bytes())
    };
    assert_eq!(send("Host: evil.example\r\n").problem(403), "host_refused");
    assert_eq!(send("").problem(400), "bad_request");
    assert_eq!(send("Host: localhost\r\nHost: evil.example\r\n").problem(400), "bad_request");
    assert_eq!(send("Host: localhost\r\nOrigin: https://evil.example\r\n").problem(403), "origin_refused");
    assert_eq!(send("Host: localhost\r\nOrigin: http://localhost\r\n").status, 200);
    let absolute = format!(
        "GET http://evil.example/healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.0
    );
    assert_eq!(server.send(absolute.as_bytes()).problem(403), "host_refused");
}

#[test]
fn what_is_not_http_or_not_utf8_is_refused() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer"]);
    for garbage in
        [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], b"\x00\x00\x00\x00\r\n\r\n", b"GET\r\n\r\n"]
    {
        let mut stream = server.connect();
        stream.write_all(garbage).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = read_to_end(stream);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    }
    assert_eq!(server.get("/v1/entries/%FF%FE", &token).problem(400), "bad_request");
    let body = b"{\"robotId\":\"\xff\"}";
    let mut request =
        head(&server, &token, &format!("Connection: close\r\nContent-Length: {}\r\n", body.len()))
            .into_bytes();
    request.extend(body);
    let answer = server.send(&request);
    assert_eq!(answer.problem(400), "invalid");
    assert_eq!(answer.json()["violations"][0]["code"], json!("not_utf8"));
    for media_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let request = head(&server, &token, &format!("Content-Length: {}\r\n", ENTRY.len()))
            .replace("Content-Type: application/json", &format!("Content-Type: {media_type}"));
        assert_eq!(server.send(format!("{request}{ENTRY}").as_bytes()).problem(415), "media_type");
    }
    server.assert_serves();
}

#[test]
fn a_request_with_two_lengths_is_one_request_or_none() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer"]);
    let inner = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", server.0);
    for lengths in [
        format!("Content-Length: {}\r\nContent-Length: 0\r\n", inner.len()),
        format!("Content-Length: 0\r\nTransfer-Encoding: gzip\r\nContent-Length: {}\r\n", inner.len()),
        "Content-Length: +5\r\n".to_owned(),
        "Content-Length: 5, 6\r\n".to_owned(),
    ] {
        let mut stream = server.connect();
        stream.write_all(format!("{}{inner}", head(&server, &token, &lengths)).as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = String::from_utf8(read_to_end(stream)).unwrap();
        assert!(!answer.contains("200 OK"), "{lengths}: {answer}");
    }
    server.assert_serves();
}

#[test]
fn a_client_that_closes_its_half_is_answered() {
    let server = Running::start("");
    let token = server.key("t", &["--role", "writer"]);
    let mut stream = server.connect();
    let request = head(&server, &token, &format!("Content-Length: {}\r\n", ENTRY.len()));
    stream.write_all(format!("{request}{ENTRY}").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(Answer::read(&mut BufReader::new(stream)).status, 200);
    // One that ends in the middle of a body has written nothing.
    let mut stream = server.connect();
    let request = head(&server, &token, "Content-Length: 1000\r\n");
    stream.write_all(format!("{request}{ENTRY}").as_bytes()).unwrap();
    drop(stream);
    server.assert_serves();
    assert_eq!(server.get("/v1/entries?type=signal", &token).json()["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server = Running::start(
        "[server]\nwrite_timeout_ms = 500\nmax_requests_per_key = 1\nmax_body_bytes = 16777216\n",
    );
    let token = server.key("t", &["--role", "writer"]);
    let large = ENTRY.replace("{}", &format!(r#"{{"text":"{}"}}"#, "x".repeat(3 << 20)));
    for _ in 0..4 {
        assert_eq!(server.post("/v1/entries", &token, &large).status, 200);
    }
    let request =
        format!("GET /v1/entries HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", server.0);
    let unread = std::cell::RefCell::new(Vec::new());
    // Its answer counts as a request of the key until it is sent, or given up.
    wait_until("an answer to be under way", || {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        unread.borrow_mut().push(stream);
        let refused = server.get("/v1/entries?limit=1", &token);
        refused.status == 429 && refused.json()["limit"]["name"] == json!("max_requests_per_key")
    });
    wait_until("the connection to be cut", || server.get("/v1/entries?limit=1", &token).status == 200);
}

#[test]
fn a_key_that_sends_too_much_waits_and_others_do_not() {
    let server = Running::start("[server]\nmax_requests_per_second = 1\nmax_requests = 1\n");
    let [one, two] = ["reader", "writer"].map(|role| server.key("t", &["--role", role]));
    let statuses: Vec<u16> = (0..5).map(|_| server.get("/v1/schemas/receipt", &one).status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(server.get("/v1/schemas/receipt", &two).status, 200);
    wait_until("the bucket to fill", || server.get("/v1/schemas/receipt", &two).status == 200);
    // A request that is under way takes the only place there is; what needs no key is answered all the same.
    wait_until("the bucket to fill", || {
        let mut stream = server.connect();
        stream.write_all(format!("{}{{", head(&server, &two, "Content-Length: 10\r\n")).as_bytes()).unwrap();
        server.request("GET", "/healthz", None, None);
        let refused = server.get("/v1/schemas/receipt", &one);
        refused.status == 503 && refused.json()["limit"]["name"] == json!("max_requests")
    });
    assert_eq!(server.request("GET", "/healthz", None, None).status, 200);
}
