//! What an entry's lineage reaches, followed to the end: the newest entry of each of the six snapshot types. It is
//! computed once, from the reach of the entry's dependencies, and stored with the entry, so that no query walks the lineage.
//!
//! It is stored twice: by sequence number ([`LineageReach`]), for records of the time when newest meant last to arrive, and by
//! effective time ([`EffectiveReach`], R20), which every snapshot uses since.

use crealeph_contracts::instant::Instant;
use crealeph_decision::snapshot::{PerType, SnapshotType};

use crate::position::Seq;

/// The newest entry of each snapshot type that a lineage reaches, by its sequence number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineageReach(PerType<Option<Seq>>);

impl LineageReach {
    /// The newest entry of a type.
    pub fn get(&self, kind: SnapshotType) -> Option<Seq> {
        *self.0.get(kind)
    }

    /// Adds a dependency, and everything that it reaches itself.
    pub fn extend(&mut self, kind: &str, seq: Seq, reach: &LineageReach) {
        for each in SnapshotType::ALL {
            self.raise(each, reach.get(each));
        }
        if let Some(own) = SnapshotType::parse(kind) {
            self.raise(own, Some(seq));
        }
    }

    fn raise(&mut self, kind: SnapshotType, seq: Option<Seq>) {
        let newest = self.0.get_mut(kind);
        *newest = (*newest).max(seq);
    }

    /// From the six columns, in the order of [`SnapshotType::ALL`].
    pub(crate) fn from_columns(columns: [Option<i64>; 6]) -> LineageReach {
        let mut reach = LineageReach::default();
        for (kind, column) in SnapshotType::ALL.into_iter().zip(columns) {
            reach.raise(kind, column.and_then(Seq::from_i64));
        }
        reach
    }
}

/// An entry's effective time and place, by which entries are newer or older (R20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EffectiveTime {
    /// Its observedAt, else its createdAt.
    pub at: Instant,
    /// Its place.
    pub seq: Seq,
}

impl EffectiveTime {
    /// The newer of the two.
    pub(crate) fn max_of(self, other: Option<EffectiveTime>) -> EffectiveTime {
        other.map_or(self, |other| self.max(other))
    }
}

/// Bytes of an instant in [`EffectiveReach`]: nanoseconds since 1970, big-endian two's complement.
const INSTANT_BYTES: usize = 12;
/// Bytes of a sequence number in [`EffectiveReach`], big-endian.
const SEQ_BYTES: usize = 5;

/// The newest entry of each snapshot type that a lineage reaches, by effective time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EffectiveReach(PerType<Option<EffectiveTime>>);

impl EffectiveReach {
    /// The newest entry of a type.
    pub(crate) fn get(&self, kind: SnapshotType) -> Option<EffectiveTime> {
        *self.0.get(kind)
    }

    /// Adds a dependency, and everything that it reaches itself.
    pub(crate) fn extend(&mut self, kind: &str, own: EffectiveTime, used: &EffectiveReach) {
        for each in SnapshotType::ALL {
            self.raise(each, used.get(each));
        }
        if let Some(kind) = SnapshotType::parse(kind) {
            self.raise(kind, Some(own));
        }
    }

    fn raise(&mut self, kind: SnapshotType, other: Option<EffectiveTime>) {
        let newest = self.0.get_mut(kind);
        *newest = (*newest).max(other);
    }

    /// As the databases hold it: one byte whose bits say which types are present, then place and time of each in the order
    /// of [`SnapshotType::ALL`]; absent if nothing is reached.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0u8];
        for (bit, kind) in SnapshotType::ALL.into_iter().enumerate() {
            let Some(EffectiveTime { at, seq }) = self.get(kind) else { continue };
            if let Some(mask) = bytes.first_mut() {
                *mask |= 1 << bit;
            }
            let [_, _, _, place @ ..] = seq.get().to_be_bytes();
            let [_, _, _, _, time @ ..] = at.unix_nanos().to_be_bytes();
            bytes.extend_from_slice(&place);
            bytes.extend_from_slice(&time);
        }
        (bytes.len() > 1).then_some(bytes)
    }

    /// Reads it back; `None` if the bytes are invalid.
    pub(crate) fn from_bytes(bytes: Option<&[u8]>) -> Option<EffectiveReach> {
        let mut used = EffectiveReach::default();
        let Some(bytes) = bytes else { return Some(used) };
        let (mask, mut rest) = bytes.split_first()?;
        for (bit, kind) in SnapshotType::ALL.into_iter().enumerate() {
            if mask & (1 << bit) == 0 {
                continue;
            }
            let place: &[u8; SEQ_BYTES];
            let time: &[u8; INSTANT_BYTES];
            (place, rest) = rest.split_first_chunk()?;
            (time, rest) = rest.split_first_chunk()?;
            let number = place.iter().fold(0u64, |number, byte| (number << 8) | u64::from(*byte));
            let sign = if time.first().is_some_and(|byte| *byte >= 0x80) { -1i128 } else { 0 };
            let nanos = time.iter().fold(sign, |nanos, byte| (nanos << 8) | i128::from(*byte));
            let own = EffectiveTime { at: Instant::from_unix_nanos(nanos), seq: Seq::new(number)? };
            used.raise(kind, Some(own));
        }
        (rest.is_empty() && mask >> SnapshotType::ALL.len() == 0).then_some(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn effective_times_are_read_back(times in prop::collection::vec(
            prop::option::of((-62_167_219_200i128..253_402_300_800, 0i128..1_000_000_000, 0u64..1 << 40)), 6)) {
            let mut used = EffectiveReach::default();
            for (kind, time) in SnapshotType::ALL.into_iter().zip(times) {
                let own = time.map(|(seconds, nanos, seq)| EffectiveTime {
                    at: Instant::from_unix_nanos(seconds * 1_000_000_000 + nanos),
                    seq: Seq::new(seq).unwrap(),
                });
                used.raise(kind, own);
            }
            let bytes = used.to_bytes();
            prop_assert_eq!(EffectiveReach::from_bytes(bytes.as_deref()), Some(used));
            if let Some(bytes) = bytes {
                prop_assert_eq!(EffectiveReach::from_bytes(Some(&bytes[..bytes.len() - 1])), None);
            }
        }
    }
}
