//! The ledger's clock: only the writer reads it (R20). It may jump back; the times that the ledger writes do not.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::LedgerError;
use crate::position::Millis;
use crate::store::Head;

/// How far ahead of the clock the newest entry may be and still set the time that entries are judged by.
const JUDGING_SKEW_MS: i64 = 300_000;

/// Tells the time.
#[derive(Clone)]
pub struct Clock {
    tell: Arc<dyn Fn() -> Millis + Send + Sync>,
    /// It is the machine's; a database's own clock takes precedence.
    is_system: bool,
}

impl Clock {
    /// The system's wall clock.
    pub fn system() -> Self {
        let tell = || {
            let now = SystemTime::now();
            let millis = match now.duration_since(UNIX_EPOCH) {
                Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
                Err(before) => {
                    i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)
                }
            };
            Millis::new(millis)
        };
        Clock { tell: Arc::new(tell), is_system: true }
    }

    /// A custom clock, for tests; it also replaces a database's.
    pub fn from_fn(tell: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Clock { tell: Arc::new(tell), is_system: false }
    }

    /// The time it tells.
    pub fn now(&self) -> Millis {
        (self.tell)()
    }

    /// The time for a log: the database's if it has a clock.
    pub(crate) fn now_for(&self, head: &Head) -> Millis {
        head.read_at.filter(|_| self.is_system).unwrap_or_else(|| self.now())
    }

    /// The time that entries are judged by: the true time, or the newest entry's if that is slightly ahead, since createdAt
    /// never goes back and clocks differ. An entry that is dated further ahead is in the future.
    pub(crate) fn judging_time(&self, head: &Head) -> Millis {
        let now = self.now_for(head);
        if is_ahead(head.last_at, now, JUDGING_SKEW_MS) { now } else { now.max(head.last_at) }
    }
}

/// Whether a time is further ahead of another than a limit.
pub(crate) fn is_ahead(time: Millis, now: Millis, skew_ms: i64) -> bool {
    time.get().saturating_sub(now.get()) > skew_ms
}

/// The clock that a writing thread dates entries by, and how far it may differ from others.
#[derive(Clone, Debug)]
pub(crate) struct DatingClock {
    pub clock: Clock,
    pub skew_ms: i64,
    /// The ledger's place, for messages.
    pub place: String,
}

/// The time of new entries, or why they are refused.
#[derive(Clone, Debug)]
pub(crate) struct Dating {
    pub now: Millis,
    /// The newest entry is further ahead than the limit.
    pub refusal: Option<LedgerError>,
}

impl DatingClock {
    /// Dates the entry after a log's newest entry. If the database's clock and the machine's differ by much, it is unknown which
    /// is right, and an entry that is dated wrongly can never be removed.
    pub(crate) fn dating(&self, head: &Head) -> Dating {
        let DatingClock { clock, skew_ms, place } = self;
        let (now, machine) = (clock.now_for(head), clock.now());
        let seconds = skew_ms / 1_000;
        let refusal = if is_ahead(now, machine, *skew_ms) || is_ahead(machine, now, *skew_ms) {
            let (database, machine) = (now.to_string(), machine.to_string());
            Some(LedgerError::ClocksDiffer { place: place.clone(), database, machine, seconds })
        } else if is_ahead(head.last_at, now, *skew_ms) {
            let (newest, now) = (head.last_at.to_string(), now.to_string());
            Some(LedgerError::ClockBehind { tenant: head.tenant_id.to_string(), newest, now, seconds })
        } else {
            None
        };
        Dating { now, refusal }
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

#[cfg(test)]
mod tests {
    use crealeph_contracts::scalar::TenantId;

    use super::*;
    use crate::merkle::Frontier;

    /// A log whose newest entry has a time, as a database with another clock reads it.
    fn head(last_at: i64, read_at: Option<i64>) -> Head {
        Head {
            tenant_id: TenantId::parse("t").unwrap(),
            number: 1,
            origin: "log".to_owned(),
            last_at: Millis::new(last_at),
            read_at: read_at.map(Millis::new),
            frontier: Frontier::default(),
        }
    }

    fn clock(now: i64, is_system: bool) -> Clock {
        Clock { tell: Arc::new(move || Millis::new(now)), is_system }
    }

    #[test]
    fn entries_are_dated_unless_clocks_are_too_far_apart() {
        for (last_at, read_at, refusal) in [
            (0, None, None),
            (101_000, None, None),
            (101_001, None, Some("ledger_clock")),
            (0, Some(101_000), None),
            (0, Some(99_000), None),
            (0, Some(101_001), Some("ledger_clock")),
            (0, Some(98_999), Some("ledger_clock")),
        ] {
            let clock = DatingClock { clock: clock(100_000, true), skew_ms: 1_000, place: "db".to_owned() };
            let dating = clock.dating(&head(last_at, read_at));
            assert_eq!(
                dating.now,
                Millis::new(read_at.unwrap_or(100_000)),
                "the database's clock, if it has one"
            );
            assert_eq!(dating.refusal.map(|error| error.code()), refusal, "{last_at} {read_at:?}");
        }
    }

    #[test]
    fn a_clock_that_is_given_is_the_only_one() {
        assert_eq!(clock(5, false).now_for(&head(0, Some(9))), Millis::new(5));
        assert_eq!(clock(5, true).now_for(&head(0, Some(9))), Millis::new(9));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        assert!((now..now + 60_000).contains(&Clock::system().now().get()));
    }

    #[test]
    fn freshness_is_judged_no_earlier_than_the_newest_entry_unless_that_is_far_ahead() {
        let judged = |last_at| clock(1_000_000, false).judging_time(&head(last_at, None)).get();
        assert_eq!([judged(0), judged(1_000_007), judged(1_300_000)], [1_000_000, 1_000_007, 1_300_000]);
        assert_eq!(judged(1_300_001), 1_000_000);
    }
}
