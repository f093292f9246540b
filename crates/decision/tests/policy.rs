//! The policy engine: R22's rules one by one, what each refusal says would change it, and the laws that hold for
//! every question.

#![cfg(test)]

use crealeph_contracts::contract::{ContractName, Valid, to_json};
use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::{PolicyInput, PolicyOutput};
use crealeph_decision::judge::judge;
use crealeph_decision::policy::{Rules, RulesError, RulesSource, Standing, evaluate, standings};
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: &str = "2026-03-04T06:00:00Z";

fn question(action: Option<&str>, coherence: &str, recency: Value, lineage: usize) -> Value {
    let ids: Vec<String> = (0..lineage).map(|number| format!("L{number}")).collect();
    let mut question = json!({
        "tenantId": "t", "robotId": "r", "policyContractVersion": "v1", "evaluatedAt": NOW, "snapshotAt": NOW,
        "coherenceStatus": coherence, "intelligenceSnapshot": { "lineage": { "dependsOnLedgerIds": ids } },
        "ledgerRecency": recency,
        "thresholds": { "minConfidence": 0.5, "maxStalenessMinutes": 60, "minLineageCount": 1 },
    });
    if let Some(action) = action {
        question["requestedAction"] = json!(action);
    }
    question
}

fn decide(question: &Value, rules: &Rules) -> Value {
    let input = Valid::<PolicyInput>::parse(question.to_string().as_bytes(), &Limits::default()).unwrap();
    serde_json::from_str(&to_json(&evaluate(&input, rules))).unwrap()
}

fn rule_ids(output: &Value) -> Vec<&str> {
    output["reasons"].as_array().unwrap().iter().map(|reason| reason["ruleId"].as_str().unwrap()).collect()
}

fn fresh() -> Value {
    json!({ "signalsAt": "2026-03-04T05:30:00Z", "fusionAt": "2026-03-04T05:20:00Z" })
}

#[test]
fn a_coherent_and_fresh_robot_is_allowed_its_action() {
    let output = decide(&question(Some("builder.run"), "coherent", fresh(), 1), &Rules::default());
    assert_eq!(output["decision"], "ALLOW");
    assert_eq!(output["allowedActions"], json!(["builder.run"]));
    assert_eq!(output["confidence"], json!(0.7083), "the mean of 0.75 and 0.6667 (R24)");
    assert_eq!(rule_ids(&output), ["coherence.coherent"]);
    assert_eq!(output["reasons"][0]["evidence"], fresh());
}

#[test]
fn every_rule_that_applies_is_listed_in_order() {
    let recency = json!({ "signalsAt": "2026-03-04T04:59:59.999Z", "fusionAt": null });
    let output = decide(&question(Some("builder.run"), "coherent", recency, 0), &Rules::default());
    assert_eq!(output["decision"], "DEFER");
    let expected = ["recency.missing", "recency.stale", "lineage.insufficient", "confidence.insufficient"];
    assert_eq!(rule_ids(&output), expected);
    assert_eq!(output["deferredActions"], json!(["builder.run"]));
    assert_eq!(output["confidence"], json!(1), "1 − freshness");
    let future = json!({ "signalsAt": "2026-03-04T06:00:00.001Z", "fusionAt": NOW });
    let output = decide(&question(Some("builder.run"), "coherent", future, 1), &Rules::default());
    assert_eq!(rule_ids(&output), ["recency.future"], "confidence is 0.5, just enough");
    let unknown = decide(&question(Some("builder.rnu"), "coherent", fresh(), 1), &Rules::default());
    assert_eq!(rule_ids(&unknown), ["action.unknown"]);
    assert!(unknown["reasons"][0]["message"].as_str().unwrap().contains("did you mean `builder.run`?"));
    assert_eq!(
        rule_ids(&decide(&question(None, "coherent", fresh(), 1), &Rules::default())),
        ["action.missing"]
    );
}

#[test]
fn what_each_action_needs_is_the_table_of_r23() {
    let all = ["signalsAt", "fusionAt", "ideaAt", "copyAt", "benchmarkAt", "playbookAt"];
    let table: [(&str, &[&[&str]]); 10] = [
        ("builder.run", &[&["signalsAt", "fusionAt"]]),
        ("robots.run", &[&[]]),
        ("fusion.run", &[&[]]),
        ("competitors.run_insights", &[&[]]),
        ("work.run", &[&[]]),
        ("ideator.run", &[&["signalsAt"], &["fusionAt"]]),
        ("copywriter.run", &[&["ideaAt", "signalsAt"], &["ideaAt", "fusionAt"]]),
        ("market_twin.run", &[&["signalsAt"]]),
        ("playbooks.v1.run", &[&["fusionAt", "ideaAt", "benchmarkAt"]]),
        ("playbooks.v2.run", &[&["fusionAt", "ideaAt", "benchmarkAt"]]),
    ];
    for (action, ways) in table {
        for present in 0..(1u32 << all.len()) {
            let given: Vec<&str> =
                (0..all.len()).filter(|bit| present & (1 << bit) != 0).map(|bit| all[bit]).collect();
            let recency: serde_json::Map<String, Value> =
                given.iter().map(|name| ((*name).to_owned(), json!(NOW))).collect();
            let output =
                decide(&question(Some(action), "coherent", Value::Object(recency), 1), &Rules::default());
            let is_met = ways.iter().any(|way| way.iter().all(|name| given.contains(name)));
            assert_eq!(output["decision"] == "ALLOW", is_met, "{action} with {given:?}");
        }
    }
}

#[test]
fn a_stale_robot_is_blocked_but_has_a_way_out() {
    let mut asked = question(Some("builder.run"), "stale", fresh(), 1);
    asked["intelligenceSnapshot"]["coherence"] = json!({ "outdated": ["copy"] });
    let output = decide(&asked, &Rules::default());
    assert_eq!((&output["decision"], &output["confidence"]), (&json!("BLOCK"), &json!(1)));
    assert_eq!(output["blockedActions"], json!(["builder.run", "robots.run", "work.run"]));
    assert_eq!(output["allowedActions"], json!(["copywriter.run"]));
    let evidence = &output["reasons"][0]["evidence"];
    assert_eq!(evidence["toAllow"]["refreshedBy"], json!({ "copy": ["copywriter.run"] }));
    asked["requestedAction"] = json!("made.up");
    assert!(
        decide(&asked, &Rules::default())["blockedActions"].as_array().unwrap().contains(&json!("made.up"))
    );
}

#[test]
fn drafts_need_an_explicit_threshold_and_builder_run() {
    let mut asked = question(Some("builder.run"), "partial", fresh(), 0);
    assert_eq!(rule_ids(&decide(&asked, &Rules::default())), ["coherence.partial"]);
    for (value, decision) in
        [(json!(1), "ALLOW"), (json!(1.0), "ALLOW"), (json!(0), "DEFER"), (json!(2), "DEFER")]
    {
        asked["thresholds"]["allowDraftOnly"] = value.clone();
        assert_eq!(decide(&asked, &Rules::default())["decision"], decision, "allowDraftOnly {value} (R21)");
    }
    asked["thresholds"]["allowDraftOnly"] = json!(1);
    let output = decide(&asked, &Rules::default());
    assert_eq!(output["allowedActions"], json!(["builder.run"]));
    assert_eq!(output["deferredActions"].as_array().unwrap().len(), 9, "the rest is deferred");
    asked["requestedAction"] = json!("work.run");
    let output = decide(&asked, &Rules::default());
    assert_eq!(
        (&output["decision"], rule_ids(&output)),
        (&json!("DEFER"), vec!["coherence.partial.draft_only"])
    );
}

#[test]
// holds: invariant 2
fn an_engine_without_rules_refuses() {
    for (coherence, decision) in [("coherent", "DEFER"), ("partial", "DEFER"), ("stale", "BLOCK")] {
        let mut asked = question(Some("builder.run"), coherence, fresh(), 1);
        asked["thresholds"]["allowDraftOnly"] = json!(1);
        let output = decide(&asked, &Rules::none());
        assert_eq!((&output["decision"], &output["ok"]), (&json!(decision), &json!(false)));
        assert_eq!(rule_ids(&output), ["engine.error"]);
    }
}

#[test]
fn lineage_counts_only_if_the_snapshot_itself_states_it() {
    let mut asked = question(Some("robots.run"), "coherent", json!({}), 0);
    asked["intelligenceSnapshot"] = json!({ "signals": { "payload": { "lineage": { "dependsOnLedgerIds": ["forged"] } }, "lineage": {} } });
    assert_eq!(rule_ids(&decide(&asked, &Rules::default())), ["lineage.insufficient"]);
    asked["intelligenceSnapshot"] = json!({ "lineage": { "dependsOnLedgerIds": ["a", "a"] } });
    assert_eq!(decide(&asked, &Rules::default())["decision"], "ALLOW");
    asked["thresholds"]["minLineageCount"] = json!(2);
    assert_eq!(rule_ids(&decide(&asked, &Rules::default())), ["lineage.insufficient"], "repeats count once");
}

#[test]
fn what_a_refusal_asks_for_turns_it_into_allow() {
    let recency = json!({ "signalsAt": "2026-03-04T01:00:00Z", "fusionAt": NOW });
    let mut asked = question(Some("builder.run"), "coherent", recency, 1);
    let refused = decide(&asked, &Rules::default());
    let wanted = &refused["reasons"][0]["evidence"]["toAllow"];
    assert_eq!(wanted["anyOf"], json!(["signalsAt"]));
    asked["ledgerRecency"]["signalsAt"] = wanted["notBefore"].clone();
    assert_eq!(decide(&asked, &Rules::default())["decision"], "ALLOW", "{asked}");
    asked["ledgerRecency"]["signalsAt"] = wanted["notAfter"].clone();
    assert_eq!(decide(&asked, &Rules::default())["decision"], "ALLOW", "{asked}");
}

#[test]
fn a_timestamp_needed_twice_is_listed_once() {
    let source = r#"{"actions":{"a.run":{"needs":["signalsAt","signalsAt|fusionAt"]}}}"#;
    let rules = Rules::load(&serde_json::from_str(source).unwrap()).unwrap();
    let input = parsed(&question(Some("a.run"), "coherent", fresh(), 1));
    let text = to_json(&evaluate(&input, &rules));
    assert!(ContractName::PolicyOutput.validate(text.as_bytes(), &Limits::default()).is_empty(), "{text}");
}

#[test]
fn rules_are_checked_when_they_are_loaded() {
    let load = |text: &str| Rules::load(&serde_json::from_str::<RulesSource>(text).unwrap());
    assert_eq!(load("{}").unwrap().to_json(), Rules::default().to_json(), "the defaults load");
    assert_eq!(load("{}").unwrap().digest(), Rules::default().digest());
    let failure = |text: &str| load(text).unwrap_err();
    assert!(matches!(failure(r#"{"actions":{"":{"needs":[]}}}"#), RulesError::BadName(_)));
    assert!(matches!(failure(r#"{"actions":{"a":{"needs":["x||y"]}}}"#), RulesError::BadName(_)));
    assert!(matches!(failure(r#"{"thresholds":{"min_confidence":2}}"#), RulesError::BadThreshold { .. }));
    assert!(matches!(failure(r#"{"refresh":{"xAt":["nope.run"]}}"#), RulesError::UnknownRefresher { .. }));
    let example = r#"{"examples":[{"name":"e","action":"builder.run","ages_minutes":{"signalsAt":1},"expect":"ALLOW"}]}"#;
    assert!(matches!(failure(example), RulesError::ExampleFailed { .. }));
    assert!(matches!(failure(&example.replace("ALLOW", "MAYBE")), RulesError::BadExample { .. }));
    assert!(load(&example.replace("ALLOW", "DEFER")).is_ok());
    for (name, near) in [("signalAt", "signalsAt"), ("fusionat", "fusionAt"), ("ideaAt|copysAt", "copyAt")] {
        let why = failure(&format!(r#"{{"actions":{{"a":{{"needs":["{name}"]}}}}}}"#));
        assert!(why.to_string().contains(&format!("did you mean `{near}`?")), "{why}");
    }
    assert!(load(r#"{"actions":{"a":{"needs":["weatherAt"]}}}"#).is_ok(), "a client's own timestamp");
    assert!(
        load(r#"{"actions":{"a":{"needs":["signalAt"]}},"refresh":{"signalAt":["a"]}}"#).is_ok(),
        "declared"
    );
    let many: Vec<String> = (0..17).map(|number| format!("\"t{number}\"")).collect();
    let many = format!(r#"{{"actions":{{"a":{{"needs":[{}]}}}}}}"#, many.join(","));
    assert!(matches!(failure(&many), RulesError::TooMany { .. }));
}

#[test]
fn the_standings_name_the_deciding_rule() {
    let ask = |question: Value| {
        let input = Valid::<PolicyInput>::parse(question.to_string().as_bytes(), &Limits::default()).unwrap();
        standings(&evaluate(&input, &Rules::default()))
    };
    let count =
        |standings: &[(&str, Standing)], wanted| standings.iter().filter(|(_, s)| *s == wanted).count();
    let stale = ask(question(Some("builder.run"), "stale", fresh(), 1));
    assert_eq!((stale[0], count(&stale, Standing::NotAsked)), (("coherence.stale", Standing::Decided), 10));
    let allowed = ask(question(Some("builder.run"), "coherent", fresh(), 1));
    assert_eq!((allowed[10].1, count(&allowed, Standing::Passed)), (Standing::Decided, 10));
    let deferred = ask(question(Some("builder.run"), "coherent", fresh(), 0));
    assert_eq!((deferred[10].1, count(&deferred, Standing::Decided)), (Standing::NotAsked, 1));
}

fn any_timestamp() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        6 => (0u32..10_000).prop_map(|seconds| {
            let base = crealeph_contracts::Instant::parse("2026-03-04T03:20:00Z").unwrap().unix_nanos();
            let at = base + i128::from(seconds) * 1_000_000_000;
            json!(crealeph_contracts::Instant::from_unix_nanos(at).to_string())
        }),
    ]
}

prop_compose! {
    fn any_question()(
        action in proptest::option::of(prop_oneof![
            Just("builder.run"), Just("robots.run"), Just("ideator.run"), Just("copywriter.run"),
            Just("playbooks.v2.run"), Just("work.run"), Just("made.up"),
        ]),
        coherence in prop_oneof![2 => Just("coherent"), 1 => Just("partial"), 1 => Just("stale")],
        recency in proptest::collection::btree_map(
            prop_oneof![
                Just("signalsAt"), Just("fusionAt"), Just("ideaAt"), Just("copyAt"), Just("benchmarkAt"), Just("playbookAt"),
            ],
            any_timestamp(),
            0..7,
        ),
        lineage in 0usize..4,
        min_confidence in 0u32..=10,
        staleness in prop_oneof![Just(0.0), Just(0.5), Just(60.0), Just(90.25), Just(1e300)],
        min_lineage in 0usize..4,
        draft in proptest::option::of(0u32..3),
        outdated in proptest::collection::vec(prop_oneof![Just("idea"), Just("copy"), Just("odd")], 0..3),
    ) -> Value {
        let mut question = question(action, coherence, json!(recency), lineage);
        question["thresholds"] = json!({
            "minConfidence": f64::from(min_confidence) / 10.0, "maxStalenessMinutes": staleness, "minLineageCount": min_lineage,
        });
        if let Some(draft) = draft {
            question["thresholds"]["allowDraftOnly"] = json!(draft);
        }
        question["intelligenceSnapshot"]["coherence"] = json!({ "outdated": outdated });
        question
    }
}

fn parsed(question: &Value) -> Valid<PolicyInput> {
    Valid::<PolicyInput>::parse(question.to_string().as_bytes(), &Limits::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariant 1: the same bytes for the same input; and the answer always keeps the contract.
    #[test]
    // holds: invariant 1
    fn evaluation_is_deterministic_and_keeps_its_contract(question in any_question()) {
        let input = parsed(&question);
        let text = to_json(&evaluate(&input, &Rules::default()));
        prop_assert_eq!(&text, &to_json(&evaluate(&parsed(&question), &Rules::default())));
        let context = json!({ "policyInput": question, "requiredRecency": [] }).to_string();
        let (context, _) = parse(context.as_bytes(), &Limits::default());
        let context = context.as_ref().map(|document| document.root());
        let judgement = judge(ContractName::PolicyOutput, text.as_bytes(), context, &Limits::default()).unwrap();
        prop_assert!(judgement.violations.is_empty(), "{:?}\n{text}", judgement.violations);
        let output: Value = serde_json::from_str(&text).unwrap();
        let mut listed: Vec<&Value> = ["allowedActions", "blockedActions", "deferredActions"]
            .iter().flat_map(|list| output[*list].as_array().unwrap()).collect();
        let count = listed.len();
        listed.sort_by_key(|action| action.as_str().unwrap().to_owned());
        listed.dedup();
        prop_assert_eq!(listed.len(), count, "no action is in two lists: {}", text);
    }

    /// Less evidence never helps.
    #[test]
    // holds: invariant 2
    fn taking_freshness_or_lineage_away_never_allows(question in any_question(), which in 0usize..7) {
        let before = evaluate(&parsed(&question), &Rules::default());
        let mut poorer = question.clone();
        let names = ["signalsAt", "fusionAt", "ideaAt", "copyAt", "benchmarkAt", "playbookAt"];
        match names.get(which) {
            Some(name) => {
                poorer["ledgerRecency"][*name] = Value::Null;
            }
            None => poorer["intelligenceSnapshot"]["lineage"] = json!({}),
        }
        let after = evaluate(&parsed(&poorer), &Rules::default());
        prop_assert!(rank(&after) <= rank(&before), "{question}\nbecame {:?}", after.decision);
        if let Some(at) = names.get(which).and_then(|name| question["ledgerRecency"][*name].as_str()) {
            let older = crealeph_contracts::Instant::parse(at).unwrap().unix_nanos() - 3_600_000_000_000;
            let now = crealeph_contracts::Instant::parse(NOW).unwrap().unix_nanos();
            if older + 3_600_000_000_000 <= now {
                poorer["ledgerRecency"][names[which]] =
                    json!(crealeph_contracts::Instant::from_unix_nanos(older).to_string());
                let after = evaluate(&parsed(&poorer), &Rules::default());
                prop_assert!(rank(&after) <= rank(&before), "{question}\nbecame {:?}", after.decision);
            }
        }
    }
}

/// ALLOW above everything else.
fn rank(output: &PolicyOutput) -> u8 {
    u8::from(output.decision.as_str() == "ALLOW")
}
