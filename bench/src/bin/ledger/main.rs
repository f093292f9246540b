//! `cargo xtask bench ledger`: our append against plain inserts of the same rows, in one run, durable on both sides; what
//! single appends, proofs and snapshots cost, and that it does not grow with the log. `--quick` leaves the million out;
//! `sqlite`, `postgresql` and `growth` select parts.

mod growth;
mod plain;
#[path = "../../../../crates/ledger/tests/server/mod.rs"]
mod server;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits as JsonLimits;
use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{Ledger, LedgerOptions, Location};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Concurrent writers, and so the size of a batch on the plain side.
const WRITERS: usize = 64;
const ROWS: usize = 64_000;
const SINGLE_COMMITS: usize = 1_500;
/// The distance between an entry and its dependency: a multiple of the writers, so that both are one writer's and
/// come in their order.
const STEP: usize = 2 * WRITERS;
/// Rows that one side inserts per turn.
const TURN: usize = 8_000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [phase, folder] = arguments.as_slice()
        && phase == growth::PHASE
    {
        return growth::run(Path::new(folder));
    }
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let named: Vec<&str> = arguments.iter().map(String::as_str).filter(|name| *name != "--quick").collect();
    let is_wanted = |part: &str| named.is_empty() || named.contains(&part);
    let folder = tempfile::tempdir()?;
    if is_wanted("sqlite") {
        println!("## SQLite, synced on every commit, {WRITERS} writers, {ROWS} rows\n");
        sqlite(folder.path())?;
    }
    if is_wanted("postgresql") {
        println!("\n## PostgreSQL, synced on every commit, {WRITERS} writers, {ROWS} rows\n");
        postgresql(folder.path())?;
    }
    if is_wanted("growth") {
        println!("\n## What does not grow with the log (SQLite, one robot)\n");
        growth::table(folder.path(), is_quick)?;
    }
    Ok(())
}

pub(crate) fn tenant() -> Outcome<TenantId> {
    Ok(TenantId::parse("local")?)
}

/// The entry of a number: a payload of some 200 bytes, a key, and an earlier entry to depend on, seven steps deep at most.
pub(crate) fn draft(number: usize) -> Outcome<Draft> {
    let kinds = ["signal", "fusion", "idea", "copy", "benchmark", "playbook", "task", "note"];
    let kind = kinds.get(number % 8).copied().unwrap_or("note");
    let on = match number.checked_sub(STEP) {
        Some(before) if number % (8 * STEP) >= STEP => {
            format!(r#","lineage":{{"dependsOnLedgerIds":["key:k{before}"]}}"#)
        }
        _ => String::new(),
    };
    let json = format!(
        r#"{{"robotId":"robot-7","module":"module","source":"source","type":"{kind}","state":"final","key":"k{number}",
        "payload":{{"number":{number},"text":"{}"}}{on}}}"#,
        "some words of a payload ".repeat(7)
    );
    Draft::parse(json.as_bytes(), &JsonLimits::default()).map_err(|wrong| format!("{wrong:?}").into())
}

/// Appends the entries of these numbers, one at a time, from many threads; the time it takes.
fn concurrent(ledger: &Ledger, numbers: Range<usize>) -> Outcome<Duration> {
    let tenant = tenant()?;
    let mut drafts: Vec<Vec<Draft>> = vec![Vec::new(); WRITERS];
    for number in numbers {
        if let Some(own) = drafts.get_mut(number % WRITERS) {
            own.push(draft(number)?);
        }
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = drafts
            .into_iter()
            .map(|own| {
                let tenant = &tenant;
                scope.spawn(move || {
                    own.into_iter().try_for_each(|one| ledger.append(tenant, vec![one]).map(|_| ()))
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a writer panicked")?.map_err(|e| e.to_string()))
    })
    .map_err(|error: String| error)?;
    Ok(start.elapsed())
}

/// Ours and the plain side in turns, so that other load on the machine slows both: rates over all turns, and the
/// median of the ratios of each turn.
fn in_turns(ledger: &Ledger, mut plain: impl FnMut(Range<usize>) -> Outcome<Duration>) -> Outcome<Rates> {
    ledger.append(&tenant()?, (0..STEP).map(draft).collect::<Outcome<Vec<_>>>()?)?;
    plain(0..STEP)?;
    let (mut ours, mut theirs, mut ratios) = (Duration::ZERO, Duration::ZERO, Vec::new());
    for from in (STEP..ROWS).step_by(TURN) {
        let numbers = from..ROWS.min(from + TURN);
        let (own, other) = (concurrent(ledger, numbers.clone())?, plain(numbers)?);
        (ours, theirs) = (ours + own, theirs + other);
        ratios.push(other.as_secs_f64() / own.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let rate = |time: Duration| (ROWS - STEP) as f64 / time.as_secs_f64();
    let ratio = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
    Ok(Rates { ours: rate(ours), batched: rate(theirs), ratio })
}

/// Entries per second of either side, and ours as a fraction of theirs.
struct Rates {
    ours: f64,
    batched: f64,
    ratio: f64,
}

/// Appends entries in batches of as many as there are writers, from one thread; entries per second.
fn in_batches(ledger: &Ledger, numbers: Range<usize>) -> Outcome<f64> {
    let (tenant, count) = (tenant()?, numbers.len());
    let drafts = numbers.map(draft).collect::<Outcome<Vec<_>>>()?;
    let batches: Vec<Vec<Draft>> = drafts.chunks(WRITERS).map(<[Draft]>::to_vec).collect();
    let start = Instant::now();
    for batch in batches {
        ledger.append(&tenant, batch)?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Single appends, one after the other: the median and the 99th percentile.
fn latencies(ledger: &Ledger, from: usize, count: usize) -> Outcome<(Duration, Duration)> {
    let tenant = tenant()?;
    let mut times = Vec::with_capacity(count);
    for number in from..from + count {
        let one = draft(number)?;
        let start = Instant::now();
        ledger.append(&tenant, vec![one])?;
        times.push(start.elapsed());
    }
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    Ok((at(50), at(99)))
}

/// Inclusion paths made per second, over the whole log.
fn proofs(ledger: &Ledger, count: u64) -> Outcome<f64> {
    let tenant = tenant()?;
    let size = ledger.last_seq(&tenant)?.get();
    let start = Instant::now();
    for number in 0..count {
        ledger.inclusion_path(&tenant, number * 7_919 % size, size)?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn report(rates: &Rates, own_batches: f64, single: f64, latency: (Duration, Duration), proofs: f64) {
    let Rates { ours, batched, ratio } = rates;
    println!("| what | per second | ours is |");
    println!("|---|---:|---:|");
    println!("| our append: hashed, indexed, idempotent, Merkle-logged | {ours:.0} | |");
    println!(
        "| the same from one writer, {WRITERS} to a batch | {own_batches:.0} | {:.2} of plain inserts |",
        own_batches / batched
    );
    println!("| plain inserts of the same rows, {WRITERS} to a commit | {batched:.0} | {ratio:.2} of it |");
    println!("| plain inserts, one to a commit | {single:.0} | {:.1} times it |", ours / single);
    println!("| inclusion proofs | {proofs:.0} | |");
    println!("\nsingle append: p50 {:.2?}, p99 {:.2?}", latency.0, latency.1);
}

fn sqlite(folder: &Path) -> Outcome<()> {
    let file = folder.join("ledger.db");
    let ledger = Ledger::init(&Location::File(file.clone()), LedgerOptions::default())?;
    let mut batched = plain::Sqlite::new(&file, &folder.join("batched.db"))?;
    let rates = in_turns(&ledger, |numbers| batched.insert(numbers, WRITERS))?;
    let own_batches = in_batches(&ledger, ROWS..ROWS + TURN)?;
    let latency = latencies(&ledger, ROWS + TURN, 500)?;
    let proofs = proofs(&ledger, 5_000)?;
    let time = plain::Sqlite::new(&file, &folder.join("single.db"))?.insert(0..SINGLE_COMMITS, 1)?;
    report(&rates, own_batches, SINGLE_COMMITS as f64 / time.as_secs_f64(), latency, proofs);
    Ok(())
}

fn postgresql(folder: &Path) -> Outcome<()> {
    let server = server::Server::start_durable();
    let database = server.database();
    let options = LedgerOptions { keys: Some(folder.join("keys")), ..LedgerOptions::default() };
    let ledger = Ledger::init(&Location::parse(&server.url(&database)), options)?;
    let mut batched = plain::Postgres::new(&server.url(&database), "batched")?;
    let rates = in_turns(&ledger, |numbers| batched.insert(numbers, WRITERS))?;
    let own_batches = in_batches(&ledger, ROWS..ROWS + TURN)?;
    let latency = latencies(&ledger, ROWS + TURN, 500)?;
    let proofs = proofs(&ledger, 2_000)?;
    let time = plain::Postgres::new(&server.url(&database), "single")?.insert(0..SINGLE_COMMITS, 1)?;
    report(&rates, own_batches, SINGLE_COMMITS as f64 / time.as_secs_f64(), latency, proofs);
    Ok(())
}
