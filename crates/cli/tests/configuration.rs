//! `docs/configuration.md` lists exactly the keys that the program reads: for each table the program is asked which keys
//! it knows, by giving it one that it cannot know. Variables of our own are read from the sources.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const UNKNOWN: &str = "zzzzzzzzzz";

/// The headings of a table, and a configuration that gives it a key it does not know.
const TABLES: &[(&[&str], &str)] = &[
    (&["## Sections"], "[zzzzzzzzzz]"),
    (&["### `[ledger]`"], "[ledger]\nzzzzzzzzzz = 1"),
    (&["### `[server]`"], "[server]\nzzzzzzzzzz = 1"),
    (&["### `[builder]`"], "[builder]\nzzzzzzzzzz = 1"),
    (&["### `[builder]`"], "[tenants.a.builder]\nzzzzzzzzzz = 1"),
    (&["### `[builder]`"], "[tenants.a.robots.b.builder]\nzzzzzzzzzz = 1"),
    (&["### `[builder.thresholds]`"], "[builder.thresholds]\nzzzzzzzzzz = 1"),
    (&["### `[builder.coherence]`"], "[builder.coherence]\nzzzzzzzzzz = 1"),
    (&["### `[tenants.NAME]`"], "[tenants.a]\nzzzzzzzzzz = 1"),
    (&["### `[agents.\"NAME\"]`"], "[agents.'a@1']\nkind = 'example'\nzzzzzzzzzz = 1"),
    (
        &["### `[agents.\"NAME\"]`", "### `kind = \"process\"`"],
        "[agents.'a@1']\nkind = 'process'\ncommand = ['a']\nzzzzzzzzzz = 1",
    ),
    (
        &["### `[agents.\"NAME\"]`", "### `kind = \"http\"`"],
        "[agents.'a@1']\nkind = 'http'\nurl = 'https://a.b'\nzzzzzzzzzz = 1",
    ),
    (
        &["### `[agents.\"NAME\"]`", "### `kind = \"openai\"`"],
        "[agents.'a@1']\nkind = 'openai'\nbase_url = 'https://a.b'\nmodel = 'm'\nzzzzzzzzzz = 1",
    ),
    (&["### `[work.agents.NAME]`"], "[work.agents.a]\nagent_id = 'agent-1'\ncommand = ['a']\nzzzzzzzzzz = 1"),
    (
        &["### `[work.agents.NAME.paths]`"],
        "[work.agents.a]\nagent_id = 'agent-1'\ncommand = ['a']\npaths = { zzzzzzzzzz = 1 }",
    ),
    (
        &["### `[work.agents.NAME.test]`"],
        "[work.agents.a]\nagent_id = 'agent-1'\ncommand = ['a']\ntest = { zzzzzzzzzz = 1 }",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_key_is_in_the_reference_and_no_other() {
    let page = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (headings, text) in TABLES {
        let printed: BTreeSet<String> =
            headings.iter().flat_map(|heading| keys_under(&page, heading)).collect();
        assert_eq!(printed, known(folder.path(), text), "{headings:?}");
    }
}

/// What the tables under a heading have in their first column.
fn keys_under(page: &str, heading: &str) -> Vec<String> {
    let section = page.split(&format!("\n{heading}\n")).nth(1).expect(heading);
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let columns = rows.map(|row| row.trim_start_matches("| ").split(" | ").next().unwrap());
    columns.flat_map(|column| column.split(", ")).map(|key| key.trim_matches('`').to_owned()).collect()
}

/// Which keys the program knows where it was given another.
fn known(folder: &Path, text: &str) -> BTreeSet<String> {
    assert!(text.contains(UNKNOWN));
    fs::write(folder.join("crealeph.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
    let output =
        command.args(["doctor", "--json"]).current_dir(folder).env("CREALEPH_TRUST", "1").output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = findings.as_array().unwrap().iter().find(|one| one["name"] == "configuration").unwrap();
    let (_, known) = finding["detail"].as_str().unwrap().split_once("; known are ").expect(text);
    known.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_variable_of_ours_is_in_the_reference() {
    let page = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        collect(&entry.unwrap().path().join("src"), &mut found);
    }
    assert!(found.len() >= 8, "the variables were found: {found:?}");
    let absent: Vec<_> = found.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(absent.is_empty(), "docs/configuration.md does not mention {absent:?}");
}

/// The names in quotes that begin with `CREALEPH_`.
fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let quoted = text.split('"').skip(1);
            // Those of a crate's own tests are not for users.
            let names = quoted.filter(|text| text.len() > 9 && !text.starts_with("CREALEPH_TEST_"));
            let names = names.filter(|text| text.starts_with("CREALEPH_"));
            let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            found.extend(names.filter(is_name).map(str::to_owned));
        }
    }
}

#[test]
fn the_page_of_protected_paths_is_what_the_program_protects() {
    use crealeph_decision::work::{PROTECTED_INVARIANTS, PROTECTED_LAWS, ProtectedRow};
    let page = fs::read_to_string(root().join("docs/protected-paths.md")).unwrap();
    let line = |row: &ProtectedRow| {
        let globs: Vec<String> = row.globs.iter().map(|glob| format!("`{}`", shortened(glob))).collect();
        format!("| {} | {} |", row.tool, globs.join(", "))
    };
    let expected: Vec<String> = PROTECTED_LAWS.iter().chain(PROTECTED_INVARIANTS).map(line).collect();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what |"));
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

/// A glob with the first three of very many alternatives.
fn shortened(glob: &str) -> String {
    let parts = glob.split_inclusive(['{', '}']).map(|part| match part.split(',').count() > 60 {
        true => format!("{},…}}", part.split(',').take(3).collect::<Vec<_>>().join(",")),
        false => part.to_owned(),
    });
    parts.collect()
}
