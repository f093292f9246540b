//! One name in one folder, and what the kernel can do with it in a single step. Owns the few operations of a publish;
//! none follows a link, none overwrites anything.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::node::TreeNode;
use crate::path::TreePath;
use crate::rooted::{Root, is_gone, stat_in};
use crate::scan::{Unread, file_at, unread_in};

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct Spot {
    folder: OwnedFd,
    name: String,
}

/// The entry of a spot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    TreeNode(TreeNode),
    /// A folder, or something that no state can hold.
    Other,
}

impl Seen {
    pub(super) fn is(&self, node: &TreeNode) -> bool {
        matches!(self, Seen::TreeNode(seen) if seen == node)
    }
}

impl Spot {
    /// A path of the workspace; `None` if its folder is gone.
    pub(super) fn at(root: &Root, path: &TreePath) -> io::Result<Option<Self>> {
        let (folder, name) = path.split();
        match root.folder(folder) {
            Ok(folder) => Ok(Some(Spot { folder, name: name.to_owned() })),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A name in a folder that this crate owns.
    pub(super) fn own(folder: &Path, name: String) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Spot { folder, name })
    }

    pub(super) fn stat(&self) -> io::Result<Option<Stat>> {
        stat_in(&self.folder, &self.name)
    }

    /// The entry here, with its content read.
    pub(super) fn look(&self) -> io::Result<Seen> {
        let Some(stat) = self.stat()? else { return Ok(Seen::Nothing) };
        match unread_in(&self.folder, &self.name, &stat)? {
            None => Ok(Seen::Other),
            Some(Unread::Link { target }) => Ok(Seen::TreeNode(TreeNode::Symlink { target })),
            Some(Unread::File { .. }) => match file_at(&self.folder, &self.name) {
                Ok(node) => Ok(node.map_or(Seen::Other, Seen::TreeNode)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Seen::Nothing),
                Err(error) if is_gone(&error) => Ok(Seen::Other),
                Err(error) => Err(error),
            },
        }
    }

    /// Moves the entry here to another spot that is empty; `EEXIST` if it is not.
    pub(super) fn move_to(&self, other: &Spot) -> io::Result<()> {
        let flags = RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(&self.folder, &self.name, &other.folder, &other.name, flags)?)
    }

    /// Exchanges the entry here and the entry of another spot, as one step.
    pub(super) fn exchange(&self, other: &Spot) -> io::Result<()> {
        let flags = RenameFlags::EXCHANGE;
        Ok(rustix::fs::renameat_with(&self.folder, &self.name, &other.folder, &other.name, flags)?)
    }

    pub(super) fn make_folder(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.folder, &self.name, Mode::from_raw_mode(mode))?)
    }

    /// Gives a folder here to the owner of another.
    pub(super) fn give_to(&self, model: &Stat) -> io::Result<()> {
        let (owner, group) = (Uid::from_raw(model.st_uid), Gid::from_raw(model.st_gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(&self.folder, &self.name, Some(owner), Some(group), flags)?)
    }

    /// Removes an empty folder.
    pub(super) fn remove_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)?)
    }

    pub(super) fn is_folder(&self) -> io::Result<bool> {
        let is_folder = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        Ok(self.stat()?.is_some_and(is_folder))
    }

    /// A new file here, open for reading and writing.
    pub(super) fn new_file(&self, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(File::from(rustix::fs::openat(&self.folder, &self.name, flags, Mode::from_raw_mode(mode))?))
    }

    pub(super) fn new_link(&self, target: &str) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.folder, &self.name)?)
    }

    /// Makes the changes in the folder durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.folder)?)
    }
}

/// Whether an error says that a folder still holds something.
pub(super) fn is_not_empty(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTEMPTY | Errno::EXIST))
}

/// Whether an error says that the file system does not support the operation at all.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}
