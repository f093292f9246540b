//! Agents of every kind against the real sandbox and real sockets: good ones, clumsy ones and hostile ones.
#![cfg(test)]
#![allow(missing_docs, clippy::exit, reason = "a test: it ends at the first surprise")]

mod answers;
mod grants;
mod model;
mod remote;
mod server;
mod world;

use libtest_mimic::{Arguments, Trial};

fn main() {
    crealeph_sandbox::helper_main_if_requested();
    let arguments = Arguments::from_args();
    let cases = [answers::CASES, grants::CASES, remote::CASES, model::CASES].concat();
    let trials = cases.into_iter().map(|(name, case)| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
