//! `crealeph work`: work items, their runs and what proves them. One file per task; here they are only listed.

mod clean;
mod decide;
mod display;
mod evidence;
mod from_tasks;
mod key;
mod place;
mod plan;
mod replay;
mod run;
mod status;
mod told;
mod verify;

use clap::{Args, Subcommand};

use super::Verdict;
use crate::failure::Failure;
use crate::output::Output;

pub(super) use plan::levels;

/// Run coding agents in a sandbox with limits, review, and signed receipts
#[derive(Debug, Args)]
pub(super) struct Work {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Run(Box<run::Run>),
    FromTasks(from_tasks::FromTasks),
    Status(status::Status),
    Show(status::Show),
    Diff(status::Diff),
    /// Approve a pending change; it is tested again if the workspace has changed
    Approve(decide::Decide),
    /// Reject a pending change and discard it
    Reject(decide::Decide),
    Recover(decide::Recover),
    Clean(clean::Clean),
    Plan(plan::PlanCommand),
    Verify(verify::Verify),
    Key(key::Key),
    Replay(replay::Replay),
    Export(replay::Export),
}

impl Work {
    pub(super) fn wants_json(&self) -> bool {
        match &self.task {
            Task::Run(command) => command.wants_json(),
            Task::FromTasks(command) => command.wants_json(),
            Task::Status(command) => command.wants_json(),
            Task::Show(command) => command.wants_json(),
            Task::Approve(command) | Task::Reject(command) => command.wants_json(),
            Task::Recover(command) => command.wants_json(),
            Task::Clean(command) => command.wants_json(),
            Task::Plan(command) => command.json,
            Task::Verify(command) => command.wants_json(),
            Task::Diff(_) | Task::Key(_) | Task::Export(_) => false,
            Task::Replay(command) => command.wants_json(),
        }
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        match self.task {
            Task::Run(command) => command.run(output),
            Task::FromTasks(command) => command.run(output),
            Task::Status(command) => command.run(output),
            Task::Show(command) => command.run(output),
            Task::Diff(command) => command.run(output),
            Task::Approve(command) => command.run(true, output),
            Task::Reject(command) => command.run(false, output),
            Task::Recover(command) => command.run(output),
            Task::Clean(command) => command.run(output),
            Task::Plan(command) => command.run(output),
            Task::Verify(command) => command.run(output),
            Task::Key(command) => command.run(output),
            Task::Replay(command) => command.run(output),
            Task::Export(command) => command.run(output),
        }
    }
}
