//! Parallel changes (R30): what a conflict is, which items overlap, how two changes combine, and which part of a change is an
//! item's own. Knows a change only by its paths and by whether two contents of a path are the same.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::scalar::ItemId;

/// A change at one path; `N` is the type of its content.
#[derive(Debug, PartialEq, Eq)]
pub struct PathEdit<'c, P, N> {
    /// Where.
    pub path: &'c P,
    /// What was there.
    pub before: Option<&'c N>,
    /// What is there afterwards.
    pub after: Option<&'c N>,
}

impl<P, N> Clone for PathEdit<'_, P, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, N> Copy for PathEdit<'_, P, N> {}

/// Why a change cannot land in addition to others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeConflict {
    /// An earlier item of the level changed the same path.
    #[error("Conflict: `{path}` was changed by item `{item}` of the same level; let one depend on the other")]
    SameLevel {
        /// The path.
        path: String,
        /// The earlier item.
        item: ItemId,
    },
    /// The path is not as the change expects it.
    #[error("Conflict: someone else changed `{path}` meanwhile; run again")]
    Moved {
        /// The path.
        path: String,
    },
}

/// A conflict with an earlier item of the level; `touched` says which item changed a path.
pub fn level_conflict<P: Ord + ToString, N>(
    edits: &[PathEdit<'_, P, N>],
    touched: &BTreeMap<P, ItemId>,
) -> Option<ChangeConflict> {
    edits.iter().find_map(|edit| {
        let item = touched.get(edit.path)?.clone();
        Some(ChangeConflict::SameLevel { path: edit.path.to_string(), item })
    })
}

/// The paths of a change that are not as it expects them. `now` gives the content of a path; a path that `is_ignored` is in no state,
/// and is compared when it is published.
pub fn moved<'c, 'n, P, N: PartialEq + 'n>(
    edits: &[PathEdit<'c, P, N>],
    now: impl Fn(&P) -> Option<&'n N>,
    is_ignored: impl Fn(&P) -> bool,
) -> impl Iterator<Item = &'c P> {
    let moved = edits.iter().filter(move |edit| !is_ignored(edit.path) && now(edit.path) != edit.before);
    moved.map(|edit| edit.path)
}

/// A conflict with the workspace as it is now: the first of the paths that have [`moved`].
pub fn base_conflict<'n, P: ToString, N: PartialEq + 'n>(
    edits: &[PathEdit<'_, P, N>],
    now: impl Fn(&P) -> Option<&'n N>,
    is_ignored: impl Fn(&P) -> bool,
) -> Option<ChangeConflict> {
    let path = moved(edits, now, is_ignored).next()?.to_string();
    Some(ChangeConflict::Moved { path })
}

/// Two changes combined, the second on top of the first, sorted by path. A path that ends as it started is left out.
pub fn combined<'c, P: Ord, N: PartialEq>(
    first: &[PathEdit<'c, P, N>],
    second: &[PathEdit<'c, P, N>],
) -> Vec<PathEdit<'c, P, N>> {
    let mut all: BTreeMap<&P, PathEdit<'c, P, N>> = first.iter().map(|edit| (edit.path, *edit)).collect();
    for edit in second {
        let before = all.get(edit.path).map_or(edit.before, |known| known.before);
        all.insert(edit.path, PathEdit { before, ..*edit });
    }
    all.into_values().filter(|edit| edit.before != edit.after).collect()
}

/// What a run changed itself, beyond the changes that came before it, sorted by path. An earlier change that is gone from `all`
/// was undone by the run, unless `is_hidden` says that the run could not see it.
pub fn own_edits<'c, P: Ord, N: PartialEq>(
    all: &[PathEdit<'c, P, N>],
    earlier: &[PathEdit<'c, P, N>],
    is_hidden: impl Fn(&P) -> bool,
) -> Vec<PathEdit<'c, P, N>> {
    let known: BTreeMap<&P, &PathEdit<'c, P, N>> = earlier.iter().map(|edit| (edit.path, edit)).collect();
    let changed = all.iter().filter_map(|edit| match known.get(edit.path) {
        None => Some(*edit),
        Some(known) => (known.after != edit.after).then_some(PathEdit { before: known.after, ..*edit }),
    });
    let now: BTreeSet<&P> = all.iter().map(|edit| edit.path).collect();
    let undone = earlier
        .iter()
        .filter(|known| !now.contains(known.path) && known.before != known.after && !is_hidden(known.path));
    let undone = undone.map(|known| PathEdit { path: known.path, before: known.after, after: known.before });
    let mut own: Vec<PathEdit<'c, P, N>> = changed.chain(undone).collect();
    own.sort_by(|one, other| one.path.cmp(other.path));
    own
}

/// Two items of a level that declare the same output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOverlap {
    /// The first by id.
    pub one: ItemId,
    /// The second.
    pub other: ItemId,
    /// The path.
    pub path: String,
}

/// The first two items of a level that declare the same output: they could not both land.
pub fn output_overlap<'i>(
    level: impl IntoIterator<Item = (&'i ItemId, BTreeSet<String>)>,
) -> Option<OutputOverlap> {
    let mut owners: BTreeMap<String, &ItemId> = BTreeMap::new();
    for (item, outputs) in level {
        for path in outputs {
            if let Some(one) = owners.insert(path.clone(), item) {
                return Some(OutputOverlap { one: one.clone(), other: item.clone(), path });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    type Edit = PathEdit<'static, &'static str, u8>;

    /// The content of a path: nothing for `-`.
    fn node(letter: &str) -> Option<&'static u8> {
        letter.as_bytes().first().filter(|byte| **byte != b'-').map(|byte| &*Box::leak(Box::new(*byte)))
    }

    /// `a:x>y b:->z`: path, before and after.
    fn edits(text: &'static str) -> Vec<Edit> {
        let edit = |word: &'static str| {
            let (path, sides) = word.split_once(':').unwrap();
            let (before, after) = sides.split_once('>').unwrap();
            PathEdit { path: &*Box::leak(Box::new(path)), before: node(before), after: node(after) }
        };
        text.split_whitespace().map(edit).collect()
    }

    fn shown(edits: &[Edit]) -> String {
        let side = |node: Option<&u8>| node.map_or('-', |byte| char::from(*byte));
        let all =
            edits.iter().map(|edit| format!("{}:{}>{}", edit.path, side(edit.before), side(edit.after)));
        all.collect::<Vec<_>>().join(" ")
    }

    fn id(name: &str) -> ItemId {
        ItemId::parse(name).unwrap()
    }

    #[test]
    fn two_changes_combine_into_one() {
        for (first, second, both) in [
            ("a:x>y", "b:x>y", "a:x>y b:x>y"),
            ("b:->y", "a:x>-", "a:x>- b:->y"),
            ("a:x>y", "a:y>z", "a:x>z"),
            ("a:x>y", "a:y>x", ""),
            ("a:->y", "a:y>-", ""),
            ("a:x>-", "a:->x", ""),
            ("", "a:x>y", "a:x>y"),
            ("a:x>y", "", "a:x>y"),
        ] {
            assert_eq!(shown(&combined(&edits(first), &edits(second))), both, "{first} and {second}");
        }
    }

    #[test]
    fn earlier_changes_are_not_an_items_own() {
        for (all, earlier, own) in [
            ("a:x>y", "", "a:x>y"),
            ("a:x>y b:->z", "a:x>y", "b:->z"),
            ("a:x>z", "a:x>y", "a:y>z"),
            // Gone from the view: the run put it back as it was.
            ("b:x>y", "a:x>y", "a:y>x b:x>y"),
            ("", "a:->y", "a:y>-"),
            ("", "hidden:x>y", ""),
            ("", "a:x>x", ""),
        ] {
            let found = own_edits(&edits(all), &edits(earlier), |path| *path == "hidden");
            assert_eq!(shown(&found), own, "{all} after {earlier}");
        }
    }

    #[test]
    fn a_path_changed_in_the_same_level_or_by_someone_else_is_a_conflict() {
        let touched = BTreeMap::from([("b", id("first"))]);
        assert_eq!(level_conflict(&edits("a:x>y"), &touched), None);
        let conflict = level_conflict(&edits("a:x>y b:x>y"), &touched).unwrap();
        let expected =
            "Conflict: `b` was changed by item `first` of the same level; let one depend on the other";
        assert_eq!(conflict.to_string(), expected);
        let now = |path: &&str| if *path == "a" { node("x") } else { None };
        let conflict = |text| base_conflict(&edits(text), now, |path| *path == "ignored");
        assert_eq!(conflict("a:x>y new:->y ignored:q>r"), None);
        assert_eq!(conflict("a:z>y"), Some(ChangeConflict::Moved { path: "a".to_owned() }));
        assert_eq!(conflict("gone:x>y"), Some(ChangeConflict::Moved { path: "gone".to_owned() }));
        assert_eq!(
            conflict("a:->y").unwrap().to_string(),
            "Conflict: someone else changed `a` meanwhile; run again"
        );
    }

    #[test]
    fn outputs_that_two_items_declare_overlap() {
        let (a, b, c) = (id("a"), id("b"), id("c"));
        let outputs = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>();
        let apart = [(&a, outputs(&["x", "y"])), (&b, outputs(&["z"])), (&c, outputs(&[]))];
        assert_eq!(output_overlap(apart), None);
        let same = [(&a, outputs(&["x"])), (&b, outputs(&["z"])), (&c, outputs(&["w", "x"]))];
        let expected = OutputOverlap { one: a.clone(), other: c.clone(), path: "x".to_owned() };
        assert_eq!(output_overlap(same), Some(expected));
    }
}
