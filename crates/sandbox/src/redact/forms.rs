//! The patterns of a set of secrets in each form that is searched for: plain, base64, hexadecimal. One automaton per form; the
//! streams that they read are brought to that form first, without line ends, separators and differences of alphabet.

use std::collections::{BTreeSet, HashMap};

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};

use super::escapes::{Family, undone};
use crate::error::SandboxError;

/// Shorter patterns would match ordinary text.
const MIN_PATTERN_BYTES: usize = 4;
/// The shortest word of a file that counts as a token.
const MIN_WORD_BYTES: usize = 20;
/// The shortest value under a key that says it is secret.
const MIN_NAMED_BYTES: usize = 12;
/// The shortest password in a URL that counts.
const MIN_PASSWORD_BYTES: usize = 8;

/// How many bytes of secrets can be searched for at once; their forms take about eight times as much, and the automata more.
const MAX_SECRETS_BYTES: usize = 8 << 20;
/// Up to how many bytes of patterns all transitions are stored in a table, a kilobyte or less for each.
const MAX_TABLE_BYTES: usize = 8 << 10;

/// A set of patterns, searched for byte by byte.
#[derive(Debug)]
pub(super) struct Automaton {
    table: Table,
    start: StateID,
    /// Which bytes a pattern begins with.
    firsts: [bool; 256],
    /// The length of the pattern prefix, not the whole pattern, that each state represents.
    depths: HashMap<StateID, usize>,
}

/// Whether letters match in either case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Exact,
    Any,
}

/// The transitions: a table of them all is faster, and too large for long patterns.
#[derive(Debug)]
enum Table {
    Small(DFA),
    Large(NFA),
}

impl Automaton {
    fn new(patterns: &BTreeSet<Vec<u8>>, case: Case) -> Result<Self, SandboxError> {
        let failed = |error: &dyn std::error::Error| not_searchable(&error.to_string());
        let bytes = patterns.iter().fold(0usize, |sum, pattern| sum.saturating_add(pattern.len()));
        let any_case = case == Case::Any;
        let table = match bytes <= MAX_TABLE_BYTES {
            true => {
                let mut builder = DFA::builder();
                builder.match_kind(MatchKind::Standard).prefilter(false).ascii_case_insensitive(any_case);
                Table::Small(builder.build(patterns).map_err(|error| failed(&error))?)
            }
            false => {
                let mut builder = NFA::builder();
                builder.match_kind(MatchKind::Standard).prefilter(false).ascii_case_insensitive(any_case);
                Table::Large(builder.build(patterns).map_err(|error| failed(&error))?)
            }
        };
        let start = match &table {
            Table::Small(dfa) => dfa.start_state(Anchored::No),
            Table::Large(nfa) => nfa.start_state(Anchored::No),
        };
        let start = start.map_err(|error| failed(&error))?;
        let mut firsts = [false; 256];
        for first in patterns.iter().filter_map(|pattern| pattern.first()) {
            let cases = [*first, first.to_ascii_lowercase(), first.to_ascii_uppercase()];
            for first in cases.iter().take(if any_case { 3 } else { 1 }) {
                if let Some(is_first) = firsts.get_mut(usize::from(*first)) {
                    *is_first = true;
                }
            }
        }
        let mut all = Self { table, start, firsts, depths: HashMap::new() };
        let mut ends = Vec::new();
        for pattern in patterns {
            let mut state = start;
            for (at, byte) in pattern.iter().enumerate() {
                state = all.next(state, *byte);
                if at.saturating_add(1) < pattern.len() {
                    all.depths.insert(state, at.saturating_add(1));
                }
            }
            ends.push((state, pattern));
        }
        // If a pattern ends that is not a prefix of another one, the relevant state is the prefix of a pattern at its end.
        for (end, pattern) in ends {
            let mut from = 1;
            while !all.depths.contains_key(&end) && from < pattern.len() {
                let rest = pattern.get(from..).unwrap_or_default();
                let state = rest.iter().fold(start, |state, byte| all.next(state, *byte));
                match all.depths.get(&state).copied() {
                    Some(depth) => drop(all.depths.insert(end, depth)),
                    None => from = from.saturating_add(1),
                }
                if state == start {
                    break;
                }
            }
        }
        Ok(all)
    }

    pub(super) fn start(&self) -> StateID {
        self.start
    }

    pub(super) fn next(&self, state: StateID, byte: u8) -> StateID {
        match &self.table {
            Table::Small(dfa) => dfa.next_state(Anchored::No, state, byte),
            Table::Large(nfa) => nfa.next_state(Anchored::No, state, byte),
        }
    }

    /// Whether a pattern begins with a byte.
    pub(super) fn begins_with(&self, byte: u8) -> bool {
        self.firsts.get(usize::from(byte)).copied().unwrap_or(false)
    }

    /// How many of the last bytes may be a prefix of a pattern.
    pub(super) fn depth(&self, state: StateID) -> usize {
        if state == self.start { 0 } else { self.depths.get(&state).copied().unwrap_or(0) }
    }

    /// The length of the longest pattern that ends here.
    pub(super) fn matched(&self, state: StateID) -> Option<usize> {
        fn longest(automaton: &impl aho_corasick::automaton::Automaton, state: StateID) -> Option<usize> {
            let patterns = (0..automaton.match_len(state)).map(|index| automaton.match_pattern(state, index));
            patterns.map(|pattern| automaton.pattern_len(pattern)).max()
        }
        match &self.table {
            Table::Small(dfa) if dfa.is_match(state) => longest(dfa, state),
            Table::Large(nfa) if nfa.is_match(state) => longest(nfa, state),
            _ => None,
        }
    }
}

/// The automata of a set of secrets.
#[derive(Debug)]
pub(super) struct Forms {
    pub(super) plain: Automaton,
    pub(super) base64: Automaton,
    pub(super) hexadecimal: Automaton,
    /// Which bytes may begin a secret in any form, or an escape.
    interesting: [bool; 256],
}

impl Forms {
    /// None if no secret is long enough.
    ///
    /// # Errors
    /// If there is more than can be searched for: then nothing may run that has these secrets.
    pub(super) fn new<'s>(secrets: impl IntoIterator<Item = &'s [u8]>) -> Result<Option<Self>, SandboxError> {
        let mut bytes = 0usize;
        let (mut plain, mut base64, mut hexadecimal) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for secret in secrets {
            bytes = bytes.saturating_add(secret.len());
            if bytes > MAX_SECRETS_BYTES {
                return Err(not_searchable(&format!(
                    "they are larger than {MAX_SECRETS_BYTES} bytes in total"
                )));
            }
            let joined: Vec<u8> = secret.iter().copied().filter(|byte| !is_dropped(*byte)).collect();
            if joined.len() < MIN_PATTERN_BYTES {
                continue;
            }
            if joined.contains(&b' ') {
                plain.insert(joined.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect());
            }
            plain.insert(joined);
            base64.extend((0..3).map(|offset| base64_core(secret, offset)));
            hexadecimal.insert(secret.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
        }
        if plain.is_empty() {
            return Ok(None);
        }
        let mut forms = Self {
            plain: Automaton::new(&plain, Case::Any)?,
            base64: Automaton::new(&base64, Case::Exact)?,
            hexadecimal: Automaton::new(&hexadecimal, Case::Exact)?,
            interesting: [false; 256],
        };
        let firsts = plain.iter().filter_map(|pattern| pattern.first());
        let firsts = firsts.flat_map(|first| [first.to_ascii_lowercase(), first.to_ascii_uppercase()]);
        let decimals: BTreeSet<u8> =
            firsts.filter_map(|first| first.to_string().bytes().next()).chain([b'0']).collect();
        let is_interesting = |byte: u8| {
            let base64 = match byte {
                b'-' => b'+',
                b'_' => b'/',
                byte => byte,
            };
            forms.plain.begins_with(byte)
                || forms.base64.begins_with(base64)
                || forms.hexadecimal.begins_with(byte.to_ascii_lowercase())
                || decimals.contains(&byte)
                || b"%\\&=".contains(&byte)
        };
        let interesting: Vec<bool> = (0..=u8::MAX).map(is_interesting).collect();
        for (to, from) in forms.interesting.iter_mut().zip(interesting) {
            *to = from;
        }
        Ok(Some(forms))
    }

    /// Whether a byte may begin a secret in any form, or an escape.
    pub(super) fn is_interesting(&self, byte: u8) -> bool {
        self.interesting.get(usize::from(byte)).copied().unwrap_or(true)
    }
}

/// What cannot be searched for cannot be redacted.
fn not_searchable(why: &str) -> SandboxError {
    SandboxError::InvalidSpec {
        what: format!("the secrets cannot be redacted: {why}; grant fewer, or shorter ones"),
    }
}

/// Whether a byte does not count in the plain form: line ends, and the zeros of UTF-16.
pub(super) fn is_dropped(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The base64 digits that depend only on the secret if it starts `offset` bytes into a group.
pub(super) fn base64_core(secret: &[u8], offset: usize) -> Vec<u8> {
    let first = (offset * 8).div_ceil(6);
    let end = (offset.saturating_add(secret.len())).saturating_mul(8) / 6;
    let byte =
        |index: usize| u32::from(index.checked_sub(offset).and_then(|i| secret.get(i)).copied().unwrap_or(0));
    let digit = |position: usize| {
        let bit = position.saturating_mul(6);
        let pair = (byte(bit / 8) << 8) | byte((bit / 8).saturating_add(1));
        let value = (pair >> (10 - bit % 8)) & 63;
        ALPHABET.get(value as usize).copied().unwrap_or(b'=')
    };
    (first..end).map(digit).collect()
}

/// The values in a file of secrets: all of it without surrounding white space, and each word that looks like a token. A word
/// is the text between white space, quotes, brackets and `= , ; :`; it looks like a token if it has at least twenty letters, digits
/// and `+ / _ . ~ -`, among them a letter and a digit. Of a URL only the user and password count.
pub(super) fn values_of(content: &[u8]) -> Vec<Vec<u8>> {
    let mut values = vec![content.trim_ascii().to_vec()];
    for text in [content.to_vec(), undone(Family::Text, content)] {
        for word in text.split(|byte| is_delimiter(*byte)) {
            match word.windows(3).position(|three| three == b"://") {
                Some(at) => values.extend(passwords(word.get(at.saturating_add(3)..).unwrap_or_default())),
                None => values.extend(
                    word.split(|byte| *byte == b':').filter(|word| is_token(word)).map(<[u8]>::to_vec),
                ),
            }
        }
    }
    values.sort();
    values.dedup();
    values
}

/// The values in a file of settings under a key that marks them as secret: the next word, if it has at least twelve
/// bytes, among them a letter and a digit.
pub(super) fn named_values_of(content: &[u8]) -> Vec<Vec<u8>> {
    const NAMES: [&str; 8] =
        ["token", "secret", "password", "passwd", "api_key", "apikey", "bearer", "authorization"];
    let text = undone(Family::Text, content);
    let words = text.split(|byte| is_delimiter(*byte)).map(|word| word.strip_suffix(b":").unwrap_or(word));
    let mut words = words.filter(|word| !word.is_empty()).peekable();
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        let name = String::from_utf8_lossy(word).to_ascii_lowercase().replace('-', "_");
        let Some(value) = words.peek().filter(|_| NAMES.iter().any(|known| name.contains(known))) else {
            continue;
        };
        let is_secret = value.len() >= MIN_NAMED_BYTES
            && value.iter().any(u8::is_ascii_digit)
            && value.iter().any(u8::is_ascii_alphabetic);
        if is_secret {
            values.push(value.to_vec());
        }
    }
    values
}

fn is_delimiter(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'`()[]{}<>=,;|\\".contains(&byte)
}

fn is_token(word: &[u8]) -> bool {
    word.len() >= MIN_WORD_BYTES
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/_.~-".contains(byte))
        && word.iter().any(u8::is_ascii_digit)
        && word.iter().any(u8::is_ascii_alphabetic)
}

/// The user and the password of a URL without its scheme.
fn passwords(url: &[u8]) -> Vec<Vec<u8>> {
    let authority = url.split(|byte| *byte == b'/').next().unwrap_or_default();
    let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else { return Vec::new() };
    let parts = authority.get(..at).unwrap_or_default().splitn(2, |byte| *byte == b':');
    parts.filter(|part| part.len() >= MIN_PASSWORD_BYTES).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_that_cannot_be_searched_for_are_an_error_and_not_no_secrets() {
        let long = vec![b'x'; MAX_SECRETS_BYTES];
        let refused = Forms::new([long.as_slice(), b"y"]).unwrap_err().to_string();
        assert!(refused.contains("cannot be redacted: they are larger than 8388608 bytes"), "{refused}");
        assert!(Forms::new([b"abc".as_slice()]).unwrap().is_none(), "too short for a pattern");
        assert!(Forms::new([b"abcd".as_slice()]).unwrap().is_some());
    }

    #[test]
    fn base64_of_known_text() {
        assert_eq!(base64_core(b"hello!", 0), b"aGVsbG8h");
        // "xhello!" is eGhlbGxvIQ==
        assert_eq!(base64_core(b"hello!", 1), b"hlbGxvI");
        // "xyhello!" is eHloZWxsbyE=
        assert_eq!(base64_core(b"hello!", 2), b"oZWxsby");
    }

    #[test]
    fn values_under_secret_keys_of_a_settings_file_count() {
        let text = r#"{"env": {"API_KEY": "sk-0123456789ab", "model": "claude-sonnet-4-20250514"}, "password": "short1"}
            //registry.example.com/:_authToken=npm_0123456789abcdef
            The token should be described0123 somewhere."#;
        let values = named_values_of(text.as_bytes());
        assert_eq!(values, [b"sk-0123456789ab".to_vec(), b"npm_0123456789abcdef".to_vec()]);
    }

    #[test]
    fn a_file_of_secrets_is_its_content_and_its_tokens() {
        let has =
            |content: &str, value: &str| values_of(content.as_bytes()).contains(&value.as_bytes().to_vec());
        assert!(has(" abcdef \n", "abcdef"));
        assert!(has("KEY=sk-live-0123456789abcdef\nOTHER=x\n", "sk-live-0123456789abcdef"));
        assert!(has(
            r#"{"a":"-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nx"}"#,
            "MIIEvQIBADANBgkqhkiG9w0B"
        ));
        assert!(has("https://ana:hunter2hunter2@example.com/a", "hunter2hunter2"));
        assert!(!has(
            "see https://www.example.com/oauth2/v1/certificates",
            "www.example.com/oauth2/v1/certificates"
        ));
        assert!(!has("a\n-----BEGIN PRIVATE KEY-----\n", "-----BEGIN"));
    }
}
