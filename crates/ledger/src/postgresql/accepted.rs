//! Accepted requests in PostgreSQL. The writer has locked the tenant's log; work of all tenants is found by a function of the
//! owner's, because the ledger's role sees one tenant at a time.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::{ExecutionId, KeyId, Name, RobotId, TenantId};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::ToSql;

use super::leases::NOW;
use super::rows::get;
use super::server::Server;
use super::session::{Session, Value};
use crate::accepted::{AcceptedRequest, RequestName, RequestOutcome, RequestToAccept, RequestToRun};
use crate::error::LedgerError;
use crate::lease::LeaseToken;
use crate::position::Millis;
use crate::query::Query;

/// The columns of a request.
const COLUMNS: &str = "robot, execution, number, attempt, fingerprint, rerun_of, key_id, lease, accepted_at, tries, answer, \
    failure, ended_at";

/// Whether someone holds a request's lease.
fn held() -> String {
    format!(
        "EXISTS (SELECT FROM leases l WHERE l.tenant = a.tenant AND l.name = a.lease \
         AND l.until - {NOW} BETWEEN 1 AND 2 * l.ttl)"
    )
}

pub(super) fn find(
    session: &mut Session,
    tenant: &TenantId,
    name: &RequestName,
) -> Result<Option<AcceptedRequest>, LedgerError> {
    let sql = format!(
        "SELECT {COLUMNS}, {} AS is_held FROM accepted a WHERE tenant = $1 AND robot = $2 AND execution = $3",
        held()
    );
    let RequestName { robot_id, execution_id } = name;
    let found = session.query(&sql, &[&tenant.as_str(), &robot_id.as_str(), &execution_id.as_str()])?;
    found.first().map(|row| read(row, &session.server)).transpose()
}

pub(super) fn list(
    session: &mut Session,
    tenant: &TenantId,
    robot: Option<&RobotId>,
    after: Option<LeaseToken>,
    limit: usize,
) -> Result<Vec<AcceptedRequest>, LedgerError> {
    let (tenant, after, limit) = (tenant.as_str(), after.map_or(0, LeaseToken::as_i64), limit as i64);
    let robot = robot.map(|robot| robot.as_str());
    let of_robot = if robot.is_some() { " AND robot = $4" } else { "" };
    let sql = format!(
        "SELECT {COLUMNS}, {} AS is_held FROM accepted a WHERE tenant = $1 AND ended_at IS NULL AND number > $2{of_robot} \
         ORDER BY number LIMIT $3",
        held()
    );
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &after, &limit];
    values.extend(robot.iter().map(|robot| robot as &(dyn ToSql + Sync)));
    let found = session.query(&sql, &values)?;
    found.iter().map(|row| read(row, &session.server)).collect()
}

pub(super) fn waiting(
    session: &mut Session,
    tenant: &TenantId,
    after: Option<LeaseToken>,
) -> Result<Option<RequestToRun>, LedgerError> {
    let sql = format!(
        "SELECT {COLUMNS}, request, false AS is_held FROM accepted a WHERE tenant = $1 AND ended_at IS NULL \
         AND number > $2 AND NOT {} ORDER BY number LIMIT 1",
        held()
    );
    let found = session.query(&sql, &[&tenant.as_str(), &after.map_or(0, LeaseToken::as_i64)])?;
    let server = &session.server;
    let to_run = |row: &SqlRow| {
        Ok(RequestToRun {
            request: read(row, server)?,
            document: get(row, "request", server)?,
            rerun_of: optional(row, "rerun_of", server, |text| ExecutionId::parse(text).ok())?,
            key_id: optional(row, "key_id", server, |text| KeyId::parse(text).ok())?,
            lease: text(row, "lease", server, |text| Name::parse(text).ok())?,
        })
    };
    found.first().map(to_run).transpose()
}

pub(super) fn tenant_with_work(
    session: &mut Session,
    after: &str,
    ended_before: Millis,
) -> Result<Option<TenantId>, LedgerError> {
    let sql = "SELECT tenant_with_work($1, $2) AS tenant";
    let row = session.query_one(sql, &[&after, &ended_before.get()])?;
    optional(&row, "tenant", &session.server, |text| TenantId::parse(text).ok())
}

/// How many of a tenant and of all are open, each counted up to a limit.
pub(super) fn open(
    session: &mut Session,
    tenant: &TenantId,
    per_tenant: u64,
    total: u64,
) -> Result<(u64, u64), LedgerError> {
    let sql = "SELECT (SELECT count(*) FROM (SELECT FROM accepted WHERE tenant = $1 AND ended_at IS NULL LIMIT $2) AS o) \
               AS own, open_requests($3) AS total";
    let most = |bound: u64| i64::try_from(bound).unwrap_or(i64::MAX);
    let row = session.query_one(sql, &[&tenant.as_str(), &most(per_tenant), &most(total)])?;
    let count = |column| get::<i64>(&row, column, &session.server).map(i64::unsigned_abs);
    Ok((count("own")?, count("total")?))
}

pub(super) fn put(
    session: &mut Session,
    tenant: &TenantId,
    request: &RequestToAccept,
    now: Millis,
) -> Result<LeaseToken, LedgerError> {
    let RequestToAccept { name, attempt, fingerprint, document, rerun_of, key_id, lease } = request;
    let sql = "WITH token AS (INSERT INTO lease_tokens AS t (tenant, last) VALUES ($1, 1) \
               ON CONFLICT (tenant) DO UPDATE SET last = t.last + 1 RETURNING last) \
               INSERT INTO accepted (tenant, robot, execution, number, attempt, fingerprint, request, rerun_of, key_id, \
               lease, accepted_at, tries) SELECT $1, $2, $3, last, $4, $5, $6, $7, $8, $9, $10, 0 FROM token \
               ON CONFLICT (tenant, robot, execution) DO UPDATE SET number = excluded.number, \
               attempt = excluded.attempt, fingerprint = excluded.fingerprint, request = excluded.request, \
               rerun_of = excluded.rerun_of, key_id = excluded.key_id, lease = excluded.lease, \
               accepted_at = excluded.accepted_at, tries = 0, answer = NULL, failure = NULL, ended_at = NULL \
               RETURNING number";
    let values: [&(dyn ToSql + Sync); 10] = [
        &tenant.as_str(),
        &name.robot_id.as_str(),
        &name.execution_id.as_str(),
        &(*attempt as i64),
        &fingerprint.to_string(),
        document,
        &rerun_of.as_ref().map(|id| id.as_str()),
        &key_id.as_ref().map(|id| id.as_str()),
        &lease.as_str(),
        &now.get(),
    ];
    let row = session.query_one(sql, &values)?;
    Ok(LeaseToken::new(get(&row, "number", &session.server)?))
}

pub(super) fn count(
    session: &mut Session,
    tenant: &TenantId,
    name: &RequestName,
    tries: u64,
) -> Result<(), LedgerError> {
    let sql = "UPDATE accepted SET tries = $4 WHERE tenant = $1 AND robot = $2 AND execution = $3";
    defer(session, sql, tenant, name, vec![Box::new(tries as i64)])
}

pub(super) fn end(
    session: &mut Session,
    tenant: &TenantId,
    name: &RequestName,
    outcome: &RequestOutcome,
    now: Millis,
) -> Result<(), LedgerError> {
    let (answer, failure) = match outcome {
        RequestOutcome::Answer(answer) => (Some(answer.clone()), None),
        RequestOutcome::Failure(code) => (None, Some(code.clone())),
    };
    let sql = "UPDATE accepted SET answer = $4, failure = $5, ended_at = $6 \
               WHERE tenant = $1 AND robot = $2 AND execution = $3";
    defer(session, sql, tenant, name, vec![Box::new(answer), Box::new(failure), Box::new(now.get())])
}

pub(super) fn remove(
    session: &mut Session,
    tenant: &TenantId,
    name: &RequestName,
) -> Result<(), LedgerError> {
    let sql = "DELETE FROM accepted WHERE tenant = $1 AND robot = $2 AND execution = $3";
    defer(session, sql, tenant, name, Vec::new())
}

pub(super) fn sweep(session: &mut Session, tenant: &TenantId, before: Millis) -> Result<(), LedgerError> {
    let sql = "DELETE FROM accepted WHERE tenant = $1 AND ended_at IS NOT NULL AND ended_at < $2";
    let values: Vec<Value> = vec![Box::new(tenant.to_string()), Box::new(before.get())];
    session.defer(Query::new('$', sql, values))
}

/// Sends a change of one request together with the next message.
fn defer(
    session: &mut Session,
    sql: &str,
    tenant: &TenantId,
    name: &RequestName,
    more: Vec<Value>,
) -> Result<(), LedgerError> {
    let mut values: Vec<Value> = vec![
        Box::new(tenant.to_string()),
        Box::new(name.robot_id.to_string()),
        Box::new(name.execution_id.to_string()),
    ];
    values.extend(more);
    session.defer(Query::new('$', sql, values))
}

fn read(row: &SqlRow, server: &Server) -> Result<AcceptedRequest, LedgerError> {
    let number = |column| get::<i64>(row, column, server);
    let name = RequestName {
        robot_id: text(row, "robot", server, |text| RobotId::parse(text).ok())?,
        execution_id: text(row, "execution", server, |text| ExecutionId::parse(text).ok())?,
    };
    let ended = (get(row, "ended_at", server)?, get(row, "answer", server)?, get(row, "failure", server)?);
    Ok(AcceptedRequest {
        name,
        number: LeaseToken::new(number("number")?),
        attempt: number("attempt")?.unsigned_abs(),
        fingerprint: text(row, "fingerprint", server, Blake3::parse)?,
        accepted_at: Millis::new(number("accepted_at")?),
        tries: number("tries")?.unsigned_abs(),
        is_held: get(row, "is_held", server)?,
        ended: RequestOutcome::stored(ended.0, ended.1, ended.2),
    })
}

fn text<T>(
    row: &SqlRow,
    column: &str,
    server: &Server,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, LedgerError> {
    optional(row, column, server, parse)?.ok_or_else(|| server.damaged(unreadable(column)))
}

fn optional<T>(
    row: &SqlRow,
    column: &str,
    server: &Server,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, LedgerError> {
    let text: Option<&str> = get(row, column, server)?;
    text.map(|text| parse(text).ok_or_else(|| server.damaged(unreadable(column)))).transpose()
}

fn unreadable(column: &str) -> String {
    format!("the column `{column}` of an accepted request cannot be read back")
}
