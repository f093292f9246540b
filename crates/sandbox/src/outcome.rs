//! The outcome of a run. Owns the types of the answer; refuses to judge it: a non-zero exit is an outcome,
//! not an error.

use serde::{Deserialize, Serialize};

use crate::network::ProxiedConnection;

/// How a run ended and what it used.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxOutcome {
    /// How the command itself ended.
    pub exit: Exit,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// What it wrote to the trace channel, if it had one.
    pub trace: Captured,
    /// What it used.
    pub usage: Usage,
    /// What was cut off, and why; empty if no limit was reached.
    pub cuts: Vec<Cut>,
    /// Every connection the proxy made or refused.
    pub connections: Vec<ProxiedConnection>,
    /// Connections and refusals beyond the limit of the list.
    pub connections_left_off: u64,
    /// The isolation of the command.
    pub strength: Strength,
}

impl SandboxOutcome {
    /// Whether the command ended by itself with code 0 and nothing but output was cut.
    pub fn succeeded(&self) -> bool {
        self.failure().is_none()
    }

    /// Why the command did not succeed; `None` if it did. A limit that ended the run takes precedence over the exit that it caused.
    pub fn failure(&self) -> Option<RunFailure<'_>> {
        match self.cuts.iter().find(|cut| cut.ended_the_run()) {
            Some(Cut::Cancelled) => Some(RunFailure::Cancelled),
            Some(Cut::WallTime { .. }) => Some(RunFailure::OutOfTime),
            Some(cut) => Some(RunFailure::Limit(cut)),
            None if self.exit == Exit::Code(0) => None,
            None => Some(RunFailure::Exit(self.exit)),
        }
    }
}

/// Why a command did not succeed. Its text continues a sentence that starts with the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFailure<'o> {
    /// The caller cancelled it.
    Cancelled,
    /// It exceeded its wall-clock time.
    OutOfTime,
    /// Another limit ended it.
    Limit(&'o Cut),
    /// It ended by itself, not with code 0, or was killed.
    Exit(Exit),
}

impl std::fmt::Display for RunFailure<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cancelled => f.write_str("was cancelled"),
            Self::OutOfTime => f.write_str("did not end in time"),
            Self::Limit(cut) => write!(f, "was stopped: {cut}"),
            Self::Exit(exit) => exit.fmt(f),
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It was killed together with its sandbox.
    #[default]
    Killed,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::Killed => f.write_str("was killed"),
        }
    }
}

/// A bounded copy of an output, secrets redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes, up to the limit.
    pub bytes: Vec<u8>,
    /// How many bytes there were, after redaction.
    pub total_bytes: u64,
    /// How many secrets were redacted.
    pub redactions: u64,
}

impl Captured {
    /// Whether something was cut off.
    pub fn truncated(&self) -> bool {
        self.total_bytes > self.bytes.len() as u64
    }

    /// The bytes as text, with invalid UTF-8 replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

impl Serialize for Captured {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut fields = serializer.serialize_struct("Captured", 4)?;
        fields.serialize_field("text", &self.text())?;
        fields.serialize_field("totalBytes", &self.total_bytes)?;
        fields.serialize_field("truncated", &self.truncated())?;
        fields.serialize_field("redactions", &self.redactions)?;
        fields.end()
    }
}

/// The resources that a run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Wall-clock time, set-up included.
    pub wall_ms: u64,
    /// CPU time of the tree.
    pub cpu_ms: u64,
    /// The largest memory seen.
    pub peak_memory_bytes: u64,
    /// The most processes and threads seen at once.
    pub peak_processes: u32,
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase", tag = "cut")]
pub enum Cut {
    /// The run was ended: wall-clock time.
    WallTime {
        /// The limit.
        limit_ms: u64,
    },
    /// The run was ended: CPU time.
    CpuTime {
        /// The limit.
        limit_ms: u64,
    },
    /// The run was ended: memory of the tree.
    Memory {
        /// The limit.
        limit_bytes: u64,
        /// What was seen.
        seen_bytes: u64,
    },
    /// The run was ended: written to copy-on-write directories.
    Disk {
        /// The limit.
        limit_bytes: u64,
        /// What was seen.
        seen_bytes: u64,
    },
    /// The run was ended: directories nested too deep to be measured.
    Depth {
        /// The deepest that is measured.
        limit: u64,
    },
    /// The run was ended by its caller.
    Cancelled,
    /// New processes were refused.
    Processes {
        /// The limit.
        limit: u32,
    },
    /// The end of standard output was cut off.
    Stdout {
        /// The limit.
        limit_bytes: u64,
        /// What was written.
        total_bytes: u64,
    },
    /// The end of standard error was cut off.
    Stderr {
        /// The limit.
        limit_bytes: u64,
        /// What was written.
        total_bytes: u64,
    },
    /// The end of the trace was cut off.
    Trace {
        /// The limit.
        limit_bytes: u64,
        /// What was written.
        total_bytes: u64,
    },
}

impl Cut {
    /// Whether this cut ended the run, rather than refusing or cutting something off.
    pub fn ended_the_run(&self) -> bool {
        !matches!(
            self,
            Self::Processes { .. } | Self::Stdout { .. } | Self::Stderr { .. } | Self::Trace { .. }
        )
    }
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::WallTime { limit_ms } => write!(f, "ended after {limit_ms} ms (limit `wall_ms`)"),
            Self::CpuTime { limit_ms } => write!(f, "ended after {limit_ms} ms of CPU time (limit `cpu_ms`)"),
            Self::Memory { limit_bytes, seen_bytes } => {
                write!(f, "ended at {seen_bytes} bytes of memory (limit `memory_bytes` {limit_bytes})")
            }
            Self::Disk { limit_bytes, seen_bytes } => {
                write!(f, "ended at {seen_bytes} bytes written (limit `disk_bytes` {limit_bytes})")
            }
            Self::Depth { limit } => write!(f, "ended because directories were nested past {limit}"),
            Self::Cancelled => write!(f, "ended because it was cancelled"),
            Self::Processes { limit } => write!(f, "processes were refused past {limit} (limit `processes`)"),
            Self::Stdout { limit_bytes, total_bytes } => {
                write!(f, "standard output kept {limit_bytes} of {total_bytes} bytes (limit `stdout_bytes`)")
            }
            Self::Stderr { limit_bytes, total_bytes } => {
                write!(f, "standard error kept {limit_bytes} of {total_bytes} bytes (limit `stderr_bytes`)")
            }
            Self::Trace { limit_bytes, total_bytes } => {
                write!(f, "the trace kept {limit_bytes} of {total_bytes} bytes (limit `trace_bytes`)")
            }
        }
    }
}

/// The isolation of a command while it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Strength {
    /// Full, or reduced.
    pub level: Level,
    /// The layers that were in force.
    pub layers: Vec<Layer>,
    /// What full strength would have had in addition.
    pub missing: Vec<Missing>,
    /// Whether the command shared the machine's network, as requested.
    pub host_network: bool,
}

/// Full, or reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Namespaces, no new privileges, seccomp, rlimits and the watchdog, all of them.
    Full,
    /// Less than that, explicitly accepted.
    Reduced,
}

/// A layer of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// User, PID, mount, IPC, UTS, cgroup and network namespaces, and its own root file system.
    Namespaces,
    /// `no_new_privs`, and no capability.
    NoNewPrivileges,
    /// The system call filter.
    Seccomp,
    /// Limits the kernel holds for each process.
    Rlimits,
    /// The watchdog over the tree's memory, processes, CPU time and disk.
    Watchdog,
    /// Landlock (recorded; not needed for full).
    Landlock,
    /// cgroup v1 limits (recorded; not needed for full).
    CgroupV1,
    /// cgroup v2 limits (recorded; not needed for full).
    CgroupV2,
}

/// A requirement of full strength that this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its name.
    pub what: String,
    /// How to get it.
    pub advice: String,
}
