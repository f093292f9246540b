//! Undoing a run that landed (R34): a separate run, by `agent-0`, that restores the files that the run changed. Owns
//! what is restored; refuses if something changed them since, and names what.

use crealeph_contracts::WorkItem;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::provenance::{AgentFacts, RunOrigin};
use crealeph_contracts::receipt::{EarlierRun, Receipt, RunRelation};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{Amount, ItemId, Name};
use crealeph_contracts::shape::{List, Set};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::{AgentId, Budget, Complexity};
use crealeph_workspace::{Change, StateHash, TreePath};

use super::batch::{Destination, ItemOutcome, WorkProgress};
use super::engine::{Work, new_id};
use super::error::{BlockedStep, WorkError};
use super::existing::{self, ChangeTarget, ExistingChangeRun};
use super::journal::FinishedRun;
use super::later::changed_by;
use super::receipt::{ITEM_FILE, RECEIPT_FILE, SealError};
use super::record::parse_item;
use super::stage::{AgentReport, ChangeContents, ExistingChange, RunRequest};
use super::store::RunsError;
use super::tasks;

/// What the id of an item that undoes a run starts with.
pub const UNDO_PREFIX: &str = "undo-";

/// A run that can be undone.
#[derive(Debug)]
pub struct LandedRun {
    finished: FinishedRun,
    receipt: Receipt,
    item: WorkItem,
    /// The agent's name in the configuration; absent in journals of earlier versions.
    agent: Option<String>,
}

/// How a run is to be undone.
#[derive(Clone, Debug)]
pub struct UndoOptions {
    /// The item of the undo, from [`LandedRun::undo_item`].
    pub item: WorkItem,
    /// The agent whose rules apply and whose tests' grants are used, by name [default: the agent of the run].
    pub agent: Option<String>,
    /// Where the files are restored, if not where the run's change went.
    pub destination: Option<Destination>,
    /// Whether the undo is held for approval.
    pub is_held: bool,
}

impl LandedRun {
    /// The item that undoes the run: with a fresh id, and within the bounds and with the tests of the run.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn undo_item(&self) -> Result<WorkItem, WorkError> {
        let subject = self.item.description.trim().lines().next().unwrap_or_default().trim();
        let subject = if subject.is_empty() { self.item.id.as_str() } else { subject };
        let id = ItemId::parse(&format!("{UNDO_PREFIX}{}", new_id()?)).map_err(SealError::Name)?;
        Ok(WorkItem {
            id,
            agent_id: AgentId::Agent0,
            description: format!("Undo \"{subject}\"\n\nThis undoes run {}.", self.finished.run).into(),
            dependencies: Set::default(),
            constraints: self.item.constraints.clone(),
            budget: Budget { time_estimate_ms: Amount::ZERO, complexity: Complexity::Low },
            input_files: None,
            output_files: None,
            test_command: self.item.test_command.clone(),
        })
    }
}

/// Finds a run that landed.
pub(super) fn find(work: &Work, run: &Uuid) -> Result<LandedRun, WorkError> {
    let state = work.runs.state()?;
    let no = |why: &str| WorkError::NotUndoable { run: work.runs.short(run), why: why.to_owned() };
    if state.held.contains_key(run) {
        return Err(no("its change awaits approval; reject it"));
    }
    let finished = state.ended(run).ok_or_else(|| no("it has not ended; see `crealeph work status`"))?;
    if finished.item.is_none() {
        return Err(no("it is the merge of a level; undo the runs of the level"));
    }
    if finished.status != RunStatus::Success {
        return Err(no("it did not succeed, so it changed nothing"));
    }
    if finished.before == finished.after {
        return Err(no("it changed nothing"));
    }
    let unreadable = |name: &str| RunsError::Unreadable(work.runs.folder(run).join(name));
    let (receipt, _) = work.receipt_of(run)?.ok_or_else(|| unreadable(RECEIPT_FILE))?;
    if receipt.receipt_hash != finished.receipt || receipt.content_hash().ok() != Some(finished.receipt) {
        return Err(WorkError::Altered { run: work.runs.short(run), what: format!("`{RECEIPT_FILE}`") });
    }
    let item = work.runs.document(run, ITEM_FILE, parse_item)?;
    let agent = state.known(run).and_then(|known| known.agent.clone());
    Ok(LandedRun { finished: finished.clone(), receipt: receipt.into_inner(), item, agent })
}

/// Undoes a run, in a separate run.
pub(super) fn run(
    work: &Work,
    landed: LandedRun,
    options: UndoOptions,
    progress: &(dyn Fn(WorkProgress) + Sync),
) -> Result<ItemOutcome, WorkError> {
    let LandedRun { finished, receipt, item: undone, agent: own_agent } = landed;
    let UndoOptions { item, agent, destination, is_held } = options;
    let named = agent.or(own_agent);
    let agent = work.agent_for(&undone, named.as_deref())?;
    existing::check_item(work, &item, agent)?;
    let change = restoring(work, &finished, &receipt)?;
    let destination = destination.or_else(|| finished.branch.clone().map(Destination::Branch));
    let target = ChangeTarget::of(work, &destination.unwrap_or_default())?;
    let changes = still_to_restore(work, &finished, &target, change)?;
    let request = RunRequest {
        agent: agent.name.clone(),
        branch: target.kept_branch(),
        is_held,
        robot: work.robot().cloned(),
        task: tasks::origin(work, &item.id)?,
        earlier: Some(EarlierRun {
            relation: RunRelation::Undoes,
            run: finished.run,
            receipt_hash: finished.receipt,
        }),
    };
    let origin = RunOrigin { agent: own_facts(&finished.run)?, started_by: work.user.clone() };
    let change =
        ExistingChange { changes, contents: ChangeContents::Stored, agent: AgentReport::of_no_one(), origin };
    existing::run(work, ExistingChangeRun { item, agent, request, change, target }, progress)
}

/// The change that reverts what a run changed: from what it left to what was there before it.
fn restoring(work: &Work, finished: &FinishedRun, receipt: &Receipt) -> Result<Vec<Change>, WorkError> {
    let no = |why: String| WorkError::NotUndoable { run: work.runs.short(&finished.run), why };
    let kept = |hash: Blake3| {
        let cleaned = |_| no("the files before it were removed by `crealeph work clean`".to_owned());
        work.workspace.kept(StateHash::from_digest(hash)).map_err(cleaned)
    };
    let (before, after) = (kept(receipt.before_hash)?, kept(receipt.after_hash)?);
    let mut changes = Vec::new();
    for artifact in receipt.artifacts.as_slice() {
        let name = artifact.path.as_str();
        let path = TreePath::parse(name).map_err(|_| no(format!("`{name}` is not a path of a workspace")))?;
        let (was, is) = (before.get(&path).cloned(), after.get(&path).cloned());
        // A file that the run hid by its own ignore rules is in no state.
        if is.as_ref().map(crealeph_workspace::TreeNode::content_digest) != artifact.hash || was == is {
            return Err(no(format!("`{name}` is ignored by rules that the run changed; restore it by hand")));
        }
        changes.push(Change { path, before: is, after: was });
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(changes)
}

/// What of it is still to be done; refuses if a path is neither what the run left nor what was there before it.
fn still_to_restore(
    work: &Work,
    finished: &FinishedRun,
    target: &ChangeTarget,
    changes: Vec<Change>,
) -> Result<Vec<Change>, WorkError> {
    let run = || work.runs.short(&finished.run);
    let moved = target.moved(&changes);
    let restored: Vec<Change> =
        changes.iter().map(|change| Change { before: change.after.clone(), ..change.clone() }).collect();
    let not_restored = target.moved(&restored);
    if not_restored.is_empty() {
        let why = "its files are already what they were before it".to_owned();
        return Err(WorkError::NotUndoable { run: run(), why });
    }
    let in_the_way: Vec<TreePath> = moved.into_iter().filter(|path| not_restored.contains(path)).collect();
    if in_the_way.is_empty() {
        return Ok(changes.into_iter().filter(|change| not_restored.contains(&change.path)).collect());
    }
    let state = work.runs.state()?;
    let paths = changed_by(work, in_the_way, state.since(&finished.run))?;
    Err(WorkError::InTheWay { run: run(), step: BlockedStep::Undo, paths })
}

/// What made the change: this program itself.
fn own_facts(undone: &Uuid) -> Result<AgentFacts, WorkError> {
    let name = |text: &str| Name::parse(text).map_err(SealError::Name);
    let command = ["crealeph", "work", "undo", &undone.to_string()].map(Box::<str>::from);
    Ok(AgentFacts {
        name: name("crealeph")?,
        command: command.into_iter().collect(),
        program: None,
        program_blake3: None,
        version: Some(name(env!("CARGO_PKG_VERSION"))?),
        scripts: List::default(),
        models: None,
    })
}
