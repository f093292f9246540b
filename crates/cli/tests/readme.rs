//! What the documents show is what the program does: every `$ crealeph …` in a `console` block of the README and of
//! `docs/` is run in the repository's root and must print exactly what stands below it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_session_in_the_documents_is_real() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents = vec![root.join("README.md")];
    collect_documents(&root.join("docs"), &mut documents);
    let mut count = 0;
    let mut failures = Vec::new();
    for document in documents {
        for (line, command, shown) in sessions(&fs::read_to_string(&document).unwrap()) {
            count += 1;
            let printed = run(&root, &command);
            if printed != shown {
                failures.push(format!("{}:{line}: $ {command}\n{printed}", document.display()));
            }
        }
    }
    assert!(count >= 5, "the sessions were found: {count}");
    assert!(failures.is_empty(), "these print something else now:\n{}", failures.join("\n"));
}

fn collect_documents(folder: &Path, documents: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect_documents(&path, documents);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            documents.push(path);
        }
    }
}

/// The line, the command and the output shown, of every command in a `console` block.
fn sessions(text: &str) -> Vec<(usize, String, String)> {
    let mut sessions: Vec<(usize, String, String)> = Vec::new();
    let mut is_console = false;
    for (number, line) in text.lines().enumerate() {
        match (is_console, line) {
            (false, "```console") => is_console = true,
            (true, "```") => is_console = false,
            (true, line) => match line.strip_prefix("$ ") {
                Some(command) => sessions.push((number + 1, command.to_owned(), String::new())),
                None => {
                    let (_, _, shown) = sessions.last_mut().expect("a command comes first");
                    shown.push_str(line);
                    shown.push('\n');
                }
            },
            _ => {}
        }
    }
    sessions
}

fn run(root: &Path, command: &str) -> String {
    let path = Path::new(env!("CARGO_BIN_EXE_crealeph")).parent().unwrap();
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .env("PATH", path)
        .current_dir(root)
        .output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}
