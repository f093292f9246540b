//! The backend for several machines: one PostgreSQL database, version 15 or later. Everything runs as a role that owns
//! nothing and cannot pass row-level security; the tenant is set for each transaction, and where it is not, nothing
//! is seen. A tenant's appends take turns on the lock of its log; different tenants' do not.

mod audit;
mod leases;
mod line;
mod migration;
mod read;
mod rows;
mod session;
mod tls;
mod write;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;
use postgres::Client;

use crate::error::LedgerError;
use crate::pool::Pool;
use crate::position::Millis;
use crate::store::{Backend, Question, TenantLog, Writer};
use session::{Server, Session};

/// Each step brings a database from its index to the next version; they need nothing but the statements.
const STEPS: &[&str] = &[include_str!("schema-1.sql"), include_str!("schema-2.sql")];
/// The last step: what it adds, and what it takes away once every entry is filled in.
const EXPAND: &str = include_str!("schema-3.sql");
const CONTRACT: &str = include_str!("schema-3-end.sql");
const VERSION: u32 = STEPS.len() as u32 + 1;
/// The oldest server that works: 15.
const MIN_SERVER: i32 = 150_000;
/// How many tenants' appends are written side by side by one process.
const WRITERS: usize = 4;

/// A ledger in a PostgreSQL database.
pub(crate) struct Postgres {
    server: Server,
    /// Its schema version when it was opened.
    version: u32,
    readers: Pool<Session>,
    listener: Mutex<Option<Session>>,
    notices: SyncSender<()>,
}

impl Postgres {
    /// Puts the schema into a database that has none; needs the right to make a schema and a role.
    pub(crate) fn create(url: &str, wait_ms: u64) -> Result<(), LedgerError> {
        let server = Server::parse(url, wait_ms)?;
        let failed = |error| server.failure(&error);
        let mut client = server.connect_as_owner()?;
        let number =
            client.query_one("SELECT current_setting('server_version_num')::int", &[]).map_err(failed)?;
        let number: i32 = number.try_get(0).map_err(failed)?;
        if number < MIN_SERVER {
            let reason =
                format!("its server is of version {}, and 15 is the oldest that works", number / 10_000);
            return Err(LedgerError::Foreign { place: server.name().to_owned(), reason });
        }
        if found_version(&mut client, &server)?.is_some() {
            return Err(LedgerError::Exists { place: server.name().to_owned() });
        }
        let start = "CREATE SCHEMA crealeph; CREATE TABLE crealeph.version (version int NOT NULL); \
                     INSERT INTO crealeph.version VALUES (0);";
        let end = format!("UPDATE crealeph.version SET version = {VERSION};");
        let all = format!("BEGIN; {start} {} {EXPAND} {CONTRACT} {end} COMMIT", steps_from(0));
        client.batch_execute(&all).map_err(failed)
    }

    /// Opens a database that holds a ledger; an older one to be read alone.
    pub(crate) fn open(url: &str, wait_ms: u64) -> Result<Postgres, LedgerError> {
        let server = Server::parse(url, wait_ms)?;
        let mut client = server.connect_as_owner()?;
        let place = || server.name().to_owned();
        let version = match found_version(&mut client, &server)? {
            None => return Err(LedgerError::Missing { place: place() }),
            Some(found) if found > VERSION => {
                return Err(LedgerError::Newer { place: place(), found, known: VERSION });
            }
            Some(found) => found,
        };
        drop(client);
        server.connect()?;
        let (notices, receiver) = sync_channel(1);
        let notifier = server.clone();
        std::thread::Builder::new()
            .name("ledger-notifier".to_owned())
            .spawn(move || notify(&notifier, &receiver))
            .map_err(|error| LedgerError::Failed { place: place(), reason: error.to_string() })?;
        Ok(Postgres { server, version, readers: Pool::default(), listener: Mutex::new(None), notices })
    }
}

/// The migrations from a version on, each followed by the number it leads to.
fn steps_from(version: u32) -> String {
    let steps = STEPS.iter().zip(1u32..).skip(version as usize);
    steps.map(|(step, number)| format!("{step} UPDATE crealeph.version SET version = {number}; ")).collect()
}

fn found_version(client: &mut Client, server: &Server) -> Result<Option<u32>, LedgerError> {
    let failed = |error| server.failure(&error);
    let there =
        client.query_one("SELECT to_regclass('crealeph.version') IS NOT NULL", &[]).map_err(failed)?;
    if !there.try_get::<_, bool>(0).map_err(failed)? {
        return Ok(None);
    }
    let row = client.query_one("SELECT max(version) FROM crealeph.version", &[]).map_err(failed)?;
    Ok(Some(u32::try_from(row.try_get::<_, i32>(0).map_err(failed)?).unwrap_or(u32::MAX)))
}

/// Tells other processes that logs have grown: what came while one notice was sent becomes one more.
fn notify(server: &Server, notices: &Receiver<()>) {
    let mut session: Option<Session> = None;
    while notices.recv().is_ok() {
        if session.as_ref().is_none_or(Session::is_closed) {
            // A notice that is lost with the server is missed by nobody: those who listened are gone as well.
            let quick = |mut session: Session| session.run("SET synchronous_commit = off").map(|()| session);
            session = server.connect().and_then(quick).ok();
        }
        // Whoever missed a notice looks by itself after a while.
        if let Some(session) = &mut session {
            let _ = session.run("NOTIFY crealeph_ledger");
        }
    }
}

impl Backend for Postgres {
    fn place(&self) -> &str {
        self.server.name()
    }

    fn writer(&self) -> Result<Box<dyn Writer>, LedgerError> {
        if self.version < VERSION {
            return Err(self.server.outdated(self.version));
        }
        let session = Some(self.server.connect()?);
        let (server, notices) = (self.server.clone(), self.notices.clone());
        Ok(Box::new(write::PostgresWriter { server, session, notices }))
    }

    fn writers(&self) -> usize {
        WRITERS
    }

    fn read(&self, tenant: Option<&TenantId>, question: Question<'_>) -> Result<(), LedgerError> {
        let wait_ms = self.server.wait_ms;
        let busy = || LedgerError::Busy { place: self.server.name().to_owned(), wait_ms };
        let connect = || self.server.connect();
        self.readers.with(wait_ms, busy, connect, |session| {
            let mode = "ISOLATION LEVEL REPEATABLE READ READ ONLY";
            // A connection that lay idle may be gone, for example with a server that was started again.
            session.begin(mode, tenant);
            let mut answered = question(&mut read::PostgresReads::new(session, self.version));
            if answered.is_err() && !session.is_open && session.is_closed() {
                *session = self.server.connect()?;
                session.begin(mode, tenant);
                answered = question(&mut read::PostgresReads::new(session, self.version));
            }
            session.end_reading();
            answered
        })
    }

    fn wait_for_others(&self, wait_ms: u64) -> Result<bool, LedgerError> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut session) = listener.take().filter(|session| !session.is_closed()) else {
            let mut session = self.server.connect()?;
            session.run("LISTEN crealeph_ledger")?;
            *listener = Some(session);
            // Something may have been written before there was anyone to hear it.
            return Ok(true);
        };
        let heard = session.wait_for_news(Duration::from_millis(wait_ms))?;
        *listener = Some(session);
        Ok(heard)
    }

    /// Asked as whoever the URL names, who must be the owner: the role that the program works as sees one tenant at a time.
    fn tenants(&self) -> Result<Vec<TenantLog>, LedgerError> {
        if self.version < VERSION {
            return Err(self.server.outdated(self.version));
        }
        let failed = |error| self.server.failure(&error);
        let mut client = self.server.connect_as_owner()?;
        let sql = "SELECT r.rolsuper OR r.rolbypassrls OR pg_has_role(c.relowner, 'USAGE') FROM pg_roles r, pg_class c \
                   WHERE r.rolname = current_user AND c.oid = 'crealeph.logs'::regclass";
        let row = client.query_one(sql, &[]).map_err(failed)?;
        if !row.try_get::<_, bool>(0).map_err(failed)? {
            let reason =
                "only the owner of the schema `crealeph` may list tenants; connect as that role".to_owned();
            return Err(LedgerError::Foreign { place: self.server.name().to_owned(), reason });
        }
        let sql = "SELECT tenant, size, last_at FROM crealeph.logs ORDER BY tenant";
        let found = client.query(sql, &[]).map_err(failed)?;
        let read = |row: &postgres::Row| {
            let tenant: &str = row.try_get(0).map_err(failed)?;
            let (entries, last_at): (i64, i64) =
                (row.try_get(1).map_err(failed)?, row.try_get(2).map_err(failed)?);
            Ok(TenantLog {
                tenant_id: TenantId::parse(tenant)
                    .map_err(|_| self.server.damaged("a tenant's name cannot be read back"))?,
                entries: entries.unsigned_abs(),
                last_at: (entries > 0).then(|| Millis::new(last_at)),
            })
        };
        found.iter().map(read).collect()
    }

    fn backup(&self, _: &Path) -> Result<(), LedgerError> {
        let reason = "back a PostgreSQL ledger up with pg_dump, or with `crealeph ledger export`".to_owned();
        Err(LedgerError::Failed { place: self.server.name().to_owned(), reason })
    }

    /// PostgreSQL checks its own pages where it was told to; here only that it answers.
    fn check_storage(&self) -> Result<(), LedgerError> {
        self.server.connect().map(|_| ())
    }
}
