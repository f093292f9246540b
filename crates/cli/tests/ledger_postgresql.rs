//! The command line over PostgreSQL, and what `verify` says when a superuser has been at the rows.

#![cfg(test)]

#[path = "../../ledger/tests/server/mod.rs"]
mod server;

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
