//! The crates that decide are pure: same input, same bytes, on any machine.
//!
//! Only product code is judged; tests may read files. The list names the side effects that are possible through
//! the standard library or a dependency; the compiler cannot refuse these, so this file does.

use std::collections::BTreeSet;

use super::Violation;
use super::repository::Repository;
use super::rust_source::{Import, Token, imports, lines};

const PURE_FOLDERS: &[&str] = &["crates/contracts/", "crates/decision/"];
const DECISION_FOLDER: &str = "crates/decision/";

/// Pieces of code, and the side effect of each.
const IMPURE: &[(&str, &str)] = &[
    ("std::fs", "reads files"),
    ("std::net", "reaches the network"),
    ("std::env", "reads the process's environment"),
    ("std::process", "starts or ends processes"),
    ("std::thread", "starts threads"),
    ("SystemTime", "reads a clock"),
    ("Instant::now", "reads a clock"),
    ("io::stdin", "reads the terminal"),
    ("io::stdout", "writes to the terminal"),
    ("io::stderr", "writes to the terminal"),
    ("print!", "writes to the terminal"),
    ("println!", "writes to the terminal"),
    ("eprint!", "writes to the terminal"),
    ("eprintln!", "writes to the terminal"),
    ("async", "waits for something outside"),
    ("tokio::", "waits for something outside"),
    ("rand::", "is random"),
];

/// Dependencies with the same side effects.
const IMPURE_CRATES: &[&str] =
    &["async-std", "chrono", "fastrand", "futures", "getrandom", "mio", "rand", "reqwest", "smol", "tokio"];

const UNORDERED: &[&str] = &["HashMap", "HashSet"];

pub(super) fn code(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.rust.iter().filter(|file| is_pure(file.path)) {
        let code = file.product_code();
        let imports = imports(code);
        for (pattern, brings) in IMPURE {
            let what = format!(
                "`{pattern}` {brings} and this crate is pure; take the value as an argument, or do it where the crate is called"
            );
            let lines = places(code, &imports, pattern);
            violations.extend(lines.into_iter().map(|line| Violation::new(file.path, line, &*what)));
        }
        if file.path.starts_with(DECISION_FOLDER) {
            violations.extend(unordered(code).map(|token| {
                let ordered = token.text.replace("Hash", "BTree");
                let what = format!(
                    "`{}` has no order, so a decision could differ from run to run; use `{ordered}`",
                    token.text
                );
                Violation::new(file.path, token.line, what)
            }));
        }
    }
    violations
}

pub(super) fn dependencies(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for manifest in repository.manifests.iter().filter(|manifest| is_pure(manifest.path)) {
        for dependency in manifest.dependencies() {
            if !dependency.development && IMPURE_CRATES.contains(&dependency.name) {
                let what = format!(
                    "`{}` has no place in a pure crate; use it where the crate is called",
                    dependency.name
                );
                violations.push(Violation::new(manifest.path, manifest.line_of(dependency.name), what));
            }
        }
    }
    violations
}

fn is_pure(path: &str) -> bool {
    PURE_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// The lines that name the pattern in place or through a `use`, grouped or not.
fn places(code: &[Token<'_>], imports: &[Import], pattern: &str) -> BTreeSet<usize> {
    let root = pattern.trim_end_matches("::");
    let is_path = pattern.contains("::");
    let brings = |import: &&Import| {
        is_path
            && import.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let imported = imports.iter().filter(brings).map(|import| import.line);
    lines(code, pattern).into_iter().chain(imported).collect()
}

fn unordered<'c, 'a>(code: &'c [Token<'a>]) -> impl Iterator<Item = &'c Token<'a>> {
    code.iter().filter(|token| UNORDERED.iter().any(|name| token.text.ends_with(name)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{findings, fires, silent};
    use super::*;

    #[test]
    fn a_pure_crate_has_no_side_effects() {
        for folder in PURE_FOLDERS {
            fires(
                code,
                &format!("{folder}src/a.rs"),
                2,
                &[
                    "\nuse std::fs;",
                    "\nuse std::{fmt, fs::File};",
                    "\nlet x = std::fs::read(p);",
                    "\nuse std::net::TcpStream;",
                    "\nstd::env::var(\"A\")",
                    "\nuse std::{process as p};",
                    "\nstd::thread::spawn(f)",
                    "\nuse std::time::SystemTime;",
                    "\nInstant::now()",
                    "\nstd::io::stdout()",
                    "\nprintln!(\"x\")",
                    "\neprint!(\"x\")",
                    "\nasync fn f() {}",
                    "\nuse tokio;",
                    "\ntokio::spawn(f)",
                    "\nuse rand::{Rng, rng};",
                ],
            );
        }
    }

    #[test]
    fn pure_code_and_test_code_pass() {
        silent(
            code,
            "crates/contracts/src/a.rs",
            &[
                "use std::{fmt, collections::HashMap};",
                "// std::fs and println!",
                "let x = \"std::fs\";",
                "use crate::instant::Instant; Instant::parse(t)",
                "let operand = operand::x;",
                "#[cfg(test)]\nmod tests { use std::fs; }",
            ],
        );
        silent(code, "crates/contracts/tests/a.rs", &["use std::fs;"]);
        silent(code, "crates/cli/src/a.rs", &["use std::fs;"]);
    }

    #[test]
    fn decisions_iterate_in_order() {
        let samples =
            ["\nuse std::collections::HashMap;", "\nfn f(x: HashSet<u8>) {}", "\nlet x = FxHashMap::new();"];
        fires(code, "crates/decision/src/a.rs", 2, &samples);
        silent(code, "crates/decision/src/a.rs", &["use std::collections::BTreeMap;"]);
    }

    #[test]
    fn pure_crates_have_pure_dependencies() {
        for (table, count) in [("dependencies", 1), ("build-dependencies", 1), ("dev-dependencies", 0)] {
            let manifest = format!("[{table}]\nrand.workspace = true\nserde.workspace = true\n");
            assert_eq!(
                findings(dependencies, &[("crates/decision/Cargo.toml", &manifest)]).len(),
                count,
                "{table}"
            );
            assert_eq!(findings(dependencies, &[("crates/runtime/Cargo.toml", &manifest)]), [""; 0]);
        }
    }
}
