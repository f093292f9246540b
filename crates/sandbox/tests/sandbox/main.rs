//! The sandbox against real programs and hostile ones, on the real kernel. Every case runs twice: as root and
//! as an ordinary user; if only started by an ordinary user, the root half fails and says so. A case that needs
//! a program the machine lacks fails, it is never skipped.
#![cfg(test)]
#![allow(missing_docs, clippy::exit, reason = "a test: it ends at the first surprise")]

mod basics;
mod exhaustion;
mod hostile;
mod network;
mod real;
mod reduced;
mod sweep;
mod views;
mod work;
mod world;

use std::os::unix::process::CommandExt;
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};

use world::{Case, World};

/// The uid of the ordinary user; not used on the machine.
const ORDINARY: u32 = 65_531;

fn main() {
    crealeph_sandbox::helper_main_if_requested();
    sweep::drive_if_requested();
    let cases: Vec<Case> = [
        basics::CASES,
        hostile::CASES,
        exhaustion::CASES,
        network::CASES,
        real::CASES,
        reduced::CASES,
        sweep::CASES,
        views::CASES,
        work::CASES,
    ]
    .concat();
    if let Ok(name) = std::env::var("SANDBOX_CASE") {
        let case = cases.iter().find(|c| c.0 == name).expect("a known case");
        (case.1)(&World::new());
        return;
    }
    let mut arguments = Arguments::from_args();
    // Most of the time a case waits for a limit to be hit.
    arguments.test_threads.get_or_insert(2 * std::thread::available_parallelism().map_or(1, usize::from));
    let root = world::is_root();
    let mut trials = Vec::new();
    for case in cases {
        let Case(name, _) = case;
        if root {
            trials.push(Trial::test(format!("root::{name}"), move || separately(name, None)));
            trials.push(Trial::test(format!("user::{name}"), move || separately(name, Some(ORDINARY))));
        } else {
            trials.push(Trial::test(format!("root::{name}"), || {
                Err(Failed::from("start these tests as root"))
            }));
            trials.push(Trial::test(format!("user::{name}"), move || separately(name, None)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Runs one case in a separate process, as `uid`.
fn separately(name: &str, uid: Option<u32>) -> Result<(), Failed> {
    let mut command = match uid {
        Some(uid) if real::WITH_TOOLCHAINS.contains(&name) => real::with_toolchains(uid),
        Some(uid) => {
            let mut command = Command::new("/proc/self/exe");
            command.uid(uid).gid(uid).env("HOME", "/nonexistent");
            command
        }
        None => Command::new("/proc/self/exe"),
    };
    let output = command.env("SANDBOX_CASE", name).current_dir("/").output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Err(Failed::from(text))
}
