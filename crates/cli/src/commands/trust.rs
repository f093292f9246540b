//! `crealeph trust`: see what a configuration would grant, and accept it; or accept a `.crealeph` that was there before.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_runtime::configuration::{Configuration, FILE};
use crealeph_runtime::trust::TrustStore;
use serde_json::json;

use super::Verdict;
use crate::failure::Failure;
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

A configuration that came with a clone is not used before you have seen what it grants: agents and their commands, scripts,
secrets, hosts and paths, and where the ledger and its keys are. What was accepted is kept in `$XDG_STATE_HOME/crealeph`
(`~/.local/state/crealeph`); you are asked again when a configuration grants more, or a script that it names has changed.
What `crealeph init` writes is trusted.

CREALEPH_TRUST=1 trusts every configuration without asking, for CI and scripts that run only what their owner wrote. It
never covers a `.crealeph` that you did not make.

Exit codes: 0 trusted, 1 declined, or --revoke found nothing, 2 cannot be done, or nobody can be asked.";

/// See what a configuration would grant, and trust it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Trust {
    /// A configuration, or the folder it is in
    #[arg(default_value = ".")]
    path: PathBuf,

    /// Trust it without being asked
    #[arg(long)]
    yes: bool,

    /// List what is trusted
    #[arg(long, conflicts_with_all = ["yes", "revoke", "state", "path"])]
    list: bool,

    /// Take it back
    #[arg(long, conflicts_with_all = ["yes"])]
    revoke: bool,

    /// Take the `.crealeph` of a folder as your own: one from an older version, or from a copy of yours
    #[arg(long)]
    state: bool,

    /// Print JSON, as a pipe gets it
    #[arg(long)]
    json: bool,
}

impl Trust {
    pub(super) fn wants_json(&self) -> bool {
        self.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let is_json = self.json || !output.is_for_person();
        match (self.list, self.state, self.revoke) {
            (true, ..) => list(is_json, output),
            (_, true, true) => {
                let folder = real(&self.path)?;
                Ok(revoked(own::registry()?.forget(&folder)?, &folder))
            }
            (_, true, false) => self.adopt(output),
            (_, false, true) => {
                // One that is gone can be taken back, too.
                let path = if self.path.is_dir() { self.path.join(FILE) } else { self.path };
                let path = std::path::absolute(path).map_err(Failure::Output)?;
                let folder = user_state::real(path.parent().unwrap_or(&path));
                let path = folder.join(path.file_name().unwrap_or_default());
                Ok(revoked(TrustStore::open(&user_state::needed()?)?.revoke(&path)?, &path))
            }
            (_, false, false) => self.accept(is_json, output),
        }
    }

    fn accept(&self, is_json: bool, output: &mut Output) -> Result<Verdict, Failure> {
        let inside = self.path.join(FILE);
        let path = if self.path.is_dir() { &inside } else { &self.path };
        let configuration = Configuration::find(Some(path))?;
        let Some(judged) = Judged::of(&configuration)? else {
            return Err(Failure::NotFound(path.clone()));
        };
        let shown = judged.path.display();
        if judged.widening.is_empty() {
            // What was narrowed meanwhile is not granted silently again.
            judged.accept()?;
            note!("`{shown}` is trusted; it grants nothing that you have not accepted");
            return Ok(Verdict::Good);
        }
        if is_json {
            let grants: Vec<_> = judged
                .widening
                .grants
                .iter()
                .map(|grant| json!({ "to": grant.to, "what": grant.what, "value": grant.shown() }))
                .collect();
            let lifted: Vec<String> = judged.widening.lifted.iter().map(ToString::to_string).collect();
            let line = json!({ "path": judged.path, "grants": grants, "lifted": lifted });
            output.json_line(&line.to_string())?;
        } else {
            output.page(&judged.page())?;
        }
        output.flush()?;
        if !confirmed(self.yes, || trusting::command(&judged.path))? {
            return Ok(Verdict::Bad);
        }
        judged.accept()?;
        note!("trusted `{shown}`");
        Ok(Verdict::Good)
    }

    /// Takes a `.crealeph` as the user's own.
    fn adopt(&self, output: &mut Output) -> Result<Verdict, Failure> {
        let workspace = real(&self.path)?;
        let registry = own::registry()?;
        let folder = workspace.join(own::CONTROL);
        let folder = folder.display();
        if matches!(registry.check(&workspace), Ok(true)) {
            note!("`{folder}` is yours already");
            return Ok(Verdict::Good);
        }
        let Some(contents) = registry.look(&workspace)? else {
            return Err(Failure::NotFound(workspace.join(own::CONTROL)));
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
                "  signing keys in `{}`: anyone who has them can sign as you; remove them unless you made them",
                keys
            ))?;
        }
        output.flush()?;
        if !confirmed(self.yes, || format!("crealeph trust --state {}", trusting::quoted(&workspace)))? {
            return Ok(Verdict::Bad);
        }
        registry.adopt(&workspace)?;
        note!("`{folder}` is yours from now on");
        Ok(Verdict::Good)
    }
}

/// What the user answers, or said beforehand.
fn confirmed(is_sure: bool, command: impl Fn() -> String) -> Result<bool, Failure> {
    if is_sure {
        return Ok(true);
    }
    match trusting::can_ask() {
        true => trusting::ask("Trust it?"),
        false => Err(Failure::NobodyToAsk(format!("{} --yes", command()))),
    }
}

fn list(is_json: bool, output: &mut Output) -> Result<Verdict, Failure> {
    let state = user_state::needed()?;
    for accepted in TrustStore::open(&state)?.all()? {
        let count = accepted.set.grants.len();
        match is_json {
            true => {
                output.json_line(&json!({ "configuration": accepted.path, "grants": count }).to_string())?
            }
            false => {
                let path = accepted.path.display();
                output.line(&format!("configuration  {path}  ({})", counted(count, "grant")))?;
            }
        }
    }
    for workspace in own::registry()?.known()? {
        match is_json {
            true => output.json_line(&json!({ "workspace": workspace }).to_string())?,
            false => output.line(&format!("workspace      {}", workspace.display()))?,
        }
    }
    Ok(Verdict::Good)
}

fn revoked(was_trusted: bool, path: &Path) -> Verdict {
    let path = path.display();
    match was_trusted {
        true => note!("`{path}` is not trusted any more"),
        false => note!("`{path}` was not trusted"),
    }
    if was_trusted { Verdict::Good } else { Verdict::Bad }
}

fn real(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(|_| Failure::NotFound(path.to_owned()))
}
