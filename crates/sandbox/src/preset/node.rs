//! Node.js: the interpreter from the `PATH` or a version manager, with npm's cache. Package managers that corepack
//! provides come with its cache.

use std::path::Path;

use super::machine::{Machine, Manager, first_line, missing, tool_version};
use crate::error::SandboxError;
use crate::settings;
use crate::spec::{GrantedPath, Grants};

const MANAGERS: &[Manager] = &[
    Manager {
        variable: "NVM_DIR",
        folder: ".nvm",
        shims: "",
        versions: "versions/node",
        default: Some("alias/default"),
    },
    Manager {
        variable: "NODENV_ROOT",
        folder: ".nodenv",
        shims: "shims",
        versions: "versions",
        default: Some("version"),
    },
    Manager {
        variable: "VOLTA_HOME",
        folder: ".volta",
        shims: "bin",
        versions: "tools/image/node",
        default: None,
    },
    Manager {
        variable: "ASDF_DATA_DIR",
        folder: ".asdf",
        shims: "shims",
        versions: "installs/nodejs",
        default: None,
    },
    Manager {
        variable: "MISE_DATA_DIR",
        folder: ".local/share/mise",
        shims: "shims",
        versions: "installs/node",
        default: None,
    },
];

impl Machine {
    /// The interpreter, in the version that the files of a folder ask for if it is installed.
    pub(super) fn node(&self, folder: Option<&Path>) -> Result<Grants, SandboxError> {
        let asked = folder.and_then(|folder| {
            let named =
                [".nvmrc", ".node-version"].into_iter().find_map(|file| first_line(&folder.join(file)));
            named.or_else(|| tool_version(&folder.join(".tool-versions"), "nodejs "))
        });
        let on_path = self.on_path("node").filter(|program| !self.is_shim(program, MANAGERS));
        let managed = || self.managed("node", MANAGERS, asked.as_deref());
        let program = on_path.or_else(managed).ok_or_else(|| missing("node"))?;
        let mut grants = Grants::default();
        self.add_program(&mut grants, &program);
        // Next to it are npm's logs, with its command lines.
        let cache = self.folder("npm_config_cache", ".npm").join("_cacache");
        self.add_cache(&mut grants, &cache, ".npm/_cacache");
        let corepack = self.folder("COREPACK_HOME", ".cache/node/corepack");
        if corepack.is_dir() {
            grants.read.push(GrantedPath {
                from: corepack,
                at: Path::new(crate::spec::HOME).join(".cache/node/corepack"),
            });
        }
        self.seed(&mut grants, &self.home().join(".npmrc"), ".npmrc", settings::npm);
        grants.env.insert("npm_config_update_notifier".into(), "false".into());
        Ok(grants)
    }
}
