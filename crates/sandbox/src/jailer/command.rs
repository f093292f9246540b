//! The command, from its start to its report, with and without namespaces. Owns the start, the wait for its end, the watchdog and
//! the end of its remaining processes; refuses to report before a failed start is known.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, kill_process, set_dumpable_behavior, wait,
};

use super::confine::{self, Confinement};
use super::survey::Disk;
use super::watch::{Members, Watch, WatchVerdict};
use crate::outcome::{Cut, Exit, Layer};
use crate::sys::{self, Forked};
use crate::wire::{self, Failure, Message, Report, Request, SetupStep, TERMINATE};

/// How long the processes of the tree may take to die.
const DYING: Duration = Duration::from_secs(10);

/// What was set up for the command.
pub(super) struct Setup {
    pub(super) confinement: Confinement,
    pub(super) disk: Disk,
    /// A tmpfs, whose pages are memory.
    pub(super) scratch: Option<OwnedFd>,
    pub(super) members: Members,
    /// In addition to those of the confinement.
    pub(super) layers: Vec<Layer>,
    /// What full strength would have in addition.
    pub(super) missing: Vec<Failure>,
}

/// Starts the command, after its process has confined itself, and watches it until it and its tree are dead. In namespaces the end of
/// this process ends the tree.
pub(super) fn run(
    control: &mut UnixStream,
    request: &Request,
    stdin: OwnedFd,
    setup: Setup,
    settle: impl FnOnce(&Request) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    let Setup { confinement, disk, scratch, members, mut layers, missing } = setup;
    layers.extend(confinement.layers());
    layers.sort();
    let watched = start(request, confinement, stdin, settle).and_then(|child| {
        if let Members::Namespace = members {
            confine::keep_watch_capabilities()
                .map_err(|e| Failure::new(SetupStep::Privileges, "capabilities", &e))?;
        }
        let mut watch = Watch::start(&request.limits, disk, scratch, members)?;
        let (exit, cut) = attend(control, child, &mut watch);
        Ok((exit, cut, watch))
    });
    if let Members::Descendants = members {
        end_descendants();
    }
    let (exit, cut, watch) = watched?;
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

/// Sends the parent the end of the trace channel that it reads, if there is one.
pub(super) fn offer_trace_channel(
    control: &mut UnixStream,
    channel: Option<&OwnedFd>,
) -> Result<(), Failure> {
    let Some(channel) = channel else { return Ok(()) };
    hand_over(control, channel.as_fd(), &Message::Tracing)
        .map_err(|e| Failure::new(SetupStep::Request, "the trace channel", &e))
}

/// Sends the parent a descriptor, with a message that names it.
pub(super) fn hand_over(control: &mut UnixStream, fd: BorrowedFd<'_>, message: &Message) -> io::Result<()> {
    let bytes = wire::encode(message)?;
    let fds = [fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = sendmsg(&*control, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    control.write_all(bytes.get(sent..).unwrap_or_default())
}

/// Starts the command, after its process has confined itself; a failure before or in its exec is reported through a pipe.
fn start(
    request: &Request,
    confinement: Confinement,
    stdin: OwnedFd,
    settle: impl FnOnce(&Request) -> Result<(), Failure>,
) -> Result<Child, Failure> {
    let failed = |e: io::Error| Failure::new(SetupStep::Start, "fork", &e);
    // Before the command can inspect us.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| Failure::new(SetupStep::Privileges, "not dumpable", &e.into()))?;
    let (read, write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let (pid, pidfd) = match sys::fork().map_err(failed)? {
        Forked::Child => {
            drop(read);
            // It sets its own out-of-memory score, which needs a dumpable process.
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
            let failure = settle(request).err().unwrap_or_else(|| confinement.execute(request, &stdin));
            let _ = wire::send(&mut std::fs::File::from(write), &failure);
            #[allow(clippy::exit, reason = "a failed exec must not continue as a second pid 1")]
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

struct Child {
    pid: Pid,
    pidfd: OwnedFd,
}

/// Waits for the command, for a message from the parent, and for the watchdog's next check.
fn attend(control: &mut UnixStream, child: Child, watch: &mut Watch) -> (Exit, Option<Cut>) {
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
            && let WatchVerdict::End(cut) = watch.look()
        {
            return (Exit::Killed, Some(cut));
        }
    }
}

/// Reaps every dead child; returns the exit of the command if it was among them.
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

/// Kills every process of the tree; orphans are our children by now.
fn end_descendants() {
    let until = Instant::now() + DYING;
    while Instant::now() < until {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let members = Members::Descendants.pids();
        if members.is_empty() {
            return;
        }
        // Stopped first, so that none forks while the rest is killed.
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in members.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
                let _ = kill_process(pid, signal);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
