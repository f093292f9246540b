//! Requests in flight in this process: identical ones are joined, others of the same execution wait. Conflicts with
//! other processes are resolved by the ledger, where one attempt has one record.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::{ExecutionId, RobotId, TenantId};
use crealeph_decision::builder::Asked;
use crealeph_sandbox::Cancel;

use super::{Answer, BuildError};

/// How often someone who waits looks whether to stop waiting.
const LOOK: Duration = Duration::from_millis(100);

type Identity = (TenantId, RobotId, ExecutionId);
type FlightOutcome = Result<Answer, BuildError>;

/// Every request in flight, by its execution.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<BTreeMap<Identity, Arc<Flight>>>);

/// One request in flight.
#[derive(Debug)]
pub(super) struct Flight {
    fingerprint: Blake3,
    attempt: u64,
    landing: Mutex<Landing>,
    landed: Condvar,
}

#[derive(Clone, Debug)]
enum Landing {
    Under,
    /// It ended with this, for all who joined.
    With(Box<FlightOutcome>),
    /// It ended without an answer that others could use: its sender cancelled it.
    Without,
}

/// What happens to a request that wants to run.
pub(super) enum Ticket {
    /// It runs; no one else of its execution does.
    Leads(Seat),
    /// The same request runs already.
    Joins(Arc<Flight>),
    /// Another request of its execution runs.
    Follows(Arc<Flight>),
}

/// Must be landed; dropped without it, those who joined may run themselves.
#[must_use]
pub(super) struct Seat {
    flights: Arc<Flights>,
    identity: Identity,
    flight: Arc<Flight>,
}

impl Flights {
    /// Joins, follows or leads.
    pub(super) fn board(self: &Arc<Self>, asked: &Asked, fingerprint: Blake3) -> Ticket {
        let robot = asked.request.robot_id.clone();
        let identity = (asked.tenant_id.clone(), robot, asked.execution_id.clone());
        let mut flights = locked(&self.0);
        if let Some(flight) = flights.get(&identity) {
            let is_same = flight.fingerprint == fingerprint && flight.attempt == asked.attempt();
            return if is_same { Ticket::Joins(flight.clone()) } else { Ticket::Follows(flight.clone()) };
        }
        let flight = Arc::new(Flight {
            fingerprint,
            attempt: asked.attempt(),
            landing: Mutex::new(Landing::Under),
            landed: Condvar::new(),
        });
        flights.insert(identity.clone(), flight.clone());
        Ticket::Leads(Seat { flights: self.clone(), identity, flight })
    }
}

impl Seat {
    /// Gives the outcome to every request that joined.
    pub(super) fn land(self, outcome: &FlightOutcome) {
        let landing = match outcome {
            Err(BuildError::Cancelled) => Landing::Without,
            outcome => Landing::With(Box::new(outcome.clone())),
        };
        *locked(&self.flight.landing) = landing;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        locked(&self.flights.0).remove(&self.identity);
        let mut landing = locked(&self.flight.landing);
        if matches!(*landing, Landing::Under) {
            *landing = Landing::Without;
        }
        self.flight.landed.notify_all();
    }
}

impl Flight {
    /// Waits for its end; `None` if there is no answer to share, or if the waiting request was cancelled.
    pub(super) fn wait(&self, cancel: &Cancel) -> Option<FlightOutcome> {
        let mut landing = locked(&self.landing);
        loop {
            match &*landing {
                Landing::With(outcome) => return Some((**outcome).clone()),
                Landing::Without => return None,
                Landing::Under if cancel.is_cancelled() => return None,
                Landing::Under => {
                    let waited = self.landed.wait_timeout(landing, LOOK);
                    landing = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
