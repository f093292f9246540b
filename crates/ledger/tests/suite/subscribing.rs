//! Data stored next to the log for those who follow it, and who appended an entry.

use std::time::Duration;

use super::{Case, Fixture, append_one, entry, local, tenant};
use crealeph_contracts::scalar::{LedgerId, Name};
use crealeph_ledger::{Lease, LeaseClaim, Ledger, LedgerError, Seq, Subscription};

pub(super) const CASES: &[Case] = &[
    ("a subscription moves on under its lease alone, and is bounded by number", subscriptions),
    ("an entry says who appended it, and the first one stays", actors),
];

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn subscription(id: &str) -> Subscription {
    Subscription {
        id: name(id),
        secret: format!("secret of {id}"),
        position: Seq::new(3).unwrap(),
        notes: "{}".to_owned(),
    }
}

fn take(ledger: &Ledger) -> Lease {
    let claim = ledger.take_lease(&local(), &name("work"), &name("me"), Duration::from_secs(60)).unwrap();
    let LeaseClaim::Taken(lease) = claim else { panic!("nobody has it") };
    lease
}

fn subscriptions(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    append_one(&ledger, entry("signal", "{}", ""));
    for id in ["b", "a"] {
        ledger.add_subscription(&local(), subscription(id), 2).unwrap();
    }
    let full = ledger.add_subscription(&local(), subscription("c"), 2).unwrap_err();
    assert!(matches!(full, LedgerError::Beyond { found: 3, limit: 2, .. }), "{full:?}");
    assert_eq!(ledger.subscriptions(&tenant("other")).unwrap(), []);
    ledger.add_subscription(&tenant("other"), subscription("x"), 2).unwrap();

    // Another process sees them, and a holder that lost its lease moves nothing.
    let other = place.open();
    assert_eq!(other.subscriptions(&local()).unwrap(), [subscription("a"), subscription("b")]);
    let mut tenants = other.subscribed_tenants().unwrap();
    tenants.sort_unstable();
    assert_eq!(tenants, [local(), tenant("other")]);
    let first = take(&ledger);
    let to = |number| Seq::new(number).unwrap();
    ledger.move_subscription(&first, &name("a"), to(7), "{\"n\":1}".to_owned()).unwrap();
    ledger.release_lease(&first).unwrap();
    let second = take(&other);
    let lost = ledger.move_subscription(&first, &name("a"), to(9), String::new());
    assert!(matches!(&lost, Err(LedgerError::LeaseLost { .. })), "{lost:?}");
    other.move_subscription(&second, &name("a"), to(5), "{\"n\":2}".to_owned()).unwrap();
    let moved = Subscription { position: to(7), notes: "{\"n\":2}".to_owned(), ..subscription("a") };
    assert_eq!(ledger.subscriptions(&local()).unwrap(), [moved, subscription("b")]);

    for id in ["a", "b", "b"] {
        ledger.remove_subscription(&local(), &name(id)).unwrap();
    }
    assert_eq!(other.subscriptions(&local()).unwrap(), []);
    assert_eq!(other.subscribed_tenants().unwrap(), [tenant("other")]);
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    assert!(!format!("{:?}", subscription("a")).contains("secret"));
}

fn actors(fixture: &dyn Fixture) {
    let place = fixture.place();
    let ledger = place.init();
    let draft = || entry("signal", "{}", r#""key":"k""#);
    let first = ledger.acting_for(name("key:a")).append(&local(), vec![draft()]).unwrap().remove(0);
    let again = ledger.acting_for(name("key:b")).append(&local(), vec![draft()]).unwrap().remove(0);
    assert_eq!((&again.id, again.is_repeat), (&first.id, true));
    let plain = append_one(&ledger, entry("signal", "{}", ""));
    let actor = |ledger: &Ledger, id: &LedgerId| {
        ledger.get(&local(), id).unwrap().unwrap().actor.map(|actor| actor.as_str().to_owned())
    };
    let mut exported = Vec::new();
    ledger.export(&local(), &mut exported).unwrap().unwrap();
    let text = String::from_utf8(exported.clone()).unwrap();
    assert_eq!(text.matches(r#"{"actor":"key:a","createdAt""#).count(), 1);
    assert_eq!(text.matches("actor").count(), 1, "an entry without one is as it always was");

    // It is exported to another ledger, and the leaf covers it.
    let elsewhere = fixture.place();
    let copy = elsewhere.init();
    copy.import(&mut exported.as_slice()).unwrap();
    assert_eq!(actor(&copy, &first.id).as_deref(), Some("key:a"));
    assert_eq!(actor(&copy, &plain.id), None);
    let forged = text.replace("key:a", "key:z");
    let refused = fixture.place().init().import(&mut forged.as_bytes()).unwrap_err();
    assert!(matches!(refused, LedgerError::BadExport { .. }), "{refused:?}");
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    fixture.tamper(&place, "UPDATE entries SET actor = 'key:z' WHERE key = 'k'").unwrap();
    assert!(ledger.get(&local(), &first.id).is_err(), "an actor that was changed is noticed");
    assert!(!matches!(ledger.audit(&local()), Ok(None)));
}
