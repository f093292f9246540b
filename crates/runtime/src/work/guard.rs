//! The guard over a running agent: counts what it reports, live, and ends the run as soon as a limit is exceeded.
//! Owns the counting; files and deltas are judged at the end, on what really changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crealeph_decision::work::{ExceededLimit, ReportLimits};
use crealeph_sandbox::{Cancel, Stream};

use super::stream::{Format, Reader};
use super::trace::{Lines, Trace, TraceReport, read_line};

/// Watches one run.
pub(super) struct Guard<'g> {
    limits: ReportLimits,
    cancel: Cancel,
    counted: Mutex<Counted>,
    progress: &'g (dyn Fn(&Trace) + Sync),
}

#[derive(Default)]
struct Counted {
    lines: Lines,
    /// The agent's own event stream on its standard output, if it has one that is known.
    event_lines: Lines,
    events: Option<Reader>,
    trace: Trace,
    is_exceeded: bool,
}

impl<'g> Guard<'g> {
    /// A guard that ends the run through `cancel` and hands every step to `progress`.
    pub(super) fn new(
        limits: ReportLimits,
        stream: Option<Format>,
        cancel: Cancel,
        progress: &'g (dyn Fn(&Trace) + Sync),
    ) -> Self {
        let counted = Counted { events: stream.map(Reader::new), ..Counted::default() };
        Guard { limits, cancel, counted: Mutex::new(counted), progress }
    }

    /// Takes what the agent writes.
    pub(super) fn take(&self, stream: Stream, bytes: &[u8]) {
        let mut counted = self.counted();
        let Counted { lines, event_lines, events, trace, is_exceeded } = &mut *counted;
        match (stream, events) {
            (Stream::Trace, _) => lines.push(bytes, |line| self.count(trace, is_exceeded, read_line(line))),
            (Stream::Stdout, Some(events)) => event_lines.push(bytes, |line| {
                events.line(line).into_iter().for_each(|reported| self.count(trace, is_exceeded, reported));
            }),
            _ => {}
        }
    }

    fn count(&self, trace: &mut Trace, is_exceeded: &mut bool, reported: TraceReport) {
        trace.add(reported);
        (self.progress)(trace);
        if !*is_exceeded && trace.exceeded(&self.limits).is_some() {
            *is_exceeded = true;
            self.cancel.cancel();
        }
    }

    /// What was reported in all, and the limit that was exceeded, if one was.
    pub(super) fn finish(self) -> (Trace, Option<ExceededLimit>) {
        let mut counted = self.counted();
        let Counted { lines, event_lines, events, trace, is_exceeded } = &mut *counted;
        lines.end(|line| self.count(trace, is_exceeded, read_line(line)));
        if let Some(events) = events {
            event_lines.end(|line| {
                events.line(line).into_iter().for_each(|reported| self.count(trace, is_exceeded, reported));
            });
        }
        // The agent may have worked on while it was being ended: this has the final count.
        let exceeded = trace.exceeded(&self.limits);
        (std::mem::take(trace), exceeded)
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(limits: ReportLimits, text: &str) -> (bool, Option<String>) {
        let stream = None;
        let cancel = Cancel::new().unwrap();
        let guard = Guard::new(limits, stream, cancel.clone(), &|_| ());
        guard.take(Stream::Trace, text.as_bytes());
        guard.take(Stream::Stdout, b"{\"tool\":\"not the trace\"}\n");
        let is_stopped = cancel.is_cancelled();
        (is_stopped, guard.finish().1.map(|exceeded| exceeded.to_string()))
    }

    #[test]
    fn the_run_is_stopped_when_a_bound_is_passed_and_not_before() {
        let limits = ReportLimits { tool_ops: 2, tokens: Some(100.0), cost_usd: Some(0.5) };
        let call = "{\"tool\":\"t\"}\n";
        assert_eq!(after(limits, &call.repeat(2)), (false, None));
        assert_eq!(after(limits, &call.repeat(3)), (true, Some("Exceeded max tool ops: 3 > 2".to_owned())));
        assert_eq!(after(limits, "{\"tokens_used\":100}\n"), (false, None));
        let tokens = after(limits, "{\"tokens_used\":60}\n{\"tokens_used\":60}\n");
        assert_eq!(tokens, (true, Some("Exceeded max tokens: 120 > 100".to_owned())));
        let cost = after(limits, "{\"cost_usd\":0.75}\n");
        assert_eq!(cost, (true, Some("Exceeded max cost: 0.75 > 0.5".to_owned())));
    }

    #[test]
    fn a_known_event_stream_counts_like_the_trace() {
        let limits = ReportLimits { tool_ops: 1, tokens: None, cost_usd: None };
        let cancel = Cancel::new().unwrap();
        let guard = Guard::new(limits, Some(Format::Codex), cancel.clone(), &|_| ());
        let item = |id: u32| {
            format!("{{\"type\":\"item.started\",\"item\":{{\"id\":\"{id}\",\"type\":\"web_search\"}}}}\n")
        };
        guard.take(Stream::Stdout, item(1).as_bytes());
        assert!(!cancel.is_cancelled());
        guard.take(Stream::Stdout, item(2).as_bytes());
        assert!(cancel.is_cancelled());
        let exceeded = guard.finish().1.map(|exceeded| exceeded.to_string());
        assert_eq!(exceeded.as_deref(), Some("Exceeded max tool ops: 2 > 1"));
    }
}
