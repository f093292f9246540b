//! Approvals: the inbox, the statement of a verdict, signed verdicts, and why a subject has its state. The
//! signature proves the person; the key only authorises the request. The server cannot sign.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use crealeph_contracts::approval::{
    ApprovalDocument, MAX_REASON_BYTES, SignedPayload, VerdictRequest, VerdictStatement,
};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{LedgerId, RobotId};
use crealeph_decision::access::Permission;
use crealeph_runtime::approvals::{
    ApprovalError, ApprovalHistory, Approver, InboxItem, InboxPage, InboxRow, InboxScan, RecordedVerdict,
    SubjectCase, SubjectReader, VerdictReport, awaited_inbox, inbox, next_step, unsigned_json,
    verdict_statement,
};
use crealeph_runtime::entries::NewestPage;
use serde_json::{Value, json};

use super::work::{DIFF_TYPE, diff_reply};
use super::{CURSOR, LIMIT, answer, in_path, query};
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::route::{
    Access, AnswerShape, Handler, Parameter, ParameterKind, RequestBody, RobotScope, Route, Verb,
};
use crate::schemas::Schema;

const USUAL_PAGE: usize = 100;
const SUBJECT: Parameter =
    in_path("id", ParameterKind::Identifier, "the draft's id, or the id of the run that made a held change");

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Verb::Get,
        path: "/v1/inbox",
        name: "listInbox",
        summary: "List drafts and changes that await approval, newest first",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[query("robot", ParameterKind::Identifier, "only drafts of this robot"), LIMIT, CURSOR],
        body: None,
        answer: answer("a page; it may have fewer than asked for, and still `next`", "InboxPage"),
        problems: &[],
        handler: Handler::Blocking(list),
    },
    Route {
        method: Verb::Get,
        path: "/v1/inbox/{id}",
        name: "getInboxItem",
        summary: "Get everything that a person needs to decide, and what a verdict would be bound to",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[SUBJECT],
        body: None,
        answer: answer("the draft or change, its evidence, rule and state", "InboxSubject"),
        problems: &[409],
        handler: Handler::Blocking(show),
    },
    Route {
        method: Verb::Get,
        path: "/v1/inbox/{id}/diff",
        name: "getInboxDiff",
        summary: "Get the diff of a held change as a file",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[SUBJECT],
        body: None,
        answer: AnswerShape {
            status: StatusCode::OK,
            about: "the diff, in unified form; 404 for a draft, or if the diff is too large for the ledger",
            media_type: DIFF_TYPE,
            schema: Schema::Text,
            also: &[],
        },
        problems: &[409],
        handler: Handler::Blocking(diff),
    },
    Route {
        method: Verb::Get,
        path: "/v1/approvals/{id}",
        name: "explainApproval",
        summary: "Explain who decided, with which key, under which rule, what counts and why",
        access: Access::Key(Permission::Read, RobotScope::Restricted),
        parameters: &[SUBJECT],
        body: None,
        answer: answer("the verdicts and their result; compare `root` with the one you saved", "Approval"),
        problems: &[409],
        handler: Handler::Blocking(why),
    },
    Route {
        method: Verb::Post,
        path: "/v1/verdicts/statement",
        name: "prepareVerdict",
        summary: "Write the statement that a person signs; nothing is recorded",
        access: Access::Key(Permission::Decide, RobotScope::Restricted),
        parameters: &[],
        body: Some(RequestBody {
            about: "What is decided, and the fingerprint of the key, or the id of the passkey, that will sign.",
            schema: Schema::Named("VerdictRequest"),
        }),
        answer: answer(
            "the statement; sign `text` under `namespace`, as it is, or ask the passkey with `challenge`",
            "UnsignedVerdict",
        ),
        problems: &[404, 409, 422],
        handler: Handler::Blocking(prepare),
    },
    Route {
        method: Verb::Post,
        path: "/v1/verdicts",
        name: "recordVerdict",
        summary: "Record a verdict that a person signed; a draft lands with the last approval needed",
        access: Access::Key(Permission::Decide, RobotScope::Restricted),
        parameters: &[],
        body: Some(RequestBody {
            about: "The statement and its SSHSIG, or what a passkey signed. Sending it again is safe.",
            schema: Schema::Named("SignedStatement"),
        }),
        answer: answer(
            "the verdict counts; `next` says what remains to be done, and where",
            "RecordedVerdict",
        ),
        problems: &[404, 409, 422],
        handler: Handler::Blocking(record),
    },
];

fn reader(call: &Call) -> Result<SubjectReader<'_>, Problem> {
    Ok(SubjectReader { ledger: call.ledger(), tenant: &call.who()?.tenant_id, scopes: &call.app.scopes })
}

fn list(call: &Call) -> Result<Reply, Problem> {
    let (items, next) = page(call, call.limit(USUAL_PAGE)?)?;
    let items = items.iter().map(InboxRow::of).collect();
    Ok(Reply::json_of(&InboxPage { items, next: next.map(|next| next.to_string()) }))
}

/// A page of what waits, as far as the key may see it.
pub(crate) fn page(call: &Call, limit: usize) -> Result<NewestPage<InboxItem>, Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    match asked.as_ref().is_some_and(|robot| !who.covers(robot)) {
        true => Ok((Vec::new(), None)),
        false => Ok(inbox(reader(call)?, asked.as_ref().or(who.robot_id.as_ref()), call.cursor()?, limit)?),
    }
}

/// The person who signed in with a passkey, if their session may decide.
pub(crate) fn approver(call: &Call) -> Result<Option<Approver>, Problem> {
    let who = call.who()?;
    let person = who.session.as_ref().and_then(|session| session.person.as_ref());
    let Some(person) = person.filter(|_| who.may(Permission::Decide)) else { return Ok(None) };
    let history = ApprovalHistory::load(call.ledger(), &who.tenant_id)?;
    Ok(history.map(|history| Approver::of(&history, person)))
}

/// A page of what waits for one person.
pub(crate) fn awaited(call: &Call, approver: &Approver, limit: usize) -> Result<InboxScan, Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    if asked.as_ref().is_some_and(|robot| !who.covers(robot)) {
        return Ok(InboxScan { items: Vec::new(), next: None, looked_at: 0 });
    }
    let robot = asked.as_ref().or(who.robot_id.as_ref());
    Ok(awaited_inbox(reader(call)?, robot, approver, (call.cursor()?, limit))?)
}

/// The entries that a draft is based on, by their place in the log.
pub(crate) fn evidence_ids(call: &Call, case: &SubjectCase) -> Result<BTreeMap<u64, LedgerId>, Problem> {
    Ok(reader(call)?.evidence_ids(case)?)
}

fn show(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&seen(call, &named(call)?)?.decision_report()?))
}

fn diff(call: &Call) -> Result<Reply, Problem> {
    let case = seen(call, &named(call)?)?;
    match case.basis.change().map(|change| (&change.run, &change.diff)) {
        Some((run, Some(diff))) => Ok(diff_reply(run, diff.to_string())),
        Some((run, None)) => Err(Problem::unknown_id("diff").with_hint(format!(
            "it is too large for the ledger; `crealeph work diff {run}` shows it in its workspace"
        ))),
        None => Err(unknown()),
    }
}

fn why(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&reader(call)?.explain(seen(call, &named(call)?)?)?.json()?))
}

fn prepare(call: &Call) -> Result<Reply, Problem> {
    prepared(call, parsed(&call.body)?)
}

/// The statement of a verdict that someone wants to give.
pub(crate) fn prepared(call: &Call, request: VerdictRequest) -> Result<Reply, Problem> {
    let VerdictRequest { subject, decision, reason, key_id, unattended } = request;
    if reason.as_ref().is_some_and(|reason| reason.as_str().len() > MAX_REASON_BYTES) {
        let detail = format!("the reason is longer than {MAX_REASON_BYTES} bytes");
        return Err(Problem::new(ProblemKind::BadRequest, detail));
    }
    let case = seen(call, &subject)?;
    if !case.history.judge.had_people() {
        return Err(ApprovalError::NoPeople.into());
    }
    let signer = case.history.signer(key_id.as_str())?;
    let statement = verdict_statement(&case, signer, decision, reason, unattended.unwrap_or(false))?;
    let passkey = case.history.judge.passkey(statement.key_id.as_str());
    Ok(Reply::json(unsigned_json(&statement, passkey)?))
}

fn record(call: &Call) -> Result<Reply, Problem> {
    recorded(call, parsed(&call.body)?)
}

/// Records a verdict, and reports the outcome.
pub(crate) fn recorded(call: &Call, signed: SignedPayload) -> Result<Reply, Problem> {
    let read: VerdictStatement = parsed(signed.statement.as_str().as_bytes())?;
    let signed = SignedPayload { statement: JsonObject::of("the verdict", &read)?, ..signed };
    let reader = reader(call)?;
    seen(call, &read.subject_id)?;
    let RecordedVerdict { verdict, missing, .. } = reader.record_verdict_once(&signed)?;
    let case = reader.read(&read.subject_id)?;
    let planned = reader.planned(&read.subject_id)?;
    let report = VerdictReport {
        subject: read.subject_id.to_string(),
        decision: read.decision.to_string(),
        proven: true,
        verdict: Some(verdict.id.to_string()),
        landed: case.state.outcome.landing().map(|(landing, _)| landing.to_string()),
        planned: planned.map(|planned| planned.to_string()),
        missing,
    };
    let mut report = json!(report);
    if let Value::Object(members) = &mut report {
        members.insert("repeat".to_owned(), json!(verdict.is_repeat));
        members.insert("next".to_owned(), json!(next_step(&case.state.outcome, case.basis.change())));
    }
    Ok(Reply::json_of(&report))
}

/// Reads a document of the body, or says everything that is wrong with it.
pub(crate) fn parsed<T: ApprovalDocument>(bytes: &[u8]) -> Result<T, Problem> {
    T::parse(bytes).map_err(|violations| Problem::invalid("invalid", violations))
}

pub(crate) fn named(call: &Call) -> Result<LedgerId, Problem> {
    LedgerId::parse(call.in_path("id")?).map_err(|_| unknown())
}

/// The subject of an id, if there is one and the key may see it.
pub(crate) fn seen(call: &Call, id: &LedgerId) -> Result<SubjectCase, Problem> {
    use ApprovalError::{NoEntry, NotAChange, NotADraft, NotTheBuilders, Reviewed};
    let who = call.who()?;
    match reader(call)?.read(id) {
        Ok(case) if who.sees(&case.entry) => Ok(case),
        Ok(_) | Err(NoEntry(_) | NotADraft(_) | NotTheBuilders(_) | NotAChange(_)) => Err(unknown()),
        Err(error @ Reviewed { .. }) => {
            let entry = call.ledger().get(&who.tenant_id, id)?;
            Err(if entry.is_some_and(|entry| who.sees(&entry)) { error.into() } else { unknown() })
        }
        Err(error) => Err(error.into()),
    }
}

fn unknown() -> Problem {
    Problem::unknown_id("draft or held change")
}
