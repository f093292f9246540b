//! The screens of snapshots, the policy, the Builder, reviews and robots.

use expect_test::expect;

use crate::story::Story;

#[test]
fn evidence_and_what_may_be_done_with_it() {
    let story = Story::with_entries();
    story.shows(
        "crealeph snapshot shop-17",
        expect![[r#"
        Robot shop-17: coherent
        everything rests on the newest evidence
        snapshot at <time>

          signal     <time>   <id>
          fusion     <time>   <id>
          idea       <time>   <id>
          copy       <time>   <id>
          benchmark  none
          playbook   <time>   <id>

        0 tasks, 5 entries may be depended on
    "#]],
    );
    story.shows(
        "crealeph robot list",
        expect![[r#"
        shop-17                  coherent  oldest evidence signal, just now; no
          execution
    "#]],
    );
    story.shows(
        "crealeph robot status shop-17",
        expect![[r#"
        Robot shop-17: coherent
        everything rests on the newest evidence

        Known:
          signal     just now   <id>
          fusion     just now   <id>
          idea       just now   <id>
          copy       just now   <id>
          benchmark  none
          playbook   just now   <id>

        Last of each type:
          copy             final by copywriter (just now)
          fusion           final by fusion (just now)
          idea             final by ideator (just now)
          playbook         final by playbooks (just now)
          signal           final by scout (just now)

        Actions that are deferred, the action needs benchmarkAt, and there is none:
          playbooks.v1.run, playbooks.v2.run

        Actions that are allowed:
          builder.run, competitors.run_insights, copywriter.run, fusion.run,
            ideator.run, market_twin.run, robots.run, work.run

        What would help, in this order:
          1. crealeph build --robot shop-17 …
    "#]],
    );
    story.shows(
        "crealeph build request.json",
        expect![[r#"
        Execution <id>: planned
          coherence  coherent: everything rests on the newest evidence
          decision   allowed
          why        the snapshot is coherent and what the action needs is fresh
          agent      example@1 ran
          artifact   copy         <id>
          artifact   task         <id>
          artifact   site_plan    <id>
    "#]],
    );
    story.shows(
        "crealeph execution list",
        expect![[r#"
            <time>  planned   <id>  robot shop-17, attempt 1,
              plan_landing_plan on a coherent snapshot
        "#]],
    );
    story.shows(
        "crealeph execution show",
        expect![[r#"
            <time>  planned   <id>  robot shop-17, attempt 1,
              plan_landing_plan on a coherent snapshot
              attempt 1: the snapshot is coherent and what the action needs is fresh
              copy         planned   <id>
              task         planned   <id>
              site_plan    planned   <id>
        "#]],
    );
    story.shows(
        "crealeph execution why",
        expect![[r#"
            Execution <id>, attempt 1, ended `planned`: the snapshot is coherent
              and what the action needs is fresh
            Policy: ALLOW; the agent ran.

              coherence.coherent           the snapshot is coherent and what the action
                needs is fresh
        "#]],
    );
    story.shows(
        "crealeph execution replay",
        expect![[r#"
            execution <id>, attempt 1: the recorded decision follows
              same    execution
              same    attempt
              same    request fingerprint
              same    decision
              same    gate
              same    place in the log
              same    snapshot
              same    snapshot time
              same    coherence
              same    lineage count
              same    lineage cut
              same    omitted payloads
              same    evaluation time
              same    policy input
              same    thresholds
              same    rules
              same    rules digest
              same    coherence rules
              same    policy output
              same    run mode
              same    gate outcome
              same    artifact types
              same    state
              same    answer
              same    record's state
              same    record's robot
              same    record's execution
              same    record's rerun
              same    record's key
              same    event
              same    artifacts
        "#]],
    );
}

#[test]
fn evidence_that_is_out_of_date() {
    let story = Story::with_entries();
    story.quietly("crealeph ledger append later.jsonl");
    story.shows(
        "crealeph snapshot shop-17",
        expect![[r#"
        Robot shop-17: stale
        a signal is newer than the one used for the newest idea, copy and playbook
        snapshot at <time>

          signal     <time>   <id>
          fusion     <time>   <id>
          idea       <time>   <id>
          copy       <time>   <id>
          benchmark  none
          playbook   <time>   <id>

        0 tasks, 6 entries may be depended on
    "#]],
    );
    story.shows(
        "crealeph robot status shop-17",
        expect![[r#"
        Robot shop-17: stale
        a signal is newer than the one used for the newest idea, copy and playbook

        Known:
          signal     just now   <id>
          fusion     just now   <id>
          idea       just now   <id>
          copy       just now   <id>
          benchmark  none
          playbook   just now   <id>

        Last of each type:
          copy             final by copywriter (just now)
          fusion           final by fusion (just now)
          idea             final by ideator (just now)
          playbook         final by playbooks (just now)
          signal           final by scout (just now)

        Actions that are blocked, the snapshot is stale: idea, copy, playbook must be
          made anew on the newest evidence:
          builder.run, robots.run, work.run

        Actions that are deferred, the snapshot is stale: idea, copy, playbook must be
          made anew on the newest evidence:
          competitors.run_insights, fusion.run, market_twin.run

        Actions that are allowed:
          copywriter.run, ideator.run, playbooks.v1.run, playbooks.v2.run

        What would help, in this order:
          1. ideator.run for a new idea: a signal is newer than the one used for the
            newest idea
          2. copywriter.run for a new copy: a signal is newer than the one used for the
            newest copy
          3. competitors.run_insights for a new benchmark: playbooks.v1.run needs
            benchmarkAt, and there is none
          4. playbooks.v1.run or playbooks.v2.run for a new playbook: a signal is newer
            than the one used for the newest playbook
          5. crealeph build --robot shop-17 …
    "#]],
    );
    story.shows(
        "crealeph build request.json",
        expect![[r#"
        Execution <id>: failed
          coherence  stale: a signal is newer than the one used for the newest idea,
            copy and playbook
          decision   refused
          code       COHERENCE_BLOCKED
          why        a signal is newer than the one used for the newest idea, copy and
            playbook
          agent      example@1 was not called

        next: crealeph execution why <id>
        exit code 1
    "#]],
    );
    story.shows(
        "crealeph execution why",
        expect![[r#"
            Execution <id>, attempt 1, ended `failed`: a signal is newer than the
              one used for the newest idea, copy and playbook
            Policy: BLOCK; the agent did not run.

              coherence.stale              the snapshot is stale: idea, copy, playbook must
                be made anew on the newest evidence

            What would change it:
              a coherent snapshot
              regenerate copy: run copywriter.run
              regenerate idea: run ideator.run
              regenerate playbook: run playbooks.v1.run or playbooks.v2.run
            Then send the request again under a new executionId.
        "#]],
    );
    story.write("stricter.toml", "[thresholds]\nmin_confidence = 0.99\n");
    story.shows(
        "crealeph policy backtest --thresholds stricter.toml",
        expect![[r#"
        0 of 1 decisions would flip; 0 records could not be read
    "#]],
    );
}

#[test]
fn drafts_and_their_review() {
    let story = Story::with_entries();
    story.shows(
        "crealeph review list",
        expect![[r#"
        no draft awaits review
    "#]],
    );
    story.shows(
        "crealeph build --robot shop-17 --objective landing_plan --agent example@1 --dry-run",
        expect![[r#"
            Execution <id>: succeeded
              coherence  coherent: everything rests on the newest evidence
              decision   allowed
              why        the snapshot is coherent and what the action needs is fresh
              agent      example@1 ran
              artifact   copy         <id>
              artifact   task         <id>
              artifact   site_plan    <id>
        "#]],
    );
    // The drafts of one build are of one millisecond, so how long their ids are differs, and with them the columns.
    story.shows_at(
        200,
        "crealeph review list | tr -s ' '",
        expect![[r#"
            <id> site_plan <time> robot shop-17, execution <id>
            <id> task <time> robot shop-17, execution <id>
            <id> copy <time> robot shop-17, execution <id>
        "#]],
    );
    let draft = story.first_word("crealeph review list");
    story.shows(
        &format!("crealeph review approve {draft} --reason fits"),
        expect![[r#"
            `crealeph review approve` is deprecated; use `crealeph approve`
            approved <id>
            planned as <id>
        "#]],
    );
    story.shows(
        &format!("crealeph review reject {draft} --reason 'wrong page'"),
        expect![[r#"
            `crealeph review reject` is deprecated; use `crealeph reject`
            error: draft `<id>` has a verdict already, entry
              `<id>`; a verdict cannot be changed
            exit code 1
        "#]],
    );
}

#[test]
fn a_policy_decision() {
    let story = Story::new();
    story.write("input.json", include_str!("../../../../examples/policy-input.json"));
    story.shows(
        "crealeph policy explain input.json",
        expect![[r#"
        DEFER: builder.run for robot shop-17, confidence 0.6042
        at <time>, snapshot coherent

             coherence.stale              passed
             coherence.partial.draft_only passed
             coherence.partial            passed
             action.missing               passed
             action.unknown               passed
             recency.missing              passed
          -> recency.stale                fusionAt is older than the 120 minutes allowed
             recency.future               passed
             lineage.insufficient         passed
          -> confidence.insufficient      the evidence is fresh to 0.3958, and 0.5 is
            wanted
             coherence.coherent           not evaluated

        deferred  builder.run

        What would change it:
          recency.stale
            fusionAt from <time> to <time>: run
              fusion.run
          confidence.insufficient
            signalsAt, fusionAt at most 120 minutes old on average: run fusion.run
    "#]],
    );
    story.shows(
        "crealeph policy evaluate input.json",
        expect![[r#"
        {
          "ok": true,
          "decision": "DEFER",
          "allowedActions": [],
          "blockedActions": [],
          "deferredActions": [
            "builder.run"
          ],
          "reasons": [
            {
              "ruleId": "recency.stale",
              "message": "fusionAt is older than the 120 minutes allowed",
              "severity": "warn",
              "evidence": {
                "timestamp": "fusionAt",
                "value": "<time>",
                "ageMinutes": 160,
                "maxStalenessMinutes": 120,
                "toAllow": {
                  "anyOf": [
                    "fusionAt"
                  ],
                  "notBefore": "<time>",
                  "notAfter": "<time>",
                  "refreshedBy": [
                    "fusion.run"
                  ]
                }
              }
            },
            {
              "ruleId": "confidence.insufficient",
              "message": "the evidence is fresh to 0.3958, and 0.5 is wanted",
              "severity": "warn",
              "evidence": {
                "confidence": 0.3958,
                "minConfidence": 0.5,
                "toAllow": {
                  "confidenceAtLeast": 0.5,
                  "meanAgeMinutesAtMost": 120,
                  "of": [
                    "signalsAt",
                    "fusionAt"
                  ],
                  "refreshedBy": [
                    "fusion.run"
                  ]
                }
              }
            }
          ],
          "confidence": 0.6042,
          "policyContractVersion": "v1",
          "evaluatedAt": "<time>"
        }
    "#]],
    );
}

#[test]
fn a_document_and_its_contract() {
    let story = Story::new();
    story.shows(
        "crealeph validate builder-request request.json",
        expect![[r#"
        request.json is a valid builder-request
    "#]],
    );
    story.write("bad.json", "{\n  \"robotId\": \"\",\n  \"attempt\": 0,\n  \"dryrun\": true\n}\n");
    story.shows(
        "crealeph validate builder-request bad.json",
        expect![[r#"
        bad.json is not a valid builder-request: 10 violations

        INVALID_REQUEST: `objective_type` is missing; add one of "site_plan",
          "landing_plan", "paid_media_plan", "seo_cluster", "campaign_plan"
          at bad.json:1:1, /objective_type (builder/3)
            |
          1 | {
            | ^

        INVALID_REQUEST: `objective_payload` is missing; add a JSON object
          at bad.json:1:1, /objective_payload (builder/3)
            |
          1 | {
            | ^

        INVALID_REQUEST: `constraints` is missing; add a JSON object
          at bad.json:1:1, /constraints (builder/3)
            |
          1 | {
            | ^

        INVALID_REQUEST: `coherence_policy` is missing; add an object with `on_stale`,
          `on_partial`
          at bad.json:1:1, /coherence_policy (builder/3)
            |
          1 | {
            | ^

        INVALID_REQUEST: `dryRun` is missing; add true or false
          at bad.json:1:1, /dryRun (builder/3)
            |
          1 | {
            | ^

        INVALID_REQUEST: `workflowVersion` is missing; add a non-empty string
          at bad.json:1:1, /workflowVersion (builder/3)
            |
          1 | {
            | ^

        INVALID_REQUEST: `agentVersion` is missing; add a non-empty string
          at bad.json:1:1, /agentVersion (builder/3)
            |
          1 | {
            | ^

        INVALID_REQUEST: the string is empty or only white space; write a name
          at bad.json:2:14, /robotId (builder/3)
            |
          2 |   "robotId": "",
            |              ^^

        INVALID_REQUEST: expected an integer from 1 to 2^53 − 1, found 0
          at bad.json:3:14, /attempt (builder/3)
            |
          3 |   "attempt": 0,
            |              ^

        INVALID_REQUEST: the key `dryrun` is not in the contract; did you mean `dryRun`?
          at bad.json:4:3, /dryrun (R4)
            |
          4 |   "dryrun": true
            |   ^^^^^^^^
        exit code 1
    "#]],
    );
}

#[test]
fn an_agent_that_conforms() {
    let story = Story::new();
    story.shows(
        "crealeph agent check example@1 --case unicode",
        expect![[r#"
            bounds      kept on 1 of 1 inputs: it ends by itself, within its limits of time
              and size
            R1-R6       kept on 1 of 1 inputs: its answer is one JSON document
            boundary/5  kept on 1 of 1 inputs: with the fields of an AgentOutput, and no
              others
            boundary/6  kept on 1 of 1 inputs: that keeps to the types and ids it was given
            R16         kept on 1 of 1 inputs: and does not contradict itself or its input
            success     kept on 1 of 1 inputs: every input here can be processed, so its
              status is `succeeded`
            boundary/7  kept on 1 of 1 inputs: the same input gets the same answer twice: no
              memory
        "#]],
    );
}
