//! From a run that was admitted to a change that is there (R30): on the state as it is now, tested again where something
//! was merged since, then published, held, or committed to a branch. Owns what a conflict is.

use std::collections::BTreeMap;

use crealeph_contracts::RunResult;
use crealeph_contracts::contract::Valid;
use crealeph_workspace::{
    Capsule, Change, HeldId, KeepError, PublishError, Snapshot, StoreError, TreePath, ViewChanges,
};

use super::branch::Branch;
use super::config::WorkAgent;
use super::engine::{Work, WorkError};
use super::hold::Waits;
use super::outcome::Landing;
use super::run::{Base, Ending, Ran, Room, own_changes};
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
    Branch(Branch),
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
                self.give_up(&locked, &ran, agent, merging)
            }
        }
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
            let publish = prepared.hold()?;
            let waits = self.hold(locked, ran, agent, &merging.batch, &landing, publish.as_str())?;
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
                if let Some(ending) = conflict(&capsule, &snapshot, touched) {
                    return Ok(Err(ending));
                }
                capsule = match self.captured_again(&capsule, &snapshot, room) {
                    Ok(capsule) => capsule,
                    Err(why) => return Ok(Err(Ending::Failed(why))),
                };
                let (tested, ending) = room.test(&ran.item, capsule.changes());
                ran.tested = tested.or_else(|| ran.tested.take());
                if let Err(ending) = ending {
                    return Ok(Err(on_merged(ending)));
                }
                tested_on = now;
                continue;
            }
            let kept = self
                .workspace
                .keep(snapshot.state())
                .and_then(|()| self.workspace.keep_after(snapshot.state(), capsule.after()));
            match kept {
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
    ) -> Result<Capsule, String> {
        let failed = |error: &dyn std::error::Error| {
            format!("the change could not be applied to the workspace as it is now: {}", with_causes(error))
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
        let captured = self.workspace.capture(snapshot, &seen).map_err(|error| failed(&error));
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
        let Some(capsule) = &ran.capsule else { return Ok(Err(Ending::Interrupted)) };
        let own = own_changes(capsule, base);
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
        let state = base.snapshot.state();
        let of = |changes: &[Change]| {
            Capsule::of_changes(state, changes.to_vec()).map_err(|error| Ending::Failed(error.to_string()))
        };
        let (before, after) = match (of(&merging.accumulated), of(&combined)) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(ending), _) | (_, Err(ending)) => return Ok(Err(ending)),
        };
        let kept = self
            .workspace
            .keep(before.after())
            .and_then(|()| self.workspace.keep_after(before.after(), after.after()));
        match kept {
            Err(KeepError::Store(error)) => return Ok(Err(Ending::Failed(format!("Conflict: {error}")))),
            kept => kept?,
        }
        let commit = match branch.commit(self, ran, &own)? {
            Ok(commit) => commit,
            Err(ending) => return Ok(Err(ending)),
        };
        let landing = Landing {
            before: before.after().hash().digest(),
            after: after.after().hash().digest(),
            changes: own.clone(),
            commit: Some((branch.name.clone(), commit.clone())),
            publish: format!("branch:{}:{}", branch.name, commit.as_str()),
        };
        let landed = self.land(locked, ran, agent, &merging.batch, &landing, || branch.advance(&commit));
        let result = match landed {
            Err(error @ WorkError::Git { .. }) => {
                return Ok(Err(Ending::Failed(format!("Conflict: {error}"))));
            }
            landed => landed?,
        };
        let item = ran.item.id.to_string();
        merging.touched.extend(own.iter().map(|change| (change.path.clone(), item.clone())));
        merging.accumulated = combined;
        Ok(Ok(Concluded::Finished(Box::new(result))))
    }
}

/// The paths of a change that are no longer what they were, as an ending.
fn conflict(capsule: &Capsule, snapshot: &Snapshot, touched: &BTreeMap<TreePath, String>) -> Option<Ending> {
    if let Some(ending) = overlap(capsule.changes(), touched) {
        return Some(ending);
    }
    let moved = capsule.changes().iter().find(|change| {
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

fn on_merged(ending: Ending) -> Ending {
    match ending {
        Ending::Failed(why) => Ending::Failed(format!("{why} (on the merged state)")),
        other => other,
    }
}

/// Why nothing was published, as an ending.
pub(super) fn unpublished(error: &PublishError) -> Ending {
    let what = if matches!(error, PublishError::Conflict { .. }) { "Conflict: " } else { "" };
    Ending::Failed(format!("{what}{}", with_causes(error)))
}

/// Two changes as one, the second on top of the first.
fn combine(first: &[Change], second: &[Change]) -> Vec<Change> {
    let mut all: BTreeMap<TreePath, Change> =
        first.iter().map(|change| (change.path.clone(), change.clone())).collect();
    for change in second {
        let before = all.get(&change.path).map_or(change.before.clone(), |known| known.before.clone());
        all.insert(change.path.clone(), Change { before, ..change.clone() });
    }
    all.into_values().filter(|change| change.before != change.after).collect()
}
