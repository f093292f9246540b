//! A PostgreSQL server of the tests' own: from Debian's package, in a temporary folder, reached through a socket there, run
//! as another user if the tests run as root (it refuses root), and stopped when it is dropped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, NoTls, Row};

/// Where Debian puts the versions of PostgreSQL.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The user that Debian's package creates.
const USER: &str = "postgres";

pub struct Server {
    folder: tempfile::TempDir,
    programs: PathBuf,
    process: Option<Child>,
    databases: AtomicUsize,
    is_durable: bool,
    /// The port at which it is reached over the network, if it is.
    port: Option<u16>,
    is_encrypted: bool,
}

impl Server {
    /// Creates a new cluster and starts it. It waits for no disk, for tests that kill nothing.
    pub fn start() -> Server {
        Server::start_with(false, None)
    }

    /// Creates a new cluster with production settings, and starts it.
    pub fn start_durable() -> Server {
        Server::start_with(true, None)
    }

    /// Creates a new cluster that is reached at 127.0.0.1 as well, encrypted, with a certificate for that address signed by
    /// the authority in [`Server::authority`].
    pub fn start_encrypted() -> Server {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Server::start_with(false, Some(free))
    }

    /// Starts it again as a server that encrypts nothing.
    pub fn stop_encrypting(&mut self) {
        self.is_encrypted = false;
        self.kill();
        self.run();
    }

    /// The certificate to trust.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// The database over the network.
    pub fn network_url(&self, host: &str, database: &str, options: &str) -> String {
        format!("postgres://postgres@{host}:{}/{database}?{options}", self.port.unwrap())
    }

    fn make_certificates(&self) {
        make_authority(&self.authority(), &self.folder.path().join("authority.key"));
        let script = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server \
             -keyout server.key -out server.csr && \
             printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' > server.ext && \
             openssl x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \
             -extfile server.ext -out server.pem && chmod 600 server.key";
        let made = Command::new("sh").args(["-c", script]).current_dir(self.folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        if is_root() {
            let key = self.folder.path().join("server.key");
            assert!(Command::new("chown").arg(USER).arg(key).status().unwrap().success());
        }
    }

    fn start_with(is_durable: bool, port: Option<u16>) -> Server {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().unwrap();
        let server = Server {
            folder,
            programs: programs(),
            process: None,
            databases: AtomicUsize::new(0),
            is_durable,
            port,
            is_encrypted: port.is_some(),
        };
        if is_root() {
            let owned = Command::new("chown").arg(USER).arg(server.folder.path()).status().unwrap();
            assert!(owned.success());
        }
        let mut initdb = server.program("initdb");
        initdb.args([
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
            "--username=postgres",
            "-D",
        ]);
        let made = initdb.arg(server.data()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        if port.is_some() {
            server.make_certificates();
        }
        let mut server = server;
        server.run();
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The path of a program of this version of PostgreSQL.
    pub fn program_path(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Starts the server, also after a kill, and waits until it answers.
    pub fn run(&mut self) {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path());
        let mut settings = vec!["max_connections=300".to_owned(), "log_min_messages=fatal".to_owned()];
        // Small, so that starting again after a kill is quick.
        settings.extend(["shared_buffers=16MB", "autovacuum=off"].map(str::to_owned));
        match self.port {
            None => settings.push("listen_addresses=".to_owned()),
            Some(port) => {
                let file = |name: &str| self.folder.path().join(name).display().to_string();
                let ssl = if self.is_encrypted { "ssl=on" } else { "ssl=off" };
                settings.extend(["listen_addresses=127.0.0.1", ssl].map(str::to_owned));
                settings.push(format!("port={port}"));
                settings.push(format!("ssl_cert_file={}", file("server.pem")));
                settings.push(format!("ssl_key_file={}", file("server.key")));
            }
        }
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        if !self.is_durable {
            command.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
        }
        self.process = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        for _ in 0..3_000 {
            if self.try_connect("postgres").is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server does not answer: {}", fs::read_to_string(self.folder.path().join("log")).unwrap());
    }

    /// Ends the server as a power failure would, without any message.
    pub fn kill(&mut self) {
        self.signal("-KILL");
        // The other processes of a killed server end by themselves; a new one refuses to start before that.
        for _ in 0..3_000 {
            if !self.has_processes() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
    }

    fn signal(&mut self, signal: &str) {
        let Some(mut process) = self.process.take() else { return };
        #[expect(clippy::disallowed_methods, reason = "a server that never started has no file")]
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        if let Some(pid) = text.lines().next() {
            let _ = Command::new("kill").args([signal, pid]).status();
        }
        let _ = process.wait();
    }

    /// Whether any process works in the cluster's folder.
    fn has_processes(&self) -> bool {
        let data = self.data();
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|folder| folder == data))
    }

    fn try_connect(&self, database: &str) -> Option<Client> {
        Client::connect(&self.url(database)).ok()
    }

    /// A connection as the superuser, who owns everything.
    pub fn superuser(&self, database: &str) -> Client {
        self.try_connect(database).unwrap()
    }

    pub fn url(&self, database: &str) -> String {
        let socket = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{socket}:{}/{database}", self.port.unwrap_or(5432))
    }

    /// A new, empty database.
    pub fn database(&self) -> String {
        let name = format!("case{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.superuser("postgres").batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        name
    }
}

/// A connection that blocks. When it is dropped, the server has let it go.
pub struct Client {
    runtime: Runtime,
    client: Option<tokio_postgres::Client>,
    connection: Option<JoinHandle<Result<(), Error>>>,
}

type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Client {
    pub fn connect(url: &str) -> Result<Client, Error> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls))?;
        let connection = runtime.spawn(connection);
        Ok(Client { runtime, client: Some(client), connection: Some(connection) })
    }

    fn client(&self) -> &tokio_postgres::Client {
        self.client.as_ref().unwrap()
    }

    pub fn batch_execute(&mut self, sql: &str) -> Result<(), Error> {
        self.runtime.block_on(self.client().batch_execute(sql))
    }

    pub fn execute(&mut self, sql: &str, values: Values<'_>) -> Result<u64, Error> {
        self.runtime.block_on(self.client().execute(sql, values))
    }

    pub fn query(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Error> {
        self.runtime.block_on(self.client().query(sql, values))
    }

    pub fn query_one(&mut self, sql: &str, values: Values<'_>) -> Result<Row, Error> {
        self.runtime.block_on(self.client().query_one(sql, values))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.client = None;
        if let Some(connection) = self.connection.take() {
            let _ = self.runtime.block_on(connection);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data is no longer needed, so it need not be flushed first.
        self.signal("-QUIT");
    }
}

/// Creates a certificate that can sign others, and its key.
pub fn make_authority(certificate: &Path, key: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-days", "2", "-subj", "/CN=authority", "-keyout"]).arg(key).arg("-out").arg(certificate);
    let made = openssl.output().expect("install Debian's package `openssl`");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The newest version installed.
fn programs() -> PathBuf {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(VERSIONS)
        .expect("install Debian's package `postgresql`")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((path.file_name()?.to_str()?.parse().ok()?, path.join("bin")))
        })
        .collect();
    versions.sort();
    versions.pop().expect("install Debian's package `postgresql`").1
}

fn is_root() -> bool {
    fs::metadata(Path::new("/proc/self")).is_ok_and(|own| own.uid() == 0)
}
