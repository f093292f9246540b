//! The features that this machine offers a sandbox. Owns the list that `crealeph doctor` shows: each feature, whether it is
//! available, what it gives and how to get it. Refuses to guess: it tries every feature that can be tried.

use serde::Serialize;

use crate::error::SandboxError;
use crate::jailer::survey::{FREE_SOCKETS, SOCKET_CHARGE};
use crate::outcome::Layer;
use crate::sandbox::{Sandbox, refusal};
use crate::spec::{ResourceLimits, Spec};
use crate::sys;
use crate::wire::{Failure, SetupStep};

/// One thing a sandbox can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Whether it works here.
    pub present: bool,
    /// Whether full strength needs it.
    pub needed: bool,
    /// What it gives.
    pub gives: &'static str,
    /// What was found.
    pub detail: String,
    /// How to get it, if it is missing.
    pub advice: Option<String>,
}

/// How setting up a sandbox ended.
struct Probe {
    failure: Option<Failure>,
}

impl Probe {
    const NAMESPACES: [SetupStep; 5] = [
        SetupStep::Namespaces,
        SetupStep::IdMap,
        SetupStep::Loopback,
        SetupStep::Privileges,
        SetupStep::Request,
    ];
    const ROOT: [SetupStep; 3] = [SetupStep::RootFileSystem, SetupStep::Proc, SetupStep::Grant];
    const SECCOMP: [SetupStep; 1] = [SetupStep::Seccomp];

    /// The failure, if it was in one of these steps.
    fn failed(&self, steps: &[SetupStep]) -> Option<&Failure> {
        self.failure.as_ref().filter(|failure| steps.contains(&failure.step))
    }

    fn advice(&self, steps: &[SetupStep]) -> Option<String> {
        match self.failed(steps).map(refusal)? {
            SandboxError::Refused { missing } => missing.first().map(|missing| missing.advice.clone()),
            other => Some(other.to_string()),
        }
    }

    /// What separates a program from the machine; `user` says as whom it runs.
    fn isolation(&self, user: &str) -> Vec<Feature> {
        let groups: [(_, &[SetupStep], _, &str); 3] = [
            (
                "namespaces",
                &Self::NAMESPACES,
                "separate processes, mounts, IPC, host name, network and ids",
                user,
            ),
            (
                "root_file_system",
                &Self::ROOT,
                "only granted paths of the machine are visible",
                "a private root, /proc and /dev",
            ),
            (
                "seccomp",
                &Self::SECCOMP,
                "blocks system calls that programs rarely need",
                "the filter compiles and installs",
            ),
        ];
        let feature = |(name, steps, gives, good): (_, &[SetupStep], _, &str)| {
            let failure = self.failed(steps);
            let detail = failure.map(|failure| format!("{}: {}", failure.detail, failure.source()));
            Feature {
                name,
                present: failure.is_none(),
                needed: true,
                gives,
                detail: detail.unwrap_or_else(|| good.to_owned()),
                advice: self.advice(steps),
            }
        };
        groups.map(feature).into()
    }

    fn watchdog(&self) -> Feature {
        Feature {
            name: "watchdog",
            present: self.failed(&Self::ROOT).is_none() && self.failed(&Self::NAMESPACES).is_none(),
            needed: true,
            gives: "limits on the tree's memory, processes, CPU time and disk without cgroups",
            detail: format!(
                "sums /proc from inside; socket buffers can take another {} MiB with the default limits",
                escaping_socket_bytes() >> 20
            ),
            advice: self.advice(&[SetupStep::Proc]),
        }
    }
}

impl Sandbox {
    /// Tries everything a sandbox can use.
    ///
    /// # Errors
    /// If the state directory cannot be used.
    pub fn features(&self) -> Result<Vec<Feature>, SandboxError> {
        let spec = Spec::new(["true"]);
        let mut request = self.plan(&spec, &[], None)?;
        request.probe = true;
        let probe = Probe { failure: self.probe(&spec, &request).err() };
        let kernel = rustix::system::uname();
        let mut features = vec![Feature {
            name: "kernel",
            present: true,
            needed: true,
            gives: "Linux 5.12 or newer has every call the sandbox makes",
            detail: kernel.release().to_string_lossy().into_owned(),
            advice: None,
        }];
        features.extend(probe.isolation(&self.runs_as()));
        features.push(probe.watchdog());
        features.push(landlock());
        features.push(self.cgroups());
        features.push(self.overlay());
        Ok(features)
    }

    fn runs_as(&self) -> String {
        match self.ids() {
            Some((uid, gid)) => format!("started as root, runs as {uid}:{gid} outside"),
            None => format!("started as and runs as uid {} outside", rustix::process::geteuid().as_raw()),
        }
    }

    fn cgroups(&self) -> Feature {
        let layer = self.cgroup_layer();
        let detail = match layer {
            Some(Layer::CgroupV2) => "version 2, memory and pids delegated",
            Some(_) => "version 1, memory",
            None => "none can be created below ours",
        };
        let advice = layer.is_none().then(|| {
            "run as root where cgroups are of version 1, or in a group of version 2 that has `memory` and `pids` on for its children".to_owned()
        });
        Feature {
            name: "cgroups",
            present: layer.is_some(),
            needed: false,
            gives: "an exact memory limit enforced by the kernel",
            detail: detail.to_owned(),
            advice,
        }
    }

    fn overlay(&self) -> Feature {
        let (present, detail) = match self.why_copy(self.state_folder()) {
            Ok(None) => (true, "mounts in a user namespace".to_owned()),
            Ok(Some(why)) => (false, why),
            Err(error) => (false, error.to_string()),
        };
        let advice = (!present).then(|| {
            "needs Linux 5.11 with overlayfs, and a state directory that is not itself on overlayfs; until then views are plain copies".to_owned()
        });
        Feature {
            name: "overlayfs",
            present,
            needed: false,
            gives: "views whose cost does not grow with the directory",
            detail,
            advice,
        }
    }
}

/// What socket buffers can hold beyond the watchdog's view: the sockets that are not charged, and those whose only
/// descriptor is in flight through another one.
fn escaping_socket_bytes() -> u64 {
    let in_flight = u64::from(ResourceLimits::default().open_files);
    FREE_SOCKETS.saturating_add(in_flight).saturating_mul(SOCKET_CHARGE)
}

fn landlock() -> Feature {
    let abi = sys::landlock_abi();
    Feature {
        name: "landlock",
        present: abi > 0,
        needed: false,
        gives: "a second, independent restriction of writes and signals",
        detail: if abi > 0 { format!("ABI {abi}") } else { "not in this kernel".to_owned() },
        advice: (abi == 0).then(|| "Linux 5.13 with `landlock` in the `lsm=` boot parameter".to_owned()),
    }
}
