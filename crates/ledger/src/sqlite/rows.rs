//! Rows as they are stored, read back with suspicion: what does not fit its leaf hash is reported, never returned.

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::scalar::{ClientKey, ExecutionId, LedgerId, Name, RobotId, TenantId};
use rusqlite::Row as SqlRow;

use super::failure::Place;
use crate::entry::{Columns, Content, Stored, parse_ids};
use crate::error::LedgerError;
use crate::merkle::Frontier;
use crate::position::{MAX_SEQ, Millis, Seq};
use crate::reach::Reach;
use crate::store::{Head, RawEntry, Row, Step};

/// The columns of a whole entry, in the order [`entry`] reads them.
pub(super) const ENTRY: &str = "place, id, robot, module, source, kind, state, created_at, observed_at, key, execution, \
    attempt, rerun_of, leaf, reach_signal, reach_fusion, reach_idea, reach_copy, reach_benchmark, reach_playbook, \
    depends_on, payload";

/// The columns of a lineage step, in the order [`step`] reads them.
pub(super) const STEP: &str = "place, id, robot, kind, created_at, reach_signal, reach_fusion, reach_idea, reach_copy, \
    reach_benchmark, reach_playbook, depends_on";

/// The row id of an entry.
pub(super) fn row_id(head: &Head, seq: Seq) -> i64 {
    (head.number << 40) | seq.as_i64()
}

/// The sequence number of a row id.
pub(super) fn seq_of(row_id: i64) -> Option<Seq> {
    Seq::from_i64(row_id & MAX_SEQ as i64)
}

/// Reads and checks a whole entry.
pub(super) fn entry(row: &SqlRow<'_>, tenant_id: &TenantId, place: &Place) -> Result<Row, LedgerError> {
    let failed = |error: rusqlite::Error| place.failure(&error);
    let row_id: i64 = row.get(0).map_err(failed)?;
    let read = read_entry(row, tenant_id).map_err(failed)?;
    match read {
        Some(read) if read.stored.leaf_hash() == read.leaf => Ok(read),
        _ => {
            let seq = row_id & MAX_SEQ as i64;
            Err(place.damaged(format!("entry {seq} of tenant `{tenant_id}` is not what was written")))
        }
    }
}

fn read_entry(row: &SqlRow<'_>, tenant_id: &TenantId) -> rusqlite::Result<Option<Row>> {
    let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let optional = |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
    let created_at = Millis::new(row.get(7)?);
    let attempt = row.get::<_, Option<i64>>(11)?.and_then(|attempt| u64::try_from(attempt).ok());
    let execution = optional(10)?;
    let reach = reach(row, 14)?;
    let leaf = row.get_ref(13)?.as_blob().ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let assembled = || {
        let content = Content {
            robot_id: RobotId::parse(text(2).ok()?).ok()?,
            module: Name::parse(text(3).ok()?).ok()?,
            source: Name::parse(text(4).ok()?).ok()?,
            kind: Name::parse(text(5).ok()?).ok()?,
            state: Name::parse(text(6).ok()?).ok()?,
            payload: text(21).ok()?.into(),
            depends_on: parse_ids(text(20).ok()?)?,
            execution_id: match execution {
                Some(execution) if attempt.is_none() => Some(ExecutionId::parse(execution).ok()?),
                _ => None,
            },
            rerun_of: parsed(optional(12).ok()?, ExecutionId::parse)?,
            observed_at: parsed(optional(8).ok()?, Timestamp::parse)?,
            key: parsed(optional(9).ok()?, ClientKey::parse)?,
        };
        let stored = Stored {
            id: LedgerId::parse(text(1).ok()?).ok()?,
            seq: seq_of(row.get(0).ok()?)?,
            tenant_id: tenant_id.clone(),
            created_at,
            content,
        };
        let execution = execution.map(str::to_owned);
        Some(Row { stored, reach: reach.clone(), leaf: Sha256::from_bytes(leaf?), execution, attempt })
    };
    Ok(assembled())
}

/// Reads what a lineage needs of an entry.
pub(super) fn step(row: &SqlRow<'_>, place: &Place) -> Result<Step, LedgerError> {
    let failed = |error: rusqlite::Error| place.failure(&error);
    let row_id: i64 = row.get(0).map_err(failed)?;
    let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let reach = reach(row, 5).map_err(failed)?;
    let created_at = Millis::new(row.get(4).map_err(failed)?);
    let assembled = || {
        Some(Step {
            seq: seq_of(row_id)?,
            id: LedgerId::parse(text(1).ok()?).ok()?,
            robot_id: RobotId::parse(text(2).ok()?).ok()?,
            kind: text(3).ok()?.to_owned(),
            created_at,
            depends_on: parse_ids(text(11).ok()?)?,
            reach: reach.clone(),
        })
    };
    assembled().ok_or_else(|| place.damaged(format!("row {row_id} cannot be read back")))
}

/// The columns of a log, in the order [`head`] reads them.
pub(super) const HEAD: &str = "number, tenant, origin, size, last_at, frontier";

/// Reads where a log stands.
pub(super) fn head(row: &SqlRow<'_>, place: &Place) -> Result<Head, LedgerError> {
    let failed = |error: rusqlite::Error| place.failure(&error);
    let tenant: String = row.get(1).map_err(failed)?;
    let size: i64 = row.get(3).map_err(failed)?;
    let frontier: Vec<u8> = row.get(5).map_err(failed)?;
    let size = u64::try_from(size).ok().filter(|size| *size <= MAX_SEQ);
    let frontier = size.and_then(|size| Frontier::from_bytes(size, &frontier));
    let (Some(frontier), Ok(tenant_id)) = (frontier, TenantId::parse(&tenant)) else {
        return Err(place.damaged(format!("the head of the log of tenant `{tenant}` cannot be read back")));
    };
    Ok(Head {
        tenant_id,
        number: row.get(0).map_err(failed)?,
        origin: row.get(2).map_err(failed)?,
        last_at: Millis::new(row.get(4).map_err(failed)?),
        frontier,
    })
}

fn reach(row: &SqlRow<'_>, first: usize) -> rusqlite::Result<Reach> {
    let column = |offset: usize| row.get::<_, Option<i64>>(first + offset);
    Ok(Reach::from_columns([column(0)?, column(1)?, column(2)?, column(3)?, column(4)?, column(5)?]))
}

/// An optional text as its type: absent stays absent, unreadable is a fault.
fn parsed<T, E>(text: Option<&str>, parse: impl Fn(&str) -> Result<T, E>) -> Option<Option<T>> {
    match text {
        None => Some(None),
        Some(text) => parse(text).ok().map(Some),
    }
}

/// Reads an entry's canonical text from its columns, trusted or not, with the leaf hash stored beside it.
pub(super) fn raw(row: &SqlRow<'_>, tenant_id: &TenantId, place: &Place) -> Result<RawEntry, LedgerError> {
    let read = || -> rusqlite::Result<RawEntry> {
        let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
        let optional = |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
        let is_event = row.get::<_, Option<i64>>(11)?.is_some();
        let seq = seq_of(row.get(0)?).unwrap_or_default();
        let columns = Columns {
            created_at: Millis::new(row.get(7)?),
            id: text(1)?,
            key: optional(9)?,
            depends_on: text(20)?,
            execution_id: if is_event { None } else { optional(10)? },
            rerun_of: optional(12)?,
            module: text(3)?,
            observed_at: optional(8)?,
            payload: text(21)?,
            robot_id: text(2)?,
            seq,
            source: text(4)?,
            state: text(6)?,
            tenant_id: tenant_id.as_str(),
            kind: text(5)?,
        };
        Ok(RawEntry { seq, canonical: columns.canonical(), leaf: row.get_ref(13)?.as_blob()?.to_vec() })
    };
    read().map_err(|error| place.failure(&error))
}
