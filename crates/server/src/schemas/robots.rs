//! The schemas of answers about robots: the list, a status, a snapshot.

use crealeph_contracts::agent_input::Coherence;
use crealeph_contracts::shape::Shape as _;
use crealeph_decision::snapshot::SnapshotType;
use serde_json::{Value, json};

use super::{count, instant, list, nullable, object, reference, text};

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn coherence_word() -> Value {
    Coherence::schema()
}

fn evidence_word() -> Value {
    json!({ "enum": SnapshotType::ALL.map(SnapshotType::as_str) })
}

fn coherence() -> Value {
    object(
        &[
            ("status", coherence_word()),
            ("outdated", list(evidence_word())),
            ("partial", list(evidence_word())),
            ("reason", text()),
        ],
        &[],
    )
}

/// A robot in a list.
pub(super) fn summary() -> Value {
    let evidence = object(&[("type", evidence_word()), ("at", instant())], &[]);
    let execution = object(&[("executionId", nullable(text())), ("state", text()), ("at", instant())], &[]);
    object(
        &[
            ("robotId", text()),
            ("coherence", nullable(coherence_word())),
            ("oldestEvidence", nullable(evidence)),
            ("lastExecution", nullable(execution)),
            ("draftsWaiting", count()),
            ("moreDraftsMayWait", flag()),
        ],
        &[],
    )
}

pub(super) fn status() -> Value {
    let age = json!({ "type": "number", "description": "negative if it is in the future" });
    let known =
        object(&[("type", evidence_word()), ("id", text()), ("at", instant()), ("ageMinutes", age)], &[]);
    let latest = object(
        &[
            ("module", text()),
            ("type", text()),
            ("state", text()),
            ("id", text()),
            ("at", instant()),
            ("why", nullable(text())),
        ],
        &[],
    );
    let reason = object(&[("ruleId", text()), ("message", text())], &[]);
    let standing = json!({ "enum": ["allowed", "blocked", "deferred"] });
    let action = object(&[("action", text()), ("is", standing), ("reasons", list(reason))], &[]);
    let step = object(&[("make", text()), ("byAnyOf", list(text())), ("because", text())], &[]);
    object(
        &[
            ("tenantId", text()),
            ("robotId", text()),
            ("at", instant()),
            ("coherence", nullable(coherence())),
            ("known", list(known)),
            ("latest", list(latest)),
            ("hasMoreTypes", flag()),
            ("draftsWaiting", count()),
            ("actions", list(action)),
            ("steps", list(step)),
        ],
        &[],
    )
}

pub(super) fn snapshot() -> Value {
    let times: Vec<(&str, Value)> =
        SnapshotType::ALL.map(|kind| (kind.timestamp(), nullable(instant()))).to_vec();
    let lineage = object(&[("dependsOnLedgerIds", list(text()))], &[]);
    let omitted = object(&[("bytes", count()), ("count", count()), ("limit", count())], &[]);
    let mut members = vec![
        ("robotId", text()),
        ("snapshotAt", instant()),
        ("coherence", coherence()),
        ("timestamps", object(&times, &[])),
        ("tasks", list(reference("Entry"))),
        ("playbooks", list(reference("Entry"))),
        ("lineage", lineage),
    ];
    members.extend(SnapshotType::ALL.map(|kind| (kind.shown_as(), nullable(reference("Entry")))));
    object(&members, &[("omittedPayloads", omitted)])
}
