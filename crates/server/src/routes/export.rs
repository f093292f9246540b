//! The tenant's whole log for an auditor: the same lines as `crealeph ledger export` writes, streamed while they are read. One
//! that was cut off resumes after the last entry that arrived.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use crealeph_ledger::Seq;
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, channel};

use crate::app::App;
use crate::call::Call;
use crate::limits::CountedExport;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::settings::ServerBounds;

pub(super) const LINES_TYPE: &str = "application/x-ndjson";
/// How many bytes are sent at a time, and how many such parts wait for the client.
const PART_BYTES: usize = 64 << 10;
const PARTS: usize = 8;

pub(super) fn export(call: &Call) -> Result<Reply, Problem> {
    let tenant = call.who()?.tenant_id.clone();
    let number = |name| {
        let seq = |number| Seq::new(number).ok_or_else(|| Problem::parameter(name, "is too large"));
        call.number(name)?.map(seq).transpose()
    };
    let last = call.ledger().last_seq(&tenant)?;
    let part = match (number("after")?, number("upTo")?) {
        (None, None) => None,
        (Some(after), Some(up_to)) if after <= up_to && up_to <= last => Some((after, up_to)),
        (Some(_), Some(_)) => {
            return Err(Problem::parameter(
                "after",
                &format!("is after `upTo`, or `upTo` after entry {last}, the newest"),
            ));
        }
        (Some(_), None) => {
            return Err(Problem::parameter(
                "after",
                "needs `upTo`, the number of entries that the first line states",
            ));
        }
        (None, Some(_)) => {
            return Err(Problem::parameter("upTo", "needs `after`, the last entry that was received"));
        }
    };
    let most = call.bounds().max_exports;
    let permit = Arc::clone(&call.app.exports).try_acquire_owned().map_err(|_| {
        let detail = "the server has reached its limit of exports at a time; try again";
        Problem::bound(ProblemKind::Overloaded, "max_exports", most, detail)
    })?;
    let counted = call.app.exporting.count(&tenant, call.bounds().max_exports_per_tenant)?;
    let (sender, receiver) = channel(PARTS);
    let until = Instant::now() + ServerBounds::time(call.bounds().export_timeout_ms);
    let parts =
        PartWriter { sender, part: Vec::with_capacity(PART_BYTES), until, app: Arc::clone(&call.app) };
    let run = Export { parts, part, _held: (permit, counted) };
    let ledger = call.ledger().clone();
    let thread = std::thread::Builder::new().name("export".to_owned());
    thread.spawn(move || run.write(&ledger, &tenant)).map_err(|error| {
        tracing::error!("no thread for an export: {error}");
        Problem::new(ProblemKind::Overloaded, "the server cannot export now; try again")
    })?;
    let parts = unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    Ok(Reply::text(LINES_TYPE, Body::from_stream(parts)))
}

/// An export under way.
struct Export {
    parts: PartWriter,
    /// The entries after the first number, up to the second; the whole log if absent.
    part: Option<(Seq, Seq)>,
    _held: (OwnedSemaphorePermit, CountedExport),
}

impl Export {
    /// Writes it on this thread. If that fails the body is cut off, so that no one takes it for a whole one.
    fn write(mut self, ledger: &crealeph_ledger::Ledger, tenant: &crealeph_contracts::scalar::TenantId) {
        let written = match self.part {
            None => ledger.export(tenant, &mut self.parts),
            Some((after, up_to)) => ledger.export_rest(tenant, after, up_to, &mut self.parts),
        };
        let ended = written
            .map_err(|error| error.to_string())
            .and_then(|_| self.parts.flush().map_err(|error| error.to_string()));
        if let Err(why) = ended {
            tracing::warn!("an export was cut off: {why}");
            let _ = self.parts.sender.blocking_send(Err(io::Error::other("the export was cut off")));
        }
    }
}

/// Hands bytes over to the connection, as fast as the client reads and until its time has expired.
struct PartWriter {
    sender: Sender<Result<Bytes, io::Error>>,
    part: Vec<u8>,
    until: Instant,
    app: Arc<App>,
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.extend_from_slice(bytes);
        if self.part.len() >= PART_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.app.is_stopping() {
            return Err(io::Error::other("the server is stopping"));
        }
        if self.until.saturating_duration_since(Instant::now()) == Duration::ZERO {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it took longer than `export_timeout_ms`"));
        }
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES));
        if part.is_empty() {
            return Ok(());
        }
        let sent = self.sender.blocking_send(Ok(Bytes::from(part)));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client has disconnected"))
    }
}
