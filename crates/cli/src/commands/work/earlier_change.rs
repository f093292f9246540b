//! What `crealeph work retry` and `crealeph work undo` have in common: a run that is named, and flags in place of what its item says.

use std::path::PathBuf;

use crealeph_contracts::WorkItem;
use crealeph_contracts::scalar::RobotId;
use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::work::{Destination, ItemOutcome, Work, WorkError};

use super::bounds_args::BoundsArgs;
use super::run::destination;
use super::workspace_args::WorkspaceArgs;
use crate::commands::policy::read_rules;
use crate::failure::Failure;

/// The flags that both have.
pub(super) struct EarlierChange<'f> {
    pub(super) run: &'f str,
    pub(super) test: Option<&'f str>,
    pub(super) publish: Option<&'f str>,
    pub(super) rules: Option<&'f PathBuf>,
    pub(super) bounds: &'f BoundsArgs,
    pub(super) workspace: &'f WorkspaceArgs,
}

impl EarlierChange<'_> {
    /// The workspace, the run in it, and where the change goes if a flag says so.
    pub(super) fn open(&self) -> Result<(Work, Uuid, Option<Destination>), Failure> {
        let destination = self.publish.map(destination).transpose()?;
        let run = super::named_run::open(self.workspace)?.find(Some(self.run)).map_err(WorkError::from)?.run;
        let sources: Vec<PathBuf> = self.rules.into_iter().cloned().collect();
        let mut work = self.workspace.open_with(&sources)?;
        work.limit_classes(&self.bounds.class_limits());
        Ok((work, run, destination))
    }

    /// The item with what the flags say, whose run the policy has allowed for the robot, if there is one.
    pub(super) fn allowed_item(
        &self,
        work: &mut Work,
        known: WorkItem,
        robot: Option<RobotId>,
    ) -> Result<WorkItem, Failure> {
        let item = WorkItem {
            constraints: Some(self.bounds.constraints(known.constraints.as_ref())?),
            test_command: self.test.map(Into::into).or_else(|| known.test_command.clone()),
            ..known
        };
        let rules = self.rules.cloned().map(|file| read_rules(Some(file)).map(|(source, _)| source));
        let scopes = Scopes::load(&self.workspace.configuration()?, rules.transpose()?)?;
        work.bind(std::slice::from_ref(&item), robot, &scopes)?;
        Ok(item)
    }
}

/// The outcome of one run as that of a batch.
pub(super) fn one(
    outcome: Result<ItemOutcome, WorkError>,
    report: &mut dyn FnMut(&ItemOutcome),
) -> Result<Vec<ItemOutcome>, WorkError> {
    let outcome = outcome?;
    report(&outcome);
    Ok(vec![outcome])
}
