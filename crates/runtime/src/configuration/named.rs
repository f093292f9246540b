//! The files that a configuration names, and those it is read through: they define grants. Owns which keys contain a
//! path; a word of a command counts if the sandbox would treat it as a file, whether it exists yet or not.

use std::path::{Path, PathBuf};

use toml::Value;

use super::{Configuration, absolute};
use crate::agents::process::on_path;

/// Keys whose value, or every text in it, is a path.
const PATHS: &[&str] =
    &["read", "caches", "home", "secret_files", "file", "ca_file", "schemas", "rules", "location", "keys"];
const COMMAND: &str = "command";
/// Programs whose `-c` takes a line of shell.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ksh", "zsh"];
/// Words of a shell line after which the next word is a program or a script.
const STARTERS: &[&str] = &[
    ".", "source", "exec", "env", "command", "nohup", "time", "sh", "bash", "dash", "ksh", "zsh", "python",
    "python3", "node", "perl", "ruby", "php", "deno", "bun",
];

/// A file that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedFile {
    /// Where it is.
    pub path: PathBuf,
    /// A command names it: a program, a script, or a file that goes with it.
    pub is_of_command: bool,
    /// It was found on the PATH, under a name without a folder.
    pub is_on_path: bool,
}

impl NamedFile {
    fn new(path: PathBuf, is_of_command: bool) -> Self {
        NamedFile { path, is_of_command, is_on_path: false }
    }
}

impl Configuration {
    /// The configuration's own file and every file that it names, as absolute paths, links not followed.
    pub fn named_files(&self) -> Vec<NamedFile> {
        let mut found = Vec::new();
        if let Some(path) = self.absolute_path() {
            found.push(NamedFile::new(path, false));
        }
        for section in self.document.values() {
            collect(section, self.folder(), &mut found);
        }
        found.sort();
        found.dedup();
        found
    }
}

fn collect(value: &Value, folder: &Path, found: &mut Vec<NamedFile>) {
    let Value::Table(table) = value else { return };
    for (key, value) in table {
        if key == COMMAND {
            found.extend(command_files(&words(value), folder));
        } else if PATHS.contains(&key.as_str()) {
            let paths = texts(value).into_iter().flat_map(|text| places(text, folder));
            found.extend(paths.map(|path| NamedFile::new(path, false)));
        }
        collect(value, folder, found);
    }
}

/// The texts in a value: itself, its elements, its values.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::Table(table) => table.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Where a path leads: from the folder, and from HOME if it is written so.
fn places(text: &str, folder: &Path) -> Vec<PathBuf> {
    let home = text.strip_prefix("~/").zip(std::env::var_os("HOME"));
    let home = home.map(|(inside, home)| absolute(Path::new(&home), inside));
    std::iter::once(absolute(folder, text)).chain(home).collect()
}

/// A command as the configuration has it: a list, or one line for the shell.
fn words(value: &Value) -> Vec<&str> {
    match value {
        Value::String(line) => vec!["/bin/sh", "-c", line],
        other => texts(other),
    }
}

fn command_files(words: &[&str], folder: &Path) -> Vec<NamedFile> {
    let Some((program, rest)) = words.split_first() else { return Vec::new() };
    let program_file = match program.contains('/') {
        true => Some(NamedFile::new(absolute(folder, program), true)),
        false => on_path(program).map(|path| NamedFile { is_on_path: true, ..NamedFile::new(path, true) }),
    };
    let mut found = Vec::new();
    let is_shell = program.rsplit('/').next().is_some_and(|name| SHELLS.contains(&name));
    let mut is_line = false;
    for word in rest.iter().filter(|word| !word.is_empty()) {
        match is_shell && is_line {
            true => found.extend(line_files(word, folder)),
            // Options and prose are no paths; a path of several words is one if a file is there.
            false => {
                let path = absolute(folder, word);
                if path.is_file() || !word.contains(char::is_whitespace) && !word.starts_with('-') {
                    found.push(path);
                }
            }
        }
        is_line = *word == "-c" || word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    }
    program_file.into_iter().chain(found.into_iter().map(|path| NamedFile::new(path, true))).collect()
}

/// The files in a line of shell at the position of a program or a script.
fn line_files(line: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for command in line.split([';', '&', '|', '(', ')', '\n', '`', '{', '}']) {
        for word in command.split_whitespace() {
            let word = word.trim_matches(['"', '\'', '$']);
            if word.contains('=') || word.starts_with('-') {
                continue;
            }
            let path = absolute(folder, word);
            if path.is_file() {
                found.push(path);
            }
            if !STARTERS.contains(&word.rsplit('/').next().unwrap_or_default()) {
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    #[test]
    fn every_file_that_defines_grants_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["run.sh", "a.txt", "my tool"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        let text = "
            [ledger]
            location = 'log.db'
            [builder]
            rules = 'rules.toml'
            [tenants.t.robots.r.builder]
            rules = 'robot.toml'
            [agents.'p@1']
            command = ['python3', 'agents/p.py', '--fast', 'several words here', 'my tool']
            secret_headers = { A = { file = 'token' } }
            [work.agents.w]
            command = 'X=1 exec sh run.sh a.txt; cat a.txt'
            home = ['login']
            secret_files = { K = 'key' }
            prompt = 'prose'
        ";
        let path = root.join("crealeph.toml");
        std::fs::write(&path, text).unwrap();
        let found = Configuration::find(Some(&path)).unwrap().named_files();
        let names: Vec<&str> =
            found.iter().filter_map(|file| file.path.strip_prefix(&root).ok()?.to_str()).collect();
        let expected = [
            "agents/p.py",
            "crealeph.toml",
            "key",
            "log.db",
            "login",
            "my tool",
            "robot.toml",
            "rules.toml",
            "run.sh",
            "token",
        ];
        assert_eq!(names, expected);
    }
}
