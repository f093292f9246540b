//! `crealeph completions`: what a shell loads so that it completes the command line.

use clap::Args;
use clap_complete::Shell;

use super::CommandOutcome;
use super::complete::{VARIABLE, shell};
use crate::failure::{ArgumentFailure, Failure, OutputFailure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph completions bash > ~/.local/share/bash-completion/completions/crealeph
  crealeph completions zsh > ~/.zfunc/_crealeph
  crealeph completions fish > ~/.config/fish/completions/crealeph.fish

Completes commands, flags and their values, and the names of runs, agents, robots, executions and people. The shell asks
`crealeph` for them each time; it reads the workspace and its ledger, and changes nothing. After an upgrade, write the file again.";

/// Print shell completions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let name = self.shell.to_string();
        let unknown = || ArgumentFailure::option(&name, "a supported shell");
        let mut script = Vec::new();
        let written = shell(&name).ok_or_else(unknown)?.write_registration(
            VARIABLE,
            "crealeph",
            "crealeph",
            "crealeph",
            &mut script,
        );
        written.map_err(OutputFailure::Stdout)?;
        output.exactly(&String::from_utf8_lossy(&script))?;
        Ok(CommandOutcome::Good)
    }
}
