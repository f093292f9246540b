//! The built-in example agent: a pure function from input to output, for every objective type, so that everything runs
//! without any model. The same input gives the same output: it reads no clock, and its artifacts say `snapshotAt`.

use crealeph_contracts::Valid;
use crealeph_contracts::agent_input::{AgentInput, ArtifactType, Coherence, ObjectiveType, RunMode};
use crealeph_contracts::agent_output::{
    AgentArtifact, AgentError, AgentOutput, AgentStatus, ArtifactMetadata,
};
use crealeph_contracts::contract::to_json;
use crealeph_contracts::json::{JsonObject, PlainWriter};
use crealeph_contracts::scalar::{Amount, LedgerId, Text, Version};
use crealeph_contracts::shape::{List, Set};
use crealeph_sandbox::{Cancel, Redactor};

use super::answer::{judge, tokens_used};
use super::config::Bounds;
use super::{Agent, Call};

/// How many entries an artifact names as what it is based on, at most.
const MAX_LINEAGE: usize = 16;
/// How many names of a JSON object an artifact repeats, at most.
const MAX_NAMES: usize = 8;

/// The example agent, under a name.
#[derive(Debug)]
pub struct ExampleAgent {
    name: Version,
    bounds: Bounds,
}

impl ExampleAgent {
    pub(super) fn new(name: Version, bounds: Bounds) -> Self {
        ExampleAgent { name, bounds }
    }
}

impl Agent for ExampleAgent {
    fn call(&self, input: &Valid<AgentInput>, _: &Cancel) -> Call {
        let text = to_json(&answer(input));
        let max_bytes = usize::try_from(self.bounds.max_output_bytes).unwrap_or(usize::MAX);
        let answer = judge(text.as_bytes(), max_bytes, input, &Redactor::default());
        Call {
            tokens_used: answer.as_ref().ok().and_then(|output| tokens_used(output)),
            answer,
            identity: JsonObject::build(|object| {
                object.text("name", self.name.as_str()).text("kind", "example").text("sandbox", "built in");
            }),
            diagnostics: String::new(),
        }
    }
}

/// What the example agent answers: one artifact of every allowed type, based on allowed entries alone.
pub fn answer(input: &AgentInput) -> AgentOutput {
    if input.run_mode == RunMode::Execute && input.coherence_status == Coherence::Stale {
        return blocked(input);
    }
    let artifacts =
        input.allowed_artifact_types.as_slice().iter().filter_map(|kind| artifact(*kind, input)).collect();
    AgentOutput {
        ok: true,
        execution_id: input.execution_id.clone(),
        status: AgentStatus::Succeeded,
        artifacts: List::new(artifacts),
        error: None,
        diagnostics: Some(JsonObject::build(|object| {
            object.text("agent", "example").number("attempt", input.attempt.get() as f64);
        })),
    }
}

fn blocked(input: &AgentInput) -> AgentOutput {
    let said = (
        Text::new("STALE_SNAPSHOT"),
        Text::new("a stale snapshot is not executed; refresh what is outdated"),
    );
    let error = match said {
        (Some(code), Some(message)) => Some(AgentError { code, message, retryable: Some(false) }),
        _ => None,
    };
    AgentOutput {
        ok: false,
        execution_id: input.execution_id.clone(),
        status: AgentStatus::Blocked,
        artifacts: None,
        error,
        diagnostics: None,
    }
}

fn artifact(kind: ArtifactType, input: &AgentInput) -> Option<AgentArtifact> {
    let ids: Vec<LedgerId> =
        input.allowed_lineage.depends_on.as_slice().iter().take(MAX_LINEAGE).cloned().collect();
    Some(AgentArtifact {
        kind,
        payload: payload(kind, input),
        depends_on: Set::new(ids)?,
        metadata: ArtifactMetadata {
            generated_at: input.snapshot_at.clone(),
            model: Some("example".into()),
            tokens_used: Amount::new(0.0),
        },
    })
}

fn payload(kind: ArtifactType, input: &AgentInput) -> JsonObject {
    let subject = subject(input.objective.kind);
    JsonObject::build(|object| {
        object.text("title", &format!("{} for {subject}", noun(kind)));
        object
            .text("objective", input.objective.kind.as_str())
            .text("action", input.objective.action.as_str());
        object.text("coherence", input.coherence_status.as_str());
        object.texts("considered", names(&input.intelligence_snapshot));
        object.texts("constraints", names(&input.constraints));
        details(kind, subject, object);
    })
}

fn details(kind: ArtifactType, subject: &str, object: &mut PlainWriter<'_>) {
    match kind {
        ArtifactType::Idea => {
            object.text("summary", &format!("show what the newest signals say about {subject}"));
        }
        ArtifactType::Copy => {
            object.text("headline", &format!("What is new about {subject}"));
            object.text("body", "One sentence for each signal, in the order of their age.");
        }
        ArtifactType::Playbook => {
            object
                .texts("steps", ["collect the signals", "compare them with the plan", "decide what changes"]);
        }
        ArtifactType::Task => {
            object.text("description", &format!("review the plan for {subject} and write down what is open"));
            object.texts("input_files", NONE).texts("output_files", ["notes/review.md"]);
        }
        ArtifactType::SitePlan => {
            object.texts("pages", ["home", "offer", "contact"]);
        }
        ArtifactType::SeoCluster => {
            object.text("pillar", subject).texts("topics", ["questions", "comparisons", "prices"]);
        }
        ArtifactType::PaidPlan => {
            object.texts("channels", ["search", "social"]).number("budgetShareOfSearch", 0.6);
        }
    }
}

const NONE: [&str; 0] = [];

fn noun(kind: ArtifactType) -> &'static str {
    match kind {
        ArtifactType::Idea => "Idea",
        ArtifactType::Copy => "Copy",
        ArtifactType::Playbook => "Playbook",
        ArtifactType::Task => "Task",
        ArtifactType::SitePlan => "Site plan",
        ArtifactType::SeoCluster => "Topic cluster",
        ArtifactType::PaidPlan => "Paid media plan",
    }
}

fn subject(kind: ObjectiveType) -> &'static str {
    match kind {
        ObjectiveType::SitePlan => "the site",
        ObjectiveType::LandingPlan => "the landing page",
        ObjectiveType::PaidMediaPlan => "paid media",
        ObjectiveType::SeoCluster => "search",
        ObjectiveType::CampaignPlan => "the campaign",
    }
}

/// The first names in an object, in its own order.
fn names(object: &JsonObject) -> Vec<String> {
    object
        .with(|node| node.members().take(MAX_NAMES).map(|(name, _)| name.text_value().into_owned()).collect())
}
