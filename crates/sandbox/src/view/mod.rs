//! Copy-on-write views of a directory. Owns where a view's writes go, how it is mounted, and reading it back
//! as a list of changes; refuses to touch the directory it is a view of. Dropping a view is a rollback.

mod changes;
mod copy;
mod hide;

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use changes::{ReadError, Reading};
pub use changes::{ViewChange, ViewChangeKind, ViewEntry};
use copy::Manifest;
pub(crate) use hide::Hidden;

use crate::error::SandboxError;
use crate::state::OwnerFolder;
use crate::tree;
use crate::wire::SourcePlan;

/// Reserved, not used up.
const STACK_BYTES: usize = 32 << 20;

/// How a view stores writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewMode {
    /// An overlay: writes go to a separate layer, whatever the size of the directory.
    Overlay,
    /// A plain copy, and why.
    Copy {
        /// Why no overlay is possible.
        why: String,
    },
}

/// A copy-on-write view of a directory.
#[derive(Debug)]
pub struct View {
    lower: PathBuf,
    mode: ViewMode,
    store: Store,
    manifest: Option<Manifest>,
}

/// The folder a view writes to; removed with the view.
#[derive(Debug)]
struct Store {
    folder: PathBuf,
    /// The layers below it, nearest first.
    lowers: Vec<PathBuf>,
    /// Keeps the owner's folder locked while this is in use.
    _state: Arc<OwnerFolder>,
}

impl Store {
    fn upper(&self) -> PathBuf {
        self.folder.join("upper")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Anything that cannot be removed now is swept at the next start.
        let _ = tree::remove(&self.folder);
    }
}

impl View {
    /// Creates a view; `ids` are the owner inside if started as root, `copy` why it has to be a plain copy.
    pub(crate) fn make(
        state: &Arc<OwnerFolder>,
        lower: &Path,
        hidden: &Hidden,
        ids: Option<(u32, u32)>,
        copy: Option<String>,
    ) -> Result<Self, SandboxError> {
        let failed = |source| SandboxError::Path { action: "open a view of", path: lower.into(), source };
        let metadata = std::fs::metadata(lower).map_err(failed)?;
        if !metadata.is_dir() {
            return Err(failed(io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        let folder = state.new_path();
        make_directory(&folder, 0o700, ids).map_err(failed)?;
        let mut store = Store { folder, lowers: vec![lower.to_path_buf()], _state: Arc::clone(state) };
        if copy.is_none() && !hidden.is_empty() {
            let layer = store.folder.join("hidden");
            hidden.make_layer(lower, &layer, ids).map_err(failed)?;
            store.lowers.insert(0, layer);
        }
        let mode = metadata.permissions().mode() & 0o7777;
        make_directory(&store.upper(), mode, ids).map_err(failed)?;
        let (mode, manifest) = match copy {
            None => {
                make_directory(&store.folder.join("work"), 0o700, ids).map_err(failed)?;
                (ViewMode::Overlay, None)
            }
            Some(why) => {
                let manifest = with_deep_stack(|| copy::copy_directory(lower, hidden, &store.upper(), ids))
                    .map_err(|e| e.into_error(lower))?;
                (ViewMode::Copy { why }, Some(manifest))
            }
        };
        Ok(Self { lower: lower.into(), mode, store, manifest })
    }

    /// The directory it is a view of.
    pub fn lower(&self) -> &Path {
        &self.lower
    }

    /// How writes are stored.
    pub fn mode(&self) -> &ViewMode {
        &self.mode
    }

    /// Where the content of a changed file is found, for a path from [`View::changes`].
    pub fn content(&self, path: &Path) -> PathBuf {
        self.store.upper().join(path)
    }

    /// The changes, parents before children for existing paths and
    /// children before parents for deleted ones.
    ///
    /// # Errors
    /// If the view cannot be read or exceeds a limit.
    pub fn changes(&self) -> Result<Vec<ViewChange>, SandboxError> {
        self.read(&Reading { compares: true, is_over: &|| false })
    }

    /// The same without reading any content: a file that was opened for writing is listed as modified, although its
    /// content may be the same. Stops once `is_over` returns true.
    ///
    /// # Errors
    /// If the view cannot be read, exceeds a limit, or `is_over` stopped it.
    pub fn touched(&self, is_over: &(dyn Fn() -> bool + Sync)) -> Result<Vec<ViewChange>, SandboxError> {
        self.read(&Reading { compares: false, is_over })
    }

    fn read(&self, reading: &Reading<'_>) -> Result<Vec<ViewChange>, SandboxError> {
        let read = with_deep_stack(|| match &self.manifest {
            None => changes::of_overlay(&self.store.lowers, &self.store.upper(), reading),
            Some(manifest) => manifest.changes(&self.store.upper(), reading),
        });
        read.map_err(|e| e.into_error(&self.lower))
    }

    pub(crate) fn source(&self) -> SourcePlan {
        match self.mode {
            ViewMode::Overlay => SourcePlan::Overlay {
                lowers: self.store.lowers.iter().map(|l| l.clone().into_os_string()).collect(),
                store: self.store.folder.clone().into_os_string(),
            },
            ViewMode::Copy { .. } => SourcePlan::Copy { path: self.store.upper().into_os_string() },
        }
    }
}

/// Walks a tree on a separate stack: the deepest one that is read needs more than a thread has by default.
fn with_deep_stack<T: Send>(walk: impl FnOnce() -> Result<T, ReadError> + Send) -> Result<T, ReadError> {
    std::thread::scope(|scope| {
        let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, walk)?;
        let lost = |_| io::Error::other("the thread that walked the tree panicked");
        started.join().map_err(lost)?
    })
}

fn make_directory(path: &Path, mode: u32, ids: Option<(u32, u32)>) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)?;
    if let Some((uid, gid)) = ids {
        std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// The device of a directory, to remember whether overlays work there.
pub(crate) fn device(path: &Path) -> io::Result<(u64, u32)> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.uid()))
}

/// Whether a path is itself on overlayfs.
pub(crate) fn is_overlay(path: &Path) -> bool {
    const OVERLAYFS: u64 = 0x794c_7630;
    rustix::fs::statfs(path).is_ok_and(|s| s.f_type.cast_unsigned() == OVERLAYFS)
}
