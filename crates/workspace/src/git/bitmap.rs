//! EWAH bitmaps, as git's split index has them. Owns decoding within a limit; refuses one that claims more than it holds.

use std::collections::BTreeSet;

/// More positions than an index can have entries.
const MAX_BITS: u64 = 1 << 27;

/// Reads one bitmap: the positions that are set, and the rest of the bytes.
pub(super) fn read(bytes: &[u8]) -> Option<(BTreeSet<u64>, &[u8])> {
    let (_bits, rest) = number_u32(bytes)?;
    let (words, mut rest) = number_u32(rest)?;
    let mut set = BTreeSet::new();
    let (mut position, mut literals) = (0_u64, 0_u64);
    for _ in 0..words {
        let (word, after) = number_u64(rest)?;
        rest = after;
        if literals > 0 {
            literals -= 1;
            set.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| position + bit));
            position += 64;
            continue;
        }
        let run = (word >> 1 & 0xffff_ffff) * 64;
        if position + run > MAX_BITS {
            return None;
        }
        if word & 1 == 1 {
            set.extend(position..position + run);
        }
        position += run;
        literals = word >> 33;
    }
    let (_last_run, rest) = number_u32(rest)?;
    Some((set, rest))
}

fn number_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number), rest))
}

fn number_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_literals() {
        let mut bytes = Vec::new();
        bytes.extend(192_u32.to_be_bytes());
        bytes.extend(3_u32.to_be_bytes());
        // One word of ones, then one literal word.
        bytes.extend((1_u64 | 1 << 1 | 1 << 33).to_be_bytes());
        bytes.extend(0b101_u64.to_be_bytes());
        // One word of zeros.
        bytes.extend((1_u64 << 1).to_be_bytes());
        bytes.extend(2_u32.to_be_bytes());
        bytes.push(7);
        let (set, rest) = read(&bytes).unwrap();
        assert_eq!(set, (0..64).chain([64, 66]).collect());
        assert_eq!(rest, [7]);
        assert!(read(&bytes[..20]).is_none());
    }

    #[test]
    fn a_bitmap_that_claims_too_much_is_refused() {
        let mut bytes = Vec::new();
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(1_u32.to_be_bytes());
        bytes.extend(u64::MAX.to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        assert!(read(&bytes).is_none());
    }

    #[test]
    fn every_run_and_literal_starts_where_the_previous_ones_end() {
        let words = [
            // Two words of zeros, then two literals; three words of ones, then one literal; nothing at all.
            2 << 1 | 2 << 33,
            1 << 63 | 1,
            1 << 5,
            1 | 3 << 1 | 1 << 33,
            1,
            0,
        ];
        let mut bytes = [0_u32.to_be_bytes(), (words.len() as u32).to_be_bytes()].concat();
        words.iter().for_each(|word: &u64| bytes.extend(word.to_be_bytes()));
        bytes.extend(0_u32.to_be_bytes());
        let (set, rest) = read(&bytes).unwrap();
        assert_eq!(set, [128, 191, 197].into_iter().chain(256..448).chain([448]).collect());
        assert!(rest.is_empty());
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn the_bound_holds_for_all_runs_together() {
        let bitmap = |runs: &[u64]| {
            let mut bytes = [0_u32.to_be_bytes(), (runs.len() as u32).to_be_bytes()].concat();
            runs.iter().for_each(|run| bytes.extend((run << 1).to_be_bytes()));
            bytes.extend(0_u32.to_be_bytes());
            read(&bytes).is_some()
        };
        let most = MAX_BITS / 64;
        assert!(bitmap(&[most]) && bitmap(&[most - 1, 1]));
        assert!(!bitmap(&[most + 1]) && !bitmap(&[most - 1, 2]));
    }
}
