//! The settings of `[server]`: names that the server answers to, and a limit on every resource that a client can use up.

use std::net::SocketAddr;
use std::time::Duration;

use crealeph_runtime::configuration::{ConfigError, Configuration, Table, absolute};
use crealeph_runtime::webhook::WebhookSettings;

use crate::tls::TlsFiles;

/// How many hosts or origins can be listed.
const MAX_NAMES: usize = 64;

/// What the server goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Names that a `Host` header may have, in addition to those of the address.
    pub hosts: Vec<String>,
    /// Values that an `Origin` header may have, in addition to the server's own.
    pub origins: Vec<String>,
    /// The server's certificate; without one it does not encrypt.
    pub tls: Option<TlsFiles>,
    /// How webhooks are delivered.
    pub webhooks: WebhookSettings,
    /// Where metrics are served; nowhere if absent.
    pub metrics: Option<SocketAddr>,
    /// The bounds.
    pub bounds: ServerBounds,
}

/// Declares the bounds: each a key of `[server]` with its default and range.
macro_rules! bounds {
    ($( $(#[doc = $about:literal])* $name:ident: $usual:literal in $low:literal..=$high:literal, )*) => {
        /// The bounds of the server; each is a key of `[server]`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct ServerBounds {
            $( $(#[doc = $about])* pub $name: u64, )*
        }

        impl Default for ServerBounds {
            fn default() -> Self {
                ServerBounds { $( $name: $usual, )* }
            }
        }

        impl ServerBounds {
            fn read(table: &Table<'_>) -> Result<Self, String> {
                Ok(ServerBounds { $( $name: table.number(stringify!($name), $usual, $low, $high)?, )* })
            }
        }
    };
}

bounds! {
    /// Bytes of a request's body.
    max_body_bytes: 16_777_216 in 1_024..=268_435_456,
    /// Bytes of a request's URL.
    max_url_bytes: 8_192 in 256..=32_768,
    /// Headers of a request.
    max_headers: 64 in 8..=1_024,
    /// Bytes of a request's headers.
    max_header_bytes: 16_384 in 4_096..=262_144,
    /// Entries in a batch.
    max_batch_entries: 1_000 in 1..=1_000,
    /// Entries on a page.
    max_page_entries: 1_000 in 1..=1_000,
    /// Bytes of payloads on a page.
    max_page_bytes: 8_388_608 in 1_024..=268_435_456,
    /// Milliseconds until a request must have its answer.
    request_timeout_ms: 30_000 in 100..=600_000,
    /// Milliseconds until a run of the Builder must have its answer.
    run_timeout_ms: 300_000 in 100..=3_600_000,
    /// Milliseconds until a client must have sent a request's headers; an idle connection is closed after as long.
    header_timeout_ms: 10_000 in 100..=600_000,
    /// Milliseconds until a TLS handshake must be done.
    handshake_timeout_ms: 10_000 in 100..=600_000,
    /// Milliseconds that a client may leave an answer unread.
    write_timeout_ms: 30_000 in 100..=600_000,
    /// Connections at a time.
    max_connections: 2_048 in 1..=65_536,
    /// Requests at a time.
    max_requests: 256 in 1..=65_536,
    /// Requests of one key at a time.
    max_requests_per_key: 64 in 1..=65_536,
    /// Requests of one key in a second.
    max_requests_per_second: 1_000 in 1..=1_000_000,
    /// Requests that use the ledger at a time.
    max_ledger_calls: 32 in 1..=512,
    /// Runs of the Builder at a time.
    max_runs: 8 in 1..=512,
    /// Runs that are accepted and undecided.
    max_accepted: 10_000 in 1..=1_000_000,
    /// Runs of one tenant that are accepted and undecided.
    max_accepted_per_tenant: 1_000 in 1..=1_000_000,
    /// How often an accepted run is taken up before it ends as failed.
    max_accepted_tries: 3 in 1..=100,
    /// Milliseconds that the answer of an accepted run is kept if it leaves nothing in the log.
    keep_refused_ms: 3_600_000 in 1_000..=604_800_000,
    /// Event streams at a time.
    max_streams: 1_024 in 1..=65_536,
    /// Bytes of recent entries that are in memory for event streams, of all tenants together.
    max_stream_buffer_bytes: 67_108_864 in 0..=4_294_967_296,
    /// Exports at a time.
    max_exports: 4 in 1..=256,
    /// Exports of one tenant at a time.
    max_exports_per_tenant: 1 in 1..=256,
    /// Milliseconds until an export must have ended.
    export_timeout_ms: 3_600_000 in 100..=86_400_000,
    /// Milliseconds that requests may take to finish when the server is stopped.
    shutdown_timeout_ms: 10_000 in 0..=600_000,
}

impl ServerSettings {
    /// Reads `[server]`; the defaults if there is none.
    ///
    /// # Errors
    /// When a key is not known or out of its range.
    pub fn load(configuration: &Configuration) -> Result<Self, ConfigError> {
        let empty = Default::default();
        let section = configuration.section("server")?.unwrap_or(&empty);
        let read = || {
            let table = Table::new(section);
            let names = |key| {
                let names = table.texts(key, MAX_NAMES)?;
                Ok::<_, String>(names.into_iter().map(str::to_ascii_lowercase).collect())
            };
            let (hosts, origins) = (names("hosts")?, names("origins")?);
            let file =
                |key| Ok::<_, String>(table.text(key)?.map(|path| absolute(configuration.folder(), path)));
            let tls = match (file("tls_cert")?, file("tls_key")?) {
                (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
                (None, None) => None,
                _ => return Err("`tls_cert` and `tls_key` are given together or not at all".to_owned()),
            };
            let webhooks = WebhookSettings::read(&table, configuration.folder())?;
            let metrics = table.text("metrics")?.map(|address| {
                address.parse().map_err(|_| format!("`metrics` is not an address with a port: `{address}`"))
            });
            let metrics = metrics.transpose()?;
            let bounds = ServerBounds::read(&table)?;
            table.finish()?;
            Ok(ServerSettings { hosts, origins, tls, webhooks, metrics, bounds })
        };
        read().map_err(|why| configuration.wrong("server", why))
    }
}

impl ServerBounds {
    /// A bound of the kind that counts something in memory.
    pub(crate) fn size(bound: u64) -> usize {
        usize::try_from(bound).unwrap_or(usize::MAX)
    }

    /// A bound in milliseconds.
    pub(crate) fn time(bound_ms: u64) -> Duration {
        Duration::from_millis(bound_ms)
    }
}
