//! The invariants of ARCHITECTURE.md and the tests that hold them: each invariant names its tests, and each test that says it
//! holds an invariant is named there.
//!
//! A test says it by a comment above its function, `// holds: invariant 7`, or, if the case is a script, by a line
//! `# holds: invariant 7`. The document names a test as an item under the invariant: `` - `path`: `function`, `function` `` or,
//! for a script, `` - `path` ``.

use std::collections::BTreeMap;

use super::Violation;
use super::repository::Repository;
use super::rust_source::{Kind, RustFile};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## What always holds";
const MARK: &str = "holds: invariant ";

/// A test: its file, and its function if the file has several.
type Test<'a> = (&'a str, Option<&'a str>);

pub(super) fn invariants(repository: &Repository<'_>) -> Vec<Violation> {
    let Some(document) = repository.text(DOCUMENT).filter(|text| text.contains(HEADING)) else {
        return Vec::new();
    };
    let (numbers, named) = listed(document);
    let marked = marked(repository);
    let mut violations = Vec::new();
    for (number, line) in &numbers {
        if !named.keys().any(|(other, _)| other == number) {
            let what = format!("invariant {number} names no test; write `- `path`: `function`` under it");
            violations.push(Violation::new(DOCUMENT, *line, what));
        }
    }
    for ((number, test), line) in &named {
        if !marked.contains_key(&(*number, *test)) {
            let what =
                format!("{} does not say `{MARK}{number}`; mark it, or name another test", shown(test));
            violations.push(Violation::new(DOCUMENT, *line, what));
        }
    }
    for ((number, test), line) in &marked {
        if !named.contains_key(&(*number, *test)) {
            let what =
                format!("{} is not named under invariant {number} of {DOCUMENT}; name it there", shown(test));
            violations.push(Violation::new(test.0, *line, what));
        }
    }
    violations
}

fn shown((path, function): &Test<'_>) -> String {
    function.map_or_else(|| format!("`{path}`"), |function| format!("`{function}` in `{path}`"))
}

/// The invariants with their lines, and the tests that each names with theirs.
fn listed(document: &str) -> (BTreeMap<u32, usize>, BTreeMap<(u32, Test<'_>), usize>) {
    let (mut numbers, mut tests) = (BTreeMap::new(), BTreeMap::new());
    let lines = (1..).zip(document.lines());
    let section = lines.skip_while(|(_, line)| line.trim_end() != HEADING).skip(1);
    let mut current = None;
    for (at, line) in section.take_while(|(_, line)| !line.starts_with("## ")) {
        if let Some(number) = line.split_once(". ").and_then(|(number, _)| number.parse().ok()) {
            numbers.insert(number, at);
            current = Some(number);
        }
        let (Some(number), Some(item)) = (current, line.trim_start().strip_prefix("- `")) else { continue };
        let mut spans = item.split('`').step_by(2);
        let Some(path) = spans.next() else { continue };
        let functions: Vec<&str> = spans.filter(|span| !span.is_empty()).collect();
        if functions.is_empty() {
            tests.insert((number, (path, None)), at);
        }
        tests.extend(functions.into_iter().map(|function| ((number, (path, Some(function))), at)));
    }
    (numbers, tests)
}

/// The tests that say they hold an invariant, with the line on which they do.
fn marked<'a>(repository: &Repository<'a>) -> BTreeMap<(u32, Test<'a>), usize> {
    let mut tests = BTreeMap::new();
    for file in &repository.rust {
        for comment in &file.comments {
            let Some(numbers) = comment.text.strip_prefix("//").and_then(numbers) else { continue };
            let function = function_after(file, comment.line);
            tests.extend(numbers.into_iter().map(|number| ((number, (file.path, function)), comment.line)));
        }
    }
    for file in repository.texts.iter().filter(|file| file.path.ends_with(".sh")) {
        for (line, text) in (1..).zip(file.text.lines()) {
            let Some(numbers) = text.strip_prefix('#').and_then(numbers) else { continue };
            tests.extend(numbers.into_iter().map(|number| ((number, (file.path, None)), line)));
        }
    }
    tests
}

/// The numbers of a mark such as `holds: invariant 7, 9`.
fn numbers(comment: &str) -> Option<Vec<u32>> {
    let list = comment.trim().strip_prefix(MARK)?;
    list.split(", ").map(|number| number.parse().ok()).collect()
}

/// The name of the first function that is declared after a line.
fn function_after<'a>(file: &RustFile<'a>, line: usize) -> Option<&'a str> {
    let mut code = file.code.iter().skip_while(|token| token.line <= line);
    code.find(|token| token.kind == Kind::Word && token.text == "fn")?;
    code.next().map(|token| token.text)
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    const TEST: &str = "crates/a/tests/a.rs";
    const CASE: &str = "crates/a/tests/cases/b.sh";
    const RUST: &str =
        "//! A.\n\n// holds: invariant 1\n#[test]\nfn one() {}\n\n// holds: invariant 2, 1\nfn two() {}\n";

    fn found(list: &str, rust: &str, script: &str) -> Vec<String> {
        let document = format!("# A\n\n## What always holds\n\n{list}\n\n## Next\n\n9. Nine.\n");
        findings(invariants, &[("ARCHITECTURE.md", &document), (TEST, rust), (CASE, script)])
    }

    #[test]
    fn matching_sides_give_no_violation() {
        let list = format!(
            "1. One.\n   - `{TEST}`: `one`, `two`\n2. Two,\n   and more.\n   - `{TEST}`: `two`\n   - `{CASE}`"
        );
        assert_eq!(found(&list, RUST, "# holds: invariant 2\ntrue\n"), [""; 0]);
    }

    #[test]
    fn a_row_without_a_test_and_a_test_without_a_row_are_refused() {
        let unnamed =
            found(&format!("1. One.\n   - `{TEST}`: `one`\n2. Two.\n   - `{TEST}`: `two`"), RUST, "");
        assert_eq!(
            unnamed,
            [format!(
                "{TEST}:7: `two` in `{TEST}` is not named under invariant 1 of ARCHITECTURE.md; name it there"
            )]
        );
        let list = format!("1. One.\n   - `{TEST}`: `one`, `two`, `three`\n2. Two.\n   - `{TEST}`: `two`");
        let absent = format!(
            "ARCHITECTURE.md:6: `three` in `{TEST}` does not say `holds: invariant 1`; mark it, or name another test"
        );
        assert_eq!(found(&list, RUST, ""), [absent]);
        let script = found(&list.replace(", `three`", ""), RUST, "# holds: invariant 3\n");
        assert_eq!(
            script,
            [format!("{CASE}:1: `{CASE}` is not named under invariant 3 of ARCHITECTURE.md; name it there")]
        );
        let untested = found(&format!("{}\n3. Three.", list.replace(", `three`", "")), RUST, "");
        assert_eq!(untested.len(), 1, "{untested:?}");
        assert!(untested[0].starts_with("ARCHITECTURE.md:9: invariant 3 names no test"), "{untested:?}");
    }
}
