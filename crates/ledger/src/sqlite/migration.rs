//! Migrates a SQLite file; see `crate::migrate`. Its connection may change entries, which no other connection may.

use std::path::Path;

use crealeph_contracts::scalar::TenantId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::failure::{InFile as _, LedgerFile};
use super::rows::{CURRENT, SqliteRow};
use super::{Sqlite, connect, schema};
use crate::columns::read_node;
use crate::error::LedgerError;
use crate::migrate::{
    CHUNK, FilledEntry, FilledLog, MigratingLog, Migration, fillings, missing_classes, missing_parents,
};
use crate::position::MAX_SEQ;
use crate::reach::EffectiveTime;
use crate::row::{EntryClass, LineageNode};

/// A file that is migrated.
#[derive(Debug)]
pub(crate) struct SqliteMigration {
    connection: Connection,
    place: LedgerFile,
}

impl Sqlite {
    /// Opens a file to migrate it.
    pub(crate) fn migration(file: &Path, wait_ms: u64) -> Result<SqliteMigration, LedgerError> {
        let place = LedgerFile::new(file, wait_ms);
        std::fs::metadata(file).map_err(|error| place.io(&error))?;
        let connection = connect(file, &place, wait_ms, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::check(&connection, file, &place)?;
        let guarded = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false);
        guarded.in_file(&place)?;
        Ok(SqliteMigration { connection, place })
    }
}

impl SqliteMigration {
    /// Runs the work in a transaction that excludes every writer; on an error nothing of it is kept.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &LedgerFile) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let place = self.place.clone();
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.in_file(&place)?;
        let done = work(&transaction, &place)?;
        transaction.commit().in_file(&place)?;
        Ok(done)
    }
}

impl Migration for SqliteMigration {
    fn versions(&mut self) -> Result<(u32, u32), LedgerError> {
        Ok((schema::version(&self.connection, &self.place)?, schema::VERSION))
    }

    fn expand(&mut self) -> Result<(), LedgerError> {
        self.transact(|transaction, place| {
            let found = schema::version(transaction, place)?;
            for step in schema::STEPS.iter().skip(found as usize) {
                transaction.execute_batch(step).in_file(place)?;
            }
            let before = schema::STEPS.len() as u32;
            if found < before {
                transaction.pragma_update(None, "user_version", before).in_file(place)?;
            }
            let is_done =
                found >= schema::FILLED || transaction.table_exists(None, "migration").in_file(place)?;
            if !is_done {
                transaction.execute_batch(schema::EXPAND).in_file(place)?;
            }
            Ok(())
        })
    }

    fn logs(&mut self) -> Result<Vec<MigratingLog>, LedgerError> {
        let sql = "SELECT number, tenant, size FROM logs ORDER BY number";
        let mut statement = self.connection.prepare_cached(sql).in_file(&self.place)?;
        let mut found = statement.query([]).in_file(&self.place)?;
        let mut logs = Vec::new();
        while let Some(row) = found.next().in_file(&self.place)? {
            let tenant: String = row.get(1).in_file(&self.place)?;
            let tenant_id = TenantId::parse(&tenant)
                .map_err(|_| self.place.damaged("a tenant's name cannot be read back"))?;
            let size: i64 = row.get(2).in_file(&self.place)?;
            let size =
                u64::try_from(size).map_err(|_| self.place.damaged("the size of a log is negative"))?;
            logs.push(MigratingLog { tenant_id, number: row.get(0).in_file(&self.place)?, size });
        }
        Ok(logs)
    }

    fn fill(&mut self, log: &MigratingLog, memory: &mut FilledLog) -> Result<(u64, u64), LedgerError> {
        self.transact(|transaction, place| {
            if schema::version(transaction, place)? >= schema::FILLED {
                return Ok((0, log.size));
            }
            let sql = "SELECT done FROM migration WHERE log = ?1";
            let found: Option<i64> =
                transaction.query_row(sql, [log.number], |row| row.get(0)).optional().in_file(place)?;
            let done = found.unwrap_or_default();
            memory.check(done.unsigned_abs());
            let entries = unfilled(transaction, place, log, done)?;
            let parents = parents(transaction, place, log, &entries)?;
            for class in missing_classes(&entries, memory) {
                if let Some(newest) = newest(transaction, place, log, &class, done)? {
                    memory.newest.insert(class, newest);
                }
            }
            let filled = fillings(entries, parents, memory);
            let sql = "UPDATE entries SET newest = ?2, used = ?3 WHERE place = ?1";
            let mut update = transaction.prepare_cached(sql).in_file(place)?;
            for FilledEntry { seq, newest, used } in &filled {
                let row_id = (log.number << 40) | seq.as_i64();
                let values = params![row_id, newest.map(|seq| seq.as_i64()), used.to_bytes()];
                update.execute(values).in_file(place)?;
            }
            let last = filled.last().map_or(done, |filling| filling.seq.as_i64());
            let sql =
                "INSERT INTO migration (log, done) VALUES (?1, ?2) ON CONFLICT (log) DO UPDATE SET done = ?2";
            transaction.execute(sql, params![log.number, last]).in_file(place)?;
            memory.done = last.unsigned_abs();
            Ok((filled.len() as u64, memory.done))
        })
    }

    fn contract(&mut self) -> Result<bool, LedgerError> {
        self.transact(|transaction, place| {
            let found = schema::version(transaction, place)?;
            if found < schema::FILLED {
                let sql = "SELECT EXISTS (SELECT 1 FROM logs l LEFT JOIN migration m ON m.log = l.number \
                           WHERE l.size > coalesce(m.done, 0))";
                if transaction.query_row(sql, [], |row| row.get(0)).in_file(place)? {
                    return Ok(false);
                }
                transaction.execute_batch(schema::CONTRACT).in_file(place)?;
            }
            for step in schema::LATER.iter().skip(found.saturating_sub(schema::FILLED) as usize) {
                transaction.execute_batch(step).in_file(place)?;
            }
            transaction.pragma_update(None, "user_version", schema::VERSION).in_file(place)?;
            Ok(true)
        })
    }
}

/// The next entries after a sequence number.
fn unfilled(
    transaction: &Transaction<'_>,
    place: &LedgerFile,
    log: &MigratingLog,
    done: i64,
) -> Result<Vec<LineageNode>, LedgerError> {
    let node = &CURRENT.node;
    let sql =
        format!("SELECT {node} FROM entries WHERE place BETWEEN ?1 AND ?2 ORDER BY place LIMIT {CHUNK}");
    let mut statement = transaction.prepare_cached(&sql).in_file(place)?;
    let base = log.number << 40;
    let mut found = statement.query([base | (done + 1), base | MAX_SEQ as i64]).in_file(place)?;
    let mut entries = Vec::new();
    while let Some(row) = found.next().in_file(place)? {
        entries.push(read_node(&SqliteRow { row, place })?);
    }
    Ok(entries)
}

fn parents(
    transaction: &Transaction<'_>,
    place: &LedgerFile,
    log: &MigratingLog,
    entries: &[LineageNode],
) -> Result<Vec<LineageNode>, LedgerError> {
    let sql = format!("SELECT {} FROM entries WHERE log = ?1 AND id = ?2", CURRENT.node);
    let mut statement = transaction.prepare_cached(&sql).in_file(place)?;
    let mut nodes = Vec::new();
    for id in missing_parents(entries) {
        let mut found = statement.query(params![log.number, id.as_str()]).in_file(place)?;
        if let Some(row) = found.next().in_file(place)? {
            nodes.push(read_node(&SqliteRow { row, place })?);
        }
    }
    Ok(nodes)
}

/// The effective newest of a class up to a sequence number that is filled in.
fn newest(
    transaction: &Transaction<'_>,
    place: &LedgerFile,
    log: &MigratingLog,
    class: &EntryClass,
    done: i64,
) -> Result<Option<EffectiveTime>, LedgerError> {
    let base = log.number << 40;
    let sql = format!(
        "SELECT {} FROM entries WHERE place = (SELECT ?1 | newest FROM entries WHERE log = ?2 AND robot = ?3 \
         AND kind = ?4 AND state = ?5 AND place <= ?6 ORDER BY place DESC LIMIT 1)",
        CURRENT.node
    );
    let mut statement = transaction.prepare_cached(&sql).in_file(place)?;
    let EntryClass { robot, kind, state } = class;
    let values = params![base, log.number, robot, kind, state, base | done];
    let mut found = statement.query(values).in_file(place)?;
    let Some(row) = found.next().in_file(place)? else { return Ok(None) };
    read_node(&SqliteRow { row, place }).map(|node| Some(node.effective()))
}
