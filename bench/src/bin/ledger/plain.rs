//! The plain side: the rows of our own ledger, inserted as they are into a table of the same columns and secondary
//! indexes, without hashing, checking, lineage or a Merkle log.

use std::path::Path;
use std::time::Instant;

use crealeph_bench::Outcome;
use postgres::types::ToSql;
use rusqlite::Connection;
use rusqlite::types::Value;

const COLUMNS: usize = 23;

/// Inserts the first rows of the ledger into a new file, `batch` to a commit; rows per second.
pub(crate) fn sqlite(from: &Path, to: &Path, batch: usize, rows: usize) -> Outcome<f64> {
    let source = Connection::open(from)?;
    let mut statement = source.prepare("SELECT * FROM entries ORDER BY place LIMIT ?1")?;
    let read =
        statement.query_map([rows as i64], |row| (0..COLUMNS).map(|column| row.get(column)).collect())?;
    let rows: Vec<Vec<Value>> = read.collect::<Result<_, _>>()?;
    let target = Connection::open(to)?;
    target.pragma_update(None, "journal_mode", "WAL")?;
    target.pragma_update(None, "synchronous", "FULL")?;
    target.pragma_update(None, "cache_size", -16_000)?;
    let kept = "SELECT sql FROM sqlite_schema WHERE tbl_name = 'entries' AND type IN ('table', 'index') ORDER BY type DESC";
    let mut schema = source.prepare(kept)?;
    for sql in schema.query_map([], |row| row.get::<_, String>(0))? {
        target.execute_batch(&sql?)?;
    }
    let places = (1..=COLUMNS).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
    let mut insert = target.prepare(&format!("INSERT INTO entries VALUES ({places})"))?;
    let start = Instant::now();
    for chunk in rows.chunks(batch) {
        target.execute_batch("BEGIN IMMEDIATE")?;
        for row in chunk {
            insert.execute(rusqlite::params_from_iter(row))?;
        }
        target.execute_batch("COMMIT")?;
    }
    Ok(rows.len() as f64 / start.elapsed().as_secs_f64())
}

/// Inserts the first rows of the ledger into a new table, `batch` to a commit, each batch as one statement; per second.
pub(crate) fn postgresql(client: &mut postgres::Client, batch: usize, rows: usize) -> Outcome<f64> {
    client.batch_execute(
        "DROP SCHEMA IF EXISTS plain CASCADE; CREATE SCHEMA plain; CREATE TABLE plain.entries (LIKE crealeph.entries INCLUDING ALL)",
    )?;
    let names = "tenant, seq, id, robot, module, source, kind, state, created_at, key, leaf, reach_signal, reach_fusion, \
                 reach_idea, reach_copy, reach_benchmark, reach_playbook, depends_on, payload";
    let sql = format!("SELECT {names} FROM crealeph.entries WHERE tenant = 'local' ORDER BY seq LIMIT $1");
    let found = client.query(&sql, &[&(rows as i64)])?;
    let insert = client.prepare(&format!(
        "INSERT INTO plain.entries ({names}) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], \
         $6::text[], $7::text[], $8::text[], $9::bigint[], $10::text[], $11::bytea[], $12::bigint[], $13::bigint[], \
         $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::text[], $19::text[])"
    ))?;
    let batches: Vec<Vec<Box<dyn ToSql + Sync>>> = found.chunks(batch).map(columns).collect();
    let start = Instant::now();
    for columns in &batches {
        let values: Vec<&(dyn ToSql + Sync)> = columns.iter().map(AsRef::as_ref).collect();
        client.execute(&insert, &values)?;
    }
    Ok(found.len() as f64 / start.elapsed().as_secs_f64())
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
