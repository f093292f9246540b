//! The event stream: a tenant's new entries as server-sent events, each a CloudEvent. A stream resumes after the sequence
//! number in `Last-Event-ID`, without gap or repeat, because it is read from the log itself: being woken only says when.
//!
//! A client that reads slowly slows its own stream, whose queue is bounded; one that does not read at all is cut off like
//! any other. A stream ends when its key no longer counts or the server stops, and says so in its last event.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::scalar::{Name, RobotId};
use crealeph_ledger::{Cursor, EntryPage, Filter, Order, Seq, StoredEntry};
use crealeph_runtime::access::{KeyIdentity, is_active};
use crealeph_runtime::entries::{PageQuery, bounded_page, entry_json};
use futures_util::future::{Either, select};
use futures_util::stream::unfold;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use crate::app::App;
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;

pub(super) const STREAM_TYPE: &str = "text/event-stream";
/// How long a stream is silent before it sends a comment, so that proxies keep it open and a dead client is noticed.
const PING: Duration = Duration::from_secs(15);
/// How many events wait for a client to read them.
const QUEUE_EVENTS: usize = 16;
/// How many entries are read at a time, and how many bytes of payloads.
const PAGE_ENTRIES: usize = 100;
const PAGE_BYTES: usize = 1 << 20;

/// One stream.
struct EventStream {
    app: Arc<App>,
    who: KeyIdentity,
    filter: Filter,
    /// Everything up to here was sent, or is not of the stream.
    last: Seq,
    sender: Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
}

pub(super) fn events(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?.clone();
    let asked = call.identifier("robot", RobotId::parse)?;
    if asked.as_ref().is_some_and(|robot| !who.covers(robot)) {
        return Err(Problem::new(ProblemKind::Forbidden, "this key is not for the robot"));
    }
    let filter = Filter {
        robot_id: asked.or_else(|| who.robot_id.clone()),
        kind: call.identifier("type", Name::parse)?,
        state: call.identifier("state", Name::parse)?,
        ..Filter::default()
    };
    let last = match &call.last_event_id {
        Some(text) => {
            let seq = text.parse().ok().and_then(Seq::new);
            seq.ok_or_else(|| Problem::new(ProblemKind::BadRequest, "`Last-Event-ID` is no sequence number"))?
        }
        None => match call.number("after")? {
            Some(number) => Seq::new(number).ok_or_else(|| Problem::parameter("after", "is too large"))?,
            None => call.ledger().last_seq(&who.tenant_id)?,
        },
    };
    let permit = Arc::clone(&call.app.streams).try_acquire_owned().map_err(|_| {
        let most = call.bounds().max_streams;
        let detail = "as many event streams are open as the server takes; try again";
        Problem::bound(ProblemKind::Overloaded, "max_streams", most, detail)
    })?;
    let (sender, receiver) = channel(QUEUE_EVENTS);
    let growth = call.app.growth()?;
    let stream = EventStream { app: Arc::clone(&call.app), who, filter, last, sender, _permit: permit };
    tokio::spawn(stream.run(growth));
    let frames = unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|frame| (Ok::<Bytes, Infallible>(frame), receiver))
    });
    Ok(Reply::text(STREAM_TYPE, Body::from_stream(frames)))
}

impl EventStream {
    async fn run(mut self, mut growth: watch::Receiver<u64>) {
        let mut stopping = self.app.stopping.clone();
        // Something at once, so that the client knows that it is connected.
        let mut is_open = self.send(": connected\n\n".to_owned()).await;
        while is_open {
            growth.borrow_and_update();
            let page = match self.read().await {
                Ok(Some(page)) => page,
                Ok(None) => return self.end("the key no longer counts").await,
                Err(problem) if problem.status().as_u16() == 503 => {
                    EntryPage { entries: Vec::new(), next: None }
                }
                Err(_) => return self.end("the server cannot read its ledger").await,
            };
            for entry in &page.entries {
                is_open = is_open && self.send(frame(entry)).await;
            }
            if page.next.is_some() {
                continue;
            }
            match wait(&mut growth, &mut stopping).await {
                Woken::Grown => {}
                Woken::Stopping => return self.end("the server is stopping").await,
                Woken::Idle => is_open = is_open && self.send(": ping\n\n".to_owned()).await,
            }
        }
    }

    /// What comes next, and moves on behind it; `None` if the key no longer counts.
    async fn read(&mut self) -> Result<Option<EntryPage>, Problem> {
        let query = PageQuery {
            filter: self.filter.clone(),
            order: Order::OldestFirst,
            cursor: Some(Cursor::after(self.last)),
            limit: PAGE_ENTRIES,
            max_bytes: PAGE_BYTES,
        };
        let (ledger, who) = (self.app.ledger.clone(), self.who.clone());
        let read = self.app.blocking(move || {
            if !is_active(&ledger, &who)? {
                return Ok(None);
            }
            // What is appended while the page is read comes with the next one.
            let end = ledger.last_seq(&who.tenant_id)?;
            let page = bounded_page(&ledger, &who.tenant_id, &query, |entry| who.sees(entry))?;
            Ok(Some((page, end)))
        });
        let Some((page, end)) = read.await? else { return Ok(None) };
        let reached = match page.next {
            Some(next) => next.seq(),
            None => end,
        };
        let newest = page.entries.last().map_or(Seq::ZERO, |entry| entry.seq);
        self.last = self.last.max(reached).max(newest);
        Ok(Some(page))
    }

    /// Sends a frame, as fast as the client reads; false if it is gone.
    async fn send(&self, frame: String) -> bool {
        self.sender.send(Bytes::from(frame)).await.is_ok()
    }

    async fn end(&self, reason: &str) {
        // A client that is gone needs no reason.
        let _ = self.send(format!("event: end\ndata: {}\n\n", json!({ "reason": reason }))).await;
    }
}

/// Why a stream that has sent everything goes on.
enum Woken {
    Grown,
    Stopping,
    Idle,
}

async fn wait(growth: &mut watch::Receiver<u64>, stopping: &mut watch::Receiver<bool>) -> Woken {
    let (grown, stops) = (pin!(growth.changed()), pin!(stopping.wait_for(|stops| *stops)));
    match timeout(PING, select(grown, stops)).await {
        Ok(Either::Left((Ok(()), _))) => Woken::Grown,
        Ok(_) => Woken::Stopping,
        Err(_) => Woken::Idle,
    }
}

/// An entry as a server-sent event: its sequence number is the event's id, a CloudEvent its data.
fn frame(entry: &StoredEntry) -> String {
    let content = &entry.content;
    let tenant = utf8_percent_encode(entry.tenant_id.as_str(), NON_ALPHANUMERIC);
    let mut data = String::new();
    let mut event = ObjectWriter::new(&mut data);
    event
        .text("specversion", "1.0")
        .text("id", entry.id.as_str())
        .text("source", &format!("urn:crealeph:log:{tenant}"))
        .text("type", &format!("crealeph.entry.{}", content.kind))
        .text("subject", content.robot_id.as_str())
        .text("time", &entry.created_at.to_string())
        .text("sequence", &entry.seq.to_string())
        .text("datacontenttype", "application/json")
        .raw("data", &entry_json(entry));
    event.end();
    format!("id: {}\nevent: entry\ndata: {data}\n\n", entry.seq)
}
