//! One run of a work item in a view of its own: the agent under guard, what it really changed, admission, tests. Owns the
//! order of these steps and what each failure means; touches nothing outside the view.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crealeph_contracts::WorkItem;
use crealeph_contracts::attestation::{Admission, SandboxFacts};
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::receipt::{Connection, SandboxStrength};
use crealeph_contracts::scalar::{Count, Name, Text};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::work::{self, admit, run_hash};
use crealeph_sandbox::{
    Cut, Exit, HOME, Level, Mount, Outcome, Sandbox, Seed, Stdin, TRACE_CHANNEL, Verdict, View,
};
use crealeph_workspace::{Added, Capsule, Change, Node, Snapshot, Workspace};

use super::config::WorkAgent;
use super::confine;
use super::freeze::own_changes;
use super::guard::{Guard, Reportable};
use super::interrupt::Interrupt;
use super::paths;
use super::receipt::Deltas;
use super::secrets::{self, Guarded};
use super::tests_run::{TestFault, TestPlace, Tested};
use super::trace::Trace;
use crate::agents::answer::end;
use crate::agents::process::with_causes;

/// How much of standard error a reason quotes.
const QUOTED_BYTES: usize = 800;
/// How many connections a receipt lists.
const MAX_CONNECTIONS: usize = 1_000;
const ITEM_FILE: &str = "work-item.json";
const PROMPT_FILE: &str = "prompt.txt";

/// How a run ended, before anything is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Within all bounds, and its tests passed.
    Admitted,
    Failed(String),
    Denied(String),
    TimedOut(String),
    /// Somebody ended it; it may be run again.
    Interrupted,
}

/// What an item starts from.
#[derive(Debug)]
pub(super) struct Base<'b> {
    pub(super) snapshot: &'b Snapshot,
    /// Changes that are not in the workspace itself but come before this run: those on a branch.
    pub(super) changes: &'b [Change],
}

/// Everything a run leaves behind.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) id: Uuid,
    pub(super) item: WorkItem,
    pub(super) command: Vec<String>,
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Timestamp,
    pub(super) execution_ms: f64,
    pub(super) ending: Ending,
    pub(super) before: Blake3,
    pub(super) capsule: Option<Capsule>,
    /// Where the contents of the capsule are until it lands; gone when it does not.
    pub(super) view: Option<View>,
    /// What was put into the workspace's store for it; taken back when it does not land.
    pub(super) added: Added,
    /// Paths written in `.git` or `.crealeph`, the first hundred.
    pub(super) discarded: Vec<String>,
    pub(super) deltas: Deltas,
    /// How many deltas there are of each class, also of those that are not listed.
    pub(super) delta_counts: work::Deltas,
    pub(super) trace: Trace,
    pub(super) tested: Option<Tested>,
    pub(super) strength: SandboxStrength,
    /// What held the agent; none where it was never started.
    pub(super) sandbox: Option<SandboxFacts>,
    /// What admission said; none where it was not asked.
    pub(super) admission: Option<Admission>,
    pub(super) connections: Vec<Connection>,
    pub(super) diff: String,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// What is told while a run goes on.
#[derive(Clone, Debug)]
pub enum Step {
    /// The agent runs.
    Working {
        /// Tool operations so far.
        tool_ops: u64,
        /// Tokens so far, where reported.
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
}

/// Where an item runs, and by what.
pub(super) struct Room<'r> {
    pub(super) workspace: &'r Workspace,
    pub(super) sandbox: &'r Sandbox,
    pub(super) agent: &'r WorkAgent,
    pub(super) interrupt: &'r Interrupt,
    /// Paths of the workspace that no view shows.
    pub(super) private: &'r [PathBuf],
    /// A folder of this run's own for what it needs meanwhile; removed afterwards.
    pub(super) scratch: PathBuf,
    /// What no record may hold.
    pub(super) guarded: Guarded,
    pub(super) told: &'r (dyn Fn(Step) + Sync),
}

impl Room<'_> {
    /// Runs an item. `earlier` finds the receipt of a successful run with the same run hash.
    pub(super) fn run(
        &self,
        id: Uuid,
        item: &WorkItem,
        base: &Base<'_>,
        earlier: &dyn Fn(&Blake3) -> Option<String>,
    ) -> Ran {
        let clock = Instant::now();
        let mut ran = Ran {
            id,
            item: item.clone(),
            command: self.agent.command.clone(),
            started_at: super::now(),
            finished_at: super::now(),
            execution_ms: 0.0,
            ending: Ending::Interrupted,
            before: base.snapshot.state().hash().digest(),
            capsule: None,
            view: None,
            added: Added::default(),
            discarded: Vec::new(),
            deltas: Deltas::default(),
            delta_counts: work::Deltas::default(),
            trace: Trace::default(),
            tested: None,
            strength: match self.agent.accepts_reduced {
                true => SandboxStrength::Reduced,
                false => SandboxStrength::Full,
            },
            sandbox: None,
            admission: None,
            connections: Vec::new(),
            diff: String::new(),
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        ran.ending = match self.work(&mut ran, base, clock) {
            Err(ending) => ending,
            Ok(()) => self.judge(&mut ran, base, earlier).err().unwrap_or(Ending::Admitted),
        };
        self.withhold(&mut ran);
        if ran.ending != Ending::Admitted {
            ran.view = None;
        }
        let _ = std::fs::remove_dir_all(&self.scratch);
        (self.told)(Step::Waiting);
        ran.finished_at = super::now();
        ran.execution_ms = clock.elapsed().as_secs_f64() * 1000.0;
        ran
    }

    /// Takes secrets out of what the record tells of a run; one that was denied for a secret keeps its receipt alone (R34).
    fn withhold(&self, ran: &mut Ran) {
        for path in &mut ran.discarded {
            *path = self.guarded.redacted(path);
        }
        let reason = match &mut ran.ending {
            Ending::Failed(why) | Ending::Denied(why) | Ending::TimedOut(why) => why,
            Ending::Admitted | Ending::Interrupted => return,
        };
        *reason = self.guarded.redacted(reason);
        if secrets::is_for_secret(reason) {
            ran.capsule = None;
            ran.discarded.clear();
            ran.deltas = Deltas::default();
            ran.trace.calls.clear();
            for kept in [&mut ran.stdout, &mut ran.stderr] {
                kept.clear();
            }
            ran.diff.clear();
        }
    }

    /// The agent in its view, up to what it really changed.
    fn work(&self, ran: &mut Ran, base: &Base<'_>, started: Instant) -> Result<(), Ending> {
        let root = self.workspace.path();
        let state = base.snapshot.state();
        let is_there = |path: &str| root.join(path).symlink_metadata().is_ok();
        let missing = paths::missing(ran.item.input_files.as_ref(), root, state, is_there);
        if !missing.is_empty() {
            return Err(Ending::Failed(format!("Missing input files: {}", missing.join(", "))));
        }
        let not_run = |error: &dyn std::error::Error| {
            Ending::Failed(format!("the agent could not be run: {}", with_causes(error)))
        };
        let cancel = self.interrupt.cancel().map_err(|error| not_run(&error))?;
        let view = self.test_place().changed_view(base.changes, &cancel).map_err(|error| not_run(&error))?;
        let prompt = self.agent.prompt.fill(&ran.item);
        let mut spec = confine::agent_spec(self.agent, &prompt, root).map_err(|error| not_run(&error))?;
        let inside = |name: &str| Path::new(HOME).join(name);
        let (item, prompt_file) = (inside(ITEM_FILE), inside(PROMPT_FILE));
        let text = to_json(&ran.item);
        spec.grants.seeds.push(Seed::new(&item, text.as_bytes()));
        spec.grants.seeds.push(Seed::new(&prompt_file, prompt.as_bytes()));
        spec.grants.env.extend(confine::variables(&[
            ("CREALEPH_WORK_ITEM", &item.to_string_lossy()),
            ("CREALEPH_PROMPT", &prompt_file.to_string_lossy()),
            ("CREALEPH_TRACE", TRACE_CHANNEL),
            ("CREALEPH_WORKSPACE", &root.to_string_lossy()),
        ]));
        spec.stdin = Stdin::Bytes(text.into_bytes());
        spec.limits = confine::limits(self.agent, ran.item.bounds().timeout_ms);
        spec.trace_channel = true;
        spec.views = vec![Mount { view: &view, at: root.to_owned() }];
        ran.command = spec.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let told = |trace: &Trace| {
            (self.told)(Step::Working { tool_ops: trace.count, tokens: trace.tokens });
        };
        told(&Trace::default());
        let bounds = Reportable {
            tool_ops: ran.item.bounds().max_tool_ops,
            tokens: self.agent.max_tokens,
            cost_usd: self.agent.max_cost,
        };
        let guard = Guard::new(bounds, self.agent.stream, cancel.clone(), &told);
        let outcome =
            self.sandbox.run_with_output(&spec, &cancel, Some(&|stream, bytes| guard.take(stream, bytes)));
        let (trace, passed) = guard.finish();
        ran.trace = trace;
        let outcome = outcome.map_err(|error| not_run(&error))?;
        ran.strength = match outcome.strength.level {
            Level::Full => SandboxStrength::Full,
            Level::Reduced => SandboxStrength::Reduced,
        };
        ran.sandbox = Some(sandbox_facts(&outcome, ran.strength));
        ran.connections = connections(&outcome);
        let ended = ended(&outcome, passed, ran.item.bounds().timeout_ms, self.interrupt);
        let redactions = outcome.trace.redactions + outcome.stdout.redactions;
        let frozen = match self.guarded.in_reports(&ran.trace, redactions) {
            Some(reason) => Err(Ending::Denied(reason)),
            None => self.freeze(ran, base, &view, started),
        };
        ran.view = Some(view);
        ran.stdout = outcome.stdout.bytes;
        ran.stderr = outcome.stderr.bytes;
        // A secret counts more than how the agent ended.
        if let Err(Ending::Denied(reason)) = &frozen
            && secrets::is_for_secret(reason)
        {
            return frozen;
        }
        ended?;
        frozen
    }

    /// Admission, the files that must be there, the tests.
    fn judge(
        &self,
        ran: &mut Ran,
        base: &Base<'_>,
        earlier: &dyn Fn(&Blake3) -> Option<String>,
    ) -> Result<(), Ending> {
        let Some(capsule) = &ran.capsule else { return Ok(()) };
        let own = own_changes(capsule, base, &self.agent.hide);
        let judged = work::Capsule {
            paths: own.iter().map(|change| change.path.to_string()).collect(),
            links: own.iter().filter_map(link).collect(),
            tool_ops: ran.trace.count,
            deltas: ran.delta_counts,
        };
        let hash = run_hash(&ran.before, &capsule.after().hash().digest(), &ran.item);
        let earlier = earlier(&hash);
        let verdict = admit(&judged, &ran.item.bounds(), Some(&self.agent.paths), earlier.as_deref());
        let count = |number: u64| Count::new(number).unwrap_or(Count::ZERO);
        ran.admission = Some(Admission {
            admitted: verdict.is_ok(),
            reason: verdict.as_ref().err().and_then(|denial| Text::new(denial.reason())),
            files_touched: count(own.len() as u64),
            tool_ops: count(ran.trace.count),
            delta_size: count(ran.delta_counts.size()),
            run_hash: Some(hash),
        });
        verdict.map_err(|denial| Ending::Denied(denial.reason().to_owned()))?;
        let root = self.workspace.path();
        let missing = paths::missing(ran.item.output_files.as_ref(), root, capsule.after(), |_| false);
        if !missing.is_empty() {
            return Err(Ending::Failed(format!("Missing output files: {}", missing.join(", "))));
        }
        let changes = capsule.changes().to_vec();
        let (tested, ending) = self.test(&ran.item, &changes);
        ran.tested = tested;
        ending
    }

    /// Runs an item's tests, if it has any, on the workspace as it is now with these changes applied.
    pub(super) fn test(&self, item: &WorkItem, changes: &[Change]) -> (Option<Tested>, Result<(), Ending>) {
        let command = item.test_command.as_deref().filter(|command| !command.trim().is_empty());
        let Some(command) = command else { return (None, Ok(())) };
        (self.told)(Step::Testing);
        let failed = |error: &dyn std::error::Error| {
            Ending::Failed(format!("Tests failed: they could not be run: {}", with_causes(error)))
        };
        let cancel = match self.interrupt.cancel() {
            Ok(cancel) => cancel,
            Err(error) => return (None, Err(failed(&error))),
        };
        match self.test_place().run(command, changes, &cancel) {
            Err(error) => (None, Err(failed(&error))),
            Ok(mut tested) => {
                // The agent's secrets, too: what it wrote can print them.
                tested.output = self.guarded.redacted(&tested.output);
                let ending = match &tested.fault {
                    None => Ok(()),
                    Some(TestFault::Interrupted) => Err(Ending::Interrupted),
                    Some(TestFault::Failed(why)) => Err(Ending::Failed(format!("Tests failed: {why}"))),
                };
                (Some(tested), ending)
            }
        }
    }

    fn test_place(&self) -> TestPlace<'_> {
        TestPlace {
            workspace: self.workspace,
            sandbox: self.sandbox,
            agent: self.agent,
            private: self.private,
            scratch: &self.scratch,
        }
    }
}

/// A link that a change leaves, and its target.
pub(super) fn link(change: &Change) -> Option<(String, String)> {
    match &change.after {
        Some(Node::Symlink { target }) => Some((change.path.to_string(), target.to_string())),
        _ => None,
    }
}

/// What the agent's own end means.
fn ended(
    outcome: &Outcome,
    passed: Option<String>,
    timeout_ms: u64,
    interrupt: &Interrupt,
) -> Result<(), Ending> {
    let stderr = outcome.stderr.text();
    let quoted = match stderr.trim() {
        "" => String::new(),
        said => format!("; standard error ends with: {}", end(said, QUOTED_BYTES)),
    };
    if let Some(reason) = passed {
        return Err(Ending::Denied(reason));
    }
    if interrupt.is_used() {
        return Err(Ending::Interrupted);
    }
    match outcome.cuts.iter().find(|cut| cut.ended_the_run()) {
        Some(Cut::WallTime { .. }) => {
            return Err(Ending::TimedOut(format!("Timed out after {timeout_ms} ms (`timeout_ms`){quoted}")));
        }
        Some(Cut::Cancelled) => return Err(Ending::Interrupted),
        Some(cut) => return Err(Ending::Denied(format!("Exceeded a limit of the sandbox: {cut}"))),
        None => {}
    }
    match outcome.exit {
        Exit::Code(0) => Ok(()),
        Exit::Code(code) => Err(Ending::Failed(format!("the agent ended with exit code {code}{quoted}"))),
        Exit::Signal(signal) => {
            Err(Ending::Failed(format!("the agent was ended by signal {signal}{quoted}")))
        }
        Exit::Killed => Err(Ending::Failed(format!("the agent was killed{quoted}"))),
    }
}

/// What held the agent, as a statement has it.
fn sandbox_facts(outcome: &Outcome, strength: SandboxStrength) -> SandboxFacts {
    let layers = outcome.strength.layers.iter().filter_map(|layer| {
        let name = serde_json::to_value(layer).ok()?;
        Name::parse(name.as_str()?).ok()
    });
    let missing = outcome.strength.missing.iter().filter_map(|missing| Text::new(&missing.what));
    SandboxFacts { strength, layers: layers.collect(), missing: missing.collect() }
}

/// The connections as a receipt has them, the first thousand.
fn connections(outcome: &Outcome) -> Vec<Connection> {
    let named = outcome.connections.iter().take(MAX_CONNECTIONS).filter_map(|connection| {
        let host = Name::parse(&connection.target).or_else(|_| Name::parse("unreadable"));
        Some(Connection { host: host.ok()?, allowed: connection.verdict == Verdict::Connected })
    });
    named.collect()
}
