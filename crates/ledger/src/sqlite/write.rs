//! The SQLite writer: one immediate transaction for a whole group, durable when it returns.

use std::sync::Arc;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::log_rules::new_origin;
use crealeph_contracts::scalar::{ExecutionId, Name, TenantId};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{CachedStatement, Connection, params};

use super::accepted::StoredRequests;
use super::boot;
use super::failure::{InFile as _, LedgerFile};
use super::file::OpenFiles;
use super::leases::TenantLeases;
use super::read::stored_hashes;
use super::rows::{self, CURRENT, HEAD, SqliteRow, row_id};
use super::{processes, schema, subscriptions};
use crate::accepted::{AcceptedRequest, RequestName, RequestOutcome, RequestToAccept};
use crate::columns::{Column, ColumnValue, ENTRY_COLUMNS, SelectLists, read_entry, read_node};
use crate::error::LedgerError;
use crate::identity::random_name;
use crate::lease::LeaseToken;
use crate::merkle::Frontier;
use crate::position::{Millis, Seq};
use crate::processes::ProcessRow;
use crate::reach::EffectiveTime;
use crate::read::StoredCheckpoint;
use crate::row::{EntryClass, EntryRow, EventIdentity, ExecutionKey, LineageNode, not_an_event};
use crate::store::{
    Addition, ClaimResult, Head, KnownEntries, LeaseRequest, LeaseRow, NeededEntries, Transaction,
    TransactionWork, WriteFailure, Writer,
};
use crate::subscription::{Subscription, SubscriptionProgress};

#[derive(Debug)]
pub(super) struct SqliteWriter {
    connection: Connection,
    in_use: OpenFiles,
    place: LedgerFile,
    is_synced: bool,
}

impl SqliteWriter {
    pub(super) fn new(
        mut connection: Connection,
        in_use: OpenFiles,
        place: LedgerFile,
    ) -> Result<SqliteWriter, LedgerError> {
        let guarded = connection
            .authorizer(Some(permits))
            .and_then(|()| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false));
        guarded.in_file(&place)?;
        let mut writer = SqliteWriter { connection, in_use, place, is_synced: false };
        writer.set_synced(true)?;
        Ok(writer)
    }

    /// Whether a commit is on disk when it returns, or only in the system's cache.
    fn set_synced(&mut self, is_synced: bool) -> Result<(), LedgerError> {
        if self.is_synced != is_synced {
            let synchronous = if is_synced { "FULL" } else { "NORMAL" };
            let set = self.connection.pragma_update(None, "synchronous", synchronous);
            set.in_file(&self.place)?;
            self.is_synced = is_synced;
        }
        Ok(())
    }
}

impl Writer for SqliteWriter {
    /// The holder of a lease runs on this machine, so a power cut ends the holder with the lease.
    fn transact(
        &mut self,
        _: Option<&TenantId>,
        is_leases_only: bool,
        work: TransactionWork<'_>,
    ) -> Result<(), WriteFailure> {
        self.set_synced(!is_leases_only).map_err(WriteFailure::Nothing)?;
        let nothing = |error: rusqlite::Error| WriteFailure::Nothing(self.place.failure(&error));
        execute(&self.connection, "BEGIN IMMEDIATE").map_err(nothing)?;
        let mut transaction = SqliteTransaction { connection: &self.connection, place: &self.place };
        let done = check_version(&self.connection, &self.place)
            .and_then(|()| work(&mut transaction))
            .and_then(|()| execute(&self.connection, "COMMIT").in_file(&self.place))
            .and_then(|()| self.in_use.check(&self.place));
        done.map_err(|error| {
            // A failed statement may have ended the transaction already; then there is nothing to roll back.
            let _ = self.connection.execute_batch("ROLLBACK");
            WriteFailure::Nothing(error)
        })
    }

    fn is_remote(&self) -> bool {
        false
    }

    /// Other processes see the file's data version change; there is nothing to send.
    fn announce(&mut self, _: &[TenantId]) {}
}

/// Refuses a file that was not migrated, or that another process migrated to a later version.
fn check_version(connection: &Connection, place: &LedgerFile) -> Result<(), LedgerError> {
    match schema::version(connection, place)? {
        schema::VERSION => Ok(()),
        found => Err(place.outdated(found)),
    }
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

/// What the writing connection may do, checked once, when a statement is compiled: insert into a log, move its head, keep leases.
/// The file's triggers check every row of all other connections, which costs as much as inserting it.
fn permits(context: AuthContext<'_>) -> Authorization {
    let is_permitted = match context.action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Transaction { .. }
        | AuthAction::Pragma { .. }
        | AuthAction::Insert { .. } => true,
        AuthAction::Update { table_name, column_name } => match table_name {
            "logs" => ["size", "last_at", "peaks"].contains(&column_name),
            other => ["leases", "lease_tokens", "subscriptions", "accepted", "processes"].contains(&other),
        },
        AuthAction::Delete { table_name } => {
            ["leases", "subscriptions", "accepted", "processes"].contains(&table_name)
        }
        _ => false,
    };
    if is_permitted { Authorization::Allow } else { Authorization::Deny }
}

struct SqliteTransaction<'a> {
    connection: &'a Connection,
    place: &'a LedgerFile,
}

impl SqliteTransaction<'_> {
    fn leases<'t>(&'t self, tenant: &'t TenantId) -> TenantLeases<'t> {
        TenantLeases { connection: self.connection, place: self.place, tenant }
    }

    fn requests(&self) -> StoredRequests<'_> {
        StoredRequests { connection: self.connection, place: self.place }
    }

    fn find_head(&self, tenant: &TenantId) -> Result<Option<Head>, LedgerError> {
        let sql = format!("SELECT {HEAD} FROM logs WHERE tenant = ?1");
        let mut statement = self.connection.prepare_cached(&sql).in_file(self.place)?;
        let mut found = statement.query([tenant.as_str()]).in_file(self.place)?;
        let row = found.next().in_file(self.place)?;
        row.map(|row| rows::head(row, self.place)).transpose()
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, LedgerError> {
        self.connection.prepare_cached(sql).in_file(self.place)
    }

    fn row(
        &self,
        head: &Head,
        statement: &mut CachedStatement<'_>,
        values: impl rusqlite::Params,
    ) -> Result<Option<EntryRow>, LedgerError> {
        let mut found = statement.query(values).in_file(self.place)?;
        let row = found.next().in_file(self.place)?;
        row.map(|row| read_entry(&SqliteRow { row, place: self.place }, &head.tenant_id)).transpose()
    }

    fn node(
        &self,
        statement: &mut CachedStatement<'_>,
        values: impl rusqlite::Params,
    ) -> Result<Option<LineageNode>, LedgerError> {
        let mut found = statement.query(values).in_file(self.place)?;
        let row = found.next().in_file(self.place)?;
        row.map(|row| read_node(&SqliteRow { row, place: self.place })).transpose()
    }

    fn event(&self, head: &Head, event: &EventIdentity) -> Result<Option<EntryRow>, LedgerError> {
        let sql = format!(
            "SELECT {} FROM entries WHERE log = ?1 AND execution = ?2 AND robot = ?3 AND attempt = ?4 AND state = ?5",
            CURRENT.entry
        );
        let EventIdentity { execution, robot, attempt, state } = event;
        let values = params![head.number, execution, robot, *attempt as i64, state.as_str()];
        self.row(head, &mut self.prepare(&sql)?, values)
    }

    /// The newest event of an execution: an attempt never goes down (R9), and within one the last place is the newest.
    fn last_event(&self, head: &Head, execution: &ExecutionKey) -> Result<Option<EntryRow>, LedgerError> {
        let of = "log = ?1 AND execution = ?2 AND robot = ?3 AND attempt IS NOT NULL";
        let sql = format!(
            "SELECT {} FROM entries INDEXED BY events WHERE {of} AND attempt = \
             (SELECT max(attempt) FROM entries INDEXED BY events WHERE {of}) ORDER BY place DESC LIMIT 1",
            CURRENT.entry
        );
        let ExecutionKey { execution, robot } = execution;
        self.row(head, &mut self.prepare(&sql)?, params![head.number, execution, robot])
    }

    /// The identity that an event was found by.
    fn stored_identity(&self, row: &EntryRow) -> Result<EventIdentity, LedgerError> {
        let seq = row.entry.seq;
        row.event_identity().ok_or_else(|| self.place.damaged_entry(seq, not_an_event(seq)))
    }

    /// The effective newest entry of a class.
    fn newest(&self, head: &Head, class: &EntryClass) -> Result<Option<EffectiveTime>, LedgerError> {
        let sql = format!(
            "SELECT {} FROM entries WHERE place = (SELECT ?1 | newest FROM entries WHERE log = ?2 AND robot = ?3 \
             AND kind = ?4 AND state = ?5 ORDER BY place DESC LIMIT 1)",
            CURRENT.node
        );
        let EntryClass { robot, kind, state } = class;
        let values = params![row_id(head, Seq::ZERO), head.number, robot, kind, state];
        Ok(self.node(&mut self.prepare(&sql)?, values)?.map(|node| node.effective()))
    }

    fn has_execution_after(
        &self,
        head: &Head,
        execution: &ExecutionId,
        after: Seq,
    ) -> rusqlite::Result<bool> {
        let sql = "SELECT 1 FROM entries WHERE log = ?1 AND execution = ?2 AND place > ?3 LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.exists(params![head.number, execution.as_str(), row_id(head, after)])
    }

    fn insert_rows(&self, addition: &Addition) -> rusqlite::Result<()> {
        let names: Vec<&str> = ENTRY_COLUMNS.iter().map(|column| column.name).collect();
        let values = ", ?".repeat(names.len());
        let sql = format!("INSERT INTO entries (log, place, {}) VALUES (?, ?{values})", names.join(", "));
        let mut insert = self.connection.prepare_cached(&sql)?;
        for row in &addition.rows {
            insert.raw_bind_parameter(1, addition.head.number)?;
            insert.raw_bind_parameter(2, row_id(&addition.head, row.entry.seq))?;
            for (Column { value, .. }, position) in ENTRY_COLUMNS.iter().zip(3..) {
                match value {
                    ColumnValue::Text(value) => insert.raw_bind_parameter(position, value(row)),
                    ColumnValue::Number(value) => insert.raw_bind_parameter(position, value(row)),
                    ColumnValue::Bytes(value) => insert.raw_bind_parameter(position, value(row)),
                }?;
            }
            insert.raw_execute()?;
        }
        Ok(())
    }

    fn insert_around(&self, addition: &Addition) -> rusqlite::Result<()> {
        let head = &addition.head;
        let mut edge = self.connection.prepare_cached("INSERT INTO edges (parent, child) VALUES (?1, ?2)")?;
        for (parent, child) in &addition.edges {
            edge.execute([row_id(head, *parent), row_id(head, *child)])?;
        }
        let sql = "INSERT INTO tiles (log, level, number, root, hashes) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut tile = self.connection.prepare_cached(sql)?;
        for whole in &addition.tiles {
            let values = params![
                head.number,
                whole.level,
                whole.index as i64,
                whole.root.as_bytes(),
                whole.to_bytes()
            ];
            tile.execute(values)?;
        }
        let sql = "UPDATE logs SET size = ?2, last_at = ?3, peaks = ?4 WHERE number = ?1 AND size < ?2 AND last_at <= ?3";
        let mut log = self.connection.prepare_cached(sql)?;
        let size = head.frontier.size() as i64;
        match log.execute(params![head.number, size, head.last_at.get(), head.frontier.to_bytes()])? {
            1 => Ok(()),
            moved => Err(rusqlite::Error::StatementChangedRows(moved)),
        }
    }
}

impl Transaction for SqliteTransaction<'_> {
    fn locked(&mut self, tenant: &TenantId, leases: &[&Name]) -> Result<(Head, Vec<LeaseRow>), LedgerError> {
        let head = match self.find_head(tenant)? {
            Some(head) => head,
            None => self.create_head(tenant, &new_origin(&random_name()?))?,
        };
        let mut found = Vec::new();
        for name in leases {
            found.extend(self.lease(tenant, name)?);
        }
        Ok((head, found))
    }

    fn create_head(&mut self, tenant: &TenantId, origin: &str) -> Result<Head, LedgerError> {
        let frontier = Frontier::default();
        let sql = "INSERT INTO logs (tenant, origin, size, last_at, peaks) VALUES (?1, ?2, 0, ?3, x'')";
        let last_at = Millis::default();
        let made = self.connection.execute(sql, params![tenant.as_str(), origin, last_at.get()]);
        made.in_file(self.place)?;
        let number = self.connection.last_insert_rowid();
        Ok(Head {
            tenant_id: tenant.clone(),
            number,
            origin: origin.to_owned(),
            last_at,
            read_at: None,
            frontier,
        })
    }

    fn known(&mut self, head: &Head, needs: &NeededEntries) -> Result<KnownEntries, LedgerError> {
        let mut known = KnownEntries::default();
        let SelectLists { entry, node } = &*CURRENT;
        let mut by_id = self.prepare(&format!("SELECT {node} FROM entries WHERE log = ?1 AND id = ?2"))?;
        for id in &needs.ids {
            if let Some(node) = self.node(&mut by_id, params![head.number, id])? {
                known.by_id.insert(id.clone(), Arc::new(node));
            }
        }
        let mut by_key = self.prepare(&format!("SELECT {node} FROM entries WHERE log = ?1 AND key = ?2"))?;
        for key in &needs.lineage_keys {
            if let Some(node) = self.node(&mut by_key, params![head.number, key])? {
                known.by_key.insert(key.clone(), Arc::new(node));
            }
        }
        let mut by_key = self.prepare(&format!("SELECT {entry} FROM entries WHERE log = ?1 AND key = ?2"))?;
        for key in &needs.new_keys {
            if let Some(row) = self.row(head, &mut by_key, params![head.number, key])? {
                known.recorded.insert(key.clone(), row);
            }
        }
        for event in &needs.events {
            if let Some(row) = self.event(head, event)? {
                known.events.insert(event.clone(), row);
            }
        }
        for execution in &needs.executions {
            if let Some(row) = self.last_event(head, execution)? {
                known.last_events.insert(execution.clone(), self.stored_identity(&row)?);
            }
        }
        for class in &needs.classes {
            if let Some(newest) = self.newest(head, class)? {
                known.newest.insert(class.clone(), newest);
            }
        }
        Ok(known)
    }

    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        stored_hashes(self.connection, self.place, head, level, from, count)
    }

    fn add(&mut self, addition: &Addition) -> Result<(), LedgerError> {
        self.insert_rows(addition).and_then(|()| self.insert_around(addition)).in_file(self.place)
    }

    fn add_checkpoint(&mut self, head: &Head, checkpoint: &StoredCheckpoint) -> Result<(), LedgerError> {
        let sql = "INSERT OR IGNORE INTO checkpoints (log, size, root, note) VALUES (?1, ?2, ?3, ?4)";
        let StoredCheckpoint { size, root, note } = checkpoint;
        let values = params![head.number, *size as i64, root.as_bytes(), note];
        self.connection.execute(sql, values).map(|_| ()).in_file(self.place)
    }

    fn lease_time(&mut self) -> Result<Millis, LedgerError> {
        Ok(boot::now())
    }

    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError> {
        self.leases(tenant).find(name)
    }

    fn claim_lease(&mut self, tenant: &TenantId, request: &LeaseRequest) -> Result<ClaimResult, LedgerError> {
        if let Some((execution, after)) = &request.unless
            && let Some(head) = self.find_head(tenant)?
            && self.has_execution_after(&head, execution, *after).in_file(self.place)?
        {
            return Ok(ClaimResult::Overtaken);
        }
        if let Some(holder) = self.lease(tenant, &request.name)?.and_then(|row| row.holder_at(boot::now())) {
            return Ok(ClaimResult::Held(holder));
        }
        self.leases(tenant).take(request).map(ClaimResult::Taken)
    }

    fn extend_lease(&mut self, tenant: &TenantId, lease: &LeaseRow) -> Result<(), LedgerError> {
        self.leases(tenant).put(lease)
    }

    fn drop_leases(&mut self, tenant: &TenantId, leases: &[(&Name, LeaseToken)]) -> Result<(), LedgerError> {
        leases.iter().try_for_each(|(name, token)| self.leases(tenant).remove(name, *token))
    }

    fn request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
    ) -> Result<Option<AcceptedRequest>, LedgerError> {
        self.requests().find(tenant, name)
    }

    fn open_requests(
        &mut self,
        tenant: &TenantId,
        per_tenant: u64,
        total: u64,
    ) -> Result<(u64, u64), LedgerError> {
        self.requests().open(tenant, per_tenant, total)
    }

    fn put_request(
        &mut self,
        tenant: &TenantId,
        request: &RequestToAccept,
        now: Millis,
    ) -> Result<LeaseToken, LedgerError> {
        let number = self.leases(tenant).next_token()?;
        self.requests().put(tenant, number, request, now)?;
        Ok(number)
    }

    fn count_request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
        tries: u64,
    ) -> Result<(), LedgerError> {
        self.requests().count(tenant, name, tries)
    }

    fn end_request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
        outcome: &RequestOutcome,
        now: Millis,
    ) -> Result<(), LedgerError> {
        self.requests().end(tenant, name, outcome, now)
    }

    fn drop_requests(&mut self, tenant: &TenantId, names: &[&RequestName]) -> Result<(), LedgerError> {
        names.iter().try_for_each(|name| self.requests().remove(tenant, name))
    }

    fn sweep_requests(&mut self, tenant: &TenantId, before: Millis) -> Result<(), LedgerError> {
        self.requests().sweep(tenant, before)
    }

    fn locked_processes(&mut self) -> Result<Vec<ProcessRow>, LedgerError> {
        processes::all(self.connection, self.place)
    }

    fn put_process(&mut self, row: &ProcessRow) -> Result<(), LedgerError> {
        processes::put(self.connection, self.place, row)
    }

    fn drop_process(&mut self, name: &Name) -> Result<(), LedgerError> {
        processes::remove(self.connection, self.place, name)
    }

    fn count_subscriptions(&mut self, tenant: &TenantId) -> Result<usize, LedgerError> {
        subscriptions::count(self.connection, tenant).in_file(self.place)
    }

    fn add_subscription(&mut self, tenant: &TenantId, new: &Subscription) -> Result<(), LedgerError> {
        subscriptions::add(self.connection, tenant, new).in_file(self.place)
    }

    fn move_subscription(
        &mut self,
        tenant: &TenantId,
        progress: &SubscriptionProgress,
    ) -> Result<(), LedgerError> {
        subscriptions::advance(self.connection, tenant, progress).in_file(self.place)
    }

    fn remove_subscription(&mut self, tenant: &TenantId, id: &Name) -> Result<(), LedgerError> {
        subscriptions::remove(self.connection, tenant, id).in_file(self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sqlite, connect};
    use super::*;

    fn writer(folder: &tempfile::TempDir) -> SqliteWriter {
        let file = folder.path().join("ledger.db");
        Sqlite::create(&file, 1_000).unwrap();
        let place = LedgerFile::new(&file, 1_000);
        let connection = connect(&file, &place, 1_000, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        let in_use = OpenFiles::new(&file, &place).unwrap();
        SqliteWriter::new(connection, in_use, place).unwrap()
    }

    #[test]
    // holds: invariant 7
    fn the_writer_can_only_insert() {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder);
        let refused = [
            "UPDATE entries SET robot = 'x'",
            "DELETE FROM entries",
            "UPDATE edges SET child = 1",
            "DELETE FROM tiles",
            "UPDATE checkpoints SET note = ''",
            "UPDATE logs SET origin = 'x'",
            "DELETE FROM logs",
            "DELETE FROM lease_tokens",
            "DROP TRIGGER entries_stay",
            "DROP TABLE entries",
        ];
        for sql in refused {
            let error = writer.connection.execute(sql, []).unwrap_err();
            assert!(error.to_string().contains("not authorized"), "{sql}: {error}");
        }
    }

    #[test]
    fn a_head_never_moves_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(&folder);
        let unmoved = writer.transact(None, false, &mut |transaction| {
            let head = transaction.locked_head(&TenantId::parse("local").unwrap())?;
            transaction.add(&Addition { rows: Vec::new(), edges: Vec::new(), tiles: Vec::new(), head })
        });
        assert!(matches!(unmoved, Err(WriteFailure::Nothing(LedgerError::Failed { .. }))), "{unmoved:?}");
    }
}
