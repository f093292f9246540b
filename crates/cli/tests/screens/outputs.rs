//! Who reads standard output: with `CREALEPH_OUTPUT=json` every command that reports prints JSON, with `text` words for a person. The
//! table has every command there is, compared with the generated reference.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::story::Story;

/// What a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A report: JSON for a program, words for a person.
    Report,
    /// A JSON document, for either.
    Json,
    /// A document that is taken as it is: a key, a diff, a script; or what a program printed.
    Document,
    /// Nothing; what it says is on standard error.
    Nothing,
}

use Form::{Document, Json, Nothing, Report};

const RULES: &str = "[[rule]]\nname = \"two\"\nos_requester = true\napprovals = 2\n";

/// What the table needs. `first` ends a command after its first line, `run` makes a run of a task and prints its id, `draft` prints a draft, `hook` a webhook, `session` signs in and prints the session, `admin` enrols the admin of a tenant.
const PRELUDE: &str = r#"
first() { exec 3< <("$@"); read -r line <&3; echo "$line"; kill $!; }
run() { crealeph work run --json --agent fixer "$@" | jq -r '.receipt_id // .run'; }
draft() { sed s/false/true/ request.json > draft.json; crealeph build draft.json --json | jq -r '.artifacts[0].id'; }
hook() { crealeph webhook create https://hooks.invalid/ --json | jq -r .webhookId; }
session() {
  exec 3< <(crealeph serve --listen 127.0.0.1:0 --json); read -r line <&3; U=$(echo "$line" | jq -r .url)
  K=$(crealeph key create --role reader --json | jq -r .token)
  curl -sf -H "Origin: $U" -d "token=$K" "$U/sign-in"; kill $!
  crealeph key sessions --limit 1 --json | jq -r .sessionId
}
admin() { ssh-keygen -q -t ed25519 -N '' -f "$1"; crealeph person add ana --key "$1.pub" --first-admin --tenant "$1" > /dev/null; }
"#;

/// Every command, and a line that ends with it. `$N` is another number in each pass.
const COMMANDS: &[(&str, Form, &str)] = &[
    ("init", Document, "crealeph init fresh$N"),
    ("validate", Report, "crealeph validate builder-request request.json"),
    ("schema", Json, "crealeph schema agent-input"),
    ("policy evaluate", Json, "crealeph policy evaluate $EXAMPLES/policy-input.json"),
    ("policy explain", Report, "crealeph policy explain $EXAMPLES/policy-input.json"),
    ("policy rules", Json, "crealeph policy rules"),
    ("policy backtest", Report, "crealeph policy backtest --thresholds $EXAMPLES/rules.toml"),
    ("snapshot", Report, "crealeph snapshot shop-17"),
    ("work run", Report, "crealeph work run --agent fixer \"echo $N > ran\""),
    ("work retry", Report, "R=$(run --max-files 1 \"touch a$N b$N\"); crealeph work retry $R --max-files 9"),
    ("work undo", Report, "R=$(run \"touch undone$N\"); crealeph work undo $R"),
    ("work from-tasks", Json, "crealeph work from-tasks @"),
    ("work status", Report, "crealeph work status"),
    ("work show", Report, "crealeph work show"),
    ("work logs", Report, "R=$(run \"echo said $N\"); crealeph work logs $R"),
    ("work diff", Document, "R=$(run \"touch diff$N\"); crealeph work diff $R"),
    ("work approve", Report, "R=$(run --hold \"touch good$N\"); crealeph work approve $R --reason good"),
    ("work reject", Report, "R=$(run --hold \"touch bad$N\"); crealeph work reject $R --reason bad"),
    ("work recover", Report, "crealeph work recover"),
    ("work clean", Report, "crealeph work clean --keep 1000"),
    ("work plan", Report, "crealeph work plan $EXAMPLES/work-items.json"),
    ("work verify", Report, "crealeph work verify @"),
    ("work key", Document, "crealeph work key"),
    (
        "work report-pending",
        Report,
        "CREALEPH_SERVER_KEY=crealeph_x crealeph work report-pending --report-to http://127.0.0.1:9",
    ),
    ("work replay", Report, "R=$(run \"touch replayed$N\"); crealeph work replay $R"),
    ("work export", Nothing, "crealeph work export @ exported$N"),
    ("ledger init", Nothing, "crealeph ledger init --ledger new$N.db"),
    ("ledger migrate", Report, "crealeph ledger migrate"),
    ("ledger tenants", Report, "crealeph ledger tenants"),
    ("ledger append", Report, "crealeph ledger append --print entries.jsonl"),
    (
        "ledger import",
        Report,
        "crealeph ledger export log$N; crealeph ledger init --ledger other$N.db; crealeph ledger import log$N --ledger other$N.db",
    ),
    ("ledger backup", Nothing, "crealeph ledger backup before$N.db"),
    ("ledger checkpoint", Document, "crealeph ledger checkpoint"),
    ("ledger key", Document, "crealeph ledger key"),
    ("ledger get", Json, "crealeph ledger get @"),
    ("ledger list", Report, "crealeph ledger list"),
    ("ledger tail", Report, "crealeph ledger tail --after 0 --limit 1"),
    ("ledger lineage", Report, "crealeph ledger lineage key:f"),
    ("ledger stats", Json, "crealeph ledger stats"),
    ("ledger export", Json, "crealeph ledger export"),
    ("ledger verify", Report, "crealeph ledger verify"),
    ("ledger prove", Json, "crealeph ledger prove @"),
    (
        "ledger verify-proof",
        Report,
        "crealeph ledger key > key$N; CREALEPH_OUTPUT=json crealeph ledger prove @ > proof$N; crealeph ledger verify-proof proof$N --key key$N",
    ),
    ("build", Report, "crealeph build request.json"),
    ("execution list", Report, "crealeph execution list"),
    ("execution show", Report, "crealeph execution show"),
    ("execution why", Report, "crealeph execution why"),
    ("execution replay", Report, "crealeph execution replay"),
    ("inbox", Report, "draft > /dev/null; crealeph inbox"),
    ("approve", Report, "crealeph approve $(draft) --by ana --reason good"),
    ("reject", Report, "crealeph reject $(draft) --by ana --reason bad"),
    ("approval why", Report, "crealeph approval why $(draft)"),
    (
        "person add",
        Report,
        "ssh-keygen -q -t ed25519 -N '' -f p$N; crealeph person add ana --key p$N.pub --first-admin --tenant p$N",
    ),
    ("person invite", Report, "admin i$N; crealeph person invite ben --tenant i$N --sign-with i$N"),
    ("person list", Report, "admin l$N; crealeph person list --tenant l$N"),
    ("person revoke", Report, "admin r$N; crealeph person revoke ana --tenant r$N --sign-with r$N"),
    ("rule set", Report, "admin s$N; crealeph rule set approval-rules.toml --tenant s$N --sign-with s$N"),
    ("rule show", Report, "crealeph rule show --tenant s$N"),
    ("rule test", Report, "crealeph rule test approval-rules.toml"),
    ("review list", Report, "draft > /dev/null; crealeph review list"),
    ("review show", Json, "crealeph review show $(draft)"),
    ("review approve", Report, "crealeph review approve $(draft) --by ana --reason good"),
    ("review reject", Report, "crealeph review reject $(draft) --by ana --reason bad"),
    ("robot list", Report, "crealeph robot list"),
    ("robot status", Report, "crealeph robot status shop-17"),
    ("serve", Report, "first crealeph serve --listen 127.0.0.1:0"),
    ("key create", Report, "crealeph key create --role reader"),
    ("key link", Report, "crealeph key link --role reader"),
    ("key list", Report, "crealeph key create --role reader > /dev/null; crealeph key list"),
    (
        "key revoke",
        Report,
        "K=$(crealeph key create --role reader --json | jq -r .keyId); crealeph key revoke $K",
    ),
    ("key sessions", Report, "session > /dev/null; crealeph key sessions"),
    ("key end-session", Report, "crealeph key end-session $(session)"),
    ("signer add", Report, "crealeph work key > added$N; crealeph signer add added$N --tenant a$N"),
    (
        "signer list",
        Report,
        "crealeph work key > listed$N; crealeph signer add listed$N > /dev/null; crealeph signer list",
    ),
    (
        "signer revoke",
        Report,
        "crealeph work key > lost$N; S=$(crealeph signer add lost$N --tenant v$N --json | jq -r .signerId); crealeph signer revoke $S --tenant v$N",
    ),
    ("webhook create", Report, "crealeph webhook create https://hooks.invalid/"),
    ("webhook list", Report, "hook > /dev/null; crealeph webhook list"),
    ("webhook deliveries", Report, "crealeph webhook deliveries $(hook)"),
    ("webhook test", Report, "crealeph webhook test $(hook)"),
    ("webhook enable", Report, "crealeph webhook enable $(hook)"),
    ("webhook delete", Report, "crealeph webhook delete $(hook)"),
    ("report", Report, "crealeph report"),
    ("usage", Report, "crealeph usage"),
    ("agent example", Json, "crealeph agent example < $EXAMPLES/agent-input.json"),
    ("agent check", Report, "crealeph agent check example@1 --case unicode"),
    ("sandbox run", Document, "crealeph sandbox run -- echo printed"),
    ("sandbox explain", Report, "crealeph sandbox explain -- true"),
    ("trust", Report, "crealeph trust --list"),
    ("doctor", Report, "crealeph doctor"),
    ("demo", Document, "crealeph demo --help"),
    ("verify-page", Document, "crealeph verify-page"),
    ("completions", Document, "crealeph completions bash"),
    ("man", Document, "crealeph man"),
];

/// The exit code of a line, its standard output and its standard error.
fn printed(story: &Story, line: &str, reader: &str, number: u8) -> (i32, String, String) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap();
    let mut command = story.command(&format!("exec </dev/null\n{PRELUDE}{line}"));
    command.env("EXAMPLES", examples).env("N", number.to_string()).env("CREALEPH_OUTPUT", reader);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn is_json(text: &str) -> bool {
    let is_value = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    is_value(text) || (!text.trim().is_empty() && text.lines().all(is_value))
}

/// Every command of the reference that has no commands of its own.
fn all_commands() -> BTreeSet<String> {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    let text = fs::read_to_string(reference).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let named: Vec<String> = headings
        .filter_map(|line| Some(line.split_once("crealeph ")?.1.trim_matches('`').to_owned()))
        .collect();
    let is_group = |name: &String| named.iter().any(|other| other.starts_with(&format!("{name} ")));
    named.iter().filter(|name| !is_group(name)).cloned().collect()
}

#[test]
fn every_command_prints_what_its_reader_takes() {
    let listed: BTreeSet<String> = COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(listed, all_commands());
    let story = Story::with_entries();
    story.write("approval-rules.toml", RULES);
    story.quietly("crealeph build request.json && crealeph work run --agent fixer true");
    let mut faults = Vec::new();
    for (name, form, line) in COMMANDS {
        for (number, reader) in [(1, "json"), (2, "text")] {
            let (code, stdout, stderr) = printed(&story, line, reader, number);
            let is_right = match (form, reader) {
                (Report, "text") => !stdout.trim().is_empty() && !is_json(&stdout),
                (Report | Json, _) => is_json(&stdout),
                (Document, _) => !stdout.is_empty(),
                (Nothing, _) => stdout.is_empty(),
            };
            if !is_right || code == 2 {
                faults.push(format!("{name}, {reader}, {form:?}, exit code {code}:\n{stdout}{stderr}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
