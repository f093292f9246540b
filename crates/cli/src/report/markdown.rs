//! A document as Markdown (CommonMark with GitHub's tables), wrapped for a terminal of 80 columns; lines of a table are not.
//!
//! Every character that could be markup is escaped, also where a line is broken before it, and a fence is longer than any in the
//! text it holds.

use crealeph_contracts::text::Shown;

use super::{Block, Document, Inline};
use crate::page::MAX_LINE_CHARS;
use crate::render::{COLUMNS, filled};

/// Stands for a space at which no line may be broken, until the lines are.
const UNBROKEN: char = '\u{0}';

/// Writes a document.
pub(crate) fn markdown(document: &Document) -> String {
    let mut out = format!("# {}\n", escaped(&document.title));
    for block in &document.blocks {
        out.push('\n');
        match block {
            Block::Heading { level, text } => {
                let marks = "#".repeat(usize::from(*level));
                out.push_str(&format!("{marks} {}\n", line(text).replace(UNBROKEN, " ")));
            }
            Block::Paragraph(text) => push_filled(&mut out, "", "", &line(text)),
            Block::Facts(facts) => {
                for (name, value) in facts {
                    push_filled(&mut out, "- ", "  ", &format!("**{name}:** {}", line(value)));
                }
            }
            Block::Table { head, rows } => {
                out.push_str(&format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len())));
                for row in rows {
                    let cells: Vec<String> = row.iter().map(|cell| table_cell(cell)).collect();
                    out.push_str(&format!("| {} |\n", cells.join(" | ")));
                }
            }
            Block::Quote { title, text, .. } => {
                push_filled(&mut out, "", "", &format!("{}:", escaped(title)));
                push_fenced(&mut out, text);
            }
        }
    }
    out
}

fn push_filled(out: &mut String, first: &str, hanging: &str, text: &str) {
    out.push_str(&filled(first, hanging, text, COLUMNS).replace(UNBROKEN, " "));
    out.push('\n');
}

/// A text between fences.
fn push_fenced(out: &mut String, text: &str) {
    let text = Shown::block(text).to_string();
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    out.push_str(&format!("\n{fence}\n{text}{end}{fence}\n"));
}

fn line(parts: &[Inline]) -> String {
    parts.iter().map(part).collect()
}

/// A line in a table, where a bar would end the cell.
fn table_cell(parts: &[Inline]) -> String {
    let cell = |part: &Inline| match part {
        Inline::Code(text) => code_span(text).replace('|', "\\|"),
        other => self::part(other),
    };
    parts.iter().map(cell).collect::<String>().replace(UNBROKEN, " ")
}

fn part(part: &Inline) -> String {
    match part {
        Inline::Text(text) => escaped(text),
        Inline::Code(text) => code_span(text),
        Inline::Word(word, _) => format!("**{}**", escaped(word)),
    }
}

/// A text between more backticks than it has in a row.
fn code_span(text: &str) -> String {
    let text = Shown::line(text).at_most(MAX_LINE_CHARS).to_string();
    if text.trim().is_empty() {
        return "-".to_owned();
    }
    let fence = "`".repeat(longest_run(&text) + 1);
    // One space at each end is taken away again.
    let pad = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}").replace(' ', &UNBROKEN.to_string())
}

/// The longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

/// A text of which nothing is markup, wherever its line is broken.
fn escaped(text: &str) -> String {
    let shown = Shown::line(text).at_most(MAX_LINE_CHARS).to_string();
    let mut out = String::with_capacity(shown.len() + 8);
    for (position, word) in shown.split(' ').enumerate() {
        if position > 0 {
            out.push(' ');
        }
        let digits = word.len() - word.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        for (at, character) in word.char_indices() {
            let is_markup = "\\`*_{}[]<>|~&$!".contains(character);
            let starts_block = at == 0 && "#+-=".contains(character);
            let starts_list = digits > 0 && at == digits && ".)".contains(character);
            if is_markup || starts_block || starts_list {
                out.push('\\');
            }
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{QuoteKind, Tone, code, text};
    use super::*;

    fn document(blocks: Vec<Block>) -> String {
        markdown(&Document { title: "T".to_owned(), blocks })
    }

    #[test]
    fn no_text_is_markup() {
        let foreign = "# a *b* `c` [d](e) <img> | - 1. + x_y \u{202e}\u{1b}[2J\n# end";
        let shown = document(vec![Block::Paragraph(vec![text(foreign)])]);
        assert_eq!(
            shown,
            "# T\n\n\\# a \\*b\\* \\`c\\` \\[d\\](e) \\<img\\> \\| \\- 1\\. \\+ x\\_y \\\\u\\{202e\\}\\\\x1b\\[2J\\\\n# end\n"
        );
    }

    #[test]
    fn a_line_is_never_broken_inside_code_nor_before_markup() {
        let shown = document(vec![Block::Facts(vec![(
            "Path",
            vec![text("x ".repeat(40)), code("a - b"), text(" - 1) c")],
        )])]);
        assert!(shown.contains("`a - b` \\- 1\\) c"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
    }

    #[test]
    fn backticks_stay_inside_their_fence() {
        let quote = Block::Quote {
            title: "Diff".to_owned(),
            text: "+````\n+</pre>\n".to_owned(),
            kind: QuoteKind::Diff,
        };
        assert_eq!(document(vec![quote]), "# T\n\nDiff:\n\n`````\n+````\n+</pre>\n`````\n");
        let row = vec![vec![code("`a|b`")], vec![Inline::Word("ok|".to_owned(), Tone::Good)]];
        let table = Block::Table { head: vec!["A", "B"], rows: vec![row] };
        assert_eq!(document(vec![table]), "# T\n\n| A | B |\n| --- | --- |\n| `` `a\\|b` `` | **ok\\|** |\n");
    }
}
