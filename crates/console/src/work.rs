//! Work runs: the list with its filters, and one with what it changed, what it used of its bounds, and its receipt.

use crealeph_runtime::receipts::LoggedRunReport;
use crealeph_runtime::report::{BoundStory, ProofStatus, RunStory};
use maud::{Markup, html};

use crate::diff::{DiffBounds, diff};
use crate::executions::approval_story;
use crate::frame::Viewer;
use crate::parts::{
    badge, block, counted, empty, facts, filter_choice, filter_field, line, next_page, number, path, query,
    short, time, words,
};

/// A page of the list.
#[derive(Clone, Debug)]
pub struct RunList<'w> {
    /// The runs, newest first.
    pub runs: &'w [LoggedRunReport],
    /// Where the list continues.
    pub next: Option<String>,
    /// The agent that is filtered by.
    pub agent: Option<&'w str>,
    /// The status that is filtered by.
    pub status: Option<&'w str>,
}

/// The list.
pub fn runs(viewer: &Viewer, list: &RunList<'_>) -> Markup {
    let RunList { runs, next, agent, status } = list;
    html! {
        h1 { "Work" }
        form .filter action="/runs" method="get" {
            (filter_field("Agent", "agent", *agent))
            (filter_choice("Status", "status", &["succeeded", "failed"], *status))
            button type="submit" { "Filter" }
        }
        @if runs.is_empty() && next.is_none() {
            (empty("No run is recorded here. A workspace records its runs in this ledger, or reports them to this server:", Some("crealeph work run --task \"…\" --agent NAME --report-to URL")))
        } @else {
            div .scroll tabindex="0" role="group" aria-label="Runs" {
                table {
                    thead { tr { th { "Run" } th { "Task" } th { "Agent" } th { "Status" } th .number { "Files" } th .number { "Tokens" } th .number { "US$" } th { "Started" } } }
                    tbody { @for run in *runs {
                        @let id = run.row.run.to_string();
                        tr data-row="" {
                            th scope="row" { a href={ "/runs/" (id) } { (short(&id)) } @if run.reported { " " (badge("reported")) } }
                            td .wide { (line(&run.row.task)) }
                            td { @if let Some(agent) = &run.row.agent { (line(agent)) } }
                            td { (badge(&run.row.status)) }
                            td .number { @if let Some(files) = run.row.files { (files) } }
                            td .number { @if let Some(tokens) = run.tokens { (number(tokens.max(0.0) as u64)) } }
                            td .number { @if let Some(cost) = run.cost_usd { (format!("{cost:.2}")) } }
                            td { (time(&run.row.started_at, viewer.now)) }
                        }
                    } }
                }
            }
            (next_page(next.as_ref().map(|next| query("/runs", &[("agent", *agent), ("status", *status), ("cursor", Some(next))]))))
        }
    }
}

/// One run, with what it printed as far as the ledger has it.
#[derive(Clone, Debug)]
pub struct RunPage<'w> {
    /// What happened.
    pub story: &'w RunStory,
    /// What agent and tests printed, by file; or why that is not here.
    pub logs: Result<Vec<(String, String)>, String>,
    /// The diff, or why it is not here.
    pub diff: Result<String, String>,
}

/// The page of a run.
pub fn run(viewer: &Viewer, page: &RunPage<'_>) -> Markup {
    let RunPage { story, logs, diff: change } = page;
    let (row, id) = (&story.row, story.row.run.to_string());
    let api = format!("/v1/work/runs/{id}");
    html! {
        h1 { (line(&row.task)) " " (badge(&row.status)) }
        @if let Some(reason) = &story.reason { p .error { (words(&reason.text)) } }
        (facts(vec![
            ("Run", html! { code { (id) } }),
            ("Agent", html! { @match &story.program {
                Some(agent) => { (line(&agent.name)) @if let Some(program) = &agent.program { ", " code { (line(program)) } } @if let Some(version) = &agent.version { " " (line(version)) } @if !agent.models.is_empty() { ", " (line(&agent.models.join(", "))) } }
                None => (line(row.agent.as_deref().unwrap_or("-"))),
            } }),
            ("Started", html! { (time(&row.started_at, viewer.now)) @if let Some(by) = &story.started_by { " by " (line(&by.user)) " on " (line(&by.host)) } }),
            ("Finished", html! { @if let Some(at) = &story.finished_at { (time(at, viewer.now)) } @else { "-" } }),
            ("Changed", html! { (counted(row.files.unwrap_or(0), "file")) @if let (Some(added), Some(removed)) = (story.change.added, story.change.removed) { ", " span .added { "+" (added) } " " span .removed { "−" (removed) } } }),
            ("Tests", html! { @match &story.tests {
                Some(tests) => { @if let Some(command) = &tests.command { code { (line(command)) } } @if let Some(passed) = tests.passed { ", " (passed) " passed" } @if let Some(failed) = tests.failed { ", " (failed) " failed" } }
                None => "none",
            } }),
            ("Tokens", html! { @if let Some(tokens) = story.tokens { (number(tokens.max(0.0) as u64)) ", as reported" } @else { "not reported" } }),
            ("Cost", html! { @if let Some(cost) = story.cost_usd { "US$ " (format!("{cost:.2}")) ", as reported" } @else { "not reported" } }),
            ("Receipt", html! { (badge(match story.proof.status { ProofStatus::Verified => "verified", ProofStatus::Refused => "refused", ProofStatus::Unproven => "unproven", ProofStatus::Absent => "missing" }))
                @if let Some(detail) = &story.proof.detail { " " (line(detail)) } }),
        ]))
        @if let Some(admission) = &story.admission {
            section aria-labelledby="bounds" { h2 #bounds { "Bounds" }
                @if let Some(reason) = &admission.reason { p { (line(reason)) } }
                ul .bounds { @for bound in &admission.bounds { (bound_bar(bound)) } }
            }
        }
        @if let Some(approval) = &story.approval { section aria-labelledby="approval" { h2 #approval { "Approval" } (approval_story(approval, viewer.now)) } }
        @if !story.connections.is_empty() {
            section aria-labelledby="hosts" { h2 #hosts { "Hosts" }
                ul { @for one in &story.connections { li { code { (line(&one.host)) } " " (badge(if one.allowed { "allowed" } else { "refused" })) @if let Some(reason) = &one.reason { " " (line(reason)) } } } }
                @if story.connections_left_out > 0 { p .cut { (number(story.connections_left_out)) " more." } }
            }
        }
        section aria-labelledby="files" { h2 #files { "Files" }
            @if story.change.files.is_empty() { p { "None was changed." } } @else {
                ul .files { @for file in &story.change.files { li { code { (line(&file.path)) } @if let Some(how) = &file.change { " " (how) } @if let (Some(added), Some(removed)) = (file.added, file.removed) { " " span .added { "+" (added) } " " span .removed { "−" (removed) } } } } }
            }
            @if story.change.files_left_out > 0 { p .cut { (number(story.change.files_left_out)) " more files." } }
        }
        section aria-labelledby="change" { h2 #change { "Change" }
            @match change { Ok(text) => (diff(text, DiffBounds::PAGE, Some(&format!("{api}/diff")))), Err(why) => p .quiet { (words(why)) } }
        }
        section aria-labelledby="logs" { h2 #logs { "Output" }
            @match logs {
                Ok(files) => { @for (name, text) in files { details { summary { code { (line(name)) } } (block(text, name, Some(&format!("{api}/logs")))) } } @if files.is_empty() { p .quiet { "Nothing was printed." } } }
                Err(why) => p .quiet { (words(why)) },
            }
        }
        section aria-labelledby="next" { h2 #next { "Next" }
            p { "In its workspace:" }
            pre { code { "crealeph work show " (id) "\ncrealeph work undo " (id) } }
            p { a href=(api) { "Receipt and statement as JSON" } " · " a href={ (api) "/verify" } { "Verification as JSON" } " · " a href={ "/v1/report.html?run=" (id) } { "Report" }
                @if let Some(earlier) = &story.earlier_run { " · " (earlier.relation) " " a href={ "/runs/" (path(&earlier.run.to_string())) } { (short(&earlier.run.to_string())) } } }
        }
    }
}

fn bound_bar(bound: &BoundStory) -> Markup {
    html! {
        li { span { (bound.what) } " "
            @match bound.limit {
                Some(limit) => { meter min="0" max=(limit.max(1)) value=(bound.used.min(limit.max(1))) aria-label=(bound.what) {} " " (number(bound.used)) " of " (number(limit)) }
                None => { (number(bound.used)) ", no bound" }
            }
        }
    }
}
