//! Rows as PostgreSQL returns them. Entries are read through [`crate::columns`], everything else by the names of its
//! columns.

use std::sync::LazyLock;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::scalar::{LedgerId, TenantId};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::FromSql;

use super::server::Server;
use super::{ACTORS, FILLED};
use crate::columns::{Dialect, SchemaAge, SelectLists, StoredRow};
use crate::entry::effective_at;
use crate::error::LedgerError;
use crate::merkle::Frontier;
use crate::position::{Millis, Seq};
use crate::reach::EffectiveTime;
use crate::row::{EntryClass, Outline};
use crate::store::Head;

const DIALECT: Dialect = Dialect {
    place: "seq",
    prefix: "e.",
    no_text: "NULL::text",
    no_number: "NULL::bigint",
    no_bytes: "NULL::bytea",
};

/// The columns of a `SELECT` in a database of this version.
pub(super) static CURRENT: LazyLock<SelectLists> =
    LazyLock::new(|| SelectLists::new(&DIALECT, SchemaAge::Current));
/// The same in databases of earlier versions, which are read, never written.
static BEFORE_ACTORS: LazyLock<SelectLists> =
    LazyLock::new(|| SelectLists::new(&DIALECT, SchemaAge::BeforeActors));
static BEFORE_NEWEST: LazyLock<SelectLists> =
    LazyLock::new(|| SelectLists::new(&DIALECT, SchemaAge::BeforeNewest));

/// The columns of a log, as [`head`] reads them.
pub(super) const HEAD: &str =
    "origin, size, last_at, peaks, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS read_at";
const OLDER_HEAD: &str = "origin, size, last_at, frontier AS peaks, \
    floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS read_at";

/// The columns by the schema version of a database: of an entry and of a log.
pub(super) fn layout(version: u32) -> (&'static SelectLists, &'static str) {
    match version {
        ..FILLED => (&BEFORE_NEWEST, OLDER_HEAD),
        FILLED..ACTORS => (&BEFORE_ACTORS, HEAD),
        _ => (&CURRENT, HEAD),
    }
}

/// The value of a column by its name.
pub(super) fn get<'r, T: FromSql<'r>>(
    row: &'r SqlRow,
    column: &str,
    server: &Server,
) -> Result<T, LedgerError> {
    row.try_get(column).map_err(|error| server.failure(&error))
}

/// A hash from a column by its name.
pub(super) fn hash(row: &SqlRow, column: &str, server: &Server) -> Result<Sha256, LedgerError> {
    <[u8; 32]>::try_from(get::<&[u8]>(row, column, server)?)
        .map(Sha256::from_bytes)
        .map_err(|_| server.damaged("a hash of the log is cut"))
}

/// A statement that finds one entry for each element of `$2`, by an index of tenant and that column. Each element is
/// looked up by itself, because before a table is analysed the planner uses `= ANY` as a filter and reads the whole log.
pub(super) fn each(columns: &str, element: &str, condition: &str) -> String {
    format!(
        "SELECT {columns} FROM unnest($2::{element}[]) WITH ORDINALITY AS w (value, turn) CROSS JOIN LATERAL \
         (SELECT * FROM entries WHERE tenant = $1 AND {condition} LIMIT 1) e ORDER BY w.turn"
    )
}

/// By sequence number, in [`each`].
pub(super) const BY_SEQ: &str = "seq = w.value";
/// By id, in [`each`].
pub(super) const BY_ID: &str = "id = w.value";
/// By client key, in [`each`].
pub(super) const BY_KEY: &str = "key = w.value AND key IS NOT NULL";

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
pub(super) fn newest(row: &SqlRow, server: &Server) -> Result<(EntryClass, EffectiveTime), LedgerError> {
    let text = |column| get::<String>(row, column, server);
    let class = EntryClass { robot: text("robot")?, kind: text("kind")?, state: text("state")? };
    let seq = Seq::from_i64(get(row, "seq", server)?);
    let observed_at: Option<&str> = get(row, "observed_at", server)?;
    let observed_at = observed_at.map(Timestamp::parse).transpose().ok();
    match (seq, observed_at) {
        (Some(seq), Some(observed_at)) => {
            let created_at = Millis::new(get(row, "created_at", server)?);
            Ok((class, EffectiveTime { at: effective_at(observed_at.as_ref(), created_at), seq }))
        }
        _ => Err(server.damaged("the time of an entry cannot be read back")),
    }
}

/// A row of an entry.
pub(super) struct PostgresRow<'r> {
    pub(super) row: &'r SqlRow,
    pub(super) server: &'r Server,
}

impl<'r> PostgresRow<'r> {
    fn value<T: FromSql<'r>>(&self, column: usize) -> Result<T, LedgerError> {
        self.row.try_get(column).map_err(|error| {
            let reason = self.server.reason(&error);
            match self.row.try_get(0).ok().and_then(Seq::from_i64) {
                Some(seq) => self.damaged(seq, format!("entry {seq}: {reason}")),
                None => self.server.damaged(format!("an entry without a sequence number: {reason}")),
            }
        })
    }
}

impl<'r> StoredRow<'r> for PostgresRow<'r> {
    fn seq(&self) -> Result<Seq, LedgerError> {
        let seq: i64 = self.value(0)?;
        Seq::from_i64(seq).ok_or_else(|| {
            self.server.damaged(format!("an entry has the sequence number {seq}, which none can have"))
        })
    }

    fn text(&self, column: usize) -> Result<Option<&'r str>, LedgerError> {
        self.value(column)
    }

    fn number(&self, column: usize) -> Result<Option<i64>, LedgerError> {
        self.value(column)
    }

    fn bytes(&self, column: usize) -> Result<Option<&'r [u8]>, LedgerError> {
        self.value(column)
    }

    fn damaged(&self, seq: Seq, what: String) -> LedgerError {
        self.server.damaged_entry(seq, what)
    }
}

/// Reads an outline: `seq`, `id`, `created_at`, `payload_bytes`.
pub(super) fn outline(row: &SqlRow, server: &Server) -> Result<Outline, LedgerError> {
    let (seq, bytes): (i64, i64) = (get(row, "seq", server)?, get(row, "payload_bytes", server)?);
    let id: &str = get(row, "id", server)?;
    let created_at = Millis::new(get(row, "created_at", server)?);
    match (Seq::from_i64(seq), LedgerId::parse(id), u64::try_from(bytes)) {
        (Some(seq), Ok(id), Ok(payload_bytes)) => Ok(Outline { seq, id, created_at, payload_bytes }),
        _ => Err(server.damaged(format!("entry {seq} cannot be read back"))),
    }
}

/// Reads the head of a log.
pub(super) fn head(row: &SqlRow, tenant_id: &TenantId, server: &Server) -> Result<Head, LedgerError> {
    let peaks: &[u8] = get(row, "peaks", server)?;
    let size = u64::try_from(get::<i64>(row, "size", server)?).ok();
    let frontier = size.and_then(|size| Frontier::from_bytes(size, peaks)).ok_or_else(|| {
        server.damaged(format!("the head of the log of tenant `{tenant_id}` cannot be read back"))
    })?;
    Ok(Head {
        tenant_id: tenant_id.clone(),
        number: 0,
        origin: get(row, "origin", server)?,
        last_at: Millis::new(get(row, "last_at", server)?),
        read_at: Some(Millis::new(get(row, "read_at", server)?)),
        frontier,
    })
}
