//! Queries that only an audit needs: whether the file holds rows that no log accounts for, and whether its triggers and indexes are
//! those that this program creates.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::failure::{InFile as _, LedgerFile};
use super::rows::{row_id, seq_of};
use super::schema;
use crate::audit::AuditFaultKind;
use crate::error::LedgerError;
use crate::position::Seq;
use crate::store::{Head, StrayRow};

/// The first of these edges that the log does not have.
pub(super) fn missing_edge(
    connection: &Connection,
    head: &Head,
    edges: &[(Seq, Seq)],
) -> rusqlite::Result<Option<(Seq, Seq)>> {
    let mut find = connection.prepare_cached("SELECT 1 FROM edges WHERE parent = ?1 AND child = ?2")?;
    for (parent, child) in edges {
        if !find.exists([row_id(head, *parent), row_id(head, *child)])? {
            return Ok(Some((*parent, *child)));
        }
    }
    Ok(None)
}

/// The first row that is in no tree. Every query is a jump or a count in an index.
pub(super) fn stray_row(connection: &Connection, head: &Head) -> rusqlite::Result<Option<StrayRow>> {
    let (start, last, end) = (row_id(head, Seq::ZERO), row_id(head, head.last_seq()), row_id(head, Seq::MAX));
    let beyond = "SELECT place FROM entries WHERE place = ?1 UNION ALL \
                  SELECT min(place) FROM entries WHERE place > ?2 AND place <= ?3";
    let mut statement = connection.prepare(beyond)?;
    let found = statement.query_map([start, last, end], |row| row.get::<_, Option<i64>>(0))?;
    for place in found {
        if let Some(seq) = place?.and_then(seq_of) {
            let what = format!("entry {seq} is in the table `entries` and not in the tree");
            return Ok(Some(StrayRow { kind: AuditFaultKind::Extra, seq: Some(seq), what }));
        }
    }
    if let Some(stray) = hidden_row(connection, head)? {
        return Ok(Some(stray));
    }
    for (table, column, next) in [
        ("entries", "place >> 40", "place >= (found.log + 1) << 40"),
        ("edges", "parent >> 40", "parent >= (found.log + 1) << 40"),
        ("entries", "log", "log > found.log"),
        ("tiles", "log", "log > found.log"),
        ("checkpoints", "log", "log > found.log"),
    ] {
        let key = column.trim_end_matches(" >> 40");
        let shift = column.trim_start_matches(key);
        // `UNION` ends the jumps if a number is so large that the next overflows and leads back to the start.
        let sql = format!(
            "WITH RECURSIVE found (log) AS (SELECT (SELECT min({key}) FROM {table}){shift} UNION \
             SELECT (SELECT min({key}) FROM {table} WHERE {next}){shift} FROM found WHERE found.log IS NOT NULL) \
             SELECT log FROM found WHERE log IS NOT NULL AND log NOT IN (SELECT number FROM logs) LIMIT 1"
        );
        let found = connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).optional()?;
        if let Some(log) = found {
            let what = format!("the table `{table}` has rows of log {log}, and there is no such log");
            return Ok(Some(StrayRow { kind: AuditFaultKind::Extra, seq: None, what }));
        }
    }
    Ok(None)
}

/// An entry whose column `log` does not match its place, which removes it from every index of its log.
fn hidden_row(connection: &Connection, head: &Head) -> rusqlite::Result<Option<StrayRow>> {
    let (start, end) = (row_id(head, Seq::ZERO), row_id(head, Seq::MAX));
    let sql = "SELECT count(*), count(*) FILTER (WHERE place BETWEEN ?2 AND ?3) FROM entries WHERE log = ?1";
    let counted: (i64, i64) =
        connection.query_row(sql, params![head.number, start, end], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let size = head.frontier.size() as i64;
    if counted == (size, size) {
        return Ok(None);
    }
    let sql = "SELECT place FROM entries WHERE place BETWEEN ?2 AND ?3 AND log <> ?1 ORDER BY place LIMIT 1";
    let hidden =
        connection.query_row(sql, params![head.number, start, end], |row| row.get::<_, i64>(0)).optional()?;
    if let Some(seq) = hidden.and_then(seq_of) {
        let what =
            format!("entry {seq}: the column `log` says another log than its own, so no list shows it");
        return Ok(Some(StrayRow { kind: AuditFaultKind::Changed, seq: Some(seq), what }));
    }
    let (all, in_place) = counted;
    Ok((all > in_place).then(|| {
        let what = "the table `entries` has a row in another place that says it is of this log".to_owned();
        StrayRow { kind: AuditFaultKind::Extra, seq: None, what }
    }))
}

/// The first difference between the file's schema and the one that this program creates.
pub(super) fn schema_difference(
    connection: &Connection,
    place: &LedgerFile,
) -> Result<Option<String>, LedgerError> {
    let expected = Connection::open_in_memory().in_file(place).and_then(|mut memory| {
        schema::create(&mut memory, place)?;
        objects(&memory).in_file(place)
    })?;
    let found = objects(connection).in_file(place)?;
    for ((kind, name), sql) in &expected {
        match found.get(&(kind.clone(), name.clone())) {
            None => return Ok(Some(format!("the {kind} `{name}` is not there"))),
            Some(other) if other != sql => return Ok(Some(format!("the {kind} `{name}` was changed"))),
            Some(_) => {}
        }
    }
    let extra = found.keys().find(|key| !expected.contains_key(*key));
    Ok(extra.map(|(kind, name)| format!("there is a {kind} `{name}` that is not part of a ledger")))
}

/// Tables, indexes, triggers and views by kind and name, with the table they are on and their SQL.
type SchemaObjects = BTreeMap<(String, String), (String, Option<String>)>;

/// The objects of the schema, without those that `ANALYZE` creates.
fn objects(connection: &Connection) -> rusqlite::Result<SchemaObjects> {
    let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_stat*'";
    let mut statement = connection.prepare(sql)?;
    let found =
        statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?))))?;
    found.collect()
}
