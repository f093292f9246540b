//! Appends, reads and runs of the Builder on all connections at once, for a while: no request may fail, every append and run that was
//! acknowledged is in the log once, the log verifies, and memory stays flat.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::client::{Connection, Request, block_on, percentile};
use crate::own::{OwnServer, keyed};

/// How long the load lasts, and how often memory is measured.
const TIME: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_secs(1);
/// Of so many requests of a connection one runs the Builder.
const RUN_EVERY: usize = 32;
/// How much memory may grow between the third part of the load and its end.
const MOST_GROWTH: f64 = 1.25;

/// The work that a connection has done.
#[derive(Default)]
struct Done {
    keys: Vec<String>,
    executions: Vec<String>,
    appends: Vec<Duration>,
    reads: Vec<Duration>,
    runs: Vec<Duration>,
}

/// Runs the load, and prints the result.
pub(crate) fn table(own: &OwnServer, connections: usize) -> Outcome<()> {
    let (mut all, resident) = load(own, connections)?;
    let sent = all.appends.len() + all.reads.len() + all.runs.len();
    println!("## {connections} connections of appends, reads and runs for {} s\n", TIME.as_secs());
    println!("| request | count | p50 | p99 | p99.9 |\n|---|---:|---:|---:|---:|");
    for (name, latencies) in
        [("append, durable", &mut all.appends), ("read", &mut all.reads), ("Builder run", &mut all.runs)]
    {
        latencies.sort_unstable();
        let [p50, p99, last] = [0.5, 0.99, 0.999].map(|part| percentile(latencies, part));
        println!("| {name} | {} | {p50} | {p99} | {last} |", latencies.len());
    }
    let (keys, executions) = recorded(own)?;
    for (what, acknowledged, found) in [("appends", &all.keys, &keys), ("runs", &all.executions, &executions)]
    {
        let expected: BTreeSet<&String> = acknowledged.iter().collect();
        let is_whole = found.iter().collect::<BTreeSet<_>>() == expected && found.len() == expected.len();
        if !is_whole {
            return Err(format!(
                "{} {what} were acknowledged, and {} are there",
                expected.len(),
                found.len()
            )
            .into());
        }
    }
    own.run(&["ledger", "verify"])?;
    let third = resident.get(resident.len() / 3).copied().unwrap_or_default();
    let (last, most) = (resident.last().copied().unwrap_or_default(), resident.iter().max().copied());
    println!(
        "\n{sent} requests ({:.0}/s), none failed; all {} appends and {} runs are in the log once, and it verifies. Resident memory: \
         {third} MiB after {} s, {last} MiB at the end, {} MiB at most.\n",
        sent as f64 / TIME.as_secs_f64(),
        keys.len(),
        executions.len(),
        TIME.as_secs() / 3,
        most.unwrap_or_default()
    );
    match last as f64 > third as f64 * MOST_GROWTH {
        true => Err(format!("memory grew from {third} to {last} MiB under an even load").into()),
        false => Ok(()),
    }
}

/// What all connections have done, and the memory of the server meanwhile, in MiB.
fn load(own: &OwnServer, connections: usize) -> Outcome<(Done, Vec<u64>)> {
    block_on(async {
        let end = Instant::now() + TIME;
        let mut tasks = JoinSet::new();
        for number in 0..connections {
            let connection = Connection::open(own.address()).await?;
            let token = own.token().to_owned();
            tasks.spawn(async move {
                work(connection, &token, number, end).await.map_err(|error| error.to_string())
            });
        }
        let mut resident = Vec::new();
        while Instant::now() < end {
            tokio::time::sleep(LOOK).await;
            resident.push(own.resident_mib()?);
        }
        let mut all = Done::default();
        while let Some(done) = tasks.join_next().await {
            let done = done??;
            all.keys.extend(done.keys);
            all.executions.extend(done.executions);
            all.appends.extend(done.appends);
            all.reads.extend(done.reads);
            all.runs.extend(done.runs);
        }
        Ok((all, resident))
    })
}

/// One connection: an append and two reads in turns, and sometimes a run.
async fn work(mut connection: Connection, token: &str, number: usize, end: Instant) -> Outcome<Done> {
    let mut done = Done::default();
    let reads = ["/v1/entries?limit=20&order=newest", "/v1/robots/r/snapshot", "/v1/executions?limit=5"];
    let reads = reads.map(|path| Request::new("read", "GET", path, token, ""));
    for turn in 0.. {
        if Instant::now() >= end {
            break;
        }
        let key = format!("w{number}-{turn}");
        let append = Request::new("append", "POST", "/v1/entries", token, &keyed(&key));
        done.appends.push(timed(&mut connection, &append).await?);
        done.keys.push(key);
        for read in reads.iter().cycle().skip(turn % 3).take(2) {
            done.reads.push(timed(&mut connection, read).await?);
        }
        if turn % RUN_EVERY == number % RUN_EVERY {
            let execution = format!("e{number}-{turn}");
            let run = Request::new("run", "POST", "/v1/builder/runs", token, &builder_request(&execution));
            done.runs.push(timed(&mut connection, &run).await?);
            done.executions.push(execution);
        }
    }
    Ok(done)
}

async fn timed(connection: &mut Connection, request: &Request) -> Outcome<Duration> {
    let start = Instant::now();
    connection.ask(&request.bytes).await?;
    Ok(start.elapsed())
}

fn builder_request(execution: &str) -> String {
    format!(
        r#"{{"robotId":"r","objective_type":"landing_plan","objective_payload":{{}},"constraints":{{}},"coherence_policy":{{"on_stale":"block","on_partial":"block"}},"dryRun":false,"workflowVersion":"w1","agentVersion":"example@1","attempt":1,"executionId":"{execution}"}}"#
    )
}

/// The client keys of the connections and the executions that have a record, each as often as it is in the log.
fn recorded(own: &OwnServer) -> Outcome<(Vec<String>, Vec<String>)> {
    let (mut keys, mut executions) = (Vec::new(), Vec::new());
    for line in own.run(&["ledger", "export"])?.lines() {
        let line: Value = serde_json::from_str(line)?;
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match text("/entry/type").as_deref() {
            Some("execution_record") => executions.extend(text("/entry/payload/executionId")),
            Some(_) => keys.extend(text("/entry/key").filter(|key| key.starts_with('w'))),
            None => {}
        }
    }
    Ok((keys, executions))
}
