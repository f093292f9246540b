//! Carrying out the steps of a plan. Ensures that a path that someone else changed is left alone: an entry that a step displaces is
//! checked after it has been displaced, when no one can change it by its path any more.

use std::collections::BTreeSet;
use std::io;

use crate::rooted::{Root, is_gone, is_there};

use super::journal::Journal;
use super::plan::{Plan, PublishStep};
use super::spot::{Seen, Spot, is_not_empty, is_unsupported};
use super::{PublishError, fault, io_error};

/// The paths that are not as the plan expects, the first hundred.
pub(super) fn conflicts(root: &Root, plan: &Plan) -> Result<Vec<String>, PublishError> {
    let make_way: BTreeSet<&str> = plan
        .steps
        .iter()
        .filter(|step| matches!(step, PublishStep::RemoveFolder { .. } | PublishStep::Delete { .. }))
        .map(|step| step.path().as_str())
        .collect();
    let mut paths = Vec::new();
    for step in &plan.steps {
        let path = step.path();
        let seen =
            || -> io::Result<Seen> { Spot::at(root, path)?.map_or(Ok(Seen::Nothing), |spot| spot.look()) };
        let is_as_planned = match step {
            PublishStep::Delete { before, .. } | PublishStep::Replace { before, .. } => {
                seen().map(|seen| seen.is(before))
            }
            PublishStep::Create { .. } if make_way.contains(path.as_str()) => Ok(true),
            PublishStep::Create { .. } => seen().map(|seen| seen == Seen::Nothing),
            PublishStep::RemoveFolder { .. } | PublishStep::MakeFolder { .. } => Ok(true),
        };
        if !is_as_planned.map_err(io_error("look at", root, path.as_str()))? {
            paths.push(path.to_string());
        }
    }
    Ok(paths)
}

/// Carries out one step. A conflict is found before or right after it; then this step, too, is to be undone.
pub(super) fn apply(
    root: &Root,
    journal: &Journal,
    plan: &Plan,
    step: &PublishStep,
) -> Result<(), PublishError> {
    let path = step.path().as_str();
    let conflict = || PublishError::Conflict { paths: vec![path.to_owned()], kept: Vec::new() };
    let failed = |error: io::Error| match is_unsupported(&error) {
        true => PublishError::Unsupported(root.at(path)),
        false => io_error("change", root, path)(error),
    };
    let Some(target) = Spot::at(root, step.path()).map_err(failed)? else { return Err(conflict()) };
    let slot = match step.slot() {
        Some(slot) => Some(journal.slot(root, plan, slot).map_err(failed)?),
        None => None,
    };
    fault::point("before a step");
    match (step, slot) {
        (PublishStep::Delete { before, .. }, Some(slot)) => {
            if target.is_folder().map_err(failed)? {
                return Err(conflict());
            }
            match target.move_to(&slot) {
                Err(error) if is_gone(&error) => return Err(conflict()),
                moved => moved.map_err(failed)?,
            }
            fault::point("deleted");
            if !slot.look().map_err(failed)?.is(before) {
                return Err(conflict());
            }
        }
        (PublishStep::Replace { before, .. }, Some(slot)) => {
            match slot.exchange(&target) {
                Err(error) if is_gone(&error) => return Err(conflict()),
                exchanged => exchanged.map_err(failed)?,
            }
            fault::point("exchanged");
            if !slot.look().map_err(failed)?.is(before) {
                return Err(conflict());
            }
        }
        (PublishStep::Create { .. }, Some(slot)) => match slot.move_to(&target) {
            Err(error) if is_there(&error) => return Err(conflict()),
            moved => moved.map_err(failed)?,
        },
        (PublishStep::RemoveFolder { .. }, _) => match target.remove_folder() {
            Err(error) if is_gone(&error) || is_not_empty(&error) => return Err(conflict()),
            removed => removed.map_err(failed)?,
        },
        (PublishStep::MakeFolder { .. }, _) => {
            let is_folder = make_folder(root, path, &target).map_err(failed)?;
            if !is_folder {
                return Err(conflict());
            }
        }
        _ => {}
    }
    fault::point("after a step");
    Ok(())
}

/// Makes a folder, unless there is one; false if something else is there.
fn make_folder(root: &Root, path: &str, target: &Spot) -> io::Result<bool> {
    match target.make_folder(0o777) {
        Err(error) if is_there(&error) => return target.is_folder(),
        made => made?,
    }
    // A folder created by root belongs to the owner of the folder above.
    if rustix::process::geteuid().is_root()
        && let Some(above) = super::stage::nearest_folder(root, path)?
    {
        target.give_to(&above)?;
    }
    Ok(true)
}

/// Makes the changes in the folders of all steps durable.
pub(super) fn sync_targets(root: &Root, plan: &Plan) -> Result<(), PublishError> {
    let folders: BTreeSet<&str> = plan.steps.iter().map(|step| step.path().split().0).collect();
    for folder in folders {
        match root.folder(folder) {
            Ok(opened) => {
                rustix::fs::fsync(&opened).map_err(|errno| io_error("sync", root, folder)(errno.into()))?;
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(io_error("sync", root, folder)(error)),
        }
    }
    Ok(())
}

/// Removes the folders that the plan's deletions left empty.
pub(super) fn remove_emptied(root: &Root, plan: &Plan) {
    for folder in &plan.emptied {
        fault::point("before an emptied folder is removed");
        let (above, name) = folder.rsplit_once('/').unwrap_or(("", folder));
        if let Ok(above) = root.folder(above) {
            // One that is not empty stays; it is not part of the state either way.
            let _ = rustix::fs::unlinkat(&above, name, rustix::fs::AtFlags::REMOVEDIR);
        }
    }
}
