//! The Merkle tree of RFC 6962 over a tenant's leaves: hashing, the frontier that appends need, the tiles that proofs
//! are read from, and the proofs themselves. No storage here: hashes come from a [`TileSource`].

mod frontier;
mod proof;
mod tiles;

use crealeph_contracts::digest::Sha256;

pub(crate) use frontier::Frontier;
pub(crate) use proof::{Nodes, consistency_path, inclusion_path};
pub(crate) use tiles::{TILE_WIDTH, Tile, TileSource, complete_tiles};

/// The hash of a leaf: SHA-256 of 0x00 and the record.
pub(crate) fn leaf_hash(record: &[u8]) -> Sha256 {
    let mut bytes = Vec::with_capacity(record.len() + 1);
    bytes.push(0);
    bytes.extend_from_slice(record);
    Sha256::of(&bytes)
}

/// The hash of an inner node: SHA-256 of 0x01 and its two children.
pub(crate) fn node_hash(left: &Sha256, right: &Sha256) -> Sha256 {
    let mut bytes = [1u8; 65];
    let (_, children) = bytes.split_at_mut(1);
    let (first, second) = children.split_at_mut(32);
    first.copy_from_slice(left.as_bytes());
    second.copy_from_slice(right.as_bytes());
    Sha256::of(&bytes)
}

/// The root of a tree with no leaves.
pub(crate) fn empty_root() -> Sha256 {
    Sha256::of(b"")
}

/// The root of a whole subtree given all its lowest hashes, a power of two of them.
pub(crate) fn subtree_root(hashes: &[Sha256]) -> Sha256 {
    let mut level: Vec<Sha256> = hashes.to_vec();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => node_hash(left, right),
                [odd] => *odd,
                _ => empty_root(),
            })
            .collect();
    }
    level.first().copied().unwrap_or_else(empty_root)
}
