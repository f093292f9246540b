//! The inner half: pid 1 of the sandbox. Owns the order of the set-up in new namespaces; when it ends, the kernel ends
//! everything inside. Refuses to start the command unless every layer of full strength is in place, or the missing ones were
//! accepted.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, WaitOptions};

use super::command::{self, Setup, hand_over};
use super::confine::Confinement;
use super::sources::{self, Opened};
use super::survey::Disk;
use super::watch::Members;
use super::{INSIDE_ID, become_user, root};
use crate::network::PROXY_PORT;
use crate::outcome::Layer;
use crate::sys::{self, Forked};
use crate::wire::{self, Failure, Message, NetworkPlan, Report, Request, SetupStep};

/// Runs the inner half to its end and returns its exit code.
pub(super) fn main(
    control: &mut UnixStream,
    mut request: Request,
    opened: Option<Opened>,
    stdin: OwnedFd,
) -> i32 {
    let message = match run(control, &mut request, opened, stdin) {
        Ok(report) => Message::Done(report),
        Err(failure) => Message::Failed(failure),
    };
    match wire::send(control, &message) {
        Ok(()) => 0,
        Err(_) => 125,
    }
}

fn run(
    control: &mut UnixStream,
    request: &mut Request,
    opened: Option<Opened>,
    stdin: OwnedFd,
) -> Result<Report, Failure> {
    if request.become_ids.is_some() {
        become_user(INSIDE_ID, INSIDE_ID)
            .map_err(|e| Failure::new(SetupStep::Privileges, "the user inside", &e))?;
    }
    let _ = rustix::process::setsid();
    rustix::system::sethostname(b"sandbox")
        .map_err(|e| Failure::new(SetupStep::Namespaces, "the host name", &e.into()))?;
    // This takes the kernel a while; the root file system is built meanwhile.
    let is_own = request.network != NetworkPlan::Host && request.no_network.is_none();
    let loopback = if is_own { Some(raise_loopback()?) } else { None };
    let opened = match opened {
        Some(opened) => opened,
        None => sources::open_all(request, None)?,
    };
    let built = root::build(request, opened)?;
    if let Some(pid) = loopback {
        finish_loopback(pid)?;
    }
    if is_own {
        bound_stream_buffers();
    }
    if let NetworkPlan::Proxy { bypass_loopback } = request.network {
        offer_listener(control, request, bypass_loopback)
            .map_err(|e| Failure::new(SetupStep::Loopback, "the proxy's socket", &e))?;
    }
    command::offer_trace_channel(control, built.trace_channel.as_ref())?;
    let confinement = Confinement::prepare(request, None, &built.writable, !built.shows_sockets)?;
    let mut missing = built.missing;
    // Without a /proc the watchdog has nothing to read.
    let watched = missing.is_empty();
    missing.extend(request.no_network.clone());
    if let Some(failure) = confinement.missing() {
        if !request.reduced {
            return Err(failure);
        }
        missing.push(failure);
    }
    if request.probe {
        return Ok(Report::default());
    }
    let setup = Setup {
        confinement,
        disk: Disk::new(request.limits.disk_bytes, built.stores),
        scratch: Some(built.scratch),
        members: Members::Namespace,
        layers: [Layer::Namespaces].into_iter().chain(watched.then_some(Layer::Watchdog)).collect(),
        missing,
    };
    command::run(control, request, stdin, setup, |_| Ok(()))
}

/// Brings the loopback up from a separate process.
fn raise_loopback() -> Result<Pid, Failure> {
    match sys::fork().map_err(|e| Failure::new(SetupStep::Loopback, "fork", &e))? {
        Forked::Parent { pid, .. } => Ok(pid),
        Forked::Child => {
            let code = sys::loopback_up().err().map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO));
            #[allow(clippy::exit, reason = "this process has done its one thing")]
            std::process::exit(code);
        }
    }
}

fn finish_loopback(pid: Pid) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::new(SetupStep::Loopback, "lo", &e);
    let ended = rustix::process::waitpid(Some(pid), WaitOptions::empty()).map_err(|e| failed(e.into()))?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        code => Err(failed(io::Error::from_raw_os_error(code.unwrap_or(libc::EIO)))),
    }
}

/// Keeps the kernel from growing the buffers of TCP connections in this network namespace past the watchdog's charge for a
/// socket. If that fails the charge is too low, as `docs/sandbox.md` says.
fn bound_stream_buffers() {
    for name in ["tcp_rmem", "tcp_wmem"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/{name}"), "4096 65536 212992");
    }
}

/// Opens the proxy's socket in this network namespace and sends it to the parent, which is outside.
fn offer_listener(control: &mut UnixStream, request: &mut Request, bypass_loopback: bool) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?;
    hand_over(control, listener.as_fd(), &Message::Listening)?;
    let address = OsString::from(format!("http://127.0.0.1:{PROXY_PORT}"));
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        request.env.push((name.into(), address.clone()));
    }
    if bypass_loopback {
        for name in ["NO_PROXY", "no_proxy"] {
            request.env.push((name.into(), "localhost,127.0.0.1,::1".into()));
        }
    }
    Ok(())
}
