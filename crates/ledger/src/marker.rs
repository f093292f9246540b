//! The entry that marks where the second rules of an older log begin ([`crealeph_contracts::log_rules`]). The writer
//! adds it in front of the first batch that it writes to a log that has none; a log that was started under the second
//! rules needs none.

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::log_rules::{LOG_RULES, LOG_RULES_KEY};
use crealeph_contracts::scalar::{ClientKey, IdentifierError, Literal, Name, RobotId, TenantId};

use crate::entry::Content;
use crate::error::{AppendError, LedgerError};
use crate::ledger::Ledger;
use crate::plan::PreparedEntry;

/// The robot, module and source of entries that are about the log itself.
const CREALEPH: Literal = Literal::new("crealeph");
const FINAL: Literal = Literal::new("final");

/// The marker.
pub(crate) fn marker() -> Result<PreparedEntry, LedgerError> {
    let named = || -> Result<Draft, IdentifierError> {
        Ok(Draft {
            robot_id: RobotId::parse(CREALEPH.as_str())?,
            module: Name::from(CREALEPH),
            source: Name::from(CREALEPH),
            kind: Name::from(LOG_RULES),
            state: Name::from(FINAL),
            payload: JsonObject::build(|payload| _ = payload.integer("rules", 2)),
            lineage: None,
            observed_at: None,
            key: Some(ClientKey::parse(LOG_RULES_KEY)?),
        })
    };
    let draft = named().map_err(|error| LedgerError::Failed {
        place: "the marker of the log's rules".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(PreparedEntry { content: Content::of(draft).0, event: None, id: None })
}

impl Ledger {
    /// Lets the second rules begin in a tenant's log, if they do not hold in it yet. The first append does the same.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn begin_rules(&self, tenant: &TenantId) -> Result<(), AppendError> {
        self.append_as(tenant, Vec::new()).map(|_| ())
    }
}
