//! The plain side: the rows of our own ledger, inserted as they are into a table of the same columns and secondary
//! indexes, without hashing, checking, lineage or a Merkle log.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use postgres::types::ToSql;
use rusqlite::Connection;
use rusqlite::types::Value;

const COLUMNS: usize = 23;

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

    /// Inserts rows of the ledger, `batch` to a commit; the time without reading them.
    pub(crate) fn insert(&mut self, rows: Range<usize>, batch: usize) -> Outcome<Duration> {
        let mut statement = self.source.prepare("SELECT * FROM entries ORDER BY place LIMIT ?1 OFFSET ?2")?;
        let range = [rows.len() as i64, rows.start as i64];
        let read = statement.query_map(range, |row| (0..COLUMNS).map(|column| row.get(column)).collect())?;
        let rows: Vec<Vec<Value>> = read.collect::<Result<_, _>>()?;
        let places = (1..=COLUMNS).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
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

const NAMES: &str = "tenant, seq, id, robot, module, source, kind, state, created_at, key, leaf, reach_signal, \
    reach_fusion, reach_idea, reach_copy, reach_benchmark, reach_playbook, depends_on, payload";

/// A table of plain rows beside a ledger's.
pub(crate) struct Postgres {
    client: postgres::Client,
    insert: postgres::Statement,
}

impl Postgres {
    /// A new table like that of the ledger's entries, with its indexes.
    pub(crate) fn new(mut client: postgres::Client, name: &str) -> Outcome<Postgres> {
        client.batch_execute(&format!("CREATE TABLE {name} (LIKE crealeph.entries INCLUDING ALL)"))?;
        let insert = client.prepare(&format!(
            "INSERT INTO {name} ({NAMES}) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], \
             $6::text[], $7::text[], $8::text[], $9::bigint[], $10::text[], $11::bytea[], $12::bigint[], $13::bigint[], \
             $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::text[], $19::text[])"
        ))?;
        Ok(Postgres { client, insert })
    }

    /// Inserts rows of the ledger, `batch` to a commit, each batch as one statement; the time without reading them.
    pub(crate) fn insert(&mut self, rows: Range<usize>, batch: usize) -> Outcome<Duration> {
        let sql = format!(
            "SELECT {NAMES} FROM crealeph.entries WHERE tenant = 'local' AND seq > $1 AND seq <= $2 ORDER BY seq"
        );
        let found = self.client.query(&sql, &[&(rows.start as i64), &(rows.end as i64)])?;
        let batches: Vec<Vec<Box<dyn ToSql + Sync>>> = found.chunks(batch).map(columns).collect();
        let start = Instant::now();
        for columns in &batches {
            let values: Vec<&(dyn ToSql + Sync)> = columns.iter().map(AsRef::as_ref).collect();
            self.client.execute(&self.insert, &values)?;
        }
        Ok(start.elapsed())
    }
}

fn columns(rows: &[postgres::Row]) -> Vec<Box<dyn ToSql + Sync>> {
    let text = |column: usize| -> Box<dyn ToSql + Sync> {
        Box::new(rows.iter().map(|row| row.get::<_, Option<String>>(column)).collect::<Vec<_>>())
    };
    let number = |column: usize| -> Box<dyn ToSql + Sync> {
        Box::new(rows.iter().map(|row| row.get::<_, Option<i64>>(column)).collect::<Vec<_>>())
    };
    let bytes = |column: usize| -> Box<dyn ToSql + Sync> {
        Box::new(rows.iter().map(|row| row.get::<_, Vec<u8>>(column)).collect::<Vec<_>>())
    };
    (0..19)
        .map(|column| match column {
            1 | 8 | 11..=16 => number(column),
            10 => bytes(column),
            _ => text(column),
        })
        .collect()
}
