//! Publishing from outside: laws over random trees, the metadata of a published file, conflicts, and holding.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crealeph_workspace::{
    Capsule, Deadline, HeldId, KeptPlace, Prepared, PublishError, Workspace, changes_between,
};
use proptest::prelude::{Strategy, any, proptest};
use proptest::test_runner::Config;

use crate::place::{Place, path};
use crate::view::View;

/// The change of a view of a workspace after a test has changed it, frozen.
fn captured(place: &Place, change: impl FnOnce(&View)) -> Capsule {
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    let view = View::of(place);
    change(&view);
    let capsule = workspace.capture(&before, &view.changes(place)).unwrap();
    // The view is gone when the test publishes.
    workspace.keep_contents(&capsule).unwrap();
    capsule
}

fn publish(place: &Place, change: impl FnOnce(&View)) {
    let capsule = captured(place, change);
    let workspace = place.workspace();
    workspace.prepare(&capsule).unwrap().publish().map(drop).unwrap();
    assert_eq!(workspace.snapshot().unwrap().state(), capsule.after());
}

/// A file of a random tree: nothing, a file, an executable one, or a link.
#[derive(Clone, Copy, Debug)]
enum Thing {
    File(u8),
    Exec(u8),
    Link(u8),
}

/// Paths that get in each other's way.
const PATHS: [&str; 12] =
    ["a", "a/b", "a/b/c", "a/d", "a-b", "e/f/g", "e/f", "e", "h", "i/j", "i/.gitignore", ".gitignore"];
const TEXTS: [&str; 6] = ["", "a\n", "b\n", "*\n", "e/\n!e/f\n", "/i/j\nh\n"];
const TARGETS: [&str; 3] = ["a", "h", "e/f"];

fn tree() -> impl Strategy<Value = BTreeMap<usize, Thing>> {
    let thing = (0..3_u8, any::<u8>()).prop_map(|(kind, which)| match kind {
        0 => Thing::File(which),
        1 => Thing::Exec(which),
        _ => Thing::Link(which),
    });
    proptest::collection::btree_map(0..PATHS.len(), thing, 0..8)
}

/// Writes a tree, leaving out entries below a file.
fn plant(place: &Place, tree: &BTreeMap<usize, Thing>) {
    for (at, thing) in tree {
        let path = PATHS[*at];
        let is_blocked = path.match_indices('/').any(|(end, _)| {
            fs::symlink_metadata(place.at(path.get(..end).unwrap())).is_ok_and(|data| !data.is_dir())
        });
        if is_blocked || fs::symlink_metadata(place.at(path)).is_ok() {
            continue;
        }
        let text = |which: u8| TEXTS[usize::from(which) % TEXTS.len()];
        match thing {
            Thing::File(which) => place.write(path, text(*which)),
            Thing::Exec(which) => {
                place.write(path, text(*which));
                place.set_mode(path, 0o755);
            }
            Thing::Link(which) => {
                let up = "../".repeat(path.matches('/').count());
                place.link(path, &format!("{up}{}", TARGETS[usize::from(*which) % TARGETS.len()]));
            }
        }
    }
}

fn clear(place: &Place) {
    for entry in fs::read_dir(place.path()).unwrap() {
        let path = entry.unwrap().path();
        match fs::symlink_metadata(&path).unwrap().is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }
}

fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn published_is_after_and_discarded_is_before(old in tree(), new in tree(), tracked in any::<u16>()) {
        let place = Place::new();
        plant(&place, &old);
        let tracked: Vec<&str> =
            PATHS.iter().enumerate().filter(|(at, _)| tracked >> at & 1 == 1).map(|(_, path)| *path).collect();
        place.track("", &tracked);
        let workspace = place.workspace();
        let before = workspace.snapshot().unwrap();
        workspace.keep(before.state()).unwrap();
        let view = View { place: Place::new() };
        plant(&view.place, &new);
        let capsule = workspace.capture(&before, &view.changes(&place)).unwrap();
        assert_eq!(capsule.before(), before.state().hash());
        let total = workspace.deltas(capsule.changes(), Deadline::NEVER).unwrap().total;
        assert!(total >= capsule.changes().len() as u64);

        match workspace.prepare(&capsule).and_then(Prepared::discard) {
            // An ignored file is in a folder that is to become a file.
            Ok(()) | Err(PublishError::InTheWay { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        assert_eq!(workspace.snapshot().unwrap().state(), before.state());
        match workspace.prepare(&capsule).and_then(Prepared::publish) {
            Ok(_) => {
                let now = workspace.snapshot().unwrap();
                assert_eq!(now.state(), capsule.after());
                workspace.recover().unwrap();
                assert_eq!(workspace.snapshot().unwrap().state(), capsule.after());
            }
            Err(PublishError::InTheWay { .. }) => {
                assert_eq!(workspace.snapshot().unwrap().state(), before.state());
            }
            Err(other) => panic!("{other}"),
        }
        let elsewhere = Place::new();
        workspace.restore(before.state().hash(), elsewhere.path()).unwrap();
        fs::create_dir(elsewhere.at(".git")).unwrap();
        elsewhere.track("", &tracked);
        assert_eq!(elsewhere.snapshot().state(), before.state());
    }

    #[test]
    fn without_ignore_rules_a_publish_is_exactly_the_new_tree(old in tree(), new in tree()) {
        let keep = |tree: BTreeMap<usize, Thing>| -> BTreeMap<usize, Thing> {
            tree.into_iter().filter(|(at, _)| !PATHS[*at].ends_with(".gitignore")).collect()
        };
        let (old, new) = (keep(old), keep(new));
        let place = Place::new();
        plant(&place, &old);
        let view = View { place: Place::new() };
        plant(&view.place, &new);
        let workspace = place.workspace();
        let before = workspace.snapshot().unwrap();
        let capsule = workspace.capture(&before, &view.changes(&place)).unwrap();
        let expected = view.place.snapshot();
        assert_eq!(capsule.changes(), changes_between(before.state(), expected.state()));
        workspace.prepare(&capsule).unwrap().publish().map(drop).unwrap();
        assert_eq!(workspace.snapshot().unwrap().state(), expected.state());
        workspace.recover().unwrap();
        clear(&view.place);
    }
}

#[test]
fn a_published_file_keeps_its_permissions_and_new_ones_are_plain() {
    let place = Place::with(&[("private", "1"), ("read-only", "1"), ("run", "1"), ("was-run", "1")]);
    for (file, mode) in [("private", 0o600), ("read-only", 0o444), ("run", 0o640), ("was-run", 0o750)] {
        place.set_mode(file, mode);
    }
    publish(&place, |view| {
        ["private", "read-only", "run", "was-run"].iter().for_each(|file| {
            view.remove(file);
            view.place.write(file, "2");
        });
        view.place.set_mode("run", 0o755);
        view.place.set_mode("was-run", 0o644);
        view.place.write("new", "");
    });
    let mode = |file: &str| fs::metadata(place.at(file)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(["private", "read-only", "run", "was-run"].map(mode), [0o600, 0o444, 0o750, 0o640]);
    place.write("plain", "");
    assert_eq!(mode("new"), mode("plain"));
}

#[test]
fn owners_are_kept_if_root_publishes() {
    let place = Place::with(&[("theirs", "1"), ("folder/x", "1")]);
    // Only root can change owners; for everyone else all files are their own, and stay so.
    let other = if rustix::process::geteuid().is_root() { 1234 } else { rustix::process::geteuid().as_raw() };
    for owned in ["theirs", "folder"] {
        std::os::unix::fs::chown(place.at(owned), Some(other), None).unwrap();
    }
    publish(&place, |view| {
        view.place.write("theirs", "2");
        view.place.write("folder/deep/new", "2");
    });
    for owned in ["theirs", "folder/deep", "folder/deep/new"] {
        assert_eq!(fs::metadata(place.at(owned)).unwrap().uid(), other, "{owned}");
    }
}

#[test]
fn hard_links_elsewhere_are_not_written_through() {
    let place = Place::with(&[("a", "1")]);
    let outside = Place::new();
    fs::hard_link(place.at("a"), outside.at("same")).unwrap();
    publish(&place, |view| view.place.write("a", "2"));
    assert_eq!(fs::read_to_string(outside.at("same")).unwrap(), "1");
}

#[test]
fn folders_left_empty_go_and_others_stay() {
    let place = Place::with(&[
        (".gitignore", "ignored\n"),
        ("gone/deep/a", "1"),
        ("stays/a", "1"),
        ("stays/ignored", "1"),
        ("kept/a", "1"),
        ("kept/b", "1"),
    ]);
    publish(&place, |view| ["gone/deep/a", "stays/a", "kept/a"].iter().for_each(|path| view.remove(path)));
    assert!(!place.at("gone").exists());
    assert!(place.at("stays/ignored").exists() && place.at("kept/b").exists());
}

#[test]
fn ignored_files_in_a_folder_that_is_to_be_a_file_are_in_the_way() {
    let place = Place::with(&[(".gitignore", "*.log\n"), ("d/a", "1"), ("d/x.log", "precious")]);
    let capsule = captured(&place, |view| {
        view.remove("d");
        view.place.write("d", "a file");
    });
    let workspace = place.workspace();
    let error = workspace.prepare(&capsule).map(drop).unwrap_err();
    assert!(matches!(&error, PublishError::InTheWay { path, .. } if path == "d/x.log"), "{error}");
    assert_eq!(fs::read_to_string(place.at("d/x.log")).unwrap(), "precious");
    assert_eq!(workspace.snapshot().unwrap().state().hash(), capsule.before());
}

#[test]
fn an_ignored_file_where_a_folder_is_needed_is_in_the_way() {
    let place = Place::with(&[(".gitignore", "/out\n"), ("out", "precious")]);
    place.track("", &["out/tracked"]);
    let capsule = captured(&place, |view| {
        view.remove("out");
        view.place.write("out/tracked", "1");
    });
    let error = place.workspace().prepare(&capsule).map(drop).unwrap_err();
    assert!(matches!(&error, PublishError::InTheWay { path, .. } if path == "out"), "{error}");
    assert_eq!(fs::read_to_string(place.at("out")).unwrap(), "precious");
}

#[test]
fn touched_paths_conflict_and_untouched_ones_merge() {
    let place = Place::on_disk();
    ["a", "b", "c", "d"].iter().for_each(|path| place.write(path, "1"));
    let capsule = captured(&place, |view| {
        view.place.write("a", "2");
        view.remove("b");
        view.place.write("new", "2");
    });
    let workspace = place.workspace();
    place.write("c", "person");
    place.write("person", "person");
    fs::remove_file(place.at("d")).unwrap();
    workspace.prepare(&capsule).unwrap().publish().map(drop).unwrap();
    assert_eq!(place.paths(), ["a", "c", "new", "person"]);

    type Edit = fn(&Place);
    let edits: [(&str, Edit); 6] = [
        ("a", |place| place.write("a", "person")),
        ("a", |place| place.set_mode("a", 0o755)),
        ("a", |place| fs::remove_file(place.at("a")).unwrap()),
        ("b", |place| place.write("b", "person")),
        ("new", |place| place.write("new", "person")),
        ("deep", |place| place.link("deep", "a")),
    ];
    for (reported, edit) in edits {
        let place = Place::with(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let capsule = captured(&place, |view| {
            view.place.write("a", "2");
            view.remove("b");
            view.place.write("c", "2");
            view.place.write("new", "2");
            view.place.write("deep/new", "2");
        });
        edit(&place);
        let workspace = place.workspace();
        let before = workspace.snapshot().unwrap();
        match workspace.prepare(&capsule).and_then(Prepared::publish).unwrap_err() {
            PublishError::Conflict { paths, kept } => {
                assert_eq!((paths.as_slice(), kept.len()), ([reported.to_owned()].as_slice(), 0));
            }
            PublishError::InTheWay { path, .. } => assert_eq!((reported, path.as_str()), ("deep", "deep")),
            other => panic!("{other}"),
        }
        assert_eq!(workspace.snapshot().unwrap().state(), before.state(), "{reported}");
    }
}

#[test]
fn two_changes_of_one_start_merge_unless_they_touch_the_same_path() {
    let place = Place::with(&[("a", "1"), ("b", "1")]);
    let first = captured(&place, |view| view.place.write("a", "first"));
    let second = captured(&place, |view| view.place.write("b", "second"));
    let third = captured(&place, |view| {
        view.place.write("a", "third");
        view.place.write("c", "third");
    });
    let workspace = place.workspace();
    let prepared = [&first, &second, &third].map(|capsule| workspace.prepare(capsule).unwrap());
    let [first, second, third] = prepared;
    first.publish().map(drop).unwrap();
    second.publish().map(drop).unwrap();
    let Err(PublishError::Conflict { paths, .. }) = third.publish() else {
        panic!("`a` was published twice")
    };
    assert_eq!(paths, ["a"]);
    assert_eq!(place.paths(), ["a", "b"]);
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "first");
    assert_eq!(fs::read_to_string(place.at("b")).unwrap(), "second");
}

#[test]
fn a_held_change_waits_for_another_process() {
    let place = Place::with(&[("a", "1")]);
    let capsule = captured(&place, |view| view.place.write("a", "2"));
    let workspace = place.workspace();
    let id = workspace.prepare(&capsule).unwrap().hold().unwrap();
    workspace.recover().unwrap();
    let later = place.workspace();
    assert_eq!(later.held().unwrap(), std::slice::from_ref(&id));
    let resumed = later.resume(&id).unwrap();
    assert_eq!((resumed.before(), resumed.after()), (capsule.before(), capsule.after().hash()));
    assert_eq!(resumed.changes(), capsule.changes());
    // While one process has it, no other takes it or removes it.
    assert!(workspace.resume(&id).is_err());
    workspace.recover().unwrap();
    drop(resumed);
    assert_eq!(later.held().unwrap().len(), 1);
    later.resume(&id).unwrap().publish().map(drop).unwrap();
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "2");
    assert!(matches!(later.resume(&id), Err(PublishError::NotHeld(_))));
    assert!(matches!(later.resume(&HeldId::new("99")), Err(PublishError::NotHeld(_))));
}

#[test]
fn a_held_change_can_be_rejected_and_a_dropped_one_leaves_nothing() {
    let place = Place::with(&[("a", "1")]);
    let capsule = captured(&place, |view| view.place.write("a", "2"));
    let workspace = place.workspace();
    let id = workspace.prepare(&capsule).unwrap().hold().unwrap();
    workspace.resume(&id).unwrap().discard().unwrap();
    drop(workspace.prepare(&capsule).unwrap());
    assert_eq!(workspace.held().unwrap().len(), 0);
    assert_eq!(fs::read_dir(place.at(".crealeph/publish")).unwrap().count(), 0);
    assert_eq!(workspace.snapshot().unwrap().state().hash(), capsule.before());
}

#[test]
fn a_change_that_is_being_prepared_is_not_cleaned_up() {
    let place = Place::with(&[("a", "1")]);
    let capsule = captured(&place, |view| view.place.write("a", "2"));
    let workspace = place.workspace();
    let prepared = workspace.prepare(&capsule).unwrap();
    assert_eq!(place.workspace().recover().unwrap(), []);
    prepared.publish().map(drop).unwrap();
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "2");
}

#[test]
fn a_damaged_plan_is_neither_applied_nor_undone() {
    let place = Place::with(&[("a", "1")]);
    let capsule = captured(&place, |view| view.place.write("a", "2"));
    let workspace = place.workspace();
    let id = workspace.prepare(&capsule).unwrap().hold().unwrap();
    let plan = place.at(&format!(".crealeph/publish/{}/held", id.as_str()));
    let text = fs::read_to_string(&plan).unwrap().replace("\"a\"", "\"b\"");
    fs::write(plan.with_file_name("applying"), text).unwrap();
    fs::remove_file(&plan).unwrap();
    assert!(workspace.recover().is_err());
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "1");
}

#[test]
fn a_late_write_to_a_displaced_file_is_kept() {
    let place = Place::with(&[("a", "1")]);
    let mut slow = fs::OpenOptions::new().append(true).open(place.at("a")).unwrap();
    publish(&place, |view| view.place.write("a", "2"));
    std::io::Write::write_all(&mut slow, b" and more").unwrap();
    let workspace = place.workspace();
    // As long as it is open it may still be written to.
    assert_eq!(workspace.recover().unwrap(), []);
    drop(slow);
    let settled = loop {
        let settled = workspace.recover().unwrap();
        if !settled.is_empty() {
            break settled;
        }
    };
    let [kept] = settled[0].kept.as_slice() else { panic!("{settled:?}") };
    let KeptPlace::Beside(file) = &kept.place else { panic!("{kept:?}") };
    assert_eq!((kept.path.as_str(), fs::read_to_string(file).unwrap().as_str()), ("a", "1 and more"));
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "2");
}

#[test]
fn deep_and_long_and_odd_names() {
    let place = Place::new();
    let long = "n".repeat(255);
    let deep = vec!["d"; 100].join("/");
    let names =
        [format!("{deep}/file"), long.clone(), format!("{long}/{long}"), "\u{1f600} \"'\n".to_owned()];
    let [first, _, third, fourth] = &names;
    publish(&place, |view| [first, third, fourth].iter().for_each(|name| view.place.write(name, "x")));
    publish(&place, |view| {
        view.remove(&long);
        view.place.write(&long, "y");
        view.remove(&names[3]);
    });
    assert_eq!(fs::read_to_string(place.at(&long)).unwrap(), "y");
    assert!(place.snapshot().state().get(&path(&names[0])).is_some());
}

#[test]
fn many_changes_at_once() {
    let place = Place::new();
    (0..500).for_each(|number| place.write(&format!("d{}/f{number}", number % 9), "1"));
    publish(&place, |view| {
        (0..500).filter(|number| number % 2 == 0).for_each(|number| {
            view.place.write(&format!("d{}/f{number}", number % 9), "2");
        });
        (0..300).for_each(|number| view.place.write(&format!("n{}/f{number}", number % 7), "new"));
        view.remove("d1");
    });
    assert!(Workspace::open(place.path()).is_ok());
}

#[test]
fn a_conflict_of_many_paths_says_how_many_are_not_named() {
    let names: Vec<String> = (0..103).map(|number| format!("f{number:03}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let place = Place::with(&files);
    let capsule = captured(&place, |view| names.iter().for_each(|name| view.place.write(name, "2")));
    names.iter().for_each(|name| place.write(name, "person"));
    let error = place.workspace().prepare(&capsule).and_then(Prepared::publish).unwrap_err().to_string();
    assert!(error.contains("`f099`, and 3 more meanwhile") && !error.contains("f100"), "{error}");
}
