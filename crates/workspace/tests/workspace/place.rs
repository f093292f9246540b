//! A workspace in a temporary folder, and helpers to fill and read it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crealeph_workspace::{ScanError, SnapshotError, TreePath, Workspace, WorkspaceSnapshot};

pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A place where syncing costs nothing, if there is one.
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap() }
    }

    /// The usual place of temporary files, which may be a disk.
    pub(crate) fn on_disk() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    /// A place with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Place {
        let place = Place::new();
        files.iter().for_each(|(path, text)| place.write(path, text));
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    pub(crate) fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::open(self.path()).unwrap()
    }

    pub(crate) fn snapshot(&self) -> WorkspaceSnapshot {
        self.workspace().snapshot().unwrap()
    }

    /// The paths of the state.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.snapshot().state().entries().keys().map(ToString::to_string).collect()
    }

    /// The error of a refused snapshot.
    pub(crate) fn refusals(&self) -> Vec<String> {
        match self.workspace().snapshot() {
            Err(SnapshotError::Scan(ScanError::Refused(refusals))) => {
                refusals.iter().map(ToString::to_string).collect()
            }
            other => panic!("not refused: {other:?}"),
        }
    }

    /// An index, as git writes one, that tracks these paths, in a repository at `folder`.
    pub(crate) fn track(&self, folder: &str, paths: &[&str]) {
        let git = self.at(folder).join(".git");
        fs::create_dir_all(&git).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("index"), index(paths)).unwrap();
    }
}

pub(crate) fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

/// Git's index, version 2, of these paths, without what only git itself looks at.
pub(crate) fn index(paths: &[&str]) -> Vec<u8> {
    let mut paths = paths.to_vec();
    paths.sort_unstable();
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(paths.len()).unwrap().to_be_bytes());
    for path in paths {
        let mut entry = vec![0; 60];
        entry.extend(u16::try_from(path.len()).unwrap().to_be_bytes());
        entry.extend(path.as_bytes());
        entry.resize(entry.len() + 8 - entry.len() % 8, 0);
        bytes.extend(entry);
    }
    bytes.extend([0; 20]);
    bytes
}
