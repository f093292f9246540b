//! `cargo xtask bench console [SMALL LARGE]`: the server's time for each page of the console on two ledgers with the same mix of
//! entries, a small one and a large one, asked in turns in one run, so that the page on the small ledger is the peer of the page on the
//! large one; then what a browser needs for the first page and for a long diff.

mod browser;
mod fill;
mod pages;
mod people;

use std::path::PathBuf;
use std::process::Child;

use crealeph_bench::Outcome;
use crealeph_bench::program;
use fill::{FilledLedger, Landmarks};
use pages::Visitor;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: (u64, u64) = (1_000, 1_000_000);
/// Bounds that a single client on one machine would hit, raised; and the agent of the executions.
const CONFIGURATION: &str = "[server]\nmax_requests_per_second = 1000000\nmax_requests_per_key = 65536\n\n\
    [agents.'example@1']\nkind = 'example'\n";

fn main() -> Outcome<()> {
    crealeph_sandbox::helper_main_if_requested();
    let (small, large) = sizes(std::env::args().skip(1).collect())?;
    let program = program::built()?;
    let small = ConsoleServer::start(&program, small)?;
    let large = ConsoleServer::start(&program, large)?;
    pages::table(&small, &large)?;
    browser::table(&large)
}

fn sizes(arguments: Vec<String>) -> Outcome<(u64, u64)> {
    let usage = "say how many entries the small and the large ledger have, for example `1000 100000`";
    match arguments.as_slice() {
        [] => Ok(SIZES),
        [small, large] => match (small.parse(), large.parse()) {
            (Ok(small), Ok(large)) if fill::LEAST <= small && small < large => Ok((small, large)),
            _ => Err(format!("{usage}; the small one has at least {}", fill::LEAST).into()),
        },
        _ => Err(usage.into()),
    }
}

/// `crealeph serve` over a filled ledger, and somebody who is signed in.
struct ConsoleServer {
    folder: PathBuf,
    entries: u64,
    marks: Landmarks,
    child: Child,
    visitor: Visitor,
    _temporary: tempfile::TempDir,
}

impl ConsoleServer {
    fn start(program: &std::path::Path, size: u64) -> Outcome<ConsoleServer> {
        let temporary = tempfile::tempdir()?;
        let folder = temporary.path().to_owned();
        std::fs::write(folder.join("crealeph.toml"), CONFIGURATION)?;
        program::run(program, &folder, &["ledger", "init"])?;
        let FilledLedger { entries, marks } = fill::fill(&folder, size)?;
        let key = program::run(program, &folder, &["key", "create", "--role", "operator", "--json"])?;
        let key: serde_json::Value = serde_json::from_str(&key)?;
        let (child, address) = program::serve(program, &folder)?;
        let visitor = Visitor::sign_in(address, key["token"].as_str().ok_or("no token")?)?;
        Ok(ConsoleServer { folder, entries, marks, child, visitor, _temporary: temporary })
    }
}

impl Drop for ConsoleServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
