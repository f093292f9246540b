//! Keys that were recognised a moment ago, so that a request need not read the log for its key while nothing is written. A revocation is
//! written, so it ends that in every process at once; an expiry is compared each time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_ledger::{Ledger, LedgerError};

use super::{KeyIdentity, active_key};

/// How many keys are remembered.
const MAX_KEYS: usize = 4_096;

/// The keys, by the digests of their tokens.
#[derive(Debug, Default)]
pub struct RecognisedKeys(Mutex<BTreeMap<Blake3, RecognisedKey>>);

#[derive(Debug)]
struct RecognisedKey {
    /// The ledger's, from before the key was read.
    mark: i64,
    identity: KeyIdentity,
    expires: Option<Instant>,
}

impl RecognisedKeys {
    /// Who holds a token, if that is known without reading the log.
    pub fn known(&self, ledger: &Ledger, token: &str) -> Option<KeyIdentity> {
        let mark = ledger.change_mark()?;
        let keys = self.lock();
        let known = keys.get(&Blake3::of(token.as_bytes())).filter(|known| known.mark == mark)?;
        let is_active = known.expires.is_none_or(|expires| ledger.now().instant() < expires);
        is_active.then(|| known.identity.clone())
    }

    /// Who holds a token, by the log; `None` if nobody does, or its key no longer counts.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn authenticate(&self, ledger: &Ledger, token: &str) -> Result<Option<KeyIdentity>, LedgerError> {
        // Asked for first: what is written while the key is read is noticed the next time.
        let mark = ledger.change_mark();
        let Some((identity, grant)) = active_key(ledger, token)? else { return Ok(None) };
        if let Some(mark) = mark {
            let expires = grant.expires.map(|expires| expires.instant());
            let known = RecognisedKey { mark, identity: identity.clone(), expires };
            let mut keys = self.lock();
            if keys.len() >= MAX_KEYS {
                keys.clear();
            }
            keys.insert(grant.token_digest, known);
        }
        Ok(Some(identity))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Blake3, RecognisedKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
