//! Tiles: runs of 256 neighbouring hashes, stored once when they are complete, never changed. Level 0 holds leaf hashes,
//! level n the roots of whole tiles of level n−1 (as C2SP tlog-tiles lays them out, height 8). With them any inner
//! node costs one tile, whatever the size of the tree.

use crealeph_contracts::digest::Sha256;

/// How many levels of the tree a tile spans.
pub(super) const TILE_HEIGHT: u32 = 8;
/// How many hashes a tile holds.
pub(crate) const TILE_WIDTH: u64 = 1 << TILE_HEIGHT;

/// A whole tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Its level, 0 for leaf hashes.
    pub(crate) level: u8,
    /// Its place in the level.
    pub(crate) index: u64,
    /// Its 256 hashes.
    pub(crate) hashes: Vec<Sha256>,
    /// The root of the subtree it spans.
    pub(crate) root: Sha256,
}

impl Tile {
    /// Reads a tile back; `None` if a hash is truncated or missing.
    pub(crate) fn from_bytes(level: u8, index: u64, root: &[u8], hashes: &[u8]) -> Option<Tile> {
        let root = Sha256::from_bytes(root.try_into().ok()?);
        let (hashes, rest) = hashes.as_chunks::<32>();
        let is_whole = rest.is_empty() && hashes.len() as u64 == TILE_WIDTH;
        let hashes = hashes.iter().copied().map(Sha256::from_bytes).collect();
        is_whole.then_some(Tile { level, index, hashes, root })
    }

    /// The hashes, one after the other.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
    }
}

/// The source of stored hashes.
pub(crate) trait TileSource {
    /// Why a hash could not be read.
    type Error;

    /// Leaf hashes (level 0) or roots of whole tiles of the level below, `count` of them from `from`.
    fn row(&mut self, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, Self::Error>;
}

/// The tiles that are completed when `leaves` are added to a tree of `size` leaves; `roots` are theirs with their levels,
/// in the order in which [`super::Frontier::push`] met them.
pub(crate) fn complete_tiles<S: TileSource + ?Sized>(
    size: u64,
    leaves: &[Sha256],
    roots: &[(u8, Sha256)],
    source: &mut S,
) -> Result<Vec<Tile>, S::Error> {
    let mut tiles = Vec::new();
    let mut before = size;
    let mut added: Vec<Sha256> = leaves.to_vec();
    for level in 0..8u8 {
        let open = before % TILE_WIDTH;
        if open + (added.len() as u64) < TILE_WIDTH {
            break;
        }
        let mut hashes = if open > 0 { source.row(level, before - open, open)? } else { Vec::new() };
        hashes.append(&mut added);
        let first = before / TILE_WIDTH;
        added = roots.iter().filter(|(of, _)| *of == level).map(|(_, root)| *root).collect();
        for ((index, chunk), root) in
            (first..).zip(hashes.chunks_exact(TILE_WIDTH as usize)).zip(added.iter().copied())
        {
            tiles.push(Tile { level, index, hashes: chunk.to_vec(), root });
        }
        before = first;
    }
    Ok(tiles)
}
