//! `crealeph execution`: the results of executions, which rule decided, and whether the decision can be reproduced.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::scalar::{Name, RobotId};
use crealeph_contracts::short_id::NamedKind;
use crealeph_decision::builder::Record;
use crealeph_ledger::{Cursor, EXECUTION_EVENT, EntryPage, Filter, Order, StoredEntry};
use crealeph_runtime::builder::{
    self, BuildError, Execution as Found, ReplayList, ReplayReport, execution_json, execution_of_record,
    reasons_json,
};
use crealeph_runtime::remedies::remedies;

use super::CommandOutcome;
use super::ids::{ShortIds, execution_id, execution_of, payload_text};
use super::ledger::named;
use super::on_ledger::{Opened, Task};
use super::place::{LogSource, Place, RemoteLog};
use crate::failure::{BuilderFailure, Failure};
use crate::output::{Output, note};
use crate::page::Page;

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph execution list --robot robot-7
  crealeph execution list --from log.jsonl
  crealeph execution why
  crealeph execution show 0190a6f0
  crealeph execution replay @- --attempt 2
  crealeph ledger export log.jsonl && crealeph execution replay e-1 --from log.jsonl

`replay` derives the snapshot at the recorded position again, evaluates policy and gate under the recorded rules, and
reports whether the recorded decision follows. It calls no agent and writes nothing. With --from a command reads an export
instead of a ledger and checks every entry against its hash; `crealeph ledger verify` checks who signed it.

An execution is named by its id or the start of it; `@` is the newest, `@-` the one before.

Exit codes: 0 done, 1 there is no such execution, or a replay that does not follow, 2 cannot be done.";

#[derive(Debug, Subcommand)]
pub(super) enum ExecutionTask {
    /// List execution events, newest first
    List {
        /// Only this robot
        #[arg(long)]
        robot: Option<String>,
        /// Only this state
        #[arg(long, value_parser = state)]
        state: Option<ExecutionState>,
        /// Maximum number of results
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Continue after this cursor, from the previous page
        #[arg(long)]
        cursor: Option<String>,
        /// Read an export (`crealeph ledger export`) instead of a ledger
        #[arg(long, value_name = "EXPORT")]
        from: Option<PathBuf>,
    },
    /// Show the events, records and artifacts of an execution
    Show(Named),
    /// Explain which rule decided and what would change it
    Why(Named),
    /// Recompute the decision from the recorded evidence and compare it
    Replay(Named),
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// Execution id [default: the newest]
    execution: Option<String>,
    /// Robot, if several have an execution with this id
    #[arg(long)]
    robot: Option<String>,
    /// Only this attempt
    #[arg(long)]
    attempt: Option<u64>,
    /// Read an export (`crealeph ledger export`) instead of a ledger
    #[arg(long, value_name = "EXPORT")]
    from: Option<PathBuf>,
}

impl Task for ExecutionTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self {
            ExecutionTask::List { robot, state, limit, cursor, from } => {
                list(at, robot, state, (limit, cursor), from.as_deref(), output)
            }
            ExecutionTask::Show(named) => show(at, &named, output),
            ExecutionTask::Why(named) => why(at, &named, output),
            ExecutionTask::Replay(named) => replay(at, &named, output),
        }
    }
}

impl Named {
    fn open(&self, at: &Place, output: &Output) -> Result<Opened, Failure> {
        Opened::new(at, self.from.as_deref(), output)
    }

    fn find(&self, opened: &Opened) -> Result<Found, Failure> {
        let robot = self.robot.as_ref().map(|name| named("robot", name, RobotId::parse)).transpose()?;
        let word = self.execution.as_deref().unwrap_or("@");
        let (id, robot) = execution_id(&opened.log, robot, word)?;
        let found = opened.log.execution(robot.as_ref(), &id)?;
        found.ok_or_else(|| BuilderFailure::NoExecution(id.to_string()).into())
    }

    /// The records asked for, and a failure where there are none.
    fn records(&self, opened: &Opened) -> Result<Vec<(StoredEntry, Record)>, Failure> {
        let Found { records, unreadable, .. } = self.find(opened)?;
        let records: Vec<(StoredEntry, Record)> = records
            .into_iter()
            .filter(|(_, record)| self.attempt.is_none_or(|attempt| record.attempt == attempt))
            .collect();
        match (records.is_empty(), unreadable.into_iter().next()) {
            (false, _) => Ok(records),
            (true, Some(entry)) => Err(BuildError::Unreadable { entry }.into()),
            (true, None) => Err(BuilderFailure::NoRecord { attempt: self.attempt }.into()),
        }
    }
}

fn state(word: &str) -> Result<ExecutionState, String> {
    let words: Vec<&str> = ExecutionState::ALL.iter().map(|state| state.as_str()).collect();
    ExecutionState::parse(word)
        .ok_or_else(|| format!("there is no such state; the states are {}", words.join(", ")))
}

fn list(
    at: &Place,
    robot: Option<String>,
    state: Option<ExecutionState>,
    (limit, cursor): (usize, Option<String>),
    from: Option<&Path>,
    output: &mut Output,
) -> Result<CommandOutcome, Failure> {
    let none = if robot.is_some() || state.is_some() { "no such execution" } else { "no execution yet" };
    let filter = Filter {
        robot_id: robot.map(|name| named("robot", &name, RobotId::parse)).transpose()?,
        state: state.map(|state| named("state", state.as_str(), Name::parse)).transpose()?,
        kind: Some(named("type", EXECUTION_EVENT, Name::parse)?),
        ..Filter::default()
    };
    let cursor = cursor.map(|text| Cursor::parse(&text)).transpose()?;
    let Opened { log, .. } = &Opened::new(at, from, output)?;
    let EntryPage { entries: events, next } = log.whole_page(&filter, Order::NewestFirst, cursor, limit)?;
    let is_json = at.is_json(output);
    let short = if is_json { ShortIds::default() } else { short_executions(log, &events)? };
    for event in &events {
        match is_json {
            true => output.json_line(&event.canonical())?,
            false => output.line(&event_line(event, &short))?,
        }
    }
    if events.is_empty() && next.is_none() && !is_json {
        output.line(none)?;
    }
    output.flush()?;
    if let Some(next) = next {
        note!("there may be more: add --cursor {next}");
    }
    Ok(CommandOutcome::Good)
}

/// The short ids of the executions that events are of.
fn short_executions(log: &LogSource, events: &[StoredEntry]) -> Result<ShortIds, Failure> {
    let ids: Vec<String> = events.iter().map(execution_of).collect();
    ShortIds::find(log, NamedKind::Execution, ids.iter().map(String::as_str))
}

fn event_line(event: &StoredEntry, short: &ShortIds) -> String {
    let field = |key: &str| payload_text(event, key);
    format!(
        "{}  {:<9} {}  robot {}, attempt {}, {} on a {} snapshot",
        event.created_at,
        event.content.state,
        short.of(&execution_of(event)),
        event.content.robot_id,
        field("attempt"),
        field("action"),
        field("coherenceStatus"),
    )
}

fn show(at: &Place, named: &Named, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let opened = named.open(at, output)?;
    let found = named.find(&opened)?;
    if at.is_json(output) {
        output.json(&execution_json(&found))?;
        return Ok(CommandOutcome::Good);
    }
    let executions = short_executions(&opened.log, &found.events)?;
    let entries = ShortIds::of_entries(&opened.log, &found.others)?;
    for event in &found.events {
        output.line(&event_line(event, &executions))?;
    }
    for (_, record) in &found.records {
        output.line(&format!("  attempt {}: {}", record.request.attempt, record.reason))?;
    }
    for entry in &found.others {
        output.line(&format!(
            "  {:<12} {:<9} {}",
            entry.content.kind,
            entry.content.state,
            entries.of(entry.id.as_str())
        ))?;
    }
    if found.is_cut {
        let id = named.execution.as_deref().unwrap_or("ID");
        output.line(&format!("  only a part is shown; list all: crealeph ledger list --execution {id}"))?;
    }
    Ok(CommandOutcome::Good)
}

fn why(at: &Place, named: &Named, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let opened = named.open(at, output)?;
    let records = named.records(&opened)?;
    let Some((_, record)) = records.last() else { return Ok(CommandOutcome::Good) };
    if at.is_json(output) {
        output.report(&reasons_json(record))?;
        return Ok(CommandOutcome::Good);
    }
    let short = opened.short_execution(execution_of_record(record))?;
    output.page(&reasons_page(record, &short))?;
    Ok(CommandOutcome::Good)
}

fn reasons_page(record: &Record, execution: &str) -> Page {
    let mut out = Page::default();
    let _ = writeln!(
        out,
        "Execution {execution}, attempt {}, ended `{}`: {}",
        record.request.attempt, record.answer.state, record.reason
    );
    let ran = if record.agent_ran { "ran" } else { "did not run" };
    let _ = writeln!(out, "Policy: {}; the agent {ran}.", record.policy.decision);
    out.blank();
    for reason in record.policy.reasons.as_slice() {
        let _ = writeln!(out, "  {:<28} {}", reason.rule_id, reason.message.as_str());
    }
    if record.answer.ok {
        return out;
    }
    out.blank();
    out.line("What would change it:");
    if record.agent_ran {
        let next = match record.answer.artifacts.as_slice().is_empty() {
            true => {
                "an agent whose answer conforms to its contract; send the request again with a higher attempt"
            }
            false => "a person's verdict on the drafts: crealeph review list",
        };
        let _ = writeln!(out, "  {next}");
        return out;
    }
    for reason in record.policy.reasons.as_slice() {
        for remedy in reason.evidence.with(remedies) {
            let _ = writeln!(out, "  {remedy}");
        }
    }
    let _ = writeln!(out, "Then send the request again under a new executionId.");
    out
}

/// Derives recorded decisions again, here or where the log is.
fn replays(opened: &Opened, named: &Named) -> Result<Vec<ReplayReport>, Failure> {
    let records = named.records(opened)?;
    let RemoteLog { client, .. } = match &opened.log {
        LogSource::Ledger(ledger, tenant) => {
            let replayed = records.iter().map(|(entry, record)| {
                Ok(ReplayReport::of(record, &builder::replay(ledger, tenant, entry, record)?))
            });
            return replayed.collect();
        }
        LogSource::Server(remote) => remote,
    };
    let Some((entry, record)) = records.last() else { return Ok(Vec::new()) };
    let path = ["executions", entry.content.robot_id.as_str(), record.execution_id.as_str(), "replay"];
    let query = [("attempt", named.attempt.map(|attempt| attempt.to_string()))];
    Ok(client.get(&path, &query)?.read::<ReplayList>()?.replays)
}

fn replay(at: &Place, named: &Named, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let opened = named.open(at, output)?;
    let is_json = at.is_json(output);
    let mut follows = true;
    for replay in replays(&opened, named)? {
        follows &= replay.follows;
        if is_json {
            output.report_line(&replay)?;
            continue;
        }
        let word = if replay.follows { "follows" } else { "does not follow" };
        let execution = opened.short_execution(&replay.execution_id)?;
        let attempt = replay.attempt;
        output.line(&format!("execution {execution}, attempt {attempt}: the recorded decision {word}"))?;
        for check in &replay.checks {
            match check.same {
                true => output.line(&format!("  same    {}", check.what))?,
                false => {
                    output.line(&format!("  differs {}", check.what))?;
                    output.line(&format!("          recorded {}", check.recorded))?;
                    output.line(&format!("          derived  {}", check.derived))?;
                }
            }
        }
    }
    Ok(if follows { CommandOutcome::Good } else { CommandOutcome::Bad })
}
