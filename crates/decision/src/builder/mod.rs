//! The decisions of a Builder run (builder-v1, R9–R15), each a value from values read before: what a request is
//! for ([`objective`]), whether it was answered already ([`lookup`]), whether the agent runs ([`decide`]), what is
//! written and answered ([`conclude`]), what a person's verdict on a draft adds ([`review`]), and whether a recorded
//! decision follows from what it names ([`replay`]). Nothing here reads a clock, a ledger or an agent.

pub mod conclude;
pub mod decide;
pub mod lookup;
pub mod objective;
pub mod record;
pub mod replay;
pub mod review;

#[cfg(test)]
mod samples;

pub use conclude::{AgentCall, Conclusion, Ended, TransactionLimits, conclude};
pub use decide::{Decided, Ready, Refused, Situation, decide};
pub use lookup::{Asked, Conflict, RecordedExecution, RequestVerdict, lookup};
pub use objective::Widened;
pub use record::{EXECUTION_RECORD, Record};
