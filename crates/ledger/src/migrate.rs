//! Migrates a ledger of an earlier version. New columns are filled in entry by entry, in transactions of bounded
//! size, so that a migration can be killed at any moment and resumed; the new version is only written at the end.
//!
//! Processes of the earlier version may keep running meanwhile: their entries are filled in as well. After the last step
//! they can no longer write.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crealeph_contracts::scalar::{LedgerId, TenantId};
use tracing::info_span;

use crate::error::LedgerError;
use crate::ledger::{Ledger, LedgerOptions, Location};
use crate::position::Seq;
use crate::postgresql::Postgres;
use crate::reach::{EffectiveReach, EffectiveTime};
use crate::row::{EntryClass, LineageNode};
use crate::sqlite::Sqlite;

/// Entries filled in by one transaction.
pub(crate) const CHUNK: u64 = 2_000;
/// How many classes' newest entries are remembered between transactions.
const MAX_CLASSES: usize = 100_000;

/// The progress of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationProgress {
    /// The tenant whose log is filled in.
    pub tenant_id: TenantId,
    /// Entries that are done.
    pub done: u64,
    /// Entries of the log.
    pub size: u64,
}

/// What a migration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationSummary {
    /// The version that was found.
    pub from: u32,
    /// The version it has now.
    pub to: u32,
    /// Entries that were filled in.
    pub entries: u64,
}

/// A log that is migrated.
#[derive(Clone, Debug)]
pub(crate) struct MigratingLog {
    pub tenant_id: TenantId,
    /// The backend's own number for it.
    pub number: i64,
    pub size: u64,
}

/// What a backend does for a migration.
pub(crate) trait Migration {
    /// The version that was found, and the target version.
    fn versions(&mut self) -> Result<(u32, u32), LedgerError>;
    /// Adds the new parts of the schema, unless that was already done.
    fn expand(&mut self) -> Result<(), LedgerError>;
    /// The logs there are.
    fn logs(&mut self) -> Result<Vec<MigratingLog>, LedgerError>;
    /// Fills in the next entries of a log in one transaction: how many, and the last entry that is done.
    fn fill(&mut self, log: &MigratingLog, memory: &mut FilledLog) -> Result<(u64, u64), LedgerError>;
    /// Ends the migration, unless a log has entries that are not filled in; returns whether it has ended.
    fn contract(&mut self) -> Result<bool, LedgerError>;
}

/// The values filled in for a log so far, as far as the next entries need them.
#[derive(Debug, Default)]
pub(crate) struct FilledLog {
    /// The last entry that this process filled in.
    pub done: u64,
    pub newest: BTreeMap<EntryClass, EffectiveTime>,
}

impl FilledLog {
    /// Forgets values that may be outdated, because another process has continued with the log, and values that are too many.
    pub(crate) fn check(&mut self, done: u64) {
        if self.done != done || self.newest.len() > MAX_CLASSES {
            self.newest.clear();
        }
    }
}

/// The values to fill in for an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FilledEntry {
    pub seq: Seq,
    pub newest: Option<Seq>,
    pub used: EffectiveReach,
}

/// The ids that entries depend on and that are not among them.
pub(crate) fn missing_parents(entries: &[LineageNode]) -> Vec<LedgerId> {
    let own: BTreeSet<&LedgerId> = entries.iter().map(|entry| &entry.id).collect();
    let parents: BTreeSet<&LedgerId> =
        entries.iter().flat_map(|entry| &entry.depends_on).filter(|id| !own.contains(id)).collect();
    parents.into_iter().cloned().collect()
}

/// The classes of entries that are not remembered.
pub(crate) fn missing_classes(entries: &[LineageNode], memory: &FilledLog) -> Vec<EntryClass> {
    let classes: BTreeSet<EntryClass> = entries.iter().filter_map(LineageNode::class).collect();
    classes.into_iter().filter(|class| !memory.newest.contains_key(class)).collect()
}

/// The values for entries, from their dependencies and the newest entries before them. In their order.
pub(crate) fn fillings(
    entries: Vec<LineageNode>,
    parents: Vec<LineageNode>,
    memory: &mut FilledLog,
) -> Vec<FilledEntry> {
    let mut known: HashMap<LedgerId, LineageNode> =
        parents.into_iter().map(|node| (node.id.clone(), node)).collect();
    let mut all = Vec::with_capacity(entries.len());
    for mut entry in entries {
        let mut used = EffectiveReach::default();
        let parents = entry.depends_on.iter().filter_map(|id| known.get(id));
        for parent in parents.filter(|parent| parent.robot_id == entry.robot_id) {
            used.extend(&parent.kind, parent.effective(), &parent.used);
        }
        let newest = entry.class().map(|class| {
            let newest = entry.effective().max_of(memory.newest.get(&class).copied());
            memory.newest.insert(class, newest);
            newest.seq
        });
        entry.used = used.clone();
        all.push(FilledEntry { seq: entry.seq, newest, used });
        known.insert(entry.id.clone(), entry);
    }
    all
}

impl Ledger {
    /// Migrates a ledger of an earlier version, as its owner, and reports its progress; a ledger of this version stays as
    /// it is.
    pub fn migrate(
        location: &Location,
        options: &LedgerOptions,
        mut report: impl FnMut(&MigrationProgress),
    ) -> Result<MigrationSummary, LedgerError> {
        let wait_ms = options.limits.wait_ms;
        let mut migration: Box<dyn Migration> = match location {
            Location::File(file) => Box::new(Sqlite::migration(file, wait_ms)?),
            Location::Postgres(url) => Box::new(Postgres::migration(url, wait_ms)?),
        };
        let (from, to) = migration.versions()?;
        let _span = info_span!("migrate", from, to).entered();
        let mut migrated = MigrationSummary { from, to, entries: 0 };
        if from == to {
            return Ok(migrated);
        }
        migration.expand()?;
        loop {
            for log in migration.logs()? {
                let mut memory = FilledLog::default();
                loop {
                    let (filled, done) = migration.fill(&log, &mut memory)?;
                    migrated.entries += filled;
                    if filled == 0 {
                        break;
                    }
                    let size = log.size.max(done);
                    report(&MigrationProgress { tenant_id: log.tenant_id.clone(), done, size });
                }
            }
            // Another process may have appended since the logs were filled in.
            if migration.contract()? {
                return Ok(migrated);
            }
        }
    }
}
