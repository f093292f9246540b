//! A caller's request: the command, its grants, its limits. Owns these types and their checks;
//! refuses a request that is contradictory or without a limit before any process is started.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

use crate::error::SandboxError;
use crate::network::Host;
use crate::redact::{named_values_of, values_of};
use crate::view::View;

/// The home directory of a command inside: private, writable, removed when it ends.
pub const HOME: &str = "/home/agent";
/// The directory inside of secrets that are exposed as files.
pub const SECRETS: &str = "/run/secrets";
/// Where a command with a trace channel writes to it: a pipe whose lines reach us as they are written.
pub const TRACE_CHANNEL: &str = "/run/trace";

const MAX_ARGUMENTS: usize = 4096;
const MAX_ARGUMENT_BYTES: usize = 1 << 20;
const MAX_PLACES: usize = 256;
const MAX_STDIN_BYTES: usize = 256 << 20;
const MAX_SEED_BYTES: usize = 8 << 20;

/// One command to run and everything it gets.
#[derive(Debug)]
pub struct Spec<'v> {
    /// The program and its arguments; the program is looked up in the `PATH` inside.
    pub command: Vec<OsString>,
    /// Its grants.
    pub grants: Grants,
    /// Its limits.
    pub limits: ResourceLimits,
    /// Where it starts; [`HOME`] if absent.
    pub cwd: Option<PathBuf>,
    /// Its standard input.
    pub stdin: Stdin,
    /// Its network.
    pub network: Network,
    /// Whether the names of [`Network::Hosts`] may lead to private addresses; loopback and link-local ones never count as such.
    pub private_hosts: bool,
    /// Copy-on-write views to mount, whose changes outlive the run.
    pub views: Vec<Mount<'v>>,
    /// Whether there is a pipe at [`TRACE_CHANNEL`] to write to. Unlike an output it is a path, so that any process of
    /// the tree finds it by name; a writer waits if it writes faster than we read, so nothing is lost.
    pub trace_channel: bool,
}

impl Spec<'_> {
    /// A spec with no grant, the default limits, no network and an empty standard input.
    pub fn new<I: IntoIterator<Item = S>, S: Into<OsString>>(command: I) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            grants: Grants::default(),
            limits: ResourceLimits::default(),
            cwd: None,
            stdin: Stdin::Empty,
            network: Network::None,
            private_hosts: false,
            views: Vec::new(),
            trace_channel: false,
        }
    }

    /// Checks everything that needs no access to the system.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        let invalid = |what: String| Err(SandboxError::InvalidSpec { what });
        let Some(program) = self.command.first() else {
            return invalid("the command is empty; name a program to run".to_owned());
        };
        if program.is_empty() {
            return invalid("the program's name is empty; name a program to run".to_owned());
        }
        if self.command.len() > MAX_ARGUMENTS {
            return invalid(format!(
                "the command has more than {MAX_ARGUMENTS} arguments; pass them in a file"
            ));
        }
        let environment = self.grants.env.iter().flat_map(|(k, v)| [k, v]);
        for word in self.command.iter().chain(environment) {
            if word.len() > MAX_ARGUMENT_BYTES || word.as_bytes().contains(&0) {
                return invalid(format!(
                    "an argument or variable holds a NUL or is longer than {MAX_ARGUMENT_BYTES} bytes; \
                     pass it on standard input or in a file"
                ));
            }
        }
        for name in self.grants.env.keys() {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return invalid(format!("`{}` is not a variable's name", name.display()));
            }
        }
        if let Stdin::Bytes(bytes) = &self.stdin
            && bytes.len() > MAX_STDIN_BYTES
        {
            return invalid(format!(
                "standard input is larger than {MAX_STDIN_BYTES} bytes; grant a file instead"
            ));
        }
        // It would lead out: everything of the machine is above it.
        if matches!(self.stdin, Stdin::Inherit)
            && rustix::fs::fstat(std::io::stdin())
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
        {
            return invalid("standard input is a directory; grant it instead".to_owned());
        }
        self.check_seeds()?;
        self.check_places()?;
        let mut files = BTreeSet::new();
        for secret in &self.grants.secrets {
            secret.check()?;
            if secret.exposure == Exposure::File && !files.insert(&secret.name) {
                return invalid(format!(
                    "the secret file `{}` is granted twice; grant it once",
                    secret.name.display()
                ));
            }
        }
        self.limits.check()
    }

    fn check_places(&self) -> Result<(), SandboxError> {
        let invalid = |what: String| Err(SandboxError::InvalidSpec { what });
        let places = self.grants.read.iter().chain(&self.grants.copy_on_write).map(|p| p.at.as_path());
        let mounts = self.views.iter().map(|m| m.at.as_path());
        let targets: Vec<&Path> = places.chain(mounts).collect();
        if targets.len() > MAX_PLACES {
            return invalid(format!("more than {MAX_PLACES} paths are granted; grant a common parent"));
        }
        // The root is built, not granted, and the watchdog needs the sandbox's own processes.
        if let Some(at) = targets.iter().find(|at| **at == Path::new("/") || at.starts_with("/proc")) {
            return invalid(format!(
                "nothing can be granted at `{}`, which is the sandbox's own; grant only the paths in it that are needed, or another path",
                at.display()
            ));
        }
        for at in targets.into_iter().chain(self.cwd.as_deref()) {
            if !is_plain_absolute(at) {
                return invalid(format!(
                    "the path inside `{}` is not absolute or holds `.` or `..`; write it out in full",
                    at.display()
                ));
            }
        }
        Ok(())
    }

    fn check_seeds(&self) -> Result<(), SandboxError> {
        let invalid = |what: String| Err(SandboxError::InvalidSpec { what });
        let bytes = self.grants.seeds.iter().fold(0usize, |sum, seed| sum.saturating_add(seed.content.len()));
        if bytes > MAX_SEED_BYTES {
            return invalid(format!(
                "the seeds are larger than {MAX_SEED_BYTES} bytes in total; grant the files instead"
            ));
        }
        let mut places = BTreeSet::new();
        for Seed { at, .. } in &self.grants.seeds {
            let private = ["/tmp", HOME].iter().any(|place| at.starts_with(place) && at != Path::new(place));
            if !(is_plain_absolute(at) && private) {
                return invalid(format!(
                    "the seed `{}` is not a path below {HOME} or /tmp; elsewhere grant the file",
                    at.display()
                ));
            }
            if !places.insert(at) {
                return invalid(format!("`{}` is seeded twice; seed it once", at.display()));
            }
        }
        Ok(())
    }
}

fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
        && !path.as_os_str().as_bytes().contains(&0)
}

/// What a command may see. Nothing else of the machine is visible.
#[derive(Debug, Default, Clone)]
pub struct Grants {
    /// Files and directories to read.
    pub read: Vec<GrantedPath>,
    /// Directories shown as a writable copy; the writes are discarded when the run ends.
    pub copy_on_write: Vec<GrantedPath>,
    /// Files that exist at the start in HOME or `/tmp`; a command may change them, because they are its own.
    pub seeds: Vec<Seed>,
    /// Environment variables.
    pub env: BTreeMap<OsString, OsString>,
    /// Directories put before the system's in `PATH`.
    pub path: Vec<PathBuf>,
    /// Secrets, redacted wherever output is captured.
    pub secrets: Vec<Secret>,
    /// Lets the command create namespaces (Chromium and other sandboxes need that).
    pub nested_namespaces: bool,
    /// Lets the command trace its own processes (debuggers).
    pub ptrace: bool,
}

impl Grants {
    /// Every value that must not show: the secrets, with the tokens in those that contain several; the seeds that are credential files
    /// by their name, and values under a key like `token` or `password` in others.
    pub fn secret_values(&self) -> Vec<Vec<u8>> {
        let secrets = self.secrets.iter().flat_map(|secret| values_of(secret.value()));
        let copies = self.seeds.iter().filter(|seed| seed.is_copy);
        let seeds = copies.flat_map(|seed| match seed.holds_credentials() {
            true => values_of(&seed.content),
            false => named_values_of(&seed.content),
        });
        secrets.chain(seeds).collect()
    }

    /// Adds a seed, replacing one with the same path.
    pub fn seed(&mut self, seed: Seed) {
        self.seeds.retain(|there| there.at != seed.at);
        self.seeds.push(seed);
    }

    /// Adds the grants of `other`; a variable that both set keeps `other`'s value.
    pub fn merge(&mut self, other: Self) {
        let add = |to: &mut Vec<GrantedPath>, from: Vec<GrantedPath>| {
            for place in from {
                if !to.contains(&place) {
                    to.push(place);
                }
            }
        };
        add(&mut self.read, other.read);
        add(&mut self.copy_on_write, other.copy_on_write);
        for seed in other.seeds {
            self.seed(seed);
        }
        self.env.extend(other.env);
        for directory in other.path {
            if !self.path.contains(&directory) {
                self.path.push(directory);
            }
        }
        self.secrets.extend(other.secrets);
        self.nested_namespaces |= other.nested_namespaces;
        self.ptrace |= other.ptrace;
    }
}

/// A path of the machine and its path inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedPath {
    /// The path outside.
    pub from: PathBuf,
    /// The path inside.
    pub at: PathBuf,
}

impl GrantedPath {
    /// The same path inside as outside.
    pub fn same(path: impl Into<PathBuf>) -> Self {
        let from = path.into();
        Self { at: from.clone(), from }
    }
}

/// Files in which programs store credentials, by name; their contents are redacted like a secret.
const CREDENTIAL_FILES: &[&str] = &[
    ".credentials.json",
    "auth.json",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "oauth_creds.json",
    "application_default_credentials.json",
    "hosts.yml",
    "token",
    "token.json",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
];

/// A file that exists at the start, in a private directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed {
    /// The path inside, below [`HOME`] or `/tmp`.
    pub at: PathBuf,
    /// Its content.
    pub content: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
    /// Whether it is a copy of a file of the machine, which may contain values that must not show.
    is_copy: bool,
}

impl Seed {
    /// A file with this content that only its owner may read.
    pub fn new(at: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        Self { at: at.into(), content: content.into(), mode: 0o600, is_copy: false }
    }

    /// Whether it is, by its name, a file in which a program stores credentials.
    fn holds_credentials(&self) -> bool {
        let name = self.at.file_name().unwrap_or_default();
        CREDENTIAL_FILES.iter().any(|known| name.eq_ignore_ascii_case(known))
    }

    /// A copy of a file of the machine, as it is now.
    ///
    /// # Errors
    /// If it cannot be read, is not a regular file or is too long.
    pub fn from_file(path: &Path, at: impl Into<PathBuf>) -> Result<Self, SandboxError> {
        use std::io::{Error, ErrorKind, Read as _};
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let failed = |source| SandboxError::Path { action: "seed a sandbox with", path: path.into(), source };
        // A pipe must not be waited for.
        let mut options = std::fs::File::options();
        let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(Error::new(
                ErrorKind::InvalidInput,
                "it is not a regular file; name each file",
            )));
        }
        let mut content = Vec::new();
        file.take(MAX_SEED_BYTES as u64 + 1).read_to_end(&mut content).map_err(failed)?;
        if content.len() > MAX_SEED_BYTES {
            let what = format!("it is larger than {MAX_SEED_BYTES} bytes; grant it instead");
            return Err(failed(Error::new(ErrorKind::FileTooLarge, what)));
        }
        let mode = metadata.permissions().mode() & 0o777;
        Ok(Self { at: at.into(), content, mode, is_copy: true })
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seed").field("at", &self.at).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A value that must not show in anything captured.
#[derive(Clone)]
pub struct Secret {
    name: OsString,
    value: Vec<u8>,
    exposure: Exposure,
}

/// How a command gets a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// As the environment variable of that name.
    Variable,
    /// As the file of that name in [`SECRETS`].
    File,
}

impl Secret {
    /// The shortest secret that can be distinguished from ordinary output.
    pub const MIN_BYTES: usize = 6;
    /// The longest one.
    pub const MAX_BYTES: usize = 64 << 10;

    /// A secret with this value.
    pub fn new(name: impl Into<OsString>, value: impl Into<Vec<u8>>, exposure: Exposure) -> Self {
        Self { name: name.into(), value: value.into(), exposure }
    }

    /// Takes the value from an environment variable of this process.
    ///
    /// # Errors
    /// If the variable is not set.
    pub fn from_env(name: impl Into<OsString>, exposure: Exposure) -> Result<Self, SandboxError> {
        let name = name.into();
        match std::env::var_os(&name) {
            Some(value) => Ok(Self::new(name, value.as_bytes(), exposure)),
            None => Err(SandboxError::InvalidSpec {
                what: format!("the secret `{}` is not set in the environment; set it", name.display()),
            }),
        }
    }

    /// Takes the value from a file, without the line end at its end.
    ///
    /// # Errors
    /// If the file cannot be read or is too long.
    pub fn from_file(
        name: impl Into<OsString>,
        path: &Path,
        exposure: Exposure,
    ) -> Result<Self, SandboxError> {
        use std::io::Read as _;
        let failed = |source| SandboxError::Path { action: "read the secret in", path: path.into(), source };
        let mut value = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(Self::MAX_BYTES as u64 + 2).read_to_end(&mut value).map_err(failed)?;
        while matches!(value.last(), Some(b'\n' | b'\r')) {
            value.pop();
        }
        Ok(Self::new(name, value, exposure))
    }

    /// Its name: of the variable or the file inside.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    pub(crate) fn exposure(&self) -> Exposure {
        self.exposure
    }

    fn check(&self) -> Result<(), SandboxError> {
        let name = self.name.as_bytes();
        let invalid = |what: String| Err(SandboxError::InvalidSpec { what });
        if name.is_empty() || name.iter().any(|b| matches!(b, 0 | b'=' | b'/')) || name.starts_with(b".") {
            return invalid(format!("`{}` is not a secret's name", self.name.display()));
        }
        if self.value.len() < Self::MIN_BYTES || self.value.len() > Self::MAX_BYTES {
            return invalid(format!(
                "the secret `{}` is not {} to {} bytes long, so it cannot be redacted; use a longer one",
                self.name.display(),
                Self::MIN_BYTES,
                Self::MAX_BYTES
            ));
        }
        if self.exposure == Exposure::Variable && self.value.contains(&0) {
            return invalid(format!(
                "the secret `{}` holds a NUL and cannot be a variable; expose it as a file",
                self.name.display()
            ));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("name", &self.name)
            .field("exposure", &self.exposure)
            .finish_non_exhaustive()
    }
}

/// The limits of a command. Every field is a limit; none can be switched off.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ResourceLimits {
    /// Wall-clock time.
    pub wall_ms: u64,
    /// CPU time of the whole tree.
    pub cpu_ms: u64,
    /// Memory of the whole tree, private tmpfs included.
    pub memory_bytes: u64,
    /// Processes and threads at once.
    pub processes: u32,
    /// Largest single file.
    pub file_bytes: u64,
    /// Open descriptors of one process.
    pub open_files: u32,
    /// The kept part of standard output.
    pub stdout_bytes: u64,
    /// The kept part of standard error.
    pub stderr_bytes: u64,
    /// The kept part of the trace channel, which is also passed on.
    pub trace_bytes: u64,
    /// `/tmp`, `/dev/shm` and HOME together (they are in memory).
    pub scratch_bytes: u64,
    /// Total writes to all copy-on-write directories.
    pub disk_bytes: u64,
    /// Between SIGTERM and SIGKILL when time is up or the run is cancelled.
    pub grace_ms: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            wall_ms: 10 * 60 * 1000,
            cpu_ms: 20 * 60 * 1000,
            memory_bytes: 2 << 30,
            processes: 512,
            file_bytes: 1 << 30,
            open_files: 4096,
            stdout_bytes: 8 << 20,
            stderr_bytes: 8 << 20,
            trace_bytes: 32 << 20,
            scratch_bytes: 512 << 20,
            disk_bytes: 4 << 30,
            grace_ms: 500,
        }
    }
}

impl ResourceLimits {
    fn check(&self) -> Result<(), SandboxError> {
        const DAY_MS: u64 = 24 * 60 * 60 * 1000;
        let ranges = [
            ("wall_ms", self.wall_ms, 1, 7 * DAY_MS),
            ("cpu_ms", self.cpu_ms, 1, 256 * 7 * DAY_MS),
            ("memory_bytes", self.memory_bytes, 1 << 20, 1 << 44),
            ("processes", self.processes.into(), 1, 1 << 20),
            ("file_bytes", self.file_bytes, 0, 1 << 44),
            ("open_files", self.open_files.into(), 16, 1 << 20),
            ("stdout_bytes", self.stdout_bytes, 0, 1 << 30),
            ("stderr_bytes", self.stderr_bytes, 0, 1 << 30),
            ("trace_bytes", self.trace_bytes, 0, 1 << 30),
            ("scratch_bytes", self.scratch_bytes, 1 << 16, 1 << 40),
            ("disk_bytes", self.disk_bytes, 0, 1 << 44),
            ("grace_ms", self.grace_ms, 0, 10 * 60 * 1000),
        ];
        for (name, value, low, high) in ranges {
            if value < low || value > high {
                return Err(SandboxError::InvalidSpec {
                    what: format!("the limit `{name}` is {value}; it must be between {low} and {high}"),
                });
            }
        }
        Ok(())
    }
}

/// The standard input of a command.
#[derive(Debug, Clone, Default)]
pub enum Stdin {
    /// Nothing.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// The bytes of this process's standard input, through a pipe. A command that leaves some of it unread leaves
    /// that to the next reader only if it is a file.
    Inherit,
}

/// The network of a command.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// A separate namespace with only loopback.
    #[default]
    None,
    /// The same, and a proxy inside that connects only to these hosts.
    Hosts(Vec<Host>),
    /// The machine's own network, granted explicitly.
    Host,
}

/// A view mounted at a path inside.
#[derive(Debug)]
pub struct Mount<'v> {
    /// The view.
    pub view: &'v View,
    /// The path inside.
    pub at: PathBuf,
}
