//! Keeping a bounded, redacted copy of one output. Owns the limit; refuses to block the program that
//! writes: bytes past the limit are counted and dropped.

use crate::outcome::Captured;
use crate::redact::{RedactedStream, Redactor};
use crate::sandbox::{Output, Stream};

/// Receives the kept bytes, as they come.
#[derive(Clone, Copy)]
pub(crate) struct Sink<'s> {
    pub(crate) output: Output<'s>,
    pub(crate) stream: Stream,
}

pub(crate) struct Capture<'s> {
    limit: usize,
    kept: Vec<u8>,
    total_bytes: u64,
    stream: RedactedStream,
    settled: Vec<u8>,
    sink: Option<Sink<'s>>,
}

impl<'s> Capture<'s> {
    pub(crate) fn new(limit_bytes: u64, redactor: Redactor, sink: Option<Sink<'s>>) -> Self {
        let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        Self {
            limit,
            kept: Vec::new(),
            total_bytes: 0,
            stream: RedactedStream::new(redactor),
            settled: Vec::new(),
            sink,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut settled = std::mem::take(&mut self.settled);
        self.stream.push(bytes, &mut settled);
        self.keep(settled);
    }

    pub(crate) fn finish(mut self) -> Captured {
        let mut rest = std::mem::take(&mut self.settled);
        self.stream.finish(&mut rest);
        self.keep(rest);
        Captured { bytes: self.kept, total_bytes: self.total_bytes, redactions: self.stream.redactions() }
    }

    fn keep(&mut self, mut settled: Vec<u8>) {
        let room = self.limit.saturating_sub(self.kept.len());
        let part = settled.get(..room.min(settled.len())).unwrap_or_default();
        self.kept.extend_from_slice(part);
        if let (Some(sink), false) = (self.sink, part.is_empty()) {
            (sink.output)(sink.stream, part);
        }
        self.total_bytes = self.total_bytes.saturating_add(settled.len() as u64);
        settled.clear();
        self.settled = settled;
    }
}
