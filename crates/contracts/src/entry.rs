//! An entry of the ledger as it is exported: the document that snapshots are derived from. Id and sequence number
//! are its envelope (R4), assigned by the ledger like createdAt (R20).

use crate::instant::Timestamp;
use crate::json::{JsonObject, Limits, Node, parse};
use crate::scalar::{ClientKey, Count, ExecutionId, LedgerId, Name, RobotId, TenantId};
use crate::shape::{Set, Shape, object};
use crate::violation::{Report, Violation};

object! {
    /// What an entry rests on.
    Lineage / LineageParts ["entry", "R4"] {
        /// The entries it depends on.
        depends_on: Option<Set<LedgerId>> = "dependsOnLedgerIds",
        /// The execution that made it.
        execution_id: Option<ExecutionId> = "executionId",
        /// The execution that this one tries again.
        rerun_of: Option<ExecutionId> = "rerunOfExecutionId",
    }
}

object! {
    /// One record of the ledger.
    Entry / EntryParts ["entry", "R4"] {
        /// Its id.
        id: LedgerId = "id",
        /// Its place in the tenant's log.
        seq: Option<Count> = "seq",
        /// The tenant.
        tenant_id: Option<TenantId> = "tenantId",
        /// The robot.
        robot_id: RobotId = "robotId",
        /// The module that made it.
        module: Option<Name> = "module",
        /// Where that had it from.
        source: Option<Name> = "source",
        /// What it is.
        kind: Name = "type",
        /// Its state.
        state: Option<Name> = "state",
        /// When the ledger took it.
        created_at: Timestamp = "createdAt",
        /// When it was true.
        observed_at: Option<Timestamp> = "observedAt",
        /// The thing itself.
        payload: Option<JsonObject> = "payload",
        /// What it rests on.
        lineage: Option<Lineage> = "lineage",
        /// The key by which its producer knows it.
        key: Option<ClientKey> = "key",
        /// Who appended it through a server, by the credential: `key:` and the id of an API key.
        actor: Option<Name> = "actor",
    }
}

object! {
    /// An entry as its producer hands it over; the ledger adds id, sequence number, tenant and createdAt.
    Draft / DraftParts ["entry", "R4"] {
        /// The robot.
        robot_id: RobotId = "robotId",
        /// The module that made it.
        module: Name = "module",
        /// Where that had it from.
        source: Name = "source",
        /// What it is.
        kind: Name = "type",
        /// Its state.
        state: Name = "state",
        /// The thing itself.
        payload: JsonObject = "payload",
        /// What it rests on; an id may be given as `key:` and a client key.
        lineage: Option<Lineage> = "lineage",
        /// When it was true.
        observed_at: Option<Timestamp> = "observedAt",
        /// The key by which its producer knows it.
        key: Option<ClientKey> = "key",
    }
}

/// How an older version stored an entry whose payload nested too deep for it: without a payload. Its text is not JSON.
const LOST_PAYLOAD: &str = "\"payload\":,\"robotId\":";
/// The same with an empty payload, to be read.
const EMPTY_PAYLOAD: &str = "\"payload\":{},\"robotId\":";

/// The text of such an entry, or of an export's line that holds one, with an empty payload instead of the lost one, so
/// that it can be read; `None` for any other text. No JSON has a key and its value like that.
pub fn with_lost_payload(text: &str) -> Option<String> {
    text.contains(LOST_PAYLOAD).then(|| text.replacen(LOST_PAYLOAD, EMPTY_PAYLOAD, 1))
}

/// The text as it was stored and hashed, from the result of [`with_lost_payload`].
pub fn without_lost_payload(text: &str) -> String {
    text.replacen(EMPTY_PAYLOAD, LOST_PAYLOAD, 1)
}

impl Draft {
    /// Parses and reads a text, or reports everything that is wrong with it.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, Vec<Violation>> {
        let (document, faults) = parse(bytes, limits);
        let mut report = Report::default();
        faults.into_iter().for_each(|fault| report.add_fault(fault));
        let parts = document.map(|document| Draft::read(document.root(), "entry", &mut report));
        match parts.and_then(Draft::finish) {
            Some(draft) if report.is_clean() => Ok(draft),
            _ => Err(report.into_violations()),
        }
    }
}

impl Entry {
    /// Reads an entry, or reports everything that is wrong with it.
    pub fn read_from(node: Node<'_>) -> Result<Self, Vec<Violation>> {
        let mut report = Report::default();
        let parts = Entry::read(node, "entry", &mut report);
        match Entry::finish(parts) {
            Some(entry) if report.is_clean() => Ok(entry),
            _ => Err(report.into_violations()),
        }
    }

    /// The ids it depends on.
    pub fn depends_on(&self) -> &[LedgerId] {
        self.lineage.as_ref().and_then(|lineage| lineage.depends_on.as_ref()).map_or(&[], Set::as_slice)
    }

    /// When it was true: `observedAt`, or if that is absent `createdAt` (R20).
    pub fn true_at(&self) -> &Timestamp {
        self.observed_at.as_ref().unwrap_or(&self.created_at)
    }
}
