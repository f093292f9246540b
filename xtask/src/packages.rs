//! The packages of the machine that the tests need: Debian packages, which are installed if root runs this, and Rust components.
//!
//! Other users get the exact command to run instead; nothing is ever removed or upgraded.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{env, fs};

use crate::failure::{Failure, Outcome};
use crate::process;

struct Package {
    /// A program looked for on PATH, or an absolute path that has to exist.
    provides: &'static str,
    debian: &'static str,
    why: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        provides: "git",
        debian: "git",
        why: "`cargo xtask tidy` asks it which files belong to the project",
    },
    Package {
        provides: "sqlite3",
        debian: "sqlite3",
        why: "the ledger's tests change its file behind its back",
    },
    Package { provides: "curl", debian: "curl", why: "the document of the server talks to it, and is run" },
    Package { provides: "jq", debian: "jq", why: "the documents read answers with it, and are run" },
    Package { provides: "fish", debian: "fish", why: "the completions are tried in it" },
    Package { provides: "zsh", debian: "zsh", why: "the completions are tried in it" },
    Package {
        provides: "pg_createcluster",
        debian: "postgresql",
        why: "the ledger's tests start their own PostgreSQL server",
    },
    Package {
        provides: "openssl",
        debian: "openssl",
        why: "the ledger's and the agents' tests make certificates for their own servers",
    },
    Package {
        provides: "ssh-keygen",
        debian: "openssh-client",
        why: "what people sign is made and checked by OpenSSH in the tests of approvals",
    },
    Package {
        provides: "/usr/bin/python3",
        debian: "python3",
        why: "the sandbox's tests run hostile and ordinary programs in it",
    },
    Package {
        provides: "pip3",
        debian: "python3-pip",
        why: "receipts are checked with implementations from PyPI",
    },
    Package { provides: "xxd", debian: "xxd", why: "hostile agents write secrets in hexadecimal with it" },
    Package { provides: "rev", debian: "bsdextrautils", why: "a hostile agent scrambles a secret with it" },
    Package { provides: "chromium", debian: "chromium", why: "pages are tested in it" },
    Package {
        provides: "node",
        debian: "nodejs",
        why: "the sandbox must let it live, and the tests of pages run in it",
    },
    Package { provides: "npm", debian: "npm", why: "the sandbox must let it install from a cache" },
    Package {
        provides: "gcc",
        debian: "gcc",
        why: "the sandbox must let a build with several processes live",
    },
    Package {
        provides: "/usr/include/stdio.h",
        debian: "libc6-dev",
        why: "a Makefile of the toolchain tests builds a C program",
    },
    Package { provides: "make", debian: "make", why: "`make test` must work in a work run" },
    Package { provides: "go", debian: "golang-go", why: "`go test` must work in a work run" },
    Package { provides: "unshare", debian: "util-linux", why: "the ledger's tests fill a small disk" },
];

/// Each with the cargo command that shows whether it is installed.
const COMPONENTS: &[(&str, &[&str])] =
    &[("rustfmt", &["fmt", "--version"]), ("clippy", &["clippy", "--version"])];

/// Ensures that everything the tests need is installed, or says how to get it.
pub(crate) fn ensure(root: &Path) -> Outcome {
    components(root)?;
    let path = env::var_os("PATH").unwrap_or_default();
    let missing = missing(PACKAGES, &path);
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("{}", description(&missing));
    let apt = is_present("apt-get", &path);
    if !(apt && is_root()) {
        return Err(Failure::Missing(format!(
            "install what is missing, then run this again:\n  {}",
            advice(&missing)
        )));
    }
    let mut update = process::program(root, "apt-get", &["update"]);
    process::run(update.env("DEBIAN_FRONTEND", "noninteractive"))?;
    let mut install = process::program(root, "apt-get", &["install", "-y", "--no-install-recommends"]);
    install.args(missing.iter().map(|package| package.debian)).env("DEBIAN_FRONTEND", "noninteractive");
    process::run(&mut install)
}

fn components(root: &Path) -> Outcome {
    let absent: Vec<&str> = COMPONENTS
        .iter()
        .filter(|(_, probe)| !process::succeeds(&mut process::cargo(root, probe)))
        .map(|(name, _)| *name)
        .collect();
    if absent.is_empty() {
        return Ok(());
    }
    Err(Failure::Missing(format!(
        "Rust components are missing; install them, then run this again:\n  rustup component add {}",
        absent.join(" ")
    )))
}

fn missing<'p>(packages: &'p [Package], path: &OsStr) -> Vec<&'p Package> {
    packages.iter().filter(|package| !is_present(package.provides, path)).collect()
}

fn is_present(provides: &str, path: &OsStr) -> bool {
    if provides.starts_with('/') {
        return Path::new(provides).exists();
    }
    env::split_paths(path).any(|folder| folder.join(provides).is_file())
}

fn description(missing: &[&Package]) -> String {
    let mut text = String::from("missing on this machine:");
    for package in missing {
        text.push_str(&format!(
            "\n  {} (Debian package {}): {}",
            package.provides, package.debian, package.why
        ));
    }
    text
}

fn advice(missing: &[&Package]) -> String {
    let names: Vec<&str> = missing.iter().map(|package| package.debian).collect();
    format!("sudo apt-get install -y --no-install-recommends {}", names.join(" "))
}

pub(crate) fn is_root() -> bool {
    // The owner of a process's folder under /proc is the user it runs as.
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    const SAMPLE: &[Package] = &[
        Package { provides: "here", debian: "here-package", why: "it is here" },
        Package { provides: "gone", debian: "gone-package", why: "it is not" },
        Package { provides: "/no/such/file", debian: "file-package", why: "nor is this" },
    ];

    #[test]
    fn a_missing_tool_is_named_with_its_package_reason_and_command() {
        let folder = TemporaryFolder::create().unwrap();
        fs::write(folder.path().join("here"), "").unwrap();
        let missing = missing(SAMPLE, folder.path().as_os_str());
        let names: Vec<&str> = missing.iter().map(|package| package.provides).collect();
        assert_eq!(names, ["gone", "/no/such/file"]);
        assert!(description(&missing).contains("gone (Debian package gone-package): it is not"));
        assert_eq!(
            advice(&missing),
            "sudo apt-get install -y --no-install-recommends gone-package file-package"
        );
    }

    #[test]
    fn no_package_is_asked_for_twice() {
        let names: std::collections::BTreeSet<&str> = PACKAGES.iter().map(|package| package.debian).collect();
        assert_eq!(names.len(), PACKAGES.len());
    }

    #[test]
    fn an_absolute_path_counts_by_existing() {
        assert!(is_present("/", OsStr::new("")));
        assert!(!is_present("/no/such/file", OsStr::new("/")));
    }
}
