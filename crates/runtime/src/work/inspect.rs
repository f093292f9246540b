//! Runs, to be looked at: what there is, how each ended, what it changed. Reads alone.

use std::path::{Path, PathBuf};

use super::held_proof;
use super::outcome::{DIFF_FILE, RESULT_FILE};
use super::receipt::{ITEM_FILE, RECEIPT_FILE, Signer};
use super::store::{History, Runs, RunsError};

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It is over, and this is the contract's word for how.
    Over(String),
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
    pub fn as_str(&self) -> &str {
        match self {
            RunState::Over(status) => status,
            RunState::Interrupted => "interrupted",
            RunState::Held => "held",
            RunState::Running => "running",
            RunState::Unsettled => "unsettled",
        }
    }
}

/// What a person said of a held run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it might land.
    pub is_approved: bool,
    /// Who said so.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: String,
}

/// A run in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The run, which is its receipt's id.
    pub run: String,
    /// The item; none for the merge of a level.
    pub item: Option<String>,
    /// How far it has come.
    pub state: RunState,
    /// Since when.
    pub at: String,
    /// The verdict on it, where it was held.
    pub verdict: Option<Verdict>,
    /// The hash of its receipt, where it has one.
    pub receipt_hash: Option<String>,
}

/// The runs of a workspace.
#[derive(Debug)]
pub struct Inspect {
    runs: Runs,
    history: History,
}

impl Inspect {
    /// Reads what there is.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn open(workspace: &Path) -> Result<Self, RunsError> {
        let runs = Runs::reader(workspace);
        let history = runs.history()?;
        Ok(Inspect { runs, history })
    }

    /// Every run, oldest first; those that are not over come last.
    pub fn all(&self) -> Vec<Summary> {
        let over = self.history.finished.iter().map(|finished| Summary {
            run: finished.run.clone(),
            item: finished.item.clone(),
            state: match finished.interrupted {
                true => RunState::Interrupted,
                false => RunState::Over(finished.status.clone()),
            },
            at: finished.at.clone(),
            verdict: self.verdict(&finished.run),
            receipt_hash: Some(finished.receipt.clone()),
        });
        let held = self.history.held.iter().map(|(run, waiting)| Summary {
            run: run.clone(),
            item: Some(waiting.item.clone()),
            state: RunState::Held,
            at: waiting.at.clone(),
            verdict: self.verdict(run),
            receipt_hash: None,
        });
        let begun = self.history.begun.iter().map(|(run, begun)| Summary {
            run: run.clone(),
            item: Some(begun.item.clone()),
            state: match self.runs.is_alive(&begun.owner) {
                true => RunState::Running,
                false => RunState::Unsettled,
            },
            at: begun.at.clone(),
            verdict: None,
            receipt_hash: None,
        });
        over.chain(held).chain(begun).collect()
    }

    /// The run that a word means: its id, the start of it, or the newest run of an item. Without a word, the newest of all.
    ///
    /// # Errors
    /// When there is none, or the start is that of several.
    pub fn find(&self, word: Option<&str>) -> Result<Summary, RunsError> {
        let mut all = self.all();
        let Some(word) = word else {
            all.retain(|summary| summary.item.is_some());
            return all.pop().ok_or(RunsError::NoneYet);
        };
        let by_item = all.iter().rev().find(|summary| summary.item.as_deref() == Some(word));
        let mut by_start = all.iter().filter(|summary| !word.is_empty() && summary.run.starts_with(word));
        let by_start = match (by_start.next(), by_start.next()) {
            (Some(one), None) => Some(one),
            _ => None,
        };
        by_start.or(by_item).cloned().ok_or_else(|| RunsError::Unknown(word.to_owned()))
    }

    /// The RunResult with its item's id, as a pipe got it; none where there is no result.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn result(&self, run: &str) -> Result<Option<String>, RunsError> {
        self.text(run, RESULT_FILE)
    }

    /// The work item.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn item(&self, run: &str) -> Result<Option<String>, RunsError> {
        self.text(run, ITEM_FILE)
    }

    /// The receipt.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn receipt(&self, run: &str) -> Result<Option<String>, RunsError> {
        self.text(run, RECEIPT_FILE)
    }

    /// What it changed, or what of it was discarded, in unified form.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn diff(&self, run: &str) -> Result<Option<String>, RunsError> {
        self.text(run, DIFF_FILE)
    }

    /// What of a held change is not as it was when it was held, its plan and staged contents aside.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn held_fault(&self, run: &str, signer: &Signer) -> Result<Option<String>, RunsError> {
        match self.history.held.get(run) {
            Some(waiting) => held_proof::fault(&self.runs, signer, run, waiting, None),
            None => Ok(None),
        }
    }

    /// Where its files are.
    pub fn folder(&self, run: &str) -> PathBuf {
        self.runs.folder(run)
    }

    fn verdict(&self, run: &str) -> Option<Verdict> {
        let (is_approved, who, why, at) = self.history.judged.get(run)?.clone();
        Some(Verdict { is_approved, who, why, at })
    }

    fn text(&self, run: &str, name: &str) -> Result<Option<String>, RunsError> {
        Ok(self.runs.read(run, name)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}
