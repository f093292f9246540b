//! The command line over PostgreSQL, and what `verify` says when a superuser has been at the rows.

#![cfg(test)]

#[path = "../../ledger/tests/server/mod.rs"]
mod server;
mod tamper;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

fn ledger(folder: &Path, url: &str, args: &[&str], stdin: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
    command.arg("ledger").args(args).args(["--ledger", url, "--keys", "keys"]).current_dir(folder);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn line(number: usize) -> String {
    let on = match number {
        0 => String::new(),
        _ => format!(",\"lineage\":{{\"dependsOnLedgerIds\":[\"key:k{}\"]}}", number - 1),
    };
    format!(
        "{{\"robotId\":\"r\",\"module\":\"m\",\"source\":\"s\",\"type\":\"signal\",\"state\":\"final\",\
         \"payload\":{{\"n\":{number}}},\"key\":\"k{number}\"{on}}}\n"
    )
}

#[test]
fn every_kind_of_change_is_named_as_the_documentation_says() {
    let server = server::Server::start();
    let folder = tempfile::tempdir().unwrap();
    let base = server.database();
    let url = server.url(&base);
    let good = |args: &[&str], stdin: &str| {
        let (code, stdout, stderr) = ledger(folder.path(), &url, args, stdin);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        stdout
    };
    good(&["init"], "");
    let (kept, key) = tamper::fill(good);
    std::fs::write(folder.path().join("saved.checkpoint"), kept).unwrap();
    std::fs::write(folder.path().join("saved.key"), key).unwrap();
    let amcheck = format!(
        "CREATE EXTENSION amcheck; GRANT EXECUTE ON FUNCTION bt_index_check(regclass, boolean) TO crealeph_audit_{base}"
    );
    let (_, _, stderr) = ledger(folder.path(), &url, &["verify"], "");
    assert!(stderr.contains("not checked: the contents of indexes"), "{stderr}");
    server.superuser(&base).batch_execute(&amcheck).unwrap();
    let (_, _, stderr) = ledger(folder.path(), &url, &["verify"], "");
    assert!(!stderr.contains("not checked"), "{stderr}");
    let nothing = tamper::Change { postgresql: "SELECT 1", ..tamper::NOTHING };
    let bound = tamper::Change { postgresql: "SELECT bind_login('clerk', 'local')", ..tamper::NOTHING };
    let unbound = tamper::Change {
        what: "policies of a bound login that are all gone",
        postgresql: "INSERT INTO logins VALUES ('clerk', 'local')",
        alone: ("schema", None),
        with_key: ("schema", None),
        with_checkpoint: ("schema", None),
        ..tamper::NOTHING
    };
    let orphans = tamper::Change {
        what: "rows of a tenant without a log",
        postgresql: "INSERT INTO tiles SELECT 'nobody', level, number, root, hashes FROM tiles",
        alone: ("extra", None),
        with_key: ("extra", None),
        with_checkpoint: ("extra", None),
        ..tamper::NOTHING
    };
    for (number, change) in tamper::CHANGES.iter().chain([&nothing, &orphans, &bound, &unbound]).enumerate() {
        if change.postgresql.is_empty() {
            continue;
        }
        let copy = format!("copy{number}");
        let mut superuser = server.superuser("postgres");
        superuser.batch_execute(&format!("CREATE DATABASE {copy} TEMPLATE {base}")).unwrap();
        let off = "SET session_replication_role = replica; SET search_path = crealeph;";
        server.superuser(&copy).batch_execute(&format!("{off} {}", change.postgresql)).unwrap();
        tamper::check(change, |args| ledger(folder.path(), &server.url(&copy), args, ""));
    }
}

/// The two rows of the table that are no single statement.
#[test]
fn an_older_copy_and_another_history_are_named_as_the_documentation_says() {
    let server = server::Server::start();
    let (folder, thief) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let base = server.database();
    let good = |folder: &Path, database: &str, args: &[&str], stdin: &str| {
        let (code, stdout, stderr) = ledger(folder, &server.url(database), args, stdin);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        stdout
    };
    let lines = |from: usize| (from..from + 100).map(tamper::line).collect::<String>();
    good(folder.path(), &base, &["init"], "");
    good(folder.path(), &base, &["append"], &lines(0));
    good(folder.path(), &base, &["checkpoint"], "");
    let copy = "CREATE DATABASE older TEMPLATE";
    server.superuser("postgres").batch_execute(&format!("{copy} {base}")).unwrap();
    good(folder.path(), &base, &["append"], &lines(100));
    let kept = good(folder.path(), &base, &["checkpoint"], "");
    let key = good(folder.path(), &base, &["key"], "");
    for folder in [&folder, &thief] {
        std::fs::write(folder.path().join("saved.checkpoint"), &kept).unwrap();
        std::fs::write(folder.path().join("saved.key"), &key).unwrap();
    }
    let truncated = ("truncated", Some(101));
    let older = tamper::Change {
        what: "an older copy of the ledger put back",
        alone: truncated,
        with_key: truncated,
        with_checkpoint: truncated,
        ..tamper::NOTHING
    };
    tamper::check(&older, |args| ledger(folder.path(), &server.url("older"), args, ""));
    // An attacker who holds the key leaves the signer's memory behind.
    std::fs::create_dir(thief.path().join("keys")).unwrap();
    for file in std::fs::read_dir(folder.path().join("keys")).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), thief.path().join("keys").join(file.file_name())).unwrap();
        }
    }
    good(thief.path(), "older", &["append"], &lines(100).replace("\"s\"", "\"other\""));
    good(thief.path(), "older", &["checkpoint"], "");
    let other = tamper::Change {
        what: "another history, written with the signing key",
        with_checkpoint: ("forked", Some(101)),
        ..tamper::NOTHING
    };
    tamper::check(&other, |args| ledger(thief.path(), &server.url("older"), args, ""));
}

/// The backup that the documentation describes: every tenant, by the role for audits, restored on another server.
#[test]
fn a_dump_is_restored_on_another_server_and_verified() {
    let (server, other) = (server::Server::start(), server::Server::start());
    let folder = tempfile::tempdir().unwrap();
    let database = server.database();
    let url = server.url(&database);
    let run = |url: &str, args: &[&str], stdin: &str| {
        let (code, stdout, stderr) = ledger(folder.path(), url, args, stdin);
        assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
        stdout
    };
    run(&url, &["init"], "");
    let lines: String = (0..300).map(line).collect();
    for tenant in ["local", "acme"] {
        run(&url, &["append", "--tenant", tenant], &lines);
        let kept = run(&url, &["checkpoint", "--tenant", tenant], "");
        std::fs::write(folder.path().join(format!("{tenant}.checkpoint")), kept).unwrap();
    }
    // Backups need only the right to read.
    let audit = format!("crealeph_audit_{database}");
    let ledger_role = format!("crealeph_ledger_{database}");
    let sql = format!("CREATE ROLE keeper LOGIN; GRANT {audit} TO keeper");
    server.superuser(&database).batch_execute(&sql).unwrap();
    let mut auditor = server.superuser(&database);
    let secret = "INSERT INTO crealeph.subscriptions VALUES ('local', 'hook', 'whsec_c2VjcmV0', 0, '{}')";
    auditor.batch_execute(secret).unwrap();
    auditor.batch_execute(&format!("SET ROLE {audit}; SET crealeph.tenant = 'local'")).unwrap();
    let secrets = auditor.query("SELECT secret FROM crealeph.subscriptions", &[]).unwrap();
    assert!(secrets.is_empty(), "the secret of a webhook");
    let dump = folder.path().join("ledger.dump");
    let program = |name: &str, args: &[&str]| {
        let done = Command::new(server.program_path(name)).args(args).output().unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let keeper = url.replace("postgres@", "keeper@");
    let file = dump.to_str().unwrap();
    let role = format!("--role={audit}");
    program(
        "pg_dump",
        &["--format=custom", "--schema=crealeph", "--enable-row-security", &role, "--file", file, &keeper],
    );
    let restored = other.database();
    let mut owner = other.superuser(&restored);
    for role in [&audit, &ledger_role] {
        owner.batch_execute(&format!("CREATE ROLE {role}; GRANT {role} TO postgres")).unwrap();
    }
    let there = other.url(&restored);
    program("pg_restore", &["--no-owner", "--exit-on-error", "--dbname", &there, file]);
    assert_eq!(run(&there, &["tenants"], ""), run(&url, &["tenants"], ""));
    for tenant in ["local", "acme"] {
        let kept = format!("{tenant}.checkpoint");
        let verified = run(&there, &["verify", "--tenant", tenant, "--checkpoint", &kept], "");
        assert!(verified.contains("\"entries\":300"), "{verified}");
        assert_eq!(
            run(&there, &["export", "--tenant", tenant], ""),
            run(&url, &["export", "--tenant", tenant], "")
        );
    }
    // It continues as the same log.
    run(&there, &["append"], &line(300));
    run(&there, &["verify"], "");
}

#[test]
fn tail_survives_a_short_outage_and_sees_what_others_append_within_a_second() {
    let mut server = server::Server::start();
    let folder = tempfile::tempdir().unwrap();
    let database = server.database();
    let url = server.url(&database);
    let run = |args: &[&str], stdin: &str| {
        let (code, stdout, stderr) = ledger(folder.path(), &url, args, stdin);
        assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
    };
    run(&["init"], "");
    run(&["append"], &line(0));
    let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
    command.args(["ledger", "tail", "--after", "0", "--limit", "3", "--ledger", &url, "--keys", "keys"]);
    let mut tail = command.current_dir(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(tail.stdout.take().unwrap()));
    assert!(lines.next().unwrap().unwrap().contains("\"k0\""));
    run(&["append"], &line(1));
    let start = std::time::Instant::now();
    assert!(lines.next().unwrap().unwrap().contains("\"k1\""));
    assert!(start.elapsed().as_millis() < 1_000, "{:?}", start.elapsed());
    server.kill();
    std::thread::sleep(std::time::Duration::from_secs(2));
    server.run();
    run(&["append"], &line(2));
    assert!(lines.next().unwrap().unwrap().contains("\"k2\""));
    assert!(tail.wait().unwrap().success());
}

#[test]
fn a_superuser_cannot_change_anything_unnoticed() {
    let server = server::Server::start();
    let folder = tempfile::tempdir().unwrap();
    let changes = [
        ("", "", 0),
        ("UPDATE entries SET payload = '{\"n\":1000}' WHERE seq = 42", "changed", 42),
        ("UPDATE entries SET payload = '{\"n\": 41}' WHERE seq = 42", "changed", 42),
        ("UPDATE entries SET created_at = created_at + 1 WHERE seq = 7", "changed", 7),
        ("UPDATE entries SET robot = 'q', leaf = '\\x00' WHERE seq = 7", "changed", 7),
        ("UPDATE entries SET reach_signal = NULL WHERE seq = 50", "changed", 50),
        ("DELETE FROM entries WHERE seq = 30", "missing", 30),
        ("DELETE FROM edges WHERE child = 5", "changed", 5),
    ];
    for (sql, kind, seq) in changes {
        let database = server.database();
        let url = server.url(&database);
        let run = |args: &[&str], stdin: &str| ledger(folder.path(), &url, args, stdin);
        assert_eq!(run(&["init"], "").0, 0);
        let (code, stdout, stderr) = run(&["append"], &(0..60).map(line).collect::<String>());
        assert_eq!((code, stdout.lines().count()), (0, 60), "{stderr}");
        assert_eq!(run(&["checkpoint"], "").0, 0);
        let mut superuser = server.superuser(&database);
        let off = "SET session_replication_role = replica; SET search_path = crealeph;";
        superuser.batch_execute(&format!("{off} {sql}")).unwrap();
        let (code, stdout, stderr) = run(&["verify"], "");
        let found: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
        if kind.is_empty() {
            assert_eq!((code, found["entries"].as_u64()), (0, Some(60)), "{stdout}{stderr}");
        } else {
            assert_eq!(
                (code, found["kind"].as_str(), found["seq"].as_u64()),
                (1, Some(kind), Some(seq)),
                "{sql}: {stdout}"
            );
        }
    }
}
