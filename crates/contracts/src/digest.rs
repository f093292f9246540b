//! Digests as types: BLAKE3 for content, SHA-256 for the Merkle log, git's name of a content for those who ask git.
//! Printed as lower-case hex digits.

use std::fmt;

use serde_json::{Value, json};
use sha2::Digest as _;

use crate::json::{Node, NodeKind, push_text};
use crate::shape::{Shape, scalar_parts, wrong_type};
use crate::violation::{Code, Report};

macro_rules! digests {
    ($( $(#[doc = $about:literal])* $name:ident by $hash:expr; )*) => { $(
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name([u8; 32]);

        impl $name {
            /// The digest of these bytes.
            pub fn of(bytes: &[u8]) -> Self {
                let hash: fn(&[u8]) -> [u8; 32] = $hash;
                $name(hash(bytes))
            }

            /// A digest computed elsewhere.
            pub fn from_bytes(bytes: [u8; 32]) -> Self {
                $name(bytes)
            }

            /// The 32 bytes.
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Reads 64 lower-case hex digits.
            pub fn parse(text: &str) -> Option<Self> {
                let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
                let mut bytes = [0; 32];
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    let [high, low] = pair else { return None };
                    *byte = hex_value(*high)? << 4 | hex_value(*low)?;
                }
                Some($name(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut digits = [0; 64];
                for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
                    pair.copy_from_slice(&[hex_digit(byte >> 4), hex_digit(byte & 15)]);
                }
                f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
            }
        }

        impl Shape for $name {
            scalar_parts!();
            const EXPECTED: &'static str = "a digest of 64 lower-case hex digits";

            fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
                if node.kind() != NodeKind::Text {
                    return wrong_type::<Self>(node, clause, report);
                }
                let digest = $name::parse(&node.text_value());
                if digest.is_none() {
                    report.at(node, clause, Code::BadForm, || format!("expected {}", Self::EXPECTED));
                }
                digest
            }

            fn write(&self, out: &mut String) {
                push_text(out, &self.to_string());
            }

            fn schema() -> Value {
                json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
            }
        }
    )* };
}

digests! {
    /// A BLAKE3 digest.
    Blake3 by |bytes| *blake3::hash(bytes).as_bytes();
    /// A SHA-256 digest.
    Sha256 by |bytes| sha2::Sha256::digest(bytes).into();
}

/// The name git has for an object: 40 or 64 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitHash(Box<str>);

impl GitHash {
    /// Takes 40 or 64 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_one = matches!(text.len(), 40 | 64) && text.bytes().all(|digit| hex_value(digit).is_some());
        is_one.then(|| GitHash(text.into()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Shape for GitHash {
    scalar_parts!();
    const EXPECTED: &'static str = "a git hash of 40 or 64 lower-case hex digits";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Text {
            return wrong_type::<Self>(node, clause, report);
        }
        let hash = GitHash::parse(&node.text_value());
        if hash.is_none() {
            report.at(node, clause, Code::BadForm, || format!("expected {}", Self::EXPECTED));
        }
        hash
    }

    fn write(&self, out: &mut String) {
        push_text(out, &self.0);
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^(?:[0-9a-f]{40}|[0-9a-f]{64})$" })
    }
}

/// The digests of one content under every algorithm that a reader may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentDigests {
    /// The one that CreAleph uses.
    pub blake3: Blake3,
    /// The one that most tools use.
    pub sha256: Sha256,
    /// Git's, with SHA-1: the digest of `blob`, a space, the length, NUL and the content.
    pub git_blob: GitHash,
}

impl ContentDigests {
    /// The digests of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = ContentHasher::new(bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish()
    }
}

/// Reads a content piece by piece into its digests.
#[derive(Clone, Debug)]
pub struct ContentHasher {
    blake3: blake3::Hasher,
    sha256: sha2::Sha256,
    git_blob: sha1::Sha1,
}

impl ContentHasher {
    /// Starts with a content of this length; another length gives another `git_blob`.
    pub fn new(length: u64) -> Self {
        let mut git_blob = sha1::Sha1::new();
        git_blob.update(format!("blob {length}\0"));
        ContentHasher { blake3: blake3::Hasher::new(), sha256: sha2::Sha256::new(), git_blob }
    }

    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.blake3.update(bytes);
        self.sha256.update(bytes);
        self.git_blob.update(bytes);
    }

    /// The digests.
    pub fn finish(self) -> ContentDigests {
        let git_blob: String = self.git_blob.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        ContentDigests {
            blake3: Blake3(*self.blake3.finalize().as_bytes()),
            sha256: Sha256(self.sha256.finalize().into()),
            git_blob: GitHash(git_blob.into()),
        }
    }
}

fn hex_digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' - 10 + value }
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_digests_of_the_empty_input() {
        let blake3 = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        let sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Blake3::of(b"").to_string(), blake3);
        assert_eq!(Sha256::of(b"").to_string(), sha256);
        assert_eq!(Blake3::parse(blake3), Some(Blake3::of(b"")));
    }

    #[test]
    fn a_content_has_three_digests() {
        let digests = ContentDigests::of(b"hello\n");
        assert_eq!(digests.git_blob.as_str(), "ce013625030ba8dba906f756967f9e9ca394464a", "git hash-object");
        assert_eq!((digests.blake3, digests.sha256), (Blake3::of(b"hello\n"), Sha256::of(b"hello\n")));
        assert_eq!(GitHash::parse(digests.git_blob.as_str()), Some(digests.git_blob));
        for bad in ["", &"a".repeat(41), &"G".repeat(40)] {
            assert_eq!(GitHash::parse(bad), None);
        }
    }

    #[test]
    fn only_64_lower_case_hex_digits_are_read() {
        let good = "0".repeat(64);
        assert!(Sha256::parse(&good).is_some());
        for bad in ["", &"0".repeat(63), &format!("{good}0"), &good.replace('0', "A"), &"é".repeat(32)] {
            assert!(Sha256::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_digest_is_64_lower_case_digits_and_reads_back() {
        let bytes: [u8; 32] = std::array::from_fn(|at| (at * 7 + 3) as u8);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let digest = Sha256::from_bytes(bytes);
        assert_eq!(
            (digest.to_string(), Sha256::parse(&text), digest.as_bytes()),
            (text.clone(), Some(digest), &bytes)
        );
        for bad in [
            &text.to_uppercase(),
            &text.replacen('0', "", 1),
            &format!("{text}0"),
            &text.replace('a', "g"),
            &text.replace('a', "/"),
        ] {
            assert_eq!(Sha256::parse(bad), None, "{bad}");
        }
        assert_eq!(GitHash::parse(&"0a".repeat(32)).unwrap().as_str(), "0a".repeat(32));
    }
}
