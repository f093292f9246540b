//! Leases in PostgreSQL, by the server's clock, which all machines share.

use crealeph_contracts::scalar::{Name, TenantId};
use postgres::types::ToSql;

use super::rows;
use super::session::Session;
use crate::error::LedgerError;
use crate::lease::Token;
use crate::position::Millis;
use crate::store::LeaseRow;

/// Whether a lease is only read, or kept from others until the transaction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    None,
    Row,
}

pub(super) fn time(session: &mut Session) -> Result<Millis, LedgerError> {
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    Ok(Millis::new(one_number(session, sql, &[])?))
}

pub(super) fn find(
    session: &mut Session,
    tenant: &TenantId,
    name: &Name,
    lock: Lock,
) -> Result<Option<LeaseRow>, LedgerError> {
    let lock = if lock == Lock::Row { "FOR UPDATE" } else { "" };
    let sql = format!("SELECT holder, token, until, ttl FROM leases WHERE tenant = $1 AND name = $2 {lock}");
    let found = session.query(&sql, &[&tenant.as_str(), &name.as_str()])?;
    let Some(row) = found.first() else { return Ok(None) };
    let server = &session.server;
    let holder: &str = row.try_get(0).map_err(|error| server.failure(&error))?;
    let holder = Name::parse(holder)
        .map_err(|_| server.damaged(format!("the holder of the lease `{name}` cannot be read back")))?;
    Ok(Some(LeaseRow {
        name: name.clone(),
        holder,
        token: Token::new(rows::number(row, 1, server)?),
        until: Millis::new(rows::number(row, 2, server)?),
        ttl_ms: rows::number(row, 3, server)?,
    }))
}

pub(super) fn next_token(session: &mut Session, tenant: &TenantId) -> Result<Token, LedgerError> {
    let sql = "INSERT INTO lease_tokens AS t (tenant, last) VALUES ($1, 1) \
               ON CONFLICT (tenant) DO UPDATE SET last = t.last + 1 RETURNING last";
    one_number(session, sql, &[&tenant.as_str()]).map(Token::new)
}

pub(super) fn put(session: &mut Session, tenant: &TenantId, lease: &LeaseRow) -> Result<(), LedgerError> {
    let sql = "INSERT INTO leases (tenant, name, holder, token, until, ttl) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (tenant, name) DO UPDATE SET holder = $3, token = $4, until = $5, ttl = $6";
    let LeaseRow { name, holder, token, until, ttl_ms } = lease;
    let values: [&(dyn ToSql + Sync); 6] =
        [&tenant.as_str(), &name.as_str(), &holder.as_str(), &token.as_i64(), &until.get(), ttl_ms];
    session.execute(sql, &values)
}

pub(super) fn remove(
    session: &mut Session,
    tenant: &TenantId,
    name: &Name,
    token: Token,
) -> Result<(), LedgerError> {
    let sql = "DELETE FROM leases WHERE tenant = $1 AND name = $2 AND token = $3";
    session.execute(sql, &[&tenant.as_str(), &name.as_str(), &token.as_i64()])
}

/// Leaves alone what another transaction has locked, which is none of those that nobody needs.
pub(super) fn forget(session: &mut Session, tenant: &TenantId, before: Millis) -> Result<(), LedgerError> {
    let sql = "DELETE FROM leases WHERE tenant = $1 AND name IN \
               (SELECT name FROM leases WHERE tenant = $1 AND until < $2 FOR UPDATE SKIP LOCKED)";
    session.execute(sql, &[&tenant.as_str(), &before.get()])
}

fn one_number(session: &mut Session, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<i64, LedgerError> {
    let found = session.query(sql, values)?;
    let row = found.first().ok_or_else(|| session.server.damaged("a statement about leases gave no row"))?;
    rows::number(row, 0, &session.server)
}
