//! From the Builder to work (R32): tasks that a Builder planned become work items, their runs are bound to the robot, and
//! the policy decides about `work.run` before anything starts.

use crealeph_contracts::WorkItem;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ExecutionId, ItemId, LedgerId, Literal, Name, RobotId, TenantId};
use crealeph_contracts::work_item::AgentId;
use crealeph_decision::snapshot::{Derivation, Snapshot};
use crealeph_decision::work::{BuilderTask, NotAllowed, TaskError, items_of_tasks, may_run};
use crealeph_ledger::{Filter, Ledger, LedgerError, Order};

use super::engine::Work;
use super::error::WorkError;
use super::receipt::NO_ROBOT;
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
    /// A task cannot be a work item.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// The tasks of an execution as work items, oldest first. A draft is not one: it waits for its review.
///
/// # Errors
/// When there are no tasks, or one cannot be an item.
pub fn from_tasks(
    ledger: &Ledger,
    tenant: &TenantId,
    execution: &ExecutionId,
    agent: AgentId,
) -> Result<Vec<WorkItem>, TasksError> {
    let filter =
        Filter { execution_id: Some(execution.clone()), kind: Some(Name::from(TASK)), ..Filter::default() };
    let mut tasks: Vec<BuilderTask> = Vec::new();
    let mut cursor = None;
    loop {
        let page = ledger.list(tenant, &filter, Order::OldestFirst, cursor, ledger.limits().page_entries)?;
        for entry in page.entries.iter().filter(|entry| entry.content.state.as_str() != DRAFT) {
            // Anyone may append a task; only what the Builder's record names, or a person approved, is worked on.
            if is_made_by_builder(ledger, tenant, entry)? {
                let payload = JsonObject::parse_own(&entry.content.payload);
                let payload = payload.ok_or_else(|| TasksError::Unreadable(entry.id.clone()))?;
                tasks.push(BuilderTask { id: entry.id.clone(), payload });
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

/// The robot that the runs of these items are bound to, if any: the one that is named, or the one whose tasks they are. The policy
/// has allowed it.
pub(super) fn robot_of(
    work: &Work,
    items: &[WorkItem],
    named: Option<RobotId>,
    scopes: &Scopes,
) -> Result<Option<RobotId>, WorkError> {
    let mut robot = named;
    for item in items {
        let Some(TaskOrigin { robot: own, .. }) = origin(work, &item.id)? else { continue };
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
    let Some(robot) = robot else { return Ok(None) };
    let Settings { rules, coherence, .. } = scopes.of(&work.tenant, &robot);
    let read = work.ledger.facts_up_to(&work.tenant, &robot, None, coherence, Derivation::default())?;
    let (snapshot, now) = match read {
        Some((facts, position)) => (Snapshot::derive(facts, coherence), position.now),
        None => (None, work.ledger.now()),
    };
    may_run(&work.tenant, snapshot.as_ref(), rules, now.instant())
        .map_err(|NotAllowed(why)| WorkError::Policy { robot: robot.to_string(), why })?;
    Ok(Some(robot))
}

/// The task that an item came from.
#[derive(Clone, Debug)]
pub(super) struct TaskOrigin {
    pub(super) robot: RobotId,
    pub(super) task: LedgerId,
}

/// The robot that a receipt names, and the entries it is based on.
pub(super) fn bound_to(task: Option<&TaskOrigin>, robot: Option<&RobotId>) -> (RobotId, Vec<LedgerId>) {
    match task {
        Some(task) => (task.robot.clone(), vec![task.task.clone()]),
        None => (robot.cloned().unwrap_or_else(|| NO_ROBOT.into()), Vec::new()),
    }
}

/// The task that an item came from, if it is one. A run reads it before it starts, so that its receipt names the task even if the
/// ledger does not answer when it is written.
pub(super) fn origin(work: &Work, item: &ItemId) -> Result<Option<TaskOrigin>, WorkError> {
    let Ok(task) = LedgerId::parse(item.as_str()) else { return Ok(None) };
    let entry = work.ledger.get(&work.tenant, &task)?;
    let entry = entry.filter(|entry| entry.content.kind == Name::from(TASK));
    Ok(entry.map(|entry| TaskOrigin { robot: entry.content.robot_id, task }))
}
