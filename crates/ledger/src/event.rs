//! An execution event on its way to the log. It is read once, on its producer's thread; its contract's rules for its
//! context (the ledger's time, the entries it depends on) are checked when it is planned.

use crealeph_contracts::execution_event::{ExecutionEvent, ExecutionState};
use crealeph_contracts::json::{self, ObjectWriter};
use crealeph_contracts::scalar::TenantId;
use crealeph_decision::execution::EventFingerprint;

use crate::entry::{Content, StoredEntry};
use crate::position::Millis;
use crate::row::EventIdentity;

/// Reads an event that is valid by itself. `None` for an invalid one: it is refused with all its violations
/// when it is planned.
pub(crate) fn read_event(tenant_id: &TenantId, content: &Content) -> Option<Box<ExecutionEvent>> {
    parse(tenant_id, content, Millis::new(i64::MAX)).map(Box::new)
}

/// What a recorded event is compared by.
pub(crate) fn fingerprint(stored: &StoredEntry) -> Option<EventFingerprint> {
    let event = parse(&stored.tenant_id, &stored.content, stored.created_at)?;
    EventFingerprint::of(&event).ok()
}

fn parse(tenant_id: &TenantId, content: &Content, created_at: Millis) -> Option<ExecutionEvent> {
    let text = event_document(tenant_id, content, created_at);
    ExecutionEvent::parse_under_first_rules(text.as_bytes(), &json::Limits::own(usize::MAX), |_, _| ()).ok()
}

/// The identity of a recorded event, from its payload.
pub(crate) fn recorded_identity(content: &Content) -> Option<EventIdentity> {
    if !content.is_event() {
        return None;
    }
    let (document, _) = json::parse(content.payload.as_bytes(), &json::Limits::own(usize::MAX));
    let document = document?;
    let execution = document.root().member("executionId")?.string()?.into_owned();
    let attempt = document.root().member("attempt")?.number()?;
    let is_attempt = attempt >= 1.0 && attempt.fract() == 0.0 && attempt < 9_007_199_254_740_992.0;
    let state = ExecutionState::parse(content.state.as_str()).filter(|_| is_attempt)?;
    let robot = content.robot_id.as_str().to_owned();
    Some(EventIdentity { execution, robot, attempt: attempt as u64, state })
}

/// The event as its contract knows it: without id, sequence number and key, which are the entry's envelope (R4).
pub(crate) fn event_document(tenant_id: &TenantId, content: &Content, created_at: Millis) -> String {
    let mut text = String::with_capacity(content.payload.len() + 512);
    let mut object = ObjectWriter::new(&mut text);
    object.text("tenantId", tenant_id.as_str()).text("robotId", content.robot_id.as_str());
    object.text("module", content.module.as_str()).text("source", content.source.as_str());
    object.text("type", content.kind.as_str()).text("state", content.state.as_str());
    object.text("createdAt", &created_at.to_string()).raw("payload", &content.payload);
    if let Some(observed_at) = &content.observed_at {
        object.text("observedAt", observed_at.as_str());
    }
    content.write_lineage(object.key("lineage"));
    object.end();
    text
}
