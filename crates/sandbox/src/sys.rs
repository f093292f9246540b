//! The kernel calls that no safe wrapper offers. Owns every `unsafe` block of the crate; each function
//! takes and gives owned, typed values, so that nothing unsafe leaks out. Refuses to hold any policy.
#![allow(unsafe_code, reason = "raw system calls; every block states why it is sound")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::Pid;

/// The result of [`clone_into_namespaces`], once in each process.
pub(crate) enum Forked {
    /// In the new process.
    Child,
    /// In the caller: the child's pid (as the caller sees it) and a pidfd for it.
    Parent { pid: Pid, pidfd: OwnedFd },
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Starts a copy of this process in new namespaces (`CLONE_NEW…` bits in `flags`), as `fork` would.
///
/// Must only be called from a single-threaded process: the child keeps using the allocator.
pub(crate) fn clone_into_namespaces(flags: libc::c_int) -> io::Result<Forked> {
    debug_assert!(single_threaded());
    let mut pidfd: libc::c_int = -1;
    // SAFETY: `clone_args` is plain data for which all zeroes is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from(flags.cast_unsigned()) | u64::from(libc::CLONE_PIDFD.cast_unsigned());
    args.pidfd = std::ptr::from_mut(&mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM and with no new stack this is `fork`: the child runs on a private copy of
    // the stack. The process is single-threaded, so no lock is held by a thread that the child lacks.
    // `args` and `pidfd` outlive the call.
    let result = unsafe {
        libc::syscall(libc::SYS_clone3, std::ptr::from_mut(&mut args), size_of::<libc::clone_args>())
    };
    let raw = match check(result) {
        // A container's filter hides this call, since it cannot see its flags, and allows the older one.
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => check(old_clone(flags, &mut pidfd))?,
        other => other?,
    };
    let Some(pid) = i32::try_from(raw).ok().and_then(Pid::from_raw) else { return Ok(Forked::Child) };
    // SAFETY: the kernel stored a fresh descriptor in `pidfd`, which no one else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Forked::Parent { pid, pidfd })
}

fn old_clone(flags: libc::c_int, pidfd: &mut libc::c_int) -> libc::c_long {
    let flags = libc::c_long::from(flags | libc::CLONE_PIDFD | libc::SIGCHLD);
    let none: libc::c_long = 0;
    // SAFETY: as above; the third argument is where the kernel stores the pidfd, the others are not used.
    unsafe { libc::syscall(libc::SYS_clone, flags, none, std::ptr::from_mut(pidfd), none, none) }
}

/// `fork` in a single-threaded process.
pub(crate) fn fork() -> io::Result<Forked> {
    clone_into_namespaces(0)
}

fn single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").map_or(true, |tasks| tasks.count() <= 1)
}

/// Changes the attributes of the mount (or, `recursive`, the mount tree) that `mount` refers to.
pub(crate) fn mount_setattr(
    mount: BorrowedFd<'_>,
    recursive: bool,
    set: u64,
    clear: u64,
    user_namespace: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: set | if user_namespace.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 },
        attr_clr: clear,
        propagation: libc::MS_PRIVATE,
        userns_fd: user_namespace.map_or(0, |fd| fd.as_raw_fd().unsigned_abs().into()),
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated literal, `attributes` outlives the call and its size is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(&attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// Makes the current mount the root of this process and hides the old one: `pivot_root(".", ".")`.
pub(crate) fn pivot_to_current_directory() -> io::Result<()> {
    // SAFETY: both arguments are NUL-terminated literals.
    let result = unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) };
    check(result).map(drop)
}

/// Marks every descriptor from `first` up as closed on exec.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: only a descriptor flag changes.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    check(result).map(drop)
}

/// Brings the loopback interface of the current network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: `ifreq` is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`; `request` is one and outlives the call.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, std::ptr::from_mut(&mut request)) };
    check(result.into()).map(drop)
}

/// The CPU time, in microseconds, and the largest resident set, in bytes, of the children waited for so far.
pub(crate) fn children_usage() -> (u64, u64) {
    // SAFETY: `rusage` is plain data for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for the answer.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) } != 0 {
        return (0, 0);
    }
    let micros = |t: libc::timeval| {
        t.tv_sec.cast_unsigned().saturating_mul(1_000_000).saturating_add(t.tv_usec.cast_unsigned())
    };
    let cpu_us = micros(usage.ru_utime).saturating_add(micros(usage.ru_stime));
    (cpu_us, usage.ru_maxrss.cast_unsigned().saturating_mul(1024))
}

/// Whether children that end are reaped automatically.
pub(crate) fn ignore_ended_children(ignore: bool) {
    // SAFETY: both are dispositions, not functions of ours.
    let _ = unsafe { libc::signal(libc::SIGCHLD, if ignore { libc::SIG_IGN } else { libc::SIG_DFL }) };
}

/// Whether signals are blocked for this process and those it starts.
pub(crate) fn hold_signals(hold: bool) {
    // SAFETY: `sigset_t` is plain data for which all zeroes is a valid value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both write to `set`, which is ours; the call after them only reads it.
    unsafe {
        if hold {
            libc::sigfillset(&mut set)
        } else {
            libc::sigemptyset(&mut set)
        };
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}

/// Sends `signal` to every process this one may signal, except itself: only for pid 1 of a namespace.
pub(crate) fn kill_all(signal: libc::c_int) {
    // SAFETY: in a PID namespace of our own, -1 only reaches its members.
    let _ = unsafe { libc::kill(-1, signal) };
}

/// Takes descriptor 0 over as an owned one.
pub(crate) fn take_stdin() -> io::Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(std::io::stdin().as_fd(), 10).map_err(Into::into)
}

/// The kernel's clock ticks a second, for `/proc/PID/stat`.
pub(crate) fn clock_ticks() -> u64 {
    // SAFETY: `sysconf` only reads a constant.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|t| *t > 0).unwrap_or(100)
}

/// Empties the capability sets of this thread, the ambient and bounding ones included.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    let _ = rustix::thread::clear_ambient_capability_set();
    for capability in 0..64u64 {
        // SAFETY: PR_CAPBSET_DROP takes plain numbers; a number past the last capability is EINVAL.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            break;
        }
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)?;
    Ok(())
}

/// Whether the kernel accepts filters that answer with an error.
pub(crate) fn has_seccomp() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the call reads one number and changes nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, std::ptr::from_ref(&action))
    };
    result == 0
}

/// The version of Landlock the kernel offers; 0 if it has none.
pub(crate) fn landlock_abi() -> u32 {
    const VERSION: libc::c_int = 1;
    // SAFETY: with no attributes and the version flag the call only returns a number.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0usize, VERSION)
    };
    u32::try_from(result).unwrap_or(0)
}
