//! `cargo xtask test`: everything a change has to pass, in order, stopping at the first failure.
//!
//! The order is cheapest first. Each step can be run alone, and a failure says how.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::{packages, process, recorded, tidy, tools};

struct Step {
    title: &'static str,
    work: Work,
}

enum Work {
    /// Another task of this program, called directly.
    Task {
        name: &'static str,
        arguments: &'static [&'static str],
        run: fn(&Path, &[String]) -> Outcome,
    },
    Cargo(&'static [&'static str]),
}

const STEPS: &[Step] = &[
    Step { title: "repository rules", work: Work::Task { name: "tidy", arguments: &[], run: tidy::run } },
    Step { title: "formatting", work: Work::Cargo(&["fmt", "--all", "--check"]) },
    Step {
        title: "lints",
        work: Work::Cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    },
    Step { title: "tests", work: Work::Task { name: "recorded", arguments: &[], run: recorded::run } },
];

const COST: &str =
    "about half an hour on two cores, a quarter of it for compiling the first time, and 5 GB of disk";

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::Usage(format!(
            "`cargo xtask test` takes no arguments, and `{unknown}` is one; for single tests use \
             `cargo test --workspace --locked {unknown}`"
        )));
    }
    let start = Instant::now();
    eprintln!("{}", plan(STEPS, packages::is_root()));
    packages::ensure(root)?;
    tools::ensure(root)?;
    run_steps(root, STEPS)?;
    eprintln!("\nall {} steps passed in {}", STEPS.len(), elapsed(start.elapsed()));
    Ok(())
}

fn plan(steps: &[Step], is_root: bool) -> String {
    let mut text = format!("{} steps, {COST}:", steps.len());
    for (number, step) in (1..).zip(steps) {
        text.push_str(&format!("\n  {number}. {}: {}", step.title, step.command()));
    }
    if !is_root {
        text.push_str(
            "\nstarted by an ordinary user: the half of the sandbox's tests that runs as root will fail",
        );
    }
    text
}

fn run_steps(root: &Path, steps: &[Step]) -> Outcome {
    let count = steps.len();
    for (number, step) in (1..).zip(steps) {
        eprintln!("\n=== {number}/{count} {}: {}", step.title, step.command());
        let start = Instant::now();
        let outcome = step.run(root);
        let took = elapsed(start.elapsed());
        outcome.map_err(|failure| {
            Failure::Check(format!(
                "step {number} of {count} ({}) failed after {took}: {failure}\nrun this step alone with:\n  {}",
                step.title,
                step.command()
            ))
        })?;
        eprintln!("--- {}: passed in {took}", step.title);
    }
    Ok(())
}

impl Step {
    fn run(&self, root: &Path) -> Outcome {
        match self.work {
            Work::Cargo(arguments) => process::run(&mut process::cargo(root, arguments)),
            Work::Task { arguments, run, .. } => {
                let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
                run(root, &arguments)
            }
        }
    }

    /// The command that runs the step alone.
    fn command(&self) -> String {
        let mut words = vec!["cargo"];
        match self.work {
            Work::Cargo(arguments) => words.extend(arguments),
            Work::Task { name, arguments, .. } => {
                words.extend(["xtask", name]);
                words.extend(arguments);
            }
        }
        words.join(" ")
    }
}

fn elapsed(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        return format!("{:.1} s", duration.as_secs_f64());
    }
    format!("{} min {} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(_: &Path, _: &[String]) -> Outcome {
        Ok(())
    }

    fn fails(_: &Path, _: &[String]) -> Outcome {
        Err(Failure::Check("two rules are broken".to_owned()))
    }

    fn must_not_run(_: &Path, _: &[String]) -> Outcome {
        panic!("a step after a failed one ran")
    }

    fn step(run: fn(&Path, &[String]) -> Outcome) -> Step {
        Step { title: "sample", work: Work::Task { name: "sample", arguments: &["--check"], run } }
    }

    #[test]
    fn the_first_failure_stops_and_says_how_to_run_the_step_alone() {
        let steps = [step(passes), step(fails), step(must_not_run)];
        let failure = run_steps(Path::new("/"), &steps).unwrap_err().to_string();
        assert!(failure.starts_with("step 2 of 3 (sample) failed after "), "{failure}");
        assert!(failure.contains("two rules are broken"), "{failure}");
        assert!(failure.ends_with("\n  cargo xtask sample --check"), "{failure}");
    }

    #[test]
    fn the_plan_names_every_step_and_its_command() {
        for is_root in [true, false] {
            let plan = plan(STEPS, is_root);
            for step in STEPS {
                assert!(plan.contains(step.title) && plan.contains(&step.command()), "{plan}");
            }
            assert_eq!(plan.contains("runs as root will fail"), !is_root, "{plan}");
        }
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(elapsed(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(elapsed(Duration::from_secs(125)), "2 min 5 s");
    }

    #[test]
    fn arguments_are_refused() {
        assert_eq!(run(Path::new("/"), &["gate".to_owned()]).unwrap_err().exit_code(), 2);
    }
}
