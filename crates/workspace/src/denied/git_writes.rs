//! Paths that a run may have written in a git folder. Owns the distinction between those that git itself writes in ordinary use, which
//! are discarded, and those that make programs run or lead elsewhere, which are denied; pure.

/// Parts of a git folder that make git run programs, or lead it to other folders. Everything below them is included.
const DANGEROUS: [&str; 9] = [
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "info",
    "objects/info",
    "modules",
    "worktrees",
];

/// Paths below those that git writes itself.
const ROUTINE: [&str; 5] = [
    "info/refs",
    "objects/info/packs",
    "objects/info/commit-graph",
    "objects/info/commit-graphs",
    "objects/info/multi-pack-index",
];

/// Git folders within a git folder: of submodules, and of other working trees.
const NESTED: [&str; 2] = ["modules", "worktrees"];

/// Files that `git status` refreshes in them.
const REFRESHED: [&str; 2] = ["index", "index.lock"];

/// Whether a path inside a git folder is one that git writes in ordinary use: `git status`, `add`, `commit`, `stash`,
/// `checkout`, `merge`, `rebase`, `gc`.
pub(crate) fn is_routine(inner: &str) -> bool {
    let inner = inner.to_ascii_lowercase();
    let lies_in = |folder: &&str| {
        inner.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if NESTED.iter().any(lies_in) {
        let names: Vec<&str> = inner.split('/').skip(2).collect();
        let is_plain = names.iter().all(|name| !DANGEROUS.contains(name));
        return is_plain && names.last().is_some_and(|name| REFRESHED.contains(name));
    }
    ROUTINE.iter().any(lies_in) || !DANGEROUS.iter().any(lies_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_git_writes_and_files_it_must_not_find() {
        for routine in [
            "HEAD",
            "ORIG_HEAD",
            "FETCH_HEAD",
            "index",
            "index.lock",
            "COMMIT_EDITMSG",
            "MERGE_MSG",
            "objects/ab/cdef",
            "objects/pack/pack-1.pack",
            "objects/info/packs",
            "objects/info/commit-graphs/graph-1.graph",
            "refs/heads/main",
            "refs/stash",
            "logs/HEAD",
            "packed-refs",
            "info/refs",
            "rebase-merge/head-name",
            "modules/sub/index",
            "worktrees/w/index",
        ] {
            assert!(is_routine(routine), "{routine}");
        }
        for dangerous in [
            "hooks",
            "hooks/pre-commit",
            "HOOKS/pre-commit",
            "config",
            "Config",
            "config.worktree",
            "commondir",
            "gitdir",
            "info/attributes",
            "info/exclude",
            "info/grafts",
            "info/sparse-checkout",
            "objects/info/alternates",
            "objects/info/http-alternates",
            "modules/sub/config",
            "modules/sub/hooks/post-checkout",
            "modules/a/b/hooks/index",
            "modules/sub/HEAD",
            "worktrees/w/gitdir",
            "worktrees/w/config.worktree",
            "worktrees/new",
        ] {
            assert!(!is_routine(dangerous), "{dangerous}");
        }
    }
}
