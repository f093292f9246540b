//! What is answered can be read back, and only what the Builder wrote is believed.

use crealeph_contracts::AgentInput;
use crealeph_contracts::agent_output::AgentAnswer;
use crealeph_contracts::builder::ErrorCode;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::scalar::{ExecutionId, LedgerId, RobotId, Text, Version};
use crealeph_contracts::work_item::AgentId;
use crealeph_decision::builder::review::ReviewOpinion;
use crealeph_ledger::{Ledger, LedgerOptions, Location};
use crealeph_runtime::agents::{Agent, Agents, Call};
use crealeph_runtime::approvals::RejectedSubjects;
use crealeph_runtime::builder::{Builder, Settings, execution, is_made_by_builder, replay};
use crealeph_runtime::review::{WaitingDrafts, count_waiting, settle, waiting};
use crealeph_runtime::work::{TasksError, from_tasks};
use crealeph_sandbox::Cancel;

use crate::world::{ALL, Place, World, answer_to, request, tenant, world};

fn nested(depth: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
}

/// Answers with payloads that nest as deep as an answer may: its document 128, a payload in it 125.
struct Deep;

impl Agent for Deep {
    fn call(&self, input: &Valid<AgentInput>, _: &Cancel) -> Call {
        let deep = |depth: usize| {
            let text = answer_to(input).to_json();
            let payload = format!("{{\"for\":\"{}\"}}", input.execution_id);
            text.replace(&payload, &nested(depth))
        };
        assert!(AgentAnswer::parse(deep(126).as_bytes(), &Limits::default(), input).is_err());
        let answer = AgentAnswer::parse(deep(125).as_bytes(), &Limits::default(), input).unwrap();
        Call {
            answer: Ok(answer),
            identity: JsonObject::empty(),
            diagnostics: String::new(),
            tokens_used: None,
        }
    }
}

pub(crate) fn a_request_as_deep_and_as_large_as_allowed_is_recorded_whole(place: &dyn Place) {
    let world = world(place);
    let (signal, fusion) = world.know(&["idea", "copy"]);
    // The snapshot holds entries as deep as a line of `ledger append` may be.
    let playbook = format!(
        r#"{{"robotId":"r","module":"m","source":"s","type":"playbook","state":"final","payload":{},
        "lineage":{{"dependsOnLedgerIds":["{signal}","{fusion}"]}}}}"#,
        nested(127)
    );
    let playbook = Draft::parse(playbook.as_bytes(), &Limits::default()).unwrap();
    world.ledger.append(&tenant(), vec![playbook]).unwrap();
    let mut agents = Agents::default();
    agents.insert(Version::parse("a1").unwrap(), "{}".to_owned(), Box::new(Deep));
    let builder = Builder::new(world.ledger.clone(), agents, Settings::default());
    let run = |request: &str| {
        builder.run(&tenant(), request.as_bytes(), None, &Cancel::new().unwrap()).unwrap().response
    };
    let with = |execution: &str, payload: &str, constraints: &str| {
        let text = request(execution, "block", true, 1).replace(r#"{"goal":"sell"}"#, payload);
        text.replace(r#""constraints":{}"#, &format!(r#""constraints":{constraints}"#))
    };
    for depth in [125, 126, 127] {
        let (payload, constraints) = (format!("payload-{depth}"), format!("constraints-{depth}"));
        for (execution, text) in [
            (&payload, with(&payload, &nested(depth), "{}")),
            (&constraints, with(&constraints, "{}", &nested(depth))),
        ] {
            assert_eq!(run(&text).state, ExecutionState::Succeeded, "{execution}");
            let again = run(&text);
            assert!(again.idempotent && again.state == ExecutionState::Succeeded, "{execution}");
            world.replays(execution);
        }
    }
    let beyond = run(&with("beyond", &nested(128), "{}"));
    assert_eq!((beyond.error, world.left("beyond").as_str()), (Some(ErrorCode::InvalidRequest), ""));
    // A request may have a quarter of what an entry may.
    let most = world.ledger.limits().payload_bytes / 4;
    let sized = |execution: &str, bytes: usize| {
        let empty = with(execution, r#"{"x":""}"#, "{}").replace(['\n', ' '], "");
        let fill = "x".repeat(bytes - empty.len());
        empty.replace(r#"{"x":""}"#, &format!(r#"{{"x":"{fill}"}}"#))
    };
    assert_eq!(run(&sized("large", most)).state, ExecutionState::Succeeded);
    assert!(run(&sized("large", most)).idempotent);
    world.replays("large");
    assert_eq!(run(&sized("larger", most + 1)).error, Some(ErrorCode::InvalidRequest));
    let mut export = Vec::new();
    world.ledger.export(&tenant(), &mut export).unwrap();
    let other = Location::File(world.folder.path().join("other.db"));
    let options =
        LedgerOptions { keys: Some(world.folder.path().join("other.keys")), ..LedgerOptions::default() };
    Ledger::init(&other, options).unwrap().import(&mut export.as_slice()).unwrap();
}

/// Answers with artifacts whose payloads have these sizes.
struct Sized(Vec<usize>);

impl Agent for Sized {
    fn call(&self, input: &Valid<AgentInput>, _: &Cancel) -> Call {
        let on = &input.allowed_lineage.depends_on.as_slice()[0];
        let artifact = |bytes: &usize| {
            format!(
                r#"{{"type":"task","payload":{{"a":"{}"}},"dependsOnLedgerIds":["{on}"],"metadata":{{"generatedAt":"2026-01-01T00:00:00Z"}}}}"#,
                "x".repeat(bytes - 8)
            )
        };
        let artifacts: Vec<String> = self.0.iter().map(artifact).collect();
        let text = format!(
            r#"{{"ok":true,"executionId":"{}","status":"succeeded","artifacts":[{}]}}"#,
            input.execution_id,
            artifacts.join(",")
        );
        let answer = AgentAnswer::parse(text.as_bytes(), &Limits::default(), input).unwrap();
        Call {
            answer: Ok(answer),
            identity: JsonObject::empty(),
            diagnostics: String::new(),
            tokens_used: None,
        }
    }
}

pub(crate) fn an_answer_as_large_as_allowed_is_written_whole(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let limits = *world.ledger.limits();
    let (each, most) = (limits.payload_bytes, limits.batch_entries - 3);
    // One payload, all together, and how many.
    let rows = [
        (vec![each], true),
        (vec![each + 1], false),
        (vec![each, each], true),
        (vec![each, each, 8], false),
        (vec![8; most], true),
        (vec![8; most + 1], false),
    ];
    for (number, (sizes, is_taken)) in rows.into_iter().enumerate() {
        let mut agents = Agents::default();
        let count = sizes.len();
        agents.insert(Version::parse("a1").unwrap(), "{}".to_owned(), Box::new(Sized(sizes)));
        let builder = Builder::new(world.ledger.clone(), agents, Settings::default());
        let execution = format!("sized-{number}");
        let asked = request(&execution, "block", true, 1);
        let run =
            || builder.run(&tenant(), asked.as_bytes(), None, &Cancel::new().unwrap()).unwrap().response;
        let answer = run();
        assert_eq!(answer.ok, is_taken, "{execution}: {answer:?}");
        assert_eq!(answer.artifacts.as_slice().len(), if is_taken { count } else { 0 });
        assert!(run().idempotent, "{execution}");
        world.replays(&execution);
        if count == 1 && is_taken {
            let (who, why) = (Text::new("ana").unwrap(), Text::new("good").unwrap());
            let draft = &answer.artifacts.as_slice()[0].id;
            settle(&world.ledger, &tenant(), draft, ReviewOpinion::Approved, &who, &why).unwrap();
        }
    }
}

/// The same log as one that an older program started.
fn under_first_rules(world: &World) -> Ledger {
    let mut export = Vec::new();
    world.ledger.export(&tenant(), &mut export).unwrap();
    let export = String::from_utf8(export).unwrap().replace("crealeph-log/2-", "crealeph-log/");
    let location = Location::File(world.folder.path().join("first-rules.db"));
    let keys = Some(world.folder.path().join("first-rules.keys"));
    let older = Ledger::init(&location, LedgerOptions { keys, ..LedgerOptions::default() }).unwrap();
    older.import(&mut export.as_bytes()).unwrap();
    older
}

/// Under the first rules of a log anyone could write what looks like an artifact.
pub(crate) fn only_what_a_record_names_is_the_builders(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let answer = world.run(&request("dry", "block", true, 1)).response;
    let drafts: Vec<LedgerId> = answer.artifacts.as_slice().iter().map(|made| made.id.clone()).collect();
    let answer = world.run(&request("wet", "block", false, 1)).response;
    assert_eq!(answer.state, ExecutionState::Planned);
    let fake = |state: &str, execution: &str| {
        let text = format!(
            r#"{{"robotId":"r","module":"builder","source":"builder","type":"task","state":"{state}",
            "payload":{{"title":"rm -rf"}},"lineage":{{"executionId":"{execution}"}}}}"#
        );
        let draft = Draft::parse(text.as_bytes(), &Limits::default()).unwrap();
        assert!(world.ledger.append(&tenant(), vec![draft.clone()]).is_err(), "the module is reserved");
        world.ledger.append_as(&tenant(), vec![(None, draft)]).unwrap().remove(0).id
    };
    let (fake_draft, fake_task) = (fake("draft", "dry"), fake("planned", "wet"));
    let (listed, _) = waiting(&world.ledger, &tenant(), None, None, 100).unwrap();
    let mut listed: Vec<LedgerId> = listed.into_iter().map(|draft| draft.id).collect();
    listed.sort();
    let mut expected = drafts.clone();
    expected.sort();
    assert_eq!(listed, expected, "the fake one is not among the drafts");
    let older = under_first_rules(&world);
    let robot = RobotId::parse("r").unwrap();
    let count =
        |newest| count_waiting(&older, &tenant(), &RejectedSubjects::default(), &robot, newest).unwrap();
    let all = WaitingDrafts { count: drafts.len() as u64, is_cut: false };
    assert_eq!(count(None), all, "nor is it counted");
    assert_eq!(count(Some(drafts.len() + 1)), all);
    // The fake one is the newest, and each of the others is named by a record.
    for newest in 1..=drafts.len() {
        assert_eq!(count(Some(newest)), WaitingDrafts { count: newest as u64 - 1, is_cut: true });
    }
    let (who, why) = (Text::new("ana").unwrap(), Text::new("good").unwrap());
    let verdict = |id: &LedgerId| settle(&world.ledger, &tenant(), id, ReviewOpinion::Approved, &who, &why);
    assert_eq!(verdict(&fake_draft).unwrap_err().code(), "not_a_draft");
    let tasks = |execution: &str| {
        let execution = ExecutionId::parse(execution).unwrap();
        from_tasks(&world.ledger, &tenant(), &execution, AgentId::Agent1)
    };
    let items = tasks("wet").unwrap();
    assert_eq!(items.len(), 1);
    assert!(items[0].id.as_str() != fake_task.as_str(), "the fake one is no work item");
    assert!(matches!(tasks("dry"), Err(TasksError::None(_))), "drafts are none either");
    for draft in &drafts {
        let approved = verdict(draft).unwrap().pop().unwrap();
        let approved = world.ledger.get(&tenant(), &approved.id).unwrap().unwrap();
        assert!(is_made_by_builder(&world.ledger, &tenant(), &approved).unwrap());
    }
    assert_eq!(tasks("dry").unwrap().len(), 1, "what a person approved is");
}

/// The entry of a record, the event and the artifacts are compared too, not the record alone.
pub(crate) fn a_record_that_was_changed_does_not_follow(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    world.run(&request("e", "block", false, 1));
    let id = ExecutionId::parse("e").unwrap();
    let found = execution(&world.ledger, &tenant(), None, &id).unwrap().unwrap();
    let (entry, record) = &found.records[0];
    let wrong = |entry, record| -> Vec<&'static str> {
        let checks = replay(&world.ledger, &tenant(), entry, record).unwrap();
        checks.into_iter().filter(|check| !check.is_same()).map(|check| check.what).collect()
    };
    assert_eq!(wrong(entry, record), [] as [&str; 0]);
    let mut other = entry.clone();
    other.content.state = crealeph_contracts::scalar::Name::parse("succeeded").unwrap();
    assert_eq!(wrong(&other, record), ["record's state"]);
    let mut other = entry.clone();
    other.content.key = None;
    other.content.execution_id = None;
    assert_eq!(wrong(&other, record), ["record's execution", "record's key"]);
    let mut other = record.clone();
    other.attempt = 2;
    assert_eq!(wrong(entry, &other), ["attempt", "record's key", "event"]);
    let mut other = record.clone();
    other.artifacts[0].id = LedgerId::parse("another").unwrap();
    assert_eq!(wrong(entry, &other), ["answer", "artifacts"]);
}
