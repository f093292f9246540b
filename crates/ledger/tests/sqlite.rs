//! The conformance suite on SQLite.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod suite;

use std::time::Duration;

use crealeph_contracts::scalar::Name;
use crealeph_ledger::{LeaseClaim, Ledger, LedgerOptions, Location};
use suite::{Columns, Fixture, Hands, Place};

struct SqliteFixture;

impl Fixture for SqliteFixture {
    fn place(&self) -> Place {
        let folder = tempfile::tempdir().unwrap();
        Place { location: Location::File(folder.path().join("ledger.db")), folder }
    }

    fn execute(&self, place: &Place, sql: &str) -> Result<(), String> {
        let Location::File(file) = &place.location else { panic!("a file") };
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.execute_batch(sql).map_err(|error| error.to_string())
    }

    fn older(&self) -> &'static str {
        "BEGIN IMMEDIATE; DROP TABLE accepted; DROP TABLE processes; DROP TABLE subscriptions; ALTER TABLE entries DROP COLUMN actor; DROP INDEX events_by_state; DROP INDEX drafts; DROP INDEX drafts_of_robot; DROP INDEX receipts;
         ALTER TABLE entries DROP COLUMN newest; ALTER TABLE entries DROP COLUMN used;
         ALTER TABLE leases DROP COLUMN boot; ALTER TABLE logs RENAME COLUMN peaks TO frontier; PRAGMA user_version = 3; COMMIT"
    }

    fn previous(&self) -> &'static str {
        "BEGIN IMMEDIATE; DROP TABLE accepted; DROP TABLE processes; DROP TABLE subscriptions; DROP INDEX receipts; ALTER TABLE entries DROP COLUMN actor; PRAGMA user_version = 4; COMMIT"
    }

    fn before(&self) -> &'static str {
        "BEGIN IMMEDIATE; DROP TABLE accepted; DROP TABLE processes; DROP INDEX receipts; PRAGMA user_version = 5; COMMIT"
    }

    fn tamper(&self, place: &Place, sql: &str) -> Result<(), String> {
        let Location::File(file) = &place.location else { panic!("a file") };
        let connection = rusqlite::Connection::open(file).unwrap();
        let mut found =
            connection.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").unwrap();
        let triggers = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let triggers: Vec<(String, String)> = triggers.map(Result::unwrap).collect();
        let off: String = triggers.iter().map(|(name, _)| format!("DROP TRIGGER {name};")).collect();
        let on: String = triggers.iter().map(|(_, sql)| format!("{sql};")).collect();
        let all = format!("BEGIN IMMEDIATE; {off} {sql}; {on} COMMIT");
        connection.execute_batch(&all).map_err(|error| error.to_string())
    }

    fn columns(&self) -> Columns {
        Columns {
            place: "place, log",
            seq: "(place & 0xffffffffff)",
            child: "(child & 0xffffffffff)",
            older_login: "",
        }
    }
}

#[test]
fn conformance_on_sqlite() {
    suite::run(&SqliteFixture);
}

/// SQLite has no clock, so leases use the time since the machine started, which no wall clock changes.
#[test]
fn a_wall_clock_neither_ends_a_lease_nor_keeps_it() {
    let place = SqliteFixture.place();
    let hands = Hands::at(1_000_000_000);
    let options = || LedgerOptions { clock: hands.clock(), ..place.options() };
    let ledger = Ledger::init(&place.location, options()).unwrap();
    let work = Name::parse("work").unwrap();
    let take = || ledger.take_lease(&suite::local(), &work, &work, Duration::from_secs(10)).unwrap();
    let LeaseClaim::Taken(first) = take() else { panic!("nobody has it") };
    for wall in [0, 1_000_000_000 - 5_000, 4_000_000_000_000] {
        hands.set(wall);
        assert!(matches!(take(), LeaseClaim::Held(_)), "another process's clock says {wall}");
    }
    // A lease from before a restart of the machine has no holder.
    SqliteFixture.execute(&place, "UPDATE leases SET boot = 'another', until = until + 1000000").unwrap();
    let LeaseClaim::Taken(second) = take() else { panic!("its holder is gone") };
    assert!(second.token() > first.token());
}
