//! The chain of a workspace's receipts: from the first one on, each names the one before it by its hash. Finds forks,
//! gaps, a second first receipt, foreign receipts, and a chain that lost receipts at its end.

use std::collections::BTreeMap;

use crealeph_contracts::Receipt;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::Name;

use crate::files::check_folder_name;
use crate::finding::{Finding, FindingKind};
use crate::note::VerifierKey;
use crate::receipt::{ReadReceipt, verify_receipt};

/// How many receipts are accepted.
const MAX_RECEIPTS: usize = 1_000_000;

/// The receipts of one workspace, added in any order.
#[derive(Clone, Debug)]
pub struct ReceiptChain<'k> {
    keys: &'k [VerifierKey],
    workspace: Name,
    links: BTreeMap<Blake3, Link>,
}

#[derive(Clone, Debug)]
struct Link {
    id: String,
    previous: Option<Blake3>,
    /// The receipt of the run that it judges again or undoes, and that run's id.
    earlier: Option<(Blake3, String)>,
}

/// Where a receipt is in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPosition {
    /// Its position, from 1.
    pub position: usize,
    /// How many receipts the chain has.
    pub length: usize,
}

impl<'k> ReceiptChain<'k> {
    /// An empty chain of this receipt's workspace; every receipt in it must be signed by one of the keys.
    pub fn new(read: &ReadReceipt, keys: &'k [VerifierKey]) -> Self {
        let workspace = read.statement.predicate.workspace.clone();
        ReceiptChain { keys, workspace, links: BTreeMap::new() }
    }

    /// Checks the receipt at `path` in the folder called `folder`, and adds it; adding it twice changes nothing.
    ///
    /// # Errors
    /// The first problem with it, or if there are too many receipts.
    pub fn add(&mut self, path: &str, folder: &str, receipt: &[u8], envelope: &[u8]) -> Result<(), Finding> {
        let read = verify_receipt(receipt, envelope, self.keys).and_then(|verified| {
            check_folder_name(&verified.read, folder)?;
            Ok(verified.read)
        });
        let read = read.map_err(|finding| finding.about(&format!("the receipt `{path}`")))?;
        let workspace = &read.statement.predicate.workspace;
        if *workspace != self.workspace {
            let own = &self.workspace;
            let what = format!("the receipt `{path}` is of `{workspace}`, and the chain is of `{own}`");
            return Err(Finding::new(FindingKind::Forked, what));
        }
        let Receipt { id, receipt_hash, previous_receipt_hash: previous, earlier_run, .. } = &*read.receipt;
        let earlier = earlier_run.as_ref().map(|earlier| (earlier.receipt_hash, earlier.run.to_string()));
        let link = Link { id: id.to_string(), previous: *previous, earlier };
        self.add_link(*receipt_hash, link, MAX_RECEIPTS)
    }

    fn add_link(&mut self, hash: Blake3, link: Link, limit: usize) -> Result<(), Finding> {
        if self.links.len() >= limit {
            let what = format!("there are more than {limit} receipts");
            return Err(Finding::new(FindingKind::Unreadable, what));
        }
        self.links.insert(hash, link);
        Ok(())
    }

    /// The position of the receipt with the hash `own`, if the receipts are one chain that has it and every hash in `kept`. The
    /// number in a finding is a position in the chain, from 1.
    ///
    /// # Errors
    /// The first problem.
    pub fn position_of(&self, own: &Blake3, kept: &[Blake3]) -> Result<ChainPosition, Finding> {
        let mut next: BTreeMap<Option<Blake3>, Vec<Blake3>> = BTreeMap::new();
        for (hash, link) in &self.links {
            next.entry(link.previous).or_default().push(*hash);
        }
        let mut chain: Vec<Blake3> = Vec::new();
        // Bounded: each receipt has one predecessor, so each is taken once.
        while let Some(followers) = next.remove(&chain.last().copied()) {
            let position = chain.len() as u64 + 1;
            match followers.as_slice() {
                [only] => chain.push(*only),
                _ => return Err(self.fork(&followers, chain.last()).at(position)),
            }
        }
        let position = chain.len() as u64 + 1;
        // A receipt that exists and cannot be reached is not missing; the missing one comes before it.
        let is_missing = |hash: &Option<Blake3>| hash.is_some_and(|hash| !self.links.contains_key(&hash));
        let gap = next.iter().find(|(hash, _)| is_missing(hash)).or_else(|| next.iter().next());
        if let Some((Some(missing), orphans)) = gap {
            let names = self.names(orphans);
            let what = format!("the receipt with the hash `{missing}` is missing; it comes before {names}");
            return Err(Finding::new(FindingKind::Missing, what).at(position));
        }
        let lost = |hash: &Blake3| {
            let what = format!("the receipt with the hash `{hash}`, which you kept, is not in the chain");
            Finding::new(FindingKind::Truncated, what).at(position)
        };
        let at = chain.iter().position(|hash| hash == own).ok_or_else(|| lost(own))?;
        if let Some(hash) = kept.iter().find(|hash| !self.links.contains_key(hash)) {
            return Err(lost(hash));
        }
        self.check_earlier(&chain)?;
        Ok(ChainPosition { position: at + 1, length: chain.len() })
    }

    /// Each receipt of a run that depends on another one comes after that one's.
    fn check_earlier(&self, chain: &[Blake3]) -> Result<(), Finding> {
        let mut ids: BTreeMap<&Blake3, &str> = BTreeMap::new();
        for (at, hash) in chain.iter().enumerate() {
            let Some(link) = self.links.get(hash) else { continue };
            if let Some((earlier, run)) = &link.earlier
                && ids.get(earlier) != Some(&run.as_str())
            {
                let what = format!(
                    "receipt {} depends on run {run}, whose receipt does not come before it",
                    link.id
                );
                return Err(Finding::new(FindingKind::Missing, what).at(at as u64 + 1));
            }
            ids.insert(hash, &link.id);
        }
        Ok(())
    }

    fn fork(&self, followers: &[Blake3], before: Option<&Blake3>) -> Finding {
        let names = self.names(followers);
        let what = match before {
            None => format!("{names} are both the first receipt; the chain was forked"),
            Some(before) => {
                let before = self.names(std::slice::from_ref(before));
                format!("{names} both come after {before}; the chain was forked")
            }
        };
        Finding::new(FindingKind::Forked, what)
    }

    fn names(&self, hashes: &[Blake3]) -> String {
        let ids = hashes.iter().filter_map(|hash| self.links.get(hash));
        ids.map(|link| format!("receipt {}", link.id)).collect::<Vec<_>>().join(" and ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &str) -> Blake3 {
        Blake3::of(name.as_bytes())
    }

    fn chain(links: &[(&str, Option<&str>)]) -> ReceiptChain<'static> {
        let workspace = Name::parse("crealeph-workspace/one").unwrap();
        let mut chain = ReceiptChain { keys: &[], workspace, links: BTreeMap::new() };
        for (name, previous) in links {
            let link = Link { id: (*name).to_owned(), previous: previous.map(hash), earlier: None };
            chain.add_link(hash(name), link, 9).unwrap();
        }
        chain
    }

    /// Receipts by name, each with the name of the one before it; where `own` is among them.
    fn judged(links: &[(&str, Option<&str>)], own: &str, kept: &[&str]) -> Result<(usize, usize), Finding> {
        let kept: Vec<Blake3> = kept.iter().map(|name| hash(name)).collect();
        let position = chain(links).position_of(&hash(own), &kept)?;
        Ok((position.position, position.length))
    }

    #[test]
    fn one_chain_in_any_order() {
        let links = [("c", Some("b")), ("a", None), ("b", Some("a"))];
        for (own, position) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(judged(&links, own, &["a", "c"]), Ok((position, 3)), "{own}");
        }
    }

    #[test]
    fn forks_gaps_and_lost_ends_are_found_where_they_are() {
        let fork = [("a", None), ("b", Some("a")), ("c", Some("b")), ("d", Some("b"))];
        let two_starts = [("a", None), ("b", None)];
        let lost = format!("the receipt with the hash `{}`, which you kept, is not in the chain", hash("b"));
        let gap = |name| {
            format!("the receipt with the hash `{}` is missing; it comes before receipt {name}", hash("x"))
        };
        for (links, own, kept, kind, position, what) in [
            (
                &fork[..],
                "a",
                &[][..],
                FindingKind::Forked,
                3,
                "receipt c and receipt d both come after receipt b; the chain was forked",
            ),
            (
                &two_starts,
                "a",
                &[],
                FindingKind::Forked,
                1,
                "receipt a and receipt b are both the first receipt; the chain was forked",
            ),
            (&[("a", None), ("c", Some("x"))], "c", &[], FindingKind::Missing, 2, &gap("c")),
            (&[("b", Some("x"))], "b", &[], FindingKind::Missing, 1, &gap("b")),
            (&[("a", None)], "a", &["a", "b"], FindingKind::Truncated, 2, &lost),
            (&[("a", None)], "b", &[], FindingKind::Truncated, 2, &lost),
            (&[], "b", &[], FindingKind::Truncated, 1, &lost),
        ] {
            let finding = judged(links, own, kept).unwrap_err();
            // Which of two in the same position comes first depends on their hashes.
            let mut words: Vec<&str> = finding.what.split(' ').collect();
            let mut expected: Vec<&str> = what.split(' ').collect();
            words.sort_unstable();
            expected.sort_unstable();
            assert_eq!((finding.kind, finding.seq, words), (kind, Some(position), expected), "{links:?}");
        }
    }

    #[test]
    fn a_receipt_comes_after_the_one_it_depends_on() {
        for (name, run, is_sound) in
            [("a", "a", true), ("a", "b", false), ("c", "c", false), ("b", "b", false), ("x", "x", false)]
        {
            let mut chain = chain(&[("a", None), ("c", Some("b"))]);
            let earlier = Some((hash(name), run.to_owned()));
            let link = Link { id: "b".to_owned(), previous: Some(hash("a")), earlier };
            chain.add_link(hash("b"), link, 9).unwrap();
            let found = chain.position_of(&hash("c"), &[]);
            assert_eq!(found.is_ok(), is_sound, "{name} {run}: {found:?}");
            if let Err(finding) = found {
                assert_eq!((finding.kind, finding.seq), (FindingKind::Missing, Some(2)));
            }
        }
    }

    #[test]
    fn no_more_receipts_are_taken_than_the_limit() {
        let mut chain = chain(&[("a", None)]);
        let link = Link { id: "b".to_owned(), previous: None, earlier: None };
        assert!(chain.add_link(hash("b"), link.clone(), 2).is_ok());
        let finding = chain.add_link(hash("c"), link, 2).unwrap_err();
        assert_eq!(finding.to_string(), "unreadable: there are more than 2 receipts");
    }
}
