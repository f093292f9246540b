//! How git converts contents when it commits them and checks them out: line ends and `$Id$`, by the attributes of the base commit.
//! Owns which attributes count; refuses a path whose attributes name a program (a filter) or an encoding.
//!
//! The attributes are those of the `.gitattributes` files in the commit that a change is based on, of the git folder's
//! `info/attributes`, and of the user. A `.gitattributes` file that an agent wrote counts from the next commit on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gix_attributes::search::{MetadataCollection, Outcome};
use gix_attributes::{Search, StateRef};
use gix_filter::Pipeline;
use gix_filter::pipeline::{CrlfRoundTripCheck, Options, convert};
use gix_hash::ObjectId;
use gix_object::Kind;
use gix_object::bstr::{BStr, ByteSlice as _};
use gix_object::tree::EntryKind;

use super::super::error::WorkError;
use super::{HASH, Repository, entries_at, failed, refused};

/// The largest attribute file that is read, as in git.
const MAX_ATTRIBUTES_BYTES: usize = 100 << 20;
const ATTRIBUTES_FILE: &str = ".gitattributes";
/// Where paths of the repository are rooted for the library.
const ROOT: &str = "/";

/// Converts contents between a commit and the working tree.
pub(in super::super) struct Converter {
    search: Search,
    names: MetadataCollection,
    pipeline: Pipeline,
}

impl Converter {
    /// Reads the attributes that count for some paths of the repository, from the tree of the base commit.
    pub(in super::super) fn new<'p>(
        repository: &Repository,
        tree: &ObjectId,
        paths: impl Iterator<Item = &'p str>,
    ) -> Result<Self, WorkError> {
        let action = "read git's attributes";
        let mut names = MetadataCollection::default();
        let files = &repository.settings.attribute_files;
        let mut search = Search::new_globals(files.clone(), &mut Vec::new(), &mut names)
            .map_err(|error| failed(action, &error))?;
        // Folders before what is in them, so that the nearest file wins.
        let mut folders = BTreeSet::from([String::new()]);
        for path in paths {
            folders.extend(
                path.char_indices()
                    .filter(|(_, c)| *c == '/')
                    .filter_map(|(at, _)| path.get(..=at).map(str::to_owned)),
            );
        }
        let wanted: Vec<String> = folders.iter().map(|folder| format!("{folder}{ATTRIBUTES_FILE}")).collect();
        let found = entries_at(&repository.objects, tree, wanted.iter().map(String::as_str))?;
        for path in &wanted {
            let Some(entry) = found.get(path.as_str()) else { continue };
            // Git does not follow a link here, either.
            if !matches!(entry.mode.kind(), EntryKind::Blob | EntryKind::BlobExecutable) {
                continue;
            }
            let bytes = repository.object(&entry.id, Kind::Blob)?;
            if bytes.len() > MAX_ATTRIBUTES_BYTES {
                return Err(refused(action, format!("`{path}` is larger than {MAX_ATTRIBUTES_BYTES} bytes")));
            }
            let source = Path::new(ROOT).join(path);
            search
                .add_patterns_buffer(
                    &bytes,
                    source,
                    Some(Path::new(ROOT)),
                    &mut names,
                    path == ATTRIBUTES_FILE,
                )
                .map_err(|error| failed(action, &error))?;
        }
        let info = repository.place.shared.join("info/attributes");
        search
            .add_patterns_file(info, true, None, &mut Vec::new(), &mut names, true)
            .map_err(|error| failed(action, &error))?;
        let options = Options {
            drivers: Vec::new(),
            eol_config: repository.settings.line_ends,
            crlf_roundtrip_check: CrlfRoundTripCheck::Skip,
            ..Options::default()
        };
        // There are no drivers, so the pipeline has nothing to start.
        let pipeline = Pipeline::new(Default::default(), HASH, options);
        Ok(Converter { search, names, pipeline })
    }

    /// A content as git keeps it. `known` reads what the base commit has at the path, if that counts.
    pub(in super::super) fn convert_to_git(
        &mut self,
        path: &str,
        bytes: &[u8],
        known: impl Fn() -> Result<Option<Vec<u8>>, WorkError>,
    ) -> Result<Vec<u8>, WorkError> {
        self.check(path)?;
        let action = || format!("convert `{path}`");
        let Converter { search, names, pipeline } = self;
        let mut unread = None;
        let mut known = |buffer: &mut Vec<u8>| match known() {
            Ok(known) => Ok(known.map(|known| *buffer = known)),
            Err(error) => {
                unread = Some(error);
                Ok(None)
            }
        };
        let mut attributes = |path: &BStr, out: &mut Outcome| matched(search, names, path, out);
        let converted = pipeline.convert_to_git(bytes, &PathBuf::from(path), &mut attributes, &mut known);
        let converted = match converted.map_err(|error| failed(action(), &error))? {
            convert::ToGitOutcome::Unchanged(_) => bytes.to_vec(),
            convert::ToGitOutcome::Buffer(converted) => converted.to_vec(),
            convert::ToGitOutcome::Process(_) => return Err(refused(action(), "its filter is a program")),
        };
        unread.map_or(Ok(converted), Err)
    }

    /// A content as it is in the working tree.
    pub(in super::super) fn convert_to_worktree(
        &mut self,
        path: &str,
        bytes: &[u8],
    ) -> Result<Vec<u8>, WorkError> {
        self.check(path)?;
        let action = || format!("convert `{path}`");
        let Converter { search, names, pipeline } = self;
        let mut attributes = |path: &BStr, out: &mut Outcome| matched(search, names, path, out);
        let options = convert::to_worktree::Options::default();
        let converted = pipeline.convert_to_worktree(bytes, path.into(), &mut attributes, options);
        let converted = converted.map_err(|error| failed(action(), &error))?;
        let converted = converted.as_bytes().map(<[u8]>::to_vec);
        converted.ok_or_else(|| refused(action(), "its filter is a program"))
    }

    /// Fails if the attributes of a path name a program or an encoding.
    fn check(&self, path: &str) -> Result<(), WorkError> {
        let mut out = Outcome::default();
        out.initialize_with_selection(&self.names, ["filter", "working-tree-encoding"]);
        self.search.pattern_matching_relative_path(path.into(), CASE, Some(false), &mut out);
        for found in out.iter_selected() {
            if let StateRef::Value(value) = found.assignment.state {
                let (name, value) =
                    (found.assignment.name.as_str().to_owned(), value.as_bstr().to_str_lossy());
                if name == "working-tree-encoding" && value.eq_ignore_ascii_case("utf-8") {
                    continue;
                }
                let why = match name.as_str() {
                    "filter" => "a filter is a program, and none is run",
                    _ => "only UTF-8 is supported",
                };
                return Err(refused(
                    format!("commit `{path}`"),
                    format!("its attributes have `{name}={value}`, and {why}; publish to the tree"),
                ));
            }
        }
        Ok(())
    }
}

const CASE: gix_glob::pattern::Case = gix_glob::pattern::Case::Sensitive;

fn matched(search: &Search, names: &MetadataCollection, path: &BStr, out: &mut Outcome) {
    out.initialize(names);
    search.pattern_matching_relative_path(path, CASE, Some(false), out);
}
