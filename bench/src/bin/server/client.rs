//! A client that keeps its connections open and sends the next request when it has the answer, on one thread for all of them, so that
//! it uses as little of the machine as possible.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A request, and its name in the table.
pub(crate) struct Request {
    pub name: &'static str,
    pub path: String,
    pub bytes: Vec<u8>,
}

impl Request {
    pub(crate) fn new(name: &'static str, method: &str, path: &str, token: &str, body: &str) -> Request {
        let content = match body.is_empty() {
            true => String::new(),
            false => format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()),
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{content}\r\n"
        );
        Request { name, path: path.to_owned(), bytes: format!("{head}{body}").into_bytes() }
    }
}

/// The result of a load.
#[derive(Default)]
pub(crate) struct Figures {
    seconds: f64,
    latencies: Vec<Duration>,
}

impl Figures {
    pub(crate) fn add(&mut self, more: Figures) {
        self.seconds += more.seconds;
        self.latencies.extend(more.latencies);
        self.latencies.sort_unstable();
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    pub(crate) fn percentile(&self, part: f64) -> String {
        percentile(&self.latencies, part)
    }
}

/// The latency that this fraction of them does not exceed; they are sorted.
pub(crate) fn percentile(latencies: &[Duration], part: f64) -> String {
    let place = ((latencies.len() as f64 * part) as usize).min(latencies.len().saturating_sub(1));
    let latency = latencies.get(place).copied().unwrap_or_default();
    format!("{:.2} ms", latency.as_secs_f64() * 1e3)
}

/// Runs something of the client.
pub(crate) fn block_on<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Sends a request over and over on so many connections, for so long.
pub(crate) fn load(
    address: SocketAddr,
    request: &Request,
    connections: usize,
    time: Duration,
) -> Outcome<Figures> {
    block_on(async {
        let end = Instant::now() + time;
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let mut connection = Connection::open(address).await?;
            let bytes = request.bytes.clone();
            tasks.spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < end {
                    let start = Instant::now();
                    connection.ask(&bytes).await.map_err(|error| error.to_string())?;
                    latencies.push(start.elapsed());
                }
                Ok::<_, String>(latencies)
            });
        }
        let start = Instant::now();
        let mut latencies = Vec::new();
        while let Some(done) = tasks.join_next().await {
            latencies.extend(done??);
        }
        Ok(Figures { seconds: start.elapsed().as_secs_f64(), latencies })
    })
}

/// A connection and the bytes read from it beyond the last answer.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Outcome<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(16 << 10) })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Outcome<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Sends a request and gives the answer's body; an answer that is not 200 is an error.
    pub(crate) async fn ask(&mut self, bytes: &[u8]) -> Outcome<Vec<u8>> {
        self.send(bytes).await?;
        self.buffer.clear();
        loop {
            if let Some((head, body)) = whole(&self.buffer)? {
                return match head.starts_with("HTTP/1.1 200 ") {
                    true => Ok(body.to_vec()),
                    false => Err(format!("{head}{}", String::from_utf8_lossy(body)).into()),
                };
            }
            self.more().await?;
        }
    }

    /// Reads on; the new bytes are at the end of the buffer.
    pub(crate) async fn more(&mut self) -> Outcome<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }

    /// The bytes that were read and not used.
    pub(crate) fn unread(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

/// Head and body of an answer, if all of it is there.
fn whole(bytes: &[u8]) -> Outcome<Option<(&str, &[u8])>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let (head, body) = bytes.split_at(end + 4);
    let head = std::str::from_utf8(head)?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let length = length.ok_or("an answer without its length")??;
    Ok(body.get(..length).map(|body| (head, body)))
}
