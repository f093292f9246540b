//! Recovering interrupted publishes, and clearing finished ones. Owns undoing, which can itself be interrupted and
//! repeated; and that nothing that someone else wrote is ever removed: it is left in its place or kept elsewhere, and reported.
//!
//! Its slot shows whether a step was done: a file or link that was to be created is no longer in it, a deleted one
//! is. A slot's content is removed only if it is, to the byte, what the plan says.

use std::io;
use std::path::PathBuf;

use crate::node::TreeNode;
use crate::rooted::{Root, is_gone, is_there};

use super::journal::{Journal, Stage};
use super::plan::{Plan, PublishStep, Slot};
use super::spot::{Seen, Spot, is_not_empty};
use super::{PublishError, apply, fault, io_error};

/// How often undoing a step is tried while someone else changes the same path.
const TRIES: usize = 8;

/// The outcome of an unfinished publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// It had not begun; there was nothing to undo.
    Discarded,
    /// It was interrupted, and all its steps were undone.
    RolledBack,
    /// It was complete.
    Published,
}

/// A content that someone else wrote at the moment of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The path it was written to.
    pub path: String,
    /// Where it is now.
    pub place: KeptPlace,
}

/// The place of a kept content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptPlace {
    /// At its own path, where it was written.
    InPlace,
    /// In this file under `.crealeph/kept`, because its path has another content.
    Beside(PathBuf),
}

/// A recovered publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Which.
    pub publish: String,
    /// Its outcome.
    pub outcome: PublishOutcome,
    /// What someone else wrote meanwhile.
    pub kept: Vec<Kept>,
}

/// Recovers a publish whose owner is gone. Returns `None` if it is still held, or was finished and no one else wrote.
pub(super) fn settle(root: &Root, journal: Journal) -> Result<Option<Settled>, PublishError> {
    let publish = journal.id().to_owned();
    let settled = |outcome, kept| Settled { publish, outcome, kept };
    match journal.stage() {
        Some(Stage::Held) => Ok(None),
        None | Some(Stage::Prepared) => {
            journal.discard(root)?;
            Ok(Some(settled(PublishOutcome::Discarded, Vec::new())))
        }
        Some(Stage::Applying) => {
            let plan = journal.plan(Stage::Applying)?;
            let kept = roll_back(root, &journal, &plan)?;
            Ok(Some(settled(PublishOutcome::RolledBack, kept)))
        }
        Some(stage @ (Stage::Committed | Stage::RolledBack)) => {
            let plan = journal.plan(stage)?;
            let outcome = if stage == Stage::Committed {
                PublishOutcome::Published
            } else {
                PublishOutcome::RolledBack
            };
            let kept = clear(root, journal, &plan, stage)?;
            Ok((!kept.is_empty()).then(|| settled(outcome, kept)))
        }
    }
}

/// Undoes every completed step, last first. Staged contents stay in their slots until the publish is cleared.
pub(super) fn roll_back(root: &Root, journal: &Journal, plan: &Plan) -> Result<Vec<Kept>, PublishError> {
    let mut undo = Undo { root, journal, plan, kept: Vec::new() };
    for step in plan.steps.iter().rev() {
        fault::point("before undoing");
        undo.step(step).map_err(io_error("restore", root, step.path().as_str()))?;
        fault::point("undone");
    }
    apply::sync_targets(root, plan)?;
    journal.sync_slots(root, plan)?;
    let kept = undo.kept;
    journal.advance(Stage::Applying, Stage::RolledBack)?;
    Ok(kept)
}

/// Removes what a finished publish left in its slots, except what someone wrote into it. As long as someone
/// still has some of it open for writing, all of it stays.
fn clear(root: &Root, journal: Journal, plan: &Plan, stage: Stage) -> Result<Vec<Kept>, PublishError> {
    if journal.is_being_written(root, plan) {
        return Ok(Vec::new());
    }
    let mut undo = Undo { root, journal: &journal, plan, kept: Vec::new() };
    for step in &plan.steps {
        let expected = match (stage, step) {
            (Stage::Committed, PublishStep::Delete { before, .. } | PublishStep::Replace { before, .. }) => {
                before
            }
            (Stage::RolledBack, PublishStep::Create { after, .. } | PublishStep::Replace { after, .. }) => {
                after
            }
            _ => continue,
        };
        let Some(slot) = step.slot() else { continue };
        fault::point("before clearing");
        undo.clear(step, slot, expected).map_err(io_error("clear", root, step.path().as_str()))?;
    }
    let kept = undo.kept;
    if stage == Stage::Committed {
        apply::remove_emptied(root, plan);
    }
    journal.discard(root)?;
    Ok(kept)
}

struct Undo<'u> {
    root: &'u Root,
    journal: &'u Journal,
    plan: &'u Plan,
    kept: Vec<Kept>,
}

impl Undo<'_> {
    fn step(&mut self, step: &PublishStep) -> io::Result<()> {
        match step {
            PublishStep::Create { after, slot, .. } => self.create(step, after, *slot),
            PublishStep::Replace { after, slot, .. } => self.replace(step, after, *slot),
            PublishStep::Delete { slot, .. } => self.delete(step, *slot),
            PublishStep::MakeFolder { path } => match Spot::at(self.root, path)? {
                Some(spot) => match spot.remove_folder() {
                    // It is already used, or was never created.
                    Err(error) if is_not_empty(&error) || is_gone(&error) => Ok(()),
                    removed => removed,
                },
                None => Ok(()),
            },
            PublishStep::RemoveFolder { path, mode } => match Spot::at(self.root, path)? {
                Some(spot) => match spot.make_folder(*mode) {
                    Err(error) if is_there(&error) => Ok(()),
                    made => made,
                },
                None => Ok(()),
            },
        }
    }

    /// Moves a created entry back into its slot.
    fn create(&mut self, step: &PublishStep, after: &TreeNode, slot: Slot) -> io::Result<()> {
        let slot = self.journal.slot(self.root, self.plan, slot)?;
        if slot.stat()?.is_some() {
            return Ok(());
        }
        let Some(target) = Spot::at(self.root, step.path())? else { return Ok(()) };
        for _ in 0..TRIES {
            match target.look()? {
                Seen::Nothing => return Ok(()),
                seen if !seen.is(after) => return self.left_in_place(step),
                _ => {}
            }
            fault::point("before taking back");
            match target.move_to(&slot) {
                Err(error) if is_gone(&error) => continue,
                moved => moved?,
            }
            fault::point("taken back");
            if slot.look()?.is(after) {
                return Ok(());
            }
            // Someone wrote to it in the last moment: it is moved back, unless its place is taken again.
            match slot.move_to(&target) {
                Err(error) if is_there(&error) => return self.keep_beside(step, &slot),
                moved => moved?,
            }
        }
        self.left_in_place(step)
    }

    /// Exchanges back what was exchanged.
    fn replace(&mut self, step: &PublishStep, after: &TreeNode, number: Slot) -> io::Result<()> {
        let slot = self.journal.slot(self.root, self.plan, number)?;
        match slot.look()? {
            Seen::Nothing => return Ok(()),
            seen if seen.is(after) => return Ok(()),
            _ => {}
        }
        let Some(target) = Spot::at(self.root, step.path())? else { return self.keep_beside(step, &slot) };
        for _ in 0..TRIES {
            match target.look()? {
                Seen::Nothing => match slot.move_to(&target) {
                    Err(error) if is_there(&error) => continue,
                    moved => return moved,
                },
                seen if seen.is(after) => {}
                _ => {
                    self.left_in_place(step)?;
                    return self.keep_beside(step, &slot);
                }
            }
            fault::point("before exchanging back");
            match slot.exchange(&target) {
                Err(error) if is_gone(&error) => continue,
                exchanged => exchanged?,
            }
            fault::point("exchanged back");
            if slot.look()?.is(after) {
                return Ok(());
            }
            // Someone saved in the last moment: their content belongs in its place.
            match slot.exchange(&target) {
                Err(error) if is_gone(&error) => return self.keep_beside(step, &slot),
                exchanged => exchanged?,
            }
        }
        self.left_in_place(step)?;
        self.keep_beside(step, &slot)
    }

    /// Puts back a deleted entry.
    fn delete(&mut self, step: &PublishStep, slot: Slot) -> io::Result<()> {
        let slot = self.journal.slot(self.root, self.plan, slot)?;
        if slot.stat()?.is_none() {
            return Ok(());
        }
        let Some(target) = Spot::at(self.root, step.path())? else { return self.keep_beside(step, &slot) };
        fault::point("before putting back");
        match slot.move_to(&target) {
            Err(error) if is_there(&error) => {
                self.left_in_place(step)?;
                self.keep_beside(step, &slot)
            }
            moved => moved,
        }
    }

    /// Leaves a slot's content to be removed if it is as planned, and keeps it otherwise.
    fn clear(&mut self, step: &PublishStep, slot: Slot, expected: &TreeNode) -> io::Result<()> {
        let slot = match self.journal.slot(self.root, self.plan, slot) {
            Ok(slot) => slot,
            // The slots were already removed.
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        match slot.look()? {
            Seen::Nothing => Ok(()),
            seen if seen.is(expected) => Ok(()),
            _ => self.keep_beside(step, &slot),
        }
    }

    fn left_in_place(&mut self, step: &PublishStep) -> io::Result<()> {
        self.kept.push(Kept { path: step.path().to_string(), place: KeptPlace::InPlace });
        Ok(())
    }

    /// Moves a slot's content to the kept ones, under a new name.
    fn keep_beside(&mut self, step: &PublishStep, slot: &Spot) -> io::Result<()> {
        let Some(number) = step.slot() else { return Ok(()) };
        let folder = self.journal.kept(self.root, self.plan, number);
        std::fs::create_dir_all(&folder)?;
        folder.parent().map_or(Ok(()), |kept| std::fs::File::open(kept)?.sync_all())?;
        let name = format!("{}-{}", number.number, step.path().split().1);
        for copy in 0..TRIES {
            let name = if copy == 0 { name.clone() } else { format!("{name}-{copy}") };
            let beside = Spot::own(&folder, name.clone())?;
            match slot.move_to(&beside) {
                Err(error) if is_there(&error) => continue,
                moved => moved?,
            }
            beside.sync()?;
            fault::point("kept beside");
            let place = KeptPlace::Beside(folder.join(name));
            self.kept.push(Kept { path: step.path().to_string(), place });
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is no free name to keep it under"))
    }
}
