//! What tests of the Builder's commands share: a folder with a configuration and a ledger, the command run in it, and
//! the entries and requests that make a story.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A new folder, gone when the test ends.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// An empty folder that agents can reach, as any user.
    pub fn new() -> Scratch {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Scratch(folder)
    }

    /// A folder with this configuration and an empty ledger.
    pub fn with_ledger(configuration: &str) -> Scratch {
        let scratch = Scratch::new();
        scratch.write("crealeph.toml", configuration);
        let (code, _, stderr) = scratch.run(&["ledger", "init"], "");
        assert_eq!(code, 0, "{stderr}");
        scratch
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
        command.args(args).current_dir(self.path());
        for variable in ["CREALEPH_LEDGER", "CREALEPH_TENANT", "CREALEPH_KEYS"] {
            command.env_remove(variable);
        }
        command.env("XDG_STATE_HOME", self.path().join("state")).env("CREALEPH_TRUST", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn spawn(&self, args: &[&str], stdin: &str) -> Child {
        let mut child = self.command(args).spawn().unwrap();
        // A command that refuses at once may have ended before it reads anything.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child
    }

    pub fn run(&self, args: &[&str], stdin: &str) -> (i32, String, String) {
        ended(self.spawn(args, stdin))
    }

    pub fn json(&self, args: &[&str], stdin: &str) -> (i32, Value) {
        let (code, stdout, stderr) = self.run(args, stdin);
        let value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
        (code, value)
    }

    pub fn append(&self, lines: &[String]) {
        let (code, _, stderr) = self.run(&["ledger", "append"], &lines.join("\n"));
        assert_eq!(code, 0, "{stderr}");
    }

    /// Evidence and everything that is based on it.
    pub fn know(&self) {
        self.append(&known(1, &["idea", "copy", "playbook"], ""));
    }

    pub fn build(&self, request: &str) -> (i32, Value) {
        self.json(&["build", "-"], request)
    }

    /// How many entries the ledger holds.
    pub fn entries(&self) -> u64 {
        self.json(&["ledger", "stats", "--json"], "").1["entries"].as_u64().unwrap()
    }
}

/// Waits for a command's end: its exit code (that of a signal is -1), what it printed, what it said.
pub fn ended(child: Child) -> (i32, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// Sends a signal to a process of ours.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// The processes, wherever they run, that have this word among their arguments.
pub fn processes(word: &str) -> usize {
    let has_word = |process: &Path| {
        #[expect(clippy::disallowed_methods, reason = "a process may end while it is looked at")]
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    std::fs::read_dir("/proc").unwrap().filter(|entry| has_word(&entry.as_ref().unwrap().path())).count()
}

/// Waits until something holds, a minute at most.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1_200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("waited a minute for: {what}");
}

pub fn line(kind: &str, key: &str, on: &[&str], more: &str) -> String {
    let ids: Vec<String> = on.iter().map(|key| format!("\"key:{key}\"")).collect();
    format!(
        r#"{{"robotId":"r","module":"m-{kind}","source":"s","type":"{kind}","state":"final","payload":{{"text":"x"}},"key":"{key}","lineage":{{"dependsOnLedgerIds":[{}]}}{more}}}"#,
        ids.join(",")
    )
}

/// Evidence and what is based on it, under keys that end with `number`.
pub fn known(number: usize, artifacts: &[&str], more: &str) -> Vec<String> {
    let (signal, fusion) = (format!("signal-{number}"), format!("fusion-{number}"));
    let mut lines = vec![line("signal", &signal, &[], more), line("fusion", &fusion, &[&signal], more)];
    for kind in artifacts {
        lines.push(line(kind, &format!("{kind}-{number}"), &[&signal, &fusion], ""));
    }
    lines
}

pub fn request(execution: &str, on_partial: &str, dry_run: bool) -> String {
    format!(
        r#"{{"robotId":"r","objective_type":"landing_plan","objective_payload":{{}},"constraints":{{}},"coherence_policy":{{"on_stale":"block","on_partial":"{on_partial}"}},"dryRun":{dry_run},"workflowVersion":"w1","agentVersion":"example@1","attempt":1,"executionId":"{execution}"}}"#
    )
}
