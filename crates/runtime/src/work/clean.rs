//! Removing what old runs left: their diffs and outputs, the states that no newer run names, and the contents that only
//! those needed. Owns what is never removed: receipts and their order, work items, results, replays, held runs, whatever is
//! not over, and what somebody wrote at the moment of a publish.

use std::collections::BTreeSet;
use std::time::Duration;

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::ObjectWriter;
use crealeph_sandbox::{Config, Sandbox};
use crealeph_workspace::StateHash;

use super::engine::{Work, WorkError};
use super::outcome::{DIFF_FILE, ENTRY_FILE, STDERR_FILE, STDOUT_FILE};
use super::store::{Finished, History, RunFile};

/// What says that files of a run were removed on purpose, for anyone who checks them.
const CLEANED_FILE: &str = "CLEANED.dsse.json";
const CLEANED_TYPE: &str = "application/vnd.crealeph.cleaned-run+json";

/// Which runs keep everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recent {
    /// The newest so many.
    Newest(usize),
    /// Those that ended within this time.
    Within(Duration),
}

/// What was removed, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Runs that lost their diff and outputs.
    pub runs: usize,
    /// States.
    pub states: usize,
    /// Contents.
    pub contents: usize,
    /// How much all of it held.
    pub bytes: u64,
    /// Whether states and contents were left alone, since a run is going on.
    pub is_busy: bool,
}

impl Work {
    /// Removes what runs that are not recent left. The newest run keeps everything in any case. Other processes wait
    /// meanwhile, or are waited for; being killed in between only leaves more to remove.
    ///
    /// # Errors
    /// When something needed cannot be read, or something cannot be removed.
    pub fn clean(&self, recent: Recent, is_dry: bool) -> Result<Freed, WorkError> {
        let locked = self.runs.lock()?;
        let history = self.history()?;
        let old = old(&history, recent);
        let mut freed = Freed::default();
        for finished in &old {
            let mut names = vec![DIFF_FILE, STDOUT_FILE, STDERR_FILE];
            if !is_dry && locked.remove(&finished.run, &names, true)? > 0 {
                locked.put(&finished.run, &self.cleaned(&finished.run, &names))?;
            }
            if history.recorded.contains_key(&finished.run) {
                names.push(ENTRY_FILE);
            }
            let bytes = locked.remove(&finished.run, &names, is_dry)?;
            freed.runs += usize::from(bytes > 0);
            freed.bytes += bytes;
        }
        // The contents that a run has captured are named by no state until it is over.
        freed.is_busy = history.begun.values().any(|begun| self.runs.is_alive(&begun.owner));
        if freed.is_busy {
            return Ok(freed);
        }
        let old: BTreeSet<&str> = old.iter().map(|finished| finished.run.as_str()).collect();
        let kept = history.finished.iter().filter(|finished| !old.contains(finished.run.as_str()));
        let prepared = history.prepared.values().map(|(_, finished)| finished);
        let mut needed: BTreeSet<StateHash> =
            kept.chain(prepared).flat_map(|finished| states([&finished.before, &finished.after])).collect();
        needed.extend(history.begun.values().flat_map(|begun| states([&begun.before])));
        for run in history.held.keys() {
            needed.extend(self.held_states(run)?.map(StateHash::from_digest));
        }
        let cleaned = self.workspace.clean(&needed, is_dry)?;
        (freed.states, freed.contents) = (cleaned.states, cleaned.contents);
        freed.bytes += cleaned.bytes;
        if !is_dry {
            Sandbox::new(Config::new(self.state_dir()))?.sweep()?;
        }
        Ok(freed)
    }
}

impl Work {
    /// The signed statement that these files of a run were removed on purpose.
    fn cleaned(&self, run: &str, names: &[&str]) -> RunFile {
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        object.texts("files", names).text("run", run).text("workspace", self.signer.name().as_str());
        object.end();
        (CLEANED_FILE.to_owned(), self.signer.envelope_of(CLEANED_TYPE, &text).into_bytes(), false)
    }
}

/// The runs that are over, are not recent, and belong to no list that is still to be gone on with.
fn old(history: &History, recent: Recent) -> Vec<&Finished> {
    let now = super::now().instant().unix_nanos();
    let count = history.finished.len();
    let is_recent = |at: usize, finished: &Finished| match recent {
        _ if at + 1 == count => true,
        Recent::Newest(newest) => at + newest >= count,
        Recent::Within(time) => Timestamp::parse(&finished.at).is_ok_and(|ended| {
            let age = now - ended.instant().unix_nanos();
            age <= i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
        }),
    };
    let all = history.finished.iter().enumerate();
    let old =
        all.filter(|(at, finished)| !is_recent(*at, finished) && !history.open.contains(&finished.batch));
    old.map(|(_, finished)| finished).collect()
}

fn states<const N: usize>(hashes: [&String; N]) -> impl Iterator<Item = StateHash> + use<N> {
    let parsed: Vec<_> = hashes.iter().filter_map(|hash| Blake3::parse(hash)).collect();
    parsed.into_iter().map(StateHash::from_digest)
}
