//! Whether the ledger has only one tenant, so that no one has to name the one they sign in to. Anyone may ask, so the ledger is
//! queried every ten seconds at most; one that does not let this server list its tenants counts as having several.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::Ledger;
use tracing::debug;

const ASKED_EVERY: Duration = Duration::from_secs(10);

/// The only tenant, as of a moment ago.
#[derive(Debug, Default)]
pub(crate) struct OnlyTenant(Mutex<Option<(Instant, Option<TenantId>)>>);

impl OnlyTenant {
    /// The tenant, if there is no other.
    pub(crate) fn get(&self, ledger: &Ledger) -> Option<TenantId> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tenant)) = known.as_ref().filter(|(at, _)| at.elapsed() < ASKED_EVERY) {
            return tenant.clone();
        }
        let tenant = match ledger.tenants() {
            Ok(logs) => match <[_; 1]>::try_from(logs) {
                Ok([only]) => Some(only.tenant_id),
                Err(_) => None,
            },
            Err(error) => {
                debug!(%error, "the tenants cannot be listed; sign-in asks for the tenant");
                None
            }
        };
        *known = Some((Instant::now(), tenant.clone()));
        tenant
    }
}
