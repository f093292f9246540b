//! Taking secrets out of what is captured. Owns the forms a secret is looked for in: as it is, as a JSON
//! string, in base64 (both alphabets, at every offset, wrapped in lines or not) and in hexadecimal, also
//! when it is split across writes. Refuses nothing else: a program that scrambles a secret otherwise is not
//! stopped here, but by what it was granted.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, MatchKind};

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

const MIN_PATTERN_BYTES: usize = 4;

/// Takes a set of secrets out of streams and texts.
#[derive(Clone, Default)]
pub struct Redactor {
    patterns: Option<Patterns>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Patterns {
    automaton: AhoCorasick,
    forms: Vec<Form>,
}

/// One form a secret is looked for in.
#[derive(Clone)]
struct Form {
    bytes: Vec<u8>,
    /// For each length of a beginning, the longest shorter beginning that it ends with.
    borders: Vec<usize>,
}

impl Form {
    fn new(bytes: Vec<u8>) -> Self {
        let mut form = Self { bytes, borders: vec![0, 0] };
        for end in 1..form.bytes.len() {
            let longer = form.extend(form.borders.last().copied().unwrap_or(0), form.bytes.get(end));
            form.borders.push(longer);
        }
        form
    }

    /// How much of this form has been seen after one more byte, when `seen` of it was before.
    fn extend(&self, mut seen: usize, byte: Option<&u8>) -> usize {
        while self.bytes.get(seen) != byte && seen > 0 {
            seen = self.borders.get(seen).copied().unwrap_or(0);
        }
        if self.bytes.get(seen) == byte { seen.saturating_add(1) } else { 0 }
    }

    /// How much at the end of `text` may be the beginning of this form.
    fn begun_in(&self, text: &[u8]) -> usize {
        let tail = text.len().saturating_sub(self.bytes.len().saturating_sub(1));
        text.get(tail..).unwrap_or_default().iter().fold(0, |seen, byte| self.extend(seen, Some(byte)))
    }
}

impl Redactor {
    /// A redactor for these secrets.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s [u8]>) -> Self {
        let mut forms = BTreeSet::new();
        for secret in secrets {
            add_forms(secret, &mut forms);
        }
        if forms.is_empty() {
            return Self::default();
        }
        // The only error is more patterns than an automaton can number.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&forms);
        let forms = forms.into_iter().map(Form::new).collect();
        Self { patterns: automaton.ok().map(|automaton| Patterns { automaton, forms }) }
    }

    /// The text without the secrets.
    pub fn text(&self, text: &str) -> String {
        let mut stream = RedactedStream::new(self.clone());
        let mut out = Vec::with_capacity(text.len());
        stream.push(text.as_bytes(), &mut out);
        stream.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// One stream being redacted: what may still be the start of a secret is held back.
pub(crate) struct RedactedStream {
    redactor: Redactor,
    pending: Vec<u8>,
    /// Line ends that stood right before what is pending.
    line_ends: usize,
    redactions: u64,
}

impl RedactedStream {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor, pending: Vec::new(), line_ends: 0, redactions: 0 }
    }

    pub(crate) fn redactions(&self) -> u64 {
        self.redactions
    }

    /// Takes more of the stream and gives what is settled.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.redactor.patterns.is_none() {
            out.extend_from_slice(bytes);
            return;
        }
        self.pending.extend_from_slice(bytes);
        self.settle(false, out);
    }

    /// Gives the rest.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.settle(true, out);
        out.append(&mut self.pending);
    }

    fn settle(&mut self, last: bool, out: &mut Vec<u8>) {
        let Some(patterns) = &self.redactor.patterns else { return };
        // Matching is done without line ends, so that a wrapped form is found too; `origin` leads back.
        let (joined, origin) = join_lines(&self.pending, self.line_ends);
        let begun = patterns.forms.iter().map(|form| form.begun_in(&joined)).max().unwrap_or(0);
        let settled = if last { joined.len() } else { joined.len().saturating_sub(begun) };
        let mut emitted = 0usize;
        let mut reached = 0usize;
        for found in patterns.automaton.find_iter(&joined) {
            if found.start() >= settled {
                break;
            }
            let (Some(&start), Some(&final_byte)) =
                (origin.get(found.start()), origin.get(found.end().saturating_sub(1)))
            else {
                break;
            };
            out.extend_from_slice(self.pending.get(emitted..start).unwrap_or_default());
            out.extend_from_slice(REDACTED.as_bytes());
            self.redactions = self.redactions.saturating_add(1);
            emitted = final_byte.saturating_add(1);
            reached = found.end();
        }
        let keep_from = if reached >= settled {
            emitted
        } else {
            origin.get(settled).copied().unwrap_or(self.pending.len())
        };
        let keep_from = keep_from.max(emitted);
        out.extend_from_slice(self.pending.get(emitted..keep_from).unwrap_or_default());
        for byte in self.pending.drain(..keep_from.min(self.pending.len())) {
            self.line_ends = line_ends_after(self.line_ends, byte);
        }
    }
}

fn line_ends_after(before: usize, byte: u8) -> usize {
    if matches!(byte, b'\n' | b'\r') { before.saturating_add(1) } else { 0 }
}

/// The bytes without single line ends (`\n`, `\r\n`), and where each one stood. A longer run of line ends
/// is kept past its second byte, so that no stream can grow what is held back without end.
fn join_lines(bytes: &[u8], line_ends_before: usize) -> (Vec<u8>, Vec<usize>) {
    let mut joined = Vec::with_capacity(bytes.len());
    let mut origin = Vec::with_capacity(bytes.len());
    let mut run = line_ends_before;
    for (index, byte) in bytes.iter().enumerate() {
        run = line_ends_after(run, *byte);
        if run == 0 || run > 2 {
            joined.push(*byte);
            origin.push(index);
        }
    }
    (joined, origin)
}

fn add_forms(secret: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    let mut add = |form: Vec<u8>| {
        let (form, _) = join_lines(&form, 0);
        if form.len() >= MIN_PATTERN_BYTES {
            forms.insert(form);
        }
    };
    add(secret.to_vec());
    if let Ok(text) = std::str::from_utf8(secret)
        && let Ok(quoted) = serde_json::to_string(text)
    {
        add(quoted.trim_matches('"').as_bytes().to_vec());
    }
    for alphabet in [STANDARD, URL_SAFE] {
        for offset in 0..3 {
            add(base64_core(secret, offset, alphabet));
        }
    }
    add(secret.iter().flat_map(|b| format!("{b:02x}").into_bytes()).collect());
    add(secret.iter().flat_map(|b| format!("{b:02X}").into_bytes()).collect());
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 digits that depend on the secret alone when it starts `offset` bytes into a group.
fn base64_core(secret: &[u8], offset: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let first = (offset * 8).div_ceil(6);
    let end = (offset.saturating_add(secret.len())).saturating_mul(8) / 6;
    let byte =
        |index: usize| u32::from(index.checked_sub(offset).and_then(|i| secret.get(i)).copied().unwrap_or(0));
    let digit = |position: usize| {
        let bit = position.saturating_mul(6);
        let pair = (byte(bit / 8) << 8) | byte((bit / 8).saturating_add(1));
        let value = (pair >> (10 - bit % 8)) & 63;
        alphabet.get(value as usize).copied().unwrap_or(b'=')
    };
    (first..end).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through(redactor: &Redactor, pieces: &[&[u8]]) -> Vec<u8> {
        let mut stream = RedactedStream::new(redactor.clone());
        let mut out = Vec::new();
        for piece in pieces {
            stream.push(piece, &mut out);
        }
        stream.finish(&mut out);
        out
    }

    #[test]
    fn base64_of_known_text() {
        assert_eq!(base64_core(b"hello!", 0, STANDARD), b"aGVsbG8h");
        // "xhello!" is eGhlbGxvIQ==
        assert_eq!(base64_core(b"hello!", 1, STANDARD), b"hlbGxvI");
        // "xyhello!" is eHloZWxsbyE=
        assert_eq!(base64_core(b"hello!", 2, STANDARD), b"oZWxsby");
    }

    #[test]
    fn a_redactor_does_not_show_its_secrets() {
        let shown = format!("{:?}", Redactor::new([b"abcdef".as_slice()]));
        assert!(!shown.contains("97") && !shown.contains("abc"), "{shown}");
    }

    #[test]
    fn a_wrapped_base64_secret_is_found() {
        let redactor = Redactor::new([b"correct horse battery staple".as_slice()]);
        let encoded = b"Y29ycmVjdCBob3Jz\nZSBiYXR0ZXJ5IHN0\r\nYXBsZQ==";
        let out = through(&redactor, &[b"a ", encoded, b" z"]);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("a [redacted]"), "{text}");
        assert!(!text.contains("YXBsZ"), "{text}");
    }

    #[test]
    fn the_longer_of_two_secrets_wins_across_writes() {
        let redactor = Redactor::new([b"abcdef".as_slice(), b"abcdefghij".as_slice()]);
        assert_eq!(through(&redactor, &[b"xabcdef", b"ghijy"]), b"x[redacted]y");
        assert_eq!(through(&redactor, &[b"xabcdef", b"ghy"]), b"x[redacted]ghy");
    }

    #[test]
    fn only_what_may_be_the_start_of_a_secret_is_held_back() {
        let mut stream = RedactedStream::new(Redactor::new([b"correct horse".as_slice()]));
        let mut out = Vec::new();
        stream.push(b"{\"tool\":\"read\"}\n", &mut out);
        assert_eq!(out, b"{\"tool\":\"read\"}\n");
        stream.push(b"the correct", &mut out);
        stream.push(b" horsf, cor", &mut out);
        assert_eq!(out, b"{\"tool\":\"read\"}\nthe correct horsf, ");
        stream.push(b"rect\n horse", &mut out);
        assert!(out.ends_with(b"horsf, [redacted]"), "{}", String::from_utf8_lossy(&out));
    }

    #[test]
    fn a_secret_that_begins_with_line_ends_is_found_in_pieces() {
        let redactor = Redactor::new([b"\n\n\nabcdefgh".as_slice()]);
        for cut in 0..11 {
            let (one, two) = b"\n\n\nabcdefgh".split_at(cut);
            let text = String::from_utf8(through(&redactor, &[b"x", one, two, b"y"])).unwrap();
            assert!(!text.contains("abcdefgh"), "{cut}: {text:?}");
        }
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let redactor = Redactor::new([b"0123456789abcdef".as_slice()]);
        let mut stream = RedactedStream::new(redactor);
        let mut out = Vec::new();
        for _ in 0..100 {
            stream.push(&[b'\n'; 10_000], &mut out);
        }
        assert!(stream.pending.len() < 1000, "{}", stream.pending.len());
    }

    proptest! {
        #[test]
        fn no_secret_survives_any_split(
            secret in "[A-Za-z0-9+/_ -]{6,40}",
            before in "[a-z\n]{0,20}",
            after in "[a-z\n]{0,20}",
            form in 0..4usize,
            cuts in proptest::collection::vec(0..200usize, 0..6),
        ) {
            let redactor = Redactor::new([secret.as_bytes()]);
            let shown: Vec<u8> = match form {
                0 => secret.clone().into_bytes(),
                1 => secret.bytes().flat_map(|b| format!("{b:02x}").into_bytes()).collect(),
                2 => base64_core(secret.as_bytes(), 0, STANDARD),
                _ => base64_core(secret.as_bytes(), 2, URL_SAFE),
            };
            let mut whole = before.clone().into_bytes();
            whole.extend(&shown);
            whole.extend(after.bytes());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c % (whole.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&whole[from..cut]);
                from = cut;
            }
            pieces.push(&whole[from..]);
            let out = through(&redactor, &pieces);
            prop_assert!(!out.windows(shown.len()).any(|w| w == shown), "{}", String::from_utf8_lossy(&out));
            prop_assert_eq!(out.clone(), through(&redactor, &[&whole]), "the split must not matter");
        }

        #[test]
        fn secrets_that_share_their_letters_are_found_alike_in_any_split(
            secrets in proptest::collection::vec("[ab]{6,9}", 1..4),
            text in "[ab\n]{0,80}",
            cuts in proptest::collection::vec(0..80usize, 0..8),
        ) {
            let redactor = Redactor::new(secrets.iter().map(String::as_bytes));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c % (text.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (piece, next) = rest.split_at(cut - (text.len() - rest.len()));
                pieces.push(piece);
                rest = next;
            }
            pieces.push(rest);
            prop_assert_eq!(through(&redactor, &pieces), through(&redactor, &[text.as_bytes()]));
        }

        #[test]
        fn what_holds_no_secret_is_unchanged(bytes in proptest::collection::vec(0u8..128, 0..300)) {
            let redactor = Redactor::new([b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8".as_slice()]);
            let mut stream = RedactedStream::new(redactor);
            let mut out = Vec::new();
            for piece in bytes.chunks(7) {
                stream.push(piece, &mut out);
            }
            stream.finish(&mut out);
            if stream.redactions() == 0 {
                prop_assert_eq!(out, bytes);
            }
        }
    }
}
