//! Leases in SQLite, by the time since the machine started. An immediate transaction excludes every other writer, so a row
//! needs no lock of its own.

use crealeph_contracts::scalar::{Name, TenantId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::boot;
use super::failure::LedgerFile;
use crate::error::LedgerError;
use crate::lease::{FORGET_AFTER_MS, Token};
use crate::position::Millis;
use crate::store::{LeaseRequest, LeaseRow};

pub(super) fn find(
    connection: &Connection,
    place: &LedgerFile,
    tenant: &TenantId,
    name: &Name,
) -> Result<Option<LeaseRow>, LedgerError> {
    let sql =
        "SELECT holder, token, iif(boot = ?3, until, 0), ttl FROM leases WHERE tenant = ?1 AND name = ?2";
    let boot = boot::id(place)?;
    let found = connection.prepare_cached(sql).and_then(|mut statement| {
        let read = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get::<_, i64>(3)?))
        };
        statement.query_row([tenant.as_str(), name.as_str(), boot], read).optional()
    });
    let found = found.map_err(|error| place.failure(&error))?;
    found
        .map(|(holder, token, until, ttl_ms)| {
            let holder = Name::parse(&holder).map_err(|_| {
                place.damaged(format!("the holder of the lease `{name}` cannot be read back"))
            })?;
            let (token, until) = (Token::new(token), Millis::new(until));
            Ok(LeaseRow { name: name.clone(), holder, token, until, ttl_ms })
        })
        .transpose()
}

/// Writes a lease that nobody holds, under the tenant's next token.
pub(super) fn take(
    connection: &Connection,
    place: &LedgerFile,
    tenant: &TenantId,
    request: &LeaseRequest,
) -> Result<Token, LedgerError> {
    let (now, boot) = (boot::now(), boot::id(place)?);
    taken(connection, tenant, request, now, boot).map_err(|error| place.failure(&error))
}

fn taken(
    connection: &Connection,
    tenant: &TenantId,
    request: &LeaseRequest,
    now: Millis,
    boot: &str,
) -> rusqlite::Result<Token> {
    let sql = "INSERT INTO lease_tokens (tenant, last) VALUES (?1, 1) \
               ON CONFLICT (tenant) DO UPDATE SET last = last + 1 RETURNING last";
    let mut statement = connection.prepare_cached(sql)?;
    let token = statement.query_row([tenant.as_str()], |row| row.get(0)).map(Token::new)?;
    if token.is_time_to_forget() {
        forget(connection, tenant, Millis::new(now.get() - FORGET_AFTER_MS), boot)?;
    }
    let LeaseRequest { name, holder, ttl_ms, .. } = request;
    let until = Millis::new(now.get() + ttl_ms);
    let row = LeaseRow { name: name.clone(), holder: holder.clone(), token, until, ttl_ms: *ttl_ms };
    write(connection, tenant, &row, boot)?;
    Ok(token)
}

pub(super) fn put(
    connection: &Connection,
    place: &LedgerFile,
    tenant: &TenantId,
    lease: &LeaseRow,
) -> Result<(), LedgerError> {
    write(connection, tenant, lease, boot::id(place)?).map_err(|error| place.failure(&error))
}

fn write(connection: &Connection, tenant: &TenantId, lease: &LeaseRow, boot: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO leases (tenant, name, holder, token, until, ttl, boot) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
         ON CONFLICT (tenant, name) DO UPDATE SET holder = ?3, token = ?4, until = ?5, ttl = ?6, boot = ?7";
    let LeaseRow { name, holder, token, until, ttl_ms } = lease;
    let (name, holder) = (name.as_str(), holder.as_str());
    let values = params![tenant.as_str(), name, holder, token.as_i64(), until.get(), ttl_ms, boot];
    connection.prepare_cached(sql)?.execute(values).map(|_| ())
}

pub(super) fn remove(
    connection: &Connection,
    tenant: &TenantId,
    name: &Name,
    token: Token,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM leases WHERE tenant = ?1 AND name = ?2 AND token = ?3";
    connection
        .prepare_cached(sql)?
        .execute(params![tenant.as_str(), name.as_str(), token.as_i64()])
        .map(|_| ())
}

fn forget(connection: &Connection, tenant: &TenantId, before: Millis, boot: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM leases WHERE tenant = ?1 AND (until < ?2 OR boot <> ?3)";
    connection.execute(sql, params![tenant.as_str(), before.get(), boot]).map(|_| ())
}
