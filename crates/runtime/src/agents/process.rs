//! Agents that are programs: the input as JSON on standard input, one output document on standard output, nothing
//! else. Each call is a fresh process in the sandbox, at full strength unless the configuration openly accepts less;
//! it sees its program, the scripts its command names, and what it was granted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_contracts::agent_output::AgentAnswer;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::text::with_causes;
use crealeph_contracts::{AgentInput, Valid};
use crealeph_sandbox::{
    Cancel, Exposure, GrantedPath, Grants, Level, Network, Preset, Redactor, ResourceLimits, RunFailure,
    Sandbox, SandboxError, SandboxOutcome, Secret, Spec, Stdin, Strength,
};

use super::answer::{bounded, end, holds_secret, judge, tokens_used};
use super::config::ProcessSettings;
use super::{Agent, Call, NoAnswer};
use crate::configuration::absolute;

/// How much of standard error a reason quotes, in bytes.
const QUOTED_BYTES: usize = 800;
/// Where the sandbox shows the system as it is.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store"];
/// Programs that need more than their own file, and the preset that knows what.
const INTERPRETERS: &[(&str, Preset)] =
    &[("python3", Preset::Python), ("python", Preset::Python), ("node", Preset::Node), ("npx", Preset::Node)];

/// A program, ready to be called.
#[derive(Debug)]
pub struct Process {
    name: String,
    settings: ProcessSettings,
    sandbox: Arc<Sandbox>,
}

impl Agent for Process {
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call {
        let ran = self.spec(input).and_then(|spec| {
            let secrets = spec.grants.secret_values();
            let redactor = Redactor::new(secrets.iter().map(Vec::as_slice))?;
            Ok((self.sandbox.run(&spec, cancel)?, redactor))
        });
        match ran {
            Ok((outcome, secrets)) => {
                let answer = self.answer(&outcome, input, &secrets);
                Call {
                    tokens_used: answer.as_ref().ok().and_then(|output| tokens_used(output)),
                    answer,
                    identity: self.identity(Some(&outcome.strength)),
                    diagnostics: outcome.stderr.text().into_owned(),
                }
            }
            Err(error) => Call {
                answer: Err(NoAnswer::uncalled(bounded(format!(
                    "the agent could not be run: {}",
                    with_causes(&error)
                )))),
                identity: self.identity(None),
                diagnostics: String::new(),
                tokens_used: None,
            },
        }
    }
}

impl Process {
    pub(super) fn new(name: &str, settings: ProcessSettings, sandbox: Arc<Sandbox>) -> Self {
        Process { name: name.to_owned(), settings, sandbox }
    }

    fn spec(&self, input: &Valid<AgentInput>) -> Result<Spec<'static>, SandboxError> {
        let settings = &self.settings;
        let mut grants = preset_grants(&settings.presets)?;
        let mut command = settings.command.clone();
        if let Some(program) = command.first_mut() {
            grant_program(&settings.folder, program, &mut grants)?;
        }
        for word in settings.command.iter().skip(1) {
            let path = absolute(&settings.folder, word);
            if path.is_file() {
                grant(&mut grants, &path);
            }
        }
        settings.read.iter().for_each(|path| grant(&mut grants, path));
        grants.env.extend(settings.env.iter().map(|(name, value)| (name.into(), value.into())));
        for secret in secrets(&settings.secrets, &settings.secret_files) {
            grants.secrets.push(secret?);
        }
        // The folder is there inside when something in it is; relative words of the command then lead to it.
        let has_folder = grants.read.iter().any(|place| place.at.starts_with(&settings.folder));
        let mut spec = Spec::new(command);
        spec.cwd = has_folder.then(|| settings.folder.clone());
        spec.grants = grants;
        spec.limits = self.limits();
        spec.stdin = Stdin::Bytes(input.to_json().into_bytes());
        if !settings.hosts.is_empty() {
            spec.network = Network::Hosts(settings.hosts.clone());
        }
        Ok(spec)
    }

    fn limits(&self) -> ResourceLimits {
        let bounds = &self.settings.bounds;
        let usual = ResourceLimits::default();
        ResourceLimits {
            wall_ms: bounds.timeout_ms,
            cpu_ms: usual.cpu_ms.max(bounds.timeout_ms.saturating_mul(2)),
            memory_bytes: self.settings.memory_bytes,
            processes: self.settings.processes,
            stdout_bytes: bounds.max_output_bytes,
            stderr_bytes: bounds.max_diagnostics_bytes,
            ..usual
        }
    }

    fn answer(
        &self,
        outcome: &SandboxOutcome,
        input: &Valid<AgentInput>,
        secrets: &Redactor,
    ) -> Result<AgentAnswer, NoAnswer> {
        self.ended_well(outcome)?;
        if outcome.stdout.redactions > 0 {
            return Err(holds_secret());
        }
        let max_bytes = usize::try_from(self.settings.bounds.max_output_bytes).unwrap_or(usize::MAX);
        judge(&outcome.stdout.bytes, max_bytes, input, secrets)
    }

    /// Whether it came to its end by itself and within its bounds; else how it did not.
    fn ended_well(&self, outcome: &SandboxOutcome) -> Result<(), String> {
        let bounds = &self.settings.bounds;
        let stderr = outcome.stderr.text();
        let quoted = match stderr.trim() {
            "" => "; it wrote nothing to standard error".to_owned(),
            said => format!("; standard error ends with: {}", end(said, QUOTED_BYTES)),
        };
        let failure = outcome.failure();
        if failure == Some(RunFailure::Cancelled) {
            return Err("the agent was ended because the request was cancelled".to_owned());
        }
        if outcome.stdout.truncated() {
            return Err(format!(
                "the answer is {} bytes or more, {} are allowed; shorten it or raise `max_output_bytes`",
                outcome.stdout.total_bytes, bounds.max_output_bytes
            ));
        }
        match failure {
            None => Ok(()),
            Some(RunFailure::OutOfTime) => Err(bounded(format!(
                "the agent did not answer within {} ms and was ended{quoted}",
                bounds.timeout_ms
            ))),
            Some(failure) => Err(bounded(format!("the agent {failure}{quoted}"))),
        }
    }

    fn identity(&self, strength: Option<&Strength>) -> JsonObject {
        JsonObject::build(|object| {
            object.text("name", &self.name).text("kind", "process");
            object.texts("command", &self.settings.command);
            object.text(
                "sandbox",
                match strength.map(|strength| strength.level) {
                    Some(Level::Full) => "full",
                    Some(Level::Reduced) => "reduced",
                    None => "not run",
                },
            );
            if let Some(strength) = strength.filter(|strength| strength.level == Level::Reduced) {
                object.texts("missing", strength.missing.iter().map(|missing| &missing.what));
            }
            object.texts("hosts", self.settings.hosts.iter().map(ToString::to_string));
        })
    }
}

/// What presets grant together.
pub(crate) fn preset_grants(presets: &[Preset]) -> Result<Grants, SandboxError> {
    let mut grants = Grants::default();
    for preset in presets {
        grants.merge(preset.grants()?);
    }
    Ok(grants)
}

/// The secrets that a configuration names, as they are now.
pub(crate) fn secrets<'c>(
    variables: &'c [String],
    files: &'c BTreeMap<String, PathBuf>,
) -> impl Iterator<Item = Result<Secret, SandboxError>> + 'c {
    let variables = variables.iter().map(|name| Secret::from_env(name, Exposure::Variable));
    variables.chain(files.iter().map(|(name, path)| Secret::from_file(name, path, Exposure::File)))
}

/// Makes the program that a command names readable in the sandbox; a path is made absolute from
/// `folder`.
pub(crate) fn grant_program(
    folder: &Path,
    program: &mut String,
    grants: &mut Grants,
) -> Result<(), SandboxError> {
    if program.contains('/') {
        let path = absolute(folder, program);
        grant(grants, &path);
        *program = path.to_string_lossy().into_owned();
        return Ok(());
    }
    if let Some((_, preset)) = INTERPRETERS.iter().find(|(name, _)| name == program) {
        grants.merge(preset.grants()?);
        return Ok(());
    }
    if let Some(path) = on_path(program)
        && !is_system(&path)
    {
        grant(grants, &path);
        grants.path.extend(path.parent().map(Path::to_owned));
    }
    Ok(())
}

/// Grants a path, once, unless the system's own folders have it.
pub(crate) fn grant(grants: &mut Grants, path: &Path) {
    let place = GrantedPath::same(path);
    let is_there = grants.read.iter().any(|granted| place.at.starts_with(&granted.at));
    if !is_there && !is_system(path) {
        grants.read.push(place);
    }
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// Where a program on the `PATH` is.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    folders.into_iter().map(|folder| folder.join(OsStr::new(program))).find(|file| file.is_file())
}
