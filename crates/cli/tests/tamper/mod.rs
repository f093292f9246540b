//! What an intruder may do to a ledger, and what `verify` says of it: one table for both databases. docs/ledger.md shows the
//! same table, and the tests hold the two together.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// How many entries the ledger has that is tampered with; a checkpoint follows every hundred, and the last.
pub const ENTRIES: usize = 280;

/// What `verify` says: a kind, or `ok`; and of which entry, if of one.
pub type Verdict = (&'static str, Option<u64>);

/// One kind of change.
pub struct Change {
    /// As the documentation names it.
    pub what: &'static str,
    /// How it is done; empty where it cannot be.
    pub sqlite: &'static str,
    pub postgresql: &'static str,
    /// What `verify` says alone, with a key that was kept, and with a checkpoint that was kept as well.
    pub alone: Verdict,
    pub with_key: Verdict,
    pub with_checkpoint: Verdict,
}

const fn found(
    what: &'static str,
    sqlite: &'static str,
    postgresql: &'static str,
    verdict: Verdict,
) -> Change {
    Change { what, sqlite, postgresql, alone: verdict, with_key: verdict, with_checkpoint: verdict }
}

const fn changed(seq: u64) -> Verdict {
    ("changed", Some(seq))
}

const EXTRA: Verdict = ("extra", None);
const SCHEMA: Verdict = ("schema", None);
const OK: Verdict = ("ok", None);

/// No change at all.
pub const NOTHING: Change = found("nothing", "", "", OK);

/// SQLite numbers rows by log and entry; the ledger's one log is number 1.
pub const CHANGES: &[Change] = &[
    found(
        "an entry's payload",
        "UPDATE entries SET payload = '{\"n\":1000}' WHERE place & 0xffffffff = 42",
        "UPDATE entries SET payload = '{\"n\":1000}' WHERE seq = 42",
        changed(42),
    ),
    found(
        "an entry's time, robot, key or lineage",
        "UPDATE entries SET created_at = created_at + 1 WHERE place & 0xffffffff = 42",
        "UPDATE entries SET created_at = created_at + 1 WHERE seq = 42",
        changed(42),
    ),
    found(
        "an entry and its leaf hash",
        "UPDATE entries SET robot = 'q', leaf = zeroblob(32) WHERE place & 0xffffffff = 42",
        "UPDATE entries SET robot = 'q', leaf = decode(repeat('00', 32), 'hex') WHERE seq = 42",
        changed(42),
    ),
    found(
        "bytes that are no text",
        "UPDATE entries SET payload = CAST(x'7bff7d' AS TEXT) WHERE place & 0xffffffff = 42",
        "",
        ("unreadable", Some(42)),
    ),
    found(
        "an entry removed",
        "DELETE FROM entries WHERE place & 0xffffffff = 42",
        "DELETE FROM entries WHERE seq = 42",
        ("missing", Some(42)),
    ),
    found(
        "the newest entry removed",
        "DELETE FROM entries WHERE place & 0xffffffff = 280",
        "DELETE FROM entries WHERE seq = 280",
        ("missing", Some(280)),
    ),
    found(
        "an entry added after the newest, or under another number",
        "CREATE TEMP TABLE copy AS SELECT * FROM entries WHERE place & 0xffffffff = 42; \
         UPDATE copy SET place = place - 42 + 281, id = 'x', key = 'x'; INSERT INTO entries SELECT * FROM copy",
        "CREATE TEMP TABLE copy AS SELECT * FROM crealeph.entries WHERE seq = 42; \
         UPDATE copy SET seq = 281, id = 'x', key = 'x'; INSERT INTO entries SELECT * FROM copy",
        ("extra", Some(281)),
    ),
    found(
        "an entry put out of sight in its indexes (`log`)",
        "UPDATE entries SET log = 9 WHERE place & 0xffffffff = 42",
        "",
        changed(42),
    ),
    found(
        "an entry taken out of an index of its table (with `amcheck`)",
        "",
        "CREATE TEMP TABLE copy AS SELECT * FROM crealeph.entries WHERE seq = 42; \
         UPDATE pg_index SET indisready = false, indisvalid = false WHERE indexrelid = 'entries_by_kind'::regclass; \
         DELETE FROM entries WHERE seq = 42; INSERT INTO entries SELECT * FROM copy; \
         UPDATE pg_index SET indisready = true, indisvalid = true WHERE indexrelid = 'entries_by_kind'::regclass",
        ("changed", None),
    ),
    found(
        "an entry moved to another tenant",
        "",
        "UPDATE entries SET tenant = 'other' WHERE seq = 42",
        ("missing", Some(42)),
    ),
    found(
        "what its lineage reaches (`reach_…`)",
        "UPDATE entries SET reach_signal = 1 WHERE place & 0xffffffff = 50",
        "UPDATE entries SET reach_signal = 1 WHERE seq = 50",
        changed(50),
    ),
    found(
        "the execution or attempt it is found by",
        "UPDATE entries SET execution = 'x', attempt = 3 WHERE place & 0xffffffff = 50",
        "UPDATE entries SET execution = 'x', attempt = 3 WHERE seq = 50",
        changed(50),
    ),
    found(
        "the newest of its kind, as snapshots find it (`newest`, `used`)",
        "UPDATE entries SET newest = 1 WHERE place & 0xffffffff = 50",
        "UPDATE entries SET used = NULL WHERE seq = 50",
        changed(50),
    ),
    found(
        "an edge removed",
        "DELETE FROM edges WHERE child & 0xffffffff = 50",
        "DELETE FROM edges WHERE child = 50",
        changed(50),
    ),
    found(
        "an edge added",
        "INSERT INTO edges SELECT place, place + 9 FROM entries WHERE place & 0xffffffff = 50",
        "INSERT INTO edges VALUES ('local', 50, 59)",
        EXTRA,
    ),
    found(
        "a tile changed or removed",
        "UPDATE tiles SET hashes = zeroblob(8192)",
        "DELETE FROM tiles",
        changed(256),
    ),
    found(
        "a tile added",
        "INSERT INTO tiles SELECT log, 3, 0, root, hashes FROM tiles",
        "INSERT INTO tiles SELECT tenant, 3, 0, root, hashes FROM tiles",
        EXTRA,
    ),
    found(
        "the head's size",
        "UPDATE logs SET size = 279, peaks = zeroblob(32 * 5)",
        "UPDATE logs SET size = 279, peaks = decode(repeat('00', 32 * 5), 'hex')",
        ("missing", Some(280)),
    ),
    found(
        "the head's hashes",
        "UPDATE logs SET peaks = zeroblob(32 * 3)",
        "UPDATE logs SET peaks = decode(repeat('00', 32 * 3), 'hex')",
        ("changed", None),
    ),
    found(
        "the head's time",
        "UPDATE logs SET last_at = last_at + 1",
        "UPDATE logs SET last_at = last_at + 1",
        ("changed", None),
    ),
    found(
        "the size or root of a checkpoint",
        "UPDATE checkpoints SET root = zeroblob(32) WHERE size = 100",
        "UPDATE checkpoints SET root = decode(repeat('00', 32), 'hex') WHERE size = 100",
        ("changed", None),
    ),
    found(
        "a checkpoint's signature",
        "UPDATE checkpoints SET note = substr(note, 1, length(note) - 9) || \
         CASE substr(note, -9, 1) WHEN 'A' THEN 'B' ELSE 'A' END || substr(note, -8) WHERE size = 100",
        "UPDATE checkpoints SET note = left(note, length(note) - 9) || \
         CASE left(right(note, 9), 1) WHEN 'A' THEN 'B' ELSE 'A' END || right(note, 8) WHERE size = 100",
        ("forged", Some(100)),
    ),
    Change {
        what: "the name in a checkpoint's signature",
        sqlite: "UPDATE checkpoints SET note = replace(note, '\u{2014} crealeph', '\u{2014} drealeph') WHERE size = 100",
        postgresql: "UPDATE checkpoints SET note = replace(note, '\u{2014} crealeph', '\u{2014} drealeph') WHERE size = 100",
        alone: ("forged", Some(100)),
        with_key: ("unsigned", Some(100)),
        with_checkpoint: ("unsigned", Some(100)),
    },
    Change {
        what: "a checkpoint of more entries than there are",
        sqlite: "INSERT INTO checkpoints SELECT log, 300, zeroblob(32), substr(note, 1, instr(note, char(10))) || '300' || char(10) || \
                 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=' || char(10) || char(10) || '\u{2014} ' || \
                 substr(note, 1, instr(note, char(10)) - 1) || ' AAAAAAAA' || char(10) FROM checkpoints WHERE size = 100",
        postgresql: "INSERT INTO checkpoints SELECT tenant, 300, decode(repeat('00', 32), 'hex'), split_part(note, chr(10), 1) || chr(10) \
                     || '300' || chr(10) || 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=' || chr(10) || chr(10) || '\u{2014} ' || \
                     split_part(note, chr(10), 1) || ' AAAAAAAA' || chr(10) FROM checkpoints WHERE size = 100",
        alone: ("missing", Some(281)),
        with_key: ("unsigned", Some(280)),
        with_checkpoint: ("unsigned", Some(280)),
    },
    found(
        "a checkpoint removed",
        "DELETE FROM checkpoints WHERE size = 100",
        "DELETE FROM checkpoints WHERE size = 100",
        OK,
    ),
    found(
        "rows of a log that does not exist",
        "INSERT INTO tiles SELECT 7, level, number, root, hashes FROM tiles",
        "",
        EXTRA,
    ),
    found(
        "a trigger dropped or changed",
        "DROP TRIGGER entries_stay",
        "ALTER TABLE entries DISABLE TRIGGER entries_stay",
        SCHEMA,
    ),
    found("an index dropped or changed", "DROP INDEX entries_by_kind", "DROP INDEX entries_by_kind", SCHEMA),
    found(
        "a table, trigger or view added",
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN SELECT 1; END",
        "CREATE TABLE crealeph.more (a int)",
        SCHEMA,
    ),
    found("a policy dropped or changed", "", "ALTER POLICY own_tenant ON entries USING (true)", SCHEMA),
    found(
        "a policy that binds a login dropped or changed",
        "",
        "SELECT bind_login('clerk', 'local'); DROP POLICY bound_login ON entries",
        SCHEMA,
    ),
    found("a right given", "", "GRANT UPDATE ON crealeph.entries TO PUBLIC", SCHEMA),
    found(
        "a lease",
        "INSERT INTO leases VALUES ('local', 'x', 'x', 1, 1, 1, '')",
        "INSERT INTO leases VALUES ('local', 'x', 'x', 1, 1, 1)",
        OK,
    ),
];

/// The line of entry `number`, from 0, which depends on the one before.
pub fn line(number: usize) -> String {
    let kind = ["signal", "fusion", "idea", "copy", "benchmark", "playbook"][number % 6];
    let on = match number {
        0 => String::new(),
        _ => format!(",\"lineage\":{{\"dependsOnLedgerIds\":[\"key:k{}\"]}}", number - 1),
    };
    format!(
        "{{\"robotId\":\"r\",\"module\":\"m\",\"source\":\"s\",\"type\":\"{kind}\",\"state\":\"final\",\
         \"payload\":{{\"n\":{number}}},\"key\":\"k{number}\"{on}}}\n"
    )
}

/// Fills a ledger through `run`, which runs a `ledger` command that must succeed and gives its output; returns the kept
/// checkpoint and the kept key.
pub fn fill(run: impl Fn(&[&str], &str) -> String) -> (String, String) {
    let mut kept = String::new();
    for from in (0..ENTRIES).step_by(100) {
        run(&["append"], &(from..ENTRIES.min(from + 100)).map(line).collect::<String>());
        kept = run(&["checkpoint"], "");
    }
    (kept, run(&["key"], ""))
}

/// Compares what `verify` says, run in each of the three ways, with the table.
pub fn check(change: &Change, run: impl Fn(&[&str]) -> (i32, String, String)) {
    let ways: [(&[&str], Verdict); 3] = [
        (&["verify"], change.alone),
        (&["verify", "--key", "saved.key"], change.with_key),
        (&["verify", "--key", "saved.key", "--checkpoint", "saved.checkpoint"], change.with_checkpoint),
    ];
    for (args, (kind, seq)) in ways {
        let (code, stdout, stderr) = run(args);
        let printed = format!("{}, {args:?}: {stdout}{stderr}", change.what);
        let said: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{printed}"));
        if kind == "ok" {
            assert_eq!((code, &said["ok"]), (0, &Value::Bool(true)), "{printed}");
        } else {
            assert_eq!(
                (code, said["kind"].as_str(), said["seq"].as_u64()),
                (1, Some(kind), seq),
                "{printed}"
            );
            assert!(said["message"].as_str().unwrap().contains("; "), "it says what to do: {printed}");
        }
    }
}

/// The rows of the table in the documentation: what was changed, and what is said of it in the three ways.
pub fn documented() -> BTreeMap<String, [String; 3]> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ledger.md");
    let page = fs::read_to_string(page).unwrap();
    let table = page.split("\n| change |").nth(1).expect("docs/ledger.md has the table of changes");
    let table = table.split("\n\n").next().unwrap();
    let cells =
        |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    table
        .lines()
        .skip(2)
        .map(|row| {
            let [what, alone, with_key, with_checkpoint, ..] = <[String; 4]>::try_from(cells(row)).unwrap();
            (what, [alone, with_key, with_checkpoint])
        })
        .collect()
}
