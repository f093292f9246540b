//! The system call filter. Owns the list of calls a command may make: what shells, git, python, node, cargo
//! and their like need. Refuses the rest: what is not listed does not exist (`ENOSYS`, so that programs fall
//! back as they do on an older kernel), what is listed but asks for more than it should is `EPERM`.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// What a run was granted beyond the ordinary.
pub(super) struct Options {
    pub(super) nested_namespaces: bool,
    pub(super) trace: bool,
    /// Shared memory that no process has mapped is counted by a cgroup, so it may be made.
    pub(super) unmapped_memory: bool,
}

const NEW_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// The two filters, in the order they are to be installed.
pub(super) fn programs(options: &Options) -> Result<Vec<BpfProgram>, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut allowed: BTreeMap<c_long, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    allowed.extend(ALLOWED_X86_64.iter().map(|call| (*call, Vec::new())));
    if options.nested_namespaces {
        allowed.extend(NAMESPACE_CALLS.iter().map(|call| (*call, Vec::new())));
    }
    if options.trace {
        allowed.extend(TRACE_CALLS.iter().map(|call| (*call, Vec::new())));
    }
    if options.unmapped_memory {
        allowed.extend(SHARED_MEMORY_CALLS.iter().map(|call| (*call, Vec::new())));
    }
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let list = SeccompFilter::new(allowed, unknown, SeccompAction::Allow, arch)?;
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let exceptions = SeccompFilter::new(refusals(options)?, SeccompAction::Allow, refused, arch)?;
    Ok(vec![list.try_into()?, exceptions.try_into()?])
}

fn refusals(options: &Options) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, Error> {
    let mut rules = BTreeMap::new();
    for call in PRIVILEGED {
        rules.insert(*call, Vec::new());
    }
    if options.nested_namespaces {
        for call in NAMESPACE_CALLS {
            rules.remove(call);
        }
    } else {
        let mut flags = Vec::new();
        for flag in NEW_NAMESPACES {
            let bit = u64::from(flag.cast_unsigned());
            flags.push(all_of(&[(0, Op::MaskedEq(bit), bit)])?);
        }
        rules.insert(libc::SYS_clone, flags);
    }
    if options.trace {
        for call in TRACE_CALLS {
            rules.remove(call);
        }
    }
    let number = |n: libc::c_int| u64::from(n.cast_unsigned());
    let not_among = |index: u8, values: &[libc::c_int]| -> Vec<(u8, Op, u64)> {
        values.iter().map(|value| (index, Op::Ne, number(*value))).collect()
    };
    // Sockets: local, and IP where the network namespace has any; netlink for routes alone. vsock, for one,
    // would reach out of a virtual machine whatever the namespace.
    let mut sockets =
        vec![all_of(&not_among(0, &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]))?];
    sockets.push(all_of(&[(0, Op::Eq, number(libc::AF_NETLINK)), (2, Op::Ne, number(libc::NETLINK_ROUTE))])?);
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut conditions = vec![(0, Op::Eq, number(family))];
        let known = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6];
        conditions.extend(not_among(2, &known));
        sockets.push(all_of(&conditions)?);
    }
    rules.insert(libc::SYS_socket, sockets);
    rules.insert(libc::SYS_socketpair, vec![all_of(&not_among(0, &[libc::AF_UNIX]))?]);
    // Typing into a terminal that others read.
    let terminal = [libc::TIOCSTI, libc::TIOCLINUX];
    let mut typing = Vec::new();
    for request in terminal {
        typing.push(all_of(&[(1, Op::Eq, request & 0xffff_ffff)])?);
    }
    rules.insert(libc::SYS_ioctl, typing);
    rules.insert(libc::SYS_personality, vec![all_of(&not_among(0, &[0, 8, 0x2_0000, 0x2_0008, -1]))?]);
    // Limits and scheduling of other processes, pid 1 before all.
    rules.insert(libc::SYS_prlimit64, vec![all_of(&[(0, Op::Ne, 0)])?]);
    rules.insert(libc::SYS_setpriority, vec![all_of(&[(1, Op::Eq, 1)])?, all_of(&[(0, Op::Eq, 2)])?]);
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        rules.insert(call, vec![all_of(&[(0, Op::Eq, 1)])?]);
    }
    Ok(rules)
}

fn all_of(conditions: &[(u8, Op, u64)]) -> Result<SeccompRule, Error> {
    let conditions: Result<Vec<_>, _> = conditions
        .iter()
        .map(|(index, op, value)| {
            SeccompCondition::new(*index, Length::Dword, op.clone(), *value & 0xffff_ffff)
        })
        .collect();
    Ok(SeccompRule::new(conditions?)?)
}

const NAMESPACE_CALLS: &[c_long] = &[
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_sethostname,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
];

const TRACE_CALLS: &[c_long] =
    &[libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_kcmp];

/// Memory that is in no process's size: bounded by a memory cgroup or not to be had.
const SHARED_MEMORY_CALLS: &[c_long] =
    &[libc::SYS_memfd_create, libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmdt, libc::SYS_shmctl];

/// Doors that are known and closed: they answer `EPERM`, as they would to any unprivileged program.
const PRIVILEGED: &[c_long] = &[
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// What an ordinary program needs. `clone3` is left out on purpose: its flags cannot be looked at, and every
/// C library falls back to `clone`. So are io_uring, and memory that is in no process's size (see above).
#[rustfmt::skip]
const ALLOWED: &[c_long] = calls![
    SYS_accept SYS_accept4 SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_getres SYS_clock_gettime
    SYS_clock_nanosleep SYS_clone SYS_close SYS_close_range SYS_connect SYS_copy_file_range SYS_dup SYS_dup3
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_execve SYS_execveat SYS_exit
    SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchmod SYS_fchmodat
    SYS_fchown SYS_fchownat SYS_fcntl SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock SYS_fremovexattr
    SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_futex_waitv SYS_get_mempolicy
    SYS_get_robust_list SYS_getcpu SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups
    SYS_getitimer SYS_getpeername SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom SYS_getresgid
    SYS_getresuid SYS_getrlimit SYS_getrusage SYS_getsid SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday
    SYS_getuid SYS_getxattr SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_ioctl SYS_ioprio_get
    SYS_ioprio_set SYS_kill SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self
    SYS_lgetxattr SYS_linkat SYS_listen SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lseek SYS_lsetxattr
    SYS_madvise SYS_membarrier SYS_mincore SYS_mkdirat SYS_mknodat SYS_mlock SYS_mlock2 SYS_mlockall SYS_mmap
    SYS_mprotect SYS_mq_getsetattr SYS_mq_notify SYS_mq_open SYS_mq_timedreceive SYS_mq_timedsend SYS_mq_unlink
    SYS_mremap SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd SYS_msync SYS_munlock SYS_munlockall SYS_munmap
    SYS_name_to_handle_at SYS_nanosleep SYS_newfstatat SYS_openat SYS_openat2 SYS_personality SYS_pidfd_open
    SYS_pidfd_send_signal SYS_pipe2 SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_ppoll SYS_prctl SYS_pread64
    SYS_preadv SYS_preadv2 SYS_prlimit64 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead
    SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr
    SYS_renameat SYS_renameat2 SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask
    SYS_rt_sigqueueinfo SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_getaffinity SYS_sched_getattr
    SYS_sched_getparam SYS_sched_getscheduler SYS_sched_rr_get_interval SYS_sched_setaffinity SYS_sched_setattr
    SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield SYS_seccomp SYS_semctl SYS_semget SYS_semop
    SYS_semtimedop SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_robust_list SYS_set_tid_address
    SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid
    SYS_setresgid SYS_setresuid SYS_setreuid SYS_setrlimit SYS_setsid SYS_setsockopt SYS_setuid SYS_setxattr
    SYS_shutdown SYS_sigaltstack SYS_signalfd4 SYS_socket SYS_socketpair SYS_splice SYS_statfs SYS_statx
    SYS_symlinkat SYS_sync SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill SYS_timer_create
    SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime SYS_timerfd_create
    SYS_timerfd_gettime SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate SYS_umask SYS_uname SYS_unlinkat
    SYS_utimensat SYS_vmsplice SYS_wait4 SYS_waitid SYS_write SYS_writev
];

/// The older names that programs of this architecture still use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_X86_64: &[c_long] = calls![
    SYS_access SYS_alarm SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_epoll_create SYS_epoll_ctl_old
    SYS_epoll_wait SYS_epoll_wait_old SYS_eventfd SYS_fork SYS_futimesat SYS_getdents SYS_getpgrp
    SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_mknod SYS_open SYS_pause SYS_pipe SYS_poll
    SYS_readlink SYS_rename SYS_rmdir SYS_select SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime
    SYS_utimes SYS_vfork SYS_get_thread_area SYS_set_thread_area
];
