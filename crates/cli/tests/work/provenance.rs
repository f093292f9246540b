//! Who and what stands behind a run, as its signed statement says, and the outcome of the connections it asked for.

use std::fs;
use std::process::Command;

use crealeph_contracts::digest::Blake3;
use serde_json::{Value, json};

use crate::world::{World, item, ran};

const SCRIPT: &str = "echo '{\"model\":\"model-one\"}' >> $CREALEPH_TRACE\necho '{\"model\":\"model-two\",\"tokens_used\":5}' >> $CREALEPH_TRACE\necho done > done.txt\n";

/// The statement of a run, as its verifier shows it.
fn verified(world: &World, run: &Value) -> Value {
    let folder = world.at(".crealeph/runs").join(run.as_str().unwrap());
    let output = world.crealeph(&["work", "verify", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn blake3_of(path: impl AsRef<std::path::Path>) -> String {
    Blake3::of(&fs::read(path).unwrap()).to_string()
}

#[test]
fn the_statement_names_program_version_models_and_who_started_it() {
    let world = World::with(
        r#"
        [work.agents.fixer]
        agent_id = "agent-1"
        command = ["sh", "agent.sh", "pin=123456", "{prompt}"]
        version = ["-c", "echo; echo 'shell 1.2'; echo more"]
        secrets = ["PIN"]
        "#,
    );
    world.write("agent.sh", SCRIPT);
    let items = world.items(&[item("it", "Do it")]);
    let ran = ran(&world.command(&["work", "run", &items]).env("PIN", "123456").output().unwrap());
    assert_eq!(ran.code, 0, "{:?}", ran.lines);
    let statement = verified(&world, &ran.of("it")["receipt_id"]);
    let path = std::env::var_os("PATH").unwrap();
    let program = std::env::split_paths(&path).map(|folder| folder.join("sh")).find(|sh| sh.is_file());
    let program = program.unwrap().canonicalize().unwrap();
    let script = world.at("agent.sh").canonicalize().unwrap();
    assert_eq!(
        statement["agent"],
        json!({
            "name": "fixer",
            "command": ["sh", "agent.sh", "pin=[redacted]", "{prompt}"],
            "program": program,
            "program_blake3": blake3_of(&program),
            "version": "shell 1.2",
            "scripts": [{ "path": script, "hash": blake3_of(&script) }],
            "models": ["model-one", "model-two"],
        })
    );
    let started_by = &statement["startedBy"];
    assert_eq!(started_by["user"], printed("id", &["-un"]));
    assert_eq!(started_by["host"], printed("uname", &["-n"]));
    assert!(started_by["key"].as_str().unwrap().starts_with("SHA256:"), "{started_by}");
    assert_eq!(statement.get("verdicts"), None);
}

#[test]
fn a_verdict_is_in_the_statement_of_its_run() {
    let world = World::new();
    for (id, command, word) in [("yes", "approve", "approved"), ("no", "reject", "rejected")] {
        let held = world.run(&[item(id, &format!("echo {id} > {id}.txt"))], &["--hold"]);
        assert_eq!(held.code, 3, "{}", held.stderr);
        let run = &held.of(id)["run"];
        let decided =
            world.crealeph(&["work", command, run.as_str().unwrap(), "--by", "eva", "--reason", "read it"]);
        assert_eq!(decided.status.code(), Some(0));
        let statement = verified(&world, run);
        let verdict = &statement["verdicts"][0];
        assert_eq!(
            (&verdict["decision"], &verdict["by"], &verdict["reason"]),
            (&json!(word), &json!("eva"), &json!("read it"))
        );
        assert_eq!(verdict["account"], statement["startedBy"]);
        assert_eq!(statement["agent"]["name"], "one", "it is kept while the change is held");
    }
}

/// Asks the proxy for tunnels to hosts.
const CONNECT: &str = r#"
import os, socket, sys, urllib.parse
proxy = urllib.parse.urlparse(os.environ["HTTPS_PROXY"])
for host in sys.argv[1:]:
    with socket.create_connection((proxy.hostname, proxy.port)) as s:
        s.sendall(f"CONNECT {host} HTTP/1.1\r\n\r\n".encode())
        s.recv(100)
"#;

fn connecting(hosts: &[&str], more: &str) -> World {
    let world = World::with(&format!(
        "[work.agents.one]\nagent_id = \"agent-1\"\ncommand = [\"sh\", \"-c\", \"{{prompt}}\"]\npresets = [\"python\"]\nnetwork = {hosts:?}\n{more}\n"
    ));
    world.write("connect.py", CONNECT);
    world
}

#[test]
fn the_reason_of_a_refused_connection_is_a_word_of_its_own() {
    let world = connecting(&["localhost:10", "127.0.0.1:9", "nowhere.invalid:443"], "");
    let hosts = "other.example:443 localhost:10 127.0.0.1:9 nowhere.invalid:443";
    let line = world.run_one(item("it", &format!("python3 connect.py {hosts}; echo done > done.txt")));
    assert_eq!(line["status"], "success", "{line}");
    let expected = [
        ("other.example:443", "not_granted"),
        ("localhost:10", "private_address"),
        ("127.0.0.1:9", "unreachable"),
        ("nowhere.invalid:443", "unresolved"),
    ];
    let expected = expected.map(|(host, reason)| json!({ "host": host, "allowed": false, "reason": reason }));
    assert_eq!(world.receipt(&line)["connections"], json!(expected));
}

#[test]
fn a_receipt_says_how_many_connections_it_does_not_list() {
    let world = connecting(&["127.0.0.1:9"], "");
    for (id, count, left_off) in [("at", 1000, Value::Null), ("past", 1001, json!(1))] {
        let script = format!("python3 connect.py $(yes a:1 | head -n {count}); echo {id} > {id}.txt");
        let line = world.run_one(item(id, &script));
        assert_eq!(line["status"], "success", "{line}");
        let receipt = world.receipt(&line);
        assert_eq!(receipt["connections"].as_array().unwrap().len(), 1000);
        assert_eq!(receipt["connections_left_off"], left_off);
    }
}

#[test]
fn a_name_leads_to_a_private_address_if_that_is_granted_and_never_to_loopback() {
    // The resolver takes `10.1` for 10.0.0.1, so it is a name for a private address on every machine.
    let hosts = ["10.1:9", "localhost:10"];
    for granted in ["", "allow_private = true"] {
        let world = connecting(&hosts, granted);
        let script = format!("python3 connect.py {}; echo done > done.txt", hosts.join(" "));
        let line = world.run_one(item("it", &script));
        let receipt = world.receipt(&line);
        // Whether something answers there differs from machine to machine.
        let is_refused = receipt["connections"][0]["reason"] == "private_address";
        assert_eq!(is_refused, granted.is_empty(), "{receipt}");
        assert_eq!(receipt["connections"][1]["reason"], "private_address", "{receipt}");
    }
}
