//! People who may approve and the rules for approvals: listed, and changed by statements that an enrolled admin has signed.

use std::time::Instant;

use crealeph_contracts::approval::{
    EnrolmentStatement, RevocationStatement, RuleStatement, SignedKind, SignedPayload, SignedStatement,
};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::passkey::{InvitationStatement, PasskeyRequest, PasskeyStart};
use crealeph_contracts::scalar::{KeyId, Name};
use crealeph_decision::access::Permission;
use crealeph_runtime::approvals::{
    ApprovalHistory, EnrolledPerson, Invited, PersonReport, record_once, rule_json,
};
use crealeph_runtime::entries::AppendedReport;
use serde_json::{Value, json};

use super::approvals::parsed;
use super::{LIMIT, answer, query};
use crate::call::Call;
use crate::limits::CountedRequest;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::route::{Access, Handler, ParameterKind, RequestBody, RobotScope, Route, Verb};
use crate::schemas::Schema;

const USUAL_PAGE: usize = 100;
const SIGNED: Schema = Schema::Named("SignedStatement");

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Verb::Get,
        path: "/v1/people",
        name: "listPeople",
        summary: "List people with their groups and keys, revoked ones too",
        access: Access::Key(Permission::SeePeople, RobotScope::Refused),
        parameters: &[LIMIT, query("after", ParameterKind::Identifier, "`next` of the previous page")],
        body: None,
        answer: answer("a page of people, by name, and what statements are bound to", "PersonPage"),
        problems: &[],
        handler: Handler::Blocking(list),
    },
    Route {
        method: Verb::Post,
        path: "/v1/people",
        name: "enrolPerson",
        summary: "Enrol a person, or one more key of a person",
        access: Access::Key(Permission::ManagePeople, RobotScope::Refused),
        parameters: &[],
        body: Some(RequestBody {
            about: "An enrolment and its SSHSIG by an admin's key; the first admin's is signed by the enrolled key itself. Sending it again is safe.",
            schema: SIGNED,
        }),
        answer: answer("the entry", "Appended"),
        problems: &[409, 422],
        handler: Handler::Blocking(enrol),
    },
    Route {
        method: Verb::Post,
        path: "/v1/people/invitations",
        name: "invitePerson",
        summary: "Invite a person to enrol a passkey",
        access: Access::Key(Permission::ManagePeople, RobotScope::Refused),
        parameters: &[],
        body: Some(RequestBody {
            about: "An invitation, which has the digest of a secret, and its SSHSIG by an admin's key. Sending it again is safe.",
            schema: SIGNED,
        }),
        answer: answer("the entry", "Appended"),
        problems: &[409, 422],
        handler: Handler::Blocking(invite),
    },
    Route {
        method: Verb::Post,
        path: "/v1/enrolments/statement",
        name: "preparePasskey",
        summary: "Write what the browser of an invited person must be asked for; nothing is recorded",
        access: Access::Public,
        parameters: &[],
        body: Some(RequestBody {
            about: "The part of the invitation's link after `#`.",
            schema: Schema::Named("PasskeyStart"),
        }),
        answer: answer("the statement, and the parameters to create a passkey with", "PasskeyQuestion"),
        problems: &[409, 422, 429],
        handler: Handler::Blocking(prepare_passkey),
    },
    Route {
        method: Verb::Post,
        path: "/v1/enrolments",
        name: "enrolPasskey",
        summary: "Enrol the passkey of an invited person",
        access: Access::Public,
        parameters: &[],
        body: Some(RequestBody {
            about: "The link's token, the statement, and the authenticator's answer. Sending it again is safe.",
            schema: Schema::Named("PasskeyRequest"),
        }),
        answer: answer("the passkey is enrolled", "EnrolledPasskey"),
        problems: &[409, 422, 429],
        handler: Handler::Blocking(enrol_passkey),
    },
    Route {
        method: Verb::Post,
        path: "/v1/people/revocations",
        name: "revokePerson",
        summary: "Revoke one or all keys of a person",
        access: Access::Key(Permission::ManagePeople, RobotScope::Refused),
        parameters: &[],
        body: Some(RequestBody {
            about: "A revocation and its SSHSIG by an admin's key. Sending it again is safe.",
            schema: SIGNED,
        }),
        answer: answer("the entry", "Appended"),
        problems: &[409, 422],
        handler: Handler::Blocking(revoke),
    },
    Route {
        method: Verb::Get,
        path: "/v1/rules",
        name: "listRules",
        summary: "List the rules in force, in the order in which they are tried",
        access: Access::Key(Permission::SeePeople, RobotScope::Refused),
        parameters: &[],
        body: None,
        answer: answer("the rules; what matches none needs one approval by anyone enrolled", "RuleList"),
        problems: &[],
        handler: Handler::Blocking(rules),
    },
    Route {
        method: Verb::Post,
        path: "/v1/rules",
        name: "setRules",
        summary: "Replace the rules",
        access: Access::Key(Permission::ManagePeople, RobotScope::Refused),
        parameters: &[],
        body: Some(RequestBody {
            about: "All rules, in one statement, and its SSHSIG by an admin's key. Sending it again is safe.",
            schema: SIGNED,
        }),
        answer: answer("the entry", "Appended"),
        problems: &[409, 422],
        handler: Handler::Blocking(set_rules),
    },
];

fn list(call: &Call) -> Result<Reply, Problem> {
    let tenant = &call.who()?.tenant_id;
    let (after, limit) = (call.identifier("after", Name::parse)?, call.limit(USUAL_PAGE)?);
    let history = ApprovalHistory::load(call.ledger(), tenant)?;
    let root = history.as_ref().and_then(|history| history.judge.root());
    let (people, next) = page(history.as_ref(), after.as_ref(), limit);
    let people: Vec<_> = people.iter().map(|person| PersonReport::of(person, root)).collect();
    let origin = history.as_ref().map(|history| history.place.origin.as_str());
    let mut page =
        json!({ "tenantId": tenant.as_str(), "logOrigin": origin, "root": root, "people": people });
    if let (Value::Object(members), Some(next)) = (&mut page, next) {
        members.insert("next".to_owned(), json!(next));
    }
    Ok(Reply::json_of(&page))
}

/// A page of the people, by name, and after whom the list continues.
pub(crate) fn page(
    history: Option<&ApprovalHistory>,
    after: Option<&Name>,
    limit: usize,
) -> (Vec<EnrolledPerson>, Option<String>) {
    let mut people = history.map_or_else(Vec::new, |history| history.judge.people());
    people.retain(|person| after.is_none_or(|after| person.name.as_str() > after.as_str()));
    let has_more = people.len() > limit;
    people.truncate(limit);
    let next = people.last().filter(|_| has_more).map(|person| person.name.clone());
    (people, next)
}

fn rules(call: &Call) -> Result<Reply, Problem> {
    let history = ApprovalHistory::load(call.ledger(), &call.who()?.tenant_id)?;
    let rules = history.as_ref().map_or(&[][..], |history| history.judge.rules());
    let rules = rules.iter().map(rule_json).collect::<Result<Vec<_>, _>>()?;
    Ok(Reply::json_of(&json!({ "rules": rules })))
}

fn enrol(call: &Call) -> Result<Reply, Problem> {
    recorded::<EnrolmentStatement>(call)
}

fn invite(call: &Call) -> Result<Reply, Problem> {
    recorded::<InvitationStatement>(call)
}

fn prepare_passkey(call: &Call) -> Result<Reply, Problem> {
    let PasskeyStart { token } = parsed(&call.body)?;
    let invited = Invited::recognise(call.ledger(), token.as_str())?;
    let _counted = counted(call, &invited)?;
    Ok(Reply::json(invited.question_json(call.ledger())?))
}

fn enrol_passkey(call: &Call) -> Result<Reply, Problem> {
    let request: PasskeyRequest = parsed(&call.body)?;
    let invited = Invited::recognise(call.ledger(), request.token.as_str())?;
    let _counted = counted(call, &invited)?;
    Ok(Reply::json_of(&invited.enrol(call.ledger(), request)?.json()))
}

/// Counts a request under its invitation, as those of a key are under the key.
fn counted(call: &Call, invited: &Invited) -> Result<CountedRequest, Problem> {
    let invalid = |_| Problem::new(ProblemKind::Internal, "the invitation's nonce is no name");
    let name = KeyId::parse(&format!("invitation:{}", invited.nonce)).map_err(invalid)?;
    call.app.keys.count((invited.tenant_id.clone(), name), call.bounds(), Instant::now())
}

fn revoke(call: &Call) -> Result<Reply, Problem> {
    recorded::<RevocationStatement>(call)
}

fn set_rules(call: &Call) -> Result<Reply, Problem> {
    recorded::<RuleStatement>(call)
}

/// Records a signed statement of a kind.
fn recorded<T: SignedStatement>(call: &Call) -> Result<Reply, Problem> {
    let signed: SignedPayload = parsed(&call.body)?;
    let read: T = parsed(signed.statement.as_str().as_bytes())?;
    let signed = SignedPayload { statement: JsonObject::of(T::WHAT, &read)?, ..signed };
    let kind: SignedKind = T::KIND;
    let appended = record_once(call.ledger(), &call.who()?.tenant_id, kind, &signed)?;
    Ok(Reply::json_of(&AppendedReport::of(&appended)))
}
