//! Deltas (R28): how many a change has, and where.

use crealeph_workspace::{Deadline, Deltas, changes_between};

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
fn one_delta_for_what_is_no_text() {
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
