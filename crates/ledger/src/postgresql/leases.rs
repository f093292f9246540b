//! Leases in PostgreSQL, by the server's clock, which all machines share.

use std::time::Duration;

use crealeph_contracts::scalar::{Name, TenantId};
use postgres::types::ToSql;

use super::rows;
use super::session::{Server, Session, Value};
use crate::error::LedgerError;
use crate::lease::{FORGET_AFTER_MS, Holder, Token};
use crate::position::Millis;
use crate::store::{Claimed, LeaseRow, Wanted};

/// The server's clock in milliseconds.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) fn time(session: &mut Session) -> Result<Millis, LedgerError> {
    let found = session.query(&format!("SELECT {NOW}"), &[])?;
    Ok(Millis::new(rows::number(one(&found, session)?, 0, &session.server)?))
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

/// Takes a lease that nobody holds, all in one statement. The log is locked, so whoever released it has committed.
pub(super) fn claim(
    session: &mut Session,
    tenant: &TenantId,
    wanted: &Wanted,
) -> Result<Claimed, LedgerError> {
    let Wanted { name, holder, ttl_ms, unless } = wanted;
    let (execution, after) = match unless {
        Some((execution, after)) => (Some(execution.as_str()), after.as_i64()),
        None => (None, 0),
    };
    let sql = format!(
        "WITH overtaken AS (SELECT FROM entries WHERE tenant = $1 AND execution = $5 AND seq > $6 LIMIT 1), \
         token AS (INSERT INTO lease_tokens AS t (tenant, last) SELECT $1, 1 WHERE NOT EXISTS (SELECT FROM overtaken) \
         ON CONFLICT (tenant) DO UPDATE SET last = t.last + 1 RETURNING last), \
         taken AS (INSERT INTO leases AS l (tenant, name, holder, token, until, ttl) \
         SELECT $1, $2, $3, last, {NOW} + $4, $4 FROM token \
         ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, token = excluded.token, \
         until = excluded.until, ttl = excluded.ttl \
         WHERE l.until <= {NOW} OR l.until - {NOW} > 2 * l.ttl RETURNING token) \
         SELECT (SELECT token FROM taken), EXISTS (SELECT FROM overtaken)"
    );
    let values: [&(dyn ToSql + Sync); 6] =
        [&tenant.as_str(), &name.as_str(), &holder.as_str(), ttl_ms, &execution, &after];
    let found = session.query(&sql, &values)?;
    let row = one(&found, session)?;
    let failed = |error: postgres::Error| session.server.failure(&error);
    let taken: Option<i64> = row.try_get(0).map_err(failed)?;
    match (taken.map(Token::new), row.try_get(1).map_err(failed)?) {
        (Some(token), _) => {
            if token.is_time_to_forget() {
                forget(session, tenant)?;
            }
            Ok(Claimed::Taken(token))
        }
        (None, true) => Ok(Claimed::Overtaken),
        (None, false) => holder_of(session, tenant, name).map(Claimed::Held),
    }
}

/// Who holds a lease that could not be taken. Asked after that, because the statement that tried sees no row that came
/// after it began.
fn holder_of(session: &mut Session, tenant: &TenantId, name: &Name) -> Result<Holder, LedgerError> {
    let sql = format!(
        "SELECT holder, token, until, greatest(until - {NOW}, 0) FROM leases WHERE tenant = $1 AND name = $2"
    );
    let found = session.query(&sql, &[&tenant.as_str(), &name.as_str()])?;
    let (row, server) = (one(&found, session)?, &session.server);
    let holder: &str = row.try_get(0).map_err(|error| server.failure(&error))?;
    let remaining = u64::try_from(rows::number(row, 3, server)?).unwrap_or_default();
    Ok(Holder {
        holder: stored_holder(holder, name, server)?,
        token: Token::new(rows::number(row, 1, server)?),
        until: Millis::new(rows::number(row, 2, server)?),
        remaining: Duration::from_millis(remaining),
    })
}

fn stored_holder(text: &str, name: &Name, server: &Server) -> Result<Name, LedgerError> {
    Name::parse(text)
        .map_err(|_| server.damaged(format!("the holder of the lease `{name}` cannot be read back")))
}

/// A row of name, holder, token, until, time.
pub(super) fn read(row: &postgres::Row, server: &Server) -> Result<LeaseRow, LedgerError> {
    let text = |column| row.try_get::<_, &str>(column).map_err(|error| server.failure(&error));
    let name =
        Name::parse(text(0)?).map_err(|_| server.damaged("the name of a lease cannot be read back"))?;
    Ok(LeaseRow {
        holder: stored_holder(text(1)?, &name, server)?,
        token: Token::new(rows::number(row, 2, server)?),
        until: Millis::new(rows::number(row, 3, server)?),
        ttl_ms: rows::number(row, 4, server)?,
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
    leases: &[(&Name, Token)],
) -> Result<(), LedgerError> {
    let sql = "DELETE FROM leases WHERE tenant = $1 AND name = $2 AND token = $3";
    for (name, token) in leases {
        let values: Vec<Value> =
            vec![Box::new(tenant.to_string()), Box::new(name.to_string()), Box::new(token.as_i64())];
        session.execute_later(sql, values)?;
    }
    Ok(())
}

/// Removes what ran out long ago.
fn forget(session: &mut Session, tenant: &TenantId) -> Result<(), LedgerError> {
    let sql = format!("DELETE FROM leases WHERE tenant = $1 AND until < {NOW} - {FORGET_AFTER_MS}");
    session.execute(&sql, &[&tenant.as_str()])
}

fn one<'r>(found: &'r [postgres::Row], session: &Session) -> Result<&'r postgres::Row, LedgerError> {
    found.first().ok_or_else(|| session.server.damaged("a statement about leases gave no row"))
}
