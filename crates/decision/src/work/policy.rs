//! Whether a work run that is bound to a robot may start (R32): the policy decides about `work.run`, from what the ledger
//! knows of the robot, before anything starts. A run without a robot needs no decision.

use crealeph_contracts::PolicyOutput;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::policy_output::Decision;
use crealeph_contracts::scalar::{ActionName, Literal, TenantId};

use crate::builder::decide::policy_question;
use crate::policy::{Rules, evaluate};
use crate::snapshot::Snapshot;

/// The requested action.
pub const WORK_RUN: Literal = Literal::new("work.run");

/// Why a run may not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAllowed(pub String);

/// Asks for `work.run`; `snapshot` is the robot's evidence, if any counts.
pub fn may_run(
    tenant: &TenantId,
    snapshot: Option<&Snapshot>,
    rules: &Rules,
    now: Instant,
) -> Result<PolicyOutput, NotAllowed> {
    let Some(snapshot) = snapshot else {
        return Err(NotAllowed(
            "SNAPSHOT_EMPTY: no entry of it counts; append a signal, fusion, idea, copy, benchmark or playbook"
                .to_owned(),
        ));
    };
    let object = snapshot.document().map_err(|error| NotAllowed(error.to_string()))?;
    let input = policy_question(tenant, snapshot, object, rules, Some(ActionName::from(WORK_RUN)), now);
    let output = evaluate(&input, rules);
    match output.decision {
        Decision::Allow => Ok(output),
        refused => {
            let reasons = output
                .reasons
                .as_slice()
                .iter()
                .map(|reason| format!("{}: {}", reason.rule_id.as_str(), reason.message.as_str()));
            Err(NotAllowed(format!("{refused} ({})", reasons.collect::<Vec<_>>().join("; "))))
        }
    }
}
