//! `crealeph work key`: the public keys that an outsider needs to check this workspace's receipts.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_runtime::work::receipt::Signer;

use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::failure::Failure;
use crate::output::Output;
use crate::own;

const EXAMPLES: &str = "\
Examples:
  crealeph work key > saved.key
  crealeph work verify RECEIPT.json --key saved.key

Give the public keys to those who check receipts, over a channel that they trust. After --rotate they need the new one too;
older keys keep signing too until you remove their files.

Exit codes: 0 printed, 2 cannot be done.";

/// Print the public keys that verify receipts, or add a signing key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Key {
    /// Add a new signing key
    #[arg(long)]
    rotate: bool,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Key {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let keys = self.workspace.settle()?.keys;
        let folder = self.workspace.folder()?;
        own::claim(&folder)?;
        let control = control(&folder);
        let signer = match self.rotate {
            true => Signer::rotate(&control, &keys)?,
            false => Signer::open(&control, &keys)?,
        };
        signer.verifier_keys().iter().try_for_each(|key| output.document(&format!("{key}\n")))?;
        Ok(CommandOutcome::Good)
    }
}

/// Where a workspace keeps its own files.
pub(in crate::commands) fn control(workspace: &Path) -> PathBuf {
    workspace.join(own::CONTROL)
}
