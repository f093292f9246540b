//! The listening socket: connections within their bounds, and an end in which requests in flight are finished.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use crealeph_ledger::Ledger;
use crealeph_runtime::agents::Agents;
use crealeph_runtime::builder::{Cancel, Scopes};
use futures_util::future::{Either, select};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::hosts::ServerNames;
use crate::http::{answer, router};
use crate::routes::ReportRenderer;
use crate::settings::{ServerBounds, ServerSettings};
use crate::stream::TimedStream;

/// How long to wait when the system takes no connection, too many open files for example.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// How much larger than ours the bounds of the HTTP parser are: between the two, a client gets an answer that says why.
const PARSER_SLACK: usize = 4;
/// The smallest buffer that the HTTP parser takes.
const MIN_BUFFER_BYTES: usize = 8_192;

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address that others can reach, without encryption.
    #[error(
        "`{0}` is not a loopback address, and the server has no TLS of its own: keys would be sent in the clear"
    )]
    Unprotected(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The system refuses threads or timers.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
}

impl ServeError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ServeError::Unprotected(_) => "unprotected_address",
            ServeError::Listen { .. } => "listen_failed",
            ServeError::Start(_) => "server_failed",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ServeError::Unprotected(_) => Some(
                "listen on 127.0.0.1 and put a proxy with TLS in front; if the proxy is on another machine and the network between them is safe, add --behind-proxy",
            ),
            ServeError::Listen { .. } => {
                Some("choose another port with --listen 127.0.0.1:PORT, or 0 for a free one")
            }
            ServeError::Start(_) => None,
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
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Listens on an address: a loopback address, or any if a proxy protects it.
    ///
    /// # Errors
    /// When the address is not protected or cannot be had.
    pub fn bind(address: SocketAddr, is_behind_proxy: bool, parts: ServerParts) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() && !is_behind_proxy {
            return Err(ServeError::Unprotected(address));
        }
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let names = ServerNames::new(address, &parts.settings);
        let cancel = Cancel::new().map_err(ServeError::Start)?;
        let stop = watch::Sender::new(false);
        let app = Arc::new(App::new(parts, cancel, names, stop.subscribe()));
        Ok(Server { listener, address, app, stop })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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
        let bounds = self.app.settings.bounds;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("server")
            .max_blocking_threads(ServerBounds::size(bounds.max_ledger_calls + bounds.max_runs))
            .build()
            .map_err(ServeError::Start)?;
        let outcome = runtime.block_on(self.listen());
        // Work on the ledger that is still under way is finished or lost whole; nobody waits for its answer any more.
        runtime.shutdown_timeout(ServerBounds::time(bounds.shutdown_timeout_ms));
        outcome
    }

    async fn listen(self) -> Result<(), ServeError> {
        let Server { listener, app, stop, .. } = self;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Start)?;
        let bounds = app.settings.bounds;
        let connections = Arc::new(Semaphore::new(ServerBounds::size(bounds.max_connections)));
        let router = router(&app);
        let graceful = GracefulShutdown::new();
        let mut stopped = stop.subscribe();
        loop {
            let next = async {
                let permit = Arc::clone(&connections).acquire_owned().await;
                (permit, listener.accept().await)
            };
            let accepted = match select(pin!(next), pin!(stopped.wait_for(|is_stopped| *is_stopped))).await {
                Either::Left(((Ok(permit), Ok((stream, _))), _)) => Some((permit, stream)),
                Either::Left(_) => None,
                Either::Right(_) => break,
            };
            match accepted {
                Some((permit, stream)) => start(stream, &app, &router, &graceful, permit),
                None => sleep(ACCEPT_RETRY).await,
            }
        }
        drop(listener);
        if timeout(ServerBounds::time(bounds.shutdown_timeout_ms), graceful.shutdown()).await.is_err() {
            tracing::warn!("requests were still in flight after {} ms", bounds.shutdown_timeout_ms);
            // A run that is ended now has written nothing.
            app.cancel.cancel();
        }
        Ok(())
    }
}

/// A connection is an open file: takes as many as the system allows, which a shell's usual bound is far below.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!("the bound of open files stays as it is: {error}");
    }
}

/// Serves a connection, which ends by itself, by a client's fault, or by a bound; none of that is an error of the server.
fn start(
    stream: TcpStream,
    app: &Arc<App>,
    router: &Router,
    graceful: &GracefulShutdown,
    permit: OwnedSemaphorePermit,
) {
    // Small answers are sent at once.
    let _ = stream.set_nodelay(true);
    let bounds = &app.settings.bounds;
    let stream = TimedStream::new(stream, ServerBounds::time(bounds.write_timeout_ms));
    let (app, router) = (Arc::clone(app), router.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(Arc::clone(&app), router.clone(), request.map(Body::new));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let buffer = ServerBounds::size(bounds.max_header_bytes + bounds.max_url_bytes);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ServerBounds::time(bounds.header_timeout_ms))
        .max_headers(ServerBounds::size(bounds.max_headers) * PARSER_SLACK)
        .max_buf_size((buffer * PARSER_SLACK).max(MIN_BUFFER_BYTES))
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("a connection ended: {error}");
        }
        drop(permit);
    });
}
