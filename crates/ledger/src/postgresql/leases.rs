//! Leases in PostgreSQL, by the server's clock, which all machines share.

use std::time::Duration;

use crealeph_contracts::scalar::{Name, TenantId};
use postgres::SimpleQueryRow;
use postgres::types::ToSql;

use super::rows;
use super::session::{Server, Session, literal};
use crate::error::LedgerError;
use crate::lease::{FORGET_AFTER_MS, Holder, Token};
use crate::position::Millis;
use crate::store::{Claimed, LeaseRow, Wanted};

/// The server's clock in milliseconds.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) fn time(session: &mut Session) -> Result<Millis, LedgerError> {
    Ok(Millis::new(one_number(session, &format!("SELECT {NOW}"), &[])?))
}

pub(super) fn find(
    session: &mut Session,
    tenant: &TenantId,
    name: &Name,
) -> Result<Option<LeaseRow>, LedgerError> {
    let sql = "SELECT holder, token, until, ttl FROM leases WHERE tenant = $1 AND name = $2";
    let found = session.query(sql, &[&tenant.as_str(), &name.as_str()])?;
    let Some(row) = found.first() else { return Ok(None) };
    let server = &session.server;
    let holder: &str = row.try_get(0).map_err(|error| server.failure(&error))?;
    let holder = stored_holder(holder, name, server)?;
    Ok(Some(LeaseRow {
        name: name.clone(),
        holder,
        token: Token::new(rows::number(row, 1, server)?),
        until: Millis::new(rows::number(row, 2, server)?),
        ttl_ms: rows::number(row, 3, server)?,
    }))
}

/// Takes a lease that nobody holds, all in one message. The log is locked, so whoever released it has committed.
pub(super) fn claim(
    session: &mut Session,
    tenant: &TenantId,
    wanted: &Wanted,
) -> Result<Claimed, LedgerError> {
    let Wanted { name, holder, ttl_ms, unless } = wanted;
    let (tenant_text, name_text) = (literal(tenant.as_str()), literal(name.as_str()));
    let overtaken = match unless {
        Some((execution, after)) => format!(
            "SELECT 'overtaken' FROM entries WHERE tenant = {tenant_text} AND execution = {} AND seq > {after} LIMIT 1",
            literal(execution.as_str())
        ),
        None => "SELECT 'overtaken' WHERE false".to_owned(),
    };
    let now = NOW;
    let found = session.ask(&format!(
        "{overtaken}; \
         WITH token AS (INSERT INTO lease_tokens AS t (tenant, last) SELECT {tenant_text}, 1 \
         WHERE NOT EXISTS ({overtaken}) ON CONFLICT (tenant) DO UPDATE SET last = t.last + 1 RETURNING last) \
         INSERT INTO leases AS l (tenant, name, holder, token, until, ttl) \
         SELECT {tenant_text}, {name_text}, {}, last, {now} + {ttl_ms}, {ttl_ms} FROM token \
         ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, token = excluded.token, \
         until = excluded.until, ttl = excluded.ttl \
         WHERE l.until <= {now} OR l.until - {now} > 2 * l.ttl RETURNING 'taken', token; \
         SELECT 'held', holder, token, until, greatest(until - {now}, 0) FROM leases \
         WHERE tenant = {tenant_text} AND name = {name_text}",
        literal(holder.as_str()),
    ))?;
    let Some(row) = found.first() else {
        return Err(session.server.damaged(format!("the lease `{name}` can neither be taken nor read")));
    };
    let number = |column| rows::number_from_text(row, column, &session.server);
    match text(row, 0) {
        "overtaken" => Ok(Claimed::Overtaken),
        "taken" => {
            let token = Token::new(number(1)?);
            if token.is_time_to_forget() {
                forget(session, tenant)?;
            }
            Ok(Claimed::Taken(token))
        }
        _ => {
            let holder = stored_holder(text(row, 1), name, &session.server)?;
            let (token, until) = (Token::new(number(2)?), Millis::new(number(3)?));
            let remaining = Duration::from_millis(u64::try_from(number(4)?).unwrap_or_default());
            Ok(Claimed::Held(Holder { holder, token, until, remaining }))
        }
    }
}

fn stored_holder(text: &str, name: &Name, server: &Server) -> Result<Name, LedgerError> {
    Name::parse(text)
        .map_err(|_| server.damaged(format!("the holder of the lease `{name}` cannot be read back")))
}

/// Of these leases those that are there, from rows of text: name, holder, token, until, time.
pub(super) fn from_text(row: &SimpleQueryRow, server: &Server) -> Result<LeaseRow, LedgerError> {
    let name =
        Name::parse(text(row, 0)).map_err(|_| server.damaged("the name of a lease cannot be read back"))?;
    let number = |column| rows::number_from_text(row, column, server);
    Ok(LeaseRow {
        holder: stored_holder(text(row, 1), &name, server)?,
        token: Token::new(number(2)?),
        until: Millis::new(number(3)?),
        ttl_ms: number(4)?,
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
    let sql = "DELETE FROM leases l USING unnest($2::text[], $3::bigint[]) AS w (name, token) \
               WHERE l.tenant = $1 AND l.name = w.name AND l.token = w.token";
    let (names, tokens): (Vec<&str>, Vec<i64>) =
        leases.iter().map(|(name, token)| (name.as_str(), token.as_i64())).unzip();
    session.execute(sql, &[&tenant.as_str(), &names, &tokens])
}

/// Removes what ran out long ago.
fn forget(session: &mut Session, tenant: &TenantId) -> Result<(), LedgerError> {
    let sql = format!("DELETE FROM leases WHERE tenant = $1 AND until < {NOW} - {FORGET_AFTER_MS}");
    session.execute(&sql, &[&tenant.as_str()])
}

fn text(row: &SimpleQueryRow, column: usize) -> &str {
    row.try_get(column).ok().flatten().unwrap_or_default()
}

fn one_number(session: &mut Session, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<i64, LedgerError> {
    let found = session.query(sql, values)?;
    let row = found.first().ok_or_else(|| session.server.damaged("a statement about leases gave no row"))?;
    rows::number(row, 0, &session.server)
}
