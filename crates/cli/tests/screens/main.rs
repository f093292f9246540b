//! What people see on a terminal: each command's output at 80 columns, and some at 60 and 120, kept as an inline snapshot, so that a change of words
//! or layout is a reviewed diff. `UPDATE_EXPECT=1 cargo test -p crealeph-cli --test screens` rewrites the snapshots.

#![cfg(test)]

mod decisions;
mod errors;
mod help;
mod ledger;
mod outputs;
mod story;
mod widths;
mod work;
