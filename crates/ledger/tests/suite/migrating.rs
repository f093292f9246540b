//! A ledger of the version before this version of the schema: what can be read of it, and how it is migrated, killed
//! at any moment or not.

use super::reading::{fresh, varied};
use super::{Case, Columns, Fixture, append, append_one, entry, local, tenant};
use crealeph_contracts::Entry;
use crealeph_contracts::scalar::RobotId;
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{Derivation, Question, SnapshotFacts};
use crealeph_ledger::{AppendError, Filter, Ledger, LedgerError, Order, StoredEntry};

pub(super) const CASES: &[Case] = &[
    ("an older ledger is read, not written, until it is migrated", older),
    ("a ledger of the version before this one is read as it is, and migrated at once", previous),
    ("a migration that was killed resumes", interrupted),
    ("what an older program appends during a migration is filled in", meanwhile),
];

/// The columns of an entry after those of its place, as the version before this version of the schema wrote them.
const OLDER_COLUMNS: &str = "id, robot, module, source, kind, state, created_at, observed_at, key, execution, attempt, \
    rerun_of, leaf, reach_signal, reach_fusion, reach_idea, reach_copy, reach_benchmark, reach_playbook, depends_on, payload";

fn exported(ledger: &Ledger) -> Vec<u8> {
    let mut out = Vec::new();
    ledger.export(&local(), &mut out).unwrap().unwrap();
    out
}

fn older(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, hands) = fresh(&place);
    let all = varied(&ledger, &hands, 11, 150);
    ledger.append(&tenant("other"), vec![entry("signal", "{}", "")]).unwrap();
    let before = exported(&ledger);
    drop(ledger);
    fixture.execute(&place, fixture.older()).unwrap();

    let old = place.open();
    let page = old.list(&local(), &Filter::default(), Order::OldestFirst, None, 1_000).unwrap();
    assert_eq!(
        (page.entries, exported(&old), old.audit(&local()).unwrap()),
        (all.clone(), before.clone(), None)
    );
    let (robot_id, rules) = (RobotId::parse("r").unwrap(), CoherenceRules::default());
    let outdated = old.facts(&local(), &robot_id, None, &rules).unwrap_err();
    assert!(matches!(outdated, LedgerError::Outdated { .. }), "{outdated:?}");
    assert!(outdated.hint().unwrap().contains("crealeph ledger migrate"), "{outdated}");
    let refused = old.append(&local(), vec![entry("signal", "{}", "")]);
    assert!(matches!(&refused, Err(AppendError::Ledger(LedgerError::Outdated { .. }))), "{refused:?}");

    let mut reported = Vec::new();
    let migrated = Ledger::migrate(&place.location, &place.options(), |progress| {
        reported.push((progress.tenant_id.to_string(), progress.done, progress.size));
    });
    let migrated = migrated.unwrap();
    assert_eq!((migrated.from + 4, migrated.entries), (migrated.to, 151));
    assert_eq!(reported, [("local".to_owned(), 150, 150), ("other".to_owned(), 1, 1)]);
    let again = Ledger::migrate(&place.location, &place.options(), |_| {}).unwrap();
    assert_eq!((again.from, again.entries), (migrated.to, 0));
    let asked_by_old_name = fixture.execute(&place, "UPDATE logs SET frontier = frontier");
    assert!(asked_by_old_name.is_err(), "a program of before can write no more");

    let ledger = place.open();
    assert_eq!((exported(&ledger), ledger.audit(&local()).unwrap()), (before, None));
    let entries: Vec<Entry> = all.iter().map(StoredEntry::to_entry).collect();
    let tenant_id = local();
    for derivation in [Derivation::Arrival, Derivation::EffectiveTime] {
        let question = Question { tenant_id: Some(&tenant_id), robot_id: &robot_id, at: None, derivation };
        let expected = SnapshotFacts::from_entries(&entries, &question, &rules);
        let read = ledger.facts_up_to(&local(), &robot_id, None, &rules, derivation).unwrap().unwrap();
        assert_eq!(read.0, expected, "{derivation:?}");
    }
    append_one(&ledger, entry("signal", "{}", r#""observedAt":"1969-01-01T00:00:00Z""#));
    assert_eq!(ledger.audit(&local()).unwrap(), None);
}

fn previous(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, hands) = fresh(&place);
    let all = varied(&ledger, &hands, 12, 40);
    let before = exported(&ledger);
    drop(ledger);
    fixture.execute(&place, fixture.previous()).unwrap();
    let old = place.open();
    let page = old.list(&local(), &Filter::default(), Order::OldestFirst, None, 1_000).unwrap();
    assert_eq!((page.entries, exported(&old), old.audit(&local()).unwrap()), (all, before.clone(), None));
    let refused = old.append(&local(), vec![entry("signal", "{}", "")]);
    assert!(matches!(&refused, Err(AppendError::Ledger(LedgerError::Outdated { .. }))), "{refused:?}");
    drop(old);
    let migrated = Ledger::migrate(&place.location, &place.options(), |_| {}).unwrap();
    assert_eq!((migrated.from + 3, migrated.entries), (migrated.to, 0), "nothing is filled in");
    let ledger = place.open();
    assert_eq!((exported(&ledger), ledger.audit(&local()).unwrap()), (before, None));
    append_one(&ledger, entry("signal", "{}", ""));
}

fn interrupted(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let late = |n: usize| match n % 3 {
        0 => entry("signal", "{}", &format!(r#""observedAt":"1999-01-01T00:00:00.{:09}Z""#, n * 7919 % 5000)),
        1 => entry("signal", "{}", ""),
        _ => entry("idea", "{}", r#""observedAt":"2001-01-01T00:00:00Z""#),
    };
    for batch in 0..6 {
        append(&ledger, (batch * 1_000..(batch + 1) * 1_000).map(late).collect());
    }
    drop(ledger);
    fixture.execute(&place, fixture.older()).unwrap();
    // A kill between two transactions; one inside a transaction leaves the state before it.
    let killed = std::panic::catch_unwind(|| {
        Ledger::migrate(&place.location, &place.options(), |progress| {
            assert!(progress.done < 4_000, "killed");
        })
    });
    assert!(killed.is_err());
    let old = place.open();
    assert!(matches!(
        old.append(&local(), vec![entry("signal", "{}", "")]),
        Err(AppendError::Ledger(LedgerError::Outdated { .. }))
    ));
    let migrated = Ledger::migrate(&place.location, &place.options(), |_| {}).unwrap();
    assert_eq!(migrated.entries, 2_000, "the rest");
    let ledger = place.open();
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    append_one(&ledger, entry("signal", "{}", ""));
}

/// An older version appends between two transactions of the migration, with the statements and the privileges that it has.
fn meanwhile(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let at = |n: usize| entry("signal", "{}", &format!(r#""observedAt":"1999-01-01T00:00:00.{n:09}Z""#));
    for batch in 0..3 {
        append(&ledger, (batch * 1_000..(batch + 1) * 1_000).map(at).collect());
    }
    let columns = fixture.columns();
    let copied = format!("{}, {OLDER_COLUMNS}", columns.place);
    fixture.execute(&place, "CREATE TABLE earlier_head AS SELECT * FROM logs").unwrap();
    let late = append_one(&ledger, entry("signal", "{}", r#""observedAt":"1998-01-01T00:00:00Z""#)).id;
    let on = format!(r#""lineage":{{"dependsOnLedgerIds":["{late}"]}}"#);
    append(&ledger, vec![entry("idea", "{}", &on), entry("signal", "{}", "")]);
    let (robot_id, rules) = (RobotId::parse("r").unwrap(), CoherenceRules::default());
    let facts = |ledger: &Ledger| ledger.facts(&local(), &robot_id, None, &rules).unwrap().unwrap();
    let expected = (exported(&ledger), facts(&ledger));
    drop(ledger);
    let Columns { seq, child, older_login, .. } = columns;
    let later = format!(
        "CREATE TABLE later_entries AS SELECT {copied} FROM entries WHERE {seq} > 3000;
         CREATE TABLE later_edges AS SELECT * FROM edges WHERE {child} > 3000;
         CREATE TABLE later_head AS SELECT size, last_at, peaks FROM logs"
    );
    fixture.execute(&place, &later).unwrap();
    fixture.execute(&place, fixture.older()).unwrap();
    let head = |table: &str| {
        format!(
            "UPDATE logs SET size = (SELECT size FROM {table}), last_at = (SELECT last_at FROM {table}), \
             frontier = (SELECT peaks FROM {table})"
        )
    };
    let undo = format!(
        "DELETE FROM entries WHERE {seq} > 3000; DELETE FROM edges WHERE {child} > 3000; {}",
        head("earlier_head")
    );
    fixture.tamper(&place, &undo).unwrap();
    let mut has_appended = false;
    let migrated = Ledger::migrate(&place.location, &place.options(), |progress| {
        if !std::mem::replace(&mut has_appended, true) {
            assert_eq!((progress.done, progress.size), (2_000, 3_000));
            let append = format!(
                "{older_login} BEGIN; {}; INSERT INTO entries ({copied}) SELECT {copied} FROM later_entries;
                 INSERT INTO edges SELECT * FROM later_edges; COMMIT",
                head("later_head")
            );
            fixture.execute(&place, &append).unwrap();
        }
    });
    assert_eq!(migrated.unwrap().entries, 3_003);
    let tables = ["earlier_head", "later_head", "later_entries", "later_edges"];
    let drop_all: String = tables.map(|table| format!("DROP TABLE {table};")).concat();
    fixture.execute(&place, &drop_all).unwrap();
    let ledger = place.open();
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    assert!((exported(&ledger), facts(&ledger)) == expected, "the log or its snapshot became another");
}
