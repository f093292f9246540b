//! Which files are ignored, and that nothing outside the workspace and no nested repository changes that.

use std::fs;

use crate::place::{Place, path};

#[test]
fn ignored_files_are_no_part_of_a_state() {
    let place = Place::with(&[
        (".gitignore", "*.log\n/target/\n!keep.log\n"),
        ("a.log", "x"),
        ("keep.log", "x"),
        ("target/debug/x", "x"),
        ("d/b.log", "x"),
        ("d/.gitignore", "!b.log\nc\n"),
        ("d/c", "x"),
        ("c", "x"),
    ]);
    assert_eq!(place.paths(), [".gitignore", "c", "d/.gitignore", "d/b.log", "keep.log"]);
    let before = place.snapshot().state().hash();
    place.write("target/debug/y", "new");
    place.write("d/c", "other");
    assert_eq!(place.snapshot().state().hash(), before);
}

#[test]
fn a_tracked_file_is_never_ignored() {
    let place = Place::with(&[
        (".gitignore", "*.log\nbuild/\nvendor\n"),
        ("a.log", "x"),
        ("b.log", "x"),
        ("build/keep/me", "x"),
        ("build/keep/not-me", "x"),
        ("build/other", "x"),
        ("vendor/lib.c", "x"),
    ]);
    place.track("", &["a.log", "build/keep/me", "vendor/lib.c", "gone.log"]);
    assert_eq!(place.paths(), [".gitignore", "a.log", "build/keep/me", "vendor/lib.c"]);
    let snapshot = place.snapshot();
    for (file, is_ignored) in [
        ("a.log", false),
        ("b.log", true),
        ("build/keep/me", false),
        ("build/keep/x", true),
        ("gone.log", false),
    ] {
        assert_eq!(snapshot.ignores(&path(file)), is_ignored, "{file}");
    }
}

#[test]
fn editing_an_ignore_file_cannot_hide_a_tracked_file() {
    let place = Place::with(&[("src/a.rs", "1"), ("src/b.rs", "1")]);
    place.track("", &["src/a.rs", "src/b.rs"]);
    place.write(".gitignore", "*\n");
    place.write("src/.gitignore", "*\n");
    assert_eq!(place.paths(), ["src/a.rs", "src/b.rs"]);
}

#[test]
fn rules_from_outside_the_workspace_do_not_count() {
    let outer = Place::with(&[(".gitignore", "*.log\ninner/x\n"), ("inner/a.log", "x"), ("inner/x", "x")]);
    outer.track("", &[]);
    fs::create_dir_all(outer.at(".git/info")).unwrap();
    outer.write(".git/info/exclude", "*\n");
    assert_eq!(outer.paths(), [".gitignore"]);
    let inner = crealeph_workspace::Workspace::open(&outer.at("inner")).unwrap();
    let paths: Vec<String> =
        inner.snapshot().unwrap().state().entries().keys().map(ToString::to_string).collect();
    assert_eq!(paths, ["a.log", "x"]);
}

#[test]
fn a_workspace_inside_a_repository_knows_what_it_tracks() {
    let outer = Place::with(&[("inner/.gitignore", "*.log\n"), ("inner/a.log", "x"), ("inner/b.log", "x")]);
    outer.track("", &["inner/a.log"]);
    let inner = crealeph_workspace::Workspace::open(&outer.at("inner")).unwrap();
    let paths: Vec<String> =
        inner.snapshot().unwrap().state().entries().keys().map(ToString::to_string).collect();
    assert_eq!(paths, [".gitignore", "a.log"]);
}

#[test]
fn a_nested_repository_has_its_own_rules_and_its_own_index() {
    let place = Place::with(&[
        (".gitignore", "*.log\nignored/\n"),
        ("nested/a.log", "x"),
        ("nested/.gitignore", "*.tmp\n"),
        ("nested/t.tmp", "x"),
        ("nested/u.tmp", "x"),
        ("ignored/repo/tracked", "x"),
        ("plain/.git/no-repository", "x"),
        ("plain/b.log", "x"),
        ("plain/c", "x"),
    ]);
    place.track("nested", &["t.tmp"]);
    place.track("ignored/repo", &["tracked"]);
    let expected = [".gitignore", "nested/.gitignore", "nested/a.log", "nested/t.tmp", "plain/c"];
    assert_eq!(place.paths(), expected);
    let snapshot = place.snapshot();
    for (file, is_ignored) in [("nested/x.log", false), ("nested/x.tmp", true), ("plain/x.log", true)] {
        assert_eq!(snapshot.ignores(&path(file)), is_ignored, "{file}");
    }
}

#[test]
fn a_submodule_is_part_of_the_state_even_in_an_ignored_folder() {
    let place = Place::with(&[
        (".gitignore", "third-party/\n"),
        ("third-party/sub/lib.c", "x"),
        ("third-party/sub/.git", "gitdir: ../../.git/modules/sub\n"),
        ("third-party/other", "x"),
    ]);
    place.track("", &["third-party/sub"]);
    let module = place.at(".git/modules/sub");
    fs::create_dir_all(&module).unwrap();
    fs::write(module.join("HEAD"), "x").unwrap();
    assert_eq!(place.paths(), [".gitignore", "third-party/sub/lib.c"]);
}

#[test]
fn a_git_worktree_has_the_index_of_its_own() {
    let main = Place::with(&[("a.log", "x")]);
    main.track("", &["a.log"]);
    let tree = Place::with(&[(".gitignore", "*.log\n"), ("a.log", "x"), ("b.log", "x")]);
    let own = main.at(".git/worktrees/w");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("HEAD"), "x").unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    fs::write(own.join("index"), crate::place::index(&["b.log"])).unwrap();
    tree.write(".git", &format!("gitdir: {}\n", own.display()));
    assert_eq!(tree.paths(), [".gitignore", "b.log"]);
}

#[test]
fn an_ignore_file_that_is_a_link_has_no_rules() {
    let place = Place::with(&[("rules", "*.log\n"), ("a.log", "x")]);
    place.link(".gitignore", "rules");
    assert_eq!(place.paths(), [".gitignore", "a.log", "rules"]);
}

#[test]
fn the_index_beats_ignored_folders_that_became_links() {
    let place = Place::with(&[(".gitignore", "out/\n"), ("real/x", "x")]);
    place.link("out", "real");
    place.track("", &["out/x"]);
    // A link is not a folder, so the rule does not match it, and nothing is reached through it.
    assert_eq!(place.paths(), [".gitignore", "out", "real/x"]);
}
