//! Components of pages: untrusted text, times, ids, words for states, lists and their next page.

use crealeph_contracts::instant::Instant;
use crealeph_contracts::text::Shown;
use crealeph_runtime::report::TextPart;
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The longest text of one line that is shown.
const MAX_LINE_CHARS: usize = 400;
/// The longest text of several lines that is shown in a page, and how much of the page it may take with its escapes.
pub(crate) const MAX_BLOCK_BYTES: usize = 64 << 10;
const MAX_BLOCK_MARKUP: usize = 2 * MAX_BLOCK_BYTES;

/// A text from elsewhere, on one line.
pub(crate) fn line(text: &str) -> String {
    Shown::line(text).at_most(MAX_LINE_CHARS).to_string()
}

/// A sentence of ours in which names may be in backticks.
pub(crate) fn words(text: &str) -> Markup {
    let parts = text.split('`').enumerate();
    html! {
        @for (at, part) in parts {
            @if at % 2 == 1 { code { (line(part)) } } @else { (Shown::block(part).to_string()) }
        }
    }
}

/// A text of several lines from elsewhere, cut if it is long, with a link to all of it.
pub(crate) fn block(text: &str, label: &str, raw: Option<&str>) -> Markup {
    start_block(text, 0, label, raw)
}

/// The start of a text from elsewhere, with what of it was left out before it came here.
pub(crate) fn part_block(part: &TextPart, label: &str, raw: Option<&str>) -> Markup {
    start_block(&part.text, part.left_out_bytes, label, raw)
}

fn start_block(text: &str, left_out_bytes: u64, label: &str, raw: Option<&str>) -> Markup {
    let (shown, cut) = start_of_block(text);
    let left_out = left_out_bytes + cut as u64;
    cut_block(&shown, (left_out > 0).then(|| left_out_note(left_out)), label, raw)
}

/// That bytes of a text are not shown.
pub(crate) fn left_out_note(bytes: u64) -> String {
    format!("{} more bytes are not shown.", number(bytes))
}

/// The start of a text, as it is shown, and how many bytes are left out.
pub(crate) fn start_of_block(text: &str) -> (String, usize) {
    let mut cut = text.floor_char_boundary(MAX_BLOCK_BYTES);
    loop {
        let shown = Shown::block(text.get(..cut).unwrap_or(text)).to_string();
        if markup_bytes(&shown) <= MAX_BLOCK_MARKUP {
            return (shown, text.len() - cut);
        }
        cut = text.floor_char_boundary(cut / 2);
    }
}

/// A text as it is shown, and that it was cut.
pub(crate) fn cut_block(shown: &str, cut: Option<String>, label: &str, raw: Option<&str>) -> Markup {
    html! {
        pre tabindex="0" role="group" aria-label=(label) { (shown) }
        @if let Some(cut) = cut {
            p .cut { (cut) " " @if let Some(raw) = raw { a href=(raw) { "Show all of it" } } }
        }
    }
}

/// How much of a page a text takes.
pub(crate) fn markup_bytes(text: &str) -> usize {
    let of_byte = |byte: u8| match byte {
        b'<' | b'>' => 4,
        b'&' => 5,
        b'"' => 6,
        _ => 1,
    };
    text.bytes().map(of_byte).sum()
}

/// What is encoded in a path or query: all but letters, digits, and what ids are written with.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// A part of a path.
pub(crate) fn path(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// An instant as an RFC 3339 text: how long ago it was, and exactly.
pub(crate) fn time(text: &str, now: Instant) -> Markup {
    match Instant::parse(text) {
        Ok(at) => html! { time datetime=(text) title=(text) { (ago(at, now)) } },
        Err(_) => html! { (line(text)) },
    }
}

/// How long something has lasted; scripts keep it true.
pub(crate) fn elapsed(since: &str, now: Instant) -> Markup {
    let seconds = Instant::parse(since).map_or(0, |at| now.nanos_since(at) / 1_000_000_000).max(0);
    html! { span data-elapsed=(line(since)) { (duration(seconds)) } }
}

/// A duration: `45 s`, `3 min 5 s`, `2 h 4 min`.
fn duration(seconds: i128) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// How long ago something was, in the words that people use.
pub(crate) fn ago(at: Instant, now: Instant) -> String {
    let seconds = now.nanos_since(at) / 1_000_000_000;
    let (age, suffix, prefix) = if seconds < 0 { (-seconds, "", "in ") } else { (seconds, " ago", "") };
    let words = match age {
        0..=4 if seconds >= 0 => return "now".to_owned(),
        0..=59 => format!("{age} s"),
        60..=3_599 => format!("{} min", age / 60),
        3_600..=86_399 => format!("{} h", age / 3_600),
        _ => format!("{} d", age / 86_400),
    };
    format!("{prefix}{words}{suffix}")
}

/// A number with its thousands apart.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How many there are of something.
pub(crate) fn counted(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{} {one}s", number(count)),
    }
}

/// An id in short, with all of it on hover. One by time shows its start and its end: ids of one moment have the same start.
pub(crate) fn short(id: &str) -> Markup {
    let is_uuid = id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let shown = match (id.split_once('-'), id.rsplit_once('-')) {
        (Some((start, _)), Some((_, end))) if is_uuid => format!("{start}…{end}"),
        _ => line(id),
    };
    html! { code title=(line(id)) { (shown) } }
}

/// A word for a state, with its colour.
pub(crate) fn badge(word: &str) -> Markup {
    let tone = match word {
        "coherent" | "completed" | "succeeded" | "success" | "allowed" | "ALLOW" | "approved" | "landed"
        | "verified" | "active" | "planned" | "final" | "fresh" | "approve" | "passed" => "good",
        "stale" | "failed" | "failure" | "denied" | "blocked" | "BLOCK" | "rejected" | "refused"
        | "timeout" | "revoked" | "outdated" | "too old" | "reject" | "disabled" => "bad",
        "partial" | "deferred" | "DEFER" | "draft" | "waiting" | "held" | "pending" | "unproven"
        | "missing" | "expired" | "running" | "unsettled" | "interrupted" | "failing" => "open",
        _ => "plain",
    };
    html! { span .badge .(tone) { (line(word)) } }
}

/// Facts, one a row.
pub(crate) fn facts(rows: Vec<(&str, Markup)>) -> Markup {
    html! { dl .facts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}

/// The text for an empty list, with what to type.
pub(crate) fn empty(what: &str, command: Option<&str>) -> Markup {
    html! {
        div .empty {
            p { (words(what)) }
            @if let Some(command) = command { pre { code { (command) } } }
        }
    }
}

/// The link to what comes after a page of a list.
pub(crate) fn next_page(href: Option<String>) -> Markup {
    html! { @if let Some(href) = href { p .next { a rel="next" href=(href) { "Older" } } } }
}

/// A query with one parameter set, the others as they were.
pub(crate) fn query(base: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let pairs = pairs.iter().filter_map(|(name, value)| Some(format!("{name}={}", path((*value)?))));
    let query: Vec<String> = pairs.collect();
    match query.is_empty() {
        true => base.to_owned(),
        false => format!("{base}?{}", query.join("&")),
    }
}

/// A field of a filter.
pub(crate) fn filter_field(label: &str, name: &str, value: Option<&str>) -> Markup {
    html! { label { span { (label) } input name=(name) value=[value] autocomplete="off" maxlength="256"; } }
}

/// A choice of a filter.
pub(crate) fn filter_choice(label: &str, name: &str, words: &[&str], value: Option<&str>) -> Markup {
    html! {
        label { span { (label) }
            select name=(name) {
                option value="" { "any" }
                @for word in words { option value=(word) selected[Some(*word) == value] { (word) } }
            }
        }
    }
}

#[cfg(test)]
impl crate::frame::Viewer {
    /// Someone who reads, for tests of pages.
    pub(crate) fn sample() -> Self {
        Self {
            tenant: "own".to_owned(),
            role: "reader",
            robot: None,
            name: "key:k".to_owned(),
            person: None,
            form_token: String::new(),
            reads: true,
            decides: false,
            sees_grants: false,
            manages_webhooks: false,
            now: Instant::from_unix_nanos(1_800_000_000_000_000_000),
            seq: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_hide_or_reorder_text_is_shown_as_an_escape() {
        let hostile = "<script>alert(1)</script>\u{202e}abc\u{1b}[2J\u{0}";
        let shown = html! { p { (line(hostile)) } }.into_string();
        assert!(shown.contains("&lt;script&gt;") && shown.contains("\\u{202e}"), "{shown}");
        assert!(
            !shown.contains('\u{202e}') && !shown.contains('\u{1b}') && !shown.contains('\u{0}'),
            "{shown}"
        );
        assert!(line(&"x".repeat(1 << 20)).len() < 1_000);
        assert!(
            block(&"\u{202e}<".repeat(5 << 20), "log", None).into_string().len() < 140_000,
            "with escapes"
        );
        let long = format!("{}\n", "y".repeat(70)).repeat(2_000);
        let shown = block(&long, "log", Some("/raw")).into_string();
        assert!(shown.len() < MAX_BLOCK_BYTES + 1_000 && shown.contains("more bytes are not shown"));
        let part = |left_out_bytes| TextPart { text: "start".to_owned(), left_out_bytes };
        let shown = part_block(&part(4_096), "log", Some("/raw")).into_string();
        assert!(
            shown.contains("4,096 more bytes are not shown. <a href=\"/raw\">Show all of it</a>"),
            "{shown}"
        );
        assert!(!part_block(&part(0), "log", Some("/raw")).into_string().contains("/raw"));
    }

    #[test]
    fn numbers_and_ages_are_read_at_a_glance() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        let now = Instant::from_unix_nanos(1_800_000_000_000_000_000);
        let before = |seconds: i128| Instant::from_unix_nanos(now.unix_nanos() - seconds * 1_000_000_000);
        let shown = [1, 5, 90, 7_200, 200_000, -90].map(|seconds| ago(before(seconds), now));
        assert_eq!(shown, ["now", "5 s ago", "1 min ago", "2 h ago", "2 d ago", "in 1 min"]);
    }

    #[test]
    fn ids_of_one_moment_look_different() {
        let ids = ["01a1df32-8f6c-7aaa-8bbb-e3f0c638645d", "01a1df32-8f6c-7aaa-8bbb-0c1d2e3f4a5b"];
        let [one, other] = ids.map(|id| short(id).into_string());
        assert_eq!(one, format!("<code title=\"{}\">01a1df32…e3f0c638645d</code>", ids[0]));
        assert_ne!(one.split('>').nth(1), other.split('>').nth(1));
        assert_eq!(short("e-1").into_string(), "<code title=\"e-1\">e-1</code>");
        assert!(short(&"-\u{202e}".repeat(9)).into_string().contains("\\u{202e}"), "36 bytes");
    }

    #[test]
    fn a_query_keeps_what_is_set() {
        assert_eq!(query("/x", &[("a", Some("1 &")), ("b", None)]), "/x?a=1%20%26");
        assert_eq!(query("/x", &[("b", None)]), "/x");
    }
}
