//! Receipt (agent-run, R27, R28, R31): what a run did and how it was isolated, for someone who was not there and
//! trusts no one who was.

use serde_json::{Value, json};

use crate::contract::{Contract, ContractName};
use crate::digest::Blake3;
use crate::instant::Timestamp;
use crate::json::{ComposeError, JsonObject};
use crate::scalar::{Amount, Count, ItemId, Name, Text, Version};
use crate::schema::{has, when};
use crate::shape::{List, object, words};
use crate::uuid::Uuid;
use crate::violation::{Code, Report};
use crate::work_item::{AgentId, WorkspacePath};

/// The start of the key of an entry that holds the receipt of a run; the run's id follows.
pub const RUN_RECEIPT_KEY: &str = "run_receipt:";
/// The largest receipt that is read, and so the largest that is written.
pub const MAX_RECEIPT_BYTES: usize = 32 << 20;

words! {
    /// What a receipt is of.
    Phase {
        /// The run of one work item.
        Run = "run",
        /// The merge of a level's runs.
        Reconcile = "reconcile",
    }
}

words! {
    /// How it ended.
    ReceiptStatus {
        /// Whole.
        Succeeded = "succeeded",
        /// Without a trace.
        Failed = "failed",
    }
}

words! {
    /// What became of a file.
    ArtifactChange {
        /// It is new.
        Created = "created",
        /// Its content, kind or executable bit changed.
        Modified = "modified",
        /// It is gone.
        Deleted = "deleted",
    }
}

words! {
    /// How strong the sandbox around the agent was.
    SandboxStrength {
        /// Every layer was in force.
        Full = "full",
        /// Some were missing, and that was accepted openly.
        Reduced = "reduced",
        /// The agent ran elsewhere, out of reach.
        Remote = "remote",
    }
}

words! {
    /// How a run rests on an earlier one (R34).
    RunRelation {
        /// It judges the earlier one's change again.
        RetryOf = "retry_of",
        /// It takes back what the earlier one changed.
        Undoes = "undoes",
    }
}

object! {
    /// The run that another one rests on (R34).
    EarlierRun / EarlierRunParts ["run/receipt", "R4"] {
        /// How.
        relation: RunRelation = "relation",
        /// The run.
        run: Uuid = "run",
        /// The hash of its receipt.
        receipt_hash: Blake3 = "hash",
    }
}

object! {
    /// One file that really changed (R27).
    ReceiptArtifact / ReceiptArtifactParts ["run/receipt", "R4"] {
        /// Where it is in the workspace.
        path: WorkspacePath = "path",
        /// What became of it.
        change: ArtifactChange = "change",
        /// Its content afterwards; absent if it is gone.
        hash: Option<Blake3> = "hash",
    }
}

object! {
    /// A file that helps to prove the run: a replay script, a stored state.
    ProofArtifact / ProofArtifactParts ["run/receipt", "R4"] {
        /// Where it is.
        path: Text = "path",
        /// Its content.
        hash: Blake3 = "hash",
    }
}

object! {
    /// One delta (R28): a hunk of a text file, or any other change as a whole.
    Delta / DeltaParts ["run/receipt", "R4"] {
        /// The file.
        path: WorkspacePath = "path",
        /// The first line the hunk replaces, from 1; absent if the change is not a hunk.
        line: Option<Count> = "line",
        /// How many lines it takes away.
        removed: Option<Count> = "removed",
        /// How many lines it puts there.
        added: Option<Count> = "added",
    }
}

object! {
    /// One tool operation, as the agent reported it (R27).
    ToolCall / ToolCallParts ["run/receipt", "R4"] {
        /// When.
        at: Option<Timestamp> = "at",
        /// Which tool.
        tool: Name = "tool",
        /// With what.
        input: Option<JsonObject> = "input",
    }
}

words! {
    /// Why a connection was not made.
    ConnectionRefusal {
        /// The host and port were not granted.
        NotGranted = "not_granted",
        /// The name was granted but leads to a private address, which was not.
        PrivateAddress = "private_address",
        /// The name was granted but does not resolve.
        Unresolved = "unresolved",
        /// It was granted but could not be reached.
        Unreachable = "unreachable",
        /// The request could not be understood.
        Malformed = "malformed",
        /// Too many connections were open.
        TooMany = "too_many",
    }
}

object! {
    /// One connection that was made or refused.
    Connection / ConnectionParts ["run/receipt", "R4"] {
        /// To where, `host:port`.
        host: Name = "host",
        /// Whether it was let through.
        allowed: bool = "allowed",
        /// Why it was not; absent if it was, and in receipts of older versions.
        reason: Option<ConnectionRefusal> = "reason",
    }
}

object! {
    /// What a run did, and how it was isolated.
    Receipt / ReceiptParts ["run/receipt", "R4"] {
        /// Its own id.
        id: Uuid = "id",
        /// The work item, if it is of a run.
        work_item_id: Option<ItemId> = "work_item_id",
        /// The agent.
        agent_id: AgentId = "agent_id",
        /// What it is of.
        phase: Phase = "phase",
        /// When the run started.
        started_at: Timestamp = "started_at",
        /// When it ended.
        finished_at: Timestamp = "finished_at",
        /// The state of the workspace before.
        before_hash: Blake3 = "before_hash",
        /// The state afterwards.
        after_hash: Blake3 = "after_hash",
        /// The BLAKE3 of the canonical receipt without this field.
        receipt_hash: Blake3 = "receipt_hash",
        /// What made it.
        toolchain_version: Version = "toolchain_version",
        /// How text files were compared.
        diff_algorithm: Option<Name> = "diff_algorithm",
        /// The files that changed.
        artifacts: List<ReceiptArtifact> = "artifacts",
        /// The files that prove it.
        proof_artifacts: List<ProofArtifact> = "proof_artifacts",
        /// Changes to anything else.
        delta_o: List<Delta> = "delta_o",
        /// Changes to generated files and documentation.
        delta_pi: List<Delta> = "delta_pi",
        /// Changes to protected paths: policies, CI, configuration.
        delta_lambda: List<Delta> = "delta_lambda",
        /// Changes to tests and schemas.
        delta_q: List<Delta> = "delta_q",
        /// What the agent reported to have done.
        tool_trace: List<ToolCall> = "tool_trace",
        /// How many tokens it used, if known.
        tokens_used: Option<Amount> = "tokens_used",
        /// What it cost in US dollars, if known.
        cost_usd: Option<Amount> = "cost_usd",
        /// What the tests printed.
        test_log: Option<Box<str>> = "test_log",
        /// The receipt before this one in the workspace; absent in the first.
        previous_receipt_hash: Option<Blake3> = "previous_receipt_hash",
        /// How strong the sandbox was.
        sandbox_strength: SandboxStrength = "sandbox_strength",
        /// The connections made and refused; the first of them if there are too many to list.
        connections: List<Connection> = "connections",
        /// How many more connections there were; absent if all are listed.
        connections_left_off: Option<Count> = "connections_left_off",
        /// The run that this one judges again or undoes.
        earlier_run: Option<EarlierRun> = "earlier_run",
        /// How it ended.
        status: ReceiptStatus = "status",
        /// Why it failed.
        error: Option<Text> = "error",
    }
}

impl Receipt {
    /// What `receipt_hash` must be: the BLAKE3 of the canonical receipt without that field.
    ///
    /// # Errors
    /// If the receipt's own reader would refuse it.
    pub fn content_hash(&self) -> Result<Blake3, ComposeError> {
        let hash = format!("\"receipt_hash\":\"{}\",", self.receipt_hash);
        Ok(Blake3::of(self.to_canonical()?.replacen(&hash, "", 1).as_bytes()))
    }
}

impl Contract for Receipt {
    const NAME: ContractName = ContractName::Receipt;

    fn rules(parts: &ReceiptParts, report: &mut Report) {
        if let (Some(started), Some(finished)) = (&parts.started_at, &parts.finished_at)
            && finished.instant() < started.instant()
        {
            let message = "the run ended before it started; fix the timestamps";
            report.add("/finished_at", "run/receipt", Code::TooLate, message);
        }
        for (position, artifact) in parts.artifacts.iter().flatten().enumerate() {
            let Some(change) = artifact.change else { continue };
            let pointer = format!("/artifacts/{position}/hash");
            match (change == ArtifactChange::Deleted, artifact.hash.is_present()) {
                (true, true) => {
                    report.add(
                        pointer,
                        "run/receipt",
                        Code::Forbidden,
                        "a deleted file has no hash; remove it",
                    );
                }
                (false, false) => {
                    let message = format!("a {change} file must have its hash; add it");
                    report.add(pointer, "run/receipt", Code::Required, message);
                }
                _ => {}
            }
        }
        for (position, connection) in parts.connections.iter().flatten().enumerate() {
            if connection.allowed == Some(true) && connection.reason.is_present() {
                let message = "a connection that was let through has no reason; remove it";
                report.add(
                    format!("/connections/{position}/reason"),
                    "run/receipt",
                    Code::Forbidden,
                    message,
                );
            }
        }
        match parts.status {
            Some(ReceiptStatus::Failed) => failure_rules(parts, report),
            Some(ReceiptStatus::Succeeded) if parts.error.is_present() => {
                report.add("/error", "R31", Code::Forbidden, "a success has no error; remove it");
            }
            _ => {}
        }
    }

    fn schema_rules() -> Vec<Value> {
        vec![
            when(
                has("status", json!({ "const": "failed" })),
                json!({ "required": ["error"], "properties": { "artifacts": { "maxItems": 0 } } }),
            ),
            when(has("status", json!({ "const": "succeeded" })), json!({ "properties": { "error": false } })),
            json!({ "properties": { "artifacts": { "items": { "allOf": [
                when(has("change", json!({ "const": "deleted" })), json!({ "properties": { "hash": false } })),
                when(has("change", json!({ "enum": ["created", "modified"] })), json!({ "required": ["hash"] })),
            ] } } } }),
            json!({ "properties": { "connections": { "items":
                when(has("allowed", json!({ "const": true })), json!({ "properties": { "reason": false } })),
            } } }),
        ]
    }
}

fn failure_rules(parts: &ReceiptParts, report: &mut Report) {
    if !parts.error.is_present() {
        report.add("/error", "R31", Code::Required, "a failure must say why; add `error`");
    }
    if parts.artifacts.as_ref().is_some_and(|artifacts| !artifacts.is_empty()) {
        report.add(
            "/artifacts",
            "R31",
            Code::Forbidden,
            "a failure leaves no artifacts; the list must be empty",
        );
    }
    if let (Some(before), Some(after)) = (&parts.before_hash, &parts.after_hash)
        && before != after
    {
        let message = "a failure leaves the workspace as it was; after_hash must equal before_hash";
        report.add("/after_hash", "R31", Code::ContextMismatch, message);
    }
}
