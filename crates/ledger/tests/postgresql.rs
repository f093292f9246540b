//! The conformance suite on PostgreSQL, the separation of tenants, and a server that is killed.
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
    AppendError, Cursor, Filter, LeaseClaim, Ledger, LedgerError, LedgerLimits, LedgerOptions, Location,
    Order, Seq,
};
use server::{Client, Server};
use suite::{Columns, Dice, Fixture, Hands, Place, append, append_one, entry, event, local, tenant};

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
        "DO $$ DECLARE role text; BEGIN
           FOR role IN SELECT unnest(ARRAY[ledger_role, audit_role]) FROM crealeph.version LOOP
             EXECUTE format('DROP OWNED BY %I', role);
             EXECUTE format('DROP ROLE %I', role);
           END LOOP;
         END $$;
         DROP FUNCTION tenant_with_work; DROP FUNCTION open_requests; DROP TABLE accepted; DROP TABLE processes;
         DROP POLICY owner_finds ON leases;
         DROP TABLE subscriptions; DROP FUNCTION subscribed_tenants; ALTER TABLE entries DROP COLUMN actor;
         DROP FUNCTION append; DROP FUNCTION may_use; DROP FUNCTION open_log; DROP FUNCTION keep_checkpoint;
         DROP FUNCTION bind_login; DROP TABLE logins;
         ALTER TABLE version DROP COLUMN ledger_role, DROP COLUMN audit_role;
         DROP INDEX events_by_state; DROP INDEX drafts; DROP INDEX drafts_of_robot; DROP INDEX receipts;
         ALTER TABLE entries DROP COLUMN newest, DROP COLUMN used;
         ALTER TABLE logs RENAME COLUMN peaks TO frontier; UPDATE version SET version = 2;
         REVOKE ALL ON SCHEMA crealeph FROM PUBLIC; REVOKE ALL ON version FROM PUBLIC;
         GRANT USAGE ON SCHEMA crealeph TO crealeph_ledger; GRANT SELECT ON version TO crealeph_ledger;
         GRANT SELECT, INSERT ON logs, entries, edges, tiles, checkpoints TO crealeph_ledger;
         GRANT UPDATE (size, last_at, frontier) ON logs TO crealeph_ledger;
         GRANT SELECT, INSERT, UPDATE, DELETE ON leases TO crealeph_ledger;
         GRANT SELECT, INSERT, UPDATE (last) ON lease_tokens TO crealeph_ledger"
    }

    fn previous(&self) -> &'static str {
        "DROP FUNCTION tenant_with_work; DROP FUNCTION open_requests; DROP TABLE accepted; DROP TABLE processes;
         DROP POLICY owner_finds ON leases;
         DROP TABLE subscriptions; DROP FUNCTION subscribed_tenants; ALTER TABLE entries DROP COLUMN actor;
         DROP INDEX receipts; UPDATE version SET version = 3"
    }

    fn before(&self) -> &'static str {
        "DROP FUNCTION tenant_with_work; DROP FUNCTION open_requests; DROP TABLE accepted; DROP TABLE processes;
         DROP POLICY owner_finds ON leases;
         DROP INDEX receipts; UPDATE version SET version = 4"
    }

    fn tamper(&self, place: &Place, sql: &str) -> Result<(), String> {
        self.execute(place, &format!("SET session_replication_role = replica; {sql}"))
    }

    fn columns(&self) -> Columns {
        let older_login = "GRANT SELECT ON later_entries, later_edges, later_head TO crealeph_ledger; \
                           SET ROLE crealeph_ledger; SET crealeph.tenant = 'local';";
        Columns { place: "tenant, seq", seq: "seq", child: "child", older_login }
    }
}

#[test]
fn conformance_on_postgresql() {
    suite::run(&Server::start());
}

/// PostgreSQL knows nothing about a table that was never analysed, and may then search it by any index that fits a little.
#[test]
fn an_event_is_found_by_its_identity_in_a_table_that_was_never_analysed() {
    let server = Server::start();
    let place = server.place();
    let options = LedgerOptions { clock: Hands::at(1_893_456_000_000).clock(), ..place.options() };
    let ledger = Ledger::init(&place.location, options).unwrap();
    let signal = append_one(&ledger, entry("signal", "{}", "")).id;
    let at = "2030-01-01T00:00:00.000Z";
    for batch in 0..20 {
        let name = |number: usize| format!("e-{batch}-{number}");
        let events = (0..100).map(|number| event(&name(number), "planned", 1, at, &[&signal], "")).collect();
        append(&ledger, events);
        if [0, 9].contains(&batch) {
            // Plans are kept for a second, and in a small table every index is as good.
            std::thread::sleep(Duration::from_millis(1_500));
        }
    }
    drop(ledger);
    let Location::Postgres(url) = &place.location else { panic!("a database") };
    let mut client = server.superuser(url.rsplit('/').next().unwrap().split('?').next().unwrap());
    // The server counts with a delay.
    let end = Instant::now() + Duration::from_secs(60);
    let counts = loop {
        let sql = "SELECT indexrelname::text, idx_scan, idx_tup_read FROM pg_stat_user_indexes WHERE relname = 'entries'";
        let rows = client.query(sql, &[]).unwrap();
        let counts: BTreeMap<String, (i64, i64)> =
            rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
        // Two look-ups of each event: of itself, and of the last one of its execution.
        let by_any = ["events", "events_by_state", "entries_by_execution"].map(|name| counts[name].0);
        if by_any.iter().sum::<i64>() >= 4_000 {
            break counts;
        }
        assert!(Instant::now() < end, "{counts:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(counts["events_by_state"].1 < 50_000, "{counts:?}");
}

/// A later version may migrate the database while this one is open.
#[test]
fn the_schema_version_is_compared_where_a_write_begins() {
    let server = Server::start();
    let place = server.place();
    let ledger = place.init();
    append_one(&ledger, entry("signal", "{}", ""));
    for (there, back, code, next) in [("+ 1", "- 1", "ledger_newer", 2), ("- 1", "+ 1", "ledger_outdated", 3)]
    {
        server.execute(&place, &format!("UPDATE version SET version = version {there}")).unwrap();
        let refused = ledger.append(&local(), vec![entry("signal", "{}", "")]).unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
        server.execute(&place, &format!("UPDATE version SET version = version {back}")).unwrap();
        assert_eq!(append_one(&ledger, entry("signal", "{}", "")).seq.get(), next, "nothing was written");
    }
}

#[test]
// holds: invariant 7
fn the_ledger_role_is_confined_to_one_tenant() {
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
    assert!(matches!(lease, LeaseClaim::Taken(_)), "{lease:?}");
    // The program names every tenant in its statements as well, so query without that, as a faulty statement would.
    let mut client = server.superuser(&database);
    let role = format!("crealeph_ledger_{database}");
    client.batch_execute(&format!("SET ROLE {role}; SET search_path = crealeph")).unwrap();
    let rights =
        client.query_one("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user", &[]);
    let rights = rights.unwrap();
    assert_eq!((rights.get::<_, bool>(0), rights.get::<_, bool>(1)), (false, false));
    let tables = ["logs", "entries", "tiles", "checkpoints", "edges", "leases", "lease_tokens"];
    let count = |client: &mut Client, table: &str| -> i64 {
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
    client.batch_execute("ROLLBACK").unwrap();
    // Rows are inserted only through the function, right after the head, and only for the tenant that is set.
    let none = "ARRAY[]::text[]";
    let append = |tenant: &str, seqs: &str, size: u64| {
        let numbers = "ARRAY[]::bigint[]";
        let texts = format!(
            "{none},{none},{none},{none},{none},{none},{numbers},{none},{none},{none},{numbers},{none}"
        );
        let reach = [numbers; 6].join(",");
        format!(
            "SELECT append('{tenant}', {seqs}::bigint[], {texts}, ARRAY[]::bytea[], {reach}, {none}, {none}, {numbers}, \
             ARRAY[]::bytea[], {none}, {numbers}, {numbers}, ARRAY[]::smallint[], {numbers}, ARRAY[]::bytea[], \
             ARRAY[]::bytea[], {size}, 0, '')"
        )
    };
    for (sql, why) in [
        ("INSERT INTO edges (tenant, parent, child) VALUES ('other', 1, 2)".to_owned(), "permission denied"),
        ("INSERT INTO entries SELECT * FROM entries".to_owned(), "permission denied"),
        ("INSERT INTO checkpoints VALUES ('other', 1, '', '')".to_owned(), "permission denied"),
        ("UPDATE logs SET size = 2".to_owned(), "permission denied"),
        ("UPDATE logs SET tenant = tenant".to_owned(), "append-only"),
        ("DELETE FROM entries".to_owned(), "permission denied"),
        (append("local", "ARRAY[301]", 301), "may not use tenant local"),
        (append("other", "ARRAY[3]", 3), "does not have 2 entries"),
        (append("other", "ARRAY[5]", 2), "append-only"),
        (append("other", "ARRAY[]", 1), "append-only"),
        ("SELECT keep_checkpoint('other', 2, '', 'x')".to_owned(), "does not have 2 entries"),
        ("SELECT keep_checkpoint('local', 2, '', 'x')".to_owned(), "may not use tenant local"),
        ("SELECT open_log('third', 'x')".to_owned(), "may not use tenant third"),
        ("SELECT bind_login('x', 'other')".to_owned(), "permission denied"),
    ] {
        client.batch_execute("BEGIN; SET LOCAL crealeph.tenant = 'other'").unwrap();
        let refused = client.batch_execute(&sql).unwrap_err();
        let message = refused.as_db_error().unwrap().message().to_owned();
        assert!(message.contains(why), "{sql}: {message}");
        client.batch_execute("ROLLBACK").unwrap();
    }
    for table in tables {
        let locked = client.query_one(
            "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = to_regclass($1)",
            &[&format!("crealeph.{table}")],
        );
        assert!(locked.unwrap().get::<_, bool>(0), "{table}");
    }
    // Updates and deletes are refused to the role by its privileges, and to the owner by triggers.
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
    // If the role can bypass row-level security, the program refuses to work.
    client.batch_execute(&format!("ALTER ROLE {role} BYPASSRLS")).unwrap();
    let open = Ledger::open(&place.location, place.options());
    assert!(
        matches!(&open, Err(LedgerError::Foreign { reason, .. }) if reason.contains("row-level security")),
        "{open:?}"
    );
}

/// Every table, index, trigger, policy, function and privilege, as described next to the schema. Run it with
/// CREALEPH_BLESS=1 after a change of the schema, and look at the difference.
#[test]
fn the_schema_is_the_one_that_audits_compare_with() {
    let server = Server::start();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let place = Place { location: Location::parse(&server.url(&database)), folder };
    place.init();
    let mut client = server.superuser(&database);
    client.batch_execute("SET search_path = crealeph").unwrap();
    let rows = client.query(include_str!("../src/postgresql/schema-facts.sql"), &[]).unwrap();
    let found: String = rows.iter().map(|row| format!("{}\n", row.get::<_, String>(0))).collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/postgresql/schema-facts.txt");
    if std::env::var_os("CREALEPH_BLESS").is_some() {
        std::fs::write(file, &found).unwrap();
    }
    let described = std::fs::read_to_string(file).unwrap();
    let only_in = |one: &str, other: &str| -> Vec<String> {
        one.lines().filter(|fact| !other.lines().any(|line| line == *fact)).map(str::to_owned).collect()
    };
    assert_eq!((only_in(&described, &found), only_in(&found, &described)), (Vec::new(), Vec::new()));
}

#[test]
// holds: invariant 10
fn a_grant_for_one_ledger_opens_no_other_and_a_login_can_be_bound_to_its_tenant() {
    let server = Server::start();
    let make = || {
        let database = server.database();
        let folder = tempfile::tempdir().unwrap();
        let place = Place { location: Location::parse(&server.url(&database)), folder };
        let ledger = place.init();
        append_one(&ledger, entry("signal", "{}", ""));
        ledger.append(&tenant("other"), vec![entry("signal", "{}", "")]).unwrap();
        (database, place, ledger)
    };
    let ((one, place, ledger), (two, ..)) = (make(), make());
    let mut owner = server.superuser(&one);
    owner
        .batch_execute(&format!(
            "CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; GRANT crealeph_ledger_{one} TO ann, bob"
        ))
        .unwrap();
    let open = |login: &str, database: &str| {
        let url = server.url(database).replace("postgres@", &format!("{login}@"));
        Ledger::open(&Location::parse(&url), place.options())
    };
    let ann = open("ann", &one).unwrap();
    append_one(&ann, entry("signal", "{}", ""));
    let elsewhere = open("ann", &two).unwrap_err();
    assert_eq!(elsewhere.code(), "ledger_denied", "{elsewhere}");
    assert!(elsewhere.hint().unwrap().contains(&format!("GRANT crealeph_ledger_{two} TO")), "{elsewhere}");
    // The list of tenants is for audits.
    let tenants: Vec<_> = ledger.tenants().unwrap().into_iter().map(|log| log.tenant_id).collect();
    assert_eq!(tenants, [local(), tenant("other")]);
    assert_eq!(ann.tenants().unwrap_err().code(), "ledger_denied");
    // A login that is bound sees and writes only its tenants; the others are not touched.
    owner.batch_execute("SELECT crealeph.bind_login('ann', 'local')").unwrap();
    assert_eq!(ann.last_seq(&local()).unwrap().get(), 2);
    append_one(&ann, entry("signal", "{}", ""));
    assert_eq!(ann.last_seq(&tenant("other")).unwrap().get(), 0, "not even seen");
    let refused = ann.append(&tenant("other"), vec![entry("signal", "{}", "")]).unwrap_err();
    assert!(refused.to_string().contains("may not use tenant other"), "{refused}");
    let refused = ann.append(&tenant("new"), vec![entry("signal", "{}", "")]).unwrap_err();
    assert!(refused.to_string().contains("may not use tenant new"), "{refused}");
    let bob = open("bob", &one).unwrap();
    bob.append(&tenant("other"), vec![entry("signal", "{}", "")]).unwrap();
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    assert_eq!(ledger.audit(&tenant("other")).unwrap(), None);
}

/// Passes bytes on between a client and the server, until the client commits: the commit and everything after it is held back, once, as
/// if the client had been stopped.
fn stalling_proxy(server: u16) -> u16 {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let has_stalled = std::sync::Arc::new(AtomicBool::new(false));
        for client in listener.incoming() {
            let (mut client, has_stalled) = (client.unwrap(), std::sync::Arc::clone(&has_stalled));
            let mut upstream = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let (mut from, mut to) = (upstream.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || {
                let mut bytes = [0; 65_536];
                while let Ok(read @ 1..) = client.read(&mut bytes) {
                    // A simple query is a letter, four bytes of length, and the text.
                    let commit = bytes[..read].windows(11).position(|window| window == b"Q\0\0\0\x0bCOMMIT");
                    if let Some(at) = commit
                        && bytes[..at].windows(6).any(|window| window == b"silent")
                        && !has_stalled.swap(true, Ordering::SeqCst)
                    {
                        upstream.write_all(&bytes[..at]).unwrap();
                        std::thread::sleep(Duration::from_secs(60));
                        return;
                    }
                    upstream.write_all(&bytes[..read]).unwrap();
                }
            });
        }
    });
    port
}

#[test]
fn a_client_that_falls_silent_in_a_commit_locks_no_one_out() {
    let server = Server::start_encrypted();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let limits = LedgerLimits { wait_ms: 6_000, ..LedgerLimits::default() };
    let options =
        || LedgerOptions { limits, keys: Some(folder.path().join("keys")), ..LedgerOptions::default() };
    let url = server.network_url("127.0.0.1", &database, "sslmode=disable");
    let direct = Ledger::init(&Location::parse(&url), options()).unwrap();
    append_one(&direct, entry("signal", "{}", ""));
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let proxied = url.replace(&port, &stalling_proxy(port.parse().unwrap()).to_string());
    let silent = Ledger::open(&Location::parse(&proxied), options()).unwrap();
    let stalled =
        std::thread::spawn(move || silent.append(&local(), vec![entry("signal", "{}", r#""key":"silent""#)]));
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    append_one(&direct, entry("signal", "{}", ""));
    assert!(start.elapsed() > Duration::from_millis(500), "the lock was held: {:?}", start.elapsed());
    // The silent one learns that its commit did not take place, and writes.
    let outcome = stalled.join().unwrap();
    assert!(
        outcome.is_ok() || outcome.as_ref().is_err_and(|error| error.code() == "ledger_failed"),
        "{outcome:?}"
    );
    let again = append_one(&direct, entry("signal", "{}", r#""key":"silent""#));
    assert_eq!(again.is_repeat, outcome.is_ok());
    assert_eq!(direct.audit(&local()).unwrap(), None);
}

#[test]
fn a_process_needs_few_connections_and_waits_for_one() {
    let server = Server::start();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let place = Place { location: Location::parse(&server.url(&database)), folder };
    let ledger = place.init();
    append_one(&ledger, entry("signal", "{}", ""));
    ledger.last_seq(&local()).unwrap();
    let mut client = server.superuser(&database);
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'crealeph'";
    let connections: i64 = client.query_one(ours, &[]).unwrap().get(0);
    assert!(connections <= 3, "one that reads, one that writes, one that gives notice; not {connections}");
    let login = "CREATE ROLE few LOGIN CONNECTION LIMIT 1";
    client.batch_execute(&format!("{login}; GRANT crealeph_ledger_{database} TO few")).unwrap();
    let url = server.url(&database).replace("postgres@", "few@");
    let held = Client::connect(&url).unwrap();
    let freed = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        drop(held);
    });
    let opened = Ledger::open(&Location::parse(&url), place.options());
    assert!(opened.is_ok(), "{opened:?}");
    freed.join().unwrap();
}

#[test]
fn a_database_that_is_not_a_ledger_is_refused_and_changes_are_noticed() {
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
    assert!(matches!(open(), Err(LedgerError::Newer { found: 9, known: 6, .. })));
    client.batch_execute("UPDATE crealeph.version SET version = 6").unwrap();
    client
        .batch_execute("SET session_replication_role = replica; UPDATE crealeph.entries SET payload = '{}' WHERE seq = 3")
        .unwrap();
    let page = ledger.list(&local(), &Filter::default(), Order::OldestFirst, None, 10);
    assert!(matches!(&page, Err(LedgerError::Damaged { what, .. }) if what.contains("entry 3")), "{page:?}");
    let secret = Location::parse("postgres://someone:hidden@127.0.0.1:1/x?connect_timeout=1");
    let error = Ledger::open(&secret, LedgerOptions::default()).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1") && !error.contains("hidden"), "{error}");
}

/// How often the server is killed.
const KILLS: u64 = 100;
/// Entries of a batch, and writers at once.
const BATCH: usize = 3;
const WRITERS: usize = 4;
/// A guard against waiting forever.
const PATIENCE: Duration = Duration::from_secs(120);

fn keyed_batch(name: &str) -> Vec<Draft> {
    (0..BATCH).map(|part| entry("signal", "{}", &format!("\"key\":\"{name}/{part}\""))).collect()
}

/// The log's content: for each batch by name how many of its entries, read on from the last position.
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

/// Appends until it is stopped, and notes the answer to each batch.
fn write_on(ledger: &Ledger, writer: usize, is_stopped: &AtomicBool, answers: &Mutex<Vec<(String, bool)>>) {
    for number in 0.. {
        if is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("{writer}-{number}");
        let outcome = ledger.append(&local(), keyed_batch(&name));
        assert!(!matches!(outcome, Err(AppendError::Refused { .. })), "{outcome:?}");
        answers.lock().unwrap().push((name, outcome.is_ok()));
    }
}

/// Kills the server again and again under several writers, at random moments. A batch that was acknowledged is there, one that
/// failed is there completely or not at all, and sending it again with its keys gives the right answer.
#[test]
// holds: invariant 8
fn a_killed_server_loses_nothing_that_was_acknowledged() {
    // Data that a killed process has handed to the system stays there, so waiting for the disk would show nothing more.
    let mut server = Server::start();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let place = Place { location: Location::parse(&server.url(&database)), folder };
    let limits = LedgerLimits { wait_ms: 60_000, ..LedgerLimits::default() };
    let ledger = Ledger::init(&place.location, LedgerOptions { limits, ..place.options() }).unwrap();
    let (is_stopped, answers) = (AtomicBool::new(false), Mutex::new(Vec::<(String, bool)>::new()));
    let acknowledged = || {
        let answers = answers.lock().unwrap();
        answers.iter().filter(|(_, is_written)| *is_written).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let mut dice = Dice::new(7);
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (ledger, is_stopped, answers) = (&ledger, &is_stopped, &answers);
            scope.spawn(move || write_on(ledger, writer, is_stopped, answers));
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
        is_stopped.store(true, Ordering::SeqCst);
    });
    seen.read_on(&ledger);
    assert_eq!(ledger.audit(&local()).unwrap(), None);
    let answers = answers.into_inner().unwrap();
    assert!(answers.iter().all(|(name, is_written)| !is_written || seen.batches.contains_key(name)));
    for (name, _) in answers.iter().filter(|(_, is_written)| !is_written) {
        let is_there = seen.batches.contains_key(name);
        let answers = ledger.append(&local(), keyed_batch(name)).unwrap();
        assert!(answers.iter().all(|answer| answer.is_repeat == is_there), "{name}: {answers:?}");
    }
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), (answers.len() * BATCH) as u64);
}

#[test]
fn an_encrypted_connection_reaches_a_trusted_server_or_fails() {
    let mut server = Server::start_encrypted();
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let keys = || LedgerOptions { keys: Some(folder.path().join("keys")), ..LedgerOptions::default() };
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
        Err(error @ LedgerError::Untrusted { .. }) => format!("{error}; {}", error.hint().unwrap()),
        other => panic!("not refused: {other:?}"),
    };
    let wrong = url("127.0.0.1", &format!("sslmode=require&sslrootcert={}", other.display()));
    let error = distrusted(&wrong);
    assert!(error.contains("certificate") && error.contains("sslrootcert"), "{error}");
    let error = distrusted(&url("localhost", &format!("sslmode=verify-full&{trusted}")));
    assert!(error.contains("localhost"), "the certificate is for another name: {error}");

    // The program does not use plain text with a server that does not encrypt.
    server.stop_encrypting();
    let error = distrusted(&good);
    assert!(error.contains("TLS"), "{error}");
}

/// Row-level security is forced on the owner too, unless it is a superuser, as owners rarely are.
#[test]
fn an_owner_who_is_not_a_superuser_lists_tenants_and_migrates() {
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
    client.batch_execute(&format!("GRANT crealeph_ledger_{database} TO guest")).unwrap();
    let guest = Ledger::open(&url("guest"), place.options()).unwrap();
    let refused = guest.tenants().unwrap_err();
    assert!(refused.hint().unwrap().contains("owner"), "{refused}");
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
