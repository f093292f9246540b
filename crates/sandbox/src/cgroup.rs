//! cgroup limits if possible: v2 with the controllers delegated, or v1. Owns the directories it
//! creates for a run and removes them; refuses to be required: if no cgroup can be created only the watchdog
//! works and the record says so.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::outcome::Layer;
use crate::spec::ResourceLimits;
use crate::state::OwnerFolder;

const V2_MOUNT: &str = "/sys/fs/cgroup";
const REMOVE_TRIES: u32 = 50;

/// Where this machine lets us create cgroups.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parents {
    v2: Option<PathBuf>,
    /// Processes need no cgroup: the kernel counts them in the sandbox's own user namespace.
    v1_memory: Option<PathBuf>,
}

impl Parents {
    /// Finds the cgroups in which ours can be created, by trying.
    pub(crate) fn find(configured: Option<&Path>, state: &OwnerFolder) -> Self {
        if let Some(directory) = configured {
            let usable = v2_is_usable(directory, state).then(|| directory.to_path_buf());
            return Self { v2: usable, ..Self::default() };
        }
        let Ok(own) = std::fs::read_to_string("/proc/self/cgroup") else { return Self::default() };
        let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return Self::default() };
        let v1 = |controller: &str| {
            let path = own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
                controllers.split(',').any(|c| c == controller).then_some(path)
            })?;
            let (root, mount) = v1_mount(&mounts, controller)?;
            let inside = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
            let directory = Path::new(&mount).join(inside.trim_start_matches('/'));
            can_make(&directory, state).then_some(directory)
        };
        let v2 = own.lines().find_map(|l| l.strip_prefix("0::")).and_then(|path| {
            let directory = Path::new(V2_MOUNT).join(path.trim_start_matches('/'));
            v2_is_usable(&directory, state).then_some(directory)
        });
        if v2.is_some() {
            return Self { v2, ..Self::default() };
        }
        Self { v2: None, v1_memory: v1("memory") }
    }

    /// Which kind is in use.
    pub(crate) fn layer(&self) -> Option<Layer> {
        if self.v2.is_some() {
            Some(Layer::CgroupV2)
        } else {
            self.v1_memory.is_some().then_some(Layer::CgroupV1)
        }
    }
}

/// The parent may contain processes besides ours: the controllers are on for the children.
fn v2_is_usable(directory: &Path, state: &OwnerFolder) -> bool {
    let Ok(on) = std::fs::read_to_string(directory.join("cgroup.subtree_control")) else { return false };
    let has = |name: &str| on.split_whitespace().any(|c| c == name);
    has("memory") && has("pids") && can_make(directory, state)
}

/// Tries; the name is noted first, so that a sweep finds it if we are killed between the two.
fn can_make(directory: &Path, state: &OwnerFolder) -> bool {
    let probe = directory.join(state.cgroup_name());
    let Ok(note) = state.note_cgroups(std::slice::from_ref(&probe)) else { return false };
    let made = std::fs::create_dir(&probe).is_ok();
    let left = made && std::fs::remove_dir(&probe).is_err();
    if !left {
        let _ = std::fs::remove_file(note);
    }
    made && !left
}

/// The root within its hierarchy and the mount point of a v1 controller.
fn v1_mount(mountinfo: &str, controller: &str) -> Option<(String, String)> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = after.split(' ');
        let (kind, _, options) = (fields.next()?, fields.next()?, fields.next()?);
        if kind != "cgroup" || !options.split(',').any(|o| o == controller) {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    })
}

/// The cgroups of one run.
#[derive(Debug)]
pub(crate) struct Cgroup {
    note: PathBuf,
    directories: Vec<PathBuf>,
    memory: Option<PathBuf>,
    layer: Layer,
}

impl Cgroup {
    /// Creates them; none if that is not possible.
    pub(crate) fn make(parents: &Parents, limits: &ResourceLimits, state: &OwnerFolder) -> Option<Self> {
        let layer = parents.layer()?;
        let name = state.cgroup_name();
        let places: Vec<PathBuf> = [&parents.v2, &parents.v1_memory]
            .into_iter()
            .flatten()
            .map(|parent| parent.join(&name))
            .collect();
        let note = state.note_cgroups(&places).ok()?;
        let mut made = Self { note, directories: Vec::new(), memory: None, layer };
        for place in places {
            std::fs::create_dir(&place).ok()?;
            made.directories.push(place);
        }
        made.limit(parents, limits, &name).ok()?;
        Some(made)
    }

    fn limit(&mut self, parents: &Parents, limits: &ResourceLimits, name: &str) -> io::Result<()> {
        // The outer half of the helper is in it too, and pid 1 with its survey.
        let tasks = u64::from(limits.processes).saturating_add(3).to_string();
        let memory = limits.memory_bytes.saturating_add(32 << 20).to_string();
        if let Some(parent) = &parents.v2 {
            let at = parent.join(name);
            std::fs::write(at.join("memory.max"), &memory)?;
            let _ = std::fs::write(at.join("memory.swap.max"), "0");
            let _ = std::fs::write(at.join("memory.oom.group"), "0");
            std::fs::write(at.join("pids.max"), &tasks)?;
            self.memory = Some(at);
        }
        if let Some(parent) = &parents.v1_memory {
            let at = parent.join(name);
            std::fs::write(at.join("memory.limit_in_bytes"), &memory)?;
            let _ = std::fs::write(at.join("memory.memsw.limit_in_bytes"), &memory);
            self.memory = Some(at);
        }
        Ok(())
    }

    pub(crate) fn layer(&self) -> Layer {
        self.layer
    }

    /// Whether the kernel counts the memory of the run, including unmapped shared memory.
    pub(crate) fn counts_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// The files a process writes 0 to in order to join.
    pub(crate) fn joins(&self) -> Vec<PathBuf> {
        // A single thread that moves itself does not wait until every processor of the machine has noticed,
        // which takes `cgroup.procs` some ten milliseconds. Version 2 can only move whole processes.
        let file = if self.layer == Layer::CgroupV1 { "tasks" } else { "cgroup.procs" };
        self.directories.iter().map(|d| d.join(file)).collect()
    }

    /// Whether the kernel killed a process because the memory was used up, and the peak usage.
    pub(crate) fn memory_seen(&self) -> (bool, u64) {
        let Some(at) = &self.memory else { return (false, 0) };
        #[expect(clippy::disallowed_methods, reason = "what the kernel does not report was not seen")]
        let read = |file: &str| std::fs::read_to_string(at.join(file)).unwrap_or_default();
        let kills = |text: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix("oom_kill "));
            line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let peak = |text: String| text.trim().parse::<u64>().unwrap_or(0);
        if self.layer == Layer::CgroupV2 {
            (kills(&read("memory.events")) > 0, peak(read("memory.peak")))
        } else {
            (kills(&read("memory.oom_control")) > 0, peak(read("memory.max_usage_in_bytes")))
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let left = self.directories.iter().filter(|directory| !remove(directory)).count();
        if left == 0 {
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// Removes a cgroup, killing its processes; gives up after a while and leaves it to the next sweep. Returns whether it is gone.
pub(crate) fn remove(directory: &Path) -> bool {
    let mut pause = Duration::from_micros(200);
    for _ in 0..REMOVE_TRIES {
        match std::fs::remove_dir(directory) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {}
            Err(e) => return e.kind() == io::ErrorKind::NotFound,
            Ok(()) => return true,
        }
        #[expect(clippy::disallowed_methods, reason = "it may be gone by now, which the next try says")]
        let inside = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines().filter_map(|l| l.parse().ok()).filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        // Usually a process that has almost ended.
        std::thread::sleep(pause);
        pause = pause.saturating_mul(2).min(Duration::from_millis(10));
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    /// Against a folder that looks like a delegated v2 group: the machines that run this have their controllers in v1.
    #[test]
    fn version_2_is_limited_joined_and_read() {
        let base = std::env::temp_dir().join(format!("crealeph-cgroup-{}", std::process::id()));
        let group = base.join("group");
        std::fs::create_dir_all(&group).unwrap();
        let state = OwnerFolder::open(&base.join("state")).unwrap();
        for (controllers, expected) in
            [("cpu memory\n", None), ("cpu pids\n", None), ("cpu memory pids\n", Some(Layer::CgroupV2))]
        {
            std::fs::write(group.join("cgroup.subtree_control"), controllers).unwrap();
            assert_eq!(Parents::find(Some(&group), &state).layer(), expected, "{controllers}");
        }
        let parents = Parents::find(Some(&group), &state);
        let limits = ResourceLimits { memory_bytes: 64 << 20, processes: 7, ..ResourceLimits::default() };
        let made = Cgroup::make(&parents, &limits, &state).unwrap();
        let [join] = <[PathBuf; 1]>::try_from(made.joins()).unwrap();
        let own = join.parent().unwrap();
        assert_eq!(
            (join.file_name().unwrap(), own.parent().unwrap()),
            ("cgroup.procs".as_ref(), group.as_path())
        );
        let read = |name: &str| std::fs::read_to_string(own.join(name)).unwrap();
        assert_eq!(read("memory.max"), ((64u64 << 20) + (32 << 20)).to_string());
        assert_eq!((read("memory.swap.max").as_str(), read("pids.max").as_str()), ("0", "10"));
        assert_eq!(made.memory_seen(), (false, 0));
        std::fs::write(own.join("memory.events"), "low 0\nmax 12\noom 1\noom_kill 2\n").unwrap();
        std::fs::write(own.join("memory.peak"), "4096\n").unwrap();
        assert_eq!(made.memory_seen(), (true, 4096));
        drop((made, state));
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn the_mount_of_a_v1_controller_is_found() {
        let mountinfo = "\
30 28 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
31 28 0:27 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
32 28 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,memory\n";
        let found = v1_mount(mountinfo, "memory");
        assert_eq!(found, Some(("/docker/x".to_owned(), "/sys/fs/cgroup/memory".to_owned())));
        assert_eq!(v1_mount(mountinfo, "pids"), None);
    }
}
