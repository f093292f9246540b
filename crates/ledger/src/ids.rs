//! Ids as people type and read them: the one that a word starts, and the shortest start that tells one apart. Answered by jumps in the
//! index of the ids, so the length of the log does not matter.

use crealeph_contracts::scalar::TenantId;
use crealeph_contracts::short_id::{MAX_CANDIDATES, one_id, short_id};

use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::store::Side;

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// An entry.
    Entry,
    /// An execution.
    Execution,
}

impl IdKind {
    /// The column that holds it; each backend has an index that begins with the log and this column.
    fn column(self) -> &'static str {
        match self {
            IdKind::Entry => "id",
            IdKind::Execution => "execution",
        }
    }
}

impl Ledger {
    /// The id that a word is, or is the start of; absent if there is none. A whole id is never ambiguous.
    ///
    /// # Errors
    /// When several ids start with it, or the ledger cannot be read.
    pub fn id_of(&self, tenant: &TenantId, kind: IdKind, word: &str) -> Result<Option<String>, LedgerError> {
        if word.is_empty() {
            return Ok(None);
        }
        let first = self.ids_starting(tenant, kind, word, 1)?;
        let starting = match first.first().is_some_and(|id| id == word) {
            true => first,
            false => self.ids_starting(tenant, kind, word, MAX_CANDIDATES)?,
        };
        Ok(one_id(word, starting)?)
    }

    /// The ids that start with a word, in order, at most so many.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn ids_starting(
        &self,
        tenant: &TenantId,
        kind: IdKind,
        word: &str,
        limit: usize,
    ) -> Result<Vec<String>, LedgerError> {
        let found = self.ask(tenant, |reads, head| {
            let mut found: Vec<String> = Vec::new();
            while found.len() < limit {
                let (side, from) = found.last().map_or((Side::AtOrAfter, word), |last| (Side::After, last));
                let next = reads.value_beside(head, kind.column(), &[], side, from)?;
                let Some(next) = next.filter(|next| next.starts_with(word)) else { break };
                found.push(next);
            }
            Ok(found)
        })?;
        Ok(found.unwrap_or_default())
    }

    /// The short forms of ids, in the same order.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn short_ids(
        &self,
        tenant: &TenantId,
        kind: IdKind,
        ids: &[&str],
    ) -> Result<Vec<String>, LedgerError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let short = self.ask(tenant, |reads, head| {
            let neighbours = reads.neighbours(head, kind.column(), ids)?;
            let short = ids.iter().zip(&neighbours);
            let short = short
                .map(|(id, (before, after))| short_id(id, before.as_deref(), after.as_deref()).to_owned());
            Ok(short.collect())
        })?;
        Ok(short.unwrap_or_default())
    }
}
