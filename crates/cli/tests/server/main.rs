//! The server as its clients meet it: the program runs, and requests go over its socket.

#![cfg(test)]

#[path = "../../../ledger/tests/server/mod.rs"]
mod postgresql;
#[path = "../scratch/mod.rs"]
mod scratch;

mod accepted;
mod approvals;
mod asked;
mod asked_work;
#[path = "../../../verify/tests/approvals/authenticator.rs"]
#[allow(dead_code, reason = "the tests of the checks use the rest")]
mod authenticator;
mod builder;
mod client;
mod cuts;
mod described;
mod entries;
mod events;
mod events_resumed;
mod exporting;
mod gate;
mod hostile;
mod keys;
mod load;
mod lying;
mod managed;
mod metrics;
mod passkeys;
mod receiver;
mod running;
mod several;
mod starting;
mod tls;
mod webhooks;
mod work;
#[path = "../work/world.rs"]
#[allow(dead_code, reason = "the tests of work runs use the rest")]
mod world;
