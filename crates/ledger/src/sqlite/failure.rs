//! SQLite's errors as the ledger's own: which file, what is wrong with it, what to do.

use std::fmt;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::LedgerError;
use crate::position::Seq;

/// The ledger's file, for messages: turns its failures into the ledger's errors.
#[derive(Clone, Debug)]
pub(super) struct LedgerFile {
    name: String,
    wait_ms: u64,
}

impl fmt::Display for LedgerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl LedgerFile {
    pub(super) fn new(file: &Path, wait_ms: u64) -> LedgerFile {
        LedgerFile { name: file.display().to_string(), wait_ms }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    /// Something failed while the ledger was in use.
    pub(super) fn failure(&self, error: &rusqlite::Error) -> LedgerError {
        let place = self.name.clone();
        let reason = reason(error);
        if is_damage(error) {
            return LedgerError::Damaged { place, seq: None, what: reason };
        }
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed,
            ) => LedgerError::Busy { place, wait_ms: self.wait_ms },
            Some(ErrorCode::DiskFull) => LedgerError::Full { place },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                LedgerError::ReadOnly { place, reason }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                LedgerError::Damaged { place, seq: None, what: reason }
            }
            Some(ErrorCode::SystemIoFailure) if is_out_of_room(error) => LedgerError::Full { place },
            _ => LedgerError::Failed { place, reason },
        }
    }

    /// Something failed while the file was being opened.
    pub(super) fn opening_failure(&self, error: &rusqlite::Error) -> LedgerError {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                LedgerError::Foreign { place: self.name.clone(), reason: reason(error) }
            }
            _ => self.failure(error),
        }
    }

    /// A file of an older schema, which can be read but not written.
    pub(super) fn outdated(&self, found: u32) -> LedgerError {
        LedgerError::Outdated { place: self.name.clone(), found, known: super::schema::VERSION }
    }

    /// The data that was read does not match what was written.
    pub(super) fn damaged(&self, what: impl Into<String>) -> LedgerError {
        LedgerError::Damaged { place: self.name.clone(), seq: None, what: what.into() }
    }

    /// An entry does not match what was written.
    pub(super) fn damaged_entry(&self, seq: Seq, what: impl Into<String>) -> LedgerError {
        LedgerError::Damaged { place: self.name.clone(), seq: Some(seq), what: what.into() }
    }

    pub(super) fn io(&self, error: &std::io::Error) -> LedgerError {
        let place = self.name.clone();
        let reason = error.to_string();
        match error.kind() {
            std::io::ErrorKind::NotFound => LedgerError::Missing { place },
            std::io::ErrorKind::AlreadyExists => LedgerError::Exists { place },
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                LedgerError::Full { place }
            }
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                LedgerError::ReadOnly { place, reason }
            }
            _ => LedgerError::Failed { place, reason },
        }
    }
}

/// Names the ledger's file in an error of SQLite.
pub(super) trait InFile<T> {
    fn in_file(self, file: &LedgerFile) -> Result<T, LedgerError>;
}

impl<T> InFile<T> for rusqlite::Result<T> {
    fn in_file(self, file: &LedgerFile) -> Result<T, LedgerError> {
        self.map_err(|error| file.failure(&error))
    }
}

/// Whether a column holds a value that this program never writes: bytes that are not text, or another type.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// Growing the shared-memory file on a full disk is an I/O failure to SQLite.
fn is_out_of_room(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error().map(|error| error.extended_code), Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE))
}

fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(code, Some(message)) => {
            format!("{message} (SQLite {})", code.extended_code)
        }
        other => other.to_string(),
    }
}
