//! Short forms of ids: the shortest prefix that no other id has, and the id that a typed word means. Pure; the
//! caller takes the ids from an index, in their byte order.

use crate::contract::read_own;
use crate::scalar::Text;
use crate::shape::{List, object, words};
use crate::violation::Violation;

/// The largest request that is read.
const MAX_REQUEST_BYTES: usize = 1 << 20;

words! {
    /// What an id names, as a client of the server says it.
    NamedKind {
        /// An entry.
        Entry = "entry",
        /// An execution.
        Execution = "execution",
        /// The run of a held change.
        Run = "run",
        /// A run whose receipt a workspace of the ledger recorded.
        Receipt = "receipt",
        /// A run whose receipt was reported from elsewhere.
        ReportedReceipt = "reported_receipt",
    }
}

object! {
    /// Ids or prefixes of ids that a client of the server asks about.
    IdRequest / IdRequestParts ["id_request", "R4"] {
        /// What they name.
        kind: NamedKind = "kind",
        /// The words.
        words: List<Text> = "words",
    }
}

impl IdRequest {
    /// Reads a request strictly, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, MAX_REQUEST_BYTES, "R4")
    }
}

/// The minimum length of a short id: the whole time of a UUID by time. With fewer characters, an id that is printed now would soon be
/// the prefix of other ids.
const LEAST_CHARS: usize = 13;
/// How many ids an ambiguous word lists.
const MAX_LISTED: usize = 8;

/// How many ids that start with a word are read: enough to say how many more there are than are listed.
pub const MAX_CANDIDATES: usize = 1_000;

/// What a word means, if an id is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdWord<'w> {
    /// The newest one (`@`), or the one before it (`@-`): how many are newer.
    Recent(usize),
    /// An id, or the start of one.
    Start(&'w str),
}

impl<'w> IdWord<'w> {
    /// Reads a word.
    pub fn read(word: &'w str) -> Self {
        match word {
            "@" => IdWord::Recent(0),
            "@-" => IdWord::Recent(1),
            start => IdWord::Start(start),
        }
    }
}

/// The prefix of more than one id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is the start of several ids: {}", self.listed())]
pub struct AmbiguousId {
    word: String,
    candidates: Vec<String>,
    more: usize,
}

impl AmbiguousId {
    /// A word and the ids that it may stand for, of which there are at most [`MAX_CANDIDATES`].
    pub fn new(word: &str, mut candidates: Vec<String>) -> Self {
        let more = candidates.len().saturating_sub(MAX_LISTED);
        candidates.truncate(MAX_LISTED);
        AmbiguousId { word: word.to_owned(), candidates, more }
    }

    fn listed(&self) -> String {
        let listed = self.candidates.join(", ");
        match self.more {
            0 => listed,
            more if more + MAX_LISTED >= MAX_CANDIDATES => format!("{listed} and at least {more} more"),
            more => format!("{listed} and {more} more"),
        }
    }
}

/// The one id that a word is or is a prefix of, of those that start with it, in order; absent if there is none.
///
/// # Errors
/// If it is the prefix of several and equal to none of them.
pub fn one_id(word: &str, mut candidates: Vec<String>) -> Result<Option<String>, AmbiguousId> {
    let is_exact = candidates.first().is_some_and(|id| id == word);
    match candidates.len() {
        0 => Ok(None),
        1 => Ok(candidates.pop()),
        _ if is_exact => Ok(candidates.into_iter().next()),
        _ => Err(AmbiguousId::new(word, candidates)),
    }
}

/// The shortest prefix of an id that distinguishes it from its neighbours, and so from all others, in their order.
pub fn short_id<'i>(id: &'i str, before: Option<&str>, after: Option<&str>) -> &'i str {
    let common = |other: &str| id.chars().zip(other.chars()).take_while(|(own, other)| own == other).count();
    let needed = [before, after].into_iter().flatten().map(|other| common(other) + 1).max().unwrap_or(0);
    let mut ends = id.char_indices().map(|(at, character)| (at + character.len_utf8(), character));
    // A hyphen distinguishes nothing, and the word would look truncated.
    let end = ends.by_ref().skip(needed.max(LEAST_CHARS) - 1).find(|(_, character)| *character != '-');
    end.map_or(id, |(end, _)| id.get(..end).unwrap_or(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f";

    #[test]
    fn a_short_id_is_as_long_as_its_neighbours_require() {
        assert_eq!(short_id(ID, None, None), "0190a6f0-7c2e");
        assert_eq!(short_id(ID, Some("0190a6f0-7c2d"), Some("0190a6f1")), "0190a6f0-7c2e");
        assert_eq!(short_id(ID, None, Some("0190a6f0-7c2e-7d3x")), "0190a6f0-7c2e-7d31");
        assert_eq!(short_id(ID, None, Some("0190a6f0-7c2ex")), "0190a6f0-7c2e-7");
        assert_eq!(short_id("e-1", None, Some("e-10")), "e-1");
        assert_eq!(short_id("e-10", Some("e-1"), None), "e-10");
        assert_eq!(short_id("ausführung-1", Some("ausführung-0"), None), "ausführung-1");
        assert_eq!(short_id("", None, None), "");
    }

    #[test]
    fn a_word_is_an_id_or_the_start_of_one() {
        let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(one_id("e", ids(&[])), Ok(None));
        assert_eq!(one_id("e", ids(&["e-1"])), Ok(Some("e-1".to_owned())));
        assert_eq!(one_id("e-1", ids(&["e-1", "e-10"])), Ok(Some("e-1".to_owned())));
        let error = one_id("e", ids(&["e-1", "e-10"])).unwrap_err();
        assert_eq!(error.to_string(), "`e` is the start of several ids: e-1, e-10");
    }

    #[test]
    fn an_ambiguous_word_lists_some_and_counts_the_rest() {
        let many = |count: usize| AmbiguousId::new("e", (0..count).map(|at| format!("e{at}")).collect());
        assert!(many(8).to_string().ends_with("e6, e7"));
        assert!(many(9).to_string().ends_with("e6, e7 and 1 more"));
        assert!(many(MAX_CANDIDATES - 1).to_string().ends_with("e7 and 991 more"));
        assert!(many(MAX_CANDIDATES).to_string().ends_with("e7 and at least 992 more"));
    }

    #[test]
    fn the_newest_have_words_of_their_own() {
        let words = ["@", "@-", "@--", "0190"].map(IdWord::read);
        let starts = [IdWord::Start("@--"), IdWord::Start("0190")];
        assert_eq!(words, [IdWord::Recent(0), IdWord::Recent(1), starts[0], starts[1]]);
    }
}
