//! Requests that are accepted now and run later, by any process (R12). Accepting is durable; the row is removed in
//! the transaction that writes the outcome. The process that runs one holds the lease of its execution, so a process that dies is
//! replaced by another when its lease has expired, and one that was overtaken writes nothing.

use crealeph_contracts::BuilderResponse;
use crealeph_contracts::actor::Actor;
use crealeph_contracts::builder::ErrorCode;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::{ExecutionId, KeyId, RobotId, TenantId};
use crealeph_decision::builder::Asked;
use crealeph_decision::builder::decide::refusal;
use crealeph_ledger::{
    Acceptance, AcceptanceLimits, AcceptedRequest, LeaseToken, Ledger, Millis, RequestName, RequestOutcome,
    RequestToAccept, RequestToRun,
};
use serde::Serialize;
use tracing::info_span;

use super::flight::{Seat, Ticket};
use super::held::HeldExecution;
use super::{Answer, BuildError, Builder, Cancel, Course, RequestStanding, recorded, request_name};

/// A request that was accepted and is not decided, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenRun {
    /// The robot.
    pub robot_id: String,
    /// The execution, also if the request named none.
    pub execution_id: String,
    /// Which try of the execution.
    pub attempt: u64,
    /// `accepted`, or `running` while a process works on it.
    pub state: &'static str,
    /// When it was accepted.
    pub accepted_at: String,
    /// How often a process has taken it up.
    pub tries: u64,
}

impl OpenRun {
    fn of(request: &AcceptedRequest) -> OpenRun {
        let RequestName { robot_id, execution_id } = &request.name;
        OpenRun {
            robot_id: robot_id.to_string(),
            execution_id: execution_id.to_string(),
            attempt: request.attempt,
            state: if request.is_held { "running" } else { "accepted" },
            accepted_at: request.accepted_at.to_string(),
            tries: request.tries,
        }
    }
}

/// A page of open requests, in the order of acceptance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenRunPage {
    /// The requests.
    pub runs: Vec<OpenRun>,
    /// Where the list continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The outcome of submitting a request.
#[derive(Clone, Debug)]
#[must_use]
pub enum Submission {
    /// It is accepted, or was before.
    Open(OpenRun),
    /// It has its answer already, or is refused.
    Answered(Box<Answer>),
    /// The tenant has as many open requests as it may.
    TenantFull,
    /// All tenants together have as many as they may.
    Full,
}

/// The state of a request.
#[derive(Clone, Debug)]
pub enum RunStanding {
    /// It is not decided.
    Open(OpenRun),
    /// Its answer.
    Answered(Box<BuilderResponse>),
    /// It ended without an answer, by an error of this code.
    Failed(String),
}

/// A request that this process has taken up.
#[must_use]
pub struct TakenRun {
    asked: Asked,
    request: AcceptedRequest,
    tries: u64,
    key_id: Option<KeyId>,
    seat: Seat,
    held: HeldExecution,
}

/// The state of a request, of one attempt if one is named; `None` if there is no trace of it.
pub fn run_standing(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: &RobotId,
    execution: &ExecutionId,
    attempt: Option<u64>,
) -> Result<Option<RunStanding>, BuildError> {
    let name = RequestName { robot_id: robot.clone(), execution_id: execution.clone() };
    let is_asked = |request: &AcceptedRequest| attempt.is_none_or(|attempt| request.attempt == attempt);
    // Read before the record: a row that is gone by then has its record.
    let request = ledger.accepted_request(tenant, &name)?.filter(is_asked);
    if let Some(open) = request.as_ref().filter(|request| request.is_open()) {
        return Ok(Some(RunStanding::Open(OpenRun::of(open))));
    }
    let record = match attempt {
        Some(attempt) => recorded::record_of(ledger, tenant, robot, execution, attempt)?,
        None => {
            let found = recorded::execution(ledger, tenant, Some(robot), execution)?;
            found.and_then(|mut found| found.records.pop()).map(|(_, record)| record)
        }
    };
    if let Some(record) = record {
        return Ok(Some(RunStanding::Answered(Box::new(record.answer.into_inner()))));
    }
    let outcome = request.and_then(|request| request.ended).map(|(_, outcome)| outcome);
    Ok(outcome.map(|outcome| match outcome {
        RequestOutcome::Failure(code) => RunStanding::Failed(code),
        RequestOutcome::Answer(text) => {
            match Valid::<BuilderResponse>::parse(text.as_bytes(), &Limits::outside(text.len())) {
                Ok(response) => RunStanding::Answered(Box::new(response.into_inner())),
                Err(_) => RunStanding::Failed("record_unreadable".to_owned()),
            }
        }
    }))
}

/// The open requests of a tenant, of one robot if one is named.
pub fn open_runs(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: Option<&RobotId>,
    after: Option<LeaseToken>,
    limit: usize,
) -> Result<OpenRunPage, BuildError> {
    let found = ledger.open_requests(tenant, robot, after, limit)?;
    let next = found.last().filter(|_| found.len() >= limit).map(|last| last.number.cursor().to_string());
    Ok(OpenRunPage { runs: found.iter().map(OpenRun::of).collect(), next })
}

impl Builder {
    /// Accepts a request to be run later. What can be answered at once is: a request that is not valid, one that contradicts what
    /// is recorded or accepted, one that is recorded.
    pub fn submit(
        &self,
        tenant: &TenantId,
        request: &[u8],
        rerun_of: Option<&ExecutionId>,
        key_id: Option<&KeyId>,
        limits: AcceptanceLimits,
    ) -> Result<Submission, BuildError> {
        let answered = |answer| Ok(Submission::Answered(Box::new(answer)));
        let (asked, is_new) = match self.asked(tenant, request, rerun_of)? {
            Ok(asked) => asked,
            Err(refused) => return answered(refused),
        };
        if let (RequestStanding::Answer(answer), _) = self.look(&asked, is_new, None)? {
            return answered(answer);
        }
        let settings = self.scopes.of(tenant, &asked.request.robot_id);
        let version = &asked.request.agent_version;
        if self.agents.get(version).filter(|_| settings.allows(version)).is_none() {
            return answered(self.unknown_agent(&asked, settings));
        }
        let request = RequestToAccept {
            name: request_name(&asked),
            attempt: asked.attempt(),
            fingerprint: asked.fingerprint()?,
            document: to_json(&asked.request),
            rerun_of: asked.rerun_of.clone(),
            key_id: key_id.cloned(),
            lease: asked.lease_name()?,
        };
        Ok(match self.ledger.accept_request(tenant, request, limits)? {
            Acceptance::Accepted(open) | Acceptance::Joined(open) => Submission::Open(OpenRun::of(&open)),
            Acceptance::Conflict(open) => return answered(conflict_with(&asked, &open)),
            Acceptance::TenantFull => Submission::TenantFull,
            Acceptance::Full => Submission::Full,
        })
    }

    /// Whether a request waits that no one works on. Outcomes that ended before a time are removed on the way.
    pub fn has_waiting(&self, ended_before: Millis) -> Result<bool, BuildError> {
        let mut after = None;
        while let Some(tenant) = self.ledger.tenant_with_work(after.as_ref(), ended_before)? {
            if self.ledger.waiting_request(&tenant, None)?.is_some() {
                return Ok(true);
            }
            self.ledger.sweep_requests(&tenant, ended_before)?;
            after = Some(tenant);
        }
        Ok(false)
    }

    /// Takes up the oldest request that no one works on, tenants in turn: `turn` is the one that was served last. Outcomes that
    /// ended before a time are removed on the way.
    pub fn take_up(
        &self,
        turn: &mut Option<TenantId>,
        ended_before: Millis,
    ) -> Result<Option<TakenRun>, BuildError> {
        let start = turn.clone();
        let mut is_second_round = start.is_none();
        loop {
            let Some(tenant) = self.ledger.tenant_with_work(turn.as_ref(), ended_before)? else {
                if is_second_round {
                    return Ok(None);
                }
                (*turn, is_second_round) = (None, true);
                continue;
            };
            if is_second_round && start.as_ref().is_some_and(|start| tenant > *start) {
                return Ok(None);
            }
            *turn = Some(tenant.clone());
            if let Some(taken) = self.take_up_of(&tenant)? {
                return Ok(Some(taken));
            }
            self.ledger.sweep_requests(&tenant, ended_before)?;
        }
    }

    fn take_up_of(&self, tenant: &TenantId) -> Result<Option<TakenRun>, BuildError> {
        let mut after = None;
        while let Some(found) = self.ledger.waiting_request(tenant, after)? {
            after = Some(found.request.number);
            let Some(asked) = asked_again(tenant, &found) else {
                let unreadable = RequestOutcome::Failure("request_unreadable".to_owned());
                self.ledger.end_request(tenant, &found.request, Some(unreadable))?;
                continue;
            };
            // In this order: one that leads here may be waiting for the lease.
            let Ticket::Leads(seat) = self.flights.board(&asked, asked.fingerprint()?) else { continue };
            let Some(held) = HeldExecution::take_now(&self.ledger, &asked, self.lease_time)? else {
                continue;
            };
            if let Some(tries) = self.ledger.take_up_request(tenant, &found.request)? {
                let RequestToRun { request, key_id, .. } = found;
                return Ok(Some(TakenRun { asked, request, tries, key_id, seat, held }));
            }
        }
        Ok(None)
    }

    /// Runs a request that was taken up. If it cannot be run now, it is given back. One that was taken up more than `max_tries`
    /// times, by processes that all died over it, ends as an agent does that gives no answer.
    pub fn run_taken(&self, taken: TakenRun, max_tries: u64, cancel: &Cancel) -> Result<Answer, BuildError> {
        let TakenRun { asked, request, tries, key_id, seat, held } = taken;
        let (tenant, key) = (&asked.tenant_id, key_id.as_ref().map_or("none", |id| id.as_str()));
        let _span = info_span!("accepted_run", key, tries).entered();
        let given_up = (tries > max_tries).then(|| {
            format!(
                "the agent was called {max_tries} times, and each time the process that called it died before an answer was recorded"
            )
        });
        let is_last = given_up.is_some();
        let course = Course { is_new: false, held: Some(held), given_up };
        let outcome = match &key_id {
            Some(key_id) => {
                self.acting_for(Actor::Key(key_id.clone()).to_name()?).lead(&asked, course, cancel)
            }
            None => self.lead(&asked, course, cancel),
        };
        let ended = match &outcome {
            // The transaction that wrote the outcome has removed the request.
            Ok(Answer { agent: Some(_), response, .. }) if !response.idempotent => Ok(()),
            Ok(Answer { agent: Some(_), .. }) => self.ledger.end_request(tenant, &request, None),
            Ok(Answer { agent: None, response, .. }) => {
                let answer = RequestOutcome::Answer(to_json(response));
                self.ledger.end_request(tenant, &request, Some(answer))
            }
            Err(BuildError::Cancelled | BuildError::Ledger(_)) => {
                self.ledger.give_back_request(tenant, &request)
            }
            Err(error) if is_last => {
                let failure = RequestOutcome::Failure(error.code().to_owned());
                self.ledger.end_request(tenant, &request, Some(failure))
            }
            Err(_) => Ok(()),
        };
        seat.land(&outcome);
        ended?;
        outcome
    }
}

/// The request as it was accepted; `None` if this program cannot read it.
fn asked_again(tenant: &TenantId, found: &RequestToRun) -> Option<Asked> {
    let limits = Limits::outside(found.document.len());
    let request = Valid::parse(found.document.as_bytes(), &limits).ok()?;
    let execution = found.request.name.execution_id.clone();
    Some(Asked::new(tenant.clone(), request, execution, found.rerun_of.clone()))
}

/// The answer to a request while another of its execution is open.
pub(super) fn conflict_with(asked: &Asked, open: &AcceptedRequest) -> Answer {
    let execution_id = Some(asked.execution_id.clone());
    let detail = format!(
        "another request of this execution, attempt {}, was accepted and is not decided yet; wait for it, or use a new executionId",
        open.attempt
    );
    Answer { response: refusal(execution_id, ErrorCode::IdempotencyConflict, None), detail, agent: None }
}
