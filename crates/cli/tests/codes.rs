//! The reference knows every code that the program has, and no other: the codes are read from the sources, where each
//! stands in a `fn code` (or, for violations, `Code::as_str`).

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const ERRORS: &str = "fn code(&self) -> &'static str {";
const VIOLATIONS: &str = "pub fn as_str(&self) -> &str {";

#[test]
fn the_reference_has_every_code_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/reference/codes.md")).unwrap();
    let mut sources = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        collect(&entry.unwrap().path().join("src"), &mut sources);
    }
    let errors = sources.iter().flat_map(|path| codes(path, ERRORS)).collect();
    compare("Error codes", &page, &errors);
    let violations = codes(&root.join("crates/contracts/src/violation.rs"), VIOLATIONS);
    compare("Violation codes", &page, &violations.into_iter().collect());
}

fn compare(title: &str, page: &str, coded: &BTreeSet<String>) {
    let section = page.split("\n## ").find(|section| section.starts_with(title)).expect(title);
    let printed = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let printed: BTreeSet<String> = printed.map(|(code, _)| code.to_owned()).collect();
    assert!(coded.len() > 30, "the codes were found: {coded:?}");
    let absent: Vec<_> = coded.difference(&printed).collect();
    assert!(absent.is_empty(), "say in `commands/man/codes.rs` what these mean: {absent:?}");
    let gone: Vec<_> = printed.difference(coded).collect();
    assert!(
        gone.is_empty(),
        "nothing has these codes any more; take them out of `commands/man/codes.rs`: {gone:?}"
    );
}

fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, sources),
            false if path.extension().is_some_and(|extension| extension == "rs") => sources.push(path),
            false => {}
        }
    }
}

/// The texts in the bodies of the functions that begin so.
fn codes(path: &Path, begin: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let bodies = text.split(begin).skip(1).map(|rest| rest.split("\n    }\n").next().unwrap().to_owned());
    bodies
        .flat_map(|body| body.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}
