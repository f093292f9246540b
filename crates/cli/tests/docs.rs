//! What the documents show is what the program does, held by one test for each document:
//!
//! - Its `sh` blocks are one shell session, run in order by `sh -eu` in a new folder with `crealeph` on the PATH. A comment
//!   that opens with `<!-- sh` is run in its place too, for what a reader has and a test has not. `sh no-test` blocks,
//!   which need what no test has (a clone over the network, a model's provider), are not run.
//!   A command that ends with `|| echo "exit $?"` must fail.
//! - Each `$ crealeph …` of a `console` block is run in the repository's root and prints exactly what is below it, as text if it
//!   is neither piped nor asked for JSON.
//!
//! Filter by a document's name: `cargo test -p crealeph-cli --test docs -- docs/ledger.md`.

#![cfg(test)]
#![allow(clippy::exit, reason = "a test says what it expects")]

#[path = "../../ledger/tests/server/mod.rs"]
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

/// A session that hangs is ended after this many seconds.
const HANG_SECONDS: &str = "600";
/// Stands before the line number of each block in what a session prints.
const MARK: char = '\u{1e}';
/// Stands in the script where a block ends.
const END: &str = "# the block ends";
/// How a document shows that a command fails; it must.
const EXPECTED_TO_FAIL: &str = "|| echo \"exit $?\"";
/// What a document calls the database that it is given.
const DATABASE: &str = "DATABASE_URL";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut documents = markdown(&root);
    documents
        .extend(["docs", "bench", "examples"].iter().flat_map(|folder| all_markdown(&root.join(folder))));
    let trials = documents.into_iter().map(|path| {
        let (name, root) = (path.strip_prefix(&root).unwrap().display().to_string(), root.clone());
        Trial::test(name.clone(), move || judge(&root, &name, &fs::read_to_string(path).unwrap()))
    });
    let trials = trials.chain(SELF_TESTS.iter().map(|(name, test)| {
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    }));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|is| is == "md")).collect();
    paths.sort();
    paths
}

/// Every document of a folder but the contracts themselves, which are not ours to hold to rules.
fn all_markdown(folder: &Path) -> Vec<PathBuf> {
    let mut found = markdown(folder);
    if folder.ends_with("contracts") {
        found.retain(|path| path.ends_with("README.md") || path.ends_with("readings.md"));
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target" && name != "node_modules") {
            found.extend(all_markdown(&path));
        }
    }
    found
}

/// Runs everything a document shows, and reports all that fails.
fn judge(root: &Path, name: &str, text: &str) -> Result<(), Failed> {
    let document = Document::read(text);
    let mut faults: Vec<String> =
        document.faults.iter().map(|(line, fault)| format!("{name}:{line}: {fault}")).collect();
    if faults.is_empty() && document.has_script {
        faults.extend(run_script(root, &document.script).err().map(|fault| format!("{name}:{fault}")));
    }
    for (line, command, shown) in &document.sessions {
        let printed = run_session(root, command);
        if printed != *shown {
            faults.push(format!("{name}:{line}: `{command}` prints something else now:\n{printed}"));
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("\n").into()),
    }
}

/// What of a document is run.
#[derive(Default)]
struct Document {
    /// One line for each line of the document, so that the shell counts as the reader does.
    script: String,
    has_script: bool,
    /// Line, command and output of each command in a `console` block.
    sessions: Vec<(usize, String, String)>,
    faults: Vec<(usize, String)>,
}

#[derive(Clone, Copy)]
enum Block {
    Prose,
    Script { end: &'static str },
    Session,
    Other,
}

impl Document {
    fn read(text: &str) -> Document {
        let mut document = Document::default();
        let mut block = Block::Prose;
        for (line, text) in (1..).zip(text.lines()) {
            let mut step = String::new();
            block = match block {
                Block::Prose => match document.opened(line, text) {
                    opened @ Block::Script { .. } => {
                        step = format!("printf '{MARK}%s\\n' {line}");
                        document.has_script = true;
                        opened
                    }
                    opened => opened,
                },
                Block::Script { end } if text == end => {
                    step = END.to_owned();
                    Block::Prose
                }
                Block::Session | Block::Other if text == "```" => Block::Prose,
                Block::Script { .. } => {
                    step = text.to_owned();
                    block
                }
                Block::Session => {
                    match (text.strip_prefix("$ "), document.sessions.last_mut()) {
                        (Some(command), _) => {
                            document.sessions.push((line, command.to_owned(), String::new()));
                        }
                        (None, Some((_, _, shown))) => *shown += &format!("{text}\n"),
                        (None, None) => document.faults.push((line, "a command comes first".to_owned())),
                    }
                    block
                }
                Block::Other => block,
            };
            document.script += &(step + "\n");
        }
        document
    }

    /// What a line of prose begins.
    fn opened(&mut self, line: usize, text: &str) -> Block {
        match text {
            "```sh" => return Block::Script { end: "```" },
            "<!-- sh" => return Block::Script { end: "-->" },
            "```console" => return Block::Session,
            "```sh no-test" => return Block::Other,
            _ => {}
        }
        let start = text.trim_start();
        let is_shell = ["sh", "bash", "zsh", "console"].iter().any(|shell| {
            start.strip_prefix("```").is_some_and(|info| info.starts_with(shell))
                || start.strip_prefix("<!-- ").is_some_and(|info| info == *shell)
        });
        if is_shell {
            self.faults.push((
                line,
                format!("`{text}` is not known; write `sh`, `sh no-test` or `console`, not indented"),
            ));
        }
        if ["    crealeph ", "    cargo ", "    $ "].iter().any(|command| text.starts_with(command)) {
            self.faults.push((line, "a command stands outside a `sh` block and is not run".to_owned()));
        }
        if text.starts_with("```") { Block::Other } else { Block::Prose }
    }
}

fn with_program(program: &str) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_crealeph")).parent().unwrap();
    let mut command = Command::new(program);
    command.env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    command
}

/// Runs a document's script; a failure says at which block, and what it printed.
fn run_script(root: &Path, script: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["home", "session"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("script"), script).unwrap();
    let printed = fs::File::create(at("printed")).unwrap();
    let mut command = with_program("timeout");
    command.args([HANG_SECONDS, "sh", "-eu"]).arg(at("script")).current_dir(at("session"));
    command.env("HOME", at("home")).env("USER", "reader").env("REPOSITORY", root);
    for ours in ["CREALEPH_LEDGER", "CREALEPH_TENANT", "CREALEPH_KEYS", "CREALEPH_OUTPUT"] {
        command.env_remove(ours);
    }
    let server = script.contains(DATABASE).then(server::Server::start);
    if let Some(server) = &server {
        command.env(DATABASE, server.url(&server.database()));
    }
    command.stdin(Stdio::null()).stdout(printed.try_clone().unwrap()).stderr(printed);
    let status = command.status().unwrap();
    let printed = String::from_utf8_lossy(&fs::read(at("printed")).unwrap()).into_owned();
    let blocks: Vec<(&str, &str)> =
        printed.split(MARK).skip(1).map(|block| block.split_once('\n').unwrap_or((block, ""))).collect();
    if !status.success() {
        let (line, printed) = blocks.last().copied().unwrap_or(("1", &printed));
        return Err(format!("{line}: the block ends with {status}; it printed:\n{printed}"));
    }
    for (line, printed) in blocks {
        let block = script.lines().skip(line.parse().unwrap()).take_while(|text| *text != END);
        let expected = block.filter(|text| text.ends_with(EXPECTED_TO_FAIL)).count();
        let failed = printed.lines().filter(|text| text.starts_with("exit ")).count();
        if expected != failed {
            return Err(format!(
                "{line}: {expected} commands are expected to fail and {failed} do:\n{printed}"
            ));
        }
    }
    Ok(())
}

fn run_session(root: &Path, command: &str) -> String {
    let mut shell = with_program("sh");
    shell.env_remove("CREALEPH_OUTPUT").env_remove("COLUMNS");
    // The reader of a session sits at a terminal, unless the command is for a program.
    if !command.contains(" | ") && !command.contains("--json") {
        shell.env("CREALEPH_OUTPUT", "text");
    }
    let output = shell.args(["-c", &format!("{command} 2>&1")]).current_dir(root).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// The rules that documents are held to, each with a document that breaks it.
const SELF_TESTS: &[(&str, fn())] = &[
    ("a failing block is reported with its line and what it printed", || {
        let text =
            "# Title\n\n```sh\necho before > file\n```\n\n```sh\ncat file\nfalse\necho not reached\n```\n";
        let fault = fault(text);
        assert!(fault.starts_with("sample.md:7: the block ends with exit status: 1"), "{fault}");
        assert!(fault.contains("before") && !fault.contains("not reached"), "{fault}");
    }),
    ("an unset variable and an unknown program are failures, at the reader's line", || {
        assert!(fault("```sh\necho $nothing\n```\n").starts_with("sample.md:1:"));
        let fault = fault("text\n\n```sh\nno-such-program\n```\n");
        assert!(fault.contains(": 4: no-such-program: not found"), "{fault}");
    }),
    ("a hidden block is run, a block without a test is not", || {
        let text = "<!-- sh\nfile=made\n-->\n\n```sh no-test\nfalse\n```\n\n```sh\ntest $file = made\n```\n";
        assert!(judge(Path::new("/"), "sample.md", text).is_ok());
    }),
    ("a block that would be passed over in silence is refused", || {
        for text in ["```sh notest\n", "```shell\n", "  ```sh\n", "```bash\n", "    crealeph doctor\n"] {
            assert!(fault(text).starts_with("sample.md:1: "), "{text}");
        }
    }),
    ("a command that is expected to fail must", || {
        assert!(judge(Path::new("/"), "sample.md", "```sh\nfalse || echo \"exit $?\"\n```\n").is_ok());
        let fault = fault("```sh\ntrue || echo \"exit $?\"\n```\n");
        assert!(fault.starts_with("sample.md:1: 1 commands are expected to fail and 0 do"), "{fault}");
    }),
    ("a session that prints something else is refused", || {
        let fault = fault("```console\n$ crealeph --version\ncrealeph 0\n```\n");
        assert!(fault.starts_with("sample.md:2: `crealeph --version` prints something else"), "{fault}");
    }),
];

fn fault(text: &str) -> String {
    let failed = judge(Path::new("/"), "sample.md", text).unwrap_err();
    failed.message().unwrap().to_owned()
}
