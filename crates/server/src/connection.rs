//! One connection: its handshake if the server has TLS, then its requests, each step within its limit. A connection ends by
//! itself, because of a client's fault, or because of a limit; none of these is an error of the server.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures_util::future::{Either, select};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::app::App;
use crate::http::{answer, refuse_plain};
use crate::settings::ServerBounds;
use crate::stream::TimedStream;
use crate::tls::HANDSHAKE;

/// How much larger than ours the bounds of the HTTP parser are: between the two, a client gets an answer that says why.
const PARSER_SLACK: usize = 4;
/// The smallest buffer that the HTTP parser takes.
const MIN_BUFFER_BYTES: usize = 8_192;

/// A connection that was accepted.
pub(crate) struct Connection {
    pub app: Arc<App>,
    pub router: Router,
    /// Tells it that the server stops.
    pub watcher: Watcher,
    pub permit: OwnedSemaphorePermit,
}

/// What a client turned out to speak on a port that has TLS.
enum Opened {
    Encrypted(Box<TlsStream<TimedStream>>),
    /// Something else, plain HTTP probably.
    Plain(TimedStream),
}

impl Connection {
    /// Serves it to its end.
    pub(crate) async fn serve(self, stream: TcpStream, tls: Option<Arc<ServerConfig>>) {
        // Small answers are sent at once.
        let _ = stream.set_nodelay(true);
        let bounds = &self.app.settings.bounds;
        let write_timeout = ServerBounds::time(bounds.write_timeout_ms);
        let Some(config) = tls else {
            return self.requests(TimedStream::new(stream, write_timeout), false).await;
        };
        let mut stopping = self.app.stopping.clone();
        let opening = timeout(ServerBounds::time(bounds.handshake_timeout_ms), async {
            let mut first = [0];
            stream.peek(&mut first).await?;
            let stream = TimedStream::new(stream, write_timeout);
            match first {
                [HANDSHAKE] => {
                    Ok(Opened::Encrypted(Box::new(TlsAcceptor::from(config).accept(stream).await?)))
                }
                _ => Ok::<_, io::Error>(Opened::Plain(stream)),
            }
        });
        let opened = match select(pin!(opening), pin!(stopping.wait_for(|stops| *stops))).await {
            Either::Left((opened, _)) => opened,
            Either::Right(_) => return,
        };
        match opened {
            Ok(Ok(Opened::Encrypted(stream))) => self.requests(stream, false).await,
            Ok(Ok(Opened::Plain(stream))) => self.requests(stream, true).await,
            Ok(Err(error)) => tracing::debug!("a handshake failed: {error}"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
    }

    /// Answers its requests, or refuses them because they came without encryption.
    async fn requests(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, is_refused: bool) {
        let Connection { app, router, watcher, permit } = self;
        let bounds = app.settings.bounds;
        let service = service_fn(move |request: Request<Incoming>| {
            let (app, router) = (Arc::clone(&app), router.clone());
            async move {
                Ok::<_, Infallible>(match is_refused {
                    true => refuse_plain(request.headers()),
                    false => answer(app, router, request.map(Body::new)).await,
                })
            }
        });
        let buffer = ServerBounds::size(bounds.max_header_bytes + bounds.max_url_bytes);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(ServerBounds::time(bounds.header_timeout_ms))
            .max_headers(ServerBounds::size(bounds.max_headers) * PARSER_SLACK)
            .max_buf_size((buffer * PARSER_SLACK).max(MIN_BUFFER_BYTES))
            .half_close(true)
            .keep_alive(!is_refused)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!("a connection ended: {error}");
        }
        drop(permit);
    }
}
