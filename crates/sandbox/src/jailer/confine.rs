//! The last steps before the command: rlimits, Landlock, no new privileges, no capability, seccomp, exec.
//! Owns their order; refuses to exec if one of them failed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::BpfProgram;

use super::filter;
use crate::outcome::Layer;
use crate::sys;
use crate::wire::{Failure, NetworkPlan, Request, SetupStep};

/// Everything that can be prepared before the command's process exists.
pub(super) struct Confinement {
    /// Empty if the kernel has no filters and that was accepted.
    filters: Vec<BpfProgram>,
    landlock: Option<RulesetCreated>,
}

impl Confinement {
    /// `readable` are the only readable paths; `None` if the root shows nothing else. With `local_sockets` every local socket
    /// that can be named belongs to the tree.
    pub(super) fn prepare(
        request: &Request,
        readable: Option<&[OsString]>,
        writable: &[OsString],
        local_sockets: bool,
    ) -> Result<Self, Failure> {
        let bare = request.bare.is_some();
        let filters = filter::programs(&filter::Options {
            nested_namespaces: request.nested_namespaces,
            ptrace: request.ptrace,
            unmapped_memory: request.memory_is_counted,
            sockets: request.network == NetworkPlan::Host || !(bare || request.no_network.is_some()),
            namespaces: !bare,
            local_sockets,
            own_user: request.become_ids.is_some(),
        })
        .map_err(|e| Failure::new(SetupStep::Seccomp, e.to_string(), &io::Error::other("the filter")))?;
        // Landlock forbids every mount, so it cannot confine a command that may create namespaces.
        let landlock = if request.nested_namespaces && !bare { None } else { ruleset(readable, writable) };
        if bare && landlock.is_none() {
            return Err(Failure::new(SetupStep::Landlock, "the ruleset", &io::Error::other("landlock")));
        }
        let mut confinement = Self { filters, landlock };
        if !sys::has_seccomp() {
            confinement.filters.clear();
        }
        Ok(confinement)
    }

    /// What full strength would have in addition.
    pub(super) fn missing(&self) -> Option<Failure> {
        let error = io::Error::from_raw_os_error(libc::ENOSYS);
        self.filters.is_empty().then(|| Failure::new(SetupStep::Seccomp, "the filter", &error))
    }

    pub(super) fn layers(&self) -> Vec<Layer> {
        let mut layers = vec![Layer::NoNewPrivileges, Layer::Rlimits];
        layers.extend((!self.filters.is_empty()).then_some(Layer::Seccomp));
        layers.extend(self.landlock.is_some().then_some(Layer::Landlock));
        layers
    }

    /// Becomes the command; returns only with the reason why that failed.
    pub(super) fn execute(self, request: &Request, stdin: &OwnedFd) -> Failure {
        match self.confine_and_execute(request, stdin) {
            Ok(never) => match never {},
            Err(failure) => failure,
        }
    }

    fn confine_and_execute(
        self,
        request: &Request,
        stdin: &OwnedFd,
    ) -> Result<std::convert::Infallible, Failure> {
        let privileges = |what: &'static str| {
            move |e: rustix::io::Errno| Failure::new(SetupStep::Privileges, what, &e.into())
        };
        rustix::process::setsid().map_err(privileges("a new session"))?;
        rustix::stdio::dup2_stdin(stdin).map_err(privileges("standard input"))?;
        sys::close_on_exec_from(3).map_err(|e| Failure::new(SetupStep::Privileges, "descriptors", &e))?;
        // The first to be killed when memory runs out, before pid 1; without it the limit still applies.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        // A server's huge-page setting would be inherited, but an agent may profit from them. If the kernel does not know them, nothing is missing.
        let _ = rustix::thread::disable_transparent_huge_pages(false);
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        rustix::process::chdir(&request.cwd).map_err(|e| {
            Failure::new(SetupStep::WorkingDirectory, request.cwd.to_string_lossy(), &e.into())
        })?;
        limits(request)?;
        rustix::thread::set_no_new_privs(true).map_err(privileges("no_new_privs"))?;
        if let Some(ruleset) = self.landlock {
            let status = ruleset.restrict_self().map_err(|e| {
                Failure::new(SetupStep::Landlock, e.to_string(), &io::Error::other("landlock"))
            })?;
            if status.ruleset == RulesetStatus::NotEnforced {
                return Err(Failure::new(SetupStep::Landlock, "not enforced", &io::Error::other("landlock")));
            }
        }
        sys::drop_capabilities().map_err(|e| Failure::new(SetupStep::Privileges, "capabilities", &e))?;
        let program = find_program(request);
        for filter in &self.filters {
            seccompiler::apply_filter(filter)
                .map_err(|e| Failure::new(SetupStep::Seccomp, e.to_string(), &io::Error::last_os_error()))?;
        }
        let program = program?;
        sys::hold_signals(false);
        let Some((name, arguments)) = request.command.split_first() else {
            return Err(Failure::new(SetupStep::Start, "", &io::Error::from_raw_os_error(libc::ENOENT)));
        };
        let error = Command::new(program)
            .arg0(name)
            .args(arguments)
            .env_clear()
            .envs(request.env.iter().map(|(k, v)| (k, v)))
            .exec();
        Err(Failure::new(SetupStep::Start, name.to_string_lossy(), &error))
    }
}

/// The capabilities that pid 1 keeps: to see every process's memory, kill it, and measure its writes.
pub(super) fn keep_watch_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    let kept = CapabilitySet::SYS_PTRACE | CapabilitySet::KILL | CapabilitySet::DAC_READ_SEARCH;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

fn find_program(request: &Request) -> Result<PathBuf, Failure> {
    let name: &OsStr = request.command.first().map_or(OsStr::new(""), OsString::as_os_str);
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path =
        request.env.iter().rev().find(|(k, _)| k == "PATH").map_or(OsStr::new(""), |(_, v)| v.as_os_str());
    for directory in path.as_bytes().split(|b| *b == b':').filter(|d| !d.is_empty()) {
        let candidate = Path::new(OsStr::from_bytes(directory)).join(name);
        if candidate.is_file() && rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok() {
            return Ok(candidate);
        }
    }
    Err(Failure::new(SetupStep::Start, name.to_string_lossy(), &io::Error::from_raw_os_error(libc::ENOENT)))
}

fn limits(request: &Request) -> Result<(), Failure> {
    let limits = &request.limits;
    // Counted only in this user namespace: the tree's processes and threads, and pid 1 with its survey. Without one,
    // everything else that the user runs counts too.
    let others = if request.bare.is_some() { super::watch::own_threads() } else { 1 };
    let processes = u64::from(limits.processes).saturating_add(others).saturating_add(1);
    let seconds = limits.cpu_ms.div_ceil(1000).max(1);
    let values = [
        (Resource::Cpu, seconds, seconds.saturating_add(1)),
        (Resource::Fsize, limits.file_bytes, limits.file_bytes),
        (Resource::Nofile, limits.open_files.into(), limits.open_files.into()),
        (Resource::Nproc, processes, processes),
        (Resource::Core, 0, 0),
        (Resource::Memlock, 8 << 20, 8 << 20),
        (Resource::Msgqueue, 819_200, 819_200),
        (Resource::Sigpending, 4096, 4096),
        (Resource::Nice, 0, 0),
        (Resource::Rtprio, 0, 0),
    ];
    for (resource, soft, hard) in values {
        let now = rustix::process::getrlimit(resource);
        let hard = now.maximum.map_or(hard, |maximum| maximum.min(hard));
        let wanted = Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) };
        setrlimit(resource, wanted)
            .map_err(|e| Failure::new(SetupStep::ResourceLimits, format!("{resource:?}"), &e.into()))?;
    }
    Ok(())
}

/// Reading and executing everywhere if the root shows only granted paths, else at the named
/// paths; writing to granted paths, and no signal or abstract socket out of the sandbox. `None` if the kernel has no Landlock.
fn ruleset(readable: Option<&[OsString]>, writable: &[OsString]) -> Option<RulesetCreated> {
    let abi = ABI::V6;
    let all = AccessFs::from_all(abi);
    let mut created = Ruleset::default()
        .handle_access(all)
        .and_then(|r| r.scope(Scope::AbstractUnixSocket))
        .and_then(|r| r.scope(Scope::Signal))
        .and_then(Ruleset::create)
        .ok()?;
    let everything = [OsString::from("/")];
    for path in readable.unwrap_or(&everything) {
        let rule = PathBeneath::new(PathFd::new(path).ok()?, AccessFs::from_read(abi));
        created = created.add_rule(rule).ok()?;
    }
    for path in writable {
        created = created.add_rule(PathBeneath::new(PathFd::new(path).ok()?, all)).ok()?;
    }
    supported().then_some(created)
}

/// Whether the kernel has Landlock: without it, best effort creates a ruleset that does nothing.
pub(crate) fn supported() -> bool {
    crate::sys::landlock_abi() > 0
}
