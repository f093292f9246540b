//! Real projects with the real toolchains of this machine, wherever they are installed, offline and without a word of
//! configuration: by the user who runs the tests, and if that is root by an ordinary user as well.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::ordinary::{USER, is_root};
use crate::world::{AGENTS, Ran, World, item_with, ran};

/// Runs a program as another user, who sees our toolchains where they are and nothing else of our home.
const AS_USER: &str = r#"
set -e
real=$1 user=$2
shift 2
home=$(mktemp -d)
mount -t tmpfs -o mode=755 none "$home"
for name in .cargo .rustup .pyenv; do
    if [ -d "$real/$name" ]; then mkdir "$home/$name"; mount --bind "$real/$name" "$home/$name"; fi
done
mount --rbind "$home" "$real"
umount -l "$home"
rmdir "$home"
exec setpriv --reuid="$user" --regid="$user" --clear-groups "$@"
"#;

/// A project in its own workspace, and who works on it.
struct Project {
    world: World,
    user: Option<u32>,
    /// Variables of the user's shell that are not those of the tests.
    env: Vec<(&'static str, OsString)>,
}

/// What is the same for every user.
fn for_each_user(check: impl Fn(Project)) {
    let users = [Some(None), is_root().then_some(Some(USER))];
    for user in users.into_iter().flatten() {
        check(Project { world: World::with(AGENTS), user, env: Vec::new() });
    }
}

impl Project {
    fn write(&self, path: &str, text: &str) {
        self.world.write(path, text);
    }

    /// A home with nothing in it but what the test puts there, and the programs of the system.
    fn move_home(&mut self) -> PathBuf {
        let home = self.world.at("../home");
        fs::create_dir_all(home.join(".local/bin")).unwrap();
        let home = home.canonicalize().unwrap();
        let (path, old) = (std::env::var_os("PATH").unwrap(), std::env::var_os("HOME").unwrap());
        let system = std::env::split_paths(&path).filter(|folder| !folder.starts_with(&old));
        let path = std::env::join_paths(std::iter::once(home.join(".local/bin")).chain(system)).unwrap();
        self.env = vec![("HOME", home.clone().into()), ("PATH", path)];
        home
    }

    /// Runs a program that prepares the project, as its user's shell would before the work begins.
    fn prepare(&self, program: &str, arguments: &[&str], env: &[(&str, &str)]) {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.world.root());
        command.envs(self.env.iter().cloned()).envs(env.iter().copied());
        done(&mut command);
    }

    /// Has the agent change the project, and runs its tests.
    fn run(&self, change: &str, test: &str) -> Ran {
        let limits = serde_json::json!({ "test_command": test });
        let items = self.world.items(&[item_with("fix", change, limits)]);
        let mut command = self.world.command(&["work", "run", &items]);
        command.envs(self.env.iter().cloned());
        ran(&match self.user {
            None => command.output().unwrap(),
            Some(user) => self.output_as(user, &command),
        })
    }

    fn output_as(&self, user: u32, command: &Command) -> Output {
        let folder = self.world.at("..").canonicalize().unwrap();
        // The program may be where only root gets to.
        let program = folder.join("crealeph");
        done(Command::new("cp").arg(command.get_program()).arg(&program));
        done(Command::new("chown").args(["-R", &format!("{user}:{user}")]).arg(&folder));
        let mut wrapped = Command::new("unshare");
        wrapped.args(["-m", "sh", "-c", AS_USER, "sh"]);
        wrapped.arg(std::env::var_os("HOME").unwrap()).arg(user.to_string());
        wrapped.arg(program).args(command.get_args());
        wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        wrapped.current_dir(command.get_current_dir().unwrap()).output().unwrap()
    }

    /// A change that is right lands, and one that is wrong does not.
    fn tests_decide(&self, wrong: &str, right: &str, test: &str) {
        let red = self.run(wrong, test);
        let user = self.user;
        assert_eq!(red.of("fix")["status"], "failure", "{user:?} {:?} {}", red.lines, red.stderr);
        let error = red.of("fix")["error"].as_str().unwrap();
        assert!(error.starts_with("Tests failed: ") && !error.contains("was not found"), "{user:?} {error}");
        let green = self.run(right, test);
        assert_eq!(green.of("fix")["status"], "success", "{user:?} {:?} {}", green.lines, green.stderr);
    }
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// What `cargo xtask tools` installed.
fn tool(path: &str) -> PathBuf {
    let found = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools").join(path);
    assert!(found.exists(), "`{}` is missing; run `cargo xtask tools`", found.display());
    found
}

/// With a dependency that cargo has in its registry, because this program is built with it.
fn rust_project(project: &Project) {
    project.write(
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nstrsim = \"0.11\"\n\
         [workspace]\n",
    );
    project.write("src/lib.rs", "pub fn answer() -> usize { strsim::levenshtein(\"a\", \"b\") + 40 }\n");
    project.write("tests/answer.rs", "#[test]\nfn answers() { assert_eq!(small::answer(), 42) }\n");
    project.write(".gitignore", "target\nCargo.lock\n");
}

#[test]
fn cargo_test_runs_under_rustup() {
    for_each_user(|project| {
        rust_project(&project);
        let right = "cargo --version && sed -i s/40/41/ src/lib.rs";
        project.tests_decide("sed -i s/40/42/ src/lib.rs", right, "cargo test");
        assert!(!project.world.at("target").exists());
    });
}

#[test]
fn toolchains_can_be_switched_off() {
    let off = AGENTS.replace("command =", "toolchains = false\ncommand =");
    let off = format!("{off}\n[work.agents.one.test]\ntoolchains = false\n");
    let project = Project { world: World::with(&off), user: None, env: Vec::new() };
    rust_project(&project);
    let red = project.run("sed -i s/40/41/ src/lib.rs", "cargo test");
    assert_eq!(red.of("fix")["status"], "failure", "{:?} {}", red.lines, red.stderr);
}

#[test]
fn npm_test_runs() {
    for_each_user(|project| {
        project.write(
            "package.json",
            r#"{"name": "small", "version": "1.0.0", "scripts": {"test": "node --test"}}"#,
        );
        project.write("answer.js", "module.exports = 41;\n");
        project.write(
            "answer.test.js",
            "require('node:test')('answers', () => require('node:assert').equal(require('./answer'), 42));\n",
        );
        project.tests_decide("sed -i s/41/43/ answer.js", "sed -i s/41/42/ answer.js", "npm test");
    });
}

#[test]
fn npm_takes_packages_from_its_cache() {
    for_each_user(|mut project| {
        project.move_home();
        let registry = LocalServer::serve(write_package);
        project.write(
            "package.json",
            r#"{"name": "small", "version": "1.0.0", "scripts": {"test": "node --test"}, "dependencies": {"forty": "^1.0.0"}}"#,
        );
        project.write("answer.js", "module.exports = require('forty') + 1;\n");
        project.write(
            "answer.test.js",
            "require('node:test')('answers', () => require('node:assert').equal(require('./answer'), 42));\n",
        );
        project.write(".gitignore", "node_modules\n");
        let address = [("npm_config_registry", registry.address.as_str())];
        project.prepare("npm", &["install", "--no-audit", "--no-fund"], &address);
        drop(registry);
        let (wrong, right) =
            ("sed -i 's/+ ./+ 3/' answer.js", "npm --version && sed -i 's/+ ./+ 2/' answer.js");
        project.tests_decide(wrong, right, "npm test");
        // Without the folder it is installed from the cache, in a layer that is discarded.
        fs::remove_dir_all(project.world.at("node_modules")).unwrap();
        project.write("answer.js", "module.exports = require('forty') + 1;\n");
        project.tests_decide(wrong, "sed -i 's/+ ./+ 2/' answer.js", "npm ci && npm test");
        assert!(!project.world.at("node_modules").exists());
    });
}

/// A package as a registry of npm's serves it.
fn write_package(registry: &Path, address: &str) {
    const FILES: &str = "
import base64, hashlib, io, json, sys, tarfile
folder, address = sys.argv[1:]
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode='w:gz') as tar:
    for name, text in (('package.json', '{\"name\": \"forty\", \"version\": \"1.0.0\"}'), ('index.js', 'module.exports = 40;')):
        member = tarfile.TarInfo('package/' + name)
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
content = archive.getvalue()
with open(folder + '/forty-1.0.0.tgz', 'wb') as out:
    out.write(content)
integrity = 'sha512-' + base64.b64encode(hashlib.sha512(content).digest()).decode()
dist = {'tarball': address + 'forty-1.0.0.tgz', 'integrity': integrity}
version = {'name': 'forty', 'version': '1.0.0', 'dist': dist}
with open(folder + '/forty', 'w') as out:
    json.dump({'name': 'forty', 'dist-tags': {'latest': '1.0.0'}, 'versions': {'1.0.0': version}}, out)
";
    done(Command::new("python3").args(["-c", FILES]).arg(registry).arg(address));
}

#[test]
fn a_virtual_environment_in_the_workspace_works_with_the_interpreter_it_was_made_from() {
    for_each_user(|project| {
        project.write("pyproject.toml", "[project]\nname = \"small\"\nversion = \"1\"\n");
        project.write("answer.py", "ANSWER = 41\n");
        project.write(
            "test_answer.py",
            "import sys, unittest, answer\nclass Answer(unittest.TestCase):\n    def test(self):\n        \
             self.assertEqual(answer.ANSWER, 42)\n        self.assertNotEqual(sys.prefix, sys.base_prefix)\n",
        );
        project.write(".gitignore", ".venv\n__pycache__\n");
        project.prepare("python3", &["-m", "venv", "--without-pip", ".venv"], &[]);
        for test in [".venv/bin/python -m unittest", "python -m unittest"] {
            project.tests_decide("sed -i 's/4.$/43/' answer.py", "sed -i 's/4.$/42/' answer.py", test);
            project.write("answer.py", "ANSWER = 41\n");
        }
    });
}

/// Files that are served on this machine until it is dropped.
struct LocalServer {
    server: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl LocalServer {
    /// Serves what is written into a folder, given the folder and the address.
    fn serve(write: impl FnOnce(&Path, &str)) -> LocalServer {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Command::new("python3");
        server.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]).current_dir(folder.path());
        let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.split_whitespace().skip_while(|word| *word != "port").nth(1).unwrap();
        let served = LocalServer { address: format!("http://127.0.0.1:{port}/"), server, folder };
        write(served.folder.path(), &served.address);
        served
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The wheels of pytest as a package index.
fn write_index(folder: &Path) {
    for wheel in fs::read_dir(tool("wheels")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = wheel.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".whl") {
            let package = name.split('-').next().unwrap().to_lowercase().replace('_', "-");
            let page = folder.join(package);
            fs::create_dir_all(&page).unwrap();
            symlink(&wheel, page.join(name)).unwrap();
        }
    }
}

#[test]
fn uv_run_takes_packages_from_its_cache() {
    for_each_user(|mut project| {
        let home = project.move_home();
        done(Command::new("cp").arg(tool("uv/bin/uv")).arg(home.join(".local/bin")));
        let index = LocalServer::serve(|folder, _| write_index(folder));
        project.write(
            "pyproject.toml",
            &format!(
                "[project]\nname = \"small\"\nversion = \"1\"\nrequires-python = \">=3.11\"\n\
                 [dependency-groups]\ndev = [\"pytest\"]\n\
                 [tool.uv]\nenvironments = [\"sys_platform == 'linux'\"]\n\
                 [[tool.uv.index]]\nurl = \"{}\"\ndefault = true\n",
                index.address
            ),
        );
        project.write("answer.py", "ANSWER = 41\n");
        project.write("test_answer.py", "import answer\ndef test_answer(): assert answer.ANSWER == 42\n");
        project.write(".gitignore", ".venv\n__pycache__\n.pytest_cache\n");
        project.prepare("uv", &["sync", "--quiet"], &[]);
        drop(index);
        let (wrong, right) = ("sed -i 's/4.$/43/' answer.py", "uv --version && sed -i 's/4.$/42/' answer.py");
        project.tests_decide(wrong, right, "uv run pytest");
        // Without the environment it makes one from its cache, which is discarded.
        fs::remove_dir_all(project.world.at(".venv")).unwrap();
        project.write("answer.py", "ANSWER = 41\n");
        project.tests_decide(wrong, "sed -i 's/4.$/42/' answer.py", "uv run pytest");
        assert!(!project.world.at(".venv").exists());
    });
}

#[test]
fn go_test_takes_modules_from_its_cache() {
    for_each_user(|mut project| {
        project.move_home();
        let proxy = tempfile::tempdir().unwrap();
        write_module(proxy.path());
        project.write("go.mod", "module example.com/small\n\ngo 1.19\n\nrequire example.com/forty v1.0.0\n");
        project.write(
            "answer.go",
            "package small\n\nimport \"example.com/forty\"\n\nfunc Answer() int { return forty.Forty + 1 }\n",
        );
        project.write(
            "answer_test.go",
            "package small\n\nimport \"testing\"\n\nfunc TestAnswer(t *testing.T) {\n\tif Answer() != 42 {\n\t\t\
             t.Fatal(Answer())\n\t}\n}\n",
        );
        let address = format!("file://{}", proxy.path().display());
        project.prepare("go", &["mod", "tidy"], &[("GOPROXY", &address), ("GOSUMDB", "off")]);
        drop(proxy);
        let right = "go version && sed -i 's/+ 1/+ 2/' answer.go";
        project.tests_decide("sed -i 's/+ 1/+ 3/' answer.go", right, "go test ./...");
    });
}

/// A module as a proxy of Go's serves it.
fn write_module(proxy: &Path) {
    const FILES: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as archive:
    archive.writestr('example.com/forty@v1.0.0/go.mod', 'module example.com/forty\\n')
    archive.writestr('example.com/forty@v1.0.0/forty.go', 'package forty\\n\\nconst Forty = 40\\n')
";
    let versions = proxy.join("example.com/forty/@v");
    fs::create_dir_all(&versions).unwrap();
    for (name, text) in [
        ("list", "v1.0.0\n"),
        ("v1.0.0.info", r#"{"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}"#),
        ("v1.0.0.mod", "module example.com/forty\n"),
    ] {
        fs::write(versions.join(name), text).unwrap();
    }
    done(Command::new("python3").args(["-c", FILES]).arg(versions.join("v1.0.0.zip")));
}

#[test]
fn make_test_runs() {
    for_each_user(|project| {
        project.write("Makefile", "answer: answer.c\n\ntest: answer\n\t./answer\n\n.PHONY: test\n");
        project.write(
            "answer.c",
            "#include <stdio.h>\nint main(void) { int answer = 41; printf(\"%d\\n\", answer); return answer != 42; }\n",
        );
        project.write(".gitignore", "answer\n");
        project.tests_decide("sed -i s/41/43/ answer.c", "sed -i s/41/42/ answer.c", "make test");
        assert!(!project.world.at("answer").exists());
    });
}
