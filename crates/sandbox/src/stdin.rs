//! A command's standard input. Guarantees that it never gets a descriptor of ours: whatever our own standard input
//! is (a terminal, a file, a socket), the command has one end of a pipe, so it cannot write to it, change its modes or
//! times, truncate it or configure it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, SeekFrom, fstat};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::spec::Stdin;

/// How much is read from our standard input at a time: bytes that a command leaves unread are lost if they cannot be put back.
const CHUNK_BYTES: usize = 4096;
/// How long to wait for the pump to end: another process may have taken the input that it waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The command's standard input, and its source.
pub(crate) struct Feed {
    pub(crate) read: OwnedFd,
    pub(crate) pump: Option<Pump>,
}

impl Feed {
    pub(crate) fn open(stdin: &Stdin) -> io::Result<Self> {
        match stdin {
            Stdin::Empty => Ok(Self { read: File::open("/dev/null")?.into(), pump: None }),
            Stdin::Inherit => Pump::start(),
            Stdin::Bytes(bytes) => Ok(Self { read: sealed(bytes)?, pump: None }),
        }
    }
}

/// Bytes in a sealed file, which no one can change.
fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = memfd_create("stdin", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// A thread that copies our standard input into a pipe; ends when this is dropped.
pub(crate) struct Pump {
    /// Closing it stops the thread.
    stop: Option<OwnedFd>,
    done: Receiver<()>,
}

impl Pump {
    fn start() -> io::Result<Feed> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&write, rustix::fs::OFlags::NONBLOCK)?;
        let (report_done, done) = channel();
        let work = PumpThread {
            from: io::stdin().as_fd().try_clone_to_owned()?,
            unread: read.try_clone()?,
            to: write,
            stopped,
        };
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || work.run(report_done))?;
        Ok(Feed { read, pump: Some(Self { stop: Some(stop), done }) })
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _: Result<(), RecvTimeoutError> = self.done.recv_timeout(PATIENCE);
    }
}

struct PumpThread {
    from: OwnedFd,
    /// The command's end, to know how much it has not read.
    unread: OwnedFd,
    to: OwnedFd,
    stopped: OwnedFd,
}

impl PumpThread {
    fn run(self, report_done: Sender<()>) {
        let Self { from, unread, to, stopped } = self;
        copy_until_stopped(&from, to, &stopped);
        let is_file = fstat(&from).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        let left = rustix::io::ioctl_fionread(&unread).unwrap_or(0);
        if let (true, Ok(left)) = (is_file && left > 0, i64::try_from(left)) {
            // The next reader of the file continues where the command stopped.
            let _ = rustix::fs::seek(&from, SeekFrom::Current(left.saturating_neg()));
        }
        let _ = report_done.send(());
    }
}

fn copy_until_stopped(from: &OwnedFd, to: OwnedFd, stopped: &OwnedFd) {
    let mut buffer = [0_u8; CHUNK_BYTES];
    while wait_for(from, PollFlags::IN, stopped) {
        let read = match rustix::io::read(from, &mut buffer) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Ok(read) if read > 0 => read,
            _ => return,
        };
        let mut rest = buffer.get(..read).unwrap_or_default();
        while !rest.is_empty() {
            if !wait_for(&to, PollFlags::OUT, stopped) {
                // None of it was read; a file's position is restored.
                let _ = i64::try_from(rest.len())
                    .map(|left| rustix::fs::seek(from, SeekFrom::Current(left.saturating_neg())));
                return;
            }
            match rustix::io::write(&to, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }
}

/// Waits until a descriptor is ready; false when it is time to stop.
fn wait_for(fd: &OwnedFd, wanted: PollFlags, stopped: &OwnedFd) -> bool {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(fd.as_fd(), wanted),
        ];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return false,
            Ok(_) => {}
        }
        let [stopped, ready] = &fds;
        if !stopped.revents().is_empty() {
            return false;
        }
        if !ready.revents().is_empty() {
            return true;
        }
    }
}
