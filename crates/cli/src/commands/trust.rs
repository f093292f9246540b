//! `crealeph trust`: shows what a configuration would grant, and accepts it; or accepts an existing `.crealeph`.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_runtime::configuration::{Configuration, FILE};
use crealeph_runtime::trust::TrustStore;
use serde_json::json;

use super::CommandOutcome;
use crate::failure::{Failure, InputFailure, OutputFailure, TrustFailure};
use crate::output::{Output, note};
use crate::render::counted;
use crate::trusting::{self, Judged};
use crate::{own, user_state};

const EXAMPLES: &str = "\
Examples:
  crealeph trust
  crealeph trust ~/clone --yes
  crealeph trust --list
  crealeph trust --revoke ~/clone
  crealeph trust --state ~/project

A configuration that came with a clone is not used until you have accepted what it grants: agents and their commands, scripts,
secrets, hosts and paths, and where the ledger and its keys are. What you accepted is kept in `$XDG_STATE_HOME/crealeph`
(`~/.local/state/crealeph`); you are asked again if a configuration grants more, or a script that it names has changed.
Files that `crealeph init` writes are trusted.

CREALEPH_TRUST=1 trusts every configuration without asking, for CI and scripts that run only what their owner wrote. It
never covers a `.crealeph` that you did not create.

Exit codes: 0 trusted, 1 declined, or nothing to revoke, 2 cannot be done, or there is no terminal to ask on.";

/// Show what a configuration grants, and trust or revoke it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Trust {
    /// Configuration file, or its folder
    #[arg(default_value = ".")]
    path: PathBuf,

    /// Trust without asking
    #[arg(long)]
    yes: bool,

    /// List trusted configurations and workspaces
    #[arg(long, conflicts_with_all = ["yes", "revoke", "state", "path"])]
    list: bool,

    /// Revoke trust
    #[arg(long, conflicts_with_all = ["yes"])]
    revoke: bool,

    /// Trust the `.crealeph` of a folder as your own, from an older version or a copy
    #[arg(long)]
    state: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Trust {
    pub(super) fn wants_json(&self) -> bool {
        self.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let is_json = self.json || !output.is_for_person();
        match (self.list, self.state, self.revoke) {
            (true, ..) => list(is_json, output),
            (_, true, true) => {
                let folder = real(&self.path)?;
                Ok(revoked(own::registry()?.forget(&folder)?, &folder))
            }
            (_, true, false) => self.adopt(output),
            (_, false, true) => {
                // One that is gone can be revoked, too.
                let path = if self.path.is_dir() { self.path.join(FILE) } else { self.path };
                let path = std::path::absolute(path).map_err(OutputFailure::Stdout)?;
                let folder = user_state::real(path.parent().unwrap_or(&path));
                let path = folder.join(path.file_name().unwrap_or_default());
                Ok(revoked(TrustStore::open(&user_state::needed()?)?.revoke(&path)?, &path))
            }
            (_, false, false) => self.accept(is_json, output),
        }
    }

    fn accept(&self, is_json: bool, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let inside = self.path.join(FILE);
        let path = if self.path.is_dir() { &inside } else { &self.path };
        let configuration = Configuration::find(Some(path))?;
        let Some(judged) = Judged::of(&configuration)? else {
            return Err(InputFailure::NotFound(path.clone()).into());
        };
        let shown = judged.path.display();
        if judged.widening.is_empty() {
            // What was narrowed meanwhile is not granted silently again.
            judged.accept()?;
            note!("`{shown}` is trusted; it grants nothing that you have not accepted");
            return Ok(CommandOutcome::Good);
        }
        if is_json {
            let grants: Vec<_> = judged
                .widening
                .grants
                .iter()
                .map(|grant| json!({ "to": grant.to, "what": grant.what, "value": grant.shown() }))
                .collect();
            let lifted: Vec<String> = judged.widening.lifted.iter().map(ToString::to_string).collect();
            let line = json!({ "path": shown.to_string(), "grants": grants, "lifted": lifted });
            output.report_line(&line)?;
        } else {
            output.page(&judged.page())?;
        }
        output.flush()?;
        if !confirmed(self.yes, || trusting::command(&judged.path))? {
            return Ok(CommandOutcome::Bad);
        }
        judged.accept()?;
        note!("trusted `{shown}`");
        Ok(CommandOutcome::Good)
    }

    /// Takes a `.crealeph` as the user's own.
    fn adopt(&self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let workspace = real(&self.path)?;
        let registry = own::registry()?;
        let folder = workspace.join(own::CONTROL);
        let folder = folder.display();
        if matches!(registry.check(&workspace), Ok(true)) {
            note!("`{folder}` is already trusted as yours");
            return Ok(CommandOutcome::Good);
        }
        let Some(contents) = registry.look(&workspace)? else {
            return Err(InputFailure::NotFound(workspace.join(own::CONTROL)).into());
        };
        let files = usize::try_from(contents.files).unwrap_or(usize::MAX);
        let runs = usize::try_from(contents.runs).unwrap_or(usize::MAX);
        output.line(&format!(
            "`{folder}` holds {}, {} bytes: {}{}",
            counted(files, "file"),
            contents.bytes,
            counted(runs, "run"),
            if contents.has_ledger { ", a ledger" } else { "" }
        ))?;
        for keys in &contents.keys {
            output.line(&format!(
                "  signing keys in `{}`: anyone who has them can sign as you; remove them unless you created them",
                keys
            ))?;
        }
        output.flush()?;
        if !confirmed(self.yes, || format!("crealeph trust --state {}", trusting::quoted(&workspace)))? {
            return Ok(CommandOutcome::Bad);
        }
        registry.adopt(&workspace)?;
        note!("`{folder}` is now trusted as yours");
        Ok(CommandOutcome::Good)
    }
}

/// The user's answer, or --yes.
fn confirmed(is_sure: bool, command: impl Fn() -> String) -> Result<bool, Failure> {
    if is_sure {
        return Ok(true);
    }
    match trusting::can_ask() {
        true => Ok(trusting::ask("Trust it?")?),
        false => Err(TrustFailure::NobodyToAsk(format!("{} --yes", command())).into()),
    }
}

fn list(is_json: bool, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let state = user_state::needed()?;
    for accepted in TrustStore::open(&state)?.all()? {
        let (path, count) = (accepted.path.display().to_string(), accepted.set.grants.len());
        match is_json {
            true => output.report_line(&json!({ "configuration": path, "grants": count }))?,
            false => output.line(&format!("configuration  {path}  ({})", counted(count, "grant")))?,
        }
    }
    for workspace in own::registry()?.known()? {
        let workspace = workspace.display().to_string();
        match is_json {
            true => output.report_line(&json!({ "workspace": workspace }))?,
            false => output.line(&format!("workspace      {workspace}"))?,
        }
    }
    Ok(CommandOutcome::Good)
}

fn revoked(was_trusted: bool, path: &Path) -> CommandOutcome {
    let path = path.display();
    match was_trusted {
        true => note!("revoked trust in `{path}`"),
        false => note!("`{path}` was not trusted"),
    }
    if was_trusted { CommandOutcome::Good } else { CommandOutcome::Bad }
}

fn real(path: &Path) -> Result<PathBuf, InputFailure> {
    path.canonicalize().map_err(|_| InputFailure::NotFound(path.to_owned()))
}
