//! A connection as the user that the URL names: it makes, opens and migrates a database, and nothing else.

use crealeph_contracts::scalar::TenantId;
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::ToSql;

use super::connection::Connection;
use super::rows::get;
use super::server::{Roles, Server, literal};
use crate::error::LedgerError;

pub(super) struct OwnerConnection {
    connection: Connection,
    pub(super) server: Server,
}

impl OwnerConnection {
    pub(super) fn new(connection: Connection, server: Server) -> OwnerConnection {
        OwnerConnection { connection, server }
    }

    pub(super) fn close(self) {
        self.connection.close();
    }

    /// Runs statements without parameters or answers.
    pub(super) fn run(&mut self, sql: &str) -> Result<(), LedgerError> {
        let done = self.connection.wait(async |client| client.batch_execute(sql).await);
        done.map_err(|error| self.server.failure(&error))
    }

    pub(super) fn query(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        let found = self.connection.wait(async |client| client.query(sql, values).await);
        found.map_err(|error| self.server.failure(&error))
    }

    /// The row of a question that has exactly one.
    pub(super) fn query_one(
        &mut self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<SqlRow, LedgerError> {
        let found = self.connection.wait(async |client| client.query_one(sql, values).await);
        found.map_err(|error| self.server.failure(&error))
    }

    /// Runs a statement; how many rows it changed.
    pub(super) fn execute(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, LedgerError> {
        let done = self.connection.wait(async |client| client.execute(sql, values).await);
        done.map_err(|error| self.server.failure(&error))
    }

    /// Runs the work in a transaction that sees one tenant's rows; on an error nothing of it is kept.
    pub(super) fn transact<T>(
        &mut self,
        tenant: Option<&TenantId>,
        work: impl FnOnce(&mut OwnerConnection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let tenant = tenant.map(|tenant| format!("SET LOCAL crealeph.tenant = {}", literal(tenant.as_str())));
        self.run(&format!("BEGIN; {}", tenant.as_deref().unwrap_or("")))?;
        let done = work(self).and_then(|done| self.run("COMMIT").map(|()| done));
        if done.is_err() {
            // A connection that is lost took the transaction with it.
            let _ = self.run("ROLLBACK");
        }
        done
    }

    /// The version of the schema; `None` if the database holds no ledger.
    pub(super) fn schema_version(&mut self) -> Result<Option<u32>, LedgerError> {
        let row = self.query_one("SELECT to_regclass('crealeph.version') IS NOT NULL AS is_there", &[])?;
        if !get::<bool>(&row, "is_there", &self.server)? {
            return Ok(None);
        }
        let row = self.query_one("SELECT max(version) AS version FROM crealeph.version", &[])?;
        let version: i32 = get(&row, "version", &self.server)?;
        Ok(Some(u32::try_from(version).unwrap_or(u32::MAX)))
    }

    /// The roles of a database of this version.
    pub(super) fn roles(&mut self) -> Result<Roles, LedgerError> {
        let row = self.query_one("SELECT ledger_role, audit_role FROM crealeph.version", &[])?;
        let audit = get(&row, "audit_role", &self.server)?;
        Ok(Roles { ledger: get(&row, "ledger_role", &self.server)?, audit: Some(audit) })
    }
}
