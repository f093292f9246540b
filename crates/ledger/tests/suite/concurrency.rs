//! Many writers at once: one identity, one entry, and every caller gets the right answer.

use super::{Case, Fixture, append_one, entry, event, local, tenant};
use crealeph_ledger::{AppendedEntry, Filter, Order};
use std::collections::BTreeSet;
use std::sync::Barrier;

pub(super) const CASES: &[Case] = &[
    ("64 writers race on one event identity", one_event),
    ("64 writers race with different contents", one_winner),
    ("writers of several handles and tenants take turns", many_handles),
    ("an answer can be awaited", awaited),
];

const WRITERS: usize = 64;

// holds: invariant 9

fn one_event(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let signal = append_one(&ledger, entry("signal", "{}", ""));
    let handles: Vec<_> = (0..4).map(|_| place.open()).collect();
    let barrier = Barrier::new(WRITERS);
    let answers: Vec<AppendedEntry> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (ledger, barrier, signal) = (&handles[number % handles.len()], &barrier, &signal);
                scope.spawn(move || {
                    let at = signal.created_at.to_string();
                    let one = event("e", "planned", 1, &at, &[&signal.id], "");
                    barrier.wait();
                    append_one(ledger, one)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| !answer.is_repeat).count(), 1);
    assert_eq!(answers.iter().map(|answer| &answer.id).collect::<BTreeSet<_>>().len(), 1);
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 2);
    assert_eq!(ledger.audit(&local()).unwrap(), None);
}

fn one_winner(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let handles: Vec<_> = (0..4).map(|_| place.open()).collect();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|number| {
                let ledger = &handles[number % handles.len()];
                let one = entry("a", &format!("{{\"n\":{number}}}"), r#""key":"k""#);
                scope.spawn(move || ledger.append(&local(), vec![one]))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<_> = outcomes.iter().flatten().collect();
    assert_eq!(winners.len(), 1);
    let losers = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert!(losers.clone().all(|error| error.code() == "IDEMPOTENCY_CONFLICT"));
    assert!(losers.clone().all(|error| error.to_string().contains(winners[0][0].id.as_str())));
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 1);
}

fn many_handles(fixture: &dyn Fixture) {
    let place = fixture.place();
    drop(place.init());
    let handles: Vec<_> = (0..3).map(|_| place.open()).collect();
    let tenants = [tenant("one"), tenant("two"), tenant("three")];
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (ledger, tenants) = (&handles[number % handles.len()], &tenants);
            scope.spawn(move || {
                for round in 0..10 {
                    let batch =
                        vec![entry("a", &format!("{{\"n\":[{number},{round}]}}"), ""), entry("b", "{}", "")];
                    let made = ledger.append(&tenants[number % 3], batch).unwrap();
                    assert_eq!(made[1].seq.get(), made[0].seq.get() + 1, "a batch stays together");
                }
            });
        }
    });
    for tenant in &tenants {
        let ledger = place.open();
        let page = ledger.list(tenant, &Filter::default(), Order::OldestFirst, None, 1_000).unwrap();
        let seqs: Vec<u64> = page.entries.iter().map(|entry| entry.seq.get()).collect();
        assert_eq!(seqs, (1..=160).collect::<Vec<_>>());
        assert!(page.entries.is_sorted_by_key(|entry| entry.created_at));
        assert_eq!(ledger.audit(tenant).unwrap(), None);
    }
}

fn awaited(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let pending: Vec<_> = (0..20)
        .map(|n| ledger.submit(&local(), vec![entry("a", &format!("{{\"n\":{n}}}"), "")]).unwrap())
        .collect();
    let seqs: BTreeSet<u64> = pending.into_iter().map(|one| block_on(one).unwrap()[0].seq.get()).collect();
    assert_eq!(seqs, (1..=20).collect());
}

/// The smallest executor there is: parks the thread until the task is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
