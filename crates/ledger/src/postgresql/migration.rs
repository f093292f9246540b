//! Bringing a PostgreSQL database forward; see `crate::migrate`. It works as the owner of the tables, who alone may lift the
//! trigger that keeps entries from being changed, for one transaction at a time.

use crealeph_contracts::scalar::{LedgerId, TenantId};
use postgres::types::ToSql;
use postgres::{Client, Row, Transaction};

use super::rows::{self, BY_ID, STEP, each};
use super::session::{Server, literal};
use super::{CONTRACT, EXPAND, Postgres, STEPS, VERSION, found_version, steps_from};
use crate::error::LedgerError;
use crate::migrate::{
    CHUNK, Filled, Filling, MigratingLog, Migration, Unfilled, fillings, missing_classes, missing_parents,
};
use crate::reach::Effective;
use crate::store::{Class, Step};

/// A database that is brought forward.
pub(crate) struct PostgresMigration {
    client: Client,
    server: Server,
}

impl Postgres {
    /// Connects as whoever the URL names to bring a database forward.
    pub(crate) fn migration(url: &str, wait_ms: u64) -> Result<PostgresMigration, LedgerError> {
        let server = Server::parse(url, wait_ms)?;
        let mut client = server.connect_as_owner()?;
        let settings = format!("SET search_path = crealeph; SET lock_timeout = {wait_ms}");
        client.batch_execute(&settings).map_err(|error| server.failure(&error))?;
        Ok(PostgresMigration { client, server })
    }
}

impl PostgresMigration {
    /// Runs the work in a transaction that sees one tenant's rows.
    fn transact<T>(
        &mut self,
        tenant: Option<&TenantId>,
        work: impl FnOnce(&mut Transaction<'_>, &Server) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let server = &self.server;
        let failed = |error| server.failure(&error);
        let mut transaction = self.client.transaction().map_err(failed)?;
        if let Some(tenant) = tenant {
            let sql = format!("SET LOCAL crealeph.tenant = {}", literal(tenant.as_str()));
            transaction.batch_execute(&sql).map_err(failed)?;
        }
        let done = work(&mut transaction, server)?;
        transaction.commit().map_err(failed)?;
        Ok(done)
    }
}

/// The version, locked until the transaction ends, so that two migrations take turns.
fn locked_version(transaction: &mut Transaction<'_>, server: &Server) -> Result<u32, LedgerError> {
    let failed = |error| server.failure(&error);
    transaction.batch_execute("LOCK TABLE crealeph.version IN SHARE ROW EXCLUSIVE MODE").map_err(failed)?;
    let row = transaction.query_one("SELECT max(version) FROM crealeph.version", &[]).map_err(failed)?;
    u32::try_from(row.try_get::<_, i32>(0).map_err(failed)?)
        .map_err(|_| server.damaged("the schema version is negative"))
}

impl Migration for PostgresMigration {
    fn versions(&mut self) -> Result<(u32, u32), LedgerError> {
        let place = || self.server.name().to_owned();
        match found_version(&mut self.client, &self.server)? {
            None => Err(LedgerError::Missing { place: place() }),
            Some(found) if found > VERSION => {
                Err(LedgerError::Newer { place: place(), found, known: VERSION })
            }
            Some(found) => Ok((found, VERSION)),
        }
    }

    fn expand(&mut self) -> Result<(), LedgerError> {
        self.transact(None, |transaction, server| {
            let failed = |error| server.failure(&error);
            let found = locked_version(transaction, server)?;
            if found < STEPS.len() as u32 {
                transaction.batch_execute(&steps_from(found)).map_err(failed)?;
            }
            let sql = "SELECT to_regclass('crealeph.migration') IS NOT NULL";
            let row = transaction.query_one(sql, &[]).map_err(failed)?;
            let is_done = found == VERSION || row.try_get::<_, bool>(0).map_err(failed)?;
            if !is_done {
                transaction.batch_execute(EXPAND).map_err(failed)?;
            }
            Ok(())
        })
    }

    fn logs(&mut self) -> Result<Vec<MigratingLog>, LedgerError> {
        let server = &self.server;
        let failed = |error| server.failure(&error);
        let found =
            self.client.query("SELECT tenant, size FROM logs ORDER BY tenant", &[]).map_err(failed)?;
        let read = |row: &Row| {
            let tenant: &str = row.try_get(0).map_err(failed)?;
            let tenant_id =
                TenantId::parse(tenant).map_err(|_| server.damaged("a tenant's name cannot be read back"))?;
            let size = u64::try_from(rows::number(row, 1, server)?)
                .map_err(|_| server.damaged("the size of a log is negative"))?;
            Ok(MigratingLog { tenant_id, number: 0, size })
        };
        found.iter().map(read).collect()
    }

    fn fill(&mut self, log: &MigratingLog, memory: &mut Filled) -> Result<(u64, u64), LedgerError> {
        self.transact(Some(&log.tenant_id), |transaction, server| {
            if locked_version(transaction, server)? == VERSION {
                return Ok((0, log.size));
            }
            let failed = |error| server.failure(&error);
            let tenant = log.tenant_id.as_str();
            let sql = "SELECT done FROM migration WHERE tenant = $1";
            let found = transaction.query_opt(sql, &[&tenant]).map_err(failed)?;
            let done = found.map_or(Ok(0), |row| rows::number(&row, 0, server))?;
            memory.check(done.unsigned_abs());
            let entries = unfilled(transaction, server, tenant, done)?;
            if entries.is_empty() {
                return Ok((0, done.unsigned_abs()));
            }
            let parents = parents(transaction, server, tenant, &missing_parents(&entries))?;
            let classes = missing_classes(&entries, memory);
            for (class, newest) in newest(transaction, server, tenant, &classes, done)? {
                memory.newest.insert(class, newest);
            }
            let filled = fillings(entries, parents, memory);
            store(transaction, server, tenant, &filled)?;
            let last = filled.last().map_or(done, |filling| filling.seq.as_i64());
            let sql = "INSERT INTO migration (tenant, done) VALUES ($1, $2) \
                       ON CONFLICT (tenant) DO UPDATE SET done = excluded.done";
            transaction.execute(sql, &[&tenant, &last]).map_err(failed)?;
            memory.done = last.unsigned_abs();
            Ok((filled.len() as u64, memory.done))
        })
    }

    fn contract(&mut self) -> Result<bool, LedgerError> {
        self.transact(None, |transaction, server| {
            let failed = |error| server.failure(&error);
            // Who appends has locked the log before anything else.
            transaction.batch_execute("LOCK TABLE crealeph.logs IN ACCESS EXCLUSIVE MODE").map_err(failed)?;
            if locked_version(transaction, server)? == VERSION {
                return Ok(true);
            }
            let sql = "SELECT EXISTS (SELECT FROM logs l LEFT JOIN migration m USING (tenant) \
                       WHERE l.size > coalesce(m.done, 0))";
            let row = transaction.query_one(sql, &[]).map_err(failed)?;
            if row.try_get::<_, bool>(0).map_err(failed)? {
                return Ok(false);
            }
            let sql = format!("{CONTRACT} UPDATE crealeph.version SET version = {VERSION}");
            transaction.batch_execute(&sql).map_err(failed)?;
            Ok(true)
        })
    }
}

/// The next entries after a place.
fn unfilled(
    transaction: &mut Transaction<'_>,
    server: &Server,
    tenant: &str,
    done: i64,
) -> Result<Vec<Unfilled>, LedgerError> {
    let failed = |error| server.failure(&error);
    let sql = format!(
        "SELECT {STEP}, e.state FROM entries e WHERE e.tenant = $1 AND e.seq > $2 ORDER BY e.seq LIMIT {CHUNK}"
    );
    let found = transaction.query(&sql, &[&tenant, &done]).map_err(failed)?;
    let read =
        |row: &Row| Ok(Unfilled { step: rows::step(row, server)?, state: row.try_get(15).map_err(failed)? });
    found.iter().map(read).collect()
}

fn parents(
    transaction: &mut Transaction<'_>,
    server: &Server,
    tenant: &str,
    ids: &[LedgerId],
) -> Result<Vec<Step>, LedgerError> {
    let ids: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    let found = transaction.query(&each(STEP, "text", BY_ID), &[&tenant, &ids]);
    found.map_err(|error| server.failure(&error))?.iter().map(|row| rows::step(row, server)).collect()
}

/// The effective newest of classes up to a place that is filled in.
fn newest(
    transaction: &mut Transaction<'_>,
    server: &Server,
    tenant: &str,
    classes: &[Class],
    done: i64,
) -> Result<Vec<(Class, Effective)>, LedgerError> {
    let column = |of: fn(&Class) -> &str| classes.iter().map(of).collect::<Vec<&str>>();
    let (robots, kinds, states) =
        (column(|class| &class.robot), column(|class| &class.kind), column(|class| &class.state));
    let sql = rows::newest_of("seq <= $5");
    let values: [&(dyn ToSql + Sync); 5] = [&tenant, &robots, &kinds, &states, &done];
    let found = transaction.query(&sql, &values).map_err(|error| server.failure(&error))?;
    found.iter().map(|row| rows::newest(row, server)).collect()
}

/// Writes what entries are filled in with.
fn store(
    transaction: &mut Transaction<'_>,
    server: &Server,
    tenant: &str,
    filled: &[Filling],
) -> Result<(), LedgerError> {
    let failed = |error| server.failure(&error);
    let seqs: Vec<i64> = filled.iter().map(|filling| filling.seq.as_i64()).collect();
    let newest: Vec<Option<i64>> =
        filled.iter().map(|filling| filling.newest.map(|seq| seq.as_i64())).collect();
    let used: Vec<Option<Vec<u8>>> = filled.iter().map(|filling| filling.used.to_bytes()).collect();
    let guard = |word: &str| format!("ALTER TABLE crealeph.entries {word} TRIGGER entries_stay");
    transaction.batch_execute(&guard("DISABLE")).map_err(failed)?;
    let sql = "UPDATE entries e SET newest = w.newest, used = w.used \
               FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS w (seq, newest, used) \
               WHERE e.tenant = $1 AND e.seq = w.seq";
    let changed = transaction.execute(sql, &[&tenant, &seqs, &newest, &used]).map_err(failed)?;
    if changed != filled.len() as u64 {
        return Err(server.damaged(format!("{changed} of {} entries could be filled in", filled.len())));
    }
    transaction.batch_execute(&guard("ENABLE")).map_err(failed)
}
