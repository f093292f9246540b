//! The root file system a command sees. Owns its layout: system directories read-only, a short generated
//! `/etc`, private `/tmp`, `/dev`, `/dev/shm`, `/proc` and HOME, and the requested mounts. Refuses
//! to follow a symbolic link while it builds, since the directories it builds on may come from an earlier agent.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change,
    move_mount, open_tree, unmount,
};

use super::INSIDE_ID;
use super::sources::{Bind, Opened, Source};
use super::survey::WrittenTo;
use crate::spec::{HOME, SECRETS, TRACE_CHANNEL};
use crate::sys;
use crate::wire::{Failure, NetworkPlan, Request, SeedPlan, SetupStep};

const STAGE: &str = ".stage";

/// What the watchdog needs of the finished root.
pub(super) struct Built {
    /// The directories to which copy-on-write mounts write.
    pub(super) stores: Vec<WrittenTo>,
    /// The private tmpfs behind `/tmp`, `/dev/shm` and HOME.
    pub(super) scratch: OwnedFd,
    /// Our end of the trace channel.
    pub(super) trace_channel: Option<OwnedFd>,
    /// Paths inside that may be written, for Landlock.
    pub(super) writable: Vec<OsString>,
    /// Whether a socket of the machine may be visible below a grant, because no overlay could be put over it.
    pub(super) shows_sockets: bool,
    /// What was missing and accepted.
    pub(super) missing: Vec<Failure>,
}

/// Builds the root and moves into it.
pub(super) fn build(request: &Request, opened: Opened) -> Result<Built, Failure> {
    let root = base()?;
    let scratch = scratch(request, root.as_fd())?;
    system(root.as_fd(), opened.system, opened.links)?;
    etc(request, root.as_fd()).map_err(|e| Failure::new(SetupStep::RootFileSystem, "/etc", &e))?;
    devices(root.as_fd(), opened.devices)?;
    let missing = match processes(root.as_fd()) {
        Err(failure) if request.reduced => vec![failure],
        made => made.map(|()| Vec::new())?,
    };
    secrets(request, root.as_fd()).map_err(|e| Failure::new(SetupStep::RootFileSystem, SECRETS, &e))?;
    for seed in &request.seeds {
        plant(seed, root.as_fd())?;
    }
    let trace_channel = request.trace_channel.then(|| trace_channel(root.as_fd())).transpose()?;
    let writable = ["/tmp", "/dev", "/proc", HOME]
        .into_iter()
        .chain(trace_channel.is_some().then_some(TRACE_CHANNEL))
        .map(OsString::from)
        .collect();
    let mut built =
        Built { stores: Vec::new(), scratch, trace_channel, writable, shows_sockets: false, missing };
    for (index, source) in opened.mounts.into_iter().enumerate() {
        let is_copy = request
            .mounts
            .get(index)
            .is_some_and(|mount| matches!(mount.source, crate::wire::SourcePlan::Copy { .. }));
        mount(root.as_fd(), index, source, is_copy, &mut built)?;
    }
    enter(&root)?;
    Ok(built)
}

fn general(what: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| Failure::new(SetupStep::RootFileSystem, what, &errno.into())
}

/// An empty root with the directories that everything else is put into.
fn base() -> Result<OwnedFd, Failure> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(general("make every mount private"))?;
    let root = tmpfs(&[("size", "16m"), ("nr_inodes", "8192"), ("mode", "0755")], MountAttrFlags::empty())
        .map_err(general("the root's tmpfs"))?;
    attach(root.as_fd(), CWD, "/").map_err(general("attach the root"))?;
    rustix::process::fchdir(&root).map_err(general("enter the root"))?;
    for (path, mode) in
        [("proc", 0o555), ("dev", 0o755), ("etc", 0o755), ("var", 0o755), ("run", 0o755), (STAGE, 0o700)]
    {
        mkdirat(&root, path, Mode::from_raw_mode(mode)).map_err(general("a directory of the root"))?;
    }
    symlinkat("../tmp", &root, "var/tmp").map_err(general("/var/tmp"))?;
    Ok(root)
}

/// Puts one requested mount into the root, and notes what the watchdog and Landlock need to know of it.
fn mount(
    root: BorrowedFd<'_>,
    index: usize,
    source: Source,
    is_copy: bool,
    built: &mut Built,
) -> Result<(), Failure> {
    match source {
        Source::Bind(bind) => {
            if is_copy {
                built.writable.push(bind.at.clone());
                built.stores.push(WrittenTo { directory: readable(&bind.tree)?, holds_a_copy: true });
            } else if bind.is_dir && show_apart(root, built.scratch.as_fd(), index, &bind)? {
                return Ok(());
            }
            built.shows_sockets |= bind.is_dir && !is_copy;
            place(root, &bind)
        }
        Source::Overlay { at, lowers, store } => {
            let trees: Vec<BorrowedFd<'_>> = lowers.iter().map(OwnedFd::as_fd).collect();
            overlay(root, built.scratch.as_fd(), index, &at, &trees, Some(store.as_fd()))?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let directory = openat(&store, "upper", flags, Mode::empty())
                .map_err(|e| Failure::new(SetupStep::Overlay, at.to_string_lossy(), &e.into()))?;
            built.stores.push(WrittenTo { directory, holds_a_copy: false });
            built.writable.push(at);
            Ok(())
        }
    }
}

/// Moves into the finished root, lets go of the machine's and makes it read-only.
fn enter(root: &OwnedFd) -> Result<(), Failure> {
    rustix::process::fchdir(root).map_err(general("return to the root"))?;
    unmount(STAGE, UnmountFlags::DETACH).map_err(general("drop the stage"))?;
    rustix::fs::unlinkat(root, STAGE, rustix::fs::AtFlags::REMOVEDIR).map_err(general("drop the stage"))?;
    sys::pivot_to_current_directory()
        .map_err(|e| Failure::new(SetupStep::RootFileSystem, "pivot_root", &e))?;
    unmount(".", UnmountFlags::DETACH).map_err(general("let the old root go"))?;
    rustix::process::chdir("/").map_err(general("enter the new root"))?;
    let attributes = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    sys::mount_setattr(root.as_fd(), false, attributes, 0, None)
        .map_err(|e| Failure::new(SetupStep::RootFileSystem, "make the root read-only", &e))
}

/// A descriptor of the same directory that can be listed.
fn readable(directory: &OwnedFd) -> Result<OwnedFd, Failure> {
    openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Failure::new(SetupStep::RootFileSystem, "a copied directory", &e.into()))
}

fn file_system(
    kind: &str,
    options: &[(&str, &str)],
    flags: &[&str],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    for flag in flags {
        fsconfig_set_flag(context.as_fd(), *flag)?;
    }
    fsconfig_create(context.as_fd())?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn tmpfs(options: &[(&str, &str)], attributes: MountAttrFlags) -> Result<OwnedFd, Errno> {
    file_system(
        "tmpfs",
        options,
        &[],
        attributes | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
}

fn attach(tree: BorrowedFd<'_>, at: BorrowedFd<'_>, path: &str) -> Result<(), Errno> {
    move_mount(tree, "", at, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn attach_at(tree: BorrowedFd<'_>, at: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", at, "", flags)
}

fn place(root: BorrowedFd<'_>, bind: &Bind) -> Result<(), Failure> {
    let point = target(root, &bind.at, bind.is_dir)?;
    attach_at(bind.tree.as_fd(), point.as_fd())
        .map_err(|e| Failure::new(SetupStep::Grant, bind.at.to_string_lossy(), &e.into()))
}

/// Opens the target of a mount, creating it if it is missing, never through a symbolic link.
fn target(root: BorrowedFd<'_>, at: &OsStr, is_dir: bool) -> Result<OwnedFd, Failure> {
    let failed = |e: Errno| {
        let detail = format!("{} (the place inside)", at.to_string_lossy());
        Failure::new(SetupStep::Grant, detail, &e.into())
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let names: Vec<&OsStr> = Path::new(at)
        .components()
        .filter_map(|c| if let Component::Normal(name) = c { Some(name) } else { None })
        .collect();
    let mut current = openat(root, ".", flags | OFlags::DIRECTORY, Mode::empty()).map_err(failed)?;
    for (index, name) in names.iter().enumerate() {
        let directory = is_dir || index.saturating_add(1) < names.len();
        let wanted = if directory { flags | OFlags::DIRECTORY } else { flags };
        let next = match openat(&current, *name, wanted, Mode::empty()) {
            Err(Errno::NOENT) => {
                if directory {
                    mkdirat(&current, *name, Mode::from_raw_mode(0o755)).map_err(failed)?;
                } else {
                    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                    openat(&current, *name, create, Mode::from_raw_mode(0o644)).map_err(failed)?;
                }
                openat(&current, *name, wanted, Mode::empty())
            }
            other => other,
        };
        current = next.map_err(failed)?;
    }
    if !is_dir {
        let stat = rustix::fs::fstat(&current).map_err(failed)?;
        if matches!(FileType::from_raw_mode(stat.st_mode), FileType::Symlink | FileType::Directory) {
            return Err(failed(Errno::LOOP));
        }
    }
    Ok(current)
}

/// One bounded tmpfs behind `/tmp`, `/dev/shm` and HOME. Overlays are put together in its own root, which is
/// detached before the command starts.
fn scratch(request: &Request, root: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let failed = |e: Errno| Failure::new(SetupStep::RootFileSystem, "the private tmpfs", &e.into());
    let size = request.limits.scratch_bytes.to_string();
    let inodes = (request.limits.scratch_bytes / 4096).clamp(1024, 1 << 20).to_string();
    let tree = tmpfs(&[("size", &size), ("nr_inodes", &inodes), ("mode", "0755")], MountAttrFlags::empty())
        .map_err(failed)?;
    attach(tree.as_fd(), root, STAGE).map_err(failed)?;
    for (name, mode, at) in [("tmp", 0o1777, "/tmp"), ("shm", 0o1777, "/dev/shm"), ("home", 0o755, HOME)] {
        mkdirat(&tree, name, Mode::from_raw_mode(mode)).map_err(failed)?;
        rustix::fs::chmodat(&tree, name, Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty())
            .map_err(failed)?;
        let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let part = open_tree(&tree, name, clone).map_err(failed)?;
        attach_at(part.as_fd(), target(root, OsStr::new(at), true)?.as_fd()).map_err(failed)?;
    }
    Ok(tree)
}

fn system(root: BorrowedFd<'_>, binds: Vec<Bind>, links: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    for bind in &binds {
        place(root, bind)?;
    }
    for (at, to) in links {
        let Some(name) = at.as_bytes().strip_prefix(b"/") else { continue };
        match symlinkat(to.as_os_str(), root, OsStr::from_bytes(name)) {
            Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
            Err(e) => return Err(Failure::new(SetupStep::RootFileSystem, at.to_string_lossy(), &e.into())),
        }
    }
    Ok(())
}

fn etc(request: &Request, root: BorrowedFd<'_>) -> io::Result<()> {
    let passwd = format!(
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:{INSIDE_ID}:{INSIDE_ID}:agent:{HOME}:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    let group = format!("root:x:0:\nagent:x:{INSIDE_ID}:\nnogroup:x:65534:\n");
    let lookup = if request.network == NetworkPlan::Host { "files dns" } else { "files" };
    let files = [
        ("etc/passwd", passwd),
        ("etc/group", group),
        ("etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned()),
        ("etc/hostname", "sandbox\n".to_owned()),
        (
            "etc/nsswitch.conf",
            format!("passwd: files\ngroup: files\nhosts: {lookup}\nservices: files\nprotocols: files\n"),
        ),
        ("etc/services", "http 80/tcp\nhttps 443/tcp\nssh 22/tcp\ndomain 53/udp\n".to_owned()),
        ("etc/protocols", "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\n".to_owned()),
        ("etc/gitconfig", "[safe]\n\tdirectory = *\n".to_owned()),
    ];
    for (name, text) in files {
        write_file(root, OsStr::new(name), text.as_bytes(), 0o644)?;
    }
    if request.network != NetworkPlan::Host {
        write_file(root, OsStr::new("etc/resolv.conf"), b"", 0o644)?;
    }
    Ok(())
}

fn write_file(root: BorrowedFd<'_>, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(root, name, flags, Mode::from_raw_mode(mode))?;
    std::fs::File::from(file).write_all(bytes)
}

fn secrets(request: &Request, root: BorrowedFd<'_>) -> io::Result<()> {
    if request.secret_files.is_empty() {
        return Ok(());
    }
    mkdirat(root, "run/secrets", Mode::from_raw_mode(0o755))?;
    for (name, value) in &request.secret_files {
        let mut path = OsString::from("run/secrets/");
        path.push(name);
        write_file(root, &path, value, 0o400)?;
    }
    Ok(())
}

/// Writes a seed to its private directory, on which nothing is mounted yet.
fn plant(seed: &SeedPlan, root: BorrowedFd<'_>) -> Result<(), Failure> {
    let at = Path::new(&seed.at);
    let failed = |e: io::Error| Failure::new(SetupStep::Grant, at.to_string_lossy(), &e);
    let (Some(directory), Some(name)) = (at.parent(), at.file_name()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    let directory = target(root, directory.as_os_str(), true)?;
    write_file(directory.as_fd(), name, &seed.content, seed.mode).map_err(failed)
}

/// Creates the pipe and opens it for both directions, so that a writer never finds it closed and we never see its end.
fn trace_channel(root: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let failed = |e: Errno| Failure::new(SetupStep::RootFileSystem, TRACE_CHANNEL, &e.into());
    let name = TRACE_CHANNEL.trim_start_matches('/');
    mknodat(root, name, FileType::Fifo, Mode::from_raw_mode(0o222), 0).map_err(failed)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(root, name, flags, Mode::empty()).map_err(failed)
}

fn devices(root: BorrowedFd<'_>, binds: Vec<Bind>) -> Result<(), Failure> {
    for bind in &binds {
        place(root, bind)?;
    }
    let failed = |e: Errno| Failure::new(SetupStep::RootFileSystem, "/dev", &e.into());
    let links = [
        ("/proc/self/fd", "dev/fd"),
        ("/proc/self/fd/0", "dev/stdin"),
        ("/proc/self/fd/1", "dev/stdout"),
        ("/proc/self/fd/2", "dev/stderr"),
        ("pts/ptmx", "dev/ptmx"),
    ];
    for (to, at) in links {
        symlinkat(to, root, at).map_err(failed)?;
    }
    let gid = INSIDE_ID.to_string();
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let terminals = file_system(
        "devpts",
        &[("ptmxmode", "0666"), ("mode", "0620"), ("gid", &gid)],
        &["newinstance"],
        attributes,
    )
    .map_err(failed)?;
    attach_at(terminals.as_fd(), target(root, OsStr::new("/dev/pts"), true)?.as_fd()).map_err(failed)
}

fn processes(root: BorrowedFd<'_>) -> Result<(), Failure> {
    let failed = |e: Errno| Failure::new(SetupStep::Proc, "/proc", &e.into());
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    let tree = file_system("proc", &[], &[], attributes).map_err(failed)?;
    attach_at(tree.as_fd(), target(root, OsStr::new("/proc"), true)?.as_fd()).map_err(failed)
}

/// Shows a directory that may be read through an overlay, in which the pipes and sockets of the machine are only names: nothing
/// outside receives what is written to them. False if no overlay can be created, as over mounts below the directory.
fn show_apart(
    root: BorrowedFd<'_>,
    stage: BorrowedFd<'_>,
    index: usize,
    bind: &Bind,
) -> Result<bool, Failure> {
    let failed = |e: Errno| Failure::new(SetupStep::Grant, bind.at.to_string_lossy(), &e.into());
    if bind.has_mounts {
        return Ok(false);
    }
    // An overlay that writes nowhere needs a second layer.
    let name = format!("{index}n");
    mkdirat(stage, name.as_str(), Mode::from_raw_mode(0o755)).map_err(failed)?;
    let nothing =
        open_tree(stage, name.as_str(), OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
            .map_err(failed)?;
    Ok(overlay(root, stage, index, &bind.at, &[bind.tree.as_fd(), nothing.as_fd()], None).is_ok())
}

/// Mounts an overlay; without a store it is read-only. Redirects and metacopy are off, as they
/// must be without privilege, so the upper directory holds nothing but files, whiteouts and opaque marks.
fn overlay(
    root: BorrowedFd<'_>,
    stage: BorrowedFd<'_>,
    index: usize,
    at: &OsStr,
    lowers: &[BorrowedFd<'_>],
    store: Option<BorrowedFd<'_>>,
) -> Result<(), Failure> {
    let failed = |e: Errno| Failure::new(SetupStep::Overlay, at.to_string_lossy(), &e.into());
    let directory = |name: &str| mkdirat(stage, name, Mode::from_raw_mode(0o700)).map_err(failed);
    let mut names = Vec::new();
    for (layer, tree) in lowers.iter().enumerate() {
        let name = format!("{index}l{layer}");
        directory(&name)?;
        attach(*tree, stage, &name).map_err(failed)?;
        names.push(name);
    }
    rustix::process::fchdir(stage).map_err(failed)?;
    let mut options = vec![("lowerdir", names.join(":"))];
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    match store {
        Some(store) => {
            let own = format!("{index}s");
            directory(&own)?;
            attach(store, stage, &own).map_err(failed)?;
            options.push(("upperdir", format!("{own}/upper")));
            options.push(("workdir", format!("{own}/work")));
        }
        None => attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY,
    }
    let options: Vec<(&str, &str)> = options.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let tree = file_system("overlay", &options, &["userxattr"], attributes).map_err(failed)?;
    attach_at(tree.as_fd(), target(root, at, true)?.as_fd()).map_err(failed)
}
