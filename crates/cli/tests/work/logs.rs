//! `crealeph work logs`: what agent and tests print is there while they run, after a crash and after the end, and no secret is.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::many::{signal, wait_until};
use crate::world::{AGENTS, World, item, item_with, ran};

fn logs(world: &World, arguments: &[&str]) -> String {
    let output = world.crealeph(&[&["work", "logs"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn agent_and_tests_are_printed_in_their_order_and_apart() {
    let world = World::new();
    let script = "echo out; echo err >&2; echo x > new.txt";
    let line =
        world.run_one(item_with("w", script, json!({ "test_command": "echo checked; test -e new.txt" })));
    assert_eq!(line["status"], "success");
    let all = logs(&world, &[]);
    assert!(all.contains("agent | out\n") && all.contains("agent | err\n"), "{all}");
    assert!(all.ends_with("tests | checked\n"), "{all}");
    assert_eq!(logs(&world, &["w", "--tests"]), "checked\n");
    assert_eq!(logs(&world, &["@", "--agent"]).lines().count(), 2);
    let lines = ran(&world.crealeph(&["work", "logs", "--json", "--tests"])).lines;
    let expected = json!({ "source": "tests", "stream": "stdout", "text": "checked", "goes_on": false });
    assert_eq!(lines, [expected]);
    // They are part of what the receipt's statement signs.
    let file = world.at(".crealeph/runs").join(line["receipt_id"].as_str().unwrap()).join("output.0.log");
    fs::write(&file, "agent> forged\n").unwrap();
    let verified = ran(&world.crealeph(&["work", "verify", "@"]));
    assert_eq!(verified.code, 1, "{}", verified.stderr);
}

#[test]
fn a_run_is_followed_until_it_ends() {
    let gate = Gate::new();
    let world = World::with(&gate.agents());
    let path = world.items(&[item("w", &format!("echo first; {}; echo last", gate.wait()))]);
    let mut run = world.command(&["work", "run", &path]).stdout(Stdio::null()).spawn().unwrap();
    wait_until(&world, "w", "running");
    let mut follow = world.command(&["work", "logs", "w", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "agent | first");
    assert!(logs(&world, &["w"]).contains("first"));
    // The agent continues only now: what was printed so far came while it ran.
    gate.open();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(rest, ["agent | last"]);
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert!(follow.wait().unwrap().success());
}

#[test]
fn what_was_printed_before_a_kill_is_there() {
    let world = World::new();
    let path = world.items(&[item("w", "echo one; printf 'no end'; sleep 600")]);
    let mut child = world.command(&["work", "run", &path]).stdout(Stdio::null()).spawn().unwrap();
    wait_until(&world, "w", "running");
    while !logs(&world, &["w"]).contains("no end") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    signal(child.id(), "KILL");
    child.wait().unwrap();
    assert_eq!(logs(&world, &["w", "-f"]), "agent | one\nagent | no end\n");
    let recovered = world.crealeph(&["work", "recover"]);
    assert!(recovered.status.success());
    assert_eq!(logs(&world, &["w"]), "agent | one\nagent | no end\n");
    assert_eq!(ran(&world.crealeph(&["work", "verify", "w"])).code, 0);
}

#[test]
fn a_failure_shows_what_was_printed_last() {
    let world = World::new();
    let script = "for i in $(seq 1 30); do echo line $i; done; echo 'Not logged in'; exit 1";
    let line = world.run_one(item("w", script));
    let last: Vec<&str> = line["last_lines"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!((last.len(), last[0], last[19]), (20, "line 12", "Not logged in"));
    let mut command = world.command(&["work", "run", "--agent", "one", script]);
    let output = command.env("CREALEPH_OUTPUT", "text").output().unwrap();
    let shown = String::from_utf8(output.stderr).unwrap();
    assert!(shown.contains("| line 12\n") && shown.contains("| Not logged in\n"), "{shown}");
    assert!(!shown.contains("line 11\n") && shown.contains("crealeph work logs "), "{shown}");
    let success = world.run_one(item("s", "echo fine; echo x > x"));
    assert_eq!(success["last_lines"], Value::Null);
}

#[test]
fn a_failure_shows_the_words_in_an_event_stream() {
    let world = World::with(
        "[work.agents.talker]\nagent_id = \"agent-1\"\nstream = \"claude\"\ncommand = [\"sh\", \"-c\", \"{prompt}\"]\n",
    );
    let event = r#"{"type":"result","is_error":true,"result":"Not logged in · Please run /login"}"#;
    let script = format!("echo '{{\"type\":\"system\",\"subtype\":\"init\"}}'; echo '{event}'; exit 1");
    let line = world.run_one(item("w", &script));
    assert_eq!(line["last_lines"], json!(["Not logged in · Please run /login"]), "{line}");
}

#[test]
fn a_program_that_is_missing_is_named_with_the_grant_that_provides_it() {
    let world = World::new();
    let line = world.run_one(item("agent", "no-such-tool --x"));
    let error = line["error"].as_str().unwrap();
    assert!(
        error.contains("exit code 127: `no-such-tool` was not found") && error.contains("install it"),
        "{error}"
    );
    world.write("check.sh", "#!/bin/sh\n");
    let tests = json!({ "test_command": "./check.sh" });
    let line = world.run_one(item_with("tests", "echo x > x", tests));
    let error = line["error"].as_str().unwrap();
    assert!(error.contains("exit code 126: `./check.sh` cannot be executed; run `chmod +x"), "{error}");
    let tests = json!({ "test_command": ".venv/bin/python -m pytest" });
    let line = world.run_one(item_with("venv", "echo x > x", tests));
    let error = line["error"].as_str().unwrap();
    assert!(
        error.contains("`.venv/bin/python` was not found") && error.contains("in the workspace"),
        "{error}"
    );
    assert!(line["last_lines"][0].as_str().unwrap().contains(".venv/bin/python: not found"), "{line}");
}

#[test]
fn no_secret_is_in_a_log_and_a_run_denied_for_one_keeps_none() {
    let secret = "s3cr3t-value-of-the-user";
    let agents = AGENTS.replace("[work.agents.two]", "secrets = [\"TOKEN\"]\n[work.agents.two]");
    let world = World::with(&agents);
    let run = |id: &str, script: &str, tests: &str| {
        let path = world.items(&[item_with(id, script, json!({ "test_command": tests }))]);
        ran(&world.command(&["work", "run", &path]).env("TOKEN", secret).output().unwrap())
    };
    // What the agent writes in two parts is printed by the tests, which have no secret.
    let script =
        "echo told $TOKEN; printf %s \"$TOKEN\" | cut -c1-9 > one; printf %s \"$TOKEN\" | cut -c10- > two";
    let tested = run("printed", script, "printf 'a%s%s\\n' $(cat one) $(cat two)");
    assert_eq!(tested.of("printed")["status"], "success", "{:?}", tested.lines);
    let all = logs(&world, &["printed"]);
    assert!(all.contains("agent | told ") && all.contains("tests | a") && !all.contains(secret), "{all}");
    let denied = run("denied", "echo loud; printf %s \"$TOKEN\" > kept.txt", "true");
    assert_eq!(denied.of("denied")["status"], "denied");
    assert_eq!(logs(&world, &["denied"]), "");
    let folder = world.at(".crealeph/runs").join(denied.of("denied")["receipt_id"].as_str().unwrap());
    let names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.starts_with("output.")), "{names:?}");
}

#[test]
fn a_terminal_gets_no_control_character() {
    let world = World::new();
    world.run_one(item("w", "printf 'a\\033]52;c;eA==\\007b\\n'; echo x > x"));
    let mut command = world.command(&["work", "logs"]);
    let shown = command.env("CREALEPH_OUTPUT", "text").output().unwrap().stdout;
    assert_eq!(String::from_utf8(shown).unwrap(), "agent | a\\x1b]52;c;eA==\\x07b\n");
}

#[test]
fn a_long_output_keeps_its_start_and_its_end_and_cleaning_removes_it() {
    let world = World::new();
    world.run_one(item("long", "i=0; seq -f 'number %040g' 1 60000; echo x > x"));
    let all = logs(&world, &["--agent"]);
    assert!(all.starts_with("number 0") && all.trim_end().ends_with("60000"), "{}", all.len());
    assert!(all.contains(" bytes left out …]\n") && all.len() < 5 * (256 << 10), "{}", all.len());
    world.run_one(item("other", "echo y > y"));
    assert!(world.crealeph(&["work", "clean", "--keep", "1"]).status.success());
    assert_eq!(logs(&world, &["long"]), "");
    assert_eq!(ran(&world.crealeph(&["work", "verify", "long"])).code, 0);
}

#[test]
fn a_pending_change_keeps_its_output_until_it_lands() {
    let world = World::new();
    let tests = json!({ "test_command": "echo tested" });
    world.run(&[item_with("w", "echo worked; echo x > x", tests)], &["--hold"]);
    assert_eq!(logs(&world, &["w"]), "agent | worked\ntests | tested\n");
    world.write("other.txt", "moved");
    let decided = ran(&world.crealeph(&["work", "approve", "w", "--reason", "fine"]));
    assert_eq!(decided.code, 0, "{}", decided.stderr);
    assert_eq!(logs(&world, &["w"]), "agent | worked\ntests | tested\ntests | tested\n");
    world.check(&decided.lines[0]);
}
