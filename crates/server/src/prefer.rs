//! A client's preferences about when it is answered (RFC 7240): `respond-async`, `wait=SECONDS`. Other preferences, and those that
//! cannot be parsed, are ignored, as the RFC requires.

use axum::http::{HeaderMap, HeaderValue};

/// The longest wait that is read from a header.
const MAX_WAIT_S: u64 = 86_400;

/// The preferences of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preferences {
    /// It need not be answered with the outcome.
    pub respond_async: bool,
    /// Seconds that the client waits for the outcome.
    pub wait_s: Option<u64>,
}

impl Preferences {
    /// Reads them; of a preference that is there twice the first counts.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut found = Preferences::default();
        let lines = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
        for preference in lines.flat_map(|line| line.split(',')) {
            let named = preference.split_once(';').map_or(preference, |(named, _)| named);
            let (name, value) = named.split_once('=').unwrap_or((named, ""));
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "respond-async" => found.respond_async = true,
                "wait" if found.wait_s.is_none() => {
                    let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                    found.wait_s = is_plain.then(|| value.parse().unwrap_or(MAX_WAIT_S).min(MAX_WAIT_S));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether the request may be answered before it has its outcome.
    pub(crate) fn is_async(self) -> bool {
        self.respond_async || self.wait_s.is_some()
    }

    /// The preferences that were followed, for `Preference-Applied`.
    pub(crate) fn applied(self) -> Option<HeaderValue> {
        let wait = self.wait_s.map(|seconds| format!("wait={seconds}"));
        let text = match (self.respond_async, wait) {
            (true, Some(wait)) => format!("respond-async, {wait}"),
            (true, None) => "respond-async".to_owned(),
            (false, wait) => wait?,
        };
        HeaderValue::from_str(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the header, what is read from them, and what is said to be applied.
    type Case = (&'static [&'static str], (bool, Option<u64>), Option<&'static str>);

    #[test]
    fn preferences_are_read_as_the_rfc_has_it() {
        let cases: &[Case] = &[
            (&[], (false, None), None),
            (&["respond-async"], (true, None), Some("respond-async")),
            (&["Respond-Async, wait=10"], (true, Some(10)), Some("respond-async, wait=10")),
            (&["wait=5", "wait=7, respond-async"], (true, Some(5)), Some("respond-async, wait=5")),
            (&["foo; bar=\"x\", wait = \"3\" ; z"], (false, Some(3)), Some("wait=3")),
            (&["wait=99999999999999999999999"], (false, Some(MAX_WAIT_S)), Some("wait=86400")),
            (&["wait=-1, wait=+2, wait, return=minimal"], (false, None), None),
        ];
        for (lines, (respond_async, wait_s), applied) in cases {
            let mut headers = HeaderMap::new();
            for line in *lines {
                headers.append("prefer", HeaderValue::from_static(line));
            }
            let found = Preferences::of(&headers);
            assert_eq!(found, Preferences { respond_async: *respond_async, wait_s: *wait_s }, "{lines:?}");
            assert_eq!(found.applied(), applied.map(HeaderValue::from_static), "{lines:?}");
        }
    }
}
