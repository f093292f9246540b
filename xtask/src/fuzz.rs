//! `cargo xtask fuzz`: runs the cargo-fuzz targets of `fuzz/`, each for a bounded time.
//!
//! `fuzz/seeds/TARGET` holds the committed starting inputs and is only read; new inputs of the fuzzer go to
//! `fuzz/corpus/TARGET`, which is not committed.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::manifest::declared_programs;
use crate::process;

const DEFAULT_SECONDS: u32 = 60;

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    // cargo-fuzz finds its targets by the `[[bin]]` tables.
    let targets = declared_programs(&root.join("fuzz/Cargo.toml"))?;
    let plan = plan(&targets, arguments)?;
    require_tools(root)?;
    for target in &plan.targets {
        eprintln!("\n=== {target} for {} s", plan.seconds);
        fuzz(root, target, plan.seconds)?;
    }
    eprintln!("\nfuzz: nothing found in {} s each: {}", plan.seconds, plan.targets.join(", "));
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Plan {
    targets: Vec<String>,
    seconds: u32,
}

/// `[TARGET] [SECONDS]`, or only one of them.
fn plan(known: &[String], arguments: &[String]) -> Outcome<Plan> {
    let is_number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
    let (target, seconds) = match arguments {
        [] => (None, None),
        [only] if is_number(only) => (None, Some(only)),
        [only] => (Some(only), None),
        [target, seconds] => (Some(target), Some(seconds)),
        _ => return Err(Failure::Usage("`cargo xtask fuzz` takes at most TARGET and SECONDS".to_owned())),
    };
    let seconds = match seconds {
        None => DEFAULT_SECONDS,
        Some(word) => word.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
            Failure::Usage(format!("`{word}` is not a number of seconds; write a whole number above 0"))
        })?,
    };
    let targets = match target {
        None => known.to_vec(),
        Some(target) if known.contains(target) => vec![target.clone()],
        Some(target) => {
            return Err(Failure::Usage(format!(
                "no fuzz target is called `{target}`; there are: {}",
                known.join(", ")
            )));
        }
    };
    Ok(Plan { targets, seconds })
}

fn require_tools(root: &Path) -> Outcome {
    if !process::succeeds(&mut process::cargo(root, &["+nightly", "--version"])) {
        return Err(Failure::Missing(
            "fuzzing needs a nightly toolchain; install it with:\n  rustup toolchain install nightly --profile minimal"
                .to_owned(),
        ));
    }
    if !process::succeeds(&mut process::cargo(root, &["+nightly", "fuzz", "--version"])) {
        return Err(Failure::Missing(
            "fuzzing needs cargo-fuzz; install it with:\n  cargo +nightly install cargo-fuzz --locked"
                .to_owned(),
        ));
    }
    Ok(())
}

fn fuzz(root: &Path, target: &str, seconds: u32) -> Outcome {
    let corpus = format!("fuzz/corpus/{target}");
    let seeds = format!("fuzz/seeds/{target}");
    let folder = root.join(&corpus);
    fs::create_dir_all(&folder).map_err(Failure::file("create", &folder))?;
    let mut command = process::cargo(root, &["+nightly", "fuzz", "run", target, &corpus]);
    if root.join(&seeds).is_dir() {
        command.arg(&seeds);
    }
    process::run(command.args(["--", &format!("-max_total_time={seconds}")]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn target_and_seconds_are_both_optional() {
        let known = words(&["parse", "validate"]);
        for (arguments, targets, seconds) in [
            (&[][..], &["parse", "validate"][..], 60),
            (&["5"], &["parse", "validate"], 5),
            (&["parse"], &["parse"], 60),
            (&["validate", "7"], &["validate"], 7),
        ] {
            let expected = Plan { targets: words(targets), seconds };
            assert_eq!(plan(&known, &words(arguments)).unwrap(), expected, "{arguments:?}");
        }
    }

    #[test]
    fn wrong_calls_are_usage_errors() {
        let known = words(&["parse"]);
        for arguments in [&["other"][..], &["parse", "soon"], &["0"], &["parse", "-1"], &["parse", "1", "2"]]
        {
            assert_eq!(plan(&known, &words(arguments)).unwrap_err().exit_code(), 2, "{arguments:?}");
        }
    }
}
