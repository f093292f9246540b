//! The screens of help.

use expect_test::expect;

use crate::story::Story;

#[test]
fn help_at_80_columns() {
    let story = Story::new();
    story.shows(
        "crealeph",
        expect![[r#"
            Gate, sandbox and record what AI agents do

            Usage: crealeph [OPTIONS] <COMMAND>

            Commands:
              init         Create a commented configuration and a first agent
              validate     Validate JSON documents against their contract
              schema       Print the JSON Schema of a contract, or write all of them
              policy       Evaluate the policy: ALLOW, BLOCK or DEFER, with reasons
              snapshot     Summarise a robot's evidence and check its consistency
              work         Run coding agents in a sandbox with limits, review, and signed
                           receipts
              ledger       Append-only log with tamper evidence
              build        Run the Builder: check the policy, call the agent, record the
                           result
              execution    Inspect executions: list, show, explain, replay
              inbox        List what awaits approval: since when, under which rule, who may
                           decide
              approve      Approve a draft or a held change, signed with your own key
              reject       Reject a draft or a held change, signed with your own key
              approval     Explain who approved what, with which key, and whether it counts
              person       Enrol the people who approve, and revoke their keys
              rule         Set and test the rules that say how many approvals are needed
              review       List drafts that await review, and approve or reject them
              robot        Show the status of robots and next steps
              serve        Serve the console and the HTTP API
              key          Manage API keys of the server: create, list, revoke
              signer       Manage signers whose receipts from elsewhere the ledger accepts:
                           add, list, revoke
              webhook      Manage webhooks of the server: create, list, test, delete
              report       Report what happened, for a person who was not there
              usage        Sum up tokens and cost, as agents reported them
              agent        Run the example agent, or test an agent for conformance
              sandbox      Run a command in a sandbox, or explain its grants
              trust        Show what a configuration grants, and trust or revoke it
              doctor       Diagnose the machine, configuration and ledger, and suggest fixes
              demo         Run a guided demo in a new folder
              verify-page  Print the verifier for browsers, one HTML file
              completions  Print shell completions
              man          Print the manual page, or write one per command
              help         Print this message or the help of the given subcommand(s)

            Options:
              -v, --verbose...  Log to standard error; -vv logs more
              -t, --text        Print text instead of JSON into a pipe, as for a pager
              -h, --help        Print help
              -V, --version     Print version

            Server:
                  --server <URL>       Use this server instead of a local ledger (https, or
                                       http on this machine)
                  --server-key <FILE>  File that holds the key for the server [default: the
                                       variable CREALEPH_SERVER_KEY]
                  --server-ca <FILE>   File of certificates to trust for the server, PEM
                                       [default: public authorities]

            Exit codes: 0 valid or done, 1 checked and refused, 2 cannot be checked or done
            (unreadable input, wrong usage).
            exit code 2
        "#]],
    );
    story.shows(
        "crealeph ledger --help",
        expect![[r#"
            Append-only log with tamper evidence

            Usage: crealeph ledger [OPTIONS] <COMMAND>

            Commands:
              init          Create a ledger and its first signing key
              migrate       Upgrade a ledger to the current schema; resumes if interrupted
              tenants       List tenants; on PostgreSQL this needs the audit role
              append        Append entries from JSON Lines
              import        Import an export, verifying every entry; resumes if interrupted
              backup        Back up the ledger to a new file while it is in use, without its
                            keys
              checkpoint    Sign the current state of the log and print the checkpoint
              key           Print the public keys that verify the log, or add a signing key
              get           Print an entry by its id or key
              list          List entries, with filters and pages
              tail          Follow the log: print entries as they are appended
              lineage       Print the entries that an entry depends on, or that depend on it
              stats         Print the size, root hash and checkpoints of the log
              export        Export the log as JSON Lines: entries, leaf hashes and
                            checkpoints
              verify        Verify the log: recompute every hash and signature, and report
                            the first fault
              prove         Print an inclusion proof of an entry
              verify-proof  Verify an inclusion proof offline, without a ledger
              help          Print this message or the help of the given subcommand(s)

            Options:
                  --ledger <LEDGER>  Ledger file, or database URL `postgres://…`
                  --tenant <TENANT>  Tenant [default: local]
                  --keys <FOLDER>    Folder of the signing keys [default: next to the
                                     ledger]
                  --config <FILE>    Configuration file [default: crealeph.toml, if it
                                     exists]
                  --json             Print JSON
              -v, --verbose...       Log to standard error; -vv logs more
              -t, --text             Print text instead of JSON into a pipe, as for a pager
              -h, --help             Print help

            Server:
                  --server <URL>       Use this server instead of a local ledger (https, or
                                       http on this machine)
                  --server-key <FILE>  File that holds the key for the server [default: the
                                       variable CREALEPH_SERVER_KEY]
                  --server-ca <FILE>   File of certificates to trust for the server, PEM
                                       [default: public authorities]

            Examples:
              crealeph ledger init
              crealeph ledger append entries.jsonl
              crealeph ledger list --type signal --newest
              crealeph ledger checkpoint > saved.checkpoint
              crealeph ledger key > saved.key
              crealeph ledger verify --key saved.key --checkpoint saved.checkpoint
              crealeph ledger prove <id> > proof.json
              crealeph ledger verify-proof proof.json --key saved.key
              crealeph ledger backup before.db && crealeph ledger migrate

            A line for `append`: {"robotId","module","source","type","state","payload"} and
            optionally `lineage` {"dependsOnLedgerIds": ["<id>" or "key:<key>"]},
            `observedAt` and `key`. With keys, running it again is safe.

            The ledger is chosen by --ledger, else CREALEPH_LEDGER, else `location` under
            [ledger] in crealeph.toml, else .crealeph/ledger.db; the same for --tenant and
            --keys (CREALEPH_TENANT, CREALEPH_KEYS; `tenant`, `keys`).

            With --server or CREALEPH_SERVER these use a server: append, checkpoint, get,
            list, tail, lineage, stats, prove, export, verify. The last two need an
            auditor's key; verification runs here, with keys and checkpoints that you saved.

            An entry is named by its id or the start of it; `@` is the newest, `@-` the one
            before.

            Exit codes: 0 done, 1 refused or a fault was found, 2 cannot be done.
        "#]],
    );
    story.shows(
        "crealeph work --help",
        expect![[r#"
            Run coding agents in a sandbox with limits, review, and signed receipts

            Usage: crealeph work [OPTIONS] <COMMAND>

            Commands:
              run             Run work items, each within its limits; a change lands
                              completely or not at all
              retry           Judge the change of a denied or failed run again, under other
                              limits, without calling the agent
              undo            Undo a run that landed: restore the files that it changed,
                              tested and with a receipt
              from-tasks      Print the tasks planned by a Builder run as work items
              status          List runs, the newest first: finished, awaiting approval,
                              running
              show            Show a run on one page: task, agent, change, tests, network,
                              receipt
              logs            Print the output of a run's agent and tests
              diff            Print the diff of a run, including discarded changes
              approve         Approve a held change (deprecated: use `crealeph approve`)
              reject          Reject a held change and discard it (deprecated: use `crealeph
                              reject`)
              recover         Recover after an interrupted command: finish or roll back what
                              it left
              clean           Delete the diffs, outputs and stored states of old runs;
                              receipts are kept
              plan            Print the execution order: which items run in parallel, level
                              by level, and which are blocked
              verify          Verify a receipt: signature, hash chain and files
              key             Print the public keys that verify receipts, or add a signing
                              key
              report-pending  Send receipts that could not be reported to a server earlier
              replay          Replay a successful run in a scratch folder and compare the
                              state hash
              export          Export a run to a folder, with everything that verify and
                              replay need
              help            Print this message or the help of the given subcommand(s)

            Options:
              -v, --verbose...  Log to standard error; -vv logs more
              -t, --text        Print text instead of JSON into a pipe, as for a pager
              -h, --help        Print help

            Server:
                  --server <URL>       Use this server instead of a local ledger (https, or
                                       http on this machine)
                  --server-key <FILE>  File that holds the key for the server [default: the
                                       variable CREALEPH_SERVER_KEY]
                  --server-ca <FILE>   File of certificates to trust for the server, PEM
                                       [default: public authorities]
        "#]],
    );
    story.shows(
        "crealeph snapshot --help",
        expect![[r#"
            Summarise a robot's evidence and check its consistency

            Usage: crealeph snapshot [OPTIONS] [ROBOT]

            Arguments:
              [ROBOT]  Robot; optional if the entries belong to one

            Options:
                  --from <FILE>      Read entries from JSON Lines, oldest first, instead of
                                     a ledger; `-` for standard input
                  --ledger <LEDGER>  Ledger file, or database URL `postgres://…`
                  --tenant <TENANT>  Tenant [default: local]
                  --keys <FOLDER>    Folder of the signing keys [default: next to the
                                     ledger]
                  --config <FILE>    Configuration file [default: crealeph.toml, if it
                                     exists]
                  --json             Print JSON
              -v, --verbose...       Log to standard error; -vv logs more
              -t, --text             Print text instead of JSON into a pipe, as for a pager
              -h, --help             Print help

            Server:
                  --server <URL>       Use this server instead of a local ledger (https, or
                                       http on this machine)
                  --server-key <FILE>  File that holds the key for the server [default: the
                                       variable CREALEPH_SERVER_KEY]
                  --server-ca <FILE>   File of certificates to trust for the server, PEM
                                       [default: public authorities]
                  --at <INSTANT>       Snapshot at this time [default: now]
                  --rules <FILE>       Rules file whose `[coherence]` replaces the
                                       configuration's (see `crealeph policy --help`)

            Examples:
              crealeph snapshot robot-7
              crealeph snapshot robot-7 --ledger ledger.db --at <time> --json
              crealeph snapshot --from entries.jsonl
              crealeph snapshot robot-7 --from entries.jsonl --at <time>
              --json

            An entry is a JSON object with `id`, `robotId`, `type`, `createdAt` and, if it
            has them, `seq`, `tenantId`, `module`, `source`, `state`, `observedAt`,
            `payload`, `lineage` {"dependsOnLedgerIds": […]} and `key`.

            Exit codes: 0 derived (whatever the coherence), 1 nothing counts or an entry is
            not valid, 2 cannot be derived.
        "#]],
    );
    story.shows(
        "crealeph robot --help",
        expect![[r#"
            Show the status of robots and next steps

            Usage: crealeph robot [OPTIONS] <COMMAND>

            Commands:
              list    List robots with coherence, oldest evidence, last execution and
                      pending reviews
              status  Show a robot's status and next steps
              help    Print this message or the help of the given subcommand(s)

            Options:
                  --ledger <LEDGER>  Ledger file, or database URL `postgres://…`
                  --tenant <TENANT>  Tenant [default: local]
                  --keys <FOLDER>    Folder of the signing keys [default: next to the
                                     ledger]
                  --config <FILE>    Configuration file [default: crealeph.toml, if it
                                     exists]
                  --json             Print JSON
              -v, --verbose...       Log to standard error; -vv logs more
              -t, --text             Print text instead of JSON into a pipe, as for a pager
              -h, --help             Print help

            Server:
                  --server <URL>       Use this server instead of a local ledger (https, or
                                       http on this machine)
                  --server-key <FILE>  File that holds the key for the server [default: the
                                       variable CREALEPH_SERVER_KEY]
                  --server-ca <FILE>   File of certificates to trust for the server, PEM
                                       [default: public authorities]

            Examples:
              crealeph robot list
              crealeph robot status robot-7
              crealeph robot status robot-7 --json | jq '.steps'

            Steps are what must be created before the Builder may run, in order.

            Exit codes: 0 done, whatever the status, 2 cannot be done.
        "#]],
    );
    story.shows(
        "crealeph init demo-project && ls demo-project",
        expect![[r#"
            wrote demo-project/crealeph.toml
            wrote demo-project/agents/planner.py
            wrote demo-project/entries.jsonl
            wrote demo-project/request.json

            Go there: cd demo-project

            Then, one after the other:
            crealeph agent check planner@1          # does it conform to its contract?
            crealeph ledger init
            crealeph ledger append entries.jsonl    # what is known so far
            crealeph snapshot shop-17               # is it consistent?
            crealeph build request.json             # decide, call the agent, record

            Each `build` is a new execution; give the request an `executionId`, and it is
              done once.
            agents
            crealeph.toml
            entries.jsonl
            request.json
        "#]],
    );
}

#[test]
fn help_of_a_run_has_the_limits_of_the_configured_agents() {
    let story = Story::new();
    story.write(
        "crealeph.toml",
        "[work.agents.plain]\nagent_id = \"agent-1\"\ncommand = [\"true\"]\n\
         [work.agents.fixer]\nagent_id = \"agent-1\"\ncommand = [\"true\"]\n\
         bounds = { max_files = 40, timeout_ms = 1800000 }\n\
         [work.agents.\"od\\u001bd\"]\nbounds = { max_tool_ops = 7 }\n\
         [work.agents.wrong]\nbounds = { max_files = \"many\" }\n",
    );
    let limits = expect![[r#"
        Limits of the agents in crealeph.toml, in place of the defaults above:
          fixer: --max-files 40 --timeout 30m
          od\x1bd: --max-tool-ops 7
    "#]];
    story.shows("crealeph work run --help | tail -3", limits);
    story.quietly("crealeph help work run | grep -q 'fixer: --max-files 40'");
    story.quietly("cd / && ! crealeph work run --help | grep -q 'Limits of the agents'");
}
