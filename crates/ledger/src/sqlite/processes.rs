//! Server processes in SQLite, by the time since the machine started.

use crealeph_contracts::scalar::Name;
use rusqlite::{Connection, params};

use super::boot;
use super::failure::{InFile as _, LedgerFile};
use crate::error::LedgerError;
use crate::position::Millis;
use crate::processes::{ProcessRow, ServerProcess};

pub(super) fn all(connection: &Connection, place: &LedgerFile) -> Result<Vec<ProcessRow>, LedgerError> {
    let sql = "SELECT name, holder, digest, sections, replaced, iif(boot = ?1, until, 0), ttl FROM processes ORDER BY name";
    let mut statement = connection.prepare_cached(sql).in_file(place)?;
    let mut found = statement.query([boot::id(place)?]).in_file(place)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next().in_file(place)? {
        let name = |column| {
            let text: String = row.get(column).in_file(place)?;
            Name::parse(&text).map_err(|_| place.damaged("the name of a process cannot be read back"))
        };
        rows.push(ProcessRow {
            process: ServerProcess {
                name: name(0)?,
                holder: name(1)?,
                digest: row.get(2).in_file(place)?,
                sections: row.get(3).in_file(place)?,
            },
            is_replaced: row.get(4).in_file(place)?,
            until: Millis::new(row.get(5).in_file(place)?),
            ttl_ms: row.get(6).in_file(place)?,
        });
    }
    Ok(rows)
}

pub(super) fn put(connection: &Connection, place: &LedgerFile, row: &ProcessRow) -> Result<(), LedgerError> {
    let ProcessRow { process, is_replaced, until, ttl_ms } = row;
    let sql = "INSERT OR REPLACE INTO processes (name, holder, digest, sections, replaced, until, ttl, boot) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let (name, holder) = (process.name.as_str(), process.holder.as_str());
    let values = params![
        name,
        holder,
        process.digest,
        process.sections,
        is_replaced,
        until.get(),
        ttl_ms,
        boot::id(place)?
    ];
    connection.execute(sql, values).map(|_| ()).in_file(place)
}

pub(super) fn remove(connection: &Connection, place: &LedgerFile, name: &Name) -> Result<(), LedgerError> {
    let removed = connection.execute("DELETE FROM processes WHERE name = ?1", [name.as_str()]);
    removed.map(|_| ()).in_file(place)
}
