//! Work items (agent-run): in which order they run, and what a run may leave behind.

mod admission;
mod default_paths;
mod paths;
mod plan;
mod policy;
mod protected;
mod tasks;

pub use admission::{Capsule, Deltas, Denial, admit, run_hash};
pub use default_paths::{PROTECTED_INVARIANTS, PROTECTED_LAWS, ProtectedRow};
pub use paths::{DeltaClass, PathRules, PathRulesError, PathRulesSource, led_to};
pub use plan::{Blocked, Dependent, Plan, PlanError, plan};
pub use policy::{NotAllowed, WORK_RUN, may_run};
pub use protected::Protected;
pub use tasks::{Task, TaskError, items_of_tasks};
