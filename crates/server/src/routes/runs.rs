//! Builder runs that are accepted now and run later: submitted, shown, listed, cancelled.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use crealeph_contracts::scalar::{ExecutionId, RobotId};
use crealeph_ledger::{Cancellation, LeaseToken, RequestName};
use crealeph_runtime::builder::{OpenRun, RunStanding, Submission, open_runs, run_standing};
use tokio::time::{Instant, timeout_at};

use super::executions::{self, USUAL_PAGE, answered, answered_now, path_part};
use super::robots;
use crate::app::App;
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::route::FutureReply;
use crate::settings::ServerBounds;

/// Seconds after which a client should look again.
const RETRY_AFTER_S: u64 = 1;
/// How often a waiting request looks whether another process has its answer.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// What is left of a request's time when a wait ends.
const WAIT_MARGIN: Duration = Duration::from_millis(500);

/// Runs a request and waits for the answer, or accepts it, as it prefers.
pub(super) fn submit(app: Arc<App>, call: Arc<Call>) -> FutureReply {
    Box::pin(async move {
        if !call.preferences.is_async() {
            return app.running(move || executions::run(&call)).await;
        }
        let own = Arc::clone(&call);
        let mut reply = match app.blocking(move || accept(&own)).await? {
            Accepted::Answered(reply) => reply,
            Accepted::Open(open) => {
                app.run_signals.work.notify_one();
                wait(&app, &call, open).await?
            }
        };
        if let Some(applied) = call.preferences.applied() {
            reply.headers.insert("preference-applied", applied);
        }
        Ok(reply)
    })
}

/// The outcome of a request that may be answered later.
enum Accepted {
    Answered(Reply),
    Open(OpenRun),
}

fn accept(call: &Call) -> Result<Accepted, Problem> {
    let who = call.who()?;
    let rerun_of = call.identifier("rerunOf", ExecutionId::parse)?;
    let robot = executions::robot_of_request(call)?;
    let (bounds, key) = (call.bounds(), Some(&who.key_id));
    let limits = bounds.acceptance();
    match call.app.builder.submit(&who.tenant_id, &call.body, rerun_of.as_ref(), key, limits)? {
        Submission::Open(open) => Ok(Accepted::Open(open)),
        Submission::Answered(answer) => Ok(Accepted::Answered(answered_now(robot.as_ref(), &answer))),
        Submission::TenantFull => Err(Problem::bound(
            ProblemKind::RateLimited,
            "max_accepted_per_tenant",
            bounds.max_accepted_per_tenant,
            "this tenant has reached its limit of accepted and undecided runs; wait for some, or cancel them",
        )),
        Submission::Full => Err(Problem::bound(
            ProblemKind::Overloaded,
            "max_accepted",
            bounds.max_accepted,
            "the servers have reached their limit of accepted and undecided runs; try again",
        )),
    }
}

/// The answer of an accepted run if it comes in the time that the client waits, else where to look for it.
async fn wait(app: &Arc<App>, call: &Arc<Call>, open: OpenRun) -> Result<Reply, Problem> {
    let whole = ServerBounds::time(app.settings.bounds.run_timeout_ms).saturating_sub(WAIT_MARGIN);
    let time = Duration::from_secs(call.preferences.wait_s.unwrap_or(0)).min(whole);
    let deadline = Instant::now() + time;
    let mut open = open;
    while Instant::now() < deadline && !app.is_stopping() {
        // Asked for before looking, so that an end in between is not missed.
        let ended = app.run_signals.ended.notified();
        let (own, target) = (Arc::clone(call), open.clone());
        match app.blocking(move || standing(&own, &target)).await? {
            Standing::Open(still) => open = still,
            Standing::Over(reply) => return Ok(reply),
        }
        let _ = timeout_at(deadline.min(Instant::now() + LOOK_AGAIN), ended).await;
    }
    Ok(still_open(&open))
}

enum Standing {
    Open(OpenRun),
    Over(Reply),
}

fn standing(call: &Call, open: &OpenRun) -> Result<Standing, Problem> {
    let internal = |_| Problem::new(ProblemKind::Internal, "an accepted run has an invalid name");
    let robot = RobotId::parse(&open.robot_id).map_err(internal)?;
    let execution = ExecutionId::parse(&open.execution_id).map_err(internal)?;
    standing_of(call, &robot, &execution, Some(open.attempt))
}

fn standing_of(
    call: &Call,
    robot: &RobotId,
    execution: &ExecutionId,
    attempt: Option<u64>,
) -> Result<Standing, Problem> {
    let tenant = &call.who()?.tenant_id;
    match run_standing(call.ledger(), tenant, robot, execution, attempt)? {
        None => Err(Problem::unknown_id("run")),
        Some(RunStanding::Open(open)) => Ok(Standing::Open(open)),
        Some(RunStanding::Answered(response)) => Ok(Standing::Over(answered(Some(robot), &response))),
        Some(RunStanding::Failed(code)) => {
            let detail = format!("the run ended without an answer (`{code}`), and left nothing in the log");
            Err(Problem::new(ProblemKind::Other(StatusCode::INTERNAL_SERVER_ERROR, "run_failed"), detail)
                .with_hint("the server's log has the cause; send the request again to run it again"))
        }
    }
}

/// What says that a run is not decided, and where to look for its answer.
fn still_open(open: &OpenRun) -> Reply {
    let mut reply = Reply { status: StatusCode::ACCEPTED, ..Reply::json_of(open) };
    let (robot, execution) = (path_part(&open.robot_id), path_part(&open.execution_id));
    let target = format!("/v1/builder/runs/{robot}/{execution}?attempt={}", open.attempt);
    if let Ok(target) = HeaderValue::from_str(&target) {
        reply.headers.insert(header::LOCATION, target);
    }
    reply.headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    reply
}

/// The run that the path names.
fn named(call: &Call) -> Result<(RobotId, ExecutionId), Problem> {
    let robot = robots::named(call)?;
    let execution = ExecutionId::parse(call.in_path("execution")?);
    Ok((robot, execution.map_err(|_| Problem::unknown_id("run"))?))
}

pub(super) fn show(call: &Call) -> Result<Reply, Problem> {
    let (robot, execution) = named(call)?;
    match standing_of(call, &robot, &execution, call.number("attempt")?)? {
        Standing::Open(open) => Ok(still_open(&open)),
        Standing::Over(reply) => Ok(reply),
    }
}

pub(super) fn list(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let (after, limit) = (call.cursor()?.map(LeaseToken::from_cursor), call.limit(USUAL_PAGE)?);
    let page = open_runs(call.ledger(), &who.tenant_id, who.robot_id.as_ref(), after, limit)?;
    Ok(Reply::json_of(&page))
}

pub(super) fn cancel(call: &Call) -> Result<Reply, Problem> {
    let tenant = &call.who()?.tenant_id;
    let (robot_id, execution_id) = named(call)?;
    let name = RequestName { robot_id, execution_id };
    match call.ledger().cancel_request(tenant, &name)? {
        Cancellation::Cancelled => {
            let (robot, execution) = (name.robot_id.as_str(), name.execution_id.as_str());
            Ok(Reply::json_of(&serde_json::json!({ "robotId": robot, "executionId": execution })))
        }
        Cancellation::Started => {
            let kind = ProblemKind::Other(StatusCode::CONFLICT, "run_started");
            Err(Problem::new(kind, "the run has started, and can no longer be cancelled"))
        }
        Cancellation::Unknown => Err(Problem::unknown_id("run that is accepted and undecided")),
    }
}
