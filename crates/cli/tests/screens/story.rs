//! A project folder, commands run in it as a person would at a terminal of 60, 80 or 120 columns, and output without what differs
//! from run to run: folders, ids, hashes, times. Each of these is replaced by a sign and nothing next to it is touched, so columns and
//! line breaks are as they were printed. This requires short ids of one length: a screen with columns after an id shows runs or
//! executions, each of which starts in another millisecond.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::Expect;

const COLUMNS: usize = 80;

/// The agents of the story: one that plans, one that runs its task as a shell script.
pub(crate) const CONFIGURATION: &str = r#"[agents."example@1"]
kind = "example"

[work.agents.fixer]
agent_id = "agent-1"
command = ["sh", "-c", "{prompt}"]
"#;

/// A signal and what four programs concluded from it.
const ENTRIES: &str = r#"{"key":"s","robotId":"shop-17","module":"scout","source":"test","type":"signal","state":"final","payload":{"visits":1180}}
{"key":"f","robotId":"shop-17","module":"fusion","source":"test","type":"fusion","state":"final","payload":{},"lineage":{"dependsOnLedgerIds":["key:s"]}}
{"key":"i","robotId":"shop-17","module":"ideator","source":"test","type":"idea","state":"final","payload":{},"lineage":{"dependsOnLedgerIds":["key:s","key:f"]}}
{"key":"c","robotId":"shop-17","module":"copywriter","source":"test","type":"copy","state":"final","payload":{},"lineage":{"dependsOnLedgerIds":["key:i"]}}
{"key":"p","robotId":"shop-17","module":"playbooks","source":"test","type":"playbook","state":"final","payload":{},"lineage":{"dependsOnLedgerIds":["key:i"]}}
"#;

const LATER: &str = r#"{"key":"later","robotId":"shop-17","module":"scout","source":"test","type":"signal","state":"final","payload":{"visits":310}}
"#;

const REQUEST: &str = r#"{"robotId":"shop-17","objective_type":"landing_plan","objective_payload":{"page":"sale"},"constraints":{},
"coherence_policy":{"on_stale":"block","on_partial":"draft_only"},"dryRun":false,"workflowVersion":"1",
"agentVersion":"example@1","attempt":1}"#;

/// A new folder, gone when the test ends.
pub(crate) struct Story {
    folder: tempfile::TempDir,
    /// Lines that do not fit.
    wide: RefCell<Vec<String>>,
}

impl Drop for Story {
    fn drop(&mut self) {
        let wide = self.wide.borrow();
        let is_failing = std::thread::panicking();
        assert!(wide.is_empty() || is_failing, "wider than the screen:\n{}", wide.join("\n"));
    }
}

impl Story {
    /// A project with a configuration, entries and a request, and no ledger.
    pub(crate) fn new() -> Story {
        let folder = tempfile::Builder::new().prefix("screens").tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let story = Story { folder, wide: RefCell::default() };
        fs::create_dir(story.project()).unwrap();
        story.write("crealeph.toml", CONFIGURATION);
        story.write("entries.jsonl", ENTRIES);
        story.write("later.jsonl", LATER);
        story.write("request.json", REQUEST);
        story
    }

    /// The same with a ledger that has the entries.
    pub(crate) fn with_entries() -> Story {
        let story = Story::new();
        story.quietly("crealeph ledger init && crealeph ledger append entries.jsonl");
        story
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.project().join(name), text).unwrap();
    }

    /// Runs a step that is not looked at and must succeed.
    pub(crate) fn quietly(&self, line: &str) {
        let (code, output) = self.run(line, COLUMNS);
        assert_eq!(code, 0, "{line}\n{output}");
    }

    /// The first line of a command's output, for a later command.
    pub(crate) fn first_word(&self, line: &str) -> String {
        let (_, output) = self.run(line, COLUMNS);
        output.split_whitespace().next().unwrap_or_else(|| panic!("{line}: no output")).to_owned()
    }

    /// Compares what a command shows at 80 columns with what is expected, and that it fits.
    pub(crate) fn shows(&self, line: &str, expected: Expect) {
        self.shows_at(COLUMNS, line, expected);
    }

    /// The same at another width.
    pub(crate) fn shows_at(&self, columns: usize, line: &str, expected: Expect) {
        let (code, output) = self.run(line, columns);
        let wide = output.lines().filter(|line| is_too_wide(line, columns));
        let wide = wide.map(|wide| format!("{line} ({columns} columns): {wide}"));
        self.wide.borrow_mut().extend(wide);
        let mut screen = self.without_what_differs(&output);
        if code != 0 {
            screen.push_str(&format!("exit code {code}\n"));
        }
        // An expectation is stored without its common margin.
        if screen.lines().all(|line| line.starts_with(' ')) {
            screen.insert_str(0, "$\n");
        }
        expected.assert_eq(&screen);
    }

    fn run(&self, line: &str, columns: usize) -> (i32, String) {
        let mut command = self.command(&format!("exec 2>&1 </dev/null\n{line}"));
        let output = command.env("COLUMNS", columns.to_string()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }

    /// A shell in the project that runs a script, with the program on its path and no setting of who runs the tests.
    pub(crate) fn command(&self, script: &str) -> Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_crealeph")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.arg("-c").arg(script).current_dir(self.project());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CREALEPH_") {
                command.env_remove(name);
            }
        }
        command.env("PATH", path).env("HOME", self.folder.path()).env("USER", "ana").env("LANG", "C.UTF-8");
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        command.env("CREALEPH_OUTPUT", "text").env("CREALEPH_TRUST", "1");
        command
    }

    fn without_what_differs(&self, output: &str) -> String {
        let root = self.folder.path().canonicalize().unwrap();
        let output = output.replace(root.to_str().unwrap(), "/home/ana");
        let mut screen = String::new();
        let mut lines = output.lines();
        while let Some(line) = lines.next() {
            let mut line = line.to_owned();
            // Who runs the tests, where, and with which key; a long name of a host breaks the line.
            if let Some((margin, starter)) = line.split_once("started by ") {
                let mut is_whole = starter.contains("SHA256:");
                while !is_whole && let Some(next) = lines.next() {
                    is_whole = next.contains("SHA256:");
                }
                line = format!("{margin}started by <user> on <host>, key <fingerprint>");
            }
            if let Some((margin, asked)) = line.split_once("asked    by") {
                if asked.trim().is_empty() {
                    lines.next();
                }
                line = format!("{margin}asked    by <user>@<host>");
            }
            // Where the machine has the program.
            if let Some((named, _)) =
                line.split_once(", /").filter(|_| line.trim_start().starts_with("agent "))
            {
                line = format!("{named}, <program>");
            }
            screen.push_str(normalised(&line).trim_end());
            screen.push('\n');
        }
        screen
    }
}

/// A line that a terminal would have to break. One long word, a line of JSON or a row of a Markdown table is not ours to break.
fn is_too_wide(line: &str, columns: usize) -> bool {
    line.chars().count() > columns && line.trim().contains(' ') && !line.starts_with(['{', '|'])
}

/// The line with a sign of the same kind for each id, time and hash.
fn normalised(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let is_inside = out.chars().next_back().is_some_and(|last| last.is_ascii_alphanumeric());
        let found = KINDS.iter().find_map(|(sign, length)| Some((sign, length(rest)?)));
        match found {
            Some((sign, length)) if !is_inside || letter == '+' => {
                out.push_str(sign);
                rest = rest.split_at(length).1;
            }
            _ => {
                out.push(letter);
                rest = rest.split_at(letter.len_utf8()).1;
            }
        }
    }
    out
}

type Length = fn(&str) -> Option<usize>;

const KINDS: &[(&str, Length)] = &[
    ("<n> s", |text| fits(text, "0.0 s").or_else(|| fits(text, "00.0 s"))),
    ("<time>", |text| fits(text, "0000-00-00T00:00:00.000Z").or_else(|| fits(text, "0000-00-00T00:00:00Z"))),
    ("<id>", |text| fits(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")),
    ("<id>", short_id),
    ("<age> ", |text| [" 0s ", "00s ", " 0m "].iter().find_map(|form| fits(text, form))),
    ("<age> ago", |text| ["0s ago", "00s ago", "0m ago"].iter().find_map(|form| fits(text, form))),
    ("<hash>", |text| fits(text, &"x".repeat(64)).or_else(|| fits(text, &"x".repeat(40)))),
    ("<random>", |text| fits(text, &"x".repeat(32))),
    ("+<key>", |text| fits(text, "+xxxxxxxx")),
];

/// The start of a UUID of this age, as long as the shortest that is printed or longer. The hyphen in it is what a hash or a key never
/// has.
fn short_id(text: &str) -> Option<usize> {
    let form = "01xxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    let lengths = ("01xxxxxx-xxxx".len()..form.len()).rev();
    lengths.into_iter().find_map(|length| fits(text, form.get(..length).unwrap()))
}

/// How long the text at the start is that has this form: `0` for a digit, `x` for a hexadecimal one.
fn fits(text: &str, form: &str) -> Option<usize> {
    let start = text.get(..form.len())?;
    let is_fit = start.chars().zip(form.chars()).all(|(letter, form)| match form {
        '0' => letter.is_ascii_digit(),
        'x' => letter.is_ascii_digit() || ('a'..='f').contains(&letter),
        form => letter == form,
    });
    let is_whole =
        !text.get(form.len()..).is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_hexdigit()));
    (is_fit && is_whole).then_some(form.len())
}
