//! A command line before it is parsed, while it is being typed or when its help is requested: which workspace and configuration it is
//! about. Only reads; from a configuration that is not trusted it reads names and numbers, and nothing that it points to.

use std::ffi::OsString;
use std::path::PathBuf;

use crealeph_runtime::configuration::{Configuration, FILE};

use crate::own;

/// The words of a line, without the program.
#[derive(Debug)]
pub(super) struct TypedLine {
    words: Vec<String>,
}

impl TypedLine {
    /// A line of these words; one that is not text names nothing.
    pub(super) fn new(words: impl IntoIterator<Item = OsString>) -> Self {
        TypedLine { words: words.into_iter().filter_map(|word| word.into_string().ok()).collect() }
    }

    /// Whether it has a word.
    pub(super) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }

    /// The value that it has for a flag so far, in the next word or after `=`.
    pub(super) fn flag(&self, name: &str) -> Option<String> {
        let place = self.words.iter().rposition(|word| word == name);
        let beside = place.and_then(|place| self.words.get(place + 1)).cloned();
        let joined = || self.words.iter().rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        beside.or_else(|| joined().map(str::to_owned))
    }

    /// The workspace that it is about, if its `.crealeph` is the user's own.
    pub(super) fn workspace(&self) -> Option<PathBuf> {
        let named = self.flag("--workspace").unwrap_or_else(|| ".".to_owned());
        let folder = PathBuf::from(named).canonicalize().ok()?;
        own::check(&folder).ok()?;
        Some(folder)
    }

    /// The configuration that it is about.
    pub(super) fn configuration(&self) -> Option<Configuration> {
        let inside = self.workspace()?.join(FILE);
        let named = self.flag("--config").map(PathBuf::from);
        let named = named.or_else(|| inside.exists().then_some(inside));
        Configuration::find(named.as_deref()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_has_the_last_value_that_was_typed() {
        let line = TypedLine::new(["work", "run", "--agent", "a", "--tenant=t"].map(OsString::from));
        assert_eq!(line.flag("--agent").as_deref(), Some("a"));
        assert_eq!(line.flag("--tenant").as_deref(), Some("t"));
        assert_eq!(line.flag("--ledger"), None);
        assert!(line.has("run") && !line.has("--help"));
    }
}
