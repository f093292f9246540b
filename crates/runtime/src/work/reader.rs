//! Runs, to be looked at: what there is, how each ended, what it changed. Reads alone; what a command shows of a run is a value from
//! here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::Limits;
use crealeph_contracts::receipt::Receipt;
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::ItemId;
use crealeph_contracts::uuid::Uuid;

use super::held_proof;
use super::journal::{JournalState, RunVerdict};
use super::receipt::{RECEIPT_FILE, Signer};
use super::record::{DIFF_FILE, RESULT_FILE};
use super::result::ItemResult;
use super::store::{RunStore, RunsError};

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It is over.
    Over(RunStatus),
    /// It was ended by a person or a crash.
    Interrupted,
    /// Its change waits for a verdict.
    Held,
    /// It goes on.
    Running,
    /// Its process ended; the next command settles it.
    Unsettled,
}

impl RunState {
    /// One word.
    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Over(status) => status.as_str(),
            RunState::Interrupted => "interrupted",
            RunState::Held => "held",
            RunState::Running => "running",
            RunState::Unsettled => "unsettled",
        }
    }
}

/// A run in short.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The run, which is its receipt's id.
    pub run: Uuid,
    /// The item; absent for the merge of a level.
    pub item: Option<ItemId>,
    /// How far it has come.
    pub state: RunState,
    /// Since when.
    pub at: Timestamp,
    /// The verdict on it, if it was held.
    pub verdict: Option<RunVerdict>,
    /// The hash of its receipt, if it has one.
    pub receipt_hash: Option<Blake3>,
}

/// A document that is kept of a run: the text as it is there, and the value if it can be read.
#[derive(Clone, Debug)]
pub struct KeptDocument<T> {
    /// The text.
    pub text: String,
    /// What it says; absent if it was damaged.
    pub value: Option<T>,
}

/// The runs of a workspace.
#[derive(Debug)]
pub struct RunReader {
    runs: RunStore,
    state: Arc<JournalState>,
}

impl RunReader {
    /// Reads what there is.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn open(workspace: &Path) -> Result<Self, RunsError> {
        let runs = RunStore::new(workspace);
        let state = runs.state()?;
        Ok(RunReader { runs, state })
    }

    /// Every run, oldest first; those that are not over come last.
    pub fn all(&self) -> Vec<RunSummary> {
        let over = self.state.finished.iter().map(|finished| RunSummary {
            run: finished.run,
            item: finished.item.clone(),
            state: match finished.is_interrupted {
                true => RunState::Interrupted,
                false => RunState::Over(finished.status),
            },
            at: finished.at.clone(),
            verdict: self.state.verdicts.get(&finished.run).cloned(),
            receipt_hash: Some(finished.receipt),
        });
        let held = self.state.held.iter().map(|(run, held)| RunSummary {
            run: *run,
            item: Some(held.item.clone()),
            state: RunState::Held,
            at: held.at.clone(),
            verdict: self.state.verdicts.get(run).cloned(),
            receipt_hash: None,
        });
        let started = self.state.started.iter().map(|(run, started)| RunSummary {
            run: *run,
            item: Some(started.item.clone()),
            state: match self.runs.is_alive(&started.owner) {
                true => RunState::Running,
                false => RunState::Unsettled,
            },
            at: started.at.clone(),
            verdict: None,
            receipt_hash: None,
        });
        over.chain(held).chain(started).collect()
    }

    /// The run that a word means: its id, the start of it, or the newest run of an item. Without a word, the newest of all.
    ///
    /// # Errors
    /// When there is no such run, or the start is that of several.
    pub fn find(&self, word: Option<&str>) -> Result<RunSummary, RunsError> {
        let mut all = self.all();
        let Some(word) = word else {
            all.retain(|summary| summary.item.is_some());
            return all.pop().ok_or(RunsError::NoneYet);
        };
        let is_item = |summary: &&RunSummary| summary.item.as_ref().is_some_and(|item| item.as_str() == word);
        let by_item = all.iter().rev().find(is_item);
        let is_start = |summary: &&RunSummary| !word.is_empty() && summary.run.to_string().starts_with(word);
        let mut by_start = all.iter().filter(is_start);
        let by_start = match (by_start.next(), by_start.next()) {
            (Some(one), None) => Some(one),
            _ => None,
        };
        by_start.or(by_item).cloned().ok_or_else(|| RunsError::Unknown(word.to_owned()))
    }

    /// How a run ended; absent if it has no result.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn result(&self, run: &Uuid) -> Result<Option<KeptDocument<ItemResult>>, RunsError> {
        let text = self.text(run, RESULT_FILE)?;
        Ok(text.map(|text| KeptDocument { value: ItemResult::parse(text.as_bytes()), text }))
    }

    /// The receipt of a run; absent if it has none, or one that was damaged.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn receipt(&self, run: &Uuid) -> Result<Option<Valid<Receipt>>, RunsError> {
        let bytes = self.runs.read(run, RECEIPT_FILE)?;
        Ok(bytes.and_then(|bytes| Valid::parse(&bytes, &Limits::own(usize::MAX)).ok()))
    }

    /// What it changed, or what of it was discarded, in unified form.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn diff(&self, run: &Uuid) -> Result<Option<String>, RunsError> {
        self.text(run, DIFF_FILE)
    }

    /// What of a held change is not as it was when it was held, its plan and staged contents aside.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn held_fault(&self, run: &Uuid, signer: &Signer) -> Result<Option<String>, RunsError> {
        match self.state.held.get(run) {
            Some(held) => held_proof::fault(&self.runs, signer, run, held, None),
            None => Ok(None),
        }
    }

    /// Where its files are.
    pub fn folder(&self, run: &Uuid) -> PathBuf {
        self.runs.folder(run)
    }

    fn text(&self, run: &Uuid, name: &str) -> Result<Option<String>, RunsError> {
        Ok(self.runs.read(run, name)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}
