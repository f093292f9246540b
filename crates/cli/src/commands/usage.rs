//! `crealeph usage`: tokens and cost, as agents reported them.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use crealeph_contracts::scalar::RobotId;
use crealeph_ledger::Clock;
use crealeph_runtime::usage::{UsageCut, UsageKey, UsageQuestion, UsageReport, UsageSum, usage};

use super::CommandOutcome;
use super::ledger::{At, named};
use super::place::Place;
use crate::failure::Failure;
use crate::human_time::{self, Since};
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph usage
  crealeph usage --by day --since 7d
  crealeph usage --by model --robot shop --json | jq .total.costUsd

Sums up work runs by their receipts, reported ones too, and Builder executions by their records. The figures are what the agents reported, not measurements;
those that reported nothing are counted. The newest 10,000 entries of each kind are read, within 32 MiB of each.

Exit codes: 0 done, 2 cannot be done.";

/// Sum up tokens and cost, as agents reported them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Usage {
    /// What to group by
    #[arg(long, default_value = "agent", value_parser = keys())]
    by: UsageKey,

    /// Only what was recorded since then: `2h`, `3d`, a date, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = human_time::since)]
    since: Option<Since>,

    /// Only this robot
    #[arg(long)]
    robot: Option<String>,

    #[command(flatten)]
    at: At,
}

fn keys() -> impl TypedValueParser<Value = UsageKey> {
    PossibleValuesParser::new(UsageKey::NAMES)
        .try_map(|name| UsageKey::parse(&name).ok_or("is not a way to group usage"))
}

impl Usage {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let at = self.at.place()?;
        let robot = self.robot.as_deref().map(|name| named("robot", name, RobotId::parse)).transpose()?;
        let question = UsageQuestion {
            by: self.by,
            from: self.since.map(|since| since.instant(Clock::system().now().instant())),
            to: None,
            robot,
        };
        let report = match &at {
            Place::Here(at) => usage(&at.open()?, &at.tenant, &question, |_| true)?,
            Place::Server(remote) => {
                let query = [
                    ("by", Some(question.by.as_str().to_owned())),
                    ("from", question.from.map(|from| from.to_string())),
                    ("robot", question.robot.map(|robot| robot.to_string())),
                ];
                remote.client.get(&["usage"], &query)?.read()?
            }
        };
        match at.is_json(output) {
            true => output.report(&report)?,
            false => lines(&report).iter().try_for_each(|line| output.line(line))?,
        }
        output.flush()?;
        for UsageCut { kind, oldest_read } in &report.cuts {
            note!(
                "older entries of the type `{kind}` were not read; the oldest that was is of {oldest_read}"
            );
        }
        Ok(CommandOutcome::Good)
    }
}

fn lines(report: &UsageReport) -> Vec<String> {
    if report.rows.is_empty() {
        return vec!["no run and no execution is recorded".to_owned()];
    }
    let width = report.rows.iter().map(|row| row.name.chars().count()).fold("total".len(), usize::max);
    let line = |name: &str, sum: &UsageSum| {
        let UsageSum { runs, executions, tokens, cost_usd, without_tokens, .. } = sum;
        let unsaid =
            if *without_tokens > 0 { format!(", {without_tokens} did not report") } else { String::new() };
        format!(
            "{name:<width$}  {tokens} tokens, {cost_usd} US dollars; {runs} runs, {executions} executions{unsaid}"
        )
    };
    let mut lines: Vec<String> = report.rows.iter().map(|row| line(&row.name, &row.sum)).collect();
    lines.push(line("total", &report.total));
    lines.push("as the agents reported it".to_owned());
    lines
}
