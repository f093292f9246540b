//! R13 row by row: the answer, the events and the artifacts of every path through the gate, each judged by its own
//! contract.

use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Entry;
use crealeph_contracts::json::{Limits, ObjectWriter, parse};
use crealeph_contracts::scalar::TenantId;
use crealeph_contracts::{ExecutionEvent, Violations};

use super::super::replay::replay;
use super::super::review::{ReviewOpinion, review};
use super::super::samples::{Known, ready, snapshot};
use super::super::{EXECUTION_RECORD, Record};
use super::*;

const ROOM: TransactionLimits =
    TransactionLimits { entries: 1_000, payload_bytes: 4 << 20, total_bytes: 16 << 20 };

const GOOD: &str = r#"{"ok":true,"executionId":"e-1","status":"succeeded","artifacts":[
{"type":"site_plan","payload":{"pages":1},"dependsOnLedgerIds":["signal-1","idea-1"],"metadata":{"generatedAt":"2026-01-01T00:30:00Z","model":"m"}},
{"type":"task","payload":{"do":"it"},"dependsOnLedgerIds":["signal-1"],"metadata":{"generatedAt":"2026-01-01T00:30:00Z"}}]}"#;

fn answer(text: &str) -> Result<AgentAnswer, Violations> {
    let input = ready(Known::Coherent, false, |text| text).input.unwrap();
    AgentAnswer::parse(text.as_bytes(), &Limits::default(), &input)
}

fn output(text: &str) -> AgentAnswer {
    answer(text).unwrap()
}

fn ids() -> Vec<LedgerId> {
    (1..=2).map(|number| LedgerId::parse(&format!("new-{number}")).unwrap()).collect()
}

fn concluded(ready: &Ready, answer: Result<&AgentAnswer, &str>) -> Conclusion {
    let identity = JsonObject::build(|object| {
        object.text("name", "a1");
    });
    let runs = matches!(ready.gate, Gate::Run { .. });
    let ran = AgentCall { answer, identity: &identity, diagnostics: "said", tokens_used: Some(3.0) };
    let ended = Ended { ran: runs.then_some(ran), duration_ms: Amount::new(12.0) };
    let conclusion = conclude(ready, &ended, &ids(), &ROOM).unwrap();
    Valid::check(conclusion.response.clone()).unwrap_or_else(|wrong| panic!("{wrong}"));
    for draft in &conclusion.rest {
        if draft.kind.as_str() == "execution_event" {
            event(draft);
        }
    }
    conclusion
}

/// The event as the ledger would store it.
fn event(draft: &Draft) -> Valid<ExecutionEvent> {
    let text = to_json(draft);
    let (document, _) = parse(text.as_bytes(), &Limits::default());
    let document = document.unwrap();
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.text("tenantId", "t").text("createdAt", "2026-03-01T00:00:00.000Z");
    for (key, value) in document.root().members() {
        object.raw(&key.text_value(), value.source());
    }
    object.end();
    Valid::parse(out.as_bytes(), &Limits::default()).unwrap_or_else(|wrong| panic!("{wrong} in {out}"))
}

/// `states of the events | artifacts and their state | ok blocking_reason error`.
fn summary(conclusion: &Conclusion) -> String {
    let states: Vec<String> = conclusion
        .rest
        .iter()
        .filter(|draft| draft.kind.as_str() == "execution_event")
        .map(|draft| {
            let event = event(draft);
            let error = event.payload.error.as_ref();
            let why = error.map(|error| format!(" {} {}", error.code.as_str(), error.retryable));
            let cancelled = event.payload.cancel_reason.as_ref().map(|why| format!(" {}", why.as_str()));
            let result = event.payload.result.as_ref().map(|_| " result".to_owned());
            let more = [why, cancelled, result].into_iter().flatten().collect::<String>();
            format!("{}{more}", event.state)
        })
        .collect();
    let artifacts: Vec<&str> = conclusion.artifacts.iter().map(|(_, draft)| draft.state.as_str()).collect();
    let response = &conclusion.response;
    let code = |code: Option<ErrorCode>| code.map_or("-", ErrorCode::as_str);
    format!(
        "{} | {} | {} {} {}",
        states.join(", "),
        artifacts.join(" "),
        response.ok,
        code(response.blocking_reason),
        code(response.error)
    )
}

fn request(on_partial: &'static str, dry_run: bool) -> impl Fn(String) -> String {
    move |text| {
        text.replace("\"on_partial\":\"block\"", &format!("\"on_partial\":\"{on_partial}\""))
            .replace("\"dryRun\":false", &format!("\"dryRun\":{dry_run}"))
    }
}

#[test]
fn every_row_of_the_gate() {
    const BLOCKED: &str = "failed COHERENCE_BLOCKED false |  | false COHERENCE_BLOCKED -";
    let rows = [
        (Known::Stale, "block", false, BLOCKED),
        (Known::Stale, "draft_only", true, BLOCKED),
        (Known::Partial, "block", false, BLOCKED),
        (Known::Partial, "block", true, BLOCKED),
        (Known::Partial, "draft_only", true, "succeeded result | draft draft | true - -"),
        (Known::Partial, "draft_only", false, "cancelled PARTIAL_REQUIRES_REVIEW | draft draft | false - -"),
        (Known::Old, "block", false, "cancelled POLICY_DEFERRED |  | false - -"),
        (Known::Old, "draft_only", true, "cancelled POLICY_DEFERRED |  | false - -"),
        (Known::Coherent, "block", true, "succeeded result | draft draft | true - -"),
        (Known::Coherent, "draft_only", false, "planned | planned planned | true - -"),
    ];
    let good = output(GOOD);
    for (known, on_partial, dry_run, expected) in rows {
        let ready = ready(known, false, request(on_partial, dry_run));
        assert_eq!(summary(&concluded(&ready, Ok(&good))), expected, "{known:?} {on_partial} {dry_run}");
    }
}

#[test]
fn a_retry_passes_through_running_unless_it_is_planned() {
    let good = output(GOOD);
    let rows = [
        (
            Known::Partial,
            "block",
            false,
            "running, failed COHERENCE_BLOCKED false |  | false COHERENCE_BLOCKED -",
        ),
        (Known::Partial, "draft_only", true, "running, succeeded result | draft draft | true - -"),
        (Known::Old, "block", false, "running, cancelled POLICY_DEFERRED |  | false - -"),
        (Known::Coherent, "block", false, "planned | planned planned | true - -"),
    ];
    for (known, on_partial, dry_run, expected) in rows {
        let ready = ready(known, true, request(on_partial, dry_run));
        assert_eq!(summary(&concluded(&ready, Ok(&good))), expected, "{known:?} {on_partial} {dry_run}");
    }
}

#[test]
fn a_bad_answer_fails_with_its_reason_and_leaves_nothing() {
    let ready = ready(Known::Coherent, false, |text| text);
    let refused = |text: &str| match answer(text) {
        Ok(answer) => concluded(&ready, Ok(&answer)),
        Err(violations) => concluded(&ready, Err(&violations.to_string())),
    };
    let failed =
        r#"{"ok":false,"executionId":"e-1","status":"failed","error":{"code":"TIRED","message":"no more"}}"#;
    let blocked = r#"{"ok":false,"executionId":"e-1","status":"blocked"}"#;
    let cases = [
        (concluded(&ready, Err("it crashed with code 3")), "it crashed with code 3"),
        (concluded(&ready, Err(" ")), "gave no answer"),
        (refused(failed), "TIRED: no more"),
        (refused(blocked), "`blocked`"),
        (refused(&GOOD.replace("e-1", "e-2")), "`e-1`"),
        (refused(&GOOD.replace("\"idea-1\"", "\"invented\"")), "`invented`"),
        (refused(&GOOD.replace("\"task\"", "\"copy\"")), "`copy`"),
    ];
    for (conclusion, words) in cases {
        let expected = "failed MODEL_OUTPUT_INVALID true |  | false - MODEL_OUTPUT_INVALID";
        assert_eq!(summary(&conclusion), expected, "{words}");
        let event = event(&conclusion.rest[0]);
        let message = event.payload.error.as_ref().unwrap().message.as_str().to_owned();
        assert!(message.contains(words), "{message}");
        assert_eq!(event.lineage.depends_on.as_slice(), ready.lineage.as_slice());
    }
}

#[test]
fn an_answer_too_large_for_a_transaction_is_a_bad_answer() {
    let ready = ready(Known::Coherent, false, |text| text);
    let (good, identity) = (output(GOOD), JsonObject::empty());
    let ran = AgentCall { answer: Ok(&good), identity: &identity, diagnostics: "", tokens_used: None };
    let ended = Ended { ran: Some(ran), duration_ms: None };
    for room in [
        TransactionLimits { entries: 4, ..ROOM },
        TransactionLimits { payload_bytes: 8, ..ROOM },
        TransactionLimits { total_bytes: 30, ..ROOM },
    ] {
        let conclusion = conclude(&ready, &ended, &ids(), &room).unwrap();
        assert_eq!(conclusion.response.error, Some(ErrorCode::ModelOutputInvalid), "{room:?}");
        assert!(conclusion.artifacts.is_empty() && conclusion.reason.contains("can be written"));
    }
}

#[test]
fn artifacts_and_event_carry_their_lineage() {
    let ready = ready(Known::Coherent, false, |text| text);
    let good = output(GOOD);
    let conclusion = concluded(&ready, Ok(&good));
    let event = event(&conclusion.rest[0]);
    let union: Vec<&str> = event.lineage.depends_on.as_slice().iter().map(|id| id.as_str()).collect();
    assert_eq!(union, ["idea-1", "signal-1"]);
    assert_eq!(
        (event.payload.target.as_str(), event.payload.action.as_str()),
        ("site_builder", "plan_site_plan")
    );
    let (id, first) = &conclusion.artifacts[0];
    assert_eq!((id.as_str(), first.module.as_str(), first.source.as_str()), ("new-1", "builder", "builder"));
    let lineage = first.lineage.as_ref().unwrap();
    assert_eq!(lineage.execution_id.as_ref().unwrap().as_str(), "e-1");
    assert_eq!(lineage.depends_on.as_ref().unwrap().as_slice().len(), 2);
}

#[test]
fn a_deferral_repeats_the_policys_reasons() {
    let ready = ready(Known::Old, false, |text| text);
    let conclusion = concluded(&ready, Err("not called"));
    let reason = conclusion.response.coherence.unwrap().reason.unwrap();
    assert!(reason.as_str().contains("signalsAt is older than the 1440 minutes allowed"), "{reason:?}");
}

#[test]
fn a_record_is_read_back_and_its_decision_follows() {
    let good = output(GOOD);
    let tenant = TenantId::parse("t").unwrap();
    for known in [Known::Coherent, Known::Old, Known::Partial, Known::Stale] {
        for on_partial in ["block", "draft_only"] {
            for answer in [Ok(&good), Err("it crashed")] {
                let ready = ready(known, false, request(on_partial, false));
                let conclusion = concluded(&ready, answer);
                let draft = conclusion.rest.last().unwrap();
                assert_eq!(draft.kind.as_str(), EXECUTION_RECORD.as_str());
                let record = Record::read(draft.payload.as_str()).unwrap();
                assert_eq!(*record.answer, conclusion.response);
                assert_eq!(record.fingerprint, ready.asked.fingerprint().unwrap());
                let checks = replay(&tenant, &record, snapshot(known)).unwrap();
                let compared: Vec<&str> = checks.iter().map(|check| check.what).collect();
                for what in
                    ["attempt", "answer", "gate", "run mode", "rules", "thresholds", "snapshot", "state"]
                {
                    assert!(compared.contains(&what), "{what} in {compared:?}");
                }
                for check in &checks {
                    assert!(check.is_same(), "{known:?} {on_partial}: {check:?}");
                }
            }
        }
    }
}

#[test]
fn a_record_of_another_snapshot_does_not_follow() {
    let good = output(GOOD);
    let ready = ready(Known::Coherent, false, |text| text);
    let conclusion = concluded(&ready, Ok(&good));
    let record = Record::read(conclusion.rest.last().unwrap().payload.as_str()).unwrap();
    let tenant = TenantId::parse("t").unwrap();
    let checks = replay(&tenant, &record, snapshot(Known::Stale)).unwrap();
    let wrong: Vec<&str> = checks.iter().filter(|check| !check.is_same()).map(|check| check.what).collect();
    for what in
        ["snapshot", "policy input", "decision", "policy output", "gate", "run mode", "state", "answer"]
    {
        assert!(wrong.contains(&what), "{what} in {wrong:?}");
    }
    assert!(!replay(&tenant, &record, None).unwrap().iter().all(|check| check.is_same()));
}

/// If anything in a record is changed that follows from the log, one check says so.
#[test]
fn a_changed_record_does_not_follow() {
    let good = output(GOOD);
    let ready = ready(Known::Coherent, false, |text| text);
    let conclusion = concluded(&ready, Ok(&good));
    let text = conclusion.rest.last().unwrap().payload.canonical();
    let tenant = TenantId::parse("t").unwrap();
    let rules_digest = format!(r#""rulesDigest":"{}"#, Blake3::of(ready.rules.as_bytes()));
    let other_digest = format!(r#""rulesDigest":"{}"#, Blake3::of(b"other rules"));
    let changes = [
        ("attempt", r#""attempt":1,"configurationVersion""#, r#""attempt":2,"configurationVersion""#),
        ("execution", r#""executionId":"e-1","fingerprint""#, r#""executionId":"e-2","fingerprint""#),
        ("answer", r#""idempotent":false"#, r#""idempotent":true"#),
        ("run mode", r#""runMode":"execute""#, r#""runMode":"dry_run""#),
        ("gate outcome", r#""outcome":"planned""#, r#""outcome":"succeeded""#),
        ("gate", r#""runs":true"#, r#""runs":false"#),
        (
            "thresholds",
            r#""thresholds":{"maxStalenessMinutes":1440,"minConfidence":0.5,"minLineageCount":1}},"reason""#,
            r#""thresholds":{"maxStalenessMinutes":1441,"minConfidence":0.5,"minLineageCount":1}},"reason""#,
        ),
        ("rules digest", &rules_digest, &other_digest),
        ("lineage count", r#""lineageCount":"#, r#""lineageCount":1"#),
        ("coherence", r#""coherenceStatus":"coherent","digest""#, r#""coherenceStatus":"partial","digest""#),
    ];
    for (what, from, to) in changes {
        assert!(text.contains(from), "{what}: {from} is not in {text}");
        let record = Record::read(&text.replacen(from, to, 1)).unwrap_or_else(|| panic!("{what} unreadable"));
        let checks = replay(&tenant, &record, snapshot(Known::Coherent)).unwrap();
        let wrong: Vec<&str> =
            checks.iter().filter(|check| !check.is_same()).map(|check| check.what).collect();
        assert!(wrong.contains(&what), "{what} in {wrong:?}");
    }
    // Members that no record has make it unreadable, at every level.
    for place in ["\"answer\":{", "\"gate\":{", "\"policy\":{", "\"snapshot\":{", "\"artifacts\":[{"] {
        assert!(text.contains(place), "{place}");
        assert!(
            Record::read(&text.replacen(place, &format!("{place}\"isNew\":true,"), 1)).is_none(),
            "{place}"
        );
    }
    assert!(Record::read(&text.replacen('{', "{\"isNew\":true,", 1)).is_none());
}

#[test]
fn a_verdict_on_a_draft_is_an_entry_and_on_approval_the_artifact_again() {
    let entry = |state: &str, module: &str| {
        let text = format!(
            r#"{{"id":"draft-1","robotId":"r","module":"{module}","source":"builder","type":"copy","state":"{state}",
            "createdAt":"2026-01-01T00:00:00Z","payload":{{"x":1}},"lineage":{{"dependsOnLedgerIds":["signal-1"],"executionId":"e-1"}}}}"#
        );
        let (document, _) = parse(text.as_bytes(), &Limits::default());
        Entry::read_from(document.unwrap().root()).unwrap()
    };
    let (who, why) = (Text::new("ana").unwrap(), Text::new("good").unwrap());
    let approved = review(&entry("draft", "builder"), ReviewOpinion::Approved, &who, &why).unwrap();
    let states: Vec<(&str, &str)> =
        approved.iter().map(|draft| (draft.kind.as_str(), draft.state.as_str())).collect();
    assert_eq!(states, [("review", "approved"), ("copy", "planned")]);
    let by = (approved[1].module.as_str(), approved[1].source.as_str());
    assert_eq!(by, ("builder", "builder"), "an artifact's entry, as R14 has it");
    let lineage = approved[1].lineage.as_ref().unwrap().depends_on.as_ref().unwrap();
    assert!(lineage.contains(&LedgerId::parse("draft-1").unwrap()) && lineage.as_slice().len() == 2);
    let rejected = review(&entry("draft", "builder"), ReviewOpinion::Rejected, &who, &why).unwrap();
    assert_eq!(rejected.len(), 1);
    for (state, module) in [("planned", "builder"), ("draft", "other")] {
        assert!(review(&entry(state, module), ReviewOpinion::Approved, &who, &why).is_err());
    }
}
