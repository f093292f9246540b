//! Work runs from the log, and from the workspace on this machine: listed, shown, verified, compared, with diff and output as far
//! as they are available; and receipts that were made elsewhere, accepted from signers that an admin enrolled.

use axum::http::{HeaderValue, header};
use crealeph_contracts::reported::ReceiptReport;
use crealeph_contracts::scalar::{Literal, Name, RobotId};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::access::Permission;
use crealeph_ledger::StoredEntry;
use crealeph_runtime::entries::AppendedReport;
use crealeph_runtime::receipts::{
    LoggedRun, LoggedRunReport, RunFileError, RunLogQuery, record_report, run_of_log, runs_of_log,
};
use crealeph_runtime::report::{
    KeySource, OpenRuns, ReportOrigin, ReportQuestion, ReportSource, ReportSubject, RunComparison,
    RunOutcome, RunStory, activity, compare_runs, open_run_rows,
};
use crealeph_runtime::work::{OutputPart, RunReader, RunSummary, RunsError};
use serde_json::json;

use super::{CURSOR, LIMIT, answer, in_path, query, report as reports, required};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{
    Access, AnswerShape, Handler, Parameter, ParameterKind, RequestBody, RobotScope, Route, Verb,
};
use crate::schemas::Schema;
use crate::settings::ServerBounds;

const USUAL_PAGE: usize = 100;
/// How much of an output one answer has, about.
const MAX_OUTPUT_BYTES: u64 = 256 << 10;
/// The media type of a diff.
pub(super) const DIFF_TYPE: &str = "text/x-diff; charset=utf-8";
/// How a failed run ended, as its receipt, or for the last two the workspace on this machine says.
pub(crate) const ENDED_UNWELL: [&str; 3] = ["denied", "timeout", "interrupted"];
const FAILED: Literal = Literal::new("failed");
/// No output is as long.
pub(crate) const MAX_PLACE: u64 = 1 << 53;
const RUN: Parameter = in_path("id", ParameterKind::Identifier, "the run's id, which is its receipt's");
const READ: Access = Access::Key(Permission::Read, RobotScope::Restricted);

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Verb::Get,
        path: "/v1/work/runs",
        name: "listRuns",
        summary: "List finished work runs, newest first; reported ones are marked",
        access: READ,
        parameters: &[
            query(
                "status",
                ParameterKind::Words(&["succeeded", "failed", "denied", "timeout", "interrupted"]),
                "only runs that ended so; the last two are known only of the server's own workspace",
            ),
            query("agent", ParameterKind::Identifier, "only of this agent, by its name or id"),
            query("since", ParameterKind::Instant, "recorded at or after this"),
            query("robot", ParameterKind::Identifier, "only of this robot"),
            LIMIT,
            CURSOR,
        ],
        body: None,
        answer: answer("a page; it may have fewer than asked for, and still `next`", "RunPage"),
        problems: &[],
        handler: Handler::Blocking(list),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/open",
        name: "listOpenRuns",
        summary: "List the runs of the server's own workspace that are running, unsettled or held, newest first",
        access: READ,
        parameters: &[],
        body: None,
        answer: answer("the runs; none if the server's workspace belongs to another tenant", "OpenWorkRuns"),
        problems: &[],
        handler: Handler::Blocking(open),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/compare",
        name: "compareRuns",
        summary: "Compare two runs: what they used, and which files ended up the same or different",
        access: READ,
        parameters: &[
            required("a", ParameterKind::Identifier, "the first run"),
            required("b", ParameterKind::Identifier, "the second run"),
        ],
        body: None,
        answer: answer("both runs and every file that either changed", "RunComparison"),
        problems: &[404],
        handler: Handler::Blocking(compare),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}",
        name: "getRun",
        summary: "Get a run with its receipt and the signed statement, as they are recorded",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: answer("the run; `crealeph work verify` checks its documents", "Run"),
        problems: &[],
        handler: Handler::Blocking(show),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}/story",
        name: "getRunStory",
        summary: "Get what happened in a run: task, agent, change, tests, network, verdicts and proof",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: answer("the run, as `crealeph work show` writes it for people", "RunStory"),
        problems: &[],
        handler: Handler::Blocking(story),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}/verify",
        name: "verifyRun",
        summary: "Verify the receipt of a run with the signers that the tenant has enrolled",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: answer(
            "the result of the check; `unproven` if no signer of its workspace is enrolled",
            "ReceiptProof",
        ),
        problems: &[],
        handler: Handler::Blocking(verify),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}/diff",
        name: "getRunDiff",
        summary: "Get the diff of a run, if the ledger or the server's own workspace has it",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: AnswerShape {
            status: axum::http::StatusCode::OK,
            about: "the diff, in unified form; 404 says where it is if it is not here",
            media_type: DIFF_TYPE,
            schema: Schema::Text,
            also: &[],
        },
        problems: &[],
        handler: Handler::Blocking(diff),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}/logs",
        name: "getRunLogs",
        summary: "Get the output of a run's agent and tests, if the ledger or the server's own workspace has it",
        access: READ,
        parameters: &[RUN],
        body: None,
        answer: answer(
            "the files, and those that were left out; 404 says where they are if none is here",
            "RunLogs",
        ),
        problems: &[],
        handler: Handler::Blocking(logs),
    },
    Route {
        method: Verb::Get,
        path: "/v1/work/runs/{id}/output",
        name: "getRunOutput",
        summary: "Get the output of a run of the server's own workspace from an offset on, also while it runs",
        access: READ,
        parameters: &[
            RUN,
            query(
                "after",
                ParameterKind::Number(0, MAX_PLACE),
                "where to continue: `next` of the previous part [default: 0]",
            ),
        ],
        body: None,
        answer: answer(
            "a part of the output; ask again from `next` while `isRunning` or `hasMore`",
            "RunOutput",
        ),
        problems: &[],
        handler: Handler::Blocking(output),
    },
    Route {
        method: Verb::Post,
        path: "/v1/work/receipts",
        name: "reportReceipt",
        summary: "Report a receipt that was made elsewhere, signed by an enrolled key",
        access: Access::Key(Permission::Report, RobotScope::Restricted),
        parameters: &[],
        body: Some(RequestBody {
            about: "The receipt, its signed statement, and files that the statement names, in base64. Sending it again is safe.",
            schema: Schema::Named("ReceiptReport"),
        }),
        answer: answer("the entry; it counts for no duplicate, dependency or approval here", "Appended"),
        problems: &[409, 422],
        handler: Handler::Blocking(report),
    },
];

fn list(call: &Call) -> Result<Reply, Problem> {
    let (runs, next) = page(call, call.limit(USUAL_PAGE)?)?;
    Ok(Reply::json_of(&match next {
        Some(next) => json!({ "runs": runs, "next": next }),
        None => json!({ "runs": runs }),
    }))
}

/// A page of the runs that the key may see, and where the next begins.
pub(crate) fn page(call: &Call, limit: usize) -> Result<(Vec<LoggedRunReport>, Option<String>), Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    let kept = call.own_runs()?;
    let (state, outcome) = match call.text("status") {
        // The log has one state for all of these.
        Some(outcome) if ENDED_UNWELL.contains(&outcome) => (Some(Name::from(FAILED)), Some(outcome)),
        _ => (call.identifier("status", Name::parse)?, None),
    };
    let ended_so = |entry: &StoredEntry| {
        let row = || LoggedRun::of(entry.clone()).map(|run| run.row(kept.as_ref()));
        outcome.is_none_or(|outcome| row().is_some_and(|row| row.outcome == outcome))
    };
    let query = RunLogQuery {
        state,
        agent: call.identifier("agent", Name::parse)?.map(|agent| agent.as_str().to_owned()),
        since: call.instant("since")?,
        robot: asked.clone().or_else(|| who.robot_id.clone()),
        cursor: call.cursor()?,
        limit,
        max_bytes: ServerBounds::size(call.bounds().max_page_bytes),
    };
    let (runs, next) = match asked.is_some_and(|robot| !who.covers(&robot)) {
        true => (Vec::new(), None),
        false => {
            runs_of_log(call.ledger(), &who.tenant_id, &query, |entry| who.sees(entry) && ended_so(entry))?
        }
    };
    let runs = runs.iter().map(|run| run.report(kept.as_ref()));
    Ok((runs.collect(), next.map(|next| next.to_string())))
}

fn show(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json(named(call)?.json(call.own_runs()?.as_ref())))
}

fn story(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&found(call)?.story_with_diff(call)?.0))
}

fn verify(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&named(call)?.proof(call.ledger(), &call.who()?.tenant_id)?))
}

fn diff(call: &Call) -> Result<Reply, Problem> {
    let run = found(call)?;
    Ok(diff_reply(&run.run, run.diff(call)?))
}

/// A diff as a file of its own, under the run's id.
pub(super) fn diff_reply(run: &Uuid, diff: String) -> Reply {
    let mut reply = Reply::text(DIFF_TYPE, diff);
    if let Ok(name) = HeaderValue::try_from(format!("attachment; filename=\"{run}.diff\"")) {
        reply.headers.insert(header::CONTENT_DISPOSITION, name);
    }
    reply
}

fn logs(call: &Call) -> Result<Reply, Problem> {
    let run = found(call)?;
    let (files, left_out) = (run.logs()?, run.left_out());
    let files = files.into_iter().map(|(name, text)| json!({ "name": name, "text": text }));
    Ok(Reply::json_of(&json!({ "files": files.collect::<Vec<_>>(), "leftOut": left_out })))
}

fn output(call: &Call) -> Result<Reply, Problem> {
    let after = call.number("after")?.unwrap_or(0);
    Ok(Reply::json_of(&found(call)?.output_after(after, MAX_OUTPUT_BYTES)?))
}

fn open(call: &Call) -> Result<Reply, Problem> {
    let open = open_rows(call, |_| true)?.unwrap_or_default();
    match open.unreadable.into_iter().next() {
        Some((_, why)) => Err(why.into()),
        None => Ok(Reply::json_of(&json!({ "runs": open.rows, "hasMore": open.has_more }))),
    }
}

/// The open runs of the workspace on this machine that are wanted; absent if there is none that the key may see. For whom an open run is,
/// no entry says yet, so a key that is restricted to a robot sees none.
pub(crate) fn open_rows(
    call: &Call,
    is_wanted: impl Fn(&RunSummary) -> bool,
) -> Result<Option<OpenRuns>, Problem> {
    let reader = call.own_runs()?.filter(|_| call.who().is_ok_and(|who| who.robot_id.is_none()));
    Ok(reader.map(|reader| open_run_rows(&reader, is_wanted)))
}

fn compare(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&compared(call)?))
}

/// The two runs that the query names, side by side.
pub(crate) fn compared(call: &Call) -> Result<RunComparison, Problem> {
    let side = |name: &str| {
        let run = find(call, call.text(name).unwrap_or_default())?;
        let (story, diff) = run.story_with_diff(call)?;
        Ok::<_, Problem>((run, story, diff))
    };
    let (a, b) = (side("a")?, side("b")?);
    let [a, b] = [&a, &b].map(|(run, story, diff)| RunOutcome {
        story,
        diff: diff.as_deref(),
        files: run.logged.as_ref().and_then(LoggedRun::outcomes),
    });
    Ok(compare_runs(&a, &b))
}

fn report(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let report =
        ReceiptReport::parse(&call.body).map_err(|violations| Problem::invalid("invalid", violations))?;
    let appended = record_report(call.ledger(), &who.tenant_id, who.robot_id.as_ref(), &report)?;
    Ok(Reply::json_of(&AppendedReport::of(&appended)))
}

/// A run that the key may see: of the log, of the workspace on this machine, or of both.
pub(crate) struct FoundRun {
    pub run: Uuid,
    pub logged: Option<LoggedRun>,
    /// The workspace's runs, if this is one of them.
    pub kept: Option<RunReader>,
}

/// The run that the path names, if the log has it.
fn named(call: &Call) -> Result<LoggedRun, Problem> {
    found(call)?.logged.ok_or_else(|| {
        Problem::unknown_id("finished run")
            .with_hint("the run has no receipt in the ledger yet; see its output")
    })
}

/// The run that the path names.
pub(crate) fn found(call: &Call) -> Result<FoundRun, Problem> {
    find(call, call.in_path("id")?)
}

fn find(call: &Call, id: &str) -> Result<FoundRun, Problem> {
    let who = call.who()?;
    let unknown = || Problem::unknown_id("run");
    let run = Uuid::parse(id).ok_or_else(unknown)?;
    let logged = run_of_log(call.ledger(), &who.tenant_id, &run, |entry| who.sees(entry))?;
    // For whom a run is that has no entry is not known.
    let is_seen = logged.is_some() || who.robot_id.is_none();
    let kept = if is_seen { call.own_runs()?.filter(|reader| reader.get(&run).is_some()) } else { None };
    match logged.is_some() || kept.is_some() {
        true => Ok(FoundRun { run, logged, kept }),
        false => Err(unknown()),
    }
}

impl FoundRun {
    /// What happened.
    pub(crate) fn story(&self, call: &Call) -> Result<RunStory, Problem> {
        let who = call.who()?;
        let subject = ReportSubject::Run(self.run.to_string());
        let question = ReportQuestion { subject, since: None, robot: who.robot_id.clone(), details: 1 };
        let report = match (&self.logged, &self.kept) {
            // A report is of the ledger's own runs.
            (Some(run), None) if run.is_reported => return Ok(run.story(call.ledger(), &who.tenant_id)?),
            (None, Some(reader)) => {
                let source = ReportSource {
                    origin: ReportOrigin::Workspace,
                    log: Some((call.ledger(), &who.tenant_id)),
                    runs: Some(reader),
                    signer: None,
                    scopes: &call.app.scopes,
                    keys: &[],
                    key_source: KeySource::Absent,
                };
                activity(&question, &source)?
            }
            _ => reports::about(call, question)?,
        };
        let story = report.runs.stories.into_iter().next();
        let mut story = story.ok_or_else(|| Problem::unknown_id("run"))?;
        if let (Some(run), Some(reader)) = (&self.logged, &self.kept) {
            run.complete(&mut story, reader)?;
        }
        Ok(story)
    }

    /// The same with the diff, if it is here and as the run left it.
    fn story_with_diff(&self, call: &Call) -> Result<(RunStory, Option<String>), Problem> {
        let diff = match self.diff(call) {
            Ok(diff) => Some(diff),
            Err(RunFileError::NotHere { .. } | RunFileError::Altered { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let mut story = self.story(call)?;
        diff.iter().for_each(|diff| story.add_diff(diff));
        Ok((story, diff))
    }

    /// What it changed.
    pub(crate) fn diff(&self, call: &Call) -> Result<String, RunFileError> {
        let absent =
            || RunFileError::NotHere { what: "the diff", place: "none is kept of it, or not yet".to_owned() };
        match (&self.logged, &self.kept, call.who()) {
            (Some(run), kept, Ok(who)) => run.diff(call.ledger(), &who.tenant_id, kept.as_ref()),
            (_, Some(reader), _) => reader.diff(&self.run)?.ok_or_else(absent),
            _ => Err(absent()),
        }
    }

    /// What it printed, by file.
    pub(crate) fn logs(&self) -> Result<Vec<(String, String)>, RunFileError> {
        match (&self.logged, &self.kept) {
            (Some(run), kept) => run.logs(kept.as_ref()),
            (None, Some(reader)) => {
                let text =
                    |(name, bytes): (String, Vec<u8>)| (name, String::from_utf8_lossy(&bytes).into_owned());
                Ok(reader.log_files(&self.run)?.into_iter().map(text).collect())
            }
            (None, None) => Ok(Vec::new()),
        }
    }

    fn left_out(&self) -> Vec<String> {
        match (&self.logged, &self.kept) {
            (Some(run), None) => run.left_out(),
            _ => Vec::new(),
        }
    }

    /// What it printed from a place on, if the workspace on this machine has it as the run left it.
    pub(crate) fn output_after(&self, after: u64, most_bytes: u64) -> Result<OutputPart, RunFileError> {
        self.output(|reader| OutputPart::after(reader, &self.run, after, most_bytes))
    }

    /// The end of what it printed.
    pub(crate) fn output_end(&self, most_bytes: u64) -> Result<OutputPart, RunFileError> {
        self.output(|reader| OutputPart::end(reader, &self.run, most_bytes))
    }

    fn output(
        &self,
        read: impl FnOnce(&RunReader) -> Result<Option<OutputPart>, RunsError>,
    ) -> Result<OutputPart, RunFileError> {
        if let Some(run) = &self.logged {
            run.logs(self.kept.as_ref())?;
        }
        let part = self.kept.as_ref().map(read).transpose()?.flatten();
        part.ok_or_else(|| RunFileError::NotHere {
            what: "the output",
            place: "it was reported from elsewhere; see its logs".to_owned(),
        })
    }
}
