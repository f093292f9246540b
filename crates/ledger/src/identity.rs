//! The ids that the ledger assigns: UUIDs of version 7, the millisecond first, so that neighbours in time are neighbours
//! in an index. Only this module draws randomness, a block at a time.

use crealeph_contracts::scalar::LedgerId;
use crealeph_contracts::uuid::Uuid;

use crate::error::LedgerError;
use crate::position::{Millis, Seq};

const BLOCK: usize = 1024;

/// Creates entry ids.
#[derive(Debug, Default)]
pub(crate) struct IdSource {
    random: Vec<[u8; 8]>,
}

impl IdSource {
    /// The next id. Within a millisecond ids grow with the sequence number's low 12 bits.
    pub(crate) fn next(&mut self, at: Millis, seq: Seq) -> Result<LedgerId, LedgerError> {
        let [.., a0, a1] = seq.get().to_be_bytes();
        let [b0, b1, b2, b3, b4, b5, b6, b7] = self.random()?;
        let id = Uuid::v7(at.get(), [a0, a1, b0, b1, b2, b3, b4, b5, b6, b7]);
        LedgerId::parse(&id.to_string()).map_err(|error| failed(&error))
    }

    /// An id for an entry whose sequence number is not known yet.
    pub(crate) fn fresh(at: Millis) -> Result<LedgerId, LedgerError> {
        let mut source = IdSource::default();
        let number = u64::from_be_bytes(source.random()?);
        source.next(at, Seq::new(number & 0xfff).unwrap_or(Seq::ZERO))
    }

    fn random(&mut self) -> Result<[u8; 8], LedgerError> {
        if self.random.is_empty() {
            let mut block = [0u8; BLOCK];
            getrandom::fill(&mut block).map_err(|error| failed(&error))?;
            self.random = block.as_chunks::<8>().0.to_vec();
        }
        Ok(self.random.pop().unwrap_or_default())
    }
}

/// 32 random hex digits: the opaque part of a log's name.
pub(crate) fn random_name() -> Result<String, LedgerError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| failed(&error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn failed(error: &dyn std::fmt::Display) -> LedgerError {
    LedgerError::Failed { place: "the system's random source".to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_in_the_order_of_their_times_and_numbers_and_differ() {
        let mut source = IdSource::default();
        let at = |millis, number| (Millis::new(millis), Seq::new(number).unwrap());
        let ids: Vec<LedgerId> =
            [at(0x0190_a6f0_7c2d, 4_095), at(0x0190_a6f0_7c2e, 0), at(0x0190_a6f0_7c2e, 1)]
                .into_iter()
                .map(|(at, seq)| source.next(at, seq).unwrap())
                .collect();
        assert!(ids.is_sorted(), "{ids:?}");
        for (id, start) in
            ids.iter().zip(["0190a6f0-7c2d-7fff-", "0190a6f0-7c2e-7000-", "0190a6f0-7c2e-7001-"])
        {
            assert!(id.as_str().starts_with(start), "{id}");
            assert!(matches!(id.as_str().chars().nth(19), Some('8' | '9' | 'a' | 'b')), "{id}: the variant");
        }
        // More than one block of randomness.
        let same = (0..500).map(|_| source.next(Millis::new(1), Seq::ZERO).unwrap());
        let fresh = (0..4).map(|_| IdSource::fresh(Millis::new(1)).unwrap());
        assert_eq!(same.chain(fresh).collect::<BTreeSet<_>>().len(), 504);
        let names: BTreeSet<String> = (0..4).map(|_| random_name().unwrap()).collect();
        assert!(names.len() == 4 && names.iter().all(|name| name.len() == 32), "{names:?}");
    }
}
