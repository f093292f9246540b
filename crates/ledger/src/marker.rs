//! The entry that marks where the second rules of an older log begin ([`crealeph_contracts::log_rules`]). The writer
//! adds it before the first batch that it writes to a log that has none; a log that was started under the second
//! rules needs none.

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::log_rules::{LOG_RULES, LOG_RULES_KEY, RulesInForce};
use crealeph_contracts::scalar::{ClientKey, IdentifierError, Literal, Name, RobotId, TenantId};

use crate::entry::Content;
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::plan::{PreparedEntry, see};
use crate::position::Seq;

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
    Ok(PreparedEntry { content: Content::of(draft).0, actor: None, event: None, id: None, after: None })
}

impl Ledger {
    /// The last place up to which a tenant's log is under the first rules, by which anyone could write entries that are reserved now.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn first_rules_end(&self, tenant: &TenantId) -> Result<Seq, LedgerError> {
        let end = self.ask(tenant, |reads, head| {
            let mut rules = RulesInForce::of_origin(&head.origin);
            if !rules.has_second()
                && let Some(marker) = reads.by_key(head, LOG_RULES_KEY)?
            {
                see(&mut rules, &marker.entry);
            }
            Ok(match rules.second_from() {
                None => head.last_seq(),
                Some(from) => Seq::new(from).map_or(Seq::ZERO, Seq::previous),
            })
        })?;
        Ok(end.unwrap_or(Seq::ZERO))
    }
}
