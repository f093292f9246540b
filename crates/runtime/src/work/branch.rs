//! Delivery to a git branch: one commit per item, made with git's own commands and an index of its own, so that neither the
//! working tree nor the user's index is touched. Owns the commit; refuses to carry changes that are not committed yet.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crealeph_contracts::digest::GitHash;
use crealeph_workspace::{Change, KeepError, Node, State, TreePath, Workspace};

use super::engine::{Work, WorkError};
use super::run::{Ending, Ran};
use super::store::HeldBranch;

/// The trailer that leads from a commit to its receipt.
pub(super) const TRAILER: &str = "CreAleph-Receipt";
/// The largest content that is committed.
const MAX_CONTENT_BYTES: u64 = 1 << 30;
/// How many files of a branch that moved are merged with a held change.
const MAX_MOVED: usize = 10_000;

/// A branch that commits go to.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) name: String,
    root: PathBuf,
    /// Where the workspace is in the repository, with a slash at its end where it is not the top.
    prefix: String,
    /// The index that commits are put together in.
    index: PathBuf,
    /// The newest commit.
    tip: GitHash,
    /// Whether the branch was there when this started, or since.
    is_there: bool,
}

/// Whether a branch holds a commit.
pub(super) fn holds(root: &Path, branch: &str, commit: &str) -> bool {
    let git = Git { root, index: None };
    git.run(&["merge-base", "--is-ancestor", commit, &format!("refs/heads/{branch}")], None).is_ok()
}

impl Branch {
    /// Opens a branch: where it is, or from the current commit.
    pub(super) fn open(root: &Path, name: &str, index: PathBuf) -> Result<Self, WorkError> {
        let git = Git { root, index: None };
        git.run(&["check-ref-format", "--branch", name], None)?;
        let reference = format!("refs/heads/{name}^{{commit}}");
        let there = git.run(&["rev-parse", "--verify", "--quiet", &reference], None);
        let is_there = there.is_ok();
        let tip = match there {
            Ok(tip) => tip,
            Err(_) => git.run(&["rev-parse", "--verify", "HEAD^{commit}"], None)?,
        };
        let prefix = git.run(&["rev-parse", "--show-prefix"], None)?;
        Ok(Branch { name: name.to_owned(), root: root.to_owned(), prefix, index, tip: hash(&tip)?, is_there })
    }

    /// Makes the commit of an item; the branch does not point to it yet.
    pub(super) fn commit(
        &mut self,
        work: &Work,
        ran: &Ran,
        changes: &[Change],
    ) -> Result<Result<GitHash, Ending>, WorkError> {
        if let Some(ending) = self.carries_other(work, changes)? {
            return Ok(Err(ending));
        }
        let _ = std::fs::remove_file(&self.index);
        let git = Git { root: &self.root, index: Some(&self.index) };
        git.run(&["read-tree", self.tip.as_str()], None)?;
        let mut lines = Vec::new();
        for change in changes {
            let path = format!("{}{}", self.prefix, change.path);
            let line = match &change.after {
                None => format!("0 {}\t{path}\0", "0".repeat(self.tip.as_str().len())),
                Some(node) => {
                    let blob = self.blob(&git, work, change, node, true)?;
                    format!("{} {blob}\t{path}\0", mode(node))
                }
            };
            lines.extend_from_slice(line.as_bytes());
        }
        git.run(&["update-index", "-z", "--index-info"], Some(&lines))?;
        let tree = git.run(&["write-tree"], None)?;
        let message = message(ran);
        let commit =
            git.run(&["commit-tree", &tree, "-p", self.tip.as_str(), "-F", "-"], Some(message.as_bytes()))?;
        let _ = std::fs::remove_file(&self.index);
        Ok(Ok(hash(&commit)?))
    }

    /// Points the branch to a commit, unless somebody else has moved it.
    pub(super) fn advance(&mut self, commit: &GitHash) -> Result<(), WorkError> {
        let git = Git { root: &self.root, index: None };
        let reference = format!("refs/heads/{}", self.name);
        let none = "0".repeat(self.tip.as_str().len());
        let old = if self.is_there { self.tip.as_str() } else { &none };
        git.run(&["update-ref", "-m", "crealeph work", &reference, commit.as_str(), old], None)?;
        self.tip = commit.clone();
        self.is_there = true;
        Ok(())
    }

    /// What a change that is held for this branch is written down with.
    pub(super) fn held(&self) -> HeldBranch {
        HeldBranch { name: self.name.clone(), tip: self.tip.as_str().to_owned() }
    }

    /// What the branch has since a commit and the workspace has not; the contents go into the store.
    pub(super) fn moved_since(
        &self,
        commit: &str,
        workspace: &Workspace,
        state: &State,
    ) -> Result<Vec<Change>, WorkError> {
        let git = Git { root: &self.root, index: None };
        let listed = git.output(
            &["diff-tree", "-r", "-z", "--no-renames", "--relative", commit, self.tip.as_str()],
            None,
        )?;
        let text = String::from_utf8_lossy(&listed);
        let mut fields = text.split('\0');
        let mut moved = Vec::new();
        while let (Some(told), Some(path)) = (fields.next().filter(|told| !told.is_empty()), fields.next()) {
            let Ok(path) = TreePath::parse(path) else { continue };
            let mut told = told.split(' ').skip(1);
            let (Some(mode), Some(blob)) = (told.next(), told.nth(1)) else { continue };
            if moved.len() >= MAX_MOVED {
                let why = format!("more than {MAX_MOVED} files changed on `{}`; run again", self.name);
                return Err(WorkError::Git { action: "merge".to_owned(), why });
            }
            let after = self.node(&git, workspace, &path, mode, blob)?;
            let before = state.get(&path).cloned();
            if before != after {
                moved.push(Change { path, before, after });
            }
        }
        Ok(moved)
    }

    /// A file or link of a commit as it would be in the workspace.
    fn node(
        &self,
        git: &Git<'_>,
        workspace: &Workspace,
        path: &TreePath,
        mode: &str,
        blob: &str,
    ) -> Result<Option<Node>, WorkError> {
        let filters = format!("--path={}{path}", self.prefix);
        match mode {
            "120000" => {
                let target = git.output(&["cat-file", "blob", blob], None)?;
                let target = String::from_utf8_lossy(&target).into_owned();
                Ok(Some(Node::Symlink { target: target.into() }))
            }
            "100644" | "100755" => {
                let bytes = git.output(&["cat-file", "--filters", &filters, blob], None)?;
                let digest = workspace.store().put(&bytes).map_err(KeepError::from)?;
                let (size_bytes, executable) = (bytes.len() as u64, mode == "100755");
                Ok(Some(Node::File { digest, size_bytes, executable }))
            }
            // Gone, or a submodule.
            _ => Ok(None),
        }
    }

    /// Why a commit of these changes would carry what somebody has not committed, if it would.
    pub(super) fn carries_other(&self, work: &Work, changes: &[Change]) -> Result<Option<Ending>, WorkError> {
        let git = Git { root: &self.root, index: None };
        for change in changes {
            if let Some(ending) = self.uncommitted(&git, work, change)? {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }

    /// A change of a file that is not what the branch has: the commit would carry what somebody has not committed.
    fn uncommitted(&self, git: &Git<'_>, work: &Work, change: &Change) -> Result<Option<Ending>, WorkError> {
        let name = format!("{}:{}{}", self.tip.as_str(), self.prefix, change.path);
        let known = git.run(&["rev-parse", "--verify", "--quiet", &name], None).ok();
        let before = match &change.before {
            None => None,
            Some(node) => Some(self.blob(git, work, change, node, false)?),
        };
        Ok((known != before).then(|| {
            Ending::Failed(format!(
                "Conflict: `{}` is not what the branch `{}` has; commit it first, or publish to the tree",
                change.path, self.name
            ))
        }))
    }

    /// Git's name of a content, by the filters of its path; written where asked.
    fn blob(
        &self,
        git: &Git<'_>,
        work: &Work,
        change: &Change,
        node: &Node,
        is_written: bool,
    ) -> Result<String, WorkError> {
        let bytes = match node {
            Node::Symlink { target } => target.as_bytes().to_vec(),
            Node::File { digest, .. } => {
                work.workspace.store().read(digest, MAX_CONTENT_BYTES).map_err(|error| WorkError::Git {
                    action: format!("commit `{}`", change.path),
                    why: error.to_string(),
                })?
            }
        };
        let path = format!("--path={}{}", self.prefix, change.path);
        let filters = if matches!(node, Node::Symlink { .. }) { "--no-filters" } else { &path };
        let mut arguments = vec!["hash-object", "-t", "blob"];
        if is_written {
            arguments.push("-w");
        }
        arguments.extend([filters, "--stdin"]);
        git.run(&arguments, Some(&bytes))
    }
}

fn mode(node: &Node) -> &'static str {
    match node {
        Node::File { executable: false, .. } => "100644",
        Node::File { executable: true, .. } => "100755",
        Node::Symlink { .. } => "120000",
    }
}

fn message(ran: &Ran) -> String {
    let description = ran.item.description.trim();
    let subject = description.lines().next().filter(|line| !line.is_empty()).unwrap_or(ran.item.id.as_str());
    let subject: String = subject.chars().take(72).collect();
    let body = if description == subject { String::new() } else { format!("{description}\n\n") };
    format!("{subject}\n\n{body}Work-Item: {}\n{TRAILER}: {}\n", ran.item.id, ran.id)
}

fn hash(text: &str) -> Result<GitHash, WorkError> {
    GitHash::parse(text)
        .ok_or_else(|| WorkError::Git { action: "name a commit".to_owned(), why: text.to_owned() })
}

struct Git<'g> {
    root: &'g Path,
    index: Option<&'g Path>,
}

impl Git<'_> {
    /// Runs git and gives what it prints, as text and without the line end.
    fn run(&self, arguments: &[&str], stdin: Option<&[u8]>) -> Result<String, WorkError> {
        Ok(text(&self.output(arguments, stdin)?))
    }

    /// Runs git and gives what it prints.
    fn output(&self, arguments: &[&str], stdin: Option<&[u8]>) -> Result<Vec<u8>, WorkError> {
        let failed = |why: String| WorkError::Git { action: arguments.join(" "), why };
        let mut command = Command::new("git");
        command.arg("-C").arg(self.root).args(arguments);
        command.env("GIT_TERMINAL_PROMPT", "0").env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        command.env_remove("GIT_INDEX_FILE");
        if let Some(index) = self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        let names = [("GIT_AUTHOR_NAME", "crealeph"), ("GIT_AUTHOR_EMAIL", "crealeph@localhost")];
        let has_name = Command::new("git").arg("-C").arg(self.root).args(["config", "user.email"]).output();
        if !has_name.is_ok_and(|output| output.status.success()) {
            command.envs(names);
            command.envs([("GIT_COMMITTER_NAME", "crealeph"), ("GIT_COMMITTER_EMAIL", "crealeph@localhost")]);
        }
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(format!("{error}; install git")))?;
        if let (Some(bytes), Some(mut pipe)) = (stdin, child.stdin.take()) {
            let bytes = bytes.to_vec();
            // Git may print before it has read everything.
            std::thread::spawn(move || pipe.write_all(&bytes));
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(failed(text(&output.stderr))),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']).to_owned()
}
