//! The newest entries of one log, rendered once for all event streams of a tenant. A ring has everything after a position up to
//! its end, without a gap; older entries are read from the log.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use crealeph_contracts::scalar::{Name, RobotId};
use crealeph_ledger::{Filter, Seq, StoredEntry};
use crealeph_runtime::entries::{cloud_event, entry_head_json, entry_json};

/// What an entry takes in addition to its text, roughly.
const FRAME_BYTES: usize = 512;

/// An entry as an event, and what of it decides who gets it.
#[derive(Debug)]
pub(crate) struct EntryFrame {
    /// The entry, without its payload.
    pub entry: StoredEntry,
    /// The event.
    text: Bytes,
    /// The event without the payload.
    head: Bytes,
}

impl EntryFrame {
    /// An entry as a server-sent event: its sequence number is the event's id, a CloudEvent its data.
    pub(crate) fn render(mut entry: StoredEntry) -> EntryFrame {
        let event = |data: &str| {
            let data = cloud_event(&entry, data);
            Bytes::from(format!("id: {}\nevent: entry\ndata: {data}\n\n", entry.seq))
        };
        let (text, head) = (event(&entry_json(&entry)), event(&entry_head_json(&entry)));
        entry.content.payload = Arc::from("");
        EntryFrame { entry, text, head }
    }

    /// The event as a stream wants it.
    pub(crate) fn event(&self, filter: &EventFilter) -> Bytes {
        if filter.without_payload { self.head.clone() } else { self.text.clone() }
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.head.len() + FRAME_BYTES
    }
}

/// What a stream asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    pub robot_id: Option<RobotId>,
    pub kind: Option<Name>,
    pub state: Option<Name>,
    pub without_payload: bool,
}

impl EventFilter {
    /// Whether an entry matches; the same entries that the ledger finds by [`EventFilter::query`].
    pub(crate) fn admits(&self, entry: &StoredEntry) -> bool {
        let content = &entry.content;
        self.robot_id.as_ref().is_none_or(|robot| *robot == content.robot_id)
            && self.kind.as_ref().is_none_or(|kind| *kind == content.kind)
            && self.state.as_ref().is_none_or(|state| *state == content.state)
    }

    /// The question to the ledger.
    pub(crate) fn query(&self) -> Filter {
        let EventFilter { robot_id, kind, state, .. } = self.clone();
        Filter { robot_id, kind, state, ..Filter::default() }
    }
}

/// The newest entries of a log.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Everything after this and up to the end is here.
    start: Seq,
    frames: VecDeque<Arc<EntryFrame>>,
    bytes: usize,
}

impl Ring {
    /// A ring that begins behind an entry.
    pub(crate) fn new(start: Seq) -> Ring {
        Ring { start, frames: VecDeque::new(), bytes: 0 }
    }

    /// The newest entry that is here, or was.
    pub(crate) fn end(&self) -> Seq {
        self.frames.back().map_or(self.start, |frame| frame.entry.seq)
    }

    /// Adds the entry that follows, and drops the oldest beyond a number of bytes. An entry that does not follow begins the
    /// ring again, so that there is never a gap in it.
    pub(crate) fn push(&mut self, frame: EntryFrame, max_bytes: usize) {
        let seq = frame.entry.seq;
        if seq != self.end().next() {
            *self = Ring::new(seq.previous());
        }
        self.bytes += frame.bytes();
        self.frames.push_back(Arc::new(frame));
        while self.bytes > max_bytes {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.start = oldest.entry.seq;
            self.bytes -= oldest.bytes();
        }
    }

    /// What comes after a place; `None` if some of that is no longer here.
    pub(crate) fn after(&self, last: Seq) -> Option<impl Iterator<Item = &Arc<EntryFrame>>> {
        let passed = last.get().checked_sub(self.start.get())?;
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        Some(self.frames.iter().skip(passed))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crealeph_contracts::entry::Draft;
    use crealeph_contracts::json::Limits;
    use crealeph_contracts::scalar::{LedgerId, TenantId};
    use crealeph_ledger::{Content, Millis};

    use super::*;

    fn frame(seq: u64, payload: usize) -> EntryFrame {
        let text = "x".repeat(payload);
        let draft = format!(
            r#"{{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{{"text":"{text}"}}}}"#
        );
        let draft = Draft::parse(draft.as_bytes(), &Limits::outside(draft.len())).unwrap();
        EntryFrame::render(StoredEntry {
            actor: None,
            id: LedgerId::parse(&format!("e{seq}")).unwrap(),
            seq: Seq::new(seq).unwrap(),
            tenant_id: TenantId::parse("a tenant").unwrap(),
            created_at: Millis::new(0),
            content: Content::of(draft).0,
        })
    }

    /// The numbers after a place.
    fn after(ring: &Ring, last: u64) -> Option<Vec<u64>> {
        let found = ring.after(Seq::new(last).unwrap())?;
        Some(found.map(|frame| frame.entry.seq.get()).collect())
    }

    #[test]
    fn a_ring_has_everything_behind_a_place_or_says_that_it_has_not() {
        let mut ring = Ring::new(Seq::new(7).unwrap());
        assert_eq!((after(&ring, 6), after(&ring, 7), after(&ring, 9)), (None, Some(vec![]), Some(vec![])));
        let room = 3 * frame(8, 10).bytes() + 100;
        (8..=10).for_each(|seq| ring.push(frame(seq, 10), room));
        assert_eq!((after(&ring, 7), after(&ring, 9)), (Some(vec![8, 9, 10]), Some(vec![10])));
        (11..=12).for_each(|seq| ring.push(frame(seq, 10), room));
        assert_eq!((after(&ring, 8), after(&ring, 9)), (None, Some(vec![10, 11, 12])));
        // One that is too large for the ring goes past it, and so does everyone who waits for it.
        ring.push(frame(13, 10_000), room);
        assert_eq!((after(&ring, 12), after(&ring, 13), ring.end().get()), (None, Some(vec![]), 13));
        ring.push(frame(14, 10), room);
        ring.push(frame(16, 10), room);
        assert_eq!((after(&ring, 14), after(&ring, 15)), (None, Some(vec![16])), "no gap is hidden");
        assert!(ring.bytes <= room);
    }

    #[test]
    fn an_event_is_one_line_of_data_and_its_payload_is_held_once() {
        let frame = frame(3, 4);
        let text = std::str::from_utf8(&frame.text).unwrap();
        let [id, kind, data, end, last] = text.split('\n').collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!((id, kind, end, last), ("id: 3", "event: entry", "", ""));
        assert!(
            data.contains(r#""source":"urn:crealeph:log:a%20tenant""#) && data.contains("xxxx"),
            "{data}"
        );
        assert!(frame.entry.content.payload.is_empty());
    }
}
