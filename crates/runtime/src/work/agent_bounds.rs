//! The limits in an agent's own table, `[work.agents.NAME.bounds]`: they are the defaults of a task on the command line, and cap an
//! item that comes from a file, which keeps the contract's defaults (R25).

use crealeph_contracts::WorkItem;
use crealeph_contracts::scalar::{Count, TimeoutMs};
use crealeph_contracts::work_item::Constraints;

use crate::configuration::{Configuration, Table, Wrong};

/// The largest number that every document can hold.
const MAX_COUNT: u64 = (1 << 53) - 1;
const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// An agent's own bounds; those that are absent neither fill nor cap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgentBounds {
    max_files: Option<Count>,
    max_tool_ops: Option<Count>,
    max_delta_size: Option<Count>,
    timeout_ms: Option<TimeoutMs>,
}

/// The bounds that each agent of a configuration sets, by its name, for help. Nothing that the configuration points to is read, and an
/// agent whose bounds are wrong is left out: a run says what is wrong with them.
pub fn configured_bounds(configuration: &Configuration) -> Vec<(String, Constraints)> {
    let work = configuration.section("work").ok().flatten();
    let agents = work.and_then(|work| work.get("agents")?.as_table()).into_iter().flatten();
    let bounds = agents.filter_map(|(name, agent)| {
        let bounds = AgentBounds::read(Table::new(agent.get("bounds")?.as_table()?)).ok()?;
        Some((name.clone(), bounds.as_constraints()))
    });
    bounds.collect()
}

impl AgentBounds {
    pub(super) fn read(table: Table<'_>) -> Result<Self, Wrong> {
        let number = |key: &'static str, least: u64, most: u64| match table.has(key) {
            true => table.number(key, least, least, most).map(Some),
            false => Ok(None),
        };
        let bounds = AgentBounds {
            max_files: number("max_files", 0, MAX_COUNT)?.and_then(Count::new),
            max_tool_ops: number("max_tool_ops", 0, MAX_COUNT)?.and_then(Count::new),
            max_delta_size: number("max_delta_size", 0, MAX_COUNT)?.and_then(Count::new),
            timeout_ms: number("timeout_ms", 1, WEEK_MS)?.and_then(TimeoutMs::new),
        };
        table.finish()?;
        Ok(bounds)
    }

    /// What fills the bounds that a task leaves open.
    pub(super) fn as_constraints(&self) -> Constraints {
        let AgentBounds { max_files, max_tool_ops, max_delta_size, timeout_ms } = *self;
        Constraints { max_files, max_tool_ops, max_delta_size, timeout_ms }
    }

    /// An item with the bounds that are in force for it: its own, and no more than these.
    pub(super) fn cap(&self, item: &WorkItem) -> WorkItem {
        let (own, mut capped) = (item.bounds(), item.clone());
        let lower = |cap: Option<Count>, own: u64| cap.filter(|cap| cap.get() < own);
        let caps = Constraints {
            max_files: lower(self.max_files, own.max_files),
            max_tool_ops: lower(self.max_tool_ops, own.max_tool_ops),
            max_delta_size: lower(self.max_delta_size, own.max_delta_size),
            timeout_ms: self.timeout_ms.filter(|cap| cap.get() < own.timeout_ms),
        };
        let said = capped.constraints.take();
        capped.constraints = match (said, caps == AgentBounds::default().as_constraints()) {
            (said, true) => said,
            (None, false) => Some(caps),
            (Some(said), false) => Some(Constraints {
                max_files: caps.max_files.or(said.max_files),
                max_tool_ops: caps.max_tool_ops.or(said.max_tool_ops),
                max_delta_size: caps.max_delta_size.or(said.max_delta_size),
                timeout_ms: caps.timeout_ms.or(said.timeout_ms),
            }),
        };
        capped
    }
}
