//! Requests that were accepted and are not decided yet. They are stored next to the log, never in it: a row holds the request,
//! and is removed in the transaction that writes the outcome, so that no request is lost or answered twice. The process that
//! works on one holds the lease that it names, which fences the outcome.
//!
//! An outcome that leaves nothing in the log stays in the row for a bounded time.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{ExecutionId, KeyId, Name, RobotId, TenantId};

use crate::error::LedgerError;
use crate::lease::{Lease, LeaseToken};
use crate::ledger::Ledger;
use crate::pending::{AnswerSender, AppendResult};
use crate::position::Millis;
use crate::proposed::NewId;
use crate::store::{Reads, Transaction};
use crate::writer::{Job, JobTask};

/// The name of a request: an execution has at most one at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestName {
    /// The robot.
    pub robot_id: RobotId,
    /// The execution.
    pub execution_id: ExecutionId,
}

/// A request that is to be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestToAccept {
    /// Its name.
    pub name: RequestName,
    /// The attempt of the execution.
    pub attempt: u64,
    /// What identifies a repeat.
    pub fingerprint: Blake3,
    /// The request's document.
    pub document: String,
    /// The execution that it tries again.
    pub rerun_of: Option<ExecutionId>,
    /// The API key that it came with.
    pub key_id: Option<KeyId>,
    /// The lease for working on it.
    pub lease: Name,
}

/// How many requests may be open, and how long an outcome is kept that the log does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptanceLimits {
    /// Open requests of one tenant.
    pub per_tenant: u64,
    /// Open requests of all tenants. Processes that accept at the same moment may exceed it by one each.
    pub total: u64,
    /// Milliseconds.
    pub keep_ms: u64,
}

/// A request that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedRequest {
    /// Its name.
    pub name: RequestName,
    /// Its place in the order of acceptance of its tenant.
    pub number: LeaseToken,
    /// The attempt of the execution.
    pub attempt: u64,
    /// What identifies a repeat.
    pub fingerprint: Blake3,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// How often a process took it up.
    pub tries: u64,
    /// Someone works on it, or on another request of its execution.
    pub is_held: bool,
    /// When it ended, and how, if that left nothing in the log.
    pub ended: Option<(Millis, RequestOutcome)>,
}

impl AcceptedRequest {
    /// It has no outcome yet.
    pub fn is_open(&self) -> bool {
        self.ended.is_none()
    }
}

/// The outcome of a request that left nothing in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// With this answer, a document.
    Answer(String),
    /// No answer, but an error with this code.
    Failure(String),
}

impl RequestOutcome {
    /// The outcome of a row that has ended; `None` for one that is open.
    pub(crate) fn stored(
        ended_at: Option<i64>,
        answer: Option<String>,
        failure: Option<String>,
    ) -> Option<(Millis, RequestOutcome)> {
        let outcome = match answer {
            Some(answer) => RequestOutcome::Answer(answer),
            None => RequestOutcome::Failure(failure.unwrap_or_else(|| "unknown".to_owned())),
        };
        ended_at.map(|at| (Millis::new(at), outcome))
    }
}

/// A request to work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestToRun {
    /// Its state.
    pub request: AcceptedRequest,
    /// Its document.
    pub document: String,
    /// The execution that it tries again.
    pub rerun_of: Option<ExecutionId>,
    /// The API key that it came with.
    pub key_id: Option<KeyId>,
    /// The lease to take before it is worked on.
    pub lease: Name,
}

/// The result of accepting a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Acceptance {
    /// It is accepted, durably.
    Accepted(AcceptedRequest),
    /// The same request was accepted before and is open.
    Joined(AcceptedRequest),
    /// Another request of this execution is open.
    Conflict(AcceptedRequest),
    /// The tenant has as many open requests as it may.
    TenantFull,
    /// All tenants together have as many open requests as they may.
    Full,
}

/// The result of cancelling a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// It was removed.
    Cancelled,
    /// A process has already taken it up.
    Started,
    /// There is no open request of this name.
    Unknown,
}

/// What the writing thread does with a request.
#[derive(Debug)]
pub(crate) enum RequestChange {
    Accept(Box<RequestToAccept>, AcceptanceLimits),
    Cancel(RequestName),
    /// Counts a try up or down, if the request is open.
    Count(RequestName, LeaseToken, i64),
    /// Keeps an outcome; without one the row is removed.
    End(RequestName, LeaseToken, Option<RequestOutcome>),
    /// Removes outcomes that ended before a time.
    Sweep(Millis),
}

/// The result.
#[derive(Debug)]
pub(crate) enum RequestAnswer {
    Acceptance(Acceptance),
    Cancellation(Cancellation),
    /// How often a process took it up; `None` if it is no longer open.
    Tries(Option<u64>),
}

/// Changes a request in a transaction that has locked the tenant's log. `now` is the time of the ledger's clock.
pub(crate) fn apply(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    change: &RequestChange,
    now: Millis,
) -> Result<RequestAnswer, LedgerError> {
    match change {
        RequestChange::Accept(request, limits) => {
            accept(transaction, tenant, request, *limits, now).map(RequestAnswer::Acceptance)
        }
        RequestChange::Cancel(name) => {
            let cancelled = match transaction.request(tenant, name)?.filter(AcceptedRequest::is_open) {
                None => Cancellation::Unknown,
                Some(found) if found.tries > 0 => Cancellation::Started,
                Some(_) => {
                    transaction.drop_requests(tenant, &[name])?;
                    Cancellation::Cancelled
                }
            };
            Ok(RequestAnswer::Cancellation(cancelled))
        }
        RequestChange::Count(name, number, by) => {
            let open = current(transaction, tenant, name, *number)?.filter(AcceptedRequest::is_open);
            let tries = open.map(|found| found.tries.saturating_add_signed(*by));
            if let Some(tries) = tries {
                transaction.count_request(tenant, name, tries)?;
            }
            Ok(RequestAnswer::Tries(tries))
        }
        RequestChange::End(name, number, outcome) => {
            if current(transaction, tenant, name, *number)?.is_some() {
                match outcome {
                    Some(outcome) => transaction.end_request(tenant, name, outcome, now)?,
                    None => transaction.drop_requests(tenant, &[name])?,
                }
            }
            Ok(RequestAnswer::Tries(None))
        }
        RequestChange::Sweep(before) => {
            transaction.sweep_requests(tenant, *before)?;
            Ok(RequestAnswer::Tries(None))
        }
    }
}

/// The row of a request, unless another has taken its place.
fn current(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    name: &RequestName,
    number: LeaseToken,
) -> Result<Option<AcceptedRequest>, LedgerError> {
    Ok(transaction.request(tenant, name)?.filter(|found| found.number == number))
}

fn accept(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    request: &RequestToAccept,
    limits: AcceptanceLimits,
    now: Millis,
) -> Result<Acceptance, LedgerError> {
    // A tenant's first request would lock nothing otherwise.
    transaction.locked_head(tenant)?;
    if let Some(found) = transaction.request(tenant, &request.name)?.filter(AcceptedRequest::is_open) {
        let is_same = found.fingerprint == request.fingerprint && found.attempt == request.attempt;
        return Ok(if is_same { Acceptance::Joined(found) } else { Acceptance::Conflict(found) });
    }
    let keep_ms = i64::try_from(limits.keep_ms).unwrap_or(i64::MAX);
    transaction.sweep_requests(tenant, Millis::new(now.get().saturating_sub(keep_ms)))?;
    let (own, all) = transaction.open_requests(tenant, limits.per_tenant, limits.total)?;
    if own >= limits.per_tenant {
        return Ok(Acceptance::TenantFull);
    }
    if all >= limits.total {
        return Ok(Acceptance::Full);
    }
    let number = transaction.put_request(tenant, request, now)?;
    Ok(Acceptance::Accepted(AcceptedRequest {
        name: request.name.clone(),
        number,
        attempt: request.attempt,
        fingerprint: request.fingerprint,
        accepted_at: now,
        tries: 0,
        is_held: false,
        ended: None,
    }))
}

impl Ledger {
    /// Accepts a request: when this returns it is durable, and stays until its outcome is.
    pub fn accept_request(
        &self,
        tenant: &TenantId,
        request: RequestToAccept,
        limits: AcceptanceLimits,
    ) -> Result<Acceptance, LedgerError> {
        match self.change_request(tenant, RequestChange::Accept(Box::new(request), limits))? {
            RequestAnswer::Acceptance(acceptance) => Ok(acceptance),
            _ => Err(LedgerError::Closed),
        }
    }

    /// Cancels a request that no process has taken up.
    pub fn cancel_request(&self, tenant: &TenantId, name: &RequestName) -> Result<Cancellation, LedgerError> {
        match self.change_request(tenant, RequestChange::Cancel(name.clone()))? {
            RequestAnswer::Cancellation(cancellation) => Ok(cancellation),
            _ => Err(LedgerError::Closed),
        }
    }

    /// Counts that the holder of a request's lease takes it up: returns how often that was, or `None` if it is no longer open.
    pub fn take_up_request(
        &self,
        tenant: &TenantId,
        request: &AcceptedRequest,
    ) -> Result<Option<u64>, LedgerError> {
        self.count_request(tenant, request, 1)
    }

    /// Undoes that count: the holder could not work on it.
    pub fn give_back_request(&self, tenant: &TenantId, request: &AcceptedRequest) -> Result<(), LedgerError> {
        self.count_request(tenant, request, -1).map(|_| ())
    }

    fn count_request(
        &self,
        tenant: &TenantId,
        request: &AcceptedRequest,
        by: i64,
    ) -> Result<Option<u64>, LedgerError> {
        let change = RequestChange::Count(request.name.clone(), request.number, by);
        match self.change_request(tenant, change)? {
            RequestAnswer::Tries(tries) => Ok(tries),
            _ => Err(LedgerError::Closed),
        }
    }

    /// Ends a request whose outcome is not in the log, and keeps that outcome for a while; with none the request is removed,
    /// because the log has its outcome.
    pub fn end_request(
        &self,
        tenant: &TenantId,
        request: &AcceptedRequest,
        outcome: Option<RequestOutcome>,
    ) -> Result<(), LedgerError> {
        let change = RequestChange::End(request.name.clone(), request.number, outcome);
        self.change_request(tenant, change).map(|_| ())
    }

    /// Removes outcomes that ended before a time.
    pub fn sweep_requests(&self, tenant: &TenantId, before: Millis) -> Result<(), LedgerError> {
        self.change_request(tenant, RequestChange::Sweep(before)).map(|_| ())
    }

    fn change_request(&self, tenant: &TenantId, change: RequestChange) -> Result<RequestAnswer, LedgerError> {
        let (answer, pending) = AnswerSender::pair();
        self.send(Job { tenant_id: tenant.clone(), task: JobTask::Request(change, self.now(), answer) })?;
        pending.wait()
    }

    /// Appends as [`Ledger::append_as`], under a lease if one is given, which is released; the request of that name, if there is
    /// one, is removed in the same transaction. If nothing was written, both stay.
    pub fn append_outcome(
        &self,
        tenant: &TenantId,
        request: &RequestName,
        lease: Option<&Lease>,
        batch: Vec<(Option<NewId>, Draft)>,
    ) -> AppendResult {
        self.append_fenced(tenant, batch, lease.map(|lease| lease.fence(true)), Some(request.clone()))
    }

    /// A request that was accepted and is open, or whose outcome is kept.
    pub fn accepted_request(
        &self,
        tenant: &TenantId,
        name: &RequestName,
    ) -> Result<Option<AcceptedRequest>, LedgerError> {
        self.ask_requests(Some(tenant), |reads| reads.request(tenant, name))
    }

    /// The open requests of a tenant, of one robot if one is named, in the order of acceptance after one of them.
    pub fn open_requests(
        &self,
        tenant: &TenantId,
        robot: Option<&RobotId>,
        after: Option<LeaseToken>,
        limit: usize,
    ) -> Result<Vec<AcceptedRequest>, LedgerError> {
        let limit = limit.min(self.limits().page_entries);
        self.ask_requests(Some(tenant), |reads| reads.requests(tenant, robot, after, limit))
    }

    /// The first request of a tenant, after one of them, that no process works on.
    pub fn waiting_request(
        &self,
        tenant: &TenantId,
        after: Option<LeaseToken>,
    ) -> Result<Option<RequestToRun>, LedgerError> {
        self.ask_requests(Some(tenant), |reads| reads.waiting_request(tenant, after))
    }

    /// The first tenant after one, by name, that has a request that no process works on, or an outcome that ended before a time.
    pub fn tenant_with_work(
        &self,
        after: Option<&TenantId>,
        ended_before: Millis,
    ) -> Result<Option<TenantId>, LedgerError> {
        let after = after.map_or("", |tenant| tenant.as_str());
        self.ask_requests(None, |reads| reads.tenant_with_work(after, ended_before))
    }

    fn ask_requests<T>(
        &self,
        tenant: Option<&TenantId>,
        mut question: impl FnMut(&mut dyn Reads) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut answer = None;
        self.inner().backend.read(tenant, &mut |reads| {
            reads.check_schema()?;
            answer = Some(question(reads)?);
            Ok(())
        })?;
        answer.ok_or(LedgerError::Closed)
    }
}
