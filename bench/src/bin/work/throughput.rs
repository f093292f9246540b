//! The state hash against `b3sum` on the same bytes, both from memory (the page cache), on all cores. `b3sum` is taken from
//! the PATH, else installed once into the bench's own folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crealeph_bench::{FOLDER, Outcome};
use crealeph_workspace::state_without_cache;

use crate::{median, time, times};

const ROUNDS: usize = 9;

pub(crate) fn table(folder: &Path) -> Outcome<()> {
    let b3sum = b3sum()?;
    println!("## State hash and b3sum on the same bytes\n");
    println!("| files | bytes each | ours | b3sum | ours of b3sum |\n|---:|---:|---:|---:|---:|");
    for (files, bytes) in [(20_000, 4 << 10), (2_000, 256 << 10), (8, 64 << 20)] {
        let tree = folder.join(format!("{files}"));
        fill(&tree, files, bytes)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (took, snapshot) = time(|| Ok(state_without_cache(&tree)?))?;
            assert_eq!(snapshot.tally().read_files, files);
            ours.push(took);
            theirs.push(time(|| hash_all(&b3sum, &tree))?.0);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let rate = |took: Duration| format!("{:.2} GB/s", (files * bytes) as f64 / took.as_secs_f64() / 1e9);
        println!("| {files} | {bytes} | {} | {} | {} |", rate(ours), rate(theirs), times(theirs, ours));
        fs::remove_dir_all(&tree)?;
    }
    println!();
    Ok(())
}

fn fill(tree: &Path, files: usize, bytes: usize) -> Outcome<()> {
    let mut content: Vec<u8> = (0..bytes).map(|at| (at * 31 % 251) as u8).collect();
    for number in 0..files {
        let folder = tree.join(format!("{}", number / 100));
        fs::create_dir_all(&folder)?;
        for (place, digit) in content.iter_mut().zip(number.to_le_bytes()) {
            *place = digit;
        }
        fs::write(folder.join(format!("{number}")), &content)?;
    }
    Ok(())
}

/// One `b3sum` over every file: it gets them all at once, as `find | xargs` would pass them.
fn hash_all(b3sum: &Path, tree: &Path) -> Outcome<()> {
    let script = format!("find . -type f -print0 | xargs -0 -n 100000 '{}'", b3sum.display());
    let status = Command::new("sh").args(["-c", &script]).current_dir(tree).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err("b3sum failed".into()) }
}

fn b3sum() -> Outcome<PathBuf> {
    let is_there =
        |program: &Path| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    let own = Path::new(FOLDER).join("target/tools/bin/b3sum");
    if let Some(found) = [PathBuf::from("b3sum"), own.clone()].into_iter().find(|program| is_there(program)) {
        return Ok(found);
    }
    let root = Path::new(FOLDER).join("target/tools");
    let status = Command::new("cargo")
        .args(["install", "b3sum", "--locked", "--quiet", "--root"])
        .arg(&root)
        .status()?;
    if status.success() { Ok(own) } else { Err("b3sum could not be installed".into()) }
}
