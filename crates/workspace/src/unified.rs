//! A change as people read it: the unified form that `git diff` prints, by the algorithm of the deltas. Owns the text and
//! its bound; a person reads it, nothing is judged by it.

use std::fmt::Write as _;

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};

use crate::change::Change;
use crate::delta::DeltaError;
use crate::node::Node;
use crate::workspace::Workspace;

impl Workspace {
    /// The changes in unified form, at most about `max_bytes`; what is left out is said at the end. Contents are in the
    /// store or, before, still in the workspace.
    ///
    /// # Errors
    /// When a content cannot be read.
    pub fn unified(&self, changes: &[Change], max_bytes: usize) -> Result<String, DeltaError> {
        let mut out = String::new();
        for (position, change) in changes.iter().enumerate() {
            let start = out.len();
            self.one_unified(change, &mut out)?;
            if out.len() > max_bytes {
                out.truncate(start);
                let left = changes.len() - position;
                let _ = writeln!(out, "# {left} more changed files left out: over {max_bytes} bytes");
                break;
            }
        }
        Ok(out)
    }

    fn one_unified(&self, change: &Change, out: &mut String) -> Result<(), DeltaError> {
        let path = change.path.as_str();
        let _ = writeln!(out, "diff --git a/{path} b/{path}");
        match (change.before.as_ref().map(mode), change.after.as_ref().map(mode)) {
            (None, Some(new)) => drop(writeln!(out, "new file mode {new}")),
            (Some(old), None) => drop(writeln!(out, "deleted file mode {old}")),
            (Some(old), Some(new)) if old != new => drop(writeln!(out, "old mode {old}\nnew mode {new}")),
            _ => {}
        }
        let before = self.side(change, change.before.as_ref())?;
        let after = self.side(change, change.after.as_ref())?;
        let (Some(before), Some(after)) = (before, after) else {
            let _ = writeln!(out, "Binary files differ");
            return Ok(());
        };
        if before == after {
            return Ok(());
        }
        let name = |side: &str, node: &Option<Node>| match node {
            Some(_) => format!("{side}/{path}"),
            None => "/dev/null".to_owned(),
        };
        let _ = writeln!(out, "--- {}\n+++ {}", name("a", &change.before), name("b", &change.after));
        let input = InternedInput::new(before.as_str(), after.as_str());
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let printer = BasicLineDiffPrinter(&input.interner);
        let text = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input).to_string();
        // A side without lines starts before the first one.
        match (before.is_empty(), after.is_empty()) {
            (true, _) => out.push_str(&text.replacen("@@ -1,0 ", "@@ -0,0 ", 1)),
            (_, true) => out.push_str(&text.replacen(" +1,0 @@", " +0,0 @@", 1)),
            _ => out.push_str(&text),
        }
        Ok(())
    }

    /// One side as text: nothing there is an empty text, a link is its target; none where it is no text.
    fn side(&self, change: &Change, node: Option<&Node>) -> Result<Option<String>, DeltaError> {
        match node {
            None => Ok(Some(String::new())),
            Some(Node::Symlink { target }) => Ok(Some(target.to_string())),
            Some(node) => {
                Ok(self.text(change, node)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            }
        }
    }
}

fn mode(node: &Node) -> &'static str {
    match node {
        Node::File { executable: false, .. } => "100644",
        Node::File { executable: true, .. } => "100755",
        Node::Symlink { .. } => "120000",
    }
}
