//! The plain side: the rows of our own ledger, inserted as they are into a table of the same columns and secondary
//! indexes, without hashing, checking, lineage or a Merkle log.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use postgres::types::{FromSql, ToSql, Type};
use rusqlite::Connection;
use rusqlite::types::Value;

/// A file of plain rows, copied from a ledger's.
pub(crate) struct Sqlite {
    source: Connection,
    target: Connection,
}

impl Sqlite {
    /// A new file with the table and indexes of the ledger's entries.
    pub(crate) fn new(from: &Path, to: &Path) -> Outcome<Sqlite> {
        let (source, target) = (Connection::open(from)?, Connection::open(to)?);
        target.pragma_update(None, "journal_mode", "WAL")?;
        target.pragma_update(None, "synchronous", "FULL")?;
        target.pragma_update(None, "cache_size", -16_000)?;
        let kept = "SELECT sql FROM sqlite_schema WHERE tbl_name = 'entries' AND type IN ('table', 'index') ORDER BY type DESC";
        for sql in source.prepare(kept)?.query_map([], |row| row.get::<_, String>(0))? {
            target.execute_batch(&sql?)?;
        }
        Ok(Sqlite { source, target })
    }

    /// Inserts rows of the ledger, `batch` per commit; the time without reading them.
    pub(crate) fn insert(&mut self, rows: Range<usize>, batch: usize) -> Outcome<Duration> {
        let mut statement = self.source.prepare("SELECT * FROM entries ORDER BY place LIMIT ?1 OFFSET ?2")?;
        let columns = statement.column_count();
        let range = [rows.len() as i64, rows.start as i64];
        let read = statement.query_map(range, |row| (0..columns).map(|column| row.get(column)).collect())?;
        let rows: Vec<Vec<Value>> = read.collect::<Result<_, _>>()?;
        let places = (1..=columns).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
        let mut insert = self.target.prepare_cached(&format!("INSERT INTO entries VALUES ({places})"))?;
        let start = Instant::now();
        for chunk in rows.chunks(batch) {
            self.target.execute_batch("BEGIN IMMEDIATE")?;
            for row in chunk {
                insert.execute(rusqlite::params_from_iter(row))?;
            }
            self.target.execute_batch("COMMIT")?;
        }
        Ok(start.elapsed())
    }
}

/// A table of plain rows next to a ledger's.
pub(crate) struct Postgres {
    client: postgres::Client,
    names: String,
    insert: postgres::Statement,
}

impl Postgres {
    /// A new table like that of the ledger's entries, with its indexes.
    pub(crate) fn new(url: &str, name: &str) -> Outcome<Postgres> {
        let mut client = postgres::Client::connect(url, postgres::NoTls)?;
        client.batch_execute(&format!("CREATE TABLE {name} (LIKE crealeph.entries INCLUDING ALL)"))?;
        let row = client.prepare("SELECT * FROM crealeph.entries")?;
        let names = row.columns().iter().map(|column| column.name()).collect::<Vec<_>>().join(", ");
        let arrays =
            (1..).zip(row.columns()).map(|(number, column)| format!("${number}::{}[]", column.type_()));
        let arrays = arrays.collect::<Vec<_>>().join(", ");
        let insert =
            client.prepare(&format!("INSERT INTO {name} ({names}) SELECT * FROM unnest({arrays})"))?;
        Ok(Postgres { client, names, insert })
    }

    /// Inserts rows of the ledger, `batch` per commit, each batch as one statement; the time without reading them.
    pub(crate) fn insert(&mut self, rows: Range<usize>, batch: usize) -> Outcome<Duration> {
        let sql = format!(
            "SELECT {} FROM crealeph.entries WHERE tenant = 'local' AND seq > $1 AND seq <= $2 ORDER BY seq",
            self.names
        );
        let found = self.client.query(&sql, &[&(rows.start as i64), &(rows.end as i64)])?;
        let batches = found.chunks(batch).map(arrays).collect::<Outcome<Vec<_>>>()?;
        let start = Instant::now();
        for columns in &batches {
            let values: Vec<&(dyn ToSql + Sync)> = columns.iter().map(AsRef::as_ref).collect();
            self.client.execute(&self.insert, &values)?;
        }
        Ok(start.elapsed())
    }
}

/// The rows' values, an array for each column.
fn arrays(rows: &[postgres::Row]) -> Outcome<Vec<Box<dyn ToSql + Sync>>> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    first
        .columns()
        .iter()
        .enumerate()
        .map(|(column, described)| array(rows, column, described.type_()))
        .collect()
}

fn array(rows: &[postgres::Row], column: usize, kind: &Type) -> Outcome<Box<dyn ToSql + Sync>> {
    fn values<T: for<'a> FromSql<'a>>(rows: &[postgres::Row], column: usize) -> Vec<Option<T>> {
        rows.iter().map(|row| row.get(column)).collect()
    }
    Ok(match *kind {
        Type::TEXT => Box::new(values::<String>(rows, column)),
        Type::INT8 => Box::new(values::<i64>(rows, column)),
        Type::BYTEA => Box::new(values::<Vec<u8>>(rows, column)),
        _ => return Err(format!("the plain side has no arrays of `{kind}`").into()),
    })
}
