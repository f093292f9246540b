//! What is shown of a document that was validated, the same by the command line's `--json` and by the server.

use crealeph_contracts::violation::Violation;
use crealeph_decision::judge::Judgement;
use serde::Serialize;

/// The answer on a document.
#[derive(Debug, Default, Serialize)]
pub struct ValidationReport<'j> {
    /// It keeps its contract.
    pub valid: bool,
    /// `idempotent` if it repeats what is recorded.
    pub outcome: Option<&'static str>,
    /// Everything that is wrong with it.
    pub violations: Vec<ViolationReport<'j>>,
    /// The ids of work items, level by level.
    pub levels: Option<Vec<Vec<&'j str>>>,
}

/// One thing that is wrong with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ViolationReport<'j> {
    /// Where: a JSON Pointer.
    pub pointer: &'j str,
    /// The clause it breaks.
    pub clause: &'static str,
    /// The stable code.
    pub code: &'j str,
    /// What is wrong and what to do.
    pub message: &'j str,
}

impl<'j> ViolationReport<'j> {
    /// Of a violation.
    pub fn of(violation: &'j Violation) -> Self {
        let Violation { pointer, clause, code, message, .. } = violation;
        ViolationReport { pointer, clause, code: code.as_str(), message }
    }
}

impl<'j> ValidationReport<'j> {
    /// Of a judgement.
    pub fn of(judgement: &'j Judgement) -> Self {
        let levels = judgement.plan.as_ref().map(|plan| {
            let levels = plan.levels.iter();
            levels.map(|level| level.iter().map(|id| id.as_str()).collect()).collect()
        });
        ValidationReport {
            valid: judgement.violations.is_empty(),
            outcome: judgement.is_repeat.then_some("idempotent"),
            violations: judgement.violations.iter().map(ViolationReport::of).collect(),
            levels,
        }
    }
}
