//! A diff in unified form, file by file: folded if it is long, cut if it is too long, with a link to all of it.

use crealeph_contracts::text::Shown;
use crealeph_runtime::report::TextPart;
use crealeph_runtime::work::diff_name;
use maud::{Markup, html};

use crate::parts::{counted, left_out_note, line, markup_bytes, number};

/// How many lines are shown of one file before it is folded.
const FOLDED_LINES: usize = 400;
/// How many characters of a line are shown.
const MAX_LINE_CHARS: usize = 1_000;
/// What a line and a file take of a page besides their text.
const LINE_MARKUP_BYTES: usize = 32;
const FILE_MARKUP_BYTES: usize = 512;

/// How much of a diff a page shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiffBounds {
    /// How many lines.
    lines: usize,
    /// How many bytes of the page.
    bytes: usize,
}

impl DiffBounds {
    /// On a page of its own.
    pub(crate) const PAGE: DiffBounds = DiffBounds { lines: 20_000, bytes: 2 << 20 };
    /// On a page with others.
    pub(crate) const PART: DiffBounds = DiffBounds { lines: 1_000, bytes: 64 << 10 };
}

/// The part of a diff that is about one file.
struct DiffFile<'d> {
    path: String,
    lines: Vec<(&'d str, String)>,
}

/// A diff as a page shows it.
pub(crate) fn diff(text: &str, bounds: DiffBounds, raw: Option<&str>) -> Markup {
    let (files, shown, all) = files(text, bounds);
    html! {
        div .diff {
            @for file in &files {
                @let added = file.count('+');
                @let removed = file.count('-');
                details open[file.lines.len() <= FOLDED_LINES] {
                    summary { code { (line(&file.path)) } " " span .added { "+" (added) } " " span .removed { "−" (removed) } }
                    pre tabindex="0" role="group" aria-label={ "Changes of " (line(&file.path)) } {
                        @for (tone, text) in &file.lines { span .(tone) { (text) "\n" } }
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

/// The hunks of one file, as a page shows them, and after a cut what has the rest.
pub(crate) fn hunks(path: &str, part: &TextPart, bounds: DiffBounds, rest: &Markup) -> Markup {
    let named = format!("diff --git a/{0} b/{0}\n{1}", path.replace(['\n', '\r'], " "), part.text);
    let (_, shown, all) = files(&named, bounds);
    html! {
        (diff(&named, bounds, None))
        @if part.left_out_bytes > 0 { p .cut { (left_out_note(part.left_out_bytes)) } }
        @if shown < all || part.left_out_bytes > 0 { p { (rest) } }
    }
}

impl DiffFile<'_> {
    fn count(&self, sign: char) -> usize {
        self.lines.iter().filter(|(_, line)| line.starts_with(sign)).count()
    }
}

/// The files of a diff with the lines that are shown, how many these are, and how many there are.
fn files(text: &str, bounds: DiffBounds) -> (Vec<DiffFile<'_>>, usize, usize) {
    let mut files: Vec<DiffFile<'_>> = Vec::new();
    let (mut shown, mut all, mut bytes, mut in_head) = (0, 0, 0, true);
    // Only the line break itself ends a line: a carriage return before it is a part of what is approved.
    for text in text.split_terminator('\n') {
        all += 1;
        if shown >= bounds.lines || bytes >= bounds.bytes {
            continue;
        }
        shown += 1;
        bytes += LINE_MARKUP_BYTES;
        if let Some(names) = text.strip_prefix("diff --git ") {
            let path = diff_name(names);
            bytes += FILE_MARKUP_BYTES + 2 * markup_bytes(&line(&path));
            files.push(DiffFile { path, lines: Vec::new() });
            in_head = true;
            continue;
        }
        in_head &= !text.starts_with("@@");
        let is_name =
            in_head && (text.starts_with("--- ") || text.starts_with("+++ ") || text.starts_with("index "));
        if files.is_empty() {
            files.push(DiffFile { path: "(all)".to_owned(), lines: Vec::new() });
        }
        if let Some(file) = files.last_mut().filter(|_| !is_name) {
            let line = Shown::line(text).at_most(MAX_LINE_CHARS).to_string();
            bytes += markup_bytes(&line);
            file.lines.push((tone(text), line));
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
        let (found, shown, all) = files(text, DiffBounds::PAGE);
        assert_eq!((found.len(), shown, all), (2, 12, 12));
        let lines: Vec<&str> = found[0].lines.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(lines, ["@@ -1 +1,2 @@", "-old", "+new", "+--- more", "--- a line that begins so"]);
        let page = diff(text, DiffBounds::PAGE, None).into_string();
        assert!(!page.contains("<script>") && page.contains("&lt;b&gt;"), "{page}");
    }

    #[test]
    fn a_change_of_line_endings_is_visible() {
        let text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\r\n-x\n+x\r\n";
        let (found, ..) = files(text, DiffBounds::PAGE);
        let lines: Vec<&str> = found[0].lines.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(lines, ["@@ -1,2 +1,2 @@", " same\\r", "-x", "+x\\r"]);
    }

    #[test]
    fn a_file_has_its_whole_name() {
        for name in ["src b/lib.rs", "a b/a b/a", "x"] {
            let text = format!(
                "diff --git a/{name} b/{name}\n--- a/{name}\t\n+++ b/{name}\t\n@@ -1 +1 @@\n-x\n+y\n"
            );
            let (found, ..) = files(&text, DiffBounds::PAGE);
            assert_eq!((found.len(), found[0].path.as_str()), (1, name));
            let part = TextPart { text: "@@ -1 +1 @@\n-x\n+y\n".to_owned(), left_out_bytes: 0 };
            let page = hunks(name, &part, DiffBounds::PART, &html! {}).into_string();
            assert!(page.contains(&format!("<summary><code>{name}</code>")), "{page}");
        }
        let quoted = "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\n@@ @@\n+x\n";
        assert_eq!(files(quoted, DiffBounds::PAGE).0[0].path, "\"\\303\\244\"");
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let text = format!("diff --git a/x b/x\n@@ @@\n{}", "+line\n".repeat(DiffBounds::PAGE.lines + 500));
        let page = diff(&text, DiffBounds::PAGE, Some("/raw")).into_string();
        assert!(page.contains("502 more lines are not shown") && page.contains("href=\"/raw\""));
        assert!(!page.contains("<details open"), "a long file is folded");
    }

    #[test]
    fn lines_and_names_of_any_length_leave_a_small_page() {
        let long = format!("diff --git a/x b/x\n@@ @@\n+{}\n+end\n", "<\u{202e}".repeat(3 << 20));
        let page = diff(&long, DiffBounds::PAGE, Some("/raw")).into_string();
        assert!(page.len() < 20_000 && page.contains("more characters)") && page.contains("+end"));
        let many = format!(
            "diff --git a/x b/x\n@@ @@\n{}",
            format!("+{}\n", "\u{202e}".repeat(2_000)).repeat(9_000)
        );
        let files = format!("diff --git a/{0} b/{0}\n", "<".repeat(2_000)).repeat(20_000);
        for text in [many, files] {
            for (bounds, most) in [(DiffBounds::PAGE, 4 << 20), (DiffBounds::PART, 200 << 10)] {
                let page = diff(&text, bounds, Some("/raw")).into_string();
                assert!(page.len() < most && page.contains("more lines are not shown"), "{}", page.len());
            }
        }
    }

    #[test]
    fn hunks_that_are_cut_lead_to_all_of_them() {
        let rest = html! { a href="/whole" { "the rest" } };
        let shown = |text: &str, left_out_bytes| {
            let part = TextPart { text: text.to_owned(), left_out_bytes };
            hunks("x", &part, DiffBounds::PART, &rest).into_string()
        };
        let long = format!("@@ @@\n{}", "+line\n".repeat(DiffBounds::PART.lines + 10));
        let page = shown(&long, 0);
        assert!(page.contains("12 more lines are not shown") && page.contains("href=\"/whole\""), "{page}");
        let page = shown("@@ @@\n+a\n", 9);
        assert!(page.contains("9 more bytes are not shown.") && page.contains("href=\"/whole\""), "{page}");
        assert!(!shown("@@ @@\n+a\n", 0).contains("/whole"));
    }
}
