//! `crealeph work show`: one page about a run, whatever its state, of the workspace or of a server.

use crealeph_runtime::report::{
    AgentStory, ChangeStory, ProofStatus, RunStory, RunVerdictStory, TextPart, workspace_row, workspace_run,
};
use crealeph_runtime::work::receipt::RECEIPT_FILE;
use crealeph_runtime::work::{CAPSULE_FILE, WorkError};

use super::named_run::{RunLine, Show, open, print_diff, print_kept_diff, warned};
use super::remote_runs::RemoteRuns;
use super::report;
use super::status::{age_at, now_nanos};
use crate::commands::CommandOutcome;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::page::Page;
use crate::render::counted;

/// How many files of a change, and how many hidden paths, are listed.
const MAX_FILES: usize = 20;

impl Show {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match RemoteRuns::named(&self.workspace)? {
            Some(server) => self.run_remote(&server, output),
            None => self.run_here(output),
        }
    }

    fn run_here(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let reader = open(&self.workspace)?;
        let summary = reader.find(self.run.as_deref()).map_err(WorkError::from)?;
        if self.diff {
            print_kept_diff(&reader, &summary, false, output)?;
            output.flush()?;
            return warned(&self.workspace, &reader, &summary);
        }
        let result = reader.result(&summary.run).map_err(WorkError::from)?;
        match (self.workspace.at.json || !output.is_for_person(), result) {
            (true, Some(result)) => output.json_line(&result.text)?,
            (true, None) => output.report_line(&RunLine::new(&workspace_row(&reader, &summary)?))?,
            (false, result) => {
                let run = reader.short(&summary.run);
                if result.as_ref().is_some_and(|result| result.value.is_none()) {
                    note!("the result of run {run} cannot be read");
                }
                let story = workspace_run(&reader, &summary)?;
                let folder = reader.folder(&summary.run);
                let receipt = folder.join(RECEIPT_FILE);
                let receipt = receipt.exists().then(|| report::from_here(&receipt.to_string_lossy()));
                let mut next = next(&story, &run);
                if story.row.outcome == "success" && !is_unchanged(&story) {
                    next.push(format!("work undo {run}"));
                }
                if folder.join(CAPSULE_FILE).exists() {
                    next.push(format!("work retry {run}"));
                }
                print(&RunPage { story: &story, receipt, next }, output)?;
            }
        }
        output.flush()?;
        warned(&self.workspace, &reader, &summary)
    }

    /// A run as the server shows it; a program gets the server's own document.
    fn run_remote(self, server: &RemoteRuns, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let run = server.find(self.run.as_deref())?;
        if self.diff {
            print_diff(Some(&server.diff(&run)?), &server.short(&run)?, false, output)?;
            return Ok(CommandOutcome::Good);
        }
        let story = server.story(&run)?;
        let short = &story.row.short_id;
        if self.workspace.at.json || !output.is_for_person() {
            output.report_line(&story)?;
        } else {
            let receipt = story.proof.entry_seq.map(|seq| format!("entry {seq} of the ledger"));
            let next = next(&story, short).iter().map(|command| server.command(command)).collect();
            print(&RunPage { story: &story, receipt, next }, output)?;
        }
        output.flush()?;
        if story.proof.status != ProofStatus::Refused {
            return Ok(CommandOutcome::Good);
        }
        let what = story.proof.detail.as_deref().unwrap_or("its receipt does not hold");
        note!("warning: this is not what run {short} left: {what}; see `crealeph work verify`");
        Ok(CommandOutcome::Bad)
    }
}

/// What is shown of a run.
struct RunPage<'r> {
    story: &'r RunStory,
    /// Where its receipt is.
    receipt: Option<String>,
    /// The commands that one would type next.
    next: Vec<String>,
}

fn print(page: &RunPage<'_>, output: &mut Output) -> Result<(), Failure> {
    let row = &page.story.row;
    let item = row.item.as_deref().filter(|item| !report::is_made_id(item));
    let item = item.map_or_else(String::new, |item| format!("{item}, "));
    let no_change = if is_unchanged(page.story) { report::NO_CHANGE } else { "" };
    let age = age_at(&row.started_at, now_nanos());
    let after = format!("{no_change}, started {age} ago");
    output.state_line(&format!("{item}run {}: ", row.short_id), &row.outcome, &after)?;
    output.page(&page.lines())?;
    Ok(())
}

/// Whether a run succeeded and changed nothing.
fn is_unchanged(story: &RunStory) -> bool {
    story.row.outcome == "success" && story.change.files.is_empty()
}

impl RunPage<'_> {
    fn lines(&self) -> Page {
        let story = self.story;
        let mut page = Page::default();
        if let Some(asked) = &story.description {
            quoted(&mut page, "  task     ", asked);
        }
        if let Some(command) = story.tests.as_ref().and_then(|tests| tests.command.as_deref()) {
            page.quoted("  test     ", command);
        }
        if let Some(earlier) = &story.earlier_run {
            let relation = if earlier.relation == "undoes" { "undoes" } else { "retry of" };
            page.line(&format!("  {relation:<8} {}", earlier.short_id));
        }
        match (&story.program, &story.row.agent) {
            (Some(agent), _) => agent_line(&mut page, agent),
            (None, Some(name)) => page.line(&format!("  agent    {name}")),
            (None, None) => {}
        }
        if let Some(starter) = &story.started_by {
            let (user, host) = (&starter.user, &starter.host);
            page.line(&format!("  started  by {user} on {host}, {}", story.row.started_at));
        }
        if let Some(reason) = &story.reason {
            report::reason(&mut page, &reason.text);
        }
        change(&mut page, &story.change);
        if let Some(figures) = &story.figures {
            let tests = story.tests.as_ref().and_then(|tests| tests.passed.zip(tests.failed));
            report::figures(&mut page, figures, tests);
        }
        usage_line(&mut page, story);
        report::push_sandbox(&mut page, story);
        hidden_lines(&mut page, story);
        for RunVerdictStory { decision, by, at, reason, .. } in &story.verdicts {
            page.quoted("  verdict  ", &format!("{decision} by {by} at {at}: {reason}"));
        }
        if let Some(receipt) = &self.receipt {
            page.line(&format!("  receipt  {receipt}"));
        }
        self.next.iter().for_each(|command| page.line(&format!("  next     crealeph {command}")));
        page
    }
}

/// A text of which the end may have been left out.
fn quoted(page: &mut Page, first: &str, part: &TextPart) {
    page.quoted(first, &part.text);
    if part.left_out_bytes > 0 {
        page.line(&format!("           … and {} bytes more", part.left_out_bytes));
    }
}

/// What changed, or what of it was discarded.
fn change(page: &mut Page, change: &ChangeStory) {
    let count = change.files.len() + usize::try_from(change.files_left_out).unwrap_or(0);
    let lines = change.added.zip(change.removed).map(|(added, removed)| format!(", +{added} -{removed}"));
    let fate = if change.is_discarded { ", discarded" } else { "" };
    match (count, &lines) {
        (0, None) => return,
        (0, Some(_)) => page.line("  change   none"),
        (count, lines) => {
            let lines = lines.as_deref().unwrap_or_default();
            page.line(&format!("  change   {}{lines}{fate}", counted(count, "file")));
        }
    }
    for file in change.files.iter().take(MAX_FILES) {
        let lines = file.added.zip(file.removed).map(|(added, removed)| format!(" +{added} -{removed}"));
        page.line(&format!("           {}{}", file.path, lines.unwrap_or_default()));
    }
    if let Some(more) = count.checked_sub(MAX_FILES).filter(|more| *more > 0) {
        page.line(&format!("           … and {more} more: crealeph work diff"));
    }
}

/// The commands that one would type next, here or at a server.
fn next(story: &RunStory, run: &str) -> Vec<String> {
    match story.row.outcome.as_str() {
        "running" => vec![format!("work logs {run} -f")],
        "unsettled" => vec!["work recover".to_owned()],
        "held" => {
            vec![format!("work diff {run}"), format!("approve {run}"), format!("reject {run} --reason …")]
        }
        "success" if is_unchanged(story) => vec![format!("work logs {run}"), format!("work verify {run}")],
        "success" => vec![format!("work diff {run}"), format!("work verify {run}")],
        "denied" => vec![format!("work diff {run}"), format!("work logs {run}")],
        _ => vec![format!("work logs {run}")],
    }
}

fn agent_line(page: &mut Page, agent: &AgentStory) {
    let mut line = format!("  agent    {}", agent.name);
    if let Some(program) = &agent.program {
        line.push_str(&format!(", {program}"));
    }
    if let Some(version) = &agent.version {
        line.push_str(&format!(", version {version}"));
    }
    page.line(&line);
    for model in &agent.models {
        page.line(&format!("  model    {model}"));
    }
}

/// What the agent reported to have used.
fn usage_line(page: &mut Page, story: &RunStory) {
    let tokens = story.tokens.map(|tokens| format!("{tokens} tokens"));
    let cost = story.cost_usd.map(|cost| format!("{cost} US dollars"));
    let used: Vec<String> = [tokens, cost].into_iter().flatten().collect();
    if !used.is_empty() {
        page.line(&format!("  used     {} (as the agent reported)", used.join(", ")));
    }
}

fn hidden_lines(page: &mut Page, story: &RunStory) {
    for path in story.hidden.iter().take(MAX_FILES) {
        page.line(&format!("  hidden   {path}"));
    }
    let more = story.hidden.len().saturating_sub(MAX_FILES) as u64 + story.hidden_left_out;
    if more > 0 {
        page.line(&format!("  hidden   and {more} more"));
    }
}
