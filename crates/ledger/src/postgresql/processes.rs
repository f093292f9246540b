//! Server processes in PostgreSQL, by the server's clock. One process at a time registers.

use crealeph_contracts::scalar::Name;
use tokio_postgres::Row as SqlRow;

use super::rows::get;
use super::session::Session;
use crate::error::LedgerError;
use crate::position::Millis;
use crate::processes::{ProcessRow, ServerProcess};

/// The advisory lock under which processes register: `CrLg` and a number of our own.
const LOCK: i64 = 0x4372_4c67_0000_0001;

pub(super) fn locked(session: &mut Session) -> Result<Vec<ProcessRow>, LedgerError> {
    session.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
    let sql = "SELECT name, holder, digest, sections, replaced, until, ttl FROM processes ORDER BY name";
    let found = session.query(sql, &[])?;
    let server = &session.server;
    let read = |row: &SqlRow| {
        let name = |column| {
            Name::parse(get(row, column, server)?)
                .map_err(|_| server.damaged("the name of a process cannot be read back"))
        };
        Ok(ProcessRow {
            process: ServerProcess {
                name: name("name")?,
                holder: name("holder")?,
                digest: get(row, "digest", server)?,
                sections: get(row, "sections", server)?,
            },
            is_replaced: get(row, "replaced", server)?,
            until: Millis::new(get(row, "until", server)?),
            ttl_ms: get(row, "ttl", server)?,
        })
    };
    found.iter().map(read).collect()
}

pub(super) fn put(session: &mut Session, row: &ProcessRow) -> Result<(), LedgerError> {
    let ProcessRow { process, is_replaced, until, ttl_ms } = row;
    let sql = "INSERT INTO processes (name, holder, digest, sections, replaced, until, ttl) \
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, \
               digest = excluded.digest, sections = excluded.sections, replaced = excluded.replaced, \
               until = excluded.until, ttl = excluded.ttl";
    let (name, holder) = (process.name.as_str(), process.holder.as_str());
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&name, &holder, &process.digest, &process.sections, is_replaced, &until.get(), ttl_ms];
    session.execute(sql, &values)
}

pub(super) fn remove(session: &mut Session, name: &Name) -> Result<(), LedgerError> {
    session.execute("DELETE FROM processes WHERE name = $1", &[&name.as_str()])
}
