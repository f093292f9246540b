//! A diff in unified form, file by file: folded where it is long, cut where it is too long, with a link to all of it.

use crealeph_contracts::text::Shown;
use maud::{Markup, html};

use crate::parts::{counted, line, number};

/// How many lines are shown in all, and of one file before it is folded.
const MAX_LINES: usize = 20_000;
const FOLDED_LINES: usize = 400;
/// How many characters of a line are shown.
const MAX_LINE_CHARS: usize = 1_000;

/// The part of a diff that is about one file.
struct DiffFile<'d> {
    path: &'d str,
    lines: Vec<&'d str>,
}

/// A diff as a page shows it.
pub(crate) fn diff(text: &str, raw: Option<&str>) -> Markup {
    let (files, shown, all) = files(text);
    html! {
        div .diff {
            @for file in &files {
                @let added = file.lines.iter().filter(|line| line.starts_with('+')).count();
                @let removed = file.lines.iter().filter(|line| line.starts_with('-')).count();
                details open[file.lines.len() <= FOLDED_LINES] {
                    summary { code { (line(file.path)) } " " span .added { "+" (added) } " " span .removed { "−" (removed) } }
                    pre tabindex="0" role="group" aria-label={ "Changes of " (line(file.path)) } {
                        @for text in &file.lines { span .(tone(text)) { (Shown::line(text).at_most(MAX_LINE_CHARS).to_string()) "\n" } }
                    }
                }
            }
            @if shown < all {
                p .cut { (number((all - shown) as u64)) " more lines are not shown. " @if let Some(raw) = raw { a href=(raw) { "Show the whole diff" } } }
            } @else if let Some(raw) = raw {
                p { (counted(all as u64, "line")) ". " a href=(raw) { "As a file" } }
            }
        }
    }
}

fn files(text: &str) -> (Vec<DiffFile<'_>>, usize, usize) {
    let mut files: Vec<DiffFile<'_>> = Vec::new();
    let (mut shown, mut all, mut in_head) = (0, 0, true);
    for text in text.lines() {
        all += 1;
        if shown >= MAX_LINES {
            continue;
        }
        shown += 1;
        if let Some(names) = text.strip_prefix("diff --git ") {
            let path = names.split_once(" b/").map_or(names, |(_, path)| path);
            files.push(DiffFile { path, lines: Vec::new() });
            in_head = true;
            continue;
        }
        in_head &= !text.starts_with("@@");
        let is_name =
            in_head && (text.starts_with("--- ") || text.starts_with("+++ ") || text.starts_with("index "));
        if files.is_empty() {
            files.push(DiffFile { path: "(all)", lines: Vec::new() });
        }
        if let Some(file) = files.last_mut().filter(|_| !is_name) {
            file.lines.push(text);
        }
    }
    (files, shown, all)
}

fn tone(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'+') => "added",
        Some(b'-') => "removed",
        Some(b'@') => "place",
        _ => "same",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_lines_and_names_are_no_changes() {
        let text = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-old\n+new\n+--- more\n--- a line that begins so\ndiff --git a/<b> b/<b>\n@@ -0,0 +1 @@\n+<script>\n";
        let (found, shown, all) = files(text);
        assert_eq!((found.len(), shown, all), (2, 12, 12));
        assert_eq!(
            found[0].lines,
            ["@@ -1 +1,2 @@", "-old", "+new", "+--- more", "--- a line that begins so"]
        );
        let page = diff(text, None).into_string();
        assert!(!page.contains("<script>") && page.contains("&lt;b&gt;"), "{page}");
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let text = format!("diff --git a/x b/x\n@@ @@\n{}", "+line\n".repeat(MAX_LINES + 500));
        let page = diff(&text, Some("/raw")).into_string();
        assert!(page.contains("502 more lines are not shown") && page.contains("href=\"/raw\""));
        assert!(!page.contains("<details open"), "a long file is folded");
    }
}
