//! AgentInput (agent-boundary-v1 §4): the frozen payload an agent works on, and the words it shares with the
//! other contracts.

use serde_json::{Value, json};

use crate::contract::{Contract, ContractName};
use crate::instant::Timestamp;
use crate::json::JsonObject;
use crate::scalar::{Attempt, ExecutionId, LedgerId, RobotId, TenantId, Version};
use crate::schema::{has, when};
use crate::shape::{Set, object, words};
use crate::violation::{Code, Report};

words! {
    /// The version of every contract here.
    ContractVersion {
        /// Version 1.
        V1 = "v1",
    }
}

words! {
    /// Whether what is known is consistent.
    Coherence {
        /// Everything is based on the newest evidence.
        Coherent = "coherent",
        /// Something is missing.
        Partial = "partial",
        /// Something is based on evidence that was replaced by newer evidence.
        Stale = "stale",
    }
}

words! {
    /// How an agent is to run.
    RunMode {
        /// Without effect beyond drafts.
        DryRun = "dry_run",
        /// For real.
        Execute = "execute",
    }
}

words! {
    /// What a run is to plan.
    ObjectiveType {
        /// A plan for a site.
        SitePlan = "site_plan",
        /// A plan for a landing page.
        LandingPlan = "landing_plan",
        /// A plan for paid media.
        PaidMediaPlan = "paid_media_plan",
        /// A cluster of search topics.
        SeoCluster = "seo_cluster",
        /// A plan for a campaign.
        CampaignPlan = "campaign_plan",
    }
}

words! {
    /// What the agent is asked to do about it.
    ObjectiveAction {
        /// Plan.
        Plan = "plan",
        /// Draft.
        Draft = "draft",
        /// Apply.
        Apply = "apply",
    }
}

words! {
    /// What an agent can make (builder-v1 §5).
    ArtifactType {
        /// An idea.
        Idea = "idea",
        /// A text.
        Copy = "copy",
        /// A playbook.
        Playbook = "playbook",
        /// A task.
        Task = "task",
        /// A plan for a site.
        SitePlan = "site_plan",
        /// A cluster of search topics.
        SeoCluster = "seo_cluster",
        /// A plan for paid media.
        PaidPlan = "paid_plan",
    }
}

object! {
    /// What the agent is to achieve.
    Objective / ObjectiveParts ["boundary/4", "R4"] {
        /// The kind of plan.
        kind: ObjectiveType = "type",
        /// What to do.
        action: ObjectiveAction = "action",
        /// Whatever describes it.
        payload: JsonObject = "payload",
    }
}

object! {
    /// The ledger entries that artifacts may depend on.
    AllowedLineage / AllowedLineageParts ["boundary/4", "R4"] {
        /// Their ids.
        depends_on: Set<LedgerId, 1> = "dependsOnLedgerIds",
    }
}

object! {
    /// What CreAleph gives an agent: frozen, read-only, complete.
    AgentInput / AgentInputParts ["boundary/4", "R4"] {
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The robot.
        robot_id: RobotId = "robotId",
        /// The execution.
        execution_id: ExecutionId = "executionId",
        /// Which try of it.
        attempt: Attempt = "attempt",
        /// The version of the workflow.
        workflow_version: Version = "workflowVersion",
        /// The version of the agent.
        agent_version: Version = "agentVersion",
        /// The version of this contract.
        boundary_contract_version: ContractVersion = "boundaryContractVersion",
        /// How to run.
        run_mode: RunMode = "runMode",
        /// When the snapshot was frozen.
        snapshot_at: Timestamp = "snapshotAt",
        /// Whether the snapshot is coherent.
        coherence_status: Coherence = "coherenceStatus",
        /// Whatever the client wants kept.
        constraints: JsonObject = "constraints",
        /// What to achieve.
        objective: Objective = "objective",
        /// What is known.
        intelligence_snapshot: JsonObject = "intelligenceSnapshot",
        /// What may be depended on.
        allowed_lineage: AllowedLineage = "allowedLineage",
        /// What may be made.
        allowed_artifact_types: Set<ArtifactType, 1> = "allowedArtifactTypes",
        /// The version of the output's schema.
        output_schema_version: Version = "outputSchemaVersion",
    }
}

impl Contract for AgentInput {
    const NAME: ContractName = ContractName::AgentInput;

    fn rules(parts: &AgentInputParts, report: &mut Report) {
        if is_stale_execute(parts) {
            report.add(
                "/runMode",
                "boundary/6",
                Code::CoherenceBlocked,
                "a stale snapshot must not be executed; refresh what is outdated, or send `dry_run`",
            );
        }
    }

    fn schema_rules() -> Vec<Value> {
        vec![when(
            has("coherenceStatus", json!({ "const": "stale" })),
            json!({ "properties": { "runMode": { "not": { "const": "execute" } } } }),
        )]
    }
}

/// An input that must be blocked: to be executed on a stale snapshot.
pub(crate) fn is_stale_execute(parts: &AgentInputParts) -> bool {
    parts.run_mode == Some(RunMode::Execute) && parts.coherence_status == Some(Coherence::Stale)
}
