//! Ids as people type and read them: the one that a word is a prefix of, and the shortest unique prefix. Answered by jumps in the
//! index of the ids, so the length of the log does not matter.

use crealeph_contracts::held_change::HELD_CHANGE_KEY;
use crealeph_contracts::receipt::RUN_RECEIPT_KEY;
use crealeph_contracts::reported::REPORTED_KEY;
use crealeph_contracts::scalar::TenantId;
use crealeph_contracts::short_id::{MAX_CANDIDATES, NamedKind, one_id, short_id};

use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::store::Side;

/// The kind of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// An entry.
    Entry,
    /// An execution.
    Execution,
    /// A run whose change was held.
    HeldRun,
    /// A run whose receipt a workspace of the ledger recorded.
    Receipt,
    /// A run whose receipt was reported from elsewhere.
    ReportedReceipt,
}

impl IdKind {
    /// The column that holds it; each backend has an index that begins with the log and this column.
    fn column(self) -> &'static str {
        match self {
            IdKind::Entry => "id",
            IdKind::Execution => "execution",
            IdKind::HeldRun | IdKind::Receipt | IdKind::ReportedReceipt => "key",
        }
    }

    /// The prefix of its values there.
    fn prefix(self) -> &'static str {
        match self {
            IdKind::Entry | IdKind::Execution => "",
            IdKind::HeldRun => HELD_CHANGE_KEY,
            IdKind::Receipt => RUN_RECEIPT_KEY,
            IdKind::ReportedReceipt => REPORTED_KEY,
        }
    }
}

impl From<NamedKind> for IdKind {
    fn from(kind: NamedKind) -> Self {
        match kind {
            NamedKind::Entry => IdKind::Entry,
            NamedKind::Execution => IdKind::Execution,
            NamedKind::Run => IdKind::HeldRun,
            NamedKind::Receipt => IdKind::Receipt,
            NamedKind::ReportedReceipt => IdKind::ReportedReceipt,
        }
    }
}

impl Ledger {
    /// The id that a word is, or is a prefix of; absent if there is none. A whole id is never ambiguous.
    ///
    /// # Errors
    /// If several ids start with it, or the ledger cannot be read.
    pub fn id_of(&self, tenant: &TenantId, kind: IdKind, word: &str) -> Result<Option<String>, LedgerError> {
        if word.is_empty() {
            return Ok(None);
        }
        let first = self.ids_starting(tenant, kind, word, None, 1)?;
        let starting = match first.first().is_some_and(|id| id == word) {
            true => first,
            false => self.ids_starting(tenant, kind, word, None, MAX_CANDIDATES)?,
        };
        Ok(one_id(word, starting)?)
    }

    /// The ids that start with a word, in order, after one of them if it is named, at most so many.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn ids_starting(
        &self,
        tenant: &TenantId,
        kind: IdKind,
        word: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, LedgerError> {
        let word = format!("{}{word}", kind.prefix());
        let after = after.map(|id| format!("{}{id}", kind.prefix()));
        let found = self.ask(tenant, |reads, head| {
            let mut found: Vec<String> = Vec::new();
            while found.len() < limit {
                let last = found.last().or(after.as_ref());
                let (side, from) = last.map_or((Side::AtOrAfter, word.as_str()), |last| (Side::After, last));
                let next = reads.value_beside(head, kind.column(), &[], side, from)?;
                let Some(next) = next.filter(|next| next.starts_with(&word)) else { break };
                found.push(next);
            }
            Ok(found)
        })?;
        let found = found.unwrap_or_default();
        Ok(found.into_iter().filter_map(|id| id.strip_prefix(kind.prefix()).map(str::to_owned)).collect())
    }

    /// The short forms of ids, in the same order.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn short_ids(
        &self,
        tenant: &TenantId,
        kind: IdKind,
        ids: &[&str],
    ) -> Result<Vec<String>, LedgerError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let values: Vec<String> = ids.iter().map(|id| format!("{}{id}", kind.prefix())).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let short = self.ask(tenant, |reads, head| {
            let neighbours = reads.neighbours(head, kind.column(), &values)?;
            let id_in = |value: &Option<String>| {
                value.as_deref().and_then(|value| value.strip_prefix(kind.prefix())).map(str::to_owned)
            };
            let short = ids.iter().zip(&neighbours).map(|(id, (before, after))| {
                short_id(id, id_in(before).as_deref(), id_in(after).as_deref()).to_owned()
            });
            Ok(short.collect())
        })?;
        Ok(short.unwrap_or_default())
    }
}
