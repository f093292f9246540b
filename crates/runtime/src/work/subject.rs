//! A held change as people decide about it: the record that is written to the ledger when it is held (R33), and the check that the landing change is
//! the recorded one.

use crealeph_contracts::approval::SubjectKind;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::held_change::{HeldChangeRecord, WORKSPACE_TARGET};
use crealeph_contracts::receipt::ReceiptArtifact;
use crealeph_contracts::scalar::{Amount, LedgerId, Name};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::approval::{self, SubjectClass};
use crealeph_decision::work::DeltaClass;
use crealeph_workspace::{Change, TreeNode};

use crate::approvals::{held_change, held_change_draft, rules_in_force};

use super::config::WorkAgent;
use super::engine::Work;
use super::error::WorkError;
use super::journal::{Event, HeldChange};
use super::receipt::SealError;
use super::record::{DIFF_FILE, Landing, RunWriter, parse_item};
use super::run::count;
use super::stage::RunEvidence;
use super::tasks;

/// The record, next to the held change.
pub(super) const SUBJECT_FILE: &str = "held-change.json";

/// The record of a change that is held from now on, and its text.
pub(super) fn record(
    work: &Work,
    evidence: &RunEvidence,
    landing: &Landing,
    held: &HeldChange,
    agent: &WorkAgent,
) -> Result<String, WorkError> {
    let RunEvidence { identity, change, tests, .. } = evidence;
    let item = &identity.item;
    let class = class(evidence, &landing.changes, agent);
    let counts = tests.as_ref().and_then(|tests| tests.counts);
    let target = match &held.branch {
        None => Name::from(WORKSPACE_TARGET),
        Some(branch) => Name::parse(&format!("branch:{}", branch.name)).map_err(SealError::Name)?,
    };
    let paths = landing.changes.iter().map(|change| ReceiptArtifact {
        path: change.path.as_workspace_path().clone(),
        change: change.in_receipt(),
        hash: change.after.as_ref().map(TreeNode::content_digest),
    });
    let record = HeldChangeRecord {
        run: identity.id,
        item: item.id.clone(),
        task: item.description.clone(),
        agent: agent.name.as_str().into(),
        workspace: work.signer.name().clone(),
        target,
        since: held.at.clone(),
        base_state: landing.before,
        after_state: landing.after,
        files: count(class.files),
        paths: paths.collect(),
        protected: class.is_protected,
        tests: class.has_tests,
        cost_usd: class.cost_usd.and_then(Amount::new),
        test_command: item.test_command.clone(),
        test_log: tests.as_ref().map(|tests| tests.output.as_str().into()),
        tests_passed: counts.map(|counts| count(counts.passed)),
        tests_failed: counts.map(|counts| count(counts.failed)),
        requester: identity.origin.as_ref().map(|origin| origin.started_by.clone()),
        diff_digest: Blake3::of(change.diff.as_bytes()),
        diff: Some(change.diff.as_str().into()),
    };
    Ok(record.fitted().map_err(SealError::Compose)?.1)
}

/// What rules distinguish a change by.
fn class(evidence: &RunEvidence, changes: &[Change], agent: &WorkAgent) -> SubjectClass {
    let test_command = evidence.identity.item.test_command.as_deref();
    let touches = |wanted: DeltaClass| {
        changes.iter().any(|change| agent.paths.class_of(change.path.as_str(), test_command) == wanted)
    };
    SubjectClass {
        kind: SubjectKind::Change,
        objective: None,
        is_protected: touches(DeltaClass::Laws),
        has_tests: touches(DeltaClass::Invariants),
        files: changes.len() as u64,
        cost_usd: evidence.agent.trace.cost_usd,
    }
}

/// Whether a rule in force asks for approval of a change that no one held.
pub(super) fn needs_approval(
    work: &Work,
    evidence: &RunEvidence,
    changes: &[Change],
    agent: &WorkAgent,
) -> Result<bool, WorkError> {
    let rules = rules_in_force(&work.ledger, &work.tenant)?;
    Ok(approval::needs_approval(&rules, &class(evidence, changes, agent)))
}

impl RunWriter<'_> {
    /// Puts a held change before people: its record goes into the ledger, once.
    pub(super) fn submit(&self, run: &Uuid) -> Result<(), WorkError> {
        let Some(record) = stored(self.work, run)? else { return Ok(()) };
        let item = self.work.runs.document(run, super::receipt::ITEM_FILE, parse_item)?;
        let task = tasks::origin(self.work, &item.id)?;
        let (_, because) = tasks::bound_to(task.as_ref(), None);
        let draft = held_change_draft(&record, because)?;
        let appended = self.work.ledger.append_as(&self.work.tenant, vec![(None, draft)]);
        let appended = appended.map_err(WorkError::Unsubmitted)?;
        #[expect(
            clippy::expect_used,
            reason = "the ledger answers each entry of an append, and this has one"
        )]
        let entry = appended.first().expect("the ledger answered an append").id.to_string();
        Ok(self.runs.add(Event::Submitted { run: *run, entry })?)
    }

    /// The entry that holds the change of a run, if it was held and the ledger has it. One that is in another ledger is not named.
    ///
    /// # Errors
    /// When the ledger does not answer: a receipt without the entry would look like one of a change that no one held.
    pub(super) fn submitted(&self, run: &Uuid) -> Result<Option<LedgerId>, WorkError> {
        let state = self.runs.state()?;
        let Some(entry) = state.submitted.get(run) else { return Ok(None) };
        let entry = LedgerId::parse(entry).map_err(SealError::Name)?;
        Ok(self.work.ledger.get(&self.work.tenant, &entry)?.map(|entry| entry.id))
    }
}

/// The record that is next to a held change; one of an earlier version has none.
fn stored(work: &Work, run: &Uuid) -> Result<Option<HeldChangeRecord>, WorkError> {
    let parse = |bytes: &[u8]| HeldChangeRecord::parse(bytes).ok();
    Ok(work.runs.document_if_there(run, SUBJECT_FILE, parse)?)
}

/// Refuses a change that is not the one that people were shown: record, diff, states and target. That the rest of it is as it was held was
/// checked before.
pub(super) fn check(work: &Work, run: &Uuid, held: &HeldChange) -> Result<HeldChangeRecord, WorkError> {
    let altered = |what: &str| WorkError::Altered {
        run: work.runs.short(run),
        what: format!("{what}, which people decide about,"),
    };
    let id = LedgerId::parse(&run.to_string()).map_err(SealError::Name)?;
    let shown = held_change(&work.ledger, &work.tenant, &id)?;
    let (_, shown) = shown.ok_or_else(|| WorkError::NotSubmitted(work.runs.short(run)))?;
    let own = stored(work, run)?.ok_or_else(|| WorkError::NotSubmitted(work.runs.short(run)))?;
    if own != shown {
        return Err(altered("the record of the change"));
    }
    let diff = work.runs.read(run, DIFF_FILE)?;
    if diff.map(|diff| Blake3::of(&diff)) != Some(shown.diff_digest) {
        return Err(altered("the diff"));
    }
    let prepared = work.workspace.resume(&held.publish)?;
    if prepared.before().digest() != shown.base_state || prepared.after().digest() != shown.after_state {
        return Err(altered("the state that it leads to"));
    }
    let target = held
        .branch
        .as_ref()
        .map_or_else(|| WORKSPACE_TARGET.as_str().to_owned(), |branch| format!("branch:{}", branch.name));
    match shown.target.as_str() == target {
        true => Ok(shown),
        false => Err(altered("the target")),
    }
}
