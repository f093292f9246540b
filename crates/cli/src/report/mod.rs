//! A report as a document: headings, facts, tables, texts. Its contents are built once; Markdown and HTML write the same
//! document. A text in it is untrusted unless it is a label, and each writer escapes all texts, so nothing that an agent wrote can
//! become markup, move what is around it or stay invisible.

mod html;
mod markdown;

pub(crate) use html::{CONTENT_SECURITY, html};
pub(crate) use markdown::markdown;

/// A document, from top to bottom.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Debug)]
pub(crate) enum Block {
    /// A heading of level 2 or 3.
    Heading {
        level: u8,
        text: Vec<Inline>,
    },
    Paragraph(Vec<Inline>),
    /// Names and values.
    Facts(Vec<(&'static str, Vec<Inline>)>),
    Table {
        head: Vec<&'static str>,
        rows: Vec<Vec<Vec<Inline>>>,
    },
    /// A text with its own line breaks, under a line that says what it is.
    Quote {
        title: String,
        text: String,
        kind: QuoteKind,
    },
}

/// What a quoted text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuoteKind {
    /// Shown at once.
    Text,
    /// Shown when asked for, as it can be long.
    Long,
    /// The same for a diff, its lines in their colours.
    Diff,
}

/// A part of a line.
#[derive(Clone, Debug)]
pub(crate) enum Inline {
    Text(String),
    /// An id, a path, a command.
    Code(String),
    /// A word that stands out.
    Word(String, Tone),
}

/// How good a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Open,
}

/// Words of our own, or a foreign text.
pub(crate) fn text(text: impl Into<String>) -> Inline {
    Inline::Text(text.into())
}

/// An id, a path, a command.
pub(crate) fn code(text: impl Into<String>) -> Inline {
    Inline::Code(text.into())
}

/// One piece as a whole line.
pub(crate) fn only(inline: Inline) -> Vec<Inline> {
    vec![inline]
}

/// Pieces with commas between them.
pub(crate) fn listed(pieces: impl IntoIterator<Item = Inline>) -> Vec<Inline> {
    let mut line = Vec::new();
    for piece in pieces {
        if !line.is_empty() {
            line.push(text(", "));
        }
        line.push(piece);
    }
    line
}
