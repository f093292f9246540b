//! The Builder end to end over a real ledger, with an agent that counts its calls: the gate row by row, the way from an
//! empty ledger, repeats, retries, cancellation, crowds and sudden deaths. Everything is held to on both backends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod crowd;
mod documents;
mod gate;
mod http_agent;
mod processes;
#[path = "../../../ledger/tests/server/mod.rs"]
mod server;
mod story;
mod time;
mod world;

use server::Server;
use world::{InFiles, Place};

/// One thing the Builder must do, whatever holds its ledger.
type Case = (&'static str, fn(&dyn Place));

const CASES: &[Case] = &[
    ("the gate row by row", gate::the_gate_row_by_row),
    ("from an empty ledger to coherent and back", story::from_an_empty_ledger_to_coherent_and_back),
    (
        "a run that moved the snapshot is repeated from its record",
        story::a_run_that_moved_the_snapshot_is_repeated_from_its_record,
    ),
    (
        "a failed execution is retried with a greater attempt",
        story::a_failed_execution_is_retried_with_a_greater_attempt,
    ),
    ("a retry on a stale snapshot writes nothing", story::a_retry_on_a_stale_snapshot_writes_nothing),
    (
        "bad requests say what is wrong and leave nothing",
        story::bad_requests_say_what_is_wrong_and_leave_nothing,
    ),
    (
        "a cancelled run writes nothing and may run again",
        story::a_cancelled_run_writes_nothing_and_may_run_again,
    ),
    ("history that arrives late makes nothing stale", time::history_that_arrives_late_makes_nothing_stale),
    (
        "a clock that was wrong once makes nothing fresh",
        time::a_clock_that_was_wrong_once_makes_nothing_fresh,
    ),
    (
        "a request as deep and as large as allowed is recorded whole",
        documents::a_request_as_deep_and_as_large_as_allowed_is_recorded_whole,
    ),
    (
        "an answer as large as allowed is written whole",
        documents::an_answer_as_large_as_allowed_is_written_whole,
    ),
    ("only what a record names is the Builder's", documents::only_what_a_record_names_is_the_builders),
    ("a record that was changed does not follow", documents::a_record_that_was_changed_does_not_follow),
    ("a hundred identical requests are one run", crowd::a_hundred_identical_requests_are_one_run),
    (
        "builders that share nothing but the ledger are joined",
        crowd::builders_that_share_nothing_but_the_ledger_are_joined,
    ),
    (
        "a hundred different requests are a hundred runs",
        crowd::a_hundred_different_requests_are_a_hundred_runs,
    ),
    ("two processes ask the same a hundred times", processes::two_processes_ask_the_same_a_hundred_times),
    ("two processes ask a hundred things", processes::two_processes_ask_a_hundred_things),
    ("a holder that died is replaced", processes::a_holder_that_died_is_replaced),
    (
        "a holder that overslept gives the winner's answer",
        processes::a_holder_that_overslept_gives_the_winners_answer,
    ),
    (
        "killed at any step it leaves a whole run or none",
        processes::killed_at_any_step_it_leaves_a_whole_run_or_none,
    ),
];

fn check(place: &dyn Place) {
    for (name, case) in CASES {
        eprintln!("builder: {name}");
        case(place);
    }
}

#[test]
fn on_sqlite() {
    check(&InFiles);
}

#[test]
fn on_postgresql() {
    check(&Server::start());
}
