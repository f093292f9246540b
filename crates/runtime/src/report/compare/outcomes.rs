//! The results of two diffs of one file, compared. Two diffs from the same start say all that is needed: where only the one changed
//! something, the other left the start as it was. Refuses diffs from different starts, and files without lines.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_workspace::unified_hunks;

use crate::work::diff_name;

/// The longest file whose outcomes are held against each other.
const MAX_LINES: usize = 100_000;
/// A line that neither diff shows; no text has it.
const HIDDEN: char = '\u{0}';

/// A diff, file by file.
#[derive(Debug, Default)]
pub(super) struct DiffParts<'d>(BTreeMap<String, DiffPart<'d>>);

/// The part of a diff that is about one file: its lines but for the first.
#[derive(Debug, Default)]
pub(super) struct DiffPart<'d> {
    lines: Vec<&'d str>,
}

impl<'d> DiffParts<'d> {
    /// Reads a diff as git writes it.
    pub(super) fn read(diff: Option<&'d str>) -> Self {
        let mut parts = BTreeMap::new();
        let mut current: Option<(String, DiffPart<'d>)> = None;
        for line in diff.unwrap_or_default().split_terminator('\n') {
            if let Some(names) = line.strip_prefix("diff --git ") {
                parts.extend(current.take());
                current = Some((diff_name(names), DiffPart::default()));
            } else if let Some((_, part)) = &mut current {
                part.lines.push(line);
            }
        }
        parts.extend(current);
        DiffParts(parts)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn get(&self, path: &str) -> Option<&DiffPart<'d>> {
        self.0.get(path)
    }
}

impl DiffPart<'_> {
    /// Whether both make the same change.
    pub(super) fn is_same(&self, other: &DiffPart<'_>) -> bool {
        self.lines == other.lines
    }
}

/// What a run made of a file, as far as its diff shows it.
#[derive(Debug, Default)]
struct FileEdits<'d> {
    /// Lines of the start, by their place.
    start: BTreeMap<usize, &'d str>,
    /// What is before a line of the start, and whether the line itself stays.
    inserted: BTreeMap<usize, Vec<&'d str>>,
    removed: BTreeSet<usize>,
}

/// What turns the outcome of the one into that of the other, or why that is not known.
pub(super) fn between(a: &DiffPart<'_>, b: &DiffPart<'_>) -> Result<String, &'static str> {
    let (a, b) = (FileEdits::read(a)?, FileEdits::read(b)?);
    let is_other_start =
        a.start.iter().any(|(place, line)| b.start.get(place).is_some_and(|own| own != line));
    if is_other_start {
        return Err("the two runs started from different contents of it");
    }
    let mut start = a.start.clone();
    start.extend(b.start.iter());
    let hunks = unified_hunks(&a.outcome(&start), &b.outcome(&start));
    match hunks.is_empty() {
        true => Err("their diffs do not show where it differs"),
        false => Ok(hunks.split_terminator('\n').map(|line| shown(line) + "\n").collect()),
    }
}

/// A line of the result; one that neither diff shows is context.
fn shown(line: &str) -> String {
    if line.contains(HIDDEN) { " …".to_owned() } else { line.to_owned() }
}

impl<'d> FileEdits<'d> {
    fn read(part: &DiffPart<'d>) -> Result<Self, &'static str> {
        let mut edits = FileEdits::default();
        let mut place = None;
        for line in &part.lines {
            if let Some(range) = line.strip_prefix("@@ -") {
                place = Some(
                    start_of(range)
                        .filter(|place| *place <= MAX_LINES)
                        .ok_or("it is too long, or its diff is damaged")?,
                );
                continue;
            }
            let Some(at) = &mut place else { continue };
            let (sign, text) =
                if line.is_empty() { (" ", "") } else { line.split_at_checked(1).unwrap_or_default() };
            match sign {
                "+" => edits.inserted.entry(*at).or_default().push(text),
                " " | "-" => {
                    edits.start.insert(*at, text);
                    if sign == "-" {
                        edits.removed.insert(*at);
                    }
                    *at += 1;
                }
                _ => {}
            }
        }
        match place {
            Some(_) => Ok(edits),
            None => Err("at least one diff does not show its lines"),
        }
    }

    /// The outcome, with a line that no one wrote in place of each that neither diff shows.
    fn outcome(&self, start: &BTreeMap<usize, &str>) -> String {
        let shown = start.last_key_value().map_or(0, |(place, _)| place + 1);
        let end = shown.max(self.inserted.last_key_value().map_or(0, |(place, _)| place + 1));
        let mut out = String::new();
        let mut line = |text: &str| {
            out.push_str(text);
            out.push('\n');
        };
        for place in 0..end {
            self.inserted.get(&place).into_iter().flatten().for_each(|text| line(text));
            match start.get(&place) {
                _ if self.removed.contains(&place) => {}
                Some(text) => line(text),
                None if place < shown => line(&format!("{HIDDEN}{place}")),
                None => {}
            }
        }
        out
    }
}

/// The place of a hunk's first line in the start; one without lines stands after the line that it names.
fn start_of(range: &str) -> Option<usize> {
    let (before, _) = range.split_once(" +")?;
    let (start, length) = before.split_once(',').unwrap_or((before, "1"));
    let start: usize = start.parse().ok()?;
    if length == "0" { Some(start) } else { start.checked_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(one: &str, other: &str) -> Result<String, &'static str> {
        let (one, other) = (DiffParts::read(Some(one)), DiffParts::read(Some(other)));
        between(one.get("f").unwrap(), other.get("f").unwrap())
    }

    const HEAD: &str = "diff --git a/f b/f\n--- a/f\n+++ b/f\n";

    #[test]
    fn where_only_one_changed_something_the_other_left_the_start() {
        let one = format!(
            "{HEAD}@@ -1,4 +1,4 @@\n-one\n+ONE\n two\n three\n four\n@@ -20,2 +20,3 @@\n twenty\n+more\n end\n"
        );
        let other = format!("{HEAD}@@ -1,4 +1,4 @@\n-one\n+Uno\n two\n three\n four\n");
        let expected = "@@ -1,4 +1,4 @@\n-ONE\n+Uno\n two\n three\n four\n@@ -18,5 +18,4 @@\n …\n …\n twenty\n-more\n end\n";
        assert_eq!(outcome(&one, &other).unwrap(), expected);
    }

    #[test]
    fn new_files_are_compared_line_by_line() {
        let new = |middle: &str| {
            format!(
                "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,3 @@\n+a\n+{middle}\n+c\n"
            )
        };
        assert_eq!(outcome(&new("b"), &new("B")).unwrap(), "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
    }

    #[test]
    fn a_carriage_return_at_the_end_of_a_line_makes_a_difference() {
        let one = format!("{HEAD}@@ -1,1 +1,1 @@\n-a\n+x\n");
        let other = format!("{HEAD}@@ -1,1 +1,1 @@\n-a\n+x\r\n");
        let (read_one, read_other) = (DiffParts::read(Some(&one)), DiffParts::read(Some(&other)));
        assert!(!read_one.get("f").unwrap().is_same(read_other.get("f").unwrap()));
        assert_eq!(outcome(&one, &other).unwrap(), "@@ -1,1 +1,1 @@\n-x\n+x\r\n");
    }

    #[test]
    fn what_cannot_be_compared_says_why() {
        let one = format!("{HEAD}@@ -1,1 +1,1 @@\n-one\n+ONE\n");
        let moved = format!("{HEAD}@@ -1,1 +1,1 @@\n-other\n+ONE\n");
        assert_eq!(outcome(&one, &moved), Err("the two runs started from different contents of it"));
        let binary = "diff --git a/f b/f\nBinary files a/f and b/f differ\n";
        assert_eq!(outcome(&one, binary), Err("at least one diff does not show its lines"));
        let far = format!("{HEAD}@@ -4000000000,1 +1,1 @@\n-one\n+ONE\n");
        assert_eq!(outcome(&one, &far), Err("it is too long, or its diff is damaged"));
        let again = format!("{HEAD}@@ -18446744073709551616,1 +1,1 @@\n-one\n+ONE\n");
        assert!(outcome(&one, &again).is_err());
    }
}
