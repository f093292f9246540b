//! A git repository, a configuration with a preset, and the model it talks to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::model::{Model, Turn};

const KEY: &str = "sk-test-of-the-suite";

pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) model: Model,
    agent: &'static str,
    table: String,
}

impl Scene {
    pub(crate) fn claude(turns: impl Fn(usize) -> Turn + Send + Sync + 'static) -> Scene {
        Scene::new("claude", turns, |address| {
            format!(
                "env = {{ ANTHROPIC_BASE_URL = \"http://{address}\" }}\nsecrets = [\"ANTHROPIC_API_KEY\"]\n"
            )
        })
    }

    pub(crate) fn codex(turns: impl Fn(usize) -> Turn + Send + Sync + 'static) -> Scene {
        let scene = Scene::new("codex", turns, |_| "secrets = [\"OPENAI_API_KEY\"]\n".to_owned());
        // Codex finds its model in its configuration, which is one of the files that its home is seeded with.
        let config = format!(
            "model = \"test-model\"\nmodel_provider = \"test\"\n[model_providers.test]\nname = \"test\"\n\
             base_url = \"http://{}/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n",
            scene.model.address()
        );
        let home = scene.home().join(".codex");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("config.toml"), config).unwrap();
        scene
    }

    fn new(
        agent: &'static str,
        turns: impl Fn(usize) -> Turn + Send + Sync + 'static,
        more: impl FnOnce(&str) -> String,
    ) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let model = Model::start(turns);
        let address = model.address();
        let table = format!(
            "[work.agents.{agent}]\npreset = \"{agent}\"\nagent_id = \"agent-3\"\nnetwork = [\"{address}\"]\n{}",
            more(&address)
        );
        let scene = Scene { folder, model, agent, table };
        fs::create_dir_all(scene.at(".github")).unwrap();
        fs::create_dir_all(scene.home()).unwrap();
        fs::write(scene.at("kept.txt"), "kept\n").unwrap();
        fs::write(scene.at(".github/ci.yml"), "on: tag\n").unwrap();
        scene.configure("");
        scene.git(&["init", "-q"]);
        scene.git(&["add", "-A"]);
        scene.git(&["commit", "-qm", "start"]);
        scene
    }

    /// Adds to the agent's table.
    pub(crate) fn configure(&self, more: &str) {
        fs::create_dir_all(self.at("")).unwrap();
        fs::write(self.at("crealeph.toml"), format!("{}{more}\n", self.table)).unwrap();
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("workspace").join(path)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn git(&self, arguments: &[&str]) {
        let ran = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(arguments)
            .current_dir(self.at(""))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    /// Everything that is not `.git` or `.crealeph`, by path.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.at("")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let is_own = entry.file_name() == ".git" || entry.file_name() == ".crealeph";
                // The configuration is the test's own, and may differ between two looks.
                let is_own = is_own || entry.file_name() == "crealeph.toml";
                match entry.file_type().unwrap().is_dir() {
                    _ if is_own => {}
                    true => folders.push(entry.path()),
                    false => drop(files.insert(entry.path(), fs::read(entry.path()).unwrap())),
                }
            }
        }
        files
    }

    pub(crate) fn crealeph(&self, arguments: &[&str]) -> Output {
        self.started(arguments, &[])
    }

    fn started(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap());
        Command::new(env!("CARGO_BIN_EXE_crealeph"))
            .args(arguments)
            .current_dir(self.at(""))
            .env("PATH", path)
            .env("HOME", self.home())
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("CREALEPH_TRUST", "1")
            .env("ANTHROPIC_API_KEY", KEY)
            .env("OPENAI_API_KEY", KEY)
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    /// Gives the agent a task, and returns the RunResult.
    pub(crate) fn run(&self, task: &str, arguments: &[&str]) -> Value {
        self.run_with(task, arguments, &[])
    }

    pub(crate) fn run_with(&self, task: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Value {
        let arguments = [&["work", "run", "--json", "--agent", self.agent, task], arguments].concat();
        let ran = self.started(&arguments, variables);
        let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        let line = stdout.lines().last().unwrap_or_else(|| panic!("nothing was printed: {stderr}"));
        serde_json::from_str(line).unwrap_or_else(|_| panic!("{stdout}{stderr}"))
    }

    pub(crate) fn receipt(&self, result: &Value) -> Value {
        let path = Path::new(result["receipt_path"].as_str().unwrap());
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    pub(crate) fn connected_to_the_model_alone(&self, receipt: &Value) {
        let connections = receipt["connections"].as_array().unwrap();
        let made = connections.iter().filter(|one| one["allowed"] == true);
        let made: Vec<&str> = made.map(|one| one["host"].as_str().unwrap()).collect();
        assert!(!made.is_empty() && made.iter().all(|host| *host == self.model.address()), "{connections:?}");
    }

    pub(crate) fn verifies(&self, result: &Value) {
        let ran = self.crealeph(&["work", "verify", "--json", result["receipt_path"].as_str().unwrap()]);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    }
}

/// Where `cargo xtask tools` puts the agents.
fn programs() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let programs = target.join("tools/agents/node_modules/.bin");
    for name in ["claude", "codex"] {
        let program = programs.join(name);
        assert!(program.exists(), "`{}` is not there; run `cargo xtask tools`", program.display());
    }
    programs
}
