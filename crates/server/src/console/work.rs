//! The pages of work runs: the list, one run, its output, two side by side; and the form that undoes one.

use axum::http::StatusCode;
use crealeph_console::{self as view, OPEN_STATUSES, OUTPUT_BYTES, PageFrame, RunOutput, Section, UndoOffer};
use crealeph_contracts::approval::{LANDING, LANDING_OUTCOME, SignedKind};
use crealeph_contracts::held_change::{HELD, HELD_CHANGE};
use crealeph_contracts::reported::REPORTED_RECEIPT;
use crealeph_decision::access::Permission;
use crealeph_runtime::receipts::RunFileError;
use crealeph_runtime::report::{OpenRuns, RunStory};
use crealeph_runtime::work::RunSummary;
use crealeph_runtime::work::receipt::RUN_RECEIPT;

use super::pages::ROWS;
use super::{html, redirect, viewer};
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::routes::approvals;
use crate::routes::work::{self, FoundRun};
use crate::workspace::start_undo;

pub(super) fn runs(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let (runs, next) = match call.text("status").is_some_and(|status| OPEN_STATUSES.contains(&status)) {
        // No receipt has such a status.
        true => (Vec::new(), None),
        false => work::page(call, ROWS)?,
    };
    let (agent, status) = (call.text("agent"), call.text("status"));
    let is_first = call.text("cursor").is_none();
    let has_workspace = call.who()?.robot_id.is_none() && call.own_runs()?.is_some();
    // What is open has not ended in any way.
    let is_of_open = status.is_none_or(|status| OPEN_STATUSES.contains(&status));
    let is_wanted = |run: &RunSummary| {
        agent.is_none_or(|agent| run.agent.as_deref() == Some(agent))
            && status.is_none_or(|status| run.state.as_str() == status)
    };
    let open = if is_first && is_of_open { work::open_rows(call, is_wanted)? } else { None };
    open.iter().for_each(log_unreadable);
    let list =
        view::RunList { runs: &runs, open: open.as_ref(), next, is_first, agent, status, has_workspace };
    let frame = PageFrame { viewer: &viewer, section: Section::Work, title: "Work", live: None };
    let types = if is_first { &run_types()[..] } else { &[] };
    Ok(html(frame.of_types(view::runs(&viewer, &list), types)))
}

/// The types of entries that change what a run or its held change is.
fn run_types() -> [&'static str; 6] {
    let kinds = [RUN_RECEIPT, REPORTED_RECEIPT, HELD_CHANGE, SignedKind::Verdict.entry_type(), LANDING];
    let [receipt, reported, held, verdict, landing] = kinds.map(|kind| kind.as_str());
    [receipt, reported, held, verdict, landing, LANDING_OUTCOME.as_str()]
}

/// A page names the runs whose files cannot be read; why, which may name paths of this machine, is for who runs the server.
pub(super) fn log_unreadable(open: &OpenRuns) {
    for (run, why) in &open.unreadable {
        tracing::warn!("run {run} of the workspace on this machine is not listed: {why}");
    }
}

/// The run that the path names. One elsewhere that has not ended has no page here, but its held change has.
fn found(call: &Call) -> Result<FoundRun, Problem> {
    work::found(call).map_err(|problem| {
        let held = approvals::named(call).and_then(|id| approvals::seen(call, &id));
        match held.is_ok_and(|case| case.basis.change().is_some()) {
            true => problem.with_hint(
                "its change is held in another workspace, and is in the inbox; the run has a page here once its receipt is recorded",
            ),
            false => problem,
        }
    })
}

pub(super) fn run(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let run = found(call)?;
    let diff = here(run.diff(call))?;
    let mut story = run.story(call)?;
    diff.iter().for_each(|diff| story.add_diff(diff));
    let output = match (&run.kept, &run.logged) {
        (None, Some(_)) => here(run.logs())?.map(RunOutput::Files),
        _ => here(run.output_end(OUTPUT_BYTES))?.map(RunOutput::Part),
    };
    let page = view::RunPage {
        output: output.unwrap_or_else(RunOutput::Absent),
        diff,
        is_recorded: run.logged.is_some(),
        subject: run.kept.as_ref().and_then(|reader| reader.submitted(&run.run)).map(str::to_owned),
        undo: undo_offer(call, &run, &story)?,
        story: &story,
    };
    let title = format!("Run {}", run.run);
    let frame = PageFrame { viewer: &viewer, section: Section::Work, title: &title, live: None };
    // One that has ended stays as it is; one that is running is followed by its output.
    let types = if story.row.status == HELD.as_str() { &run_types()[..] } else { &[] };
    Ok(html(frame.of_types(view::run(&viewer, &page), types)))
}

/// How a run can be undone by who asks.
fn undo_offer(call: &Call, run: &FoundRun, story: &RunStory) -> Result<UndoOffer, Problem> {
    let who = call.who()?;
    let has_landed = matches!(story.row.status.as_str(), "success" | "succeeded")
        && story.row.item.is_some()
        && !story.change.files.is_empty();
    Ok(match &run.kept {
        _ if !has_landed => UndoOffer::Nothing,
        None => UndoOffer::Command("Its workspace is not the one that this server was started in."),
        Some(_) if who.robot_id.is_some() || !who.may(Permission::Run) => {
            UndoOffer::Command("Your role cannot start runs here.")
        }
        Some(_) => UndoOffer::Here,
    })
}

/// A file of a run, or why it is not here.
fn here<T>(file: Result<T, RunFileError>) -> Result<Result<T, String>, Problem> {
    match file {
        Ok(file) => Ok(Ok(file)),
        Err(absent @ (RunFileError::NotHere { .. } | RunFileError::Altered { .. })) => {
            Ok(Err(absent.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn output(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let run = work::found(call)?;
    let part = run.output_after(call.number("after")?.unwrap_or(0), OUTPUT_BYTES)?;
    let frame = PageFrame { viewer: &viewer, section: Section::Work, title: "Output", live: None };
    Ok(html(frame.of(view::output(&viewer, &run.run.to_string(), &part))))
}

pub(super) fn compare(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let found = work::compared(call)?;
    let frame = PageFrame { viewer: &viewer, section: Section::Work, title: "Two runs", live: None };
    Ok(html(frame.of(view::comparison(&viewer, &found))))
}

/// Starts the run that undoes this one, and goes to its page.
pub(super) fn undo(call: &Call) -> Result<Reply, Problem> {
    let run = work::found(call)?;
    let Some(workspace) = call.app.workspace.as_ref().filter(|_| run.kept.is_some()) else {
        let kind = ProblemKind::Other(StatusCode::CONFLICT, "not_here");
        return Err(Problem::new(kind, "the run's workspace is not the one that this server was started in")
            .with_hint(format!("undo it there: `crealeph work undo {}`", run.run)));
    };
    match start_undo(&call.app, workspace, run.run, &call.actor()?)? {
        Some(started) => redirect(&format!("/runs/{started}")),
        None => redirect("/runs"),
    }
}
