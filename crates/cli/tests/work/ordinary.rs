//! Work as an ordinary user, also where the tests run as root: another user id in its own folder.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{AGENTS, Ran, item, item_with, ran};

/// In the range that distributions leave to nobody.
pub(crate) const USER: u32 = 65_534;

struct Ordinary {
    folder: tempfile::TempDir,
    /// None where the tests themselves are run by an ordinary user.
    user: Option<u32>,
}

/// Whether root runs the tests: what it creates is its own.
pub(crate) fn is_root() -> bool {
    tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
}

impl Ordinary {
    fn new() -> Ordinary {
        let folder = tempfile::tempdir().unwrap();
        let world = Ordinary { folder, user: is_root().then_some(USER) };
        fs::set_permissions(world.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // The program may be where only root gets to. Another process copies it: a file that this one still had open for
        // writing while another test forks could not be started.
        let copied =
            Command::new("cp").arg(env!("CARGO_BIN_EXE_crealeph")).arg(world.at("crealeph")).status();
        assert!(copied.unwrap().success());
        for folder in ["home", "state", "ws/src"] {
            fs::create_dir_all(world.at(folder)).unwrap();
        }
        for (path, text) in
            [("crealeph.toml", AGENTS), ("a.txt", "one\n"), ("src/b.txt", "b\n"), (".env", "s")]
        {
            fs::write(world.at("ws").join(path), text).unwrap();
        }
        for folder in ["home", "state", "ws"] {
            world.give(&world.at(folder));
        }
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn give(&self, path: &Path) {
        chown(path, self.user, self.user).unwrap();
        if path.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| self.give(&entry.unwrap().path()));
        }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.at("ws")).stdin(Stdio::null());
        command.env("HOME", self.at("home")).env("XDG_STATE_HOME", self.at("state")).env("USER", "ordinary");
        command.env("CREALEPH_TRUST", "1");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.output().unwrap()
    }

    fn crealeph(&self, arguments: &[&str]) -> Ran {
        ran(&self.command(self.at("crealeph"), arguments))
    }

    fn run(&self, item: &Value, flags: &[&str]) -> Ran {
        let path = self.at("items.json");
        fs::write(&path, json!([item]).to_string()).unwrap();
        self.crealeph(&[&["work", "run", path.to_str().unwrap()], flags].concat())
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at("ws").join(path)).unwrap_or_else(|error| format!("{path}: {error}"))
    }
}

#[test]
fn an_ordinary_user_runs_verifies_replays_and_cleans() {
    let world = Ordinary::new();
    let script = "echo x >> a.txt; echo n > n; chmod +x n; rm src/b.txt; test ! -e .env";
    let done = world
        .run(&item_with("w", script, json!({ "test_command": "test -x n && test ! -e src/b.txt" })), &[]);
    let line = done.of("w").clone();
    assert_eq!((done.code, &line["status"]), (0, &json!("success")), "{line} {}", done.stderr);
    assert_eq!((world.read("a.txt"), world.read("n")), ("one\nx\n".to_owned(), "n\n".to_owned()));
    let owner = fs::metadata(world.at("ws/n")).unwrap().uid();
    assert_eq!(owner, fs::metadata(world.at("ws")).unwrap().uid());
    let run = line["receipt_id"].as_str().unwrap();
    let receipt: Value =
        serde_json::from_str(&world.read(&format!(".crealeph/runs/{run}/RECEIPT.json"))).unwrap();
    assert_eq!(receipt["sandbox_strength"], "full", "{receipt}");
    for command in [
        vec!["work", "verify", line["receipt_path"].as_str().unwrap()],
        vec!["work", "replay", run],
        vec!["work", "recover"],
        vec!["work", "clean", "--keep", "0"],
        vec!["work", "verify", line["receipt_path"].as_str().unwrap()],
    ] {
        let done = world.crealeph(&command);
        assert_eq!(done.code, 0, "{command:?}: {} {:?}", done.stderr, done.lines);
    }
}

#[test]
fn what_an_ordinary_users_agent_locks_away_leaves_nothing() {
    let world = Ordinary::new();
    let before = world.run(&item("first", "true"), &[]).of("first")["output_hash"].clone();
    let script = "mkdir d; echo x > d/x; chmod 000 d a.txt src; chmod 500 .; rm -rf src; exit 3";
    let done = world.run(&item("w", script), &[]);
    assert_eq!((done.code, &done.of("w")["status"]), (1, &json!("failure")), "{}", done.stderr);
    assert_eq!(done.of("w")["output_hash"], before);
    assert_eq!((world.read("a.txt"), world.read("src/b.txt")), ("one\n".to_owned(), "b\n".to_owned()));
    assert_eq!(world.run(&item("after", "echo y > y"), &[]).of("after")["status"], "success");
    let leftovers: Vec<_> = fs::read_dir(world.at("ws/.crealeph/runs/owners")).unwrap().collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn an_ordinary_user_delivers_to_a_branch() {
    let world = Ordinary::new();
    let git = |arguments: &[&str]| {
        let names = ["-c", "user.name=o", "-c", "user.email=o@example.com"];
        let output = world.command("git", &[&names[..], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q", "-b", "main", "."]);
    git(&["add", "a.txt", "src"]);
    git(&["commit", "-qm", "start"]);
    let held = world.run(&item("w", "echo x >> a.txt"), &["--publish", "branch:agents/o", "--hold"]);
    let run =
        held.of("w")["run"].as_str().unwrap_or_else(|| panic!("{:?} {}", held.lines, held.stderr)).to_owned();
    let approved = world.crealeph(&["work", "approve", &run, "--reason", "good"]);
    assert_eq!(approved.code, 0, "{} {:?}", approved.stderr, approved.lines);
    assert_eq!(git(&["show", "agents/o:a.txt"]), "one\nx\n");
    assert_eq!(world.read("a.txt"), "one\n");
}

#[test]
fn an_ordinary_user_retries_and_undoes() {
    let world = Ordinary::new();
    let script = "echo x >> a.txt; echo n > n; chmod +x n; mkdir d; echo d > d/d; chmod 500 d";
    let denied = world.run(&item_with("w", script, json!({ "constraints": { "max_files": 2 } })), &[]);
    let run = denied.of("w")["receipt_id"].as_str().unwrap();
    assert_eq!(denied.of("w")["denial_reason"], "Exceeded max files: 3 > 2", "{}", denied.stderr);
    let landed = world.crealeph(&["work", "retry", run, "--max-files", "3"]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    assert_eq!((world.read("a.txt"), world.read("d/d")), ("one\nx\n".to_owned(), "d\n".to_owned()));
    let undone = world.crealeph(&["work", "undo", landed.lines[0]["receipt_id"].as_str().unwrap()]);
    assert_eq!(undone.code, 0, "{} {:?}", undone.stderr, undone.lines);
    assert_eq!(world.read("a.txt"), "one\n");
    assert!(!world.at("ws/n").exists() && !world.at("ws/d/d").exists());
    let path = undone.lines[0]["receipt_path"].as_str().unwrap();
    assert_eq!(world.crealeph(&["work", "verify", path]).code, 0);
}
