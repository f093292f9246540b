//! Work in one workspace: where its parts are held together. Owns opening it, settling what an earlier process left, and
//! the writing of every outcome: receipt, result, journal, ledger.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crealeph_contracts::attestation::StatedBounds;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::{Blake3, GitHash};
use crealeph_contracts::entry::Draft;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::{Limits, push_text};
use crealeph_contracts::receipt::SandboxStrength;
use crealeph_contracts::run_result::{AbsolutePath, ArtifactHashes, RunMetrics, RunStatus};
use crealeph_contracts::scalar::{
    Amount, Count, LedgerId, Literal, Name, RobotId, TenantId, Text, TimeoutMs,
};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::AgentId;
use crealeph_contracts::{Receipt, RunResult, WorkItem};
use crealeph_ledger::{AppendError, Ledger, LedgerError};
use crealeph_sandbox::{Config, Sandbox, SandboxError};
use crealeph_workspace::{
    Change, DIFF_ALGORITHM, HeldId, KeepError, Kept, KeptPlace, OpenError, PublishError, SnapshotError,
    Workspace,
};

use super::config::{WorkAgent, WorkConfig};
use super::interrupt::Interrupt;
use super::paths::OutsideWorkspace;
use super::receipt::{Deltas, Facts, ITEM_FILE, RECEIPT_FILE, SealError, Sealed, Signer, SignerError, seal};
use super::run::{Ending, Ran};
use super::store::{Event, Finished, History, Locked, RunFile, Runs, RunsError};

/// The robot of receipts that are bound to none.
const NO_ROBOT: Literal = Literal::new("workspace");
const INTERRUPTED: &str = "the run was interrupted";
/// How much of each output of an agent is kept in its run's folder.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
pub(super) const RESULT_FILE: &str = "result.json";
pub(super) const DIFF_FILE: &str = "change.diff";

/// What work needs besides the workspace itself.
#[derive(Debug)]
pub struct Setup {
    /// The workspace.
    pub workspace: PathBuf,
    /// The agents.
    pub config: WorkConfig,
    /// Where views are kept while they are open.
    pub state_dir: PathBuf,
    /// The ledger that remembers.
    pub ledger: Ledger,
    /// The folder of the signing keys.
    pub keys: PathBuf,
    /// Whose part of the ledger.
    pub tenant: TenantId,
}

/// Why work cannot be done; what a run came to is no error.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The workspace cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its state cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A change could not be settled.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A state could not be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// The runs cannot be kept or read.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// A receipt cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The workspace cannot sign.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// The sandbox's state directory cannot be used.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The ledger did not take a receipt.
    #[error(
        "the run is over and its receipt written, but the ledger did not take it: {0}; `crealeph work recover` tries again"
    )]
    Unrecorded(AppendError),
    /// A path of an item lies elsewhere.
    #[error(transparent)]
    Outside(#[from] OutsideWorkspace),
    /// Nobody is there for an item.
    #[error("item `{item}` is for `{agent}`, and {why}")]
    NoAgent {
        /// The item.
        item: String,
        /// The agent it names.
        agent: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// Two items of a level declare the same output.
    #[error(
        "items `{one}` and `{other}` run side by side and both declare `{path}` in output_files; let one depend on the other"
    )]
    Overlap {
        /// The first by id.
        one: String,
        /// The second.
        other: String,
        /// The path.
        path: String,
    },
    /// The items cannot be planned.
    #[error(transparent)]
    Plan(#[from] crealeph_decision::work::PlanError),
    /// A run does not wait for a verdict.
    #[error("run `{0}` does not wait for a verdict; see `crealeph work status`")]
    NotHeld(String),
    /// A document that this wrote itself cannot be read back.
    #[error("`{}` cannot be read back; restore `.crealeph` from a copy", .0.display())]
    Damaged(PathBuf),
    /// Git did not do what was asked.
    #[error("git could not {action}: {why}")]
    Git {
        /// What was asked.
        action: String,
        /// What it said.
        why: String,
    },
    /// The system's random source failed.
    #[error("no id can be made: {0}")]
    Random(String),
    /// The items belong to several robots.
    #[error("item `{item}` is a task of robot `{own}`, and the others are of `{robot}`; run them apart")]
    Robots {
        /// The item.
        item: String,
        /// Its robot.
        own: String,
        /// The robot of the others.
        robot: String,
    },
    /// What the policy said.
    #[error("the policy did not allow `work.run` for robot `{robot}`: {why}")]
    Policy {
        /// The robot.
        robot: String,
        /// Its decision and reason.
        why: String,
    },
}

impl WorkError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            WorkError::Open(_) | WorkError::Snapshot(_) | WorkError::Publish(_) | WorkError::Keep(_) => {
                "workspace"
            }
            WorkError::Runs(RunsError::Unknown(_)) => "unknown_run",
            WorkError::Runs(_) | WorkError::Damaged(_) => "runs",
            WorkError::Seal(_) | WorkError::Signer(_) => "receipt",
            WorkError::Sandbox(error) => error.code(),
            WorkError::Ledger(error) => error.code(),
            WorkError::Unrecorded(error) => error.code(),
            WorkError::Outside(_) => "outside_workspace",
            WorkError::NoAgent { .. } => "unknown_agent",
            WorkError::Overlap { .. } => "overlap",
            WorkError::Plan(_) => "bad_plan",
            WorkError::NotHeld(_) => "not_held",
            WorkError::Git { .. } => "git",
            WorkError::Random(_) => "random",
            WorkError::Robots { .. } => "several_robots",
            WorkError::Policy { .. } => "policy",
        }
    }
}

/// Work in one workspace.
#[derive(Debug)]
pub struct Work {
    pub(super) workspace: Workspace,
    pub(super) config: WorkConfig,
    pub(super) runs: Runs,
    pub(super) interrupt: Interrupt,
    state_dir: PathBuf,
    full: OnceLock<Sandbox>,
    reduced: OnceLock<Sandbox>,
    pub(super) ledger: Ledger,
    signer: Signer,
    pub(super) tenant: TenantId,
    /// The robot that the runs are bound to.
    pub(super) robot: Option<RobotId>,
}

/// What was settled of an earlier process's work.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Runs whose change was complete, and whose receipt was written now.
    pub completed: Vec<String>,
    /// Runs that left nothing, and have a receipt that says so.
    pub interrupted: Vec<String>,
    /// Publishes that were undone.
    pub undone: usize,
    /// What somebody else wrote meanwhile and where it is now.
    pub kept: Vec<(String, Option<PathBuf>)>,
    /// Receipts that the ledger has now.
    pub recorded: usize,
}

/// What a successful change is, once it is settled what it is committed on.
pub(super) struct Landing {
    pub(super) before: Blake3,
    pub(super) after: Blake3,
    pub(super) changes: Vec<Change>,
    pub(super) commit: Option<(String, GitHash)>,
    /// By which name the journal knows whether it landed.
    pub(super) publish: String,
}

impl Work {
    /// Opens a workspace for work, and settles what an earlier process left.
    ///
    /// # Errors
    /// When something of it cannot be used.
    pub fn open(setup: Setup) -> Result<(Self, Recovered), WorkError> {
        let workspace = Workspace::open(&setup.workspace)?;
        let control = workspace.path().join(".crealeph");
        let signer = Signer::open(&control, &setup.keys)?;
        let runs = Runs::open(workspace.path(), new_id()?.to_string())?;
        let work = Work {
            workspace,
            config: setup.config,
            runs,
            interrupt: Interrupt::default(),
            state_dir: setup.state_dir,
            full: OnceLock::new(),
            reduced: OnceLock::new(),
            ledger: setup.ledger,
            signer,
            tenant: setup.tenant,
            robot: None,
        };
        let recovered = work.recover()?;
        Ok((work, recovered))
    }

    /// The handle that ends everything.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The names of the agents there are.
    pub fn agent_names(&self) -> Vec<String> {
        self.config.agents.keys().cloned().collect()
    }

    /// The agent_id of an agent.
    pub fn agent_id(&self, name: &str) -> Option<AgentId> {
        self.config.agents.get(name).map(|agent| agent.agent_id)
    }

    /// An id for a task that has none.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new_task_id(&self) -> Result<String, WorkError> {
        Ok(new_id()?.to_string())
    }

    /// The workspace.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Settles everything that an earlier process left: publishes, runs, receipts that the ledger lacks.
    ///
    /// # Errors
    /// When something cannot be settled; nothing is lost then, and it can be tried again.
    pub fn recover(&self) -> Result<Recovered, WorkError> {
        let locked = self.runs.lock()?;
        let mut recovered = Recovered::default();
        let history = self.runs.history()?;
        // Whether a publish was complete must be known before recovering clears it away.
        for (run, (publish, finished)) in &history.prepared {
            if self.is_landed(publish) {
                locked.add(&Event::Finished(Box::new(finished.clone())))?;
                recovered.completed.push(run.clone());
            }
        }
        for settled in self.workspace.recover()? {
            recovered.undone += usize::from(settled.outcome == crealeph_workspace::Outcome::RolledBack);
            recovered.kept.extend(settled.kept.into_iter().map(|Kept { path, place }| match place {
                KeptPlace::InPlace => (path, None),
                KeptPlace::Beside(beside) => (path, Some(beside)),
            }));
        }
        let history = self.runs.history()?;
        let held: Vec<&str> = history.held.values().map(|waiting| waiting.publish.as_str()).collect();
        for id in self.workspace.held()? {
            // One that the journal does not tell of was on its way to be held.
            if !held.contains(&id.as_str()) {
                self.workspace.resume(&id)?.discard()?;
            }
        }
        for (run, begun) in &history.begun {
            if !self.runs.is_alive(&begun.owner) {
                self.close_interrupted(&locked, run, begun)?;
                recovered.interrupted.push(run.clone());
            }
        }
        locked.sweep()?;
        recovered.recorded = self.record_missing(&locked)?;
        Ok(recovered)
    }

    /// Whether the change of a run that was about to land is where it was to be.
    fn is_landed(&self, publish: &str) -> bool {
        match publish.strip_prefix("branch:").and_then(|rest| rest.rsplit_once(':')) {
            Some((branch, commit)) => super::branch::holds(self.workspace.path(), branch, commit),
            None => self.workspace.was_published(&HeldId::new(publish)),
        }
    }

    /// Appends receipts that are in no ledger yet.
    fn record_missing(&self, locked: &Locked<'_>) -> Result<usize, WorkError> {
        let history = self.runs.history()?;
        let mut count = 0;
        for finished in &history.finished {
            if history.recorded.contains_key(&finished.run) {
                continue;
            }
            let Some(bytes) = self.runs.read(&finished.run, ENTRY_FILE)? else { continue };
            let limits = Limits { max_bytes: usize::MAX };
            let draft = Draft::parse(&bytes, &limits)
                .map_err(|_| WorkError::Damaged(self.runs.folder(&finished.run).join(ENTRY_FILE)))?;
            self.record(locked, &finished.run, draft)?;
            count += 1;
        }
        Ok(count)
    }

    fn record(&self, locked: &Locked<'_>, run: &str, entry: Draft) -> Result<(), WorkError> {
        let appended =
            self.ledger.append_as(&self.tenant, vec![(None, entry)]).map_err(WorkError::Unrecorded)?;
        let entry = appended.first().map(|entry| entry.id.to_string()).unwrap_or_default();
        Ok(locked.add(&Event::Recorded { run: run.to_owned(), entry })?)
    }

    /// The sandbox of an agent's strength, made when the first needs it.
    pub(super) fn sandbox(&self, agent: &WorkAgent) -> Result<&Sandbox, SandboxError> {
        let place = if agent.accepts_reduced { &self.reduced } else { &self.full };
        if let Some(sandbox) = place.get() {
            return Ok(sandbox);
        }
        let config = Config { accept_reduced: agent.accepts_reduced, ..Config::new(&self.state_dir) };
        let made = Sandbox::new(config)?;
        Ok(place.get_or_init(|| made))
    }

    /// The agent an item goes to: the one that is named, or the one that has its `agent_id`.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub(super) fn agent_for(&self, item: &WorkItem, named: Option<&str>) -> Result<&WorkAgent, WorkError> {
        let wrong = |why: String| WorkError::NoAgent {
            item: item.id.to_string(),
            agent: item.agent_id.to_string(),
            why,
        };
        if let Some(name) = named {
            let known = || self.config.agents.keys().cloned().collect::<Vec<_>>().join(", ");
            return self
                .config
                .agents
                .get(name)
                .ok_or_else(|| wrong(format!("there is no agent `{name}`; known are: {}", known())));
        }
        let mut found = self.config.of(item.agent_id);
        match (found.next(), found.next()) {
            (Some(agent), None) => Ok(agent),
            (None, _) => Err(wrong(format!(
                "no agent has this agent_id; add one to crealeph.toml: `[work.agents.NAME]` with `agent_id = \"{}\"`",
                item.agent_id
            ))),
            (Some(one), Some(other)) => Err(wrong(format!(
                "`{}` and `{}` both have this agent_id; name one with --agent",
                one.name, other.name
            ))),
        }
    }

    /// Says that a run is about to start, so that it has a receipt whatever happens.
    pub(super) fn start(
        &self,
        id: &Uuid,
        item: &WorkItem,
        batch: &str,
        before: Blake3,
    ) -> Result<(), WorkError> {
        let locked = self.runs.lock()?;
        let run = id.to_string();
        let text = crealeph_contracts::contract::to_json(item).into_bytes();
        locked.write(&run, &[(ITEM_FILE.to_owned(), text, false)])?;
        let owner = self.runs.owner().to_owned();
        let item = item.id.to_string();
        let at = super::now().as_str().to_owned();
        let before = before.to_string();
        Ok(locked.add(&Event::Started { run, item, batch: batch.to_owned(), owner, at, before })?)
    }

    /// What the record says of a run, with its outcome.
    pub(super) fn facts(
        &self,
        ran: &Ran,
        agent: &WorkAgent,
        landing: Option<&Landing>,
        previous: Option<Blake3>,
    ) -> Facts {
        let (status, error) = told(&ran.ending);
        let (robot, lineage) = self.bound_to(Some(&ran.item));
        let amount = |value: Option<f64>| value.and_then(Amount::new);
        let is_success = landing.is_some();
        Facts {
            id: ran.id,
            agent_id: ran.item.agent_id,
            item: Some(ran.item.clone()),
            command: ran.command.clone(),
            started_at: ran.started_at.clone(),
            finished_at: ran.finished_at.clone(),
            status,
            error: error.and_then(|error| Text::new(&error)),
            workspace: self.workspace.path().to_owned(),
            before: landing.map_or(ran.before, |landing| landing.before),
            after: landing.map_or(ran.before, |landing| landing.after),
            changes: landing.map(|landing| landing.changes.clone()).unwrap_or_default(),
            proof_artifacts: Vec::new(),
            deltas: if is_success { ran.deltas.clone() } else { Deltas::default() },
            diff_algorithm: DIFF_ALGORITHM,
            tool_trace: ran.trace.calls.clone(),
            tokens_used: amount(ran.trace.tokens),
            cost_usd: amount(ran.trace.cost_usd),
            test_log: ran.tested.as_ref().map(|tested| tested.output.clone()),
            strength: ran.strength,
            sandbox: ran.sandbox.clone(),
            bounds: Some(stated_bounds(&ran.item, agent)),
            admission: ran.admission.clone(),
            merged: Vec::new(),
            commit: landing.and_then(|landing| landing.commit.clone()),
            connections: ran.connections.clone(),
            discarded: ran
                .capsule
                .as_ref()
                .map(|capsule| capsule.discarded().outside.clone())
                .unwrap_or_default(),
            previous,
            robot,
            lineage,
        }
    }

    /// The robot that a receipt names, and the entries it rests on. What cannot be read now is left out: a receipt is
    /// written all the same.
    pub(super) fn bound_to(&self, item: Option<&WorkItem>) -> (RobotId, Vec<LedgerId>) {
        let origin = item.and_then(|item| self.origin(&item.id).ok().flatten());
        let robot = || self.robot.clone().unwrap_or_else(|| NO_ROBOT.into());
        origin.map_or_else(|| (robot(), Vec::new()), |(robot, id)| (robot, vec![id]))
    }

    /// Writes the outcome of a run that changed nothing.
    pub(super) fn close(
        &self,
        locked: &Locked<'_>,
        ran: &Ran,
        agent: &WorkAgent,
        batch: &str,
    ) -> Result<Valid<RunResult>, WorkError> {
        let previous = self.runs.history()?.head();
        let facts = self.facts(ran, agent, None, previous);
        let sealed = seal(&facts, &self.signer, self.workspace.store())?;
        let result = self.result(ran, &facts, &sealed)?;
        let finished = finished(&facts, &sealed, batch, ran.ending == Ending::Interrupted, None);
        let run = facts.id.to_string();
        locked.write(&run, &files(ran, &sealed, &result))?;
        locked.add(&Event::Finished(Box::new(finished)))?;
        self.record(locked, &run, sealed.entry)?;
        Ok(result)
    }

    /// Writes the outcome of a run that is to land, lands it through `publish`, and says that it did. Where that fails
    /// the files stay, for the outcome that is written instead.
    pub(super) fn land(
        &self,
        locked: &Locked<'_>,
        ran: &Ran,
        agent: &WorkAgent,
        batch: &str,
        landing: &Landing,
        publish: impl FnOnce() -> Result<(), WorkError>,
    ) -> Result<Valid<RunResult>, WorkError> {
        let previous = self.runs.history()?.head();
        let facts = self.facts(ran, agent, Some(landing), previous);
        let sealed = seal(&facts, &self.signer, self.workspace.store())?;
        let result = self.result(ran, &facts, &sealed)?;
        let hash = crealeph_decision::work::run_hash(&facts.before, &facts.after, &ran.item);
        let finished = Box::new(finished(&facts, &sealed, batch, false, Some(hash)));
        let run = facts.id.to_string();
        locked.write(&run, &files(ran, &sealed, &result))?;
        locked.add(&Event::Prepared {
            run: run.clone(),
            publish: landing.publish.clone(),
            finished: finished.clone(),
        })?;
        publish()?;
        locked.add(&Event::Finished(finished))?;
        self.record(locked, &run, sealed.entry)?;
        Ok(result)
    }

    /// A receipt that has no place in the chain yet.
    pub(super) fn unsealed(&self, facts: &Facts) -> Result<Receipt, WorkError> {
        Ok(seal(facts, &self.signer, self.workspace.store())?.receipt.into_inner())
    }

    /// Writes a receipt over others: the merge of a level.
    pub(super) fn write_merge(
        &self,
        locked: &Locked<'_>,
        facts: &Facts,
        batch: &str,
    ) -> Result<(), WorkError> {
        let sealed = seal(facts, &self.signer, self.workspace.store())?;
        let run = facts.id.to_string();
        let mut all = sealed.files.clone();
        all.push(entry_file(&sealed));
        locked.write(&run, &all)?;
        locked.add(&Event::Finished(Box::new(finished(facts, &sealed, batch, false, None))))?;
        self.record(locked, &run, sealed.entry)
    }

    /// A receipt for a run whose process ended.
    fn close_interrupted(
        &self,
        locked: &Locked<'_>,
        run: &str,
        begun: &super::store::Begun,
    ) -> Result<(), WorkError> {
        let damaged = || WorkError::Damaged(self.runs.folder(run));
        let id = Uuid::parse(run).ok_or_else(damaged)?;
        let bytes = self.runs.read(run, ITEM_FILE)?.unwrap_or_default();
        let item =
            Valid::<WorkItem>::parse(&bytes, &Limits { max_bytes: usize::MAX }).map_err(|_| damaged())?;
        let before = Blake3::parse(&begun.before).ok_or_else(damaged)?;
        let started_at = Timestamp::parse(&begun.at).map_err(|_| damaged())?;
        let finished_at = super::now();
        let (robot, lineage) = self.bound_to(Some(&item));
        let facts = Facts {
            id,
            agent_id: item.agent_id,
            item: Some(item.into_inner()),
            command: Vec::new(),
            finished_at: if finished_at.instant() < started_at.instant() {
                started_at.clone()
            } else {
                finished_at
            },
            started_at,
            status: RunStatus::Failure,
            error: Text::new(&format!("{INTERRUPTED}: its process ended before it was over")),
            workspace: self.workspace.path().to_owned(),
            before,
            after: before,
            changes: Vec::new(),
            proof_artifacts: Vec::new(),
            deltas: Deltas::default(),
            diff_algorithm: DIFF_ALGORITHM,
            tool_trace: Vec::new(),
            tokens_used: None,
            cost_usd: None,
            test_log: None,
            strength: SandboxStrength::Full,
            sandbox: None,
            bounds: None,
            admission: None,
            merged: Vec::new(),
            commit: None,
            connections: Vec::new(),
            discarded: Vec::new(),
            previous: self.runs.history()?.head(),
            robot,
            lineage,
        };
        let sealed = seal(&facts, &self.signer, self.workspace.store())?;
        let mut all = sealed.files.clone();
        all.push(entry_file(&sealed));
        locked.write(run, &all)?;
        locked.add(&Event::Finished(Box::new(finished(&facts, &sealed, &begun.batch, true, None))))?;
        self.record(locked, run, sealed.entry)
    }

    /// The RunResult, exactly as the contract has it.
    fn result(&self, ran: &Ran, facts: &Facts, sealed: &Sealed) -> Result<Valid<RunResult>, WorkError> {
        let folder = self.runs.folder(&facts.id.to_string());
        let inside = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let root = self.workspace.path();
        let of_kind = |wanted: crealeph_contracts::receipt::Change| {
            let paths = facts.changes.iter().filter(|change| change.in_receipt() == wanted);
            paths.filter_map(|change| AbsolutePath::parse(&absolute(root, change))).collect()
        };
        let hashes = facts.changes.iter().filter_map(|change| {
            Some((absolute(root, change).into(), change.after.as_ref()?.content_digest()))
        });
        let count = |number: u64| Count::new(number).unwrap_or(Count::ZERO);
        let counts = ran.tested.as_ref().and_then(|tested| tested.counts);
        let touched = ran.admission.as_ref().map(|admission| admission.files_touched);
        let touched = touched.or_else(|| Count::new(ran.capsule.as_ref()?.changes().len() as u64));
        let error = facts.error.clone();
        let is_denied = facts.status == RunStatus::Denied;
        let result = RunResult {
            status: facts.status,
            receipt_id: facts.id,
            receipt_path: Text::new(&inside(RECEIPT_FILE)).ok_or(WorkError::Damaged(folder.clone()))?,
            modified_files: of_kind(crealeph_contracts::receipt::Change::Modified),
            created_files: of_kind(crealeph_contracts::receipt::Change::Created),
            deleted_files: of_kind(crealeph_contracts::receipt::Change::Deleted),
            output_hash: facts.after,
            artifact_hashes: ArtifactHashes::new(hashes.collect()),
            metrics: RunMetrics {
                execution_time_ms: Amount::new(ran.execution_ms.round()).unwrap_or(Amount::ZERO),
                tool_ops_count: count(ran.trace.count),
                delta_size: count(ran.delta_count),
                files_touched: touched.unwrap_or(Count::ZERO),
                tests_passed: counts.map(|counts| count(counts.passed)),
                tests_failed: counts.map(|counts| count(counts.failed)),
            },
            test_output: facts.test_log.as_deref().map(Into::into),
            proof_script: sealed.proof_script.as_deref().and_then(|name| Text::new(&inside(name))),
            error: error.clone().filter(|_| !is_denied),
            denial_reason: error.filter(|_| is_denied),
        };
        Ok(Valid::check(result).map_err(SealError::from)?)
    }

    /// The history as it is now.
    pub(super) fn history(&self) -> Result<History, WorkError> {
        Ok(self.runs.history()?)
    }

    /// The hash of a receipt of this workspace, and that of its file.
    pub(super) fn receipt_of(&self, run: &str) -> Result<Option<(Valid<Receipt>, Blake3)>, WorkError> {
        let Some(bytes) = self.runs.read(run, RECEIPT_FILE)? else { return Ok(None) };
        let receipt = Valid::<Receipt>::parse(&bytes, &Limits { max_bytes: usize::MAX })
            .map_err(|_| WorkError::Damaged(self.runs.folder(run).join(RECEIPT_FILE)))?;
        Ok(Some((receipt, Blake3::of(&bytes))))
    }
}

/// The entry of a receipt, kept beside it until the ledger has it.
const ENTRY_FILE: &str = "entry.json";

fn entry_file(sealed: &Sealed) -> RunFile {
    let text = crealeph_contracts::contract::to_json(&sealed.entry);
    (ENTRY_FILE.to_owned(), text.into_bytes(), false)
}

fn files(ran: &Ran, sealed: &Sealed, result: &Valid<RunResult>) -> Vec<RunFile> {
    let bounded = |bytes: &[u8]| bytes.get(..bytes.len().min(MAX_OUTPUT_BYTES)).unwrap_or_default().to_vec();
    let mut all = sealed.files.clone();
    all.push(entry_file(sealed));
    all.push((RESULT_FILE.to_owned(), line(&ran.item, result).into_bytes(), false));
    let outputs = [
        (DIFF_FILE, ran.diff.clone().into_bytes()),
        ("stdout.txt", bounded(&ran.stdout)),
        ("stderr.txt", bounded(&ran.stderr)),
    ];
    all.extend(outputs.into_iter().map(|(name, bytes)| (name.to_owned(), bytes, false)));
    all
}

/// A result with its item's id beside it, as a pipe gets it.
pub(super) fn line(item: &WorkItem, result: &Valid<RunResult>) -> String {
    let mut text = "{\"id\":".to_owned();
    push_text(&mut text, item.id.as_str());
    text.push(',');
    text.push_str(result.to_json().strip_prefix('{').unwrap_or_default());
    text
}

fn finished(
    facts: &Facts,
    sealed: &Sealed,
    batch: &str,
    interrupted: bool,
    run_hash: Option<Blake3>,
) -> Finished {
    Finished {
        run: facts.id.to_string(),
        item: facts.item.as_ref().map(|item| item.id.to_string()),
        batch: batch.to_owned(),
        status: facts.status.to_string(),
        interrupted,
        receipt: sealed.receipt.receipt_hash.to_string(),
        run_hash: run_hash.map(|hash| hash.to_string()),
        before: facts.before.to_string(),
        after: facts.after.to_string(),
        at: facts.finished_at.as_str().to_owned(),
    }
}

/// The contract's word for an ending, and its reason.
fn told(ending: &Ending) -> (RunStatus, Option<String>) {
    match ending {
        Ending::Admitted => (RunStatus::Success, None),
        Ending::Failed(why) => (RunStatus::Failure, Some(why.clone())),
        Ending::Denied(why) => (RunStatus::Denied, Some(why.clone())),
        Ending::TimedOut(why) => (RunStatus::Timeout, Some(why.clone())),
        Ending::Interrupted => (RunStatus::Failure, Some(INTERRUPTED.to_owned())),
    }
}

fn stated_bounds(item: &WorkItem, agent: &WorkAgent) -> StatedBounds {
    let bounds = item.bounds();
    let rules = &agent.path_source;
    let texts = |globs: &[String]| globs.iter().filter_map(|glob| Text::new(glob)).collect();
    let mut denied = rules.denied.clone();
    if !rules.allow_laws {
        denied.extend(rules.laws.iter().cloned());
    }
    let count = |number: u64| Count::new(number).unwrap_or(Count::ZERO);
    StatedBounds {
        max_files: count(bounds.max_files),
        max_tool_ops: count(bounds.max_tool_ops),
        max_delta_size: count(bounds.max_delta_size),
        timeout_ms: TimeoutMs::new(bounds.timeout_ms).unwrap_or(TimeoutMs::LEAST),
        max_tokens: agent.max_tokens.and_then(|tokens| Count::new(tokens as u64)),
        max_cost_usd: agent.max_cost.and_then(Amount::new),
        allowed_paths: rules.allowed.as_ref().map(|globs| texts(globs)),
        denied_paths: texts(&denied),
        max_laws: rules.max_laws.and_then(Count::new),
        max_invariants: rules.max_invariants.and_then(Count::new),
        max_projections: rules.max_projections.and_then(Count::new),
        max_others: rules.max_others.and_then(Count::new),
        hosts: agent.granted.hosts.iter().filter_map(|host| Name::parse(&host.to_string()).ok()).collect(),
    }
}

fn absolute(root: &Path, change: &Change) -> String {
    root.join(change.path.as_str()).to_string_lossy().into_owned()
}

/// A new id: a UUID of version 7.
pub(super) fn new_id() -> Result<Uuid, WorkError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| WorkError::Random(error.to_string()))?;
    let millis = super::now().instant().unix_nanos() / 1_000_000;
    let [_, _, time @ ..] = u64::try_from(millis).unwrap_or_default().to_be_bytes();
    for (byte, value) in bytes.iter_mut().zip(time) {
        *byte = value;
    }
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = 0x70 | (*version & 0x0f);
    *variant = 0x80 | (*variant & 0x3f);
    Ok(Uuid::from_bytes(bytes))
}
