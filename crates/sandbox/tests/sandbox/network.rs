//! Programs that try to reach what they were not granted, and the one way out.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};

use crealeph_sandbox::{ConnectionVerdict, Exit, Host, Network, SandboxOutcome, Spec};

use crate::world::{Case, World, good, python};

pub(crate) const CASES: &[Case] = &[
    Case("no_network_at_all", no_network_at_all),
    Case("no_postgresql_outside", no_postgresql_outside),
    Case("a_granted_host_is_reached", a_granted_host_is_reached),
    Case("a_connection_carries_one_plain_request", a_connection_carries_one_plain_request),
    Case("nothing_else_is_reached", nothing_else_is_reached),
    Case("a_name_that_leads_to_loopback", a_name_that_leads_to_loopback),
    Case("what_is_no_request", what_is_no_request),
    Case("host_network_is_recorded", host_network_is_recorded),
    Case("an_open_connection_does_not_hold_the_run", an_open_connection_does_not_hold_the_run),
];

/// A server outside that greets and then echoes, as a database on the machine's loopback would answer.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let mut bytes = [0u8; 4096];
                let read = stream.read(&mut bytes).unwrap_or(0);
                let _ = if bytes.starts_with(b"GET ") {
                    assert!(bytes[..read].windows(4).any(|w| w == b"\r\n\r\n"));
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
                } else {
                    stream.write_all(&bytes[..read])
                };
            });
        }
    });
    port
}

/// A server outside that answers once and keeps everything that it was ever sent on each connection.
fn listening_server() -> (u16, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut first = [0u8; 1];
            stream.read_exact(&mut first).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
            let mut all = first.to_vec();
            stream.read_to_end(&mut all).unwrap();
            sender.send(String::from_utf8(all).unwrap()).unwrap();
        }
    });
    (port, heard)
}

fn hosts(names: &[String]) -> Network {
    Network::Hosts(names.iter().map(|n| n.parse::<Host>().unwrap()).collect())
}

fn verdicts(outcome: &SandboxOutcome) -> Vec<(String, ConnectionVerdict)> {
    outcome.connections.iter().map(|c| (c.target.clone(), c.verdict)).collect()
}

fn no_network_at_all(world: &World) {
    let port = server();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    let program = format!(
        "
import socket, os
def attempt(name, f):
    try: f(); print('GOT', name)
    except OSError: pass
for host in ('127.0.0.1', '::1', '10.0.0.1', '169.254.169.254', '1.1.1.1', '2606:4700::1111', 'localhost'):
    attempt('tcp ' + host, lambda: socket.create_connection((host, {port}), 2))
def dns(server):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)
    s.sendto(b'\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\3com\\0\\0\\1\\0\\1', (server, 53)); s.recv(512)
for server in ('127.0.0.53', '127.0.0.1', '8.8.8.8', '10.0.0.2'):
    attempt('dns ' + server, lambda: dns(server))
attempt('name', lambda: socket.getaddrinfo('example.com', 443))
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'leak', ('127.0.0.1', {udp_port}))
except OSError: pass
names = [n for _, n in socket.if_nameindex()]
if names != ['lo']: print('GOT interfaces', names)
if 'HTTP_PROXY' in os.environ: print('GOT proxy')
print('TRIED')"
    );
    assert_eq!(good(&world.run(&python(&program))), "TRIED");
    udp.set_nonblocking(true).unwrap();
    assert!(udp.recv(&mut [0u8; 16]).is_err(), "a datagram came out");
}

/// A PostgreSQL server that accepts everyone, over TCP and over its socket.
struct PostgreSql {
    programs: std::path::PathBuf,
    sockets: std::path::PathBuf,
    port: u16,
    process: std::process::Child,
}

impl PostgreSql {
    fn start(world: &World) -> Self {
        let mut programs: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
            .expect("install Debian's package `postgresql`")
            .map(|version| version.unwrap().path().join("bin"))
            .collect();
        programs.sort();
        let programs = programs.pop().unwrap();
        let sockets = world.directory("postgresql", &[]);
        // It must be a user that the system knows, and not root: to it we are `nobody`.
        let program = |name: &str| {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-user=65534", "--map-group=65534"]).arg(programs.join(name));
            command.current_dir(&sockets).stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let data = sockets.join("data");
        let mut initialise = program("initdb");
        initialise.args(["--auth=trust", "--no-sync", "--locale=C", "--username=postgres", "-D"]).arg(&data);
        let made = initialise.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut server = program("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(&sockets).args(["-F", "-p", &port.to_string()]);
        server.args(["-c", "listen_addresses=127.0.0.1", "-c", "log_min_messages=fatal"]);
        let process = server.spawn().unwrap();
        let server = Self { programs, sockets, port, process };
        for place in ["127.0.0.1", server.sockets.to_str().unwrap()] {
            let mut tries = 0;
            while !server.ask(place).output().unwrap().status.success() {
                tries += 1;
                assert!(tries < 600, "the server does not answer at {place}");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
        server
    }

    fn ask(&self, place: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-h", place, "-p", &self.port.to_string(), "-U", "postgres", "-Atc", "select 6 * 7"]);
        command
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn no_postgresql_outside(world: &World) {
    let server = PostgreSql::start(world);
    let sockets = server.sockets.to_str().unwrap();
    for place in ["127.0.0.1", "localhost", "::1", sockets, &format!("/proc/1/root{sockets}")] {
        let asked = server.ask(place);
        let words = std::iter::once(asked.get_program()).chain(asked.get_args()).map(ToOwned::to_owned);
        let mut spec = Spec::new(words);
        let outcome = world.run(&spec);
        assert_eq!(outcome.exit, Exit::Code(2), "{place}: {outcome:?}");
        assert_eq!(outcome.stdout.text(), "");
        // Nor through a proxy that was opened for another sandbox.
        spec.network = hosts(&["example.com:5432".to_owned()]);
        assert_eq!(world.run(&spec).exit, Exit::Code(2));
    }
}

fn a_granted_host_is_reached(world: &World) {
    let port = server();
    let program = format!(
        "
import urllib.request, http.client, socket
print(urllib.request.urlopen('http://127.0.0.1:{port}/path').read().decode())
c = socket.create_connection(('127.0.0.1', 3128))
c.sendall(b'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
head = c.recv(1000); assert b' 200 ' in head, head
c.sendall(b'ping'); print(c.recv(100).decode()); c.close()
try: urllib.request.urlopen('http://127.0.0.1:1/'); print('GOT')
except urllib.error.HTTPError as e: print(e.code)"
    );
    let mut spec = python(&program);
    spec.network = hosts(&[format!("127.0.0.1:{port}")]);
    let outcome = world.run(&spec);
    assert_eq!(good(&outcome), "hello\nping\n403");
    let target = format!("127.0.0.1:{port}");
    let expected = [
        (target.clone(), ConnectionVerdict::Connected),
        (target, ConnectionVerdict::Connected),
        ("127.0.0.1:1".to_owned(), ConnectionVerdict::NotGranted),
    ];
    assert_eq!(verdicts(&outcome), expected);
    let [_, tunnel, _] = &outcome.connections[..] else { panic!("{:?}", outcome.connections) };
    assert_eq!((tunnel.sent_bytes, tunnel.received_bytes), (4, 4));
    assert_eq!(tunnel.address.unwrap().port(), port);
}

/// A second request on a connection, whatever host it names, goes nowhere; the first is forwarded in origin form, only to the host
/// that was granted under that name.
fn a_connection_carries_one_plain_request(world: &World) {
    let ((port, heard), (other, other_heard)) = (listening_server(), listening_server());
    let program = format!(
        "
import socket
def ask(sent):
    c = socket.create_connection(('127.0.0.1', 3128)); c.sendall(sent); c.shutdown(socket.SHUT_WR)
    answers = b''
    while (got := c.recv(1000)): answers += got
    print(answers.count(b'HTTP/1.1 200'), answers.count(b'hello'))
first = b'http://127.0.0.1:{port}/a?b HTTP/1.1\\r\\nHost: other.example\\r\\nProxy-Connection: keep-alive\\r\\n'
second = b'GET http://127.0.0.1:{other}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{other}\\r\\n\\r\\n'
ask(b'GET ' + first + b'\\r\\n' + second)
ask(b'POST ' + first + b'Content-Length: 3\\r\\n\\r\\nabc' + second)
ask(b'POST ' + first + b'Transfer-Encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\n\\r\\n' + second)"
    );
    let mut spec = python(&program);
    spec.network = hosts(&[format!("127.0.0.1:{port}"), format!("127.0.0.1:{other}")]);
    let outcome = world.run(&spec);
    assert_eq!(good(&outcome), "1 1\n1 1\n1 1");
    let head = |method: &str, more: &str| {
        format!("{method} /a?b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}Connection: close\r\n\r\n")
    };
    let expected = [
        head("GET", ""),
        head("POST", "Content-Length: 3\r\n") + "abc",
        head("POST", "Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n",
    ];
    for (expected, connection) in expected.iter().zip(&outcome.connections) {
        assert_eq!(heard.recv().unwrap(), *expected);
        assert_eq!(connection.sent_bytes, expected.len() as u64);
    }
    assert_eq!(outcome.connections.len(), expected.len());
    assert!(other_heard.try_recv().is_err(), "the second request came through");
}

fn nothing_else_is_reached(world: &World) {
    let port = server();
    let program = format!(
        "
import socket
def connect(target):
    c = socket.create_connection(('127.0.0.1', 3128)); c.settimeout(5)
    c.sendall(('CONNECT %s HTTP/1.1\\r\\n\\r\\n' % target).encode())
    if b' 200 ' in c.recv(1000): print('GOT', target)
for target in ('127.0.0.1:{port}', 'localhost:{port}', '[::1]:{port}', '[::ffff:127.0.0.1]:{port}', '0.0.0.0:{port}', '2130706433:{port}',
               '0x7f000001:{port}', '127.1:{port}', 'api.example.com:80', 'evil.api.example.com:443', 'api.example.com.evil.com:443',
               'example.com:443', '169.254.169.254:80', '10.0.0.1:443', '1.1.1.1:443'):
    connect(target)
def attempt(name, f):
    try: f(); print('GOT', name)
    except OSError: pass
attempt('direct', lambda: socket.create_connection(('127.0.0.1', {port}), 2))
attempt('raw ip', lambda: socket.create_connection(('1.1.1.1', 443), 2))
attempt('dns', lambda: socket.getaddrinfo('api.example.com', 443))
print('TRIED')"
    );
    let mut spec = python(&program);
    spec.network = hosts(&["api.example.com:443".to_owned()]);
    let outcome = world.run(&spec);
    assert_eq!(good(&outcome), "TRIED");
    assert_eq!(outcome.connections.len(), 15, "{:?}", outcome.connections);
    assert!(
        outcome.connections.iter().all(|c| c.verdict == ConnectionVerdict::NotGranted),
        "{:?}",
        outcome.connections
    );
}

fn a_name_that_leads_to_loopback(world: &World) {
    let port = server();
    let program = format!(
        "
import urllib.request
try: print('GOT', urllib.request.urlopen('http://localhost:{port}/').read())
except urllib.error.HTTPError as e: print(e.code)"
    );
    let mut spec = python(&program);
    spec.network = hosts(&[format!("localhost:{port}")]);
    let outcome = world.run(&spec);
    assert_eq!(good(&outcome), "403");
    assert_eq!(verdicts(&outcome), [(format!("localhost:{port}"), ConnectionVerdict::PrivateAddress)]);
    // Named itself, it is reached.
    spec.network = hosts(&[format!("localhost:{port}"), format!("127.0.0.1:{port}")]);
    assert_eq!(good(&world.run(&spec)), "GOT b'hello'");
}

fn what_is_no_request(world: &World) {
    let program = "
import socket
for sent in (b'GET / HTTP/1.1\\r\\n\\r\\n', b'\\x16\\x03\\x01 hello\\r\\n\\r\\n', b'CONNECT a HTTP/1.1\\r\\n\\r\\n', b'CONNECT a:1 b HTTP/1.1\\r\\n\\r\\n',
             b'GET ftp://a:1/ HTTP/1.1\\r\\n\\r\\n', b'x' * 40000, b'CONNECT a:443\\r\\n\\r\\n'):
    c = socket.create_connection(('127.0.0.1', 3128)); c.settimeout(15)
    try: c.sendall(sent); print(c.recv(20).split(b' ')[1].decode(), end=' ')
    except OSError as e: print('reset', end=' ')
for i in range(1100):
    c = socket.create_connection(('127.0.0.1', 3128)); c.sendall(b'CONNECT a:1 HTTP/1.1\\r\\n\\r\\n'); c.recv(100); c.close()";
    let mut spec = python(program);
    spec.network = hosts(&["api.example.com:443".to_owned()]);
    let outcome = world.run(&spec);
    let text = good(&outcome);
    assert!(text.split(' ').all(|w| w == "400" || w == "reset"), "{text}");
    assert_eq!(outcome.connections.len(), 1000);
    assert_eq!(outcome.connections_left_off, 107);
}

fn host_network_is_recorded(world: &World) {
    let port = server();
    let program = format!(
        "
import socket
c = socket.create_connection(('127.0.0.1', {port})); c.sendall(b'ping'); print(c.recv(10).decode())"
    );
    let outcome = world.python_with(&program, |spec| spec.network = Network::Host);
    assert_eq!(good(&outcome), "ping");
    assert!(outcome.strength.host_network);
}

fn an_open_connection_does_not_hold_the_run(world: &World) {
    let port = server();
    let program = format!(
        "
import socket, time
c = socket.create_connection(('127.0.0.1', 3128))
c.sendall(b'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n'); c.recv(100)
print('open'); time.sleep(0.2)"
    );
    let mut spec = python(&program);
    spec.network = hosts(&[format!("127.0.0.1:{port}")]);
    let start = std::time::Instant::now();
    assert_eq!(good(&world.run(&spec)), "open");
    assert!(start.elapsed() < std::time::Duration::from_secs(10));
}
