//! An agent behind a URL that counts its calls, answers each well, and may be held up before it does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crealeph_contracts::Valid;
use crealeph_contracts::json::Limits;

use crate::world::answer_to;

pub(crate) struct HttpAgent {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
}

impl HttpAgent {
    /// `before` is given the number of the call, from 1, and returns when it may be answered.
    pub(crate) fn new(before: impl Fn(usize) + Send + Sync + 'static) -> HttpAgent {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (calls, before) = (Arc::new(AtomicUsize::new(0)), Arc::new(before));
        let counted = Arc::clone(&calls);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (counted, before) = (Arc::clone(&counted), Arc::clone(&before));
                std::thread::spawn(move || answer(&stream, &counted, &*before));
            }
        });
        HttpAgent { address, calls }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The configuration that names it `a1`.
    pub(crate) fn configuration(&self) -> String {
        format!("[agents.a1]\nkind = 'http'\nurl = 'http://{}/'\n", self.address)
    }
}

fn answer(stream: &TcpStream, calls: &AtomicUsize, before: &dyn Fn(usize)) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            match line.trim_end().is_empty() {
                true => break,
                false => continue,
            }
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
    before(number);
    let output = answer_to(&Valid::parse(&body, &Limits::default()).unwrap()).to_json();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", output.len());
    // The client may have died meanwhile.
    let mut stream = stream;
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(output.as_bytes()));
}
