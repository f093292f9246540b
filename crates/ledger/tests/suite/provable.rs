//! The Merkle log, checkpoints, export and import, as far as the ledger itself can say; the verifier's own tests and
//! the command line's do the rest without trusting it.

use super::{Case, Fixture, append, append_one, entry, event, local, tenant};
use crealeph_ledger::{Ledger, LedgerError};

pub(super) const CASES: &[Case] = &[
    ("tiles are written as they become whole", tiles),
    ("a checkpoint states and signs the log", checkpoint),
    ("a rotated key signs beside the older one", rotation),
    ("an export is imported as it was", transfer),
    ("an import refuses what was changed", bad_exports),
    ("the size of a log is reported", stats),
];

fn fill(ledger: &Ledger, count: usize) {
    for from in (0..count).step_by(300) {
        let batch = (from..count.min(from + 300)).map(|n| entry("signal", &format!("{{\"n\":{n}}}"), ""));
        append(ledger, batch.collect());
    }
}

fn tiles(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    fill(&ledger, 777);
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    for (index, size) in [(0, 777), (255, 256), (256, 600), (776, 777), (0, 1)] {
        let path = ledger.inclusion_path(&local(), index, size).unwrap();
        assert!(path.len() <= 10 && (size == 1) == path.is_empty());
    }
    for (older, newer) in [(0, 5), (1, 777), (256, 777), (777, 777), (300, 500)] {
        ledger.consistency_path(&local(), older, newer).unwrap();
    }
    assert_eq!(ledger.inclusion_path(&local(), 777, 777).unwrap_err().code(), "ledger_limit");
    assert_eq!(ledger.consistency_path(&local(), 1, 778).unwrap_err().code(), "ledger_limit");
}

fn checkpoint(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let none = ledger.checkpoint(&local()).unwrap();
    assert_eq!(none.size, 0);
    fill(&ledger, 3);
    let some = ledger.checkpoint(&local()).unwrap();
    assert_eq!((some.size, &some.origin), (3, &none.origin));
    assert!(some.note.starts_with(&format!("{}\n3\n", some.origin)), "{}", some.note);
    assert!(!some.origin.contains("local"), "the name says nothing about the tenant");
    assert_ne!(ledger.checkpoint(&tenant("other")).unwrap().origin, some.origin);
    assert_eq!(ledger.checkpoint(&local()).unwrap(), some);
    let kept = ledger.checkpoints(&local()).unwrap();
    assert_eq!(kept.iter().map(|kept| kept.size).collect::<Vec<_>>(), [0, 3]);
}

fn rotation(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    fill(&ledger, 2);
    let before = ledger.verifier_keys(&local()).unwrap();
    ledger.rotate_key().unwrap();
    let after = ledger.verifier_keys(&local()).unwrap();
    assert_eq!((before.len(), after.len(), &after[0]), (1, 2, &before[0]));
    assert_eq!(ledger.checkpoint(&local()).unwrap().note.matches('\u{2014}').count(), 2);
}

/// A log with lineage, keys, an execution and checkpoints.
fn sample(ledger: &Ledger) -> Vec<u8> {
    fill(ledger, 300);
    let signal = append_one(ledger, entry("signal", "{}", r#""key":"s""#));
    ledger.checkpoint(&local()).unwrap();
    append_one(
        ledger,
        entry("idea", "{}", r#""lineage":{"dependsOnLedgerIds":["key:s"],"executionId":"e"}"#),
    );
    append_one(ledger, event("e", "planned", 1, &signal.created_at.to_string(), &[&signal.id], ""));
    fill(ledger, 250);
    ledger.checkpoint(&local()).unwrap();
    let mut export = Vec::new();
    let exported = ledger.export(&local(), &mut export).unwrap().unwrap();
    assert_eq!((exported.entries, exported.checkpoints), (553, 2));
    export
}

fn export(ledger: &Ledger) -> Vec<u8> {
    let mut export = Vec::new();
    ledger.export(&local(), &mut export).unwrap().unwrap();
    export
}

fn transfer(fixture: &dyn Fixture) {
    let (from, to) = (fixture.place(), fixture.place());
    let source = from.init();
    let original = sample(&source);
    let target = to.init();
    // Cut off in the middle of a line, it says so and keeps whole batches; run again, it resumes.
    let cut = original.len() * 2 / 3;
    assert!(matches!(target.import(&mut &original[..cut]), Err(LedgerError::BadExport { .. })));
    assert!(target.last_seq(&local()).unwrap().get() < 553);
    let imported = target.import(&mut original.as_slice()).unwrap();
    assert_eq!(imported.entries + imported.repeats, 553);
    assert_eq!(export(&target), original);
    assert_eq!(target.audit(&local()).unwrap(), None);
    assert_eq!(target.import(&mut original.as_slice()).unwrap().repeats, 553);
    // It is the same log, and continues as one.
    assert_eq!(append_one(&target, entry("signal", "{}", r#""key":"s""#)).seq.get(), 301);
    assert_eq!(append_one(&target, entry("signal", "{}", "")).seq.get(), 554);
    assert!(matches!(source.import(&mut export(&target).as_slice()), Ok(imported) if imported.entries == 1));
}

fn bad_exports(fixture: &dyn Fixture) {
    let from = fixture.place();
    let original = String::from_utf8(sample(&from.init())).unwrap();
    let lines: Vec<&str> = original.lines().collect();
    let change = |from: &str, to: &str| original.replacen(from, to, 1);
    let without = |line: usize| {
        let mut lines = lines.clone();
        lines.remove(line);
        lines.join("\n") + "\n"
    };
    let swapped = {
        let mut lines = lines.clone();
        lines.swap(10, 11);
        lines.join("\n") + "\n"
    };
    let bad = [
        (String::new(), 1, "empty"),
        (change("export-v1", "export-v9"), 1, "format"),
        (change(r#""n":5}"#, r#""n":6}"#), 7, "leaf hash"),
        (change(r#"{"n":5}"#, r#"{"n": 5}"#), 7, "canonical"),
        (without(5), 6, "must"),
        (swapped, 11, "must"),
        (change(r#""type":"signal"}"#, r#""type":"execution_event"}"#), 2, ""),
    ];
    for (export, line, reason) in bad {
        let to = fixture.place();
        let outcome = to.init().import(&mut export.as_bytes());
        let Err(LedgerError::BadExport { line: found, reason: why }) = outcome else { panic!("{outcome:?}") };
        assert!(found == line && why.contains(reason), "{found} {why}, not {line} {reason}");
    }
    // A log of the same tenant that is not the beginning of the export.
    let to = fixture.place();
    let other = to.init();
    append_one(&other, entry("signal", "{}", ""));
    assert!(matches!(other.import(&mut original.as_bytes()), Err(LedgerError::BadExport { .. })));
}

fn stats(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    sample(&ledger);
    let stats = ledger.stats(&local()).unwrap().unwrap();
    assert_eq!(
        (stats.entries, stats.edges, stats.checkpoints, stats.last_checkpoint),
        (553, 2, 2, Some(553))
    );
    assert_eq!(stats.root, ledger.checkpoint(&local()).unwrap().root);
}
