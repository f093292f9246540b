//! The gate (R13, builder-execution-v1 §5): from coherence, the client's policy for partial snapshots, dryRun and the
//! policy's decision to whether the agent runs, what it may leave and how the execution ends. Total: a combination
//! that the table does not have is refused.

use crealeph_contracts::agent_input::{Coherence, RunMode};
use crealeph_contracts::builder::{ErrorCode, OnPartial};
use crealeph_contracts::execution_event::ExecutionState;
pub use crealeph_contracts::execution_event::PARTIAL_REQUIRES_REVIEW;
use crealeph_contracts::policy_output::Decision;

/// The reason of an execution that the policy deferred.
pub const POLICY_DEFERRED: &str = "POLICY_DEFERRED";

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    /// `planned`.
    Planned,
    /// `succeeded`.
    Succeeded,
    /// `failed` with this error.
    Failed {
        /// The error.
        code: ErrorCode,
        /// Whether another attempt may help.
        retryable: bool,
    },
    /// `cancelled` for this reason.
    Cancelled {
        /// The reason.
        reason: &'static str,
    },
}

impl GateOutcome {
    /// The gate refused: nothing ran.
    pub const BLOCKED: GateOutcome =
        GateOutcome::Failed { code: ErrorCode::CoherenceBlocked, retryable: false };
    /// The agent ran, and its answer was invalid or missing.
    pub const BAD_ANSWER: GateOutcome =
        GateOutcome::Failed { code: ErrorCode::ModelOutputInvalid, retryable: true };
    /// The policy deferred it: nothing ran.
    pub const DEFERRED: GateOutcome = GateOutcome::Cancelled { reason: POLICY_DEFERRED };

    /// The state of the event that says so.
    pub fn state(self) -> ExecutionState {
        match self {
            GateOutcome::Planned => ExecutionState::Planned,
            GateOutcome::Succeeded => ExecutionState::Succeeded,
            GateOutcome::Failed { .. } => ExecutionState::Failed,
            GateOutcome::Cancelled { .. } => ExecutionState::Cancelled,
        }
    }
}

/// The state in which artifacts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactState {
    /// `draft`.
    Draft,
    /// `planned`.
    Planned,
}

/// The gate's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The agent runs.
    Run {
        /// How.
        mode: RunMode,
        /// The state in which its artifacts are written.
        artifacts: ArtifactState,
        /// How the execution ends if its answer is valid; otherwise [`GateOutcome::BAD_ANSWER`].
        outcome: GateOutcome,
    },
    /// The agent does not run.
    Refuse {
        /// How the execution ends.
        outcome: GateOutcome,
    },
}

/// Applies the gate.
pub fn gate(coherence: Coherence, on_partial: OnPartial, is_dry_run: bool, policy: Decision) -> Gate {
    let draft = |outcome| Gate::Run { mode: RunMode::DryRun, artifacts: ArtifactState::Draft, outcome };
    let blocked = Gate::Refuse { outcome: GateOutcome::BLOCKED };
    match (coherence, policy) {
        (Coherence::Stale, _) => blocked,
        (Coherence::Partial, Decision::Allow) => match (on_partial, is_dry_run) {
            (OnPartial::Block, _) => blocked,
            (OnPartial::DraftOnly, true) => draft(GateOutcome::Succeeded),
            (OnPartial::DraftOnly, false) => {
                draft(GateOutcome::Cancelled { reason: PARTIAL_REQUIRES_REVIEW })
            }
        },
        (Coherence::Partial, Decision::Block | Decision::Defer) => blocked,
        (Coherence::Coherent, Decision::Allow) if is_dry_run => draft(GateOutcome::Succeeded),
        (Coherence::Coherent, Decision::Allow) => Gate::Run {
            mode: RunMode::Execute,
            artifacts: ArtifactState::Planned,
            outcome: GateOutcome::Planned,
        },
        (Coherence::Coherent, Decision::Block | Decision::Defer) => {
            Gate::Refuse { outcome: GateOutcome::DEFERRED }
        }
    }
}

/// Every outcome that the table permits for an attempt, for any policy that keeps its contract.
pub fn permitted_outcomes(coherence: Coherence, on_partial: OnPartial, is_dry_run: bool) -> Vec<GateOutcome> {
    let policy: &[Decision] = match (coherence, on_partial) {
        (Coherence::Stale, _) => &[Decision::Block],
        (Coherence::Partial, OnPartial::Block) => &[Decision::Defer],
        (Coherence::Partial, OnPartial::DraftOnly) => &[Decision::Allow],
        (Coherence::Coherent, _) => &[Decision::Allow, Decision::Defer],
    };
    let mut outcomes = Vec::with_capacity(3);
    for &decision in policy {
        match gate(coherence, on_partial, is_dry_run, decision) {
            Gate::Run { outcome, .. } => outcomes.extend([outcome, GateOutcome::BAD_ANSWER]),
            Gate::Refuse { outcome } => outcomes.push(outcome),
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R13's table, row by row: coherence, on_partial, dryRun, policy → runs as, artifacts, terminal event.
    const TABLE: &str = "
        stale    any        any   BLOCK | -       -       failed COHERENCE_BLOCKED false
        partial  block      any   DEFER | -       -       failed COHERENCE_BLOCKED false
        partial  draft_only true  ALLOW | dry_run draft   succeeded
        partial  draft_only false ALLOW | dry_run draft   cancelled PARTIAL_REQUIRES_REVIEW
        coherent any        any   DEFER | -       -       cancelled POLICY_DEFERRED
        coherent any        true  ALLOW | dry_run draft   succeeded
        coherent any        false ALLOW | execute planned planned
    ";

    fn described(gate: Gate) -> String {
        let outcome = |outcome: GateOutcome| match outcome {
            GateOutcome::Planned | GateOutcome::Succeeded => outcome.state().to_string(),
            GateOutcome::Failed { code, retryable } => format!("failed {code} {retryable}"),
            GateOutcome::Cancelled { reason } => format!("cancelled {reason}"),
        };
        match gate {
            Gate::Refuse { outcome: end } => format!("- - {}", outcome(end)),
            Gate::Run { mode, artifacts, outcome: end } => {
                let artifacts = if artifacts == ArtifactState::Draft { "draft" } else { "planned" };
                format!("{mode} {artifacts} {}", outcome(end))
            }
        }
    }

    fn expected(
        coherence: Coherence,
        on_partial: OnPartial,
        is_dry_run: bool,
        policy: Decision,
    ) -> Option<String> {
        TABLE.lines().filter(|line| !line.trim().is_empty()).find_map(|line| {
            let (when, then) = line.split_once('|').unwrap();
            let when: Vec<&str> = when.split_whitespace().collect();
            let is_met = |cell: &str, value: &str| cell == "any" || cell == value;
            let is_row = is_met(when[0], coherence.as_str())
                && is_met(when[1], on_partial.as_str())
                && is_met(when[2], &is_dry_run.to_string())
                && is_met(when[3], policy.as_str());
            is_row.then(|| then.split_whitespace().collect::<Vec<_>>().join(" "))
        })
    }

    #[test]
    // holds: invariant 2
    fn every_combination_follows_the_table_and_the_rest_is_refused() {
        let mut rows = 0;
        for &coherence in Coherence::ALL {
            for &on_partial in OnPartial::ALL {
                for is_dry_run in [true, false] {
                    for &policy in Decision::ALL {
                        let answer = gate(coherence, on_partial, is_dry_run, policy);
                        match expected(coherence, on_partial, is_dry_run, policy) {
                            Some(row) => {
                                rows += 1;
                                assert_eq!(
                                    described(answer),
                                    row,
                                    "{coherence} {on_partial} {is_dry_run} {policy}"
                                );
                            }
                            None => assert!(
                                matches!(answer, Gate::Refuse { .. }),
                                "{coherence} {policy} was let through"
                            ),
                        }
                    }
                }
            }
        }
        assert_eq!(rows, 16, "the table covers that many of the 36 combinations");
    }

    #[test]
    fn a_run_may_always_end_in_a_bad_answer_and_a_refusal_never() {
        for &coherence in Coherence::ALL {
            for &on_partial in OnPartial::ALL {
                for is_dry_run in [true, false] {
                    let outcomes = permitted_outcomes(coherence, on_partial, is_dry_run);
                    let runs = coherence == Coherence::Coherent
                        || (coherence == Coherence::Partial && on_partial == OnPartial::DraftOnly);
                    assert_eq!(outcomes.contains(&GateOutcome::BAD_ANSWER), runs);
                    assert_eq!(outcomes.contains(&GateOutcome::BLOCKED), !runs);
                }
            }
        }
    }
}
