//! The agents of `crealeph.toml`: each table `[agents."planner@1"]` becomes checked settings, and those become agents.
//! Refuses a table with an unknown key. What the machine lacks (a secret, a program) is found out
//! when the agent is called, so that it affects only that agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crealeph_contracts::agent_input::ArtifactType;
use crealeph_contracts::scalar::Version;
use crealeph_contracts::shape::nearest;
use crealeph_sandbox::{Config, Host, Preset, Sandbox, SandboxError};
use toml::Value;
use ureq::http::{HeaderName, HeaderValue, Uri};

use super::{Agent, Agents, ExampleAgent, Http, OpenAi, Process};
use crate::configuration::{ConfigError, Configuration, Table, Wrong, absolute, read_text};

const MAX_AGENTS: usize = 256;
const MAX_LISTED: usize = 64;
const HOUR_MS: u64 = 60 * 60 * 1000;

const KINDS: &[&str] = &["process", "http", "openai", "example"];

/// What every kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) timeout_ms: u64,
    pub(super) max_output_bytes: u64,
    pub(super) max_diagnostics_bytes: u64,
}

/// A program that answers on standard output.
#[derive(Clone, Debug)]
pub(super) struct ProcessSettings {
    /// Program and arguments, as written.
    pub(super) command: Vec<String>,
    /// The folder that relative paths start from.
    pub(super) folder: PathBuf,
    pub(super) bounds: Bounds,
    pub(super) read: Vec<PathBuf>,
    pub(super) presets: Vec<Preset>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) secrets: Vec<String>,
    pub(super) secret_files: BTreeMap<String, PathBuf>,
    pub(super) hosts: Vec<Host>,
    pub(super) accepts_reduced: bool,
    pub(super) memory_bytes: u64,
    pub(super) processes: u32,
}

/// A server that answers a POST.
#[derive(Clone, Debug)]
pub(super) struct HttpSettings {
    pub(super) url: String,
    pub(super) via: Via,
    pub(super) bounds: Bounds,
}

/// How a server is called.
#[derive(Clone, Debug, Default)]
pub(super) struct Via {
    pub(super) headers: BTreeMap<String, String>,
    pub(super) secret_headers: BTreeMap<String, SecretHeader>,
    /// The CA certificates that its own is checked against, in place of the public ones.
    pub(super) ca_file: Option<PathBuf>,
}

/// A model behind an OpenAI-compatible endpoint.
#[derive(Clone, Debug)]
pub(super) struct OpenAiSettings {
    pub(super) base_url: String,
    pub(super) model: String,
    pub(super) instructions: Option<String>,
    pub(super) via: Via,
    /// A JSON Schema by artifact type.
    pub(super) schemas: BTreeMap<String, serde_json::Value>,
    pub(super) max_enum_values: u64,
    pub(super) max_schema_bytes: u64,
    pub(super) bounds: Bounds,
}

/// The value of a header that must not show.
#[derive(Clone, Debug)]
pub(super) struct SecretHeader {
    pub(super) prefix: String,
    pub(super) from: SecretSource,
}

/// Where a secret is kept; it is read when it is needed.
#[derive(Clone, Debug)]
pub(super) enum SecretSource {
    /// In a variable of our environment.
    Variable(String),
    /// In a file, without the line end at its end.
    File(PathBuf),
}

#[derive(Clone, Debug)]
enum Settings {
    Http(HttpSettings),
    OpenAi(Box<OpenAiSettings>),
    Process(Box<ProcessSettings>),
    Example(Bounds),
}

/// Reads the agents of a configuration. `state_dir` is where sandboxes keep what they need while they run.
///
/// # Errors
/// When one of them is not understood.
pub fn load(configuration: &Configuration, state_dir: &Path) -> Result<Agents, ConfigError> {
    let refused = |agent: &str, why: Wrong| ConfigError::Agent {
        path: configuration.path().to_owned(),
        agent: agent.to_owned(),
        why,
    };
    let Some(tables) = configuration.section("agents")? else { return Ok(Agents::default()) };
    if tables.len() > MAX_AGENTS {
        return Err(refused("*", format!("there are more than {MAX_AGENTS}; split them")));
    }
    let mut sandboxes = Sandboxes { state_dir, full: None, reduced: None };
    let mut agents = Agents::default();
    for (name, table) in tables {
        let version = Version::parse(name)
            .map_err(|why| refused(name, format!("its name is not a valid version: {why}")))?;
        let Value::Table(table) = table else {
            return Err(refused(name, format!("it is not a table; write `[agents.\"{name}\"]`")));
        };
        let settings = settings(table, configuration.folder()).map_err(|why| refused(name, why))?;
        let agent: Box<dyn Agent> = match settings {
            Settings::Example(bounds) => Box::new(ExampleAgent::new(version.clone(), bounds)),
            Settings::Http(settings) => Box::new(Http::new(name, settings)),
            Settings::OpenAi(settings) => Box::new(OpenAi::new(name, *settings)),
            Settings::Process(settings) => {
                let sandbox = sandboxes.get(settings.accepts_reduced).map_err(|source| {
                    ConfigError::Sandbox { path: configuration.path().to_owned(), source }
                })?;
                Box::new(Process::new(name, *settings, sandbox))
            }
        };
        let definition = serde_json::to_string(table)
            .map_err(|why| refused(name, format!("its table cannot be written as JSON: {why}")))?;
        agents.insert(version, definition, agent);
    }
    Ok(agents)
}

/// Makes an agent of a command that no configuration names, with every setting at its default; relative paths start
/// from `folder`.
///
/// # Errors
/// When there is no command or the state directory cannot be used.
pub fn from_command(command: &[String], folder: &Path, state_dir: &Path) -> Result<Process, ConfigError> {
    let here = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut table = toml::Table::new();
    table.insert("command".to_owned(), Value::Array(command.iter().cloned().map(Value::String).collect()));
    let settings = process(&Table::new(&table), &here).map_err(|why| ConfigError::Agent {
        path: here.clone(),
        agent: command.join(" "),
        why,
    })?;
    let mut sandboxes = Sandboxes { state_dir, full: None, reduced: None };
    let sandbox = sandboxes.get(false).map_err(|source| ConfigError::Sandbox { path: here, source })?;
    Ok(Process::new("command", settings, sandbox))
}

/// One sandbox for all agents of a strength, made when the first needs it.
struct Sandboxes<'p> {
    state_dir: &'p Path,
    full: Option<Arc<Sandbox>>,
    reduced: Option<Arc<Sandbox>>,
}

impl Sandboxes<'_> {
    fn get(&mut self, accepts_reduced: bool) -> Result<Arc<Sandbox>, SandboxError> {
        let place = if accepts_reduced { &mut self.reduced } else { &mut self.full };
        if let Some(sandbox) = place {
            return Ok(Arc::clone(sandbox));
        }
        let sandbox = Arc::new(Sandbox::new(Config {
            accept_reduced: accepts_reduced,
            ..Config::new(self.state_dir)
        })?);
        *place = Some(Arc::clone(&sandbox));
        Ok(sandbox)
    }
}

fn settings(table: &toml::Table, folder: &Path) -> Result<Settings, Wrong> {
    let table = Table::new(table);
    let no_kind = || table.missing("kind", &format!("`kind` is missing; it is one of {}", KINDS.join(", ")));
    let kind = table.text("kind")?.ok_or_else(no_kind)?;
    let settings = match kind {
        "process" => Settings::Process(Box::new(process(&table, folder)?)),
        "http" => Settings::Http(http(&table, folder)?),
        "openai" => Settings::OpenAi(Box::new(openai(&table, folder)?)),
        "example" => Settings::Example(bounds(&table)?),
        other => {
            return Err(match nearest(other, KINDS) {
                Some(near) => format!("the kind `{other}` is not known; did you mean `{near}`?"),
                None => format!("the kind `{other}` is not known; it is one of {}", KINDS.join(", ")),
            });
        }
    };
    table.finish()?;
    Ok(settings)
}

fn bounds(table: &Table<'_>) -> Result<Bounds, Wrong> {
    Ok(Bounds {
        timeout_ms: table.number("timeout_ms", 60_000, 1, HOUR_MS)?,
        max_output_bytes: table.number("max_output_bytes", 4 << 20, 1, 64 << 20)?,
        max_diagnostics_bytes: table.number("max_diagnostics_bytes", 64 << 10, 0, 8 << 20)?,
    })
}

fn process(table: &Table<'_>, folder: &Path) -> Result<ProcessSettings, Wrong> {
    let command: Vec<String> = table.texts("command", 4096)?.into_iter().map(str::to_owned).collect();
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        let advice = "`command` names no program; write `command = [\"python3\", \"planner.py\"]`";
        return Err(table.missing("command", advice));
    }
    let presets = table.texts("presets", MAX_LISTED)?;
    let presets = presets.into_iter().map(|name| name.parse::<Preset>().map_err(|error| error.to_string()));
    let hosts = table.texts("hosts", MAX_LISTED)?;
    let hosts = hosts.into_iter().map(|host| host.parse::<Host>().map_err(|error| error.to_string()));
    let text = |name: &str, value: &Value| {
        value.as_str().map(str::to_owned).ok_or_else(|| format!("the value of `{name}` is not a string"))
    };
    Ok(ProcessSettings {
        command,
        folder: folder.to_owned(),
        bounds: bounds(table)?,
        read: table.texts("read", MAX_LISTED)?.into_iter().map(|path| absolute(folder, path)).collect(),
        presets: presets.collect::<Result<_, _>>()?,
        env: table.entries("env", MAX_LISTED, text)?,
        secrets: table.texts("secrets", MAX_LISTED)?.into_iter().map(str::to_owned).collect(),
        secret_files: table.entries("secret_files", MAX_LISTED, |name, value| {
            text(name, value).map(|path| absolute(folder, &path))
        })?,
        hosts: hosts.collect::<Result<_, _>>()?,
        accepts_reduced: table.flag("accept_reduced")?,
        memory_bytes: table.number("memory_bytes", 2 << 30, 1 << 20, 1 << 40)?,
        processes: u32::try_from(table.number("processes", 512, 1, 1 << 16)?).unwrap_or(u32::MAX),
    })
}

fn http(table: &Table<'_>, folder: &Path) -> Result<HttpSettings, Wrong> {
    let advice = "`url` is missing; write `url = \"https://agents.example.com/plan\"`";
    let url = table.text("url")?.ok_or_else(|| table.missing("url", advice))?;
    check_url("url", url)?;
    Ok(HttpSettings { url: url.to_owned(), via: via(table, folder)?, bounds: bounds(table)? })
}

fn openai(table: &Table<'_>, folder: &Path) -> Result<OpenAiSettings, Wrong> {
    let advice = "`base_url` is missing; write `base_url = \"https://api.example.com/v1\"`";
    let url = table.text("base_url")?.ok_or_else(|| table.missing("base_url", advice))?;
    check_url("base_url", url)?;
    let no_model = || table.missing("model", "`model` is missing; name the model to ask");
    let model = table.text("model")?.ok_or_else(no_model)?;
    let mut via = via(table, folder)?;
    let keys = table.entries("key", 2, |name, value| {
        value.as_str().map(str::to_owned).ok_or_else(|| format!("the value of `{name}` is not a string"))
    })?;
    if !keys.is_empty() {
        let fields = keys.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let header = secret_header("key", &Value::Table(fields), folder)?;
        via.secret_headers
            .insert("authorization".to_owned(), SecretHeader { prefix: "Bearer ".to_owned(), ..header });
    }
    Ok(OpenAiSettings {
        base_url: url.to_owned(),
        model: model.to_owned(),
        instructions: table.text("instructions")?.map(str::to_owned),
        via,
        schemas: table.entries("schemas", MAX_LISTED, |name, value| payload_schema(name, value, folder))?,
        max_enum_values: table.number("max_enum_values", 500, 0, 100_000)?,
        max_schema_bytes: table.number("max_schema_bytes", 100_000, 0, 16 << 20)?,
        bounds: bounds(table)?,
    })
}

/// Reads the schema of an artifact type's payload.
fn payload_schema(kind: &str, value: &Value, folder: &Path) -> Result<serde_json::Value, Wrong> {
    if ArtifactType::parse(kind).is_none() {
        let known: Vec<&str> = ArtifactType::ALL.iter().map(|kind| kind.as_str()).collect();
        return Err(format!("`{kind}` is not an artifact type; they are {}", known.join(", ")));
    }
    let path = value.as_str().ok_or_else(|| format!("the schema of `{kind}` is not the path of a file"))?;
    let path = absolute(folder, path);
    let text = read_text(&path).map_err(|error| error.to_string())?;
    let text = text.ok_or_else(|| format!("there is no schema `{}`", path.display()))?;
    let schema: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| format!("the schema `{}` is not JSON: {error}", path.display()))?;
    match schema.is_object() {
        true => Ok(schema),
        false => Err(format!("the schema `{}` is not a JSON object", path.display())),
    }
}

fn via(table: &Table<'_>, folder: &Path) -> Result<Via, Wrong> {
    let headers = table.entries("headers", MAX_LISTED, |name, value| {
        let text = value.as_str().ok_or_else(|| format!("the value of `{name}` is not a string"))?;
        check_header(name, Some(text)).map(|()| text.to_owned())
    })?;
    let secret_headers = table.entries("secret_headers", MAX_LISTED, |name, value| {
        check_header(name, None)?;
        secret_header(name, value, folder)
    })?;
    let ca_file = table.text("ca_file")?.map(|path| absolute(folder, path));
    Ok(Via { headers, secret_headers, ca_file })
}

/// A URL that may be called: over TLS, or in clear to this machine alone.
fn check_url(key: &str, url: &str) -> Result<(), Wrong> {
    let uri: Uri = url.parse().map_err(|error| format!("`{key}` is not a URL: {error}"))?;
    let authority = uri.authority().ok_or_else(|| format!("`{key}` names no host; write `https://…`"))?;
    if authority.as_str().contains('@') {
        return Err(format!("`{key}` contains credentials, which would be recorded; use `secret_headers`"));
    }
    let host = authority.host().trim_matches(['[', ']']);
    let is_here =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_here => Ok(()),
        Some("http") => Err(format!("`{key}` is not encrypted; only this machine may be called without TLS")),
        _ => Err(format!("`{key}` does not start with `https://`")),
    }
}

fn check_header(name: &str, value: Option<&str>) -> Result<(), Wrong> {
    const OURS: &[&str] = &["host", "content-length", "content-type", "transfer-encoding", "connection"];
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!("`{name}` is not a header's name"));
    }
    if OURS.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("the header `{name}` is set by the call itself; remove it"));
    }
    match value.is_some_and(|value| HeaderValue::from_str(value).is_err()) {
        true => Err(format!("the value of the header `{name}` has characters that a header cannot have")),
        false => Ok(()),
    }
}

fn secret_header(name: &str, value: &Value, folder: &Path) -> Result<SecretHeader, Wrong> {
    let within = |why: Wrong| format!("the secret header `{name}`: {why}");
    let fields = value.as_table().ok_or_else(|| {
        format!("the secret header `{name}` is not a table; write `{name} = {{ env = \"TOKEN\" }}`")
    })?;
    let fields = Table::new(fields);
    let from = match (fields.text("env").map_err(within)?, fields.text("file").map_err(within)?) {
        (Some(variable), None) => SecretSource::Variable(variable.to_owned()),
        (None, Some(path)) => SecretSource::File(absolute(folder, path)),
        _ => return Err(within("it must name either `env` or `file`, not both".to_owned())),
    };
    let prefix = fields.text("prefix").map_err(within)?.unwrap_or_default().to_owned();
    check_header(name, Some(&prefix))?;
    fields.finish().map_err(within)?;
    Ok(SecretHeader { prefix, from })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects")]

    use super::*;

    fn read(text: &str) -> Result<Settings, Wrong> {
        settings(&text.parse().unwrap(), Path::new("/project"))
    }

    #[test]
    fn a_process_is_read_with_paths_from_its_file() {
        let text = "kind = 'process'\ncommand = ['python3', 'planner.py']\nread = ['lib', '../shared/./x']\n\
                    timeout_ms = 5000\nhosts = ['api.example.com:443']\nsecret_files = { TOKEN = 'token' }";
        let Settings::Process(process) = read(text).unwrap() else { panic!("a process") };
        assert_eq!(process.read, [PathBuf::from("/project/lib"), PathBuf::from("/shared/x")]);
        assert_eq!(process.bounds.timeout_ms, 5000);
        assert_eq!(process.bounds.max_output_bytes, 4 << 20);
        assert_eq!(process.secret_files.get("TOKEN").unwrap(), Path::new("/project/token"));
        assert!(!process.accepts_reduced);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_to_do() {
        let cases = [
            ("command = ['a']", "`kind` is missing"),
            ("kind = 'proces'\ncommand = ['a']", "did you mean `process`?"),
            ("kind = 'telepathy'", "the kind `telepathy` is not known; it is one of process"),
            ("kind = 'process'", "`command` names no program"),
            (
                "kind = 'process'\ncomand = ['a']",
                "the key `comand` is not known here; did you mean `command`?",
            ),
            ("knid = 'process'\ncommand = ['a']", "the key `knid` is not known here; did you mean `kind`?"),
            ("kind = 'http'\nurll = 'https://a.b'", "did you mean `url`?"),
            ("kind = 'process'\ncommand = ['']", "`command` names no program"),
            ("kind = 'process'\ncommand = 'a'", "`command` is not a list of strings"),
            ("kind = 'process'\ncommand = ['a', 1]", "`command` is not a list of strings"),
            (
                "kind = 'process'\ncommand = ['a']\ntimeout = 1",
                "the key `timeout` is not known here; did you mean `timeout_ms`?",
            ),
            (
                "kind = 'process'\ncommand = ['a']\nzzz = 1",
                "the key `zzz` is not known here; known are kind, command",
            ),
            (
                "kind = 'process'\ncommand = ['a']\ntimeout_ms = 0",
                "`timeout_ms` is not a whole number from 1 to 3600000",
            ),
            ("kind = 'process'\ncommand = ['a']\ntimeout_ms = '1'", "`timeout_ms` is not a whole number"),
            ("kind = 'process'\ncommand = ['a']\nhosts = ['nowhere']", "`nowhere` is not a host and port"),
            ("kind = 'process'\ncommand = ['a']\npresets = ['cobol']", "`cobol` is not a preset"),
            ("kind = 'process'\ncommand = ['a']\nenv = { A = 1 }", "the value of `A` is not a string"),
            (
                "kind = 'process'\ncommand = ['a']\naccept_reduced = 'yes'",
                "`accept_reduced` is not `true` or `false`",
            ),
            ("kind = 'http'", "`url` is missing"),
            (
                "kind = 'http'\nurl = 'http://agents.example.com'",
                "only this machine may be called without TLS",
            ),
            ("kind = 'http'\nurl = 'ftp://agents.example.com'", "does not start with `https://`"),
            ("kind = 'http'\nurl = '/plan'", "names no host"),
            ("kind = 'http'\nurl = 'https://me:word@example.com'", "contains credentials"),
            ("kind = 'http'\nurl = 'https://a.b'\nheaders = { Host = 'x' }", "is set by the call itself"),
            ("kind = 'http'\nurl = 'https://a.b'\nheaders = { 'a b' = 'x' }", "`a b` is not a header's name"),
            (
                "kind = 'http'\nurl = 'https://a.b'\nheaders = { a = \"x\\n\" }",
                "characters that a header cannot have",
            ),
            ("kind = 'http'\nurl = 'https://a.b'\nsecret_headers = { A = 'x' }", "is not a table"),
            ("kind = 'http'\nurl = 'https://a.b'\nsecret_headers = { A = {} }", "either `env` or `file`"),
            (
                "kind = 'http'\nurl = 'https://a.b'\nsecret_headers = { A = { env = 'X', pre = 'y' } }",
                "the secret header `A`: the key `pre`",
            ),
            ("kind = 'openai'", "`base_url` is missing"),
            ("kind = 'openai'\nbase_url = 'https://a.b'", "`model` is missing"),
            (
                "kind = 'openai'\nbase_url = 'https://a.b'\nmodel = 'm'\nkey = { envv = 'K' }",
                "either `env` or `file`",
            ),
            (
                "kind = 'openai'\nbase_url = 'https://a.b'\nmodel = 'm'\nschemas = { novel = 'n.json' }",
                "`novel` is not an artifact type",
            ),
            (
                "kind = 'openai'\nbase_url = 'https://a.b'\nmodel = 'm'\nschemas = { copy = 'n.json' }",
                "there is no schema `/project/n.json`",
            ),
            ("kind = 'example'\ncommand = ['a']", "the key `command` is not known here"),
        ];
        for (text, expected) in cases {
            let why = read(text).err().unwrap_or_default();
            assert!(why.contains(expected), "{text}\n{why}");
        }
    }
}
