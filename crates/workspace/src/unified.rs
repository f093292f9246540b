//! A change as people read it: the unified form that `git diff` prints, by the algorithm of the deltas. Owns the text and
//! its bound; a person reads it, nothing is judged by it.

use std::fmt::{self, Write as _};

use crealeph_contracts::text::is_hidden;
use imara_diff::{Algorithm, Diff, InternedInput, Interner, Token, UnifiedDiffConfig, UnifiedDiffPrinter};

use crate::change::Change;
use crate::deadline::Deadline;
use crate::delta::DeltaError;
use crate::node::TreeNode;
use crate::workspace::Workspace;

/// How many files that were left out are named.
const MAX_NAMED: usize = 1000;

impl Workspace {
    /// The changes in unified form, at most about `max_bytes`; a file that does not fit is named at the end. Contents are in the
    /// store or, before, still in the workspace.
    ///
    /// # Errors
    /// When a content cannot be read, or the deadline passed.
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
        // All of a file that is new or gone would be shown.
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
        let input = InternedInput::new(before.as_str(), after.as_str());
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let printer = Printer(&input.interner);
        let _ = write!(out, "{}", diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input));
        Ok(())
    }

    /// One side as text: nothing there is an empty text, a link is its target; `None` if it is no text.
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

/// Prints hunks as git does, down to a last line that does not end.
struct Printer<'i>(&'i Interner<&'i str>);

impl Printer<'_> {
    fn line(&self, mut f: impl fmt::Write, sign: char, token: Token) -> fmt::Result {
        let line: &str = self.0[token];
        match line.ends_with('\n') {
            true => write!(f, "{sign}{line}"),
            false => writeln!(f, "{sign}{line}\n\\ No newline at end of file"),
        }
    }
}

impl UnifiedDiffPrinter for Printer<'_> {
    fn display_header(
        &self,
        mut f: impl fmt::Write,
        start_before: u32,
        start_after: u32,
        len_before: u32,
        len_after: u32,
    ) -> fmt::Result {
        // A side without lines starts before the first one.
        let start = |at: u32, length: u32| if length == 0 { at } else { at + 1 };
        let (before, after) = (start(start_before, len_before), start(start_after, len_after));
        writeln!(f, "@@ -{before},{len_before} +{after},{len_after} @@")
    }

    fn display_context_token(&self, f: impl fmt::Write, token: Token) -> fmt::Result {
        self.line(f, ' ', token)
    }

    fn display_hunk(&self, mut f: impl fmt::Write, before: &[Token], after: &[Token]) -> fmt::Result {
        before.iter().try_for_each(|token| self.line(&mut f, '-', *token))?;
        after.iter().try_for_each(|token| self.line(&mut f, '+', *token))
    }
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
