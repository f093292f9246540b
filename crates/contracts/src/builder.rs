//! BuilderRunRequest and BuilderRunResponse (builder-v1 §3, §4, R13): what a client asks the Builder to do, and
//! its answer.

use serde_json::{Value, json};

use crate::agent_input::{ArtifactType, Coherence, ObjectiveType};
use crate::contract::{Contract, ContractName};
use crate::execution_event::ExecutionState;
use crate::json::JsonObject;
use crate::scalar::{Attempt, ExecutionId, LedgerId, Name, RobotId, Text, Version};
use crate::schema::{has, when};
use crate::shape::{List, object, words};
use crate::violation::{Code, Report};

words! {
    /// The error codes of the Builder.
    ErrorCode {
        /// The request breaks the contract; not retryable.
        InvalidRequest = "INVALID_REQUEST",
        /// Nothing is known yet; retry after new data.
        SnapshotEmpty = "SNAPSHOT_EMPTY",
        /// Lineage names what the ledger does not hold; retry when it is restored.
        MissingLineage = "MISSING_LINEAGE",
        /// The snapshot is not coherent; not retryable until it is.
        CoherenceBlocked = "COHERENCE_BLOCKED",
        /// The agent's answer broke its contract; retryable.
        ModelOutputInvalid = "MODEL_OUTPUT_INVALID",
        /// The execution is recorded otherwise; a new executionId is needed.
        IdempotencyConflict = "IDEMPOTENCY_CONFLICT",
    }
}

words! {
    /// What to do about a stale snapshot: always block.
    OnStale {
        /// Block.
        Block = "block",
    }
}

words! {
    /// What to do about a partial snapshot.
    OnPartial {
        /// Block.
        Block = "block",
        /// Make drafts only.
        DraftOnly = "draft_only",
    }
}

object! {
    /// What to do if the snapshot is not coherent.
    CoherencePolicy / CoherencePolicyParts ["builder/3", "R4"] {
        /// When it is stale.
        on_stale: OnStale = "on_stale",
        /// When it is partial.
        on_partial: OnPartial = "on_partial",
    }
}

object! {
    /// What a client asks of the Builder. The tenant comes from the session, never from here.
    BuilderRequest / BuilderRequestParts ["builder/3", "R4"] {
        /// The robot.
        robot_id: RobotId = "robotId",
        /// What to plan.
        objective_type: ObjectiveType = "objective_type",
        /// Whatever describes it.
        objective_payload: JsonObject = "objective_payload",
        /// Whatever the client wants kept.
        constraints: JsonObject = "constraints",
        /// What to do if the snapshot is not coherent.
        coherence_policy: CoherencePolicy = "coherence_policy",
        /// Drafts only.
        dry_run: bool = "dryRun",
        /// The version of the workflow.
        workflow_version: Version = "workflowVersion",
        /// The version of the agent.
        agent_version: Version = "agentVersion",
        /// Which try.
        attempt: Attempt = "attempt",
        /// The execution; the server makes one if it is absent.
        execution_id: Option<ExecutionId> = "executionId",
    }
}

impl Contract for BuilderRequest {
    const NAME: ContractName = ContractName::BuilderRequest;
    const REFUSAL: Option<Code> = Some(Code::InvalidRequest);

    fn rules(_: &BuilderRequestParts, _: &mut Report) {}
}

object! {
    /// Whether the snapshot hung together.
    CoherenceReport / CoherenceReportParts ["builder/4", "R4"] {
        /// The status.
        status: Coherence = "status",
        /// The types that rest on overtaken evidence.
        outdated: Option<List<Name>> = "outdated",
        /// Why, in one sentence for a person.
        reason: Option<Text> = "reason",
    }
}

object! {
    /// One artifact that was written.
    ArtifactRef / ArtifactRefParts ["builder/4", "R4"] {
        /// Its ledger entry.
        id: LedgerId = "id",
        /// What it is.
        kind: ArtifactType = "type",
    }
}

object! {
    /// What the Builder answers.
    BuilderResponse / BuilderResponseParts ["builder/4", "R4"] {
        /// True for planned and succeeded alone.
        ok: bool = "ok",
        /// The execution; absent only when the request was invalid.
        execution_id: Option<ExecutionId> = "executionId",
        /// The state reached.
        state: ExecutionState = "state",
        /// Whether the snapshot was coherent, if one was derived.
        coherence: Option<CoherenceReport> = "coherence",
        /// What was written.
        artifacts: List<ArtifactRef> = "artifacts",
        /// What went wrong.
        error: Option<ErrorCode> = "error",
        /// Why the gate refused.
        blocking_reason: Option<ErrorCode> = "blocking_reason",
        /// The answer was recorded before; nothing was done.
        idempotent: bool = "idempotent",
    }
}

impl Contract for BuilderResponse {
    const NAME: ContractName = ContractName::BuilderResponse;

    fn rules(parts: &BuilderResponseParts, report: &mut Report) {
        if let (Some(ok), Some(state)) = (parts.ok, parts.state) {
            let is_good = matches!(state, ExecutionState::Planned | ExecutionState::Succeeded);
            if ok != is_good {
                report.add(
                    "/ok",
                    "R13",
                    Code::Mismatch,
                    format!("`ok` must be {is_good} when state is `{state}`"),
                );
            }
            if ok && parts.error.is_present() {
                report.add("/error", "R13", Code::Forbidden, "an answer that is ok has no error; remove it");
            }
        }
        if let Some(reason) = parts.blocking_reason.present() {
            if parts.error.is_present() {
                let message = "an answer has an error or a blocking_reason, never both; remove one";
                report.add("/blocking_reason", "R13", Code::Forbidden, message);
            }
            if reason.is_some_and(|reason| reason != ErrorCode::CoherenceBlocked) {
                let message = "the gate blocks only with COHERENCE_BLOCKED; other codes belong in `error`";
                report.add("/blocking_reason", "R13", Code::Mismatch, message);
            }
            if parts.state.is_some_and(|state| state != ExecutionState::Failed) {
                report.add("/state", "R13", Code::Mismatch, "an answer that the gate blocks is `failed`");
            }
        }
        let is_invalid_request = parts.error.present() == Some(&Some(ErrorCode::InvalidRequest));
        if !parts.execution_id.is_present() && !is_invalid_request {
            let message = "only an answer with error INVALID_REQUEST may lack an executionId; add it";
            report.add("/executionId", "builder/4", Code::Required, message);
        }
    }

    fn schema_rules() -> Vec<Value> {
        let ok = |value: bool| json!({ "properties": { "ok": { "not": { "const": !value } } } });
        let invalid_request = has("error", json!({ "const": "INVALID_REQUEST" }));
        vec![
            when(has("state", json!({ "enum": ["planned", "succeeded"] })), ok(true)),
            when(has("state", json!({ "enum": ["running", "failed", "cancelled"] })), ok(false)),
            when(has("ok", json!({ "const": true })), json!({ "properties": { "error": false } })),
            when(
                has("blocking_reason", json!({})),
                json!({ "properties": {
                    "error": false,
                    "state": { "const": "failed" },
                    "blocking_reason": { "const": "COHERENCE_BLOCKED" },
                } }),
            ),
            json!({ "anyOf": [{ "required": ["executionId"] }, invalid_request] }),
        ]
    }
}
