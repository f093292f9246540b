//! How old evidence may be, exactly (R23): a threshold in minutes is an IEEE double, an age a whole number of
//! nanoseconds, and the two are compared without rounding either.

use crate::instant::Instant;
use crate::scalar::Amount;

const NANOS_PER_MINUTE: u128 = 60_000_000_000;

/// Past this many nanoseconds (about 4 × 10^13 years) every limit is the same: no two instants are so far apart.
const ENDLESS: u128 = 1 << 100;

/// The greatest age that counts as fresh: `numerator / 2^halvings` nanoseconds, exactly the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxAge {
    numerator: u128,
    halvings: u32,
}

impl MaxAge {
    /// The threshold, in minutes, without rounding.
    pub fn from_minutes(minutes: Amount) -> Self {
        let bits = minutes.get().abs().to_bits();
        let exponent = (bits >> 52) as i32;
        let fraction = u128::from(bits & ((1 << 52) - 1));
        let (mantissa, power) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        let numerator = mantissa * NANOS_PER_MINUTE;
        if power < 0 {
            return MaxAge { numerator, halvings: power.unsigned_abs() };
        }
        let capped =
            numerator.checked_shl(power.unsigned_abs()).filter(|shifted| shifted >> power == numerator);
        MaxAge { numerator: capped.unwrap_or(ENDLESS).min(ENDLESS), halvings: 0 }
    }

    /// Whether a time `at` is fresh at `now`: not in the future, and no older than this.
    pub fn is_fresh(self, at: Instant, now: Instant) -> bool {
        u128::try_from(now.nanos_since(at)).is_ok_and(|age| self.covers(age))
    }

    fn covers(self, age_nanos: u128) -> bool {
        self.scaled(age_nanos).is_some_and(|scaled| scaled <= self.numerator)
    }

    /// An age on this limit's scale, so that `scaled(age) / numerator()` is the share of the limit that it uses;
    /// `None` if it is far beyond the limit.
    pub fn scaled(self, age_nanos: u128) -> Option<u128> {
        if age_nanos == 0 {
            return Some(0);
        }
        age_nanos.checked_shl(self.halvings).filter(|scaled| scaled >> self.halvings == age_nanos)
    }

    /// The limit in whole nanoseconds, rounded down.
    pub fn whole_nanos(self) -> u128 {
        self.numerator.checked_shr(self.halvings).unwrap_or(0)
    }

    /// The limit on its own scale; at most 2^100.
    pub fn numerator(self) -> u128 {
        self.numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn max_age(minutes: f64) -> MaxAge {
        MaxAge::from_minutes(Amount::new(minutes).unwrap())
    }

    #[test]
    fn a_nanosecond_past_the_limit_is_not_fresh() {
        for (minutes, nanos) in
            [(60.0, 3_600_000_000_000), (0.5, 30_000_000_000), (1.0 / 3.0, 19_999_999_999), (0.0, 0)]
        {
            assert!(max_age(minutes).covers(nanos), "{minutes}");
            assert!(!max_age(minutes).covers(nanos + 1), "{minutes}");
        }
    }

    #[test]
    fn the_smallest_and_the_greatest_limits_hold() {
        assert!(max_age(f64::from_bits(1)).covers(0));
        assert!(!max_age(f64::from_bits(1)).covers(1));
        let all_of_time = 400_000_000_000_000_000_000;
        assert!(max_age(f64::MAX).covers(all_of_time));
        assert!(max_age(1e300).covers(all_of_time));
    }

    #[test]
    fn the_future_is_not_fresh() {
        let now = Instant::from_unix_nanos(1_000);
        assert!(max_age(1.0).is_fresh(now, now));
        assert!(!max_age(1.0).is_fresh(Instant::from_unix_nanos(1_001), now));
    }

    #[test]
    fn the_limit_and_an_age_are_on_one_scale() {
        let (half, hour) = (max_age(0.5), max_age(60.0));
        assert_eq!((half.whole_nanos(), hour.whole_nanos()), (30_000_000_000, 3_600_000_000_000));
        assert_eq!(half.scaled(15_000_000_000).map(|age| age * 2), Some(half.numerator()));
        assert_eq!(hour.scaled(3_600_000_000_000), Some(hour.numerator()));
        assert_eq!(
            (max_age(1.0 / 3.0).whole_nanos(), max_age(f64::from_bits(1)).whole_nanos()),
            (19_999_999_999, 0)
        );
        assert_eq!(max_age(f64::from_bits(1)).scaled(1), None, "far beyond the limit");
    }

    #[test]
    fn limits_of_whole_powers_are_exact_up_to_the_greatest() {
        for (minutes, whole) in
            [(2f64.powi(52), 1u128 << 52), (2f64.powi(53), 1 << 53), (2f64.powi(60), 1 << 60)]
        {
            assert_eq!(max_age(minutes).whole_nanos(), whole * NANOS_PER_MINUTE, "{minutes}");
        }
        for minutes in [2f64.powi(70), 2f64.powi(120), f64::MAX] {
            assert_eq!(max_age(minutes).whole_nanos(), ENDLESS, "{minutes}");
        }
    }
}
