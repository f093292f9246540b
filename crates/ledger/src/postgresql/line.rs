//! What is said to the server and heard from it, driven by whichever thread waits for an answer. Several messages may be
//! on their way before the first is answered, which the blocking client of the `postgres` crate cannot do.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use postgres::{Error, NoTls};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

type Incoming = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

pub(super) struct Line {
    runtime: Runtime,
    incoming: Incoming,
    /// A notification came that nobody was told of.
    has_news: bool,
}

impl Line {
    /// Connects; the outer error is this machine's own.
    pub(super) fn open(
        config: &Config,
        tls: Option<&MakeRustlsConnect>,
    ) -> io::Result<Result<(Client, Line), Error>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connected = match tls {
            Some(tls) => runtime.block_on(config.connect(tls.clone())).map(|(client, mut connection)| {
                let incoming: Incoming = Box::new(move |context| connection.poll_message(context));
                (client, incoming)
            }),
            None => runtime.block_on(config.connect(NoTls)).map(|(client, mut connection)| {
                let incoming: Incoming = Box::new(move |context| connection.poll_message(context));
                (client, incoming)
            }),
        };
        Ok(connected.map(|(client, incoming)| (client, Line { runtime, incoming, has_news: false })))
    }

    /// Waits for an answer.
    pub(super) fn wait<T>(&mut self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut answer = pin!(answer);
        let Line { runtime, incoming, has_news } = self;
        runtime.block_on(poll_fn(|context| match drive(incoming, has_news, context) {
            Err(error) => Poll::Ready(Err(error)),
            Ok(_) => answer.as_mut().poll(context),
        }))
    }

    /// Sends what the answer is of, and does not wait for it.
    pub(super) fn send<T>(&mut self, answer: impl Future<Output = Result<T, Error>>) {
        let mut answer = pin!(answer);
        let Line { runtime, incoming, has_news } = self;
        runtime.block_on(poll_fn(|context| {
            // Whoever asks next meets the same trouble.
            let _ = answer.as_mut().poll(context).map(|_| ());
            let _ = drive(incoming, has_news, context);
            Poll::Ready(())
        }));
    }

    /// Waits, up to a bound, for a notification; what else has come by then is the same news.
    pub(super) fn wait_for_news(&mut self, time: Duration) -> Result<bool, Error> {
        let Line { runtime, incoming, has_news } = self;
        let heard = poll_fn(|context| match drive(incoming, has_news, context) {
            Err(error) => Poll::Ready(Err(error)),
            Ok(_) if std::mem::take(has_news) => Poll::Ready(Ok(true)),
            Ok(is_over) if is_over => Poll::Ready(Ok(false)),
            Ok(_) => Poll::Pending,
        });
        runtime.block_on(async { tokio::time::timeout(time, heard).await.unwrap_or(Ok(false)) })
    }
}

/// Sends and takes what there is; whether the connection is over.
fn drive(incoming: &mut Incoming, has_news: &mut bool, context: &mut Context<'_>) -> Result<bool, Error> {
    loop {
        match incoming(context) {
            Poll::Ready(Some(Ok(message))) => *has_news |= matches!(message, AsyncMessage::Notification(_)),
            Poll::Ready(Some(Err(error))) => return Err(error),
            Poll::Ready(None) => return Ok(true),
            Poll::Pending => return Ok(false),
        }
    }
}
