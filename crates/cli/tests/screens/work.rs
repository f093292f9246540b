//! The screens of work runs, trust and the sandbox.

use expect_test::expect;

use crate::story::Story;

const ITEMS: &str = r#"[
{"id":"greet","agent_id":"agent-1","description":"echo hello > greeting.txt","dependencies":[],
 "budget":{"time_estimate_ms":1000,"complexity":"low"}},
{"id":"sign","agent_id":"agent-1","description":"echo ana >> greeting.txt","dependencies":["greet"],
 "budget":{"time_estimate_ms":1000,"complexity":"low"}}
]"#;

#[test]
fn a_class_of_files_is_named_for_people_and_not_by_its_letter() {
    let story = Story::new();
    story.shows(
        "crealeph work run --agent fixer --max-generated 0 'echo x > notes.md'",
        expect![[r#"
            run <id>: denied
              why      Exceeded max delta size of generated files: 1 > 0
              raise    --max-generated 1; in a file of items, `max_generated` in the agent's
                `paths`
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
              retry    crealeph work retry <id>
            exit code 1
        "#]],
    );
    story.shows(
        "crealeph work show | grep -o 'why .*'",
        expect![[r#"
            why      Exceeded max delta size of generated files: 1 > 0
        "#]],
    );
    story.shows(
        "crealeph report --run @ | grep -o 'Exceeded.*'",
        expect![[r#"
            Exceeded max delta size of generated files: 1 > 0
        "#]],
    );
}

#[test]
fn work_that_lands_and_work_that_does_not() {
    let story = Story::new();
    story.write("items.json", ITEMS);
    story.shows(
        "crealeph work status",
        expect![[r#"
        no run yet
    "#]],
    );
    story.shows(
        "crealeph work plan items.json",
        expect![[r#"
        Level 0: greet
        Level 1: sign
    "#]],
    );
    story.shows(
        "crealeph work run items.json",
        expect![[r#"
            greet, run <id>: success
              + greeting.txt
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
            sign, run <id>: success
              ~ greeting.txt
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
        "#]],
    );
    story.shows(
        "crealeph work run --agent fixer 'mkdir -p .github/workflows && echo x > .github/workflows/ci.yml'",
        expect![[r#"
            run <id>: denied
              why      Denied path: .github/workflows/ci.yml
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
              retry    crealeph work retry <id>
            exit code 1
        "#]],
    );
    story.shows(
        "crealeph work run --agent fixer --test false 'echo broken > greeting.txt'",
        expect![[r#"
            run <id>: failure
              why      Tests failed: `false` ended with exit code 1
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
              retry    crealeph work retry <id>
            exit code 1
        "#]],
    );
    story.shows(
        "crealeph work run --agent fixer 'exit 3'",
        expect![[r#"
            run <id>: failure
              why      the agent ended with exit code 3
              took     <n> s, 0 files, 0 deltas, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
            exit code 1
        "#]],
    );
    story.shows(
        "crealeph work status | sed 's/ mkdir.*/ mkdir/'",
        expect![[r#"
            <id>  <age>  fixer  failure  0  exit 3
            <id>  <age>  fixer  failure  1  echo broken > greeting.txt
            <id>  <age>  fixer  denied   1  mkdir
            <id>  <age>  fixer  success  1  sign: echo ana >> greeting.txt
            <id>  <age>  fixer  success  1  greet: echo hello > greeting.txt
        "#]],
    );
    story.shows(
        "crealeph work show greet | grep -v ' by '",
        expect![[r#"
            greet, run <id>: success, started <age> ago
              task     echo hello > greeting.txt
              agent    fixer, <program>
              change   1 file, +1 -0
                       greeting.txt +1 -0
              took     <n> s, 1 file, 1 delta, 0 tool operations
              sandbox  full
              receipt  .crealeph/runs/<id>/RECEIPT.json
              next     crealeph work diff <id>
              next     crealeph work verify <id>
              next     crealeph work undo <id>
        "#]],
    );
    story.shows(
        "crealeph work diff sign",
        expect![[r#"
        diff --git a/greeting.txt b/greeting.txt
        --- a/greeting.txt
        +++ b/greeting.txt
        @@ -1,1 +1,2 @@
         hello
        +ana
    "#]],
    );
    story.shows(
        "crealeph work verify .crealeph/runs/$(ls .crealeph/runs | head -1)",
        expect![[r#"
            checking with the keys of the workspace itself; give --key to check with a key
              that you saved
            receipt <id> by agent-1: succeeded
              signed by  crealeph-workspace/<random>+<key>
              hash       <hash>
              agent      fixer
              started by <user> on <host>, key <fingerprint>
              chain      receipt 1 of 5, whole from the first one on
              files      1, as in the stored states
              others     work-item.json, replay-agent-1.sh, result.json, change.diff,
                stdout.txt, stderr.txt, as signed
        "#]],
    );
    story.shows(
        "crealeph work replay .crealeph/runs/$(ls .crealeph/runs | head -1)",
        expect![[r#"
        run <id> replayed: the state is
          <hash>, as the
          receipt says
    "#]],
    );
    story.shows(
        "crealeph work clean --keep 1 --dry-run | sed 's/[0-9]* bytes/many bytes/'",
        expect![[r#"
            would be removed: diffs and outputs of 4 runs, 2 states, 1 contents, 2 kept
              changes; many bytes
        "#]],
    );
    story.shows(
        "crealeph work recover",
        expect![[r#"
            nothing to recover
        "#]],
    );
}

#[test]
fn work_that_awaits_approval() {
    let story = Story::new();
    story.shows(
        "crealeph work run --hold --agent fixer 'echo one > one.txt'",
        expect![[r#"
            run <id>: held since <time>
              look     crealeph work diff <id>
              verdict  crealeph approve <id>, or reject
            exit code 3
        "#]],
    );
    story.shows(
        "crealeph work status",
        expect![[r#"
            <id>  <age>  fixer  held  1  echo one > one.txt
        "#]],
    );
    story.shows(
        "crealeph work approve $(crealeph work status | grep held | cut -d' ' -f1) --reason fine",
        expect![[r#"
            `crealeph work approve` is deprecated; use `crealeph approve`
            run <id>: success
              + one.txt
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
        "#]],
    );
    story.quietly("crealeph work run --hold --agent fixer 'echo two > two.txt' || true");
    story.shows(
        "crealeph work reject $(crealeph work status | grep held | cut -d' ' -f1) --reason 'not now'",
        expect![[r#"
            `crealeph work reject` is deprecated; use `crealeph reject`
            run <id>: failure
              why      Rejected by ana: not now
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
        "#]],
    );
    story.shows(
        "crealeph work status",
        expect![[r#"
            <id>  <age>  fixer  failure  1  echo two > two.txt
            <id>  <age>  fixer  success  1  echo one > one.txt
        "#]],
    );
}

#[test]
fn older_names_of_settings() {
    let story = Story::new();
    story.quietly(
        "printf '\\n[work.agents.fixer.paths]\\nallow_laws = true\\nmax_others = 4\\n' >> crealeph.toml",
    );
    story.shows(
        "crealeph work recover",
        expect![[r#"
            warning: [work.agents.fixer.paths]: `allow_laws` is deprecated; use
              `allow_protected`
            warning: [work.agents.fixer.paths]: `max_others` is deprecated; use `max_other`
            nothing to recover
        "#]],
    );
    story.shows(
        "crealeph work run --agent fixer 'mkdir -p .github/workflows && echo x > .github/workflows/old.yml'",
        expect![[r#"
            warning: [work.agents.fixer.paths]: `allow_laws` is deprecated; use
              `allow_protected`
            warning: [work.agents.fixer.paths]: `max_others` is deprecated; use `max_other`
            run <id>: success
              + .github/workflows/old.yml
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
        "#]],
    );
    story.quietly("echo 'allow_protected = true' >> crealeph.toml");
    story.shows(
        "crealeph work recover",
        expect![[r#"
        error: `/home/ana/project/crealeph.toml` cannot be used: [work]:
          `fixer`: in `paths`, `allow_laws` is an older name of `allow_protected`;
          remove it
        exit code 2
    "#]],
    );
    story.quietly("sed -i '/allow_laws/d; s/max_others/max_other/' crealeph.toml");
    story.shows(
        "crealeph work run --agent fixer 'mkdir -p .github/workflows && echo x > .github/workflows/new.yml'",
        expect![[r#"
            run <id>: success
              + .github/workflows/new.yml
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
        "#]],
    );
}

#[test]
fn what_a_configuration_grants() {
    let story = Story::new();
    story.shows(
        "CREALEPH_TRUST= crealeph work run --agent fixer true",
        expect![[r#"
        `/home/ana/project/crealeph.toml` is not trusted yet. It would grant:
          work agent `fixer`
            runs           sh -c {prompt}
        error: `/home/ana/project/crealeph.toml` grants what you have not
          trusted, and nothing was done
        hint: run `crealeph trust /home/ana/project/crealeph.toml` to look and
          accept, or in a script `crealeph trust
          /home/ana/project/crealeph.toml --yes`
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph trust",
        expect![[r#"
        `/home/ana/project/crealeph.toml` is not trusted yet. It would grant:
          work agent `fixer`
            runs           sh -c {prompt}
        error: there is no terminal to ask on
        hint: if you trust it, run `crealeph trust
          /home/ana/project/crealeph.toml --yes`
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph trust --yes",
        expect![[r#"
        `/home/ana/project/crealeph.toml` is not trusted yet. It would grant:
          work agent `fixer`
            runs           sh -c {prompt}
        trusted `/home/ana/project/crealeph.toml`
    "#]],
    );
    story.shows(
        "crealeph trust --list",
        expect![[r#"
        configuration  /home/ana/project/crealeph.toml  (1 grant)
    "#]],
    );
    story.shows(
        "crealeph trust --revoke",
        expect![[r#"
        revoked trust in `/home/ana/project/crealeph.toml`
    "#]],
    );
}

#[test]
fn a_command_in_a_sandbox() {
    let story = Story::new();
    story.shows("crealeph sandbox explain --view . --host api.example.com:443 --env LANG -- make test | grep -v LIMITS", expect![[r#"
        it starts in /home/ana/project
        it reads the system's programs and libraries
        it writes to a view of /home/ana/project at /home/ana/project
        it has a private /home/agent, /tmp and /dev/shm, gone when it ends
        it has the variable LANG
        it may connect to api.example.com:443
        it may use 600000 ms, 1200000 ms of CPU, 2147483648 bytes of memory, 512
          processes, 1073741824 bytes a file, 4294967296 bytes on disk
    "#]]);
    story.shows(
        "crealeph sandbox run --view . -- sh -c 'echo hello; echo x > new.txt'",
        expect![[r#"
        hello
        sandbox: 1 change in the view of /home/ana/project
          created new.txt
    "#]],
    );
    story.shows(
        "crealeph sandbox run -- sh -c 'exit 4'",
        expect![[r#"
        sandbox: the command ended with exit code 4
        exit code 1
    "#]],
    );
}

#[test]
fn runs_on_narrow_and_wide_screens() {
    let story = Story::new();
    story.quietly("crealeph work run --agent fixer 'echo one > one.txt'");
    story.quietly(
        "crealeph work run --agent fixer --test 'echo 2 passed; false' 'echo two > two.txt' || true",
    );
    story.quietly("crealeph work run --agent fixer --hold 'seq 9 > three.txt' || true");
    for (columns, expected) in [
        (
            "60",
            expect![[r#"
                <id>  <age>  fixer  held     1  seq 9 > three.txt
                <id>  <age>  fixer  failure  1  echo two > two.txt
                <id>  <age>  fixer  success  1  echo one > one.txt
            "#]],
        ),
        (
            "80",
            expect![[r#"
                <id>  <age>  fixer  held     1  seq 9 > three.txt
                <id>  <age>  fixer  failure  1  echo two > two.txt
                <id>  <age>  fixer  success  1  echo one > one.txt
            "#]],
        ),
        (
            "120",
            expect![[r#"
                <id>  <age>  fixer  held     1  seq 9 > three.txt
                <id>  <age>  fixer  failure  1  echo two > two.txt
                <id>  <age>  fixer  success  1  echo one > one.txt
            "#]],
        ),
    ] {
        story.shows(&format!("COLUMNS={columns} crealeph work status"), expected);
    }
    for (columns, expected) in [
        (
            "60",
            expect![[r#"
                run <id>: held, started <age> ago
                  task     seq 9 > three.txt
                  agent    fixer
                  change   1 file, +9 -0
                           three.txt +9 -0
                  next     crealeph work diff <id>
                  next     crealeph approve <id>
                  next     crealeph reject <id> --reason …
            "#]],
        ),
        (
            "120",
            expect![[r#"
                run <id>: held, started <age> ago
                  task     seq 9 > three.txt
                  agent    fixer
                  change   1 file, +9 -0
                           three.txt +9 -0
                  next     crealeph work diff <id>
                  next     crealeph approve <id>
                  next     crealeph reject <id> --reason …
            "#]],
        ),
    ] {
        story.shows(&format!("COLUMNS={columns} crealeph work show @ | grep -v ' by '"), expected);
    }
    story.shows(
        "crealeph work show @- | grep -v ' by '",
        expect![[r#"
            run <id>: failure, started <age> ago
              task     echo two > two.txt
              test     echo 2 passed; false
              agent    fixer, <program>
              why      Tests failed: `echo 2 passed; false` ended with exit code 1
              change   1 file, +1 -0, discarded
                       two.txt +1 -0
              took     <n> s, 1 file, 1 delta, 0 tool operations
              sandbox  full
              receipt  .crealeph/runs/<id>/RECEIPT.json
              next     crealeph work logs <id>
              next     crealeph work retry <id>
        "#]],
    );
    story.shows(
        "COLUMNS=60 crealeph work logs @-",
        expect![[r#"
        tests | 2 passed
    "#]],
    );
    story.shows(
        "crealeph work status --status held --since 1h --agent fixer --limit 1",
        expect![[r#"
            <id>  <age>  fixer  held  1  seq 9 > three.txt
        "#]],
    );
    story.shows(
        "crealeph work status --limit 1",
        expect![[r#"
            <id>  <age>  fixer  held  1  seq 9 > three.txt
            2 older ones left out; see them with --limit 3
        "#]],
    );
    story.shows(
        "crealeph work status --agent nobody",
        expect![[r#"
        no such run
    "#]],
    );
}

#[test]
fn a_report_for_someone_who_was_not_there() {
    let story = Story::with_entries();
    story.quietly("crealeph build request.json && crealeph ledger checkpoint");
    story.quietly("crealeph work run --agent fixer --test true 'echo hello > greeting.txt'");
    // Not shown: which account, machine and shell runs the tests, and the content of a plan, which is long.
    story.shows(
        "crealeph report --run @ | grep -v -e 'Started by' -e '^  .SHA256:' -e 'Agent:'",
        expect![[r#"
        # CreAleph report

        Made at <time> from the workspace and its ledger.

        - **Runs:** 1
        - **Receipts:** **1 verified**
        - **Log:** 11 entries of tenant `local`
        - **Root:** `<hash>`
        - **Checkpoint:** **verified**, covers the first 10 entries
        - **Checked with:** the keys of the workspace itself; give `--key` to check with
          keys that you saved

        ## Work runs

        | Run | Started | Agent | Status | Files | Task |
        | --- | --- | --- | --- | --- | --- |
        | `<id>` | <time> | fixer | **success** | 1 | echo hello \> greeting.txt |

        ### Run `<id>`: **success**

        Asked:

        ```
        echo hello > greeting.txt
        ```

        - **Id:** `<id>`
        - **Time:** started <time>, ended <time>
        - **Limits:** **kept**: 1 of 10 files, 1 of 100 deltas, 0 of 50 tool operations
        - **Changed:** 1 file, 1 line added, 0 removed
        - **Tests:** `true`
        - **Sandbox:** full
        - **Receipt:** **verified**, signed by
          `crealeph-workspace/<random>+<key>`, hash
          `<hash>`, entry 11
          of the log, not covered yet by its checkpoint

        | File | Change | Added | Removed |
        | --- | --- | --- | --- |
        | `greeting.txt` | created | 1 | 0 |

        Diff:

        ```
        diff --git a/greeting.txt b/greeting.txt
        new file mode 100644
        --- /dev/null
        +++ b/greeting.txt
        @@ -0,0 +1,1 @@
        +hello
        ```
    "#]],
    );
    story.shows(
        "crealeph report --execution @ | sed '/Made:/,$d; s/[0-9]* minutes*,/<age>,/'",
        expect![[r##"
        # CreAleph report

        Made at <time> from the workspace and its ledger.

        - **Executions:** 1
        - **Log:** 11 entries of tenant `local`
        - **Root:** `<hash>`
        - **Checkpoint:** **verified**, covers the first 10 entries
        - **Checked with:** the keys of the workspace itself; give `--key` to check with
          keys that you saved

        ## Executions

        | Execution | At | Robot | State | Action |
        | --- | --- | --- | --- | --- |
        | `<id>` | <time> | shop-17 | **planned** | plan\_landing\_plan |

        ### Execution `<id>`: **planned**

        - **Id:** `<id>`
        - **Robot:** `shop-17`

        Asked:

        ```
        landing_plan {"page":"sale"}
        ```

        - **Attempt:** 1, ended **planned**
        - **Decided:** **ALLOW** at <time>, confidence 1
        - **Rule:** `coherence.coherent`: the snapshot is coherent and what the action
          needs is fresh
        - **Agent:** was called
        - **Outcome:** the snapshot is coherent and what the action needs is fresh
        - **Evidence:** coherent as a whole
        - **Replay:** **follows**: the decision was derived again from the log, with the
          same result

        | Evidence | Observed | Age then | Entry |
        | --- | --- | --- | --- |
        | signal | <time> | <age>, **fresh** | `<id>` |
        | fusion | <time> | <age>, **fresh** | `<id>` |
        | idea | <time> | <age>, **fresh** | `<id>` |
        | copy | <time> | <age>, **fresh** | `<id>` |
        | playbook | <time> | <age>, **fresh** | `<id>` |

    "##]],
    );
}
