//! Many at once: identical requests are one run for all, in one process and in several; a holder that dies or sleeps is
//! replaced, and what it comes back with too late is not written.

use std::sync::Barrier;

use crealeph_contracts::BuilderResponse;
use crealeph_contracts::contract::to_json;
use crealeph_ledger::Ledger;
use crealeph_runtime::builder::Builder;
use crealeph_sandbox::Cancel;

use crate::world::{ALL, Place, builder, options, request, tenant, world};

/// Runs the requests at once, each by its own thread, spread over the builders.
fn at_once(builders: &[&Builder], requests: &[String]) -> Vec<BuilderResponse> {
    let barrier = Barrier::new(requests.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(number, text)| {
                let (barrier, builder) = (&barrier, builders[number % builders.len()]);
                scope.spawn(move || {
                    let cancel = Cancel::new().unwrap();
                    barrier.wait();
                    builder.run(&tenant(), text.as_bytes(), None, &cancel).unwrap().response
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn equal_answers(answers: Vec<BuilderResponse>) {
    let texts: std::collections::BTreeSet<String> =
        answers.into_iter().map(|answer| to_json(&BuilderResponse { idempotent: false, ..answer })).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
}

pub(crate) fn a_hundred_identical_requests_are_one_run(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    equal_answers(at_once(&[&world.builder], &vec![request("e", "block", false, 1); 100]));
    assert_eq!(world.calls(), 1);
    assert_eq!(world.of("e").iter().filter(|entry| entry.content.is_event()).count(), 1);
    assert_eq!(world.of("e").len(), 5);
}

pub(crate) fn builders_that_share_nothing_but_the_ledger_are_joined(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let others: Vec<Builder> = (0..4)
        .map(|_| {
            builder(
                &Ledger::open(&world.location, options(&world.hands, world.folder.path())).unwrap(),
                &world.agent,
            )
        })
        .collect();
    let builders: Vec<&Builder> = others.iter().collect();
    for (execution, dry_run) in [("dry", true), ("planned", false)] {
        equal_answers(at_once(&builders, &vec![request(execution, "block", dry_run, 1); 40]));
        assert_eq!(world.of(execution).iter().filter(|entry| entry.content.is_event()).count(), 1);
        assert_eq!(world.of(execution).len(), 5, "{}", world.left(execution));
    }
    assert_eq!(world.calls(), 2, "one for each execution");
    assert!(world.ledger.audit(&tenant()).unwrap().is_none());
}

pub(crate) fn a_hundred_different_requests_are_a_hundred_runs(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let requests: Vec<String> =
        (0..100).map(|number| request(&format!("e-{number}"), "block", true, 1)).collect();
    let answers = at_once(&[&world.builder], &requests);
    assert!(answers.iter().all(|answer| answer.ok));
    assert_eq!(world.calls(), 100);
    for number in 0..100 {
        assert_eq!(world.of(&format!("e-{number}")).len(), 5);
    }
    assert!(world.ledger.audit(&tenant()).unwrap().is_none());
}
