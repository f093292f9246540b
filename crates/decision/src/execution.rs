//! The life of an execution: which event may follow which (R9), and when an event is a repeat
//! (R10). One function answers both, because a repeat is never judged as a transition.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::execution_event::{ExecutionEvent, ExecutionState};
use crealeph_contracts::json::{ComposeError, JsonObject, Node, canonical};

/// What events are compared by: the place in the execution, and the digests of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventFingerprint {
    /// The attempt.
    pub attempt: u64,
    /// The state reached.
    pub state: ExecutionState,
    /// The payload's canonical bytes.
    pub payload: Blake3,
    /// The lineage's canonical bytes, ids as a set.
    pub lineage: Blake3,
}

impl EventFingerprint {
    /// The fingerprint of an event.
    ///
    /// # Errors
    /// If the event's text cannot be read back.
    pub fn of(event: &ExecutionEvent) -> Result<Self, ComposeError> {
        let (attempt, state) = (event.payload.attempt.get(), event.state);
        let document = JsonObject::of("the event", event)?;
        Ok(document.with(|event| Self::of_document(event, attempt, state)))
    }

    /// The fingerprint of an event's document, given the facts read from it.
    pub(crate) fn of_document(event: Node<'_>, attempt: u64, state: ExecutionState) -> Self {
        let (payload, lineage) = content(event);
        let (payload, lineage) = (Blake3::of(payload.as_bytes()), Blake3::of(lineage.as_bytes()));
        EventFingerprint { attempt, state, payload, lineage }
    }

    fn is_same_event(&self, other: &EventFingerprint) -> bool {
        self.attempt == other.attempt && self.state == other.state
    }
}

/// The canonical texts of payload and lineage; `createdAt` is not part of it (R10).
fn content(event: Node<'_>) -> (String, String) {
    let payload = event.member("payload").map(canonical).unwrap_or_default();
    let lineage = event.member("lineage");
    let ids = lineage.and_then(|lineage| lineage.member("dependsOnLedgerIds"));
    let mut ids: Vec<String> = ids.map(|ids| ids.elements().map(canonical).collect()).unwrap_or_default();
    ids.sort_unstable();
    ids.dedup();
    let rerun_of = lineage.and_then(|lineage| lineage.member("rerunOfExecutionId")).map(canonical);
    (payload, format!("[[{}],{}]", ids.join(","), rerun_of.as_deref().unwrap_or("null")))
}

/// What to do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventVerdict {
    /// It is new and may follow: write it.
    Append,
    /// It is already recorded, the same in payload and lineage: write nothing, return the first.
    Repeat,
}

/// Why an event must not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventRefusal {
    /// Already recorded with another content.
    #[error("an event of this attempt and state is recorded with another {differs}; use a new executionId")]
    Conflict {
        /// What differs.
        differs: Differs,
    },
    /// The execution has ended.
    #[error("the execution has ended in `{ended}`; use a new executionId")]
    Ended {
        /// How.
        ended: ExecutionState,
    },
    /// The state may not follow the last one.
    #[error("`{to}` may not follow `{from}`; only {} may", may_follow(*.from))]
    Transition {
        /// The last state.
        from: ExecutionState,
        /// The new state.
        to: ExecutionState,
    },
    /// The attempt is lower than the last one.
    #[error("attempt {attempt} is lower than the recorded {last}; an attempt never goes down")]
    AttemptLowered {
        /// The new attempt.
        attempt: u64,
        /// The last one.
        last: u64,
    },
    /// A retry with the attempt that failed.
    #[error("attempt {last} has failed; a retry needs a greater attempt")]
    AttemptNotRaised {
        /// The attempt that failed.
        last: u64,
    },
}

/// What differs between two events of one identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// What happened.
    Payload,
    /// Its lineage.
    Lineage,
    /// Both.
    Both,
}

impl std::fmt::Display for Differs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Differs::Payload => "payload",
            Differs::Lineage => "lineage",
            Differs::Both => "payload and lineage",
        })
    }
}

fn may_follow(state: ExecutionState) -> &'static str {
    match state {
        ExecutionState::Planned => "`running`",
        ExecutionState::Running => "`succeeded`, `failed` or `cancelled`",
        ExecutionState::Failed => "`planned` or `running` of a greater attempt",
        ExecutionState::Succeeded | ExecutionState::Cancelled => "nothing",
    }
}

/// Judges the next event of an execution. `recorded` is the event of the same attempt and state, if the ledger
/// holds one; `last` is the newest event of the execution, if there is any.
pub fn next_event(
    recorded: Option<&EventFingerprint>,
    last: Option<&EventFingerprint>,
    next: &EventFingerprint,
) -> Result<EventVerdict, EventRefusal> {
    if let Some(recorded) = recorded {
        let differs = match (recorded.payload != next.payload, recorded.lineage != next.lineage) {
            (false, false) => return Ok(EventVerdict::Repeat),
            (true, false) => Differs::Payload,
            (false, true) => Differs::Lineage,
            (true, true) => Differs::Both,
        };
        return Err(EventRefusal::Conflict { differs });
    }
    let Some(last) = last else { return Ok(EventVerdict::Append) };
    transition((last.state, last.attempt), (next.state, next.attempt)).map(|()| EventVerdict::Append)
}

/// Judges a step from one state and attempt to the next (R9).
pub fn transition(last: (ExecutionState, u64), next: (ExecutionState, u64)) -> Result<(), EventRefusal> {
    use ExecutionState::{Cancelled, Failed, Planned, Running, Succeeded};
    let (from, last_attempt) = last;
    let (to, attempt) = next;
    match (from, to) {
        (Succeeded | Cancelled, _) => return Err(EventRefusal::Ended { ended: from }),
        (Planned, Running) | (Running, Succeeded | Failed | Cancelled) | (Failed, Planned | Running) => {}
        _ => return Err(EventRefusal::Transition { from, to }),
    }
    if attempt < last_attempt {
        return Err(EventRefusal::AttemptLowered { attempt, last: last_attempt });
    }
    if from == Failed && attempt == last_attempt {
        return Err(EventRefusal::AttemptNotRaised { last: last_attempt });
    }
    Ok(())
}

/// The same question from a whole history, oldest first.
pub fn next_in_history(
    history: &[EventFingerprint],
    next: &EventFingerprint,
) -> Result<EventVerdict, EventRefusal> {
    let recorded = history.iter().find(|event| event.is_same_event(next));
    next_event(recorded, history.last(), next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ExecutionState::{Cancelled, Failed, Planned, Running, Succeeded};

    fn event(state: ExecutionState, attempt: u64, text: &str) -> EventFingerprint {
        let digest = Blake3::of(text.as_bytes());
        EventFingerprint { attempt, state, payload: digest, lineage: Blake3::of(b"lineage") }
    }

    /// Every pair of states, with a lower, an equal and a greater attempt, against the table of R9.
    #[test]
    fn the_state_machine_follows_the_contract() {
        let keeps_or_raises =
            [(Planned, Running), (Running, Succeeded), (Running, Failed), (Running, Cancelled)];
        let must_raise = [(Failed, Planned), (Failed, Running)];
        for &from in ExecutionState::ALL {
            for &to in ExecutionState::ALL {
                for attempt in [1, 2, 3] {
                    let expected = match attempt {
                        1 => false,
                        2 => keeps_or_raises.contains(&(from, to)),
                        _ => keeps_or_raises.contains(&(from, to)) || must_raise.contains(&(from, to)),
                    };
                    let step = transition((from, 2), (to, attempt));
                    assert_eq!(step.is_ok(), expected, "{from} 2 -> {to} {attempt}: {step:?}");
                }
            }
        }
    }

    #[test]
    fn the_first_event_may_be_in_any_state() {
        for &state in ExecutionState::ALL {
            assert_eq!(next_in_history(&[], &event(state, 7, "a")), Ok(EventVerdict::Append));
        }
    }

    #[test]
    fn a_repeat_is_idempotent_however_old_and_a_difference_is_a_conflict() {
        let history = [event(Planned, 1, "a"), event(Running, 1, "b"), event(Succeeded, 1, "c")];
        for recorded in &history {
            assert_eq!(next_in_history(&history, recorded), Ok(EventVerdict::Repeat));
        }
        let differs = Differs::Payload;
        assert_eq!(
            next_in_history(&history, &event(Planned, 1, "x")),
            Err(EventRefusal::Conflict { differs })
        );
        let other_lineage = EventFingerprint { lineage: Blake3::of(b""), ..history[1] };
        let differs = Differs::Lineage;
        assert_eq!(next_in_history(&history, &other_lineage), Err(EventRefusal::Conflict { differs }));
        let ended = Succeeded;
        assert_eq!(next_in_history(&history, &event(Running, 2, "b")), Err(EventRefusal::Ended { ended }));
    }
}
