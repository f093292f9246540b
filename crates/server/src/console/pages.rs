//! The handlers of the pages: what each reads, and how it is rendered.

use std::borrow::Cow;

use crealeph_console::{self as view, PageFrame, Section};
use crealeph_contracts::approval::{LANDING, LANDING_OUTCOME, SignedKind, TENANT_ROBOT};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::passkey::PASSKEY_ENROLMENT;
use crealeph_contracts::scalar::{ExecutionId, Name, RobotId};
use crealeph_decision::access::Permission;
use crealeph_decision::builder::review::is_draft;
use crealeph_decision::policy::{RulesError, ThresholdsSource};
use crealeph_ledger::{Cursor, Direction, EXECUTION_EVENT, Filter, Order, StoredEntry};
use crealeph_runtime::access::{list_keys, list_sessions};
use crealeph_runtime::approvals::{ApprovalHistory, InboxScan};
use crealeph_runtime::entries::{PageQuery, bounded_page};
use crealeph_runtime::report::execution_story;
use crealeph_runtime::webhook::list_webhooks;
use crealeph_runtime::work::receipt::RUN_RECEIPT;

use super::{html, redirect, viewer};
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::routes::robots::{BY_TIME, BacktestPart};
use crate::routes::{
    approvals, entries as ledger, executions as builder, people, robots as robot_routes, usage as used,
    webhooks,
};

/// How many rows a list has.
pub(super) const ROWS: usize = 50;
/// How many of a robot's newest entries its page has, as many as one read brings, and how many bytes of payloads are read for that.
const TIMELINE_ROWS: usize = 16;
const TIMELINE_BYTES: usize = 1 << 20;
/// How far a lineage is followed.
const LINEAGE_DEPTH: usize = 2;
/// How many keys, sessions or webhooks, and how many people, a page lists.
const MAX_GRANTS: usize = 100;
const MAX_PEOPLE: usize = 100;

/// The types of entries that change what a verdict would do, and what became of it.
pub(super) fn approval_types() -> [&'static str; 8] {
    let signed = [SignedKind::Verdict, SignedKind::Enrolment, SignedKind::Revocation, SignedKind::Rules];
    let [verdict, enrolment, revocation, rules] = signed.map(|kind| kind.entry_type().as_str());
    let others = [PASSKEY_ENROLMENT, LANDING, LANDING_OUTCOME, RUN_RECEIPT].map(|kind| kind.as_str());
    let [passkey, landing, outcome, receipt] = others;
    [verdict, enrolment, revocation, rules, passkey, landing, outcome, receipt]
}

/// Which entries change a list: those of the robot that it is filtered by, or all; none if it is not the newest part.
fn live_list(call: &Call) -> Option<&str> {
    call.text("cursor").is_none().then(|| call.text("robot").unwrap_or(""))
}

/// The first page that a role has something on.
pub(super) fn start(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    match (who.may(Permission::Read), &who.robot_id) {
        (true, _) => redirect("/inbox"),
        (false, None) => redirect("/access"),
        (false, Some(_)) => {
            let detail = format!(
                "the console has no page for a session of the role `{}` that is restricted to a robot",
                who.role
            );
            let hint = "sign out, and sign in with a link or key of another role or without the restriction";
            Err(Problem::new(ProblemKind::Forbidden, detail).with_hint(hint))
        }
    }
}

pub(super) fn inbox(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let approver = approvals::approver(call)?;
    let scope = call.text("for");
    let own = approver.as_ref().filter(|_| scope != Some("all"));
    let (items, next, looked_at) = match own {
        Some(approver) => {
            let InboxScan { items, next, looked_at } = approvals::awaited(call, approver, ROWS)?;
            (items, next, looked_at)
        }
        None => {
            let (items, next) = approvals::page(call, ROWS)?;
            let looked_at = items.len() as u64;
            (items, next, looked_at)
        }
    };
    let page = view::InboxView {
        items: &items,
        next: next.map(|next| next.to_string()),
        is_first: call.text("cursor").is_none(),
        looked_at,
        robot: call.text("robot"),
        approver: approver.as_ref(),
        is_own: own.is_some(),
        asked_for: scope,
    };
    let frame = PageFrame { viewer: &viewer, section: Section::Inbox, title: "Inbox", live: Some("") };
    Ok(html(frame.of(view::inbox(&viewer, &page))))
}

pub(super) fn subject(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let approver = approvals::approver(call)?;
    let case = approvals::seen(call, &approvals::named(call)?)?;
    let evidence_ids = approvals::evidence_ids(call, &case)?;
    let page = view::SubjectView { case, evidence_ids };
    let content = view::subject(&viewer, approver.as_ref(), &page);
    // Newer evidence of its robot makes a draft outdated.
    let case = &page.case;
    let live = case.basis.change().is_none().then_some(case.entry.content.robot_id.as_str());
    let frame = PageFrame { viewer: &viewer, section: Section::Inbox, title: "Approval", live };
    Ok(html(frame.of_types(content, &approval_types())))
}

pub(super) fn robots(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let (robots, has_more) = robot_routes::page(call, ROWS)?;
    let next = robots.last().filter(|_| has_more).map(|last| last.robot_id.as_str().to_owned());
    let frame = PageFrame { viewer: &viewer, section: Section::Robots, title: "Robots", live: Some("") };
    let is_first = call.text("after").is_none();
    Ok(html(frame.of(view::robots(&viewer, &robots, is_first, next.as_deref()))))
}

pub(super) fn robot(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let who = call.who()?;
    let status = robot_routes::standing(call)?;
    let query = PageQuery {
        filter: Filter { robot_id: Some(status.robot_id.clone()), ..Filter::default() },
        order: Order::NewestFirst,
        cursor: None,
        limit: TIMELINE_ROWS,
        max_bytes: TIMELINE_BYTES,
    };
    let timeline = bounded_page(call.ledger(), &who.tenant_id, &query, |entry| who.sees(entry))?;
    let page = view::RobotView { status: &status, timeline: &timeline };
    let title = status.robot_id.as_str();
    let frame = PageFrame { viewer: &viewer, section: Section::Robots, title, live: Some(title) };
    Ok(html(frame.of(view::robot(&viewer, &page))))
}

pub(super) fn executions(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let page = builder::current(call, ROWS)?;
    let is_first = call.text("cursor").is_none();
    let (robot, state) = (call.text("robot"), call.text("state"));
    let list = view::ExecutionList { page: &page, is_first, robot, state };
    let live = live_list(call);
    let frame = PageFrame { viewer: &viewer, section: Section::Executions, title: "Executions", live };
    Ok(html(frame.of(view::executions(&viewer, &list))))
}

pub(super) fn execution(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let robot = robot_routes::named(call)?;
    let unknown = || Problem::unknown_id("execution");
    let id = ExecutionId::parse(call.in_path("execution")?).map_err(|_| unknown())?;
    let (log, replays) = ((call.ledger(), &call.who()?.tenant_id), call.text("replay").is_some());
    let story = execution_story(log, &call.app.scopes, (&robot, &id), replays)?.ok_or_else(unknown)?;
    let title = format!("Execution {}", story.row.execution_id);
    // A replay is of the moment in which it was asked for.
    let live = (!replays).then_some(robot.as_str());
    let frame = PageFrame { viewer: &viewer, section: Section::Executions, title: &title, live };
    Ok(html(frame.of(view::execution(&viewer, &story))))
}

pub(super) fn entries(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let page = ledger::page(call, Order::NewestFirst, ROWS)?;
    let filter = ["robot", "type", "state", "module", "execution"].map(|name| (name, call.text(name)));
    let is_first = call.text("cursor").is_none();
    let list = view::LedgerList { page: &page, is_first, filter: filter.to_vec() };
    let kind = call.text("type").filter(|_| call.text("robot").is_none());
    let live = live_list(call).filter(|_| kind.is_none());
    let types = kind.filter(|_| is_first);
    let frame = PageFrame { viewer: &viewer, section: Section::Ledger, title: "Ledger", live };
    Ok(html(frame.of_types(view::entries(&viewer, &list), types.as_slice())))
}

pub(super) fn entry(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let entry = ledger::named(call)?;
    let up = ledger::relatives(call, &entry, Direction::Up, LINEAGE_DEPTH)?;
    let down = ledger::relatives(call, &entry, Direction::Down, LINEAGE_DEPTH)?;
    let is_subject = is_draft(entry.content.module.as_str(), entry.content.state.as_str());
    let has_execution = has_execution(call, &entry)?;
    let detail = view::EntryDetail { entry: &entry, up: &up, down: &down, is_subject, has_execution };
    let title = format!("Entry {}", entry.id);
    let frame = PageFrame { viewer: &viewer, section: Section::Ledger, title: &title, live: None };
    Ok(html(frame.of(view::entry(&viewer, &detail))))
}

/// Whether the execution that an entry is of has a page, which is of its events.
fn has_execution(call: &Call, entry: &StoredEntry) -> Result<bool, Problem> {
    let content = &entry.content;
    let Some(execution) = &content.execution_id else { return Ok(false) };
    let event = Name::parse(EXECUTION_EVENT)
        .map_err(|_| Problem::new(ProblemKind::Internal, "the type of events has an invalid name"))?;
    let filter = Filter {
        robot_id: Some(content.robot_id.clone()),
        kind: Some(event),
        execution_id: Some(execution.clone()),
        ..Filter::default()
    };
    let page = call.ledger().list(&call.who()?.tenant_id, &filter, Order::NewestFirst, None, 1)?;
    Ok(!page.entries.is_empty())
}

pub(super) fn policy(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    if asked.as_ref().is_some_and(|robot| !who.covers(robot)) {
        return Err(Problem::unknown_id("robot"));
    }
    let robot = asked.clone().or_else(|| who.robot_id.clone());
    let robot = robot.unwrap_or_else(|| RobotId::from(TENANT_ROBOT));
    let in_force = call.app.scopes.of(&who.tenant_id, &robot).rules.thresholds();
    let text = |name: &'static str, in_force: f64| (name, in_force, call.text(name).map(str::to_owned));
    let form = view::BacktestForm {
        robot: asked.map_or_else(String::new, |robot| robot.as_str().to_owned()),
        thresholds: vec![
            text("minConfidence", in_force.min_confidence.get()),
            text("maxStalenessMinutes", in_force.max_staleness_minutes.get()),
            text("minLineageCount", in_force.min_lineage_count.get()),
        ],
    };
    let is_asked = form.thresholds.iter().any(|(_, _, asked)| asked.is_some());
    let found = match is_asked.then(|| backtest(call)).transpose() {
        Err(problem) if problem.kind() != ProblemKind::BadParameter => return Err(problem),
        found => found,
    };
    let shown = match &found {
        Ok(found) => Ok(found.as_ref()),
        Err(problem) => Err(problem.words().0),
    };
    let frame = PageFrame { viewer: &viewer, section: Section::Policy, title: "Policy", live: None };
    let mut reply = html(frame.of(view::policy(&viewer, &form, shown)));
    if let Err(problem) = &found {
        reply.status = problem.status();
    }
    Ok(reply)
}

/// Past decisions, newest first, under the rules that are in force for their robots, with the thresholds that the form moved.
fn backtest(call: &Call) -> Result<view::BacktestPage, Problem> {
    let number = |name: &str| match call.text(name).map(str::parse::<f64>) {
        None => Ok(None),
        Some(Ok(number)) if number.is_finite() => Ok(Some(number)),
        Some(_) => Err(Problem::parameter(name, "is not a number")),
    };
    let moved = [number("minConfidence")?, number("maxStalenessMinutes")?, number("minLineageCount")?];
    let tenant = &call.who()?.tenant_id;
    let unusable = |why: RulesError| {
        Problem::new(ProblemKind::BadParameter, format!("these thresholds cannot be used: {why}"))
    };
    let rules_of = |robot: &RobotId| {
        let rules = &call.app.scopes.of(tenant, robot).rules;
        let (own, [confidence, staleness, lineage]) = (rules.thresholds(), moved);
        let thresholds = ThresholdsSource {
            min_confidence: confidence.unwrap_or(own.min_confidence.get()),
            max_staleness_minutes: staleness.unwrap_or(own.max_staleness_minutes.get()),
            min_lineage_count: lineage.unwrap_or(own.min_lineage_count.get()),
        };
        rules.with_thresholds(&thresholds).map(Cow::Owned).map_err(unusable)
    };
    // What cannot be used is refused before there is a decision, too.
    rules_of(&RobotId::from(TENANT_ROBOT))?;
    let BacktestPart { report, reached } = robot_routes::backtested(call, Order::NewestFirst, rules_of)?;
    let cut = report.cut.zip(report.next).zip(reached).map(|((cut, next), reached)| view::BacktestCut {
        reached: reached.to_string(),
        is_by_time: cut == BY_TIME,
        next,
    });
    let is_first = call.text("cursor").is_none();
    Ok(view::BacktestPage { flipped: report.flipped, totals: report.totals, is_first, cut })
}

pub(super) fn usage(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let period = view::UsagePeriod { from: call.text("from"), to: call.text("to") };
    let from = period.from.map(|day| time_of_day("from", day, "00:00:00Z")).transpose()?;
    let to = period.to.map(|day| time_of_day("to", day, "23:59:59.999999999Z")).transpose()?;
    let report = used::summed_up(call, (from, to))?;
    let frame = PageFrame { viewer: &viewer, section: Section::Usage, title: "Usage", live: None };
    Ok(html(frame.of(view::usage(&viewer, period, &report))))
}

/// A time of a day in UTC.
fn time_of_day(name: &str, day: &str, time: &str) -> Result<Instant, Problem> {
    let at = Instant::parse(&format!("{day}T{time}"));
    at.map_err(|_| Problem::parameter(name, "is not a day like 2026-11-01"))
}

pub(super) fn access(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let who = call.who()?;
    let tenant = &who.tenant_id;
    let (ledger, sees_grants) = (call.ledger(), viewer.sees_grants);
    let cursor = |name| call.cursor_of(name);
    let sessions = sees_grants
        .then(|| Ok::<_, Problem>(list_sessions(ledger, tenant, cursor("sessions")?, MAX_GRANTS)?))
        .transpose()?;
    let keys = sees_grants
        .then(|| Ok::<_, Problem>(list_keys(ledger, tenant, cursor("keys")?, MAX_GRANTS)?))
        .transpose()?;
    let hooks = sees_grants
        .then(|| Ok::<_, Problem>(list_webhooks(ledger, tenant, cursor("webhooks")?, MAX_GRANTS)?))
        .transpose()?;
    let after = call.identifier("people", Name::parse)?;
    let history = ApprovalHistory::load(ledger, tenant)?;
    let (people, next_people) = people::page(history.as_ref(), after.as_ref(), MAX_PEOPLE);
    let page = view::AccessPage {
        keys: keys.as_ref().map(listed),
        sessions: sessions.as_ref().map(listed),
        own_session: who.key_id.as_str(),
        ends_sessions: who.may(Permission::ManageKeys),
        webhooks: hooks.as_ref().map(listed),
        people: view::AccessList { rows: &people, next: next_people },
        root: history.as_ref().and_then(|history| history.judge.root()),
        rules: history.as_ref().map_or(&[][..], |history| history.judge.rules()),
    };
    let frame = PageFrame { viewer: &viewer, section: Section::Access, title: "Access", live: None };
    Ok(html(frame.of(view::access(&viewer, &page))))
}

/// A page of a list, as it is shown.
fn listed<T>((rows, next): &(Vec<T>, Option<Cursor>)) -> view::AccessList<'_, T> {
    view::AccessList { rows, next: next.as_ref().map(ToString::to_string) }
}

pub(super) fn enable_webhook(call: &Call) -> Result<Reply, Problem> {
    webhooks::enabled(call, Some(call.field("reason")))?;
    redirect("/access#webhooks")
}

pub(super) fn delete_webhook(call: &Call) -> Result<Reply, Problem> {
    webhooks::deleted(call, Some(call.field("reason")))?;
    redirect("/access#webhooks")
}
