//! The Builder as a user meets it: one way from an empty ledger to a plan, with the built-in agent, and every exit code
//! on it.

#![cfg(test)]

mod scratch;

use scratch::{Scratch, known, line, request};
use serde_json::Value;

const CONFIGURATION: &str = "
[agents.\"example@1\"]
kind = \"example\"

[builder]
artifact_types = { site_plan = [\"copy\"] }
";

fn scratch() -> Scratch {
    Scratch::with_ledger(CONFIGURATION)
}

#[test]
fn from_an_empty_ledger_to_a_plan() {
    let scratch = scratch();
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
fn the_newest_execution_is_meant_where_none_is_named() {
    let scratch = scratch();
    let printed = |args: &[&str]| {
        let run = scratch.command(args).env("CREALEPH_OUTPUT", "text").output().unwrap();
        let text = [run.stdout, run.stderr].concat();
        (run.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    scratch.write("request.json", &request("e-1", "block", true));
    let (code, text) = printed(&["build", "request.json"]);
    assert!(code == 1 && text.contains("SNAPSHOT_EMPTY"), "{text}");
    assert!(!text.contains("execution why"), "nothing was recorded that could be asked about: {text}");
    let (code, text) = printed(&["execution", "why"]);
    assert!(code == 1 && text.contains("no execution of this tenant yet"), "{text}");

    scratch.append(&known(1, &["idea"], ""));
    for execution in ["e-1", "e-2"] {
        scratch.write("request.json", &request(execution, "block", true));
        let (code, text) = printed(&["build", "request.json"]);
        assert!(code == 1 && text.contains(&format!("crealeph execution why {execution}")), "{text}");
    }
    for task in ["show", "why", "replay"] {
        let (code, text) = printed(&["execution", task]);
        assert!(code == 0 && text.contains("e-2") && !text.contains("e-1"), "{task}: {text}");
        let (code, text) = printed(&["execution", task, "--robot", "other"]);
        assert!(code == 1 && text.contains("no execution"), "{task}: {text}");
    }
    let (code, why) = scratch.json(&["execution", "why"], "");
    assert_eq!((code, &why["executionId"]), (0, &Value::from("e-2")));
    let (code, text) = printed(&["execution", "why", "--attempt", "7"]);
    assert!(code == 1 && text.contains("no record of attempt 7"), "{text}");
}

#[test]
fn an_export_is_read_from_standard_input_too() {
    let scratch = scratch();
    scratch.append(&known(1, &["idea"], ""));
    scratch.build(&request("e-1", "block", true));
    let (_, export, _) = scratch.run(&["ledger", "export"], "");
    let (code, why) = scratch.json(&["execution", "why", "--from", "-"], &export);
    assert_eq!((code, &why["executionId"]), (0, &Value::from("e-1")), "{why}");
}

#[test]
fn a_ledger_in_a_folder_above_is_pointed_at() {
    let scratch = scratch();
    let inside = scratch.path().join("a/b");
    std::fs::create_dir_all(&inside).unwrap();
    let run = scratch.command(&["snapshot", "r"]).current_dir(&inside).output().unwrap();
    let printed = String::from_utf8(run.stderr).unwrap();
    let above = scratch.path().canonicalize().unwrap();
    assert!(printed.contains(&format!("there is one in `{}`\nhint: go to", above.display())), "{printed}");
    let run = scratch.command(&["doctor"]).current_dir(&inside).output().unwrap();
    let looked_at: Value = serde_json::from_slice(&run.stdout).unwrap();
    let ledger = looked_at.as_array().unwrap().iter().find(|it| it["name"] == "ledger").unwrap();
    assert_eq!(
        (&ledger["present"], &ledger["needed"]),
        (&Value::from(false), &Value::from(false)),
        "{ledger}"
    );
    assert!(ledger["advice"].as_str().unwrap().contains(&above.display().to_string()), "{ledger}");
}

#[test]
fn old_evidence_defers() {
    let scratch = scratch();
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
    let scratch = scratch();
    scratch.append(&known(1, &["idea", "copy", "playbook"], ""));
    assert_eq!(scratch.build(&request("e-1", "block", true)).0, 0);
    scratch.write("same.toml", "[thresholds]\nmin_confidence = 0.4\n");
    scratch.write("strict.toml", "[thresholds]\nmin_lineage_count = 50\n");
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
    let scratch = scratch();
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
    let scratch = scratch();
    for (from, to, expected) in [
        ("\"copy\"", "\"poem\"", "[builder]: the artifact type `poem` is not known here"),
        ("artifact_types", "artifact_tipes", "did you mean `artifact_types`?"),
        ("[builder]", "[bilder]", "the section `bilder` is not known here; did you mean `builder`?"),
        ("[builder]", "[ledger]\nlocatoin = \"x\"\n[builder]", "did you mean `location`?"),
        (
            "[builder]",
            "[tenants.local.robots.r.builder]\nagents = [\"nobody\"]\n[builder]",
            "the agent `nobody`",
        ),
    ] {
        scratch.write("crealeph.toml", &CONFIGURATION.replace(from, to));
        let (code, _, stderr) = scratch.run(&["build", "-"], &request("e", "block", true));
        assert!(code == 2 && stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_robot_goes_by_its_own_tables_and_the_record_says_by_which() {
    let scratch = scratch();
    scratch.know();
    let version = |execution: &str| {
        let (_, shown) = scratch.json(&["execution", "show", execution], "");
        shown["records"][0]["payload"]["configurationVersion"].as_str().unwrap().to_owned()
    };
    assert_eq!(scratch.build(&request("e-1", "block", true)).0, 0);
    assert_eq!(scratch.build(&request("e-2", "block", true)).0, 0);
    assert_eq!(version("e-1"), version("e-2"));
    let tables = "[tenants.local.robots.r.builder]\nthresholds = { min_lineage_count = 50 }\n";
    scratch.write("crealeph.toml", &format!("{CONFIGURATION}{tables}"));
    let (code, answer) = scratch.build(&request("e-3", "block", true));
    assert_eq!((code, &answer["state"]), (3, &Value::from("cancelled")));
    assert_ne!(version("e-1"), version("e-3"));
    let other = tables.replace("robots.r.", "robots.q.");
    scratch.write("crealeph.toml", &format!("{CONFIGURATION}{other}"));
    assert_eq!(scratch.build(&request("e-4", "block", true)).0, 0);
    assert_eq!(version("e-1"), version("e-4"), "another robot's table changes nothing here");
    scratch.write("elsewhere.toml", &format!("{CONFIGURATION}{tables}"));
    let elsewhere = ["build", "-", "--config", "elsewhere.toml"];
    assert_eq!(scratch.json(&elsewhere, &request("e-5", "block", true)).0, 3);
    scratch.write("lax.toml", "[thresholds]\nmin_lineage_count = 1\n");
    let lax = [&elsewhere[..], &["--rules", "lax.toml"]].concat();
    assert_eq!(scratch.json(&lax, &request("e-6", "block", true)).0, 0);
    let none = tables.replace("thresholds = { min_lineage_count = 50 }", "agents = []");
    scratch.write("crealeph.toml", &format!("{CONFIGURATION}{none}"));
    let (code, _, stderr) = scratch.run(&["build", "-"], &request("e-7", "block", true));
    assert!(code == 6 && stderr.contains("there is no agent `example@1`"), "{stderr}");
}

#[test]
fn a_request_can_be_made_of_flags() {
    let scratch = scratch();
    scratch.know();
    let flags = ["build", "--robot", "r", "--objective", "landing_plan", "--agent", "example@1"];
    let build = |more: &[&str]| scratch.run(&[&flags[..], more].concat(), "");
    let (code, stdout, _) = build(&["--dry-run", "--payload", r#"{"goal":"sell"}"#]);
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &answer["state"]), (0, &Value::from("succeeded")));
    let execution = answer["executionId"].as_str().unwrap();
    let (_, shown) = scratch.json(&["execution", "show", execution], "");
    let request = &shown["records"][0]["payload"]["request"];
    assert_eq!(request["objective_payload"]["goal"], "sell");
    assert_eq!((&request["attempt"], &request["dryRun"]), (&Value::from(1), &Value::from(true)));
    let named = ["--execution-id", "e-1", "--on-partial", "draft_only", "--workflow", "w9"];
    let (_, first, _) = build(&named);
    let (_, again, _) = build(&named);
    assert!(
        first.contains("\"idempotent\":false") && again.contains("\"idempotent\":true"),
        "{first}{again}"
    );
    for (more, expected_code, words) in [
        (&["--payload", "[]"][..], 2, "`[]` is not a JSON object"),
        (&["--attempt", "0"][..], 6, "attempt"),
        (&["--on-partial", "maybe"][..], 6, "on_partial"),
        (&["request.json"][..], 2, "cannot be used with"),
    ] {
        let (code, _, stderr) = build(more);
        assert!(code == expected_code && stderr.contains(words), "{more:?}: {code} {stderr}");
    }
    let (code, _, stderr) = scratch.run(&["build", "--robot", "r"], "");
    assert!(code == 2 && stderr.contains("--objective"), "{stderr}");
}

#[test]
fn an_export_is_enough_to_replay_and_to_ask_other_rules() {
    let scratch = scratch();
    scratch.know();
    assert_eq!(scratch.build(&request("e-1", "block", true)).0, 0);
    assert_eq!(scratch.run(&["ledger", "export", "log.jsonl"], "").0, 0);
    std::fs::remove_dir_all(scratch.path().join(".crealeph")).unwrap();
    let from = ["--from", "log.jsonl"];
    let ask = |args: &[&str]| scratch.json(&[args, &from[..]].concat(), "");
    let (code, replayed) = ask(&["execution", "replay", "e-1"]);
    assert_eq!((code, &replayed["follows"]), (0, &Value::from(true)), "{replayed}");
    assert_eq!(ask(&["execution", "why", "e-1"]).1["decision"], "ALLOW");
    assert_eq!(ask(&["execution", "show", "e-1"]).1["events"].as_array().unwrap().len(), 1);
    scratch.write("strict.toml", "[thresholds]\nmin_lineage_count = 50\n");
    let backtest = [&["policy", "backtest", "--thresholds", "strict.toml"][..], &from[..]].concat();
    assert_eq!(scratch.run(&backtest, "").0, 1);
    // What was changed since is not what the hashes say, and is not asked.
    let log = std::fs::read_to_string(scratch.path().join("log.jsonl")).unwrap();
    scratch.write("log.jsonl", &log.replacen("\"decision\":\"ALLOW\"", "\"decision\":\"DEFER\"", 1));
    let (code, _, stderr) = scratch.run(&[&["execution", "replay", "e-1"][..], &from[..]].concat(), "");
    assert!(code == 1 && stderr.contains("does not match its leaf hash"), "{stderr}");
    let (code, _, stderr) = scratch.run(&["execution", "replay", "e-1", "--from", "absent.jsonl"], "");
    assert!(code == 2 && stderr.contains("there is no file `absent.jsonl`"), "{stderr}");
}

#[test]
fn a_robots_status_says_what_would_help_in_which_order() {
    let scratch = scratch();
    let status = || scratch.json(&["robot", "status", "r"], "").1;
    let made = |status: &Value| -> Vec<String> {
        let steps = status["steps"].as_array().unwrap();
        steps.iter().map(|step| step["make"].as_str().unwrap().to_owned()).collect()
    };
    let empty = status();
    assert_eq!(empty["coherence"], Value::Null);
    assert_eq!(made(&empty), ["signal", "fusion", "idea", "copy", "benchmark", "playbook"]);
    scratch.append(&known(1, &["idea"], ""));
    scratch.build(&request("e-1", "draft_only", false));
    let partial = status();
    assert_eq!(partial["coherence"]["status"], "partial");
    assert_eq!(made(&partial), ["copy", "benchmark", "playbook"]);
    assert_eq!(partial["steps"][0]["byAnyOf"], serde_json::json!(["copywriter.run"]));
    let modules = partial["latest"].as_array().unwrap();
    let builder = modules.iter().find(|module| module["module"] == "agent-builder").unwrap();
    assert_eq!(
        (&builder["state"], &builder["why"]),
        (&Value::from("cancelled"), &Value::from("PARTIAL_REQUIRES_REVIEW"))
    );
    assert!(partial["draftsWaiting"].as_u64().unwrap() > 0);
    for kind in ["copy", "playbook"] {
        scratch.append(&[line(kind, &format!("{kind}-1"), &["signal-1", "fusion-1"], "")]);
    }
    let coherent = status();
    assert_eq!((made(&coherent).len(), &coherent["coherence"]["status"]), (0, &Value::from("coherent")));
    scratch.append(&[line("signal", "signal-2", &[], "")]);
    let stale = status();
    assert_eq!(stale["coherence"]["status"], "stale");
    let is = |name: &str| {
        let actions = stale["actions"].as_array().unwrap();
        actions.iter().find(|action| action["action"] == name).unwrap()["is"].as_str().unwrap().to_owned()
    };
    assert_eq!((is("builder.run"), is("ideator.run")), ("blocked".to_owned(), "allowed".to_owned()));
    assert_eq!(made(&stale)[..2], ["idea", "copy"]);
}
