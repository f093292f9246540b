//! `cargo xtask recorded`: the tests, with programs first on the PATH that record who calls them.
//!
//! Owns the recorders and the list of calls that CreAleph may make outside the sandbox, which docs/threat-model.md shows. A recorder looks
//! for a `crealeph` process among its ancestors; without one, a test made the call. Recorders cannot write in the sandbox, so calls
//! of agents are never recorded.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use crate::failure::{Failure, Outcome};
use crate::process;
use crate::temporary::TemporaryFolder;

/// How many tests of a program run at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// Programs that a tool of this kind might call.
const NAMES: [&str; 20] = [
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
    "cp",
    "tar",
    "diff",
    "patch",
];

/// A call is recorded only if a `crealeph` made it, directly or through others. The process that sets up sandboxes is called `exe`, after
/// `/proc/self/exe`.
const RECORDER: &str = r#"#!/bin/bash
process=$PPID
while [ "${process:-0}" -gt 1 ] && read -r name <"/proc/$process/comm"; do
    [ "$name" = exe ] && name=$(basename "$(readlink "/proc/$process/exe")")
    if [ "$name" = crealeph ]; then
        record=$(mktemp "CALLS/XXXXXXXXXX" 2>/dev/null) && {
            [ "$process" = "$PPID" ] && by=itself || by=others
            echo "NAME by $by of $(tr '\0\n' '  ' <"/proc/$process/cmdline")"
            echo "in $PWD: $*"
            /usr/bin/env
        } >"$record"
        break
    fi
    while read -r key value; do [ "$key" = PPid: ] && break; done <"/proc/$process/status"
    process=$value
done 2>/dev/null
exec -a NAME REAL "$@"
"#;

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let recorders = Recorders::create()?;
    // Only the tests get the other PATH: cargo would compile again because of it.
    let runner = format!("target.'cfg(all())'.runner = '{}'", recorders.runner().display());
    let mut command = process::cargo(root, &["test", "--config", &runner]);
    match arguments {
        [] => command.args(["--workspace", "--locked", "--no-fail-fast"]),
        some => command.args(some),
    };
    if std::env::var_os(THREADS).is_none() {
        // Tests of commands wait for processes, disks and limits about half of their time.
        command.env(THREADS, (2 * available_parallelism().map_or(1, usize::from)).to_string());
    }
    process::run(&mut command)?;
    recorders.check()
}

struct Recorders {
    folder: TemporaryFolder,
}

impl Recorders {
    fn create() -> Outcome<Recorders> {
        let recorders = Recorders { folder: TemporaryFolder::create()? };
        let make = |path: PathBuf, mode: u32| {
            fs::create_dir_all(&path).map_err(Failure::file("create", &path))?;
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(&path, permissions).map_err(Failure::file("open to all", &path))
        };
        make(recorders.folder.path().to_owned(), 0o755)?;
        make(recorders.programs(), 0o755)?;
        make(recorders.calls(), 0o1777)?;
        for name in NAMES {
            let folders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
            let real = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
            // A program that is not installed still cannot be found.
            let Some(real) = real else { continue };
            let calls = recorders.calls();
            let script = RECORDER.replace("CALLS", &calls.display().to_string());
            let script = script.replace("NAME", name).replace("REAL", &real.display().to_string());
            write_program(&recorders.programs().join(name), &script)?;
        }
        let programs = recorders.programs();
        let runner = format!("#!/bin/bash\nPATH={}:$PATH exec \"$@\"\n", programs.display());
        write_program(&recorders.runner(), &runner)?;
        Ok(recorders)
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("programs")
    }

    fn calls(&self) -> PathBuf {
        self.folder.path().join("calls")
    }

    /// Starts a command with the recorders before every other program.
    fn runner(&self) -> PathBuf {
        self.folder.path().join("runner")
    }

    /// Fails with every call that is not on the list.
    fn check(&self) -> Outcome {
        let calls = self.calls();
        let mut unexpected = Vec::new();
        for entry in fs::read_dir(&calls).map_err(Failure::file("read", &calls))? {
            let path = entry.map_err(Failure::file("read", &calls))?.path();
            let record = fs::read_to_string(&path).map_err(Failure::file("read", &path))?;
            if !is_documented(&record) {
                unexpected.push(record);
            }
        }
        if unexpected.is_empty() {
            return Ok(());
        }
        unexpected.sort();
        Err(Failure::Check(format!(
            "crealeph started {} programs outside the sandbox that docs/threat-model.md does not list:\n{}",
            unexpected.len(),
            unexpected.join("\n")
        )))
    }
}

/// The shell of `crealeph demo`, and the programs of its story.
fn is_documented(record: &str) -> bool {
    let first = record.lines().next().unwrap_or_default();
    let Some((call, crealeph)) = first.split_once(" of ") else { return false };
    let is_demo = crealeph.split(' ').nth(1) == Some("demo");
    is_demo && (call == "sh by itself" || call.ends_with(" by others"))
}

fn write_program(path: &Path, script: &str) -> Outcome {
    fs::write(path, script).map_err(Failure::file("write", path))?;
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, permissions).map_err(Failure::file("make executable", path))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The result of `check` after a program called `name` ran this script.
    fn after(name: &str, script: &str) -> Outcome {
        let recorders = Recorders::create().unwrap();
        let program = recorders.folder.path().join(name);
        fs::copy("/bin/bash", &program).unwrap();
        let story = recorders.folder.path().join("demo");
        fs::write(&story, script).unwrap();
        let mut command = Command::new(recorders.runner());
        command.arg(&program).arg("demo").current_dir(recorders.folder.path());
        assert!(command.status().unwrap().success());
        recorders.check()
    }

    #[test]
    fn a_call_of_crealeph_is_found_with_its_folder_and_environment() {
        let failure = after("crealeph", "cd /; MARK=x git --version; true").unwrap_err().to_string();
        for part in ["git by itself of ", "in /: --version", "MARK=x"] {
            assert!(failure.contains(part), "{part}: {failure}");
        }
    }

    #[test]
    fn calls_of_tests_and_of_the_demos_shell_are_not() {
        after("other", "git --version; sh -c 'git --version; true'").unwrap();
        after("crealeph", "sh -c 'git --version; true'; true").unwrap();
    }

    #[test]
    fn only_the_demo_may_start_a_shell() {
        assert!(is_documented("sh by itself of crealeph demo --folder x \nin /: -c y\n"));
        for first in [
            "sh by itself of crealeph work run ",
            "sh by others of crealeph work run demo ",
            "git by itself of crealeph demo ",
            "",
        ] {
            assert!(!is_documented(first), "{first}");
        }
    }
}
