//! The same need by different means: an agent works without touching the tree, and afterwards it is known
//! that it did not.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crealeph_bench::Outcome;
use crealeph_sandbox::{Cancel, Config, Mount, Sandbox, Spec};
use crealeph_workspace::{ViewChanges, Workspace};

use crate::trees::{git, stat_all};
use crate::{median, time};

pub(crate) struct Measured {
    pub(crate) ours: Duration,
    pub(crate) check: Duration,
    pub(crate) stats: Duration,
    pub(crate) stash: Duration,
    pub(crate) worktree: Duration,
    pub(crate) copy: Duration,
}

pub(crate) fn race(folder: &Path, tree: &Path, files: usize) -> Outcome<Measured> {
    let sandbox = Sandbox::new(Config::new(folder.join("state")))?;
    let workspace = Workspace::open(tree)?;
    let changed = tree.join("part-0/module-0/file-7.txt");
    let (rounds, slow_rounds) = if files < 50_000 { (21, 7) } else { (11, 3) };
    // Files changed in the same tick in which the cache was written are not used from it, so the cache settles first.
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(50));
        workspace.snapshot()?;
    }
    let (mut ours, mut checks, mut stats, mut stashes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut worktrees, mut copies) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (took, check) = time(|| around_a_run(&sandbox, &workspace))?;
        ours.push(took);
        checks.push(check);
        stats.push(time(|| stat_all(tree))?.0);
        let before = fs::read(&changed)?;
        fs::write(&changed, format!("changed in round {round}\n"))?;
        stashes.push(
            time(|| git(tree, &["stash", "-u", "-q"]).and_then(|()| git(tree, &["stash", "pop", "-q"])))?.0,
        );
        fs::write(&changed, before)?;
        git(tree, &["status", "--porcelain"])?;
        if round < slow_rounds {
            worktrees.push(time(|| worktree(tree, &folder.join("worktree")))?.0);
            copies.push(time(|| copy(tree, &folder.join("copy")))?.0);
        }
        // The stash touched a file; its cache entry is updated outside the measurement.
        std::thread::sleep(Duration::from_millis(20));
        workspace.snapshot()?;
    }
    Ok(Measured {
        ours: median(ours),
        check: median(checks),
        stats: median(stats),
        stash: median(stashes),
        worktree: median(worktrees),
        copy: median(copies),
    })
}

/// A view, a command in it, its changes, whether the workspace is unchanged, and the view dropped.
fn around_a_run(sandbox: &Sandbox, workspace: &Workspace) -> Outcome<Duration> {
    let view = sandbox.open_view(workspace.path())?;
    let mut spec = Spec::new(["/usr/bin/true"]);
    spec.views.push(Mount { view: &view, at: "/project".into() });
    spec.cwd = Some("/project".into());
    let outcome = sandbox.run(&spec, &Cancel::new()?)?;
    assert!(outcome.succeeded(), "{outcome:?}");
    let (check, snapshot) = time(|| Ok(workspace.snapshot()?))?;
    let seen = ViewChanges { folder: view.content(Path::new("")), ..ViewChanges::default() };
    assert!(view.changes()?.is_empty());
    let capsule = workspace.capture(&snapshot, &seen)?;
    assert_eq!(capsule.after().hash(), snapshot.state().hash());
    assert_eq!(snapshot.tally().read_files, 0, "the cache knows every file");
    drop(view);
    Ok(check)
}

fn worktree(tree: &Path, at: &Path) -> Outcome<()> {
    let at = at.to_string_lossy();
    git(tree, &["worktree", "add", "-q", "--detach", &at])?;
    git(tree, &["worktree", "remove", "--force", &at])
}

fn copy(tree: &Path, at: &Path) -> Outcome<()> {
    let copied = Command::new("cp").arg("-a").args([tree, at]).status()?;
    let removed = Command::new("rm").arg("-rf").arg(at).status()?;
    match copied.success() && removed.success() {
        true => Ok(()),
        false => Err("cp -a or rm -rf failed".into()),
    }
}
