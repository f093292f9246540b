//! Rules about files: how they open, how long they are, their names, and paths that no file may contain.

use super::Violation;
use super::repository::Repository;

const PRODUCT_LINES: usize = 800;
const TEST_LINES: usize = 900;

/// Names that say nothing about the content.
const EMPTY_NAMES: &[&str] = &["core", "common", "util", "utils", "helper", "helpers", "manager", "managers"];

/// Top folders of single machines; a file that names one works nowhere else.
const MACHINE_FOLDERS: &[&str] = &["work", "root", "farm"];

pub(super) fn opens_with_documentation(repository: &Repository<'_>) -> Vec<Violation> {
    let silent = repository.rust.iter().filter(|file| !file.text.starts_with("//!"));
    let what =
        "the file does not open with `//!`; say first what it owns, what it refuses and what always holds";
    silent.map(|file| Violation::new(file.path, 1, what)).collect()
}

pub(super) fn length(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &repository.rust {
        let (kind, lines, most) = if file.is_test() {
            ("test", file.text.lines().count(), TEST_LINES)
        } else {
            ("product", file.product_lines(), PRODUCT_LINES)
        };
        if lines > most {
            let what = format!(
                "{lines} lines of {kind} code, {most} is the most; split the file by meaning, not by size"
            );
            violations.push(Violation::new(file.path, most + 1, what));
        }
    }
    violations
}

pub(super) fn names(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for path in &repository.paths {
        let stems = path.split('/').map(|part| part.split_once('.').map_or(part, |(stem, _)| stem));
        for stem in stems.filter(|stem| is_empty_name(stem)) {
            violations.push(Violation::new(
                path,
                1,
                format!("`{stem}` says nothing; name it after what it owns"),
            ));
        }
    }
    for manifest in &repository.manifests {
        let name = manifest.package_name();
        if name.split(['-', '_']).any(is_empty_name) {
            let what = format!("crate name `{name}` says nothing; name it after what it owns");
            violations.push(Violation::new(manifest.path, manifest.line_of("name"), what));
        }
    }
    violations
}

fn is_empty_name(word: &str) -> bool {
    EMPTY_NAMES.contains(&word.to_lowercase().as_str())
}

pub(super) fn machine_paths(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for folder in MACHINE_FOLDERS {
        let folder = format!("/{folder}/");
        for file in repository.texts.iter().filter(|file| file.text.contains(&folder)) {
            let lines = (1..).zip(file.text.lines()).filter(|(_, line)| names_folder(line, &folder));
            violations.extend(lines.map(|(number, _)| {
                let what = format!("`{folder}` is a path of one machine; use a path relative to the project");
                Violation::new(file.path, number, what)
            }));
        }
    }
    violations
}

/// Whether the line contains `folder` as the start of an absolute path, not inside a longer one.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./*~}])>".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{findings, fires, silent};
    use super::*;

    #[test]
    fn a_file_opens_with_documentation() {
        fires(
            opens_with_documentation,
            "a.rs",
            1,
            &["", "\n//! Late.\n", "// Not doc.\n", "use a;\n//! Late.\n"],
        );
        silent(opens_with_documentation, "a.rs", &["//! Owns a thing.\n"]);
        silent(opens_with_documentation, "a.txt", &["no Rust"]);
    }

    #[test]
    fn product_code_has_its_length() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "//\n".repeat(500));
        let longest = "//\n".repeat(PRODUCT_LINES);
        silent(length, "src/a.rs", &[&longest, &format!("{longest}{tests}")]);
        let long = format!("//\n{longest}");
        fires(length, "src/a.rs", PRODUCT_LINES + 1, &[&long, &format!("{long}{tests}")]);
    }

    #[test]
    fn test_files_have_theirs() {
        let longest = "//\n".repeat(TEST_LINES);
        for path in ["crates/a/tests/b.rs", "src/a/tests.rs"] {
            silent(length, path, &[&longest]);
            fires(length, path, TEST_LINES + 1, &[&format!("//\n{longest}")]);
        }
    }

    #[test]
    fn empty_names_are_refused_for_files_folders_and_crates() {
        for path in ["src/utils.rs", "core/a.rs", "tests/common/mod.rs", "docs/Helpers.md", "manager.tar.gz"]
        {
            assert_eq!(findings(names, &[(path, "")]).len(), 1, "{path}");
        }
        for path in ["src/score.rs", "src/commonly.rs", "src/package_manager.rs"] {
            assert_eq!(findings(names, &[(path, "")]), [""; 0], "{path}");
        }
        fires(
            names,
            "a/Cargo.toml",
            2,
            &["[package]\nname = \"crealeph-core\"\n", "[package]\nname = \"utils\"\n"],
        );
        silent(names, "a/Cargo.toml", &["[package]\nname = \"crealeph-contracts\"\n"]);
    }

    #[test]
    fn machine_paths_are_refused_in_any_text() {
        for folder in MACHINE_FOLDERS {
            let samples = [
                format!("\n/{folder}/x"),
                format!("\nsee `/{folder}/x`"),
                format!("\n\"/{folder}/\""),
                format!("\npath=/{folder}/x"),
            ];
            fires(machine_paths, "a.md", 2, &samples.each_ref().map(String::as_str));
            let samples =
                [format!("src/{folder}/x"), format!("../{folder}/x"), format!("{{base}}/{folder}/x")];
            silent(machine_paths, "a.md", &samples.each_ref().map(String::as_str));
        }
    }
}
