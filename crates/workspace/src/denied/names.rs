//! Names that a program outside the sandbox may read as its own folder. Owns the table of such names and how file systems
//! fold names together; pure.
//!
//! A name that is harmless on the file system it was written on may be `.git` on another: letter case (NTFS, APFS, ext4 with
//! casefold), code points that are ignored (HFS+, ext4 with casefold), trailing dots and spaces, alternate data streams and
//! 8.3 short names (NTFS).

/// A name that is guarded, and the 8.3 short name that NTFS gives it, without its number.
struct Guarded {
    name: &'static str,
    short: &'static str,
}

/// Folders of version control systems, whose content makes programs run, and our own.
const FOLDERS: [Guarded; 5] = [
    Guarded { name: ".git", short: "git~" },
    Guarded { name: ".crealeph", short: "creale~" },
    Guarded { name: ".hg", short: "hg~" },
    Guarded { name: ".jj", short: "jj~" },
    Guarded { name: ".svn", short: "svn~" },
];

/// Files that tell git what to fetch or convert. Their own names are ordinary paths; names that are read as them are not.
const FILES: [Guarded; 2] =
    [Guarded { name: ".gitmodules", short: "gitmod~" }, Guarded { name: ".gitattributes", short: "gitatt~" }];

/// Code points that HFS+ or a casefolding ext4 ignore when they compare names: Unicode's Default_Ignorable_Code_Point, and
/// those that HFS+ adds.
const IGNORED: [(u32, u32); 21] = [
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x061c, 0x061c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfff8),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_0000),
    (0xe_0001, 0xe_0001),
    (0xe_0002, 0xe_001f),
    (0xe_0020, 0xe_007f),
    (0xe_0080, 0xe_0fff),
];

/// The guarded folder that a name is, or may be read as.
pub(crate) fn folder_read_as(name: &str) -> Option<&'static str> {
    read_as(&FOLDERS, name)
}

/// The guarded file that a name is, or may be read as.
pub(crate) fn file_read_as(name: &str) -> Option<&'static str> {
    read_as(&FILES, name)
}

fn read_as(guarded: &[Guarded], name: &str) -> Option<&'static str> {
    // On Windows a backslash separates names.
    name.split('\\').find_map(|name| {
        let folded = folded(name);
        let is_it = |guarded: &&Guarded| {
            let number = folded.strip_prefix(guarded.short);
            folded == guarded.name
                || number.is_some_and(|number| {
                    !number.is_empty()
                        && number.len() <= 2
                        && number.bytes().all(|byte| byte.is_ascii_digit())
                })
        };
        guarded.iter().find(is_it).map(|guarded| guarded.name)
    })
}

/// A name as the most lenient file system compares it.
fn folded(name: &str) -> String {
    let seen = name.chars().filter(|c| !is_ignored(*c)).flat_map(|c| match c {
        // The one letter whose lower case is itself, and which is yet an `s`.
        'ſ' => 's'.to_lowercase(),
        c => c.to_lowercase(),
    });
    let folded: String = seen.collect();
    let without_stream = folded.split(':').next().unwrap_or_default();
    without_stream.trim_end_matches([' ', '.']).to_owned()
}

fn is_ignored(c: char) -> bool {
    let c = u32::from(c);
    IGNORED.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_read_as_a_guarded_folder() {
        let table = [
            (".git", ".git"),
            (".GIT", ".git"),
            (".Git", ".git"),
            (".git.", ".git"),
            (".git ", ".git"),
            (".git. . ", ".git"),
            (".git::$INDEX_ALLOCATION", ".git"),
            (".git:stream", ".git"),
            ("git~1", ".git"),
            ("GIT~1", ".git"),
            ("git~2.", ".git"),
            (".g\u{200c}it", ".git"),
            ("\u{feff}.git", ".git"),
            (".gi\u{206a}t", ".git"),
            (".git\u{202e}", ".git"),
            (".g\u{ad}it", ".git"),
            (".git\u{fe0f}", ".git"),
            (".git\u{e0020}", ".git"),
            ("a\\.git\\hooks", ".git"),
            ("..\\.GIT", ".git"),
            (".crealeph", ".crealeph"),
            (".CreAleph", ".crealeph"),
            ("CREALE~1", ".crealeph"),
            (".crealeph ", ".crealeph"),
            (".hg", ".hg"),
            (".HG", ".hg"),
            ("hg~1", ".hg"),
            (".jj", ".jj"),
            (".Jj.", ".jj"),
            (".svn", ".svn"),
            (".\u{17f}vn", ".svn"),
            ("svn~3", ".svn"),
        ];
        for (name, guarded) in table {
            assert_eq!(folder_read_as(name), Some(guarded), "{name:?}");
        }
        let free = [
            "git",
            ".gitignore",
            ".gitx",
            "git~",
            "git~x",
            "git~123",
            ".github",
            "x.git",
            "..git",
            "..",
            ".gıt",
            "crealeph",
            ".hgignore",
            ".jjj",
            "svn",
            "a.git.b",
            "hg",
            ".git~1x",
            "",
        ];
        for name in free {
            assert_eq!(folder_read_as(name), None, "{name:?}");
        }
    }

    #[test]
    fn names_that_are_read_as_a_guarded_file() {
        for name in [".gitmodules", ".GITMODULES", "GITMOD~1", ".gitmodules.", ".git\u{200b}modules"] {
            assert_eq!(file_read_as(name), Some(".gitmodules"), "{name:?}");
        }
        assert_eq!(file_read_as(".GitAttributes "), Some(".gitattributes"));
        for name in ["gitmodules", ".gitmodules.txt", ".gitignore"] {
            assert_eq!(file_read_as(name), None, "{name:?}");
        }
    }
}
