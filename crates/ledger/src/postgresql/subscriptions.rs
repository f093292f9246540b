//! Subscriptions in PostgreSQL.

use crealeph_contracts::scalar::{Name, TenantId};
use tokio_postgres::Row as SqlRow;

use super::rows::get;
use super::session::Session;
use crate::error::LedgerError;
use crate::position::Seq;
use crate::subscription::{Subscription, SubscriptionProgress};

pub(super) fn list(session: &mut Session, tenant: &TenantId) -> Result<Vec<Subscription>, LedgerError> {
    let sql = "SELECT id, secret, position, notes FROM subscriptions WHERE tenant = $1 ORDER BY id";
    let found = session.query(sql, &[&tenant.as_str()])?;
    let server = &session.server;
    let read = |row: &SqlRow| {
        let unreadable = || server.damaged("a subscription cannot be read back");
        Ok(Subscription {
            id: Name::parse(get(row, "id", server)?).map_err(|_| unreadable())?,
            secret: get(row, "secret", server)?,
            position: Seq::from_i64(get(row, "position", server)?).ok_or_else(unreadable)?,
            notes: get(row, "notes", server)?,
        })
    };
    found.iter().map(read).collect()
}

pub(super) fn tenants(session: &mut Session) -> Result<Vec<TenantId>, LedgerError> {
    let found = session.query("SELECT subscribed_tenants() AS tenant", &[])?;
    let server = &session.server;
    let read = |row: &SqlRow| {
        TenantId::parse(get(row, "tenant", server)?)
            .map_err(|_| server.damaged("a tenant's name cannot be read back"))
    };
    found.iter().map(read).collect()
}

pub(super) fn count(session: &mut Session, tenant: &TenantId) -> Result<usize, LedgerError> {
    let sql = "SELECT count(*) AS count FROM subscriptions WHERE tenant = $1";
    let row = session.query_one(sql, &[&tenant.as_str()])?;
    Ok(get::<i64>(&row, "count", &session.server)?.unsigned_abs() as usize)
}

pub(super) fn add(session: &mut Session, tenant: &TenantId, new: &Subscription) -> Result<(), LedgerError> {
    let sql = "INSERT INTO subscriptions (tenant, id, secret, position, notes) VALUES ($1, $2, $3, $4, $5)";
    let Subscription { id, secret, position, notes } = new;
    session.execute(sql, &[&tenant.as_str(), &id.as_str(), secret, &position.as_i64(), notes])
}

pub(super) fn advance(
    session: &mut Session,
    tenant: &TenantId,
    progress: &SubscriptionProgress,
) -> Result<(), LedgerError> {
    let sql = "UPDATE subscriptions SET position = greatest(position, $3), notes = $4 WHERE tenant = $1 AND id = $2";
    let SubscriptionProgress { id, position, notes, .. } = progress;
    session.execute(sql, &[&tenant.as_str(), &id.as_str(), &position.as_i64(), notes])
}

pub(super) fn remove(session: &mut Session, tenant: &TenantId, id: &Name) -> Result<(), LedgerError> {
    let sql = "DELETE FROM subscriptions WHERE tenant = $1 AND id = $2";
    session.execute(sql, &[&tenant.as_str(), &id.as_str()])
}
