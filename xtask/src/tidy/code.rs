//! Rules about all Rust code, including tests.

use std::collections::BTreeSet;

use super::Violation;
use super::repository::{Repository, file_name};
use super::rust_source::{self, RustFile};

/// The one folder whose crate may contain `unsafe`, because Linux isolation cannot be set up without it.
const UNSAFE_FOLDER: &str = "crates/sandbox/";

/// The files of the product that start programs. Each is a row of "Programs that CreAleph starts" in docs/threat-model.md, with
/// the reason why nothing that an agent wrote decides what runs.
const STARTS_PROGRAMS: &[&str] = &[
    "crates/cli/src/commands/demo/stage.rs",
    "crates/sandbox/src/jailer/confine.rs",
    "crates/sandbox/src/starter.rs",
];

pub(super) fn started_programs(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_judged = |path: &str| path.starts_with("crates/") && !STARTS_PROGRAMS.contains(&path);
    for file in repository.rust.iter().filter(|file| is_judged(file.path)) {
        let code = file.product_code();
        let imported = rust_source::imports(code)
            .into_iter()
            .filter(|import| matches!(import.path.as_str(), "std::process::Command" | "std::process::*"))
            .map(|import| import.line);
        let named = rust_source::lines(code, "process::Command").into_iter();
        let lines: BTreeSet<usize> = imported.chain(named).collect();
        let what = "programs are started only where docs/threat-model.md says; use a library, or add the file there and here";
        violations.extend(lines.into_iter().map(|line| Violation::new(file.path, line, what)));
    }
    violations
}

pub(super) fn glob_reexports(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &repository.rust {
        let globs = rust_source::imports(&file.code)
            .into_iter()
            .filter(|import| import.public && import.path.ends_with('*'));
        violations.extend(globs.map(|import| {
            let what = format!("`{}` re-exports whatever is there; name each item", import.path);
            Violation::new(file.path, import.line, what)
        }));
    }
    violations
}

pub(super) fn unfinished(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &repository.rust {
        for call in ["todo!", "unimplemented!"] {
            let what =
                format!("`{call}` is a crash waiting to be called; write the code or leave the path out");
            violations
                .extend(file.lines(call).into_iter().map(|line| Violation::new(file.path, line, &*what)));
        }
        for comment in &file.comments {
            violations.extend(marked(file.path, comment.line, comment.text));
        }
    }
    let is_hashed = |path: &str| {
        path.ends_with(".toml") || path.ends_with(".sh") || path.ends_with(".yml") || file_name(path) == "run"
    };
    for file in repository.texts.iter().filter(|file| is_hashed(file.path)) {
        violations.extend(marked(file.path, 1, file.text));
    }
    violations
}

/// Lines of a comment that say something was left undone.
fn marked(path: &str, first_line: usize, text: &str) -> Vec<Violation> {
    let marks = ["FIXME", "XXX"];
    let mut violations = Vec::new();
    for (number, line) in (first_line..).zip(text.lines()) {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        if let Some(mark) = words.find(|word| marks.contains(word)) {
            let what = format!("{mark} marks a known fault; fix it now or record it as an issue");
            violations.push(Violation::new(path, number, what));
        }
    }
    violations
}

pub(super) fn ignored_tests(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &repository.rust {
        let lines = file.lines("#[ignore").into_iter().chain(conditionally_ignored(file));
        let what = "an ignored test proves nothing; make it run everywhere or remove it";
        violations.extend(lines.map(|line| Violation::new(file.path, line, what)));
    }
    violations
}

/// Lines of `#[cfg_attr(…, ignore)]`.
fn conditionally_ignored(file: &RustFile<'_>) -> Vec<usize> {
    let mut lines = Vec::new();
    for start in file.positions("#[cfg_attr(") {
        let attribute = file.code.iter().skip(start).take_while(|token| token.text != "]");
        lines.extend(attribute.filter(|token| token.text == "ignore").map(|token| token.line).take(1));
    }
    lines
}

pub(super) fn unsafe_code(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.rust.iter().filter(|file| !file.path.starts_with(UNSAFE_FOLDER)) {
        let what =
            format!("`unsafe` belongs to {UNSAFE_FOLDER} alone; find a safe way or a crate that offers one");
        violations
            .extend(file.lines("unsafe").into_iter().map(|line| Violation::new(file.path, line, &*what)));
    }
    violations
}

/// All terminal output of the command goes through this file, which escapes it.
const OUTPUT_FILE: &str = "crates/cli/src/output.rs";
const COMMAND_FOLDER: &str = "crates/cli/src/";

pub(super) fn printing(repository: &Repository<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_bound = |path: &str| path.starts_with(COMMAND_FOLDER) && path != OUTPUT_FILE;
    for file in repository.rust.iter().filter(|file| is_bound(file.path)) {
        let macros = ["print!", "println!", "eprint!", "eprintln!", "dbg!"];
        let mut lines: Vec<usize> = macros.iter().flat_map(|call| file.lines(call)).collect();
        let mut before = "";
        for token in &file.code {
            // A method or a field of that name is something else.
            if matches!(token.text, "stdout" | "stderr") && before != "." {
                lines.push(token.line);
            }
            before = token.text;
        }
        let what = format!("prints past {OUTPUT_FILE}, which escapes foreign text; use `Output` or `note!`");
        violations.extend(lines.into_iter().map(|line| Violation::new(file.path, line, &*what)));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fires, silent};
    use super::*;

    #[test]
    fn glob_reexports_are_refused() {
        fires(
            glob_reexports,
            "a.rs",
            2,
            &[
                "\npub use a::*;",
                "\npub(crate) use a::b::*;",
                "\npub use a::{b, c::*};",
                "\npub use a :: * ;",
            ],
        );
        silent(
            glob_reexports,
            "a.rs",
            &["use a::*;", "pub use a::b;", "// pub use a::*;", "\"pub use a::*;\""],
        );
    }

    #[test]
    fn programs_are_started_in_few_places() {
        fires(
            started_programs,
            "crates/runtime/src/a.rs",
            2,
            &[
                "\nuse std::process::Command;",
                "\nuse std::process::{Child, Command};",
                "\nuse std::process::*;",
                "\nlet x = std::process::Command::new(\"git\");",
                "\nlet x = process::Command::new(\"git\");",
            ],
        );
        let harmless = ["use std::process::ExitCode;", "use clap::Command;", "// std::process::Command"];
        silent(started_programs, "crates/runtime/src/a.rs", &harmless);
        silent(started_programs, "crates/runtime/tests/a.rs", &["use std::process::Command;"]);
        silent(started_programs, "xtask/src/a.rs", &["use std::process::Command;"]);
        silent(started_programs, STARTS_PROGRAMS[0], &["use std::process::Command;"]);
    }

    #[test]
    fn unfinished_code_is_refused() {
        fires(
            unfinished,
            "a.rs",
            2,
            &["\ntodo!()", "\nunimplemented!(\"x\")", "\n// FIXME later", "\n/// XXX: odd", "/* a\nFIXME */"],
        );
        silent(unfinished, "a.rs", &["fn todo() {}", "\"todo!() FIXME\"", "// XXXL is a size"]);
        fires(unfinished, "Cargo.toml", 1, &["# FIXME\n"]);
        fires(unfinished, ".ci/run", 2, &["#!/bin/sh\n# XXX\n"]);
    }

    #[test]
    fn ignored_tests_are_refused() {
        fires(
            ignored_tests,
            "tests/a.rs",
            2,
            &[
                "\n#[ignore]\nfn a() {}",
                "\n#[ignore = \"slow\"]",
                "\n#[cfg_attr(miri, ignore)]",
                "\n# [ ignore ]",
            ],
        );
        silent(
            ignored_tests,
            "tests/a.rs",
            &["// #[ignore]", "#[cfg_attr(test, derive(Debug))] fn ignore() {}"],
        );
    }

    #[test]
    fn unsafe_code_has_one_home() {
        fires(
            unsafe_code,
            "crates/cli/src/a.rs",
            2,
            &["\nunsafe { f() }", "\n#[unsafe(no_mangle)]", "\nunsafe impl A {}"],
        );
        silent(unsafe_code, "crates/cli/src/a.rs", &["#![forbid(unsafe_code)]", "// unsafe", "\"unsafe\""]);
        silent(unsafe_code, "crates/sandbox/src/a.rs", &["unsafe { f() }"]);
    }

    #[test]
    fn printing_past_the_output_module_is_refused() {
        fires(
            printing,
            "crates/cli/src/commands/a.rs",
            2,
            &[
                "\nprintln!(\"x\");",
                "\neprint!(\"{x}\");",
                "\ndbg!(x);",
                "\nlet _ = write!(std::io::stderr(), \"x\");",
                "\nuse std::io::stdout as out;",
            ],
        );
        silent(
            printing,
            "crates/cli/src/commands/a.rs",
            &["passage.stdout(bytes);", "output.stdout", "note!(\"x\");", "// println!", "\"stderr()\""],
        );
        silent(printing, "crates/cli/src/output.rs", &["stderr();"]);
        silent(printing, "crates/cli/tests/a.rs", &["println!();"]);
    }
}
