//! Real projects with the toolchains of this machine, wherever they are installed, without a word of configuration.

use std::process::Command;

use crate::world::{AGENTS, Ran, World, item_with};

/// Changes a project so that its tests pass, and runs them.
fn run(world: &World, change: &str, test: &str) -> Ran {
    let limits = serde_json::json!({ "test_command": test });
    world.run(&[item_with("fix", change, limits)], &[])
}

fn assert_green(ran: &Ran) {
    assert_eq!(ran.of("fix")["status"], "success", "{:?} {}", ran.lines, ran.stderr);
}

fn assert_red(ran: &Ran) {
    assert_eq!(ran.of("fix")["status"], "failure", "{:?} {}", ran.lines, ran.stderr);
}

fn rust_project(configuration: &str) -> World {
    let world = World::with(configuration);
    world.write(
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    world.write("src/lib.rs", "pub fn answer() -> u32 { 41 }\n");
    world.write("tests/answer.rs", "#[test]\nfn answers() { assert_eq!(small::answer(), 42) }\n");
    world.write(".gitignore", "target\nCargo.lock\n");
    world
}

#[test]
fn cargo_test_runs_under_rustup() {
    let world = rust_project(AGENTS);
    assert_red(&run(&world, "sed -i s/41/43/ src/lib.rs", "cargo test"));
    assert_green(&run(&world, "cargo --version && sed -i s/41/42/ src/lib.rs", "cargo test"));
    assert!(!world.at("target").exists());
}

#[test]
fn toolchains_can_be_switched_off() {
    let off = AGENTS.replace("command =", "toolchains = false\ncommand =");
    let off = format!("{off}\n[work.agents.one.test]\ntoolchains = false\n");
    let world = rust_project(&off);
    assert_red(&run(&world, "sed -i s/41/42/ src/lib.rs", "cargo test"));
}

#[test]
fn npm_test_runs() {
    let world = World::with(AGENTS);
    world.write(
        "package.json",
        r#"{"name": "small", "version": "1.0.0", "scripts": {"test": "node --test"}}"#,
    );
    world.write("answer.js", "module.exports = 41;\n");
    world.write(
        "answer.test.js",
        "require('node:test')('answers', () => require('node:assert').equal(require('./answer'), 42));\n",
    );
    assert_red(&run(&world, "sed -i s/41/43/ answer.js", "npm test"));
    assert_green(&run(&world, "sed -i s/41/42/ answer.js", "npm test"));
}

#[test]
fn a_virtual_environment_in_the_workspace_works_with_the_interpreter_it_was_made_from() {
    let world = World::with(AGENTS);
    world.write("pyproject.toml", "[project]\nname = \"small\"\nversion = \"1\"\n");
    world.write("answer.py", "ANSWER = 41\n");
    world.write(
        "test_answer.py",
        "import sys, unittest, answer\nclass Answer(unittest.TestCase):\n    def test(self):\n        \
         self.assertEqual(answer.ANSWER, 42)\n        self.assertNotEqual(sys.prefix, sys.base_prefix)\n",
    );
    world.write(".gitignore", ".venv\n__pycache__\n");
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--without-pip", ".venv"]).current_dir(world.root());
    assert!(venv.status().unwrap().success());
    for test in [".venv/bin/python -m unittest", "python -m unittest"] {
        assert_red(&run(&world, "sed -i 's/4.$/43/' answer.py", test));
        assert_green(&run(&world, "sed -i 's/4.$/42/' answer.py", test));
        world.write("answer.py", "ANSWER = 41\n");
    }
}
