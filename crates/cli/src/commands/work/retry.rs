//! `crealeph work retry`: judges the change of a run again, without calling its agent.

use std::path::PathBuf;

use clap::Args;
use crealeph_runtime::work::RetryOptions;

use super::bounds_args::BoundsArgs;
use super::earlier_change::{EarlierChange, one};
use super::run::carry_out;
use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph work retry 0190a6f0 --max-files 20
  crealeph work retry 0190a6f0
  crealeph work retry 0190a6f0 --test \"cargo test --lib\"

A run that was denied by a count, a path or a class, or whose tests failed, keeps its change: by default at most 10,000 files and
64 MiB, for 7 days (`[work.capsules]`). It is judged as if its agent had just finished: by the rules and limits in force now, the
flags before the item's own, and by its tests. The agent is not called. The result is a separate run, whose receipt names the first one.

Limits without a flag are those of the run's item, else the agent's.

The change goes to the first run's target, and is held if the first run's was to be. If files that it changes were changed since, nothing is
run, and they are named.

Exit codes: 0 landed, 1 it did not, or cannot be retried, 2 cannot be done, 3 the change awaits approval, 130 interrupted.";

/// Judge the change of a denied or failed run again, under other limits, without calling the agent
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Retry {
    /// Run id or its start, `@` for the newest, or the id of its item
    run: String,

    /// Test command [default: the item's own]
    #[arg(long, value_name = "COMMAND")]
    test: Option<String>,

    /// Where the change goes: `tree`, or `branch:NAME` [default: the first run's target]
    #[arg(long, value_name = "WHERE")]
    publish: Option<String>,

    /// Hold the change until `crealeph approve` or `crealeph reject`
    #[arg(long)]
    hold: bool,

    /// Rules file for the policy, TOML, if the run is bound to a robot [default: the rules of the configuration, else the built-in ones]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    #[command(flatten)]
    bounds: BoundsArgs,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Retry {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    fn earlier_change(&self) -> EarlierChange<'_> {
        EarlierChange {
            run: &self.run,
            test: self.test.as_deref(),
            publish: self.publish.as_deref(),
            rules: self.rules.as_ref(),
            bounds: &self.bounds,
            workspace: &self.workspace,
        }
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let flags = self.earlier_change();
        let (mut work, run, destination) = flags.open()?;
        let retryable = work.retryable(&run)?;
        let robot = retryable.robot().cloned();
        let item = flags.allowed_item(&mut work, retryable.item().clone(), robot)?;
        let options = RetryOptions { item, destination, is_held: self.hold };
        carry_out(&work, self.workspace.at.json, output, |progress, report| {
            one(work.retry(retryable, options, progress), report)
        })
    }
}
