//! The state that all requests share: the ledger, the settings, and counters.

use std::sync::Arc;

use axum::http::HeaderMap;
use crealeph_ledger::Ledger;
use crealeph_runtime::access::RecognisedKeys;
use crealeph_runtime::builder::{Builder, Cancel, Scopes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tracing::Span;

use crate::accepting::RunSignals;
use crate::checkpoints::NewestCheckpoints;
use crate::follower::Followers;
use crate::hosts::ServerNames;
use crate::limits::{ExportUses, KeyUses};
use crate::metrics::ServerMetrics;
use crate::only_tenant::OnlyTenant;
use crate::problem::{Problem, ProblemKind};
use crate::routes::ReportRenderer;
use crate::serve::ServerParts;
use crate::session::SessionCookie;
use crate::settings::{ServerBounds, ServerSettings};
use crate::snapshots::NewestSnapshots;
use crate::workspace::ServerWorkspace;

/// The shared part.
pub(crate) struct App {
    pub ledger: Ledger,
    pub builder: Builder,
    pub scopes: Scopes,
    /// Ends the agents that still run when the server has to end.
    pub cancel: Cancel,
    pub settings: ServerSettings,
    pub renderer: ReportRenderer,
    /// The workspace on this machine.
    pub workspace: Option<Arc<ServerWorkspace>>,
    pub names: ServerNames,
    /// What is counted for operators.
    pub metrics: ServerMetrics,
    /// Connections.
    pub connections: Arc<Semaphore>,
    /// Requests in flight.
    pub requests: Arc<Semaphore>,
    /// Requests that use the ledger.
    pub ledger_calls: Arc<Semaphore>,
    /// Runs of the Builder.
    pub runs: Arc<Semaphore>,
    pub run_signals: RunSignals,
    pub keys: Arc<KeyUses>,
    pub recognised: Arc<RecognisedKeys>,
    /// The same for sessions of the console.
    pub sessions: Arc<RecognisedKeys>,
    pub cookie: SessionCookie,
    pub only_tenant: OnlyTenant,
    pub snapshots: NewestSnapshots,
    /// Event streams.
    pub streams: Arc<Semaphore>,
    /// Exports, of all tenants and of each.
    pub exports: Arc<Semaphore>,
    pub exporting: Arc<ExportUses>,
    /// Whether the server is to end.
    pub stopping: watch::Receiver<bool>,
    pub checkpoints: NewestCheckpoints,
    /// Who reads logs for the streams.
    pub followers: Arc<Followers>,
}

impl App {
    pub(crate) fn new(
        parts: ServerParts,
        cancel: Cancel,
        names: ServerNames,
        cookie: SessionCookie,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let ServerParts { ledger, agents, scopes, settings, renderer, workspace } = parts;
        let builder = Builder::new(ledger.clone(), agents, scopes.clone());
        let bounds = &settings.bounds;
        let permits = |bound| Arc::new(Semaphore::new(ServerBounds::size(bound)));
        App {
            metrics: ServerMetrics::default(),
            connections: permits(bounds.max_connections),
            requests: permits(bounds.max_requests),
            ledger_calls: permits(bounds.max_ledger_calls),
            runs: permits(bounds.max_runs),
            run_signals: RunSignals::default(),
            keys: Arc::default(),
            recognised: Arc::default(),
            sessions: Arc::new(RecognisedKeys::of_sessions()),
            cookie,
            only_tenant: OnlyTenant::default(),
            snapshots: NewestSnapshots::default(),
            streams: permits(bounds.max_streams),
            exports: permits(bounds.max_exports),
            exporting: Arc::default(),
            stopping,
            checkpoints: NewestCheckpoints::default(),
            followers: Arc::default(),
            ledger,
            builder,
            scopes,
            cancel,
            settings,
            renderer,
            workspace: workspace.map(Arc::new),
            names,
        }
    }

    /// Does something that may block, on a thread for that. The number of such threads is bounded; while all are busy this
    /// waits, and the request's own timeout ends the wait. Work that was started is finished, even if no one waits for it.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let waiting = self.metrics.waiting_call();
        let permit = Arc::clone(&self.ledger_calls).acquire_owned().await;
        drop(waiting);
        let permit = permit.map_err(|_| Problem::new(ProblemKind::Overloaded, "the server is stopping"))?;
        on_thread(permit, work).await
    }

    /// Runs something that takes as long as an agent does; refused while too many run.
    pub(crate) async fn running<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = Arc::clone(&self.runs).try_acquire_owned().map_err(|_| {
            let most = self.settings.bounds.max_runs;
            let detail = "the server has reached its limit of Builder runs at a time; try again";
            Problem::bound(ProblemKind::Overloaded, "max_runs", most, detail)
        })?;
        let done = on_thread(permit, work).await;
        self.run_signals.work.notify_one();
        done
    }

    /// The token of the session's cookie in a request.
    pub(crate) fn session_token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        self.cookie.token(headers, self.names.only_https(headers))
    }

    /// The right to run something, if there is one left.
    pub(crate) fn run_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.runs).try_acquire_owned().ok()
    }

    /// Waits until nothing runs.
    pub(crate) async fn all_run_permits(&self) {
        let all = u32::try_from(self.settings.bounds.max_runs).unwrap_or(u32::MAX);
        // No one closes the semaphore.
        let _ = self.runs.acquire_many(all).await;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}

/// Does something on a thread that may block, and gives the permit back when it is done.
async fn on_thread<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let span = Span::current();
    let done = spawn_blocking(move || {
        let result = span.in_scope(work);
        drop(permit);
        result
    });
    match done.await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!("a request failed: {error}");
            Err(Problem::new(ProblemKind::Internal, "the request failed")
                .with_hint("its log has the cause under this request's id"))
        }
    }
}
