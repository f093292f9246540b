//! The event stream: a tenant's new entries as server-sent events, each a CloudEvent. A stream resumes after the sequence
//! number in `Last-Event-ID`, without gaps or repeats: it goes through the log in order, through the ring that its tenant's
//! follower fills if that has the next entries, else through the log itself. Wake-ups only tell it when to look.
//!
//! A stream holds a bounded number of events, and renders none before the connection has room for it. A client that leaves
//! them unread for too long is disconnected. A stream ends when its key is no longer valid or the server stops, and its last event
//! says why.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use crealeph_contracts::scalar::{Name, RobotId};
use crealeph_ledger::{Cursor, Order, Seq};
use crealeph_runtime::access::{KeyIdentity, is_active};
use crealeph_runtime::entries::{PageQuery, bounded_page};
use futures_util::future::{Either, select};
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::call::Call;
use crate::follower::{Follower, FollowerHead, Followers, KeyCheck, PAGE_BYTES, PAGE_ENTRIES};
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::ring::{EntryFrame, EventFilter};
use crate::settings::ServerBounds;

/// What `payload` is for a stream without payloads.
pub(super) const NO_PAYLOAD: &str = "none";
pub(super) const STREAM_TYPE: &str = "text/event-stream";
/// How long a stream is silent before it sends a comment, so that proxies keep it open and a dead client is noticed.
const PING: Duration = Duration::from_secs(15);
/// How often a stream makes sure that its key still counts.
const KEY_CHECK: Duration = Duration::from_secs(5);
/// How long a stream waits when the ledger cannot be read now.
const RETRY: Duration = Duration::from_millis(500);
/// How many events a stream takes from the ring at a time.
const TAKEN_EVENTS: usize = 64;

const CONNECTED: &str = ": connected\n\n";
const PINGED: &str = ": ping\n\n";

/// One stream.
struct EventStream {
    app: Arc<App>,
    who: KeyIdentity,
    filter: EventFilter,
    /// Everything up to here was taken, or is not of the stream.
    last: Seq,
    /// What was taken and not sent yet.
    taken: VecDeque<Bytes>,
    follower: Arc<Follower>,
    head: watch::Receiver<FollowerHead>,
    stopping: watch::Receiver<bool>,
    pace: Pace,
    key: KeyWatch,
    has_ended: bool,
    _permit: OwnedSemaphorePermit,
}

pub(super) fn events(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?.clone();
    let asked = call.identifier("robot", RobotId::parse)?;
    if asked.as_ref().is_some_and(|robot| !who.covers(robot)) {
        return Err(Problem::new(ProblemKind::Forbidden, "this key is not for the robot"));
    }
    let filter = EventFilter {
        robot_id: asked.or_else(|| who.robot_id.clone()),
        kind: call.identifier("type", Name::parse)?,
        state: call.identifier("state", Name::parse)?,
        without_payload: call.text("payload") == Some(NO_PAYLOAD),
    };
    let asked = match &call.last_event_id {
        Some(text) => {
            let seq = text.parse().ok().and_then(Seq::new);
            let wrong = || Problem::new(ProblemKind::BadRequest, "`Last-Event-ID` is not a sequence number");
            Some(seq.ok_or_else(wrong)?)
        }
        None => match call.number("after")? {
            Some(number) => {
                Some(Seq::new(number).ok_or_else(|| Problem::parameter("after", "is too large"))?)
            }
            None => None,
        },
    };
    let permit = Arc::clone(&call.app.streams).try_acquire_owned().map_err(|_| {
        let most = call.bounds().max_streams;
        let detail = "the server has reached its limit of event streams; try again";
        Problem::bound(ProblemKind::Overloaded, "max_streams", most, detail)
    })?;
    let last = match asked {
        Some(seq) => seq,
        None => call.ledger().last_seq(&who.tenant_id)?,
    };
    let follower = Followers::follow(&call.app, &who.tenant_id)?;
    let stream = EventStream {
        head: follower.head(),
        stopping: call.app.stopping.clone(),
        pace: Pace::new(ServerBounds::time(call.bounds().write_timeout_ms)),
        key: KeyWatch::new(Instant::now()),
        app: Arc::clone(&call.app),
        who,
        filter,
        last,
        // Something at once, so that the client knows that it is connected.
        taken: VecDeque::from([Bytes::from_static(CONNECTED.as_bytes())]),
        follower,
        has_ended: false,
        _permit: permit,
    };
    let frames = unfold(stream, |mut stream| async move {
        stream.next().await.map(|frame| (Ok::<Bytes, Infallible>(frame), stream))
    });
    Ok(Reply::text(STREAM_TYPE, Body::from_stream(frames)))
}

/// Why a stream ends.
#[derive(Clone, Copy)]
enum StreamEnd {
    KeyEnded,
    Stopping,
    TooSlow,
    Unreadable,
}

impl StreamEnd {
    /// Its code, and what it says to people.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            StreamEnd::KeyEnded => ("key_ended", "the key or session has ended"),
            StreamEnd::Stopping => ("stopping", "the server is stopping"),
            StreamEnd::TooSlow => ("too_slow", "the client reads too slowly"),
            StreamEnd::Unreadable => ("unreadable", "the server cannot read its ledger"),
        }
    }
}

/// What a stream that continues found.
enum Advance {
    /// There may be more at once.
    More,
    /// Everything that there is was taken.
    Everything,
    /// The ledger cannot be read now.
    Unread,
    /// It has ended.
    End(StreamEnd),
}

/// Why a stream that has nothing to send continues.
enum Woken {
    Grown,
    Stopping,
    Timer,
}

impl EventStream {
    /// What is sent next; asked for when the connection has room.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        let frame = match self.pace.is_too_slow(Instant::now()) {
            true => self.end(StreamEnd::TooSlow),
            false => self.produce().await,
        };
        self.pace.handed_over(Instant::now());
        Some(frame)
    }

    async fn produce(&mut self) -> Bytes {
        let ping_at = Instant::now() + PING;
        loop {
            if let Some(frame) = self.taken.pop_front() {
                return frame;
            }
            if *self.stopping.borrow() {
                return self.end(StreamEnd::Stopping);
            }
            let advance = match self.key_counts().await {
                KeyAnswer::Counts => self.advance().await,
                KeyAnswer::Ended => Advance::End(StreamEnd::KeyEnded),
                KeyAnswer::Unknown => Advance::Unread,
            };
            let wake_at = match advance {
                Advance::More => continue,
                Advance::Everything => ping_at.min(self.key.check_at),
                Advance::Unread => Instant::now() + RETRY,
                Advance::End(why) => return self.end(why),
            };
            if !self.taken.is_empty() {
                continue;
            }
            match self.wait(wake_at).await {
                Woken::Timer if Instant::now() >= ping_at => return Bytes::from_static(PINGED.as_bytes()),
                Woken::Timer | Woken::Grown | Woken::Stopping => {}
            }
        }
    }

    /// Takes what comes next from the ring, or from the log if the ring no longer has it.
    async fn advance(&mut self) -> Advance {
        if *self.head.borrow_and_update() == FollowerHead::Failed {
            return Advance::End(StreamEnd::Unreadable);
        }
        match self.take_from_ring() {
            Some(advance) => advance,
            None => match self.read_log().await {
                Ok(advance) => advance,
                Err(problem) if problem.status().as_u16() == 503 => Advance::Unread,
                Err(_) => Advance::End(StreamEnd::Unreadable),
            },
        }
    }

    /// Takes events from the ring; `None` if it no longer has what comes next.
    fn take_from_ring(&mut self) -> Option<Advance> {
        let ring = self.follower.ring.read().unwrap_or_else(PoisonError::into_inner);
        for frame in ring.after(self.last)? {
            if self.taken.len() >= TAKEN_EVENTS {
                return Some(Advance::More);
            }
            if self.who.is_revoked_by(&frame.entry) {
                // What was taken before it is sent first, and then the key is found not to count.
                self.key.check_at = Instant::now();
                self.follower.key_checked(&self.who.key_id, false, Instant::now());
                return Some(Advance::More);
            }
            if frame.entry.seq > self.key.counts_at && self.who.may_be_ended_by(&frame.entry) {
                // The ledger says whether it does, once what was taken before it is sent.
                self.key.doubted_by = Some(frame.entry.seq);
                return Some(Advance::More);
            }
            self.last = frame.entry.seq;
            if self.filter.admits(&frame.entry) && self.who.sees(&frame.entry) {
                self.taken.push_back(frame.event(&self.filter));
            }
        }
        Some(Advance::Everything)
    }

    /// Reads what comes next from the log, a page at a time, and moves on behind it.
    async fn read_log(&mut self) -> Result<Advance, Problem> {
        let query = PageQuery {
            filter: self.filter.query(),
            order: Order::OldestFirst,
            cursor: Some(Cursor::after(self.last)),
            limit: PAGE_ENTRIES,
            max_bytes: PAGE_BYTES,
        };
        let (ledger, who) = (self.app.ledger.clone(), self.who.clone());
        let read = self.app.blocking(move || {
            // What is appended while the page is read comes with the next one, or from the ring.
            let end = ledger.last_seq(&who.tenant_id)?;
            let page = bounded_page(&ledger, &who.tenant_id, &query, |entry| who.sees(entry))?;
            // Asked last, so that no revocation up to the end goes unnoticed.
            Ok(is_active(&ledger, &who)?.then_some((page, end)))
        });
        let Some((page, end)) = read.await? else { return Ok(Advance::End(StreamEnd::KeyEnded)) };
        let reached = page.next.map_or(end, |next| next.seq());
        let newest = page.entries.last().map_or(Seq::ZERO, |entry| entry.seq);
        self.last = self.last.max(reached).max(newest);
        let filter = &self.filter;
        self.taken.extend(page.entries.into_iter().map(|entry| EntryFrame::render(entry).event(filter)));
        Ok(Advance::More)
    }

    /// Whether the key still counts: asked now and then, once for all streams of the key; and by each stream itself after an entry that
    /// may have ended it, because an earlier answer, which another stream may still be waiting for, does not know of that entry.
    async fn key_counts(&mut self) -> KeyAnswer {
        let now = Instant::now();
        match self.key.is_asked_about(now) {
            false => return KeyAnswer::Counts,
            true if self.key.doubted_by.is_some() => {}
            true => {
                self.key.check_at = now + KEY_CHECK;
                if let KeyCheck::Known(counts) = self.follower.check_key(&self.who.key_id, now) {
                    return if counts { KeyAnswer::Counts } else { KeyAnswer::Ended };
                }
            }
        }
        let (ledger, who) = (self.app.ledger.clone(), self.who.clone());
        let counts = self.app.blocking(move || Ok(is_active(&ledger, &who)?)).await.ok();
        let now = Instant::now();
        if let Some(counts) = counts {
            self.follower.key_checked(&self.who.key_id, counts, now);
        }
        self.key.answered(counts, now)
    }

    async fn wait(&mut self, until: Instant) -> Woken {
        let (grown, stops) = (pin!(self.head.changed()), pin!(self.stopping.wait_for(|stops| *stops)));
        match timeout_at(until, select(grown, stops)).await {
            Ok(Either::Left(_)) => Woken::Grown,
            Ok(Either::Right(_)) => Woken::Stopping,
            Err(_) => Woken::Timer,
        }
    }

    /// The last event, which says why it is the last.
    fn end(&mut self, why: StreamEnd) -> Bytes {
        self.has_ended = true;
        let (code, reason) = why.words();
        Bytes::from(format!("event: end\ndata: {}\n\n", json!({ "code": code, "reason": reason })))
    }
}

/// What a stream knows of its key.
struct KeyWatch {
    /// When it is asked next whether the key still counts.
    check_at: Instant,
    /// The entry up to which nothing has ended the key.
    counts_at: Seq,
    /// A later entry that may have ended it, until the ledger has said that it has not. Nothing after it is sent before.
    doubted_by: Option<Seq>,
}

/// Whether a key counts, as far as its stream knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyAnswer {
    Counts,
    Ended,
    /// It may have ended, and the ledger cannot be read now.
    Unknown,
}

impl KeyWatch {
    fn new(now: Instant) -> KeyWatch {
        KeyWatch { check_at: now + KEY_CHECK, counts_at: Seq::ZERO, doubted_by: None }
    }

    fn is_asked_about(&self, now: Instant) -> bool {
        self.doubted_by.is_some() || now >= self.check_at
    }

    /// What follows from the answer of the ledger; `None` if it could not be read.
    fn answered(&mut self, counts: Option<bool>, now: Instant) -> KeyAnswer {
        match (counts, self.doubted_by) {
            (Some(false), _) => KeyAnswer::Ended,
            (Some(true), doubted_by) => {
                self.counts_at = doubted_by.unwrap_or(self.counts_at);
                self.doubted_by = None;
                self.check_at = now + KEY_CHECK;
                KeyAnswer::Counts
            }
            (None, Some(_)) => KeyAnswer::Unknown,
            // Nothing speaks against it; and while the ledger cannot be read, what the ring no longer has is not sent either.
            (None, None) => KeyAnswer::Counts,
        }
    }
}

/// How fast a client reads: what was handed over must be on its way before the bound, or it is too slow.
struct Pace {
    bound: Duration,
    handed_over_at: Option<Instant>,
}

impl Pace {
    fn new(bound: Duration) -> Pace {
        Pace { bound, handed_over_at: None }
    }

    fn handed_over(&mut self, now: Instant) {
        self.handed_over_at = Some(now);
    }

    /// Asked when the connection has room again.
    fn is_too_slow(&self, now: Instant) -> bool {
        self.handed_over_at.is_some_and(|at| now.saturating_duration_since(at) > self.bound)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn after_an_entry_that_may_have_ended_the_key_nothing_is_sent_until_the_ledger_answers() {
        let start = Instant::now();
        let seq = |number| Seq::new(number).unwrap();
        let mut key = KeyWatch::new(start);
        assert!(!key.is_asked_about(start) && key.is_asked_about(start + KEY_CHECK));
        assert_eq!(key.answered(None, start), KeyAnswer::Counts, "nothing speaks against it");
        key.doubted_by = Some(seq(7));
        for _ in 0..3 {
            assert!(key.is_asked_about(start), "however recently it was asked");
            assert_eq!(key.answered(None, start), KeyAnswer::Unknown);
        }
        assert_eq!((key.counts_at, key.doubted_by), (Seq::ZERO, Some(seq(7))));
        assert_eq!(key.answered(Some(true), start), KeyAnswer::Counts);
        assert_eq!((key.counts_at, key.doubted_by), (seq(7), None));
        assert!(!key.is_asked_about(start));
        key.doubted_by = Some(seq(9));
        assert_eq!(key.answered(Some(false), start), KeyAnswer::Ended);
    }

    #[test]
    fn a_client_is_too_slow_if_there_is_no_room_for_longer_than_the_bound() {
        let (mut pace, start) = (Pace::new(Duration::from_secs(30)), Instant::now());
        assert!(!pace.is_too_slow(start + Duration::from_secs(100)), "nothing was handed over");
        pace.handed_over(start);
        assert!(!pace.is_too_slow(start + Duration::from_secs(30)));
        assert!(pace.is_too_slow(start + Duration::from_secs(31)));
    }
}
