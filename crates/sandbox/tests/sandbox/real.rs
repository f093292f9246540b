//! Programs that people use, inside their limits.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crealeph_sandbox::{GrantedPath, Mount, Preset, Spec};

use crate::world::{Case, World, good, shell};

pub(crate) const CASES: &[Case] = &[
    Case("a_shell_pipeline", a_shell_pipeline),
    Case("python_preset", python_preset),
    Case("node_lives", node_lives),
    Case("npm_installs_from_a_cache", npm_installs_from_a_cache),
    Case("git_status_and_commit", git_status_and_commit),
    Case("cargo_builds_with_a_copied_registry", cargo_builds_with_a_copied_registry),
    Case("a_build_of_four_processes", a_build_of_four_processes),
    Case("presets_compose", presets_compose),
];

/// These use toolchains that may be in the home of the user who started the tests, where an ordinary user sees nothing.
pub(crate) const WITH_TOOLCHAINS: &[&str] =
    &["cargo_builds_with_a_copied_registry", "presets_compose", "python_preset"];

/// This program again as an ordinary user, who sees our toolchains where they are and nothing else of our home.
pub(crate) fn with_toolchains(uid: u32) -> Command {
    const SCRIPT: &str = r#"
set -e
home=$(mktemp -d)
mount -t tmpfs -o mode=755 none "$home"
for name in .cargo .rustup .pyenv; do
    if [ -d "$HOME/$name" ]; then mkdir "$home/$name"; mount --bind "$HOME/$name" "$home/$name"; fi
done
mount --rbind "$home" "$HOME"
umount -l "$home"
rmdir "$home"
exec setpriv --reuid="$1" --regid="$1" --clear-groups "$2"
"#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", SCRIPT, "sh"]).arg(uid.to_string()).arg(std::env::current_exe().unwrap());
    command
}

fn a_shell_pipeline(world: &World) {
    let text = good(&world.shell("seq 1 1000 | awk '{ s += $1 } END { print s }' | tr '0' 'o'; find /usr/bin -name 'sh*' | sort | head -1 | xargs ls; tar cf - -C /etc hosts | gzip | gunzip | tar tf -"));
    assert!(text.starts_with("5oo5oo\n"), "{text}");
    assert!(text.ends_with("hosts"), "{text}");
}

fn python_preset(world: &World) {
    let mut spec = Spec::new([
        "python3",
        "-c",
        "import sys, ssl, json, sqlite3, multiprocessing; print(sys.base_prefix); p = multiprocessing.Pool(2); print(p.map(abs, [-1, -2]))",
    ]);
    spec.grants.merge(Preset::Python.grants().unwrap());
    let outside =
        Command::new("python3").args(["-c", "import sys; print(sys.base_prefix)"]).output().unwrap();
    let expected = format!("{}[1, 2]", String::from_utf8(outside.stdout).unwrap());
    assert_eq!(good(&world.run(&spec)), expected);
}

fn node_lives(world: &World) {
    let program = "
const { Worker, isMainThread } = require('worker_threads');
const cp = require('child_process'), fs = require('fs'), os = require('os'), http = require('http');
fs.writeFileSync(os.tmpdir() + '/x', 'hello');
console.log(cp.execSync('cat /tmp/x').toString(), os.cpus().length > 0, typeof fetch);
const w = new Worker('require(\"worker_threads\").parentPort.postMessage(41 + 1)', { eval: true });
w.on('message', m => {
  console.log(m);
  const s = http.createServer((q, r) => r.end('served')).listen(0, () =>
    http.get({ port: s.address().port }, r => r.on('data', d => { console.log(d.toString()); s.close(); })));
});
const wasm = new WebAssembly.Memory({ initial: 1, maximum: 65536 });";
    let mut spec = Spec::new(["node", "-e", program]);
    spec.limits.memory_bytes = 512 << 20;
    spec.limits.processes = 64;
    assert_eq!(good(&world.run(&spec)), "hello true function\n42\nserved");
}

/// A registry with one package, enough for npm.
fn registry(tarball: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let tarball = tarball.clone();
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0u8; 1];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let (status, kind, body) = if head.starts_with("GET /little-package HTTP") {
                    let document = format!(
                        r#"{{"name":"little-package","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"little-package","version":"1.0.0","dist":{{"tarball":"http://127.0.0.1:{port}/little.tgz"}}}}}}}}"#
                    );
                    ("200 OK", "application/json", document.into_bytes())
                } else if head.starts_with("GET /little.tgz") {
                    ("200 OK", "application/octet-stream", tarball)
                } else {
                    ("404 Not Found", "application/json", b"{}".to_vec())
                };
                let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len()).as_bytes());
                let _ = stream.write_all(&body);
            });
        }
    });
    port
}

fn npm_installs_from_a_cache(world: &World) {
    let package = world.directory(
        "pack",
        &[
            ("package/package.json", r#"{"name":"little-package","version":"1.0.0"}"#),
            ("package/index.js", "module.exports = 'from the cache'"),
        ],
    );
    let made =
        Command::new("tar").args(["czf", "little.tgz", "package"]).current_dir(&package).status().unwrap();
    assert!(made.success());
    let port = registry(std::fs::read(package.join("little.tgz")).unwrap());
    let cache = world.directory("npm-cache", &[]);
    let outside = world.directory("outside", &[("package.json", "{}")]);
    let address = format!("http://127.0.0.1:{port}/");
    let npm = |directory: &Path| {
        let mut command = Command::new("npm");
        command.args(["install", "--no-audit", "--no-fund", "little-package@1.0.0"]).current_dir(directory);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &world.folder);
        command.env("npm_config_registry", &address).env("npm_config_cache", &cache);
        command.output().unwrap()
    };
    let filled = npm(&outside);
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));

    let project = world.directory("project", &[("package.json", "{}")]);
    let view = world.sandbox.open_view(&project).unwrap();
    let mut spec: Spec<'_> = shell(
        "npm install --offline --no-audit --no-fund little-package@1.0.0 >/dev/null && node -p 'require(\"little-package\")'",
    );
    spec.grants.env.insert("npm_config_registry".into(), address.into());
    spec.grants.copy_on_write.push(GrantedPath { from: cache, at: "/home/agent/.npm".into() });
    spec.views.push(Mount { view: &view, at: "/project".into() });
    spec.cwd = Some("/project".into());
    assert_eq!(good(&world.run(&spec)), "from the cache");
    let changes: Vec<String> = view.changes().unwrap().iter().map(|c| c.path.display().to_string()).collect();
    assert!(changes.contains(&"node_modules/little-package/index.js".to_owned()), "{changes:?}");
    assert!(!project.join("node_modules").exists());
}

fn git_status_and_commit(world: &World) {
    let project = world.directory("project", &[("a", "one\n"), ("d/b", "two\n")]);
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &["-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "-qm", "first"],
    ] {
        let made = Command::new("git")
            .args(arguments)
            .current_dir(&project)
            .env("HOME", &world.folder)
            .status()
            .unwrap();
        assert!(made.success());
    }
    let head = std::fs::read(project.join(".git/index")).unwrap();
    let view = world.sandbox.open_view(&project).unwrap();
    let mut spec: Spec<'_> = shell(
        "git status --short; echo three >>a; echo new >c; git status --short; git -c user.name=n -c user.email=e@example.com add -A && git -c user.name=n -c user.email=e@example.com commit -qm second && git log --oneline | wc -l && git stash list && git gc -q && git fsck 2>&1 && git status --short",
    );
    spec.views.push(Mount { view: &view, at: project.clone() });
    spec.cwd = Some(project.clone());
    assert_eq!(good(&world.run(&spec)), "M a\n?? c\n2");
    assert_eq!(std::fs::read(project.join(".git/index")).unwrap(), head);
    assert!(!project.join("c").exists());
}

fn cargo_project(world: &World) -> std::path::PathBuf {
    world.directory(
        "project",
        &[
            ("Cargo.toml", "[package]\nname = \"little\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nitoa = \"1\"\n[workspace]\n"),
            ("src/main.rs", "fn main() { println!(\"{}\", itoa::Buffer::new().format(42)); }"),
        ],
    )
}

fn cargo_builds_with_a_copied_registry(world: &World) {
    let project = cargo_project(world);
    let view = world.sandbox.open_view(&project).unwrap();
    let mut spec: Spec<'_> = shell("cargo build --offline -q && target/debug/little");
    spec.grants.merge(Preset::Rust.grants().unwrap());
    spec.views.push(Mount { view: &view, at: "/project".into() });
    spec.cwd = Some("/project".into());
    assert_eq!(good(&world.run(&spec)), "42");
    assert!(!project.join("target").exists());
}

fn a_build_of_four_processes(world: &World) {
    let files: Vec<(String, String)> =
        (0..8).map(|i| (format!("f{i}.c"), format!("int f{i}(void) {{ return {i}; }}"))).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    files.push(("main.c", "int f7(void); int main(void) { return f7() - 7; }"));
    let project = world.directory("project", &files);
    let view = world.sandbox.open_view(&project).unwrap();
    let mut spec: Spec<'_> = shell(
        "ls *.c | sed 's/.c$//' | xargs -P 4 -I{} cc -O1 -c {}.c -o {}.o && cc *.o -o out && ./out && echo built",
    );
    spec.limits.processes = 32;
    spec.views.push(Mount { view: &view, at: "/project".into() });
    spec.cwd = Some("/project".into());
    let outcome = world.run(&spec);
    assert_eq!(good(&outcome), "built");
    assert_eq!(view.changes().unwrap().len(), 10);
}

fn presets_compose(world: &World) {
    let mut spec = shell("python3 --version; node --version; cargo --version; git --version");
    for name in ["python", "node", "rust", "git"] {
        spec.grants.merge(name.parse::<Preset>().unwrap().grants().unwrap());
    }
    let text = good(&world.run(&spec));
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!("perl".parse::<Preset>().is_err());
}
