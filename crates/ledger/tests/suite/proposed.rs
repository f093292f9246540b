//! For CreAleph's own entries: ids that are created before the entry is written, entries that no one else may write, and facts with
//! the place at which they were read.

use super::{Case, Fixture, append_one, entry, event, local};
use crealeph_contracts::scalar::RobotId;
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::Derivation;
use crealeph_decision::snapshot::SnapshotType;
use crealeph_ledger::{AppendError, EntryRefusal, RESERVED_KEYS, RESERVED_TYPES};

pub(super) const CASES: &[Case] = &[
    ("an id made before is the entry's, once", ids_made_before),
    ("what only CreAleph writes is refused from outside", reserved),
    ("what was decided from the log is written only if the log has not grown", appended_at),
    ("facts come with their position, and again up to an earlier one", facts_with_place),
];

fn ids_made_before(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let (first, second) = (ledger.new_id().unwrap(), ledger.new_id().unwrap());
    assert_ne!(first, second);
    let on_first = format!(r#""lineage":{{"dependsOnLedgerIds":["{}"]}}"#, first.as_id());
    let batch = vec![
        (Some(first.clone()), entry("signal", "{}", "")),
        (Some(second.clone()), entry("idea", "{}", &on_first)),
        (None, entry("copy", "{}", &on_first)),
    ];
    let written = ledger.append_as(&local(), batch).unwrap();
    assert_eq!((&written[0].id, &written[1].id), (first.as_id(), second.as_id()));
    assert!(ledger.get(&local(), second.as_id()).unwrap().is_some());
    let taken = |batch| match ledger.append_as(&local(), batch) {
        Err(AppendError::Refused { position, refusal: EntryRefusal::IdTaken(id) }) => (position, id),
        other => panic!("not refused: {other:?}"),
    };
    let again = vec![(None, entry("signal", "{}", "")), (Some(first.clone()), entry("signal", "{}", ""))];
    assert_eq!(taken(again), (1, first.as_id().clone()));
    let third = ledger.new_id().unwrap();
    let twice =
        vec![(Some(third.clone()), entry("signal", "{}", "")), (Some(third), entry("idea", "{}", ""))];
    assert_eq!(taken(twice).0, 1);
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 3, "a refused batch leaves nothing");
    assert!(ledger.audit(&local()).unwrap().is_none());
}

fn appended_at(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    append_one(&ledger, entry("signal", "{}", ""));
    let read_at = ledger.last_seq(&local()).unwrap();
    let root = ledger.view(&local(), |view| Ok(view.place())).unwrap().unwrap().root;
    let batch = |kind: &str| vec![(None, entry(kind, "{}", ""))];
    // Each reads the same place, so one of them writes.
    let written = std::thread::scope(|scope| {
        let append = || ledger.append_at(&local(), read_at, batch("idea"));
        let racing: Vec<_> = (0..8).map(|_| scope.spawn(append)).collect();
        racing.into_iter().map(|one| one.join().unwrap()).filter(Result::is_ok).count()
    });
    assert_eq!((written, ledger.last_seq(&local()).unwrap().get()), (1, read_at.get() + 1));
    let refused = ledger.append_at(&local(), read_at, batch("copy"));
    assert!(
        matches!(refused, Err(AppendError::Refused { refusal: EntryRefusal::Moved { .. }, .. })),
        "{refused:?}"
    );
    let now = ledger.last_seq(&local()).unwrap();
    ledger.append_at(&local(), now, batch("copy")).unwrap();
    let then = ledger.view(&local(), |view| view.root_at(read_at)).unwrap().unwrap();
    assert_eq!(then, Some(root), "the root of an earlier place");
}

fn reserved(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let signal = append_one(&ledger, entry("signal", "{}", ""));
    let kinds = RESERVED_TYPES.iter().map(|kind| (entry(kind, "{}", ""), *kind));
    let keys = RESERVED_KEYS.iter().map(|prefix| {
        let key = format!("\"key\":\"{prefix}x\"");
        (entry("signal", "{}", &key), *prefix)
    });
    for (forged, named) in kinds.chain(keys) {
        let batch = vec![entry("signal", "{}", ""), forged.clone()];
        for refused in [
            ledger.append(&local(), batch.clone()),
            ledger.submit(&local(), batch).and_then(|pending| pending.wait()),
        ] {
            let Err(AppendError::Refused { position: 1, refusal }) = refused else {
                panic!("{named} was taken: {refused:?}");
            };
            assert_eq!(refusal.code(), "reserved");
            assert!(refusal.to_string().contains(named), "{refusal}");
        }
        ledger.append_as(&local(), vec![(None, forged)]).unwrap();
    }
    // Anyone may write events, judged by their contract, and keys that only look alike.
    let at = signal.created_at.to_string();
    append_one(&ledger, event("e", "planned", 1, &at, &[&signal.id], ""));
    append_one(&ledger, entry("signal", "{}", r#""key":"reviews:x""#));
}

fn facts_with_place(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let (robot, rules) = (RobotId::parse("r").unwrap(), CoherenceRules::default());
    assert!(ledger.facts_up_to(&local(), &robot, None, &rules, Derivation::default()).unwrap().is_none());
    let first = append_one(&ledger, entry("signal", "{}", ""));
    let second = append_one(&ledger, entry("signal", "{}", ""));
    let newest = |up_to| {
        let (facts, position) =
            ledger.facts_up_to(&local(), &robot, up_to, &rules, Derivation::default()).unwrap().unwrap();
        (facts.newest.get(SnapshotType::Signal).as_ref().unwrap().entry.id.clone(), position.seq)
    };
    assert_eq!(newest(None), (second.id, second.seq));
    assert_eq!(newest(Some(first.seq)), (first.id, first.seq));
}
