//! What is left when the owner is killed: nothing, after the next start.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crealeph_sandbox::{Cancel, Config, Mount, Sandbox, Stream};
use rustix::process::{Pid, Signal, getpgid, getpgrp, getppid, kill_process_group, setpgid};

use crate::world::{Case, World, good, processes_with, python};

pub(crate) const CASES: &[Case] = &[
    Case("killed_at_random_moments", killed_at_random_moments),
    Case("a_live_owner_is_left_alone", a_live_owner_is_left_alone),
    Case("a_run_that_ended_leaves_nothing", a_run_that_ended_leaves_nothing),
    Case("the_tree_dies_with_its_owner", the_tree_dies_with_its_owner),
    Case("a_signal_to_the_whole_group_is_the_owners", a_signal_to_the_whole_group_is_the_owners),
];

const TIMES: usize = 100;

/// The owner to be killed: opens views and runs a program that leaves daemons, again and again.
pub(crate) fn drive_if_requested() {
    let Ok(folder) = std::env::var("SANDBOX_DRIVER") else { return };
    let folder = Path::new(&folder);
    let word = std::env::var("SANDBOX_WORD").unwrap();
    let sandbox = Sandbox::new(Config::new(folder.join("state"))).unwrap();
    let program = format!(
        "
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(1000)
    os._exit(0)
open('new', 'w').write('x' * 100000)
os.makedirs('deep/er/and/deeper')
os.remove('a')
print({word:?})
time.sleep(float(os.environ.get('LONG', '0.02')))"
    );
    loop {
        let view = sandbox.open_view(&folder.join("work")).unwrap();
        let mut spec = python(&program);
        spec.command.push(word.clone().into());
        spec.views.push(Mount { view: &view, at: "/work".into() });
        spec.cwd = Some("/work".into());
        if let Ok(long) = std::env::var("SANDBOX_LONG") {
            spec.grants.env.insert("LONG".into(), long.into());
        }
        sandbox.run(&spec, &Cancel::new().unwrap()).unwrap();
        assert!(!view.changes().unwrap().is_empty());
    }
}

fn driver(world: &World, word: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.env_remove("SANDBOX_CASE").env("SANDBOX_DRIVER", &world.folder).env("SANDBOX_WORD", word);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn nothing_is_left(world: &World, word: &str, owner: u32) {
    let left: Vec<_> = processes_with(word).into_iter().filter(|p| !p.contains("sh -c")).collect();
    assert!(left.is_empty(), "processes are left: {left:?}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let state = world.folder.to_str().unwrap().to_owned();
    assert!(!mounts.lines().any(|l| l.contains(&state)), "mounts are left: {mounts}");
    let folders: Vec<_> = std::fs::read_dir(world.folder.join("state"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .filter(|n| n != "sweep.lock")
        .collect();
    // Ours, and while it lives that of the next start.
    assert!(folders.len() <= 2, "folders are left: {folders:?}");
    let dead = format!("owner-{owner}-");
    assert!(!folders.iter().any(|f| f.to_string_lossy().starts_with(&dead)), "folders are left: {folders:?}");
    // An older one is of a process that died long ago and had the same process id.
    let begun = std::fs::metadata(world.folder.join("work")).unwrap().modified().unwrap();
    for line in std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
        let Some(mount) = line.split(' ').nth(4).filter(|m| m.contains("cgroup")) else { continue };
        let mut left = cgroups_of(Path::new(mount), owner);
        left.retain(|path| std::fs::metadata(path).is_ok_and(|made| made.modified().unwrap() >= begun));
        assert!(left.is_empty(), "cgroups are left: {left:?}");
    }
}

/// The cgroups of an owner, three levels down at most.
fn cgroups_of(directory: &Path, owner: u32) -> Vec<String> {
    fn walk(directory: &Path, owner: &str, depth: u32, found: &mut Vec<String>) {
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.flatten().filter(|e| e.path().is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(owner) {
                found.push(entry.path().display().to_string());
            } else if depth < 3 {
                walk(&entry.path(), owner, depth + 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(directory, &format!("crealeph-owner-{owner}-"), 0, &mut found);
    found
}

fn killed_at_random_moments(world: &World) {
    world.directory("work", &[("a", "one"), ("d/b", "two")]);
    let word = format!("crealeph-killed-{}", std::process::id());
    // A fixed sequence, so that a failure can be reproduced.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..TIMES {
        let mut child = driver(world, &word).spawn().unwrap();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 150_000));
        child.kill().unwrap();
        child.wait().unwrap();
        // The next start.
        let next = Sandbox::new(Config::new(world.folder.join("state"))).unwrap();
        nothing_is_left(world, &word, child.id());
        drop(next);
    }
    assert_eq!(std::fs::read_to_string(world.folder.join("work/a")).unwrap(), "one");
}

fn a_live_owner_is_left_alone(world: &World) {
    let root = world.directory("work", &[("a", "one")]);
    let view = world.sandbox.open_view(&root).unwrap();
    let other = Sandbox::new(Config::new(world.folder.join("state"))).unwrap();
    assert_eq!(other.sweep().unwrap().folders, 0);
    drop(other);
    let mut spec = python("open('a', 'w').write('two')");
    spec.views.push(Mount { view: &view, at: "/work".into() });
    spec.cwd = Some("/work".into());
    good(&world.run(&spec));
    assert_eq!(view.changes().unwrap().len(), 1);
}

/// An owner that lives for months must not accumulate notes on removed cgroups.
fn a_run_that_ended_leaves_nothing(world: &World) {
    for _ in 0..3 {
        good(&world.run(&python("print('ran')")));
    }
    let state = std::fs::read_dir(world.folder.join("state")).unwrap().map(|entry| entry.unwrap().path());
    let owner = state.into_iter().find(|path| path.is_dir()).unwrap();
    let left: Vec<_> = std::fs::read_dir(owner).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

/// Even before the next start: the processes end as soon as the owner does.
fn the_tree_dies_with_its_owner(world: &World) {
    world.directory("work", &[("a", "one")]);
    let word = format!("crealeph-orphan-{}", std::process::id());
    let mut child = driver(world, &word).env("SANDBOX_LONG", "1000").spawn().unwrap();
    let wait_until = |what: &str, done: &dyn Fn() -> bool| {
        for _ in 0..1000 {
            if done() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{what} did not come: {:?}", processes_with(&word));
    };
    wait_until("the daemon", &|| processes_with(&word).len() >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the end", &|| processes_with(&word).is_empty());
    drop(Sandbox::new(Config::new(world.folder.join("state"))).unwrap());
    nothing_is_left(world, &word, child.id());
}

/// As a terminal sends it at Ctrl-C: the owner lives on to end the run, and the helper with it.
fn a_signal_to_the_whole_group_is_the_owners(world: &World) {
    if std::env::var_os("SANDBOX_AGAIN").is_none() {
        let mut again = Command::new("/proc/self/exe");
        let output = again.env("SANDBOX_AGAIN", "1").process_group(0).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let group = getpgrp();
    let signal = |_: Stream, bytes: &[u8]| {
        if bytes.starts_with(b"ready") {
            // Out of the group, in place of a handler.
            setpgid(None, Some(getpgid(getppid()).unwrap())).unwrap();
            for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
                kill_process_group(group, signal).unwrap();
            }
            std::thread::sleep(Duration::from_millis(200));
            assert!(processes_of(group) >= 2, "the helper is gone");
        }
    };
    let spec = python("import time; print('ready', flush=True); time.sleep(0.5); print('done')");
    let outcome = world.sandbox.run_with_output(&spec, &Cancel::new().unwrap(), Some(&signal)).unwrap();
    assert_eq!(good(&outcome), "ready\ndone");
}

fn processes_of(group: Pid) -> usize {
    let stats = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("stat"));
    let is_in = |stat: String| {
        let fields = stat.rsplit_once(')')?.1.split_whitespace().collect::<Vec<_>>();
        (fields[0] != "Z").then_some(fields[2] == group.as_raw_nonzero().to_string())
    };
    stats.filter_map(|path| is_in(std::fs::read_to_string(path).ok()?)).filter(|is_in| *is_in).count()
}
