//! The orchestrator of builder-v1 (R12): request, snapshot, policy, gate, agent, validation, one transaction, answer. It
//! decides nothing itself and keeps only the requests in flight and those that were accepted. It writes everything in one
//! transaction, so a run that is interrupted anywhere leaves nothing, and the next identical request may run.

mod accepted;
mod flight;
mod held;
mod recorded;
mod report;
mod settings;

use std::sync::Arc;
use std::time::{Duration, Instant as Stopwatch};

use crealeph_contracts::builder::ErrorCode;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::json::{ComposeError, JsonObject, Limits};
use crealeph_contracts::scalar::{Amount, ExecutionId, LedgerId, Name, TenantId, Version};
use crealeph_contracts::{BuilderRequest, BuilderResponse};
use crealeph_decision::builder::conclude::{ConcludeError, Conclusion};
use crealeph_decision::builder::decide::{DecideError, refusal};
use crealeph_decision::builder::{
    AgentCall, Asked, Decided, Ended, Ready, Refused, RequestVerdict, Situation, TransactionLimits, conclude,
    decide, lookup,
};
use crealeph_decision::snapshot::{Snapshot, SnapshotFacts};
use crealeph_ledger::{AppendError, EntryRefusal, Ledger, LedgerError, NewId, Position, RequestName, Seq};

use crate::account::Account;
use crate::agents::{Agents, Call, NoAnswer};
pub use accepted::{OpenRun, OpenRunPage, RunStanding, Submission, TakenRun, open_runs, run_standing};
pub use crealeph_sandbox::Cancel;
use flight::{Flights, Ticket};
use held::HeldExecution;
use recorded::Seen;
pub use recorded::{Execution, NamingRecords, execution, is_made_by_builder, record_of, replay, snapshot_of};
pub use report::{CheckReport, ReplayList, ReplayReport, execution_json, execution_of_record, reasons_json};
pub use settings::{Scopes, Settings};
use tracing::{debug, info_span};

/// An answer, and for a person what is behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The answer.
    pub response: BuilderResponse,
    /// Why it is so, and what would change it.
    pub detail: String,
    /// Which agent it was about; `None` if it did not come to that.
    pub agent: Option<Called>,
}

/// An agent, and whether it was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The version that the request names.
    pub version: Version,
    /// It ran.
    pub ran: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// The caller cancelled; nothing was written.
    #[error("the run was cancelled and nothing was written; send the request again to run it")]
    Cancelled,
    /// The ledger could not be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The entries of the run cannot be appended to the ledger.
    #[error("cannot append the run to the ledger; nothing was written: {0}")]
    Unwritten(AppendError),
    /// Another process took the execution over after each call, and left no outcome.
    #[error(
        "the agent was called {MAX_CALLS} times, and each time another process took the execution over before the outcome was written; nothing was written, find what else runs it and send the request again"
    )]
    Overtaken,
    /// What was read cannot be decided on.
    #[error(transparent)]
    Undecided(#[from] DecideError),
    /// What the run left cannot be put together.
    #[error(transparent)]
    Unconcluded(#[from] ConcludeError),
    /// A document of the run cannot be composed.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// The record of the attempt is there and cannot be read.
    #[error(
        "the record `{entry}` of this attempt cannot be read, so the request cannot be answered from it; use a new executionId"
    )]
    Unreadable {
        /// The record's entry.
        entry: LedgerId,
    },
    /// A name that cannot be one.
    #[error("internal error: the run has an invalid name: {0}; please report it")]
    Name(#[from] crealeph_contracts::scalar::IdentifierError),
}

impl BuildError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            BuildError::Cancelled => "cancelled",
            BuildError::Ledger(error) => error.code(),
            BuildError::Unwritten(error) => error.code(),
            BuildError::Overtaken => "lease_lost",
            BuildError::Unreadable { .. } => "record_unreadable",
            BuildError::Undecided(_)
            | BuildError::Unconcluded(_)
            | BuildError::Compose(_)
            | BuildError::Name(_) => "builder_failed",
        }
    }
}

/// A Builder over one ledger; share it between threads.
pub struct Builder {
    ledger: Ledger,
    agents: Arc<Agents>,
    scopes: Scopes,
    flights: Arc<Flights>,
    lease_time: Duration,
}

/// How often one request calls its agent at most, however often another process takes the execution over.
const MAX_CALLS: u32 = 2;
/// How long the work on an execution of a process that died is no one's.
const LEASE_TIME: Duration = Duration::from_secs(10);

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Builder over {:?}", self.ledger)
    }
}

impl Builder {
    /// A Builder that writes to this ledger and may call these agents.
    pub fn new(ledger: Ledger, agents: Agents, scopes: impl Into<Scopes>) -> Builder {
        let scopes = scopes.into();
        Builder { ledger, agents: Arc::new(agents), scopes, flights: Arc::default(), lease_time: LEASE_TIME }
    }

    /// The same, with another time after which the work of a process that died may be taken up.
    #[must_use]
    pub fn with_lease_time(self, lease_time: Duration) -> Builder {
        Builder { lease_time, ..self }
    }

    /// The same Builder for requests of the account that this process runs under.
    ///
    /// # Errors
    /// When the account's name is too long for an entry.
    pub fn acting_for_account(&self) -> Result<Builder, BuildError> {
        Ok(self.acting_for(Account::of_this_process().actor()?))
    }

    /// The same Builder, whose entries are appended for someone. It joins the requests in flight of the others.
    #[must_use]
    pub fn acting_for(&self, actor: Name) -> Builder {
        Builder {
            ledger: self.ledger.acting_for(actor),
            agents: Arc::clone(&self.agents),
            scopes: self.scopes.clone(),
            flights: Arc::clone(&self.flights),
            lease_time: self.lease_time,
        }
    }

    /// Runs a request, given as its document, and waits for the answer. `rerun_of` is the execution that this one tries
    /// again. An identical request in flight is joined; one that was answered is answered from its record.
    pub fn run(
        &self,
        tenant: &TenantId,
        request: &[u8],
        rerun_of: Option<&ExecutionId>,
        cancel: &Cancel,
    ) -> Result<Answer, BuildError> {
        let (asked, is_new) = match self.asked(tenant, request, rerun_of)? {
            Ok(asked) => asked,
            Err(refused) => return Ok(refused),
        };
        let fingerprint = asked.fingerprint()?;
        loop {
            if cancel.is_cancelled() {
                return Err(BuildError::Cancelled);
            }
            match self.flights.board(&asked, fingerprint) {
                Ticket::Leads(seat) => {
                    let course = Course { is_new, held: None, given_up: None };
                    let outcome = self.lead(&asked, course, cancel);
                    seat.land(&outcome);
                    return outcome;
                }
                Ticket::Joins(flight) => {
                    if let Some(outcome) = flight.wait(cancel) {
                        return outcome;
                    }
                }
                // Another request of this execution is under way; what it leaves decides about this one.
                Ticket::Follows(flight) => drop(flight.wait(cancel)),
            }
        }
    }

    /// The request, and whether its execution was named here, so that no other process can have run it; or the answer to a
    /// document that is not a request.
    fn asked(
        &self,
        tenant: &TenantId,
        request: &[u8],
        rerun_of: Option<&ExecutionId>,
    ) -> Result<Result<(Asked, bool), Answer>, BuildError> {
        // The record keeps the request in addition to everything else it says.
        let most = self.ledger.limits().payload_bytes / 4;
        let parsed = Valid::<BuilderRequest>::parse(request, &Limits::outside(most));
        let request = match parsed {
            Ok(request) => request,
            Err(violations) => return Ok(Err(invalid(None, violations.to_string()))),
        };
        let is_new = request.execution_id.is_none();
        let made = ExecutionId::parse(self.ledger.new_id()?.as_id().as_str())?;
        let asked = Asked::new(tenant.clone(), request, made, rerun_of.cloned());
        if asked.rerun_of.as_ref() == Some(&asked.execution_id) {
            let detail = "a rerun names another execution than its own; use a new executionId".to_owned();
            return Ok(Err(invalid(Some(&asked), detail)));
        }
        let bytes = JsonObject::of("the request", &asked.request)?.canonical().len();
        if bytes > most {
            let detail =
                format!("the request has {bytes} bytes in canonical form, and at most {most} are taken");
            return Ok(Err(invalid(Some(&asked), detail)));
        }
        Ok(Ok((asked, is_new)))
    }

    /// Runs a request that no one else in this process runs.
    fn lead(&self, asked: &Asked, mut course: Course, cancel: &Cancel) -> Result<Answer, BuildError> {
        let (tenant, robot, execution) = (&asked.tenant_id, &asked.request.robot_id, &asked.execution_id);
        let attempt = asked.request.attempt.get();
        let _span = info_span!("builder_run", %tenant, %robot, %execution, attempt).entered();
        let mut calls = 0;
        loop {
            if cancel.is_cancelled() {
                return Err(BuildError::Cancelled);
            }
            if let Some(answer) = self.try_to_lead(asked, &mut course, cancel, &mut calls)? {
                return Ok(answer);
            }
        }
    }

    /// Runs it once; `None` if another process ran it meanwhile, and what that wrote decides about this request.
    fn try_to_lead(
        &self,
        asked: &Asked,
        course: &mut Course,
        cancel: &Cancel,
        calls: &mut u32,
    ) -> Result<Option<Answer>, BuildError> {
        let stopwatch = Stopwatch::now();
        let settings = self.scopes.of(&asked.tenant_id, &asked.request.robot_id);
        let (found, facts) = self.look(asked, course.is_new, Some(settings))?;
        let is_retry = match found {
            RequestStanding::Answer(answer) => return Ok(Some(answer)),
            RequestStanding::ToRun { is_retry } => is_retry,
        };
        let version = &asked.request.agent_version;
        let Some(agent) = self.agents.get(version).filter(|_| settings.allows(version)) else {
            return Ok(Some(self.unknown_agent(asked, settings)));
        };
        let looked_at = facts.as_ref().map_or(Seq::ZERO, |(_, position)| position.seq);
        let ready = match self.decide(asked, is_retry, settings, facts)? {
            Decided::Ready(ready) => ready,
            Decided::Refused(refused) => {
                let Refused { response, detail } = *refused;
                return Ok(Some(Answer { response, detail, agent: None }));
            }
        };
        let Some(input) = &ready.input else {
            let concluded = self.conclude(&ready, None, stopwatch)?;
            return self.write(asked, concluded, course, None, false);
        };
        let held = match course.held.take() {
            None if course.is_new => None,
            None => match HeldExecution::take(&self.ledger, asked, looked_at, self.lease_time, cancel)? {
                None => return Ok(None),
                held => held,
            },
            held => held,
        };
        // A call whose lease was lost leaves no result; that may happen once, not repeatedly.
        if *calls >= MAX_CALLS {
            return Err(BuildError::Overtaken);
        }
        *calls += 1;
        let call = info_span!("agent_call", agent = %version).in_scope(|| match &course.given_up {
            None => agent.call(input, cancel),
            Some(reason) => uncalled(version, reason),
        });
        if cancel.is_cancelled() {
            return Err(BuildError::Cancelled);
        }
        let concluded = self.conclude(&ready, Some(&call), stopwatch)?;
        self.write(asked, concluded, course, held, true)
    }

    /// What the ledger says of the execution: an answer, or whether this is a retry (R11, R9); and, with settings, what
    /// the decision is based on.
    fn look(
        &self,
        asked: &Asked,
        is_new: bool,
        settings: Option<&Settings>,
    ) -> Result<(RequestStanding, Option<(SnapshotFacts, Position)>), BuildError> {
        let coherence = settings.map(|settings| &settings.coherence);
        let Seen { recorded, record, facts, open } = recorded::seen(&self.ledger, asked, is_new, coherence)?;
        if let Some(open) = open {
            return Ok((RequestStanding::Answer(accepted::conflict_with(asked, &open)), None));
        }
        let found = match (lookup(&recorded, asked.attempt(), &asked.fingerprint()?), record) {
            (Ok(RequestVerdict::Repeat), Some(record)) => {
                let response = BuilderResponse { idempotent: true, ..record.answer.clone().into_inner() };
                let version = record.request.agent_version.clone();
                let agent = Some(Called { version, ran: record.agent_ran });
                RequestStanding::Answer(Answer { response, detail: record.reason, agent })
            }
            (Ok(verdict), _) => RequestStanding::ToRun { is_retry: verdict == RequestVerdict::Retry },
            (Err(conflict), _) => {
                let execution_id = Some(asked.execution_id.clone());
                let response = refusal(execution_id, ErrorCode::IdempotencyConflict, None);
                RequestStanding::Answer(Answer { response, detail: conflict.to_string(), agent: None })
            }
        };
        Ok((found, facts))
    }

    fn unknown_agent(&self, asked: &Asked, settings: &Settings) -> Answer {
        let known = self.agents.versions().filter(|version| settings.allows(version));
        let known: Vec<String> = known.map(|version| format!("`{version}`")).collect();
        let advice = match known.is_empty() {
            true => {
                "add it to `crealeph.toml` as `[agents.\"NAME\"]`, or use `crealeph init` for a first one"
                    .to_owned()
            }
            false => format!("name one of: {}", known.join(", ")),
        };
        let detail = format!("there is no agent `{}`; {advice}", asked.request.agent_version);
        invalid(Some(asked), detail)
    }

    fn decide(
        &self,
        asked: &Asked,
        is_retry: bool,
        settings: &Settings,
        facts: Option<(SnapshotFacts, Position)>,
    ) -> Result<Decided, BuildError> {
        let Settings { rules, coherence, widened, .. } = settings;
        let (snapshot, position) = match facts {
            Some((facts, position)) => (Snapshot::derive(facts, coherence), position),
            None => (None, Position { seq: Seq::ZERO, now: self.ledger.now() }),
        };
        let (now, seq) = (position.now.instant(), position.seq.get());
        let definition = self.agents.definition(&asked.request.agent_version);
        let configuration = settings.version(definition)?;
        let situation =
            Situation { asked, is_retry, snapshot, seq, rules, coherence, widened, configuration, now };
        let decided = decide(situation)?;
        match &decided {
            Decided::Ready(ready) => debug!(decision = %ready.policy.decision, "policy decided"),
            Decided::Refused(refused) => debug!(state = %refused.response.state, "refused before the policy"),
        }
        Ok(decided)
    }

    fn conclude(
        &self,
        ready: &Ready,
        call: Option<&Call>,
        stopwatch: Stopwatch,
    ) -> Result<(Conclusion, Vec<NewId>), BuildError> {
        let ran = call.map(|call| AgentCall {
            answer: call.answer.as_ref().map_err(|none| none.reason.as_str()),
            identity: &call.identity,
            diagnostics: &call.diagnostics,
            tokens_used: call.tokens_used,
        });
        let duration_ms = Amount::new((stopwatch.elapsed().as_micros() as f64 / 1_000.0).round());
        let ended = Ended { ran, duration_ms };
        let limits = self.ledger.limits();
        let count = ended.artifact_count().min(limits.batch_entries);
        let ids: Vec<NewId> = (0..count).map(|_| self.ledger.new_id()).collect::<Result<_, _>>()?;
        let names: Vec<LedgerId> = ids.iter().map(|id| id.as_id().clone()).collect();
        let room = TransactionLimits {
            entries: limits.batch_entries,
            payload_bytes: limits.payload_bytes,
            total_bytes: limits.batch_bytes,
        };
        Ok((conclude(ready, &ended, &names, &room)?, ids))
    }

    /// Writes all of it or nothing. If another process was first, its answer is the answer; `None` if that process is still
    /// running.
    fn write(
        &self,
        asked: &Asked,
        concluded: (Conclusion, Vec<NewId>),
        course: &mut Course,
        held: Option<HeldExecution>,
        ran: bool,
    ) -> Result<Option<Answer>, BuildError> {
        let (Conclusion { artifacts, rest, response, reason }, ids) = concluded;
        let artifacts = ids.into_iter().zip(artifacts).map(|(id, (_, draft))| (Some(id), draft));
        let batch = artifacts.chain(rest.into_iter().map(|draft| (None, draft))).collect();
        let agent = Called { version: asked.request.agent_version.clone(), ran };
        let (tenant, request) = (&asked.tenant_id, request_name(asked));
        let written = match held.or_else(|| course.held.take()) {
            Some(held) => held.append(&self.ledger, tenant, &request, batch),
            // No one else can have accepted it under the name that it was given here.
            None if course.is_new => self.ledger.append_as(tenant, batch),
            None => self.ledger.append_outcome(tenant, &request, None, batch),
        };
        match written {
            Ok(_) => Ok(Some(Answer { response, detail: reason, agent: Some(agent) })),
            Err(AppendError::Ledger(LedgerError::LeaseLost { .. })) => Ok(None),
            Err(AppendError::Ledger(error)) => Err(error.into()),
            Err(
                error @ AppendError::Refused {
                    refusal: EntryRefusal::Conflict { .. } | EntryRefusal::Transition(_),
                    ..
                },
            ) => match self.look(asked, false, None)?.0 {
                RequestStanding::Answer(answer) => Ok(Some(answer)),
                RequestStanding::ToRun { .. } => Err(BuildError::Unwritten(error)),
            },
            Err(error) => Err(BuildError::Unwritten(error)),
        }
    }
}

/// How a request is led.
struct Course {
    /// Its execution was named here, so no one else can have run it.
    is_new: bool,
    /// The execution, if it is ours already.
    held: Option<HeldExecution>,
    /// Why the agent is not called again.
    given_up: Option<String>,
}

/// The name under which a request is accepted.
fn request_name(asked: &Asked) -> RequestName {
    let (robot_id, execution_id) = (asked.request.robot_id.clone(), asked.execution_id.clone());
    RequestName { robot_id, execution_id }
}

/// What stands for a call that is not made again.
fn uncalled(version: &Version, reason: &str) -> Call {
    Call {
        answer: Err(NoAnswer::from(reason.to_owned())),
        identity: JsonObject::build(|object| {
            object.text("name", version.as_str()).text("sandbox", "not run");
        }),
        diagnostics: String::new(),
        tokens_used: None,
    }
}

/// What the ledger says of a request.
enum RequestStanding {
    Answer(Answer),
    ToRun { is_retry: bool },
}

fn invalid(asked: Option<&Asked>, detail: String) -> Answer {
    let execution_id = asked.map(|asked| asked.execution_id.clone());
    Answer { response: refusal(execution_id, ErrorCode::InvalidRequest, None), detail, agent: None }
}
