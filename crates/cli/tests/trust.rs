//! `crealeph trust`: what a person is shown, what is remembered, and what is not asked again. Attacks are in `hostile`.

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Scene {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Scene {
    fn new(configuration: &str) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("ws")).unwrap();
        fs::write(root.join("ws/crealeph.toml"), configuration).unwrap();
        Scene { _folder: folder, root }
    }

    fn ws(&self) -> PathBuf {
        self.root.join("ws")
    }

    fn run_in(&self, folder: &Path, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
        command.args(arguments).current_dir(folder).env("XDG_STATE_HOME", self.root.join("state"));
        command.env("CREALEPH_OUTPUT", "text").env_remove("CREALEPH_TRUST");
        let output = command.output().unwrap();
        let root = self.root.to_str().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(root, "ROOT");
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        self.run_in(&self.ws(), arguments)
    }
}

const CONFIGURATION: &str = r#"
[ledger]
keys = "keys"

[agents."remote@1"]
kind = "http"
url = "https://agents.example.com/plan"
secret_headers = { Authorization = { env = "TOKEN", prefix = "Bearer " } }

[work.agents.fixer]
agent_id = "agent-1"
command = ["sh", "-c", "{prompt}"]
secrets = ["API_KEY"]
network = ["api.example.com:443"]
memory_bytes = 8589934592
max_tokens = 2000
"#;

#[test]
fn everything_that_is_granted_is_on_one_screen() {
    let scene = Scene::new(CONFIGURATION);
    let (code, shown, said) = scene.run(&["trust"]);
    let expected = "\
`ROOT/ws/crealeph.toml` is not trusted yet. It would grant:
  ledger
    keys           keys
  agent `remote@1`
    calls          https://agents.example.com/plan
    secret header  Authorization = { env = \"TOKEN\", prefix = \"Bearer \" }
  work agent `fixer`
    host           api.example.com:443
    max_tokens     2000
    memory_bytes   8589934592
    runs           sh -c {prompt}
    secret         API_KEY
";
    assert_eq!((code, shown.as_str()), (2, expected), "{said}");
    assert_eq!(
        said,
        "error: there is no terminal to ask on\nhint: if you trust it, run `crealeph trust ROOT/ws/crealeph.toml --yes`\n"
    );
    let (code, _, said) = scene.run(&["ledger", "list"]);
    assert_eq!(code, 2);
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(scene.run(&["trust", "--yes"]).0, 0);
    let (_, listed, _) = scene.run(&["trust", "--list"]);
    assert_eq!(listed, "configuration  ROOT/ws/crealeph.toml  (8 grants)\n");
    let (code, shown, said) = scene.run(&["trust"]);
    assert_eq!((code, shown.as_str()), (0, ""), "{said}");
    fs::write(scene.ws().join("crealeph.toml"), CONFIGURATION.replace("max_tokens = 2000", "")).unwrap();
    let (code, shown, _) = scene.run(&["trust"]);
    assert_eq!(code, 2);
    assert_eq!(
        shown,
        "`ROOT/ws/crealeph.toml` grants more than you trusted before. New:\n  no longer: work agent `fixer` max_tokens\n"
    );
    assert_eq!(scene.run(&["trust", "--revoke"]).0, 0);
    assert_eq!(scene.run(&["trust", "--revoke"]).0, 1);
}

#[test]
fn a_command_that_uses_nothing_of_it_asks_nothing() {
    let scene = Scene::new(CONFIGURATION);
    fs::write(scene.ws().join("x.json"), "{}").unwrap();
    for arguments in [
        &["validate", "work-item", "x.json"][..],
        &["schema", "work-item"],
        &["policy", "rules"],
        &["sandbox", "run", "--", "true"],
        &["agent", "check", "--case", "unicode", "--", "false"],
        &["ledger", "init", "--ledger", "own.db", "--keys", "own.keys"],
        &["ledger", "stats", "--ledger", "own.db", "--keys", "own.keys"],
        &["completions", "bash"],
    ] {
        let (_, _, said) = scene.run(arguments);
        assert!(!said.contains("trust"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_folder_from_before_is_adopted_once() {
    let scene = Scene::new("");
    fs::create_dir_all(scene.ws().join(".crealeph/ledger.db.keys")).unwrap();
    fs::create_dir_all(scene.ws().join(".crealeph/runs/01a1e1a7-d5ea-7929-8f1d-8ea291f8a8d6")).unwrap();
    fs::write(scene.ws().join(".crealeph/state-cache"), "x").unwrap();
    let (code, _, said) = scene.run(&["work", "status"]);
    assert!(code == 2 && said.contains("run `crealeph trust --state ROOT/ws`"), "{said}");
    let (code, shown, said) = scene.run(&["trust", "--state"]);
    let expected = "`ROOT/ws/.crealeph` holds 1 file, 1 bytes: 1 run\n  signing keys in `ledger.db.keys`: anyone who has \
                    them can sign as you; remove them unless you created them\n";
    assert_eq!((code, shown.as_str()), (2, expected));
    assert!(said.contains("crealeph trust --state ROOT/ws --yes"), "{said}");
    assert_eq!(scene.run(&["trust", "--state", "--yes"]).0, 0);
    assert_eq!(scene.run(&["work", "status"]).0, 0);
    let moved = scene.root.join("elsewhere");
    fs::rename(scene.ws(), &moved).unwrap();
    assert_eq!(scene.run_in(&moved, &["work", "status"]).0, 0);
    let (_, listed, _) = scene.run_in(&moved, &["trust", "--list"]);
    assert_eq!(listed, "workspace      ROOT/elsewhere\n");
    assert_eq!(scene.run_in(&moved, &["trust", "--state", "--revoke"]).0, 0);
    assert_eq!(scene.run_in(&moved, &["work", "status"]).0, 2);
}
