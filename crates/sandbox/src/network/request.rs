//! Requests to the proxy: a tunnel to a host, or one plain request for it. Owns reading a request's head and forwarding
//! its body. A plain request is forwarded in origin form, under the name of the granted host and no other, and
//! it is the only one of its connection. Refuses a head that two readers could read in two ways.

use std::io::{self, BufRead, Read, Write};

use super::Host;

const MAX_HEAD_BYTES: usize = 16 << 10;
/// The longest line in the framing of a body that comes in chunks.
const MAX_LINE_BYTES: u64 = 4 << 10;

/// A client's request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    pub(super) target: Host,
    /// For a plain `http://` request: the head to forward; `None` for a tunnel.
    pub(super) plain: Option<Plain>,
    /// What the client sent after the head.
    pub(super) rest: Vec<u8>,
}

/// A plain request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plain {
    pub(super) head: String,
    pub(super) body: Body,
}

/// How the body of a request is framed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    Chunks,
}

/// Reads up to the empty line that ends a request's head; later bytes stay at the end.
pub(super) fn read_head(mut client: impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut chunk = [0u8; 2048];
    while head_end(&head).is_none() {
        if head.len() > MAX_HEAD_BYTES {
            return Ok(head);
        }
        let read = client.read(&mut chunk)?;
        if read == 0 {
            return if head.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(head) };
        }
        head.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
    Ok(head)
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at.saturating_add(4))
}

/// Reads a request; `None` if the proxy does not accept it.
pub(super) fn parse(bytes: &[u8]) -> Option<ProxyRequest> {
    let end = head_end(bytes)?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let rest = bytes.get(end..)?.to_vec();
    let (line, headers) = head.split_once("\r\n")?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    // Some readers treat a bare line feed as the end of a line.
    let is_plain = head.split("\r\n").all(|line| !line.contains(|c: char| c.is_control() && c != '\t'));
    if !is_plain || words.next().is_some() || !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return None;
    }
    if method == "CONNECT" {
        return Some(ProxyRequest { target: target.parse().ok()?, plain: None, rest });
    }
    let url = target.strip_prefix("http://")?;
    let (authority, path) = url.find(['/', '?']).map_or((url, ""), |at| url.split_at(at));
    let slash = if path.starts_with('/') { "" } else { "/" };
    let target = authority.parse::<Host>().or_else(|_| format!("{authority}:80").parse()).ok()?;
    let (kept, body) = kept_headers(headers)?;
    let head =
        format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\n{kept}Connection: close\r\n\r\n");
    Some(ProxyRequest { target, plain: Some(Plain { head, body }), rest })
}

/// The headers that are forwarded, and how they frame the body.
fn kept_headers(headers: &str) -> Option<(String, Body)> {
    let mut kept = String::new();
    let (mut length, mut is_chunked) = (None, false);
    for header in headers.split("\r\n").filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once(':')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name {
            return None;
        }
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "host" | "connection" | "keep-alive" | "upgrade" => continue,
            "content-length" if length.is_some() => return None,
            "content-length" => {
                let digits = value.trim();
                length =
                    Some(digits.parse().ok().filter(|_: &u64| digits.bytes().all(|b| b.is_ascii_digit()))?);
            }
            "transfer-encoding" if is_chunked || !value.trim().eq_ignore_ascii_case("chunked") => {
                return None;
            }
            "transfer-encoding" => is_chunked = true,
            _ if name.starts_with("proxy-") => continue,
            _ => {}
        }
        kept.push_str(header);
        kept.push_str("\r\n");
    }
    match (length, is_chunked) {
        (Some(_), true) => None,
        (_, true) => Some((kept, Body::Chunks)),
        (length, false) => Some((kept, Body::Length(length.unwrap_or(0)))),
    }
}

impl Body {
    /// Forwards the body, to its end and not further.
    pub(super) fn pass(&self, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
        match self {
            Body::Length(length) => pass_bytes(from, to, *length),
            Body::Chunks => pass_chunks(from, to),
        }
    }
}

fn pass_chunks(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
    loop {
        let line = pass_line(from, to)?;
        match chunk_size(&line).ok_or(io::ErrorKind::InvalidData)? {
            0 => break,
            size => pass_bytes(from, to, size)?,
        }
        if !pass_line(from, to)?.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    // The trailer after the last chunk ends with an empty line.
    while !pass_line(from, to)?.is_empty() {}
    Ok(())
}

fn chunk_size(line: &str) -> Option<u64> {
    let size = line.split(';').next()?.trim_end();
    u64::from_str_radix(size, 16).ok().filter(|_| size.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn pass_bytes(from: &mut impl BufRead, to: &mut impl Write, count: u64) -> io::Result<()> {
    let passed = io::copy(&mut from.take(count), to)?;
    if passed < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Forwards a line and returns it without its end.
fn pass_line(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    let text = line.strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok());
    let text = text.filter(|text| !text.contains('\r')).ok_or(io::ErrorKind::InvalidData)?;
    to.write_all(&line)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Option<(String, Plain)> {
        let request = parse(text.as_bytes())?;
        Some((request.target.to_string(), request.plain?))
    }

    #[test]
    fn a_plain_request_is_sent_on_in_origin_form_under_the_granted_name() {
        let cases = [
            ("http://a.example/x?y", "a.example:80", "GET /x?y HTTP/1.1\r\nHost: a.example\r\n"),
            ("http://a.example:8080", "a.example:8080", "GET / HTTP/1.1\r\nHost: a.example:8080\r\n"),
            ("http://a.example?y", "a.example:80", "GET /?y HTTP/1.1\r\nHost: a.example\r\n"),
        ];
        for (url, target, sent) in cases {
            let asked = format!(
                "GET {url} HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\nConnection: keep-alive\r\n\
                 Accept: a\r\n\r\n"
            );
            let head = format!("{sent}Accept: a\r\nConnection: close\r\n\r\n");
            assert_eq!(plain(&asked), Some((target.to_owned(), Plain { head, body: Body::Length(0) })));
        }
    }

    #[test]
    fn a_head_that_can_be_read_in_two_ways_is_refused() {
        for headers in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Content-Length: 1\r\nContent-Length: 1",
            "Content-Length: +1",
            "Content-Length: 1, 1",
            "Content-Length : 1",
            "Transfer-Encoding: gzip, chunked",
            "A: b\n Content-Length: 1",
            "A: b\r\n folded: 1",
            "A: b\rContent-Length: 1",
            "no colon",
            ": no name",
            "A: \0",
        ] {
            let asked = format!("POST http://a.example/ HTTP/1.1\r\n{headers}\r\n\r\n");
            assert_eq!(plain(&asked), None, "{headers}");
        }
        for line in [
            "GET http://a.example/\nHost:b.example HTTP/1.1",
            "GET\nHost:b.example http://a.example/ HTTP/1.1",
            "GET http://a.example/ HTTP/1.1\nHost:b.example",
            "GET http://a.example/\tx HTTP/1.1\r",
            "GET http://a.example/ HTTP/1.9",
        ] {
            assert_eq!(plain(&format!("{line}\r\nA: b\r\n\r\n")), None, "{line:?}");
        }
    }

    #[test]
    fn a_body_is_passed_on_to_its_end_and_not_further() {
        let passed = |body: Body, text: &str| {
            let (mut from, mut to) = (text.as_bytes(), Vec::new());
            body.pass(&mut from, &mut to)
                .map(|()| String::from_utf8(to).unwrap())
                .map_err(|error| error.kind())
        };
        assert_eq!(passed(Body::Length(0), "GET http://b/"), Ok(String::new()));
        assert_eq!(passed(Body::Length(3), "abcGET http://b/"), Ok("abc".to_owned()));
        assert_eq!(passed(Body::Length(3), "ab"), Err(io::ErrorKind::UnexpectedEof));
        for chunks in ["3\r\nabc\r\n0\r\n\r\n", "A;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"] {
            assert_eq!(passed(Body::Chunks, &format!("{chunks}GET http://b/")), Ok(chunks.to_owned()));
        }
        for bad in ["+3\r\nabc\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", "", "3\r\nab"]
        {
            assert!(passed(Body::Chunks, bad).is_err(), "{bad:?}");
        }
    }
}
