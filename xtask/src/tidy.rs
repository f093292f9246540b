//! `cargo xtask tidy`: the repository's own rules, each with a check that fires.
//!
//! [`CHECKS`] is the one list of them. A check is a function from the parsed [`Repository`] to violations;
//! it reads no file and starts nothing, so its tests are samples in memory that break it.

mod code;
mod dependencies;
mod direction;
mod documents;
mod invariants;
mod layout;
mod manifests;
mod purity;
mod repository;
mod rust_source;
mod types;

use std::fmt;
use std::path::Path;
use std::time::Instant;

use crate::failure::{Failure, Outcome};
use repository::{Files, Repository};

struct Check {
    rule: &'static str,
    run: fn(&Repository<'_>) -> Vec<Violation>,
}

const CHECKS: &[Check] = &[
    Check { rule: "every Rust file opens with `//!`", run: layout::opens_with_documentation },
    Check { rule: "product files hold at most 800 lines, test files 900", run: layout::length },
    Check {
        rule: "no file, folder or crate is called core, common, utils, helpers or manager",
        run: layout::names,
    },
    Check { rule: "no path of one machine in any file", run: layout::machine_paths },
    Check { rule: "no glob re-export", run: code::glob_reexports },
    Check { rule: "no unfinished code: `todo!`, `unimplemented!`, FIXME, XXX", run: code::unfinished },
    Check { rule: "no ignored test", run: code::ignored_tests },
    Check { rule: "`unsafe` only in crates/sandbox", run: code::unsafe_code },
    Check { rule: "programs are started only in the files that are listed", run: code::started_programs },
    Check { rule: "the command prints through crates/cli/src/output.rs alone", run: code::printing },
    Check { rule: "contracts and decision do no I/O and read no clock", run: purity::code },
    Check { rule: "contracts and decision depend on nothing impure", run: purity::dependencies },
    Check { rule: "crates depend on each other as ARCHITECTURE.md says", run: direction::direction },
    Check {
        rule: "manifests name a registry or this repository as the source of dependencies",
        run: manifests::sources,
    },
    Check {
        rule: "dependencies are declared once, in the workspace",
        run: manifests::inherited_dependencies,
    },
    Check { rule: "every crate inherits the workspace's lints", run: manifests::inherited_lints },
    Check { rule: "the lock file of the benchmarks is current", run: manifests::benchmark_lock },
    Check { rule: "dependencies come from the public registry", run: dependencies::registry },
    Check { rule: "licences of dependencies are on the list", run: dependencies::licences },
    Check { rule: "dependencies in two versions are listed with a reason", run: dependencies::duplicates },
    Check { rule: "public type names are declared once", run: types::unique_names },
    Check { rule: "invariants and the tests that hold them name each other", run: invariants::invariants },
    Check { rule: "relative links in documents lead somewhere", run: documents::links },
    Check { rule: "every reading named exists in docs/contracts/readings.md", run: documents::readings },
];

/// One place that breaks a rule; `what` says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Violation {
        Violation { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    match arguments {
        [] => check(root),
        [flag] if flag == "--list" => {
            CHECKS.iter().for_each(|check| println!("{}", check.rule));
            Ok(())
        }
        _ => Err(Failure::Usage("`cargo xtask tidy` takes `--list` or nothing".to_owned())),
    }
}

fn check(root: &Path) -> Outcome {
    let start = Instant::now();
    let files = Files::of(root)?.with_metadata(dependencies::metadata(root)?);
    let repository = Repository::parse(&files)?;
    let violations = violations(&repository);
    for violation in &violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        return Err(Failure::Check(format!("violations listed above: {}", violations.len())));
    }
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("tidy: {} rules hold in {} files ({seconds:.2} s)", CHECKS.len(), files.len());
    Ok(())
}

fn violations(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations: Vec<Violation> = CHECKS.iter().flat_map(|check| (check.run)(repository)).collect();
    violations.sort();
    violations.dedup();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The result of one check for a repository made of these files.
    pub(super) fn findings(
        run: fn(&Repository<'_>) -> Vec<Violation>,
        files: &[(&str, &str)],
    ) -> Vec<String> {
        let files = Files::sample(files);
        let repository = Repository::parse(&files).unwrap();
        run(&repository).iter().map(ToString::to_string).collect()
    }

    /// Asserts that each text, as the file at `path`, breaks the rule exactly once, at `line`.
    pub(super) fn fires(run: fn(&Repository<'_>) -> Vec<Violation>, path: &str, line: usize, texts: &[&str]) {
        for text in texts {
            let found = findings(run, &[(path, text)]);
            assert_eq!(found.len(), 1, "{text:?} gave {found:?}");
            assert!(found[0].starts_with(&format!("{path}:{line}: ")), "{text:?} gave {found:?}");
        }
    }

    /// Asserts that no text, as the file at `path`, breaks the rule.
    pub(super) fn silent(run: fn(&Repository<'_>) -> Vec<Violation>, path: &str, texts: &[&str]) {
        for text in texts {
            assert_eq!(findings(run, &[(path, text)]), [""; 0], "{text:?}");
        }
    }

    #[test]
    fn every_rule_is_listed_once() {
        let rules: BTreeSet<&str> = CHECKS.iter().map(|check| check.rule).collect();
        let functions: BTreeSet<usize> = CHECKS.iter().map(|check| check.run as usize).collect();
        assert_eq!((rules.len(), functions.len()), (CHECKS.len(), CHECKS.len()));
    }

    #[test]
    fn violations_of_all_checks_come_sorted_by_place() {
        let files =
            Files::sample(&[("b.rs", "fn main() { todo!() }"), ("a.rs", "//! A.\n\nunsafe fn f() {}\n")]);
        let found = violations(&Repository::parse(&files).unwrap());
        let places: Vec<(&str, usize)> =
            found.iter().map(|found| (found.path.as_str(), found.line)).collect();
        assert_eq!(places, [("a.rs", 3), ("b.rs", 1), ("b.rs", 1)]);
    }
}
