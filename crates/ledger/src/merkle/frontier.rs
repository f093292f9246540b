//! The right edge of a tree: the roots of its whole subtrees, largest first. An append needs nothing else.

use crealeph_contracts::digest::Sha256;

use super::tiles::TILE_HEIGHT;
use super::{empty_root, node_hash};

/// The roots of the whole subtrees of a tree, one for each bit of its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    size: u64,
    peaks: Vec<Sha256>,
}

impl Frontier {
    /// Reads a frontier back; `None` unless it has one hash for each bit of the size.
    pub(crate) fn from_bytes(size: u64, bytes: &[u8]) -> Option<Self> {
        let (hashes, rest) = bytes.as_chunks::<32>();
        let is_whole = rest.is_empty() && hashes.len() == size.count_ones() as usize;
        is_whole.then(|| Frontier { size, peaks: hashes.iter().copied().map(Sha256::from_bytes).collect() })
    }

    /// The hashes, one after the other.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.peaks.iter().flat_map(|peak| *peak.as_bytes()).collect()
    }

    /// How many leaves the tree has.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds a leaf, and returns the root of each tile that is completed by it, with the tile's level.
    pub(crate) fn push(&mut self, leaf: Sha256, mut whole: impl FnMut(u8, Sha256)) {
        let mut hash = leaf;
        for height in 1..=self.size.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                hash = node_hash(&left, &hash);
            }
            if height.is_multiple_of(TILE_HEIGHT) {
                whole((height / TILE_HEIGHT - 1) as u8, hash);
            }
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// The root of the tree.
    pub(crate) fn root(&self) -> Sha256 {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return empty_root() };
        peaks.fold(*last, |right, left| node_hash(left, &right))
    }
}
