//! Finding files and folders by their names, in the whole workspace, ignored or not. Owns the walk and its cache:
//! a folder whose times are unchanged is not listed again. Follows no link.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::Blake3;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};

use crate::cache::{CacheWriter, FileTime, Identity};
use crate::path::{CONTROL, GIT};
use crate::rooted::{is_gone, stat_in};
use crate::scan::{device, renews_times};
use crate::workspace::Workspace;

const MAX_DEPTH: usize = 200;
const MAX_BYTES: u64 = 256 << 20;

/// The query.
pub struct Wanted<'w> {
    /// Whether a path, relative to the workspace, is wanted. A wanted folder is not searched.
    pub is_wanted: &'w (dyn Fn(&Path) -> bool + Sync),
    /// A name for this query: the same name means the same answer for the same path.
    pub name: Blake3,
    /// The most paths that it may find.
    pub max: usize,
}

/// The answer to a query, folder by folder.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Answers {
    name: String,
    device: u64,
    started: FileTime,
    folders: BTreeMap<String, Answer>,
}

/// The entries of one folder.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Answer {
    identity: Identity,
    wanted: Vec<String>,
    below: Vec<String>,
}

impl Workspace {
    /// The wanted paths, sorted, relative to the workspace. Neither `.git` nor `.crealeph` is searched.
    ///
    /// # Errors
    /// If a folder cannot be listed that the user may list, or there are too many.
    pub fn find(&self, wanted: &Wanted<'_>) -> io::Result<Vec<PathBuf>> {
        let place = self.control.names();
        let writer = CacheWriter::start(place.clone(), self.control.temporary()).ok();
        let device = device(&self.root).map_err(io::Error::other)?;
        let is_readable =
            fs::symlink_metadata(&place).is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES);
        let known = is_readable.then(|| fs::read(&place).ok()).flatten();
        let known = known.and_then(|bytes| serde_json::from_slice::<Answers>(&bytes).ok());
        let name = wanted.name.to_string();
        let known = known.filter(|known| known.name == name && known.device == device);
        let remembers = renews_times(&self.root).then_some(device);
        let search = Search { workspace: self, wanted, known: known.as_ref(), remembers };
        let mut found = WantedNames::default();
        search.folder(Path::new(""), 0, &mut found)?;
        let is_new =
            found.is_new || known.as_ref().is_none_or(|known| known.folders.len() != found.answers.len());
        if let Some(writer) = writer.filter(|_| is_new) {
            let answers = Answers { name, device, started: writer.started(), folders: found.answers };
            // A cache that cannot be written is no reason not to answer.
            let _ = serde_json::to_vec(&answers).map(|text| writer.finish(&text));
        }
        found.paths.sort();
        Ok(found.paths)
    }
}

struct Search<'s> {
    workspace: &'s Workspace,
    wanted: &'s Wanted<'s>,
    known: Option<&'s Answers>,
    /// The device whose folders are cached, if any.
    remembers: Option<u64>,
}

#[derive(Default)]
struct WantedNames {
    paths: Vec<PathBuf>,
    answers: BTreeMap<String, Answer>,
    /// Whether something new can be cached.
    is_new: bool,
}

/// The names in a folder that count.
#[derive(Default)]
struct Names {
    wanted: Vec<OsString>,
    below: Vec<OsString>,
}

impl Search<'_> {
    fn folder(&self, folder: &Path, depth: usize, found: &mut WantedNames) -> io::Result<()> {
        let at = self.workspace.path().join(folder);
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(&at, flags, Mode::empty()).map_err(io::Error::from) {
            // Paths that we may not read, an agent may not read either; a removed folder is empty.
            Err(error)
                if depth > 0 && (is_gone(&error) || error.kind() == io::ErrorKind::PermissionDenied) =>
            {
                return Ok(());
            }
            opened => opened?,
        };
        let stat = rustix::fs::fstat(&opened)?;
        let names = match self.known_names(folder, &stat) {
            Some(answer) => {
                let names = Names {
                    wanted: answer.wanted.iter().map(Into::into).collect(),
                    below: answer.below.iter().map(Into::into).collect(),
                };
                found.answers.extend(folder.to_str().map(|folder| (folder.to_owned(), answer.clone())));
                names
            }
            None => {
                let names = self.names(folder, &opened)?;
                let answer = self.answer(folder, &stat, &names);
                found.is_new |= answer.is_some();
                found.answers.extend(answer);
                names
            }
        };
        drop(opened);
        found.paths.extend(names.wanted.iter().map(|name| folder.join(name)));
        if depth < MAX_DEPTH {
            let below = names.below.par_iter().map(|name| {
                let mut found = WantedNames::default();
                self.folder(&folder.join(name), depth + 1, &mut found).map(|()| found)
            });
            for mut below in below.collect::<io::Result<Vec<_>>>()? {
                found.paths.append(&mut below.paths);
                found.answers.append(&mut below.answers);
                found.is_new |= below.is_new;
            }
        }
        match found.paths.len() > self.wanted.max {
            true => Err(io::Error::other(format!(
                "there are more than {} such paths; name a folder above them",
                self.wanted.max
            ))),
            false => Ok(()),
        }
    }

    fn known_names(&self, folder: &Path, stat: &Stat) -> Option<&Answer> {
        let known = self.known?;
        let answer = known.folders.get(folder.to_str()?)?;
        let now = Identity::of(stat);
        let is_same = answer.identity == now && now.is_older_than(known.started);
        (is_same && self.remembers == Some(stat.st_dev)).then_some(answer)
    }

    /// The cache entry of a folder: nothing if a name is not text.
    fn answer(&self, folder: &Path, stat: &Stat, names: &Names) -> Option<(String, Answer)> {
        let texts = |names: &[OsString]| {
            names.iter().map(|name| name.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        let (wanted, below) = (texts(&names.wanted)?, texts(&names.below)?);
        let answer = Answer { identity: Identity::of(stat), wanted, below };
        (self.remembers == Some(stat.st_dev)).then_some((folder.to_str()?.to_owned(), answer))
    }

    fn names(&self, folder: &Path, opened: &OwnedFd) -> io::Result<Names> {
        let mut names = Names::default();
        for entry in Dir::read_from(opened)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if (self.wanted.is_wanted)(&folder.join(name)) {
                names.wanted.push(name.to_owned());
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = name.to_str().map(|name| stat_in(opened, name)).transpose()?.flatten();
                    stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
                }
                kind => kind,
            };
            if kind == FileType::Directory && name != GIT && name != CONTROL {
                names.below.push(name.to_owned());
            }
        }
        names.wanted.sort_unstable();
        names.below.sort_unstable();
        Ok(names)
    }
}
