//! Rows as SQLite returns them. Entries are read through [`crate::columns`], everything else by the names of its columns.

use std::sync::LazyLock;

use crealeph_contracts::scalar::{LedgerId, TenantId};
use rusqlite::Row as SqlRow;
use rusqlite::types::{FromSqlResult, ValueRef};

use super::failure::{InFile as _, LedgerFile};
use super::schema;
use crate::columns::{Dialect, SchemaAge, SelectLists, StoredRow};
use crate::error::LedgerError;
use crate::merkle::Frontier;
use crate::position::{MAX_SEQ, Millis, Seq};
use crate::row::Outline;
use crate::store::Head;

const DIALECT: Dialect =
    Dialect { place: "place", prefix: "", no_text: "NULL", no_number: "NULL", no_bytes: "NULL" };

/// The columns of a `SELECT` in a file of this version.
pub(super) static CURRENT: LazyLock<SelectLists> =
    LazyLock::new(|| SelectLists::new(&DIALECT, SchemaAge::Current));
/// The same in files of earlier versions, which are read, never written.
static BEFORE_ACTORS: LazyLock<SelectLists> =
    LazyLock::new(|| SelectLists::new(&DIALECT, SchemaAge::BeforeActors));
static BEFORE_NEWEST: LazyLock<SelectLists> =
    LazyLock::new(|| SelectLists::new(&DIALECT, SchemaAge::BeforeNewest));

/// The columns of a log, as [`head`] reads them.
pub(super) const HEAD: &str = "number, tenant, origin, size, last_at, peaks";
const OLDER_HEAD: &str = "number, tenant, origin, size, last_at, frontier AS peaks";

/// The columns by the schema version of a file: of an entry and of a log.
pub(super) fn layout(version: u32) -> (&'static SelectLists, &'static str) {
    match version {
        ..schema::FILLED => (&BEFORE_NEWEST, OLDER_HEAD),
        schema::FILLED..schema::ACTORS => (&BEFORE_ACTORS, HEAD),
        _ => (&CURRENT, HEAD),
    }
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
    ) -> Result<T, LedgerError> {
        let value = self.row.get_ref(column).in_file(self.place)?;
        read(&value).map_err(|_| {
            let column = self.row.as_ref().column_name(column).unwrap_or("unknown");
            let what = format!("the column `{column}` holds bytes that are no value of it");
            match self.row.get(0).ok().and_then(seq_of) {
                Some(seq) => self.damaged(seq, format!("entry {seq}: {what}")),
                None => self.place.damaged(format!("an entry without a sequence number: {what}")),
            }
        })
    }
}

impl<'r> StoredRow<'r> for SqliteRow<'r, '_> {
    fn seq(&self) -> Result<Seq, LedgerError> {
        let row_id = self.value(0, ValueRef::as_i64)?;
        seq_of(row_id).ok_or_else(|| {
            self.place.damaged(format!("an entry has the row id {row_id}, which none can have"))
        })
    }

    fn text(&self, column: usize) -> Result<Option<&'r str>, LedgerError> {
        self.value(column, ValueRef::as_str_or_null)
    }

    fn number(&self, column: usize) -> Result<Option<i64>, LedgerError> {
        self.value(column, ValueRef::as_i64_or_null)
    }

    fn bytes(&self, column: usize) -> Result<Option<&'r [u8]>, LedgerError> {
        self.value(column, ValueRef::as_blob_or_null)
    }

    fn damaged(&self, seq: Seq, what: String) -> LedgerError {
        self.place.damaged_entry(seq, what)
    }
}

/// Reads an outline: `id`, `created_at`, `payload_bytes`.
pub(super) fn outline(row: &SqlRow<'_>, seq: Seq, place: &LedgerFile) -> Result<Outline, LedgerError> {
    let id: String = row.get("id").in_file(place)?;
    let created_at = Millis::new(row.get("created_at").in_file(place)?);
    let bytes: i64 = row.get("payload_bytes").in_file(place)?;
    match (LedgerId::parse(&id), u64::try_from(bytes)) {
        (Ok(id), Ok(payload_bytes)) => Ok(Outline { seq, id, created_at, payload_bytes }),
        _ => Err(place.damaged(format!("entry {seq} cannot be read back"))),
    }
}

/// Reads the head of a log.
pub(super) fn head(row: &SqlRow<'_>, place: &LedgerFile) -> Result<Head, LedgerError> {
    let tenant: String = row.get("tenant").in_file(place)?;
    let size: i64 = row.get("size").in_file(place)?;
    let peaks: Vec<u8> = row.get("peaks").in_file(place)?;
    let size = u64::try_from(size).ok().filter(|size| *size <= MAX_SEQ);
    let frontier = size.and_then(|size| Frontier::from_bytes(size, &peaks));
    let (Some(frontier), Ok(tenant_id)) = (frontier, TenantId::parse(&tenant)) else {
        return Err(place.damaged(format!("the head of the log of tenant `{tenant}` cannot be read back")));
    };
    Ok(Head {
        tenant_id,
        number: row.get("number").in_file(place)?,
        origin: row.get("origin").in_file(place)?,
        last_at: Millis::new(row.get("last_at").in_file(place)?),
        read_at: None,
        frontier,
    })
}
