//! The third act, for the console: a draft and a change await approval, and the page that shows them is served.

use super::decisions::REQUEST;
use super::stage::{Ending, Stage, done, refused};
use crate::failure::Failure;

/// In the folder of the decisions: a plan that is only a draft.
pub(super) fn draft(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.say("A plan is requested as a draft, so it awaits approval.")?;
    stage.file("draft.json", &REQUEST.replace("\"dryRun\": false", "\"dryRun\": true"))?;
    stage.run("crealeph build draft.json", &done("decision   allowed"))?;
    Ok(())
}

/// In the folder of the shop: runs that the ledger remembers, and a change that is held.
pub(super) fn change(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.say("From now on the shop's runs are recorded in the same ledger, and its next change is held.")?;
    let ledger = "--ledger ../decisions/.crealeph/ledger.db";
    stage.run("git checkout -q price.sh", &done(""))?;
    stage.run(
        &format!("crealeph work run --agent hasty 'Be cheaper' --test 'sh test.sh' {ledger}"),
        &refused("Tests failed"),
    )?;
    stage.run(
        &format!("crealeph work run --agent careful 'Give the discount' --test 'sh test.sh' --hold {ledger}"),
        &Ending { code: 3, ..done("held") },
    )?;
    Ok(())
}
