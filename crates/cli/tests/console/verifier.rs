//! The verifier in one HTML file, opened from the disk: a real ledger's export, proof and approvals and a real run, good and forged.
//! Of each the command must say the same.

use std::fs;
use std::process::{Command, Stdio};

use crate::scratch::{Scratch, ended, known, line, request};
use crate::stories::tell;

pub(crate) const CONFIGURATION: &str = "[agents.\"example@1\"]\nkind = \"example\"\n\n[work.agents.writer]\nagent_id = \"agent-1\"\n\
                             command = [\"sh\", \"-c\", \"{prompt}\"]\n";
/// What an entry may hold, and what must not act: markup, and a character that turns the direction of text.
const HOSTILE: &str = r#"</pre><script>document.title='hacked'</script><img src=x onerror="document.title='hacked'">\u202etxt.exe"#;
const LONG_LINE: usize = 10 << 20;

/// Runs a command that must succeed; its output goes to a file, if one is named.
#[track_caller]
pub(crate) fn good(scratch: &Scratch, args: &[&str], file: Option<&str>) -> String {
    good_in(scratch, ".", args, file)
}

/// The same in a folder of it.
#[track_caller]
pub(crate) fn good_in(scratch: &Scratch, folder: &str, args: &[&str], file: Option<&str>) -> String {
    let mut command = scratch.command(args);
    command.current_dir(scratch.path().join(folder));
    command.env("HOME", scratch.path()).env_remove("SSH_AUTH_SOCK").stdin(Stdio::null());
    let (code, stdout, stderr) = ended(command.spawn().unwrap());
    assert_eq!(code, 0, "{args:?}: {stderr}");
    if let Some(file) = file {
        scratch.write(file, &stdout);
    }
    stdout
}

pub(crate) fn ssh_keygen(scratch: &Scratch, args: &[&str]) {
    let mut command = Command::new("ssh-keygen");
    let run = command.args(args).current_dir(scratch.path()).stdin(Stdio::null()).output().unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
}

/// A ledger with hostile evidence, a draft that Ana approved, an export, the proof of the hostile entry, and what an auditor kept.
fn ledger() -> Scratch {
    let scratch = Scratch::with_ledger(CONFIGURATION);
    scratch.append(&known(1, &["idea"], ""));
    scratch.append(&[line("note", "hostile", &[], "")
        .replace("\"text\":\"x\"", &format!("\"text\":{}", json_text(HOSTILE)))]);
    ssh_keygen(&scratch, &["-q", "-t", "ed25519", "-N", "", "-C", "ana", "-f", "ana"]);
    let added = good(&scratch, &["person", "add", "ana", "--key", "ana.pub", "--first-admin"], None);
    let added: serde_json::Value = serde_json::from_str(&added).unwrap();
    scratch.write("kept.root", added["keyId"].as_str().unwrap());
    let (_, answer) = scratch.build(&request("x-1", "draft_only", false));
    let draft = answer["artifacts"][0]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    good(&scratch, &["approve", &draft, "--sign-with", "ana.pub", "--write-statement", "verdict.json"], None);
    ssh_keygen(&scratch, &["-q", "-Y", "sign", "-n", "crealeph-verdict", "-f", "ana", "verdict.json"]);
    let statement = ["--statement", "verdict.json", "--signature", "verdict.json.sig"];
    good(&scratch, &[&["approve", &draft][..], &statement].concat(), None);
    good(&scratch, &["ledger", "key"], Some("saved.key"));
    good(&scratch, &["ledger", "checkpoint"], Some("saved.checkpoint"));
    let export = good(&scratch, &["ledger", "export"], Some("good.jsonl"));
    let hostile: serde_json::Value =
        serde_json::from_str(&good(&scratch, &["ledger", "get", "key:hostile"], None)).unwrap();
    good(&scratch, &["ledger", "prove", hostile["id"].as_str().unwrap()], Some("proof.json"));
    forge(&scratch, &export);
    scratch
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace("\\\\u202e", "\\u202e")
}

/// The export with one digit changed; with a signature moved to another statement; with a line of 10 MB in it; and the proof of another entry.
fn forge(scratch: &Scratch, export: &str) {
    let lines: Vec<&str> = export.lines().collect();
    scratch.write("forged.jsonl", &export.replacen("\"m-idea\"", "\"m-idem\"", 1));
    let long = format!("{{\"entry\":\"<b>{}</b>\"}}", "<i>x".repeat(LONG_LINE / 4));
    let (head, tail) = lines.split_at(3);
    scratch.write("long.jsonl", &format!("{}\n{long}\n{}\n", head.join("\n"), tail.join("\n")));
    scratch.write("cut.jsonl", &format!("{}\n", lines[..lines.len() - 2].join("\n")));
    let proof = scratch.read("proof.json");
    scratch.write("forged-proof.json", &proof.replacen("hacked", "harmed", 1));
    let (code, _, _) = scratch.run(
        &["ledger", "verify", "good.jsonl", "--key", "saved.key", "--checkpoint", "saved.checkpoint"],
        "",
    );
    assert_eq!(code, 0);
    for forged in ["forged.jsonl", "long.jsonl", "cut.jsonl"] {
        let (code, said, _) = scratch.run(&["ledger", "verify", forged, "--key", "saved.key", "--json"], "");
        assert_eq!(code, 1, "{forged}: {said}");
    }
    let (code, _, said) =
        scratch.run(&["ledger", "verify-proof", "forged-proof.json", "--key", "saved.key"], "");
    assert_eq!(code, 1, "{said}");
}

/// Two runs, the second exported, with the key; its diff with another word in it; and exports without the first and without the last receipt.
fn runs() -> Scratch {
    let scratch = Scratch::new();
    // The user's own state must not be in the workspace.
    let folder = scratch.path().join("workspace");
    fs::create_dir(&folder).unwrap();
    scratch.write("workspace/crealeph.toml", CONFIGURATION);
    scratch.write("workspace/greeting.txt", "hello\n");
    assert!(Command::new("git").args(["init", "-q", "."]).current_dir(&folder).status().unwrap().success());
    let in_workspace = |args: &[&str], file| good_in(&scratch, "workspace", args, file);
    let [first, last] = ["echo hallo > greeting.txt", "echo bye > greeting.txt"].map(|task| {
        let run = in_workspace(&["work", "run", "--agent", "writer", task, "--json"], None);
        let run: serde_json::Value = serde_json::from_str(&run).unwrap();
        run["receipt_id"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
    });
    in_workspace(&["work", "key"], Some("work.key"));
    for (folder, left_out) in [("exported", None), ("gap", Some(&first)), ("cut", Some(&last))] {
        in_workspace(&["work", "export", &last, &format!("../{folder}")], None);
        if let Some(run) = left_out {
            fs::remove_dir_all(scratch.path().join(format!("{folder}/runs/{run}"))).unwrap();
        }
    }
    // An export that was forged can bring the key that fits.
    fs::copy(scratch.path().join("work.key"), scratch.path().join("exported/work.key")).unwrap();
    copy_files(&scratch, &format!("exported/runs/{last}"), "run");
    fs::create_dir(scratch.path().join("forged")).unwrap();
    let diff = scratch.read("run/change.diff");
    scratch.write("forged/change.diff", &diff.replacen("bye", "hi", 1));
    copy_files(&scratch, &format!("exported/runs/{last}"), &format!("changed/runs/{last}"));
    copy_files(&scratch, &format!("exported/runs/{first}"), &format!("changed/runs/{first}"));
    scratch.write(&format!("changed/runs/{last}/change.diff"), &diff.replacen("bye", "hi", 1));
    judge_chains(&scratch, &last);
    scratch
}

fn copy_files(scratch: &Scratch, from: &str, to: &str) {
    let (from, to) = (scratch.path().join(from), scratch.path().join(to));
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file()) {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// What the command says of each folder; and the hash of the last receipt, which an auditor kept.
fn judge_chains(scratch: &Scratch, last: &str) {
    let verify = |folder: &str, more: &[&str]| {
        let receipt = format!("{folder}/runs/{last}");
        let args = [&["work", "verify", &receipt, "--key", "work.key", "--json"], more].concat();
        let (code, said, stderr) = scratch.run(&args, "");
        (code, serde_json::from_str(&said).unwrap_or_else(|_| panic!("{folder}: {said}{stderr}")))
    };
    let (code, good): (i32, serde_json::Value) = verify("exported", &[]);
    assert_eq!((code, &good["chainLength"]), (0, &serde_json::json!(2)), "{good}");
    let head = good["receiptHash"].as_str().unwrap_or_else(|| panic!("{good}"));
    scratch.write("kept.head", head);
    for (folder, chain, kind) in [
        ("gap", "gap/runs", "missing"),
        ("exported", "cut/runs", "truncated"),
        ("changed", "changed/runs", "changed"),
    ] {
        let (code, bad) = verify(folder, &["--chain", chain]);
        assert_eq!((code, &bad["kind"]), (1, &serde_json::json!(kind)), "{folder}: {bad}");
    }
}

#[test]
fn the_verifier_opened_from_a_file() {
    let (ledger, run) = (ledger(), runs());
    good(&ledger, &["verify-page", "."], None);
    let (ledger, run) = (ledger.path().to_str().unwrap(), run.path().to_str().unwrap());
    tell("verifier.mjs", &[("CREALEPH_FOLDER", ledger), ("CREALEPH_RUN", run)]);
}
