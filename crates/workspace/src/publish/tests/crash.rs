//! `kill -9` at every step and at random moments: the workspace is exactly before or exactly after, and recovering can
//! itself be killed. The process that is killed is this test program, started again for one test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::publish::fault::under_test::with_hook;
use crate::publish::settle::PublishOutcome;
use crate::state::StateHash;
use crate::workspace::Workspace;

use super::scene::{after, before, capsule, files_under, quick_folder, state, write};

/// The task of the child process: what to do, where, and at which moment to die.
const ROLE: &str = "CREALEPH_TEST_ROLE";
const FOLDER: &str = "CREALEPH_TEST_FOLDER";
const MOMENT: &str = "CREALEPH_TEST_MOMENT";

fn start(role: &str, folder: &Path, moment: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "publish::tests::crash::child_process", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .env(MOMENT, moment.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn run(role: &str, folder: &Path, moment: usize) -> ExitStatus {
    start(role, folder, moment).wait_with_output().unwrap().status
}

/// Does nothing when the tests run; does its task as a child process.
#[test]
fn child_process() {
    let (Ok(role), Some(folder)) = (std::env::var(ROLE), std::env::var_os(FOLDER)) else { return };
    let moment: usize = std::env::var(MOMENT).unwrap().parse().unwrap();
    let workspace = Workspace::open(Path::new(&folder)).unwrap();
    let mut points = 0;
    let dies = move |_: &'static str| {
        points += 1;
        if points == moment {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    };
    match role.as_str() {
        "publish" => {
            let capsule = capsule(&workspace, &before(), &after());
            with_hook(dies, || workspace.prepare(&capsule).unwrap().publish().map(drop).unwrap());
        }
        "hold" => {
            let capsule = capsule(&workspace, &before(), &after());
            with_hook(dies, || workspace.prepare(&capsule).unwrap().hold().map(drop).unwrap());
        }
        "recover" => with_hook(dies, || {
            workspace.recover().unwrap();
            workspace.recover().unwrap();
        }),
        "back-and-forth" => {
            let (there, back) =
                (capsule(&workspace, &before(), &after()), capsule(&workspace, &after(), &before()));
            workspace.recover().unwrap();
            let mut is_before = workspace.snapshot().unwrap().state().hash() == state(&before()).hash();
            println!("ready");
            loop {
                let next = if is_before { &there } else { &back };
                workspace.prepare(next).unwrap().publish().map(drop).unwrap();
                is_before = !is_before;
            }
        }
        other => panic!("no role `{other}`"),
    }
}

fn fresh() -> tempfile::TempDir {
    let folder = quick_folder();
    write(folder.path(), &before());
    folder
}

/// Recovers, and returns the state; recovering again changes nothing and leaves nothing behind.
fn settled(folder: &Path) -> StateHash {
    let workspace = Workspace::open(folder).unwrap();
    let settled = workspace.recover().unwrap();
    assert!(settled.iter().all(|settled| settled.kept.is_empty()), "{settled:?}");
    let hash = workspace.snapshot().unwrap().state().hash();
    assert_eq!(
        workspace.recover().unwrap().iter().filter(|it| it.outcome == PublishOutcome::RolledBack).count(),
        0
    );
    assert_eq!(workspace.snapshot().unwrap().state().hash(), hash);
    let control = folder.join(".crealeph");
    assert_eq!(files_under(&control.join("publish")), [""; 0].map(std::path::PathBuf::from));
    assert_eq!(files_under(&control.join("kept")).len(), 0);
    assert_eq!(files_under(&control.join("temporary")).len(), 0);
    hash
}

#[test]
// holds: invariant 12
fn killed_at_every_step_it_is_before_or_after() {
    let (before, after) = (state(&before()).hash(), state(&after()).hash());
    let mut seen_before = 0;
    for moment in 1.. {
        let folder = fresh();
        let status = run("publish", folder.path(), moment);
        let hash = settled(folder.path());
        if status.success() {
            assert_eq!(hash, after);
            assert!(moment > 60 && seen_before > 50, "{moment} moments, {seen_before} undone");
            return;
        }
        assert!(hash == before || hash == after, "killed at moment {moment}: {hash}");
        seen_before += usize::from(hash == before);
    }
}

#[test]
fn a_publish_that_was_interrupted_is_reported_before_a_state_is_read() {
    let folder = fresh();
    // Far enough to have begun its steps.
    let mut moment = 40;
    let workspace = loop {
        run("publish", folder.path(), moment);
        let workspace = Workspace::open(folder.path()).unwrap();
        if workspace.snapshot().is_err_and(|error| error.to_string().contains("was interrupted")) {
            break workspace;
        }
        workspace.recover().unwrap();
        moment += 1;
    };
    let settled = workspace.recover().unwrap();
    assert_eq!(settled.len(), 1);
    assert_eq!((settled[0].outcome, settled[0].kept.len()), (PublishOutcome::RolledBack, 0));
    assert_eq!(workspace.snapshot().unwrap().state(), &state(&before()));
}

#[test]
fn recovering_can_be_killed_at_every_step_too() {
    let (before, after) = (state(&before()).hash(), state(&after()).hash());
    for interrupted in [55, 70, 85, 100] {
        for moment in 1.. {
            let folder = fresh();
            run("publish", folder.path(), interrupted);
            let status = run("recover", folder.path(), moment);
            let hash = settled(folder.path());
            assert!(hash == before || hash == after, "{interrupted}, then {moment}: {hash}");
            if status.success() {
                break;
            }
        }
    }
}

#[test]
fn killed_while_holding_it_is_held_or_not() {
    for moment in 1.. {
        let folder = fresh();
        let status = run("hold", folder.path(), moment);
        let workspace = Workspace::open(folder.path()).unwrap();
        workspace.recover().unwrap();
        assert_eq!(workspace.snapshot().unwrap().state(), &state(&before()));
        match workspace.held().unwrap().as_slice() {
            [] => assert!(!status.success()),
            [held] => {
                workspace.resume(held).unwrap().publish().map(drop).unwrap();
                assert_eq!(workspace.snapshot().unwrap().state(), &state(&after()));
            }
            more => panic!("{more:?}"),
        }
        if status.success() {
            return;
        }
    }
}

#[test]
// holds: invariant 12
fn killed_at_200_random_moments_it_is_before_or_after() {
    let folder = fresh();
    let (before, after) = (state(&before()).hash(), state(&after()).hash());
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..200 {
        let mut child = start("back-and-forth", folder.path(), 0);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("ready") {}
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 8_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let settled = workspace.recover().unwrap();
        assert!(settled.iter().all(|settled| settled.kept.is_empty()), "{settled:?}");
        let hash = workspace.snapshot().unwrap().state().hash();
        assert!(hash == before || hash == after, "round {round}: {hash}");
    }
}
