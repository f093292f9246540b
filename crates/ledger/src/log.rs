//! The Merkle log as its users see it: signed checkpoints, proofs, and how large it is.

use crealeph_contracts::digest::{Blake3, Sha256};
use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::log_rules::new_origin;
use crealeph_contracts::scalar::{LedgerId, TenantId};
use tracing::info_span;

use crate::checkpoint::{SignedCheckpoint, proof_text};
use crate::entry::StoredEntry;
use crate::error::LedgerError;
use crate::keys::Keyring;
use crate::ledger::Ledger;
use crate::merkle::{Nodes, TILE_WIDTH, TileSource, consistency_path, inclusion_path};
use crate::position::Millis;
use crate::read::StoredCheckpoint;
use crate::signed_head::{LastSigned, SignedHead};
use crate::store::{Head, Reads, Transaction};
use crate::writer::TransactionHashes;

/// Shows that an entry is in the log that a checkpoint states.
#[derive(Clone, Debug, PartialEq)]
pub struct InclusionProof {
    /// The entry.
    pub entry: StoredEntry,
    /// The C2SP tlog-proof: index, path, checkpoint.
    pub proof: String,
}

impl InclusionProof {
    /// The entry and its proof as one JSON document: all that a verifier needs, except a key.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::new(&mut out);
        object
            .raw("entry", &self.entry.canonical())
            .text("format", "crealeph-proof-v1")
            .text("proof", &self.proof);
        object.end();
        out
    }
}

/// How large a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStats {
    /// The log's name.
    pub origin: String,
    /// How many entries it has.
    pub entries: u64,
    /// When the newest was accepted.
    pub last_at: Option<Millis>,
    /// The root of its tree.
    pub root: Sha256,
    /// How many lineage edges.
    pub edges: u64,
    /// How many checkpoints are kept, and the size of the newest.
    pub checkpoints: usize,
    /// The size the newest checkpoint states.
    pub last_checkpoint: Option<u64>,
}

/// How many digits the random part of a log's name has.
const DECOY_DIGITS: usize = 32;

impl Ledger {
    /// Signs a checkpoint of the current log, and keeps it. A log that does not extend the last signed one
    /// is refused: the signer compares it with its own copy of the last head that it signed.
    pub fn checkpoint(&self, tenant: &TenantId) -> Result<SignedCheckpoint, LedgerError> {
        let _span = info_span!("checkpoint", %tenant).entered();
        let folder = &self.inner().keys;
        let keys = Keyring::load(folder)?;
        let mut signed = None;
        self.write(tenant, &mut |transaction| {
            let head = transaction.locked_head(tenant)?;
            let (size, root) = (head.frontier.size(), head.frontier.root());
            let last = LastSigned::lock(folder, &head.origin)?;
            if let Some(before) = last.head() {
                self.extends(transaction, &head, before, &last)?;
            }
            let checkpoint = SignedCheckpoint::sign(&head.origin, size, root, &keys);
            if last.head() != Some(&SignedHead { size, root }) {
                last.replace(&checkpoint.note)?;
            }
            let note = checkpoint.note.clone();
            transaction.add_checkpoint(&head, &StoredCheckpoint { size, root, note })?;
            signed = Some(checkpoint);
            Ok(())
        })?;
        signed.ok_or(LedgerError::Closed)
    }

    /// Refuses a log whose beginning is not what was signed.
    fn extends(
        &self,
        transaction: &mut dyn Transaction,
        head: &Head,
        before: &SignedHead,
        last: &LastSigned,
    ) -> Result<(), LedgerError> {
        let size = head.frontier.size();
        let then = before.size.min(size);
        let root = root_at(transaction, head, then)?;
        match (before.size <= size, root == before.root) {
            (true, true) => Ok(()),
            _ => Err(LedgerError::NotExtended {
                place: self.place().to_owned(),
                signed: format!("{} entries with root {}", before.size, before.root),
                found: match before.size <= size {
                    true => format!("its first {then} entries have root {root}"),
                    false => format!("it has {size} entries with root {root}"),
                },
                file: last.path().to_owned(),
            }),
        }
    }

    /// The checkpoints kept, by size.
    pub fn checkpoints(&self, tenant: &TenantId) -> Result<Vec<StoredCheckpoint>, LedgerError> {
        Ok(self.ask(tenant, |reads, head| reads.checkpoints(head))?.unwrap_or_default())
    }

    /// The public keys in the form for a verifier, oldest first. A tenant without a log gets one.
    pub fn verifier_keys(&self, tenant: &TenantId) -> Result<Vec<String>, LedgerError> {
        let keys = Keyring::load(&self.inner().keys)?;
        Ok(keys.verifier_keys(&self.origin(tenant)?))
    }

    /// The name of a tenant's log. A tenant without a log gets one.
    pub fn origin(&self, tenant: &TenantId) -> Result<String, LedgerError> {
        if let Some(origin) = self.ask(tenant, |_, head| Ok(head.origin.clone()))? {
            return Ok(origin);
        }
        let mut origin = String::new();
        self.write(tenant, &mut |transaction| {
            origin = transaction.locked_head(tenant)?.origin;
            Ok(())
        })?;
        Ok(origin)
    }

    /// A name that a tenant's log could have, the same each time, for a tenant without a log: so that an answer does not reveal whether
    /// the tenant exists.
    pub fn decoy_origin(&self, tenant: &TenantId) -> Result<String, LedgerError> {
        let message = format!("crealeph decoy origin\n{tenant}");
        // Only a holder of the key can compute it. No note or statement begins like this, and only the digest is shown.
        let signed = Keyring::load(&self.inner().keys)?.signatures(message.as_bytes());
        let digest = Blake3::of(&signed.concat()).to_string();
        Ok(new_origin(digest.get(..DECOY_DIGITS).unwrap_or(&digest)))
    }

    /// Adds a signing key; the older ones keep signing too until they are removed from the folder.
    pub fn rotate_key(&self) -> Result<(), LedgerError> {
        Keyring::create(&self.inner().keys)?;
        Ok(())
    }

    /// Proves that an entry is in the log, against a new checkpoint; `None` if there is no such entry.
    pub fn prove(&self, tenant: &TenantId, id: &LedgerId) -> Result<Option<InclusionProof>, LedgerError> {
        let Some(row) = self.ask(tenant, |reads, head| reads.by_id(head, id))?.flatten() else {
            return Ok(None);
        };
        let checkpoint = self.checkpoint(tenant)?;
        let index = row.entry.seq.leaf_index();
        let path = self.inclusion_path(tenant, index, checkpoint.size)?;
        let proof = proof_text(index, &path, &checkpoint);
        Ok(Some(InclusionProof { entry: row.entry, proof }))
    }

    /// The path from a leaf to the root of the first `size` leaves.
    pub fn inclusion_path(
        &self,
        tenant: &TenantId,
        index: u64,
        size: u64,
    ) -> Result<Vec<Sha256>, LedgerError> {
        let path = self.ask(tenant, |reads, head| {
            if index >= size || size > head.frontier.size() {
                return Err(beyond("the proof's leaf", index.max(size), size.min(head.frontier.size())));
            }
            inclusion_path(&mut Nodes::new(size, &mut ViewHashes { reads, head }), index)
        })?;
        path.ok_or_else(|| beyond("the proof's leaf", index, 0))
    }

    /// The hashes that show that the log of `older` entries is the beginning of the log of `newer`.
    pub fn consistency_path(
        &self,
        tenant: &TenantId,
        older: u64,
        newer: u64,
    ) -> Result<Vec<Sha256>, LedgerError> {
        let path = self.ask(tenant, |reads, head| {
            if older > newer || newer > head.frontier.size() {
                return Err(beyond("the proof's size", newer.max(older), head.frontier.size()));
            }
            consistency_path(&mut Nodes::new(newer, &mut ViewHashes { reads, head }), older)
        })?;
        path.ok_or_else(|| beyond("the proof's size", newer, 0))
    }

    /// How large the tenant's log is; `None` if the tenant has no log.
    pub fn stats(&self, tenant: &TenantId) -> Result<Option<LogStats>, LedgerError> {
        self.ask(tenant, |reads, head| {
            let checkpoints = reads.checkpoints(head)?;
            let entries = head.frontier.size();
            Ok(LogStats {
                origin: head.origin.clone(),
                entries,
                last_at: (entries > 0).then_some(head.last_at),
                root: head.frontier.root(),
                edges: reads.edge_count(head)?,
                checkpoints: checkpoints.len(),
                last_checkpoint: checkpoints.last().map(|checkpoint| checkpoint.size),
            })
        })
    }
}

/// The root of the tree's first `size` leaves.
pub(crate) fn root_at(
    transaction: &mut dyn Transaction,
    head: &Head,
    size: u64,
) -> Result<Sha256, LedgerError> {
    if size == head.frontier.size() {
        return Ok(head.frontier.root());
    }
    let mut source = TransactionHashes { transaction, head, open: None };
    Nodes::new(size, &mut source).range(0, size)
}

/// The same, for read-only users.
pub(crate) fn root_of(reads: &mut dyn Reads, head: &Head, size: u64) -> Result<Sha256, LedgerError> {
    if size == head.frontier.size() {
        return Ok(head.frontier.root());
    }
    Nodes::new(size, &mut ViewHashes { reads, head }).range(0, size)
}

fn beyond(what: &'static str, found: u64, limit: u64) -> LedgerError {
    let clamp = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    LedgerError::Beyond { what, found: clamp(found), limit: clamp(limit) }
}

/// Stored hashes as proofs read them: from whole tiles, and the incomplete end from its entries.
struct ViewHashes<'a, 'b> {
    reads: &'a mut dyn Reads,
    head: &'b Head,
}

impl TileSource for ViewHashes<'_, '_> {
    type Error = LedgerError;

    fn row(&mut self, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        if count == TILE_WIDTH
            && let Some(tile) = self.reads.tile(self.head, level, from / TILE_WIDTH)?
        {
            return Ok(tile.hashes);
        }
        self.reads.hashes(self.head, level, from, count)
    }
}
