//! A terminal as a person has it: a program runs on it, keys go in, and the screen can be read.

use crate::patience::{until, within};
use crate::process::Program;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use tokio::process::{Child, Command};

/// A program on a terminal of its own. Dropping it kills the program.
pub struct Terminal {
    child: Child,
    /// The system's end of the terminal: the program's output is read here, and keys are written
    /// here.
    system: File,
    /// The program's end. It stays open, so that the screen can be read after the program has
    /// ended.
    program: File,
    before: Termios,
    screen: Arc<Mutex<Screen>>,
}

/// What was written so far.
struct Screen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

/// Columns and rows.
pub type TerminalSize = (u16, u16);

fn winsize((columns, rows): TerminalSize) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn positive(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a terminal has rows and columns")
}

impl Terminal {
    /// Runs `program` on a terminal of this size.
    ///
    /// # Panics
    /// If it can't be run.
    #[must_use]
    pub fn run(program: Program, arguments: &[&str], environment: &[(&str, &str)], size: TerminalSize) -> Self {
        let system = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&system).unwrap();
        unlockpt(&system).unwrap();
        tcsetwinsize(&system, winsize(size)).unwrap();
        let path = ptsname(&system, Vec::new()).unwrap().into_string().unwrap();
        let end = File::options().read(true).write(true).open(path).unwrap();
        let stdio = || Stdio::from(end.try_clone().unwrap());
        // A session of its own, whose terminal this is: it hears of other sizes.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait", program])
            .args(arguments)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color");
        command.envs(environment.iter().copied()).stdin(stdio()).stdout(stdio()).stderr(stdio()).kill_on_drop(true);
        let before = tcgetattr(&end).unwrap();
        let system = File::from(system);
        let parser = vt100::Parser::new(positive(size.1), positive(size.0), 0);
        let screen = Arc::new(Mutex::new(Screen { parser, bytes: Vec::new() }));
        read_on(system.try_clone().unwrap(), Arc::clone(&screen));
        Terminal { child: command.spawn().unwrap(), system, program: end, before, screen }
    }

    /// Presses keys, as the bytes that they send.
    ///
    /// # Panics
    /// If the terminal takes nothing.
    pub fn press(&mut self, keys: &str) {
        self.system.write_all(keys.as_bytes()).unwrap();
    }

    /// Makes the terminal larger or smaller.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn resize(&mut self, size: TerminalSize) {
        self.screen.lock().unwrap().parser.screen_mut().set_size(positive(size.1), positive(size.0));
        tcsetwinsize(&self.system, winsize(size)).unwrap();
    }

    /// The lines of the screen.
    ///
    /// # Panics
    /// If the reader of the terminal has failed.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let screen = self.screen.lock().unwrap();
        let (_, columns) = screen.parser.screen().size();
        screen.parser.screen().rows(0, columns.get()).map(|line| line.trim_end().to_owned()).collect()
    }

    /// The lines of the screen, as soon as they are as `is_right` says.
    ///
    /// # Panics
    /// If they never are; the message has them.
    pub async fn shows(&self, what: &str, is_right: impl Fn(&[String]) -> bool) -> Vec<String> {
        let looking = until(what, async || Some(self.lines()).filter(|lines| is_right(lines)));
        let shown = tokio::time::timeout(crate::patience::STEP_TIMEOUT / 2, looking).await;
        shown.unwrap_or_else(|_| panic!("{what}:\n{}", self.lines().join("\n")))
    }

    /// The lines of the screen, as soon as one of them has this text.
    ///
    /// # Panics
    /// If none ever has.
    pub async fn shows_text(&self, text: &str) -> Vec<String> {
        self.shows(text, |lines| lines.iter().any(|line| line.contains(text))).await
    }

    /// All that was ever written, with its control sequences.
    ///
    /// # Panics
    /// If the reader of the terminal has failed.
    #[must_use]
    pub fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap().bytes).into_owned()
    }

    /// How the program ends.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn ended(&mut self) -> ExitStatus {
        within("the program on the terminal ends", self.child.wait()).await.unwrap()
    }

    /// Checks that the terminal is as it was before the program.
    ///
    /// # Panics
    /// If it is not: keys are not echoed, the other screen is shown, or no cursor.
    pub async fn is_as_before(&self) {
        let now = tcgetattr(&self.program).unwrap();
        assert_eq!(now.local_modes, self.before.local_modes, "keys are read by lines and echoed");
        assert_eq!((now.input_modes, now.output_modes), (self.before.input_modes, self.before.output_modes));
        self.shows_nothing_of_the_program().await;
    }

    async fn shows_nothing_of_the_program(&self) {
        until("the first screen and a cursor", async || {
            let screen = self.screen.lock().unwrap();
            let is_own = !screen.parser.screen().alternate_screen() && !screen.parser.screen().hide_cursor();
            is_own.then_some(())
        })
        .await;
    }

    /// The id of the program's process: `setsid` starts it in its own place.
    ///
    /// # Panics
    /// If it has ended.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }
}

/// Reads what is written until the terminal is closed.
fn read_on(mut system: File, screen: Arc<Mutex<Screen>>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read) = system.read(&mut bytes) {
            let mut screen = screen.lock().unwrap();
            screen.parser.process(&bytes[..read]);
            screen.bytes.extend_from_slice(&bytes[..read]);
            if read == 0 {
                return;
            }
        }
    });
}
