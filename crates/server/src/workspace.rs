//! The workspace that the server is started in: what the server shows of it, and undoing a run in it. Ensures that one run is undone at a time, within the
//! limit of runs, and that a stopping server ends it; `runtime` decides what an undo does and refuses.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use crealeph_contracts::scalar::Name;
use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::work::{Interrupt, ServedWorkspace, UndoOptions, Work, WorkProgress};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::app::App;
use crate::problem::{Problem, ProblemKind};

/// How long a request waits until the run that undoes another has started, or was refused.
const START: Duration = Duration::from_secs(20);

/// Opens the workspace for work, by all rules of the command line; else says why not.
pub type OpenWork = Box<dyn Fn() -> Result<Work, String> + Send + Sync>;

/// The workspace that a server is started in.
pub struct ServerWorkspace {
    pub(crate) served: ServedWorkspace,
    open: OpenWork,
    /// Undoing, one at a time.
    undoing: Arc<Semaphore>,
    running: Mutex<Option<Interrupt>>,
}

impl ServerWorkspace {
    /// A workspace, and how it is opened for work.
    pub fn new(served: ServedWorkspace, open: OpenWork) -> Self {
        ServerWorkspace { served, open, undoing: Arc::new(Semaphore::new(1)), running: Mutex::default() }
    }

    /// Ends what runs in it.
    pub(crate) fn interrupt(&self) {
        self.running().iter().for_each(Interrupt::interrupt);
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Interrupt>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the run that undoes another, and gives its id; absent if it has not started in the time that a request has.
pub(crate) fn start_undo(
    app: &Arc<App>,
    workspace: &Arc<ServerWorkspace>,
    run: Uuid,
    asked_by: &Name,
) -> Result<Option<Uuid>, Problem> {
    let only_one = Arc::clone(&workspace.undoing).try_acquire_owned().map_err(|_| {
        let kind = ProblemKind::Other(StatusCode::CONFLICT, "undo_under_way");
        Problem::new(kind, "another run is being undone in this workspace; wait until it ends")
    })?;
    let permit = app.run_permit().ok_or_else(|| {
        let most = app.settings.bounds.max_runs;
        let detail = "the server has reached its limit of runs at a time; try again";
        Problem::bound(ProblemKind::Overloaded, "max_runs", most, detail)
    })?;
    let (sender, started) = mpsc::channel();
    let (app, workspace, asked_by) = (Arc::clone(app), Arc::clone(workspace), asked_by.clone());
    spawn_blocking(move || {
        let start = UndoStart(Mutex::new(Some(sender)));
        if let Err(problem) = undo(&app, &workspace, &run, &asked_by, &start) {
            start.answer(Err(problem));
        }
        workspace.running().take();
        drop((only_one, permit));
        app.run_signals.work.notify_one();
    });
    match started.recv_timeout(START) {
        Ok(Ok(run)) => Ok(Some(run)),
        Ok(Err(problem)) => Err(problem),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Problem::new(ProblemKind::Internal, "the undo could not be started"))
        }
    }
}

/// Who waits for a run to start; answered once.
struct UndoStart(Mutex<Option<Sender<Result<Uuid, Problem>>>>);

impl UndoStart {
    fn answer(&self, what: Result<Uuid, Problem>) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (waiting, what) {
            // No one may wait any more.
            (Some(waiting), what) => drop(waiting.send(what)),
            (None, Err(problem)) => tracing::error!("undoing a run failed: {}", problem.words().0),
            (None, Ok(_)) => {}
        }
    }
}

fn undo(
    app: &App,
    workspace: &ServerWorkspace,
    run: &Uuid,
    asked_by: &Name,
    start: &UndoStart,
) -> Result<(), Problem> {
    let closed = |why: String| {
        Problem::new(ProblemKind::Other(StatusCode::CONFLICT, "workspace"), why)
            .with_hint("undo it in its workspace: `crealeph work undo`")
    };
    let mut work = (workspace.open)().map_err(closed)?;
    *workspace.running() = Some(work.interrupt().clone());
    let landed = work.landed(run)?;
    let mut item = landed.undo_item()?;
    item.description = format!("{} It was asked for in the console by {asked_by}.", item.description).into();
    work.bind(std::slice::from_ref(&item), None, &app.scopes)?;
    let id = item.id.clone();
    let options = UndoOptions { item, agent: None, destination: None, is_held: false };
    let progress = |progress: WorkProgress| {
        if matches!(progress, WorkProgress::Item { .. })
            && let Ok(Some(run)) = work.newest_run_of(&id)
        {
            start.answer(Ok(run));
        }
    };
    work.undo(landed, options, &progress)?;
    if let Some(run) = work.newest_run_of(&id)? {
        start.answer(Ok(run));
    }
    Ok(())
}
