//! The way out: an HTTP proxy whose socket is inside and whose connections start outside. Owns the connections it
//! carries and their record; refuses every target that was not granted, resolves names itself, and lets a granted name
//! lead to a private address only if that was granted too.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::request::{Plain, ProxyRequest, parse, read_head};
use super::{ConnectionVerdict, GrantedHosts, Host, ProxiedConnection};

const MAX_OPEN: usize = 64;
const MAX_LOG: usize = 1000;
const MAX_TARGET_CHARS: usize = 300;
const MAX_ADDRESSES: usize = 8;
const BUFFER_BYTES: usize = 32 << 10;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);

/// A running proxy.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    stop: OwnedFd,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    granted: GrantedHosts,
    state: Mutex<ProxyState>,
}

#[derive(Default)]
struct ProxyState {
    log: Vec<ProxiedConnection>,
    left_off: u64,
    stopped: bool,
    next: u64,
    /// Both ends of the open connections, to be shut when the run ends.
    open: BTreeMap<u64, Vec<TcpStream>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a connection; returns its place in the log.
    fn record(&self, target: &str, address: Option<SocketAddr>, verdict: ConnectionVerdict) -> Option<usize> {
        let mut state = self.state();
        if state.log.len() >= MAX_LOG {
            state.left_off = state.left_off.saturating_add(1);
            return None;
        }
        let target = target.chars().take(MAX_TARGET_CHARS).collect();
        state.log.push(ProxiedConnection { target, address, verdict, sent_bytes: 0, received_bytes: 0 });
        Some(state.log.len().saturating_sub(1))
    }
}

impl Proxy {
    /// Starts to accept on `listener`, which belongs to the sandbox's network.
    pub(crate) fn start(listener: TcpListener, granted: GrantedHosts) -> io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let stopped = stop.try_clone()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared { granted, state: Mutex::default() });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::Builder::new()
            .name("sandbox-proxy".to_owned())
            .spawn(move || accept_until(&listener, &stopped, &accepting))?;
        Ok(Self { shared, stop, acceptor: Some(acceptor) })
    }

    /// Ends every connection and returns the record, and how many entries did not fit.
    pub(crate) fn finish(mut self) -> (Vec<ProxiedConnection>, u64) {
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

    /// Gives the threads of the connections just shut time to record their last counts.
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
        let Ok((client, _)) = listener.accept() else {
            // Probably out of descriptors; a free one is tried later.
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
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
        shared.record("", None, ConnectionVerdict::TooMany);
        let _ = answer(
            client,
            "503 Too Many Connections",
            "the sandbox's proxy has too many open connections; close one",
        );
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
    let _ = client.set_read_timeout(Some(HEAD_TIMEOUT));
    let Ok(head) = read_head(&client) else { return };
    let Some(request) = parse(&head) else {
        shared.record(&String::from_utf8_lossy(&head), None, ConnectionVerdict::Malformed);
        let _ = answer(
            &client,
            "400 Bad Request",
            "the sandbox's proxy accepts CONNECT host:port and http:// requests",
        );
        return;
    };
    let target = request.target.to_string();
    let (upstream, address) = match connect(&shared.granted, &request.target) {
        Ok(found) => found,
        Err(verdict) => {
            shared.record(&target, None, verdict);
            let (status, why) = match verdict {
                ConnectionVerdict::NotGranted => ("403 Forbidden", "was not granted to this sandbox"),
                ConnectionVerdict::PrivateAddress => {
                    ("403 Forbidden", "leads to a private address that was not granted")
                }
                _ => ("502 Bad Gateway", "could not be reached"),
            };
            let _ = answer(&client, status, &format!("{target} {why}"));
            return;
        }
    };
    let entry = shared.record(&target, Some(address), ConnectionVerdict::Connected);
    if !keep_open(shared, id, &upstream) {
        return;
    }
    let _ = client.set_read_timeout(None);
    // Before anything from outside, which may send first.
    let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
    if request.plain.is_none() && (&client).write_all(established).is_err() {
        return;
    }
    let (sent, received) = relay(&client, &upstream, &request);
    if let Some(entry) = entry
        && let Some(connection) = shared.state().log.get_mut(entry)
    {
        connection.sent_bytes = sent;
        connection.received_bytes = received;
    }
}

/// Puts the outer end where the end of the run finds it; false if the run has already ended.
fn keep_open(shared: &Shared, id: u64, upstream: &TcpStream) -> bool {
    let Ok(copy) = upstream.try_clone() else { return false };
    let mut state = shared.state();
    if let Some(ends) = state.open.get_mut(&id) {
        ends.push(copy);
    }
    !state.stopped
}

/// The outcome of a connection to each of these hosts if all of them are granted. Nothing is sent.
pub fn try_hosts(hosts: &[Host], may_be_private: bool) -> Vec<(Host, ConnectionVerdict)> {
    let granted = GrantedHosts { hosts: hosts.to_vec(), may_be_private };
    let attempt = |host: &Host| match connect(&granted, host) {
        Ok(_) => ConnectionVerdict::Connected,
        Err(verdict) => verdict,
    };
    let attempt = &attempt;
    std::thread::scope(|scope| {
        let running: Vec<_> = hosts.iter().map(|host| (host, scope.spawn(move || attempt(host)))).collect();
        let done = running.into_iter().map(|(host, thread)| (host.clone(), thread.join()));
        done.map(|(host, verdict)| (host, verdict.unwrap_or(ConnectionVerdict::Unreachable))).collect()
    })
}

fn connect(granted: &GrantedHosts, target: &Host) -> Result<(TcpStream, SocketAddr), ConnectionVerdict> {
    if !granted.is_granted(target) {
        return Err(ConnectionVerdict::NotGranted);
    }
    let found =
        (target.name(), target.port()).to_socket_addrs().map_err(|_| ConnectionVerdict::Unresolved)?;
    let addresses: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
    if addresses.is_empty() {
        return Err(ConnectionVerdict::Unresolved);
    }
    let allowed: Vec<SocketAddr> = addresses.into_iter().filter(|a| granted.may_lead_to(*a)).collect();
    if allowed.is_empty() {
        return Err(ConnectionVerdict::PrivateAddress);
    }
    for address in allowed {
        if let Ok(stream) = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            return Ok((stream, address));
        }
    }
    Err(ConnectionVerdict::Unreachable)
}

/// Carries both directions until both have ended; returns the bytes sent and received.
fn relay(client: &TcpStream, upstream: &TcpStream, request: &ProxyRequest) -> (u64, u64) {
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let up = std::thread::Builder::new().name("sandbox-proxy".to_owned()).spawn_scoped(scope, || {
            let _ = send(client, Counted { to: upstream, count: &sent }, request);
            let _ = upstream.shutdown(Shutdown::Write);
        });
        if up.is_ok() {
            let mut from = BufReader::with_capacity(BUFFER_BYTES, upstream);
            let _ = io::copy(&mut from, &mut Counted { to: client, count: &received });
            let _ = client.shutdown(Shutdown::Write);
        }
    });
    (sent.into_inner(), received.into_inner())
}

/// Forwards the client's bytes: all of them through a tunnel, and of a plain connection one request, so that no second one
/// goes where only the first was checked.
fn send(client: &TcpStream, mut upstream: Counted<'_>, request: &ProxyRequest) -> io::Result<()> {
    let mut from = BufReader::with_capacity(BUFFER_BYTES, request.rest.chain(client));
    let Some(Plain { head, body }) = &request.plain else {
        return io::copy(&mut from, &mut upstream).map(|_| ());
    };
    upstream.write_all(head.as_bytes())?;
    body.pass(&mut from, &mut upstream)?;
    // The client's end, or a second request: either way the server has received everything, and closes when it has answered.
    from.fill_buf()?;
    upstream.to.shutdown(Shutdown::Write)?;
    io::copy(&mut from, &mut io::sink()).map(|_| ())
}

/// An end that counts the bytes sent to it.
struct Counted<'a> {
    to: &'a TcpStream,
    count: &'a AtomicU64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.count.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
