//! The SQLite schema: made and recognised. A file of a later program is refused, never guessed at; one of an earlier
//! program is read as it is, and brought forward by `crate::migrate` alone.
//!
//! A row's `place` is the number of its log shifted by 40 bits, plus its sequence number: one integer key that
//! keeps a tenant's entries side by side in their order, and that every index ends with.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::failure::LedgerFile;
use crate::error::LedgerError;

/// Marks a file as ours: `CrLg`.
const APPLICATION_ID: i64 = 0x4372_4c67;

/// Each step brings a file from its index to the next version; they need nothing but the statements.
pub(super) const STEPS: &[&str] =
    &[include_str!("schema-1.sql"), include_str!("schema-2.sql"), include_str!("schema-3.sql")];
/// The last step: what it adds, and what it takes away once every entry is filled in.
pub(super) const EXPAND: &str = include_str!("schema-4.sql");
pub(super) const CONTRACT: &str = include_str!("schema-4-end.sql");

/// The newest version known.
pub(crate) const VERSION: u32 = STEPS.len() as u32 + 1;

/// Puts the schema into a new, empty file.
pub(super) fn create(connection: &mut Connection, place: &LedgerFile) -> Result<(), LedgerError> {
    let failed = |error| place.failure(&error);
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    for step in STEPS.iter().chain(&[EXPAND, CONTRACT]) {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// Checks that a file is ours, of a version that can be read.
pub(super) fn check(connection: &Connection, file: &Path, place: &LedgerFile) -> Result<u32, LedgerError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id").map_err(|error| place.opening_failure(&error))?;
    let found = pragma("user_version").map_err(|error| place.opening_failure(&error))?;
    if application != APPLICATION_ID {
        let reason = if found == 0 && std::fs::metadata(file).is_ok_and(|file| file.len() == 0) {
            "the file is empty"
        } else {
            "it is another program's SQLite file"
        };
        return Err(LedgerError::Foreign { place: place.to_string(), reason: reason.to_owned() });
    }
    known(found, place)
}

/// The version of the file as a transaction sees it; another process may have brought it forward since it was opened.
pub(super) fn version(connection: &Connection, place: &LedgerFile) -> Result<u32, LedgerError> {
    let read = connection.prepare_cached("PRAGMA user_version").and_then(|mut statement| {
        let version: i64 = statement.query_row([], |row| row.get(0))?;
        Ok(version)
    });
    known(read.map_err(|error| place.failure(&error))?, place)
}

fn known(version: i64, place: &LedgerFile) -> Result<u32, LedgerError> {
    let found = u32::try_from(version).unwrap_or(u32::MAX);
    match found > VERSION {
        true => Err(LedgerError::Newer { place: place.to_string(), found, known: VERSION }),
        false => Ok(found),
    }
}
