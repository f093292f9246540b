//! The chain of a workspace's receipts: from the first one on, each naming the one before it by its hash. Finds forks,
//! gaps, a second beginning, and an end that somebody remembers and that is no longer there.

use std::collections::BTreeMap;

use crealeph_contracts::Receipt;
use crealeph_contracts::digest::Blake3;

use crate::export::{Finding, Kind};

/// How many receipts are taken.
const MAX_RECEIPTS: usize = 1_000_000;

/// Receipts of one workspace, in any order, each already checked by itself.
#[derive(Clone, Debug, Default)]
pub struct ReceiptChain {
    links: BTreeMap<Blake3, Link>,
}

#[derive(Clone, Debug)]
struct Link {
    id: String,
    previous: Option<Blake3>,
}

impl ReceiptChain {
    /// Adds a receipt; one that is there already changes nothing.
    ///
    /// # Errors
    /// When there are too many.
    pub fn add(&mut self, receipt: &Receipt) -> Result<(), Finding> {
        if self.links.len() >= MAX_RECEIPTS {
            let what = format!("there are more than {MAX_RECEIPTS} receipts");
            return Err(Finding { kind: Kind::Unreadable, seq: None, what });
        }
        let link = Link { id: receipt.id.to_string(), previous: receipt.previous_receipt_hash };
        self.links.insert(receipt.receipt_hash, link);
        Ok(())
    }

    /// The ids from the first receipt to the last, if they are one chain that holds every receipt and every hash in
    /// `kept`. A finding's number is the place in the chain, from 1.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(&self, kept: &[Blake3]) -> Result<Vec<String>, Finding> {
        let mut next: BTreeMap<Option<Blake3>, Vec<Blake3>> = BTreeMap::new();
        for (hash, link) in &self.links {
            next.entry(link.previous).or_default().push(*hash);
        }
        let mut ids: Vec<String> = Vec::new();
        let mut at = None;
        // Bounded: every turn takes one of the links, none of which can come twice, since each has one previous.
        while let Some(followers) = next.remove(&at) {
            let place = ids.len() as u64 + 1;
            if followers.len() > 1 {
                let names = followers.iter().map(|hash| self.name(hash)).collect::<Vec<_>>().join(" and ");
                let what = match at {
                    None => format!("{names} are both the first receipt; the chain was forked"),
                    Some(before) => {
                        format!("{names} both come after {}; the chain was forked", self.name(&before))
                    }
                };
                return Err(Finding { kind: Kind::Forked, seq: Some(place), what });
            }
            let Some(hash) = followers.first() else { break };
            ids.extend(self.links.get(hash).map(|link| link.id.clone()));
            at = Some(*hash);
        }
        let place = ids.len() as u64 + 1;
        if let Some((missing, orphans)) = next.into_iter().next() {
            let names = orphans.iter().map(|hash| self.name(hash)).collect::<Vec<_>>().join(" and ");
            let missing = missing.map(|hash| hash.to_string()).unwrap_or_default();
            let what = format!("the receipt with the hash `{missing}` is missing; it comes before {names}");
            return Err(Finding { kind: Kind::Missing, seq: Some(place), what });
        }
        if let Some(lost) = kept.iter().find(|hash| !self.links.contains_key(hash)) {
            let what = format!("the receipt with the hash `{lost}`, which you kept, is not in the chain");
            return Err(Finding { kind: Kind::Truncated, seq: Some(place), what });
        }
        Ok(ids)
    }

    fn name(&self, hash: &Blake3) -> String {
        self.links.get(hash).map(|link| format!("receipt {}", link.id)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &str) -> Blake3 {
        Blake3::of(name.as_bytes())
    }

    /// Receipts by name, each with the name of the one before it.
    fn verdict(links: &[(&str, Option<&str>)], kept: &[&str]) -> Result<Vec<String>, (Kind, Option<u64>)> {
        let mut chain = ReceiptChain::default();
        for (name, previous) in links {
            let link = Link { id: (*name).to_owned(), previous: previous.map(hash) };
            chain.links.insert(hash(name), link);
        }
        let kept: Vec<Blake3> = kept.iter().map(|name| hash(name)).collect();
        chain.verify(&kept).map_err(|finding| (finding.kind, finding.seq))
    }

    #[test]
    fn one_chain_in_any_order() {
        assert_eq!(verdict(&[], &[]), Ok(vec![]));
        let links = [("c", Some("b")), ("a", None), ("b", Some("a"))];
        assert_eq!(verdict(&links, &["b"]).unwrap(), ["a", "b", "c"]);
    }

    #[test]
    fn forks_gaps_and_lost_ends_are_found_where_they_are() {
        let fork = [("a", None), ("b", Some("a")), ("c", Some("b")), ("d", Some("b"))];
        assert_eq!(verdict(&fork, &[]), Err((Kind::Forked, Some(3))));
        assert_eq!(verdict(&[("a", None), ("b", None)], &[]), Err((Kind::Forked, Some(1))));
        assert_eq!(verdict(&[("a", None), ("c", Some("b"))], &[]), Err((Kind::Missing, Some(2))));
        assert_eq!(verdict(&[("b", Some("a"))], &[]), Err((Kind::Missing, Some(1))));
        assert_eq!(verdict(&[("a", None)], &["b"]), Err((Kind::Truncated, Some(2))));
    }
}
