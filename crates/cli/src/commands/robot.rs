//! `crealeph robot`: the status of robots and next steps.

use std::collections::BTreeMap;

use clap::Subcommand;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::RobotId;
use crealeph_contracts::short_id::NamedKind;
use crealeph_decision::snapshot::SnapshotType;
use crealeph_ledger::Clock;
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::robot::{robots, status};
use crealeph_runtime::robot_report::{ActionStanding, RobotPage, RobotRow, RobotStatusReport, age_minutes};

use super::CommandOutcome;
use super::ids::ShortIds;
use super::ledger::named;
use super::on_ledger::Task;
use super::place::Place;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::page::Page;
use crate::render::counted;

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph robot list
  crealeph robot status robot-7
  crealeph robot status robot-7 --json | jq '.steps'

Steps are what must be created before the Builder may run, in order.

Exit codes: 0 done, whatever the status, 2 cannot be done.";

#[derive(Debug, Subcommand)]
pub(super) enum RobotTask {
    /// List robots with coherence, oldest evidence, last execution and pending reviews
    List {
        /// Maximum number of results
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Continue after this robot, from the previous page
        #[arg(long, value_name = "ROBOT")]
        after: Option<String>,
    },
    /// Show a robot's status and next steps
    Status {
        /// Robot
        robot: String,
    },
}

impl Task for RobotTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let robot = match self {
            RobotTask::List { limit, after } => return list(at, limit, after.as_deref(), output),
            RobotTask::Status { robot } => named("robot", &robot, RobotId::parse)?,
        };
        let report = match at {
            Place::Here(at) => {
                let scopes = Scopes::load(&at.configuration, None)?;
                let status = status(&at.open()?, &at.tenant, &robot, scopes.of(&at.tenant, &robot))?;
                RobotStatusReport::of(&status)
            }
            Place::Server(remote) => remote.client.get(&["robots", robot.as_str(), "status"], &[])?.read()?,
        };
        match at.is_json(output) {
            true => output.report(&report)?,
            false => {
                let ids = report.known.iter().map(|known| known.id.as_str());
                let short = ShortIds::find(&at.log()?, NamedKind::Entry, ids)?;
                output.page(&as_page(&report, &short))?;
            }
        }
        Ok(CommandOutcome::Good)
    }
}

fn list(
    at: &Place,
    limit: usize,
    after: Option<&str>,
    output: &mut Output,
) -> Result<CommandOutcome, Failure> {
    let after = after.map(|name| named("robot", name, RobotId::parse)).transpose()?;
    let page: RobotPage = match at {
        Place::Here(at) => {
            let scopes = Scopes::load(&at.configuration, None)?;
            let (robots, has_more) = robots(&at.open()?, &at.tenant, &scopes, after.as_ref(), limit)?;
            RobotPage::of(&robots, has_more)
        }
        Place::Server(remote) => {
            let after = after.map(|robot| robot.to_string());
            remote.client.get(&["robots"], &[("limit", Some(limit.to_string())), ("after", after)])?.read()?
        }
    };
    let now = Clock::system().now().instant();
    let is_json = at.is_json(output);
    for robot in &page.robots {
        match is_json {
            true => output.report_line(robot)?,
            false => output.line(&robot_line(robot, now))?,
        }
    }
    if page.robots.is_empty() && !is_json {
        output.line("no robot has an entry yet")?;
    }
    output.flush()?;
    if let Some(last) = page.next {
        note!("there are more robots: add --after {last}");
    }
    Ok(CommandOutcome::Good)
}

fn robot_line(robot: &RobotRow, now: Instant) -> String {
    let evidence = robot.oldest_evidence.as_ref().map_or("no evidence".to_owned(), |evidence| {
        format!("oldest evidence {}, {}", evidence.kind, age_of(now, &evidence.at))
    });
    let last = robot.last_execution.as_ref().map_or("no execution".to_owned(), |last| {
        format!("last execution {} ({})", last.state, age_of(now, &last.at))
    });
    let drafts = match (robot.drafts_waiting, robot.more_drafts_may_wait) {
        (0, false) => String::new(),
        (count, false) => format!("; {count} awaiting review"),
        (count, true) => format!("; {count} or more awaiting review"),
    };
    let coherence = robot.coherence.as_deref().unwrap_or("unknown");
    format!("{:<24} {coherence:<9} {evidence}; {last}{drafts}", robot.robot_id)
}

fn as_page(status: &RobotStatusReport, short: &ShortIds) -> Page {
    let mut out = Page::default();
    let robot = &status.robot_id;
    match &status.coherence {
        None => {
            let _ = writeln!(out, "Robot {robot}: nothing is known");
        }
        Some(coherence) => {
            let _ = writeln!(out, "Robot {robot}: {}", coherence.status);
            out.line(&coherence.reason);
            out.blank();
            out.line("Known:");
            for kind in SnapshotType::ALL.map(SnapshotType::as_str) {
                let _ = match status.known.iter().find(|known| known.kind == kind) {
                    Some(known) => {
                        writeln!(out, "  {kind:<10} {:<10} {}", age(known.age_minutes), short.of(&known.id))
                    }
                    None => writeln!(out, "  {kind:<10} none"),
                };
            }
        }
    }
    latest(status, &mut out);
    told_actions(status, &mut out);
    out.blank();
    out.line("What would help, in this order:");
    for (number, step) in status.steps.iter().enumerate() {
        let how = match step.by_any_of.is_empty() {
            true => format!("append a new {} (it comes from outside)", step.make),
            false => format!("{} for a new {}", step.by_any_of.join(" or "), step.make),
        };
        let _ = writeln!(out, "  {}. {how}: {}", number + 1, step.because);
    }
    let _ = writeln!(out, "  {}. crealeph build --robot {robot} …", status.steps.len() + 1);
    out
}

/// What came last, and what waits.
fn latest(status: &RobotStatusReport, out: &mut Page) {
    let robot = &status.robot_id;
    if !status.latest.is_empty() {
        out.blank();
        out.line("Last of each type:");
    }
    let now = Instant::parse(&status.at).ok();
    for entry in &status.latest {
        let why = entry.why.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
        let since = now.map_or_else(|| entry.at.clone(), |now| age_of(now, &entry.at));
        let _ = writeln!(out, "  {:<16} {} by {}{why} ({since})", entry.kind, entry.state, entry.module);
    }
    if status.has_more_types {
        let _ = writeln!(out, "  and more types: crealeph ledger list --robot {robot}");
    }
    if status.drafts_waiting > 0 {
        out.blank();
        let drafts = counted(usize::try_from(status.drafts_waiting).unwrap_or(usize::MAX), "draft");
        let _ = writeln!(out, "{drafts} awaiting review: crealeph review list --robot {robot}");
    }
}

/// The actions by what they are, and within that by why.
fn told_actions(status: &RobotStatusReport, out: &mut Page) {
    for wanted in [ActionStanding::Blocked, ActionStanding::Deferred, ActionStanding::Allowed] {
        let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for action in status.actions.iter().filter(|action| action.is == wanted) {
            let reasons = action.reasons.iter().filter(|_| wanted != ActionStanding::Allowed);
            let why: Vec<&str> = reasons.map(|reason| reason.message.as_str()).collect();
            by_reason.entry(why.join("; ")).or_default().push(&action.action);
        }
        for (why, actions) in by_reason {
            let because = if why.is_empty() { String::new() } else { format!(", {why}") };
            out.blank();
            let _ = writeln!(out, "Actions that are {}{because}:", wanted.as_str());
            let _ = writeln!(out, "  {}", actions.join(", "));
        }
    }
}

/// How long ago an instant was; text that is not an instant is returned unchanged.
fn age_of(now: Instant, at: &str) -> String {
    Instant::parse(at).map_or_else(|_| at.to_owned(), |at| age(age_minutes(now, at)))
}

/// An age as a person says it.
fn age(minutes: f64) -> String {
    match minutes {
        minutes if minutes < 1.0 => "just now".to_owned(),
        minutes if minutes < 120.0 => format!("{minutes:.0} min"),
        minutes if minutes < 2880.0 => format!("{:.0} h", minutes / 60.0),
        minutes => format!("{:.0} days", minutes / 1440.0),
    }
}
