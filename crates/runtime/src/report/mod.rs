//! What happened, for a person who was not there: what was requested, what was decided and on which evidence, what changed, who approved
//! it, and what of that is proved. One value, built once from a workspace and its ledger or from an export; `cli` renders it.
//!
//! Owns the bounds of a report: how many runs and executions are listed, how many are shown in full, how much of a text is kept. What
//! is left out is counted in the report itself. Nothing here writes.

mod approvals;
mod compare;
mod execution_list;
mod executions;
mod id_text;
mod proof;
mod runs;

use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{ExecutionId, IdentifierError, RobotId, TenantId};
use crealeph_ledger::{Clock, Ledger, LedgerError};
use crealeph_verify::VerifierKey;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::approvals::ApprovalError;
use crate::builder::{BuildError, Scopes};
use crate::work::receipt::Signer;
use crate::work::{RunReader, RunsError};

pub(crate) use runs::log::{log_row, receipt_proof};
pub(crate) use runs::statement::stated_story;

pub use approvals::{ApprovalStory, VerdictStory};
pub use compare::{ComparedFile, ComparedRun, FileStanding, RunComparison, RunOutcome, compare_runs};
pub use execution_list::{ExecutionListQuery, ExecutionPage, execution_page};
pub use executions::{
    ArtifactStory, AttemptStory, CalledAgentStory, EventStory, EvidenceStory, ExecutionRow, ExecutionSection,
    ExecutionStory, ReplayProof, RuleStory, execution_story,
};
pub use proof::{CheckpointProof, LogProof, ProofStatus, ReceiptProof, run_fault};
pub use runs::{
    AccountStory, AdmissionStory, AgentStory, BoundStory, ChangeStory, CommitStory, ConnectionStory,
    EarlierRunStory, FigureStory, FileStory, OpenRuns, RunRow, RunSection, RunStory, RunVerdictStory,
    TestStory, open_run_rows, workspace_row, workspace_run,
};

/// How many runs, and how many executions, a report lists.
pub const MAX_ROWS: usize = 1_000;
/// How many of them can be shown in full.
pub const MAX_DETAILS: usize = 100;

/// What a report is about.
#[derive(Clone, Debug)]
pub enum ReportSubject {
    /// Runs and executions alike.
    Everything,
    /// The run that a word means, as of [`RunReader::find`].
    Run(String),
    /// One execution, of this robot if one is named.
    Execution(ExecutionId, Option<RobotId>),
}

/// A request for a report.
#[derive(Clone, Debug)]
pub struct ReportQuestion {
    /// What it is about.
    pub subject: ReportSubject,
    /// Only what was started at or after this.
    pub since: Option<Instant>,
    /// Only what was done for this robot.
    pub robot: Option<RobotId>,
    /// How many of the newest are shown in full, at most [`MAX_DETAILS`].
    pub details: usize,
}

/// Where the answer comes from.
#[derive(Clone, Copy, Debug)]
pub struct ReportSource<'s> {
    /// What is read.
    pub origin: ReportOrigin,
    /// The log and the tenant; absent if there is none.
    pub log: Option<(&'s Ledger, &'s TenantId)>,
    /// The runs of a workspace; absent if the log was read from an export, which holds their receipts alone.
    pub runs: Option<&'s RunReader>,
    /// The workspace's signer, which knows what was held; absent for anyone who cannot read its keys.
    pub signer: Option<&'s Signer>,
    /// What each robot goes by.
    pub scopes: &'s Scopes,
    /// The keys to check with; none if no key is known.
    pub keys: &'s [VerifierKey],
    /// Whose keys those are.
    pub key_source: KeySource,
}

/// Whose keys the signatures of a report were checked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KeySource {
    /// Keys that the reader kept, which prove who signed.
    Kept,
    /// The keys next to the data itself, which prove that no one without them changed it.
    Own,
    /// The ledger's own key, and those of signers that its tenant has enrolled.
    Ledger,
    /// None: nothing is proved about who signed.
    Absent,
}

/// Where a report was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ReportOrigin {
    /// A workspace and its ledger.
    Workspace,
    /// An export of a ledger.
    Export,
    /// A ledger alone, as a server has it.
    Ledger,
}

/// What happened.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivityReport {
    /// When the report was made.
    pub made_at: String,
    /// From what.
    pub origin: ReportOrigin,
    /// With whose keys it was checked.
    pub key_source: KeySource,
    /// The log; absent if there is none.
    pub log: Option<LogProof>,
    /// Work runs, newest first.
    pub runs: RunSection,
    /// Executions of the Builder, newest first.
    pub executions: ExecutionSection,
    /// What this report cannot know, in sentences.
    pub unknown: Vec<Cow<'static, str>>,
}

/// Why a report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The runs cannot be read, or there is no such run.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// An execution cannot be read.
    #[error(transparent)]
    Execution(#[from] BuildError),
    /// The approvals cannot be read.
    #[error(transparent)]
    Approvals(#[from] ApprovalError),
    /// There is no such execution.
    #[error("there is no execution `{0}`; see `crealeph execution list`")]
    NoExecution(ExecutionId),
    /// A name is not valid.
    #[error("internal error: the question has an invalid name: {0}; please report it")]
    Name(#[from] IdentifierError),
}

/// The start or the end of a text, within a bound.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TextPart {
    /// What is kept.
    pub text: String,
    /// How many bytes are not.
    pub left_out_bytes: u64,
}

impl TextPart {
    /// Whole lines from the start of a text, within a bound.
    pub(crate) fn start(text: &str, most_bytes: usize) -> Self {
        if text.len() <= most_bytes {
            return TextPart { text: text.to_owned(), left_out_bytes: 0 };
        }
        let cut = text.get(..text.floor_char_boundary(most_bytes)).unwrap_or(text);
        let kept = cut.rfind('\n').and_then(|end| cut.get(..=end)).unwrap_or(cut);
        TextPart { text: kept.to_owned(), left_out_bytes: (text.len() - kept.len()) as u64 }
    }

    /// Whole lines from the end of a text, within a bound.
    pub(crate) fn end(text: &str, most_bytes: usize) -> Self {
        if text.len() <= most_bytes {
            return TextPart { text: text.to_owned(), left_out_bytes: 0 };
        }
        let cut = text.get(text.ceil_char_boundary(text.len() - most_bytes)..).unwrap_or(text);
        let kept = cut.find('\n').and_then(|end| cut.get(end + 1..)).filter(|kept| !kept.is_empty());
        let kept = kept.unwrap_or(cut);
        TextPart { text: kept.to_owned(), left_out_bytes: (text.len() - kept.len()) as u64 }
    }
}

/// Makes the report.
///
/// # Errors
/// When something cannot be read, or the requested run or execution does not exist.
pub fn activity(question: &ReportQuestion, source: &ReportSource<'_>) -> Result<ActivityReport, ReportError> {
    let log = proof::log(source)?;
    let covered = log.as_ref().map_or(0, LogProof::covered_entries);
    let is_wanted = |subject: &ReportSubject| match subject {
        ReportSubject::Everything => (true, true),
        ReportSubject::Run(_) => (true, false),
        ReportSubject::Execution(..) => (false, true),
    };
    let (has_runs, has_executions) = is_wanted(&question.subject);
    let runs = if has_runs { runs::section(question, source, covered)? } else { RunSection::default() };
    let executions = match has_executions {
        true => executions::section(question, source)?,
        false => ExecutionSection::default(),
    };
    Ok(ActivityReport {
        made_at: Clock::system().now().timestamp().as_str().to_owned(),
        origin: source.origin,
        key_source: source.key_source,
        log,
        unknown: unknown(source, &runs, question).into_iter().map(Cow::Borrowed).collect(),
        runs,
        executions,
    })
}

/// What the source of a report cannot know.
fn unknown(source: &ReportSource<'_>, runs: &RunSection, question: &ReportQuestion) -> Vec<&'static str> {
    let mut unknown = Vec::new();
    match source.origin {
        ReportOrigin::Export if !runs.rows.is_empty() => {
            unknown.push(
                "An export holds the receipts of runs, not their diffs or what else the agent printed.",
            );
            unknown.push("Runs that are running or await approval are not in a log, so not in an export.");
        }
        ReportOrigin::Ledger => {
            unknown.push(
                "The ledger holds the receipts of runs, not their diffs or what else the agent printed.",
            );
            unknown.push("Runs that are running or await approval, and receipts that were made elsewhere, are not in this report.");
        }
        ReportOrigin::Export | ReportOrigin::Workspace => {}
    }
    if source.log.is_none() {
        unknown.push("There is no ledger here, so there are no executions and no checkpoint.");
    }
    if source.origin == ReportOrigin::Workspace && question.robot.is_some() {
        unknown.push("The robot of a run is known only once the run has ended; others are left out.");
    }
    if source.key_source == KeySource::Absent {
        unknown.push("No key was given, so nothing is proved about who signed.");
    }
    unknown
}

/// Writes a value as its text.
/// Reads all pages of a filter, newest first, until `take` has enough.
fn newest_first(
    (ledger, tenant): (&Ledger, &TenantId),
    filter: &crealeph_ledger::Filter,
    mut take: impl FnMut(crealeph_ledger::StoredEntry) -> Result<bool, ReportError>,
) -> Result<(), ReportError> {
    let mut cursor = None;
    loop {
        let page = ledger.list(tenant, filter, crealeph_ledger::Order::NewestFirst, cursor, PAGE_ENTRIES)?;
        for entry in page.entries {
            if !take(entry)? {
                return Ok(());
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// How many entries are read at a time.
const PAGE_ENTRIES: usize = 100;

#[cfg(test)]
mod tests {
    use super::TextPart;

    #[test]
    fn a_cut_keeps_whole_lines_and_says_how_much_is_missing() {
        let text = "one\ntwö\nthree\n";
        let part = |text: &str, left_out_bytes| TextPart { text: text.to_owned(), left_out_bytes };
        assert_eq!(TextPart::start(text, 100), part(text, 0));
        assert_eq!(TextPart::start(text, 10), part("one\ntwö\n", 6));
        assert_eq!(TextPart::start(text, 7), part("one\n", 11));
        assert_eq!(TextPart::end(text, 10), part("three\n", 9));
        assert_eq!(TextPart::end("no break", 2), part("ak", 6));
        assert_eq!(TextPart::start("öö", 3), part("ö", 2));
    }
}
