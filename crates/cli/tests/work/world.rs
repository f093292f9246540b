//! A new workspace, and items whose description is the script that the agent runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::work::RunReader;
use crealeph_workspace::{Registry, Workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The agents `agent-1` to `agent-3` run the item's description as a shell script.
pub(crate) const AGENTS: &str = r#"
[work.agents.one]
agent_id = "agent-1"
command = ["sh", "-c", "{prompt}"]

[work.agents.two]
agent_id = "agent-2"
command = ["sh", "-c", "{prompt}"]

[work.agents.three]
agent_id = "agent-3"
command = ["sh", "-c", "{prompt}"]
"#;

pub(crate) struct World {
    folder: TempDir,
}

/// The result of a run of the command.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) lines: Vec<Value>,
    pub(crate) stderr: String,
}

impl Ran {
    /// The line of an item.
    pub(crate) fn of(&self, id: &str) -> &Value {
        let line = self.lines.iter().find(|line| line["id"] == id);
        line.unwrap_or_else(|| panic!("no line of {id}: {:?} {}", self.lines, self.stderr))
    }
}

impl World {
    /// A workspace with a few files.
    pub(crate) fn new() -> World {
        let world = World::with(AGENTS);
        world.write("a.txt", "one\ntwo\nthree\n");
        world.write("src/b.txt", "b\n");
        world
    }

    /// An empty workspace with a configuration.
    pub(crate) fn with(configuration: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let world = World { folder };
        fs::create_dir(world.root()).unwrap();
        world.write("crealeph.toml", configuration);
        world
    }

    /// The folder that the workspace is in.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| format!("{path}: {error}"))
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("-C")
            .arg(self.root())
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A repository with everything committed.
    pub(crate) fn init_git(&self) {
        self.git(&["init", "-q", "-b", "main", "."]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "start"]);
    }

    /// The state hash, as the workspace itself reports it.
    pub(crate) fn state(&self) -> String {
        let state = self.folder.path().join("state/crealeph");
        Registry::open(&state).unwrap().claim(&self.root().canonicalize().unwrap()).unwrap();
        let workspace = Workspace::open(&self.root()).unwrap();
        workspace.recover().unwrap();
        workspace.snapshot().unwrap().state().hash().to_string()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
        command
            .args(arguments)
            .current_dir(self.root())
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("CREALEPH_TRUST", "1")
            .env("USER", "ana")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn crealeph(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The short form of a run's id, as messages have it.
    pub(crate) fn short(&self, run: &Value) -> String {
        let run = Uuid::parse(run.as_str().unwrap()).unwrap();
        RunReader::open(&self.root()).unwrap().short(&run)
    }

    /// Writes the items next to the workspace.
    pub(crate) fn items(&self, items: &[Value]) -> String {
        let path = self.folder.path().join("items.json");
        fs::write(&path, serde_json::to_string(items).unwrap()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs items.
    pub(crate) fn run(&self, items: &[Value], flags: &[&str]) -> Ran {
        let path = self.items(items);
        let output = self.crealeph(&[&["work", "run", &path], flags].concat());
        ran(&output)
    }

    /// Runs one item and gives its line.
    pub(crate) fn run_one(&self, item: Value) -> Value {
        let ran = self.run(&[item], &[]);
        assert_eq!(ran.lines.len(), 1, "{}", ran.stderr);
        let line = ran.lines.into_iter().next().unwrap();
        assert_eq!(ran.code, i32::from(line["status"] != "success"), "{line}");
        self.check(&line);
        line
    }

    /// What holds of every RunResult: its contract, its receipt, and that it can be verified.
    pub(crate) fn check(&self, line: &Value) {
        let mut result = line.clone();
        for beside in ["id", "last_lines"] {
            result.as_object_mut().unwrap().remove(beside);
        }
        let path = self.folder.path().join("result.json");
        fs::write(&path, result.to_string()).unwrap();
        let valid = self.crealeph(&["validate", "run-result", path.to_str().unwrap()]);
        assert!(valid.status.success(), "{result}: {}", String::from_utf8_lossy(&valid.stdout));
        let receipt = line["receipt_path"].as_str().unwrap();
        assert!(Path::new(receipt).is_absolute());
        let verified = self.crealeph(&["work", "verify", receipt]);
        let printed = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status.success(), "{printed}{}", String::from_utf8_lossy(&verified.stderr));
    }

    pub(crate) fn receipt(&self, line: &Value) -> Value {
        serde_json::from_slice(&fs::read(line["receipt_path"].as_str().unwrap()).unwrap()).unwrap()
    }
}

pub(crate) fn ran(output: &Output) -> Ran {
    let text = String::from_utf8_lossy(&output.stdout);
    Ran {
        code: output.status.code().unwrap_or(-1),
        lines: text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line))).collect(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// An item for `agent-1` whose description is the script to run.
pub(crate) fn item(id: &str, script: &str) -> Value {
    json!({
        "id": id,
        "agent_id": "agent-1",
        "description": script,
        "dependencies": [],
        "budget": { "time_estimate_ms": 1000, "complexity": "low" },
    })
}

/// The same with more fields.
pub(crate) fn item_with(id: &str, script: &str, more: Value) -> Value {
    let mut item = item(id, script);
    for (key, value) in more.as_object().unwrap() {
        item[key] = value.clone();
    }
    item
}
