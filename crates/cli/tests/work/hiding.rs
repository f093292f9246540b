//! What is hidden from an agent and its tests: what `hide` names, unless the current commit has it as it is.

use serde_json::{Value, json};

use crate::retry::retry;
use crate::undo::undo;
use crate::world::{AGENTS, World, item, item_with};

/// A repository with committed files that the default globs name, one of them changed since, and files that are not committed.
fn repository(configuration: &str) -> World {
    let world = World::with(configuration);
    world.write("tests/server.pem", "a certificate for tests\n");
    world.write(".env.example", "KEY=\n");
    world.write("config/.env", "KEY=default\n");
    world.write(".envs/common", "A=1\n");
    world.init_git();
    world.write("config/.env", "KEY=hunter2hunter2\n");
    world.write(".env", "KEY=hunter2hunter2\n");
    world.write(".envs/local", "KEY=hunter2hunter2\n");
    world.write("staged.key", "hunter2hunter2\n");
    world.git(&["add", "staged.key"]);
    world
}

const LIST: &str = "find . -path ./.git -prune -o -type f -print | grep -v seen.txt | sort > seen.txt";

fn hidden(world: &World, line: &Value) -> Value {
    let verified = world.crealeph(&["work", "verify", line["receipt_path"].as_str().unwrap()]);
    let statement: Value = serde_json::from_slice(&verified.stdout).unwrap();
    statement["hidden"].clone()
}

#[test]
fn committed_files_are_seen_and_what_was_changed_or_added_since_is_not() {
    let world = repository(AGENTS);
    let tested =
        json!({ "test_command": "test -e tests/server.pem && test ! -e .env && test ! -e config/.env" });
    let line = world.run_one(item_with("look", LIST, tested));
    assert_eq!(line["status"], "success", "{line}");
    let seen = world.read("seen.txt");
    assert_eq!(
        seen.lines().collect::<Vec<_>>(),
        ["./.env.example", "./.envs/common", "./crealeph.toml", "./tests/server.pem"]
    );
    assert_eq!(
        hidden(&world, &line),
        json!({ "paths": [".env", ".envs/local", "config/.env", "staged.key"] })
    );
}

#[test]
fn a_committed_file_can_be_changed_and_a_hidden_one_cannot() {
    let world = repository(AGENTS);
    // The state before the change is one that was kept already.
    world.run_one(item("before", "echo x > x.txt"));
    let changed = world.run_one(item("example", "echo OTHER= >> .env.example"));
    assert_eq!(changed["status"], "success", "{changed}");
    assert_eq!(world.read(".env.example"), "KEY=\nOTHER=\n");
    let exported = world.at("../exported");
    let export = |run: &Value| {
        let _ = std::fs::remove_dir_all(&exported);
        let run = run["receipt_id"].as_str().unwrap();
        let output = world.crealeph(&["work", "export", run, exported.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let folder = exported.join("runs").join(run);
        let replayed = world.crealeph(&["work", "replay", folder.to_str().unwrap()]);
        assert!(replayed.status.success(), "{replayed:?}");
        serde_json::from_slice::<Value>(&replayed.stdout).unwrap()["withheld"].clone()
    };
    let withheld = [".env", ".envs/common", ".envs/local", "config/.env", "staged.key", "tests/server.pem"];
    assert_eq!(export(&changed), json!(withheld), "not what the run changed");
    for path in ["config/.env", ".env", ".envs/new", ".ENV.example"] {
        let denied = world.run_one(item(&format!("write {path}"), &format!("echo x > {path}")));
        let reason = denied["denial_reason"].as_str().unwrap();
        assert!(reason.starts_with(&format!("Hidden path: {path} ")), "{reason}");
    }
    assert_eq!(world.read("config/.env"), "KEY=hunter2hunter2\n");
}

#[test]
fn a_change_to_a_committed_file_that_a_glob_names_is_undone_and_retried() {
    let world = repository(AGENTS);
    let changed = world.run_one(item("example", "echo OTHER= >> .env.example"));
    assert_eq!(changed["status"], "success", "{changed}");
    // It is not what the commit has now, so an agent no longer sees it; undoing needs no agent.
    let undone =
        undo(&world, &changed, &["--test", "grep -qx KEY= .env.example && ! grep -q OTHER .env.example"]);
    assert_eq!(undone.code, 0, "{} {:?}", undone.stderr, undone.lines);
    world.check(&undone.lines[0]);
    let replayed = world.crealeph(&["work", "replay", undone.lines[0]["receipt_id"].as_str().unwrap()]);
    assert!(replayed.status.success(), "{replayed:?}");
    assert_eq!(world.read(".env.example"), "KEY=\n");
    let bounds = json!({ "constraints": { "max_files": 1 } });
    let denied = world.run_one(item_with("both", "echo OTHER= >> .env.example; echo x > x", bounds));
    assert_eq!(denied["denial_reason"], "Exceeded max files: 2 > 1");
    let landed = retry(&world, &denied, &["--max-files", "2"]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    assert_eq!(world.read(".env.example"), "KEY=\nOTHER=\n");
    assert_eq!(undo(&world, &landed.lines[0], &[]).code, 0);
    assert_eq!(world.read(".env.example"), "KEY=\n");
}

#[test]
fn what_the_configuration_hides_itself_is_hidden_though_it_is_committed() {
    let agent = "[work.agents.one]\nagent_id = \"agent-1\"\ncommand = [\"sh\", \"-c\", \"{prompt}\"]\nhide = [\"**/*.pem\"]\n";
    let world = repository(agent);
    let line = world.run_one(item("look", LIST));
    assert!(!world.read("seen.txt").contains("server.pem"));
    assert_eq!(hidden(&world, &line), json!({ "paths": ["tests/server.pem"] }));
}

#[test]
fn a_link_to_a_hidden_file_stays_hidden_though_the_commit_has_the_link() {
    let world = World::with(AGENTS);
    world.write("secrets/real", "hunter2hunter2\n");
    std::os::unix::fs::symlink("secrets/real", world.at(".env")).unwrap();
    world.write(".gitignore", "secrets\n");
    world.init_git();
    let line = world.run_one(item("look", "if test -L .env; then echo yes; else echo no; fi > seen.txt"));
    assert_eq!((&line["status"], world.read("seen.txt").as_str()), (&json!("success"), "no\n"));
}
