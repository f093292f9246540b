//! The `execution_record` of an attempt (R12): everything its decision depended on, and its answer. Owns the fields of the
//! document; how decisions use it is for `decision::builder`.
//!
//! The Builder writes it together with the event and reads it back to answer a repeat (R11), so it is composed and read from this one
//! list. A record of an earlier version has no `derivation`.

use crate::agent_input::{ArtifactType, Coherence, ContractVersion, RunMode};
use crate::agent_output::ArtifactMetadata;
use crate::contract::read_own;
use crate::digest::Blake3;
use crate::execution_event::ExecutionState;
use crate::instant::Timestamp;
use crate::json::JsonObject;
use crate::scalar::{Amount, Attempt, Count, ExecutionId, LedgerId};
use crate::shape::{List, Set, object};
use crate::violation::Violation;
use crate::{BuilderRequest, BuilderResponse, PolicyOutput};

object! {
    /// Payloads that a snapshot lists by id alone, because they are beyond its bound.
    OmittedPayloads / OmittedPayloadsParts ["record", "R4"] {
        /// How many bytes they have together.
        bytes: Count = "bytes",
        /// How many there are.
        count: Count = "count",
        /// How many bytes of payloads the snapshot holds at most.
        limit: Count = "limit",
    }
}

object! {
    /// The snapshot that was decided on.
    RecordedSnapshot / RecordedSnapshotParts ["record", "R4"] {
        /// The place in the ledger up to which was read.
        seq: Count = "seq",
        /// BLAKE3 of its canonical text.
        digest: Blake3 = "digest",
        /// Its own time.
        snapshot_at: Timestamp = "snapshotAt",
        /// Its coherence.
        coherence_status: Coherence = "coherenceStatus",
        /// How many entries may be depended on.
        lineage_count: Count = "lineageCount",
        /// There were more than may be named.
        is_lineage_cut: bool = "isLineageCut",
        /// What it lists without payload, if anything.
        omitted_payloads: Option<OmittedPayloads> = "omittedPayloads",
    }
}

object! {
    /// What the policy was asked, by which rules, and what it said.
    RecordedPolicy / RecordedPolicyParts ["record", "R4"] {
        /// When freshness was judged.
        evaluated_at: Timestamp = "evaluatedAt",
        /// BLAKE3 of the canonical PolicyInput.
        input_digest: Blake3 = "inputDigest",
        /// The thresholds that were asked with.
        thresholds: JsonObject = "thresholds",
        /// The rules in force.
        rules: JsonObject = "rules",
        /// BLAKE3 of the rules' text.
        rules_digest: Blake3 = "rulesDigest",
        /// The coherence rules in force.
        coherence_rules: JsonObject = "coherenceRules",
        /// What the policy said.
        output: PolicyOutput = "output",
    }
}

object! {
    /// What the gate said (R13).
    RecordedGate / RecordedGateParts ["record", "R4"] {
        /// Whether the agent runs.
        runs: bool = "runs",
        /// How, if it runs.
        run_mode: Option<RunMode> = "runMode",
        /// The state that the attempt ends in, unless the agent fails.
        outcome: ExecutionState = "outcome",
        /// What the agent may make.
        allowed_artifact_types: Set<ArtifactType> = "allowedArtifactTypes",
    }
}

object! {
    /// The agent that was called.
    RecordedAgent / RecordedAgentParts ["record", "R4"] {
        /// Which it is, and how strong its sandbox was.
        identity: JsonObject = "identity",
        /// What it wrote besides its answer, cut to a bound.
        diagnostics: Box<str> = "diagnostics",
        /// How many tokens it used, if it said so.
        tokens_used: Option<Amount> = "tokensUsed",
    }
}

object! {
    /// An artifact that was written.
    RecordedArtifact / RecordedArtifactParts ["record", "R4"] {
        /// Its entry.
        id: LedgerId = "id",
        /// What it is.
        kind: ArtifactType = "type",
        /// How it came about.
        metadata: ArtifactMetadata = "metadata",
    }
}

object! {
    /// The record of one attempt of an execution.
    ExecutionRecord / ExecutionRecordParts ["record", "R4"] {
        /// Which version of the document.
        version: ContractVersion = "recordVersion",
        /// By which rule the snapshot was derived (R20).
        derivation: Option<Count> = "derivation",
        /// The execution.
        execution_id: ExecutionId = "executionId",
        /// Which attempt.
        attempt: Attempt = "attempt",
        /// An earlier attempt had failed.
        is_retry: bool = "isRetry",
        /// What a repeat is recognised by.
        fingerprint: Blake3 = "fingerprint",
        /// The request, its executionId filled in.
        request: BuilderRequest = "request",
        /// The execution that it tries again.
        rerun_of: Option<ExecutionId> = "rerunOfExecutionId",
        /// The version of the configuration in force.
        configuration: Blake3 = "configurationVersion",
        /// The snapshot.
        snapshot: RecordedSnapshot = "snapshot",
        /// The policy's decision.
        policy: RecordedPolicy = "policy",
        /// The gate's.
        gate: RecordedGate = "gate",
        /// The agent, if it was called.
        agent: Option<RecordedAgent> = "agent",
        /// What it made.
        artifacts: List<RecordedArtifact> = "artifacts",
        /// Why the attempt ended so, for a person.
        reason: Box<str> = "reason",
        /// The answer to the request.
        answer: BuilderResponse = "answer",
    }
}

impl ExecutionRecord {
    /// Reads a record that CreAleph wrote, or reports everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, usize::MAX, "record")
    }
}
