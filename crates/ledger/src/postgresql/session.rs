//! One connection: opened as the role that owns nothing, with what PostgreSQL says turned into the ledger's own errors.

use std::collections::BTreeMap;
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;
use postgres::config::Host;
use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Row as SqlRow, SimpleQueryMessage, SimpleQueryRow, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls;
use crate::error::LedgerError;

/// The role that everything is done as.
pub(super) const ROLE: &str = "crealeph_ledger";

/// Where the database is, for connecting and for messages.
#[derive(Clone)]
pub(super) struct Server {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    name: String,
    pub(super) wait_ms: u64,
}

impl Server {
    pub(super) fn parse(url: &str, wait_ms: u64) -> Result<Server, LedgerError> {
        let (mut config, tls) = tls::read(url)
            .map_err(|reason| LedgerError::Foreign { place: "the PostgreSQL URL".to_owned(), reason })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_millis(wait_ms.max(1)));
        }
        config.application_name("crealeph");
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
        Ok(Server { config, tls, name, wait_ms })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A connection as whoever the URL names.
    pub(super) fn connect_as_owner(&self) -> Result<Client, LedgerError> {
        let connected = match &self.tls {
            Some(tls) => self.config.connect(tls.clone()),
            None => self.config.connect(NoTls),
        };
        connected.map_err(|error| self.failure(&error))
    }

    /// A connection that may do only what the ledger needs.
    pub(super) fn connect(&self) -> Result<Session, LedgerError> {
        let mut client = self.connect_as_owner()?;
        // A plan kept from when the log was small would read all of a tenant's rows for ever; planning costs less.
        let settings = format!(
            "SET ROLE {ROLE}; SET synchronous_commit = on; SET search_path = crealeph; \
             SET standard_conforming_strings = on; SET plan_cache_mode = force_custom_plan; \
             SET lock_timeout = {}",
            self.wait_ms
        );
        client.batch_execute(&settings).map_err(|error| self.failure(&error))?;
        let sql = "SELECT rolsuper OR rolbypassrls OR EXISTS (SELECT 1 FROM pg_class WHERE relowner = r.oid \
                   AND relnamespace = 'crealeph'::regnamespace) FROM pg_roles r WHERE rolname = current_user";
        let is_mighty = client.query_one(sql, &[]).and_then(|row| row.try_get::<_, bool>(0));
        if is_mighty.map_err(|error| self.failure(&error))? {
            let reason =
                format!("the role {ROLE} may pass the walls between tenants; take that right from it");
            return Err(LedgerError::Foreign { place: self.name.clone(), reason });
        }
        let (statements, opening, lock) = (BTreeMap::new(), String::new(), String::new());
        Ok(Session {
            client,
            statements,
            server: self.clone(),
            opening,
            lock,
            is_open: false,
            can_retry: false,
        })
    }

    /// What PostgreSQL says, as the ledger's error.
    pub(super) fn failure(&self, error: &postgres::Error) -> LedgerError {
        let place = self.name.clone();
        if let Some(reason) = tls::distrust(error) {
            return LedgerError::Untrusted { place, reason };
        }
        let reason = match error.as_db_error() {
            Some(error) => error.message().to_owned(),
            None => match std::error::Error::source(error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        };
        let is = |states: &[SqlState]| error.code().is_some_and(|code| states.contains(code));
        if is(&[SqlState::LOCK_NOT_AVAILABLE]) {
            LedgerError::Busy { place, wait_ms: self.wait_ms }
        } else if is(&[SqlState::DISK_FULL]) {
            LedgerError::Full { place }
        } else if is(&[SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::INSUFFICIENT_PRIVILEGE]) {
            LedgerError::ReadOnly { place, reason }
        } else if is(&[SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED]) {
            LedgerError::Damaged { place, what: reason }
        } else if is(&[SqlState::INVALID_CATALOG_NAME]) {
            LedgerError::Missing { place }
        } else {
            LedgerError::Failed { place, reason }
        }
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> LedgerError {
        LedgerError::Damaged { place: self.name.clone(), what: what.into() }
    }
}

/// A text as SQL writes it; connections say that only the quote itself needs doubling.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A connection as the ledger's role.
pub(super) struct Session {
    client: Client,
    statements: BTreeMap<String, Statement>,
    pub(super) server: Server,
    /// Statements that open a transaction and were not sent yet.
    opening: String,
    /// What locks the tenant's log, sent after it.
    lock: String,
    /// The transaction was opened.
    pub(super) is_open: bool,
    /// The last failure was of a kind that goes away when the transaction is run again.
    pub(super) can_retry: bool,
}

impl Session {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn failed(&mut self, error: &postgres::Error) -> LedgerError {
        let transient = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
        ];
        let is_transient = error.code().is_some_and(|code| transient.contains(code));
        self.can_retry = is_transient || self.client.is_closed() || error.is_closed();
        self.server.failure(error)
    }

    /// Runs statements without parameters or answers.
    pub(super) fn run(&mut self, sql: &str) -> Result<(), LedgerError> {
        self.client.batch_execute(sql).map_err(|error| self.failed(&error))
    }

    /// Opens a transaction that sees one tenant's rows, or none. It is sent with the first statement of the transaction.
    pub(super) fn begin(&mut self, mode: &str, tenant: Option<&TenantId>) {
        self.is_open = false;
        self.opening = format!("BEGIN {mode};");
        if let Some(tenant) = tenant {
            self.opening.push_str(&format!("SET LOCAL crealeph.tenant = {};", literal(tenant.as_str())));
        }
    }

    /// Opens a transaction that writes. The tenant's log is locked before anything else is, so that no two wait for each
    /// other.
    pub(super) fn begin_writing(&mut self, tenant: Option<&TenantId>) {
        self.begin("ISOLATION LEVEL READ COMMITTED", tenant);
        if let Some(tenant) = tenant {
            self.lock = format!("SELECT FROM logs WHERE tenant = {} FOR UPDATE;", literal(tenant.as_str()));
        }
    }

    /// Lets the next statement lock the log itself.
    pub(super) fn locks_itself(&mut self) -> &mut Session {
        self.lock.clear();
        self
    }

    /// Opens the transaction now, where nothing was sent in it yet.
    pub(super) fn open(&mut self) -> Result<(), LedgerError> {
        match self.take_opening() {
            sql if sql.is_empty() => Ok(()),
            sql => self.run(&sql).inspect(|()| self.is_open = true),
        }
    }

    fn take_opening(&mut self) -> String {
        std::mem::take(&mut self.opening) + &std::mem::take(&mut self.lock)
    }

    /// Runs a question without parameters in one message with the opening, where that was not sent yet: its rows, as text.
    pub(super) fn ask(&mut self, sql: &str) -> Result<Vec<SimpleQueryRow>, LedgerError> {
        let sql = self.take_opening() + sql;
        let answers = self.client.simple_query(&sql).map_err(|error| self.failed(&error))?;
        self.is_open = true;
        Ok(answers
            .into_iter()
            .filter_map(|answer| match answer {
                // The lock of the opening has no columns.
                SimpleQueryMessage::Row(row) if !row.is_empty() => Some(row),
                _ => None,
            })
            .collect())
    }

    fn statement(&mut self, sql: &str) -> Result<Statement, LedgerError> {
        self.open()?;
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).map_err(|error| self.failed(&error))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(super) fn query(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        let statement = self.statement(sql)?;
        self.client.query(&statement, values).map_err(|error| self.failed(&error))
    }

    pub(super) fn execute(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), LedgerError> {
        let statement = self.statement(sql)?;
        self.client.execute(&statement, values).map(|_| ()).map_err(|error| self.failed(&error))
    }
}
