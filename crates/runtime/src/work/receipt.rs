//! Receipts of work runs (R31, R32): from the plain facts of a run to the documents that prove it. Owns the sealing: the
//! receipt's hash, its place in the workspace's chain, the signed statement of the same facts, the replay script and the
//! ledger entry. Reads the contents that changed, and writes nothing.

mod script;
mod signer;
mod statement;

use std::path::{Path, PathBuf};

use crealeph_contracts::attestation::{Admission, RECEIPT_NAME, SandboxFacts, StatedBounds};
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::{Blake3, GitHash};
use crealeph_contracts::entry::{Draft, Lineage};
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::{ComposeError, JsonObject, Limits};
use crealeph_contracts::receipt::{
    Connection, Delta, MAX_RECEIPT_BYTES, Phase, ProofArtifact, ReceiptArtifact, ReceiptStatus,
    SandboxStrength, ToolCall,
};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{
    Amount, ClientKey, IdentifierError, LedgerId, Literal, Name, RobotId, Text, Version,
};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::violation::Violations;
use crealeph_contracts::work_item::AgentId;
use crealeph_contracts::{Receipt, WorkItem};
use crealeph_workspace::{Change, DIFF_ALGORITHM, Store, StoreError};

pub use signer::{Signer, SignerError};

/// The type of a receipt's entry.
pub const RUN_RECEIPT: Literal = Literal::new("run_receipt");
const MODULE: Literal = Literal::new("work");
const SUCCEEDED: Literal = Literal::new("succeeded");
const FAILED: Literal = Literal::new("failed");
/// The receipt's file in a run's folder.
pub const RECEIPT_FILE: &str = RECEIPT_NAME;
/// The signed statement beside it.
pub const ENVELOPE_FILE: &str = "RECEIPT.dsse.json";
/// The work item beside it.
pub const ITEM_FILE: &str = "work-item.json";

/// Deltas by class (R28).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deltas {
    /// O, anything else.
    pub others: Vec<Delta>,
    /// Π, projections.
    pub projections: Vec<Delta>,
    /// Λ, laws.
    pub laws: Vec<Delta>,
    /// Q, invariants.
    pub invariants: Vec<Delta>,
}

/// Everything a receipt says, before it is sealed.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The receipt's own id, which is the run's.
    pub id: Uuid,
    /// The work item; none where a level's merge is told.
    pub item: Option<WorkItem>,
    /// The agent.
    pub agent_id: AgentId,
    /// The agent's program and arguments, as they were run.
    pub command: Vec<String>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How it ended.
    pub status: RunStatus,
    /// Why it did not succeed.
    pub error: Option<Text>,
    /// The workspace.
    pub workspace: PathBuf,
    /// The state before.
    pub before: Blake3,
    /// The state afterwards.
    pub after: Blake3,
    /// What changed, with the contents' digests; empty where it did not succeed.
    pub changes: Vec<Change>,
    /// Files that prove it, receipts of a merged level among them.
    pub proof_artifacts: Vec<ProofArtifact>,
    /// The deltas of what changed, or of what was denied.
    pub deltas: Deltas,
    /// How text files were compared.
    pub diff_algorithm: &'static str,
    /// What the agent reported.
    pub tool_trace: Vec<ToolCall>,
    /// Tokens, where known.
    pub tokens_used: Option<Amount>,
    /// Dollars, where known.
    pub cost_usd: Option<Amount>,
    /// What the tests printed.
    pub test_log: Option<String>,
    /// The walls around the agent.
    pub strength: SandboxStrength,
    /// Which walls those were; none where no agent was started.
    pub sandbox: Option<SandboxFacts>,
    /// How much it was allowed; none where a level's merge is told.
    pub bounds: Option<StatedBounds>,
    /// What admission said; none where the run never came to it.
    pub admission: Option<Admission>,
    /// The hashes of the receipts that a merge rests on.
    pub merged: Vec<Blake3>,
    /// The branch and the commit that the change was delivered to, where it was.
    pub commit: Option<(String, GitHash)>,
    /// Connections made and refused.
    pub connections: Vec<Connection>,
    /// Written to `.git` or `.crealeph` and discarded.
    pub discarded: Vec<String>,
    /// The receipt before this one in the workspace.
    pub previous: Option<Blake3>,
    /// The robot it is bound to, or the one that stands for none.
    pub robot: RobotId,
    /// The entries the item came from.
    pub lineage: Vec<LedgerId>,
    /// What is to lie beside the receipt: result, diff, outputs. The statement names their digests.
    pub beside: Vec<(String, Vec<u8>)>,
}

impl Facts {
    /// A receipt that tells of no agent and no change: where a run was cut off, or a level merged. What there is besides is
    /// filled in by whoever knows it.
    pub fn unchanged(
        id: Uuid,
        agent_id: AgentId,
        at: Timestamp,
        workspace: &Path,
        state: Blake3,
        robot: RobotId,
    ) -> Facts {
        Facts {
            id,
            item: None,
            agent_id,
            command: Vec::new(),
            started_at: at.clone(),
            finished_at: at,
            status: RunStatus::Success,
            error: None,
            workspace: workspace.to_owned(),
            before: state,
            after: state,
            changes: Vec::new(),
            proof_artifacts: Vec::new(),
            deltas: Deltas::default(),
            diff_algorithm: DIFF_ALGORITHM,
            tool_trace: Vec::new(),
            tokens_used: None,
            cost_usd: None,
            test_log: None,
            strength: SandboxStrength::Full,
            sandbox: None,
            bounds: None,
            admission: None,
            merged: Vec::new(),
            commit: None,
            connections: Vec::new(),
            discarded: Vec::new(),
            previous: None,
            robot,
            lineage: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// The name of the replay script, where there is one.
    pub fn proof_script(&self) -> Option<String> {
        (self.status == RunStatus::Success && self.item.is_some()).then(|| script::name(self))
    }
}

/// A sealed receipt.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The receipt.
    pub receipt: Valid<Receipt>,
    /// The files to write into the run's folder: name, content, and whether it can be executed.
    pub files: Vec<(String, Vec<u8>, bool)>,
    /// The ledger entry.
    pub entry: Draft,
}

/// Why facts cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The receipt would break its contract.
    #[error("internal error: the receipt breaks its contract; please report it")]
    Contract(#[from] Violations),
    /// A document of the receipt cannot be composed.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A document of the receipt would not be taken by its reader.
    #[error("internal error: {what} of the run cannot be read back: {reason}; please report it")]
    Unreadable {
        /// The document.
        what: &'static str,
        /// What its reader says.
        reason: String,
    },
    /// A name that cannot be one.
    #[error("internal error: the receipt has an invalid name; please report it")]
    Name(#[from] IdentifierError),
    /// A content that changed is not in the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Seals facts into a receipt with its hash and its place in the chain, and signs it.
///
/// # Errors
/// When the facts break the receipt's contract, or a content that changed is not in the store.
pub fn seal(facts: &Facts, signer: &Signer, store: Store<'_>) -> Result<Sealed, SealError> {
    let artifacts = facts.changes.iter().map(|change| ReceiptArtifact {
        path: change.path.as_workspace_path().clone(),
        change: change.in_receipt(),
        hash: change.after.as_ref().map(crealeph_workspace::Node::content_digest),
    });
    let is_success = facts.status == RunStatus::Success;
    let script = facts.proof_script().map(|name| {
        let text = script::replay(facts, &name);
        (name, text)
    });
    let own_proof = script.iter().filter_map(|(name, text)| {
        Some(ProofArtifact { path: Text::new(name)?, hash: Blake3::of(text.as_bytes()) })
    });
    let mut receipt = Receipt {
        id: facts.id,
        work_item_id: facts.item.as_ref().map(|item| item.id.clone()),
        agent_id: facts.agent_id,
        phase: if facts.item.is_some() { Phase::Run } else { Phase::Reconcile },
        started_at: facts.started_at.clone(),
        finished_at: facts.finished_at.clone(),
        before_hash: facts.before,
        after_hash: facts.after,
        receipt_hash: Blake3::from_bytes([0; 32]),
        toolchain_version: Version::parse(concat!("crealeph-", env!("CARGO_PKG_VERSION")))?,
        diff_algorithm: Some(Name::parse(facts.diff_algorithm)?),
        artifacts: artifacts.collect(),
        proof_artifacts: facts.proof_artifacts.iter().cloned().chain(own_proof).collect(),
        delta_o: facts.deltas.others.iter().cloned().collect(),
        delta_pi: facts.deltas.projections.iter().cloned().collect(),
        delta_lambda: facts.deltas.laws.iter().cloned().collect(),
        delta_q: facts.deltas.invariants.iter().cloned().collect(),
        tool_trace: facts.tool_trace.iter().cloned().collect(),
        tokens_used: facts.tokens_used,
        cost_usd: facts.cost_usd,
        test_log: facts.test_log.as_deref().map(Into::into),
        previous_receipt_hash: facts.previous,
        sandbox_strength: facts.strength,
        connections: facts.connections.iter().cloned().collect(),
        status: if is_success { ReceiptStatus::Succeeded } else { ReceiptStatus::Failed },
        error: facts.error.clone(),
    };
    receipt.receipt_hash = receipt.content_hash()?;
    let text = receipt.to_canonical()?;
    let receipt = Valid::<Receipt>::parse(text.as_bytes(), &Limits::own(MAX_RECEIPT_BYTES))?;
    let item = facts.item.iter().map(|item| (ITEM_FILE.to_owned(), to_json(item).into_bytes(), false));
    let script = script.into_iter().map(|(name, text)| (name, text.into_bytes(), true));
    let beside = facts.beside.iter().map(|(name, bytes)| (name.clone(), bytes.clone(), false));
    let mut files: Vec<_> = item.chain(script).chain(beside).collect();
    let envelope = signer.envelope(&statement::of(facts, &receipt, &text, &files, signer, store)?);
    files.push((RECEIPT_FILE.to_owned(), text.clone().into_bytes(), false));
    files.push((ENVELOPE_FILE.to_owned(), envelope.clone().into_bytes(), false));
    let lineage = (!facts.lineage.is_empty()).then(|| Lineage {
        depends_on: Set::new(facts.lineage.clone()),
        execution_id: None,
        rerun_of: None,
    });
    let entry = Draft {
        robot_id: facts.robot.clone(),
        module: MODULE.into(),
        source: Name::parse(facts.agent_id.as_str())?,
        kind: RUN_RECEIPT.into(),
        state: if is_success { SUCCEEDED.into() } else { FAILED.into() },
        payload: JsonObject::compose("the receipt's entry", |object| {
            object.raw("envelope", &envelope).raw("receipt", &text);
        })?,
        lineage,
        observed_at: None,
        key: Some(ClientKey::parse(&format!("run_receipt:{}", facts.id))?),
    };
    Ok(Sealed { receipt, files, entry })
}
