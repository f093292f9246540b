//! What a command of a work run finds inside the sandbox: the view of the workspace at its own path, the grants of the
//! configuration, and nothing else. Owns building the sandbox request.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_sandbox::{GrantedPath, Grants, Network, ResourceLimits, SandboxError, Spec, find_toolchains};

use super::config::{Granted, WorkAgent};
use super::secrets::GrantedSecrets;
use crate::agents::process::{grant, grant_program, preset_grants};
use crate::configuration::absolute;

const GIT: &str = ".git";
/// Where a command has the prompt.
pub(super) const PROMPT: &str = "{prompt}";

/// The grants of a table of the configuration, with its secrets as they were read. What is in the workspace is in the view already.
pub(super) fn grants(
    granted: &Granted,
    secrets: &GrantedSecrets,
    workspace: &Path,
) -> Result<Grants, Arc<SandboxError>> {
    let mut grants = match granted.toolchains {
        true => toolchains(workspace, granted.hosts.is_empty()),
        false => Grants::default(),
    };
    grants.merge(preset_grants(&granted.presets)?);
    let outside = |paths: &[PathBuf]| {
        paths.iter().filter(|path| !path.starts_with(workspace)).cloned().collect::<Vec<_>>()
    };
    outside(&granted.read).iter().for_each(|path| grant(&mut grants, path));
    grants.copy_on_write.extend(outside(&granted.caches).into_iter().map(GrantedPath::same));
    grants.env.extend(granted.env.iter().map(|(name, value)| (name.into(), value.into())));
    secrets.add_to(&mut grants)?;
    git_directories(workspace).iter().for_each(|path| grant(&mut grants, path));
    Ok(grants)
}

/// What the toolchains need that the workspace asks for. One that is not installed is not there inside either: the command
/// says so itself if it needs it.
fn toolchains(workspace: &Path, is_offline: bool) -> Grants {
    let mut grants = Grants::default();
    for toolchain in find_toolchains(workspace) {
        let Ok(needed) = toolchain.grants else { continue };
        grants.merge(needed);
        if is_offline {
            grants.env.extend(variables(toolchain.preset.offline_variables()));
        }
    }
    grants
}

/// The request for an agent. Its program and scripts are readable as the configuration names them; a word that the prompt
/// is filled into is someone's text and grants nothing, whatever it says.
pub(super) fn agent_spec(
    agent: &WorkAgent,
    secrets: &GrantedSecrets,
    prompt: &str,
    workspace: &Path,
) -> Result<Spec<'static>, Arc<SandboxError>> {
    let mut grants = grants(&agent.granted, secrets, workspace)?;
    let mut command = Vec::with_capacity(agent.command.len());
    for (position, word) in agent.command.iter().enumerate() {
        command.push(match (word.contains(PROMPT), position) {
            (true, _) => word.replace(PROMPT, prompt),
            (false, 0) => program(agent, word, workspace, &mut grants)?,
            (false, _) => argument(agent, word, workspace, &mut grants),
        });
    }
    Ok(workspace_spec(command, &agent.granted, grants, workspace))
}

/// The request for a command in the workspace, with what it is granted.
pub(super) fn workspace_spec<'v>(
    command: impl IntoIterator<Item = impl Into<OsString>>,
    granted: &Granted,
    grants: Grants,
    workspace: &Path,
) -> Spec<'v> {
    let mut spec = Spec::new(command);
    spec.grants = grants;
    spec.network = match granted.hosts.is_empty() {
        true => Network::None,
        false => Network::Hosts(granted.hosts.clone()),
    };
    spec.private_hosts = granted.allows_private;
    spec.cwd = Some(workspace.to_owned());
    spec
}

/// The program, readable inside; one of the workspace is in the view already.
fn program(
    agent: &WorkAgent,
    word: &str,
    workspace: &Path,
    grants: &mut Grants,
) -> Result<String, SandboxError> {
    let path = absolute(&agent.folder, word);
    if path.starts_with(workspace) && word.contains('/') {
        return Ok(path.to_string_lossy().into_owned());
    }
    let mut program = word.to_owned();
    grant_program(&agent.folder, &mut program, grants)?;
    Ok(program)
}

/// A further word: a file that it names is readable inside.
fn argument(agent: &WorkAgent, word: &str, workspace: &Path, grants: &mut Grants) -> String {
    let path = absolute(&agent.folder, word);
    let is_script = !word.is_empty() && path.is_file();
    if is_script && !path.starts_with(workspace) {
        grant(grants, &path);
    }
    // The command starts in the workspace, whatever folder its words are relative to.
    match is_script && !Path::new(word).is_absolute() {
        true => path.to_string_lossy().into_owned(),
        false => word.to_owned(),
    }
}

pub(super) fn limits(agent: &WorkAgent, wall_ms: u64) -> ResourceLimits {
    let usual = ResourceLimits::default();
    ResourceLimits {
        wall_ms,
        cpu_ms: usual.cpu_ms.max(wall_ms.saturating_mul(8)),
        memory_bytes: agent.memory_bytes,
        processes: agent.processes,
        // One large file is ended by the bound on all that is written, not cut off unnoticed.
        file_bytes: usual.file_bytes.max(agent.disk_bytes),
        disk_bytes: agent.disk_bytes,
        stdout_bytes: agent.output_bytes,
        stderr_bytes: agent.output_bytes,
        ..usual
    }
}

/// The git directory that a `.git` file leads to, and the one it shares, if they are outside the workspace: worktrees
/// and submodules need them to be readable. They count only if they lead back here: a `.git` file is a text that anyone
/// can write, and could name another repository, or no repository at all.
fn git_directories(workspace: &Path) -> Vec<PathBuf> {
    let own = std::fs::read_to_string(workspace.join(GIT)).ok();
    let own = own.as_deref().and_then(|text| text.strip_prefix("gitdir:"));
    let Some(own) = own.map(|path| absolute(workspace, path.trim())) else { return Vec::new() };
    let Ok(own) = own.canonicalize() else { return Vec::new() };
    let common = std::fs::read_to_string(own.join("commondir")).ok();
    let common = common.and_then(|path| absolute(&own, path.trim()).canonicalize().ok());
    let is_ours = match &common {
        Some(common) => {
            own.parent() == Some(&common.join("worktrees")) && leads_back(&own, "gitdir", workspace)
        }
        None => leads_back(&own, "config", workspace),
    };
    if !is_ours {
        return Vec::new();
    }
    let mut found: Vec<PathBuf> = common.into_iter().chain([own]).filter(|path| path.is_dir()).collect();
    found.retain(|path| !path.starts_with(workspace));
    found
}

/// Whether a git directory names this working tree: a worktree's in its file `gitdir`, a submodule's in its configuration.
fn leads_back(own: &Path, file: &str, workspace: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(own.join(file)) else { return false };
    let named = match file {
        "config" => text.lines().find_map(|line| {
            line.trim_start().strip_prefix("worktree")?.trim_start().strip_prefix('=').map(str::trim)
        }),
        _ => text.trim().strip_suffix("/.git"),
    };
    let tree = named.and_then(|path| absolute(own, path.trim_matches('"')).canonicalize().ok());
    tree.is_some_and(|tree| tree == workspace)
}

/// The variables by which a command finds what it was given.
pub(super) fn variables(pairs: &[(&str, &str)]) -> BTreeMap<std::ffi::OsString, std::ffi::OsString> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}
