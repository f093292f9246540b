//! Creates and recognises the SQLite schema. A file of a later version is refused; one of an earlier version is read as it
//! is, and only `crate::migrate` migrates it.
//!
//! A row's `place` is the number of its log shifted by 40 bits, plus its sequence number: one integer key that
//! keeps a tenant's entries together in their order, and that every index ends with.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::failure::{InFile as _, LedgerFile};
use crate::error::LedgerError;

/// Marks a file as ours: `CrLg`.
const APPLICATION_ID: i64 = 0x4372_4c67;

/// Each step migrates a file from the version of its index to the next.
pub(super) const STEPS: &[&str] =
    &[include_str!("schema-1.sql"), include_str!("schema-2.sql"), include_str!("schema-3.sql")];
/// The step to [`FILLED`]: what it adds, and what it removes once every entry is filled in.
pub(super) const EXPAND: &str = include_str!("schema-4.sql");
pub(super) const CONTRACT: &str = include_str!("schema-4-end.sql");

/// The version in which entries were filled in.
pub(super) const FILLED: u32 = STEPS.len() as u32 + 1;
/// The steps after it, which fill in nothing.
pub(super) const LATER: &[&str] =
    &[include_str!("schema-5.sql"), include_str!("schema-6.sql"), include_str!("schema-7.sql")];

/// The version in which entries say who appended them.
pub(super) const ACTORS: u32 = FILLED + 1;
/// The newest version known.
pub(crate) const VERSION: u32 = FILLED + LATER.len() as u32;

/// Creates the schema in a new, empty file.
pub(super) fn create(connection: &mut Connection, place: &LedgerFile) -> Result<(), LedgerError> {
    connection.pragma_update(None, "journal_mode", "WAL").in_file(place)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).in_file(place)?;
    for step in STEPS.iter().chain(&[EXPAND, CONTRACT]).chain(LATER) {
        transaction.execute_batch(step).in_file(place)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).in_file(place)?;
    transaction.pragma_update(None, "user_version", VERSION).in_file(place)?;
    transaction.commit().in_file(place)
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

/// The version of the file as a transaction sees it; another process may have migrated it since it was opened.
pub(super) fn version(connection: &Connection, place: &LedgerFile) -> Result<u32, LedgerError> {
    let read = connection.prepare_cached("PRAGMA user_version").and_then(|mut statement| {
        let version: i64 = statement.query_row([], |row| row.get(0))?;
        Ok(version)
    });
    known(read.in_file(place)?, place)
}

fn known(version: i64, place: &LedgerFile) -> Result<u32, LedgerError> {
    let found = u32::try_from(version).unwrap_or(u32::MAX);
    match found > VERSION {
        true => Err(LedgerError::Newer { place: place.to_string(), found, known: VERSION }),
        false => Ok(found),
    }
}
