//! The outcome of work items, for a person.

use std::path::Path;

use crealeph_contracts::receipt::ConnectionRefusal;
use crealeph_contracts::scalar::ItemId;
use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::report::{ConnectionStory, FigureStory, RunStory};
use crealeph_runtime::work::{CAPSULE_FILE, ItemOutcome, ItemResult, UNDO_PREFIX, reason_in_words};

use super::bounds_args::raised_by;
use crate::page::{GUTTER, Page};
use crate::render::counted;

/// What the id of a task that was given in words starts with.
pub(super) const TASK_PREFIX: &str = "task-";

/// The outcome of an item, in a few lines; `run` is the short id of its run.
pub(super) fn outcome(outcome: &ItemOutcome, run: &str) -> Page {
    let mut page = Page::default();
    match outcome {
        ItemOutcome::Finished { result, is_earlier } => {
            return finished(result, run, if *is_earlier { " (in an earlier call)" } else { "" });
        }
        ItemOutcome::Held(held) => {
            page.line(&format!("{}: held since {}", title(&held.item, run), held.since.as_str()));
            page.line(&format!("  look     crealeph work diff {run}"));
            page.line(&format!("  verdict  crealeph approve {run}, or reject"));
        }
        ItemOutcome::Blocked { item, waits_for } => {
            page.line(&format!("{item}: blocked, waits for {}", listed(waits_for)));
        }
        ItemOutcome::NotRun { item, waits_for } => {
            page.line(&format!("{item}: not run, {} did not succeed", listed(waits_for)));
        }
    }
    page
}

/// The run that an outcome has, if it has one.
pub(super) fn run_of(outcome: &ItemOutcome) -> Option<Uuid> {
    match outcome {
        ItemOutcome::Finished { result, .. } => Some(result.result.receipt_id),
        ItemOutcome::Held(held) => Some(held.run),
        ItemOutcome::Blocked { .. } | ItemOutcome::NotRun { .. } => None,
    }
}

/// Whether an id was generated, for a task given in words or for an undo, and says nothing.
pub(in crate::commands) fn is_made_id(item: &str) -> bool {
    let is_after = |prefix: &str| item.strip_prefix(prefix).is_some_and(|id| Uuid::parse(id).is_some());
    [TASK_PREFIX, UNDO_PREFIX].into_iter().any(is_after)
}

/// What is before a run: its item, unless its id says nothing.
pub(super) fn prefix(item: &ItemId) -> String {
    if is_made_id(item.as_str()) { String::new() } else { format!("{item}, ") }
}

fn title(item: &ItemId, run: &str) -> String {
    format!("{}run {run}", prefix(item))
}

/// What a page says of a success without a change.
pub(super) const NO_CHANGE: &str = ", no change";

/// Whether a run succeeded and changed nothing.
pub(super) fn is_unchanged(finished: &ItemResult) -> bool {
    let result = &finished.result;
    let changed = [&result.created_files, &result.modified_files, &result.deleted_files];
    finished.is_success() && changed.iter().all(|files| files.as_slice().is_empty())
}

/// How the run of an item ended, in a few lines.
pub(in crate::commands) fn finished(finished: &ItemResult, run: &str, note: &str) -> Page {
    let ItemResult { item, result } = finished;
    let mut out = Page::default();
    let no_change = if is_unchanged(finished) { NO_CHANGE } else { "" };
    out.line(&format!("{}: {}{no_change}{note}", title(item, run), result.status));
    for why in result.error.iter().chain(&result.denial_reason) {
        reason(&mut out, why.as_str());
    }
    for (files, sign) in
        [(&result.created_files, '+'), (&result.modified_files, '~'), (&result.deleted_files, '-')]
    {
        for path in files.as_slice() {
            out.line(&format!("  {sign} {}", from_here(path.as_str())));
        }
    }
    let tests = (result.metrics.tests_passed, result.metrics.tests_failed);
    let tests = tests.0.zip(tests.1).map(|(passed, failed)| (passed.get(), failed.get()));
    figures(&mut out, &FigureStory::of(result), tests);
    let _ = writeln!(out, "  receipt  {}", from_here(result.receipt_path.as_str()));
    if Path::new(result.receipt_path.as_str()).with_file_name(CAPSULE_FILE).exists() {
        let _ = writeln!(out, "  retry    crealeph work retry {run}");
    }
    out
}

/// Why a run did not succeed, and what raises the bound that it met.
pub(super) fn reason(out: &mut Page, why: &str) {
    out.quoted("  why      ", &reason_in_words(why));
    if let Some(raised_by) = raised_by(why) {
        out.line(&format!("  raise    {raised_by}"));
    }
}

/// How long it took, how much it did, and how many of its tests passed and failed.
pub(super) fn figures(out: &mut Page, figures: &FigureStory, tests: Option<(u64, u64)>) {
    let _ = writeln!(
        out,
        "  took     {:.1} s, {}, {}, {}",
        figures.took_ms / 1000.0,
        counted(figures.files as usize, "file"),
        counted(figures.deltas as usize, "delta"),
        counted(figures.tool_operations as usize, "tool operation"),
    );
    if let Some((passed, failed)) = tests {
        let _ = writeln!(out, "  tests    {passed} passed, {failed} failed");
    }
}

/// The last lines that a failed run printed, unless its reason quotes all of them, and where the rest is.
pub(super) fn last_lines(outcome: &ItemOutcome, lines: &[String], run: &str) -> Page {
    let mut page = Page::default();
    let ItemOutcome::Finished { result, .. } = outcome else { return page };
    let reason = result.result.error.as_ref().map_or("", |reason| reason.as_str());
    if lines.iter().all(|line| reason.contains(line.as_str())) {
        return page;
    }
    page.line("  its output ends with:");
    lines.iter().for_each(|line| page.line(&format!("{GUTTER}{line}")));
    page.line(&format!("  full output: crealeph work logs {run}"));
    page
}

/// How strong the sandbox of a run was, and what it connected to.
pub(super) fn push_sandbox(out: &mut Page, story: &RunStory) {
    story.sandbox.iter().for_each(|strength| out.line(&format!("  sandbox  {strength}")));
    for connection in &story.connections {
        let _ = writeln!(out, "  network  {} {}", connection.host, fate(connection));
    }
    if story.connections_left_out > 0 {
        let _ = writeln!(out, "  network  {} more connections are not listed", story.connections_left_out);
    }
}

/// The outcome of a connection.
fn fate(connection: &ConnectionStory) -> &'static str {
    match connection.reason.as_deref().and_then(ConnectionRefusal::parse) {
        None if connection.allowed => "reached",
        None => "refused",
        Some(ConnectionRefusal::NotGranted) => "refused: not granted",
        Some(ConnectionRefusal::PrivateAddress) => "refused: a private address",
        Some(ConnectionRefusal::Unresolved) => "failed: the name does not resolve",
        Some(ConnectionRefusal::Unreachable) => "failed: unreachable",
        Some(ConnectionRefusal::Malformed) => "refused: malformed request",
        Some(ConnectionRefusal::TooMany) => "refused: too many connections at once",
    }
}

/// A path as it is typed in the folder the program was started in.
pub(super) fn from_here(path: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "without a current folder paths are shown in full")]
    let here = std::env::current_dir().unwrap_or_default();
    let inside = Path::new(path).strip_prefix(here).unwrap_or(Path::new(path));
    inside.display().to_string()
}

/// `` `a`, `b` ``.
pub(super) fn listed(items: &[ItemId]) -> String {
    items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
