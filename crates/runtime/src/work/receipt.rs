//! Receipts of work runs (R31, R32): from the facts of a run to the documents that prove it. Owns the sealing: the
//! receipt's hash, its place in the workspace's chain, the signed statement of the same facts, the replay script and the
//! ledger entry. Reads the contents that changed, and writes nothing.

mod script;
mod signer;
mod statement;

use crealeph_contracts::attestation::{
    Admission, ENVELOPE_NAME, ITEM_NAME, RECEIPT_NAME, SandboxFacts, StatedBounds,
};
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::{Blake3, GitHash};
use crealeph_contracts::entry::{Draft, Lineage};
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::{ComposeError, JsonObject, Limits};
use crealeph_contracts::provenance::{AgentFacts, HiddenFacts, LocalUser, StatedVerdict};
use crealeph_contracts::receipt::{
    Connection, Delta, EarlierRun, MAX_RECEIPT_BYTES, Phase, ProofArtifact, ReceiptArtifact, ReceiptStatus,
    SandboxStrength, ToolCall,
};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{
    Amount, ClientKey, Count, IdentifierError, LedgerId, Literal, Name, RobotId, Text, Version,
};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::violation::Violations;
use crealeph_contracts::work_item::AgentId;
use crealeph_contracts::{Receipt, WorkItem};
use crealeph_decision::work::DeltaClass;
use crealeph_workspace::{Change, DIFF_ALGORITHM, Store, StoreError};

pub use crealeph_contracts::receipt::RUN_RECEIPT_KEY;
pub use signer::{NAME_PREFIX, Signer, SignerError};

/// The type of a receipt's entry.
pub const RUN_RECEIPT: Literal = Literal::new("run_receipt");
/// The module of entries about work.
pub const WORK_MODULE: Literal = Literal::new("work");
/// The robot of what is bound to none.
pub const NO_ROBOT: Literal = Literal::new("workspace");
const SUCCEEDED: Literal = Literal::new("succeeded");
const FAILED: Literal = Literal::new("failed");
/// The receipt's file in a run's folder.
pub const RECEIPT_FILE: &str = RECEIPT_NAME;
/// The signed statement next to it.
pub const ENVELOPE_FILE: &str = ENVELOPE_NAME;
/// The diff next to it.
pub const DIFF_FILE: &str = "change.diff";
/// How it ended.
pub(crate) const RESULT_FILE: &str = "result.json";
/// The work item next to it.
pub const ITEM_FILE: &str = ITEM_NAME;

/// DeltaLists by class (R28).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeltaLists {
    /// O, anything else.
    pub others: Vec<Delta>,
    /// Π, projections.
    pub projections: Vec<Delta>,
    /// Λ, laws.
    pub laws: Vec<Delta>,
    /// Q, invariants.
    pub invariants: Vec<Delta>,
}

impl DeltaLists {
    /// The list of a class.
    pub(super) fn of_class(&mut self, class: DeltaClass) -> &mut Vec<Delta> {
        match class {
            DeltaClass::Laws => &mut self.laws,
            DeltaClass::Invariants => &mut self.invariants,
            DeltaClass::Projections => &mut self.projections,
            DeltaClass::Others => &mut self.others,
        }
    }
}

/// A file of a run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFile {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Whether it can be executed.
    pub is_executable: bool,
}

impl RunFile {
    /// A file that cannot be executed.
    pub fn new(name: &str, content: impl Into<Vec<u8>>) -> Self {
        RunFile { name: name.to_owned(), bytes: content.into(), is_executable: false }
    }
}

/// Everything a receipt says, before it is sealed.
#[derive(Clone, Debug)]
pub struct ReceiptFacts {
    /// The receipt's own id, which is the run's.
    pub id: Uuid,
    /// The work item; absent for the merge of a level.
    pub item: Option<WorkItem>,
    /// The agent.
    pub agent_id: AgentId,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How it ended.
    pub status: RunStatus,
    /// Why it did not succeed.
    pub error: Option<Text>,
    /// The state before.
    pub before: Blake3,
    /// The state afterwards.
    pub after: Blake3,
    /// What changed, with the contents' digests; empty if it did not succeed.
    pub changes: Vec<Change>,
    /// Files that prove it, receipts of a merged level among them.
    pub proof_artifacts: Vec<ProofArtifact>,
    /// The deltas of what changed, or of what was denied.
    pub deltas: DeltaLists,
    /// How text files were compared.
    pub diff_algorithm: &'static str,
    /// What the agent reported.
    pub tool_trace: Vec<ToolCall>,
    /// Tokens, if known.
    pub tokens_used: Option<Amount>,
    /// Dollars, if known.
    pub cost_usd: Option<Amount>,
    /// What the tests printed.
    pub test_log: Option<String>,
    /// The walls around the agent.
    pub strength: SandboxStrength,
    /// Which walls those were; absent if no agent was started.
    pub sandbox: Option<SandboxFacts>,
    /// How much it was allowed; absent for the merge of a level.
    pub bounds: Option<StatedBounds>,
    /// What admission said; absent if the run never came to it.
    pub admission: Option<Admission>,
    /// The hashes of the receipts that a merge is based on.
    pub merged: Vec<Blake3>,
    /// The branch and the commit that the change was delivered to, if it was.
    pub commit: Option<(String, GitHash)>,
    /// Connections made and refused.
    pub connections: Vec<Connection>,
    /// How many more there were than those that are listed.
    pub connections_left_off: u64,
    /// The agent's program and models; absent for the merge of a level.
    pub agent: Option<AgentFacts>,
    /// Who started the run; absent if an older version started it.
    pub started_by: Option<LocalUser>,
    /// What people decided about it while it was held.
    pub verdicts: Vec<StatedVerdict>,
    /// What of the workspace was hidden; absent if no agent was started.
    pub hidden: Option<HiddenFacts>,
    /// The run that this one judges again or undoes.
    pub earlier_run: Option<EarlierRun>,
    /// The receipt before this one in the workspace.
    pub previous: Option<Blake3>,
    /// The robot it is bound to, or the one that stands for none.
    pub robot: RobotId,
    /// The entries the item came from.
    pub lineage: Vec<LedgerId>,
    /// What is to be next to the receipt: result, diff, outputs. The statement names their digests.
    pub beside: Vec<RunFile>,
}

impl ReceiptFacts {
    /// A receipt of no agent and no change, for a run that was cut off or the merge of a level. The caller adds what it
    /// knows besides.
    pub fn unchanged(
        id: Uuid,
        agent_id: AgentId,
        at: Timestamp,
        state: Blake3,
        robot: RobotId,
    ) -> ReceiptFacts {
        ReceiptFacts {
            id,
            item: None,
            agent_id,
            started_at: at.clone(),
            finished_at: at,
            status: RunStatus::Success,
            error: None,
            before: state,
            after: state,
            changes: Vec::new(),
            proof_artifacts: Vec::new(),
            deltas: DeltaLists::default(),
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
            connections_left_off: 0,
            agent: None,
            started_by: None,
            verdicts: Vec::new(),
            hidden: None,
            earlier_run: None,
            previous: None,
            robot,
            lineage: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// The name of the replay script; a run that succeeded has one.
    pub fn proof_script(&self) -> Option<String> {
        (self.status == RunStatus::Success && self.item.is_some()).then(|| script::name(self))
    }
}

/// A sealed receipt.
#[derive(Clone, Debug)]
pub struct SealedReceipt {
    /// The receipt.
    pub receipt: Valid<Receipt>,
    /// The files to write into the run's folder.
    pub files: Vec<RunFile>,
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
    /// A document of the receipt would be refused by its own reader.
    #[error("internal error: {what} of the run cannot be read back: {reason}; please report it")]
    Unreadable {
        /// The document.
        what: &'static str,
        /// What its reader says.
        reason: String,
    },
    /// A document of the receipt is larger than what its readers take.
    #[error("Exceeded max {what} bytes: {bytes} > {most}")]
    TooLarge {
        /// The document.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The largest size.
        most: usize,
    },
    /// An invalid name.
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
pub fn seal(facts: &ReceiptFacts, signer: &Signer, store: Store<'_>) -> Result<SealedReceipt, SealError> {
    let script = facts.proof_script().map(|name| {
        let text = script::replay(facts, &name);
        RunFile { is_executable: true, ..RunFile::new(&name, text) }
    });
    let mut receipt = receipt(facts, script.as_ref())?;
    receipt.receipt_hash = receipt.content_hash()?;
    let text = receipt.to_canonical()?;
    within("receipt", &text, MAX_RECEIPT_BYTES)?;
    let receipt = Valid::<Receipt>::parse(text.as_bytes(), &Limits::own(MAX_RECEIPT_BYTES))?;
    let item = facts.item.iter().map(|item| RunFile::new(ITEM_FILE, to_json(item)));
    let mut files: Vec<RunFile> = item.chain(script).chain(facts.beside.iter().cloned()).collect();
    let envelope = signer.envelope(&statement::of(facts, &receipt, &text, &files, signer, store)?);
    let entry = entry(facts, &envelope, &text)?;
    files.push(RunFile::new(RECEIPT_FILE, text));
    files.push(RunFile::new(ENVELOPE_FILE, envelope));
    Ok(SealedReceipt { receipt, files, entry })
}

/// The receipt of facts, without its hash.
fn receipt(facts: &ReceiptFacts, script: Option<&RunFile>) -> Result<Receipt, SealError> {
    let artifacts = facts.changes.iter().map(|change| ReceiptArtifact {
        path: change.path.as_workspace_path().clone(),
        change: change.in_receipt(),
        hash: change.after.as_ref().map(crealeph_workspace::TreeNode::content_digest),
    });
    let own_proof = script.into_iter().filter_map(|script| {
        Some(ProofArtifact { path: Text::new(&script.name)?, hash: Blake3::of(&script.bytes) })
    });
    Ok(Receipt {
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
        connections_left_off: Count::new(facts.connections_left_off).filter(|more| more.get() > 0),
        earlier_run: facts.earlier_run.clone(),
        status: match facts.status {
            RunStatus::Success => ReceiptStatus::Succeeded,
            _ => ReceiptStatus::Failed,
        },
        error: facts.error.clone(),
    })
}

/// The ledger entry of a receipt and its signed statement.
fn entry(facts: &ReceiptFacts, envelope: &str, receipt: &str) -> Result<Draft, SealError> {
    let lineage = (!facts.lineage.is_empty()).then(|| Lineage {
        depends_on: Set::new(facts.lineage.clone()),
        execution_id: None,
        rerun_of: None,
    });
    Ok(Draft {
        robot_id: facts.robot.clone(),
        module: WORK_MODULE.into(),
        source: Name::parse(facts.agent_id.as_str())?,
        kind: RUN_RECEIPT.into(),
        state: if facts.status == RunStatus::Success { SUCCEEDED.into() } else { FAILED.into() },
        payload: JsonObject::compose("the receipt's entry", |object| {
            object.raw("envelope", envelope).raw("receipt", receipt);
        })?,
        lineage,
        observed_at: None,
        key: Some(ClientKey::parse(&format!("{RUN_RECEIPT_KEY}{}", facts.id))?),
    })
}

/// Refuses a document that no reader would take for its size.
fn within(what: &'static str, text: &str, most: usize) -> Result<(), SealError> {
    let bytes = text.len();
    if bytes <= most { Ok(()) } else { Err(SealError::TooLarge { what, bytes, most }) }
}
