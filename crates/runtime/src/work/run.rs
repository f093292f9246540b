//! One run of a work item in its own view: the agent under guard, its actual change, admission, tests. Owns the
//! steps from one stage to the next; touches nothing outside the view.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_contracts::WorkItem;
use crealeph_contracts::attestation::{Admission, SandboxFacts};
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::receipt::{Connection, ConnectionRefusal, RunRelation, SandboxStrength};
use crealeph_contracts::scalar::{Count, Name, Text};
use crealeph_contracts::text::with_causes;
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::work::{
    AgentEnd, Ending, ExceededLimit, JudgedChange, ProcessEnd, ReportLimits, admit, agent_ending, run_hash,
};
use crealeph_sandbox::{
    Cancel, Captured, ConnectionVerdict, Exit, HOME, Level, Mount, RunFailure, Sandbox, SandboxError,
    SandboxOutcome, Seed, Spec, Stdin, TRACE_CHANNEL, View,
};
use crealeph_workspace::{Change, TreeNode, Workspace};
use tracing::debug_span;

use super::config::WorkAgent;
use super::confine;
use super::freeze::Unread;
use super::guard::Guard;
use super::hidden::HiddenPaths;
use super::interrupt::Interrupt;
use super::log::{LogSource, RunLog};
use super::missing;
use super::pack::CapsuleBounds;
use super::paths;
use super::secrets::RunSecrets;
use super::stage::{
    AdmittedRun, AgentReport, ChangeReport, ChangeSource, EndedRun, ExistingChange, PlannedRun, RunEvidence,
    TestedRun, UnlandedChange, WorkedRun,
};
use super::tests_run::{FailedTests, TestReport, TestRunner};
use super::trace::Trace;
use crate::agents::answer::end;

/// How much of standard error a reason quotes.
const QUOTED_BYTES: usize = 800;
/// How many connections a receipt lists.
const MAX_CONNECTIONS: usize = 1_000;
/// How much of each output of an agent is kept in its run's folder.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// The longest line that says how much was left out.
const CUT_NOTICE_BYTES: usize = 64;
const ITEM_FILE: &str = "work-item.json";
const PROMPT_FILE: &str = "prompt.txt";

/// The progress of a run.
#[derive(Clone, Debug)]
pub enum RunStage {
    /// The agent runs.
    Working {
        /// Tool operations so far.
        tool_ops: u64,
        /// Tokens so far, if reported.
        tokens: Option<f64>,
    },
    /// The agent has ended, and this many files changed.
    Judging {
        /// How many.
        files: usize,
    },
    /// The tests run.
    Testing,
    /// It waits for the others of its level.
    Waiting,
    /// Its change waits for people.
    AwaitingApproval,
}

/// What runs an item: the workspace, the sandbox and the agent.
pub(super) struct ItemRunner<'r> {
    pub(super) workspace: &'r Workspace,
    pub(super) sandbox: &'r Sandbox,
    pub(super) agent: &'r WorkAgent,
    pub(super) interrupt: &'r Interrupt,
    /// Paths of the workspace that no view shows.
    pub(super) private: &'r [PathBuf],
    /// A folder of this run's own for what it needs meanwhile; removed afterwards.
    pub(super) scratch: PathBuf,
    /// What no record may hold.
    pub(super) secrets: RunSecrets,
    /// Where its output is kept as it comes.
    pub(super) log: RunLog,
    /// How much is kept of a change that does not land.
    pub(super) capsules: CapsuleBounds,
    pub(super) progress: &'r (dyn Fn(RunStage) + Sync),
}

/// An agent that was called, and what it wrote into its view.
struct CalledAgent {
    report: AgentReport,
    view: View,
    /// What the view did not show.
    hidden: HiddenPaths,
    /// How many secrets were redacted in what it reported.
    redactions: u64,
    /// How the run ends if the agent's own end decides; absent if it succeeded.
    ending: Option<Ending>,
}

impl ItemRunner<'_> {
    /// Runs an item up to its tests. `earlier` finds a successful run with the same run hash.
    pub(super) fn run(
        &self,
        planned: PlannedRun<'_>,
        source: ChangeSource<'_>,
        earlier: &dyn Fn(&Blake3) -> Option<Uuid>,
    ) -> Result<TestedRun, Box<EndedRun>> {
        let worked = debug_span!("work").in_scope(|| self.work(planned, source));
        let admitted =
            worked.and_then(|worked| debug_span!("admit").in_scope(|| self.admit(worked, earlier)));
        let tested = admitted.and_then(|admitted| debug_span!("test").in_scope(|| self.test(admitted)));
        // What stays is removed when the runs are swept.
        let _ = std::fs::remove_dir_all(&self.scratch);
        (self.progress)(RunStage::Waiting);
        tested
    }

    /// The agent in its view, or the change that takes its place, up to what really changed.
    fn work<'b>(
        &self,
        planned: PlannedRun<'b>,
        source: ChangeSource<'_>,
    ) -> Result<WorkedRun<'b>, Box<EndedRun>> {
        let called = match source {
            ChangeSource::Agent => self.call(&planned),
            ChangeSource::Existing(made) => self.apply(&planned, made),
        };
        let called = match called {
            Ok(called) => called,
            Err(ending) => {
                let agent = AgentReport::not_started(self.agent);
                return Err(self.ended(planned.into_evidence(agent, ChangeReport::default()), ending, None));
            }
        };
        let CalledAgent { report: agent, view, hidden, redactions, ending } = called;
        let read = match self.secrets.in_reports(&agent.trace, redactions) {
            Some(reason) => Err(Box::new(Unread::from(Ending::SecretFound(reason)))),
            None => self.freeze(&planned, &view, &agent.trace, &hidden),
        };
        let read = read.and_then(|frozen| match source {
            ChangeSource::Existing(made) => frozen.checked_against(made),
            ChangeSource::Agent => Ok(frozen),
        });
        let (ending, change, admission) = match (read, ending) {
            (Ok(frozen), None) => return Ok(WorkedRun { planned, agent, frozen, view }),
            (Ok(frozen), Some(ending)) => {
                let (evidence, unlanded) = WorkedRun { planned, agent, frozen, view }.into_ended();
                return Err(self.ended(evidence, ending, Some(unlanded)));
            }
            (Err(unread), None) => (unread.ending, unread.change, unread.admission),
            (Err(unread), Some(ending)) => {
                (Ending::deciding(ending, unread.ending), unread.change, unread.admission)
            }
        };
        let evidence = RunEvidence { admission, ..planned.into_evidence(agent, change) };
        Err(self.ended(evidence, ending, None))
    }

    /// Applies a change that already exists to a view of what the run starts from. What its agent reported is judged again.
    fn apply(&self, planned: &PlannedRun<'_>, made: &ExistingChange) -> Result<CalledAgent, Ending> {
        let not_applied = |error: &dyn std::error::Error| {
            let why = format!("the change could not be applied: {}", with_causes(error));
            self.interrupt.or(Ending::Failed(why))
        };
        let cancel = self.interrupt.cancel().map_err(|error| not_applied(&error))?;
        let tests = self.tests();
        // What a landed run was allowed to change may be restored, though it is not what the commit has now.
        let further = match planned.identity.request.earlier.as_ref().map(|earlier| earlier.relation) {
            Some(RunRelation::Undoes) => &made.changes[..],
            Some(RunRelation::RetryOf) | None => &[],
        };
        let view = tests.changed_view(planned.base.changes, further, &cancel);
        let (view, hidden) = view.map_err(|error| not_applied(&error))?;
        let applied = tests.apply((&view, &hidden), &made.changes, &made.contents, &cancel);
        applied.map_err(|error| not_applied(&error))?;
        let exceeded = made.agent.trace.exceeded(&self.report_limits(&planned.identity.item));
        let ending = match self.interrupt.is_used() {
            true => Some(Ending::Interrupted),
            false => exceeded.map(|exceeded| Ending::OverBound(exceeded.to_string())),
        };
        let report = AgentReport { hidden: Some(hidden.facts(&self.agent.hide)), ..made.agent.clone() };
        Ok(CalledAgent { report, view, hidden, redactions: 0, ending })
    }

    /// Calls the agent in a view of what the run starts from.
    fn call(&self, planned: &PlannedRun<'_>) -> Result<CalledAgent, Ending> {
        let root = self.workspace.path();
        let item = &planned.identity.item;
        let is_there = |path: &str| root.join(path).symlink_metadata().is_ok();
        let state = planned.base.snapshot.state();
        let missing = paths::missing(item.input_files.as_ref(), root, state, is_there);
        if !missing.is_empty() {
            return Err(Ending::Failed(format!("Missing input files: {}", missing.join(", "))));
        }
        let not_run = |error: &dyn std::error::Error| {
            let why = format!("the agent could not be run: {}", with_causes(error));
            self.interrupt.or(Ending::Failed(why))
        };
        let cancel = self.interrupt.cancel().map_err(|error| not_run(&error))?;
        let view = self.tests().changed_view(planned.base.changes, &[], &cancel);
        let (view, hidden) = view.map_err(|error| not_run(&error))?;
        let mut spec = self.spec(item).map_err(|error| not_run(&error))?;
        spec.views = vec![Mount { view: &view, at: root.to_owned() }];
        let (outcome, trace, exceeded) = self.guarded(&spec, item, &cancel);
        let outcome = outcome.map_err(|error| not_run(&error))?;
        drop(spec);
        let stderr = outcome.stderr.text();
        let process = process_end(&outcome);
        let table = format!("work.agents.{}", self.agent.name);
        let cause = missing::cause(&process, &stderr, &table, root);
        let ending = agent_ending(&AgentEnd {
            process,
            cause: cause.as_deref(),
            exceeded,
            is_interrupted: self.interrupt.is_used(),
            timeout_ms: item.bounds().timeout_ms,
            stderr: end(stderr.trim(), QUOTED_BYTES),
        });
        let strength = match outcome.strength.level {
            Level::Full => SandboxStrength::Full,
            Level::Reduced => SandboxStrength::Reduced,
        };
        let report = AgentReport {
            trace,
            strength,
            sandbox: Some(sandbox_facts(&outcome, strength)),
            hidden: Some(hidden.facts(&self.agent.hide)),
            connections: connections(&outcome),
            connections_left_off: outcome.connections_left_off
                + outcome.connections.len().saturating_sub(MAX_CONNECTIONS) as u64,
            stdout: kept_output(&outcome.stdout),
            stderr: kept_output(&outcome.stderr),
        };
        let redactions = outcome.trace.redactions + outcome.stdout.redactions;
        Ok(CalledAgent { report, view, hidden, redactions, ending })
    }

    /// What the agent is run with.
    fn spec(&self, item: &WorkItem) -> Result<Spec<'static>, Arc<SandboxError>> {
        let root = self.workspace.path();
        let prompt = self.agent.prompt.fill(item);
        let mut spec = confine::agent_spec(self.agent, &self.secrets.agent, &prompt, root)?;
        let inside = |name: &str| Path::new(HOME).join(name);
        let (item_file, prompt_file) = (inside(ITEM_FILE), inside(PROMPT_FILE));
        let text = to_json(item);
        spec.grants.seeds.push(Seed::new(&item_file, text.as_bytes()));
        spec.grants.seeds.push(Seed::new(&prompt_file, prompt.as_bytes()));
        spec.grants.env.extend(confine::variables(&[
            ("CREALEPH_WORK_ITEM", &item_file.to_string_lossy()),
            ("CREALEPH_PROMPT", &prompt_file.to_string_lossy()),
            ("CREALEPH_TRACE", TRACE_CHANNEL),
            ("CREALEPH_WORKSPACE", &root.to_string_lossy()),
        ]));
        spec.stdin = Stdin::Bytes(text.into_bytes());
        spec.limits = confine::limits(self.agent, item.bounds().timeout_ms);
        spec.trace_channel = true;
        Ok(spec)
    }

    /// Runs the agent under guard: what the sandbox saw, what the agent reported, and the limit that it exceeded, if any.
    fn guarded(
        &self,
        spec: &Spec<'_>,
        item: &WorkItem,
        cancel: &Cancel,
    ) -> (Result<SandboxOutcome, SandboxError>, Trace, Option<ExceededLimit>) {
        let progress = |trace: &Trace| {
            (self.progress)(RunStage::Working { tool_ops: trace.count, tokens: trace.tokens });
        };
        progress(&Trace::default());
        let guard = Guard::new(self.report_limits(item), self.agent.stream, cancel.clone(), &progress);
        let take = |stream, bytes: &[u8]| {
            guard.take(stream, bytes);
            self.log.take(LogSource::Agent, stream, bytes);
        };
        let outcome = self.sandbox.run_with_output(spec, cancel, Some(&take));
        self.log.finish(LogSource::Agent);
        let (trace, exceeded) = guard.finish();
        (outcome, trace, exceeded)
    }

    /// What may be reported at most.
    fn report_limits(&self, item: &WorkItem) -> ReportLimits {
        ReportLimits {
            tool_ops: item.bounds().max_tool_ops,
            tokens: self.agent.max_tokens,
            cost_usd: self.agent.max_cost,
        }
    }

    /// Admission, and the files that must be there.
    fn admit<'b>(
        &self,
        worked: WorkedRun<'b>,
        earlier: &dyn Fn(&Blake3) -> Option<Uuid>,
    ) -> Result<AdmittedRun<'b>, Box<EndedRun>> {
        let (identity, frozen) = (&worked.planned.identity, &worked.frozen);
        let judged = JudgedChange {
            paths: frozen.own.iter().map(|change| change.path.to_string()).collect(),
            links: frozen.own.iter().filter_map(link).collect(),
            tool_ops: worked.agent.trace.count,
            deltas: frozen.report.counts,
        };
        let hash = run_hash(&identity.before, &frozen.capsule.after().hash().digest(), &identity.item);
        let earlier = earlier(&hash).map(|run| run.to_string());
        let verdict = admit(&judged, &identity.item.bounds(), Some(&self.agent.paths), earlier.as_deref());
        let admission = Admission {
            admitted: verdict.is_ok(),
            reason: verdict.as_ref().err().and_then(|denial| Text::new(denial.reason())),
            files_touched: count(frozen.own.len() as u64),
            tool_ops: count(judged.tool_ops),
            delta_size: count(judged.deltas.size()),
            run_hash: Some(hash),
        };
        let root = self.workspace.path();
        let outputs = identity.item.output_files.as_ref();
        let missing = || paths::missing(outputs, root, frozen.capsule.after(), |_| false);
        let ending = match verdict {
            Err(denial) => denial.into_ending(),
            Ok(()) => match missing() {
                missing if missing.is_empty() => return Ok(AdmittedRun { worked, admission }),
                missing => Ending::Failed(format!("Missing output files: {}", missing.join(", "))),
            },
        };
        let (evidence, unlanded) = worked.into_ended();
        Err(self.ended(RunEvidence { admission: Some(admission), ..evidence }, ending, Some(unlanded)))
    }

    /// The item's tests, on what it started from.
    fn test(&self, admitted: AdmittedRun<'_>) -> Result<TestedRun, Box<EndedRun>> {
        let item = &admitted.worked.planned.identity.item;
        match self.run_tests(item, admitted.worked.frozen.capsule.changes()) {
            Ok(report) => Ok(admitted.tested(report)),
            Err(FailedTests { report, ending }) => {
                let (evidence, unlanded) = admitted.tested(report).into_ended();
                Err(self.ended(evidence, ending, Some(unlanded)))
            }
        }
    }

    /// Runs an item's tests, if it has any, on the workspace as it is now with these changes applied.
    pub(super) fn run_tests(
        &self,
        item: &WorkItem,
        changes: &[Change],
    ) -> Result<Option<TestReport>, FailedTests> {
        let command = item.test_command.as_deref().filter(|command| !command.trim().is_empty());
        let Some(command) = command else { return Ok(None) };
        (self.progress)(RunStage::Testing);
        // The agent's secrets, too: what it wrote can print them.
        self.tests().run(command, changes, self.interrupt, &|text| self.secrets.redacted(text)).map(Some)
    }

    fn tests(&self) -> TestRunner<'_> {
        TestRunner {
            workspace: self.workspace,
            sandbox: self.sandbox,
            agent: self.agent,
            secrets: &self.secrets.tests,
            private: self.private,
            scratch: &self.scratch,
            log: Some(&self.log),
        }
    }

    /// A run that goes no further. Secrets are taken out of what is recorded of it; a run that was denied for a secret keeps its
    /// receipt alone (R34).
    fn ended(
        &self,
        mut evidence: RunEvidence,
        ending: Ending,
        unlanded: Option<UnlandedChange>,
    ) -> Box<EndedRun> {
        let ending = ending.map_reason(|reason| self.secrets.redacted(reason));
        if matches!(ending, Ending::SecretFound(_)) {
            evidence.change = ChangeReport { counts: evidence.change.counts, ..ChangeReport::default() };
            evidence.agent.trace.calls.clear();
            evidence.agent.trace.models.clear();
            evidence.agent.stdout.clear();
            evidence.agent.stderr.clear();
        }
        let unlanded = unlanded.filter(|_| ending.keeps_change());
        Box::new(EndedRun { evidence, ending, unlanded })
    }
}

/// A number as a record has it.
pub(super) fn count(number: u64) -> Count {
    Count::new(number).unwrap_or(Count::ZERO)
}

/// A link that a change leaves, and its target.
fn link(change: &Change) -> Option<(String, String)> {
    match &change.after {
        Some(TreeNode::Symlink { target }) => Some((change.path.to_string(), target.to_string())),
        _ => None,
    }
}

/// How a process ended, by what its sandbox saw.
pub(super) fn process_end(outcome: &SandboxOutcome) -> ProcessEnd {
    match outcome.failure() {
        None => ProcessEnd::Exited(0),
        Some(RunFailure::OutOfTime) => ProcessEnd::OutOfTime,
        Some(RunFailure::Cancelled) => ProcessEnd::Cancelled,
        Some(RunFailure::Limit(cut)) => ProcessEnd::OverLimit(cut.to_string()),
        Some(RunFailure::Exit(Exit::Code(code))) => ProcessEnd::Exited(code),
        Some(RunFailure::Exit(Exit::Signal(signal))) => ProcessEnd::Signalled(signal),
        Some(RunFailure::Exit(Exit::Killed)) => ProcessEnd::Killed,
    }
}

/// The start of an output, with a line in place of its end if it was cut, so that the bound on the output holds for both.
fn kept_output(output: &Captured) -> Vec<u8> {
    let mut kept = output.bytes.clone();
    kept.truncate(MAX_OUTPUT_BYTES);
    if output.total_bytes > kept.len() as u64 && kept.len() >= CUT_NOTICE_BYTES {
        kept.truncate(kept.len() - CUT_NOTICE_BYTES);
        let left_out = output.total_bytes.saturating_sub(kept.len() as u64);
        kept.extend_from_slice(format!("\n[… {left_out} bytes left out …]\n").as_bytes());
    }
    kept
}

/// What held the agent, as a statement has it.
fn sandbox_facts(outcome: &SandboxOutcome, strength: SandboxStrength) -> SandboxFacts {
    let layers = outcome.strength.layers.iter().filter_map(|layer| {
        let name = serde_json::to_value(layer).ok()?;
        Name::parse(name.as_str()?).ok()
    });
    let missing = outcome.strength.missing.iter().filter_map(|missing| Text::new(&missing.what));
    SandboxFacts { strength, layers: layers.collect(), missing: missing.collect() }
}

/// The connections as a receipt has them, the first thousand.
fn connections(outcome: &SandboxOutcome) -> Vec<Connection> {
    let named = outcome.connections.iter().take(MAX_CONNECTIONS).filter_map(|connection| {
        let host = Name::parse(&connection.target).or_else(|_| Name::parse("unreadable"));
        let reason = refusal(connection.verdict);
        Some(Connection { host: host.ok()?, allowed: reason.is_none(), reason })
    });
    named.collect()
}

/// Why a connection was not made; nothing if it was.
fn refusal(verdict: ConnectionVerdict) -> Option<ConnectionRefusal> {
    match verdict {
        ConnectionVerdict::Connected => None,
        ConnectionVerdict::NotGranted => Some(ConnectionRefusal::NotGranted),
        ConnectionVerdict::PrivateAddress => Some(ConnectionRefusal::PrivateAddress),
        ConnectionVerdict::Unresolved => Some(ConnectionRefusal::Unresolved),
        ConnectionVerdict::Unreachable => Some(ConnectionRefusal::Unreachable),
        ConnectionVerdict::Malformed => Some(ConnectionRefusal::Malformed),
        ConnectionVerdict::TooMany => Some(ConnectionRefusal::TooMany),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_past_its_bound_says_what_was_left_out() {
        let output = |kept: usize, total: u64| {
            kept_output(&Captured { bytes: vec![b'x'; kept], total_bytes: total, redactions: 0 })
        };
        assert_eq!(output(9, 9), b"xxxxxxxxx");
        assert_eq!(output(MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES as u64).len(), MAX_OUTPUT_BYTES);
        let cut = String::from_utf8(output(MAX_OUTPUT_BYTES + 2, MAX_OUTPUT_BYTES as u64 + 7)).unwrap();
        assert!(cut.starts_with("xx") && cut.ends_with("x\n[… 71 bytes left out …]\n"));
        assert!(cut.len() <= MAX_OUTPUT_BYTES);
    }
}
