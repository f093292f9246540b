//! How a run that does not land has ended (R31): the contract's status, the reason in the record, and which of several
//! reasons counts. What the sandbox observed comes in as values.

use std::fmt;

use crealeph_contracts::run_result::RunStatus;

use super::exceeded::ExceededLimit;

const INTERRUPTED: &str = "the run was interrupted";
const TIMED_OUT: &str = "Timed out after ";

/// How a run ended that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A tool failed or a file is missing.
    Failed(String),
    /// Its tests did not pass; its change can be judged again (R34).
    TestsFailed(String),
    /// Something else changed the same paths.
    Conflict(String),
    /// A count, a path or a class exceeded its limit; its change can be judged again (R34).
    OverBound(String),
    /// Something that no other limit would allow.
    Denied(String),
    /// It would have left a secret; only its receipt is kept (R34).
    SecretFound(String),
    /// Its time ran out.
    TimedOut(String),
    /// It was interrupted; it may be run again.
    Interrupted,
}

impl Ending {
    /// A path of the change must not be changed, whatever its limits.
    pub fn denied_path(path: &dyn fmt::Display) -> Self {
        Ending::Denied(denied_path(path))
    }

    /// The sandbox ended it, or refused what it left.
    pub fn over_sandbox_limit(limit: &dyn fmt::Display) -> Self {
        Ending::Denied(format!("Exceeded a limit of the sandbox: {limit}"))
    }

    /// Something else changed what it was to land on.
    pub fn conflict(why: &dyn fmt::Display) -> Self {
        Ending::Conflict(format!("Conflict: {why}"))
    }

    /// Its time ran out; `details` follow the time limit.
    pub fn timed_out(timeout_ms: u64, details: &str) -> Self {
        Ending::TimedOut(format!("{TIMED_OUT}{timeout_ms} ms (`timeout_ms`){details}"))
    }

    /// The contract's status.
    pub fn status(&self) -> RunStatus {
        match self {
            Ending::Failed(_) | Ending::TestsFailed(_) | Ending::Conflict(_) | Ending::Interrupted => {
                RunStatus::Failure
            }
            Ending::OverBound(_) | Ending::Denied(_) | Ending::SecretFound(_) => RunStatus::Denied,
            Ending::TimedOut(_) => RunStatus::Timeout,
        }
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        match self {
            Ending::Failed(why)
            | Ending::TestsFailed(why)
            | Ending::Conflict(why)
            | Ending::OverBound(why)
            | Ending::Denied(why)
            | Ending::SecretFound(why)
            | Ending::TimedOut(why) => why,
            Ending::Interrupted => INTERRUPTED,
        }
    }

    /// The same ending with another reason.
    #[must_use]
    pub fn map_reason(self, rewrite: impl FnOnce(&str) -> String) -> Self {
        match self {
            Ending::Failed(why) => Ending::Failed(rewrite(&why)),
            Ending::TestsFailed(why) => Ending::TestsFailed(rewrite(&why)),
            Ending::Conflict(why) => Ending::Conflict(rewrite(&why)),
            Ending::OverBound(why) => Ending::OverBound(rewrite(&why)),
            Ending::Denied(why) => Ending::Denied(rewrite(&why)),
            Ending::SecretFound(why) => Ending::SecretFound(rewrite(&why)),
            Ending::TimedOut(why) => Ending::TimedOut(rewrite(&why)),
            Ending::Interrupted => Ending::Interrupted,
        }
    }

    /// The same for tests that were repeated because something was merged meanwhile.
    #[must_use]
    pub fn on_merged_state(self) -> Self {
        match self {
            Ending::TestsFailed(why) => Ending::TestsFailed(format!("{why} (on the merged state)")),
            other => other,
        }
    }

    /// Whether the change is kept, so that it can be judged again (R34).
    pub fn keeps_change(&self) -> bool {
        matches!(self, Ending::TestsFailed(_) | Ending::OverBound(_))
    }

    /// Which of two endings counts, the agent's own or that of reading its change: a secret, else the agent's own.
    #[must_use]
    pub fn deciding(agent: Ending, reading: Ending) -> Ending {
        match reading {
            Ending::SecretFound(_) => reading,
            _ => agent,
        }
    }
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It was killed with its sandbox.
    Killed,
    /// Its time was over.
    OutOfTime,
    /// It was cancelled.
    Cancelled,
    /// The sandbox ended it at this limit.
    OverLimit(String),
}

/// The known facts about the end of an agent.
#[derive(Clone, Debug)]
pub struct AgentEnd<'a> {
    /// How its process ended.
    pub process: ProcessEnd,
    /// The limit that it reported to have exceeded.
    pub exceeded: Option<ExceededLimit>,
    /// Whether the whole batch was interrupted.
    pub is_interrupted: bool,
    /// Its time limit.
    pub timeout_ms: u64,
    /// What prevented it from running, if that is known.
    pub cause: Option<&'a str>,
    /// The end of its standard error.
    pub stderr: &'a str,
}

/// How a run ends whose agent ended like this; `None` if the agent succeeded.
pub fn agent_ending(end: &AgentEnd<'_>) -> Option<Ending> {
    let quoted = match end.stderr {
        "" => String::new(),
        text => format!("; standard error ends with: {text}"),
    };
    if let Some(exceeded) = &end.exceeded {
        return Some(Ending::OverBound(exceeded.to_string()));
    }
    if end.is_interrupted {
        return Some(Ending::Interrupted);
    }
    Some(match &end.process {
        ProcessEnd::Exited(0) => return None,
        ProcessEnd::Exited(code) => {
            let cause = because(end.cause);
            Ending::Failed(format!("the agent ended with exit code {code}{cause}{quoted}"))
        }
        ProcessEnd::Signalled(signal) => {
            Ending::Failed(format!("the agent was ended by signal {signal}{quoted}"))
        }
        ProcessEnd::Killed => Ending::Failed(format!("the agent was killed{quoted}")),
        ProcessEnd::OutOfTime => Ending::timed_out(end.timeout_ms, &quoted),
        ProcessEnd::Cancelled => Ending::Interrupted,
        ProcessEnd::OverLimit(limit) => Ending::over_sandbox_limit(limit),
    })
}

/// The time limit of a recorded run that has exceeded it, in milliseconds, by its reason.
pub fn timeout_of(reason: &str) -> Option<u64> {
    let (timeout_ms, _) = reason.strip_prefix(TIMED_OUT)?.split_once(" ms (`timeout_ms`)")?;
    timeout_ms.parse().ok()
}

/// The contract's wording for a path that must not be changed (R25).
pub(super) fn denied_path(path: &dyn fmt::Display) -> String {
    format!("Denied path: {path}")
}

fn because(cause: Option<&str>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

/// How a run ends whose tests ended like this; `None` if they passed. `cause` is what prevented them from running, if it is known.
pub fn test_ending(command: &str, end: &ProcessEnd, timeout_ms: u64, cause: Option<&str>) -> Option<Ending> {
    let why = match end {
        ProcessEnd::Exited(0) => return None,
        ProcessEnd::Cancelled => return Some(Ending::Interrupted),
        ProcessEnd::Exited(code) => format!("`{command}` ended with exit code {code}{}", because(cause)),
        ProcessEnd::Signalled(signal) => format!("`{command}` was ended by signal {signal}"),
        ProcessEnd::Killed => format!("`{command}` was killed"),
        ProcessEnd::OutOfTime => {
            format!("`{command}` did not end within {timeout_ms} ms (`test_timeout_ms`)")
        }
        ProcessEnd::OverLimit(limit) => format!("`{command}` was stopped: {limit}"),
    };
    Some(Ending::TestsFailed(format!("Tests failed: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::RunLimit;

    #[test]
    fn the_time_limit_is_read_back_from_the_reason() {
        assert_eq!(timeout_of(Ending::timed_out(7, "; more").reason()), Some(7));
        for other in ["Timed out", "Timed out after x ms (`timeout_ms`)", "Exceeded max files: 2 > 1"] {
            assert_eq!(timeout_of(other), None, "{other}");
        }
    }

    fn shown(ending: Option<Ending>) -> String {
        ending.map_or_else(|| "success".to_owned(), |end| format!("{}: {}", end.status(), end.reason()))
    }

    #[test]
    fn a_change_is_kept_if_other_bounds_or_tests_could_let_it_land() {
        let why = String::new;
        for (ending, is_kept) in [
            (Ending::OverBound(why()), true),
            (Ending::TestsFailed(why()), true),
            (Ending::TestsFailed(why()).on_merged_state(), true),
            (Ending::Failed(why()), false),
            (Ending::Conflict(why()), false),
            (Ending::Denied(why()), false),
            (Ending::SecretFound(why()), false),
            (Ending::TimedOut(why()), false),
            (Ending::Interrupted, false),
        ] {
            assert_eq!(ending.keeps_change(), is_kept, "{ending:?}");
        }
    }

    #[test]
    fn every_outcome_of_an_agent_has_its_status_and_reason() {
        for (process, expected) in [
            (ProcessEnd::Exited(0), "success"),
            (
                ProcessEnd::Exited(3),
                "failure: the agent ended with exit code 3; standard error ends with: oh",
            ),
            (
                ProcessEnd::Signalled(9),
                "failure: the agent was ended by signal 9; standard error ends with: oh",
            ),
            (ProcessEnd::Killed, "failure: the agent was killed; standard error ends with: oh"),
            (
                ProcessEnd::OutOfTime,
                "timeout: Timed out after 7 ms (`timeout_ms`); standard error ends with: oh",
            ),
            (ProcessEnd::Cancelled, "failure: the run was interrupted"),
            (ProcessEnd::OverLimit("memory".to_owned()), "denied: Exceeded a limit of the sandbox: memory"),
        ] {
            let end = |exceeded, is_interrupted, stderr| AgentEnd {
                process: process.clone(),
                exceeded,
                is_interrupted,
                timeout_ms: 7,
                cause: None,
                stderr,
            };
            assert_eq!(shown(agent_ending(&end(None, false, "oh"))), expected);
            let quiet = expected.replace("; standard error ends with: oh", "");
            assert_eq!(shown(agent_ending(&end(None, false, ""))), quiet);
            assert_eq!(shown(agent_ending(&end(None, true, "oh"))), "failure: the run was interrupted");
            let exceeded = ExceededLimit::check(RunLimit::Tokens, 2.0, 1.0);
            let denied = "denied: Exceeded max tokens: 2 > 1";
            assert_eq!(shown(agent_ending(&end(exceeded, true, "oh"))), denied);
        }
    }

    #[test]
    fn every_outcome_of_tests_has_its_reason() {
        for (process, expected) in [
            (ProcessEnd::Exited(0), "success"),
            (ProcessEnd::Exited(1), "failure: Tests failed: `make` ended with exit code 1"),
            (ProcessEnd::Signalled(6), "failure: Tests failed: `make` was ended by signal 6"),
            (ProcessEnd::Killed, "failure: Tests failed: `make` was killed"),
            (
                ProcessEnd::OutOfTime,
                "failure: Tests failed: `make` did not end within 5 ms (`test_timeout_ms`)",
            ),
            (ProcessEnd::Cancelled, "failure: the run was interrupted"),
            (ProcessEnd::OverLimit("disk".to_owned()), "failure: Tests failed: `make` was stopped: disk"),
        ] {
            assert_eq!(shown(test_ending("make", &process, 5, None)), expected);
        }
        let caused = test_ending("make", &ProcessEnd::Exited(127), 5, Some("`make` was not found"));
        assert!(caused.unwrap().reason().ends_with("exit code 127: `make` was not found"));
        let merged = test_ending("make", &ProcessEnd::Exited(1), 5, None).unwrap().on_merged_state();
        assert!(merged.reason().ends_with("exit code 1 (on the merged state)"), "{merged:?}");
        assert_eq!(Ending::Interrupted.on_merged_state(), Ending::Interrupted);
    }

    #[test]
    fn a_found_secret_takes_precedence_over_the_agents_outcome() {
        let (failed, denied) = (Ending::Failed("a".to_owned()), Ending::Denied("r".to_owned()));
        let secret = Ending::SecretFound("s".to_owned());
        assert_eq!(Ending::deciding(failed.clone(), secret.clone()), secret);
        assert_eq!(Ending::deciding(failed.clone(), denied), failed);
        assert_eq!(secret.status(), RunStatus::Denied);
        assert_eq!(secret.map_reason(|why| format!("{why}!")).reason(), "s!");
    }
}
