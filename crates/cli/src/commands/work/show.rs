//! `crealeph work show`: one page about a run, whatever its state.

use std::fs;
use std::path::Path;

use crealeph_contracts::attestation::WorkRun;
use crealeph_contracts::provenance::{AgentFacts, LocalUser};
use crealeph_contracts::receipt::{Receipt, RunRelation};
use crealeph_contracts::run_result::RunStatus;
use crealeph_runtime::work::receipt::{ENVELOPE_FILE, RECEIPT_FILE};
use crealeph_runtime::work::{
    CAPSULE_FILE, DiffStat, ItemResult, RunReader, RunState, RunSummary, WorkError,
};
use crealeph_verify::read_unproven;

use super::named_run::{RunLine, Show, open, print_diff, warned};
use super::report;
use super::status::{now_nanos, shown_age};
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
        let reader = open(&self.workspace)?;
        let summary = reader.find(self.run.as_deref()).map_err(WorkError::from)?;
        if self.diff {
            print_diff(&reader, &summary, false, output)?;
            output.flush()?;
            return warned(&self.workspace, &reader, &summary);
        }
        let result = reader.result(&summary.run).map_err(WorkError::from)?;
        match (self.workspace.at.json || !output.is_for_person(), result) {
            (true, Some(result)) => output.json_line(&result.text)?,
            (true, None) => output.report_line(&RunLine::new(&summary))?,
            (false, result) => {
                if result.as_ref().is_some_and(|result| result.value.is_none()) {
                    note!("the result of run {} cannot be read", reader.short(&summary.run));
                }
                let page = RunPage { reader: &reader, summary: &summary };
                let result = result.and_then(|result| result.value);
                let item = summary.item.as_ref().map_or_else(String::new, report::prefix);
                let run = format!("{item}run {}: ", reader.short(&summary.run));
                let age = shown_age(now_nanos() - summary.started_at.instant().unix_nanos());
                let no_change = match &result {
                    Some(result) if report::is_unchanged(result) => report::NO_CHANGE,
                    _ => "",
                };
                output.state_line(
                    &run,
                    summary.state.as_str(),
                    &format!("{no_change}, started {age} ago"),
                )?;
                output.page(&page.lines(result.as_ref())?)?;
            }
        }
        output.flush()?;
        warned(&self.workspace, &reader, &summary)
    }
}

/// What is shown of a run.
struct RunPage<'r> {
    reader: &'r RunReader,
    summary: &'r RunSummary,
}

impl RunPage<'_> {
    fn lines(&self, result: Option<&ItemResult>) -> Result<Page, Failure> {
        let run = &self.summary.run;
        let mut page = Page::default();
        if let Some(item) = self.reader.item(run).map_err(WorkError::from)? {
            page.quoted("  task     ", item.description.trim());
            if let Some(command) = item.test_command.as_deref() {
                page.quoted("  test     ", command);
            }
        }
        let receipt = self.reader.receipt(run).map_err(WorkError::from)?;
        let earlier = receipt.as_ref().and_then(|receipt| receipt.earlier_run.clone());
        if let Some(earlier) = earlier.or_else(|| self.reader.earlier(run)) {
            let relation = match earlier.relation {
                RunRelation::RetryOf => "retry of",
                RunRelation::Undoes => "undoes",
            };
            page.line(&format!("  {relation:<8} {}", self.reader.short(&earlier.run)));
        }
        let stated = self.stated();
        let origin = self.reader.origin(run).map_err(WorkError::from)?;
        let agent = stated.as_ref().and_then(|run| run.agent.as_ref());
        match agent.or(origin.as_ref().map(|origin| &origin.agent)) {
            Some(facts) => agent_line(&mut page, facts),
            None => {
                let name = self.summary.agent.as_deref();
                name.into_iter().for_each(|name| page.line(&format!("  agent    {name}")));
            }
        }
        let starter = stated.as_ref().and_then(|run| run.started_by.as_ref());
        if let Some(LocalUser { user, host, .. }) =
            starter.or(origin.as_ref().map(|origin| &origin.started_by))
        {
            page.line(&format!("  started  by {user} on {host}, {}", self.summary.started_at.as_str()));
        }
        if let Some(result) = result {
            report::reasons(&mut page, &result.result);
        }
        self.change(&mut page)?;
        if let Some(result) = result {
            report::figures(&mut page, &result.result);
        }
        if let Some(receipt) = &receipt {
            usage_line(&mut page, receipt);
            report::walls(&mut page, receipt);
        }
        if let Some(stated) = &stated {
            hidden_line(&mut page, stated);
        }
        if let Some(verdict) = &self.summary.verdict {
            let word = if verdict.is_approved { "approved" } else { "rejected" };
            let (who, at) = (&verdict.who, verdict.at.as_str());
            page.quoted("  verdict  ", &format!("{word} by {who} at {at}: {}", verdict.why));
        }
        if receipt.is_some() {
            let path = self.reader.folder(run).join(RECEIPT_FILE);
            page.line(&format!("  receipt  {}", report::from_here(&path.to_string_lossy())));
        }
        let is_unchanged = result.is_some_and(report::is_unchanged);
        self.next(is_unchanged)
            .iter()
            .for_each(|command| page.line(&format!("  next     crealeph {command}")));
        Ok(page)
    }

    /// The statement of the run as it lies there; what it says is checked when the page is complete.
    fn stated(&self) -> Option<WorkRun> {
        let folder = self.reader.folder(&self.summary.run);
        let read = |name: &str| fs::read(folder.join(Path::new(name))).ok();
        let verified = read_unproven(&read(RECEIPT_FILE)?, &read(ENVELOPE_FILE)?).ok()?;
        Some(verified.statement.predicate)
    }

    /// What changed, or what of it was discarded.
    fn change(&self, page: &mut Page) -> Result<(), Failure> {
        let Some(diff) = self.reader.diff(&self.summary.run).map_err(WorkError::from)? else { return Ok(()) };
        let stat = DiffStat::read(&diff);
        let (added, removed) = stat.total();
        let fate = match self.summary.state {
            RunState::Over(RunStatus::Success) | RunState::Held => "",
            _ => ", discarded",
        };
        match stat.files.len() {
            0 => page.line("  change   none"),
            count => page.line(&format!("  change   {}, +{added} -{removed}{fate}", counted(count, "file"))),
        }
        for file in stat.files.iter().take(MAX_FILES) {
            page.line(&format!("           {} +{} -{}", file.name, file.added, file.removed));
        }
        if let Some(more) = stat.files.len().checked_sub(MAX_FILES).filter(|more| *more > 0) {
            page.line(&format!("           … and {more} more: crealeph work diff"));
        }
        Ok(())
    }

    /// The commands that one would type next.
    fn next(&self, is_unchanged: bool) -> Vec<String> {
        let run = self.reader.short(&self.summary.run);
        let has_capsule = self.reader.folder(&self.summary.run).join(CAPSULE_FILE).exists();
        let retry = has_capsule.then(|| format!("work retry {run}"));
        let mut next = match self.summary.state {
            RunState::Running => vec![format!("work logs {run} -f")],
            RunState::Unsettled => vec!["work recover".to_owned()],
            RunState::Held => {
                vec![format!("work diff {run}"), format!("approve {run}"), format!("reject {run} --reason …")]
            }
            RunState::Over(RunStatus::Success) if is_unchanged => {
                vec![format!("work logs {run}"), format!("work verify {run}")]
            }
            RunState::Over(RunStatus::Success) => {
                vec![format!("work diff {run}"), format!("work verify {run}"), format!("work undo {run}")]
            }
            RunState::Over(RunStatus::Denied) => vec![format!("work diff {run}"), format!("work logs {run}")],
            RunState::Over(_) | RunState::Interrupted => vec![format!("work logs {run}")],
        };
        next.extend(retry);
        next
    }
}

fn agent_line(page: &mut Page, facts: &AgentFacts) {
    let mut line = format!("  agent    {}", facts.name);
    if let Some(program) = &facts.program {
        line.push_str(&format!(", {}", program.as_str()));
    }
    if let Some(version) = &facts.version {
        line.push_str(&format!(", version {version}"));
    }
    page.line(&line);
    for model in facts.models.iter().flat_map(|models| models.as_slice()) {
        page.line(&format!("  model    {model}"));
    }
}

/// What the agent reported to have used.
fn usage_line(page: &mut Page, receipt: &Receipt) {
    let tokens = receipt.tokens_used.map(|tokens| format!("{} tokens", tokens.get()));
    let cost = receipt.cost_usd.map(|cost| format!("{} US dollars", cost.get()));
    let used: Vec<String> = [tokens, cost].into_iter().flatten().collect();
    if !used.is_empty() {
        page.line(&format!("  used     {} (as the agent reported)", used.join(", ")));
    }
}

fn hidden_line(page: &mut Page, stated: &WorkRun) {
    let Some(hidden) = &stated.hidden else { return };
    let paths = hidden.paths.as_slice();
    for path in paths.iter().take(MAX_FILES) {
        page.line(&format!("  hidden   {}", path.as_str()));
    }
    let more = paths.len().saturating_sub(MAX_FILES) as u64 + hidden.left_off.map_or(0, |more| more.get());
    if more > 0 {
        page.line(&format!("  hidden   and {more} more"));
    }
}
