//! `crealeph man`: the manual pages.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::Verdict;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph man | man -l -
  crealeph man ~/.local/share/man/man1";

/// Print the manual page, or write one for every command
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Man {
    /// The folder to write them into
    dir: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let Some(folder) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(super::command_line()).render(&mut page).map_err(Failure::Output)?;
            output.text(&String::from_utf8_lossy(&page))?;
            return Ok(Verdict::Good);
        };
        let failure = |source| Failure::Unwritable { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failure)?;
        clap_mangen::generate_to(super::command_line(), &folder).map_err(failure)?;
        eprintln!("wrote the manual pages into {}", folder.display());
        Ok(Verdict::Good)
    }
}
