//! Recording a run: its receipt and result, the journal's line, the ledger's entry. Owns the order of these steps, so
//! that the next start can recover from a crash between any two of them.

use std::path::Path;

use crealeph_contracts::attestation::StatedBounds;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::{Blake3, GitHash};
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::provenance::{AgentFacts, RunOrigin};
use crealeph_contracts::receipt::{self, EarlierRun, Receipt};
use crealeph_contracts::run_result::{AbsolutePath, ArtifactHashes, RunMetrics, RunStatus};
use crealeph_contracts::scalar::{Amount, Count, Name, Text, TimeoutMs};
use crealeph_contracts::shape::List;
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::{RunResult, WorkItem};
use crealeph_decision::work::{Ending, run_hash};
use crealeph_workspace::{Change, DIFF_ALGORITHM};

pub(super) use super::receipt::{DIFF_FILE, RESULT_FILE};

use super::clean;
use super::config::WorkAgent;
use super::engine::Work;
use super::error::WorkError;
use super::held_proof::HELD_ENVELOPE;
use super::hold::HELD_FILE;
use super::journal::{CapsuleState, EarlierLink, Event, FinishedRun, PublishTarget, StartedRun};
use super::pack;
use super::receipt::{
    DeltaLists, ENVELOPE_FILE, ITEM_FILE, RECEIPT_FILE, ReceiptFacts, RunFile, SealError, SealedReceipt, seal,
};
use super::result::ItemResult;
use super::run::count;
use super::stage::{RunEvidence, RunIdentity, UnlandedChange};
use super::store::{LockedRuns, RunsError};
use super::subject::SUBJECT_FILE;
use super::tasks;
use super::trace::Trace;

pub(super) const STDOUT_FILE: &str = "stdout.txt";
pub(super) const STDERR_FILE: &str = "stderr.txt";
/// Who started a run and with which program, until it has ended.
pub(super) const ORIGIN_FILE: &str = "origin.json";
/// What only a run has that has not ended.
pub(super) const TRANSIENT_FILES: [&str; 4] = [HELD_FILE, HELD_ENVELOPE, SUBJECT_FILE, ORIGIN_FILE];
/// The entry of a receipt, kept next to it until the ledger has it.
pub(super) const ENTRY_FILE: &str = "entry.json";

/// A change that is about to land, once it is settled what it lands on.
#[derive(Debug)]
pub(super) struct Landing {
    pub(super) before: Blake3,
    pub(super) after: Blake3,
    pub(super) changes: Vec<Change>,
    pub(super) commit: Option<(String, GitHash)>,
    pub(super) publish: PublishTarget,
}

/// Writes the outcomes of runs, while no one else does.
#[derive(Debug)]
pub(super) struct RunWriter<'w> {
    pub(super) work: &'w Work,
    pub(super) runs: LockedRuns<'w>,
}

impl<'w> RunWriter<'w> {
    pub(super) fn new(work: &'w Work) -> Result<Self, WorkError> {
        Ok(RunWriter { work, runs: work.runs.lock()? })
    }

    /// Says that a run is about to start, so that it has a receipt whatever happens.
    pub(super) fn start(&self, identity: &RunIdentity) -> Result<(), WorkError> {
        let RunIdentity { id, item, batch, before, request, origin, .. } = identity;
        let origin = origin.iter().map(|origin| RunFile::new(ORIGIN_FILE, origin.to_json()));
        let files: Vec<RunFile> = origin.chain([RunFile::new(ITEM_FILE, to_json(item))]).collect();
        self.runs.write(id, &files)?;
        let started = StartedRun {
            item: item.id.clone(),
            batch: *batch,
            owner: self.work.runs.owner(),
            at: super::now(),
            before: *before,
            agent: Some(request.agent.clone()),
            robot: request.robot.clone(),
            earlier: request.earlier.as_ref().map(EarlierLink::from),
        };
        Ok(self.runs.add(Event::Started { run: *id, started })?)
    }

    /// Writes the outcome of a run that did not land, with its change if that can be judged again.
    pub(super) fn close(
        &self,
        evidence: &RunEvidence,
        ending: &Ending,
        unlanded: Option<&UnlandedChange>,
    ) -> Result<ItemResult, WorkError> {
        let mut facts = self.facts(evidence, None, Some(ending))?;
        let result = self.result(evidence, &facts)?;
        facts.beside = beside(evidence, &result);
        if !matches!(ending, Ending::SecretFound(_)) {
            facts.beside.extend(self.work.runs.outputs(&facts.id)?);
        }
        let kept = ending.keeps_change().then(|| pack::keep(self.work, evidence, unlanded));
        let (capsule, file) = kept.map_or((None, None), |(state, file)| (Some(state), file));
        facts.beside.extend(file);
        let finished = FinishedParts {
            is_interrupted: *ending == Ending::Interrupted,
            capsule,
            ..FinishedParts::new(&evidence.identity)
        };
        let has_kept = finished.capsule == Some(CapsuleState::Kept);
        self.finish(facts, finished)?;
        if has_kept {
            clean::trim_capsules(self.work, &self.runs)?;
        }
        Ok(result)
    }

    /// Writes the outcome of a run that succeeded and changed nothing: there is nothing to land.
    pub(super) fn finish_unchanged(&self, evidence: &RunEvidence) -> Result<ItemResult, WorkError> {
        let mut facts = self.facts(evidence, None, None)?;
        let result = self.result(evidence, &facts)?;
        facts.beside = beside(evidence, &result);
        facts.beside.extend(self.work.runs.outputs(&facts.id)?);
        let identity = &evidence.identity;
        let run_hash = Some(run_hash(&facts.before, &facts.after, &identity.item));
        self.finish(facts, FinishedParts { run_hash, ..FinishedParts::new(identity) })?;
        Ok(result)
    }

    /// Writes the outcome of a run that is to land, lands it through `publish`, and says that it did. If that fails
    /// the files stay, for the outcome that is written instead; those of a held change stay in any case until it has landed.
    pub(super) fn land(
        &self,
        evidence: &RunEvidence,
        landing: &Landing,
        publish: impl FnOnce() -> Result<(), WorkError>,
    ) -> Result<ItemResult, WorkError> {
        let mut facts = self.facts(evidence, Some(landing), None)?;
        facts.previous = self.runs.state()?.head();
        let result = self.result(evidence, &facts)?;
        facts.beside = beside(evidence, &result);
        facts.beside.extend(self.work.runs.outputs(&facts.id)?);
        let sealed = self.seal(&facts)?;
        let identity = &evidence.identity;
        let parts = FinishedParts {
            run_hash: Some(run_hash(&facts.before, &facts.after, &identity.item)),
            ..FinishedParts::new(identity)
        };
        let finished = Box::new(parts.of(&facts, &sealed));
        self.runs.put(&facts.id, &files(&sealed))?;
        self.runs.add(Event::Prepared {
            run: facts.id,
            publish: landing.publish.clone(),
            finished: finished.clone(),
        })?;
        publish()?;
        self.runs.remove(&facts.id, &TRANSIENT_FILES)?;
        self.runs.add(Event::Finished(finished))?;
        self.record(&facts.id, sealed.entry)?;
        Ok(result)
    }

    /// Writes a receipt over others: the merge of a level.
    pub(super) fn merge(&self, facts: ReceiptFacts, batch: &Blake3) -> Result<(), WorkError> {
        let parts = FinishedParts { batch, is_interrupted: false, run_hash: None, capsule: None };
        self.finish(facts, parts)
    }

    /// Writes a receipt for a run whose process ended.
    pub(super) fn close_interrupted(&self, run: &Uuid, started: &StartedRun) -> Result<(), WorkError> {
        let item = self.work.runs.document(run, ITEM_FILE, parse_item)?;
        // One that an older version started has none.
        let parse = |bytes: &[u8]| RunOrigin::parse(bytes).ok();
        let origin = self.work.runs.document_if_there(run, ORIGIN_FILE, parse)?;
        let (agent, started_by) = origin.map(|origin| (origin.agent, origin.started_by)).unzip();
        let task = tasks::origin(self.work, &item.id)?;
        let (robot, lineage) = tasks::bound_to(task.as_ref(), started.robot.as_ref());
        let (started_at, finished_at) = (started.at.clone(), super::now());
        let nothing = ReceiptFacts::unchanged(*run, item.agent_id, started_at.clone(), started.before, robot);
        let why = format!("{}: its process ended before it was over", Ending::Interrupted.reason());
        let facts = ReceiptFacts {
            item: Some(item),
            finished_at: if finished_at.instant() < started_at.instant() { started_at } else { finished_at },
            status: RunStatus::Failure,
            error: Text::new(&why),
            agent,
            started_by,
            earlier_run: started.earlier.as_ref().map(EarlierRun::from),
            lineage,
            beside: self.work.runs.outputs(run)?,
            ..nothing
        };
        let batch = &started.batch;
        let parts = FinishedParts { batch, is_interrupted: true, run_hash: None, capsule: None };
        self.finish(facts, parts)
    }

    /// Appends the entry of a receipt to the ledger, and says so.
    pub(super) fn record(&self, run: &Uuid, entry: Draft) -> Result<(), WorkError> {
        let appended = self.work.ledger.append_as(&self.work.tenant, vec![(None, entry)]);
        let appended = appended.map_err(WorkError::Unrecorded)?;
        #[expect(
            clippy::expect_used,
            reason = "the ledger answers each entry of an append, and this has one"
        )]
        let entry = appended.first().expect("the ledger answered an append").id.to_string();
        Ok(self.runs.add(Event::Recorded { run: *run, entry })?)
    }

    /// A receipt that has no place in the chain yet.
    pub(super) fn unsealed(&self, evidence: &RunEvidence, landing: &Landing) -> Result<Receipt, WorkError> {
        Ok(self.seal(&self.facts(evidence, Some(landing), None)?)?.receipt.into_inner())
    }

    /// Seals a receipt at the end of the chain, and writes that its run has ended.
    fn finish(&self, facts: ReceiptFacts, parts: FinishedParts<'_>) -> Result<(), WorkError> {
        let facts = ReceiptFacts { previous: self.runs.state()?.head(), ..facts };
        let sealed = self.seal(&facts)?;
        let finished = parts.of(&facts, &sealed);
        self.runs.write(&facts.id, &files(&sealed))?;
        self.runs.add(Event::Finished(Box::new(finished)))?;
        self.record(&facts.id, sealed.entry)
    }

    /// Seals facts; an entry that is too large for the ledger names the receipt instead of holding it.
    fn seal(&self, facts: &ReceiptFacts) -> Result<SealedReceipt, WorkError> {
        let mut sealed = seal(facts, &self.work.signer, self.work.workspace.store())?;
        if sealed.entry.payload.canonical().len() > self.work.ledger.limits().payload_bytes {
            let envelope = sealed.files.iter().find(|file| file.name == ENVELOPE_FILE);
            #[expect(
                clippy::expect_used,
                reason = "sealing makes the envelope's file, whatever else it makes"
            )]
            let envelope = Blake3::of(&envelope.expect("a sealed receipt has an envelope").bytes).to_string();
            sealed.entry.payload = JsonObject::build(|object| {
                object.text("receiptId", &facts.id.to_string());
                object.text("receiptHash", &sealed.receipt.receipt_hash.to_string());
                object.text("envelopeHash", &envelope);
            });
        }
        Ok(sealed)
    }

    /// What a receipt says of a run that lands, or that has ended.
    fn facts(
        &self,
        evidence: &RunEvidence,
        landing: Option<&Landing>,
        ending: Option<&Ending>,
    ) -> Result<ReceiptFacts, WorkError> {
        let RunEvidence { identity, times, agent, change, admission, tests, verdicts } = evidence;
        let origin = identity.origin.as_ref();
        let request = &identity.request;
        let (robot, mut lineage) = tasks::bound_to(request.task.as_ref(), request.robot.as_ref());
        lineage.extend(self.submitted(&identity.id)?);
        let amount = |value: Option<f64>| value.and_then(Amount::new);
        Ok(ReceiptFacts {
            id: identity.id,
            agent_id: identity.item.agent_id,
            item: Some(identity.item.clone()),
            started_at: times.started_at.clone(),
            finished_at: times.finished_at.clone(),
            status: ending.map_or(RunStatus::Success, Ending::status),
            error: ending.and_then(|ending| Text::new(ending.reason())),
            before: landing.map_or(identity.before, |landing| landing.before),
            after: landing.map_or(identity.before, |landing| landing.after),
            changes: landing.map_or_else(Vec::new, |landing| landing.changes.clone()),
            proof_artifacts: Vec::new(),
            deltas: landing.map_or_else(DeltaLists::default, |_| change.deltas.clone()),
            diff_algorithm: DIFF_ALGORITHM,
            tool_trace: agent.trace.calls.clone(),
            tokens_used: amount(agent.trace.tokens),
            cost_usd: amount(agent.trace.cost_usd),
            test_log: tests.as_ref().map(|tests| tests.output.clone()),
            strength: agent.strength,
            sandbox: agent.sandbox.clone(),
            bounds: Some(identity.bounds.clone()),
            admission: admission.clone(),
            merged: Vec::new(),
            commit: landing.and_then(|landing| landing.commit.clone()),
            connections: agent.connections.clone(),
            connections_left_off: agent.connections_left_off,
            agent: origin.map(|origin| AgentFacts { models: models(&agent.trace), ..origin.agent.clone() }),
            started_by: origin.map(|origin| origin.started_by.clone()),
            verdicts: verdicts.clone(),
            hidden: agent.hidden.clone().filter(|_| origin.is_some()),
            earlier_run: request.earlier.clone(),
            previous: None,
            robot,
            lineage,
            beside: Vec::new(),
        })
    }

    /// The RunResult, exactly as the contract has it.
    fn result(&self, evidence: &RunEvidence, facts: &ReceiptFacts) -> Result<ItemResult, WorkError> {
        let RunEvidence { identity, times, agent, change, admission, tests, .. } = evidence;
        let folder = self.work.runs.folder(&facts.id);
        let inside = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let root = self.work.workspace.path();
        let of_kind = |wanted: receipt::ArtifactChange| {
            let paths = facts.changes.iter().filter(|change| change.in_receipt() == wanted);
            paths.filter_map(|change| AbsolutePath::parse(&absolute(root, change))).collect()
        };
        let hashes = facts.changes.iter().filter_map(|change| {
            Some((absolute(root, change).into(), change.after.as_ref()?.content_digest()))
        });
        let counts = tests.as_ref().and_then(|tests| tests.counts);
        let touched = admission.as_ref().map(|admission| admission.files_touched);
        let touched = touched.or_else(|| Count::new(change.files? as u64));
        let is_denied = facts.status == RunStatus::Denied;
        let result = RunResult {
            status: facts.status,
            receipt_id: facts.id,
            receipt_path: Text::new(&inside(RECEIPT_FILE))
                .ok_or_else(|| RunsError::Unreadable(folder.clone()))?,
            modified_files: of_kind(receipt::ArtifactChange::Modified),
            created_files: of_kind(receipt::ArtifactChange::Created),
            deleted_files: of_kind(receipt::ArtifactChange::Deleted),
            output_hash: facts.after,
            artifact_hashes: ArtifactHashes::new(hashes.collect()),
            metrics: RunMetrics {
                execution_time_ms: Amount::new(times.execution_ms.round()).unwrap_or(Amount::ZERO),
                tool_ops_count: count(agent.trace.count),
                delta_size: count(change.counts.size()),
                files_touched: touched.unwrap_or(Count::ZERO),
                tests_passed: counts.map(|counts| count(counts.passed)),
                tests_failed: counts.map(|counts| count(counts.failed)),
            },
            test_output: facts.test_log.as_deref().map(Into::into),
            proof_script: facts.proof_script().and_then(|name| Text::new(&inside(&name))),
            error: facts.error.clone().filter(|_| !is_denied),
            denial_reason: facts.error.clone().filter(|_| is_denied),
        };
        let result = Valid::check(result).map_err(SealError::from)?;
        Ok(ItemResult { item: identity.item.id.clone(), result })
    }
}

/// What the journal says of a finished run, in addition to what its receipt says.
struct FinishedParts<'p> {
    batch: &'p Blake3,
    is_interrupted: bool,
    run_hash: Option<Blake3>,
    capsule: Option<CapsuleState>,
}

impl<'p> FinishedParts<'p> {
    /// Of a run that was not interrupted.
    fn new(identity: &'p RunIdentity) -> Self {
        FinishedParts { batch: &identity.batch, is_interrupted: false, run_hash: None, capsule: None }
    }

    fn of(self, facts: &ReceiptFacts, sealed: &SealedReceipt) -> FinishedRun {
        FinishedRun {
            run: facts.id,
            item: facts.item.as_ref().map(|item| item.id.clone()),
            batch: *self.batch,
            status: facts.status,
            is_interrupted: self.is_interrupted,
            receipt: sealed.receipt.receipt_hash,
            run_hash: self.run_hash,
            before: facts.before,
            after: facts.after,
            at: facts.finished_at.clone(),
            branch: facts.commit.as_ref().map(|(branch, _)| branch.clone()),
            capsule: self.capsule,
        }
    }
}

/// A work item that was kept next to its run.
pub(super) fn parse_item(bytes: &[u8]) -> Option<WorkItem> {
    Valid::parse(bytes, &Limits::own(usize::MAX)).ok().map(Valid::into_inner)
}

/// What is written of a sealed receipt, with its entry until the ledger has it.
fn files(sealed: &SealedReceipt) -> Vec<RunFile> {
    let mut all = sealed.files.clone();
    all.push(RunFile::new(ENTRY_FILE, to_json(&sealed.entry)));
    all
}

/// What is next to a receipt: the result, the diff and the outputs.
fn beside(evidence: &RunEvidence, result: &ItemResult) -> Vec<RunFile> {
    vec![
        RunFile::new(RESULT_FILE, result.to_json()),
        RunFile::new(DIFF_FILE, evidence.change.diff.clone()),
        RunFile::new(STDOUT_FILE, evidence.agent.stdout.clone()),
        RunFile::new(STDERR_FILE, evidence.agent.stderr.clone()),
    ]
}

/// The models that an agent reported, if it did.
pub(super) fn models(trace: &Trace) -> Option<List<Name>> {
    (!trace.models.is_empty()).then(|| trace.models.iter().cloned().collect())
}

/// The bounds of a run as its statement has them.
pub(super) fn stated_bounds(item: &WorkItem, agent: &WorkAgent) -> StatedBounds {
    let bounds = item.bounds();
    let rules = &agent.path_source;
    let texts = |globs: &[String]| globs.iter().filter_map(|glob| Text::new(glob)).collect();
    let mut denied = rules.denied.clone();
    if !rules.allow_laws {
        denied.extend(rules.laws.iter().cloned());
    }
    StatedBounds {
        max_files: count(bounds.max_files),
        max_tool_ops: count(bounds.max_tool_ops),
        max_delta_size: count(bounds.max_delta_size),
        timeout_ms: TimeoutMs::new(bounds.timeout_ms).unwrap_or(TimeoutMs::LEAST),
        max_tokens: agent.max_tokens.and_then(|tokens| Count::new(tokens as u64)),
        max_cost_usd: agent.max_cost.and_then(Amount::new),
        allowed_paths: rules.allowed.as_ref().map(|globs| texts(globs)),
        denied_paths: texts(&denied),
        max_laws: rules.max_laws.and_then(Count::new),
        max_invariants: rules.max_invariants.and_then(Count::new),
        max_projections: rules.max_projections.and_then(Count::new),
        max_others: rules.max_others.and_then(Count::new),
        hosts: agent.granted.hosts.iter().filter_map(|host| Name::parse(&host.to_string()).ok()).collect(),
        private_hosts: agent.granted.allows_private.then_some(true),
    }
}

fn absolute(root: &Path, change: &Change) -> String {
    root.join(change.path.as_str()).to_string_lossy().into_owned()
}
