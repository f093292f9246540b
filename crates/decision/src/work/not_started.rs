//! The program that a shell could not start, read from what the shell printed: exit code 127 means that it was not found, 126 that it
//! cannot be executed.

/// A program that a shell could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted {
    /// Its name or path, as given.
    pub program: String,
    /// Whether it exists and cannot be executed.
    pub is_there: bool,
}

/// The reasons that shells and `env` give, at the end of a line or, for zsh, before the name.
const NOT_FOUND: [&str; 3] = [": not found", ": command not found", ": No such file or directory"];
const NOT_EXECUTABLE: [&str; 3] = [": Permission denied", ": cannot execute", ": Exec format error"];
const BEFORE_NAME: &str = "command not found: ";

/// The program that ended a command with this exit code, if the output names it.
pub fn not_started(code: i32, printed: &str) -> Option<NotStarted> {
    let (ends, is_there) = match code {
        127 => (NOT_FOUND, false),
        126 => (NOT_EXECUTABLE, true),
        _ => return None,
    };
    let named = |line: &str| {
        if let (127, Some((_, name))) = (code, line.rsplit_once(BEFORE_NAME)) {
            return Some(name.to_owned());
        }
        let start = ends.iter().find_map(|end| line.rfind(end).map(|at| line.get(..at)))??;
        // `sh: 1: NAME`, `bash: line 1: NAME`, `env: 'NAME'`.
        let name = start.rsplit_once(": ").map_or(start, |(_, name)| name);
        Some(name.trim_matches(['\'', '"', '`', '‘', '’']).to_owned())
    };
    let mut lines = printed.lines().rev().map(str::trim);
    let program =
        lines.find_map(named).filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))?;
    Some(NotStarted { program, is_there })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_read_from_what_shells_print() {
        for (printed, name) in [
            ("sh: 1: foo: not found", "foo"),
            ("/bin/sh: 1: .venv/bin/python: not found\n", ".venv/bin/python"),
            ("some\nbash: line 1: foo: command not found", "foo"),
            ("./x.sh: line 3: foo: command not found\nmore", "foo"),
            ("/usr/bin/env: ‘node’: No such file or directory", "node"),
            ("env: 'node': No such file or directory", "node"),
            ("bash: ./gone: No such file or directory", "./gone"),
            ("zsh:1: command not found: foo", "foo"),
        ] {
            let expected = NotStarted { program: name.to_owned(), is_there: false };
            assert_eq!(not_started(127, printed), Some(expected), "{printed}");
        }
        let expected = NotStarted { program: "./x".to_owned(), is_there: true };
        assert_eq!(not_started(126, "sh: 1: ./x: Permission denied"), Some(expected.clone()));
        assert_eq!(not_started(126, "bash: ./x: cannot execute: required file not found"), Some(expected));
    }

    #[test]
    fn text_that_names_no_program_gives_none() {
        for (code, printed) in [
            (1, "sh: 1: foo: not found"),
            (127, ""),
            (127, "test failed"),
            (127, ": not found"),
            (127, "the file you want: was: not there: not found"),
            (126, "sh: 1: foo: not found"),
        ] {
            assert_eq!(not_started(code, printed).filter(|found| found.program == "foo"), None, "{printed}");
        }
    }
}
