//! Migrates a PostgreSQL database; see `crate::migrate`. It works as the owner of the tables, which alone may disable the
//! trigger that protects entries from changes, for one transaction at a time.

use crealeph_contracts::scalar::{LedgerId, TenantId};
use tokio_postgres::types::ToSql;

use super::rows::{self, BY_ID, CURRENT, PostgresRow, each, get};
use super::server::Server;
use super::session::Session;
use super::{CONTRACT, EXPAND, FILLED, LATER, Postgres, STEPS, VERSION, readable_version, steps_from};
use crate::columns::read_node;
use crate::error::LedgerError;
use crate::migrate::{
    CHUNK, FilledEntry, FilledLog, MigratingLog, Migration, fillings, missing_classes, missing_parents,
};
use crate::reach::EffectiveTime;
use crate::row::{EntryClass, LineageNode};

/// A database that is migrated.
pub(crate) struct PostgresMigration {
    owner: Session,
}

impl Postgres {
    /// Connects as the user that the URL names to migrate a database.
    pub(crate) fn migration(url: &str, wait_ms: u64) -> Result<PostgresMigration, LedgerError> {
        let mut owner = Server::parse(url, wait_ms)?.connect_as_owner()?;
        owner.run(&format!("SET search_path = crealeph; SET lock_timeout = {wait_ms}"))?;
        Ok(PostgresMigration { owner })
    }
}

/// The version, locked until the transaction ends, so that two migrations take turns.
fn locked_version(owner: &mut Session) -> Result<u32, LedgerError> {
    owner.run("LOCK TABLE crealeph.version IN SHARE ROW EXCLUSIVE MODE")?;
    let row = owner.query_one("SELECT max(version) AS version FROM crealeph.version", &[])?;
    u32::try_from(get::<i32>(&row, "version", &owner.server)?)
        .map_err(|_| owner.server.damaged("the schema version is negative"))
}

impl Migration for PostgresMigration {
    fn versions(&mut self) -> Result<(u32, u32), LedgerError> {
        Ok((readable_version(&mut self.owner)?, VERSION))
    }

    fn expand(&mut self) -> Result<(), LedgerError> {
        self.owner.transact(None, |owner| {
            let found = locked_version(owner)?;
            if found < STEPS.len() as u32 {
                owner.run(&steps_from(found))?;
            }
            let sql = "SELECT to_regclass('crealeph.migration') IS NOT NULL AS is_there";
            let row = owner.query_one(sql, &[])?;
            if found < FILLED && !get::<bool>(&row, "is_there", &owner.server)? {
                owner.run(EXPAND)?;
            }
            Ok(())
        })
    }

    fn logs(&mut self) -> Result<Vec<MigratingLog>, LedgerError> {
        let found = self.owner.query("SELECT tenant, size FROM logs ORDER BY tenant", &[])?;
        let server = &self.owner.server;
        let read = |row| {
            let tenant_id = TenantId::parse(get(row, "tenant", server)?)
                .map_err(|_| server.damaged("a tenant's name cannot be read back"))?;
            let size = u64::try_from(get::<i64>(row, "size", server)?)
                .map_err(|_| server.damaged("the size of a log is negative"))?;
            Ok(MigratingLog { tenant_id, number: 0, size })
        };
        found.iter().map(read).collect()
    }

    fn fill(&mut self, log: &MigratingLog, memory: &mut FilledLog) -> Result<(u64, u64), LedgerError> {
        self.owner.transact(Some(&log.tenant_id), |owner| {
            if locked_version(owner)? >= FILLED {
                return Ok((0, log.size));
            }
            let tenant = log.tenant_id.as_str();
            let found = owner.query("SELECT done FROM migration WHERE tenant = $1", &[&tenant])?;
            let done: i64 = found.first().map_or(Ok(0), |row| get(row, "done", &owner.server))?;
            memory.check(done.unsigned_abs());
            let entries = unfilled(owner, tenant, done)?;
            if entries.is_empty() {
                return Ok((0, done.unsigned_abs()));
            }
            let parents = parents(owner, tenant, &missing_parents(&entries))?;
            let classes = missing_classes(&entries, memory);
            for (class, newest) in newest(owner, tenant, &classes, done)? {
                memory.newest.insert(class, newest);
            }
            let filled = fillings(entries, parents, memory);
            store(owner, tenant, &filled)?;
            let last = filled.last().map_or(done, |filling| filling.seq.as_i64());
            let sql = "INSERT INTO migration (tenant, done) VALUES ($1, $2) \
                       ON CONFLICT (tenant) DO UPDATE SET done = excluded.done";
            owner.execute(sql, &[&tenant, &last])?;
            memory.done = last.unsigned_abs();
            Ok((filled.len() as u64, memory.done))
        })
    }

    fn contract(&mut self) -> Result<bool, LedgerError> {
        self.owner.transact(None, |owner| {
            // Every append locks the log before anything else.
            owner.run("LOCK TABLE crealeph.logs IN ACCESS EXCLUSIVE MODE")?;
            let found = locked_version(owner)?;
            if found < FILLED {
                let sql = "SELECT EXISTS (SELECT FROM logs l LEFT JOIN migration m USING (tenant) \
                           WHERE l.size > coalesce(m.done, 0)) AS is_unfilled";
                let row = owner.query_one(sql, &[])?;
                if get::<bool>(&row, "is_unfilled", &owner.server)? {
                    return Ok(false);
                }
                owner.run(CONTRACT)?;
            }
            for step in LATER.iter().skip(found.saturating_sub(FILLED) as usize) {
                owner.run(step)?;
            }
            owner.run(&format!("UPDATE crealeph.version SET version = {VERSION}"))?;
            Ok(true)
        })
    }
}

/// The next entries after a sequence number.
fn unfilled(owner: &mut Session, tenant: &str, done: i64) -> Result<Vec<LineageNode>, LedgerError> {
    let sql = format!(
        "SELECT {} FROM entries e WHERE e.tenant = $1 AND e.seq > $2 ORDER BY e.seq LIMIT {CHUNK}",
        CURRENT.node
    );
    let found = owner.query(&sql, &[&tenant, &done])?;
    found.iter().map(|row| read_node(&PostgresRow { row, server: &owner.server })).collect()
}

fn parents(owner: &mut Session, tenant: &str, ids: &[LedgerId]) -> Result<Vec<LineageNode>, LedgerError> {
    let ids: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    let found = owner.query(&each(&CURRENT.node, "text", BY_ID), &[&tenant, &ids])?;
    found.iter().map(|row| read_node(&PostgresRow { row, server: &owner.server })).collect()
}

/// The effective newest of classes up to a sequence number that is filled in.
fn newest(
    owner: &mut Session,
    tenant: &str,
    classes: &[EntryClass],
    done: i64,
) -> Result<Vec<(EntryClass, EffectiveTime)>, LedgerError> {
    let column = |of: fn(&EntryClass) -> &str| classes.iter().map(of).collect::<Vec<&str>>();
    let (robots, kinds, states) =
        (column(|class| &class.robot), column(|class| &class.kind), column(|class| &class.state));
    let values: [&(dyn ToSql + Sync); 5] = [&tenant, &robots, &kinds, &states, &done];
    let found = owner.query(&rows::newest_of("seq <= $5"), &values)?;
    found.iter().map(|row| rows::newest(row, &owner.server)).collect()
}

/// Writes the values for entries.
fn store(owner: &mut Session, tenant: &str, filled: &[FilledEntry]) -> Result<(), LedgerError> {
    let seqs: Vec<i64> = filled.iter().map(|filling| filling.seq.as_i64()).collect();
    let newest: Vec<Option<i64>> =
        filled.iter().map(|filling| filling.newest.map(|seq| seq.as_i64())).collect();
    let used: Vec<Option<Vec<u8>>> = filled.iter().map(|filling| filling.used.to_bytes()).collect();
    let guard = |word: &str| format!("ALTER TABLE crealeph.entries {word} TRIGGER entries_stay");
    owner.run(&guard("DISABLE"))?;
    let sql = "UPDATE entries e SET newest = w.newest, used = w.used \
               FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS w (seq, newest, used) \
               WHERE e.tenant = $1 AND e.seq = w.seq RETURNING e.seq";
    let changed = owner.query(sql, &[&tenant, &seqs, &newest, &used])?.len();
    if changed != filled.len() {
        return Err(owner
            .server
            .damaged(format!("{changed} of {} entries could be filled in", filled.len())));
    }
    owner.run(&guard("ENABLE"))
}
