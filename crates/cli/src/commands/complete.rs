//! The names that a shell offers as completions: runs, agents, robots, executions, people. Called on every press of a key, so
//! it reads little, writes nothing, starts nothing and never fails: what cannot be read offers nothing. From a configuration that is not
//! trusted only the names of agents are read, and nothing that it points to is opened.

use std::ffi::{OsStr, OsString};

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};
use crealeph_contracts::approval::TENANT_ROBOT;
use crealeph_contracts::scalar::Name;
use crealeph_contracts::text::Shown;
use crealeph_ledger::{EXECUTION_EVENT, Filter, IdKind, Ledger, Location, Order};
use crealeph_runtime::approvals::ApprovalHistory;
use crealeph_runtime::work::{RunReader, RunSummary};

use super::ids::execution_of;
use super::ledger::{At, Settled};
use super::typed_line::TypedLine;
use crate::trusting;

/// Set by the scripts of `crealeph completions`: which shell asks.
pub(crate) const VARIABLE: &str = "CREALEPH_COMPLETE";

/// How many names are offered.
const MAX_OFFERED: usize = 50;
/// How many events are read to find executions.
const EVENTS_READ: usize = 200;
/// How much of a task is shown next to its run.
const MAX_TASK_CHARS: usize = 60;

/// The side of a shell.
pub(crate) fn shell(name: &str) -> Option<&'static dyn EnvCompleter> {
    let shells: [&'static dyn EnvCompleter; 5] = [&Bash, &Elvish, &Fish, &Powershell, &Zsh];
    shells.into_iter().find(|shell| shell.is(name))
}

/// Answers a shell that asks what could come next; nothing if none asks.
pub(crate) fn answer(command: fn() -> clap::Command) -> Option<Vec<u8>> {
    let asking = std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty())?;
    // Not in the middle of a line that is being typed.
    trusting::never_ask();
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let here = std::env::current_dir().ok();
    let mut answer = Vec::new();
    let shell = asking.to_str().and_then(shell);
    let written = shell.filter(|_| !words.is_empty()).map(|shell| {
        shell.write_complete(&mut offering(command(), &[]), words, here.as_deref(), &mut answer)
    });
    // A shell that is not understood, or a line that cannot be completed, has no answer.
    Some(match written {
        Some(Ok(())) => answer,
        _ => Vec::new(),
    })
}

/// The command line with what each argument offers. An argument is known by its name: a run is a run in every command.
fn offering(command: clap::Command, parents: &[&str]) -> clap::Command {
    let own = command.get_name().to_owned();
    let path: Vec<&str> = parents.iter().copied().chain([own.as_str()]).collect();
    let command = command.mut_args(|arg| {
        if !arg.get_action().takes_values() {
            return arg;
        }
        match offered_for(arg.get_id().as_str(), &path) {
            Some(names) => arg.add(ArgValueCompleter::new(names)),
            None => arg,
        }
    });
    command.mut_subcommands(|command| offering(command, &path))
}

/// Completions of what was typed.
type Names = fn(&OsStr) -> Vec<CompletionCandidate>;

fn offered_for(argument: &str, path: &[&str]) -> Option<Names> {
    let is_under = |name: &str| path.contains(&name);
    Some(match argument {
        "run" | "receipt" => runs,
        "agent" if is_under("build") => planners,
        "agent" => agents,
        "name" if is_under("agent") => planners,
        "name" if is_under("person") => people,
        "robot" => robots,
        "execution" => executions,
        "by" => people,
        _ => return None,
    })
}

/// Runs by their short ids, newest first, each with its status and task.
fn runs(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(reader) = line().workspace().and_then(|folder| RunReader::open(&folder).ok()) else {
        return Vec::new();
    };
    let own = reader.all().filter(|summary| summary.item.is_some());
    let named = own.map(|summary| (reader.short(&summary.run), summary));
    let fitting = named.filter(|(id, _)| starts(id, current)).take(MAX_OFFERED);
    let candidate = |(id, summary): (String, RunSummary)| {
        let item = reader.item(&summary.run).ok().flatten();
        let task = item.map_or_else(String::new, |item| item.description.trim().to_owned());
        let task = Shown::line(task.lines().next().unwrap_or_default()).at_most(MAX_TASK_CHARS).to_string();
        CompletionCandidate::new(id).help(Some(format!("{} {task}", summary.state.as_str()).into()))
    };
    fitting.map(candidate).collect()
}

/// Agents of `crealeph work`, by name.
fn agents(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, || {
        let configuration = line().configuration()?;
        let names = configuration.section("work").ok()??.get("agents")?.as_table()?;
        Some(names.keys().cloned().collect())
    })
}

/// Agents of the Builder, by name.
fn planners(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, || Some(line().configuration()?.section("agents").ok()??.keys().cloned().collect()))
}

/// Robots, by name.
fn robots(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, || {
        let (ledger, at) = ledger()?;
        let robots = ledger.robots(&at.tenant, None, MAX_OFFERED).ok()?;
        let named = robots.iter().filter(|robot| robot.as_str() != TENANT_ROBOT.as_str());
        Some(named.map(ToString::to_string).collect())
    })
}

/// Executions by their short ids, newest first.
fn executions(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, || {
        let (ledger, at) = ledger()?;
        let filter = Filter { kind: Some(Name::parse(EXECUTION_EVENT).ok()?), ..Filter::default() };
        let page = ledger.list(&at.tenant, &filter, Order::NewestFirst, None, EVENTS_READ).ok()?;
        let mut ids: Vec<String> = Vec::new();
        for event in &page.entries {
            let id = execution_of(event);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        ledger.short_ids(&at.tenant, IdKind::Execution, &ids).ok()
    })
}

/// People who are enrolled, by name.
fn people(current: &OsStr) -> Vec<CompletionCandidate> {
    offered(current, || {
        let (ledger, at) = ledger()?;
        let history = ApprovalHistory::load(&ledger, &at.tenant).ok()??;
        Some(history.judge.people().into_iter().map(|person| person.name).collect())
    })
}

/// The names that complete what was typed; none if they cannot be read. One that a shell would not show as itself, or take apart, is
/// not offered.
fn offered(current: &OsStr, names: impl FnOnce() -> Option<Vec<String>>) -> Vec<CompletionCandidate> {
    let is_plain =
        |name: &String| name.chars().all(|letter| letter.is_alphanumeric() || "-_.@:+/".contains(letter));
    let fitting = names().into_iter().flatten().filter(is_plain).filter(|name| starts(name, current));
    fitting.take(MAX_OFFERED).map(CompletionCandidate::new).collect()
}

fn starts(name: &str, current: &OsStr) -> bool {
    current.to_str().is_some_and(|current| name.starts_with(current))
}

/// The line so far.
fn line() -> TypedLine {
    TypedLine::new(std::env::args_os().skip_while(|word| word != "--").skip(1))
}

/// The ledger that the line is about, if it is a file. One that a configuration names is opened only if that is trusted.
fn ledger() -> Option<(Ledger, Settled)> {
    let line = line();
    let at = At::of_line(line.flag("--ledger"), line.flag("--tenant"));
    let settled = at.settle_with(line.configuration()?, &line.workspace()?).ok()?;
    match &settled.location {
        Location::File(file) if file.is_file() => {
            let ledger = settled.open().ok()?;
            Some((ledger, settled))
        }
        _ => None,
    }
}
