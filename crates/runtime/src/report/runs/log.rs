//! Runs from the receipts that a log holds.

use crealeph_contracts::attestation::WorkRun;
use crealeph_contracts::json::{JsonObject, canonical};
use crealeph_contracts::receipt::{Phase, ReceiptStatus};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{Name, TenantId};
use crealeph_contracts::short_id::{IdWord, one_id, short_id};
use crealeph_contracts::uuid::Uuid;
use crealeph_ledger::{Filter, Ledger, StoredEntry};
use crealeph_verify::{ReadReceipt, VerifierKey};

use super::statement::{stated_story, touched_files, verdict};
use super::{RunRow, RunSection, run_of, task};
use crate::receipts::{LoggedRun, run_of_log};
use crate::report::approvals;
use crate::report::proof::{self, ReceiptProof};
use crate::report::{
    MAX_DETAILS, MAX_ROWS, ReportError, ReportOrigin, ReportQuestion, ReportSource, ReportSubject,
    newest_first,
};
use crate::work::RunsError;
use crate::work::receipt::RUN_RECEIPT;

/// The requested runs of a log.
pub(super) fn in_log(
    question: &ReportQuestion,
    source: &ReportSource<'_>,
    covered_entries: u64,
) -> Result<RunSection, ReportError> {
    let Some(log) = source.log else { return Ok(RunSection::default()) };
    let filter = Filter {
        robot_id: question.robot.clone(),
        kind: Some(Name::from(RUN_RECEIPT)),
        // A run is recorded after its start.
        from: question.since,
        ..Filter::default()
    };
    let one = match &question.subject {
        ReportSubject::Run(word) => Some(named_run(log, word)?),
        _ => None,
    };
    let mut section = RunSection::default();
    let mut take = |entry: StoredEntry| -> Result<bool, ReportError> {
        let Some(run) = run_of(&entry) else { return Ok(true) };
        if section.rows.len() >= MAX_ROWS {
            section.has_more = true;
            return Ok(false);
        }
        let (proof, read) = checked(&entry, source);
        let stated = read.as_ref().map(|read| &read.statement.predicate);
        let started = stated.map(|stated| stated.receipt.started_at.instant());
        if question.since.is_some_and(|since| started.unwrap_or(entry.created_at.instant()) < since) {
            return Ok(true);
        }
        let row = log_row(run, &entry, stated);
        if section.stories.len() < question.details.min(MAX_DETAILS) {
            let proof = proof.in_log(Some(&entry), covered_entries);
            let statement = read.as_ref().map(|read| &read.statement);
            let mut story = stated_story(row.clone(), statement, proof);
            story.approval = approvals::of_run(log, source.scopes, &run)?;
            section.stories.push(story);
        }
        section.rows.push(row);
        Ok(true)
    };
    match one {
        None => newest_first(log, &filter, take)?,
        Some(run) => {
            let entry = receipt_entry(log, &run)?;
            let is_wanted = |entry: &StoredEntry| {
                question.robot.as_ref().is_none_or(|robot| *robot == entry.content.robot_id)
            };
            if let Some(entry) = entry.filter(is_wanted) {
                take(entry)?;
            }
        }
    }
    shorten(&mut section);
    Ok(section)
}

/// The receipt that an entry holds, checked with the keys that are for it.
fn checked(entry: &StoredEntry, source: &ReportSource<'_>) -> (ReceiptProof, Option<ReadReceipt>) {
    match source.origin {
        // A workspace whose signer is not enrolled is not known, which is no fault of its receipts.
        ReportOrigin::Ledger => {
            let run = LoggedRun::of(entry.clone());
            receipt_in(entry, &run.map_or_else(Vec::new, |run| run.keys_of_workspace(source.keys)))
        }
        ReportOrigin::Workspace | ReportOrigin::Export => receipt_in(entry, source.keys),
    }
}

/// The entry that holds the receipt of a run: of a workspace of the ledger, else a reported one.
fn receipt_entry(log: (&Ledger, &TenantId), run: &Uuid) -> Result<Option<StoredEntry>, ReportError> {
    Ok(run_of_log(log.0, log.1, run, |_| true)?.map(|run| run.entry))
}

/// The run that a word means, of those whose receipts the log holds.
fn named_run(log: (&Ledger, &TenantId), word: &str) -> Result<Uuid, ReportError> {
    if let Some(run) = Uuid::parse(word)
        && receipt_entry(log, &run)?.is_some()
    {
        return Ok(run);
    }
    let filter = Filter { kind: Some(Name::from(RUN_RECEIPT)), ..Filter::default() };
    let mut found: Vec<Uuid> = Vec::new();
    newest_first(log, &filter, |entry| {
        let Some(run) = run_of(&entry) else { return Ok(true) };
        let is_meant = match IdWord::read(word) {
            // Merges of a level are not counted, as in a workspace.
            IdWord::Recent(_) => has_item(&entry),
            IdWord::Start(start) => {
                !start.is_empty() && (run.to_string().starts_with(start) || is_of_item(&entry, start, &found))
            }
        };
        if is_meant {
            found.push(run);
        }
        Ok(!matches!(IdWord::read(word), IdWord::Recent(newer) if found.len() > newer))
    })?;
    match IdWord::read(word) {
        IdWord::Recent(newer) => {
            let missing = if found.is_empty() { RunsError::NoneYet } else { RunsError::OnlyOne };
            found.get(newer).copied().ok_or_else(|| missing.into())
        }
        IdWord::Start(_) => {
            let mut ids: Vec<String> = found.iter().map(ToString::to_string).collect();
            ids.sort();
            let one = one_id(word, ids).map_err(RunsError::from)?;
            one.and_then(|run| Uuid::parse(&run)).ok_or_else(|| RunsError::Unknown(word.to_owned()).into())
        }
    }
}

/// A member of the receipt in an entry, as text.
fn receipt_member(entry: &StoredEntry, key: &str) -> Option<String> {
    let payload = JsonObject::parse_own(&entry.content.payload)?;
    payload.with(|payload| Some(payload.member("receipt")?.member(key)?.string()?.into_owned()))
}

fn has_item(entry: &StoredEntry) -> bool {
    receipt_member(entry, "work_item_id").is_some()
}

/// Whether an entry is the newest of an item; an item stands for its newest run.
fn is_of_item(entry: &StoredEntry, item: &str, found: &[Uuid]) -> bool {
    found.is_empty() && receipt_member(entry, "work_item_id").is_some_and(|own| own == item)
}

/// The receipt that an entry holds, checked.
pub(super) fn receipt_in(entry: &StoredEntry, keys: &[VerifierKey]) -> (ReceiptProof, Option<ReadReceipt>) {
    let parts = JsonObject::parse_own(&entry.content.payload).and_then(|payload| {
        payload.with(|payload| {
            let text = |key: &str| payload.member(key).map(canonical);
            Some((text("receipt")?, text("envelope")?))
        })
    });
    match parts {
        Some((receipt, envelope)) => proof::of_entry(&receipt, &envelope, keys),
        None => (proof::absent("the receipt was too large for the log, which has only its hash"), None),
    }
}

/// What is proved of the receipt that an entry holds.
pub(crate) fn receipt_proof(entry: &StoredEntry, keys: &[VerifierKey]) -> ReceiptProof {
    let proof = receipt_in(entry, keys).0;
    ReceiptProof { entry_seq: Some(entry.seq.get()), ..proof }
}

pub(crate) fn log_row(run: Uuid, entry: &StoredEntry, stated: Option<&WorkRun>) -> RunRow {
    let item = stated.and_then(|stated| stated.work_item.as_ref());
    let agent = stated.and_then(|stated| stated.agent.as_ref()).map(|agent| agent.name.to_string());
    let started_at = stated.map(|stated| stated.receipt.started_at.as_str().to_owned());
    RunRow {
        run,
        short_id: run.to_string(),
        item: item.map(|item| item.id.to_string()),
        task: match stated {
            Some(stated) if stated.receipt.phase == Phase::Run => task(item),
            Some(_) => task(None),
            None => "-".to_owned(),
        },
        agent: agent.or_else(|| Some(entry.content.source.to_string())),
        status: entry.content.state.to_string(),
        started_at: started_at.unwrap_or_else(|| entry.created_at.to_string()),
        outcome: outcome(entry, stated).as_str().to_owned(),
        since: stated.map_or_else(
            || entry.created_at.to_string(),
            |stated| stated.receipt.finished_at.as_str().to_owned(),
        ),
        files: stated.map(touched_files),
        verdict: stated.and_then(|stated| stated.verdicts.as_ref()?.as_slice().last()).map(verdict),
    }
}

/// How a run ended, as far as its receipt says.
fn outcome(entry: &StoredEntry, stated: Option<&WorkRun>) -> RunStatus {
    let is_denied = || stated.and_then(|stated| stated.admission.as_ref()).is_some_and(|it| !it.admitted);
    match entry.content.state.as_str() {
        word if word == ReceiptStatus::Succeeded.as_str() => RunStatus::Success,
        _ if is_denied() => RunStatus::Denied,
        _ => RunStatus::Failure,
    }
}

/// Gives runs that are listed together the shortest ids that distinguish them.
fn shorten(section: &mut RunSection) {
    let mut ids: Vec<String> = section.rows.iter().map(|row| row.run.to_string()).collect();
    ids.sort();
    let short = |run: &Uuid| {
        let id = run.to_string();
        let at = ids.partition_point(|other| *other < id);
        let before = at.checked_sub(1).and_then(|at| ids.get(at)).map(String::as_str);
        short_id(&id, before, ids.get(at + 1).map(String::as_str)).to_owned()
    };
    let rows = section.rows.iter_mut().chain(section.stories.iter_mut().map(|story| &mut story.row));
    rows.for_each(|row| row.short_id = short(&row.run));
}
