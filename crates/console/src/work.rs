//! Work runs: the list with its filters, and one run with its change, its use of limits, its output, and its receipt.

use crealeph_runtime::receipts::LoggedRunReport;
use crealeph_runtime::report::{
    AdmissionStory, BoundStory, ConnectionStory, OpenRuns, ProofStatus, RunRow, RunStory,
};
use crealeph_runtime::work::reason_in_words;
use maud::{Markup, html};

use crate::diff::{DiffBounds, diff};
use crate::executions::approval_story;
use crate::frame::Viewer;
use crate::output::{RunOutput, run_output};
use crate::parts::{
    badge, counted, elapsed, empty, facts, filter_choice, filter_field, left_out_note, line, next_page,
    number, part_block, path, query, short, time, words,
};

/// What a run can be filtered by: how it ended, then what one that is open is. `timeout` and what follows is known only of runs of the
/// server's own workspace.
pub const RUN_STATUSES: [&str; 8] =
    ["succeeded", "failed", "denied", "timeout", "interrupted", "running", "held", "unsettled"];
/// Those of runs that have not ended.
pub const OPEN_STATUSES: [&str; 3] = ["running", "held", "unsettled"];
/// Those that a log tells apart.
const LOGGED_STATUSES: [&str; 3] = ["succeeded", "failed", "denied"];

/// A page of the list.
#[derive(Clone, Debug)]
pub struct RunList<'w> {
    /// The runs that are recorded, newest first.
    pub runs: &'w [LoggedRunReport],
    /// Those of the server's own workspace that are running or held and match; absent if it has none that may be seen.
    pub open: Option<&'w OpenRuns>,
    /// Where the list continues.
    pub next: Option<String>,
    /// It is the first page.
    pub is_first: bool,
    /// The agent that is filtered by.
    pub agent: Option<&'w str>,
    /// The status that is filtered by.
    pub status: Option<&'w str>,
    /// The server has a workspace of its own, whose runs may be seen.
    pub has_workspace: bool,
}

/// The list.
pub fn runs(viewer: &Viewer, list: &RunList<'_>) -> Markup {
    let RunList { runs, open, next, is_first, agent, status, has_workspace } = list;
    let statuses = if *has_workspace { &RUN_STATUSES[..] } else { &LOGGED_STATUSES[..] };
    let shown_open = open.filter(|open| !open.rows.is_empty() || !open.unreadable.is_empty());
    html! {
        h1 { "Work" }
        form .filter action="/runs" method="get" {
            (filter_field("Agent", "agent", *agent))
            (filter_choice("Status", "status", statuses, *status))
            button type="submit" { "Filter" }
        }
        @if let Some(open) = shown_open {
            section aria-labelledby="open" { h2 #open { "In this workspace now" }
                @if !open.rows.is_empty() { (open_table(viewer, &open.rows)) }
                @for (run, _) in &open.unreadable { p .error { "The files of run " code { (run) } " cannot be read; see " code { "crealeph work status" } "." } }
                @if open.has_more { p .cut { "There are more; see " code { "crealeph work status" } "." } }
            }
        }
        @if runs.is_empty() && next.is_some() {
            p .cut { "No run among these matches; older ones may." }
        } @else if runs.is_empty() && !is_first {
            (empty("No older run matches.", None))
        } @else if runs.is_empty() && (agent.is_some() || status.is_some()) {
            @if shown_open.is_none() { (empty("No run matches this filter.", None)) }
        } @else if runs.is_empty() {
            (empty("No run is recorded here. A workspace records its runs in this ledger, or reports them to this server:", Some("crealeph work run --agent NAME --report-to URL \"…\"")))
        } @else {
            @if shown_open.is_some() { h2 { "Recorded" } }
            form action="/runs/compare" method="get" {
                (logged_table(viewer, runs))
                @if runs.len() > 1 { p { button type="submit" .quiet { "Compare A and B" } } }
            }
        }
        (next_page(next.as_ref().map(|next| query("/runs", &[("agent", *agent), ("status", *status), ("cursor", Some(next))]))))
        // A run that starts leaves no entry yet.
        @if open.is_some() { div data-again="5" {} }
    }
}

fn open_table(viewer: &Viewer, runs: &[RunRow]) -> Markup {
    html! {
        div .scroll tabindex="0" role="group" aria-label="Open runs" {
            table {
                thead { tr { th { "Run" } th { "Task" } th { "Agent" } th { "Status" } th .number { "Files" } th { "Started" } } }
                tbody { @for run in runs {
                    @let id = run.run.to_string();
                    tr data-row {
                        th scope="row" { a href={ "/runs/" (id) } { (short(&id)) } }
                        td .wide { (line(&run.task)) }
                        td { @if let Some(agent) = &run.agent { (line(agent)) } }
                        td { (badge(&run.status)) }
                        td .number { @if let Some(files) = run.files { (files) } }
                        td { (time(&run.started_at, viewer.now)) }
                    }
                } }
            }
        }
    }
}

/// The recorded runs; the two newest are those that are compared unless others are marked.
fn logged_table(viewer: &Viewer, runs: &[LoggedRunReport]) -> Markup {
    let can_compare = runs.len() > 1;
    html! {
        div .scroll tabindex="0" role="group" aria-label="Runs" {
            table {
                thead { tr { th { "Run" } th { "Task" } th { "Agent" } th { "Status" } th .number { "Files" } th { "Tests" } th .number { "Tokens" } th .number { "US$" } th { "Started" } @if can_compare { th { "A" } th { "B" } } } }
                tbody { @for (at, run) in runs.iter().enumerate() {
                    @let id = run.row.run.to_string();
                    tr data-row {
                        th scope="row" { a href={ "/runs/" (id) } { (short(&id)) } @if run.reported { " " (badge("reported")) } }
                        td .wide { (line(&run.row.task)) }
                        td { @if let Some(agent) = &run.row.agent { (line(agent)) } }
                        td { (badge(match run.row.outcome.as_str() { outcome if RUN_STATUSES.contains(&outcome) => outcome, _ => &run.row.status })) }
                        td .number { @if let Some(files) = run.row.files { (files) } }
                        td { @if let (Some(passed), Some(failed)) = (run.tests_passed, run.tests_failed) { (number(passed)) " of " (number(passed + failed)) " passed" } }
                        td .number { @if let Some(tokens) = run.tokens { (number(tokens.max(0.0) as u64)) } }
                        td .number { @if let Some(cost) = run.cost_usd { (format!("{cost:.2}")) } }
                        td { (time(&run.row.started_at, viewer.now)) }
                        @if can_compare {
                            @for (name, first) in [("a", 1), ("b", 0)] {
                                td .mark { input type="radio" name=(name) value=(id) checked[at == first] aria-label={ "Compare " (id) " as " (name.to_ascii_uppercase()) }; }
                            }
                        }
                    }
                } }
            }
        }
    }
}

/// One run, with what it printed as far as it is here.
#[derive(Clone, Debug)]
pub struct RunPage<'w> {
    /// What happened.
    pub story: &'w RunStory,
    /// What agent and tests printed.
    pub output: RunOutput,
    /// The diff, or why it is not here.
    pub diff: Result<String, String>,
    /// The ledger has its receipt.
    pub is_recorded: bool,
    /// The subject in the inbox that its held change is.
    pub subject: Option<String>,
    /// How it can be undone.
    pub undo: UndoOffer,
}

/// How a run can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoOffer {
    /// Here, by a form.
    Here,
    /// By a command in its workspace, and why only so.
    Command(&'static str),
    /// Not at all: it did not land.
    Nothing,
}

/// The page of a run.
pub fn run(viewer: &Viewer, page: &RunPage<'_>) -> Markup {
    let RunPage { story, output, .. } = page;
    let (row, id) = (&story.row, story.row.run.to_string());
    let api = format!("/v1/work/runs/{id}");
    let raw = page.is_recorded.then_some(api.as_str());
    // What a run prints now is what people came for.
    let is_open = matches!(output, RunOutput::Part(part) if part.is_running);
    html! {
        h1 { (line(&row.task)) }
        @if let Some(task) = story.description.as_ref().filter(|task| task.text.trim() != row.task) {
            details { summary { "The whole task" } (part_block(task, "Task", raw)) }
        }
        @if let Some(reason) = &story.reason { p .error { (words(&reason_in_words(&reason.text))) @if reason.left_out_bytes > 0 { " " (left_out_note(reason.left_out_bytes)) } } }
        (run_facts(viewer, story, output))
        @if is_open { (run_output(&id, output)) }
        @if let Some(admission) = &story.admission { (limits(admission)) }
        @if let Some(approval) = &story.approval { section aria-labelledby="approval" { h2 #approval { "Approval" } (approval_story(approval, viewer.now)) } }
        @if !story.connections.is_empty() { (hosts(&story.connections, story.connections_left_out, raw)) }
        // What changed is known when it has ended.
        @if !is_open { (change(page, &api)) (run_output(&id, output)) }
        (undo(viewer, page, &id))
        (next_steps(page, &id, &api))
    }
}

fn run_facts(viewer: &Viewer, story: &RunStory, output: &RunOutput) -> Markup {
    let row = &story.row;
    facts(vec![
        ("Run", html! { code { (row.run) } }),
        (
            "Agent",
            html! { @match &story.program {
                Some(agent) => { (line(&agent.name)) @if let Some(program) = &agent.program { ", " code { (line(program)) } } @if let Some(version) = &agent.version { " " (line(version)) } @if !agent.models.is_empty() { ", " (line(&agent.models.join(", "))) } }
                None => (line(row.agent.as_deref().unwrap_or("-"))),
            } },
        ),
        (
            "Status",
            html! { span data-state="" { (badge(&row.status)) } @if let RunOutput::Part(part) = output { @if part.is_running { " for " (elapsed(&row.started_at, viewer.now)) } } },
        ),
        (
            "Started",
            html! { (time(&row.started_at, viewer.now)) @if let Some(by) = &story.started_by { " by " (line(&by.user)) " on " (line(&by.host)) } },
        ),
        (
            "Finished",
            html! { @if let Some(at) = &story.finished_at { (time(at, viewer.now)) } @else { "-" } },
        ),
        (
            "Changed",
            html! { @match row.files { Some(files) => (counted(files, "file")), None => "-" } @if let (Some(added), Some(removed)) = (story.change.added, story.change.removed) { ", " span .added { "+" (added) } " " span .removed { "−" (removed) } } },
        ),
        (
            "Tests",
            html! { @match &story.tests {
                Some(tests) => { @if let Some(command) = &tests.command { code { (line(command)) } } @if let Some(passed) = tests.passed { ", " (passed) " passed" } @if let Some(failed) = tests.failed { ", " (failed) " failed" } }
                None => "none",
            } },
        ),
        (
            "Tokens",
            html! { @if let Some(tokens) = story.tokens { (number(tokens.max(0.0) as u64)) ", as reported" } @else { "not reported" } },
        ),
        (
            "Cost",
            html! { @if let Some(cost) = story.cost_usd { "US$ " (format!("{cost:.2}")) ", as reported" } @else { "not reported" } },
        ),
        (
            "Receipt",
            html! { (badge(match story.proof.status { ProofStatus::Verified => "verified", ProofStatus::Refused => "refused", ProofStatus::Unproven => "unproven", ProofStatus::Absent => "missing" }))
            @if let Some(detail) = &story.proof.detail { " " (line(detail)) } },
        ),
    ])
}

fn limits(admission: &AdmissionStory) -> Markup {
    html! {
        section aria-labelledby="bounds" { h2 #bounds { "Limits" }
            @if let Some(reason) = &admission.reason { p { (line(&reason_in_words(reason))) } }
            ul .bounds { @for bound in &admission.bounds { (bound_bar(bound)) } }
        }
    }
}

fn hosts(connections: &[ConnectionStory], left_out: u64, raw: Option<&str>) -> Markup {
    html! {
        section aria-labelledby="hosts" { h2 #hosts { "Hosts" }
            ul { @for one in connections { li { code { (line(&one.host)) } " " (badge(if one.allowed { "allowed" } else { "refused" })) @if let Some(reason) = &one.reason { " " (line(reason)) } } } }
            @if left_out > 0 { p .cut { (number(left_out)) " more are not shown." @if let Some(raw) = raw { " " a href=(raw) { "Receipt as JSON" } } } }
        }
    }
}

/// The files that a run changed, and the diff.
fn change(page: &RunPage<'_>, api: &str) -> Markup {
    let RunPage { story, diff: change, .. } = page;
    let diff_url = format!("{api}/diff");
    html! {
        section aria-labelledby="files" { h2 #files { "Files" }
            @if story.change.files.is_empty() { p { "No file of the workspace was changed." } } @else {
                ul .files { @for file in &story.change.files { li { code { (line(&file.path)) } @if let Some(how) = &file.change { " " (how) } @if let (Some(added), Some(removed)) = (file.added, file.removed) { " " span .added { "+" (added) } " " span .removed { "−" (removed) } } } } }
            }
            @if story.change.files_left_out > 0 {
                p .cut { (number(story.change.files_left_out)) " more files are not shown. "
                    @if change.is_ok() { a href=(diff_url) { "The whole diff" } } @else if page.is_recorded { a href=(api) { "All of them in the receipt" } } }
            }
        }
        section aria-labelledby="change" { h2 #change { "Change" }
            @match change { Ok(text) => (diff(text, DiffBounds::PAGE, Some(&diff_url))), Err(why) => p .quiet { (words(why)) } }
        }
    }
}

fn next_steps(page: &RunPage<'_>, id: &str, api: &str) -> Markup {
    html! {
        section aria-labelledby="next" { h2 #next { "Next" }
            @if let Some(subject) = &page.subject { p { a href={ "/inbox/" (path(subject)) } { "Decide about its change" } } }
            @if let Some(earlier) = &page.story.earlier_run {
                @let other = earlier.run.to_string();
                p { (relation(&earlier.relation)) " " a href={ "/runs/" (path(&other)) } { (short(&other)) } ": " a href=(query("/runs/compare", &[("a", Some(&other)), ("b", Some(id))])) { "compare" } }
            }
            form .filter action="/runs/compare" method="get" {
                input type="hidden" name="a" value=(id);
                label { span { "Compare with run" } input name="b" required autocomplete="off" maxlength="36" placeholder="its id"; }
                button type="submit" .quiet { "Compare" }
            }
            @if page.is_recorded {
                p { a href=(api) { "Receipt and statement as JSON" } " · " a href={ (api) "/verify" } { "Verification as JSON" } " · " a href={ "/v1/report.html?run=" (id) } { "Report" } }
            }
            p { "In its workspace:" }
            pre tabindex="0" role="group" aria-label="Command" { code { "crealeph work show " (id) } }
        }
    }
}

/// How a run is based on another, in words.
fn relation(word: &str) -> &str {
    match word {
        "retry_of" => "It retries",
        "undoes" => "It undoes",
        other => other,
    }
}

fn undo(viewer: &Viewer, page: &RunPage<'_>, id: &str) -> Markup {
    html! {
        @if page.undo != UndoOffer::Nothing {
            section aria-labelledby="undo" { h2 #undo { "Undo" }
                @match page.undo {
                    UndoOffer::Here => {
                        p { "Starts a run that restores every file that this one changed, within its limits, with its tests and with a receipt of its own. If a file was changed since, nothing is run, and the later changes are named." }
                        form action={ "/runs/" (id) "/undo" } method="post" {
                            input type="hidden" name="form" value=(viewer.form_token);
                            button type="submit" { "Undo this run" }
                        }
                    }
                    UndoOffer::Command(why) => {
                        p { (why) " In its workspace:" }
                        pre tabindex="0" role="group" aria-label="Command" { code { "crealeph work undo " (id) } }
                    }
                    UndoOffer::Nothing => {}
                }
            }
        }
    }
}

fn bound_bar(bound: &BoundStory) -> Markup {
    html! {
        li { span { (bound.what) } " "
            @match bound.limit {
                Some(limit) => { meter min="0" max=(limit.max(1)) value=(bound.used.min(limit.max(1))) aria-label=(bound.what) {} " " (number(bound.used)) " of " (number(limit)) }
                None => { (number(bound.used)) ", no limit" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crealeph_contracts::scalar::ExecutionId;
    use crealeph_contracts::uuid::Uuid;
    use crealeph_runtime::report::ReportError;
    use serde_json::json;

    #[test]
    fn a_list_of_runs_has_tests_and_how_they_ended() {
        let run = |status: &str, outcome: &str, tests: Option<(u64, u64)>| LoggedRunReport {
            row: RunRow {
                run: Uuid::parse("0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f").unwrap(),
                short_id: String::new(),
                item: None,
                task: "t".to_owned(),
                agent: None,
                status: status.to_owned(),
                outcome: outcome.to_owned(),
                started_at: "2026-01-01T00:00:00Z".to_owned(),
                since: "2026-01-01T00:00:00Z".to_owned(),
                files: None,
                verdict: None,
            },
            workspace: None,
            robot_id: "r".to_owned(),
            reported: false,
            tokens: None,
            cost_usd: None,
            tests_passed: tests.map(|(passed, _)| passed),
            tests_failed: tests.map(|(_, failed)| failed),
            entry: String::new(),
            seq: 1,
            recorded_at: String::new(),
        };
        let listed = [run("failed", "denied", None), run("failed", "failure", Some((3, 1)))];
        let shown = logged_table(&Viewer::sample(), &listed).into_string();
        assert!(shown.contains("<td>3 of 4 passed</td>"), "{shown}");
        assert!(shown.contains(">denied<") && shown.contains(">failed<") && !shown.contains(">failure<"));
        let (status, has_workspace) = (Some("denied"), false);
        let list =
            RunList { runs: &[], open: None, next: None, is_first: true, agent: None, status, has_workspace };
        let empty = runs(&Viewer::sample(), &list).into_string();
        assert!(
            empty.contains("No run matches this filter") && !empty.contains("value=\"timeout\""),
            "{empty}"
        );
        // One after the first says nothing about those before it.
        for status in [status, None] {
            let last = RunList { is_first: false, status, ..list.clone() };
            let last = runs(&Viewer::sample(), &last).into_string();
            assert!(
                last.contains("No older run matches.") && !last.contains("No run is recorded here"),
                "{last}"
            );
        }
        // A page on which none matches is not the end.
        let older =
            runs(&Viewer::sample(), &RunList { next: Some("7".to_owned()), ..list.clone() }).into_string();
        assert!(!older.contains("No run matches this filter") && older.contains(">Older<"), "{older}");
        // A run whose files are damaged is named, and hides no other.
        let damaged = Uuid::parse("0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e90").unwrap();
        let why = ReportError::NoExecution(ExecutionId::parse("e").unwrap());
        let rows = vec![run("running", "running", None).row];
        let open = OpenRuns { rows, has_more: true, unreadable: vec![(damaged, why)] };
        let shown = runs(&Viewer::sample(), &RunList { open: Some(&open), ..list }).into_string();
        for said in [">running<", "There are more", "8a4e-3f5b6c7d8e90</code> cannot be read"] {
            assert!(shown.contains(said), "{said} in {shown}");
        }
        assert!(!shown.contains("No run matches"), "{shown}");
    }

    #[test]
    fn a_run_shows_its_limits_and_hosts_and_says_what_is_cut() {
        let id = "0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f";
        let story = json!({
            "run": id, "shortId": "0190a6f0", "task": "first line", "status": "failed", "outcome": "denied",
            "startedAt": "2026-01-01T00:00:00Z", "since": "2026-01-01T00:00:00Z",
            "description": { "text": "first line\nsecond line\n", "leftOutBytes": 5_000 },
            "reason": { "text": "the tests failed", "leftOutBytes": 77 },
            "admission": { "admitted": false, "reason": null, "bounds": [
                { "what": "files", "used": 12, "limit": 10 }, { "what": "deltas", "used": 3, "limit": null },
            ] },
            "change": { "files": [{ "path": "a", "change": "modified", "added": 1, "removed": 0 }], "filesLeftOut": 30,
                "added": 1, "removed": 0, "isDiscarded": false },
            "verdicts": [], "sandboxMissing": [], "hidden": [], "hiddenLeftOut": 0,
            "connections": [
                { "host": "crates.io:443", "allowed": true, "reason": null },
                { "host": "<evil>", "allowed": false, "reason": "not granted" },
            ],
            "connectionsLeftOut": 2,
            "proof": { "status": "verified", "detail": null, "receiptHash": null, "signers": [], "checkedFiles": [],
                "absentFiles": [], "entrySeq": 1, "isInCheckpoint": false },
        });
        let story: RunStory = serde_json::from_value(story).unwrap();
        let page = |diff: Result<String, String>| {
            let output = RunOutput::Absent("it is elsewhere".to_owned());
            let undo = UndoOffer::Nothing;
            let page = RunPage { story: &story, output, diff, is_recorded: true, subject: None, undo };
            run(&Viewer::sample(), &page).into_string()
        };
        let shown = page(Err("the diff is not here".to_owned()));
        let api = format!("/v1/work/runs/{id}");
        for said in [
            &*format!("5,000 more bytes are not shown. <a href=\"{api}\">Show all of it</a>"),
            "77 more bytes are not shown.",
            "<meter min=\"0\" max=\"10\" value=\"10\" aria-label=\"files\"></meter> 12 of 10",
            "3, no limit",
            "<code>crates.io:443</code> <span class=\"badge good\">allowed</span>",
            "<code>&lt;evil&gt;</code> <span class=\"badge bad\">refused</span> not granted",
            &*format!("2 more are not shown. <a href=\"{api}\">"),
            &*format!("30 more files are not shown. <a href=\"{api}\">All of them in the receipt</a>"),
        ] {
            assert!(shown.contains(said), "{said} in {shown}");
        }
        let shown = page(Ok("diff --git a/a b/a\n@@ @@\n+x\n".to_owned()));
        assert!(shown.contains(&format!("not shown. <a href=\"{api}/diff\">The whole diff</a>")), "{shown}");
    }
}
