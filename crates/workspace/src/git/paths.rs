//! Many paths in one piece of memory: an index may hold a hundred thousand, and is read with every state.

/// Paths one after the other.
#[derive(Debug, Default)]
pub(super) struct Paths {
    bytes: Vec<u8>,
    /// The start and end of each.
    spans: Vec<(u32, u32)>,
}

impl Paths {
    /// Adds a path of these parts. An index is smaller than the range of a span.
    pub(super) fn push(&mut self, parts: &[&[u8]]) {
        let start = self.end();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.spans.push((start, self.end()));
    }

    fn end(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let (start, end) = *self.spans.get(at)?;
        self.bytes.get(start as usize..end as usize)
    }

    pub(super) fn last(&self) -> &[u8] {
        self.spans.len().checked_sub(1).and_then(|at| self.get(at)).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.spans.len()).filter_map(|at| self.get(at))
    }

    /// The same paths sorted by bytes, as git writes them unless an index is split.
    pub(super) fn sorted(mut self) -> Self {
        let bytes = &self.bytes;
        let path = |span: &(u32, u32)| bytes.get(span.0 as usize..span.1 as usize).unwrap_or_default();
        if !self.spans.is_sorted_by_key(path) {
            self.spans.sort_unstable_by(|one, other| path(one).cmp(path(other)));
        }
        self
    }

    /// How many of these sorted paths come before one.
    pub(super) fn before(&self, path: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.spans.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).is_some_and(|held| held < path) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Whether one of these sorted paths is this one.
    pub(super) fn holds(&self, path: &[u8]) -> bool {
        self.get(self.before(path)) == Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_their_order_whatever_order_they_came_in() {
        let mut paths = Paths::default();
        assert_eq!((paths.last(), paths.holds(b"")), (&b""[..], false));
        for path in [&[&b"src/"[..], b"b"][..], &[b"a"], &[b"src", b"/a"], &[b"z"]] {
            paths.push(path);
        }
        assert_eq!((paths.last(), paths.get(0), paths.get(4)), (&b"z"[..], Some(&b"src/b"[..]), None));
        let paths = paths.sorted();
        assert_eq!(paths.iter().collect::<Vec<_>>(), [&b"a"[..], b"src/a", b"src/b", b"z"]);
        for (path, before, is_held) in [
            ("", 0, false),
            ("a", 0, true),
            ("b", 1, false),
            ("src/b", 2, true),
            ("z", 3, true),
            ("zz", 4, false),
        ] {
            assert_eq!(
                (paths.before(path.as_bytes()), paths.holds(path.as_bytes())),
                (before, is_held),
                "{path}"
            );
        }
    }
}
