//! The hostile suite: every file under `cases/` is one attack, a shell script that plays the agent, the author of a clone or
//! the caller, and exits with 0 only if the wall held. Each runs twice, as root and as an ordinary user, in its own scene.
//!
//! A case opens with `# class:` (a row of docs/threat-model.md, and the name of its folder) and `# about:` (one sentence: what
//! the attacker tries). `# before: broke` says that the attack got through before its wall was built; `# before: held`, that the wall was there,
//! and then `# fails without:` names what was taken away to see the case fail. `# users: root` or `# users: ordinary` restricts it, with the reason in a comment. `prelude.sh` has the
//! words that cases are written in. `CREALEPH_HOSTILE_BINARY` runs the suite against another build, to see a case fail.

#![cfg(test)]

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use tempfile::TempDir;

/// In the range that distributions leave to nobody.
const ORDINARY: u32 = 65_534;
/// Longer than any case takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// How much of a failed case's output is shown.
const SHOWN_BYTES: usize = 8_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    Root,
    Ordinary,
}

struct Case {
    class: String,
    name: String,
    path: PathBuf,
    users: Vec<User>,
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Most of the time a case waits for a process or for a limit to be hit.
    arguments.test_threads.get_or_insert(2 * std::thread::available_parallelism().map_or(1, usize::from));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let cases = read_cases(&folder.join("cases"));
    assert!(!cases.is_empty(), "no cases under {}", folder.display());
    let programs: &'static Path = Box::leak(programs().keep().into_boxed_path());
    let mut trials = Vec::new();
    for case in cases {
        for user in case.users.clone() {
            let name = match user {
                User::Root => format!("{}/{} as root", case.class, case.name),
                User::Ordinary => format!("{}/{} as an ordinary user", case.class, case.name),
            };
            let (script, prelude) = (case.path.clone(), folder.join("prelude.sh"));
            trials.push(Trial::test(name, move || {
                if user == User::Root && !is_root {
                    return Err("this half of the suite needs root; run it with sudo".into());
                }
                run(&script, &prelude, programs, (user == User::Ordinary && is_root).then_some(ORDINARY))
            }));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let _ = fs::remove_dir_all(programs);
    conclusion.exit();
}

/// The program under attack, where every user gets to it.
fn programs() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = std::env::var_os("CREALEPH_HOSTILE_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_crealeph")), PathBuf::from);
    fs::copy(&program, folder.path().join("crealeph")).unwrap();
    folder
}

fn read_cases(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    for class in sorted(folder) {
        cases.extend(sorted(&class).iter().map(|path| read_case(path)));
    }
    cases
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn read_case(path: &Path) -> Case {
    let text = fs::read_to_string(path).unwrap();
    let header = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim().to_owned())
    };
    let class = header("# class:").unwrap_or_else(|| panic!("{}: no `# class:`", path.display()));
    let folder = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
    assert_eq!(class, folder, "{}: the class is the folder's name", path.display());
    assert!(header("# about:").is_some_and(|about| !about.is_empty()), "{}: no `# about:`", path.display());
    match header("# before:").as_deref() {
        Some("broke") => {}
        Some("held") => {
            assert!(header("# fails without:").is_some(), "{}: no `# fails without:`", path.display())
        }
        _ => panic!("{}: `# before:` is broke or held", path.display()),
    }
    let users = match header("# users:").as_deref() {
        None => vec![User::Root, User::Ordinary],
        Some("root") => vec![User::Root],
        Some("ordinary") => vec![User::Ordinary],
        Some(other) => panic!("{}: `# users:` is root or ordinary, not `{other}`", path.display()),
    };
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    Case { class, name, path: path.to_owned(), users }
}

/// Plays one case; fails unless it exits with 0 in time.
fn run(script: &Path, prelude: &Path, programs: &Path, user: Option<u32>) -> Result<(), Failed> {
    let scene = tempfile::tempdir().unwrap();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../decision/tests/protected-paths.txt");
    for (name, text) in [("prelude.sh", prelude), ("case.sh", script), ("protected-paths.txt", &samples)] {
        fs::copy(text, scene.path().join(name)).unwrap();
        fs::set_permissions(scene.path().join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let output = scene.path().join("output.txt");
    let mut folders = vec![scene.path().to_owned()];
    for name in ["home", "state", "ws", "outside", "tmp"] {
        folders.push(scene.path().join(name));
        fs::create_dir(scene.path().join(name)).unwrap();
    }
    for folder in folders {
        chown(folder, user, user).unwrap();
    }
    let file = File::create(&output).unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-eu", "-c", ". \"$SCENE/prelude.sh\"; . \"$SCENE/case.sh\""])
        .current_dir(scene.path().join("ws"))
        .env_clear()
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()))
        .env("SCENE", scene.path())
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .process_group(0);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > PATIENCE => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.is_none() {
        let group = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = child.wait();
    }
    let bytes = fs::read(&output).unwrap();
    let shown = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SHOWN_BYTES)..]).into_owned();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{status}: the wall did not hold\n{shown}").into()),
        None => Err(format!("not over after {} s\n{shown}", PATIENCE.as_secs()).into()),
    }
}
