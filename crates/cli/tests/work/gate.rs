//! A gate that an agent or its tests wait at until the test opens it: a named pipe that the configuration grants.

use std::path::PathBuf;
use std::process::Command;

use crate::world::AGENTS;

pub(crate) struct Gate {
    folder: tempfile::TempDir,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        let gate = Gate { folder: tempfile::tempdir().unwrap() };
        assert!(Command::new("mkfifo").arg(gate.pipe()).status().unwrap().success());
        gate
    }

    fn pipe(&self) -> PathBuf {
        self.folder.path().join("pipe")
    }

    /// The agents, of which `one` and its tests get to the gate. Its folder would be seen as a copy, with another pipe in it.
    pub(crate) fn agents(&self) -> String {
        let read = format!("read = [\"{}\"]", self.pipe().display());
        let one = AGENTS.replace("agent_id = \"agent-1\"", &format!("agent_id = \"agent-1\"\n{read}"));
        format!("{one}\n[work.agents.one.test]\n{read}\n")
    }

    /// The shell command that waits.
    pub(crate) fn wait(&self) -> String {
        format!("cat {}", self.pipe().display())
    }

    /// Lets one process pass, as soon as it is there.
    pub(crate) fn open(&self) {
        let opened =
            Command::new("timeout").args(["60", "sh", "-c", ": > \"$1\"", "sh"]).arg(self.pipe()).status();
        assert!(opened.unwrap().success(), "nothing waits at the gate");
    }
}
