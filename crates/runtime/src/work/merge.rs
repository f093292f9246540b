//! The receipt for the merge of a level, by the reconciler `agent-0`. Owns its contents: the merged receipts
//! combined.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::receipt::{ProofArtifact, SandboxStrength};
use crealeph_contracts::scalar::Text;
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::AgentId;
use crealeph_workspace::{Capsule, Change, WorkspaceSnapshot, changes_between};

use super::engine::{Work, new_id};
use super::error::WorkError;
use super::git::refused;
use super::land::{Delivery, Landed};
use super::receipt::{RECEIPT_FILE, ReceiptFacts};
use super::record::RunWriter;
use super::store::RunsError;
use super::tasks;

/// Writes the receipt of a level that started from `start` and merged these runs, in this order.
pub(super) fn write(
    work: &Work,
    batch: &Blake3,
    merged: &[Uuid],
    start: &WorkspaceSnapshot,
    delivery: &Delivery,
    landed: &Landed,
) -> Result<(), WorkError> {
    let writer = RunWriter::new(work)?;
    let state = start.state().hash().digest();
    let (robot, _) = tasks::bound_to(None, work.robot());
    let mut facts = ReceiptFacts::unchanged(new_id()?, AgentId::Agent0, super::now(), state, robot);
    facts.started_by = Some(work.user.clone());
    for (position, run) in merged.iter().enumerate() {
        let read = work.receipt_of(run)?;
        let (receipt, file) =
            read.ok_or_else(|| RunsError::Unreadable(work.runs.folder(run).join(RECEIPT_FILE)))?;
        facts.merged.push(receipt.receipt_hash);
        let path = format!("{run}/{RECEIPT_FILE}");
        facts.proof_artifacts.extend(Text::new(&path).map(|path| ProofArtifact { path, hash: file }));
        if let Some(item) = &receipt.work_item_id
            && let Some(origin) = tasks::origin(work, item)?
        {
            facts.lineage.push(origin.task);
        }
        for (own, all) in [
            (&receipt.delta_o, &mut facts.deltas.others),
            (&receipt.delta_pi, &mut facts.deltas.projections),
            (&receipt.delta_lambda, &mut facts.deltas.laws),
            (&receipt.delta_q, &mut facts.deltas.invariants),
        ] {
            all.extend(own.as_slice().iter().cloned());
        }
        if receipt.sandbox_strength == SandboxStrength::Reduced {
            facts.strength = SandboxStrength::Reduced;
        }
        if position == 0 {
            facts.before = receipt.before_hash;
        }
        facts.after = receipt.after_hash;
    }
    if facts.before != facts.after {
        facts.changes = changes(work, start, delivery, landed)?;
    }
    writer.merge(facts, batch)
}

/// What the level changed in all.
fn changes(
    work: &Work,
    start: &WorkspaceSnapshot,
    delivery: &Delivery,
    landed: &Landed,
) -> Result<Vec<Change>, WorkError> {
    let now = match delivery {
        Delivery::Tree => work.workspace.snapshot()?.state().clone(),
        Delivery::Branch(_) => Capsule::of_changes(start.state(), landed.accumulated.clone())
            .map_err(|error| refused("merge the level", error.to_string()))?
            .after()
            .clone(),
    };
    let is_touched = |change: &Change| landed.touched.contains_key(&change.path);
    Ok(changes_between(start.state(), &now).into_iter().filter(is_touched).collect())
}
