//! The writing thread: takes every batch that waits, judges them in one transaction and commits them together, so
//! that many callers share one durable commit. Only here is the clock read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{LedgerId, Name, TenantId};

use crate::clock::Clock;
use crate::error::{AppendError, LedgerError};
use crate::follow::Growth;
use crate::identity::IdSource;
use crate::lease::{self, Token};
use crate::merkle::{Frontier, TILE_WIDTH, TileSource, complete_tiles};
use crate::pending::{Answer, Outcome};
use crate::plan::{self, Plan, Prepared};
use crate::queue::Queue;
use crate::store::{Addition, Head, Transaction, Unwritten, Writer};

/// Of how many tenants a writing thread remembers the open end of the log.
const MAX_ENDS: usize = 256;
/// How often the outcome of a broken commit is asked for.
const OUTCOME_QUESTIONS: usize = 5;

/// A batch that waits.
#[derive(Debug)]
pub(crate) struct Job {
    pub tenant_id: TenantId,
    pub entries: Vec<Prepared>,
    pub fence: Option<Fence>,
    pub answer: Answer,
}

/// The lease that a batch is written under.
#[derive(Debug)]
pub(crate) struct Fence {
    pub name: Name,
    pub token: Token,
    /// It is released with the batch.
    pub is_last: bool,
}

impl Job {
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.content.payload.len() + 512).sum()
    }
}

/// Writes until every sender is gone.
pub(crate) fn run(mut writer: Box<dyn Writer>, jobs: &Receiver<Job>, clock: &Clock, growth: &Arc<Growth>) {
    let mut memory = Memory { clock, ids: IdSource::default(), ends: BTreeMap::new() };
    let mut queue = Queue::new(jobs);
    while let Some(group) = queue.next_group() {
        let mut by_tenant: BTreeMap<TenantId, Vec<Job>> = BTreeMap::new();
        for job in group {
            by_tenant.entry(job.tenant_id.clone()).or_default().push(job);
        }
        let tenants: Vec<(TenantId, Vec<Job>)> = by_tenant.into_iter().collect();
        let transactions = match writer.spans_tenants() {
            true => vec![tenants],
            false => tenants.into_iter().map(|of_one| vec![of_one]).collect(),
        };
        for of_one in transactions {
            let start = Instant::now();
            let Written { answers, grown } = write_together(writer.as_mut(), of_one, &mut memory);
            queue.committed(answers.len(), start.elapsed());
            for (job, outcome) in answers {
                job.answer.give(outcome);
            }
            if !grown.is_empty() {
                growth.announce(&grown);
                writer.announce(&grown);
            }
        }
    }
}

/// What one transaction came to.
struct Written {
    answers: Vec<(Job, Outcome)>,
    /// The tenants whose followers have something to look at.
    grown: Vec<TenantId>,
}

/// What one tenant's share of a transaction came to.
struct Share {
    outcomes: Vec<Outcome>,
    /// The first id written, by which a broken commit can be recognised later.
    witness: Option<LedgerId>,
    /// A lease was released.
    has_released: bool,
}

/// Writes in one transaction.
fn write_together(
    writer: &mut dyn Writer,
    tenants: Vec<(TenantId, Vec<Job>)>,
    memory: &mut Memory<'_>,
) -> Written {
    let mut shares = Vec::new();
    let only = match tenants.as_slice() {
        [(tenant, _)] => Some(tenant.clone()),
        _ => None,
    };
    let written = writer.transact(only.as_ref(), &mut |transaction| {
        shares.clear();
        for (tenant, jobs) in &tenants {
            shares.push(write_share(transaction, tenant, jobs, memory)?);
        }
        Ok(())
    });
    let written = match (written, only) {
        (Err(Unwritten::Unknown(error)), Some(tenant)) => settle(writer, &tenant, &shares, error),
        (Err(Unwritten::Nothing(error) | Unwritten::Unknown(error)), _) => Err(error),
        (Ok(()), _) => Ok(()),
    };
    let mut grown = Vec::new();
    let mut answers = Vec::new();
    match written {
        Ok(()) => {
            for ((tenant, jobs), share) in tenants.into_iter().zip(shares) {
                if share.witness.is_some() || share.has_released {
                    grown.push(tenant);
                }
                answers.extend(jobs.into_iter().zip(share.outcomes));
            }
        }
        Err(error) => {
            let jobs = tenants.into_iter().flat_map(|(_, jobs)| jobs);
            answers.extend(jobs.map(|job| (job, Err(AppendError::Ledger(error.clone())))));
        }
    }
    Written { answers, grown }
}

fn write_share(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    jobs: &[Job],
    memory: &mut Memory<'_>,
) -> Result<Share, LedgerError> {
    let head = transaction.locked_head(tenant)?;
    let lost = lost_leases(transaction, tenant, jobs)?;
    let held = || jobs.iter().zip(&lost).map(|(job, lost)| if lost.is_some() { &[] } else { &*job.entries });
    let needs = plan::needs(held().flatten());
    let known = transaction.known(&head, &needs)?;
    let batches: Vec<&[Prepared]> = held().collect();
    let Plan { mut outcomes, rows, edges, tile_roots, head: after } =
        plan::plan(&head, known, &batches, memory.clock.now(), &mut memory.ids)?;
    for (outcome, lost) in outcomes.iter_mut().zip(lost) {
        if let Some(error) = lost {
            *outcome = Err(error.into());
        }
    }
    let witness = rows.first().map(|row| row.stored.id.clone());
    if witness.is_some() {
        let leaves: Vec<Sha256> = rows.iter().map(|row| row.leaf).collect();
        let open = memory.open_leaves(&head);
        let mut source = InTransaction { transaction, head: &head, open: open.as_deref() };
        let tiles = complete_tiles(head.frontier.size(), &leaves, &tile_roots, &mut source)?;
        memory.remember(&after, open, &leaves);
        transaction.add(&Addition { rows, edges, tiles, head: after })?;
    }
    let mut has_released = false;
    for (job, outcome) in jobs.iter().zip(&outcomes) {
        if let Some(Fence { name, token, is_last: true }) = &job.fence
            && outcome.is_ok()
        {
            transaction.drop_lease(tenant, name, *token)?;
            has_released = true;
        }
    }
    Ok(Share { outcomes, witness, has_released })
}

/// For each batch, why it may not be written, where its lease is another's by now.
fn lost_leases(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    jobs: &[Job],
) -> Result<Vec<Option<LedgerError>>, LedgerError> {
    let mut lost = Vec::with_capacity(jobs.len());
    for job in jobs {
        lost.push(match &job.fence {
            Some(Fence { name, token, .. }) => {
                lease::current(transaction.lease(tenant, name)?, name, *token).err()
            }
            None => None,
        });
    }
    Ok(lost)
}

/// Finds out, by the first id written, whether a commit that broke in the middle took place after all. The log's
/// lock makes the question wait until the broken transaction has ended on the server.
fn settle(
    writer: &mut dyn Writer,
    tenant: &TenantId,
    shares: &[Share],
    error: LedgerError,
) -> Result<(), LedgerError> {
    let Some(witness) = shares.first().and_then(|share| share.witness.as_ref()) else {
        return Err(error);
    };
    for _ in 0..OUTCOME_QUESTIONS {
        let mut is_there = false;
        let asked = writer.transact(Some(tenant), &mut |transaction| {
            let head = transaction.locked_head(tenant)?;
            is_there = transaction.holds(&head, witness)?;
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

/// What a writing thread keeps between transactions.
struct Memory<'a> {
    clock: &'a Clock,
    ids: IdSource,
    /// The right edge of each tenant's tree after what was last written, and its leaves beyond the last whole tile.
    ends: BTreeMap<TenantId, (Frontier, Vec<Sha256>)>,
}

impl Memory<'_> {
    /// The leaves that fill no tile yet, where the log is as this thread left it.
    fn open_leaves(&mut self, head: &Head) -> Option<Vec<Sha256>> {
        let is_known = self.ends.get(&head.tenant_id).is_some_and(|(frontier, _)| *frontier == head.frontier);
        let end = if is_known { self.ends.remove(&head.tenant_id) } else { None };
        end.map(|(_, open)| open)
    }

    /// A transaction that fails leaves another right edge in the log than in here, and then this is not used.
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
pub(crate) struct InTransaction<'a, 'b> {
    pub transaction: &'a mut dyn Transaction,
    pub head: &'b Head,
    /// The leaves that fill no tile yet, where they are known.
    pub open: Option<&'b [Sha256]>,
}

impl TileSource for InTransaction<'_, '_> {
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
