//! Rules about `Cargo.toml` files: where dependencies come from and what every crate inherits.

use super::Violation;
use super::repository::{Dependency, Manifest, Repository};

/// Needs its own lints: the workspace forbids `unsafe`, and a forbidden lint cannot be allowed again.
const OWN_LINTS: &str = "crates/sandbox/Cargo.toml";

/// The benchmarks are a separate workspace.
const BENCHMARK_LOCK: &str = "bench/Cargo.lock";

pub(super) fn sources(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for manifest in &repository.manifests {
        let inherited =
            manifest.table.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
        let inherited = inherited.into_iter().flatten().map(|(name, value)| (name.as_str(), value));
        let own = manifest.dependencies();
        let own = own.iter().map(|dependency| (dependency.name, dependency.value));
        for (name, value) in own.chain(inherited) {
            if let Some(what) = foreign_source(repository, manifest, name, value) {
                violations.push(Violation::new(manifest.path, manifest.line_of(name), what));
            }
        }
        for section in ["patch", "replace"].iter().filter(|section| manifest.table.contains_key(**section)) {
            let what =
                format!("`[{section}]` changes where dependencies come from; depend on a published version");
            violations.push(Violation::new(manifest.path, 1, what));
        }
    }
    violations
}

fn foreign_source(
    repository: &Repository<'_>,
    manifest: &Manifest<'_>,
    name: &str,
    value: &toml::Value,
) -> Option<String> {
    if value.get("git").is_some() {
        return Some(format!("`{name}` comes from git; depend on a published version"));
    }
    let path = value.get("path")?.as_str()?;
    let folder = resolve(manifest.folder(), path);
    let is_ours =
        folder.is_some_and(|folder| repository.manifests.iter().any(|other| other.folder() == folder));
    (!is_ours).then(|| {
        format!("`{name}` is at `{path}`, where this repository has no crate; depend on a published version")
    })
}

/// Whether `cargo xtask bench` can build with its lock file: it must also lock the crates' dependencies.
pub(super) fn benchmark_lock(repository: &Repository<'_>) -> Vec<Violation> {
    let Some(text) = repository.text(BENCHMARK_LOCK) else { return Vec::new() };
    let Ok(lock) = text.parse::<toml::Table>() else {
        return vec![Violation::new(BENCHMARK_LOCK, 1, "is no lock file; regenerate it")];
    };
    let packages: Vec<&toml::Value> =
        lock.get("package").and_then(toml::Value::as_array).into_iter().flatten().collect();
    let mut violations = Vec::new();
    for member in repository.members() {
        let named = |package: &&&toml::Value| {
            package.get("name").and_then(toml::Value::as_str) == Some(member.package_name())
        };
        let Some(package) = packages.iter().find(named) else { continue };
        let locked = package.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
        // A package in two versions has its version after its name.
        let locked: Vec<&str> = locked.filter_map(|name| name.as_str()?.split(' ').next()).collect();
        for dependency in member.dependencies() {
            if !dependency.development && !locked.contains(&dependency.name) {
                let what = format!(
                    "`{}` depends on `{}`, which it does not lock; run `cargo metadata --manifest-path bench/Cargo.toml`",
                    member.package_name(),
                    dependency.name
                );
                violations.push(Violation::new(BENCHMARK_LOCK, 1, what));
            }
        }
    }
    violations
}

/// The path `relative` to `folder`, from the root; `None` if it leaves the repository.
pub(super) fn resolve(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if relative.starts_with('/') {
        return None;
    }
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

pub(super) fn inherited_dependencies(repository: &Repository<'_>) -> Vec<Violation> {
    let inherits = |dependency: &Dependency<'_>| {
        dependency.value.get("workspace").and_then(toml::Value::as_bool).unwrap_or_default()
    };
    let mut violations = Vec::new();
    for member in repository.members() {
        let own = member.dependencies().into_iter().filter(|dependency| !inherits(dependency));
        violations.extend(own.map(|dependency| {
            let name = dependency.name;
            let what = format!("declare `{name}` in the root's [workspace.dependencies] and write `{name}.workspace = true` here");
            Violation::new(member.path, member.line_of(name), what)
        }));
    }
    violations
}

pub(super) fn inherited_lints(repository: &Repository<'_>) -> Vec<Violation> {
    let inherits = |member: &&Manifest<'_>| {
        member.table.get("lints").and_then(|lints| lints.get("workspace")?.as_bool()).unwrap_or_default()
    };
    let lax = repository.members().filter(|member| member.path != OWN_LINTS && !inherits(member));
    let what = "the crate does not inherit the workspace's lints; add `[lints]` with `workspace = true`";
    lax.map(|member| Violation::new(member.path, member.line_of("lints"), what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    /// The result of a check for a workspace with these lines in `crates/a/Cargo.toml`.
    fn said(run: fn(&Repository<'_>) -> Vec<Violation>, text: &str) -> Vec<String> {
        let files = [
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            ("crates/a/Cargo.toml", text),
            ("crates/b/Cargo.toml", "[lints]\nworkspace = true\n"),
            ("bench/Cargo.toml", "[dependencies]\nb = { path = \"../crates/b\" }\nserde = \"1\"\n"),
        ];
        findings(run, &files)
    }

    #[test]
    fn a_dependency_that_the_benchmarks_do_not_lock_is_refused() {
        let with = |dependencies: &str| {
            let manifest = format!("[package]\nname = \"a\"\n{dependencies}");
            let lock = "[[package]]\nname = \"a\"\ndependencies = [\"serde\", \"der 0.8.0\"]\n";
            let workspace = ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n");
            findings(
                benchmark_lock,
                &[workspace, ("crates/a/Cargo.toml", &manifest), ("bench/Cargo.lock", lock)],
            )
        };
        assert_eq!(
            with("[dependencies]\nserde = \"1\"\nder = \"0.8\"\n[dev-dependencies]\nx = \"1\"\n"),
            [""; 0]
        );
        let found = with("[dependencies]\nserde = \"1\"\nx = \"1\"\n");
        assert!(
            found.len() == 1 && found[0].starts_with("bench/Cargo.lock:1: `a` depends on `x`"),
            "{found:?}"
        );
    }

    #[test]
    fn foreign_sources_are_refused() {
        for text in [
            "[dependencies]\nx = { git = \"https://example.org/x\" }\n",
            "[dependencies.x]\npath = \"../../../x\"\n",
            "[dev-dependencies]\nx = { path = \"../x\" }\n",
            "[dependencies]\nx = { path = \"/x\" }\n",
            "[workspace.dependencies]\nx = { git = \"https://example.org/x\" }\n",
            "[patch.crates-io]\nx = \"1\"\n",
        ] {
            let found = said(sources, text);
            assert!(found.len() == 1 && found[0].starts_with("crates/a/Cargo.toml:"), "{text}: {found:?}");
        }
        assert_eq!(said(sources, "[dependencies]\nb = { path = \"../b\" }\nserde = \"1\"\n"), [""; 0]);
    }

    #[test]
    fn dependencies_are_declared_in_the_workspace() {
        for text in [
            "[dependencies]\nx = \"1\"\n",
            "[dependencies.x]\nversion = \"1\"\n",
            "[dev-dependencies]\nx = { path = \"../b\" }\n",
        ] {
            let found = said(inherited_dependencies, text);
            assert!(found.len() == 1 && found[0].contains("`x.workspace = true`"), "{text}: {found:?}");
        }
        let inherited = "[dependencies]\nx.workspace = true\ny = { workspace = true, features = [\"z\"] }\n";
        assert_eq!(said(inherited_dependencies, inherited), [""; 0]);
    }

    #[test]
    fn lints_are_inherited_but_in_the_sandbox() {
        for text in ["", "[lints]\nworkspace = false\n", "[lints.rust]\nunsafe_code = \"allow\"\n"] {
            assert_eq!(said(inherited_lints, text).len(), 1, "{text}");
        }
        assert_eq!(said(inherited_lints, "[lints]\nworkspace = true\n"), [""; 0]);
        let sandbox =
            [("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"), ("crates/sandbox/Cargo.toml", "")];
        assert_eq!(findings(inherited_lints, &sandbox), [""; 0]);
    }

    #[test]
    fn paths_resolve_from_the_root() {
        for (folder, relative, expected) in [
            ("crates/a", "../b", Some("crates/b")),
            ("", "./docs//x.md", Some("docs/x.md")),
            ("a", "..", Some("")),
            ("a", "../..", None),
            ("a", "/b", None),
        ] {
            assert_eq!(resolve(folder, relative).as_deref(), expected, "{folder} {relative}");
        }
    }
}
