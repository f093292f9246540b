//! Merges ordered lists of sequence numbers that are read a few at a time, and reads of them only about as much as the result
//! needs, however long they are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::error::LedgerError;
use crate::position::Seq;

/// A list of which a part was read.
struct PartlyRead<'l, L> {
    list: &'l L,
    /// What was read and is not merged yet.
    ahead: VecDeque<Seq>,
    /// How many to read next.
    next_read: usize,
    is_at_end: bool,
}

/// The first `limit` numbers of all lists, in the direction of the lists. `read` gives the next numbers of a list, after one that
/// it gave before, at most as many as the last argument says. In all it gives at most three times `limit` numbers, and one more
/// of each list.
pub(crate) fn merge_first<L>(
    lists: &[L],
    newest_first: bool,
    limit: usize,
    mut read: impl FnMut(&L, Option<Seq>, usize) -> Result<Vec<Seq>, LedgerError>,
) -> Result<Vec<Seq>, LedgerError> {
    let first_read = (limit / lists.len().max(1)).saturating_add(1).min(limit);
    let mut lists: Vec<PartlyRead<'_, L>> = lists
        .iter()
        .map(|list| PartlyRead { list, ahead: VecDeque::new(), next_read: first_read, is_at_end: false })
        .collect();
    // A heap has its largest element first.
    let rank = |seq: Seq| if newest_first { seq.get() } else { u64::MAX - seq.get() };
    let mut heads = BinaryHeap::new();
    for (number, list) in lists.iter_mut().enumerate() {
        list.read_on(None, &mut read)?;
        heads.extend(list.ahead.pop_front().map(|seq| (rank(seq), Reverse(number), seq)));
    }
    let mut merged = Vec::new();
    while merged.len() < limit
        && let Some((_, Reverse(number), seq)) = heads.pop()
    {
        merged.push(seq);
        if let Some(list) = lists.get_mut(number) {
            if list.ahead.is_empty() && merged.len() < limit {
                list.read_on(Some(seq), &mut read)?;
            }
            heads.extend(list.ahead.pop_front().map(|seq| (rank(seq), Reverse(number), seq)));
        }
    }
    Ok(merged)
}

impl<L> PartlyRead<'_, L> {
    fn read_on(
        &mut self,
        after: Option<Seq>,
        read: &mut impl FnMut(&L, Option<Seq>, usize) -> Result<Vec<Seq>, LedgerError>,
    ) -> Result<(), LedgerError> {
        if !self.is_at_end {
            self.ahead = read(self.list, after, self.next_read)?.into();
            self.is_at_end = self.ahead.len() < self.next_read;
            self.next_read = self.next_read.saturating_mul(2);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Reads from lists in memory, and counts what it gives.
    fn merge(lists: &[Vec<u64>], newest_first: bool, limit: usize) -> (Vec<u64>, usize) {
        let mut count = 0;
        let merged = merge_first(lists, newest_first, limit, |list, after, most| {
            let mut list: Vec<Seq> = list.iter().map(|seq| Seq::new(*seq).unwrap()).collect();
            if newest_first {
                list.reverse();
            }
            let from = after.map_or(0, |after| list.iter().position(|seq| *seq == after).unwrap() + 1);
            let next: Vec<Seq> = list.into_iter().skip(from).take(most).collect();
            count += next.len();
            Ok(next)
        });
        (merged.unwrap().into_iter().map(Seq::get).collect(), count)
    }

    #[test]
    fn the_first_of_all_lists_come_in_order_in_either_direction() {
        let lists = [vec![1, 4, 7, 8, 9, 10, 11], vec![], vec![2, 3], vec![5, 6, 12]];
        for limit in 1..=13 {
            let first: Vec<u64> = (1..=12).take(limit).collect();
            assert_eq!(merge(&lists, false, limit).0, first);
            let last: Vec<u64> = (1..=12).rev().take(limit).collect();
            assert_eq!(merge(&lists, true, limit).0, last);
        }
        assert_eq!(merge(&[], false, 5).0, [0; 0]);
    }

    #[test]
    fn what_is_read_depends_on_the_page_and_not_on_the_lists() {
        let (lists, length, limit) = (200, 1_000, 300);
        // One after the other, in the order of the lists and against it, and all in turn.
        let blocks: Vec<Vec<u64>> =
            (0..lists).map(|list| (0..length).map(|at| 1 + list * length + at).collect()).collect();
        let against: Vec<Vec<u64>> = blocks.iter().rev().cloned().collect();
        let in_turn: Vec<Vec<u64>> =
            (0..lists).map(|list| (0..length).map(|at| 1 + at * lists + list).collect()).collect();
        for lists in [blocks, against, in_turn] {
            for newest_first in [false, true] {
                let (merged, count) = merge(&lists, newest_first, limit);
                assert_eq!(merged.len(), limit);
                assert!(count <= 3 * limit + lists.len(), "{count}");
            }
        }
    }
}
