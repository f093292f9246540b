//! Freshness as a number (R24), computed exactly in integers and rounded once, half to even, to four decimals.

use crealeph_contracts::instant::Instant;
use crealeph_contracts::policy_input::LedgerRecency;
use crealeph_contracts::scalar::Ratio;
use crealeph_contracts::staleness::MaxAge;

use super::rules::Need;

/// Ten-thousandths: the grid that confidence is rounded to.
const GRID: u128 = 10_000;

/// How fresh the evidence is that an action needs, from 0 to 1 in ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Freshness(u16);

impl Freshness {
    /// Nothing is needed, or nothing could be fresher.
    pub(super) const WHOLE: Freshness = Freshness(GRID as u16);

    /// The mean over all needs of `1 − age / (2 × limit)` for fresh ones and 0 for the others; of
    /// alternatives the freshest counts. `None` if the arithmetic overflows, which refuses.
    pub(super) fn of(
        needs: &[Need],
        recency: &LedgerRecency,
        now: Instant,
        limit: MaxAge,
    ) -> Option<Freshness> {
        if needs.is_empty() {
            return Some(Self::WHOLE);
        }
        let mut fresh_count: u128 = 0;
        let mut scaled_ages: u128 = 0;
        for need in needs {
            let ages = need.alternatives().iter().filter_map(|name| {
                let at = recency.get(name)?.instant();
                limit.is_fresh(at, now).then(|| now.nanos_since(at).unsigned_abs())
            });
            if let Some(age) = ages.min() {
                fresh_count += 1;
                scaled_ages = scaled_ages.checked_add(limit.scaled(age)?)?;
            }
        }
        let count = needs.len() as u128;
        let (dividend, divisor) = match limit.numerator() {
            0 => (fresh_count, count),
            whole => (
                (2 * fresh_count).checked_mul(whole)?.checked_sub(scaled_ages)?,
                (2 * count).checked_mul(whole)?,
            ),
        };
        let rounded = round_half_even(dividend.checked_mul(GRID)?, divisor)?;
        u16::try_from(rounded).ok().filter(|value| u128::from(*value) <= GRID).map(Freshness)
    }

    /// The freshness as a number.
    pub(super) fn ratio(self) -> Option<Ratio> {
        Ratio::new(f64::from(self.0) / GRID as f64)
    }

    /// How sure a refusal is: 1 − freshness.
    pub(super) fn complement(self) -> Freshness {
        Freshness(Self::WHOLE.0 - self.0)
    }
}

fn round_half_even(dividend: u128, divisor: u128) -> Option<u128> {
    let quotient = dividend.checked_div(divisor)?;
    let twice_rest = 2 * (dividend % divisor);
    let is_up = twice_rest > divisor || (twice_rest == divisor && quotient % 2 == 1);
    Some(quotient + u128::from(is_up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crealeph_contracts::instant::Timestamp;
    use crealeph_contracts::scalar::Amount;

    const NOW: &str = "2026-03-04T06:00:00Z";

    fn freshness(needs: &[&str], ages_seconds: &[(&str, f64)], max_minutes: f64) -> u16 {
        let needs: Vec<Need> = needs.iter().map(|need| Need::parse(need).unwrap()).collect();
        let now = Instant::parse(NOW).unwrap();
        let recency = ages_seconds.iter().map(|(name, age)| {
            let at = Instant::from_unix_nanos(now.unix_nanos() - (age * 1e9) as i128);
            ((*name).into(), Some(Timestamp::from(at)))
        });
        let limit = MaxAge::from_minutes(Amount::new(max_minutes).unwrap());
        Freshness::of(&needs, &LedgerRecency::new(recency.collect()), now, limit).unwrap().0
    }

    #[test]
    fn the_mean_over_what_is_needed() {
        assert_eq!(freshness(&[], &[], 60.0), 10_000);
        assert_eq!(freshness(&["a"], &[("a", 0.0)], 60.0), 10_000);
        assert_eq!(freshness(&["a"], &[("a", 3600.0)], 60.0), 5_000);
        assert_eq!(
            freshness(&["a", "b"], &[("a", 1800.0), ("b", 2400.0)], 60.0),
            7_083,
            "mean of 0.75 and 0.6667"
        );
        assert_eq!(freshness(&["a", "b"], &[("a", 0.0)], 60.0), 5_000, "what is missing counts 0");
        assert_eq!(
            freshness(&["a", "b"], &[("a", 0.0), ("b", 3601.0)], 60.0),
            5_000,
            "and so does what is stale"
        );
        assert_eq!(
            freshness(&["a", "b"], &[("a", 0.0), ("b", -1.0)], 60.0),
            5_000,
            "and what is yet to come"
        );
        assert_eq!(
            freshness(&["a|b"], &[("a", 3600.0), ("b", 0.0)], 60.0),
            10_000,
            "the fresher alternative counts"
        );
        assert_eq!(freshness(&["a"], &[("a", 0.0)], 0.0), 10_000);
        assert_eq!(freshness(&["a"], &[("a", 1.0)], 0.0), 0);
        assert_eq!(freshness(&["a", "b", "c"], &[("a", 0.0), ("b", 0.0)], 1e300), 6_667);
    }

    #[test]
    fn halves_go_to_the_even_digit() {
        // 1 − age / (2 × 5,000 s) with whole and half ten-thousandths.
        let minutes = 5_000.0 / 60.0;
        let exact_minutes = 4_800.0 / 60.0;
        assert_eq!(freshness(&["a"], &[("a", 0.48)], exact_minutes), 10_000, "0.99995 goes up to 1.0000");
        assert_eq!(freshness(&["a"], &[("a", 1.44)], exact_minutes), 9_998, "0.99985 goes down to 0.9998");
        assert!(freshness(&["a"], &[("a", 0.5)], minutes) >= 9_999);
        assert_eq!(round_half_even(5, 2), Some(2));
        assert_eq!(round_half_even(7, 2), Some(4));
        assert_eq!(round_half_even(1, 0), None);
    }
}
