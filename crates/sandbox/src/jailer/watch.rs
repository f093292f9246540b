//! The watch over the tree, from pid 1 inside, where `/proc` shows the tree and nothing else. Owns the sums
//! of memory, processes, CPU time and disk, and says when a limit is passed; refuses to guess: what looks
//! too large on the cheap figure is measured on the exact one before the run is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstatvfs, openat};
use rustix::process::{Pid, Signal, kill_process};

use crate::outcome::{Cut, Exit};
use crate::spec::Limits;
use crate::sys;
use crate::view::is_overlay;

const INTERVAL: Duration = Duration::from_millis(20);
const SHARED_INTERVAL: Duration = Duration::from_millis(200);
const DISK_INTERVAL: Duration = Duration::from_secs(5);
/// A look may take one part in this many of the time.
const DUTY: u32 = 10;
/// What a file or directory is charged at least, so that empty ones have a bound too.
const MIN_CHARGE: u64 = 1024;
const MAX_DEPTH: usize = 256;

pub(super) enum Verdict {
    GoOn,
    End(Cut),
}

pub(super) struct Watch {
    limits: Limits,
    stores: Vec<Store>,
    /// A tmpfs, whose pages are memory.
    scratch: Option<OwnedFd>,
    members: Members,
    next: Instant,
    next_shared: Instant,
    next_disk: Instant,
    peak_memory_bytes: u64,
    peak_processes: u32,
    cpu_us: u64,
    hidden_bytes: u64,
    ticks: u64,
}

struct Store {
    upper: OwnedFd,
    free_bytes: u64,
    free_inodes: u64,
    /// What it held before the run and is not charged.
    before_bytes: u64,
}

/// A directory that a copy-on-write mount writes to.
pub(super) struct WrittenTo {
    pub(super) directory: OwnedFd,
    pub(super) holds_a_copy: bool,
}

/// What `/proc/PID/stat` says of one process.
struct Process {
    pid: u32,
    /// A thread that lives: once the first one has ended, `/proc/PID` shows no memory and no file.
    thread: u32,
    is_dead: bool,
    parent: u32,
    cpu_ticks: u64,
    threads: u32,
    resident_bytes: u64,
}

impl Watch {
    pub(super) fn new(
        limits: &Limits,
        stores: Vec<WrittenTo>,
        scratch: Option<OwnedFd>,
        members: Members,
    ) -> Self {
        let now = Instant::now();
        let stores = stores
            .into_iter()
            .map(|store| {
                let upper = store.directory;
                let (free_bytes, free_inodes) = free(&upper);
                let before = if store.holds_a_copy { tree_bytes(&upper, 0, u64::MAX) } else { None };
                let before_bytes = before.unwrap_or(0);
                Store { upper, free_bytes, free_inodes, before_bytes }
            })
            .collect();
        Self {
            limits: limits.clone(),
            stores,
            scratch,
            members,
            next: now + INTERVAL,
            next_shared: now + SHARED_INTERVAL,
            next_disk: now + DISK_INTERVAL,
            peak_memory_bytes: 0,
            peak_processes: 1,
            cpu_us: 0,
            hidden_bytes: 0,
            ticks: sys::clock_ticks(),
        }
    }

    pub(super) fn until_next_look(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    pub(super) fn peak_memory_bytes(&self) -> u64 {
        self.peak_memory_bytes
    }

    pub(super) fn peak_processes(&self) -> u32 {
        self.peak_processes
    }

    pub(super) fn cpu_us(&self) -> u64 {
        self.cpu_us
    }

    /// Asks every process of the tree to end.
    pub(super) fn terminate(&self) {
        match self.members {
            Members::Namespace => sys::kill_all(libc::SIGTERM),
            Members::Descendants => {
                for pid in self.members.pids().into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed()))
                {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
    }

    /// The cut behind the way a command ended, if the kernel ended it for us.
    pub(super) fn cut_of(&self, exit: Exit) -> Option<Cut> {
        let (waited_us, _) = sys::children_usage();
        let out_of_cpu = waited_us / 1000 >= self.limits.cpu_ms;
        match exit {
            Exit::Signal(libc::SIGXCPU) => Some(Cut::CpuTime { limit_ms: self.limits.cpu_ms }),
            Exit::Signal(libc::SIGKILL) if out_of_cpu => Some(Cut::CpuTime { limit_ms: self.limits.cpu_ms }),
            _ => None,
        }
    }

    /// Looks at the whole tree once.
    pub(super) fn look(&mut self) -> Verdict {
        let start = Instant::now();
        let verdict = self.look_now(start);
        let cost = start.elapsed();
        self.next = Instant::now() + INTERVAL.max(cost.saturating_mul(DUTY));
        verdict
    }

    fn look_now(&mut self, now: Instant) -> Verdict {
        let processes = self.members.processes();
        let threads = processes.iter().fold(0u32, |sum, p| sum.saturating_add(p.threads));
        self.peak_processes = self.peak_processes.max(threads);

        let live = processes.iter().fold(0u64, |sum, p| sum.saturating_add(p.cpu_ticks));
        let live_us = live.saturating_mul(1_000_000) / self.ticks;
        self.cpu_us = self.cpu_us.max(live_us.saturating_add(sys::children_usage().0));
        if self.cpu_us / 1000 > self.limits.cpu_ms {
            return Verdict::End(Cut::CpuTime { limit_ms: self.limits.cpu_ms });
        }

        if now >= self.next_shared {
            self.hidden_bytes = hidden_bytes(&processes);
            let cost = now.elapsed();
            self.next_shared = Instant::now() + SHARED_INTERVAL.max(cost.saturating_mul(DUTY));
        }
        let scratch = self.scratch.as_ref().map_or(0, used_bytes);
        let beside = scratch.saturating_add(self.hidden_bytes);
        let resident = processes.iter().fold(0u64, |sum, p| sum.saturating_add(p.resident_bytes));
        let mut memory = resident.saturating_add(beside);
        if memory > self.limits.memory_bytes {
            memory = processes
                .iter()
                .fold(0u64, |sum, p| sum.saturating_add(exact_bytes(p)))
                .saturating_add(beside);
        }
        self.peak_memory_bytes = self.peak_memory_bytes.max(memory.min(resident.saturating_add(beside)));
        if memory > self.limits.memory_bytes {
            return Verdict::End(Cut::Memory { limit_bytes: self.limits.memory_bytes, seen_bytes: memory });
        }
        self.look_at_disk(now, &processes)
    }

    /// Measures what was written when the file system has shrunk enough for it to matter, or it is time.
    fn look_at_disk(&mut self, now: Instant, processes: &[Process]) -> Verdict {
        let step = (self.limits.disk_bytes / 8).clamp(1 << 20, 256 << 20);
        let due = now >= self.next_disk;
        let shrunk = self.stores.iter().any(|store| {
            let (bytes, inodes) = free(&store.upper);
            store.free_bytes.saturating_sub(bytes) > step || store.free_inodes.saturating_sub(inodes) > 4096
        });
        if self.stores.is_empty() || !(due || shrunk) {
            return Verdict::GoOn;
        }
        let mut seen = deleted_bytes(processes, &self.stores);
        for store in &mut self.stores {
            (store.free_bytes, store.free_inodes) = free(&store.upper);
            let enough = self.limits.disk_bytes.saturating_add(store.before_bytes);
            let Some(bytes) = tree_bytes(&store.upper, 0, enough) else {
                return Verdict::End(Cut::Depth { limit: MAX_DEPTH as u64 });
            };
            seen = seen.saturating_add(bytes.saturating_sub(store.before_bytes));
        }
        let cost = now.elapsed();
        self.next_disk = Instant::now() + DISK_INTERVAL.max(cost.saturating_mul(DUTY));
        if seen > self.limits.disk_bytes {
            return Verdict::End(Cut::Disk { limit_bytes: self.limits.disk_bytes, seen_bytes: seen });
        }
        Verdict::GoOn
    }
}

fn free(at: &OwnedFd) -> (u64, u64) {
    fstatvfs(at).map_or((0, 0), |v| (v.f_bavail.saturating_mul(v.f_frsize), v.f_favail))
}

fn used_bytes(at: &OwnedFd) -> u64 {
    fstatvfs(at).map_or(0, |v| v.f_blocks.saturating_sub(v.f_bfree).saturating_mul(v.f_frsize))
}

/// Which processes are the tree.
#[derive(Debug, Clone, Copy)]
pub(super) enum Members {
    /// All that `/proc` shows but ourselves, pid 1.
    Namespace,
    /// Our descendants; those that lost their parent are our children.
    Descendants,
}

impl Members {
    pub(super) fn pids(self) -> Vec<u32> {
        self.processes().into_iter().map(|process| process.pid).collect()
    }

    fn processes(self) -> Vec<Process> {
        let all = processes();
        match self {
            Self::Namespace => all.into_iter().filter(|process| process.pid != 1).collect(),
            Self::Descendants => descendants(all),
        }
    }
}

fn descendants(all: Vec<Process>) -> Vec<Process> {
    let mut parents = BTreeSet::from([std::process::id()]);
    let (mut found, mut rest) = (Vec::new(), all);
    loop {
        let (children, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|process| parents.contains(&process.parent));
        if children.is_empty() {
            return found;
        }
        parents.extend(children.iter().map(|process| process.pid));
        found.extend(children);
        rest = others;
    }
}

fn processes() -> Vec<Process> {
    numbers("/proc").filter_map(process).collect()
}

/// The names in a directory of `/proc` that are ids.
fn numbers(directory: &str) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The threads that the user of this process runs on the machine.
pub(super) fn own_threads() -> u64 {
    let user = rustix::process::geteuid().as_raw();
    let is_own = |process: &Process| {
        std::fs::metadata(format!("/proc/{}", process.pid)).is_ok_and(|metadata| metadata.uid() == user)
    };
    processes().iter().filter(|process| is_own(process)).map(|process| u64::from(process.threads)).sum()
}

fn process(pid: u32) -> Option<Process> {
    let first = thread(pid)?;
    if !first.is_dead || first.threads <= 1 {
        return Some(first);
    }
    let living = numbers(&format!("/proc/{pid}/task")).filter_map(thread).find(|thread| !thread.is_dead);
    Some(living.map_or(first, |living| Process { pid, ..living }))
}

fn thread(id: u32) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{id}/stat")).ok()?;
    // The name may hold anything, a closing parenthesis too; the fields follow the last one.
    let end = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(stat.get(end.checked_add(2)?..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| {
        fields.get(index).and_then(|f| f.trim().parse::<i64>().ok()).unwrap_or(0).max(0).cast_unsigned()
    };
    let cpu_ticks = (11..=14).fold(0u64, |sum, index| sum.saturating_add(number(index)));
    Some(Process {
        pid: id,
        thread: id,
        is_dead: matches!(fields.first(), Some(&("Z" | "X"))),
        parent: u32::try_from(number(1)).unwrap_or(0),
        cpu_ticks,
        threads: u32::try_from(number(17)).unwrap_or(u32::MAX),
        resident_bytes: number(21).saturating_mul(rustix::param::page_size() as u64),
    })
}

/// The anonymous and shared memory of a process, shared pages counted by their share; its resident size
/// where the kernel does not tell. One that has ended since it was listed has none.
fn exact_bytes(listed: &Process) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", listed.thread));
    let Some(process) = process(listed.pid) else { return 0 };
    let Ok(text) = rollup else { return process.resident_bytes };
    match (kilobytes(&text, "Pss_Anon:"), kilobytes(&text, "Pss_Shmem:")) {
        (Some(anonymous), Some(shared)) => anonymous.saturating_add(shared).saturating_mul(1024),
        _ => kilobytes(&text, "Pss:").map_or(process.resident_bytes, |p| p.saturating_mul(1024)),
    }
}

/// Memory that is in no process's resident size: page tables, what was swapped out, and shared anonymous memory that
/// is mapped but not resident. Its pages can be filled and then unmapped from sight, so the mapping's size is charged, once
/// for each object.
fn hidden_bytes(processes: &[Process]) -> u64 {
    let mut objects = BTreeMap::<u64, u64>::new();
    let (mut resident, mut beside) = (0u64, 0u64);
    for process in processes {
        let Ok(maps) = File::open(format!("/proc/{}/maps", process.thread)) else { continue };
        // A name in it may be no text, and there may be more of them than should be held at once.
        for line in BufReader::new(maps).split(b'\n').map_while(Result::ok) {
            if let Some((inode, size)) = shared_mapping(&String::from_utf8_lossy(&line)) {
                let largest = objects.entry(inode).or_default();
                *largest = (*largest).max(size);
            }
        }
        let status = std::fs::read(format!("/proc/{}/status", process.thread)).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let bytes = |name: &str| kilobytes(&status, name).unwrap_or(0).saturating_mul(1024);
        resident = resident.saturating_add(bytes("RssShmem:"));
        beside = beside.saturating_add(bytes("VmPTE:")).saturating_add(bytes("VmSwap:"));
    }
    let shared = objects.values().fold(0u64, |sum, size| sum.saturating_add(*size));
    shared.saturating_sub(resident).saturating_add(beside)
}

/// A figure of a file of `/proc` that has one on each line.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The inode and size of a mapping of shared anonymous memory; none for another line of `/proc/PID/maps`.
fn shared_mapping(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let (range, access) = (words.next()?, words.next()?);
    let (inode, name) = (words.nth(2)?, words.next()?);
    let is_anonymous = name == "/dev/zero" || name.starts_with("/memfd:") || name.starts_with("/SYSV");
    if !access.ends_with('s') || !is_anonymous {
        return None;
    }
    let (low, high) = range.split_once('-')?;
    let address = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((inode.parse().ok()?, address(high)?.saturating_sub(address(low)?)))
}

/// What files take that are in no directory any more and that a process holds open, each once.
fn deleted_bytes(processes: &[Process], stores: &[Store]) -> u64 {
    let devices: BTreeSet<u64> =
        stores.iter().filter_map(|store| Some(rustix::fs::fstat(&store.upper).ok()?.st_dev)).collect();
    let mut files = BTreeMap::new();
    for process in processes {
        let Ok(open) = std::fs::read_dir(format!("/proc/{}/fd", process.thread)) else { continue };
        for at in open.flatten().map(|entry| entry.path()) {
            let Ok(file) = std::fs::metadata(&at) else { continue };
            let is_deleted = file.is_file() && file.nlink() == 0;
            // Through an overlay a file has a device of the overlay's own.
            if is_deleted && (devices.contains(&file.dev()) || is_overlay(&at)) {
                files.insert((file.dev(), file.ino()), file.blocks().saturating_mul(512));
            }
        }
    }
    files.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes))
}

/// What a tree takes on disk; stops once it is past `enough`. None when it is nested too deep to be measured.
fn tree_bytes(directory: &OwnedFd, depth: usize, enough: u64) -> Option<u64> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut sum = 0u64;
    let Ok(entries) = Dir::read_from(directory.as_fd()) else { return Some(0) };
    for entry in entries.flatten() {
        let name: &CStr = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        sum = sum.saturating_add(blocks.max(MIN_CHARGE));
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(inner) = openat(directory, name, flags, Mode::empty()) {
                sum = sum.saturating_add(tree_bytes(&inner, depth.saturating_add(1), enough)?);
            }
        }
        if sum > enough {
            break;
        }
    }
    Some(sum)
}
