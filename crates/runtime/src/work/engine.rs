//! Work in one workspace: where its parts are held together. Owns opening it, settling what an earlier process left, and
//! which agent and which sandbox an item gets.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{Limits, Node, canonical};
use crealeph_contracts::scalar::{RobotId, TenantId};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::AgentId;
use crealeph_contracts::{Receipt, WorkItem};
use crealeph_ledger::{AppendError, Ledger, LedgerError};
use crealeph_sandbox::{Config, Sandbox, SandboxError};
use crealeph_workspace::{
    HeldId, KeepError, Kept, KeptPlace, OpenError, PublishError, Snapshot, SnapshotError, TreePath, Workspace,
};

use super::config::{WorkAgent, WorkConfig};
use super::interrupt::Interrupt;
use super::outcome::ENTRY_FILE;
use super::paths::OutsideWorkspace;
use super::receipt::{ITEM_FILE, RECEIPT_FILE, SealError, Signer, SignerError};
use super::store::{Event, Finished, History, Locked, Runs, RunsError};

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
    /// Files and folders that no agent may see, wherever they are: the ledger's, the keys.
    pub private: Vec<PathBuf>,
    /// Files that rights come from: no run may change them, whatever its rules allow.
    pub sources: Vec<PathBuf>,
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
    /// What would be written down holds a secret.
    #[error(
        "the {place} of item `{item}` holds a secret that its agent is granted, and it would be recorded; refer to the secret by its name instead"
    )]
    SecretInRequest {
        /// The item, redacted.
        item: String,
        /// What holds it.
        place: &'static str,
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
    /// A held change is not the one that was held.
    #[error(
        "run `{run}` is not the change that was held: {what} was altered since; reject it, and run its item again"
    )]
    Altered {
        /// The run.
        run: String,
        /// What of it.
        what: String,
    },
    /// A document that this wrote itself cannot be read back.
    #[error("`{}` cannot be read back; restore `.crealeph` from a copy", .0.display())]
    Damaged(PathBuf),
    /// The ledger is part of the state.
    #[error(
        "`{0}` is part of the workspace's state, and every run writes to it; move it to `.crealeph`, or ignore it with `.gitignore`"
    )]
    PrivateInside(String),
    /// The git repository cannot be used.
    #[error("cannot {action}: {why}")]
    Git {
        /// What was to be done.
        action: String,
        /// Why it cannot be done.
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
            WorkError::Runs(RunsError::Unknown(_) | RunsError::NoneYet) => "unknown_run",
            WorkError::Runs(_) | WorkError::Damaged(_) => "runs",
            WorkError::Seal(_) | WorkError::Signer(_) => "receipt",
            WorkError::Sandbox(error) => error.code(),
            WorkError::Ledger(error) => error.code(),
            WorkError::Unrecorded(error) => error.code(),
            WorkError::Outside(_) => "outside_workspace",
            WorkError::NoAgent { .. } => "unknown_agent",
            WorkError::SecretInRequest { .. } => "secret_in_request",
            WorkError::Overlap { .. } => "overlap",
            WorkError::Plan(_) => "bad_plan",
            WorkError::NotHeld(_) => "not_held",
            WorkError::Altered { .. } => "altered",
            WorkError::PrivateInside(_) => "ledger_in_state",
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
    /// Paths of the workspace, relative to it, that no view shows.
    pub(super) private: Vec<PathBuf>,
    state_dir: PathBuf,
    full: OnceLock<Sandbox>,
    reduced: OnceLock<Sandbox>,
    pub(super) ledger: Ledger,
    pub(super) signer: Signer,
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

impl Work {
    /// Opens a workspace for work, and settles what an earlier process left.
    ///
    /// # Errors
    /// When something of it cannot be used.
    pub fn open(setup: Setup) -> Result<(Self, Recovered), WorkError> {
        let workspace = Workspace::open(&setup.workspace)?;
        let objects = super::objects::of(workspace.path());
        let workspace = workspace.with_git(objects);
        let control = workspace.path().join(".crealeph");
        let signer = Signer::open(&control, &setup.keys)?;
        let inside = |path: &PathBuf| {
            // It may come to be only later.
            let path = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
            path.strip_prefix(workspace.path()).ok().map(Path::to_owned)
        };
        let private = setup.private.iter().filter_map(inside).collect();
        let mut config = setup.config;
        // Those that are known by name are in no configuration.
        let programs = config.agents.values().filter_map(WorkAgent::program);
        let sources: Vec<PathBuf> = setup.sources.into_iter().chain(programs).collect();
        let protected = super::protect::protected(workspace.path(), &sources, &setup.private);
        for agent in config.agents.values_mut() {
            agent.paths = agent.paths.clone().protecting(protected.clone());
        }
        let runs = Runs::open(workspace.path(), new_id()?.to_string())?;
        let work = Work {
            workspace,
            config,
            runs,
            interrupt: Interrupt::default(),
            private,
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
            if self.is_landed(publish)? {
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
    fn is_landed(&self, publish: &str) -> Result<bool, WorkError> {
        match publish.strip_prefix("branch:").and_then(|rest| rest.rsplit_once(':')) {
            Some((branch, commit)) => super::branch::holds(self.workspace.path(), branch, commit),
            None => Ok(self.workspace.was_published(&HeldId::new(publish))),
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
            let limits = Limits::own(usize::MAX);
            let draft = Draft::parse(&bytes, &limits)
                .map_err(|_| WorkError::Damaged(self.runs.folder(&finished.run).join(ENTRY_FILE)))?;
            if !self.is_entry_of(&draft, finished)? {
                return Err(WorkError::Damaged(self.runs.folder(&finished.run).join(ENTRY_FILE)));
            }
            self.record(locked, &finished.run, draft)?;
            count += 1;
        }
        Ok(count)
    }

    /// Whether an entry that was read back is that of the receipt which the journal names.
    fn is_entry_of(&self, draft: &Draft, finished: &Finished) -> Result<bool, WorkError> {
        let receipt = self.receipt_of(&finished.run)?.map(|(receipt, _)| receipt);
        let is_own = |receipt: &Valid<Receipt>| {
            receipt.receipt_hash.to_string() == finished.receipt
                && receipt.content_hash().ok() == Some(receipt.receipt_hash)
                && draft.payload.with(|payload| match payload.member("receipt") {
                    Some(copy) => Some(canonical(copy)) == receipt.to_canonical().ok(),
                    None => {
                        payload.member("receiptHash").and_then(Node::string).as_deref()
                            == Some(&*finished.receipt)
                    }
                })
        };
        Ok(receipt.is_some_and(|receipt| is_own(&receipt)))
    }

    pub(super) fn record(&self, locked: &Locked<'_>, run: &str, entry: Draft) -> Result<(), WorkError> {
        let appended =
            self.ledger.append_as(&self.tenant, vec![(None, entry)]).map_err(WorkError::Unrecorded)?;
        let entry = appended.first().map(|entry| entry.id.to_string()).unwrap_or_default();
        Ok(locked.add(&Event::Recorded { run: run.to_owned(), entry })?)
    }

    /// Where views are kept while they are open.
    pub(super) fn state_dir(&self) -> &Path {
        &self.state_dir
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

    /// Refuses a workspace whose state holds what this writes itself: every run would change it.
    pub(super) fn check_private(&self, snapshot: &Snapshot) -> Result<(), WorkError> {
        let mut private = self.private.iter().filter_map(|path| TreePath::parse(path.to_str()?).ok());
        match private.find(|path| snapshot.state().get(path).is_some()) {
            Some(path) => Err(WorkError::PrivateInside(path.to_string())),
            None => Ok(()),
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
        let text = to_json(item).into_bytes();
        locked.write(&run, &[(ITEM_FILE.to_owned(), text, false)])?;
        let owner = self.runs.owner().to_owned();
        let item = item.id.to_string();
        let at = super::now().as_str().to_owned();
        let before = before.to_string();
        Ok(locked.add(&Event::Started { run, item, batch: batch.to_owned(), owner, at, before })?)
    }

    /// The history as it is now.
    pub(super) fn history(&self) -> Result<History, WorkError> {
        Ok(self.runs.history()?)
    }

    /// The hash of a receipt of this workspace, and that of its file.
    pub(super) fn receipt_of(&self, run: &str) -> Result<Option<(Valid<Receipt>, Blake3)>, WorkError> {
        let Some(bytes) = self.runs.read(run, RECEIPT_FILE)? else { return Ok(None) };
        let receipt = Valid::<Receipt>::parse(&bytes, &Limits::own(usize::MAX))
            .map_err(|_| WorkError::Damaged(self.runs.folder(run).join(RECEIPT_FILE)))?;
        Ok(Some((receipt, Blake3::of(&bytes))))
    }
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
