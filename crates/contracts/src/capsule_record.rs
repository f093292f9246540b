//! What is kept of a run that did not land, so that its change can be judged again (R34): the first line of `capsule.pack` in the run's
//! folder; the contents follow it. Owns its fields.

use crate::attestation::SandboxFacts;
use crate::contract::{read_own, to_json};
use crate::digest::{Blake3, GitHash};
use crate::provenance::AgentFacts;
use crate::receipt::{Connection, SandboxStrength, ToolCall};
use crate::scalar::{Amount, Count, RobotId, Text};
use crate::shape::{List, object, words};
use crate::uuid::Uuid;
use crate::violation::Violation;
use crate::work_item::{WorkItem, WorkspacePath};

words! {
    /// What a capsule says it is.
    CapsuleFormat {
        /// Version 1.
        V1 = "crealeph-capsule-v1",
    }
}

words! {
    /// What is at a path.
    CapsuleNodeKind {
        /// A file.
        File = "file",
        /// A file that can be executed.
        Executable = "exec",
        /// A symbolic link.
        Link = "link",
    }
}

object! {
    /// What was or is at a path.
    CapsuleNode / CapsuleNodeParts ["capsule", "R4"] {
        /// Its kind.
        kind: CapsuleNodeKind = "kind",
        /// The content of a file.
        digest: Option<Blake3> = "digest",
        /// The length of a file.
        size_bytes: Option<Count> = "sizeBytes",
        /// Where a link points, as it is written.
        target: Option<Box<str>> = "target",
    }
}

object! {
    /// One path of the change.
    CapsuleChange / CapsuleChangeParts ["capsule", "R4"] {
        /// Where.
        path: WorkspacePath = "path",
        /// What was there; absent if nothing.
        before: Option<CapsuleNode> = "before",
        /// What the run left; absent if nothing.
        after: Option<CapsuleNode> = "after",
    }
}

object! {
    /// The branch that the change was to go to.
    CapsuleBranch / CapsuleBranchParts ["capsule", "R4"] {
        /// Its name.
        name: Text = "name",
        /// The commit that it was at when the run's batch started.
        tip: GitHash = "tip",
        /// The git folder of its repository.
        repository: Option<Text> = "repository",
    }
}

object! {
    /// A run that did not land, with its change.
    CapsuleRecord / CapsuleRecordParts ["capsule", "R4"] {
        /// The format.
        format: CapsuleFormat = "format",
        /// The run.
        run: Uuid = "run",
        /// The agent's name in the configuration.
        agent: Box<str> = "agent",
        /// What is known of that agent; absent if no agent made the change.
        agent_facts: Option<AgentFacts> = "agentFacts",
        /// What was asked for, and within which bounds.
        work_item: WorkItem = "workItem",
        /// The robot that the run was bound to.
        robot: Option<RobotId> = "robot",
        /// Whether the change was to be held for a person.
        hold: bool = "hold",
        /// The branch that it was to go to; absent if it was the workspace.
        branch: Option<CapsuleBranch> = "branch",
        /// What the agent reported to have done.
        tool_trace: List<ToolCall> = "toolTrace",
        /// How many tool operations it reported, also of those that are not listed.
        tool_ops: Count = "toolOps",
        /// How many tokens it used, if known.
        tokens_used: Option<Amount> = "tokensUsed",
        /// What it cost in US dollars, if known.
        cost_usd: Option<Amount> = "costUsd",
        /// How strong its sandbox was.
        sandbox_strength: SandboxStrength = "sandboxStrength",
        /// What held it; absent if no agent was started.
        sandbox: Option<SandboxFacts> = "sandbox",
        /// The connections made and refused.
        connections: List<Connection> = "connections",
        /// How many more connections there were; absent if all are listed.
        connections_left_off: Option<Count> = "connectionsLeftOff",
        /// The change, sorted by path.
        changes: List<CapsuleChange> = "changes",
    }
}

impl CapsuleRecord {
    /// The record as one line of JSON.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Reads a record, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, usize::MAX, "capsule")
    }
}
