//! What was written lately, as lineages need it. An entry never changes, so whoever rests on one that is still at hand
//! need not look it up, as long as the log is the one that was written. Only what was committed comes in.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crealeph_contracts::scalar::{ClientKey, LedgerId, TenantId};

use crate::store::{Known, Needs, Row, Step};

/// How many entries are at hand.
const MAX_ENTRIES: usize = 4_096;
/// An entry that rests on more than this is not kept at hand.
const MAX_LINEAGE: usize = 16;

/// The entries at hand, of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    logs: HashMap<TenantId, Log>,
    /// Oldest first.
    order: VecDeque<(TenantId, LedgerId, Option<ClientKey>)>,
}

#[derive(Debug, Default)]
struct Log {
    ids: HashMap<LedgerId, Arc<Step>>,
    keys: HashMap<ClientKey, Arc<Step>>,
}

/// An entry that will be at hand once it is committed.
#[derive(Debug)]
pub(crate) struct Written {
    step: Step,
    key: Option<ClientKey>,
}

impl Written {
    pub(crate) fn of(Row { stored, reach, used, .. }: &Row) -> Option<Written> {
        let content = &stored.content;
        if content.depends_on.len() > MAX_LINEAGE {
            return None;
        }
        let step = Step {
            seq: stored.seq,
            id: stored.id.clone(),
            robot_id: content.robot_id.clone(),
            kind: content.kind.as_str().to_owned(),
            created_at: stored.created_at,
            effective_at: stored.effective().at,
            depends_on: content.depends_on.clone(),
            reach: reach.clone(),
            used: used.clone(),
        };
        Some(Written { step, key: content.key.clone() })
    }
}

impl Recent {
    /// Takes in what was committed.
    pub(crate) fn add(&mut self, tenant: &TenantId, written: Vec<Written>) {
        let log = self.logs.entry(tenant.clone()).or_default();
        for Written { step, key } in written {
            self.order.push_back((tenant.clone(), step.id.clone(), key.clone()));
            let step = Arc::new(step);
            if let Some(key) = key {
                log.keys.insert(key, Arc::clone(&step));
            }
            log.ids.insert(step.id.clone(), step);
        }
        while self.order.len() > MAX_ENTRIES {
            self.forget_oldest();
        }
    }

    /// Lets go of a tenant's entries.
    pub(crate) fn forget(&mut self, tenant: &TenantId) {
        if self.logs.remove(tenant).is_some() {
            self.order.retain(|(other, ..)| other != tenant);
        }
    }

    fn forget_oldest(&mut self) {
        let Some((tenant, id, key)) = self.order.pop_front() else { return };
        let Some(log) = self.logs.get_mut(&tenant) else { return };
        log.ids.remove(&id);
        if let Some(key) = key {
            log.keys.remove(&key);
        }
        if log.ids.is_empty() {
            self.logs.remove(&tenant);
        }
    }

    /// What is at hand of what is needed, which need not be looked up then. The key of an entry to write is: where it is
    /// taken, the whole entry is compared.
    pub(crate) fn take(&self, tenant: &TenantId, needs: &mut Needs) -> Known {
        let mut known = Known::default();
        let Some(log) = self.logs.get(tenant) else { return known };
        needs.ids.retain(|id| match log.ids.get(id.as_str()) {
            Some(step) => {
                known.steps.insert(id.clone(), Step::clone(step));
                false
            }
            None => true,
        });
        needs.key_steps.retain(|key| match log.keys.get(key.as_str()) {
            Some(step) => {
                known.key_steps.insert(key.clone(), Step::clone(step));
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
    use crate::reach::{Reach, Used};

    fn written(number: u64) -> Written {
        let step = Step {
            seq: Seq::new(number).unwrap(),
            id: LedgerId::parse(&format!("entry-{number}")).unwrap(),
            robot_id: RobotId::parse("robot").unwrap(),
            kind: "signal".to_owned(),
            created_at: Millis::new(0),
            effective_at: Millis::new(0).instant(),
            depends_on: Vec::new(),
            reach: Reach::default(),
            used: Used::default(),
        };
        Written { step, key: Some(ClientKey::parse(&format!("key-{number}")).unwrap()) }
    }

    fn needs(id: u64, key: u64) -> Needs {
        let mut needs = Needs::default();
        needs.ids.insert(format!("entry-{id}"));
        needs.key_steps.insert(format!("key-{key}"));
        needs
    }

    #[test]
    fn the_newest_are_at_hand_of_their_own_tenant_alone() {
        let (a, b) = (TenantId::parse("a").unwrap(), TenantId::parse("b").unwrap());
        let mut recent = Recent::default();
        recent.add(&b, vec![written(1)]);
        recent.add(&a, (1..=MAX_ENTRIES as u64).map(written).collect());
        let mut asked = needs(1, 2);
        let known = recent.take(&a, &mut asked);
        assert_eq!((known.steps["entry-1"].seq.get(), known.key_steps["key-2"].seq.get()), (1, 2));
        assert!(asked.ids.is_empty() && asked.key_steps.is_empty(), "nothing is left to look up");
        let mut asked = needs(1, 1);
        assert!(recent.take(&b, &mut asked).steps.is_empty(), "the oldest went");
        assert!(asked.ids.len() == 1 && asked.key_steps.len() == 1);
        assert_eq!((recent.order.len(), recent.logs.len()), (MAX_ENTRIES, 1));
        recent.forget(&a);
        assert_eq!((recent.order.len(), recent.logs.len()), (0, 0));
    }
}
