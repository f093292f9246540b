//! A connection and the transaction on it. A transaction costs few messages: its start is sent with
//! its first query, and statements that need no answer with the next query or the commit.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crealeph_contracts::scalar::TenantId;
use futures_util::future::{join_all, join4};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row as SqlRow, Statement};

use super::connection::Connection;
use super::rows::get;
use super::server::{Roles, Server, literal, quoted};
use crate::error::LedgerError;
use crate::query::Query;

/// How long plans are kept: one from when the log was small would later read all of a tenant's rows.
const PLAN_AGE: Duration = Duration::from_secs(1);
/// Locks a log, without a column.
const LOCK: &str = "SELECT FROM logs WHERE tenant = $1 FOR UPDATE";

/// A value of a statement.
pub(super) type Value = Box<dyn ToSql + Sync + Send>;

/// The state of a session's transaction.
#[derive(Debug)]
enum TransactionState {
    /// There is none.
    Idle,
    /// The next message opens it.
    Opening(Opening),
    /// The server has opened it.
    Open(Planning),
}

/// How a transaction starts.
#[derive(Debug)]
struct Opening {
    sql: String,
    /// The tenant whose log is locked right after it, before anything else is.
    lock: Option<String>,
}

/// How a transaction plans its statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planning {
    /// Once, for a while: a statement finds its rows by the same index whatever the values are.
    Kept,
    /// Each time, for the values of the statement.
    Fresh,
}

/// Why a transaction is not known to be committed.
pub(super) enum Uncommitted {
    /// It is not.
    Failed(LedgerError),
    /// The connection broke before the answer came.
    Unknown(LedgerError),
}

/// A connection: as the ledger's role, or as the owner of the database to make or migrate it.
pub(super) struct Session {
    connection: Connection,
    pub(super) server: Server,
    statements: BTreeMap<String, Statement>,
    /// Since when plans are kept.
    planned: Instant,
    transaction: TransactionState,
    /// Statements whose answers are not awaited before the next query or the commit.
    deferred: Vec<(Statement, Vec<Value>)>,
    /// The last failure of this transaction was temporary, so it can be run again.
    can_retry: bool,
}

impl Session {
    pub(super) fn new(connection: Connection, server: Server) -> Session {
        Session {
            connection,
            server,
            statements: BTreeMap::new(),
            planned: Instant::now(),
            transaction: TransactionState::Idle,
            deferred: Vec::new(),
            can_retry: false,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Ends the connection, and waits until the server has closed it.
    pub(super) fn close(self) {
        self.connection.close();
    }

    /// Whether the server has opened the transaction.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.transaction, TransactionState::Open(_))
    }

    /// Whether the transaction failed temporarily, so that it can be run again.
    pub(super) fn can_retry(&self) -> bool {
        self.can_retry
    }

    /// Waits, up to a bound, for a notification.
    pub(super) fn wait_for_news(&mut self, time: Duration) -> Result<bool, LedgerError> {
        self.connection.wait_for_news(time).map_err(|error| self.failed(&error))
    }

    fn failed(&mut self, error: &Error) -> LedgerError {
        let transient = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
        ];
        let is_transient = error.code().is_some_and(|code| transient.contains(code));
        self.can_retry = is_transient || self.connection.is_closed() || error.is_closed();
        self.server.failure(error)
    }

    /// Runs statements without parameters or answers, as they are.
    pub(super) fn run(&mut self, sql: &str) -> Result<(), LedgerError> {
        let done = self.connection.wait(async |client| client.batch_execute(sql).await);
        done.map_err(|error| self.failed(&error))
    }

    /// The row of a query that has exactly one.
    pub(super) fn query_one(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<SqlRow, LedgerError> {
        let found = self.query(sql, values)?.into_iter().next();
        found.ok_or_else(|| self.server.unanswered())
    }

    /// Runs the owner's work in a transaction that sees one tenant's rows; on an error nothing of it is kept.
    pub(super) fn transact<T>(
        &mut self,
        tenant: Option<&TenantId>,
        work: impl FnOnce(&mut Session) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let tenant = tenant.map(|tenant| format!("SET LOCAL crealeph.tenant = {}", literal(tenant.as_str())));
        self.run(&format!("BEGIN; {}", tenant.as_deref().unwrap_or("")))?;
        let done = work(self).and_then(|done| self.run("COMMIT").map(|()| done));
        if done.is_err() {
            // The transaction was lost with the connection.
            let _ = self.run("ROLLBACK");
        }
        done
    }

    /// Opens a transaction that sees one tenant's rows in one snapshot, or no rows, and writes nothing.
    pub(super) fn begin_reading(&mut self, tenant: Option<&TenantId>) {
        self.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY", tenant, None);
    }

    /// Opens a transaction that writes. It locks the tenant's log before anything else, so that no two wait for each
    /// other.
    pub(super) fn begin_writing(&mut self, tenant: Option<&TenantId>) {
        let lock = tenant.map(|tenant| tenant.as_str().to_owned());
        self.begin("ISOLATION LEVEL READ COMMITTED", tenant, lock);
    }

    fn begin(&mut self, mode: &str, tenant: Option<&TenantId>, lock: Option<String>) {
        let mut sql = format!("BEGIN {mode};");
        if self.planned.elapsed() > PLAN_AGE {
            self.planned = Instant::now();
            sql.push_str("DISCARD PLANS;");
        }
        if let Some(tenant) = tenant {
            sql.push_str(&format!("SET LOCAL crealeph.tenant = {};", literal(tenant.as_str())));
        }
        self.transaction = TransactionState::Opening(Opening { sql, lock });
        self.deferred.clear();
        self.can_retry = false;
    }

    /// Ends a transaction that wrote nothing; no one needs to wait for that.
    pub(super) fn end_reading(&mut self) {
        self.transaction = TransactionState::Idle;
        self.connection.send("COMMIT");
    }

    /// Queries with a statement whose plan is kept.
    pub(super) fn query(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        self.ask(Planning::Kept, &[(sql, values)]).map(|answers| answers.into_iter().flatten().collect())
    }

    /// Queries with a statement that is planned each time, because the best plan depends on the values.
    pub(super) fn query_planned(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        self.ask(Planning::Fresh, &[(sql, values)]).map(|answers| answers.into_iter().flatten().collect())
    }

    /// The same with a statement that was built from parts.
    pub(super) fn query_built(&mut self, query: &Query<Value>) -> Result<Vec<SqlRow>, LedgerError> {
        self.query_planned(&query.text, &references(&query.values))
    }

    /// Sends several queries in one message, with statements whose plans are kept.
    pub(super) fn query_all(&mut self, queries: &[Query<Value>]) -> Result<Vec<Vec<SqlRow>>, LedgerError> {
        let values: Vec<_> = queries.iter().map(|query| references(&query.values)).collect();
        let asks: Vec<Ask<'_>> = queries
            .iter()
            .zip(&values)
            .map(|(query, values)| (query.text.as_str(), values.as_slice()))
            .collect();
        self.ask(Planning::Kept, &asks)
    }

    /// The same, with statements of which the first locks the log itself.
    pub(super) fn query_all_locking(
        &mut self,
        queries: &[Query<Value>],
    ) -> Result<Vec<Vec<SqlRow>>, LedgerError> {
        if let TransactionState::Opening(opening) = &mut self.transaction {
            opening.lock = None;
        }
        self.query_all(queries)
    }

    pub(super) fn execute(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), LedgerError> {
        self.query(sql, values).map(|_| ())
    }

    /// Runs a statement with the next query or the commit, whichever comes first; that fails if this does.
    pub(super) fn defer(&mut self, query: Query<Value>) -> Result<(), LedgerError> {
        let statement = self.statement(&query.text)?;
        self.deferred.push((statement, query.values));
        Ok(())
    }

    /// Sends statements right after those that must come first, all at once, and waits for all.
    fn ask(&mut self, planning: Planning, asks: &[Ask<'_>]) -> Result<Vec<Vec<SqlRow>>, LedgerError> {
        let statements = asks.iter().map(|(sql, _)| self.statement(sql)).collect::<Result<Vec<_>, _>>()?;
        let Prelude { sql, lock, deferred } = self.prelude(Some(planning))?;
        let answers = self.connection.wait(async |client| {
            let asked =
                statements.iter().zip(asks).map(|(statement, (_, values))| client.query(statement, values));
            let (opened, locked, done, asked) = join4(
                run(client, &sql),
                lock_log(client, lock.as_ref()),
                run_deferred(client, &deferred),
                join_all(asked),
            )
            .await;
            opened.and(locked).and(done)?;
            asked.into_iter().collect::<Result<Vec<_>, _>>()
        });
        let answers = answers.map_err(|error| self.failed(&error))?;
        self.transaction = TransactionState::Open(planning);
        Ok(answers)
    }

    /// Commits, with the deferred statements.
    pub(super) fn commit(&mut self) -> Result<(), Uncommitted> {
        let Prelude { sql, lock, deferred } = self.prelude(None).map_err(Uncommitted::Failed)?;
        let answers = self.connection.wait(async |client| {
            let sent = join4(
                run(client, &sql),
                lock_log(client, lock.as_ref()),
                run_deferred(client, &deferred),
                run(client, "COMMIT"),
            );
            let (opened, locked, done, committed) = sent.await;
            Ok((opened.and(locked).and(done), committed))
        });
        // A statement that the server refused was not committed. One without an answer may have been.
        let (error, is_refused) = match answers {
            Ok((Ok(()), Ok(()))) => {
                self.transaction = TransactionState::Idle;
                return Ok(());
            }
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

    /// Takes what the next message sends first: the start of the transaction or a change of its planning, and deferred statements.
    fn prelude(&mut self, planning: Option<Planning>) -> Result<Prelude, LedgerError> {
        let (mut sql, lock, current) = match &mut self.transaction {
            TransactionState::Idle => (String::new(), None, Planning::Kept),
            TransactionState::Opening(Opening { sql, lock }) => {
                (std::mem::take(sql), lock.take(), Planning::Kept)
            }
            TransactionState::Open(current) => (String::new(), None, *current),
        };
        if let Some(planning) = planning.filter(|planning| *planning != current) {
            sql.push_str(match planning {
                Planning::Kept => "SET LOCAL plan_cache_mode = force_generic_plan",
                Planning::Fresh => "SET LOCAL plan_cache_mode = force_custom_plan",
            });
        }
        let lock = lock.map(|tenant| self.statement(LOCK).map(|lock| (lock, tenant))).transpose()?;
        Ok(Prelude { sql, lock, deferred: std::mem::take(&mut self.deferred) })
    }

    fn statement(&mut self, sql: &str) -> Result<Statement, LedgerError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let prepared = self.connection.wait(async |client| client.prepare(sql).await);
        let statement = prepared.map_err(|error| self.failed(&error))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Whether the login of this connection may see every row.
    pub(super) fn may_audit(&mut self) -> Result<bool, LedgerError> {
        let Some(role) = self.server.roles.audit.clone() else { return Ok(false) };
        let sql = "SELECT pg_has_role(session_user, $1::text::name, 'MEMBER') AS is_member";
        let found = self.query(sql, &[&role])?;
        found.first().map_or(Ok(false), |row| get(row, "is_member", &self.server))
    }

    /// Queries as the role that sees every row, in a transaction that reads.
    pub(super) fn as_auditor<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let Roles { ledger, audit } = self.server.roles.clone();
        let Some(audit) = audit else { return ask(self) };
        if !self.is_open() {
            self.query("SELECT 1", &[])?;
        }
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
}

/// A statement and its values.
type Ask<'a> = (&'a str, &'a [&'a (dyn ToSql + Sync)]);

/// What a message sends before its own statements, in this order.
struct Prelude {
    sql: String,
    lock: Option<(Statement, String)>,
    deferred: Vec<(Statement, Vec<Value>)>,
}

pub(super) fn references(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
}

async fn run(client: &Client, sql: &str) -> Result<(), Error> {
    if sql.is_empty() { Ok(()) } else { client.batch_execute(sql).await }
}

async fn lock_log(client: &Client, lock: Option<&(Statement, String)>) -> Result<(), Error> {
    match lock {
        Some((statement, tenant)) => client.execute(statement, &[tenant]).await.map(|_| ()),
        None => Ok(()),
    }
}

async fn run_deferred(client: &Client, deferred: &[(Statement, Vec<Value>)]) -> Result<(), Error> {
    let done = join_all(
        deferred.iter().map(async |(statement, values)| client.execute(statement, &references(values)).await),
    );
    done.await.into_iter().find_map(Result::err).map_or(Ok(()), Err)
}
