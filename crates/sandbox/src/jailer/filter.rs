//! The system call filter. Owns the list of calls a command may make: what shells, git, python, node, cargo
//! and their like need. Refuses the rest: unlisted calls do not exist (`ENOSYS`, so that programs fall
//! back as they do on an older kernel), listed calls that ask for too much are `EPERM`.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// Grants of a run beyond the default.
pub(super) struct Options {
    pub(super) nested_namespaces: bool,
    pub(super) ptrace: bool,
    /// A cgroup counts memory that is in no process's size, so it may be created.
    pub(super) unmapped_memory: bool,
    /// There is a network namespace, or the machine's own network was granted.
    pub(super) sockets: bool,
    /// There are namespaces: any process, queue or socket that can be named belongs to the tree.
    pub(super) namespaces: bool,
    /// Every local socket that can be named belongs to the tree.
    pub(super) local_sockets: bool,
    /// Without namespaces: the command's user owns only the run's private directories.
    pub(super) own_user: bool,
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

/// The filters, in the order of installation: every call by its number, those whose arguments matter, and those
/// that do nothing. If several refuse, the answer of the last one counts.
pub(super) fn programs(options: &Options) -> Result<Vec<BpfProgram>, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let exceptions = SeccompFilter::new(refusals(options)?, SeccompAction::Allow, refused, arch)?;
    let nothing = SeccompFilter::new(without_effect()?, SeccompAction::Allow, SeccompAction::Errno(0), arch)?;
    Ok(vec![by_number(options), exceptions.try_into()?, nothing.try_into()?])
}

/// Calls that succeed without effect: socket buffers keep the system's default size, by which the watchdog charges
/// them. Programs set these sizes as tuning, and many treat a refusal as a failure.
fn without_effect() -> Result<BTreeMap<c_long, Vec<SeccompRule>>, Error> {
    let mut sizes = Vec::new();
    for option in [libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE] {
        let number = |n: libc::c_int| u64::from(n.cast_unsigned());
        sizes.push(all_of(&[(1, Op::Eq, number(libc::SOL_SOCKET)), (2, Op::Eq, number(option))])?);
    }
    Ok(BTreeMap::from([(libc::SYS_setsockopt, sizes)]))
}

/// A binary search over ranges of call numbers. The kernel tries a filter on every number when it is installed,
/// so a chain of comparisons would cost a millisecond at every start.
fn by_number(options: &Options) -> BpfProgram {
    let ranges = ranges(options);
    let mut program = vec![
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, ARCH_OFFSET),
        jump(libc::BPF_JEQ, AUDIT_ARCH, 1, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS),
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER_OFFSET),
    ];
    program.extend(search(&ranges));
    program
}

const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xC000_00B7;
#[cfg(target_arch = "riscv64")]
const AUDIT_ARCH: u32 = 0xC000_00F3;

/// The answers in order of call number, each with the first number it applies to.
fn ranges(options: &Options) -> Vec<(u32, u32)> {
    let errno = |code: libc::c_int| libc::SECCOMP_RET_ERRNO | code.cast_unsigned();
    let closed = [NAMESPACE_CALLS, MOUNT_CALLS, PTRACE_CALLS, PRIVILEGED].into_iter().flatten();
    let mut answers: BTreeMap<c_long, u32> = closed.map(|call| (*call, errno(libc::EPERM))).collect();
    let mut allow =
        |calls: &[c_long]| answers.extend(calls.iter().map(|call| (*call, libc::SECCOMP_RET_ALLOW)));
    allow(ALLOWED);
    #[cfg(target_arch = "x86_64")]
    allow(ALLOWED_X86_64);
    if options.nested_namespaces {
        allow(NAMESPACE_CALLS);
    }
    // The pages of a tmpfs are in no process's size.
    if options.nested_namespaces && options.unmapped_memory {
        allow(MOUNT_CALLS);
    }
    if options.ptrace {
        allow(PTRACE_CALLS);
    }
    if options.namespaces {
        allow(QUEUE_CALLS);
    }
    if options.unmapped_memory {
        allow(&[libc::SYS_memfd_create]);
    }
    if options.unmapped_memory && options.namespaces {
        allow(SYSTEM_V_CALLS);
    }
    if !options.namespaces {
        // Landlock lets anyone change these of a file that it prevents from being opened.
        let mut refuse =
            |calls: &[c_long]| answers.extend(calls.iter().map(|call| (*call, errno(libc::EPERM))));
        refuse(ATTRIBUTE_CALLS);
        refuse(ATTRIBUTE_CALLS_X86_64);
        if !options.own_user {
            refuse(MODE_CALLS);
            refuse(MODE_CALLS_X86_64);
        }
    }
    let unknown = errno(libc::ENOSYS);
    let mut ranges = vec![(0, unknown)];
    let mut add = |from: u32, answer: u32| match ranges.last_mut() {
        Some(last) if last.1 == answer => {}
        Some(last) if last.0 == from => last.1 = answer,
        _ => ranges.push((from, answer)),
    };
    for (call, answer) in answers {
        let Ok(number) = u32::try_from(call) else { continue };
        add(number, answer);
        add(number.saturating_add(1), unknown);
    }
    // Two neighbours may have become equal when a range between them was replaced.
    ranges.dedup_by(|later, earlier| later.1 == earlier.1);
    ranges
}

fn search(ranges: &[(u32, u32)]) -> BpfProgram {
    let (left, right) = ranges.split_at(ranges.len() / 2);
    match (left, right) {
        ([], [(_, answer)]) => vec![statement(libc::BPF_RET | libc::BPF_K, *answer)],
        (_, [(from, _), ..]) => {
            let (below, above) = (search(left), search(right));
            let mut program = match u8::try_from(below.len()) {
                Ok(skip) => vec![jump(libc::BPF_JGE, *from, skip, 0)],
                // Beyond a conditional jump's reach: an unconditional one takes the rest of the distance.
                Err(_) => {
                    let skip = u32::try_from(below.len()).unwrap_or(u32::MAX);
                    vec![jump(libc::BPF_JGE, *from, 0, 1), statement(libc::BPF_JMP | libc::BPF_JA, skip)]
                }
            };
            program.extend(below);
            program.extend(above);
            program
        }
        (_, []) => vec![statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS)],
    }
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt: 0, jf: 0, k }
}

fn jump(comparison: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = libc::BPF_JMP | comparison | libc::BPF_K;
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt, jf, k }
}

type Refusals = BTreeMap<c_long, Vec<SeccompRule>>;

fn refusals(options: &Options) -> Result<Refusals, Error> {
    let mut rules = BTreeMap::new();
    refuse_namespaces(options, &mut rules)?;
    refuse_sockets(options, &mut rules)?;
    // Typing into a terminal that others read.
    let mut typing = Vec::new();
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        typing.push(all_of(&[(1, Op::Eq, request & 0xffff_ffff)])?);
    }
    rules.insert(libc::SYS_ioctl, typing);
    rules.insert(libc::SYS_personality, vec![all_of(&not_among(0, &[0, 8, 0x2_0000, 0x2_0008, -1]))?]);
    refuse_others_limits(options, &mut rules)?;
    Ok(rules)
}

/// New namespaces, and threads and processes with a descriptor table that the watchdog does not see.
fn refuse_namespaces(options: &Options, rules: &mut Refusals) -> Result<(), Error> {
    // In a new cgroup namespace it could mount its own group, and raise its limits if that was delegated.
    let refused: &[libc::c_int] =
        if options.nested_namespaces { &[libc::CLONE_NEWCGROUP] } else { &NEW_NAMESPACES };
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let mut flags = Vec::new();
        for flag in refused {
            let bit = number(*flag);
            flags.push(all_of(&[(0, Op::MaskedEq(bit), bit)])?);
        }
        rules.insert(call, flags);
    }
    // A thread with its own descriptor table could hold files and sockets that the watchdog does not see.
    let (thread, files) = (number(libc::CLONE_THREAD), number(libc::CLONE_FILES));
    let own_table = all_of(&[(0, Op::MaskedEq(thread), thread), (0, Op::MaskedEq(files), 0)])?;
    rules.entry(libc::SYS_clone).or_default().push(own_table);
    rules.entry(libc::SYS_unshare).or_default().push(all_of(&[(0, Op::MaskedEq(files), files)])?);
    let unshare = u64::from(libc::CLOSE_RANGE_UNSHARE);
    rules.insert(libc::SYS_close_range, vec![all_of(&[(2, Op::MaskedEq(unshare), unshare)])?]);
    Ok(())
}

/// Sockets: local, and IP if the network namespace has any; netlink only for routes. vsock, for one,
/// would reach out of a virtual machine whatever the namespace, and local ones every service of the machine without a namespace.
fn refuse_sockets(options: &Options, rules: &mut Refusals) -> Result<(), Error> {
    let mut families = vec![libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    families.extend(options.local_sockets.then_some(libc::AF_UNIX));
    let mut sockets = vec![all_of(&not_among(0, &families))?];
    sockets.push(all_of(&[(0, Op::Eq, number(libc::AF_NETLINK)), (2, Op::Ne, number(libc::NETLINK_ROUTE))])?);
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut conditions = vec![(0, Op::Eq, number(family))];
        let known = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6];
        conditions.extend(not_among(2, &known));
        sockets.push(all_of(&conditions)?);
    }
    // Without rules it is refused whatever its arguments.
    rules.insert(libc::SYS_socket, if options.sockets { sockets } else { Vec::new() });
    rules.insert(libc::SYS_socketpair, vec![all_of(&not_among(0, &[libc::AF_UNIX]))?]);
    Ok(())
}

/// Limits and scheduling of other processes.
fn refuse_others_limits(options: &Options, rules: &mut Refusals) -> Result<(), Error> {
    rules.insert(libc::SYS_prlimit64, vec![all_of(&[(0, Op::Ne, 0)])?]);
    // Pid 1 is the one process outside the tree; without a namespace all processes but the caller may be.
    let others = |index: u8| if options.namespaces { (index, Op::Eq, 1) } else { (index, Op::Ne, 0) };
    for (call, of_a_user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
        rules.insert(call, vec![all_of(&[others(1)])?, all_of(&[(0, Op::Eq, of_a_user)])?]);
    }
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        rules.insert(call, vec![all_of(&[others(0)])?]);
    }
    Ok(())
}

/// A number as the kernel compares it.
fn number(value: libc::c_int) -> u64 {
    u64::from(value.cast_unsigned())
}

/// That an argument is none of these values.
fn not_among(index: u8, values: &[libc::c_int]) -> Vec<(u8, Op, u64)> {
    values.iter().map(|value| (index, Op::Ne, number(*value))).collect()
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

macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// Allowed if the command may create namespaces.
#[rustfmt::skip]
const NAMESPACE_CALLS: &[c_long] = calls![
    SYS_unshare SYS_setns SYS_umount2 SYS_pivot_root SYS_chroot SYS_sethostname
];

/// The same, if a memory cgroup counts writes to a tmpfs.
#[rustfmt::skip]
const MOUNT_CALLS: &[c_long] = calls![
    SYS_mount SYS_open_tree SYS_move_mount SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr
];

/// Times and extended attributes of files.
#[rustfmt::skip]
const ATTRIBUTE_CALLS: &[c_long] = calls![
    SYS_utimensat SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr
];
#[cfg(target_arch = "x86_64")]
const ATTRIBUTE_CALLS_X86_64: &[c_long] = calls![SYS_utime SYS_utimes SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const ATTRIBUTE_CALLS_X86_64: &[c_long] = &[];

/// Modes and owners of files, which only their owner can change.
const MODE_CALLS: &[c_long] = calls![SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat];
#[cfg(target_arch = "x86_64")]
const MODE_CALLS_X86_64: &[c_long] = calls![SYS_chmod SYS_chown SYS_lchown];
#[cfg(not(target_arch = "x86_64"))]
const MODE_CALLS_X86_64: &[c_long] = &[];

/// Allowed if tracing was granted.
const PTRACE_CALLS: &[c_long] = calls![SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_kcmp];

/// Shared memory, queues and semaphores, in no process's size: limited by a memory cgroup or, like `memfd_create`, not available.
/// Without a namespace their names are machine-wide.
#[rustfmt::skip]
const SYSTEM_V_CALLS: &[c_long] = calls![
    SYS_shmget SYS_shmat SYS_shmdt SYS_shmctl SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd SYS_semctl SYS_semget
    SYS_semop SYS_semtimedop
];

/// The newer queues, limited by an rlimit, with names of the same kind.
#[rustfmt::skip]
const QUEUE_CALLS: &[c_long] = calls![
    SYS_mq_getsetattr SYS_mq_notify SYS_mq_open SYS_mq_timedreceive SYS_mq_timedsend SYS_mq_unlink
];

/// Known and refused. They answer `EPERM`, as they would to any unprivileged program, and so do those
/// above that were not granted.
#[rustfmt::skip]
const PRIVILEGED: &[c_long] = calls![
    SYS_setdomainname SYS_pidfd_getfd SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_keyctl SYS_add_key
    SYS_request_key SYS_open_by_handle_at SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load
    SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_quotactl SYS_syslog SYS_settimeofday SYS_clock_settime
    SYS_clock_adjtime SYS_adjtimex SYS_vhangup SYS_fanotify_init SYS_move_pages SYS_migrate_pages
];

/// What an ordinary program needs. `clone3` is left out on purpose: its flags cannot be inspected, and every
/// C library falls back to `clone`. So are io_uring, `vmsplice` (its pages stay in a pipe, in no process's size), and the calls above.
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
    SYS_mprotect SYS_mremap SYS_msync SYS_munlock SYS_munlockall SYS_munmap SYS_name_to_handle_at SYS_nanosleep
    SYS_newfstatat SYS_openat SYS_openat2 SYS_personality SYS_pidfd_open SYS_pidfd_send_signal SYS_pipe2
    SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_ppoll SYS_prctl SYS_pread64 SYS_preadv SYS_preadv2
    SYS_prlimit64 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead SYS_readlinkat SYS_readv
    SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr SYS_renameat SYS_renameat2
    SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigqueueinfo
    SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam SYS_sched_getscheduler
    SYS_sched_rr_get_interval SYS_sched_setaffinity SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler
    SYS_sched_yield SYS_seccomp SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_robust_list
    SYS_set_tid_address SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority
    SYS_setregid SYS_setresgid SYS_setresuid SYS_setreuid SYS_setrlimit SYS_setsid SYS_setsockopt SYS_setuid
    SYS_setxattr SYS_shutdown SYS_sigaltstack SYS_signalfd4 SYS_socket SYS_socketpair SYS_splice SYS_statfs
    SYS_statx SYS_symlinkat SYS_sync SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill SYS_timer_create
    SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime
    SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate SYS_umask SYS_uname SYS_unlinkat SYS_utimensat
    SYS_wait4 SYS_waitid SYS_write SYS_writev
];

/// Older calls that programs of this architecture still use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_X86_64: &[c_long] = calls![
    SYS_access SYS_alarm SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_epoll_create SYS_epoll_ctl_old
    SYS_epoll_wait SYS_epoll_wait_old SYS_eventfd SYS_fork SYS_futimesat SYS_getdents SYS_getpgrp
    SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_mknod SYS_open SYS_pause SYS_pipe SYS_poll
    SYS_readlink SYS_rename SYS_rmdir SYS_select SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime
    SYS_utimes SYS_vfork SYS_get_thread_area SYS_set_thread_area
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a filter program for a call number, by the rules of classic BPF.
    fn answer(program: &BpfProgram, arch: u32, number: u32) -> u32 {
        let (mut at, mut value) = (0usize, 0u32);
        loop {
            let step = &program[at];
            at += 1;
            let code = u32::from(step.code);
            if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
                value = if step.k == ARCH_OFFSET { arch } else { number };
            } else if code == libc::BPF_RET | libc::BPF_K {
                return step.k;
            } else if code == libc::BPF_JMP | libc::BPF_JA {
                at += step.k as usize;
            } else {
                let holds = if code & 0xf0 == libc::BPF_JEQ { value == step.k } else { value >= step.k };
                at += usize::from(if holds { step.jt } else { step.jf });
            }
        }
    }

    #[test]
    fn every_call_number_has_its_answer() {
        for (nested_namespaces, ptrace, unmapped_memory, namespaces) in [
            (false, false, false, true),
            (true, true, true, true),
            (false, true, false, true),
            (true, false, false, true),
            (false, false, true, false),
            (false, true, true, false),
        ] {
            let options = Options {
                nested_namespaces,
                ptrace,
                unmapped_memory,
                sockets: true,
                namespaces,
                local_sockets: namespaces,
                own_user: ptrace,
            };
            let program = by_number(&options);
            let mut closed = [NAMESPACE_CALLS, MOUNT_CALLS, PTRACE_CALLS, PRIVILEGED].concat();
            let mut allowed: Vec<c_long> = ALLOWED.to_vec();
            #[cfg(target_arch = "x86_64")]
            allowed.extend(ALLOWED_X86_64);
            for (granted, calls) in [
                (nested_namespaces, NAMESPACE_CALLS),
                (nested_namespaces && unmapped_memory, MOUNT_CALLS),
                (ptrace, PTRACE_CALLS),
                (unmapped_memory, &[libc::SYS_memfd_create]),
                (unmapped_memory && namespaces, SYSTEM_V_CALLS),
                (namespaces, QUEUE_CALLS),
            ] {
                allowed.extend(calls.iter().filter(|_| granted));
            }
            if !namespaces {
                let attributes = [ATTRIBUTE_CALLS, ATTRIBUTE_CALLS_X86_64].concat();
                let modes = [MODE_CALLS, MODE_CALLS_X86_64].concat();
                let refused: Vec<c_long> =
                    attributes.into_iter().chain(modes.into_iter().filter(|_| !ptrace)).collect();
                allowed.retain(|call| !refused.contains(call));
                closed.extend(refused);
            }
            for number in (0..2000).chain([0x4000_0000, 0x4000_0027, u32::MAX]) {
                let expected = if allowed.contains(&c_long::from(number)) {
                    libc::SECCOMP_RET_ALLOW
                } else if closed.contains(&c_long::from(number)) {
                    libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()
                } else {
                    libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()
                };
                assert_eq!(answer(&program, AUDIT_ARCH, number), expected, "{number}");
            }
            assert_eq!(answer(&program, 0x4000_0003, 1), libc::SECCOMP_RET_KILL_PROCESS);
            assert!(program.len() < 1000, "{}", program.len());
        }
    }
}
