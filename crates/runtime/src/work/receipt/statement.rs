//! The facts of a run as an in-toto Statement: the receipt, and every file it left under the names others know it by.

use crealeph_contracts::Receipt;
use crealeph_contracts::attestation::{
    DigestSet, MAX_STATEMENT_BYTES, PredicateType, RECEIPT_NAME, Statement, StatementType, Subject, WorkRun,
};
use crealeph_contracts::digest::ContentDigests;
use crealeph_contracts::scalar::{Name, Text};
use crealeph_workspace::{Store, TreeNode};

use super::signer::Signer;
use super::{ReceiptFacts, RunFile, SealError, within};

/// The canonical statement.
pub(super) fn of(
    facts: &ReceiptFacts,
    receipt: &Receipt,
    text: &str,
    beside: &[RunFile],
    signer: &Signer,
    store: Store<'_>,
) -> Result<String, SealError> {
    let signers = signer.key_ids().iter().map(|id| Name::parse(id)).collect::<Result<_, _>>()?;
    let files = beside
        .iter()
        .filter_map(|file| Some(Subject { name: Text::new(&file.name)?, digest: digests(&file.bytes) }));
    let predicate = WorkRun {
        files: Some(files.collect()),
        workspace: signer.name().clone(),
        signers,
        work_item: facts.item.clone(),
        bounds: facts.bounds.clone(),
        admission: facts.admission.clone(),
        sandbox: facts.sandbox.clone(),
        agent: facts.agent.clone(),
        started_by: facts.started_by.clone(),
        verdicts: (!facts.verdicts.is_empty()).then(|| facts.verdicts.iter().cloned().collect()),
        hidden: facts.hidden.clone(),
        merged: (!facts.merged.is_empty()).then(|| facts.merged.iter().copied().collect()),
        receipt: receipt.clone(),
    };
    let statement = Statement {
        kind: StatementType::V1,
        subject: subjects(facts, text, store)?.into_iter().collect(),
        // A run that an older version started is stated in that version's words.
        predicate_type: match facts.started_by {
            Some(_) => PredicateType::WorkRunV2,
            None => PredicateType::WorkRunV1,
        },
        predicate,
    };
    let text = statement.to_canonical()?;
    within("statement", &text, MAX_STATEMENT_BYTES)?;
    // What is signed must be what a verifier can read (R3).
    Statement::parse(text.as_bytes()).map_err(|violations| {
        let first = violations.first().map_or_else(String::new, ToString::to_string);
        SealError::Unreadable { what: "the statement", reason: first }
    })?;
    Ok(text)
}

/// What the statement is about: the receipt, each file that the run left, and the commit.
fn subjects(facts: &ReceiptFacts, text: &str, store: Store<'_>) -> Result<Vec<Subject>, SealError> {
    let own = Text::new(RECEIPT_NAME).map(|name| Subject { name, digest: digests(text.as_bytes()) });
    let mut subjects: Vec<Subject> = own.into_iter().collect();
    for change in &facts.changes {
        let digest = match &change.after {
            None => continue,
            Some(TreeNode::File { digest, .. }) => store.digests(digest)?.into(),
            Some(TreeNode::Symlink { target }) => digests(target.as_bytes()),
        };
        subjects.extend(Text::new(change.path.as_str()).map(|name| Subject { name, digest }));
    }
    if let Some((branch, commit)) = &facts.commit {
        let digest =
            DigestSet { blake3: None, git_blob: None, git_commit: Some(commit.clone()), sha256: None };
        subjects.extend(Text::new(branch).map(|name| Subject { name, digest }));
    }
    Ok(subjects)
}

fn digests(bytes: &[u8]) -> DigestSet {
    ContentDigests::of(bytes).into()
}
