//! AgentOutput (agent-boundary-v1 §5, R16): what an agent gives back, alone and against the input it answers.
//! An output is judged as a whole: one bad artifact refuses all of it.

use std::ops::Deref;

use serde_json::{Value, json};

use crate::agent_input::{AgentInput, AgentInputParts, ArtifactType, is_stale_execute};
use crate::contract::{Contract, ContractName, Valid};
use crate::instant::Timestamp;
use crate::json::{JsonObject, Limits};
use crate::scalar::{Amount, ExecutionId, LedgerId, Text};
use crate::schema::{has, when};
use crate::shape::{List, Maybe, Set, Shape as _, object, words};
use crate::violation::{Code, Report, Violations};

words! {
    /// How the agent ended.
    AgentStatus {
        /// It made artifacts.
        Succeeded = "succeeded",
        /// It was not allowed to run.
        Blocked = "blocked",
        /// It failed.
        Failed = "failed",
    }
}

object! {
    /// What went wrong in the agent.
    AgentError / AgentErrorParts ["boundary/5", "R4"] {
        /// The agent's own code.
        code: Text = "code",
        /// What went wrong, for a person.
        message: Text = "message",
        /// Whether another try may help.
        retryable: Option<bool> = "retryable",
    }
}

object! {
    /// How an artifact came about.
    ArtifactMetadata / ArtifactMetadataParts ["boundary/5", "R4"] {
        /// When it was made.
        generated_at: Timestamp = "generatedAt",
        /// By which model.
        model: Option<Box<str>> = "model",
        /// With how many tokens.
        tokens_used: Option<Amount> = "tokensUsed",
    }
}

object! {
    /// One thing an agent made.
    AgentArtifact / AgentArtifactParts ["boundary/5", "R4"] {
        /// What it is.
        kind: ArtifactType = "type",
        /// The thing itself.
        payload: JsonObject = "payload",
        /// The ledger entries it is based on.
        depends_on: Set<LedgerId, 1> = "dependsOnLedgerIds",
        /// How it came about.
        metadata: ArtifactMetadata = "metadata",
    }
}

object! {
    /// What an agent gives back.
    AgentOutput / AgentOutputParts ["boundary/5", "boundary/6"] {
        /// True exactly when the status is `succeeded`.
        ok: bool = "ok",
        /// The input's execution.
        execution_id: ExecutionId = "executionId",
        /// How it ended.
        status: AgentStatus = "status",
        /// What was made; none unless it succeeded.
        artifacts: Option<List<AgentArtifact>> = "artifacts",
        /// What went wrong.
        error: Option<AgentError> = "error",
        /// Whatever helps to understand the run.
        diagnostics: Option<JsonObject> = "diagnostics",
    }
}

impl Contract for AgentOutput {
    const NAME: ContractName = ContractName::AgentOutput;

    fn rules(parts: &AgentOutputParts, report: &mut Report) {
        let Some(status) = parts.status else { return };
        let has_succeeded = status == AgentStatus::Succeeded;
        if parts.ok.is_some_and(|ok| ok != has_succeeded) {
            report.add(
                "/ok",
                "R16",
                Code::Mismatch,
                format!("`ok` must be {has_succeeded} when status is `{status}`"),
            );
        }
        match &parts.artifacts {
            Maybe::Absent if has_succeeded => report.add(
                "/artifacts",
                "boundary/6",
                Code::Required,
                "`artifacts` is missing; a succeeded output must hold at least one",
            ),
            Maybe::Present(Some(artifacts)) if has_succeeded && artifacts.is_empty() => report.add(
                "/artifacts",
                "boundary/6",
                Code::Empty,
                "a succeeded output must hold at least one artifact",
            ),
            Maybe::Present(Some(artifacts)) if !has_succeeded && !artifacts.is_empty() => report.add(
                "/artifacts",
                "R16",
                Code::Forbidden,
                format!("a {status} output must hold no artifacts; remove them"),
            ),
            _ => {}
        }
    }

    fn schema_rules() -> Vec<Value> {
        let succeeded = has("status", json!({ "const": "succeeded" }));
        vec![
            when(
                succeeded.clone(),
                json!({
                    "properties": { "ok": { "not": { "const": false } }, "artifacts": { "minItems": 1 } },
                    "required": ["artifacts"],
                }),
            ),
            when(
                has("status", json!({ "enum": ["blocked", "failed"] })),
                json!({ "properties": { "ok": { "not": { "const": true } }, "artifacts": { "maxItems": 0 } } }),
            ),
        ]
    }
}

/// An output that answers its input (R16). It only comes from a judgement against that input, so it is not judged again.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentAnswer(Valid<AgentOutput>);

impl AgentAnswer {
    /// Reads an output and judges it against its input.
    ///
    /// # Errors
    /// If it breaks its contract, or does not answer the input.
    pub fn parse(bytes: &[u8], limits: &Limits, input: &AgentInput) -> Result<Self, Violations> {
        let asked = input.clone().into_parts();
        let judged = Valid::parse_in(bytes, limits, |output, report| answers_input(output, &asked, report));
        judged.map(AgentAnswer)
    }
}

impl Deref for AgentAnswer {
    type Target = Valid<AgentOutput>;

    fn deref(&self) -> &Valid<AgentOutput> {
        &self.0
    }
}

/// Judges an output against the input it answers: same execution, only allowed types and lineage (§6).
pub fn answers_input(output: &AgentOutputParts, input: &AgentInputParts, report: &mut Report) {
    if let (Some(answered), Some(asked)) = (&output.execution_id, &input.execution_id)
        && answered != asked
    {
        report.add(
            "/executionId",
            "R16",
            Code::ContextMismatch,
            format!("the input's executionId is `{asked}`; answer with that one"),
        );
    }
    if output.status == Some(AgentStatus::Succeeded) && is_stale_execute(input) {
        report.add(
            "/status",
            "boundary/6",
            Code::CoherenceBlocked,
            "an input to execute on a stale snapshot cannot succeed; answer `blocked`",
        );
    }
    let Some(Some(artifacts)) = output.artifacts.present() else { return };
    let mut allowed_ids: Option<Vec<&LedgerId>> =
        input.allowed_lineage.depends_on.as_ref().map(|ids| ids.iter().flatten().collect());
    if let Some(ids) = &mut allowed_ids {
        ids.sort_unstable();
    }
    let allowed_types = input.allowed_artifact_types.as_deref();
    for (at, artifact) in artifacts.iter().enumerate() {
        if let (Some(kind), Some(types)) = (artifact.kind, allowed_types)
            && !types.contains(&Some(kind))
        {
            let allowed: Vec<&str> = types.iter().flatten().map(|kind| kind.as_str()).collect();
            report.add(
                format!("/artifacts/{at}/type"),
                "boundary/6",
                Code::NotListed,
                format!("`{kind}` is not among the allowed artifact types: {}", allowed.join(", ")),
            );
        }
        let (Some(ids), Some(allowed)) = (&artifact.depends_on, &allowed_ids) else { continue };
        for (position, id) in ids.iter().enumerate() {
            if let Some(id) = id
                && allowed.binary_search(&id).is_err()
            {
                report.add(
                    format!("/artifacts/{at}/dependsOnLedgerIds/{position}"),
                    "boundary/6",
                    Code::UnknownId,
                    format!("`{id}` is not in the input's allowedLineage; depend only on ids given there"),
                );
            }
        }
    }
}
