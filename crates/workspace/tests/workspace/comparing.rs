//! Deltas (R28): how many a change has, and where.

use crealeph_workspace::{Deadline, DeltaError, Deltas, changes_between, copy_state};

use crate::place::Place;

/// The deltas from one content of the file `a` to another, as `line-removed+added`.
fn deltas(before: &str, after: &str) -> Vec<String> {
    let place = Place::with(&[("a", before)]);
    reported(&between(&place, |place| place.write("a", after)))
}

fn between(place: &Place, change: impl FnOnce(&Place)) -> Deltas {
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    workspace.keep(before.state()).unwrap();
    change(place);
    let after = workspace.snapshot().unwrap();
    let changes = changes_between(before.state(), after.state());
    let deltas = workspace.deltas(&changes, Deadline::NEVER).unwrap();
    assert_eq!(deltas.total, deltas.listed.len() as u64);
    deltas
}

fn reported(deltas: &Deltas) -> Vec<String> {
    let reported = deltas.listed.iter().map(|delta| match (&delta.line, &delta.removed, &delta.added) {
        (Some(line), Some(removed), Some(added)) => {
            format!("{}-{}+{}", line.get(), removed.get(), added.get())
        }
        _ => delta.path.as_str().to_owned(),
    });
    reported.collect()
}

#[test]
fn one_delta_per_hunk() {
    assert_eq!(deltas("1\n2\n3\n4\n5\n", "1\nx\n3\n4\ny\n"), ["2-1+1", "5-1+1"]);
    assert_eq!(deltas("1\n2\n3\n", "1\n2\n3\n4\n5\n"), ["4-0+2"]);
    assert_eq!(deltas("1\n2\n3\n", "0\n1\n2\n3\n"), ["1-0+1"]);
    assert_eq!(deltas("1\n2\n3\n", "1\n3\n"), ["2-1+0"]);
    assert_eq!(deltas("1\n", ""), ["1-1+0"]);
    assert_eq!(deltas("", "1\n"), ["1-0+1"]);
    assert_eq!(deltas("1\n2", "1\n2\n"), ["2-1+1"]);
    assert_eq!(deltas("1\r\n2\n", "1\n2\n"), ["1-1+1"]);
}

#[test]
fn one_delta_for_a_file_that_is_not_text() {
    assert_eq!(deltas("1\n2\n\0", "x\n2\ny\n\0"), ["a"]);
    assert_eq!(deltas("1\n2\n3\n", "x\n2\ny\n\0"), ["a"]);
}

#[test]
fn one_delta_per_other_change() {
    let place = Place::with(&[("gone", "1\n2\n"), ("mode", "1\n"), ("both", "1\n2\n3\n"), ("kind", "1\n")]);
    place.link("link", "gone");
    let deltas = between(&place, |place| {
        std::fs::remove_file(place.at("gone")).unwrap();
        place.set_mode("mode", 0o755);
        place.write("both", "x\n2\ny\n");
        place.set_mode("both", 0o755);
        std::fs::remove_file(place.at("kind")).unwrap();
        place.link("kind", "mode");
        std::fs::remove_file(place.at("link")).unwrap();
        place.link("link", "mode");
        place.write("new", "1\n2\n3\n");
        place.write("empty", "");
    });
    assert_eq!(reported(&deltas), ["1-1+1", "3-1+1", "both", "empty", "gone", "kind", "link", "mode", "new"]);
}

#[test]
fn a_file_with_ten_thousand_hunks() {
    let before: String = (0..20_000).map(|line| format!("{line}\n")).collect();
    let after: String = (0..20_000)
        .map(|line| if line % 2 == 0 { format!("{line}\n") } else { format!("x{line}\n") })
        .collect();
    assert_eq!(deltas(&before, &after).len(), 10_000);
}

/// The changes as shown to a person, within a limit.
fn shown(place: &Place, max_bytes: usize, change: impl FnOnce(&Place)) -> String {
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    workspace.keep(before.state()).unwrap();
    change(place);
    let changes = changes_between(before.state(), workspace.snapshot().unwrap().state());
    workspace.unified(&changes, max_bytes, Deadline::NEVER).unwrap()
}

#[test]
fn every_kind_of_change_is_shown_as_git_shows_it() {
    let place = Place::with(&[
        ("binary", "\0"),
        ("gone", "1\n"),
        ("kind", "1\n"),
        ("mode", "1\n"),
        ("text", "1\n2\n"),
    ]);
    place.link("link", "gone");
    let text = shown(&place, 1 << 20, |place| {
        place.write("binary", "\0\0");
        std::fs::remove_file(place.at("gone")).unwrap();
        std::fs::remove_file(place.at("kind")).unwrap();
        place.link("kind", "mode");
        std::fs::remove_file(place.at("link")).unwrap();
        place.link("link", "mode");
        place.set_mode("mode", 0o755);
        place.write("new file", "1");
        place.write("qu\"o\\te\n\t\r\u{7f}", "");
        place.write("text", "1\n3\n");
    });
    let expected = [
        "diff --git a/binary b/binary",
        "Binary files a/binary and b/binary differ",
        "diff --git a/gone b/gone",
        "deleted file mode 100644",
        "--- a/gone",
        "+++ /dev/null",
        "@@ -1,1 +0,0 @@",
        "-1",
        "diff --git a/kind b/kind",
        "old mode 100644",
        "new mode 120000",
        "--- a/kind",
        "+++ b/kind",
        "@@ -1,1 +1,1 @@",
        "-1",
        "+mode",
        "\\ No newline at end of file",
        "diff --git a/link b/link",
        "--- a/link",
        "+++ b/link",
        "@@ -1,1 +1,1 @@",
        "-gone",
        "\\ No newline at end of file",
        "+mode",
        "\\ No newline at end of file",
        "diff --git a/mode b/mode",
        "old mode 100644",
        "new mode 100755",
        "diff --git a/new file b/new file",
        "new file mode 100644",
        "--- /dev/null",
        "+++ b/new file\t",
        "@@ -0,0 +1,1 @@",
        "+1",
        "\\ No newline at end of file",
        r#"diff --git "a/qu\"o\\te\n\t\r\177" "b/qu\"o\\te\n\t\r\177""#,
        "new file mode 100644",
        "diff --git a/text b/text",
        "--- a/text",
        "+++ b/text",
        "@@ -1,2 +1,2 @@",
        " 1",
        "-2",
        "+3",
        "",
    ];
    assert_eq!(text.split('\n').collect::<Vec<_>>(), expected);
}

#[test]
fn changes_past_the_limit_are_named_instead() {
    let place = Place::with(&[("long", "1\n")]);
    let text = shown(&place, 200, |place| {
        place.write("long", &"x\n".repeat(200));
        place.write("new", &"x\n".repeat(101));
        place.write("small", "1\n");
    });
    let expected = "diff --git a/new b/new\nnew file mode 100644\n# 202 bytes left out: over 200 bytes\n\
                    diff --git a/small b/small\nnew file mode 100644\n--- /dev/null\n+++ b/small\n@@ -0,0 +1,1 @@\n+1\n\
                    # 1 changed files left out, over 200 bytes:\n#   b/long\n";
    assert_eq!(text, expected);
}

#[test]
fn comparing_ends_when_its_time_is_up() {
    let place = Place::with(&[("a", "1\n")]);
    let workspace = place.workspace();
    let before = workspace.snapshot().unwrap();
    workspace.keep(before.state()).unwrap();
    place.write("a", "2\n");
    let changes = changes_between(before.state(), workspace.snapshot().unwrap().state());
    let over = Deadline::when(&|| true);
    assert!(matches!(workspace.unified(&changes, 1 << 20, over), Err(DeltaError::Stopped)));
    assert!(matches!(workspace.deltas(&changes, over), Err(DeltaError::Stopped)));
}

#[test]
fn a_state_is_copied_with_its_modes_and_links_and_nothing_else() {
    let place = Place::with(&[("d/a", "1"), ("run", "2"), ("skipped.log", "3"), (".gitignore", "*.log\n")]);
    place.set_mode("run", 0o755);
    place.link("d/l", "a");
    let snapshot = place.snapshot();
    let copy = Place::new();
    copy_state(snapshot.state(), place.path(), copy.path()).unwrap();
    assert_eq!(copy.snapshot().state().hash(), snapshot.state().hash());
    assert!(!copy.at("skipped.log").exists());
}
