//! The way out: an HTTP proxy whose socket is inside and whose feet are outside. Owns the connections it
//! carries and their record; refuses every target that was not granted, resolves names itself, and never
//! lets a granted name lead to a private address.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::{Connection, Host, Verdict, is_granted, may_lead_to};

const MAX_OPEN: usize = 64;
const MAX_LOG: usize = 1000;
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_TARGET_CHARS: usize = 300;
const MAX_ADDRESSES: usize = 8;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);

/// A running proxy.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    stop: OwnedFd,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    hosts: Vec<Host>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Vec<Connection>,
    left_off: u64,
    stopped: bool,
    next: u64,
    /// Both ends of what is open, to be shut when the run ends.
    open: BTreeMap<u64, Vec<TcpStream>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a connection down; gives its place in the log.
    fn record(&self, target: &str, address: Option<SocketAddr>, verdict: Verdict) -> Option<usize> {
        let mut state = self.state();
        if state.log.len() >= MAX_LOG {
            state.left_off = state.left_off.saturating_add(1);
            return None;
        }
        let target = target.chars().take(MAX_TARGET_CHARS).collect();
        state.log.push(Connection { target, address, verdict, sent_bytes: 0, received_bytes: 0 });
        Some(state.log.len().saturating_sub(1))
    }
}

impl Proxy {
    /// Starts to accept on `listener`, which belongs to the sandbox's network.
    pub(crate) fn start(listener: TcpListener, hosts: Vec<Host>) -> io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let stopped = stop.try_clone()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared { hosts, state: Mutex::default() });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::Builder::new()
            .name("sandbox-proxy".to_owned())
            .spawn(move || accept_until(&listener, &stopped, &accepting))?;
        Ok(Self { shared, stop, acceptor: Some(acceptor) })
    }

    /// Ends every connection and gives the record, and how many entries it had no room for.
    pub(crate) fn finish(mut self) -> (Vec<Connection>, u64) {
        self.halt();
        self.settle();
        let mut state = self.shared.state();
        (std::mem::take(&mut state.log), state.left_off)
    }

    fn halt(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let mut state = self.shared.state();
        state.stopped = true;
        for stream in state.open.values().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Gives the threads of the connections just shut the time to write down their last counts.
    fn settle(&self) {
        let start = Instant::now();
        while !self.shared.state().open.is_empty() && start.elapsed() < SETTLE_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.halt();
    }
}

fn accept_until(listener: &TcpListener, stop: &OwnedFd, shared: &Arc<Shared>) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err_and(|e| e != rustix::io::Errno::INTR) {
            return;
        }
        let [_, stopped] = &fds;
        if !stopped.revents().is_empty() {
            return;
        }
        let Ok((client, _)) = listener.accept() else { continue };
        let Some(id) = admit(&client, shared) else { continue };
        let serving = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("sandbox-proxy".to_owned());
        let spawned = thread.spawn(move || {
            serve(client, id, &serving);
            serving.state().open.remove(&id);
        });
        if spawned.is_err() {
            shared.state().open.remove(&id);
        }
    }
}

fn admit(client: &TcpStream, shared: &Shared) -> Option<u64> {
    let full = shared.state().open.len() >= MAX_OPEN;
    if full {
        shared.record("", None, Verdict::TooMany);
        let _ =
            answer(client, "503 Too Many Connections", "the sandbox's proxy has no room; close a connection");
        return None;
    }
    let copy = client.try_clone().ok()?;
    let mut state = shared.state();
    let id = state.next;
    state.next = id.wrapping_add(1);
    state.open.insert(id, vec![copy]);
    Some(id)
}

fn answer(mut client: &TcpStream, status: &str, text: &str) -> io::Result<()> {
    let body = format!("{text}\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

fn serve(client: TcpStream, id: u64, shared: &Arc<Shared>) {
    let _ = client.set_nonblocking(false);
    let _ = client.set_read_timeout(Some(HEAD_TIMEOUT));
    let Ok(head) = read_head(&client) else { return };
    let Some(request) = parse(&head) else {
        shared.record(&String::from_utf8_lossy(&head), None, Verdict::Malformed);
        let _ = answer(
            &client,
            "400 Bad Request",
            "the sandbox's proxy takes CONNECT host:port and http:// requests",
        );
        return;
    };
    let target = request.target.to_string();
    let (upstream, address) = match connect(shared, &request.target) {
        Ok(found) => found,
        Err(verdict) => {
            shared.record(&target, None, verdict);
            let (status, why) = match verdict {
                Verdict::NotGranted => ("403 Forbidden", "was not granted to this sandbox"),
                Verdict::PrivateAddress => {
                    ("403 Forbidden", "leads to a private address that was not granted")
                }
                _ => ("502 Bad Gateway", "could not be reached"),
            };
            let _ = answer(&client, status, &format!("{target} {why}"));
            return;
        }
    };
    let entry = shared.record(&target, Some(address), Verdict::Connected);
    if !keep_open(shared, id, &upstream) {
        return;
    }
    let _ = client.set_read_timeout(None);
    let started = match &request.forward {
        None => (&client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n"),
        Some(first) => (&upstream).write_all(first),
    };
    if started.is_err() {
        return;
    }
    let first = request.forward.as_ref().map_or(0, |f| f.len() as u64);
    let (sent, received) = relay(&client, &upstream, &request.rest);
    if let Some(entry) = entry
        && let Some(connection) = shared.state().log.get_mut(entry)
    {
        connection.sent_bytes = sent.saturating_add(first);
        connection.received_bytes = received;
    }
}

/// Puts the outer end where the end of the run finds it; false when the run has ended already.
fn keep_open(shared: &Shared, id: u64, upstream: &TcpStream) -> bool {
    let Ok(copy) = upstream.try_clone() else { return false };
    let mut state = shared.state();
    if let Some(ends) = state.open.get_mut(&id) {
        ends.push(copy);
    }
    !state.stopped
}

/// Reads up to the empty line that ends a request's head; what came after it stays at the end.
fn read_head(mut client: &TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut chunk = [0u8; 2048];
    while head_end(&head).is_none() {
        if head.len() > MAX_HEAD_BYTES {
            return Ok(head);
        }
        let read = client.read(&mut chunk)?;
        if read == 0 {
            return if head.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(head) };
        }
        head.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
    Ok(head)
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at.saturating_add(4))
}

struct ProxyRequest {
    target: Host,
    /// For a plain `http://` request: the head to send on.
    forward: Option<Vec<u8>>,
    /// What the client sent after the head.
    rest: Vec<u8>,
}

fn parse(bytes: &[u8]) -> Option<ProxyRequest> {
    let end = head_end(bytes)?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let rest = bytes.get(end..)?.to_vec();
    let (line, headers) = head.split_once("\r\n")?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    if method == "CONNECT" {
        return Some(ProxyRequest { target: target.parse().ok()?, forward: None, rest });
    }
    let url = target.strip_prefix("http://")?;
    let (authority, path) = url.find('/').map_or((url, "/"), |at| url.split_at(at));
    let named = authority.parse::<Host>().or_else(|_| format!("{authority}:80").parse()).ok()?;
    let mut forward = format!("{method} {path} {version}\r\n");
    for header in headers.split("\r\n").filter(|h| !h.is_empty()) {
        let name = header.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !name.starts_with("proxy-") && name != "connection" {
            forward.push_str(header);
            forward.push_str("\r\n");
        }
    }
    forward.push_str("Connection: close\r\n\r\n");
    Some(ProxyRequest { target: named, forward: Some(forward.into_bytes()), rest })
}

fn connect(shared: &Shared, target: &Host) -> Result<(TcpStream, SocketAddr), Verdict> {
    if !is_granted(&shared.hosts, target) {
        return Err(Verdict::NotGranted);
    }
    let found = (target.name(), target.port()).to_socket_addrs().map_err(|_| Verdict::Unresolved)?;
    let addresses: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
    if addresses.is_empty() {
        return Err(Verdict::Unresolved);
    }
    let allowed: Vec<SocketAddr> = addresses.into_iter().filter(|a| may_lead_to(&shared.hosts, *a)).collect();
    if allowed.is_empty() {
        return Err(Verdict::PrivateAddress);
    }
    for address in allowed {
        if let Ok(stream) = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            return Ok((stream, address));
        }
    }
    Err(Verdict::Unreachable)
}

/// Carries both directions until both have ended; gives the bytes sent and received.
fn relay(client: &TcpStream, upstream: &TcpStream, first: &[u8]) -> (u64, u64) {
    let sent = AtomicU64::new(0);
    let received = std::thread::scope(|scope| {
        let up = std::thread::Builder::new().name("sandbox-proxy".to_owned()).spawn_scoped(scope, || {
            let mut to = upstream;
            if to.write_all(first).is_ok() {
                sent.fetch_add(first.len() as u64, Ordering::Relaxed);
                copy(client, upstream, &sent);
            }
            let _ = upstream.shutdown(Shutdown::Write);
        });
        if up.is_err() {
            return 0;
        }
        let received = AtomicU64::new(0);
        copy(upstream, client, &received);
        let _ = client.shutdown(Shutdown::Write);
        received.into_inner()
    });
    (sent.into_inner(), received)
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, count: &AtomicU64) {
    let mut chunk = vec![0u8; 32 << 10];
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if to.write_all(chunk.get(..read).unwrap_or_default()).is_err() {
            let _ = from.shutdown(Shutdown::Read);
            return;
        }
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
}
