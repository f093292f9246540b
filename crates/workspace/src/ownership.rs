//! Whose `.crealeph` it is. A folder that came with a clone or an archive is data that someone else wrote: a journal that
//! says what to undo, a key to sign with, links that lead elsewhere. Only a folder that this user created here is used. It is
//! recognised by a random id in it, which is also in the user's own state, so that it may be moved and renamed.
//!
//! ```text
//! .crealeph/id                                  the id, in hex
//! $XDG_STATE_HOME/crealeph/workspaces/<id>      where that folder was last seen
//! ```

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::git::{GitError, Tracked};
use crate::path::CONTROL;

const ID: &str = "id";
const ID_DIGITS: usize = 32;
const WORKSPACES: &str = "workspaces";
/// The mode bits by which others could write.
const OTHERS_WRITE: u32 = 0o022;
/// How many entries of a folder are checked before it is adopted.
const MAX_ENTRIES: usize = 10_000_000;
/// How deep its folders may be nested.
const MAX_DEPTH: usize = 32;
/// From how many records on those of removed folders are deleted.
const MANY_RECORDS: usize = 4_096;
/// The files that commands open by name; none of them is ever a link.
const OPENED: &[&str] = &[
    ".gitignore",
    "keys",
    "kept",
    "ledger.db",
    "ledger.db-journal",
    "ledger.db-shm",
    "ledger.db-wal",
    "ledger.db.keys",
    "lock",
    "name",
    "names-cache",
    "objects",
    "publish",
    "references",
    "runs",
    "runs/journal.jsonl",
    "runs/lock",
    "runs/owners",
    "state-cache",
    "states",
    "temporary",
];

/// Why a `.crealeph`, or the user's own state, is not used.
#[derive(Debug, thiserror::Error)]
pub enum OwnershipError {
    /// The user's state does not know it.
    #[error(
        "`{}` was not created here by you: it came with the folder, or is older than the ids of such folders; \
         look at what is in it, then run `crealeph trust --state {}`, or move it away",
        .folder.display(), .workspace.display()
    )]
    Unknown {
        /// The folder.
        folder: PathBuf,
        /// The folder that contains it.
        workspace: PathBuf,
    },
    /// It belongs to another user.
    #[error(
        "`{}` belongs to user {owner}, and you are user {user}; run this as that user, or work in a clone of your own",
        .path.display()
    )]
    Owner {
        /// The file or folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The current user.
        user: u32,
    },
    /// The user's state directory belongs to another user.
    #[error(
        "your state directory `{}` belongs to user {owner}, and you are user {user}; with sudo use `sudo -H`, or set \
         XDG_STATE_HOME to a folder of your own",
        .path.display()
    )]
    State {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The current user.
        user: u32,
    },
    /// Others can write to it.
    #[error(
        "others may write to `{}` (mode {mode:03o}); if no one did, run `chmod -R go-w` on `.crealeph` or your state directory",
        .path.display()
    )]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is something that CreAleph never creates there.
    #[error("`{}` is {what}, which CreAleph never creates in `.crealeph`; remove it", .path.display())]
    Odd {
        /// Its path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It is part of a repository.
    #[error(
        "git tracks files in `{}`, so what is in it may have come with a pull; run `git rm -r --cached {}`, and look at it",
        .folder.display(), .folder.display()
    )]
    Tracked {
        /// The folder.
        folder: PathBuf,
    },
    /// The tracked files cannot be known.
    #[error(transparent)]
    Git(#[from] GitError),
    /// It has more entries than are checked.
    #[error("`{}` holds more than {MAX_ENTRIES} files, or folders more than {MAX_DEPTH} deep; move it away", .0.display())]
    TooLarge(PathBuf),
    /// Something cannot be read or written.
    #[error("cannot {action} `{}`; check its permissions", .path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

fn failed<'p>(action: &'static str, path: &'p Path) -> impl Fn(io::Error) -> OwnershipError + 'p {
    move |source| OwnershipError::Io { action, path: path.to_owned(), source }
}

/// The content of a `.crealeph` that is about to be adopted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// How many files.
    pub files: u64,
    /// Their total size.
    pub bytes: u64,
    /// The folders of signing keys, relative to it.
    pub keys: Vec<String>,
    /// How many runs.
    pub runs: u64,
    /// Whether there is a ledger.
    pub has_ledger: bool,
}

/// The folders that this user created, as recorded in the user's own state.
#[derive(Debug)]
pub struct Registry {
    folder: PathBuf,
}

impl Registry {
    /// The registry in the user's state directory, which is created if it does not exist.
    ///
    /// # Errors
    /// If the directory belongs to another user, or others can write to it.
    pub fn open(user_state: &Path) -> Result<Self, OwnershipError> {
        make_private_folder(user_state)?;
        let folder = user_state.join(WORKSPACES);
        make_private_folder(&folder)?;
        Ok(Registry { folder })
    }

    /// Checks the `.crealeph` of a folder; returns whether there is one.
    ///
    /// # Errors
    /// If it is not this user's own.
    pub fn check(&self, workspace: &Path) -> Result<bool, OwnershipError> {
        let folder = workspace.join(CONTROL);
        let Some(Opened { opened, is_sealed }) = open_own(&folder)? else { return Ok(false) };
        for name in OPENED {
            if let Some(stat) = stat_at(&opened, name, &folder)? {
                plain(&stat, &folder.join(name), is_sealed)?;
            }
        }
        if Tracked::around(workspace)?.reaches_into(CONTROL.as_bytes()) {
            return Err(OwnershipError::Tracked { folder });
        }
        match read_id(&opened, &folder)? {
            Some(id) if self.knows(&id, workspace)? => Ok(true),
            _ => Err(OwnershipError::Unknown { folder, workspace: workspace.to_owned() }),
        }
    }

    /// The same, and creates one if there is none.
    ///
    /// # Errors
    /// If it is not this user's own, or cannot be created.
    pub fn claim(&self, workspace: &Path) -> Result<(), OwnershipError> {
        let folder = workspace.join(CONTROL);
        let is_empty = fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_none());
        if fs::symlink_metadata(&folder).is_ok() && !is_empty {
            return self.check(workspace).map(drop);
        }
        // It appears complete, so that no one finds it without its id.
        let id = new_id(&folder)?;
        let new = workspace.join(format!("{CONTROL}.{id}"));
        DirBuilder::new().mode(0o700).create(&new).map_err(failed("make", &new))?;
        let made = (|| {
            write_new(&new.join(".gitignore"), "*\n")?;
            write_new(&new.join(ID), &format!("{id}\n"))?;
            self.record(&id, workspace)?;
            fs::rename(&new, &folder).map_err(failed("make", &folder))
        })();
        if made.is_err() {
            let _ = fs::remove_dir_all(&new);
            let _ = fs::remove_file(self.folder.join(&id));
        }
        match made {
            // Another process was faster.
            Err(_) if fs::symlink_metadata(&folder).is_ok() => {}
            made => made?,
        }
        self.check(workspace).map(drop)
    }

    /// The content of a folder's `.crealeph`, if all of it could be this user's: no link, nothing of another user's.
    ///
    /// # Errors
    /// If something in it could not.
    pub fn look(&self, workspace: &Path) -> Result<Option<Contents>, OwnershipError> {
        let folder = workspace.join(CONTROL);
        let Some(Opened { opened, is_sealed }) = open_own(&folder)? else { return Ok(None) };
        if Tracked::around(workspace)?.reaches_into(CONTROL.as_bytes()) {
            return Err(OwnershipError::Tracked { folder });
        }
        let mut look = Look { is_sealed, left: MAX_ENTRIES, contents: Contents::default() };
        look.walk(&opened, &folder, "")?;
        Ok(Some(look.contents))
    }

    /// Adopts the `.crealeph` of a folder as this user's own, under a new id.
    ///
    /// # Errors
    /// If something in it is a link, another user's, or cannot be written.
    pub fn adopt(&self, workspace: &Path) -> Result<(), OwnershipError> {
        if self.look(workspace)?.is_none() {
            return Ok(());
        }
        let folder = workspace.join(CONTROL);
        // From now on others cannot even enter.
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&folder, private).map_err(failed("change the mode of", &folder))?;
        let id = new_id(&folder)?;
        let new = folder.join(format!("{ID}.{id}"));
        write_new(&new, &format!("{id}\n"))?;
        self.record(&id, workspace)?;
        let path = folder.join(ID);
        fs::rename(&new, &path).map_err(failed("write", &path))
    }

    /// Every known folder, by where it was last seen.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub fn known(&self) -> Result<Vec<PathBuf>, OwnershipError> {
        let mut found: Vec<PathBuf> = self.records()?.into_iter().map(|(_, workspace)| workspace).collect();
        found.sort();
        Ok(found)
    }

    /// Forgets the `.crealeph` of a folder; returns whether it was known.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub fn forget(&self, workspace: &Path) -> Result<bool, OwnershipError> {
        let folder = workspace.join(CONTROL);
        let Some(Opened { opened, .. }) = open_own(&folder)? else { return Ok(false) };
        let Some(id) = read_id(&opened, &folder)? else { return Ok(false) };
        let path = self.folder.join(id);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("remove", &path)(error)),
        }
    }

    /// Whether an id is one that this user created; updates where its folder is.
    fn knows(&self, id: &str, workspace: &Path) -> Result<bool, OwnershipError> {
        let path = self.folder.join(id);
        let Some(place) = read_own(&path)? else { return Ok(false) };
        if place != workspace.as_os_str().as_bytes() {
            // It was moved; its new place is only for `crealeph trust --list`.
            let _ = self.record(id, workspace);
        }
        Ok(true)
    }

    fn record(&self, id: &str, workspace: &Path) -> Result<(), OwnershipError> {
        let records = self.records()?;
        if records.len() >= MANY_RECORDS {
            let is_gone = |place: &Path| matches!(fs::symlink_metadata(place.join(CONTROL)), Err(error) if error.kind() == io::ErrorKind::NotFound);
            for (path, _) in records.iter().filter(|(_, place)| is_gone(place)) {
                fs::remove_file(path).map_err(failed("remove", path))?;
            }
        }
        replace_private_file(&self.folder.join(id), workspace.as_os_str().as_bytes())
    }

    fn records(&self) -> Result<Vec<(PathBuf, PathBuf)>, OwnershipError> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed("read", &self.folder))? {
            let path = entry.map_err(failed("read", &self.folder))?.path();
            if path.file_name().is_some_and(is_id)
                && let Some(place) = read_own(&path)?
            {
                records.push((path, PathBuf::from(OsStr::from_bytes(&place))));
            }
        }
        Ok(records)
    }
}

/// Creates a folder for this user alone, and refuses one that is not.
///
/// # Errors
/// If it is a link or not a folder, belongs to another user, or others can write to it.
pub fn make_private_folder(folder: &Path) -> Result<(), OwnershipError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("make", folder))?;
    let metadata = fs::symlink_metadata(folder).map_err(failed("read", folder))?;
    if !metadata.is_dir() {
        let what = if metadata.is_symlink() { "a link" } else { "no folder" };
        return Err(OwnershipError::Odd { path: folder.to_owned(), what });
    }
    own_by(metadata.uid(), metadata.mode(), folder).map_err(|error| match error {
        OwnershipError::Owner { path, owner, user } => OwnershipError::State { path, owner, user },
        other => other,
    })
}

/// Replaces a file that only this user reads, completely or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn replace_private_file(path: &Path, bytes: &[u8]) -> Result<(), OwnershipError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.{}", new_id(path)?));
    let write = || {
        let mut file = File::options().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&new))).map_err(failed("write", path))
}

/// A `.crealeph` that is this user's own folder.
struct Opened {
    opened: OwnedFd,
    /// Others cannot enter it, so the modes of its entries do not matter.
    is_sealed: bool,
}

/// Opens a `.crealeph` that is this user's own folder; `None` if there is none.
fn open_own(folder: &Path) -> Result<Option<Opened>, OwnershipError> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Err(OwnershipError::Odd {
                path: folder.to_owned(),
                what: "a link, or something other than a folder",
            });
        }
        Err(Errno::ACCESS) => {
            let metadata = fs::symlink_metadata(folder).map_err(failed("read", folder))?;
            own_by(metadata.uid(), metadata.mode(), folder)?;
            return Err(failed("read", folder)(Errno::ACCESS.into()));
        }
        Err(errno) => return Err(failed("read", folder)(errno.into())),
    };
    let stat = rustix::fs::fstat(&opened).map_err(|errno| failed("read", folder)(errno.into()))?;
    own_by(stat.st_uid, stat.st_mode, folder)?;
    Ok(Some(Opened { opened, is_sealed: stat.st_mode & 0o077 == 0 }))
}

fn own_by(owner: u32, mode: u32, path: &Path) -> Result<(), OwnershipError> {
    let user = rustix::process::geteuid().as_raw();
    if owner != user {
        return Err(OwnershipError::Owner { path: path.to_owned(), owner, user });
    }
    match mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(OwnershipError::Writable { path: path.to_owned(), mode: mode & 0o777 }),
    }
}

/// A file or folder of this user's without other hard links; anything else is refused.
fn plain(stat: &Stat, path: &Path, is_sealed: bool) -> Result<(), OwnershipError> {
    let odd = |what| Err(OwnershipError::Odd { path: path.to_owned(), what });
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {}
        FileType::RegularFile if stat.st_nlink > 1 => return odd("a file with another hard link elsewhere"),
        FileType::RegularFile => {}
        FileType::Symlink => return odd("a link"),
        _ => return odd("neither a file nor a folder"),
    }
    own_by(stat.st_uid, if is_sealed { 0 } else { stat.st_mode }, path)
}

fn stat_at(folder: impl AsFd, name: &str, shown: &Path) -> Result<Option<Stat>, OwnershipError> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(failed("read", &shown.join(name))(errno.into())),
    }
}

/// A check of everything in a folder.
struct Look {
    is_sealed: bool,
    left: usize,
    contents: Contents,
}

impl Look {
    fn walk(&mut self, opened: &OwnedFd, shown: &Path, relative: &str) -> Result<(), OwnershipError> {
        let too_large = || OwnershipError::TooLarge(shown.to_owned());
        if relative.matches('/').count() > MAX_DEPTH {
            return Err(too_large());
        }
        for entry in Dir::read_from(opened).map_err(|errno| failed("read", shown)(errno.into()))? {
            let entry = entry.map_err(|errno| failed("read", shown)(errno.into()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.left = self.left.checked_sub(1).ok_or_else(too_large)?;
            let path = shown.join(name);
            let stat = rustix::fs::statat(opened, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| failed("read", &path)(errno.into()))?;
            plain(&stat, &path, self.is_sealed)?;
            let inner = crate::path::join(relative, &name.to_string_lossy());
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                self.contents.files += 1;
                self.contents.bytes += u64::try_from(stat.st_size).unwrap_or(0);
                self.contents.has_ledger |= inner == "ledger.db";
                continue;
            }
            self.contents.runs += u64::from(relative == "runs" && inner != "runs/owners");
            if inner == "keys" || inner.ends_with(".keys") {
                self.contents.keys.push(inner.clone());
            }
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = rustix::fs::openat(opened, name, flags, Mode::empty())
                .map_err(|errno| failed("read", &path)(errno.into()))?;
            self.walk(&folder, &path, &inner)?;
        }
        Ok(())
    }
}

/// The id in a `.crealeph`; `None` if there is no valid one.
fn read_id(opened: &OwnedFd, folder: &Path) -> Result<Option<String>, OwnershipError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(opened, ID, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(failed("read", &folder.join(ID))(errno.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed("read", &folder.join(ID))(errno.into()))?;
    plain(&stat, &folder.join(ID), true)?;
    let mut text = String::new();
    let read = File::from(file).take(ID_DIGITS as u64 + 2).read_to_string(&mut text);
    Ok(read.ok().map(|_| text.trim_end().to_owned()).filter(|id| is_id(OsStr::new(id))))
}

fn is_id(name: &OsStr) -> bool {
    let digits = name.as_bytes();
    digits.len() == ID_DIGITS && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// The content of a file of the user's state, if it exists and is this user's own.
fn read_own(path: &Path) -> Result<Option<Vec<u8>>, OwnershipError> {
    const MAX_BYTES: u64 = 8192;
    let no_follow = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(no_follow).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let metadata = file.metadata().map_err(failed("read", path))?;
    own_by(metadata.uid(), metadata.mode(), path)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed("read", path))?;
    Ok(Some(bytes))
}

fn write_new(path: &Path, text: &str) -> Result<(), OwnershipError> {
    let write = || {
        let mut file = File::options().create_new(true).write(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(failed("write", path))
}

/// Sixteen random bytes in hex.
fn new_id(path: &Path) -> Result<String, OwnershipError> {
    let mut bytes = [0u8; ID_DIGITS / 2];
    let filled = getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()));
    filled.map_err(failed("make an id for", path))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Scene {
        _folder: tempfile::TempDir,
        registry: Registry,
        workspace: PathBuf,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = root.join("ws");
        fs::create_dir(&workspace).unwrap();
        Scene { _folder: folder, registry: Registry::open(&root.join("state")).unwrap(), workspace }
    }

    fn why(result: Result<bool, OwnershipError>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_folder_created_here_is_recognized_after_it_is_moved() {
        let Scene { registry, workspace, .. } = &scene();
        assert!(!registry.check(workspace).unwrap());
        registry.claim(workspace).unwrap();
        assert!(registry.check(workspace).unwrap());
        registry.claim(workspace).unwrap();
        let moved = workspace.with_file_name("moved");
        fs::rename(workspace, &moved).unwrap();
        assert!(registry.check(&moved).unwrap());
        assert_eq!(registry.known().unwrap(), std::slice::from_ref(&moved));
        assert!(registry.forget(&moved).unwrap());
        assert!(why(registry.check(&moved)).contains("was not created here by you"));
    }

    #[test]
    // holds: invariant 16
    fn a_folder_that_came_with_a_clone_is_not_used_before_it_is_adopted() {
        let Scene { registry, workspace, .. } = &scene();
        let control = workspace.join(CONTROL);
        fs::create_dir_all(control.join("runs/owners")).unwrap();
        fs::create_dir(control.join("ledger.db.keys")).unwrap();
        fs::write(control.join("runs/journal.jsonl"), "{}\n").unwrap();
        let advice = format!("crealeph trust --state {}", workspace.display());
        assert!(why(registry.check(workspace)).contains(&advice));
        assert!(why(registry.claim(workspace).map(|()| true)).contains(&advice));
        // An id alone does not make it known.
        fs::write(control.join(ID), "0123456789abcdef0123456789abcdef\n").unwrap();
        assert!(why(registry.check(workspace)).contains(&advice));
        let contents = registry.look(workspace).unwrap().unwrap();
        assert_eq!((contents.files, contents.keys), (2, vec!["ledger.db.keys".to_owned()]));
        registry.adopt(workspace).unwrap();
        assert!(registry.check(workspace).unwrap());
        assert!(!fs::read_to_string(control.join(ID)).unwrap().starts_with("0123456789abcdef"));
    }

    #[test]
    fn links_hard_links_and_files_writable_by_others_are_refused() {
        let Scene { registry, workspace, .. } = &scene();
        let control = workspace.join(CONTROL);
        registry.claim(workspace).unwrap();
        let outside = workspace.with_file_name("outside");
        fs::write(&outside, "x").unwrap();
        for name in ["lock", "runs", "state-cache"] {
            symlink(&outside, control.join(name)).unwrap();
            assert!(why(registry.check(workspace)).contains("is a link"), "{name}");
            fs::remove_file(control.join(name)).unwrap();
        }
        fs::hard_link(&outside, control.join("lock")).unwrap();
        assert!(why(registry.check(workspace)).contains("another hard link"));
        fs::remove_file(control.join("lock")).unwrap();
        fs::create_dir_all(control.join("objects/aa")).unwrap();
        symlink(&outside, control.join("objects/aa/bb")).unwrap();
        assert!(registry.look(workspace).unwrap_err().to_string().contains("objects/aa/bb` is a link"));
        fs::remove_file(control.join("objects/aa/bb")).unwrap();
        // Permissions that a umask leaves to a group matter only if the group can enter.
        fs::write(control.join("name"), "x").unwrap();
        fs::set_permissions(control.join("name"), fs::Permissions::from_mode(0o664)).unwrap();
        assert!(registry.check(workspace).unwrap());
        fs::set_permissions(&control, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(why(registry.check(workspace)).contains("others may write"));
        fs::set_permissions(&control, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(why(registry.check(workspace)).contains("others may write"));
        fs::remove_dir_all(&control).unwrap();
        symlink(&outside, &control).unwrap();
        assert!(why(registry.check(workspace)).contains("a link, or something other than a folder"));
        assert!(registry.claim(workspace).is_err());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "x");
    }

    #[test]
    fn concurrent_claims_agree() {
        let Scene { registry, workspace, .. } = &scene();
        std::thread::scope(|scope| {
            let claims: Vec<_> = (0..16).map(|_| scope.spawn(|| registry.claim(workspace))).collect();
            for claim in claims {
                claim.join().unwrap().unwrap();
            }
        });
        assert_eq!(registry.known().unwrap(), std::slice::from_ref(workspace));
        assert_eq!(fs::read_dir(workspace).unwrap().count(), 1);
    }

    #[test]
    fn a_world_writable_state_directory_is_refused() {
        let Scene { workspace, .. } = &scene();
        fs::set_permissions(workspace, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Registry::open(workspace).unwrap_err().to_string().contains("others may write"));
    }
}
