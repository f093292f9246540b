//! An HTTP agent that answers at once, the same for every contender: one draft, depending on the first id it may use.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crealeph_bench::Outcome;

/// Serves until the process ends; returns its port.
pub(crate) fn serve() -> Outcome<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(&stream));
        }
    });
    Ok(port)
}

fn answer_all(stream: &TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        let execution = after(&body, "\"executionId\"")?;
        let id = after(body.get(body.find("\"allowedLineage\"")?..)?, "\"dependsOnLedgerIds\"")?;
        let answer = format!(
            r#"{{"ok":true,"executionId":"{execution}","status":"succeeded","artifacts":[{{"type":"site_plan","payload":{{"pages":["home","prices"],"note":"a plan of some words"}},"dependsOnLedgerIds":["{id}"],"metadata":{{"generatedAt":"2026-01-01T00:00:00.000Z"}}}}]}}"#
        );
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\ncontent-type: application/json\r\n\r\n",
            answer.len()
        );
        writer.write_all((head + &answer).as_bytes()).ok()?;
    }
}

/// The first string after a key.
fn after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let rest = text.get(text.find(key)? + key.len()..)?;
    let start = rest.find('"')? + 1;
    let rest = rest.get(start..)?;
    rest.get(..rest.find('"')?)
}
