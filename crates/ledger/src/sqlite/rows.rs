//! Rows as they are stored, read back with suspicion: what does not fit its leaf hash is reported, never returned.

use crealeph_contracts::scalar::{LedgerId, TenantId};
use rusqlite::Row as SqlRow;
use rusqlite::types::{FromSqlError, Type};

use super::failure::{Place, is_damage};
use crate::columns::{EntryColumns, StepColumns};
use crate::error::LedgerError;
use crate::merkle::Frontier;
use crate::position::{MAX_SEQ, Millis, Seq};
use crate::store::{Head, Outline, RawEntry, Row, Step};

/// The columns of a whole entry, in the order [`entry`] reads them.
pub(super) const ENTRY: &str = "place, id, robot, module, source, kind, state, created_at, observed_at, key, execution, \
    attempt, rerun_of, leaf, reach_signal, reach_fusion, reach_idea, reach_copy, reach_benchmark, reach_playbook, \
    depends_on, payload, newest, used";

/// The columns of a lineage step, in the order [`step`] reads them.
pub(super) const STEP: &str = "place, id, robot, kind, created_at, observed_at, reach_signal, reach_fusion, reach_idea, \
    reach_copy, reach_benchmark, reach_playbook, depends_on, used";

/// The columns of a log, in the order [`head`] reads them.
pub(super) const HEAD: &str = "number, tenant, origin, size, last_at, peaks";

/// What a reader asks for, by the schema version of the file: an older file is read, never written.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) entry: &'static str,
    pub(super) step: &'static str,
    pub(super) head: &'static str,
}

pub(super) const CURRENT: Layout = Layout { entry: ENTRY, step: STEP, head: HEAD };

/// Before version 4.
pub(super) const OLDER: Layout = Layout {
    entry: "place, id, robot, module, source, kind, state, created_at, observed_at, key, execution, attempt, rerun_of, \
        leaf, reach_signal, reach_fusion, reach_idea, reach_copy, reach_benchmark, reach_playbook, depends_on, payload, \
        NULL, NULL",
    step: "place, id, robot, kind, created_at, observed_at, reach_signal, reach_fusion, reach_idea, reach_copy, \
        reach_benchmark, reach_playbook, depends_on, NULL",
    head: "number, tenant, origin, size, last_at, frontier",
};

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
    let columns = entry_columns(row).map_err(|error| unreadable(row, &error, place))?;
    columns.checked(tenant_id).ok_or_else(|| {
        let what = format!("entry {} of tenant `{tenant_id}` is not what was written", columns.seq);
        place.damaged_entry(columns.seq, what)
    })
}

/// A row of an entry that cannot be read: where it is the row's own bytes, the entry and the column are named.
fn unreadable(row: &SqlRow<'_>, error: &rusqlite::Error, place: &Place) -> LedgerError {
    match row.get(0).ok().and_then(seq_of) {
        Some(seq) if is_damage(error) => {
            let column = match error {
                rusqlite::Error::FromSqlConversionFailure(column, ..)
                | rusqlite::Error::IntegralValueOutOfRange(column, _)
                | rusqlite::Error::InvalidColumnType(column, ..)
                | rusqlite::Error::Utf8Error(column, _) => *column,
                _ => usize::MAX,
            };
            let column = row.as_ref().column_name(column).unwrap_or("unknown").to_owned();
            place.damaged_entry(
                seq,
                format!("entry {seq}: the column `{column}` holds bytes that are no value of it"),
            )
        }
        _ => place.failure(error),
    }
}

/// Reads an entry's canonical text from its columns, trusted or not, with the leaf hash stored beside it.
pub(super) fn raw(row: &SqlRow<'_>, tenant_id: &TenantId, place: &Place) -> Result<RawEntry, LedgerError> {
    entry_columns(row).map(|columns| columns.raw(tenant_id)).map_err(|error| unreadable(row, &error, place))
}

fn entry_columns<'a>(row: &'a SqlRow<'_>) -> rusqlite::Result<EntryColumns<'a>> {
    Ok(EntryColumns {
        seq: seq_of(row.get(0)?).unwrap_or_default(),
        id: text(row, 1)?,
        robot: text(row, 2)?,
        module: text(row, 3)?,
        source: text(row, 4)?,
        kind: text(row, 5)?,
        state: text(row, 6)?,
        created_at: row.get(7)?,
        observed_at: optional(row, 8)?,
        key: optional(row, 9)?,
        execution: optional(row, 10)?,
        attempt: row.get(11)?,
        rerun_of: optional(row, 12)?,
        leaf: blob(row, 13)?,
        reach: reach(row, 14)?,
        depends_on: text(row, 20)?,
        payload: text(row, 21)?,
        newest: row.get(22)?,
        used: row.get_ref(23)?.as_blob_or_null()?,
    })
}

fn text<'a>(row: &'a SqlRow<'_>, column: usize) -> rusqlite::Result<&'a str> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|error| conversion(column, value.data_type(), error))
}

fn optional<'a>(row: &'a SqlRow<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    let value = row.get_ref(column)?;
    value.as_str_or_null().map_err(|error| conversion(column, value.data_type(), error))
}

fn conversion(column: usize, found: Type, error: FromSqlError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, found, Box::new(error))
}

fn blob<'a>(row: &'a SqlRow<'_>, column: usize) -> rusqlite::Result<&'a [u8]> {
    let value = row.get_ref(column)?;
    value.as_blob().map_err(|error| conversion(column, value.data_type(), error))
}

/// Reads what a lineage needs of an entry.
pub(super) fn step(row: &SqlRow<'_>, place: &Place) -> Result<Step, LedgerError> {
    let read = || -> rusqlite::Result<StepColumns<'_>> {
        Ok(StepColumns {
            seq: seq_of(row.get(0)?).unwrap_or_default(),
            id: text(row, 1)?,
            robot: text(row, 2)?,
            kind: text(row, 3)?,
            created_at: row.get(4)?,
            observed_at: optional(row, 5)?,
            reach: reach(row, 6)?,
            depends_on: text(row, 12)?,
            used: row.get_ref(13)?.as_blob_or_null()?,
        })
    };
    let columns = read().map_err(|error| unreadable(row, &error, place))?;
    columns
        .step()
        .ok_or_else(|| place.damaged_entry(columns.seq, format!("entry {} cannot be read back", columns.seq)))
}

/// Reads which entry is at a place, and how large: id, createdAt, bytes of its payload.
pub(super) fn outline(row: &SqlRow<'_>, seq: Seq, place: &Place) -> Result<Outline, LedgerError> {
    let read = || -> rusqlite::Result<(&str, i64, i64)> { Ok((text(row, 0)?, row.get(1)?, row.get(2)?)) };
    let (id, created_at, bytes) = read().map_err(|error| place.failure(&error))?;
    let outline = |id: LedgerId, payload_bytes: u64| Outline {
        seq,
        id,
        created_at: Millis::new(created_at),
        payload_bytes,
    };
    let read = LedgerId::parse(id).ok().zip(u64::try_from(bytes).ok());
    let read = read.map(|(id, bytes)| outline(id, bytes));
    read.ok_or_else(|| place.damaged(format!("entry {seq} cannot be read back")))
}

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
        read_at: None,
        frontier,
    })
}

fn reach(row: &SqlRow<'_>, first: usize) -> rusqlite::Result<[Option<i64>; 6]> {
    let column = |offset: usize| row.get::<_, Option<i64>>(first + offset);
    Ok([column(0)?, column(1)?, column(2)?, column(3)?, column(4)?, column(5)?])
}
