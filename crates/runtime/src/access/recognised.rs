//! A cache of recognised keys, so that a request need not read the log for its key while nothing is written. A revocation is
//! written, so it invalidates the cache in every process immediately; an expiry is compared each time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_ledger::{Ledger, LedgerError};

use super::{KeyIdentity, active_key, sessions};

/// How many keys are remembered.
const MAX_KEYS: usize = 4_096;

/// Who holds a token, and when that ends, by the log.
type TokenReader = fn(&Ledger, &str) -> Result<Option<(KeyIdentity, Option<Instant>)>, LedgerError>;

/// The keys or sessions, by the digests of their tokens.
#[derive(Debug)]
pub struct RecognisedKeys {
    read: TokenReader,
    known: Mutex<BTreeMap<Blake3, RecognisedKey>>,
}

impl Default for RecognisedKeys {
    fn default() -> Self {
        RecognisedKeys { read: active_key, known: Mutex::default() }
    }
}

#[derive(Debug)]
struct RecognisedKey {
    /// The ledger's, from before the key was read.
    mark: i64,
    identity: KeyIdentity,
    expires: Option<Instant>,
}

impl RecognisedKeys {
    /// For the tokens of sessions instead of API keys.
    pub fn of_sessions() -> Self {
        RecognisedKeys { read: sessions::active_session, known: Mutex::default() }
    }

    /// Who holds a token, if that is known without reading the log.
    pub fn known(&self, ledger: &Ledger, token: &str) -> Option<KeyIdentity> {
        let mark = ledger.change_mark()?;
        let keys = self.lock();
        let known = keys.get(&Blake3::of(token.as_bytes())).filter(|known| known.mark == mark)?;
        let is_active = known.expires.is_none_or(|expires| ledger.now().instant() < expires);
        is_active.then(|| known.identity.clone())
    }

    /// Who holds a token, by the log; `None` if no one does, or its key no longer counts.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn authenticate(&self, ledger: &Ledger, token: &str) -> Result<Option<KeyIdentity>, LedgerError> {
        // Asked for first: what is written while the key is read is noticed the next time.
        let mark = ledger.change_mark();
        let Some((identity, expires)) = (self.read)(ledger, token)? else { return Ok(None) };
        if let Some(mark) = mark {
            let known = RecognisedKey { mark, identity: identity.clone(), expires };
            let mut keys = self.lock();
            if keys.len() >= MAX_KEYS {
                keys.clear();
            }
            keys.insert(Blake3::of(token.as_bytes()), known);
        }
        Ok(Some(identity))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Blake3, RecognisedKey>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
