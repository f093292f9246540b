//! `crealeph man`: the manual pages, and the reference in `docs/`.

mod codes;

pub(crate) use codes::known_code;

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::CommandOutcome;
use crate::failure::{Failure, OutputFailure};
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph man | man -l -
  crealeph man ~/.local/share/man/man1
  crealeph man --markdown docs/reference";

const REFERENCE_COLUMNS: usize = 100;

/// Print the manual page, or write one per command
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Man {
    /// Folder for the manual pages
    dir: Option<PathBuf>,

    /// Write the reference to this folder: `commands.md` and `codes.md`
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    markdown: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        if let Some(folder) = self.markdown {
            for (name, page) in [("commands.md", commands()), ("codes.md", codes::page(&program()))] {
                let path = folder.join(name);
                let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, page));
                written.map_err(|source| OutputFailure::Unwritable { path: path.clone(), source })?;
                note!("wrote {}", path.display());
            }
            return Ok(CommandOutcome::Good);
        }
        let Some(folder) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(super::command_line()).render(&mut page).map_err(OutputFailure::Stdout)?;
            output.exactly(&String::from_utf8_lossy(&page))?;
            return Ok(CommandOutcome::Good);
        };
        let failure = |source| OutputFailure::Unwritable { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failure)?;
        clap_mangen::generate_to(super::command_line(), &folder).map_err(failure)?;
        note!("wrote the manual pages into {}", folder.display());
        Ok(CommandOutcome::Good)
    }
}

fn program() -> clap::Command {
    let mut program = super::command_line().term_width(REFERENCE_COLUMNS);
    program.build();
    program
}

/// The help of every command on one page.
fn commands() -> String {
    let mut page = "# Commands\n\nThe help of every command, as `--help` prints it. Written by `cargo xtask generate`.\n".to_owned();
    describe(&mut program(), "crealeph", &mut page);
    page
}

fn describe(command: &mut clap::Command, name: &str, page: &mut String) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end()));
    for inner in command.get_subcommands_mut() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            let name = format!("{name} {}", inner.get_name());
            describe(inner, &name, page);
        }
    }
}
