//! `cargo xtask mutants CRATE [--sample N]`: changes the crate's code in small ways, one at a time, and counts how many of the
//! changes the crate's own tests detect. Works on a copy, so that the checkout is not touched; reports go to `target/mutants`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::process;

/// How many of a hundred viable mutants the crate's own tests must detect.
const AIMS: &[(&str, u64)] =
    &[("contracts", 95), ("decision", 95), ("ledger", 85), ("verify", 95), ("workspace", 85)];
/// Compiling cargo-mutants takes a few minutes.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let plan = plan(arguments)?;
    require_tool(root)?;
    let package = format!("crealeph-{}", plan.name);
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let reports = target.join("mutants").join(plan.name);
    fs::create_dir_all(&reports).map_err(Failure::file("create", &reports))?;
    let mut command = process::cargo(root, &["mutants", "--package", &package, "--jobs", "1", "--output"]);
    command.arg(&reports);
    if let Some(sample) = plan.sample {
        let shards = shards(listed(root, &package)?, sample);
        command.args(["--sharding", "round-robin", "--shard", &format!("0/{shards}")]);
    }
    // Its exit code also says whether all were caught, which the outcomes say in detail.
    let ended = process::run(&mut command);
    let outcomes = reports.join("mutants.out/outcomes.json");
    let text = fs::read_to_string(&outcomes).map_err(|error| match ended {
        Err(failure) => failure,
        Ok(()) => Failure::file("read", &outcomes)(error),
    })?;
    let score = Score::read(&text).ok_or_else(|| {
        Failure::Check(format!("`{}` does not count the mutants; did the tests pass?", outcomes.display()))
    })?;
    score.judge(&plan, &reports.join("mutants.out/missed.txt"))
}

#[derive(Debug, PartialEq)]
struct Plan {
    name: &'static str,
    aim: u64,
    sample: Option<usize>,
}

fn plan(arguments: &[String]) -> Outcome<Plan> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (name, sample) = match words.as_slice() {
        [name] => (*name, None),
        [name, "--sample", count] => (*name, Some(*count)),
        _ => return Err(Failure::Usage("`cargo xtask mutants` takes CRATE and `--sample N`".to_owned())),
    };
    let Some((name, aim)) = AIMS.iter().find(|(known, _)| *known == name).copied() else {
        let names = AIMS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(Failure::Usage(format!("`{name}` is not a crate with a target; there are: {names}")));
    };
    let sample = sample.map(|count| {
        count.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
            Failure::Usage(format!("`{count}` is not a number of mutants; write a whole number above 0"))
        })
    });
    Ok(Plan { name, aim, sample: sample.transpose()? })
}

fn require_tool(root: &Path) -> Outcome {
    let version = || process::succeeds(&mut process::cargo(root, &["mutants", "--version"]));
    if version() {
        return Ok(());
    }
    eprintln!("installing cargo-mutants, which changes the code and runs the tests");
    let installed =
        process::run_within(&mut process::cargo(root, &["install", "--locked", "cargo-mutants"]), PATIENCE);
    match (installed, version()) {
        (Ok(()), true) => Ok(()),
        (installed, _) => {
            let why = installed.err().map_or_else(String::new, |failure| format!(" ({failure})"));
            Err(Failure::Missing(format!(
                "mutation tests need cargo-mutants, and it could not be installed{why}; install it with:\n  \
                 cargo install --locked cargo-mutants"
            )))
        }
    }
}

/// How many mutants the crate has.
fn listed(root: &Path, package: &str) -> Outcome<usize> {
    let mut command = process::cargo(root, &["mutants", "--list", "--package", package]);
    let list = process::capture(&mut command)?;
    Ok(list.iter().filter(|byte| **byte == b'\n').count())
}

/// How many parts to divide into, so that one of them is about the sample.
fn shards(mutants: usize, sample: usize) -> usize {
    mutants.div_ceil(sample).max(1)
}

#[derive(Debug, PartialEq)]
struct Score {
    caught: u64,
    missed: u64,
    timeout: u64,
    unviable: u64,
}

impl Score {
    fn read(outcomes: &str) -> Option<Score> {
        let outcomes: Value = serde_json::from_str(outcomes).ok()?;
        let count = |name: &str| outcomes.get(name)?.as_u64();
        Some(Score {
            caught: count("caught")?,
            missed: count("missed")?,
            timeout: count("timeout")?,
            unviable: count("unviable")?,
        })
    }

    /// A mutant that makes the tests run endlessly counts as detected too.
    fn judge(&self, plan: &Plan, missed: &Path) -> Outcome {
        let killed = self.caught + self.timeout;
        let viable = killed + self.missed;
        if viable == 0 {
            return Err(Failure::Check("no mutant could be tested".to_owned()));
        }
        let share = killed * 100 / viable;
        let Plan { name, aim, .. } = plan;
        println!(
            "{name}: {killed} of {viable} viable mutants killed ({share} %), {} do not compile",
            self.unviable
        );
        match share >= *aim {
            true => Ok(()),
            false => {
                let missed = missed.display();
                Err(Failure::Check(format!(
                    "the target is {aim} %; `{missed}` lists the mutants that survive"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_crate_and_a_sample_are_read() {
        let whole = plan(&words(&["verify"])).unwrap();
        assert_eq!(whole, Plan { name: "verify", aim: 95, sample: None });
        let part = plan(&words(&["ledger", "--sample", "40"])).unwrap();
        assert_eq!(part, Plan { name: "ledger", aim: 85, sample: Some(40) });
        for wrong in
            [&[][..], &["cli"], &["verify", "40"], &["verify", "--sample"], &["verify", "--sample", "0"]]
        {
            assert_eq!(plan(&words(wrong)).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
    }

    #[test]
    fn a_sample_is_at_most_what_was_asked_for() {
        assert_eq!((shards(100, 30), shards(90, 30), shards(10, 30), shards(0, 30)), (4, 3, 1, 1));
    }

    #[test]
    fn surviving_mutants_count_against_the_target_and_uncompilable_ones_do_not() {
        let text = r#"{"caught":94,"missed":5,"timeout":1,"unviable":40,"success":0,"total_mutants":140}"#;
        let score = Score::read(text).unwrap();
        assert_eq!(score, Score { caught: 94, missed: 5, timeout: 1, unviable: 40 });
        let judge = |aim| score.judge(&Plan { name: "verify", aim, sample: None }, Path::new("missed.txt"));
        assert!(judge(95).is_ok());
        assert!(judge(96).unwrap_err().to_string().contains("missed.txt"));
        assert_eq!(Score::read(r#"{"outcomes":[]}"#), None);
    }
}
