//! Levels (R30): items whose dependencies have all succeeded earlier run in parallel. A cycle is an error that
//! names it; an unknown dependency blocks its item and the items that depend on it, until it is known to have succeeded.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::WorkItem;
use crealeph_contracts::scalar::ItemId;

/// An item as planning sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Its id.
    pub id: ItemId,
    /// What must succeed first.
    pub dependencies: Vec<ItemId>,
}

impl From<&WorkItem> for Dependent {
    fn from(item: &WorkItem) -> Self {
        Dependent { id: item.id.clone(), dependencies: item.dependencies.as_slice().to_vec() }
    }
}

/// The order of items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Level by level, each sorted by id.
    pub levels: Vec<Vec<ItemId>>,
    /// Blocked items, sorted by id.
    pub blocked: Vec<Blocked>,
}

/// An item that cannot run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The item.
    pub id: ItemId,
    /// What it waits for: unknown items, or items that are blocked themselves.
    pub waits_for: Vec<ItemId>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Dependencies that lead back to where they started; the first item is repeated at the end.
    #[error("the items depend on each other in a cycle: {}; remove one of these dependencies", joined(.0))]
    Cycle(Vec<ItemId>),
    /// Two items of one id.
    #[error("two items have the id `{0}`; give each item its own id")]
    DuplicateId(ItemId),
}

fn joined(ids: &[ItemId]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(" → ")
}

/// Plans the items; `succeeded` says whether an item that is not among them has succeeded before.
pub fn plan(items: &[Dependent], succeeded: impl Fn(&ItemId) -> bool) -> Result<Plan, PlanError> {
    let mut by_id: BTreeMap<&ItemId, &Dependent> = BTreeMap::new();
    for item in items {
        if by_id.insert(&item.id, item).is_some() {
            return Err(PlanError::DuplicateId(item.id.clone()));
        }
    }
    let levels = levels(&by_id)?;
    let mut plan = Plan::default();
    let mut held: BTreeSet<&ItemId> = BTreeSet::new();
    for level in levels {
        let mut ready = Vec::new();
        for id in level {
            let Some(item) = by_id.get(id) else { continue };
            let is_in_the_way = |dependency: &&ItemId| match by_id.contains_key(dependency) {
                true => held.contains(dependency),
                false => !succeeded(dependency),
            };
            let waits_for: BTreeSet<&ItemId> = item.dependencies.iter().filter(is_in_the_way).collect();
            if waits_for.is_empty() {
                ready.push(id.clone());
            } else {
                let waits_for = waits_for.into_iter().cloned().collect();
                plan.blocked.push(Blocked { id: id.clone(), waits_for });
                held.insert(id);
            }
        }
        if !ready.is_empty() {
            plan.levels.push(ready);
        }
    }
    plan.blocked.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(plan)
}

/// Every item on the level after its last dependency among the items, each level sorted.
fn levels<'a>(by_id: &BTreeMap<&'a ItemId, &'a Dependent>) -> Result<Vec<Vec<&'a ItemId>>, PlanError> {
    let mut waiting: BTreeMap<&ItemId, usize> = BTreeMap::new();
    let mut dependents: BTreeMap<&ItemId, Vec<&ItemId>> = BTreeMap::new();
    for (&id, item) in by_id {
        let known: BTreeSet<&ItemId> =
            item.dependencies.iter().filter(|dependency| by_id.contains_key(dependency)).collect();
        waiting.insert(id, known.len());
        for dependency in known {
            dependents.entry(dependency).or_default().push(id);
        }
    }
    let mut levels = Vec::new();
    let mut ready: Vec<&ItemId> =
        waiting.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
    while !ready.is_empty() {
        let mut next = Vec::new();
        for id in &ready {
            waiting.remove(id);
            for dependent in dependents.get(id).into_iter().flatten() {
                if let Some(count) = waiting.get_mut(dependent) {
                    *count -= 1;
                    if *count == 0 {
                        next.push(*dependent);
                    }
                }
            }
        }
        next.sort_unstable();
        levels.push(std::mem::replace(&mut ready, next));
    }
    match waiting.first_key_value() {
        None => Ok(levels),
        Some((start, _)) => Err(PlanError::Cycle(cycle(start, by_id, &waiting))),
    }
}

/// Follows, from an item that can never become ready, its first dependency of the same kind until one comes again.
fn cycle(
    start: &ItemId,
    by_id: &BTreeMap<&ItemId, &Dependent>,
    never_ready: &BTreeMap<&ItemId, usize>,
) -> Vec<ItemId> {
    let mut path: Vec<ItemId> = vec![start.clone()];
    let mut positions: BTreeMap<ItemId, usize> = BTreeMap::from([(start.clone(), 0)]);
    while let Some(item) = path.last().and_then(|id| by_id.get(id)) {
        let next = item.dependencies.iter().filter(|dependency| never_ready.contains_key(dependency)).min();
        let Some(next) = next else { break };
        path.push(next.clone());
        if let Some(&first) = positions.get(next) {
            path.drain(..first);
            break;
        }
        positions.insert(next.clone(), path.len() - 1);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ItemId {
        ItemId::parse(name).unwrap()
    }

    /// `a: b c` lines: an item and what it depends on.
    fn items(text: &str) -> Vec<Dependent> {
        let item = |line: &str| {
            let (name, dependencies) = line.split_once(':').unwrap();
            Dependent { id: id(name.trim()), dependencies: dependencies.split_whitespace().map(id).collect() }
        };
        text.lines().filter(|line| !line.trim().is_empty()).map(item).collect()
    }

    fn shown(plan: &Plan) -> Vec<String> {
        plan.levels
            .iter()
            .map(|level| level.iter().map(ItemId::as_str).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn the_contracts_example() {
        let set = items("r: 4 5 1 2 3\n5: 3\n4: 1 2\n3:\n2:\n1:");
        assert_eq!(shown(&plan(&set, |_| false).unwrap()), ["1 2 3", "4 5", "r"]);
    }

    #[test]
    fn repeated_dependencies_count_once() {
        assert_eq!(shown(&plan(&items("b: a a\na:"), |_| false).unwrap()), ["a", "b"]);
    }

    #[test]
    fn a_cycle_is_named_without_what_leads_to_it() {
        let error = plan(&items("x: a\na: b\nb: c\nc: a\nz:"), |_| false).unwrap_err();
        assert_eq!(error, PlanError::Cycle([id("a"), id("b"), id("c"), id("a")].into()));
        assert!(error.to_string().contains("`a` → `b` → `c` → `a`"));
        assert_eq!(plan(&items("a: a"), |_| false), Err(PlanError::Cycle(vec![id("a"), id("a")])));
        let behind = plan(&items("a: m\nm: n\nn: m"), |_| false).unwrap_err();
        assert_eq!(behind, PlanError::Cycle([id("m"), id("n"), id("m")].into()));
    }

    #[test]
    fn an_unknown_dependency_blocks_until_it_has_succeeded() {
        let set = items("a: old\nb: a\nc:");
        let blocked = plan(&set, |_| false).unwrap();
        assert_eq!(shown(&blocked), ["c"]);
        assert_eq!(blocked.blocked[0], Blocked { id: id("a"), waits_for: vec![id("old")] });
        assert_eq!(blocked.blocked[1], Blocked { id: id("b"), waits_for: vec![id("a")] });
        assert_eq!(shown(&plan(&set, |item| item.as_str() == "old").unwrap()), ["a c", "b"]);
    }

    #[test]
    fn ids_must_differ_and_an_empty_plan_is_valid() {
        assert_eq!(plan(&items("a:\na:"), |_| false), Err(PlanError::DuplicateId(id("a"))));
        assert_eq!(plan(&[], |_| false), Ok(Plan::default()));
    }
}
