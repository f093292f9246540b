//! RFC 6962: recomputing a tree leaf by leaf, and checking paths (RFC 9162 §2.1.3.2 and §2.1.4.2 give the steps).

use crealeph_contracts::digest::Sha256;

pub(crate) fn leaf(record: &[u8]) -> Sha256 {
    let mut bytes = vec![0];
    bytes.extend_from_slice(record);
    Sha256::of(&bytes)
}

fn parent(left: &Sha256, right: &Sha256) -> Sha256 {
    let mut bytes = Vec::with_capacity(65);
    bytes.push(1);
    bytes.extend_from_slice(left.as_bytes());
    bytes.extend_from_slice(right.as_bytes());
    Sha256::of(&bytes)
}

/// An append-only tree: one root per whole subtree, with its number of leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    subtrees: Vec<(u64, Sha256)>,
    size: u64,
}

impl Tree {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn add(&mut self, leaf: Sha256) {
        self.size += 1;
        let mut added = (1, leaf);
        while let Some((leaves, left)) = self.subtrees.pop() {
            if leaves != added.0 {
                self.subtrees.push((leaves, left));
                break;
            }
            added = (leaves * 2, parent(&left, &added.1));
        }
        self.subtrees.push(added);
    }

    pub(crate) fn root(&self) -> Sha256 {
        let mut root: Option<Sha256> = None;
        for (_, subtree) in self.subtrees.iter().rev() {
            root = Some(match root {
                None => *subtree,
                Some(right) => parent(subtree, &right),
            });
        }
        root.unwrap_or_else(|| Sha256::of(b""))
    }
}

/// Whether the path leads from the leaf at `index` to the root of a tree of `size` leaves.
pub fn verify_inclusion(leaf: &Sha256, index: u64, size: u64, path: &[Sha256], root: &Sha256) -> bool {
    if index >= size {
        return false;
    }
    let (mut node, mut last) = (index, size - 1);
    let mut hash = *leaf;
    for step in path {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            hash = parent(step, &hash);
            if node & 1 == 0 {
                while node & 1 == 0 && node != 0 {
                    node >>= 1;
                    last >>= 1;
                }
            }
        } else {
            hash = parent(&hash, step);
        }
        node >>= 1;
        last >>= 1;
    }
    last == 0 && hash == *root
}

/// Whether the path shows that the tree of `older` leaves is the beginning of the tree of `newer`.
pub fn verify_consistency(
    older: u64,
    newer: u64,
    path: &[Sha256],
    older_root: &Sha256,
    newer_root: &Sha256,
) -> bool {
    if older > newer {
        return false;
    }
    if older == newer {
        return path.is_empty() && older_root == newer_root;
    }
    if older == 0 {
        return path.is_empty() && *older_root == Sha256::of(b"");
    }
    let mut path = path.iter();
    let first = if older.is_power_of_two() { Some(older_root) } else { path.next() };
    let Some(first) = first else { return false };
    let (mut node, mut last) = (older - 1, newer - 1);
    while node & 1 == 1 {
        node >>= 1;
        last >>= 1;
    }
    let (mut old_hash, mut new_hash) = (*first, *first);
    for step in path {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            old_hash = parent(step, &old_hash);
            new_hash = parent(step, &new_hash);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            new_hash = parent(&new_hash, step);
        }
        node >>= 1;
        last >>= 1;
    }
    last == 0 && old_hash == *older_root && new_hash == *newer_root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(count: u64) -> Vec<Sha256> {
        (0..count).map(|number| leaf(&number.to_be_bytes())).collect()
    }

    fn root(leaves: &[Sha256]) -> Sha256 {
        let mut tree = Tree::default();
        leaves.iter().for_each(|leaf| tree.add(*leaf));
        tree.root()
    }

    fn split(count: usize) -> usize {
        count.next_power_of_two() / 2
    }

    /// PATH of RFC 6962 §2.1.1.
    fn path(index: usize, leaves: &[Sha256]) -> Vec<Sha256> {
        if leaves.len() <= 1 {
            return Vec::new();
        }
        let (left, right) = leaves.split_at(split(leaves.len()));
        let (mut inner, other) = if index < left.len() {
            (path(index, left), root(right))
        } else {
            (path(index - left.len(), right), root(left))
        };
        inner.push(other);
        inner
    }

    /// SUBPROOF of RFC 6962 §2.1.2.
    fn proof(older: usize, leaves: &[Sha256], is_known: bool) -> Vec<Sha256> {
        if older == leaves.len() {
            return if is_known { Vec::new() } else { vec![root(leaves)] };
        }
        let (left, right) = leaves.split_at(split(leaves.len()));
        let (mut inner, other) = if older <= left.len() {
            (proof(older, left, is_known), root(right))
        } else {
            (proof(older - left.len(), right, false), root(left))
        };
        inner.push(other);
        inner
    }

    #[test]
    fn the_published_root_of_eight_leaves() {
        let records: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        let hashes: Vec<Sha256> = records.iter().map(|record| leaf(record)).collect();
        let expected = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328";
        assert_eq!(root(&hashes).to_string(), expected);
    }

    #[test]
    fn every_path_of_small_trees_holds_and_no_forged_one_does() {
        for size in 1..=24u64 {
            let leaves = leaves(size);
            let whole = root(&leaves);
            for index in 0..size {
                let good = path(index as usize, &leaves);
                let own = &leaves[index as usize];
                assert!(verify_inclusion(own, index, size, &good, &whole));
                for other in 0..=size + 1 {
                    assert_eq!(verify_inclusion(own, other, size, &good, &whole), other == index);
                }
                forged(&good, |path| verify_inclusion(own, index, size, path, &whole));
                let other_tenant = leaf(b"another tenant's");
                assert!(!verify_inclusion(&other_tenant, index, size, &good, &whole));
                assert!(!verify_inclusion(own, index, size, &good, &other_tenant));
            }
        }
    }

    #[test]
    fn every_consistency_proof_of_small_trees_holds_and_no_forged_one_does() {
        for newer in 1..=20u64 {
            let all = leaves(newer);
            let new_root = root(&all);
            for older in 1..=newer {
                let old_root = root(&all[..older as usize]);
                let good = proof(older as usize, &all, true);
                assert!(verify_consistency(older, newer, &good, &old_root, &new_root), "{older} {newer}");
                forged(&good, |path| verify_consistency(older, newer, path, &old_root, &new_root));
                let forked = leaf(b"forked");
                if older < newer {
                    assert!(!verify_consistency(older, newer, &good, &forked, &new_root));
                }
                assert!(!verify_consistency(older, newer, &good, &old_root, &forked));
                for other in (0..=newer + 1).filter(|other| *other != older) {
                    assert!(!verify_consistency(other, newer, &good, &old_root, &new_root));
                }
            }
        }
        assert!(verify_consistency(0, 5, &[], &Sha256::of(b""), &root(&leaves(5))));
    }

    /// Every single-byte change, every swap of neighbours, one hash more and one less.
    fn forged(good: &[Sha256], holds: impl Fn(&[Sha256]) -> bool) {
        for at in 0..good.len() {
            for byte in 0..32 {
                let mut bytes = *good[at].as_bytes();
                bytes[byte] ^= 1;
                let mut path = good.to_vec();
                path[at] = Sha256::from_bytes(bytes);
                assert!(!holds(&path), "hash {at} byte {byte}");
            }
            let mut shorter = good.to_vec();
            shorter.remove(at);
            assert!(!holds(&shorter));
            let mut longer = good.to_vec();
            longer.insert(at, good[at]);
            assert!(!holds(&longer));
            if at > 0 {
                let mut swapped = good.to_vec();
                swapped.swap(at - 1, at);
                assert!(!holds(&swapped));
            }
        }
        let mut longer = good.to_vec();
        longer.push(leaf(b"more"));
        assert!(!holds(&longer));
    }
}
