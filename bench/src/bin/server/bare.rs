//! The peer: an axum server with nothing but a handler for each request, which reads the body and returns the bytes that our own
//! server answers. It checks nothing and stores nothing, so it shows the cost of the answer without any of that.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::any;
use crealeph_bench::Outcome;
use serde_json::{Map, Value};

use crate::client::{Connection, Request, block_on};

/// The first argument of the process that is the peer; the second is the folder with its answers.
pub(crate) const MODE: &str = "serve-bare";
const ANSWERS: &str = "bare-answers.json";

pub(crate) struct BareServer {
    child: Child,
    address: SocketAddr,
}

impl BareServer {
    /// Asks our own server each request once, and starts a server that answers the same.
    pub(crate) fn start(folder: &Path, requests: &[Request], own: SocketAddr) -> Outcome<BareServer> {
        let mut answers = Map::new();
        for request in requests {
            let body = block_on(async { Connection::open(own).await?.ask(&request.bytes).await })?;
            answers.insert(request.path.clone(), Value::String(String::from_utf8(body)?));
        }
        std::fs::write(folder.join(ANSWERS), Value::Object(answers).to_string())?;
        let mut child =
            Command::new(std::env::current_exe()?).arg(MODE).arg(folder).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(BareServer { child, address: line.trim().parse()? })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process that is the peer.
pub(crate) fn serve(folder: &Path) -> Outcome<()> {
    let answers: Map<String, Value> = serde_json::from_str(&std::fs::read_to_string(folder.join(ANSWERS))?)?;
    let mut router = Router::new();
    for (path, answer) in answers {
        let answer = Bytes::from(answer.as_str().ok_or("an answer is no text")?.to_owned());
        let handler = move |body: Bytes| {
            drop(body);
            let answer = answer.clone();
            async move { ([(CONTENT_TYPE, "application/json")], answer) }
        };
        router = router.route(&path, any(handler));
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        Ok(axum::serve(listener, router).await?)
    })
}
