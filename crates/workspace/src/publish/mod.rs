//! Publishing a change so that the workspace is always exactly before or exactly after. Owns the value between
//! preparing and publishing, which must be published, held or discarded, and recovering a publish that a crash interrupted.
//!
//! A publish is staged on the target's own mount and made durable; its plan is written; each step is one `renameat2`
//! that overwrites nothing, and what it displaced is checked; the folders are made durable; then it is recorded as
//! complete. Until then it is undone as a whole. A path that someone else changed is never overwritten: found before
//! or during the steps it is a conflict and nothing is published; paths that no step touches are simply left alone.

mod apply;
mod fault;
mod journal;
mod plan;
mod settle;
mod spot;
mod stage;
mod writers;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use crealeph_contracts::digest::Blake3;

use crate::capsule::Capsule;
use crate::change::Change;
use crate::control::{ControlError, Lock};
use crate::denied::DeniedPath;
use crate::rooted::Root;
use crate::scan::ScanError;
use crate::state::StateHash;
use crate::store::StoreError;
use crate::workspace::Workspace;

use journal::{Journal, Stage};
use plan::Plan;
pub use settle::{Kept, KeptPlace, PublishOutcome, Settled};

/// How many paths of a conflict its message names.
const MAX_LISTED: usize = 100;

/// Why a change is not published. Then nothing of it is in the workspace, unless the error says that it was not undone.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Someone else changed the same paths.
    #[error("someone else changed {} meanwhile; nothing was published; run again on the current files", quoted(.paths))]
    Conflict {
        /// The paths.
        paths: Vec<String>,
        /// The content that someone wrote at that very moment.
        kept: Vec<Kept>,
    },
    /// The change touches a path that no run may change.
    #[error(transparent)]
    Denied(#[from] DeniedPath),
    /// A file that decides whether the change may be published cannot be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The path of a new file or folder is ignored and occupied, or someone else created something there.
    #[error(
        "`{wanted}` cannot be created: `{path}` is in the way and is not part of the change; move it away"
    )]
    InTheWay {
        /// The path to be created.
        wanted: String,
        /// The path in the way.
        path: String,
    },
    /// The file system does not support atomic publishing.
    #[error("the file system of `{}` cannot exchange files atomically; move the workspace to ext4, xfs, btrfs or tmpfs", .0.display())]
    Unsupported(PathBuf),
    /// A file or folder cannot be read or written.
    #[error("cannot {action} `{}`; nothing was published, fix its permissions or free space", .path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It could neither be completed nor undone.
    #[error(
        "publish `{publish}` was interrupted and could not be undone; free space or fix the permissions, then recover"
    )]
    Unsettled {
        /// Which publish.
        publish: String,
        /// The cause.
        source: Box<PublishError>,
    },
    /// `.crealeph` cannot be used.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A content is not in the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such held change.
    #[error("no change is held as `{0}`; it was published or rejected, or never held")]
    NotHeld(String),
}

fn quoted(paths: &[String]) -> String {
    let mut named: Vec<String> = paths.iter().take(MAX_LISTED).map(|path| format!("`{path}`")).collect();
    if paths.len() > MAX_LISTED {
        named.push(format!("and {} more", paths.len() - MAX_LISTED));
    }
    named.join(", ")
}

/// Builds an error about a path of the workspace.
fn io_error<'e>(
    action: &'static str,
    root: &'e Root,
    path: &'e str,
) -> impl Fn(io::Error) -> PublishError + 'e {
    move |source| PublishError::Io { action, path: root.at(path), source }
}

/// The name of a held change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldId(String);

impl HeldId {
    /// A name as it was given.
    pub fn new(id: &str) -> Self {
        HeldId(id.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A published change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The changes.
    pub changes: Vec<Change>,
    /// Earlier publishes that were recovered on the way.
    pub settled: Vec<Settled>,
}

/// A change that is ready, and not yet in the workspace. Dropping it discards it, unless it was held before.
#[must_use = "a prepared change is published, held or discarded"]
#[derive(Debug)]
pub struct Prepared<'w> {
    workspace: &'w Workspace,
    /// `None` when it is finished.
    journal: Option<Journal>,
    plan: Plan,
    stage: Stage,
}

impl Workspace {
    /// Prepares a change: stages its contents and writes its plan, durably. The workspace is not touched.
    ///
    /// # Errors
    /// If the change is denied, a content is missing, or something cannot be written.
    pub fn prepare(&self, capsule: &Capsule) -> Result<Prepared<'_>, PublishError> {
        self.check(capsule.changes(), capsule.after())??;
        self.keep_contents(capsule)?;
        let lock = self.control.lock_to_publish()?;
        let journal = Journal::create(&self.control, &lock)?;
        drop(lock);
        fault::point("journal made");
        let plan = stage::plan(&self.root, capsule.before(), capsule.after().hash(), capsule.changes());
        let prepared = plan.and_then(|plan| {
            stage::stage(self, &journal, &plan)?;
            journal.record(&plan)?;
            Ok(plan)
        });
        match prepared {
            Ok(plan) => {
                Ok(Prepared { workspace: self, journal: Some(journal), plan, stage: Stage::Prepared })
            }
            Err(error) => {
                // Anything that cannot be removed now is removed when the workspace is recovered.
                let _ = journal.discard(&self.root);
                Err(error)
            }
        }
    }

    /// The changes that are held, oldest first.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn held(&self) -> Result<Vec<HeldId>, PublishError> {
        let mut held = Vec::new();
        for id in journal::all(&self.control)? {
            if journal::is_held(&self.control, &id) {
                held.push(HeldId(id));
            }
        }
        Ok(held)
    }

    /// Whether a publish was complete when its process ended. Known until the next publish or recovery clears it away.
    pub fn was_published(&self, id: &HeldId) -> bool {
        journal::is_committed(&self.control, id.as_str())
    }

    /// Opens a held change.
    ///
    /// # Errors
    /// If no such change is held, or another process has opened it.
    pub fn resume(&self, id: &HeldId) -> Result<Prepared<'_>, PublishError> {
        let not_held = || PublishError::NotHeld(id.as_str().to_owned());
        if !journal::all(&self.control)?.iter().any(|known| known == id.as_str()) {
            return Err(not_held());
        }
        let journal = Journal::take(&self.control, id.as_str())?;
        let journal = journal.ok_or_else(|| ControlError::Busy(self.path().to_owned()))?;
        if journal.stage() != Some(Stage::Held) {
            return Err(not_held());
        }
        let plan = journal.plan(Stage::Held)?;
        Ok(Prepared { workspace: self, journal: Some(journal), plan, stage: Stage::Held })
    }

    /// Recovers everything that a crash interrupted: undone as a whole, or found to be complete. To be called at every
    /// start; publishes of other processes are not touched.
    ///
    /// # Errors
    /// If something cannot be undone; nothing is lost then, and it can be called again.
    pub fn recover(&self) -> Result<Vec<Settled>, PublishError> {
        let lock = self.control.lock_to_publish()?;
        self.control.sweep(&lock)?;
        self.settle_others(&lock)
    }

    /// Recovers every publish that no process owns.
    fn settle_others(&self, _alone: &Lock) -> Result<Vec<Settled>, PublishError> {
        let mut settled = Vec::new();
        for id in journal::all(&self.control)? {
            if let Some(journal) = Journal::take(&self.control, &id)? {
                settled.extend(settle::settle(&self.root, journal)?);
            }
        }
        Ok(settled)
    }

    /// The publish that was interrupted and is not recovered yet, if there is one.
    pub(crate) fn unsettled(&self, quiet: &Lock) -> Result<Option<String>, ControlError> {
        journal::interrupted(&self.control, quiet)
    }
}

impl Prepared<'_> {
    /// The name of this publish.
    pub fn id(&self) -> HeldId {
        HeldId(self.journal.as_ref().map(|journal| journal.id().to_owned()).unwrap_or_default())
    }

    /// The state it was made from.
    pub fn before(&self) -> StateHash {
        self.plan.before
    }

    /// The state it leads to, if no one else changed anything.
    pub fn after(&self) -> StateHash {
        self.plan.after
    }

    /// Its changes.
    pub fn changes(&self) -> Vec<Change> {
        self.plan.changes()
    }

    /// The digest of its plan: every step of it, in order.
    pub fn digest(&self) -> Blake3 {
        Blake3::of(self.plan.to_text().as_bytes())
    }

    /// The paths whose staged content is not what the plan says.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn altered(&self) -> Result<Vec<String>, PublishError> {
        match &self.journal {
            Some(journal) => stage::altered(&self.workspace.root, journal, &self.plan),
            None => Ok(Vec::new()),
        }
    }

    /// Publishes it: if this succeeds, the change is in the workspace, whole and durable.
    ///
    /// # Errors
    /// If someone else changed the same paths, or something cannot be written; then nothing of it is there.
    pub fn publish(mut self) -> Result<Published, PublishError> {
        let Some(journal) = self.journal.take() else { return Err(PublishError::NotHeld(String::new())) };
        let root = &self.workspace.root;
        let begun = self.workspace.control.lock_to_publish().map_err(PublishError::from).and_then(|lock| {
            let settled = self.workspace.settle_others(&lock)?;
            let paths = apply::conflicts(root, &self.plan)?;
            match paths.is_empty() {
                true => Ok((lock, settled)),
                false => Err(PublishError::Conflict { paths, kept: Vec::new() }),
            }
        });
        let (_lock, settled) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                discard(root, journal, self.stage)?;
                return Err(error);
            }
        };
        fault::point("checked");
        journal.advance(self.stage, Stage::Applying)?;
        let applied =
            self.plan.steps.iter().try_for_each(|step| apply::apply(root, &journal, &self.plan, step));
        let complete = applied
            .and_then(|()| apply::sync_targets(root, &self.plan))
            .and_then(|()| Ok(journal.sync_slots(root, &self.plan)?));
        if let Err(error) = complete {
            return Err(undone(root, &journal, &self.plan, error));
        }
        if let Err(error) = journal.advance(Stage::Applying, Stage::Committed) {
            // Whether it is complete on disk is not known; recovery finds out.
            let publish = journal.id().to_owned();
            return Err(PublishError::Unsettled { publish, source: Box::new(error.into()) });
        }
        apply::remove_emptied(root, &self.plan);
        Ok(Published { changes: self.plan.changes(), settled })
    }

    /// Keeps it durably, to be opened later by its name.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn hold(mut self) -> Result<HeldId, PublishError> {
        let Some(journal) = self.journal.take() else { return Err(PublishError::NotHeld(String::new())) };
        if self.stage != Stage::Held {
            journal.advance(self.stage, Stage::Held)?;
        }
        Ok(HeldId(journal.id().to_owned()))
    }

    /// Discards it. The workspace was never touched.
    ///
    /// # Errors
    /// If its files cannot be removed.
    pub fn discard(mut self) -> Result<(), PublishError> {
        match self.journal.take() {
            Some(journal) => discard(&self.workspace.root, journal, self.stage),
            None => Ok(()),
        }
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // One that is held stays held. Anything that cannot be removed now is removed when the workspace is recovered.
        if let Some(journal) = self.journal.take().filter(|_| self.stage == Stage::Prepared) {
            let _ = journal.discard(&self.workspace.root);
        }
    }
}

fn discard(root: &Root, journal: Journal, stage: Stage) -> Result<(), PublishError> {
    // One whose slots are partly removed must not be mistaken for a held one.
    if stage == Stage::Held {
        journal.advance(Stage::Held, Stage::Prepared)?;
    }
    Ok(journal.discard(root)?)
}

/// Undoes the completed steps, and returns the reason.
fn undone(root: &Root, journal: &Journal, plan: &Plan, error: PublishError) -> PublishError {
    match (settle::roll_back(root, journal, plan), error) {
        (Ok(kept), PublishError::Conflict { paths, .. }) => PublishError::Conflict { paths, kept },
        (Ok(_), error) => error,
        (Err(source), _) => {
            PublishError::Unsettled { publish: journal.id().to_owned(), source: Box::new(source) }
        }
    }
}
