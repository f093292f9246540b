//! Times as people write them on a command line: a number and a unit, `30s`, `5m`, `2h`.

use std::fmt::Write as _;
use std::time::Duration;

use crealeph_contracts::instant::Instant;

/// The units, shortest first.
const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 7 * 86_400_000)];

/// Reads a time; for the argument parser.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || {
        let units: Vec<String> = UNITS.iter().map(|(unit, _)| format!("`{unit}`")).collect();
        format!(
            "`{text}` is not a time; write a number with a unit ({}), as in `30m` or `30d`",
            units.join(", ")
        )
    };
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(*unit_ms).map(Duration::from_millis).ok_or_else(wrong)
}

/// The start of a time range: a duration ago, or an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    Ago(Duration),
    At(Instant),
}

impl Since {
    /// The instant that is meant at another.
    pub(crate) fn instant(self, now: Instant) -> Instant {
        match self {
            Since::At(at) => at,
            Since::Ago(time) => {
                let nanos = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
                Instant::from_unix_nanos(now.unix_nanos().saturating_sub(nanos))
            }
        }
    }
}

/// Parses a duration ago, a date or an instant; for the argument parser.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    let midnight = format!("{text}T00:00:00Z");
    let instant = Instant::parse(text).or_else(|_| Instant::parse(&midnight));
    instant.map(Since::At).or_else(|_| parse(text).map(Since::Ago)).map_err(|_| {
        format!(
            "`{text}` is not a time; write how long ago (`2h`, `3d`), a date (`2026-11-01`) or an instant"
        )
    })
}

/// A time in the largest unit that shows it exactly.
pub(crate) fn shown(time_ms: u64) -> String {
    let is_whole = |(_, unit_ms): &&(&str, u64)| time_ms >= *unit_ms && time_ms.is_multiple_of(*unit_ms);
    let (unit, unit_ms) = UNITS.iter().rev().find(is_whole).unwrap_or(&UNITS[0]);
    let mut text = String::new();
    let _ = write!(text, "{}{unit}", time_ms / unit_ms);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_a_number_and_a_unit() {
        for (text, seconds) in
            [("0m", 0), ("90s", 90), ("5m", 300), ("2h", 7_200), ("30d", 2_592_000), ("1w", 604_800)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)));
        }
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        for text in [
            "",
            "d",
            "30",
            "-1d",
            "1y",
            "1.5h",
            "99999999999999999999d",
            "18446744073709551615w",
            "3ä",
            "ä",
            " 1m",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_shown_as_it_would_be_written() {
        for text in ["0ms", "1ms", "1500ms", "90s", "5m", "2h", "8d", "1w"] {
            assert_eq!(shown(u64::try_from(parse(text).unwrap().as_millis()).unwrap()), text);
        }
        assert_eq!(shown(300_000), "5m");
    }

    #[test]
    fn since_is_how_long_ago_a_date_or_an_instant() {
        assert!(matches!(since("2h"), Ok(Since::Ago(time)) if time.as_secs() == 7_200));
        let at = |text: &str| match since(text) {
            Ok(Since::At(at)) => at.to_string(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(at("2026-11-01"), at("2026-11-01T00:00:00Z"));
        for wrong in ["yesterday", "2h30", "2026-13-01", ""] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
