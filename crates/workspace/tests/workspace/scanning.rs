//! The content of a state, that it is the same everywhere, and that the cache never hides a change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use crealeph_workspace::{ScanError, ScanLimits, SnapshotError, TreeNode, Workspace};

use crate::place::{Place, path};

#[test]
fn a_state_is_files_links_and_executable_bits() {
    let place = Place::with(&[("a", "1"), ("d/e/f", ""), ("run", "#!"), (".hidden", "x")]);
    place.set_mode("run", 0o755);
    place.set_mode("a", 0o444);
    place.link("d/l", "../a");
    fs::create_dir_all(place.at("empty/folders")).unwrap();
    place.track("", &["a"]);
    let snapshot = place.snapshot();
    assert_eq!(place.paths(), [".hidden", "a", "d/e/f", "d/l", "run"]);
    let state = snapshot.state();
    assert!(matches!(state.get(&path("run")), Some(TreeNode::File { executable: true, size_bytes: 2, .. })));
    assert!(matches!(state.get(&path("a")), Some(TreeNode::File { executable: false, .. })));
    assert!(matches!(state.get(&path("d/l")), Some(TreeNode::Symlink { target }) if &**target == "../a"));
}

#[test]
fn the_hash_covers_the_state_and_nothing_else() {
    let files = [("a", "1"), ("d/e", "2")];
    let (one, other) = (Place::with(&files), Place::with(&[files[1], files[0]]));
    let hash = one.snapshot().state().hash();
    other.set_mode("a", 0o600);
    fs::create_dir(other.at("empty")).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    fs::File::open(other.at("a")).unwrap().set_modified(old).unwrap();
    assert_eq!(other.snapshot().state().hash(), hash);
    other.set_mode("a", 0o700);
    assert_ne!(other.snapshot().state().hash(), hash);
}

#[test]
fn an_unchanged_tree_is_not_read_again() {
    let place = Place::with(&[("a", "1"), ("d/b", "22"), ("d/c", "333")]);
    let first = place.snapshot();
    assert_eq!((first.tally().read_files, first.tally().read_bytes), (3, 6));
    // Files that are as young as the cache are read until they are older than it.
    settle(&place);
    place.snapshot();
    let again = place.snapshot();
    assert_eq!((again.tally().entries, again.tally().read_files), (3, 0));
    assert_eq!(again.state(), first.state());
    place.write("d/c", "444");
    let changed = place.snapshot();
    assert_eq!(changed.tally().read_files, 1);
    assert_ne!(changed.state().hash(), first.state().hash());
    fs::remove_file(place.at("a")).unwrap();
    assert_eq!(place.paths(), ["d/b", "d/c"]);
}

/// Waits until the file system's clock has left the granule in which the files were written.
fn settle(place: &Place) {
    let probe = place.at(".crealeph/probe");
    let newest = ["a", "d/b", "d/c"].map(|file| {
        let data = fs::metadata(place.at(file)).unwrap();
        (data.ctime(), data.ctime_nsec())
    });
    let newest = newest.into_iter().max().unwrap();
    loop {
        fs::write(&probe, "").unwrap();
        let data = fs::metadata(&probe).unwrap();
        fs::remove_file(&probe).unwrap();
        if (data.ctime(), data.ctime_nsec()) > newest {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_edit_of_the_same_size_and_time_is_found_however_soon_it_comes() {
    let place = Place::on_disk();
    place.write("a", "0000");
    let mut last = place.snapshot().state().hash();
    for round in 1..500 {
        let time = fs::metadata(place.at("a")).unwrap().modified().unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(place.at("a")).unwrap();
        std::io::Write::write_all(&mut file, format!("{round:04}").as_bytes()).unwrap();
        file.set_modified(time).unwrap();
        let now = place.snapshot().state().hash();
        assert_ne!(now, last, "round {round}");
        last = now;
    }
}

#[test]
fn a_damaged_cache_is_no_cache() {
    let place = Place::with(&[("a", "1")]);
    let hash = place.snapshot().state().hash();
    for damage in [&b""[..], b"crealeph-cache-v1\n", &[0xff; 1000]] {
        fs::write(place.at(".crealeph/state-cache"), damage).unwrap();
        assert_eq!(place.snapshot().state().hash(), hash);
    }
    fs::remove_file(place.at(".crealeph/state-cache")).unwrap();
    fs::create_dir(place.at(".crealeph/state-cache")).unwrap();
    assert_eq!(place.snapshot().state().hash(), hash);
}

#[test]
// holds: invariant 3
fn a_limit_error_says_how_to_raise_the_limit() {
    let place = Place::with(&[("a", ""), ("b", ""), ("d/e/f", "")]);
    place.write(".gitignore", "# long\n");
    let said = |limits: ScanLimits| match Workspace::open_with(place.path(), limits).unwrap().snapshot() {
        Err(SnapshotError::Scan(error @ ScanError::TooMuch { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(said(ScanLimits { max_files: 2, ..ScanLimits::default() }).contains("limit of 2 files"));
    let deep = said(ScanLimits { max_depth: 1, ..ScanLimits::default() });
    assert!(deep.starts_with("`d/e` exceeds") && deep.ends_with("raise `max_depth`"), "{deep}");
    let long = said(ScanLimits { max_ignore_file_bytes: 3, ..ScanLimits::default() });
    assert!(long.contains("`.gitignore`") && long.contains("max_ignore_file_bytes"), "{long}");
}

#[test]
fn a_workspace_may_be_read_by_many_at_once() {
    let place = Place::with(&[("a", "1"), ("b/c", "2")]);
    let hash = place.snapshot().state().hash();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8).map(|_| scope.spawn(|| place.snapshot().state().hash())).collect();
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), hash));
    });
}

#[test]
fn the_control_folder_is_no_link_and_hides_from_git() {
    let place = Place::with(&[("a", "1")]);
    place.workspace();
    assert_eq!(fs::read_to_string(place.at(".crealeph/.gitignore")).unwrap(), "*\n");
    let tricked = Place::new();
    tricked.link(".crealeph", "elsewhere");
    let error = Workspace::open(tricked.path()).unwrap_err().to_string();
    assert!(error.contains(".crealeph") && error.contains("not a folder"), "{error}");
    assert!(Workspace::open(&place.at("missing")).is_err());
}

#[test]
fn ten_thousand_files_in_a_thousand_folders() {
    let place = Place::new();
    for folder in 0..1000 {
        fs::create_dir_all(place.at(&format!("d{}/e{folder}", folder % 10))).unwrap();
        for file in 0..10 {
            fs::write(place.at(&format!("d{}/e{folder}/f{file}", folder % 10)), format!("{folder}.{file}"))
                .unwrap();
        }
    }
    let snapshot = place.snapshot();
    assert_eq!(snapshot.state().len(), 10_000);
    assert_eq!(place.snapshot().state(), snapshot.state());
}
