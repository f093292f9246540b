//! Reads: lists against a plain filter, lineage, the facts of a snapshot against their definition, watching.

use super::{Case, Dice, Fixture, Hands, append, append_one, draft, entry, event, local};
use crealeph_contracts::Entry;
use crealeph_contracts::scalar::{ExecutionId, LedgerId, Name, RobotId, TenantId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{Derivation, Question, Snapshot, SnapshotFacts};
use crealeph_ledger::{
    Cursor, Direction, Filter, IdKind, Ledger, LedgerError, LedgerLimits, LedgerOptions, Millis, Order, Seq,
    StoredEntry,
};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    ("lists give what a plain filter gives, page by page", lists),
    ("a page that looked far enough goes on later", bounded_pages),
    ("events, drafts, receipts and robots are found however long the log is", long_log),
    (
        "a robot of more types and states than are merged is searched on, and no older entry passes for its last",
        many_classes,
    ),
    ("the events of an execution are found", executions),
    ("an id is found by its start, and printed as short as it is unique", short_ids),
    ("lineage is followed up and down within a bound", lineage),
    ("a lineage at its limit leaves nothing out without saying so", lineage_at_its_limit),
    ("a row that leads to no entry is reported, not left out", stray_edge),
    ("facts are those of the definition, at any instant", facts),
    ("a watch wakes when the log grows", watch),
    ("an empty ledger answers", empty),
];

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn robot(text: &str) -> RobotId {
    RobotId::parse(text).unwrap()
}

/// Some hundred entries of two robots over a while, each depending on some before it.
pub(super) fn varied(ledger: &Ledger, hands: &Hands, seed: u64, count: usize) -> Vec<StoredEntry> {
    let mut dice = Dice::new(seed);
    let mut ids: Vec<LedgerId> = Vec::new();
    for at in 0..count as i64 {
        hands.set(1_000_000 + at / 3);
        let kinds = ["signal", "fusion", "idea", "copy", "benchmark", "playbook", "task", "note"];
        let kind = kinds[dice.below(kinds.len() as u64) as usize];
        let state = ["final", "draft", "planned"][dice.below(3) as usize];
        let robot = ["r", "r", "r", "q"][dice.below(4) as usize];
        let mut on: Vec<String> = Vec::new();
        for _ in 0..dice.below(4) {
            if let Some(id) = ids.get(dice.below(ids.len().max(1) as u64) as usize) {
                on.push(format!("\"{id}\""));
            }
        }
        let execution = if dice.below(5) == 0 { r#","executionId":"e""# } else { "" };
        // Some were true a while before they came, some of them at the same time, some long before any clock.
        let observed = match dice.below(6) {
            0 => r#""observedAt":"1492-10-12T02:00:00.000000001Z","#.to_owned(),
            1 => format!(r#""observedAt":"1970-01-01T00:16:39.{:09}Z","#, dice.below(5)),
            2 => format!(
                r#""observedAt":"{}","#,
                Millis::new(1_000_000 + dice.below(at as u64 / 3 + 1) as i64)
            ),
            _ => String::new(),
        };
        let one = draft(&format!(
            r#"{{"robotId":"{robot}","module":"m{}","source":"s","type":"{kind}","state":"{state}","payload":{{"n":{at}}},{observed}
            "lineage":{{"dependsOnLedgerIds":[{}]{execution}}}}}"#,
            dice.below(2),
            on.join(",")
        ));
        ids.push(append_one(ledger, one).id);
    }
    ids.iter().map(|id| ledger.get(&local(), id).unwrap().unwrap()).collect()
}

pub(super) fn fresh(place: &super::Place) -> (Ledger, Hands) {
    let hands = Hands::at(1_000_000);
    let options = LedgerOptions { clock: hands.clock(), ..place.options() };
    (Ledger::init(&place.location, options).unwrap(), hands)
}

fn walk(ledger: &Ledger, filter: &Filter, order: Order, limit: usize) -> Vec<StoredEntry> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let page = ledger.list(&local(), filter, order, cursor, limit).unwrap();
        all.extend(page.entries);
        match page.next {
            Some(next) => cursor = Some(Cursor::parse(&next.to_string()).unwrap()),
            None => return all,
        }
    }
}

fn lists(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, hands) = fresh(&place);
    let all = varied(&ledger, &hands, 7, 120);
    let instant = |millis: i64| Some(Millis::new(millis).instant());
    let filters = [
        Filter::default(),
        Filter { robot_id: Some(robot("q")), ..Filter::default() },
        Filter { robot_id: Some(robot("r")), from: instant(1_000_010), ..Filter::default() },
        Filter { robot_id: Some(robot("r")), state: Some(name("final")), ..Filter::default() },
        Filter { robot_id: Some(robot("r")), kind: Some(name("idea")), ..Filter::default() },
        Filter { robot_id: Some(robot("r")), kind: Some(name("ide")), ..Filter::default() },
        Filter { robot_id: Some(robot("q")), module: Some(name("m0")), ..Filter::default() },
        Filter {
            robot_id: Some(robot("q")),
            kind: Some(name("signal")),
            module: Some(name("m1")),
            ..Filter::default()
        },
        Filter { robot_id: Some(robot("none")), ..Filter::default() },
        Filter { kind: Some(name("idea")), ..Filter::default() },
        Filter { state: Some(name("draft")), module: Some(name("m1")), ..Filter::default() },
        Filter {
            robot_id: Some(robot("r")),
            kind: Some(name("task")),
            state: Some(name("final")),
            ..Filter::default()
        },
        Filter { execution_id: Some(ExecutionId::parse("e").unwrap()), ..Filter::default() },
        Filter { from: instant(1_000_010), to: instant(1_000_020), ..Filter::default() },
        Filter { kind: Some(name("copy")), to: instant(1_000_030), ..Filter::default() },
        Filter { from: instant(2_000_000), ..Filter::default() },
        Filter { to: instant(5), ..Filter::default() },
    ];
    let few_classes = LedgerLimits { list_classes: 3, page_scan: 10, ..LedgerLimits::default() };
    let scanning =
        Ledger::open(&place.location, LedgerOptions { limits: few_classes, ..place.options() }).unwrap();
    for filter in &filters {
        let is_in = |entry: &&StoredEntry| {
            let content = &entry.content;
            filter.robot_id.as_ref().is_none_or(|robot| content.robot_id == *robot)
                && filter.kind.as_ref().is_none_or(|kind| content.kind == *kind)
                && filter.state.as_ref().is_none_or(|state| content.state == *state)
                && filter.module.as_ref().is_none_or(|module| content.module == *module)
                && filter.execution_id.as_ref().is_none_or(|id| content.execution_id.as_ref() == Some(id))
                && filter.from.is_none_or(|from| entry.created_at.instant() >= from)
                && filter.to.is_none_or(|to| entry.created_at.instant() <= to)
        };
        let expected: Vec<StoredEntry> = all.iter().filter(is_in).cloned().collect();
        let backwards: Vec<StoredEntry> = expected.iter().rev().cloned().collect();
        for limit in [1, 7, 1_000] {
            assert_eq!(walk(&ledger, filter, Order::OldestFirst, limit), expected, "{filter:?} by {limit}");
            assert_eq!(walk(&ledger, filter, Order::NewestFirst, limit), backwards, "{filter:?} by {limit}");
            // A robot of more types and states than are merged is searched page by page, and nothing of it is missing.
            assert_eq!(
                walk(&scanning, filter, Order::NewestFirst, limit),
                backwards,
                "{filter:?} by {limit}"
            );
        }
    }
    assert!(matches!(Cursor::parse("seq-01"), Err(LedgerError::BadCursor { .. })));
}

fn bounded_pages(fixture: &dyn Fixture) {
    let place = fixture.place();
    let limits = LedgerLimits { page_scan: 10, ..LedgerLimits::default() };
    let ledger = Ledger::init(&place.location, LedgerOptions { limits, ..place.options() }).unwrap();
    append_one(&ledger, entry("idea", "{}", ""));
    append(&ledger, (0..40).map(|_| entry("signal", "{}", "")).collect());
    append_one(&ledger, entry("idea", "{}", ""));
    let filter = Filter { kind: Some(name("idea")), ..Filter::default() };
    let page = ledger.list(&local(), &filter, Order::OldestFirst, None, 5).unwrap();
    assert_eq!((page.entries.len(), page.next.map(|next| next.to_string())), (1, Some("seq-10".to_owned())));
    let page = ledger.list(&local(), &filter, Order::NewestFirst, None, 5).unwrap();
    assert_eq!((page.entries.len(), page.next.map(|next| next.to_string())), (1, Some("seq-33".to_owned())));
    assert_eq!(walk(&ledger, &filter, Order::OldestFirst, 5).len(), 2);
    assert_eq!(walk(&ledger, &filter, Order::NewestFirst, 5).len(), 2);
}

/// With a limit of ten entries read, sixty are as many as a million.
// holds: invariant 18
fn long_log(fixture: &dyn Fixture) {
    let place = fixture.place();
    let limits = LedgerLimits { page_scan: 10, ..LedgerLimits::default() };
    let ledger = Ledger::init(&place.location, LedgerOptions { limits, ..place.options() }).unwrap();
    let signal = append_one(&ledger, entry("signal", "{}", ""));
    let (signal, at) = (signal.id, signal.created_at.to_string());
    let draft_of = |robot: &str, n: usize| {
        draft(&format!(
            r#"{{"robotId":"{robot}","module":"builder","source":"s","type":"copy","state":"draft","payload":{{"n":{n}}}}}"#
        ))
    };
    let first = event("e-1", "failed", 1, &at, &[&signal], "");
    let second = event("e-2", "planned", 1, &at, &[&signal], "");
    append(&ledger, vec![first, second]);
    // The module is reserved, so they are written as CreAleph writes.
    let batch = (0..4).map(|n| (None, draft_of(if n < 3 { "r" } else { "q" }, n))).collect();
    let drafts: Vec<LedgerId> =
        ledger.append_as(&local(), batch).unwrap().into_iter().map(|one| one.id).collect();
    let on = |id: &LedgerId| format!(r#""lineage":{{"dependsOnLedgerIds":["{id}"]}}"#);
    append_one(&ledger, entry("opinion", "{}", &on(&drafts[1])));
    append_one(&ledger, entry("note", "{}", &on(&drafts[2])));
    let receipt_of = |robot: &str, kind: &str| {
        draft(&format!(
            r#"{{"robotId":"{robot}","module":"work","source":"s","type":"{kind}","state":"failed","payload":{{}}}}"#
        ))
    };
    let kinds = ["run_receipt", "reported_receipt", "execution_record"];
    let receipts = kinds.iter().flat_map(|kind| [receipt_of("busy", kind), receipt_of("q", kind)]);
    ledger.append_as(&local(), receipts.map(|receipt| (None, receipt)).collect()).unwrap();
    let busy = r#"{"robotId":"busy","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#;
    append(&ledger, (0..60).map(|_| draft(busy)).collect());

    let first_page =
        |filter: &Filter, limit| ledger.list(&local(), filter, Order::NewestFirst, None, limit).unwrap();
    for kind in kinds {
        let of_kind = Filter { kind: Some(name(kind)), ..Filter::default() };
        let failed = Filter { state: Some(name("failed")), ..of_kind.clone() };
        for filter in [of_kind, failed] {
            let page = first_page(&filter, 9);
            assert_eq!((page.entries.len(), page.next), (2, None), "{kind}");
        }
    }
    let states = |filter: &Filter| -> Vec<String> {
        first_page(filter, 9).entries.iter().map(|event| event.content.state.as_str().to_owned()).collect()
    };
    let events = Filter { kind: Some(name("execution_event")), ..Filter::default() };
    assert_eq!(states(&events), ["planned", "failed"]);
    assert_eq!(states(&Filter { robot_id: Some(robot("r")), ..events.clone() }), ["planned", "failed"]);
    assert_eq!(states(&Filter { state: Some(name("failed")), ..events.clone() }), ["failed"]);
    assert_eq!(states(&Filter { robot_id: Some(robot("q")), ..events.clone() }), [""; 0]);
    // What a robot has in all is found as if the log were short, in either direction and up to the exact end of a page.
    let of_q = Filter { robot_id: Some(robot("q")), ..Filter::default() };
    let failed_of_q = Filter { state: Some(name("failed")), ..of_q.clone() };
    for (filter, count) in [(&of_q, 4), (&failed_of_q, 3)] {
        for order in [Order::NewestFirst, Order::OldestFirst] {
            let page = ledger.list(&local(), filter, order, None, 9).unwrap();
            assert_eq!((page.entries.len(), page.next), (count, None), "{filter:?}");
            let page = ledger.list(&local(), filter, order, None, count).unwrap();
            assert_eq!((page.entries.len(), page.next.is_some()), (count, true), "{filter:?}");
            assert_eq!(ledger.list(&local(), filter, order, page.next, 9).unwrap().entries, []);
        }
    }
    let newest = first_page(&events, 1);
    assert_eq!((newest.entries.len(), newest.next.is_some()), (1, true), "one of two, and it says so");
    assert_eq!(walk(&ledger, &events, Order::OldestFirst, 1).len(), 2);

    let waiting = |robot_id| Filter {
        robot_id,
        module: Some(name("builder")),
        state: Some(name("draft")),
        without_children: vec![name("opinion")],
        ..Filter::default()
    };
    let ids = |filter: &Filter| -> Vec<LedgerId> {
        first_page(filter, 9).entries.into_iter().map(|draft| draft.id).collect()
    };
    assert_eq!(ids(&waiting(None)), [drafts[3].clone(), drafts[2].clone(), drafts[0].clone()]);
    assert_eq!(ids(&waiting(Some(robot("r")))), [drafts[2].clone(), drafts[0].clone()]);
    let count = |robot, after| ledger.count(&local(), &waiting(robot), after).unwrap();
    assert_eq!(count(None, Seq::ZERO), 3);
    assert_eq!(count(Some(robot("r")), Seq::ZERO), 2);
    assert_eq!(count(Some(robot("busy")), Seq::ZERO), 0);
    // The drafts of a robot from the newest on, whether they have a verdict or not.
    let of_robot = Filter { robot_id: Some(robot("r")), state: Some(name("draft")), ..Filter::default() };
    let all = first_page(&of_robot, 9).entries;
    assert_eq!(all.len(), 3);
    for (newer, draft) in all.iter().enumerate() {
        assert_eq!(ledger.draft_after(&local(), &robot("r"), newer).unwrap(), Some(draft.seq));
        let after = all.iter().take(newer).filter(|draft| ids(&waiting(None)).contains(&draft.id)).count();
        assert_eq!(count(Some(robot("r")), draft.seq), after as u64);
    }
    assert_eq!(ledger.draft_after(&local(), &robot("r"), 3).unwrap(), None);

    let robots = |after: Option<&str>, limit| -> Vec<String> {
        let found = ledger.robots(&local(), after.map(robot).as_ref(), limit).unwrap();
        found.iter().map(|robot| robot.as_str().to_owned()).collect()
    };
    assert_eq!(robots(None, 9), ["busy", "q", "r"]);
    assert_eq!((robots(None, 1), robots(Some("busy"), 1)), (vec!["busy".to_owned()], vec!["q".to_owned()]));
    let (latest, has_more) = ledger.last_of_types(&local(), &robot("r"), 9).unwrap();
    let latest: Vec<(&str, u64)> =
        latest.iter().map(|entry| (entry.content.kind.as_str(), entry.seq.get())).collect();
    let expected = [("copy", 6), ("execution_event", 3), ("note", 9), ("opinion", 8), ("signal", 1)];
    assert_eq!((latest.as_slice(), has_more), (expected.as_slice(), false));
    assert!(ledger.last_of_types(&local(), &robot("r"), 4).unwrap().1, "one more type");
    let tenants = ledger.tenants().unwrap();
    assert_eq!((tenants.len(), tenants[0].tenant_id.as_str(), tenants[0].entries), (1, "local", 75));
}

fn many_classes(fixture: &dyn Fixture) {
    let place = fixture.place();
    let limits = LedgerLimits { list_classes: 4, page_scan: 10, ..LedgerLimits::default() };
    let ledger = Ledger::init(&place.location, LedgerOptions { limits, ..place.options() }).unwrap();
    let of_class = |kind: &str, state: &str| {
        append_one(&ledger, draft(&format!(
            r#"{{"robotId":"r","module":"m","source":"s","type":"{kind}","state":"{state}","payload":{{}}}}"#
        )))
        .seq
        .get()
    };
    let last = || -> (Vec<(String, u64)>, bool) {
        let (latest, has_more) = ledger.last_of_types(&local(), &robot("r"), 9).unwrap();
        let latest = latest.iter().map(|entry| (entry.content.kind.as_str().to_owned(), entry.seq.get()));
        (latest.collect(), has_more)
    };
    let (a, b, c) = ("a".to_owned(), "b".to_owned(), "c".to_owned());
    for (kind, state) in [("a", "x"), ("b", "x"), ("c", "x"), ("c", "y")] {
        of_class(kind, state);
    }
    // As many as are read are all of them.
    assert_eq!(last(), (vec![(a.clone(), 1), (b.clone(), 2), (c.clone(), 4)], false));
    of_class("d", "x");
    assert_eq!(last(), (vec![(a.clone(), 1), (b.clone(), 2), (c, 4)], true));
    // Of the type in which reading stops, a state that was not read may have the last entry.
    of_class("c", "z");
    of_class("c", "zz");
    assert_eq!(last(), (vec![(a, 1), (b, 2)], true));
    let other = r#"{"robotId":"other","module":"m","source":"s","type":"a","state":"x","payload":{}}"#;
    append(&ledger, (0..30).map(|_| draft(other)).collect());
    // A page that found none within its bound says where to search on, and nothing is missing at the end.
    let of_robot = Filter { robot_id: Some(robot("r")), ..Filter::default() };
    let page = ledger.list(&local(), &of_robot, Order::NewestFirst, None, 9).unwrap();
    assert_eq!((page.entries.len(), page.next.map(|next| next.seq().get())), (0, Some(28)));
    let seqs = |order| -> Vec<u64> {
        walk(&ledger, &of_robot, order, 3).iter().map(|entry| entry.seq.get()).collect()
    };
    assert_eq!(seqs(Order::NewestFirst), [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(seqs(Order::OldestFirst), [1, 2, 3, 4, 5, 6, 7]);
}

fn executions(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, hands) = fresh(&place);
    hands.set(1_893_456_000_000);
    let signal = append_one(&ledger, entry("signal", "{}", "")).id;
    let step = |state: &str, attempt| event("e", state, attempt, "2030-01-01T00:00:00Z", &[&signal], "");
    append(&ledger, vec![entry("idea", "{}", r#""lineage":{"executionId":"e"}"#), step("planned", 1)]);
    append(&ledger, vec![step("running", 1), step("failed", 1), step("running", 2)]);
    let of_execution = Filter { execution_id: Some(ExecutionId::parse("e").unwrap()), ..Filter::default() };
    assert_eq!(walk(&ledger, &of_execution, Order::OldestFirst, 3).len(), 5);
    let events = Filter { kind: Some(name("execution_event")), ..of_execution };
    let states: Vec<String> = walk(&ledger, &events, Order::OldestFirst, 2)
        .iter()
        .map(|event| event.content.state.as_str().to_owned())
        .collect();
    assert_eq!(states, ["planned", "running", "failed", "running"]);
}

fn short_ids(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, hands) = fresh(&place);
    let all = varied(&ledger, &hands, 11, 300);
    let ids: Vec<&str> = all.iter().map(|entry| entry.id.as_str()).collect();
    let short = ledger.short_ids(&local(), IdKind::Entry, &ids).unwrap();
    for (id, short) in ids.iter().zip(&short) {
        assert!(id.starts_with(short.as_str()) && short.len() >= 7);
        assert_eq!(ids.iter().filter(|other| other.starts_with(short.as_str())).count(), 1, "{short}");
        assert_eq!(ledger.id_of(&local(), IdKind::Entry, short).unwrap().as_deref(), Some(*id));
        assert_eq!(ledger.id_of(&local(), IdKind::Entry, id).unwrap().as_deref(), Some(*id));
    }
    let common = ids[0].get(..4).unwrap();
    let error = ledger.id_of(&local(), IdKind::Entry, common).unwrap_err();
    assert_eq!(error.code(), "ambiguous_id");
    assert!(error.to_string().ends_with("and 292 more"), "{error}");
    for word in ["", "x", "\u{10ffff}", &format!("{}0", ids[0])] {
        assert_eq!(ledger.id_of(&local(), IdKind::Entry, word).unwrap(), None, "{word}");
    }
    let signal = append_one(&ledger, entry("signal", "{}", "")).id;
    for execution in ["run-1", "run-10", "run-11", "other"] {
        append_one(&ledger, event(execution, "planned", 1, "1970-01-01T00:16:40.099Z", &[&signal], ""));
    }
    let id_of = |word: &str| ledger.id_of(&local(), IdKind::Execution, word).map(Option::unwrap_or_default);
    assert_eq!(id_of("run-1").unwrap(), "run-1");
    assert_eq!(id_of("o").unwrap(), "other");
    assert!(id_of("run").unwrap_err().to_string().ends_with("run-1, run-10, run-11"));
    let short = ledger.short_ids(&local(), IdKind::Execution, &["run-10", "run-1", "other"]).unwrap();
    assert_eq!(short, ["run-10", "run-1", "other"]);
    let other = TenantId::parse("other").unwrap();
    assert_eq!(ledger.id_of(&other, IdKind::Entry, ids[0]).unwrap(), None);
}

fn lineage(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let on = |ids: &[&LedgerId]| {
        let ids: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
        entry("a", "{}", &format!(r#""lineage":{{"dependsOnLedgerIds":[{}]}}"#, ids.join(",")))
    };
    let a = append_one(&ledger, on(&[])).id;
    let b = append_one(&ledger, on(&[&a])).id;
    let c = append_one(&ledger, on(&[&a])).id;
    let d = append_one(&ledger, on(&[&b, &c])).id;
    let e = append_one(&ledger, on(&[&d, &a])).id;
    let found = |id: &LedgerId, direction, depth| {
        let lineage = ledger.lineage(&local(), id, direction, depth).unwrap().unwrap();
        let entries =
            lineage.entries.iter().map(|near| (near.distance, near.entry.id.clone())).collect::<Vec<_>>();
        (entries, lineage.is_cut)
    };
    let near = |distance: usize, id: &LedgerId| (distance, id.clone());
    assert_eq!(
        found(&e, Direction::Up, 9),
        (vec![near(1, &a), near(1, &d), near(2, &b), near(2, &c)], false)
    );
    assert_eq!(found(&e, Direction::Up, 1), (vec![near(1, &a), near(1, &d)], true));
    assert_eq!(
        found(&a, Direction::Down, 9),
        (vec![near(1, &b), near(1, &c), near(1, &e), near(2, &d)], false)
    );
    assert_eq!(found(&a, Direction::Down, 1), (vec![near(1, &b), near(1, &c), near(1, &e)], true));
    assert_eq!(found(&a, Direction::Up, 9), (vec![], false));
    assert!(ledger.lineage(&local(), &LedgerId::parse("x").unwrap(), Direction::Up, 1).unwrap().is_none());
    assert_eq!(ledger.lineage(&local(), &a, Direction::Up, 65).unwrap_err().code(), "ledger_limit");
}

fn lineage_at_its_limit(fixture: &dyn Fixture) {
    let place = fixture.place();
    let on = |ids: &[&LedgerId]| {
        let ids: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
        entry("a", "{}", &format!(r#""lineage":{{"dependsOnLedgerIds":[{}]}}"#, ids.join(",")))
    };
    for limit in [3, 4, 5] {
        let limits = LedgerLimits { lineage_entries: limit, ..LedgerLimits::default() };
        let options = LedgerOptions { limits, ..place.options() };
        let opened = Ledger::open(&place.location, options.clone());
        let ledger = opened.or_else(|_| Ledger::init(&place.location, options)).unwrap();
        let first = append_one(&ledger, on(&[])).id;
        let second = append_one(&ledger, on(&[&first])).id;
        let third = append_one(&ledger, on(&[&first, &second])).id;
        let fourth = append_one(&ledger, on(&[&first, &second])).id;
        // The only one that the first level does not have stands behind those that it has.
        let last = append_one(&ledger, on(&[&second])).id;
        let lineage = ledger.lineage(&local(), &first, Direction::Down, 9).unwrap().unwrap();
        let found: Vec<LedgerId> = lineage.entries.iter().map(|near| near.entry.id.clone()).collect();
        let all = [second, third, fourth, last];
        assert_eq!(found, all[..limit.min(4)], "limit {limit}");
        assert_eq!(lineage.is_cut, limit < 4, "limit {limit}");
    }
}

fn stray_edge(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let first = append_one(&ledger, entry("a", "{}", "")).id;
    append_one(&ledger, entry("a", "{}", &format!(r#""lineage":{{"dependsOnLedgerIds":["{first}"]}}"#)));
    fixture.tamper(&place, "UPDATE edges SET child = -1").unwrap();
    let found = ledger.lineage(&local(), &first, Direction::Down, 3);
    assert_eq!(found.unwrap_err().code(), "ledger_damaged");
}

/// The facts that the ledger reads from its indexes must be those that the definition gathers from the whole list.
fn facts(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, hands) = fresh(&place);
    let all = varied(&ledger, &hands, 3, 150);
    let entries: Vec<Entry> = all.iter().map(StoredEntry::to_entry).collect();
    let rules = [
        CoherenceRules::default(),
        CoherenceRules {
            uncounted_states: vec!["final".to_owned(), "draft".to_owned()],
            ..CoherenceRules::default()
        },
        CoherenceRules { uncounted_states: Vec::new(), ..CoherenceRules::default() },
    ];
    let (mut derived, mut late) = (0, 0);
    for robot_id in [robot("r"), robot("q"), robot("nobody")] {
        for rules in &rules {
            for at in [
                None,
                Some(0),
                Some(1_000_000),
                Some(1_000_007),
                Some(1_000_025),
                Some(1_000_049),
                Some(9_000_000),
            ] {
                let at = at.map(|at| Millis::new(at).instant());
                let tenant = local();
                let derivation = Derivation::EffectiveTime;
                let mut question = Question { tenant_id: Some(&tenant), robot_id: &robot_id, at, derivation };
                let expected = SnapshotFacts::from_entries(&entries, &question, rules);
                let found = ledger.facts(&local(), &robot_id, at, rules).unwrap().unwrap();
                assert_eq!(found, expected, "{robot_id} at {at:?}");
                // As records of earlier versions knew it: up to a place, by arrival.
                question.derivation = Derivation::Arrival;
                let up_to =
                    entries.iter().rfind(|entry| at.is_none_or(|at| entry.created_at.instant() <= at));
                let up_to = Seq::new(up_to.map_or(0, |entry| entry.seq.unwrap().get()));
                let by_arrival = SnapshotFacts::from_entries(&entries, &question, rules);
                let read = ledger.facts_up_to(&local(), &robot_id, up_to, rules, question.derivation);
                assert_eq!(read.unwrap().unwrap().0, by_arrival, "{robot_id} at {at:?}, by arrival");
                late += usize::from(by_arrival != expected);
                let newest = ledger.view(&local(), |view| view.newest(&robot_id, up_to, rules));
                assert_eq!(newest.unwrap().unwrap(), expected.newest, "{robot_id} at {at:?}, newest alone");
                let texts = [found, expected]
                    .map(|facts| Snapshot::derive(facts, rules).map(|it| it.document().unwrap()));
                assert_eq!(texts[0], texts[1]);
                derived += usize::from(texts[0].is_some());
            }
        }
    }
    assert!(derived > 20 && late > 10, "{derived} {late}");
    assert!(ledger.audit(&local()).unwrap().is_none());
}

fn watch(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let mut ours = ledger.watch(&local());
    // A new follower is woken once, for writes of others before it listened.
    while ours.wait(Duration::from_millis(500)) {}
    append_one(&ledger, entry("a", "{}", ""));
    assert!(ours.wait(Duration::from_secs(60)));
    // Another handle acts as another process: it shares nothing with this one except the database.
    let other = place.open();
    let mut theirs = other.watch(&local());
    while theirs.wait(Duration::from_millis(500)) {}
    append_one(&ledger, entry("a", "{}", ""));
    assert!(theirs.wait(Duration::from_secs(60)));
    while ours.wait(Duration::from_millis(500)) {}
    drop(ledger);
    drop(other);
    assert!(!ours.wait(Duration::from_secs(60)), "a closed ledger lets its followers go");
}

fn empty(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 0);
    assert!(walk(&ledger, &Filter::default(), Order::NewestFirst, 5).is_empty());
    assert!(ledger.stats(&local()).unwrap().is_none());
    assert!(ledger.facts(&local(), &robot("r"), None, &CoherenceRules::default()).unwrap().is_none());
    assert!(ledger.newest(&local(), &robot("r"), &CoherenceRules::default()).unwrap().is_none());
    assert!(ledger.audit(&local()).unwrap().is_none());
}
