//! What a work run needs beyond a command and a view: hidden files, a seeded HOME, a trace that is read as it is
//! written, a guard that ends the run, and a `.git` whose writes are discarded and reported.

use std::path::PathBuf;
use std::sync::Mutex;

use crealeph_sandbox::{
    Cancel, Cut, Exposure, HOME, Mount, SandboxError, Secret, Seed, Stream, TRACE_CHANNEL, View,
    ViewChangeKind,
};

use crate::world::{Case, World, good, python, shell};

pub(crate) const CASES: &[Case] = &[
    Case("hidden_files_are_not_there", hidden_files_are_not_there),
    Case("a_hidden_path_through_a_link_is_refused", a_hidden_path_through_a_link_is_refused),
    Case("home_is_seeded", home_is_seeded),
    Case("a_seed_has_its_bounds", a_seed_has_its_bounds),
    Case("the_trace_is_read_as_it_is_written", the_trace_is_read_as_it_is_written),
    Case("a_trace_is_bounded_and_redacted", a_trace_is_bounded_and_redacted),
    Case("git_is_readable_and_its_writes_are_told", git_is_readable_and_its_writes_are_told),
];

fn kinds(view: &View) -> Vec<(ViewChangeKind, PathBuf)> {
    view.changes().unwrap().into_iter().map(|change| (change.kind, change.path)).collect()
}

fn hidden_files_are_not_there(world: &World) {
    for world in [world, &World::with(|config| config.always_copy = true)] {
        let files = [
            (".env", "KEY=1"),
            ("a", "one"),
            ("sub/.env.local", "KEY=2"),
            ("sub/b", "two"),
            ("closed/.env", "KEY=3"),
            ("closed/c", "three"),
            (".crealeph/ledger", "entries"),
        ];
        let root = world.directory("work", &files);
        let set_mode = |mode| {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(root.join("closed"), permissions).unwrap();
        };
        set_mode(0o555);
        let hidden = [
            ".env",
            "sub/.env.local",
            "closed/.env",
            ".crealeph",
            ".crealeph/ledger",
            "absent/.env",
            "a/.env",
            "sub/later",
        ];
        let hidden: Vec<PathBuf> = hidden.iter().map(PathBuf::from).collect();
        let view = world.sandbox.open_view_hiding(&root, &hidden).unwrap();
        let show = "find . | sort | tr '\\n' ' '; cat .env sub/.env.local .crealeph/ledger 2>/dev/null; stat -c %a closed";
        let mut spec = shell(show);
        spec.cwd = Some("/work".into());
        spec.views.push(Mount { view: &view, at: "/work".into() });
        let outcome = world.run(&spec);
        assert_eq!(outcome.stdout.text(), ". ./a ./closed ./closed/c ./sub ./sub/b 555\n", "{outcome:?}");
        assert_eq!(kinds(&view), []);
        // A file that is created later is hidden too, and all of it in a second run.
        std::fs::write(root.join("sub/later"), "KEY=4").unwrap();
        let mut spec = shell("ls -A . sub closed; echo x >b; rm -r sub; echo mine >.env; cat .env");
        spec.cwd = Some("/work".into());
        spec.views.push(Mount { view: &view, at: "/work".into() });
        assert_eq!(good(&world.run(&spec)), ".:\na\nclosed\nsub\n\nclosed:\nc\n\nsub:\nb\nmine");
        let expected = [
            (ViewChangeKind::Deleted, "sub/b".into()),
            (ViewChangeKind::Deleted, "sub".into()),
            (ViewChangeKind::Created, ".env".into()),
            (ViewChangeKind::Created, "b".into()),
        ];
        assert_eq!(kinds(&view), expected);
        assert_eq!(std::fs::read_to_string(root.join(".env")).unwrap(), "KEY=1");
        drop(view);
        set_mode(0o755);
    }
}

fn a_hidden_path_through_a_link_is_refused(world: &World) {
    let root = world.directory("work", &[("real/.env", "KEY=1")]);
    std::os::unix::fs::symlink("real", root.join("link")).unwrap();
    for (path, code) in [
        ("link/.env", "SANDBOX_PATH"),
        ("../work/.env", "SANDBOX_INVALID_REQUEST"),
        ("/etc", "SANDBOX_INVALID_REQUEST"),
        ("", "SANDBOX_INVALID_REQUEST"),
    ] {
        let error = world.sandbox.open_view_hiding(&root, &[path.into()]).unwrap_err();
        assert_eq!(error.code(), code, "{path}: {error}");
    }
    // The link itself can be hidden.
    let view = world.sandbox.open_view_hiding(&root, &["link".into()]).unwrap();
    let mut spec = shell("ls /work");
    spec.views.push(Mount { view: &view, at: "/work".into() });
    assert_eq!(good(&world.run(&spec)), "real");
}

fn home_is_seeded(world: &World) {
    let outside = world.directory("home", &[("settings.json", "{}"), ("tool", "#!/bin/sh\necho ran\n")]);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(outside.join("tool"), executable).unwrap();
    let mut spec = shell(
        "cat .claude/settings.json; bin/tool; cat /tmp/item.json; stat -c %a .claude/settings.json /tmp/item.json;
         echo changed >new && mv new .claude/settings.json && cat .claude/settings.json",
    );
    let home = PathBuf::from(HOME);
    spec.grants.seeds = vec![
        Seed::from_file(&outside.join("settings.json"), home.join(".claude/settings.json")).unwrap(),
        Seed::from_file(&outside.join("tool"), home.join("bin/tool")).unwrap(),
        Seed::new("/tmp/item.json", "item\n"),
    ];
    assert_eq!(good(&world.run(&spec)), "{}ran\nitem\n644\n600\nchanged");
    assert_eq!(std::fs::read_to_string(outside.join("settings.json")).unwrap(), "{}");
}

fn a_seed_has_its_bounds(world: &World) {
    for seeds in [
        vec![Seed::new("/etc/passwd", "x")],
        vec![Seed::new(HOME, "x")],
        vec![Seed::new("/tmp/../etc/x", "x")],
        vec![Seed::new("/tmp/x", vec![0u8; 9 << 20])],
        vec![Seed::new("/tmp/x", "x"), Seed::new("/tmp/x", "y")],
    ] {
        let mut spec = shell("true");
        spec.grants.seeds = seeds;
        let error = world.sandbox.run(&spec, &Cancel::new().unwrap()).unwrap_err();
        assert!(matches!(error, SandboxError::InvalidSpec { .. }), "{error:?}");
    }
    let directory = world.directory("home", &[]);
    assert_eq!(Seed::from_file(&directory, "/tmp/x").unwrap_err().code(), "SANDBOX_PATH");
    assert_eq!(Seed::from_file(&directory.join("no"), "/tmp/x").unwrap_err().code(), "SANDBOX_PATH");
}

/// The program waits after each line for its own end: only a guard that reads live can end it at the third.
fn the_trace_is_read_as_it_is_written(world: &World) {
    let mut spec = python(
        "
import os, subprocess, time
path = os.environ['TRACE']
with open(path, 'a') as f: f.write('{\"tool\": 1}\\n')
subprocess.run(['sh', '-c', 'echo \"{\\\\\"tool\\\\\": 2}\" >>$TRACE'], check=True)
with open(path, 'w') as f: f.write('{\"tool\": 3}\\n')
time.sleep(100)",
    );
    spec.trace_channel = true;
    spec.limits.grace_ms = 0;
    spec.grants.env.insert("TRACE".into(), TRACE_CHANNEL.into());
    let cancel = Cancel::new().unwrap();
    let lines = Mutex::new(String::new());
    let guard = |stream: Stream, bytes: &[u8]| {
        assert_eq!(stream, Stream::Trace);
        let mut lines = lines.lock().unwrap();
        lines.push_str(std::str::from_utf8(bytes).unwrap());
        if lines.lines().count() >= 3 {
            cancel.cancel();
        }
    };
    let outcome = world.sandbox.run_with_output(&spec, &cancel, Some(&guard)).unwrap();
    assert_eq!(outcome.cuts, [Cut::Cancelled], "{outcome:?}");
    let expected = "{\"tool\": 1}\n{\"tool\": 2}\n{\"tool\": 3}\n";
    assert_eq!(*lines.lock().unwrap(), expected);
    assert_eq!(outcome.trace.text(), expected);
    // Without the grant there is none.
    assert_eq!(good(&world.shell(&format!("test -e {TRACE_CHANNEL} || echo none"))), "none");
}

fn a_trace_is_bounded_and_redacted(world: &World) {
    let mut spec = python(
        "
import os
f = os.open('/run/trace', os.O_WRONLY)
os.write(f, b'a correct'); os.write(f, b' horse b\\n')
for attempt in (lambda: os.open('/run/trace', os.O_RDONLY), lambda: os.chmod('/run/trace', 0o777), lambda: os.remove('/run/trace')):
    try: attempt(); print('GOT')
    except OSError: pass
os.write(f, b'last\\n' * 400000)",
    );
    spec.trace_channel = true;
    spec.limits.trace_bytes = 100;
    spec.grants.secrets.push(Secret::new("KEY", "correct horse", Exposure::Variable));
    let outcome = world.run(&spec);
    assert_eq!(good(&outcome), "");
    assert!(outcome.trace.text().starts_with("a [redacted] b\nlast\n"), "{outcome:?}");
    assert_eq!((outcome.trace.bytes.len(), outcome.trace.redactions), (100, 1));
    assert_eq!(outcome.cuts, [Cut::Trace { limit_bytes: 100, total_bytes: 2_000_015 }]);
}

fn git_is_readable_and_its_writes_are_told(world: &World) {
    let root = world.directory("work", &[("a", "one\n")]);
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "safe.directory=*"];
        let mut command = std::process::Command::new("git");
        let output = command.args(identity).arg("-C").arg(&root).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    let before = git(&["rev-parse", "HEAD"]);
    let view = world.sandbox.open_view(&root).unwrap();
    let git_view = world.sandbox.open_view(&root.join(".git")).unwrap();
    let mut spec = shell(
        "git log --format=%s; echo two >a; git status --short; git -c user.name=b -c user.email=b@example.com commit -qam second; git log --format=%s",
    );
    spec.cwd = Some(root.clone());
    spec.views.push(Mount { view: &view, at: root.clone() });
    spec.views.push(Mount { view: &git_view, at: root.join(".git") });
    assert_eq!(good(&world.run(&spec)), "first\n M a\nsecond\nfirst");
    assert_eq!(kinds(&view), [(ViewChangeKind::Modified, "a".into())]);
    assert!(kinds(&git_view).iter().any(|(_, path)| path.starts_with("objects")), "{:?}", kinds(&git_view));
    drop((git_view, view));
    assert_eq!(git(&["rev-parse", "HEAD"]), before);
}
