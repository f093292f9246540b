//! Queries of an audit alone: whether the database holds rows that no log accounts for, and whether its triggers, indexes,
//! policies and rights are those that this program makes.

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

/// Every fact of the schema that this program makes.
const FACTS: &str = include_str!("schema-facts.txt");

/// The first difference between the database's schema and the one that this program makes.
pub(super) fn schema_difference(session: &mut Session) -> Result<Option<String>, LedgerError> {
    let found = session.query_planned(include_str!("schema-facts.sql"), &[])?;
    let read = |row: &SqlRow| row.try_get::<_, String>(0).map_err(|error| session.server.failure(&error));
    let found: BTreeSet<String> = found.iter().map(read).collect::<Result<_, _>>()?;
    let expected: BTreeSet<&str> = FACTS.lines().collect();
    let missing = expected.iter().find(|fact| !found.contains(**fact));
    let extra = found.iter().find(|fact| !expected.contains(fact.as_str()));
    Ok(match (missing, extra) {
        (None, None) => None,
        (Some(missing), None) => Some(format!("the schema has no longer: {missing}")),
        (None, Some(extra)) => Some(format!("the schema has what no ledger has: {extra}")),
        (Some(missing), Some(extra)) => Some(format!("the schema has `{extra}`, and no longer `{missing}`")),
    })
}
