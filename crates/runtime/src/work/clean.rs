//! Removing what old runs left: their diffs, outputs and kept changes, the states that no newer run names, and the contents that only
//! those needed. Owns what is never removed: receipts and their order, work items, results, replays, held runs, unfinished
//! runs, and what someone wrote at the moment of a publish.

use std::collections::BTreeSet;
use std::time::Duration;

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::uuid::Uuid;
use crealeph_sandbox::{Config, Sandbox};
use crealeph_workspace::StateHash;
use tracing::info_span;

use super::engine::Work;
use super::error::WorkError;
use super::hold::held_record;
use super::journal::{CapsuleState, FinishedRun, JournalState};
use super::log;
use super::pack::CAPSULE_FILE;
use super::receipt::RunFile;
use super::record::{DIFF_FILE, ENTRY_FILE, STDERR_FILE, STDOUT_FILE};
use super::retry::is_expired;
use super::store::LockedRuns;

/// What says that files of a run were removed on purpose, for anyone who checks them.
const CLEANED_FILE: &str = "CLEANED.dsse.json";
const CLEANED_TYPE: &str = "application/vnd.crealeph.cleaned-run+json";

/// Which runs keep everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepRuns {
    /// This many of the newest.
    Newest(usize),
    /// Those that ended within this time.
    Within(Duration),
}

/// What was removed, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanedRuns {
    /// Runs that lost their diff and outputs.
    pub runs: usize,
    /// States.
    pub states: usize,
    /// Contents.
    pub contents: usize,
    /// Changes that were kept to be judged again.
    pub capsules: usize,
    /// How much all of it held.
    pub bytes: u64,
    /// Whether states and contents were left alone, since a run is in progress.
    pub is_busy: bool,
}

/// Removes what runs that are not kept left; with `is_dry` it only says what it would remove.
pub(super) fn clean(work: &Work, keep: KeepRuns, is_dry: bool) -> Result<CleanedRuns, WorkError> {
    let _span = info_span!("clean", tenant = %work.tenant, is_dry).entered();
    let locked = work.runs.lock()?;
    let state = locked.state()?;
    let old = old(&state, keep);
    let mut cleaned = CleanedRuns::default();
    clean_capsules(work, &locked, &old, is_dry, &mut cleaned)?;
    for finished in &old {
        let outputs = log::names(&work.runs.folder(&finished.run))?;
        let mut names = vec![DIFF_FILE, STDOUT_FILE, STDERR_FILE, CAPSULE_FILE];
        names.extend(outputs.iter().map(String::as_str));
        if !is_dry && locked.size(&finished.run, &names) > 0 {
            locked.put(&finished.run, &[cleaned_file(work, &finished.run, &names)])?;
        }
        if state.is_recorded(&finished.run) {
            names.push(ENTRY_FILE);
        }
        let bytes = locked.size(&finished.run, &names);
        if !is_dry {
            locked.remove(&finished.run, &names)?;
        }
        cleaned.runs += usize::from(bytes > 0);
        cleaned.bytes += bytes;
    }
    // The contents that a run has captured are named by no state until it has ended.
    cleaned.is_busy = state.started.values().any(|started| work.runs.is_alive(&started.owner));
    if cleaned.is_busy {
        return Ok(cleaned);
    }
    let stored = work.workspace.clean(&needed(work, &state, &old)?, is_dry)?;
    (cleaned.states, cleaned.contents) = (stored.states, stored.contents);
    cleaned.bytes += stored.bytes;
    if !is_dry {
        Sandbox::new(Config::new(&work.state_dir))?.sweep()?;
    }
    Ok(cleaned)
}

/// Removes changes that were kept for as long as they may be, and the oldest of those that are too much together; of runs in `old` they go
/// with the rest.
fn clean_capsules(
    work: &Work,
    locked: &LockedRuns<'_>,
    old: &[&FinishedRun],
    is_dry: bool,
    cleaned: &mut CleanedRuns,
) -> Result<(), WorkError> {
    let (state, old) = (locked.state()?, old.iter().map(|old| old.run).collect::<BTreeSet<Uuid>>());
    let mut total_bytes = 0_u64;
    for finished in state.finished.iter().rev() {
        if finished.capsule != Some(CapsuleState::Kept) {
            continue;
        }
        let (run, bytes) = (&finished.run, locked.size(&finished.run, &[CAPSULE_FILE]));
        if bytes == 0 {
            continue;
        }
        if old.contains(run) {
            cleaned.capsules += 1;
            continue;
        }
        total_bytes = total_bytes.saturating_add(bytes);
        if total_bytes <= work.config.capsules.max_total_bytes && !is_expired(work, finished) {
            continue;
        }
        total_bytes -= bytes;
        cleaned.capsules += 1;
        cleaned.bytes += bytes;
        if !is_dry {
            locked.put(run, &[cleaned_file(work, run, &[CAPSULE_FILE])])?;
            locked.remove(run, &[CAPSULE_FILE])?;
        }
    }
    Ok(())
}

/// The same after a change was kept, so that what is kept stays within its bounds.
pub(super) fn trim_capsules(work: &Work, locked: &LockedRuns<'_>) -> Result<(), WorkError> {
    clean_capsules(work, locked, &[], false, &mut CleanedRuns::default())
}

/// The states that some run still needs.
fn needed(work: &Work, state: &JournalState, old: &[&FinishedRun]) -> Result<BTreeSet<StateHash>, WorkError> {
    let old: BTreeSet<Uuid> = old.iter().map(|finished| finished.run).collect();
    let kept = state.finished.iter().filter(|finished| !old.contains(&finished.run));
    let prepared = state.prepared.values().map(|prepared| &prepared.finished);
    let mut digests: Vec<Blake3> =
        kept.chain(prepared).flat_map(|finished| [finished.before, finished.after]).collect();
    digests.extend(state.started.values().map(|started| started.before));
    for run in state.held.keys() {
        let receipt = held_record(&work.runs, run)?.receipt;
        digests.extend([receipt.before_hash, receipt.after_hash]);
    }
    Ok(digests.into_iter().map(StateHash::from_digest).collect())
}

/// The signed statement that these files of a run were removed on purpose.
fn cleaned_file(work: &Work, run: &Uuid, names: &[&str]) -> RunFile {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    object.texts("files", names).text("run", &run.to_string()).text("workspace", work.signer.name().as_str());
    object.end();
    RunFile::new(CLEANED_FILE, work.signer.envelope_of(CLEANED_TYPE, &text))
}

/// The finished runs that are not kept and belong to no batch that can still resume.
fn old(state: &JournalState, keep: KeepRuns) -> Vec<&FinishedRun> {
    let now = super::now().instant().unix_nanos();
    let count = state.finished.len();
    let is_kept = |at: usize, finished: &FinishedRun| match keep {
        _ if at + 1 == count => true,
        KeepRuns::Newest(newest) => at + newest >= count,
        KeepRuns::Within(time) => {
            let age = now - finished.at.instant().unix_nanos();
            age <= i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
        }
    };
    let all = state.finished.iter().enumerate();
    let old = all.filter(|(at, finished)| {
        !is_kept(*at, finished) && !state.open_batches.contains_key(&finished.batch)
    });
    old.map(|(_, finished)| finished).collect()
}
