//! The decisions of CreAleph as pure functions: which evidence there is and whether it is coherent, what the policy
//! decides, what the gate lets through, which event may follow, what runs when and what a run may leave.
//!
//! Every decision is a value computed from values read before it. No clock, no I/O, no randomness, no
//! iteration over unordered maps: the same input gives the same bytes on any machine.

pub mod access;
pub mod approval;
pub mod builder;
pub mod coherence;
pub mod execution;
pub mod gate;
pub mod judge;
pub mod policy;
pub mod snapshot;
pub mod work;
