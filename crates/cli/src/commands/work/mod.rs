//! `crealeph work`: work items, their runs and what proves them. One file per command; here they are only listed.

mod bounds_args;
mod clean;
mod decide;
mod display;
mod earlier_change;
mod evidence;
mod from_tasks;
mod key;
mod logs;
mod named_run;
mod plan;
mod remote_runs;
mod replay;
mod report;
mod report_to;
mod retry;
mod run;
mod show;
mod status;
mod undo;
mod verify;
mod workspace_args;

use clap::{Args, Subcommand};
use crealeph_contracts::approval::ApprovalDecision;

use super::CommandOutcome;
use crate::failure::Failure;
use crate::output::Output;

pub(super) use bounds_args::in_force as limits_in_force;
pub(super) use key::control;
pub(super) use named_run::open as open_runs;
pub(super) use report::{finished, is_made_id};
pub(super) use workspace_args::{WorkspaceArgs, private_paths};

/// Run coding agents in a sandbox with limits, review, and signed receipts
#[derive(Debug, Args)]
pub(super) struct Work {
    #[command(subcommand)]
    command: WorkCommand,
}

#[derive(Debug, Subcommand)]
enum WorkCommand {
    Run(Box<run::Run>),
    Retry(Box<retry::Retry>),
    Undo(Box<undo::Undo>),
    FromTasks(from_tasks::FromTasks),
    Status(status::Status),
    Show(named_run::Show),
    Logs(logs::Logs),
    Diff(named_run::Diff),
    /// Approve a held change (deprecated: use `crealeph approve`)
    Approve(decide::Decide),
    /// Reject a held change and discard it (deprecated: use `crealeph reject`)
    Reject(decide::Decide),
    Recover(decide::Recover),
    Clean(clean::Clean),
    Plan(plan::PlanCommand),
    Verify(verify::Verify),
    Key(key::Key),
    ReportPending(Box<report_to::ReportPending>),
    Replay(replay::Replay),
    Export(replay::Export),
}

impl Work {
    pub(super) fn wants_json(&self) -> bool {
        match &self.command {
            WorkCommand::Run(command) => command.wants_json(),
            WorkCommand::Retry(command) => command.wants_json(),
            WorkCommand::Undo(command) => command.wants_json(),
            WorkCommand::FromTasks(command) => command.wants_json(),
            WorkCommand::Status(command) => command.wants_json(),
            WorkCommand::Show(command) => command.wants_json(),
            WorkCommand::Logs(command) => command.wants_json(),
            WorkCommand::Approve(command) | WorkCommand::Reject(command) => command.wants_json(),
            WorkCommand::Recover(command) => command.wants_json(),
            WorkCommand::Clean(command) => command.wants_json(),
            WorkCommand::Plan(command) => command.json,
            WorkCommand::Verify(command) => command.wants_json(),
            WorkCommand::Diff(_) | WorkCommand::Key(_) | WorkCommand::Export(_) => false,
            WorkCommand::ReportPending(command) => command.wants_json(),
            WorkCommand::Replay(command) => command.wants_json(),
        }
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self.command {
            WorkCommand::Run(command) => command.run(output),
            WorkCommand::Retry(command) => command.run(output),
            WorkCommand::Undo(command) => command.run(output),
            WorkCommand::FromTasks(command) => command.run(output),
            WorkCommand::Status(command) => command.run(output),
            WorkCommand::Show(command) => command.run(output),
            WorkCommand::Logs(command) => command.run(output),
            WorkCommand::Diff(command) => command.run(output),
            WorkCommand::Approve(command) => command.run(ApprovalDecision::Approve, output),
            WorkCommand::Reject(command) => command.run(ApprovalDecision::Reject, output),
            WorkCommand::Recover(command) => command.run(output),
            WorkCommand::Clean(command) => command.run(output),
            WorkCommand::Plan(command) => command.run(output),
            WorkCommand::Verify(command) => command.run(output),
            WorkCommand::Key(command) => command.run(output),
            WorkCommand::ReportPending(command) => command.run(output),
            WorkCommand::Replay(command) => command.run(output),
            WorkCommand::Export(command) => command.run(output),
        }
    }
}
