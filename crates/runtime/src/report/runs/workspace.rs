//! Runs from their folders in a workspace.

use std::collections::BTreeSet;

use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{ClientKey, Name};
use crealeph_contracts::uuid::Uuid;
use crealeph_ledger::Filter;
use crealeph_verify::{ReadReceipt, read_unproven};

use super::statement::{account, agent, stated_story};
use super::{
    ChangeStory, EarlierRunStory, FileStory, MAX_LISTED, MAX_TEXT_BYTES, RunRow, RunSection, RunStory,
    RunVerdictStory, TestStory, run_of, task,
};
use crate::report::approvals;
use crate::report::proof::{self, ReceiptProof};
use crate::report::{
    MAX_DETAILS, MAX_ROWS, ReportError, ReportQuestion, ReportSource, ReportSubject, TextPart, newest_first,
};
use crate::work::receipt::{ENVELOPE_FILE, RECEIPT_FILE, RUN_RECEIPT, RUN_RECEIPT_KEY};
use crate::work::{DiffStat, RunReader, RunState, RunSummary, RunVerdict};

/// How much of a diff is kept.
const MAX_DIFF_BYTES: usize = 256 << 10;

/// The requested runs of a workspace.
pub(super) fn in_workspace(
    reader: &RunReader,
    question: &ReportQuestion,
    source: &ReportSource<'_>,
    covered_entries: u64,
) -> Result<RunSection, ReportError> {
    let of_robot = robots_runs(question, source)?;
    let is_wanted = |summary: &RunSummary| {
        question.since.is_none_or(|since| summary.started_at.instant() >= since)
            && of_robot.as_ref().is_none_or(|runs| runs.contains(&summary.run.to_string()))
    };
    let (summaries, has_more) = match &question.subject {
        ReportSubject::Run(word) => (vec![reader.find(Some(word))?], false),
        _ => {
            let mut wanted = reader.all().filter(is_wanted);
            let summaries = wanted.by_ref().take(MAX_ROWS).collect();
            (summaries, wanted.next().is_some())
        }
    };
    let rows =
        summaries.iter().map(|summary| workspace_row(reader, summary)).collect::<Result<Vec<_>, _>>()?;
    let mut stories = Vec::new();
    for (summary, row) in summaries.iter().zip(&rows).take(question.details.min(MAX_DETAILS)) {
        let (proof, read) = proof::of_run(reader, summary, source.signer, source.keys)?;
        let key = ClientKey::parse(&format!("{RUN_RECEIPT_KEY}{}", summary.run))?;
        let entry = match source.log {
            Some((ledger, tenant)) => ledger.get_by_key(tenant, &key)?,
            None => None,
        };
        let proof = proof.in_log(entry.as_ref(), covered_entries);
        let mut story = workspace_story(reader, summary, row.clone(), read.as_ref(), proof)?;
        story.approval = match source.log {
            Some(log) => approvals::of_run(log, source.scopes, &summary.run)?,
            None => None,
        };
        stories.push(story);
    }
    Ok(RunSection { rows, has_more, stories })
}

/// The ids of the runs for a robot, if one is requested.
fn robots_runs(
    question: &ReportQuestion,
    source: &ReportSource<'_>,
) -> Result<Option<BTreeSet<String>>, ReportError> {
    let (Some(robot), Some(log)) = (&question.robot, source.log) else { return Ok(None) };
    let filter =
        Filter { robot_id: Some(robot.clone()), kind: Some(Name::from(RUN_RECEIPT)), ..Filter::default() };
    let mut runs = BTreeSet::new();
    newest_first(log, &filter, |entry| {
        runs.extend(run_of(&entry).map(|run| run.to_string()));
        Ok(true)
    })?;
    Ok(Some(runs))
}

/// Runs of a workspace that are running, unsettled or held.
#[derive(Debug, Default)]
pub struct OpenRuns {
    /// The newest of them, newest first.
    pub rows: Vec<RunRow>,
    /// There are more than are listed.
    pub has_more: bool,
    /// Those of which a file cannot be read, and why.
    pub unreadable: Vec<(Uuid, ReportError)>,
}

/// The runs of a workspace that are running, unsettled or held, as far as they are wanted.
pub fn open_run_rows(reader: &RunReader, is_wanted: impl Fn(&RunSummary) -> bool) -> OpenRuns {
    let mut open = OpenRuns::default();
    for (at, summary) in reader.open_runs().iter().filter(|summary| is_wanted(summary)).enumerate() {
        if at >= MAX_LISTED {
            open.has_more = true;
            break;
        }
        match workspace_row(reader, summary) {
            Ok(row) => open.rows.push(row),
            Err(why) => open.unreadable.push((summary.run, why)),
        }
    }
    open
}

/// A run of a workspace in one line.
///
/// # Errors
/// When its files cannot be read.
pub fn workspace_row(reader: &RunReader, summary: &RunSummary) -> Result<RunRow, ReportError> {
    let item = reader.item(&summary.run)?;
    let files = match summary.state {
        RunState::Held => reader.diff(&summary.run)?.map(|diff| DiffStat::read(&diff).files.len() as u64),
        _ => {
            let result = reader.result(&summary.run)?.and_then(|result| result.value);
            result.map(|result| result.result.metrics.files_touched.get())
        }
    };
    Ok(RunRow {
        run: summary.run,
        short_id: reader.short(&summary.run),
        item: summary.item.as_ref().map(ToString::to_string),
        task: match (&item, &summary.item) {
            (None, Some(id)) => id.to_string(),
            (item, _) => task(item.as_ref()),
        },
        agent: summary.agent.clone(),
        status: summary.state.as_str().to_owned(),
        outcome: summary.state.as_str().to_owned(),
        started_at: summary.started_at.as_str().to_owned(),
        since: summary.at.as_str().to_owned(),
        files,
        verdict: summary.verdict.as_ref().map(verdict),
    })
}

fn workspace_story(
    reader: &RunReader,
    summary: &RunSummary,
    row: RunRow,
    read: Option<&ReadReceipt>,
    proof: ReceiptProof,
) -> Result<RunStory, ReportError> {
    let run = &summary.run;
    let mut story = stated_story(row, read.map(|read| &read.statement), proof);
    let item = reader.item(run)?;
    if let Some(item) = &item {
        story.description = Some(TextPart::start(item.description.trim(), MAX_TEXT_BYTES));
    }
    if let Some(origin) = reader.origin(run)? {
        story.program.get_or_insert_with(|| agent(&origin.agent));
        story.started_by.get_or_insert_with(|| account(&origin.started_by));
    }
    if let Some(earlier) = reader.earlier(run) {
        let relation = earlier.relation.as_str().into();
        let short_id = String::new();
        story.earlier_run.get_or_insert(EarlierRunStory { relation, run: earlier.run, short_id });
    }
    if let Some(earlier) = &mut story.earlier_run {
        earlier.short_id = reader.short(&earlier.run);
    }
    let result = reader.result(run)?.and_then(|result| result.value);
    if let Some(result) = &result {
        let reason = result.result.error.as_ref().or(result.result.denial_reason.as_ref());
        story.reason = reason.map(|reason| TextPart::start(reason.as_str(), MAX_TEXT_BYTES));
    }
    let command = item.as_ref().and_then(|item| item.test_command.as_deref()).filter(|it| !it.is_empty());
    if command.is_some() || story.tests.is_some() {
        let nothing = TestStory { command: None, passed: None, failed: None, output: None };
        let command = command.map(str::to_owned);
        story.tests = Some(TestStory { command, ..story.tests.unwrap_or(nothing) });
    }
    if let Some(result) = &result {
        story.add_result(&result.result);
    }
    if story.verdicts.is_empty() {
        story.verdicts.extend(summary.verdict.as_ref().map(verdict));
    }
    story.change.is_discarded =
        !matches!(summary.state, RunState::Ended(RunStatus::Success) | RunState::Held | RunState::Running);
    if let Some(diff) = reader.diff(run)? {
        with_diff(&mut story.change, &diff);
    }
    Ok(story)
}

fn verdict(verdict: &RunVerdict) -> RunVerdictStory {
    let decision = if verdict.is_approved { "approved" } else { "rejected" };
    RunVerdictStory {
        decision: decision.into(),
        by: verdict.who.clone(),
        reason: verdict.why.clone(),
        at: verdict.at.as_str().to_owned(),
        account: None,
        key: None,
    }
}

/// A run of a workspace in full, as its files say; nothing is proved by that.
///
/// # Errors
/// When its files cannot be read.
pub fn workspace_run(reader: &RunReader, summary: &RunSummary) -> Result<RunStory, ReportError> {
    let row = workspace_row(reader, summary)?;
    let documents = (reader.file(&summary.run, RECEIPT_FILE)?, reader.file(&summary.run, ENVELOPE_FILE)?);
    let read = match &documents {
        (Some(receipt), Some(envelope)) => read_unproven(receipt, envelope).ok(),
        _ => None,
    };
    workspace_story(reader, summary, row, read.as_ref(), proof::absent("not checked"))
}

/// Adds a diff to what the receipt says of a change.
pub(super) fn with_diff(change: &mut ChangeStory, diff: &str) {
    let stat = DiffStat::read(diff);
    let (added, removed) = stat.total();
    (change.added, change.removed) = (Some(added as u64), Some(removed as u64));
    if change.files.is_empty() {
        change.files_left_out = stat.files.len().saturating_sub(MAX_LISTED) as u64;
        change.files = stat
            .files
            .iter()
            .take(MAX_LISTED)
            .map(|file| FileStory { path: file.name.clone(), change: None, added: None, removed: None })
            .collect();
    }
    for file in &mut change.files {
        if let Some(counted) = stat.files.iter().find(|counted| counted.name == file.path) {
            (file.added, file.removed) = (Some(counted.added as u64), Some(counted.removed as u64));
        }
    }
    change.diff = (!diff.is_empty()).then(|| TextPart::start(diff, MAX_DIFF_BYTES));
}
