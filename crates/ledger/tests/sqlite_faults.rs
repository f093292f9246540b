//! A SQLite ledger with faults: locked, damaged, foreign, of a later version, changed by hand. Each gets a clear message that
//! names the file, and wrong data is never returned.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::Path;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits as JsonLimits;
use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{
    AppendError, EntryRefusal, Filter, Ledger, LedgerError, LedgerLimits, LedgerOptions, Location, Order,
};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

fn local() -> TenantId {
    TenantId::parse("local").unwrap()
}

fn draft(number: usize) -> Draft {
    let json = format!(
        r#"{{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","key":"k{number}",
        "payload":{{"text":"entry number {number} {}"}}}}"#,
        "x".repeat(200)
    );
    Draft::parse(json.as_bytes(), &JsonLimits::default()).unwrap()
}

fn filled(file: &Path, count: usize) -> Ledger {
    let ledger = Ledger::init(&Location::File(file.to_owned()), LedgerOptions::default()).unwrap();
    ledger.append(&local(), (0..count).map(draft).collect()).unwrap();
    ledger
}

fn open(file: &Path) -> Result<Ledger, LedgerError> {
    Ledger::open(&Location::File(file.to_owned()), LedgerOptions::default())
}

#[test]
fn a_locked_file_is_named_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    drop(filled(&file, 3));
    let limits = LedgerLimits { wait_ms: 100, ..LedgerLimits::default() };
    let ledger =
        Ledger::open(&Location::File(file.clone()), LedgerOptions { limits, ..LedgerOptions::default() })
            .unwrap();
    let holder = Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = ledger.append(&local(), vec![draft(3)]).unwrap_err();
    assert!(
        matches!(&error, AppendError::Ledger(LedgerError::Busy { place, wait_ms: 100 }) if place.contains("ledger.db"))
    );
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 3, "reading goes on");
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(ledger.append(&local(), vec![draft(3)]).unwrap()[0].seq.get(), 4);
}

#[test]
// holds: invariant 7
fn the_database_itself_refuses_to_change_or_remove() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    let ledger = filled(&file, 600);
    ledger.checkpoint(&local()).unwrap();
    let connection = Connection::open(&file).unwrap();
    let attempts = [
        "UPDATE entries SET robot = 'x'",
        "DELETE FROM entries",
        "REPLACE INTO entries SELECT * FROM entries LIMIT 1",
        "INSERT OR REPLACE INTO entries (place, log, id, robot, module, source, kind, state, created_at, leaf, depends_on, payload) \
         SELECT place + 900000, log, id, robot, module, source, kind, state, created_at, leaf, depends_on, payload FROM entries LIMIT 1",
        "UPDATE tiles SET level = 3",
        "DELETE FROM tiles",
        "REPLACE INTO tiles SELECT * FROM tiles LIMIT 1",
        "UPDATE checkpoints SET size = 1",
        "DELETE FROM checkpoints",
        "DELETE FROM logs",
        "UPDATE logs SET size = size - 1",
        "UPDATE logs SET origin = 'x'",
        "REPLACE INTO logs SELECT * FROM logs",
    ];
    for sql in attempts {
        let error = connection.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("append-only"), "{sql}: {error}");
    }
    assert_eq!(ledger.audit(&local()).unwrap(), None);
}

#[test]
fn nothing_depends_on_an_entry_that_was_lost_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    let ledger = filled(&file, 3);
    let on = |key: &str, number: usize| {
        let json = format!(
            r#"{{"robotId":"r","module":"m","source":"s","type":"fusion","state":"final","payload":{{"number":{number}}},
            "lineage":{{"dependsOnLedgerIds":["key:{key}"]}}}}"#
        );
        vec![Draft::parse(json.as_bytes(), &JsonLimits::default()).unwrap()]
    };
    ledger.append(&local(), on("k2", 0)).unwrap();
    let other = Connection::open(&file).unwrap();
    let head = "SELECT size, last_at, peaks FROM logs";
    let head: (i64, i64, Vec<u8>) =
        other.query_row(head, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    ledger.append(&local(), vec![draft(7)]).unwrap();
    // Like a server that was restored from an older copy.
    other.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    other.execute("DELETE FROM entries WHERE key = 'k7'", []).unwrap();
    other.execute("UPDATE logs SET size = ?1, last_at = ?2, peaks = ?3", head).unwrap();
    let refused = ledger.append(&local(), on("k7", 1)).unwrap_err();
    let AppendError::Refused { refusal, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(refusal, EntryRefusal::UnknownLineage(vec!["key:k7".to_owned()]));
    ledger.append(&local(), on("k2", 2)).unwrap();
    assert_eq!(ledger.audit(&local()).unwrap(), None);
}

#[test]
fn damage_is_reported_and_never_returned() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    drop(filled(&file, 400));
    let bytes = fs::read(&file).unwrap();
    let text = b"entry number 123 ";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    let mut changed = bytes.clone();
    changed[at] ^= 1;
    fs::write(&file, &changed).unwrap();
    let ledger = open(&file).unwrap();
    let page = ledger.list(&local(), &Filter::default(), Order::OldestFirst, None, 1_000);
    let Err(LedgerError::Damaged { place, seq: Some(_), what }) = page else { panic!("{page:?}") };
    assert!(place.contains("ledger.db") && what.contains("entry 124"), "{what}");
    drop(ledger);
    // A whole page of random bytes in the middle of the entries.
    let mut changed = bytes.clone();
    let start = at / 4096 * 4096;
    changed[start..start + 4096].fill(0xa5);
    fs::write(&file, &changed).unwrap();
    let ledger = open(&file).unwrap();
    let page = ledger.list(&local(), &Filter::default(), Order::OldestFirst, None, 1_000);
    assert!(matches!(page, Err(LedgerError::Damaged { .. })), "{page:?}");
    assert!(matches!(ledger.audit(&local()), Err(LedgerError::Damaged { .. })));
    drop(ledger);
    // Truncated.
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let cut = open(&file).and_then(|ledger| ledger.audit(&local()));
    assert!(matches!(cut, Err(LedgerError::Damaged { .. })), "{cut:?}");
}

#[test]
fn a_file_that_is_not_a_ledger_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(matches!(open(&path("none.db")), Err(LedgerError::Missing { .. })));
    assert!(matches!(open(folder.path()), Err(LedgerError::Foreign { .. })));
    fs::write(
        path("text.db"),
        "just a text that is long enough to be looked at as a database header, and more\n",
    )
    .unwrap();
    assert!(matches!(open(&path("text.db")), Err(LedgerError::Foreign { .. })));
    Connection::open(path("other.db")).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    assert!(matches!(open(&path("other.db")), Err(LedgerError::Foreign { .. })));
    fs::write(path("empty.db"), "").unwrap();
    assert!(matches!(open(&path("empty.db")), Err(LedgerError::Foreign { .. })));
    drop(filled(&path("new.db"), 1));
    Connection::open(path("new.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let newer = open(&path("new.db"));
    assert!(matches!(&newer, Err(LedgerError::Newer { found: 99, known: 7, .. })), "{newer:?}");
    assert!(newer.unwrap_err().hint().unwrap().contains("use a newer crealeph"));
    let nowhere = Ledger::init(&Location::File(path("no/folder/ledger.db")), LedgerOptions::default());
    assert!(matches!(nowhere, Err(LedgerError::ReadOnly { .. })), "{nowhere:?}");
}

#[test]
fn a_file_of_an_older_program_is_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    let old = Connection::open(&file).unwrap();
    old.pragma_update(None, "journal_mode", "WAL").unwrap();
    old.pragma_update(None, "application_id", 0x4372_4c67).unwrap();
    old.execute_batch(include_str!("../src/sqlite/schema-1.sql")).unwrap();
    old.execute_batch(
        "INSERT INTO logs (tenant, origin, size, last_at, frontier) VALUES ('local', 'o', 0, 0, x'')",
    )
    .unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    let location = Location::File(file.clone());
    let migrated = Ledger::migrate(&location, &LedgerOptions::default(), |_| {}).unwrap();
    assert_eq!((migrated.from, migrated.to, migrated.entries), (1, 7, 0));
    let version: i64 = old.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 7);
    let ledger = open(&file).unwrap();
    ledger.append(&local(), vec![draft(0)]).unwrap();
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    let copy = "INSERT OR REPLACE INTO entries SELECT * FROM entries";
    assert!(old.execute_batch(copy).unwrap_err().to_string().contains("append-only"));
}

#[test]
fn a_backup_is_a_ledger_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = filled(&folder.path().join("ledger.db"), 300);
    let copy = folder.path().join("copy.db");
    ledger.backup(&copy, |_, _| {}).unwrap();
    assert!(matches!(ledger.backup(&copy, |_, _| {}), Err(LedgerError::Exists { .. })));
    let copy = open(&copy).unwrap();
    assert_eq!(copy.audit(&local()).unwrap(), None);
    let answers = copy.append(&local(), vec![draft(5), draft(300)]).unwrap();
    assert_eq!((answers[0].is_repeat, answers[1].seq.get()), (true, 301));
}

#[test]
fn replacing_or_removing_the_file_loses_no_acknowledged_entry() {
    for way in ["removed", "replaced", "write-ahead log removed"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.db");
        let ledger = filled(&file, 3);
        match way {
            "removed" => fs::remove_file(&file).unwrap(),
            "replaced" => {
                let other = folder.path().join("other.db");
                drop(filled(&other, 1));
                fs::rename(&other, &file).unwrap();
            }
            _ => fs::remove_file(folder.path().join("ledger.db-wal")).unwrap(),
        }
        for _ in 0..2 {
            let refused = ledger.append(&local(), vec![draft(9)]);
            let is_noticed =
                matches!(&refused, Err(crealeph_ledger::AppendError::Ledger(LedgerError::Replaced { .. })));
            assert!(is_noticed, "{way}: {refused:?}");
        }
    }
}

#[test]
fn an_interrupted_init_or_backup_leaves_nothing_that_looks_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    let location = Location::File(file.clone());
    let init = || Ledger::init(&location, LedgerOptions::default());
    // Interrupted before anything was in it, as an earlier version could be.
    fs::write(&file, "").unwrap();
    drop(init().unwrap());
    assert!(matches!(init(), Err(LedgerError::Exists { .. })));
    // Interrupted before the key was created.
    let keys = folder.path().join("ledger.db.keys");
    fs::remove_dir_all(&keys).unwrap();
    let ledger = init().unwrap();
    assert!(keys.is_dir());
    ledger.append(&local(), vec![draft(0)]).unwrap();
    fs::remove_dir_all(&keys).unwrap();
    assert!(matches!(init(), Err(LedgerError::Exists { .. })), "keys that were lost are not made up");
    // A backup that fails leaves no file, and an existing file is left alone.
    assert!(ledger.backup(&folder.path().join("no/copy.db"), |_, _| {}).is_err());
    let copy = folder.path().join("copy.db");
    ledger.backup(&copy, |_, _| {}).unwrap();
    assert!(matches!(ledger.backup(&copy, |_, _| {}), Err(LedgerError::Exists { .. })));
    let names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial"))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}
