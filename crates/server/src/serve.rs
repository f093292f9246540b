//! The listening socket: connections within their limits, and a shutdown that finishes requests in flight.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crealeph_ledger::{Ledger, LedgerError};
use crealeph_runtime::agents::Agents;
use crealeph_runtime::builder::{Cancel, Scopes};
use crealeph_runtime::shared::SharedConfiguration;
use crealeph_runtime::webhook::{Deliverer, WebhookError};
use futures_util::future::{Either, select};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::disable_transparent_huge_pages;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::accepting::{finish_runs, take_up_runs};
use crate::app::App;
use crate::connection::Connection;
use crate::hosts::{Encryption, ServerNames};
use crate::http::router;
use crate::membership::ProcessEntry;
use crate::metrics_port::serve_metrics;
use crate::routes::ReportRenderer;
use crate::session::SessionCookie;
use crate::settings::{ServerBounds, ServerSettings};
use crate::tls::{ServerTls, TlsError};
use crate::workspace::ServerWorkspace;

/// How long to wait when the system takes no connection, too many open files for example.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address that others can reach, without encryption.
    #[error(
        "`{0}` is not a loopback address, and the server has no certificate: keys would be sent unencrypted"
    )]
    Unprotected(SocketAddr),
    /// Metrics where others can reach them.
    #[error("`{0}` is not a loopback address, and metrics are served to anyone who asks")]
    UnprotectedMetrics(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A server that is alive on the same ledger decides by other rules or agents.
    #[error(
        "{holder} uses this ledger with another configuration: its digest is {other}, and this server's is {own}{sections}"
    )]
    OtherConfiguration {
        /// The digest of this server's configuration.
        own: String,
        /// The other's.
        other: String,
        /// Who that is.
        holder: String,
        /// Which sections differ, if that is known.
        sections: String,
    },
    /// A server with another configuration came to replace this one.
    #[error("this server was replaced by one with another configuration")]
    Replaced,
    /// The ledger could not be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The system refuses threads or timers.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
    /// Webhooks cannot be delivered.
    #[error("cannot deliver webhooks")]
    Webhooks(#[source] WebhookError),
}

impl ServeError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ServeError::Unprotected(_) | ServeError::UnprotectedMetrics(_) => "unprotected_address",
            ServeError::Listen { .. } => "listen_failed",
            ServeError::Tls(_) => "bad_certificate",
            ServeError::OtherConfiguration { .. } => "other_configuration",
            ServeError::Replaced => "server_replaced",
            ServeError::Ledger(error) => error.code(),
            ServeError::Start(_) => "server_failed",
            ServeError::Webhooks(error) => error.code(),
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ServeError::Unprotected(_) => Some(
                "give a certificate with --tls-cert and --tls-key, or add --behind-proxy and listen on 127.0.0.1 behind a proxy with TLS, or on this address if the network between them is safe",
            ),
            ServeError::UnprotectedMetrics(_) => Some(
                "serve them on 127.0.0.1; if a proxy or a firewall protects the address, add --behind-proxy",
            ),
            ServeError::Listen { .. } => {
                Some("choose another port with --listen 127.0.0.1:PORT, or 0 for a free one")
            }
            ServeError::Tls(TlsError::Open { .. }) => Some("remove their permission: chmod 600"),
            ServeError::Tls(_) => Some(
                "give the certificate with its chain and its key as PEM files; the key has no passphrase",
            ),
            ServeError::Webhooks(_) => Some("check the keys that begin with `webhook` under [server]"),
            ServeError::OtherConfiguration { .. } => Some(
                "give both the same [builder], [tenants] and [agents]; or stop the others first (one that died counts for 15 s); or add --replace-configuration, which makes the others exit",
            ),
            ServeError::Replaced => Some("start it again with the configuration that is in force"),
            ServeError::Ledger(_) | ServeError::Start(_) => None,
        }
    }
}

/// Ends a server from elsewhere.
#[derive(Clone, Debug)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Takes no more requests and finishes those in flight, within `shutdown_timeout_ms`.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// What a server works with.
pub struct ServerParts {
    /// The ledger.
    pub ledger: Ledger,
    /// The agents that runs may call.
    pub agents: Agents,
    /// What the Builder goes by.
    pub scopes: Scopes,
    /// Names and bounds.
    pub settings: ServerSettings,
    /// How reports are written for people.
    pub renderer: ReportRenderer,
    /// The workspace that it is started in, if that is recorded in the ledger.
    pub workspace: Option<ServerWorkspace>,
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    pub(crate) app: Arc<App>,
    tls: Option<ServerTls>,
    metrics: Option<(TcpListener, SocketAddr)>,
    stop: watch::Sender<bool>,
    /// Its entry among the servers of the ledger.
    entry: Option<ProcessEntry>,
}

/// What protects an address: nothing is needed on this machine alone.
fn protection(
    address: SocketAddr,
    is_behind_proxy: bool,
    settings: &ServerSettings,
) -> Result<Option<ServerTls>, ServeError> {
    if !address.ip().is_loopback() && !is_behind_proxy && settings.tls.is_none() {
        return Err(ServeError::Unprotected(address));
    }
    let tls = settings.tls.clone().map(ServerTls::load).transpose()?;
    match settings.metrics {
        Some(metrics) if !metrics.ip().is_loopback() && !is_behind_proxy => {
            Err(ServeError::UnprotectedMetrics(metrics))
        }
        _ => Ok(tls),
    }
}

impl Server {
    /// Checks what protects the addresses of a server, before anything is made for it.
    ///
    /// # Errors
    /// When an address is not protected, or the certificate cannot be used.
    pub fn check(
        address: SocketAddr,
        is_behind_proxy: bool,
        settings: &ServerSettings,
    ) -> Result<(), ServeError> {
        protection(address, is_behind_proxy, settings).map(|_| ())
    }

    /// Listens on an address: a loopback address, or any if TLS or a proxy protects it.
    ///
    /// # Errors
    /// When the address is not protected or cannot be had, or the certificate cannot be used.
    pub fn bind(address: SocketAddr, is_behind_proxy: bool, parts: ServerParts) -> Result<Self, ServeError> {
        let tls = protection(address, is_behind_proxy, &parts.settings)?;
        let metrics = parts.settings.metrics.map(listen).transpose()?;
        let (listener, address) = listen(address)?;
        let encryption = match (&tls, is_behind_proxy) {
            (Some(_), _) => Encryption::Own,
            (None, true) => Encryption::Proxy,
            (None, false) => Encryption::Unknown,
        };
        let names = ServerNames::new(address, &parts.settings, encryption);
        let cookie = SessionCookie::new(address.port());
        let cancel = Cancel::new().map_err(ServeError::Start)?;
        let stop = watch::Sender::new(false);
        let app = Arc::new(App::new(parts, cancel, names, cookie, stop.subscribe()));
        Ok(Server { listener, address, app, tls, metrics, stop, entry: None })
    }

    /// Enters among the servers of the ledger, unless one that is alive has another configuration; with `replaces` that one ends.
    ///
    /// # Errors
    /// When there is such a server, or the ledger cannot be used.
    pub fn enter(&mut self, configuration: SharedConfiguration, replaces: bool) -> Result<(), ServeError> {
        self.entry = Some(ProcessEntry::enter(&self.app.ledger, configuration, replaces)?);
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How clients on this machine reach it. Browsers take `localhost` for safe, and no number.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let usual = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        match usual.contains(&self.address.ip()) {
            true => format!("{scheme}://localhost:{}", self.address.port()),
            false => format!("{scheme}://{}", self.address),
        }
    }

    /// Where its metrics are.
    pub fn metrics_url(&self) -> Option<String> {
        self.metrics.as_ref().map(|(_, address)| format!("http://{address}/metrics"))
    }

    /// What ends it.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.clone())
    }

    /// Answers requests until it is stopped.
    ///
    /// # Errors
    /// When the system refuses threads or timers.
    pub fn run(self) -> Result<(), ServeError> {
        raise_file_limit();
        use_small_pages();
        let (bounds, entry) = (self.app.settings.bounds, self.entry.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("server")
            .max_blocking_threads(ServerBounds::size(bounds.max_ledger_calls + bounds.max_runs))
            .build()
            .map_err(ServeError::Start)?;
        let deliverer = Deliverer::start(self.app.ledger.clone(), self.app.settings.webhooks.clone());
        let deliverer = deliverer.map_err(ServeError::Webhooks)?;
        let outcome = runtime.block_on(self.listen());
        drop(deliverer);
        // Work on the ledger that is still under way is finished or lost whole; no one waits for its answer any more.
        runtime.shutdown_timeout(ServerBounds::time(bounds.shutdown_timeout_ms));
        outcome.and(entry.map_or(Ok(()), |entry| entry.leave()))
    }

    async fn listen(self) -> Result<(), ServeError> {
        let Server { listener, app, tls, metrics, stop, entry, .. } = self;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Start)?;
        let bounds = app.settings.bounds;
        let router = router(&app);
        let config = tls.as_ref().map(|tls| Arc::clone(&tls.config));
        if let Some(tls) = tls {
            tokio::spawn(tls.reload(stop.subscribe()));
        }
        if let Some((listener, address)) = metrics {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Start)?;
            tokio::spawn(serve_metrics(listener, address, Arc::clone(&app)));
        }
        let graceful = GracefulShutdown::new();
        tokio::spawn(take_up_runs(Arc::clone(&app)));
        if let Some(entry) = entry {
            tokio::spawn(entry.renew(stop.clone()));
        }
        let mut stopped = stop.subscribe();
        loop {
            let next = async {
                let permit = Arc::clone(&app.connections).acquire_owned().await;
                (permit, listener.accept().await)
            };
            let accepted = match select(pin!(next), pin!(stopped.wait_for(|is_stopped| *is_stopped))).await {
                Either::Left(((Ok(permit), Ok((stream, _))), _)) => Some((permit, stream)),
                Either::Left(_) => None,
                Either::Right(_) => break,
            };
            match accepted {
                Some((permit, stream)) => {
                    let (app, router, watcher) = (Arc::clone(&app), router.clone(), graceful.watcher());
                    let connection = Connection { app, router, watcher, permit };
                    tokio::spawn(connection.serve(stream, config.clone()));
                }
                None => sleep(ACCEPT_RETRY).await,
            }
        }
        drop(listener);
        let (start, time) = (Instant::now(), ServerBounds::time(bounds.shutdown_timeout_ms));
        if timeout(time, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests were still in flight after {} ms", bounds.shutdown_timeout_ms);
        }
        // A run that is ended then has written nothing.
        finish_runs(&app, time.saturating_sub(start.elapsed())).await;
        Ok(())
    }
}

/// Listens on an address; with port 0 on a free one.
fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Each of a hundred threads has a heap of its own, of which it touches a little in many places. In pages of 2 MiB that is a gigabyte.
fn use_small_pages() {
    if let Err(error) = disable_transparent_huge_pages(true) {
        tracing::debug!("memory may come in huge pages: {error}");
    }
}

/// A connection is an open file: takes as many as the system allows, which a shell's usual bound is far below.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!("the limit on open files stays as it is: {error}");
    }
}
