//! `crealeph report`: what a person who was not there reads, and what of it is proved.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::world::{World, item};

/// An agent's script that leaves markup, backticks, a bidirectional override and an escape sequence wherever it can.
const HOSTILE: &str = "printf '%s\\n' '</pre><script>alert(1)</script>' '`````' > 'b<i>`x`|.md' # </pre><script src=//evil> `````\n# \u{202e}\u{1b}[2J | **bold**";

const PLANNER: &str = r#"
[agents."example@1"]
kind = "example"
"#;

const ENTRIES: &str = r#"{"key":"s","robotId":"shop-17","module":"scout","source":"test","type":"signal","state":"final","payload":{"visits":1180}}
{"key":"f","robotId":"shop-17","module":"fusion","source":"test","type":"fusion","state":"final","payload":{},"lineage":{"dependsOnLedgerIds":["key:s"]}}
"#;

fn text(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// A text without its line breaks.
fn flowed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn report(world: &World, flags: &[&str]) -> (i32, Value) {
    let output = world.crealeph(&[&["report"], flags].concat());
    let read = serde_json::from_slice(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), read.unwrap_or_else(|_| panic!("{} {stderr}", text(&output))))
}

fn world_with_a_hostile_run() -> World {
    let world = World::new();
    let item = json!({ "test_command": "echo tested", "constraints": { "max_files": 3 }, "id": "it",
        "agent_id": "agent-1", "description": HOSTILE, "dependencies": [],
        "budget": { "time_estimate_ms": 1000, "complexity": "low" } });
    let ran = world.run(&[item], &[]);
    assert_eq!(ran.code, 0, "{:?} {}", ran.lines, ran.stderr);
    world
}

#[test]
fn a_report_shows_task_change_tests_and_proof() {
    let world = world_with_a_hostile_run();
    assert!(world.crealeph(&["ledger", "checkpoint"]).status.success());
    let (code, report) = report(&world, &["--run", "it"]);
    assert_eq!(code, 0);
    let run = &report["runs"]["stories"][0];
    assert_eq!(run["status"], "success");
    assert_eq!(run["description"]["text"], HOSTILE);
    assert_eq!(
        run["change"]["files"],
        json!([{ "path": "b<i>`x`|.md", "change": "created", "added": 2, "removed": 0 }])
    );
    assert_eq!(run["tests"]["command"], "echo tested");
    assert_eq!(run["tests"]["output"]["text"], "tested\n");
    assert_eq!(run["admission"]["bounds"][0], json!({ "what": "files", "used": 1, "limit": 3 }));
    assert_eq!(run["proof"]["status"], "verified");
    assert_eq!(run["proof"]["isInCheckpoint"], true);
    assert!(run["proof"]["checkedFiles"].as_array().unwrap().contains(&json!("change.diff")));
    assert_eq!(report["log"]["checkpoint"]["status"], "verified");
    assert_eq!(report["keySource"], "own");
}

#[test]
fn nothing_that_an_agent_wrote_is_markup() {
    let world = world_with_a_hostile_run();
    let html = world.crealeph(&["report", "--format", "html"]);
    let html = text(&html);
    assert!(html.contains("+&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
    for hidden in ["<script", "\u{202e}", "\u{1b}", "src=\"", "href"] {
        assert!(!html.contains(hidden), "{hidden:?}: {html}");
    }
    let markdown = world.crealeph(&["report", "--format", "md"]);
    let markdown = text(&markdown);
    assert!(!markdown.contains(['\u{202e}', '\u{1b}']), "{markdown}");
    // What is outside of fences has no markup but ours.
    let mut fence: Option<&str> = None;
    for line in markdown.lines() {
        match fence {
            None if line.starts_with("```") => fence = Some(line),
            Some(open) if line == open => fence = None,
            None => {
                let plain = line.replace("``b<i>`x`\\|.md``", "").replace("\\<", "");
                assert!(!plain.contains("<script") && !plain.contains("<i>"), "{line}");
            }
            Some(_) => {}
        }
    }
    assert_eq!(fence, None, "{markdown}");
    assert!(markdown.contains("\n``````\n"), "{markdown}");
}

#[test]
fn what_was_altered_is_refused_and_named() {
    let world = world_with_a_hostile_run();
    let mut runs = fs::read_dir(world.at(".crealeph/runs")).unwrap().map(|entry| entry.unwrap().path());
    let folder = runs.find(|path| path.join("RECEIPT.json").exists()).unwrap();
    fs::write(folder.join("change.diff"), "diff --git a/x b/x\n").unwrap();
    let (code, report) = report(&world, &[]);
    assert_eq!(code, 1);
    let proof = &report["runs"]["stories"][0]["proof"];
    assert_eq!(proof["status"], "refused");
    assert!(proof["detail"].as_str().unwrap().contains("change.diff"), "{proof}");
}

#[test]
fn a_report_from_an_export_is_the_same_and_lists_what_it_cannot_know() {
    let world = world_with_a_hostile_run();
    let keep = |arguments: &[&str]| text(&world.crealeph(arguments)).to_owned();
    keep(&["ledger", "checkpoint"]);
    let keys = keep(&["work", "key"]) + &keep(&["ledger", "key"]);
    let elsewhere = World::with("");
    elsewhere.write("saved.key", &keys);
    let export = elsewhere.at("log.export");
    assert!(world.crealeph(&["ledger", "export", export.to_str().unwrap()]).status.success());

    let (code, report) = report(&elsewhere, &["--from", "log.export", "--key", "saved.key"]);
    assert_eq!(code, 0);
    let run = &report["runs"]["stories"][0];
    assert_eq!(run["proof"]["status"], "verified");
    assert_eq!(run["description"]["text"], HOSTILE);
    assert_eq!(run["change"]["files"][0]["path"], "b<i>`x`|.md");
    assert_eq!(run["change"]["diff"], Value::Null);
    assert_eq!(report["log"]["checkpoint"]["status"], "verified");
    assert_eq!(report["origin"], "export");
    let unknown = report["unknown"].to_string();
    assert!(unknown.contains("not their diffs"), "{unknown}");
    assert!(!elsewhere.at(".crealeph").exists(), "a report writes nothing");

    let (code, report) = self::report(&elsewhere, &["--from", "log.export", "--run", "@"]);
    assert_eq!((code, &report["runs"]["stories"][0]["proof"]["status"]), (0, &json!("unproven")));
    let foreign = World::new();
    foreign.run(&[item("x", "true")], &[]);
    let foreign_key = foreign.crealeph(&["work", "key"]);
    elsewhere.write("foreign.key", text(&foreign_key));
    let (code, report) = self::report(&elsewhere, &["--from", "log.export", "--key", "foreign.key"]);
    assert_eq!((code, &report["runs"]["stories"][0]["proof"]["status"]), (1, &json!("refused")));
    let none = elsewhere.crealeph(&["report", "--from", "log.export", "--run", "01"]);
    assert_eq!(none.status.code(), Some(0), "the start of an id");
    let none = elsewhere.crealeph(&["report", "--from", "log.export", "--run", "nothing"]);
    assert_eq!(none.status.code(), Some(1));
}

#[test]
fn many_runs_are_listed_and_the_newest_shown_in_full() {
    let world = World::new();
    for number in 0..3 {
        world.run(&[item(&format!("it-{number}"), &format!("echo {number} > n.txt"))], &[]);
    }
    let (_, listed) = report(&world, &["--limit", "1"]);
    let items: Vec<&Value> =
        listed["runs"]["rows"].as_array().unwrap().iter().map(|row| &row["item"]).collect();
    assert_eq!(items, ["it-2", "it-1", "it-0"]);
    assert_eq!(listed["runs"]["stories"].as_array().unwrap().len(), 1);
    let markdown = world.crealeph(&["report", "--limit", "1", "--format", "md"]);
    assert!(flowed(text(&markdown)).contains("Shown in full: the newest 1; listed only: 2 runs;"));
    let (_, later) = report(&world, &["--since", "2999-01-01"]);
    assert_eq!(later["runs"]["rows"], json!([]));
    let (_, of_robot) = report(&world, &["--robot", "shop-17"]);
    assert_eq!(of_robot["runs"]["rows"], json!([]));
    let (_, of_none) = report(&world, &["--robot", "workspace"]);
    assert_eq!(of_none["runs"]["rows"].as_array().unwrap().len(), 3);
}

#[test]
fn a_huge_diff_is_cut_and_says_so() {
    let world = World::new();
    let ran = world.run(&[item("big", "seq 1 100000 > numbers.txt")], &[]);
    assert_eq!(ran.code, 0, "{:?}", ran.lines);
    let (_, report) = report(&world, &[]);
    let diff = &report["runs"]["stories"][0]["change"]["diff"];
    assert!(diff["text"].as_str().unwrap().len() <= 256 << 10);
    assert!(diff["leftOutBytes"].as_u64().unwrap() > 100_000);
    let html = world.crealeph(&["report", "--format", "html"]);
    assert!(text(&html).contains("more bytes are left out"));
}

#[test]
fn a_report_is_a_new_file_in_the_format_of_its_name() {
    let world = World::new();
    world.run(&[item("it", "echo x > x.txt")], &["--hold"]);
    for (name, start) in
        [("a.html", "<!DOCTYPE html>"), ("a.md", "# CreAleph report"), ("a.json", "{\"madeAt\"")]
    {
        assert_eq!(world.crealeph(&["report", "--output", name]).status.code(), Some(0));
        assert!(world.read(name).starts_with(start), "{name}");
    }
    let held = flowed(&world.read("a.md"));
    assert!(held.contains("it awaits approval, and is as it was when it was held"), "{held}");
    let taken = world.crealeph(&["report", "--output", "a.html"]);
    assert_eq!(taken.status.code(), Some(2));
    assert!(world.read("a.html").starts_with("<!DOCTYPE html>"));
}

#[test]
fn an_execution_is_shown_with_its_evidence() {
    let world = World::with(PLANNER);
    world.write("entries.jsonl", ENTRIES);
    let request = json!({ "robotId": "shop-17", "objective_type": "landing_plan",
        "objective_payload": { "page": "<b>sale</b>" }, "constraints": {},
        "coherence_policy": { "on_stale": "block", "on_partial": "draft_only" }, "dryRun": false,
        "workflowVersion": "1", "agentVersion": "example@1", "attempt": 1, "executionId": "e-1" });
    world.write("request.json", &request.to_string());
    for arguments in [&["ledger", "init"][..], &["ledger", "append", "entries.jsonl"]] {
        assert!(world.crealeph(arguments).status.success());
    }
    world.crealeph(&["build", "request.json"]);
    let (code, report) = report(&world, &["--execution", "e-1"]);
    assert_eq!(code, 0);
    let story = &report["executions"]["stories"][0];
    assert_eq!((&story["robotId"], &story["state"]), (&json!("shop-17"), &json!("cancelled")));
    let attempt = &story["attempts"][0];
    assert_eq!(attempt["decision"], "ALLOW");
    assert_eq!(attempt["rules"][0]["ruleId"], "coherence.partial.draft_only");
    assert_eq!(attempt["replay"]["follows"], true);
    let kinds: Vec<&Value> =
        attempt["evidence"].as_array().unwrap().iter().map(|used| &used["type"]).collect();
    assert_eq!(kinds, ["signal", "fusion"]);
    assert!(attempt["evidence"].as_array().unwrap().iter().all(|used| used["isFresh"] == true));
    assert_eq!(story["artifacts"][0]["state"], "draft");
    assert_eq!(story["artifacts"][0]["approval"]["state"], "waiting");
    let html = world.crealeph(&["report", "--format", "html"]);
    assert!(text(&html).contains("&lt;b&gt;sale&lt;/b&gt;") && !text(&html).contains("<b>"));
    let none = world.crealeph(&["report", "--execution", "e-2"]);
    assert_eq!(none.status.code(), Some(1));

    assert!(world.crealeph(&["ledger", "export", "log.export"]).status.success());
    for list in ["execution", "review"] {
        let own = world.crealeph(&[list, "list"]);
        let exported = world.crealeph(&["--text", list, "list", "--from", "log.export"]);
        assert_eq!(exported.status.code(), Some(0), "{}", String::from_utf8_lossy(&exported.stderr));
        assert!(text(&exported).contains("shop-17"), "{}", text(&exported));
        let exported = world.crealeph(&[list, "list", "--from", "log.export"]);
        assert_eq!(text(&own), text(&exported));
    }
}
