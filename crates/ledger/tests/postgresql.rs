//! The conformance suite on PostgreSQL, the walls between tenants, and a server that is killed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod server;
mod suite;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::Name;
use crealeph_ledger::{
    AppendError, Claim, Cursor, Filter, Ledger, LedgerError, Limits, Location, Options, Order, Seq,
};
use server::Server;
use suite::{Dice, Fixture, Place, append, append_one, entry, local, tenant};

impl Fixture for Server {
    fn place(&self) -> Place {
        let location = Location::parse(&self.url(&self.database()));
        Place { location, folder: tempfile::tempdir().unwrap() }
    }

    fn execute(&self, place: &Place, sql: &str) -> Result<(), String> {
        let Location::Postgres(url) = &place.location else { panic!("a database") };
        let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
        let mut client = self.superuser(database);
        client
            .batch_execute(&format!("SET search_path = crealeph; {sql}"))
            .map_err(|error| format!("{error:?}"))
    }

    fn older(&self) -> &'static str {
        "DROP INDEX events_by_state; DROP INDEX drafts; DROP INDEX drafts_of_robot; DROP POLICY owner_lists ON logs;
         ALTER TABLE entries DROP COLUMN newest, DROP COLUMN used;
         ALTER TABLE logs RENAME COLUMN peaks TO frontier; UPDATE version SET version = 2"
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
    assert!(matches!(open(), Err(LedgerError::Newer { found: 9, known: 3, .. })));
    client.batch_execute("UPDATE crealeph.version SET version = 3").unwrap();
    client
        .batch_execute("SET session_replication_role = replica; UPDATE crealeph.entries SET payload = '{}' WHERE seq = 3")
        .unwrap();
    let page = ledger.list(&local(), &Filter::default(), Order::OldestFirst, None, 10);
    assert!(matches!(&page, Err(LedgerError::Damaged { what, .. }) if what.contains("entry 3")), "{page:?}");
    let secret = Location::parse("postgres://someone:hidden@127.0.0.1:1/x?connect_timeout=1");
    let error = Ledger::open(&secret, Options::default()).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1") && !error.contains("hidden"), "{error}");
}

/// How often the server is killed.
const KILLS: u64 = 100;
/// Entries of a batch, and writers at once.
const BATCH: usize = 3;
const WRITERS: usize = 4;
/// A guard against waiting for ever.
const PATIENCE: Duration = Duration::from_secs(120);

fn keyed_batch(name: &str) -> Vec<Draft> {
    (0..BATCH).map(|part| entry("signal", "{}", &format!("\"key\":\"{name}/{part}\""))).collect()
}

/// What the log holds: for each batch by name how many of its entries, read on from where it was left.
#[derive(Default)]
struct Seen {
    batches: BTreeMap<String, usize>,
    last: Seq,
}

impl Seen {
    fn read_on(&mut self, ledger: &Ledger) {
        loop {
            let cursor = Some(Cursor::after(self.last));
            let page = ledger.list(&local(), &Filter::default(), Order::OldestFirst, cursor, 1_000).unwrap();
            for one in &page.entries {
                assert_eq!(one.seq, self.last.next(), "an entry is missing");
                self.last = one.seq;
                let key = one.content.key.as_ref().unwrap().as_str();
                *self.batches.entry(key.split_once('/').unwrap().0.to_owned()).or_default() += 1;
            }
            if page.next.is_none() {
                break;
            }
        }
        assert!(self.batches.values().all(|count| *count == BATCH), "half a batch: {:?}", self.batches);
    }
}

/// Appends until it is over, and notes what it was told of each batch.
fn write_on(ledger: &Ledger, writer: usize, is_over: &AtomicBool, told: &Mutex<Vec<(String, bool)>>) {
    for number in 0.. {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("{writer}-{number}");
        let outcome = ledger.append(&local(), keyed_batch(&name));
        assert!(!matches!(outcome, Err(AppendError::Refused { .. })), "{outcome:?}");
        told.lock().unwrap().push((name, outcome.is_ok()));
    }
}

/// Kills the server again and again under several writers, at random moments. Whoever was told "written" finds it, whoever
/// was told that it failed finds it not there or there whole, and sending it again with its keys tells the truth.
#[test]
fn a_killed_server_loses_nothing_that_was_acknowledged() {
    // What a killed process has handed to the system stays there, so waiting for the disk would show nothing more.
    let mut server = Server::start();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let place = Place { location: Location::parse(&server.url(&database)), folder };
    let limits = Limits { wait_ms: 60_000, ..Limits::default() };
    let ledger = Ledger::init(&place.location, Options { limits, ..place.options() }).unwrap();
    let (is_over, told) = (AtomicBool::new(false), Mutex::new(Vec::<(String, bool)>::new()));
    let acknowledged = || {
        let told = told.lock().unwrap();
        told.iter().filter(|(_, is_written)| *is_written).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let mut dice = Dice::new(7);
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (ledger, is_over, told) = (&ledger, &is_over, &told);
            scope.spawn(move || write_on(ledger, writer, is_over, told));
        }
        for _ in 0..KILLS {
            let (before, start) = (acknowledged().len(), Instant::now());
            while acknowledged().len() == before && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(dice.below(20_000)));
            server.kill();
            let written = acknowledged();
            assert!(written.len() > before, "nothing could be written after a kill");
            server.run();
            seen.read_on(&ledger);
            assert!(
                written.iter().all(|name| seen.batches.contains_key(name)),
                "an acknowledged batch is gone"
            );
        }
        is_over.store(true, Ordering::SeqCst);
    });
    seen.read_on(&ledger);
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    let told = told.into_inner().unwrap();
    assert!(told.iter().all(|(name, is_written)| !is_written || seen.batches.contains_key(name)));
    for (name, _) in told.iter().filter(|(_, is_written)| !is_written) {
        let is_there = seen.batches.contains_key(name);
        let answers = ledger.append(&local(), keyed_batch(name)).unwrap();
        assert!(answers.iter().all(|answer| answer.is_repeat == is_there), "{name}: {answers:?}");
    }
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), (told.len() * BATCH) as u64);
}

#[test]
fn an_encrypted_connection_is_made_to_whom_it_should_be_or_not_at_all() {
    let mut server = Server::start_encrypted();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let keys = || Options { keys: Some(folder.path().join("keys")), ..Options::default() };
    let trusted = format!("sslrootcert={}", server.authority().display());
    let url = |host: &str, options: &str| Location::parse(&server.network_url(host, &database, options));
    let good = url("127.0.0.1", &format!("sslmode=verify-full&{trusted}"));
    let ledger = Ledger::init(&good, keys()).unwrap();
    append_one(&ledger, entry("signal", "{}", ""));
    let sql = "SELECT count(*), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
               WHERE application_name = 'crealeph'";
    let counted = server.superuser(&database).query_one(sql, &[]).unwrap();
    assert!(counted.get::<_, i64>(0) > 0);
    assert_eq!(counted.get::<_, i64>(1), 0, "every connection is encrypted");
    drop(ledger);
    Ledger::open(&url("127.0.0.1", &format!("sslmode=require&{trusted}")), keys()).unwrap();

    let other = folder.path().join("other.pem");
    server::make_authority(&other, &folder.path().join("other.key"));
    let distrusted = |location: &Location| match Ledger::open(location, keys()) {
        Err(error @ LedgerError::Untrusted { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    };
    let wrong = url("127.0.0.1", &format!("sslmode=require&sslrootcert={}", other.display()));
    let error = distrusted(&wrong);
    assert!(error.contains("certificate") && error.contains("sslrootcert"), "{error}");
    let error = distrusted(&url("localhost", &format!("sslmode=verify-full&{trusted}")));
    assert!(error.contains("localhost"), "the certificate is for another name: {error}");

    // A server that does not encrypt is not talked to in plain text instead.
    server.stop_encrypting();
    let error = distrusted(&good);
    assert!(error.contains("TLS"), "{error}");
}

/// Row-level security is forced on the owner too, unless it is a superuser, as owners seldom are.
#[test]
fn an_owner_who_is_no_superuser_lists_tenants_and_migrates() {
    let server = Server::start();
    let database = server.database();
    let mut client = server.superuser(&database);
    client
        .batch_execute(&format!(
            "CREATE ROLE keeper LOGIN CREATEROLE PASSWORD 'x'; CREATE ROLE guest LOGIN PASSWORD 'x';
             GRANT CREATE ON DATABASE \"{database}\" TO keeper"
        ))
        .unwrap();
    let url = |user: &str| {
        let (_, rest) =
            server.url(&database).split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        Location::parse(&format!("postgres://{user}:x@{rest}"))
    };
    let place = Place { location: url("keeper"), folder: tempfile::tempdir().unwrap() };
    let ledger = place.init();
    append(&ledger, (0..5).map(|n| entry("signal", &format!("{{\"n\":{n}}}"), "")).collect());
    ledger.append(&tenant("other"), vec![entry("signal", "{}", "")]).unwrap();
    let names = |ledger: &Ledger| -> Vec<String> {
        ledger.tenants().unwrap().iter().map(|log| format!("{} {}", log.tenant_id, log.entries)).collect()
    };
    assert_eq!(names(&ledger), ["local 5", "other 1"]);
    client.batch_execute("GRANT crealeph_ledger TO guest").unwrap();
    let guest = Ledger::open(&url("guest"), place.options()).unwrap();
    let refused = guest.tenants().unwrap_err();
    assert!(refused.to_string().contains("owner"), "{refused}");
    drop((ledger, guest));

    let older = server.older();
    client.batch_execute(&format!("SET search_path = crealeph; {older}")).unwrap();
    let migrated = Ledger::migrate(&place.location, &place.options(), |_| {}).unwrap();
    assert_eq!(migrated.entries, 6);
    let ledger = place.open();
    assert_eq!(names(&ledger), ["local 5", "other 1"]);
    append_one(&ledger, entry("signal", "{}", r#""observedAt":"2001-01-01T00:00:00Z""#));
    let refused = client.batch_execute("UPDATE crealeph.entries SET newest = 1").unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("append-only"), "{refused:?}");
}
