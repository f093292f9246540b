//! Leases in SQLite, by the time since the machine started. An immediate transaction excludes every other writer, so a row
//! needs no lock.

use crealeph_contracts::scalar::{Name, TenantId};
use rusqlite::{Connection, params};

use super::boot;
use super::failure::{InFile as _, LedgerFile};
use crate::error::LedgerError;
use crate::lease::{FORGET_AFTER_MS, LeaseToken};
use crate::position::Millis;
use crate::store::{LeaseRequest, LeaseRow};

/// The leases of a tenant.
pub(super) struct TenantLeases<'a> {
    pub(super) connection: &'a Connection,
    pub(super) place: &'a LedgerFile,
    pub(super) tenant: &'a TenantId,
}

impl TenantLeases<'_> {
    pub(super) fn find(&self, name: &Name) -> Result<Option<LeaseRow>, LedgerError> {
        let sql = "SELECT holder, token, iif(boot = ?3, until, 0) AS until, ttl FROM leases \
                   WHERE tenant = ?1 AND name = ?2";
        let mut statement = self.connection.prepare_cached(sql).in_file(self.place)?;
        let key = [self.tenant.as_str(), name.as_str(), boot::id(self.place)?];
        let mut found = statement.query(key).in_file(self.place)?;
        let Some(row) = found.next().in_file(self.place)? else { return Ok(None) };
        let holder: String = row.get("holder").in_file(self.place)?;
        let unreadable = || format!("the holder of the lease `{name}` cannot be read back");
        Ok(Some(LeaseRow {
            name: name.clone(),
            holder: Name::parse(&holder).map_err(|_| self.place.damaged(unreadable()))?,
            token: LeaseToken::new(row.get("token").in_file(self.place)?),
            until: Millis::new(row.get("until").in_file(self.place)?),
            ttl_ms: row.get("ttl").in_file(self.place)?,
        }))
    }

    /// A token greater than any before in the tenant.
    pub(super) fn next_token(&self) -> Result<LeaseToken, LedgerError> {
        let sql = "INSERT INTO lease_tokens (tenant, last) VALUES (?1, 1) \
                   ON CONFLICT (tenant) DO UPDATE SET last = last + 1 RETURNING last";
        let mut statement = self.connection.prepare_cached(sql).in_file(self.place)?;
        let token = statement.query_row([self.tenant.as_str()], |row| row.get(0)).map(LeaseToken::new);
        token.in_file(self.place)
    }

    /// Writes a lease that no one holds, under the tenant's next token.
    pub(super) fn take(&self, request: &LeaseRequest) -> Result<LeaseToken, LedgerError> {
        let (token, now) = (self.next_token()?, boot::now().get());
        if token.is_time_to_forget() {
            let sql = "DELETE FROM leases WHERE tenant = ?1 AND (until < ?2 OR boot <> ?3)";
            let expired = params![self.tenant.as_str(), now - FORGET_AFTER_MS, boot::id(self.place)?];
            self.connection.execute(sql, expired).in_file(self.place)?;
        }
        let LeaseRequest { name, holder, ttl_ms, .. } = request.clone();
        self.put(&LeaseRow { name, holder, token, until: Millis::new(now + ttl_ms), ttl_ms })?;
        Ok(token)
    }

    pub(super) fn put(&self, lease: &LeaseRow) -> Result<(), LedgerError> {
        let sql = "INSERT INTO leases (tenant, name, holder, token, until, ttl, boot) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
             ON CONFLICT (tenant, name) DO UPDATE SET holder = ?3, token = ?4, until = ?5, ttl = ?6, boot = ?7";
        let LeaseRow { name, holder, token, until, ttl_ms } = lease;
        let (tenant, name, holder) = (self.tenant.as_str(), name.as_str(), holder.as_str());
        let values =
            params![tenant, name, holder, token.as_i64(), until.get(), ttl_ms, boot::id(self.place)?];
        let written = self.connection.prepare_cached(sql).and_then(|mut put| put.execute(values));
        written.map(|_| ()).in_file(self.place)
    }

    pub(super) fn remove(&self, name: &Name, token: LeaseToken) -> Result<(), LedgerError> {
        let sql = "DELETE FROM leases WHERE tenant = ?1 AND name = ?2 AND token = ?3";
        let values = params![self.tenant.as_str(), name.as_str(), token.as_i64()];
        let removed = self.connection.prepare_cached(sql).and_then(|mut remove| remove.execute(values));
        removed.map(|_| ()).in_file(self.place)
    }
}
