//! The server's metrics, as OpenMetrics text. They cover all tenants, so no tenant's key gives access to them: they
//! have a separate port, or are not served. No label contains a tenant, key, robot or id; each has a fixed set of values.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, getrlimit};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::settings::ServerBounds;

/// The media type of the text.
pub(crate) const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Bounds of a request's duration, in seconds.
const DURATIONS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

type Labels<const N: usize> = [(&'static str, &'static str); N];

fn durations() -> Histogram {
    Histogram::new(DURATIONS)
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    registry: Registry,
    requests: Family<Labels<3>, Counter>,
    durations: Family<Labels<2>, Histogram, fn() -> Histogram>,
    bounds: Family<Labels<1>, Counter>,
    /// Entries that clients appended.
    pub appended: Counter,
    /// How old an entry is when event streams can have it.
    event_lag: Histogram,
    ledger_waiting: Gauge,
    in_use: Family<Labels<1>, Gauge>,
    process: Family<Labels<1>, Gauge>,
}

/// A call of the ledger that waits for its turn, until this is dropped.
pub(crate) struct WaitingCall(Gauge);

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for ServerMetrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let metrics = ServerMetrics {
            requests: Family::default(),
            durations: Family::new_with_constructor(durations as fn() -> Histogram),
            bounds: Family::default(),
            appended: Counter::default(),
            event_lag: durations(),
            ledger_waiting: Gauge::default(),
            in_use: Family::default(),
            process: Family::default(),
            registry: Registry::default(),
        };
        let own = &metrics;
        registry.register("crealeph_requests", "Requests by route and class of status", own.requests.clone());
        let about = "Seconds until a response began, by route";
        registry.register("crealeph_request_duration_seconds", about, own.durations.clone());
        registry.register(
            "crealeph_bounds_hit",
            "Requests that hit a limit, by the limit's name",
            own.bounds.clone(),
        );
        registry.register("crealeph_entries_appended", "Entries that clients appended", own.appended.clone());
        let about = "Seconds from when an entry was appended until event streams could get it";
        registry.register("crealeph_event_lag_seconds", about, own.event_lag.clone());
        let about = "Calls of the ledger that are waiting";
        registry.register("crealeph_ledger_calls_waiting", about, own.ledger_waiting.clone());
        let about = "Current use of each limited resource, by the limit's name";
        registry.register("crealeph_in_use", about, own.in_use.clone());
        registry.register("crealeph_process", "Memory and open files of the process", own.process.clone());
        ServerMetrics { registry, ..metrics }
    }
}

impl ServerMetrics {
    /// Counts a request when its response begins.
    pub(crate) fn count_request(
        &self,
        route: &'static str,
        method: &'static str,
        status: u16,
        took: Duration,
    ) {
        let class = match status {
            200..=299 => "2xx",
            300..=399 => "3xx",
            400..=499 => "4xx",
            _ => "5xx",
        };
        let (route, method) = (("route", route), ("method", method));
        self.requests.get_or_create(&[route, method, ("status", class)]).inc();
        self.durations.get_or_create(&[route, method]).observe(took.as_secs_f64());
    }

    /// Counts that a bound was hit.
    pub(crate) fn count_bound(&self, name: &'static str) {
        self.bounds.get_or_create(&[("bound", name)]).inc();
    }

    /// Notes how old an entry is that event streams can have now.
    pub(crate) fn note_event_lag(&self, millis: i64) {
        self.event_lag.observe(millis.max(0) as f64 / 1_000.0);
    }

    /// A call of the ledger waits for its turn.
    pub(crate) fn waiting_call(&self) -> WaitingCall {
        self.ledger_waiting.inc();
        WaitingCall(self.ledger_waiting.clone())
    }

    /// The text of everything, as it is now.
    pub(crate) fn text(&self, app: &App) -> Result<String, std::fmt::Error> {
        let bounds = &app.settings.bounds;
        let used = |name, bound: u64, permits: &Arc<Semaphore>| {
            let used = ServerBounds::size(bound).saturating_sub(permits.available_permits());
            self.in_use.get_or_create(&[("bound", name)]).set(i64::try_from(used).unwrap_or(i64::MAX));
        };
        used("max_connections", bounds.max_connections, &app.connections);
        used("max_requests", bounds.max_requests, &app.requests);
        used("max_ledger_calls", bounds.max_ledger_calls, &app.ledger_calls);
        used("max_runs", bounds.max_runs, &app.runs);
        used("max_streams", bounds.max_streams, &app.streams);
        for (name, value) in process_state() {
            self.process.get_or_create(&[("what", name)]).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// What the system says of this process; what it does not say is left out.
fn process_state() -> impl Iterator<Item = (&'static str, u64)> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages: Option<u64> = pages.and_then(|text| text.split(' ').nth(1)?.parse().ok());
    let memory = pages.map(|pages| pages * rustix::param::page_size() as u64);
    let files = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64);
    [("resident_memory_bytes", memory), ("open_fds", files), ("max_fds", getrlimit(Resource::Nofile).current)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
}
