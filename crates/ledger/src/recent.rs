//! A cache of the entries that were written recently, as lineages need them. An entry never changes, so one that is still
//! cached need not be looked up, as long as the log is the one that was written. Only committed entries are cached.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crealeph_contracts::scalar::{ClientKey, LedgerId, TenantId};

use crate::row::LineageNode;
use crate::store::{KnownEntries, NeededEntries};

/// How many entries are cached.
const MAX_ENTRIES: usize = 4_096;
/// An entry that depends on more than this is not cached.
const MAX_LINEAGE: usize = 16;

/// The cached entries of all tenants.
#[derive(Debug, Default)]
pub(crate) struct RecentEntries {
    logs: HashMap<TenantId, RecentLog>,
    /// Oldest first.
    order: VecDeque<(TenantId, Arc<LineageNode>)>,
}

#[derive(Debug, Default)]
struct RecentLog {
    ids: HashMap<LedgerId, Arc<LineageNode>>,
    keys: HashMap<ClientKey, Arc<LineageNode>>,
}

impl RecentEntries {
    /// Adds committed entries.
    pub(crate) fn add(&mut self, tenant: &TenantId, written: Vec<Arc<LineageNode>>) {
        let log = self.logs.entry(tenant.clone()).or_default();
        for node in written.into_iter().filter(|node| node.depends_on.len() <= MAX_LINEAGE) {
            if let Some(key) = &node.key {
                log.keys.insert(key.clone(), Arc::clone(&node));
            }
            log.ids.insert(node.id.clone(), Arc::clone(&node));
            self.order.push_back((tenant.clone(), node));
        }
        while self.order.len() > MAX_ENTRIES {
            self.forget_oldest();
        }
    }

    /// Drops a tenant's entries.
    pub(crate) fn forget(&mut self, tenant: &TenantId) {
        if self.logs.remove(tenant).is_some() {
            self.order.retain(|(other, _)| other != tenant);
        }
    }

    fn forget_oldest(&mut self) {
        let Some((tenant, node)) = self.order.pop_front() else { return };
        let Some(log) = self.logs.get_mut(&tenant) else { return };
        log.ids.remove(&node.id);
        if let Some(key) = &node.key {
            log.keys.remove(key);
        }
        if log.ids.is_empty() {
            self.logs.remove(&tenant);
        }
    }

    /// The cached entries of those needed, which need not be looked up then. The key of an entry to write always is: if it
    /// is taken, the whole entry is compared.
    pub(crate) fn take(&self, tenant: &TenantId, needs: &mut NeededEntries) -> KnownEntries {
        let mut known = KnownEntries::default();
        let Some(log) = self.logs.get(tenant) else { return known };
        needs.ids.retain(|id| match log.ids.get(id.as_str()) {
            Some(node) => {
                known.by_id.insert(id.clone(), Arc::clone(node));
                false
            }
            None => true,
        });
        needs.lineage_keys.retain(|key| match log.keys.get(key.as_str()) {
            Some(node) => {
                known.by_key.insert(key.clone(), Arc::clone(node));
                false
            }
            None => true,
        });
        known
    }
}

#[cfg(test)]
mod tests {
    use crealeph_contracts::scalar::RobotId;

    use super::*;
    use crate::position::{Millis, Seq};
    use crate::reach::{EffectiveReach, LineageReach};

    fn written(number: u64) -> Arc<LineageNode> {
        Arc::new(LineageNode {
            seq: Seq::new(number).unwrap(),
            id: LedgerId::parse(&format!("entry-{number}")).unwrap(),
            robot_id: RobotId::parse("robot").unwrap(),
            kind: "signal".to_owned(),
            state: "final".to_owned(),
            key: Some(ClientKey::parse(&format!("key-{number}")).unwrap()),
            created_at: Millis::new(0),
            effective_at: Millis::new(0).instant(),
            depends_on: Vec::new(),
            reach: LineageReach::default(),
            used: EffectiveReach::default(),
        })
    }

    fn needs(id: u64, key: u64) -> NeededEntries {
        let mut needs = NeededEntries::default();
        needs.ids.insert(format!("entry-{id}"));
        needs.lineage_keys.insert(format!("key-{key}"));
        needs
    }

    #[test]
    fn the_newest_entries_of_a_tenant_are_cached_for_it_alone() {
        let (a, b) = (TenantId::parse("a").unwrap(), TenantId::parse("b").unwrap());
        let mut recent = RecentEntries::default();
        recent.add(&b, vec![written(1)]);
        recent.add(&a, (1..=MAX_ENTRIES as u64).map(written).collect());
        let mut asked = needs(1, 2);
        let known = recent.take(&a, &mut asked);
        assert_eq!((known.by_id["entry-1"].seq.get(), known.by_key["key-2"].seq.get()), (1, 2));
        assert!(asked.ids.is_empty() && asked.lineage_keys.is_empty(), "nothing is left to look up");
        let mut asked = needs(1, 1);
        assert!(recent.take(&b, &mut asked).by_id.is_empty(), "the oldest went");
        assert!(asked.ids.len() == 1 && asked.lineage_keys.len() == 1);
        assert_eq!((recent.order.len(), recent.logs.len()), (MAX_ENTRIES, 1));
        recent.forget(&a);
        assert_eq!((recent.order.len(), recent.logs.len()), (0, 0));
    }
}
