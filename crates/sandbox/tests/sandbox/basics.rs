//! What an ordinary command sees: its input, its grants, its answer.

use std::time::{Duration, Instant};

use crealeph_sandbox::{
    Cancel, Cut, Exit, Exposure, GrantedPath, Layer, Level, Mount, SandboxError, Secret, Spec, Stdin,
};

use crate::world::{Case, World, good, is_root, shell};

pub(crate) const CASES: &[Case] = &[
    Case("exit_and_outputs", exit_and_outputs),
    Case("full_strength_is_recorded", full_strength_is_recorded),
    Case("stdin_and_environment", stdin_and_environment),
    Case("a_read_grant_is_read_only", a_read_grant_is_read_only),
    Case("a_private_file_is_readable_once_granted", a_private_file_is_readable_once_granted),
    Case("a_missing_program_is_an_error", a_missing_program_is_an_error),
    Case("a_missing_grant_is_an_error", a_missing_grant_is_an_error),
    Case("what_cannot_be_had_is_named", what_cannot_be_had_is_named),
    Case("cancel_ends_it", cancel_ends_it),
    Case("sigterm_comes_first", sigterm_comes_first),
    Case("who_am_i", who_am_i),
    Case("private_places_are_writable", private_places_are_writable),
    Case("loopback_is_up_inside", loopback_is_up_inside),
    Case("a_view_takes_the_writes", a_view_takes_the_writes),
    Case("usage_is_measured", usage_is_measured),
    Case("huge_pages_are_the_commands_own_matter", huge_pages_are_the_commands_own_matter),
];

fn exit_and_outputs(world: &World) {
    let outcome = world.shell("echo out; echo err >&2; exit 7");
    assert_eq!(outcome.exit, Exit::Code(7));
    assert_eq!(outcome.stdout.text(), "out\n");
    assert_eq!(outcome.stderr.text(), "err\n");
    assert!(outcome.cuts.is_empty(), "{:?}", outcome.cuts);
    assert_eq!(world.shell("kill -9 $$").exit, Exit::Signal(9));
}

fn huge_pages_are_the_commands_own_matter(world: &World) {
    rustix::thread::disable_transparent_huge_pages(true).unwrap();
    let inside = good(&world.shell("grep THP_enabled /proc/self/status"));
    rustix::thread::disable_transparent_huge_pages(false).unwrap();
    assert_eq!(inside.split_whitespace().collect::<Vec<_>>(), ["THP_enabled:", "1"]);
}

fn full_strength_is_recorded(world: &World) {
    let strength = world.shell("true").strength;
    assert_eq!(strength.level, Level::Full);
    for layer in [Layer::Namespaces, Layer::NoNewPrivileges, Layer::Seccomp, Layer::Rlimits, Layer::Watchdog]
    {
        assert!(strength.layers.contains(&layer), "{layer:?} of {strength:?}");
    }
    assert!(strength.missing.is_empty());
    assert!(!strength.host_network);
}

fn stdin_and_environment(world: &World) {
    let mut spec = shell("cat; echo $GRANTED; env | cut -d= -f1 | sort | tr '\\n' ' '");
    spec.stdin = Stdin::Bytes(b"input ".to_vec());
    spec.grants.env.insert("GRANTED".into(), "yes".into());
    let text = good(&world.run(&spec));
    assert_eq!(text, "input yes\nGRANTED HOME LANG LOGNAME PATH PWD SHELL TMPDIR USER");
}

fn a_read_grant_is_read_only(world: &World) {
    let directory = world.directory("granted", &[("a", "one"), ("sub/b", "two")]);
    let mut spec = shell(
        "cat $1/a $1/sub/b; for f in $1/a $1/new $1/sub/b; do echo x >>$f && echo WROTE; done; rm -f $1/a; chmod 777 $1/a; mv $1/sub $1/other; true",
    );
    spec.command.extend(["sh".into(), directory.clone().into_os_string()]);
    spec.grants.read.push(GrantedPath::same(&directory));
    let outcome = world.run(&spec);
    assert_eq!(outcome.stdout.text(), "onetwo", "{}", outcome.stderr.text());
    assert_eq!(std::fs::read_to_string(directory.join("a")).unwrap(), "one");
    assert!(!directory.join("new").exists());
}

fn a_private_file_is_readable_once_granted(world: &World) {
    use std::os::unix::fs::PermissionsExt;
    let directory = world.directory("private", &[("key", "content")]);
    for (path, mode) in [(directory.join("key"), 0o600), (directory.clone(), 0o700)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut spec = shell("cat /elsewhere/key");
    spec.grants.read.push(GrantedPath { from: directory, at: "/elsewhere".into() });
    assert_eq!(good(&world.run(&spec)), "content");
}

fn a_missing_program_is_an_error(world: &World) {
    let error = world.sandbox.run(&Spec::new(["no-such-program"]), &Cancel::new().unwrap()).unwrap_err();
    assert!(matches!(error, SandboxError::CannotStart { .. }), "{error:?}");
    assert!(error.to_string().contains("`no-such-program`"), "{error}");
}

fn a_missing_grant_is_an_error(world: &World) {
    let mut spec = shell("true");
    spec.grants.read.push(GrantedPath::same("/no/such/path"));
    let error = world.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
    assert!(matches!(error, SandboxError::Path { .. }), "{error:?}");
    spec.grants.read = vec![GrantedPath { from: "/usr".into(), at: "relative".into() }];
    let error = world.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
    assert!(matches!(error, SandboxError::InvalidSpec { .. }), "{error:?}");
}

fn what_cannot_be_had_is_named(world: &World) {
    let refused = |change: &dyn Fn(&mut Spec<'_>), code: &str, said: &str| {
        let mut spec = shell("echo ran");
        change(&mut spec);
        let error = world.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
        assert_eq!(error.code(), code, "{error:?}");
        assert!(error.to_string().contains(said), "{error}");
    };
    let at = |path: &str| GrantedPath { from: "/usr".into(), at: path.into() };
    for path in ["/", "/proc", "/proc/self"] {
        let said = format!("granted at `{path}`");
        refused(&|spec| spec.grants.read.push(at(path)), "SANDBOX_INVALID_REQUEST", &said);
    }
    let cwd = |spec: &mut Spec<'_>| spec.cwd = Some("/nowhere".into());
    refused(&cwd, "SANDBOX_PATH", "cannot start inside the sandbox in `/nowhere`");
    let long = |spec: &mut Spec<'_>| spec.command.push("x".repeat(200_000).into());
    refused(&long, "SANDBOX_INVALID_REQUEST", "arguments and variables of `/bin/sh`");
    let secret = Secret::new("TOKEN", "0123456789", Exposure::File);
    let twice = |spec: &mut Spec<'_>| spec.grants.secrets = vec![secret.clone(), secret.clone()];
    refused(&twice, "SANDBOX_INVALID_REQUEST", "`TOKEN` is granted twice");
}

fn cancel_ends_it(world: &World) {
    let cancel = Cancel::new().unwrap();
    let other = cancel.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        other.cancel();
    });
    let start = Instant::now();
    let outcome = world.sandbox.run(&shell("sleep 100"), &cancel).unwrap();
    thread.join().unwrap();
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(outcome.cuts, [Cut::Cancelled]);
    assert!(!outcome.succeeded());
    // A handle that was used stays used.
    let outcome = world.sandbox.run(&shell("sleep 100"), &cancel).unwrap();
    assert_eq!(outcome.cuts, [Cut::Cancelled]);
}

fn sigterm_comes_first(world: &World) {
    let mut spec = shell("trap 'echo saved; exit 3' TERM; sleep 100 & wait");
    spec.limits.wall_ms = 500;
    spec.limits.grace_ms = 20_000;
    let outcome = world.run(&spec);
    assert_eq!(outcome.stdout.text(), "saved\n");
    assert_eq!(outcome.exit, Exit::Code(3));
    assert_eq!(outcome.cuts, [Cut::WallTime { limit_ms: 500 }]);
}

fn who_am_i(world: &World) {
    let text = good(&world.shell("id -u; id -un; pwd; hostname; cat /proc/self/uid_map; echo $$; grep -E 'NoNewPrivs|Seccomp:|CapEff|CapBnd|CapPrm' /proc/self/status"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(&lines[..4], ["1000", "agent", "/home/agent", "sandbox"]);
    let outside: Vec<&str> = lines[4].split_whitespace().collect();
    let expected = if is_root() { 65_532 } else { rustix::process::getuid().as_raw() };
    assert_eq!(outside, ["1000", &expected.to_string(), "1"]);
    for none in [
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(text.contains(none), "{none} in {text}");
    }
}

fn private_places_are_writable(world: &World) {
    let text = good(&world.shell("for d in /tmp /home/agent /dev/shm /var/tmp; do echo x >$d/f && cat $d/f; done; ls /home /etc | head -50; mkfifo /tmp/p; ls -la /dev"));
    assert!(text.starts_with("x\nx\nx\nx\n"), "{text}");
    let outcome = world.shell(
        "for d in / /etc /usr /home /run /proc /dev /var; do echo x >$d/f && echo WROTE $d; done; true",
    );
    assert_eq!(outcome.stdout.text(), "", "{}", outcome.stderr.text());
    assert!(!std::path::Path::new("/tmp/f").exists());
}

fn loopback_is_up_inside(world: &World) {
    let program = "
import socket, threading
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(1)
t = threading.Thread(target=lambda: s.accept()[0].sendall(b'hello')); t.start()
c = socket.create_connection(s.getsockname()); print(c.recv(5).decode()); t.join()";
    assert_eq!(world.python(program), "hello");
}

fn a_view_takes_the_writes(world: &World) {
    let directory = world.directory("work", &[("a", "one"), ("sub/b", "two")]);
    let view = world.sandbox.open_view(&directory).unwrap();
    let mut spec = shell("echo changed >a; echo new >sub/c; rm sub/b; cat a sub/c; ls sub");
    spec.views.push(Mount { view: &view, at: "/work".into() });
    spec.cwd = Some("/work".into());
    assert_eq!(good(&world.run(&spec)), "changed\nnew\nc");
    assert_eq!(std::fs::read_to_string(directory.join("a")).unwrap(), "one");
    assert!(directory.join("sub/b").exists());
    let changes: Vec<String> =
        view.changes().unwrap().iter().map(|c| format!("{:?} {}", c.kind, c.path.display())).collect();
    assert_eq!(changes, ["Deleted sub/b", "Modified a", "Created sub/c"]);
    assert_eq!(std::fs::read_to_string(view.content("a".as_ref())).unwrap(), "changed\n");
}

fn usage_is_measured(world: &World) {
    let program = "
import time
x = bytearray(200 << 20)
end = time.process_time() + 0.4
while time.process_time() < end: pass";
    let outcome = world.python_with(program, |_| {});
    good(&outcome);
    assert!(outcome.usage.cpu_ms >= 300, "{:?}", outcome.usage);
    assert!(outcome.usage.wall_ms >= outcome.usage.cpu_ms / 2, "{:?}", outcome.usage);
    assert!(outcome.usage.peak_memory_bytes >= 190 << 20, "{:?}", outcome.usage);
    assert!(outcome.usage.peak_processes >= 1, "{:?}", outcome.usage);
}
