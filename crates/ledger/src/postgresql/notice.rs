//! Notifies other processes that logs have grown, on a separate thread and connection. News that comes while one notice is sent
//! is combined into one more.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use super::server::{Purpose, Server};
use super::session::Session;
use crate::error::LedgerError;

/// How long a process waits for its last notice before it ends.
const LAST_NOTICE: Duration = Duration::from_secs(1);

enum Notice {
    Grown,
    End(Sender<()>),
}

/// Where a writer says that a log has grown.
#[derive(Clone)]
pub(super) struct Notices(SyncSender<Notice>);

impl Notices {
    /// One waiting notice is enough for all.
    pub(super) fn announce(&self) {
        let _ = self.0.try_send(Notice::Grown);
    }
}

/// The thread that sends notices; when this is dropped, the announced notices have been sent, or a second has passed.
pub(super) struct Notifier(Notices);

impl Notifier {
    pub(super) fn start(server: &Server) -> Result<Notifier, LedgerError> {
        let (sender, receiver) = sync_channel(1);
        let own = server.clone();
        let started = std::thread::Builder::new()
            .name("ledger-notifier".to_owned())
            .spawn(move || send(&own, &receiver));
        let failed = |error: std::io::Error| LedgerError::Failed {
            place: server.name().to_owned(),
            reason: error.to_string(),
        };
        started.map_err(failed)?;
        Ok(Notifier(Notices(sender)))
    }

    pub(super) fn notices(&self) -> Notices {
        self.0.clone()
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        let (done, ended) = channel();
        let mut end = Notice::End(done);
        for _ in 0..LAST_NOTICE.as_millis() {
            match self.0.0.try_send(end) {
                Ok(()) => break,
                Err(std::sync::mpsc::TrySendError::Full(back)) => end = back,
                Err(std::sync::mpsc::TrySendError::Disconnected(_)) => return,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = ended.recv_timeout(LAST_NOTICE);
    }
}

fn send(server: &Server, notices: &Receiver<Notice>) {
    let mut session: Option<Session> = None;
    for notice in notices {
        if let Notice::End(done) = notice {
            let _ = done.send(());
            return;
        }
        if session.as_ref().is_none_or(Session::is_closed) {
            // No one misses a notice that is lost with the server: the listeners lost it too.
            let quick = |mut session: Session| session.run("SET synchronous_commit = off").map(|()| session);
            session = server.connect(Purpose::Writing).and_then(quick).ok();
        }
        // Followers that miss a notice look again by themselves after a while.
        if let Some(session) = &mut session {
            let _ = session.run("NOTIFY crealeph_ledger");
        }
    }
}
