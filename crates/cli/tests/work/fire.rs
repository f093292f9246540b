//! Atomicity under fire: whatever an agent does, the state afterwards is the one before, or the admitted one.

use std::fs;

use serde_json::json;

use crate::world::{World, item, item_with};

/// Runs a script that must not succeed, and checks that it left nothing.
fn leaves_nothing(script: &str, expected: &str) {
    let world = World::new();
    world.init_git();
    world.write("secret.txt", "mine");
    let before = world.state();
    let line = world.run_one(item_with("w", script, json!({ "constraints": { "timeout_ms": 60_000 } })));
    assert_ne!(line["status"], "success", "{script}: {line}");
    let why = line["denial_reason"].as_str().or(line["error"].as_str()).unwrap();
    assert!(why.contains(expected), "{script}: {why}");
    assert_eq!(world.state(), before, "{script}");
    assert_eq!(world.git(&["status", "--porcelain"]), "?? secret.txt\n", "{script}");
}

#[test]
fn an_agent_that_deletes_the_workspace() {
    leaves_nothing("rm -rf \"$PWD\"/* .git; exit 0", "Denied path: crealeph.toml");
    leaves_nothing("rm -rf ./* ./.[!.]*; exit 1", "exit code 1");
    leaves_nothing("find . -type f -name '*.txt' -delete; exit 7", "exit code 7");
}

#[test]
fn an_agent_that_takes_every_permission_away() {
    leaves_nothing("chmod -R 000 . ; exit 9", "exit code 9");
    leaves_nothing("echo x > x; chmod 000 a.txt src x; exit 9", "exit code 9");
}

#[test]
fn an_agent_that_writes_through_links() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    fs::write(&target, "outside").unwrap();
    let path = target.to_str().unwrap();
    leaves_nothing(&format!("ln -s {path} link; echo x > link; exit 0"), "link");
    leaves_nothing("ln -s ../../../../etc/passwd link; exit 0", "link");
    leaves_nothing("ln -s / root; echo x > root/tmp/x; exit 0", "root");
    assert_eq!(fs::read_to_string(&target).unwrap(), "outside");
}

#[test]
fn an_agent_that_leaves_what_no_state_can_hold() {
    leaves_nothing("mkfifo pipe", "pipe");
    leaves_nothing("touch x; chmod u+s x", "x");
    leaves_nothing("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'", "`s`");
    leaves_nothing("touch \"$(printf 'bad\\377name')\"", "UTF-8");
}

#[test]
fn an_agent_that_hides_its_work_by_ignore_rules() {
    let world = World::new();
    world.init_git();
    let hide = "echo '*' > .gitignore; echo hidden > hidden.txt; echo x >> a.txt";
    let line = world.run_one(item_with("w", hide, json!({ "constraints": { "max_files": 2 } })));
    assert_eq!(line["denial_reason"], "Exceeded max files: 3 > 2");
    let exclude = "mkdir -p .git/info; echo '*' > .git/info/exclude; echo hidden > hidden.txt";
    let line = world.run_one(item("w", exclude));
    assert_eq!(line["denial_reason"], "Denied path: .git/info/exclude");
}

#[test]
fn an_agent_that_leaves_writers_behind() {
    let world = World::new();
    let before = world.state();
    let script = "(setsid sh -c 'while :; do date >> late.txt; done' &) ; (nohup sh -c 'sleep 1; echo x > x' &) ; exit 1";
    let line = world.run_one(item("w", script));
    assert_eq!(line["status"], "failure");
    let after = world.state();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!((after.as_str(), world.state()), (before.as_str(), before.clone()));
}

#[test]
fn an_agent_that_uses_up_what_it_is_given() {
    let world = World::with(
        "[work.agents.one]\nagent_id = \"agent-1\"\ncommand = [\"sh\", \"-c\", \"{prompt}\"]\ndisk_bytes = 1048576\n",
    );
    let line = world.run_one(item("w", "head -c 64000000 /dev/zero > big; sleep 200"));
    assert_eq!(line["status"], "denied", "{line}");
    assert!(line["denial_reason"].as_str().unwrap().contains("disk_bytes"), "{line}");
    assert!(!world.at("big").exists());
}

#[test]
fn the_discarded_change_can_be_looked_at() {
    let world = World::new();
    let line = world.run_one(item("w", "echo four >> a.txt; exit 1"));
    let run = line["receipt_id"].as_str().unwrap();
    let shown = world.crealeph(&["work", "show", run, "--diff"]);
    assert_eq!(world.crealeph(&["work", "diff"]).stdout, shown.stdout, "the newest run is meant");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("+four") && shown.contains("a/a.txt"), "{shown}");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
}
