//! Git's index file, versions 2 to 4, as far as paths go. Owns the parse; refuses inconsistent data.

use std::collections::BTreeSet;

use super::bitmap;
use super::paths::Paths;

/// The bytes of an entry before its object id: ten numbers of four.
const STAT_BYTES: usize = 40;
const EXTENDED: u16 = 0x4000;
const NAME_LENGTH: u16 = 0x0fff;

/// The content of an index.
#[derive(Debug)]
pub(super) struct Index {
    /// The paths of its entries, in its order.
    pub(super) paths: Paths,
    /// The index that it is based on, if it is a split one.
    pub(super) link: Option<Link>,
}

/// The relation of a split index to its shared one.
#[derive(Debug)]
pub(super) struct Link {
    /// The checksum that names the shared index.
    pub(super) shared: Vec<u8>,
    /// Which of its entries were removed.
    pub(super) deleted: BTreeSet<u64>,
}

pub(super) fn parse(bytes: &[u8], digest_bytes: usize) -> Result<Index, &'static str> {
    let body_bytes = bytes.len().checked_sub(digest_bytes).ok_or("it is truncated")?;
    let body = bytes.get(..body_bytes).unwrap_or_default();
    let mut reader = Reader { rest: body };
    if reader.take(4)? != b"DIRC" {
        return Err("it does not start like an index");
    }
    let version = reader.number()?;
    if !(2..=4).contains(&version) {
        return Err("its version is not 2, 3 or 4");
    }
    let count = reader.number()?;
    let mut paths = Paths::default();
    for _ in 0..count {
        reader.entry(version, digest_bytes, &mut paths)?;
    }
    let link = reader.link(digest_bytes)?;
    Ok(Index { paths, link })
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it is truncated")?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, &'static str> {
        let bytes = self.take(4)?.try_into().map_err(|_| "it is truncated")?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn short(&mut self) -> Result<u16, &'static str> {
        let bytes = self.take(2)?.try_into().map_err(|_| "it is truncated")?;
        Ok(u16::from_be_bytes(bytes))
    }

    /// Bytes up to a NUL, which is consumed too.
    fn until_nul(&mut self) -> Result<&'a [u8], &'static str> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or("a path does not end")?;
        let taken = self.take(end)?;
        self.take(1)?;
        Ok(taken)
    }

    fn entry(&mut self, version: u32, digest_bytes: usize, paths: &mut Paths) -> Result<(), &'static str> {
        let before = self.rest.len();
        self.take(STAT_BYTES + digest_bytes)?;
        let flags = self.short()?;
        if flags & EXTENDED != 0 {
            self.short()?;
        }
        if version == 4 {
            let drop = self.offset()?;
            let previous = paths.last();
            let keep = previous.len().checked_sub(drop).ok_or("a path drops more than there is")?;
            let start = previous.get(..keep).unwrap_or_default().to_vec();
            paths.push(&[&start, self.until_nul()?]);
            return Ok(());
        }
        let length = usize::from(flags & NAME_LENGTH);
        let path = if length < usize::from(NAME_LENGTH) {
            self.take(length)?
        } else {
            let end = self.rest.iter().position(|byte| *byte == 0).ok_or("a path does not end")?;
            self.take(end)?
        };
        // One to eight NULs bring the entry to a multiple of eight bytes.
        let taken = before - self.rest.len();
        self.take(8 - taken % 8)?;
        paths.push(&[path]);
        Ok(())
    }

    /// A number of variable length, as in git's pack offsets.
    fn offset(&mut self) -> Result<usize, &'static str> {
        let mut value = 0_usize;
        for step in 0..5 {
            let [byte] = *self.take(1)? else { return Err("it is truncated") };
            if step > 0 {
                value += 1;
            }
            value = value << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    }

    /// The `link` extension, if there is one. Other mandatory ones are refused.
    fn link(&mut self, digest_bytes: usize) -> Result<Option<Link>, &'static str> {
        let mut link = None;
        while !self.rest.is_empty() {
            let name = self.take(4)?;
            let size = self.number()?;
            let mut inner = Reader { rest: self.take(usize::try_from(size).unwrap_or(usize::MAX))? };
            match name {
                b"link" => {
                    let shared = inner.take(digest_bytes)?.to_vec();
                    let deleted = if inner.rest.is_empty() {
                        BTreeSet::new()
                    } else {
                        bitmap::read(inner.rest).ok_or("its bitmap is inconsistent")?.0
                    };
                    // An index that is based on none names it with zeros.
                    if shared.iter().any(|byte| *byte != 0) {
                        link = Some(Link { shared, deleted });
                    }
                }
                b"sdir" => {}
                [first, ..] if first.is_ascii_uppercase() => {}
                _ => return Err("it has an extension that is not supported"),
            }
        }
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(paths: &Paths) -> Vec<String> {
        paths.iter().map(|path| String::from_utf8(path.to_vec()).unwrap()).collect()
    }

    #[test]
    fn indexes_that_git_wrote() {
        let paths = ["README", "deep/er/x", "src/a.rs", "src/ab.rs", "src/b.rs", "zz"];
        for bytes in [&include_bytes!("../../tests/index/v2")[..], include_bytes!("../../tests/index/v4")] {
            let index = parse(bytes, 20).unwrap();
            assert_eq!(text(&index.paths), paths);
            assert!(index.link.is_none());
        }
        let extended = parse(include_bytes!("../../tests/index/v3"), 20).unwrap();
        assert!(text(&extended.paths).contains(&"new".to_owned()));
        assert_eq!(text(&parse(include_bytes!("../../tests/index/sha256"), 32).unwrap().paths), ["a"]);
    }

    #[test]
    fn a_split_index_lists_removed_and_new_entries() {
        let shared = parse(include_bytes!("../../tests/index/shared"), 20).unwrap();
        let split = parse(include_bytes!("../../tests/index/split"), 20).unwrap();
        let link = split.link.unwrap();
        let gone: Vec<String> = link
            .deleted
            .iter()
            .map(|at| text(&shared.paths)[usize::try_from(*at).unwrap()].clone())
            .collect();
        assert_eq!(gone, ["src/b.rs"]);
        let own: Vec<String> = text(&split.paths).into_iter().filter(|path| !path.is_empty()).collect();
        assert_eq!(own, ["yy"]);
    }

    #[test]
    fn no_cut_of_an_index_panics() {
        for whole in [&include_bytes!("../../tests/index/v2")[..], include_bytes!("../../tests/index/split")]
        {
            for end in 0..whole.len() {
                // A cut may be between extensions; it must only never panic or run on.
                let _ = parse(&whole[..end], 20);
            }
        }
    }

    /// An index of entries that begin with their flags, without checksums.
    fn index(version: u8, entries: &[&[u8]], extensions: &[u8]) -> Vec<u8> {
        let mut bytes = [&b"DIRC\0\0\0"[..], &[version], &(entries.len() as u32).to_be_bytes()].concat();
        for entry in entries {
            let mut entry = [&[7; STAT_BYTES + 20][..], entry].concat();
            if version < 4 {
                entry.resize(entry.len() + 8 - entry.len() % 8, 0);
            }
            bytes.extend(entry);
        }
        [&bytes, extensions, &[0; 20]].concat()
    }

    #[test]
    fn a_path_may_be_longer_than_its_length_can_say() {
        for length in [0xffe, 0xfff, 0x1000, 5_000] {
            let path = "p".repeat(length);
            let flags = (length.min(0xfff) as u16).to_be_bytes();
            let bytes = index(2, &[&[&flags[..], path.as_bytes()].concat(), b"\0\x01z"], b"");
            assert_eq!(text(&parse(&bytes, 20).unwrap().paths), [path.as_str(), "z"], "{length}");
        }
    }

    #[test]
    fn a_path_of_version_4_may_drop_much_of_the_one_before() {
        let long = format!("{}/x", "d".repeat(20_000));
        let first = [b"\0\0\0", long.as_bytes(), b"\0"].concat();
        // 1 and 128, 16,511 in two bytes and 16,512 in three, as git counts them.
        for (written, dropped) in [
            (&b"\x01"[..], 1),
            (b"\x80\0", 128),
            (b"\x80\x01", 129),
            (b"\xff\x7f", 16_511),
            (b"\x80\x80\0", 16_512),
        ] {
            let bytes = index(4, &[&first, &[b"\0\0", written, b"new\0"].concat()], b"");
            let expected = format!("{}new", long.get(..long.len() - dropped).unwrap());
            assert_eq!(text(&parse(&bytes, 20).unwrap().paths)[1], expected, "{dropped}");
        }
        for drop in [&b"\x82\x9c\x20"[..], b"\x80\x80\x80\x80\x80\0"] {
            assert!(parse(&index(4, &[&first, &[b"\0\0", drop, b"new\0"].concat()], b""), 20).is_err());
        }
    }

    #[test]
    fn an_invalid_index_is_refused() {
        let small = |version, extensions: &[u8]| index(version, &[b"\0\x01a"], extensions);
        for (bytes, why) in [
            (small(5, b""), "version"),
            (small(1, b""), "version"),
            ([b"DIRK", &small(2, b"")[4..]].concat(), "start"),
            (small(2, b"fsmn\0\0\0\0"), "extension"),
            (small(2, b"TREE\0\0\0\x09"), "truncated"),
            (small(2, b"link\0\0\0\x15aaaaaaaaaaaaaaaaaaaaa"), "bitmap"),
            (b"DIRC".to_vec(), "truncated"),
        ] {
            assert!(parse(&bytes, 20).unwrap_err().contains(why), "{why}");
        }
        let none = [&b"TREE\0\0\0\x01xsdir\0\0\0\0link\0\0\0\x14"[..], &[0; 20]].concat();
        assert!(parse(&small(2, &none), 20).unwrap().link.is_none(), "it builds on no other");
        let one = [&b"link\0\0\0\x14"[..], &[9; 20]].concat();
        let link = parse(&small(2, &one), 20).unwrap().link.unwrap();
        assert_eq!((link.shared, link.deleted.len()), (vec![9; 20], 0));
    }
}
