//! The Merkle log as its users see it: signed checkpoints, proofs, and the audit of everything derived from entries.

use std::collections::BTreeMap;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::scalar::{LedgerId, TenantId};

use crate::checkpoint::{Checkpoint, proof_text};
use crate::entry::Stored;
use crate::error::LedgerError;
use crate::keys::Keyring;
use crate::ledger::Ledger;
use crate::merkle::{
    Frontier, Nodes, TILE_WIDTH, TileSource, consistency_path, inclusion_path, subtree_root,
};
use crate::plan::Prepared;
use crate::position::{Millis, Seq};
use crate::reach::{Effective, Reach, Used};
use crate::read::{Index, StoredCheckpoint};
use crate::store::{Class, Head, Reads, Row, Selection};

/// Entries audited in one go.
const AUDIT_PAGE: u64 = 500;

/// Shows that an entry is in the log that a checkpoint states.
#[derive(Clone, Debug, PartialEq)]
pub struct InclusionProof {
    /// The entry.
    pub entry: Stored,
    /// The C2SP tlog-proof: index, path, checkpoint.
    pub proof: String,
}

impl InclusionProof {
    /// The entry and its proof as one JSON document, all that a verifier needs beside a key.
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
pub struct Stats {
    /// The log's name.
    pub origin: String,
    /// How many entries it has.
    pub entries: u64,
    /// When the newest was taken.
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

/// Something stored that does not fit the entries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Fault {
    /// The entry it is about, where it is about one.
    pub seq: Option<Seq>,
    /// What does not fit.
    pub what: String,
}

impl Ledger {
    /// States and signs what the log is now, and keeps the statement.
    pub fn checkpoint(&self, tenant: &TenantId) -> Result<Checkpoint, LedgerError> {
        let keys = Keyring::load(&self.inner().keys)?;
        let mut signed = None;
        self.write(tenant, &mut |transaction| {
            let head = transaction.locked_head(tenant)?;
            let (size, root) = (head.frontier.size(), head.frontier.root());
            let checkpoint = Checkpoint::sign(&head.origin, size, root, &keys);
            let note = checkpoint.note.clone();
            transaction.add_checkpoint(&head, &StoredCheckpoint { size, root, note })?;
            signed = Some(checkpoint);
            Ok(())
        })?;
        signed.ok_or(LedgerError::Closed)
    }

    /// The checkpoints kept, by size.
    pub fn checkpoints(&self, tenant: &TenantId) -> Result<Vec<StoredCheckpoint>, LedgerError> {
        Ok(self.ask(tenant, |reads, head| reads.checkpoints(head))?.unwrap_or_default())
    }

    /// The public keys as a verifier takes them, oldest first. A tenant without a log gets one.
    pub fn verifier_keys(&self, tenant: &TenantId) -> Result<Vec<String>, LedgerError> {
        let keys = Keyring::load(&self.inner().keys)?;
        let origin = match self.ask(tenant, |_, head| Ok(head.origin.clone()))? {
            Some(origin) => origin,
            None => {
                let mut origin = String::new();
                self.write(tenant, &mut |transaction| {
                    origin = transaction.locked_head(tenant)?.origin;
                    Ok(())
                })?;
                origin
            }
        };
        Ok(keys.verifier_keys(&origin))
    }

    /// Adds a signing key; the older ones go on signing beside it until they are taken out of the folder.
    pub fn rotate_key(&self) -> Result<(), LedgerError> {
        Keyring::create(&self.inner().keys)?;
        Ok(())
    }

    /// Proves that an entry is in the log, against a checkpoint of now; `None` where there is no such entry.
    pub fn prove(&self, tenant: &TenantId, id: &LedgerId) -> Result<Option<InclusionProof>, LedgerError> {
        let Some(row) = self.ask(tenant, |reads, head| reads.by_id(head, id))?.flatten() else {
            return Ok(None);
        };
        let checkpoint = self.checkpoint(tenant)?;
        let index = row.stored.seq.leaf_index();
        let path = self.inclusion_path(tenant, index, checkpoint.size)?;
        let proof = proof_text(index, &path, &checkpoint);
        Ok(Some(InclusionProof { entry: row.stored, proof }))
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
            inclusion_path(&mut Nodes::new(size, &mut InView { reads, head }), index)
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
            consistency_path(&mut Nodes::new(newer, &mut InView { reads, head }), older)
        })?;
        path.ok_or_else(|| beyond("the proof's size", newer, 0))
    }

    /// How large the tenant's log is; `None` where it has none.
    pub fn stats(&self, tenant: &TenantId) -> Result<Option<Stats>, LedgerError> {
        self.ask(tenant, |reads, head| {
            let checkpoints = reads.checkpoints(head)?;
            let entries = head.frontier.size();
            Ok(Stats {
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

    /// Checks the storage itself, and that everything derived from a tenant's entries is what they say: hashes, reach,
    /// edges, event identities, tiles, the head. What the entries say is for a verifier to check, from an export.
    pub fn audit(&self, tenant: &TenantId) -> Result<Option<Fault>, LedgerError> {
        self.inner().backend.check_storage()?;
        let fault = self.ask(tenant, audit)?;
        Ok(fault.flatten())
    }
}

fn beyond(what: &'static str, found: u64, limit: u64) -> LedgerError {
    let clamp = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    LedgerError::Beyond { what, found: clamp(found), limit: clamp(limit) }
}

/// Stored hashes as proofs read them: whole tiles where there are, the open end from its entries.
struct InView<'a, 'b> {
    reads: &'a mut dyn Reads,
    head: &'b Head,
}

impl TileSource for InView<'_, '_> {
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

fn audit(reads: &mut dyn Reads, head: &Head) -> Result<Option<Fault>, LedgerError> {
    let mut audit = Audit {
        frontier: Frontier::default(),
        open: Vec::new(),
        tiles: Vec::new(),
        edges: 0,
        newest: BTreeMap::new(),
    };
    let filter = crate::read::Filter::default();
    let last = head.last_seq();
    let mut low = Seq::ZERO.next();
    while low <= last {
        let high = last.min(Seq::new(low.get() + AUDIT_PAGE - 1).unwrap_or(last));
        let limit = AUDIT_PAGE as usize;
        let selection =
            Selection { filter: &filter, index: Index::None, low, high, newest_first: false, limit };
        let rows = reads.select(head, &selection)?;
        for (expected, row) in (low.get()..).zip(&rows) {
            if row.stored.seq.get() != expected {
                return Ok(Some(Fault {
                    seq: Seq::new(expected),
                    what: format!("entry {expected} is missing"),
                }));
            }
            if let Some(what) = audit.entry(reads, head, row)? {
                return Ok(Some(Fault { seq: Some(row.stored.seq), what }));
            }
        }
        if (rows.len() as u64) < high.get() - low.get() + 1 {
            let seq = Seq::new(low.get() + rows.len() as u64);
            let what = format!("entry {} is missing", seq.unwrap_or_default());
            return Ok(Some(Fault { seq, what }));
        }
        if high == last {
            break;
        }
        low = high.next();
    }
    audit.end(reads, head)
}

/// What the entries read so far come to.
struct Audit {
    frontier: Frontier,
    /// The hashes of each level that do not fill a tile yet.
    open: Vec<Vec<Sha256>>,
    /// How many tiles each level has.
    tiles: Vec<u64>,
    edges: u64,
    /// The effective newest entry of each class.
    newest: BTreeMap<Class, Effective>,
}

impl Audit {
    fn entry(
        &mut self,
        reads: &mut dyn Reads,
        head: &Head,
        row: &Row,
    ) -> Result<Option<String>, LedgerError> {
        let Row { stored, reach, used, newest, leaf, execution, attempt } = row;
        let seq = stored.seq;
        let prepared = Prepared::of(stored.content.clone());
        let own = stored.content.execution_id.as_ref().map(|id| id.as_str());
        let expected = match &prepared.event {
            Some(event) => (Some(event.execution.as_str()), Some(event.attempt)),
            None => (own, None),
        };
        if expected != (execution.as_deref(), *attempt) {
            return Ok(Some(format!(
                "entry {seq} is indexed under another execution or attempt than its own"
            )));
        }
        let steps = reads.steps(head, &stored.content.depends_on)?;
        if steps.len() != stored.content.depends_on.len() {
            return Ok(Some(format!("entry {seq} rests on an entry that is not there")));
        }
        let (mut reached, mut reached_used) = (Reach::default(), Used::default());
        for step in &steps {
            if step.robot_id == stored.content.robot_id {
                reached.extend(&step.kind, step.seq, &step.reach);
                let effective = Effective { at: step.effective_at, seq: step.seq };
                reached_used.extend(&step.kind, effective, &step.used);
            }
            if !reads.has_edge(head, (step.seq, seq))? {
                return Ok(Some(format!("the edge from entry {} to entry {seq} is missing", step.seq)));
            }
        }
        // Entries of an older schema know neither.
        let is_filled = reads.check_schema().is_ok();
        if reached != *reach || (is_filled && reached_used != *used) {
            return Ok(Some(format!("entry {seq} is stored with another reach than its lineage has")));
        }
        let own_newest = Class::of(&stored.content).map(|class| {
            let newest = stored.effective().max_of(self.newest.get(&class).copied());
            self.newest.insert(class, newest);
            newest.seq
        });
        if is_filled && own_newest != *newest {
            return Ok(Some(format!("entry {seq} is stored with another newest of its type than there is")));
        }
        self.edges += steps.len() as u64;
        self.frontier.push(*leaf, |_, _| {});
        self.hash(reads, head, 0, *leaf)
    }

    fn hash(
        &mut self,
        reads: &mut dyn Reads,
        head: &Head,
        level: usize,
        hash: Sha256,
    ) -> Result<Option<String>, LedgerError> {
        if self.open.len() <= level {
            self.open.push(Vec::new());
            self.tiles.push(0);
        }
        let (Some(open), Some(number)) = (self.open.get_mut(level), self.tiles.get_mut(level)) else {
            return Ok(None);
        };
        open.push(hash);
        if (open.len() as u64) < TILE_WIDTH {
            return Ok(None);
        }
        let index = *number;
        *number += 1;
        let hashes = std::mem::take(open);
        let root = subtree_root(&hashes);
        match reads.tile(head, level as u8, index)? {
            Some(tile) if tile.hashes == hashes && tile.root == root => {}
            _ => return Ok(Some(format!("tile {level}/{index} is not what its entries make"))),
        }
        self.hash(reads, head, level + 1, root)
    }

    fn end(self, reads: &mut dyn Reads, head: &Head) -> Result<Option<Fault>, LedgerError> {
        let about_all = |what: &str| Ok(Some(Fault { seq: None, what: what.to_owned() }));
        if self.frontier != head.frontier {
            return about_all("the head of the log is not what its entries make");
        }
        if reads.edge_count(head)? != self.edges {
            return about_all("there are more edges than the entries have");
        }
        Ok(None)
    }
}
