//! The folder of one publish under `.crealeph/publish`. Owns the stage of a publish, which is the name of the plan's
//! file, changed by one durable rename; the slots; and the lock that shows whether the publisher is alive.
//!
//! ```text
//! .crealeph/publish/<id>/owner         locked by the process the publish belongs to
//! .crealeph/publish/<id>/<stage>       the plan; its name is the stage
//! .crealeph/publish/<id>/slots/<n>     staged contents, and displaced files
//! ```
//!
//! Slots for another mount are in the same place under that mount's own `.crealeph`.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::control::{Control, ControlError, Lock, failed, make_private, open_own, sync_folder};
use crate::path::CONTROL;
use crate::rooted::Root;

use super::fault;
use super::plan::{Plan, Slot};
use super::spot::Spot;
use super::writers::open_for_writing;

/// The largest plan that is read.
const MAX_PLAN_BYTES: u64 = 1 << 30;

/// The stage of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Staged; the workspace is not touched.
    Prepared,
    /// The same, and to be kept.
    Held,
    /// Steps are being carried out, or undone.
    Applying,
    /// All steps are done. Slots hold the displaced files.
    Committed,
    /// All steps are undone. Slots hold the staged contents.
    RolledBack,
}

impl Stage {
    const ALL: [Stage; 5] =
        [Stage::Prepared, Stage::Held, Stage::Applying, Stage::Committed, Stage::RolledBack];

    fn name(self) -> &'static str {
        match self {
            Stage::Prepared => "prepared",
            Stage::Held => "held",
            Stage::Applying => "applying",
            Stage::Committed => "committed",
            Stage::RolledBack => "rolled-back",
        }
    }
}

/// A publish on disk, owned by this process.
#[derive(Debug)]
pub(super) struct Journal {
    id: String,
    folder: PathBuf,
    _owner: File,
}

impl Journal {
    /// Creates a new one. The lock prevents a sweep from treating it as abandoned.
    pub(super) fn create(control: &Control, _alone: &Lock) -> Result<Self, ControlError> {
        let folder = control.publishes();
        let taken = ids(&folder)?.into_iter().chain(ids(&control.kept())?);
        let number = taken.filter_map(|id| id.parse::<u64>().ok()).max().unwrap_or(0) + 1;
        let id = number.to_string();
        let own = folder.join(&id);
        fs::create_dir(&own).map_err(failed("make", &own))?;
        Journal::own(own, id)?.ok_or(ControlError::Busy(folder))
    }

    /// Takes over an existing one, unless its owner is alive.
    pub(super) fn take(control: &Control, id: &str) -> Result<Option<Self>, ControlError> {
        Journal::own(control.publishes().join(id), id.to_owned())
    }

    fn own(folder: PathBuf, id: String) -> Result<Option<Self>, ControlError> {
        let path = folder.join("owner");
        let owner = open_own(&path).map_err(failed("open", &path))?;
        match owner.try_lock() {
            Ok(()) => Ok(Some(Journal { id, folder, _owner: owner })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Its stage; `None` if it was never prepared, or is being removed.
    pub(super) fn stage(&self) -> Option<Stage> {
        stage_in(&self.folder)
    }

    pub(super) fn plan(&self, stage: Stage) -> Result<Plan, ControlError> {
        let path = self.folder.join(stage.name());
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the plan is damaged; do not remove it");
        let size_bytes = fs::metadata(&path).map_err(failed("read", &path))?.len();
        if size_bytes > MAX_PLAN_BYTES {
            return Err(failed("read", &path)(damaged()));
        }
        let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
        Plan::parse(&text).ok_or_else(|| failed("read", &path)(damaged()))
    }

    /// Writes the plan; from here on the publish is prepared.
    pub(super) fn record(&self, plan: &Plan) -> Result<(), ControlError> {
        let draft = self.folder.join("draft");
        let mut file = File::create(&draft).map_err(failed("make", &draft))?;
        file.write_all(plan.to_text().as_bytes()).map_err(failed("write", &draft))?;
        file.sync_all().map_err(failed("sync", &draft))?;
        fault::point("plan written");
        let path = self.folder.join(Stage::Prepared.name());
        fs::rename(&draft, &path).map_err(failed("name", &path))?;
        fault::point("plan named");
        sync_folder(&self.folder)?;
        self.folder.parent().map_or(Ok(()), sync_folder)
    }

    /// Changes the stage; durable when this returns.
    pub(super) fn advance(&self, from: Stage, to: Stage) -> Result<(), ControlError> {
        let (old, new) = (self.folder.join(from.name()), self.folder.join(to.name()));
        fault::point("before a stage");
        fs::rename(&old, &new).map_err(failed("name", &new))?;
        fault::point("stage named");
        sync_folder(&self.folder)?;
        fault::point("after a stage");
        Ok(())
    }

    /// The folder of the slots in an area.
    fn slots(&self, root: &Root, area: &str) -> PathBuf {
        root.at(area).join(CONTROL).join("publish").join(&self.id).join("slots")
    }

    /// Creates the folders for the slots.
    pub(super) fn make_slots(&self, root: &Root, areas: &[String]) -> Result<(), ControlError> {
        for area in areas {
            let slots = self.slots(root, area);
            let mut missing: Vec<&Path> = slots.ancestors().take(4).collect();
            missing.reverse();
            missing.into_iter().try_for_each(make_private)?;
        }
        Ok(())
    }

    pub(super) fn slot(&self, root: &Root, plan: &Plan, slot: Slot) -> io::Result<Spot> {
        let area = plan.areas.get(slot.area).map_or("", String::as_str);
        Spot::own(&self.slots(root, area), slot.number.to_string())
    }

    /// Whether some process may still write to something in the slots.
    pub(super) fn is_being_written(&self, root: &Root, plan: &Plan) -> bool {
        plan.areas.iter().any(|area| !open_for_writing(&self.slots(root, area)).is_empty())
    }

    pub(super) fn sync_slots(&self, root: &Root, plan: &Plan) -> Result<(), ControlError> {
        plan.areas.iter().try_for_each(|area| sync_folder(&self.slots(root, area)))
    }

    /// The folder for displaced files that are kept: on the mount of their slot.
    pub(super) fn kept(&self, root: &Root, plan: &Plan, slot: Slot) -> PathBuf {
        let area = plan.areas.get(slot.area).map_or("", String::as_str);
        root.at(area).join(CONTROL).join("kept").join(&self.id)
    }

    /// Removes it with its slots, the plan first: without one there is nothing to recover.
    pub(super) fn discard(self, root: &Root) -> Result<(), ControlError> {
        let stage = self.stage();
        let areas = stage.map_or(Ok(Vec::new()), |stage| self.plan(stage).map(|plan| plan.areas))?;
        let outer: Vec<PathBuf> = areas
            .iter()
            .filter(|area| !area.is_empty())
            .filter_map(|area| self.slots(root, area).parent().map(Path::to_owned))
            .collect();
        // The slots on other mounts are removed while the plan still says where they are.
        for folder in outer {
            fault::point("before slots go");
            remove_tree(&folder)?;
        }
        if let Some(stage) = stage {
            let path = self.folder.join(stage.name());
            fault::point("before the plan is removed");
            fs::remove_file(&path).map_err(failed("remove", &path))?;
            sync_folder(&self.folder)?;
        }
        fault::point("plan gone");
        remove_tree(&self.folder)
    }
}

fn remove_tree(folder: &Path) -> Result<(), ControlError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", folder)(error)),
        _ => Ok(()),
    }
}

fn stage_in(folder: &Path) -> Option<Stage> {
    Stage::ALL.into_iter().find(|stage| fs::symlink_metadata(folder.join(stage.name())).is_ok())
}

/// The names of the folders in a folder, sorted as numbers.
fn ids(folder: &Path) -> Result<Vec<String>, ControlError> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
        let entry = entry.map_err(failed("read", folder))?;
        ids.extend(entry.file_name().into_string().ok());
    }
    ids.sort_by_key(|id| (id.len(), id.clone()));
    Ok(ids)
}

/// The ids of all publishes on disk, oldest first.
pub(super) fn all(control: &Control) -> Result<Vec<String>, ControlError> {
    ids(&control.publishes())
}

/// Whether a publish is held.
pub(super) fn is_held(control: &Control, id: &str) -> bool {
    stage_in(&control.publishes().join(id)) == Some(Stage::Held)
}

/// Whether a publish is complete.
pub(super) fn is_committed(control: &Control, id: &str) -> bool {
    stage_in(&control.publishes().join(id)) == Some(Stage::Committed)
}

/// The publish that was interrupted in its steps, if there is one. Only while no one publishes.
pub(super) fn interrupted(control: &Control, _quiet: &Lock) -> Result<Option<String>, ControlError> {
    let publishes = control.publishes();
    let mut ids = all(control)?.into_iter();
    Ok(ids.find(|id| stage_in(&publishes.join(id)) == Some(Stage::Applying)))
}
