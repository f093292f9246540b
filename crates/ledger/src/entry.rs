//! An entry as the ledger keeps it: the producer's content in its normal form, and the envelope the ledger adds.
//!
//! The canonical text of an entry (RFC 8785) is rebuilt from its columns; its BLAKE3 is in the leaf record, and
//! the leaf's hash in the Merkle log. A changed byte in storage changes that hash, so every read detects it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crealeph_contracts::digest::{Blake3, Sha256};
use crealeph_contracts::entry::{Draft, Entry, Lineage};
use crealeph_contracts::instant::{Instant, Timestamp};
use crealeph_contracts::json::{JsonObject, Limits, Node, ObjectWriter, parse, push_text};
use crealeph_contracts::scalar::{ClientKey, Count, ExecutionId, LedgerId, Name, RobotId, TenantId};
use crealeph_contracts::shape::Set;

use crate::ledger::too_deep;
use crate::merkle;
use crate::position::{Millis, Seq};
use crate::reach::EffectiveTime;

/// The type whose entries are judged by the execution contract.
pub const EXECUTION_EVENT: &str = "execution_event";

/// How deep a payload may nest. Documents that embed it add to that, and readers that accept 192 (R3) must read them: an entry 1,
/// an export line or a proof 2, a snapshot 3, the input of an agent 4.
pub const MAX_PAYLOAD_DEPTH: usize = 160;

/// How a lineage names an entry by its client key instead of its id.
pub const KEY_PREFIX: &str = "key:";

/// The producer's content, normalized: payload canonical, lineage a sorted set, empty fields absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The robot.
    pub robot_id: RobotId,
    /// The module that wrote it.
    pub module: Name,
    /// The source of the module's data.
    pub source: Name,
    /// Its type.
    pub kind: Name,
    /// Its state.
    pub state: Name,
    /// The payload's RFC 8785 text; empty in an entry that an older version stored without one
    /// ([`crealeph_contracts::entry::with_lost_payload`]).
    pub payload: Arc<str>,
    /// The entries it depends on; before it is stored an id may be `key:` and a client key.
    pub depends_on: Vec<LedgerId>,
    /// The execution that made it.
    pub execution_id: Option<ExecutionId>,
    /// The execution that this one tries again.
    pub rerun_of: Option<ExecutionId>,
    /// When it was true, as sent.
    pub observed_at: Option<Timestamp>,
    /// The key by which its producer knows it.
    pub key: Option<ClientKey>,
}

impl Content {
    /// The normal form of a draft, and how deep its payload nests.
    pub fn of(draft: Draft) -> (Content, usize) {
        let (payload, depth) = draft.payload.canonical_and_depth();
        let (depends_on, execution_id, rerun_of) = match draft.lineage {
            Some(lineage) => {
                let ids = lineage.depends_on.map(|ids| ids.as_slice().to_vec()).unwrap_or_default();
                (ids, lineage.execution_id, lineage.rerun_of)
            }
            None => (Vec::new(), None, None),
        };
        let content = Content {
            robot_id: draft.robot_id,
            module: draft.module,
            source: draft.source,
            kind: draft.kind,
            state: draft.state,
            payload: payload.into(),
            depends_on,
            execution_id,
            rerun_of,
            observed_at: draft.observed_at,
            key: draft.key,
        };
        (content, depth)
    }

    /// Whether the execution contract judges it.
    pub fn is_event(&self) -> bool {
        self.kind.as_str() == EXECUTION_EVENT
    }

    /// Replaces the lineage by the resolved ids.
    pub(crate) fn resolve(&mut self, ids: BTreeSet<LedgerId>) {
        self.depends_on = ids.into_iter().collect();
    }

    fn has_lineage(&self) -> bool {
        !self.depends_on.is_empty() || self.execution_id.is_some() || self.rerun_of.is_some()
    }

    /// Adds the lineage, keys in canonical order.
    pub(crate) fn write_lineage(&self, out: &mut String) {
        let mut lineage = ObjectWriter::new(out);
        if !self.depends_on.is_empty() {
            lineage.texts("dependsOnLedgerIds", &self.depends_on);
        }
        if let Some(execution) = &self.execution_id {
            lineage.text("executionId", execution.as_str());
        }
        if let Some(execution) = &self.rerun_of {
            lineage.text("rerunOfExecutionId", execution.as_str());
        }
        lineage.end();
    }
}

/// One entry of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEntry {
    /// Its id.
    pub id: LedgerId,
    /// Its place in the tenant's log.
    pub seq: Seq,
    /// The tenant.
    pub tenant_id: TenantId,
    /// When the ledger accepted it.
    pub created_at: Millis,
    /// Who appended it through a server. It comes from the server, never from the producer, so it does not
    /// make two entries different (R10).
    pub actor: Option<Name>,
    /// The producer's content.
    pub content: Content,
}

impl StoredEntry {
    /// Its effective time and place (R20): when it was true, else when the ledger accepted it.
    pub(crate) fn effective(&self) -> EffectiveTime {
        EffectiveTime { at: effective_at(self.content.observed_at.as_ref(), self.created_at), seq: self.seq }
    }

    /// The entry's RFC 8785 text: the bytes that are hashed, exported and verified.
    pub fn canonical(&self) -> String {
        let content = &self.content;
        let depends_on = ids_text(&content.depends_on);
        let columns = CanonicalColumns {
            actor: self.actor.as_ref().map(|actor| actor.as_str()),
            created_at: self.created_at,
            id: self.id.as_str(),
            key: content.key.as_ref().map(|key| key.as_str()),
            depends_on: &depends_on,
            execution_id: content.execution_id.as_ref().map(|id| id.as_str()),
            rerun_of: content.rerun_of.as_ref().map(|id| id.as_str()),
            module: content.module.as_str(),
            observed_at: content.observed_at.as_ref().map(|at| at.as_str()),
            payload: &content.payload,
            robot_id: content.robot_id.as_str(),
            seq: self.seq,
            source: content.source.as_str(),
            state: content.state.as_str(),
            tenant_id: self.tenant_id.as_str(),
            kind: content.kind.as_str(),
        };
        columns.text()
    }

    /// Reads an entry as a ledger shows it: complete, with its time to the millisecond.
    ///
    /// # Errors
    /// The first problem.
    pub fn read_from(node: Node<'_>) -> Result<Self, String> {
        const INCOMPLETE: &str = "the entry is incomplete";
        let entry = Entry::read_from(node).map_err(|violations| {
            violations.first().map_or("the entry cannot be read".to_owned(), ToString::to_string)
        })?;
        let (content, depth) = Content::of(Draft {
            robot_id: entry.robot_id,
            module: entry.module.ok_or(INCOMPLETE)?,
            source: entry.source.ok_or(INCOMPLETE)?,
            kind: entry.kind,
            state: entry.state.ok_or(INCOMPLETE)?,
            payload: entry.payload.ok_or(INCOMPLETE)?,
            lineage: entry.lineage,
            observed_at: entry.observed_at,
            key: entry.key,
        });
        if depth > MAX_PAYLOAD_DEPTH {
            return Err(too_deep(depth).to_string());
        }
        let created_at = Millis::floor(entry.created_at.instant());
        let is_exact = created_at.to_string() == entry.created_at.as_str();
        let seq = entry.seq.and_then(|seq| Seq::new(seq.get())).filter(|_| is_exact).ok_or(INCOMPLETE)?;
        let tenant_id = entry.tenant_id.ok_or(INCOMPLETE)?;
        Ok(StoredEntry { id: entry.id, seq, tenant_id, created_at, actor: entry.actor, content })
    }

    /// The small canonical record that the Merkle log holds for this entry.
    pub fn leaf_record(&self) -> String {
        leaf_record(&Blake3::of(self.canonical().as_bytes()), &self.id, self.seq)
    }

    /// The hash of the leaf record in the Merkle tree.
    pub fn leaf_hash(&self) -> Sha256 {
        merkle::leaf_hash(self.leaf_record().as_bytes())
    }

    /// The entry as the contracts know it, for snapshots.
    pub fn to_entry(&self) -> Entry {
        let content = &self.content;
        let lineage = content.has_lineage().then(|| Lineage {
            depends_on: if content.depends_on.is_empty() {
                None
            } else {
                Set::new(content.depends_on.clone())
            },
            execution_id: content.execution_id.clone(),
            rerun_of: content.rerun_of.clone(),
        });
        Entry {
            id: self.id.clone(),
            seq: Count::new(self.seq.get()),
            tenant_id: Some(self.tenant_id.clone()),
            robot_id: content.robot_id.clone(),
            module: Some(content.module.clone()),
            source: Some(content.source.clone()),
            kind: content.kind.clone(),
            state: Some(content.state.clone()),
            created_at: self.created_at.timestamp(),
            observed_at: content.observed_at.clone(),
            payload: JsonObject::parse_own(&content.payload),
            lineage,
            key: content.key.clone(),
            actor: self.actor.clone(),
        }
    }
}

/// When the content was true: its observedAt, else when the ledger accepted it (R20).
pub(crate) fn effective_at(observed_at: Option<&Timestamp>, created_at: Millis) -> Instant {
    observed_at.map_or_else(|| created_at.instant(), Timestamp::instant)
}

/// The parts of an entry's canonical text, trusted or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanonicalColumns<'a> {
    pub actor: Option<&'a str>,
    pub created_at: Millis,
    pub id: &'a str,
    pub key: Option<&'a str>,
    /// A JSON array of ids.
    pub depends_on: &'a str,
    pub execution_id: Option<&'a str>,
    pub rerun_of: Option<&'a str>,
    pub module: &'a str,
    pub observed_at: Option<&'a str>,
    pub payload: &'a str,
    pub robot_id: &'a str,
    pub seq: Seq,
    pub source: &'a str,
    pub state: &'a str,
    pub tenant_id: &'a str,
    pub kind: &'a str,
}

impl CanonicalColumns<'_> {
    /// The text; keys in canonical order.
    pub(crate) fn text(&self) -> String {
        let mut out = String::with_capacity(self.payload.len() + 512);
        let mut object = ObjectWriter::new(&mut out);
        if let Some(actor) = self.actor {
            object.text("actor", actor);
        }
        object.text("createdAt", &self.created_at.to_string()).text("id", self.id);
        if let Some(key) = self.key {
            object.text("key", key);
        }
        if self.depends_on != "[]" || self.execution_id.is_some() || self.rerun_of.is_some() {
            let mut lineage = ObjectWriter::new(object.key("lineage"));
            if self.depends_on != "[]" {
                lineage.raw("dependsOnLedgerIds", self.depends_on);
            }
            if let Some(execution) = self.execution_id {
                lineage.text("executionId", execution);
            }
            if let Some(execution) = self.rerun_of {
                lineage.text("rerunOfExecutionId", execution);
            }
            lineage.end();
        }
        object.text("module", self.module);
        if let Some(observed_at) = self.observed_at {
            object.text("observedAt", observed_at);
        }
        object.raw("payload", self.payload).text("robotId", self.robot_id);
        object.raw("seq", &self.seq.to_string()).text("source", self.source);
        object.text("state", self.state).text("tenantId", self.tenant_id).text("type", self.kind);
        object.end();
        out
    }
}

/// The ids of a lineage as a JSON array.
pub(crate) fn ids_text(ids: &[LedgerId]) -> String {
    let mut out = String::with_capacity(ids.len() * 40 + 2);
    out.push('[');
    for (position, id) in ids.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        push_text(&mut out, id.as_str());
    }
    out.push(']');
    out
}

/// The ids of a lineage, kept as a JSON array.
pub(crate) fn parse_ids(text: &str) -> Option<Vec<LedgerId>> {
    if text == "[]" {
        return Some(Vec::new());
    }
    let (document, faults) = parse(text.as_bytes(), &Limits::own(usize::MAX));
    let document = document.filter(|_| faults.is_empty())?;
    document.root().elements().map(|id| LedgerId::parse(&id.string()?).ok()).collect()
}

/// The leaf record: which entry, where, and the BLAKE3 of its canonical bytes.
fn leaf_record(entry: &Blake3, id: &LedgerId, seq: Seq) -> String {
    let mut out = String::with_capacity(160);
    let mut object = ObjectWriter::new(&mut out);
    object.text("blake3", &entry.to_string()).text("id", id.as_str()).raw("seq", &seq.to_string());
    object.end();
    out
}
