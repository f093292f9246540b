//! A document as one HTML file: nothing is fetched from elsewhere, no script is needed or would run, and it is readable in light and
//! dark. Texts are escaped by their type: only markup of this file is markup.

use crealeph_contracts::text::Shown;
use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::{Block, Document, Inline, QuoteKind, Tone};
use crate::page::MAX_LINE_CHARS;

/// Nothing may be loaded or run, whatever the text holds.
pub(crate) const CONTENT_SECURITY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = "\
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #ffffff; --soft: #f4f5f7; --line: #d5d9df; --good: #1a7f37; --bad: #c4232f; --open: #8a5a00; --add: #e3f6e6; --del: #fde7e9; }
@media (prefers-color-scheme: dark) { :root { --fg: #e4e7ec; --bg: #14171b; --soft: #1e2329; --line: #3a414b; --good: #57c470; --bad: #ff7b84; --open: #e0a84a; --add: #12301b; --del: #3b1519; } }
body { color: var(--fg); background: var(--bg); font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; }
h3 { margin-top: 2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dt { font-weight: 600; }
dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; }
code, pre { font: .85rem/1.45 ui-monospace, monospace; }
pre { background: var(--soft); border: 1px solid var(--line); padding: .75rem; overflow-x: auto; white-space: pre; overflow-wrap: normal; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; } .open { color: var(--open); font-weight: 600; }
.add, .del { display: inline-block; min-width: 100%; } .add { background: var(--add); } .del { background: var(--del); }
summary { cursor: pointer; }
@media print { details > * { display: block; } pre { white-space: pre-wrap; } }
";

/// Writes a document.
pub(crate) fn html(document: &Document) -> String {
    let title = shown(&document.title);
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_SECURITY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    @for block in &document.blocks { (self::block(block)) }
                }
            }
        }
    };
    page.into_string() + "\n"
}

fn block(block: &Block) -> Markup {
    markup! {
        @match block {
            Block::Heading { level: 2, text } => h2 { (line(text)) },
            Block::Heading { text, .. } => h3 { (line(text)) },
            Block::Paragraph(text) => p { (line(text)) },
            Block::Facts(facts) => dl {
                @for (name, value) in facts { dt { (name) } dd { (line(value)) } }
            },
            Block::Table { head, rows } => div .scroll {
                table {
                    thead { tr { @for name in head { th scope="col" { (name) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (line(cell)) } } } } }
                }
            },
            Block::Quote { title, text, kind: QuoteKind::Text } => {
                p { (shown(title)) ":" }
                pre { (Shown::block(text).to_string()) }
            },
            Block::Quote { title, text, kind } => details {
                summary { (shown(title)) }
                pre { @if *kind == QuoteKind::Diff { (diff(text)) } @else { (Shown::block(text).to_string()) } }
            },
        }
    }
}

/// The lines of a diff, each in the colour of what it does.
fn diff(text: &str) -> Markup {
    let mut is_in_hunk = false;
    let mut kind = |line: &str| {
        is_in_hunk = (is_in_hunk || line.starts_with("@@")) && !line.starts_with("diff --git ");
        match line.as_bytes().first() {
            Some(b'+') if is_in_hunk => Some("add"),
            Some(b'-') if is_in_hunk => Some("del"),
            _ => None,
        }
    };
    markup! {
        @for line in text.split_terminator('\n') {
            @let shown = Shown::block(line).to_string();
            @match kind(line) {
                Some(kind) => span class=(kind) { (shown) },
                None => (shown),
            }
            "\n"
        }
    }
}

fn line(parts: &[Inline]) -> Markup {
    markup! {
        @for part in parts {
            @match part {
                Inline::Text(text) => (shown(text)),
                Inline::Code(text) => code { (shown(text)) },
                Inline::Word(word, tone) => span class=(class(*tone)) { (shown(word)) },
            }
        }
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Open => "open",
    }
}

/// A foreign text on one line.
fn shown(text: &str) -> String {
    Shown::line(text).at_most(MAX_LINE_CHARS).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{code, text};
    use super::*;

    #[test]
    fn no_text_is_markup_and_nothing_is_fetched() {
        let foreign = "</pre><script src=//x>alert(1)</script>\" onload='x' \u{202e}\u{1b}[2J &amp;";
        let page = html(&Document {
            title: foreign.to_owned(),
            blocks: vec![
                Block::Heading { level: 3, text: vec![text(foreign)] },
                Block::Facts(vec![(
                    "Name",
                    vec![code(foreign), Inline::Word(foreign.to_owned(), Tone::Bad)],
                )]),
                Block::Table { head: vec!["A"], rows: vec![vec![vec![text(foreign)]]] },
                Block::Quote {
                    title: foreign.to_owned(),
                    text: format!("@@ -1 +1 @@\n-old\n+old\r\n+{foreign}\n"),
                    kind: QuoteKind::Diff,
                },
                Block::Quote { title: "t".to_owned(), text: foreign.to_owned(), kind: QuoteKind::Text },
            ],
        });
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains(['\u{202e}', '\u{1b}']), "{page}");
        assert_eq!(page.matches("</pre>").count(), 2);
        assert!(page.contains("<span class=\"del\">-old</span>\n"), "{page}");
        assert!(page.contains("<span class=\"add\">+old\\r</span>\n"), "{page}");
        assert!(page.contains("<span class=\"add\">+&lt;/pre&gt;&lt;script"), "{page}");
        assert!(page.contains("&amp;amp;"), "{page}");
        for word in ["href", "src=", "url(", "@import", "<link"] {
            assert!(!page.replace("script src=//x", "").contains(word), "{word}");
        }
    }
}
