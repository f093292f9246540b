//! `cargo xtask bench server`: requests a second and latencies of `crealeph serve`, next to a bare axum handler that returns the
//! same bytes, in turns; then how soon a thousand event streams receive new entries; then a mixed load, after which nothing may be
//! missing. `cargo xtask bench server load` runs the last part alone. Client and servers share the machine.

mod bare;
mod client;
mod mixed;
mod own;
mod streams;

use std::time::Duration;

use client::{Figures, Request};
use crealeph_bench::Outcome;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a contender's turn is, and how many turns it has.
const TURN: Duration = Duration::from_secs(2);
const TURNS: usize = 3;
const CONNECTIONS: usize = 64;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, folder] = arguments.as_slice()
        && mode == bare::MODE
    {
        return bare::serve(folder.as_ref());
    }
    let own = own::OwnServer::start()?;
    if arguments.first().is_some_and(|part| part == "load") {
        return mixed::table(&own, CONNECTIONS);
    }
    let requests = own.requests()?;
    let bare = bare::BareServer::start(own.folder(), &requests, own.address())?;
    println!("## {CONNECTIONS} connections, `crealeph serve` and a bare handler in turns\n");
    println!(
        "| request | ours | bare | ours / bare | p50 | p99 | p99.9 | p50 of bare | p99 of bare |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    for request in &requests {
        let (ours, bare) = race(request, &own, &bare)?;
        println!(
            "| {} | {:.0}/s | {:.0}/s | {:.2} | {} | {} | {} | {} | {} |",
            request.name,
            ours.per_second(),
            bare.per_second(),
            ours.per_second() / bare.per_second(),
            ours.percentile(0.5),
            ours.percentile(0.99),
            ours.percentile(0.999),
            bare.percentile(0.5),
            bare.percentile(0.99)
        );
    }
    println!("\nResident memory of `crealeph serve` after that: {} MiB\n", own.resident_mib()?);
    streams::table(&own)?;
    mixed::table(&own::OwnServer::start()?, CONNECTIONS)
}

fn race(request: &Request, own: &own::OwnServer, bare: &bare::BareServer) -> Outcome<(Figures, Figures)> {
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    client::load(own.address(), request, CONNECTIONS, TURN / 4)?;
    client::load(bare.address(), request, CONNECTIONS, TURN / 4)?;
    for _ in 0..TURNS {
        ours.add(client::load(own.address(), request, CONNECTIONS, TURN)?);
        theirs.add(client::load(bare.address(), request, CONNECTIONS, TURN)?);
    }
    Ok((ours, theirs))
}
