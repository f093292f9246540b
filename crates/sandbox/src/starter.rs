//! The helper process, from the parent's side: started once, and every run is a fork of it, so that a run does not
//! load this binary again. Owns its life; it never outlives its parent: it ends when the socket to it closes.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::wire::{DESCRIPTORS, HELPER_NAME};

/// Starts runs; the process behind it is started with the first one, and again if it is gone.
#[derive(Debug, Default)]
pub(crate) struct Starter {
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    socket: Option<UnixStream>,
}

impl Starter {
    /// Starts the outer half of a run, which gets these descriptors.
    pub(crate) fn start(&self, fds: &[BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Running { socket: Some(socket), .. }) = &*running
            && send(socket, fds).is_ok()
        {
            return Ok(());
        }
        let fresh = running.insert(Running::spawn()?);
        fresh.socket.as_ref().map_or(Err(io::ErrorKind::NotConnected.into()), |socket| send(socket, fds))
    }
}

impl Running {
    fn spawn() -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let process = Command::new("/proc/self/exe")
            .arg0(HELPER_NAME)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { process, socket: Some(socket) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Without its socket it ends by itself.
        self.socket = None;
        let _ = self.process.wait();
    }
}

fn send(socket: &UnixStream, fds: &[BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    sendmsg(socket, &[IoSlice::new(b"R")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
