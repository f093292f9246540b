//! Fills in what a connection URL leaves out, as every PostgreSQL client does: from the service file (`service=` in the URL, or
//! PGSERVICE), the environment (PGHOST, PGPORT, PGUSER, PGDATABASE, PGPASSWORD, PGSSLMODE, PGSSLROOTCERT), and for the password
//! the file `.pgpass`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The largest service or password file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The socket of Debian's server on this machine.
const SOCKET: &str = "/var/run/postgresql";
/// The folder of the system's services, unless PGSYSCONFDIR is set.
const SYSTEM_SERVICES: &str = "/etc/postgresql-common";

/// The value of an environment variable, by its name.
type Variable = dyn Fn(&str) -> Option<String>;

/// The environment, as this module reads it.
pub(super) struct Parameters {
    variable: Box<Variable>,
}

impl Parameters {
    pub(super) fn of_this_process() -> Parameters {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Parameters { variable: Box::new(variable) }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name)
    }

    /// A file in the home folder, unless a variable names another.
    fn file(&self, variable: &str, name: &str) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from);
        named.or_else(|| self.variable("HOME").map(|home| Path::new(&home).join(name)))
    }

    /// The parameters of a service: of the one that the URL names, else of PGSERVICE.
    pub(super) fn service(&self, named: Option<&str>) -> Result<BTreeMap<String, String>, String> {
        let Some(service) = named.map(str::to_owned).or_else(|| self.variable("PGSERVICE")) else {
            return Ok(BTreeMap::new());
        };
        let system = self.variable("PGSYSCONFDIR").unwrap_or_else(|| SYSTEM_SERVICES.to_owned());
        let system = Path::new(&system).join("pg_service.conf");
        for file in self.file("PGSERVICEFILE", ".pg_service.conf").into_iter().chain([system]) {
            if let Some(text) = read(&file)?
                && let Some(found) = section(&text, &service)
            {
                return Ok(found);
            }
        }
        Err(format!(
            "there is no service `{service}`; add it to ~/.pg_service.conf, or name the host in the URL"
        ))
    }

    /// One parameter by its name in a service, or its variable.
    pub(super) fn get(
        &self,
        service: &BTreeMap<String, String>,
        name: &str,
        variable: &str,
    ) -> Option<String> {
        service.get(name).cloned().or_else(|| self.variable(variable))
    }

    /// Fills in what the URL leaves out.
    pub(super) fn complete(
        &self,
        config: &mut Config,
        service: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host(self.get(service, "host", "PGHOST").unwrap_or_else(|| SOCKET.to_owned()));
        }
        if config.get_ports().is_empty()
            && let Some(port) = self.get(service, "port", "PGPORT")
        {
            config.port(port.parse().map_err(|_| format!("`{port}` is not a port; check PGPORT"))?);
        }
        if config.get_user().is_none()
            && let Some(user) = self.get(service, "user", "PGUSER").or_else(|| self.variable("USER"))
        {
            config.user(user);
        }
        if config.get_dbname().is_none()
            && let Some(database) = self.get(service, "dbname", "PGDATABASE")
        {
            config.dbname(database);
        }
        if config.get_password().is_none() {
            let password = self.get(service, "password", "PGPASSWORD");
            if let Some(password) =
                password.map_or_else(|| self.kept_password(config), |password| Ok(Some(password)))?
            {
                config.password(password);
            }
        }
        Ok(())
    }

    /// The password that `.pgpass` has for this connection.
    fn kept_password(&self, config: &Config) -> Result<Option<String>, String> {
        let Some(file) = self.file("PGPASSFILE", ".pgpass") else { return Ok(None) };
        let Some(text) = read(&file)? else { return Ok(None) };
        let is_open = std::fs::metadata(&file).is_ok_and(|file| file.mode() & 0o077 != 0);
        if is_open {
            return Err(format!(
                "others can read the passwords in `{}`; run `chmod 600` on it",
                file.display()
            ));
        }
        let hosts: Vec<String> = match config.get_hosts().first() {
            // A socket of this machine is `localhost` in the file, or its folder.
            Some(Host::Unix(path)) => vec!["localhost".to_owned(), path.display().to_string()],
            Some(Host::Tcp(name)) => vec![name.clone()],
            None => vec!["localhost".to_owned()],
        };
        let user = config.get_user().unwrap_or_default();
        let wanted = [
            hosts,
            vec![config.get_ports().first().copied().unwrap_or(5432).to_string()],
            vec![config.get_dbname().unwrap_or(user).to_owned()],
            vec![user.to_owned()],
        ];
        Ok(text.lines().find_map(|line| password_for(line, &wanted)))
    }
}

/// The last field of a line whose other fields match; `*` matches anything.
fn password_for(line: &str, wanted: &[Vec<String>; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(letters.next()),
            other => fields.last_mut()?.push(other),
        }
    }
    let password = (fields.len() == 5).then(|| fields.pop())??;
    let fits = fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || wanted.contains(field));
    fits.then_some(password)
}

/// The parameters of one section of a service file.
fn section(text: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != format!("[{name}]"));
    lines.next()?;
    let lines = lines.take_while(|line| !line.starts_with('['));
    let pairs = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    Some(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

fn read(file: &Path) -> Result<Option<String>, String> {
    let mut text = String::new();
    match File::open(file).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)) {
        Ok(bytes) if bytes as u64 > MAX_FILE_BYTES => {
            Err(format!("`{}` is longer than the limit of {MAX_FILE_BYTES} bytes", file.display()))
        }
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("`{}` cannot be read: {error}", file.display())),
    }
}

#[cfg(test)]
impl Parameters {
    /// An environment of a test's own.
    pub(super) fn of(variables: &[(&str, &str)]) -> Parameters {
        let variables: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Parameters { variable: Box::new(move |name| variables.get(name).cloned()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::tls;
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn config(url: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        tls::read(url, &Parameters::of(variables)).map(|(config, _)| config)
    }

    fn password(config: &Config) -> String {
        String::from_utf8(config.get_password().unwrap_or_default().to_vec()).unwrap()
    }

    #[test]
    fn settings_missing_in_the_url_come_from_the_usual_places() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let write = |name: &str, text: &str| {
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write(
            ".pg_service.conf",
            "# services\n[a]\nhost=localhost\nport = 5433\nuser=ann\ndbname=books\n[b]\nhost=/run\n",
        );
        write(".pgpass", "#c\nlocalhost:5433:books:ann:pa\\:ss\n*:*:*:bob:any\n/run:5432:*:cid:socket\n");
        let home_text = home.path().display().to_string();
        let at_home = ("HOME", home_text.as_str());
        let by_service = config("postgres://", &[at_home, ("PGSERVICE", "a")]).unwrap();
        assert_eq!((by_service.get_user(), by_service.get_dbname()), (Some("ann"), Some("books")));
        assert_eq!((by_service.get_ports(), password(&by_service).as_str()), (&[5433][..], "pa:ss"));
        let by_url = config("postgres://bob@127.0.0.1/x?service=a", &[at_home]).unwrap();
        assert_eq!((by_url.get_user(), by_url.get_dbname()), (Some("bob"), Some("x")), "the URL comes first");
        assert_eq!(password(&by_url), "any");
        let on_socket = config("postgres:///x?service=b&user=cid", &[at_home]).unwrap();
        assert_eq!(password(&on_socket), "socket");
        let by_variables = [at_home, ("PGHOST", "localhost"), ("PGUSER", "eve"), ("PGPASSWORD", "env")];
        assert_eq!(password(&config("postgres:///x", &by_variables).unwrap()), "env");
        assert_eq!(password(&config("postgres://eve:own@localhost/x", &by_variables).unwrap()), "own");
        assert!(config("postgres:///x?service=c", &[at_home]).unwrap_err().contains("`c`"));
        std::fs::set_permissions(path(".pgpass"), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(config("postgres://bob@localhost/x", &[at_home]).unwrap_err().contains("chmod 600"));
        let too_long = "# no password\n".repeat(MAX_FILE_BYTES as usize / 14 + 1);
        for (file, url) in
            [(".pgpass", "postgres://bob@localhost/x"), (".pg_service.conf", "postgres:///x?service=a")]
        {
            write(file, &too_long);
            let said = config(url, &[at_home]).unwrap_err();
            assert!(said.contains(file) && said.contains("longer than the limit"), "{said}");
        }
    }
}
