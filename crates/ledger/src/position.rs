//! The position of an entry: its sequence number in the tenant's log, and the millisecond in which the ledger accepted it.

use std::fmt;

use crealeph_contracts::instant::{Instant, Timestamp};

/// The most entries one tenant's log can hold: 2^40 − 1, so that tenant and number fit one 63-bit row id.
pub const MAX_SEQ: u64 = (1 << 40) - 1;

const NANOS_PER_MILLI: i128 = 1_000_000;

/// An entry's sequence number in its tenant's log, from 1; 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    /// Before the first entry.
    pub const ZERO: Seq = Seq(0);
    /// The largest sequence number.
    pub const MAX: Seq = Seq(MAX_SEQ);

    /// Accepts a number in range.
    pub fn new(number: u64) -> Option<Self> {
        (number <= MAX_SEQ).then_some(Seq(number))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The next one; the largest stays.
    pub fn next(self) -> Seq {
        Seq((self.0 + 1).min(MAX_SEQ))
    }

    /// The previous one; zero stays.
    pub fn previous(self) -> Seq {
        Seq(self.0.saturating_sub(1))
    }

    /// The entry's leaf in the Merkle tree, counted from 0.
    pub(crate) fn leaf_index(self) -> u64 {
        self.0.saturating_sub(1)
    }

    /// As the databases hold it; the limit of [`MAX_SEQ`] makes the conversion exact.
    pub(crate) fn as_i64(self) -> i64 {
        self.0 as i64
    }

    pub(crate) fn from_i64(number: i64) -> Option<Self> {
        u64::try_from(number).ok().and_then(Seq::new)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since 1970: the precision of the ledger's clock (R20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(i64);

impl Millis {
    /// The last millisecond that has four digits for its year.
    const LAST: i64 = 253_402_300_799_999;

    /// That many milliseconds after 1970, held within the years 0000 to 9999.
    pub fn new(millis: i64) -> Self {
        Millis(millis.clamp(-62_167_219_200_000, Self::LAST))
    }

    /// The number of milliseconds.
    pub fn get(self) -> i64 {
        self.0
    }

    /// The last whole millisecond at or before an instant.
    pub fn floor(instant: Instant) -> Self {
        let millis = instant.unix_nanos().div_euclid(NANOS_PER_MILLI);
        Millis::new(i64::try_from(millis).unwrap_or(Self::LAST))
    }

    /// The instant.
    pub fn instant(self) -> Instant {
        Instant::from_unix_nanos(i128::from(self.0) * NANOS_PER_MILLI)
    }

    /// As the system writes it (R1).
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from(self.instant())
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.instant().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_within_a_log() {
        let seq = |number| Seq::new(number).unwrap();
        assert_eq!((Seq::new(MAX_SEQ), Seq::new(MAX_SEQ + 1)), (Some(Seq::MAX), None));
        assert_eq!((seq(4).next(), Seq::MAX.next()), (seq(5), Seq::MAX));
        assert_eq!((seq(4).previous(), Seq::ZERO.previous()), (seq(3), Seq::ZERO));
        assert_eq!((seq(4).leaf_index(), seq(4).as_i64(), seq(4).to_string().as_str()), (3, 4, "4"));
        assert_eq!((Seq::from_i64(4), Seq::from_i64(-1), Seq::from_i64(1 << 40)), (Some(seq(4)), None, None));
    }

    #[test]
    fn times_are_whole_milliseconds_of_years_with_four_digits() {
        let at = |text: &str| Millis::floor(Instant::parse(text).unwrap());
        assert_eq!(at("1970-01-01T00:00:00.0019Z"), Millis::new(1));
        assert_eq!(at("1969-12-31T23:59:59.9995Z"), Millis::new(-1));
        assert_eq!(Millis::new(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Millis::new(1).timestamp().as_str(), "1970-01-01T00:00:00.001Z");
        assert_eq!(Millis::new(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Millis::new(i64::MIN).to_string(), "0000-01-01T00:00:00.000Z");
    }
}
