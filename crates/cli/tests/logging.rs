//! Logs: none unless enabled, with ids and never payloads or secrets, and each line escaped.

#![cfg(test)]

mod scratch;

use serde_json::Value;

use scratch::Scratch;

const CONFIGURATION: &str = r#"[agents."example@1"]
kind = "example"

[work.agents.fixer]
agent_id = "agent-1"
command = ["sh", "-c", "{prompt}"]
secrets = ["API_KEY"]
"#;

const PAYLOAD: &str = "words-of-a-payload";
const SECRET: &str = "s3cret-value-of-a-variable";

fn entry(robot: &str) -> String {
    format!(
        r#"{{"robotId":"{robot}","module":"m","source":"s","type":"signal","state":"final","payload":{{"p":"{PAYLOAD}"}}}}"#
    )
}

fn request() -> String {
    format!(
        r#"{{"robotId":"robot-7","objective_type":"landing_plan","objective_payload":{{"p":"{PAYLOAD}"}},"constraints":{{}},
        "coherence_policy":{{"on_stale":"block","on_partial":"draft_only"}},"dryRun":false,"workflowVersion":"1",
        "agentVersion":"example@1","attempt":1,"executionId":"e-1"}}"#
    )
}

/// Everything that a command wrote to standard error, with these variables set.
fn stderr(scratch: &Scratch, arguments: &[&str], input: &str, variables: &[(&str, &str)]) -> String {
    scratch.write("input", input);
    let mut command = scratch.command(arguments);
    command.stdin(std::fs::File::open(scratch.path().join("input")).unwrap());
    command.envs(variables.iter().copied()).env("API_KEY", SECRET);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn nothing_is_logged_unless_it_is_asked_for() {
    let scratch = Scratch::with_ledger(CONFIGURATION);
    assert_eq!(stderr(&scratch, &["ledger", "append"], &entry("robot-7"), &[]), "1 appended, 0 repeats\n");
    let quiet = stderr(&scratch, &["ledger", "append"], &entry("robot-7"), &[("CREALEPH_LOG", "")]);
    assert_eq!(quiet, "1 appended, 0 repeats\n");
    let logged = stderr(&scratch, &["ledger", "append", "-v"], &entry("robot-7"), &[]);
    assert!(logged.contains("append{tenant=local count=1"), "{logged}");
}

#[test]
fn logs_have_ids_and_no_payload_or_secret() {
    let scratch = Scratch::with_ledger(CONFIGURATION);
    scratch.know();
    // The user's state is not where agents work.
    std::fs::create_dir(scratch.path().join("ws")).unwrap();
    scratch.write("ws/crealeph.toml", CONFIGURATION);
    let task = format!("echo {PAYLOAD} > file.txt; echo $API_KEY >&2");
    let runs: [(&[&str], String, &[&str]); 4] = [
        (&["ledger", "append", "-vv"], entry("robot-7"), &["append{tenant=local count=1"]),
        (&["build", "-", "-vv"], request(), &["builder_run{tenant=local", "execution=e-1", "attempt=1"]),
        (&["snapshot", "robot-7", "-vv"], String::new(), &["snapshot{tenant=local robot=robot-7"]),
        (
            &["work", "run", "--workspace", "ws", "--agent", "fixer", &task, "-vv"],
            String::new(),
            &["work_run{", "work_item{", "sandbox_run{"],
        ),
    ];
    for (arguments, input, expected) in runs {
        for format in ["text", "json"] {
            let all = [("CREALEPH_LOG", "trace"), ("CREALEPH_LOG_FORMAT", format)];
            let logged = stderr(&scratch, arguments, &input, &all);
            assert!(!logged.contains(PAYLOAD) && !logged.contains(SECRET), "{arguments:?}: {logged}");
        }
        let logged = stderr(&scratch, arguments, &input, &[]);
        assert!(!logged.contains(PAYLOAD) && !logged.contains(SECRET), "{arguments:?}: {logged}");
        for part in expected {
            assert!(logged.contains(part), "`{part}` is not in the log of {arguments:?}:\n{logged}");
        }
    }
}

#[test]
fn what_a_work_item_does_is_logged_within_its_run() {
    let scratch = Scratch::with_ledger(CONFIGURATION);
    scratch.know();
    std::fs::create_dir(scratch.path().join("ws")).unwrap();
    scratch.write("ws/crealeph.toml", CONFIGURATION);
    let arguments = ["work", "run", "--workspace", "ws", "--agent", "fixer", "echo a > file.txt", "-vv"];
    let logged = stderr(&scratch, &arguments, "", &[]);
    let line_of = |span: &str| {
        let line = logged.lines().find(|line| line.contains(span));
        line.unwrap_or_else(|| panic!("`{span}` is not in the log:\n{logged}"))
    };
    assert!(line_of("work_item{").contains("work_run{"), "{logged}");
    let item = line_of("work_item{");
    let run = item.split_once(" run=").unwrap().1.split([' ', '}']).next().unwrap();
    assert!(line_of("publish{").contains(&format!("publish{{run={run}")), "{logged}");
    assert!(line_of("recover{").contains("recover{tenant=local"), "{logged}");
}

#[test]
fn programs_get_json_lines() {
    let scratch = Scratch::with_ledger(CONFIGURATION);
    let variables = [("CREALEPH_LOG", "info,crealeph_ledger=trace"), ("CREALEPH_LOG_FORMAT", "json")];
    let logged = stderr(&scratch, &["ledger", "append"], &entry("robot-7"), &variables);
    let lines: Vec<Value> = logged.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let append = lines.iter().find(|line| line["span"]["name"] == "append");
    assert_eq!(append.unwrap_or_else(|| panic!("{logged}"))["span"]["tenant"], "local");
    assert_eq!(lines.len() + 1, logged.lines().count(), "one note, and the rest is JSON: {logged}");
}

#[test]
fn a_foreign_name_is_escaped() {
    let scratch = Scratch::with_ledger(CONFIGURATION);
    scratch.run(&["ledger", "append"], &entry("robot-\u{202e}7"));
    for format in ["text", "json"] {
        let variables = [("CREALEPH_LOG", "trace"), ("CREALEPH_LOG_FORMAT", format)];
        let logged = stderr(&scratch, &["snapshot", "robot-\u{202e}7"], "", &variables);
        assert!(logged.contains("202e") && !logged.contains('\u{202e}'), "{format}: {logged}");
    }
}

#[test]
fn a_filter_that_cannot_be_read_is_an_error() {
    let scratch = Scratch::new();
    let logged = stderr(&scratch, &["ledger", "list"], "", &[("CREALEPH_LOG", "crealeph=loud")]);
    assert!(
        logged.starts_with("error: `crealeph=loud` is not a filter for CREALEPH_LOG\nhint: "),
        "{logged}"
    );
    let logged = stderr(&scratch, &["ledger", "list", "-v"], "", &[("CREALEPH_LOG_FORMAT", "xml")]);
    assert!(logged.starts_with("error: `xml` is not `text` or `json` for CREALEPH_LOG_FORMAT"), "{logged}");
}
