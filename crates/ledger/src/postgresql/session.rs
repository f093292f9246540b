//! One connection: opened as the role that owns nothing, with what PostgreSQL says turned into the ledger's own errors.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crealeph_contracts::scalar::TenantId;
use futures_util::future::{join_all, join4};
use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{NoTls, Row as SqlRow, Statement};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::line::Line;
use super::parameters::Parameters;
use super::tls;
use crate::error::LedgerError;
use crate::position::Seq;

/// The role that everything was done as before version 3, whose databases have roles of their own.
const SHARED_ROLE: &str = "crealeph_ledger";
/// How long a statement that writes may take, and one that reads; an audit counts a whole log.
const WRITING_MS: u64 = 60_000;
const READING_MS: u64 = 600_000;
/// After how long a silent other side is taken for dead.
const DEAD_AFTER: Duration = Duration::from_secs(30);
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
    roles: Roles,
}

/// The roles of a database, as its owner named them.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    /// Reads and appends in one tenant.
    pub(super) ledger: String,
    /// Reads every row; databases of older versions have none.
    pub(super) audit: Option<String>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
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

    /// Tries again for as long as may be waited while the server has no connection to give.
    fn with_patience<T>(
        &self,
        mut connect: impl FnMut() -> Result<T, postgres::Error>,
    ) -> Result<T, LedgerError> {
        let passing = [SqlState::TOO_MANY_CONNECTIONS, SqlState::CANNOT_CONNECT_NOW];
        let start = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            match connect() {
                Ok(connected) => return Ok(connected),
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

    /// A connection as whoever the URL names.
    pub(super) fn connect_as_owner(&self) -> Result<postgres::Client, LedgerError> {
        let config = postgres::Config::from(self.config.clone());
        self.with_patience(|| match &self.tls {
            Some(tls) => config.connect(tls.clone()),
            None => config.connect(NoTls),
        })
    }

    /// A connection that may do only what the ledger needs.
    pub(super) fn connect(&self, wanted: Use) -> Result<Session, LedgerError> {
        let mut broken = None;
        let opened = self.with_patience(|| match Line::open(&self.config, self.tls.as_ref()) {
            Ok(opened) => opened.map(Some),
            Err(error) => {
                broken = Some(self.broken(&error));
                Ok(None)
            }
        })?;
        let Some((client, mut line)) = opened else { return Err(broken.unwrap_or(LedgerError::Closed)) };
        let (role, wait_ms) = (quoted(&self.roles.ledger), self.wait_ms);
        let statement_ms = wait_ms.saturating_mul(2).max(match wanted {
            Use::Reading => READING_MS,
            Use::Writing => WRITING_MS,
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
        line.wait(client.batch_execute(&settings)).map_err(|error| self.failure(&error))?;
        let sql = "SELECT rolsuper OR rolbypassrls OR EXISTS (SELECT 1 FROM pg_class WHERE relowner = r.oid \
                   AND relnamespace = 'crealeph'::regnamespace) FROM pg_roles r WHERE rolname = current_user";
        let is_mighty = line.wait(client.query_one(sql, &[])).and_then(|row| row.try_get::<_, bool>(0));
        if is_mighty.map_err(|error| self.failure(&error))? {
            let reason = format!(
                "the role {role} can bypass row-level security; revoke SUPERUSER and BYPASSRLS from it"
            );
            return Err(LedgerError::Foreign { place: self.name.clone(), reason });
        }
        Ok(Session {
            client,
            line,
            statements: BTreeMap::new(),
            server: self.clone(),
            opening: String::new(),
            lock: None,
            later: Vec::new(),
            is_open: false,
            can_retry: false,
            planned: Instant::now(),
            planning: Planning::Kept,
        })
    }

    /// What PostgreSQL says, in its words.
    pub(super) fn reason(&self, error: &postgres::Error) -> String {
        match (error.as_db_error(), std::error::Error::source(error)) {
            (Some(error), _) => error.message().to_owned(),
            (None, Some(source)) => format!("{error}: {source}"),
            (None, None) => error.to_string(),
        }
    }

    /// What PostgreSQL says, as the ledger's error.
    pub(super) fn failure(&self, error: &postgres::Error) -> LedgerError {
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

    fn broken(&self, error: &std::io::Error) -> LedgerError {
        LedgerError::Failed { place: self.name.clone(), reason: error.to_string() }
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> LedgerError {
        LedgerError::Damaged { place: self.name.clone(), seq: None, what: what.into() }
    }

    /// An entry that was read does not fit what was written.
    pub(super) fn damaged_entry(&self, seq: Seq, what: impl Into<String>) -> LedgerError {
        LedgerError::Damaged { place: self.name.clone(), seq: Some(seq), what: what.into() }
    }
}

/// A text as SQL writes it; connections say that only the quote itself needs doubling.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as SQL writes it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value that a statement keeps until it is sent.
pub(super) type Value = Box<dyn ToSql + Sync + Send>;
/// A statement and its values.
pub(super) type Ask<'a> = (&'a str, &'a [&'a (dyn ToSql + Sync)]);

/// Why a transaction is not known to be committed.
pub(super) enum Uncommitted {
    /// It is not.
    Failed(LedgerError),
    /// The connection broke before the answer came.
    Unknown(LedgerError),
}

/// Locks a log, without a column.
const LOCK: &str = "SELECT FROM logs WHERE tenant = $1 FOR UPDATE";

/// A connection as the ledger's role.
pub(super) struct Session {
    client: Client,
    line: Line,
    statements: BTreeMap<String, Statement>,
    pub(super) server: Server,
    /// Statements that open a transaction and were not sent yet.
    opening: String,
    /// The tenant whose log is locked right after it.
    lock: Option<String>,
    /// Statements whose answers nobody waits for before the next question or the commit.
    later: Vec<(Statement, Vec<Value>)>,
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

    /// Whether the login of this connection may see every row.
    pub(super) fn may_audit(&mut self) -> Result<bool, LedgerError> {
        let Some(role) = self.server.roles.audit.clone() else { return Ok(false) };
        let found = self.query("SELECT pg_has_role(session_user, $1::text::name, 'MEMBER')", &[&role])?;
        let is_member = found.first().map(|row| row.try_get(0)).transpose();
        Ok(is_member.map_err(|error| self.failed(&error))?.unwrap_or(false))
    }

    /// Asks as the role that sees every row, in a transaction that reads.
    pub(super) fn as_auditor<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let Roles { ledger, audit } = self.server.roles.clone();
        let Some(audit) = audit else { return ask(self) };
        // The first question of a transaction opens it.
        self.query("SELECT 1", &[])?;
        self.run(&format!("SET LOCAL ROLE {}", quoted(&audit))).map_err(|error| match error {
            LedgerError::Denied { place, reason, .. } => {
                let next = format!("let the owner of the database run `GRANT {audit} TO …`");
                LedgerError::Denied { place, reason, next }
            }
            other => other,
        })?;
        let answer = ask(self)?;
        self.run(&format!("SET LOCAL ROLE {}", quoted(&ledger)))?;
        Ok(answer)
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
        self.later.clear();
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
        self.lock = tenant.map(|tenant| tenant.as_str().to_owned());
    }

    /// Lets the next statement lock the log itself.
    pub(super) fn locks_itself(&mut self) -> &mut Session {
        self.lock = None;
        self
    }

    fn statement(&mut self, sql: &str) -> Result<Statement, LedgerError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.line.wait(self.client.prepare(sql)).map_err(|error| self.failed(&error))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Sends statements right behind what has to come before them, all at once, and waits for all.
    fn ask(&mut self, planning: Planning, asks: &[Ask<'_>]) -> Result<Vec<Vec<SqlRow>>, LedgerError> {
        let statements = asks.iter().map(|(sql, _)| self.statement(sql)).collect::<Result<Vec<_>, _>>()?;
        let lock =
            self.lock.take().map(|tenant| self.statement(LOCK).map(|lock| (lock, tenant))).transpose()?;
        let mut before = std::mem::take(&mut self.opening);
        if planning != self.planning {
            self.planning = planning;
            before.push_str(match planning {
                Planning::Kept => "SET LOCAL plan_cache_mode = force_generic_plan",
                Planning::Anew => "SET LOCAL plan_cache_mode = force_custom_plan",
            });
        }
        let later = std::mem::take(&mut self.later);
        let client = &self.client;
        let answers = self.line.wait(async {
            let asked =
                statements.iter().zip(asks).map(|(statement, (_, values))| client.query(statement, values));
            let (done, locked, added, asked) = join4(
                run(client, &before),
                locked(client, lock.as_ref()),
                add(client, &later),
                join_all(asked),
            )
            .await;
            done.and(locked).and(added)?;
            asked.into_iter().collect::<Result<Vec<_>, _>>()
        });
        let answers = answers.map_err(|error| self.failed(&error))?;
        self.is_open = true;
        Ok(answers)
    }

    /// Asks by a statement whose plan is kept.
    pub(super) fn query(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        self.ask(Planning::Kept, &[(sql, values)]).map(|answers| answers.into_iter().flatten().collect())
    }

    /// Asks by several at once.
    pub(super) fn query_all(&mut self, asks: &[Ask<'_>]) -> Result<Vec<Vec<SqlRow>>, LedgerError> {
        self.ask(Planning::Kept, asks)
    }

    /// Asks by a statement that is planned anew, because the best plan depends on the values.
    pub(super) fn query_planned(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        self.ask(Planning::Anew, &[(sql, values)]).map(|answers| answers.into_iter().flatten().collect())
    }

    pub(super) fn execute(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), LedgerError> {
        self.query(sql, values).map(|_| ())
    }

    /// Runs a statement with the next question or the commit, whichever comes first; that fails where this does.
    pub(super) fn execute_later(&mut self, sql: &str, values: Vec<Value>) -> Result<(), LedgerError> {
        let statement = self.statement(sql)?;
        self.later.push((statement, values));
        Ok(())
    }

    /// Commits, with what was left for later.
    pub(super) fn commit(&mut self) -> Result<(), Uncommitted> {
        let lock = self.lock.take().map(|tenant| self.statement(LOCK).map(|lock| (lock, tenant)));
        let lock = lock.transpose().map_err(Uncommitted::Failed)?;
        let (before, later) = (std::mem::take(&mut self.opening), std::mem::take(&mut self.later));
        let client = &self.client;
        let answers = self.line.wait(async {
            let sent = join4(
                run(client, &before),
                locked(client, lock.as_ref()),
                add(client, &later),
                run(client, "COMMIT"),
            );
            let (done, locked, added, committed) = sent.await;
            Ok((done.and(locked).and(added), committed))
        });
        // What the server refused, it did not commit. What it left without an answer it may have.
        let (error, is_refused) = match answers {
            Ok((Ok(()), Ok(()))) => return Ok(()),
            Ok((Err(error), _)) => {
                let is_refused = error.as_db_error().is_some();
                (error, is_refused)
            }
            Ok((Ok(()), Err(error))) | Err(error) => (error, false),
        };
        let failure = self.failed(&error);
        match is_refused || !self.can_retry {
            true => Err(Uncommitted::Failed(failure)),
            false => Err(Uncommitted::Unknown(failure)),
        }
    }
}

async fn run(client: &Client, sql: &str) -> Result<(), postgres::Error> {
    if sql.is_empty() { Ok(()) } else { client.batch_execute(sql).await }
}

async fn locked(client: &Client, lock: Option<&(Statement, String)>) -> Result<(), postgres::Error> {
    match lock {
        Some((statement, tenant)) => client.execute(statement, &[tenant]).await.map(|_| ()),
        None => Ok(()),
    }
}

async fn add(client: &Client, later: &[(Statement, Vec<Value>)]) -> Result<(), postgres::Error> {
    let added = join_all(later.iter().map(async |(statement, values)| {
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        client.execute(statement, &values).await
    }));
    added.await.into_iter().find_map(Result::err).map_or(Ok(()), Err)
}
