//! Accepted requests: durable from the answer on, one per execution, removed with their outcome, and worked on by one at a time.

use super::{Case, Fixture, append_one, entry, local, tenant};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::{ExecutionId, Name, RobotId, TenantId};
use crealeph_ledger::{
    Acceptance, AcceptanceLimits, AcceptedRequest, AppendError, Cancellation, Lease, LeaseClaim, Ledger,
    LedgerError, Membership, Millis, RequestName, RequestOutcome, RequestToAccept, ServerProcess,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    ("a request is accepted once, however many ask", accepted_once),
    ("the outcome and the end of a request are one step", settled),
    ("a process that lost its lease settles nothing", fenced),
    ("work is found in order, tenant by tenant, and not twice", found),
    ("a request that nobody took up can be cancelled", cancelled),
    ("accepted requests are bounded", bounded),
    ("an outcome that the log does not have is kept for a while", kept),
    ("a ledger of the version before gets the new tables", migrated),
    ("processes of another digest are kept out, or replace the others", processes),
];

const LIMITS: AcceptanceLimits = AcceptanceLimits { per_tenant: 100, total: 100, keep_ms: 60_000 };
const LONG: Duration = Duration::from_secs(3_600);

fn named(execution: &str) -> RequestName {
    let execution_id = ExecutionId::parse(execution).unwrap();
    RequestName { robot_id: RobotId::parse("r").unwrap(), execution_id }
}

fn request(execution: &str, document: &str) -> RequestToAccept {
    RequestToAccept {
        name: named(execution),
        attempt: 1,
        fingerprint: Blake3::of(document.as_bytes()),
        document: document.to_owned(),
        rerun_of: Some(ExecutionId::parse("first").unwrap()),
        key_id: None,
        lease: lease_name(execution),
    }
}

fn lease_name(execution: &str) -> Name {
    Name::parse(&format!("work on {execution}")).unwrap()
}

fn accept_of(ledger: &Ledger, tenant: &TenantId, execution: &str) -> AcceptedRequest {
    match ledger.accept_request(tenant, request(execution, execution), LIMITS).unwrap() {
        Acceptance::Accepted(accepted) => accepted,
        other => panic!("{other:?}"),
    }
}

fn accept(ledger: &Ledger, execution: &str) -> AcceptedRequest {
    accept_of(ledger, &local(), execution)
}

fn hold(ledger: &Ledger, execution: &str, ttl: Duration) -> Lease {
    let holder = Name::parse("holder").unwrap();
    loop {
        match ledger.take_lease(&local(), &lease_name(execution), &holder, ttl).unwrap() {
            LeaseClaim::Taken(lease) => return lease,
            LeaseClaim::Held(holder) => std::thread::sleep(holder.remaining),
        }
    }
}

fn open(ledger: &Ledger) -> Vec<String> {
    let found = ledger.open_requests(&local(), None, None, 100).unwrap();
    found.iter().map(|request| request.name.execution_id.to_string()).collect()
}

fn accepted_once(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, other) = (place.init(), place.open());
    let won = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (ledger, won) = (if number % 2 == 0 { &ledger } else { &other }, &won);
            scope.spawn(move || {
                match ledger.accept_request(&local(), request("e", "same"), LIMITS).unwrap() {
                    Acceptance::Accepted(_) => _ = won.fetch_add(1, Ordering::SeqCst),
                    Acceptance::Joined(found) => assert_eq!(found.fingerprint, Blake3::of(b"same")),
                    other => panic!("{other:?}"),
                }
            });
        }
    });
    assert_eq!(won.into_inner(), 1);
    let conflict = other.accept_request(&local(), request("e", "another"), LIMITS).unwrap();
    assert!(matches!(conflict, Acceptance::Conflict(_)), "{conflict:?}");
    drop((ledger, other));
    let ledger = place.open();
    let found = ledger.waiting_request(&local(), None).unwrap().unwrap();
    assert_eq!((found.document.as_str(), found.rerun_of.unwrap().as_str()), ("same", "first"));
    assert_eq!(ledger.accepted_request(&tenant("other"), &named("e")).unwrap(), None);
    assert_eq!(ledger.open_requests(&tenant("other"), None, None, 10).unwrap(), []);
    let robot = RobotId::parse("q").unwrap();
    assert_eq!(ledger.open_requests(&local(), Some(&robot), None, 10).unwrap(), []);
}

fn settled(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let first = append_one(&ledger, entry("signal", "{}", r#""key":"taken""#));
    accept(&ledger, "e");
    accept(&ledger, "f");
    let lease = hold(&ledger, "e", LONG);
    // A refused append leaves request and lease as they were.
    let refused = vec![(None, entry("signal", r#"{"n":1}"#, r#""key":"taken""#))];
    let refused = ledger.append_outcome(&local(), &named("e"), Some(&lease), refused);
    assert!(matches!(refused, Err(AppendError::Refused { .. })), "{refused:?}");
    assert_eq!(open(&ledger), ["e", "f"]);
    let outcome = vec![(None, entry("signal", "{}", ""))];
    let written = ledger.append_outcome(&local(), &named("e"), Some(&lease), outcome).unwrap();
    assert!(written[0].seq > first.seq);
    assert_eq!(open(&ledger), ["f"]);
    assert_eq!(ledger.lease_holder(&local(), lease.name()).unwrap(), None);
    // Also without a lease, and without a request.
    for _ in 0..2 {
        let outcome = vec![(None, entry("signal", "{}", ""))];
        ledger.append_outcome(&local(), &named("f"), None, outcome).unwrap();
    }
    assert!(open(&ledger).is_empty());
    assert_eq!(ledger.audit(&local()).unwrap(), None);
}

fn fenced(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, other) = (place.init(), place.open());
    append_one(&ledger, entry("signal", "{}", ""));
    accept(&ledger, "e");
    let lost = hold(&ledger, "e", Duration::from_millis(20));
    let current = hold(&other, "e", LONG);
    let outcome = || vec![(None, entry("signal", "{}", ""))];
    let late = ledger.append_outcome(&local(), &named("e"), Some(&lost), outcome());
    assert!(matches!(late, Err(AppendError::Ledger(LedgerError::LeaseLost { .. }))), "{late:?}");
    assert_eq!(open(&ledger), ["e"]);
    assert_eq!(ledger.stats(&local()).unwrap().unwrap().entries, 1);
    other.append_outcome(&local(), &named("e"), Some(&current), outcome()).unwrap();
    assert!(open(&ledger).is_empty());
}

fn found(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let beginning = Millis::new(0);
    assert_eq!(ledger.tenant_with_work(None, beginning).unwrap(), None);
    for execution in ["b", "a"] {
        accept(&ledger, execution);
    }
    accept_of(&ledger, &tenant("other"), "c");
    let next = |after: Option<&TenantId>| ledger.tenant_with_work(after, beginning).unwrap();
    assert_eq!(next(None), Some(local()));
    assert_eq!(next(Some(&local())), Some(tenant("other")));
    assert_eq!(next(Some(&tenant("other"))), None);
    let first = ledger.waiting_request(&local(), None).unwrap().unwrap().request;
    assert_eq!(first.name, named("b"), "the one that was accepted first");
    let second = ledger.waiting_request(&local(), Some(first.number)).unwrap().unwrap().request;
    assert_eq!(second.name, named("a"));
    assert_eq!(ledger.waiting_request(&local(), Some(second.number)).unwrap(), None);
    // A request that a process works on does not wait, until that ends.
    let lease = hold(&ledger, "b", LONG);
    assert_eq!(ledger.waiting_request(&local(), None).unwrap().unwrap().request.name, named("a"));
    assert_eq!(ledger.take_up_request(&local(), &first).unwrap(), Some(1));
    let shown = ledger.accepted_request(&local(), &named("b")).unwrap().unwrap();
    assert_eq!((shown.tries, shown.is_held, shown.is_open()), (1, true, true));
    let held = hold(&ledger, "a", LONG);
    assert_eq!(next(None), Some(tenant("other")));
    ledger.release_lease(&lease).unwrap();
    ledger.give_back_request(&local(), &first).unwrap();
    let again = ledger.waiting_request(&local(), None).unwrap().unwrap().request;
    assert_eq!((again.name, again.tries), (named("b"), 0));
    ledger.release_lease(&held).unwrap();
}

fn cancelled(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let cancel = |execution: &str| ledger.cancel_request(&local(), &named(execution)).unwrap();
    assert_eq!(cancel("none"), Cancellation::Unknown);
    let started = accept(&ledger, "started");
    ledger.take_up_request(&local(), &started).unwrap();
    assert_eq!(cancel("started"), Cancellation::Started);
    let waiting = accept(&ledger, "waiting");
    assert_eq!(cancel("waiting"), Cancellation::Cancelled);
    assert_eq!(ledger.take_up_request(&local(), &waiting).unwrap(), None, "it is not there any more");
    assert_eq!(open(&ledger), ["started"]);
    // A request of the same name is another one.
    let next = accept(&ledger, "waiting");
    assert!(next.number > waiting.number);
    assert_eq!(ledger.take_up_request(&local(), &waiting).unwrap(), None);
    assert_eq!(ledger.take_up_request(&local(), &next).unwrap(), Some(1));
}

fn bounded(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let limits = AcceptanceLimits { per_tenant: 2, total: 3, ..LIMITS };
    let ask = |tenant: &TenantId, execution: &str| {
        ledger.accept_request(tenant, request(execution, "x"), limits).unwrap()
    };
    let (own, other) = (local(), tenant("other"));
    assert!(matches!(ask(&own, "a"), Acceptance::Accepted(_)));
    assert!(matches!(ask(&own, "b"), Acceptance::Accepted(_)));
    assert_eq!(ask(&own, "c"), Acceptance::TenantFull);
    assert!(matches!(ask(&own, "b"), Acceptance::Joined(_)), "it is there already");
    assert!(matches!(ask(&other, "a"), Acceptance::Accepted(_)));
    assert_eq!(ask(&other, "b"), Acceptance::Full);
    ledger.cancel_request(&own, &named("a")).unwrap();
    assert!(matches!(ask(&other, "b"), Acceptance::Accepted(_)));
}

fn kept(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let first = accept(&ledger, "e");
    let answer = RequestOutcome::Answer(r#"{"ok":false}"#.to_owned());
    ledger.end_request(&local(), &first, Some(answer.clone())).unwrap();
    let shown = ledger.accepted_request(&local(), &named("e")).unwrap().unwrap();
    assert!(!shown.is_open());
    let (at, outcome) = shown.ended.unwrap();
    assert_eq!((outcome, at >= first.accepted_at), (answer, true));
    assert!(open(&ledger).is_empty());
    assert_eq!(ledger.tenant_with_work(None, at).unwrap(), None);
    assert_eq!(ledger.tenant_with_work(None, Millis::new(at.get() + 1)).unwrap(), Some(local()));
    ledger.sweep_requests(&local(), at).unwrap();
    assert!(ledger.accepted_request(&local(), &named("e")).unwrap().is_some(), "its time is not over");
    // Nothing is recorded of it, so it may be sent again, and late results of the first change nothing.
    let second = accept(&ledger, "e");
    ledger.end_request(&local(), &first, None).unwrap();
    assert_eq!(open(&ledger), ["e"]);
    ledger.end_request(&local(), &second, Some(RequestOutcome::Failure("x".to_owned()))).unwrap();
    let (at, _) = ledger.accepted_request(&local(), &named("e")).unwrap().unwrap().ended.unwrap();
    ledger.sweep_requests(&local(), Millis::new(at.get() + 1)).unwrap();
    assert_eq!(ledger.accepted_request(&local(), &named("e")).unwrap(), None);
}

fn migrated(fixture: &dyn Fixture) {
    let place = fixture.place();
    append_one(&place.init(), entry("signal", "{}", ""));
    fixture.execute(&place, fixture.before()).unwrap();
    let old = place.open();
    assert!(matches!(
        old.accept_request(&local(), request("e", "x"), LIMITS),
        Err(LedgerError::Outdated { .. })
    ));
    let summary = Ledger::migrate(&place.location, &place.options(), |_| {}).unwrap();
    assert_eq!((summary.from + 2, summary.entries), (summary.to, 0));
    let ledger = place.open();
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    accept(&ledger, "e");
}

fn processes(fixture: &dyn Fixture) {
    let place = fixture.place();
    let (ledger, other) = (place.init(), place.open());
    let process = |name: &str, digest: &str| ServerProcess {
        name: Name::parse(name).unwrap(),
        holder: Name::parse(name).unwrap(),
        digest: digest.to_owned(),
        sections: "{}".to_owned(),
    };
    let (first, second, new) = (process("first", "a"), process("second", "a"), process("new", "b"));
    let enter = |ledger: &Ledger, process: &ServerProcess, replaces| {
        ledger.enter_process(process, LONG, replaces).unwrap()
    };
    assert_eq!(enter(&ledger, &first, false), Membership::Member);
    assert_eq!(enter(&other, &second, false), Membership::Member);
    assert_eq!(enter(&other, &new, false), Membership::Other(Box::new(first.clone())));
    assert_eq!(enter(&ledger, &first, false), Membership::Member, "it is renewed");
    // One that left or died does not count.
    other.leave_processes(&second).unwrap();
    assert_eq!(ledger.enter_process(&first, Duration::from_millis(1), false).unwrap(), Membership::Member);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(enter(&other, &new, false), Membership::Member);
    assert_eq!(enter(&ledger, &first, false), Membership::Other(Box::new(new.clone())));
    // One that replaces the others registers at once, and they learn of it.
    assert_eq!(enter(&ledger, &first, true), Membership::Member);
    assert_eq!(enter(&ledger, &first, false), Membership::Member, "it stays");
    assert_eq!(enter(&other, &new, false), Membership::Other(Box::new(first)));
}
