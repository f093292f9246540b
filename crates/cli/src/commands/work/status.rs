//! `crealeph work status`: one line a run, the newest first, that fits the screen.

use std::time::Duration;

use clap::Args;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::work::{DiffStat, RunReader, RunState, RunSummary, WorkError};

use super::named_run::{RunLine, open};
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

A line has the run's short id, how long ago it was started, agent, status, files touched, and the task. `crealeph work show RUN` has the
rest.

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

    /// Only runs that were started since then: `2h`, `3d`, a date, or an instant
    #[arg(long, value_name = "TIME", value_parser = human_time::since)]
    since: Option<Since>,

    /// Only runs of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Only the newest N
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,

    /// Show the runs until interrupted, as they go on
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
        let reader = open(&self.workspace)?;
        let (shown, left) = self.select(&reader, self.limit);
        if self.workspace.at.json || !output.is_for_person() {
            for summary in &shown {
                output.report_line(&RunLine::new(summary))?;
            }
        } else {
            let table = Table::new(&reader, &shown, output.width())?;
            for line in &table.lines {
                output.state_line(&line.before, &line.status, &line.after)?;
            }
            if shown.is_empty() {
                output.line(if reader.count() == 0 { "no run yet" } else { "no such run" })?;
            }
        }
        output.flush()?;
        if left > 0 {
            note!("{left} older ones left out; see them with --limit {}", shown.len() + left);
        }
        Ok(CommandOutcome::Good)
    }

    /// The newest runs that are asked for, and how many more there are.
    fn select(&self, reader: &RunReader, limit: usize) -> (Vec<RunSummary>, usize) {
        let now = Instant::from_unix_nanos(now_nanos());
        let since = self.since.map(|since| since.instant(now));
        let is_wanted = |summary: &RunSummary| {
            (self.status.is_empty() || self.status.iter().any(|status| status == summary.state.as_str()))
                && self.agent.as_ref().is_none_or(|agent| summary.agent.as_ref() == Some(agent))
                && since.is_none_or(|since| summary.started_at.instant() >= since)
        };
        let mut wanted = reader.all().filter(is_wanted);
        let shown = wanted.by_ref().take(limit).collect();
        (shown, wanted.count())
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
        loop {
            let reader = open(&self.workspace)?;
            let mut drawing = Drawing::new();
            // The last line says how many more there are.
            let (shown, left) = self.select(&reader, self.limit.min(drawing.rows_left().saturating_sub(1)));
            for line in &Table::new(&reader, &shown, drawing.columns())?.lines {
                drawing.state_line(&line.before, &line.status, &line.after);
            }
            drawing.line(&format!("{} runs, {left} more; Ctrl-C ends this", shown.len()));
            drawing.show();
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Lines that fit.
struct Table {
    lines: Vec<Line>,
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
    status: &'static str,
    files: String,
    task: String,
}

impl Table {
    fn new(reader: &RunReader, shown: &[RunSummary], columns: usize) -> Result<Self, Failure> {
        let now = now_nanos();
        let rows = shown.iter().map(|summary| row(reader, summary, now)).collect::<Result<Vec<_>, _>>()?;
        Ok(Table { lines: laid_out(&rows, columns) })
    }
}

fn row(reader: &RunReader, summary: &RunSummary, now: i128) -> Result<Row, Failure> {
    let age = now.saturating_sub(summary.started_at.instant().unix_nanos());
    let item = reader.item(&summary.run).map_err(WorkError::from)?;
    let task = match (&summary.item, item) {
        (None, _) => "(merge of a level)".to_owned(),
        (Some(id), None) => id.to_string(),
        (Some(id), Some(item)) if is_made_id(id.as_str()) => first_line(&item.description),
        (Some(id), Some(item)) => format!("{id}: {}", first_line(&item.description)),
    };
    let files = files(reader, &summary.run, summary.state)?;
    Ok(Row {
        id: reader.short(&summary.run),
        age: shown_age(age),
        agent: cut(&shown(summary.agent.as_deref().unwrap_or("-")), MAX_AGENT_COLUMNS),
        status: summary.state.as_str(),
        files: files.map_or_else(|| "-".to_owned(), |files| files.to_string()),
        task,
    })
}

/// How many files a run touched, as far as that is known.
fn files(reader: &RunReader, run: &Uuid, state: RunState) -> Result<Option<usize>, Failure> {
    if state == RunState::Held {
        let diff = reader.diff(run).map_err(WorkError::from)?;
        return Ok(diff.map(|diff| DiffStat::read(&diff).files.len()));
    }
    let result = reader.result(run).map_err(WorkError::from)?.and_then(|result| result.value);
    Ok(result.and_then(|result| usize::try_from(result.result.metrics.files_touched.get()).ok()))
}

/// The text as a screen shows it.
fn shown(text: &str) -> String {
    crealeph_contracts::text::Shown::line(text).to_string()
}

fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// The lines of a table, none of which is wider than the screen. Where there is no room for the task, the agent is left out.
fn laid_out(rows: &[Row], columns: usize) -> Vec<Line> {
    let widest = |of: &dyn Fn(&Row) -> &str| rows.iter().map(|row| width(of(row))).max().unwrap_or(0);
    let (id, agent) = (widest(&|row| &row.id), widest(&|row| &row.agent));
    let age = widest(&|row| &row.age).max(LEAST_AGE_COLUMNS);
    let (status, files) = (widest(&|row| row.status), widest(&|row| &row.files));
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
pub(super) fn shown_age(nanos: i128) -> String {
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
        let row = |id: &str, age: &str, agent: &str, status, files: &str, task: &str| Row {
            id: id.to_owned(),
            age: age.to_owned(),
            agent: agent.to_owned(),
            status,
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
