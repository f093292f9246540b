//! A receiver of webhooks with TLS and a certificate of an authority of the test's own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One delivery as it came.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Delivery {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers)).1
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Whether the signature is the secret's, as openssl computes it.
    pub(crate) fn is_signed_by(&self, secret: &str) -> bool {
        let signed =
            format!("{}.{}.{}", self.header("webhook-id"), self.header("webhook-timestamp"), self.body);
        let script = format!(
            "key=$(printf %s '{}' | base64 -d | od -An -v -tx1 | tr -d ' \n'); \
             openssl dgst -sha256 -mac HMAC -macopt hexkey:$key -binary | base64",
            secret.strip_prefix("whsec_").unwrap()
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(signed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let computed = String::from_utf8(output.stdout).unwrap();
        self.header("webhook-signature") == format!("v1,{}", computed.trim())
    }
}

/// The answer to a delivery: its head after `HTTP/1.1 `, and its body.
pub(crate) type Answer = (String, Vec<u8>);

/// An answer that takes it.
pub(crate) fn taken() -> Answer {
    ("204 No Content\r\n".to_owned(), Vec::new())
}

type Deliveries = Arc<Mutex<Vec<Delivery>>>;

/// A receiver; its thread ends with the test.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    deliveries: Deliveries,
}

impl Receiver {
    /// Listens on a port, or a free one, and answers as configured; the answer is asked for before the delivery counts.
    pub(crate) fn start(
        folder: &Path,
        port: u16,
        answer: impl Fn(&Delivery) -> Answer + Send + Sync + 'static,
    ) -> Receiver {
        let config = Arc::new(tls(folder));
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (deliveries, answer) = (Deliveries::default(), Arc::new(answer));
        let taken = Arc::clone(&deliveries);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, taken, answer) = (Arc::clone(&config), Arc::clone(&taken), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), config, &taken, &*answer));
            }
        });
        Receiver { port, deliveries }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/hook", self.port)
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap().clone()
    }

    /// Waits until the deliveries are as wanted.
    pub(crate) fn wait(&self, is_done: impl Fn(&[Delivery]) -> bool) -> Vec<Delivery> {
        until("the deliveries to arrive", || is_done(&self.deliveries()));
        self.deliveries()
    }
}

/// Waits for a condition.
pub(crate) fn until(what: &str, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < PATIENCE, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that no one listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Makes the authority and its certificate for `localhost` in a folder: `ca.pem`, `leaf.pem`, `leaf.key`.
pub(crate) fn make_certificates(folder: &Path) {
    let script = "set -e; new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'; \
        openssl req -x509 $new -days 2 -subj /CN=authority -keyout ca.key -out ca.pem; \
        openssl req $new -subj /CN=receiver -keyout leaf.key -out leaf.csr; \
        printf 'subjectAltName=DNS:localhost' > leaf.ext; \
        openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile leaf.ext -out leaf.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn tls(folder: &Path) -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(folder.join("leaf.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("leaf.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
}

/// Answers one request; a client that is gone is no fault.
fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    deliveries: &Mutex<Vec<Delivery>>,
    answer: &dyn Fn(&Delivery) -> Answer,
) {
    let connection = ServerConnection::new(config).unwrap();
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let mut headers = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        line.clear();
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse());
    let Some(Ok(length)) = length else { return };
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let delivery = Delivery { headers, body: String::from_utf8(body).unwrap() };
    let (head, body) = answer(&delivery);
    let is_taken = head.starts_with('2');
    let head = format!("HTTP/1.1 {head}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    if is_taken {
        deliveries.lock().unwrap().push(delivery);
    }
    let stream = reader.get_mut();
    if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_ok() {
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
}
