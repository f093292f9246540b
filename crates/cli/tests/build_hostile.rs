//! Agents that answer badly, and people who interrupt, through the whole program: each bad answer is one failed event
//! that says exactly why, and an interrupted run is nothing at all.

#![cfg(test)]

mod scratch;

use scratch::{Scratch, ended, processes, request, signal, wait_until};
use serde_json::{Value, json};

/// Answers as the request's constraints want it to.
const AGENT: &str = r#"
import json, os, sys, time
given = json.load(sys.stdin)
good = {"ok": True, "executionId": given["executionId"], "status": "succeeded", "artifacts": [{
    "type": "copy", "payload": {"title": "t"}, "dependsOnLedgerIds": given["allowedLineage"]["dependsOnLedgerIds"][:1],
    "metadata": {"generatedAt": given["snapshotAt"]}}]}
how = given["constraints"]["how"]
text = json.dumps(good)
def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value
if how == "well":
    print(text)
elif how == "two documents":
    print(text + text)
elif how == "half a document":
    sys.stdout.write(text[:len(text) // 2])
elif how == "a gigabyte":
    for _ in range(1024):
        sys.stdout.write(" " * (1 << 20))
elif how == "nested deep":
    good["artifacts"][0]["payload"]["deep"] = deep(200)
    print(json.dumps(good))
elif how == "fenced":
    print("```json\n" + text + "\n```")
elif how == "empty":
    pass
elif how == "not UTF-8":
    sys.stdout.buffer.write(text.encode().replace(b'"t"', b'"\xff"'))
elif how == "invented lineage":
    good["artifacts"][0]["dependsOnLedgerIds"] = ["led-900"]
    print(json.dumps(good))
elif how == "extra keys":
    good["confidence"] = 1
    print(json.dumps(good))
elif how == "another execution":
    good["executionId"] = "e-other"
    print(json.dumps(good))
elif how == "ok against status":
    good["ok"] = False
    print(json.dumps(good))
elif how == "crash":
    print("out of ideas", file=sys.stderr)
    sys.exit(3)
elif how == "killed":
    os.kill(os.getpid(), 9)
elif how == "timeout":
    time.sleep(3600)
elif how == "blocked":
    print(json.dumps({"ok": False, "executionId": given["executionId"], "status": "blocked",
        "error": {"code": "NO_BRAND", "message": "the brand is unknown"}}))
elif how == "another type":
    good["artifacts"][0]["type"] = "playbook"
    print(json.dumps(good))
elif how == "one bad of two":
    good["artifacts"].append({**good["artifacts"][0], "payload": 7})
    print(json.dumps(good))
"#;

fn scratch() -> Scratch {
    let scratch = Scratch::with_ledger(
        "[agents.'a@1']\nkind = 'process'\ncommand = ['python3', 'agent.py']\n\
         [agents.'slow@1']\nkind = 'process'\ncommand = ['python3', 'agent.py']\ntimeout_ms = 2000\n",
    );
    scratch.write("agent.py", AGENT);
    scratch.know();
    scratch
}

fn asking(execution: &str, how: &str, agent: &str) -> String {
    let constraints = format!("\"constraints\":{{\"how\":\"{how}\"}}");
    let text = request(execution, "block", false).replace("\"constraints\":{}", &constraints);
    text.replace("example@1", agent)
}

#[test]
fn every_bad_answer_is_one_failed_event_that_says_why() {
    let scratch = scratch();
    let cases = [
        ("two documents", "a second value follows the document"),
        ("half a document", "ends"),
        ("a gigabyte", "bytes"),
        ("nested deep", "128"),
        ("fenced", "the answer is fenced with ```"),
        ("empty", "the answer is empty"),
        ("not UTF-8", "UTF-8"),
        ("invented lineage", "`led-900` is not in the input's allowedLineage"),
        ("extra keys", "`confidence`"),
        ("another execution", "/executionId"),
        ("ok against status", "/ok"),
        ("crash", "the agent ended with exit code 3; standard error ends with: out of ideas"),
        ("killed", "the agent was ended by signal 9"),
        ("timeout", "2000 ms"),
        ("blocked", "the agent answered `blocked`: NO_BRAND: the brand is unknown"),
        ("another type", "`playbook`"),
        ("one bad of two", "/artifacts/1/payload"),
    ];
    for (how, expected) in cases {
        let execution = format!("e {how}");
        let agent = if how == "timeout" { "slow@1" } else { "a@1" };
        let before = scratch.entries();
        let (code, answer) = scratch.build(&asking(&execution, how, agent));
        assert_eq!(code, 5, "{how}: {answer}");
        let expected_answer = json!({
            "ok": false, "executionId": execution, "state": "failed", "coherence": answer["coherence"],
            "artifacts": [], "error": "MODEL_OUTPUT_INVALID", "idempotent": false,
        });
        assert_eq!(answer, expected_answer, "{how}");
        assert_eq!(scratch.entries(), before + 2, "{how}: the event and its record");
        let (_, shown) = scratch.json(&["execution", "show", &execution], "");
        assert_eq!((&shown["others"], shown["records"].as_array().unwrap().len()), (&json!([]), 1), "{how}");
        let error = &shown["events"][0]["payload"]["error"];
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!("MODEL_OUTPUT_INVALID"), &json!(true)),
            "{how}"
        );
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(expected) && message.len() < 5_000, "{how}: {message}");
        let (code, again) = scratch.build(&asking(&execution, how, agent));
        assert_eq!((code, &again["idempotent"], scratch.entries()), (5, &json!(true), before + 2), "{how}");
    }
    // The next attempt of such an execution may succeed.
    let retry = asking("e crash", "well", "a@1").replace("\"attempt\":1", "\"attempt\":2");
    let (code, answer) = scratch.build(&retry);
    assert_eq!((code, &answer["state"]), (0, &Value::from("planned")));
    assert_eq!(scratch.run(&["ledger", "verify"], "").0, 0);
}

/// A word that the agent's processes of one test have among their arguments, and no one else's.
fn sleeper(scratch: &Scratch) -> String {
    let word = scratch.path().file_name().unwrap().to_str().unwrap().to_owned();
    scratch.write("sleeper.py", "import os, sys, time\nos.fork()\nsys.stdin.read()\ntime.sleep(3600)\n");
    let table = format!("[agents.'a@1']\nkind = 'process'\ncommand = ['python3', 'sleeper.py', '{word}']\n");
    scratch.write("crealeph.toml", &table);
    word
}

#[test]
fn an_interrupted_run_writes_nothing_and_leaves_no_process() {
    for (name, expected) in [("-INT", 130), ("-TERM", 130), ("-KILL", -1)] {
        let scratch = scratch();
        let word = sleeper(&scratch);
        let before = scratch.entries();
        let text = asking("e-1", "well", "a@1");
        let running = scratch.spawn(&["build", "-"], &text);
        wait_until("the agent and its child run", || processes(&word) >= 2);
        signal(&running, name);
        let (code, stdout, stderr) = ended(running);
        assert_eq!((code, stdout.as_str()), (expected, ""), "{name}: {stderr}");
        assert!(name == "-KILL" || stderr.contains("nothing was written"), "{name}: {stderr}");
        // A process that is killed cannot wait for the others; they end anyway.
        wait_until("every process of the agent is gone", || processes(&word) == 0);
        assert_eq!(scratch.entries(), before, "{name}");
        let agent = "[agents.'a@1']\nkind = 'process'\ncommand = ['python3', 'agent.py']\n";
        scratch.write("crealeph.toml", agent);
        let (code, answer) = scratch.build(&text);
        assert_eq!((code, &answer["idempotent"]), (0, &json!(false)), "{name}: {answer}");
    }
}
