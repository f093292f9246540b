//! The story of a day: nothing that was paid for is lost.

use serde_json::json;

use crate::retry::{calls, retry};
use crate::undo::undo;
use crate::world::{World, item, item_with, ran};

#[test]
// holds: R34
fn the_story_of_a_day() {
    let world = World::new();
    world.write(".gitignore", "ready\n");
    let approve = |run: &str| ran(&world.crealeph(&["work", "approve", run, "--reason", "read it"]));

    // In the morning a run is denied, and its change is judged again with a larger bound.
    let task = "echo called; for n in 1 2 3; do echo $n > file$n; done";
    let denied = ran(&world.crealeph(&["work", "run", "--agent", "one", task, "--max-files", "2"]));
    assert_eq!(denied.lines[0]["denial_reason"], "Exceeded max files: 3 > 2", "{}", denied.stderr);
    let landed = retry(&world, &denied.lines[0], &["--max-files", "3"]);
    assert_eq!((landed.code, calls(&world)), (0, 1), "{} {:?}", landed.stderr, landed.lines);
    world.check(&landed.lines[0]);

    // A change awaits approval; meanwhile another run changes the same file.
    let held = world.run(&[item("held", "echo called; echo held >> a.txt")], &["--hold"]);
    let run = held.of("held")["run"].as_str().unwrap().to_owned();
    let other = world.run_one(item("other", "echo called; echo other >> a.txt"));
    let in_the_way = approve(&run);
    let named = format!("`a.txt` was changed by run `{}`", world.short(&other["receipt_id"]));
    assert_eq!(in_the_way.code, 1);
    assert!(in_the_way.stderr.contains("still awaiting approval") && in_the_way.stderr.contains(&named));

    // That run is undone, so that nothing is in the way.
    let undone = undo(&world, &other, &[]);
    assert_eq!(undone.code, 0, "{} {:?}", undone.stderr, undone.lines);
    world.check(&undone.lines[0]);
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    let approved = approve(&run);
    assert_eq!(approved.code, 0, "{} {:?}", approved.stderr, approved.lines);
    world.check(&approved.lines[0]);
    assert_eq!((world.read("a.txt").as_str(), calls(&world)), ("one\ntwo\nthree\nheld\n", 3));

    // In the evening a list of five, of which one fails, and is repeated alone.
    let one = |n: usize| {
        let script = format!("echo called; echo {n} > evening{n}");
        let test = if n == 3 { json!({ "test_command": "test -e ready" }) } else { json!({}) };
        item_with(&format!("evening-{n}"), &script, test)
    };
    let five: Vec<_> = (1..=5).map(one).collect();
    let first = world.run(&five, &[]);
    assert_eq!((first.code, &first.of("evening-3")["status"], calls(&world)), (1, &json!("failure"), 8));
    world.write("ready", "");
    let again = world.run(&five, &["--only-failed"]);
    assert_eq!((again.code, calls(&world)), (0, 9), "{} {:?}", again.stderr, again.lines);
    assert!((1..=5).all(|n| world.read(&format!("evening{n}")) == format!("{n}\n")));
    again.lines.iter().for_each(|line| world.check(line));
}
