//! The run of an existing change: by the agent of an earlier run, or an undo. Ensures that it takes the same path as the
//! change of an agent: applied to a view, read from it, admitted, tested, and then published, held or committed.

use std::collections::BTreeMap;

use crealeph_contracts::WorkItem;
use crealeph_contracts::digest::Blake3;
use crealeph_decision::work::moved;
use crealeph_workspace::{Change, TreePath, WorkspaceSnapshot};
use tracing::info_span;

use super::batch::{Destination, ItemOutcome, WorkProgress};
use super::branch::Branch;
use super::config::WorkAgent;
use super::engine::{Work, new_id};
use super::error::WorkError;
use super::journal::HeldBranch;
use super::land::{Concluded, Delivery, Landed, LandingRun};
use super::paths;
use super::record::{RunWriter, stated_bounds};
use super::secrets::RunSecrets;
use super::stage::{ChangeSource, ExistingChange, PlannedRun, RunBase, RunIdentity, RunRequest, edits};

/// A change that is made, and how it is to be judged.
pub(super) struct ExistingChangeRun<'m> {
    pub(super) item: WorkItem,
    pub(super) agent: &'m WorkAgent,
    pub(super) request: RunRequest,
    pub(super) change: ExistingChange,
    pub(super) target: ChangeTarget,
}

/// Where the change goes, and what is there.
pub(super) struct ChangeTarget {
    pub(super) delivery: Delivery,
    pub(super) snapshot: WorkspaceSnapshot,
    /// What the branch has and the workspace has not.
    pub(super) accumulated: Vec<Change>,
}

impl ChangeTarget {
    /// The workspace.
    pub(super) fn tree(work: &Work) -> Result<Self, WorkError> {
        let snapshot = work.workspace.snapshot()?;
        work.check_private(&snapshot)?;
        Ok(ChangeTarget { delivery: Delivery::Tree, snapshot, accumulated: Vec::new() })
    }

    /// A branch, with what it has since a commit; without one, with what it has that the current commit has not.
    pub(super) fn branch(work: &Work, branch: Branch, since: Option<&str>) -> Result<Self, WorkError> {
        let ChangeTarget { snapshot, .. } = ChangeTarget::tree(work)?;
        let head = branch.head()?;
        let since = since.unwrap_or(&head);
        let accumulated = branch.moved_since(since, &work.workspace, snapshot.state())?;
        Ok(ChangeTarget { delivery: Delivery::Branch(Box::new(branch)), snapshot, accumulated })
    }

    /// The same by the words of the command line.
    pub(super) fn of(work: &Work, destination: &Destination) -> Result<Self, WorkError> {
        match destination {
            Destination::Tree => ChangeTarget::tree(work),
            Destination::Branch(name) => {
                ChangeTarget::branch(work, Branch::open(work.workspace.path(), name)?, None)
            }
        }
    }

    /// The branch, as a change is kept with it.
    pub(super) fn kept_branch(&self) -> Option<HeldBranch> {
        self.delivery.kept_branch()
    }

    /// The paths of a change that are not what it starts from.
    pub(super) fn moved(&self, changes: &[Change]) -> Vec<TreePath> {
        let there: BTreeMap<_, _> =
            self.accumulated.iter().map(|change| (&change.path, change.after.as_ref())).collect();
        let now = |path: &_| match there.get(path) {
            Some(node) => *node,
            None => self.snapshot.state().get(path),
        };
        moved(&edits(changes), now, |path| self.snapshot.ignores(path)).cloned().collect()
    }
}

/// Refuses an item that may not be run at all, as a batch of items is refused.
pub(super) fn check_item(work: &Work, item: &WorkItem, agent: &WorkAgent) -> Result<(), WorkError> {
    paths::check(item, work.workspace.path())?;
    let secrets = RunSecrets::read(agent)?;
    match secrets.place_in_request(item, agent) {
        Some(place) => Err(WorkError::SecretInRequest { item: secrets.redacted(item.id.as_str()), place }),
        None => Ok(()),
    }
}

/// Runs it.
pub(super) fn run(
    work: &Work,
    existing: ExistingChangeRun<'_>,
    progress: &(dyn Fn(WorkProgress) + Sync),
) -> Result<ItemOutcome, WorkError> {
    let ExistingChangeRun { item, agent, request, change, target } = existing;
    let ChangeTarget { mut delivery, snapshot, accumulated } = target;
    let run = new_id()?;
    let _span = info_span!("work_item", item = %item.id, %run, agent = agent.name).entered();
    let is_held = request.is_held;
    let identity = RunIdentity {
        id: run,
        batch: Blake3::of(format!("made {run}").as_bytes()),
        bounds: stated_bounds(&item, agent),
        before: snapshot.state().hash().digest(),
        item,
        origin: Some(change.origin.clone()),
        request,
    };
    RunWriter::new(work)?.start(&identity)?;
    let name = identity.item.id.clone();
    let step = |stage| progress(WorkProgress::Item { item: name.clone(), stage });
    let runner = work.runner(agent, &run, &step)?;
    let base = RunBase { snapshot: &snapshot, changes: &accumulated };
    let state = work.runs.state()?;
    let planned = PlannedRun::new(identity, base);
    let tested = runner.run(planned, ChangeSource::Existing(&change), &|hash| state.with_run_hash(hash));
    progress(WorkProgress::Committing);
    let mut landed = Landed { is_held, accumulated: accumulated.clone(), touched: BTreeMap::new() };
    let writer = RunWriter::new(work)?;
    Ok(match LandingRun::conclude(writer, runner, tested, base, &mut delivery, &mut landed)? {
        Concluded::Held(held) => ItemOutcome::Held(held),
        Concluded::Finished(result) => ItemOutcome::Finished { result, is_earlier: false },
    })
}
