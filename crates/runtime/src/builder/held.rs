//! Only one process at a time works on an execution, across processes and machines: it holds a lease of the ledger, renewed
//! while the agent runs and released however the run ends. The lease of a process that dies expires.

use std::time::Duration;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{Name, TenantId};
use crealeph_decision::builder::Asked;
use crealeph_ledger::{
    AppendError, AppendResult, Heartbeat, Lease, LeaseClaim, Ledger, LedgerError, NewId, RequestName, Seq,
};
use crealeph_sandbox::Cancel;

use super::BuildError;

/// How often someone who waits looks whether to stop waiting.
const LOOK: Duration = Duration::from_millis(100);

/// An execution that is ours to work on, until this is dropped.
#[derive(Debug)]
pub(super) struct HeldExecution {
    ledger: Ledger,
    lease: Lease,
    is_given_back: bool,
    heartbeat: Option<Heartbeat>,
}

impl HeldExecution {
    /// Takes the execution as it was looked up at a place of the log; `None` if something was recorded of it since, or
    /// someone else had it, and has it no longer: look again at what is recorded.
    pub(super) fn take(
        ledger: &Ledger,
        asked: &Asked,
        looked_at: Seq,
        ttl: Duration,
        cancel: &Cancel,
    ) -> Result<Option<HeldExecution>, BuildError> {
        let name = asked.lease_name()?;
        let overtaken = (&asked.execution_id, looked_at);
        match ledger.take_lease_unless(&asked.tenant_id, &name, &holder()?, ttl, overtaken)? {
            None => Ok(None),
            Some(LeaseClaim::Taken(lease)) => HeldExecution::kept(ledger, lease).map(Some),
            Some(LeaseClaim::Held(_)) => {
                wait(ledger, asked, &name, cancel)?;
                Ok(None)
            }
        }
    }

    /// Takes the execution if no one has it.
    pub(super) fn take_now(
        ledger: &Ledger,
        asked: &Asked,
        ttl: Duration,
    ) -> Result<Option<HeldExecution>, BuildError> {
        match ledger.take_lease(&asked.tenant_id, &asked.lease_name()?, &holder()?, ttl)? {
            LeaseClaim::Taken(lease) => HeldExecution::kept(ledger, lease).map(Some),
            LeaseClaim::Held(_) => Ok(None),
        }
    }

    fn kept(ledger: &Ledger, lease: Lease) -> Result<HeldExecution, BuildError> {
        let mut held = HeldExecution { ledger: ledger.clone(), lease, is_given_back: false, heartbeat: None };
        held.heartbeat = Some(ledger.keep_lease(&held.lease)?);
        Ok(held)
    }

    /// Writes all of it or nothing, and only while it is ours; the transaction that writes gives it back, and removes the
    /// request if that was accepted.
    pub(super) fn append(
        mut self,
        ledger: &Ledger,
        tenant: &TenantId,
        request: &RequestName,
        batch: Vec<(Option<NewId>, Draft)>,
    ) -> AppendResult {
        let outcome = ledger.append_outcome(tenant, request, Some(&self.lease), batch);
        self.is_given_back =
            matches!(outcome, Ok(_) | Err(AppendError::Ledger(LedgerError::LeaseLost { .. })));
        outcome
    }
}

impl Drop for HeldExecution {
    fn drop(&mut self) {
        drop(self.heartbeat.take());
        if !self.is_given_back {
            // If this fails, it expires soon.
            let _ = self.ledger.release_lease(&self.lease);
        }
    }
}

fn holder() -> Result<Name, BuildError> {
    Ok(Name::parse(&format!("process {}", std::process::id()))?)
}

fn wait(ledger: &Ledger, asked: &Asked, name: &Name, cancel: &Cancel) -> Result<(), BuildError> {
    // Watched before it is asked again: what is given back in between is not missed.
    let mut watch = ledger.watch(&asked.tenant_id);
    while let Some(holder) = ledger.lease_holder(&asked.tenant_id, name)? {
        if cancel.is_cancelled() {
            return Err(BuildError::Cancelled);
        }
        watch.wait(holder.remaining.min(LOOK));
    }
    Ok(())
}
