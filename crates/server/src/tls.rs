//! The server's TLS: certificate and key from two PEM files, reloaded when they change. A pair that cannot be used is
//! logged, and the previous one stays. TLS 1.2 and 1.3, only HTTP/1.1.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::timeout;

/// How often the files are looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The first byte of a TLS handshake.
pub(crate) const HANDSHAKE: u8 = 22;

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that lead to its authority, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is longer than any certificate or key.
    #[error("`{}` is longer than the limit of {MAX_FILE_BYTES} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file holds something else.
    #[error("`{}` has no {what}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why it does not.
        reason: String,
    },
    /// Others can read the key.
    #[error("the key `{}` can be read by others (mode {mode:04o})", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The key is another certificate's, or of a kind that is not known.
    #[error("the certificate and its key cannot be used together: {0}")]
    Mismatch(rustls::Error),
}

/// What distinguishes one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp(u64, u64, u64, i64, i64);

/// The pair that is in use.
#[derive(Debug)]
struct CurrentPair(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentPair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The server's side of TLS.
#[derive(Debug)]
pub(crate) struct ServerTls {
    files: TlsFiles,
    pair: Arc<CurrentPair>,
    provider: Arc<CryptoProvider>,
    stamps: [Option<FileStamp>; 2],
    pub config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Reads the files.
    pub(crate) fn load(files: TlsFiles) -> Result<ServerTls, TlsError> {
        let provider = Arc::new(default_provider());
        let stamps = files.stamps();
        let pair = Arc::new(CurrentPair(RwLock::new(Arc::new(files.read(&provider)?))));
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Mismatch)?;
        let mut config =
            config.with_no_client_auth().with_cert_resolver(Arc::clone(&pair) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(ServerTls { files, pair, provider, stamps, config: Arc::new(config) })
    }

    /// Reads the files again when they have changed, until the server stops.
    pub(crate) async fn reload(mut self, mut stopping: watch::Receiver<bool>) {
        while timeout(LOOK_AGAIN, stopping.wait_for(|stops| *stops)).await.is_err() {
            self.look();
        }
    }

    /// Takes the files if they have changed and can be used. A pair that cannot is tried again when it changes again.
    fn look(&mut self) {
        let stamps = self.files.stamps();
        if stamps == self.stamps {
            return;
        }
        self.stamps = stamps;
        match self.files.read(&self.provider) {
            Ok(pair) => {
                *self.pair.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                tracing::info!("loaded the new certificate `{}`", self.files.certificate.display());
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let cause = cause.as_deref().unwrap_or_default();
                tracing::error!(
                    "the certificate stays as it was, because the new files cannot be used: {error}{cause}"
                );
            }
        }
    }
}

impl TlsFiles {
    fn stamps(&self) -> [Option<FileStamp>; 2] {
        let stamp =
            |file: Metadata| FileStamp(file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        [&self.certificate, &self.key].map(|path| std::fs::metadata(path).ok().map(stamp))
    }

    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let (bytes, _) = read_file(&self.certificate)?;
        let unusable = |path: &Path, what, reason: &dyn std::fmt::Display| TlsError::Unusable {
            path: path.to_owned(),
            what,
            reason: reason.to_string(),
        };
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let chain = chain.map_err(|error| unusable(&self.certificate, "certificate", &error))?;
        if chain.is_empty() {
            return Err(unusable(&self.certificate, "certificate", &"it has no PEM section of one"));
        }
        let (bytes, metadata) = read_file(&self.key)?;
        if is_open(&metadata) {
            let mode = metadata.mode() & 0o7777;
            return Err(TlsError::Open { path: self.key.clone(), mode });
        }
        let key = PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|error| unusable(&self.key, "private key", &error))?;
        CertifiedKey::from_der(chain, key, provider).map_err(TlsError::Mismatch)
    }
}

/// Whether others than its owner can read a key: no one at all may if it is ours, and a group may if it is another user's, as
/// root's are that a group may read.
fn is_open(key: &Metadata) -> bool {
    let is_ours = key.uid() == rustix::process::geteuid().as_raw();
    key.mode() & if is_ours { 0o077 } else { 0o007 } != 0
}

fn read_file(path: &Path) -> Result<(Vec<u8>, Metadata), TlsError> {
    let unreadable = |source| TlsError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 <= MAX_FILE_BYTES {
        true => Ok((bytes, metadata)),
        false => Err(TlsError::TooLarge { path: path.to_owned() }),
    }
}
