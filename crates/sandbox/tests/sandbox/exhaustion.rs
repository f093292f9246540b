//! Programs that try to exhaust the machine, or not to end.

use std::time::{Duration, Instant};

use crealeph_sandbox::{Cgroups, Cut, Exit, Mount, SandboxOutcome};

use crate::world::{Case, World, processes_with, python, shell};

pub(crate) const CASES: &[Case] = &[
    Case("fork_without_end", fork_without_end),
    Case("threads_without_end", threads_without_end),
    Case("heap_without_end", heap_without_end),
    Case("heap_without_end_no_cgroup", heap_without_end_no_cgroup),
    Case("heap_in_many_processes_no_cgroup", heap_in_many_processes_no_cgroup),
    Case("heap_of_a_thread_left_alone_no_cgroup", heap_of_a_thread_left_alone_no_cgroup),
    Case("shared_memory_without_end", shared_memory_without_end),
    Case("shared_memory_without_end_no_cgroup", shared_memory_without_end_no_cgroup),
    Case("hidden_shared_memory_no_cgroup", hidden_shared_memory_no_cgroup),
    Case("shared_memory_behind_a_strange_name_no_cgroup", shared_memory_behind_a_strange_name_no_cgroup),
    Case("page_tables_without_end_no_cgroup", page_tables_without_end_no_cgroup),
    Case("a_watch_that_is_kept_busy_no_cgroup", a_watch_that_is_kept_busy_no_cgroup),
    Case("unmapped_shared_memory", unmapped_shared_memory),
    Case("tmpfs_is_bounded", tmpfs_is_bounded),
    Case("a_file_is_bounded", a_file_is_bounded),
    Case("the_disk_is_bounded", the_disk_is_bounded),
    Case("deleted_files_are_bounded", deleted_files_are_bounded),
    Case("many_small_files_are_bounded", many_small_files_are_bounded),
    Case("floods_are_cut", floods_are_cut),
    Case("never_ends", never_ends),
    Case("ignores_sigterm", ignores_sigterm),
    Case("burns_cpu", burns_cpu),
    Case("burns_cpu_in_many_processes", burns_cpu_in_many_processes),
    Case("a_daemon_dies_too", a_daemon_dies_too),
    Case("a_shared_library_is_not_counted_twice", a_shared_library_is_not_counted_twice),
    Case("stopped_processes_die_too", stopped_processes_die_too),
];

const MIB: u64 = 1 << 20;

fn without_cgroups() -> World {
    World::with(|config| config.cgroups = Cgroups::Off)
}

fn fork_without_end(world: &World) {
    for world in [world, &without_cgroups()] {
        let program = "
import os, time
count = 0
try:
    while True:
        if os.fork() == 0:
            while True:
                try: os.fork()
                except OSError: time.sleep(0.01)
        count += 1
except OSError as e:
    print('refused', e.errno)
time.sleep(0.5)";
        let mut spec = python(program);
        spec.limits.processes = 40;
        spec.limits.wall_ms = 30_000;
        let outcome = world.run(&spec);
        assert_eq!(outcome.stdout.text().trim(), "refused 11", "{outcome:?}");
        assert_eq!(outcome.exit, Exit::Code(0));
        assert!(outcome.usage.peak_processes <= 40, "{:?}", outcome.usage);
        assert!(outcome.cuts.contains(&Cut::Processes { limit: 40 }), "{outcome:?}");
    }
}

fn threads_without_end(_: &World) {
    let world = without_cgroups();
    let program = "
import threading, time
n = 0
try:
    while n < 500:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1
except RuntimeError: print('refused', n, flush=True)
import os; os._exit(0)";
    let mut spec = python(program);
    spec.limits.processes = 50;
    let outcome = world.run(&spec);
    assert_eq!(outcome.stdout.text().trim(), "refused 49", "{outcome:?}");
}

fn ended_for_memory(outcome: &SandboxOutcome, limit: u64) {
    let cut = outcome.cuts.iter().find(|c| matches!(c, Cut::Memory { .. }));
    assert!(
        cut.is_some(),
        "{:?} {:?} {}{}",
        outcome.exit,
        outcome.cuts,
        outcome.stdout.text(),
        outcome.stderr.text()
    );
    assert!(!outcome.succeeded());
    assert!(!outcome.stdout.text().contains("GOT"), "{}", outcome.stdout.text());
    // A burst between two checks may exceed the limit, by no more than this.
    assert!(outcome.usage.peak_memory_bytes < limit + 1024 * MIB, "{:?}", outcome.usage);
}

const HEAP: &str = "
kept = []
for i in range(400):
    kept.append(bytearray(b'x' * (10 << 20)))
print('GOT 4000 MB')";

fn heap_without_end(world: &World) {
    let outcome = world.python_with(HEAP, |spec| spec.limits.memory_bytes = 256 * MIB);
    ended_for_memory(&outcome, 256 * MIB);
}

fn heap_without_end_no_cgroup(_: &World) {
    heap_without_end(&without_cgroups());
}

fn heap_in_many_processes_no_cgroup(_: &World) {
    let program = "
import os, time
for i in range(20):
    if os.fork() == 0:
        x = bytearray(b'x' * (40 << 20)); time.sleep(20); os._exit(0)
time.sleep(20)
print('GOT 800 MB')";
    let outcome = without_cgroups().python_with(program, |spec| spec.limits.memory_bytes = 300 * MIB);
    ended_for_memory(&outcome, 300 * MIB);
}

/// The first thread ends, and what `/proc` shows of the process with it.
fn heap_of_a_thread_left_alone_no_cgroup(_: &World) {
    let program = "
import ctypes, os, threading, time
def hold():
    time.sleep(0.2)
    kept = []
    for i in range(40): kept.append(bytearray(b'x' * (20 << 20))); time.sleep(0.02)
    time.sleep(1)
    os.write(1, b'GOT 800 MB'); os._exit(0)
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall(60, 0)";
    let outcome = without_cgroups().python_with(program, |spec| spec.limits.memory_bytes = 300 * MIB);
    ended_for_memory(&outcome, 300 * MIB);
}

const SHARED: &str = "
import mmap, time
kept = []
for i in range(40):
    m = mmap.mmap(-1, 100 << 20)
    for at in range(0, 100 << 20, 4096): m[at] = 1
    kept.append(m)
print('GOT 4000 MB')";

fn shared_memory_without_end(world: &World) {
    let outcome = world.python_with(SHARED, |spec| spec.limits.memory_bytes = 256 * MIB);
    ended_for_memory(&outcome, 256 * MIB);
}

fn shared_memory_without_end_no_cgroup(_: &World) {
    shared_memory_without_end(&without_cgroups());
}

/// Fills shared memory and unmaps it from its own page tables: the pages stay, the process looks small.
const HIDDEN: &str = "
import mmap, time
kept = []
for i in range(20):
    m = mmap.mmap(-1, 100 << 20)
    for at in range(0, 100 << 20, 4096):
        m[at] = 1
        if at % (1 << 20) == 0 and at: m.madvise(mmap.MADV_DONTNEED, at - (1 << 20), 1 << 20)
    kept.append(m); time.sleep(0.1)
print('GOT 2000 MB')";

fn hidden_shared_memory_no_cgroup(_: &World) {
    let outcome = without_cgroups().python_with(HIDDEN, |spec| spec.limits.memory_bytes = 256 * MIB);
    ended_for_memory(&outcome, 256 * MIB);
}

/// The same by a process whose list of mappings is not text.
fn shared_memory_behind_a_strange_name_no_cgroup(_: &World) {
    let program = format!(
        "
import mmap
with open(b'/tmp/\\xff', 'w+b') as f:
    f.write(b'x' * 4096); f.flush()
    strange = mmap.mmap(f.fileno(), 4096)
{HIDDEN}"
    );
    let outcome = without_cgroups().python_with(&program, |spec| spec.limits.memory_bytes = 256 * MIB);
    ended_for_memory(&outcome, 256 * MIB);
}

/// Reads single bytes all over an empty mapping: the page is always the same, the page tables are memory.
fn page_tables_without_end_no_cgroup(_: &World) {
    let program = "
import mmap, time
size = 512 << 30
m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
m.madvise(15)
for at in range(0, size, 2 << 20): m[at]
time.sleep(2)
print('GOT 1000 MB')";
    let outcome = without_cgroups().python_with(program, |spec| spec.limits.memory_bytes = 256 * MIB);
    ended_for_memory(&outcome, 256 * MIB);
}

/// Gives the watchdog millions of mappings to read, and then takes memory for as long as that may take.
fn a_watch_that_is_kept_busy_no_cgroup(_: &World) {
    let program = "
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
at = libc.mmap(None, 60000 * 4096, 0, 0x22, -1, 0)
for page in range(0, 60000, 2): libc.mprotect(at + page * 4096, 4096, 1)
for i in range(40):
    if os.fork() == 0: time.sleep(1000)
time.sleep(2)
for i in range(5):
    kept = b'x' * (900 << 20); time.sleep(0.5); del kept
print('GOT 900 MB')";
    let outcome = without_cgroups().python_with(program, |spec| spec.limits.memory_bytes = 700 * MIB);
    ended_for_memory(&outcome, 700 * MIB);
}

/// Memory that is in no process's size: counted by a cgroup, or not available.
fn unmapped_shared_memory(world: &World) {
    let program = "
import os, ctypes
kept = []
try:
    for i in range(100):
        fd = os.memfd_create('x'); kept.append(fd)
        for j in range(40): os.write(fd, b'x' * (1 << 20))
    print('GOT 4000 MB')
except OSError as e: print('refused', e.errno)
libc = ctypes.CDLL(None, use_errno=True)
for make in (lambda: libc.shmget(0, 1 << 20, 0o1600), lambda: libc.semget(0, 32000, 0o1600), lambda: libc.msgget(0, 0o1600)):
    if make() == -1: print('refused', ctypes.get_errno())";
    for world in [world, &without_cgroups()] {
        let outcome = world.python_with(program, |spec| spec.limits.memory_bytes = 256 * MIB);
        if outcome.stdout.text().contains("refused 38") {
            assert_eq!(outcome.stdout.text(), "refused 38\n".repeat(4));
        } else {
            ended_for_memory(&outcome, 256 * MIB);
        }
    }
}

fn tmpfs_is_bounded(world: &World) {
    let program = "
import os
for d in ('/tmp', '/dev/shm', '/home/agent'):
    written = 0
    try:
        with open(d + '/big', 'wb') as f:
            while written < 400: f.write(b'x' * (1 << 20)); f.flush(); written += 1
        print('GOT', d)
    except OSError as e: print(d, 'refused', e.errno, written <= 64)
    os.remove(d + '/big')
n = 0
try:
    while n < 200000: open('/tmp/f%d' % n, 'w').close(); n += 1
    print('GOT files')
except OSError as e: print('files refused', e.errno)";
    let mut spec = python(program);
    spec.limits.scratch_bytes = 64 * MIB;
    let outcome = world.run(&spec);
    let text = crate::world::good(&outcome);
    assert_eq!(
        text,
        "/tmp refused 28 True\n/dev/shm refused 28 True\n/home/agent refused 28 True\nfiles refused 28"
    );
}

fn a_file_is_bounded(world: &World) {
    let program = "
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with open('/tmp/big', 'wb') as f:
        for i in range(20): f.write(b'x' * (1 << 20)); f.flush()
    print('GOT')
except OSError as e: print('refused', e.errno)";
    let outcome = world.python_with(program, |spec| spec.limits.file_bytes = 10 * MIB);
    assert_eq!(crate::world::good(&outcome), "refused 27");
}

fn the_disk_is_bounded(world: &World) {
    let directory = world.directory("work", &[("a", "x")]);
    let view = world.sandbox.open_view(&directory).unwrap();
    let mut spec = python(
        "
for i in range(400):
    with open('f%d' % i, 'wb') as f: f.write(b'x' * (10 << 20))
print('GOT 4000 MB')",
    );
    spec.views.push(Mount { view: &view, at: "/work".into() });
    spec.cwd = Some("/work".into());
    spec.limits.disk_bytes = 100 * MIB;
    let outcome = world.run(&spec);
    assert!(
        outcome.cuts.iter().any(|c| matches!(c, Cut::Disk { .. })),
        "{:?} {}",
        outcome.cuts,
        outcome.stderr.text()
    );
    let written: u64 =
        view.changes().unwrap().iter().map(|c| std::fs::metadata(view.content(&c.path)).unwrap().len()).sum();
    assert!(written < 1500 * MIB, "{written}");
    drop(view);
    assert_eq!(std::fs::read_to_string(directory.join("a")).unwrap(), "x");
}

/// Files that no directory has but a process still holds.
fn deleted_files_are_bounded(world: &World) {
    for world in [world, &World::with(|config| config.always_copy = true)] {
        let directory = world.directory("work", &[("a", "x")]);
        let view = world.sandbox.open_view(&directory).unwrap();
        let mut spec = python(
            "
import os, time
kept = []
for i in range(60):
    kept.append(open('f', 'wb')); kept[-1].write(b'x' * (10 << 20)); kept[-1].flush(); os.remove('f')
time.sleep(2)
print('GOT 600 MB')",
        );
        spec.views.push(Mount { view: &view, at: "/work".into() });
        spec.cwd = Some("/work".into());
        spec.limits.disk_bytes = 100 * MIB;
        let outcome = world.run(&spec);
        assert!(outcome.cuts.iter().any(|c| matches!(c, Cut::Disk { .. })), "{outcome:?}");
    }
}

fn many_small_files_are_bounded(world: &World) {
    let directory = world.directory("work", &[("a", "x")]);
    let view = world.sandbox.open_view(&directory).unwrap();
    let mut spec = python(
        "
import os
for i in range(400):
    os.mkdir('d%d' % i)
    for j in range(1000): open('d%d/%d' % (i, j), 'w').close()
print('GOT')",
    );
    spec.views.push(Mount { view: &view, at: "/work".into() });
    spec.cwd = Some("/work".into());
    spec.limits.disk_bytes = 16 * MIB;
    let outcome = world.run(&spec);
    assert!(
        outcome.cuts.iter().any(|c| matches!(c, Cut::Disk { .. })),
        "{:?} {}",
        outcome.cuts,
        outcome.stderr.text()
    );
}

fn floods_are_cut(world: &World) {
    let mut spec =
        shell("head -c 30000000 /dev/zero | tr '\\0' x; head -c 20000000 /dev/zero | tr '\\0' y >&2; exit 5");
    spec.limits.stdout_bytes = 1000;
    spec.limits.stderr_bytes = 10;
    let outcome = world.run(&spec);
    assert_eq!(outcome.exit, Exit::Code(5));
    assert_eq!(outcome.stdout.bytes, [b'x'; 1000]);
    assert_eq!(outcome.stderr.bytes, [b'y'; 10]);
    assert_eq!(outcome.stdout.total_bytes, 30_000_000);
    let expected = [
        Cut::Stdout { limit_bytes: 1000, total_bytes: 30_000_000 },
        Cut::Stderr { limit_bytes: 10, total_bytes: 20_000_000 },
    ];
    assert_eq!(outcome.cuts, expected);
    // One that never stops is ended by the clock.
    let mut spec = shell("yes & yes >&2");
    spec.limits.wall_ms = 700;
    spec.limits.stdout_bytes = 1000;
    let outcome = world.run(&spec);
    assert!(outcome.cuts.contains(&Cut::WallTime { limit_ms: 700 }), "{:?}", outcome.cuts);
    assert_eq!(outcome.stdout.bytes.len(), 1000);
}

fn never_ends(world: &World) {
    let start = Instant::now();
    let mut spec = shell("while :; do sleep 1; done");
    spec.limits.wall_ms = 300;
    let outcome = world.run(&spec);
    assert_eq!(outcome.cuts, [Cut::WallTime { limit_ms: 300 }]);
    assert!(start.elapsed() < Duration::from_secs(20));
}

fn ignores_sigterm(world: &World) {
    let program = "
import signal, time
for s in range(1, 32):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True: time.sleep(1)";
    let mut spec = python(program);
    spec.limits.wall_ms = 600;
    spec.limits.grace_ms = 100;
    let start = Instant::now();
    let outcome = world.run(&spec);
    assert_eq!(outcome.exit, Exit::Killed);
    assert_eq!(outcome.cuts, [Cut::WallTime { limit_ms: 600 }]);
    assert!(start.elapsed() < Duration::from_secs(20));
}

fn burns_cpu(world: &World) {
    let mut spec = shell("trap '' XCPU; while :; do :; done");
    spec.limits.cpu_ms = 1000;
    spec.limits.wall_ms = 60_000;
    let outcome = world.run(&spec);
    assert_eq!(outcome.cuts, [Cut::CpuTime { limit_ms: 1000 }]);
    assert!(outcome.usage.cpu_ms >= 900, "{:?}", outcome.usage);
}

fn burns_cpu_in_many_processes(world: &World) {
    let mut spec =
        shell("for i in 1 2 3 4 5 6; do (i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done) & done; wait");
    spec.limits.cpu_ms = 2000;
    spec.limits.wall_ms = 60_000;
    let outcome = world.run(&spec);
    assert_eq!(outcome.cuts, [Cut::CpuTime { limit_ms: 2000 }]);
    assert!(outcome.usage.cpu_ms < 6000, "{:?}", outcome.usage);
}

fn a_daemon_dies_too(world: &World) {
    let word = format!("crealeph-daemon-{}", std::process::id());
    let program = format!(
        "
import os, time, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(0, 3): os.close(fd)
        os.execv('/usr/bin/python3', ['/usr/bin/python3', '-c', 'import time; time.sleep(1000)', {word:?}])
    os._exit(0)
time.sleep(0.3)
print('left')"
    );
    assert_eq!(world.python(&program), "left");
    assert_eq!(processes_with(&word), Vec::<String>::new());
}

fn stopped_processes_die_too(world: &World) {
    let word = format!("crealeph-stopped-{}", std::process::id());
    let program = format!(
        "sleep 1000 {word} 2>/dev/null; python3 -c 'import os,signal; os.kill(os.getpid(), signal.SIGSTOP)' {word} & sleep 0.3; kill -STOP $$"
    );
    let mut spec = shell(&program);
    spec.limits.wall_ms = 1000;
    let outcome = world.run(&spec);
    assert_eq!(outcome.cuts, [Cut::WallTime { limit_ms: 1000 }]);
    assert_eq!(processes_with(&word), Vec::<String>::new());
}

fn a_shared_library_is_not_counted_twice(_: &World) {
    // Each child shows the parent's 100 MB as resident; together they have them once.
    let program = "
import os, time
x = bytearray(b'x' * (100 << 20))
for i in range(6):
    if os.fork() == 0: time.sleep(0.5); os._exit(0)
for i in range(6): os.wait()
print('done')";
    let outcome = without_cgroups().python_with(program, |spec| spec.limits.memory_bytes = 300 * MIB);
    assert_eq!(crate::world::good(&outcome), "done");
}
