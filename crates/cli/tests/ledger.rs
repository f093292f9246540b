//! The ledger as a user meets it: the commands, and what `verify` says when someone has been at the file. Tampering is
//! done with the sqlite3 program, as an intruder would.

#![cfg(test)]

mod tamper;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A folder with a ledger, gone when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ledger-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// A ledger of `count` entries, each based on the one before, a checkpoint after every hundred.
    fn with_entries(name: &str, count: usize) -> Scratch {
        let scratch = Scratch::new(name);
        scratch.good(&["init"], "");
        for from in (0..count).step_by(100) {
            let lines: String = (from..count.min(from + 100)).map(line).collect();
            scratch.good(&["append"], &lines);
            scratch.good(&["checkpoint"], "");
        }
        scratch
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
        command.arg("ledger").args(args).current_dir(&self.0);
        command.env_remove("CREALEPH_LEDGER").env_remove("CREALEPH_TENANT").env_remove("CREALEPH_KEYS");
        command.env("XDG_STATE_HOME", self.0.join("state")).env("CREALEPH_TRUST", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str], stdin: &str) -> (i32, String, String) {
        ended(self.command(args), stdin)
    }

    /// Runs a command that must succeed, and gives its standard output.
    fn good(&self, args: &[&str], stdin: &str) -> String {
        let (code, stdout, stderr) = self.run(args, stdin);
        assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
        stdout
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.join(name), content).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.0.join(".crealeph/ledger.db")
    }

    /// Changes the file behind the ledger's back, its triggers put out of the way.
    fn tamper(&self, sql: &str) {
        let off = "DROP TRIGGER entries_stay; DROP TRIGGER entries_remain; DROP TRIGGER entries_are_new; \
                   DROP TRIGGER logs_only_grow; DROP TRIGGER tiles_stay; DROP TRIGGER edges_remain;";
        let done = Command::new("sqlite3").arg(self.file()).arg(format!("{off} {sql}")).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// What `verify` finds: the kind, and the entry it names.
    fn verdict(&self, args: &[&str]) -> (String, u64, String) {
        let (code, stdout, stderr) = self.run(&[&["verify"], args].concat(), "");
        assert_eq!(code, 1, "{stdout}{stderr}");
        let found: Value = serde_json::from_str(&stdout).unwrap();
        let seq = found["seq"].as_u64().unwrap_or_default();
        (found["kind"].as_str().unwrap().to_owned(), seq, found["message"].as_str().unwrap().to_owned())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ended(mut command: Command, stdin: &str) -> (i32, String, String) {
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = stdin.as_bytes().to_vec();
    let feeder = std::thread::spawn(move || {
        let _ = input.write_all(&bytes);
    });
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The line of entry `number`, from 0, which is based on the one before.
fn line(number: usize) -> String {
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

#[test]
fn entries_are_appended_once_and_read_back() {
    let scratch = Scratch::with_entries("append", 8);
    let again = scratch.good(&["append"], &(0..10).map(line).collect::<String>());
    let answers: Vec<Value> = again.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let repeats: Vec<bool> = answers.iter().map(|answer| answer["repeat"].as_bool().unwrap()).collect();
    assert_eq!(repeats, [true, true, true, true, true, true, true, true, false, false]);
    let got: Value = serde_json::from_str(&scratch.good(&["get", "key:k3"], "")).unwrap();
    assert_eq!((&got["payload"]["n"], &got["seq"], &got["id"]), (&3.into(), &4.into(), &answers[3]["id"]));
    assert_eq!(scratch.good(&["list", "--type", "idea"], "").lines().count(), 2);
    assert_eq!(scratch.good(&["list", "--newest", "--limit", "3"], "").lines().count(), 3);
    assert_eq!(scratch.good(&["lineage", "key:k3"], "").lines().count(), 3);
    assert_eq!(scratch.good(&["lineage", "key:k3", "--down", "--depth", "2"], "").lines().count(), 2);
    assert_eq!(scratch.good(&["tail", "--after", "7", "--limit", "2"], "").lines().count(), 2);
    let stats: Value = serde_json::from_str(&scratch.good(&["stats"], "")).unwrap();
    assert_eq!((&stats["entries"], &stats["edges"]), (&10.into(), &9.into()));
    assert_eq!(scratch.run(&["get", "nothing"], "").0, 1);
    assert_eq!(scratch.run(&["init"], "").0, 2);
}

#[test]
fn a_refused_line_is_named_and_the_lines_before_it_are_kept() {
    let scratch = Scratch::with_entries("refused", 2);
    let conflict = line(1).replace("\"n\":1", "\"n\":7");
    let (code, stdout, stderr) =
        scratch.run(&["append"], &format!("{}{}{conflict}{}", line(2), line(3), line(4)));
    assert_eq!((code, stdout.lines().count()), (1, 2), "{stderr}");
    assert!(
        stderr.contains("line 3") && stderr.contains("IDEMPOTENCY_CONFLICT") && stderr.contains("/payload/n"),
        "{stderr}"
    );
    let forged = line(5).replace("\"key\":\"", "\"key\":\"execution_record:");
    let (code, stdout, stderr) = scratch.run(&["append"], &format!("{}{conflict}{forged}", line(4)));
    assert_eq!((code, stdout.lines().count()), (1, 1), "{stderr}");
    assert!(
        stderr.contains("line 2") && stderr.contains("IDEMPOTENCY_CONFLICT"),
        "the first is named: {stderr}"
    );
    let (code, stdout, stderr) = scratch.run(&["append"], &format!("{}{forged}", line(5)));
    assert_eq!((code, stdout.lines().count()), (1, 1), "{stderr}");
    assert!(stderr.contains("line 2") && stderr.contains("is reserved"), "{stderr}");
    let (code, _, stderr) = scratch.run(&["append"], "{\"robotId\":\"r\"}\n");
    assert!(code == 1 && stderr.contains("line 1") && stderr.contains("`type` is missing"), "{stderr}");
    let (code, _, stderr) = scratch.run(&["append", "--ledger", "nowhere.db"], &line(0));
    assert!(code == 2 && stderr.contains("nowhere.db") && stderr.contains("ledger init"), "{stderr}");
}

#[test]
fn the_place_comes_from_flag_environment_or_configuration() {
    let scratch = Scratch::new("place");
    scratch.write("crealeph.toml", "[ledger]\nlocation = \"a.db\"\ntenant = \"t\"\n");
    scratch.good(&["init"], "");
    scratch.good(&["append"], &line(0));
    assert!(scratch.0.join("a.db").exists() && scratch.0.join("a.db.keys").is_dir());
    assert!(scratch.good(&["get", "key:k0"], "").contains("\"tenantId\":\"t\""));
    assert_eq!(scratch.run(&["get", "key:k0", "--tenant", "other"], "").0, 1);
    let mut command = scratch.command(&["stats"]);
    command.env("CREALEPH_LEDGER", "b.db");
    assert!(ended(command, "").2.contains("b.db"));
}

#[test]
fn a_snapshot_is_the_same_from_the_ledger_and_from_a_file() {
    let scratch = Scratch::with_entries("snapshot", 30);
    scratch.write("entries.jsonl", &scratch.good(&["list"], ""));
    let snapshot = |args: &[&str]| {
        let mut command = scratch.command(&[]);
        command = {
            let mut plain = Command::new(command.get_program());
            plain.arg("snapshot").args(args).current_dir(&scratch.0);
            plain.env("XDG_STATE_HOME", scratch.0.join("state"));
            plain.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            plain
        };
        ended(command, "")
    };
    let from_ledger = snapshot(&["r", "--json"]);
    let from_file = snapshot(&["r", "--json", "--from", "entries.jsonl"]);
    assert_eq!(from_ledger.0, 0, "{}", from_ledger.2);
    assert_eq!(from_ledger.1, from_file.1);
    assert!(from_ledger.1.contains("\"signals\""));
    assert_eq!(snapshot(&["nobody"]).0, 1);
    assert_eq!(snapshot(&[]).0, 2);
}

#[test]
fn tail_shows_what_another_process_appends() {
    let scratch = Scratch::with_entries("tail", 1);
    let mut tail = scratch.command(&["tail", "--after", "0", "--limit", "2"]).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"k0\""));
    scratch.good(&["append"], &line(1));
    assert!(lines.next().unwrap().unwrap().contains("\"k1\""));
    assert!(tail.wait().unwrap().success());
}

#[test]
fn proofs_are_checked_offline_and_forged_ones_refused() {
    let scratch = Scratch::with_entries("prove", 300);
    scratch.write("key", &scratch.good(&["key"], ""));
    let entry: Value = serde_json::from_str(&scratch.good(&["get", "key:k123"], "")).unwrap();
    let id = entry["id"].as_str().unwrap().to_owned();
    let proof = scratch.good(&["prove", &id], "");
    let elsewhere = Scratch::new("prove-elsewhere");
    elsewhere.write("key", &fs::read_to_string(scratch.0.join("key")).unwrap());
    assert!(elsewhere.good(&["verify-proof", "--key", "key"], &proof).contains(&id));
    // Another entry's proof, another tenant's key, a changed entry.
    let other: Value = serde_json::from_str(&scratch.good(&["get", "key:k124"], "")).unwrap();
    let other: Value =
        serde_json::from_str(&scratch.good(&["prove", other["id"].as_str().unwrap()], "")).unwrap();
    let mut swapped: Value = serde_json::from_str(&proof).unwrap();
    swapped["proof"] = other["proof"].clone();
    assert_eq!(elsewhere.run(&["verify-proof", "--key", "key"], &swapped.to_string()).0, 1);
    elsewhere.write("other-key", &scratch.good(&["key", "--tenant", "other"], ""));
    assert_eq!(elsewhere.run(&["verify-proof", "--key", "other-key"], &proof).0, 1);
    let changed = proof.replace("\"n\":123", "\"n\":124");
    assert_eq!(elsewhere.run(&["verify-proof", "--key", "key"], &changed).0, 1);
    assert_eq!(elsewhere.run(&["verify-proof"], &proof).0, 2, "a key is needed");
}

#[test]
fn every_single_byte_of_a_proof_counts() {
    let scratch = Scratch::with_entries("bytes", 20);
    let key = crealeph_verify::VerifierKey::parse(&scratch.good(&["key"], "")).unwrap();
    let entry: Value = serde_json::from_str(&scratch.good(&["get", "key:k7"], "")).unwrap();
    let proof = scratch.good(&["prove", entry["id"].as_str().unwrap()], "").trim_end().to_owned();
    let keys = [key];
    let proven = crealeph_verify::verify_proof(proof.as_bytes(), &keys).unwrap();
    for at in 0..proof.len() {
        for flip in [1u8, 4, 0x20] {
            let mut bytes = proof.as_bytes().to_vec();
            bytes[at] ^= flip;
            if let Ok(found) = crealeph_verify::verify_proof(&bytes, &keys) {
                panic!("byte {at} ^ {flip} of the proof was not noticed: {found:?} for {proven:?}");
            }
        }
    }
}

#[test]
fn a_person_reads_a_list_in_columns() {
    let scratch = Scratch::new("columns");
    scratch.good(&["init"], "");
    let line = |robot: &str| {
        format!(
            "{{\"robotId\":\"{robot}\",\"module\":\"m\",\"source\":\"s\",\"type\":\"signal\",\"state\":\"final\",\"payload\":{{}}}}\n"
        )
    };
    scratch.good(&["append"], &[line("r"), line("shop-17")].concat());
    let list = |more: &[&str]| {
        let mut command = scratch.command(&[&["list"], more].concat());
        command.env("CREALEPH_OUTPUT", "text");
        ended(command, "")
    };
    let (_, listed, _) = list(&[]);
    let columns: Vec<_> = listed.lines().map(|line| line.find("signal")).collect();
    assert!(columns.len() == 2 && columns[0].is_some() && columns[0] == columns[1], "{listed}");
    let (code, listed, said) = list(&["--type", "signl"]);
    assert_eq!((code, listed.as_str(), said.as_str()), (0, "", "tenant `local` has no such entry\n"));
}

#[test]
fn an_export_is_verified_and_imported_elsewhere() {
    let scratch = Scratch::with_entries("export", 250);
    scratch.write("key", &scratch.good(&["key"], ""));
    let export = scratch.good(&["export"], "");
    scratch.write("export.jsonl", &export);
    let verified: Value =
        serde_json::from_str(&scratch.good(&["verify", "export.jsonl", "--key", "key"], "")).unwrap();
    assert_eq!((&verified["ok"], &verified["entries"]), (&true.into(), &250.into()));
    assert_eq!((&verified["checkpoints"], &verified["signedEntries"]), (&3.into(), &250.into()));
    let lines: Vec<&str> = export.lines().collect();
    let find = |what: &str, lines: &[&str]| {
        scratch.write("bad.jsonl", &(lines.join("\n") + "\n"));
        let (kind, seq, message) = scratch.verdict(&["bad.jsonl", "--key", "key"]);
        assert_eq!(kind, what, "{message}");
        seq
    };
    let without = [&lines[..50], &lines[51..]].concat();
    assert_eq!(find("missing", &without), 50);
    let mut swapped = lines.clone();
    swapped.swap(30, 31);
    assert_eq!(find("missing", &swapped), 30);
    let mut twice = lines.clone();
    twice.insert(31, lines[30]);
    assert_eq!(find("reordered", &twice), 31);
    let changed = lines[60].replace("\"n\":59", "\"n\":58");
    let mut one = lines.clone();
    one[60] = &changed;
    assert_eq!(find("changed", &one), 60);
    let forged: Vec<String> = lines.iter().map(|line| line.replace("\\n200\\n", "\\n199\\n")).collect();
    assert_eq!(find("forged", &forged.iter().map(String::as_str).collect::<Vec<_>>()), 200);
    // A checkpoint of another log says nothing of this one, though its key is known too.
    scratch.good(&["append", "--tenant", "t"], &line(0));
    for (file, task) in [("other.checkpoint", "checkpoint"), ("other.key", "key")] {
        scratch.write(file, &scratch.good(&[task, "--tenant", "t"], ""));
    }
    let both = ["export.jsonl", "--key", "key", "--key", "other.key", "--checkpoint", "other.checkpoint"];
    let (code, stdout, _) = scratch.run(&[&["verify"], &both[..]].concat(), "");
    assert!(code == 1 && stdout.contains("the checkpoint you kept is of the log"), "{stdout}");
    // With a key, signatures are checked before the entries are imported.
    let signed = Scratch::new("import-signed");
    signed.good(&["init"], "");
    signed.write("key", &scratch.good(&["key"], ""));
    signed.write("stranger", &signed.good(&["key", "--tenant", "t"], ""));
    signed.write("forged.jsonl", &(forged.join("\n") + "\n"));
    let (code, _, stderr) = signed.run(&["import", "forged.jsonl", "--key", "key"], "");
    assert!(code == 1 && stderr.contains("forged"), "{stderr}");
    let (code, _, stderr) = signed.run(&["import", "--key", "stranger"], &export);
    assert!(code == 1 && stderr.contains("the key is for"), "{stderr}");
    let imported: Value = serde_json::from_str(&signed.good(&["import", "--key", "key"], &export)).unwrap();
    assert_eq!((&imported["signedEntries"], imported["imported"].as_u64() > Some(0)), (&250.into(), true));
    let (code, _, stderr) = signed.run(&["import", "--tenant", "acme", "--key", "key"], &export);
    assert!(code == 2 && stderr.contains("belongs to tenant `local`, not to `acme`"), "{stderr}");
    let other = Scratch::new("import");
    other.good(&["init"], "");
    other.good(&["import"], &export);
    assert_eq!(other.good(&["export"], ""), export);
    assert_eq!(scratch.run(&["import", "--ledger", "nowhere"], &export).0, 2);
}

#[test]
fn changes_made_outside_the_program_are_named() {
    let changes: [(&str, &str, &str, u64); 15] = [
        (
            "payload",
            "UPDATE entries SET payload = '{\"n\":1000}' WHERE place & 0xffffffff = 42",
            "changed",
            42,
        ),
        ("blank", "UPDATE entries SET payload = '{\"n\": 41}' WHERE place & 0xffffffff = 42", "changed", 42),
        ("json", "UPDATE entries SET payload = '{' WHERE place & 0xffffffff = 42", "changed", 42),
        ("robot", "UPDATE entries SET robot = 'q' WHERE place & 0xffffffff = 7", "changed", 7),
        ("time", "UPDATE entries SET created_at = created_at + 1 WHERE place & 0xffffffff = 7", "changed", 7),
        ("key", "UPDATE entries SET key = 'x' WHERE place & 0xffffffff = 7", "changed", 7),
        ("lineage", "UPDATE entries SET depends_on = '[]' WHERE place & 0xffffffff = 7", "changed", 7),
        ("leaf", "UPDATE entries SET leaf = zeroblob(32) WHERE place & 0xffffffff = 7", "changed", 7),
        (
            "attempt",
            "UPDATE entries SET attempt = 3, execution = 'x' WHERE place & 0xffffffff = 7",
            "changed",
            7,
        ),
        ("reach", "UPDATE entries SET reach_signal = 1 WHERE place & 0xffffffff = 50", "changed", 50),
        ("removed", "DELETE FROM entries WHERE place & 0xffffffff = 99", "missing", 99),
        ("moved", "UPDATE entries SET place = place + 1000 WHERE place & 0xffffffff = 120", "missing", 120),
        ("edge", "DELETE FROM edges WHERE child & 0xffffffff = 5", "changed", 5),
        ("head", "UPDATE logs SET size = 119, peaks = zeroblob(32 * 6)", "missing", 120),
        ("end", "DELETE FROM entries WHERE place & 0xffffffff = 120", "missing", 120),
    ];
    let pristine = Scratch::with_entries("tamper", 120);
    let kept = pristine.good(&["checkpoint"], "");
    for (name, sql, kind, seq) in changes {
        let scratch = Scratch::new(&format!("tamper-{name}"));
        copy_folder(&pristine.0, &scratch.0);
        scratch.write("kept", &kept);
        scratch.tamper(sql);
        let (found, at, message) = scratch.verdict(&["--checkpoint", "kept"]);
        assert_eq!((found.as_str(), at), (kind, seq), "{name}: {message}");
        assert!(message.contains(&seq.to_string()), "{name}: {message}");
    }
}

#[test]
fn a_rewritten_history_does_not_fit_the_signed_one() {
    let scratch = Scratch::with_entries("fork", 90);
    let kept = scratch.good(&["checkpoint"], "");
    let key = scratch.good(&["key"], "");
    // Someone with the signing key writes another history under the same name.
    let header = scratch.good(&["export"], "").lines().next().unwrap().replace("\"entries\":90,", "") + "\n";
    let forked = Scratch::new("forked");
    copy_folder(&scratch.0, &forked.0);
    fs::remove_file(forked.file()).unwrap();
    forked.good(&["init"], "");
    fs::remove_file(forked.file()).unwrap();
    forked.good(&["init", "--tenant", "unused"], "");
    forked.good(&["import"], &header);
    forked.good(&["append"], &(0..90).map(|n| line(n).replace("\"s\"", "\"other\"")).collect::<String>());
    // The signer remembers what it signed; the holder of the key can make it forget.
    let (code, _, stderr) = forked.run(&["checkpoint"], "");
    assert!(
        code == 2 && stderr.contains("90 entries") && stderr.contains("its first 90 entries"),
        "{stderr}"
    );
    assert_eq!(forked.verdict(&[]).0, "forked");
    fs::remove_dir_all(forked.0.join(".crealeph/ledger.db.keys/signed")).unwrap();
    forked.good(&["checkpoint"], "");
    forked.write("kept", &kept);
    forked.write("key", &key);
    assert_eq!(
        serde_json::from_str::<Value>(&forked.good(&["verify", "--key", "key"], "")).unwrap()["ok"],
        true
    );
    let (kind, seq, _) = forked.verdict(&["--key", "key", "--checkpoint", "kept"]);
    assert_eq!((kind.as_str(), seq), ("forked", 1));
    let stranger = Scratch::with_entries("stranger", 1);
    forked.write("other", &stranger.good(&["checkpoint"], ""));
    assert_eq!(forked.verdict(&["--key", "key", "--checkpoint", "other"]).0, "forged");
}

/// Changes a file as someone would who knows it: the triggers are put back afterwards.
fn tamper_unseen(file: &Path, sql: &str) {
    let sqlite = |sql: &str| {
        let done = Command::new("sqlite3").arg(file).arg(sql).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let names = sqlite("SELECT 'DROP TRIGGER ' || name || ';' FROM sqlite_schema WHERE type = 'trigger'");
    let texts = sqlite("SELECT sql || ';' FROM sqlite_schema WHERE type = 'trigger'");
    if sql.contains("TRIGGER") {
        sqlite(sql);
    } else {
        sqlite(&format!("{names} {sql}; {texts}"));
    }
}

#[test]
fn every_kind_of_change_is_named_as_the_documentation_says() {
    let pristine = Scratch::new("changes");
    pristine.good(&["init"], "");
    let (kept, key) = tamper::fill(|args, stdin| pristine.good(args, stdin));
    pristine.write("saved.checkpoint", &kept);
    pristine.write("saved.key", &key);
    let unchanged = tamper::Change { what: "nothing", sqlite: "SELECT 1", ..tamper::NOTHING };
    let documented = tamper::documented();
    for change in tamper::CHANGES.iter().chain([&unchanged]) {
        if change.what != "nothing" {
            let said = documented.get(change.what).unwrap_or_else(|| panic!("document `{}`", change.what));
            for (cell, (kind, _)) in said.iter().zip([change.alone, change.with_key, change.with_checkpoint])
            {
                assert!(cell.contains(kind), "{}: `{cell}`, not {kind}", change.what);
            }
        }
        if !change.sqlite.is_empty() {
            let scratch = Scratch::new("changes-one");
            copy_folder(&pristine.0, &scratch.0);
            tamper_unseen(&scratch.file(), change.sqlite);
            tamper::check(change, |args| scratch.run(args, ""));
        }
    }
    for (what, said) in documented {
        let is_tested = tamper::CHANGES.iter().any(|change| change.what == what)
            || ["an older copy of the ledger put back", "another history, written with the signing key"]
                .contains(&what.as_str());
        assert!(is_tested, "test `{what}`");
        let is_silent = said.iter().all(|cell| cell.starts_with("ok"));
        assert!(
            !is_silent || said.iter().any(|cell| cell.contains(": ")),
            "say why nothing is known of `{what}`"
        );
    }
}

#[test]
fn a_log_that_was_rolled_back_is_not_signed_for_and_named() {
    let scratch = Scratch::with_entries("rollback", 50);
    scratch.good(&["backup", "older.db"], "");
    copy_folder_to(&scratch.0.join(".crealeph/ledger.db.keys"), &scratch.0.join("older.keys"));
    scratch.good(&["append"], &(50..60).map(line).collect::<String>());
    scratch.write("kept", &scratch.good(&["checkpoint"], ""));
    scratch.write("key", &scratch.good(&["key"], ""));
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", scratch.file().display()));
    }
    fs::copy(scratch.0.join("older.db"), scratch.file()).unwrap();
    for way in [&[][..], &["--key", "key"], &["--key", "key", "--checkpoint", "kept"]] {
        let (kind, seq, message) = scratch.verdict(way);
        assert_eq!((kind.as_str(), seq), ("truncated", 51), "{way:?}: {message}");
    }
    let (code, _, stderr) = scratch.run(&["checkpoint"], "");
    assert!(code == 2 && stderr.contains("60 entries") && stderr.contains("it has 50 entries"), "{stderr}");
    // Sent again with the same keys, they are other entries: their times and ids are.
    scratch.good(&["append"], &(50..70).map(line).collect::<String>());
    assert_eq!(scratch.run(&["checkpoint"], "").0, 2, "longer, but not the log that was signed");
    assert_eq!(scratch.verdict(&[]).0, "forked");
    // An older copy of the signer's memory knows nothing of it; a checkpoint that was kept elsewhere does.
    fs::remove_dir_all(scratch.0.join(".crealeph/ledger.db.keys")).unwrap();
    copy_folder_to(&scratch.0.join("older.keys"), &scratch.0.join(".crealeph/ledger.db.keys"));
    scratch.good(&["checkpoint"], "");
    scratch.good(&["verify", "--key", "key"], "");
    assert_eq!(scratch.verdict(&["--key", "key", "--checkpoint", "kept"]).0, "forked");
}

/// An export whose hashes are right, whatever its entries say.
fn export_of(entries: &[String]) -> String {
    use crealeph_contracts::digest::{Blake3, Sha256};
    let mut export =
        "{\"format\":\"crealeph-ledger-export-v1\",\"origin\":\"o\",\"tenantId\":\"local\"}\n".to_owned();
    for (seq, entry) in (1..).zip(entries) {
        let id = serde_json::from_str::<Value>(entry).unwrap()["id"].as_str().unwrap().to_owned();
        let record =
            format!("{{\"blake3\":\"{}\",\"id\":\"{id}\",\"seq\":{seq}}}", Blake3::of(entry.as_bytes()));
        let leaf = Sha256::of(&[&[0], record.as_bytes()].concat());
        export.push_str(&format!("{{\"entry\":{entry},\"leaf\":\"{leaf}\"}}\n"));
    }
    export
}

/// An entry in canonical form; `early` goes after the id, `late` after the payload.
fn canonical_entry(seq: u64, id: &str, early: &str, late: &str) -> String {
    format!(
        "{{\"createdAt\":\"2026-01-01T00:00:0{seq}.000Z\",\"id\":\"{id}\"{early},\"module\":\"m\"{late},\"payload\":{{}},\
         \"robotId\":\"r\",\"seq\":{seq},\"source\":\"s\",\"state\":\"final\",\"tenantId\":\"local\",\"type\":\"signal\"}}"
    )
}

fn canonical_event(seq: u64, id: &str, state: &str, attempt: u64) -> String {
    let (cancel, error) = match state {
        "failed" => ("", "\"error\":{\"code\":\"X\",\"message\":\"x\",\"retryable\":true},"),
        "cancelled" => ("\"cancelReason\":\"x\",", ""),
        _ => ("", ""),
    };
    format!(
        "{{\"createdAt\":\"2026-01-01T00:00:0{seq}.000Z\",\"id\":\"{id}\",\"lineage\":{{\"dependsOnLedgerIds\":[\"a\"]}},\
         \"module\":\"agent-builder\",\"payload\":{{\"action\":\"x\",\"agentVersion\":\"1\",\"attempt\":{attempt},{cancel}\
         \"coherenceStatus\":\"coherent\",\"dryRun\":false,{error}\"executionContractVersion\":\"v1\",\"executionId\":\"e\",\
         \"snapshotAt\":\"2026-01-01T00:00:01.000Z\",\"target\":\"t\",\"workflowVersion\":\"1\"}},\"robotId\":\"r\",\
         \"seq\":{seq},\"source\":\"agent-builder\",\"state\":\"{state}\",\"tenantId\":\"local\",\"type\":\"execution_event\"}}"
    )
}

#[test]
fn what_an_import_refuses_verify_refuses_though_every_hash_is_right() {
    let entry = canonical_entry;
    let event = canonical_event;
    let on = |id: &str| format!(",\"lineage\":{{\"dependsOnLedgerIds\":[\"{id}\"]}}");
    let late = ",\"observedAt\":\"2026-01-01T00:00:09Z\"";
    let first = || entry(1, "a", ",\"key\":\"k\"", "");
    let cases: Vec<(&str, Vec<String>, u64)> = vec![
        (
            "",
            vec![
                first(),
                entry(2, "b", &on("a"), ""),
                event(3, "c", "running", 1),
                event(4, "d", "failed", 1),
            ],
            0,
        ),
        ("id", vec![first(), entry(2, "a", "", "")], 2),
        ("key", vec![first(), entry(2, "b", ",\"key\":\"k\"", "")], 2),
        ("depends on", vec![first(), entry(2, "b", &on("z"), "")], 2),
        ("depends on", vec![first(), entry(2, "b", &on("c"), ""), entry(3, "c", "", "")], 2),
        ("depends on", vec![first(), entry(2, "b", &on("b"), "")], 2),
        ("older", vec![first(), entry(2, "b", "", "").replace(":02.", ":00.")], 2),
        ("observed", vec![entry(1, "a", "", late)], 1),
        ("after `succeeded`", vec![first(), event(2, "b", "succeeded", 1), event(3, "c", "failed", 1)], 3),
        ("after `planned`", vec![first(), event(2, "b", "planned", 1), event(3, "c", "succeeded", 1)], 3),
        ("attempt 1", vec![first(), event(2, "b", "failed", 1), event(3, "c", "running", 1)], 3),
        ("repeats", vec![first(), event(2, "b", "running", 1), event(3, "c", "running", 1)], 3),
        ("contract", vec![first(), event(2, "b", "running", 1).replace("\"dryRun\":false,", "")], 2),
        (
            "contract",
            vec![first(), event(2, "b", "running", 1).replace("\"robotId\":\"r\"", "\"robotId\":\"q\"")],
            2,
        ),
    ];
    let scratch = Scratch::new("rules");
    for (number, (rule, entries, seq)) in cases.into_iter().enumerate() {
        scratch.write("export", &export_of(&entries));
        let ledger = format!("{number}.db");
        scratch.good(&["init", "--ledger", &ledger], "");
        let (code, _, stderr) = scratch.run(&["import", "export", "--ledger", &ledger], "");
        if rule.is_empty() {
            assert_eq!(code, 0, "{stderr}");
            scratch.good(&["verify", "export"], "");
            scratch.good(&["verify", "--ledger", &ledger], "");
            continue;
        }
        assert_eq!(code, 1, "{rule}: {stderr}");
        let (kind, at, message) = scratch.verdict(&["export"]);
        assert_eq!((kind.as_str(), at), ("invalid", seq), "{message}");
        assert!(message.contains(rule), "{rule}: {message}");
    }
}

#[test]
fn an_import_with_a_key_takes_only_what_is_signed() {
    let scratch = Scratch::with_entries("signed-part", 120);
    scratch.good(&["append"], &(120..130).map(line).collect::<String>());
    scratch.write("key", &scratch.good(&["key"], ""));
    let export = scratch.good(&["export"], "");
    scratch.good(&["init", "--ledger", "b.db"], "");
    let (code, stdout, stderr) = scratch.run(&["import", "--ledger", "b.db", "--key", "key"], &export);
    assert!(code == 0 && stderr.contains("the last 10 entries") && stderr.contains("left out"), "{stderr}");
    assert!(stdout.contains("\"imported\":120"), "{stdout}");
    let copied = scratch.good(&["export", "--ledger", "b.db"], "");
    let after_header = |export: &str| export.split_once('\n').unwrap().1.to_owned();
    assert!(after_header(&export).starts_with(&after_header(&copied)), "to the last signed checkpoint");
    // Nothing signed by the key, a checkpoint of other sizes, or one of another log: nothing is taken.
    let lines: Vec<&str> = export.lines().collect();
    let without: String = lines
        .iter()
        .filter(|line| !line.starts_with("{\"checkpoint\""))
        .map(|line| format!("{line}\n"))
        .collect();
    scratch.good(&["init", "--ledger", "c.db"], "");
    let (code, _, stderr) = scratch.run(&["import", "--ledger", "c.db", "--key", "key"], &without);
    assert!(code == 1 && stderr.contains("no checkpoint"), "{stderr}");
    let moved = export.replacen("\\n100\\n", "\\n18446744073709551615\\n", 1);
    let (code, _, stderr) = scratch.run(&["import", "--ledger", "c.db"], &moved);
    assert!(code == 1 && stderr.contains("line 102"), "{stderr}");
    let late = export.replacen("\\n100\\n", "\\n99\\n", 1);
    let (code, _, stderr) = scratch.run(&["import", "--ledger", "c.db"], &late);
    assert!(code == 1 && stderr.contains("checkpoint of 99 entries comes after entry 100"), "{stderr}");
}

#[test]
fn an_input_that_never_ends_or_never_begins_is_refused_at_once() {
    let scratch = Scratch::with_entries("endless", 1);
    let pipe = scratch.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let start = std::time::Instant::now();
    for args in [
        &["verify", "/dev/zero"][..],
        &["import", "/dev/zero"],
        &["append", "/dev/zero"],
        &["verify", "pipe"],
        &["import", "pipe"],
        &["append", "pipe"],
        &["verify", "--key", "pipe"],
        &["verify-proof", "pipe", "--key", "pipe"],
    ] {
        let (code, _, stderr) = scratch.run(args, "");
        assert!(code == 1 || code == 2, "{args:?}: {stderr}");
        assert!(
            stderr.contains("/dev/zero") || stderr.contains("line 1") || stderr.contains("no one writes"),
            "{stderr}"
        );
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    // Someone who writes a little later is waited for.
    let export = scratch.good(&["export"], "");
    let late = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        fs::write(pipe, export).unwrap();
    });
    scratch.good(&["verify", "pipe"], "");
    late.join().unwrap();
}

fn copy_folder_to(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    copy_folder(from, to);
}

#[test]
fn a_backup_made_while_others_write_is_whole() {
    let scratch = Scratch::with_entries("backup", 50);
    let mut writer = scratch.command(&["append"]).spawn().unwrap();
    let mut input = writer.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        for number in 50..1_000 {
            input.write_all(line(number).as_bytes()).unwrap();
        }
    });
    scratch.good(&["backup", "copy.db"], "");
    feeder.join().unwrap();
    assert!(writer.wait_with_output().unwrap().status.success());
    let copied = scratch.good(&["verify", "--ledger", "copy.db", "--keys", ".crealeph/ledger.db.keys"], "");
    assert!(serde_json::from_str::<Value>(&copied).unwrap()["entries"].as_u64().unwrap() >= 50);
    assert_eq!(scratch.run(&["backup", "copy.db"], "").0, 2);
}

fn copy_folder(from: &Path, to: &Path) {
    for item in fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let target = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_folder(&item.path(), &target);
        } else {
            fs::copy(item.path(), &target).unwrap();
        }
    }
}
