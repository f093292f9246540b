//! The search itself: a stream goes byte by byte through every form, at every level of escapes, with bounded state. Owns what is one form
//! (which bytes do not count in it) and how a match maps back to the source.
//!
//! Level 0 is the stream, level 1 the same with escapes decoded, level 2 decoded twice. In addition, each family of escapes is decoded on its
//! own, for a secret that itself looks escaped in another one. A level above 0 sleeps while nothing was escaped: its input would be
//! the same as that of the level below, so it wakes up with its state.

use std::collections::VecDeque;
use std::sync::Arc;

use aho_corasick::automaton::StateID;

use super::escapes::{Decoder, Family, Item};
use super::forms::{Automaton, Forms, is_dropped};

/// How many bytes that do not count may be between two that do, in the plain form.
const MAX_DROPPED: usize = 8;
/// How many separators may be between two digits of base64, hexadecimal or decimal numbers.
const MAX_SEPARATORS: usize = 64;

/// The matches so far, as ranges of the source.
type FoundRanges = Vec<(u64, u64)>;

/// One automaton reading one stream.
#[derive(Clone, Debug)]
struct Track {
    state: StateID,
    /// Where the bytes of the current state, and perhaps some before them, begin in the source.
    origins: VecDeque<u64>,
}

impl Track {
    fn new(automaton: &Automaton) -> Self {
        Self { state: automaton.start(), origins: VecDeque::new() }
    }

    fn reset(&mut self, automaton: &Automaton) {
        self.state = automaton.start();
        self.origins.clear();
    }

    fn is_resting(&self, automaton: &Automaton) -> bool {
        self.state == automaton.start()
    }

    fn step(&mut self, automaton: &Automaton, item: Item, found: &mut FoundRanges) {
        if self.is_resting(automaton) && !automaton.begins_with(item.byte) {
            return;
        }
        self.state = automaton.next(self.state, item.byte);
        if self.state == automaton.start() {
            self.origins.clear();
            return;
        }
        self.origins.push_back(item.start);
        if let Some(length) = automaton.matched(self.state) {
            let first = self.origins.len().saturating_sub(length);
            found.push((self.origins.get(first).copied().unwrap_or(item.start), item.end));
        }
        // Checked from time to time, so that it costs nothing per byte.
        if self.origins.len().is_multiple_of(64) {
            let needed = automaton.depth(self.state);
            self.origins.drain(..self.origins.len().saturating_sub(needed));
        }
    }

    /// Where the beginning of a pattern that may still be completed is in the source.
    fn begun_at(&self, automaton: &Automaton) -> Option<u64> {
        let depth = automaton.depth(self.state);
        self.origins.get(self.origins.len().checked_sub(depth.max(1))?).copied().filter(|_| depth > 0)
    }
}

/// A secret in plain form.
#[derive(Clone, Debug)]
struct Plain {
    track: Track,
    dropped: usize,
}

impl Plain {
    fn take(&mut self, forms: &Forms, item: Item, found: &mut FoundRanges) {
        if !is_dropped(item.byte) {
            self.dropped = 0;
            self.track.step(&forms.plain, item, found);
            return;
        }
        self.dropped = self.dropped.saturating_add(1);
        if self.dropped > MAX_DROPPED {
            self.track.reset(&forms.plain);
        }
    }
}

/// In base64, of either alphabet, with white space anywhere.
#[derive(Clone, Debug)]
struct Base64 {
    track: Track,
    separators: usize,
}

impl Base64 {
    fn take(&mut self, forms: &Forms, item: Item, found: &mut FoundRanges) {
        let byte = match item.byte {
            b'-' => b'+',
            b'_' => b'/',
            b' ' | b'\t' | b'\r' | b'\n' | 0 => {
                self.separators = self.separators.saturating_add(1);
                if self.separators > MAX_SEPARATORS {
                    self.track.reset(&forms.base64);
                }
                return;
            }
            byte => byte,
        };
        self.separators = 0;
        self.track.step(&forms.base64, Item { byte, ..item }, found);
    }
}

/// In hexadecimal, of either case, with or without separators and prefixes.
#[derive(Clone, Debug)]
struct Hexadecimal {
    track: Track,
    separators: usize,
    /// A zero that may belong to `0x`.
    zero: Option<Item>,
    is_after_backslash: bool,
}

impl Hexadecimal {
    fn take(&mut self, forms: &Forms, item: Item, found: &mut FoundRanges) {
        let was_after_backslash = std::mem::replace(&mut self.is_after_backslash, item.byte == b'\\');
        let zero = self.zero.take();
        if matches!(item.byte, b'x' | b'X') && (zero.is_some() || was_after_backslash) {
            // It may have been the last digit after all.
            if let Some(zero) = zero {
                self.track.clone().step(&forms.hexadecimal, zero, found);
            }
            return;
        }
        if let Some(zero) = zero {
            self.track.step(&forms.hexadecimal, zero, found);
        }
        match item.byte {
            b'0' => {
                self.separators = 0;
                self.zero = Some(item);
            }
            b'1'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => {
                self.separators = 0;
                let byte = item.byte.to_ascii_lowercase();
                self.track.step(&forms.hexadecimal, Item { byte, ..item }, found);
            }
            _ if self.track.is_resting(&forms.hexadecimal) => {}
            byte if is_separator(byte) && self.separators < MAX_SEPARATORS => {
                self.separators = self.separators.saturating_add(1);
            }
            _ => self.track.reset(&forms.hexadecimal),
        }
    }

    fn finish(&mut self, forms: &Forms, found: &mut FoundRanges) {
        if let Some(zero) = self.zero.take() {
            self.track.step(&forms.hexadecimal, zero, found);
        }
    }
}

/// What may be between two numbers of a list of bytes, in a dump or in source code.
fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b":-,._;\\\"'%".contains(&byte)
}

/// As a list of decimal numbers, a byte each.
#[derive(Clone, Debug)]
struct Decimal {
    track: Track,
    separators: usize,
    /// An incomplete number: its value, and where it began and ends so far.
    number: Option<(u32, u64, u64)>,
}

impl Decimal {
    fn take(&mut self, forms: &Forms, item: Item, found: &mut FoundRanges) {
        if let b'0'..=b'9' = item.byte {
            let digit = u32::from(item.byte - b'0');
            let (value, start) = self.number.map_or((0, item.start), |(value, start, _)| (value, start));
            // Past a byte it stays past it.
            let value = value.saturating_mul(10).saturating_add(digit).min(1000);
            self.number = Some((value, start, item.end));
            self.separators = 0;
            return;
        }
        self.finish(forms, found);
        if self.track.is_resting(&forms.plain) {
            return;
        }
        self.separators = self.separators.saturating_add(1);
        if !is_separator(item.byte) || self.separators > MAX_SEPARATORS {
            self.track.reset(&forms.plain);
        }
    }

    fn finish(&mut self, forms: &Forms, found: &mut FoundRanges) {
        let Some((value, start, end)) = self.number.take() else { return };
        match u8::try_from(value) {
            Ok(byte) if is_dropped(byte) => {}
            Ok(byte) => self.track.step(&forms.plain, Item { byte, start, end }, found),
            Err(_) => self.track.reset(&forms.plain),
        }
    }
}

/// Every form, at one level of escapes.
#[derive(Clone, Debug)]
struct Level {
    plain: Plain,
    base64: Base64,
    hexadecimal: Hexadecimal,
    decimal: Decimal,
}

impl Level {
    fn new(forms: &Forms) -> Self {
        let plain = || Track::new(&forms.plain);
        Self {
            plain: Plain { track: plain(), dropped: 0 },
            base64: Base64 { track: Track::new(&forms.base64), separators: 0 },
            hexadecimal: Hexadecimal {
                track: Track::new(&forms.hexadecimal),
                separators: 0,
                zero: None,
                is_after_backslash: false,
            },
            decimal: Decimal { track: plain(), separators: 0, number: None },
        }
    }

    fn take(&mut self, forms: &Forms, item: Item, found: &mut FoundRanges) {
        self.plain.take(forms, item, found);
        self.base64.take(forms, item, found);
        self.hexadecimal.take(forms, item, found);
        self.decimal.take(forms, item, found);
    }

    fn finish(&mut self, forms: &Forms, found: &mut FoundRanges) {
        self.hexadecimal.finish(forms, found);
        self.decimal.finish(forms, found);
    }

    fn is_resting(&self, forms: &Forms) -> bool {
        self.plain.track.is_resting(&forms.plain)
            && self.base64.track.is_resting(&forms.base64)
            && self.hexadecimal.track.is_resting(&forms.hexadecimal)
            && self.decimal.track.is_resting(&forms.plain)
            && self.hexadecimal.zero.is_none()
            && self.decimal.number.is_none()
    }

    fn begun_at(&self, forms: &Forms) -> Option<u64> {
        let tracks = [
            self.plain.track.begun_at(&forms.plain),
            self.base64.track.begun_at(&forms.base64),
            self.hexadecimal.track.begun_at(&forms.hexadecimal),
            self.decimal.track.begun_at(&forms.plain),
            self.hexadecimal.zero.map(|zero| zero.start),
            self.decimal.number.map(|(_, start, _)| start),
        ];
        tracks.into_iter().flatten().min()
    }
}

/// A level whose stream is that of another one with escapes decoded.
#[derive(Clone, Debug)]
struct Unescaped {
    decoder: Decoder,
    level: Level,
    is_awake: bool,
    /// The same once more.
    above: Option<Box<Unescaped>>,
}

impl Unescaped {
    fn new(forms: &Forms, family: Family, above: Option<Box<Unescaped>>) -> Self {
        Self { decoder: Decoder::new(family), level: Level::new(forms), is_awake: false, above }
    }

    /// Takes what the level below is about to take.
    fn take(&mut self, forms: &Forms, item: Item, below: &Level, found: &mut FoundRanges) {
        if !self.is_awake {
            if !self.decoder.family().starts_with(item.byte) {
                return;
            }
            self.level = below.clone();
            self.is_awake = true;
        }
        let Self { decoder, level, above, .. } = self;
        decoder.push(item, &mut |item| {
            if let Some(above) = above {
                above.take(forms, item, level, found);
            }
            level.take(forms, item, found);
        });
        self.is_awake = !(self.decoder.is_empty()
            && self.level.is_resting(forms)
            && self.above.as_ref().is_none_or(|above| !above.is_awake));
    }

    fn finish(&mut self, forms: &Forms, found: &mut FoundRanges) {
        if !self.is_awake {
            return;
        }
        let Self { decoder, level, above, .. } = self;
        decoder.finish(&mut |item| {
            if let Some(above) = above {
                above.take(forms, item, level, found);
            }
            level.take(forms, item, found);
        });
        level.finish(forms, found);
        if let Some(above) = above {
            above.finish(forms, found);
        }
    }

    fn begun_at(&self, forms: &Forms) -> Option<u64> {
        if !self.is_awake {
            return None;
        }
        let above = self.above.as_ref().and_then(|above| above.begun_at(forms));
        [self.decoder.begun_at(), self.level.begun_at(forms), above].into_iter().flatten().min()
    }
}

/// The search for a set of secrets in one stream.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    forms: Arc<Forms>,
    level: Level,
    unescaped: Vec<Unescaped>,
    position: u64,
    /// Nothing has begun.
    is_idle: bool,
}

impl Engine {
    pub(super) fn new(forms: Arc<Forms>) -> Self {
        let twice = Unescaped::new(&forms, Family::Text, None);
        let mut unescaped = vec![Unescaped::new(&forms, Family::Text, Some(Box::new(twice)))];
        let alone = [Family::Percent, Family::Backslash, Family::Entity, Family::QuotedPrintable];
        unescaped.extend(alone.map(|family| Unescaped::new(&forms, family, None)));
        Self { level: Level::new(&forms), unescaped, position: 0, is_idle: true, forms }
    }

    pub(super) fn push(&mut self, bytes: &[u8], found: &mut FoundRanges) {
        for byte in bytes {
            let start = self.position;
            self.position = start.saturating_add(1);
            if self.is_idle && !self.forms.is_interesting(*byte) {
                continue;
            }
            let item = Item { byte: *byte, start, end: self.position };
            for unescaped in &mut self.unescaped {
                unescaped.take(&self.forms, item, &self.level, found);
            }
            self.level.take(&self.forms, item, found);
            self.is_idle =
                self.level.is_resting(&self.forms) && self.unescaped.iter().all(|level| !level.is_awake);
        }
    }

    pub(super) fn finish(&mut self, found: &mut FoundRanges) {
        for unescaped in &mut self.unescaped {
            unescaped.finish(&self.forms, found);
        }
        self.level.finish(&self.forms, found);
    }

    /// The position before which nothing can become part of a match any more.
    pub(super) fn settled(&self) -> u64 {
        let unescaped = self.unescaped.iter().filter_map(|unescaped| unescaped.begun_at(&self.forms));
        unescaped.chain(self.level.begun_at(&self.forms)).min().unwrap_or(self.position)
    }
}
