//! A client that sends exactly what it is given.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of the server at an address.
pub struct Client(pub SocketAddr);

/// An answer, as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes on a new connection, and reads the answer.
    pub fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses at once may have closed before it has read everything.
        let _ = stream.write_all(bytes);
        Answer::read(&mut BufReader::new(stream))
    }

    pub fn request(&self, method: &str, target: &str, token: Option<&str>, body: Option<&str>) -> Answer {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.0);
        if let Some(token) = token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        if let Some(body) = body {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        self.send(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes())
    }

    /// A request with these headers.
    pub fn request_with(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.0);
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        self.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
    }

    /// A page, as a browser with this cookie asks for it.
    pub fn page(&self, target: &str, cookie: Option<&str>) -> Answer {
        self.request_with(
            "GET",
            target,
            &cookie.map(|cookie| ("cookie", cookie)).into_iter().collect::<Vec<_>>(),
            "",
        )
    }

    /// A form, sent by a page of this server or by one of no known origin.
    pub fn form(&self, target: &str, cookie: Option<&str>, body: &str, is_own: bool) -> Answer {
        let origin = format!("http://{}", self.0);
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend(cookie.map(|cookie| ("cookie", cookie)));
        headers.extend(is_own.then_some(("origin", origin.as_str())));
        self.request_with("POST", target, &headers, body)
    }

    pub fn get(&self, target: &str, token: &str) -> Answer {
        self.request("GET", target, Some(token), None)
    }

    /// The head of an answer.
    pub fn head(&self, target: &str, token: &str) -> Answer {
        let mut stream = self.connect();
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", self.0);
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = Answer::read_head(&mut reader).unwrap();
        Answer { status, headers, body: Vec::new() }
    }

    pub fn post(&self, target: &str, token: &str, body: &str) -> Answer {
        self.request("POST", target, Some(token), Some(body))
    }

    /// The server is there and answers.
    pub fn assert_serves(&self) {
        assert_eq!(self.request("GET", "/readyz", None, None).status, 200);
    }
}

impl Answer {
    /// Reads one answer: status, headers, body.
    pub fn read(reader: &mut BufReader<TcpStream>) -> Answer {
        Answer::try_read(reader).expect("the connection was closed without an answer")
    }

    /// Reads status and headers.
    fn read_head(reader: &mut BufReader<TcpStream>) -> Option<(u16, Vec<(String, String)>)> {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Some((status, headers))
    }

    /// The same; `None` if the connection was closed before.
    pub fn try_read(reader: &mut BufReader<TcpStream>) -> Option<Answer> {
        let (status, headers) = Answer::read_head(reader)?;
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length = answer.header("content-length").map(|length| length.parse::<u64>().unwrap());
        match length {
            Some(length) => {
                reader.take(length).read_to_end(&mut answer.body).ok()?;
            }
            None if answer.header("transfer-encoding") == Some("chunked") => {
                answer.body = Answer::read_chunks(reader)?;
            }
            None => {
                reader.read_to_end(&mut answer.body).ok()?;
            }
        }
        Some(answer)
    }

    /// A body in chunks; `None` if it was cut off.
    fn read_chunks(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
            let mut chunk = vec![0; length + 2];
            reader.read_exact(&mut chunk).ok()?;
            if length == 0 {
                return Some(body);
            }
            body.extend_from_slice(&chunk[..length]);
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The code of a problem document of this status.
    pub fn problem(&self, status: u16) -> String {
        let document = self.json();
        assert_eq!(self.status, status, "{document}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(document["requestId"].as_str(), self.header("x-request-id"));
        document["code"].as_str().unwrap().to_owned()
    }
}
