//! A folder that exists while its value lives and is removed with it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use crate::failure::{Failure, Outcome};

pub(crate) struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    pub(crate) fn create() -> Outcome<TemporaryFolder> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("xtask-{}-{number}", process::id()));
        fs::create_dir(&path).map_err(Failure::file("create", &path))?;
        Ok(TemporaryFolder { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A folder left in the temporary directory does no harm, and nothing can be done about it here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_differ_and_each_goes_with_its_value() {
        let first = TemporaryFolder::create().unwrap();
        let second = TemporaryFolder::create().unwrap();
        assert_ne!(first.path(), second.path());
        let path = first.path().to_path_buf();
        fs::write(path.join("file"), "text").unwrap();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }
}
