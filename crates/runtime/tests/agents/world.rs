//! A folder with a configuration and programs, and the input that agents are called with.

use std::path::Path;

use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::Version;
use crealeph_contracts::{AgentInput, Valid};
use crealeph_runtime::agents::{Agents, Call, load};
use crealeph_runtime::configuration::{ConfigError, Configuration};
use crealeph_sandbox::Cancel;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A test by its name.
pub(crate) type Case = (&'static str, fn());

/// Everything one test needs, gone when it ends.
pub(crate) struct World {
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        // The agent runs as nobody in particular; it must be able to reach what it is granted.
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        World { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// Loads a configuration of these tables.
    pub(crate) fn load(&self, configuration: &str) -> Result<Agents, ConfigError> {
        self.write("crealeph.toml", configuration);
        load(&Configuration::find(Some(&self.path().join("crealeph.toml")))?, &self.path().join("state"))
    }

    /// Calls the one agent `a@1` of a table.
    pub(crate) fn call(&self, table: &str) -> Call {
        let agents = self.load(&format!("[agents.\"a@1\"]\n{table}")).unwrap();
        let agent = agents.get(&Version::parse("a@1").unwrap()).unwrap();
        agent.call(&input(), &Cancel::new().unwrap())
    }

    /// Calls a Python program.
    pub(crate) fn python(&self, program: &str, more: &str) -> Call {
        self.write("agent.py", program);
        self.call(&format!("kind = 'process'\ncommand = ['python3', 'agent.py']\n{more}"))
    }
}

/// The reason why a call has no answer.
pub(crate) fn reason(call: &Call) -> &str {
    &call.answer.as_ref().expect_err("no answer").reason
}

/// The identity of a call.
pub(crate) fn identity(call: &Call) -> Value {
    serde_json::from_str(call.identity.as_str()).unwrap()
}

pub(crate) fn input() -> Valid<AgentInput> {
    let input = json!({
        "tenantId": "t-001", "robotId": "r-001", "executionId": "exec-001", "attempt": 1,
        "workflowVersion": "v1", "agentVersion": "a@1", "boundaryContractVersion": "v1",
        "runMode": "dry_run", "snapshotAt": "2025-01-19T10:00:00.000Z", "coherenceStatus": "coherent",
        "constraints": { "tone": "calm" },
        "objective": { "type": "site_plan", "action": "plan", "payload": { "site": "example.com" } },
        "intelligenceSnapshot": { "signals": [] },
        "allowedLineage": { "dependsOnLedgerIds": ["led-100", "led-200"] },
        "allowedArtifactTypes": ["site_plan", "task"], "outputSchemaVersion": "v1",
    });
    Valid::parse(input.to_string().as_bytes(), &Limits::default()).unwrap()
}

/// An answer that keeps the contract, to be made worse.
pub(crate) fn output() -> Value {
    json!({
        "ok": true, "executionId": "exec-001", "status": "succeeded",
        "artifacts": [{
            "type": "site_plan", "payload": { "pages": ["home"] }, "dependsOnLedgerIds": ["led-100"],
            "metadata": { "generatedAt": "2025-01-19T10:05:00.000Z", "model": "none", "tokensUsed": 3 },
        }],
    })
}
