//! The embedded backend: one SQLite file, in WAL mode, synced on every commit. Several processes may share it; writes
//! take turns through immediate transactions, and reads never wait for them.

mod accepted;
mod audit;
mod boot;
mod failure;
mod file;
mod leases;
mod migration;
mod processes;
mod read;
mod rows;
mod schema;
mod subscriptions;
mod write;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::LedgerError;
use crate::pool::Pool;
use crate::position::Millis;
use crate::store::{Backend, BackupReport, ReadQuestion, TenantLog, Writer};
use failure::{InFile as _, LedgerFile};

/// After how many pages the write-ahead log is checkpointed into the file: a page that is written often is moved once, and the
/// index of that many is still a single one.
const CHECKPOINT_PAGES: i64 = 4_000;
/// How many queries are answered in parallel.
const READERS: usize = 8;
/// How often another process's writes are checked for, while someone follows.
const LOOK_MS: u64 = 100;
/// Steps of a statement between two reports of a backup's progress.
const STEPS_PER_LOOK: i32 = 20_000;

/// A ledger in a SQLite file.
#[derive(Debug)]
pub(crate) struct Sqlite {
    file: PathBuf,
    place: LedgerFile,
    wait_ms: u64,
    readers: Pool<Connection>,
    /// Detects that any process has written; its own connection, because the number is the connection's.
    watcher: Mutex<Option<(Connection, i64)>>,
    /// Says whether any process has written since the last call.
    probe: Mutex<Option<Connection>>,
}

impl Sqlite {
    /// Creates a new file, readable only by its owner, completely or not at all.
    pub(crate) fn create(file: &Path, wait_ms: u64) -> Result<(), LedgerError> {
        let place = LedgerFile::new(file, wait_ms);
        file::make_whole(file, &place, |partial| {
            let mut connection = connect(partial, &place, wait_ms, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            schema::create(&mut connection, &place)?;
            // The last connection to the file checkpoints the write-ahead log into it.
            connection.close().map_err(|(_, error)| place.failure(&error))
        })
    }

    /// Opens an existing file.
    pub(crate) fn open(file: &Path, wait_ms: u64) -> Result<Sqlite, LedgerError> {
        let place = LedgerFile::new(file, wait_ms);
        let metadata = fs::metadata(file).map_err(|error| place.io(&error))?;
        if !metadata.is_file() {
            let reason = "it is not a file".to_owned();
            return Err(LedgerError::Foreign { place: place.to_string(), reason });
        }
        let connection = reader(file, &place, wait_ms)?;
        schema::check(&connection, file, &place)?;
        drop(connection);
        let (readers, watcher, probe) = (Pool::of(READERS), Mutex::new(None), Mutex::new(None));
        Ok(Sqlite { file: file.to_owned(), place, wait_ms, readers, watcher, probe })
    }
}

fn connect(
    file: &Path,
    place: &LedgerFile,
    wait_ms: u64,
    flags: OpenFlags,
) -> Result<Connection, LedgerError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let opened = Connection::open_with_flags(file, flags).and_then(|connection| {
        connection.busy_timeout(Duration::from_millis(wait_ms))?;
        connection.set_prepared_statement_cache_capacity(64);
        // Otherwise a statement over a partial index is compiled again for every value it is given.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.pragma_update(None, "cache_size", -16_000)?;
        Ok(connection)
    });
    opened.map_err(|error| place.opening_failure(&error))
}

/// A connection for reading; a read-only one if the file or its folder cannot be written.
fn reader(file: &Path, place: &LedgerFile, wait_ms: u64) -> Result<Connection, LedgerError> {
    match connect(file, place, wait_ms, OpenFlags::SQLITE_OPEN_READ_WRITE) {
        Err(LedgerError::ReadOnly { .. }) => connect(file, place, wait_ms, OpenFlags::SQLITE_OPEN_READ_ONLY),
        other => other,
    }
}

impl Backend for Sqlite {
    fn place(&self) -> &str {
        self.place.as_str()
    }

    fn writer(&self) -> Result<Box<dyn Writer>, LedgerError> {
        let in_use = file::OpenFiles::new(&self.file, &self.place)?;
        let connection = connect(&self.file, &self.place, self.wait_ms, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).in_file(&self.place)?;
        Ok(Box::new(write::SqliteWriter::new(connection, in_use, self.place.clone())?))
    }

    /// SQLite has one writer; more threads would only wait for each other.
    fn writers(&self) -> usize {
        1
    }

    fn read(&self, _: Option<&TenantId>, question: ReadQuestion<'_>) -> Result<(), LedgerError> {
        let busy = || LedgerError::Busy { place: self.place.to_string(), wait_ms: self.wait_ms };
        let open = || reader(&self.file, &self.place, self.wait_ms);
        self.readers.with(self.wait_ms, busy, open, |connection| {
            connection.execute_batch("BEGIN").in_file(&self.place)?;
            let answered = schema::version(connection, &self.place)
                .and_then(|version| question(&mut read::SqliteReads::new(connection, &self.place, version)));
            let ended = connection.execute_batch("COMMIT").in_file(&self.place);
            answered.and(ended)
        })
    }

    fn wait_for_others(&self, wait_ms: u64) -> Result<bool, LedgerError> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let (connection, seen) = match &mut *watcher {
            Some(watcher) => watcher,
            empty => empty.insert((reader(&self.file, &self.place, self.wait_ms)?, 0)),
        };
        for _ in 0..wait_ms.div_ceil(LOOK_MS) {
            let version = connection.pragma_query_value(None, "data_version", |row| row.get(0));
            let version: i64 = version.in_file(&self.place)?;
            if std::mem::replace(seen, version) != version {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(LOOK_MS));
        }
        Ok(false)
    }

    /// Reads only shared memory.
    fn change_mark(&self) -> Result<Option<i64>, LedgerError> {
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match &mut *probe {
            Some(connection) => connection,
            empty => empty.insert(reader(&self.file, &self.place, self.wait_ms)?),
        };
        let mut statement = connection.prepare_cached("PRAGMA data_version").in_file(&self.place)?;
        statement.query_row([], |row| row.get(0)).map(Some).in_file(&self.place)
    }

    fn tenants(&self) -> Result<Vec<TenantLog>, LedgerError> {
        let connection = reader(&self.file, &self.place, self.wait_ms)?;
        let sql = "SELECT tenant, size, last_at FROM logs ORDER BY tenant";
        let mut statement = connection.prepare(sql).in_file(&self.place)?;
        let mut found = statement.query([]).in_file(&self.place)?;
        let mut tenants = Vec::new();
        while let Some(row) = found.next().in_file(&self.place)? {
            let tenant: String = row.get(0).in_file(&self.place)?;
            let (entries, last_at): (i64, i64) =
                (row.get(1).in_file(&self.place)?, row.get(2).in_file(&self.place)?);
            tenants.push(TenantLog {
                tenant_id: TenantId::parse(&tenant)
                    .map_err(|_| self.place.damaged("a tenant's name cannot be read back"))?,
                entries: entries.unsigned_abs(),
                last_at: (entries > 0).then(|| Millis::new(last_at)),
            });
        }
        Ok(tenants)
    }

    fn backup(&self, to: &Path, mut report: BackupReport) -> Result<(), LedgerError> {
        let target = LedgerFile::new(to, self.wait_ms);
        if !file::folder_of(to).is_dir() {
            return Err(LedgerError::Failed {
                place: target.to_string(),
                reason: "there is no folder to write it into; create that first".to_owned(),
            });
        }
        let mut connection = reader(&self.file, &self.place, self.wait_ms)?;
        let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let total =
            connection.query_row(sql, [], |row| row.get::<_, i64>(0)).in_file(&self.place)?.unsigned_abs();
        file::make_whole(to, &target, |partial| {
            let watched = partial.to_owned();
            let look = move || {
                if let Ok(written) = watched.metadata() {
                    report(written.len(), total);
                }
                false
            };
            let copied = connection
                .progress_handler(STEPS_PER_LOOK, Some(look))
                .and_then(|()| connection.execute("VACUUM INTO ?1", [partial.to_string_lossy()]));
            copied.map(|_| ()).in_file(&target)
        })
    }

    fn check_storage(&self) -> Result<(), LedgerError> {
        let connection = reader(&self.file, &self.place, self.wait_ms)?;
        let found = connection.pragma_query_value(None, "integrity_check", |row| row.get::<_, String>(0));
        match found.in_file(&self.place)?.as_str() {
            "ok" => Ok(()),
            what => Err(self.place.damaged(what)),
        }
    }
}
