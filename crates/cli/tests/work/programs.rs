//! No program is started outside the sandbox but those that docs/threat-model.md lists: real flows, with programs of every
//! usual name first on the PATH that write down that they were called.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::world::{World, item, item_with, ran};
use serde_json::json;

/// Programs that a tool of this kind might call.
const NAMES: [&str; 22] = [
    "git",
    "sh",
    "bash",
    "dash",
    "env",
    "ssh",
    "gpg",
    "openssl",
    "newuidmap",
    "newgidmap",
    "mount",
    "umount",
    "fusermount3",
    "ip",
    "iptables",
    "systemd-run",
    "bwrap",
    "cp",
    "tar",
    "diff",
    "patch",
    "python3",
];

/// Folders of programs that note their name, folder and environment in `log`, and then do what they always do.
fn recorders(folder: &Path) -> String {
    let bin = folder.join("recorders");
    fs::create_dir(&bin).unwrap();
    let log = folder.join("calls");
    for name in NAMES {
        let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
        let real = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
        // One that is not installed is recorded, too.
        let real = real.unwrap_or_else(|| "/bin/false".into());
        let script = format!(
            "#!/bin/sh\n{{ echo \"{name} in $PWD: $*\"; /usr/bin/env; }} >>{} 2>/dev/null\nexec {} \"$@\"\n",
            log.display(),
            real.display()
        );
        fs::write(bin.join(name), script).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// The calls so far, without their environments.
fn calls(folder: &Path) -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "what cannot be read shows in the assertion")]
    let text = fs::read_to_string(folder.join("calls")).unwrap_or_default();
    let is_call = |line: &&str| NAMES.iter().any(|name| line.starts_with(&format!("{name} in ")));
    text.lines().filter(is_call).map(str::to_owned).collect()
}

#[test]
// holds: invariant 19
fn work_starts_no_program_outside_the_sandbox() {
    let world = World::new();
    world.write(".gitattributes", "*.txt text=auto\n");
    world.init_git();
    world.git(&["config", "core.hooksPath", "."]);
    let outside = tempfile::tempdir().unwrap();
    let path = recorders(outside.path());
    let run = |arguments: &[&str]| {
        let output = world.command(arguments).env("PATH", &path).output().unwrap();
        ran(&output)
    };
    let tested = json!({ "test_command": "git status --short; test -e x" });
    let items =
        world.items(&[item_with("one", "echo x > x; git log --oneline", tested), item("two", "echo y > y")]);
    let tree = run(&["work", "run", &items]);
    assert_eq!(tree.code, 0, "{} {:?}", tree.stderr, tree.lines);
    let of_one = |key: &str| tree.of("one")[key].as_str().unwrap().to_owned();
    let (receipt, receipt_path) = (of_one("receipt_id"), of_one("receipt_path"));
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "landed"]);
    let items = world.items(&[item("three", "echo z > z")]);
    assert_eq!(run(&["work", "run", &items, "--publish", "branch:agents/x"]).code, 0);
    let items = world.items(&[item("four", "echo q > q")]);
    let held = run(&["work", "run", &items, "--publish", "branch:agents/x", "--hold"]);
    let held = held.of("four")["run"].as_str().unwrap().to_owned();
    assert_eq!(run(&["work", "approve", &held, "--reason", "good"]).code, 0);
    let export = outside.path().join("export");
    for arguments in [
        &["work", "status"][..],
        &["work", "diff", &receipt],
        &["work", "verify", &receipt_path],
        &["work", "replay", &receipt],
        &["work", "export", &receipt, export.to_str().unwrap()],
        &["work", "recover"],
        &["work", "clean", "--keep", "1"],
        &["ledger", "verify"],
        &["doctor"],
    ] {
        let output = world.command(arguments).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(calls(outside.path()), [""; 0]);
    // The recorders do record.
    let output = std::process::Command::new("git").arg("--version").env("PATH", &path).output().unwrap();
    assert!(output.status.success());
    assert_eq!(calls(outside.path()).len(), 1);
}

#[test]
fn the_demo_starts_a_shell_of_its_own_story_alone() {
    let outside = tempfile::tempdir().unwrap();
    let path = recorders(outside.path());
    let folder = outside.path().join("demo");
    let world = World::new();
    let output =
        world.command(&["demo", "--folder", folder.to_str().unwrap()]).env("PATH", &path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for call in calls(outside.path()) {
        assert!(call.contains(&format!(" in {}", folder.display())), "{call}");
    }
}
