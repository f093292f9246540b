//! Errors read alike across all commands: what failed, on what, what next; one exit code and one stable code for each, as
//! text for people and as JSON for programs. Full disks, closed pipes and terminals are met in order.

#![cfg(test)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn shell(folder: &Path, line: &str) -> Ran {
    let programs = Path::new(env!("CARGO_BIN_EXE_crealeph")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(folder).env("PATH", path).env("USER", "reader");
    // Not in the workspace, and one for each folder.
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors").join(folder.file_name().unwrap());
    command.env("CREALEPH_TRUST", "1");
    command.env("XDG_STATE_HOME", state).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A folder with a configuration, a ledger with five entries, and files that are wrong in their ways.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let line = "crealeph init && crealeph ledger init && crealeph ledger append entries.jsonl && mkdir dir && : > empty \
                && printf 'not json \\377' > garbage && crealeph ledger key > key";
    let ran = shell(folder.path(), line);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    folder
}

/// Every place where a file is read, as `FILE`.
const READERS: &[&str] = &[
    "validate builder-request FILE",
    "validate --batch FILE",
    "validate agent-output request.json --context FILE",
    "policy evaluate FILE",
    "policy explain FILE",
    "policy evaluate request.json --rules FILE",
    "policy rules --rules FILE",
    "policy backtest --thresholds FILE",
    "snapshot --from FILE",
    "snapshot shop-17 --rules FILE",
    "work plan FILE",
    "work run FILE",
    "ledger append FILE",
    "ledger import FILE",
    "ledger verify FILE",
    "ledger verify --key FILE",
    "ledger verify --checkpoint FILE --key key",
    "ledger verify-proof FILE --key key",
    "ledger verify-proof request.json --key FILE",
    "build FILE",
    "build request.json --rules FILE",
];

#[test]
fn a_file_that_cannot_be_read_is_named_alike_by_every_command() {
    let folder = project();
    let kinds = [
        ("nosuch", "not_found", "there is no file `nosuch`; check the path"),
        ("dir", "is_directory", "`dir` is a directory; name a file in it"),
        (
            "/proc/self/mem",
            "unreadable",
            "cannot read `/proc/self/mem`: Input/output error (os error 5); check its permissions",
        ),
    ];
    let mut faults = Vec::new();
    for reader in READERS {
        for (file, code, says) in kinds {
            let line = format!("crealeph {}", reader.replace("FILE", file));
            faults.extend(judged(folder.path(), &line, 2, code, says));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What is wrong with how a command fails, as text and as JSON.
fn judged(folder: &Path, line: &str, exit: i32, code: &str, says: &str) -> Option<String> {
    let plain = shell(folder, line);
    let takes_json =
        !line.contains("policy rules") && !line.contains("schema") && !line.contains("crealeph init");
    let json = if takes_json { shell(folder, &format!("{line} --json")) } else { shell(folder, line) };
    let is_always_json =
        line.contains("--batch") || line.contains("policy evaluate") || line.contains("policy rules");
    let text = if is_always_json { joined(&plain.stderr) } else { plain.stderr.replace("\nhint: ", "; ") };
    let is_text = text.contains(says) && (is_always_json || plain.stderr.contains("error: "));
    let error = error_of(&json.stderr);
    let is_json = !takes_json || (error["code"] == code && joined(&json.stderr).contains(says));
    let exits = (plain.code, json.code) == (exit, exit);
    let is_fine = is_text && is_json && exits && !plain.stderr.contains("panicked");
    (!is_fine).then(|| {
        format!(
            "{line}\n  exit codes {} and {}, wanted {exit}; wanted {code}: {says}\n  text: {}\n  json: {}",
            plain.code, json.code, plain.stderr, json.stderr
        )
    })
}

fn error_of(stderr: &str) -> Value {
    let error: Option<Value> = stderr.lines().last().and_then(|line| serde_json::from_str(line).ok());
    error.unwrap_or_default()["error"].clone()
}

/// The message of a JSON error, and after a semicolon its hint, if it has one.
fn joined(stderr: &str) -> String {
    let error = error_of(stderr);
    let message = error["message"].as_str().unwrap_or_default();
    match error["hint"].as_str() {
        Some(hint) => format!("{message}; {hint}"),
        None => message.to_owned(),
    }
}

#[test]
fn each_mistake_has_its_answer() {
    let folder = project();
    let cases = [
        // Names that are not known.
        (
            "crealeph ledger get nope",
            1,
            "unknown_id",
            "there is no entry `nope` of tenant `local`; check the id",
        ),
        ("crealeph ledger get key:nope", 1, "unknown_id", "there is no entry `key:nope`"),
        ("crealeph ledger lineage nope", 1, "unknown_id", "there is no entry `nope`"),
        ("crealeph ledger prove nope", 1, "unknown_id", "there is no entry `nope`"),
        ("crealeph ledger list --cursor nope", 2, "ledger_bad_cursor", "`nope` is not a cursor"),
        ("crealeph ledger list --from yesterday", 2, "bad_timestamp", "write it as `2025-01-19T10:00:00Z`"),
        ("crealeph ledger list --tenant ' '", 2, "bad_name", "` ` is not a valid tenant"),
        ("crealeph execution show nope", 1, "unknown_id", "no execution `nope` of this tenant; check the id"),
        ("crealeph execution why nope", 1, "unknown_id", "no execution `nope` of this tenant; check the id"),
        (
            "crealeph execution replay nope",
            1,
            "unknown_id",
            "no execution `nope` of this tenant; check the id",
        ),
        ("crealeph review show nope", 1, "unknown_id", "no entry `nope` of this tenant; find drafts"),
        ("crealeph review approve nope --reason x", 1, "unknown_id", "no entry `nope` of this tenant"),
        ("crealeph snapshot other", 1, "SNAPSHOT_EMPTY", "no entry of robot `other` counts; append"),
        ("crealeph snapshot", 2, "bad_name", "the robot is missing; name one"),
        (
            "crealeph snapshot request.json",
            2,
            "bad_name",
            "is a file, not a known robot; read the entries in it with --from",
        ),
        (
            "crealeph execution list --state done",
            2,
            "usage",
            "there is no such state; the states are planned, running",
        ),
        ("crealeph ledger append request.json", 1, "invalid", "one whole object per line"),
        (
            "crealeph agent check nope@1",
            2,
            "unknown_agent",
            "no agent `nope@1` in `crealeph.toml`; known agents: planner@1",
        ),
        ("crealeph agent check --case nope planner@1", 2, "bad_option", "leave --case out"),
        // A tenant that has nothing.
        ("crealeph ledger verify --tenant other", 2, "no_log", "tenant `other` has no entry in"),
        ("crealeph ledger export --tenant other", 2, "no_log", "check --tenant"),
        ("crealeph snapshot shop-17 --tenant other", 1, "SNAPSHOT_EMPTY", "check the robot and --tenant"),
        // No ledger, or none.
        (
            "crealeph ledger list --ledger nosuch",
            2,
            "ledger_missing",
            "no ledger at `nosuch`; create one with",
        ),
        ("crealeph build request.json --ledger nosuch", 2, "ledger_missing", "no ledger at `nosuch`"),
        ("crealeph snapshot shop-17 --ledger nosuch", 2, "ledger_missing", "no ledger at `nosuch`"),
        ("crealeph execution list --ledger garbage", 2, "ledger_foreign", "`garbage` is not a ledger"),
        ("crealeph review list --ledger dir", 2, "ledger_foreign", "`dir` is not a ledger"),
        (
            "crealeph policy backtest --thresholds empty --ledger empty",
            2,
            "ledger_foreign",
            "the file is empty",
        ),
        ("crealeph ledger init", 2, "ledger_exists", "already exists; nothing was changed"),
        (
            "crealeph ledger checkpoint --keys nosuch",
            2,
            "ledger_keys",
            "no signing key in `nosuch`; create one",
        ),
        // What is in the way, or has no place.
        (
            "crealeph ledger export key",
            2,
            "taken",
            "`key` already exists, and nothing was written; move it away",
        ),
        ("crealeph ledger backup key", 2, "ledger_exists", "`key` already exists"),
        (
            "crealeph ledger export nosuch/file",
            2,
            "unwritable",
            "cannot write `nosuch/file`: No such file or directory (os error 2); check that the folder",
        ),
        ("crealeph init .", 2, "taken", "already exists, and nothing was written"),
        // Keys and proofs.
        ("crealeph ledger verify --key empty", 2, "bad_key", "`empty` contains no public key"),
        ("crealeph ledger verify --key garbage", 2, "not_text", "`garbage` is not UTF-8 text"),
        ("crealeph ledger verify --key request.json", 2, "bad_key", "the public key cannot be used"),
        (
            "crealeph ledger verify-proof request.json --key key",
            1,
            "unproven",
            "`request.json` proves nothing",
        ),
        // Documents.
        ("crealeph policy explain garbage", 1, "invalid", "`garbage` is not a valid policy-input"),
        (
            "crealeph policy explain request.json --rules garbage",
            2,
            "bad_rules",
            "`garbage` is not a rules file",
        ),
        ("crealeph work plan garbage", 1, "invalid", "`garbage` is not a valid list of work items"),
        ("crealeph ledger append garbage", 1, "invalid", "`garbage, line 1` is not a valid entry"),
        ("crealeph ledger import empty", 1, "ledger_bad_export", "the export is refused at line 1"),
        ("crealeph snapshot --from empty", 2, "no_entries", "no entry in `empty`; give entries"),
        (
            "crealeph validate agent-output request.json --context garbage",
            2,
            "bad_context",
            "`garbage` is not a context",
        ),
        (
            "crealeph validate agent-output request.json --context request.json",
            2,
            "bad_context",
            "no context has such a key",
        ),
        // Work.
        ("crealeph work run 'a task'", 2, "not_found", "use --agent NAME to run a task given in words"),
        ("USER= crealeph work approve nope --reason x", 2, "bad_name", "USER is not set; give it with --by"),
        ("crealeph work verify crealeph.toml", 2, "bad_key", "give the public key that you saved with --key"),
        ("crealeph ledger backup no/such/copy.db", 2, "ledger_failed", "no folder to write it into"),
        ("crealeph work show", 1, "unknown_run", "there is no run in this workspace yet"),
        ("crealeph work show nope", 1, "unknown_run", "there is no run `nope` in this workspace; see"),
        ("crealeph work approve nope --reason x", 1, "unknown_run", "there is no run `nope`"),
        ("crealeph work run garbage", 1, "invalid", "`garbage` is not a valid list of work items"),
        ("crealeph work run --agent nope 'a task'", 2, "unknown_agent", "there is no agent `nope`"),
        ("crealeph work from-tasks nope", 1, "unknown_id", "execution `nope` made no task"),
        ("crealeph work verify request.json --key empty", 2, "bad_key", "`empty` contains no public key"),
        // The sandbox.
        (
            "crealeph sandbox run --read nosuch --json -- true",
            2,
            "SANDBOX_PATH",
            "cannot grant `nosuch`; check",
        ),
        (
            "crealeph sandbox run --preset cobol --json -- true",
            2,
            "SANDBOX_INVALID_REQUEST",
            "known are python",
        ),
        ("crealeph sandbox run --secret NOT_SET_HERE --json -- true", 2, "SANDBOX_INVALID_REQUEST", "set it"),
        // Arguments.
        ("crealeph ledger list --robt x", 2, "usage", "similar argument exists: '--robot'"),
        ("crealeph ledger lst", 2, "usage", "similar subcommand exists: 'list'"),
        ("crealeph validate agent-outpt request.json", 2, "usage", "did you mean `agent-output`?"),
    ];
    let mut faults = Vec::new();
    for (line, exit, code, says) in cases {
        faults.extend(match line.contains("--json") {
            // The flag comes before the command's own.
            true => {
                let ran = shell(folder.path(), line);
                let error: Value = serde_json::from_str(ran.stderr.trim()).unwrap_or(Value::Null);
                let is_fine = ran.code == exit && error["error"]["code"] == code && ran.stderr.contains(says);
                (!is_fine).then(|| format!("{line}\n  {} {}", ran.code, ran.stderr))
            }
            false => judged(folder.path(), line, exit, code, says),
        });
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_misspelt_name_in_the_configuration_is_answered_with_the_nearest() {
    let folder = project();
    let path = folder.path().join("crealeph.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    // An unknown section is an error for every command; an unknown key for those that read its section.
    let everybody = [
        "ledger list",
        "ledger init --ledger other",
        "snapshot shop-17",
        "build request.json",
        "execution list",
        "review list",
        "robot status shop-17",
        "policy backtest --thresholds empty",
        "agent check planner@1",
        "work run items.json",
    ];
    let mut cases: Vec<(&str, &str, &str)> =
        everybody.iter().map(|line| ("[bulder]", *line, "did you mean `builder`?")).collect();
    cases.extend([
        (
            "[ledger]\nlocaton = 'x'",
            "ledger list",
            "[ledger]: the key `locaton` is not known here; did you mean `location`?",
        ),
        (
            "[builder]\nrule = 'x'",
            "build request.json",
            "[builder]: the key `rule` is not known here; did you mean `rules`?",
        ),
        ("[tenants.a]\nrobot = {}", "build request.json", "did you mean `robots`?"),
        ("[agents.'b@1']\nkind = 'exmple'", "build request.json", "did you mean `example`?"),
        ("[agents.'b@1']\nkind = 'example'\ntimeout = 1", "agent check b@1", "did you mean `timeout_ms`?"),
        ("[work.agent.a]", "work run items.json", "did you mean `agents`?"),
        (
            "[work.agents.a]\nagent_id = 'agent-1'\ncomand = 'x'",
            "work run items.json",
            "did you mean `command`?",
        ),
        ("not toml", "ledger list", "`crealeph.toml` is not TOML"),
    ]);
    let mut faults = Vec::new();
    for (text, line, says) in cases {
        std::fs::write(&path, format!("{good}\n{text}\n")).unwrap();
        let line = format!("echo '[]' > items.json; crealeph {line}");
        faults.extend(judged(folder.path(), &line, 2, "bad_configuration", says));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

const PRINTERS: &[&str] = &[
    "--help",
    "--version",
    "ledger list",
    "ledger export",
    "ledger verify",
    "ledger checkpoint",
    "ledger append entries.jsonl",
    "schema agent-input",
    "man",
    "completions bash",
    "snapshot shop-17",
    "build request.json",
    "execution list",
    "doctor",
    "validate builder-request request.json",
    "policy rules",
    "agent check --inputs",
    "sandbox run -- echo printed",
];

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_not() {
    let folder = project();
    for printer in PRINTERS {
        let ran = shell(folder.path(), &format!("crealeph {printer} > /dev/full"));
        assert_eq!(ran.code, 2, "{printer}: {}", ran.stderr);
        let says = "cannot write to standard output: No space left on device";
        assert!(ran.stderr.contains(says), "{printer}: {}", ran.stderr);
        let ran = shell(folder.path(), &format!("crealeph {printer} | true; exit ${{PIPESTATUS[0]}}"));
        assert_eq!(ran.code, 0, "{printer}: {}", ran.stderr);
        assert!(!ran.stderr.contains("error"), "{printer}: {}", ran.stderr);
        // No one has to hear it either.
        let ran = shell(folder.path(), &format!("crealeph {printer} 2> /dev/full"));
        assert_eq!(ran.code, 0, "{printer}: {}", ran.stdout);
    }
}

#[test]
fn work_is_done_even_if_no_one_reads_the_output() {
    let folder = project();
    let line = r#"for n in $(seq 2000); do
        echo "{\"robotId\":\"r\",\"module\":\"m\",\"source\":\"s\",\"type\":\"signal\",\"state\":\"final\",\"payload\":{\"n\":$n}}"
        done > many.jsonl; crealeph ledger append --tenant many many.jsonl | true; exit ${PIPESTATUS[0]}"#;
    let ran = shell(folder.path(), line);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let stats = shell(folder.path(), "crealeph ledger stats --tenant many").stdout;
    assert!(stats.contains("\"entries\":2000"), "{stats}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let folder = project();
    let wrong = "crealeph ledger lst";
    assert!(!shell(folder.path(), wrong).stderr.contains('\x1b'), "a pipe");
    let on_terminal = |variables: &str, line: &str| {
        shell(folder.path(), &format!("{variables} script -qec '{line}' /dev/null")).stdout
    };
    assert!(on_terminal("TERM=xterm-256color", wrong).contains('\x1b'), "a terminal");
    for line in
        [wrong, "crealeph --help", "crealeph doctor", "crealeph snapshot shop-17", "crealeph ledger verify"]
    {
        let printed = on_terminal("NO_COLOR=1 TERM=xterm-256color", line);
        assert!(!printed.contains('\x1b') && !printed.is_empty(), "{line}: {printed:?}");
    }
}
