//! A run without namespaces, if they are not available and that was accepted. Owns what remains: Landlock shows only the
//! system's directories and the granted paths, the filter refuses every socket, and limits, watchdog and an
//! unprivileged user work as usual. Refuses to run without seccomp and a Landlock that keeps signals inside.
//!
//! Nothing can be mounted, so the private directories and the copies of views are where the caller created them. Every path of
//! the request (program, arguments, variables, working directory) that names a place inside is rewritten to it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::Signal;

use super::command::{self, Setup};
use super::confine::Confinement;
use super::survey::{Disk, WrittenTo};
use super::watch::Members;
use super::{become_user, sources};
use crate::outcome::Layer;
use crate::spec::{HOME, SECRETS, TRACE_CHANNEL};
use crate::sys;
use crate::wire::{BarePlan, Failure, NetworkPlan, Report, Request, SetupStep, SourcePlan};

/// The version of Landlock that keeps signals inside.
const SIGNALS_ABI: u32 = 6;

pub(super) fn run(
    control: &mut UnixStream,
    request: &mut Request,
    plan: &BarePlan,
    stdin: OwnedFd,
) -> Result<Report, Failure> {
    if sys::landlock_abi() == 0 || !sys::has_seccomp() {
        return Err(plan.missing.clone());
    }
    if sys::landlock_abi() < SIGNALS_ABI {
        let error = io::Error::from_raw_os_error(libc::ENOSYS);
        return Err(Failure::new(SetupStep::Landlock, "signals would reach other processes", &error));
    }
    let places = Places::new(request, plan);
    let trace_channel = request.trace_channel.then(|| places.trace_channel(request)).transpose()?;
    command::offer_trace_channel(control, trace_channel.as_ref())?;
    let mut stores = vec![WrittenTo { directory: directory(&places.scratch)?, holds_a_copy: false }];
    let (mut readable, mut writable) = (readable(request), vec![places.scratch.clone().into_os_string()]);
    for mount in &request.mounts {
        match &mount.source {
            SourcePlan::Read { path } => readable.push(path.clone()),
            SourcePlan::Copy { path } => {
                stores.push(WrittenTo { directory: directory(Path::new(path))?, holds_a_copy: true });
                writable.push(path.clone());
            }
            SourcePlan::Overlay { .. } => return Err(plan.missing.clone()),
        }
    }
    writable.extend(sources::DEVICES.map(OsString::from));
    let confinement = Confinement::prepare(request, Some(&readable), &writable, false)?;
    places.rewrite(request);
    if request.probe {
        return Ok(Report::default());
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| Failure::new(SetupStep::Watch, "adopt orphans", &e.into()))?;
    let settle = |request: &Request| {
        if let Some((uid, gid)) = request.become_ids {
            become_user(uid, gid)
                .map_err(|e| Failure::new(SetupStep::Privileges, "the unprivileged user", &e))?;
        }
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        places.make_private(request)
    };
    let setup = Setup {
        confinement,
        disk: Disk::new(request.limits.disk_bytes, stores),
        scratch: None,
        members: Members::Descendants,
        layers: vec![Layer::Watchdog],
        missing: vec![plan.missing.clone()],
    };
    command::run(control, request, stdin, setup, settle)
}

fn directory(path: &Path) -> Result<OwnedFd, Failure> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Failure::new(SetupStep::Grant, path.to_string_lossy(), &e.into()))
}

/// The system's directories, as they are.
fn readable(request: &Request) -> Vec<OsString> {
    let hosts = (request.network == NetworkPlan::Host).then_some("/etc/resolv.conf");
    let names = ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/proc"];
    let system = sources::SYSTEM.into_iter().chain(sources::ETC).chain(names).chain(hosts);
    system.filter(|path| Path::new(path).exists()).map(OsString::from).collect()
}

/// The real paths of the private directories.
struct Places {
    scratch: PathBuf,
    by_inside: BTreeMap<PathBuf, PathBuf>,
}

impl Places {
    fn new(request: &Request, plan: &BarePlan) -> Self {
        let scratch = PathBuf::from(&plan.scratch);
        let private = [(HOME, "home"), ("/tmp", "tmp"), (SECRETS, "secrets"), (TRACE_CHANNEL, "trace")];
        let mut by_inside: BTreeMap<PathBuf, PathBuf> =
            private.into_iter().map(|(inside, name)| (inside.into(), scratch.join(name))).collect();
        for mount in &request.mounts {
            let (SourcePlan::Copy { path } | SourcePlan::Read { path }) = &mount.source else { continue };
            by_inside.insert(PathBuf::from(&mount.at), path.into());
        }
        Self { scratch, by_inside }
    }

    /// The real path of a path inside.
    fn real(&self, path: &Path) -> PathBuf {
        let found = path.ancestors().find_map(|inside| self.by_inside.get_key_value(inside));
        match found.and_then(|(inside, real)| Some((real, path.strip_prefix(inside).ok()?))) {
            Some((real, rest)) if rest.as_os_str().is_empty() => real.clone(),
            Some((real, rest)) => real.join(rest),
            None => path.to_path_buf(),
        }
    }

    /// Rewrites every word of the request that is a path inside, or a list of them, to the real one.
    fn rewrite(&self, request: &mut Request) {
        let word = |word: &mut OsString| {
            let parts: Vec<OsString> = (word.as_bytes().split(|byte| *byte == b':'))
                .map(|part| Path::new(OsStr::from_bytes(part)))
                .map(|part| if part.is_absolute() { self.real(part).into() } else { part.into() })
                .collect();
            *word = parts.join(OsStr::new(":"));
        };
        request.command.iter_mut().for_each(word);
        request.env.iter_mut().for_each(|(_, value)| word(value));
        word(&mut request.cwd);
    }

    fn trace_channel(&self, request: &Request) -> Result<OwnedFd, Failure> {
        let path = self.real(Path::new(TRACE_CHANNEL));
        let failed = |e: io::Error| Failure::new(SetupStep::RootFileSystem, TRACE_CHANNEL, &e);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).map_err(|e| failed(e.into()))?;
        if let Some((uid, gid)) = request.become_ids {
            chown(&path, Some(uid), Some(gid)).map_err(failed)?;
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        open(&path, flags, Mode::empty()).map_err(|e| failed(e.into()))
    }

    /// Creates the private directories, as their user: seeds, secrets, and links to granted paths inside them.
    fn make_private(&self, request: &Request) -> Result<(), Failure> {
        let failed = |path: &Path| {
            let detail = path.to_string_lossy().into_owned();
            move |e: io::Error| Failure::new(SetupStep::Grant, detail, &e)
        };
        for inside in [HOME, "/tmp", SECRETS] {
            let path = self.real(Path::new(inside));
            make_directory(&path).map_err(failed(&path))?;
        }
        let secrets =
            request.secret_files.iter().map(|(name, value)| (Path::new(SECRETS).join(name), value, 0o400));
        let seeds = request.seeds.iter().map(|seed| (PathBuf::from(&seed.at), &seed.content, seed.mode));
        for (at, content, mode) in secrets.chain(seeds) {
            let path = self.real(&at);
            let written = path.parent().map_or(Ok(()), make_directory).and_then(|()| {
                let mut options = std::fs::File::options();
                options.write(true).create_new(true).mode(mode).open(&path)?.write_all(content)
            });
            written.map_err(failed(&path))?;
        }
        for mount in &request.mounts {
            let at = Path::new(&mount.at);
            let (SourcePlan::Copy { path } | SourcePlan::Read { path }) = &mount.source else { continue };
            let Some((private, rest)) =
                ["/tmp", HOME].iter().find_map(|p| Some((p, at.strip_prefix(p).ok()?)))
            else {
                continue;
            };
            let link = self.real(Path::new(private)).join(rest);
            let made = link.parent().map_or(Ok(()), make_directory).and_then(|()| symlink(path, &link));
            made.map_err(failed(&link))?;
        }
        Ok(())
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}
