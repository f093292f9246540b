//! Which paths are ignored (R26). Owns reading ignore files into rules and evaluating them; refuses every source of rules
//! but the `.gitignore` files inside the workspace. A file that git tracks is never ignored.
//!
//! The rules of one scan are kept, so that they can be evaluated again later, when the files they came from have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use crealeph_contracts::digest::Blake3;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::git::Tracked;
use crate::path::folders_above;

/// The name of an ignore file.
pub(crate) const IGNORE_FILE: &str = ".gitignore";

/// The rules of one ignore file and, through its parent, of those above it in the same repository.
#[derive(Debug)]
pub(crate) struct Level {
    /// The ignore file, read when it is first needed.
    matcher: OnceLock<Gitignore>,
    text: Box<[u8]>,
    /// A name for these rules and those above them.
    name: Blake3,
    /// Where the path relative to the ignore file's folder starts in a path of the workspace.
    starts_at: usize,
    parent: Option<Arc<Level>>,
}

impl Level {
    /// Reads an ignore file. A line that is not a pattern matches nothing, as in git.
    pub(crate) fn read(text: &[u8], folder: &str, parent: Option<Arc<Level>>) -> Arc<Level> {
        let mut named = parent.as_ref().map(|parent| parent.name.as_bytes().to_vec()).unwrap_or_default();
        named.extend_from_slice(folder.as_bytes());
        named.push(0);
        named.extend_from_slice(text);
        let starts_at = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let name = Blake3::of(&named);
        Arc::new(Level { matcher: OnceLock::new(), text: text.into(), name, starts_at, parent })
    }

    fn matcher(&self) -> &Gitignore {
        self.matcher.get_or_init(|| {
            let mut builder = GitignoreBuilder::new(".");
            let text = self.text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.text);
            for line in String::from_utf8_lossy(text).lines() {
                let _ = builder.add_line(None, line);
            }
            builder.build().unwrap_or_else(|_| Gitignore::empty())
        })
    }

    /// The result of the nearest matching rule for this path alone, whatever applies to the folders above it.
    fn ignores(&self, path: &[u8], is_folder: bool) -> bool {
        let levels = std::iter::successors(Some(self), |level| level.parent.as_deref());
        for level in levels {
            let relative = OsStr::from_bytes(path.get(level.starts_at..).unwrap_or_default());
            match level.matcher().matched(relative, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// The rules that apply in one folder while the tree is walked.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    level: Option<Arc<Level>>,
    tracked: Arc<Tracked>,
    /// The folder is ignored; only what git tracks in it counts.
    only_tracked: bool,
}

/// The verdict on a path during a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IgnoreVerdict {
    /// It counts.
    Counts,
    /// It is ignored, but git tracks something in it.
    OnlyTracked,
    /// It is ignored.
    Ignored,
}

impl Scope {
    /// The rules at the workspace's root.
    pub(crate) fn outermost(tracked: Arc<Tracked>) -> Self {
        Scope { level: None, tracked, only_tracked: false }
    }

    /// The rules inside a nested repository: its own rules and its own index, nothing from outside.
    pub(crate) fn repository(&self, tracked: Arc<Tracked>) -> Self {
        Scope { level: None, tracked, only_tracked: false }
    }

    /// The rules below an ignore file.
    pub(crate) fn with_rules(&self, text: &[u8], folder: &str) -> Self {
        Scope { level: Some(Level::read(text, folder, self.level.clone())), ..self.clone() }
    }

    /// The rules in a folder that got this verdict.
    pub(crate) fn below(&self, verdict: IgnoreVerdict) -> Self {
        Scope { only_tracked: verdict == IgnoreVerdict::OnlyTracked, ..self.clone() }
    }

    /// Whether this folder of the outer repository is itself tracked: a submodule.
    pub(crate) fn is_submodule(&self, folder: &str) -> bool {
        self.tracked.holds(folder.as_bytes())
    }

    /// Whether only tracked files count here.
    pub(crate) fn is_only_tracked(&self) -> bool {
        self.only_tracked
    }

    /// A name for the ignore rules that apply here; `None` if there are no rules.
    pub(crate) fn rules(&self) -> Option<Blake3> {
        self.level.as_ref().map(|level| level.name)
    }

    /// Whether the rules ignore a path directly in this folder, tracked or not.
    pub(crate) fn ignores(&self, path: &[u8], is_folder: bool) -> bool {
        self.only_tracked || self.level.as_ref().is_some_and(|level| level.ignores(path, is_folder))
    }

    /// Judges a path directly in this folder, which the rules ignore or not.
    pub(crate) fn verdict(&self, is_ignored: bool, path: &[u8], is_folder: bool) -> IgnoreVerdict {
        if !is_ignored {
            IgnoreVerdict::Counts
        } else if is_folder && self.tracked.reaches_into(path) {
            IgnoreVerdict::OnlyTracked
        } else if !is_folder && self.tracked.holds(path) {
            IgnoreVerdict::Counts
        } else {
            IgnoreVerdict::Ignored
        }
    }
}

/// Hypothetical ignore files, where they differ from the current ones.
#[derive(Debug, Default)]
pub(crate) struct IgnoreFiles {
    /// Texts by folder, or none.
    pub(crate) texts: BTreeMap<String, Option<Box<[u8]>>>,
    /// Paths that would be gone, with every ignore file below them that has no text above.
    pub(crate) gone: BTreeSet<String>,
}

impl IgnoreFiles {
    /// Whether all are as they are.
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.gone.is_empty()
    }

    /// The ignore file that a folder would have; `None` if it would be unchanged.
    pub(crate) fn text(&self, folder: &str) -> Option<Option<Box<[u8]>>> {
        let is_gone =
            || std::iter::once(folder).chain(folders_above(folder)).any(|path| self.gone.contains(path));
        self.texts.get(folder).cloned().or_else(|| is_gone().then_some(None))
    }
}

/// A folder's additions to the rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct FolderRules {
    /// Its ignore file.
    pub(crate) text: Option<Box<[u8]>>,
    /// The tracked files of the repository whose root it is.
    pub(crate) repository: Option<Arc<Tracked>>,
}

/// All rules of a workspace at the time of a scan.
#[derive(Debug)]
pub(crate) struct Rules {
    outermost: Scope,
    folders: BTreeMap<String, FolderRules>,
}

impl Rules {
    pub(crate) fn new(outermost: Scope, folders: BTreeMap<String, FolderRules>) -> Self {
        Rules { outermost, folders }
    }

    /// These rules, with ignore files in folders that did not exist when they were read.
    pub(crate) fn with_new_files(&self, files: &IgnoreFiles) -> Self {
        let mut folders = self.folders.clone();
        for (folder, text) in &files.texts {
            if text.is_some() {
                folders.entry(folder.clone()).or_default().text.clone_from(text);
            }
        }
        Rules { outermost: self.outermost.clone(), folders }
    }

    /// The ignore file of a folder, as it was read.
    pub(crate) fn text(&self, folder: &str) -> Option<&[u8]> {
        self.folders.get(folder)?.text.as_deref()
    }

    /// This folder and those below it, if they have an ignore file.
    pub(crate) fn texts_under<'r>(&'r self, folder: &str) -> impl Iterator<Item = &'r str> + use<'r> {
        let (own, inside) = (folder.to_owned(), format!("{folder}/"));
        let with_text = self.folders.iter().filter(|(_, rules)| rules.text.is_some());
        with_text.map(|(name, _)| name.as_str()).filter(move |name| *name == own || name.starts_with(&inside))
    }

    /// Whether a path is ignored, judged folder by folder as a walk would.
    pub(crate) fn ignores(&self, path: &[u8], is_folder: bool) -> bool {
        self.judge(path, is_folder).is_none()
    }

    /// Whether the ignore file of a folder applies at all: not in one that is ignored.
    pub(crate) fn asks(&self, folder: &str) -> bool {
        let scope = if folder.is_empty() {
            Some(self.outermost.clone())
        } else {
            self.judge(folder.as_bytes(), true)
        };
        scope.is_some_and(|scope| !self.enter(&scope, folder).is_only_tracked())
    }

    /// The rules at a path that counts, as far as the folders above and its own verdict go.
    fn judge(&self, path: &[u8], is_folder: bool) -> Option<Scope> {
        let mut scope = self.enter(&self.outermost, "");
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in slashes.chain([path.len()]) {
            let part = path.get(..end).unwrap_or(path);
            let is_last = end == path.len();
            let is_folder = !is_last || is_folder;
            let verdict = scope.verdict(scope.ignores(part, is_folder), part, is_folder);
            if verdict == IgnoreVerdict::Ignored {
                return None;
            }
            scope = scope.below(verdict);
            if let Ok(part) = std::str::from_utf8(part)
                && !is_last
            {
                scope = self.enter(&scope, part);
            }
        }
        Some(scope)
    }

    /// The rules in a folder, given those above it.
    fn enter(&self, above: &Scope, folder: &str) -> Scope {
        let Some(rules) = self.folders.get(folder) else { return above.clone() };
        let scope = match &rules.repository {
            Some(tracked) if !above.is_only_tracked() || above.is_submodule(folder) => {
                above.repository(Arc::clone(tracked))
            }
            _ => above.clone(),
        };
        match &rules.text {
            Some(text) => scope.with_rules(text, folder),
            None => scope,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(files: &[(&str, &str)]) -> Rules {
        let folders = files.iter().map(|(folder, text)| {
            let text = Some(text.as_bytes().into());
            ((*folder).to_owned(), FolderRules { text, repository: None })
        });
        Rules::new(Scope::outermost(Arc::new(Tracked::default())), folders.collect())
    }

    fn check(rules: &Rules, ignored: &[&str], counted: &[&str]) {
        for path in ignored {
            assert!(rules.ignores(path.as_bytes(), false), "{path} counts");
        }
        for path in counted {
            assert!(!rules.ignores(path.as_bytes(), false), "{path} is ignored");
        }
    }

    #[test]
    fn patterns_mean_what_they_mean_in_git() {
        let text = "# comment\n\n*.log\n!keep.log\n/only-here\nfolder/\na/b\n**/deep/**/x\n\\#hash\n\\!bang\ntrail \nbad[\n[ab]c\nq?\n";
        check(
            &rules(&[("", text)]),
            &[
                "x.log",
                "d/x.log",
                "only-here",
                "folder/x",
                "d/folder/y/z",
                "a/b",
                "a/b/c",
                "p/deep/x",
                "p/deep/q/r/x",
                "#hash",
                "!bang",
                "trail",
                "ac",
                "bc",
                "qz",
            ],
            &["keep.log", "d/keep.log", "d/only-here", "folder", "d/a/b", "# comment", "cc", "q", "x.logs"],
        );
    }

    #[test]
    fn the_nearest_ignore_file_wins_and_an_ignored_folder_cannot_be_reopened() {
        let rules = rules(&[
            ("", "*.log\nbuild/\n"),
            ("d", "!*.log\n/local\n"),
            ("d/e", "*.log\n"),
            ("build", "!*\n"),
        ]);
        check(
            &rules,
            &["x.log", "d/e/x.log", "d/local", "build/x", "build/deep/x.log", "d/build/x"],
            &["d/x.log", "d/e/local", "local", "d/f/x.log"],
        );
    }

    #[test]
    fn a_byte_order_mark_and_carriage_returns_are_no_part_of_a_pattern() {
        check(&rules(&[("", "\u{feff}a\r\nb\r\n")]), &["a", "b"], &["c"]);
    }
}
