//! Bringing a SQLite file forward; see `crate::migrate`. Its connection may change entries, which no other of ours may.

use std::path::Path;

use crealeph_contracts::scalar::TenantId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::failure::LedgerFile;
use super::rows::{CURRENT, SqliteRow};
use super::{Sqlite, connect, schema};
use crate::columns::read_node;
use crate::error::LedgerError;
use crate::migrate::{
    CHUNK, Filled, Filling, MigratingLog, Migration, fillings, missing_classes, missing_parents,
};
use crate::position::MAX_SEQ;
use crate::reach::Effective;
use crate::row::{Class, LineageNode};

/// A file that is brought forward.
#[derive(Debug)]
pub(crate) struct SqliteMigration {
    connection: Connection,
    place: LedgerFile,
}

impl Sqlite {
    /// Opens a file to bring it forward.
    pub(crate) fn migration(file: &Path, wait_ms: u64) -> Result<SqliteMigration, LedgerError> {
        let place = LedgerFile::new(file, wait_ms);
        std::fs::metadata(file).map_err(|error| place.io(&error))?;
        let connection = connect(file, &place, wait_ms, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::check(&connection, file, &place)?;
        let guarded = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false);
        guarded.map_err(|error| place.failure(&error))?;
        Ok(SqliteMigration { connection, place })
    }
}

impl SqliteMigration {
    /// Runs the work in a transaction that excludes every writer. It is given back where the work says that it did nothing.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &LedgerFile) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let place = self.place.clone();
        let failed = |error| place.failure(&error);
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(failed)?;
        let done = work(&transaction, &place)?;
        transaction.commit().map_err(failed)?;
        Ok(done)
    }
}

impl Migration for SqliteMigration {
    fn versions(&mut self) -> Result<(u32, u32), LedgerError> {
        Ok((schema::version(&self.connection, &self.place)?, schema::VERSION))
    }

    fn expand(&mut self) -> Result<(), LedgerError> {
        self.transact(|transaction, place| {
            let failed = |error| place.failure(&error);
            let found = schema::version(transaction, place)?;
            for step in schema::STEPS.iter().skip(found as usize) {
                transaction.execute_batch(step).map_err(failed)?;
            }
            let before = schema::STEPS.len() as u32;
            if found < before {
                transaction.pragma_update(None, "user_version", before).map_err(failed)?;
            }
            let is_done =
                found == schema::VERSION || transaction.table_exists(None, "migration").map_err(failed)?;
            if !is_done {
                transaction.execute_batch(schema::EXPAND).map_err(failed)?;
            }
            Ok(())
        })
    }

    fn logs(&mut self) -> Result<Vec<MigratingLog>, LedgerError> {
        let failed = |error| self.place.failure(&error);
        let sql = "SELECT number, tenant, size FROM logs ORDER BY number";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut found = statement.query([]).map_err(failed)?;
        let mut logs = Vec::new();
        while let Some(row) = found.next().map_err(failed)? {
            let tenant: String = row.get(1).map_err(failed)?;
            let tenant_id = TenantId::parse(&tenant)
                .map_err(|_| self.place.damaged("a tenant's name cannot be read back"))?;
            let size: i64 = row.get(2).map_err(failed)?;
            let size =
                u64::try_from(size).map_err(|_| self.place.damaged("the size of a log is negative"))?;
            logs.push(MigratingLog { tenant_id, number: row.get(0).map_err(failed)?, size });
        }
        Ok(logs)
    }

    fn fill(&mut self, log: &MigratingLog, memory: &mut Filled) -> Result<(u64, u64), LedgerError> {
        self.transact(|transaction, place| {
            if schema::version(transaction, place)? == schema::VERSION {
                return Ok((0, log.size));
            }
            let failed = |error| place.failure(&error);
            let sql = "SELECT done FROM migration WHERE log = ?1";
            let found: Option<i64> =
                transaction.query_row(sql, [log.number], |row| row.get(0)).optional().map_err(failed)?;
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
            let mut update = transaction.prepare_cached(sql).map_err(failed)?;
            for Filling { seq, newest, used } in &filled {
                let place = (log.number << 40) | seq.as_i64();
                update
                    .execute(params![place, newest.map(|seq| seq.as_i64()), used.to_bytes()])
                    .map_err(failed)?;
            }
            let last = filled.last().map_or(done, |filling| filling.seq.as_i64());
            let sql =
                "INSERT INTO migration (log, done) VALUES (?1, ?2) ON CONFLICT (log) DO UPDATE SET done = ?2";
            transaction.execute(sql, params![log.number, last]).map_err(failed)?;
            memory.done = last.unsigned_abs();
            Ok((filled.len() as u64, memory.done))
        })
    }

    fn contract(&mut self) -> Result<bool, LedgerError> {
        self.transact(|transaction, place| {
            let failed = |error| place.failure(&error);
            if schema::version(transaction, place)? == schema::VERSION {
                return Ok(true);
            }
            let sql = "SELECT EXISTS (SELECT 1 FROM logs l LEFT JOIN migration m ON m.log = l.number \
                       WHERE l.size > coalesce(m.done, 0))";
            if transaction.query_row(sql, [], |row| row.get(0)).map_err(failed)? {
                return Ok(false);
            }
            transaction.execute_batch(schema::CONTRACT).map_err(failed)?;
            transaction.pragma_update(None, "user_version", schema::VERSION).map_err(failed)?;
            Ok(true)
        })
    }
}

/// The next entries after a place.
fn unfilled(
    transaction: &Transaction<'_>,
    place: &LedgerFile,
    log: &MigratingLog,
    done: i64,
) -> Result<Vec<LineageNode>, LedgerError> {
    let failed = |error| place.failure(&error);
    let node = &CURRENT.node;
    let sql =
        format!("SELECT {node} FROM entries WHERE place BETWEEN ?1 AND ?2 ORDER BY place LIMIT {CHUNK}");
    let mut statement = transaction.prepare_cached(&sql).map_err(failed)?;
    let base = log.number << 40;
    let mut found = statement.query([base | (done + 1), base | MAX_SEQ as i64]).map_err(failed)?;
    let mut entries = Vec::new();
    while let Some(row) = found.next().map_err(failed)? {
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
    let failed = |error| place.failure(&error);
    let sql = format!("SELECT {} FROM entries WHERE log = ?1 AND id = ?2", CURRENT.node);
    let mut statement = transaction.prepare_cached(&sql).map_err(failed)?;
    let mut nodes = Vec::new();
    for id in missing_parents(entries) {
        let mut found = statement.query(params![log.number, id.as_str()]).map_err(failed)?;
        if let Some(row) = found.next().map_err(failed)? {
            nodes.push(read_node(&SqliteRow { row, place })?);
        }
    }
    Ok(nodes)
}

/// The effective newest of a class up to a place that is filled in.
fn newest(
    transaction: &Transaction<'_>,
    place: &LedgerFile,
    log: &MigratingLog,
    class: &Class,
    done: i64,
) -> Result<Option<Effective>, LedgerError> {
    let failed = |error| place.failure(&error);
    let base = log.number << 40;
    let sql = format!(
        "SELECT {} FROM entries WHERE place = (SELECT ?1 | newest FROM entries WHERE log = ?2 AND robot = ?3 \
         AND kind = ?4 AND state = ?5 AND place <= ?6 ORDER BY place DESC LIMIT 1)",
        CURRENT.node
    );
    let mut statement = transaction.prepare_cached(&sql).map_err(failed)?;
    let Class { robot, kind, state } = class;
    let values = params![base, log.number, robot, kind, state, base | done];
    let mut found = statement.query(values).map_err(failed)?;
    let Some(row) = found.next().map_err(failed)? else { return Ok(None) };
    read_node(&SqliteRow { row, place }).map(|node| Some(node.effective()))
}
