//! Answers good, clumsy and hostile: each bad one ends with its exact reason.

use crealeph_contracts::scalar::Version;
use crealeph_sandbox::Cancel;
use serde_json::{Value, json};

use crate::world::{Case, World, identity, input, output, reason};

pub(crate) const CASES: &[Case] = &[
    ("a_good_answer_is_judged_and_recorded", good),
    ("answers_that_break_the_contract_say_where", broken_contract),
    ("answers_that_are_no_document_say_why", no_document),
    ("too_much_output_is_cut_and_told", too_much),
    ("a_crash_quotes_the_end_of_standard_error", crash),
    ("a_timeout_ends_the_agent", timeout),
    ("a_call_that_is_cancelled_ends", cancelled),
    ("the_example_agent_needs_no_sandbox", example),
];

/// Calls an agent that prints these bytes, whatever it is asked.
fn printing(bytes: &[u8]) -> String {
    let world = World::new();
    std::fs::write(world.path().join("said"), bytes).unwrap();
    let call = world.call("kind = 'process'\ncommand = ['cat', 'said']");
    assert_eq!(identity(&call)["sandbox"], "full");
    reason(&call).to_owned()
}

fn changed(change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut output = output();
    change(&mut output);
    output.to_string().into_bytes()
}

fn good() {
    let world = World::new();
    let program = format!(
        "import json, sys\ninput = json.load(sys.stdin)\noutput = json.loads({:?})\n\
         output['executionId'] = input['executionId']\nprint('hello', file=sys.stderr)\nprint(json.dumps(output))\n",
        output().to_string()
    );
    let call = world.python(&program, "");
    let answer = call.answer.as_ref().unwrap();
    assert_eq!(answer.execution_id.as_str(), "exec-001");
    assert_eq!(call.tokens_used, Some(3.0));
    assert_eq!(call.diagnostics, "hello\n");
    let expected = json!({
        "name": "a@1", "kind": "process", "command": ["python3", "agent.py"], "sandbox": "full", "hosts": [],
    });
    assert_eq!(identity(&call), expected);
}

fn broken_contract() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 10] = [
        (
            "invented lineage",
            |o| o["artifacts"][0]["dependsOnLedgerIds"] = json!(["led-999"]),
            "`led-999` is not in the input's allowedLineage",
        ),
        (
            "no lineage",
            |o| o["artifacts"][0]["dependsOnLedgerIds"] = json!([]),
            "/artifacts/0/dependsOnLedgerIds",
        ),
        ("extra key", |o| o["extra"] = json!("x"), "the key `extra` is not in the contract"),
        (
            "another execution",
            |o| o["executionId"] = json!("exec-002"),
            "the input's executionId is `exec-001`",
        ),
        ("ok against status", |o| o["ok"] = json!(false), "`ok` must be true when status is `succeeded`"),
        (
            "failed but ok",
            |o| {
                o["status"] = json!("failed");
            },
            "`ok` must be false when status is `failed`",
        ),
        ("no artifacts", |o| o["artifacts"] = json!([]), "must hold at least one artifact"),
        (
            "type not allowed",
            |o| o["artifacts"][0]["type"] = json!("copy"),
            "`copy` is not among the allowed artifact types: task, site_plan",
        ),
        ("null", |o| o["error"] = json!(null), "null is not absence"),
        (
            "many",
            |o| {
                for at in 0..9 {
                    o[format!("key{at}")] = json!(at);
                }
            },
            "; and 4 more",
        ),
    ];
    for (name, change, expected) in cases {
        let reason = printing(&changed(change));
        assert!(reason.starts_with("the answer breaks its contract: "), "{name}: {reason}");
        assert!(reason.contains(expected), "{name}: {reason}");
    }
}

fn no_document() {
    let whole = output().to_string();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (format!("{whole}\n{whole}").into_bytes(), "a second value follows the document"),
        (whole.as_bytes()[..whole.len() / 2].to_vec(), "ends"),
        (Vec::new(), "the answer is empty"),
        (b" \n\t ".to_vec(), "the answer is empty"),
        (format!("```json\n{whole}\n```").into_bytes(), "the answer is fenced with ```"),
        (format!("Here you are:\n{whole}").into_bytes(), "the answer breaks its contract"),
        (
            changed(|o| o["diagnostics"] = json!({ "a": "@" }))
                .iter()
                .map(|b| if *b == b'@' { 0xff } else { *b })
                .collect(),
            "UTF-8",
        ),
        ("[".repeat(100_000).into_bytes(), "128"),
        (format!("{{\"diagnostics\":{}", "{\"a\":".repeat(100_000)).into_bytes(), "128"),
        (b"[]".to_vec(), "expected an object"),
        (format!("\u{feff}{whole}").into_bytes(), "byte order mark"),
        (whole.replacen("{", "{\"ok\":true,", 1).into_bytes(), "appears twice"),
    ];
    for (bytes, expected) in cases {
        let reason = printing(&bytes);
        assert!(reason.contains(expected), "expected `{expected}` in: {reason}");
        assert!(reason.len() <= 4096);
    }
}

fn too_much() {
    let world = World::new();
    let call = world.call(
        "kind = 'process'\ncommand = ['head', '-c', '1073741824', '/dev/zero']\nmax_output_bytes = 1000\n",
    );
    let expected =
        "the answer is 1073741824 bytes or more, 1000 are allowed; shorten it or raise `max_output_bytes`";
    assert_eq!(reason(&call), expected);
    // What a valid document holds beyond the bound is not cut to fit.
    let long = changed(|o| o["diagnostics"] = json!({ "a": "a".repeat(2000) }));
    std::fs::write(world.path().join("said"), &long).unwrap();
    let within = |most: usize| {
        world.call(&format!("kind = 'process'\ncommand = ['cat', 'said']\nmax_output_bytes = {most}\n"))
    };
    assert!(within(long.len()).answer.is_ok());
    let (call, most) = (within(long.len() - 1), format!("{} are allowed", long.len() - 1));
    assert!(reason(&call).contains(&most), "{}", reason(&call));
    let call = world
        .python("import sys\nsys.stderr.write('x' * 5000000)\nsys.exit(1)\n", "max_diagnostics_bytes = 100");
    assert_eq!(call.diagnostics, "x".repeat(100));
}

fn crash() {
    let world = World::new();
    let call = world.python("import sys\nprint('{}')\nsys.exit('no key for the model')\n", "");
    assert_eq!(
        reason(&call),
        "the agent ended with exit code 1; standard error ends with: no key for the model"
    );
    let call = world.call("kind = 'process'\ncommand = ['sh', '-c', 'kill -SEGV $$']\n");
    assert_eq!(reason(&call), "the agent was ended by signal 11; it wrote nothing to standard error");
    let call = world.call("kind = 'process'\ncommand = ['no-such-program']\n");
    assert!(
        reason(&call).starts_with("the agent could not be run: cannot start `no-such-program`"),
        "{}",
        reason(&call)
    );
    assert_eq!(identity(&call)["sandbox"], "not run");
    let long = world.python("import sys\nsys.exit('é' * 100000)\n", "");
    assert!(reason(&long).len() < 1000);
}

fn timeout() {
    let world = World::new();
    // It ignores the polite signal, and so does its child.
    let program = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.fork()\n\
                   print('thinking', file=sys.stderr, flush=True)\ntime.sleep(3600)\n";
    let call = world.python(program, "timeout_ms = 1500");
    assert!(
        reason(&call)
            .starts_with("the agent did not answer within 1500 ms and was ended; standard error ends with: ")
    );
    // An answer that is never finished counts as too much, not as late.
    let call = world.call("kind = 'process'\ncommand = ['yes']\ntimeout_ms = 500\nmax_output_bytes = 1000");
    assert!(reason(&call).contains("1000 are allowed"), "{}", reason(&call));
}

fn cancelled() {
    let world = World::new();
    let agents = world.load("[agents.\"a@1\"]\nkind = 'process'\ncommand = ['sleep', '3600']").unwrap();
    let agent = agents.get(&Version::parse("a@1").unwrap()).unwrap();
    let cancel = Cancel::new().unwrap();
    cancel.cancel();
    let call = agent.call(&input(), &cancel);
    assert_eq!(reason(&call), "the agent was ended because the request was cancelled");
}

fn example() {
    let world = World::new();
    let call = world.call("kind = 'example'");
    let answer = call.answer.as_ref().unwrap();
    let kinds: Vec<&str> =
        answer.artifacts.as_ref().unwrap().as_slice().iter().map(|a| a.kind.as_str()).collect();
    assert_eq!(kinds, ["task", "site_plan"]);
    assert_eq!(call.answer.unwrap().to_json(), world.call("kind = 'example'").answer.unwrap().to_json());
    assert!(!world.path().join("state").exists());
    let call = world.call("kind = 'example'\nmax_output_bytes = 100");
    assert!(reason(&call).contains("100"), "{}", reason(&call));
}
