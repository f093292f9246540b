//! `crealeph agent` as a user meets it; the example agents in other languages pass the kit.

#![cfg(test)]

mod scratch;

use std::path::Path;
use std::process::Output;

use scratch::Scratch;
use serde_json::{Value, json};

/// Copies an example in, as its reader would.
fn copy(scratch: &Scratch, name: &str) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents");
    std::fs::copy(examples.join(name), scratch.path().join(name)).unwrap();
}

fn crealeph(scratch: &Scratch, args: &[&str], stdin: &str) -> Output {
    scratch.spawn(args, stdin).wait_with_output().unwrap()
}

fn check(scratch: &Scratch, args: &[&str]) -> (i32, Value) {
    let ran = crealeph(scratch, &[&["agent", "check", "--json"], args].concat(), "");
    let text = if ran.stdout.is_empty() { &ran.stderr } else { &ran.stdout };
    (ran.status.code().unwrap(), serde_json::from_slice(text).unwrap())
}

fn passes(args: &[&str], file: &str) {
    let scratch = Scratch::new();
    copy(&scratch, file);
    let (code, report) = check(&scratch, args);
    assert_eq!(code, 0, "{report}");
    let inputs = report["inputs"].as_array().unwrap().len();
    assert!(inputs > 40);
    assert_eq!(report["clauses"].as_array().unwrap().len(), 7);
    for clause in report["clauses"].as_array().unwrap() {
        assert_eq!(clause["kept"], json!(inputs), "{clause}");
    }
}

#[test]
fn the_python_example_passes() {
    passes(&["--", "python3", "planner.py"], "planner.py");
}

#[test]
fn the_javascript_example_passes() {
    passes(&["--", "node", "planner.mjs"], "planner.mjs");
}

#[test]
fn the_shell_example_passes() {
    passes(&["--", "./planner.sh"], "planner.sh");
}

#[test]
fn the_built_in_example_passes_by_its_name() {
    let scratch = Scratch::new();
    let (code, error) = check(&scratch, &["example@1"]);
    assert_eq!((code, &error["error"]["code"]), (2, &json!("unknown_agent")));
    assert!(error["error"]["hint"].as_str().unwrap().contains("create one with `crealeph init`"), "{error}");
    scratch.write("crealeph.toml", "[agents.\"example@1\"]\nkind = 'example'\n");
    assert_eq!(check(&scratch, &["example@1"]).0, 0);
    let (code, error) = check(&scratch, &["planner@1"]);
    assert_eq!(code, 2);
    let message = "there is no agent `planner@1` in `crealeph.toml`";
    let expected = json!({ "code": "unknown_agent", "message": message, "hint": "known agents: example@1" });
    assert_eq!(error["error"], expected);
}

#[test]
fn an_agent_that_cannot_be_called_is_not_judged() {
    let scratch = Scratch::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    scratch.write(
        "crealeph.toml",
        &format!(
            "[agents.remote]\nkind = 'http'\nurl = 'http://{closed}/'\n[agents.keyless]\nkind = 'openai'\nmodel = 'm'\n\
             base_url = 'http://{closed}/v1'\nkey = {{ env = 'NO_SUCH_KEY' }}\n"
        ),
    );
    for (args, cause) in [
        (&["--", "nosuchprogram"][..], "cannot start `nosuchprogram`"),
        (&["remote"], "could not be reached"),
        (&["keyless"], "NO_SUCH_KEY"),
    ] {
        let (code, printed) = check(&scratch, args);
        assert_eq!((code, &printed["error"]["code"]), (2, &json!("agent_not_called")), "{printed}");
        assert!(printed["error"]["message"].as_str().unwrap().contains(cause), "{printed}");
    }
}

#[test]
fn faults_of_an_agent_are_reported_by_clause() {
    let scratch = Scratch::new();
    // It answers, but depends on what it likes, and differently each time.
    let program = "import json, os, sys\ngiven = json.load(sys.stdin)\nids = given['allowedLineage']['dependsOnLedgerIds']\n\
        ids = ids + (['led-900'] if len(ids) == 1 else [])\nprint(json.dumps({'ok': True, 'executionId': given['executionId'], \
        'status': 'succeeded', 'artifacts': [{'type': given['allowedArtifactTypes'][0], 'payload': {'title': os.urandom(8).hex()}, \
        'dependsOnLedgerIds': ids, 'metadata': {'generatedAt': given['snapshotAt']}}]}))\n";
    scratch.write("bad.py", program);
    let command = ["--case", "one ", "--", "python3", "bad.py"];
    let (code, report) = check(&scratch, &command);
    assert_eq!(code, 1);
    let expected = json!([
        { "clause": "bounds", "inputs": 2, "kept": 2 },
        { "clause": "R1-R6", "inputs": 2, "kept": 2 },
        { "clause": "boundary/5", "inputs": 2, "kept": 2 },
        { "clause": "boundary/6", "inputs": 2, "kept": 1 },
        { "clause": "R16", "inputs": 2, "kept": 2 },
        { "clause": "success", "inputs": 1, "kept": 1 },
        { "clause": "boundary/7", "inputs": 1, "kept": 0 },
    ]);
    assert_eq!(report["clauses"], expected, "{report}");
    let ran = crealeph(&scratch, &[&["--text", "agent", "check", "--structural"], &command[..]].concat(), "");
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert!(text.contains("boundary/6  kept on 1 of 2 inputs"), "{text}");
    assert!(text.contains("`led-900` is not in the input's allowedLineage"), "{text}");
    assert!(text.contains("    on: one allowed id\n"), "{text}");
    assert!(text.contains("boundary/7  kept on 1 of 1 inputs"), "{text}");
    assert!(text.contains("1 of 2 inputs have no answer to check further"), "{text}");
}

#[test]
fn the_example_agent_is_a_program_that_respects_staleness() {
    let scratch = Scratch::new();
    let inputs = crealeph(&scratch, &["agent", "check", "--inputs", "--case", "stale, dry_run"], "");
    for line in String::from_utf8(inputs.stdout).unwrap().lines() {
        let ran = crealeph(&scratch, &["agent", "example"], line);
        assert_eq!(ran.status.code(), Some(0));
        let output: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(output["status"], "succeeded");
        assert_eq!(crealeph(&scratch, &["agent", "example"], line).stdout, ran.stdout);
        let ran = crealeph(&scratch, &["agent", "example"], &line.replace("\"dry_run\"", "\"execute\""));
        let output: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!((&output["ok"], &output["status"]), (&json!(false), &json!("blocked")));
    }
    let ran = crealeph(&scratch, &["agent", "example"], "{}");
    assert_eq!(ran.status.code(), Some(1));
    assert!(String::from_utf8(ran.stderr).unwrap().contains("`standard input` is not a valid agent-input"));
}

#[test]
fn each_way_to_fail_is_reported_under_its_own_clause() {
    let scratch = Scratch::new();
    let good = "{'ok': True, 'executionId': given['executionId'], 'status': 'succeeded', 'artifacts': [{'type': \
        given['allowedArtifactTypes'][0], 'payload': {}, 'dependsOnLedgerIds': given['allowedLineage']['dependsOnLedgerIds'][:1], \
        'metadata': {'generatedAt': given['snapshotAt']}}]}";
    for (change, clause, judged) in [
        ("sys.exit(3)", "bounds", 1),
        ("print('{'); sys.exit()", "R1-R6", 2),
        ("good['extra'] = 1", "boundary/6", 5),
        ("good['artifacts'][0]['extra'] = 1", "R4", 5),
        ("good['artifacts'][0].pop('metadata')", "boundary/5", 5),
        ("good['artifacts'][0]['type'] = 'poem'", "boundary/5", 5),
        ("good['executionId'] = 'e-other'", "R16", 5),
        ("good['ok'] = False", "R16", 5),
        (
            "good = {**good, 'ok': False, 'status': 'failed', 'artifacts': [], 'error': {'code': 'X', 'message': 'no'}}",
            "success",
            7,
        ),
    ] {
        let program = format!(
            "import json, sys\ngiven = json.load(sys.stdin)\ngood = {good}\n{change}\nprint(json.dumps(good))\n"
        );
        scratch.write("agent.py", &program);
        let (code, report) = check(&scratch, &["--case", "one allowed id", "--", "python3", "agent.py"]);
        assert_eq!(code, 1, "{change}");
        let clauses = report["clauses"].as_array().unwrap();
        let broken: Vec<&str> = clauses
            .iter()
            .filter(|clause| clause["kept"] != clause["inputs"])
            .map(|clause| clause["clause"].as_str().unwrap())
            .collect();
        let expected = if clause == "R4" { "boundary/5" } else { clause };
        assert_eq!(broken, [expected], "{change}: {report}");
        let count = clauses.iter().filter(|clause| clause["inputs"] == 1).count();
        assert_eq!(count, judged, "{change}: {report}");
    }
}
