//! Git's objects, for the store of a workspace: which blobs the current commit has, and what is in them. Owns the processes
//! of `git` that are asked; writes nothing, and fetches nothing.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crealeph_contracts::digest::GitHash;
use crealeph_workspace::GitObjects;

/// From this many paths on, the whole commit is listed.
const MAX_NAMED: usize = 500;
/// The largest blob that is read.
const MAX_BLOB_BYTES: u64 = 1 << 30;

/// The objects of the repository that a workspace is in; nothing is found where it is in none.
pub(super) fn of(workspace: &Path) -> GitObjects {
    let (root, reading) =
        (workspace.to_owned(), Mutex::new(Reading { root: workspace.to_owned(), batch: None }));
    GitObjects {
        find: Box::new(move |paths| find(&root, paths).unwrap_or_default()),
        read: Box::new(move |blob| reading.lock().unwrap_or_else(PoisonError::into_inner).blob(blob)),
    }
}

fn git(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).arg("--literal-pathspecs").args(arguments);
    // Neither a newer git nor an older one fetches what a partial clone lacks.
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// The blobs of the current commit at some paths, as far as the repository has them.
fn find(root: &Path, paths: &[&str]) -> Option<Vec<(String, GitHash)>> {
    let mut command = git(root, &["ls-tree", "-r", "-z", "HEAD", "--"]);
    if paths.len() <= MAX_NAMED {
        command.args(paths);
    }
    let listed = command.output().ok().filter(|output| output.status.success())?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let entries = listed.split('\0').filter_map(|entry| {
        let (told, path) = entry.split_once('\t')?;
        let mut told = told.split(' ').skip(1);
        let blob = told.next().filter(|kind| *kind == "blob").and(told.next())?;
        Some((path.to_owned(), GitHash::parse(blob)?))
    });
    let mut found: Vec<(String, GitHash)> = entries.collect();
    let there = there(root, &found)?;
    found.retain(|(_, blob)| there.contains(blob.as_str()));
    Some(found)
}

/// Which of these blobs the repository has: a partial clone names more than it holds.
fn there(root: &Path, blobs: &[(String, GitHash)]) -> Option<BTreeSet<String>> {
    let mut command = git(root, &["cat-file", "--batch-check=%(objectname) %(objecttype)"]);
    let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
    let mut asked = child.stdin.take()?;
    let names: String = blobs.iter().flat_map(|(_, blob)| [blob.as_str(), "\n"]).collect();
    // Git answers before it has read everything.
    let asking = std::thread::spawn(move || asked.write_all(names.as_bytes()));
    let answered = child.wait_with_output().ok().filter(|output| output.status.success())?;
    asking.join().ok()?.ok()?;
    let text = String::from_utf8_lossy(&answered.stdout);
    Some(text.lines().filter_map(|line| line.strip_suffix(" blob")).map(str::to_owned).collect())
}

/// One `git cat-file --batch`, started when the first blob is asked for.
#[derive(Debug)]
struct Reading {
    root: PathBuf,
    batch: Option<Batch>,
}

#[derive(Debug)]
struct Batch {
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reading {
    fn blob(&mut self, blob: &GitHash) -> io::Result<Option<Vec<u8>>> {
        let mut batch = match self.batch.take() {
            Some(batch) => batch,
            None => Batch::start(&self.root)?,
        };
        // One that went wrong is not asked again.
        let read = batch.blob(blob)?;
        self.batch = Some(batch);
        Ok(read)
    }
}

impl Batch {
    fn start(root: &Path) -> io::Result<Self> {
        let mut child = git(root, &["cat-file", "--batch"]).stdin(Stdio::piped()).spawn()?;
        let (Some(ask), Some(answer)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Batch { child, ask, answer: BufReader::new(answer) })
    }

    fn blob(&mut self, blob: &GitHash) -> io::Result<Option<Vec<u8>>> {
        writeln!(self.ask, "{}", blob.as_str())?;
        self.ask.flush()?;
        let mut head = String::new();
        self.answer.read_line(&mut head)?;
        let size = match head.trim_end().split(' ').collect::<Vec<_>>().as_slice() {
            [_, "missing"] => return Ok(None),
            [_, "blob", size] => size.parse::<u64>().ok().filter(|size| *size <= MAX_BLOB_BYTES),
            _ => None,
        };
        let size = size.ok_or_else(|| io::Error::other(format!("git answered `{}`", head.trim_end())))?;
        let mut bytes = Vec::new();
        (&mut self.answer).take(size).read_to_end(&mut bytes)?;
        self.answer.read_line(&mut String::new())?;
        match bytes.len() as u64 == size {
            true => Ok(Some(bytes)),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
