//! `crealeph snapshot`: a summary of a robot's evidence and its consistency.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::entry::Entry;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::scalar::{RobotId, TenantId};
use crealeph_contracts::short_id::NamedKind;
use crealeph_contracts::violation::Report;
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::policy::RulesSource;
use crealeph_decision::snapshot::{
    Derivation, MAX_LINEAGE, MAX_LISTED, Question, Snapshot, SnapshotFacts, SnapshotType,
};
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::client::ClientError;
use crealeph_runtime::snapshot_report::SnapshotOutline;

use super::CommandOutcome;
use super::ids::ShortIds;
use super::ledger::{At, Settled, named};
use super::place::{Place, RemoteLog};
use super::policy::read_rules;
use crate::failure::{ArgumentFailure, Failure, InputFailure, LedgerFailure, ServerFailure};
use crate::input::{DEFAULT_MAX_BYTES, Line, Source, next_line};
use crate::output::Output;
use crate::page::Page;
use crate::progress::Progress;

/// How many entries a file may hold; a ledger has no such bound.
const MAX_ENTRIES: usize = 1_000_000;

/// How many tenants or robots are named to choose from.
const MAX_NAMED: usize = 20;

const EXAMPLES: &str = "\
Examples:
  crealeph snapshot robot-7
  crealeph snapshot robot-7 --ledger ledger.db --at 2026-03-04T06:00:00Z --json
  crealeph snapshot --from entries.jsonl
  crealeph snapshot robot-7 --from entries.jsonl --at 2026-03-04T06:00:00Z --json

An entry is a JSON object with `id`, `robotId`, `type`, `createdAt` and, if it has them, `seq`, `tenantId`,
`module`, `source`, `state`, `observedAt`, `payload`, `lineage` {\"dependsOnLedgerIds\": […]} and `key`.

Exit codes: 0 derived (whatever the coherence), 1 nothing counts or an entry is not valid, 2 cannot be derived.";

/// Summarise a robot's evidence and check its consistency
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SnapshotCommand {
    /// Robot; optional if the entries belong to one
    robot: Option<String>,

    /// Read entries from JSON Lines, oldest first, instead of a ledger; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ledger", "keys", "server"])]
    from: Option<PathBuf>,

    #[command(flatten)]
    at_ledger: At,

    /// Snapshot at this time [default: now]
    #[arg(long, value_name = "INSTANT")]
    at: Option<String>,

    /// Rules file whose `[coherence]` replaces the configuration's (see `crealeph policy --help`)
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

impl SnapshotCommand {
    pub(super) fn wants_json(&self) -> bool {
        self.at_ledger.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let at = match &self.at {
            None => None,
            Some(text) => {
                Some(Instant::parse(text).map_err(|why| ArgumentFailure::BadInstant(text.clone(), why))?)
            }
        };
        let is_json = self.wants_json() || !output.is_for_person();
        let rules = match self.rules {
            Some(file) => Some(read_rules(Some(file))?.0),
            None => None,
        };
        let mut log = None;
        let (outline, document) = match self.from {
            Some(file) => {
                let progress = Progress::beside("entries read", output);
                let rules = rules.unwrap_or_default().coherence;
                let (tenant, robot) = (self.at_ledger.tenant(), self.robot.as_deref());
                shown(&from_file(file, progress, tenant, robot, at, &rules)?)?
            }
            None => {
                let place = self.at_ledger.place()?;
                let robot = self.robot.as_deref().ok_or(ArgumentFailure::RobotMissing)?;
                let robot = named("robot", robot, RobotId::parse)?;
                log = Some(place.log()?);
                match &place {
                    Place::Here(ledger) => shown(&from_ledger(ledger, &robot, at, rules)?)?,
                    Place::Server(_) if rules.is_some() => {
                        return Err(ServerFailure::Excluded("--rules").into());
                    }
                    Place::Server(remote) => from_server(remote, &robot, at)?,
                }
            }
        };
        if is_json {
            output.json(&document)?;
            return Ok(CommandOutcome::Good);
        }
        let ids = SnapshotType::ALL.into_iter().filter_map(|kind| outline.newest.get(kind).as_ref());
        let short = match &log {
            Some(log) => ShortIds::find(log, NamedKind::Entry, ids.map(|(id, _)| id.as_str()))?,
            None => ShortIds::default(),
        };
        output.page(&as_page(&outline, &short))?;
        Ok(CommandOutcome::Good)
    }
}

fn from_file(
    file: PathBuf,
    progress: Progress,
    asked_tenant: Option<&str>,
    asked_robot: Option<&str>,
    at: Option<Instant>,
    rules: &CoherenceRules,
) -> Result<Snapshot, Failure> {
    let source = Source::new(Some(file));
    let entries = read_entries(&source, progress)?;
    let tenants: BTreeSet<Option<&TenantId>> = entries.iter().map(|entry| entry.tenant_id.as_ref()).collect();
    let tenant_name =
        |tenant: &Option<&TenantId>| tenant.map_or("(none)", |tenant| tenant.as_str()).to_owned();
    let tenant = pick(&tenants, asked_tenant, tenant_name, "tenants", "--tenant")?;
    let robots: BTreeSet<&RobotId> = entries
        .iter()
        .filter(|entry| entry.tenant_id.as_ref() == tenant)
        .map(|entry| &entry.robot_id)
        .collect();
    let robot = pick(&robots, asked_robot, |robot| robot.to_string(), "robots", "ROBOT")?;

    let question = Question { tenant_id: tenant, robot_id: robot, at, derivation: Derivation::default() };
    let facts = SnapshotFacts::from_entries(&entries, &question, rules);
    Snapshot::derive(facts, rules)
        .ok_or_else(|| LedgerFailure::SnapshotEmpty(robot.as_str().to_owned()).into())
}

/// What is printed of a snapshot: an outline for people, the document for programs.
fn shown(snapshot: &Snapshot) -> Result<(SnapshotOutline, String), Failure> {
    Ok((SnapshotOutline::of(snapshot), snapshot.document()?.as_str().to_owned()))
}

fn from_server(
    remote: &RemoteLog,
    robot: &RobotId,
    at: Option<Instant>,
) -> Result<(SnapshotOutline, String), Failure> {
    let query = [("at", at.map(|at| at.to_string()))];
    let empty = || LedgerFailure::SnapshotEmpty(robot.as_str().to_owned());
    let answer = match remote.client.get(&["robots", robot.as_str(), "snapshot"], &query) {
        Err(ClientError::Refused(why)) if why.code == empty().code() => return Err(empty().into()),
        answer => answer?,
    };
    Ok((answer.read_with(SnapshotOutline::read)?, answer.json_text()?.to_owned()))
}

fn from_ledger(
    ledger: &Settled,
    robot: &RobotId,
    at: Option<Instant>,
    rules: Option<RulesSource>,
) -> Result<Snapshot, Failure> {
    let scopes = Scopes::load(&ledger.configuration, rules)?;
    let rules = &scopes.of(&ledger.tenant, robot).coherence;
    let facts = ledger.open()?.facts(&ledger.tenant, robot, at, rules)?;
    let snapshot = facts.and_then(|facts| Snapshot::derive(facts, rules));
    snapshot.ok_or_else(|| match Path::new(robot.as_str()).is_file() {
        true => Failure::from(ArgumentFailure::FileForRobot(robot.to_string())),
        false => LedgerFailure::SnapshotEmpty(robot.as_str().to_owned()).into(),
    })
}

/// The requested one, or the only one.
fn pick<T: Copy>(
    known: &BTreeSet<T>,
    asked: Option<&str>,
    name: impl Fn(&T) -> String,
    what: &'static str,
    flag: &'static str,
) -> Result<T, Failure> {
    let names = || {
        let named = known.iter().take(MAX_NAMED).map(&name).collect::<Vec<_>>().join(", ");
        match known.len().saturating_sub(MAX_NAMED) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    };
    let several = || ArgumentFailure::Several { what, known: names(), flag };
    let mut candidates = known.iter().filter(|one| asked.is_none_or(|asked| name(one) == asked));
    match (candidates.next(), candidates.next()) {
        (Some(one), None) => Ok(*one),
        (None, _) if asked.is_some() => {
            Err(LedgerFailure::SnapshotEmpty(asked.unwrap_or_default().to_owned()).into())
        }
        _ => Err(several().into()),
    }
}

fn read_entries(source: &Source, mut progress: Progress) -> Result<Vec<Entry>, Failure> {
    let mut reader = source.open()?;
    let mut entries = Vec::new();
    let mut number = 0usize;
    loop {
        number += 1;
        progress.step(1);
        let line = match next_line(&mut reader, DEFAULT_MAX_BYTES).map_err(|error| source.failure(error))? {
            Line::End => break,
            Line::Whole(line) => line,
            Line::TooLong => {
                let what = format!("{}, line {number}", source.name());
                return Err(InputFailure::TooLarge { what, limit: DEFAULT_MAX_BYTES }.into());
            }
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        if entries.len() >= MAX_ENTRIES {
            return Err(
                InputFailure::TooMany { name: source.name(), limit: MAX_ENTRIES, what: "entries" }.into()
            );
        }
        let (document, faults) = parse(&line, &Limits::default());
        let read = match document {
            Some(document) if faults.is_empty() => Entry::read_from(document.root()),
            _ => {
                let mut report = Report::default();
                faults.into_iter().for_each(|fault| report.add_fault(fault));
                Err(report.into_violations())
            }
        };
        entries.push(read.map_err(|violations| {
            let name = format!("{}, line {number}", source.name());
            InputFailure::Invalid { name, expected: "entry", violations }
        })?);
    }
    match entries.is_empty() {
        true => Err(InputFailure::NoEntries(source.name()).into()),
        false => Ok(entries),
    }
}

fn as_page(snapshot: &SnapshotOutline, short: &ShortIds) -> Page {
    let mut out = Page::default();
    let _ = writeln!(out, "Robot {}: {}", snapshot.robot_id, snapshot.status);
    let _ = writeln!(out, "{}", snapshot.reason);
    let _ = writeln!(out, "snapshot at {}", snapshot.snapshot_at);
    out.blank();
    for kind in SnapshotType::ALL {
        let _ = match snapshot.newest.get(kind) {
            Some((id, at)) => writeln!(out, "  {:<10} {at:<26} {}", kind.as_str(), short.of(id)),
            None => writeln!(out, "  {:<10} none", kind.as_str()),
        };
    }
    let listed = |count: usize, most: usize| match count >= most {
        true => format!("the newest {most}"),
        false => count.to_string(),
    };
    let (tasks, lineage) = (listed(snapshot.tasks, MAX_LISTED), listed(snapshot.lineage, MAX_LINEAGE));
    out.blank();
    let _ = writeln!(out, "{tasks} tasks, {lineage} entries may be depended on");
    out
}
