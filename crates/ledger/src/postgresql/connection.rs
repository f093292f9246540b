//! One connection to the server, driven by the thread that waits for an answer. Several messages may be in flight before
//! the first is answered.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

type Incoming = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

pub(super) struct Connection {
    client: Client,
    runtime: Runtime,
    incoming: Incoming,
    /// A notification came that was not read yet.
    has_news: bool,
}

impl Connection {
    /// Connects; the outer error is this machine's own.
    pub(super) fn open(
        config: &Config,
        tls: Option<&MakeRustlsConnect>,
    ) -> io::Result<Result<Connection, Error>> {
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
        Ok(connected.map(|(client, incoming)| Connection { client, runtime, incoming, has_news: false }))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends and waits for the answer.
    pub(super) fn wait<T>(&mut self, ask: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        let Connection { client, runtime, incoming, has_news } = self;
        let mut answer = pin!(ask(client));
        runtime.block_on(poll_fn(|context| match drive(incoming, has_news, context) {
            Err(error) => Poll::Ready(Err(error)),
            Ok(_) => answer.as_mut().poll(context),
        }))
    }

    /// Sends statements without parameters, and does not wait for the answer.
    pub(super) fn send(&mut self, sql: &str) {
        let Connection { client, runtime, incoming, has_news } = self;
        let mut answer = pin!(client.batch_execute(sql));
        runtime.block_on(poll_fn(|context| {
            // If this fails, the next query fails in the same way and reports it.
            let _ = answer.as_mut().poll(context).map(|_| ());
            let _ = drive(incoming, has_news, context);
            Poll::Ready(())
        }));
    }

    /// Waits, up to a limit, for a notification; further notifications that have come by then are the same news.
    pub(super) fn wait_for_news(&mut self, time: Duration) -> Result<bool, Error> {
        let Connection { runtime, incoming, has_news, .. } = self;
        let heard = poll_fn(|context| match drive(incoming, has_news, context) {
            Err(error) => Poll::Ready(Err(error)),
            Ok(_) if std::mem::take(has_news) => Poll::Ready(Ok(true)),
            Ok(is_ended) if is_ended => Poll::Ready(Ok(false)),
            Ok(_) => Poll::Pending,
        });
        runtime.block_on(async { tokio::time::timeout(time, heard).await.unwrap_or(Ok(false)) })
    }

    /// Ends the session, and waits until the server has closed the connection.
    pub(super) fn close(self) {
        let Connection { client, runtime, mut incoming, mut has_news } = self;
        drop(client);
        runtime.block_on(poll_fn(|context| match drive(&mut incoming, &mut has_news, context) {
            Ok(false) => Poll::Pending,
            Ok(true) | Err(_) => Poll::Ready(()),
        }));
    }
}

/// Sends and receives what is available; returns whether the connection has ended.
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
