//! `crealeph work from-tasks`: what a Builder planned, as work items.

use clap::Args;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::work_item::AgentId;
use crealeph_runtime::work::from_tasks;

use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::commands::ids::execution_id;
use crate::commands::place::LogSource;
use crate::failure::{ArgumentFailure, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph work from-tasks 0190a6f0-7c2e > items.json
  crealeph work from-tasks @ | crealeph work run -

Each item keeps the id of its task's ledger entry, so the receipt of its run names where it came from, and the run is bound
to the task's robot: the policy decides `work.run` before anything starts.

Exit codes: 0 printed, 1 there is no task, or one cannot be a work item, 2 cannot be done.";

/// Print the tasks planned by a Builder run as work items
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct FromTasks {
    /// Execution id or its start, or `@` for the newest
    execution: String,

    /// agent_id for tasks without one
    #[arg(long, value_name = "AGENT", default_value = "agent-1")]
    agent_id: String,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl FromTasks {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let settled = self.workspace.settle()?;
        let ledger = settled.open()?;
        let (execution, _) = execution_id(&LogSource::of(&ledger, &settled.tenant), None, &self.execution)?;
        let agent = AgentId::parse(&self.agent_id)
            .ok_or_else(|| ArgumentFailure::option(&self.agent_id, "an agent_id, `agent-0` to `agent-9`"))?;
        let items = from_tasks(&ledger, &settled.tenant, &execution, agent)?;
        let items: Vec<String> = items.iter().map(to_json).collect();
        output.json(&format!("[{}]", items.join(",")))?;
        Ok(CommandOutcome::Good)
    }
}
