//! A receipt as an in-toto Statement v1: the same facts for users whose tools read attestations. Owns the shape of the
//! statement and of our predicate in it; how it is signed (DSSE) is in `docs/receipts.md`.

use crate::digest::{Blake3, ContentDigests, GitHash, Sha256};
use crate::json::{ComposeError, Limits, canonical_of, parse};
use crate::provenance::{AgentFacts, HiddenFacts, LocalUser, StatedVerdict};
use crate::receipt::{Receipt, SandboxStrength};
use crate::scalar::{Amount, Count, Name, Text, TimeoutMs};
use crate::shape::{List, Shape, object, words};
use crate::violation::{Code, Report, Violation};
use crate::work_item::WorkItem;

/// The media type of a statement, as the signature covers it.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The name of the first subject of every statement: the receipt itself.
pub const RECEIPT_NAME: &str = "RECEIPT.json";
/// The name of the signed statement next to a receipt.
pub const ENVELOPE_NAME: &str = "RECEIPT.dsse.json";
/// The name of the work item next to a receipt.
pub const ITEM_NAME: &str = "work-item.json";
/// The largest statement that is read.
pub const MAX_STATEMENT_BYTES: usize = 64 << 20;

words! {
    /// What a statement says it is.
    StatementType {
        /// Version 1.
        V1 = "https://in-toto.io/Statement/v1",
    }
}

words! {
    /// What the predicate says it is.
    PredicateType {
        /// A work run, version 1.
        WorkRunV1 = "urn:crealeph:predicate:work-run:v1",
        /// Version 2: it names who started the run, the agent's program and models, the verdicts, and what was hidden.
        WorkRunV2 = "urn:crealeph:predicate:work-run:v2",
    }
}

object! {
    /// A content or commit, by the names it has.
    DigestSet / DigestSetParts ["attestation", "R4"] {
        /// BLAKE3 of the content.
        blake3: Option<Blake3> = "blake3",
        /// Git's name of the content.
        git_blob: Option<GitHash> = "gitBlob",
        /// Git's name of the commit.
        git_commit: Option<GitHash> = "gitCommit",
        /// SHA-256 of the content.
        sha256: Option<Sha256> = "sha256",
    }
}

impl From<ContentDigests> for DigestSet {
    fn from(content: ContentDigests) -> Self {
        DigestSet {
            blake3: Some(content.blake3),
            git_blob: Some(content.git_blob),
            git_commit: None,
            sha256: Some(content.sha256),
        }
    }
}

object! {
    /// One thing the statement is about.
    Subject / SubjectParts ["attestation", "R4"] {
        /// Its path in the workspace, the branch it was committed to, or `RECEIPT.json`.
        name: Text = "name",
        /// What it is.
        digest: DigestSet = "digest",
    }
}

object! {
    /// How much the run was allowed.
    StatedBounds / StatedBoundsParts ["attestation", "R4"] {
        /// How many files it might change.
        max_files: Count = "max_files",
        /// How many tool operations it might use.
        max_tool_ops: Count = "max_tool_ops",
        /// How many deltas the change might have.
        max_delta_size: Count = "max_delta_size",
        /// How long it might take.
        timeout_ms: TimeoutMs = "timeout_ms",
        /// How many tokens it might use.
        max_tokens: Option<Count> = "max_tokens",
        /// What it might cost in US dollars.
        max_cost_usd: Option<Amount> = "max_cost_usd",
        /// The paths it might change, as globs; absent if all but the denied ones were.
        allowed_paths: Option<List<Text>> = "allowed_paths",
        /// The paths it might not change, as globs.
        denied_paths: List<Text> = "denied_paths",
        /// How many changes to protected paths it might make; absent if only the sum counted.
        max_laws: Option<Count> = "max_laws",
        /// How many changes to tests.
        max_invariants: Option<Count> = "max_invariants",
        /// How many changes to generated files.
        max_projections: Option<Count> = "max_projections",
        /// How many changes to other files.
        max_others: Option<Count> = "max_others",
        /// The hosts it might connect to, `host:port`.
        hosts: List<Name> = "hosts",
        /// Whether those names might lead to private addresses; absent if not.
        private_hosts: Option<bool> = "private_hosts",
    }
}

object! {
    /// What admission made of the change.
    Admission / AdmissionParts ["attestation", "R4"] {
        /// Whether the change was within every bound.
        admitted: bool = "admitted",
        /// The rule that denied it, in the contract's wording.
        reason: Option<Text> = "reason",
        /// How many files it touched.
        files_touched: Count = "files_touched",
        /// How many tool operations were reported.
        tool_ops: Count = "tool_ops",
        /// How many deltas it had.
        delta_size: Count = "delta_size",
        /// The run hash by which a repetition is recognised (R29).
        run_hash: Option<Blake3> = "run_hash",
    }
}

object! {
    /// What held the agent.
    SandboxFacts / SandboxFactsParts ["attestation", "R4"] {
        /// How strong it was, as the receipt says.
        strength: SandboxStrength = "strength",
        /// The layers that stood.
        layers: List<Name> = "layers",
        /// What was missing.
        missing: List<Text> = "missing",
    }
}

object! {
    /// Our predicate: the receipt, and within which bounds and walls it came to be.
    WorkRun / WorkRunParts ["attestation", "R4"] {
        /// The workspace, by the name its keys sign under.
        workspace: Name = "workspace",
        /// The ids of the keys that sign this statement, in the order of the signatures.
        signers: List<Name> = "signers",
        /// What was asked for; absent if levels were reconciled.
        work_item: Option<WorkItem> = "work_item",
        /// How much was allowed; absent if levels were reconciled.
        bounds: Option<StatedBounds> = "bounds",
        /// What admission said; absent if the run never came to it.
        admission: Option<Admission> = "admission",
        /// What held the agent; absent if none was started.
        sandbox: Option<SandboxFacts> = "sandbox",
        /// The agent's program and models; absent if levels were reconciled, and in version 1.
        agent: Option<AgentFacts> = "agent",
        /// Who started the run; absent in version 1.
        started_by: Option<LocalUser> = "started_by",
        /// What people decided about it while it was held; absent if it was not, and in version 1.
        verdicts: Option<List<StatedVerdict>> = "verdicts",
        /// What of the workspace was hidden; absent if no agent was started, and in version 1.
        hidden: Option<HiddenFacts> = "hidden",
        /// The receipts that were merged, by their hashes; absent in the receipt of a run.
        merged: Option<List<Blake3>> = "merged",
        /// The files beside the receipt in the run's folder, by name; absent in statements of older versions.
        files: Option<List<Subject>> = "files",
        /// The receipt itself: outcome, states, changes, trace, connections.
        receipt: Receipt = "receipt",
    }
}

object! {
    /// An in-toto Statement.
    Statement / StatementParts ["attestation", "R4"] {
        /// Which version of the statement.
        kind: StatementType = "_type",
        /// The receipt, then every file that the run left, then the commit if there is one.
        subject: List<Subject> = "subject",
        /// Which predicate.
        predicate_type: PredicateType = "predicateType",
        /// The predicate.
        predicate: WorkRun = "predicate",
    }
}

impl Statement {
    /// The canonical text, the one form that is signed.
    ///
    /// # Errors
    /// If the statement's own reader would refuse it.
    pub fn to_canonical(&self) -> Result<String, ComposeError> {
        canonical_of("the statement", self)
    }

    /// Reads a statement, or reports everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        let (document, faults) = parse(bytes, &Limits::own(MAX_STATEMENT_BYTES));
        let mut report = Report::default();
        faults.into_iter().for_each(|fault| report.add_fault(fault));
        let parts = document.map(|document| Statement::read(document.root(), "attestation", &mut report));
        let statement = parts.and_then(Statement::finish);
        if let Some(statement) = &statement {
            version_rules(statement, &mut report);
        }
        match statement {
            Some(statement) if report.is_clean() => Ok(statement),
            _ => Err(report.into_violations()),
        }
    }
}

/// What each version of the predicate must and must not say.
fn version_rules(statement: &Statement, report: &mut Report) {
    let WorkRun { agent, started_by, verdicts, hidden, .. } = &statement.predicate;
    match statement.predicate_type {
        PredicateType::WorkRunV1 => {
            let later = [
                ("agent", agent.is_some()),
                ("started_by", started_by.is_some()),
                ("verdicts", verdicts.is_some()),
                ("hidden", hidden.is_some()),
            ];
            for (key, _) in later.into_iter().filter(|(_, is_there)| *is_there) {
                let message = format!("`{key}` belongs to version 2 of the predicate; remove it");
                report.add(format!("/predicate/{key}"), "attestation", Code::Forbidden, message);
            }
        }
        PredicateType::WorkRunV2 if started_by.is_none() => {
            let message = "version 2 of the predicate says who started the run; add `started_by`";
            report.add("/predicate/started_by", "attestation", Code::Required, message);
        }
        PredicateType::WorkRunV2 => {}
    }
}

impl Receipt {
    /// The canonical text, the one form in which a receipt is stored.
    ///
    /// # Errors
    /// If the receipt's own reader would refuse it.
    pub fn to_canonical(&self) -> Result<String, ComposeError> {
        canonical_of("the receipt", self)
    }
}
