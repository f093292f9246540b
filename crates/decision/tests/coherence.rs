//! Snapshot and coherence (R17–R19): each sentence of the reading as a small ledger, and the laws that hold for all.

#![cfg(test)]

use crealeph_contracts::entry::Entry;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::scalar::RobotId;
use crealeph_decision::coherence::{CoherenceRules, DEFAULT_SNAPSHOT_BYTES};
use crealeph_decision::policy::{Rules, RulesSource, way_to_run};
use crealeph_decision::snapshot::{Derivation, MAX_LINEAGE, Question, Snapshot, SnapshotFacts, SnapshotType};
use proptest::prelude::*;
use serde_json::{Value, json};

/// `id type second [on,on] [state]` lines: a ledger, one entry a line.
fn ledger(text: &str) -> Vec<Entry> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .enumerate()
        .map(|(seq, line)| entry(seq, line))
        .collect()
}

fn entry(seq: usize, line: &str) -> Entry {
    let words: Vec<&str> = line.split_whitespace().collect();
    let second: u32 = words[2].parse().unwrap();
    let on: Vec<&str> =
        words.get(3).map(|on| on.split(',').filter(|id| *id != "-").collect()).unwrap_or_default();
    let document = json!({
        "id": words[0], "seq": seq, "robotId": words.get(5).unwrap_or(&"r"), "type": words[1],
        "createdAt": format!("2026-03-04T05:{:02}:{:02}Z", second / 60, second % 60),
        "state": words.get(4).unwrap_or(&"ready"), "lineage": { "dependsOnLedgerIds": on },
    });
    read(&document)
}

fn read(document: &Value) -> Entry {
    let text = document.to_string();
    let (document, faults) = parse(text.as_bytes(), &Limits::default());
    assert!(faults.is_empty());
    Entry::read_from(document.unwrap().root()).unwrap()
}

fn snapshot_at(entries: &[Entry], rules: &CoherenceRules, at: Option<Instant>) -> Option<Snapshot> {
    let robot_id = RobotId::parse("r").unwrap();
    let question = Question { tenant_id: None, robot_id: &robot_id, at, derivation: Derivation::default() };
    Snapshot::derive(SnapshotFacts::from_entries(entries, &question, rules), rules)
}

fn snapshot(text: &str) -> Snapshot {
    snapshot_at(&ledger(text), &CoherenceRules::default(), None).unwrap()
}

/// `status outdated | partial`.
fn summary(snapshot: &Snapshot) -> String {
    let names =
        |types: Vec<SnapshotType>| types.into_iter().map(SnapshotType::as_str).collect::<Vec<_>>().join(",");
    let coherence = &snapshot.coherence;
    format!("{} {}|{}", coherence.status, names(coherence.outdated()), names(coherence.partial()))
}

const COHERENT: &str = "
    s1 signal 0
    f1 fusion 1 s1
    i1 idea 2 f1
    c1 copy 3 i1
    p1 playbook 4 i1,f1
";

#[test]
fn everything_on_the_newest_evidence_is_coherent() {
    let snapshot = snapshot(COHERENT);
    assert_eq!(summary(&snapshot), "coherent |");
    assert_eq!(snapshot.snapshot_at.as_str(), "2026-03-04T05:00:04Z");
}

#[test]
fn each_flaw_of_r18() {
    let cases = [
        ("s2 signal 9", "stale idea,copy,playbook|"),
        ("f2 fusion 9 s1", "stale idea,copy,playbook|"),
        ("b1 benchmark 9", "coherent |"),
        ("i2 idea 9 f1", "coherent |"),
        ("i2 idea 9", "partial |idea"),
        ("i2 idea 9 gone", "partial |idea"),
        ("i2 idea 9 f1,gone", "partial |idea"),
        ("i2 idea 9 s1", "partial |idea"),
        ("c2 copy 9 i1 draft", "coherent |"),
        ("s2 signal 9 - draft", "coherent |"),
        ("s2 signal 9 - ready other", "coherent |"),
        ("s2 signal 3", "stale idea,copy,playbook|"),
    ];
    for (line, expected) in cases {
        assert_eq!(summary(&snapshot(&format!("{COHERENT}\n{line}"))), expected, "{line}");
    }
    assert_eq!(summary(&snapshot("s1 signal 0")), "partial |idea,copy,playbook", "nothing is there yet");
    assert_eq!(
        summary(&snapshot("s1 signal 0\ni1 idea 1 s1\nc1 copy 2 i1\np1 playbook 3 i1")),
        "coherent |",
        "no fusion, not judged"
    );
    assert_eq!(
        summary(&snapshot("i1 idea 0\ns1 signal 5\nc1 copy 6 s1\np1 playbook 7 s1")),
        "stale idea|idea",
        "newer than what used none"
    );
}

#[test]
fn a_cycle_in_lineage_ends() {
    let snapshot = snapshot("s1 signal 0\ni1 idea 1 c1,s1\nc1 copy 2 i1\np1 playbook 3 p1,i1");
    assert_eq!(summary(&snapshot), "coherent |");
}

#[test]
fn grace_excuses_slightly_newer_entries() {
    let entries = ledger(&format!("{COHERENT}\ns2 signal 60"));
    let with_grace = |grace_minutes| CoherenceRules { grace_minutes, ..CoherenceRules::default() };
    let status = |rules| summary(&snapshot_at(&entries, &rules, None).unwrap());
    assert_eq!(status(with_grace(0)), "stale idea,copy,playbook|");
    assert_eq!(status(with_grace(1)), "coherent |", "60 s after the one used is within a minute");
    let later = ledger(&format!("{COHERENT}\ns2 signal 61"));
    assert_eq!(summary(&snapshot_at(&later, &with_grace(1), None).unwrap()), "stale idea,copy,playbook|");
}

#[test]
fn configuration_sets_the_judged_and_upstream_types() {
    let entries = ledger(&format!("{COHERENT}\ns2 signal 9"));
    let rules = |upstream: &[SnapshotType], judged: &[SnapshotType]| CoherenceRules {
        upstream: upstream.to_vec(),
        judged: judged.to_vec(),
        ..CoherenceRules::default()
    };
    let status = |rules| summary(&snapshot_at(&entries, &rules, None).unwrap());
    assert_eq!(status(rules(&[SnapshotType::Signal], &[])), "coherent |", "none judged");
    assert_eq!(status(rules(&[SnapshotType::Fusion], &[SnapshotType::Copy])), "coherent |");
    assert_eq!(status(rules(&[SnapshotType::Signal], &[SnapshotType::Fusion])), "stale fusion|");
    let counted = CoherenceRules { uncounted_states: vec!["ready".to_owned()], ..CoherenceRules::default() };
    assert!(snapshot_at(&entries, &counted, None).is_none(), "SNAPSHOT_EMPTY");
}

#[test]
fn a_snapshot_at_an_instant_sees_only_earlier_entries() {
    let entries = ledger(&format!("{COHERENT}\ns2 signal 9"));
    let at = |text: &str| Some(Instant::parse(text).unwrap());
    let rules = CoherenceRules::default();
    assert_eq!(
        summary(&snapshot_at(&entries, &rules, at("2026-03-04T05:00:08.999Z")).unwrap()),
        "coherent |"
    );
    assert_eq!(
        summary(&snapshot_at(&entries, &rules, at("2026-03-04T05:00:09Z")).unwrap()),
        "stale idea,copy,playbook|"
    );
    assert!(snapshot_at(&entries, &rules, at("2026-03-04T04:59:59Z")).is_none());
}

#[test]
fn tasks_count_for_the_instant_but_are_no_evidence() {
    let with_task = snapshot(&format!("{COHERENT}\nt1 task 9 p1\nx1 run_receipt 30"));
    assert_eq!(
        (summary(&with_task).as_str(), with_task.snapshot_at.as_str()),
        ("coherent |", "2026-03-04T05:00:09Z")
    );
    assert!(snapshot_at(&ledger("t1 task 9"), &CoherenceRules::default(), None).is_none());
}

#[test]
fn late_entries_count_from_their_observed_time() {
    let mut late = json!({ "id": "s2", "seq": 9, "robotId": "r", "type": "signal", "createdAt": "2026-03-04T05:59:00Z",
        "observedAt": "2026-03-04T01:00:00Z" });
    let mut entries = ledger(COHERENT);
    entries.push(read(&late));
    let snapshot = snapshot_at(&entries, &CoherenceRules::default(), None).unwrap();
    assert_eq!(snapshot.recency().get("signalsAt").unwrap().as_str(), "2026-03-04T05:00:00Z", "s1 is newer");
    assert_eq!(summary(&snapshot), "coherent |", "history makes nothing stale");
    assert_eq!(snapshot.snapshot_at.as_str(), "2026-03-04T05:59:00Z", "it counts, and it came last");
    let robot_id = RobotId::parse("r").unwrap();
    let question =
        Question { tenant_id: None, robot_id: &robot_id, at: None, derivation: Derivation::Arrival };
    let rules = CoherenceRules::default();
    let by_arrival =
        Snapshot::derive(SnapshotFacts::from_entries(&entries, &question, &rules), &rules).unwrap();
    assert_eq!(summary(&by_arrival), "stale idea,copy,playbook|", "the rule of older records");
    late["observedAt"] = json!("2026-03-04T05:00:00.000000001Z");
    late["seq"] = json!(1);
    entries.pop();
    entries.push(read(&late));
    let snapshot = snapshot_at(&entries, &CoherenceRules::default(), None).unwrap();
    assert_eq!(summary(&snapshot), "stale idea,copy,playbook|", "newer by a nanosecond");
    late["seq"] = json!("x");
    assert!(
        Entry::read_from(parse(late.to_string().as_bytes(), &Limits::default()).0.unwrap().root()).is_err()
    );
}

#[test]
fn nothing_newer_than_the_snapshot_may_be_depended_on() {
    let lineage = |text: &str| -> Vec<String> {
        snapshot(text).facts.lineage.iter().map(|id| id.as_str().to_owned()).collect()
    };
    assert_eq!(
        lineage("s1 signal 0\nd1 idea 5 s1 draft\nc1 copy 3 d1"),
        ["c1", "s1"],
        "a draft that came later"
    );
    assert_eq!(lineage("s1 signal 0\nd1 idea 2 s1 draft\nc1 copy 3 d1"), ["c1", "d1", "s1"]);
    assert_eq!(lineage("s1 signal 0 - ready other\nc1 copy 3 s1"), ["c1"], "another robot's entry");
}

#[test]
fn allowed_dependencies_are_limited_newest_first() {
    let mut text = String::new();
    for number in 0..MAX_LINEAGE + 50 {
        let on = if number == 0 { "-".to_owned() } else { format!("s{}", number - 1) };
        text.push_str(&format!("s{number} signal {number} {on}\n"));
    }
    let snapshot = snapshot(&text);
    let facts = &snapshot.facts;
    assert_eq!((facts.lineage.len(), facts.is_lineage_cut), (MAX_LINEAGE, true));
    assert_eq!(facts.lineage[0].as_str(), format!("s{}", MAX_LINEAGE + 49));
    assert!(!facts.lineage.iter().any(|id| id.as_str() == "s49"), "the oldest are cut");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same ledger gives the same bytes, in whatever order its entries are given; and an entry of another
    /// robot changes nothing.
    #[test]
    // holds: invariant 1
    fn a_snapshot_is_a_function_of_the_ledger(
        steps in proptest::collection::vec((0usize..8, 0u32..40, proptest::collection::vec(0usize..30, 0..3)), 1..30),
        shuffle in any::<u64>(),
    ) {
        let kinds = ["signal", "fusion", "idea", "copy", "benchmark", "playbook", "task", "odd"];
        let mut second = 0;
        let mut entries = Vec::new();
        for (seq, (kind, step, on)) in steps.iter().enumerate() {
            second += step;
            let on: Vec<String> = on.iter().map(|id| format!("e{id}")).collect();
            let on = if on.is_empty() { "-".to_owned() } else { on.join(",") };
            entries.push(entry(seq, &format!("e{seq} {} {} {on}", kinds[*kind], second.min(3599))));
        }
        let rules = CoherenceRules::default();
        let json = |entries: &[Entry]| snapshot_at(entries, &rules, None).map(|snapshot| snapshot.document().unwrap());
        let expected = json(&entries);
        let mut shuffled = entries.clone();
        let mut state = shuffle;
        shuffled.sort_by_cached_key(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state
        });
        prop_assert_eq!(&json(&shuffled), &expected);
        entries.push(entry(99, "z9 signal 3599 - ready other"));
        prop_assert_eq!(&json(&entries), &expected);
        if let Some(text) = expected {
            prop_assert!(parse(text.as_str().as_bytes(), &Limits::default()).1.is_empty());
        }
    }
}

#[test]
fn the_reason_names_each_flaw_with_its_types() {
    let i = "i1 idea 2 s1\n";
    for (text, expected) in [
        (COHERENT.to_owned(), "everything rests on the newest evidence"),
        ("s1 signal 0".to_owned(), "there is no idea, copy or playbook"),
        (format!("s1 signal 0\n{i}"), "there is no copy or playbook"),
        (
            format!("s1 signal 0\n{i}c1 copy 3 i1\np1 playbook 4"),
            "no lineage is given for the newest playbook",
        ),
        (
            format!("s1 signal 0\n{i}c1 copy 3 gone\np1 playbook 4 i1"),
            "the lineage of the newest copy names an entry the ledger does not hold; no signal was used for the newest copy",
        ),
        (
            format!("s1 signal 0\nf1 fusion 1 s1\n{i}c1 copy 3 f1\np1 playbook 4 f1"),
            "no fusion was used for the newest idea",
        ),
        (
            format!("{COHERENT}\ns2 signal 9"),
            "a signal is newer than the one used for the newest idea, copy and playbook",
        ),
        (
            "i1 idea 0\ns1 signal 5\nc1 copy 6 s1\np1 playbook 7 s1".to_owned(),
            "a signal is newer than the newest idea, made without one",
        ),
    ] {
        let snapshot = snapshot(&text);
        assert_eq!(snapshot.coherence.reason, expected, "{text}");
    }
    let mut written = String::new();
    snapshot("s1 signal 0\ni1 idea 1 s1\nc1 copy 2 i1").coherence.write(&mut written);
    assert_eq!(
        written,
        "{\"status\":\"partial\",\"outdated\":[],\"partial\":[\"playbook\"],\"reason\":\"there is no playbook\"}"
    );
    assert_eq!(DEFAULT_SNAPSHOT_BYTES, 16_777_216, "as docs/configuration.md says");
}

/// What must be made before the Builder may run, `type` or `type:action|action`, in order.
fn way(text: &str, at_second: u32) -> String {
    let entries = ledger(text);
    let rules = CoherenceRules::default();
    let now = Instant::parse(&format!("2026-03-04T05:{:02}:{:02}Z", at_second / 60, at_second % 60)).unwrap();
    let snapshot = snapshot_at(&entries, &rules, None);
    let policy: RulesSource =
        serde_json::from_str(r#"{"thresholds":{"max_staleness_minutes":10,"min_confidence":0.1}}"#).unwrap();
    let steps = way_to_run(snapshot.as_ref(), &Rules::load(&policy).unwrap(), &rules, now);
    let words = steps.iter().map(|step| {
        assert!(!step.because.is_empty());
        let by: Vec<&str> = step.by.iter().map(|action| action.as_str()).collect();
        if by.is_empty() {
            step.kind.as_str().to_owned()
        } else {
            format!("{}:{}", step.kind.as_str(), by.join("|"))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_way_to_a_run_starts_with_what_the_rest_depends_on() {
    let all = "s signal 1\nf fusion 2 s\ni idea 3 s,f\nc copy 4 s,f\nb benchmark 5\np playbook 6 s,f";
    let playbook = "playbook:playbooks.v1.run|playbooks.v2.run";
    let remade = format!("idea:ideator.run copy:copywriter.run {playbook}");
    assert_eq!(way(all, 10), "", "nothing is in the way");
    let nothing = format!(
        "signal fusion:fusion.run idea:ideator.run copy:copywriter.run benchmark:competitors.run_insights {playbook}"
    );
    assert_eq!(way("", 10), nothing);
    assert_eq!(way(&all.replace("c copy 4 s,f\n", ""), 10), "copy:copywriter.run");
    let unbenchmarked = all.replace("b benchmark 5\n", "").replace("p playbook 6 s,f", "");
    assert_eq!(way(&unbenchmarked, 10), format!("benchmark:competitors.run_insights {playbook}"));
    assert_eq!(
        way(&format!("{all}\nn signal 7"), 10),
        remade,
        "a newer signal outdates what rests on the old one"
    );
    let newer_fusion = format!("{all}\nn fusion 7 s");
    assert_eq!(way(&newer_fusion, 10), remade);
    // Everything is too old: new evidence first, then everything based on it.
    assert_eq!(way(all, 3_000), nothing);
}
