//! One connection: opened as the role that owns nothing, with what PostgreSQL says turned into the ledger's own errors.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crealeph_contracts::scalar::TenantId;
use futures_util::future::join;
use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{NoTls, Row as SqlRow, SimpleQueryMessage, SimpleQueryRow, Statement};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::line::Line;
use super::tls;
use crate::error::LedgerError;

/// The role that everything is done as.
pub(super) const ROLE: &str = "crealeph_ledger";
/// How long plans are kept: one from when the log was small would read all of a tenant's rows for ever.
const PLAN_AGE: Duration = Duration::from_secs(1);

/// How a statement is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planning {
    /// Once, for a while: it finds what it looks for by the same index whatever the values are.
    Kept,
    /// Each time, for the values it is asked with.
    Anew,
}

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
    pub(super) fn connect_as_owner(&self) -> Result<postgres::Client, LedgerError> {
        let config = postgres::Config::from(self.config.clone());
        let connected = match &self.tls {
            Some(tls) => config.connect(tls.clone()),
            None => config.connect(NoTls),
        };
        connected.map_err(|error| self.failure(&error))
    }

    /// A connection that may do only what the ledger needs.
    pub(super) fn connect(&self) -> Result<Session, LedgerError> {
        let opened = Line::open(&self.config, self.tls.as_ref()).map_err(|error| self.broken(&error))?;
        let (client, mut line) = opened.map_err(|error| self.failure(&error))?;
        let settings = format!(
            "SET ROLE {ROLE}; SET synchronous_commit = on; SET search_path = crealeph; \
             SET standard_conforming_strings = on; SET plan_cache_mode = force_generic_plan; \
             SET lock_timeout = {}",
            self.wait_ms
        );
        line.wait(client.batch_execute(&settings)).map_err(|error| self.failure(&error))?;
        let sql = "SELECT rolsuper OR rolbypassrls OR EXISTS (SELECT 1 FROM pg_class WHERE relowner = r.oid \
                   AND relnamespace = 'crealeph'::regnamespace) FROM pg_roles r WHERE rolname = current_user";
        let is_mighty = line.wait(client.query_one(sql, &[])).and_then(|row| row.try_get::<_, bool>(0));
        if is_mighty.map_err(|error| self.failure(&error))? {
            let reason =
                format!("the role {ROLE} may pass the walls between tenants; take that right from it");
            return Err(LedgerError::Foreign { place: self.name.clone(), reason });
        }
        let (statements, opening, lock) = (BTreeMap::new(), String::new(), String::new());
        Ok(Session {
            client,
            line,
            statements,
            server: self.clone(),
            opening,
            lock,
            is_open: false,
            can_retry: false,
            planned: Instant::now(),
            planning: Planning::Kept,
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

    fn broken(&self, error: &std::io::Error) -> LedgerError {
        LedgerError::Failed { place: self.name.clone(), reason: error.to_string() }
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
    line: Line,
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
    /// Since when plans are kept.
    planned: Instant,
    /// How the transaction plans.
    planning: Planning,
}

impl Session {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits, up to a bound, for a notification.
    pub(super) fn wait_for_news(&mut self, time: Duration) -> Result<bool, LedgerError> {
        self.line.wait_for_news(time).map_err(|error| self.failed(&error))
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
        self.line.wait(self.client.batch_execute(sql)).map_err(|error| self.failed(&error))
    }

    /// Ends a transaction that wrote nothing; nobody need wait for that.
    pub(super) fn end_reading(&mut self) {
        self.line.send(self.client.batch_execute("COMMIT"));
    }

    /// Opens a transaction that sees one tenant's rows, or none. It is sent with the first statement of the transaction.
    pub(super) fn begin(&mut self, mode: &str, tenant: Option<&TenantId>) {
        (self.is_open, self.planning) = (false, Planning::Kept);
        self.opening = format!("BEGIN {mode};");
        if self.planned.elapsed() > PLAN_AGE {
            self.planned = Instant::now();
            self.opening.push_str("DISCARD PLANS;");
        }
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
        let answers = self.line.wait(self.client.simple_query(&sql)).map_err(|error| self.failed(&error))?;
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
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.line.wait(self.client.prepare(sql)).map_err(|error| self.failed(&error))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Sends a statement right behind what has to come before it, and waits for both.
    fn ask_prepared<T>(
        &mut self,
        sql: &str,
        planning: Planning,
        ask: impl AsyncFnOnce(&Client, &Statement) -> Result<T, postgres::Error>,
    ) -> Result<T, LedgerError> {
        let statement = self.statement(sql)?;
        let mut before = self.take_opening();
        if planning != self.planning {
            self.planning = planning;
            before.push_str(match planning {
                Planning::Kept => "SET LOCAL plan_cache_mode = force_generic_plan",
                Planning::Anew => "SET LOCAL plan_cache_mode = force_custom_plan",
            });
        }
        let asked = ask(&self.client, &statement);
        let answer = if before.is_empty() {
            self.line.wait(asked)
        } else {
            let done = self.client.batch_execute(&before);
            self.line.wait(async {
                let (done, answer) = join(done, asked).await;
                done.and(answer)
            })
        };
        let answer = answer.map_err(|error| self.failed(&error))?;
        self.is_open = true;
        Ok(answer)
    }

    /// Asks by a statement whose plan is kept.
    pub(super) fn query(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        let ask = async |client: &Client, statement: &Statement| client.query(statement, values).await;
        self.ask_prepared(sql, Planning::Kept, ask)
    }

    /// Asks by a statement that is planned anew, because the best plan depends on the values.
    pub(super) fn query_planned(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        let ask = async |client: &Client, statement: &Statement| client.query(statement, values).await;
        self.ask_prepared(sql, Planning::Anew, ask)
    }

    pub(super) fn execute(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), LedgerError> {
        let ask = async |client: &Client, statement: &Statement| client.execute(statement, values).await;
        self.ask_prepared(sql, Planning::Kept, ask).map(|_| ())
    }
}
