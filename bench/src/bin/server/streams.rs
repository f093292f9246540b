//! How soon event streams receive new entries: a thousand clients of one tenant, ten appends a second. Each entry carries the time it
//! was sent, so the measured time covers append, commit and delivery.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::client::{Connection, block_on, percentile};
use crate::own::{OwnServer, signal};

const STREAMS: usize = 1_000;
const APPENDS: usize = 200;
const BETWEEN: Duration = Duration::from_millis(100);
/// How long the last events may take before they count as lost.
const PATIENCE: Duration = Duration::from_secs(20);
const MARK: &str = "\"sentNs\":";

pub(crate) fn table(own: &OwnServer) -> Outcome<()> {
    block_on(async {
        let start = Instant::now();
        let (sender, receiver) = channel();
        let mut tasks = JoinSet::new();
        let open = own.request("events", "GET", "/v1/events", "");
        for _ in 0..STREAMS {
            let mut stream = Connection::open(own.address()).await?;
            stream.send(&open.bytes).await?;
            let sender = sender.clone();
            tasks.spawn(async move {
                let mut received = 0;
                while received < APPENDS && stream.more().await.is_ok() {
                    let now = start.elapsed();
                    for sent in taken(stream.unread()) {
                        received += 1;
                        let _ = sender.send(now.saturating_sub(sent));
                    }
                }
            });
        }
        // All of them are connected, and follow, before the first append.
        sleep(Duration::from_secs(2)).await;
        let mut writer = Connection::open(own.address()).await?;
        let mut ticks = interval(BETWEEN);
        for _ in 0..APPENDS {
            ticks.tick().await;
            let body = signal(&format!(",\"sentNs\":{}", start.elapsed().as_nanos()));
            writer.ask(&own.request("append", "POST", "/v1/entries", &body).bytes).await?;
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = timeout(PATIENCE, all).await;
        drop(tasks);
        drop(sender);
        let mut latencies: Vec<Duration> = receiver.try_iter().collect();
        latencies.sort_unstable();
        println!("## {STREAMS} event streams, ten appends a second\n");
        println!("| delivered | of | p50 | p99 | p99.9 | resident memory |\n|---:|---:|---:|---:|---:|---:|");
        println!(
            "| {} | {} | {} | {} | {} | {} MiB |",
            latencies.len(),
            STREAMS * APPENDS,
            percentile(&latencies, 0.5),
            percentile(&latencies, 0.99),
            percentile(&latencies, 0.999),
            own.resident_mib()?
        );
        Ok(())
    })
}

/// When the events that are complete in the buffer were sent; they are removed from it.
fn taken(buffer: &mut Vec<u8>) -> Vec<Duration> {
    let Some(end) = buffer.windows(2).rposition(|window| window == b"\n\n") else { return Vec::new() };
    let whole: Vec<u8> = buffer.drain(..end + 2).collect();
    let text = String::from_utf8_lossy(&whole);
    let sent = text.split(MARK).skip(1).filter_map(|rest| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        Some(Duration::from_nanos(rest.get(..digits)?.parse().ok()?))
    });
    sent.collect()
}
