//! The ledger under processes that die and disks that fail. The processes are this test program itself, started again
//! to run one of the `child_…` tests below, which do nothing unless a variable names the place.

#![cfg(test)]

#[path = "../../ledger/tests/server/mod.rs"]
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits as JsonLimits;
use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{AppendError, Filter, Ledger, LedgerError, LedgerOptions, Location, Order};
use crealeph_verify::{ExportVerifier, Finding, VerifiedExport, VerifierKey};

const PLACE: &str = "CREALEPH_TEST_PLACE";
const PREFIX: &str = "CREALEPH_TEST_PREFIX";
const BATCH: usize = 3;

fn local() -> TenantId {
    TenantId::parse("local").unwrap()
}

fn draft(key: &str, payload: &str) -> Draft {
    let json = format!(
        r#"{{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{payload},"key":"{key}"}}"#
    );
    Draft::parse(json.as_bytes(), &JsonLimits::default()).unwrap()
}

fn event(signal: &str, at: &str) -> Draft {
    let json = format!(
        r#"{{"robotId":"r","module":"agent-builder","source":"agent-builder","type":"execution_event","state":"planned",
        "payload":{{"executionId":"e","workflowVersion":"1","agentVersion":"1","executionContractVersion":"v1","attempt":1,
        "target":"t","action":"a","snapshotAt":"{at}","coherenceStatus":"coherent","dryRun":false}},
        "lineage":{{"dependsOnLedgerIds":["{signal}"]}}}}"#
    );
    Draft::parse(json.as_bytes(), &JsonLimits::default()).unwrap()
}

fn open(file: &Path) -> Ledger {
    Ledger::open(&Location::File(file.to_owned()), LedgerOptions::default()).unwrap()
}

fn child(test: &str, place: &Path, prefix: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(PLACE, place)
        .env(PREFIX, prefix)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Says a word to the parent, on a separate line whatever the test harness has begun to print.
fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n#{word}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn place() -> Option<(PathBuf, String)> {
    Some((std::env::var_os(PLACE)?.into(), std::env::var(PREFIX).ok()?))
}

/// Appends batches until it is killed and prints which are acknowledged; several threads, so that commits are grouped.
#[test]
fn child_writer() {
    let Some((file, prefix)) = place() else { return };
    let ledger = open(&file);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (ledger, prefix) = (&ledger, &prefix);
            scope.spawn(move || {
                for number in 0.. {
                    let name = format!("{prefix}-{thread}-{number}");
                    let batch = (0..BATCH)
                        .map(|part| draft(&format!("{name}-{part}"), "{\"x\":\"yyyyyyyyyyyyyyyy\"}"));
                    ledger.append(&local(), batch.collect()).unwrap();
                    say(&name);
                }
            });
        }
    });
}

/// Races on one event identity from several threads, and says what each was printed.
#[test]
fn child_racer() {
    let Some((location, signal)) = place() else { return };
    let location = Location::parse(location.to_str().unwrap());
    let ledger = Ledger::open(&location, LedgerOptions::default()).unwrap();
    let (signal, at) = signal.split_once(' ').unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let answer = ledger.append(&local(), vec![event(signal, at)]).unwrap().remove(0);
                say(&format!("{} {}", answer.id, answer.is_repeat));
            });
        }
    });
}

/// Verifies the log as an outsider, from its export.
fn verified(ledger: &Ledger, kept: &[&str]) -> Result<VerifiedExport, Finding> {
    let keys = ledger.verifier_keys(&local()).unwrap();
    let keys = keys.iter().map(|key| VerifierKey::parse(key).unwrap()).collect();
    let mut export = Vec::new();
    ledger.export(&local(), &mut export).unwrap();
    let mut verifier = ExportVerifier::new(keys, kept)?;
    for line in String::from_utf8(export).unwrap().lines() {
        verifier.line(line)?;
    }
    verifier.finish()
}

#[test]
// holds: invariant 8
fn killed_writers_lose_nothing_that_was_acknowledged_and_leave_no_half_batch() {
    let mut seed = 88_172_645_463_325_252u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut acknowledged_in_all = 0;
    for ledger_number in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.db");
        drop(Ledger::init(&Location::File(file.clone()), LedgerOptions::default()).unwrap());
        let mut kept: Vec<String> = Vec::new();
        let mut acknowledged: Vec<String> = Vec::new();
        for round in 0..10 {
            let mut writer = child("child_writer", &file, &format!("{ledger_number}-{round}"));
            let pause = Duration::from_millis(random(60));
            let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
            let first = lines.by_ref().find(|line| line.starts_with('#'));
            std::thread::sleep(pause);
            writer.kill().unwrap();
            writer.wait().unwrap();
            let words =
                first.into_iter().chain(lines).filter_map(|line| line.strip_prefix('#').map(str::to_owned));
            acknowledged.extend(words);

            let ledger = open(&file);
            let mut parts: BTreeMap<String, usize> = BTreeMap::new();
            let mut cursor = None;
            loop {
                let page =
                    ledger.list(&local(), &Filter::default(), Order::OldestFirst, cursor, 1_000).unwrap();
                for entry in page.entries {
                    let key = entry.content.key.unwrap();
                    *parts.entry(key.as_str().rsplit_once('-').unwrap().0.to_owned()).or_default() += 1;
                }
                match page.next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            assert!(parts.values().all(|count| *count == BATCH), "half a batch: {parts:?}");
            // A word cut off by the kill is not one that was heard.
            let heard = acknowledged.iter().filter(|name| name.matches('-').count() == 3);
            for name in heard {
                let is_cut = acknowledged.last() == Some(name);
                assert!(is_cut || parts.contains_key(name), "acknowledged and lost: {name}");
            }
            let notes: Vec<&str> = kept.iter().map(String::as_str).collect();
            verified(&ledger, &notes).unwrap();
            kept = vec![ledger.checkpoint(&local()).unwrap().note];
        }
        assert_eq!(open(&file).audit(&local()).unwrap(), None);
        acknowledged_in_all += acknowledged.len();
    }
    assert!(acknowledged_in_all > 100);
}

#[test]
// holds: invariant 9
fn processes_that_race_on_one_event_have_one_winner() {
    let server = server::Server::start();
    let folder = tempfile::tempdir().unwrap();
    race(folder.path().join("ledger.db").to_str().unwrap(), folder.path());
    race(&server.url(&server.database()), folder.path());
}

fn race(location: &str, folder: &Path) {
    let options = LedgerOptions { keys: Some(folder.join("keys")), ..LedgerOptions::default() };
    let ledger = Ledger::init(&Location::parse(location), options).unwrap();
    let signal = ledger.append(&local(), vec![draft("s", "{}")]).unwrap().remove(0);
    let word = format!("{} {}", signal.id, signal.created_at);
    let racers: Vec<Child> = (0..4).map(|_| child("child_racer", Path::new(location), &word)).collect();
    let mut answers = Vec::new();
    for racer in racers {
        let output = racer.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        answers.extend(text.lines().filter_map(|line| line.strip_prefix('#').map(str::to_owned)));
    }
    assert_eq!(answers.len(), 64);
    assert_eq!(answers.iter().filter(|answer| answer.ends_with("false")).count(), 1);
    let ids: std::collections::BTreeSet<&str> =
        answers.iter().map(|answer| answer.split_once(' ').unwrap().0).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), 2);
    verified(&ledger, &[]).unwrap();
}

#[test]
fn a_log_cut_behind_a_kept_checkpoint_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (folder.path().join("ledger.db"), folder.path().join("copy.db"));
    let ledger = Ledger::init(&Location::File(file.clone()), LedgerOptions::default()).unwrap();
    for number in 0..20 {
        ledger.append(&local(), vec![draft(&format!("k{number}"), "{}")]).unwrap();
    }
    let kept = ledger.checkpoint(&local()).unwrap().note;
    // As after a crash: the file and its write-ahead log, the latter cut off.
    let with = |suffix: &str, file: &Path| PathBuf::from(format!("{}{suffix}", file.display()));
    fs::copy(&file, &copy).unwrap();
    let wal = fs::read(with("-wal", &file)).unwrap();
    let keys = |file: &Path| with(".keys", file);
    fs::create_dir(keys(&copy)).unwrap();
    // The keys alone: what the signer remembers of its last checkpoint stays behind.
    for key in fs::read_dir(keys(&file)).unwrap().map(Result::unwrap) {
        if key.file_type().unwrap().is_dir() {
            continue;
        }
        fs::copy(key.path(), keys(&copy).join(key.file_name())).unwrap();
    }
    fs::write(with("-wal", &copy), &wal[..wal.len() * 2 / 3]).unwrap();
    let cut = open(&copy);
    let entries = cut.last_seq(&local()).unwrap().get();
    assert!((1..20).contains(&entries), "{entries}");
    assert!(verified(&cut, &[]).is_ok(), "by itself the shorter log is whole");
    let finding = verified(&cut, &[&kept]).unwrap_err();
    assert_eq!((finding.kind.as_str(), finding.seq), ("truncated", Some(entries + 1)), "{finding}");
}

/// Fills a small disk, then continues when there is room again.
#[test]
fn child_filler() {
    let Some((folder, _)) = place() else { return };
    let (file, ballast) = (folder.join("ledger.db"), folder.join("ballast"));
    fs::write(&ballast, vec![0u8; 1 << 20]).unwrap();
    let ledger = Ledger::init(&Location::File(file.clone()), LedgerOptions::default()).unwrap();
    let payload = format!("{{\"x\":\"{}\"}}", "y".repeat(4_000));
    let mut written = 0;
    let error = loop {
        match ledger.append(&local(), vec![draft(&format!("k{written}"), &payload)]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the disk never was full");
    };
    let is_full =
        matches!(&error, AppendError::Ledger(LedgerError::Full { place }) if place.contains("ledger.db"));
    assert!(is_full, "{error:?}");
    assert_eq!(ledger.last_seq(&local()).unwrap().get(), written);
    fs::remove_file(&ballast).unwrap();
    let answer = ledger.append(&local(), vec![draft(&format!("k{written}"), &payload)]).unwrap().remove(0);
    assert_eq!((answer.seq.get(), answer.is_repeat), (written + 1, false));
    assert_eq!(verified(&ledger, &[]).unwrap().entries, written + 1);
    say("done");
}

/// Meets a disk that cannot be written.
#[test]
fn child_reader() {
    let Some((folder, _)) = place() else { return };
    let location = Location::File(folder.join("ledger.db"));
    // Reading needs a file next to the ledger's that says what its write-ahead log holds, so it is refused as well.
    let read = Ledger::open(&location, LedgerOptions::default()).and_then(|ledger| ledger.last_seq(&local()));
    assert!(
        matches!(&read, Err(LedgerError::ReadOnly { place, .. }) if place.contains("ledger.db")),
        "{read:?}"
    );
    let outcome = Ledger::open(&location, LedgerOptions::default())
        .map_err(AppendError::from)
        .and_then(|ledger| ledger.append(&local(), vec![draft("k", "{}")]));
    let error = outcome.unwrap_err();
    let AppendError::Ledger(error @ LedgerError::ReadOnly { place, .. }) = &error else {
        panic!("{error:?}")
    };
    let hint = error.hint().unwrap();
    assert!(place.contains("ledger.db") && hint.contains("check the owner and mode"), "{error:?}");
    say("done");
}

/// Runs shell commands with a small disk mounted at `$DISK`, in a namespace no one else sees.
fn on_a_small_disk(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut command = Command::new("unshare");
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    let script = format!("set -e\nmount -t tmpfs -o size=4m tmpfs \"$DISK\"\n{script}");
    command.args(["--mount", "sh", "-c", &script]).env("DISK", &disk).env(PLACE, &disk).env(PREFIX, "");
    command.env("PROGRAM", env!("CARGO_BIN_EXE_crealeph")).env("SELF", std::env::current_exe().unwrap());
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout.into_owned()
}

#[test]
fn a_full_disk_is_named_and_loses_nothing() {
    let said = on_a_small_disk("\"$SELF\" child_filler --exact --nocapture");
    assert!(said.contains("#done"), "{said}");
}

#[test]
fn a_disk_that_cannot_be_written_is_named() {
    let said = on_a_small_disk(
        "\"$PROGRAM\" ledger init --ledger \"$DISK/ledger.db\" 2> /dev/null\n\
         mount -o remount,ro \"$DISK\"\n\"$SELF\" child_reader --exact --nocapture",
    );
    assert!(said.contains("#done"), "{said}");
}
