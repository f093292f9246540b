//! The screens of errors and their hints.

use expect_test::expect;

use crate::story::Story;

#[test]
fn errors_say_what_failed_and_what_to_do_next() {
    let story = Story::with_entries();
    story.shows(
        "crealeph validate builder-request nosuch.json",
        expect![[r#"
        error: there is no file `nosuch.json`
        hint: check the path, or give `-` for standard input
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph ledger init",
        expect![[r#"
        error: `.crealeph/ledger.db` already exists; nothing was changed
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph ledger list --ledger nosuch.db",
        expect![[r#"
        error: there is no ledger at `nosuch.db`
        hint: create one with `crealeph ledger init`
        exit code 2
    "#]],
    );
    story.shows(
        "mkdir -p sub && cd sub && crealeph ledger list",
        expect![[r#"
        error: there is no ledger at `.crealeph/ledger.db`, but there is one in
          `/home/ana/project`
        hint: go to `/home/ana/project`
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph ledger get nope",
        expect![[r#"
        error: there is no entry `nope` of tenant `local`
        hint: check the id and --tenant
        exit code 1
    "#]],
    );
    story.shows(
        "crealeph ledger append request.json",
        expect![[r#"
            error: `request.json, line 1` is not a valid entry, one whole object per line:
              /constraints: the document ends where a key was expected; it was cut off (line
                1, column 107) [R3 syntax]
            exit code 1
        "#]],
    );
    story.shows(
        "crealeph ledger list --from yesterday",
        expect![[r#"
        error: `yesterday` is not a valid time: write it as `<time>`
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph snapshot other",
        expect![[r#"
        error: SNAPSHOT_EMPTY: no entry of robot `other` counts
        hint: append a signal, fusion, idea, copy, benchmark or playbook, or check the
          robot and --tenant
        exit code 1
    "#]],
    );
    story.shows(
        "crealeph snapshot",
        expect![[r#"
        error: the robot is missing
        hint: name one: `crealeph snapshot ROBOT`
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph execution why",
        expect![[r#"
            error: the ledger has no execution of this tenant yet
            hint: start one with `crealeph build`
            exit code 1
        "#]],
    );
    story.shows(
        "crealeph build request.json --rules crealeph.toml",
        expect![[r#"
        error: `crealeph.toml` is not a rules file: line 1, column 2: unknown field
          `agents`, expected one of `coherence`, `thresholds`, `actions`, `refresh`,
          `examples`
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph work run 'fix the parser'",
        expect![[r#"
        error: there is no file `fix the parser`
        hint: name a file of work items, or use --agent NAME to run a task given in
          words
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph work run --agent nobody 'fix the parser'",
        expect![[r#"
        error: there is no agent `nobody` in `/home/ana/project/crealeph.toml`
        hint: known agents: claude, codex, fixer
        exit code 2
    "#]],
    );
    story.shows(
        "crealeph work show nope",
        expect![[r#"
        error: there is no run `nope` in this workspace
        hint: see `crealeph work status`
        exit code 1
    "#]],
    );
    story.shows(
        "crealeph ledger lst",
        expect![[r#"
        error: unrecognized subcommand 'lst'

          tip: a similar subcommand exists: 'list'

        Usage: crealeph ledger [OPTIONS] <COMMAND>

        For more information, try '--help'.
        exit code 2
    "#]],
    );
    story.shows(
        "CREALEPH_OUTPUT=xml crealeph ledger list",
        expect![[r#"
        error: `xml` in CREALEPH_OUTPUT is not known
        hint: use `text` for a person or `json` for a program, or unset it
        exit code 2
    "#]],
    );
    story.shows("crealeph ledger get nope --json", expect![[r#"
        {"error":{"code":"unknown_id","hint":"check the id and --tenant","message":"there is no entry `nope` of tenant `local`"}}
        exit code 1
    "#]]);
    story.shows(
        "echo '[wrk]' >> crealeph.toml; crealeph ledger list",
        expect![[r#"
        error: `crealeph.toml` cannot be used: the section `wrk` is not known here; did
          you mean `work`?
        exit code 2
    "#]],
    );
}
