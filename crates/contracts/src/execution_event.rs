//! ExecutionEvent (builder-execution-v1 §6, §7): one step of an execution, judged alone and against the ledger's
//! entries. Whether it may follow the earlier events is a decision, made elsewhere.

use serde_json::{Value, json};

use crate::agent_input::{Coherence, ContractVersion};
use crate::builder::ErrorCode;
use crate::contract::{Contract, ContractName};
use crate::instant::{Instant, Timestamp};
use crate::json::{JsonObject, Limits, parse};
use crate::scalar::{Amount, Attempt, ExecutionId, LedgerId, Name, RobotId, TenantId, Text, Version};
use crate::schema::{has, has_in, when};
use crate::shape::{Maybe, Set, Shape as _, object, words};
use crate::violation::{Code, Report, Violations};

/// The reason of an execution whose drafts wait for a person (§5).
pub const PARTIAL_REQUIRES_REVIEW: &str = "PARTIAL_REQUIRES_REVIEW";

words! {
    /// The writer of execution events; it must not vary.
    AgentBuilder {
        /// The Builder.
        AgentBuilder = "agent-builder",
    }
}

words! {
    /// The type of an execution event; it must not vary.
    ExecutionEventType {
        /// An execution event.
        ExecutionEvent = "execution_event",
    }
}

words! {
    /// The states of an execution.
    ExecutionState {
        /// Planned, nothing applied outside.
        Planned = "planned",
        /// Under way.
        Running = "running",
        /// Done.
        Succeeded = "succeeded",
        /// Blocked, or gone wrong.
        Failed = "failed",
        /// Ended by policy.
        Cancelled = "cancelled",
    }
}

object! {
    /// Why an execution failed.
    EventError / EventErrorParts ["execution/6", "R4"] {
        /// A code.
        code: Text = "code",
        /// What went wrong, for a person.
        message: Text = "message",
        /// Whether another attempt may help.
        retryable: bool = "retryable",
    }
}

object! {
    /// What happened.
    EventPayload / EventPayloadParts ["execution/6", "R4"] {
        /// The execution.
        execution_id: ExecutionId = "executionId",
        /// The version of the workflow.
        workflow_version: Version = "workflowVersion",
        /// The version of the agent.
        agent_version: Version = "agentVersion",
        /// The version of this contract.
        execution_contract_version: ContractVersion = "executionContractVersion",
        /// Which try.
        attempt: Attempt = "attempt",
        /// What the plan is for.
        target: Name = "target",
        /// What was done.
        action: Name = "action",
        /// The snapshot it rests on.
        snapshot_at: Timestamp = "snapshotAt",
        /// Whether that snapshot hung together.
        coherence_status: Coherence = "coherenceStatus",
        /// Whether it was for drafts only.
        dry_run: bool = "dryRun",
        /// What came of it.
        result: Option<JsonObject> = "result",
        /// Why it failed.
        error: Option<EventError> = "error",
        /// Why it was cancelled.
        cancel_reason: Option<Text> = "cancelReason",
        /// What it is called elsewhere.
        external_refs: Option<JsonObject> = "externalRefs",
        /// How long it took, in milliseconds.
        duration_ms: Option<Amount> = "durationMs",
    }
}

object! {
    /// What the event rests on.
    EventLineage / EventLineageParts ["execution/6", "R4"] {
        /// The ledger entries.
        depends_on: Set<LedgerId, 1> = "dependsOnLedgerIds",
        /// The execution that this one tries again.
        rerun_of: Option<ExecutionId> = "rerunOfExecutionId",
    }
}

object! {
    /// One step of an execution, as the ledger keeps it.
    ExecutionEvent / ExecutionEventParts ["execution/6", "R4"] {
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The robot.
        robot_id: RobotId = "robotId",
        /// Always `agent-builder`.
        module: AgentBuilder = "module",
        /// Always `agent-builder`.
        source: AgentBuilder = "source",
        /// Always `execution_event`.
        kind: ExecutionEventType = "type",
        /// The state reached.
        state: ExecutionState = "state",
        /// When the ledger took it.
        created_at: Timestamp = "createdAt",
        /// What happened.
        payload: EventPayload = "payload",
        /// What it rests on.
        lineage: EventLineage = "lineage",
    }
}

impl Contract for ExecutionEvent {
    const NAME: ContractName = ContractName::ExecutionEvent;

    fn rules(parts: &ExecutionEventParts, report: &mut Report) {
        first_rules(parts, report);
        gate_rules(parts, report);
    }

    fn schema_rules() -> Vec<Value> {
        let coherence = |words: Value| has_in("payload", "coherenceStatus", json!({ "enum": words }));
        let stale = coherence(json!(["stale"]));
        let failed = json!({ "properties": { "state": { "const": "failed" } } });
        let payload = |schema: Value| json!({ "properties": { "payload": { "properties": schema } } });
        let blocked = json!({ "code": { "const": "COHERENCE_BLOCKED" }, "retryable": { "const": false } });
        let mut rules = vec![
            when(
                has("state", json!({ "const": "failed" })),
                json!({ "properties": { "payload": { "required": ["error"] } } }),
            ),
            when(
                has("state", json!({ "const": "cancelled" })),
                json!({ "properties": { "payload": { "required": ["cancelReason"] } } }),
            ),
            when(
                has("state", json!({ "enum": ["failed", "cancelled"] })),
                payload(json!({ "result": false })),
            ),
            when(stale.clone(), failed),
            when(stale, payload(json!({ "error": { "properties": blocked } }))),
        ];
        let state = |word: &str| has("state", json!({ "const": word }));
        let both = |one: Value, other: Value| json!({ "allOf": [one, other] });
        let is_not = |word: &str| json!({ "not": { "const": word } });
        let no_dry_run = has_in("payload", "dryRun", json!({ "const": false }));
        let (coherent, partial) = (coherence(json!(["coherent"])), coherence(json!(["partial"])));
        rules.extend([
            when(
                both(coherence(json!(["coherent", "partial"])), no_dry_run),
                json!({ "properties": { "state": is_not("succeeded") } }),
            ),
            when(
                both(coherent.clone(), state("failed")),
                payload(json!({ "error": { "properties": { "code": is_not("COHERENCE_BLOCKED") } } })),
            ),
            when(
                both(coherent, state("cancelled")),
                payload(json!({ "cancelReason": is_not(PARTIAL_REQUIRES_REVIEW) })),
            ),
            when(partial.clone(), json!({ "properties": { "state": is_not("planned") } })),
            when(
                both(partial.clone(), state("failed")),
                payload(json!({ "error": { "properties": {
                    "code": { "enum": ["COHERENCE_BLOCKED", "MODEL_OUTPUT_INVALID"] } } } })),
            ),
            when(
                both(partial, state("cancelled")),
                payload(json!({ "cancelReason": { "const": PARTIAL_REQUIRES_REVIEW } })),
            ),
        ]);
        rules
    }
}

impl ExecutionEvent {
    /// Judges an event that was recorded under the first rules of a log, before the gate was part of them: everything
    /// except the gate, and its context.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse_under_first_rules(
        bytes: &[u8],
        limits: &Limits,
        context: impl FnOnce(&ExecutionEventParts, &mut Report),
    ) -> Result<Self, Violations> {
        let (document, faults) = parse(bytes, limits);
        let mut report = Report::default();
        faults.into_iter().for_each(|fault| report.add_fault(fault));
        let parts = document.map(|document| {
            report.start_document();
            ExecutionEvent::read(document.root(), "", &mut report)
        });
        finish_under_first_rules(parts, report, context)
    }

    /// Judges an event that was already read, in the same way.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn check_under_first_rules(
        self,
        context: impl FnOnce(&ExecutionEventParts, &mut Report),
    ) -> Result<Self, Violations> {
        finish_under_first_rules(Some(self.into_parts()), Report::default(), context)
    }
}

fn finish_under_first_rules(
    parts: Option<ExecutionEventParts>,
    mut report: Report,
    context: impl FnOnce(&ExecutionEventParts, &mut Report),
) -> Result<ExecutionEvent, Violations> {
    if let Some(parts) = &parts {
        first_rules(parts, &mut report);
        context(parts, &mut report);
    }
    match parts.and_then(ExecutionEvent::finish) {
        Some(event) if report.is_clean() => Ok(event),
        _ => Err(report.into_violations_error()),
    }
}

/// The rules across fields that apply to every event ever recorded.
fn first_rules(parts: &ExecutionEventParts, report: &mut Report) {
    let payload = &parts.payload;
    if let (Some(snapshot_at), Some(created_at)) = (&payload.snapshot_at, &parts.created_at)
        && snapshot_at.instant() > created_at.instant()
    {
        report.add(
            "/payload/snapshotAt",
            "execution/7",
            Code::TooLate,
            format!("snapshotAt must not be after createdAt, {}", created_at.as_str()),
        );
    }
    if let (Maybe::Present(Some(rerun_of)), Some(own)) = (&parts.lineage.rerun_of, &payload.execution_id)
        && rerun_of == own
    {
        report.add(
            "/lineage/rerunOfExecutionId",
            "execution/2",
            Code::SelfReference,
            "a rerun names another execution than its own; give this one a new executionId",
        );
    }
    if let Some(state) = parts.state {
        state_rules(state, payload, report);
    }
    if payload.coherence_status == Some(Coherence::Stale) {
        stale_rules(parts, report);
    }
}

/// The gating matrix (§5) as far as it can be checked for an event alone: `running` is under way, and which of the
/// permitted outcomes it has depends on the client's policy, which an event does not contain.
fn gate_rules(parts: &ExecutionEventParts, report: &mut Report) {
    let payload = &parts.payload;
    let (Some(state), Some(coherence)) = (parts.state, payload.coherence_status) else { return };
    let mut refuse = |pointer: &str, message: String| {
        report.add(pointer, "execution/5", Code::GateRefused, message);
    };
    let code = payload.error.present().and_then(|error| error.code.as_ref()).map(Text::as_str);
    let reason = payload.cancel_reason.present().and_then(Option::as_ref).map(Text::as_str);
    let (blocked, invalid) = (ErrorCode::CoherenceBlocked.as_str(), ErrorCode::ModelOutputInvalid.as_str());
    match (coherence, state) {
        (Coherence::Stale, _) | (_, ExecutionState::Running) => {}
        (_, ExecutionState::Succeeded) => {
            if payload.dry_run == Some(false) {
                refuse("/state", format!("a {coherence} execution succeeds only with dryRun true"));
            }
        }
        (Coherence::Coherent, ExecutionState::Planned) => {}
        (Coherence::Partial, ExecutionState::Planned) => {
            refuse("/state", "an execution on a partial snapshot is never `planned`".to_owned());
        }
        (Coherence::Coherent, ExecutionState::Failed) => {
            if code == Some(blocked) {
                refuse("/payload/error/code", format!("a coherent execution does not fail with {blocked}"));
            }
        }
        (Coherence::Partial, ExecutionState::Failed) => {
            if code.is_some_and(|code| code != blocked && code != invalid) {
                let message = format!("a partial execution fails with {blocked} or {invalid}");
                refuse("/payload/error/code", message);
            }
        }
        (Coherence::Coherent, ExecutionState::Cancelled) => {
            if reason == Some(PARTIAL_REQUIRES_REVIEW) {
                let message = format!("a coherent execution is not cancelled with {PARTIAL_REQUIRES_REVIEW}");
                refuse("/payload/cancelReason", message);
            }
        }
        (Coherence::Partial, ExecutionState::Cancelled) => {
            if reason.is_some_and(|reason| reason != PARTIAL_REQUIRES_REVIEW) {
                let message =
                    format!("a partial execution is cancelled with {PARTIAL_REQUIRES_REVIEW} alone");
                refuse("/payload/cancelReason", message);
            }
        }
    }
}

fn state_rules(state: ExecutionState, payload: &EventPayloadParts, report: &mut Report) {
    if state == ExecutionState::Failed && !payload.error.is_present() {
        let message = "a failed event must say why; add `error` with code, message and retryable";
        report.add("/payload/error", "execution/7", Code::Required, message);
    }
    if state == ExecutionState::Cancelled && !payload.cancel_reason.is_present() {
        let message = "a cancelled event must say why; add `cancelReason`";
        report.add("/payload/cancelReason", "execution/7", Code::Required, message);
    }
    if matches!(state, ExecutionState::Failed | ExecutionState::Cancelled) && payload.result.is_present() {
        let message = format!("a {state} event has no result; remove it");
        report.add("/payload/result", "execution/7", Code::Forbidden, message);
    }
}

fn stale_rules(parts: &ExecutionEventParts, report: &mut Report) {
    if let Some(state) = parts.state
        && state != ExecutionState::Failed
    {
        let message = format!("an execution on a stale snapshot can only be `failed`, not `{state}`");
        report.add("/state", "execution/7", Code::Mismatch, message);
    }
    let Some(error) = parts.payload.error.present() else { return };
    let blocked = ErrorCode::CoherenceBlocked.as_str();
    if let Some(code) = &error.code
        && code.as_str() != blocked
    {
        let message = format!("the error of a stale execution is `{blocked}`");
        report.add("/payload/error/code", "execution/7", Code::Mismatch, message);
    }
    if error.retryable == Some(true) {
        let message = "a stale execution is not retryable; send false";
        report.add("/payload/error/retryable", "execution/7", Code::Mismatch, message);
    }
}

/// The facts about an entry that an event depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRef {
    /// The robot it belongs to, if that is known.
    pub robot_id: Option<RobotId>,
    /// When the ledger accepted it.
    pub created_at: Instant,
}

/// Judges an event's lineage against the ledger (§7, R19): every id is an entry of this tenant and robot, created
/// at or before snapshotAt. `entry` looks an id up *in the event's tenant*, so that another tenant's entry is
/// as unknown as one that never existed.
pub fn rests_on_ledger(
    event: &ExecutionEventParts,
    entry: impl Fn(&TenantId, &LedgerId) -> Option<EntryRef>,
    report: &mut Report,
) {
    let (Some(tenant_id), Some(ids)) = (&event.tenant_id, &event.lineage.depends_on) else { return };
    for (position, id) in ids.iter().enumerate() {
        let Some(id) = id else { continue };
        let pointer = || format!("/lineage/dependsOnLedgerIds/{position}");
        let Some(found) = entry(tenant_id, id) else {
            let message =
                format!("the ledger has no entry `{id}` in this tenant; depend on entries that exist");
            report.add(pointer(), "execution/7", Code::UnknownId, message);
            continue;
        };
        if let (Some(theirs), Some(ours)) = (&found.robot_id, &event.robot_id)
            && theirs != ours
        {
            let message = format!("entry `{id}` belongs to another robot; depend on entries of `{ours}`");
            report.add(pointer(), "R19", Code::UnknownId, message);
        }
        if let Some(snapshot_at) = &event.payload.snapshot_at
            && found.created_at > snapshot_at.instant()
        {
            let message = format!(
                "entry `{id}` was created at {}, after snapshotAt; depend on what the snapshot held",
                found.created_at
            );
            report.add(pointer(), "execution/7", Code::TooLate, message);
        }
    }
}
