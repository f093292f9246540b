//! Two runs side by side: facts in two columns, then every file that either changed, with the diff between the results.

use crealeph_runtime::report::{ComparedFile, ComparedRun, FileStanding, RunComparison};
use crealeph_runtime::work::reason_in_words;
use maud::{Markup, html};

use crate::diff::{DiffBounds, hunks};
use crate::frame::Viewer;
use crate::parts::{badge, counted, left_out_note, line, number, query, short, time, words};

/// The page that compares two runs.
pub fn comparison(viewer: &Viewer, found: &RunComparison) -> Markup {
    let RunComparison { a, b, files, files_left_out, unknown } = found;
    let (one, other) = (a.row.run.to_string(), b.row.run.to_string());
    let whole = whole_diffs(&[("A", a), ("B", b)]);
    html! {
        h1 { "Two runs" }
        div .scroll tabindex="0" role="group" aria-label="Two runs side by side" {
            table .compared {
                thead { tr { td {} th scope="col" { "A " a href={ "/runs/" (one) } { (short(&one)) } } th scope="col" { "B " a href={ "/runs/" (other) } { (short(&other)) } } } }
                tbody { @for (name, a, b) in rows(viewer, a, b) {
                    tr { th scope="row" { (name) } td { (a) } td { (b) } }
                } }
            }
        }
        section aria-labelledby="files" { h2 #files { "Files" }
            p { (summary(files)) }
            @for sentence in unknown { p .quiet { (words(sentence)) } }
            ul .files { @for file in files { li { code { (line(&file.path)) } " " (standing(file.standing)) @if let Some(reason) = &file.reason { ", " (reason) } } } }
            @if *files_left_out > 0 { p .cut { (number(*files_left_out)) " more files are not shown. " (whole) } }
        }
        @if files.iter().any(|file| file.diff.is_some()) {
            section aria-labelledby="change" { h2 #change { "From A to B" }
                @for file in files { @if let Some(diff) = &file.diff { (hunks(&file.path, diff, DiffBounds::PART, &whole)) } }
            }
        }
        p { a href=(query("/runs/compare", &[("a", Some(&other)), ("b", Some(&one))])) { "Swap A and B" } " · " a href=(query("/v1/work/compare", &[("a", Some(&one)), ("b", Some(&other))])) { "As JSON" } }
    }
}

/// Links to all that the runs changed, as far as it is here.
fn whole_diffs(runs: &[(&str, &ComparedRun)]) -> Markup {
    let here = || runs.iter().filter(|(_, run)| run.added.is_some());
    html! {
        @if here().next().is_some() { "All that each of them changed: " }
        @for (at, (name, run)) in here().enumerate() {
            @if at > 0 { " · " } a href={ "/v1/work/runs/" (run.row.run) "/diff" } { "diff of " (name) }
        }
    }
}

fn rows(viewer: &Viewer, a: &ComparedRun, b: &ComparedRun) -> Vec<(String, Markup, Markup)> {
    let mut rows = Vec::new();
    let mut row =
        |name: &str, of: &dyn Fn(&ComparedRun) -> Markup| rows.push((name.to_owned(), of(a), of(b)));
    let dash = |text: Option<String>| html! { @match text { Some(text) => (line(&text)), None => "-" } };
    row("Task", &|run| html! { (line(&run.row.task)) });
    row("Agent", &|run| dash(run.row.agent.clone()));
    row("Model", &|run| dash((!run.models.is_empty()).then(|| run.models.join(", "))));
    row(
        "Status",
        &|run| html! { (badge(&run.row.status)) @if let Some(reason) = &run.reason { " " (words(&line(&reason_in_words(&reason.text)))) @if reason.left_out_bytes > 0 { " " (left_out_note(reason.left_out_bytes)) } } },
    );
    row("Started", &|run| time(&run.row.started_at, viewer.now));
    row(
        "Finished",
        &|run| html! { @match &run.finished_at { Some(at) => (time(at, viewer.now)), None => "-" } },
    );
    row(
        "Files",
        &|run| html! { (dash(run.row.files.map(number))) @if let (Some(added), Some(removed)) = (run.added, run.removed) { ", " span .added { "+" (number(added)) } " " span .removed { "−" (number(removed)) } } },
    );
    row(
        "Tests",
        &|run| html! { (dash(run.test_command.clone())) @if let Some(passed) = run.tests_passed { ", " (number(passed)) " passed" } @if let Some(failed) = run.tests_failed { ", " (number(failed)) " failed" } },
    );
    row("Tokens", &|run| dash(run.tokens.map(|tokens| number(tokens.max(0.0) as u64))));
    row("US$", &|run| dash(run.cost_usd.map(|cost| format!("{cost:.2}"))));
    let used = |run: &ComparedRun, what: &str| {
        let bound = run.bounds.iter().find(|bound| bound.what == what);
        dash(bound.map(|bound| match bound.limit {
            Some(limit) => format!("{} of {}", number(bound.used), number(limit)),
            None => number(bound.used),
        }))
    };
    let mut names: Vec<&str> = a.bounds.iter().map(|bound| bound.what.as_ref()).collect();
    names.extend(
        b.bounds
            .iter()
            .map(|bound| bound.what.as_ref())
            .filter(|what| a.bounds.iter().all(|bound| bound.what != *what)),
    );
    for what in names {
        row(&format!("Limit: {what}"), &|run| used(run, what));
    }
    rows
}

/// How many came out how.
fn summary(files: &[ComparedFile]) -> String {
    let count = |wanted: FileStanding| files.iter().filter(|file| file.standing == wanted).count() as u64;
    let all = [
        (FileStanding::OnlyA, "only in A"),
        (FileStanding::OnlyB, "only in B"),
        (FileStanding::Alike, "alike"),
        (FileStanding::Different, "different"),
        (FileStanding::Unknown, "in both, possibly different"),
    ];
    let counted: Vec<String> = all
        .into_iter()
        .filter(|(wanted, _)| count(*wanted) > 0)
        .map(|(wanted, words)| format!("{} {words}", counted(count(wanted), "file")))
        .collect();
    if counted.is_empty() { "Neither changed a file.".to_owned() } else { format!("{}.", counted.join(", ")) }
}

fn standing(standing: FileStanding) -> Markup {
    match standing {
        FileStanding::OnlyA => badge("only in A"),
        FileStanding::OnlyB => badge("only in B"),
        FileStanding::Alike => badge("alike"),
        FileStanding::Different => badge("different"),
        FileStanding::Unknown => badge("in both"),
    }
}
