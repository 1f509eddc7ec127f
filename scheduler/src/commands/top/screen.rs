//! The terminal, which is as it was before once this is dropped.

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::Frame;

/// A terminal that a program has for itself. A panic gives it back, too, before its message is
/// printed.
#[derive(Debug)]
pub struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If there is none.
    pub fn open() -> anyhow::Result<Self> {
        let opened = ratatui::try_init();
        opened.map(Screen).inspect_err(|_| ratatui::restore()).context("the terminal can't be used")
    }

    /// Paints a picture. Only what differs from the one before is written.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn paint(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        self.0.draw(picture).map(drop).context("the terminal can't be written to")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone takes nothing back.
        self.0.show_cursor().ok();
        // After a panic, its message is on the screen that was given back before.
        if !std::thread::panicking() {
            ratatui::try_restore().ok();
        }
    }
}
