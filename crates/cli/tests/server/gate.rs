//! An agent behind a URL that answers when the test lets it, and counts its calls.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

/// Whether it may answer.
type Gate = Arc<(Mutex<bool>, Condvar)>;

pub(crate) struct GateAgent {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    gate: Gate,
}

impl GateAgent {
    /// Starts it with its gate closed.
    pub(crate) fn start() -> GateAgent {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (calls, gate) = (Arc::new(AtomicUsize::new(0)), Gate::default());
        let agent = GateAgent { address: listener.local_addr().unwrap(), calls, gate };
        let (calls, gate) = (Arc::clone(&agent.calls), Arc::clone(&agent.gate));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (calls, gate) = (Arc::clone(&calls), Arc::clone(&gate));
                std::thread::spawn(move || answer(stream, &calls, &gate));
            }
        });
        agent
    }

    /// The section of the configuration that names it `gate@1`.
    pub(crate) fn section(&self) -> String {
        format!("[agents.\"gate@1\"]\nkind = \"http\"\nurl = \"http://{}/\"\n", self.address)
    }

    pub(crate) fn open(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Answers one call; a caller that is gone by then gets nothing.
fn answer(stream: TcpStream, calls: &AtomicUsize, gate: &Gate) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let input: Value = serde_json::from_slice(&body).ok()?;
    calls.fetch_add(1, Ordering::SeqCst);
    let mut is_open = gate.0.lock().unwrap();
    while !*is_open {
        is_open = gate.1.wait(is_open).unwrap();
    }
    drop(is_open);
    let output =
        json!({ "ok": true, "executionId": input["executionId"], "status": "succeeded", "artifacts": [] });
    let output = output.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        output.len()
    );
    (&stream).write_all(format!("{head}{output}").as_bytes()).ok()
}
