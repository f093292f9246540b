//! What every case has: its own folder outside, a sandbox, and helpers to run things.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crealeph_sandbox::{Cancel, Config, Sandbox, SandboxOutcome, Spec};

#[derive(Clone, Copy)]
pub(crate) struct Case(pub(crate) &'static str, pub(crate) fn(&World));

pub(crate) struct World {
    pub(crate) folder: PathBuf,
    pub(crate) sandbox: Sandbox,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) fn scratch_folder() -> PathBuf {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("crealeph-sandbox-test-{}-{number}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    folder
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = scratch_folder();
        let mut config = Config::new(folder.join("state"));
        change(&mut config);
        let sandbox = Sandbox::new(config).unwrap();
        Self { folder, sandbox }
    }

    /// A directory outside with these files.
    pub(crate) fn directory(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let directory = self.folder.join(name);
        std::fs::create_dir_all(&directory).unwrap();
        for (path, text) in files {
            let path = directory.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        directory
    }

    pub(crate) fn run(&self, spec: &Spec<'_>) -> SandboxOutcome {
        self.sandbox.run(spec, &Cancel::new().unwrap()).unwrap()
    }

    /// Runs a Python program with `change`d grants and limits.
    pub(crate) fn python_with(&self, program: &str, change: impl FnOnce(&mut Spec<'_>)) -> SandboxOutcome {
        let mut spec = python(program);
        change(&mut spec);
        self.run(&spec)
    }

    /// Runs a Python program that must end by itself with code 0, and gives what it printed.
    pub(crate) fn python(&self, program: &str) -> String {
        good(&self.python_with(program, |_| {}))
    }

    pub(crate) fn shell(&self, program: &str) -> SandboxOutcome {
        self.run(&shell(program))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn python(program: &str) -> Spec<'static> {
    Spec::new(["/usr/bin/python3", "-c", program])
}

pub(crate) fn shell(program: &str) -> Spec<'static> {
    Spec::new(["/bin/sh", "-c", program])
}

pub(crate) fn good(outcome: &SandboxOutcome) -> String {
    assert!(outcome.succeeded(), "{outcome:?}\n{}{}", outcome.stdout.text(), outcome.stderr.text());
    outcome.stdout.text().trim().to_owned()
}

/// Processes on the machine with this word in their command line, ours left out.
pub(crate) fn processes_with(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid.parse::<u32>().is_err() || pid == std::process::id().to_string() {
            continue;
        }
        #[expect(clippy::disallowed_methods, reason = "a process may end while it is looked at")]
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(word) {
            found.push(format!("{pid} {line}"));
        }
    }
    found
}

pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}
