//! Subscriptions: where a tenant's entries are sent, the last entry that was sent, and the secret that signs them. They are stored next to
//! the log, never in it: they change, they are not exported, and those who read entries must not read the secret. The notes are
//! the subscriber's own, and nothing here reads them.

use std::fmt;

use crealeph_contracts::scalar::{Name, TenantId};

use crate::error::LedgerError;
use crate::lease::{self, Lease, LeaseAnswer, LeaseChange, LeaseToken};
use crate::ledger::Ledger;
use crate::position::Seq;
use crate::store::Transaction;

/// A subscription.
#[derive(Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its id.
    pub id: Name,
    /// The secret that signs for it.
    pub secret: String,
    /// The last entry that was sent, or that is not for it.
    pub position: Seq,
    /// The state that its owner needs.
    pub notes: String,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription {} at {}", self.id, self.position)
    }
}

/// What the writing thread does with a subscription.
#[derive(Clone, Debug)]
pub(crate) enum SubscriptionChange {
    /// Unless the tenant already has this many.
    Add(Subscription, usize),
    Move(SubscriptionProgress),
    Remove(Name),
}

/// Advances a subscription, under a lease.
#[derive(Clone, Debug)]
pub(crate) struct SubscriptionProgress {
    pub id: Name,
    pub position: Seq,
    pub notes: String,
    pub lease: (Name, LeaseToken),
}

impl Ledger {
    /// Adds a subscription, durably.
    ///
    /// # Errors
    /// [`LedgerError::Beyond`] if the tenant already has `most` of them.
    pub fn add_subscription(
        &self,
        tenant: &TenantId,
        subscription: Subscription,
        most: usize,
    ) -> Result<(), LedgerError> {
        self.change_subscription(tenant, SubscriptionChange::Add(subscription, most))
    }

    /// Advances a subscription, if the lease is still held. It never goes back. After a power failure it may be
    /// found where it was before.
    ///
    /// # Errors
    /// [`LedgerError::LeaseLost`] if another process has taken the lease.
    pub fn move_subscription(
        &self,
        lease: &Lease,
        id: &Name,
        position: Seq,
        notes: String,
    ) -> Result<(), LedgerError> {
        let held = (lease.name().clone(), lease.token());
        let progress = SubscriptionProgress { id: id.clone(), position, notes, lease: held };
        self.change_subscription(lease.tenant_id(), SubscriptionChange::Move(progress))
    }

    /// Removes a subscription with its secret; it is no error if there is none.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn remove_subscription(&self, tenant: &TenantId, id: &Name) -> Result<(), LedgerError> {
        self.change_subscription(tenant, SubscriptionChange::Remove(id.clone()))
    }

    fn change_subscription(&self, tenant: &TenantId, change: SubscriptionChange) -> Result<(), LedgerError> {
        self.change_lease(tenant, LeaseChange::Subscription(change)).map(|_| ())
    }

    /// The subscriptions of a tenant, by id.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn subscriptions(&self, tenant: &TenantId) -> Result<Vec<Subscription>, LedgerError> {
        let mut found = Vec::new();
        self.inner().backend.read(Some(tenant), &mut |reads| {
            reads.check_schema()?;
            found = reads.subscriptions(tenant)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// The tenants that have a subscription, of those that the login may use.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn subscribed_tenants(&self) -> Result<Vec<TenantId>, LedgerError> {
        let mut found = Vec::new();
        self.inner().backend.read(None, &mut |reads| {
            reads.check_schema()?;
            found = reads.subscribed_tenants()?;
            Ok(())
        })?;
        Ok(found)
    }
}

/// Changes a subscription. The inner error is the caller's own; the outer one ends the transaction.
pub(crate) fn apply(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    change: &SubscriptionChange,
) -> Result<Result<LeaseAnswer, LedgerError>, LedgerError> {
    match change {
        SubscriptionChange::Add(subscription, most) => {
            // Two that are added at the same time take turns on the lock of the log, so that both count.
            transaction.locked_head(tenant)?;
            let found = transaction.count_subscriptions(tenant)?;
            if found >= *most {
                let what = "the tenant's number of subscriptions";
                return Ok(Err(LedgerError::Beyond { what, found: found + 1, limit: *most }));
            }
            transaction.add_subscription(tenant, subscription)?;
        }
        SubscriptionChange::Move(progress) => {
            let (name, token) = &progress.lease;
            let row = transaction.lease(tenant, name)?;
            if let Err(lost) = lease::current(row, name, *token) {
                return Ok(Err(lost));
            }
            transaction.move_subscription(tenant, progress)?;
        }
        SubscriptionChange::Remove(id) => transaction.remove_subscription(tenant, id)?,
    }
    Ok(Ok(LeaseAnswer::Done))
}
