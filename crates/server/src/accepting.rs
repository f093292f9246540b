//! Accepted runs: this process starts them while it has capacity, tenants in turn, including those of processes that
//! died. When the server stops, runs that do not end in time are released.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{AcceptanceLimits, Millis};
use crealeph_runtime::builder::{BuildError, TakenRun};
use futures_util::future::select;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::app::App;
use crate::problem::Problem;
use crate::settings::ServerBounds;

/// How often work is looked for that other processes accepted or gave up.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long a run may take to be given back, once it was cancelled.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// What wakes those who wait for runs.
#[derive(Debug, Default)]
pub(crate) struct RunSignals {
    /// A request was accepted, or a place to run became free.
    pub work: Notify,
    /// A run has ended.
    pub ended: Notify,
}

impl ServerBounds {
    /// How many requests may be open.
    pub(crate) fn acceptance(&self) -> AcceptanceLimits {
        AcceptanceLimits {
            per_tenant: self.max_accepted_per_tenant,
            total: self.max_accepted,
            keep_ms: self.keep_refused_ms,
        }
    }
}

/// Takes up accepted runs until the server stops.
pub(crate) async fn take_up_runs(app: Arc<App>) {
    let mut turn = None;
    let mut stopping = app.stopping.clone();
    while !app.is_stopping() {
        // A place is taken only if there is something to run: others may need the last one.
        while app.runs.available_permits() > 0 && has_waiting(&app).await {
            let Some(permit) = app.run_permit() else { break };
            let (taken, next_turn) = take_up(&app, turn).await;
            turn = next_turn;
            let Some(taken) = taken else { break };
            start(&app, taken, permit);
        }
        let woken = timeout(LOOK_AGAIN, app.run_signals.work.notified());
        select(pin!(woken), pin!(stopping.wait_for(|is_stopping| *is_stopping))).await;
    }
}

/// Whether someone has to take up a run.
async fn has_waiting(app: &Arc<App>) -> bool {
    let own = Arc::clone(app);
    let looked = app.blocking(move || Ok(own.builder.has_waiting(ended_before(&own))?));
    // What failed is in the log, and tried again.
    looked.await.unwrap_or(false)
}

/// Outcomes that ended before this are no longer kept.
fn ended_before(app: &App) -> Millis {
    let keep_ms = i64::try_from(app.settings.bounds.keep_refused_ms).unwrap_or(i64::MAX);
    Millis::new(app.ledger.now().get().saturating_sub(keep_ms))
}

/// The next run, and whose turn it was.
async fn take_up(app: &Arc<App>, turn: Option<TenantId>) -> (Option<TakenRun>, Option<TenantId>) {
    let own = Arc::clone(app);
    let taken = app.blocking(move || {
        let mut turn = turn;
        let taken = own.builder.take_up(&mut turn, ended_before(&own)).map_err(Problem::from)?;
        Ok((taken, turn))
    });
    // What failed is in the log, and tried again.
    taken.await.unwrap_or((None, None))
}

fn start(app: &Arc<App>, taken: TakenRun, permit: OwnedSemaphorePermit) {
    let app = Arc::clone(app);
    spawn_blocking(move || {
        match app.builder.run_taken(taken, app.settings.bounds.max_accepted_tries, &app.cancel) {
            Ok(_) => {}
            Err(BuildError::Cancelled) => tracing::info!("an accepted run was given back"),
            Err(error) => tracing::error!(code = error.code(), "an accepted run failed: {error}"),
        }
        drop(permit);
        app.run_signals.ended.notify_waiters();
        app.run_signals.work.notify_one();
    });
}

/// Waits until nothing runs any more; when the time has expired, what runs is cancelled and given back.
pub(crate) async fn finish_runs(app: &App, time: Duration) {
    if timeout(time, app.all_run_permits()).await.is_err() {
        tracing::warn!("runs were still under way after {} ms", time.as_millis());
        app.cancel.cancel();
        app.workspace.iter().for_each(|workspace| workspace.interrupt());
        // What is not given back by then is taken up when its lease has expired.
        let _ = timeout(GIVE_BACK, app.all_run_permits()).await;
    }
}

#[cfg(test)]
mod tests {
    use crealeph_ledger::{Ledger, LedgerOptions, Location};
    use crealeph_runtime::agents::Agents;
    use crealeph_runtime::builder::Scopes;
    use crealeph_runtime::webhook::WebhookSettings;
    use tokio::task::yield_now;

    use super::*;
    use crate::routes::ReportRenderer;
    use crate::serve::{Server, ServerParts};
    use crate::settings::ServerSettings;

    /// A server that may run one thing at a time, over a new ledger.
    fn server(folder: &std::path::Path) -> Server {
        let ledger =
            Ledger::init(&Location::File(folder.join("ledger.db")), LedgerOptions::default()).unwrap();
        let settings = ServerSettings {
            hosts: Vec::new(),
            origins: Vec::new(),
            tls: None,
            metrics: None,
            bounds: ServerBounds { max_runs: 1, ..ServerBounds::default() },
            webhooks: WebhookSettings::default(),
        };
        let renderer = ReportRenderer {
            markdown: |report| report.made_at.clone(),
            html: |report| report.made_at.clone(),
            content_security: "default-src 'none'",
        };
        let (agents, scopes) = (Agents::default(), Scopes::default());
        let parts = ServerParts { ledger, agents, scopes, settings, renderer, workspace: None };
        Server::bind("127.0.0.1:0".parse().unwrap(), false, parts).unwrap()
    }

    #[test]
    fn looking_for_accepted_runs_does_not_take_the_last_slot() {
        let folder = tempfile::tempdir().unwrap();
        let server = server(folder.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let app = Arc::clone(&server.app);
            let all = u32::try_from(app.ledger_calls.available_permits()).unwrap();
            // It stays where it looks, since no call of the ledger is left for it.
            let busy = app.ledger_calls.acquire_many(all).await.unwrap();
            let looking = tokio::spawn(take_up_runs(Arc::clone(&app)));
            while !app.metrics.text(&app).unwrap().contains("crealeph_ledger_calls_waiting 1\n") {
                yield_now().await;
            }
            assert!(app.run_permit().is_some(), "a run that a client sends now is refused");
            drop(busy);
            looking.abort();
        });
    }
}
