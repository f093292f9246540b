//! The slow part of the watchdog: a check of every mapping, every open file and every file written. Owns the
//! thread for it, so that a tree built to take seconds to check is not unwatched meanwhile; refuses to follow a
//! symbolic link.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstatvfs, openat};

use super::watch::{Process, kilobytes};
use crate::outcome::Cut;
use crate::view::is_overlay;

const INTERVAL: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// After a check, the pause is this many times its duration.
const DUTY: u32 = 3;
const DISK_INTERVAL: Duration = Duration::from_secs(5);
const DISK_DUTY: u32 = 10;
/// The minimum charge for a file or directory, so that empty ones are limited too.
const MIN_CHARGE: u64 = 4096;
/// What a socket may buffer: the system's default for sending, and as much for receiving. The filter keeps it there.
pub(crate) const SOCKET_CHARGE: u64 = 2 * 212_992;
/// So many sockets are not charged: every program has them, and they are rarely full.
pub(crate) const FREE_SOCKETS: u64 = 256;
/// What a pipe may buffer once its user's pipes hold as much as the kernel allows a user (64 MiB by default).
const PIPE_CHARGE: u64 = 2 * 4096;
/// As many as the kernel gives a user at their full size.
const FREE_PIPES: u64 = 1024;
const MAX_DEPTH: usize = 256;

/// The result of one check.
pub(super) struct SurveyResult {
    pub(super) hidden_bytes: u64,
    pub(super) cut: Option<Cut>,
}

pub(super) struct Survey {
    asks: Sender<Vec<Process>>,
    answers: Receiver<SurveyResult>,
    asked: Option<Instant>,
    next: Instant,
}

impl Survey {
    pub(super) fn start(mut disk: Disk) -> io::Result<Self> {
        let (asks, asked) = channel::<Vec<Process>>();
        let (answer, answers) = channel();
        std::thread::Builder::new().name("survey".to_owned()).spawn(move || {
            while let Ok(processes) = asked.recv() {
                let hidden_bytes = hidden_bytes(&processes);
                let cut = disk.look(&processes);
                if answer.send(SurveyResult { hidden_bytes, cut }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { asks, answers, asked: None, next: Instant::now() + INTERVAL })
    }

    /// The result of the last check, once; starts the next one on these processes when it is time.
    pub(super) fn turn(&mut self, processes: Vec<Process>) -> Option<SurveyResult> {
        let now = Instant::now();
        if let Some(asked) = self.asked {
            let found = self.answers.try_recv().ok()?;
            let cost = now.saturating_duration_since(asked);
            self.next = now + cost.saturating_mul(DUTY).clamp(INTERVAL, MAX_PAUSE);
            self.asked = None;
            return Some(found);
        }
        if now >= self.next {
            self.asked = self.asks.send(processes).is_ok().then_some(now);
        }
        None
    }
}

/// A directory to which a copy-on-write mount writes.
pub(super) struct WrittenTo {
    pub(super) directory: OwnedFd,
    pub(super) holds_a_copy: bool,
}

/// What is written to disk.
pub(super) struct Disk {
    limit_bytes: u64,
    stores: Vec<Store>,
    next: Instant,
}

struct Store {
    upper: OwnedFd,
    /// When the run started.
    first_free_bytes: u64,
    /// At the last check.
    free_bytes: u64,
    free_inodes: u64,
    /// What it held before the run, which is not charged.
    before_bytes: u64,
}

impl Disk {
    /// To be created before the command can write.
    pub(super) fn new(limit_bytes: u64, stores: Vec<WrittenTo>) -> Self {
        let stores = stores.into_iter().map(|store| {
            let upper = store.directory;
            let (free_bytes, free_inodes) = free(&upper);
            let before = if store.holds_a_copy { tree_bytes(&upper, 0, u64::MAX) } else { None };
            Store {
                upper,
                first_free_bytes: free_bytes,
                free_bytes,
                free_inodes,
                before_bytes: before.unwrap_or(0),
            }
        });
        Self { limit_bytes, stores: stores.collect(), next: Instant::now() + DISK_INTERVAL }
    }

    /// Measures the writes if the free space has shrunk enough for it to matter, or it is time.
    fn look(&mut self, processes: &[Process]) -> Option<Cut> {
        let step = (self.limit_bytes / 8).clamp(1 << 20, 256 << 20);
        let now = Instant::now();
        let has_shrunk = self.stores.iter().any(|store| {
            let (bytes, inodes) = free(&store.upper);
            store.free_bytes.saturating_sub(bytes) > step || store.free_inodes.saturating_sub(inodes) > 4096
        });
        if self.stores.is_empty() || !(now >= self.next || has_shrunk) {
            return None;
        }
        let mut seen = deleted_bytes(processes, &self.stores);
        for store in &mut self.stores {
            (store.free_bytes, store.free_inodes) = free(&store.upper);
            let enough = self.limit_bytes.saturating_add(store.before_bytes);
            let Some(bytes) = tree_bytes(&store.upper, 0, enough) else {
                return Some(Cut::Depth { limit: MAX_DEPTH as u64 });
            };
            seen = seen.saturating_add(bytes.saturating_sub(store.before_bytes));
        }
        self.next = Instant::now() + DISK_INTERVAL.max(now.elapsed().saturating_mul(DISK_DUTY));
        let limit_bytes = self.limit_bytes;
        let shrunk = self.stores.iter().map(|store| store.first_free_bytes.saturating_sub(store.free_bytes));
        let shrunk = shrunk.max().unwrap_or(0);
        if seen <= limit_bytes && shrunk > limit_bytes && has_unmeasured_files(processes) {
            seen = shrunk;
        }
        (seen > limit_bytes).then_some(Cut::Disk { limit_bytes, seen_bytes: seen })
    }
}

fn free(at: &OwnedFd) -> (u64, u64) {
    fstatvfs(at).map_or((0, 0), |v| (v.f_bavail.saturating_mul(v.f_frsize), v.f_favail))
}

/// Memory that is in no process's resident size: page tables, swapped-out memory, and shared anonymous memory that
/// is mapped but not resident. Its pages can be filled and then unmapped, so the mapping's size is charged, once
/// for each object.
fn hidden_bytes(processes: &[Process]) -> u64 {
    let mut objects = BTreeMap::<u64, u64>::new();
    let (mut resident, mut beside) = (0u64, 0u64);
    for process in processes {
        let Ok(maps) = File::open(format!("/proc/{}/maps", process.thread)) else { continue };
        // A name in it may not be text, and there may be more of them than should be held at once.
        for line in BufReader::new(maps).split(b'\n').map_while(Result::ok) {
            if let Some((inode, size)) = shared_mapping(&String::from_utf8_lossy(&line)) {
                let largest = objects.entry(inode).or_default();
                *largest = (*largest).max(size);
            }
        }
        let Ok(status) = std::fs::read(format!("/proc/{}/status", process.thread)) else { continue };
        let status = String::from_utf8_lossy(&status);
        let bytes = |name: &str| kilobytes(&status, name).unwrap_or(0).saturating_mul(1024);
        resident = resident.saturating_add(bytes("RssShmem:"));
        beside = beside.saturating_add(bytes("VmPTE:")).saturating_add(bytes("VmSwap:"));
    }
    beside = beside.saturating_add(buffer_bytes(processes));
    let shared = objects.values().fold(0u64, |sum, size| sum.saturating_add(*size));
    shared.saturating_sub(resident).saturating_add(beside)
}

/// What the sockets and pipes of the tree may hold in their buffers, which the kernel charges to no process.
fn buffer_bytes(processes: &[Process]) -> u64 {
    let (mut sockets, mut pipes) = (BTreeSet::new(), BTreeSet::new());
    for process in processes {
        let Ok(open) = std::fs::read_dir(format!("/proc/{}/fd", process.thread)) else { continue };
        for entry in open.flatten() {
            let Ok(target) = std::fs::read_link(entry.path()) else { continue };
            let Some((kind, inode)) =
                target.to_str().and_then(|text| text.strip_suffix(']')?.split_once(":["))
            else {
                continue;
            };
            let Ok(inode) = inode.parse::<u64>() else { continue };
            match kind {
                "socket" => drop(sockets.insert(inode)),
                "pipe" => drop(pipes.insert(inode)),
                _ => {}
            }
        }
    }
    let charge =
        |count: usize, free: u64, each: u64| (count as u64).saturating_sub(free).saturating_mul(each);
    let sockets = charge(sockets.len(), FREE_SOCKETS, SOCKET_CHARGE);
    sockets.saturating_add(charge(pipes.len(), FREE_PIPES, PIPE_CHARGE))
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

/// The size of files that are in no directory any more and that a process holds open, each once.
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

/// Whether a process has a file that is in no directory and no descriptor table: it is only mapped, or in flight through a
/// socket. Its size cannot be read, so the file system's free space decides.
fn has_unmeasured_files(processes: &[Process]) -> bool {
    let is_deleted_file = |line: &[u8]| {
        let is_memory = [&b" /memfd:"[..], b" /dev/zero ", b" /SYSV"].iter().any(|name| contains(line, name));
        line.ends_with(b" (deleted)") && !is_memory
    };
    let maps_one = |process: &Process| {
        let maps = File::open(format!("/proc/{}/maps", process.thread));
        let lines = maps.into_iter().flat_map(|maps| BufReader::new(maps).split(b'\n').map_while(Result::ok));
        lines.into_iter().any(|line| is_deleted_file(&line))
    };
    let sends_one = |process: &Process| {
        let open = std::fs::read_dir(format!("/proc/{}/fdinfo", process.thread)).into_iter().flatten();
        open.flatten().any(|entry| {
            #[expect(clippy::disallowed_methods, reason = "a process may end while it is looked at")]
            let info = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let count = info.lines().find_map(|line| line.strip_prefix("scm_fds:"));
            count.is_some_and(|count| count.trim() != "0")
        })
    };
    processes.iter().any(|process| maps_one(process) || sends_one(process))
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// What a tree takes on disk; stops once it is past `enough`. None if it is nested too deep to be measured.
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
