//! `cargo xtask bench sandbox`: the sandbox against bubblewrap and a bare spawn, and views over small and large
//! trees, in one run. The kinds of spawn take turns, so that other load on the machine affects all of them alike.
//! Needs bubblewrap (Debian package `bubblewrap`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement: it ends at the first surprise"
)]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crealeph_sandbox::{Cancel, Cgroups, Config, Mount, Sandbox, Spec};

const ROUNDS: usize = 200;
const VIEW_ROUNDS: usize = 100;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

fn bare() {
    let status =
        Command::new("/usr/bin/true").stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap().status;
    assert!(status.success());
}

/// The same namespaces, directories and privileges as ours; bubblewrap has neither limits nor a watchdog, and
/// no filter unless it is given one.
fn bubblewrap() {
    let arguments = "--unshare-all --die-with-parent --new-session --uid 1000 --gid 1000 --hostname sandbox \
        --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
        --ro-bind /etc/alternatives /etc/alternatives --ro-bind /etc/ssl/certs /etc/ssl/certs --ro-bind /etc/ld.so.cache /etc/ld.so.cache \
        --proc /proc --dev /dev --tmpfs /dev/shm --tmpfs /tmp --tmpfs /home/agent --chdir /home/agent --cap-drop ALL --clearenv /usr/bin/true";
    let output = Command::new("bwrap").args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn ours(sandbox: &Sandbox) {
    let outcome = sandbox.run(&Spec::new(["/usr/bin/true"]), &Cancel::new().unwrap()).unwrap();
    assert!(outcome.succeeded(), "{outcome:?}");
}

fn fill(directory: &Path, files: usize) {
    for index in 0..files {
        let folder = directory.join(format!("{}", index / 1000));
        if index % 1000 == 0 {
            std::fs::create_dir_all(&folder).unwrap();
        }
        std::fs::write(folder.join(format!("{index}")), b"x").unwrap();
    }
}

/// Opening a view, a run in it with its changes read, and dropping it, for each size in turn.
fn views(sandbox: &Sandbox, folder: &Path) {
    let sizes = [1_000, 100_000];
    let trees = sizes.map(|files| folder.join(format!("tree-{files}")));
    for (files, tree) in sizes.iter().zip(&trees) {
        std::fs::create_dir(tree).unwrap();
        fill(tree, *files);
        drop(sandbox.open_view(tree).unwrap());
    }
    // Pending writes to disk must not disturb the timing of the views.
    assert!(Command::new("sync").status().unwrap().success());
    let mut times = [const { (Vec::new(), Vec::new(), Vec::new()) }; 2];
    for _ in 0..VIEW_ROUNDS {
        for (tree, (opens, runs, drops)) in trees.iter().zip(&mut times) {
            let start = Instant::now();
            let view = sandbox.open_view(tree).unwrap();
            opens.push(start.elapsed());
            let mut spec = Spec::new(["/usr/bin/touch", "0/new"]);
            spec.views.push(Mount { view: &view, at: "/project".into() });
            spec.cwd = Some("/project".into());
            runs.push(time(|| {
                assert!(sandbox.run(&spec, &Cancel::new().unwrap()).unwrap().succeeded());
                assert_eq!(view.changes().unwrap().len(), 1);
            }));
            drops.push(time(|| drop(view)));
        }
    }
    println!("views, median of {VIEW_ROUNDS}, turns taken");
    for (files, (opens, runs, drops)) in sizes.iter().zip(times) {
        let [open, run, drop] = [opens, runs, drops].map(|list| median(list).as_secs_f64() * 1e3);
        println!(
            "  {files:>6} files: open {open:.3} ms, run in it and read its changes {run:.3} ms, drop {drop:.3} ms"
        );
    }
}

fn main() -> ExitCode {
    crealeph_sandbox::helper_main_if_requested();
    if Command::new("bwrap").arg("--version").output().is_err() {
        eprintln!("bubblewrap is missing; install it, then run this again:\n  apt-get install bubblewrap");
        return ExitCode::from(2);
    }
    let folder = std::env::temp_dir().join(format!("crealeph-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let with_cgroups = Sandbox::new(Config::new(folder.join("state"))).unwrap();
    let mut config = Config::new(folder.join("state"));
    config.cgroups = Cgroups::Off;
    let without = Sandbox::new(config).unwrap();
    let (mut bares, mut wraps, mut full, mut full_cgroups) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS + 10 {
        let times = [time(bare), time(bubblewrap), time(|| ours(&without)), time(|| ours(&with_cgroups))];
        if round >= 10 {
            let [a, b, c, d] = times;
            bares.push(a);
            wraps.push(b);
            full.push(c);
            full_cgroups.push(d);
        }
    }
    let (bare, wrap, full, full_cgroups) = (median(bares), median(wraps), median(full), median(full_cgroups));
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    println!("spawn of `true`, median of {ROUNDS}, turns taken");
    println!("  bare spawn             {:>9.3} ms", bare.as_secs_f64() * 1e3);
    println!("  bubblewrap             {:>9.3} ms", wrap.as_secs_f64() * 1e3);
    println!(
        "  full strength          {:>9.3} ms  {:.2} of bubblewrap, {:.1} of bare",
        full.as_secs_f64() * 1e3,
        ratio(full, wrap),
        ratio(full, bare)
    );
    println!(
        "  full, cgroups besides  {:>9.3} ms  {:.2} of bubblewrap, {:.1} of bare",
        full_cgroups.as_secs_f64() * 1e3,
        ratio(full_cgroups, wrap),
        ratio(full_cgroups, bare)
    );

    views(&without, &folder);
    drop((with_cgroups, without));
    let _ = std::fs::remove_dir_all(&folder);
    ExitCode::SUCCESS
}
