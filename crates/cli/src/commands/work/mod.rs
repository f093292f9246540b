//! `crealeph work`: work items, their runs and what proves them. One file per task; here they are only listed.

mod display;
mod key;
mod place;
mod plan;
mod replay;
mod run;
mod signals;
mod told;
mod verify;

use clap::{Args, Subcommand};

use super::Verdict;
use crate::failure::Failure;
use crate::output::Output;

pub(super) use plan::write_levels;

/// Run work items under hard bounds, and prove what their runs did
#[derive(Debug, Args)]
pub(super) struct Work {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Run(Box<run::Run>),
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
            Task::Plan(command) => command.json,
            Task::Verify(command) => command.wants_json(),
            Task::Key(_) | Task::Export(_) => false,
            Task::Replay(command) => command.json,
        }
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        match self.task {
            Task::Run(command) => command.run(output),
            Task::Plan(command) => command.run(output),
            Task::Verify(command) => command.run(output),
            Task::Key(command) => command.run(output),
            Task::Replay(command) => command.run(output),
            Task::Export(command) => command.run(output),
        }
    }
}
