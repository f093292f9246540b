//! Ending a run from another thread. Owns one flag with a descriptor to wait on; refuses to be reset: a
//! cancelled handle stays cancelled.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// A handle that cancels the runs it was given to. Clones share one flag.
#[derive(Debug, Clone)]
pub struct Cancel {
    flag: Arc<OwnedFd>,
}

impl Cancel {
    /// A handle that has not been used.
    ///
    /// # Errors
    /// If the process has no free descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Self { flag: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?) })
    }

    /// Cancels every run this handle was given to, now and later.
    pub fn cancel(&self) {
        // A full counter means that it was already cancelled.
        let _ = rustix::io::write(&*self.flag, &1u64.to_ne_bytes());
    }

    /// Whether it was used.
    pub fn is_cancelled(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

/// Readable once it was used.
impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.flag.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    #[test]
    fn every_clone_sees_the_cancellation_permanently() {
        let cancel = Cancel::new().unwrap();
        let clone = cancel.clone();
        assert!(!clone.is_cancelled());
        cancel.cancel();
        assert!(clone.is_cancelled() && clone.is_cancelled() && cancel.is_cancelled());
    }
}
