//! The conformance suite on SQLite.
#![allow(clippy::unwrap_used, reason = "tests")]

mod suite;

use crealeph_ledger::Location;
use suite::{Fixture, Place};

struct SqliteFixture;

impl Fixture for SqliteFixture {
    fn place(&self) -> Place {
        let folder = tempfile::tempdir().unwrap();
        Place { location: Location::File(folder.path().join("ledger.db")), folder }
    }
}

#[test]
fn conformance_on_sqlite() {
    suite::run(&SqliteFixture);
}
