//! Rules about the workspace's dependencies, as `cargo metadata` resolves them for Linux: licences, sources, and packages in
//! more than one version.
//!
//! The lists below say what is accepted and why. Entries for packages that are no longer used must be removed too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::Violation;
use super::repository::Repository;
use crate::failure::{Failure, Outcome};
use crate::process;

/// Violations are reported here: the versions are chosen in this file.
const LOCK: &str = "Cargo.lock";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences that only require attribution, by their SPDX ids.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages in more than one version, each with the packages that hold the older one back.
const DUPLICATES: &[(&str, &str)] = &[
    ("base64", "ureq moved to 0.23 before postgres-protocol and boon"),
    ("bitflags", "defmt, which jiff and faster-hex bring, is on 1"),
    ("const-oid", "tokio-postgres-rustls reads certificates with der 0.7"),
    ("der", "tokio-postgres-rustls reads certificates with 0.7, the curves of ssh-key with 0.8"),
    ("defmt", "faster-hex is on 0.3, which forwards to 1"),
    ("fallible-iterator", "the PostgreSQL driver is on 0.2, rusqlite on 0.3"),
    ("foldhash", "comes with the two versions of hashbrown"),
    ("getrandom", "ring is on 0.2, ahash on 0.3"),
    ("hashbrown", "imara-diff is on 0.15"),
    ("syn", "several derive macros are on 2; at compile time alone"),
];

/// A package of the resolved graph.
#[derive(Debug)]
pub(super) struct ResolvedPackage {
    pub(super) name: String,
    pub(super) version: String,
    /// None for a crate of this repository.
    pub(super) source: Option<String>,
    pub(super) licence: Option<String>,
}

/// The `cargo metadata` of the workspace; the product is for Linux only.
pub(super) fn metadata(root: &Path) -> Outcome<Vec<u8>> {
    let platform = "--filter-platform=x86_64-unknown-linux-gnu";
    let arguments = ["metadata", "--format-version=1", "--locked", platform];
    process::capture(&mut process::cargo(root, &arguments))
}

/// Reads what `cargo metadata` printed.
pub(super) fn resolved_packages(metadata: &[u8]) -> Outcome<Vec<ResolvedPackage>> {
    let unreadable = || Failure::Check("`cargo metadata` printed something else than packages".to_owned());
    let metadata: Value = serde_json::from_slice(metadata).map_err(|_| unreadable())?;
    let packages = metadata.get("packages").and_then(Value::as_array).ok_or_else(unreadable)?;
    let text = |package: &Value, key: &str| package.get(key).and_then(Value::as_str).map(str::to_owned);
    let read = |package: &Value| {
        Some(ResolvedPackage {
            name: text(package, "name")?,
            version: text(package, "version")?,
            source: text(package, "source"),
            licence: text(package, "license"),
        })
    };
    packages.iter().map(|package| read(package).ok_or_else(unreadable)).collect()
}

pub(super) fn licences(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in foreign(repository) {
        let what = match &package.licence {
            Some(licence) if is_accepted(licence) => continue,
            Some(licence) => format!("is under `{licence}`, which is not on the list of licences"),
            None => "does not name its licence".to_owned(),
        };
        violations.push(at(package, &what));
    }
    violations
}

pub(super) fn registry(repository: &Repository<'_>) -> Vec<Violation> {
    let elsewhere = foreign(repository).filter(|package| package.source.as_deref() != Some(REGISTRY));
    elsewhere.map(|package| at(package, "does not come from the public registry")).collect()
}

pub(super) fn duplicates(repository: &Repository<'_>) -> Vec<Violation> {
    judge_duplicates(repository, DUPLICATES)
}

fn judge_duplicates(repository: &Repository<'_>, known: &[(&str, &str)]) -> Vec<Violation> {
    if repository.packages.is_empty() {
        return Vec::new();
    }
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &repository.packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut violations = Vec::new();
    for (name, versions) in &versions {
        if !known.iter().any(|(known, _)| known == name) {
            let versions = versions.iter().copied().collect::<Vec<_>>().join(", ");
            let what = format!(
                "`{name}` is there as {versions}; choose versions that agree, or add it to the list with a reason"
            );
            violations.push(Violation::new(LOCK, 1, what));
        }
    }
    for (name, _) in known.iter().filter(|(name, _)| !versions.contains_key(name)) {
        let what = format!("`{name}` is there in one version; take it from the list of duplicates");
        violations.push(Violation::new(LOCK, 1, what));
    }
    violations
}

fn foreign<'r>(repository: &'r Repository<'_>) -> impl Iterator<Item = &'r ResolvedPackage> {
    repository.packages.iter().filter(|package| package.source.is_some())
}

fn at(package: &ResolvedPackage, what: &str) -> Violation {
    Violation::new(LOCK, 1, format!("`{}` {} {what}", package.name, package.version))
}

/// Whether an SPDX expression can be met with licences of the list; `/` is an older form of OR.
fn is_accepted(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (accepted, rest) = any_of(&words);
    accepted && rest.is_empty()
}

/// `a OR b`: the weakest binding.
fn any_of<'w>(words: &'w [&'w str]) -> (bool, &'w [&'w str]) {
    let (mut accepted, mut rest) = all_of(words);
    while let [first, after @ ..] = rest
        && *first == "OR"
    {
        let (next, after) = all_of(after);
        (accepted, rest) = (accepted || next, after);
    }
    (accepted, rest)
}

/// `a AND b`.
fn all_of<'w>(words: &'w [&'w str]) -> (bool, &'w [&'w str]) {
    let (mut accepted, mut rest) = one_of(words);
    while let [first, after @ ..] = rest
        && *first == "AND"
    {
        let (next, after) = one_of(after);
        (accepted, rest) = (accepted && next, after);
    }
    (accepted, rest)
}

/// A licence, a licence with an exception, or a group.
fn one_of<'w>(words: &'w [&'w str]) -> (bool, &'w [&'w str]) {
    match words {
        ["(", rest @ ..] => match any_of(rest) {
            (accepted, [")", rest @ ..]) => (accepted, rest),
            (_, rest) => (false, rest),
        },
        [licence, "WITH", exception, rest @ ..] => {
            (LICENCES.contains(&format!("{licence} WITH {exception}").as_str()), rest)
        }
        [licence, rest @ ..] => (LICENCES.contains(licence), rest),
        [] => (false, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::repository::Files;
    use super::*;

    /// The result of a check for one package of the graph, in addition to one of our own.
    fn said(
        run: fn(&Repository<'_>) -> Vec<Violation>,
        packages: &[(&str, &str, Value, Value)],
    ) -> Vec<String> {
        let own = serde_json::json!({ "name": "own", "version": "0.1.0", "source": null, "license": null });
        let mut list = vec![own];
        for (name, version, source, licence) in packages {
            let package =
                serde_json::json!({ "name": name, "version": version, "source": source, "license": licence });
            list.push(package);
        }
        let metadata = serde_json::json!({ "packages": list }).to_string();
        let files = Files::sample(&[]).with_metadata(metadata.into_bytes());
        run(&Repository::parse(&files).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn licences_are_met_as_spdx_has_it() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 AND MIT OR ISC",
            "((MIT))",
        ] {
            assert!(is_accepted(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR AGPL-3.0)",
            "MIT WITH LLVM-exception",
            "MIT Apache-2.0",
            "(MIT",
            "MIT AND",
            "LGPL-2.1 OR GPL-3.0 AND MIT",
        ] {
            assert!(!is_accepted(bad), "{bad}");
        }
    }

    #[test]
    fn a_package_with_another_licence_or_source_is_refused() {
        let registry_source = Value::from(REGISTRY);
        let mit = Value::from("MIT");
        assert_eq!(said(licences, &[("a", "1.0.0", registry_source.clone(), mit.clone())]), [""; 0]);
        let copyleft = said(licences, &[("a", "1.0.0", registry_source.clone(), "GPL-3.0".into())]);
        assert_eq!(
            copyleft,
            ["Cargo.lock:1: `a` 1.0.0 is under `GPL-3.0`, which is not on the list of licences"]
        );
        let none = said(licences, &[("a", "1.0.0", registry_source.clone(), Value::Null)]);
        assert_eq!(none, ["Cargo.lock:1: `a` 1.0.0 does not name its licence"]);
        assert_eq!(said(registry, &[("a", "1.0.0", registry_source, mit.clone())]), [""; 0]);
        let foreign = said(registry, &[("a", "1.0.0", "git+https://example.com/a".into(), mit)]);
        assert_eq!(foreign, ["Cargo.lock:1: `a` 1.0.0 does not come from the public registry"]);
    }

    #[test]
    fn two_versions_need_a_reason_and_a_reason_needs_two_versions() {
        fn check(repository: &Repository<'_>) -> Vec<Violation> {
            judge_duplicates(repository, &[("b", "for a test")])
        }
        let package = |name, version| (name, version, Value::from(REGISTRY), Value::from("MIT"));
        let both = said(check, &[package("a", "1.0.0"), package("a", "2.0.0"), package("b", "1.0.0")]);
        assert_eq!(
            both,
            [
                "Cargo.lock:1: `a` is there as 1.0.0, 2.0.0; choose versions that agree, or add it to the list with a reason",
                "Cargo.lock:1: `b` is there in one version; take it from the list of duplicates",
            ]
        );
        assert_eq!(said(check, &[package("b", "1.0.0"), package("b", "2.0.0")]), [""; 0]);
    }

    #[test]
    fn invalid_metadata_is_refused() {
        for text in ["", "{}", r#"{"packages":[{"name":"a"}]}"#] {
            assert!(resolved_packages(text.as_bytes()).is_err(), "{text}");
        }
    }
}
