//! Runs as a log has them: receipts of the ledger's own workspaces and reported ones, newest first; one of them with its documents, its
//! proof, its diff and its output, as far as the log has them, or else the workspace on this machine.

use std::collections::BTreeMap;

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::held_change::held_change_key;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{JsonObject, ObjectWriter, canonical};
use crealeph_contracts::receipt::Receipt;
use crealeph_contracts::reported::{REPORTED_KEY, REPORTED_RECEIPT, ReceiptReport, reported_key};
use crealeph_contracts::scalar::{ClientKey, Name, RobotId, TenantId};
use crealeph_contracts::uuid::Uuid;
use crealeph_ledger::{Cursor, Filter, Ledger, LedgerError, Order, StoredEntry};
use crealeph_verify::{ReadReceipt, VerifierKey, read_unproven, reported_files};
use serde::Serialize;

use super::signers::signer_log;
use crate::approvals::change_of;
use crate::entries::{PageQuery, bounded_page, merged_newest};
use crate::report::{ReceiptProof, RunRow, RunStory, log_row, receipt_proof, stated_story};
use crate::work::counts_in_log;
use crate::work::receipt::{DIFF_FILE, RESULT_FILE, RUN_RECEIPT, RUN_RECEIPT_KEY};
use crate::work::{ItemResult, RunReader, RunsError};

/// The requested runs.
#[derive(Clone, Debug, Default)]
pub struct RunLogQuery {
    /// Only those that ended so: `succeeded` or `failed`.
    pub state: Option<Name>,
    /// Only of this agent, by its name or id.
    pub agent: Option<String>,
    /// Only what was recorded at or after this.
    pub since: Option<Instant>,
    /// Only of this robot.
    pub robot: Option<RobotId>,
    /// Where the list continues.
    pub cursor: Option<Cursor>,
    /// How many at most.
    pub limit: usize,
    /// After how many bytes of receipts a page ends.
    pub max_bytes: usize,
}

/// A run whose receipt a log has.
#[derive(Clone, Debug)]
pub struct LoggedRun {
    /// Its entry.
    pub entry: StoredEntry,
    /// The run.
    pub run: Uuid,
    /// The receipt was made elsewhere.
    pub is_reported: bool,
    /// The receipt and its statement, if the log has them whole; who signed is not checked.
    read: Option<ReadReceipt>,
}

/// A run as it is listed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoggedRunReport {
    /// In one line.
    #[serde(flatten)]
    pub row: RunRow,
    /// The workspace, by the name that its receipts are signed with.
    pub workspace: Option<String>,
    /// The robot that it was for.
    pub robot_id: String,
    /// The receipt was made elsewhere, and counts for nothing here.
    pub reported: bool,
    /// Tokens, as the agent reported them.
    pub tokens: Option<f64>,
    /// US dollars, as the agent reported them.
    pub cost_usd: Option<f64>,
    /// How many tests passed, if they ran and their runner counted them.
    pub tests_passed: Option<u64>,
    /// How many tests failed.
    pub tests_failed: Option<u64>,
    /// The entry of the receipt.
    pub entry: String,
    /// The entry's sequence number.
    pub seq: u64,
    /// When the ledger took it.
    pub recorded_at: String,
}

/// Why a file of a run is not shown.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// The log does not hold it.
    #[error("the ledger does not have {what} of this run: {place}")]
    NotHere {
        /// What.
        what: &'static str,
        /// Where it is.
        place: String,
    },
    /// What the workspace has is not what the run left.
    #[error(
        "`{name}` in the workspace is not what run {run} left, and is not shown; see `crealeph work verify {run}`"
    )]
    Altered {
        /// The file.
        name: String,
        /// The run.
        run: Uuid,
    },
    /// The workspace could not be read.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A page of runs, newest first, and where it continues; `sees` says which entries may be shown.
///
/// # Errors
/// When the ledger cannot be read.
pub fn runs_of_log(
    ledger: &Ledger,
    tenant: &TenantId,
    query: &RunLogQuery,
    sees: impl Fn(&StoredEntry) -> bool,
) -> Result<(Vec<LoggedRun>, Option<Cursor>), LedgerError> {
    let of_kind = |kind| {
        let filter = Filter {
            robot_id: query.robot.clone(),
            kind: Some(Name::from(kind)),
            state: query.state.clone(),
            from: query.since,
            ..Filter::default()
        };
        let (cursor, limit, max_bytes) = (query.cursor, query.limit, query.max_bytes);
        let page = PageQuery { filter, order: Order::NewestFirst, cursor, limit, max_bytes };
        let is_wanted = |entry: &StoredEntry| {
            let run = || LoggedRun::of(entry.clone());
            let agent = query.agent.as_deref();
            sees(entry) && agent.is_none_or(|agent| run().is_some_and(|run| run.is_by(agent)))
        };
        let page = bounded_page(ledger, tenant, &page, is_wanted)?;
        Ok::<_, LedgerError>((page.entries, page.next))
    };
    let (entries, next) =
        merged_newest(of_kind(RUN_RECEIPT)?, of_kind(REPORTED_RECEIPT)?, query.limit, |entry| entry.seq);
    Ok((entries.into_iter().filter_map(LoggedRun::of).collect(), next))
}

/// A run of a log: of a workspace of the ledger, else a reported one; `sees` says whether its entry may be shown.
///
/// # Errors
/// When the ledger cannot be read.
pub fn run_of_log(
    ledger: &Ledger,
    tenant: &TenantId,
    run: &Uuid,
    sees: impl Fn(&StoredEntry) -> bool,
) -> Result<Option<LoggedRun>, LedgerError> {
    for key in [format!("{RUN_RECEIPT_KEY}{run}"), reported_key(run)] {
        let Ok(key) = ClientKey::parse(&key) else { continue };
        let found = ledger.get_by_key(tenant, &key)?.filter(&sees).and_then(LoggedRun::of);
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The hash of the receipt that was reported in an entry.
pub(super) fn reported_hash(entry: &StoredEntry) -> Option<Blake3> {
    Some(LoggedRun::of(entry.clone()).filter(|run| run.is_reported)?.read?.receipt.receipt_hash)
}

impl LoggedRun {
    /// The run whose receipt an entry holds or names.
    pub fn of(entry: StoredEntry) -> Option<Self> {
        let key = entry.content.key.as_ref()?.as_str();
        let (run, is_reported) = match key.strip_prefix(RUN_RECEIPT_KEY) {
            Some(run) => (Uuid::parse(run)?, false),
            None => (Uuid::parse(key.strip_prefix(REPORTED_KEY)?)?, true),
        };
        let read = documents(&entry).and_then(|(receipt, envelope)| {
            read_unproven(receipt.as_bytes(), envelope.as_bytes()).ok().filter(|read| read.receipt.id == run)
        });
        Some(LoggedRun { entry, run, is_reported, read })
    }

    fn is_by(&self, agent: &str) -> bool {
        let named = self.read.as_ref().and_then(|read| read.statement.predicate.agent.as_ref());
        named.is_some_and(|facts| facts.name.as_str() == agent) || self.entry.content.source.as_str() == agent
    }

    /// The models that its agent reported.
    pub(crate) fn models(&self) -> Vec<String> {
        let agent = self.read.as_ref().and_then(|read| read.statement.predicate.agent.as_ref());
        let models = agent.and_then(|agent| agent.models.as_ref());
        models.map_or_else(Vec::new, |models| models.as_slice().iter().map(ToString::to_string).collect())
    }

    /// The files that its statement names as changed.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let receipt = self.read.as_ref().map(|read| &read.receipt);
        receipt
            .into_iter()
            .flat_map(|receipt| receipt.artifacts.as_slice())
            .map(|artifact| artifact.path.as_str())
    }

    /// In one line, with what the workspace on this machine knows of how it ended.
    pub fn row(&self, kept: Option<&RunReader>) -> RunRow {
        let stated = self.read.as_ref().map(|read| &read.statement.predicate);
        let mut row = log_row(self.run, &self.entry, stated);
        kept.into_iter().for_each(|reader| standing(&mut row, reader));
        row
    }

    /// Tokens and US dollars, as the agent reported them.
    pub(crate) fn used(&self) -> (Option<f64>, Option<f64>) {
        let receipt = self.read.as_ref().map(|read| &read.receipt);
        let tokens = receipt.and_then(|receipt| receipt.tokens_used).map(|tokens| tokens.get());
        (tokens, receipt.and_then(|receipt| receipt.cost_usd).map(|cost| cost.get()))
    }

    /// As it is listed.
    pub fn report(&self, kept: Option<&RunReader>) -> LoggedRunReport {
        let LoggedRun { entry, is_reported, read, .. } = self;
        let stated = read.as_ref().map(|read| &read.statement.predicate);
        let (tokens, cost_usd) = self.used();
        let log = read.as_ref().and_then(|read| read.receipt.test_log.as_deref());
        let tests = log.and_then(counts_in_log);
        LoggedRunReport {
            row: self.row(kept),
            workspace: stated.map(|stated| stated.workspace.as_str().to_owned()),
            robot_id: entry.content.robot_id.as_str().to_owned(),
            reported: *is_reported,
            tokens,
            cost_usd,
            tests_passed: tests.map(|tests| tests.passed),
            tests_failed: tests.map(|tests| tests.failed),
            entry: entry.id.as_str().to_owned(),
            seq: entry.seq.get(),
            recorded_at: entry.created_at.to_string(),
        }
    }

    /// The run with its receipt and signed statement, exactly as they are recorded, as JSON.
    pub fn json(&self, kept: Option<&RunReader>) -> String {
        #[expect(clippy::expect_used, reason = "a report has no map whose keys are not strings")]
        let run = serde_json::to_string(&self.report(kept)).expect("a report is written as JSON");
        let (receipt, envelope) = documents(&self.entry).unzip();
        let mut out = String::new();
        let mut object = ObjectWriter::new(&mut out);
        object.raw("run", &run).raw("receipt", receipt.as_deref().unwrap_or("null"));
        object.raw("envelope", envelope.as_deref().unwrap_or("null"));
        object.end();
        out
    }

    /// What is proved of the receipt, with the signers of its workspace that the tenant has enrolled.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn proof(&self, ledger: &Ledger, tenant: &TenantId) -> Result<ReceiptProof, LedgerError> {
        let (signers, _) = signer_log(ledger, tenant)?;
        let keys: Vec<VerifierKey> = signers.keys().cloned().collect();
        let keys = self.keys_of_workspace(&keys);
        let mut proof = receipt_proof(&self.entry, &keys);
        if keys.is_empty() && proof.detail.is_none() {
            proof.detail =
                Some("no signer of its workspace is enrolled, so who signed is not proved".to_owned());
        }
        Ok(proof)
    }

    /// What happened, as the receipt alone says it.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn story(&self, ledger: &Ledger, tenant: &TenantId) -> Result<RunStory, LedgerError> {
        let statement = self.read.as_ref().map(|read| &read.statement);
        let row = log_row(self.run, &self.entry, statement.map(|statement| &statement.predicate));
        Ok(stated_story(row, statement, self.proof(ledger, tenant)?))
    }

    /// Those of some keys that sign for its workspace.
    pub(crate) fn keys_of_workspace(&self, keys: &[VerifierKey]) -> Vec<VerifierKey> {
        let workspace = self.read.as_ref().map(|read| read.statement.predicate.workspace.as_str());
        keys.iter().filter(|key| Some(key.name()) == workspace).cloned().collect()
    }

    /// What it changed, in unified form: as it was reported, as people were asked to approve it, or as the workspace on this machine has it.
    ///
    /// # Errors
    /// When neither has it, or the workspace's is not what the run left.
    pub fn diff(
        &self,
        ledger: &Ledger,
        tenant: &TenantId,
        kept: Option<&RunReader>,
    ) -> Result<String, RunFileError> {
        if let Some((_, diff)) = self.files().into_iter().find(|(name, _)| name == DIFF_FILE) {
            return Ok(String::from_utf8_lossy(&diff).into_owned());
        }
        let held = match ClientKey::parse(&held_change_key(&self.run.to_string())) {
            Ok(key) if !self.is_reported => ledger.get_by_key(tenant, &key)?,
            _ => None,
        };
        if let Some(diff) = held.and_then(|entry| change_of(&entry)).and_then(|change| change.diff) {
            return Ok(diff.into());
        }
        let kept = match kept {
            Some(reader) => reader.file(&self.run, DIFF_FILE)?,
            None => None,
        };
        match kept {
            Some(diff) => self.unaltered(DIFF_FILE, &diff),
            None => Err(self.not_here("the diff", "diff")),
        }
    }

    /// What it printed, as it was reported, or as the workspace on this machine has it: each file with its text, in their order.
    ///
    /// # Errors
    /// When neither has it, or the workspace's is not what the run left.
    pub fn logs(&self, kept: Option<&RunReader>) -> Result<Vec<(String, String)>, RunFileError> {
        let files = self.files().into_iter().filter(|(name, _)| name.ends_with(".log"));
        let logs: Vec<(String, String)> =
            files.map(|(name, bytes)| (name, String::from_utf8_lossy(&bytes).into_owned())).collect();
        let is_stated = self.stated_files().any(|name| name.ends_with(".log"));
        if self.is_reported && !(logs.is_empty() && is_stated) {
            return Ok(logs);
        }
        let kept = match kept.filter(|reader| reader.get(&self.run).is_some()) {
            Some(reader) => reader.log_files(&self.run)?,
            None => return Err(self.not_here("what was printed", "logs")),
        };
        if kept.is_empty() && is_stated {
            return Err(RunFileError::NotHere {
                what: "what was printed",
                place: "`crealeph work clean` removed it from the workspace".to_owned(),
            });
        }
        let shown = |(name, bytes): (String, Vec<u8>)| {
            let text = self.unaltered(&name, &bytes)?;
            Ok((name, text))
        };
        kept.into_iter().map(shown).collect()
    }

    /// The text of a file that the workspace has, if it is what the statement says the run left.
    fn unaltered(&self, name: &str, bytes: &[u8]) -> Result<String, RunFileError> {
        let files = self.read.as_ref().and_then(|read| read.statement.predicate.files.as_ref());
        let stated = files.map(|files| files.as_slice().iter().find(|file| file.name.as_str() == name));
        let is_same = match stated {
            // Statements of older versions name no files.
            None => true,
            Some(file) => file.is_some_and(|file| file.digest.blake3 == Some(Blake3::of(bytes))),
        };
        match is_same {
            true => Ok(String::from_utf8_lossy(bytes).into_owned()),
            false => Err(RunFileError::Altered { name: name.to_owned(), run: self.run }),
        }
    }

    /// The files that it left, each with the digest of its content; none for one that it removed. Absent without its receipt.
    pub fn outcomes(&self) -> Option<BTreeMap<String, Option<Blake3>>> {
        self.read.as_ref().map(|read| outcomes_in(&read.receipt))
    }

    /// Adds to what the statement says what its workspace, on this machine, knows besides: how it ended, and its tests, if the result
    /// there is what the run left.
    ///
    /// # Errors
    /// When the workspace cannot be read.
    pub fn complete(&self, story: &mut RunStory, kept: &RunReader) -> Result<(), RunsError> {
        standing(&mut story.row, kept);
        let result = kept.file(&self.run, RESULT_FILE)?;
        let text = result.and_then(|bytes| self.unaltered(RESULT_FILE, &bytes).ok());
        if let Some(result) = text.and_then(|text| ItemResult::parse(text.as_bytes())) {
            story.add_result(&result.result);
        }
        Ok(())
    }

    /// The names of files that the statement names and the log does not hold.
    pub fn left_out(&self) -> Vec<String> {
        let held = self.files();
        let is_held = |name: &str| held.iter().any(|(held, _)| held == name);
        self.stated_files().filter(|name| !is_held(name)).map(str::to_owned).collect()
    }

    fn stated_files(&self) -> impl Iterator<Item = &str> {
        let files = self.read.as_ref().and_then(|read| read.statement.predicate.files.as_ref());
        files.map_or(&[][..], |files| files.as_slice()).iter().map(|file| file.name.as_str())
    }

    /// The reported files, each as signed.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let report = ReceiptReport::parse(self.entry.content.payload.as_bytes()).ok();
        let files =
            report.zip(self.read.as_ref()).and_then(|(report, read)| reported_files(&report, read).ok());
        files.filter(|_| self.is_reported).unwrap_or_default()
    }

    fn not_here(&self, what: &'static str, command: &str) -> RunFileError {
        let stated = self.read.as_ref().map(|read| &read.statement.predicate);
        let workspace = stated.map_or("of the run", |stated| stated.workspace.as_str());
        let host = stated.and_then(|stated| stated.started_by.as_ref());
        let host = host.map_or_else(String::new, |user| format!(" on {}", user.host));
        let run = self.run;
        let place = format!(
            "it is in the workspace {workspace}{host}; `crealeph work {command} {run}` shows it there"
        );
        RunFileError::NotHere { what, place }
    }
}

/// When a run of the workspace on this machine started and how it ended, as its journal says.
fn standing(row: &mut RunRow, kept: &RunReader) {
    if let Some(summary) = kept.get(&row.run) {
        row.outcome = summary.state.as_str().to_owned();
        row.started_at = summary.started_at.as_str().to_owned();
        row.since = summary.at.as_str().to_owned();
    }
}

/// The files that a receipt says were left, each with the digest of its content; none for one that was removed.
pub(crate) fn outcomes_in(receipt: &Receipt) -> BTreeMap<String, Option<Blake3>> {
    let artifacts = receipt.artifacts.as_slice().iter();
    artifacts.map(|artifact| (artifact.path.as_str().to_owned(), artifact.hash)).collect()
}

/// The receipt and the envelope in an entry; `None` if they were too large for the log.
fn documents(entry: &StoredEntry) -> Option<(String, String)> {
    JsonObject::parse_own(&entry.content.payload)?.with(|payload| {
        let text = |key: &str| payload.member(key).map(canonical);
        Some((text("receipt")?, text("envelope")?))
    })
}
