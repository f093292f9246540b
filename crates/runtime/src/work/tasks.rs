//! Where the two worlds meet (R32): tasks that a Builder planned become work items, their runs are bound to the robot, and
//! the policy decides about `work.run` before anything starts.

use crealeph_contracts::WorkItem;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ExecutionId, ItemId, LedgerId, Literal, Name, RobotId, TenantId};
use crealeph_contracts::work_item::AgentId;
use crealeph_decision::snapshot::{Derivation, Snapshot};
use crealeph_decision::work::{NotAllowed, Task, TaskError, items_of_tasks, may_run};
use crealeph_ledger::{Filter, Ledger, LedgerError, Order};

use super::engine::{Work, WorkError};
use crate::builder::{BuildError, Scopes, Settings, is_made_by_builder};

const TASK: Literal = Literal::new("task");
const DRAFT: &str = "draft";
/// How many tasks of an execution can become work items.
const MAX_TASKS: usize = 10_000;

/// Why an execution gives no work items.
#[derive(Debug, thiserror::Error)]
pub enum TasksError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// It made no task that may be worked on.
    #[error(
        "execution `{0}` made no task that is more than a draft; approve drafts with `crealeph review`, or check the id and --tenant"
    )]
    None(ExecutionId),
    /// It made more than can be worked on.
    #[error(
        "execution `{0}` made more than {MAX_TASKS} tasks; give the ones to work on to `crealeph work run` as work items"
    )]
    TooMany(ExecutionId),
    /// The records of the execution cannot be read.
    #[error(transparent)]
    Records(#[from] BuildError),
    /// A task has no payload that can be read.
    #[error("the payload of task `{0}` cannot be read; run `crealeph ledger verify`")]
    Unreadable(LedgerId),
    /// A task is no work item.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// The tasks of an execution as work items, oldest first. A draft is none: it waits for its review.
///
/// # Errors
/// When there is none, or one cannot be an item.
pub fn from_tasks(
    ledger: &Ledger,
    tenant: &TenantId,
    execution: &ExecutionId,
    agent: AgentId,
) -> Result<Vec<WorkItem>, TasksError> {
    let filter =
        Filter { execution_id: Some(execution.clone()), kind: Some(Name::from(TASK)), ..Filter::default() };
    let mut tasks: Vec<Task> = Vec::new();
    let mut cursor = None;
    loop {
        let page = ledger.list(tenant, &filter, Order::OldestFirst, cursor, ledger.limits().page_entries)?;
        for entry in page.entries.iter().filter(|entry| entry.content.state.as_str() != DRAFT) {
            // Anyone may append a task; only what the Builder's record names, or a person approved, is worked on.
            if is_made_by_builder(ledger, tenant, entry)? {
                let payload = JsonObject::parse_own(&entry.content.payload);
                let payload = payload.ok_or_else(|| TasksError::Unreadable(entry.id.clone()))?;
                tasks.push(Task { id: entry.id.clone(), payload });
            }
        }
        if tasks.len() > MAX_TASKS {
            return Err(TasksError::TooMany(execution.clone()));
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    match tasks.is_empty() {
        true => Err(TasksError::None(execution.clone())),
        false => Ok(items_of_tasks(&tasks, agent)?),
    }
}

impl Work {
    /// Binds the runs of these items to a robot: the one that is named, or the one whose tasks they are; and asks the
    /// policy. Items that come from nowhere need no evidence.
    ///
    /// # Errors
    /// When the items belong to several robots, or the policy does not allow it.
    pub fn bind(
        &mut self,
        items: &[WorkItem],
        named: Option<RobotId>,
        scopes: &Scopes,
    ) -> Result<(), WorkError> {
        let mut robot = named;
        for item in items {
            let Some((own, _)) = self.origin(&item.id)? else { continue };
            match &robot {
                Some(robot) if *robot != own => {
                    return Err(WorkError::Robots {
                        item: item.id.to_string(),
                        own: own.to_string(),
                        robot: robot.to_string(),
                    });
                }
                _ => robot = Some(own),
            }
        }
        let Some(robot) = robot else { return Ok(()) };
        let Settings { rules, coherence, .. } = scopes.of(&self.tenant, &robot);
        let read = self.ledger.facts_up_to(&self.tenant, &robot, None, coherence, Derivation::default())?;
        let (snapshot, now) = match read {
            Some((facts, position)) => (Snapshot::derive(facts, coherence), position.now),
            None => (None, self.ledger.now()),
        };
        may_run(&self.tenant, snapshot.as_ref(), rules, now.instant())
            .map_err(|NotAllowed(why)| WorkError::Policy { robot: robot.to_string(), why })?;
        self.robot = Some(robot);
        Ok(())
    }

    /// The task that an item came from, and its robot.
    pub(super) fn origin(&self, item: &ItemId) -> Result<Option<(RobotId, LedgerId)>, WorkError> {
        let Ok(id) = LedgerId::parse(item.as_str()) else { return Ok(None) };
        let entry = self.ledger.get(&self.tenant, &id)?;
        let task = entry.filter(|entry| entry.content.kind == Name::from(TASK));
        Ok(task.map(|entry| (entry.content.robot_id, id)))
    }
}
