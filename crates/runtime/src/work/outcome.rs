//! The outcome of a run, written: its receipt and result, the journal's word, the ledger's entry. Owns the order of these
//! steps, so that a crash between any two of them leaves what the next start can settle.

use std::path::Path;

use crealeph_contracts::attestation::StatedBounds;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::{Blake3, GitHash};
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::{JsonObject, Limits, push_text};
use crealeph_contracts::run_result::{AbsolutePath, ArtifactHashes, RunMetrics, RunStatus};
use crealeph_contracts::scalar::{Amount, Count, LedgerId, Literal, Name, RobotId, Text, TimeoutMs};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::{Receipt, RunResult, WorkItem};
use crealeph_workspace::{Change, DIFF_ALGORITHM};

use super::config::WorkAgent;
use super::engine::{Work, WorkError};
use super::receipt::{Deltas, ENVELOPE_FILE, Facts, ITEM_FILE, RECEIPT_FILE, SealError, Sealed, seal};
use super::run::{Ending, Ran};
use super::store::{Begun, Event, Finished, Locked, RunFile};

/// The robot of receipts that are bound to none.
const NO_ROBOT: Literal = Literal::new("workspace");
const INTERRUPTED: &str = "the run was interrupted";
/// How much of each output of an agent is kept in its run's folder.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
pub(super) const RESULT_FILE: &str = "result.json";
pub(super) const DIFF_FILE: &str = "change.diff";
pub(super) const STDOUT_FILE: &str = "stdout.txt";
pub(super) const STDERR_FILE: &str = "stderr.txt";
/// The entry of a receipt, kept beside it until the ledger has it.
pub(super) const ENTRY_FILE: &str = "entry.json";

/// What a successful change is, once it is settled what it is committed on.
pub(super) struct Landing {
    pub(super) before: Blake3,
    pub(super) after: Blake3,
    pub(super) changes: Vec<Change>,
    pub(super) commit: Option<(String, GitHash)>,
    /// By which name the journal knows whether it landed.
    pub(super) publish: String,
}

impl Work {
    /// What the record says of a run, with its outcome.
    pub(super) fn facts(
        &self,
        ran: &Ran,
        agent: &WorkAgent,
        landing: Option<&Landing>,
        previous: Option<Blake3>,
    ) -> Facts {
        let (status, error) = told(&ran.ending);
        let (robot, lineage) = self.bound_to(Some(&ran.item));
        let amount = |value: Option<f64>| value.and_then(Amount::new);
        let is_success = landing.is_some();
        Facts {
            id: ran.id,
            agent_id: ran.item.agent_id,
            item: Some(ran.item.clone()),
            command: ran.command.clone(),
            started_at: ran.started_at.clone(),
            finished_at: ran.finished_at.clone(),
            status,
            error: error.and_then(|error| Text::new(&error)),
            workspace: self.workspace.path().to_owned(),
            before: landing.map_or(ran.before, |landing| landing.before),
            after: landing.map_or(ran.before, |landing| landing.after),
            changes: landing.map(|landing| landing.changes.clone()).unwrap_or_default(),
            proof_artifacts: Vec::new(),
            deltas: if is_success { ran.deltas.clone() } else { Deltas::default() },
            diff_algorithm: DIFF_ALGORITHM,
            tool_trace: ran.trace.calls.clone(),
            tokens_used: amount(ran.trace.tokens),
            cost_usd: amount(ran.trace.cost_usd),
            test_log: ran.tested.as_ref().map(|tested| tested.output.clone()),
            strength: ran.strength,
            sandbox: ran.sandbox.clone(),
            bounds: Some(stated_bounds(&ran.item, agent)),
            admission: ran.admission.clone(),
            merged: Vec::new(),
            commit: landing.and_then(|landing| landing.commit.clone()),
            connections: ran.connections.clone(),
            discarded: ran.discarded.clone(),
            previous,
            robot,
            lineage,
            beside: Vec::new(),
        }
    }

    /// The robot that a receipt names, and the entries it rests on. What cannot be read now is left out: a receipt is
    /// written all the same.
    pub(super) fn bound_to(&self, item: Option<&WorkItem>) -> (RobotId, Vec<LedgerId>) {
        let origin = item.and_then(|item| self.origin(&item.id).ok().flatten());
        let robot = || self.robot.clone().unwrap_or_else(|| NO_ROBOT.into());
        origin.map_or_else(|| (robot(), Vec::new()), |(robot, id)| (robot, vec![id]))
    }

    /// Writes the outcome of a run that changed nothing.
    pub(super) fn close(
        &self,
        locked: &Locked<'_>,
        ran: &Ran,
        agent: &WorkAgent,
        batch: &str,
    ) -> Result<Valid<RunResult>, WorkError> {
        let previous = self.runs.history()?.head();
        let mut facts = self.facts(ran, agent, None, previous);
        let result = self.result(ran, &facts)?;
        facts.beside = beside(ran, &result);
        let sealed = self.seal(&facts)?;
        let finished = finished(&facts, &sealed, batch, ran.ending == Ending::Interrupted, None);
        let run = facts.id.to_string();
        locked.write(&run, &files(&sealed))?;
        locked.add(&Event::Finished(Box::new(finished)))?;
        self.record(locked, &run, sealed.entry)?;
        Ok(result)
    }

    /// Writes the outcome of a run that is to land, lands it through `publish`, and says that it did. Where that fails
    /// the files stay, for the outcome that is written instead.
    pub(super) fn land(
        &self,
        locked: &Locked<'_>,
        ran: &Ran,
        agent: &WorkAgent,
        batch: &str,
        landing: &Landing,
        publish: impl FnOnce() -> Result<(), WorkError>,
    ) -> Result<Valid<RunResult>, WorkError> {
        let previous = self.runs.history()?.head();
        let mut facts = self.facts(ran, agent, Some(landing), previous);
        let result = self.result(ran, &facts)?;
        facts.beside = beside(ran, &result);
        let sealed = self.seal(&facts)?;
        let hash = crealeph_decision::work::run_hash(&facts.before, &facts.after, &ran.item);
        let finished = Box::new(finished(&facts, &sealed, batch, false, Some(hash)));
        let run = facts.id.to_string();
        locked.write(&run, &files(&sealed))?;
        locked.add(&Event::Prepared {
            run: run.clone(),
            publish: landing.publish.clone(),
            finished: finished.clone(),
        })?;
        publish()?;
        locked.add(&Event::Finished(finished))?;
        self.record(locked, &run, sealed.entry)?;
        Ok(result)
    }

    /// Seals facts; an entry that the ledger would not take for its size names the receipt instead of holding it.
    fn seal(&self, facts: &Facts) -> Result<Sealed, WorkError> {
        let mut sealed = seal(facts, &self.signer, self.workspace.store())?;
        if sealed.entry.payload.canonical().len() > self.ledger.limits().payload_bytes {
            let envelope = sealed.files.iter().find(|(name, ..)| name == ENVELOPE_FILE);
            let envelope = envelope.map(|(_, bytes, _)| Blake3::of(bytes).to_string());
            sealed.entry.payload = JsonObject::build(|object| {
                object.text("receiptId", &facts.id.to_string());
                object.text("receiptHash", &sealed.receipt.receipt_hash.to_string());
                object.text("envelopeHash", envelope.as_deref().unwrap_or_default());
            });
        }
        Ok(sealed)
    }

    /// A receipt that has no place in the chain yet.
    pub(super) fn unsealed(&self, facts: &Facts) -> Result<Receipt, WorkError> {
        Ok(self.seal(facts)?.receipt.into_inner())
    }

    /// Writes a receipt over others: the merge of a level.
    pub(super) fn write_merge(
        &self,
        locked: &Locked<'_>,
        facts: &Facts,
        batch: &str,
    ) -> Result<(), WorkError> {
        let sealed = self.seal(facts)?;
        let run = facts.id.to_string();
        locked.write(&run, &files(&sealed))?;
        locked.add(&Event::Finished(Box::new(finished(facts, &sealed, batch, false, None))))?;
        self.record(locked, &run, sealed.entry)
    }

    /// A receipt for a run whose process ended.
    pub(super) fn close_interrupted(
        &self,
        locked: &Locked<'_>,
        run: &str,
        begun: &Begun,
    ) -> Result<(), WorkError> {
        let damaged = || WorkError::Damaged(self.runs.folder(run));
        let id = Uuid::parse(run).ok_or_else(damaged)?;
        let bytes = self.runs.read(run, ITEM_FILE)?.unwrap_or_default();
        let item = Valid::<WorkItem>::parse(&bytes, &Limits::own(usize::MAX)).map_err(|_| damaged())?;
        let before = Blake3::parse(&begun.before).ok_or_else(damaged)?;
        let started_at = Timestamp::parse(&begun.at).map_err(|_| damaged())?;
        let finished_at = super::now();
        let (robot, lineage) = self.bound_to(Some(&item));
        let nothing =
            Facts::unchanged(id, item.agent_id, started_at.clone(), self.workspace.path(), before, robot);
        let facts = Facts {
            item: Some(item.into_inner()),
            finished_at: if finished_at.instant() < started_at.instant() { started_at } else { finished_at },
            status: RunStatus::Failure,
            error: Text::new(&format!("{INTERRUPTED}: its process ended before it was over")),
            previous: self.runs.history()?.head(),
            lineage,
            ..nothing
        };
        let sealed = self.seal(&facts)?;
        locked.write(run, &files(&sealed))?;
        locked.add(&Event::Finished(Box::new(finished(&facts, &sealed, &begun.batch, true, None))))?;
        self.record(locked, run, sealed.entry)
    }

    /// The RunResult, exactly as the contract has it.
    fn result(&self, ran: &Ran, facts: &Facts) -> Result<Valid<RunResult>, WorkError> {
        let folder = self.runs.folder(&facts.id.to_string());
        let inside = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let root = self.workspace.path();
        let of_kind = |wanted: crealeph_contracts::receipt::Change| {
            let paths = facts.changes.iter().filter(|change| change.in_receipt() == wanted);
            paths.filter_map(|change| AbsolutePath::parse(&absolute(root, change))).collect()
        };
        let hashes = facts.changes.iter().filter_map(|change| {
            Some((absolute(root, change).into(), change.after.as_ref()?.content_digest()))
        });
        let count = |number: u64| Count::new(number).unwrap_or(Count::ZERO);
        let counts = ran.tested.as_ref().and_then(|tested| tested.counts);
        let touched = ran.admission.as_ref().map(|admission| admission.files_touched);
        let touched = touched.or_else(|| Count::new(ran.capsule.as_ref()?.changes().len() as u64));
        let error = facts.error.clone();
        let is_denied = facts.status == RunStatus::Denied;
        let result = RunResult {
            status: facts.status,
            receipt_id: facts.id,
            receipt_path: Text::new(&inside(RECEIPT_FILE)).ok_or(WorkError::Damaged(folder.clone()))?,
            modified_files: of_kind(crealeph_contracts::receipt::Change::Modified),
            created_files: of_kind(crealeph_contracts::receipt::Change::Created),
            deleted_files: of_kind(crealeph_contracts::receipt::Change::Deleted),
            output_hash: facts.after,
            artifact_hashes: ArtifactHashes::new(hashes.collect()),
            metrics: RunMetrics {
                execution_time_ms: Amount::new(ran.execution_ms.round()).unwrap_or(Amount::ZERO),
                tool_ops_count: count(ran.trace.count),
                delta_size: count(ran.delta_counts.size()),
                files_touched: touched.unwrap_or(Count::ZERO),
                tests_passed: counts.map(|counts| count(counts.passed)),
                tests_failed: counts.map(|counts| count(counts.failed)),
            },
            test_output: facts.test_log.as_deref().map(Into::into),
            proof_script: facts.proof_script().and_then(|name| Text::new(&inside(&name))),
            error: error.clone().filter(|_| !is_denied),
            denial_reason: error.filter(|_| is_denied),
        };
        Ok(Valid::check(result).map_err(SealError::from)?)
    }
}

/// What is written of a sealed receipt, with its entry until the ledger has it.
fn files(sealed: &Sealed) -> Vec<RunFile> {
    let mut all = sealed.files.clone();
    all.push((ENTRY_FILE.to_owned(), to_json(&sealed.entry).into_bytes(), false));
    all
}

/// What lies beside a receipt: the result, the diff and the outputs, each within its bound.
fn beside(ran: &Ran, result: &Valid<RunResult>) -> Vec<(String, Vec<u8>)> {
    let bounded = |bytes: &[u8]| bytes.get(..bytes.len().min(MAX_OUTPUT_BYTES)).unwrap_or_default().to_vec();
    let all = [
        (RESULT_FILE, line(&ran.item, result).into_bytes()),
        (DIFF_FILE, ran.diff.clone().into_bytes()),
        (STDOUT_FILE, bounded(&ran.stdout)),
        (STDERR_FILE, bounded(&ran.stderr)),
    ];
    all.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// A result with its item's id beside it, as a pipe gets it.
pub(super) fn line(item: &WorkItem, result: &Valid<RunResult>) -> String {
    let mut text = "{\"id\":".to_owned();
    push_text(&mut text, item.id.as_str());
    text.push(',');
    text.push_str(result.to_json().strip_prefix('{').unwrap_or_default());
    text
}

fn finished(
    facts: &Facts,
    sealed: &Sealed,
    batch: &str,
    interrupted: bool,
    run_hash: Option<Blake3>,
) -> Finished {
    Finished {
        run: facts.id.to_string(),
        item: facts.item.as_ref().map(|item| item.id.to_string()),
        batch: batch.to_owned(),
        status: facts.status.to_string(),
        interrupted,
        receipt: sealed.receipt.receipt_hash.to_string(),
        run_hash: run_hash.map(|hash| hash.to_string()),
        before: facts.before.to_string(),
        after: facts.after.to_string(),
        at: facts.finished_at.as_str().to_owned(),
    }
}

/// The contract's word for an ending, and its reason.
fn told(ending: &Ending) -> (RunStatus, Option<String>) {
    match ending {
        Ending::Admitted => (RunStatus::Success, None),
        Ending::Failed(why) => (RunStatus::Failure, Some(why.clone())),
        Ending::Denied(why) => (RunStatus::Denied, Some(why.clone())),
        Ending::TimedOut(why) => (RunStatus::Timeout, Some(why.clone())),
        Ending::Interrupted => (RunStatus::Failure, Some(INTERRUPTED.to_owned())),
    }
}

fn stated_bounds(item: &WorkItem, agent: &WorkAgent) -> StatedBounds {
    let bounds = item.bounds();
    let rules = &agent.path_source;
    let texts = |globs: &[String]| globs.iter().filter_map(|glob| Text::new(glob)).collect();
    let mut denied = rules.denied.clone();
    if !rules.allow_laws {
        denied.extend(rules.laws.iter().cloned());
    }
    let count = |number: u64| Count::new(number).unwrap_or(Count::ZERO);
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
    }
}

fn absolute(root: &Path, change: &Change) -> String {
    root.join(change.path.as_str()).to_string_lossy().into_owned()
}
