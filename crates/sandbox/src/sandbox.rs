//! Sandboxes and their requests: configuration, views, and the plan that a run sends to its helper. Owns
//! the choice between overlay and copy and the meaning of a failed step; refuses to run what it cannot isolate.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tracing::field::{Empty, debug};
use tracing::info_span;

use crate::cancel::Cancel;
use crate::cgroup::{Cgroup, Parents};
use crate::error::SandboxError;
use crate::network::Host;
use crate::outcome::{Layer, Missing, SandboxOutcome};
use crate::redact::Redactor;
use crate::run::Run;
use crate::spec::{Exposure, GrantedPath, HOME, Mount, Network, Spec};
use crate::starter::Starter;
use crate::state::{self, OwnerFolder, Scratch, Swept};
use crate::view::{self, Hidden, View};
use crate::wire::{
    BarePlan, Failure, Message, MountPlan, NetworkPlan, Request, SeedPlan, SetupStep, SourcePlan,
};

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How sandboxes are created on this machine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where views are kept while they are open; not on overlayfs, or they become plain copies.
    pub state_dir: PathBuf,
    /// Accept the machine's features if they are less than full strength; the record says what was missing.
    /// Without namespaces, Landlock and seccomp are the minimum; nothing runs without those.
    pub accept_reduced: bool,
    /// Whether to use cgroups.
    pub cgroups: Cgroups,
    /// The uid and gid of a command outside if started as root; nothing else on the machine may use them.
    pub unprivileged_ids: (u32, u32),
    /// Make every view a plain copy.
    pub always_copy: bool,
}

impl Config {
    /// The default configuration, with this state directory.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            accept_reduced: false,
            cgroups: Cgroups::Auto,
            // In the range that distributions leave unused, and inside what containers map.
            unprivileged_ids: (65_532, 65_532),
            always_copy: false,
        }
    }

    /// Whether views of a directory can be kept in the state directory, which may not exist yet: not in the directory itself,
    /// nor around it.
    ///
    /// # Errors
    /// If they cannot.
    pub fn check_view(&self, lower: &Path) -> Result<(), SandboxError> {
        let lower = canonical(lower)?;
        let named = std::path::absolute(&self.state_dir).unwrap_or_else(|_| self.state_dir.clone());
        let there = named.ancestors().find_map(|above| {
            let rest = named.strip_prefix(above).ok()?;
            Some(above.canonicalize().ok()?.join(rest))
        });
        let state_dir = there.unwrap_or(named);
        if !state_dir.starts_with(&lower) && !lower.starts_with(&state_dir) {
            return Ok(());
        }
        let what = format!(
            "`{}` cannot be seen copy-on-write while the sandbox's state directory is `{}`, since neither may be inside the \
             other; set XDG_STATE_HOME to a folder elsewhere",
            lower.display(),
            state_dir.display()
        );
        Err(SandboxError::InvalidSpec { what })
    }
}

/// Whether to use cgroups for limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cgroups {
    /// If they can be created below ours.
    Auto,
    /// Under this v2 directory, which has the memory and pids controllers on for its children.
    Under(PathBuf),
    /// Never; only the watchdog works.
    Off,
}

/// Which output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The trace channel.
    Trace,
}

/// Receives the outputs as they come, redacted and up to the limits, in addition to the copy in the outcome. It runs between
/// two checks of the clock, so it should not take long; it may end the run through its own [`Cancel`].
pub type Output<'s> = &'s (dyn Fn(Stream, &[u8]) + Sync);

/// Runs commands and opens views. One per process is enough; threads may share it.
#[derive(Debug)]
pub struct Sandbox {
    config: Config,
    state: Arc<OwnerFolder>,
    cgroups: Parents,
    starter: Starter,
    /// Whether overlays work, by the device and owner of the lower directory.
    overlays: Mutex<BTreeMap<(u64, u32), Option<String>>>,
    /// Why runs have no namespaces, once that was tried; only tried if `reduced` is accepted.
    no_namespaces: OnceLock<Option<Failure>>,
    /// The directory in which an unprivileged user finds files that cannot be mounted.
    reachable: Mutex<Option<Arc<OwnerFolder>>>,
}

impl Sandbox {
    /// Sweeps what earlier owners left and creates a sandbox.
    ///
    /// # Errors
    /// If the state directory cannot be used.
    pub fn new(config: Config) -> Result<Self, SandboxError> {
        let state = Arc::new(OwnerFolder::open(&config.state_dir)?);
        let cgroups = match &config.cgroups {
            Cgroups::Off => Parents::default(),
            Cgroups::Auto => Parents::find(None, &state),
            Cgroups::Under(directory) => Parents::find(Some(directory), &state),
        };
        Ok(Self {
            config,
            state,
            cgroups,
            starter: Starter::default(),
            overlays: Mutex::default(),
            no_namespaces: OnceLock::new(),
            reachable: Mutex::default(),
        })
    }

    /// Removes what dead owners left in the state directory; [`Sandbox::new`] does it too.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn sweep(&self) -> Result<Swept, SandboxError> {
        state::sweep(&self.config.state_dir)
    }

    /// Opens a copy-on-write view of a directory.
    ///
    /// # Errors
    /// If the directory cannot be read, or a plain copy of it exceeds its limits.
    pub fn open_view(&self, lower: &Path) -> Result<View, SandboxError> {
        self.open_view_hiding(lower, &[])
    }

    /// Opens a view that does not show these files and directories, named relative to `lower`. Inside they do
    /// not exist: other files may be created in their place, which are then changes like any other. A
    /// directory that is deleted inside is a deleted directory, even if something was hidden in it.
    ///
    /// # Errors
    /// As [`Sandbox::open_view`]; and if a hidden path leads through a symbolic link.
    pub fn open_view_hiding(&self, lower: &Path, hidden: &[PathBuf]) -> Result<View, SandboxError> {
        self.config.check_view(lower)?;
        let lower = canonical(lower)?;
        let hidden = Hidden::new(&lower, hidden)?;
        let copy = self.why_copy(&lower)?;
        View::make(&self.state()?, &lower, &hidden, self.ids(), copy)
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// If it could not be started as requested; anything that a started command does is an outcome.
    pub fn run(&self, spec: &Spec<'_>, cancel: &Cancel) -> Result<SandboxOutcome, SandboxError> {
        self.run_with_output(spec, cancel, None)
    }

    /// [`Sandbox::run`], with the outputs passed on as they come.
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    pub fn run_with_output(
        &self,
        spec: &Spec<'_>,
        cancel: &Cancel,
        output: Option<Output<'_>>,
    ) -> Result<SandboxOutcome, SandboxError> {
        // The words after the program may hold a prompt.
        let program = spec.command.first().map(|program| program.to_string_lossy().into_owned());
        let span = info_span!("sandbox_run", program, exit = Empty).entered();
        spec.check()?;
        let mut scratch_views = Vec::new();
        for place in &spec.grants.copy_on_write {
            scratch_views.push((self.open_view(&place.from)?, place.at.clone()));
        }
        let cgroup = Cgroup::make(&self.cgroups, &spec.limits, &self.state);
        let mut request = self.plan(spec, &scratch_views, cgroup.as_ref())?;
        let state = self.state()?;
        let mut scratch = None;
        if let Some(missing) = self.without_namespaces() {
            check_without_namespaces(spec, missing)?;
            let made = scratch.insert(Scratch::make(&state, self.ids())?);
            request.bare =
                Some(BarePlan { scratch: made.path().as_os_str().to_owned(), missing: missing.clone() });
        }
        let secrets = spec.grants.secret_values();
        let redactor = Redactor::new(secrets.iter().map(Vec::as_slice))?;
        let run = Run::start(&self.starter, &state, spec, &request)?;
        let ended = run.attend(spec, cancel, output, &redactor);
        let outcome = ended?.into_outcome(spec, cgroup.as_ref(), &redactor);
        drop((cgroup, scratch));
        if let Ok(outcome) = &outcome {
            span.record("exit", debug(&outcome.exit));
        }
        outcome
    }

    /// Why runs have no namespaces, if that was accepted.
    fn without_namespaces(&self) -> Option<&Failure> {
        if !self.config.accept_reduced {
            return None;
        }
        let tried = self.no_namespaces.get_or_init(|| {
            let spec = Spec::new(["true"]);
            let mut request = self.plan(&spec, &[], None).ok()?;
            request.probe = true;
            self.probe(&spec, &request).err().filter(Failure::lacks_namespaces)
        });
        tried.as_ref()
    }

    /// Where views and private directories are kept.
    fn state(&self) -> Result<Arc<OwnerFolder>, SandboxError> {
        // The user of a command started by root must be able to walk there if nothing is mounted.
        if self.without_namespaces().is_none() || self.ids().is_none() {
            return Ok(Arc::clone(&self.state));
        }
        let mut reachable = self.reachable.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = &*reachable {
            return Ok(Arc::clone(state));
        }
        let state = Arc::new(OwnerFolder::open_reachable(&std::env::temp_dir().join("crealeph-sandbox"))?);
        Ok(Arc::clone(reachable.insert(state)))
    }

    pub(crate) fn cgroup_layer(&self) -> Option<Layer> {
        self.cgroups.layer()
    }

    /// A folder of our own, on the file system of the views.
    pub(crate) fn state_folder(&self) -> &Path {
        self.state.folder()
    }

    /// The ids to take outside. Root of a user namespace that does not have them (a rootless container) is an
    /// ordinary user outside already and stays it.
    pub(crate) fn ids(&self) -> Option<(u32, u32)> {
        let (uid, gid) = self.config.unprivileged_ids;
        let can =
            rustix::process::geteuid().is_root() && is_mapped("uid_map", uid) && is_mapped("gid_map", gid);
        can.then_some((uid, gid))
    }

    /// Why a view of `lower` has to be a plain copy; none if an overlay works.
    pub(crate) fn why_copy(&self, lower: &Path) -> Result<Option<String>, SandboxError> {
        let failed = |source| SandboxError::Path { action: "open a view of", path: lower.into(), source };
        if self.config.always_copy {
            return Ok(Some("the configuration asks for copies".to_owned()));
        }
        if self.without_namespaces().is_some() {
            return Ok(Some("nothing can be mounted on this machine".to_owned()));
        }
        if view::is_overlay(lower) {
            return Ok(Some("the directory is on overlayfs".to_owned()));
        }
        if view::is_overlay(&self.config.state_dir) {
            return Ok(Some("the state directory is on overlayfs".to_owned()));
        }
        let key = view::device(lower).map_err(failed)?;
        let known = self.overlays.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(answer) = known {
            return Ok(answer);
        }
        let answer = match self.try_overlay(lower) {
            Ok(()) => None,
            Err(Tried::NoOverlay(why)) => Some(why),
            Err(Tried::Other(error)) => return Err(error),
        };
        self.overlays.lock().unwrap_or_else(PoisonError::into_inner).insert(key, answer.clone());
        Ok(answer)
    }

    /// Mounts a view of `lower` once, and runs nothing.
    fn try_overlay(&self, lower: &Path) -> Result<(), Tried> {
        let view =
            View::make(&self.state, lower, &Hidden::default(), self.ids(), None).map_err(Tried::Other)?;
        let spec = Spec { views: vec![Mount { view: &view, at: "/view".into() }], ..Spec::new(["true"]) };
        let mut request = self.plan(&spec, &[], None).map_err(Tried::Other)?;
        request.probe = true;
        match self.probe(&spec, &request) {
            Ok(()) => Ok(()),
            Err(failure) if matches!(failure.step, SetupStep::Overlay | SetupStep::IdMap) => {
                Err(Tried::NoOverlay(format!("overlayfs cannot be mounted on it: {}", failure.source())))
            }
            Err(failure) => Err(Tried::Other(refusal(&failure))),
        }
    }

    /// Sets everything up and runs nothing.
    pub(crate) fn probe(&self, spec: &Spec<'_>, request: &Request) -> Result<(), Failure> {
        let lost = |e: &dyn std::fmt::Display| {
            Failure::new(SetupStep::Request, e.to_string(), &io::Error::other("the helper"))
        };
        let cancel = Cancel::new().map_err(|e| lost(&e))?;
        let run = Run::start(&self.starter, &self.state, spec, request).map_err(|e| lost(&e))?;
        let ended = run.attend(spec, &cancel, None, &Redactor::default()).map_err(|e| lost(&e))?;
        match ended.message {
            Some(Message::Done(_)) => Ok(()),
            Some(Message::Failed(failure)) => Err(failure),
            _ => Err(lost(&"it ended without an answer")),
        }
    }

    pub(crate) fn plan(
        &self,
        spec: &Spec<'_>,
        scratch_views: &[(View, PathBuf)],
        cgroup: Option<&Cgroup>,
    ) -> Result<Request, SandboxError> {
        let mut mounts = Vec::new();
        for GrantedPath { from, at } in &spec.grants.read {
            let path = canonical(from)?.into_os_string();
            mounts.push(MountPlan { at: at.clone().into_os_string(), source: SourcePlan::Read { path } });
        }
        let views = spec.views.iter().map(|m| (m.view, &m.at));
        for (view, at) in scratch_views.iter().map(|(v, at)| (v, at)).chain(views) {
            mounts.push(MountPlan { at: at.clone().into_os_string(), source: view.source() });
        }
        mounts.sort_by_key(|m| (Path::new(&m.at).components().count(), m.at.clone()));
        if let Some([first, _]) = mounts.array_windows().find(|[a, b]| a.at == b.at) {
            let what = format!("`{}` is granted twice; grant it once", first.at.display());
            return Err(SandboxError::InvalidSpec { what });
        }
        let secret_files = spec
            .grants
            .secrets
            .iter()
            .filter(|s| s.exposure() == Exposure::File)
            .map(|s| (s.name().to_owned(), s.value().to_vec()))
            .collect();
        Ok(Request {
            command: spec.command.clone(),
            env: environment(spec),
            cwd: spec.cwd.clone().map_or_else(|| HOME.into(), PathBuf::into_os_string),
            limits: spec.limits.clone(),
            network: match spec.network {
                Network::None => NetworkPlan::None,
                Network::Hosts(ref hosts) => {
                    NetworkPlan::Proxy { bypass_loopback: !hosts.iter().any(Host::is_loopback) }
                }
                Network::Host => NetworkPlan::Host,
            },
            mounts,
            secret_files,
            seeds: (spec.grants.seeds.iter().cloned())
                .map(|seed| SeedPlan { at: seed.at.into_os_string(), content: seed.content, mode: seed.mode })
                .collect(),
            trace_channel: spec.trace_channel,
            become_ids: self.ids(),
            cgroup_joins: cgroup
                .map(|c| c.joins().into_iter().map(PathBuf::into_os_string).collect())
                .unwrap_or_default(),
            memory_is_counted: cgroup.is_some_and(Cgroup::counts_memory),
            nested_namespaces: spec.grants.nested_namespaces,
            ptrace: spec.grants.ptrace,
            reduced: self.config.accept_reduced,
            no_network: None,
            bare: None,
            probe: false,
        })
    }
}

/// Features that need a mount or a network namespace are not available without.
fn check_without_namespaces(spec: &Spec<'_>, missing: &Failure) -> Result<(), SandboxError> {
    if matches!(spec.network, Network::Hosts(_)) {
        return Err(refusal(missing));
    }
    let private = |place: &&GrantedPath| ["/tmp", HOME].iter().any(|p| place.at.starts_with(p));
    let moved = spec.grants.read.iter().find(|place| place.at != place.from && !private(place));
    match moved {
        Some(GrantedPath { at, .. }) => Err(SandboxError::InvalidSpec {
            what: format!(
                "nothing can be shown at `{}` on a machine without namespaces; grant it at its own path",
                at.display()
            ),
        }),
        None => Ok(()),
    }
}

/// Whether our own user namespace has this id.
fn is_mapped(map: &str, id: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(Path::new("/proc/self").join(map)) else { return true };
    text.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|n| n.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        let (first, count) = (first.unwrap_or(0), count.unwrap_or(0));
        (first..first.saturating_add(count)).contains(&u64::from(id))
    })
}

enum Tried {
    NoOverlay(String),
    Other(SandboxError),
}

fn canonical(path: &Path) -> Result<PathBuf, SandboxError> {
    path.canonicalize().map_err(|source| SandboxError::Path { action: "grant", path: path.into(), source })
}

fn environment(spec: &Spec<'_>) -> Vec<(OsString, OsString)> {
    let mut path = OsString::new();
    for directory in &spec.grants.path {
        path.push(directory);
        path.push(":");
    }
    path.push(SYSTEM_PATH);
    let fixed = [
        ("HOME", HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
    ];
    let mut env: BTreeMap<OsString, OsString> =
        fixed.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
    env.insert("PATH".into(), path);
    env.extend(spec.grants.env.clone());
    for secret in spec.grants.secrets.iter().filter(|s| s.exposure() == Exposure::Variable) {
        use std::os::unix::ffi::OsStringExt as _;
        env.insert(secret.name().to_owned(), OsString::from_vec(secret.value().to_vec()));
    }
    env.into_iter().collect()
}

/// What a failed step means for the caller.
pub(crate) fn refusal(failure: &Failure) -> SandboxError {
    let missing = |what: &str, advice: &str| SandboxError::Refused {
        missing: vec![Missing {
            what: format!("{what} ({}: {})", failure.detail, failure.source()),
            advice: advice.to_owned(),
        }],
    };
    match failure.step {
        SetupStep::Namespaces | SetupStep::IdMap | SetupStep::Loopback => missing(
            "user namespaces",
            "set `user.max_user_namespaces` above 0 and, if the system has it, `kernel.unprivileged_userns_clone` to 1 \
             and `kernel.apparmor_restrict_unprivileged_userns` to 0; in a container allow them in its seccomp profile",
        ),
        SetupStep::Proc => {
            missing("a /proc of its own", "in a container run with `--security-opt systempaths=unconfined`")
        }
        SetupStep::RootFileSystem => missing(
            "a root file system of its own",
            "needs Linux 5.12 and mounts in user namespaces; in a container allow them in its seccomp profile",
        ),
        SetupStep::Landlock => missing(
            "namespaces, or a Landlock that keeps signals inside",
            "needs user namespaces, or Linux 6.12 with CONFIG_SECURITY_LANDLOCK",
        ),
        SetupStep::Seccomp => missing("seccomp", "needs a kernel with CONFIG_SECCOMP_FILTER"),
        SetupStep::Start if failure.errno == libc::E2BIG => SandboxError::InvalidSpec {
            what: format!(
                "the arguments and variables of `{}` are longer than the kernel accepts; pass them on standard input or in a file",
                failure.detail
            ),
        },
        SetupStep::Start => {
            SandboxError::CannotStart { program: failure.detail.clone(), source: failure.source() }
        }
        SetupStep::WorkingDirectory => SandboxError::Path {
            action: "start inside the sandbox in",
            path: failure.detail.clone().into(),
            source: failure.source(),
        },
        SetupStep::Grant => SandboxError::Path {
            action: "show inside the sandbox",
            path: failure.detail.clone().into(),
            source: failure.source(),
        },
        step => {
            SandboxError::Setup { step: format!("{step:?}: {}", failure.detail), source: failure.source() }
        }
    }
}
