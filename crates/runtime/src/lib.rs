//! Carries out what was decided: calls agents across their boundary and writes the result. It reads the clock; it
//! decides nothing, prints nothing and parses no arguments.

pub mod access;
mod account;
pub mod agents;
pub mod approvals;
pub mod backtest;
mod bounded_read;
pub mod builder;
pub mod client;
pub mod configuration;
pub mod entries;
mod grants;
pub mod known_logs;
pub mod receipts;
pub mod remedies;
pub mod report;
pub mod review;
pub mod robot;
pub mod robot_report;
pub mod shared;
pub mod snapshot_report;
pub mod trust;
pub mod usage;
pub mod validation;
pub mod webhook;
pub mod work;
