//! The columns of an entry: one list, by which both databases select, insert, read and audit. A row is read by column names,
//! which are resolved at compile time; an entry that does not match its leaf hash is an error, never returned.

use std::borrow::Cow;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::scalar::{ClientKey, ExecutionId, LedgerId, Name, RobotId, TenantId};
use crealeph_decision::snapshot::SnapshotType;

use crate::entry::{CanonicalColumns, Content, StoredEntry, effective_at, ids_text, parse_ids};
use crate::error::LedgerError;
use crate::position::{Millis, Seq};
use crate::reach::{EffectiveReach, LineageReach};
use crate::row::{DerivedColumns, EntryRow, LineageNode, RawEntry};

/// A column of the table `entries`.
pub(crate) struct Column {
    pub name: &'static str,
    pub source: ColumnSource,
    /// A lineage needs it.
    is_in_node: bool,
    pub value: ColumnValue,
}

/// The source of a column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnSource {
    /// The entry itself: its leaf hash covers it.
    Entry,
    /// The same, but earlier versions of the schema do not have it.
    NewEntry,
    /// Derived from the entry and what it depends on; only an audit can tell whether it is right.
    Derived,
    /// The same, but versions of the schema before it was derived do not have it.
    NewlyDerived,
}

/// How a column's value is taken from a row, by its type in the database; `None` is `NULL`.
pub(crate) enum ColumnValue {
    Text(for<'r> fn(&'r EntryRow) -> Option<Cow<'r, str>>),
    Number(fn(&EntryRow) -> Option<i64>),
    Bytes(for<'r> fn(&'r EntryRow) -> Option<Cow<'r, [u8]>>),
}

impl ColumnValue {
    /// Whether two rows agree in the column.
    pub(crate) fn is_same(&self, one: &EntryRow, other: &EntryRow) -> bool {
        match self {
            ColumnValue::Text(value) => value(one) == value(other),
            ColumnValue::Number(value) => value(one) == value(other),
            ColumnValue::Bytes(value) => value(one) == value(other),
        }
    }
}

/// Every column of an entry except its position, which differs between the databases.
pub(crate) const ENTRY_COLUMNS: [Column; 24] = {
    use ColumnSource::{Derived, Entry, NewEntry, NewlyDerived};
    use ColumnValue::{Bytes, Number, Text};
    const IN_NODE: bool = true;
    const fn column(
        name: &'static str,
        source: ColumnSource,
        is_in_node: bool,
        value: ColumnValue,
    ) -> Column {
        Column { name, source, is_in_node, value }
    }
    [
        column("id", Entry, IN_NODE, Text(|row| Some(row.entry.id.as_str().into()))),
        column("robot", Entry, IN_NODE, Text(|row| Some(row.entry.content.robot_id.as_str().into()))),
        column("module", Entry, false, Text(|row| Some(row.entry.content.module.as_str().into()))),
        column("source", Entry, false, Text(|row| Some(row.entry.content.source.as_str().into()))),
        column("kind", Entry, IN_NODE, Text(|row| Some(row.entry.content.kind.as_str().into()))),
        column("state", Entry, IN_NODE, Text(|row| Some(row.entry.content.state.as_str().into()))),
        column("created_at", Entry, IN_NODE, Number(|row| Some(row.entry.created_at.get()))),
        column(
            "observed_at",
            Entry,
            IN_NODE,
            Text(|row| Some(row.entry.content.observed_at.as_ref()?.as_str().into())),
        ),
        column("key", Entry, IN_NODE, Text(|row| Some(row.entry.content.key.as_ref()?.as_str().into()))),
        column("execution", Derived, false, Text(|row| Some(row.derived.execution.as_deref()?.into()))),
        column("attempt", Derived, false, Number(|row| row.derived.attempt.map(|attempt| attempt as i64))),
        column(
            "rerun_of",
            Entry,
            false,
            Text(|row| Some(row.entry.content.rerun_of.as_ref()?.as_str().into())),
        ),
        column("leaf", Entry, false, Bytes(|row| Some(row.leaf.as_bytes().as_slice().into()))),
        column("reach_signal", Derived, IN_NODE, Number(|row| reached(row, SnapshotType::Signal))),
        column("reach_fusion", Derived, IN_NODE, Number(|row| reached(row, SnapshotType::Fusion))),
        column("reach_idea", Derived, IN_NODE, Number(|row| reached(row, SnapshotType::Idea))),
        column("reach_copy", Derived, IN_NODE, Number(|row| reached(row, SnapshotType::Copy))),
        column("reach_benchmark", Derived, IN_NODE, Number(|row| reached(row, SnapshotType::Benchmark))),
        column("reach_playbook", Derived, IN_NODE, Number(|row| reached(row, SnapshotType::Playbook))),
        column(
            "depends_on",
            Entry,
            IN_NODE,
            Text(|row| Some(ids_text(&row.entry.content.depends_on).into())),
        ),
        column("payload", Entry, false, Text(|row| Some((&*row.entry.content.payload).into()))),
        column("newest", NewlyDerived, false, Number(|row| row.derived.newest.map(Seq::as_i64))),
        column("used", NewlyDerived, IN_NODE, Bytes(|row| row.derived.used.to_bytes().map(Cow::Owned))),
        column("actor", NewEntry, false, Text(|row| Some(row.entry.actor.as_ref()?.as_str().into()))),
    ]
};

fn reached(row: &EntryRow, kind: SnapshotType) -> Option<i64> {
    row.derived.reach.get(kind).map(Seq::as_i64)
}

/// How a database writes the columns in a `SELECT`.
pub(crate) struct Dialect {
    /// The column of an entry's position; it comes first.
    pub place: &'static str,
    /// The prefix of a column's name.
    pub prefix: &'static str,
    /// Replacements for a text, a number and bytes that an earlier version of the schema does not have.
    pub no_text: &'static str,
    pub no_number: &'static str,
    pub no_bytes: &'static str,
}

/// How old a schema is, by the columns that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaAge {
    /// It has all.
    Current,
    /// It lacks those of [`ColumnSource::NewEntry`].
    BeforeActors,
    /// It lacks those of [`ColumnSource::NewlyDerived`] too.
    BeforeNewest,
}

impl SchemaAge {
    fn has(self, source: ColumnSource) -> bool {
        match source {
            ColumnSource::Entry | ColumnSource::Derived => true,
            ColumnSource::NewEntry => self == SchemaAge::Current,
            ColumnSource::NewlyDerived => self != SchemaAge::BeforeNewest,
        }
    }
}

/// The columns of a `SELECT` whose rows can be read here.
#[derive(Debug)]
pub(crate) struct SelectLists {
    /// For [`read_entry`] and [`read_raw`].
    pub entry: String,
    /// For [`read_node`].
    pub node: String,
}

impl SelectLists {
    /// For the schema of this version, or of one before it.
    pub(crate) fn new(dialect: &Dialect, age: SchemaAge) -> SelectLists {
        let Dialect { place, prefix, .. } = dialect;
        let place = format!("{prefix}{place}");
        let mut lists = SelectLists { entry: place.clone(), node: place };
        for Column { name, source, is_in_node, value } in &ENTRY_COLUMNS {
            let column = match (age.has(*source), value) {
                (true, _) => format!(", {prefix}{name}"),
                (false, ColumnValue::Text(_)) => format!(", {} AS {name}", dialect.no_text),
                (false, ColumnValue::Number(_)) => format!(", {} AS {name}", dialect.no_number),
                (false, ColumnValue::Bytes(_)) => format!(", {} AS {name}", dialect.no_bytes),
            };
            lists.entry.push_str(&column);
            if *is_in_node {
                lists.node.push_str(&column);
            }
        }
        lists
    }
}

/// The position of a column in [`SelectLists::entry`].
const fn in_entry(name: &str) -> usize {
    position(name, false)
}

/// The position of a column in [`SelectLists::node`].
const fn in_node(name: &str) -> usize {
    position(name, true)
}

#[expect(clippy::panic, reason = "evaluated when this is compiled")]
const fn position(name: &str, is_in_node: bool) -> usize {
    let (mut columns, mut position): (&[Column], usize) = (&ENTRY_COLUMNS, 1);
    while let [column, rest @ ..] = columns {
        let is_listed = column.is_in_node || !is_in_node;
        if is_listed && is_same_name(column.name.as_bytes(), name.as_bytes()) {
            return position;
        }
        (columns, position) = (rest, position + is_listed as usize);
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
    /// The sequence number, from the first column.
    fn seq(&self) -> Result<Seq, LedgerError>;
    fn text(&self, column: usize) -> Result<Option<&'r str>, LedgerError>;
    fn number(&self, column: usize) -> Result<Option<i64>, LedgerError>;
    fn bytes(&self, column: usize) -> Result<Option<&'r [u8]>, LedgerError>;
    /// The error of an entry that was changed.
    fn damaged(&self, seq: Seq, what: String) -> LedgerError;
}

/// Reads a whole entry and checks it against its leaf hash.
pub(crate) fn read_entry<'r, R: StoredRow<'r>>(
    row: &R,
    tenant_id: &'r TenantId,
) -> Result<EntryRow, LedgerError> {
    let columns = EntryColumns::read(row, tenant_id)?;
    columns.checked(tenant_id).ok_or_else(|| {
        let seq = columns.canonical.seq;
        row.damaged(seq, format!("entry {seq} of tenant `{tenant_id}` is not what was written"))
    })
}

/// Reads the text that an entry's columns give, whatever they contain.
pub(crate) fn read_raw<'r, R: StoredRow<'r>>(
    row: &R,
    tenant_id: &'r TenantId,
) -> Result<RawEntry, LedgerError> {
    let columns = EntryColumns::read(row, tenant_id)?;
    Ok(RawEntry { canonical: columns.canonical.text(), leaf: columns.leaf.to_vec() })
}

/// Reads the parts of an entry that a lineage needs.
pub(crate) fn read_node<'r, R: StoredRow<'r>>(row: &R) -> Result<LineageNode, LedgerError> {
    let seq = row.seq()?;
    let unreadable = || row.damaged(seq, format!("entry {seq} cannot be read back"));
    let text = |column| row.text(column)?.ok_or_else(unreadable);
    let created_at = row.number(const { in_node("created_at") })?.ok_or_else(unreadable)?;
    let created_at = Millis::new(created_at);
    let observed_at = parsed(row.text(const { in_node("observed_at") })?, Timestamp::parse);
    Ok(LineageNode {
        seq,
        id: LedgerId::parse(text(const { in_node("id") })?).map_err(|_| unreadable())?,
        robot_id: RobotId::parse(text(const { in_node("robot") })?).map_err(|_| unreadable())?,
        kind: text(const { in_node("kind") })?.to_owned(),
        state: text(const { in_node("state") })?.to_owned(),
        key: parsed(row.text(const { in_node("key") })?, ClientKey::parse).ok_or_else(unreadable)?,
        created_at,
        effective_at: effective_at(observed_at.ok_or_else(unreadable)?.as_ref(), created_at),
        depends_on: parse_ids(text(const { in_node("depends_on") })?).ok_or_else(unreadable)?,
        reach: read_reach(row, const { in_node("reach_signal") })?,
        used: EffectiveReach::from_bytes(row.bytes(const { in_node("used") })?).ok_or_else(unreadable)?,
    })
}

/// The values of an entry's columns, trusted or not.
struct EntryColumns<'r> {
    canonical: CanonicalColumns<'r>,
    execution: Option<&'r str>,
    attempt: Option<i64>,
    leaf: &'r [u8],
    reach: LineageReach,
    newest: Option<i64>,
    used: Option<&'r [u8]>,
}

impl<'r> EntryColumns<'r> {
    fn read<R: StoredRow<'r>>(row: &R, tenant_id: &'r TenantId) -> Result<EntryColumns<'r>, LedgerError> {
        let seq = row.seq()?;
        let missing = || row.damaged(seq, format!("entry {seq} lacks a value"));
        let text = |column| row.text(column)?.ok_or_else(missing);
        let execution = row.text(const { in_entry("execution") })?;
        let attempt = row.number(const { in_entry("attempt") })?;
        let created_at = row.number(const { in_entry("created_at") })?.ok_or_else(missing)?;
        let canonical = CanonicalColumns {
            actor: row.text(const { in_entry("actor") })?,
            created_at: Millis::new(created_at),
            id: text(const { in_entry("id") })?,
            key: row.text(const { in_entry("key") })?,
            depends_on: text(const { in_entry("depends_on") })?,
            // An event names its execution in the payload.
            execution_id: if attempt.is_some() { None } else { execution },
            rerun_of: row.text(const { in_entry("rerun_of") })?,
            module: text(const { in_entry("module") })?,
            observed_at: row.text(const { in_entry("observed_at") })?,
            payload: text(const { in_entry("payload") })?,
            robot_id: text(const { in_entry("robot") })?,
            seq,
            source: text(const { in_entry("source") })?,
            state: text(const { in_entry("state") })?,
            tenant_id: tenant_id.as_str(),
            kind: text(const { in_entry("kind") })?,
        };
        Ok(EntryColumns {
            canonical,
            execution,
            attempt,
            leaf: row.bytes(const { in_entry("leaf") })?.ok_or_else(missing)?,
            reach: read_reach(row, const { in_entry("reach_signal") })?,
            newest: row.number(const { in_entry("newest") })?,
            used: row.bytes(const { in_entry("used") })?,
        })
    }

    /// The entry, if it matches its leaf hash.
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
        let entry = StoredEntry {
            id: LedgerId::parse(columns.id).ok()?,
            seq: columns.seq,
            tenant_id: tenant_id.clone(),
            created_at: columns.created_at,
            actor: parsed(columns.actor, Name::parse)?,
            content,
        };
        let leaf = Sha256::from_bytes(<[u8; 32]>::try_from(self.leaf).ok()?);
        let derived = DerivedColumns {
            execution: self.execution.map(str::to_owned),
            attempt: parsed(self.attempt, u64::try_from)?,
            reach: self.reach.clone(),
            used: EffectiveReach::from_bytes(self.used)?,
            newest: parsed(self.newest, |newest| Seq::from_i64(newest).ok_or(()))?,
        };
        (entry.leaf_hash() == leaf).then_some(EntryRow { entry, leaf, derived })
    }
}

/// The six columns of a reach, in the order of [`SnapshotType::ALL`].
fn read_reach<'r, R: StoredRow<'r>>(row: &R, first: usize) -> Result<LineageReach, LedgerError> {
    let mut columns = [None; SnapshotType::ALL.len()];
    for (offset, column) in columns.iter_mut().enumerate() {
        *column = row.number(first + offset)?;
    }
    Ok(LineageReach::from_columns(columns))
}

/// An optional value as its type: absent stays absent, unreadable is an error.
fn parsed<V, T, E>(value: Option<V>, parse: impl Fn(V) -> Result<T, E>) -> Option<Option<T>> {
    value.map(parse).transpose().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_read_at_the_position_where_it_is_selected() {
        let dialect =
            Dialect { place: "seq", prefix: "e.", no_text: "NULL", no_number: "NULL", no_bytes: "NULL" };
        for age in [SchemaAge::Current, SchemaAge::BeforeActors, SchemaAge::BeforeNewest] {
            let lists = SelectLists::new(&dialect, age);
            for Column { name, is_in_node, .. } in &ENTRY_COLUMNS {
                let at = |list: &str, position: usize| {
                    let column = list.split(", ").nth(position).unwrap();
                    column == format!("e.{name}") || column == format!("NULL AS {name}")
                };
                assert!(at(&lists.entry, in_entry(name)), "{name}");
                assert!(!is_in_node || at(&lists.node, in_node(name)), "{name}");
            }
            assert_eq!(lists.entry.contains("NULL AS used"), age == SchemaAge::BeforeNewest);
            assert_eq!(lists.entry.contains("NULL AS actor"), age != SchemaAge::Current);
        }
    }
}
