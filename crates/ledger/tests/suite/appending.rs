//! What the ledger accepts and what not: atomic batches, identities, lineage, execution events, the clock, limits.

use super::{Case, Fixture, Hands, append, append_one, draft, entry, event, local, tenant};
use crealeph_contracts::scalar::{LedgerId, RobotId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::Derivation;
use crealeph_ledger::{
    AppendError, EntryIdentity, EntryRefusal, Ledger, LedgerError, LedgerLimits, LedgerOptions, Seq,
};

pub(super) const CASES: &[Case] = &[
    ("an entry comes back as it was sent", round_trip),
    ("a batch is written whole or not at all", atomic),
    ("a key names one entry permanently", keys),
    ("a conflict names what differs", differences),
    ("lineage may name keys and is stored resolved", key_lineage),
    ("lineage must resolve in the tenant", unknown_lineage),
    ("execution events are judged by their contract", event_contract),
    ("execution events are judged against the ledger", event_context),
    ("execution events follow the state machine", transitions),
    ("an event is not judged against a row that is stored as the last event and is none", tampered_events),
    ("a repeated event is the first one, a different one a conflict", repeated_events),
    ("a retry is written in one batch", retry_in_one_batch),
    ("time never goes back within a tenant", clock),
    ("a clock that was wrong once dates nothing more, and is not judged by", wrong_clock),
    ("what was observed was observed before", observed_at),
    ("bounds are held and named", bounds),
    ("a second init changes nothing", second_init),
];

fn refusal(ledger: &Ledger, batch: Vec<crealeph_contracts::entry::Draft>) -> (usize, EntryRefusal) {
    match ledger.append(&local(), batch) {
        Err(AppendError::Refused { position, refusal }) => (position, refusal),
        other => panic!("not refused: {other:?}"),
    }
}

fn round_trip(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let first = append_one(&ledger, entry("signal", r#"{ "b": 1.0, "a": "\u00e9\n" }"#, r#""key":"k 1""#));
    assert_eq!((first.seq.get(), first.is_repeat), (1, false));
    let second = append_one(
        &ledger,
        draft(&format!(
            r#"{{"robotId":"r","module":"m","source":"s","type":"copy","state":"draft","payload":{{}},
            "lineage":{{"dependsOnLedgerIds":["{0}","{0}"],"executionId":"e"}},"observedAt":"2020-01-01T01:00:00+01:00"}}"#,
            first.id
        )),
    );
    drop(ledger);
    let ledger = place.open();
    let stored = ledger.get(&local(), &first.id).unwrap().unwrap();
    assert_eq!(&*stored.content.payload, "{\"a\":\"é\\n\",\"b\":1}");
    let stored = ledger.get(&local(), &second.id).unwrap().unwrap();
    assert_eq!(
        stored.canonical(),
        format!(
            "{{\"createdAt\":\"{}\",\"id\":\"{}\",\"lineage\":{{\"dependsOnLedgerIds\":[\"{}\"],\"executionId\":\"e\"}},\
             \"module\":\"m\",\"observedAt\":\"2020-01-01T01:00:00+01:00\",\"payload\":{{}},\"robotId\":\"r\",\"seq\":2,\
             \"source\":\"s\",\"state\":\"draft\",\"tenantId\":\"local\",\"type\":\"copy\"}}",
            second.created_at, second.id, first.id
        )
    );
    assert_eq!(ledger.get(&tenant("other"), &first.id).unwrap(), None);
    assert_eq!(ledger.get(&local(), &LedgerId::parse("nothing").unwrap()).unwrap(), None);
    let by_key = ledger.get_by_key(&local(), &"k 1".parse_key()).unwrap().unwrap();
    assert_eq!(by_key.id, first.id);
}

trait ParseKey {
    fn parse_key(&self) -> crealeph_contracts::scalar::ClientKey;
}

impl ParseKey for str {
    fn parse_key(&self) -> crealeph_contracts::scalar::ClientKey {
        crealeph_contracts::scalar::ClientKey::parse(self).unwrap()
    }
}

fn atomic(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    append_one(&ledger, entry("signal", "{}", ""));
    let bad = entry("copy", "{}", r#""lineage":{"dependsOnLedgerIds":["nowhere"]}"#);
    let batch = vec![entry("idea", "{}", r#""key":"a""#), bad, entry("idea", "{}", r#""key":"b""#)];
    let (position, why) = refusal(&ledger, batch);
    assert_eq!((position, why), (1, EntryRefusal::UnknownLineage(vec!["nowhere".to_owned()])));
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 1);
    assert!(ledger.get_by_key(&local(), &"a".parse_key()).unwrap().is_none());
    assert_eq!(append(&ledger, vec![]), []);
    assert_eq!(append_one(&ledger, entry("idea", "{}", r#""key":"a""#)).seq.get(), 2);
}

fn keys(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let one = || entry("signal", r#"{"x":1}"#, r#""key":"k""#);
    let first = append_one(&ledger, one());
    for ledger in [ledger.clone(), place.open()] {
        let again = append_one(&ledger, one());
        assert_eq!((&again.id, again.seq, again.created_at), (&first.id, first.seq, first.created_at));
        assert!(again.is_repeat);
    }
    let both = append(&ledger, vec![entry("a", "{}", r#""key":"n""#), entry("a", "{}", r#""key":"n""#)]);
    assert_eq!((both[0].id == both[1].id, both[0].is_repeat, both[1].is_repeat), (true, false, true));
    // Keys belong to a tenant.
    let other = ledger.append(&tenant("other"), vec![entry("a", "{}", r#""key":"k""#)]).unwrap();
    assert!(!other[0].is_repeat);
    // Without a key nothing is a repeat.
    assert_ne!(append_one(&ledger, entry("a", "{}", "")).id, append_one(&ledger, entry("a", "{}", "")).id);
}

fn differences(fixture: &dyn Fixture) {
    let ledger = fixture.place();
    let ledger = ledger.init();
    let first = append_one(&ledger, entry("signal", r#"{"a":{"b":[1,2]},"c":1}"#, r#""key":"k""#));
    let other =
        entry("fusion", r#"{"a":{"b":[1,3]},"d":1}"#, r#""key":"k","observedAt":"2020-01-01T00:00:00Z""#);
    let (_, why) = refusal(&ledger, vec![other]);
    assert_eq!(why.code(), "IDEMPOTENCY_CONFLICT");
    let EntryRefusal::Conflict { existing, identity, differs } = why else { panic!("{why:?}") };
    assert_eq!((existing, identity), (first.id, EntryIdentity::Key));
    assert_eq!(differs, ["/type", "/observedAt", "/payload/a/b/1", "/payload/c", "/payload/d"]);
}

fn key_lineage(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let signal = append_one(&ledger, entry("signal", "{}", r#""key":"s""#));
    let on_keys = r#""lineage":{"dependsOnLedgerIds":["key:f","key:s"]},"key":"i""#;
    let batch = || vec![entry("fusion", "{}", r#""key":"f""#), entry("idea", "{}", on_keys)];
    let made = append(&ledger, batch());
    let idea = ledger.get(&local(), &made[1].id).unwrap().unwrap();
    let mut expected = vec![signal.id, made[0].id.clone()];
    expected.sort();
    assert_eq!(idea.content.depends_on, expected);
    assert!(append(&ledger, batch()).iter().all(|answer| answer.is_repeat));
    let later = entry("copy", "{}", r#""lineage":{"dependsOnLedgerIds":["key:later"]}"#);
    let (position, why) = refusal(&ledger, vec![later, entry("idea", "{}", r#""key":"later""#)]);
    assert_eq!((position, why), (0, EntryRefusal::UnknownLineage(vec!["key:later".to_owned()])));
}

fn unknown_lineage(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let theirs =
        ledger.append(&tenant("other"), vec![entry("signal", "{}", r#""key":"k""#)]).unwrap().remove(0);
    for id in [theirs.id.as_str(), "key:k", "nothing"] {
        let one = entry("copy", "{}", &format!(r#""lineage":{{"dependsOnLedgerIds":["{id}"]}}"#));
        assert_eq!(refusal(&ledger, vec![one]), (0, EntryRefusal::UnknownLineage(vec![id.to_owned()])));
    }
}

const NOW: &str = "2030-01-01T00:00:00.000Z";
const NOW_MILLIS: i64 = 1_893_456_000_000;

/// A ledger whose clock is stopped, with one signal.
fn with_signal(place: &super::Place) -> (Ledger, LedgerId) {
    let options = LedgerOptions { clock: Hands::at(NOW_MILLIS).clock(), ..place.options() };
    let ledger = Ledger::init(&place.location, options).unwrap();
    let id = append_one(&ledger, entry("signal", "{}", "")).id;
    (ledger, id)
}

// holds: invariant 7

fn event_contract(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, signal) = with_signal(&place);
    let fine = event("e", "planned", 1, NOW, &[&signal], "");
    let bad = [
        (event("e", "planned", 0, NOW, &[&signal], ""), "/payload/attempt"),
        (event("e", "planned", 1, "2030-01-01T00:00:00.001Z", &[&signal], ""), "/payload/snapshotAt"),
        (event("e", "planned", 1, NOW, &[], ""), "/lineage/dependsOnLedgerIds"),
        (event("e", "planned", 1, NOW, &[&signal], r#","extra":1"#), "/payload/extra"),
        (event("e", "failed", 1, NOW, &[&signal], r#","result":{}"#), "/payload/result"),
        (event("e", "done", 1, NOW, &[&signal], ""), "/state"),
    ];
    for (bad, pointer) in bad {
        let (_, why) = refusal(&ledger, vec![fine.clone(), bad]);
        let EntryRefusal::Invalid(violations) = why else { panic!("{why:?}") };
        assert!(violations.iter().any(|violation| violation.pointer == pointer), "{pointer}: {violations:?}");
    }
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 1);
    append_one(&ledger, fine);
}

fn tampered_events(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, signal) = with_signal(&place);
    append(
        &ledger,
        vec![event("e", "planned", 1, NOW, &[&signal], ""), entry("signal", "{}", r#""key":"k""#)],
    );
    // No hash covers by which execution and attempt an entry is found.
    fixture.tamper(&place, "UPDATE entries SET execution = 'e', attempt = 5 WHERE key = 'k'").unwrap();
    // Without the last event, the state machine would let anything follow.
    let skipped = event("e", "succeeded", 1, NOW, &[&signal], "");
    match ledger.append(&local(), vec![skipped]) {
        Err(AppendError::Ledger(LedgerError::Damaged { seq, what, .. })) => {
            assert_eq!(seq.map(Seq::get), Some(3), "{what}");
        }
        other => panic!("judged by a row that is no event: {other:?}"),
    }
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 3);
}

fn event_context(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, signal) = with_signal(&place);
    let json = r#"{"robotId":"q","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#;
    let of_other_robot = append_one(&ledger, draft(json)).id;
    let nothing = LedgerId::parse("nothing").unwrap();
    let before = "2029-12-31T23:59:59.999Z";
    for (snapshot_at, id) in [(NOW, &of_other_robot), (NOW, &nothing), (before, &signal)] {
        let (_, why) = refusal(&ledger, vec![event("e", "planned", 1, snapshot_at, &[&signal, id], "")]);
        let EntryRefusal::Invalid(violations) = why else { panic!("{why:?}") };
        assert!(violations[0].pointer.starts_with("/lineage/dependsOnLedgerIds/"), "{violations:?}");
    }
}

fn transitions(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, signal) = with_signal(&place);
    let step = |execution: &str, state: &str, attempt| event(execution, state, attempt, NOW, &[&signal], "");
    append_one(&ledger, step("e", "planned", 1));
    for (state, attempt, code) in
        [("succeeded", 1, "illegal_transition"), ("planned", 2, "illegal_transition")]
    {
        assert_eq!(refusal(&ledger, vec![step("e", state, attempt)]).1.code(), code, "{state} {attempt}");
    }
    append(&ledger, vec![step("e", "running", 2), step("e", "failed", 2)]);
    assert_eq!(refusal(&ledger, vec![step("e", "running", 1)]).1.code(), "attempt_not_increased");
    assert_eq!(refusal(&ledger, vec![step("e", "planned", 2)]).1.code(), "attempt_not_increased");
    append(&ledger, vec![step("e", "running", 3), step("e", "succeeded", 3)]);
    assert_eq!(refusal(&ledger, vec![step("e", "running", 4)]).1.code(), "illegal_transition");
    // Another execution, or another robot's of the same name, starts from the beginning.
    append_one(&ledger, step("f", "cancelled", 9));
}

fn repeated_events(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, signal) = with_signal(&place);
    let idea = append_one(&ledger, entry("idea", "{}", "")).id;
    let one = || event("e", "planned", 1, NOW, &[&signal], "");
    let first = append_one(&ledger, one());
    append(
        &ledger,
        vec![event("e", "running", 1, NOW, &[&signal], ""), event("e", "failed", 1, NOW, &[&signal], "")],
    );
    let again = append_one(&ledger, one());
    assert!(again.is_repeat && again.id == first.id);
    let others = [
        (event("e", "planned", 1, NOW, &[&signal, &idea], ""), "/lineage/dependsOnLedgerIds"),
        (event("e", "planned", 1, NOW, &[&signal], r#","durationMs":1"#), "/payload/durationMs"),
    ];
    for (other, pointer) in others {
        let (_, why) = refusal(&ledger, vec![other]);
        let EntryRefusal::Conflict { existing, identity, differs } = why else { panic!("{why:?}") };
        assert_eq!(
            (existing, identity, differs),
            (first.id.clone(), EntryIdentity::Event, vec![pointer.to_owned()])
        );
    }
}

fn retry_in_one_batch(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, signal) = with_signal(&place);
    append_one(&ledger, event("e", "failed", 1, NOW, &[&signal], ""));
    let batch =
        vec![event("e", "running", 2, NOW, &[&signal], ""), event("e", "succeeded", 2, NOW, &[&signal], "")];
    let written = append(&ledger, batch);
    assert_eq!(written.iter().map(|one| one.seq.get()).collect::<Vec<_>>(), [3, 4]);
}

fn clock(fixture: &dyn Fixture) {
    let place = fixture.place();
    let hands = Hands::at(2_000);
    let options = LedgerOptions { clock: hands.clock(), ..place.options() };
    let ledger = Ledger::init(&place.location, options).unwrap();
    let mut last = 0;
    for (now, expected) in [(2_000, 2_000), (1_000, 2_000), (-5, 2_000), (2_001, 2_001), (2_000, 2_001)] {
        hands.set(now);
        let made = append_one(&ledger, entry("signal", "{}", ""));
        assert_eq!((made.created_at.get(), made.seq.get()), (expected, last + 1));
        last = made.seq.get();
    }
    // Another tenant has its own time.
    hands.set(1_500);
    let other = ledger.append(&tenant("other"), vec![entry("signal", "{}", "")]).unwrap();
    assert_eq!(other[0].created_at.get(), 1_500);
}

/// A clock that was once wrong: the entry it dated can be read, and no other entry is dated by it.
fn wrong_clock(fixture: &dyn Fixture) {
    const YEAR: i64 = 31_536_000_000;
    let place = fixture.place();
    let hands = Hands::at(80 * YEAR);
    let options = || LedgerOptions { clock: hands.clock(), ..place.options() };
    let ledger = Ledger::init(&place.location, options()).unwrap();
    let keyed = || entry("signal", "{}", r#""key":"k""#);
    append_one(&ledger, keyed());
    hands.set(80 * YEAR - 300_000);
    assert_eq!(
        append_one(&ledger, entry("signal", "{}", "")).created_at.get(),
        80 * YEAR,
        "clocks differ a little"
    );
    hands.set(80 * YEAR - 300_001);
    let refused = ledger.append(&local(), vec![entry("signal", "{}", "")]);
    let Err(AppendError::Ledger(error @ LedgerError::ClockBehind { .. })) = &refused else {
        panic!("{refused:?}")
    };
    assert!(error.hint().unwrap().contains("max_clock_skew_seconds"), "{error}");
    assert!(append_one(&ledger, keyed()).is_repeat, "what was acknowledged is acknowledged again");
    hands.set(56 * YEAR);
    ledger.append(&tenant("other"), vec![entry("signal", "{}", "")]).unwrap();
    // The entry is judged by the true time, and is in the future; a newest entry slightly ahead is not.
    let (robot, rules) = (RobotId::parse("r").unwrap(), CoherenceRules::default());
    let judged = |millis| {
        hands.set(millis);
        let read = ledger.facts_up_to(&local(), &robot, None, &rules, Derivation::default());
        read.unwrap().unwrap().1.now.get()
    };
    assert_eq!((judged(56 * YEAR), judged(80 * YEAR - 9)), (56 * YEAR, 80 * YEAR));
    // It cannot be imported again either, unless the limit is raised.
    let mut export = Vec::new();
    ledger.export(&local(), &mut export).unwrap().unwrap();
    hands.set(56 * YEAR);
    let elsewhere = fixture.place();
    let options = |skew_ms| {
        let limits = LedgerLimits { clock_skew_ms: skew_ms, ..LedgerLimits::default() };
        LedgerOptions { clock: hands.clock(), limits, ..elsewhere.options() }
    };
    let strict = Ledger::init(&elsewhere.location, options(300_000)).unwrap();
    let refused = strict.import(&mut export.as_slice()).unwrap_err();
    assert!(
        matches!(&refused, LedgerError::BadExport { line: 2, reason } if reason.contains("ahead of the clock")),
        "{refused}"
    );
    let lenient = Ledger::open(&elsewhere.location, options(i64::MAX)).unwrap();
    assert_eq!(lenient.import(&mut export.as_slice()).unwrap().entries, 2);
    assert_eq!(
        append_one(&lenient, entry("signal", "{}", "")).created_at.get(),
        80 * YEAR,
        "dated like the newest"
    );
}

fn observed_at(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, _) = with_signal(&place);
    let at = |text: &str| entry("signal", "{}", &format!(r#""observedAt":"{text}""#));
    append_one(&ledger, at(NOW));
    let (_, why) = refusal(&ledger, vec![at("2030-01-01T00:00:00.000000001Z")]);
    let EntryRefusal::Invalid(violations) = why else { panic!("{why:?}") };
    assert_eq!((violations[0].pointer.as_str(), violations[0].clause), ("/observedAt", "R20"));
}

fn bounds(fixture: &dyn Fixture) {
    let place = fixture.place();
    let limits = LedgerLimits {
        batch_entries: 2,
        payload_bytes: 10,
        batch_bytes: 14,
        lineage_ids: 1,
        ..LedgerLimits::default()
    };
    let ledger = Ledger::init(&place.location, LedgerOptions { limits, ..place.options() }).unwrap();
    let small = || entry("a", r#"{"a":1}"#, "");
    append(&ledger, vec![small(), small()]);
    let two_ids = entry("a", "{}", r#""lineage":{"dependsOnLedgerIds":["x","y"]}"#);
    let beyond = [
        (vec![small(), small(), small()], "the batch's number of entries"),
        (vec![entry("a", r#"{"a":12345}"#, "")], "the payload's size in bytes"),
        (vec![entry("a", r#"{"a":123}"#, ""), small()], "the batch's size in bytes"),
        (vec![two_ids], "the lineage's number of ids"),
    ];
    for (batch, bound) in beyond {
        let (_, why) = refusal(&ledger, batch);
        let EntryRefusal::TooLarge { what, .. } = why else { panic!("{why:?}") };
        assert_eq!(what, bound);
    }
    let filter = crealeph_ledger::Filter::default();
    let page = ledger.list(&local(), &filter, crealeph_ledger::Order::OldestFirst, None, 1_001);
    assert_eq!(page.unwrap_err().code(), "ledger_limit");
    assert_eq!(ledger.last_seq(&local()).unwrap(), Seq::new(2).unwrap());
}

fn second_init(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    append_one(&ledger, entry("a", "{}", ""));
    let again = Ledger::init(&place.location, place.options());
    assert!(matches!(again, Err(LedgerError::Exists { .. })), "{again:?}");
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 1);
}
