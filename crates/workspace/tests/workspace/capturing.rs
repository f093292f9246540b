//! Which of a view's changes count, which are discarded, and which are refused (R26, R27).

use std::fs;

use crealeph_workspace::{
    Capsule, CaptureError, ChangeKind, Deadline, Hidden, ScanLimits, TreeNode, ViewChanges, Workspace,
};
use rustix::fs::{CWD, FileType, Mode};

use crate::place::{Place, path};
use crate::view::View;

/// The result for a view of a workspace after a test has changed it.
fn captured(place: &Place, change: impl FnOnce(&View)) -> Result<Capsule, CaptureError> {
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    let view = View::of(place);
    change(&view);
    let capsule = workspace.capture(&before, &view.changes(place))?;
    // The view is gone when the test looks.
    workspace.keep_contents(&capsule).unwrap();
    Ok(capsule)
}

fn reported(capsule: &Capsule) -> Vec<(String, ChangeKind)> {
    capsule.changes().iter().map(|change| (change.path.to_string(), change.kind())).collect()
}

fn expect(capsule: &Capsule, expected: &[(&str, ChangeKind)]) {
    let expected: Vec<(String, ChangeKind)> =
        expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect();
    assert_eq!(reported(capsule), expected);
}

#[test]
fn every_kind_of_change() {
    let place = Place::with(&[
        ("content", "1"),
        ("mode", "1"),
        ("gone", "1"),
        ("becomes-link", "1"),
        ("becomes-folder", "1"),
        ("becomes-file/a", "1"),
        ("becomes-file/b/c", "1"),
        ("folder-gone/a", "1"),
        ("same", "1"),
    ]);
    place.link("link", "same");
    let capsule = captured(&place, |view| {
        view.place.write("content", "2");
        view.place.set_mode("mode", 0o755);
        view.remove("gone");
        view.remove("becomes-link");
        view.place.link("becomes-link", "same");
        view.remove("becomes-folder");
        view.place.write("becomes-folder/x", "2");
        view.remove("becomes-file");
        view.place.write("becomes-file", "2");
        view.remove("folder-gone");
        view.remove("link");
        view.place.link("link", "content");
        view.place.write("new/deep/file", "");
        fs::create_dir(view.place.at("empty")).unwrap();
    })
    .unwrap();
    expect(
        &capsule,
        &[
            ("becomes-file", ChangeKind::Created),
            ("becomes-file/a", ChangeKind::Deleted),
            ("becomes-file/b/c", ChangeKind::Deleted),
            ("becomes-folder", ChangeKind::Deleted),
            ("becomes-folder/x", ChangeKind::Created),
            ("becomes-link", ChangeKind::Replaced),
            ("content", ChangeKind::Modified),
            ("folder-gone/a", ChangeKind::Deleted),
            ("gone", ChangeKind::Deleted),
            ("link", ChangeKind::Retargeted),
            ("mode", ChangeKind::Mode),
            ("new/deep/file", ChangeKind::Created),
        ],
    );
    let workspace = place.workspace();
    assert_eq!(capsule.before(), workspace.snapshot().unwrap().state().hash());
    for change in capsule.changes() {
        if let Some(TreeNode::File { digest, size_bytes, .. }) = &change.after {
            assert_eq!(workspace.store().read(digest, 10).unwrap().len() as u64, *size_bytes);
        }
    }
}

#[test]
fn ignored_changes_are_discarded_and_counted() {
    let place = Place::with(&[(".gitignore", "target/\n*.log\n"), ("target/a", "1"), ("a.log", "1")]);
    let capsule = captured(&place, |view| {
        view.place.write("target/a", "2");
        view.place.write("target/deep/b", "2");
        view.remove("a.log");
        view.place.write("b", "2");
    })
    .unwrap();
    expect(&capsule, &[("b", ChangeKind::Created)]);
    assert_eq!(capsule.discarded().ignored, 3);
}

#[test]
fn writes_to_git_are_discarded_and_reported() {
    let place = Place::with(&[("a", "1"), (".git/HEAD", "x"), (".git/config", "x"), ("sub/.git", "x")]);
    let capsule = captured(&place, |view| {
        view.place.write(".git/index", "new");
        view.place.write(".git/objects/ab/cd", "new");
        view.remove("sub/.git");
    })
    .unwrap();
    expect(&capsule, &[]);
    let outside = capsule.discarded().outside.join(" ");
    for path in [".git/index", ".git/objects/ab/cd", "sub/.git"] {
        assert!(outside.contains(path), "{path} in {outside}");
    }
    assert_eq!(capsule.after().hash(), capsule.before());
}

/// A file or link that a run leaves, and the denial.
#[test]
fn paths_that_outside_programs_read_as_their_own_are_denied() {
    let written: [(&str, &str); 21] = [
        (".git/config", ".git/config"),
        (".git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("sub/.git", "sub/.git"),
        ("d/.git/HEAD", "d/.git (git would take it for a repository)"),
        ("d/.git", "d/.git (git would take it for a repository)"),
        (".GIT/config", ".GIT/config (it may be read as `.git`)"),
        ("d/git~1/x", "d/git~1/x (it may be read as `.git`)"),
        (".git./x", ".git./x (it may be read as `.git`)"),
        (".g\u{200c}it/x", ".g\u{200c}it/x (it may be read as `.git`)"),
        ("a\\b", "a\\b (a new name must not hold a backslash)"),
        ("d/.Crealeph/x", "d/.Crealeph/x (it may be read as `.crealeph`)"),
        (".hg/hgrc", ".hg/hgrc"),
        ("d/.svn/wc.db", "d/.svn/wc.db"),
        (".JJ/x", ".JJ/x (it may be read as `.jj`)"),
        ("GITMOD~1", "GITMOD~1 (it may be read as `.gitmodules`)"),
        ("bare/HEAD", "bare/HEAD (git would take `bare` for a bare repository)"),
        ("almost/refs/x", "almost/refs/x (git would take `almost` for a bare repository)"),
        ("ignored/refs/x", "ignored/refs/x (git would take `ignored` for a bare repository)"),
        ("common/head", "common/head (git would take `common` for a bare repository)"),
        ("real/config", "real/config"),
        ("real/hooks/x", "real/hooks/x"),
    ];
    let place = Place::with(&[
        ("a", "1"),
        ("sub/.git", "gitdir: ../real\n"),
        ("bare/refs/x", "1"),
        ("bare/objects/x", "1"),
        ("almost/HEAD", "1"),
        ("common/commondir", "../bare"),
        ("real/HEAD", "ref: refs/heads/main\n"),
        ("ignored/HEAD", "1"),
        (".gitignore", "built\nHEAD\n!/almost/HEAD\n!/bare/HEAD\n!/real/HEAD\n"),
    ]);
    for folder in ["almost/objects", "ignored/objects", "folder/HEAD", "folder/objects"] {
        std::fs::create_dir_all(place.at(folder)).unwrap();
    }
    std::fs::create_dir(place.at(".git")).unwrap();
    for (path, reason) in written {
        if path.starts_with("real/") {
            std::fs::remove_dir(place.at(".git")).unwrap();
            place.write(".git", "gitdir: real\n");
        }
        let denied = captured(&place, |view| view.place.write(path, "evil")).unwrap_err();
        assert_eq!(denied.to_string(), format!("Denied path: {reason}"), "{path:?}");
        if path.starts_with("real/") {
            std::fs::remove_file(place.at(".git")).unwrap();
            std::fs::create_dir(place.at(".git")).unwrap();
        }
    }
    // An ignored folder called HEAD makes no repository.
    captured(&place, |view| view.place.write("folder/refs/x", "fine")).unwrap();
    let built = captured(&place, |view| view.place.write("built/dependency/.git/HEAD", "x")).unwrap();
    expect(&built, &[]);
}

#[test]
fn a_link_into_a_guarded_folder_is_denied_however_it_gets_there() {
    let place = Place::with(&[("a", "1"), (".git/HEAD", "x"), ("d/e/f", "1"), (".gitignore", "ignored\n")]);
    place.link("own", ".git");
    place.link("ignored", ".git/hooks");
    for (path, target) in [
        ("l", ".git"),
        ("l", "./.git/hooks/pre-commit"),
        ("d/l", "../.git/config"),
        ("d/e/l", "../..//.GIT"),
        ("l", "own/hooks"),
        ("l", "ignored"),
        ("l", ".crealeph/runs"),
        ("l", ".hg"),
        ("l", "git~1"),
        (".gitmodules", "a"),
        ("d/.gitattributes", "e/f"),
    ] {
        let denied = captured(&place, |view| {
            view.place.link(path, target);
        });
        let denied = denied.unwrap_err().to_string();
        assert!(denied.starts_with(&format!("Denied path: {path} (")), "{path} -> {target}: {denied}");
    }
    // Through two links that are both new. A cycle leads nowhere.
    let two = |one: &str, other: &str| {
        captured(&place, |view| {
            view.place.link("m", one);
            view.place.link("n", other);
        })
    };
    assert!(two("n", "own").unwrap_err().to_string().starts_with("Denied path: m ("));
    assert!(two("n", "m").is_ok());
    let fine = captured(&place, |view| {
        view.place.link("d/e/l", "../../a");
        view.place.link("gitk", "d/e");
    });
    expect(&fine.unwrap(), &[("d/e/l", ChangeKind::Created), ("gitk", ChangeKind::Created)]);
}

#[test]
fn an_ignore_file_edited_to_hide_work_does_not_hide_it() {
    let place = Place::with(&[(".gitignore", "*.log\n"), ("src/a", "1"), ("untouched", "1")]);
    let capsule = captured(&place, |view| {
        view.place.write(".gitignore", "*\n");
        view.place.write("src/a", "2");
        view.place.write("hidden", "evil");
        view.place.write("hidden.log", "evil");
        view.place.write("own/.gitignore", "*\n");
        view.place.write("own/hidden", "evil");
    })
    .unwrap();
    expect(
        &capsule,
        &[
            (".gitignore", ChangeKind::Modified),
            ("hidden", ChangeKind::Created),
            ("own/.gitignore", ChangeKind::Created),
            ("own/hidden", ChangeKind::Created),
            ("src/a", ChangeKind::Modified),
        ],
    );
    assert!(capsule.after().is_empty(), "the rules after the run ignore everything");
}

#[test]
fn files_that_an_ignore_file_no_longer_hides_are_captured() {
    let place = Place::with(&[
        (".gitignore", "build/\n"),
        ("build/old", "1"),
        ("build/.gitignore", "tmp\n"),
        ("build/changed", "1"),
        ("build/tmp", "1"),
    ]);
    let capsule = captured(&place, |view| {
        view.remove(".gitignore");
        view.place.write("build/changed", "2");
        view.place.write("build/new", "2");
        view.place.write("build/tmp", "2");
    })
    .unwrap();
    expect(
        &capsule,
        &[
            (".gitignore", ChangeKind::Deleted),
            ("build/changed", ChangeKind::Modified),
            ("build/new", ChangeKind::Created),
        ],
    );
    let entries = capsule.after().entries();
    let paths: Vec<&str> = entries.keys().map(|path| path.as_str()).collect();
    assert_eq!(paths, ["build/.gitignore", "build/changed", "build/new", "build/old"]);
}

#[test]
fn deleting_everything_spares_what_is_ignored() {
    let place = Place::with(&[(".gitignore", "target/\n"), ("target/a", "1"), ("src/a", "1"), ("b", "1")]);
    let capsule = captured(&place, |view| {
        [".gitignore", "src", "b", "target"].iter().for_each(|path| view.remove(path));
    })
    .unwrap();
    // Without its rules the folder they hid would count, so the run itself removed its files.
    expect(
        &capsule,
        &[
            (".gitignore", ChangeKind::Deleted),
            ("b", ChangeKind::Deleted),
            ("src/a", ChangeKind::Deleted),
            ("target/a", ChangeKind::Deleted),
        ],
    );
    let kept =
        captured(&place, |view| ["src", "b", "target"].iter().for_each(|path| view.remove(path))).unwrap();
    expect(&kept, &[("b", ChangeKind::Deleted), ("src/a", ChangeKind::Deleted)]);
}

#[test]
fn removed_rules_that_never_applied_do_not_come_into_force() {
    // Tracked files in an ignored folder count, but its ignore file does not apply; then all of it is removed.
    let place = Place::with(&[(".gitignore", "*\n"), ("i/.gitignore", "*\n"), ("i/j", "1")]);
    place.track("", &[".gitignore", "i/.gitignore"]);
    let capsule =
        captured(&place, |view| [".gitignore", "i"].iter().for_each(|path| view.remove(path))).unwrap();
    let deleted = |path| (path, ChangeKind::Deleted);
    expect(&capsule, &[deleted(".gitignore"), deleted("i/.gitignore"), deleted("i/j")]);
}

#[test]
fn an_ignore_file_in_force_is_published_even_if_it_ignores_itself() {
    let place = Place::with(&[(".gitignore", "*\n"), ("i/.gitignore", "x\n"), ("i/j", "1")]);
    let capsule = captured(&place, |view| {
        view.remove(".gitignore");
        view.place.write("i/.gitignore", "*\n");
    })
    .unwrap();
    expect(&capsule, &[(".gitignore", ChangeKind::Deleted), ("i/.gitignore", ChangeKind::Modified)]);
    assert!(capsule.after().is_empty());
    let workspace = place.workspace();
    workspace.prepare(&capsule).unwrap().publish().map(drop).unwrap();
    assert_eq!(workspace.snapshot().unwrap().state(), capsule.after());
}

#[test]
fn a_tracked_file_counts_whatever_ignores_it() {
    let place = Place::with(&[(".gitignore", "gen/\n"), ("gen/tracked", "1"), ("gen/other", "1")]);
    place.track("", &["gen/tracked"]);
    let capsule = captured(&place, |view| {
        view.place.write("gen/tracked", "2");
        view.place.write("gen/other", "2");
    })
    .unwrap();
    expect(&capsule, &[("gen/tracked", ChangeKind::Modified)]);
}

#[test]
fn unsupported_files_are_refused_by_path() {
    let place = Place::with(&[(".gitignore", "ignored/\n"), ("a", "1")]);
    let error = captured(&place, |view| {
        view.place.link("escape", "/etc/passwd");
        view.place.set_mode("a", 0o4755);
        fs::create_dir(view.place.at("ignored")).unwrap();
        for pipe in ["pipe", "ignored/pipe"] {
            rustix::fs::mknodat(CWD, view.place.at(pipe), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
                .unwrap();
        }
    })
    .unwrap_err()
    .to_string();
    for reported in ["`a` has a setuid", "`escape` is a link to `/etc/passwd`", "`pipe` is a FIFO"] {
        assert!(error.contains(reported), "{reported} in {error}");
    }
    assert!(!error.contains("ignored"), "{error}");
}

#[test]
fn nothing_is_read_through_a_link() {
    let place = Place::with(&[("d/a", "1"), ("e/a", "secret")]);
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    let view = View::of(&place);
    view.remove("d");
    view.place.link("d", "e");
    let mut changes = view.changes(&place);
    // A view that names a path behind the link, as a careless one might.
    changes.present.push("d/a".into());
    let capsule = workspace.capture(&before, &changes).unwrap();
    expect(&capsule, &[("d", ChangeKind::Created), ("d/a", ChangeKind::Deleted)]);
    assert!(matches!(capsule.after().get(&path("d")), Some(TreeNode::Symlink { .. })));
}

/// How many contents the store of a workspace holds.
fn stored(place: &Place) -> usize {
    let folders = std::fs::read_dir(place.at(".crealeph/objects")).unwrap();
    folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
}

#[test]
fn contents_stay_in_the_view_until_they_are_kept_and_can_be_taken_back() {
    let place = Place::with(&[("a", "1")]);
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    let view = View::of(&place);
    view.place.write("b", "two");
    let capsule = workspace.capture(&before, &view.changes(&place)).unwrap();
    assert_eq!(stored(&place), 0);
    // Yet they are found, as long as the capsule lives.
    let diff = workspace.unified(capsule.changes(), 1 << 20, Deadline::NEVER).unwrap();
    assert!(diff.contains("+two"), "{diff}");
    let mut added = workspace.keep_contents(&capsule).unwrap();
    added.extend(workspace.keep(before.state()).unwrap());
    added.extend(workspace.keep_after(before.state(), capsule.after(), Hidden::NOTHING).unwrap());
    assert_eq!(stored(&place), 2);
    assert!(workspace.kept(capsule.after().hash()).is_ok());
    workspace.take_back(added).unwrap();
    assert_eq!(stored(&place), 0);
    assert!(workspace.kept(capsule.after().hash()).is_err());
    assert!(workspace.kept(before.state().hash()).is_err());
}

#[test]
fn a_large_change_is_counted_and_measured_but_not_read() {
    let place = Place::with(&[("same", "1"), ("longer", "1"), ("other", "1"), ("gone", "1")]);
    place.link("link", "same");
    place.link("turned", "same");
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    let view = View::of(&place);
    view.remove("turned");
    view.place.link("turned", "other");
    for (path, text) in [("same", "1"), ("longer", "22"), ("other", "2")] {
        view.place.write(path, text);
    }
    view.remove("gone");
    // A hole that would take hours to read.
    let hole = std::fs::File::create(view.place.at("hole")).unwrap();
    hole.set_len(1 << 42).unwrap();
    let touched = ViewChanges {
        folder: view.place.path().to_owned(),
        gone: vec!["gone".into()],
        present: ["same", "longer", "other", "hole", "link", "turned"].map(Into::into).to_vec(),
    };
    let mut listing = workspace.list(&before, &touched, Deadline::NEVER).unwrap();
    let surveyed = listing.survey(&[]).unwrap();
    let reported: Vec<_> =
        surveyed.iter().map(|one| (one.path.as_str(), one.size_bytes, one.deltas)).collect();
    let expected = [
        ("gone", 0, Some(1)),
        ("hole", 1 << 42, Some(1)),
        ("longer", 2, None),
        ("other", 1, None),
        ("turned", 5, Some(1)),
    ];
    assert_eq!(reported, expected);
    let is_over = || true;
    let stopped = workspace.list(&before, &touched, Deadline::when(&is_over));
    assert!(matches!(stopped, Err(CaptureError::Stopped)));
}

#[test]
fn a_change_after_which_the_workspace_could_not_be_read_is_refused() {
    let deep = |count: usize| format!("{}file", "d/".repeat(count));
    let place = Place::with(&[("a", "1")]);
    assert!(captured(&place, |view| view.place.write(&deep(200), "x")).is_ok());
    let refused = captured(&place, |view| view.place.write(&deep(201), "x"));
    assert!(matches!(refused, Err(CaptureError::Refused(_))), "{refused:?}");
    let limits = ScanLimits { max_files: 2, ..ScanLimits::default() };
    let workspace = Workspace::open_with(place.path(), limits).unwrap();
    let before = workspace.snapshot().unwrap();
    let view = View::of(&place);
    view.place.write("b", "2");
    assert!(workspace.capture(&before, &view.changes(&place)).is_ok());
    view.place.write("c", "3");
    let refused = workspace.capture(&before, &view.changes(&place));
    assert!(matches!(refused, Err(CaptureError::TooMany { files: 3, limit: 2 })), "{refused:?}");
}
