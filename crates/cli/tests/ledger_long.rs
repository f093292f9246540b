//! A ledger that is old, and one that is long: what a user sees of them. The old one was left by the program of its time
//! (`ledger-version-3.sql`); the long one has 120,000 entries behind what is asked for.

#![cfg(test)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A folder, gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("long-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn run(&self, args: &[&str], stdin: &str) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
        command.args(args).current_dir(&self.0).env("CREALEPH_TRUST", "1");
        for name in ["CREALEPH_LEDGER", "CREALEPH_TENANT", "CREALEPH_KEYS"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let text = stdin.to_owned();
        let feeding = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let output = child.wait_with_output().unwrap();
        let _ = feeding.join().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    fn good(&self, args: &[&str], stdin: &str) -> String {
        let (code, stdout, stderr) = self.run(args, stdin);
        assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
        stdout
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        self.good(args, "").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn an_older_ledger_names_the_upgrade_and_keeps_its_decisions() {
    let folder = Folder::new("old");
    folder.good(&["init"], "");
    folder.good(&["ledger", "init"], "");
    let file = folder.0.join(".crealeph/ledger.db");
    fs::remove_file(&file).unwrap();
    let sql = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ledger-version-3.sql");
    let loaded = Command::new("sqlite3").arg(&file).arg(format!(".read {sql}")).output().unwrap();
    assert!(loaded.status.success(), "{loaded:?}");

    // It can be read and verified, not written, and it says what to do.
    let events = folder.json(&["execution", "list"]);
    assert_eq!(events.len(), 2);
    let export = folder.good(&["ledger", "export"], "");
    assert_eq!(export.lines().count(), 14, "a first line and 13 entries");
    for command in
        [&["ledger", "append", "entries.jsonl"][..], &["snapshot", "shop-17"], &["build", "request.json"]]
    {
        let (code, _, stderr) = folder.run(command, "");
        assert!(
            code == 2 && stderr.contains("run `crealeph ledger migrate`"),
            "{command:?}: {code} {stderr}"
        );
    }

    let migrated = folder.json(&["ledger", "migrate"]);
    assert_eq!(
        (&migrated[0]["from"], &migrated[0]["to"], &migrated[0]["entries"]),
        (&3.into(), &7.into(), &13.into())
    );
    assert_eq!(folder.good(&["ledger", "export"], ""), export, "what is in it never changes");
    assert!(folder.good(&["ledger", "verify"], "").contains("\"ok\":true"));

    // What was decided by the rule of its time follows by that rule, and now the late signal makes nothing stale.
    for event in &events {
        let execution = event["payload"]["executionId"].as_str().unwrap();
        let replayed = &folder.json(&["execution", "replay", execution])[0];
        assert_eq!(replayed["follows"], true, "{replayed}");
    }
    let snapshot = &folder.json(&["snapshot", "shop-17"])[0];
    assert_eq!(snapshot["coherence"]["status"], "coherent");
    assert_ne!(snapshot["timestamps"]["signalsAt"], "2026-01-01T00:00:00Z");
    folder.good(
        &["ledger", "append"],
        r#"{"robotId":"shop-17","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#,
    );
    assert_eq!(folder.json(&["snapshot", "shop-17"])[0]["coherence"]["status"], "stale");
    // The migration wrote nothing, and the first append the entry from which on the rules of now hold.
    let later: Vec<Value> = folder.json(&["ledger", "list"]).split_off(13);
    let later: Vec<&str> = later.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(later, ["log_rules", "signal"]);
}

#[test]
// holds: invariant 18
fn nothing_is_missing_because_the_log_is_long() {
    let folder = Folder::new("long");
    folder.good(&["init"], "");
    folder.good(&["ledger", "init"], "");
    folder.good(&["ledger", "append", "entries.jsonl"], "");
    folder.good(&["build", "request.json"], "");
    // Without its playbook on the newest evidence it is partial, and what is made awaits approval.
    folder.good(
        &["ledger", "append"],
        r#"{"robotId":"shop-17","module":"m","source":"s","type":"idea","state":"final","payload":{}}"#,
    );
    let (_, partial, _) = folder.run(&["build", "request.json"], "");
    let partial: Value = serde_json::from_str(&partial).unwrap();
    let drafts = partial["artifacts"].as_array().unwrap().len();
    assert!(drafts > 0, "{partial}");
    let mut lines = String::new();
    for n in 0..120_000 {
        let _ = writeln!(
            lines,
            r#"{{"robotId":"busy-{}","module":"m","source":"s","type":"signal","state":"final","payload":{{"n":{n}}}}}"#,
            n % 3
        );
    }
    folder.good(&["ledger", "append"], &lines);

    let events = folder.json(&["execution", "list"]);
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["payload"]["executionId"], partial["executionId"]);
    assert_eq!(folder.json(&["execution", "list", "--robot", "shop-17", "--state", "planned"]).len(), 1);
    assert_eq!(folder.json(&["execution", "why"])[0]["executionId"], partial["executionId"]);
    let shown = &folder.json(&["execution", "show"])[0];
    assert_eq!(shown["others"].as_array().unwrap().len(), drafts);
    assert_eq!(folder.json(&["review", "list"]).len(), drafts);
    assert_eq!(folder.json(&["review", "list", "--robot", "shop-17"]).len(), drafts);
    let status = &folder.json(&["robot", "status", "shop-17"])[0];
    assert_eq!(status["draftsWaiting"], drafts);
    assert!(status["latest"].as_array().unwrap().iter().any(|entry| entry["type"] == "fusion"), "{status}");
    let artifact = folder.json(&["review", "list"])[0]["id"].as_str().unwrap().to_owned();
    folder.good(&["review", "reject", &artifact, "--reason", "no", "--by", "ana"], "");
    assert_eq!(folder.json(&["review", "list"]).len(), drafts - 1);

    let robots = folder.json(&["robot", "list"]);
    let names: Vec<&str> = robots.iter().map(|robot| robot["robotId"].as_str().unwrap()).collect();
    assert_eq!(names, ["busy-0", "busy-1", "busy-2", "shop-17"]);
    assert_eq!(
        (&robots[3]["coherence"], &robots[3]["draftsWaiting"]),
        (&"partial".into(), &(drafts - 1).into())
    );
    assert_eq!(robots[3]["lastExecution"]["executionId"], partial["executionId"]);
    let (_, page, more) = folder.run(&["robot", "list", "--limit", "2"], "");
    assert!(page.lines().count() == 2 && more.contains("--after busy-1"), "{page}{more}");
    let tenants = folder.json(&["ledger", "tenants"]);
    assert_eq!((tenants.len(), &tenants[0]["tenantId"]), (1, &"local".into()));
    assert!(tenants[0]["entries"].as_u64().unwrap() > 120_000);
}
