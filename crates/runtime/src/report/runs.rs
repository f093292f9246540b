//! Work runs in a report. Here the values; where they are read from has a file each.

pub(super) mod log;
pub(super) mod statement;
mod workspace;

use crealeph_contracts::reported::REPORTED_KEY;
use crealeph_contracts::run_result::RunMetrics;
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::{RunResult, WorkItem};
use crealeph_ledger::StoredEntry;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::approvals::ApprovalStory;
use super::proof::ReceiptProof;
use super::{ReportError, ReportQuestion, ReportSource, TextPart, id_text};
use crate::work::receipt::RUN_RECEIPT_KEY;

pub use workspace::{OpenRuns, open_run_rows, workspace_row, workspace_run};

/// How much of a task, a reason or the output of tests is kept.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// How many files, connections or hidden paths of a run are listed.
const MAX_LISTED: usize = 100;

/// The runs of a report.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSection {
    /// One line a run, newest first.
    pub rows: Vec<RunRow>,
    /// There are older ones that are not listed.
    pub has_more: bool,
    /// The newest of them in full.
    pub stories: Vec<RunStory>,
}

/// A run in one line.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// Its id.
    #[serde(with = "id_text")]
    pub run: Uuid,
    /// The short form of its id.
    pub short_id: String,
    /// The item; absent for the merge of a level.
    pub item: Option<String>,
    /// The first line of the task.
    pub task: String,
    /// The agent's name, or its id if the name is not known.
    pub agent: Option<String>,
    /// Its outcome or state.
    pub status: String,
    /// The same as `work status` says it: of a log, whose receipts do not distinguish timeouts and interruptions from other failures,
    /// `success`, `denied` or `failure`.
    pub outcome: String,
    /// When it was started.
    pub started_at: String,
    /// Since when it has been so.
    pub since: String,
    /// How many files it changed; absent if that is not known.
    pub files: Option<u64>,
    /// The last verdict on it, if it was held.
    pub verdict: Option<RunVerdictStory>,
}

/// A run in full.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStory {
    /// In one line.
    #[serde(flatten)]
    pub row: RunRow,
    /// When it was over.
    pub finished_at: Option<String>,
    /// The task.
    pub description: Option<TextPart>,
    /// The agent.
    pub program: Option<AgentStory>,
    /// Who started it.
    pub started_by: Option<AccountStory>,
    /// The run that it judges again or undoes.
    pub earlier_run: Option<EarlierRunStory>,
    /// Why it did not succeed.
    pub reason: Option<TextPart>,
    /// What admission said of its change.
    pub admission: Option<AdmissionStory>,
    /// What it changed.
    pub change: ChangeStory,
    /// How long it took, and how much it did; absent before it has ended.
    pub figures: Option<FigureStory>,
    /// Its tests.
    pub tests: Option<TestStory>,
    /// What people decided about it, as its statement says.
    pub verdicts: Vec<RunVerdictStory>,
    /// Who approved its change by signature, and whether it counts.
    pub approval: Option<ApprovalStory>,
    /// How strong the sandbox was.
    pub sandbox: Option<String>,
    /// What the sandbox lacked.
    pub sandbox_missing: Vec<String>,
    /// Connections made and refused.
    pub connections: Vec<ConnectionStory>,
    /// How many more there were.
    pub connections_left_out: u64,
    /// Paths that neither agent nor tests could see.
    pub hidden: Vec<String>,
    /// How many more there were.
    pub hidden_left_out: u64,
    /// Tokens, as the agent reported them.
    pub tokens: Option<f64>,
    /// US dollars, as the agent reported them.
    pub cost_usd: Option<f64>,
    /// What is proved.
    pub proof: ReceiptProof,
}

impl RunStory {
    /// Adds what the result of the run says and its statement does not.
    pub(crate) fn add_result(&mut self, result: &RunResult) {
        self.figures = Some(FigureStory::of(result));
        let passed = result.metrics.tests_passed.map(|count| count.get());
        let failed = result.metrics.tests_failed.map(|count| count.get());
        if let Some(tests) = &mut self.tests {
            tests.passed = passed.or(tests.passed);
            tests.failed = failed.or(tests.failed);
        }
    }

    /// Adds the diff of its change, if it has none.
    pub fn add_diff(&mut self, diff: &str) {
        if self.change.diff.is_none() {
            workspace::with_diff(&mut self.change, diff);
        }
    }
}

/// What a run took.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FigureStory {
    /// Milliseconds.
    pub took_ms: f64,
    /// Files that it touched.
    pub files: u64,
    /// Deltas of its change.
    pub deltas: u64,
    /// Tool operations.
    pub tool_operations: u64,
}

impl FigureStory {
    /// What the result of a run says.
    pub fn of(result: &RunResult) -> Self {
        let RunMetrics { execution_time_ms, tool_ops_count, delta_size, files_touched, .. } = &result.metrics;
        FigureStory {
            took_ms: execution_time_ms.get(),
            files: files_touched.get(),
            deltas: delta_size.get(),
            tool_operations: tool_ops_count.get(),
        }
    }
}

/// The agent of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentStory {
    /// Its name.
    pub name: String,
    /// Where its program was.
    pub program: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The models that it reported.
    pub models: Vec<String>,
}

/// An account of an operating system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountStory {
    /// The user.
    pub user: String,
    /// The machine.
    pub host: String,
    /// The fingerprint of the account's key.
    pub key: Option<String>,
}

/// The run that another one is based on.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierRunStory {
    /// How: `retry_of`, `undoes`.
    pub relation: Cow<'static, str>,
    /// The run.
    #[serde(with = "id_text")]
    pub run: Uuid,
    /// The short form of its id.
    pub short_id: String,
}

/// What admission said.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionStory {
    /// Whether the change was within every bound.
    pub admitted: bool,
    /// The rule that denied it.
    pub reason: Option<String>,
    /// What was measured, and how much was allowed.
    pub bounds: Vec<BoundStory>,
}

/// A bound of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundStory {
    /// What it counts.
    pub what: Cow<'static, str>,
    /// How much there was.
    pub used: u64,
    /// How much was allowed; absent if the statement does not say.
    pub limit: Option<u64>,
}

/// What a run changed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeStory {
    /// The files.
    pub files: Vec<FileStory>,
    /// How many more there were.
    pub files_left_out: u64,
    /// Lines added in all files; absent without a diff.
    pub added: Option<u64>,
    /// Lines removed in all files.
    pub removed: Option<u64>,
    /// The change did not land.
    pub is_discarded: bool,
    /// The branch and commit that it was delivered to.
    pub commit: Option<CommitStory>,
    /// The diff; absent if none is kept, or an export has none.
    pub diff: Option<TextPart>,
}

/// A file that changed.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStory {
    /// Its path.
    pub path: String,
    /// `created`, `modified` or `deleted`; absent if the change was discarded.
    pub change: Option<Cow<'static, str>>,
    /// Lines added; absent without a diff.
    pub added: Option<u64>,
    /// Lines removed.
    pub removed: Option<u64>,
}

/// A commit.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitStory {
    /// The branch.
    pub branch: String,
    /// Its id.
    pub commit: String,
}

/// The tests of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestStory {
    /// The command.
    pub command: Option<String>,
    /// How many passed, if that is known.
    pub passed: Option<u64>,
    /// How many failed.
    pub failed: Option<u64>,
    /// The end of what they printed.
    pub output: Option<TextPart>,
}

/// A person's verdict on a held change.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunVerdictStory {
    /// `approved` or `rejected`.
    pub decision: Cow<'static, str>,
    /// Who, by the name that was given.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: String,
    /// The account it was entered from; absent if it was signed, and before the run has ended.
    pub account: Option<AccountStory>,
    /// The fingerprint of the key that signed it.
    pub key: Option<String>,
}

/// A connection.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionStory {
    /// To where.
    pub host: String,
    /// Whether it was let through.
    pub allowed: bool,
    /// Why it was not.
    pub reason: Option<Cow<'static, str>>,
}

/// The requested runs.
pub(super) fn section(
    question: &ReportQuestion,
    source: &ReportSource<'_>,
    covered_entries: u64,
) -> Result<RunSection, ReportError> {
    match source.runs {
        Some(reader) => workspace::in_workspace(reader, question, source, covered_entries),
        None => log::in_log(question, source, covered_entries),
    }
}

/// The run whose receipt an entry holds, of a workspace of the ledger or reported.
fn run_of(entry: &StoredEntry) -> Option<Uuid> {
    let key = entry.content.key.as_ref()?.as_str();
    Uuid::parse(key.strip_prefix(RUN_RECEIPT_KEY).or_else(|| key.strip_prefix(REPORTED_KEY))?)
}

/// The first line of a task.
fn task(item: Option<&WorkItem>) -> String {
    let Some(item) = item else { return "(merge of a level)".to_owned() };
    let first = item.description.lines().find(|line| !line.trim().is_empty());
    first.unwrap_or(item.id.as_str()).trim().to_owned()
}
