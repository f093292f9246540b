//! From a run that was admitted to a change that is there (R30): on the state as it is now, tested again where something
//! was merged since, then published, held, or committed to a branch. Owns what a conflict is.

use std::collections::BTreeMap;

use crealeph_contracts::RunResult;
use crealeph_contracts::contract::Valid;
use crealeph_workspace::{
    Capsule, CaptureError, Change, HeldId, Hidden, KeepError, PublishError, Snapshot, State, StoreError,
    TreePath, ViewChanges,
};

use super::branch::Branch;
use super::config::WorkAgent;
use super::confine;
use super::engine::{Work, WorkError};
use super::freeze::own_changes;
use super::hold::Waits;
use super::outcome::Landing;
use super::run::{Base, Ending, Ran, Room};
use super::store::Locked;
use crate::agents::process::with_causes;

/// How often a state that moves under a commit is read again.
const MAX_MOVES: usize = 5;

/// Where successful changes go.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Into the workspace.
    Tree,
    /// Onto a branch; the working tree stays as it is.
    Branch(Box<Branch>),
}

/// The items of a level that are committed one after the other.
#[derive(Debug)]
pub(super) struct Merging {
    pub(super) delivery: Delivery,
    /// Whether changes wait for a verdict instead.
    pub(super) is_held: bool,
    pub(super) batch: String,
    /// Changes that came before and are not in the workspace.
    pub(super) accumulated: Vec<Change>,
    /// Which item of the level changed a path.
    pub(super) touched: BTreeMap<TreePath, String>,
}

/// What became of a run.
#[derive(Debug)]
pub(super) enum Concluded {
    Finished(Box<Valid<RunResult>>),
    Held(Waits),
}

/// A change that is ready on the state as it is now.
pub(super) struct Ready {
    pub(super) snapshot: Snapshot,
    pub(super) capsule: Capsule,
}

impl Ready {
    /// What lands when it is published.
    pub(super) fn landing(&self, publish: &HeldId) -> Landing {
        Landing {
            before: self.snapshot.state().hash().digest(),
            after: self.capsule.after().hash().digest(),
            changes: self.capsule.changes().to_vec(),
            commit: None,
            publish: publish.as_str().to_owned(),
        }
    }
}

impl Work {
    /// Writes what became of a run: it lands, is held, or leaves nothing.
    pub(super) fn conclude(
        &self,
        mut ran: Ran,
        agent: &WorkAgent,
        room: &Room<'_>,
        base: &Base<'_>,
        merging: &mut Merging,
    ) -> Result<Concluded, WorkError> {
        let locked = self.runs.lock()?;
        if ran.ending == Ending::Admitted && self.interrupt.is_used() {
            ran.ending = Ending::Interrupted;
        }
        let capsule = match (&ran.ending, &ran.capsule) {
            (Ending::Admitted, Some(capsule)) => capsule.clone(),
            _ => return self.give_up(&locked, &ran, agent, merging),
        };
        let concluded = match &merging.delivery {
            Delivery::Tree => self.to_tree(&locked, &mut ran, agent, room, capsule, merging)?,
            Delivery::Branch(_) => self.to_branch(&locked, &mut ran, agent, room, base, merging)?,
        };
        match concluded {
            Ok(concluded) => Ok(concluded),
            Err(ending) => {
                ran.ending = ending;
                self.take_back(&mut ran);
                self.give_up(&locked, &ran, agent, merging)
            }
        }
    }

    /// Leaves nothing in the store of a run that did not land. Only while the runs are locked.
    pub(super) fn take_back(&self, ran: &mut Ran) {
        // What cannot be removed now is removed by `work clean`.
        let _ = self.workspace.take_back(std::mem::take(&mut ran.added));
    }

    /// Puts a change's contents and the states before and after it into the store.
    fn keep_states(
        &self,
        ran: &mut Ran,
        agent: &WorkAgent,
        capsule: Option<&Capsule>,
        (before, after): (&State, &State),
    ) -> Result<(), KeepError> {
        let known = confine::hidden(&self.workspace, &agent.hide, &self.private).ok();
        let covers = |path: &str| agent.hide.covering(path).is_some();
        let hidden = Hidden { covers: &covers, known: known.as_deref() };
        if let Some(capsule) = capsule {
            ran.added.extend(self.workspace.keep_contents(capsule)?);
        }
        ran.added.extend(self.workspace.keep_hiding(before, hidden)?);
        ran.added.extend(self.workspace.keep_after(before, after, hidden)?);
        Ok(())
    }

    fn give_up(
        &self,
        locked: &Locked<'_>,
        ran: &Ran,
        agent: &WorkAgent,
        merging: &Merging,
    ) -> Result<Concluded, WorkError> {
        Ok(Concluded::Finished(Box::new(self.close(locked, ran, agent, &merging.batch)?)))
    }

    fn to_tree(
        &self,
        locked: &Locked<'_>,
        ran: &mut Ran,
        agent: &WorkAgent,
        room: &Room<'_>,
        capsule: Capsule,
        merging: &mut Merging,
    ) -> Result<Result<Concluded, Ending>, WorkError> {
        let ready = match self.ready(ran, room, capsule, &merging.touched)? {
            Ok(ready) => ready,
            Err(ending) => return Ok(Err(ending)),
        };
        let prepared = match self.workspace.prepare(&ready.capsule) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(unpublished(&error))),
        };
        let landing = ready.landing(&prepared.id());
        if merging.is_held {
            prepared.hold()?;
            let waits = self.hold(locked, ran, agent, &merging.batch, &landing, None)?;
            return Ok(Ok(Concluded::Held(waits)));
        }
        let publish = || Ok(prepared.publish().map(drop)?);
        match self.land(locked, ran, agent, &merging.batch, &landing, publish) {
            Ok(result) => {
                let item = ran.item.id.to_string();
                merging.touched.extend(landing.changes.into_iter().map(|change| (change.path, item.clone())));
                Ok(Ok(Concluded::Finished(Box::new(result))))
            }
            Err(WorkError::Publish(error)) if !matches!(error, PublishError::Unsettled { .. }) => {
                Ok(Err(unpublished(&error)))
            }
            Err(error) => Err(error),
        }
    }

    /// The change on the state as it is now: without conflict, tested on it, and that state kept.
    pub(super) fn ready(
        &self,
        ran: &mut Ran,
        room: &Room<'_>,
        capsule: Capsule,
        touched: &BTreeMap<TreePath, String>,
    ) -> Result<Result<Ready, Ending>, WorkError> {
        let mut tested_on = ran.before;
        let mut capsule = capsule;
        for _ in 0..MAX_MOVES {
            let snapshot = self.workspace.snapshot()?;
            let now = snapshot.state().hash().digest();
            if now != tested_on {
                if let Some(ending) = conflict(capsule.changes(), &snapshot, touched) {
                    return Ok(Err(ending));
                }
                capsule = match self.captured_again(&capsule, &snapshot, room) {
                    Ok(capsule) => capsule,
                    Err(ending) => return Ok(Err(ending)),
                };
                let (tested, ending) = room.test(&ran.item, capsule.changes());
                ran.tested = tested.or_else(|| ran.tested.take());
                if let Err(ending) = ending {
                    return Ok(Err(on_merged(ending)));
                }
                tested_on = now;
                continue;
            }
            match self.keep_states(ran, room.agent, Some(&capsule), (snapshot.state(), capsule.after())) {
                Ok(()) => return Ok(Ok(Ready { snapshot, capsule })),
                // Somebody saved a file at this very moment.
                Err(KeepError::Store(StoreError::Changed(_) | StoreError::Source { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Err(Ending::Failed(format!(
            "Conflict: the workspace changed {MAX_MOVES} times while the change was being committed; run again"
        ))))
    }

    /// The same change, seen from another state.
    fn captured_again(
        &self,
        capsule: &Capsule,
        snapshot: &Snapshot,
        room: &Room<'_>,
    ) -> Result<Capsule, Ending> {
        let failed = |error: &dyn std::error::Error| {
            let why = with_causes(error);
            Ending::Failed(format!("the change could not be applied to the workspace as it is now: {why}"))
        };
        let changes = capsule.changes();
        let there = changes.iter().filter_map(|change| Some((&change.path, change.after.as_ref()?)));
        self.workspace.lay_out(there, &room.scratch).map_err(|error| failed(&error))?;
        let path = |change: &Change| std::path::PathBuf::from(change.path.as_str());
        let seen = ViewChanges {
            folder: room.scratch.clone(),
            gone: changes.iter().filter(|change| change.after.is_none()).map(path).collect(),
            present: changes.iter().filter(|change| change.after.is_some()).map(path).collect(),
        };
        let captured = self.workspace.capture_again(capsule, snapshot, &seen).map_err(|error| match error {
            CaptureError::Denied(denied) => Ending::Denied(denied.to_string()),
            error => failed(&error),
        });
        let _ = std::fs::remove_dir_all(&room.scratch);
        captured
    }

    fn to_branch(
        &self,
        locked: &Locked<'_>,
        ran: &mut Ran,
        agent: &WorkAgent,
        room: &Room<'_>,
        base: &Base<'_>,
        merging: &mut Merging,
    ) -> Result<Result<Concluded, Ending>, WorkError> {
        let Some(capsule) = ran.capsule.clone() else { return Ok(Err(Ending::Interrupted)) };
        let own = own_changes(&capsule, base, &agent.hide);
        if let Some(ending) = overlap(&own, &merging.touched) {
            return Ok(Err(ending));
        }
        let combined = combine(&merging.accumulated, &own);
        if !merging.touched.is_empty() {
            let (tested, ending) = room.test(&ran.item, &combined);
            ran.tested = tested.or_else(|| ran.tested.take());
            if let Err(ending) = ending {
                return Ok(Err(on_merged(ending)));
            }
        }
        let Delivery::Branch(branch) = &mut merging.delivery else { return Ok(Err(Ending::Interrupted)) };
        if merging.is_held {
            let held = self.hold_for_branch(locked, ran, agent, &merging.batch, (branch, base, &capsule));
            return held.or_else(not_for_branch);
        }
        let on =
            OnBranch { branch, state: base.snapshot.state(), accumulated: &merging.accumulated, own: &own };
        let committed = self.commit_to_branch(locked, ran, agent, &merging.batch, on);
        let result = match committed.or_else(not_for_branch)? {
            Ok(result) => result,
            Err(ending) => return Ok(Err(ending)),
        };
        let item = ran.item.id.to_string();
        merging.touched.extend(own.into_iter().map(|change| (change.path, item.clone())));
        merging.accumulated = combined;
        Ok(Ok(Concluded::Finished(Box::new(result))))
    }

    /// Keeps a change durably that is to go to a branch. Nothing of the same call has landed there before it.
    fn hold_for_branch(
        &self,
        locked: &Locked<'_>,
        ran: &mut Ran,
        agent: &WorkAgent,
        batch: &str,
        (branch, base, capsule): (&Branch, &Base<'_>, &Capsule),
    ) -> Result<Result<Concluded, Ending>, WorkError> {
        match self.keep_states(ran, agent, Some(capsule), (base.snapshot.state(), capsule.after())) {
            Err(KeepError::Store(error)) => return Ok(Err(Ending::Failed(format!("Conflict: {error}")))),
            kept => kept?,
        }
        if let Some(ending) = branch.carries_other(self, capsule.changes())? {
            return Ok(Err(ending));
        }
        let prepared = match self.workspace.prepare(capsule) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(unpublished(&error))),
        };
        let landing = Landing {
            before: base.snapshot.state().hash().digest(),
            after: capsule.after().hash().digest(),
            changes: capsule.changes().to_vec(),
            commit: None,
            publish: prepared.id().as_str().to_owned(),
        };
        prepared.hold()?;
        let waits = self.hold(locked, ran, agent, batch, &landing, Some(branch.held()))?;
        Ok(Ok(Concluded::Held(waits)))
    }

    /// Why a change may not be published at all, seen from the state it leads to.
    pub(super) fn denied(&self, changes: &[Change], after: &State) -> Result<Option<Ending>, WorkError> {
        let checked = self.workspace.check(changes, after).map_err(PublishError::from)?;
        Ok(checked.err().map(|denied| Ending::Denied(denied.to_string())))
    }

    /// Keeps the states before and after, makes the commit, writes the outcome and moves the branch.
    pub(super) fn commit_to_branch(
        &self,
        locked: &Locked<'_>,
        ran: &mut Ran,
        agent: &WorkAgent,
        batch: &str,
        on: OnBranch<'_>,
    ) -> Result<Result<Valid<RunResult>, Ending>, WorkError> {
        let OnBranch { branch, state, accumulated, own } = on;
        let of = |changes: Vec<Change>| {
            Capsule::of_changes(state, changes).map_err(|error| Ending::Failed(error.to_string()))
        };
        let (before, after) = match (of(accumulated.to_vec()), of(combine(accumulated, own))) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(ending), _) | (_, Err(ending)) => return Ok(Err(ending)),
        };
        if let Some(ending) = self.denied(after.changes(), after.after())? {
            return Ok(Err(ending));
        }
        let capsule = ran.capsule.clone();
        match self.keep_states(ran, agent, capsule.as_ref(), (before.after(), after.after())) {
            Err(KeepError::Store(error)) => return Ok(Err(Ending::Failed(format!("Conflict: {error}")))),
            kept => kept?,
        }
        let commit = match branch.commit(self, ran, own)? {
            Ok(commit) => commit,
            Err(ending) => return Ok(Err(ending)),
        };
        let landing = Landing {
            before: before.after().hash().digest(),
            after: after.after().hash().digest(),
            changes: own.to_vec(),
            commit: Some((branch.name.clone(), commit.clone())),
            publish: format!("branch:{}:{}", branch.name, commit.as_str()),
        };
        match self.land(locked, ran, agent, batch, &landing, || branch.advance(&commit)) {
            Err(error @ WorkError::Git { .. }) => Ok(Err(Ending::Failed(format!("Conflict: {error}")))),
            landed => Ok(Ok(landed?)),
        }
    }
}

/// What the repository cannot do for one item does not stop the others.
fn not_for_branch<T>(error: WorkError) -> Result<Result<T, Ending>, WorkError> {
    match error {
        error @ WorkError::Git { .. } => Ok(Err(Ending::Failed(error.to_string()))),
        error => Err(error),
    }
}

/// A change that goes to a branch.
pub(super) struct OnBranch<'b> {
    pub(super) branch: &'b mut Branch,
    /// The workspace's state.
    pub(super) state: &'b State,
    /// What the branch has beyond it.
    pub(super) accumulated: &'b [Change],
    /// What is to be committed.
    pub(super) own: &'b [Change],
}

/// The paths of a change that are no longer what they were, as an ending.
pub(super) fn conflict(
    changes: &[Change],
    snapshot: &Snapshot,
    touched: &BTreeMap<TreePath, String>,
) -> Option<Ending> {
    if let Some(ending) = overlap(changes, touched) {
        return Some(ending);
    }
    let moved = changes.iter().find(|change| {
        // What is ignored is in no state; publishing looks at it itself.
        !snapshot.ignores(&change.path) && snapshot.state().get(&change.path) != change.before.as_ref()
    })?;
    Some(Ending::Failed(format!("Conflict: someone else changed `{}` meanwhile; run again", moved.path)))
}

/// A path that an earlier item of the level changed, as an ending.
fn overlap(changes: &[Change], touched: &BTreeMap<TreePath, String>) -> Option<Ending> {
    changes.iter().find_map(|change| {
        let item = touched.get(&change.path)?;
        let path = &change.path;
        Some(Ending::Failed(format!(
            "Conflict: `{path}` was changed by item `{item}` of the same level; let one depend on the other"
        )))
    })
}

pub(super) fn on_merged(ending: Ending) -> Ending {
    match ending {
        Ending::Failed(why) => Ending::Failed(format!("{why} (on the merged state)")),
        other => other,
    }
}

/// Why nothing was published, as an ending.
pub(super) fn unpublished(error: &PublishError) -> Ending {
    match error {
        PublishError::Denied(denied) => Ending::Denied(denied.to_string()),
        PublishError::Conflict { .. } => Ending::Failed(format!("Conflict: {}", with_causes(error))),
        _ => Ending::Failed(with_causes(error)),
    }
}

/// Two changes as one, the second on top of the first.
pub(super) fn combine(first: &[Change], second: &[Change]) -> Vec<Change> {
    let mut all: BTreeMap<TreePath, Change> =
        first.iter().map(|change| (change.path.clone(), change.clone())).collect();
    for change in second {
        let before = all.get(&change.path).map_or(change.before.clone(), |known| known.before.clone());
        all.insert(change.path.clone(), Change { before, ..change.clone() });
    }
    all.into_values().filter(|change| change.before != change.after).collect()
}
