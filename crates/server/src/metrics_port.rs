//! The port of the metrics: one path, few connections, no key. It is a loopback address, or one that a proxy protects.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Response, StatusCode};
use futures_util::future::{Either, select};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::app::App;
use crate::hosts::{Encryption, ServerNames};
use crate::http::answer_alone;
use crate::metrics::METRICS_TYPE;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::settings::ServerBounds;
use crate::stream::TimedStream;

/// How many connections there are at a time; more wait.
const MAX_CONNECTIONS: usize = 16;
/// How long to wait when the system takes no connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Answers until the server stops.
pub(crate) async fn serve_metrics(listener: TcpListener, address: SocketAddr, app: Arc<App>) {
    let names = Arc::new(ServerNames::new(address, &app.settings, Encryption::Unknown));
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut stopping = app.stopping.clone();
    loop {
        let next = async { (Arc::clone(&places).acquire_owned().await, listener.accept().await) };
        let accepted = match select(pin!(next), pin!(stopping.wait_for(|stops| *stops))).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => return,
        };
        let (Ok(place), Ok((stream, _))) = accepted else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        let (app, names) = (Arc::clone(&app), Arc::clone(&names));
        tokio::spawn(async move {
            if let Err(error) = serve(stream, app, names).await {
                tracing::debug!("a connection for metrics ended: {error}");
            }
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, app: Arc<App>, names: Arc<ServerNames>) -> Result<(), hyper::Error> {
    let bounds = app.settings.bounds;
    let stream = TimedStream::new(stream, ServerBounds::time(bounds.write_timeout_ms));
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(&app, &names, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ServerBounds::time(bounds.header_timeout_ms))
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(app: &App, names: &ServerNames, request: &Request<Incoming>) -> Response<Body> {
    let reply = || {
        names.check(request.uri(), request.headers())?;
        match (request.uri().path(), request.method()) {
            ("/metrics", &Method::GET | &Method::HEAD) => {}
            ("/metrics", _) => {
                let kind = ProblemKind::MethodNotAllowed;
                return Err(Problem::new(kind, "the path does not support this method"));
            }
            _ => return Err(Problem::new(ProblemKind::NoRoute, "this port has only /metrics")),
        }
        let text = app.metrics.text(app).map_err(|error| {
            tracing::error!("the metrics cannot be written: {error}");
            Problem::new(ProblemKind::Other(StatusCode::INTERNAL_SERVER_ERROR, "internal"), "no metrics")
        })?;
        Ok(Reply::text(METRICS_TYPE, text))
    };
    answer_alone(request.headers(), reply())
}
