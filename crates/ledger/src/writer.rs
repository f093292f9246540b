//! The writing thread: takes every batch that waits, judges them in one transaction and commits them together, so
//! that many callers share one durable commit. Only here is the clock read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError};

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{LedgerId, Name, TenantId};

use crate::clock::Clock;
use crate::error::{AppendError, LedgerError};
use crate::follow::Growth;
use crate::identity::IdSource;
use crate::lease::{self, Token};
use crate::merkle::{TileSource, complete_tiles};
use crate::pending::{Answer, Outcome};
use crate::plan::{self, Plan, Prepared};
use crate::store::{Addition, Head, Transaction, Unwritten, Writer};

/// Entries that one commit may hold at most; a single batch may hold more.
const GROUP_ENTRIES: usize = 4_096;
/// Payload bytes that one commit may hold at most; a single batch may hold more.
const GROUP_BYTES: usize = 16 << 20;
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
    fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.content.payload.len() + 512).sum()
    }
}

/// Writes until every sender is gone.
pub(crate) fn run(mut writer: Box<dyn Writer>, jobs: &Receiver<Job>, clock: &Clock, growth: &Arc<Growth>) {
    let mut ids = IdSource::default();
    let mut left_over = None;
    while let Ok(group) = next_group(jobs, &mut left_over) {
        let mut by_tenant: BTreeMap<TenantId, Vec<Job>> = BTreeMap::new();
        for job in group {
            by_tenant.entry(job.tenant_id.clone()).or_default().push(job);
        }
        let tenants: Vec<(TenantId, Vec<Job>)> = by_tenant.into_iter().collect();
        let grown = if writer.spans_tenants() {
            write_together(writer.as_mut(), tenants, clock, &mut ids)
        } else {
            let each = tenants.into_iter().map(|of_one| vec![of_one]);
            each.flat_map(|of_one| write_together(writer.as_mut(), of_one, clock, &mut ids)).collect()
        };
        if !grown.is_empty() {
            growth.announce(&grown);
            writer.announce(&grown);
        }
    }
}

fn next_group(jobs: &Receiver<Job>, left_over: &mut Option<Job>) -> Result<Vec<Job>, RecvError> {
    let first = match left_over.take() {
        Some(job) => job,
        None => jobs.recv()?,
    };
    let (mut entries, mut bytes) = (first.entries.len(), first.bytes());
    let mut group = vec![first];
    while let Ok(job) = jobs.try_recv() {
        entries += job.entries.len();
        bytes += job.bytes();
        if entries > GROUP_ENTRIES || bytes > GROUP_BYTES {
            *left_over = Some(job);
            break;
        }
        group.push(job);
    }
    Ok(group)
}

/// What one tenant's share of a transaction came to.
struct Share {
    outcomes: Vec<Outcome>,
    /// The first id written, by which a broken commit can be recognised later.
    witness: Option<LedgerId>,
    /// A lease was released.
    has_released: bool,
}

/// Writes in one transaction and answers everyone; returns the tenants whose logs have grown.
fn write_together(
    writer: &mut dyn Writer,
    tenants: Vec<(TenantId, Vec<Job>)>,
    clock: &Clock,
    ids: &mut IdSource,
) -> Vec<TenantId> {
    let mut shares = Vec::new();
    let only = match tenants.as_slice() {
        [(tenant, _)] => Some(tenant.clone()),
        _ => None,
    };
    let written = writer.transact(only.as_ref(), &mut |transaction| {
        shares.clear();
        for (tenant, jobs) in &tenants {
            shares.push(write_share(transaction, tenant, jobs, clock, ids)?);
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
    for (job, outcome) in answers {
        job.answer.give(outcome);
    }
    grown
}

fn write_share(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    jobs: &[Job],
    clock: &Clock,
    ids: &mut IdSource,
) -> Result<Share, LedgerError> {
    let head = transaction.locked_head(tenant)?;
    let lost = lost_leases(transaction, tenant, jobs)?;
    let held = || jobs.iter().zip(&lost).map(|(job, lost)| if lost.is_some() { &[] } else { &*job.entries });
    let needs = plan::needs(held().flatten());
    let known = transaction.known(&head, &needs)?;
    let batches: Vec<&[Prepared]> = held().collect();
    let Plan { mut outcomes, rows, edges, head: after } =
        plan::plan(&head, known, &batches, clock.now(), ids)?;
    for (outcome, lost) in outcomes.iter_mut().zip(lost) {
        if let Some(error) = lost {
            *outcome = Err(error.into());
        }
    }
    let witness = rows.first().map(|row| row.stored.id.clone());
    if witness.is_some() {
        let leaves: Vec<Sha256> = rows.iter().map(|row| row.leaf).collect();
        let mut source = InTransaction { transaction, head: &head };
        let tiles = complete_tiles(head.frontier.size(), &leaves, &mut source)?;
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

/// The hashes a transaction sees, before its own are written.
pub(crate) struct InTransaction<'a, 'b> {
    pub transaction: &'a mut dyn Transaction,
    pub head: &'b Head,
}

impl TileSource for InTransaction<'_, '_> {
    type Error = LedgerError;

    fn row(&mut self, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        self.transaction.hashes(self.head, level, from, count)
    }
}
