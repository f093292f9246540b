//! A workspace with runs that were sealed, without any agent: the facts are made up, everything else is real.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crealeph_contracts::attestation::{Admission, SandboxFacts, StatedBounds};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::provenance::LocalUser;
use crealeph_contracts::receipt::{Connection, SandboxStrength, ToolCall};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{Amount, Count, Name, RobotId, Text, TimeoutMs};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::AgentId;
use crealeph_contracts::{Valid, WorkItem};
use crealeph_runtime::work::receipt::{
    DeltaLists, ReceiptFacts, RunFile, SealError, SealedReceipt, Signer, seal,
};
use crealeph_workspace::{Capsule, DIFF_ALGORITHM, Registry, Workspace, changes_between};
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) folder: TempDir,
    /// The user's own.
    pub(crate) state: TempDir,
    pub(crate) workspace: Workspace,
    previous: Option<Blake3>,
    runs: u8,
}

impl World {
    pub(crate) fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kept.txt"), "one\ntwo\n").unwrap();
        std::fs::write(folder.path().join("gone.txt"), "gone\n").unwrap();
        let state = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        Registry::open(&state.path().join("crealeph")).unwrap().claim(&root).unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        World { state, folder, workspace, previous: None, runs: 0 }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn keys(&self) -> PathBuf {
        self.at(".crealeph/ledger.db.keys")
    }

    pub(crate) fn signer(&self) -> Signer {
        Signer::open(&self.at(".crealeph"), &self.keys()).unwrap()
    }

    pub(crate) fn rotate(&self) -> Signer {
        Signer::rotate(&self.at(".crealeph"), &self.keys()).unwrap()
    }

    /// A run that did this, with its receipt written where runs are.
    pub(crate) fn run(&mut self, act: impl FnOnce(&Path)) -> (PathBuf, SealedReceipt) {
        let before = self.workspace.snapshot().unwrap();
        self.workspace.keep(before.state()).unwrap();
        act(self.folder.path());
        let after = self.workspace.snapshot().unwrap();
        self.workspace.keep(after.state()).unwrap();
        let changes = changes_between(before.state(), after.state());
        let capsule = Capsule::of_changes(before.state(), changes.clone()).unwrap();
        assert_eq!(capsule.after().hash(), after.state().hash());
        let facts = ReceiptFacts {
            before: before.state().hash().digest(),
            after: after.state().hash().digest(),
            changes,
            ..self.facts()
        };
        self.write(&facts).unwrap()
    }

    /// A run that failed.
    pub(crate) fn failure(&mut self) -> (PathBuf, SealedReceipt) {
        self.failure_printing("ok \u{1f980}\n").unwrap()
    }

    /// A run that failed, and what its tests printed.
    pub(crate) fn failure_printing(&mut self, log: &str) -> Result<(PathBuf, SealedReceipt), SealError> {
        let (error, test_log) = (Text::new("Tests failed"), Some(log.to_owned()));
        let facts = ReceiptFacts { status: RunStatus::Failure, error, test_log, ..self.facts() };
        self.write(&facts)
    }

    /// Goes on from an earlier run, as someone would who forks the chain.
    pub(crate) fn rewind(&mut self, run: &Path) {
        let receipt: serde_json::Value =
            serde_json::from_slice(&std::fs::read(run.join("RECEIPT.json")).unwrap()).unwrap();
        self.previous = Blake3::parse(receipt["receipt_hash"].as_str().unwrap());
    }

    fn write(&mut self, facts: &ReceiptFacts) -> Result<(PathBuf, SealedReceipt), SealError> {
        let sealed = seal(facts, &self.signer(), self.workspace.store())?;
        let folder = self.at(".crealeph/runs").join(facts.id.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        for RunFile { name, bytes, is_executable } in &sealed.files {
            let mode = if *is_executable { 0o755 } else { 0o644 };
            let mut options = std::fs::File::options();
            let file = std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), mode);
            file.open(folder.join(name)).unwrap().write_all(bytes).unwrap();
        }
        self.previous = Some(sealed.receipt.receipt_hash);
        Ok((folder, sealed))
    }

    fn facts(&mut self) -> ReceiptFacts {
        self.runs += 1;
        let state = self.workspace.snapshot().unwrap().state().hash().digest();
        let item = r#"{"id":"wi-42","agent_id":"agent-3","description":"fix it","dependencies":[],"budget":{"time_estimate_ms":1,"complexity":"low"}}"#;
        let item = Valid::<WorkItem>::parse(item.as_bytes(), &Limits::default()).unwrap().into_inner();
        let count = |number| Count::new(number).unwrap();
        ReceiptFacts {
            id: Uuid::from_bytes([self.runs; 16]),
            item: Some(item),
            agent_id: AgentId::parse("agent-3").unwrap(),
            started_at: Timestamp::parse("2026-03-04T06:00:00.000Z").unwrap(),
            finished_at: Timestamp::parse("2026-03-04T06:00:02.250Z").unwrap(),
            status: RunStatus::Success,
            error: None,
            before: state,
            after: state,
            changes: Vec::new(),
            proof_artifacts: Vec::new(),
            deltas: DeltaLists::default(),
            diff_algorithm: DIFF_ALGORITHM,
            tool_trace: vec![ToolCall {
                at: None,
                tool: Name::parse("Edit").unwrap(),
                input: JsonObject::parse(r#"{"path":"kept.txt"}"#),
            }],
            tokens_used: Amount::new(1200.0),
            cost_usd: Amount::new(0.0125),
            test_log: Some("ok \u{1f980}\n".to_owned()),
            strength: SandboxStrength::Full,
            sandbox: Some(SandboxFacts {
                strength: SandboxStrength::Full,
                layers: [Name::parse("seccomp").unwrap()].into_iter().collect(),
                missing: Default::default(),
            }),
            bounds: Some(StatedBounds {
                max_files: count(10),
                max_tool_ops: count(50),
                max_delta_size: count(100),
                timeout_ms: TimeoutMs::new(300_000).unwrap(),
                max_tokens: None,
                max_cost_usd: None,
                allowed_paths: None,
                denied_paths: Default::default(),
                max_laws: None,
                max_invariants: None,
                max_projections: None,
                max_others: None,
                hosts: [Name::parse("models.example:443").unwrap()].into_iter().collect(),
                private_hosts: None,
            }),
            admission: Some(Admission {
                admitted: true,
                reason: None,
                files_touched: count(2),
                tool_ops: count(1),
                delta_size: count(2),
                run_hash: Some(Blake3::of(b"run")),
            }),
            merged: Vec::new(),
            commit: None,
            connections: vec![Connection {
                host: Name::parse("models.example:443").unwrap(),
                allowed: true,
                reason: None,
            }],
            connections_left_off: 0,
            agent: None,
            started_by: Some(LocalUser {
                user: Name::parse("ana").unwrap(),
                host: Name::parse("desk").unwrap(),
                key: None,
            }),
            verdicts: Vec::new(),
            hidden: None,
            earlier_run: None,
            previous: self.previous,
            robot: RobotId::parse("work").unwrap(),
            lineage: Vec::new(),
            beside: Vec::new(),
        }
    }

    pub(crate) fn crealeph(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_crealeph"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("XDG_STATE_HOME", self.state.path())
            .output()
            .unwrap()
    }

    /// The exit code of `crealeph work verify --json`, and what it says.
    pub(crate) fn verify(&self, arguments: &[&str]) -> (i32, serde_json::Value) {
        let ran = self.crealeph(&[&["work", "verify", "--json"], arguments].concat());
        let text = if ran.stdout.is_empty() { &ran.stderr } else { &ran.stdout };
        let text = String::from_utf8_lossy(text);
        let last = text.lines().last().unwrap_or_default();
        let printed = serde_json::from_str(last).unwrap_or_else(|_| panic!("{text}"));
        (ran.status.code().unwrap(), printed)
    }
}

/// Three things a run may do.
pub(crate) fn change_some(folder: &Path) {
    std::fs::write(folder.join("kept.txt"), "one\n2\n").unwrap();
    std::fs::create_dir(folder.join("new")).unwrap();
    std::fs::write(folder.join("new/a"), [0u8, 1, 2]).unwrap();
    std::fs::remove_file(folder.join("gone.txt")).unwrap();
}
