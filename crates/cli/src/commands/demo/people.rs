//! The third act, for the console: a draft and a change await approval, and the page that shows them is served.

use super::bounds::configuration;
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
pub(super) fn change(stage: &mut Stage<'_>, accepts_reduced: bool) -> Result<(), Failure> {
    stage.say("From now on the shop's runs are recorded in the same ledger, and its next change is held.")?;
    let ledger = "[ledger]\nlocation = \"../decisions/.crealeph/ledger.db\"\n";
    stage.file("crealeph.toml", &[&configuration(accepts_reduced), ledger].concat())?;
    stage.run("git checkout -q price.sh", &done(""))?;
    for (agent, task, ending) in [
        ("wild", "Speed up CI", refused("Denied path")),
        ("hasty", "Be cheaper", refused("Tests failed")),
        ("careful --hold", "Give the discount", Ending { code: 3, ..done("held") }),
    ] {
        stage.run(&format!("crealeph work run --agent {agent} '{task}' --test 'sh test.sh'"), &ending)?;
    }
    Ok(())
}
