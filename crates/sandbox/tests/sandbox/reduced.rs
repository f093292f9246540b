//! Machines that lack something: what is refused, and what still works if `reduced` was accepted. Each case runs again
//! with the feature really removed.

use std::path::Path;

use crealeph_sandbox::{
    Cancel, Cut, Exit, GrantedPath, HOME, Host, Layer, Level, Mount, Network, SandboxOutcome, Seed, Spec,
    TRACE_CHANNEL, ViewMode,
};

use crate::world::{Case, World, good, processes_with, python, shell};

pub(crate) const CASES: &[Case] = &[
    Case("without_user_namespaces", without_user_namespaces),
    Case("without_mounts", without_mounts),
    Case("without_network_namespaces", without_network_namespaces),
    Case("without_proc", without_proc),
    Case("without_seccomp", without_seccomp),
    Case("without_namespaces_and_landlock", without_namespaces_and_landlock),
];

/// Runs `name` again after `prepare`, a shell script that ends in `exec "$0"`, has removed a feature.
fn again(world: &World, name: &str, prepare: &str) {
    let output = std::process::Command::new("sh")
        .args(["-c", prepare])
        .arg(std::env::current_exe().unwrap())
        .env("SANDBOX_CASE", name)
        .env("SANDBOX_AGAIN", "1")
        .env("TMPDIR", &world.folder)
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
}

fn is_again() -> bool {
    std::env::var_os("SANDBOX_AGAIN").is_some()
}

/// A program that makes calls fail, as the filter of a container does, and then becomes its argument.
fn filtered(calls: &[(i64, i32)]) -> String {
    let answer = |errno: i32| format!("(0x06, 0, 0, {}),", 0x5_0000 | errno);
    let mut rules: String =
        calls.iter().map(|(number, errno)| format!("(0x15, 0, 1, {number}), {}", answer(*errno))).collect();
    if calls.contains(&NO_CLONE3) {
        // The older call is refused by its flags, as containers do.
        let by_flags = format!("(0x20, 0, 0, 16), (0x45, 0, 1, 0x7e020000), {}", answer(libc::EPERM));
        rules += &format!("(0x15, 0, 4, {}), {by_flags} (0x06, 0, 0, 0x7fff0000),", libc::SYS_clone);
    }
    format!(
        r#"exec /usr/bin/python3 -c '
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), {rules} (0x06, 0, 0, 0x7fff0000)]
code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(program)) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
' "$0""#
    )
}

const NO_CLONE3: (i64, i32) = (libc::SYS_clone3, libc::ENOSYS);
const NO_UNSHARE: (i64, i32) = (libc::SYS_unshare, libc::EPERM);

fn refused(world: &World, word: &str) {
    let error = world.sandbox.run(&shell("true"), &Cancel::new().unwrap()).unwrap_err();
    assert_eq!(error.code(), "SANDBOX_REFUSED", "{error:?}");
    assert!(error.to_string().contains(word), "{error}");
}

fn accepting() -> World {
    World::with(|config| config.accept_reduced = true)
}

fn is_reduced(outcome: &SandboxOutcome, held: &[Layer], missing: &str) {
    let strength = &outcome.strength;
    assert_eq!(strength.level, Level::Reduced, "{strength:?}");
    for layer in held {
        assert!(strength.layers.contains(layer), "{layer:?} of {strength:?}");
    }
    assert!(strength.missing.iter().any(|m| m.what.contains(missing)), "{missing} of {strength:?}");
}

const WITHOUT_NAMESPACES: [Layer; 5] =
    [Layer::NoNewPrivileges, Layer::Seccomp, Layer::Rlimits, Layer::Watchdog, Layer::Landlock];

fn without_user_namespaces(world: &World) {
    if !is_again() {
        again(world, "without_user_namespaces", &filtered(&[NO_CLONE3, NO_UNSHARE]));
        return;
    }
    refused(world, "user.max_user_namespaces");
    let features = world.sandbox.features().unwrap();
    let namespaces = features.iter().find(|f| f.name == "namespaces").unwrap();
    assert!(!namespaces.present && namespaces.needed && namespaces.advice.is_some(), "{namespaces:?}");
    still_holds(&accepting(), "user namespaces");
}

fn without_mounts(world: &World) {
    if !is_again() {
        let calls = [libc::SYS_mount, libc::SYS_fsopen, libc::SYS_open_tree, libc::SYS_pivot_root];
        again(world, "without_mounts", &filtered(&calls.map(|call| (call, libc::EPERM))));
        return;
    }
    let error = world.sandbox.run(&shell("true"), &Cancel::new().unwrap()).unwrap_err();
    assert_eq!(error.code(), "SANDBOX_REFUSED", "{error:?}");
    still_holds(&accepting(), "a root file system");
}

fn without_network_namespaces(world: &World) {
    if !is_again() {
        let none = "exec unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_net_namespaces && exec \"$0\"' \"$0\"";
        again(world, "without_network_namespaces", none);
        return;
    }
    refused(world, "namespaces");
    let reduced = accepting();
    let program = "
import socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):
    try: socket.socket(family); print('GOT', family)
    except OSError: pass
a, b = socket.socketpair(); a.send(b'x')
print('TRIED')";
    let outcome = reduced.run(&python(program));
    assert_eq!(good(&outcome), "TRIED");
    is_reduced(&outcome, &[Layer::Namespaces, Layer::Seccomp, Layer::Watchdog], "a network namespace");
    let mut spec = shell("true");
    spec.network = Network::Hosts(vec!["example.com:443".parse::<Host>().unwrap()]);
    let error = reduced.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
    assert_eq!(error.code(), "SANDBOX_REFUSED", "{error:?}");
}

/// A command without namespaces: what it is still prevented from, and what it can still do.
fn still_holds(world: &World, missing: &str) {
    let secret = world.directory("secret", &[("file", "as it was")]);
    let granted = world.directory("granted", &[("file", "granted")]);
    for path in [&world.folder, &granted, &secret] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, open).unwrap();
    }
    let outside = secret.join("file");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&outside, open).unwrap();
    let name = format!("crealeph-test-{}", std::process::id());
    let program = format!(
        "
import ctypes, os, signal, socket, subprocess
def attempt(name, f):
    try: f(); print('GOT', name)
    except OSError: pass
attempt('read', lambda: open({outside:?}).read())
attempt('write', lambda: open({outside:?}, 'w').write('x'))
attempt('shadow', lambda: open('/etc/shadow').read())
attempt('environment', lambda: open('/proc/{parent}/environ').read())
attempt('signal', lambda: os.kill({parent}, 0))
for path in ({outside:?}, {granted:?}):
    if os.stat(path).st_uid == os.getuid():
        attempt('chmod', lambda: os.chmod(path, 0o600))
        attempt('chown', lambda: os.chown(path, -1, os.getgid()))
    attempt('utime', lambda: os.utime(path))
    attempt('xattr', lambda: os.setxattr(path, 'user.mark', b'x'))
attempt('fchmod', lambda: os.getuid() == os.fstat(0).st_uid or os.fchmod(0, 0o777))
attempt('a queued signal', lambda: signal.pidfd_send_signal(os.pidfd_open({parent}), 0))
attempt('a system file', lambda: open('/usr/bin/new', 'w'))
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):
    attempt('socket', lambda: socket.socket(family))
attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, {parent}, 5))
libc = ctypes.CDLL(None)
if libc.unshare(0x10000000) == 0: print('GOT namespace')
if libc.syscall(251, 1, {parent}, 3 << 13) == 0: print('GOT ioprio_set')
for name in ('msgget', 'semget', 'shmget'):
    if getattr(libc, name)(0, 1, 0o1600) != -1: print('GOT', name)
if 'CapEff:\\t0000000000000000' not in open('/proc/self/status').read(): print('GOT capabilities')
if os.getuid() == 0: print('GOT root')
open(os.environ['HOME'] + '/f', 'w').write('x'); open(os.environ['TMPDIR'] + '/f', 'w').write('x')
print(open({granted:?}).read(), subprocess.run(['cat', os.environ['SEED']], capture_output=True).stdout.decode())
open(os.environ['TRACE'], 'w').write('traced')
subprocess.Popen(['sh', '-c', 'while true; do sleep 1; done', '{name}'], start_new_session=True)",
        parent = std::process::id(),
        outside = outside.to_str().unwrap(),
        granted = granted.join("file").to_str().unwrap(),
    );
    let mut spec = python(&program);
    spec.grants.read.push(GrantedPath::same(&granted));
    spec.grants.seeds.push(Seed::new(Path::new(HOME).join("a/seed"), "seed"));
    spec.grants.env.insert("SEED".into(), Path::new(HOME).join("a/seed").into());
    spec.grants.env.insert("TRACE".into(), TRACE_CHANNEL.into());
    spec.trace_channel = true;
    let outcome = world.run(&spec);
    assert_eq!(good(&outcome), "granted seed", "{outcome:?}");
    assert_eq!(outcome.trace.text(), "traced");
    is_reduced(&outcome, &WITHOUT_NAMESPACES, missing);
    assert!(!outcome.strength.layers.contains(&Layer::Namespaces));
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "as it was");
    assert_eq!(processes_with(&name), Vec::<String>::new());

    let view = world.sandbox.open_view(&granted).unwrap();
    assert!(matches!(view.mode(), ViewMode::Copy { .. }), "{:?}", view.mode());
    let mut spec = shell("cat file; echo changed >file; cat /project/file \"$0\"; pwd");
    spec.command.push("/project/file".into());
    spec.views.push(Mount { view: &view, at: "/project".into() });
    spec.cwd = Some("/project".into());
    let outcome = world.run(&spec);
    assert!(outcome.stdout.text().starts_with("grantedchanged\n"), "{outcome:?}");
    assert_eq!(view.changes().unwrap().len(), 1);
    assert_eq!(std::fs::read_to_string(granted.join("file")).unwrap(), "granted");

    let mut spec = shell("sleep 100 & sleep 100");
    spec.limits.wall_ms = 300;
    assert_eq!(world.run(&spec).cuts, [Cut::WallTime { limit_ms: 300 }]);
    let mut spec = python("x = []\nwhile True: x.append(bytearray(1 << 20))");
    spec.limits.memory_bytes = 200 << 20;
    let outcome = world.run(&spec);
    assert!(outcome.cuts.iter().any(|cut| matches!(cut, Cut::Memory { .. })), "{outcome:?}");
    let mut spec = python(
        "import os, time\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(100)\nexcept OSError: print('refused')",
    );
    spec.limits.processes = 20;
    let outcome = world.run(&spec);
    assert_eq!((outcome.exit, outcome.stdout.text().trim()), (Exit::Code(0), "refused"), "{outcome:?}");

    // The machine's network is not its services' sockets.
    let program = "
import socket
socket.socket(socket.AF_INET).close()
try: socket.socket(socket.AF_UNIX); print('GOT')
except OSError: print('refused')";
    let mut spec = python(program);
    spec.network = Network::Host;
    assert_eq!(good(&world.run(&spec)), "refused");

    // Limits that cannot be enforced are refused, not weakened.
    let mut spec = shell("true");
    spec.network = Network::Hosts(vec!["example.com:443".parse::<Host>().unwrap()]);
    let error = world.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
    assert_eq!(error.code(), "SANDBOX_REFUSED", "{error:?}");
    let mut spec = shell("true");
    spec.grants.read.push(GrantedPath { from: granted, at: "/elsewhere".into() });
    let error = world.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
    assert_eq!(error.code(), "SANDBOX_INVALID_REQUEST", "{error:?}");
}

/// As in most containers: part of /proc is covered, so the kernel allows no other.
fn without_proc(world: &World) {
    if !is_again() {
        again(
            world,
            "without_proc",
            "exec unshare -Urm sh -c 'mount -t tmpfs none /proc/fs && exec \"$0\"' \"$0\"",
        );
        return;
    }
    refused(world, "/proc");
    let reduced = accepting();
    let outcome = reduced.run(&shell("ls /proc; echo lives"));
    assert_eq!(good(&outcome), "lives");
    is_reduced(&outcome, &[Layer::Namespaces, Layer::Seccomp], "/proc");
    assert!(!outcome.strength.layers.contains(&Layer::Watchdog));
    assert_eq!(outcome.strength.missing.len(), 1, "{:?}", outcome.strength);
    // The limits of the clock and the kernel still apply.
    let mut spec = shell("sleep 100");
    spec.limits.wall_ms = 300;
    assert_eq!(reduced.run(&spec).cuts, [Cut::WallTime { limit_ms: 300 }]);
}

fn without_seccomp(world: &World) {
    if !is_again() {
        again(world, "without_seccomp", &filtered(&[(libc::SYS_seccomp, libc::ENOSYS)]));
        return;
    }
    refused(world, "seccomp");
    let outcome = accepting().run(&Spec::new(["echo", "lives"]));
    assert_eq!(good(&outcome), "lives");
    is_reduced(&outcome, &[Layer::Namespaces, Layer::NoNewPrivileges, Layer::Watchdog], "seccomp");
    assert!(!outcome.strength.layers.contains(&Layer::Seccomp));
}

fn without_namespaces_and_landlock(world: &World) {
    if !is_again() {
        let calls = [NO_CLONE3, NO_UNSHARE, (libc::SYS_landlock_create_ruleset, libc::ENOSYS)];
        again(world, "without_namespaces_and_landlock", &filtered(&calls));
        return;
    }
    refused(&accepting(), "namespaces");
}
