//! Lists that go page by page: of keys, signers, webhooks.

use clap::Args;
use crealeph_ledger::Cursor;
use serde::Serialize;

use super::place::Place;
use crate::failure::Failure;
use crate::output::{Output, note};

/// Which page of a list.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Maximum number of results
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Continue after this cursor, from the previous page
    #[arg(long)]
    cursor: Option<String>,
}

impl ListArgs {
    /// Where the page starts.
    pub(super) fn start(&self) -> Result<Option<Cursor>, Failure> {
        Ok(self.cursor.as_deref().map(Cursor::parse).transpose()?)
    }
}

/// Prints a page, and how to get the next one; of a list that is empty, what to do.
pub(super) fn print_page<T: Serialize>(
    (items, next): (Vec<T>, Option<Cursor>),
    in_words: fn(&T) -> String,
    none: &str,
    at: &Place,
    output: &mut Output,
) -> Result<(), Failure> {
    let is_json = at.is_json(output);
    for item in &items {
        match is_json {
            true => output.report_line(item)?,
            false => output.line(&in_words(item))?,
        }
    }
    if items.is_empty() && next.is_none() && !is_json {
        output.line(none)?;
    }
    output.flush()?;
    if let Some(next) = next {
        note!("there is more: add --cursor {next}");
    }
    Ok(())
}
