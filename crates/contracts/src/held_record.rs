//! The record of a run whose change is held, until it lands or is rejected: `held.json` in the run's folder. Owns its
//! fields; its receipt is not yet part of the chain.

use crate::attestation::{Admission, SandboxFacts, StatedBounds};
use crate::contract::{read_own, to_json};
use crate::provenance::{HiddenFacts, RunOrigin};
use crate::receipt::Receipt;
use crate::scalar::{Amount, Count, RobotId};
use crate::shape::object;
use crate::violation::Violation;

object! {
    /// A run whose change is held.
    HeldRecord / HeldRecordParts ["held", "R4"] {
        /// The agent's name in the configuration.
        agent: Box<str> = "agent",
        /// Only in records of older versions, and read by none.
        command: Option<Box<str>> = "command",
        /// The robot that the run is bound to, if it is to one.
        robot: Option<RobotId> = "robot",
        /// The receipt as it would be if the change landed at once.
        receipt: Receipt = "receipt",
        /// Its program and who started it; absent in records of older versions.
        origin: Option<RunOrigin> = "origin",
        /// What was hidden from it; absent in records of older versions.
        hidden: Option<HiddenFacts> = "hidden",
        /// What held the agent.
        sandbox: Option<SandboxFacts> = "sandbox",
        /// How much the run was allowed; absent in records of older versions.
        bounds: Option<StatedBounds> = "bounds",
        /// What admission said.
        admission: Option<Admission> = "admission",
        /// How long the run took, in milliseconds.
        execution_ms: Amount = "executionMs",
        /// How many tool operations were reported.
        tool_ops: Count = "toolOps",
        /// How many deltas are of class O, also of those that are not listed.
        deltas_o: Count = "deltasO",
        /// How many are of class Π.
        deltas_pi: Count = "deltasPi",
        /// How many are of class Λ.
        deltas_lambda: Count = "deltasLambda",
        /// How many are of class Q.
        deltas_q: Count = "deltasQ",
        /// How many tests passed, if the runner said so.
        tests_passed: Option<Count> = "testsPassed",
        /// How many failed.
        tests_failed: Option<Count> = "testsFailed",
    }
}

impl HeldRecord {
    /// The record as JSON text.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Reads a record, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, usize::MAX, "held")
    }
}
