//! How contenders are timed: in turns of a millisecond, so that disturbances of the machine affect all of
//! them alike; the figure is the best of several medians.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::Outcome;

/// How long one turn of a contender takes: short, so that many turns fall between two disturbances.
const TURN: Duration = Duration::from_millis(1);
/// How long a contender runs before its measurement starts.
const WARM_UP: Duration = Duration::from_millis(300);
/// How many medians are taken, and of how many turns each.
const MEDIANS: usize = 25;
const TURNS: usize = 9;

/// One way of doing the same work.
pub struct Contender<'a> {
    /// Its name in the table.
    pub name: &'static str,
    run: Box<dyn FnMut(u64) -> Outcome<Duration> + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender that runs here: `work` is called once per iteration.
    pub fn new<R>(name: &'static str, mut work: impl FnMut() -> R + 'a) -> Self {
        Contender::timed(name, move |iterations| {
            let start = Instant::now();
            for _ in 0..iterations {
                black_box(work());
            }
            Ok(start.elapsed())
        })
    }

    /// A contender that is given a number of iterations to run and returns how long they took.
    pub fn timed(name: &'static str, run: impl FnMut(u64) -> Outcome<Duration> + 'a) -> Self {
        Contender { name, run: Box::new(run) }
    }

    /// Runs until it is warm, and returns how many iterations fill a turn.
    fn warm_up(&mut self) -> Outcome<u64> {
        let start = Instant::now();
        let mut iterations = 1;
        loop {
            let took = (self.run)(iterations)?.max(Duration::from_nanos(1));
            let fitting = iterations as f64 * TURN.as_secs_f64() / took.as_secs_f64();
            iterations = (fitting as u64).clamp(1, iterations.saturating_mul(10));
            if start.elapsed() >= WARM_UP {
                return Ok(iterations);
            }
        }
    }
}

/// Nanoseconds per iteration of each contender, in their order.
pub fn race(contenders: &mut [Contender<'_>]) -> Outcome<Vec<f64>> {
    let mut iterations = Vec::new();
    for contender in &mut *contenders {
        iterations.push(contender.warm_up()?);
    }
    let mut best = vec![f64::INFINITY; contenders.len()];
    for _ in 0..MEDIANS {
        let mut turns = vec![Vec::with_capacity(TURNS); contenders.len()];
        for _ in 0..TURNS {
            for ((contender, iterations), turns) in contenders.iter_mut().zip(&iterations).zip(&mut turns) {
                let took = (contender.run)(*iterations)?;
                turns.push(took.as_secs_f64() * 1e9 / *iterations as f64);
            }
        }
        for (best, turns) in best.iter_mut().zip(turns) {
            *best = best.min(median(turns));
        }
    }
    Ok(best)
}

fn median(mut turns: Vec<f64>) -> f64 {
    turns.sort_by(f64::total_cmp);
    turns.get(turns.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A time in a readable form.
pub fn shown(nanos: f64) -> String {
    match nanos {
        nanos if nanos < 1e3 => format!("{nanos:.0} ns"),
        nanos if nanos < 1e5 => format!("{:.2} µs", nanos / 1e3),
        nanos => format!("{:.0} µs", nanos / 1e3),
    }
}

/// How many times as long, in a readable form.
pub fn ratio(theirs: f64, ours: f64) -> String {
    format!("{:.1}×", theirs / ours)
}
