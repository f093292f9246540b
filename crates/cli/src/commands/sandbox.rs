//! `crealeph sandbox`: runs a command in a sandbox, or explains what it would be granted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use crealeph_sandbox::{
    Cancel, Config, ConnectionVerdict as Reached, Exposure, GrantedPath, Grants, HOME, Host, Mount, Network,
    Preset, ResourceLimits, SECRETS, Sandbox, SandboxError, SandboxOutcome, Secret, Seed, Spec, Stdin,
    Stream, View, ViewChange, ViewChangeKind,
};
use serde::Serialize;
use serde_json::json;

use super::CommandOutcome;
use crate::failure::{ArgumentFailure, Failure, OutputFailure};
use crate::output::{Output, Passage, note_page};
use crate::page::Page;
use crate::render::counted;
use crate::user_state;

const EXAMPLES: &str = "\
Examples:
  crealeph sandbox run -- python3 -c 'print(1)'
  crealeph sandbox run --view . --preset rust -- cargo test --offline
  crealeph sandbox run --view . --host api.example.com:443 --secret API_KEY -- ./agent
  crealeph sandbox explain --view . --preset node -- npm test

A PATH can appear elsewhere inside: `--read data=/input`. What is not granted is not visible.

Exit codes: 0 the command exited with 0, 1 it failed or was stopped, 2 it could not be run.";

/// Run a command in a sandbox, or explain its grants
#[derive(Debug, Args)]
pub(super) struct SandboxCommand {
    #[command(subcommand)]
    task: SandboxTask,
}

#[derive(Debug, Subcommand)]
enum SandboxTask {
    Run(RunCommand),
    Explain(ExplainCommand),
}

/// Run a command in a sandbox
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct RunCommand {
    #[command(flatten)]
    options: Options,
}

/// Print what a command would be granted, without running it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ExplainCommand {
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Args)]
struct Options {
    /// Grant read access to this file or directory
    #[arg(long, value_name = "PATH[=INSIDE]")]
    read: Vec<OsString>,
    /// Grant a copy-on-write view of this directory; changes are listed, the directory is not modified
    #[arg(long, value_name = "DIRECTORY[=INSIDE]")]
    view: Vec<OsString>,
    /// The same, but the changes are discarded
    #[arg(long, value_name = "DIRECTORY[=INSIDE]")]
    copy_on_write: Vec<OsString>,
    /// Hide this file or directory from its view
    #[arg(long, value_name = "PATH")]
    hide: Vec<PathBuf>,
    /// Copy this file into its HOME or /tmp
    #[arg(long, value_name = "FILE=INSIDE")]
    seed: Vec<OsString>,
    /// Grant what a tool needs: python, node, go, rust, git
    #[arg(long, value_name = "NAME")]
    preset: Vec<String>,
    /// Set a variable, or pass one on from the environment
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Pass on a secret from the environment; it is redacted in the output
    #[arg(long, value_name = "NAME")]
    secret: Vec<String>,
    /// Provide a secret from a file, in /run/secrets
    #[arg(long, value_name = "NAME=PATH")]
    secret_file: Vec<String>,
    /// Allow connections to this host and port, through a proxy
    #[arg(long, value_name = "HOST:PORT")]
    host: Vec<Host>,
    /// Grant the host's network
    #[arg(long, conflicts_with = "host")]
    host_network: bool,
    /// Allow nested namespaces
    #[arg(long)]
    nested_namespaces: bool,
    /// Allow ptrace of its own processes, for debuggers
    #[arg(long)]
    ptrace: bool,
    /// Working directory inside [default: the first view]
    #[arg(long, value_name = "INSIDE")]
    cwd: Option<PathBuf>,
    /// Limit on wall-clock time
    #[arg(long, value_name = "N")]
    wall_ms: Option<u64>,
    /// Limit on CPU time
    #[arg(long, value_name = "N")]
    cpu_ms: Option<u64>,
    /// Limit on memory
    #[arg(long, value_name = "N")]
    memory_bytes: Option<u64>,
    /// Limit on processes and threads
    #[arg(long, value_name = "N")]
    processes: Option<u32>,
    /// Limit on the size of one file
    #[arg(long, value_name = "N")]
    file_bytes: Option<u64>,
    /// Limit on open files
    #[arg(long, value_name = "N")]
    open_files: Option<u32>,
    /// Limit on stdout and on stderr
    #[arg(long, value_name = "N")]
    output_bytes: Option<u64>,
    /// Limit on /tmp, /dev/shm and HOME
    #[arg(long, value_name = "N")]
    scratch_bytes: Option<u64>,
    /// Limit on data written to views
    #[arg(long, value_name = "N")]
    disk_bytes: Option<u64>,
    /// Accept a weaker sandbox if the full one is not available
    #[arg(long)]
    accept_reduced: bool,
    /// Directory for open views
    #[arg(long, value_name = "DIRECTORY")]
    state_dir: Option<PathBuf>,
    /// Print the outcome as JSON, with the command's outputs
    #[arg(long)]
    json: bool,
    /// Command and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl SandboxCommand {
    pub(super) fn wants_json(&self) -> bool {
        match &self.task {
            SandboxTask::Run(command) => command.options.json,
            SandboxTask::Explain(command) => command.options.json,
        }
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self.task {
            SandboxTask::Run(command) => command.options.run(output),
            SandboxTask::Explain(command) => command.options.explain(output),
        }
    }
}

impl Options {
    fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let mut config = Config::new(state_directory(self.state_dir.clone()));
        config.accept_reduced = self.accept_reduced;
        let sandbox = Sandbox::new(config)?;
        let mut views: Vec<(View, PathBuf)> = Vec::new();
        let places: Vec<GrantedPath> = self.view.iter().map(place).collect::<Result<_, _>>()?;
        let hidden = self.hidden(&places)?;
        for (place, hidden) in places.into_iter().zip(hidden) {
            views.push((sandbox.open_view_hiding(&place.from, &hidden)?, place.at));
        }
        let mut spec = self.spec()?;
        spec.views = views.iter().map(|(view, at)| Mount { view, at: at.clone() }).collect();
        let cancel = Cancel::new().map_err(OutputFailure::Stdout)?;
        let lost = std::sync::OnceLock::new();
        let passage = Passage::new(output);
        let pass_on = |stream: Stream, bytes: &[u8]| {
            // A closed output does not stop the command; its changes are still listed.
            let passed = match stream {
                Stream::Stdout => passage.stdout(bytes),
                Stream::Stderr => passage.stderr(bytes),
                Stream::Trace => Ok(()),
            };
            if let Err(error) = passed
                && error.kind() != std::io::ErrorKind::BrokenPipe
            {
                let _ = lost.set(error);
            }
        };
        let outcome = sandbox.run_with_output(&spec, &cancel, (!self.json).then_some(&pass_on))?;
        let mut changes = Vec::new();
        for (view, _) in &views {
            changes.push((view.lower().to_path_buf(), view.changes()?));
        }
        let verdict = if outcome.succeeded() { CommandOutcome::Good } else { CommandOutcome::Bad };
        if self.json {
            let views =
                changes.iter().map(|(directory, changes)| ViewReport { directory, changes }).collect();
            output.report(&RunReport { outcome: &outcome, views })?;
        } else {
            let _ = passage.end();
            note_page(&as_page(&outcome, &changes));
        }
        match lost.into_inner() {
            Some(error) => Err(OutputFailure::Stdout(error).into()),
            None => Ok(verdict),
        }
    }

    /// What each view leaves out, relative to it. A path that no view would have shown is a mistake.
    fn hidden(&self, views: &[GrantedPath]) -> Result<Vec<Vec<PathBuf>>, Failure> {
        let mut hidden = vec![Vec::new(); views.len()];
        for path in &self.hide {
            let absolute = std::path::absolute(path).map_err(OutputFailure::Stdout)?;
            // Not the path itself, which may be a link that is to be hidden.
            let parent = absolute.parent().and_then(|parent| parent.canonicalize().ok());
            let real = parent.zip(absolute.file_name()).map(|(parent, name)| parent.join(name));
            let real = real.unwrap_or(absolute);
            let mut is_shown = false;
            for (view, list) in views.iter().zip(&mut hidden) {
                if let Ok(relative) = real.strip_prefix(&view.from) {
                    list.push(relative.to_path_buf());
                    is_shown = true;
                }
            }
            if !is_shown {
                let path = path.display().to_string();
                return Err(
                    ArgumentFailure::option_with_hint(path, "inside a view", "name a path in one").into()
                );
            }
        }
        Ok(hidden)
    }

    fn explain(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let spec = self.spec()?;
        let views: Vec<GrantedPath> = self.view.iter().map(place).collect::<Result<_, _>>()?;
        self.hidden(&views)?;
        let facts = json!({
            "command": spec.command.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "cwd": spec.cwd.as_deref().map_or(HOME.to_owned(), shown),
            "reads": places(&spec.grants.read),
            "views": places(&views),
            "hidden": self.hide.iter().map(|path| shown(path)).collect::<Vec<_>>(),
            "seeds": spec.grants.seeds.iter().map(|seed| shown(&seed.at)).collect::<Vec<_>>(),
            "copyOnWrite": places(&spec.grants.copy_on_write),
            "private": [HOME, "/tmp", "/dev/shm"],
            "variables": spec.grants.env.keys().map(|k| k.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "path": spec.grants.path.iter().map(|path| shown(path)).collect::<Vec<_>>(),
            "secrets": spec.grants.secrets.iter().map(|s| s.name().to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "network": match &spec.network {
                Network::None => json!("none"),
                Network::Host => json!("host"),
                Network::Hosts(hosts) => json!(hosts.iter().map(ToString::to_string).collect::<Vec<_>>()),
            },
            "nestedNamespaces": spec.grants.nested_namespaces,
            "ptrace": spec.grants.ptrace,
            "limits": spec.limits,
        });
        if self.json || !output.is_for_person() {
            output.report(&facts)?;
        } else {
            output.page(&explained(&spec, &views, &self.hide))?;
        }
        Ok(CommandOutcome::Good)
    }

    fn spec(&self) -> Result<Spec<'static>, Failure> {
        let mut grants = Grants::default();
        for name in &self.preset {
            grants.merge(name.parse::<Preset>()?.grants()?);
        }
        let mut seeds = Vec::new();
        for text in &self.seed {
            let place = place(text)?;
            seeds.push(Seed::from_file(&place.from, place.at)?);
        }
        let own = Grants {
            seeds,
            read: self.read.iter().map(place).collect::<Result<_, _>>()?,
            copy_on_write: self.copy_on_write.iter().map(place).collect::<Result<_, _>>()?,
            nested_namespaces: self.nested_namespaces,
            ptrace: self.ptrace,
            ..Grants::default()
        };
        grants.merge(own);
        for text in &self.env {
            match text.split_once('=') {
                Some((name, value)) => grants.env.insert(name.into(), value.into()),
                None => match std::env::var_os(text) {
                    Some(value) => grants.env.insert(text.into(), value),
                    None => {
                        let (expected, hint) = ("set in the environment", "write `NAME=VALUE`");
                        return Err(ArgumentFailure::option_with_hint(text, expected, hint).into());
                    }
                },
            };
        }
        for name in &self.secret {
            grants.secrets.push(Secret::from_env(name, Exposure::Variable)?);
        }
        for text in &self.secret_file {
            let parts = text.split_once('=');
            let (name, path) = parts.ok_or_else(|| {
                ArgumentFailure::option_with_hint(text, "a secret's name and file", "write `NAME=PATH`")
            })?;
            grants.secrets.push(Secret::from_file(name, path.as_ref(), Exposure::File)?);
        }
        let mut spec = Spec::new(self.command.clone());
        spec.cwd = match (&self.cwd, self.view.first()) {
            (Some(cwd), _) => Some(cwd.clone()),
            (None, Some(view)) => Some(place(view)?.at),
            (None, None) => None,
        };
        spec.grants = grants;
        spec.limits = self.limits();
        spec.stdin = Stdin::Inherit;
        spec.network = match (self.host_network, self.host.is_empty()) {
            (true, _) => Network::Host,
            (false, true) => Network::None,
            (false, false) => Network::Hosts(self.host.clone()),
        };
        Ok(spec)
    }

    fn limits(&self) -> ResourceLimits {
        let usual = ResourceLimits::default();
        ResourceLimits {
            wall_ms: self.wall_ms.unwrap_or(usual.wall_ms),
            cpu_ms: self.cpu_ms.unwrap_or(usual.cpu_ms),
            memory_bytes: self.memory_bytes.unwrap_or(usual.memory_bytes),
            processes: self.processes.unwrap_or(usual.processes),
            file_bytes: self.file_bytes.unwrap_or(usual.file_bytes),
            open_files: self.open_files.unwrap_or(usual.open_files),
            stdout_bytes: self.output_bytes.unwrap_or(usual.stdout_bytes),
            stderr_bytes: self.output_bytes.unwrap_or(usual.stderr_bytes),
            trace_bytes: usual.trace_bytes,
            scratch_bytes: self.scratch_bytes.unwrap_or(usual.scratch_bytes),
            disk_bytes: self.disk_bytes.unwrap_or(usual.disk_bytes),
            grace_ms: usual.grace_ms,
        }
    }
}

/// The folder for open views: the named one, else in the user's state.
pub(super) fn state_directory(named: Option<PathBuf>) -> PathBuf {
    named
        .or_else(|| user_state::folder().map(|folder| folder.join("sandbox")))
        .unwrap_or_else(|| std::env::temp_dir().join("crealeph-sandbox"))
}

/// `PATH` or `PATH=INSIDE`; a relative path is made absolute.
fn place(text: &OsString) -> Result<GrantedPath, Failure> {
    let bad =
        |source| Failure::Sandbox(SandboxError::Path { action: "grant", path: PathBuf::from(text), source });
    let shown = text.to_string_lossy();
    let (from, at) = match shown.rsplit_once('=') {
        Some((from, at)) if at.starts_with('/') => (PathBuf::from(from), Some(PathBuf::from(at))),
        _ => (PathBuf::from(text), None),
    };
    let from = from.canonicalize().map_err(bad)?;
    Ok(GrantedPath { at: at.unwrap_or_else(|| from.clone()), from })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn places(places: &[GrantedPath]) -> Vec<serde_json::Value> {
    places.iter().map(|place| json!({ "path": shown(&place.from), "inside": shown(&place.at) })).collect()
}

#[derive(Serialize)]
struct RunReport<'r> {
    outcome: &'r SandboxOutcome,
    views: Vec<ViewReport<'r>>,
}

#[derive(Serialize)]
struct ViewReport<'r> {
    directory: &'r Path,
    changes: &'r [ViewChange],
}

/// The report of a run for a person: what was cut, what changed, what was reached, whether the sandbox was weaker.
fn as_page(outcome: &SandboxOutcome, changes: &[(PathBuf, Vec<ViewChange>)]) -> Page {
    const SHOWN: usize = 50;
    let mut text = Page::default();
    for cut in &outcome.cuts {
        let _ = writeln!(text, "sandbox: {cut}");
    }
    for connection in &outcome.connections {
        let became = match connection.verdict {
            Reached::Connected => "connected to",
            Reached::NotGranted => "refused, since it is not granted (--host):",
            Reached::PrivateAddress => "refused, since it leads to a private address:",
            Reached::Unresolved => "found no address of",
            Reached::Unreachable => "could not reach",
            Reached::Malformed => "refused what the proxy does not understand:",
            Reached::TooMany => "refused, since too many are open at once:",
        };
        let _ = writeln!(text, "sandbox: {became} {}", connection.target);
    }
    for (lower, list) in changes {
        let count = counted(list.len(), "change");
        let _ = writeln!(text, "sandbox: {count} in the view of {}", lower.display());
        for change in list.iter().take(SHOWN) {
            let became = match change.kind {
                ViewChangeKind::Deleted => "deleted",
                ViewChangeKind::Created => "created",
                ViewChangeKind::Modified => "modified",
                ViewChangeKind::Mode => "mode of",
            };
            let _ = writeln!(text, "  {became} {}", change.path.display());
        }
        if list.len() > SHOWN {
            let _ = writeln!(text, "  and {} more; --json lists them all", list.len() - SHOWN);
        }
    }
    for missing in &outcome.strength.missing {
        let _ = writeln!(text, "sandbox: reduced, without {}; {}", missing.what, missing.advice);
    }
    if !outcome.succeeded() {
        let _ = writeln!(text, "sandbox: the command {}", outcome.exit);
    }
    text
}

fn explained(spec: &Spec<'_>, views: &[GrantedPath], hidden: &[PathBuf]) -> Page {
    let mut text = Page::default();
    let _ = writeln!(text, "it starts in {}", spec.cwd.clone().unwrap_or_else(|| HOME.into()).display());
    let _ = writeln!(text, "it reads the system's programs and libraries");
    let mut list = |what: &str, places: &[GrantedPath]| {
        for place in places {
            let _ = writeln!(text, "it {what} {} at {}", place.from.display(), place.at.display());
        }
    };
    list("reads", &spec.grants.read);
    list("writes to a view of", views);
    list("writes to a discarded copy of", &spec.grants.copy_on_write);
    for path in hidden {
        let _ = writeln!(text, "it does not see {}", path.display());
    }
    for seed in &spec.grants.seeds {
        let _ = writeln!(text, "it finds a copy of a file at {}", seed.at.display());
    }
    let _ = writeln!(text, "it has a private {HOME}, /tmp and /dev/shm, gone when it ends");
    for name in spec.grants.env.keys() {
        let _ = writeln!(text, "it has the variable {}", name.display());
    }
    for secret in &spec.grants.secrets {
        let _ = writeln!(text, "it has the secret {} (files in {SECRETS})", secret.name().display());
    }
    let _ = match &spec.network {
        Network::None => writeln!(text, "it has no network but its own loopback"),
        Network::Host => writeln!(text, "it has the machine's own network"),
        Network::Hosts(hosts) => hosts.iter().try_for_each(|host| writeln!(text, "it may connect to {host}")),
    };
    let limits = &spec.limits;
    let _ = writeln!(
        text,
        "it may use {} ms, {} ms of CPU, {} bytes of memory, {} processes, {} bytes a file, {} bytes on disk",
        limits.wall_ms,
        limits.cpu_ms,
        limits.memory_bytes,
        limits.processes,
        limits.file_bytes,
        limits.disk_bytes
    );
    text
}
