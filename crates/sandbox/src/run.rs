//! Running a command: from a spec to an outcome. Owns the parent's half of a run: the plan sent to the helper,
//! the outputs, the clock, the end. Refuses to return while a process of the tree is alive.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::cancel::Cancel;
use crate::capture::Capture;
use crate::cgroup::{Cgroup, Parents};
use crate::error::SandboxError;
use crate::network::Proxy;
use crate::outcome::{Cut, Exit, Level, Missing, Outcome, Strength, Usage};
use crate::redact::Redactor;
use crate::spec::{Exposure, HOME, Network, Place, Spec, Stdin};
use crate::state::{self, State, Swept};
use crate::view::{self, Base, View};
use crate::wire::{
    self, Failure, HELPER_NAME, Message, MountPlan, NetworkPlan, Report, Request, SourcePlan, Step, TERMINATE,
};

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long the inner half may take to answer once it was told to end.
const LAST_WORD: Duration = Duration::from_secs(2);
const KILL: u8 = b'K';

/// How sandboxes are made on this machine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where views are kept while they are open; not on overlayfs, or they become plain copies.
    pub state_dir: PathBuf,
    /// Run with what can be had where full strength cannot; the record says so.
    pub accept_reduced: bool,
    /// Whether to use cgroups.
    pub cgroups: Cgroups,
    /// The uid and gid a command has outside when started as root; of nobody else on the machine.
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
}

/// Whether to use cgroups for limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cgroups {
    /// Where they can be made under our own.
    Auto,
    /// Under this v2 directory, which has the memory and pids controllers on for its children.
    Under(PathBuf),
    /// Never; the watchdog stands alone.
    Off,
}

/// Which output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Takes the outputs as they come, redacted and up to the limits, besides the copy in the outcome.
pub type Output<'s> = &'s (dyn Fn(Stream, &[u8]) + Sync);

/// Runs commands and opens views. One for a process is enough; it may be shared by threads.
#[derive(Debug)]
pub struct Sandbox {
    config: Config,
    state: Arc<State>,
    cgroups: Parents,
    /// Whether overlays work, by the device and owner of the lower directory.
    overlays: Mutex<BTreeMap<(u64, u32), Option<String>>>,
}

impl Sandbox {
    /// Sweeps what earlier owners left and makes a sandbox ready.
    ///
    /// # Errors
    /// When the state directory cannot be used.
    pub fn new(config: Config) -> Result<Self, SandboxError> {
        let state = Arc::new(State::open(&config.state_dir)?);
        let cgroups = match &config.cgroups {
            Cgroups::Off => Parents::default(),
            Cgroups::Auto => Parents::find(None),
            Cgroups::Under(directory) => Parents::find(Some(directory)),
        };
        Ok(Self { config, state, cgroups, overlays: Mutex::default() })
    }

    /// Removes what dead owners left in the state directory; [`Sandbox::new`] does it too.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn sweep(&self) -> Result<Swept, SandboxError> {
        state::sweep(&self.config.state_dir)
    }

    /// Opens a copy-on-write view of a directory.
    ///
    /// # Errors
    /// When the directory cannot be read, or a plain copy of it goes past its bounds.
    pub fn open_view(&self, lower: &Path) -> Result<View, SandboxError> {
        let lower = canonical(lower)?;
        let copy = self.why_copy(&lower)?;
        View::make(&self.state, &Base::Directory(&lower), self.ids(), copy)
    }

    /// Opens a view on top of another one, which stays as it is.
    ///
    /// # Errors
    /// As [`Sandbox::open_view`]; and when there are too many layers.
    pub fn open_view_on(&self, below: &View) -> Result<View, SandboxError> {
        let copy = match below.mode() {
            view::ViewMode::Overlay => None,
            view::ViewMode::Copy { why } => Some(why.clone()),
        };
        View::make(&self.state, &Base::View(below), self.ids(), copy)
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it could not be started as asked; whatever a started command does is an outcome.
    pub fn run(&self, spec: &Spec<'_>, cancel: &Cancel) -> Result<Outcome, SandboxError> {
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
    ) -> Result<Outcome, SandboxError> {
        spec.check()?;
        let mut scratch_views = Vec::new();
        for place in &spec.grants.copy_on_write {
            scratch_views.push((self.open_view(&place.from)?, place.at.clone()));
        }
        let cgroup = Cgroup::make(&self.cgroups, &spec.limits, &self.state);
        let request = self.plan(spec, &scratch_views, cgroup.as_ref())?;
        let redactor = Redactor::new(spec.grants.secrets.iter().map(crate::spec::Secret::value));
        let run = Run::start(self, spec, &request)?;
        let ended = run.attend(spec, cancel, output, &redactor);
        let outcome = ended?.into_outcome(spec, cgroup.as_ref(), &redactor);
        drop(cgroup);
        outcome
    }

    fn ids(&self) -> Option<(u32, u32)> {
        rustix::process::geteuid().is_root().then_some(self.config.unprivileged_ids)
    }

    /// Why a view of `lower` has to be a plain copy; none when an overlay works.
    fn why_copy(&self, lower: &Path) -> Result<Option<String>, SandboxError> {
        let failed = |source| SandboxError::Path { action: "open a view of", path: lower.into(), source };
        if self.config.always_copy {
            return Ok(Some("the configuration asks for copies".to_owned()));
        }
        if view::is_overlay(lower) {
            return Ok(Some("the directory lies on overlayfs".to_owned()));
        }
        if view::is_overlay(&self.config.state_dir) {
            return Ok(Some("the state directory lies on overlayfs".to_owned()));
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
            View::make(&self.state, &Base::Directory(lower), self.ids(), None).map_err(Tried::Other)?;
        let spec = Spec {
            views: vec![crate::spec::Mount { view: &view, at: "/view".into() }],
            ..Spec::new(["true"])
        };
        let mut request = self.plan(&spec, &[], None).map_err(Tried::Other)?;
        request.probe = true;
        match self.probe(&spec, &request) {
            Ok(()) => Ok(()),
            Err(failure) if matches!(failure.step, Step::Overlay | Step::IdMap) => {
                Err(Tried::NoOverlay(format!("overlayfs cannot be mounted on it: {}", failure.source())))
            }
            Err(failure) => Err(Tried::Other(refusal(&failure))),
        }
    }

    /// Sets everything up and runs nothing.
    pub(crate) fn probe(&self, spec: &Spec<'_>, request: &Request) -> Result<(), Failure> {
        let lost = |e: &dyn std::fmt::Display| {
            Failure::new(Step::Request, e.to_string(), &io::Error::other("the helper"))
        };
        let cancel = Cancel::new().map_err(|e| lost(&e))?;
        let run = Run::start(self, spec, request).map_err(|e| lost(&e))?;
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
        for Place { from, at } in &spec.grants.read {
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
                Network::Hosts(ref hosts) => NetworkPlan::Proxy {
                    bypass_loopback: !hosts.iter().any(crate::network::Host::is_loopback),
                },
                Network::Host => NetworkPlan::Host,
            },
            mounts,
            secret_files,
            become_ids: self.ids(),
            cgroup_joins: cgroup
                .map(|c| c.joins().into_iter().map(PathBuf::into_os_string).collect())
                .unwrap_or_default(),
            memory_is_counted: cgroup.is_some_and(Cgroup::counts_memory),
            nested_namespaces: spec.grants.nested_namespaces,
            trace: spec.grants.trace,
            reduced: self.config.accept_reduced,
            probe: false,
        })
    }
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
fn refusal(failure: &Failure) -> SandboxError {
    let missing = |what: &str, advice: &str| SandboxError::Refused {
        missing: vec![Missing {
            what: format!("{what} ({}: {})", failure.detail, failure.source()),
            advice: advice.to_owned(),
        }],
    };
    match failure.step {
        Step::Namespaces | Step::IdMap | Step::Loopback => missing(
            "user namespaces",
            "set `user.max_user_namespaces` above 0 and, where the system has them, `kernel.unprivileged_userns_clone` to 1 \
             and `kernel.apparmor_restrict_unprivileged_userns` to 0; in a container allow them in its seccomp profile",
        ),
        Step::Proc => {
            missing("a /proc of its own", "in a container run with `--security-opt systempaths=unconfined`")
        }
        Step::RootFileSystem => {
            missing("a root file system of its own", "needs Linux 5.12 and mounts in user namespaces")
        }
        Step::Seccomp => missing("seccomp", "needs a kernel with CONFIG_SECCOMP_FILTER"),
        Step::Start => {
            SandboxError::CannotStart { program: failure.detail.clone(), source: failure.source() }
        }
        Step::Grant => SandboxError::Path {
            action: "show inside the sandbox",
            path: failure.detail.clone().into(),
            source: failure.source(),
        },
        step => {
            SandboxError::Setup { step: format!("{step:?}: {}", failure.detail), source: failure.source() }
        }
    }
}

/// A started helper.
struct Run {
    helper: Child,
    control: UnixStream,
    stdout: OwnedFd,
    stderr: OwnedFd,
    started: Instant,
}

/// What is known once everything is dead.
struct Ended {
    message: Option<Message>,
    status: String,
    cut: Option<Cut>,
    stdout: crate::outcome::Captured,
    stderr: crate::outcome::Captured,
    connections: Vec<crate::network::Connection>,
    connections_left_off: u64,
    wall: Duration,
}

impl Run {
    fn start(sandbox: &Sandbox, spec: &Spec<'_>, request: &Request) -> Result<Self, SandboxError> {
        let failed = |step: &'static str| {
            move |source: io::Error| SandboxError::Setup { step: step.to_owned(), source }
        };
        let started = Instant::now();
        let stdin = open_stdin(&spec.stdin).map_err(failed("standard input"))?;
        let (mut control, theirs) = UnixStream::pair().map_err(failed("the control socket"))?;
        let (stdout, stdout_write) = pipe().map_err(failed("standard output"))?;
        let (stderr, stderr_write) = pipe().map_err(failed("standard error"))?;
        let helper = Command::new("/proc/self/exe")
            .arg0(HELPER_NAME)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(stdout_write))
            .stderr(Stdio::from(stderr_write))
            .spawn()
            .map_err(failed("start the helper"))?;
        let mut run = Self {
            helper,
            control: control.try_clone().map_err(failed("the control socket"))?,
            stdout,
            stderr,
            started,
        };
        let sent = send_descriptors(&control, &stdin, sandbox.state.lock())
            .and_then(|()| wire::send(&mut control, request));
        if let Err(error) = sent {
            let _ = run.control.shutdown(std::net::Shutdown::Both);
            let _ = run.helper.wait();
            return Err(failed("send the request")(error));
        }
        Ok(run)
    }

    /// Carries the outputs and the clock until everything is dead.
    fn attend(
        mut self,
        spec: &Spec<'_>,
        cancel: &Cancel,
        output: Option<Output<'_>>,
        redactor: &Redactor,
    ) -> Result<Ended, SandboxError> {
        let to_stdout = output.map(|o| move |b: &[u8]| o(Stream::Stdout, b));
        let to_stderr = output.map(|o| move |b: &[u8]| o(Stream::Stderr, b));
        let limits = &spec.limits;
        let mut state = Attending {
            stdout: Capture::new(
                limits.stdout_bytes,
                redactor.clone(),
                to_stdout.as_ref().map(|s| s as &(dyn Fn(&[u8]) + Sync)),
            ),
            stderr: Capture::new(
                limits.stderr_bytes,
                redactor.clone(),
                to_stderr.as_ref().map(|s| s as &(dyn Fn(&[u8]) + Sync)),
            ),
            stdout_open: true,
            stderr_open: true,
            inbox: Vec::new(),
            passed: Vec::new(),
            proxy: None,
            message: None,
            ending: Ending::Running {
                deadline: self.started.checked_add(Duration::from_millis(limits.wall_ms)),
            },
            cut: None,
            buffer: vec![0u8; 64 << 10],
        };
        let attended = self.attend_until_done(spec, cancel, &mut state);
        // Whatever happened, the tree goes now: the outer half leaves only when it is dead.
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        state.drain(&self);
        let status = self.helper.wait();
        state.drain(&self);
        let wall = self.started.elapsed();
        let (connections, connections_left_off) = state.proxy.map(Proxy::finish).unwrap_or_default();
        attended.map_err(|source| SandboxError::Setup { step: "attend the run".to_owned(), source })?;
        Ok(Ended {
            message: state.message,
            status: status.map_or_else(|e| e.to_string(), |s| s.to_string()),
            cut: state.cut,
            stdout: state.stdout.finish(),
            stderr: state.stderr.finish(),
            connections,
            connections_left_off,
            wall,
        })
    }

    fn attend_until_done(
        &mut self,
        spec: &Spec<'_>,
        cancel: &Cancel,
        state: &mut Attending<'_>,
    ) -> io::Result<()> {
        loop {
            let timeout = state.ending.deadline().map(|d| d.saturating_duration_since(Instant::now()));
            let timeout = timeout.map(|t| rustix::event::Timespec {
                tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: t.subsec_nanos().into(),
            });
            let watch = |open: bool| if open { PollFlags::IN } else { PollFlags::empty() };
            let cancellable = matches!(state.ending, Ending::Running { .. });
            let mut fds = vec![PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN)];
            let cancel_at = cancellable.then(|| {
                fds.push(PollFd::from_borrowed_fd(cancel.as_fd(), PollFlags::IN));
                fds.len().saturating_sub(1)
            });
            if state.stdout_open {
                fds.push(PollFd::from_borrowed_fd(self.stdout.as_fd(), watch(true)));
            }
            if state.stderr_open {
                fds.push(PollFd::from_borrowed_fd(self.stderr.as_fd(), watch(true)));
            }
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
            let (said, cancelled) = (ready(0), cancel_at.is_some_and(ready));
            drop(fds);
            state.drain(self);
            if said && !state.listen(self, spec)? {
                return Ok(());
            }
            if cancelled {
                state.cut = Some(Cut::Cancelled);
                state.ending = Ending::Running { deadline: Some(Instant::now()) };
            }
            if state.ending.deadline().is_some_and(|d| Instant::now() >= d)
                && !state.press(&self.control, spec)
            {
                return Ok(());
            }
        }
    }
}

/// How far the end of a run has come.
enum Ending {
    Running {
        deadline: Option<Instant>,
    },
    /// SIGTERM was sent.
    Asked {
        deadline: Option<Instant>,
    },
    /// The inner half was told to end everything.
    Told {
        deadline: Option<Instant>,
    },
}

impl Ending {
    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Running { deadline } | Self::Asked { deadline } | Self::Told { deadline } => *deadline,
        }
    }
}

struct Attending<'s> {
    stdout: Capture<'s>,
    stderr: Capture<'s>,
    stdout_open: bool,
    stderr_open: bool,
    inbox: Vec<u8>,
    passed: Vec<OwnedFd>,
    proxy: Option<Proxy>,
    message: Option<Message>,
    ending: Ending,
    cut: Option<Cut>,
    buffer: Vec<u8>,
}

impl Attending<'_> {
    /// Takes what the outputs hold now, a bounded part at a time so that the clock is looked at.
    fn drain(&mut self, run: &Run) {
        for _ in 0..16 {
            let mut took = false;
            if self.stdout_open {
                match rustix::io::read(&run.stdout, &mut self.buffer) {
                    Ok(0) => self.stdout_open = false,
                    Ok(read) => {
                        self.stdout.push(self.buffer.get(..read).unwrap_or_default());
                        took = true;
                    }
                    Err(_) => {}
                }
            }
            if self.stderr_open {
                match rustix::io::read(&run.stderr, &mut self.buffer) {
                    Ok(0) => self.stderr_open = false,
                    Ok(read) => {
                        self.stderr.push(self.buffer.get(..read).unwrap_or_default());
                        took = true;
                    }
                    Err(_) => {}
                }
            }
            if !took {
                return;
            }
        }
    }

    /// Takes what the helper says; false once it has said its last word.
    fn listen(&mut self, run: &Run, spec: &Spec<'_>) -> io::Result<bool> {
        let read = receive(&run.control, &mut self.buffer, &mut self.passed)?;
        self.inbox.extend_from_slice(self.buffer.get(..read).unwrap_or_default());
        while let Some(message) = wire::take::<Message>(&mut self.inbox)? {
            match message {
                Message::Listening => {
                    if let (Some(fd), Network::Hosts(hosts)) = (self.passed.pop(), &spec.network) {
                        self.proxy = Some(Proxy::start(fd.into(), hosts.clone())?);
                    }
                }
                last => {
                    self.message = Some(last);
                    return Ok(false);
                }
            }
        }
        Ok(read != 0)
    }

    /// Takes the next step towards the end; false when there is none left but to drop the helper.
    fn press(&mut self, mut control: &UnixStream, spec: &Spec<'_>) -> bool {
        let now = Instant::now();
        let grace = Duration::from_millis(spec.limits.grace_ms);
        match self.ending {
            Ending::Running { .. } => {
                self.cut.get_or_insert(Cut::WallTime { limit_ms: spec.limits.wall_ms });
                let asked = !grace.is_zero() && control.write_all(&[TERMINATE]).is_ok();
                let deadline = if asked { now.checked_add(grace) } else { Some(now) };
                self.ending = Ending::Asked { deadline };
                true
            }
            Ending::Asked { .. } => {
                self.ending = Ending::Told { deadline: now.checked_add(LAST_WORD) };
                control.write_all(&[KILL]).is_ok()
            }
            Ending::Told { .. } => false,
        }
    }
}

impl Ended {
    fn into_outcome(
        self,
        spec: &Spec<'_>,
        cgroup: Option<&Cgroup>,
        redactor: &Redactor,
    ) -> Result<Outcome, SandboxError> {
        let (out_of_memory, memory_peak) = cgroup.map(Cgroup::memory_seen).unwrap_or_default();
        let report = match self.message {
            Some(Message::Done(report)) => report,
            Some(Message::Failed(failure)) => return Err(refusal(&failure)),
            // The kernel may take the helper first when memory runs out; so may we, when time does.
            _ if self.cut.is_some() || out_of_memory => Report::default(),
            _ => return Err(SandboxError::HelperLost { status: self.status }),
        };
        let limits = &spec.limits;
        let mut cuts: Vec<Cut> = self.cut.or(report.cut).into_iter().collect();
        let peak_memory_bytes = report.peak_memory_bytes.max(memory_peak);
        if out_of_memory && !cuts.iter().any(|c| matches!(c, Cut::Memory { .. })) {
            cuts.push(Cut::Memory { limit_bytes: limits.memory_bytes, seen_bytes: peak_memory_bytes });
        }
        if report.peak_processes >= limits.processes {
            cuts.push(Cut::Processes { limit: limits.processes });
        }
        if self.stdout.truncated() {
            cuts.push(Cut::Stdout { limit_bytes: limits.stdout_bytes, total_bytes: self.stdout.total_bytes });
        }
        if self.stderr.truncated() {
            cuts.push(Cut::Stderr { limit_bytes: limits.stderr_bytes, total_bytes: self.stderr.total_bytes });
        }
        let mut layers = report.layers;
        layers.extend(cgroup.map(Cgroup::layer));
        let missing: Vec<Missing> = report
            .missing
            .iter()
            .filter_map(
                |f| if let SandboxError::Refused { missing } = refusal(f) { Some(missing) } else { None },
            )
            .flatten()
            .collect();
        let level = if missing.is_empty() { Level::Full } else { Level::Reduced };
        let mut connections = self.connections;
        for connection in &mut connections {
            connection.target = redactor.text(&connection.target);
        }
        Ok(Outcome {
            exit: if cuts.iter().any(Cut::ended_the_run) && matches!(report.exit, Exit::Killed) {
                Exit::Killed
            } else {
                report.exit
            },
            stdout: self.stdout,
            stderr: self.stderr,
            usage: Usage {
                wall_ms: u64::try_from(self.wall.as_millis()).unwrap_or(u64::MAX),
                cpu_ms: report.cpu_us / 1000,
                peak_memory_bytes,
                peak_processes: report.peak_processes,
            },
            cuts,
            connections,
            connections_left_off: self.connections_left_off,
            strength: Strength {
                level,
                layers,
                missing,
                host_network: matches!(spec.network, Network::Host),
            },
        })
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)?;
    Ok((read, write))
}

fn open_stdin(stdin: &Stdin) -> io::Result<OwnedFd> {
    match stdin {
        Stdin::Empty => Ok(File::open("/dev/null")?.into()),
        Stdin::Inherit => Ok(io::stdin().as_fd().try_clone_to_owned()?),
        Stdin::Bytes(bytes) => {
            use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
            let file = memfd_create("stdin", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            let mut file = File::from(file);
            file.write_all(bytes)?;
            fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
            io::Seek::rewind(&mut file)?;
            Ok(file.into())
        }
    }
}

fn send_descriptors(control: &UnixStream, stdin: &OwnedFd, lock: &File) -> io::Result<()> {
    let fds = [stdin.as_fd(), lock.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(control, &[IoSlice::new(b"R")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(control: &UnixStream, buffer: &mut [u8], passed: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        match recvmsg(control, &mut [io::IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received,
            Err(rustix::io::Errno::CONNRESET) => return Ok(0),
            Err(e) => return Err(e.into()),
        };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            passed.extend(rights);
        }
    }
    Ok(received.bytes)
}
