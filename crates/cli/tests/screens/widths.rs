//! The screens of a day's commands on a narrow, a usual and a wide terminal.

use expect_test::expect;

use crate::story::Story;

/// A run that landed, one that failed, and one that is held.
fn day() -> Story {
    let story = Story::new();
    story.write(
        "items.json",
        r#"[{"id":"translate-the-greeting","agent_id":"agent-1","dependencies":[],
            "description":"echo 'guten Tag, so lange Wörter wie Donaudampfschifffahrt' > greeting.txt # 日本語もあります",
            "budget":{"time_estimate_ms":1000,"complexity":"low"}}]"#,
    );
    story.quietly("crealeph work run items.json");
    story.quietly("! crealeph work run --agent fixer 'echo no such word; exit 3'");
    story.quietly("crealeph work run --agent fixer --hold 'echo hello >> greeting.txt' || test $? = 3");
    story
}

#[test]
fn screens_at_60_columns() {
    let story = day();
    story.shows_at(
        60,
        "crealeph work status",
        expect![[r#"
        <id>  <age>  fixer  held     1  echo hello >> greeti…
        <id>  <age>  fixer  failure  0  echo no such word; e…
        <id>  <age>  fixer  success  1  translate-the-greeti…
    "#]],
    );
    story.shows_at(
        60,
        "crealeph work show translate-the-greeting | grep -v ' by '",
        expect![[r#"
            translate-the-greeting, run <id>: success, started
              <age> ago
              task     echo 'guten Tag, so lange Wörter wie
                Donaudampfschifffahrt' > greeting.txt # 日本語もあります
              agent    fixer, <program>
              change   1 file, +1 -0
                       greeting.txt +1 -0
              took     <n> s, 1 file, 1 delta, 0 tool operations
              sandbox  full
              receipt
                .crealeph/runs/<id>/RECEIPT.json
              next     crealeph work diff <id>
              next     crealeph work verify <id>
              next     crealeph work undo <id>
        "#]],
    );
    story.shows_at(
        60,
        "crealeph work show @- | grep -v ' by '",
        expect![[r#"
        run <id>: failure, started <age> ago
          task     echo no such word; exit 3
          agent    fixer, <program>
          why      the agent ended with exit code 3
          change   none
          took     <n> s, 0 files, 0 deltas, 0 tool operations
          sandbox  full
          receipt
            .crealeph/runs/<id>/RECEIPT.json
          next     crealeph work logs <id>
    "#]],
    );
    story.shows_at(
        60,
        "crealeph work show @ | grep -v ' by '",
        expect![[r#"
        run <id>: held, started <age> ago
          task     echo hello >> greeting.txt
          agent    fixer
          change   1 file, +1 -0
                   greeting.txt +1 -0
          next     crealeph work diff <id>
          next     crealeph approve <id>
          next     crealeph reject <id> --reason …
    "#]],
    );
    story.shows_at(
        60,
        "crealeph work run items.json",
        expect![[r#"
        translate-the-greeting, run <id>: success, no
          change
          took     <n> s, 0 files, 0 deltas, 0 tool operations
          receipt
            .crealeph/runs/<id>/RECEIPT.json
    "#]],
    );
    story.shows_at(
        60,
        "crealeph work run --agent fixer --test 'echo a line that the tests print and that is longer than sixty columns; false' \
         'echo x > x'",
        expect![[r#"
            run <id>: failure
              why      Tests failed: `echo a line that the tests print
                and that is longer than sixty columns; false` ended with
                exit code 1
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt
                .crealeph/runs/<id>/RECEIPT.json
              retry    crealeph work retry <id>
            exit code 1
        "#]],
    );
}

#[test]
fn screens_at_80_columns() {
    let story = day();
    story.shows_at(
        80,
        "crealeph work status",
        expect![[r#"
        <id>  <age>  fixer  held     1  echo hello >> greeting.txt
        <id>  <age>  fixer  failure  0  echo no such word; exit 3
        <id>  <age>  fixer  success  1  translate-the-greeting: echo 'guten Tag,…
    "#]],
    );
    story.shows_at(
        80,
        "crealeph work show translate-the-greeting | grep -v ' by '",
        expect![[r#"
        translate-the-greeting, run <id>: success, started <age> ago
          task     echo 'guten Tag, so lange Wörter wie Donaudampfschifffahrt' >
            greeting.txt # 日本語もあります
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
    story.shows_at(
        80,
        "crealeph work show @- | grep -v ' by '",
        expect![[r#"
        run <id>: failure, started <age> ago
          task     echo no such word; exit 3
          agent    fixer, <program>
          why      the agent ended with exit code 3
          change   none
          took     <n> s, 0 files, 0 deltas, 0 tool operations
          sandbox  full
          receipt  .crealeph/runs/<id>/RECEIPT.json
          next     crealeph work logs <id>
    "#]],
    );
    story.shows_at(
        80,
        "crealeph work show @ | grep -v ' by '",
        expect![[r#"
        run <id>: held, started <age> ago
          task     echo hello >> greeting.txt
          agent    fixer
          change   1 file, +1 -0
                   greeting.txt +1 -0
          next     crealeph work diff <id>
          next     crealeph approve <id>
          next     crealeph reject <id> --reason …
    "#]],
    );
    story.shows_at(
        80,
        "crealeph work run items.json",
        expect![[r#"
        translate-the-greeting, run <id>: success, no change
          took     <n> s, 0 files, 0 deltas, 0 tool operations
          receipt  .crealeph/runs/<id>/RECEIPT.json
    "#]],
    );
    story.shows_at(
        80,
        "crealeph work run --agent fixer --test 'echo a line that the tests print and that is longer than sixty columns; false' \
         'echo x > x'",
        expect![[r#"
            run <id>: failure
              why      Tests failed: `echo a line that the tests print and that is longer
                than sixty columns; false` ended with exit code 1
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
              retry    crealeph work retry <id>
            exit code 1
        "#]],
    );
}

#[test]
fn screens_at_120_columns() {
    let story = day();
    story.shows_at(120, "crealeph work status", expect![[r#"
        <id>  <age>  fixer  held     1  echo hello >> greeting.txt
        <id>  <age>  fixer  failure  0  echo no such word; exit 3
        <id>  <age>  fixer  success  1  translate-the-greeting: echo 'guten Tag, so lange Wörter wie Donaudampfschifffah…
    "#]]);
    story.shows_at(120, "crealeph work show translate-the-greeting | grep -v ' by '", expect![[r#"
        translate-the-greeting, run <id>: success, started <age> ago
          task     echo 'guten Tag, so lange Wörter wie Donaudampfschifffahrt' > greeting.txt # 日本語もあります
          agent    fixer, <program>
          change   1 file, +1 -0
                   greeting.txt +1 -0
          took     <n> s, 1 file, 1 delta, 0 tool operations
          sandbox  full
          receipt  .crealeph/runs/<id>/RECEIPT.json
          next     crealeph work diff <id>
          next     crealeph work verify <id>
          next     crealeph work undo <id>
    "#]]);
    story.shows_at(
        120,
        "crealeph work show @- | grep -v ' by '",
        expect![[r#"
        run <id>: failure, started <age> ago
          task     echo no such word; exit 3
          agent    fixer, <program>
          why      the agent ended with exit code 3
          change   none
          took     <n> s, 0 files, 0 deltas, 0 tool operations
          sandbox  full
          receipt  .crealeph/runs/<id>/RECEIPT.json
          next     crealeph work logs <id>
    "#]],
    );
    story.shows_at(
        120,
        "crealeph work show @ | grep -v ' by '",
        expect![[r#"
        run <id>: held, started <age> ago
          task     echo hello >> greeting.txt
          agent    fixer
          change   1 file, +1 -0
                   greeting.txt +1 -0
          next     crealeph work diff <id>
          next     crealeph approve <id>
          next     crealeph reject <id> --reason …
    "#]],
    );
    story.shows_at(
        120,
        "crealeph work run items.json",
        expect![[r#"
        translate-the-greeting, run <id>: success, no change
          took     <n> s, 0 files, 0 deltas, 0 tool operations
          receipt  .crealeph/runs/<id>/RECEIPT.json
    "#]],
    );
    story.shows_at(
        120,
        "crealeph work run --agent fixer --test 'echo a line that the tests print and that is longer than sixty columns; false' \
         'echo x > x'",
        expect![[r#"
            run <id>: failure
              why      Tests failed: `echo a line that the tests print and that is longer than sixty columns; false` ended with exit
                code 1
              took     <n> s, 1 file, 1 delta, 0 tool operations
              receipt  .crealeph/runs/<id>/RECEIPT.json
              retry    crealeph work retry <id>
            exit code 1
        "#]],
    );
}

#[test]
fn a_robot_at_every_width() {
    let story = Story::with_entries();
    story.shows_at(
        60,
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

        Actions that are deferred, the action needs benchmarkAt, and
          there is none:
          playbooks.v1.run, playbooks.v2.run

        Actions that are allowed:
          builder.run, competitors.run_insights, copywriter.run,
            fusion.run, ideator.run, market_twin.run, robots.run,
            work.run

        What would help, in this order:
          1. crealeph build --robot shop-17 …
    "#]],
    );
    story.shows_at(
        80,
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
    story.shows_at(120, "crealeph robot status shop-17", expect![[r#"
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
          builder.run, competitors.run_insights, copywriter.run, fusion.run, ideator.run, market_twin.run, robots.run, work.run

        What would help, in this order:
          1. crealeph build --robot shop-17 …
    "#]]);
    // What three drafts of one build look like to the people who may decide.
    story.quietly("crealeph build --robot shop-17 --objective landing_plan --agent example@1 --dry-run");
    story.shows_at(
        60,
        "crealeph inbox",
        expect![[r#"
            <id>  draft site_plan, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
            <id>  draft task, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
            <id>  draft copy, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
        "#]],
    );
    story.shows_at(
        80,
        "crealeph inbox",
        expect![[r#"
            <id>  draft site_plan, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
            <id>  draft task, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
            <id>  draft copy, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
        "#]],
    );
    story.shows_at(
        120,
        "crealeph inbox",
        expect![[r#"
            <id>  draft site_plan, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
            <id>  draft task, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
            <id>  draft copy, robot shop-17
              since    <time>
              asked    by <user>@<host>
              rule     no one is enrolled: one verdict, unproven
        "#]],
    );
}
