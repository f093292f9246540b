//! `crealeph robot`: the status of robots and next steps.

use std::collections::BTreeMap;

use clap::Subcommand;
use crealeph_contracts::scalar::RobotId;
use crealeph_decision::snapshot::SnapshotType;
use crealeph_ledger::IdKind;
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::review::WaitingDrafts;
use crealeph_runtime::robot::{Status, robots, status};
use crealeph_runtime::robot_report::{ActionStanding, age_minutes, event_reason, status_json, summary_json};

use super::Verdict;
use super::ids::ShortIds;
use super::ledger::{Settled, named};
use super::on_ledger::Task;
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
    fn run(self, at: &Settled, output: &mut Output) -> Result<Verdict, Failure> {
        let robot = match self {
            RobotTask::List { limit, after } => return list(at, limit, after.as_deref(), output),
            RobotTask::Status { robot } => robot,
        };
        let robot = named("robot", &robot, RobotId::parse)?;
        let scopes = Scopes::load(&at.configuration, None)?;
        let ledger = at.open()?;
        let status = status(&ledger, &at.tenant, &robot, scopes.of(&at.tenant, &robot))?;
        match at.is_json(output) {
            true => output.report(&status_json(&status))?,
            false => {
                let newest = status.snapshot.iter().flat_map(|snapshot| {
                    SnapshotType::ALL.into_iter().filter_map(|kind| snapshot.facts.newest.get(kind).as_ref())
                });
                let ids = newest.map(|newest| newest.entry.id.as_str());
                let short = ShortIds::find(&ledger, &at.tenant, IdKind::Entry, ids)?;
                output.page(&as_page(&status, &short))?;
            }
        }
        Ok(Verdict::Good)
    }
}

fn list(at: &Settled, limit: usize, after: Option<&str>, output: &mut Output) -> Result<Verdict, Failure> {
    let after = after.map(|name| named("robot", name, RobotId::parse)).transpose()?;
    let scopes = Scopes::load(&at.configuration, None)?;
    let ledger = at.open()?;
    let (robots, has_more) = robots(&ledger, &at.tenant, &scopes, after.as_ref(), limit)?;
    let now = ledger.now().instant();
    let is_json = at.is_json(output);
    for robot in &robots {
        let coherence = robot.coherence.map(|coherence| coherence.as_str());
        let event = robot.last_event.as_ref();
        if is_json {
            output.report_line(&summary_json(robot))?;
            continue;
        }
        let evidence = robot.oldest_evidence.map_or("no evidence".to_owned(), |(kind, at)| {
            format!("oldest evidence {}, {}", kind.as_str(), age(age_minutes(now, at)))
        });
        let last = event.map_or("no execution".to_owned(), |event| {
            let since = age(age_minutes(now, event.created_at.instant()));
            format!("last execution {} ({since})", event.content.state)
        });
        let drafts = match robot.drafts {
            WaitingDrafts { count: 0, is_cut: false } => String::new(),
            WaitingDrafts { count, is_cut: false } => format!("; {count} waiting for review"),
            WaitingDrafts { count, is_cut: true } => format!("; {count} or more waiting for review"),
        };
        let coherence = coherence.unwrap_or("unknown");
        output.line(&format!("{:<24} {coherence:<9} {evidence}; {last}{drafts}", robot.robot_id))?;
    }
    if robots.is_empty() && !is_json {
        output.line("no robot has an entry yet")?;
    }
    output.flush()?;
    if let (true, Some(last)) = (has_more, robots.last()) {
        note!("there are more robots: add --after {}", last.robot_id);
    }
    Ok(Verdict::Good)
}

fn as_page(status: &Status, short: &ShortIds) -> Page {
    let mut out = Page::default();
    let robot = &status.robot_id;
    match &status.snapshot {
        None => {
            let _ = writeln!(out, "Robot {robot}: nothing is known");
        }
        Some(snapshot) => {
            let _ = writeln!(out, "Robot {robot}: {}", snapshot.coherence.status);
            out.line(&snapshot.coherence.reason);
            out.blank();
            out.line("Known:");
            for kind in SnapshotType::ALL {
                let _ = match snapshot.facts.newest.get(kind) {
                    Some(newest) => writeln!(
                        out,
                        "  {:<10} {:<10} {}",
                        kind.as_str(),
                        age(age_minutes(status.at, newest.entry.true_at().instant())),
                        short.of(newest.entry.id.as_str())
                    ),
                    None => writeln!(out, "  {:<10} none", kind.as_str()),
                };
            }
        }
    }
    if !status.latest.is_empty() {
        out.blank();
        out.line("Last of each type:");
    }
    for entry in &status.latest {
        let content = &entry.content;
        let why = event_reason(entry).map(|why| format!(", {why}")).unwrap_or_default();
        let since = age(age_minutes(status.at, entry.created_at.instant()));
        let _ = writeln!(
            out,
            "  {:<16} {} by {}{why} ({since})",
            content.kind.as_str(),
            content.state,
            content.module
        );
    }
    if status.has_more_types {
        let _ = writeln!(out, "  and more types: crealeph ledger list --robot {robot}");
    }
    if status.drafts > 0 {
        out.blank();
        let _ = writeln!(
            out,
            "{} waiting: crealeph review list --robot {robot}",
            counted(usize::try_from(status.drafts).unwrap_or(usize::MAX), "draft")
        );
    }
    told_actions(status, &mut out);
    out.blank();
    out.line("What would help, in this order:");
    for (number, step) in status.steps.iter().enumerate() {
        let by: Vec<&str> = step.by.iter().map(|action| action.as_str()).collect();
        let how = match by.is_empty() {
            true => format!("append a new {} (it comes from outside)", step.kind.as_str()),
            false => format!("{} for a new {}", by.join(" or "), step.kind.as_str()),
        };
        let _ = writeln!(out, "  {}. {how}: {}", number + 1, step.because);
    }
    let _ = writeln!(out, "  {}. crealeph build --robot {robot} …", status.steps.len() + 1);
    out
}

/// The actions by what they are, and within that by why.
fn told_actions(status: &Status, out: &mut Page) {
    for wanted in [ActionStanding::Blocked, ActionStanding::Deferred, ActionStanding::Allowed] {
        let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (action, answer) in
            status.actions.iter().filter(|(action, answer)| ActionStanding::of(action, answer) == wanted)
        {
            let reasons = answer.reasons.as_slice().iter().filter(|_| wanted != ActionStanding::Allowed);
            let why: Vec<&str> = reasons.map(|reason| reason.message.as_str()).collect();
            by_reason.entry(why.join("; ")).or_default().push(action.as_str());
        }
        for (why, actions) in by_reason {
            let because = if why.is_empty() { String::new() } else { format!(", {why}") };
            out.blank();
            let _ = writeln!(out, "Actions that are {}{because}:", wanted.as_str());
            let _ = writeln!(out, "  {}", actions.join(", "));
        }
    }
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
