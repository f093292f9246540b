//! Costs that must not grow: snapshots and newest entries at a thousand, a hundred thousand and a million entries, and the
//! memory that appending, exporting and verifying a million takes. Each size is measured in a process of its own.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use crealeph_contracts::scalar::{Name, RobotId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_ledger::{Filter, Ledger, LedgerOptions, Location, Order};
use crealeph_verify::{ExportVerifier, VerifierKey};

use crate::{draft, tenant};

const BATCH: usize = 500;
const ROUNDS: usize = 301;
/// The argument of the process that measures one size.
pub(crate) const PHASE: &str = "growth-of";

/// Prints a row for each size, and the largest ratio between them.
pub(crate) fn table(folder: &Path, is_quick: bool) -> Outcome<()> {
    println!(
        "| entries | snapshot | newest of a type | inclusion proof | append/s | export/s | verify/s | memory at most |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let sizes: &[usize] = if is_quick { &[1_000, 100_000] } else { &[1_000, 100_000, 1_000_000] };
    for size in sizes {
        let place = folder.join(size.to_string());
        std::fs::create_dir(&place)?;
        let status = Command::new(std::env::current_exe()?).arg(PHASE).arg(&place).status()?;
        if !status.success() {
            return Err(format!("the run of {size} entries failed").into());
        }
    }
    Ok(())
}

/// Measures one size, which is the folder's name.
pub(crate) fn run(folder: &Path) -> Outcome<()> {
    let size: usize = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().parse()?;
    let ledger = Ledger::init(&Location::File(folder.join("ledger.db")), LedgerOptions::default())?;
    let tenant = tenant()?;
    let start = Instant::now();
    for from in (0..size).step_by(BATCH) {
        ledger.append(&tenant, (from..size.min(from + BATCH)).map(draft).collect::<Outcome<Vec<_>>>()?)?;
    }
    let append = rate(size, start.elapsed());
    ledger.checkpoint(&tenant)?;
    let (robot, rules) = (RobotId::parse("robot-7")?, CoherenceRules::default());
    let snapshot = median(|| Ok(ledger.facts(&tenant, &robot, None, &rules).map(|_| ())?))?;
    let filter = Filter {
        robot_id: Some(robot.clone()),
        kind: Some(Name::parse("signal")?),
        state: Some(Name::parse("final")?),
        ..Filter::default()
    };
    let newest = median(|| Ok(ledger.list(&tenant, &filter, Order::NewestFirst, None, 1).map(|_| ())?))?;
    let mut index = 0;
    let proof = median(|| {
        index = (index + 7_919) % size as u64;
        Ok(ledger.inclusion_path(&tenant, index, size as u64).map(|_| ())?)
    })?;
    let start = Instant::now();
    ledger.export(&tenant, &mut std::io::sink())?;
    let export = rate(size, start.elapsed());
    let keys = ledger.verifier_keys(&tenant)?;
    let keys = keys.iter().map(|key| VerifierKey::parse(key)).collect::<Result<Vec<_>, _>>()?;
    let mut lines = Lines { verifier: ExportVerifier::new(keys, &[])?, buffer: Vec::new() };
    let start = Instant::now();
    ledger.export(&tenant, &mut lines)?;
    lines.verifier.finish()?;
    let verify = rate(size, start.elapsed());
    println!(
        "| {size} | {snapshot:.1?} | {newest:.1?} | {proof:.1?} | {append:.0} | {export:.0} | {verify:.0} | {} MB |",
        peak_megabytes()?
    );
    Ok(())
}

fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn median(mut work: impl FnMut() -> Outcome<()>) -> Outcome<Duration> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times.get(ROUNDS / 2).copied().unwrap_or_default())
}

/// The peak memory of this process, from Linux.
fn peak_megabytes() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}

/// Passes an export to the verifier line by line.
struct Lines {
    verifier: ExportVerifier,
    buffer: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            let line = String::from_utf8_lossy(&self.buffer);
            self.verifier.line(&line).map_err(|finding| std::io::Error::other(finding.to_string()))?;
            self.buffer.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
