//! The paths that a view touched, before their contents are read. Owns which paths surely changed and how much there is to read, so that
//! a change past a limit is refused by the metadata of its files; then the reading itself, under a deadline.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use rayon::iter::{IntoParallelIterator, IntoParallelRefMutIterator, ParallelIterator};

use crate::capsule::{Capsule, CaptureError, Discarded, UnwantedChange, ignores};
use crate::change::Change;
use crate::deadline::Deadline;
use crate::delta::MAX_TEXT_BYTES;
use crate::node::TreeNode;
use crate::path::TreePath;
use crate::rooted::Root;
use crate::rules::Rules;
use crate::scan::{ScanError, Unread, WorkspaceSnapshot};
use crate::staged::Staged;
use crate::state::State;
use crate::workspace::Workspace;

/// A path that a view names, with its entry before and now.
#[derive(Debug)]
pub(crate) struct Touched {
    pub(crate) path: TreePath,
    pub(crate) before: Option<TreeNode>,
    pub(crate) found: Option<Unread>,
    /// Its entry now, once it was read.
    pub(crate) read: Option<TreeNode>,
}

/// The paths that a view touched. None was read yet.
#[derive(Debug)]
pub struct Listing<'w> {
    pub(crate) workspace: &'w Workspace,
    pub(crate) before: &'w WorkspaceSnapshot,
    pub(crate) view: Root,
    /// The state before, if the rules after the run see another one.
    pub(crate) base: Option<State>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) touched: Vec<Touched>,
    pub(crate) discarded: Discarded,
    pub(crate) deadline: Deadline<'w>,
}

/// One path that is about to be kept, before any of it is stored.
pub struct Arrival<'a> {
    /// The path.
    pub path: &'a str,
    /// Its content now.
    pub what: Arrived<'a>,
}

/// The entry of a path that is about to be kept.
pub enum Arrived<'a> {
    /// It was deleted.
    Gone,
    /// A link with this target.
    Link(&'a str),
    /// A file with this content.
    File(&'a mut dyn Read),
    /// A path in `.git` or `.crealeph`, of which only the name is kept.
    Discarded,
}

/// Judges a path that is about to be kept; an error refuses the whole change. Called from several threads.
pub type Inspect<'i> = &'i (dyn Fn(Arrival<'_>) -> Result<(), UnwantedChange> + Sync);

/// A file that ends with an error once the deadline has passed.
struct Timed<'d> {
    file: File,
    deadline: Deadline<'d>,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.deadline.is_over() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => self.file.read(buffer),
        }
    }
}

/// A path that changed, as far as is known without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Which.
    pub path: TreePath,
    /// Its length, holes included.
    pub size_bytes: u64,
    /// How many deltas the change has; `None` if only the contents can tell.
    pub deltas: Option<u64>,
}

impl Touched {
    /// Whether it differs from its entry before; `None` if only the content can tell.
    fn differs_from(&self, before: Option<&TreeNode>) -> Option<bool> {
        match (&self.found, before) {
            _ if self.read.is_some() => Some(self.read.as_ref() != before),
            (None, before) => Some(before.is_some()),
            (Some(Unread::Link { target }), Some(TreeNode::Symlink { target: then })) => Some(target != then),
            (
                Some(Unread::File { executable, size_bytes }),
                Some(TreeNode::File { executable: then, size_bytes: size_then, .. }),
            ) => (executable != then || size_bytes != size_then).then_some(true),
            _ => Some(true),
        }
    }

    fn size_bytes(&self) -> u64 {
        match &self.found {
            Some(Unread::File { size_bytes, .. }) => *size_bytes,
            Some(Unread::Link { target }) => target.len() as u64,
            None => 0,
        }
    }

    /// The deltas of a change that does not change a text's lines.
    fn deltas_from(&self, before: Option<&TreeNode>) -> Option<u64> {
        match (&self.found, before) {
            (
                Some(Unread::File { size_bytes, executable }),
                Some(TreeNode::File { size_bytes: then, executable: was, .. }),
            ) => {
                let is_long = *size_bytes > MAX_TEXT_BYTES || *then > MAX_TEXT_BYTES;
                is_long.then_some(1 + u64::from(executable != was))
            }
            _ => Some(1),
        }
    }

    fn read(&mut self, root: &Root, deadline: Deadline<'_>) -> Result<(), ScanError> {
        if let (Some(found), None) = (&self.found, &self.read) {
            self.read = Some(found.read(root, self.path.as_str(), deadline)?);
        }
        Ok(())
    }
}

impl Listing<'_> {
    /// The change beyond `earlier` changes, which are in the view but not in the workspace. A file of the same length
    /// and mode as before is read to compare; no other file is.
    ///
    /// # Errors
    /// If a file cannot be read, or the deadline passed.
    pub fn survey(&mut self, earlier: &[Change]) -> Result<Vec<Surveyed>, CaptureError> {
        let mut earlier: BTreeMap<&TreePath, &Change> =
            earlier.iter().map(|change| (&change.path, change)).collect();
        let (view, deadline) = (&self.view, self.deadline);
        let read = self.touched.par_iter_mut().try_for_each(|touched| {
            let before =
                earlier.get(&touched.path).map_or(touched.before.as_ref(), |known| known.after.as_ref());
            match touched.differs_from(before) {
                Some(_) => Ok(()),
                None => touched.read(view, deadline),
            }
        });
        stopped_or(deadline, read)?;
        let mut all = Vec::new();
        for touched in &self.touched {
            let known = earlier.remove(&touched.path);
            let before = known.map_or(touched.before.as_ref(), |known| known.after.as_ref());
            if touched.differs_from(before) != Some(false) {
                let (size_bytes, deltas) = (touched.size_bytes(), touched.deltas_from(before));
                all.push(Surveyed { path: touched.path.clone(), size_bytes, deltas });
            }
        }
        // An earlier change whose path is again as in the workspace was undone by this run.
        let undone = earlier.into_values().filter(|known| known.before != known.after);
        all.extend(undone.map(|known| Surveyed { path: known.path.clone(), size_bytes: 0, deltas: None }));
        all.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(all)
    }

    /// How many paths were touched, and their total length.
    pub fn extent(&self) -> (usize, u64) {
        let bytes = self.touched.iter().fold(0_u64, |sum, touched| sum.saturating_add(touched.size_bytes()));
        (self.touched.len(), bytes)
    }

    /// Changes that are not listed.
    pub fn discarded(&self) -> &Discarded {
        &self.discarded
    }

    /// Reads everything that was touched and returns the changes. The contents stay where they are.
    ///
    /// # Errors
    /// If something cannot be read, the deadline passed, or the workspace would exceed its limits.
    pub fn freeze(self) -> Result<Capsule, CaptureError> {
        self.freeze_inspected(&|_| Ok(()))
    }

    /// [`Listing::freeze`] with an inspection of everything that changed.
    ///
    /// # Errors
    /// As [`Listing::freeze`], and if something is refused.
    pub fn freeze_inspected(mut self, inspect: Inspect<'_>) -> Result<Capsule, CaptureError> {
        let (view, deadline) = (&self.view, self.deadline);
        let read = self.touched.par_iter_mut().try_for_each(|touched| touched.read(view, deadline));
        stopped_or(deadline, read)?;
        self.inspect(inspect)?;
        let mut changes = Vec::new();
        let mut paths = BTreeMap::new();
        for Touched { path, before, read: after, .. } in self.touched {
            if before == after {
                continue;
            }
            if let Some(TreeNode::File { digest, .. }) = &after {
                paths.entry(*digest).or_insert_with(|| path.as_str().into());
            }
            changes.push(Change { path, before, after });
        }
        let seen: Vec<Change> =
            changes.iter().filter(|change| !ignores(&self.rules, change.path.as_str())).cloned().collect();
        let before = &self.before.state;
        let after = self.base.as_ref().unwrap_or(before).with(&seen)?;
        let limit = self.workspace.limits.max_files;
        if after.len() > limit {
            return Err(CaptureError::TooMany { files: after.len(), limit });
        }
        self.workspace.check(&changes, &after)??;
        let staged = Arc::new(Staged { root: self.view, paths });
        self.workspace.control.stage(&staged);
        Ok(Capsule { before: before.hash(), after, changes, discarded: self.discarded, staged: Some(staged) })
    }
}

impl Listing<'_> {
    /// Judges every change; the first refusal by path counts.
    fn inspect(&self, inspect: Inspect<'_>) -> Result<(), CaptureError> {
        for path in &self.discarded.outside {
            inspect(Arrival { path, what: Arrived::Discarded }).map_err(CaptureError::Unwanted)?;
        }
        let judge = |touched: &Touched| {
            let path = touched.path.as_str();
            let judged = match &touched.found {
                None => inspect(Arrival { path, what: Arrived::Gone }),
                Some(Unread::Link { target }) => inspect(Arrival { path, what: Arrived::Link(target) }),
                Some(Unread::File { .. }) => {
                    let opened = self.view.file(path);
                    let file = opened.map_err(|source| ScanError::Io { path: self.view.at(path), source })?;
                    let mut file = Timed { file, deadline: self.deadline };
                    inspect(Arrival { path, what: Arrived::File(&mut file) })
                }
            };
            judged.map_err(CaptureError::Unwanted)
        };
        let changed: Vec<&Touched> =
            self.touched.iter().filter(|touched| touched.before != touched.read).collect();
        let judged: Vec<Result<(), CaptureError>> = changed.into_par_iter().map(judge).collect();
        if self.deadline.is_over() {
            return Err(CaptureError::Stopped);
        }
        judged.into_iter().collect()
    }
}

/// The entries read, unless the deadline passed meanwhile and cut it off.
fn stopped_or(deadline: Deadline<'_>, read: Result<(), ScanError>) -> Result<(), CaptureError> {
    match read {
        Err(_) if deadline.is_over() => Err(CaptureError::Stopped),
        read => Ok(read?),
    }
}
