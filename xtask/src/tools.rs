//! `cargo xtask tools`: the tools from PyPI and npm that the tests need, at fixed versions, in `target/tools`. The test command runs it
//! first; installed tools are not fetched again, and fetching has a time limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::process;

/// Longer than either takes on a slow connection.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

struct Tools {
    /// The folder under `target/tools`.
    folder: &'static str,
    /// Its packages, as its installer takes them.
    packages: &'static [&'static str],
    /// Files for the installer in the folder, with their contents.
    files: &'static [(&'static str, &'static str)],
    why: &'static str,
    install: fn(&Path, &[&str]) -> Vec<Command>,
}

const TOOLS: &[Tools] = &[
    Tools {
        folder: "python",
        packages: &["in-toto-attestation==0.9.3", "securesystemslib==1.6.0", "cryptography==50.0.2"],
        files: &[],
        why: "receipts are checked with implementations that are not ours",
        install: |folder, packages| vec![pip("install", "--target", folder, packages)],
    },
    Tools {
        folder: "http",
        packages: &["schemathesis==4.32.5", "prometheus-client==0.23.1"],
        files: &[],
        why: "the server is tested by its OpenAPI document, and its metrics are read by a parser that is not ours",
        install: |folder, packages| vec![pip("install", "--target", folder, packages)],
    },
    Tools {
        folder: "uv",
        packages: &["uv==0.13.7"],
        files: &[],
        why: "`uv run` must work in a work run",
        install: |folder, packages| vec![pip("install", "--target", folder, packages)],
    },
    Tools {
        folder: "wheels",
        packages: &["pytest==8.3.5"],
        files: &[],
        why: "a package index of the toolchain tests serves it to uv",
        install: |folder, packages| vec![pip("download", "--dest", folder, packages)],
    },
    Tools {
        folder: "agents",
        packages: &["@anthropic-ai/claude-code@2.1.197", "@openai/codex@0.166.0"],
        files: &[],
        why: "the presets for agents are tested with the agents themselves",
        install: |folder, packages| {
            let mut npm = Command::new("npm");
            npm.args([
                "install",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
                "--ignore-scripts",
                "--prefix",
            ]);
            npm.arg(folder).args(packages);
            // Its install script does only this.
            let mut claude = Command::new("node");
            claude.arg(folder.join("node_modules/@anthropic-ai/claude-code/install.cjs"));
            vec![npm, claude]
        },
    },
    Tools {
        folder: "browser",
        packages: &["playwright-core", "axe-core"],
        files: &[
            ("package.json", include_str!("../../crates/cli/tests/console/package.json")),
            ("package-lock.json", include_str!("../../crates/cli/tests/console/package-lock.json")),
        ],
        why: "pages are opened in a browser and checked for accessibility",
        install: |folder, _| {
            let mut npm = Command::new("npm");
            npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", "--prefix"]);
            npm.arg(folder);
            vec![npm]
        },
    },
];

/// A pip command that installs packages into a folder, only as wheels: nothing is built.
fn pip(verb: &str, into: &str, folder: &Path, packages: &[&str]) -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", verb, "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]);
    if verb == "install" {
        pip.arg("--root-user-action=ignore");
    }
    pip.arg(into).arg(folder).args(packages);
    pip
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    match arguments.first() {
        None => ensure(root),
        Some(unknown) => {
            Err(Failure::Usage(format!("`cargo xtask tools` takes no arguments, and `{unknown}` is one")))
        }
    }
}

/// Ensures that everything is installed.
pub(crate) fn ensure(root: &Path) -> Outcome {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    TOOLS.iter().try_for_each(|tools| ensure_one(&target.join("tools"), tools))
}

/// Installs next to the existing folder and replaces it when complete; a file in it says what it contains.
fn ensure_one(folder: &Path, tools: &Tools) -> Outcome {
    let place = folder.join(tools.folder);
    let files = tools.files.iter().map(|(_, contents)| *contents);
    let wanted = tools.packages.iter().copied().chain(files).collect::<Vec<_>>().join("\n");
    let label = |place: &Path| place.join("installed.txt");
    if fs::read_to_string(label(&place)).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    eprintln!("fetching {}: {}", tools.packages.join(", "), tools.why);
    let fresh = folder.join(format!("{}.new", tools.folder));
    for old in [&fresh, &place] {
        match fs::remove_dir_all(old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::file("remove", old)(error));
            }
            _ => {}
        }
    }
    fs::create_dir_all(&fresh).map_err(Failure::file("create", &fresh))?;
    for (name, contents) in tools.files {
        fs::write(fresh.join(name), contents).map_err(Failure::file("write", &fresh))?;
    }
    for mut command in (tools.install)(&fresh, tools.packages) {
        process::run_within(&mut command, PATIENCE)?;
    }
    fs::write(label(&fresh), wanted).map_err(Failure::file("write", &fresh))?;
    fs::rename(&fresh, &place).map_err(Failure::file("rename", &fresh))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    const ONCE: Tools = Tools {
        folder: "sample",
        packages: &["one@1"],
        files: &[("lock", "1")],
        why: "a test",
        install: |folder, packages| {
            let mut command = Command::new("mkdir");
            command.args(packages.iter().map(|package| folder.join(package)));
            vec![command]
        },
    };

    #[test]
    fn an_installed_tool_is_not_fetched_again_but_another_version_is() {
        let folder = TemporaryFolder::create().unwrap();
        let there = folder.path().join("sample/one@1");
        ensure_one(folder.path(), &ONCE).unwrap();
        assert!(there.is_dir());
        fs::remove_dir(&there).unwrap();
        ensure_one(folder.path(), &ONCE).unwrap();
        assert!(!there.exists(), "nothing was installed a second time");
        ensure_one(folder.path(), &Tools { packages: &["one@2"], ..ONCE }).unwrap();
        assert!(folder.path().join("sample/one@2").is_dir());
        ensure_one(folder.path(), &Tools { files: &[("lock", "2")], ..ONCE }).unwrap();
        assert_eq!(fs::read(folder.path().join("sample/lock")).unwrap(), b"2", "another lock file too");
    }

    #[test]
    fn a_failed_installation_leaves_nothing_that_looks_whole() {
        let folder = TemporaryFolder::create().unwrap();
        let fails = Tools { install: |_, _| vec![Command::new("false")], ..ONCE };
        assert!(ensure_one(folder.path(), &fails).is_err());
        assert!(!folder.path().join("sample").exists());
    }
}
