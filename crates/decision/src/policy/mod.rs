//! Policy (policy-engine-v1, R21–R24): ALLOW, BLOCK or DEFER from a PolicyInput and [`Rules`] alone, with every
//! reason, and with what would turn a refusal into ALLOW. An error inside refuses; it never allows.

use crealeph_contracts::scalar::Literal;

mod confidence;
mod evaluate;
mod rules;
mod way;

pub use evaluate::{Standing, evaluate, standings};
pub use rules::{ActionSource, RuleExample, Rules, RulesError, RulesSource, ThresholdsSource};
pub use way::{NextStep, way_to_run};

/// The ids of the rules, in the order of evaluation (R22).
pub mod rule {
    use crealeph_contracts::scalar::Literal;

    /// The snapshot is stale.
    pub const STALE: Literal = Literal::new("coherence.stale");
    /// The snapshot is partial, and drafts are allowed.
    pub const DRAFT_ONLY: Literal = Literal::new("coherence.partial.draft_only");
    /// The snapshot is partial.
    pub const PARTIAL: Literal = Literal::new("coherence.partial");
    /// No action was requested.
    pub const ACTION_MISSING: Literal = Literal::new("action.missing");
    /// An action that no rule knows.
    pub const ACTION_UNKNOWN: Literal = Literal::new("action.unknown");
    /// A timestamp that the action needs is missing.
    pub const RECENCY_MISSING: Literal = Literal::new("recency.missing");
    /// It is too old.
    pub const RECENCY_STALE: Literal = Literal::new("recency.stale");
    /// It is in the future.
    pub const RECENCY_FUTURE: Literal = Literal::new("recency.future");
    /// The snapshot is based on too few entries.
    pub const LINEAGE_INSUFFICIENT: Literal = Literal::new("lineage.insufficient");
    /// The evidence as a whole is not fresh enough.
    pub const CONFIDENCE_INSUFFICIENT: Literal = Literal::new("confidence.insufficient");
    /// Nothing prevents it.
    pub const COHERENT: Literal = Literal::new("coherence.coherent");
    /// The engine itself could not decide.
    pub const ENGINE_ERROR: Literal = Literal::new("engine.error");

    /// All that can decide, in their order.
    pub const IN_ORDER: [Literal; 11] = [
        STALE,
        DRAFT_ONLY,
        PARTIAL,
        ACTION_MISSING,
        ACTION_UNKNOWN,
        RECENCY_MISSING,
        RECENCY_STALE,
        RECENCY_FUTURE,
        LINEAGE_INSUFFICIENT,
        CONFIDENCE_INSUFFICIENT,
        COHERENT,
    ];
}

/// The action that runs the Builder.
pub const BUILDER_RUN: Literal = Literal::new("builder.run");
