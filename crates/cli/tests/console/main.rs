//! Pages as people meet them: a server runs, and Debian's chromium opens its pages.
//!
//! Each `.mjs` file is a script of stories for one browser; `browser.mjs` is what they share. A story fails on its own
//! assertions, and on any console error, refused content or request to another host.

#![cfg(test)]

#[path = "../server/client.rs"]
mod client;
#[path = "../work/gate.rs"]
mod gate;
#[path = "../server/receiver.rs"]
#[allow(dead_code, reason = "the tests of the server use the rest")]
mod receiver;
#[path = "../server/running.rs"]
#[allow(dead_code, reason = "the tests of the server use the rest")]
mod running;
#[path = "../scratch/mod.rs"]
mod scratch;
#[path = "../../../verify/tests/second/mod.rs"]
mod second;

mod agreement;
mod details;
mod own_workspace;
mod pages;
mod passkeys;
mod stories;
mod verifier;
#[path = "../work/world.rs"]
#[allow(dead_code, reason = "the tests of work runs use the rest")]
mod world;

use running::Running;
use stories::tell;

#[test]
fn the_page_of_the_api() {
    let server = Running::start("");
    tell("api_docs.mjs", &[("CREALEPH_URL", &server.url)]);
}
