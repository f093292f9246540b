//! The five contracts of CreAleph as types, the strict parser every document goes through, and validators that
//! report every violation with its clause.
//!
//! A document is parsed once ([`json`]), read into parts with every problem reported ([`shape`]), judged by
//! the rules across its fields and, if there is one, its context; the result is a [`Valid`] value, and
//! nothing else can be one. No I/O, no clock, no randomness: the same bytes give the same verdict everywhere.

pub mod actor;
pub mod agent_input;
pub mod agent_output;
pub mod api_key;
pub mod approval;
pub mod attestation;
pub mod builder;
pub mod capsule_record;
pub mod contract;
pub mod digest;
pub mod entry;
pub mod execution_event;
pub mod execution_record;
pub mod held_change;
pub mod held_record;
pub mod instant;
pub mod json;
pub mod log_export;
pub mod log_rules;
pub mod passkey;
pub mod policy_input;
pub mod policy_output;
pub mod provenance;
pub mod receipt;
pub mod reported;
pub mod run_result;
pub mod scalar;
mod schema;
pub mod session;
pub mod shape;
pub mod short_id;
pub mod staleness;
pub mod text;
pub mod uuid;
pub mod violation;
pub mod webhook;
pub mod work_item;

pub use agent_input::AgentInput;
pub use agent_output::AgentOutput;
pub use builder::{BuilderRequest, BuilderResponse};
pub use contract::{Contract, ContractName, Valid};
pub use entry::Entry;
pub use execution_event::ExecutionEvent;
pub use instant::{Instant, Timestamp};
pub use policy_input::PolicyInput;
pub use policy_output::PolicyOutput;
pub use receipt::Receipt;
pub use run_result::RunResult;
pub use violation::{Code, Report, Violation, Violations};
pub use work_item::WorkItem;
