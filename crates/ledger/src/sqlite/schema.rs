//! The SQLite schema: made, recognised and brought forward. A file of a later program is refused, never guessed at.
//!
//! A row's `place` is the number of its log shifted by 40 bits, plus its sequence number: one integer key that
//! keeps a tenant's entries side by side in their order, and that every index ends with.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::failure::Place;
use crate::error::LedgerError;

/// Marks a file as ours: `CrLg`.
const APPLICATION_ID: i64 = 0x4372_4c67;

/// Each step brings a file from its index to the next version.
const MIGRATIONS: &[&str] =
    &[include_str!("schema-1.sql"), include_str!("schema-2.sql"), include_str!("schema-3.sql")];

/// The newest version known.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Puts the schema into a new, empty file.
pub(super) fn create(connection: &mut Connection, place: &Place) -> Result<(), LedgerError> {
    let failed = |error| place.failure(&error);
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    migrate(connection, place, 0)
}

/// Checks that a file is ours, and brings it forward where it is older.
pub(super) fn check(connection: &mut Connection, file: &Path, place: &Place) -> Result<(), LedgerError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id").map_err(|error| place.opening_failure(&error))?;
    let version = pragma("user_version").map_err(|error| place.opening_failure(&error))?;
    if application != APPLICATION_ID {
        let reason = if version == 0 && std::fs::metadata(file).is_ok_and(|file| file.len() == 0) {
            "the file is empty"
        } else {
            "it is another program's SQLite file"
        };
        return Err(LedgerError::Foreign { place: place.to_string(), reason: reason.to_owned() });
    }
    let found = u32::try_from(version).unwrap_or(u32::MAX);
    if found > VERSION {
        return Err(LedgerError::Newer { place: place.to_string(), found, known: VERSION });
    }
    if found < VERSION {
        migrate(connection, place, found)?;
    }
    Ok(())
}

fn migrate(connection: &mut Connection, place: &Place, from: u32) -> Result<(), LedgerError> {
    let failed = |error| place.failure(&error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Another process may have done it while this one waited for the lock.
    let now: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    for step in MIGRATIONS.iter().skip(now.max(from) as usize) {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction.pragma_update(None, "user_version", VERSION.max(now)).map_err(failed)?;
    transaction.commit().map_err(failed)
}
