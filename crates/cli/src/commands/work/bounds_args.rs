//! The limits of a run as flags: of `work run` and `work retry`. Owns their names, their units and the defaults that
//! help prints.

use std::time::Duration;

use clap::Args;
use crealeph_contracts::scalar::{Count, TimeoutMs};
use crealeph_contracts::text::Shown;
use crealeph_contracts::work_item::{Bounds, Constraints};
use crealeph_decision::work::{ClassLimits, DeltaClass, ExceededLimit, RunLimit, timeout_of};
use crealeph_runtime::work::configured_bounds;

use crate::commands::typed_line::TypedLine;
use crate::failure::ArgumentFailure;
use crate::human_time;

/// How much a run may do.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct BoundsArgs {
    #[arg(long, help_heading = "Limits", value_name = "N", help = help("changed files", |bounds| bounds.max_files.to_string()))]
    max_files: Option<u64>,

    #[arg(long, help_heading = "Limits", value_name = "N", help = help("tool operations", |bounds| bounds.max_tool_ops.to_string()))]
    max_tool_ops: Option<u64>,

    #[arg(long, help_heading = "Limits", value_name = "N", help = help("deltas", |bounds| bounds.max_delta_size.to_string()))]
    max_delta_size: Option<u64>,

    /// Maximum number of deltas in protected paths [default: none]
    #[arg(long, help_heading = "Limits", value_name = "N")]
    max_protected: Option<u64>,

    /// Maximum number of deltas in tests [default: none]
    #[arg(long, help_heading = "Limits", value_name = "N")]
    max_tests: Option<u64>,

    /// Maximum number of deltas in generated files [default: none]
    #[arg(long, help_heading = "Limits", value_name = "N")]
    max_generated: Option<u64>,

    /// Maximum number of deltas in all other files [default: none]
    #[arg(long, help_heading = "Limits", value_name = "N")]
    max_other: Option<u64>,

    #[arg(long, help_heading = "Limits", value_name = "TIME", value_parser = human_time::parse, help = timeout_help())]
    timeout: Option<Duration>,

    /// The name of an earlier version; still taken
    #[arg(long, hide = true, value_name = "MS", conflicts_with = "timeout")]
    timeout_ms: Option<u64>,
}

/// How many agents help names.
const MAX_NAMED: usize = 16;

/// The limits that the agents of the configuration set in place of the defaults, for the end of help.
pub(in crate::commands) fn in_force(line: &TypedLine) -> Option<String> {
    let configured = configured_bounds(&line.configuration()?);
    let flags = |bounds: &Constraints| {
        let counts = [
            ("--max-files", bounds.max_files),
            ("--max-tool-ops", bounds.max_tool_ops),
            ("--max-delta-size", bounds.max_delta_size),
        ];
        let counts = counts.into_iter().filter_map(|(flag, count)| Some(format!(" {flag} {}", count?)));
        let timeout = bounds.timeout_ms.map(|time| format!(" --timeout {}", human_time::shown(time.get())));
        counts.chain(timeout).collect::<String>()
    };
    let mut text = "Limits of the agents in crealeph.toml, in place of the defaults above:".to_owned();
    for (name, bounds) in configured.iter().take(MAX_NAMED) {
        text.push_str(&format!("\n  {}:{}", Shown::line(name), flags(bounds)));
    }
    if let Some(more) = configured.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        text.push_str(&format!("\n  and of {more} more"));
    }
    (!configured.is_empty()).then_some(text)
}

fn help(what: &str, default: impl FnOnce(Bounds) -> String) -> String {
    format!("Maximum number of {what} [default: {}]", default(Bounds::default()))
}

fn timeout_help() -> String {
    let default = human_time::shown(Bounds::default().timeout_ms);
    format!("Time limit, a number with `ms`, `s`, `m`, `h`, `d` or `w` [default: {default}]")
}

impl BoundsArgs {
    /// Whether no flag was given.
    pub(super) fn is_empty(&self) -> bool {
        let BoundsArgs {
            max_files,
            max_tool_ops,
            max_delta_size,
            max_protected,
            max_tests,
            max_generated,
            max_other,
            timeout,
            timeout_ms,
        } = self;
        let counts = [
            max_files,
            max_tool_ops,
            max_delta_size,
            max_protected,
            max_tests,
            max_generated,
            max_other,
            timeout_ms,
        ];
        counts.into_iter().all(Option::is_none) && timeout.is_none()
    }

    /// The constraints of a work item, what the flags say before what `base` says.
    pub(super) fn constraints(&self, base: Option<&Constraints>) -> Result<Constraints, ArgumentFailure> {
        let count = |value: Option<u64>, expected: &'static str| {
            let wrong = |value: u64| ArgumentFailure::option(value.to_string(), expected);
            value.map(|value| Count::new(value).ok_or_else(|| wrong(value))).transpose()
        };
        let timeout = self.timeout.or(self.timeout_ms.map(Duration::from_millis));
        let timeout_ms = timeout.map(|time| {
            let time_ms = u64::try_from(time.as_millis()).ok().and_then(TimeoutMs::new);
            time_ms.ok_or_else(|| {
                ArgumentFailure::option(format!("{time:?}"), "a time limit from 1 ms for --timeout")
            })
        });
        let usual =
            Constraints { max_files: None, max_tool_ops: None, max_delta_size: None, timeout_ms: None };
        let base = base.unwrap_or(&usual);
        Ok(Constraints {
            max_files: count(self.max_files, "a count for --max-files")?.or(base.max_files),
            max_tool_ops: count(self.max_tool_ops, "a count for --max-tool-ops")?.or(base.max_tool_ops),
            max_delta_size: count(self.max_delta_size, "a count for --max-delta-size")?
                .or(base.max_delta_size),
            timeout_ms: timeout_ms.transpose()?.or(base.timeout_ms),
        })
    }

    /// The limits per class that take the place of the agent's.
    pub(super) fn class_limits(&self) -> ClassLimits {
        ClassLimits {
            laws: self.max_protected,
            invariants: self.max_tests,
            projections: self.max_generated,
            others: self.max_other,
        }
    }
}

/// What raises the limit that a recorded run has exceeded, if it has exceeded one: for a task on the command line a flag, for an item of a
/// file its constraints. `reason` is in the contract's wording.
pub(super) fn raised_by(reason: &str) -> Option<String> {
    if let Some(timeout_ms) = timeout_of(reason) {
        let more = human_time::shown(timeout_ms.saturating_mul(2));
        return Some(format!(
            "--timeout {more}; in a file of items, `timeout_ms` in the item's `constraints`"
        ));
    }
    let ExceededLimit { limit, counted, allowed } = ExceededLimit::parse(reason)?;
    let (flag, key, place) = match limit {
        RunLimit::Tokens => return Some("`max_tokens` in the agent's table".to_owned()),
        RunLimit::Cost => return Some("`max_cost` in the agent's table".to_owned()),
        RunLimit::Files => ("--max-files", "max_files", "the item's `constraints`"),
        RunLimit::ToolOps => ("--max-tool-ops", "max_tool_ops", "the item's `constraints`"),
        RunLimit::DeltaSize => ("--max-delta-size", "max_delta_size", "the item's `constraints`"),
        RunLimit::ClassDeltas(class) => {
            let (flag, key) = match class {
                DeltaClass::Laws => ("--max-protected", "max_protected"),
                DeltaClass::Invariants => ("--max-tests", "max_tests"),
                DeltaClass::Projections => ("--max-generated", "max_generated"),
                DeltaClass::Others => ("--max-other", "max_other"),
            };
            (flag, key, "the agent's `paths`")
        }
    };
    // An agent is stopped at the first tool operation too many: how many it needs is not known.
    let enough = if limit == RunLimit::ToolOps { counted.max(allowed * 2.0) } else { counted };
    Some(format!("{flag} {enough}; in a file of items, `{key}` in {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_names_what_raises_it() {
        for (reason, expected) in [
            ("Exceeded max files: 12 > 10", "--max-files 12"),
            ("Exceeded max tool ops: 51 > 50", "--max-tool-ops 100"),
            ("Exceeded max tool ops: 1 > 0", "--max-tool-ops 1"),
            ("Exceeded max delta size: 101 > 100", "--max-delta-size 101"),
            ("Exceeded max delta size of Λ: 2 > 1", "--max-protected 2"),
            ("Exceeded max tokens: 120 > 100", "`max_tokens`"),
            ("Timed out after 300000 ms (`timeout_ms`); standard error ends with: oh", "--timeout 10m"),
        ] {
            let raised_by = raised_by(reason).unwrap();
            assert!(raised_by.starts_with(expected), "{reason}: {raised_by}");
        }
        for reason in ["", "Denied path: a", "Exceeded max receipt bytes: 2 > 1", "Exceeded max files: a > b"]
        {
            assert_eq!(raised_by(reason), None, "{reason}");
        }
    }
}
