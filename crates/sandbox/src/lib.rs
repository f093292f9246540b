//! Linux isolation for agents: a command gets what it is granted, and nothing else. Owns namespaces, the
//! root file system a command sees, seccomp, Landlock, limits, the egress proxy and copy-on-write views.
//! Refuses to run at less than full strength unless that was explicitly accepted.
//!
//! [`Sandbox::run`] blocks and is cancelled from another thread through [`Cancel`]. When it returns, every
//! process of the tree is dead. Every binary that uses the crate calls [`helper_main_if_requested`] first
//! in `main`.

mod cancel;
mod capture;
mod cgroup;
mod error;
mod features;
mod jailer;
mod network;
mod outcome;
mod preset;
mod redact;
mod run;
mod sandbox;
mod settings;
mod spec;
mod starter;
mod state;
mod stdin;
mod sys;
mod tree;
mod view;
mod wire;

pub use cancel::Cancel;
pub use error::SandboxError;
pub use features::Feature;
pub use jailer::helper_main_if_requested;
pub use network::{ConnectionVerdict, Host, HostError, ProxiedConnection, is_public_address, try_hosts};
pub use outcome::{Captured, Cut, Exit, Layer, Level, Missing, RunFailure, SandboxOutcome, Strength, Usage};
pub use preset::{Preset, Toolchain, find_toolchains};
pub use redact::{REDACTED, RedactedStream, Redactor, Search};
pub use sandbox::{Cgroups, Config, Output, Sandbox, Stream};
pub use spec::{
    Exposure, GrantedPath, Grants, HOME, Mount, Network, ResourceLimits, SECRETS, Secret, Seed, Spec, Stdin,
    TRACE_CHANNEL,
};
pub use state::Swept;
pub use view::{View, ViewChange, ViewChangeKind, ViewEntry, ViewMode};
