//! The messages between the parent and its helper over the control socket: one length-prefixed JSON
//! document per message. Owns the messages and their framing; refuses one over its limit.

use std::ffi::OsString;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::outcome::{Cut, Exit, Layer};
use crate::spec::ResourceLimits;

/// The argv[0] under which the binary is the helper.
pub(crate) const HELPER_NAME: &str = "crealeph-sandbox-helper";
/// The descriptors that the helper gets for each run: the control socket, standard output, error and input, the lock of the state
/// folder, and the end of a pipe that it keeps open for as long as it lives.
pub(crate) const DESCRIPTORS: usize = 6;
/// Written by the parent: ask the tree to end.
pub(crate) const TERMINATE: u8 = b'T';

const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Everything the helper needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub command: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: OsString,
    pub limits: ResourceLimits,
    pub network: NetworkPlan,
    /// Parents before children.
    pub mounts: Vec<MountPlan>,
    pub secret_files: Vec<(OsString, Vec<u8>)>,
    pub seeds: Vec<SeedPlan>,
    pub trace_channel: bool,
    /// The ids to take outside, when started as root.
    pub become_ids: Option<(u32, u32)>,
    /// Files to write our pid to.
    pub cgroup_joins: Vec<OsString>,
    /// Whether a cgroup counts the tree's memory, so that unmapped shared memory is bounded.
    pub memory_is_counted: bool,
    pub nested_namespaces: bool,
    pub ptrace: bool,
    /// Run with the available features.
    pub reduced: bool,
    /// Why there is no network namespace, if that was accepted.
    pub no_network: Option<Failure>,
    /// Run without namespaces.
    pub bare: Option<BarePlan>,
    /// Only try: set everything up, run nothing.
    pub probe: bool,
}

/// How to run without namespaces.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BarePlan {
    /// A folder for the private places; of the user the command runs as.
    pub scratch: OsString,
    /// Why there are no namespaces.
    pub missing: Failure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NetworkPlan {
    None,
    /// `bypass_loopback`: programs reach the sandbox's own loopback directly, not through the proxy.
    Proxy {
        bypass_loopback: bool,
    },
    Host,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MountPlan {
    pub at: OsString,
    pub source: SourcePlan,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum SourcePlan {
    /// A read-only bind of a file or directory.
    Read { path: OsString },
    /// An overlay: lower directories, nearest first; `store` holds `upper` and `work`.
    Overlay { lowers: Vec<OsString>, store: OsString },
    /// A writable bind of a plain copy.
    Copy { path: OsString },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SeedPlan {
    pub at: OsString,
    pub content: Vec<u8>,
    pub mode: u32,
}

/// The helper's messages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// A descriptor comes along: the proxy's listening socket.
    Listening,
    /// A descriptor comes along: our end of the trace channel.
    Tracing,
    /// The command has ended, and how.
    Done(Report),
    /// A step failed; nothing was run.
    Failed(Failure),
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub exit: Exit,
    pub cut: Option<Cut>,
    pub cpu_us: u64,
    pub peak_memory_bytes: u64,
    pub peak_processes: u32,
    pub layers: Vec<Layer>,
    pub missing: Vec<Failure>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub step: SetupStep,
    pub detail: String,
    pub errno: i32,
}

/// A step of the set-up; the advice depends on which one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SetupStep {
    Request,
    Cgroup,
    Grant,
    Namespaces,
    IdMap,
    RootFileSystem,
    Proc,
    Overlay,
    Loopback,
    ResourceLimits,
    Landlock,
    Seccomp,
    Privileges,
    WorkingDirectory,
    Start,
    Watch,
}

impl Failure {
    pub(crate) fn new(step: SetupStep, detail: impl Into<String>, error: &io::Error) -> Self {
        Self { step, detail: detail.into(), errno: error.raw_os_error().unwrap_or(0) }
    }

    /// Whether it says that this machine has no namespaces or no mounts in them.
    pub(crate) fn lacks_namespaces(&self) -> bool {
        let denied =
            [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::ENOSPC, libc::EUSERS, libc::EINVAL, libc::ENODEV];
        matches!(self.step, SetupStep::Namespaces | SetupStep::RootFileSystem | SetupStep::Loopback)
            && denied.contains(&self.errno)
    }

    pub(crate) fn source(&self) -> io::Error {
        if self.errno == 0 {
            io::Error::other(self.detail.clone())
        } else {
            io::Error::from_raw_os_error(self.errno)
        }
    }
}

/// Writes one message.
pub(crate) fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&encode(message)?)
}

pub(crate) fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|l| *l as usize <= MAX_MESSAGE_BYTES);
    let length = length.ok_or_else(|| io::Error::other("the message exceeds its limit"))?;
    let mut bytes = Vec::with_capacity(body.len().saturating_add(4));
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// Reads one message, waiting for it.
pub(crate) fn receive<T: for<'d> Deserialize<'d>>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0u8; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::other("the message exceeds its limit"));
    }
    let mut body = vec![0u8; length];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Takes the first whole message off the front of `buffer`.
pub(crate) fn take<T: for<'d> Deserialize<'d>>(buffer: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some(length) = buffer.first_chunk::<4>().map(|l| u32::from_le_bytes(*l) as usize) else {
        return Ok(None);
    };
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::other("the message exceeds its limit"));
    }
    let Some(body) = buffer.get(4..length.saturating_add(4)) else { return Ok(None) };
    let message = serde_json::from_slice(body)?;
    buffer.drain(..length.saturating_add(4));
    Ok(Some(message))
}
