//! `crealeph completions`: completions for a shell.

use clap::Args;
use clap_complete::Shell;

use super::Verdict;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph completions bash > ~/.local/share/bash-completion/completions/crealeph
  crealeph completions zsh > ~/.zfunc/_crealeph
  crealeph completions fish > ~/.config/fish/completions/crealeph.fish";

/// Print shell completions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command_line(), "crealeph", &mut script);
        output.exactly(&String::from_utf8_lossy(&script))?;
        Ok(Verdict::Good)
    }
}
