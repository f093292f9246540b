//! The jobs that wait for the writer, and when a group of them is large enough to be committed.
//!
//! A durable commit is expensive and carries any number of batches, so a job that comes while a group is being written joins
//! it. That ends when no job waits, when the group is large, or when its commit is already a small part of its time
//! and more would only delay the first ones. Callers that were answered together tend to come back together, so a group that
//! is smaller than the last waits a moment for the others. A caller that writes alone never waits.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crealeph_contracts::scalar::TenantId;

use crate::store::Writer;
use crate::writer::Job;

/// A group is closed when it has this many entries.
const GROUP_ENTRIES: usize = 4_096;
/// A group is closed when it has this many bytes of payloads.
const GROUP_BYTES: usize = 16 << 20;
/// A group is closed when writing it has taken this many times as long as a commit.
const COMMITS_WORTH: u32 = 6;
/// A smaller group than the last waits this part of a commit's time for another to join.
const PATIENCE: u32 = 8;
/// How many jobs of other groups are set aside while one is being written.
const MAX_ASIDE: usize = 1_024;

pub(crate) struct JobQueue<'a> {
    jobs: &'a Receiver<Job>,
    /// Then a transaction has one tenant, and it is better to wait for expected jobs than to begin with the present ones.
    is_remote: bool,
    waiting: VecDeque<Job>,
    /// How long a commit takes, as far as is known.
    commit: Duration,
    /// How many joined the last group that was synced.
    last_joined: usize,
}

/// The jobs that are written together.
pub(crate) struct JobGroup {
    /// The only tenant, if a transaction has one.
    pub tenant_id: Option<TenantId>,
    /// It changes no log, only leases, which need not survive an event that ends their holders.
    pub is_leases_only: bool,
    start: Instant,
    joined: usize,
    entries: usize,
    bytes: usize,
}

impl JobGroup {
    fn is_full(&self, commit: Duration) -> bool {
        let is_large = self.entries >= GROUP_ENTRIES || self.bytes >= GROUP_BYTES;
        is_large || (self.entries > 0 && self.start.elapsed() > commit * COMMITS_WORTH)
    }

    fn takes(&self, job: &Job) -> bool {
        let is_its_tenant = self.tenant_id.as_ref().is_none_or(|tenant| *tenant == job.tenant_id);
        is_its_tenant && (job.is_lease() || !self.is_leases_only)
    }
}

impl<'a> JobQueue<'a> {
    pub(crate) fn new(jobs: &'a Receiver<Job>, writer: &dyn Writer) -> JobQueue<'a> {
        let (waiting, commit) = (VecDeque::new(), Duration::ZERO);
        JobQueue { jobs, is_remote: writer.is_remote(), waiting, commit, last_joined: 0 }
    }

    /// Whether a job waits.
    pub(crate) fn has_waiting(&mut self) -> bool {
        self.waiting.extend(self.jobs.try_iter().take(usize::from(self.waiting.is_empty())));
        !self.waiting.is_empty()
    }

    /// Waits until there is something to write, and opens a group for it; `None` if every sender is gone.
    pub(crate) fn next_group(&mut self) -> Option<JobGroup> {
        if self.waiting.is_empty() {
            self.waiting.push_back(self.jobs.recv().ok()?);
        }
        self.waiting.extend(self.jobs.try_iter().take(MAX_ASIDE.saturating_sub(self.waiting.len())));
        let tenant_id = match self.waiting.front() {
            Some(first) if self.is_remote => Some(first.tenant_id.clone()),
            _ => None,
        };
        let mut group = JobGroup {
            tenant_id,
            is_leases_only: false,
            start: Instant::now(),
            joined: 0,
            entries: 0,
            bytes: 0,
        };
        group.is_leases_only = self.waiting.iter().filter(|job| group.takes(job)).all(Job::is_lease);
        Some(group)
    }

    /// The jobs that join the group now; empty if it is to be committed.
    pub(crate) fn joining(&mut self, group: &mut JobGroup) -> Vec<Job> {
        let mut joining = Vec::new();
        let mut aside = 0;
        while aside < MAX_ASIDE && !group.is_full(self.commit) {
            if aside == self.waiting.len() {
                let is_expected = group.joined < self.last_joined && !group.is_leases_only;
                let next = if is_expected && (self.is_remote || joining.is_empty()) {
                    self.jobs.recv_timeout(self.commit / PATIENCE).ok()
                } else {
                    self.jobs.try_recv().ok()
                };
                let Some(job) = next else { break };
                self.waiting.push_back(job);
            }
            if self.waiting.get(aside).is_some_and(|job| !group.takes(job)) {
                aside += 1;
                continue;
            }
            if let Some(job) = self.waiting.remove(aside) {
                let (entries, bytes) = job.size();
                group.joined += 1;
                (group.entries, group.bytes) = (group.entries + entries, group.bytes + bytes);
                joining.push(job);
            }
        }
        joining
    }

    /// How long the commit of a group took.
    pub(crate) fn committed(&mut self, group: &JobGroup, took: Duration) {
        self.last_joined = group.joined;
        self.commit = (self.commit * 3 + took) / 4;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use crealeph_contracts::scalar::Name;

    use super::*;
    use crate::lease::{LeaseChange, LeaseToken};
    use crate::pending::AnswerSender;
    use crate::writer::{Batch, JobTask};

    fn send(to: &Sender<Job>, tenant: &str, task: JobTask) {
        to.send(Job { tenant_id: TenantId::parse(tenant).unwrap(), task }).unwrap();
    }

    fn queue(jobs: &Receiver<Job>, is_remote: bool) -> JobQueue<'_> {
        let (waiting, commit) = (VecDeque::new(), Duration::ZERO);
        JobQueue { jobs, is_remote, waiting, commit, last_joined: 0 }
    }

    fn batch() -> JobTask {
        JobTask::Append(Batch {
            entries: Vec::new(),
            fence: None,
            settles: None,
            answer: AnswerSender::pair().0,
        })
    }

    fn lease() -> JobTask {
        let release = LeaseChange::Release { name: Name::parse("work").unwrap(), token: LeaseToken::new(1) };
        JobTask::Lease(release, AnswerSender::pair().0)
    }

    #[test]
    fn a_group_of_leases_takes_no_entries() {
        let (to, jobs) = channel();
        let mut queue = queue(&jobs, false);
        queue.commit = Duration::from_secs(60);
        send(&to, "a", lease());
        let mut group = queue.next_group().unwrap();
        assert!(group.is_leases_only);
        assert_eq!(queue.joining(&mut group).len(), 1);
        send(&to, "a", batch());
        send(&to, "a", lease());
        let late = queue.joining(&mut group);
        assert!(late.len() == 1 && late.iter().all(Job::is_lease), "entries would be written without a sync");
        let mut group = queue.next_group().unwrap();
        assert!(!group.is_leases_only);
        send(&to, "b", lease());
        assert_eq!(queue.joining(&mut group).len(), 2);
    }

    #[test]
    fn a_group_waits_for_callers_that_were_answered_together_and_for_no_others() {
        let (to, jobs) = channel();
        let mut queue = queue(&jobs, false);
        queue.commit = Duration::from_secs(100_000);
        send(&to, "a", batch());
        let mut alone = queue.next_group().unwrap();
        assert_eq!(queue.joining(&mut alone).len(), 1);
        assert!(queue.joining(&mut alone).is_empty(), "a caller that writes alone does not wait");
        queue.last_joined = 2;
        send(&to, "a", batch());
        let mut group = queue.next_group().unwrap();
        assert_eq!(queue.joining(&mut group).len(), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                send(&to, "a", batch());
            });
            assert_eq!(queue.joining(&mut group).len(), 1, "the other one is back");
        });
        assert!(queue.joining(&mut group).is_empty(), "nobody is missing");
    }

    #[test]
    fn over_a_network_expected_callers_join_before_anything_is_written() {
        let (to, jobs) = channel();
        let mut queue = queue(&jobs, true);
        (queue.commit, queue.last_joined) = (Duration::from_secs(100_000), 2);
        send(&to, "a", batch());
        let mut group = queue.next_group().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                send(&to, "a", batch());
            });
            assert_eq!(queue.joining(&mut group).len(), 2);
        });
    }

    #[test]
    fn if_a_transaction_has_one_tenant_the_others_wait_their_turn() {
        let (to, jobs) = channel();
        let mut queue = queue(&jobs, true);
        queue.commit = Duration::from_secs(60);
        for tenant in ["a", "b", "a", "c", "b"] {
            send(&to, tenant, batch());
        }
        drop(to);
        let mut groups = Vec::new();
        while let Some(mut group) = queue.next_group() {
            let jobs = queue.joining(&mut group);
            groups.push(jobs.iter().map(|job| job.tenant_id.to_string()).collect::<String>());
        }
        assert_eq!(groups, ["aa", "bb", "c"]);
    }
}
