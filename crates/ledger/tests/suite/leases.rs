//! Leases: one holder at a time, tokens that only grow, and nothing written by a holder that lost its lease.

use super::{Case, Fixture, Place, append_one, entry, local, tenant};
use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{ClientKey, ExecutionId, LedgerId, Name, RobotId, TenantId};
use crealeph_ledger::{
    AppendError, AppendResult, EntryRefusal, Lease, LeaseClaim, LeaseHolder, Ledger, LedgerError, MAX_LEASE,
    NewId, RequestName, Seq,
};
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    ("a lease has one holder, and may be taken once it is released", one_holder),
    ("64 takers, one lease", race),
    ("a lease is not given for work that was done since it was looked at", overtaken),
    ("a dead holder's lease runs out, and what it writes late is refused", expiry),
    ("an append under a lease may release it, and a refused one does not", release_with_append),
    ("a heartbeat keeps a lease", heartbeat),
    ("tenants do not see each other's leases", tenants),
    ("the same work asked for many times is done once", joined),
    ("work whose holder died is done by another", taken_over),
    ("leases leave no trace in the log", no_trace),
];

/// Long enough for any machine.
const LONG: Duration = Duration::from_secs(3_600);
/// Expired before anyone can ask twice; later steps wait until it really is.
const SHORT: Duration = Duration::from_millis(20);
/// A guard against waiting forever.
const PATIENCE: Duration = Duration::from_secs(60);

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn claim(ledger: &Ledger, tenant: &TenantId, holder: &str, ttl: Duration) -> LeaseClaim {
    ledger.take_lease(tenant, &name("work"), &name(holder), ttl).unwrap()
}

fn take(ledger: &Ledger, holder: &str, ttl: Duration) -> Lease {
    match claim(ledger, &local(), holder, ttl) {
        LeaseClaim::Taken(lease) => lease,
        LeaseClaim::Held(holder) => panic!("held by {holder:?}"),
    }
}

fn held(ledger: &Ledger, by: &str) -> LeaseHolder {
    match claim(ledger, &local(), by, LONG) {
        LeaseClaim::Held(holder) => holder,
        LeaseClaim::Taken(lease) => panic!("taken: {lease:?}"),
    }
}

/// Appends and releases the lease in one transaction, as the outcome of a request is written.
fn append_and_release(ledger: &Ledger, lease: &Lease, batch: Vec<(Option<NewId>, Draft)>) -> AppendResult {
    let (robot_id, execution_id) = (RobotId::parse("r").unwrap(), ExecutionId::parse("e").unwrap());
    ledger.append_outcome(&local(), &RequestName { robot_id, execution_id }, Some(lease), batch)
}

/// Requests the lease until it is free.
fn take_in_the_end(ledger: &Ledger, holder: &str) -> Lease {
    let mut watch = ledger.watch(&local());
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match claim(ledger, &local(), holder, LONG) {
            LeaseClaim::Taken(lease) => return lease,
            LeaseClaim::Held(holder) => watch.wait(holder.remaining),
        };
    }
    panic!("the lease never became free");
}

fn own(drafts: Vec<Draft>) -> Vec<(Option<NewId>, Draft)> {
    drafts.into_iter().map(|draft| (None, draft)).collect()
}

fn is_lost(outcome: &Result<(), LedgerError>, holder: Option<&str>) -> bool {
    matches!(outcome, Err(LedgerError::LeaseLost { name, holder: now }) if name == "work" && now.as_deref() == holder)
}

fn appended_under(outcome: AppendResult) -> Result<(), LedgerError> {
    match outcome {
        Ok(_) => Ok(()),
        Err(AppendError::Ledger(error)) => Err(error),
        Err(refused) => panic!("{refused}"),
    }
}

fn one_holder(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, other) = (place.init(), place.open());
    let lease = take(&ledger, "first", LONG);
    let holder = held(&other, "second");
    assert_eq!((holder.holder.as_str(), holder.token), ("first", lease.token()));
    assert!(holder.remaining <= LONG && holder.remaining > LONG / 2);
    assert_eq!(held(&ledger, "first").token, lease.token(), "asking again does not share it");
    ledger.renew_lease(&lease).unwrap();
    assert!(held(&other, "second").until >= holder.until);
    ledger.release_lease(&lease).unwrap();
    assert_eq!(other.lease_holder(&local(), &name("work")).unwrap(), None);
    let next = take(&other, "second", LONG);
    assert!(next.token() > lease.token());
    // A holder that released it can neither renew it nor take it from the next one.
    assert!(is_lost(&ledger.renew_lease(&lease), Some("second")));
    ledger.release_lease(&lease).unwrap();
    assert_eq!(held(&ledger, "third").token, next.token());
    for ttl in [Duration::ZERO, MAX_LEASE + Duration::from_millis(1)] {
        let refused = ledger.take_lease(&local(), &name("other work"), &name("x"), ttl);
        assert!(matches!(refused, Err(LedgerError::Beyond { .. })), "{refused:?}");
    }
}

fn overtaken(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let done = ExecutionId::parse("done").unwrap();
    let ask = |after: Seq| {
        ledger.take_lease_unless(&local(), &name("work"), &name("x"), LONG, (&done, after)).unwrap()
    };
    let Some(LeaseClaim::Taken(first)) = ask(Seq::ZERO) else { panic!("there is no log yet") };
    assert!(matches!(ask(Seq::ZERO), Some(LeaseClaim::Held(_))));
    let result = |execution: &str| entry("a", "{}", &format!(r#""lineage":{{"executionId":"{execution}"}}"#));
    append_one(&ledger, result("another"));
    append_and_release(&ledger, &first, own(vec![result("done")])).unwrap();
    assert!(ask(Seq::ZERO).is_none() && ask(Seq::new(1).unwrap()).is_none());
    assert_eq!(ledger.lease_holder(&local(), &name("work")).unwrap(), None, "nothing was taken");
    assert!(matches!(ask(Seq::new(2).unwrap()), Some(LeaseClaim::Taken(_))), "that was seen already");
}

fn race(fixture: &dyn Fixture) {
    let place = fixture.place();
    drop(place.init());
    let handles: Vec<Ledger> = (0..4).map(|_| place.open()).collect();
    let barrier = Barrier::new(64);
    let taken: Vec<Lease> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64)
            .map(|number| {
                let (ledger, barrier) = (&handles[number % handles.len()], &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    match claim(ledger, &local(), &format!("holder {number}"), LONG) {
                        LeaseClaim::Taken(lease) => Some(lease),
                        LeaseClaim::Held(_) => None,
                    }
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(taken.len(), 1, "{taken:?}");
}

fn expiry(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, other) = (place.init(), place.open());
    let dead = take(&ledger, "dead", SHORT);
    let next = take_in_the_end(&other, "alive");
    assert!(next.token() > dead.token());
    let late = ledger.append_under(&dead, own(vec![entry("a", "{}", r#""key":"late""#)]));
    assert!(is_lost(&appended_under(late), Some("alive")));
    assert!(is_lost(&ledger.renew_lease(&dead), Some("alive")));
    other.append_under(&next, own(vec![entry("a", "{}", r#""key":"in time""#)])).unwrap();
    other.release_lease(&next).unwrap();
    let late = append_and_release(&ledger, &dead, own(vec![entry("a", "{}", r#""key":"late""#)]));
    assert!(is_lost(&appended_under(late), None));
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 1, "what came late is not there");
    // An expired lease that no one took still belongs to its holder.
    let slow = take(&ledger, "slow", SHORT);
    let start = Instant::now();
    while ledger.lease_holder(&local(), &name("work")).unwrap().is_some() && start.elapsed() < PATIENCE {
        std::thread::sleep(SHORT);
    }
    ledger.append_under(&slow, own(vec![entry("a", "{}", "")])).unwrap();
    ledger.renew_lease(&slow).unwrap();
}

// holds: invariant 11

fn release_with_append(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let lease = take(&ledger, "first", LONG);
    let unknown = entry("a", "{}", r#""lineage":{"dependsOnLedgerIds":["key:nothing"]}"#);
    let refused = append_and_release(&ledger, &lease, own(vec![unknown]));
    let is_refused = matches!(
        refused,
        Err(AppendError::Refused { position: 0, refusal: EntryRefusal::UnknownLineage(_) })
    );
    assert!(is_refused, "{refused:?}");
    assert_eq!(held(&ledger, "second").token, lease.token(), "nothing was written, so it is held as before");
    let keyed = || own(vec![entry("a", "{}", r#""key":"k""#)]);
    assert!(!append_and_release(&ledger, &lease, keyed()).unwrap()[0].is_repeat);
    let second = take(&ledger, "second", LONG);
    // Other batches in the same commit are not touched by one whose lease is lost.
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (ledger, barrier, lease, second) = (&ledger, &barrier, &lease, &second);
            scope.spawn(move || {
                let batch = own(vec![entry("a", &format!("{{\"n\":{number}}}"), "")]);
                barrier.wait();
                match number % 4 {
                    0 => assert!(is_lost(&appended_under(ledger.append_under(lease, batch)), Some("second"))),
                    1 => drop(ledger.append_under(second, batch).unwrap()),
                    _ => drop(ledger.append_as(&local(), batch).unwrap()),
                }
            });
        }
    });
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 7);
    assert!(append_and_release(&ledger, &second, keyed()).unwrap()[0].is_repeat);
    assert_eq!(ledger.lease_holder(&local(), &name("work")).unwrap(), None, "a repeat releases it as well");
    assert_eq!(ledger.audit(&local()).unwrap(), None);
}

fn heartbeat(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, other) = (place.init(), place.open());
    let lease = take(&ledger, "first", Duration::from_secs(8));
    let heart = ledger.keep_lease(&lease).unwrap();
    let mut ends = BTreeSet::new();
    let start = Instant::now();
    while ends.len() < 3 && start.elapsed() < PATIENCE {
        let holder = other.lease_holder(&local(), &name("work")).unwrap();
        assert!(holder.is_some(), "it ended before it was renewed");
        ends.extend(holder.filter(|holder| holder.token == lease.token()).map(|holder| holder.until.get()));
        std::thread::sleep(SHORT);
    }
    assert_eq!(ends.len(), 3, "it was not renewed");
    assert!(!heart.is_lost());
    ledger.release_lease(&lease).unwrap();
    let _next = take(&other, "second", LONG);
    let start = Instant::now();
    while !heart.is_lost() && start.elapsed() < PATIENCE {
        std::thread::sleep(SHORT);
    }
    assert!(heart.is_lost(), "its holder notices");
    drop(heart);
    assert_eq!(held(&ledger, "x").holder.as_str(), "second", "nobody else's lease is renewed");
}

// holds: invariant 10

fn tenants(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let lease = take(&ledger, "first", LONG);
    let LeaseClaim::Taken(theirs) = claim(&ledger, &tenant("other"), "theirs", LONG) else {
        panic!("another tenant's lease is in the way");
    };
    assert_eq!(theirs.token(), lease.token(), "not even the count of leases shows");
    ledger.release_lease(&theirs).unwrap();
    assert_eq!(held(&ledger, "x").token, lease.token());
}

/// What a Builder does with identical requests in several processes: the record is the answer, the holder of the lease
/// makes it, everyone else waits. Returns the record's id.
fn ask(place: &Place, who: usize, done: &AtomicUsize) -> LedgerId {
    let ledger = place.open();
    let key = ClientKey::parse("execution_record:e").unwrap();
    let mut watch = ledger.watch(&local());
    loop {
        if let Some(record) = ledger.get_by_key(&local(), &key).unwrap() {
            return record.id;
        }
        match claim(&ledger, &local(), &format!("process {who}"), LONG) {
            LeaseClaim::Held(holder) => drop(watch.wait(holder.remaining)),
            LeaseClaim::Taken(lease) => {
                if ledger.get_by_key(&local(), &key).unwrap().is_some() {
                    ledger.release_lease(&lease).unwrap();
                    continue;
                }
                let _heart = ledger.keep_lease(&lease).unwrap();
                done.fetch_add(1, Ordering::SeqCst);
                let record = entry("execution_record", "{}", r#""key":"execution_record:e""#);
                return append_and_release(&ledger, &lease, own(vec![record])).unwrap().remove(0).id;
            }
        }
    }
}

fn ask_all(place: &Place) -> (BTreeSet<String>, usize) {
    let done = AtomicUsize::new(0);
    let answers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|who| {
                scope.spawn({
                    let done = &done;
                    move || ask(place, who, done)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap().as_str().to_owned()).collect()
    });
    (answers, done.into_inner())
}

fn joined(fixture: &dyn Fixture) {
    let place = fixture.place();
    drop(place.init());
    let (answers, done) = ask_all(&place);
    assert_eq!((answers.len(), done), (1, 1), "everyone has the one answer, and the work was done once");
}

fn taken_over(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let _dead = take(&ledger, "dead", SHORT);
    let (answers, done) = ask_all(&place);
    assert_eq!((answers.len(), done), (1, 1));
}

fn no_trace(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    append_one(&ledger, entry("a", "{}", ""));
    let export = || {
        let mut bytes = Vec::new();
        ledger.export(&local(), &mut bytes).unwrap();
        bytes
    };
    let before = export();
    let lease = take(&ledger, "first", LONG);
    ledger.renew_lease(&lease).unwrap();
    assert_eq!(export(), before);
    ledger.release_lease(&lease).unwrap();
    assert_eq!((export(), ledger.audit(&local()).unwrap()), (before, None));
}
