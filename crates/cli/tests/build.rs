//! The Builder as a user meets it: one way from an empty ledger to a plan, with the built-in agent, and every exit code
//! on it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects"
)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

struct Scratch(tempfile::TempDir);

const CONFIGURATION: &str = "
[agents.\"example@1\"]
kind = \"example\"

[builder]
artifact_types = { site_plan = [\"copy\"] }
";

impl Scratch {
    fn new() -> Scratch {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(folder.path().join("crealeph.toml"), CONFIGURATION).unwrap();
        fs::create_dir(folder.path().join(".crealeph")).unwrap();
        let scratch = Scratch(folder);
        assert_eq!(scratch.run(&["ledger", "init"], "").0, 0);
        scratch
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, args: &[&str], stdin: &str) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
        command.args(args).current_dir(self.path());
        for variable in ["CREALEPH_LEDGER", "CREALEPH_TENANT", "CREALEPH_KEYS"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn json(&self, args: &[&str], stdin: &str) -> (i32, Value) {
        let (code, stdout, stderr) = self.run(args, stdin);
        let value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
        (code, value)
    }

    fn append(&self, lines: &[String]) {
        let (code, _, stderr) = self.run(&["ledger", "append"], &lines.join("\n"));
        assert_eq!(code, 0, "{stderr}");
    }

    fn build(&self, request: &str) -> (i32, Value) {
        self.json(&["build", "-"], request)
    }
}

fn line(kind: &str, key: &str, on: &[&str], more: &str) -> String {
    let ids: Vec<String> = on.iter().map(|key| format!("\"key:{key}\"")).collect();
    format!(
        r#"{{"robotId":"r","module":"m","source":"s","type":"{kind}","state":"final","payload":{{"text":"x"}},"key":"{key}","lineage":{{"dependsOnLedgerIds":[{}]}}{more}}}"#,
        ids.join(",")
    )
}

/// Evidence and what rests on it, under keys that end with `number`.
fn known(number: usize, artifacts: &[&str], more: &str) -> Vec<String> {
    let (signal, fusion) = (format!("signal-{number}"), format!("fusion-{number}"));
    let mut lines = vec![line("signal", &signal, &[], more), line("fusion", &fusion, &[&signal], more)];
    for kind in artifacts {
        lines.push(line(kind, &format!("{kind}-{number}"), &[&signal, &fusion], ""));
    }
    lines
}

fn request(execution: &str, on_partial: &str, dry_run: bool) -> String {
    format!(
        r#"{{"robotId":"r","objective_type":"landing_plan","objective_payload":{{}},"constraints":{{}},"coherence_policy":{{"on_stale":"block","on_partial":"{on_partial}"}},"dryRun":{dry_run},"workflowVersion":"w1","agentVersion":"example@1","attempt":1,"executionId":"{execution}"}}"#
    )
}

#[test]
fn from_an_empty_ledger_to_a_plan() {
    let scratch = Scratch::new();
    let (code, answer) = scratch.build(&request("e-1", "block", true));
    assert_eq!((code, &answer["error"]), (1, &Value::from("SNAPSHOT_EMPTY")));

    scratch.append(&known(1, &["idea"], ""));
    let (code, answer) = scratch.build(&request("e-2", "block", true));
    assert_eq!((code, &answer["blocking_reason"]), (1, &Value::from("COHERENCE_BLOCKED")));
    let (code, why) = scratch.json(&["execution", "why", "e-2"], "");
    assert_eq!((code, &why["rules"][0]["ruleId"]), (0, &Value::from("coherence.partial")));

    let (code, answer) = scratch.build(&request("e-3", "draft_only", false));
    assert_eq!((code, &answer["state"]), (4, &Value::from("cancelled")), "{answer}");
    let drafts = answer["artifacts"].as_array().unwrap().len();
    let (_, listed, _) = scratch.run(&["review", "list"], "");
    assert_eq!(listed.lines().count(), drafts);

    scratch.append(&[line("copy", "copy-1", &["signal-1", "fusion-1"], "")]);
    scratch.append(&[line("playbook", "playbook-1", &["signal-1", "fusion-1"], "")]);
    let (code, answer) = scratch.build(&request("e-4", "block", true));
    assert_eq!((code, &answer["ok"]), (0, &Value::from(true)), "{answer}");
    let (code, again) = scratch.build(&request("e-4", "block", true));
    assert_eq!(
        (code, &again["idempotent"], &again["artifacts"]),
        (0, &Value::from(true), &answer["artifacts"])
    );

    let (code, answer) = scratch.build(&request("e-4", "block", false));
    assert_eq!((code, &answer["error"]), (6, &Value::from("IDEMPOTENCY_CONFLICT")));
    let (code, _) = scratch.build(&request("e-5", "block", true).replace("example@1", "nobody"));
    assert_eq!(code, 6);
    let (_, _, stderr) = scratch.run(&["build", "-"], "{}");
    assert!(stderr.contains("`robotId` is missing"), "{stderr}");

    for execution in ["e-2", "e-3", "e-4"] {
        let (code, replayed) = scratch.json(&["execution", "replay", execution], "");
        assert_eq!((code, &replayed["follows"]), (0, &Value::from(true)), "{replayed}");
        let (code, shown) = scratch.json(&["execution", "show", execution], "");
        assert_eq!((code, shown["events"].as_array().unwrap().len()), (0, 1));
    }
    let (_, listed, _) = scratch.run(&["execution", "list", "--robot", "r"], "");
    assert_eq!(listed.lines().count(), 3);
    assert_eq!(scratch.run(&["execution", "why", "nothing"], "").0, 1);
    assert_eq!(scratch.run(&["ledger", "verify"], "").0, 0);
}

#[test]
fn old_evidence_defers() {
    let scratch = Scratch::new();
    let observed = r#","observedAt":"2020-01-01T00:00:00Z""#;
    scratch.append(&known(1, &["idea", "copy", "playbook"], observed));
    let (code, answer) = scratch.build(&request("e-1", "block", false));
    assert_eq!((code, &answer["state"]), (3, &Value::from("cancelled")));
    let reason = answer["coherence"]["reason"].as_str().unwrap();
    assert!(reason.contains("signalsAt is older"), "{reason}");
    let (_, why) = scratch.json(&["execution", "why", "e-1"], "");
    assert!(why["rules"][0]["toChange"][0].as_str().unwrap().contains("signalsAt"), "{why}");
}

#[test]
fn a_backtest_lists_what_would_flip() {
    let scratch = Scratch::new();
    scratch.append(&known(1, &["idea", "copy", "playbook"], ""));
    assert_eq!(scratch.build(&request("e-1", "block", true)).0, 0);
    fs::write(scratch.path().join("same.toml"), "[thresholds]\nmin_confidence = 0.4\n").unwrap();
    fs::write(scratch.path().join("strict.toml"), "[thresholds]\nmin_lineage_count = 50\n").unwrap();
    let backtest = |file: &str| scratch.run(&["policy", "backtest", "--thresholds", file], "");
    let (code, stdout, _) = backtest("same.toml");
    let totals: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &totals["decisions"], &totals["flips"]), (0, &Value::from(1), &Value::from(0)));
    let (code, stdout, stderr) = backtest("strict.toml");
    let first: Value = serde_json::from_str(stdout.lines().next().unwrap()).unwrap();
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert_eq!(
        (&first["flips"][0]["from"], &first["flips"][0]["to"]),
        (&Value::from("ALLOW"), &Value::from("DEFER"))
    );
    let since = ["policy", "backtest", "--thresholds", "strict.toml", "--since", "9999-01-01T00:00:00Z"];
    assert_eq!(scratch.run(&since, "").0, 0);
}

#[test]
fn a_draft_has_one_verdict() {
    let scratch = Scratch::new();
    scratch.append(&known(1, &["idea"], ""));
    let (_, answer) = scratch.build(&request("e-1", "draft_only", false));
    let draft = |number: usize| answer["artifacts"][number]["id"].as_str().unwrap().to_owned();
    let (first, second) = (draft(0), draft(1));
    let verdict = |word: &str, id: &str, why: &str| {
        scratch.run(&["review", word, id, "--by", "ana", "--reason", why], "")
    };
    let (code, stdout, stderr) = verdict("approve", &first, "good");
    assert_eq!(code, 0, "{stderr}");
    let approved: Value = serde_json::from_str(&stdout).unwrap();
    let planned = approved["planned"].as_str().unwrap();
    let (_, entry) = scratch.json(&["ledger", "get", planned], "");
    assert_eq!(entry["state"], "planned");
    let lineage = entry["lineage"]["dependsOnLedgerIds"].as_array().unwrap();
    assert!(lineage.contains(&Value::from(first.as_str())) && lineage.contains(&approved["review"]));
    let (_, again, _) = verdict("approve", &first, "good");
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((&again["idempotent"], &again["planned"]), (&Value::from(true), &approved["planned"]));
    let (code, _, stderr) = verdict("reject", &first, "bad");
    assert!(code == 1 && stderr.contains("has a verdict already"), "{stderr}");
    assert_eq!(verdict("reject", &second, "bad").0, 0);
    let (code, _, stderr) = verdict("approve", planned, "twice");
    assert!(code == 1 && stderr.contains("only drafts"), "{stderr}");
    let (_, listed, _) = scratch.run(&["review", "list"], "");
    assert_eq!(listed.lines().count(), answer["artifacts"].as_array().unwrap().len() - 2);
}

#[test]
fn a_configuration_that_cannot_be_used_says_why() {
    let scratch = Scratch::new();
    let wrong = CONFIGURATION.replace("\"copy\"", "\"poem\"");
    fs::write(scratch.path().join("crealeph.toml"), wrong).unwrap();
    let (code, _, stderr) = scratch.run(&["build", "-"], &request("e", "block", true));
    assert!(code == 2 && stderr.contains("`poem`"), "{stderr}");
}
