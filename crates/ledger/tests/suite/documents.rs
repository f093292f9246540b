//! Nothing is accepted that cannot be read back (R3), only CreAleph writes trusted entries, and a log's rules begin at a
//! place in it.

use super::{Case, Fixture, Place, append, append_one, draft, entry, local};
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{JsonObject, Limits as JsonLimits};
use crealeph_contracts::scalar::{LedgerId, RobotId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{Derivation, Question, Snapshot, SnapshotFacts};
use crealeph_ledger::{
    AppendError, Content, EntryRefusal, Filter, Ledger, LedgerLimits, LedgerOptions, MAX_PAYLOAD_DEPTH,
    Millis, Order, Seq, StoredEntry,
};

pub(super) const CASES: &[Case] = &[
    ("what is as deep as allowed is read back everywhere", depth),
    ("what is as large and as many as allowed is read back everywhere", sizes),
    ("what CreAleph writes is reserved", reserved),
    ("an event passes the gate", gate),
    ("the second rules of an older log begin at a marker", marker),
    ("an entry without a payload can be moved", lost_payload),
    ("a snapshot holds so many bytes of payloads", snapshot_bytes),
];

/// A ledger at [`NOW`], which accepts entries dated then.
fn init(place: &Place) -> Ledger {
    let clock = super::Hands::at(1_893_456_000_000).clock();
    Ledger::init(&place.location, LedgerOptions { clock, ..place.options() }).unwrap()
}

fn refusal(outcome: Result<Vec<crealeph_ledger::AppendedEntry>, AppendError>) -> EntryRefusal {
    match outcome {
        Err(AppendError::Refused { refusal, .. }) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn nested(depth: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
}

/// The log as lines, after they were imported elsewhere and came out the same.
fn moved(fixture: &dyn Fixture, ledger: &Ledger) -> Vec<String> {
    let mut lines = Vec::new();
    ledger.export(&local(), &mut lines).unwrap().unwrap();
    let place = fixture.place();
    let other = init(&place);
    other.import(&mut lines.as_slice()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(other.audit(&local()).unwrap(), None);
    let mut again = Vec::new();
    other.export(&local(), &mut again).unwrap().unwrap();
    assert!(lines == again, "the export of an import is another");
    String::from_utf8(lines).unwrap().lines().map(str::to_owned).collect()
}

// holds: invariant 17

fn depth(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = init(&place);
    let line = |payload: usize| {
        let payload = nested(payload);
        format!(
            r#"{{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{payload}}}"#
        )
    };
    // A line is a document from outside: 128 deep passes, 129 does not.
    assert!(Draft::parse(line(128).as_bytes(), &JsonLimits::default()).is_err());
    let mut ids = vec![append_one(&ledger, draft(&line(127))).id];
    let payload = |depth| JsonObject::parse_own(&nested(depth)).unwrap();
    let with = |depth| Draft { payload: payload(depth), ..entry("signal", "{}", "") };
    for depth in [126, 128, MAX_PAYLOAD_DEPTH] {
        ids.push(append_one(&ledger, with(depth)).id);
        ids.push(ledger.append_as(&local(), vec![(None, with(depth))]).unwrap().remove(0).id);
    }
    for depth in [MAX_PAYLOAD_DEPTH + 1, 192] {
        let why = refusal(ledger.append(&local(), vec![with(depth)]));
        assert!(why.to_string().contains("at most 160 are accepted"), "{why}");
        refusal(ledger.append_as(&local(), vec![(None, with(depth))]));
    }
    for id in &ids {
        assert!(ledger.get(&local(), id).unwrap().unwrap().to_entry().payload.is_some());
        assert!(!ledger.prove(&local(), id).unwrap().unwrap().to_json().is_empty());
    }
    assert_eq!(moved(fixture, &ledger).len(), ids.len() + 1 + ledger.checkpoints(&local()).unwrap().len());
}

fn sizes(fixture: &dyn Fixture) {
    let place = fixture.place();
    let limits = LedgerLimits {
        batch_entries: 3,
        payload_bytes: 100,
        batch_bytes: 250,
        lineage_ids: 2,
        ..LedgerLimits::default()
    };
    let ledger = Ledger::init(&place.location, LedgerOptions { limits, ..place.options() }).unwrap();
    let sized = |bytes: usize| entry("a", &format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8)), "");
    append(&ledger, vec![sized(100), sized(100), sized(50)]);
    for (batch, what) in [
        (vec![sized(101)], "the payload's size in bytes"),
        (vec![sized(100), sized(100), sized(51)], "the batch's size in bytes"),
        (vec![sized(8), sized(8), sized(8), sized(8)], "the batch's number of entries"),
    ] {
        let EntryRefusal::TooLarge { what: found, .. } = refusal(ledger.append(&local(), batch)) else {
            panic!()
        };
        assert_eq!(found, what);
    }
    // The longest value of everything that an entry names.
    let long = "\"".repeat(256).replace('"', "\\\"");
    let key = "k".repeat(256);
    let longest = format!(
        r#"{{"robotId":"{long}","module":"{long}","source":"{long}","type":"{long}","state":"{long}","payload":{{}},"key":"{key}"}}"#
    );
    let first = append_one(&ledger, draft(&longest));
    let second = append_one(&ledger, sized(8));
    let on = format!(r#""lineage":{{"dependsOnLedgerIds":["{}","{}"]}}"#, first.id, second.id);
    append_one(&ledger, entry("a", "{}", &on));
    // Limits are those of the ledger that accepts entries, so this one is moved to one with limits as wide.
    let lines = moved(fixture, &ledger);
    assert_eq!(lines.len(), 7);
}

fn reserved(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = init(&place);
    let of = |module: &str, kind: &str, more: &str| {
        draft(&format!(
            r#"{{"robotId":"r","module":"{module}","source":"s","type":"{kind}","state":"draft","payload":{{}}{more}}}"#
        ))
    };
    for (module, kind, more, member) in [
        ("builder", "task", "", "module"),
        ("builder", "copy", r#","lineage":{"executionId":"e"}"#, "module"),
        ("m", "log_rules", "", "type"),
        ("m", "execution_record", "", "type"),
        ("m", "task", r#","key":"approved:x""#, "key"),
        ("m", "task", r#","key":"crealeph:log_rules:2""#, "key"),
    ] {
        let EntryRefusal::Reserved { member: found, .. } =
            refusal(ledger.append(&local(), vec![of(module, kind, more)]))
        else {
            panic!("{module} {kind}")
        };
        assert_eq!(found, member);
        assert!(ledger.submit(&local(), vec![of(module, kind, more)]).is_err());
    }
    assert_eq!(ledger.last_seq(&local()).unwrap(), Seq::ZERO);
    append_one(&ledger, of("agent-builder", "task", ""));
    append_one(&ledger, of("Builder", "task", ""));
    ledger.append_as(&local(), vec![(None, of("builder", "task", ""))]).unwrap();
}

/// An event with another snapshot, dry run and outcome than [`event`] has.
fn other_event(coherence: &str, is_dry_run: bool, state: &str, outcome: &str, signal: &LedgerId) -> Draft {
    let execution = format!("{coherence}-{is_dry_run}-{state}-{}", outcome.len());
    draft(&format!(
        r#"{{"robotId":"r","module":"agent-builder","source":"agent-builder","type":"execution_event","state":"{state}",
        "payload":{{"executionId":"{execution}","workflowVersion":"1","agentVersion":"1","executionContractVersion":"v1",
        "attempt":1,"target":"t","action":"a","snapshotAt":"{NOW}","coherenceStatus":"{coherence}",
        "dryRun":{is_dry_run}{outcome}}},"lineage":{{"dependsOnLedgerIds":["{signal}"]}}}}"#
    ))
}

const NOW: &str = "2030-01-01T00:00:00.000Z";
const BLOCKED: &str = r#","error":{"code":"COHERENCE_BLOCKED","message":"x","retryable":false}"#;
const INVALID: &str = r#","error":{"code":"MODEL_OUTPUT_INVALID","message":"x","retryable":true}"#;
const OTHER: &str = r#","error":{"code":"OUT_OF_MEMORY","message":"x","retryable":true}"#;
const REVIEW: &str = r#","cancelReason":"PARTIAL_REQUIRES_REVIEW""#;
const BORED: &str = r#","cancelReason":"bored""#;

/// A ledger at [`NOW`] with a signal.
fn with_signal(place: &Place) -> (Ledger, LedgerId) {
    let ledger = init(place);
    let signal = append_one(&ledger, entry("signal", "{}", "")).id;
    (ledger, signal)
}

fn gate(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, signal) = with_signal(&place);
    let rows = [
        ("coherent", false, "succeeded", "", false),
        ("coherent", true, "succeeded", "", true),
        ("coherent", false, "planned", "", true),
        ("coherent", false, "running", "", true),
        ("coherent", false, "failed", BLOCKED, false),
        ("coherent", false, "failed", INVALID, true),
        ("coherent", false, "failed", OTHER, true),
        ("coherent", false, "cancelled", REVIEW, false),
        ("coherent", false, "cancelled", BORED, true),
        ("partial", false, "succeeded", "", false),
        ("partial", true, "succeeded", "", true),
        ("partial", false, "planned", "", false),
        ("partial", true, "planned", "", false),
        ("partial", false, "running", "", true),
        ("partial", false, "failed", BLOCKED, true),
        ("partial", false, "failed", INVALID, true),
        ("partial", false, "failed", OTHER, false),
        ("partial", false, "cancelled", REVIEW, true),
        ("partial", false, "cancelled", BORED, false),
        ("stale", false, "failed", BLOCKED, true),
        ("stale", false, "failed", INVALID, false),
        ("stale", false, "running", "", false),
    ];
    for (coherence, is_dry_run, state, outcome, is_taken) in rows {
        let event = other_event(coherence, is_dry_run, state, outcome, &signal);
        let answer = ledger.append(&local(), vec![event]);
        assert_eq!(answer.is_ok(), is_taken, "{coherence} {is_dry_run} {state} {outcome}: {answer:?}");
        if !is_taken {
            assert_eq!(refusal(answer).code(), "invalid_entry");
        }
    }
}

/// The lines of an export of a log that an older version wrote.
fn older_log(drafts: Vec<Draft>) -> String {
    let mut lines = vec![
        r#"{"format":"crealeph-ledger-export-v1","origin":"crealeph-log/00112233445566778899aabbccddeeff","tenantId":"local"}"#
            .to_owned(),
    ];
    for (seq, draft) in (1..).zip(drafts) {
        let stored = older_entry(seq, Content::of(draft).0);
        lines.push(format!(r#"{{"entry":{},"leaf":"{}"}}"#, stored.canonical(), stored.leaf_hash()));
    }
    lines.join("\n") + "\n"
}

fn older_entry(seq: u64, content: Content) -> StoredEntry {
    StoredEntry {
        actor: None,
        id: LedgerId::parse(&format!("old-{seq}")).unwrap(),
        seq: Seq::new(seq).unwrap(),
        tenant_id: local(),
        created_at: Millis::new(1_893_456_000_000),
        content,
    }
}

fn kinds(ledger: &Ledger) -> Vec<String> {
    let page = ledger.list(&local(), &Filter::default(), Order::OldestFirst, None, 100).unwrap();
    page.entries.iter().map(|entry| entry.content.kind.to_string()).collect()
}

fn marker(fixture: &dyn Fixture) {
    let place = fixture.place();
    let clock = super::Hands::at(1_893_456_000_000).clock();
    let options = || LedgerOptions { clock: clock.clone(), ..place.options() };
    let ledger = Ledger::init(&place.location, options()).unwrap();
    let signal = LedgerId::parse("old-1").unwrap();
    let legacy = || other_event("coherent", false, "succeeded", "", &signal);
    let fake = draft(
        r#"{"robotId":"r","module":"builder","source":"s","type":"task","state":"draft","payload":{}}"#,
    );
    let older = older_log(vec![entry("signal", "{}", ""), legacy(), fake]);
    ledger.import(&mut older.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(kinds(&ledger), ["signal", "execution_event", "task"], "an import adds nothing");

    // A repeat of an earlier entry is still a repeat; new entries are judged by the second rules.
    let again = append_one(&ledger, legacy());
    assert!(again.is_repeat && again.seq.get() == 2);
    let another = other_event("partial", false, "planned", "", &signal);
    assert_eq!(refusal(ledger.append(&local(), vec![another.clone()])).code(), "invalid_entry");
    append_one(&ledger, entry("signal", "{}", ""));
    drop(ledger);
    let ledger = Ledger::open(&place.location, options()).unwrap();
    append_one(&ledger, entry("idea", "{}", ""));
    ledger.append_as(&local(), Vec::new()).unwrap();
    append_one(&ledger, entry("copy", "{}", ""));
    let expected = ["signal", "execution_event", "task", "log_rules", "signal", "idea", "copy"];
    assert_eq!(kinds(&ledger), expected, "the marker stands once, before what was written after it");
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    moved(fixture, &ledger);

    // After the marker an import judges by the second rules too, and a new log has them from its start.
    let mut lines = Vec::new();
    ledger.export(&local(), &mut lines).unwrap();
    let mut bad = String::from_utf8(lines).unwrap();
    let stored = older_entry(8, Content::of(another).0);
    bad.push_str(&format!("{{\"entry\":{},\"leaf\":\"{}\"}}\n", stored.canonical(), stored.leaf_hash()));
    let elsewhere = fixture.place();
    let error = init(&elsewhere).import(&mut bad.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("never `planned`"), "{error}");
    let new = fixture.place();
    let renamed = older.replace("crealeph-log/", "crealeph-log/2-");
    let error = init(&new).import(&mut renamed.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("only with dryRun true"), "{error}");
    let fresh = fixture.place();
    let ledger = init(&fresh);
    append_one(&ledger, entry("signal", "{}", ""));
    assert_eq!(kinds(&ledger), ["signal"], "a new log needs no marker");
}

/// An older version stored an entry whose payload was too deep for it without one; it cannot be repaired, only kept.
fn lost_payload(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = init(&place);
    let mut content = Content::of(entry("note", "{}", "")).0;
    content.payload = "".into();
    let stored = older_entry(2, content);
    let mut older = older_log(vec![entry("signal", "{}", "")]);
    older.push_str(&format!("{{\"entry\":{},\"leaf\":\"{}\"}}\n", stored.canonical(), stored.leaf_hash()));
    assert!(older.contains("\"payload\":,"), "{older}");
    ledger.import(&mut older.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let found = ledger.get(&local(), &LedgerId::parse("old-2").unwrap()).unwrap().unwrap();
    assert_eq!((found.canonical(), found.to_entry().payload), (stored.canonical(), None));
    append_one(&ledger, entry("signal", "{}", ""));
    assert_eq!(moved(fixture, &ledger).len(), 5);
    let changed = older.replace("\"payload\":,", "\"payload\":{},");
    let elsewhere = fixture.place();
    let error = init(&elsewhere).import(&mut changed.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("entry 2 does not match its leaf hash"), "{error}");
    // The whole log of an earlier version, with entries that it accepted and could not read.
    let older = include_str!("../older/too-deep.jsonl");
    let place = fixture.place();
    let ledger = init(&place);
    assert_eq!(ledger.import(&mut older.as_bytes()).unwrap().entries, 22);
    // The first line now says how many entries there are.
    assert!(moved(fixture, &ledger).iter().skip(1).eq(older.lines().skip(1)), "an entry became another");
}

/// Tasks and playbooks beyond the limit are listed by id, newest first, and the snapshot says how many.
fn snapshot_bytes(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = init(&place);
    let sized =
        |kind: &str, bytes: usize| entry(kind, &format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8)), "");
    append_one(&ledger, sized("signal", 1_000));
    // The largest are not read with their places from a server that is far away.
    for (kind, bytes) in
        [("task", 80_000), ("playbook", 90_000), ("task", 70_000), ("playbook", 300), ("task", 200)]
    {
        append_one(&ledger, sized(kind, bytes));
    }
    let entries: Vec<_> = ledger
        .list(&local(), &Filter::default(), Order::OldestFirst, None, 100)
        .unwrap()
        .entries
        .iter()
        .map(StoredEntry::to_entry)
        .collect();
    let robot_id = RobotId::parse("r").unwrap();
    // The newest signal and playbook, then the lists: 200, 300, 70,000, 90,000 and 80,000 bytes.
    let newest = 1_000 + 300;
    let bounds = [(0, 5), (newest + 199, 5), (newest + 200, 4), (newest + 499, 4), (newest + 500, 3)];
    let more = [(newest + 70_499, 3), (newest + 70_500, 2), (newest + 240_499, 1), (newest + 240_500, 0)];
    for (bound, omitted) in bounds.into_iter().chain(more) {
        let rules = CoherenceRules { snapshot_bytes: Some(bound), ..CoherenceRules::default() };
        let question = Question {
            tenant_id: Some(&local()),
            robot_id: &robot_id,
            at: None,
            derivation: Derivation::default(),
        };
        let found = ledger.facts(&local(), &robot_id, None, &rules).unwrap().unwrap();
        assert_eq!(found, SnapshotFacts::from_entries(&entries, &question, &rules), "bound {bound}");
        assert_eq!(found.omitted.map_or(0, |omitted| omitted.count), omitted, "bound {bound}");
        assert_eq!((found.tasks.len(), found.playbooks.len()), (3, 2));
        let whole = found.tasks.iter().chain(&found.playbooks).filter(|entry| entry.payload.is_some());
        assert_eq!(whole.count() as u64, 5 - omitted);
        let text = Snapshot::derive(found, &rules).unwrap().document().unwrap();
        assert_eq!(text.as_str().contains("omittedPayloads"), omitted > 0, "bound {bound}");
    }
}
