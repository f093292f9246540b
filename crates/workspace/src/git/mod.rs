//! The repository around a folder, and the files that git tracks. Owns finding the repository and reading its index;
//! refuses to guess from an index it cannot read. Nothing in `.git` is ever written.

mod bitmap;
mod index;
pub(crate) mod objects;
mod paths;

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use self::paths::Paths;
use crate::path::{GIT, join};

/// The largest index that is read.
const MAX_INDEX_BYTES: u64 = 1 << 30;
/// The largest pointer or configuration file that is read.
const MAX_SMALL_BYTES: u64 = 1 << 20;

/// Why the tracked files cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// A file of git's cannot be read.
    #[error("cannot read git's `{}`; fix its permissions or the repository", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The index is in an unknown form.
    #[error("cannot understand git's index `{}`: {what}; check it with `git status`", .path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

/// The files that one repository tracks, by paths relative to the workspace.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// Sorted by bytes; folders of a sparse index end in `/`.
    paths: Paths,
}

impl Tracked {
    /// The tracked files of the repository in `folder`, if there is one. `prefix` is the folder's path in the workspace.
    pub(crate) fn in_folder(folder: &Path, prefix: &str) -> Result<Option<Self>, GitError> {
        let Some(git) = GitRepository::at(folder)? else { return Ok(None) };
        let prefix = if prefix.is_empty() { String::new() } else { join(prefix, "") };
        let mut paths = Paths::default();
        entries(&git)?.iter().for_each(|path| paths.push(&[prefix.as_bytes(), path]));
        Ok(Some(Tracked { paths: paths.sorted() }))
    }

    /// The files in a workspace that the repository around it tracks: the workspace's own, or one further up.
    pub(crate) fn around(workspace: &Path) -> Result<Self, GitError> {
        let Some(repository) = GitRepository::around(workspace)? else { return Ok(Tracked::default()) };
        let mut prefix = repository.prefix(workspace).as_os_str().as_bytes().to_vec();
        let all = entries(&repository)?;
        if prefix.is_empty() {
            return Ok(Tracked { paths: all.sorted() });
        }
        prefix.push(b'/');
        let mut paths = Paths::default();
        let within = all.iter().filter_map(|path| path.strip_prefix(prefix.as_slice()));
        within.for_each(|path| paths.push(&[path]));
        Ok(Tracked { paths: paths.sorted() })
    }

    /// Whether this very path is tracked.
    pub(crate) fn holds(&self, path: &[u8]) -> bool {
        self.paths.holds(path) || self.in_sparse_folder(path)
    }

    /// Whether anything under this folder is tracked, or the folder itself (a submodule).
    pub(crate) fn reaches_into(&self, folder: &[u8]) -> bool {
        let mut inside = folder.to_vec();
        inside.push(b'/');
        let first = self.paths.before(&inside);
        self.paths.get(first).is_some_and(|held| held.starts_with(&inside)) || self.holds(folder)
    }

    fn in_sparse_folder(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        slashes.into_iter().any(|at| self.paths.holds(path.get(..=at).unwrap_or_default()))
    }
}

/// The location of a git repository. Found only by the name `.git`, from a folder upwards: neither the environment nor a folder
/// that only looks like a repository (a bare one) counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRepository {
    /// The folder that `.git` is in.
    pub work_tree: PathBuf,
    /// The git folder of this working tree.
    pub own: PathBuf,
    /// The git folder that all working trees of the repository share.
    pub shared: PathBuf,
}

impl GitRepository {
    /// The repository that a folder belongs to: its own, or one further up.
    ///
    /// # Errors
    /// If a `.git` file or its target cannot be read.
    pub fn around(folder: &Path) -> Result<Option<Self>, GitError> {
        for above in folder.ancestors() {
            if let Some(found) = GitRepository::at(above)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The repository whose root this folder is: its `.git` is the git folder, or a file that points to one.
    fn at(folder: &Path) -> Result<Option<Self>, GitError> {
        let git = folder.join(GIT);
        let Ok(metadata) = fs::metadata(&git) else { return Ok(None) };
        let own = if metadata.is_dir() {
            git
        } else {
            let Some(pointer) = small_file(&git)? else { return Ok(None) };
            match pointer.strip_prefix("gitdir: ") {
                Some(target) => folder.join(target.trim_end_matches(['\n', '\r'])),
                None => return Ok(None),
            }
        };
        if fs::symlink_metadata(own.join("HEAD")).is_err() {
            return Ok(None);
        }
        let shared = match small_file(&own.join("commondir"))? {
            Some(shared) => own.join(shared.trim_end_matches(['\n', '\r'])),
            None => own.clone(),
        };
        Ok(Some(GitRepository { work_tree: folder.to_owned(), own, shared }))
    }

    /// The path of a folder in the working tree; empty for its root.
    pub fn prefix<'f>(&self, folder: &'f Path) -> &'f Path {
        folder.strip_prefix(&self.work_tree).unwrap_or(Path::new(""))
    }
}

/// The paths in a repository's index, those of a shared index included.
fn entries(git: &GitRepository) -> Result<Paths, GitError> {
    let digest_bytes = digest_bytes(git)?;
    let path = git.own.join("index");
    let Some(bytes) = whole_file(&path, MAX_INDEX_BYTES)? else { return Ok(Paths::default()) };
    let parse = |path: &Path, bytes: &[u8]| {
        index::parse(bytes, digest_bytes).map_err(|what| GitError::Index { path: path.to_owned(), what })
    };
    let parsed = parse(&path, &bytes)?;
    let Some(link) = parsed.link else { return Ok(parsed.paths) };
    let name: String = link.shared.iter().map(|byte| format!("{byte:02x}")).collect();
    let shared_path = git.own.join(format!("sharedindex.{name}"));
    let missing = GitError::Index { path: path.clone(), what: "the shared index it names does not exist" };
    let shared_bytes = whole_file(&shared_path, MAX_INDEX_BYTES)?.ok_or(missing)?;
    let shared = parse(&shared_path, &shared_bytes)?;
    let kept = (0_u64..).zip(shared.paths.iter()).filter(|(position, _)| !link.deleted.contains(position));
    // An entry that replaces one of the shared index has no name.
    let own = parsed.paths.iter().filter(|path| !path.is_empty());
    let mut paths = Paths::default();
    kept.map(|(_, path)| path).chain(own).for_each(|path| paths.push(&[path]));
    Ok(paths)
}

/// How many bytes an object's id has in this repository.
fn digest_bytes(git: &GitRepository) -> Result<usize, GitError> {
    let config = small_file(&git.shared.join("config"))?.unwrap_or_default();
    let is_sha256 = config.lines().any(|line| {
        let setting: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        setting.to_ascii_lowercase().starts_with("objectformat=sha256")
    });
    Ok(if is_sha256 { 32 } else { 20 })
}

fn small_file(path: &Path) -> Result<Option<String>, GitError> {
    let bytes = whole_file(path, MAX_SMALL_BYTES)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// A file's bytes, or `None` if there is no file.
fn whole_file(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, GitError> {
    let failed = |source| GitError::Io { path: path.to_owned(), source };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_file() || metadata.len() > max_bytes {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, "not a file, or too large")));
    }
    fs::read(path).map(Some).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(paths: &[&str]) -> Tracked {
        let mut all = Paths::default();
        paths.iter().for_each(|path| all.push(&[path.as_bytes()]));
        Tracked { paths: all.sorted() }
    }

    #[test]
    fn tracked_paths_and_the_folders_above_them() {
        let tracked = tracked(&["a", "b/c", "b-d", "sub", "sparse/"]);
        for path in ["a", "b/c", "sub", "sparse/x", "sparse/deep/x"] {
            assert!(tracked.holds(path.as_bytes()), "{path}");
        }
        for path in ["b", "b/d", "a/x", "spars", "c"] {
            assert!(!tracked.holds(path.as_bytes()), "{path}");
        }
        for folder in ["b", "sub", "sparse", "sparse/deep"] {
            assert!(tracked.reaches_into(folder.as_bytes()), "{folder}");
        }
        for folder in ["c", "b-", "b/c/d", "z"] {
            assert!(!tracked.reaches_into(folder.as_bytes()), "{folder}");
        }
    }

    #[test]
    fn a_git_file_points_to_the_git_folder_and_its_shared_part() {
        let place = tempfile::tempdir().unwrap();
        let main = place.path().join("main/.git");
        let own = main.join("worktrees/w");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("HEAD"), "ref: refs/heads/w\n").unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(main.join("config"), "[extensions]\n\tobjectFormat = sha256\n").unwrap();
        let tree = place.path().join("w");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(".git"), "gitdir: ../main/.git/worktrees/w\n").unwrap();
        let git = GitRepository::at(&tree).unwrap().unwrap();
        assert_eq!(git.own, tree.join("../main/.git/worktrees/w"));
        assert_eq!(digest_bytes(&git).unwrap(), 32);
        assert!(Tracked::in_folder(&tree, "").unwrap().is_some_and(|tracked| tracked.paths.get(0).is_none()));
        fs::write(tree.join(".git"), "gitdir: nowhere\n").unwrap();
        assert!(Tracked::in_folder(&tree, "").unwrap().is_none());
        fs::write(tree.join(".git"), "not a pointer").unwrap();
        assert!(Tracked::in_folder(&tree, "").unwrap().is_none());
    }

    #[test]
    fn an_index_that_cannot_be_read_is_refused() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join(".git")).unwrap();
        fs::write(place.path().join(".git/HEAD"), "x").unwrap();
        for index in [&b"DIRC"[..], b"DIRC\0\0\0\x09\0\0\0\0aaaaaaaaaaaaaaaaaaaa", b""] {
            fs::write(place.path().join(".git/index"), index).unwrap();
            assert!(matches!(Tracked::around(place.path()), Err(GitError::Index { .. })), "{index:?}");
        }
    }

    #[test]
    fn only_a_file_within_the_bound_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("index");
        assert_eq!(whole_file(&file, 3).unwrap(), None);
        fs::write(&file, "123").unwrap();
        assert_eq!(whole_file(&file, 3).unwrap(), Some(b"123".to_vec()));
        for (path, most) in [(file.as_path(), 2), (folder.path(), u64::MAX)] {
            assert!(matches!(whole_file(path, most), Err(GitError::Io { .. })), "{}", path.display());
        }
    }
}
