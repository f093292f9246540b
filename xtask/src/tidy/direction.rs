//! Which crate may depend on which, as the table in ARCHITECTURE.md says.
//!
//! The table is read, not copied, so the document cannot say one thing and the check another. Development
//! dependencies are checked too: a test that needs more belongs to the crate that may know both.

use std::collections::BTreeMap;

use super::Violation;
use super::repository::{Manifest, Repository};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Who may depend on whom";
const PREFIX: &str = "crealeph-";

enum Allowed<'a> {
    Anything,
    Only(Vec<&'a str>),
}

pub(super) fn direction(repository: &Repository<'_>) -> Vec<Violation> {
    let mut members = repository.members().peekable();
    if members.peek().is_none() {
        return Vec::new();
    }
    let table = table(repository.text(DOCUMENT).unwrap_or_default());
    if table.is_empty() {
        let what = format!("no table of crates under `{HEADING}`; write one, tidy reads it");
        return vec![Violation::new(DOCUMENT, 1, what)];
    }
    let own: Vec<&str> = repository.members().map(Manifest::package_name).collect();
    members.flat_map(|member| judge(member, &table, &own)).collect()
}

fn judge(member: &Manifest<'_>, table: &BTreeMap<&str, Allowed<'_>>, own: &[&str]) -> Vec<Violation> {
    let package = member.package_name();
    let name = short(package);
    let at_name = |what: String| vec![Violation::new(member.path, member.line_of("name"), what)];
    if let Some(folder) =
        member.folder().strip_prefix("crates/").filter(|folder| format!("{PREFIX}{folder}") != package)
    {
        return at_name(format!("package `{package}` is in crates/{folder}; call it `{PREFIX}{folder}`"));
    }
    let allowed = match table.get(name) {
        Some(Allowed::Anything) => return Vec::new(),
        Some(Allowed::Only(names)) => names,
        None => {
            return at_name(format!(
                "crate `{name}` is not in the table of {DOCUMENT}; say there what it may depend on"
            ));
        }
    };
    let mut violations = Vec::new();
    for dependency in member.dependencies() {
        let wanted = short(dependency.name);
        if own.contains(&dependency.name) && !allowed.contains(&wanted) {
            let what = format!(
                "`{name}` may not depend on `{wanted}` ({DOCUMENT}); move the code to where both are known"
            );
            violations.push(Violation::new(member.path, member.line_of(dependency.name), what));
        }
    }
    violations
}

fn short(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

/// Rows of the form ``| `crate` | `other`, `another` |``, or `anything`, or `nothing`.
fn table(document: &str) -> BTreeMap<&str, Allowed<'_>> {
    let section = document.lines().skip_while(|line| line.trim_end() != HEADING).skip(1);
    let rows = section.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with('|'));
    let mut table = BTreeMap::new();
    for row in rows {
        let mut cells = row.split('|').skip(1);
        let (Some(name), Some(allowed)) = (cells.next(), cells.next()) else { continue };
        let allowed = match allowed.trim() {
            "anything" => Allowed::Anything,
            _ => Allowed::Only(code_spans(allowed).collect()),
        };
        table.extend(code_spans(name).next().map(|name| (name, allowed)));
    }
    table
}

fn code_spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    const ARCHITECTURE: &str = "# A\n\n## Who may depend on whom\n\n| crate | may depend on |\n|---|---|\n\
        | `contracts` | nothing |\n| `decision` | `contracts` |\n| `cli` | anything |\n\n## Next\n\n| `other` | anything |\n";

    /// The result for one crate with these lines after its `[package]` table.
    fn said(name: &str, rest: &str, architecture: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"crealeph-{name}\"\n{rest}");
        let path = format!("crates/{name}/Cargo.toml");
        let mut files = vec![
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            ("ARCHITECTURE.md", architecture),
            ("crates/contracts/Cargo.toml", "[package]\nname = \"crealeph-contracts\"\n"),
            ("crates/decision/Cargo.toml", "[package]\nname = \"crealeph-decision\"\n"),
        ];
        files.retain(|(other, _)| *other != path);
        files.push((&path, &manifest));
        findings(direction, &files)
    }

    #[test]
    fn a_dependency_against_the_direction_is_refused() {
        for table in
            ["dependencies", "dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"]
        {
            let found =
                said("contracts", &format!("[{table}]\ncrealeph-decision.workspace = true\n"), ARCHITECTURE);
            assert_eq!(found.len(), 1, "{table}");
            assert!(
                found[0]
                    .starts_with("crates/contracts/Cargo.toml:4: `contracts` may not depend on `decision`")
            );
        }
    }

    #[test]
    fn an_allowed_dependency_passes() {
        let both =
            "[dependencies]\ncrealeph-contracts.workspace = true\ncrealeph-decision.workspace = true\n";
        assert_eq!(said("cli", both, ARCHITECTURE), [""; 0]);
        let one = "[dependencies]\ncrealeph-contracts.workspace = true\nserde.workspace = true\n";
        assert_eq!(said("decision", one, ARCHITECTURE), [""; 0]);
    }

    #[test]
    fn a_crate_outside_the_table_is_refused() {
        for name in ["ledger", "other"] {
            let found = said(name, "", ARCHITECTURE);
            assert!(found.len() == 1 && found[0].contains("is not in the table"), "{found:?}");
        }
    }

    #[test]
    fn a_missing_table_is_refused() {
        for architecture in ["", "# A\n\n## Who may depend on whom\n\nText.\n"] {
            let found = said("cli", "", architecture);
            assert!(found.len() == 1 && found[0].starts_with("ARCHITECTURE.md:1: "), "{found:?}");
        }
    }

    #[test]
    fn a_package_is_named_after_its_folder() {
        let files = [
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            ("ARCHITECTURE.md", ARCHITECTURE),
            ("crates/cli/Cargo.toml", "[package]\nname = \"crealeph\"\n"),
        ];
        let found = findings(direction, &files);
        assert!(found.len() == 1 && found[0].ends_with("call it `crealeph-cli`"), "{found:?}");
    }
}
