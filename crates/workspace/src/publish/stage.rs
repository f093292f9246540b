//! Preparing a publish: the plan, and every content on the target's own mount. Owns the order of the steps and the permissions of
//! new files; nothing in the workspace is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, Stat, StatxFlags, Uid};

use crate::change::Change;
use crate::control::sync_file_system;
use crate::durable::sync_together;
use crate::node::TreeNode;
use crate::path::{CONTROL, TreePath, folders_above, join};
use crate::rooted::Root;
use crate::state::StateHash;
use crate::workspace::Workspace;

use super::fault;
use super::journal::Journal;
use super::plan::{Plan, PublishStep, Slot};
use super::{PublishError, io_error};

/// From this many files on, the file system is synced once instead of each file.
const SYNC_ALL_FROM: usize = 64;
/// Permission bits, without those that change who runs a file.
const PERMISSIONS: u32 = 0o777;

/// Makes the plan of some changes.
pub(super) fn plan(
    root: &Root,
    before: StateHash,
    after: StateHash,
    changes: &[Change],
) -> Result<Plan, PublishError> {
    let mut areas = Areas { root, tops: vec![String::new()], by_folder: BTreeMap::new() };
    let mut slot = {
        let mut next = 0;
        move |areas: &mut Areas<'_>, path: &TreePath| -> Result<Slot, PublishError> {
            next += 1;
            let area = areas.area(path.split().0).map_err(io_error("look at", root, path.as_str()))?;
            Ok(Slot { area, number: next - 1 })
        }
    };
    let deleted: BTreeSet<&str> =
        changes.iter().filter(|change| change.after.is_none()).map(|change| change.path.as_str()).collect();
    let (mut deletes, mut arrivals) = (Vec::new(), Vec::new());
    let (mut in_the_way, mut missing, mut emptied) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for change in changes {
        let path = change.path.clone();
        if let (Some(before), None) = (&change.before, &change.after) {
            emptied.extend(folders_above(change.path.as_str()).map(str::to_owned));
            let slot = slot(&mut areas, &path)?;
            deletes.push(PublishStep::Delete { path, before: before.clone(), slot });
            continue;
        }
        let Some(after) = change.after.clone() else { continue };
        let above = folders_above(path.as_str()).map(str::to_owned).collect::<Vec<_>>();
        for folder in above {
            let there = root.stat(&folder).map_err(io_error("look at", root, &folder))?;
            match there.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Some(FileType::Directory) => {}
                Some(_) if !deleted.contains(folder.as_str()) => {
                    return Err(PublishError::InTheWay { wanted: path.to_string(), path: folder });
                }
                _ => drop(missing.insert(folder)),
            }
        }
        if is_folder(root, path.as_str()).map_err(io_error("look at", root, path.as_str()))? {
            folders_in(root, &path, &deleted, &mut in_the_way)?;
        }
        let slot = slot(&mut areas, &path)?;
        arrivals.push(match change.before.clone() {
            None => PublishStep::Create { path, after, slot },
            Some(before) => PublishStep::Replace { path, before, after, slot },
        });
    }
    let mut steps = deletes;
    steps.append(&mut in_the_way);
    for folder in missing {
        // A folder above a path of a state is a path of a state.
        steps.extend(TreePath::parse(&folder).map(|path| PublishStep::MakeFolder { path }));
    }
    steps.append(&mut arrivals);
    Ok(Plan { before, after, areas: areas.tops, steps, emptied: emptied.into_iter().rev().collect() })
}

fn is_folder(root: &Root, path: &str) -> io::Result<bool> {
    let stat = root.stat(path)?;
    Ok(stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory))
}

/// The folder at a path and those in it, deepest first, all to be removed. It may contain only deleted entries.
fn folders_in(
    root: &Root,
    path: &TreePath,
    deleted: &BTreeSet<&str>,
    steps: &mut Vec<PublishStep>,
) -> Result<(), PublishError> {
    let failed = io_error("look into", root, path.as_str());
    let opened = root.folder(path.as_str()).map_err(&failed)?;
    let mode = rustix::fs::fstat(&opened).map_err(|errno| failed(errno.into()))?.st_mode & PERMISSIONS;
    for entry in Dir::read_from(&opened).map_err(|errno| failed(errno.into()))? {
        let entry = entry.map_err(|errno| failed(errno.into()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if matches!(name.as_str(), "." | "..") {
            continue;
        }
        let inner = join(path.as_str(), &name);
        let below = TreePath::parse(&inner).ok();
        match below.filter(|_| is_folder(root, &inner).unwrap_or(false)) {
            Some(below) => folders_in(root, &below, deleted, steps)?,
            None if deleted.contains(inner.as_str()) => {}
            None => return Err(PublishError::InTheWay { wanted: path.to_string(), path: inner }),
        }
    }
    steps.push(PublishStep::RemoveFolder { path: path.clone(), mode });
    Ok(())
}

/// The mount of a folder, identified by the topmost folder of the workspace on the same mount.
struct Areas<'r> {
    root: &'r Root,
    tops: Vec<String>,
    by_folder: BTreeMap<String, usize>,
}

impl Areas<'_> {
    fn area(&mut self, folder: &str) -> io::Result<usize> {
        if let Some(known) = self.by_folder.get(folder) {
            return Ok(*known);
        }
        let top = top_of_mount(self.root, folder)?;
        let area = match self.tops.iter().position(|known| *known == top) {
            Some(area) => area,
            None => {
                self.tops.push(top);
                self.tops.len() - 1
            }
        };
        self.by_folder.insert(folder.to_owned(), area);
        Ok(area)
    }
}

/// The topmost folder on the mount of a folder, or of its nearest existing parent.
fn top_of_mount(root: &Root, folder: &str) -> io::Result<String> {
    let ways_up = std::iter::once(folder).chain(folders_above(folder)).chain(std::iter::once(""));
    let mut found: Option<((u32, u32, u64), String)> = None;
    for folder in ways_up {
        let here = match root.folder(folder) {
            Ok(opened) => mount(&opened)?,
            Err(error) if found.is_none() && crate::rooted::is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        match &found {
            Some((mount, _)) if *mount != here => break,
            _ => found = Some((here, folder.to_owned())),
        }
    }
    Ok(found.map(|(_, top)| top).unwrap_or_default())
}

fn mount(folder: &impl std::os::fd::AsFd) -> io::Result<(u32, u32, u64)> {
    let seen = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    Ok((seen.stx_dev_major, seen.stx_dev_minor, seen.stx_mnt_id))
}

/// Writes every content of a plan into its slot, and makes them durable.
pub(super) fn stage(workspace: &Workspace, journal: &Journal, plan: &Plan) -> Result<(), PublishError> {
    let root = &workspace.root;
    journal.make_slots(root, &plan.areas)?;
    let syncs_each = plan.steps.len() < SYNC_ALL_FROM;
    let mut staged = Vec::new();
    for step in &plan.steps {
        let (after, replaces) = match step {
            PublishStep::Create { after, .. } => (after, false),
            PublishStep::Replace { after, .. } => (after, true),
            _ => continue,
        };
        let Some(slot) = step.slot() else { continue };
        let path = step.path().as_str();
        let failed = io_error("stage", root, path);
        let spot = journal.slot(root, plan, slot).map_err(&failed)?;
        fault::point("before a slot");
        match after {
            TreeNode::Symlink { target } => spot.new_link(target).map_err(&failed)?,
            TreeNode::File { digest, executable, .. } => {
                let file = spot.new_file(if *executable { 0o777 } else { 0o666 }).map_err(&failed)?;
                workspace.store().copy_to(digest, &file, &root.at(path))?;
                dress(root, &file, path, *executable, replaces).map_err(&failed)?;
                fault::point("slot written");
                if syncs_each {
                    staged.push((path, file));
                }
            }
        }
    }
    sync_together(&staged, |(path, file)| file.sync_all().map_err(io_error("stage", root, path)))?;
    if !syncs_each {
        plan.areas.iter().try_for_each(|area| sync_file_system(&root.at(area).join(CONTROL)))?;
    }
    fault::point("slots written");
    Ok(journal.sync_slots(root, plan)?)
}

/// The paths whose slot does not match the plan.
pub(super) fn altered(root: &Root, journal: &Journal, plan: &Plan) -> Result<Vec<String>, PublishError> {
    let mut altered = Vec::new();
    for step in &plan.steps {
        let (PublishStep::Create { after, slot, .. } | PublishStep::Replace { after, slot, .. }) = step
        else {
            continue;
        };
        let failed = io_error("look at", root, step.path().as_str());
        let seen = journal.slot(root, plan, *slot).and_then(|spot| spot.look()).map_err(failed)?;
        if !seen.is(after) {
            altered.push(step.path().to_string());
        }
    }
    Ok(altered)
}

/// Gives a staged file the permissions and the owner of the one it replaces, or the owner of its folder if it is new
/// and created by root. Its executable bit is the state's.
fn dress(root: &Root, file: &File, path: &str, executable: bool, replaces: bool) -> io::Result<()> {
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let replaced = if replaces { root.stat(path)?.filter(is_file) } else { None };
    let own = rustix::fs::fstat(file)?;
    let model = match replaced {
        Some(replaced) => Some(replaced),
        None => nearest_folder(root, path)?.filter(|_| rustix::process::geteuid().is_root()),
    };
    if let Some(model) = model.filter(|model| (model.st_uid, model.st_gid) != (own.st_uid, own.st_gid)) {
        let (owner, group) = (Uid::from_raw(model.st_uid), Gid::from_raw(model.st_gid));
        // Only root may change a file's owner; an editor that saves by renaming leaves the same.
        let _ = rustix::fs::fchown(file, Some(owner), Some(group));
    }
    let mode = replaced.map_or(own.st_mode, |replaced| replaced.st_mode) & PERMISSIONS;
    let mode = match executable {
        true if mode & 0o100 != 0 => mode,
        true => mode | (mode & 0o444) >> 2 | 0o100,
        false => mode & !0o111,
    };
    if mode != own.st_mode & PERMISSIONS {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// The nearest existing folder above a path.
pub(super) fn nearest_folder(root: &Root, path: &str) -> io::Result<Option<Stat>> {
    for folder in folders_above(path).chain(std::iter::once("")) {
        match root.folder(folder) {
            Ok(folder) => return Ok(Some(rustix::fs::fstat(&folder)?)),
            Err(error) if crate::rooted::is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_identified_by_its_topmost_folder() {
        let root = Root::open(std::path::Path::new("/")).unwrap();
        assert_eq!(top_of_mount(&root, "proc/self").unwrap(), "proc");
        assert_eq!(top_of_mount(&root, "proc/none/such").unwrap(), "proc");
        assert_eq!(top_of_mount(&root, "").unwrap(), "");
        let mut areas = Areas { root: &root, tops: vec![String::new()], by_folder: BTreeMap::new() };
        assert_eq!(areas.area("proc").unwrap(), 1);
        assert_eq!(areas.area("proc/sys").unwrap(), 1);
        assert_eq!(areas.area("").unwrap(), 0);
    }
}
