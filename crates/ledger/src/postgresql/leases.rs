//! Leases in PostgreSQL, by the server's clock, which all machines share.

use std::time::Duration;

use crealeph_contracts::scalar::{Name, TenantId};
use tokio_postgres::Row as SqlRow;

use super::rows::get;
use super::server::Server;
use super::session::{Session, Value, references};
use crate::error::LedgerError;
use crate::lease::{FORGET_AFTER_MS, LeaseHolder, LeaseToken};
use crate::position::Millis;
use crate::query::Query;
use crate::store::{ClaimResult, LeaseRequest, LeaseRow};

/// The server's clock in milliseconds.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) fn time(session: &mut Session) -> Result<Millis, LedgerError> {
    let row = session.query_one(&format!("SELECT {NOW} AS now"), &[])?;
    Ok(Millis::new(get(&row, "now", &session.server)?))
}

pub(super) fn find(
    session: &mut Session,
    tenant: &TenantId,
    name: &Name,
) -> Result<Option<LeaseRow>, LedgerError> {
    let sql = "SELECT name, holder, token, until, ttl FROM leases WHERE tenant = $1 AND name = $2";
    let found = session.query(sql, &[&tenant.as_str(), &name.as_str()])?;
    found.first().map(|row| read(row, &session.server)).transpose()
}

/// Takes a lease that no one holds, all in one statement. The log is locked, so a release of it has been committed.
pub(super) fn claim(
    session: &mut Session,
    tenant: &TenantId,
    request: &LeaseRequest,
) -> Result<ClaimResult, LedgerError> {
    let query = claim_query(tenant, request);
    let row = session.query_one(&query.text, &references(&query.values))?;
    let taken: Option<i64> = get(&row, "token", &session.server)?;
    match (taken.map(LeaseToken::new), get(&row, "is_overtaken", &session.server)?) {
        (Some(token), _) => {
            if token.is_time_to_forget() {
                forget(session, tenant)?;
            }
            Ok(ClaimResult::Taken(token))
        }
        (None, true) => Ok(ClaimResult::Overtaken),
        (None, false) => holder_of(session, tenant, &request.name).map(ClaimResult::Held),
    }
}

fn claim_query(tenant: &TenantId, request: &LeaseRequest) -> Query<Value> {
    let LeaseRequest { name, holder, ttl_ms, unless } = request;
    let values: Vec<Value> = vec![
        Box::new(tenant.to_string()),
        Box::new(name.to_string()),
        Box::new(holder.to_string()),
        Box::new(*ttl_ms),
    ];
    let mut query = Query::new('$', "WITH overtaken AS (SELECT ", values);
    match unless {
        Some((execution, after)) => {
            query
                .push("FROM entries WHERE tenant = $1 AND execution = ")
                .bind(Box::new(execution.to_string()));
            query.push(" AND seq > ").bind(Box::new(after.as_i64())).push(" LIMIT 1");
        }
        None => _ = query.push("WHERE false"),
    }
    query.push(&format!(
        "), token AS (INSERT INTO lease_tokens AS t (tenant, last) SELECT $1, 1 WHERE NOT EXISTS (SELECT FROM overtaken) \
         ON CONFLICT (tenant) DO UPDATE SET last = t.last + 1 RETURNING last), \
         taken AS (INSERT INTO leases AS l (tenant, name, holder, token, until, ttl) \
         SELECT $1, $2, $3, last, {NOW} + $4, $4 FROM token \
         ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, token = excluded.token, \
         until = excluded.until, ttl = excluded.ttl \
         WHERE l.until <= {NOW} OR l.until - {NOW} > 2 * l.ttl RETURNING token) \
         SELECT (SELECT token FROM taken) AS token, EXISTS (SELECT FROM overtaken) AS is_overtaken"
    ));
    query
}

/// Who holds a lease that could not be taken. Queried after that, because the statement that tried sees no row that came
/// after it began.
fn holder_of(session: &mut Session, tenant: &TenantId, name: &Name) -> Result<LeaseHolder, LedgerError> {
    let sql = format!(
        "SELECT holder, token, until, greatest(until - {NOW}, 0) AS remaining FROM leases WHERE tenant = $1 AND name = $2"
    );
    let row = &session.query_one(&sql, &[&tenant.as_str(), &name.as_str()])?;
    let server = &session.server;
    let remaining_ms: i64 = get(row, "remaining", server)?;
    Ok(LeaseHolder {
        holder: stored_holder(get(row, "holder", server)?, name, server)?,
        token: LeaseToken::new(get(row, "token", server)?),
        until: Millis::new(get(row, "until", server)?),
        remaining: Duration::from_millis(remaining_ms.unsigned_abs()),
    })
}

fn stored_holder(text: &str, name: &Name, server: &Server) -> Result<Name, LedgerError> {
    Name::parse(text)
        .map_err(|_| server.damaged(format!("the holder of the lease `{name}` cannot be read back")))
}

/// Reads a lease: `name`, `holder`, `token`, `until`, `ttl`.
pub(super) fn read(row: &SqlRow, server: &Server) -> Result<LeaseRow, LedgerError> {
    let name = Name::parse(get(row, "name", server)?)
        .map_err(|_| server.damaged("the name of a lease cannot be read back"))?;
    Ok(LeaseRow {
        holder: stored_holder(get(row, "holder", server)?, &name, server)?,
        token: LeaseToken::new(get(row, "token", server)?),
        until: Millis::new(get(row, "until", server)?),
        ttl_ms: get(row, "ttl", server)?,
        name,
    })
}

pub(super) fn extend(session: &mut Session, tenant: &TenantId, lease: &LeaseRow) -> Result<(), LedgerError> {
    let sql = "UPDATE leases SET until = $3 WHERE tenant = $1 AND name = $2";
    session.execute(sql, &[&tenant.as_str(), &lease.name.as_str(), &lease.until.get()])
}

pub(super) fn remove(
    session: &mut Session,
    tenant: &TenantId,
    leases: &[(&Name, LeaseToken)],
) -> Result<(), LedgerError> {
    for (name, token) in leases {
        let values: Vec<Value> =
            vec![Box::new(tenant.to_string()), Box::new(name.to_string()), Box::new(token.as_i64())];
        let sql = "DELETE FROM leases WHERE tenant = $1 AND name = $2 AND token = $3";
        session.defer(Query::new('$', sql, values))?;
    }
    Ok(())
}

/// Removes leases that expired long ago.
fn forget(session: &mut Session, tenant: &TenantId) -> Result<(), LedgerError> {
    let sql = format!("DELETE FROM leases WHERE tenant = $1 AND until < {NOW} - {FORGET_AFTER_MS}");
    session.execute(&sql, &[&tenant.as_str()])
}
