//! How many lines a diff adds and removes, by file.

/// A file of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Its name, as git quotes it.
    pub name: String,
    /// How many lines it gains.
    pub added: usize,
    /// How many lines it loses.
    pub removed: usize,
}

/// The files of a diff, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffStat {
    /// The files.
    pub files: Vec<FileStat>,
}

impl DiffStat {
    /// Reads a diff as git writes it.
    pub fn read(diff: &str) -> Self {
        let mut files: Vec<FileStat> = Vec::new();
        let mut is_in_hunk = false;
        for line in diff.lines() {
            if let Some(names) = line.strip_prefix("diff --git ") {
                files.push(FileStat { name: diff_name(names), added: 0, removed: 0 });
                is_in_hunk = false;
                continue;
            }
            let Some(file) = files.last_mut() else { continue };
            match line.as_bytes().first() {
                Some(b'@') => is_in_hunk = true,
                Some(b'+') if is_in_hunk => file.added += 1,
                Some(b'-') if is_in_hunk => file.removed += 1,
                _ => {}
            }
        }
        DiffStat { files }
    }

    /// Added and removed lines of all files.
    pub fn total(&self) -> (usize, usize) {
        let sum = |of: fn(&FileStat) -> usize| self.files.iter().map(of).sum();
        (sum(|file| file.added), sum(|file| file.removed))
    }
}

/// The second of two names, which for a file that stays where it is are the same but for their first letter.
pub fn diff_name(names: &str) -> String {
    let middle = names.len() / 2;
    let second = names.get(middle + 1..).filter(|_| names.as_bytes().get(middle) == Some(&b' '));
    let second = second.unwrap_or(names);
    let quoted = second.strip_prefix("\"b/").map(|name| format!("\"{name}"));
    quoted.unwrap_or_else(|| second.strip_prefix("b/").unwrap_or(second).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_file() {
        let diff = "diff --git a/a b.txt b/a b.txt\n--- a/a b.txt\n+++ b/a b.txt\n@@ -1,2 +1,2 @@\n same\n--- old\n+++ new\n+more\n\
                    diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n";
        let stat = DiffStat::read(diff);
        let file = |name: &str, added, removed| FileStat { name: name.to_owned(), added, removed };
        assert_eq!(stat.files, [file("a b.txt", 2, 1), file("gone", 0, 1)]);
        assert_eq!(stat.total(), (2, 2));
        assert_eq!(DiffStat::read(""), DiffStat::default());
    }
}
