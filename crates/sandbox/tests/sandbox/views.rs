//! Copy-on-write views: the changes read from a view, applied to the lower tree, give exactly what the program
//! saw; the lower tree is never touched.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crealeph_sandbox::{Cut, Mount, Spec, Stdin, View, ViewChange, ViewChangeKind, ViewEntry, ViewMode};
use proptest::prelude::*;
use proptest::test_runner::{Config as PropConfig, TestRunner};

use crate::world::{Case, World, good, python, shell};

pub(crate) const CASES: &[Case] = &[
    Case("random_trees_and_operations", random_trees_and_operations),
    Case("random_trees_and_operations_copied", random_trees_and_operations_copied),
    Case("an_overlay_is_used_where_it_can_be", an_overlay_is_used_where_it_can_be),
    Case("runs_in_one_view_build_on_each_other", runs_in_one_view_build_on_each_other),
    Case("runs_in_one_view_build_on_each_other_copied", runs_in_one_view_build_on_each_other_copied),
    Case("what_is_below_is_not_touched", what_is_below_is_not_touched),
    Case("replaced_directories_are_what_they_are", replaced_directories_are_what_they_are),
    Case("what_was_only_touched_is_no_change", what_was_only_touched_is_no_change),
    Case("closed_modes_are_read_and_removed", closed_modes_are_read_and_removed),
    Case("forged_overlay_marks", forged_overlay_marks),
    Case("a_persons_edit_is_no_change_of_the_view", a_persons_edit_is_no_change_of_the_view),
    Case("deep_trees_are_bounded_and_removed", deep_trees_are_bounded_and_removed),
    Case("a_dropped_view_leaves_nothing", a_dropped_view_leaves_nothing),
    Case("copy_on_write_grants_are_forgotten", copy_on_write_grants_are_forgotten),
    Case("a_view_of_a_strange_path", a_view_of_a_strange_path),
];

type Tree = BTreeMap<String, String>;

/// Does what it reads on standard input, whatever fails, and prints the tree that it sees at the end.
const PROGRAM: &str = r#"
import sys, json, os, shutil, stat
for op in json.load(sys.stdin):
    name, a = op[0], op[1]
    b = op[2] if len(op) > 2 else None
    try:
        if name in ('write', 'append', 'open', 'rmtree', 'recreate') and os.path.exists(a) and stat.S_ISFIFO(os.stat(a).st_mode): continue
        if name == 'write': open(a, 'w').write(b)
        elif name == 'append': open(a, 'a').write(b)
        elif name == 'touch': os.utime(a)
        elif name == 'open': open(a, 'r+').close()
        elif name == 'truncate': os.truncate(a, 1)
        elif name == 'mkdir': os.mkdir(a)
        elif name == 'remove': os.remove(a)
        elif name == 'rmtree': shutil.rmtree(a)
        elif name == 'recreate': shutil.rmtree(a); os.mkdir(a)
        elif name == 'rename': os.rename(a, b)
        elif name == 'move': shutil.move(a, b)
        elif name == 'link': os.link(a, b)
        elif name == 'symlink': os.symlink(b, a)
        elif name == 'chmod': os.chmod(a, b | 0o500 if os.path.isdir(a) else b | 0o400)
        elif name == 'fifo': os.mkfifo(a)
        elif name == 'exchange':
            os.rename(a, a + '.x'); os.rename(b, a); os.rename(a + '.x', b)
        elif name == 'xattr': os.setxattr(a, 'user.note', b'x')
    except (OSError, shutil.Error): pass
seen = {}
for top, directories, files in os.walk('.'):
    for n in directories + files:
        path = os.path.relpath(os.path.join(top, n), '.')
        s = os.lstat(path); mode = '%o' % stat.S_IMODE(s.st_mode)
        if stat.S_ISLNK(s.st_mode): seen[path] = 'link ' + os.readlink(path)
        elif stat.S_ISDIR(s.st_mode): seen[path] = 'directory ' + mode
        elif stat.S_ISREG(s.st_mode): seen[path] = 'file ' + mode + ' ' + open(path).read()
        else: seen[path] = 'special ' + mode
json.dump(seen, sys.stdout)
"#;

fn describe(at: &Path, entry: &ViewEntry) -> String {
    match entry {
        ViewEntry::File { mode, .. } => format!("file {mode:o} {}", std::fs::read_to_string(at).unwrap()),
        ViewEntry::Directory { mode } => format!("directory {mode:o}"),
        ViewEntry::Symlink { target } => format!("link {}", target.display()),
        ViewEntry::Special { mode } => format!("special {mode:o}"),
    }
}

fn read_tree(root: &Path) -> Tree {
    fn walk(root: &Path, relative: &Path, tree: &mut Tree) {
        for entry in std::fs::read_dir(root.join(relative)).unwrap() {
            let path = relative.join(entry.unwrap().file_name());
            let at = root.join(&path);
            let metadata = std::fs::symlink_metadata(&at).unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let entry = if metadata.is_symlink() {
                ViewEntry::Symlink { target: std::fs::read_link(&at).unwrap() }
            } else if metadata.is_dir() {
                ViewEntry::Directory { mode }
            } else {
                ViewEntry::File { mode, size_bytes: metadata.len() }
            };
            tree.insert(path.to_str().unwrap().to_owned(), describe(&at, &entry));
            if metadata.is_dir() {
                walk(root, &path, tree);
            }
        }
    }
    let mut tree = Tree::new();
    walk(root, Path::new(""), &mut tree);
    tree
}

/// Applies changes in their order; every one must fit the current tree.
fn apply(tree: &mut Tree, view: &View, changes: &[ViewChange]) {
    for change in changes {
        let path = change.path.to_str().unwrap().to_owned();
        let parent = change.path.parent().unwrap().to_str().unwrap().to_owned();
        match change.kind {
            ViewChangeKind::Deleted => {
                assert!(!tree.keys().any(|k| k.starts_with(&format!("{path}/"))), "{path} is not empty");
                assert!(tree.remove(&path).is_some(), "{path} was not there");
            }
            ViewChangeKind::Created => {
                assert!(
                    parent.is_empty() || tree.get(&parent).is_some_and(|p| p.starts_with("directory")),
                    "{parent}"
                );
                assert!(
                    tree.insert(path.clone(), describe(&view.content(&change.path), &change.entry)).is_none(),
                    "{path}"
                );
            }
            ViewChangeKind::Modified | ViewChangeKind::Mode => {
                let now = describe(&view.content(&change.path), &change.entry);
                let before =
                    tree.insert(path.clone(), now.clone()).unwrap_or_else(|| panic!("{path} was not there"));
                assert_ne!(before, now, "{path} is the same");
            }
        }
    }
}

fn run_operations(world: &World, view: &View, operations: &[Operation]) -> Tree {
    let mut spec = python(PROGRAM);
    spec.limits.wall_ms = 20_000;
    spec.stdin = Stdin::Bytes(serde_json::to_vec(operations).unwrap());
    spec.views.push(Mount { view, at: "/work".into() });
    spec.cwd = Some("/work".into());
    serde_json::from_str(&good(&world.run(&spec))).unwrap()
}

type Operation = Vec<serde_json::Value>;

const PATHS: [&str; 14] =
    ["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/f", "g", "g/a", "g/h", "g/h/a", "link"];

fn path() -> impl Strategy<Value = String> {
    proptest::sample::select(&PATHS[..]).prop_map(str::to_owned)
}

fn operation() -> impl Strategy<Value = Operation> {
    use serde_json::json;
    let one = ["touch", "open", "truncate", "mkdir", "remove", "rmtree", "recreate", "fifo", "xattr"];
    let two = ["rename", "move", "link", "exchange"];
    let modes = [0o644, 0o600, 0o755, 0o700, 0o444, 0o555, 0o4755, 0o1777];
    prop_oneof![
        3 => (path(), "[a-z]{0,8}").prop_map(|(p, t)| vec![json!("write"), json!(p), json!(t)]),
        1 => (path(), "[a-z]{0,8}").prop_map(|(p, t)| vec![json!("append"), json!(p), json!(t)]),
        4 => (proptest::sample::select(one.to_vec()), path()).prop_map(|(o, p)| vec![json!(o), json!(p)]),
        4 => (proptest::sample::select(two.to_vec()), path(), path()).prop_map(|(o, p, q)| vec![json!(o), json!(p), json!(q)]),
        1 => (path(), proptest::sample::select(vec!["a", "../b", "/etc", "nowhere"])).prop_map(|(p, t)| vec![json!("symlink"), json!(p), json!(t)]),
        1 => (path(), proptest::sample::select(modes.to_vec())).prop_map(|(p, m)| vec![json!("chmod"), json!(p), json!(m)]),
    ]
}

/// Paths of a lower tree, each with its content.
fn lower() -> impl Strategy<Value = Vec<(String, u8, String, bool)>> {
    proptest::collection::vec((path(), 0..3u8, "[a-z]{0,8}", any::<bool>()), 0..14)
}

fn build(root: &Path, entries: &[(String, u8, String, bool)]) {
    std::fs::create_dir(root).unwrap();
    for (path, kind, text, executable) in entries {
        let at = root.join(path);
        // What does not fit under what is there is left out.
        let _ = std::fs::create_dir_all(at.parent().unwrap());
        let made = match kind {
            0 => std::fs::create_dir(&at).is_ok(),
            1 => !at.exists() && !at.is_symlink() && std::fs::write(&at, text).is_ok(),
            _ => {
                let _ = symlink(text, &at);
                false
            }
        };
        if made && *executable {
            std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

fn property(world: &World, copied: bool) {
    let mut runner =
        TestRunner::new(PropConfig { cases: 40, failure_persistence: None, ..PropConfig::default() });
    let operations = || proptest::collection::vec(operation(), 0..25);
    let numbers = std::cell::Cell::new(0);
    runner
        .run(&(lower(), operations(), operations()), |(entries, first, second)| {
            numbers.set(numbers.get() + 1);
            let root = world.folder.join(format!("lower-{}", numbers.get()));
            build(&root, &entries);
            let before = read_tree(&root);
            let view = world.sandbox.open_view(&root).unwrap();
            assert_eq!(*view.mode() != ViewMode::Overlay, copied, "{:?}", view.mode());

            let seen = run_operations(world, &view, &first);
            let changes = view.changes().unwrap();
            let mut applied = before.clone();
            apply(&mut applied, &view, &changes);
            prop_assert_eq!(&applied, &seen, "after the first run: {:?}", changes);

            // A second run in the same view.
            let seen = run_operations(world, &view, &second);
            let mut applied = before.clone();
            apply(&mut applied, &view, &view.changes().unwrap());
            prop_assert_eq!(&applied, &seen, "after the second run");
            prop_assert_eq!(&read_tree(&root), &before, "the lower tree was touched");
            Ok(())
        })
        .unwrap();
}

fn random_trees_and_operations(world: &World) {
    property(world, false);
}

fn random_trees_and_operations_copied(_: &World) {
    property(&World::with(|config| config.always_copy = true), true);
}

fn an_overlay_is_used_where_it_can_be(world: &World) {
    let root = world.directory("work", &[("a", "x")]);
    assert_eq!(*world.sandbox.open_view(&root).unwrap().mode(), ViewMode::Overlay);
    let copied = World::with(|config| config.always_copy = true);
    let ViewMode::Copy { why } = copied.sandbox.open_view(&root).unwrap().mode().clone() else {
        panic!("not a copy")
    };
    assert!(why.contains("configuration"), "{why}");
    // Views use the features that the machine is said to offer.
    for (world, expected) in [(world, true), (&copied, false)] {
        let features = world.sandbox.features().unwrap();
        let overlayfs = features.iter().find(|feature| feature.name == "overlayfs").unwrap();
        assert_eq!(overlayfs.present, expected, "{overlayfs:?}");
    }
}

fn in_view<'v>(view: &'v View, program: &str) -> Spec<'v> {
    let mut spec: Spec<'v> = shell(program);
    spec.views.push(Mount { view, at: "/work".into() });
    spec.cwd = Some("/work".into());
    spec
}

fn kinds(view: &View) -> Vec<String> {
    view.changes().unwrap().iter().map(|c| format!("{:?} {}", c.kind, c.path.display())).collect()
}

fn runs_in_one_view_build_on_each_other(world: &World) {
    let root = world.directory("work", &[("a", "one"), ("d/b", "two")]);
    let view = world.sandbox.open_view(&root).unwrap();
    good(&world.run(&in_view(&view, "echo first >a; rm d/b; echo c >d/c")));
    assert_eq!(kinds(&view), ["Deleted d/b", "Modified a", "Created d/c"]);
    assert_eq!(
        good(&world.run(&in_view(&view, "cat a; ls d; echo second >a; rm d/c; echo b >d/b"))),
        "first\nc"
    );
    assert_eq!(kinds(&view), ["Modified a", "Modified d/b"]);
    assert_eq!(good(&world.run(&in_view(&view, "cat a d/b; ls d; rm -r d"))), "second\nb\nb");
    assert_eq!(kinds(&view), ["Deleted d/b", "Deleted d", "Modified a"]);
}

fn runs_in_one_view_build_on_each_other_copied(_: &World) {
    runs_in_one_view_build_on_each_other(&World::with(|config| config.always_copy = true));
}

/// Not even for a moment, to see what its owner closed.
fn what_is_below_is_not_touched(world: &World) {
    for world in [world, &World::with(|config| config.always_copy = true)] {
        let root = world.directory("work", &[("closed/a", "one"), ("b", "two")]);
        let set_mode = |name: &str, mode: u32| {
            std::fs::set_permissions(root.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let stamps = || {
            ["closed", "b"].map(|name| {
                let metadata = std::fs::metadata(root.join(name)).unwrap();
                (metadata.mode(), metadata.ctime(), metadata.ctime_nsec())
            })
        };
        for name in ["closed", "b"] {
            set_mode(name, 0);
        }
        let before = stamps();
        // A user who cannot read it gets no copy of it.
        if let Ok(view) = world.sandbox.open_view(&root) {
            good(&world.run(&in_view(&view, "chmod 755 closed b")));
            let changed: Vec<PathBuf> = view.changes().unwrap().into_iter().map(|c| c.path).collect();
            assert_eq!(changed, [Path::new("b"), Path::new("closed")]);
        }
        assert_eq!(stamps(), before);
        set_mode("closed", 0o755);
    }
}

fn replaced_directories_are_what_they_are(world: &World) {
    for world in [world, &World::with(|config| config.always_copy = true)] {
        let root = world.directory("work", &[("d/a", "1"), ("d/sub/b", "2"), ("e/c", "3"), ("f", "4")]);
        let view = world.sandbox.open_view(&root).unwrap();
        good(
            &world.run(&in_view(
                &view,
                "mv d moved; rm -r e; mkdir e; echo new >e/n; rm f; mkdir f; echo x >f/x",
            )),
        );
        let expected = [
            "Deleted f",
            "Deleted e/c",
            "Deleted d/sub/b",
            "Deleted d/sub",
            "Deleted d/a",
            "Deleted d",
            "Created e/n",
            "Created f",
            "Created f/x",
            "Created moved",
            "Created moved/a",
            "Created moved/sub",
            "Created moved/sub/b",
        ];
        assert_eq!(kinds(&view), expected);
    }
}

fn what_was_only_touched_is_no_change(world: &World) {
    for world in [world, &World::with(|config| config.always_copy = true)] {
        let root = world.directory("work", &[("a", "one"), ("b", "two"), ("c", "three")]);
        let view = world.sandbox.open_view(&root).unwrap();
        good(&world.run(&in_view(
            &view,
            "touch a; echo -n two >b; chmod 600 c; chmod 644 c; mkdir n; rmdir n; cp a a2; mv a2 a",
        )));
        assert_eq!(kinds(&view), Vec::<String>::new());
        good(&world.run(&in_view(&view, "chmod 755 c")));
        assert_eq!(kinds(&view), ["Mode c"]);
    }
}

fn closed_modes_are_read_and_removed(world: &World) {
    for world in [world, &World::with(|config| config.always_copy = true)] {
        let root = world.directory("work", &[("d/a", "one"), ("b", "two")]);
        let view = world.sandbox.open_view(&root).unwrap();
        good(&world.run(&in_view(
            &view,
            "echo x >d/new; mkdir -p n/m; echo y >n/m/f; chmod 0 n/m/f n/m n d/new d b",
        )));
        let expected = ["Mode b", "Mode d", "Created d/new", "Created n", "Created n/m", "Created n/m/f"];
        assert_eq!(kinds(&view), expected);
        drop(view);
    }
}

/// The paths of overlayfs's own notes must not be writable from inside.
fn forged_overlay_marks(world: &World) {
    let root = world.directory("work", &[("d/a", "one"), ("b", "two")]);
    let view = world.sandbox.open_view(&root).unwrap();
    let mut spec = python(
        "
import os, stat
def attempt(f):
    try: f()
    except OSError: pass
os.mkdir('x'); open('x/f', 'w').close()
for path in ('d', 'x', 'b', 'x/f', '.'):
    for name in ('user.overlay.opaque', 'user.overlay.redirect', 'user.overlay.metacopy', 'user.overlay.whiteout', 'trusted.overlay.opaque', 'user.overlay.origin'):
        for value in (b'y', b'/etc', b''):
            attempt(lambda: os.setxattr(path, name, value))
attempt(lambda: os.mknod('b2', 0o666 | stat.S_IFCHR, 0))
attempt(lambda: os.mknod('x/a', 0o666 | stat.S_IFCHR, 0))
print(sorted(os.listdir('d')), sorted(os.listdir('.')))",
    );
    spec.views.push(Mount { view: &view, at: "/work".into() });
    spec.cwd = Some("/work".into());
    assert_eq!(good(&world.run(&spec)), "['a'] ['b', 'd', 'x']");
    assert_eq!(kinds(&view), ["Created x", "Created x/f"]);
    // The next run in the same view sees the same.
    assert_eq!(good(&world.run(&in_view(&view, "ls; ls d"))), "b\nd\nx\na");
}

fn a_persons_edit_is_no_change_of_the_view(world: &World) {
    for world in [world, &World::with(|config| config.always_copy = true)] {
        let root = world.directory("work", &[("a", "one"), ("b", "two"), ("d/c", "three")]);
        let view = world.sandbox.open_view(&root).unwrap();
        good(&world.run(&in_view(&view, "echo changed >a")));
        std::fs::write(root.join("b"), "edited by a person").unwrap();
        std::fs::write(root.join("new"), "added by a person").unwrap();
        assert_eq!(kinds(&view), ["Modified a"]);
    }
}

fn deep_trees_are_bounded_and_removed(world: &World) {
    let root = world.directory("work", &[("a", "one")]);
    let view = world.sandbox.open_view(&root).unwrap();
    let mut spec = python(
        "
import os
for i in range(3000):
    os.mkdir('directory'); os.chdir('directory')
print('made')",
    );
    spec.views.push(Mount { view: &view, at: "/work".into() });
    spec.cwd = Some("/work".into());
    // The watchdog ends a run whose directories are nested absurdly deep; it may come too late to see these grow.
    let outcome = world.run(&spec);
    let is_ended = outcome.cuts.iter().any(|cut| matches!(cut, Cut::Depth { .. }));
    assert!(is_ended || good(&outcome) == "made", "{outcome:?}");
    match view.changes() {
        Ok(_) => assert!(is_ended, "a tree this deep was read"),
        Err(error) => assert_eq!(error.code(), "SANDBOX_VIEW_BOUND", "{error}"),
    }
    let folder = view.content(Path::new("")).parent().unwrap().to_owned();
    drop(view);
    assert!(!folder.exists());
}

fn a_dropped_view_leaves_nothing(world: &World) {
    let root = world.directory("work", &[("a", "one")]);
    let folders = |world: &World| -> Vec<PathBuf> {
        let owner = std::fs::read_dir(world.folder.join("state")).unwrap().map(|e| e.unwrap().path());
        let owner = owner.filter(|p| p.is_dir());
        owner
            .flat_map(|o| std::fs::read_dir(o).unwrap().map(|e| e.unwrap().path()))
            .filter(|p| p.is_dir())
            .collect()
    };
    let view = world.sandbox.open_view(&root).unwrap();
    good(&world.run(&in_view(&view, "echo x >a; mkdir -p x/y/z; ln -s /etc e")));
    assert_eq!(folders(world).len(), 1);
    drop(view);
    assert_eq!(folders(world), Vec::<PathBuf>::new());
}

fn copy_on_write_grants_are_forgotten(world: &World) {
    let root = world.directory("cache", &[("a", "one")]);
    let mut spec = shell("echo two >/cache/a; echo new >/cache/b; cat /cache/a");
    spec.grants.copy_on_write.push(crealeph_sandbox::GrantedPath { from: root.clone(), at: "/cache".into() });
    assert_eq!(good(&world.run(&spec)), "two");
    assert_eq!(std::fs::read_to_string(root.join("a")).unwrap(), "one");
    let mut spec = shell("cat /cache/a; ls /cache");
    spec.grants.copy_on_write.push(crealeph_sandbox::GrantedPath { from: root, at: "/cache".into() });
    assert_eq!(good(&world.run(&spec)), "onea");
}

fn a_view_of_a_strange_path(world: &World) {
    let root = world.directory("a:b,c=d \\e\n\"f", &[("x", "one")]);
    let view = world.sandbox.open_view(&root).unwrap();
    let mut spec: Spec<'_> = shell("cat x; echo two >x; pwd");
    spec.views.push(Mount { view: &view, at: root.clone() });
    spec.cwd = Some(root.clone());
    let text = good(&world.run(&spec));
    assert_eq!(text, format!("one{}", root.display()));
    assert_eq!(kinds(&view), ["Modified x"]);
}
