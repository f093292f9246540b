//! The backend for several machines: one PostgreSQL database, version 15 or later. Everything runs as a role that owns
//! nothing and cannot bypass row-level security; the tenant is set for each transaction, and if it is not, nothing
//! is visible. A tenant's appends take turns on the lock of its log; appends of different tenants do not.

mod accepted;
mod audit;
mod connection;
mod leases;
mod migration;
mod notice;
mod parameters;
mod processes;
mod read;
mod rows;
mod server;
mod session;
mod subscriptions;
mod tls;
mod write;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;
use tokio_postgres::Row as SqlRow;

use crate::error::LedgerError;
use crate::pool::Pool;
use crate::position::Millis;
use crate::store::{Backend, BackupReport, ReadQuestion, TenantLog, Writer};
use notice::Notifier;
use rows::get;
use server::{Purpose, Roles, Server};
use session::Session;

/// Each step migrates a database from its index to the next version; a step needs only its statements.
const STEPS: &[&str] = &[include_str!("schema-1.sql"), include_str!("schema-2.sql")];
/// The step to [`FILLED`]: what it adds, and what it removes once every entry is filled in.
const EXPAND: &str = include_str!("schema-3.sql");
const CONTRACT: &str = concat!(include_str!("schema-3-end.sql"), include_str!("schema-3-rights.sql"));
/// The version in which entries were filled in.
const FILLED: u32 = STEPS.len() as u32 + 1;
/// The steps after it, which fill in nothing.
const LATER: &[&str] =
    &[include_str!("schema-4.sql"), include_str!("schema-5.sql"), include_str!("schema-6.sql")];
/// The version in which entries say who appended them.
const ACTORS: u32 = FILLED + 1;
const VERSION: u32 = FILLED + LATER.len() as u32;
/// The oldest server that works: 15.
const MIN_SERVER: i32 = 150_000;
/// How many tenants' appends one process writes in parallel; each thread connects when it first writes.
const WRITERS: usize = 4;
/// How many queries one process answers in parallel.
const READERS: usize = 4;

/// A ledger in a PostgreSQL database.
pub(crate) struct Postgres {
    server: Server,
    /// Its schema version when it was opened.
    version: u32,
    readers: Pool<Session>,
    /// The connection that the database was opened with, for the first reader.
    first: Mutex<Option<Session>>,
    listener: Mutex<Option<Session>>,
    notifier: Notifier,
}

impl Postgres {
    /// Creates the schema in a database that has none; needs the privilege to create a schema and a role.
    pub(crate) fn create(url: &str, wait_ms: u64) -> Result<(), LedgerError> {
        let server = Server::parse(url, wait_ms)?;
        let mut owner = server.connect_as_owner()?;
        let sql = "SELECT current_setting('server_version_num')::int AS number, \
                   current_setting('server_encoding') AS encoding";
        let row = owner.query_one(sql, &[])?;
        let number: i32 = get(&row, "number", &server)?;
        if number < MIN_SERVER {
            let reason =
                format!("its server is of version {}, and 15 is the oldest that works", number / 10_000);
            return Err(LedgerError::Foreign { place: server.name().to_owned(), reason });
        }
        let encoding: &str = get(&row, "encoding", &server)?;
        if encoding != "UTF8" {
            let reason = format!("its encoding is {encoding}, and entries need UTF8");
            return Err(LedgerError::Foreign { place: server.name().to_owned(), reason });
        }
        if schema_version(&mut owner)?.is_some() {
            return Err(LedgerError::Exists { place: server.name().to_owned() });
        }
        let start = "CREATE SCHEMA crealeph; CREATE TABLE crealeph.version (version int NOT NULL); \
                     INSERT INTO crealeph.version VALUES (0);";
        let end = format!("UPDATE crealeph.version SET version = {VERSION};");
        let all =
            format!("BEGIN; {start} {} {EXPAND} {CONTRACT} {} {end} COMMIT", steps_from(0), LATER.concat());
        owner.run(&all)
    }

    /// Opens a database that holds a ledger; an older one only for reading.
    pub(crate) fn open(url: &str, wait_ms: u64) -> Result<Postgres, LedgerError> {
        let server = Server::parse(url, wait_ms)?;
        let mut owner = server.connect_as_owner()?;
        let version = readable_version(&mut owner)?;
        let server = if version < FILLED { server } else { server.with_roles(roles(&mut owner)?) };
        owner.close();
        let first = Mutex::new(Some(server.connect(Purpose::Reading)?));
        let notifier = Notifier::start(&server)?;
        let (readers, listener) = (Pool::of(READERS), Mutex::new(None));
        Ok(Postgres { server, version, readers, first, listener, notifier })
    }

    /// The connection that the database was opened with, if it is unused, else a new one.
    fn connect(&self) -> Result<Session, LedgerError> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.map_or_else(|| self.server.connect(Purpose::Reading), Ok)
    }
}

/// The schema version of a database that holds a ledger which this program can read.
fn readable_version(owner: &mut Session) -> Result<u32, LedgerError> {
    let version = schema_version(owner)?;
    let place = owner.server.name().to_owned();
    match version {
        None => Err(LedgerError::Missing { place }),
        Some(found) if found > VERSION => Err(LedgerError::Newer { place, found, known: VERSION }),
        Some(found) => Ok(found),
    }
}

/// The version of the schema; `None` if the database holds no ledger.
fn schema_version(owner: &mut Session) -> Result<Option<u32>, LedgerError> {
    let row = owner.query_one("SELECT to_regclass('crealeph.version') IS NOT NULL AS is_there", &[])?;
    if !get::<bool>(&row, "is_there", &owner.server)? {
        return Ok(None);
    }
    let row = owner.query_one("SELECT max(version) AS version FROM crealeph.version", &[])?;
    let version: i32 = get(&row, "version", &owner.server)?;
    Ok(Some(u32::try_from(version).unwrap_or(u32::MAX)))
}

/// The roles of a database of this version.
fn roles(owner: &mut Session) -> Result<Roles, LedgerError> {
    let row = owner.query_one("SELECT ledger_role, audit_role FROM crealeph.version", &[])?;
    let audit = get(&row, "audit_role", &owner.server)?;
    Ok(Roles { ledger: get(&row, "ledger_role", &owner.server)?, audit: Some(audit) })
}

/// The migrations from a version on, each followed by the number it leads to.
fn steps_from(version: u32) -> String {
    let steps = STEPS.iter().zip(1u32..).skip(version as usize);
    steps.map(|(step, number)| format!("{step} UPDATE crealeph.version SET version = {number}; ")).collect()
}

impl Backend for Postgres {
    fn place(&self) -> &str {
        self.server.name()
    }

    fn writer(&self) -> Result<Box<dyn Writer>, LedgerError> {
        if self.version < VERSION {
            return Err(self.server.outdated(self.version));
        }
        let (server, notices) = (self.server.clone(), self.notifier.notices());
        Ok(Box::new(write::PostgresWriter { server, session: None, notices }))
    }

    fn writers(&self) -> usize {
        WRITERS
    }

    fn read(&self, tenant: Option<&TenantId>, question: ReadQuestion<'_>) -> Result<(), LedgerError> {
        let wait_ms = self.server.wait_ms;
        let busy = || LedgerError::Busy { place: self.server.name().to_owned(), wait_ms };
        let connect = || self.connect();
        self.readers.with(wait_ms, busy, connect, |session| {
            session.begin_reading(tenant);
            let mut answered = question(&mut read::PostgresReads::new(session, self.version));
            // An idle connection may be gone, for example after a restart of the server.
            if answered.is_err() && !session.is_open() && session.is_closed() {
                *session = self.server.connect(Purpose::Reading)?;
                session.begin_reading(tenant);
                answered = question(&mut read::PostgresReads::new(session, self.version));
            }
            session.end_reading();
            answered
        })
    }

    fn wait_for_others(&self, wait_ms: u64) -> Result<bool, LedgerError> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut session) = listener.take().filter(|session| !session.is_closed()) else {
            let mut session = self.server.connect(Purpose::Reading)?;
            session.run("LISTEN crealeph_ledger")?;
            *listener = Some(session);
            // Something may have been written before this listened.
            return Ok(true);
        };
        let heard = session.wait_for_news(Duration::from_millis(wait_ms))?;
        *listener = Some(session);
        Ok(heard)
    }

    fn change_mark(&self) -> Result<Option<i64>, LedgerError> {
        Ok(None)
    }

    /// Queried as the audit role: the ledger's role sees one tenant at a time.
    fn tenants(&self) -> Result<Vec<TenantLog>, LedgerError> {
        if self.version < VERSION {
            return Err(self.server.outdated(self.version));
        }
        let server = &self.server;
        let mut session = self.connect()?;
        session.begin_reading(None);
        let sql = "SELECT tenant, size, last_at FROM logs ORDER BY tenant";
        let found = session.as_auditor(|session| session.query(sql, &[]))?;
        session.end_reading();
        let read = |row: &SqlRow| {
            let (entries, last_at): (i64, i64) = (get(row, "size", server)?, get(row, "last_at", server)?);
            Ok(TenantLog {
                tenant_id: TenantId::parse(get(row, "tenant", server)?)
                    .map_err(|_| server.damaged("a tenant's name cannot be read back"))?,
                entries: entries.unsigned_abs(),
                last_at: (entries > 0).then(|| Millis::new(last_at)),
            })
        };
        found.iter().map(read).collect()
    }

    fn backup(&self, _: &Path, _: BackupReport) -> Result<(), LedgerError> {
        let reason = "back a PostgreSQL ledger up with pg_dump, or with `crealeph ledger export`".to_owned();
        Err(LedgerError::Failed { place: self.server.name().to_owned(), reason })
    }

    /// PostgreSQL checks its own pages if it is configured to; this only checks that it answers.
    fn check_storage(&self) -> Result<(), LedgerError> {
        self.read(None, &mut |_| Ok(()))
    }
}
