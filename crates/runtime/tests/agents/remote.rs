//! Agents behind a URL, against servers that answer well, badly, slowly and not at all.

use std::io::{BufRead as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::time::Duration;

use crealeph_contracts::scalar::Version;
use crealeph_sandbox::Cancel;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use serde_json::json;

use crate::server::{Server, reply};
use crate::world::{Case, World, identity, input, output, reason};

pub(crate) const CASES: &[Case] = &[
    ("a_server_gets_the_input_and_its_answer_is_judged", good),
    ("secret_headers_are_sent_and_never_shown", secrets),
    ("other_statuses_and_redirects_are_refused", statuses),
    ("broken_answers_say_how", broken),
    ("answers_too_long_are_not_read_to_their_end", too_long),
    ("a_server_that_is_slow_or_silent_is_left", slow),
    ("a_server_that_takes_no_connection_in_time_is_left", unaccepted),
    ("a_call_to_a_server_can_be_cancelled", cancelled),
    ("a_connection_is_kept_for_the_next_call_while_it_lasts", kept),
    ("a_server_that_is_not_there_is_told", not_there),
    ("a_server_of_ones_own_authority_is_believed_by_its_certificate", own_authority),
];

// holds: invariant 14

fn good() {
    let server = Server::saying("200 OK", output().to_string());
    let call = World::new().call(&format!("{}headers = {{ X-Team = 'planning' }}", server.table()));
    assert!(call.answer.is_ok(), "{:?}", call.answer);
    assert_eq!(call.tokens_used, Some(3.0));
    let url = format!("http://{}/plan", server.address);
    assert_eq!(identity(&call), json!({ "name": "a@1", "kind": "http", "sandbox": "remote", "url": url }));
    let [seen] = &server.seen()[..] else { panic!("one request") };
    assert_eq!(seen.line, "POST /plan?key=in-the-query HTTP/1.1\r\n");
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("x-team"), Some("planning"));
    assert_eq!(seen.body, input().to_json());
    // Another answer than the contract's is refused here as everywhere.
    let server = Server::saying("200 OK", format!("```json\n{}\n```", output()));
    assert!(reason(&World::new().call(&server.table())).contains("fenced"));
}

fn secrets() {
    let world = World::new();
    world.write("token", "a-token-in-a-file\n");
    // It sends back what it should not.
    let server = Server::new(|seen, stream| {
        let token = seen.header("authorization").unwrap_or("none").to_owned();
        reply(stream, "403 Forbidden", "", format!("bad token {token}").as_bytes());
    });
    let header = "secret_headers = { Authorization = { file = 'token', prefix = 'Bearer ' } }";
    let table = format!("{}{header}", server.table());
    let call = world.call(&table);
    assert_eq!(server.seen()[0].header("authorization"), Some("Bearer a-token-in-a-file"));
    assert_eq!(reason(&call), "the agent's server answered with status 403: bad token Bearer [redacted]");
    assert_eq!(call.diagnostics, "bad token Bearer [redacted]");
    let mut leaking = output();
    leaking["artifacts"][0]["payload"]["note"] = json!("a-token-in-a-file");
    let server = Server::saying("200 OK", leaking.to_string());
    let table = format!("{}{header}", server.table());
    assert_eq!(
        reason(&world.call(&table)),
        "the answer contains a secret that the agent was granted; answer without it"
    );
    let missing = server.table() + "secret_headers = { A = { env = 'CREALEPH_TEST_NEVER_SET' } }";
    assert!(reason(&world.call(&missing)).contains("`CREALEPH_TEST_NEVER_SET` is not set"));
    assert_eq!(server.seen().len(), 1);
}

fn statuses() {
    let world = World::new();
    for (status, body, expected) in [
        ("500 Internal Server Error", "out of\nmemory", "answered with status 500: out of\\nmemory"),
        ("503 Service Unavailable", "", "answered with status 503 and an empty body"),
        ("204 No Content", "", "answered with status 204 and an empty body"),
        ("404 Not Found", "nothing here", "answered with status 404: nothing here"),
    ] {
        let call = world.call(&Server::saying(status, body).table());
        assert!(reason(&call).ends_with(expected), "{}", reason(&call));
    }
    let target = Server::saying("200 OK", output().to_string());
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let location = format!("location: http://{}/\r\n", target.address);
        let server = Server::new(move |_, stream| reply(stream, status, &location, b""));
        let call = world.call(&server.table());
        assert!(reason(&call).contains("with a redirect (30"), "{}", reason(&call));
    }
    assert_eq!(target.seen().len(), 0);
}

fn broken() {
    let world = World::new();
    for bytes in [
        "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"ok\":",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot a chunk\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 20",
        "",
    ] {
        let server = Server::new(move |_, stream| {
            let _ = stream.write_all(bytes.as_bytes());
        });
        let call = world.call(&server.table());
        assert!(reason(&call).starts_with("the agent could not be reached: "), "{bytes}: {}", reason(&call));
    }
    let call = world.call(&Server::saying("200 OK", [b'{', 0xff]).table());
    assert!(reason(&call).contains("UTF-8"), "{}", reason(&call));
    // A server in clear where TLS is wanted.
    let server = Server::saying("200 OK", output().to_string());
    let call = world.call(&server.table().replace("http://", "https://"));
    assert!(reason(&call).starts_with("the agent could not be reached: "), "{}", reason(&call));
}

fn too_long() {
    let server = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
        // It ends when no one reads any more.
        while stream.write_all(&[b' '; 65536]).is_ok() {}
    });
    let call = World::new().call(&format!("{}max_output_bytes = 100000", server.table()));
    let expected =
        "the answer is longer than the 100000 bytes allowed; shorten it or raise `max_output_bytes`";
    assert_eq!(reason(&call), expected);
    let answer = output().to_string();
    for (most, is_taken) in [(answer.len(), true), (answer.len() - 1, false)] {
        let server = Server::saying("200 OK", answer.clone());
        let call = World::new().call(&format!("{}max_output_bytes = {most}", server.table()));
        assert_eq!(call.answer.is_ok(), is_taken, "{most}");
    }
}

fn slow() {
    let world = World::new();
    // It accepts and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("kind = 'http'\nurl = 'http://{}/'\ntimeout_ms = 300", silent.local_addr().unwrap());
    assert_eq!(reason(&world.call(&url)), "the agent did not answer within 300 ms");
    // It sends a little, again and again.
    let server = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let call = world.call(&format!("{}timeout_ms = 300", server.table()));
    assert_eq!(reason(&call), "the agent did not answer within 300 ms");
    // The same in its headers, and before it agrees on a key.
    let server = Server::new(|_, stream| drip(stream, b"HTTP/1.1 200 OK\r\nx: "));
    let call = world.call(&format!("{}timeout_ms = 300", server.table()));
    assert_eq!(reason(&call), "the agent did not answer within 300 ms");
    let silent = format!("{}timeout_ms = 300", server.table()).replace("http://", "https://");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.replace(&server.address.to_string(), &listener.local_addr().unwrap().to_string());
    // A record of 1 KiB that comes byte by byte.
    std::thread::spawn(move || {
        drip(&mut listener.accept().unwrap().0, b"\x16\x03\x03\x04\x00\x02\x00\x03\xfc")
    });
    assert_eq!(reason(&world.call(&silent)), "the agent did not answer within 300 ms");
}

/// Sends a little, again and again, until no one is there.
fn drip(stream: &mut TcpStream, first: &[u8]) {
    let _ = stream.write_all(first);
    while stream.write_all(b"x").is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server whose queue of connections is full, so that the next one waits.
fn full() -> (OwnedFd, SocketAddr, Vec<OwnedFd>) {
    let socket = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
    };
    let listener = socket();
    net::bind(&listener, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    net::listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(net::getsockname(&listener).unwrap()).unwrap();
    let mut waiting = Vec::new();
    loop {
        let next = socket();
        let _ = net::connect(&next, &address);
        let is_in = net::getpeername(&next).is_ok();
        waiting.push(next);
        if !is_in {
            return (listener, address, waiting);
        }
    }
}

fn unaccepted() {
    let world = World::new();
    let (_listener, address, _waiting) = full();
    let table = format!("kind = 'http'\nurl = 'http://{address}/'\n");
    let call = world.call(&format!("{table}timeout_ms = 300"));
    assert_eq!(reason(&call), "the agent did not answer within 300 ms");
    let cancel = Cancel::new().unwrap();
    let other = cancel.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.cancel();
    });
    let agents = world.load(&format!("[agents.\"a@1\"]\n{table}timeout_ms = 3600000")).unwrap();
    let call = agents.get(&Version::parse("a@1").unwrap()).unwrap().call(&input(), &cancel);
    assert_eq!(reason(&call), "the call was abandoned because the request was cancelled");
}

fn kept() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends each connection when it has read a third request, without a word.
    let served =
        std::thread::spawn(move || (0..2).map(|_| serve_twice(&listener.accept().unwrap().0)).sum::<usize>());
    let table = format!("[agents.\"a@1\"]\nkind = 'http'\nurl = 'http://{address}/'");
    let agents = World::new().load(&table).unwrap();
    let agent = agents.get(&Version::parse("a@1").unwrap()).unwrap();
    for _ in 0..4 {
        let call = agent.call(&input(), &Cancel::new().unwrap());
        assert!(call.answer.is_ok(), "{:?}", call.answer);
    }
    drop(agents);
    assert_eq!(served.join().unwrap(), 4);
}

fn serve_twice(stream: &TcpStream) -> usize {
    let mut writer = stream;
    let answer = output().to_string();
    let mut count = 0;
    while count < 2 && crate::server::read(stream).is_some() {
        count += 1;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
        writer.write_all((head + &answer).as_bytes()).unwrap();
    }
    let _ = crate::server::read(stream);
    count
}

fn cancelled() {
    let world = World::new();
    let cancel = Cancel::new().unwrap();
    let from_server = cancel.clone();
    let (release, held) = channel::<()>();
    let server = Server::new(move |_, _| {
        from_server.cancel();
        let _ = held.recv();
    });
    let agents = world.load(&format!("[agents.\"a@1\"]\n{}", server.table())).unwrap();
    let call = agents.get(&Version::parse("a@1").unwrap()).unwrap().call(&input(), &cancel);
    assert_eq!(reason(&call), "the call was abandoned because the request was cancelled");
    drop(release);
}

fn not_there() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let call = World::new().call(&format!("kind = 'http'\nurl = 'http://{address}/'"));
    assert!(reason(&call).starts_with("the agent could not be reached: "), "{}", reason(&call));
    assert_eq!(identity(&call)["sandbox"], "remote");
}

/// An HTTPS server in Python with its own certificate, ended when it is dropped.
struct Tls(std::process::Child, String);

impl Tls {
    fn start(world: &World) -> Tls {
        let folder = world.path();
        let certificate = |name: &str, more: &[&str]| {
            let mut openssl = std::process::Command::new("openssl");
            openssl.args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ]);
            openssl.args(["-days", "2", "-subj", "/CN=here", "-out", &format!("{name}.pem")]);
            openssl.args(["-keyout", &format!("{name}.key")]).args(more).current_dir(folder);
            let made = openssl.output().expect("install Debian's package `openssl`");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        certificate("ca", &[]);
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        let by_ca = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"];
        certificate("own", &[&by_ca[..], &["-addext", names]].concat());
        world.write("answer.json", &output().to_string());
        world.write(
            "server.py",
            "import http.server, ssl\nclass Answer(http.server.BaseHTTPRequestHandler):\n    def do_POST(self):\n        \
             self.rfile.read(int(self.headers['content-length']))\n        body = open('answer.json', 'rb').read()\n        \
             self.send_response(200)\n        self.send_header('content-length', str(len(body)))\n        \
             self.end_headers()\n        self.wfile.write(body)\n    def log_message(self, *words):\n        pass\n\
             server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)\n\
             context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\ncontext.load_cert_chain('own.pem', 'own.key')\n\
             server.socket = context.wrap_socket(server.socket, server_side=True)\n\
             print(server.server_address[1], flush=True)\nserver.serve_forever()\n",
        );
        let mut python = std::process::Command::new("python3");
        let mut child =
            python.arg("server.py").current_dir(folder).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        Tls(child, format!("kind = 'http'\nurl = 'https://127.0.0.1:{}/'\n", port.trim()))
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn own_authority() {
    let world = World::new();
    let server = Tls::start(&world);
    let call = world.call(&format!("{}ca_file = 'ca.pem'", server.1));
    assert!(call.answer.is_ok(), "{:?}", call.answer);
    // No one vouches for it among the usual authorities.
    let call = world.call(&server.1);
    assert!(reason(&call).starts_with("the agent could not be reached: "), "{}", reason(&call));
    for (text, expected) in [(None, "cannot read the certificates"), (Some("words"), "has no certificate")] {
        if let Some(text) = text {
            world.write("other.pem", text);
        }
        let call = world.call(&format!("{}ca_file = 'other.pem'", server.1));
        assert!(reason(&call).contains(expected), "{}", reason(&call));
    }
}
