//! Prints what parsing and validating each document allocates, ours and serde_json's with the `jsonschema` crate's. A
//! program of its own, because counting slows every allocation down and must not touch the timing.

use std::alloc::System;
use std::hint::black_box;

use crealeph_bench::Outcome;
use crealeph_bench::documents::documents;
use crealeph_bench::validation::{JsonSchema, Ours};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Outcome<()> {
    for document in documents()? {
        let (ours, peer) = (Ours::new(document.contract)?, JsonSchema::new(document.contract)?);
        let [ours, peer] =
            [allocated(|| ours.judge(&document.text)), allocated(|| peer.judge(&document.text))];
        println!("{}\t{}\t{}\t{}\t{}", document.name, ours.0, ours.1, peer.0, peer.1);
    }
    Ok(())
}

/// Bytes and calls of the second of two runs, when one-time allocations are done.
fn allocated(mut work: impl FnMut() -> bool) -> (usize, usize) {
    black_box(work());
    let region = Region::new(GLOBAL);
    black_box(work());
    let change = region.change();
    // A reallocation counts as a call, and its growth as bytes.
    let grown = usize::try_from(change.bytes_reallocated).unwrap_or_default();
    (change.bytes_allocated + grown, change.allocations + change.reallocations)
}
