//! Public type names: each is declared once in all crates, so that a name can be searched for and has one meaning.
//!
//! It reads `pub struct`, `enum`, `union`, `trait` and `type`, and the declarations of `contracts`' macros. `pub(crate)` and
//! private types may repeat a name.

use std::collections::BTreeMap;

use super::Violation;
use super::repository::Repository;
use super::rust_source::{Kind, Token};

/// The macros of `contracts` that declare types, whose names are at the top of their items.
const DECLARING: [&str; 6] = ["object", "words", "identifiers", "integers", "measures", "digests"];

struct Declared<'a> {
    name: &'a str,
    path: &'a str,
    line: usize,
}

pub(super) fn unique_names(repository: &Repository<'_>) -> Vec<Violation> {
    let mut declared: BTreeMap<&str, Vec<Declared<'_>>> = BTreeMap::new();
    for file in repository.rust.iter().filter(|file| file.path.starts_with("crates/")) {
        for (name, line) in public_types(file.product_code()) {
            declared.entry(name).or_default().push(Declared { name, path: file.path, line });
        }
    }
    let mut violations = Vec::new();
    for places in declared.values() {
        let Some((first, others)) = places.split_first() else { continue };
        for other in others {
            let what =
                format!("`{}` is declared in {} too; give one of them another name", other.name, first.path);
            violations.push(Violation::new(other.path, other.line, what));
        }
    }
    violations
}

/// The names of the public types that this code declares, with their lines.
fn public_types<'a>(code: &[Token<'a>]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for window in code.windows(3) {
        let [visibility, keyword, name] = window else { continue };
        let is_type = matches!(keyword.text, "struct" | "enum" | "union" | "trait" | "type");
        if visibility.text == "pub" && is_type && name.kind == Kind::Word {
            found.push((name.text, name.line));
        }
    }
    for (start, window) in code.windows(3).enumerate() {
        let [name, mark, open] = window else { continue };
        if DECLARING.contains(&name.text) && mark.text == "!" && open.text == "{" {
            found.extend(items(code.get(start + 2..).unwrap_or_default()));
        }
    }
    found
}

/// The capitalised words that begin an item, or come after its `/`, directly in the group that the code begins with.
fn items<'a>(code: &[Token<'a>]) -> Vec<(&'a str, usize)> {
    let (mut found, mut depth, mut before) = (Vec::new(), 0_usize, "");
    for token in code {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return found;
        }
        let is_name = token.kind == Kind::Word && token.text.starts_with(|c: char| c.is_ascii_uppercase());
        if depth == 1 && is_name && matches!(before, "{" | "," | ";" | "/") {
            found.push((token.text, token.line));
        }
        before = token.text;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    #[test]
    fn a_public_name_that_is_declared_twice_is_refused() {
        for (one, other) in [
            ("pub struct Sample { a: u8 }", "pub enum Sample { A }"),
            ("pub trait Sample {}", "pub type Sample = u8;"),
            (
                "object! {\n    /// A.\n    Sample / SampleParts [\"a\", \"b\"] { a: Name = \"a\", }\n}",
                "pub struct Sample;",
            ),
            ("object! { Other / Sample [\"a\", \"b\"] { } }", "pub union Sample {}"),
            ("words! { Sample { A = \"a\", } }", "pub struct Sample<'a>(&'a u8);"),
            (
                "measures! { First is \"a\" within (0.0..), { }; Sample is \"b\" within (0.0..), { }; }",
                "pub struct Sample;",
            ),
            ("identifiers! { First, Sample, }", "pub struct Sample;"),
        ] {
            let files = [("crates/a/src/a.rs", one), ("crates/b/src/b.rs", other)];
            let found = findings(unique_names, &files);
            let expected = "crates/b/src/b.rs:1: `Sample` is declared in crates/a/src/a.rs too; give one of them another name";
            assert_eq!(found, [expected], "{one}");
        }
    }

    #[test]
    fn private_names_may_repeat() {
        for other in [
            "pub(crate) struct Sample;",
            "struct Sample;",
            "pub struct Other(Sample);",
            "// pub struct Sample;",
            "object! { Other / OtherParts [\"a\", \"b\"] { a: Sample = \"a\", } }",
            "words! { Other { Sample = \"a\", } }",
            "#[cfg(test)]\nmod tests { pub struct Sample; }",
        ] {
            let files = [("crates/a/src/a.rs", "pub struct Sample;"), ("crates/b/src/b.rs", other)];
            assert_eq!(findings(unique_names, &files), [""; 0], "{other}");
        }
        let in_a_test =
            [("crates/a/src/a.rs", "pub struct Sample;"), ("crates/b/tests/b.rs", "pub struct Sample;")];
        assert_eq!(findings(unique_names, &in_a_test), [""; 0]);
    }
}
