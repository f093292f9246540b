//! Runs, for reading: which there are, how each ended, what it changed. Only reads; everything that a command shows of a run is a value from
//! here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::Limits;
use crealeph_contracts::provenance::RunOrigin;
use crealeph_contracts::receipt::{EarlierRun, Receipt};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::ItemId;
use crealeph_contracts::short_id::{IdWord, MAX_CANDIDATES, one_id};
use crealeph_contracts::uuid::Uuid;

use super::held_proof;
use super::journal::{JournalState, RunVerdict};
use super::log::LogReader;
use super::receipt::{ITEM_FILE, RECEIPT_FILE, Signer};
use super::record::{DIFF_FILE, ORIGIN_FILE, RESULT_FILE, parse_item};
use super::result::ItemResult;
use super::store::{RunStore, RunsError};

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It has ended.
    Ended(RunStatus),
    /// It was ended by a person or a crash.
    Interrupted,
    /// Its change waits for approval.
    Held,
    /// It continues.
    Running,
    /// Its process ended; the next command settles it.
    Unsettled,
}

impl RunState {
    /// One word.
    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Ended(status) => status.as_str(),
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
    /// The agent's name, if it is known.
    pub agent: Option<String>,
    /// How far it has come.
    pub state: RunState,
    /// When it was started.
    pub started_at: Timestamp,
    /// Since when it has been in that state.
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
    runs: Arc<RunStore>,
    state: Arc<JournalState>,
}

impl RunReader {
    /// Reads what there is.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn open(workspace: &Path) -> Result<Self, RunsError> {
        RunReader::of(Arc::new(RunStore::new(workspace)))
    }

    /// What there is now of runs that are read again and again.
    pub(super) fn of(runs: Arc<RunStore>) -> Result<Self, RunsError> {
        let state = runs.state()?;
        Ok(RunReader { runs, state })
    }

    /// A run by its whole id; absent if there is none.
    pub fn get(&self, run: &Uuid) -> Option<RunSummary> {
        self.summary(run)
    }

    /// Runs that have not ended and are no merges, the newest first: running, unsettled or held.
    pub fn open_runs(&self) -> Vec<RunSummary> {
        let mut open: Vec<RunSummary> = self
            .state
            .started
            .keys()
            .chain(self.state.held.keys())
            .filter_map(|run| self.summary(run))
            .collect();
        open.sort_by_key(|run| std::cmp::Reverse(run.started_at.instant()));
        open
    }

    /// The entry that holds its change for people, if it is held.
    pub fn submitted(&self, run: &Uuid) -> Option<&str> {
        self.state.submitted.get(run).filter(|_| self.state.held.contains_key(run)).map(String::as_str)
    }

    /// Every run, the newest first, as they were started.
    pub fn all(&self) -> impl Iterator<Item = RunSummary> {
        self.state.order.iter().rev().filter_map(|run| self.summary(run))
    }

    /// How many runs there are.
    pub fn count(&self) -> usize {
        self.state.order.len()
    }

    fn summary(&self, run: &Uuid) -> Option<RunSummary> {
        let known = self.state.known(run)?;
        let in_short = |item: Option<ItemId>, state, at: &Timestamp, receipt_hash| RunSummary {
            run: *run,
            item,
            agent: known.agent.clone(),
            state,
            started_at: known.started_at.clone(),
            at: at.clone(),
            verdict: self.state.verdicts.get(run).cloned(),
            receipt_hash,
        };
        if let Some(finished) = known.finished.and_then(|place| self.state.finished.get(place)) {
            let state = match finished.is_interrupted {
                true => RunState::Interrupted,
                false => RunState::Ended(finished.status),
            };
            return Some(in_short(finished.item.clone(), state, &finished.at, Some(finished.receipt)));
        }
        if let Some(held) = self.state.held.get(run) {
            return Some(in_short(Some(held.item.clone()), RunState::Held, &held.at, None));
        }
        let started = self.state.started.get(run)?;
        let state = match self.runs.is_alive(&started.owner) {
            true => RunState::Running,
            false => RunState::Unsettled,
        };
        Some(in_short(Some(started.item.clone()), state, &started.at, None))
    }

    /// How far a run has come by now.
    ///
    /// # Errors
    /// When the journal cannot be read, or does not know the run any more.
    pub fn state_of(&mut self, run: &Uuid) -> Result<RunState, RunsError> {
        self.state = self.runs.state()?;
        let summary = self.summary(run).ok_or_else(|| RunsError::Unknown(run.to_string()))?;
        Ok(summary.state)
    }

    /// The run that a word means: its id, the start of it, the newest run of an item, `@` for the newest of all and `@-` for the
    /// one before. Without a word, the newest of all.
    ///
    /// # Errors
    /// When there is no such run, or the start is that of several.
    pub fn find(&self, word: Option<&str>) -> Result<RunSummary, RunsError> {
        let word = word.unwrap_or("@");
        match IdWord::read(word) {
            IdWord::Recent(newer) => {
                let mut own = self.all().filter(|summary| summary.item.is_some());
                let newest = own.next().ok_or(RunsError::NoneYet)?;
                if newer == 0 { Ok(newest) } else { own.nth(newer - 1).ok_or(RunsError::OnlyOne) }
            }
            IdWord::Start(start) => {
                let run = self.run_of(start)?;
                run.and_then(|run| self.summary(&run)).ok_or_else(|| RunsError::Unknown(word.to_owned()))
            }
        }
    }

    /// The run of an id, the start of one, or an item. An item that is named like the start of another run's id is ambiguous.
    fn run_of(&self, word: &str) -> Result<Option<Uuid>, RunsError> {
        let of_item = ItemId::parse(word).ok().and_then(|item| self.state.by_item.get(&item).copied());
        if word.is_empty() || Uuid::parse(word).is_some_and(|run| self.state.knows(&run)) {
            return Ok(Uuid::parse(word));
        }
        let mut runs = self.state.starting(word, MAX_CANDIDATES);
        runs.extend(of_item.filter(|run| !runs.contains(run)));
        let candidates = runs.iter().map(ToString::to_string).collect();
        Ok(one_id(word, candidates)?.and_then(|run| Uuid::parse(&run)))
    }

    /// The ids of runs that start with a text, at most this many.
    pub fn starting(&self, start: &str, limit: usize) -> Vec<Uuid> {
        self.state.starting(start, limit)
    }

    /// The short form of a run's id.
    pub fn short(&self, run: &Uuid) -> String {
        self.state.short(run)
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

    /// The work item; absent for the merge of a level, or if it was damaged.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn item(&self, run: &Uuid) -> Result<Option<WorkItem>, RunsError> {
        Ok(self.runs.read(run, ITEM_FILE)?.and_then(|bytes| parse_item(&bytes)))
    }

    /// The run that it retries or undoes, as the journal says; absent if there is none, or in journals of earlier versions.
    pub fn earlier(&self, run: &Uuid) -> Option<EarlierRun> {
        self.state.known(run)?.earlier.as_ref().map(EarlierRun::from)
    }

    /// Which agent was started by whom, as long as no statement says it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn origin(&self, run: &Uuid) -> Result<Option<RunOrigin>, RunsError> {
        self.runs.document_if_there(run, ORIGIN_FILE, |bytes| RunOrigin::parse(bytes).ok())
    }

    /// What it changed, or what of it was discarded, in unified form.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn diff(&self, run: &Uuid) -> Result<Option<String>, RunsError> {
        self.text(run, DIFF_FILE)
    }

    /// What it printed, as it is kept.
    pub fn log(&self, run: &Uuid) -> LogReader {
        LogReader::new(self.runs.folder(run))
    }

    /// What it printed, by file, in the order of the output.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn log_files(&self, run: &Uuid) -> Result<Vec<(String, Vec<u8>)>, RunsError> {
        let files = self.runs.outputs(run)?;
        Ok(files.into_iter().map(|file| (file.name, file.bytes)).collect())
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

    /// A file of a run; absent if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than any that is written.
    pub fn file(&self, run: &Uuid, name: &str) -> Result<Option<Vec<u8>>, RunsError> {
        self.runs.read(run, name)
    }

    /// The names of everything in a run's folder, sorted.
    ///
    /// # Errors
    /// When it cannot be read, or has more names than a run leaves.
    pub fn names(&self, run: &Uuid) -> Result<Vec<String>, RunsError> {
        self.runs.names(run)
    }

    /// Where its files are.
    pub fn folder(&self, run: &Uuid) -> PathBuf {
        self.runs.folder(run)
    }

    fn text(&self, run: &Uuid, name: &str) -> Result<Option<String>, RunsError> {
        Ok(self.runs.read(run, name)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}
