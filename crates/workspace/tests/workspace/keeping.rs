//! The store and its states: what is stored is read back, or an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crealeph_contracts::digest::{Blake3, ContentDigests};
use crealeph_workspace::{
    Archive, GitObjects, Hidden, KeepError, StoreError, Workspace, state_of_everything, state_without_cache,
};

use crate::place::Place;

fn object(place: &Place, digest: &Blake3) -> PathBuf {
    let name = digest.to_string();
    let (folder, rest) = name.split_at(2);
    place.at(".crealeph/objects").join(folder).join(rest)
}

#[test]
fn a_stored_content_is_read_back() {
    let place = Place::new();
    let workspace = place.workspace();
    let store = workspace.store();
    for bytes in [&b""[..], b"x", &[7; 100_000]] {
        let digest = store.put(bytes).unwrap();
        assert_eq!(digest, Blake3::of(bytes));
        assert_eq!(store.put(bytes).unwrap(), digest);
        assert!(store.contains(&digest));
        assert_eq!(store.read(&digest, 100_000).unwrap(), bytes);
        assert_eq!(store.digests(&digest).unwrap(), ContentDigests::of(bytes));
    }
    let large = Blake3::of(&[7; 100_000]);
    assert!(matches!(store.read(&large, 99_999), Err(StoreError::TooLarge { .. })));
    assert!(matches!(store.read(&Blake3::of(b"never"), 1), Err(StoreError::Missing(_))));
    assert_eq!(fs::read_dir(place.at(".crealeph/temporary")).unwrap().count(), 0);
}

#[test]
fn a_damaged_content_is_found() {
    let place = Place::with(&[("a", "content")]);
    let workspace = place.workspace();
    let snapshot = workspace.snapshot().unwrap();
    workspace.keep(snapshot.state()).unwrap();
    let digest = Blake3::of(b"content");
    let stored = object(&place, &digest);
    fs::remove_file(&stored).unwrap();
    fs::write(&stored, "kontent").unwrap();
    assert!(matches!(workspace.store().read(&digest, 10), Err(StoreError::Damaged(_))));
    let restored = workspace.restore(snapshot.state().hash(), &Place::new().at("into"));
    assert!(matches!(restored, Err(KeepError::Store(StoreError::Damaged(_)))));
}

#[test]
fn a_state_is_restored_anywhere_after_the_workspace_has_moved_on() {
    let place = Place::with(&[
        ("a", "1"),
        ("d/e/f", ""),
        ("run", "#!"),
        ("d/same", "1"),
        (".gitignore", "t\n"),
        ("t", ""),
    ]);
    place.set_mode("run", 0o755);
    place.link("d/link", "../a");
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    workspace.keep(before.state()).unwrap();
    workspace.keep(before.state()).unwrap();
    fs::remove_dir_all(place.at("d")).unwrap();
    place.write("a", "2");
    place.write("b", "3");
    let elsewhere = Place::new();
    let restored = workspace.restore(before.state().hash(), &elsewhere.at("deep/into")).unwrap();
    assert_eq!(&restored, before.state());
    let copy = Workspace::open(&elsewhere.at("deep/into")).unwrap();
    assert_eq!(copy.snapshot().unwrap().state(), before.state());
    let again = workspace.restore(before.state().hash(), &elsewhere.at("deep/into"));
    assert!(matches!(again, Err(KeepError::NotEmpty(_))));
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "2");
}

#[test]
fn a_manifest_must_be_of_its_state() {
    let place = Place::with(&[("a", "1")]);
    let workspace = place.workspace();
    let first = workspace.snapshot().unwrap().state().hash();
    assert!(matches!(workspace.kept(first), Err(KeepError::Unknown(_))));
    workspace.keep(workspace.snapshot().unwrap().state()).unwrap();
    let manifest = place.at(&format!(".crealeph/states/{first}"));
    let text = fs::read_to_string(&manifest).unwrap();
    for damaged in [text.replace(" a\0", " b\0"), text.replace("file", "exec"), String::new(), text.repeat(2)]
    {
        fs::write(&manifest, damaged).unwrap();
        assert!(matches!(workspace.kept(first), Err(KeepError::Damaged(_))));
    }
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_kept_as_what_it_was() {
    let place = Place::with(&[("a", "1")]);
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    place.write("a", "2");
    let kept = workspace.keep(before.state());
    assert!(matches!(kept, Err(KeepError::Store(StoreError::Changed(path))) if path == "a"));
    assert_eq!(fs::read_dir(place.at(".crealeph/temporary")).unwrap().count(), 0);
}

#[test]
fn many_files_at_once() {
    let place = Place::on_disk();
    (0..300).for_each(|number| place.write(&format!("d{}/f{number}", number % 7), &number.to_string()));
    let workspace = place.workspace();
    let state = workspace.snapshot().unwrap();
    workspace.keep(state.state()).unwrap();
    let elsewhere = Place::new();
    workspace.restore(state.state().hash(), elsewhere.path()).unwrap();
    assert_eq!(elsewhere.snapshot().state(), state.state());
}

#[test]
fn a_state_kept_as_a_difference_is_restored_whole() {
    let place = Place::with(&[("a", "one"), ("b/c", "two")]);
    let workspace = place.workspace();
    let mut before = workspace.snapshot().unwrap();
    workspace.keep(before.state()).unwrap();
    // More differences than are chained before a state is written whole again.
    for turn in 0..70 {
        fs::write(place.at("a"), format!("turn {turn}")).unwrap();
        let _ = fs::remove_file(place.at(&format!("new-{}", turn % 3)));
        fs::write(place.at(&format!("new-{}", (turn + 1) % 3)), "new").unwrap();
        let after = workspace.snapshot().unwrap();
        workspace.keep_after(before.state(), after.state(), Hidden::NOTHING).unwrap();
        assert_eq!(workspace.kept(after.state().hash()).unwrap(), *after.state(), "turn {turn}");
        before = after;
    }
    let texts: Vec<String> = fs::read_dir(place.at(".crealeph/states"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let whole = texts.iter().filter(|text| text.starts_with("crealeph-state-v1\n")).count();
    assert!((2..5).contains(&whole), "{whole} of {} are whole", texts.len());
}

#[test]
fn an_archive_replays_one_state_into_another() {
    let place = Place::with(&[("a", "one"), ("d/e/f", "deep"), ("x", "gone")]);
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    workspace.keep(before.state()).unwrap();
    fs::remove_file(place.at("x")).unwrap();
    fs::remove_dir_all(place.at("d/e")).unwrap();
    fs::write(place.at("d/e"), "a file where a folder was").unwrap();
    std::os::unix::fs::symlink("a", place.at("l")).unwrap();
    let after = workspace.snapshot().unwrap();
    workspace.keep_after(before.state(), after.state(), Hidden::NOTHING).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let (exported, tree) = (scratch.path().join("exported"), scratch.path().join("tree"));
    let archive = Archive::open(&place.at(".crealeph")).unwrap();
    archive.export(&[before.state().hash(), after.state().hash()], &exported).unwrap();
    let archive = Archive::open(&exported).unwrap();
    archive.restore(before.state(), &tree).unwrap();
    assert_eq!(state_of_everything(&tree).unwrap(), *before.state());
    archive.advance(before.state(), after.state(), &tree).unwrap();
    assert_eq!(state_of_everything(&tree).unwrap(), *after.state());
    assert_eq!(state_without_cache(&place.at("")).unwrap().state(), after.state());
    assert!(Archive::open(&tree).is_none());
}

#[test]
fn cleaning_leaves_what_the_needed_states_need() {
    let place = Place::with(&[("a", "0"), ("same", "s")]);
    let workspace = place.workspace();
    let mut states = vec![workspace.snapshot().unwrap().state().clone()];
    workspace.keep(&states[0]).unwrap();
    for text in ["1", "2", "3"] {
        place.write("a", text);
        states.push(workspace.snapshot().unwrap().state().clone());
        workspace.keep_after(&states[states.len() - 2], &states[states.len() - 1], Hidden::NOTHING).unwrap();
    }
    let hash = |at: usize| states[at].hash();
    let restored = |at: usize| workspace.restore(hash(at), &Place::new().at("into")).is_ok();
    // The third is written as the difference from the second, and that from the first.
    let reported = workspace.clean(&[hash(2), hash(3)].into(), true).unwrap();
    assert_eq!((reported.states, reported.contents), (2, 2));
    assert_eq!([0, 1, 2, 3].map(restored), [true; 4], "only reported");
    assert_eq!(workspace.clean(&[hash(2), hash(3)].into(), false).unwrap(), reported);
    assert_eq!([0, 1, 2, 3].map(restored), [false, false, true, true]);
    assert!(matches!(workspace.kept(hash(0)), Err(KeepError::Unknown(_))));
    assert_eq!(workspace.clean(&[hash(2), hash(3)].into(), false).unwrap().bytes, 0);
    let reported = workspace.clean(&[hash(2), hash(1)].into(), false).unwrap();
    assert_eq!((reported.states, reported.contents), (1, 1));
    assert_eq!([2, 3].map(restored), [true, false]);
    // A removed state can be kept again.
    workspace.keep_after(&states[2], &states[3], Hidden::NOTHING).unwrap();
    assert_eq!([2, 3].map(restored), [true, true]);
    fs::write(place.at(".crealeph/states").join(hash(3).to_string()), "no manifest").unwrap();
    assert!(matches!(workspace.clean(&[hash(3)].into(), false), Err(KeepError::Damaged(_))));
    assert!(restored(2));
}

/// A repository that has these blobs at these paths.
fn git(blobs: &Arc<Mutex<BTreeMap<String, Vec<u8>>>>) -> GitObjects {
    let (finding, reading) = (Arc::clone(blobs), Arc::clone(blobs));
    let name = |bytes: &[u8]| ContentDigests::of(bytes).git_blob;
    GitObjects {
        find: Box::new(move |paths| {
            let blobs = finding.lock().unwrap();
            paths.iter().filter_map(|path| Some(((*path).to_owned(), name(blobs.get(*path)?)))).collect()
        }),
        read: Box::new(move |blob| {
            Ok(reading.lock().unwrap().values().find(|bytes| name(bytes) == *blob).cloned())
        }),
    }
}

#[test]
fn contents_in_git_are_not_copied_and_are_restored_from_git() {
    let place = Place::with(&[("same", "in git"), ("other", "edited"), ("d/new", "new"), ("twin", "in git")]);
    let blobs = [("same", "in git"), ("other", "as committed")]
        .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let blobs = Arc::new(Mutex::new(BTreeMap::from(blobs)));
    let open = || place.workspace().with_git(git(&blobs));
    let workspace = open();
    let state = workspace.snapshot().unwrap().state().clone();
    workspace.keep(&state).unwrap();
    let is_copied = |text: &str| object(&place, &Blake3::of(text.as_bytes())).exists();
    assert_eq!(["in git", "edited", "new"].map(is_copied), [false, true, true]);
    let digest = Blake3::of(b"in git");
    for workspace in [workspace, open()] {
        assert!(workspace.store().contains(&digest));
        assert_eq!(workspace.store().read(&digest, 10).unwrap(), b"in git");
        assert_eq!(workspace.store().digests(&digest).unwrap(), ContentDigests::of(b"in git"));
        let into = Place::new();
        assert_eq!(workspace.restore(state.hash(), &into.at("tree")).unwrap(), state);
        assert_eq!(fs::read_to_string(into.at("tree/twin")).unwrap(), "in git");
    }
    // An export holds everything itself.
    let exported = Place::new();
    let archive = Archive::open(&place.at(".crealeph")).unwrap().with_git(git(&blobs));
    archive.export(&[state.hash()], &exported.at("export")).unwrap();
    Archive::open(&exported.at("export")).unwrap().restore(&state, &exported.at("tree")).unwrap();
    assert_eq!(state_of_everything(&exported.at("tree")).unwrap(), state);
    // A content that is referred to stays so as long as a state needs it.
    assert_eq!(open().clean(&[state.hash()].into(), false).unwrap().bytes, 0);
    assert!(open().store().contains(&digest));
    let reader = open();
    assert!(reader.store().contains(&digest));
    open().clean(&Default::default(), false).unwrap();
    assert!(!reader.store().contains(&digest));
    reader.keep(&state).unwrap();
    assert_eq!(reader.restore(state.hash(), &exported.at("again")).unwrap(), state);
}

#[test]
fn a_content_that_git_lost_is_named_by_path() {
    let place = Place::with(&[("d/lost", "was in git"), ("kept", "too")]);
    let blobs = Arc::new(Mutex::new(BTreeMap::from([("d/lost".to_owned(), b"was in git".to_vec())])));
    let workspace = place.workspace().with_git(git(&blobs));
    let state = workspace.snapshot().unwrap().state().clone();
    workspace.keep(&state).unwrap();
    blobs.lock().unwrap().clear();
    let blob = ContentDigests::of(b"was in git").git_blob;
    let reported = |result: Result<(), KeepError>| result.unwrap_err().to_string();
    let restored = reported(workspace.restore(state.hash(), &Place::new().at("into")).map(drop));
    let archive = Archive::open(&place.at(".crealeph")).unwrap().with_git(git(&blobs));
    let exported = reported(archive.export(&[state.hash()], &Place::new().at("export")));
    for said in [restored, exported] {
        assert!(said.contains("`d/lost`") && said.contains(blob.as_str()), "{said}");
    }
    // Without access to git, it is missing.
    let alone = place.workspace().restore(state.hash(), &Place::new().at("into"));
    assert!(matches!(alone, Err(KeepError::Store(StoreError::Missing(_)))), "{alone:?}");
}

#[test]
fn hidden_files_are_in_the_state_but_their_contents_are_not_kept() {
    let place = Place::new();
    place.write("a", "one");
    place.write("sub/.env", "PASSWORD=hunter2");
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    let covers = |path: &str| path.ends_with(".env");
    let hidden = Hidden { covers: &covers, known: None };
    workspace.keep_hiding(before.state(), hidden).unwrap();
    place.write("a", "two");
    let after = workspace.snapshot().unwrap();
    workspace.keep_after(before.state(), after.state(), hidden).unwrap();
    let elsewhere = Place::new();
    let archive = Archive::open(&place.at(".crealeph")).unwrap();
    for (at, snapshot) in [(0, &before), (1, &after)] {
        let hash = snapshot.state().hash();
        assert_eq!(archive.kept(hash).unwrap().hash(), hash, "the hash covers what is hidden");
        assert_eq!(
            archive.withheld(hash).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["sub/.env"]
        );
        let tree = elsewhere.at(&format!("tree{at}"));
        archive.restore(snapshot.state(), &tree).unwrap();
        assert!(tree.join("a").exists() && !tree.join("sub/.env").exists());
    }
    archive.export(&[before.state().hash(), after.state().hash()], &elsewhere.at("export")).unwrap();
    for folder in [place.at(".crealeph"), elsewhere.at("export")] {
        assert!(!holds(&folder, b"hunter2"), "{}", folder.display());
    }
    let exported = Archive::open(&elsewhere.at("export")).unwrap();
    assert_eq!(exported.withheld(after.state().hash()).unwrap().len(), 1);
}

#[test]
fn a_state_that_was_kept_for_another_agent_is_marked() {
    let place = Place::new();
    place.write("a", "one");
    place.write(".env", "PASSWORD=hunter2");
    let workspace = place.workspace();
    let state = workspace.snapshot().unwrap();
    workspace.keep(state.state()).unwrap();
    let known = [std::path::PathBuf::from(".env")];
    workspace
        .keep_hiding(state.state(), Hidden { covers: &|path| path == ".env", known: Some(&known) })
        .unwrap();
    let elsewhere = Place::new();
    let archive = Archive::open(&place.at(".crealeph")).unwrap();
    archive.export(&[state.state().hash()], &elsewhere.at("export")).unwrap();
    assert!(!holds(&elsewhere.at("export"), b"hunter2"));
}

fn holds(folder: &std::path::Path, text: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => holds(&path, text),
            false => std::fs::read(&path).unwrap().windows(text.len()).any(|window| window == text),
        }
    })
}
