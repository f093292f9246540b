//! The stage of the demo: writes its files, runs its commands as a shell would, shows both in 80 columns, and compares
//! every step with its expected result.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crealeph_runtime::configuration::FILE;

use crate::failure::{Failure, InputFailure, OutputFailure};
use crate::output::{Output, READER};
use crate::render::{COLUMNS, filled};
use crate::trusting::accept_own;

const MAX_LINES: usize = 24;

/// How a step must end.
pub(super) struct Ending {
    pub(super) code: i32,
    /// What must be in its output.
    pub(super) says: &'static str,
    /// What must not, unless it is empty.
    pub(super) lacks: &'static str,
}

/// The command does its work.
pub(super) const fn done(says: &'static str) -> Ending {
    Ending { code: 0, says, lacks: "" }
}

/// The command says no.
pub(super) const fn refused(says: &'static str) -> Ending {
    Ending { code: 1, says, lacks: "" }
}

/// The demo's folder and its output.
pub(super) struct Stage<'a> {
    output: &'a mut Output,
    root: PathBuf,
    folder: PathBuf,
}

impl<'a> Stage<'a> {
    /// Makes the folder, with this program in it as `crealeph`.
    pub(super) fn open(folder: Option<PathBuf>, output: &'a mut Output) -> Result<Stage<'a>, Failure> {
        let root = match folder {
            Some(folder) => empty(folder)?,
            None => temporary()?,
        };
        let unwritable = |path: &Path| {
            let path = path.to_owned();
            move |source| OutputFailure::Unwritable { path, source }
        };
        let root = root.canonicalize().map_err(unwritable(&root))?;
        let programs = root.join("bin");
        fs::create_dir(&programs).map_err(unwritable(&programs))?;
        let program = std::env::current_exe().map_err(unwritable(&programs))?;
        symlink(program, programs.join("crealeph")).map_err(unwritable(&programs))?;
        Ok(Stage { output, folder: root.clone(), root })
    }

    /// Goes on in a folder of this name.
    pub(super) fn act(&mut self, name: &str) -> Result<Stage<'_>, Failure> {
        let folder = self.root.join(name);
        fs::create_dir(&folder)
            .map_err(|source| OutputFailure::Unwritable { path: folder.clone(), source })?;
        Ok(Stage { output: self.output, root: self.root.clone(), folder })
    }

    /// Goes on in a folder that is there.
    pub(super) fn back_in(&mut self, name: &str) -> Stage<'_> {
        Stage { output: self.output, root: self.root.clone(), folder: self.root.join(name) }
    }

    /// Becomes the server of the folder's ledger; comes back only if that cannot be started.
    pub(super) fn serve(&mut self, listen: SocketAddr) -> Failure {
        let program = self.root.join("bin/crealeph");
        let mut command = Command::new(&program);
        command.args(["serve", "--listen", &listen.to_string()]).current_dir(&self.folder);
        InputFailure::Unreadable { path: program, source: command.exec() }.into()
    }

    /// Says where everything is and what to do next.
    pub(super) fn end(&mut self) -> Result<(), OutputFailure> {
        let folder = self.root.display().to_string();
        self.title("Now you")?;
        self.say(&format!(
            "Everything is still there: {folder}\n\
             Remove the folder when you are done. So that the commands above can be typed as they stand, in its folders shop \
             and decisions:\n\
             \x20 export PATH={folder}/bin:$PATH\n\n\
             What to try next:\n\
             \x20 crealeph serve                            the console, in the folder decisions\n\
             \x20 crealeph init                             a first agent of your own\n\
             \x20 crealeph work run --agent claude 'TASK'   a coding agent, in your repository\n\
             \x20 crealeph doctor                           what this machine offers\n\
             \x20 docs/README.md                            tutorials and the rest"
        ))
    }

    /// Fails unless a program is there.
    pub(super) fn needs(&self, program: &'static str) -> Result<(), Failure> {
        match self.shell(&format!("command -v {program}"))?.0 {
            0 => Ok(()),
            _ => Err(Failure::NoProgram(program)),
        }
    }

    /// Names what comes.
    pub(super) fn title(&mut self, title: &str) -> Result<(), OutputFailure> {
        self.output.line("")?;
        self.output.bold(title)?;
        self.output.line(&"=".repeat(title.len()))?;
        self.output.flush()
    }

    /// Tells what happens next.
    pub(super) fn say(&mut self, text: &str) -> Result<(), OutputFailure> {
        self.output.line("")?;
        self.show(text.lines(), "")
    }

    /// Writes a file of the story.
    pub(super) fn file(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(&self.folder);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
        written.map_err(|source| OutputFailure::Unwritable { path, source })?;
        let configuration = self.folder.join(FILE);
        match configuration.exists() {
            true => accept_own(&configuration),
            false => Ok(()),
        }
    }

    /// Shows a command, runs it, shows what it printed, and compares how it ended with the story; the output is returned.
    pub(super) fn run(&mut self, line: &str, ending: &Ending) -> Result<String, Failure> {
        self.output.line("")?;
        self.output.bold(&format!("$ {line}"))?;
        self.output.flush()?;
        let (code, printed) = self.shell(line)?;
        let lines: Vec<&str> = printed.lines().collect();
        self.show(lines.iter().copied().take(MAX_LINES), "  ")?;
        if lines.len() > MAX_LINES {
            self.output.line(&format!("  … and {} lines more", lines.len() - MAX_LINES))?;
        }
        self.output.flush()?;
        let is_clean = ending.lacks.is_empty() || !printed.contains(ending.lacks);
        if code == ending.code && printed.contains(ending.says) && is_clean {
            return Ok(printed);
        }
        Err(Failure::Demo {
            command: line.to_owned(),
            folder: self.folder.clone(),
            expected: format!("exit code {} and `{}`", ending.code, ending.says),
            code,
        })
    }

    fn shell(&self, line: &str) -> Result<(i32, String), Failure> {
        let mut path = self.root.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("exec 2>&1\n{line}")).current_dir(&self.folder).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if name_text.starts_with("CREALEPH_") || name_text.starts_with("GIT_") {
                command.env_remove(&name);
            }
        }
        command.env("PATH", path).env(READER, "text");
        // The story is the same whatever the user's git signs, hooks or templates.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let failed = |source| InputFailure::Unreadable { path: PathBuf::from("sh"), source };
        let output = command.output().map_err(failed)?;
        Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    fn show<'l>(&mut self, lines: impl Iterator<Item = &'l str>, indent: &str) -> Result<(), OutputFailure> {
        for line in lines {
            for part in wrapped(line, indent, COLUMNS).split('\n') {
                self.output.line(part)?;
            }
        }
        self.output.flush()
    }
}

/// A folder that holds nothing yet.
fn empty(folder: PathBuf) -> Result<PathBuf, Failure> {
    let made = fs::create_dir_all(&folder).and_then(|()| fs::read_dir(&folder));
    match made.map(|mut inside| inside.next().is_none()) {
        Ok(true) => Ok(folder),
        Ok(false) => Err(OutputFailure::NotEmpty(folder).into()),
        Err(source) => Err(OutputFailure::Unwritable { path: folder, source }.into()),
    }
}

/// A new folder for temporary files; it is kept, so that it can be inspected.
fn temporary() -> Result<PathBuf, Failure> {
    let parent = std::env::temp_dir();
    let mut tried = 0;
    loop {
        let number = std::process::id() + tried;
        let folder = parent.join(format!("crealeph-demo-{number}"));
        match fs::DirBuilder::new().mode(0o755).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && tried < 1_000 => tried += 1,
            Err(source) => return Err(OutputFailure::Unwritable { path: folder, source }.into()),
        }
    }
}

/// Breaks a line between words so that it fits; what it continues with is indented as far as it was, and two more.
fn wrapped(line: &str, indent: &str, columns: usize) -> String {
    let margin: String = line.chars().take_while(|letter| *letter == ' ').collect();
    let first = format!("{indent}{margin}");
    let hanging = format!("{first}{}", if indent.is_empty() { "" } else { "  " });
    filled(&first, &hanging, line.trim_start(), columns)
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_are_broken_between_words_and_never_lost() {
        assert_eq!(wrapped("one two three", "", 7), "one two\nthree");
        assert_eq!(wrapped("  one two three", "> ", 11), ">   one two\n>     three");
        assert_eq!(wrapped("unbreakably-long", "", 4), "unbreakably-long");
        assert_eq!(wrapped("a    b", "", 80), "a    b");
        assert_eq!(wrapped("", "  ", 80), "");
    }
}
