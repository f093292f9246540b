//! Sockets on which the thread of a call waits itself: until data arrives, its time expires, or it is cancelled,
//! whichever is first. So a call needs no extra thread, except to look up names.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsFd;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crealeph_sandbox::Cancel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// How often a call that waits for a name checks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);
/// How many addresses of a name are tried.
const MAX_ADDRESSES: usize = 16;

thread_local! {
    /// The call that this thread makes. A connection outlives its calls, so it cannot know them itself.
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

struct Call {
    cancel: Cancel,
    until: Instant,
    /// It met a kept connection that was over.
    is_on_old: bool,
}

/// Makes a call that ends, at whichever socket it waits, when it is cancelled or its time expires; and whether it met a
/// connection that had answered before and was over by now, so that a new one may do better.
pub(super) fn bounded<T>(cancel: &Cancel, until: Instant, call: impl FnOnce() -> T) -> (T, bool) {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            CALL.set(None);
        }
    }
    CALL.set(Some(Call { cancel: cancel.clone(), until, is_on_old: false }));
    let _ended = Ended;
    let answer = call();
    (answer, CALL.with_borrow(|call| call.as_ref().is_some_and(|call| call.is_on_old)))
}

/// Runs a wait with what is left of the call's time and of ureq's own bound.
fn within<T>(
    timeout: &NextTimeout,
    wait: impl FnOnce(&Cancel, Duration) -> Result<T, Error>,
) -> Result<T, Error> {
    CALL.with_borrow(|call| {
        let Call { cancel, until, .. } = call.as_ref().ok_or(Error::ConnectionFailed)?;
        let left = until.saturating_duration_since(Instant::now()).min(*timeout.after);
        if left.is_zero() { Err(Error::Timeout(timeout.reason)) } else { wait(cancel, left) }
    })
}

/// Waits until a socket is ready.
fn ready(socket: impl AsFd, event: PollFlags, timeout: &NextTimeout) -> Result<(), Error> {
    loop {
        let came = within(timeout, |cancel, left| {
            let mut fds = [PollFd::new(&socket, event), PollFd::new(cancel, PollFlags::IN)];
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Err(Errno::INTR) => Ok(false),
                Err(error) => Err(io::Error::from(error).into()),
                Ok(0) => Err(Error::Timeout(timeout.reason)),
                Ok(_) if fds.iter().skip(1).any(|fd| !fd.revents().is_empty()) => Err(cancelled()),
                Ok(_) => Ok(true),
            }
        })?;
        if came {
            return Ok(());
        }
    }
}

fn cancelled() -> Error {
    Error::Io(io::Error::new(io::ErrorKind::ConnectionAborted, "the call was cancelled"))
}

/// Leaves names to [`Reach`]: a connection that is there already needs no address.
#[derive(Debug)]
pub(super) struct Later;

impl Resolver for Later {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        Ok(self.empty())
    }
}

/// Makes connections.
#[derive(Debug)]
pub(super) struct Reach;

impl Connector for Reach {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Socket>, Error> {
        let addresses = addresses(details)?;
        let mut last = Error::HostNotFound;
        for (tried, address) in addresses.iter().enumerate() {
            // Each has its share of what is left, so that one that says nothing does not keep the others from theirs.
            let others = u32::try_from(addresses.len() - tried).unwrap_or(1);
            let share = within(&details.timeout, |_, left| Ok(left / others))?;
            let timeout = NextTimeout { after: share.into(), ..details.timeout };
            match connected(address, &timeout) {
                Ok(stream) => {
                    let (input, output) =
                        (details.config.input_buffer_size(), details.config.output_buffer_size());
                    let buffers = LazyBuffers::new(input, output);
                    return Ok(Some(Socket { stream, buffers, has_answered: false, is_unheard: true }));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn connected(address: &SocketAddr, timeout: &NextTimeout) -> Result<TcpStream, Error> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(io::Error::from)?;
    match connect(&socket, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            ready(&socket, PollFlags::OUT, timeout)?;
            let outcome = sockopt::socket_error(&socket).map_err(io::Error::from)?;
            outcome.map_err(io::Error::from)?;
        }
        Err(error) => return Err(io::Error::from(error).into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The addresses of a host; a name is looked up by a thread, which nothing can end but its answer.
fn addresses(details: &ConnectionDetails<'_>) -> Result<Vec<SocketAddr>, Error> {
    let host = details.uri.host().ok_or(Error::HostNotFound)?.trim_matches(['[', ']']).to_owned();
    let port = details.uri.port_u16().unwrap_or(if details.needs_tls() { 443 } else { 80 });
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = sync_channel(1);
    let look_up = move || {
        let found = (host.as_str(), port).to_socket_addrs();
        // The caller may have given up.
        let _ = sender.try_send(found.map(|found| found.take(MAX_ADDRESSES).collect()));
    };
    std::thread::Builder::new().name("agent-name".to_owned()).spawn(look_up)?;
    loop {
        let found = within(&details.timeout, |cancel, left| match receiver.recv_timeout(left.min(LOOK)) {
            Ok(found) => Ok(Some(found?)),
            Err(RecvTimeoutError::Disconnected) => Err(Error::HostNotFound),
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => Err(cancelled()),
            Err(RecvTimeoutError::Timeout) => Ok(None),
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    buffers: LazyBuffers,
    has_answered: bool,
    /// Nothing came since something was last sent.
    is_unheard: bool,
}

impl Socket {
    /// The connection has ended. A server may end one that is kept whenever it likes, also while the next call is on its way.
    fn note_end(&self) {
        if self.has_answered && self.is_unheard {
            CALL.with_borrow_mut(|call| call.iter_mut().for_each(|call| call.is_on_old = true));
        }
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.is_unheard = true;
        let mut rest = self.buffers.output().get(..amount).unwrap_or_default();
        while !rest.is_empty() {
            within(&timeout, |_, _| Ok(()))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready(&self.stream, PollFlags::OUT, &timeout)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.note_end();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        loop {
            ready(&self.stream, PollFlags::IN, &timeout)?;
            match self.stream.read(self.buffers.input_append_buf()) {
                Ok(0) => {
                    self.note_end();
                    return Ok(false);
                }
                Ok(amount) => {
                    self.buffers.input_appended(amount);
                    (self.has_answered, self.is_unheard) = (true, false);
                    return Ok(true);
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => {
                    self.note_end();
                    return Err(error.into());
                }
            }
        }
    }

    /// Nothing was sent, so nothing may have arrived, not even the end.
    fn is_open(&mut self) -> bool {
        self.stream.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}
