//! One run, from the started helper to the outcome. Owns the parent's half: the outputs, the clock, the proxy,
//! the end. Refuses to return while a process of the tree is alive.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::cancel::Cancel;
use crate::capture::{Capture, Sink};
use crate::cgroup::Cgroup;
use crate::error::SandboxError;
use crate::network::{GrantedHosts, ProxiedConnection, Proxy};
use crate::outcome::{Captured, Cut, Level, Missing, SandboxOutcome, Strength, Usage};
use crate::redact::Redactor;
use crate::sandbox::{Output, Stream, refusal};
use crate::spec::{Network, ResourceLimits, Spec};
use crate::starter::Starter;
use crate::state::OwnerFolder;
use crate::stdin::{Feed, Pump};
use crate::wire::{self, Failure, Message, Report, Request, TERMINATE};

/// How long the inner half may take to answer after it was asked to end.
const LAST_ANSWER: Duration = Duration::from_secs(2);
const KILL: u8 = b'K';

/// A started helper.
pub(crate) struct Run {
    control: UnixStream,
    /// At its end once the outer half is gone.
    life: OwnedFd,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// Feeds standard input while the run lasts.
    _pump: Option<Pump>,
    started: Instant,
}

/// The result once everything is dead.
pub(crate) struct Ended {
    pub(crate) message: Option<Message>,
    cut: Option<Cut>,
    stdout: Captured,
    stderr: Captured,
    trace: Captured,
    connections: Vec<ProxiedConnection>,
    connections_left_off: u64,
    wall: Duration,
}

impl Run {
    pub(crate) fn start(
        starter: &Starter,
        state: &OwnerFolder,
        spec: &Spec<'_>,
        request: &Request,
    ) -> Result<Self, SandboxError> {
        let failed = |step: &'static str| {
            move |source: io::Error| SandboxError::Setup { step: step.to_owned(), source }
        };
        let started = Instant::now();
        let stdin = Feed::open(&spec.stdin).map_err(failed("standard input"))?;
        let (mut control, theirs) = UnixStream::pair().map_err(failed("the control socket"))?;
        let (stdout, stdout_write) = pipe().map_err(failed("standard output"))?;
        let (stderr, stderr_write) = pipe().map_err(failed("standard error"))?;
        let (life, life_write) = pipe().map_err(failed("the pipe that shows its end"))?;
        // The request waits in the socket; if it is too long for that, the helper is there to read it.
        let fds = [
            theirs.as_fd(),
            stdout_write.as_fd(),
            stderr_write.as_fd(),
            stdin.read.as_fd(),
            state.lock().as_fd(),
            life_write.as_fd(),
        ];
        starter.start(&fds).map_err(failed("start the helper"))?;
        drop((theirs, stdout_write, stderr_write, life_write, stdin.read));
        let sent = wire::send(&mut control, request);
        let run =
            Self { control, life, stdout: Some(stdout), stderr: Some(stderr), _pump: stdin.pump, started };
        if let Err(error) = sent {
            run.end();
            return Err(failed("send the request")(error));
        }
        Ok(run)
    }

    /// Closes the control socket, so that the outer half ends the tree and itself, and waits for that.
    fn end(&self) {
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        let mut fds = [PollFd::from_borrowed_fd(self.life.as_fd(), PollFlags::IN)];
        while poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
    }

    /// Reads the outputs and watches the clock until everything is dead.
    pub(crate) fn attend(
        mut self,
        spec: &Spec<'_>,
        cancel: &Cancel,
        output: Option<Output<'_>>,
        redactor: &Redactor,
    ) -> Result<Ended, SandboxError> {
        let reading = |stream: Stream, limit_bytes: u64, from: Option<OwnedFd>| Reading {
            from,
            capture: Capture::new(
                limit_bytes,
                redactor.clone(),
                output.map(|output| Sink { output, stream }),
            ),
        };
        let limits = &spec.limits;
        let mut state = Attending {
            stdout: reading(Stream::Stdout, limits.stdout_bytes, self.stdout.take()),
            stderr: reading(Stream::Stderr, limits.stderr_bytes, self.stderr.take()),
            trace: reading(Stream::Trace, limits.trace_bytes, None),
            inbox: Vec::new(),
            passed: VecDeque::new(),
            proxy: None,
            message: None,
            ending: Ending::Running {
                deadline: self.started.checked_add(Duration::from_millis(limits.wall_ms)),
            },
            cut: None,
            buffer: vec![0u8; 64 << 10],
        };
        let attended = self.attend_until_done(spec, cancel, &mut state);
        // In every case, the tree ends now: the outer half exits only when it is dead.
        state.drain();
        self.end();
        state.drain();
        let wall = self.started.elapsed();
        let (connections, connections_left_off) = state.proxy.map(Proxy::finish).unwrap_or_default();
        attended.map_err(|source| SandboxError::Setup { step: "attend the run".to_owned(), source })?;
        Ok(Ended {
            message: state.message,
            cut: state.cut,
            stdout: state.stdout.capture.finish(),
            stderr: state.stderr.capture.finish(),
            trace: state.trace.capture.finish(),
            connections,
            connections_left_off,
            wall,
        })
    }

    fn attend_until_done(
        &mut self,
        spec: &Spec<'_>,
        cancel: &Cancel,
        state: &mut Attending<'_>,
    ) -> io::Result<()> {
        loop {
            let timeout = state.ending.deadline().map(|d| d.saturating_duration_since(Instant::now()));
            let timeout = timeout.map(|t| rustix::event::Timespec {
                tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: t.subsec_nanos().into(),
            });
            let cancellable = matches!(state.ending, Ending::Running { .. });
            let mut fds = vec![PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN)];
            let cancel_at = cancellable.then(|| {
                fds.push(PollFd::from_borrowed_fd(cancel.as_fd(), PollFlags::IN));
                fds.len().saturating_sub(1)
            });
            let open = state.readings().into_iter().filter_map(|reading| reading.from.as_ref());
            fds.extend(open.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
            let (said, cancelled) = (ready(0), cancel_at.is_some_and(ready));
            drop(fds);
            state.drain();
            if said && !state.listen(self, spec)? {
                return Ok(());
            }
            if cancelled {
                state.cut = Some(Cut::Cancelled);
                state.ending = Ending::Running { deadline: Some(Instant::now()) };
            }
            if state.ending.deadline().is_some_and(|d| Instant::now() >= d)
                && !state.escalate(&self.control, spec)
            {
                return Ok(());
            }
        }
    }
}

/// How far the end of a run has progressed.
enum Ending {
    Running {
        deadline: Option<Instant>,
    },
    /// SIGTERM was sent.
    Asked {
        deadline: Option<Instant>,
    },
    /// The inner half was ordered to kill everything.
    Ordered {
        deadline: Option<Instant>,
    },
}

impl Ending {
    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Running { deadline } | Self::Asked { deadline } | Self::Ordered { deadline } => *deadline,
        }
    }
}

struct Attending<'s> {
    stdout: Reading<'s>,
    stderr: Reading<'s>,
    trace: Reading<'s>,
    inbox: Vec<u8>,
    passed: VecDeque<OwnedFd>,
    proxy: Option<Proxy>,
    message: Option<Message>,
    ending: Ending,
    cut: Option<Cut>,
    buffer: Vec<u8>,
}

/// One output and its kept part.
struct Reading<'s> {
    /// None before it exists, and once it has ended.
    from: Option<OwnedFd>,
    capture: Capture<'s>,
}

impl Reading<'_> {
    /// Takes the available bytes; false if there were none.
    fn take(&mut self, buffer: &mut [u8]) -> bool {
        let Some(from) = &self.from else { return false };
        match rustix::io::read(from, &mut *buffer) {
            Ok(0) => {
                self.from = None;
                false
            }
            Ok(read) => {
                self.capture.push(buffer.get(..read).unwrap_or_default());
                true
            }
            Err(_) => false,
        }
    }
}

impl Attending<'_> {
    fn readings(&self) -> [&Reading<'_>; 3] {
        [&self.stdout, &self.stderr, &self.trace]
    }

    /// Takes the available bytes of the outputs, a bounded part at a time so that the clock is checked.
    fn drain(&mut self) {
        for _ in 0..16 {
            let outputs = [&mut self.stdout, &mut self.stderr, &mut self.trace];
            let took = outputs.map(|reading| reading.take(&mut self.buffer));
            if took == [false; 3] {
                return;
            }
        }
    }

    /// Handles the messages of the helper; false after the last one.
    fn listen(&mut self, run: &Run, spec: &Spec<'_>) -> io::Result<bool> {
        let read = receive(&run.control, &mut self.buffer, &mut self.passed)?;
        self.inbox.extend_from_slice(self.buffer.get(..read).unwrap_or_default());
        while let Some(message) = wire::take::<Message>(&mut self.inbox)? {
            match message {
                Message::Listening => {
                    if let (Some(fd), Network::Hosts(hosts)) = (self.passed.pop_front(), &spec.network) {
                        let granted =
                            GrantedHosts { hosts: hosts.clone(), may_be_private: spec.private_hosts };
                        self.proxy = Some(Proxy::start(fd.into(), granted)?);
                    }
                }
                Message::Tracing => self.trace.from = self.passed.pop_front(),
                last => {
                    self.message = Some(last);
                    return Ok(false);
                }
            }
        }
        Ok(read != 0)
    }

    /// Takes the next step towards the end; false if the only step left is to drop the helper.
    fn escalate(&mut self, mut control: &UnixStream, spec: &Spec<'_>) -> bool {
        let now = Instant::now();
        let grace = Duration::from_millis(spec.limits.grace_ms);
        match self.ending {
            Ending::Running { .. } => {
                self.cut.get_or_insert(Cut::WallTime { limit_ms: spec.limits.wall_ms });
                let asked = !grace.is_zero() && control.write_all(&[TERMINATE]).is_ok();
                let deadline = if asked { now.checked_add(grace) } else { Some(now) };
                self.ending = Ending::Asked { deadline };
                true
            }
            Ending::Asked { .. } => {
                self.ending = Ending::Ordered { deadline: now.checked_add(LAST_ANSWER) };
                control.write_all(&[KILL]).is_ok()
            }
            Ending::Ordered { .. } => false,
        }
    }
}

impl Ended {
    /// The limits that the run hit; `out_of_memory` is the memory it had when the kernel killed it for that.
    fn cuts(&self, report: &Report, limits: &ResourceLimits, out_of_memory: Option<u64>) -> Vec<Cut> {
        let mut cuts: Vec<Cut> = self.cut.clone().or(report.cut.clone()).into_iter().collect();
        if let Some(seen_bytes) = out_of_memory
            && !cuts.iter().any(|cut| matches!(cut, Cut::Memory { .. }))
        {
            cuts.push(Cut::Memory { limit_bytes: limits.memory_bytes, seen_bytes });
        }
        if report.peak_processes >= limits.processes {
            cuts.push(Cut::Processes { limit: limits.processes });
        }
        if self.stdout.truncated() {
            cuts.push(Cut::Stdout { limit_bytes: limits.stdout_bytes, total_bytes: self.stdout.total_bytes });
        }
        if self.stderr.truncated() {
            cuts.push(Cut::Stderr { limit_bytes: limits.stderr_bytes, total_bytes: self.stderr.total_bytes });
        }
        if self.trace.truncated() {
            cuts.push(Cut::Trace { limit_bytes: limits.trace_bytes, total_bytes: self.trace.total_bytes });
        }
        cuts
    }

    pub(crate) fn into_outcome(
        mut self,
        spec: &Spec<'_>,
        cgroup: Option<&Cgroup>,
        redactor: &Redactor,
    ) -> Result<SandboxOutcome, SandboxError> {
        let (out_of_memory, memory_peak) = cgroup.map(Cgroup::memory_seen).unwrap_or_default();
        let report = match self.message.take() {
            Some(Message::Done(report)) => report,
            Some(Message::Failed(failure)) => return Err(refusal(&failure)),
            // The kernel may kill the helper first when memory runs out; so may we, when time runs out.
            _ if self.cut.is_some() || out_of_memory => Report::default(),
            _ => return Err(SandboxError::HelperLost),
        };
        let peak_memory_bytes = report.peak_memory_bytes.max(memory_peak);
        let cuts = self.cuts(&report, &spec.limits, out_of_memory.then_some(peak_memory_bytes));
        let mut layers = report.layers;
        layers.extend(cgroup.map(Cgroup::layer));
        let missing = missing_parts(&report.missing);
        let level = if missing.is_empty() { Level::Full } else { Level::Reduced };
        let mut connections = self.connections;
        for connection in &mut connections {
            connection.target = redactor.text(&connection.target);
        }
        Ok(SandboxOutcome {
            exit: report.exit,
            stdout: self.stdout,
            stderr: self.stderr,
            trace: self.trace,
            usage: Usage {
                wall_ms: u64::try_from(self.wall.as_millis()).unwrap_or(u64::MAX),
                cpu_ms: report.cpu_us / 1000,
                peak_memory_bytes,
                peak_processes: report.peak_processes,
            },
            cuts,
            connections,
            connections_left_off: self.connections_left_off,
            strength: Strength {
                level,
                layers,
                missing,
                host_network: matches!(spec.network, Network::Host),
            },
        })
    }
}

/// What the failures of accepted steps leave the sandbox without.
fn missing_parts(failures: &[Failure]) -> Vec<Missing> {
    let parts = |failure| match refusal(failure) {
        SandboxError::Refused { missing } => missing,
        _ => Vec::new(),
    };
    failures.iter().flat_map(parts).collect()
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)?;
    Ok((read, write))
}

fn receive(control: &UnixStream, buffer: &mut [u8], passed: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        match recvmsg(control, &mut [io::IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received,
            Err(rustix::io::Errno::CONNRESET) => return Ok(0),
            Err(e) => return Err(e.into()),
        };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            passed.extend(rights);
        }
    }
    Ok(received.bytes)
}
