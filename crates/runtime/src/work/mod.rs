//! Work runs (agent-run): an agent changes a workspace under hard bounds and either succeeds whole or leaves no trace.

pub mod receipt;
