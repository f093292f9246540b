//! The writing thread: takes the waiting jobs and those that come meanwhile, judges them in one transaction and commits
//! them together, so that many callers share one durable commit. Only the writer reads the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::time::Instant;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::log_rules::{LOG_RULES_KEY, RulesInForce};
use crealeph_contracts::scalar::{LedgerId, Name, TenantId};

use crate::accepted::{self, RequestAnswer, RequestChange, RequestName};
use crate::clock::DatingClock;
use crate::error::{AppendError, LedgerError};
use crate::follow::Growth;
use crate::identity::IdSource;
use crate::lease::{self, LeaseAnswer, LeaseChange, LeaseToken};
use crate::marker::marker;
use crate::merkle::{Frontier, TILE_WIDTH, TileSource, complete_tiles};
use crate::pending::{AnswerSender, AppendResult};
use crate::plan::{self, AppendPlan, PreparedEntry};
use crate::position::Millis;
use crate::queue::{JobGroup, JobQueue};
use crate::recent::RecentEntries;
use crate::row::LineageNode;
use crate::store::{Addition, Head, LeaseRow, NeededEntries, Transaction, WriteFailure, Writer};

/// For how many tenants a writing thread remembers the incomplete end of the log.
const MAX_ENDS: usize = 256;
/// How often the outcome of a broken commit is queried.
const OUTCOME_QUESTIONS: usize = 5;

/// A waiting job.
#[derive(Debug)]
pub(crate) struct Job {
    pub tenant_id: TenantId,
    pub task: JobTask,
}

#[derive(Debug)]
pub(crate) enum JobTask {
    Append(Batch),
    Lease(LeaseChange, AnswerSender<LeaseAnswer, LedgerError>),
    /// With the time of the ledger's clock.
    Request(RequestChange, Millis, AnswerSender<RequestAnswer, LedgerError>),
}

/// Entries that are written completely or not at all.
#[derive(Debug)]
pub(crate) struct Batch {
    pub entries: Vec<PreparedEntry>,
    pub fence: Option<Fence>,
    /// The accepted request whose outcome it is, and which is removed with it.
    pub settles: Option<RequestName>,
    pub answer: AnswerSender,
}

/// The lease that a batch is written under.
#[derive(Debug)]
pub(crate) struct Fence {
    pub name: Name,
    pub token: LeaseToken,
    /// It is released with the batch.
    pub is_last: bool,
}

impl Job {
    pub(crate) fn append(tenant: &TenantId, batch: Batch) -> Job {
        Job { tenant_id: tenant.clone(), task: JobTask::Append(batch) }
    }

    pub(crate) fn is_lease(&self) -> bool {
        matches!(&self.task, JobTask::Lease(change, _) if change.is_passing())
    }

    /// Entries and bytes; a lease or a request counts as an entry.
    pub(crate) fn size(&self) -> (usize, usize) {
        match &self.task {
            JobTask::Append(Batch { entries, .. }) => {
                (entries.len(), entries.iter().map(|entry| entry.content.payload.len() + 512).sum())
            }
            JobTask::Lease(..) => (1, 0),
            JobTask::Request(RequestChange::Accept(request, _), ..) => (1, request.document.len() + 512),
            JobTask::Request(..) => (1, 512),
        }
    }
}

/// Writes until every sender is gone.
pub(crate) fn run(writer: Box<dyn Writer>, jobs: &Receiver<Job>, clock: &DatingClock, growth: &Arc<Growth>) {
    let (replies, given) = sync_channel::<Vec<Reply>>(1);
    std::thread::scope(|scope| {
        let give = move || given.iter().flatten().for_each(Reply::give);
        let answering =
            std::thread::Builder::new().name("ledger-answers".to_owned()).spawn_scoped(scope, give);
        write_groups(writer, jobs, clock, growth, answering.is_ok().then_some(replies));
    });
}

/// Waking many callers takes about as long as writing for them, so another thread does the rest of it as soon as a job
/// waits.
fn write_groups(
    mut writer: Box<dyn Writer>,
    jobs: &Receiver<Job>,
    clock: &DatingClock,
    growth: &Growth,
    answering: Option<SyncSender<Vec<Reply>>>,
) {
    let mut memory = WriterMemory {
        clock,
        ids: IdSource::default(),
        ends: BTreeMap::new(),
        recent: RecentEntries::default(),
        rules: BTreeMap::new(),
    };
    let mut queue = JobQueue::new(jobs, writer.as_ref());
    while let Some(group) = queue.next_group() {
        let mut together = WriteGroup::default();
        let written = together.write(writer.as_mut(), group, &mut queue, &mut memory);
        if written.is_ok() {
            together.cache(&mut memory.recent);
        }
        let GroupAnswers { replies, grown } = together.end(written);
        let mut replies = replies.into_iter();
        while !queue.has_waiting()
            && let Some(reply) = replies.next()
        {
            reply.give();
        }
        if let Some(answering) = &answering
            && replies.len() > 0
        {
            if let Err(SendError(rest)) = answering.send(replies.collect()) {
                rest.into_iter().for_each(Reply::give);
            }
        } else {
            replies.for_each(Reply::give);
        }
        if !grown.is_empty() {
            let grown: Vec<TenantId> = grown.into_iter().collect();
            growth.announce(&grown);
            writer.announce(&grown);
        }
    }
}

/// The result of a group.
struct GroupAnswers {
    replies: Vec<Reply>,
    /// The tenants whose followers have something to read.
    grown: BTreeSet<TenantId>,
}

/// An answer and its caller.
enum Reply {
    Batch(Batch, AppendResult),
    Lease(AnswerSender<LeaseAnswer, LedgerError>, Result<LeaseAnswer, LedgerError>),
    Request(AnswerSender<RequestAnswer, LedgerError>, Result<RequestAnswer, LedgerError>),
}

impl Reply {
    fn give(self) {
        match self {
            Reply::Batch(batch, outcome) => batch.answer.give(outcome),
            Reply::Lease(answer, outcome) => answer.give(outcome),
            Reply::Request(answer, outcome) => answer.give(outcome),
        }
    }
}

/// The jobs of one transaction, and the results of its parts.
#[derive(Default)]
struct WriteGroup {
    /// Batches of one tenant that came together, in their order.
    rounds: Vec<(TenantId, Vec<Batch>)>,
    shares: Vec<RoundResult>,
    changes: Vec<(TenantId, LeaseChange, AnswerSender<LeaseAnswer, LedgerError>)>,
    changed: Vec<Result<LeaseAnswer, LedgerError>>,
    requests: Vec<(TenantId, RequestChange, Millis, AnswerSender<RequestAnswer, LedgerError>)>,
    answered: Vec<RequestAnswer>,
}

/// The result of one round.
struct RoundResult {
    outcomes: Vec<AppendResult>,
    /// The first id written, by which a broken commit can be recognised later.
    witness: Option<LedgerId>,
    /// A lease was released.
    has_released: bool,
    written: Vec<Arc<LineageNode>>,
}

impl WriteGroup {
    /// Writes the jobs that join the group. Leases come last, so that every writer locks logs before leases.
    fn write(
        &mut self,
        writer: &mut dyn Writer,
        mut group: JobGroup,
        queue: &mut JobQueue<'_>,
        memory: &mut WriterMemory<'_>,
    ) -> Result<(), LedgerError> {
        let only = group.tenant_id.clone();
        self.take(queue.joining(&mut group));
        let mut commit_start = None;
        let written = writer.transact(only.as_ref(), group.is_leases_only, &mut |transaction| {
            let mut heads = BTreeMap::new();
            (self.shares, self.changed, self.answered) = (Vec::new(), Vec::new(), Vec::new());
            loop {
                for (tenant, batches) in self.rounds.iter().skip(self.shares.len()) {
                    self.shares.push(write_round(transaction, tenant, batches, &mut heads, memory)?);
                }
                let joining = queue.joining(&mut group);
                if joining.is_empty() {
                    break;
                }
                self.take(joining);
            }
            for (tenant, change, now, _) in &self.requests {
                self.answered.push(accepted::apply(transaction, tenant, change, *now)?);
            }
            for (tenant, change, _) in &self.changes {
                self.changed.push(lease::apply(transaction, tenant, change)?);
            }
            commit_start = Some(Instant::now());
            Ok(())
        });
        // A failure does not show how long a commit takes, nor does a commit that is not synced.
        if let (Ok(()), Some(start), false) = (&written, commit_start, group.is_leases_only) {
            queue.committed(&group, start.elapsed());
        }
        match (written, only) {
            (Err(WriteFailure::Unknown(error)), Some(tenant)) => settle(writer, &tenant, &self.shares, error),
            (Err(WriteFailure::Nothing(error) | WriteFailure::Unknown(error)), _) => Err(error),
            (Ok(()), _) => Ok(()),
        }
    }

    fn take(&mut self, jobs: Vec<Job>) {
        let mut by_tenant: BTreeMap<TenantId, Vec<Batch>> = BTreeMap::new();
        for Job { tenant_id, task } in jobs {
            match task {
                JobTask::Append(batch) => by_tenant.entry(tenant_id).or_default().push(batch),
                JobTask::Lease(change, answer) => self.changes.push((tenant_id, change, answer)),
                JobTask::Request(change, now, answer) => {
                    self.requests.push((tenant_id, change, now, answer));
                }
            }
        }
        self.rounds.extend(by_tenant);
    }

    fn cache(&mut self, recent: &mut RecentEntries) {
        for ((tenant, _), share) in self.rounds.iter().zip(&mut self.shares) {
            recent.add(tenant, std::mem::take(&mut share.written));
        }
    }

    fn end(self, written: Result<(), LedgerError>) -> GroupAnswers {
        let WriteGroup { rounds, shares, changes, changed, requests, answered } = self;
        let (mut replies, mut grown) = (Vec::new(), BTreeSet::new());
        match written {
            Ok(()) => {
                for ((tenant, batches), share) in rounds.into_iter().zip(shares) {
                    if share.witness.is_some() || share.has_released {
                        grown.insert(tenant);
                    }
                    let pairs = batches.into_iter().zip(share.outcomes);
                    replies.extend(pairs.map(|(batch, outcome)| Reply::Batch(batch, outcome)));
                }
                let answers = requests.into_iter().map(|(.., answer)| answer).zip(answered);
                replies.extend(answers.map(|(answer, outcome)| Reply::Request(answer, Ok(outcome))));
                for ((tenant, change, answer), outcome) in changes.into_iter().zip(changed) {
                    if matches!(change, LeaseChange::Release { .. }) {
                        grown.insert(tenant);
                    }
                    replies.push(Reply::Lease(answer, outcome));
                }
            }
            Err(error) => {
                let batches = rounds.into_iter().flat_map(|(_, batches)| batches);
                replies.extend(batches.map(|batch| Reply::Batch(batch, Err(error.clone().into()))));
                let requests = requests.into_iter().map(|(.., answer)| answer);
                replies.extend(requests.map(|answer| Reply::Request(answer, Err(error.clone()))));
                let leases = changes.into_iter().map(|(_, _, answer)| answer);
                replies.extend(leases.map(|answer| Reply::Lease(answer, Err(error.clone()))));
            }
        }
        GroupAnswers { replies, grown }
    }
}

fn write_round(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    batches: &[Batch],
    heads: &mut BTreeMap<TenantId, Head>,
    memory: &mut WriterMemory<'_>,
) -> Result<RoundResult, LedgerError> {
    let names: BTreeSet<&Name> =
        batches.iter().filter_map(|batch| batch.fence.as_ref()).map(|fence| &fence.name).collect();
    let before = heads.remove(tenant);
    let is_first = before.is_none();
    let (head, leases) = match before {
        Some(head) if names.is_empty() => (head, Vec::new()),
        _ => transaction.locked(tenant, &names.into_iter().collect::<Vec<_>>())?,
    };
    // A server that was restored may lack entries that were written before.
    if is_first && !memory.is_as_left(&head) {
        memory.recent.forget(tenant);
        memory.rules.remove(tenant);
    }
    let lost: Vec<Option<LedgerError>> =
        batches.iter().map(|batch| lost_lease(batch.fence.as_ref()?, &leases)).collect();
    let held =
        || batches.iter().zip(&lost).map(|(batch, lost)| if lost.is_some() { &[] } else { &*batch.entries });
    let mut rules = memory.rules_of(&head);
    let mut needs = plan::needs(&rules, held().flatten());
    let mut cached = memory.recent.take(tenant, &mut needs);
    let mut known = transaction.known(&head, &needs)?;
    known.by_id.append(&mut cached.by_id);
    known.by_key.append(&mut cached.by_key);
    if let Some(marker) = known.recorded.get(LOG_RULES_KEY) {
        plan::see(&mut rules, &marker.entry);
        memory.remember_rules(tenant, rules);
    }
    let marker = if rules.has_second() { None } else { Some([marker()?]) };
    let marker = marker.as_ref().map(|marker| marker.as_slice());
    let held: Vec<&[PreparedEntry]> = marker.into_iter().chain(held()).collect();
    let AppendPlan { mut outcomes, rows, nodes, edges, tile_roots, head: after } =
        plan::plan(&head, rules, known, &held, memory.clock.dating(&head), &mut memory.ids);
    if marker.is_some() {
        outcomes.remove(0).map_err(AppendError::into_ledger)?;
    }
    for (outcome, lost) in outcomes.iter_mut().zip(lost) {
        if let Some(error) = lost {
            *outcome = Err(error.into());
        }
    }
    let released = released(batches, &outcomes);
    let has_released = !released.is_empty();
    let witness = rows.first().map(|row| row.entry.id.clone());
    if witness.is_some() {
        let leaves: Vec<Sha256> = rows.iter().map(|row| row.leaf).collect();
        let open = memory.open_leaves(&head);
        let mut source = TransactionHashes { transaction, head: &head, open: open.as_deref() };
        let tiles = complete_tiles(head.frontier.size(), &leaves, &tile_roots, &mut source)?;
        memory.remember(&after, open, &leaves);
        transaction.add(&Addition { rows, edges, tiles, head: after.clone() })?;
    }
    if has_released {
        transaction.drop_leases(tenant, &released)?;
    }
    let settled = settled(batches, &outcomes);
    if !settled.is_empty() {
        transaction.drop_requests(tenant, &settled)?;
    }
    heads.insert(tenant.clone(), after);
    Ok(RoundResult { outcomes, witness, has_released, written: nodes })
}

/// The leases that end with their batches.
fn released<'b>(batches: &'b [Batch], outcomes: &[AppendResult]) -> Vec<(&'b Name, LeaseToken)> {
    let written = batches.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok());
    let fences = written.filter_map(|(batch, _)| batch.fence.as_ref().filter(|fence| fence.is_last));
    fences.map(|fence| (&fence.name, fence.token)).collect()
}

/// The accepted requests that end with their batches.
fn settled<'b>(batches: &'b [Batch], outcomes: &[AppendResult]) -> Vec<&'b RequestName> {
    let written = batches.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok());
    written.filter_map(|(batch, _)| batch.settles.as_ref()).collect()
}

/// Why a batch may not be written, if its lease was lost.
fn lost_lease(fence: &Fence, leases: &[LeaseRow]) -> Option<LedgerError> {
    let row = leases.iter().find(|row| row.name == fence.name).cloned();
    lease::current(row, &fence.name, fence.token).err()
}

/// Finds out, by the first id written, whether a commit that broke in the middle took place. The log's
/// lock makes the question wait until the broken transaction has ended on the server.
fn settle(
    writer: &mut dyn Writer,
    tenant: &TenantId,
    shares: &[RoundResult],
    error: LedgerError,
) -> Result<(), LedgerError> {
    let Some(witness) = shares.iter().find_map(|share| share.witness.as_ref()) else {
        return Err(error);
    };
    for _ in 0..OUTCOME_QUESTIONS {
        let mut is_there = false;
        let asked = writer.transact(Some(tenant), false, &mut |transaction| {
            let head = transaction.locked_head(tenant)?;
            let ids = BTreeSet::from([witness.as_str().to_owned()]);
            let known = transaction.known(&head, &NeededEntries { ids, ..NeededEntries::default() })?;
            is_there = known.by_id.contains_key(witness.as_str());
            Ok(())
        });
        match asked {
            Ok(()) if is_there => return Ok(()),
            Ok(()) => return Err(error),
            Err(_) => {}
        }
    }
    let reason = error.to_string();
    match error {
        LedgerError::Failed { place, .. } => Err(LedgerError::OutcomeUnknown { place, reason }),
        other => Err(other),
    }
}

/// The state that a writing thread keeps between transactions.
struct WriterMemory<'a> {
    clock: &'a DatingClock,
    ids: IdSource,
    /// The right edge of each tenant's tree after the last write, and its leaves beyond the last whole tile.
    ends: BTreeMap<TenantId, (Frontier, Vec<Sha256>)>,
    recent: RecentEntries,
    /// Where the second rules begin in the older logs, once that was looked up.
    rules: BTreeMap<TenantId, RulesInForce>,
}

impl WriterMemory<'_> {
    fn rules_of(&self, head: &Head) -> RulesInForce {
        self.rules.get(&head.tenant_id).copied().unwrap_or_else(|| RulesInForce::of_origin(&head.origin))
    }

    fn remember_rules(&mut self, tenant: &TenantId, rules: RulesInForce) {
        if self.rules.len() >= MAX_ENDS {
            self.rules.clear();
        }
        self.rules.insert(tenant.clone(), rules);
    }

    /// The leaves that fill no tile yet, if the log is as this thread left it.
    fn open_leaves(&mut self, head: &Head) -> Option<Vec<Sha256>> {
        let end = if self.is_as_left(head) { self.ends.remove(&head.tenant_id) } else { None };
        end.map(|(_, open)| open)
    }

    /// Whether the log is as this thread left it.
    fn is_as_left(&self, head: &Head) -> bool {
        self.ends.get(&head.tenant_id).is_some_and(|(frontier, _)| *frontier == head.frontier)
    }

    /// A transaction that fails leaves another right edge in the log than here, and then this is not used.
    fn remember(&mut self, after: &Head, open: Option<Vec<Sha256>>, added: &[Sha256]) {
        let count = (after.frontier.size() % TILE_WIDTH) as usize;
        let before = if count > added.len() { open } else { Some(Vec::new()) };
        let Some(mut open) = before else { return };
        open.extend_from_slice(added);
        open.drain(..open.len().saturating_sub(count));
        if open.len() < count {
            return;
        }
        if self.ends.len() >= MAX_ENDS {
            self.ends.clear();
        }
        self.ends.insert(after.tenant_id.clone(), (after.frontier.clone(), open));
    }
}

/// The hashes a transaction sees, before its own are written.
pub(crate) struct TransactionHashes<'a, 'b> {
    pub transaction: &'a mut dyn Transaction,
    pub head: &'b Head,
    /// The leaves that fill no tile yet, if they are known.
    pub open: Option<&'b [Sha256]>,
}

impl TileSource for TransactionHashes<'_, '_> {
    type Error = LedgerError;

    fn row(&mut self, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        if let Some(open) = self.open
            && (level, open.len() as u64) == (0, count)
        {
            return Ok(open.to_vec());
        }
        self.transaction.hashes(self.head, level, from, count)
    }
}
