//! Git repositories of any size, and the simplest way to read one: a stat of every file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crealeph_bench::Outcome;

/// A repository of so many files, a hundred a folder, a hundred folders a folder, all committed.
pub(crate) fn repository(at: &Path, files: usize) -> Outcome<PathBuf> {
    for number in 0..files {
        let folder = at.join(format!("part-{}/module-{}", number / 10_000, number / 100 % 100));
        if number % 100 == 0 {
            fs::create_dir_all(&folder)?;
        }
        let text =
            format!("file {number}\n{}", "some line of source that stands for many\n".repeat(number % 40));
        fs::write(folder.join(format!("file-{number}.txt")), text)?;
    }
    git(at, &["init", "-q"])?;
    git(at, &["add", "-A"])?;
    git(at, &["commit", "-qm", "start"])?;
    Ok(at.to_owned())
}

pub(crate) fn git(at: &Path, arguments: &[&str]) -> Outcome<()> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "gc.auto=0"]);
    let ran = command.args(arguments).current_dir(at).output()?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr)).into()),
    }
}

/// Lists every folder and stats every file, on all cores; returns how many there were.
pub(crate) fn stat_all(at: &Path) -> Outcome<usize> {
    let mut parts: Vec<PathBuf> = Vec::new();
    for part in fs::read_dir(at)? {
        let part = part?;
        if part.file_name() != ".git" && part.file_name() != ".crealeph" && part.file_type()?.is_dir() {
            parts.extend(
                fs::read_dir(part.path())?.map(|entry| Ok(entry?.path())).collect::<Outcome<Vec<_>>>()?,
            );
        }
    }
    let cores = std::thread::available_parallelism()?.get();
    let counted = std::thread::scope(|scope| {
        let chunks = parts.chunks(parts.len().div_ceil(cores).max(1));
        let threads: Vec<_> = chunks
            .map(|chunk| scope.spawn(move || chunk.iter().map(|at| stats(at)).sum::<usize>()))
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    Ok(counted)
}

fn stats(at: &Path) -> usize {
    let entries = fs::read_dir(at).into_iter().flatten().flatten();
    entries.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.len() > 0)).count()
}
