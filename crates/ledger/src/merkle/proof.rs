//! Inclusion and consistency paths (RFC 6962 §2.1.1, §2.1.2) read from tiles: a few tiles each, at any size.

use std::collections::BTreeMap;

use crealeph_contracts::digest::Sha256;

use super::tiles::{TILE_WIDTH, TileSource};
use super::{empty_root, node_hash, subtree_root};

const TILE_HEIGHT: u32 = TILE_WIDTH.trailing_zeros();

/// The inner nodes of a tree of a known size, computed from stored rows that are read at most once.
#[derive(Debug)]
pub(crate) struct Nodes<'a, S: ?Sized> {
    size: u64,
    source: &'a mut S,
    rows: BTreeMap<(u8, u64), Vec<Sha256>>,
}

impl<'a, S: TileSource + ?Sized> Nodes<'a, S> {
    /// The nodes of the tree that the first `size` leaves make.
    pub(crate) fn new(size: u64, source: &'a mut S) -> Self {
        Nodes { size, source, rows: BTreeMap::new() }
    }

    /// The root of the leaves `begin..end`, which must be a subtree of the tree or its right edge.
    pub(crate) fn range(&mut self, begin: u64, end: u64) -> Result<Sha256, S::Error> {
        let width = end.saturating_sub(begin);
        if width == 0 {
            return Ok(empty_root());
        }
        if width.is_power_of_two() {
            return self.whole(width.trailing_zeros(), begin / width);
        }
        let split = begin + split_below(width);
        let left = self.range(begin, split)?;
        let right = self.range(split, end)?;
        Ok(node_hash(&left, &right))
    }

    /// The root of a whole subtree of 2^height leaves.
    fn whole(&mut self, height: u32, index: u64) -> Result<Sha256, S::Error> {
        let level = (height / TILE_HEIGHT) as u8;
        let within = height % TILE_HEIGHT;
        let first = index << within;
        let count = 1u64 << within;
        let tile = first / TILE_WIDTH;
        let row = self.row(level, tile)?;
        let offset = (first % TILE_WIDTH) as usize;
        let hashes: Vec<Sha256> = row.iter().skip(offset).take(count as usize).copied().collect();
        Ok(subtree_root(&hashes))
    }

    fn row(&mut self, level: u8, tile: u64) -> Result<&Vec<Sha256>, S::Error> {
        let elements = self.size >> (u32::from(level) * TILE_HEIGHT);
        let from = tile * TILE_WIDTH;
        let count = elements.saturating_sub(from).min(TILE_WIDTH);
        match self.rows.entry((level, tile)) {
            std::collections::btree_map::Entry::Occupied(row) => Ok(row.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                Ok(place.insert(self.source.row(level, from, count)?))
            }
        }
    }
}

/// The largest power of two below a width of at least 2.
fn split_below(width: u64) -> u64 {
    1 << (width - 1).ilog2()
}

/// The hashes that lead from leaf `index` to the root of the tree, lowest first.
pub(crate) fn inclusion_path<S: TileSource + ?Sized>(
    nodes: &mut Nodes<'_, S>,
    index: u64,
) -> Result<Vec<Sha256>, S::Error> {
    let (mut begin, mut end) = (0, nodes.size);
    let mut path = Vec::new();
    while end - begin > 1 {
        let split = begin + split_below(end - begin);
        if index < split {
            path.push(nodes.range(split, end)?);
            end = split;
        } else {
            path.push(nodes.range(begin, split)?);
            begin = split;
        }
    }
    path.reverse();
    Ok(path)
}

/// The hashes that show that the tree's first `older` leaves are the tree of that size, lowest first.
pub(crate) fn consistency_path<S: TileSource + ?Sized>(
    nodes: &mut Nodes<'_, S>,
    older: u64,
) -> Result<Vec<Sha256>, S::Error> {
    let (mut begin, mut end) = (0, nodes.size);
    let mut path = Vec::new();
    if older == 0 || older >= end {
        return Ok(path);
    }
    let mut is_known = true;
    while older != end {
        let split = begin + split_below(end - begin);
        if older <= split {
            path.push(nodes.range(split, end)?);
            end = split;
        } else {
            path.push(nodes.range(begin, split)?);
            begin = split;
            is_known = false;
        }
    }
    if !is_known {
        path.push(nodes.range(begin, end)?);
    }
    path.reverse();
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merkle::{Frontier, Tile, complete_tiles, leaf_hash};

    /// Keeps leaves and tiles in memory and counts what is read.
    #[derive(Default)]
    struct WriterMemory {
        leaves: Vec<Sha256>,
        tiles: Vec<Tile>,
    }

    impl TileSource for WriterMemory {
        type Error = std::convert::Infallible;

        fn row(&mut self, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, Self::Error> {
            let (from, count) = (from as usize, count as usize);
            if level == 0 {
                return Ok(self.leaves[from..from + count].to_vec());
            }
            let below = self.tiles.iter().filter(|tile| tile.level == level - 1).map(|tile| tile.root);
            Ok(below.skip(from).take(count).collect())
        }
    }

    /// The definition of RFC 6962, word for word and slow.
    fn reference_root(leaves: &[Sha256]) -> Sha256 {
        match leaves {
            [] => empty_root(),
            [one] => *one,
            _ => {
                let (left, right) = leaves.split_at(split_below(leaves.len() as u64) as usize);
                node_hash(&reference_root(left), &reference_root(right))
            }
        }
    }

    fn reference_path(index: usize, leaves: &[Sha256]) -> Vec<Sha256> {
        if leaves.len() <= 1 {
            return Vec::new();
        }
        let split = split_below(leaves.len() as u64) as usize;
        let (left, right) = leaves.split_at(split);
        let (mut path, other) = if index < split {
            (reference_path(index, left), right)
        } else {
            (reference_path(index - split, right), left)
        };
        path.push(reference_root(other));
        path
    }

    fn reference_proof(older: usize, leaves: &[Sha256], is_known: bool) -> Vec<Sha256> {
        if older == leaves.len() {
            return if is_known { Vec::new() } else { vec![reference_root(leaves)] };
        }
        let split = split_below(leaves.len() as u64) as usize;
        let (left, right) = leaves.split_at(split);
        if older <= split {
            let mut proof = reference_proof(older, left, is_known);
            proof.push(reference_root(right));
            proof
        } else {
            let mut proof = reference_proof(older - split, right, false);
            proof.push(reference_root(left));
            proof
        }
    }

    fn tree(size: usize, step: usize) -> (WriterMemory, Frontier) {
        let mut memory = WriterMemory::default();
        let mut frontier = Frontier::default();
        let mut made = 0;
        while made < size {
            let count = step.min(size - made);
            let added: Vec<Sha256> = (made..made + count).map(|n| leaf_hash(&n.to_be_bytes())).collect();
            let mut roots = Vec::new();
            added.iter().for_each(|leaf| frontier.push(*leaf, |level, root| roots.push((level, root))));
            let tiles = complete_tiles(made as u64, &added, &roots, &mut memory).unwrap();
            for tile in &tiles {
                assert_eq!(tile.root, subtree_root(&tile.hashes), "{}/{}", tile.level, tile.index);
            }
            memory.leaves.extend(added);
            memory.tiles.extend(tiles);
            made += count;
        }
        (memory, frontier)
    }

    #[test]
    fn the_published_roots() {
        // The well-known leaves of the Certificate Transparency test vectors.
        let leaves = [
            "",
            "00",
            "10",
            "2021",
            "3031",
            "40414243",
            "5051525354555657",
            "606162636465666768696a6b6c6d6e6f",
        ];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut frontier = Frontier::default();
        assert_eq!(frontier.root(), empty_root());
        for (leaf, root) in leaves.iter().zip(roots) {
            let digits: Vec<u32> = leaf.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
            let bytes: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
            frontier.push(leaf_hash(&bytes), |_, _| {});
            assert_eq!(frontier.root().to_string(), root);
        }
    }

    #[test]
    fn small_trees_agree_with_the_definition_everywhere() {
        for size in 1..=40usize {
            let (mut memory, frontier) = tree(size, 7);
            let leaves = memory.leaves.clone();
            assert_eq!(frontier.root(), reference_root(&leaves));
            let mut nodes = Nodes::new(size as u64, &mut memory);
            for index in 0..size {
                assert_eq!(inclusion_path(&mut nodes, index as u64).unwrap(), reference_path(index, &leaves));
            }
            for older in 1..=size {
                let path = consistency_path(&mut nodes, older as u64).unwrap();
                assert_eq!(path, reference_proof(older, &leaves, true), "{older} of {size}");
            }
        }
    }

    #[test]
    fn large_trees_with_whole_and_open_tiles_agree_with_the_definition() {
        for (size, step) in [(255, 100), (256, 256), (257, 1), (511, 300), (66_049, 70_000)] {
            let (mut memory, frontier) = tree(size, step);
            let leaves = memory.leaves.clone();
            assert_eq!(frontier.root(), reference_root(&leaves), "{size}");
            let kept = Frontier::from_bytes(size as u64, &frontier.to_bytes()).unwrap();
            assert_eq!(kept, frontier);
            let mut nodes = Nodes::new(size as u64, &mut memory);
            for index in [0, 1, 254, size / 2, size - 1] {
                assert_eq!(inclusion_path(&mut nodes, index as u64).unwrap(), reference_path(index, &leaves));
            }
            for older in [1, 128, size / 3, size - 1, size] {
                let path = consistency_path(&mut nodes, older as u64).unwrap();
                assert_eq!(path, reference_proof(older, &leaves, true), "{older} of {size}");
            }
        }
    }
}
