//! Programs that try to see, write or become what they were not granted. Each prints `GOT …` for every success;
//! there must be none.

use std::os::unix::net::{SocketAddr, UnixListener};

use crealeph_sandbox::{Cancel, Exposure, GrantedPath, Mount, SandboxOutcome, Secret, Stdin};

use crate::world::{Case, World, python, shell};

pub(crate) const CASES: &[Case] = &[
    Case("no_file_that_was_not_granted", no_file_that_was_not_granted),
    Case("no_process_outside", no_process_outside),
    Case("pid_1_is_out_of_reach", pid_1_is_out_of_reach),
    Case("no_write_outside", no_write_outside),
    Case("no_write_through_a_link_in_a_view", no_write_through_a_link_in_a_view),
    Case("no_inherited_descriptor", no_inherited_descriptor),
    Case("no_way_out_through_standard_input", no_way_out_through_standard_input),
    Case("no_unix_socket_outside", no_unix_socket_outside),
    Case("no_setuid", no_setuid),
    Case("no_mount", no_mount),
    Case("no_namespace", no_namespace),
    Case("no_rare_door", no_rare_door),
    Case("no_foreign_socket_family", no_foreign_socket_family),
    Case("no_higher_limit", no_higher_limit),
    Case("no_device", no_device),
    Case("a_link_in_the_workspace_does_not_move_a_mount", a_link_in_the_workspace_does_not_move_a_mount),
    Case("secrets_are_redacted", secrets_are_redacted),
    Case("granted_namespaces_work", granted_namespaces_work),
    Case("granted_tracing_works", granted_tracing_works),
];

fn got_nothing(outcome: &SandboxOutcome) {
    let text = format!("{}{}", outcome.stdout.text(), outcome.stderr.text());
    assert!(!text.contains("GOT"), "{text}");
    assert!(text.contains("TRIED"), "the program did not come to its end: {outcome:?}\n{text}");
}

fn no_file_that_was_not_granted(world: &World) {
    let ledger = world.directory("ledger", &[("ledger.sqlite", "entries")]).join("ledger.sqlite");
    let home = std::env::var("HOME").unwrap();
    let program = format!(
        "
import os
def see(path):
    try:
        with open(path, 'rb') as f: f.read(1)
        print('GOT', path)
    except OSError as e: pass
for base in ['', '/proc/self/root', '/proc/1/root', '/proc/1/cwd', '/proc/self/cwd/../..', '/tmp/../..']:
    for path in ['/etc/shadow', '/etc/gshadow', '/etc/machine-id', '/etc/ssh/sshd_config', {ledger:?}, {folder:?} + '/state/sweep.lock']:
        see(base + path)
for d in [{home:?}, '/root', '/home', '/var/lib', '/srv', '/boot', '/sys', '/mnt', '/opt', '/run/secrets', {folder:?}]:
    try: names = [n for n in os.listdir(d) if (d, n) != ('/home', 'agent')]
    except OSError: names = []
    if names: print('GOT', d, names)
print('TRIED')",
        ledger = ledger.to_str().unwrap(),
        folder = world.folder.to_str().unwrap(),
    );
    got_nothing(&world.run(&python(&program)));
}

fn no_process_outside(world: &World) {
    let program = format!(
        "
import os, signal
me = {pid}
pids = [p for p in os.listdir('/proc') if p.isdigit()]
if len(pids) > 2: print('GOT', pids)
for p in pids:
    if int(p) in (1,):
        for what in ('environ', 'mem', 'maps', 'fd', 'root', 'cwd', 'exe', 'auxv', 'syscall', 'stack'):
            path = '/proc/%s/%s' % (p, what)
            try:
                os.listdir(path) if what == 'fd' else os.readlink(path) if what in ('root', 'cwd', 'exe') else open(path, 'rb').read(16)
                print('GOT', path)
            except OSError: pass
try: os.kill(me, 0); print('GOT', me)
except OSError: pass
for pid in range(3, 4000):
    if pid == os.getpid(): continue
    try: os.kill(pid, 0); print('GOT pid', pid)
    except OSError: pass
print('TRIED')",
        pid = std::process::id()
    );
    got_nothing(&world.run(&python(&program)));
}

fn pid_1_is_out_of_reach(world: &World) {
    let program = "
import os, signal, resource, ctypes
for s in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT):
    try: os.kill(1, s)
    except OSError: pass
def attempt(name, f):
    try: f(); print('GOT', name)
    except OSError: pass
attempt('prlimit', lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)))
attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt('nice of user', lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt('affinity', lambda: os.sched_setaffinity(1, {0}))
attempt('scheduler', lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt('mem', lambda: open('/proc/1/mem', 'r+b'))
attempt('oom', lambda: os.write(os.open('/proc/1/oom_score_adj', os.O_WRONLY), b'1000'))
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, 1, 0, 0) == 0: print('GOT ptrace')
print('TRIED')";
    got_nothing(&world.run(&python(program)));
}

fn no_write_outside(world: &World) {
    let target = world.directory("outside", &[("file", "as it was")]);
    let program = format!(
        "
import os
outside = {target:?}
def attempt(name, f):
    try: f(); print('GOT', name)
    except OSError: pass
for base in ['', '/proc/self/root', '/proc/1/root', '/tmp/..']:
    attempt(base, lambda: open(base + outside + '/file', 'w').write('x'))
    attempt(base, lambda: open(base + outside + '/new', 'w').write('x'))
os.symlink(outside, '/tmp/link')
attempt('symlink', lambda: open('/tmp/link/file', 'w').write('x'))
attempt('hard link', lambda: os.link(outside + '/file', '/tmp/hard'))
attempt('hard link of a system file', lambda: os.link('/usr/bin/env', '/tmp/env'))
for path in ['/etc/passwd', '/usr/bin/env', '/usr/bin/new', '/etc/ld.so.cache', '/etc/hosts', '/bin/sh', '/dev/null2', '/new']:
    attempt(path, lambda: open(path, 'a').write('x'))
    attempt(path, lambda: os.remove(path))
    attempt(path, lambda: os.chmod(path, 0o777))
    attempt(path, lambda: os.rename(path, path + '.x'))
attempt('sysctl', lambda: os.write(os.open('/proc/sys/kernel/hostname', os.O_WRONLY), b'x'))
attempt('sysrq', lambda: os.write(os.open('/proc/sysrq-trigger', os.O_WRONLY), b'h'))
attempt('core pattern', lambda: os.write(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY), b'|/tmp/x'))
attempt('uid map', lambda: os.write(os.open('/proc/self/uid_map', os.O_WRONLY), b'0 0 1'))
print('TRIED')",
        target = target.to_str().unwrap()
    );
    got_nothing(&world.run(&python(&program)));
    assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), "as it was");
    assert!(!target.join("new").exists());
}

fn no_write_through_a_link_in_a_view(world: &World) {
    let outside = world.directory("outside", &[("file", "as it was")]);
    let work = world.directory("work", &[("inside", "x"), ("sub/deep", "x")]);
    std::os::unix::fs::symlink(&outside, work.join("link")).unwrap();
    std::fs::hard_link(outside.join("file"), work.join("hard")).unwrap();
    let view = world.sandbox.open_view(&work).unwrap();
    let mut spec = python(
        "
import os
def attempt(name, f):
    try: f(); print('GOT', name)
    except OSError: pass
attempt('through the link', lambda: open('link/file', 'w').write('x'))
attempt('up', lambda: open('../outside/file', 'w').write('x'))
open('hard', 'w').write('changed in the view alone')
print('TRIED')",
    );
    spec.views.push(Mount { view: &view, at: work.clone() });
    spec.cwd = Some(work.clone());
    got_nothing(&world.run(&spec));
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "as it was");
    assert_eq!(std::fs::read_to_string(work.join("hard")).unwrap(), "as it was");
    assert_eq!(view.changes().unwrap().len(), 1);
}

fn no_inherited_descriptor(world: &World) {
    let path = world.directory("secret", &[("file", "as it was")]).join("file");
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    // Neither of these is closed on exec.
    let leaked = rustix::io::dup(&file).unwrap();
    let directory = rustix::io::dup(std::fs::File::open(&world.folder).unwrap()).unwrap();
    let program = "
import os
for fd in range(3, 1024):
    try: os.fstat(fd); kind = os.readlink('/proc/self/fd/%d' % fd)
    except OSError: continue
    print('GOT', fd, kind)
for fd in range(3):
    print('TRIED', os.readlink('/proc/self/fd/%d' % fd))
    for other in ('/proc/self/fd/%d/../..' % fd,):
        try: print('GOT', os.listdir(other))
        except OSError: pass";
    got_nothing(&world.run(&python(program)));
    drop((leaked, directory));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "as it was");
}

fn no_way_out_through_standard_input(world: &World) {
    if std::env::var_os("SANDBOX_AGAIN").is_none() {
        let mut again = std::process::Command::new("/proc/self/exe");
        again.env("SANDBOX_AGAIN", "1").stdin(std::fs::File::open(&world.folder).unwrap());
        let output = again.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let mut spec = shell("ls /proc/self/fd/0/..");
    spec.stdin = Stdin::Inherit;
    let error = world.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
    assert_eq!(error.code(), "SANDBOX_INVALID_REQUEST", "{error}");
}

fn no_unix_socket_outside(world: &World) {
    use std::os::linux::net::SocketAddrExt;
    let path = world.folder.join("socket");
    let _file_socket = UnixListener::bind(&path).unwrap();
    std::os::unix::fs::symlink(&path, world.folder.join("link")).unwrap();
    let name = format!("crealeph-test-{}", std::process::id());
    let _abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let program = format!(
        "
import socket
for address in [{path:?}, '/proc/1/root' + {path:?}, '\\0' + {name:?}, '/run/docker.sock', '/var/run/docker.sock', '/run/dbus/system_bus_socket']:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        s = socket.socket(socket.AF_UNIX, kind)
        try: s.connect(address); print('GOT', address)
        except OSError: pass
print('TRIED')",
        path = path.to_str().unwrap(),
    );
    got_nothing(&world.run(&python(&program)));
}

fn no_setuid(world: &World) {
    let program = "
import os, subprocess, stat
found = [p for d in ('/usr/bin', '/usr/sbin', '/usr/lib') for r, _, fs in os.walk(d) for p in (os.path.join(r, f) for f in fs) if os.path.isfile(p) and os.lstat(p).st_mode & stat.S_ISUID]
for p in found:
    if os.path.basename(p) in ('su', 'sudo', 'mount', 'passwd', 'newgrp', 'chsh'):
        try: subprocess.run([p, '--help'], capture_output=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired): pass
def attempt(name, f):
    try: f(); print('GOT', name)
    except OSError: pass
for i in (0, 1, 65534, 65532):
    attempt('setuid %d' % i, lambda: os.setuid(i)); attempt('setgid %d' % i, lambda: os.setgid(i))
    attempt('setresuid %d' % i, lambda: os.setresuid(i, i, i))
attempt('setgroups', lambda: os.setgroups([0]))
attempt('chown', lambda: (open('/tmp/x', 'w').close(), os.chown('/tmp/x', 0, 0)))
import shutil
shutil.copy('/usr/bin/env', '/tmp/env'); os.chmod('/tmp/env', 0o4755)
out = subprocess.run(['/tmp/env', 'id', '-u'], capture_output=True, text=True).stdout.strip()
if out != '1000': print('GOT uid', out)
print('TRIED', len(found))";
    let outcome = world.run(&python(program));
    got_nothing(&outcome);
    assert!(!outcome.stdout.text().contains("TRIED 0"), "the machine has no setuid program to try");
}

fn no_mount(world: &World) {
    let program = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs('/tmp/a'); os.makedirs('/tmp/b')
def call(name, value):
    if value != -1: print('GOT', name, value)
call('tmpfs', libc.mount(b'tmpfs', b'/tmp/a', b'tmpfs', 0, None))
call('bind', libc.mount(b'/usr', b'/tmp/a', None, 4096, None))
call('remount', libc.mount(None, b'/usr', None, 4096 | 32, None))
call('proc', libc.mount(b'proc', b'/tmp/a', b'proc', 0, None))
call('umount', libc.umount2(b'/usr', 2))
call('chroot', libc.chroot(b'/tmp'))
call('pivot_root', libc.syscall(155, b'/tmp/a', b'/tmp/b'))
for nr in (428, 429, 430, 431, 432, 433, 442, 467): call(nr, libc.syscall(nr, 0, 0, 0, 0, 0, 0))
print('TRIED')";
    got_nothing(&world.run(&python(program)));
}

fn no_namespace(world: &World) {
    let program = "
import ctypes, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80):
    if libc.unshare(flag) == 0: print('GOT unshare', hex(flag))
    if flag != 0x80:
        pid = libc.syscall(56, flag | 17, 0, 0, 0, 0)
        if pid == 0: os._exit(0)
        if pid > 0: print('GOT clone', hex(flag)); os.waitpid(pid, 0)
for ns in ('user', 'mnt', 'net', 'pid'):
    try: fd = os.open('/proc/1/ns/' + ns, os.O_RDONLY); print('GOT', ns)
    except OSError: fd = os.open('/proc/self/ns/' + ns, os.O_RDONLY)
    if libc.setns(fd, 0) == 0: print('GOT setns', ns)
args = (ctypes.c_uint64 * 11)(); args[0] = 0x10000000; args[4] = 17
pid = libc.syscall(435, ctypes.byref(args), 88)
if pid == 0: os._exit(0)
if pid > 0: print('GOT clone3')
if subprocess.run(['unshare', '-Ur', 'true'], capture_output=True).returncode == 0: print('GOT unshare(1)')
print('TRIED')";
    got_nothing(&world.run(&python(program)));
}

fn no_rare_door(world: &World) {
    let program = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
names = {'ptrace': 101, 'bpf': 321, 'keyctl': 250, 'add_key': 248, 'request_key': 249, 'perf_event_open': 298, 'userfaultfd': 323,
  'io_uring_setup': 425, 'io_uring_enter': 426, 'kexec_load': 246, 'init_module': 175, 'finit_module': 313, 'delete_module': 176,
  'swapon': 167, 'reboot': 169, 'open_by_handle_at': 304, 'process_vm_readv': 310, 'process_vm_writev': 311, 'kcmp': 312,
  'pidfd_getfd': 438, 'syslog': 103, 'acct': 163, 'quotactl': 179, 'modify_ldt': 154, 'iopl': 172, 'ioperm': 173, 'settimeofday': 164,
  'clock_settime': 227, 'fanotify_init': 300, 'move_pages': 279, 'lookup_dcookie': 212, 'uselib': 134, 'ustat': 136, 'vhangup': 153,
  'sethostname': 170, 'memfd_secret': 447, 'process_madvise': 440, 'unknown': 1000, 'x32 getpid': 0x40000000 + 39}
for name, number in names.items():
    ctypes.set_errno(0)
    if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() not in (1, 38): print('GOT', name, ctypes.get_errno())
import fcntl, pty
m, s = pty.openpty()
try: fcntl.ioctl(s, 0x5412, b'x'); print('GOT TIOCSTI')
except OSError: pass
if libc.personality(0x0400000) != -1: print('GOT personality')
print('TRIED')";
    got_nothing(&world.run(&python(program)));
}

fn no_foreign_socket_family(world: &World) {
    let program = "
import socket, errno
allowed = {1: 'unix', 2: 'inet', 10: 'inet6', 16: 'netlink'}
for family in range(1, 50):
    for kind in (1, 2, 3, 5):
        for proto in (0, 1, 6, 17, 132, 255, 262, 12):
            try: s = socket.socket(family, kind, proto)
            except OSError: continue
            if family not in allowed: print('GOT family', family, kind, proto)
            if kind == 3 and family in (2, 10): print('GOT raw', family, proto)
            if family == 16 and proto != 0: print('GOT netlink', proto)
            if family in (2, 10) and proto in (132, 262): print('GOT protocol', proto)
            s.close()
print('TRIED')";
    got_nothing(&world.run(&python(program)));
}

fn no_higher_limit(world: &World) {
    let program = "
import resource, os
for name in ('NPROC', 'NOFILE', 'FSIZE', 'CPU', 'CORE', 'MEMLOCK', 'MSGQUEUE', 'SIGPENDING', 'NICE', 'RTPRIO'):
    r = getattr(resource, 'RLIMIT_' + name)
    soft, hard = resource.getrlimit(r)
    if hard == resource.RLIM_INFINITY: print('GOT unlimited', name)
    try: resource.setrlimit(r, (soft, hard + 1)); print('GOT', name)
    except (OSError, ValueError): pass
    try: resource.setrlimit(r, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)); print('GOT', name)
    except (OSError, ValueError): pass
try: os.nice(-5); print('GOT nice')
except OSError: pass
try: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-500'); print('GOT oom_score_adj')
except OSError: pass
if open('/proc/self/oom_score_adj').read().strip() != '1000': print('GOT oom_score_adj')
print('TRIED')";
    got_nothing(&world.run(&python(program)));
}

fn no_device(world: &World) {
    let program = "
import os, stat
for major, minor in ((1, 1), (1, 2), (8, 0), (254, 0), (10, 200), (5, 1), (1, 3)):
    try: os.mknod('/tmp/dev', 0o666 | stat.S_IFCHR, os.makedev(major, minor)); print('GOT', major, minor)
    except OSError: pass
for path in ('/dev/mem', '/dev/kmem', '/dev/sda', '/dev/vda', '/dev/kmsg', '/dev/fuse', '/dev/net/tun', '/dev/kvm', '/dev/vsock'):
    try: open(path, 'rb'); print('GOT', path)
    except OSError: pass
try: open('/dev/tty'); print('GOT tty')
except OSError: pass
print('TRIED')";
    got_nothing(&world.run(&python(program)));
}

/// An earlier agent may have left links at the target of a mount.
fn a_link_in_the_workspace_does_not_move_a_mount(world: &World) {
    let work = world.directory("work", &[("a", "x")]);
    let granted = world.directory("granted", &[("g", "granted")]);
    std::os::unix::fs::symlink("/etc", work.join("into")).unwrap();
    let view = world.sandbox.open_view(&work).unwrap();
    let mut spec = shell("ls /etc; echo TRIED");
    spec.views.push(Mount { view: &view, at: "/project".into() });
    spec.grants.read.push(GrantedPath { from: granted, at: "/project/into/there".into() });
    let error = world.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
    assert_eq!(error.code(), "SANDBOX_PATH", "{error}");
}

fn secrets_are_redacted(world: &World) {
    let file = world.directory("secrets", &[("token", "file-secret-0123456789\n")]).join("token");
    let program = "
import os, sys, base64, time, json
key = os.environ['API_KEY']; token = open('/run/secrets/TOKEN').read()
for s in (key, token):
    print('plain', s); print('json', json.dumps({'k': s})); print('hex', s.encode().hex())
    for pad in ('', 'x', 'xy'):
        print('b64', base64.b64encode((pad + s + pad).encode()).decode())
        print('url', base64.urlsafe_b64encode((pad + s).encode()).decode())
    for c in s:
        sys.stdout.write(c); sys.stdout.flush(); time.sleep(0.002)
    print(); print('wrapped'); sys.stdout.flush()
    os.system(\"printf 'some text before it %s and after it' '\" + s + \"' | base64 -w 20\")
    sys.stderr.write('error ' + s + '\\n')
print('TRIED')";
    let mut spec = python(program);
    spec.grants.secrets.push(Secret::new("API_KEY", "sk-live+Zm9vYmFy/\"quoted\"", Exposure::Variable));
    spec.grants.secrets.push(Secret::from_file("TOKEN", &file, Exposure::File).unwrap());
    let outcome = world.run(&spec);
    let text = format!("{}{}", outcome.stdout.text(), outcome.stderr.text());
    got_nothing(&outcome);
    let joined: String = text.chars().filter(|c| *c != '\n').collect();
    for leak in [
        "sk-live",
        "quoted",
        "file-secret",
        "0123456789",
        "66696c652d736563726574",
        "ZmlsZS1zZWNyZXQ",
        "c2stbGl2ZS",
    ] {
        assert!(!joined.contains(leak), "{leak} in {text}");
    }
    assert!(outcome.stdout.redactions >= 18, "{text}");
    assert_eq!(outcome.stderr.text().matches("error [redacted]").count(), 2);
    assert!(!format!("{spec:?}").contains("sk-live"));
}

fn granted_namespaces_work(world: &World) {
    let mut spec = shell("unshare -Ur id -u");
    spec.grants.nested_namespaces = true;
    let outcome = world.run(&spec);
    assert_eq!(crate::world::good(&outcome), "0");
    // Even then read-only paths stay so.
    let mut spec = shell(
        "unshare -Urm sh -c 'mount -o remount,bind,rw /usr && echo GOT; touch /usr/x && echo GOT; umount /usr && echo GOT'; echo TRIED",
    );
    spec.grants.nested_namespaces = true;
    got_nothing(&world.run(&spec));
}

fn granted_tracing_works(world: &World) {
    let program = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), 19); os._exit(4)
os.waitpid(pid, 0)
print(libc.ptrace(7, pid, 0, 0), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print('pid 1', libc.ptrace(16, 1, 0, 0))";
    let outcome = world.python_with(program, |spec| spec.grants.ptrace = true);
    assert_eq!(crate::world::good(&outcome), "0 4\npid 1 -1");
}
