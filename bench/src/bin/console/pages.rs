//! Pages asked by somebody who is signed in, one request after the other on one connection, of both servers in turns.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crealeph_bench::{Outcome, program};

use crate::ConsoleServer;
use crate::fill::Landmarks;

/// How often a page is asked of each server, unless that takes longer than this.
const REQUESTS: usize = 200;
const LONGEST: Duration = Duration::from_secs(4);
/// Requests that are not counted.
const WARM_UP: usize = 5;
/// How many times the page on the small ledger the one on the large may take.
const AIM: f64 = 1.5;

/// Somebody who is signed in.
pub(crate) struct Visitor {
    pub(crate) address: SocketAddr,
    pub(crate) cookie: String,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Visitor {
    pub(crate) fn sign_in(address: SocketAddr, token: &str) -> Outcome<Visitor> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut visitor = Visitor { address, cookie: String::new(), stream, buffer: Vec::new() };
        let port = address.port();
        let form = format!("token={token}&next=");
        let (head, _) = visitor.exchange(&format!(
            "POST /sign-in HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ))?;
        let cookie = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("set-cookie")
                .then(|| value.split(';').next().unwrap_or(value).to_owned())
        });
        visitor.cookie = cookie.ok_or_else(|| format!("nobody was signed in: {head}"))?;
        Ok(visitor)
    }

    /// Asks for a page, which must be there.
    fn get(&mut self, path: &str) -> Outcome<usize> {
        let (port, cookie) = (self.address.port(), &self.cookie);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {cookie}\r\n\r\n");
        let (head, length) = self.exchange(&request)?;
        match head.starts_with("HTTP/1.1 200 ") {
            true => Ok(length),
            false => Err(format!("{path}: {head}{}", String::from_utf8_lossy(&self.buffer)).into()),
        }
    }

    /// Sends a request: the head of its answer, and the length of the body.
    fn exchange(&mut self, request: &str) -> Outcome<(String, usize)> {
        self.stream.write_all(request.as_bytes())?;
        self.buffer.clear();
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(self.buffer.get(..end).unwrap_or_default()).into_owned();
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
                });
                let length = length.ok_or("an answer without its length")?;
                if self.buffer.len() >= end + 4 + length {
                    return Ok((head, length));
                }
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err("the server closed the connection".into()),
                read => self.buffer.extend_from_slice(chunk.get(..read).unwrap_or_default()),
            }
        }
    }
}

/// A page by its name, and its path on a server.
struct Page {
    name: &'static str,
    is_windowed: bool,
    path: fn(&Landmarks) -> String,
}

const fn page(name: &'static str, path: fn(&Landmarks) -> String) -> Page {
    Page { name, is_windowed: false, path }
}

const fn windowed(name: &'static str, path: fn(&Landmarks) -> String) -> Page {
    Page { name, is_windowed: true, path }
}

const PAGES: &[Page] = &[
    page("inbox", |_| "/inbox".to_owned()),
    page("a draft that waits", |marks| format!("/inbox/{}", marks.waiting)),
    page("a draft that landed", |marks| format!("/inbox/{}", marks.landed)),
    page("a held change", |marks| format!("/inbox/{}", marks.held)),
    page("robots", |_| "/robots".to_owned()),
    page("a robot", |marks| format!("/robots/{}", marks.robot)),
    page("executions", |_| "/executions".to_owned()),
    page("executions of a robot", |marks| format!("/executions?robot={}", marks.robot)),
    page("an execution", |marks| format!("/executions/{}/{}", marks.robot, marks.execution)),
    page("work", |_| "/runs".to_owned()),
    page("work that failed", |_| "/runs?status=failed".to_owned()),
    page("a run", |marks| format!("/runs/{}", marks.run)),
    page("ledger", |_| "/ledger".to_owned()),
    page("ledger, of a robot and type", |marks| format!("/ledger?robot={}&type=signal", marks.robot)),
    page("an entry", |marks| format!("/ledger/{}", marks.waiting)),
    page("policy", |_| "/policy".to_owned()),
    windowed("policy with a backtest", |_| "/policy?minConfidence=0.9".to_owned()),
    windowed("usage", |_| "/usage".to_owned()),
    page("access", |_| "/access".to_owned()),
    windowed("search for a robot", |marks| format!("/search?q={}", marks.robot)),
    windowed("search for words", |_| "/search?q=sprocket".to_owned()),
];

/// Asks each page of both servers in turns.
pub(crate) fn table(small: &ConsoleServer, large: &ConsoleServer) -> Outcome<()> {
    let (few, many) = (small.entries, large.entries);
    println!("## Pages at {few} and at {many} entries\n");
    println!(
        "| page | bytes | p50 at {few} | p99 | first at {many} | p50 at {many} | p99 | p50, large / small |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|"
    );
    let mut visitors = (small.visitor.again()?, large.visitor.again()?);
    let mut slower = Vec::new();
    for page in PAGES {
        let paths = ((page.path)(&small.marks), (page.path)(&large.marks));
        visitors.0.get(&paths.0)?;
        let start = Instant::now();
        visitors.1.get(&paths.1)?;
        let first = start.elapsed();
        for _ in 1..WARM_UP {
            visitors.0.get(&paths.0)?;
            visitors.1.get(&paths.1)?;
        }
        let (mut times, mut bytes) = ((Vec::new(), Vec::new()), 0);
        let start = Instant::now();
        while times.0.len() < REQUESTS && start.elapsed() < LONGEST {
            let begin = Instant::now();
            visitors.0.get(&paths.0)?;
            times.0.push(begin.elapsed());
            let begin = Instant::now();
            bytes = visitors.1.get(&paths.1)?;
            times.1.push(begin.elapsed());
        }
        times.0.sort_unstable();
        times.1.sort_unstable();
        let at = |times: &[Duration], part: usize| {
            times.get(times.len() * part / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
        };
        let ratio = at(&times.1, 50) / at(&times.0, 50);
        println!(
            "| {}{} | {bytes} | {:.2} ms | {:.2} ms | {:.1} ms | {:.2} ms | {:.2} ms | {ratio:.2} |",
            page.name,
            if page.is_windowed { " (windowed)" } else { "" },
            at(&times.0, 50),
            at(&times.0, 99),
            first.as_secs_f64() * 1e3,
            at(&times.1, 50),
            at(&times.1, 99),
        );
        if ratio > AIM && !page.is_windowed {
            slower.push(page.name);
        }
    }
    println!("\nAim: within {AIM} times, but for pages of a window. Not within: {slower:?}.");
    println!(
        "Resident memory of `crealeph serve` after that: {} MiB at {few} entries, {} MiB at {many}.\n",
        program::resident_mib(&small.child)?,
        program::resident_mib(&large.child)?
    );
    Ok(())
}

impl Visitor {
    /// The same on a connection of its own.
    fn again(&self) -> Outcome<Visitor> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let Visitor { address, ref cookie, .. } = *self;
        Ok(Visitor { address, cookie: cookie.clone(), stream, buffer: Vec::new() })
    }
}
