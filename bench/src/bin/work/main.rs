//! `cargo xtask bench work`: the cost of a work run in addition to the agent itself, on git workspaces of 1,000 to 100,000 files,
//! against the usual means: `git stash`, `git worktree`, a copy. All in one run, contenders in turns. Then the state
//! hash against `b3sum` on the same bytes, and receipts verified per second. `--quick` leaves the 100,000 files out; `whole` measures whole runs
//! alone.

mod contenders;
mod receipts;
mod throughput;
mod trees;
mod whole;

use std::path::Path;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;

fn main() -> Outcome<()> {
    crealeph_sandbox::helper_main_if_requested();
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let folder = tempfile::Builder::new().prefix("crealeph-bench-work-").tempdir()?;
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let sizes: &[usize] = if is_quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000] };
    if std::env::args().any(|argument| argument == "whole") {
        let whole = |files: &usize| {
            let tree = trees::repository(&folder.path().join(format!("tree-{files}")), *files)?;
            Ok((*files, whole::race(folder.path(), &tree)?))
        };
        return whole_table(sizes.iter().map(whole).collect::<Outcome<_>>()?);
    }
    runs(folder.path(), sizes)?;
    throughput::table(&folder.path().join("bytes"))?;
    receipts::table(&folder.path().join("receipts"))
}

fn runs(folder: &Path, sizes: &[usize]) -> Outcome<()> {
    println!("## Around a run that changes nothing, medians in ms\n");
    println!(
        "| files | ours: open view, run, state check, drop | of that the state check | one stat per file | beyond it | \
         git stash -u + pop | git worktree add + remove | cp -a + rm -rf | ahead of stash | ahead of worktree | ahead of cp |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let (mut beyond, mut wholes) = (Vec::new(), Vec::new());
    for files in sizes {
        let tree = trees::repository(&folder.join(format!("tree-{files}")), *files)?;
        let measured = contenders::race(folder, &tree, *files)?;
        let contenders::Measured { ours, check, stats, stash, worktree, copy } = measured;
        let more = ours.saturating_sub(stats);
        println!(
            "| {files} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            ms(ours),
            ms(check),
            ms(stats),
            ms(more),
            ms(stash),
            ms(worktree),
            ms(copy),
            times(stash, ours),
            times(worktree, ours),
            times(copy, ours)
        );
        beyond.push(more);
        wholes.push((*files, whole::race(folder, &tree)?));
        std::fs::remove_dir_all(&tree)?;
    }
    if let (Some(least), Some(most)) = (beyond.first(), beyond.last()) {
        println!(
            "\nBeyond one stat per file: {} between the smallest and the largest.\n",
            times(*most, *least)
        );
    }
    whole_table(wholes)
}

fn whole_table(wholes: Vec<(usize, whole::Whole)>) -> Outcome<()> {
    println!("## Whole runs, medians in ms\n");
    println!(
        "| files | changes 10 files | changes nothing | ratio | an agent in its sandbox alone |\n|---:|---:|---:|---:|---:|"
    );
    for (files, whole) in wholes {
        let whole::Whole { all, nothing, agent } = whole;
        println!("| {files} | {} | {} | {} | {} |", ms(all), ms(nothing), times(all, nothing), ms(agent));
    }
    println!();
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn time<T>(act: impl FnOnce() -> Outcome<T>) -> Outcome<(Duration, T)> {
    let start = Instant::now();
    let made = act()?;
    Ok((start.elapsed(), made))
}

fn ms(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e3)
}

fn times(theirs: Duration, ours: Duration) -> String {
    format!("{:.1}×", theirs.as_secs_f64() / ours.as_secs_f64())
}
