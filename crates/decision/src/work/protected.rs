//! The files that no run may change, whatever its rules allow: those that grant anything. Owns the comparison, which also
//! works if a file system ignores case and invisible characters.

use std::collections::BTreeSet;

/// Paths of a workspace, relative to it, that every run leaves as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectedPaths {
    paths: BTreeSet<String>,
    folders: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl ProtectedPaths {
    /// Protects a file, a link or, against being replaced, a folder.
    pub fn add_path(&mut self, path: &str) {
        self.paths.insert(folded(path));
    }

    /// Protects a folder and everything below it.
    pub fn add_folder(&mut self, folder: &str) {
        self.folders.insert(folded(folder));
    }

    /// Protects every file and folder of a name, with everything below it, at any depth.
    pub fn add_name(&mut self, name: &str) {
        self.names.insert(folded(name));
    }

    /// Whether a change of this path is denied.
    pub fn holds(&self, path: &str) -> bool {
        let path = folded(path);
        let mut above = std::iter::successors(Some(path.as_str()), |path| {
            path.rsplit_once('/').map(|(folder, _)| folder)
        });
        self.paths.contains(&path)
            || path.split('/').any(|name| self.names.contains(name))
            || above.any(|folder| self.folders.contains(folder))
    }
}

/// A path as a file system compares it that ignores case: ext4 with `casefold`, vfat, a share of another system.
pub(super) fn folded(path: &str) -> String {
    let visible = path.chars().filter(|letter| !is_ignorable(*letter));
    // By way of upper case, so that letters with two lower-case forms (the long s) become the same.
    visible.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Characters that such a file system leaves out of a comparison.
fn is_ignorable(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_a_folder_and_a_name_are_protected_in_every_spelling() {
        let mut protected = ProtectedPaths::default();
        protected.add_path("agents/fixer.py");
        protected.add_folder("state/crealeph");
        protected.add_name("crealeph.toml");
        let denied = [
            "agents/fixer.py",
            "Agents/FIXER.py",
            "state/crealeph",
            "state/crealeph/trust/x",
            "crealeph.toml",
            "deep/er/CreAleph.toml",
            "cre\u{200c}aleph.toml",
            "crealeph.toml/x",
        ];
        for path in denied {
            assert!(protected.holds(path), "{path}");
        }
        for path in ["agents/fixer.pyc", "agents", "fixer.py", "state/crealephs", "crealeph.toml.bak", ""] {
            assert!(!protected.holds(path), "{path}");
        }
        protected.add_name("skis");
        assert!(protected.holds("\u{17f}\u{212a}IS"), "the long s and the Kelvin sign");
    }
}
