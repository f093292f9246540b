//! The helper: this same binary, re-executed once, single-threaded, and forked for every run. Owns the outer half (open
//! the granted paths, start the inner half in new namespaces, map its ids, end it when the parent goes) and
//! refuses to outlive the parent: it exits only after every process of the tree is dead.
//!
//! parent ── control socket ── outer half (this file) ── inner half, pid 1 inside (`init`) ── the command

mod bare;
mod command;
mod confine;
mod filter;
mod init;
mod root;
mod sources;
pub(crate) mod survey;
mod watch;

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, waitpid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::sys::{self, Forked};
use crate::wire::{
    self, BarePlan, DESCRIPTORS, Failure, HELPER_NAME, Message, NetworkPlan, Request, SetupStep,
};

/// The uid and gid a command has inside.
pub(crate) const INSIDE_ID: u32 = 1000;

/// Becomes the sandbox helper if this process was started as one, and then never returns.
///
/// Every binary that uses the crate calls this first in `main`, before it starts a thread.
pub fn helper_main_if_requested() {
    if std::env::args_os().next().is_some_and(|name| name == HELPER_NAME) {
        let code = main();
        #[allow(clippy::exit, reason = "the helper is a separate program that happens to share the binary")]
        std::process::exit(code);
    }
}

/// Keeps one fork waiting for the descriptors of a run, which becomes its outer half, until the parent is gone: a run
/// finds a ready process, and the next one is forked meanwhile.
fn main() -> i32 {
    let Ok(socket) = sys::take_stdin() else { return 125 };
    let socket = UnixStream::from(socket);
    // A signal to the whole group (a terminal at Ctrl-C, a service that stops) is meant for the parent, which ends us when it is
    // done; if the outer half ended before the tree, no one would know when the tree is dead.
    sys::hold_signals(true);
    // It must not keep any directory of the machine in use.
    let _ = rustix::process::chdir("/");
    sys::ignore_ended_children(true);
    loop {
        let Ok((taken, take)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else { return 125 };
        match sys::fork() {
            Ok(Forked::Child) => {
                drop(taken);
                return wait_for_a_run(socket, take);
            }
            Ok(Forked::Parent { .. }) => {}
            Err(e) => return refuse_a_run(&socket, &e),
        }
        drop(take);
        if std::fs::File::from(taken).read_exact(&mut [0u8; 1]).is_err() {
            return 0;
        }
    }
}

fn wait_for_a_run(socket: UnixStream, take: OwnedFd) -> i32 {
    let Some([control, stdout, stderr, stdin, lock, life]) = receive_run(&socket) else { return 0 };
    drop(socket);
    let _ = std::fs::File::from(take).write_all(b"t");
    sys::ignore_ended_children(false);
    if rustix::stdio::dup2_stdout(&stdout).is_err() || rustix::stdio::dup2_stderr(&stderr).is_err() {
        return 125;
    }
    drop((stdout, stderr));
    // The lock is held as long as this process lives, so that a sweep never removes a folder of a tree
    // that is still dying.
    outer_main(UnixStream::from(control), stdin, vec![lock, life])
}

/// Answers the next run with the reason why it has no process; the run after that finds us gone and starts another helper.
fn refuse_a_run(socket: &UnixStream, error: &io::Error) -> i32 {
    if let Some([control, ..]) = receive_run(socket) {
        let failure = Failure::new(SetupStep::Request, "fork", error);
        let _ = wire::send(&mut UnixStream::from(control), &Message::Failed(failure));
    }
    125
}

fn receive_run(socket: &UnixStream) -> Option<[OwnedFd; DESCRIPTORS]> {
    receive_descriptors(socket).ok().and_then(|passed| passed.try_into().ok())
}

fn outer_main(mut control: UnixStream, stdin: OwnedFd, mut open_while_alive: Vec<OwnedFd>) -> i32 {
    match outer(&mut control, stdin, &mut open_while_alive) {
        Ok(()) => 0,
        Err(failure) => {
            let _ = wire::send(&mut control, &Message::Failed(failure));
            125
        }
    }
}

fn outer(
    control: &mut UnixStream,
    stdin: OwnedFd,
    open_while_alive: &mut Vec<OwnedFd>,
) -> Result<(), Failure> {
    rustix::process::umask(rustix::fs::Mode::empty());
    let mut request: Request =
        wire::receive(control).map_err(|e| Failure::new(SetupStep::Request, "the request", &e))?;
    for path in &request.cgroup_joins {
        std::fs::write(path, "0").map_err(|e| Failure::new(SetupStep::Cgroup, path.to_string_lossy(), &e))?;
    }
    if let Some(plan) = request.bare.clone() {
        return without_namespaces(control, request, &plan, stdin);
    }
    // Root opens the granted paths from outside, since the inner half may not walk there.
    let opened = match request.become_ids {
        Some((uid, _)) => {
            set_thread_groups(&[]).map_err(|e| Failure::new(SetupStep::Privileges, "groups", &e.into()))?;
            Some(sources::open_all(&request, Some(uid))?)
        }
        None => None,
    };

    let (gate_read, gate_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|e| Failure::new(SetupStep::Request, "pipe", &e.into()))?;
    let forked = clone(&mut request)?;
    let (pid, pidfd) = match forked {
        Forked::Child => {
            drop(gate_write);
            open_while_alive.clear();
            let mut go = [0u8; 1];
            let opened_gate = std::fs::File::from(gate_read).read_exact(&mut go);
            let code = match opened_gate {
                Ok(()) => init::main(control, request, opened, stdin),
                Err(_) => 125,
            };
            #[allow(
                clippy::exit,
                reason = "the inner half ends here; it must not run the outer half's code"
            )]
            std::process::exit(code);
        }
        Forked::Parent { pid, pidfd } => (pid, pidfd),
    };
    drop((gate_read, stdin, opened));
    let mapped = map_ids(pid, request.become_ids);
    if mapped.is_ok() {
        let _ = std::fs::File::from(gate_write).write_all(b"g");
    } else {
        drop(gate_write);
    }
    close_outputs();
    let ended = wait_for_end(control, pid, &pidfd);
    mapped?;
    ended.map_err(|e| Failure::new(SetupStep::Watch, "the inner half", &e))
}

fn without_namespaces(
    control: &mut UnixStream,
    mut request: Request,
    plan: &BarePlan,
    stdin: OwnedFd,
) -> Result<(), Failure> {
    if request.become_ids.is_some() {
        set_thread_groups(&[]).map_err(|e| Failure::new(SetupStep::Privileges, "groups", &e.into()))?;
    }
    let report = bare::run(control, &mut request, plan, stdin)?;
    wire::send(control, &Message::Done(report)).map_err(|e| Failure::new(SetupStep::Watch, "the report", &e))
}

/// Starts the inner half; without a network namespace if there is none, that was accepted, and no network was
/// requested, since then every socket can be refused instead.
fn clone(request: &mut Request) -> Result<Forked, Failure> {
    let flags = namespaces(request);
    let failed = |what: &str, e: &io::Error| Failure::new(SetupStep::Namespaces, what, e);
    sys::clone_into_namespaces(flags).or_else(|e| {
        let all = failed("user, pid, mount, ipc, uts and network namespaces", &e);
        if !(request.reduced && request.network == NetworkPlan::None) {
            return Err(all);
        }
        request.no_network = Some(failed("a network namespace", &e));
        sys::clone_into_namespaces(flags & !libc::CLONE_NEWNET).map_err(|_| all)
    })
}

fn namespaces(request: &Request) -> libc::c_int {
    let network = if request.network == NetworkPlan::Host { 0 } else { libc::CLONE_NEWNET };
    libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP
        | network
}

/// Gives the inner half its only uid and gid, then drops to them outside too.
fn map_ids(pid: Pid, become_ids: Option<(u32, u32)>) -> Result<(), Failure> {
    let (uid, gid) =
        become_ids.unwrap_or((rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()));
    let proc = |file: &str| format!("/proc/{}/{file}", pid.as_raw_nonzero());
    let write = |file: &str, text: String| {
        std::fs::write(proc(file), text).map_err(|e| Failure::new(SetupStep::Namespaces, file.to_owned(), &e))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{INSIDE_ID} {uid} 1"))?;
    write("gid_map", format!("{INSIDE_ID} {gid} 1"))?;
    if let Some((uid, gid)) = become_ids {
        become_user(uid, gid)
            .map_err(|e| Failure::new(SetupStep::Privileges, "the unprivileged user", &e))?;
    }
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    Ok(())
}

pub(super) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    let gid = Some(rustix::process::Gid::from_raw(gid));
    let uid = Some(rustix::process::Uid::from_raw(uid));
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// The outer half must not keep the command's pipes open.
fn close_outputs() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Waits until the tree is dead; kills it when the parent's end of the control socket closes.
fn wait_for_end(control: &UnixStream, pid: Pid, pidfd: &OwnedFd) -> io::Result<()> {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(control.as_fd(), PollFlags::RDHUP),
            PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
                return Err(e.into());
            }
        }
        let [parent, child] = &fds;
        if parent.revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
            waitpid(Some(pid), WaitOptions::empty())?;
            return Ok(());
        }
        if child.revents().contains(PollFlags::IN) {
            waitpid(Some(pid), WaitOptions::empty())?;
            return Ok(());
        }
    }
}

fn receive_descriptors(control: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8; 1];
    let received =
        recvmsg(control, &mut [io::IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok(fds)
}
