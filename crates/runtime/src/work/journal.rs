//! The journal of a workspace's runs: one event a line, appended and synced; its order is the order of the receipts' chain. Owns the
//! lines' form and the state that they add up to. Each line is parsed once by a process: the state is kept, and what other processes
//! appended since is added to it. A line that its process did not finish does not count; a line whose names could lead out of the
//! folder of the runs, or be options for git, is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Bound;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::provenance::{LocalUser, StatedVerdict, VerdictWord};
use crealeph_contracts::receipt::{EarlierRun, RunRelation};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{ItemId, RobotId};
use crealeph_contracts::short_id::short_id;
use crealeph_contracts::uuid::Uuid;
use crealeph_workspace::HeldId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::store::{RunsError, failed, own_file};

/// The most that a journal may hold.
const MAX_JOURNAL_BYTES: u64 = 1 << 30;

/// Something that happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// A batch was begun.
    Began {
        #[serde(with = "text")]
        batch: Blake3,
        #[serde(with = "text")]
        at: Timestamp,
    },
    /// All of a batch that could be run was run.
    Ended {
        #[serde(with = "text")]
        batch: Blake3,
        #[serde(with = "text")]
        at: Timestamp,
    },
    /// A run was started.
    Started {
        #[serde(with = "text")]
        run: Uuid,
        #[serde(flatten)]
        started: StartedRun,
    },
    /// A run's files are written; what is left is this publish.
    Prepared {
        #[serde(with = "text")]
        run: Uuid,
        #[serde(with = "text")]
        publish: PublishTarget,
        finished: Box<FinishedRun>,
    },
    /// The change of a run is held.
    Held {
        #[serde(with = "text")]
        run: Uuid,
        #[serde(flatten)]
        held: HeldChange,
    },
    /// A held change was about to land and could not; it is held as before.
    StillHeld {
        #[serde(with = "text")]
        run: Uuid,
        #[serde(with = "text")]
        at: Timestamp,
    },
    /// A person decided about a held change.
    Judged {
        #[serde(with = "text")]
        run: Uuid,
        #[serde(flatten)]
        verdict: RunVerdict,
    },
    /// The record of a held change is in the ledger, for people to decide about.
    Submitted {
        #[serde(with = "text")]
        run: Uuid,
        entry: String,
    },
    /// The landing of a held change that people approved is about to be written to the ledger.
    Landing {
        #[serde(with = "text")]
        run: Uuid,
        number: u64,
    },
    /// The ledger has the outcome of that landing.
    LandingSettled {
        #[serde(with = "text")]
        run: Uuid,
        number: u64,
    },
    /// A run has ended.
    Finished(Box<FinishedRun>),
    /// Its receipt is in the ledger.
    Recorded {
        #[serde(with = "text")]
        run: Uuid,
        entry: String,
    },
}

/// Where a change is about to land, which also shows whether it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PublishTarget {
    /// In the workspace, by this publish.
    Tree(HeldId),
    /// On a branch, as this commit.
    Branch { name: String, commit: String },
}

impl fmt::Display for PublishTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishTarget::Tree(publish) => f.write_str(publish.as_str()),
            PublishTarget::Branch { name, commit } => write!(f, "branch:{name}:{commit}"),
        }
    }
}

/// A run that was started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StartedRun {
    #[serde(with = "text")]
    pub(super) item: ItemId,
    #[serde(with = "text")]
    pub(super) batch: Blake3,
    /// The process that runs it: the name of the file that it keeps locked.
    #[serde(with = "text")]
    pub(super) owner: Uuid,
    #[serde(with = "text")]
    pub(super) at: Timestamp,
    #[serde(with = "text")]
    pub(super) before: Blake3,
    /// The agent's name in the configuration; absent in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    /// The robot that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_text")]
    pub(super) robot: Option<RobotId>,
    /// The run that it is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) earlier: Option<EarlierLink>,
}

/// The run that another one is based on, as the journal names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EarlierLink {
    #[serde(with = "text")]
    relation: RunRelation,
    #[serde(with = "text")]
    run: Uuid,
    #[serde(with = "text")]
    receipt: Blake3,
}

impl From<&EarlierRun> for EarlierLink {
    fn from(earlier: &EarlierRun) -> Self {
        let EarlierRun { relation, run, receipt_hash } = earlier;
        EarlierLink { relation: *relation, run: *run, receipt: *receipt_hash }
    }
}

impl From<&EarlierLink> for EarlierRun {
    fn from(link: &EarlierLink) -> Self {
        let EarlierLink { relation, run, receipt } = link;
        EarlierRun { relation: *relation, run: *run, receipt_hash: *receipt }
    }
}

/// A change that awaits approval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeldChange {
    #[serde(with = "text")]
    pub(super) item: ItemId,
    #[serde(with = "text")]
    pub(super) batch: Blake3,
    #[serde(with = "text")]
    pub(super) publish: HeldId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) branch: Option<HeldBranch>,
    #[serde(with = "text")]
    pub(super) at: Timestamp,
}

/// The branch that a held change is to go to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeldBranch {
    #[serde(deserialize_with = "branch_name")]
    pub(super) name: String,
    /// The commit that it was at when the change was held.
    #[serde(deserialize_with = "commit_hash")]
    pub(super) tip: String,
    /// The git folder of its repository; absent in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) repository: Option<PathBuf>,
}

/// What a person decided about a held change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunVerdict {
    /// Whether it may land.
    #[serde(rename = "approved")]
    pub is_approved: bool,
    /// Who decided.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    #[serde(with = "text")]
    pub at: Timestamp,
}

impl RunVerdict {
    /// A verdict of now.
    pub fn new(is_approved: bool, who: String, why: String) -> Self {
        RunVerdict { is_approved, who, why, at: super::now() }
    }

    /// The same as a statement has it, entered from this account.
    pub(super) fn stated(&self, account: &LocalUser) -> StatedVerdict {
        StatedVerdict {
            decision: if self.is_approved { VerdictWord::Approved } else { VerdictWord::Rejected },
            by: self.who.as_str().into(),
            reason: self.why.as_str().into(),
            at: self.at.clone(),
            account: Some(account.clone()),
            key: None,
            entry: None,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FinishedRun {
    #[serde(with = "text")]
    pub(super) run: Uuid,
    /// Absent for the merge of a level.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_text")]
    pub(super) item: Option<ItemId>,
    #[serde(with = "text")]
    pub(super) batch: Blake3,
    #[serde(with = "text")]
    pub(super) status: RunStatus,
    /// Ended by a person or a crash; it may be run again in the same batch.
    #[serde(default, rename = "interrupted")]
    pub(super) is_interrupted: bool,
    #[serde(with = "text")]
    pub(super) receipt: Blake3,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_text")]
    pub(super) run_hash: Option<Blake3>,
    #[serde(with = "text")]
    pub(super) before: Blake3,
    #[serde(with = "text")]
    pub(super) after: Blake3,
    #[serde(with = "text")]
    pub(super) at: Timestamp,
    /// The branch that the change was committed to.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_branch_name")]
    pub(super) branch: Option<String>,
    /// Whether its change can be judged again; absent if it landed, or ended in another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) capsule: Option<CapsuleState>,
}

/// What was kept of a change that did not land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CapsuleState {
    /// All of it, in one file.
    Kept,
    /// Nothing, and why.
    LeftOut(String),
}

/// A value that is in a line as text.
trait JournalText: Sized {
    fn from_text(text: &str) -> Option<Self>;
    fn to_text(&self) -> String;
}

macro_rules! journal_text {
    ($($type:ty => $parse:expr;)*) => {
        $(impl JournalText for $type {
            fn from_text(text: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(text)
            }

            fn to_text(&self) -> String {
                self.to_string()
            }
        })*
    };
}

journal_text! {
    Uuid => Uuid::parse;
    Blake3 => Blake3::parse;
    RunStatus => RunStatus::parse;
    RunRelation => RunRelation::parse;
    RobotId => |text| RobotId::parse(text).ok();
    ItemId => |text| ItemId::parse(text).ok();
    PublishTarget => |text| match text.strip_prefix("branch:") {
        Some(rest) => {
            let (name, commit) = rest.rsplit_once(':').filter(|(name, commit)| is_branch(name) && is_hex(commit))?;
            Some(PublishTarget::Branch { name: name.to_owned(), commit: commit.to_owned() })
        }
        None => HeldId::from_text(text).map(PublishTarget::Tree),
    };
}

impl JournalText for Timestamp {
    fn from_text(text: &str) -> Option<Self> {
        Timestamp::parse(text).ok()
    }

    fn to_text(&self) -> String {
        self.as_str().to_owned()
    }
}

impl JournalText for HeldId {
    fn from_text(text: &str) -> Option<Self> {
        let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| HeldId::new(text))
    }

    fn to_text(&self) -> String {
        self.as_str().to_owned()
    }
}

fn is_branch(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.contains(':')
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn branch_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    if is_branch(&name) { Ok(name) } else { Err(D::Error::custom("not the name of a branch")) }
}

fn optional_branch_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    branch_name(from).map(Some)
}

fn commit_hash<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let hash = String::deserialize(from)?;
    if is_hex(&hash) { Ok(hash) } else { Err(D::Error::custom("not the hash of a commit")) }
}

/// A field that is a text, for serde.
mod text {
    use std::borrow::Cow;

    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::Serializer;

    use super::JournalText;

    pub(super) fn serialize<T: JournalText, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&value.to_text())
    }

    pub(super) fn deserialize<'de, T: JournalText, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        T::from_text(&text).ok_or_else(|| D::Error::custom("not what the field says"))
    }
}

/// The same for a field that may be absent.
mod optional_text {
    use serde::de::Deserializer;
    use serde::ser::Serializer;

    use super::JournalText;

    pub(super) fn serialize<T: JournalText, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::text::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, T: JournalText, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        super::text::deserialize(from).map(Some)
    }
}

/// A run whose publish was about to happen.
#[derive(Clone, Debug)]
pub(super) struct PreparedRun {
    pub(super) publish: PublishTarget,
    pub(super) finished: FinishedRun,
}

/// What stays known of a run, whatever happened later.
#[derive(Clone, Debug)]
pub(super) struct KnownRun {
    /// The agent's name; absent for the merge of a level, and in journals of earlier versions.
    pub(super) agent: Option<String>,
    pub(super) started_at: Timestamp,
    /// The run that it is based on; absent in journals of earlier versions.
    pub(super) earlier: Option<EarlierLink>,
    /// Its place among finished runs.
    pub(super) finished: Option<usize>,
}

/// What the journal adds up to.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalState {
    /// Finished runs, in the order of their receipts.
    pub(super) finished: Vec<FinishedRun>,
    /// Runs that were started and are neither finished nor held.
    pub(super) started: BTreeMap<Uuid, StartedRun>,
    /// Runs whose publish was about to happen.
    pub(super) prepared: BTreeMap<Uuid, PreparedRun>,
    /// Runs whose change is held.
    pub(super) held: BTreeMap<Uuid, HeldChange>,
    /// How many runs had finished when a change was held.
    held_after: BTreeMap<Uuid, usize>,
    /// What people decided.
    pub(super) verdicts: BTreeMap<Uuid, RunVerdict>,
    /// The entries that hold changes for people.
    pub(super) submitted: BTreeMap<Uuid, String>,
    /// Landings whose outcome the ledger may not have.
    pub(super) landings: BTreeMap<Uuid, u64>,
    /// Batches that were begun and not ended, and how many runs had finished then.
    pub(super) open_batches: BTreeMap<Blake3, usize>,
    /// Every run, in the order in which they were started.
    pub(super) order: Vec<Uuid>,
    /// The newest run of each item.
    pub(super) by_item: BTreeMap<ItemId, Uuid>,
    recorded: BTreeSet<Uuid>,
    known: BTreeMap<Uuid, KnownRun>,
    by_run_hash: BTreeMap<Blake3, Uuid>,
    /// The place of the newest success of an item among finished runs.
    succeeded: BTreeMap<ItemId, usize>,
}

impl JournalState {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Began { batch, .. } => drop(self.open_batches.insert(batch, self.finished.len())),
            Event::Ended { batch, .. } => drop(self.open_batches.remove(&batch)),
            Event::Started { run, started } => {
                self.by_item.insert(started.item.clone(), run);
                let (agent, earlier) = (started.agent.clone(), started.earlier.clone());
                self.know(run, KnownRun { agent, started_at: started.at.clone(), earlier, finished: None });
                self.started.insert(run, started);
            }
            Event::Prepared { run, publish, finished } => {
                self.prepared.insert(run, PreparedRun { publish, finished: *finished });
            }
            Event::Held { run, held } => {
                self.started.remove(&run);
                self.held.insert(run, held);
                self.held_after.insert(run, self.finished.len());
            }
            Event::StillHeld { run, .. } => drop(self.prepared.remove(&run)),
            Event::Judged { run, verdict } => drop(self.verdicts.insert(run, verdict)),
            Event::Submitted { run, entry } => drop(self.submitted.insert(run, entry)),
            Event::Landing { run, number } => drop(self.landings.insert(run, number)),
            Event::LandingSettled { run, .. } => drop(self.landings.remove(&run)),
            Event::Finished(finished) => self.finish(*finished),
            Event::Recorded { run, .. } => drop(self.recorded.insert(run)),
        }
    }

    fn know(&mut self, run: Uuid, known: KnownRun) {
        if self.known.insert(run, known).is_none() {
            self.order.push(run);
        }
    }

    fn finish(&mut self, finished: FinishedRun) {
        let run = finished.run;
        let place = Some(self.finished.len());
        match self.known.get_mut(&run) {
            Some(known) => known.finished = place,
            None => {
                let started_at = finished.at.clone();
                self.know(run, KnownRun { agent: None, started_at, earlier: None, finished: place });
            }
        }
        self.started.remove(&run);
        self.prepared.remove(&run);
        self.held.remove(&run);
        self.held_after.remove(&run);
        if finished.status == RunStatus::Success {
            self.succeeded.extend(finished.item.clone().zip(place));
            if let Some(hash) = finished.run_hash {
                self.by_run_hash.entry(hash).or_insert(run);
            }
        }
        self.finished.push(finished);
    }

    /// Whether a run was ever started.
    pub(super) fn knows(&self, run: &Uuid) -> bool {
        self.known.contains_key(run)
    }

    /// What stays known of a run.
    pub(super) fn known(&self, run: &Uuid) -> Option<&KnownRun> {
        self.known.get(run)
    }

    /// The runs whose ids start with a text, in their order, at most this many.
    pub(super) fn starting(&self, start: &str, limit: usize) -> Vec<Uuid> {
        let Some(first) = Uuid::least_with_start(start) else { return Vec::new() };
        let later = self.known.range(first..).map(|(run, _)| *run);
        later.take_while(|run| run.to_string().starts_with(start)).take(limit).collect()
    }

    /// The short form of a run's id.
    pub(super) fn short(&self, run: &Uuid) -> String {
        let before = self.known.range(..*run).next_back();
        let after = self.known.range((Bound::Excluded(*run), Bound::Unbounded)).next();
        let [before, after] = [before, after].map(|beside| beside.map(|(run, _)| run.to_string()));
        short_id(&run.to_string(), before.as_deref(), after.as_deref()).to_owned()
    }

    /// Whether the receipt of a run is in the ledger.
    pub(super) fn is_recorded(&self, run: &Uuid) -> bool {
        self.recorded.contains(run)
    }

    /// The newest receipt's hash.
    pub(super) fn head(&self) -> Option<Blake3> {
        self.finished.last().map(|finished| finished.receipt)
    }

    /// The successful run with this run hash (R29).
    pub(super) fn with_run_hash(&self, hash: &Blake3) -> Option<Uuid> {
        self.by_run_hash.get(hash).copied()
    }

    /// Whether an item of this id has succeeded (R30).
    pub(super) fn has_succeeded(&self, item: &ItemId) -> bool {
        self.succeeded.contains_key(item)
    }

    /// The last run of an item in an open batch that was not interrupted.
    pub(super) fn last_in(&self, batch: &Blake3, item: &ItemId) -> Option<&FinishedRun> {
        let is_same = |finished: &&FinishedRun| {
            finished.batch == *batch && finished.item.as_ref() == Some(item) && !finished.is_interrupted
        };
        // A batch that ended and was begun again starts from nothing.
        let since = *self.open_batches.get(batch)?;
        self.finished.iter().skip(since).rev().find(is_same)
    }

    /// The runs that ended after a run, or after its change was held; newest first.
    pub(super) fn since(&self, run: &Uuid) -> impl Iterator<Item = &FinishedRun> {
        let held = self.held_after.get(run).copied();
        let over = || self.known(run)?.finished.map(|place| place + 1);
        let start = held.or_else(over).unwrap_or(self.finished.len());
        self.finished.iter().skip(start).rev()
    }

    /// A finished run.
    pub(super) fn ended(&self, run: &Uuid) -> Option<&FinishedRun> {
        self.finished.get(self.known(run)?.finished?)
    }

    /// The newest run of an item that succeeded.
    pub(super) fn last_success(&self, item: &ItemId) -> Option<&FinishedRun> {
        self.finished.get(*self.succeeded.get(item)?)
    }
}

/// A journal on disk, and what it adds up to as far as it was read.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    folded: Mutex<Folded>,
}

#[derive(Debug, Default)]
struct Folded {
    state: Arc<JournalState>,
    lines: usize,
    /// The end of the last whole line.
    bytes: u64,
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        Journal { path, folded: Mutex::default() }
    }

    /// What the journal adds up to now.
    pub(super) fn state(&self) -> Result<Arc<JournalState>, RunsError> {
        Ok(Arc::clone(&self.caught_up()?.state))
    }

    /// Adds an event; durable when this returns. Only while no one else writes to the journal.
    pub(super) fn append(&self, event: Event) -> Result<(), RunsError> {
        let mut folded = self.caught_up()?;
        let mut line =
            serde_json::to_vec(&event).map_err(|error| failed("write", &self.path)(error.into()))?;
        line.push(b'\n');
        let bytes = folded.bytes + line.len() as u64;
        self.check_size(bytes)?;
        let opened = own_file().create(true).write(true).mode(0o600).open(&self.path);
        let mut file = opened.map_err(failed("open", &self.path))?;
        let mut write = || {
            // What a crash left after the last whole line is no event; this line takes its place.
            if file.metadata()?.len() > folded.bytes {
                file.set_len(folded.bytes)?;
            }
            file.seek(SeekFrom::Start(folded.bytes))?;
            file.write_all(&line)?;
            file.sync_data()
        };
        write().map_err(failed("write", &self.path))?;
        folded.bytes = bytes;
        folded.lines += 1;
        Arc::make_mut(&mut folded.state).apply(event);
        Ok(())
    }

    /// The state with every whole line that is there now.
    fn caught_up(&self) -> Result<MutexGuard<'_, Folded>, RunsError> {
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = match own_file().read(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *folded = Folded::default();
                return Ok(folded);
            }
            Err(error) => return Err(failed("read", &self.path)(error)),
        };
        for line in self.new_lines(&mut file, &mut folded)?.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            let damaged = |_| RunsError::Damaged { path: self.path.clone(), line: folded.lines + 1 };
            let event = serde_json::from_slice(line).map_err(damaged)?;
            Arc::make_mut(&mut folded.state).apply(event);
            folded.lines += 1;
            folded.bytes += line.len() as u64;
        }
        Ok(folded)
    }

    /// What is after the last line that was read; everything if the journal is another, shorter one now.
    fn new_lines(&self, file: &mut File, folded: &mut Folded) -> Result<Vec<u8>, RunsError> {
        let failed = failed("read", &self.path);
        let length = file.metadata().map_err(&failed)?.len();
        self.check_size(length)?;
        if length < folded.bytes {
            *folded = Folded::default();
        }
        let mut bytes = Vec::new();
        if length > folded.bytes {
            file.seek(SeekFrom::Start(folded.bytes)).map_err(&failed)?;
            file.take(length - folded.bytes).read_to_end(&mut bytes).map_err(&failed)?;
        }
        Ok(bytes)
    }

    fn check_size(&self, bytes: u64) -> Result<(), RunsError> {
        match bytes <= MAX_JOURNAL_BYTES {
            true => Ok(()),
            false => Err(RunsError::TooLarge { path: self.path.clone(), limit_bytes: MAX_JOURNAL_BYTES }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "01a1e1a7-d5ea-7929-8f1d-8ea291f8a8d6";
    const AT: &str = "2026-01-01T00:00:00.000Z";

    fn began(batch: &str) -> Event {
        Event::Began { batch: Blake3::of(batch.as_bytes()), at: Timestamp::parse(AT).unwrap() }
    }

    fn is_open(journal: &Journal, batches: &[&str]) -> bool {
        let expected: BTreeSet<Blake3> = batches.iter().map(|batch| Blake3::of(batch.as_bytes())).collect();
        journal.state().unwrap().open_batches.keys().copied().collect::<BTreeSet<_>>() == expected
    }

    #[test]
    fn a_torn_line_is_no_event_and_the_next_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::new(path.clone());
        journal.append(began("one")).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"event\":\"began\",\"batch\":\"much longer than the next").unwrap();
        assert!(is_open(&journal, &["one"]));
        journal.append(began("two")).unwrap();
        assert!(is_open(&journal, &["one", "two"]));
        assert!(is_open(&Journal::new(path), &["one", "two"]));
    }

    #[test]
    fn what_another_process_appended_is_added_and_a_shorter_journal_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let (one, other) = (Journal::new(path.clone()), Journal::new(path.clone()));
        one.append(began("one")).unwrap();
        let before = one.state().unwrap();
        other.append(began("two")).unwrap();
        one.append(began("three")).unwrap();
        assert!(is_open(&one, &["one", "three", "two"]));
        assert!(is_open(&other, &["one", "two", "three"]));
        assert_eq!(before.open_batches.len(), 1, "a state that was taken stays as it was");
        let line = serde_json::to_string(&began("x")).unwrap();
        std::fs::write(&path, line + "\n").unwrap();
        assert!(is_open(&one, &["x"]));
        std::fs::remove_file(&path).unwrap();
        assert!(is_open(&one, &[]));
    }

    #[test]
    fn a_damaged_line_is_named_and_a_journal_past_its_bound_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::new(path.clone());
        journal.append(began("one")).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"event\":\"unheard of\"}\n").unwrap();
        for _ in 0..2 {
            assert!(matches!(journal.state(), Err(RunsError::Damaged { line: 2, .. })));
        }
        file.set_len(MAX_JOURNAL_BYTES + 1).unwrap();
        assert!(matches!(journal.state(), Err(RunsError::TooLarge { .. })));
        assert!(matches!(journal.append(began("two")), Err(RunsError::TooLarge { .. })));
    }

    #[test]
    fn lines_are_written_as_they_always_were() {
        let hash = "0".repeat(64);
        let finished = format!(
            r#""run":"{RUN}","item":"i","batch":"{hash}","status":"success","interrupted":false,"receipt":"{hash}","run_hash":"{hash}","before":"{hash}","after":"{hash}","at":"{AT}""#
        );
        let lines = [
            format!(r#"{{"event":"began","batch":"{hash}","at":"{AT}"}}"#),
            format!(r#"{{"event":"ended","batch":"{hash}","at":"{AT}"}}"#),
            format!(
                r#"{{"event":"started","run":"{RUN}","item":"i","batch":"{hash}","owner":"{RUN}","at":"{AT}","before":"{hash}"}}"#
            ),
            format!(r#"{{"event":"prepared","run":"{RUN}","publish":"12","finished":{{{finished}}}}}"#),
            format!(
                r#"{{"event":"prepared","run":"{RUN}","publish":"branch:a/b:0af3","finished":{{{finished}}}}}"#
            ),
            format!(
                r#"{{"event":"held","run":"{RUN}","item":"i","batch":"{hash}","publish":"12","branch":{{"name":"a/b","tip":"0af3","repository":"/r/.git"}},"at":"{AT}"}}"#
            ),
            format!(
                r#"{{"event":"held","run":"{RUN}","item":"i","batch":"{hash}","publish":"12","branch":{{"name":"a/b","tip":"0af3"}},"at":"{AT}"}}"#
            ),
            format!(
                r#"{{"event":"held","run":"{RUN}","item":"i","batch":"{hash}","publish":"12","at":"{AT}"}}"#
            ),
            format!(
                r#"{{"event":"judged","run":"{RUN}","approved":true,"who":"ana","why":"good","at":"{AT}"}}"#
            ),
            format!(r#"{{"event":"finished",{finished}}}"#),
            format!(r#"{{"event":"recorded","run":"{RUN}","entry":"e-1"}}"#),
        ];
        for line in lines {
            let event: Event = serde_json::from_str(&line).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
        }
        let merge = finished.replace(r#""item":"i","#, "").replace(&format!(r#""run_hash":"{hash}","#), "");
        let event: Event = serde_json::from_str(&format!(r#"{{"event":"finished",{merge}}}"#)).unwrap();
        assert!(matches!(event, Event::Finished(run) if run.item.is_none() && run.run_hash.is_none()));
    }

    #[test]
    fn a_journal_that_names_other_folders_is_refused() {
        let is_sound = |line: &str| serde_json::from_str::<Event>(line).is_ok();
        let hash = "0".repeat(64);
        let started = |run: &str, owner: &str| {
            format!(
                r#"{{"event":"started","run":"{run}","item":"i","batch":"{hash}","owner":"{owner}","at":"{AT}","before":"{hash}"}}"#
            )
        };
        let held = |publish: &str, name: &str, tip: &str| {
            format!(
                r#"{{"event":"held","run":"{RUN}","item":"i","batch":"{hash}","publish":"{publish}","branch":{{"name":"{name}","tip":"{tip}"}},"at":"{AT}"}}"#
            )
        };
        for sound in [started(RUN, RUN), held("12", "agents/x", "0af3"), held("1", "a", "0a")] {
            assert!(is_sound(&sound), "{sound}");
        }
        let unsound = [
            started("../../outside", RUN),
            started("", RUN),
            started(RUN, "../x"),
            started(RUN, ".."),
            held("../1", "a", "0a"),
            held("", "a", "0a"),
            held("branch:a/b:0af3", "a", "0a"),
            held("1", "-x", "0a"),
            held("1", "a:b", "0a"),
            held("1", "a", "main"),
        ];
        for line in unsound {
            assert!(!is_sound(&line), "{line}");
        }
        for publish in ["branch:--exec=x:0a", "branch:a:HEAD", "branch:a", "branch:", "../1", ""] {
            assert_eq!(PublishTarget::from_text(publish), None, "{publish}");
        }
    }
}
