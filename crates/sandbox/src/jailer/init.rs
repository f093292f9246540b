//! The inner half: pid 1 of the sandbox. Owns the order of the set-up, starts the command, reaps what it
//! leaves and watches over it; when it ends, the kernel ends everything inside. Refuses to start the
//! command unless every layer of full strength is in place, or what is missing was accepted.

use std::ffi::OsString;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{DumpableBehavior, Pid, WaitOptions, set_dumpable_behavior, wait};

use super::confine::{self, Confinement};
use super::sources::{self, Opened};
use super::survey::Disk;
use super::watch::{Members, Verdict, Watch};
use super::{INSIDE_ID, become_user, root};
use crate::network::PROXY_PORT;
use crate::outcome::{Cut, Exit, Layer};
use crate::sys::{self, Forked};
use crate::wire::{self, Failure, Message, NetworkPlan, Report, Request, Step, TERMINATE};

/// Runs the inner half to its end and gives its exit code.
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
            .map_err(|e| Failure::new(Step::Privileges, "the user inside", &e))?;
    }
    let _ = rustix::process::setsid();
    rustix::system::sethostname(b"sandbox")
        .map_err(|e| Failure::new(Step::Namespaces, "the host name", &e.into()))?;
    // Takes the kernel a while, which the root file system is built in.
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
            .map_err(|e| Failure::new(Step::Loopback, "the proxy's socket", &e))?;
    }
    if let Some(channel) = &built.trace_channel {
        hand_over(control, channel.as_fd(), &Message::Tracing)
            .map_err(|e| Failure::new(Step::Request, "the trace channel", &e))?;
    }
    let confinement = Confinement::prepare(request, None, &built.writable, !built.shows_sockets)?;
    let mut missing = built.missing;
    // Without a /proc there is nothing to watch.
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
    let mut layers = confinement.layers();
    layers.push(Layer::Namespaces);
    layers.extend(watched.then_some(Layer::Watchdog));
    layers.sort();
    let disk = Disk::new(request.limits.disk_bytes, built.stores);
    let child = start(request, confinement, stdin, |_| Ok(()))?;
    confine::keep_watch_capabilities().map_err(|e| Failure::new(Step::Privileges, "capabilities", &e))?;
    let mut watch = Watch::start(&request.limits, disk, Some(built.scratch), Members::Namespace)?;
    let (exit, cut) = attend(control, child, &mut watch);
    let (cpu_us, largest) = sys::children_usage();
    Ok(Report {
        exit,
        cut,
        cpu_us: cpu_us.max(watch.cpu_us()),
        peak_memory_bytes: watch.peak_memory_bytes().max(largest),
        peak_processes: watch.peak_processes(),
        layers,
        missing,
    })
}

/// Brings the loopback up from a process of its own.
fn raise_loopback() -> Result<Pid, Failure> {
    match sys::fork().map_err(|e| Failure::new(Step::Loopback, "fork", &e))? {
        Forked::Parent { pid, .. } => Ok(pid),
        Forked::Child => {
            let code = sys::loopback_up().err().map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO));
            #[allow(clippy::exit, reason = "this process has done its one thing")]
            std::process::exit(code);
        }
    }
}

fn finish_loopback(pid: Pid) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::new(Step::Loopback, "lo", &e);
    let ended = rustix::process::waitpid(Some(pid), WaitOptions::empty()).map_err(|e| failed(e.into()))?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        code => Err(failed(io::Error::from_raw_os_error(code.unwrap_or(libc::EIO)))),
    }
}

/// Keeps the kernel from growing the buffers of TCP connections in this network namespace past what the watch charges for a
/// socket. Where it cannot be done the charge is too low, which `docs/sandbox.md` says.
fn bound_stream_buffers() {
    for name in ["tcp_rmem", "tcp_wmem"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/{name}"), "4096 65536 212992");
    }
}

/// Opens the proxy's socket in this network namespace and hands it to the parent, which is outside.
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

/// Gives the parent a descriptor, and says which.
pub(super) fn hand_over(control: &mut UnixStream, fd: BorrowedFd<'_>, message: &Message) -> io::Result<()> {
    let bytes = wire::encode(message)?;
    let fds = [fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = sendmsg(&*control, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    control.write_all(bytes.get(sent..).unwrap_or_default())
}

/// Starts the command, after its process has settled in; a failure before or in its exec comes back over a pipe.
pub(super) fn start(
    request: &Request,
    confinement: Confinement,
    stdin: OwnedFd,
    settle: impl FnOnce(&Request) -> Result<(), Failure>,
) -> Result<Child, Failure> {
    let failed = |e: io::Error| Failure::new(Step::Start, "fork", &e);
    // Before the command can look at us.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| Failure::new(Step::Privileges, "not dumpable", &e.into()))?;
    let (read, write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let (pid, pidfd) = match sys::fork().map_err(failed)? {
        Forked::Child => {
            drop(read);
            // It sets its own out-of-memory score, which takes a dumpable process.
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
            let failure = settle(request).err().unwrap_or_else(|| confinement.execute(request, &stdin));
            let _ = wire::send(&mut std::fs::File::from(write), &failure);
            #[allow(clippy::exit, reason = "a failed exec must not go on as a second pid 1")]
            std::process::exit(127);
        }
        Forked::Parent { pid, pidfd } => (pid, pidfd),
    };
    drop((write, stdin));
    super::close_outputs();
    let mut said = Vec::new();
    std::fs::File::from(read).take(1 << 16).read_to_end(&mut said).map_err(failed)?;
    match wire::take::<Failure>(&mut said) {
        Ok(None) => Ok(Child { pid, pidfd }),
        Ok(Some(failure)) => Err(failure),
        Err(e) => Err(failed(e)),
    }
}

pub(super) struct Child {
    pid: Pid,
    pidfd: OwnedFd,
}

/// Waits for the command, for a word from the parent, and for the watch's next look.
pub(super) fn attend(control: &mut UnixStream, child: Child, watch: &mut Watch) -> (Exit, Option<Cut>) {
    loop {
        let timeout = watch.until_next_look(Instant::now());
        let timeout = rustix::event::Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(1),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut fds = [
            PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN | PollFlags::RDHUP),
            PollFd::from_borrowed_fd(child.pidfd.as_fd(), PollFlags::IN),
        ];
        let polled = poll(&mut fds, Some(&timeout));
        let [parent, command] = &fds;
        let (parent, command) = (parent.revents(), command.revents());
        if polled.is_err_and(|e| e != rustix::io::Errno::INTR) {
            return (Exit::Killed, None);
        }
        // Reaps orphans too, which are ours since we are pid 1 here.
        if let Some(exit) = reap(child.pid) {
            return (exit, watch.cut_of(exit));
        }
        if command.contains(PollFlags::IN) {
            continue;
        }
        if parent.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
            return (Exit::Killed, None);
        }
        if parent.contains(PollFlags::IN) {
            let mut word = [0u8; 1];
            match control.read(&mut word) {
                Ok(1) if word == [TERMINATE] => watch.terminate(),
                _ => return (Exit::Killed, None),
            }
        }
        if watch.until_next_look(Instant::now()).is_zero()
            && let Verdict::End(cut) = watch.look()
        {
            return (Exit::Killed, Some(cut));
        }
    }
}

/// Takes every dead child; the exit of the command if it was among them.
fn reap(command: Pid) -> Option<Exit> {
    let mut exit = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == command {
            exit = Some(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => Exit::Killed,
            });
        }
    }
    exit
}
