//! Removing directory trees that a hostile program created. Owns a removal that follows no symbolic link, is not
//! stopped by modes, and works for any depth; refuses to leave a name behind without saying so.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Deeper directories are first moved to the top, so that descriptors and the stack stay bounded.
const MAX_DEPTH: usize = 64;
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes `path` and everything below it; it is no error if it does not exist.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let top = match open_directory(CWD, path) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return std::fs::remove_file(path),
        Err(e) => return Err(e.into()),
    };
    let mut moved = 0u64;
    empty(&top, &top, 0, &mut moved)?;
    std::fs::remove_dir(path)
}

/// Opens a directory whatever its mode.
fn open_directory<P: rustix::path::Arg + Copy>(at: impl AsFd, name: P) -> Result<OwnedFd, Errno> {
    match openat(at.as_fd(), name, OPEN, Mode::empty()) {
        Err(Errno::ACCESS) => {
            chmodat(at.as_fd(), name, Mode::RWXU, AtFlags::empty())?;
            openat(at.as_fd(), name, OPEN, Mode::empty())
        }
        other => other,
    }
}

fn empty(top: &OwnedFd, directory: &OwnedFd, depth: usize, moved: &mut u64) -> Result<(), Errno> {
    // Removing entries while reading may skip some, and deep ones are moved to the top: read until nothing is left.
    loop {
        let names = names(directory)?;
        if names.is_empty() {
            return Ok(());
        }
        for (name, kind) in names {
            remove_entry(top, directory, &name, kind, depth, moved)?;
        }
    }
}

fn names(directory: &OwnedFd) -> Result<Vec<(CString, FileType)>, Errno> {
    const BATCH: usize = 4096;
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if name != c"." && name != c".." {
            names.push((name.to_owned(), entry.file_type()));
        }
        if names.len() >= BATCH {
            break;
        }
    }
    Ok(names)
}

fn remove_entry(
    top: &OwnedFd,
    directory: &OwnedFd,
    name: &CStr,
    kind: FileType,
    depth: usize,
    moved: &mut u64,
) -> Result<(), Errno> {
    if kind != FileType::Directory {
        match retry_writable(directory, || unlinkat(directory, name, AtFlags::empty())) {
            Err(Errno::ISDIR) => {}
            other => return other,
        }
    }
    if depth >= MAX_DEPTH {
        let aside = format!(".deep-{}-{moved}", std::process::id());
        *moved = moved.saturating_add(1);
        chmodat(directory, name, Mode::RWXU, AtFlags::empty())?;
        return retry_writable(directory, || renameat(directory, name, top, aside.as_str()));
    }
    let inner = open_directory(directory, name)?;
    empty(top, &inner, depth.saturating_add(1), moved)?;
    retry_writable(directory, || unlinkat(directory, name, AtFlags::REMOVEDIR))
}

/// Tries again with the directory made writable, if that was the problem.
fn retry_writable(directory: &OwnedFd, act: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    match act() {
        Err(Errno::ACCESS) => {
            rustix::fs::fchmod(directory, Mode::RWXU)?;
            act()
        }
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_deeper_than_a_path_can_name_is_removed() {
        let top = std::env::temp_dir().join(format!("crealeph-tree-{}", std::process::id()));
        std::fs::create_dir(&top).unwrap();
        std::fs::write(top.join("file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", top.join("link")).unwrap();
        let mut at = openat(CWD, &top, OPEN, Mode::empty()).unwrap();
        for depth in 0..3000 {
            rustix::fs::mkdirat(&at, "directory", Mode::RWXU).unwrap();
            let next = openat(&at, "directory", OPEN, Mode::empty()).unwrap();
            if depth % 100 == 50 {
                rustix::fs::mkdirat(&at, "closed", Mode::empty()).unwrap();
            }
            at = next;
        }
        drop(at);
        remove(&top).unwrap();
        assert!(!top.exists());
        assert!(Path::new("/etc").exists());
        remove(&top).unwrap();
    }
}
