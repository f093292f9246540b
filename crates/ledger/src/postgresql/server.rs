//! The database server: how to reach it, which roles it has, and PostgreSQL's errors translated into the ledger's own.

use std::time::{Duration, Instant};

use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::Connection;
use super::parameters::Parameters;
use super::session::Session;
use super::tls;
use crate::error::LedgerError;
use crate::position::Seq;

/// The role that was used for everything before version 3; later databases have their own roles.
const SHARED_ROLE: &str = "crealeph_ledger";
/// How long a statement that writes may take, and one that reads; an audit counts a whole log.
const WRITING_MS: u64 = 60_000;
const READING_MS: u64 = 600_000;
/// After how long a silent peer counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(30);

/// The location of the database, for connecting and for messages.
#[derive(Clone)]
pub(super) struct Server {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    name: String,
    pub(super) wait_ms: u64,
    pub(super) roles: Roles,
}

/// The roles of a database, as its owner named them.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    /// Reads and appends in one tenant.
    pub(super) ledger: String,
    /// Reads every row; databases of older versions have none.
    pub(super) audit: Option<String>,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Reading,
    Writing,
}

impl Server {
    pub(super) fn parse(url: &str, wait_ms: u64) -> Result<Server, LedgerError> {
        let (mut config, tls) = tls::read(url, &Parameters::of_this_process())
            .map_err(|reason| LedgerError::Foreign { place: "the PostgreSQL URL".to_owned(), reason })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_millis(wait_ms.max(1)));
        }
        config.application_name("crealeph");
        config.keepalives(true).keepalives_idle(DEAD_AFTER / 3);
        config.keepalives_interval(DEAD_AFTER / 6).keepalives_retries(4).tcp_user_timeout(DEAD_AFTER);
        let host = config.get_hosts().first().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let name = format!(
            "postgres://{}@{}:{}/{}",
            config.get_user().unwrap_or_default(),
            host.unwrap_or_default(),
            config.get_ports().first().copied().unwrap_or(5432),
            config.get_dbname().unwrap_or_default()
        );
        let roles = Roles { ledger: SHARED_ROLE.to_owned(), audit: None };
        Ok(Server { config, tls, name, wait_ms, roles })
    }

    /// The same server, whose database has these roles.
    pub(super) fn with_roles(self, roles: Roles) -> Server {
        Server { roles, ..self }
    }

    /// Connects; while the server has no free connection, retries for as long as waiting is allowed.
    fn open(&self) -> Result<Connection, LedgerError> {
        let passing = [SqlState::TOO_MANY_CONNECTIONS, SqlState::CANNOT_CONNECT_NOW];
        let start = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            let opened = Connection::open(&self.config, self.tls.as_ref());
            match opened.map_err(|error| LedgerError::Failed {
                place: self.name.clone(),
                reason: error.to_string(),
            })? {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    let is_passing = error.code().is_some_and(|code| passing.contains(code));
                    if !is_passing || start.elapsed().as_millis() as u64 >= self.wait_ms {
                        return Err(self.failure(&error));
                    }
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A connection as the user that the URL names.
    pub(super) fn connect_as_owner(&self) -> Result<Session, LedgerError> {
        Ok(Session::new(self.open()?, self.clone()))
    }

    /// A connection with only the privileges that the ledger needs.
    pub(super) fn connect(&self, purpose: Purpose) -> Result<Session, LedgerError> {
        let mut connection = self.open()?;
        let (role, wait_ms) = (quoted(&self.roles.ledger), self.wait_ms);
        let statement_ms = wait_ms.saturating_mul(2).max(match purpose {
            Purpose::Reading => READING_MS,
            Purpose::Writing => WRITING_MS,
        });
        // A client that falls silent in a transaction loses its lock before those who wait for it give up.
        let idle_ms = (wait_ms / 2).max(1_000);
        let dead_s = DEAD_AFTER.as_secs();
        let settings = format!(
            "SET ROLE {role}; SET synchronous_commit = on; SET search_path = crealeph; \
             SET standard_conforming_strings = on; SET plan_cache_mode = force_generic_plan; \
             SET lock_timeout = {wait_ms}; SET idle_in_transaction_session_timeout = {idle_ms}; \
             SET statement_timeout = {statement_ms}; SET tcp_keepalives_idle = {}; SET tcp_keepalives_interval = {}; \
             SET tcp_keepalives_count = 4; SET tcp_user_timeout = {}",
            dead_s / 3,
            dead_s / 6,
            dead_s * 1_000
        );
        let sql = "SELECT rolsuper OR rolbypassrls OR EXISTS (SELECT 1 FROM pg_class WHERE relowner = r.oid \
                   AND relnamespace = 'crealeph'::regnamespace) FROM pg_roles r WHERE rolname = current_user";
        let can_bypass = connection.wait(async |client| {
            client.batch_execute(&settings).await?;
            client.query_one(sql, &[]).await?.try_get::<_, bool>(0)
        });
        if can_bypass.map_err(|error| self.failure(&error))? {
            let reason = format!(
                "the role {role} can bypass row-level security; revoke SUPERUSER and BYPASSRLS from it"
            );
            return Err(LedgerError::Foreign { place: self.name.clone(), reason });
        }
        Ok(Session::new(connection, self.clone()))
    }

    /// PostgreSQL's message.
    pub(super) fn reason(&self, error: &Error) -> String {
        match (error.as_db_error(), std::error::Error::source(error)) {
            (Some(error), _) => error.message().to_owned(),
            (None, Some(source)) => format!("{error}: {source}"),
            (None, None) => error.to_string(),
        }
    }

    /// PostgreSQL's error, as the ledger's error.
    pub(super) fn failure(&self, error: &Error) -> LedgerError {
        let place = self.name.clone();
        if let Some(reason) = tls::distrust(error) {
            return LedgerError::Untrusted { place, reason };
        }
        let reason = self.reason(error);
        let is = |states: &[SqlState]| error.code().is_some_and(|code| states.contains(code));
        if is(&[SqlState::LOCK_NOT_AVAILABLE]) {
            LedgerError::Busy { place, wait_ms: self.wait_ms }
        } else if is(&[SqlState::DISK_FULL]) {
            LedgerError::Full { place }
        } else if is(&[SqlState::READ_ONLY_SQL_TRANSACTION]) {
            LedgerError::Denied { place, reason, next: "connect to the primary server".to_owned() }
        } else if is(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
            let next = format!("let the owner of the database run `GRANT {} TO …`", self.roles.ledger);
            LedgerError::Denied { place, reason, next }
        } else if is(&[SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED]) {
            LedgerError::Damaged { place, seq: None, what: reason }
        } else if is(&[SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE]) {
            let reason = format!("{reason}: its schema was changed while it was in use; start again");
            LedgerError::Failed { place, reason }
        } else if is(&[SqlState::INVALID_CATALOG_NAME]) {
            LedgerError::Missing { place }
        } else {
            LedgerError::Failed { place, reason }
        }
    }

    /// A database of an older schema, which can be read but not written.
    pub(super) fn outdated(&self, found: u32) -> LedgerError {
        LedgerError::Outdated { place: self.name.clone(), found, known: super::VERSION }
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> LedgerError {
        LedgerError::Damaged { place: self.name.clone(), seq: None, what: what.into() }
    }

    /// A statement that always answers gave no row.
    pub(super) fn unanswered(&self) -> LedgerError {
        self.damaged("a question that always has an answer had none")
    }

    /// An entry does not match what was written.
    pub(super) fn damaged_entry(&self, seq: Seq, what: impl Into<String>) -> LedgerError {
        LedgerError::Damaged { place: self.name.clone(), seq: Some(seq), what: what.into() }
    }
}

/// A text as an SQL literal; connections are set so that only the quote itself needs doubling.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as SQL writes it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
