//! `crealeph work undo`: restores the files that a run changed, in a separate run.

use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::scalar::RobotId;
use crealeph_runtime::work::UndoOptions;

use super::bounds_args::BoundsArgs;
use super::earlier_change::{EarlierChange, one};
use super::run::carry_out;
use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::commands::ledger::named;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph work undo 0190a6f0
  crealeph work undo 0190a6f0 --test \"cargo test\"
  crealeph work undo 0190a6f0 --hold

Restores every file that the run changed. That is a separate run, of `agent-0`: within the limits and path rules of the
run that it undoes, with that run's tests, and with a receipt that names it. It can be undone, too. If the change went to a branch, the
undo is a commit there.

If a file was changed since, nothing is run, and the file and the runs that changed it are named: undo those first, newest first.
`--test ''` runs no tests, for a run whose tests look for what it made.

Exit codes: 0 undone, 1 it was not, or it cannot be, 2 cannot be done, 3 the undo awaits approval, 130 interrupted.";

/// Undo a run that landed: restore the files that it changed, tested and with a receipt
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Undo {
    /// Run id or its start, `@` for the newest, or the id of its item
    run: String,

    /// Test command [default: that of the run]
    #[arg(long, value_name = "COMMAND")]
    test: Option<String>,

    /// Agent whose rules and test grants apply [default: the agent of the run]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Where the files are restored: `tree`, or `branch:NAME` [default: where the change went]
    #[arg(long, value_name = "WHERE")]
    publish: Option<String>,

    /// Hold the undo until `crealeph approve` or `crealeph reject`
    #[arg(long)]
    hold: bool,

    /// Robot that the undo is bound to; the policy decides `work.run`
    #[arg(long)]
    robot: Option<String>,

    /// Rules file for that decision, TOML [default: the rules of the configuration, else the built-in ones]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    #[command(flatten)]
    bounds: BoundsArgs,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Undo {
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
        let landed = work.landed(&run)?;
        let robot = self.robot.as_deref().map(|name| named("robot", name, RobotId::parse)).transpose()?;
        let item = flags.allowed_item(&mut work, landed.undo_item()?, robot)?;
        let options = UndoOptions { item, agent: self.agent.clone(), destination, is_held: self.hold };
        carry_out(&work, self.workspace.at.json, output, |progress, report| {
            one(work.undo(landed, options, progress), report)
        })
    }
}
