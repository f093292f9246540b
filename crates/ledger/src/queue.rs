//! The batches that wait for the writer, and when a group of them is large enough to be committed.
//!
//! Callers that wait for their answer before they send again come in two halves: one is being written while the
//! other waits, and every commit carries half of what it could. So where batches came during a commit, the next
//! group gives those who were just answered a moment to come back: a share of what the commit took, and not again for a
//! while where it was in vain. Whoever writes alone never waits.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::writer::Job;

/// A group is closed when it has this many entries.
const GROUP_ENTRIES: usize = 4_096;
/// A group is closed when it has this many bytes of payloads.
const GROUP_BYTES: usize = 16 << 20;
/// The longest moment that callers are given to come back, and its share of the last commit's time.
const MAX_PAUSE: Duration = Duration::from_millis(2);
const PAUSE_SHARE: u32 = 4;
/// How many groups are closed without a pause after many in vain.
const MAX_SKIPPED: u32 = 64;

pub(crate) struct Queue<'a> {
    jobs: &'a Receiver<Job>,
    waiting: Vec<Job>,
    entries: usize,
    bytes: usize,
    /// How many batches may come, and how long they are waited for.
    expected: usize,
    pause: Duration,
    skipped: u32,
    to_skip: u32,
}

impl<'a> Queue<'a> {
    pub(crate) fn new(jobs: &'a Receiver<Job>) -> Queue<'a> {
        let pause = Duration::ZERO;
        Queue { jobs, waiting: Vec::new(), entries: 0, bytes: 0, expected: 0, pause, skipped: 0, to_skip: 0 }
    }

    /// The next batches to commit together; `None` when every sender is gone.
    pub(crate) fn next_group(&mut self) -> Option<Vec<Job>> {
        if self.waiting.is_empty() {
            let first = self.jobs.recv().ok()?;
            self.push(first);
        }
        self.fill();
        if self.waiting.len() < self.expected && !self.is_full() {
            self.wait_for_more();
        }
        (self.entries, self.bytes, self.expected) = (0, 0, 0);
        Some(std::mem::take(&mut self.waiting))
    }

    /// To be called after a commit and before its callers are answered: whoever waits now waited meanwhile.
    pub(crate) fn committed(&mut self, group: usize, took: Duration) {
        self.fill();
        if !self.waiting.is_empty() {
            self.expected = self.waiting.len() + group;
            self.pause = (took / PAUSE_SHARE).min(MAX_PAUSE);
        }
    }

    fn wait_for_more(&mut self) {
        if self.skipped < self.to_skip {
            self.skipped += 1;
            return;
        }
        let end = Instant::now() + self.pause;
        while self.waiting.len() < self.expected && !self.is_full() {
            match self.jobs.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(job) => self.push(job),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        // Most of them is success: some callers always end, or do something else first.
        let is_in_vain = self.waiting.len() < self.expected / 4 * 3;
        self.to_skip = if is_in_vain { (self.to_skip * 2 + 1).min(MAX_SKIPPED) } else { 0 };
        self.skipped = 0;
    }

    fn fill(&mut self) {
        while !self.is_full()
            && let Ok(job) = self.jobs.try_recv()
        {
            self.push(job);
        }
    }

    fn push(&mut self, job: Job) {
        self.entries += job.entries.len();
        self.bytes += job.bytes();
        self.waiting.push(job);
    }

    fn is_full(&self) -> bool {
        self.entries >= GROUP_ENTRIES || self.bytes >= GROUP_BYTES
    }
}
