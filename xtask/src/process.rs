//! Starting other programs: shown as a person would type them, their output passed through or captured.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Runs to the end with output passed through; killed if it takes longer than this.
pub(crate) fn run_within(command: &mut Command, patience: Duration) -> Outcome {
    let start = Instant::now();
    let failed = |command: &Command, source| Failure::Start { command: shown(command), source };
    let mut child = command.stdin(Stdio::null()).spawn().map_err(|source| failed(command, source))?;
    loop {
        match child.try_wait().map_err(|source| failed(command, source))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let (command, status) = (shown(command), status.to_string());
                return Err(Failure::Program { command, status, details: String::new() });
            }
            None if start.elapsed() > patience => {
                let _ = child.kill();
                let _ = child.wait();
                let status = format!("ended after {} s", patience.as_secs());
                return Err(Failure::Program { command: shown(command), status, details: String::new() });
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
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
    fn a_program_that_takes_too_long_is_ended() {
        let mut command = program(Path::new("/"), "sleep", &["600"]);
        let failure = run_within(&mut command, Duration::from_millis(1)).unwrap_err().to_string();
        assert!(failure.contains("ended after 0 s"), "{failure}");
        assert!(run_within(&mut program(Path::new("/"), "true", &[]), Duration::from_secs(600)).is_ok());
    }

    #[test]
    fn stdout_is_returned() {
        assert_eq!(capture(&mut program(Path::new("/"), "echo", &["word"])).unwrap(), b"word\n");
    }
}
