//! Opening granted paths as detached mounts. Owns the choice of flags and of the id mapping; refuses a
//! grant that does not exist.
//!
//! If started as root, the outer half opens them, each seen as if its owner were the sandbox's user (an
//! id-mapped mount), so that a grant is readable, and a view writable, no matter who owns the tree. If a file
//! system cannot do that the mount stays as it is and the modes for "others" decide.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::{WaitOptions, waitpid};

use crate::sys::{self, Forked};
use crate::wire::{Failure, Request, SetupStep, SourcePlan};

/// System directories shown read-only if they exist; a symbolic link is shown as one.
pub(super) const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc/alternatives"];
/// Parts of `/etc` that programs need and that hold nothing private.
pub(super) const ETC: [&str; 8] = [
    "/etc/ld.so.cache",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/crypto-policies",
    "/etc/localtime",
];
pub(super) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// A detached mount and where it goes.
pub(super) struct Bind {
    pub(super) at: OsString,
    pub(super) tree: OwnedFd,
    pub(super) is_dir: bool,
    /// Whether something else is mounted below it.
    pub(super) has_mounts: bool,
}

/// The source of a mount of the request.
pub(super) enum Source {
    Bind(Bind),
    Overlay { at: OsString, lowers: Vec<OwnedFd>, store: OwnedFd },
}

/// Everything that becomes visible inside.
pub(super) struct Opened {
    pub(super) system: Vec<Bind>,
    /// Link and target.
    pub(super) links: Vec<(OsString, OsString)>,
    pub(super) devices: Vec<Bind>,
    pub(super) mounts: Vec<Source>,
}

/// Opens everything; owners are shown as the uid `map_to`.
pub(super) fn open_all(request: &Request, map_to: Option<u32>) -> Result<Opened, Failure> {
    let mut opened =
        Opened { system: Vec::new(), links: Vec::new(), devices: Vec::new(), mounts: Vec::new() };
    let extra = matches!(request.network, crate::wire::NetworkPlan::Host).then_some("/etc/resolv.conf");
    for path in SYSTEM.into_iter().chain(ETC).chain(extra) {
        open_system(path, &mut opened)?;
    }
    for path in DEVICES {
        if let Some(bind) =
            bind(OsStr::new(path), path.into(), libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC)?
        {
            opened.devices.push(bind);
        }
    }
    let mut maps = IdMaps { map_to, made: BTreeMap::new() };
    let plain = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    for mount in &request.mounts {
        let at = mount.at.clone();
        opened.mounts.push(match &mount.source {
            SourcePlan::Read { path } => {
                let bind = required(path, at, plain | libc::MOUNT_ATTR_RDONLY)?;
                maps.apply(path, &bind.tree, false)?;
                Source::Bind(bind)
            }
            SourcePlan::Copy { path } => Source::Bind(required(path, at, plain)?),
            SourcePlan::Overlay { lowers, store } => {
                let mut trees = Vec::new();
                for lower in lowers {
                    let tree = required(lower, OsString::new(), plain | libc::MOUNT_ATTR_RDONLY)?.tree;
                    maps.apply(lower, &tree, true)?;
                    trees.push(tree);
                }
                let store = required(store, OsString::new(), plain)?.tree;
                Source::Overlay { at, lowers: trees, store }
            }
        });
    }
    Ok(opened)
}

fn open_system(path: &str, opened: &mut Opened) -> Result<(), Failure> {
    let Ok(kind) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if kind.is_symlink() && path != "/etc/localtime" {
        if let Ok(target) = std::fs::read_link(path) {
            opened.links.push((path.into(), target.into_os_string()));
        }
        return Ok(());
    }
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_RDONLY;
    opened.system.extend(bind(OsStr::new(path), path.into(), attributes)?);
    Ok(())
}

fn required(path: &OsStr, at: OsString, attributes: u64) -> Result<Bind, Failure> {
    let missing = || {
        Failure::new(SetupStep::Grant, path.to_string_lossy(), &io::Error::from_raw_os_error(libc::ENOENT))
    };
    bind(path, at, attributes)?.ok_or_else(missing)
}

/// A detached copy of the mount tree at `path`; none if nothing is there.
fn bind(path: &OsStr, at: OsString, attributes: u64) -> Result<Option<Bind>, Failure> {
    let failed = |e: io::Error| Failure::new(SetupStep::Grant, path.to_string_lossy(), &e);
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = match open_tree(CWD, path, flags) {
        Ok(tree) => tree,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(e @ (rustix::io::Errno::PERM | rustix::io::Errno::NOSYS)) => {
            return Err(Failure::new(SetupStep::RootFileSystem, "mounts", &e.into()));
        }
        Err(e) => return Err(failed(e.into())),
    };
    let stat = rustix::fs::fstat(&tree).map_err(|e| failed(e.into()))?;
    let is_dir = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    sys::mount_setattr(tree.as_fd(), true, attributes, 0, None).map_err(failed)?;
    Ok(Some(Bind { at, tree, is_dir, has_mounts: is_dir && has_mounts(path) }))
}

/// Whether something is mounted below a directory; true if that cannot be known.
fn has_mounts(directory: &OsStr) -> bool {
    let Ok(mounts) = std::fs::read("/proc/self/mountinfo") else { return true };
    // Spaces and the like are written as octal numbers; such a path is not searched for.
    let is_plain = !directory.as_bytes().iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\\'));
    let below = [directory.as_bytes(), b"/"].concat();
    let is_below =
        |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).is_some_and(|point| point.starts_with(&below));
    !is_plain || mounts.split(|byte| *byte == b'\n').any(is_below)
}

/// User namespaces that say "this owner is the sandbox's user", created once for each owner.
struct IdMaps {
    map_to: Option<u32>,
    made: BTreeMap<(u32, u32), OwnedFd>,
}

impl IdMaps {
    fn apply(&mut self, path: &OsStr, tree: &OwnedFd, required: bool) -> Result<(), Failure> {
        let Some(to) = self.map_to else { return Ok(()) };
        let failed = |e: io::Error| Failure::new(SetupStep::IdMap, path.to_string_lossy(), &e);
        let stat = rustix::fs::fstat(tree).map_err(|e| failed(e.into()))?;
        let owner = (stat.st_uid, stat.st_gid);
        if owner == (to, to) {
            return Ok(());
        }
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.made.entry(owner) {
            vacant.insert(id_map_namespace(owner, to).map_err(failed)?);
        }
        let Some(namespace) = self.made.get(&owner) else { return Ok(()) };
        match sys::mount_setattr(tree.as_fd(), true, 0, 0, Some(namespace.as_fd())) {
            Err(e) if required => Err(failed(e)),
            _ => Ok(()),
        }
    }
}

/// A user namespace in which the ids `owner` outside our tree appear as `to`, held only by its descriptor.
fn id_map_namespace(owner: (u32, u32), to: u32) -> io::Result<OwnedFd> {
    let (end, hold) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match sys::clone_into_namespaces(libc::CLONE_NEWUSER)? {
        Forked::Child => {
            drop(hold);
            // It has our descriptors, and so must end when we do, in every case.
            let _ = File::from(end).read(&mut [0u8; 1]);
            #[allow(clippy::exit, reason = "this process was only there to be pointed at")]
            std::process::exit(0);
        }
        Forked::Parent { pid, .. } => {
            let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_nonzero());
            let made = std::fs::write(file("uid_map"), format!("{} {to} 1", owner.0))
                .and_then(|()| std::fs::write(file("gid_map"), format!("{} {to} 1", owner.1)))
                .and_then(|()| File::open(file("ns/user")));
            drop(hold);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            made.map(OwnedFd::from)
        }
    }
}
