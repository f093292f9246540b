//! Work in one workspace: its parts, and what can be done with them. Owns opening it, and which agent and which sandbox an item gets;
//! each operation is in a separate module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::Limits;
use crealeph_contracts::provenance::{AgentFacts, LocalUser, RunOrigin};
use crealeph_contracts::scalar::{ItemId, RobotId, TenantId};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::{AgentId, Constraints};
use crealeph_contracts::{Receipt, WorkItem};
use crealeph_decision::work::{ClassLimits, Ending};
use crealeph_ledger::{Clock, Ledger};
use crealeph_sandbox::{Config, Sandbox, SandboxError};
use crealeph_workspace::{Change, PublishError, State, TreePath, Workspace, WorkspaceSnapshot};

use super::batch::{self, ItemOutcome, RunOptions, WorkProgress};
use super::clean::{self, CleanedRuns, KeepRuns};
use super::config::{WorkAgent, WorkConfig};
use super::error::{Stop, WorkError};
use super::hold::{self, DecidedRun};
use super::interrupt::Interrupt;
use super::journal::RunVerdict;
use super::log::{LogReader, RunLog};
use super::origin;
use super::receipt::{RECEIPT_FILE, Signer};
use super::recover::{self, Recovery};
use super::retry::{self, RetryOptions, RetryableRun};
use super::run::{ItemRunner, RunStage};
use super::secrets::RunSecrets;
use super::signed::{self, DecidedChange, SettledRun};
use super::store::{OwnedRunStore, RunsError};
use super::tasks;
use super::undo::{self, LandedRun, UndoOptions};
use crate::builder::Scopes;

/// What work needs besides the workspace itself.
#[derive(Debug)]
pub struct WorkSetup {
    /// The workspace.
    pub workspace: PathBuf,
    /// The agents.
    pub config: WorkConfig,
    /// Where views are kept while they are open.
    pub state_dir: PathBuf,
    /// The ledger.
    pub ledger: Ledger,
    /// The folder of the signing keys.
    pub keys: PathBuf,
    /// Files and folders that no agent may see, wherever they are: the ledger's, the keys.
    pub private: Vec<PathBuf>,
    /// Files that define grants: no run may change them, whatever its rules allow.
    pub sources: Vec<PathBuf>,
    /// The tenant.
    pub tenant: TenantId,
}

/// Work in one workspace.
#[derive(Debug)]
pub struct Work {
    pub(super) workspace: Workspace,
    pub(super) config: WorkConfig,
    pub(super) runs: OwnedRunStore,
    pub(super) interrupt: Interrupt,
    /// Paths of the workspace, relative to it, that no view shows.
    private: Vec<PathBuf>,
    pub(super) state_dir: PathBuf,
    full: OnceLock<Sandbox>,
    reduced: OnceLock<Sandbox>,
    pub(super) ledger: Ledger,
    pub(super) signer: Signer,
    pub(super) tenant: TenantId,
    /// The robot that the runs are bound to.
    robot: Option<RobotId>,
    /// The account that this process runs under.
    pub(super) user: LocalUser,
    /// What is known of the agents that were used.
    origins: Mutex<BTreeMap<String, AgentFacts>>,
}

impl Work {
    /// Opens a workspace for work, and recovers what an earlier process left.
    ///
    /// # Errors
    /// When something of it cannot be used.
    pub fn open(setup: WorkSetup) -> Result<(Self, Recovery), WorkError> {
        let workspace = Workspace::open(&setup.workspace)?;
        let objects = super::objects::of(workspace.path());
        let workspace = workspace.with_git(objects);
        let control = workspace.path().join(".crealeph");
        let signer = Signer::open(&control, &setup.keys)?;
        let private = paths_inside(workspace.path(), &setup.private);
        let mut config = setup.config;
        // Those that are built in are in no configuration.
        let programs = config.agents.values().filter_map(WorkAgent::program);
        let sources: Vec<PathBuf> = setup.sources.into_iter().chain(programs).collect();
        let protected = super::protect::protected(workspace.path(), &sources, &setup.private);
        for agent in config.agents.values_mut() {
            agent.paths = agent.paths.clone().protecting(protected.clone());
        }
        let runs = OwnedRunStore::open(workspace.path(), new_id()?)?;
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
            user: origin::local_user(&signer),
            signer,
            tenant: setup.tenant,
            robot: None,
            origins: Mutex::default(),
        };
        let recovery = recover::recover(&work)?;
        Ok((work, recovery))
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

    /// The short form of a run's id.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn short_run(&self, run: &Uuid) -> Result<String, WorkError> {
        Ok(self.runs.state()?.short(run))
    }

    /// The newest run of an item.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn newest_run_of(&self, item: &ItemId) -> Result<Option<Uuid>, WorkError> {
        Ok(self.runs.state()?.by_item.get(item).copied())
    }

    /// The bounds that an agent's table sets for tasks that leave them open.
    pub fn agent_bounds(&self, name: &str) -> Option<Constraints> {
        self.config.agents.get(name).map(|agent| agent.bounds.as_constraints())
    }

    /// What a run printed, as it is kept.
    pub fn log(&self, run: &Uuid) -> LogReader {
        LogReader::new(self.runs.folder(run))
    }

    /// An id for a task that has none.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new_task_id(&self) -> Result<String, WorkError> {
        Ok(new_id()?.to_string())
    }

    /// Sets limits per class in place of those of the configuration, for every agent.
    pub fn limit_classes(&mut self, limits: &ClassLimits) {
        for agent in self.config.agents.values_mut() {
            agent.path_source = agent.path_source.clone().limited(limits);
            agent.paths = agent.paths.clone().with_limits_of(&agent.path_source);
        }
    }

    /// Binds the runs of these items to a robot: the one that is named, or the one whose tasks they are; and asks the
    /// policy. Items that come from nowhere need no evidence.
    ///
    /// # Errors
    /// When the items belong to several robots, or the policy does not allow it.
    pub fn bind(
        &mut self,
        items: &[WorkItem],
        named: Option<RobotId>,
        scopes: &Scopes,
    ) -> Result<(), WorkError> {
        self.robot = tasks::robot_of(self, items, named, scopes)?;
        Ok(())
    }

    /// Runs items, level by level; the outcome of each is handed to `report` as soon as it is known. Everything that is
    /// wrong with the list is found before anything runs.
    ///
    /// # Errors
    /// When the list cannot be run as it is, or its outcome cannot be written.
    pub fn run(
        &self,
        items: &[WorkItem],
        options: &RunOptions,
        progress: &(dyn Fn(WorkProgress) + Sync),
        report: &mut dyn FnMut(&ItemOutcome),
    ) -> Result<Vec<ItemOutcome>, WorkError> {
        batch::run(self, items, options, progress, report)
    }

    /// The run whose change can be judged again (R34).
    ///
    /// # Errors
    /// When its change was not kept, is no longer kept, was altered, or would be done twice.
    pub fn retryable(&self, run: &Uuid) -> Result<RetryableRun, WorkError> {
        retry::find(self, run)
    }

    /// Judges the change of a run again, without calling its agent.
    ///
    /// # Errors
    /// When something is in the way, or its outcome cannot be written.
    pub fn retry(
        &self,
        retryable: RetryableRun,
        options: RetryOptions,
        progress: &(dyn Fn(WorkProgress) + Sync),
    ) -> Result<ItemOutcome, WorkError> {
        retry::run(self, retryable, options, progress)
    }

    /// The run that can be undone (R34).
    ///
    /// # Errors
    /// When it did not land, or changed nothing.
    pub fn landed(&self, run: &Uuid) -> Result<LandedRun, WorkError> {
        undo::find(self, run)
    }

    /// Undoes a run, in a separate run.
    ///
    /// # Errors
    /// When something is in the way, or its outcome cannot be written.
    pub fn undo(
        &self,
        landed: LandedRun,
        options: UndoOptions,
        progress: &(dyn Fn(WorkProgress) + Sync),
    ) -> Result<ItemOutcome, WorkError> {
        undo::run(self, landed, options, progress)
    }

    /// Carries out a verdict on a held run: it lands, or it is discarded.
    ///
    /// # Errors
    /// When no such run is held, or something cannot be written.
    pub fn decide(&self, run: &Uuid, verdict: RunVerdict) -> Result<DecidedRun, WorkError> {
        hold::decide(self, run, verdict)
    }

    /// Carries out what people decided about a held run, by their signed verdicts in the ledger.
    ///
    /// # Errors
    /// When no such run is held, something is in its way, or something cannot be written.
    pub fn settle(&self, run: &Uuid) -> Result<SettledRun, WorkError> {
        signed::settle(self, run)
    }

    /// The same for every held run that people decided about.
    ///
    /// # Errors
    /// When the ledger or the journal cannot be read.
    pub fn settle_decided(&self) -> Result<Vec<DecidedChange>, WorkError> {
        signed::settle_all(self)
    }

    /// Waits until people have decided about those of these items that are held, and carries that out. An interrupt ends it; what is held
    /// stays held.
    ///
    /// # Errors
    /// When something is in the way of one, or something cannot be read or written. It stays held.
    pub fn wait_for_verdicts(
        &self,
        outcomes: Vec<ItemOutcome>,
        progress: &(dyn Fn(WorkProgress) + Sync),
        report: &mut dyn FnMut(&ItemOutcome),
    ) -> Result<Vec<ItemOutcome>, WorkError> {
        signed::wait_for_verdicts(self, outcomes, progress, report)
    }

    /// Refuses a held run that could not land now.
    ///
    /// # Errors
    /// When files that it touches have changed since, or it is not what people are shown.
    pub fn check_landable(&self, run: &Uuid) -> Result<(), WorkError> {
        signed::check_landable(self, run)
    }

    /// Removes what runs that are not kept left. The newest run keeps everything in any case. Other processes wait
    /// meanwhile, or are waited for; being killed in between only leaves more to remove.
    ///
    /// # Errors
    /// When something needed cannot be read, or something cannot be removed.
    pub fn clean(&self, keep: KeepRuns, is_dry: bool) -> Result<CleanedRuns, WorkError> {
        clean::clean(self, keep, is_dry)
    }

    /// The sandbox of an agent's strength, made when the first needs it.
    fn sandbox(&self, agent: &WorkAgent) -> Result<&Sandbox, SandboxError> {
        let cell = if agent.accepts_reduced { &self.reduced } else { &self.full };
        if let Some(sandbox) = cell.get() {
            return Ok(sandbox);
        }
        let config = Config { accept_reduced: agent.accepts_reduced, ..Config::new(&self.state_dir) };
        let made = Sandbox::new(config)?;
        Ok(cell.get_or_init(|| made))
    }

    /// Where a run of this agent comes from. Its program is looked at once.
    pub(super) fn origin(&self, agent: &WorkAgent) -> Result<RunOrigin, WorkError> {
        let sandbox = self.sandbox(agent)?;
        let mut known = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = match known.get(&agent.name) {
            Some(facts) => facts.clone(),
            None => {
                let facts = origin::agent_facts(agent, sandbox, self.workspace.path())?;
                known.insert(agent.name.clone(), facts.clone());
                facts
            }
        };
        Ok(RunOrigin { agent: facts, started_by: self.user.clone() })
    }

    /// What runs an item of this agent.
    pub(super) fn runner<'r>(
        &'r self,
        agent: &'r WorkAgent,
        run: &Uuid,
        progress: &'r (dyn Fn(RunStage) + Sync),
    ) -> Result<ItemRunner<'r>, WorkError> {
        let secrets = RunSecrets::read(agent)?;
        Ok(ItemRunner {
            log: RunLog::new(self.runs.folder(run), secrets.redactor().clone()),
            workspace: &self.workspace,
            sandbox: self.sandbox(agent)?,
            agent,
            interrupt: &self.interrupt,
            private: &self.private,
            scratch: self.runs.scratch(run),
            secrets,
            capsules: self.config.capsules,
            progress,
        })
    }

    /// The robot that the runs are bound to.
    pub(super) fn robot(&self) -> Option<&RobotId> {
        self.robot.as_ref()
    }

    /// The agent an item goes to: the one that is named, or the one that has its `agent_id`.
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
    pub(super) fn check_private(&self, snapshot: &WorkspaceSnapshot) -> Result<(), WorkError> {
        let mut private = self.private.iter().filter_map(|path| TreePath::parse(path.to_str()?).ok());
        match private.find(|path| snapshot.state().get(path).is_some()) {
            Some(path) => Err(WorkError::PrivateInside(path.to_string())),
            None => Ok(()),
        }
    }

    /// Refuses a change that may not be published at all, seen from the state it leads to.
    pub(super) fn check_publishable(&self, changes: &[Change], after: &State) -> Result<(), Stop> {
        let checked = self.workspace.check(changes, after).map_err(PublishError::from)?;
        checked.map_err(|denied| Stop::Ended(Ending::Denied(denied.to_string())))
    }

    /// The receipt of a run, and the hash of its file.
    pub(super) fn receipt_of(&self, run: &Uuid) -> Result<Option<(Valid<Receipt>, Blake3)>, WorkError> {
        let Some(bytes) = self.runs.read(run, RECEIPT_FILE)? else { return Ok(None) };
        let receipt = Valid::<Receipt>::parse(&bytes, &Limits::own(usize::MAX))
            .map_err(|_| RunsError::Unreadable(self.runs.folder(run).join(RECEIPT_FILE)))?;
        Ok(Some((receipt, Blake3::of(&bytes))))
    }
}

/// Those of some paths that are in a workspace, relative to it.
pub(super) fn paths_inside(workspace: &Path, paths: &[PathBuf]) -> Vec<PathBuf> {
    let inside = |path: &PathBuf| {
        // It and folders above it may be created only later.
        let path = std::path::absolute(path).ok()?;
        let mut above = path.parent()?.ancestors();
        let real =
            above.find_map(|above| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?)))?;
        real.strip_prefix(workspace).ok().map(Path::to_owned)
    };
    paths.iter().filter_map(inside).collect()
}

/// A new id: a UUID of version 7.
pub(super) fn new_id() -> Result<Uuid, WorkError> {
    let mut random = [0u8; 10];
    getrandom::fill(&mut random).map_err(|error| WorkError::Random(error.to_string()))?;
    Ok(Uuid::v7(Clock::system().now().get(), random))
}
