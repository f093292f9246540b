//! Rows as SQLite hands them over. Entries are read through [`crate::columns`], everything else by the names of its columns.

use std::sync::LazyLock;

use crealeph_contracts::scalar::{LedgerId, TenantId};
use rusqlite::Row as SqlRow;
use rusqlite::types::{FromSqlResult, ValueRef};

use super::failure::{LedgerFile, is_damage};
use super::schema;
use crate::columns::{Dialect, SelectLists, StoredRow};
use crate::error::LedgerError;
use crate::merkle::Frontier;
use crate::position::{MAX_SEQ, Millis, Seq};
use crate::row::Outline;
use crate::store::Head;

const DIALECT: Dialect = Dialect { place: "place", prefix: "", no_number: "NULL", no_bytes: "NULL" };

/// What a `SELECT` asks for in a file of this version.
pub(super) static CURRENT: LazyLock<SelectLists> = LazyLock::new(|| SelectLists::new(&DIALECT, false));
/// The same in a file of an earlier version, which is read, never written.
static OLDER: LazyLock<SelectLists> = LazyLock::new(|| SelectLists::new(&DIALECT, true));

/// The columns of a log, as [`head`] reads them.
pub(super) const HEAD: &str = "number, tenant, origin, size, last_at, peaks";
const OLDER_HEAD: &str = "number, tenant, origin, size, last_at, frontier AS peaks";

/// What to ask for by the schema version of a file: the columns of an entry and of a log.
pub(super) fn layout(version: u32) -> (&'static SelectLists, &'static str) {
    if version < schema::VERSION { (&OLDER, OLDER_HEAD) } else { (&CURRENT, HEAD) }
}

/// The row id of an entry.
pub(super) fn row_id(head: &Head, seq: Seq) -> i64 {
    (head.number << 40) | seq.as_i64()
}

/// The sequence number of a row id.
pub(super) fn seq_of(row_id: i64) -> Option<Seq> {
    Seq::from_i64(row_id & MAX_SEQ as i64)
}

/// A row of an entry.
pub(super) struct SqliteRow<'r, 's> {
    pub(super) row: &'r SqlRow<'s>,
    pub(super) place: &'r LedgerFile,
}

impl<'r> SqliteRow<'r, '_> {
    fn value<T>(
        &self,
        column: usize,
        read: impl Fn(&ValueRef<'r>) -> FromSqlResult<T>,
    ) -> rusqlite::Result<T> {
        let value = self.row.get_ref(column)?;
        read(&value).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), Box::new(error))
        })
    }
}

impl<'r> StoredRow<'r> for SqliteRow<'r, '_> {
    type Error = rusqlite::Error;

    fn seq(&self) -> rusqlite::Result<Seq> {
        Ok(seq_of(self.row.get(0)?).unwrap_or_default())
    }

    fn text(&self, column: usize) -> rusqlite::Result<&'r str> {
        self.value(column, ValueRef::as_str)
    }

    fn optional_text(&self, column: usize) -> rusqlite::Result<Option<&'r str>> {
        self.value(column, ValueRef::as_str_or_null)
    }

    fn number(&self, column: usize) -> rusqlite::Result<i64> {
        self.row.get(column)
    }

    fn optional_number(&self, column: usize) -> rusqlite::Result<Option<i64>> {
        self.row.get(column)
    }

    fn bytes(&self, column: usize) -> rusqlite::Result<&'r [u8]> {
        self.value(column, ValueRef::as_blob)
    }

    fn optional_bytes(&self, column: usize) -> rusqlite::Result<Option<&'r [u8]>> {
        self.value(column, ValueRef::as_blob_or_null)
    }

    /// If it is the row's own bytes that cannot be read, the entry and the column are named.
    fn unreadable(&self, error: &rusqlite::Error) -> LedgerError {
        match self.row.get(0).ok().and_then(seq_of) {
            Some(seq) if is_damage(error) => {
                let column = match error {
                    rusqlite::Error::FromSqlConversionFailure(column, ..)
                    | rusqlite::Error::IntegralValueOutOfRange(column, _)
                    | rusqlite::Error::InvalidColumnType(column, ..)
                    | rusqlite::Error::Utf8Error(column, _) => *column,
                    _ => usize::MAX,
                };
                let column = self.row.as_ref().column_name(column).unwrap_or("unknown").to_owned();
                let what = format!("entry {seq}: the column `{column}` holds bytes that are no value of it");
                self.place.damaged_entry(seq, what)
            }
            _ => self.place.failure(error),
        }
    }

    fn damaged(&self, seq: Seq, what: String) -> LedgerError {
        self.place.damaged_entry(seq, what)
    }
}

/// Reads an outline: `id`, `created_at`, `payload_bytes`.
pub(super) fn outline(row: &SqlRow<'_>, seq: Seq, place: &LedgerFile) -> Result<Outline, LedgerError> {
    let failed = |error: rusqlite::Error| place.failure(&error);
    let id: String = row.get("id").map_err(failed)?;
    let created_at = Millis::new(row.get("created_at").map_err(failed)?);
    let bytes: i64 = row.get("payload_bytes").map_err(failed)?;
    match (LedgerId::parse(&id), u64::try_from(bytes)) {
        (Ok(id), Ok(payload_bytes)) => Ok(Outline { seq, id, created_at, payload_bytes }),
        _ => Err(place.damaged(format!("entry {seq} cannot be read back"))),
    }
}

/// Reads the head of a log.
pub(super) fn head(row: &SqlRow<'_>, place: &LedgerFile) -> Result<Head, LedgerError> {
    let failed = |error: rusqlite::Error| place.failure(&error);
    let tenant: String = row.get("tenant").map_err(failed)?;
    let size: i64 = row.get("size").map_err(failed)?;
    let peaks: Vec<u8> = row.get("peaks").map_err(failed)?;
    let size = u64::try_from(size).ok().filter(|size| *size <= MAX_SEQ);
    let frontier = size.and_then(|size| Frontier::from_bytes(size, &peaks));
    let (Some(frontier), Ok(tenant_id)) = (frontier, TenantId::parse(&tenant)) else {
        return Err(place.damaged(format!("the head of the log of tenant `{tenant}` cannot be read back")));
    };
    Ok(Head {
        tenant_id,
        number: row.get("number").map_err(failed)?,
        origin: row.get("origin").map_err(failed)?,
        last_at: Millis::new(row.get("last_at").map_err(failed)?),
        read_at: None,
        frontier,
    })
}
