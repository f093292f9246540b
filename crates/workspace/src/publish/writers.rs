//! Who has a displaced file open for writing. Owns the check, by `/proc`; it sees what this user may see, which includes every
//! editor of the same user.
//!
//! A displaced file can no longer be opened by its path. So once no one has it open, its content is final.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files under a folder that some process has open for writing.
pub(super) fn open_for_writing(folder: &Path) -> BTreeSet<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let mut open = BTreeSet::new();
    for process in processes.filter(|entry| is_process(&entry.file_name())) {
        let process = process.path();
        for descriptor in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            let Ok(file) = fs::read_link(descriptor.path()) else { continue };
            if file.starts_with(folder) && may_write(&process.join("fdinfo").join(descriptor.file_name())) {
                open.insert(file);
            }
        }
    }
    open
}

/// Whether a descriptor was opened for writing; if that cannot be read, it might have been.
fn may_write(info: &Path) -> bool {
    let Ok(text) = fs::read_to_string(info) else { return true };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let mode = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    mode.is_none_or(|flags| flags & 0o3 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_open_for_writing_counts() {
        let folder = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(folder.path()).unwrap();
        for name in ["closed", "read", "written"] {
            fs::write(place.join(name), "").unwrap();
        }
        let _read = fs::File::open(place.join("read")).unwrap();
        let _written = fs::OpenOptions::new().append(true).open(place.join("written")).unwrap();
        assert_eq!(open_for_writing(&place), BTreeSet::from([place.join("written")]));
    }
}
