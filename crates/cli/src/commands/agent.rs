//! `crealeph agent`: the example agent as a program, and the conformance kit for people who write their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, Subcommand};
use crealeph_contracts::contract::{read_text, to_json};
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::Version;
use crealeph_contracts::shape::Shape as _;
use crealeph_contracts::{AgentInput, Code, Report};
use crealeph_runtime::agents::conformance::{
    Case, Clause, ConformanceFinding, Sameness, Uncalled, cases, check,
};
use crealeph_runtime::agents::{Agent, example_answer, from_command, load};
use crealeph_runtime::configuration::Configuration;
use serde_json::json;

use super::CommandOutcome;
use super::sandbox::state_directory;
use crate::drawing::{Drawing, wiped};
use crate::failure::{ArgumentFailure, BuilderFailure, Failure, InputFailure};
use crate::input::{DEFAULT_MAX_BYTES, Source};
use crate::interrupt;
use crate::output::{Output, is_watched};
use crate::page::Page;
use crate::trusting::{self, Uses};

const EXAMPLES: &str = "\
Examples:
  crealeph agent example < input.json
  crealeph agent check planner@1
  crealeph agent check -- python3 planner.py
  crealeph agent check --structural --case unicode -- node planner.mjs
  crealeph agent check --inputs > inputs.jsonl

Exit codes: 0 the agent conforms to every clause, 1 it does not, 2 it could not be checked.";

/// Run the example agent, or test an agent for conformance
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct AgentCommand {
    #[command(subcommand)]
    task: AgentTask,
}

#[derive(Debug, Subcommand)]
enum AgentTask {
    /// Answer an AgentInput from standard input as the built-in example agent
    Example,
    Check(Check),
}

/// Test an agent for conformance: call it with many inputs and validate each answer
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Check {
    /// Agent name in the configuration
    #[arg(required_unless_present_any = ["command", "inputs"], conflicts_with = "command")]
    name: Option<String>,
    /// Configuration file [default: crealeph.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Compare only status, types and shape of two answers, for agents that call a model
    #[arg(long)]
    structural: bool,
    /// Only inputs whose name contains this text
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Number of calls in parallel
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// Print the inputs as JSON Lines without calling the agent
    #[arg(long)]
    inputs: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Command to test instead of a configured agent, granted only its own files
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl AgentCommand {
    pub(super) fn wants_json(&self) -> bool {
        matches!(&self.task, AgentTask::Check(check) if check.json)
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self.task {
            AgentTask::Example => example(output),
            AgentTask::Check(check) => check.run(output),
        }
    }
}

/// An input that is legal but for being stale is answered too: with `blocked`.
fn example(output: &mut Output) -> Result<CommandOutcome, Failure> {
    let source = Source::new(None);
    let bytes = source.read_bounded(DEFAULT_MAX_BYTES)?;
    let mut report = Report::new(None);
    let parts = read_text::<AgentInput>(&bytes, &Limits::own(DEFAULT_MAX_BYTES), &mut report);
    let violations = report.into_violations();
    let is_readable = violations.iter().all(|violation| violation.code == Code::CoherenceBlocked);
    match parts.filter(|_| is_readable).and_then(AgentInput::finish) {
        Some(input) => {
            output.json(&to_json(&example_answer(&input)))?;
            Ok(CommandOutcome::Good)
        }
        None => {
            Err(InputFailure::Invalid { name: source.name(), expected: "agent-input", violations }.into())
        }
    }
}

impl Check {
    fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let mut kit = cases();
        if let Some(text) = &self.case {
            kit.retain(|case| case.name.contains(text.as_str()));
            if kit.is_empty() {
                let (expected, hint) = ("in the name of any input", "leave --case out to check all");
                return Err(ArgumentFailure::option_with_hint(text, expected, hint).into());
            }
        }
        if self.inputs {
            kit.iter().try_for_each(|case| output.json_line(&case.input.to_json()))?;
            return Ok(CommandOutcome::Good);
        }
        let sameness = if self.structural { Sameness::Structural } else { Sameness::Exact };
        let state = state_directory(None);
        let findings = if self.command.is_empty() {
            let name = self.name.unwrap_or_default();
            let configuration = Configuration::find(self.config.as_deref())?;
            trusting::require(&configuration, Uses::Everything)?;
            let agents = load(&configuration, &state)?;
            let known = || agents.versions().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let found = Version::parse(&name).ok().and_then(|version| agents.get(&version));
            let agent = found.ok_or_else(|| match configuration.path().exists() {
                true => BuilderFailure::NoAgent {
                    name: name.clone(),
                    path: configuration.path().to_owned(),
                    known: known(),
                },
                false => BuilderFailure::NoConfiguration(configuration.path().to_owned()),
            })?;
            check_all(agent, &kit, sameness, self.jobs)?
        } else {
            check_all(&from_command(&self.command, Path::new("."), &state)?, &kit, sameness, self.jobs)?
        };
        let is_kept = findings.iter().flatten().all(|finding| finding.fault.is_none());
        if self.json || !output.is_for_person() {
            output.report(&as_json(&kit, &findings))?;
        } else {
            output.page(&as_page(&kit, &findings))?;
        }
        Ok(if is_kept { CommandOutcome::Good } else { CommandOutcome::Bad })
    }
}

/// Checks every case, a few at a time; the findings are in the order of the cases.
fn check_all(
    agent: &dyn Agent,
    kit: &[Case],
    sameness: Sameness,
    jobs: u8,
) -> Result<Vec<Vec<ConformanceFinding>>, Failure> {
    let cancel = interrupt::cancel()?;
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found = Mutex::new(BTreeMap::new());
    let is_watched = is_watched();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !cancel.is_cancelled()
                    && let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(case) = kit.get(at)
                {
                    let findings = check(agent, case, sameness, &cancel);
                    if findings.is_err() {
                        // The rest would fare no better.
                        next.store(kit.len(), Ordering::Relaxed);
                    }
                    found.lock().unwrap_or_else(PoisonError::into_inner).insert(at, findings);
                    let count = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if is_watched {
                        let mut drawing = Drawing::new();
                        drawing.line(&format!("{count} of {} inputs", kit.len()));
                        drawing.show();
                    }
                }
            });
        }
    });
    drop(wiped());
    if cancel.is_cancelled() {
        return Err(Failure::Interrupted);
    }
    let found: Result<_, Uncalled> =
        found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect();
    Ok(found?)
}

/// For one clause: on how many inputs it was judged, and each fault with the inputs that showed it.
struct Judged<'f> {
    inputs: usize,
    faults: BTreeMap<&'f str, Vec<&'f str>>,
}

fn by_clause<'f>(clause: Clause, kit: &'f [Case], findings: &'f [Vec<ConformanceFinding>]) -> Judged<'f> {
    let mut judged = Judged { inputs: 0, faults: BTreeMap::new() };
    for (case, found) in kit.iter().zip(findings) {
        for finding in found.iter().filter(|finding| finding.clause == clause) {
            judged.inputs += 1;
            if let Some(fault) = &finding.fault {
                judged.faults.entry(fault).or_default().push(&case.name);
            }
        }
    }
    judged
}

fn as_page(kit: &[Case], findings: &[Vec<ConformanceFinding>]) -> Page {
    const SHOWN: usize = 5;
    let mut text = Page::default();
    for clause in Clause::ALL {
        let Judged { inputs, faults } = by_clause(clause, kit, findings);
        let broken: usize = faults.values().map(Vec::len).sum();
        let _ = writeln!(
            text,
            "{:<11} kept on {} of {inputs} inputs: {}",
            clause.as_str(),
            inputs - broken,
            clause.asks()
        );
        for (fault, names) in &faults {
            text.quoted("  ", fault);
            for name in names.iter().take(SHOWN) {
                let _ = writeln!(text, "    on: {name}");
            }
            if names.len() > SHOWN {
                let _ = writeln!(text, "    and on {} more", names.len() - SHOWN);
            }
        }
    }
    let unanswered = kit.len() - by_clause(Clause::Success, kit, findings).inputs;
    if unanswered > 0 {
        let _ = writeln!(text, "{unanswered} of {} inputs have no answer to check further", kit.len());
    }
    text
}

fn as_json(kit: &[Case], findings: &[Vec<ConformanceFinding>]) -> serde_json::Value {
    let clauses: Vec<_> = Clause::ALL
        .into_iter()
        .map(|clause| {
            let judged = by_clause(clause, kit, findings);
            let broken: usize = judged.faults.values().map(Vec::len).sum();
            json!({ "clause": clause.as_str(), "inputs": judged.inputs, "kept": judged.inputs - broken })
        })
        .collect();
    let inputs: Vec<_> = kit
        .iter()
        .zip(findings)
        .map(|(case, found)| {
            let faults: Vec<_> = found
                .iter()
                .filter_map(|finding| finding.fault.as_ref().map(|fault| (finding.clause, fault)))
                .map(|(clause, fault)| json!({ "clause": clause.as_str(), "fault": fault }))
                .collect();
            json!({ "name": case.name, "faults": faults })
        })
        .collect();
    let is_kept = findings.iter().flatten().all(|finding| finding.fault.is_none());
    json!({ "ok": is_kept, "clauses": clauses, "inputs": inputs })
}
