//! Work items (agent-run): in which order they run, what a run may leave, how parallel changes
//! combine, and how a run has ended.

mod admission;
mod changes;
mod default_paths;
mod ending;
mod exceeded;
mod not_started;
mod paths;
mod plan;
mod policy;
mod protected;
mod tasks;

pub use admission::{DeltaCounts, Denial, JudgedChange, admit, run_hash};
pub use changes::{
    ChangeConflict, OutputOverlap, PathEdit, base_conflict, combined, level_conflict, moved, output_overlap,
    own_edits,
};
pub use default_paths::{PROTECTED_INVARIANTS, PROTECTED_LAWS, ProtectedRow};
pub use ending::{AgentEnd, Ending, ProcessEnd, agent_ending, test_ending, timeout_of};
pub use exceeded::{ExceededLimit, ReportLimits, RunLimit};
pub use not_started::{NotStarted, not_started};
pub use paths::{ClassLimits, DeltaClass, PathRules, PathRulesError, PathRulesSource, led_to};
pub use plan::{Blocked, Dependent, Plan, PlanError, plan};
pub use policy::{NotAllowed, WORK_RUN, may_run};
pub use protected::ProtectedPaths;
pub use tasks::{BuilderTask, TaskError, items_of_tasks};
