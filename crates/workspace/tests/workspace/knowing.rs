//! What is reused from the last scan is what a scan without a cache would find, whatever happened in between.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use crealeph_contracts::digest::Blake3;
use crealeph_workspace::{StateHash, Wanted, Workspace, state_without_cache};

use crate::place::Place;

fn fresh(place: &Place) -> StateHash {
    state_without_cache(place.path()).unwrap().state().hash()
}

/// Waits until the file system's clock has moved on, so that everything can be cached.
fn wait(place: &Place) {
    let now = || {
        let probe = place.at(".crealeph/probe");
        fs::write(&probe, "").unwrap();
        let data = fs::metadata(&probe).unwrap();
        (data.ctime(), data.ctime_nsec())
    };
    let start = now();
    while now() <= start {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Everything in the workspace is cached; then something happens. A later read with the cache finds the same as one
/// without it: in a new process, and in one that has read before.
fn check(place: &Place, what: &str, happens: impl FnOnce()) {
    let reader = place.workspace();
    for _ in 0..2 {
        wait(place);
        reader.snapshot().unwrap();
    }
    assert_eq!(place.snapshot().tally().read_files, 0, "before {what}: everything is known");
    happens();
    let expected = fresh(place);
    assert_eq!(reader.snapshot().unwrap().state().hash(), expected, "{what}, read by the same process");
    assert_eq!(place.snapshot().state().hash(), expected, "{what}, read by another");
    for _ in 0..2 {
        wait(place);
        assert_eq!(place.snapshot().state().hash(), expected, "{what}, read once more");
    }
}

fn tree() -> Place {
    let place = Place::with(&[
        ("a", "1"),
        ("d/b", "2"),
        ("d/e/c", "3"),
        ("d/e/f/g", "4"),
        ("h/i.log", "5"),
        ("h/.gitignore", "nothing\n"),
        ("j/k", "6"),
    ]);
    place.link("d/l", "b");
    fs::create_dir_all(place.at("empty/er")).unwrap();
    place.track("", &["a", "d/b"]);
    place.workspace();
    place
}

#[test]
fn any_change_to_a_cached_tree_is_found() {
    let place = tree();
    let at = |path: &str| place.at(path);
    check(&place, "a file changes", || place.write("d/e/c", "x"));
    check(&place, "a file comes", || place.write("d/e/new", "x"));
    check(&place, "a file goes", || fs::remove_file(at("d/e/new")).unwrap());
    check(&place, "a file moves", || fs::rename(at("a"), at("d/a")).unwrap());
    check(&place, "a file replaces another", || fs::rename(at("d/a"), at("d/b")).unwrap());
    check(&place, "a file becomes executable", || place.set_mode("j/k", 0o755));
    check(&place, "a file becomes a folder", || {
        fs::remove_file(at("j/k")).unwrap();
        place.write("j/k/k", "6");
    });
    check(&place, "a folder becomes a link", || {
        fs::remove_dir_all(at("j/k")).unwrap();
        place.link("j/k", "../d");
    });
    check(&place, "a link points elsewhere", || {
        fs::remove_file(at("d/l")).unwrap();
        place.link("d/l", "e");
    });
    check(&place, "a folder moves", || fs::rename(at("d/e"), at("moved")).unwrap());
    check(&place, "two folders change places", || {
        fs::rename(at("moved"), at("aside")).unwrap();
        fs::rename(at("h"), at("moved")).unwrap();
        fs::rename(at("aside"), at("h")).unwrap();
    });
    check(&place, "an empty folder is filled", || place.write("empty/er/x", ""));
    check(&place, "a folder is emptied", || fs::remove_file(at("empty/er/x")).unwrap());
    check(&place, "a folder goes", || fs::remove_dir_all(at("empty")).unwrap());
}

#[test]
fn rules_that_change_are_found_in_folders_that_did_not() {
    let place = tree();
    let rules = |text: &'static str| place.write(".gitignore", text);
    check(&place, "a rule for a file far below", || rules("g\n"));
    check(&place, "a rule for a folder", || rules("e/\n"));
    check(&place, "no rule any more", || rules("# nothing\n"));
    check(&place, "a rule in a folder", || place.write("h/.gitignore", "*.log\n"));
    check(&place, "what is ignored is tracked", || place.track("", &["a", "h/i.log"]));
    check(&place, "and not any more", || place.track("", &["a"]));
    check(&place, "the rule is taken back", || place.write("h/.gitignore", ""));
    check(&place, "a rule at the top again", || rules("c\n*.log\n"));
    check(&place, "a repository within, which starts afresh", || place.track("d/e", &["c"]));
    check(&place, "a repository within no more", || fs::remove_dir_all(place.at("d/e/.git")).unwrap());
    check(&place, "the rules go", || fs::remove_file(place.at(".gitignore")).unwrap());
    check(&place, "a rule further below", || place.write("d/e/f/.gitignore", "g\n"));
    check(&place, "what it ignores is tracked by a repository within", || place.track("d/e", &["f/g"]));
}

#[test]
fn times_that_are_set_back_hide_nothing() {
    let place = tree();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (what, act) in [
        (
            "a file of the same size",
            Box::new(|place: &Place| place.write("d/e/c", "y")) as Box<dyn Fn(&Place)>,
        ),
        ("a name", Box::new(|place: &Place| place.write("d/e/another", ""))),
        ("no name", Box::new(|place: &Place| fs::remove_file(place.at("d/e/another")).unwrap())),
    ] {
        check(&place, what, || {
            act(&place);
            for path in ["d/e/c", "d/e", "d"] {
                fs::File::open(place.at(path)).unwrap().set_modified(old).unwrap();
            }
        });
    }
}

/// A file that can no longer be read is reported, not taken from the cache.
#[test]
fn a_cached_tree_is_still_refused() {
    let place = tree();
    check(&place, "nothing", || ());
    fs::set_permissions(place.at("j/k"), fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(place.refusals().len(), 1);
    place.set_mode("j/k", 0o644);
    check(&place, "it is fixed", || ());
}

/// A cache of another device, or in the format of an earlier version, is ignored.
#[test]
fn a_cache_in_another_format_is_ignored() {
    let place = tree();
    check(&place, "nothing", || ());
    let path = place.at(".crealeph/state-cache");
    let mut bytes = fs::read(&path).unwrap();
    bytes[16] = b'2';
    fs::write(&path, bytes).unwrap();
    let again = Workspace::open(place.path()).unwrap().snapshot().unwrap();
    assert_eq!((again.tally().read_files, again.state().hash()), (again.tally().entries - 1, fresh(&place)));
}

/// An unchanged cache is not written again, even if folders have ignored files.
#[test]
fn nothing_is_written_if_nothing_is_new() {
    let place = tree();
    place.write(".gitignore", "ignored/\n*.tmp\n");
    place.write("ignored/x", "");
    place.write("d/e/y.tmp", "");
    place.track("j/nested", &["z"]);
    place.write("j/nested/z", "");
    find(&place, ".tmp");
    check(&place, "nothing", || ());
    find(&place, ".tmp");
    let caches = ["state-cache", "names-cache"].map(|name| place.at(".crealeph").join(name));
    let inodes = || caches.clone().map(|path| fs::metadata(path).unwrap().ino());
    let before = inodes();
    for _ in 0..3 {
        wait(&place);
        place.snapshot();
        assert_eq!(find(&place, ".tmp"), ["d/e/y.tmp"]);
        assert_eq!(inodes(), before);
    }
    place.write("d/e/another.tmp", "");
    assert_eq!(find(&place, ".tmp"), ["d/e/another.tmp", "d/e/y.tmp"]);
    place.write("d/e/c", "another");
    place.snapshot();
    assert!(before.iter().zip(inodes()).all(|(before, now)| *before != now));
}

/// The paths that end like this, by their names.
fn find(place: &Place, end: &str) -> Vec<String> {
    let is_wanted = |path: &std::path::Path| path.to_string_lossy().ends_with(end);
    let wanted = Wanted { is_wanted: &is_wanted, name: Blake3::of(end.as_bytes()), max: 100 };
    let found = place.workspace().find(&wanted).unwrap();
    found.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

#[test]
fn names_are_found_anywhere_and_immediately() {
    let place = Place::with(&[("a.key", ""), ("d/e/b.key", ""), ("ignored/f/c.key", ""), ("d/x", "")]);
    place.write(".gitignore", "ignored/\n");
    place.write(".git/d.key", "");
    place.write("folder.key/e.key", "");
    place.link("linked", "d");
    let all = ["a.key", "d/e/b.key", "folder.key", "ignored/f/c.key"];
    assert_eq!(find(&place, ".key"), all);
    wait(&place);
    for _ in 0..2 {
        assert_eq!(find(&place, ".key"), all);
        wait(&place);
    }
    place.write("ignored/f/new.key", "");
    assert_eq!(find(&place, "new.key"), ["ignored/f/new.key"]);
    assert_eq!(find(&place, ".key"), [&all[..], &["ignored/f/new.key"]].concat());
    wait(&place);
    fs::rename(place.at("d/e"), place.at("ignored/g")).unwrap();
    let moved = ["a.key", "folder.key", "ignored/f/c.key", "ignored/f/new.key", "ignored/g/b.key"];
    assert_eq!(find(&place, ".key"), moved);
    assert_eq!(find(&place, "x"), ["d/x"]);
    fs::write(place.at(".crealeph/names-cache"), "{").unwrap();
    assert_eq!(find(&place, ".key"), moved);
}

#[test]
fn too_many_names_are_refused() {
    let place = Place::with(&[("d/a.key", ""), ("d/b.key", "")]);
    let is_wanted = |path: &std::path::Path| path.extension().is_some_and(|end| end == "key");
    let wanted = Wanted { is_wanted: &is_wanted, name: Blake3::of(b"keys"), max: 1 };
    let said = place.workspace().find(&wanted).unwrap_err().to_string();
    assert!(said.contains("more than 1 such paths"), "{said}");
}
