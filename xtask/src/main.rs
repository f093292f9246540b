//! The repository's own tasks, started with `cargo xtask TASK`.
//!
//! This file owns the list of tasks and nothing else: each task lives in a separate file and is a
//! function from the repository root and its arguments to success or a [`Failure`]. People read stderr,
//! programs read stdout. Exit codes: 0 done, 1 a check or a program failed, 2 the task was called wrongly.

mod bench;
mod failure;
mod fuzz;
mod generate;
mod manifest;
mod mutants;
mod packages;
mod pictures;
mod process;
mod recorded;
mod suite;
mod temporary;
mod tidy;
mod tools;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use failure::{Failure, Outcome};

struct Task {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&Path, &[String]) -> Outcome,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        arguments: "",
        about: "run everything a change has to pass, in order",
        run: suite::run,
    },
    Task {
        name: "tidy",
        arguments: "[--list]",
        about: "check the repository's own rules, or list them",
        run: tidy::run,
    },
    Task {
        name: "recorded",
        arguments: "[ARGUMENT…]",
        about: "run the tests, or `cargo test ARGUMENT…`, and fail if crealeph starts a program that is not documented",
        run: recorded::run,
    },
    Task {
        name: "generate",
        arguments: "[--check]",
        about: "rewrite the committed generated files, or say which are out of date",
        run: generate::run,
    },
    Task {
        name: "pictures",
        arguments: "",
        about: "update the pictures of the console in docs/images, taken by its browser tests",
        run: pictures::run,
    },
    Task {
        name: "tools",
        arguments: "",
        about: "fetch what the tests need from PyPI and npm into target/tools",
        run: tools::run,
    },
    Task {
        name: "bench",
        arguments: "NAME [ARGUMENT…]",
        about: "build and run one benchmark of bench/",
        run: bench::run,
    },
    Task {
        name: "fuzz",
        arguments: "[TARGET] [SECONDS]",
        about: "run one fuzz target, or all, for SECONDS each (60)",
        run: fuzz::run,
    },
    Task {
        name: "mutants",
        arguments: "CRATE [--sample N]",
        about: "change the crate's code, or N places in it, and count what its tests notice",
        run: mutants::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn dispatch(arguments: &[String]) -> Outcome {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", help());
        return Ok(());
    };
    let asks_for_help = |word: &String| matches!(word.as_str(), "--help" | "-h");
    if asks_for_help(name) || name == "help" {
        print!("{}", help());
        return Ok(());
    }
    let task = TASKS.iter().find(|task| task.name == name).ok_or_else(|| {
        Failure::Usage(format!("no task is called `{name}`; `cargo xtask --help` lists the tasks"))
    })?;
    // Arguments after a benchmark's name belong to the benchmark, including its `--help`.
    if rest.first().is_some_and(asks_for_help) {
        println!("{}", usage(task));
        return Ok(());
    }
    (task.run)(&repository_root()?, rest)
}

fn help() -> String {
    let mut text = String::from("Tasks of this repository, each run as `cargo xtask TASK`:\n\n");
    for task in TASKS {
        let call = format!("{} {}", task.name, task.arguments);
        text.push_str(&format!("  {call:<26} {}\n", task.about));
    }
    text
}

fn usage(task: &Task) -> String {
    format!("cargo xtask {} {}\n\n{}", task.name, task.arguments, task.about)
}

/// The folder above this package: cargo names the package when it runs it, so a moved checkout is found too.
fn repository_root() -> Outcome<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).ok_or_else(|| {
        Failure::Usage("start the tasks with `cargo xtask`, not the program itself".to_owned())
    })?;
    package
        .parent()
        .map(Path::to_path_buf)
        .ok_or_else(|| Failure::Usage(format!("`{}` has no folder above it", package.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn help_names_every_task_on_a_line_of_its_own() {
        let help = help();
        for task in TASKS {
            let lines = help.lines().filter(|line| line.trim_start().starts_with(task.name)).count();
            assert_eq!(lines, 1, "task `{}`", task.name);
        }
    }

    #[test]
    fn no_task_and_help_succeed() {
        for call in [&[][..], &["--help"], &["-h"], &["help"], &["tidy", "--help"]] {
            assert!(dispatch(&words(call)).is_ok(), "{call:?}");
        }
    }

    #[test]
    fn an_unknown_task_is_a_usage_error_that_names_it() {
        let failure = dispatch(&words(&["tests"])).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("`tests`"), "{failure}");
    }
}
