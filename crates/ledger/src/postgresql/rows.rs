//! Rows as PostgreSQL hands them over, read back with suspicion.

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::scalar::{LedgerId, TenantId};
use postgres::Row as SqlRow;

use super::session::Server;
use crate::columns::{EntryColumns, StepColumns};
use crate::entry::effective_at;
use crate::error::LedgerError;
use crate::merkle::Frontier;
use crate::position::{Millis, Seq};
use crate::reach::Effective;
use crate::store::{Class, Head, Outline, RawEntry, Row, Step};

/// The columns of a whole entry, in the order [`entry`] reads them.
pub(super) const ENTRY: &str = "e.seq, e.id, e.robot, e.module, e.source, e.kind, e.state, e.created_at, \
    e.observed_at, e.key, e.execution, e.attempt, e.rerun_of, e.leaf, e.reach_signal, e.reach_fusion, e.reach_idea, \
    e.reach_copy, e.reach_benchmark, e.reach_playbook, e.depends_on, e.payload, e.newest, e.used";
/// How many columns those are.
pub(super) const ENTRY_COLUMNS: usize = 24;

/// The columns of a lineage step, in the order [`step`] reads them; the key last.
pub(super) const STEP: &str = "e.seq, e.id, e.robot, e.kind, e.created_at, e.observed_at, e.reach_signal, \
    e.reach_fusion, e.reach_idea, e.reach_copy, e.reach_benchmark, e.reach_playbook, e.depends_on, e.used, e.key";
/// The column of the key in [`STEP`].
pub(super) const STEP_KEY: usize = 14;

/// What a reader asks for, by the schema version of the database: an older one is read, never written.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) entry: &'static str,
    pub(super) step: &'static str,
    pub(super) head: &'static str,
}

pub(super) const CURRENT: Layout = Layout { entry: ENTRY, step: STEP, head: HEAD };

/// Before version 3.
pub(super) const OLDER: Layout = Layout {
    entry: "e.seq, e.id, e.robot, e.module, e.source, e.kind, e.state, e.created_at, e.observed_at, e.key, e.execution, \
        e.attempt, e.rerun_of, e.leaf, e.reach_signal, e.reach_fusion, e.reach_idea, e.reach_copy, e.reach_benchmark, \
        e.reach_playbook, e.depends_on, e.payload, NULL::bigint, NULL::bytea",
    step: "e.seq, e.id, e.robot, e.kind, e.created_at, e.observed_at, e.reach_signal, e.reach_fusion, e.reach_idea, \
        e.reach_copy, e.reach_benchmark, e.reach_playbook, e.depends_on, NULL::bytea, e.key",
    head: "origin, size, last_at, frontier, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
};

/// A statement that finds the effective newest entry of each class of `$2` to `$4`, among the entries of a condition.
pub(super) fn newest_of(condition: &str) -> String {
    format!(
        "SELECT w.robot, w.kind, w.state, n.seq, n.created_at, n.observed_at \
         FROM unnest($2::text[], $3::text[], $4::text[]) AS w (robot, kind, state) \
         CROSS JOIN LATERAL (SELECT newest FROM entries WHERE tenant = $1 AND robot = w.robot AND kind = w.kind \
         AND state = w.state AND {condition} ORDER BY seq DESC LIMIT 1) last \
         CROSS JOIN LATERAL (SELECT seq, created_at, observed_at FROM entries WHERE tenant = $1 AND seq = last.newest \
         LIMIT 1) n"
    )
}

/// Reads a row of [`newest_of`].
pub(super) fn newest(row: &SqlRow, server: &Server) -> Result<(Class, Effective), LedgerError> {
    let text = |column| row.try_get::<_, String>(column).map_err(|error| server.failure(&error));
    let class = Class { robot: text(0)?, kind: text(1)?, state: text(2)? };
    let seq = Seq::from_i64(number(row, 3, server)?);
    let observed_at: Option<&str> = row.try_get(5).map_err(|error| server.failure(&error))?;
    let observed_at = observed_at.map(Timestamp::parse).transpose().ok();
    match (seq, observed_at) {
        (Some(seq), Some(observed_at)) => {
            let created_at = Millis::new(number(row, 4, server)?);
            Ok((class, Effective { at: effective_at(observed_at.as_ref(), created_at), seq }))
        }
        _ => Err(server.damaged("the time of an entry cannot be read back")),
    }
}

/// A statement that finds one entry for each element of `$2`, by an index of tenant and that column. Each element is
/// looked up by itself, because before a table is analysed the planner takes `= ANY` for a filter and reads the whole log.
pub(super) fn each(columns: &str, element: &str, condition: &str) -> String {
    format!(
        "SELECT {columns} FROM unnest($2::{element}[]) WITH ORDINALITY AS w (value, turn) CROSS JOIN LATERAL \
         (SELECT * FROM entries WHERE tenant = $1 AND {condition} LIMIT 1) e ORDER BY w.turn"
    )
}

/// By id, in [`each`].
pub(super) const BY_ID: &str = "id = w.value";
/// By client key, in [`each`].
pub(super) const BY_KEY: &str = "key = w.value AND key IS NOT NULL";

/// The columns of a log, in the order [`head`] reads them.
pub(super) const HEAD: &str = "origin, size, last_at, peaks, \
    floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Reads and checks a whole entry.
pub(super) fn entry(row: &SqlRow, tenant_id: &TenantId, server: &Server) -> Result<Row, LedgerError> {
    let columns = entry_columns(row).map_err(|error| unreadable(row, &error, server))?;
    columns.checked(tenant_id).ok_or_else(|| {
        let what = format!("entry {} of tenant `{tenant_id}` is not what was written", columns.seq);
        server.damaged_entry(columns.seq, what)
    })
}

/// A row of an entry whose columns hold what this program never writes there.
fn unreadable(row: &SqlRow, error: &postgres::Error, server: &Server) -> LedgerError {
    let what = |entry: &str| format!("{entry}: {}", server.reason(error));
    match row.try_get(0).ok().and_then(Seq::from_i64) {
        Some(seq) => server.damaged_entry(seq, what(&format!("entry {seq}"))),
        None => server.damaged(what("an entry without a sequence number")),
    }
}

/// Reads an entry's canonical text from its columns, trusted or not.
pub(super) fn raw(row: &SqlRow, tenant_id: &TenantId, server: &Server) -> Result<RawEntry, LedgerError> {
    entry_columns(row).map(|columns| columns.raw(tenant_id)).map_err(|error| unreadable(row, &error, server))
}

fn entry_columns(row: &SqlRow) -> Result<EntryColumns<'_>, postgres::Error> {
    Ok(EntryColumns {
        seq: Seq::from_i64(row.try_get(0)?).unwrap_or_default(),
        id: row.try_get(1)?,
        robot: row.try_get(2)?,
        module: row.try_get(3)?,
        source: row.try_get(4)?,
        kind: row.try_get(5)?,
        state: row.try_get(6)?,
        created_at: row.try_get(7)?,
        observed_at: row.try_get(8)?,
        key: row.try_get(9)?,
        execution: row.try_get(10)?,
        attempt: row.try_get(11)?,
        rerun_of: row.try_get(12)?,
        leaf: row.try_get(13)?,
        reach: reach(row, 14)?,
        depends_on: row.try_get(20)?,
        payload: row.try_get(21)?,
        newest: row.try_get(22)?,
        used: row.try_get(23)?,
    })
}

/// Reads what a lineage needs of an entry.
pub(super) fn step(row: &SqlRow, server: &Server) -> Result<Step, LedgerError> {
    let read = || -> Result<StepColumns<'_>, postgres::Error> {
        Ok(StepColumns {
            seq: Seq::from_i64(row.try_get(0)?).unwrap_or_default(),
            id: row.try_get(1)?,
            robot: row.try_get(2)?,
            kind: row.try_get(3)?,
            created_at: row.try_get(4)?,
            observed_at: row.try_get(5)?,
            reach: reach(row, 6)?,
            depends_on: row.try_get(12)?,
            used: row.try_get(13)?,
        })
    };
    let columns = read().map_err(|error| unreadable(row, &error, server))?;
    columns.step().ok_or_else(|| {
        server.damaged_entry(columns.seq, format!("entry {} cannot be read back", columns.seq))
    })
}

/// Reads which entry is at a place, and how large: seq, id, createdAt, bytes of its payload.
pub(super) fn outline(row: &SqlRow, server: &Server) -> Result<Outline, LedgerError> {
    let (seq, bytes) = (number(row, 0, server)?, number(row, 3, server)?);
    let id: &str = row.try_get(1).map_err(|error| server.failure(&error))?;
    let created_at = Millis::new(number(row, 2, server)?);
    let read = || {
        let (seq, id) = (Seq::from_i64(seq)?, LedgerId::parse(id).ok()?);
        Some(Outline { seq, id, created_at, payload_bytes: u64::try_from(bytes).ok()? })
    };
    read().ok_or_else(|| server.damaged(format!("entry {seq} cannot be read back")))
}

fn reach(row: &SqlRow, first: usize) -> Result<[Option<i64>; 6], postgres::Error> {
    let column = |offset: usize| row.try_get::<_, Option<i64>>(first + offset);
    Ok([column(0)?, column(1)?, column(2)?, column(3)?, column(4)?, column(5)?])
}

/// Reads where a log stands.
pub(super) fn head(row: &SqlRow, tenant_id: &TenantId, server: &Server) -> Result<Head, LedgerError> {
    let failed = |error: postgres::Error| server.failure(&error);
    let (origin, peaks): (&str, &[u8]) = (row.try_get(0).map_err(failed)?, row.try_get(3).map_err(failed)?);
    let size = u64::try_from(number(row, 1, server)?).ok();
    let frontier = size.and_then(|size| Frontier::from_bytes(size, peaks)).ok_or_else(|| {
        server.damaged(format!("the head of the log of tenant `{tenant_id}` cannot be read back"))
    })?;
    let last_at = Millis::new(number(row, 2, server)?);
    let read_at = Some(Millis::new(number(row, 4, server)?));
    Ok(Head {
        tenant_id: tenant_id.clone(),
        number: 0,
        origin: origin.to_owned(),
        last_at,
        read_at,
        frontier,
    })
}

/// Reads a hash from a column.
pub(super) fn hash(row: &SqlRow, column: usize, server: &Server) -> Result<Sha256, LedgerError> {
    let bytes: &[u8] = row.try_get(column).map_err(|error| server.failure(&error))?;
    <[u8; 32]>::try_from(bytes)
        .map(Sha256::from_bytes)
        .map_err(|_| server.damaged("a hash of the log is cut"))
}

/// Reads a number from a column.
pub(super) fn number(row: &SqlRow, column: usize, server: &Server) -> Result<i64, LedgerError> {
    row.try_get(column).map_err(|error| server.failure(&error))
}
