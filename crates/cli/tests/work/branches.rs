//! What a commit on a branch is made of: the same bytes, modes and names that git itself would have committed, by the same
//! people, in repositories of every layout.

use std::process::Command;

use serde_json::json;

use crate::world::{World, item, item_with, ran};

/// Runs git in a folder as someone whose configuration is empty.
fn git_in(folder: &str, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-C", folder, "-c", "user.name=t", "-c", "user.email=t@example.com"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const ATTRIBUTES: &str = "\
[attr]notes text eol=crlf
*.auto text=auto
*.autocrlf text=auto eol=crlf
*.text text
*.crlf text eol=crlf
*.lf text eol=lf
*.raw -text
*.old crlf=input
*.id ident
*.note notes
*.bin binary
";

/// Files whose contents git converts on their way into a commit.
const SCRIPT: &str = "for kind in auto autocrlf text crlf lf raw old id note bin plain; do \
    printf 'a\\r\\nb\\r\\n' > windows.$kind; printf 'a\\nb\\r\\n' > mixed.$kind; printf 'a\\r\\nb\\0' > zero.$kind; \
    printf '$Id: 0123456789 $ x\\n$Id$\\n' > id.$kind; printf 'lone\\rreturn\\n' > lone.$kind; : > empty.$kind; \
    printf 'c\\r\\nd\\r\\n' > known.$kind; printf 'x\\r\\n' > sub/deep/nearer.$kind; done; \
    chmod +x windows.lf; ln -s windows.text link.text; rm -r gone; mkdir gone-too; mv becomes gone-too/file; mkdir becomes; \
    printf 'f\\r\\n' > becomes/file.text";

#[test]
fn a_commit_is_what_git_itself_would_have_made_of_the_files() {
    for settings in [&[][..], &["core.autocrlf=input"], &["core.autocrlf=true"], &["core.eol=crlf"]] {
        let world = World::new();
        world.write(".gitattributes", ATTRIBUTES);
        world.write("sub/deep/.gitattributes", "nearer.text -text\n*.raw text\n");
        world.write("gone/x", "x\n");
        world.write("becomes", "y\n");
        world.init_git();
        // Contents that a commit has with line ends that git would convert today.
        for kind in ["auto", "text", "crlf", "plain"] {
            world.write(&format!("known.{kind}"), "c\r\n");
        }
        world.git(&["-c", "core.autocrlf=false", "-c", "core.attributesFile=/dev/null", "add", "-A"]);
        world.git(&["commit", "-qm", "line ends"]);
        world.write(".git/info/attributes", "mixed.plain text\n");
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            world.git(&["config", key, value]);
        }
        let bounds = json!({ "constraints": { "max_files": 200, "max_delta_size": 1000 } });
        let ran = world.run(&[item_with("w", SCRIPT, bounds)], &["--publish", "branch:agents/x"]);
        assert_eq!(ran.code, 0, "{} {:?}", ran.stderr, ran.lines);
        // The same in a working tree of git's own.
        let copy = world.at("../copy");
        let copy = copy.to_str().unwrap();
        world.git(&["worktree", "add", "-q", "--detach", copy]);
        assert!(Command::new("sh").args(["-c", SCRIPT]).current_dir(copy).status().unwrap().success());
        git_in(copy, &["add", "-A"]);
        let expected = git_in(copy, &["write-tree"]);
        let tree = world.git(&["rev-parse", "agents/x^{tree}"]);
        let difference = world.git(&["diff", "--stat", expected.trim(), tree.trim()]);
        assert_eq!(difference, "", "{settings:?}");
        assert_eq!(tree, expected, "{settings:?}");
        assert_eq!(world.git(&["fsck", "--strict", "--no-dangling"]), "", "git finds nothing wrong");
    }
}

#[test]
fn commits_are_by_whom_git_would_name() {
    let world = World::new();
    world.init_git();
    let home = tempfile::tempdir().unwrap();
    let path = world.items(&[item("w", "date +%s.%N >> a.txt")]);
    let by = |branch: &str, variables: &[(&str, &str)]| {
        let publish = format!("branch:{branch}");
        let mut command = world.command(&["work", "run", &path, "--publish", &publish]);
        command.env("HOME", home.path()).env_remove("XDG_CONFIG_HOME").env("GIT_CONFIG_NOSYSTEM", "1");
        command.envs(variables.iter().copied());
        let ran = ran(&command.output().unwrap());
        assert_eq!(ran.code, 0, "{} {:?}", ran.stderr, ran.lines);
        world.git(&["log", "-1", "--format=%an <%ae> %cn <%ce>", branch]).trim().to_owned()
    };
    assert_eq!(by("none", &[]), "crealeph <crealeph@localhost> crealeph <crealeph@localhost>");
    let included = home.path().join("included");
    std::fs::write(&included, "[user]\n\temail = included@example.com\n").unwrap();
    let global = format!(
        "[user]\n\tname = Ana\n\temail = ana@example.com\n[includeIf \"gitdir:{}/\"]\n\tpath = included\n",
        world.root().canonicalize().unwrap().display()
    );
    std::fs::write(home.path().join(".gitconfig"), global).unwrap();
    assert_eq!(by("global", &[]), "Ana <included@example.com> Ana <included@example.com>");
    world.git(&["config", "user.name", "Local"]);
    world.git(&["config", "author.email", "author@example.com"]);
    assert_eq!(by("local", &[]), "Local <author@example.com> Local <included@example.com>");
    let variables = [("GIT_AUTHOR_NAME", "Env <x>"), ("GIT_COMMITTER_EMAIL", "env@example.com")];
    assert_eq!(by("env", &variables), "Env x <author@example.com> Local <env@example.com>");
    let dated = [("GIT_AUTHOR_DATE", "2001-02-03T04:05:06Z"), ("GIT_COMMITTER_DATE", "981173107 +0100")];
    by("dated", &dated);
    let format = "--format=%ad %cd";
    assert_eq!(world.git(&["log", "-1", "--date=raw", format, "dated"]), "981173106 +0000 981173107 +0100\n");
    let reflog = world.git(&["reflog", "show", "--format=%gs %gn", "dated"]);
    assert_eq!(reflog, "crealeph work Local\n");
}

#[test]
fn repositories_of_every_layout() {
    let world = World::new();
    world.write("deep/inside/crealeph.toml", crate::world::AGENTS);
    world.init_git();
    world.git(&["gc", "-q"]);
    world.git(&["pack-refs", "--all"]);
    let run = |folder: &str, id: &str, branch: &str| {
        let path = world.items(&[item(id, "echo x > x")]);
        let publish = format!("branch:{branch}");
        let output = world.crealeph(&["work", "run", &path, "--workspace", folder, "--publish", &publish]);
        let ran = ran(&output);
        assert_eq!(ran.code, 0, "{folder}: {} {:?}", ran.stderr, ran.lines);
    };
    // Packed objects and references, and a workspace that is a folder of the repository.
    let inside = world.at("deep/inside");
    run(inside.to_str().unwrap(), "inside", "inside");
    assert_eq!(world.git(&["show", "inside:deep/inside/x"]), "x\n");
    // A branch that is only in packed-refs moves on.
    world.git(&["pack-refs", "--all"]);
    let path = world.items(&[item("more", "echo y > y")]);
    let inside = inside.to_str().unwrap();
    let output = world.crealeph(&["work", "run", &path, "--workspace", inside, "--publish", "branch:inside"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(world.git(&["log", "--format=%s", "main..inside"]).lines().count(), 2);
    // A clone that borrows its objects, a bare repository with a working tree, and a git folder elsewhere.
    let (borrowing, bare) = (world.at("../borrowing"), world.at("../bare.git"));
    let (borrowing, bare) = (borrowing.to_str().unwrap(), bare.to_str().unwrap());
    world.git(&["clone", "-q", "--shared", ".", borrowing]);
    run(borrowing, "borrowing", "agents/x");
    assert_eq!(git_in(borrowing, &["show", "agents/x:x"]), "x\n");
    world.git(&["clone", "-q", "--bare", ".", bare]);
    let tree = world.at("../tree-of-bare");
    let tree = tree.to_str().unwrap();
    git_in(bare, &["worktree", "add", "-q", tree, "-b", "tree"]);
    run(tree, "bare", "main");
    assert_eq!(git_in(bare, &["show", "main:x"]), "x\n");
    let separate = world.at("../separate");
    let separate = separate.to_str().unwrap();
    world.git(&[
        "clone",
        "-q",
        "--separate-git-dir",
        world.at("../elsewhere").to_str().unwrap(),
        ".",
        separate,
    ]);
    run(separate, "separate", "agents/x");
    assert_eq!(git_in(separate, &["show", "agents/x:x"]), "x\n");
}

#[test]
fn a_repository_that_cannot_be_written_is_refused_before_anything_runs() {
    let refused = |prepare: &dyn Fn(&World), why: &str| {
        let world = World::new();
        prepare(&world);
        let ran = world.run(&[item("w", "echo x > x")], &["--publish", "branch:agents/x"]);
        assert_eq!((ran.code, ran.lines.len()), (2, 0), "{} {:?}", ran.stderr, ran.lines);
        assert!(ran.stderr.contains(why), "{why} is not in {}", ran.stderr);
        assert_eq!(world.crealeph(&["work", "status"]).stdout, b"", "nothing was run");
        // The tree does not need the repository.
        if why != "not in a git repository" {
            assert_eq!(world.run(&[item("tree", "echo x > x")], &[]).code, 0);
        }
    };
    refused(&|_| (), "not in a git repository");
    refused(&|world| drop(world.git(&["init", "-q", "."])), "has no commit yet");
    let with = |arguments: &'static [&'static str]| {
        move |world: &World| {
            world.git(&[&["init", "-q", "-b", "main"], arguments, &["."]].concat());
            world.git(&["add", "-A"]);
            world.git(&["commit", "-qm", "start"]);
        }
    };
    refused(&with(&["--object-format=sha256"]), "`extensions.objectformat = sha256` is not supported");
    let with_setting = |key: &'static str, value: &'static str| {
        move |world: &World| {
            world.init_git();
            world.git(&["config", key, value]);
        }
    };
    refused(&with_setting("core.worktree", "/"), "`core.worktree`");
    let with_extension = |setting: &'static str| {
        move |world: &World| {
            world.init_git();
            let config = world.read(".git/config");
            let config = config.replace("repositoryformatversion = 0", "repositoryformatversion = 1");
            world.write(".git/config", &format!("{config}[extensions]\n\t{setting}\n"));
        }
    };
    refused(&with_extension("refstorage = reftable"), "`extensions.refstorage = reftable` is not supported");
    refused(&with_extension("future = yes"), "`extensions.future = yes` is not supported");
    let busy = |world: &World| {
        world.init_git();
        world.git(&["branch", "agents/x"]);
        world.write(".git/rebase-merge/head-name", "refs/heads/agents/x\n");
    };
    refused(&busy, "is checked out in");
    let beside = |name: &'static str| {
        move |world: &World| {
            world.init_git();
            world.git(&["branch", name]);
            world.git(&["pack-refs", "--all"]);
        }
    };
    refused(&beside("agents"), "`agents` exists");
    refused(&beside("agents/x/y"), "`agents/x/y` exists");
}

#[test]
fn an_object_that_is_missing_is_an_error_that_says_so() {
    let world = World::new();
    world.write("sub/x", "x\n");
    world.init_git();
    let tree = world.git(&["rev-parse", "HEAD:sub"]);
    let (folder, file) = tree.trim().split_at(2);
    std::fs::remove_file(world.at(&format!(".git/objects/{folder}/{file}"))).unwrap();
    let ran = world.run(&[item("w", "echo y > sub/y")], &["--publish", "branch:agents/x"]);
    assert_ne!(ran.code, 0);
    let said = format!("{} {:?}", ran.stderr, ran.lines);
    assert!(said.contains("does not have it") && said.contains(tree.trim()), "{said}");
}
