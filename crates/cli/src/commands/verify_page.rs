//! `crealeph verify-page`: the second verifier, one HTML file for a browser.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::CommandOutcome;
use crate::failure::{Failure, OutputFailure};
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph verify-page > verify.html
  crealeph verify-page .

The page checks exports, proofs, receipts and approvals in any current browser, offline: it sends nothing and loads nothing. It is an implementation of
its own, so it is a second opinion in addition to `crealeph ledger verify`. Keep one copy, and give it to those who have no crealeph.";

/// Print the verifier for browsers, one HTML file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct VerifyPage {
    /// Write it to this folder, as verify.html
    dir: Option<PathBuf>,
}

impl VerifyPage {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let page = crealeph_verify::verifier_page();
        let Some(folder) = self.dir else {
            output.exactly(&page)?;
            return Ok(CommandOutcome::Good);
        };
        let path = folder.join("verify.html");
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, page));
        written.map_err(|source| OutputFailure::Unwritable { path: path.clone(), source })?;
        note!("wrote {}", path.display());
        Ok(CommandOutcome::Good)
    }
}
