//! What a person sees at a real terminal: progress that is drawn over itself, colours, `--watch`.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::gate::Gate;
use crate::many::wait_until;
use crate::world::{World, item};

const ROWS: u16 = 24;
const CONTROL_C: &[u8] = b"\x03";
/// How long a screen may stay as it is before the test gives up.
const PATIENCE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// A command at its own terminal.
struct Terminal {
    child: Child,
    controller: File,
    line: File,
    screen: vt100::Parser,
}

impl Terminal {
    fn start(command: &Command, columns: u16) -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let line = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        // The first argument of setsid makes the terminal that of the command, so that Ctrl-C reaches it; a shell that runs the tests in
        // the background has it ignored.
        let mut wrapped = Command::new("setsid");
        wrapped
            .args(["--ctty", "env", "--default-signal=INT"])
            .arg(command.get_program())
            .args(command.get_args())
            .env_remove("COLUMNS");
        wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        wrapped.current_dir(command.get_current_dir().unwrap());
        let end = || line.try_clone().unwrap();
        wrapped.stdin(end()).stdout(end()).stderr(end());
        let screen = vt100::Parser::new(ROWS, columns, 1_000);
        resize(&line, columns);
        let child = wrapped.spawn().unwrap();
        Terminal { child, controller: controller.into(), line, screen }
    }

    /// Makes the screen narrower or wider, as a terminal does that breaks its lines again.
    fn resize(&mut self, columns: u16) {
        let contents = self.screen.screen().contents().replace('\n', "\r\n");
        self.screen = vt100::Parser::new(ROWS, columns, 1_000);
        self.screen.process(format!("{contents}\r\n").as_bytes());
        resize(&self.line, columns);
    }

    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads until the screen is as it should be; `always` holds after each piece.
    fn until(&mut self, is_there: impl Fn(&str) -> bool, always: impl Fn(&str)) {
        let mut bytes = [0; 64 << 10];
        while !is_there(&self.text()) {
            let mut ready = [PollFd::new(&self.controller, PollFlags::IN)];
            let count = poll(&mut ready, Some(&PATIENCE)).unwrap();
            assert!(count > 0, "the screen stays\n{}", self.text());
            let read = self.controller.read(&mut bytes).unwrap_or(0);
            assert!(read > 0, "the command ended with\n{}", self.text());
            self.screen.process(&bytes[..read]);
            always(&self.text());
        }
    }

    fn press(&mut self, key: &[u8]) {
        self.controller.write_all(key).unwrap();
    }

    /// Everything up to the end of the command.
    fn end(mut self, always: impl Fn(&str)) -> (ExitStatus, vt100::Parser) {
        let Terminal { child, controller, line, screen } = &mut self;
        let status = child.wait().unwrap();
        // With the last end of the line closed, what is left can be read to its end.
        *line = File::open("/dev/null").unwrap();
        let mut bytes = [0; 64 << 10];
        while let Ok(read @ 1..) = controller.read(&mut bytes) {
            screen.process(&bytes[..read]);
            always(&screen.screen().contents());
        }
        (status, self.screen)
    }
}

fn resize(line: &File, columns: u16) {
    tcsetwinsize(line, Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

fn at_most_once(screen: &str, words: &[&str]) {
    for word in words {
        assert!(screen.matches(word).count() <= 1, "`{word}` is repeated:\n{screen}");
    }
}

/// The colour of a word on the screen.
fn colour(screen: &vt100::Screen, word: &str) -> vt100::Color {
    let (_, columns) = screen.size();
    let rows = screen.rows(0, columns).collect::<Vec<_>>();
    let place =
        rows.iter().zip(0u16..).find_map(|(row, at)| Some((at, u16::try_from(row.find(word)?).unwrap())));
    let (row, column) = place.unwrap_or_else(|| panic!("no `{word}`:\n{}", screen.contents()));
    screen.cell(row, column).unwrap().fgcolor()
}

#[test]
fn progress_on_a_narrow_screen_is_drawn_over_itself() {
    for (columns, later) in [(60, 60), (80, 45), (30, 100)] {
        let gate = Gate::new();
        let world = World::with(&gate.agents());
        let script = format!("{}; echo x > made", gate.wait());
        let slow = item("an-item-with-a-name-that-is-longer-than-its-column", &script);
        let path = world.items(&[slow, item("short", "echo y > y")]);
        let mut terminal = Terminal::start(&world.command(&["work", "run", &path, "--jobs", "2"]), columns);
        let once = |screen: &str| at_most_once(screen, &["level 1 of 1", "an-item", "  short "]);
        let is_at = |seconds: u8| {
            move |screen: &str| {
                let figures = format!("working  {seconds:>4} s");
                ["level 1 of 1", "short", &figures].iter().all(|words| screen.contains(words))
            }
        };
        terminal.until(is_at(1), once);
        terminal.resize(later);
        terminal.until(is_at(3), once);
        gate.open();
        let (status, screen) = terminal.end(|screen| at_most_once(screen, &["level 1 of 1"]));
        assert_eq!(status.code(), Some(0));
        let screen = screen.screen().contents();
        assert!(!screen.contains("level 1") && !screen.contains("working"), "{screen}");
        assert_eq!(screen.matches("success").count(), 2, "{screen}");
    }
}

#[test]
fn an_interruption_is_reported_next_to_the_progress() {
    let gate = Gate::new();
    let world = World::with(&gate.agents());
    let path = world.items(&[item("w", &gate.wait())]);
    let mut terminal = Terminal::start(&world.command(&["work", "run", &path]), 60);
    terminal.until(|screen| screen.contains("working"), |_| {});
    terminal.press(CONTROL_C);
    let (status, screen) = terminal.end(|screen| at_most_once(screen, &["level 1 of 1", "interrupting"]));
    assert_eq!(status.code(), Some(130));
    let screen = screen.screen().contents();
    for words in
        ["interrupting; press Ctrl-C again to exit immediately", "interrupted; the same command resumes"]
    {
        assert_eq!(screen.matches(words).count(), 1, "{screen}");
    }
    assert!(!screen.contains("level 1") && !screen.contains("working"), "{screen}");
}

#[test]
fn statuses_have_colour_on_a_terminal_alone() {
    let world = World::new();
    world.run_one(item("good", "echo x > x"));
    world.run_one(item("bad", "exit 3"));
    let show = |arguments: &[&str], no_color: &str| {
        let mut command = world.command(arguments);
        command.env("NO_COLOR", no_color);
        let (status, screen) = Terminal::start(&command, 80).end(|_| {});
        assert!(status.success());
        screen
    };
    let (green, red) = (vt100::Color::Idx(2), vt100::Color::Idx(1));
    let screen = show(&["work", "status"], "");
    assert_eq!((colour(screen.screen(), "success"), colour(screen.screen(), "failure")), (green, red));
    assert_eq!(colour(screen.screen(), "good: "), vt100::Color::Default);
    assert_eq!(colour(show(&["work", "show", "bad"], "").screen(), "failure"), red);
    for arguments in [["work", "status", "-t"], ["work", "show", "bad"]] {
        assert_eq!(colour(show(&arguments, "1").screen(), "failure"), vt100::Color::Default);
        let piped = world.command(&arguments).env("CREALEPH_OUTPUT", "text").output().unwrap().stdout;
        assert!(!piped.contains(&0x1b), "{}", String::from_utf8_lossy(&piped));
    }
}

#[test]
fn a_watched_list_follows_its_runs_and_leaves_the_terminal_as_it_was() {
    let gate = Gate::new();
    let world = World::with(&gate.agents());
    world.run_one(item("first", "echo x > x"));
    let path = world.items(&[item("second", &format!("{}; echo y > y", gate.wait()))]);
    let mut run = world.command(&["work", "run", &path]).stdout(Stdio::null()).spawn().unwrap();
    wait_until(&world, "second", "running");
    let mut terminal = Terminal::start(&world.command(&["work", "status", "--watch"]), 60);
    let before = tcgetattr(&terminal.line).unwrap();
    let once = |screen: &str| at_most_once(screen, &["first: ", "second: ", "Ctrl-C ends this"]);
    terminal.until(|screen| screen.contains("running") && screen.contains("Ctrl-C"), once);
    assert_eq!(colour(terminal.screen.screen(), "running"), vt100::Color::Idx(4));
    gate.open();
    terminal.until(|screen| screen.matches("success").count() == 2 && screen.contains("Ctrl-C"), once);
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let third = ["third"].map(|id| item(id, "echo z > z"));
    assert_eq!(world.run(&third, &[]).code, 0);
    terminal.until(|screen| screen.contains("third: ") && screen.contains("3 runs"), once);
    let after = tcgetattr(&terminal.line).unwrap();
    terminal.press(CONTROL_C);
    let (status, screen) = terminal.end(once);
    assert_eq!(status.signal().or(status.code().map(|code| code - 128)), Some(2), "{status}");
    assert!(!screen.screen().hide_cursor() && !screen.screen().alternate_screen());
    assert_eq!(
        (before.local_modes, before.input_modes, before.output_modes),
        (after.local_modes, after.input_modes, after.output_modes)
    );
    assert!(screen.screen().contents().contains("third: "), "the last list stays");
}
