//! Queries that only an audit needs: whether the database holds rows that no log accounts for, and whether its triggers, indexes,
//! policies and privileges are those that this program creates.

use std::collections::BTreeSet;

use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::ToSql;

use super::rows::get;
use super::session::Session;
use crate::audit::AuditFaultKind;
use crate::error::LedgerError;
use crate::position::Seq;
use crate::store::{Head, StrayRow};

/// The first of these edges that the log does not have.
pub(super) fn missing_edge(
    session: &mut Session,
    head: &Head,
    edges: &[(Seq, Seq)],
) -> Result<Option<(Seq, Seq)>, LedgerError> {
    let (parents, children): (Vec<i64>, Vec<i64>) =
        edges.iter().map(|(parent, child)| (parent.as_i64(), child.as_i64())).unzip();
    let sql = "SELECT w.parent, w.child FROM unnest($2::bigint[], $3::bigint[]) AS w (parent, child) \
               WHERE NOT EXISTS (SELECT FROM edges e WHERE e.tenant = $1 AND e.parent = w.parent \
               AND e.child = w.child) ORDER BY w.child, w.parent LIMIT 1";
    let values: [&(dyn ToSql + Sync); 3] = [&head.tenant_id.as_str(), &parents, &children];
    let found = session.query(sql, &values)?;
    let Some(row) = found.first() else { return Ok(None) };
    let seq = |column| get(row, column, &session.server).map(Seq::from_i64);
    Ok(seq("parent")?.zip(seq("child")?))
}

/// The first row that is in no tree: of the tenant, or, if the login may see every row, of a tenant without a log.
pub(super) fn stray_row(session: &mut Session, head: &Head) -> Result<Option<StrayRow>, LedgerError> {
    let sql = "(SELECT seq FROM entries WHERE tenant = $1 AND seq < 1 ORDER BY seq LIMIT 1) UNION ALL \
               (SELECT seq FROM entries WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT 1)";
    let values: [&(dyn ToSql + Sync); 2] = [&head.tenant_id.as_str(), &head.last_seq().as_i64()];
    let found = session.query(sql, &values)?;
    if let Some(row) = found.first() {
        let seq: i64 = get(row, "seq", &session.server)?;
        let what = format!("entry {seq} is in the table `entries` and not in the tree");
        return Ok(Some(StrayRow { kind: AuditFaultKind::Extra, seq: Seq::from_i64(seq), what }));
    }
    if !session.may_audit()? {
        return Ok(None);
    }
    let found = session.as_auditor(|session| {
        for table in ["entries", "edges", "tiles", "checkpoints"] {
            // Jumps from tenant to tenant in the primary key.
            let sql = format!(
                "WITH RECURSIVE found (tenant) AS ((SELECT tenant FROM {table} ORDER BY tenant LIMIT 1) UNION ALL \
                 SELECT (SELECT t.tenant FROM {table} t WHERE t.tenant > found.tenant ORDER BY t.tenant LIMIT 1) \
                 FROM found WHERE found.tenant IS NOT NULL) SELECT tenant FROM found WHERE tenant IS NOT NULL \
                 AND NOT EXISTS (SELECT FROM logs l WHERE l.tenant = found.tenant) LIMIT 1"
            );
            let found = session.query_planned(&sql, &[])?;
            if let Some(row) = found.first() {
                return Ok(Some((table, get::<String>(row, "tenant", &session.server)?)));
            }
        }
        Ok(None)
    })?;
    Ok(found.map(|(table, tenant)| {
        let what = format!("the table `{table}` has rows of tenant `{tenant}`, which has no log");
        StrayRow { kind: AuditFaultKind::Extra, seq: None, what }
    }))
}

/// Every fact of the schema that this program creates.
const FACTS: &str = include_str!("schema-facts.txt");

/// The tables that hold rows of tenants.
const TABLES: [&str; 9] = [
    "accepted",
    "checkpoints",
    "edges",
    "entries",
    "lease_tokens",
    "leases",
    "logs",
    "subscriptions",
    "tiles",
];
/// The prefix of the policies that restrict a bound login to its tenants.
const BOUND_LOGIN: &str = "policy bound_login on ";

/// Whether a login is bound to its tenants, as far as this login may see that.
fn has_bound_login(session: &mut Session) -> Result<bool, LedgerError> {
    if !session.may_audit()? {
        return Ok(false);
    }
    let found = session.as_auditor(|session| session.query("SELECT FROM logins LIMIT 1", &[]))?;
    Ok(!found.is_empty())
}

/// The function of `amcheck` that compares an index with its table, if the audit role may call it.
fn index_checker(session: &mut Session) -> Result<Option<String>, LedgerError> {
    let Some(role) = session.server.roles.audit.clone() else { return Ok(None) };
    if !session.may_audit()? {
        return Ok(None);
    }
    let sql = "SELECT quote_ident(n.nspname) || '.bt_index_check' AS name FROM pg_extension e \
               JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck' \
               AND has_schema_privilege($1::text, n.oid, 'USAGE') AND has_function_privilege($1::text, \
               to_regprocedure(quote_ident(n.nspname) || '.bt_index_check(regclass,boolean)'), 'EXECUTE')";
    let found = session.query(sql, &[&role])?;
    found.first().map(|row| get(row, "name", &session.server)).transpose()
}

/// The first index that does not match its table, if that can be checked. The transaction ends with it.
pub(super) fn index_difference(session: &mut Session) -> Result<Option<String>, LedgerError> {
    let Some(check) = index_checker(session)? else { return Ok(None) };
    let sql = format!(
        "SELECT count({check}(indexrelid, true)) FROM pg_index JOIN pg_class c ON c.oid = indrelid \
         WHERE relnamespace = 'crealeph'::regnamespace"
    );
    match session.as_auditor(|session| session.query(&sql, &[])) {
        Ok(_) => Ok(None),
        Err(LedgerError::Damaged { what, .. }) => Ok(Some(what)),
        Err(error) => Err(error),
    }
}

/// What an audit cannot check with this login, and what would allow it.
pub(super) fn unchecked(session: &mut Session) -> Result<Option<String>, LedgerError> {
    let Some(role) = session.server.roles.audit.clone() else { return Ok(None) };
    if !session.may_audit()? {
        return Ok(Some(format!(
            "rows of tenants without a log, and the contents of indexes; run it as a login that has the role `{role}`"
        )));
    }
    Ok(index_checker(session)?.is_none().then(|| {
        format!(
            "the contents of indexes; let a superuser run `CREATE EXTENSION amcheck` and `GRANT EXECUTE ON FUNCTION \
             bt_index_check(regclass, boolean) TO {role}`"
        )
    }))
}

/// The first difference between the database's schema and the one that this program creates.
pub(super) fn schema_difference(session: &mut Session) -> Result<Option<String>, LedgerError> {
    let found = session.query_planned(include_str!("schema-facts.sql"), &[])?;
    let read = |row: &SqlRow| row.try_get::<_, String>(0).map_err(|error| session.server.failure(&error));
    let found: BTreeSet<String> = found.iter().map(read).collect::<Result<_, _>>()?;
    let mut expected: BTreeSet<String> = FACTS.lines().map(str::to_owned).collect();
    if found.iter().any(|fact| fact.starts_with(BOUND_LOGIN)) || has_bound_login(session)? {
        expected.extend(TABLES.map(|table| {
            format!(
                "{BOUND_LOGIN}{table} for * to {{ledger}}, restrictive, using ( SELECT \
                 may_use(current_setting('crealeph.tenant'::text, true)) AS may_use), check "
            )
        }));
    }
    let missing = expected.iter().find(|fact| !found.contains(*fact));
    let extra = found.iter().find(|fact| !expected.contains(*fact));
    Ok(match (missing, extra) {
        (None, None) => None,
        (Some(missing), None) => Some(format!("the schema lacks: {missing}")),
        (None, Some(extra)) => Some(format!("the schema has what no ledger has: {extra}")),
        (Some(missing), Some(extra)) => Some(format!("the schema has `{extra}`, and lacks `{missing}`")),
    })
}
