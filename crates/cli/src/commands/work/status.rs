//! `crealeph work status`: one line a run, the newest first, that fits the screen.

use std::time::Duration;

use clap::Args;
use crealeph_contracts::instant::Instant;
use crealeph_runtime::report::{RunRow, workspace_row};
use crealeph_runtime::work::RunSummary;

use super::named_run::{RunLine, open};
use super::remote_runs::RemoteRuns;
use super::report::is_made_id;
use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::drawing::Drawing;
use crate::failure::{ArgumentFailure, Failure};
use crate::human_time::{self, Since};
use crate::output::{Output, is_watched, note};
use crate::render::{cut, padded, width};

const EXAMPLES: &str = "\
Examples:
  crealeph work status
  crealeph work status --status failure --since 2h
  crealeph work status --agent claude --since 2026-11-01 --limit 500
  crealeph work status --watch
  crealeph --server https://crealeph.example.com work status

A line has the run's short id, how long ago it was started, agent, status, files touched, and the task. `crealeph work show RUN` has the
rest. With --server these are the runs of the server: of its own workspace, recorded in its ledger or reported to it. A receipt
does not distinguish timeouts and interruptions from other failures, so runs of other workspaces are `success`, `denied` or `failure`.

Exit codes: 0 shown, 2 cannot be shown.";

/// How often `--watch` looks again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The least room for the task; below it the agent is left out.
const LEAST_TASK_COLUMNS: usize = 12;
const MAX_AGENT_COLUMNS: usize = 12;
/// Lines stay where they are while a run grows older.
const LEAST_AGE_COLUMNS: usize = 3;
const STATUSES: [&str; 8] =
    ["success", "failure", "denied", "timeout", "interrupted", "held", "running", "unsettled"];

/// List runs, the newest first: finished, awaiting approval, running
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Status {
    /// Only runs with this status; can be repeated
    #[arg(long, value_name = "STATUS", value_parser = STATUSES)]
    status: Vec<String>,

    /// Only runs that were started since then: `2h`, `3d`, a date, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = human_time::since)]
    since: Option<Since>,

    /// Only runs of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Only the newest N
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    /// Keep showing the runs until interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Status {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        if self.watch {
            return self.watch();
        }
        let listed = self.select(RemoteRuns::named(&self.workspace)?.as_ref(), self.limit)?;
        if self.workspace.at.json || !output.is_for_person() {
            for row in &listed.rows {
                output.report_line(&RunLine::new(row))?;
            }
        } else {
            for line in &laid_out_runs(&listed.rows, output.width()) {
                output.state_line(&line.before, &line.status, &line.after)?;
            }
            if listed.rows.is_empty() {
                output.line(if listed.is_empty { "no run yet" } else { "no such run" })?;
            }
        }
        output.flush()?;
        match listed.left {
            LeftOut::Runs(0) => {}
            LeftOut::Runs(left) => {
                note!("{left} older ones left out; see them with --limit {}", listed.rows.len() + left);
            }
            LeftOut::Unknown => note!("older ones left out; see them with a greater --limit"),
        }
        if let Some(cut) = listed.cut {
            note!("there may be more: {cut}");
        }
        Ok(CommandOutcome::Good)
    }

    /// The newest matching runs, of a server or of the workspace.
    fn select(&self, server: Option<&RemoteRuns>, limit: usize) -> Result<ListedRuns, Failure> {
        let now = Instant::from_unix_nanos(now_nanos());
        let since = self.since.map(|since| since.instant(now));
        let is_status =
            |word: &str| self.status.is_empty() || self.status.iter().any(|status| status == word);
        if let Some(server) = server {
            let query = [
                ("agent", self.agent.clone()),
                ("since", since.map(|since| since.to_string())),
                ("status", self.recorded_status().map(str::to_owned)),
            ];
            let is_wanted = |row: &RunRow| {
                // An open run is not asked for by the query.
                is_status(&row.outcome)
                    && self.agent.as_ref().is_none_or(|agent| row.agent.as_ref() == Some(agent))
                    && since.is_none_or(|since| Instant::parse(&row.started_at).is_ok_and(|at| at >= since))
            };
            let newest = server.newest(&query, limit, is_wanted)?;
            let is_empty =
                newest.rows.is_empty() && self.status.is_empty() && self.agent.is_none() && since.is_none();
            let left = if newest.has_more { LeftOut::Unknown } else { LeftOut::Runs(0) };
            return Ok(ListedRuns { cut: newest.stated_cut(), rows: newest.rows, left, is_empty });
        }
        let reader = open(&self.workspace)?;
        let is_wanted = |summary: &RunSummary| {
            is_status(summary.state.as_str())
                && self.agent.as_ref().is_none_or(|agent| summary.agent.as_ref() == Some(agent))
                && since.is_none_or(|since| summary.started_at.instant() >= since)
        };
        let mut wanted = reader.all().filter(is_wanted);
        let shown: Vec<RunSummary> = wanted.by_ref().take(limit).collect();
        let left = LeftOut::Runs(wanted.count());
        let rows = shown.iter().map(|summary| workspace_row(&reader, summary)).collect::<Result<_, _>>()?;
        Ok(ListedRuns { rows, left, cut: None, is_empty: reader.count() == 0 })
    }

    /// How a ledger records all requested statuses; absent if in different ways.
    fn recorded_status(&self) -> Option<&'static str> {
        let is_success = |word: &String| word == "success";
        match () {
            () if self.status.is_empty() => None,
            () if self.status.iter().all(is_success) => Some("succeeded"),
            () if !self.status.iter().any(is_success) => Some("failed"),
            () => None,
        }
    }

    fn watch(&self) -> Result<CommandOutcome, Failure> {
        if !is_watched() {
            return Err(ArgumentFailure::option_with_hint(
                "--watch",
                "possible without a terminal",
                "leave it out, or follow a run with `crealeph work logs RUN -f`",
            )
            .into());
        }
        let server = RemoteRuns::named(&self.workspace)?;
        loop {
            let mut drawing = Drawing::new();
            // The last line says how many more there are.
            let limit = self.limit.min(drawing.rows_left().saturating_sub(1));
            let ListedRuns { rows, left, cut, .. } = self.select(server.as_ref(), limit)?;
            for line in &laid_out_runs(&rows, drawing.columns()) {
                drawing.state_line(&line.before, &line.status, &line.after);
            }
            let more = match left {
                LeftOut::Runs(count) => format!("{count} more"),
                LeftOut::Unknown => "and more".to_owned(),
            };
            let cut = cut.map_or_else(String::new, |cut| format!(", {cut}"));
            drawing.line(&format!("{} runs, {more}{cut}; Ctrl-C ends this", rows.len()));
            drawing.show();
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Runs that are shown.
struct ListedRuns {
    rows: Vec<RunRow>,
    left: LeftOut,
    /// What was not looked at, in words.
    cut: Option<String>,
    /// There are none at all.
    is_empty: bool,
}

/// How many more there are.
enum LeftOut {
    Runs(usize),
    Unknown,
}

/// A run in one line, its status apart for its colour.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    before: String,
    status: String,
    after: String,
}

/// What a line says.
struct Row {
    id: String,
    age: String,
    agent: String,
    status: String,
    files: String,
    task: String,
}

/// Lines that fit.
fn laid_out_runs(shown: &[RunRow], columns: usize) -> Vec<Line> {
    let now = now_nanos();
    let rows: Vec<Row> = shown.iter().map(|run| row(run, now)).collect();
    laid_out(&rows, columns)
}

fn row(run: &RunRow, now: i128) -> Row {
    let task = match &run.item {
        Some(id) if !is_made_id(id) && *id != run.task => format!("{id}: {}", run.task),
        _ => run.task.clone(),
    };
    Row {
        id: run.short_id.clone(),
        age: age_at(&run.started_at, now),
        agent: cut(&shown(run.agent.as_deref().unwrap_or("-")), MAX_AGENT_COLUMNS),
        status: shown(&run.outcome),
        files: run.files.map_or_else(|| "-".to_owned(), |files| files.to_string()),
        task,
    }
}

/// How long ago a time in a document was.
pub(super) fn age_at(instant: &str, now: i128) -> String {
    Instant::parse(instant)
        .map_or_else(|_| "-".to_owned(), |at| shown_age(now.saturating_sub(at.unix_nanos())))
}

/// The text as a screen shows it.
fn shown(text: &str) -> String {
    crealeph_contracts::text::Shown::line(text).to_string()
}

/// The lines of a table, none of which is wider than the screen. Where there is no room for the task, the agent is left out.
fn laid_out(rows: &[Row], columns: usize) -> Vec<Line> {
    let widest = |of: &dyn Fn(&Row) -> &str| rows.iter().map(|row| width(of(row))).max().unwrap_or(0);
    let (id, agent) = (widest(&|row| &row.id), widest(&|row| &row.agent));
    let age = widest(&|row| &row.age).max(LEAST_AGE_COLUMNS);
    let (status, files) = (widest(&|row| &row.status), widest(&|row| &row.files));
    let fixed = id + 2 + age + 2 + status + 2 + files + 2;
    let has_agent = fixed + agent + 2 + LEAST_TASK_COLUMNS <= columns;
    let room = columns.saturating_sub(if has_agent { fixed + agent + 2 } else { fixed });
    let line = |row: &Row| {
        let named = if has_agent { format!("{}  ", padded(&row.agent, agent)) } else { String::new() };
        Line {
            before: format!("{:<id$}  {:>age$}  {named}", row.id, row.age),
            status: format!("{:<status$}", row.status),
            after: format!("  {:>files$}  {}", row.files, cut(&shown(&row.task), room)),
        }
    };
    rows.iter().map(line).collect()
}

/// `12s`, `3m`, `5h`, `2d`.
fn shown_age(nanos: i128) -> String {
    let seconds = (nanos / 1_000_000_000).max(0);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The time, in nanoseconds since 1970.
pub(super) fn now_nanos() -> i128 {
    crealeph_ledger::Clock::system().now().instant().unix_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Line {
        fn text(&self) -> String {
            format!("{}{}{}", self.before, self.status, self.after).trim_end().to_owned()
        }
    }

    fn rows() -> Vec<Row> {
        let row = |id: &str, age: &str, agent: &str, status: &str, files: &str, task: &str| Row {
            id: id.to_owned(),
            age: age.to_owned(),
            agent: agent.to_owned(),
            status: status.to_owned(),
            files: files.to_owned(),
            task: task.to_owned(),
        };
        vec![
            row(
                "01a1df32-e6c",
                "12s",
                "claude",
                "running",
                "-",
                "Fix the flaky parser test that fails on Mondays",
            ),
            row("01a1df3", "3m", "fixer", "interrupted", "12", "greet: say hello\u{1b}[2J"),
            row("01a1d", "400d", "-", "success", "3", "(merge of a level)"),
            row(
                "01a1e",
                "2d",
                "作業者",
                "denied",
                "1",
                "日本語の説明を短くして画面に収まるようにする、とても長い仕事です",
            ),
        ]
    }

    #[test]
    fn every_line_fits_whatever_the_width() {
        for columns in 40..130 {
            for line in laid_out(&rows(), columns) {
                assert!(width(&line.text()) <= columns, "{columns}: {}", line.text());
            }
        }
    }

    #[test]
    fn a_narrow_screen_loses_the_agent_and_the_end_of_the_task() {
        let shown =
            |columns| laid_out(&rows(), columns).iter().map(|line| line.text() + "\n").collect::<String>();
        assert_eq!(
            shown(80),
            "01a1df32-e6c   12s  claude  running       -  Fix the flaky parser test that fai…\n\
             01a1df3         3m  fixer   interrupted  12  greet: say hello\\x1b[2J\n\
             01a1d         400d  -       success       3  (merge of a level)\n\
             01a1e           2d  作業者  denied        1  日本語の説明を短くして画面に収まる…\n"
        );
        assert_eq!(
            shown(50),
            "01a1df32-e6c   12s  running       -  Fix the flak…\n\
             01a1df3         3m  interrupted  12  greet: say h…\n\
             01a1d         400d  success       3  (merge of a …\n\
             01a1e           2d  denied        1  日本語の説明…\n"
        );
    }
}
