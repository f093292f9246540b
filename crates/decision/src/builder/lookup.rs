//! Whether a request was answered already (R11), and whether its execution may continue (R9). Checked before the
//! snapshot is read, so that a repeat gets its answer however much the ledger has grown.

use crealeph_contracts::BuilderRequest;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::json::{ComposeError, JsonObject};
use crealeph_contracts::scalar::{ClientKey, ExecutionId, IdentifierError, Name, TenantId};

/// A request with everything that is not in its document: whose it is, and the execution that it names or was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The request, its executionId filled in.
    pub request: BuilderRequest,
    /// The execution.
    pub execution_id: ExecutionId,
    /// The execution that this one tries again, if it does.
    pub rerun_of: Option<ExecutionId>,
}

impl Asked {
    /// Builds a request; `made` is the execution id for a request that names none.
    pub fn new(
        tenant_id: TenantId,
        request: Valid<BuilderRequest>,
        made: ExecutionId,
        rerun_of: Option<ExecutionId>,
    ) -> Asked {
        let mut request = request.into_inner();
        let execution_id = request.execution_id.clone().unwrap_or(made);
        request.execution_id = Some(execution_id.clone());
        Asked { tenant_id, request, execution_id, rerun_of }
    }

    /// The attempt.
    pub fn attempt(&self) -> u64 {
        self.request.attempt.get()
    }

    /// What identifies a repeat: BLAKE3 of the canonical request, its tenant and the execution that it tries again.
    ///
    /// # Errors
    /// If the request cannot be read back.
    pub fn fingerprint(&self) -> Result<Blake3, ComposeError> {
        let asked = JsonObject::compose("the request's fingerprint", |object| {
            object.raw("request", &to_json(&self.request));
            if let Some(rerun_of) = &self.rerun_of {
                object.text("rerunOfExecutionId", rerun_of.as_str());
            }
            object.text("tenantId", self.tenant_id.as_str());
        })?;
        Ok(Blake3::of(asked.canonical().as_bytes()))
    }

    /// The key of the record of this attempt. A key has one entry: of two writers the later one is refused.
    pub fn record_key(&self) -> Result<ClientKey, IdentifierError> {
        record_key(self.request.robot_id.as_str(), self.execution_id.as_str(), self.attempt())
    }

    /// The name of the lease under which one process at a time works on this execution.
    pub fn lease_name(&self) -> Result<Name, IdentifierError> {
        let identity = JsonObject::build(|object| {
            object
                .text("execution", self.execution_id.as_str())
                .text("robot", self.request.robot_id.as_str());
        });
        Name::parse(&format!("execution:{}", Blake3::of(identity.as_str().as_bytes())))
    }
}

/// The key of the record of an attempt; keys are a tenant's own.
pub fn record_key(robot: &str, execution: &str, attempt: u64) -> Result<ClientKey, IdentifierError> {
    let identity = JsonObject::build(|object| {
        object.text("execution", execution).integer("attempt", attempt).text("robot", robot);
    });
    ClientKey::parse(&format!("execution_record:{}", Blake3::of(identity.as_str().as_bytes())))
}

/// What the ledger holds of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedExecution {
    /// State and attempt of its newest event, if it has any.
    pub last: Option<(ExecutionState, u64)>,
    /// The fingerprint of the request that the attempt was recorded for.
    pub fingerprint: Option<Blake3>,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerdict {
    /// Nothing is recorded: run it.
    First,
    /// An earlier attempt failed: run it again.
    Retry,
    /// It was answered: return that answer.
    Repeat,
}

/// Why a request is IDEMPOTENCY_CONFLICT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The attempt is recorded for another request.
    #[error("attempt {attempt} is recorded for another request; use a new executionId")]
    OtherRequest {
        /// The attempt.
        attempt: u64,
    },
    /// The execution has ended.
    #[error(
        "the execution has ended in `{ended}`; use a new executionId, with this one as rerunOfExecutionId"
    )]
    Ended {
        /// How.
        ended: ExecutionState,
    },
    /// The execution is under way, or planned.
    #[error("the execution is `{state}` at attempt {attempt}; use a new executionId")]
    Open {
        /// Its state.
        state: ExecutionState,
        /// Its attempt.
        attempt: u64,
    },
    /// A retry that does not raise the attempt.
    #[error("attempt {last} has failed; a retry needs a greater attempt than that, not {attempt}")]
    AttemptNotRaised {
        /// The attempt of the request.
        attempt: u64,
        /// The attempt that failed.
        last: u64,
    },
}

/// Judges a request by what is recorded about its execution.
pub fn lookup(
    recorded: &RecordedExecution,
    attempt: u64,
    fingerprint: &Blake3,
) -> Result<RequestVerdict, Conflict> {
    match &recorded.fingerprint {
        Some(known) if known == fingerprint => return Ok(RequestVerdict::Repeat),
        Some(_) => return Err(Conflict::OtherRequest { attempt }),
        None => {}
    }
    match recorded.last {
        None => Ok(RequestVerdict::First),
        Some((ExecutionState::Failed, last)) if attempt > last => Ok(RequestVerdict::Retry),
        Some((ExecutionState::Failed, last)) => Err(Conflict::AttemptNotRaised { attempt, last }),
        Some((ended @ (ExecutionState::Succeeded | ExecutionState::Cancelled), _)) => {
            Err(Conflict::Ended { ended })
        }
        Some((state @ (ExecutionState::Planned | ExecutionState::Running), attempt)) => {
            Err(Conflict::Open { state, attempt })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    // holds: invariant 11
    fn the_recorded_state_and_fingerprint_decide() {
        use ExecutionState::{Cancelled, Failed, Planned, Running, Succeeded};
        let (own, other) = (Blake3::of(b"own"), Blake3::of(b"other"));
        let ask =
            |last, fingerprint, attempt| lookup(&RecordedExecution { last, fingerprint }, attempt, &own);
        assert_eq!(ask(None, None, 1), Ok(RequestVerdict::First));
        assert_eq!(ask(None, None, 7), Ok(RequestVerdict::First));
        for state in [Planned, Running, Succeeded, Failed, Cancelled] {
            assert_eq!(ask(Some((state, 1)), Some(own), 1), Ok(RequestVerdict::Repeat), "{state}");
            let conflict = Err(Conflict::OtherRequest { attempt: 1 });
            assert_eq!(ask(Some((state, 1)), Some(other), 1), conflict, "{state}");
        }
        assert_eq!(ask(Some((Failed, 1)), None, 2), Ok(RequestVerdict::Retry));
        assert_eq!(ask(Some((Failed, 2)), None, 9), Ok(RequestVerdict::Retry));
        for attempt in [1, 2] {
            let conflict = Err(Conflict::AttemptNotRaised { attempt, last: 2 });
            assert_eq!(ask(Some((Failed, 2)), None, attempt), conflict);
        }
        for state in [Planned, Running] {
            assert_eq!(ask(Some((state, 1)), None, 2), Err(Conflict::Open { state, attempt: 1 }));
        }
        for ended in [Succeeded, Cancelled] {
            assert_eq!(ask(Some((ended, 1)), None, 2), Err(Conflict::Ended { ended }));
        }
        let repeat = ask(Some((Planned, 2)), Some(own), 1);
        assert_eq!(repeat, Ok(RequestVerdict::Repeat), "an old attempt is repeated after a newer one");
    }

    #[test]
    fn a_fingerprint_is_of_the_meaning_and_of_the_tenant() {
        let first = samples::asked(|text| text);
        let reordered =
            samples::asked(|text| text.replace("{\"a\":1,\"b\":2}", "{ \"b\" : 2.0, \"a\":1e0 }"));
        assert_eq!(first.fingerprint(), reordered.fingerprint());
        let other = samples::asked(|text| text.replace("\"a\":1", "\"a\":3"));
        assert_ne!(first.fingerprint(), other.fingerprint());
        let foreign = Asked { tenant_id: TenantId::parse("other").unwrap(), ..first.clone() };
        assert_ne!(first.fingerprint(), foreign.fingerprint());
        let rerun = Asked { rerun_of: Some(ExecutionId::parse("before").unwrap()), ..first.clone() };
        assert_ne!(first.fingerprint(), rerun.fingerprint());
    }

    #[test]
    fn a_request_without_an_execution_gets_a_new_id() {
        let asked = samples::asked(|text| text.replace(",\"executionId\":\"e-1\"", ""));
        assert_eq!(asked.execution_id.as_str(), "made");
        assert_eq!(asked.request.execution_id.as_ref().unwrap().as_str(), "made");
    }
}
