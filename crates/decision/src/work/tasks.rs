//! Tasks that a Builder planned, as work items (R32): each keeps the id of its ledger entry, so that the receipt of its run
//! can name its origin. Fields of a task's payload that are named like a work item's are used; the others are ignored.

use std::collections::BTreeMap;

use crealeph_contracts::json::{JsonObject, Limits, Node, NodeKind, ObjectWriter};
use crealeph_contracts::scalar::LedgerId;
use crealeph_contracts::violation::Violations;
use crealeph_contracts::work_item::AgentId;
use crealeph_contracts::{Valid, WorkItem};

/// The keys that may hold the description; the first one present is used.
const DESCRIPTIONS: [&str; 4] = ["description", "text", "title", "name"];

/// A task artifact.
#[derive(Clone, Debug)]
pub struct BuilderTask {
    /// Its entry.
    pub id: LedgerId,
    /// Its payload.
    pub payload: JsonObject,
}

/// A task that is not a valid work item.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("task `{id}` cannot become a work item: {violations}")]
pub struct TaskError {
    /// Its entry.
    pub id: LedgerId,
    /// What is wrong.
    pub violations: Violations,
}

/// Turns tasks into work items, in their order; `agent` is for those that name none. A dependency may name
/// another of the tasks by the `id` in its payload.
pub fn items_of_tasks(tasks: &[BuilderTask], agent: AgentId) -> Result<Vec<WorkItem>, TaskError> {
    let mut by_name: BTreeMap<String, &LedgerId> = BTreeMap::new();
    for task in tasks {
        if let Some(name) = task.payload.with(|root| text(root, "id")) {
            by_name.insert(name, &task.id);
        }
    }
    tasks.iter().map(|task| item(task, agent, &by_name)).collect()
}

fn item(
    task: &BuilderTask,
    agent: AgentId,
    by_name: &BTreeMap<String, &LedgerId>,
) -> Result<WorkItem, TaskError> {
    let document = task.payload.with(|root| {
        let mut out = String::new();
        let mut object = ObjectWriter::new(&mut out);
        object.text("id", task.id.as_str());
        object.text("agent_id", text(root, "agent_id").as_deref().unwrap_or(agent.as_str()));
        let description = DESCRIPTIONS.iter().find_map(|key| text(root, key));
        object.text("description", description.as_deref().unwrap_or(task.payload.as_str()));
        let names = root.member("dependencies").filter(|list| list.kind() == NodeKind::Array);
        let names = names.into_iter().flat_map(|list| list.elements().filter_map(|name| name.string()));
        let ids = names.map(|name| by_name.get(&*name).map_or(name.to_string(), |id| id.to_string()));
        object.texts("dependencies", ids);
        match root.member("budget").filter(|budget| budget.kind() == NodeKind::Object) {
            Some(budget) => object.raw("budget", budget.source()),
            None => object.raw("budget", r#"{"time_estimate_ms":0,"complexity":"medium"}"#),
        };
        for (key, kind) in [
            ("constraints", NodeKind::Object),
            ("input_files", NodeKind::Array),
            ("output_files", NodeKind::Array),
            ("test_command", NodeKind::Text),
        ] {
            if let Some(value) = root.member(key).filter(|value| value.kind() == kind) {
                // A Builder's own `constraints` are text, not limits.
                let is_bounds = kind != NodeKind::Object
                    || value.members().all(|(_, bound)| bound.kind() == NodeKind::Number);
                if is_bounds {
                    object.raw(key, value.source());
                }
            }
        }
        object.end();
        out
    });
    Valid::parse(document.as_bytes(), &Limits::default())
        .map(Valid::into_inner)
        .map_err(|violations| TaskError { id: task.id.clone(), violations })
}

fn text(root: Node<'_>, key: &str) -> Option<String> {
    let value = root.member(key)?.string()?.into_owned();
    (!value.trim().is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, payload: &str) -> BuilderTask {
        BuilderTask { id: LedgerId::parse(id).unwrap(), payload: JsonObject::parse(payload).unwrap() }
    }

    #[test]
    fn task_fields_named_like_work_item_fields_are_used() {
        let tasks = [
            task("e-1", r#"{"id":"first","title":"Do it","constraints":["x"],"owner":"ana"}"#),
            task(
                "e-2",
                r#"{"description":"Then that","agent_id":"agent-2","dependencies":["first","other"],"constraints":{"max_files":2},"output_files":["a"],"test_command":"make"}"#,
            ),
            task("e-3", r#"{"steps":["one"]}"#),
        ];
        let items = items_of_tasks(&tasks, AgentId::Agent1).unwrap();
        assert_eq!(
            (items[0].id.as_str(), &*items[0].description, items[0].agent_id),
            ("e-1", "Do it", AgentId::Agent1)
        );
        assert_eq!(items[1].agent_id, AgentId::Agent2);
        let dependencies: Vec<&str> = items[1].dependencies.as_slice().iter().map(|id| id.as_str()).collect();
        assert_eq!(dependencies, ["e-1", "other"]);
        assert_eq!((items[1].bounds().max_files, items[1].test_command.as_deref()), (2, Some("make")));
        assert_eq!(&*items[2].description, r#"{"steps":["one"]}"#);
    }

    #[test]
    fn a_task_that_is_not_a_valid_item_is_named() {
        let wrong = [task("e-1", r#"{"title":"x","output_files":["../out"]}"#)];
        let error = items_of_tasks(&wrong, AgentId::Agent1).unwrap_err();
        assert!(
            error.to_string().contains("`e-1`") && error.to_string().contains("leaves the workspace"),
            "{error}"
        );
    }
}
