//! The columns of an entry: one list, by which both databases select, insert, read and audit. A row is read by the names in
//! it, which are resolved when this is compiled; what does not fit its leaf hash is an error, never returned.

use std::borrow::Cow;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::scalar::{ClientKey, ExecutionId, LedgerId, Name, RobotId, TenantId};
use crealeph_decision::snapshot::SnapshotType;

use crate::entry::{CanonicalColumns, Content, Stored, effective_at, ids_text, parse_ids};
use crate::error::LedgerError;
use crate::position::{Millis, Seq};
use crate::reach::{Reach, Used};
use crate::row::{Derived, EntryRow, LineageNode, RawEntry};

/// A column of the table `entries`.
pub(crate) struct Column {
    pub name: &'static str,
    pub source: ColumnSource,
    pub value: ColumnValue,
}

/// What a column's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnSource {
    /// The entry itself: its leaf hash covers it.
    Entry,
    /// Derived from the entry and what it depends on; only an audit can tell whether it is right.
    Derived,
    /// The same, and earlier versions of the schema do not have it.
    NewlyDerived,
}

/// How a column's value is taken from a row, by its type in the database.
pub(crate) enum ColumnValue {
    Text(for<'r> fn(&'r EntryRow) -> Cow<'r, str>),
    OptionalText(for<'r> fn(&'r EntryRow) -> Option<&'r str>),
    Number(fn(&EntryRow) -> i64),
    OptionalNumber(fn(&EntryRow) -> Option<i64>),
    Bytes(for<'r> fn(&'r EntryRow) -> &'r [u8]),
    OptionalBytes(fn(&EntryRow) -> Option<Vec<u8>>),
}

impl ColumnValue {
    /// Whether two rows agree in the column.
    pub(crate) fn is_same(&self, one: &EntryRow, other: &EntryRow) -> bool {
        match self {
            ColumnValue::Text(value) => value(one) == value(other),
            ColumnValue::OptionalText(value) => value(one) == value(other),
            ColumnValue::Number(value) => value(one) == value(other),
            ColumnValue::OptionalNumber(value) => value(one) == value(other),
            ColumnValue::Bytes(value) => value(one) == value(other),
            ColumnValue::OptionalBytes(value) => value(one) == value(other),
        }
    }
}

/// Every column of an entry but those that say where it is, which differ between the databases.
pub(crate) const ENTRY_COLUMNS: [Column; 23] = {
    use ColumnSource::{Derived, Entry, NewlyDerived};
    use ColumnValue::{Bytes, Number, OptionalBytes, OptionalNumber, OptionalText, Text};
    const fn column(name: &'static str, source: ColumnSource, value: ColumnValue) -> Column {
        Column { name, source, value }
    }
    [
        column("id", Entry, Text(|row| row.entry.id.as_str().into())),
        column("robot", Entry, Text(|row| row.entry.content.robot_id.as_str().into())),
        column("module", Entry, Text(|row| row.entry.content.module.as_str().into())),
        column("source", Entry, Text(|row| row.entry.content.source.as_str().into())),
        column("kind", Entry, Text(|row| row.entry.content.kind.as_str().into())),
        column("state", Entry, Text(|row| row.entry.content.state.as_str().into())),
        column("created_at", Entry, Number(|row| row.entry.created_at.get())),
        column(
            "observed_at",
            Entry,
            OptionalText(|row| Some(row.entry.content.observed_at.as_ref()?.as_str())),
        ),
        column("key", Entry, OptionalText(|row| Some(row.entry.content.key.as_ref()?.as_str()))),
        column("execution", Derived, OptionalText(|row| row.derived.execution.as_deref())),
        column("attempt", Derived, OptionalNumber(|row| row.derived.attempt.map(|attempt| attempt as i64))),
        column("rerun_of", Entry, OptionalText(|row| Some(row.entry.content.rerun_of.as_ref()?.as_str()))),
        column("leaf", Entry, Bytes(|row| row.leaf.as_bytes())),
        column("reach_signal", Derived, OptionalNumber(|row| reached(row, SnapshotType::Signal))),
        column("reach_fusion", Derived, OptionalNumber(|row| reached(row, SnapshotType::Fusion))),
        column("reach_idea", Derived, OptionalNumber(|row| reached(row, SnapshotType::Idea))),
        column("reach_copy", Derived, OptionalNumber(|row| reached(row, SnapshotType::Copy))),
        column("reach_benchmark", Derived, OptionalNumber(|row| reached(row, SnapshotType::Benchmark))),
        column("reach_playbook", Derived, OptionalNumber(|row| reached(row, SnapshotType::Playbook))),
        column("depends_on", Entry, Text(|row| ids_text(&row.entry.content.depends_on).into())),
        column("payload", Entry, Text(|row| (&*row.entry.content.payload).into())),
        column("newest", NewlyDerived, OptionalNumber(|row| row.derived.newest.map(Seq::as_i64))),
        column("used", NewlyDerived, OptionalBytes(|row| row.derived.used.to_bytes())),
    ]
};

fn reached(row: &EntryRow, kind: SnapshotType) -> Option<i64> {
    row.derived.reach.get(kind).map(Seq::as_i64)
}

/// The columns of [`ENTRY_COLUMNS`] that a lineage needs.
const NODE_COLUMNS: [&str; 15] = [
    "id",
    "robot",
    "kind",
    "state",
    "created_at",
    "observed_at",
    "key",
    "reach_signal",
    "reach_fusion",
    "reach_idea",
    "reach_copy",
    "reach_benchmark",
    "reach_playbook",
    "depends_on",
    "used",
];

/// How a database writes the columns in a `SELECT`.
pub(crate) struct Dialect {
    /// The column that says where an entry is; it comes first.
    pub place: &'static str,
    /// What stands before the name of a column.
    pub prefix: &'static str,
    /// In place of a number and of bytes that an earlier version of the schema does not have.
    pub no_number: &'static str,
    pub no_bytes: &'static str,
}

/// What a `SELECT` asks for so that its rows can be read here.
#[derive(Debug)]
pub(crate) struct SelectLists {
    /// For [`read_entry`] and [`read_raw`].
    pub entry: String,
    /// For [`read_node`].
    pub node: String,
}

impl SelectLists {
    /// For the schema of this version, or of one before it.
    pub(crate) fn new(dialect: &Dialect, is_older: bool) -> SelectLists {
        let list = |is_wanted: &dyn Fn(&str) -> bool| {
            let Dialect { place, prefix, .. } = dialect;
            let mut list = format!("{prefix}{place}");
            for Column { name, source, value } in &ENTRY_COLUMNS {
                if is_wanted(name) {
                    let null = match value {
                        ColumnValue::OptionalBytes(_) => dialect.no_bytes,
                        _ => dialect.no_number,
                    };
                    let is_absent = is_older && *source == ColumnSource::NewlyDerived;
                    list +=
                        &if is_absent { format!(", {null} AS {name}") } else { format!(", {prefix}{name}") };
                }
            }
            list
        };
        SelectLists { entry: list(&|_| true), node: list(&|name| NODE_COLUMNS.contains(&name)) }
    }
}

/// The position of a column in [`SelectLists::entry`].
#[expect(clippy::panic, reason = "evaluated when this is compiled")]
const fn in_entry(name: &str) -> usize {
    let (mut columns, mut position): (&[Column], usize) = (&ENTRY_COLUMNS, 1);
    while let [column, rest @ ..] = columns {
        if is_same_name(column.name.as_bytes(), name.as_bytes()) {
            return position;
        }
        (columns, position) = (rest, position + 1);
    }
    panic!("there is no such column")
}

/// The position of a column in [`SelectLists::node`].
#[expect(clippy::panic, reason = "evaluated when this is compiled")]
const fn in_node(name: &str) -> usize {
    let (mut names, mut position): (&[&str], usize) = (&NODE_COLUMNS, 1);
    while let [column, rest @ ..] = names {
        if is_same_name(column.as_bytes(), name.as_bytes()) {
            return position;
        }
        (names, position) = (rest, position + 1);
    }
    panic!("there is no such column")
}

const fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([], []) => true,
        ([one, one_rest @ ..], [other, other_rest @ ..]) => {
            *one == *other && is_same_name(one_rest, other_rest)
        }
        _ => false,
    }
}

/// A row as a database hands it over.
pub(crate) trait StoredRow<'r> {
    /// Why a value cannot be read.
    type Error;

    /// The sequence number, from the first column.
    fn seq(&self) -> Result<Seq, Self::Error>;
    fn text(&self, column: usize) -> Result<&'r str, Self::Error>;
    fn optional_text(&self, column: usize) -> Result<Option<&'r str>, Self::Error>;
    fn number(&self, column: usize) -> Result<i64, Self::Error>;
    fn optional_number(&self, column: usize) -> Result<Option<i64>, Self::Error>;
    fn bytes(&self, column: usize) -> Result<&'r [u8], Self::Error>;
    fn optional_bytes(&self, column: usize) -> Result<Option<&'r [u8]>, Self::Error>;
    /// The error of a row that cannot be read.
    fn unreadable(&self, error: &Self::Error) -> LedgerError;
    /// The error of an entry that is not what was written.
    fn damaged(&self, seq: Seq, what: String) -> LedgerError;
}

/// Reads a whole entry and checks it against its leaf hash.
pub(crate) fn read_entry<'r, R: StoredRow<'r>>(
    row: &R,
    tenant_id: &'r TenantId,
) -> Result<EntryRow, LedgerError> {
    let columns = EntryColumns::read(row, tenant_id).map_err(|error| row.unreadable(&error))?;
    columns.checked(tenant_id).ok_or_else(|| {
        let seq = columns.canonical.seq;
        row.damaged(seq, format!("entry {seq} of tenant `{tenant_id}` is not what was written"))
    })
}

/// Reads the text that an entry's columns make, whatever they hold.
pub(crate) fn read_raw<'r, R: StoredRow<'r>>(
    row: &R,
    tenant_id: &'r TenantId,
) -> Result<RawEntry, LedgerError> {
    let columns = EntryColumns::read(row, tenant_id).map_err(|error| row.unreadable(&error))?;
    Ok(RawEntry { canonical: columns.canonical.text(), leaf: columns.leaf.to_vec() })
}

/// Reads what a lineage needs of an entry.
pub(crate) fn read_node<'r, R: StoredRow<'r>>(row: &R) -> Result<LineageNode, LedgerError> {
    let (seq, node) = node(row).map_err(|error| row.unreadable(&error))?;
    node.ok_or_else(|| row.damaged(seq, format!("entry {seq} cannot be read back")))
}

fn node<'r, R: StoredRow<'r>>(row: &R) -> Result<(Seq, Option<LineageNode>), R::Error> {
    let seq = row.seq()?;
    let id = row.text(const { in_node("id") })?;
    let robot = row.text(const { in_node("robot") })?;
    let kind = row.text(const { in_node("kind") })?;
    let state = row.text(const { in_node("state") })?;
    let created_at = Millis::new(row.number(const { in_node("created_at") })?);
    let observed_at = row.optional_text(const { in_node("observed_at") })?;
    let key = row.optional_text(const { in_node("key") })?;
    let reach = read_reach(row, const { in_node("reach_signal") })?;
    let depends_on = row.text(const { in_node("depends_on") })?;
    let used = row.optional_bytes(const { in_node("used") })?;
    let node = || {
        let observed_at = parsed(observed_at, Timestamp::parse)?;
        Some(LineageNode {
            seq,
            id: LedgerId::parse(id).ok()?,
            robot_id: RobotId::parse(robot).ok()?,
            kind: kind.to_owned(),
            state: state.to_owned(),
            key: parsed(key, ClientKey::parse)?,
            created_at,
            effective_at: effective_at(observed_at.as_ref(), created_at),
            depends_on: parse_ids(depends_on)?,
            reach,
            used: Used::from_bytes(used)?,
        })
    };
    Ok((seq, node()))
}

/// The values of an entry's columns, trusted or not.
struct EntryColumns<'r> {
    canonical: CanonicalColumns<'r>,
    execution: Option<&'r str>,
    attempt: Option<i64>,
    leaf: &'r [u8],
    reach: Reach,
    newest: Option<i64>,
    used: Option<&'r [u8]>,
}

impl<'r> EntryColumns<'r> {
    fn read<R: StoredRow<'r>>(row: &R, tenant_id: &'r TenantId) -> Result<EntryColumns<'r>, R::Error> {
        let execution = row.optional_text(const { in_entry("execution") })?;
        let attempt = row.optional_number(const { in_entry("attempt") })?;
        let canonical = CanonicalColumns {
            created_at: Millis::new(row.number(const { in_entry("created_at") })?),
            id: row.text(const { in_entry("id") })?,
            key: row.optional_text(const { in_entry("key") })?,
            depends_on: row.text(const { in_entry("depends_on") })?,
            // An event names its execution in the payload.
            execution_id: if attempt.is_some() { None } else { execution },
            rerun_of: row.optional_text(const { in_entry("rerun_of") })?,
            module: row.text(const { in_entry("module") })?,
            observed_at: row.optional_text(const { in_entry("observed_at") })?,
            payload: row.text(const { in_entry("payload") })?,
            robot_id: row.text(const { in_entry("robot") })?,
            seq: row.seq()?,
            source: row.text(const { in_entry("source") })?,
            state: row.text(const { in_entry("state") })?,
            tenant_id: tenant_id.as_str(),
            kind: row.text(const { in_entry("kind") })?,
        };
        Ok(EntryColumns {
            canonical,
            execution,
            attempt,
            leaf: row.bytes(const { in_entry("leaf") })?,
            reach: read_reach(row, const { in_entry("reach_signal") })?,
            newest: row.optional_number(const { in_entry("newest") })?,
            used: row.optional_bytes(const { in_entry("used") })?,
        })
    }

    /// The entry, if it is what its leaf hash says.
    fn checked(&self, tenant_id: &TenantId) -> Option<EntryRow> {
        let columns = &self.canonical;
        let content = Content {
            robot_id: RobotId::parse(columns.robot_id).ok()?,
            module: Name::parse(columns.module).ok()?,
            source: Name::parse(columns.source).ok()?,
            kind: Name::parse(columns.kind).ok()?,
            state: Name::parse(columns.state).ok()?,
            payload: columns.payload.into(),
            depends_on: parse_ids(columns.depends_on)?,
            execution_id: parsed(columns.execution_id, ExecutionId::parse)?,
            rerun_of: parsed(columns.rerun_of, ExecutionId::parse)?,
            observed_at: parsed(columns.observed_at, Timestamp::parse)?,
            key: parsed(columns.key, ClientKey::parse)?,
        };
        let entry = Stored {
            id: LedgerId::parse(columns.id).ok()?,
            seq: columns.seq,
            tenant_id: tenant_id.clone(),
            created_at: columns.created_at,
            content,
        };
        let leaf = Sha256::from_bytes(<[u8; 32]>::try_from(self.leaf).ok()?);
        let derived = Derived {
            execution: self.execution.map(str::to_owned),
            attempt: parsed(self.attempt, u64::try_from)?,
            reach: self.reach.clone(),
            used: Used::from_bytes(self.used)?,
            newest: parsed(self.newest, |newest| Seq::from_i64(newest).ok_or(()))?,
        };
        (entry.leaf_hash() == leaf).then_some(EntryRow { entry, leaf, derived })
    }
}

/// The six columns of a reach, in the order of [`SnapshotType::ALL`].
fn read_reach<'r, R: StoredRow<'r>>(row: &R, first: usize) -> Result<Reach, R::Error> {
    let mut columns = [None; SnapshotType::ALL.len()];
    for (offset, column) in columns.iter_mut().enumerate() {
        *column = row.optional_number(first + offset)?;
    }
    Ok(Reach::from_columns(columns))
}

/// An optional value as its type: absent stays absent, unreadable is a fault.
fn parsed<V, T, E>(value: Option<V>, parse: impl Fn(V) -> Result<T, E>) -> Option<Option<T>> {
    value.map(parse).transpose().ok()
}
