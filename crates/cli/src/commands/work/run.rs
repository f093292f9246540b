//! `crealeph work run`: runs work items, or one task, and reports their outcomes.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::WorkItem;
use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{Amount, ItemId, RobotId};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::{Budget, Complexity};
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::work::{self, Destination, ItemOutcome, RunOptions, Work, WorkError, WorkProgress};

use super::bounds_args::BoundsArgs;
use super::display::Display;
use super::plan::read_items;
use super::report_to::ReportToArgs;
use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::commands::ledger::named;
use crate::commands::policy::read_rules;
use crate::failure::{ArgumentFailure, BuilderFailure, Failure, WorkFailure};
use crate::input::Source;
use crate::interrupt;
use crate::output::{Output, note, note_page};

/// How many lines of its output a failed run shows.
const MAX_LAST_LINES: usize = 20;

const EXAMPLES: &str = "\
Examples:
  crealeph work run items.json
  crealeph work run items.json --workspace ~/project --jobs 4 --json
  crealeph work run items.json --publish branch:agents/monday
  crealeph work run items.json --hold
  crealeph work run items.json --hold --land-when-approved
  crealeph work run items.json --only-failed
  crealeph work run --agent claude \"Fix the flaky parser test\" --test \"cargo test\"

An item goes to the agent of crealeph.toml with its agent_id:
  [work.agents.fixer]
  agent_id = \"agent-1\"
  command = [\"python3\", \"fixer.py\"]

Limits without a flag are the agent's (`bounds` and `paths` in its table), else the defaults above. Items of a file have their own.

A pipe gets JSON Lines: one RunResult a line, with the item's id added and, if it failed, the `last_lines` of its output. An item that was not run has a line too, with
the status `blocked`, `not_run` or `held` and what it waits for. After an interrupt, the same command resumes where it
stopped.

Exit codes: 0 all succeeded, 1 some did not, or the items are refused, 2 cannot be done (nothing was run), 3 the rest succeeded and some changes await
approval, 130 interrupted.";

/// Run work items, each within its limits; a change lands completely or not at all
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Run {
    /// JSON array of work items (`-` for standard input), or with --agent a task in words
    what: String,

    /// Give everything to this agent of the configuration; without a file of items, the task is one item
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Number of items to run in parallel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,

    /// Where changes go: `tree`, or `branch:NAME` for one commit per item, without touching the working tree
    #[arg(long, value_name = "WHERE", default_value = "tree")]
    publish: String,

    /// Hold changes until `crealeph approve` or `crealeph reject`
    #[arg(long)]
    hold: bool,

    /// Wait until held changes are approved, and land them; Ctrl-C leaves them held
    #[arg(long)]
    land_when_approved: bool,

    /// Skip items that have succeeded before, or whose change awaits approval
    #[arg(long)]
    only_failed: bool,

    /// Robot that the runs are bound to [default: the robot of the items' tasks]; the policy decides `work.run`
    #[arg(long)]
    robot: Option<String>,

    /// Rules file for that decision, TOML [default: the rules of the configuration, else the built-in ones]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// For a task: test command
    #[arg(long, value_name = "COMMAND")]
    test: Option<String>,

    #[command(flatten)]
    report: ReportToArgs,

    #[command(flatten)]
    bounds: BoundsArgs,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Run {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let destination = destination(&self.publish)?;
        let reporter = self.report.reporter(&self.workspace)?;
        let is_in_words = self.what.contains(char::is_whitespace) && !Path::new(&self.what).exists();
        if self.agent.is_none() && is_in_words {
            return Err(WorkFailure::NoItems(self.what).into());
        }
        if !self.is_task() && !self.bounds.is_empty() {
            return Err(WorkFailure::BoundsOfItems(self.what).into());
        }
        if self.is_task() && self.what.trim().is_empty() {
            return Err(WorkFailure::EmptyTask.into());
        }
        let items = match self.is_task() {
            true => None,
            false => Some(read_items(&Source::new(Some(PathBuf::from(&self.what))))?),
        };
        // The bounds of later items, and what the policy decides by, are not for an earlier item to change.
        let given = items.is_some().then(|| PathBuf::from(&self.what)).into_iter().chain(self.rules.clone());
        let mut work = self.workspace.open_with(&given.collect::<Vec<_>>())?;
        super::decide::carry_out_verdicts(&work)?;
        work.limit_classes(&self.bounds.class_limits());
        let items = match items {
            Some(items) => items,
            None => vec![self.task(&work)?],
        };
        let robot = self.robot.as_deref().map(|name| named("robot", name, RobotId::parse)).transpose()?;
        let rules = self.rules.clone().map(|file| read_rules(Some(file)).map(|(source, _)| source));
        let scopes = Scopes::load(&self.workspace.configuration()?, rules.transpose()?)?;
        work.bind(&items, robot, &scopes)?;
        let options = RunOptions {
            jobs: self.jobs.map_or_else(default_jobs, usize::from),
            destination,
            is_held: self.hold,
            agent: self.agent.clone(),
            is_capped: !self.is_task(),
            only_failed: self.only_failed,
        };
        let mut over = Vec::new();
        let verdict = carry_out(&work, self.workspace.at.json, output, |progress, report| {
            let mut report = |outcome: &ItemOutcome| {
                over.extend(new_run(outcome));
                report(outcome);
            };
            let outcomes = work.run(&items, &options, progress, &mut report)?;
            match self.land_when_approved && !work.interrupt().is_used() {
                true => work.wait_for_verdicts(outcomes, progress, &mut report),
                false => Ok(outcomes),
            }
        });
        if let Some(reporter) = reporter {
            match super::named_run::open(&self.workspace) {
                Ok(reader) => reporter.report(&reader, &over),
                Err(failure) => note!("nothing is reported: {}", failure.message()),
            }
        }
        verdict
    }

    /// With --agent, words that name no file are a task.
    fn is_task(&self) -> bool {
        self.agent.is_some() && self.what != "-" && !PathBuf::from(&self.what).is_file()
    }

    fn task(&self, work: &Work) -> Result<WorkItem, Failure> {
        let name = self.agent.as_deref().unwrap_or_default();
        let Some(agent_id) = work.agent_id(name) else {
            let (name, known) = (name.to_owned(), work.agent_names().join(", "));
            let path = self.workspace.configuration()?.path().to_owned();
            return Err(BuilderFailure::NoAgent { name, path, known }.into());
        };
        let id = format!("{}{}", super::report::TASK_PREFIX, work.new_task_id()?);
        Ok(WorkItem {
            id: named("task", &id, ItemId::parse)?,
            agent_id,
            description: self.what.as_str().into(),
            dependencies: Set::default(),
            constraints: Some(self.bounds.constraints(work.agent_bounds(name).as_ref())?),
            budget: Budget { time_estimate_ms: Amount::ZERO, complexity: Complexity::Medium },
            input_files: None,
            output_files: None,
            test_command: self.test.as_deref().map(Into::into),
        })
    }
}

/// The run of an outcome, if it ended just now.
fn new_run(outcome: &ItemOutcome) -> Option<Uuid> {
    match outcome {
        ItemOutcome::Finished { result, is_earlier: false } => Some(result.result.receipt_id),
        _ => None,
    }
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).min(8)
}

pub(super) fn destination(text: &str) -> Result<Destination, ArgumentFailure> {
    match text.strip_prefix("branch:") {
        None if text == "tree" => Ok(Destination::Tree),
        Some(name) if !name.is_empty() => Ok(Destination::Branch(name.to_owned())),
        _ => Err(ArgumentFailure::option(text, "`tree` or `branch:NAME` for --publish")),
    }
}

/// Carries out runs and prints the outcome of each as soon as it is known. `step` gets the progress, and about each
/// outcome.
pub(super) fn carry_out(
    work: &Work,
    wants_json: bool,
    output: &mut Output,
    step: impl FnOnce(
        &(dyn Fn(WorkProgress) + Sync),
        &mut dyn FnMut(&ItemOutcome),
    ) -> Result<Vec<ItemOutcome>, WorkError>,
) -> Result<CommandOutcome, Failure> {
    let interrupt = work.interrupt().clone();
    interrupt::at_first(move || {
        note!("");
        note!("interrupting; press Ctrl-C again to exit immediately");
        interrupt.interrupt();
    })?;
    let is_json = wants_json || !output.is_for_person();
    let display = Display::start();
    let mut failure = None;
    let short = |outcome: &ItemOutcome| {
        let run = super::report::run_of(outcome);
        run.map_or_else(String::new, |run| work.short_run(&run).unwrap_or_else(|_| run.to_string()))
    };
    let mut print = |outcome: &ItemOutcome| {
        let printed = match is_json {
            true => output.json_line(&as_line(outcome, &last_lines(work, outcome))),
            false => output.page(&super::report::outcome(outcome, &short(outcome))),
        };
        let printed = printed.and_then(|()| output.flush());
        if !is_json {
            note_page(&super::report::last_lines(outcome, &last_lines(work, outcome), &short(outcome)));
        }
        // An output that was closed does not stop the work.
        failure = failure.take().or(printed.err());
    };
    let outcomes = step(&|progress| display.show(progress), &mut print);
    display.end();
    let outcomes = outcomes?;
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    if work.interrupt().is_used() {
        match outcomes.iter().any(|outcome| matches!(outcome, ItemOutcome::Held(_))) {
            true => note!(
                "interrupted; what is held stays held, and the next `crealeph work` command lands it once it is approved"
            ),
            false => note!("interrupted; the same command resumes where this one stopped"),
        }
        return Ok(CommandOutcome::Exit(interrupt::INTERRUPTED));
    }
    let is_success = |outcome: &ItemOutcome| match outcome {
        ItemOutcome::Finished { result, .. } => result.is_success(),
        _ => false,
    };
    let is_held = |outcome: &ItemOutcome| matches!(outcome, ItemOutcome::Held(_));
    Ok(match outcomes.iter().all(is_success) {
        true => CommandOutcome::Good,
        false if outcomes.iter().all(|one| is_success(one) || is_held(one)) => CommandOutcome::Exit(3),
        false => CommandOutcome::Bad,
    })
}

/// The last lines that a run printed which failed just now. They are shown next to its result, so that one which cannot be read is
/// no failure.
fn last_lines(work: &Work, outcome: &ItemOutcome) -> Vec<String> {
    match outcome {
        ItemOutcome::Finished { result, is_earlier: false }
            if matches!(result.result.status, RunStatus::Failure | RunStatus::Timeout) =>
        {
            let lines = work::last_lines(&mut work.log(&result.result.receipt_id), MAX_LAST_LINES);
            lines.unwrap_or_else(|error| vec![error.to_string()])
        }
        _ => Vec::new(),
    }
}

/// The outcome of an item, as a pipe gets it.
fn as_line(outcome: &ItemOutcome, last_lines: &[String]) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    match outcome {
        ItemOutcome::Finished { result, .. } => return with_lines(result.to_json(), last_lines),
        ItemOutcome::Held(held) => {
            object.text("id", held.item.as_str()).text("status", "held").text("run", &held.run.to_string());
            object.text("since", held.since.as_str());
        }
        ItemOutcome::Blocked { item, waits_for } => {
            object.text("id", item.as_str()).text("status", "blocked").texts("waits_for", waits_for);
        }
        ItemOutcome::NotRun { item, waits_for } => {
            object.text("id", item.as_str()).text("status", "not_run").texts("waits_for", waits_for);
            object.text("error", &format!("not run: {} did not succeed", super::report::listed(waits_for)));
        }
    }
    object.end();
    text
}

/// A result with the last lines of the output as its last member, if there are any.
fn with_lines(mut result: String, last_lines: &[String]) -> String {
    if !last_lines.is_empty() && result.pop() == Some('}') {
        let mut lines = String::new();
        let mut object = ObjectWriter::new(&mut lines);
        object.texts("last_lines", last_lines);
        object.end();
        result.push(',');
        result.push_str(lines.trim_start_matches('{'));
    }
    result
}
