//! Instants (R1): the strict RFC 3339 form a client may send, compared at full precision, kept as sent;
//! and the one form that the system writes, UTC with three fractional digits and `Z`.

use std::fmt;

use crate::json::{Node, NodeKind, push_text};
use crate::shape::{Shape, shown, wrong_type};
use crate::violation::{Code, Report};

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A point in time, in nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    seconds: i64,
    nanos: u32,
}

impl Instant {
    /// The instant that many nanoseconds after 1970 (before, if negative).
    pub fn from_unix_nanos(nanos: i128) -> Self {
        let seconds = nanos.div_euclid(NANOS_PER_SECOND) as i64;
        Instant { seconds, nanos: nanos.rem_euclid(NANOS_PER_SECOND) as u32 }
    }

    /// Nanoseconds since 1970.
    pub fn unix_nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS_PER_SECOND + i128::from(self.nanos)
    }

    /// Nanoseconds from `earlier` to this instant; negative if this is the earlier one.
    pub fn nanos_since(self, earlier: Instant) -> i128 {
        self.unix_nanos() - earlier.unix_nanos()
    }

    /// Reads the strict form of R1; the error says what to change.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let [y1, y2, y3, y4, b'-', o1, o2, b'-', d1, d2, b'T', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] =
            text.as_bytes()
        else {
            return Err(advice(text));
        };
        let two = |tens: &u8, ones: &u8| Some(digit(*tens)? * 10 + digit(*ones)?);
        let fields = || {
            let year = two(y1, y2)? * 100 + two(y3, y4)?;
            Some((year, two(o1, o2)?, two(d1, d2)?, two(h1, h2)?, two(m1, m2)?, two(s1, s2)?))
        };
        let Some((year, month, day, hour, minute, second)) = fields() else { return Err(advice(text)) };
        if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
            return Err("the calendar has no such date");
        }
        if hour > 23 || minute > 59 || second > 59 {
            return Err("the hour must be 00 to 23, minute and second 00 to 59");
        }
        let (nanos, zone) = fraction(rest).ok_or("a fraction has 1 to 9 digits after a `.`")?;
        let offset = offset_seconds(zone).ok_or_else(|| advice_on_zone(zone))?;
        let days = days_from_civil(i64::from(year), i64::from(month), i64::from(day));
        let of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Ok(Instant { seconds: days * SECONDS_PER_DAY + of_day - offset, nanos })
    }
}

impl fmt::Display for Instant {
    /// What the system writes: UTC, three fractional digits, `Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.seconds.div_euclid(SECONDS_PER_DAY));
        let of_day = self.seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let millis = i64::from(self.nanos / 1_000_000);
        // Written by hand because the formatter is slow, and every entry that is written or read back prints its time.
        if (0..=9_999).contains(&year) {
            let mut text = *b"0000-00-00T00:00:00.000Z";
            let fields = [
                (0, 4, year),
                (5, 7, month),
                (8, 10, day),
                (11, 13, hour),
                (14, 16, minute),
                (17, 19, second),
                (20, 23, millis),
            ];
            for (from, to, mut value) in fields {
                for digit in text.get_mut(from..to).unwrap_or_default().iter_mut().rev() {
                    *digit = b'0' + (value % 10) as u8;
                    value /= 10;
                }
            }
            return f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?);
        }
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

fn digit(byte: u8) -> Option<u32> {
    byte.is_ascii_digit().then(|| u32::from(byte - b'0'))
}

fn fraction(rest: &[u8]) -> Option<(u32, &[u8])> {
    let [b'.', digits @ ..] = rest else { return Some((0, rest)) };
    let mut nanos = 0;
    let mut count = 0;
    let mut after = digits;
    while let [first, tail @ ..] = after {
        let Some(value) = digit(*first) else { break };
        count += 1;
        if count > 9 {
            return None;
        }
        nanos = nanos * 10 + value;
        after = tail;
    }
    (count > 0).then(|| (nanos * 10u32.pow(9 - count), after))
}

fn offset_seconds(zone: &[u8]) -> Option<i64> {
    match zone {
        [b'Z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let hours = digit(*h1)? * 10 + digit(*h2)?;
            let minutes = digit(*m1)? * 10 + digit(*m2)?;
            let seconds = i64::from(hours * 3600 + minutes * 60);
            (hours <= 23 && minutes <= 59).then_some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

fn advice(text: &str) -> &'static str {
    let bytes = text.as_bytes();
    if bytes.len() == 10 && bytes.iter().filter(|b| **b == b'-').count() == 2 {
        "a date alone is not a timestamp; add time and zone, `2025-01-19T10:00:00Z`"
    } else if bytes.len() >= 11 && matches!(bytes.get(10), Some(b't' | b' ')) {
        "an upper-case `T` separates date and time, `2025-01-19T10:00:00Z`"
    } else {
        "write it as `2025-01-19T10:00:00Z`"
    }
}

fn advice_on_zone(zone: &[u8]) -> &'static str {
    match zone {
        [] => "the zone is missing; add `Z` or an offset like `+01:00`",
        [b'z', ..] => "the zone is an upper-case `Z`",
        [b',', ..] => "a fraction follows a `.`, not a comma",
        _ => "the zone is `Z` or an offset like `+01:00` with hours 00 to 23 and minutes 00 to 59",
    }
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counted in years that start in March, so
/// that the leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let leap_days = march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    march_year * 365 + leap_days + day_of_year - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// An instant as a client sent it: the text is kept, the instant is what compares.
#[derive(Clone, Debug)]
pub struct Timestamp {
    instant: Instant,
    text: Box<str>,
}

impl Timestamp {
    /// Reads the strict form of R1; the error says what to change.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        Ok(Timestamp { instant: Instant::parse(text)?, text: text.into() })
    }

    /// The instant.
    pub fn instant(&self) -> Instant {
        self.instant
    }

    /// The text as it was sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<Instant> for Timestamp {
    fn from(instant: Instant) -> Self {
        Timestamp { instant, text: instant.to_string().into() }
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.instant == other.instant
    }
}

impl Eq for Timestamp {}

impl Shape for Timestamp {
    crate::shape::scalar_parts!();
    const EXPECTED: &'static str = "an RFC 3339 timestamp like `2025-01-19T10:00:00Z`";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Text {
            return wrong_type::<Self>(node, clause, report);
        }
        let text = node.text_value();
        match Timestamp::parse(&text) {
            Ok(timestamp) => Some(timestamp),
            Err(advice) => {
                report.at(node, clause, Code::BadTimestamp, || {
                    format!("`{}` is not an RFC 3339 timestamp: {advice}", shown(&text))
                });
                None
            }
        }
    }

    fn write(&self, out: &mut String) {
        push_text(out, &self.text);
    }

    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string",
            "format": "date-time",
            "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\
                        (\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_strict_form_is_accepted() {
        let good = [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.000000001Z", 1),
            ("1969-12-31T23:59:59.9Z", -100_000_000),
            ("2000-02-29T12:00:00+01:30", 951_820_200_000_000_000),
            ("2000-02-29T12:00:00-00:00", 951_825_600_000_000_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000_000_000),
            ("9999-12-31T23:59:59.999999999-23:59", 253_402_387_139_999_999_999),
        ];
        for (text, nanos) in good {
            assert_eq!(Instant::parse(text).map(Instant::unix_nanos), Ok(nanos), "{text}");
        }
        let bad = [
            "",
            "2025",
            "2025-01-19",
            "20250119T100000Z",
            "2025-01-19T10:00Z",
            "2025-01-19T10:00:00",
            "2025-01-19t10:00:00Z",
            "2025-01-19T10:00:00z",
            "2025-01-19 10:00:00Z",
            "2025-W03-1T10:00:00Z",
            "2025-019T10:00:00Z",
            "2025-01-19T24:00:00Z",
            "2025-01-19T10:60:00Z",
            "2025-01-19T10:00:60Z",
            "2025-02-29T10:00:00Z",
            "1900-02-29T10:00:00Z",
            "2025-13-01T10:00:00Z",
            "2025-00-01T10:00:00Z",
            "2025-04-31T10:00:00Z",
            "2025-01-00T10:00:00Z",
            "2025-01-19T10:00:00,5Z",
            "2025-01-19T10:00:00.Z",
            "2025-01-19T10:00:00.1234567890Z",
            "2025-01-19T10:00:00+0100",
            "2025-01-19T10:00:00+24:00",
            "2025-01-19T10:00:00+01:60",
            "2025-01-19T10:00:00Z ",
            " 2025-01-19T10:00:00Z",
            "+2025-01-19T10:00:00Z",
            "2025-01-19T10:00:00+01",
            "2025-01-19T10:00:00ZZ",
            "２０25-01-19T10:00:00Z",
            "1737280800",
        ];
        for text in bad {
            assert!(Instant::parse(text).is_err(), "{text} was accepted");
        }
        assert!(Instant::parse("2025-01-19").unwrap_err().contains("add time and zone"));
        assert!(Instant::parse("2025-01-19T10:00:00").unwrap_err().contains("zone is missing"));
    }

    #[test]
    fn every_day_of_eight_centuries_reads_back() {
        let mut days = days_from_civil(1600, 1, 1);
        for year in 1600..2400u32 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    let civil = (i64::from(year), i64::from(month), i64::from(day));
                    assert_eq!(days_from_civil(civil.0, civil.1, civil.2), days);
                    assert_eq!(civil_from_days(days), civil);
                    days += 1;
                }
            }
        }
    }

    #[test]
    fn written_times_are_utc_with_millis() {
        let instant = Instant::parse("2025-01-19T10:00:00.0019+02:00").unwrap();
        assert_eq!(instant.to_string(), "2025-01-19T08:00:00.001Z");
        assert_eq!(Instant::parse("0000-01-01T00:00:00Z").unwrap().to_string(), "0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_wrong_time_is_explained() {
        for (text, said) in [
            ("2025-01-19", "a date alone"),
            ("2025.01.19", "write it as"),
            ("20250-1-19", "a date alone"),
            ("2025-01-19t10:00:00Z", "upper-case `T`"),
            ("2025-01-19 10:00:00Z", "upper-case `T`"),
            ("2025-01-19_10:00:00Z", "write it as"),
            ("2025-02-30T10:00:00Z", "no such date"),
            ("2025-01-19T10:60:00Z", "00 to 59"),
            ("2025-01-19T10:00:00.Z", "1 to 9 digits"),
            ("2025-01-19T10:00:00", "zone is missing"),
            ("2025-01-19T10:00:00z", "upper-case `Z`"),
            ("2025-01-19T10:00:00,5Z", "not a comma"),
            ("2025-01-19T10:00:00+24:00", "hours 00 to 23"),
        ] {
            let why = Instant::parse(text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }

    #[test]
    fn a_timestamp_compares_by_its_instant_and_keeps_its_text() {
        let (utc, east) = ("2025-01-19T10:00:00Z", "2025-01-19T12:00:00+02:00");
        let (here, there) = (Timestamp::parse(utc).unwrap(), Timestamp::parse(east).unwrap());
        assert_eq!((&here, here.as_str(), there.as_str()), (&there, utc, east));
        assert_ne!(here, Timestamp::parse("2025-01-19T10:00:00.001Z").unwrap());
        assert_eq!(Timestamp::from(there.instant()).as_str(), "2025-01-19T10:00:00.000Z");
        let (one, two) = (Instant::from_unix_nanos(-1), Instant::from_unix_nanos(2));
        assert_eq!(
            (two.nanos_since(one), one.nanos_since(two), one.to_string().as_str()),
            (3, -3, "1969-12-31T23:59:59.999Z")
        );
    }

    #[test]
    fn years_past_9999_are_written_whole() {
        let second = |seconds: i128| Instant::from_unix_nanos(seconds * NANOS_PER_SECOND).to_string();
        assert_eq!(second(253_402_300_799), "9999-12-31T23:59:59.000Z");
        assert_eq!(second(253_402_300_800), "10000-01-01T00:00:00.000Z");
        assert_eq!(second(253_402_387_139), "10000-01-01T23:58:59.000Z");
    }
}
