//! What follows from an objective's type alone (R15): the target, the action in event and policy, and the
//! artifacts that an agent may make. Configuration may add types of artifacts, but not remove any.

use std::collections::BTreeMap;

use crealeph_contracts::agent_input::{ArtifactType, ObjectiveType};
use crealeph_contracts::scalar::Literal;
use crealeph_contracts::shape::Set;

/// What the plan is for.
pub fn target(objective: ObjectiveType) -> Literal {
    const PAID_MEDIA: Literal = Literal::new("paid_media");
    const SITE_BUILDER: Literal = Literal::new("site_builder");
    const SEO: Literal = Literal::new("seo");
    match objective {
        ObjectiveType::CampaignPlan | ObjectiveType::PaidMediaPlan => PAID_MEDIA,
        ObjectiveType::LandingPlan | ObjectiveType::SitePlan => SITE_BUILDER,
        ObjectiveType::SeoCluster => SEO,
    }
}

/// Its name in event and policy: `plan_` and the type.
pub fn action(objective: ObjectiveType) -> Literal {
    const CAMPAIGN: Literal = Literal::new("plan_campaign_plan");
    const PAID_MEDIA: Literal = Literal::new("plan_paid_media_plan");
    const LANDING: Literal = Literal::new("plan_landing_plan");
    const SITE: Literal = Literal::new("plan_site_plan");
    const SEO: Literal = Literal::new("plan_seo_cluster");
    match objective {
        ObjectiveType::CampaignPlan => CAMPAIGN,
        ObjectiveType::PaidMediaPlan => PAID_MEDIA,
        ObjectiveType::LandingPlan => LANDING,
        ObjectiveType::SitePlan => SITE,
        ObjectiveType::SeoCluster => SEO,
    }
}

/// The artifacts an agent may make for it, unless configuration adds some.
fn default_artifact_types(objective: ObjectiveType) -> &'static [ArtifactType] {
    use ArtifactType::{Copy, Idea, PaidPlan, Playbook, SeoCluster, SitePlan, Task};
    match objective {
        ObjectiveType::CampaignPlan => &[PaidPlan, Copy, Playbook, Idea, Task],
        ObjectiveType::PaidMediaPlan => &[PaidPlan, Copy, Task],
        ObjectiveType::LandingPlan => &[SitePlan, Copy, Task],
        ObjectiveType::SitePlan => &[SitePlan, Task],
        ObjectiveType::SeoCluster => &[SeoCluster, Copy, Task],
    }
}

/// Artifact types that configuration adds, by objective.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Widened(BTreeMap<ObjectiveType, Vec<ArtifactType>>);

impl Widened {
    /// Allows further types for an objective.
    pub fn add(&mut self, objective: ObjectiveType, types: impl IntoIterator<Item = ArtifactType>) {
        self.0.entry(objective).or_default().extend(types);
    }

    /// Everything an agent may make for an objective.
    pub fn artifact_types(&self, objective: ObjectiveType) -> Set<ArtifactType> {
        let added = self.0.get(&objective).into_iter().flatten();
        default_artifact_types(objective).iter().chain(added).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R15's table.
    const TABLE: &str = "
        campaign_plan   | paid_media   | paid_plan, copy, playbook, idea, task
        paid_media_plan | paid_media   | paid_plan, copy, task
        landing_plan    | site_builder | site_plan, copy, task
        site_plan       | site_builder | site_plan, task
        seo_cluster     | seo          | seo_cluster, copy, task
    ";

    #[test]
    fn every_objective_follows_the_table() {
        let rows: Vec<&str> = TABLE.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(rows.len(), ObjectiveType::ALL.len());
        for row in rows {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let objective = ObjectiveType::parse(cells[0]).unwrap();
            let types: Vec<&str> =
                default_artifact_types(objective).iter().map(|kind| kind.as_str()).collect();
            assert_eq!(target(objective).as_str(), cells[1], "{objective}");
            assert_eq!(action(objective).as_str(), format!("plan_{objective}"));
            assert_eq!(types.join(", "), cells[2], "{objective}");
        }
    }

    #[test]
    fn configuration_only_widens() {
        let mut widened = Widened::default();
        widened.add(ObjectiveType::SitePlan, [ArtifactType::Copy, ArtifactType::Task]);
        let types = widened.artifact_types(ObjectiveType::SitePlan);
        for kind in [ArtifactType::SitePlan, ArtifactType::Task, ArtifactType::Copy] {
            assert!(types.contains(&kind), "{kind}");
        }
        assert_eq!(types.as_slice().len(), 3);
        let others = widened.artifact_types(ObjectiveType::SeoCluster);
        assert_eq!(others.as_slice().len(), 3, "another objective is not touched");
    }
}
