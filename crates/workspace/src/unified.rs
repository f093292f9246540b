//! A change as people read it: the unified form that `git diff` prints, by the algorithm of the deltas. Owns the text and
//! its limit; it is for people, nothing is judged by it.

use std::fmt::Write as _;
use std::ops::Range;

use crealeph_contracts::text::is_hidden;
use imara_diff::{Algorithm, Diff, Hunk, InternedInput, Token};

use crate::change::Change;
use crate::deadline::Deadline;
use crate::delta::DeltaError;
use crate::node::TreeNode;
use crate::workspace::Workspace;

/// How many lines of context a change has.
const CONTEXT_LINES: u32 = 3;
/// How many files that were left out are named.
const MAX_NAMED: usize = 1000;

impl Workspace {
    /// The changes in unified form, at most about `max_bytes`; a file that does not fit is named at the end. Contents are in the
    /// store or, before, still in the workspace.
    ///
    /// # Errors
    /// If a content cannot be read, or the deadline passed.
    pub fn unified(
        &self,
        changes: &[Change],
        max_bytes: usize,
        deadline: Deadline<'_>,
    ) -> Result<String, DeltaError> {
        let mut out = String::new();
        let mut left_out = Vec::new();
        for change in changes {
            if deadline.is_over() {
                return Err(DeltaError::Stopped);
            }
            let start = out.len();
            self.one_unified(change, max_bytes, &mut out)?;
            if out.len() > max_bytes {
                out.truncate(start);
                left_out.push(change);
            }
        }
        if !left_out.is_empty() {
            let _ = writeln!(out, "# {} changed files left out, over {max_bytes} bytes:", left_out.len());
        }
        for change in left_out.iter().take(MAX_NAMED) {
            let _ = writeln!(out, "#   {}", quoted("b", change.path.as_str()));
        }
        if left_out.len() > MAX_NAMED {
            let _ = writeln!(out, "#   and {} more", left_out.len() - MAX_NAMED);
        }
        Ok(out)
    }

    fn one_unified(&self, change: &Change, max_bytes: usize, out: &mut String) -> Result<(), DeltaError> {
        let path = change.path.as_str();
        let _ = writeln!(out, "diff --git {} {}", quoted("a", path), quoted("b", path));
        match (change.before.as_ref().map(mode), change.after.as_ref().map(mode)) {
            (None, Some(new)) => drop(writeln!(out, "new file mode {new}")),
            (Some(old), None) => drop(writeln!(out, "deleted file mode {old}")),
            (Some(old), Some(new)) if old != new => drop(writeln!(out, "old mode {old}\nnew mode {new}")),
            _ => {}
        }
        // All of a file that is new or deleted would be shown.
        if let (None, Some(TreeNode::File { size_bytes, .. }))
        | (Some(TreeNode::File { size_bytes, .. }), None) = (&change.before, &change.after)
            && *size_bytes > max_bytes as u64
        {
            let _ = writeln!(out, "# {size_bytes} bytes left out: over {max_bytes} bytes");
            return Ok(());
        }
        let before = self.side(change, change.before.as_ref())?;
        let after = self.side(change, change.after.as_ref())?;
        let name = |side: &str, node: &Option<TreeNode>| match node {
            // As git does it: a tab ends a name that has a space in it.
            Some(_) if path.contains(' ') && quoted(side, path).starts_with(side) => {
                format!("{side}/{path}\t")
            }
            Some(_) => quoted(side, path),
            None => "/dev/null".to_owned(),
        };
        let (Some(before), Some(after)) = (before, after) else {
            let (one, other) = (name("a", &change.before), name("b", &change.after));
            let _ = writeln!(out, "Binary files {} and {} differ", one.trim_end(), other.trim_end());
            return Ok(());
        };
        if before == after {
            return Ok(());
        }
        let _ = writeln!(out, "--- {}\n+++ {}", name("a", &change.before), name("b", &change.after));
        write_hunks(&before, &after, out);
        Ok(())
    }

    /// One side as text: a missing entry is an empty text, a link is its target; `None` if it is not text.
    fn side(&self, change: &Change, node: Option<&TreeNode>) -> Result<Option<String>, DeltaError> {
        match node {
            None => Ok(Some(String::new())),
            Some(TreeNode::Symlink { target }) => Ok(Some(target.to_string())),
            Some(node) => {
                Ok(self.text(change, node)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            }
        }
    }
}

/// The hunks between two texts, as git prints them; empty if they are the same.
pub fn unified_hunks(before: &str, after: &str) -> String {
    let mut out = String::new();
    write_hunks(before, after, &mut out);
    out
}

fn write_hunks(before: &str, after: &str, out: &mut String) {
    let input = InternedInput::new(before, after);
    let diff = Diff::compute(Algorithm::Histogram, &input);
    let mut hunks = diff.hunks().peekable();
    while let Some(first) = hunks.next() {
        let mut end = first.before.end;
        let mut group = vec![first];
        // Changes whose contexts would touch are shown as one.
        while let Some(next) = hunks.next_if(|next| next.before.start - end <= 2 * CONTEXT_LINES) {
            end = next.before.end;
            group.push(next);
        }
        write_group(&input, &group, out);
    }
}

/// Changes with the context before, between and after them. The header is ours: that of `imara-diff` 0.2 is wrong if the first change is in lines
/// 4 to 6.
fn write_group(input: &InternedInput<&str>, group: &[Hunk], out: &mut String) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let start = first.before.start.saturating_sub(CONTEXT_LINES);
    let end = (last.before.end + CONTEXT_LINES).min(input.before.len() as u32);
    let start_after = first.after.start - (first.before.start - start);
    let end_after = last.after.end + (end - last.before.end);
    // A side without lines starts before the first one.
    let side = |start: u32, end: u32| (if start == end { start } else { start + 1 }, end - start);
    let ((one, lines), (other, lines_after)) = (side(start, end), side(start_after, end_after));
    let _ = writeln!(out, "@@ -{one},{lines} +{other},{lines_after} @@");
    let mut write = |sign: char, tokens: &[Token], range: Range<u32>| {
        let tokens = tokens.get(range.start as usize..range.end as usize).unwrap_or_default();
        for token in tokens {
            let line: &str = input.interner[*token];
            let _ = match line.ends_with('\n') {
                true => write!(out, "{sign}{line}"),
                false => writeln!(out, "{sign}{line}\n\\ No newline at end of file"),
            };
        }
    };
    let mut place = start;
    for hunk in group {
        write(' ', &input.before, place..hunk.before.start);
        write('-', &input.before, hunk.before.clone());
        write('+', &input.after, hunk.after.clone());
        place = hunk.before.end;
    }
    write(' ', &input.before, place..end);
}

/// A name as git writes it: in quotes and with C escapes if it holds a quote, a backslash, a control character or
/// anything but ASCII that could hide or reorder characters.
fn quoted(side: &str, path: &str) -> String {
    let is_special = |character: char| matches!(character, '"' | '\\') || is_hidden(character);
    if !path.chars().any(is_special) {
        return format!("{side}/{path}");
    }
    let mut out = format!("\"{side}/");
    for character in path.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ if is_hidden(character) => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

fn mode(node: &TreeNode) -> &'static str {
    match node {
        TreeNode::File { executable: false, .. } => "100644",
        TreeNode::File { executable: true, .. } => "100755",
        TreeNode::Symlink { .. } => "120000",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_where_its_lines_are_wherever_the_change_is() {
        let lines: Vec<String> = (1..=30).map(|number| format!("line {number}\n")).collect();
        for changed in 1..=30 {
            for is_removed in [false, true] {
                let mut after = lines.clone();
                after[changed - 1] = if is_removed { String::new() } else { "changed\n".to_owned() };
                let text = unified_hunks(&lines.concat(), &after.concat());
                let (header, shown) = text.split_once('\n').unwrap();
                let (from, to) = (changed.saturating_sub(3).max(1), (changed + 3).min(30));
                let (count, kept) = (to - from + 1, to - from + 1 - usize::from(is_removed));
                assert_eq!(header, format!("@@ -{from},{count} +{from},{kept} @@"), "{changed}");
                let old: Vec<&str> = shown
                    .lines()
                    .filter(|line| !line.starts_with('+'))
                    .filter_map(|line| line.get(1..))
                    .collect();
                let expected: Vec<&str> = lines[from - 1..to].iter().map(|line| line.trim_end()).collect();
                assert_eq!(old, expected, "{changed}");
            }
        }
    }

    #[test]
    fn changes_that_are_near_share_a_header_and_a_last_line_without_an_end_says_so() {
        let lines: Vec<String> = (1..=30).map(|number| format!("line {number}\n")).collect();
        let changed = |places: &[usize]| {
            let mut after = lines.clone();
            places.iter().for_each(|place| after[place - 1] = "changed\n".to_owned());
            unified_hunks(&lines.concat(), &after.concat()).matches("@@ -").count()
        };
        assert_eq!((changed(&[5, 12]), changed(&[5, 13])), (1, 2));
        assert_eq!(unified_hunks("a\n", "a\nb"), "@@ -1,1 +1,2 @@\n a\n+b\n\\ No newline at end of file\n");
        assert_eq!(unified_hunks("", "a\n"), "@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(unified_hunks("a\n", ""), "@@ -1,1 +0,0 @@\n-a\n");
        assert_eq!(unified_hunks("a\n", "a\n"), "");
    }
}
