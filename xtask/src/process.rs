//! Starting other programs: shown as a person would type them, their output passed through or captured.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Outcome};

/// Cargo, as found on PATH, started in `root`.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    program(root, "cargo", arguments)
}

pub(crate) fn program(root: &Path, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root);
    command
}

/// Runs to the end with output passed through.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|source| Failure::Start { command: shown(command), source })?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Program { command: shown(command), status: status.to_string(), details: String::new() })
}

/// Runs to the end and returns stdout; stderr becomes part of the failure.
pub(crate) fn capture(command: &mut Command) -> Outcome<Vec<u8>> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Failure::Start { command: shown(command), source })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Failure::Program {
        command: shown(command),
        status: output.status.to_string(),
        details: format!("\n{}", String::from_utf8_lossy(&output.stderr).trim_end()),
    })
}

/// Whether the program starts and succeeds; nothing is shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    capture(command).is_ok()
}

/// The command line as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_named_with_its_arguments_status_and_stderr() {
        let mut command = program(Path::new("/"), "sh", &["-c", "echo why >&2; exit 3"]);
        let failure = capture(&mut command).unwrap_err().to_string();
        assert!(failure.contains("sh -c echo why"), "{failure}");
        assert!(failure.contains('3') && failure.ends_with("why"), "{failure}");
    }

    #[test]
    fn an_absent_program_is_named() {
        let mut command = program(Path::new("/"), "no-such-program-here", &[]);
        assert!(run(&mut command).unwrap_err().to_string().contains("`no-such-program-here`"));
    }

    #[test]
    fn stdout_is_returned() {
        assert_eq!(capture(&mut program(Path::new("/"), "echo", &["word"])).unwrap(), b"word\n");
    }
}
