//! Subscriptions in SQLite.

use crealeph_contracts::scalar::{Name, TenantId};
use rusqlite::{Connection, params};

use super::failure::{InFile as _, LedgerFile};
use crate::error::LedgerError;
use crate::position::Seq;
use crate::subscription::{Subscription, SubscriptionProgress};

pub(super) fn list(
    connection: &Connection,
    place: &LedgerFile,
    tenant: &TenantId,
) -> Result<Vec<Subscription>, LedgerError> {
    let sql = "SELECT id, secret, position, notes FROM subscriptions WHERE tenant = ?1 ORDER BY id";
    let mut statement = connection.prepare_cached(sql).in_file(place)?;
    let mut found = statement.query([tenant.as_str()]).in_file(place)?;
    let mut all = Vec::new();
    while let Some(row) = found.next().in_file(place)? {
        let (id, position): (String, i64) = (row.get(0).in_file(place)?, row.get(2).in_file(place)?);
        let unreadable = || place.damaged("a subscription cannot be read back");
        all.push(Subscription {
            id: Name::parse(&id).map_err(|_| unreadable())?,
            secret: row.get(1).in_file(place)?,
            position: Seq::from_i64(position).ok_or_else(unreadable)?,
            notes: row.get(3).in_file(place)?,
        });
    }
    Ok(all)
}

pub(super) fn tenants(connection: &Connection, place: &LedgerFile) -> Result<Vec<TenantId>, LedgerError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare_cached("SELECT DISTINCT tenant FROM subscriptions")?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let parse = |tenant: &String| {
        TenantId::parse(tenant).map_err(|_| place.damaged("a tenant's name cannot be read back"))
    };
    read().in_file(place)?.iter().map(parse).collect()
}

pub(super) fn count(connection: &Connection, tenant: &TenantId) -> rusqlite::Result<usize> {
    let sql = "SELECT count(*) FROM subscriptions WHERE tenant = ?1";
    let found: i64 = connection.query_row(sql, [tenant.as_str()], |row| row.get(0))?;
    Ok(found.unsigned_abs() as usize)
}

pub(super) fn add(connection: &Connection, tenant: &TenantId, new: &Subscription) -> rusqlite::Result<()> {
    let sql = "INSERT INTO subscriptions (tenant, id, secret, position, notes) VALUES (?1, ?2, ?3, ?4, ?5)";
    let Subscription { id, secret, position, notes } = new;
    let values = params![tenant.as_str(), id.as_str(), secret, position.as_i64(), notes];
    connection.execute(sql, values).map(|_| ())
}

pub(super) fn advance(
    connection: &Connection,
    tenant: &TenantId,
    progress: &SubscriptionProgress,
) -> rusqlite::Result<()> {
    let sql =
        "UPDATE subscriptions SET position = max(position, ?3), notes = ?4 WHERE tenant = ?1 AND id = ?2";
    let SubscriptionProgress { id, position, notes, .. } = progress;
    let values = params![tenant.as_str(), id.as_str(), position.as_i64(), notes];
    connection.prepare_cached(sql)?.execute(values).map(|_| ())
}

pub(super) fn remove(connection: &Connection, tenant: &TenantId, id: &Name) -> rusqlite::Result<()> {
    let sql = "DELETE FROM subscriptions WHERE tenant = ?1 AND id = ?2";
    connection.execute(sql, [tenant.as_str(), id.as_str()]).map(|_| ())
}
