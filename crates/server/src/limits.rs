//! What one key may use at a time: requests in flight, and requests in a second (a bucket of tokens, refilled steadily).
//! Only authenticated keys are counted, so the table is bounded by the number of keys; idle ones are dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crealeph_contracts::scalar::{KeyId, TenantId};

use crate::problem::{Problem, ProblemKind};
use crate::settings::ServerBounds;

/// How many keys are counted before those at rest are dropped.
const SWEEP_AT: usize = 4_096;

type KeyName = (TenantId, KeyId);

/// The use of all keys.
#[derive(Debug, Default)]
pub(crate) struct KeyUses(Mutex<HashMap<KeyName, KeyUse>>);

#[derive(Debug)]
struct KeyUse {
    in_flight: u64,
    tokens: f64,
    filled_at: Instant,
}

/// A request that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedRequest {
    uses: Arc<KeyUses>,
    name: KeyName,
}

impl KeyUses {
    /// Counts a request of a key, or says which bound it hits.
    pub(crate) fn count(
        self: &Arc<Self>,
        name: KeyName,
        bounds: &ServerBounds,
        now: Instant,
    ) -> Result<CountedRequest, Problem> {
        let most = bounds.max_requests_per_second as f64;
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() >= SWEEP_AT {
            uses.retain(|_, one| one.in_flight > 0 || one.tokens_at(now, most) < most);
        }
        let fresh = || KeyUse { in_flight: 0, tokens: most, filled_at: now };
        let one = uses.entry(name.clone()).or_insert_with(fresh);
        one.tokens = one.tokens_at(now, most);
        one.filled_at = now;
        if one.in_flight >= bounds.max_requests_per_key {
            return Err(Problem::bound(
                ProblemKind::RateLimited,
                "max_requests_per_key",
                bounds.max_requests_per_key,
                "this key has reached its limit of requests in flight; wait for their answers",
            ));
        }
        if one.tokens < 1.0 {
            return Err(Problem::bound(
                ProblemKind::RateLimited,
                "max_requests_per_second",
                bounds.max_requests_per_second,
                "this key has reached its limit of requests per second; slow down",
            ));
        }
        one.tokens -= 1.0;
        one.in_flight += 1;
        Ok(CountedRequest { uses: Arc::clone(self), name })
    }
}

impl KeyUse {
    fn tokens_at(&self, now: Instant, most: f64) -> f64 {
        let seconds = now.saturating_duration_since(self.filled_at).as_secs_f64();
        (self.tokens + seconds * most).min(most)
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        let mut uses = self.uses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = uses.get_mut(&self.name) {
            one.in_flight = one.in_flight.saturating_sub(1);
        }
    }
}

/// How many exports each tenant has under way.
#[derive(Debug, Default)]
pub(crate) struct ExportUses(Mutex<HashMap<TenantId, u64>>);

/// An export that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedExport {
    uses: Arc<ExportUses>,
    tenant_id: TenantId,
}

impl ExportUses {
    /// Counts an export of a tenant, or says which bound it hits.
    pub(crate) fn count(self: &Arc<Self>, tenant: &TenantId, most: u64) -> Result<CountedExport, Problem> {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = uses.entry(tenant.clone()).or_default();
        if *count >= most {
            let detail = "the tenant has reached its limit of exports at a time; wait until one ends";
            return Err(Problem::bound(ProblemKind::RateLimited, "max_exports_per_tenant", most, detail));
        }
        *count += 1;
        Ok(CountedExport { uses: Arc::clone(self), tenant_id: tenant.clone() })
    }
}

impl Drop for CountedExport {
    fn drop(&mut self) {
        let mut uses = self.uses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = uses.get_mut(&self.tenant_id) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&self.tenant_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_is_bounded_and_another_is_not_affected() {
        let bounds =
            ServerBounds { max_requests_per_key: 2, max_requests_per_second: 3, ..Default::default() };
        let uses = Arc::new(KeyUses::default());
        let name = |key| (TenantId::parse("t").unwrap(), KeyId::parse(key).unwrap());
        let now = Instant::now();
        let first = uses.count(name("a"), &bounds, now).unwrap();
        let second = uses.count(name("a"), &bounds, now).unwrap();
        assert!(uses.count(name("a"), &bounds, now).is_err(), "two are in flight");
        drop(first);
        let third = uses.count(name("a"), &bounds, now).unwrap();
        drop((second, third));
        assert!(uses.count(name("a"), &bounds, now).is_err(), "three were sent");
        assert!(uses.count(name("b"), &bounds, now).is_ok());
        assert!(uses.count(name("a"), &bounds, now + Duration::from_secs(1)).is_ok());
    }
}
