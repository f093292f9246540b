//! `crealeph work logs`: what the agent and the tests of a run printed, also while it runs.

use std::time::Duration;

use clap::Args;
use crealeph_runtime::work::{LogRecord, LogSource, RunState, WorkError};

use super::remote_runs::{RemoteOutput, RemoteRuns};
use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::failure::Failure;
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph work logs
  crealeph work logs @- --tests
  crealeph work logs 0190a6f0-7c2e -f

Standard output and standard error in their original order, without secrets. Of a long output only the start and the end
are kept, with the number of bytes left out. A terminal gets control characters as escapes, a pipe the text itself; --json gives records. `-f` follows the output until the run
ends; `work clean` removes the output of old runs. With --server it is a run of the server's own workspace, or one that was reported to it with its logs.

Exit codes: 0 printed, 1 there is no such run, 2 cannot be done.";

/// How often a run in progress is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Print the output of a run's agent and tests
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Logs {
    /// Run id or its start, `@-` for the one before the newest, or the id of its item [default: the newest]
    run: Option<String>,

    /// Follow the output until the run ends
    #[arg(short, long)]
    follow: bool,

    /// Only what the agent printed
    #[arg(long, conflicts_with = "tests")]
    agent: bool,

    /// Only what the tests printed
    #[arg(long)]
    tests: bool,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Logs {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match RemoteRuns::named(&self.workspace)? {
            Some(server) => {
                let run = server.find(self.run.as_deref())?;
                let short = server.short(&run)?;
                let mut place = 0;
                let look = || {
                    let RemoteOutput { records, next, has_more, left_out } = server.output(&run, place)?;
                    place = next.unwrap_or(place);
                    Ok(NewOutput { records, is_running: next.is_some(), has_more, left_out })
                };
                self.print(&short, look, output)
            }
            None => {
                let mut reader = super::named_run::open(&self.workspace)?;
                let run = reader.find(self.run.as_deref()).map_err(WorkError::from)?.run;
                let (short, mut log) = (reader.short(&run), reader.log(&run));
                let look = || {
                    // What is written before the run has ended is there when it has ended.
                    let is_running = reader.state_of(&run).map_err(WorkError::from)? == RunState::Running;
                    let records = log.read().map_err(WorkError::from)?;
                    Ok(NewOutput { records, is_running, has_more: false, left_out: Vec::new() })
                };
                self.print(&short, look, output)
            }
        }
    }

    /// Prints the output so far, and new output if requested; `run` is the short id of the run.
    fn print(
        &self,
        run: &str,
        mut look: impl FnMut() -> Result<NewOutput, Failure>,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        let mut text = LogText { open: None, has_names: !self.agent && !self.tests };
        let mut is_empty = true;
        let is_json = self.wants_json() || output.is_json_named();
        let (is_running, left_out) = loop {
            let NewOutput { records, is_running, has_more, left_out } = look()?;
            for record in records.iter().filter(|record| self.is_wanted(record)) {
                is_empty = false;
                match is_json {
                    true => output.report_line(record)?,
                    false => output.document(&text.of(record))?,
                }
            }
            output.flush()?;
            if has_more {
                continue;
            }
            if !self.follow || !is_running {
                break (is_running, left_out);
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        output.document(text.end())?;
        output.flush()?;
        if !left_out.is_empty() {
            note!("this is not all of it: the report of run {run} left out {}", left_out.join(", "));
        } else if is_empty {
            let so_far = if is_running { " so far" } else { ", or it was cleaned" };
            note!("run {run} printed nothing{so_far}");
        }
        Ok(CommandOutcome::Good)
    }

    fn is_wanted(&self, record: &LogRecord) -> bool {
        match record {
            LogRecord::Text { source: LogSource::Agent, .. } => !self.tests,
            LogRecord::Text { source: LogSource::Tests, .. } => !self.agent,
            LogRecord::Gap(_) => true,
        }
    }
}

/// What a run printed since it was last looked at.
struct NewOutput {
    records: Vec<LogRecord>,
    is_running: bool,
    /// There is more already.
    has_more: bool,
    /// Files of it that are not here.
    left_out: Vec<String>,
}

/// Records as lines of text.
struct LogText {
    /// The stream whose line has no end yet.
    open: Option<(LogSource, bool)>,
    /// Whether each line says whose it is.
    has_names: bool,
}

impl LogText {
    fn of(&mut self, record: &LogRecord) -> String {
        let (stream, text, goes_on) = match record {
            LogRecord::Gap(bytes) => return format!("{}[… {bytes} bytes left out …]\n", self.end()),
            LogRecord::Text { source, is_error, text, goes_on } => ((*source, *is_error), text, *goes_on),
        };
        let is_same_line = self.open == Some(stream);
        let mut out = if is_same_line { String::new() } else { self.end().to_owned() };
        if self.has_names && !is_same_line {
            out.push_str(&format!("{} | ", stream.0.as_str()));
        }
        out.push_str(text);
        match goes_on {
            true => self.open = Some(stream),
            false => {
                self.open = None;
                out.push('\n');
            }
        }
        out
    }

    /// What ends an open line.
    fn end(&mut self) -> &'static str {
        if self.open.take().is_some() { "\n" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_in_parts_is_one_line_and_another_stream_starts_a_new_one() {
        let record = |source, is_error, text: &str, goes_on| LogRecord::Text {
            source,
            is_error,
            text: text.to_owned(),
            goes_on,
        };
        let records = [
            record(LogSource::Agent, false, "one ", true),
            record(LogSource::Agent, false, "two", false),
            record(LogSource::Agent, false, "open", true),
            record(LogSource::Agent, true, "error", false),
            LogRecord::Gap(7),
            record(LogSource::Tests, false, "last", true),
        ];
        let print = |has_names| {
            let mut text = LogText { open: None, has_names };
            let lines: String = records.iter().map(|record| text.of(record)).collect();
            lines + text.end()
        };
        assert_eq!(print(false), "one two\nopen\nerror\n[… 7 bytes left out …]\nlast\n");
        assert_eq!(
            print(true),
            "agent | one two\nagent | open\nagent | error\n[… 7 bytes left out …]\ntests | last\n"
        );
    }
}
