//! Which paths a run may change, and in which class a change falls (R28): protected, tests, generated or
//! other, by globs from configuration that are checked when they are loaded. A glob denies or protects a path
//! under every name that some file system treats as the same: in other case, with dots or spaces at the end of a name, with
//! characters that are not shown.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::default_paths::{PROTECTED_INVARIANTS, PROTECTED_LAWS, globs};
use super::protected::{ProtectedPaths, folded};

/// How many globs one list may hold.
const MAX_GLOBS: usize = 1_000;

/// The class of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeltaClass {
    /// Λ: policies, CI, configuration.
    Laws,
    /// Q: tests, schemas.
    Invariants,
    /// Π: generated files, docs.
    Projections,
    /// O: everything else.
    Others,
}

impl DeltaClass {
    /// Every class.
    pub const ALL: [DeltaClass; 4] =
        [DeltaClass::Laws, DeltaClass::Invariants, DeltaClass::Projections, DeltaClass::Others];

    /// The words for it that people read; the contract's letter stays in what is recorded.
    pub fn in_words(self) -> &'static str {
        match self {
            DeltaClass::Laws => "protected paths",
            DeltaClass::Invariants => "tests",
            DeltaClass::Projections => "generated files",
            DeltaClass::Others => "other files",
        }
    }

    /// The contract's letter.
    pub fn letter(self) -> &'static str {
        match self {
            DeltaClass::Laws => "Λ",
            DeltaClass::Invariants => "Q",
            DeltaClass::Projections => "Π",
            DeltaClass::Others => "O",
        }
    }
}

/// Path rules as a configuration file has them. A glob's `*` stays within a folder, `**` does not.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathRulesSource {
    /// What may be changed; everything if absent.
    pub allowed: Option<Vec<String>>,
    /// Paths that must not be changed, even if they are allowed.
    pub denied: Vec<String>,
    /// Whether protected paths may be changed.
    pub allow_laws: bool,
    /// Which paths are protected (Λ).
    pub laws: Vec<String>,
    /// Which paths are tests (Q).
    pub invariants: Vec<String>,
    /// Which paths are generated (Π).
    pub projections: Vec<String>,
    /// How many deltas of protected paths there may be.
    pub max_laws: Option<u64>,
    /// How many deltas of tests.
    pub max_invariants: Option<u64>,
    /// How many deltas of generated files.
    pub max_projections: Option<u64>,
    /// How many other deltas.
    pub max_others: Option<u64>,
}

impl Default for PathRulesSource {
    fn default() -> Self {
        let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        PathRulesSource {
            allowed: None,
            denied: Vec::new(),
            allow_laws: false,
            laws: globs(PROTECTED_LAWS),
            invariants: globs(PROTECTED_INVARIANTS),
            projections: owned(&[
                "docs/**",
                "**/*.md",
                "**/generated/**",
                "**/*.lock",
                "**/package-lock.json",
                "dist/**",
            ]),
            max_laws: None,
            max_invariants: None,
            max_projections: None,
            max_others: None,
        }
    }
}

/// Limits per class that override a configuration's; absent ones stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassLimits {
    /// Λ.
    pub laws: Option<u64>,
    /// Q.
    pub invariants: Option<u64>,
    /// Π.
    pub projections: Option<u64>,
    /// O.
    pub others: Option<u64>,
}

impl PathRulesSource {
    /// The same rules with other limits per class.
    #[must_use]
    pub fn limited(self, limits: &ClassLimits) -> Self {
        PathRulesSource {
            max_laws: limits.laws.or(self.max_laws),
            max_invariants: limits.invariants.or(self.max_invariants),
            max_projections: limits.projections.or(self.max_projections),
            max_others: limits.others.or(self.max_others),
            ..self
        }
    }

    fn limits(&self) -> [(DeltaClass, Option<u64>); 4] {
        [
            (DeltaClass::Laws, self.max_laws),
            (DeltaClass::Invariants, self.max_invariants),
            (DeltaClass::Projections, self.max_projections),
            (DeltaClass::Others, self.max_others),
        ]
    }
}

/// Why path rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathRulesError {
    /// An invalid glob.
    #[error("`{list}` has the invalid glob `{glob}`: {why}")]
    BadGlob {
        /// Its list.
        list: &'static str,
        /// The glob.
        glob: String,
        /// What is wrong.
        why: String,
    },
    /// More globs than a list may hold.
    #[error("`{list}` has {count} globs, at most 1000 are allowed")]
    TooMany {
        /// Which list.
        list: &'static str,
        /// How many it has.
        count: usize,
    },
}

/// Path rules that were checked.
#[derive(Clone, Debug)]
pub struct PathRules {
    allowed: Option<GlobSet>,
    denied: GlobSet,
    laws: GlobSet,
    invariants: GlobSet,
    projections: GlobSet,
    allow_laws: bool,
    /// Paths that stay unchanged whatever the rest says.
    protected: ProtectedPaths,
    limits: [(DeltaClass, Option<u64>); 4],
}

impl PathRules {
    /// Checks path rules.
    pub fn load(source: &PathRulesSource) -> Result<Self, PathRulesError> {
        Ok(PathRules {
            allowed: source
                .allowed
                .as_ref()
                .map(|globs| glob_set("allowed", globs, Case::Kept))
                .transpose()?,
            denied: glob_set("denied", &source.denied, Case::Folded)?,
            laws: glob_set("protected", &source.laws, Case::Folded)?,
            invariants: glob_set("tests", &source.invariants, Case::Folded)?,
            projections: glob_set("generated", &source.projections, Case::Kept)?,
            allow_laws: source.allow_laws,
            protected: ProtectedPaths::default(),
            limits: source.limits(),
        })
    }

    /// The same rules, and paths that no rule can allow.
    #[must_use]
    pub fn protecting(self, protected: ProtectedPaths) -> Self {
        PathRules { protected, ..self }
    }

    /// The same rules with the limits per class that `source` has.
    #[must_use]
    pub fn with_limits_of(self, source: &PathRulesSource) -> Self {
        PathRules { limits: source.limits(), ..self }
    }

    /// Whether this path stays unchanged whatever the rules allow.
    pub fn protects(&self, path: &str) -> bool {
        self.protected.holds(path)
    }

    /// The class of a change of this path, the strictest that matches. Files that the test command names are tests too.
    pub fn class_of(&self, path: &str, test_command: Option<&str>) -> DeltaClass {
        let folded = lenient(path);
        let is_named = || test_command.is_some_and(|command| is_named_by(command, path));
        if self.laws.is_match(&folded) {
            DeltaClass::Laws
        } else if self.invariants.is_match(&folded) || is_named() {
            DeltaClass::Invariants
        } else if self.projections.is_match(path) {
            DeltaClass::Projections
        } else {
            DeltaClass::Others
        }
    }

    /// Whether a run may change this path.
    pub fn permits(&self, path: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.is_match(path)) && !self.denies(path)
    }

    /// Whether a path may not be changed, nor be the target of a new link.
    pub(super) fn denies(&self, path: &str) -> bool {
        let folded = lenient(path);
        let is_law = !self.allow_laws && self.laws.is_match(&folded);
        is_law || self.denied.is_match(&folded) || self.protected.holds(path)
    }

    /// The limits per class, strictest class first.
    pub(super) fn limits(&self) -> impl Iterator<Item = (DeltaClass, u64)> {
        self.limits.iter().filter_map(|(class, limit)| Some((*class, (*limit)?)))
    }
}

/// Which names a glob matches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    /// Only those it names.
    Kept,
    /// Also those that a file system may treat as the same, and for `folder/**` the folder itself.
    Folded,
}

fn glob_set(list: &'static str, globs: &[String], case: Case) -> Result<GlobSet, PathRulesError> {
    if globs.len() > MAX_GLOBS {
        return Err(PathRulesError::TooMany { list, count: globs.len() });
    }
    let bad = |glob: &str, why: String| PathRulesError::BadGlob { list, glob: glob.to_owned(), why };
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let folder = glob.strip_suffix("/**").filter(|folder| case == Case::Folded && *folder != "**");
        for glob in [Some(glob.as_str()), folder].into_iter().flatten() {
            let mut builder = GlobBuilder::new(glob);
            builder.literal_separator(true).empty_alternates(true).case_insensitive(case == Case::Folded);
            set.add(builder.build().map_err(|error| bad(glob, error.kind().to_string()))?);
        }
    }
    set.build().map_err(|error| bad(error.glob().unwrap_or_default(), error.kind().to_string()))
}

/// A path as the most lenient file system reads it: without case, without invisible characters, without dots and spaces at the end of a name
/// or anything after a colon (NTFS).
fn lenient(path: &str) -> String {
    let folded = folded(path);
    let names = folded.split('/').map(|name| {
        let name = name.split(':').next().unwrap_or_default();
        name.trim_end_matches(['.', ' '])
    });
    names.collect::<Vec<_>>().join("/")
}

/// Whether a test command names a file: as it is, by the end of its path, or as a module of Python.
fn is_named_by(command: &str, path: &str) -> bool {
    let is_end = |end: &str| {
        let before = path.strip_suffix(end);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let words =
        command.split(|character: char| character.is_whitespace() || "\"'`;|&<>()${}=,".contains(character));
    let words = words.map(|word| word.trim_start_matches("./").trim_end_matches('/'));
    words.filter(|word| !word.is_empty() && !word.starts_with('-')).any(|word| {
        let module = word.replace('.', "/");
        is_end(word)
            || is_end(&format!("{module}.py"))
            || is_end(&format!("{module}/__main__.py"))
            || is_end(&format!("{module}/__init__.py"))
    })
}

/// The target of a link, from the top of the tree; absent if it is not in the tree, or is the tree itself.
pub fn led_to(link: &str, target: &str) -> Option<String> {
    let folder = link.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_paths_may_not_be_changed_by_default() {
        let rules = PathRules::load(&PathRulesSource::default()).unwrap();
        for law in
            ["crealeph.toml", ".github/ci.yml", ".github/workflows/a.yml", "policies/x.toml", "a/CODEOWNERS"]
        {
            assert_eq!((rules.class_of(law, None), rules.permits(law)), (DeltaClass::Laws, false), "{law}");
        }
        let others = [
            ("src/main.rs", DeltaClass::Others),
            ("tests/a.rs", DeltaClass::Invariants),
            ("src/a.test.ts", DeltaClass::Invariants),
            ("docs/a.md", DeltaClass::Projections),
            ("Cargo.lock", DeltaClass::Projections),
            ("src/github/workflows.rs", DeltaClass::Others),
            ("src/claude.md", DeltaClass::Laws),
            ("src/parser/json.py", DeltaClass::Others),
            ("json.py", DeltaClass::Invariants),
            ("src/types.py", DeltaClass::Invariants),
            ("package.json", DeltaClass::Invariants),
            ("web/package-lock.json", DeltaClass::Projections),
            ("src/contest.rs", DeltaClass::Others),
            ("src/attest.py", DeltaClass::Others),
            ("README.md", DeltaClass::Projections),
            (".gitignore", DeltaClass::Others),
            ("hooks/useState.ts", DeltaClass::Others),
            ("src/rules.rs", DeltaClass::Others),
        ];
        for (path, class) in others {
            let permits = class != DeltaClass::Laws;
            assert_eq!((rules.class_of(path, None), rules.permits(path)), (class, permits), "{path}");
        }
    }

    #[test]
    fn a_protected_path_is_protected_under_every_name_of_it() {
        let rules = PathRules::load(&PathRulesSource::default()).unwrap();
        for path in [
            ".GitHub/Workflows/ci.yml",
            ".github",
            "vendor/thing/.github/workflows/ci.yml",
            ".github./workflows/ci.yml",
            ".github /x",
            ".g\u{200c}ithub/x",
            ".github::$INDEX_ALLOCATION/x",
            "sub/JENKIN\u{17f}FILE.release",
            ".Claude",
            "a/b/.MCP.JSON",
            "sub/.crealeph-x/y",
            "azure-pipelines-release.yaml",
            "lefthook-local.yml",
            ".lefthook/pre-push/x.sh",
        ] {
            assert!(!rules.permits(path), "{path}");
        }
    }

    #[test]
    fn files_named_in_the_test_command_are_tests() {
        let rules = PathRules::load(&PathRulesSource::default()).unwrap();
        for (command, path, is_test) in [
            ("sh check.sh", "check.sh", true),
            ("cd sub && ./run-all.sh --fast", "sub/run-all.sh", true),
            ("python3 -m tools.verify", "tools/verify.py", true),
            ("python3 -m tools.verify", "tools/verify/__main__.py", true),
            ("python3 -m tools.verify", "tools/other.py", false),
            ("grep -q day greeting.txt", "greeting.txt", true),
            ("cargo test", "src/main.rs", false),
            ("true", "check.sh", false),
        ] {
            let class = rules.class_of(path, Some(command));
            assert_eq!(class == DeltaClass::Invariants, is_test, "{command}: {path}");
        }
    }

    #[test]
    fn a_link_is_followed_without_looking() {
        for (link, target, led) in [
            ("a", ".github/x", Some(".github/x")),
            ("d/e/a", "../../.github", Some(".github")),
            ("d/a", "./b", Some("d/b")),
            ("a", ".", None),
            ("a", "../x", None),
            ("a", "/etc", None),
        ] {
            assert_eq!(led_to(link, target).as_deref(), led, "{link} -> {target}");
        }
    }

    #[test]
    fn allowed_and_denied_paths() {
        let source = PathRulesSource {
            allowed: Some(vec!["src/*.rs".to_owned()]),
            denied: vec!["src/secret.rs".to_owned()],
            ..PathRulesSource::default()
        };
        let rules = PathRules::load(&source).unwrap();
        assert!(rules.permits("src/main.rs"));
        assert!(!rules.permits("src/deep/main.rs"), "`*` stays within a folder");
        assert!(!rules.permits("src/secret.rs"));
        let mut protected = ProtectedPaths::default();
        protected.add_name("crealeph.toml");
        let all = PathRulesSource { laws: Vec::new(), allow_laws: true, ..PathRulesSource::default() };
        let rules = PathRules::load(&all).unwrap();
        assert!(rules.permits("a/crealeph.toml"));
        assert!(!rules.protecting(protected).permits("a/crealeph.toml"), "no rule opens what is protected");
        let broken = PathRulesSource { denied: vec!["a[".to_owned()], ..PathRulesSource::default() };
        assert!(matches!(PathRules::load(&broken), Err(PathRulesError::BadGlob { list: "denied", .. })));
    }
}
