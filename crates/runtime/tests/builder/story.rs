//! The ways of one execution: from an empty ledger to a plan and back, repeats, retries, bad requests, cancellation.

use std::sync::atomic::Ordering;

use crealeph_contracts::BuilderResponse;
use crealeph_contracts::agent_input::ArtifactType;
use crealeph_contracts::builder::ErrorCode;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::scalar::{ExecutionId, RobotId};
use crealeph_decision::coherence::CoherenceRules;
use crealeph_decision::snapshot::{Snapshot, SnapshotType};
use crealeph_runtime::builder::BuildError;
use crealeph_sandbox::Cancel;

use crate::world::{ALL, Counting, Place, builder, request, tenant, world, world_with};

pub(crate) fn from_an_empty_ledger_to_coherent_and_back(place: &dyn Place) {
    let world = world(place);
    let empty = world.run(&request("e", "block", false, 1)).response;
    assert_eq!((empty.error, empty.coherence), (Some(ErrorCode::SnapshotEmpty), None));
    assert_eq!(world.left("e"), "");
    let (signal, fusion) = world.know(&["idea"]);
    let partial = world.run(&request("e-partial", "block", false, 1)).response;
    assert_eq!(partial.blocking_reason, Some(ErrorCode::CoherenceBlocked));
    for kind in ["copy", "playbook"] {
        world.append(kind, &[&signal, &fusion]);
    }
    assert_eq!(world.run(&request("e", "block", false, 1)).response.state, ExecutionState::Planned);
    let newer = world.append("signal", &[]);
    let stale = world.run(&request("e-stale", "block", false, 1)).response;
    assert_eq!(stale.blocking_reason, Some(ErrorCode::CoherenceBlocked));
    assert!(stale.coherence.unwrap().outdated.is_some());
    let fusion = world.append("fusion", &[&newer]);
    for kind in ALL {
        world.append(kind, &[&newer, &fusion]);
    }
    assert_eq!(world.run(&request("e-again", "block", false, 1)).response.state, ExecutionState::Planned);
    assert_eq!(world.calls(), 2);
    let repeated = world.run(&request("e", "block", false, 1)).response;
    assert!(
        repeated.idempotent && repeated.state == ExecutionState::Planned,
        "although the snapshot has moved"
    );
    assert_eq!(world.calls(), 2);
    for execution in ["e", "e-partial", "e-stale", "e-again"] {
        world.replays(execution);
    }
}

pub(crate) fn a_failed_execution_is_retried_with_a_greater_attempt(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    world.agent.failures_left.store(2, Ordering::SeqCst);
    let first = world.run(&request("e", "block", true, 1));
    assert_eq!(first.response.error, Some(ErrorCode::ModelOutputInvalid));
    assert_eq!(first.detail, "it ended with code 3");
    assert_eq!(world.run(&request("e", "block", true, 2)).response.state, ExecutionState::Failed);
    assert_eq!(world.run(&request("e", "block", true, 3)).response.state, ExecutionState::Succeeded);
    let left = world.left("e");
    for step in [
        "execution_event:running execution_event:failed",
        "execution_event:running execution_event:succeeded",
    ] {
        assert!(left.contains(step), "{left}");
    }
    for (attempt, state) in
        [(1, ExecutionState::Failed), (2, ExecutionState::Failed), (3, ExecutionState::Succeeded)]
    {
        let again = world.run(&request("e", "block", true, attempt)).response;
        assert!(again.idempotent && again.state == state, "attempt {attempt}");
    }
    for (request, words) in
        [(request("e", "block", true, 4), "has ended"), (request("e", "block", false, 3), "another request")]
    {
        let conflict = world.run(&request);
        assert_eq!(conflict.response.error, Some(ErrorCode::IdempotencyConflict));
        assert!(conflict.detail.contains(words), "{}", conflict.detail);
    }
    assert_eq!((world.calls(), world.left("e")), (3, left));
    world.replays("e");
}

pub(crate) fn a_retry_on_a_stale_snapshot_writes_nothing(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    world.agent.failures_left.store(1, Ordering::SeqCst);
    world.run(&request("e", "block", false, 1));
    world.append("signal", &[]);
    let left = world.left("e");
    let blocked = world.run(&request("e", "block", false, 2)).response;
    assert_eq!(
        (blocked.blocking_reason, blocked.state),
        (Some(ErrorCode::CoherenceBlocked), ExecutionState::Failed)
    );
    assert_eq!((world.left("e"), world.calls()), (left, 1));
}

pub(crate) fn bad_requests_say_what_is_wrong_and_leave_nothing(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let good = request("e", "block", false, 1);
    let cases = [
        ("{}".to_owned(), "`robotId` is missing"),
        (good.replace("\"a1\"", "\"a2\""), "there is no agent `a2`; name one of: `a1`"),
        (good.replace("\"attempt\":1", "\"attempt\":0"), "attempt"),
        (format!("{good}{good}"), "R3"),
    ];
    for (request, words) in cases {
        let answer = world.run(&request);
        assert_eq!(answer.response.error, Some(ErrorCode::InvalidRequest), "{request}");
        assert!(answer.detail.contains(words), "{}", answer.detail);
    }
    let own = ExecutionId::parse("e").unwrap();
    let cancel = Cancel::new().unwrap();
    let rerun = world.builder.run(&tenant(), good.as_bytes(), Some(&own), &cancel).unwrap();
    assert_eq!(rerun.response.error, Some(ErrorCode::InvalidRequest));
    assert_eq!((world.left("e").as_str(), world.calls()), ("", 0));
    let other = ExecutionId::parse("before").unwrap();
    world.builder.run(&tenant(), good.as_bytes(), Some(&other), &cancel).unwrap();
    let entries = world.of("e");
    let event = entries.iter().find(|entry| entry.content.is_event()).unwrap();
    assert_eq!(event.content.rerun_of.as_ref(), Some(&other));
    let made = world.run(&good.replace(",\"executionId\":\"e\"", "")).response.execution_id.unwrap();
    assert_eq!(crealeph_contracts::uuid::Uuid::parse(made.as_str()).unwrap().version(), 7);
}

pub(crate) fn a_cancelled_run_writes_nothing_and_may_run_again(place: &dyn Place) {
    let world = world_with(place, Counting { cancels: true, ..Counting::default() });
    world.know(&ALL);
    let text = request("e", "block", false, 1);
    let cancelled = world.builder.run(&tenant(), text.as_bytes(), None, &Cancel::new().unwrap());
    assert_eq!(cancelled, Err(BuildError::Cancelled));
    assert_eq!((world.left("e").as_str(), world.calls()), ("", 1));
    let again = builder(&world.ledger, &Counting::default());
    let answer = again.run(&tenant(), text.as_bytes(), None, &Cancel::new().unwrap()).unwrap();
    assert_eq!(answer.response.state, ExecutionState::Planned);
}

pub(crate) fn a_run_that_moved_the_snapshot_is_repeated_from_its_record(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let newest_copy = || {
        let rules = CoherenceRules::default();
        let robot = RobotId::parse("r").unwrap();
        let facts = world.ledger.facts(&tenant(), &robot, None, &rules).unwrap().unwrap();
        let snapshot = Snapshot::derive(facts, &rules).unwrap();
        (
            snapshot.facts.newest.get(SnapshotType::Copy).clone().unwrap().entry.id,
            snapshot.document().unwrap(),
        )
    };
    let before = newest_copy();
    let first = world.run(&request("e", "block", false, 1)).response;
    let copy = first.artifacts.as_slice().iter().find(|made| made.kind == ArtifactType::Copy).unwrap();
    let after = newest_copy();
    assert_eq!(after.0, copy.id, "what it made is what is known now");
    assert_ne!(before.1, after.1);
    let size = world.ledger.last_seq(&tenant()).unwrap();
    for _ in 0..3 {
        let again = world.run(&request("e", "block", false, 1)).response;
        assert_eq!(again, BuilderResponse { idempotent: true, ..first.clone() });
    }
    assert_eq!((world.calls(), world.ledger.last_seq(&tenant()).unwrap()), (1, size));
    world.replays("e");
}
