//! Work in progress, for a person who watches it: level, items, time, tool operations, tokens. Drawn on standard error,
//! only if that is a terminal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crealeph_contracts::text::Shown;
use crealeph_runtime::work::{RunStage, WorkProgress};

use crate::drawing::{Drawing, wiped};
use crate::output::is_watched;
use crate::render::{cut, padded, width};

const EVERY: Duration = Duration::from_millis(200);
/// How many items are shown at once.
const MAX_SHOWN: usize = 16;
/// How many columns the name of an item has, whatever the screen.
const LEAST_NAME: usize = 8;
const MAX_NAME: usize = 32;

/// The lines that are drawn and drawn again.
pub(super) struct Display {
    shared: Option<Arc<Shared>>,
    ticker: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    state: Mutex<DisplayState>,
}

#[derive(Default)]
struct DisplayState {
    heading: String,
    items: BTreeMap<String, Item>,
}

struct Item {
    since: Instant,
    /// How long it took, once it only waits for others.
    took: Option<Duration>,
    doing: &'static str,
    tool_ops: u64,
    tokens: Option<f64>,
    files: Option<usize>,
}

impl Display {
    /// Starts to show, if standard error is a terminal.
    pub(super) fn start() -> Self {
        let shared = is_watched().then(Arc::<Shared>::default);
        let ticker = shared.as_ref().map(|shared| {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || {
                while !shared.is_over.load(Ordering::Relaxed) {
                    shared.state().draw();
                    std::thread::sleep(EVERY);
                }
            })
        });
        Display { shared, ticker: Mutex::new(ticker) }
    }

    /// Shows what happens.
    pub(super) fn show(&self, progress: WorkProgress) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state();
        match progress {
            WorkProgress::Level { number, count, items } => {
                state.items.clear();
                state.heading = format!("level {} of {count}, {items} items", number + 1);
            }
            WorkProgress::Committing => state.heading.push_str(", committing"),
            WorkProgress::Item { item, stage } => {
                let item = state.items.entry(item.to_string()).or_insert_with(|| Item {
                    since: Instant::now(),
                    took: None,
                    doing: "",
                    tool_ops: 0,
                    tokens: None,
                    files: None,
                });
                match stage {
                    RunStage::Working { tool_ops, tokens } => {
                        (item.doing, item.tool_ops, item.tokens) = ("working", tool_ops, tokens);
                    }
                    RunStage::Judging { files } => (item.doing, item.files) = ("judging", Some(files)),
                    RunStage::Testing => item.doing = "testing",
                    RunStage::AwaitingApproval => (item.doing, item.took) = ("held", None),
                    RunStage::Waiting => (item.doing, item.took) = ("waiting", Some(item.since.elapsed())),
                }
            }
        }
    }

    /// Clears the lines at the end.
    pub(super) fn end(&self) {
        let Some(shared) = &self.shared else { return };
        shared.is_over.store(true, Ordering::Relaxed);
        if let Some(ticker) = self.ticker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = ticker.join();
        }
        drop(wiped());
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, DisplayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DisplayState {
    fn draw(&self) {
        if self.heading.is_empty() {
            return;
        }
        let mut drawing = Drawing::new();
        drawing.line(&self.heading);
        for line in self.lines(drawing.columns(), drawing.rows_left()) {
            drawing.line(&line);
        }
        drawing.show();
    }

    /// A line for each item that has room, and one that counts the others.
    fn lines(&self, columns: usize, rows: usize) -> Vec<String> {
        let fits = self.items.len() <= MAX_SHOWN && self.items.len() <= rows;
        let count = if fits { self.items.len() } else { MAX_SHOWN.min(rows.saturating_sub(1)) };
        let items: Vec<(&str, String)> =
            self.items.iter().take(count).map(|(name, item)| (name.as_str(), item.figures())).collect();
        let figures = items.iter().map(|(_, figures)| width(figures)).max().unwrap_or(0);
        let room = columns.saturating_sub(figures + 3).clamp(LEAST_NAME, MAX_NAME);
        let line = |(name, figures): (&str, String)| {
            let name = padded(&cut(&Shown::line(name).to_string(), room), room);
            format!("  {name} {figures}")
        };
        let mut lines: Vec<String> = items.into_iter().map(line).collect();
        if !fits {
            lines.push(format!("  and {} more", self.items.len() - count));
        }
        lines
    }
}

impl Item {
    fn figures(&self) -> String {
        let seconds = self.took.unwrap_or_else(|| self.since.elapsed()).as_secs();
        let files = self.files.map(|files| format!("  {files} files")).unwrap_or_default();
        let tokens = self.tokens.map(|tokens| format!("  {tokens} tokens")).unwrap_or_default();
        let (doing, tool_ops) = (self.doing, self.tool_ops);
        format!("{doing:<8} {seconds:>4} s  {tool_ops:>4} tool ops{files}{tokens}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_without_a_line_of_their_own_are_counted() {
        let item = || Item {
            since: Instant::now(),
            took: None,
            doing: "running",
            tool_ops: 0,
            tokens: None,
            files: None,
        };
        let lines = |count: usize, rows| {
            let items = (0..count).map(|number| (format!("item-{number:02}"), item())).collect();
            DisplayState { heading: String::new(), items }.lines(80, rows)
        };
        assert_eq!((lines(16, 16).len(), lines(3, 40).len()), (16, 3));
        assert!(lines(16, 16).last().unwrap().contains("item-15"));
        assert_eq!((lines(20, 40).len(), lines(20, 40).last().unwrap().as_str()), (17, "  and 4 more"));
        assert_eq!((lines(5, 3).len(), lines(5, 3).last().unwrap().as_str()), (3, "  and 3 more"));
    }
}
