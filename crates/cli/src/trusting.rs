//! Asking whether a configuration is trusted, before any of its settings is used: a terminal shows what it would grant and
//! asks, anything else gets the command to type.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crealeph_contracts::text::Shown;
use crealeph_runtime::configuration::Configuration;
use crealeph_runtime::trust::{Grant, GrantSet, Part, TrustStore, Widening};

use crate::failure::{ArgumentFailure, Failure, OutputFailure, TrustFailure};
use crate::output::{is_watched, note, note_page, prompt};
use crate::page::Page;
use crate::user_state;

/// Trusts every configuration, for CI and scripts; never a `.crealeph`.
pub(crate) const VARIABLE: &str = "CREALEPH_TRUST";
/// Do not ask anyone.
static NEVER_ASK: AtomicBool = AtomicBool::new(false);

/// How many grants are shown at once.
const MAX_SHOWN: usize = 200;
/// How much of one is shown.
const MAX_SHOWN_CHARS: usize = 400;

/// What a command is about to use of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uses {
    /// The ledger's place and keys.
    Ledger,
    /// Everything: agents, and the ledger.
    Everything,
}

/// A configuration, and what this user accepted of it.
pub(crate) struct Judged {
    /// Where it is, its folder's links followed.
    pub(crate) path: PathBuf,
    pub(crate) set: GrantSet,
    pub(crate) widening: Widening,
    /// Nothing of it was accepted before.
    pub(crate) is_new: bool,
    store: TrustStore,
}

impl Judged {
    /// Compares a configuration with what was accepted; nothing where no file was read.
    pub(crate) fn of(configuration: &Configuration) -> Result<Option<Self>, Failure> {
        // A link to a configuration that is trusted elsewhere has other folders around it.
        let Some(path) = configuration.real_path() else { return Ok(None) };
        let set = GrantSet::of(configuration)?;
        let store = TrustStore::open(&user_state::needed()?)?;
        let accepted = store.accepted(&path)?;
        let is_new = accepted.is_none();
        let widening = set.beyond(&accepted.unwrap_or_default());
        Ok(Some(Judged { path, set, widening, is_new, store }))
    }

    /// Records that the user accepts it as it is now.
    pub(crate) fn accept(&self) -> Result<(), Failure> {
        Ok(self.store.accept(&self.path, &self.set)?)
    }

    /// What is to be accepted, for a person.
    pub(crate) fn page(&self) -> Page {
        let path = self.path.display();
        let mut page = Page::default();
        page.line(&match self.is_new {
            true => format!("`{path}` is not trusted yet. It would grant:"),
            false => format!("`{path}` grants more than you trusted before. New:"),
        });
        listed(&self.widening.grants, &mut page);
        for lifted in &self.widening.lifted {
            let lifted = lifted.to_string();
            page.line(&format!("  no longer: {}", Shown::line(&lifted).at_most(MAX_SHOWN_CHARS)));
        }
        page
    }
}

/// Accepts a configuration that this program wrote itself.
pub(crate) fn accept_own(configuration: &Path) -> Result<(), Failure> {
    let configuration = Configuration::find(Some(configuration))?;
    match Judged::of(&configuration)? {
        Some(judged) => judged.accept(),
        None => Ok(()),
    }
}

/// Succeeds only if what is about to be used was accepted, or is accepted now.
pub(crate) fn require(configuration: &Configuration, uses: Uses) -> Result<(), Failure> {
    if is_trusted_by_environment()? {
        return Ok(());
    }
    // Most configurations that are read for the ledger have no ledger settings.
    if uses == Uses::Ledger && configuration.section("ledger")?.is_none() {
        return Ok(());
    }
    let Some(judged) = Judged::of(configuration)? else { return Ok(()) };
    let is_used = |grant: &Grant| uses == Uses::Everything || grant.part == Part::Ledger;
    let is_lifted = uses == Uses::Everything && !judged.widening.lifted.is_empty();
    if !judged.widening.grants.iter().any(is_used) && !is_lifted {
        return Ok(());
    }
    if !can_ask() {
        let (asked, command) = (judged.page(), command(&judged.path));
        return Err(TrustFailure::Untrusted { path: judged.path, command, asked }.into());
    }
    note_page(&judged.page());
    match ask("Trust it?")? {
        true => judged.accept(),
        false => Err(TrustFailure::Declined(judged.path).into()),
    }
}

/// Whether the environment says that every configuration is trusted.
pub(crate) fn is_trusted_by_environment() -> Result<bool, ArgumentFailure> {
    match std::env::var_os(VARIABLE) {
        None => Ok(false),
        Some(value) if value.is_empty() || value == "0" => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) => Err(ArgumentFailure::option(value.to_string_lossy(), "`1` or `0` for CREALEPH_TRUST")),
    }
}

/// From now on no one is asked: what was not accepted is refused.
pub(crate) fn never_ask() {
    NEVER_ASK.store(true, Ordering::Relaxed);
}

/// Whether there is a terminal to ask on.
pub(crate) fn can_ask() -> bool {
    !NEVER_ASK.load(Ordering::Relaxed) && std::io::stdin().is_terminal() && is_watched()
}

/// Asks, and takes nothing but a yes for one.
pub(crate) fn ask(question: &str) -> Result<bool, OutputFailure> {
    note!("");
    prompt(&format!("{question} [y/N] "));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(OutputFailure::Stdout)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// The command to type if there is no terminal to ask on.
pub(crate) fn command(path: &Path) -> String {
    format!("crealeph trust {}", quoted(path))
}

/// A path as one word of the shell.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./+@%:,".contains(letter);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Adds grants by whom they are for.
fn listed(grants: &[Grant], page: &mut Page) {
    let mut last = "";
    for grant in grants.iter().take(MAX_SHOWN) {
        if grant.to != last {
            page.line(&format!("  {}", grant.to));
            last = &grant.to;
        }
        let shown = grant.shown();
        page.line(&format!("    {:<14} {}", grant.what, Shown::line(&shown).at_most(MAX_SHOWN_CHARS)));
    }
    if grants.len() > MAX_SHOWN {
        page.line(&format!("  … and {} more; read the file", grants.len() - MAX_SHOWN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_the_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
        assert_eq!(quoted(Path::new("/a/b-1.toml")), "/a/b-1.toml");
    }
}
