//! Which paths a run may change, and in which class a change falls (R28): laws, invariants, projections or
//! anything else, by globs from configuration that are checked when they are loaded.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::protected::Protected;

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

/// Path rules as they stand in a configuration file. A glob's `*` stays within a folder, `**` does not.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathRulesSource {
    /// What may be changed; everything where absent.
    pub allowed: Option<Vec<String>>,
    /// What must not be changed, whatever is allowed.
    pub denied: Vec<String>,
    /// Whether laws may be changed.
    pub allow_laws: bool,
    /// Which paths are laws (Λ).
    pub laws: Vec<String>,
    /// Which paths are invariants (Q).
    pub invariants: Vec<String>,
    /// Which paths are projections (Π).
    pub projections: Vec<String>,
    /// How many deltas of laws there may be.
    pub max_laws: Option<u64>,
    /// How many deltas of invariants.
    pub max_invariants: Option<u64>,
    /// How many deltas of projections.
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
            laws: owned(&[
                "crealeph.toml",
                ".github/**",
                ".gitlab-ci.yml",
                ".gitlab/**",
                ".circleci/**",
                ".ci/**",
                ".woodpecker/**",
                ".buildkite/**",
                "Jenkinsfile",
                "azure-pipelines.yml",
                "**/CODEOWNERS",
                "policies/**",
                "policy/**",
                ".gitattributes",
                ".gitmodules",
                ".pre-commit-config.yaml",
                ".husky/**",
            ]),
            invariants: owned(&[
                "**/tests/**",
                "**/test/**",
                "**/__tests__/**",
                "**/*_test.*",
                "**/*.test.*",
                "**/*.spec.*",
                "**/test_*.py",
                "schemas/**",
                "**/*.schema.json",
            ]),
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

/// Why path rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathRulesError {
    /// A glob that is none.
    #[error("`{list}` holds the glob `{glob}`, which cannot be read: {why}")]
    BadGlob {
        /// Where it stands.
        list: &'static str,
        /// The glob.
        glob: String,
        /// What is wrong.
        why: String,
    },
    /// More globs than a list may hold.
    #[error("`{list}` holds {count} globs, at most 1000 are allowed")]
    TooMany {
        /// Which list.
        list: &'static str,
        /// How many it holds.
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
    /// What stays as it is whatever the rest says.
    protected: Protected,
    limits: [(DeltaClass, Option<u64>); 4],
}

impl PathRules {
    /// Checks path rules.
    pub fn load(source: &PathRulesSource) -> Result<Self, PathRulesError> {
        Ok(PathRules {
            allowed: source.allowed.as_ref().map(|globs| glob_set("allowed", globs)).transpose()?,
            denied: glob_set("denied", &source.denied)?,
            laws: glob_set("laws", &source.laws)?,
            invariants: glob_set("invariants", &source.invariants)?,
            projections: glob_set("projections", &source.projections)?,
            allow_laws: source.allow_laws,
            protected: Protected::default(),
            limits: [
                (DeltaClass::Laws, source.max_laws),
                (DeltaClass::Invariants, source.max_invariants),
                (DeltaClass::Projections, source.max_projections),
                (DeltaClass::Others, source.max_others),
            ],
        })
    }

    /// The same rules, and beyond them what no rule can open.
    #[must_use]
    pub fn protecting(self, protected: Protected) -> Self {
        PathRules { protected, ..self }
    }

    /// Whether this path stays as it is whatever the rules allow.
    pub fn protects(&self, path: &str) -> bool {
        self.protected.holds(path)
    }

    /// The class a change of this path falls in, the strictest that matches.
    pub fn class_of(&self, path: &str) -> DeltaClass {
        if self.laws.is_match(path) {
            DeltaClass::Laws
        } else if self.invariants.is_match(path) {
            DeltaClass::Invariants
        } else if self.projections.is_match(path) {
            DeltaClass::Projections
        } else {
            DeltaClass::Others
        }
    }

    /// Whether a run may change this path.
    pub fn permits(&self, path: &str) -> bool {
        let is_allowed = self.allowed.as_ref().is_none_or(|allowed| allowed.is_match(path));
        let is_law = !self.allow_laws && self.laws.is_match(path);
        is_allowed && !is_law && !self.denied.is_match(path) && !self.protected.holds(path)
    }

    /// The limits per class, strictest class first.
    pub(super) fn limits(&self) -> impl Iterator<Item = (DeltaClass, u64)> {
        self.limits.iter().filter_map(|(class, limit)| Some((*class, (*limit)?)))
    }
}

fn glob_set(list: &'static str, globs: &[String]) -> Result<GlobSet, PathRulesError> {
    if globs.len() > MAX_GLOBS {
        return Err(PathRulesError::TooMany { list, count: globs.len() });
    }
    let bad = |glob: &str, why: String| PathRulesError::BadGlob { list, glob: glob.to_owned(), why };
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let built = GlobBuilder::new(glob).literal_separator(true).build();
        set.add(built.map_err(|error| bad(glob, error.kind().to_string()))?);
    }
    set.build().map_err(|error| bad(error.glob().unwrap_or_default(), error.kind().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_laws_may_not_be_changed() {
        let rules = PathRules::load(&PathRulesSource::default()).unwrap();
        for law in
            ["crealeph.toml", ".github/ci.yml", ".github/workflows/a.yml", "policies/x.toml", "a/CODEOWNERS"]
        {
            assert_eq!((rules.class_of(law), rules.permits(law)), (DeltaClass::Laws, false), "{law}");
        }
        let others = [
            ("src/main.rs", DeltaClass::Others),
            ("tests/a.rs", DeltaClass::Invariants),
            ("src/a.test.ts", DeltaClass::Invariants),
            ("docs/a.md", DeltaClass::Projections),
            ("Cargo.lock", DeltaClass::Projections),
            ("src/.github", DeltaClass::Others),
        ];
        for (path, class) in others {
            assert_eq!((rules.class_of(path), rules.permits(path)), (class, true), "{path}");
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
        let mut protected = Protected::default();
        protected.add_name("crealeph.toml");
        let all = PathRulesSource { laws: Vec::new(), allow_laws: true, ..PathRulesSource::default() };
        let rules = PathRules::load(&all).unwrap();
        assert!(rules.permits("a/crealeph.toml"));
        assert!(!rules.protecting(protected).permits("a/crealeph.toml"), "no rule opens what is protected");
        let broken = PathRulesSource { denied: vec!["a[".to_owned()], ..PathRulesSource::default() };
        assert!(matches!(PathRules::load(&broken), Err(PathRulesError::BadGlob { list: "denied", .. })));
    }
}
