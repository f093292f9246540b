//! Accepted requests in SQLite. An immediate transaction excludes every other writer.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::{ExecutionId, KeyId, Name, RobotId, TenantId};
use rusqlite::{Connection, Row as SqlRow, ToSql, params};

use super::boot;
use super::failure::{InFile as _, LedgerFile};
use crate::accepted::{AcceptedRequest, RequestName, RequestOutcome, RequestToAccept, RequestToRun};
use crate::error::LedgerError;
use crate::lease::LeaseToken;
use crate::position::Millis;

/// The columns of a request. `?1` is the id of the machine's current boot, `?2` the time since it.
const COLUMNS: &str = "robot, execution, number, attempt, fingerprint, rerun_of, key_id, lease, accepted_at, tries, answer, \
    failure, ended_at, EXISTS (SELECT 1 FROM leases l WHERE l.tenant = a.tenant AND l.name = a.lease AND l.boot = ?1 \
    AND l.until - ?2 BETWEEN 1 AND 2 * l.ttl) AS is_held";

/// The requests of a ledger.
pub(super) struct StoredRequests<'a> {
    pub(super) connection: &'a Connection,
    pub(super) place: &'a LedgerFile,
}

impl StoredRequests<'_> {
    fn select<T>(
        &self,
        what: &str,
        rest: &str,
        values: &[&dyn ToSql],
        mut read: impl FnMut(&SqlRow<'_>) -> Result<T, LedgerError>,
    ) -> Result<Vec<T>, LedgerError> {
        let sql = format!("SELECT {what} FROM accepted a WHERE {rest}");
        let (boot, now) = (boot::id(self.place)?, boot::now().get());
        let all = [&[&boot as &dyn ToSql, &now], values].concat();
        let mut statement = self.connection.prepare_cached(&sql).in_file(self.place)?;
        let mut found = statement.query(all.as_slice()).in_file(self.place)?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().in_file(self.place)? {
            rows.push(read(row)?);
        }
        Ok(rows)
    }

    pub(super) fn find(
        &self,
        tenant: &TenantId,
        name: &RequestName,
    ) -> Result<Option<AcceptedRequest>, LedgerError> {
        let RequestName { robot_id, execution_id } = name;
        let values: [&dyn ToSql; 3] = [&tenant.as_str(), &robot_id.as_str(), &execution_id.as_str()];
        let rest = "a.tenant = ?3 AND a.robot = ?4 AND a.execution = ?5";
        Ok(self.select(COLUMNS, rest, &values, |row| self.read(row))?.pop())
    }

    pub(super) fn list(
        &self,
        tenant: &TenantId,
        robot: Option<&RobotId>,
        after: Option<LeaseToken>,
        limit: usize,
    ) -> Result<Vec<AcceptedRequest>, LedgerError> {
        let (tenant, after, limit) = (tenant.as_str(), after.map_or(0, LeaseToken::as_i64), limit as i64);
        let robot = robot.map(|robot| robot.as_str());
        let of_robot = if robot.is_some() { " AND a.robot = ?6" } else { "" };
        let rest = format!(
            "a.tenant = ?3 AND a.ended_at IS NULL AND a.number > ?4{of_robot} ORDER BY a.number LIMIT ?5"
        );
        let mut values: Vec<&dyn ToSql> = vec![&tenant, &after, &limit];
        values.extend(robot.iter().map(|robot| robot as &dyn ToSql));
        self.select(COLUMNS, &rest, &values, |row| self.read(row))
    }

    pub(super) fn waiting(
        &self,
        tenant: &TenantId,
        after: Option<LeaseToken>,
    ) -> Result<Option<RequestToRun>, LedgerError> {
        let rest = "a.tenant = ?3 AND a.ended_at IS NULL AND a.number > ?4 AND NOT is_held \
                    ORDER BY a.number LIMIT 1";
        let after = after.map_or(0, LeaseToken::as_i64);
        let values: [&dyn ToSql; 2] = [&tenant.as_str(), &after];
        let read = |row: &SqlRow<'_>| {
            Ok(RequestToRun {
                request: self.read(row)?,
                document: row.get("request").in_file(self.place)?,
                rerun_of: self.optional(row, "rerun_of", |text| ExecutionId::parse(text).ok())?,
                key_id: self.optional(row, "key_id", |text| KeyId::parse(text).ok())?,
                lease: self.text(row, "lease", |text| Name::parse(text).ok())?,
            })
        };
        Ok(self.select(&format!("{COLUMNS}, request"), rest, &values, read)?.pop())
    }

    pub(super) fn tenant_with_work(
        &self,
        after: &str,
        ended_before: Millis,
    ) -> Result<Option<TenantId>, LedgerError> {
        let rest = "a.tenant > ?3 AND (a.ended_at < ?4 OR a.ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM leases l \
                    WHERE l.tenant = a.tenant AND l.name = a.lease AND l.boot = ?1 \
                    AND l.until - ?2 BETWEEN 1 AND 2 * l.ttl)) ORDER BY a.tenant LIMIT 1";
        let values: [&dyn ToSql; 2] = [&after, &ended_before.get()];
        let read = |row: &SqlRow<'_>| self.text(row, "tenant", |text| TenantId::parse(text).ok());
        Ok(self.select("a.tenant", rest, &values, read)?.pop())
    }

    /// How many of a tenant and of all are open, each counted up to a limit.
    pub(super) fn open(
        &self,
        tenant: &TenantId,
        per_tenant: u64,
        total: u64,
    ) -> Result<(u64, u64), LedgerError> {
        let most = |bound: u64| i64::try_from(bound).unwrap_or(i64::MAX);
        let sql = "SELECT (SELECT count(*) FROM (SELECT 1 FROM accepted WHERE ended_at IS NULL AND tenant = ?1 LIMIT ?2)), \
                   (SELECT count(*) FROM (SELECT 1 FROM accepted WHERE ended_at IS NULL LIMIT ?3))";
        let values = params![tenant.as_str(), most(per_tenant), most(total)];
        let counted: (i64, i64) = self
            .connection
            .query_row(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))
            .in_file(self.place)?;
        Ok((counted.0.unsigned_abs(), counted.1.unsigned_abs()))
    }

    pub(super) fn put(
        &self,
        tenant: &TenantId,
        number: LeaseToken,
        request: &RequestToAccept,
        now: Millis,
    ) -> Result<(), LedgerError> {
        let RequestToAccept { name, attempt, fingerprint, document, rerun_of, key_id, lease } = request;
        let sql = "INSERT OR REPLACE INTO accepted (tenant, robot, execution, number, attempt, fingerprint, request, \
                   rerun_of, key_id, lease, accepted_at, tries) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0)";
        let values = params![
            tenant.as_str(),
            name.robot_id.as_str(),
            name.execution_id.as_str(),
            number.as_i64(),
            *attempt as i64,
            fingerprint.to_string(),
            document,
            rerun_of.as_ref().map(|id| id.as_str()),
            key_id.as_ref().map(|id| id.as_str()),
            lease.as_str(),
            now.get(),
        ];
        self.execute(sql, values)
    }

    pub(super) fn count(&self, tenant: &TenantId, name: &RequestName, tries: u64) -> Result<(), LedgerError> {
        let sql = "UPDATE accepted SET tries = ?4 WHERE tenant = ?1 AND robot = ?2 AND execution = ?3";
        let RequestName { robot_id, execution_id } = name;
        self.execute(sql, params![tenant.as_str(), robot_id.as_str(), execution_id.as_str(), tries as i64])
    }

    pub(super) fn end(
        &self,
        tenant: &TenantId,
        name: &RequestName,
        outcome: &RequestOutcome,
        now: Millis,
    ) -> Result<(), LedgerError> {
        let (answer, failure) = match outcome {
            RequestOutcome::Answer(answer) => (Some(answer), None),
            RequestOutcome::Failure(code) => (None, Some(code)),
        };
        let sql = "UPDATE accepted SET answer = ?4, failure = ?5, ended_at = ?6 \
                   WHERE tenant = ?1 AND robot = ?2 AND execution = ?3";
        let RequestName { robot_id, execution_id } = name;
        let values =
            params![tenant.as_str(), robot_id.as_str(), execution_id.as_str(), answer, failure, now.get()];
        self.execute(sql, values)
    }

    pub(super) fn remove(&self, tenant: &TenantId, name: &RequestName) -> Result<(), LedgerError> {
        let sql = "DELETE FROM accepted WHERE tenant = ?1 AND robot = ?2 AND execution = ?3";
        let RequestName { robot_id, execution_id } = name;
        self.execute(sql, params![tenant.as_str(), robot_id.as_str(), execution_id.as_str()])
    }

    pub(super) fn sweep(&self, tenant: &TenantId, before: Millis) -> Result<(), LedgerError> {
        let sql = "DELETE FROM accepted WHERE tenant = ?1 AND ended_at IS NOT NULL AND ended_at < ?2";
        self.execute(sql, params![tenant.as_str(), before.get()])
    }

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), LedgerError> {
        let done = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        done.map(|_| ()).in_file(self.place)
    }

    fn read(&self, row: &SqlRow<'_>) -> Result<AcceptedRequest, LedgerError> {
        let number = |column: &str| row.get::<_, i64>(column).in_file(self.place);
        let name = RequestName {
            robot_id: self.text(row, "robot", |text| RobotId::parse(text).ok())?,
            execution_id: self.text(row, "execution", |text| ExecutionId::parse(text).ok())?,
        };
        let ended_at: Option<i64> = row.get("ended_at").in_file(self.place)?;
        let answer: Option<String> = row.get("answer").in_file(self.place)?;
        let failure: Option<String> = row.get("failure").in_file(self.place)?;
        Ok(AcceptedRequest {
            name,
            number: LeaseToken::new(number("number")?),
            attempt: number("attempt")?.unsigned_abs(),
            fingerprint: self.text(row, "fingerprint", Blake3::parse)?,
            accepted_at: Millis::new(number("accepted_at")?),
            tries: number("tries")?.unsigned_abs(),
            is_held: row.get("is_held").in_file(self.place)?,
            ended: RequestOutcome::stored(ended_at, answer, failure),
        })
    }

    fn text<T>(
        &self,
        row: &SqlRow<'_>,
        column: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, LedgerError> {
        let found = self.optional(row, column, parse)?;
        found.ok_or_else(|| self.place.damaged(unreadable(column)))
    }

    fn optional<T>(
        &self,
        row: &SqlRow<'_>,
        column: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, LedgerError> {
        let text: Option<String> = row.get(column).in_file(self.place)?;
        let parsed = text.map(|text| parse(&text).ok_or_else(|| self.place.damaged(unreadable(column))));
        parsed.transpose()
    }
}

fn unreadable(column: &str) -> String {
    format!("the column `{column}` of an accepted request cannot be read back")
}
