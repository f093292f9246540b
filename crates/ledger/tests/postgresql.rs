//! The conformance suite on PostgreSQL, the walls between tenants, and a server that is killed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod server;
mod suite;

use std::sync::atomic::{AtomicBool, Ordering};

use crealeph_contracts::scalar::Name;
use crealeph_ledger::{AppendError, Claim, Filter, Ledger, LedgerError, Limits, Location, Options, Order};
use server::Server;
use suite::{Fixture, Place, append, append_one, entry, local, tenant};

impl Fixture for Server {
    fn place(&self) -> Place {
        let location = Location::parse(&self.url(&self.database()));
        Place { location, folder: tempfile::tempdir().unwrap() }
    }
}

#[test]
fn conformance_on_postgresql() {
    suite::run(&Server::start());
}

#[test]
fn the_role_the_program_uses_meets_walls() {
    let server = Server::start();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let place = Place { location: Location::parse(&server.url(&database)), folder };
    let ledger = place.init();
    append(&ledger, (0..300).map(|n| entry("signal", &format!("{{\"n\":{n}}}"), "")).collect());
    ledger.append(&tenant("other"), vec![entry("signal", "{}", r#""key":"theirs""#)]).unwrap();
    ledger.checkpoint(&local()).unwrap();
    let name = Name::parse("work").unwrap();
    let lease = ledger.take_lease(&local(), &name, &name, std::time::Duration::from_secs(60)).unwrap();
    assert!(matches!(lease, Claim::Taken(_)), "{lease:?}");
    // The program names every tenant in its statements as well, so ask without that, as a faulty statement would.
    let mut client = server.superuser(&database);
    client.batch_execute("SET ROLE crealeph_ledger; SET search_path = crealeph").unwrap();
    let role =
        client.query_one("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user", &[]);
    let role = role.unwrap();
    assert_eq!((role.get::<_, bool>(0), role.get::<_, bool>(1)), (false, false));
    let tables = ["logs", "entries", "tiles", "checkpoints", "edges", "leases", "lease_tokens"];
    let count = |client: &mut postgres::Client, table: &str| -> i64 {
        client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).unwrap().get(0)
    };
    for table in tables {
        assert_eq!(count(&mut client, table), 0, "no tenant is set, so nothing of {table} is seen");
    }
    client.batch_execute("BEGIN; SET LOCAL crealeph.tenant = 'other'").unwrap();
    assert_eq!((count(&mut client, "logs"), count(&mut client, "entries")), (1, 1));
    assert_eq!((count(&mut client, "tiles"), count(&mut client, "leases")), (0, 0));
    let own = "SELECT count(*) FROM entries WHERE tenant = 'local'";
    assert_eq!(
        client.query_one(own, &[]).unwrap().get::<_, i64>(0),
        0,
        "another tenant cannot even be counted"
    );
    let forged = "INSERT INTO edges (tenant, parent, child) VALUES ('local', 1, 2)";
    let refused = client.batch_execute(forged).unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("row-level security"), "{refused:?}");
    client.batch_execute("ROLLBACK").unwrap();
    for table in tables {
        let locked = client.query_one(
            "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = to_regclass($1)",
            &[&format!("crealeph.{table}")],
        );
        assert!(locked.unwrap().get::<_, bool>(0), "{table}");
    }
    // Changing and removing is refused to the role by its rights, and to the owner by triggers.
    for sql in [
        "UPDATE entries SET robot = 'x'",
        "DELETE FROM entries",
        "TRUNCATE entries",
        "UPDATE logs SET origin = 'x'",
        "DELETE FROM lease_tokens",
    ] {
        assert!(client.batch_execute(sql).is_err(), "{sql}");
    }
    client.batch_execute("RESET ROLE; SET search_path = crealeph").unwrap();
    for sql in [
        "UPDATE entries SET robot = 'x'",
        "DELETE FROM tiles",
        "TRUNCATE checkpoints",
        "UPDATE logs SET size = 0",
        "DELETE FROM lease_tokens",
    ] {
        let error = client.batch_execute(sql).unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("append-only"), "{sql}: {error:?}");
    }
    // Where someone gives the role the right to pass the walls, the program refuses to work.
    client.batch_execute("ALTER ROLE crealeph_ledger BYPASSRLS").unwrap();
    let open = Ledger::open(&place.location, place.options());
    assert!(
        matches!(&open, Err(LedgerError::Foreign { reason, .. }) if reason.contains("walls")),
        "{open:?}"
    );
}

#[test]
fn what_is_no_ledger_of_ours_is_refused_and_changes_are_noticed() {
    let server = Server::start();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let place = Place { location: Location::parse(&server.url(&database)), folder };
    let open = || Ledger::open(&place.location, place.options());
    assert!(matches!(open(), Err(LedgerError::Missing { .. })));
    let nowhere = Ledger::open(&Location::parse(&server.url("nowhere")), place.options());
    assert!(matches!(nowhere, Err(LedgerError::Missing { .. })), "{nowhere:?}");
    let ledger = place.init();
    append(&ledger, (0..5).map(|n| entry("signal", &format!("{{\"n\":{n}}}"), "")).collect());
    let mut client = server.superuser(&database);
    client.batch_execute("UPDATE crealeph.version SET version = 9").unwrap();
    assert!(matches!(open(), Err(LedgerError::Newer { found: 9, known: 2, .. })));
    client.batch_execute("UPDATE crealeph.version SET version = 2").unwrap();
    client
        .batch_execute("SET session_replication_role = replica; UPDATE crealeph.entries SET payload = '{}' WHERE seq = 3")
        .unwrap();
    let page = ledger.list(&local(), &Filter::default(), Order::OldestFirst, None, 10);
    assert!(matches!(&page, Err(LedgerError::Damaged { what, .. }) if what.contains("entry 3")), "{page:?}");
    let secret = Location::parse("postgres://someone:hidden@127.0.0.1:1/x?connect_timeout=1");
    let error = Ledger::open(&secret, Options::default()).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1") && !error.contains("hidden"), "{error}");
}

/// Kills the server again and again under several writers. Whoever was told "written" finds it, whoever was told that it
/// failed finds it not there or there whole, and sending it again with its keys tells the truth.
#[test]
fn a_killed_server_loses_nothing_that_was_acknowledged() {
    let mut server = Server::start_durable();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let place = Place { location: Location::parse(&server.url(&database)), folder };
    let limits = Limits { wait_ms: 20_000, ..Limits::default() };
    let options = || Options { limits, ..place.options() };
    drop(Ledger::init(&place.location, options()).unwrap());
    let batch = |name: &str| {
        (0..3).map(|part| entry("signal", "{}", &format!("\"key\":\"{name}-{part}\""))).collect::<Vec<_>>()
    };
    let mut all: Vec<(String, bool)> = Vec::new();
    for round in 0..8 {
        let ledger = Ledger::open(&place.location, options()).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|thread| {
                    let (ledger, is_over, batch) = (&ledger, &is_over, &batch);
                    scope.spawn(move || {
                        let mut told = Vec::new();
                        for number in 0.. {
                            if is_over.load(Ordering::SeqCst) {
                                return told;
                            }
                            let name = format!("{round}-{thread}-{number}");
                            let outcome = ledger.append(&local(), batch(&name));
                            let is_refused = matches!(outcome, Err(AppendError::Refused { .. }));
                            assert!(!is_refused, "{outcome:?}");
                            told.push((name, outcome.is_ok()));
                        }
                        told
                    })
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(100 + 37 * round));
            server.kill();
            server.run();
            std::thread::sleep(std::time::Duration::from_millis(50));
            is_over.store(true, Ordering::SeqCst);
            for writer in writers {
                all.extend(writer.join().unwrap());
            }
        });
    }
    let ledger = Ledger::open(&place.location, options()).unwrap();
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    for (name, is_acknowledged) in &all {
        let answers = ledger.append(&local(), batch(name)).unwrap();
        let repeats = answers.iter().filter(|answer| answer.is_repeat).count();
        assert!(
            repeats == 3 || (!is_acknowledged && repeats == 0),
            "{name}: {repeats} of 3, {is_acknowledged}"
        );
    }
    assert!(all.iter().filter(|(_, is_acknowledged)| *is_acknowledged).count() > 20);
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), all.len() as u64 * 3);
    append_one(&ledger, entry("signal", "{}", ""));
}
