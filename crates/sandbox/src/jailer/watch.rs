//! The watchdog over the tree, from pid 1 inside, where `/proc` shows the tree and nothing else. Owns the sums
//! of memory, processes and CPU time, and says when a limit is exceeded; refuses to guess: memory that looks
//! too large by the cheap figure is measured exactly before the run is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::fstatvfs;
use rustix::process::{Pid, Signal, kill_process};

use super::survey::{Disk, Survey, SurveyResult};
use crate::outcome::{Cut, Exit};
use crate::spec::ResourceLimits;
use crate::sys;
use crate::wire::{Failure, SetupStep};

const INTERVAL: Duration = Duration::from_millis(20);
/// After a check, the pause is this many times its duration, so that watching is a small part of the work.
const DUTY: u32 = 10;
/// But no longer than this, or a tree that takes long to check would be left alone.
const MAX_PAUSE: Duration = Duration::from_millis(200);

pub(super) enum WatchVerdict {
    Continue,
    End(Cut),
}

pub(super) struct Watch {
    limits: ResourceLimits,
    survey: Survey,
    /// A tmpfs, whose pages are memory.
    scratch: Option<OwnedFd>,
    members: Members,
    next: Instant,
    peak_memory_bytes: u64,
    peak_processes: u32,
    cpu_us: u64,
    own_cpu: OwnCpu,
    hidden_bytes: u64,
    ticks: u64,
}

/// CPU time by each process's own account, including ended ones. Children that no one waits for are in no other
/// account; waited-for ones are, so the larger of the two counts.
#[derive(Default)]
struct OwnCpu {
    live: BTreeMap<(u32, u64), u64>,
    gone_ticks: u64,
}

impl OwnCpu {
    /// The ticks of all processes that were ever seen.
    fn see(&mut self, processes: &[Process]) -> u64 {
        let now: BTreeMap<(u32, u64), u64> =
            processes.iter().map(|process| ((process.pid, process.started), process.own_ticks)).collect();
        for (id, ticks) in &self.live {
            if !now.contains_key(id) {
                self.gone_ticks = self.gone_ticks.saturating_add(*ticks);
            }
        }
        self.live = now;
        self.live.values().fold(self.gone_ticks, |sum, ticks| sum.saturating_add(*ticks))
    }
}

/// What `/proc/PID/stat` says about one process.
pub(super) struct Process {
    pid: u32,
    /// A live thread: once the first one has ended, `/proc/PID` shows no memory and no file.
    pub(super) thread: u32,
    is_dead: bool,
    parent: u32,
    /// Its own and that of the children it waited for.
    cpu_ticks: u64,
    own_ticks: u64,
    /// When it started; distinguishes it from an earlier process of the same id.
    started: u64,
    threads: u32,
    resident_bytes: u64,
}

impl Watch {
    /// Starts a thread, so nothing may be forked after it.
    pub(super) fn start(
        limits: &ResourceLimits,
        disk: Disk,
        scratch: Option<OwnedFd>,
        members: Members,
    ) -> Result<Self, Failure> {
        let survey = Survey::start(disk).map_err(|e| Failure::new(SetupStep::Watch, "a thread", &e))?;
        Ok(Self {
            limits: limits.clone(),
            survey,
            scratch,
            members,
            next: Instant::now() + INTERVAL,
            peak_memory_bytes: 0,
            peak_processes: 1,
            cpu_us: 0,
            own_cpu: OwnCpu::default(),
            hidden_bytes: 0,
            ticks: sys::clock_ticks(),
        })
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

    /// The cut that explains how a command ended, if the kernel killed it for us.
    pub(super) fn cut_of(&self, exit: Exit) -> Option<Cut> {
        let (waited_us, _) = sys::children_usage();
        let out_of_cpu = waited_us / 1000 >= self.limits.cpu_ms;
        match exit {
            Exit::Signal(libc::SIGXCPU) => Some(Cut::CpuTime { limit_ms: self.limits.cpu_ms }),
            Exit::Signal(libc::SIGKILL) if out_of_cpu => Some(Cut::CpuTime { limit_ms: self.limits.cpu_ms }),
            _ => None,
        }
    }

    /// Checks the whole tree once.
    pub(super) fn look(&mut self) -> WatchVerdict {
        let start = Instant::now();
        let verdict = self.look_now();
        let cost = start.elapsed();
        self.next = Instant::now() + cost.saturating_mul(DUTY).clamp(INTERVAL, MAX_PAUSE);
        verdict
    }

    fn look_now(&mut self) -> WatchVerdict {
        let processes = self.members.processes();
        let threads = processes.iter().fold(0u32, |sum, p| sum.saturating_add(p.threads));
        self.peak_processes = self.peak_processes.max(threads);

        let live = processes.iter().fold(0u64, |sum, p| sum.saturating_add(p.cpu_ticks));
        let live_us = live.saturating_mul(1_000_000) / self.ticks;
        let own_us = self.own_cpu.see(&processes).saturating_mul(1_000_000) / self.ticks;
        self.cpu_us = self.cpu_us.max(live_us.saturating_add(sys::children_usage().0)).max(own_us);
        if self.cpu_us / 1000 > self.limits.cpu_ms {
            return WatchVerdict::End(Cut::CpuTime { limit_ms: self.limits.cpu_ms });
        }

        let scratch = self.scratch.as_ref().map_or(0, used_bytes);
        let beside = scratch.saturating_add(self.hidden_bytes);
        let limit_bytes = self.limits.memory_bytes;
        let memory = memory_bytes(&processes, beside, limit_bytes);
        self.peak_memory_bytes = self.peak_memory_bytes.max(memory);
        if memory > limit_bytes {
            return WatchVerdict::End(Cut::Memory { limit_bytes, seen_bytes: memory });
        }
        match self.survey.turn(processes) {
            Some(SurveyResult { hidden_bytes, cut }) => {
                self.hidden_bytes = hidden_bytes;
                cut.map_or(WatchVerdict::Continue, WatchVerdict::End)
            }
            None => WatchVerdict::Continue,
        }
    }
}

fn used_bytes(at: &OwnedFd) -> u64 {
    fstatvfs(at).map_or(0, |v| v.f_blocks.saturating_sub(v.f_bfree).saturating_mul(v.f_frsize))
}

/// Which processes belong to the tree.
#[derive(Debug, Clone, Copy)]
pub(super) enum Members {
    /// All that `/proc` shows except ourselves, pid 1.
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
    // The name may contain anything, including a closing parenthesis; the fields follow the last one.
    let end = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(stat.get(end.checked_add(2)?..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| {
        fields.get(index).and_then(|f| f.trim().parse::<i64>().ok()).unwrap_or(0).max(0).cast_unsigned()
    };
    let own_ticks = number(11).saturating_add(number(12));
    let cpu_ticks = own_ticks.saturating_add(number(13)).saturating_add(number(14));
    Some(Process {
        pid: id,
        thread: id,
        is_dead: matches!(fields.first(), Some(&("Z" | "X"))),
        parent: u32::try_from(number(1)).unwrap_or(0),
        cpu_ticks,
        own_ticks,
        started: number(19),
        threads: u32::try_from(number(17)).unwrap_or(u32::MAX),
        resident_bytes: number(21).saturating_mul(rustix::param::page_size() as u64),
    })
}

/// The memory of the tree, `beside` included: summed as resident size, in which shared pages count for each
/// process, and if that exceeds the limit measured exactly, largest first, until it is clear on which side it is.
fn memory_bytes(processes: &[Process], beside: u64, limit_bytes: u64) -> u64 {
    let mut sizes: Vec<&Process> = processes.iter().collect();
    sizes.sort_by_key(|process| std::cmp::Reverse(process.resident_bytes));
    let mut at_most = sizes.iter().fold(beside, |sum, process| sum.saturating_add(process.resident_bytes));
    let mut measured = beside;
    for process in sizes {
        if at_most <= limit_bytes || measured > limit_bytes {
            break;
        }
        let exact = exact_bytes(process);
        measured = measured.saturating_add(exact);
        at_most = at_most.saturating_sub(process.resident_bytes).saturating_add(exact);
    }
    if measured > limit_bytes { measured } else { at_most }
}

/// The anonymous and shared memory of a process, shared pages counted by their share; its resident size
/// if the kernel does not report it. A process that has ended since it was listed has none.
fn exact_bytes(listed: &Process) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", listed.thread));
    let Some(process) = process(listed.pid) else { return 0 };
    let Ok(text) = rollup else { return process.resident_bytes };
    match (kilobytes(&text, "Pss_Anon:"), kilobytes(&text, "Pss_Shmem:")) {
        (Some(anonymous), Some(shared)) => anonymous.saturating_add(shared).saturating_mul(1024),
        _ => kilobytes(&text, "Pss:").map_or(process.resident_bytes, |p| p.saturating_mul(1024)),
    }
}

/// A figure from a file of `/proc` that has one on each line.
pub(super) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
